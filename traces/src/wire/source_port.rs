//! How NICs choose the UDP source port of a queue pair: the entropy that switches hash on.
//!
//! All rules end in 49152..65535; below 4791 Wireshark would take the source port's protocol.

use super::qpn::Qpn;

/// The rule of mlx5 (also irdma, mana, ionic) for a connection without flow label: the hash of the product of
/// both queue pair numbers (Linux `include/rdma/ib_verbs.h`, `rdma_get_udp_sport`). Equal in both directions.
///
/// ```
/// use traces::wire::{Qpn, source_port};
/// let (a, b) = (Qpn::for_data(0x124)?, Qpn::for_data(0x2a7)?);
/// assert_eq!(source_port::product(a, b), 50800);
/// assert_eq!(source_port::product(b, a), 50800);
/// # Ok::<(), traces::wire::qpn::QpnError>(())
/// ```
#[must_use]
pub const fn product(local: Qpn, remote: Qpn) -> u16 {
    // 24 bits times 24 bits fit; only 20 bits of the hash are kept.
    let mut hash = local.value() as u64 * remote.value() as u64;
    hash ^= hash >> 20;
    hash ^= hash >> 40;
    from_flow_label(low_20(hash))
}

/// The rule for a flow label of 20 bits (`rdma_flow_label_to_udp_sport`): its high six bits folded over the
/// low fourteen.
#[must_use]
pub const fn from_flow_label(label: u32) -> u16 {
    low_14((label & 0x3fff) ^ ((label & 0xf_c000) >> 14)) | LOWEST
}

/// The rule of rxe: a hash of the own queue pair number (`hash_32(qpn, 14)`), so each direction has its own.
#[must_use]
pub const fn own(local: Qpn) -> u16 {
    low_14(local.value().wrapping_mul(0x61c8_8647) >> 18) | LOWEST
}

/// The rule of an older driver of HNS: the low byte of the own queue pair number. What it sends, Wireshark takes for
/// whatever has that port.
#[must_use]
pub const fn low_byte(local: Qpn) -> u16 {
    let [_, _, low] = local.to_bytes();
    u16::from_be_bytes([0, low])
}

/// The lowest source port of RoCEv2 data.
pub const LOWEST: u16 = 0xc000;

/// The UDP port that RoCEv2 goes to, in both directions.
pub const ROCE: u16 = 4791;

const fn low_20(value: u64) -> u32 {
    let [_, _, _, _, _, a, b, c] = value.to_be_bytes();
    u32::from_be_bytes([0, a & 0x0f, b, c])
}

const fn low_14(value: u32) -> u16 {
    let [_, _, a, b] = value.to_be_bytes();
    u16::from_be_bytes([a & 0x3f, b])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rxe_ports_are_those_of_captures() {
        for (qpn, port) in [(1, 55410), (0x11, 57236), (0x17, 62017)] {
            assert_eq!(own(Qpn::new(qpn).unwrap()), port);
        }
    }

    #[test]
    fn a_flow_label_is_folded_to_fourteen_bits() {
        assert_eq!(from_flow_label(0), 0xc000);
        assert_eq!(from_flow_label(0x3fff), 0xffff);
        assert_eq!(from_flow_label(0xf_c001), 0xc000 | (0x3f ^ 1));
    }

    proptest! {
        #[test]
        fn the_product_rule_knows_no_direction(a in 0..1_u32 << 24, b in 0..1_u32 << 24) {
            let (a, b) = (Qpn::new(a).unwrap(), Qpn::new(b).unwrap());
            prop_assert_eq!(product(a, b), product(b, a));
            prop_assert!(product(a, b) >= LOWEST && own(a) >= LOWEST);
        }
    }
}
