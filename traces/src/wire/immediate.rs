//! Immediate data: four bytes that arrive in the receiver's completion.

/// Immediate data (IBTA vol. 1, 9.3.6), as they stand on the wire.
///
/// NCCL puts the message's bytes here, big-endian: [`Immediate::from_u32`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Immediate(pub [u8; 4]);

impl Immediate {
    /// Its length in bytes.
    pub const LEN: usize = 4;

    /// A number, big-endian.
    #[must_use]
    pub const fn from_u32(number: u32) -> Self {
        Self(number.to_be_bytes())
    }

    /// The number that the bytes are, big-endian.
    #[must_use]
    pub const fn to_u32(self) -> u32 {
        u32::from_be_bytes(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_big_endian() {
        assert_eq!(Immediate::from_u32(1 << 20).0, [0, 0x10, 0, 0]);
        assert_eq!(Immediate([0, 0x10, 0, 0]).to_u32(), 1 << 20);
    }
}
