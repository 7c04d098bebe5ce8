//! Queue pair numbers: 24 bits, of which 0 and 1 belong to management.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A queue pair number, 0 to 2^24 - 1, as the base transport header names the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Qpn(u32);

/// Why a number cannot name a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QpnError {
    /// More than 24 bits.
    #[error("queue pair number {0} has more than 24 bits; the greatest is 16777215")]
    Range(u32),
    /// A management queue pair, where one for data is needed.
    #[error("queue pair number {0} is a management queue pair; data goes to 2 and above")]
    Management(u32),
}

impl Qpn {
    /// The general services queue pair, which connection management uses.
    pub const GENERAL_SERVICES: Self = Self(1);

    /// The number `value`, if it has 24 bits.
    #[must_use]
    pub const fn new(value: u32) -> Option<Self> {
        if value > MASK { None } else { Some(Self(value)) }
    }

    /// The number `value`, if data may go there: Wireshark takes whatever goes to 0 or 1 for management
    /// datagrams.
    ///
    /// # Errors
    /// [`QpnError`] for 0, 1 and what has more than 24 bits.
    pub const fn for_data(value: u32) -> Result<Self, QpnError> {
        match value {
            0 | 1 => Err(QpnError::Management(value)),
            2..=MASK => Ok(Self(value)),
            _ => Err(QpnError::Range(value)),
        }
    }

    /// The number, 0 to 2^24 - 1.
    #[must_use]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Whether it is one of the two management queue pairs.
    #[must_use]
    pub const fn is_management(self) -> bool {
        self.0 < 2
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

impl TryFrom<u32> for Qpn {
    type Error = QpnError;

    fn try_from(value: u32) -> Result<Self, QpnError> {
        Self::new(value).ok_or(QpnError::Range(value))
    }
}

impl From<Qpn> for u32 {
    fn from(qpn: Qpn) -> Self {
        qpn.0
    }
}

impl fmt::Display for Qpn {
    /// Hexadecimal, as Wireshark shows it: `0x000124`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:06x}", self.0)
    }
}

const MASK: u32 = 0x00ff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_stays_away_from_management() {
        assert_eq!(Qpn::for_data(1), Err(QpnError::Management(1)));
        assert_eq!(Qpn::for_data(2), Ok(Qpn(2)));
        assert_eq!(Qpn::for_data(1 << 24), Err(QpnError::Range(1 << 24)));
        assert!(Qpn::GENERAL_SERVICES.is_management());
    }

    #[test]
    fn three_bytes_big_endian() {
        assert_eq!(Qpn::parse(&[0x00, 0x01, 0x24]), Qpn(0x124));
        assert_eq!(Qpn(0x124).to_bytes(), [0x00, 0x01, 0x24]);
        assert_eq!(Qpn(0x124).to_string(), "0x000124");
    }
}
