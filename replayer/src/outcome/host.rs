//! What one agent measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traces::id::{GroupId, HostId, NicId, QueuePairId, Rank};
use traces::origin::{Class, Operation};

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

/// What went through one NIC. Frame bytes are those of whole frames, without FCS, preamble and gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NicOutcome {
    /// The NIC.
    #[schemars(with = "u32")]
    pub nic: NicId,
    /// Frames sent, acknowledgements and those sent again included.
    pub frames_sent: u64,
    /// Frames received that belong to the run.
    pub frames_received: u64,
    /// Bytes of the frames sent.
    pub frame_bytes_sent: u64,
    /// Bytes of the frames received.
    pub frame_bytes_received: u64,
    /// Payload of the data frames sent, those sent again included.
    pub payload_bytes_sent: u64,
    /// Payload of the data frames received, duplicates included.
    pub payload_bytes_received: u64,
    /// Payload that was new and in order: what messages are made of (goodput). Timed: what was new.
    pub goodput_bytes_received: u64,
    /// When the first frame left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sent_ns: Option<u64>,
    /// When the last frame left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sent_ns: Option<u64>,
    /// When the first frame arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_received_ns: Option<u64>,
    /// When the last frame arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_received_ns: Option<u64>,
    /// Frames that left later than allowed after their intended time; timed mode only.
    pub late: u64,
    /// Frames received with ECN's congestion mark.
    pub congestion_marks: u64,
    /// Congestion notifications received.
    pub congestion_notifications: u64,
    /// Frames that arrived and belong to no queue pair of the run, or to another run.
    pub unmatched: u64,
    /// Frames that arrived and cannot be taken apart.
    pub malformed: u64,
    /// Frames whose invariant CRC is wrong; absent when it was not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icrc_errors: Option<u64>,
    /// Its traffic in time.
    pub intervals: Intervals,
}

/// Traffic in equal bins of time, from the run's start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Intervals {
    /// The length of a bin.
    pub bin_ns: u64,
    /// The bins, up to the last one in which something happened.
    pub bins: Vec<IntervalBin>,
}

/// What went through a NIC in one bin of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalBin {
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Bytes of the frames sent.
    pub frame_bytes_sent: u64,
    /// Bytes of the frames received.
    pub frame_bytes_received: u64,
    /// Payload sent.
    pub payload_bytes_sent: u64,
    /// Payload received.
    pub payload_bytes_received: u64,
}

/// What a host sent and received of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassCounts {
    /// The class; absent for what could not be told (timed mode, frames without stamp).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Messages sent and acknowledged; timed: messages whose last frame was sent.
    pub messages_sent: u64,
    /// Messages received whole.
    pub messages_received: u64,
    /// Data frames sent, those sent again included.
    pub frames_sent: u64,
    /// Data frames received, duplicates included.
    pub frames_received: u64,
    /// Payload of the data frames sent.
    pub payload_bytes_sent: u64,
    /// Payload of the data frames received.
    pub payload_bytes_received: u64,
    /// Data frames with a stamp that were sent: what loss is counted against.
    pub stamped_sent: u64,
    /// Different stamps that arrived.
    pub stamped_received: u64,
    /// Stamps that arrived more than once, each repetition counted.
    pub duplicated: u64,
    /// Stamps that arrived after a later one of their flow (RFC 4737, type-P-reordered).
    pub reordered: u64,
    /// When the first data frame of the class left or arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ns: Option<u64>,
    /// When the last data frame of the class left or arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_ns: Option<u64>,
}

/// A flow as its sender knows it. A flow is what one queue pair sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentFlow {
    /// The queue pair that sends.
    #[schemars(with = "u32")]
    pub sender: QueuePairId,
    /// Messages: dependency mode, acknowledged; timed, their last frame was sent.
    pub messages: u64,
    /// Data frames sent, those sent again included.
    pub frames: u64,
    /// Their payload.
    pub payload_bytes: u64,
    /// Bytes of all frames, acknowledgements included.
    pub frame_bytes: u64,
    /// Those of them that carry a stamp.
    pub stamped: u64,
    /// Data frames sent again.
    pub retransmitted: u64,
    /// Acknowledgements received for it.
    pub acknowledgements: u64,
    /// Negative acknowledgements received for it.
    pub naks: u64,
    /// Times that no acknowledgement came in time.
    pub timeouts: u64,
    /// The intended time of its first frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_intended_ns: Option<u64>,
    /// When its first frame left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sent_ns: Option<u64>,
    /// When its last frame left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sent_ns: Option<u64>,
}

/// A flow as its receiver knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceivedFlow {
    /// The queue pair that sends.
    #[schemars(with = "u32")]
    pub sender: QueuePairId,
    /// Messages received whole.
    pub messages: u64,
    /// Data frames received, duplicates included.
    pub frames: u64,
    /// Their payload.
    pub payload_bytes: u64,
    /// Bytes of all frames, acknowledgements included.
    pub frame_bytes: u64,
    /// Frames among them that carry a stamp.
    pub stamped: u64,
    /// Different stamps that arrived.
    pub distinct: u64,
    /// The highest sequence number that arrived, plus one.
    pub sequence_end: u64,
    /// Stamps that arrived more than once, each repetition counted.
    pub duplicated: u64,
    /// Stamps that arrived after a later one (RFC 4737, type-P-reordered).
    pub reordered: u64,
    /// The most by which a reordered stamp was behind the highest one (RFC 4737, reordering extent, in sequence numbers).
    pub reorder_extent: u64,
    /// Stamps so far behind that it cannot be told whether they had come before. They count as distinct.
    pub beyond_window: u64,
    /// Acknowledgements that it sent.
    pub acknowledgements: u64,
    /// Negative acknowledgements that it sent.
    pub naks: u64,
    /// Frames received with ECN's congestion mark.
    pub congestion_marks: u64,
    /// When its first data frame arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ns: Option<u64>,
    /// When its last new data frame arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_ns: Option<u64>,
    /// The extremes of `service` of this flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_latency_ns: Option<u64>,
    /// The same, the largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_latency_ns: Option<u64>,
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

impl ClassCounts {
    /// Nothing yet.
    #[must_use]
    pub const fn new(class: Option<Class>) -> Self {
        Self {
            class,
            messages_sent: 0,
            messages_received: 0,
            frames_sent: 0,
            frames_received: 0,
            payload_bytes_sent: 0,
            payload_bytes_received: 0,
            stamped_sent: 0,
            stamped_received: 0,
            duplicated: 0,
            reordered: 0,
            first_ns: None,
            last_ns: None,
        }
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

/// The version of [`HostOutcome`] that this program writes.
pub const SCHEMA_VERSION: u32 = 1;

/// The most operations, and the most spans, that a host keeps.
pub const MOST_ENTRIES: usize = 1 << 17;

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
