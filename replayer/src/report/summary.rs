//! What a run measured, in one document that programs read: `summary.json`.
//!
//! Names of fields are an interface; a change of meaning changes [`SCHEMA_VERSION`]. Bytes, nanoseconds and bits per
//! second are integers and say so in the key. A value that was not measured is an absent key, and `reason` in the same
//! object says why under the key's name; nothing is ever null, NaN, or a zero that stands for "unknown".
//! `docs/run-folder.md` defines each number.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use traces::origin::{Class, Operation};

use crate::outcome::LatencyKind;

/// The version of `summary.json` that this program writes and reads.
pub const SCHEMA_VERSION: u32 = 1;

/// Keys that are absent, and why.
pub type Reasons = BTreeMap<String, String>;

/// What stands in `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The version of this document: [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The run's name, which is its folder's.
    pub run: String,
    /// The program that measured, with its version.
    pub program: String,
    /// The plan's name.
    pub plan: String,
    /// The digest of the plan as meant.
    pub plan_digest: String,
    /// What drove the sending: `dependency` or `timed`.
    pub mode: String,
    /// How many times faster than the trace the frames were to be sent; absent in dependency mode, which follows no schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Whether the run ended before all of the trace was replayed.
    pub partial: bool,
    /// Absent keys of this object, and why; `partial` says what ended a partial run.
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    pub reason: Reasons,
    /// When the run started, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// From the common start to the instant at which the last host had done its own work; drains do not count.
    pub duration_ns: u64,
    /// The duration of the same trace in the plan's timeline.
    pub planned_duration_ns: u64,
    /// Frames sent, all NICs, retransmissions included.
    pub frames_sent: u64,
    /// Frames received, all NICs, duplicates included.
    pub frames_received: u64,
    /// Payload sent, all NICs, retransmissions included.
    pub payload_bytes_sent: u64,
    /// Payload received, all NICs, duplicates included.
    pub payload_bytes_received: u64,
    /// Payload received that was new, all NICs: what messages are made of.
    pub goodput_bytes_received: u64,
    /// Frames that had not arrived when the run had drained.
    pub lost: u64,
    /// Frames that arrived again.
    pub duplicated: u64,
    /// Frames that arrived after one that was sent later on their queue pair.
    pub reordered: u64,
    /// Frames that left later than intended by more than the run's tolerance.
    pub late: u64,
    /// Frames sent again.
    pub retransmitted: u64,
    /// Each NIC.
    pub nics: Vec<NicSummary>,
    /// Each class of traffic.
    pub classes: Vec<ClassSummary>,
    /// Each collective that a rank had part in, in order of their start.
    pub collectives: Vec<CollectiveSummary>,
    /// Each training step.
    pub steps: Vec<StepSummary>,
    /// Each latency histogram: one per kind over everything, one per kind and class, one per kind and host.
    pub latency: Vec<LatencySummary>,
    /// What was planned against what was counted, on each NIC.
    pub reconciliation: Vec<Reconciliation>,
}

/// What one NIC did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NicSummary {
    /// Its number in the trace.
    pub id: u32,
    /// Its host's name.
    pub host: String,
    /// Its name.
    pub name: String,
    /// The address that it used in this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its line rate in the plan.
    pub link_bps: u64,
    /// Frames sent, retransmissions included.
    pub frames_sent: u64,
    /// Frames received, duplicates included.
    pub frames_received: u64,
    /// Payload sent, retransmissions included.
    pub payload_bytes_sent: u64,
    /// Payload received, duplicates included.
    pub payload_bytes_received: u64,
    /// Payload received that was new.
    pub goodput_bytes_received: u64,
    /// Bytes of whole frames sent, as in a capture, retransmissions included.
    pub frame_bytes_sent: u64,
    /// Bytes of whole frames received, as in a capture, duplicates included.
    pub frame_bytes_received: u64,
    /// Payload sent over the run's duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_sent_bps: Option<u64>,
    /// Payload received over the run's duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_received_bps: Option<u64>,
    /// New payload received over the run's duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<u64>,
    /// Payload sent in the busiest interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_sent_bps: Option<u64>,
    /// Frames to it that had not arrived when the run had drained.
    pub lost: u64,
    /// Frames to it that arrived again.
    pub duplicated: u64,
    /// Frames to it that arrived after one that was sent later on their queue pair.
    pub reordered: u64,
    /// Frames that it sent later than intended by more than the tolerance; in timed mode.
    pub late: u64,
    /// Frames that it sent again.
    pub retransmitted: u64,
    /// Frames to it that no queue pair of the trace explains.
    pub unmatched: u64,
    /// Frames to it that could not be taken apart.
    pub malformed: u64,
    /// Frames to it whose ECN field said that a switch was congested.
    pub congestion_marks: u64,
    /// Congestion notifications to it.
    pub congestion_notifications: u64,
    /// Frames to it whose invariant CRC is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icrc_errors: Option<u64>,
    /// Absent keys, and why.
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    pub reason: Reasons,
}

/// What one class of traffic did, over all NICs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassSummary {
    /// The class; absent for data frames whose class could not be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Messages that arrived whole.
    pub messages: u64,
    /// Data frames sent, retransmissions included.
    pub frames_sent: u64,
    /// Data frames received, duplicates included.
    pub frames_received: u64,
    /// Payload sent, retransmissions included.
    pub payload_bytes_sent: u64,
    /// Payload received, duplicates included.
    pub payload_bytes_received: u64,
    /// From its first data frame to its last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_ns: Option<u64>,
    /// Payload received over `active_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_bps: Option<u64>,
    /// Stamped frames that had not arrived when the run had drained.
    pub lost: u64,
    /// Stamped frames that arrived again.
    pub duplicated: u64,
    /// Stamped frames that arrived after one that was sent later on their queue pair.
    pub reordered: u64,
    /// Absent keys, and why.
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    pub reason: Reasons,
}

/// One collective operation of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CollectiveSummary {
    /// The training step.
    pub step: u32,
    /// The class of traffic.
    pub class: Class,
    /// What the group did.
    pub operation: Operation,
    /// The group's number in the trace.
    pub group: u32,
    /// The group's kind.
    pub group_name: String,
    /// The how-manieth operation of the group it was, from zero.
    pub instance: u32,
    /// The members: n.
    pub ranks: u64,
    /// What the operation means: S.
    pub payload_bytes: u64,
    /// From the instant at which the last member that gives data was ready to the last member's completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
    /// The same in the plan's timeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_ns: Option<u64>,
    /// Algorithm bandwidth: S over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algbw_bps: Option<u64>,
    /// Bus bandwidth: algorithm bandwidth times the factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busbw_bps: Option<u64>,
    /// The factor's formula, by operation alone: `2(n-1)/n`, `(n-1)/n` or `1`.
    pub factor: String,
    /// Absent keys, and why.
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    pub reason: Reasons,
}

/// One training step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepSummary {
    /// The step, from zero.
    pub step: u32,
    /// From the end of the step before (or the start) to the end of this one, on the rank that ended it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
    /// The same in the plan's timeline.
    pub planned_ns: u64,
    /// The same with compute alone.
    pub ideal_ns: u64,
    /// `time_ns` over `planned_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_planned: Option<f64>,
    /// `time_ns` over `ideal_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_ideal: Option<f64>,
    /// Absent keys, and why.
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    pub reason: Reasons,
}

/// One latency histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// What was timed: `response` (from the intended departure to the arrival), `service` (from the actual departure to
    /// the arrival), `lateness` (from the intended to the actual departure) or `completion` (of a message, from the instant
    /// at which it was ready to its acknowledgement).
    pub kind: LatencyKind,
    /// The class of traffic; absent for all classes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The name of the host that took the samples: the sender for `lateness` and `completion`, else the receiver; absent
    /// for all hosts together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How good the clocks are: `T0` (both ends read one clock), `T1` (disciplined), `T2` (estimated in band), `T3` (none).
    pub tier: String,
    /// How far any value can be off for the clocks' sake.
    pub uncertainty_ns: u64,
    /// Samples.
    pub count: u64,
    /// The exact smallest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ns: Option<u64>,
    /// Half of the samples are not above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// 99 % of the samples are not above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// 99.9 % of the samples are not above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_ns: Option<u64>,
    /// The exact largest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
    /// Samples above the histogram's range: they count as the largest value that it can hold.
    pub saturated: u64,
    /// Pairs of instants in the wrong order, which are no samples: above zero, the clocks cannot be trusted.
    pub negative: u64,
    /// Absent keys, and why.
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    pub reason: Reasons,
}

/// One figure of one NIC, as planned and as counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reconciliation {
    /// The NIC's name.
    pub nic: String,
    /// What is compared: `payload_bytes_sent`, `frames_received`, ...
    pub figure: String,
    /// Whose figure is expected: the `plan`'s, or what the `senders` counted.
    pub against: String,
    /// What was expected.
    pub expected: u64,
    /// What was counted.
    pub counted: u64,
    /// Whether they agree.
    pub equal: bool,
    /// What explains the difference, where something does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// The JSON Schema of `summary.json`. What may be absent is never null.
#[must_use]
pub fn summary_schema() -> Schema {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(refuse_null));
    settings.into_generator().into_root_schema_for::<Summary>()
}

/// Takes `null` out of a schema that was derived from an `Option`.
fn refuse_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
    }
}
