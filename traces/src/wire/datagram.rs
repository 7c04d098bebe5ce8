//! The datagram extended transport header: who sends an unreliable datagram, and the key to its receiver's
//! queue.

use super::qpn::Qpn;

/// The datagram extended transport header (IBTA vol. 1, 9.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deth {
    /// The key that the receiving queue pair asks for (Q_Key); connection management has `0x80010000`.
    pub queue_key: u32,
    /// The reserved byte; always 0.
    pub reserved: u8,
    /// The sender.
    pub source: Qpn,
}

impl Deth {
    /// Its length in bytes.
    pub const LEN: usize = 8;

    /// What stands in all datagrams of connection management: from queue pair 1, to the key of queue pairs 1.
    pub const GENERAL_SERVICES: Self =
        Self { queue_key: 0x8001_0000, reserved: 0, source: Qpn::GENERAL_SERVICES };

    /// Reads the eight bytes.
    #[must_use]
    pub const fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let [k0, k1, k2, k3, reserved, s0, s1, s2] = *bytes;
        Self { queue_key: u32::from_be_bytes([k0, k1, k2, k3]), reserved, source: Qpn::parse(&[s0, s1, s2]) }
    }

    /// The eight bytes.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; Self::LEN] {
        let [k0, k1, k2, k3] = self.queue_key.to_be_bytes();
        let [s0, s1, s2] = self.source.to_bytes();
        [k0, k1, k2, k3, self.reserved, s0, s1, s2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_management_speaks_from_queue_pair_one() {
        let bytes = [0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01];
        let deth = Deth::parse(&bytes);
        assert_eq!(deth, Deth::GENERAL_SERVICES);
        assert_eq!(deth.to_bytes(), bytes);
    }
}
