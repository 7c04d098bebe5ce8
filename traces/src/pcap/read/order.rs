//! The byte order of a file's words.

/// Which byte of a word comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    /// The word of two bytes at `at`, which is inside `bytes`.
    pub(super) fn half(self, bytes: &[u8], at: usize) -> u16 {
        let word = [bytes[at], bytes[at + 1]];
        match self {
            Self::Little => u16::from_le_bytes(word),
            Self::Big => u16::from_be_bytes(word),
        }
    }

    /// The word of four bytes at `at`, which is inside `bytes`.
    #[inline]
    pub(super) fn word(self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            Self::Little => u32::from_le_bytes(word),
            Self::Big => u32::from_be_bytes(word),
        }
    }
}

/// A word as a length in memory.
#[inline]
pub(super) fn size(word: u32) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}
