//! Bytes, nanoseconds and bit rates, each a type of its own, as they are written in plans and read in reports.
//!
//! A quantity in text carries its unit. Decimal prefixes (`k`, `M`, `G`, `T`) and binary ones (`Ki`, `Mi`, `Gi`,
//! `Ti`) are different things; rates are decimal bits per second, as line rates are.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An amount of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A duration, or an instant counted from the start of the trace, in nanoseconds.
///
/// 64 bits reach 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A line rate in bits per second, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct BitRate(u64);

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnitError {
    /// The text does not start with a number.
    #[error("`{text}` does not start with a number; write for example {example}")]
    Number {
        /// What was read.
        text: String,
        /// A right one.
        example: &'static str,
    },
    /// The number has no unit, or one that is not known here.
    #[error("`{text}` {}; known units are {known}", if unit.is_empty() { "has no unit".to_owned() } else { format!("has the unknown unit `{unit}`") })]
    Unit {
        /// What was read.
        text: String,
        /// Its unit, perhaps empty.
        unit: String,
        /// The units that this quantity can have.
        known: &'static str,
    },
    /// The quantity is not a whole number of the smallest unit, or out of range.
    #[error("`{text}` is not a whole number of {smallest} between {least} and 2^63")]
    Range {
        /// What was read.
        text: String,
        /// The smallest unit.
        smallest: &'static str,
        /// The least that is allowed.
        least: u64,
    },
}

impl Bytes {
    /// No data.
    pub const ZERO: Self = Self(0);
}

impl Nanos {
    /// The start of the trace, or no time at all.
    pub const ZERO: Self = Self(0);
}

impl BitRate {
    /// A rate in bits per second, if it is not zero.
    #[must_use]
    pub const fn new(bits_per_second: u64) -> Option<Self> {
        if bits_per_second == 0 { None } else { Some(Self(bits_per_second)) }
    }

    /// The rate in bits per second.
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// The time that `bytes` take on a line of this rate, rounded up to a whole nanosecond.
    ///
    /// ```
    /// use traces::unit::{BitRate, Bytes, Nanos};
    /// let line: BitRate = "400Gbit".parse()?;
    /// assert_eq!(line.time_of(Bytes(4178)), Nanos(84));
    /// # Ok::<(), traces::unit::UnitError>(())
    /// ```
    #[must_use]
    pub fn time_of(self, bytes: Bytes) -> Nanos {
        let nanos = (u128::from(bytes.0) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl TryFrom<u64> for BitRate {
    type Error = UnitError;

    fn try_from(bits_per_second: u64) -> Result<Self, UnitError> {
        Self::new(bits_per_second).ok_or(UnitError::Range {
            text: bits_per_second.to_string(),
            smallest: "bits per second",
            least: 1,
        })
    }
}

impl From<BitRate> for u64 {
    fn from(rate: BitRate) -> Self {
        rate.0
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const UNITS: &[(&str, u64)] = &[
            ("B", 1),
            ("kB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("TB", 1_000_000_000_000),
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("TiB", 1 << 40),
        ];
        parse(text, UNITS, "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB", "\"4MiB\"", "bytes", 0).map(Self)
    }
}

impl FromStr for Nanos {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const UNITS: &[(&str, u64)] =
            &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)];
        parse(text, UNITS, "ns, us, ms, s, min", "\"12us\"", "nanoseconds", 0).map(Self)
    }
}

impl FromStr for BitRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const UNITS: &[(&str, u64)] = &[
            ("bit", 1),
            ("kbit", 1_000),
            ("Mbit", 1_000_000),
            ("Gbit", 1_000_000_000),
            ("Tbit", 1_000_000_000_000),
        ];
        parse(text, UNITS, "bit, kbit, Mbit, Gbit, Tbit (per second)", "\"400Gbit\"", "bits per second", 1)
            .map(Self)
    }
}

impl fmt::Display for Bytes {
    /// Exact below 10 kB, then four digits with a decimal prefix: `435.5 MB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&decimal(self.0, 10_000, &["B", "kB", "MB", "GB", "TB", "PB", "EB"]))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&decimal(self.0, 1_000, &["ns", "us", "ms", "s", "ks", "Ms", "Gs"]))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&decimal(self.0, 1_000, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "Pbit/s", "Ebit/s"]))
    }
}

/// Writes a rate as plans write it: the largest unit that leaves a whole number (`400Gbit`).
#[must_use]
pub fn rate_text(rate: BitRate) -> String {
    exact(
        rate.0,
        &[("Tbit", 1_000_000_000_000), ("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1_000)],
        "bit",
    )
}

/// Writes a duration as plans write it: the largest unit that leaves a whole number (`12us`).
#[must_use]
pub fn duration_text(duration: Nanos) -> String {
    exact(duration.0, &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)], "ns")
}

/// Writes a size as plans write it: the largest binary unit that leaves a whole number (`4MiB`).
#[must_use]
pub fn size_text(size: Bytes) -> String {
    exact(size.0, &[("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)], "B")
}

fn exact(value: u64, units: &[(&str, u64)], smallest: &str) -> String {
    units
        .iter()
        .find(|(_, size)| value != 0 && value.is_multiple_of(*size))
        .map_or_else(|| format!("{value}{smallest}"), |(name, size)| format!("{}{name}", value / size))
}

fn decimal(value: u64, exact_below: u64, names: &[&str; 7]) -> String {
    if value < exact_below {
        return format!("{value} {}", names[0]);
    }
    let mut scale = 1_u64;
    let mut name = 0;
    while value / scale >= 1_000 && name + 1 < names.len() {
        scale *= 1_000;
        name += 1;
    }
    let (whole, thousandths) = (value / scale, u128::from(value % scale) * 1_000 / u128::from(scale));
    let digits = match whole {
        0..10 => format!("{whole}.{thousandths:03}"),
        10..100 => format!("{whole}.{:02}", thousandths / 10),
        _ => format!("{whole}.{}", thousandths / 100),
    };
    format!("{digits} {}", names[name])
}

/// Reads a decimal number with an optional fraction and a unit; exact, in integers alone.
fn parse(
    text: &str,
    units: &[(&str, u64)],
    known: &'static str,
    example: &'static str,
    smallest: &'static str,
    least: u64,
) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
    let (number, unit) = (trimmed[..end].replace('_', ""), trimmed[end..].trim());
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let not_a_number = || UnitError::Number { text: text.to_owned(), example };
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return Err(not_a_number());
    }
    let (_, size) = units.iter().find(|(name, _)| *name == unit).ok_or_else(|| UnitError::Unit {
        text: text.to_owned(),
        unit: unit.to_owned(),
        known,
    })?;
    let out_of_range = || UnitError::Range { text: text.to_owned(), smallest, least };
    let places = u32::try_from(fraction.len()).map_err(|_| out_of_range())?;
    let scale = 10_u128.checked_pow(places).ok_or_else(out_of_range)?;
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| out_of_range())?;
    let scaled = digits.checked_mul(u128::from(*size)).ok_or_else(out_of_range)?;
    if !scaled.is_multiple_of(scale) {
        return Err(out_of_range());
    }
    u64::try_from(scaled / scale)
        .ok()
        .filter(|&value| value >= least && value <= 1 << 63)
        .ok_or_else(out_of_range)
}

macro_rules! arithmetic {
    ($($unit:ident),*) => {$(
        impl Add for $unit {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $unit {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $unit {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl Mul<u64> for $unit {
            type Output = Self;
            fn mul(self, times: u64) -> Self {
                Self(self.0 * times)
            }
        }
        impl Sum for $unit {
            fn sum<I: Iterator<Item = Self>>(terms: I) -> Self {
                terms.fold(Self(0), Add::add)
            }
        }
    )*};
}

arithmetic!(Bytes, Nanos);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_decimal_or_binary() {
        assert_eq!("4MiB".parse(), Ok(Bytes(4_194_304)));
        assert_eq!("4MB".parse(), Ok(Bytes(4_000_000)));
        assert_eq!("1.5us".parse(), Ok(Nanos(1_500)));
        assert_eq!("0.4Tbit".parse(), Ok(BitRate(400_000_000_000)));
    }

    #[test]
    fn a_number_without_unit_is_refused_with_the_known_units() {
        let error = "4194304".parse::<Bytes>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`4194304` has no unit; known units are B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"
        );
    }

    #[test]
    fn a_unit_of_another_quantity_is_named() {
        let error = "400Gbps".parse::<BitRate>().unwrap_err();
        assert!(error.to_string().contains("unknown unit `Gbps`"), "{error}");
    }

    #[test]
    fn no_fraction_of_the_smallest_unit_and_no_line_without_rate() {
        assert!("1.5ns".parse::<Nanos>().is_err());
        assert!("0Gbit".parse::<BitRate>().is_err());
        assert!(".5us".parse::<Nanos>().is_err());
        assert!("-1us".parse::<Nanos>().is_err());
        assert!("99999999999999999999GB".parse::<Bytes>().is_err());
    }

    #[test]
    fn people_read_four_digits() {
        assert_eq!(Bytes(9_999).to_string(), "9999 B");
        assert_eq!(Bytes(435_539_328).to_string(), "435.5 MB");
        assert_eq!(Nanos(34_843_146).to_string(), "34.84 ms");
        assert_eq!(BitRate(100_000_000_000).to_string(), "100.0 Gbit/s");
    }

    #[test]
    fn plans_read_what_was_written() {
        for text in ["400Gbit", "1Gbit", "1500Mbit"] {
            assert_eq!(rate_text(text.parse().unwrap()), text);
        }
        assert_eq!(duration_text(Nanos(12_000)), "12us");
        assert_eq!(size_text(Bytes(25 << 20)), "25MiB");
        assert_eq!(size_text(Bytes(0)), "0B");
    }
}
