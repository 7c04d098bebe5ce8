//! The manifest: what a trace folder holds, in one JSON document that people and programs read.
//!
//! Names of fields are an interface; a change of meaning changes [`FORMAT_VERSION`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{GroupId, HostId, NicId, QueuePairId, Rank};
use crate::origin::Class;

/// The version of the trace folder's format that this program writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// What stands in `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// The version of the format: [`FORMAT_VERSION`].
    pub schema_version: u32,
    /// The program that wrote it, with its version.
    pub generator: String,
    /// The plan's name.
    pub name: String,
    /// The plan's seed.
    pub seed: u64,
    /// The digest of the plan as meant (`plan.toml`).
    pub plan_digest: String,
    /// The wall-clock instant of the trace's time zero, in nanoseconds since 1970: capture timestamps count from it.
    pub epoch_ns: u64,
    /// Training steps in the trace.
    pub steps: u32,
    /// The duration of the whole trace.
    pub duration_ns: u64,
    /// When each step ended, in trace time, on the rank that ended it last.
    pub step_ends_ns: Vec<u64>,
    /// The same under the plan's ideal: compute alone, no step of it waiting for the network. One per step, as durations.
    pub ideal_step_ns: u64,
    /// What frames are made of, where it is one value for the whole trace.
    pub transport: Transport,
    /// All hosts, in order.
    pub hosts: Vec<Host>,
    /// All NICs, in order.
    pub nics: Vec<Nic>,
    /// All queue pairs of the trace's NICs, in order of their ids; one connection is two of them.
    pub queue_pairs: Vec<QueuePair>,
    /// The process groups that communicate.
    pub groups: Vec<Group>,
    /// Sums over all NICs that were written.
    pub totals: Totals,
}

/// Frame settings of the whole trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transport {
    /// The path MTU: the largest payload of a frame.
    pub path_mtu_bytes: u32,
    /// The MTU of the NICs' ports.
    pub mtu_bytes: u32,
    /// The differentiated services code point of data and acknowledgements.
    pub dscp: u8,
    /// The ECN field of a frame that no switch has marked.
    pub ecn: u8,
    /// The TTL or hop limit.
    pub ttl: u8,
    /// The habits of all NICs, by the name of their profile.
    pub nic_profile: String,
    /// The differentiated services code point of congestion notifications.
    pub cnp_dscp: u8,
    /// The least time between two congestion notifications of a queue pair.
    pub cnp_interval_ns: u64,
    /// How senders react to congestion notifications: `dcqcn` (as NICs are shipped), `own` (DCQCN with other parameters), `none`.
    pub congestion_control: String,
    /// The least frames from one request for an acknowledgement within a message to the next; none if there are none.
    pub ack_interval: Option<u32>,
    /// How connections are set up: `none` (outside the trace) or `cm` (RDMA-CM).
    pub setup: String,
    /// The UDP destination port.
    pub udp_port: u16,
    /// The VLAN id, if frames are tagged.
    pub vlan: Option<u16>,
    /// What payloads hold: `pattern`, `zero`, `random` or `token`.
    pub payload: String,
    /// Bytes kept of each frame, if fewer than all.
    pub snap_bytes: Option<u32>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Its number.
    #[schemars(with = "u32")]
    pub id: HostId,
    /// Its name.
    pub name: String,
    /// Its ranks.
    #[schemars(with = "Vec<u32>")]
    pub ranks: Vec<Rank>,
    /// Its graph, as a path in the folder; absent when it was not asked for.
    pub graph: Option<String>,
}

/// A network interface: one port, one capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nic {
    /// Its number.
    #[schemars(with = "u32")]
    pub id: NicId,
    /// The host it sits in.
    #[schemars(with = "u32")]
    pub host: HostId,
    /// Its name: `host3-nic0`.
    pub name: String,
    /// Its MAC address: `02:00:c6:12:00:03`.
    pub mac: String,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Its line rate.
    pub link_bps: u64,
    /// Its capture files in order of time, as paths in the folder; empty when it was not asked for.
    pub pcap: Vec<String>,
    /// Frames it sends, acknowledgements included.
    pub frames_sent: u64,
    /// Frames that arrive at its port.
    pub frames_received: u64,
    /// Payload of the data frames it sends, those sent again included; clear-to-send writes carry none.
    pub payload_bytes_sent: u64,
    /// Payload of the data frames that arrive.
    pub payload_bytes_received: u64,
    /// What of that it had sent before.
    pub payload_bytes_repeated: u64,
    /// Bytes of whole frames it sends, without FCS, preamble and gap.
    pub frame_bytes_sent: u64,
    /// Bytes of whole frames that arrive.
    pub frame_bytes_received: u64,
    /// What it sends, by class of traffic.
    pub classes: Vec<ClassTotals>,
}

/// Sums over one class of traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassTotals {
    /// The class.
    pub class: Class,
    /// Messages.
    pub messages: u64,
    /// Data frames.
    pub frames: u64,
    /// Payload.
    pub payload_bytes: u64,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueuePair {
    /// Its id in the trace.
    #[schemars(with = "u32")]
    pub id: QueuePairId,
    /// The NIC that owns it.
    #[schemars(with = "u32")]
    pub nic: NicId,
    /// The other end.
    #[schemars(with = "u32")]
    pub peer: QueuePairId,
    /// The number that frames to it carry, 24 bits.
    pub qpn: u32,
    /// The UDP source port of what it sends.
    pub source_port: u16,
    /// The PSN of the first frame it sends, 24 bits.
    pub first_psn: u32,
    /// The remote key of the memory that its peer writes to.
    pub rkey: u32,
    /// The first address of that memory.
    pub address: u64,
    /// The connection that it belongs to, from zero.
    pub connection: u32,
    /// Its place among the queue pairs of the connection.
    pub lane: u32,
    /// Whether this end sends the connection's data; the other one clears it to.
    pub sends_data: bool,
    /// The group that it serves.
    #[schemars(with = "u32")]
    pub group: GroupId,
    /// The channel of the group's collectives that it serves.
    pub channel: u32,
    /// The rank at this end.
    #[schemars(with = "u32")]
    pub rank: Rank,
}

/// A process group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Its number.
    #[schemars(with = "u32")]
    pub id: GroupId,
    /// Its kind: `data`, `tensor`, `pipeline`, `first and last stage`.
    pub name: String,
    /// Its members, in the order in which its rings are built.
    #[schemars(with = "Vec<u32>")]
    pub ranks: Vec<Rank>,
    /// Whether its members sit in more than one host.
    pub leaves_host: bool,
}

/// Sums over all NICs that were written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Frames in the captures.
    pub frames: u64,
    /// Bytes of the capture files.
    pub pcap_bytes: u64,
    /// Messages sent.
    pub messages: u64,
    /// Payload sent in data frames.
    pub payload_bytes: u64,
    /// Nodes of all graphs.
    pub nodes: u64,
    /// What is sent, by class.
    pub classes: Vec<ClassTotals>,
}
