//! The plan: what is written becomes what is meant, in one step; after it no stage can meet a bad plan.
//!
//! [`PlanFile`] is the TOML as typed, [`Plan`] its meaning with every default decided. [`PlanError`] shows the place in
//! the file and says what would be right. Reading files is left to `load`.

mod error;
mod value;
mod chance;
mod dcqcn;
mod impairments;
mod file;
mod transport;
mod fabric;
mod resolve;
mod written;
pub mod load;
#[cfg(test)]
mod refusals;

pub use chance::Chance;
pub use dcqcn::Dcqcn;
pub use error::PlanError;
pub use file::PlanFile;
pub use impairments::{Choice, Filter, Frames, Harm, Impairment, Run};

use std::fmt::Write as _;
use std::net::IpAddr;

use schemars::Schema;
use traces::unit::{BitRate, Bytes, Nanos};
use traces::wire::{NicProfile, PathMtu, RnrTimer, Timeout};

use crate::model::Model;

/// What a plan means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// A name for people.
    pub name: String,
    /// The seed of everything random.
    pub seed: u64,
    /// The model.
    pub model: Model,
    /// The training step.
    pub training: Training,
    /// How the model and its data are spread over ranks.
    pub parallelism: Parallelism,
    /// The machines.
    pub cluster: Cluster,
    /// How operations become messages.
    pub collectives: Collectives,
    /// How messages become frames.
    pub transport: Transport,
    /// How long compute takes.
    pub timing: Timing,
    /// The network between the NICs.
    pub fabric: Fabric,
}

/// The training step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Training {
    /// Tokens of a sequence.
    pub sequence_length: u64,
    /// Sequences of a microbatch.
    pub micro_batch: u64,
    /// Microbatches of a step on each replica: `global_batch / (micro_batch x data)`.
    pub microbatches: u32,
    /// Steps in the trace.
    pub steps: u32,
    /// The type of activations.
    pub activation: Number,
    /// The type of gradients on the wire.
    pub gradient: Number,
    /// The type of parameters.
    pub parameter: Number,
    /// What is trained on.
    pub words: Words,
}

/// What is trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Words {
    /// A text, with the name it was read by.
    Text {
        /// Its name in the plan.
        name: String,
        /// Its words.
        text: String,
    },
    /// A number of tokens; zero when the plan names neither.
    Tokens(u64),
}

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// bfloat16.
    Bf16,
    /// IEEE half.
    Fp16,
    /// IEEE single.
    Fp32,
}

/// How the model and its data are spread over ranks; the degrees' product is the number of GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parallelism {
    /// Tensor parallel degree.
    pub tensor: u32,
    /// Pipeline stages.
    pub pipeline: u32,
    /// Data parallel replicas.
    pub data: u32,
    /// The order in which a stage works.
    pub schedule: Schedule,
    /// Layers of each stage; they sum to the model's.
    pub layers_per_stage: Vec<u32>,
    /// The dimensions of the grid of ranks, the fastest first.
    pub order: [Dimension; 3],
    /// The size at which a gradient bucket closes.
    pub bucket: Bytes,
}

/// A dimension of the grid of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Tensor parallel place.
    Tensor,
    /// Data parallel replica.
    Data,
    /// Pipeline stage.
    Pipeline,
}

/// The order in which a pipeline stage works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Warm-up, then one forward and one backward in turn (PipeDream-flush).
    OneForwardOneBackward,
    /// All forwards, then all backwards.
    GPipe,
}

/// The machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Hosts.
    pub hosts: u32,
    /// GPUs, and so ranks, of a host.
    pub gpus_per_host: u32,
    /// NICs of a host; they divide its GPUs.
    pub nics_per_host: u32,
    /// Line rate of a NIC.
    pub link: BitRate,
    /// Rate between GPUs of a host.
    pub nvlink: BitRate,
    /// The network that NICs take their addresses from.
    pub addresses: Prefix,
    /// The VLAN id of all frames.
    pub vlan: Option<u16>,
    /// The MTU of the ports; a full frame fits.
    pub mtu: u32,
}

/// A network with room for an address a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Its first address.
    pub network: IpAddr,
    /// Its length in bits.
    pub length: u8,
}

/// How operations become messages: rings, in the Simple protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collectives {
    /// Channels of a collective, 1 to 64.
    pub channels: u32,
    /// Queue pairs of a connection, 1 to 16.
    pub queue_pairs: u32,
    /// Whether each message is split over them, or they take messages in turn.
    pub split: bool,
}

/// How messages become frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Payload of a full frame.
    pub path_mtu: PathMtu,
    /// Differentiated services code point.
    pub dscp: u8,
    /// That of congestion notifications.
    pub cnp_dscp: u8,
    /// The habits of all NICs, with what the plan says of ECN and time to live.
    pub profile: NicProfile,
    /// Whether receivers clear senders to send.
    pub cts: bool,
    /// Whether an acknowledgement that still waits is brought up to date instead of followed by another.
    pub coalesce: bool,
    /// How connections are set up.
    pub setup: Setup,
    /// Whether large messages go as a WRITE and an empty WRITE with immediate.
    pub adaptive_routing: bool,
    /// How long a queue pair waits for an acknowledgement.
    pub timeout: Timeout,
    /// Time-outs in a row before a queue pair gives up.
    pub retry_count: u8,
    /// How long a receiver that is not ready lets wait.
    pub rnr_timer: RnrTimer,
    /// What payloads hold.
    pub payload: Payload,
}

/// What messages carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Bytes that repeat, and that no dissector mistakes for another protocol.
    Pattern,
    /// Zeros.
    Zero,
    /// Noise, by the seed.
    Random,
    /// In activations the name of each token; a pattern in all else.
    Token,
}

/// How connections are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// Over TCP, outside the trace, as NCCL does.
    None,
    /// By RDMA-CM: a handshake before the first step, and its end after the last.
    Cm,
}

impl Setup {
    /// Its name in plans and manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Cm => "cm",
        }
    }
}

/// How long compute takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Operations per second that a GPU reaches.
    pub flops_per_second: u64,
    /// What it could reach.
    pub peak_flops: u64,
    /// How much of the peak is reached, in percent.
    pub efficiency_percent: u32,
}

/// The network between the NICs: a constant latency, and an output queue before each receiving port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// From port to port.
    pub latency: Nanos,
    /// Frames that a queue pair sends before the next one has its turn.
    pub quantum: u32,
    /// When queues mark frames.
    pub marking: Option<Marking>,
    /// Planned trouble, in the plan's order.
    pub impairments: Vec<Impairment>,
    /// How senders react to notifications.
    pub dcqcn: Dcqcn,
}

/// When switches mark frames: by what waits before the port of the frame's receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// Up to here none is marked.
    pub kmin: Bytes,
    /// Beyond here all are; not below `kmin`.
    pub kmax: Bytes,
    /// The chance at `kmax`.
    pub pmax: Chance,
}

impl Plan {
    /// Reads a plan. `source_name` names it in errors; `read_text` gives the text file that it names.
    ///
    /// # Errors
    /// [`PlanError`]: what is wrong, where, and what would be right.
    pub fn read(
        source_name: &str,
        text: &str,
        read_text: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Self, Box<PlanError>> {
        let file: PlanFile =
            toml::from_str(text).map_err(|error| PlanError::from_toml(source_name, text, &error))?;
        let refuse = |wrong| PlanError::wrong(source_name, text, wrong);
        let words = match (&file.training.text, file.training.tokens) {
            (Some(name), None) => {
                let text = read_text(name).map_err(|what| {
                    let help = Some("a UTF-8 text beside the plan, or tokens = N".to_owned());
                    refuse(error::Wrong { keys: vec!["training", "text"], entry: None, what, help })
                })?;
                Words::Text { name: name.clone(), text }
            }
            (_, tokens) => Words::Tokens(tokens.unwrap_or(0)),
        };
        resolve::resolve(&file, words).map_err(refuse)
    }

    /// The plan as meant, every default written out; reads back as the same plan beside the same text.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(&written::file(self)).expect("tables of numbers and texts are TOML")
    }

    /// A digest of the plan as meant: FNV-1a, 64 bits, of [`Self::to_toml`] and of the text.
    #[must_use]
    pub fn digest(&self) -> String {
        let text = match &self.training.words {
            Words::Text { text, .. } => text.as_str(),
            Words::Tokens(_) => "",
        };
        let bytes = self.to_toml().into_bytes().into_iter().chain([0]).chain(text.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut digest = String::new();
        write!(digest, "{hash:016x}").expect("a String takes all that is written");
        digest
    }

    /// Ranks, and so GPUs.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.cluster.hosts * self.cluster.gpus_per_host
    }

    /// NICs of all hosts.
    #[must_use]
    pub const fn nics(&self) -> u32 {
        self.cluster.hosts * self.cluster.nics_per_host
    }

    /// The JSON Schema of plan files.
    #[must_use]
    pub fn schema() -> Schema {
        schemars::schema_for!(PlanFile)
    }
}

impl Number {
    /// Bytes of one number.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bf16 | Self::Fp16 => 2,
            Self::Fp32 => 4,
        }
    }

    /// Its name in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
            Self::Fp32 => "fp32",
        }
    }
}

impl Payload {
    /// All of them; the first is the default.
    pub const ALL: [Self; 4] = [Self::Pattern, Self::Zero, Self::Random, Self::Token];

    /// Its name in plans and manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pattern => "pattern",
            Self::Zero => "zero",
            Self::Random => "random",
            Self::Token => "token",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> Box<PlanError> {
        Plan::read("p.toml", text, |_| Err("no such text".to_owned())).unwrap_err()
    }

    const MODEL: &str = "version = 1\nname = \"p\"\n[model]\npreset = \"gpt2\"\n";
    const REST: &str = "[training]\nsequence_length = 8\nmicro_batch = 1\nglobal_batch = 4\n[cluster]\nhosts = 2\n\
                        gpus_per_host = 2\nlink = \"1Gbit\"\n";

    #[test]
    fn every_shipped_plan_reads_back_as_it_is_written_out() {
        for name in load::names() {
            let plan = load::load(name).unwrap();
            let text = match &plan.training.words {
                Words::Text { text, .. } => text.clone(),
                Words::Tokens(_) => String::new(),
            };
            let again = Plan::read(name, &plan.to_toml(), |_| Ok(text)).unwrap();
            assert_eq!(again.to_toml(), plan.to_toml(), "{name}");
            assert_eq!(again.digest(), plan.digest());
            assert_eq!(again.parallelism, plan.parallelism);
            assert_eq!(again.transport, plan.transport);
        }
    }

    #[test]
    fn degrees_that_do_not_make_the_cluster_are_told_with_both_products() {
        let error = error(&format!("{MODEL}{REST}[parallelism]\ntensor = 2\ndata = 3\n"));
        assert_eq!(
            error.to_string(),
            "p.toml:13: tensor 2 x pipeline 1 x data 3 = 6 ranks, but the cluster has 4 GPUs (2 hosts of 2)"
        );
    }

    #[test]
    fn an_unknown_key_is_told_where_it_stands() {
        let error = error(&format!("{MODEL}hedas = 12\n{REST}[parallelism]\ndata = 4\n"));
        assert_eq!((error.line(), error.to_string().as_str()), (5, "p.toml:5: unknown key `hedas`"));
    }

    #[test]
    fn a_key_of_a_later_version_is_not_called_unknown() {
        let error = error(&format!("{MODEL}{REST}[parallelism]\ndata = 4\nzero = 3\n"));
        assert_eq!(error.to_string(), "p.toml:15: `zero` is not available in this version");
    }

    #[test]
    fn a_text_that_can_not_be_read_is_told_at_its_key() {
        let error = error(&format!(
            "{MODEL}{}[parallelism]\ndata = 4\n",
            REST.replacen("micro", "text = \"a\"\nmicro", 1)
        ));
        assert_eq!(error.to_string(), "p.toml:7: no such text");
    }

    #[test]
    fn the_digest_follows_the_plan_and_its_text() {
        let digest =
            |text: &str, words: &str| Plan::read("p", text, |_| Ok(words.to_owned())).unwrap().digest();
        let plan =
            format!("{MODEL}{}[parallelism]\ndata = 4\n", REST.replacen("micro", "text = \"a\"\nmicro", 1));
        assert_eq!(digest(&plan, "x"), digest(&format!("{plan}\n# a remark\n"), "x"));
        assert_ne!(digest(&plan, "x"), digest(&plan, "y"));
        assert_ne!(digest(&plan, "x"), digest(&plan.replace("1Gbit", "2Gbit"), "x"));
    }
}
