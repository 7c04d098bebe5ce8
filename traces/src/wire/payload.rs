//! What messages carry when their content does not matter: a pattern, or zeros.
//!
//! The pattern repeats after 256 bytes, so every frame of a message, at whatever multiple of the smallest
//! path MTU it starts, carries the same bytes: its ICRC needs no reading, and compression finds it. Within
//! the 256 bytes every value stands once, and none of the heads on which Wireshark's payload heuristics fire
//! is there: no `xx xx 00 00` (an Ethernet type), no run of zeros (SMB-Direct, RPC-over-RDMA), no `21` in
//! front (SMC-R).
//!
//! Zeros are what an untouched buffer holds. A SEND of zeros is shown as SMB-Direct or RPC; WRITEs of zeros
//! are clean.

use serde::{Deserialize, Serialize};

/// What a message carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// Byte `i` of the message is `(167 i + 13) mod 256`.
    #[default]
    Pattern,
    /// All bytes are zero.
    Zero,
}

impl Payload {
    /// The bytes of a message from `offset` on, at most [`LONGEST`] of them.
    #[must_use]
    pub fn bytes(self, offset: u64, length: usize) -> Option<&'static [u8]> {
        let start = match self {
            Self::Pattern => usize::try_from(offset % PERIOD).ok()?,
            Self::Zero => 0,
        };
        self.supply().get(start..start + length.min(LONGEST + 1)).filter(|_| length <= LONGEST)
    }

    /// Bytes enough for [`LONGEST`] from any of the first [`SLACK`] on; a multiple of 256 in front changes
    /// nothing.
    pub(super) const fn supply(self) -> &'static [u8; SUPPLY] {
        match self {
            Self::Pattern => &PATTERN,
            Self::Zero => &ZEROS,
        }
    }
}

/// After so many bytes the pattern repeats: the smallest path MTU.
pub const PERIOD: u64 = 256;

/// The longest piece that [`Payload::bytes`] gives: the greatest path MTU.
pub const LONGEST: usize = 4096;

pub(super) const SLACK: usize = 512;
const SUPPLY: usize = LONGEST + SLACK;

static ZEROS: [u8; SUPPLY] = [0; SUPPLY];

static PATTERN: [u8; SUPPLY] = {
    let mut bytes = [0; SUPPLY];
    let mut value = 13_u8;
    let mut at = 0;
    while at < SUPPLY {
        bytes[at] = value;
        value = value.wrapping_add(167);
        at += 1;
    }
    bytes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_is_what_its_formula_says() {
        let bytes = Payload::Pattern.bytes(0, 8).unwrap();
        assert_eq!(bytes, [13, 180, 91, 2, 169, 80, 247, 158]);
        for i in 0..512_u32 {
            let value = Payload::Pattern.bytes(u64::from(i), 1).unwrap()[0];
            assert_eq!(u32::from(value), (167 * i + 13) % 256);
        }
    }

    #[test]
    fn every_frame_of_a_message_starts_alike() {
        assert_eq!(Payload::Pattern.bytes(0, 4096), Payload::Pattern.bytes(7 * 256, 4096));
        assert_ne!(Payload::Pattern.bytes(0, 16), Payload::Pattern.bytes(1, 16));
    }

    #[test]
    fn no_ethernet_type_follows_from_any_multiple_of_four() {
        let all = Payload::Pattern.bytes(0, 256).unwrap();
        assert!(all.windows(2).all(|pair| pair != [0, 0]));
        assert_ne!(all[0], 0x21);
    }

    #[test]
    fn zeros_are_zeros_and_no_piece_is_longer_than_a_frame() {
        assert_eq!(Payload::Zero.bytes(77, 4096), Some(&[0; 4096][..]));
        assert_eq!(Payload::Zero.bytes(0, 4097), None);
        assert_eq!(Payload::Pattern.bytes(255, 4097), None);
        assert_eq!(Payload::Pattern.bytes(255, usize::MAX), None);
    }
}
