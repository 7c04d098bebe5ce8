//! What a run measured, as plain data: of one host as its agent sends it, and of the whole run.
//!
//! [`host`] is filled by [`crate::engine`] and travels as JSON; [`run`] merges the hosts and goes to
//! [`crate::report`]. Times are nanoseconds since the run's epoch, which all agents share. Each figure is defined in
//! `docs/measurement.md`; nothing here measures, and nothing here judges.

pub mod samples;
pub mod mode;
pub mod counts;
pub mod host;
pub mod run;

pub use counts::{ClassCounts, IntervalBin, Intervals, NicOutcome, ReceivedFlow, SentFlow};
pub use host::{HostOutcome, LatencyKind, LatencySamples, OperationTime, Span, StepEnd};
pub use mode::{Clock, End, Mode, Speed};
pub use run::{ClassOutcome, Collective, FlowOutcome, HostLatency, RankTime, RunOutcome};
pub use samples::{Samples, SamplesError};
