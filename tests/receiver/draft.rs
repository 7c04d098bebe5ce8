//! Plans that are drawn, and the smallest one: shapes of training, habits of NICs, trouble of the network.

use std::fmt::Write as _;

use proptest::prelude::*;

/// A plan that a test may vary.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    hosts: u32,
    gpus: u32,
    tensor: u32,
    pipeline: u32,
    layers: u32,
    hidden: u32,
    microbatches: u32,
    path_mtu: u32,
    channels: u32,
    v6: bool,
    vlan: bool,
    quantum: u32,
    habits: Habits,
    /// Entries of `[[fabric.impairments]]`, without the heading.
    trouble: Vec<String>,
}

/// How messages go.
#[derive(Clone, Debug)]
struct Habits {
    profile: &'static str,
    queue_pairs: u32,
    split: bool,
    adaptive: bool,
    cts: bool,
    coalesced: bool,
}

impl Draft {
    fn data(&self) -> u32 {
        self.hosts * self.gpus / (self.tensor * self.pipeline)
    }

    /// The same with this trouble.
    pub(crate) fn with(self, trouble: Vec<String>) -> Self {
        Self { trouble, ..self }
    }

    /// The plan.
    pub(crate) fn text(&self) -> String {
        let Self { hosts, gpus, tensor, pipeline, layers, hidden, path_mtu, channels, quantum, .. } = *self;
        let Habits { profile, queue_pairs, split, adaptive, cts, coalesced } = self.habits;
        let acks = if coalesced { "coalesced" } else { "each" };
        let data = self.data();
        let mut text = format!(
            "version = 1\nname = \"drawn\"\nseed = 3\n[model]\nfamily = \"gpt\"\nlayers = {}\nhidden = {hidden}\nheads = 2\nvocab = 300\n\
             [training]\nsequence_length = 16\nmicro_batch = 1\nglobal_batch = {}\n\
             [parallelism]\ntensor = {tensor}\npipeline = {pipeline}\ndata = {data}\nbuckets = \"32KiB\"\n\
             [collectives]\nchannels = {channels}\nqueue_pairs = {queue_pairs}\nsplit = {split}\n\
             [transport]\npath_mtu = {path_mtu}\nnic_profile = \"{profile}\"\nadaptive_routing = {adaptive}\ncts = {cts}\n\
             acks = \"{acks}\"\ntimeout = 8\necn = 2\n[fabric]\nquantum = {quantum}\n\
             [cluster]\nhosts = {hosts}\ngpus_per_host = {gpus}\nlink = \"25Gbit\"\n",
            layers * pipeline,
            data * self.microbatches,
        );
        if self.v6 {
            text.push_str("addresses = \"2001:2::/48\"\n");
        }
        if self.vlan {
            writeln!(text, "vlan = {}", 100 + hosts).unwrap();
        }
        for entry in &self.trouble {
            writeln!(text, "[[fabric.impairments]]\n{entry}").unwrap();
        }
        text
    }
}

/// Plans of all shapes, without trouble.
pub(crate) fn drafts() -> impl Strategy<Value = Draft> {
    let shape = (2..=4_u32, 1..=2_u32, any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let frames = (prop::sample::select(vec![256, 512, 1024, 2048, 4096_u32]), 1..=4_u32, 1..=16_u32);
    let sizes = (1..=2_u32, prop::sample::select(vec![16, 32, 48_u32]), 1..=3_u32);
    (shape, frames, sizes, any::<[bool; 2]>(), habits()).prop_map(
        |(shape, frames, sizes, [v6, vlan], habits)| {
            let (hosts, gpus, tensor, pipeline) = shape;
            let ranks = hosts * gpus;
            let divisors = |of: u32| (1..=of).filter(|degree| of.is_multiple_of(*degree)).collect::<Vec<_>>();
            // Two heads and a hidden size of 16 are cut into two at the most.
            let tensors: Vec<_> = divisors(ranks).into_iter().filter(|&tensor| tensor <= 2).collect();
            let tensor = *tensor.get(&tensors);
            let pipeline = *pipeline.get(&divisors(ranks / tensor));
            let (path_mtu, channels, quantum) = frames;
            let (layers, hidden, microbatches) = sizes;
            Draft {
                hosts,
                gpus,
                tensor,
                pipeline,
                layers,
                hidden,
                microbatches,
                path_mtu,
                channels,
                v6,
                vlan,
                quantum,
                habits,
                trouble: Vec::new(),
            }
        },
    )
}

prop_compose! {
    fn habits()(
        profile in prop::sample::select(vec!["mlx5-nccl", "mlx5-cm", "hns", "rxe"]),
        queue_pairs in 1..=3_u32, [split, adaptive, cts, coalesced] in any::<[bool; 4]>(),
    ) -> Habits {
        Habits { profile, queue_pairs, split, adaptive, cts, coalesced }
    }
}

/// Trouble of each kind, mild enough that no queue pair gives up.
pub(crate) fn trouble() -> impl Strategy<Value = String> {
    let frames = prop::sample::select(vec!["data", "ack", "cts", "cnp", "all"]);
    prop_oneof![
        (1..=30_u32, frames.clone())
            .prop_map(|(rate, frames)| format!("kind = \"loss\"\nrate = 0.{rate:03}\nframes = \"{frames}\"")),
        (1..=5_u32, 2..=12_u32).prop_map(|(start, frames)| format!(
            "kind = \"loss\"\nburst = {{ start = 0.{start:03}, frames = {frames} }}"
        )),
        (0..4_u32, 1..=6_u32, 1..=3_u32, 1..=3_u32).prop_map(|(message, frame, count, times)| format!(
            "kind = \"loss\"\nmessage = {message}\nframe = {frame}\ncount = {count}\ntimes = {times}"
        )),
        (1..=200_u32).prop_map(|rate| format!("kind = \"ce\"\nrate = 0.{rate:03}")),
        (1..=50_u32, 1..=60_u32, frames).prop_map(|(rate, delay, frames)| format!(
            "kind = \"delay\"\nrate = 0.{rate:03}\ndelay = \"{delay}us\"\nframes = \"{frames}\""
        )),
        (1..=100_u32).prop_map(|rate| format!("kind = \"rnr\"\nrate = 0.{rate:03}")),
        (0..4_u32, 1..=3_u32)
            .prop_map(|(message, times)| format!("kind = \"rnr\"\nmessage = {message}\ntimes = {times}")),
    ]
}

/// Two replicas, one channel.
pub(crate) const SMALL: Draft = Draft {
    hosts: 2,
    gpus: 1,
    tensor: 1,
    pipeline: 1,
    layers: 1,
    hidden: 32,
    microbatches: 1,
    path_mtu: 256,
    channels: 1,
    v6: false,
    vlan: false,
    quantum: 16,
    habits: Habits {
        profile: "mlx5-nccl",
        queue_pairs: 1,
        split: false,
        adaptive: false,
        cts: true,
        coalesced: false,
    },
    trouble: Vec::new(),
};
