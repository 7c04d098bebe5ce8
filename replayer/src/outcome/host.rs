//! What one agent measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traces::id::{GroupId, HostId, Rank};
use traces::origin::{Class, Operation};

use super::counts::{ClassCounts, NicOutcome, ReceivedFlow, SentFlow};
use super::mode::{Clock, End, Mode};
use super::samples::Samples;

/// Everything that the agent of one host measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostOutcome {
    /// The version of this document.
    pub schema_version: u32,
    /// The run, as the stamps of its frames name it.
    pub run: u32,
    /// The host.
    #[schemars(with = "u32")]
    pub host: HostId,
    /// How the trace was played.
    pub mode: Mode,
    /// How it ended.
    pub end: End,
    /// How instants of different hosts compare.
    pub clock: Clock,
    /// When the run started.
    pub start_ns: u64,
    /// When the last piece of its own work was done: the drain after it does not count. When the run broke off, the
    /// instant of that.
    pub end_ns: u64,
    /// Nodes of the graph that are complete; zero in timed mode.
    pub nodes_complete: u64,
    /// Nodes of the graph that were read.
    pub nodes_read: u64,
    /// Its NICs.
    pub nics: Vec<NicOutcome>,
    /// What it sent and received by class of traffic.
    pub classes: Vec<ClassCounts>,
    /// Flows that it sent.
    pub sent: Vec<SentFlow>,
    /// Flows that it received.
    pub received: Vec<ReceivedFlow>,
    /// Latencies by kind and class.
    pub latency: Vec<LatencySamples>,
    /// Its ranks' part in each operation.
    pub operations: Vec<OperationTime>,
    /// When its ranks ended each training step.
    pub steps: Vec<StepEnd>,
    /// When its ranks computed; neighbours that touch and serve the same step are one.
    pub computes: Vec<Span>,
    /// Operations and spans for which there was no room: at most [`MOST_ENTRIES`] of each are kept.
    pub left_off: u64,
}

/// What a latency is measured between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LatencyKind {
    /// From the intended time to the arrival.
    Response,
    /// From the actual departure to the arrival.
    Service,
    /// From the intended time to the actual departure.
    Lateness,
    /// Of a message: from the instant it was ready to its acknowledgement. Dependency mode.
    Completion,
}

/// Latencies of one kind and class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySamples {
    /// Between what.
    pub kind: LatencyKind,
    /// Of what; absent for what could not be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The samples.
    pub samples: Samples,
}

/// A rank's part in an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperationTime {
    /// The rank.
    #[schemars(with = "u32")]
    pub rank: Rank,
    /// The training step.
    pub step: u32,
    /// The class.
    pub class: Class,
    /// What it does.
    pub operation: Operation,
    /// Among whom.
    #[schemars(with = "u32")]
    pub group: GroupId,
    /// Which one of the group's.
    pub instance: u32,
    /// What it means in bytes: S.
    pub payload_bytes: u64,
    /// When the rank could begin its first piece of it: data to send or to copy; without such, its first arrival.
    pub ready_ns: u64,
    /// When the rank was done with it.
    pub complete_ns: u64,
    /// When the trace had it begin, in trace time.
    pub planned_ready_ns: u64,
    /// When the trace had it done, in trace time.
    pub planned_complete_ns: u64,
}

/// The end of a training step on a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepEnd {
    /// The rank.
    #[schemars(with = "u32")]
    pub rank: Rank,
    /// The step.
    pub step: u32,
    /// When.
    pub end_ns: u64,
    /// When in the trace.
    pub planned_end_ns: u64,
}

/// A stretch of compute on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// The rank.
    #[schemars(with = "u32")]
    pub rank: Rank,
    /// The training step.
    pub step: u32,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// When it began in the trace.
    pub planned_start_ns: u64,
    /// When it ended in the trace.
    pub planned_end_ns: u64,
}

/// The version of [`HostOutcome`] that this program writes.
pub const SCHEMA_VERSION: u32 = 1;

/// The most operations, and the most spans, that a host keeps.
pub const MOST_ENTRIES: usize = 1 << 17;
