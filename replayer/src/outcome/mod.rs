//! What a run measured, as plain data: of one host as its agent sends it, and of the whole run.
//!
//! [`host`] is filled by [`crate::engine`] and travels as JSON; [`run`] merges the hosts and goes to
//! [`crate::report`]. Times are nanoseconds since the run's epoch, which all agents share. Each figure is defined in
//! `docs/measurement.md`; nothing here measures, and nothing here judges.

pub mod samples;
pub mod host;
pub mod run;

pub use host::{
    ClassCounts, Clock, End, HostOutcome, IntervalBin, Intervals, LatencyKind, LatencySamples, Mode,
    NicOutcome, OperationTime, ReceivedFlow, SentFlow, Span, Speed, StepEnd,
};
pub use run::{ClassOutcome, Collective, FlowOutcome, HostLatency, RankTime, RunOutcome};
pub use samples::{Samples, SamplesError};
