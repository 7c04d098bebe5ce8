//! How a trace was played, how a host's part ended, and how its clock compares.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a trace is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mode {
    /// A message goes when what it waits for has arrived and its compute is over.
    Dependency,
    /// Frames go at the trace's times.
    Timed {
        /// How fast.
        speed: Speed,
    },
}

/// How many times faster than the trace, in thousandths: 1000 is as fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u32", into = "u32")]
pub struct Speed(u32);

/// How a host's part of the run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum End {
    /// All was done.
    Complete,
    /// It was told to stop.
    Stopped,
    /// It could not go on.
    Fault {
        /// Why.
        what: String,
    },
}

/// How instants that two hosts took compare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// `T0`: one clock for all.
    pub tier: String,
    /// The most that one host's instant may be off another's.
    pub uncertainty_ns: u64,
}

impl Speed {
    /// As fast as the trace.
    pub const REAL: Self = Self(1_000);

    /// A speed in thousandths of the trace's, at least one.
    #[must_use]
    pub const fn per_mille(per_mille: u32) -> Option<Self> {
        if per_mille == 0 { None } else { Some(Self(per_mille)) }
    }

    /// When an instant of the trace is played, from the start: `time / k`, rounded down.
    #[must_use]
    pub fn scale(self, trace_ns: u64) -> u64 {
        let scaled = u128::from(trace_ns) * 1_000 / u128::from(self.0);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

impl Clock {
    /// One clock for all hosts: nothing is uncertain.
    #[must_use]
    pub fn same() -> Self {
        Self { tier: "T0".to_owned(), uncertainty_ns: 0 }
    }
}

impl TryFrom<u32> for Speed {
    type Error = &'static str;

    fn try_from(per_mille: u32) -> Result<Self, Self::Error> {
        Self::per_mille(per_mille).ok_or("a speed is at least one thousandth of the trace's")
    }
}

impl From<Speed> for u32 {
    fn from(speed: Speed) -> Self {
        speed.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_twice_the_speed_an_instant_comes_in_half_the_time() {
        let at = |per_mille| Speed::per_mille(per_mille).unwrap().scale(3_001);
        assert_eq!((at(1_000), at(2_000), at(500)), (3_001, 1_500, 6_002));
        assert_eq!(Speed::per_mille(0), None);
        assert_eq!(Speed::per_mille(1).unwrap().scale(u64::MAX), u64::MAX);
    }
}
