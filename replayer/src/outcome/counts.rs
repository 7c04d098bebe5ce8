//! What is counted: by NIC, in time, by class of traffic, by flow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traces::id::{NicId, QueuePairId};
use traces::origin::Class;

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

impl NicOutcome {
    /// Nothing yet.
    #[must_use]
    pub const fn new(nic: NicId) -> Self {
        Self {
            nic,
            frames_sent: 0,
            frames_received: 0,
            frame_bytes_sent: 0,
            frame_bytes_received: 0,
            payload_bytes_sent: 0,
            payload_bytes_received: 0,
            goodput_bytes_received: 0,
            first_sent_ns: None,
            last_sent_ns: None,
            first_received_ns: None,
            last_received_ns: None,
            late: 0,
            congestion_marks: 0,
            congestion_notifications: 0,
            unmatched: 0,
            malformed: 0,
            icrc_errors: None,
            intervals: Intervals { bin_ns: 0, bins: Vec::new() },
        }
    }
}

impl SentFlow {
    /// Nothing yet.
    #[must_use]
    pub const fn new(sender: QueuePairId) -> Self {
        Self {
            sender,
            messages: 0,
            frames: 0,
            payload_bytes: 0,
            frame_bytes: 0,
            stamped: 0,
            retransmitted: 0,
            acknowledgements: 0,
            naks: 0,
            timeouts: 0,
            first_intended_ns: None,
            first_sent_ns: None,
            last_sent_ns: None,
        }
    }
}

impl ReceivedFlow {
    /// Nothing yet.
    #[must_use]
    pub const fn new(sender: QueuePairId) -> Self {
        Self {
            sender,
            messages: 0,
            frames: 0,
            payload_bytes: 0,
            frame_bytes: 0,
            stamped: 0,
            distinct: 0,
            sequence_end: 0,
            duplicated: 0,
            reordered: 0,
            reorder_extent: 0,
            beyond_window: 0,
            acknowledgements: 0,
            naks: 0,
            congestion_marks: 0,
            first_ns: None,
            last_ns: None,
            min_latency_ns: None,
            max_latency_ns: None,
        }
    }
}
