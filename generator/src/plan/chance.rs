//! A chance, in whole billionths: as plans write it (`"0.1%"` or `0.001`), and as it is drawn.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};

/// A chance between never and always, in billionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chance(u32);

/// A chance as it is written: a text with a percent sign or none, or a number. Its meaning is read by [`Chance::from_str`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ChanceText(pub(super) String);

impl Chance {
    /// It always happens.
    pub const ALWAYS: Self = Self(Self::PARTS);

    /// Parts of the whole: draws are among so many.
    pub const PARTS: u32 = 1_000_000_000;

    /// The chance of so many billionths, if that is no more than always.
    #[must_use]
    pub const fn new(billionths: u32) -> Option<Self> {
        if billionths <= Self::PARTS { Some(Self(billionths)) } else { None }
    }

    /// It in billionths.
    #[must_use]
    pub const fn billionths(self) -> u32 {
        self.0
    }

    /// Whether a draw evenly among [`Self::PARTS`] says yes.
    #[must_use]
    pub fn has(self, draw: u64) -> bool {
        draw < u64::from(self.0)
    }
}

impl FromStr for Chance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let (number, places) =
            trimmed.strip_suffix('%').map_or((trimmed, 9_usize), |number| (number.trim_end(), 7));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) {
            return Err(format!("`{text}` is no chance"));
        }
        let fraction = fraction.trim_end_matches('0');
        let padding = places
            .checked_sub(fraction.len())
            .ok_or_else(|| format!("`{text}` is finer than a billionth"))?;
        format!("{whole}{fraction}{}", "0".repeat(padding))
            .parse()
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| format!("`{text}` is more than always"))
    }
}

impl fmt::Display for Chance {
    /// In percent, exactly: `0.1%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:07}", self.0 / 10_000_000, self.0 % 10_000_000);
        f.pad(&format!("{}%", text.trim_end_matches('0').trim_end_matches('.')))
    }
}

impl<'de> Deserialize<'de> for ChanceText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

impl JsonSchema for ChanceText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Chance".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "a chance: \"0.1%\" or 0.001",
            "type": ["string", "number"]
        })
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = ChanceText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a chance such as \"0.1%\" or 0.001")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ChanceText, E> {
        Ok(ChanceText(text.to_owned()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<ChanceText, E> {
        // The shortest decimal that means this number: what was written, unless it had more than 17 digits.
        Ok(ChanceText(number.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<ChanceText, E> {
        Ok(ChanceText(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<ChanceText, E> {
        Ok(ChanceText(number.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percents_and_decimals_are_the_same_billionths() {
        for (text, billionths) in [
            ("0.1%", 1_000_000),
            ("0.001", 1_000_000),
            ("1 %", 10_000_000),
            ("100%", 1_000_000_000),
            ("1", 1_000_000_000),
            ("1.000", 1_000_000_000),
            ("0.000000001", 1),
            ("0.0000001%", 1),
            ("0", 0),
        ] {
            assert_eq!(text.parse::<Chance>().unwrap().billionths(), billionths, "{text}");
        }
        for text in [
            "",
            "%",
            "-1%",
            "101%",
            "1.1",
            "1e-3",
            "0.0000000001",
            ".5",
            "5.",
            "0.1.2",
            "NaN",
            "9999999999999",
        ] {
            assert!(text.parse::<Chance>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_number_of_toml_is_read_as_it_was_typed() {
        #[derive(Deserialize)]
        struct Table {
            rate: ChanceText,
        }
        for (text, written) in
            [("1e-3", "0.001"), ("0.25", "0.25"), ("1", "1"), ("\"7%\"", "7%"), ("1e-9", "0.000000001")]
        {
            let table: Table = toml::from_str(&format!("rate = {text}")).unwrap();
            assert_eq!(table.rate.0, written);
        }
        assert!(toml::from_str::<Table>("rate = true").is_err());
    }

    proptest! {
        #[test]
        fn a_chance_is_read_as_it_is_written(billionths in 0..=1_000_000_000_u32) {
            let chance = Chance::new(billionths).unwrap();
            prop_assert_eq!(chance.to_string().parse(), Ok(chance));
        }
    }
}
