//! End-to-end credits: how many more messages the responder can take, in five bits of an acknowledgement.

use std::fmt;

/// What an acknowledgement says about the receives that the responder has posted (IBTA vol. 1, 9.7.7.2.1): a code of
/// five bits for one of 31 counts, or that none are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credits(u8);

impl Credits {
    /// Credits are not counted: rxe, and every shared receive queue.
    pub const UNCOUNTED: Self = Self(31);
    /// Those of a captured HNS: six receives posted, code 5.
    pub const HNS: Self = Self(5);

    /// The credits with this code, 0 to 31.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    pub(super) const fn from_low_bits(byte: u8) -> Self {
        Self(byte & 0x1f)
    }

    /// The most credits that can be said without promising more than `posted` receives.
    ///
    /// ```
    /// use traces::wire::Credits;
    /// assert_eq!(Credits::for_posted(7).count(), Some(6));
    /// ```
    #[must_use]
    pub fn for_posted(posted: u32) -> Self {
        let above = COUNTS.partition_point(|&count| u32::from(count) <= posted);
        // `COUNTS` starts with 0, so at least one is not above.
        Self(u8::try_from(above - 1).unwrap_or(0))
    }

    /// The code, 0 to 31.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// How many messages; `None` if they are not counted.
    #[must_use]
    pub fn count(self) -> Option<u16> {
        COUNTS.get(usize::from(self.0)).copied()
    }
}

impl fmt::Display for Credits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count() {
            Some(1) => f.write_str("1 credit"),
            Some(count) => write!(f, "{count} credits"),
            None => f.write_str("credits not counted"),
        }
    }
}

/// The counts of codes 0 to 30 (IBTA vol. 1, 9.7.7.2.1): from 2 on, each doubles within two steps.
const COUNTS: [u16; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
    4096, 6144, 8192, 12288, 16384, 24576, 32768,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_double_every_second_code() {
        assert_eq!([0, 1, 2, 3].map(|code| Credits(code).count()), [Some(0), Some(1), Some(2), Some(3)]);
        for code in 2..29 {
            let count = Credits(code).count().unwrap();
            assert_eq!(Credits(code + 2).count(), Some(2 * count), "{code}");
        }
        assert_eq!(Credits(30).count(), Some(32_768));
        assert_eq!(Credits::UNCOUNTED.count(), None);
        assert_eq!(Credits::from_code(32), None);
    }

    proptest! {
        #[test]
        fn no_more_is_promised_than_is_posted(posted: u32) {
            let credits = Credits::for_posted(posted);
            let count = u32::from(credits.count().unwrap());
            prop_assert!(count <= posted);
            let more = Credits(credits.code() + 1).count();
            prop_assert!(more.is_none_or(|more| u32::from(more) > posted));
        }

        #[test]
        fn every_count_is_its_own_credits(code in 0..31_u8) {
            let credits = Credits(code);
            prop_assert_eq!(Credits::for_posted(credits.count().unwrap().into()), credits);
        }
    }
}
