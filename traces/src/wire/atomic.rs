//! The headers of atomic operations: compare-and-swap and fetch-and-add on eight bytes of the peer's memory.

use super::reth::RemoteKey;

/// The atomic extended transport header (IBTA vol. 1, 9.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtomicEth {
    /// Where the eight bytes are.
    pub virtual_address: u64,
    /// The key of their region.
    pub remote_key: RemoteKey,
    /// What to swap in, or to add.
    pub swap_or_add: u64,
    /// What to compare with.
    pub compare: u64,
}

/// The atomic acknowledge extended transport header (IBTA vol. 1, 9.3.5.3): what the eight bytes were before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtomicAckEth {
    /// The original value.
    pub original: u64,
}

impl AtomicEth {
    /// Its length in bytes.
    pub const LEN: usize = 28;

    /// Reads the twenty-eight bytes.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let long = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
        Self {
            virtual_address: long(0),
            remote_key: RemoteKey(u32::from_be_bytes(std::array::from_fn(|i| bytes[8 + i]))),
            swap_or_add: long(12),
            compare: long(20),
        }
    }

    /// The twenty-eight bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.virtual_address.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.remote_key.0.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.swap_or_add.to_be_bytes());
        bytes[20..].copy_from_slice(&self.compare.to_be_bytes());
        bytes
    }
}

impl AtomicAckEth {
    /// Its length in bytes.
    pub const LEN: usize = 8;

    /// Reads the eight bytes.
    #[must_use]
    pub const fn parse(bytes: &[u8; Self::LEN]) -> Self {
        Self { original: u64::from_be_bytes(*bytes) }
    }

    /// The eight bytes.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; Self::LEN] {
        self.original.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes: [u8; 28], ack: [u8; 8]) {
            prop_assert_eq!(AtomicEth::parse(&bytes).to_bytes(), bytes);
            prop_assert_eq!(AtomicAckEth::parse(&ack).to_bytes(), ack);
        }
    }
}
