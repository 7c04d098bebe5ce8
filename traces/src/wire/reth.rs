//! The RDMA extended transport header: which memory of the peer a WRITE or READ is about.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A key to a memory region of the peer (R_Key).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RemoteKey(pub u32);

/// The RDMA extended transport header (IBTA vol. 1, 9.3.3). It stands in the first frame of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reth {
    /// Where in the peer's memory the message starts.
    pub virtual_address: u64,
    /// The key of the region.
    pub remote_key: RemoteKey,
    /// The bytes of the whole message (DMALen).
    pub length: u32,
}

impl Reth {
    /// Its length in bytes.
    pub const LEN: usize = 16;

    /// Reads the sixteen bytes.
    #[must_use]
    pub const fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let [v0, v1, v2, v3, v4, v5, v6, v7, k0, k1, k2, k3, l0, l1, l2, l3] = *bytes;
        Self {
            virtual_address: u64::from_be_bytes([v0, v1, v2, v3, v4, v5, v6, v7]),
            remote_key: RemoteKey(u32::from_be_bytes([k0, k1, k2, k3])),
            length: u32::from_be_bytes([l0, l1, l2, l3]),
        }
    }

    /// The sixteen bytes.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; Self::LEN] {
        let [v0, v1, v2, v3, v4, v5, v6, v7] = self.virtual_address.to_be_bytes();
        let [k0, k1, k2, k3] = self.remote_key.0.to_be_bytes();
        let [l0, l1, l2, l3] = self.length.to_be_bytes();
        [v0, v1, v2, v3, v4, v5, v6, v7, k0, k1, k2, k3, l0, l1, l2, l3]
    }
}

impl fmt::Display for RemoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn address_key_and_length_are_big_endian() {
        let reth =
            Reth { virtual_address: 0x7f12_3456_7000, remote_key: RemoteKey(0x0018_1aed), length: 1 << 20 };
        assert_eq!(
            reth.to_bytes(),
            [0, 0, 0x7f, 0x12, 0x34, 0x56, 0x70, 0, 0x00, 0x18, 0x1a, 0xed, 0x00, 0x10, 0x00, 0x00]
        );
    }

    proptest! {
        #[test]
        fn any_sixteen_bytes_come_back(bytes: [u8; 16]) {
            prop_assert_eq!(Reth::parse(&bytes).to_bytes(), bytes);
        }
    }
}
