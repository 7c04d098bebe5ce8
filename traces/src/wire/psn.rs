//! Packet sequence numbers: 24 bits on a circle.
//!
//! Every request frame of a queue pair takes the next number; what answers it carries the number that it
//! answers. There is no greatest number, so there is no `Ord`: compare on the circle by the named functions.

use std::fmt;
use std::ops::Add;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A packet sequence number, 0 to 2^24 - 1.
///
/// ```
/// use traces::wire::Psn;
/// assert_eq!(Psn::LAST + 1, Psn::ZERO);
/// assert!(Psn::LAST.is_before(Psn::ZERO));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Psn(u32);

/// A number of more than 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("packet sequence number {0} has more than 24 bits; the greatest is 16777215")]
pub struct PsnError(pub u32);

impl Psn {
    /// The first number.
    pub const ZERO: Self = Self(0);
    /// The number before [`Self::ZERO`].
    pub const LAST: Self = Self(MASK);

    /// The number `value`, if it has 24 bits.
    #[must_use]
    pub const fn new(value: u32) -> Option<Self> {
        if value > MASK { None } else { Some(Self(value)) }
    }

    /// The low 24 bits of `value`: the number that `value` steps from zero lead to.
    #[must_use]
    pub const fn wrapping(value: u32) -> Self {
        Self(value & MASK)
    }

    /// The number, 0 to 2^24 - 1.
    #[must_use]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The steps from `self` to `other` by the shorter way: -2^23 to 2^23 - 1.
    #[must_use]
    pub const fn distance_to(self, other: Self) -> i32 {
        // Shifted up, the 24-bit difference has its sign where i32 has it.
        (other.0.wrapping_sub(self.0) << 8).cast_signed() >> 8
    }

    /// Whether `other` lies ahead.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.distance_to(other) > 0
    }

    /// Whether `other` lies behind.
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        self.distance_to(other) < 0
    }

    /// Reads three bytes, big-endian.
    #[must_use]
    pub const fn parse(bytes: &[u8; 3]) -> Self {
        Self(u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]))
    }

    /// Three bytes, big-endian.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 3] {
        let [_, a, b, c] = self.0.to_be_bytes();
        [a, b, c]
    }
}

impl Add<u32> for Psn {
    type Output = Self;

    fn add(self, steps: u32) -> Self {
        Self::wrapping(self.0.wrapping_add(steps))
    }
}

impl TryFrom<u32> for Psn {
    type Error = PsnError;

    fn try_from(value: u32) -> Result<Self, PsnError> {
        Self::new(value).ok_or(PsnError(value))
    }
}

impl From<Psn> for u32 {
    fn from(psn: Psn) -> Self {
        psn.0
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const MASK: u32 = 0x00ff_ffff;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counting_wraps_after_ffffff() {
        assert_eq!(Psn::LAST + 1, Psn::ZERO);
        assert_eq!(Psn::ZERO + 0x0100_0003, Psn(3));
        assert_eq!(Psn(0xff_fffe).distance_to(Psn(2)), 4);
        assert_eq!(Psn(2).distance_to(Psn(0xff_fffe)), -4);
    }

    #[test]
    fn half_the_circle_is_behind() {
        assert_eq!(Psn(0).distance_to(Psn(0x7f_ffff)), 0x7f_ffff);
        assert_eq!(Psn(0).distance_to(Psn(0x80_0000)), -0x80_0000);
        assert!(Psn(5).is_before(Psn(6)) && Psn(6).is_after(Psn(5)));
        assert!(!Psn(5).is_before(Psn(5)) && !Psn(5).is_after(Psn(5)));
    }

    #[test]
    fn twenty_five_bits_are_refused() {
        assert_eq!(Psn::new(0x0100_0000), None);
        assert_eq!(
            Psn::try_from(0x0100_0000).unwrap_err().to_string(),
            "packet sequence number 16777216 has more than 24 bits; the greatest is 16777215"
        );
    }

    proptest! {
        #[test]
        fn adding_the_distance_arrives(a in 0..=MASK, b in 0..=MASK) {
            let (a, b) = (Psn(a), Psn(b));
            prop_assert_eq!(a + a.distance_to(b).cast_unsigned(), b);
            prop_assert_eq!(Psn::parse(&a.to_bytes()), a);
        }
    }
}
