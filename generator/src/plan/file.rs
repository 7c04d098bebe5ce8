//! The plan as written: TOML tables whose keys are an interface. What a value means stands in `resolve`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
}

/// `[transport]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransportTable {
    /// Payload of a full frame: 256, 512, 1024, 2048 or 4096.
    pub path_mtu: Option<u32>,
    /// `mlx5-nccl`.
    pub nic_profile: Option<String>,
    /// Differentiated services code point, 0 to 63; 26 if not given.
    pub dscp: Option<u8>,
    /// ECN field: 0, or 2 for capable; 2 if not given.
    pub ecn: Option<u8>,
    /// TTL; 255 if not given.
    pub ttl: Option<u8>,
    /// `pattern` or `zero`.
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
