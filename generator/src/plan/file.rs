//! The plan as written: TOML tables whose keys are an interface. What a value means stands in `resolve`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traces::wire::profile::{FirstPsn, Identification, NotificationPort, PortRule};

use super::chance::ChanceText;
use super::dcqcn::DcqcnTable;
use super::impairments::ImpairmentTable;

/// A plan file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// The version of the plan format: 1.
    pub version: u32,
    /// A name for people.
    pub name: String,
    /// The seed of everything random.
    pub seed: Option<u64>,
    /// The model.
    pub model: ModelTable,
    /// The training step.
    pub training: TrainingTable,
    /// How the model and its data are spread over ranks.
    pub parallelism: Option<ParallelismTable>,
    /// The machines.
    pub cluster: ClusterTable,
    /// How operations become messages.
    pub collectives: Option<CollectivesTable>,
    /// How messages become frames.
    pub transport: Option<TransportTable>,
    /// How long compute takes.
    pub timing: Option<TimingTable>,
    /// The network between the NICs.
    pub fabric: Option<FabricTable>,
    /// NIC profiles of one's own, by name.
    pub nic_profiles: Option<BTreeMap<String, NicProfileTable>>,
}

/// A NIC profile of one's own: what it has other than a named one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NicProfileTable {
    /// The named profile that it starts from; `mlx5-nccl` if not given.
    pub base: Option<String>,
    /// The M bit of all but congestion notifications.
    pub migrated: Option<bool>,
    /// Byte 4 of BTH in data frames, 0 to 255.
    pub bth_byte4: Option<u8>,
    /// The IPv4 identification: `counter` or `zero`.
    pub identification: Option<Identification>,
    /// The ECN field: 0 or 2.
    pub ecn: Option<u8>,
    /// The time to live, 1 to 255.
    pub ttl: Option<u8>,
    /// The UDP source port: `product` (of both numbers, mlx5), `own` (of the own number, rxe), `fixed` (49152).
    pub source_port: Option<PortRule>,
    /// Every frame whose PSN is the last of so many asks for an acknowledgement; 0: none within a message.
    pub ack_every_psn: Option<u32>,
    /// Every so manieth frame of a message asks for an acknowledgement; instead of `ack_every_psn`.
    pub ack_every_frame: Option<u32>,
    /// Whether the first frame of a queue pair asks too.
    pub ack_opening: Option<bool>,
    /// The credit code of acknowledgements, 0 to 31.
    pub credit: Option<u8>,
    /// The first PSN: `zero` or `random`.
    pub first_psn: Option<FirstPsn>,
    /// The UDP source port of congestion notifications: `zero` or `connection`.
    pub cnp_source_port: Option<NotificationPort>,
    /// The least time between two congestion notifications of a queue pair.
    pub cnp_interval: Option<String>,
}

/// `[model]`: a preset, or a family with its fields. A field beside a preset replaces the preset's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelTable {
    /// `gpt2`, `gpt2-medium`, `gpt2-large`, `gpt2-xl`.
    pub preset: Option<String>,
    /// `gpt`.
    pub family: Option<String>,
    /// Transformer layers.
    pub layers: Option<u32>,
    /// Width of an activation.
    pub hidden: Option<u64>,
    /// Attention heads.
    pub heads: Option<u64>,
    /// Width of the MLP's inner activation; 4 x hidden if not given.
    pub ffn: Option<u64>,
    /// Rows of the embedding; 50257 if not given.
    pub vocab: Option<u64>,
    /// Rows of the learned positions; the sequence length if not given.
    pub learned_positions: Option<u64>,
}

/// `[training]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainingTable {
    /// Tokens of a sequence.
    pub sequence_length: u64,
    /// Sequences of a microbatch.
    pub micro_batch: u64,
    /// Sequences of a step over all replicas.
    pub global_batch: u64,
    /// Steps in the trace; 1 if not given.
    pub steps: Option<u32>,
    /// `bf16`, `fp16` or `fp32`; `bf16` if not given.
    pub activation_dtype: Option<String>,
    /// As activations.
    pub gradient_dtype: Option<String>,
    /// As activations.
    pub parameter_dtype: Option<String>,
    /// A text file beside the plan.
    pub text: Option<String>,
    /// A number of tokens, instead of a text.
    pub tokens: Option<u64>,
}

/// `[parallelism]`: degrees, each 1 if not given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParallelismTable {
    /// Tensor parallel degree.
    pub tensor: Option<u32>,
    /// Pipeline stages.
    pub pipeline: Option<u32>,
    /// Data parallel replicas.
    pub data: Option<u32>,
    /// `1f1b` or `gpipe`; `1f1b` if not given.
    pub schedule: Option<String>,
    /// Layers of each stage; equal if not given.
    pub layers_per_stage: Option<Vec<u32>>,
    /// The order of ranks, fastest first; `tp-cp-ep-dp-pp` if not given.
    pub order: Option<String>,
    /// The size at which a gradient bucket closes; `25MiB` if not given (the first closes at 1 MiB).
    pub buckets: Option<String>,
}

/// `[cluster]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterTable {
    /// Hosts.
    pub hosts: u32,
    /// GPUs, and so ranks, of a host.
    pub gpus_per_host: u32,
    /// NICs of a host; as many as GPUs if not given.
    pub nics_per_host: Option<u32>,
    /// Line rate of a NIC.
    pub link: String,
    /// Rate between GPUs of a host; `3600Gbit` if not given.
    pub nvlink: Option<String>,
    /// The network that NICs take their addresses from; `198.18.0.0/15` if not given.
    pub addresses: Option<String>,
    /// The VLAN id of all frames.
    pub vlan: Option<u16>,
    /// The MTU of the ports; 9000 if not given.
    pub mtu: Option<u32>,
}

/// `[collectives]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectivesTable {
    /// `ring` or `auto`.
    pub algorithm: Option<String>,
    /// `simple` or `auto`.
    pub protocol: Option<String>,
    /// Channels of a collective; 4 if not given.
    pub channels: Option<u32>,
    /// Queue pairs of a connection, 1 to 16; 1 if not given (NCCL_IB_QPS_PER_CONNECTION).
    pub queue_pairs: Option<u32>,
    /// Whether each message is split over the queue pairs, or they take messages in turn; false if not given
    /// (NCCL_IB_SPLIT_DATA_ON_QPS).
    pub split: Option<bool>,
}

/// `[transport]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransportTable {
    /// Payload of a full frame: 256, 512, 1024, 2048 or 4096.
    pub path_mtu: Option<u32>,
    /// `mlx5-nccl`, `mlx5-cm`, `hns`, `rxe`, or one of `[nic_profiles]`; `mlx5-nccl` if not given.
    pub nic_profile: Option<String>,
    /// Differentiated services code point, 0 to 63; 26 if not given.
    pub dscp: Option<u8>,
    /// Differentiated services code point of congestion notifications; 48 if not given.
    pub cnp_dscp: Option<u8>,
    /// ECN field: 0, or 2 for capable; the profile's if not given.
    pub ecn: Option<u8>,
    /// TTL; the profile's if not given.
    pub ttl: Option<u8>,
    /// Whether receivers clear senders to send, as NCCL's do; true if not given.
    pub cts: Option<bool>,
    /// `each`: every request for an acknowledgement has its own; `coalesced`: one that still waits is brought up to date.
    /// `each` if not given.
    pub acks: Option<String>,
    /// `none`: connections are set up over TCP, outside the trace; `cm`: by RDMA-CM, before the first step, and ended after
    /// the last. The profile `mlx5-cm` says `cm`, others `none`, if not given.
    pub setup: Option<String>,
    /// Whether messages over 8192 bytes go as a WRITE and an empty WRITE with immediate (NCCL_IB_ADAPTIVE_ROUTING); false
    /// if not given.
    pub adaptive_routing: Option<bool>,
    /// The code of the time-out, 1 to 31: 4.096 us x 2^code; 20 if not given (NCCL_IB_TIMEOUT).
    pub timeout: Option<u8>,
    /// Time-outs in a row before a queue pair gives up, 0 to 7; 7 if not given (NCCL_IB_RETRY_CNT).
    pub retry_count: Option<u8>,
    /// The code of the RNR timer, 0 to 31; 12 if not given: 640 us.
    pub rnr_timer: Option<u8>,
    /// `pattern`, `zero`, `random` or `token`; `pattern` if not given.
    pub payload: Option<String>,
}

/// `[timing]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimingTable {
    /// `a100` or `h100`: its peak in 16-bit floating point.
    pub gpu: Option<String>,
    /// Peak of a GPU in operations per second, instead of `gpu`.
    pub peak_flops: Option<u64>,
    /// How much of the peak is reached, in percent; 40 if not given.
    pub efficiency_percent: Option<u32>,
}

/// `[fabric]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricTable {
    /// `ideal`: a constant latency, and an output queue before each receiving port.
    pub model: Option<String>,
    /// From port to port; `2us` if not given.
    pub latency: Option<String>,
    /// Frames that a queue pair sends before the next one has its turn; 16 if not given.
    pub quantum: Option<u32>,
    /// Marks by queues: when switches set CE; never if not given.
    pub ecn: Option<EcnTable>,
    /// How senders react to congestion notifications.
    pub dcqcn: Option<DcqcnTable>,
    /// Planned trouble.
    pub impairments: Option<Vec<ImpairmentTable>>,
}

/// `[fabric.ecn]`: frames are marked that find more than this waiting before the port of their receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EcnTable {
    /// Up to here none is marked.
    pub kmin: String,
    /// Beyond here all are; `kmin` if not given.
    pub kmax: Option<String>,
    /// The chance at `kmax`, to which it grows from `kmin` in a straight line; 1 if not given.
    pub pmax: Option<ChanceText>,
}
