//! The acknowledge extended transport header: what the responder says about a sequence number.

use std::fmt;

use super::credits::Credits;
use super::psn::Psn;
use super::timer::RnrTimer;

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
    /// All well up to this sequence number, with a code of [`Credits`], 0 to 31; 31 says that none are counted.
    Ack(u8),
    /// No receive was posted for the message that starts at this sequence number (RNR NAK); the code of an
    /// [`RnrTimer`], 0 to 31, says how long to wait before it is sent again.
    ReceiverNotReady(u8),
    /// NAK 0: a frame is missing, and the sequence number is the one expected. Everything is sent again from it.
    SequenceError,
    /// NAK 1: the request cannot be served: an opcode out of place, a wrong length, a receive that is too small.
    InvalidRequest,
    /// NAK 2: the memory may not be used: a wrong key, bounds or rights.
    RemoteAccess,
    /// NAK 3: the responder broke before it could complete the request.
    RemoteOperational,
    /// NAK 4: no such domain; only reliable datagrams, which no NIC has, could ask for it.
    InvalidDomain,
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

    /// An acknowledgement that grants these credits.
    #[must_use]
    pub const fn ack(credits: Credits) -> Self {
        Self::Ack(credits.code())
    }

    /// An RNR NAK: the requester is to wait this long.
    #[must_use]
    pub const fn not_ready(timer: RnrTimer) -> Self {
        Self::ReceiverNotReady(timer.code())
    }

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
            0x64 => Self::InvalidDomain,
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
            Self::InvalidDomain => 0x64,
            Self::Other(byte) => byte,
        }
    }

    /// Whether everything up to the sequence number is acknowledged.
    #[must_use]
    pub const fn is_ack(self) -> bool {
        matches!(self, Self::Ack(_))
    }

    /// Whether the connection ends with it: no retry helps.
    #[must_use]
    pub const fn is_fatal(self) -> bool {
        matches!(
            self,
            Self::InvalidRequest | Self::RemoteAccess | Self::RemoteOperational | Self::InvalidDomain
        )
    }

    /// The credits that an acknowledgement grants.
    #[must_use]
    pub const fn credits(self) -> Option<Credits> {
        match self {
            Self::Ack(code) => Some(Credits::from_low_bits(code)),
            _ => None,
        }
    }

    /// How long an RNR NAK asks to wait.
    #[must_use]
    pub const fn timer(self) -> Option<RnrTimer> {
        match self {
            Self::ReceiverNotReady(code) => Some(RnrTimer::from_low_bits(code)),
            _ => None,
        }
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ack(code) => write!(f, "ACK, {}", Credits::from_low_bits(code)),
            Self::ReceiverNotReady(code) => write!(f, "RNR NAK, {}", RnrTimer::from_low_bits(code)),
            Self::SequenceError => f.pad("NAK, PSN sequence error"),
            Self::InvalidRequest => f.pad("NAK, invalid request"),
            Self::RemoteAccess => f.pad("NAK, remote access error"),
            Self::RemoteOperational => f.pad("NAK, remote operational error"),
            Self::InvalidDomain => f.pad("NAK, invalid RD request"),
            Self::Other(byte) => write!(f, "reserved syndrome 0x{byte:02x}"),
        }
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
    fn a_syndrome_says_what_it_means() {
        for (byte, text) in [
            (0x00, "ACK, 0 credits"),
            (0x05, "ACK, 6 credits"),
            (0x1f, "ACK, credits not counted"),
            (0x2c, "RNR NAK, wait 640us"),
            (0x60, "NAK, PSN sequence error"),
            (0x61, "NAK, invalid request"),
            (0x62, "NAK, remote access error"),
            (0x63, "NAK, remote operational error"),
            (0x64, "NAK, invalid RD request"),
            (0x65, "reserved syndrome 0x65"),
            (0x9f, "reserved syndrome 0x9f"),
        ] {
            assert_eq!(Syndrome::from_byte(byte).to_string(), text);
        }
    }

    #[test]
    fn a_syndrome_has_either_credits_or_a_timer_or_neither() {
        for byte in 0..=u8::MAX {
            let syndrome = Syndrome::from_byte(byte);
            assert_eq!(syndrome.credits().map(Syndrome::ack), syndrome.is_ack().then_some(syndrome));
            assert!(!(syndrome.credits().is_some() && syndrome.timer().is_some()));
            assert!(syndrome.timer().is_none_or(|timer| Syndrome::not_ready(timer) == syndrome));
            assert_eq!(syndrome.is_fatal(), (0x61..=0x64).contains(&byte));
        }
        assert_eq!(Syndrome::not_ready(RnrTimer::NCCL).byte(), 0x2c);
    }

    #[test]
    fn a_sequence_error_is_0x60() {
        let aeth = Aeth::new(Syndrome::SequenceError, Psn::wrapping(5));
        assert_eq!(aeth.to_bytes(), [0x60, 0, 0, 5]);
        assert_eq!(Aeth::parse(&[0x60, 0, 0, 5]), aeth);
        assert!(Syndrome::UNLIMITED.is_ack() && !aeth.syndrome().is_ack());
    }
}
