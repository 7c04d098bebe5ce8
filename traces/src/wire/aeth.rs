//! The acknowledge extended transport header: what the responder says about a sequence number.

use super::psn::Psn;

/// The acknowledge extended transport header (IBTA vol. 1, 9.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Aeth {
    /// The syndrome's byte; [`Self::syndrome`] is its meaning.
    pub syndrome: u8,
    /// The message sequence number: messages completed by the responder, on a circle of 24 bits like [`Psn`].
    pub message_sequence: Psn,
}

/// What a syndrome means (IBTA vol. 1, 9.7.5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// All well up to this sequence number, with a credit code 0 to 31; 31 says that credits are not counted.
    Ack(u8),
    /// The receiver was not ready; the code 0 to 31 says how long to wait.
    ReceiverNotReady(u8),
    /// A frame is missing: the sequence number is the one expected.
    SequenceError,
    /// The request cannot be served.
    InvalidRequest,
    /// The memory may not be used.
    RemoteAccess,
    /// The responder broke.
    RemoteOperational,
    /// Reserved by the specification, or a vendor's.
    Other(u8),
}

impl Aeth {
    /// Its length in bytes.
    pub const LEN: usize = 4;

    /// A header with this meaning.
    #[must_use]
    pub const fn new(syndrome: Syndrome, message_sequence: Psn) -> Self {
        Self { syndrome: syndrome.byte(), message_sequence }
    }

    /// What the syndrome means.
    #[must_use]
    pub const fn syndrome(&self) -> Syndrome {
        Syndrome::from_byte(self.syndrome)
    }

    /// Reads the four bytes.
    #[must_use]
    pub const fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let [syndrome, m0, m1, m2] = *bytes;
        Self { syndrome, message_sequence: Psn::parse(&[m0, m1, m2]) }
    }

    /// The four bytes.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; Self::LEN] {
        let [m0, m1, m2] = self.message_sequence.to_bytes();
        [self.syndrome, m0, m1, m2]
    }
}

impl Syndrome {
    /// An acknowledgement whose sender does not count credits: rxe's, and that of shared receive queues.
    pub const UNLIMITED: Self = Self::Ack(0x1f);

    /// The meaning of a byte.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        match byte {
            0x00..=0x1f => Self::Ack(byte),
            0x20..=0x3f => Self::ReceiverNotReady(byte & 0x1f),
            0x60 => Self::SequenceError,
            0x61 => Self::InvalidRequest,
            0x62 => Self::RemoteAccess,
            0x63 => Self::RemoteOperational,
            _ => Self::Other(byte),
        }
    }

    /// The byte of a meaning. Of codes the low five bits count.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Ack(credits) => credits & 0x1f,
            Self::ReceiverNotReady(timer) => 0x20 | (timer & 0x1f),
            Self::SequenceError => 0x60,
            Self::InvalidRequest => 0x61,
            Self::RemoteAccess => 0x62,
            Self::RemoteOperational => 0x63,
            Self::Other(byte) => byte,
        }
    }

    /// Whether everything up to the sequence number is acknowledged.
    #[must_use]
    pub const fn is_ack(self) -> bool {
        matches!(self, Self::Ack(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syndrome_comes_back() {
        for byte in 0..=u8::MAX {
            assert_eq!(Syndrome::from_byte(byte).byte(), byte);
        }
    }

    #[test]
    fn a_sequence_error_is_0x60() {
        let aeth = Aeth::new(Syndrome::SequenceError, Psn::wrapping(5));
        assert_eq!(aeth.to_bytes(), [0x60, 0, 0, 5]);
        assert_eq!(Aeth::parse(&[0x60, 0, 0, 5]), aeth);
        assert!(Syndrome::UNLIMITED.is_ack() && !aeth.syndrome().is_ack());
    }
}
