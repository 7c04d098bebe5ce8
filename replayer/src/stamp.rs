//! The measurement stamp: what the first bytes of a data frame's payload say of it during a replay.
//!
//! ```text
//! byte 0-1   "tw"
//!      2     version, 1
//!      3     class of traffic, by its number; 0 if it is not known
//!      4-7   run
//!      8-15  sequence number of the frame in its flow, from zero; one sent again takes a new one
//!      16-23 intended time, nanoseconds since the run's epoch
//!      24-31 actual departure, nanoseconds since the run's epoch
//! ```
//! All big-endian. The third byte is never zero, so that Wireshark does not take the head for an Ethernet type.
//! Frames with a shorter payload carry none.

use traces::origin::Class;
use traces::unit::Nanos;

/// What a stamp says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The class of traffic, if it is known.
    pub class: Option<Class>,
    /// The run.
    pub run: u32,
    /// The frame's number among those that its queue pair sent with a stamp.
    pub sequence: u64,
    /// When it should have left.
    pub intended: Nanos,
    /// When it left.
    pub departure: Nanos,
}

impl Stamp {
    /// Its length in bytes.
    pub const LEN: usize = 32;

    /// The stamp at the beginning of a payload, if there is one.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let [b't', b'w', VERSION, class, r0, r1, r2, r3, rest @ ..] =
            payload.first_chunk::<{ Self::LEN }>()?
        else {
            return None;
        };
        let [sequence, intended, departure] = rest.as_chunks::<8>().0 else { return None };
        Some(Self {
            class: Class::from_number(u32::from(*class)),
            run: u32::from_be_bytes([*r0, *r1, *r2, *r3]),
            sequence: u64::from_be_bytes(*sequence),
            intended: Nanos(u64::from_be_bytes(*intended)),
            departure: Nanos(u64::from_be_bytes(*departure)),
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let class = self.class.map_or(0, |class| u8::try_from(class.number()).unwrap_or(0));
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&[b't', b'w', VERSION, class]);
        bytes[4..8].copy_from_slice(&self.run.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.intended.0.to_be_bytes());
        bytes[24..].copy_from_slice(&self.departure.0.to_be_bytes());
        bytes
    }
}

const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        class: Some(Class::PpForward),
        run: 0x0102_0304,
        sequence: 5,
        intended: Nanos(0x1_0000_0000),
        departure: Nanos(0x1_0000_0007),
    };

    #[test]
    fn a_stamp_has_these_bytes() {
        let bytes = STAMP.to_bytes();
        assert_eq!(bytes[..8], *b"tw\x01\x0a\x01\x02\x03\x04");
        assert_eq!(bytes[8..16], [0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(bytes[16..24], [0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(bytes[24..], [0, 0, 0, 1, 0, 0, 0, 7]);
        assert_eq!(Stamp::parse(&bytes), Some(STAMP));
    }

    #[test]
    fn every_class_survives_and_anything_else_is_no_stamp() {
        for class in Class::ALL.iter().copied().map(Some).chain([None]) {
            let stamp = Stamp { class, ..STAMP };
            assert_eq!(Stamp::parse(&stamp.to_bytes()), Some(stamp));
        }
        assert_eq!(Stamp::parse(&STAMP.to_bytes()[..31]), None);
        assert_eq!(Stamp::parse(&[0; 64]), None);
    }
}
