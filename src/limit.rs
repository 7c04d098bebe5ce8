//! A limit as one types it: so many, so much, or `none`.

use std::num::NonZeroU64;

use traces::unit::Bytes;

/// A limit, or that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit<T>(pub(crate) Option<T>);

/// Reads a number of frames.
pub(crate) fn frames(text: &str) -> Result<Limit<NonZeroU64>, String> {
    match text {
        "none" => Ok(Limit(None)),
        _ => text
            .parse()
            .map(|most| Limit(Some(most)))
            .map_err(|_| "neither a number from 1 on nor `none`; write for example 100000".to_owned()),
    }
}

/// Reads a size with its unit.
pub(crate) fn bytes(text: &str) -> Result<Limit<Bytes>, String> {
    match text {
        "none" => Ok(Limit(None)),
        _ => text
            .parse()
            .map(|most| Limit(Some(most)))
            .map_err(|error: traces::unit::UnitError| format!("{error}; or `none`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_sizes_or_none() {
        assert_eq!(frames("7"), Ok(Limit(NonZeroU64::new(7))));
        assert_eq!(frames("none"), Ok(Limit(None)));
        assert_eq!(bytes("64MiB"), Ok(Limit(Some(Bytes(64 << 20)))));
        assert_eq!(bytes("none"), Ok(Limit(None)));
        for text in ["0", "-1", "many", ""] {
            assert!(frames(text).is_err(), "{text}");
        }
        assert!(bytes("64").is_err());
    }
}
