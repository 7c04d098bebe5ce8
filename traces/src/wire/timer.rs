//! Durations in five bits: how long a receiver that is not ready lets wait, and time-outs.

use std::fmt;

use crate::unit::{Nanos, duration_text};

/// How long the requester waits after an RNR NAK before it sends again (IBTA vol. 1, table 45; 9.7.5.2.8).
///
/// The responder's queue pair has it as `min_rnr_timer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RnrTimer(u8);

/// A time-out of 4.096 us x 2^code (IBTA vol. 1, 9.9.2.1.1): of acknowledgements, and of management datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timeout(u8);

impl RnrTimer {
    /// NCCL's: 640 us (`net_ib/connect.cc`, `min_rnr_timer = 12`).
    pub const NCCL: Self = Self(12);

    /// The timer with this code, 0 to 31.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    pub(super) const fn from_low_bits(byte: u8) -> Self {
        Self(byte & 0x1f)
    }

    /// The code, 0 to 31. Code 0 is the longest time, not the shortest.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The least time to wait: 10 us to 655.36 ms.
    ///
    /// ```
    /// use traces::unit::Nanos;
    /// use traces::wire::RnrTimer;
    /// assert_eq!(RnrTimer::NCCL.wait(), Nanos(640_000));
    /// ```
    #[must_use]
    pub fn wait(self) -> Nanos {
        Nanos(10_000 * u64::from(WAITS[usize::from(self.0 & 0x1f)]))
    }
}

impl Timeout {
    /// NCCL's for acknowledgements: 4.29 s (`NCCL_IB_TIMEOUT`, 20).
    pub const NCCL: Self = Self(20);
    /// That of Linux's connection management for its answers: 4.29 s (`CMA_CM_RESPONSE_TIMEOUT`).
    pub const MANAGEMENT: Self = Self(20);
    /// The time-out of acknowledgements that Linux's connection management asks for: 2.15 s, as captured from rxe.
    pub const PATH: Self = Self(19);
    /// How long a NIC may take for an acknowledgement, as rxe says: 134 ms (`RXE_LOCAL_CA_ACK_DELAY`); mlx5 says 268.
    pub const ACK_DELAY: Self = Self(15);

    /// The time-out with this code, 0 to 31.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    pub(super) const fn from_low_bits(byte: u8) -> Self {
        Self(byte & 0x1f)
    }

    /// The code, 0 to 31.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The time: 4.096 us to 2.4 hours. As the time-out of acknowledgements, code 0 says that there is none.
    ///
    /// ```
    /// use traces::unit::Nanos;
    /// use traces::wire::Timeout;
    /// assert_eq!(Timeout::NCCL.duration(), Nanos(4_294_967_296));
    /// ```
    #[must_use]
    pub const fn duration(self) -> Nanos {
        Nanos(4096 << self.0)
    }
}

impl fmt::Display for RnrTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wait {}", duration_text(self.wait()))
    }
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.duration().fmt(f)
    }
}

/// The waits of codes 0 to 31 in tens of microseconds.
const WAITS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_of_the_table() {
        for (code, micros) in
            [(0, 655_360), (1, 10), (5, 60), (12, 640), (13, 960), (24, 40_960), (31, 491_520)]
        {
            assert_eq!(RnrTimer(code).wait(), Nanos(1_000 * micros), "{code}");
        }
        assert_eq!(RnrTimer::from_code(32), None);
        for code in 2..30 {
            assert_eq!(
                RnrTimer(code + 2).wait().0,
                2 * RnrTimer(code).wait().0,
                "each second one doubles: {code}"
            );
        }
    }

    #[test]
    fn a_time_out_doubles_with_each_code() {
        assert_eq!(Timeout(0).duration(), Nanos(4_096));
        assert_eq!(Timeout(19).duration(), Nanos(2_147_483_648), "seen from connection management: 2.1 s");
        assert_eq!(Timeout(31).duration(), Nanos(8_796_093_022_208));
        assert_eq!(Timeout::from_code(32), None);
    }
}
