//! The base transport header: twelve bytes behind every UDP header of RoCEv2.
//!
//! ```text
//! byte 0    opcode
//!      1    SE(7) M(6) PadCnt(5-4) TVer(3-0)
//!      2-3  P_Key
//!      4    FECN(7) BECN(6) reserved(5-0)      masked in the ICRC; data 0x00, CNP 0x40, HNS data 0x10
//!      5-7  destination queue pair
//!      8    AckReq(7) reserved(6-0)
//!      9-11 packet sequence number
//! ```

use super::opcode::Opcode;
use super::psn::Psn;
use super::qpn::Qpn;

/// The base transport header (IBTA vol. 1, 9.2). Every bit of the twelve bytes is in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bth {
    /// The opcode's byte; [`Self::opcode`] is its meaning.
    pub opcode: u8,
    /// SE: the receiver is asked to raise an event.
    pub solicited: bool,
    /// M: the path has migrated. ConnectX and HNS set it on all they send, rxe on nothing.
    pub migrated: bool,
    /// Zero bytes behind the payload, 0 to 3, so that it ends on four.
    pub pad: u8,
    /// The header's version, 0 to 15; always 0.
    pub version: u8,
    /// The partition; `0xffff` is the default one with full membership.
    pub partition_key: u16,
    /// Byte 4 whole: congestion bits and what vendors put beside them.
    pub congestion: u8,
    /// Where it goes.
    pub destination: Qpn,
    /// AckReq: an acknowledgement is asked for.
    pub ack_request: bool,
    /// The seven bits beside AckReq; always 0.
    pub reserved: u8,
    /// The packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Its length in bytes.
    pub const LEN: usize = 12;
    /// The default partition, full membership.
    pub const DEFAULT_PARTITION: u16 = 0xffff;
    /// FECN in [`Self::congestion`].
    pub const FECN: u8 = 0x80;
    /// BECN in [`Self::congestion`].
    pub const BECN: u8 = 0x40;
    /// What a congestion notification carries: sixteen reserved bytes.
    pub const NOTIFICATION_PAYLOAD: [u8; 16] = [0; 16];

    /// A header as ConnectX sends it: default partition, M set, no acknowledgement asked for, no pad.
    #[must_use]
    pub const fn new(opcode: Opcode, destination: Qpn, psn: Psn) -> Self {
        Self {
            opcode: opcode.byte(),
            solicited: false,
            migrated: true,
            pad: 0,
            version: 0,
            partition_key: Self::DEFAULT_PARTITION,
            congestion: 0,
            destination,
            ack_request: false,
            reserved: 0,
            psn,
        }
    }

    /// A congestion notification (CNP; IBTA vol. 1, annex A17.9.3) to the queue pair that sends too fast: BECN set,
    /// nothing else but the partition. [`Self::NOTIFICATION_PAYLOAD`] follows it.
    #[must_use]
    pub const fn notification(sender: Qpn) -> Self {
        Self {
            migrated: false,
            congestion: Self::BECN,
            ..Self::new(Opcode::CongestionNotification, sender, Psn::ZERO)
        }
    }

    /// The opcode, if it is known here.
    #[must_use]
    #[inline]
    pub const fn opcode(&self) -> Option<Opcode> {
        Opcode::from_byte(self.opcode)
    }

    /// Reads the twelve bytes.
    #[must_use]
    #[inline(always)]
    pub const fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let [opcode, flags, key_high, key_low, congestion, d0, d1, d2, ack, p0, p1, p2] = *bytes;
        Self {
            opcode,
            solicited: flags & 0x80 != 0,
            migrated: flags & 0x40 != 0,
            pad: (flags >> 4) & 3,
            version: flags & 0x0f,
            partition_key: u16::from_be_bytes([key_high, key_low]),
            congestion,
            destination: Qpn::parse(&[d0, d1, d2]),
            ack_request: ack & 0x80 != 0,
            reserved: ack & 0x7f,
            psn: Psn::parse(&[p0, p1, p2]),
        }
    }

    /// The twelve bytes. Of fields narrower than their type the low bits count.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; Self::LEN] {
        let flags = bit(self.solicited, 0x80)
            | bit(self.migrated, 0x40)
            | ((self.pad & 3) << 4)
            | (self.version & 0x0f);
        let [key_high, key_low] = self.partition_key.to_be_bytes();
        let [d0, d1, d2] = self.destination.to_bytes();
        let ack = bit(self.ack_request, 0x80) | (self.reserved & 0x7f);
        let [p0, p1, p2] = self.psn.to_bytes();
        [self.opcode, flags, key_high, key_low, self.congestion, d0, d1, d2, ack, p0, p1, p2]
    }
}

const fn bit(set: bool, mask: u8) -> u8 {
    if set { mask } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The CNP of a ConnectX-4 Lx (scapy, test/contrib/roce.uts).
    const CNP: [u8; 12] = [0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00];

    #[test]
    fn a_captured_notification_reads_as_its_fields() {
        let bth = Bth::parse(&CNP);
        assert_eq!(bth.opcode(), Some(Opcode::CongestionNotification));
        assert_eq!(bth.congestion, Bth::BECN);
        assert_eq!(bth.partition_key, Bth::DEFAULT_PARTITION);
        assert_eq!(bth.destination.value(), 0x118);
        assert!(!bth.migrated && !bth.ack_request);
        assert_eq!(bth.to_bytes(), CNP);
        assert_eq!(Bth::notification(Qpn::for_data(0x118).unwrap()), bth);
    }

    #[test]
    fn a_write_last_has_its_bits_where_they_belong() {
        let mut bth = Bth::new(Opcode::WriteLast, Qpn::for_data(0x2a7).unwrap(), Psn::wrapping(0x01_0203));
        bth.pad = 3;
        bth.ack_request = true;
        assert_eq!(bth.to_bytes(), [0x08, 0x70, 0xff, 0xff, 0x00, 0x00, 0x02, 0xa7, 0x80, 0x01, 0x02, 0x03]);
    }

    proptest! {
        #[test]
        fn any_twelve_bytes_come_back(bytes: [u8; 12]) {
            prop_assert_eq!(Bth::parse(&bytes).to_bytes(), bytes);
        }
    }
}
