//! A list of numbers and ranges as one types it: `0,4-7`.

use std::str::FromStr;

/// Numbers in ascending order, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection(pub(crate) Vec<u32>);

/// Reads `0,4-7`.
pub(crate) fn parse(text: &str) -> Result<Selection, String> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            u32::from_str(text.trim())
                .map_err(|_| format!("`{part}` is not a number or a range; write for example 0,4-7"))
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("the range `{part}` runs backwards"));
        }
        if last - first >= MOST {
            return Err(format!("the range `{part}` has more than {MOST} numbers"));
        }
        numbers.extend(first..=last);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Selection(numbers))
}

/// More NICs than any cluster has.
const MOST: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_are_joined_in_order() {
        assert_eq!(parse("4-6,0,5").unwrap().0, [0, 4, 5, 6]);
    }

    #[test]
    fn what_is_no_number_is_named() {
        assert!(parse("0,x").unwrap_err().starts_with("`x` is not a number"));
        assert!(parse("").is_err());
        assert!(parse("7-4").unwrap_err().contains("backwards"));
        assert!(parse("0-4294967295").unwrap_err().contains("more than"));
    }
}
