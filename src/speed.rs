//! A factor of speed as one types it, in thousandths: `1`, `0.5`, `2.25`.

/// Thousandths of the trace's own speed, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speed {
    pub(crate) per_mille: u32,
}

/// Reads a decimal number with at most three places.
pub(crate) fn parse(text: &str) -> Result<Speed, String> {
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(places) || text.ends_with('.') {
        return Err("not a decimal number; write for example 0.5".to_owned());
    }
    if places.len() > 3 {
        return Err("at most three places, for example 0.125".to_owned());
    }
    match format!("{whole}{places:0<3}").parse() {
        Ok(per_mille @ 1..=1_000_000) => Ok(Speed { per_mille }),
        _ => Err("between 0.001 and 1000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousandths_are_exact() {
        assert_eq!(parse("1").unwrap().per_mille, 1_000);
        assert_eq!(parse("0.5").unwrap().per_mille, 500);
        assert_eq!(parse("2.125").unwrap().per_mille, 2_125);
    }

    #[test]
    fn nothing_else_is_a_speed() {
        for text in ["0", "0.0005", "-1", "fast", "1.", ".5", "1001", "99999999999", "1e3"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
