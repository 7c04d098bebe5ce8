//! Laws of whole traces: what is planned is what is sent, what is sent is what arrives, and it looks like RoCEv2.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;
use traces::critic::{self, Connection, Critic, Payloads, Vantage, passed};
use traces::folder::TraceFolder;
use traces::graph::{Message, Node, Work};
use traces::id::{HostId, MessageId, NicId};
use traces::manifest::{self, Manifest};
use traces::origin::Operation;
use traces::pcap::CaptureReader;
use traces::unit::{BitRate, Bytes};
use traces::wire::{Mac, Opcode, Parsed, ParsedFrame, Qpn};

use super::{Options, Progress, TraceError, generate};
use crate::operation;
use crate::placement::Placement;
use crate::plan::Plan;

/// The degrees and sizes of a small plan.
#[derive(Clone, Debug)]
struct Small {
    tensor: u32,
    pipeline: u32,
    data: u32,
    gpus_per_host: u32,
    layers_per_stage: u32,
    hidden: u32,
    vocab: u32,
    microbatches: u32,
    steps: u32,
    channels: u32,
    path_mtu: u32,
    gpipe: bool,
    six: bool,
    habits: Habits,
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

impl Small {
    const LEAST: Self = Self {
        tensor: 1,
        pipeline: 1,
        data: 2,
        gpus_per_host: 1,
        layers_per_stage: 1,
        hidden: 16,
        vocab: 100,
        microbatches: 1,
        steps: 1,
        channels: 4,
        path_mtu: 1024,
        gpipe: false,
        six: false,
        habits: Habits {
            profile: "mlx5-nccl",
            queue_pairs: 1,
            split: false,
            adaptive: false,
            cts: true,
            coalesced: false,
        },
    };

    fn plan(&self) -> Plan {
        Self::read(&self.text())
    }

    fn read(text: &str) -> Plan {
        Plan::read("small.toml", text, |_| Err(String::new())).unwrap_or_else(|error| panic!("{error:?}"))
    }

    fn text(&self) -> String {
        let ranks = self.tensor * self.pipeline * self.data;
        format!(
            r#"
            version = 1
            name = "small"
            seed = 7
            [model]
            family = "gpt"
            layers = {layers}
            hidden = {hidden}
            heads = 4
            vocab = {vocab}
            [training]
            sequence_length = 24
            micro_batch = 1
            global_batch = {batch}
            steps = {steps}
            [parallelism]
            tensor = {tensor}
            pipeline = {pipeline}
            data = {data}
            buckets = "40kB"
            schedule = "{schedule}"
            [cluster]
            hosts = {hosts}
            gpus_per_host = {gpus}
            link = "10Gbit"
            addresses = "{addresses}"
            [collectives]
            channels = {channels}
            queue_pairs = {queue_pairs}
            split = {split}
            [transport]
            path_mtu = {path_mtu}
            nic_profile = "{profile}"
            adaptive_routing = {adaptive}
            cts = {cts}
            acks = "{acks}"
            "#,
            layers = self.layers_per_stage * self.pipeline,
            hidden = self.hidden,
            vocab = self.vocab,
            batch = self.microbatches * self.data,
            steps = self.steps,
            tensor = self.tensor,
            pipeline = self.pipeline,
            data = self.data,
            schedule = if self.gpipe { "gpipe" } else { "1f1b" },
            hosts = ranks / self.gpus_per_host,
            gpus = self.gpus_per_host,
            addresses = if self.six { "2001:2::/48" } else { "198.18.0.0/15" },
            channels = self.channels,
            path_mtu = self.path_mtu,
            queue_pairs = self.habits.queue_pairs,
            split = self.habits.split,
            profile = self.habits.profile,
            adaptive = self.habits.adaptive,
            cts = self.habits.cts,
            acks = if self.habits.coalesced { "coalesced" } else { "each" },
        )
    }
}

prop_compose! {
    fn habits()(
        profile in prop::sample::select(vec!["mlx5-nccl", "mlx5-cm", "hns", "rxe"]),
        queue_pairs in 1..=3_u32, [split, adaptive, cts, coalesced] in any::<[bool; 4]>(),
    ) -> Habits {
        Habits { profile, queue_pairs, split, adaptive, cts, coalesced }
    }
}

fn small() -> impl Strategy<Value = Small> {
    let degrees = (prop::sample::select(vec![1_u32, 2, 4]), 1..=4_u32, 1..=4_u32)
        .prop_filter("at most 16 ranks", |(t, p, d)| t * p * d <= 16);
    (degrees, any::<prop::sample::Index>(), 1..=2_u32, 1..=3_u32, 2..=300_u32, 1..=4_u32, 1..=2_u32)
        .prop_flat_map(
            |((tensor, pipeline, data), gpus, layers_per_stage, hidden, vocab, microbatches, steps)| {
                let ranks = tensor * pipeline * data;
                let divisors: Vec<_> = (1..=ranks).filter(|n| ranks % n == 0).collect();
                let gpus_per_host = *gpus.get(&divisors);
                let mtus = prop::sample::select(vec![256_u32, 1024, 4096]);
                (1..=5_u32, mtus, any::<(bool, bool)>(), habits()).prop_map(
                    move |(channels, path_mtu, (gpipe, six), habits)| Small {
                        tensor,
                        pipeline,
                        data,
                        gpus_per_host,
                        layers_per_stage,
                        hidden: 16 * hidden,
                        vocab,
                        microbatches,
                        steps,
                        channels,
                        path_mtu,
                        gpipe,
                        six,
                        habits,
                    },
                )
            },
        )
}

fn options() -> Options {
    Options::default()
}

fn made(plan: &Plan, options: &Options) -> (TempDir, TraceFolder) {
    let above = TempDir::new().unwrap();
    let place = generate(plan, options, &above.path().join("trace"), &|_| ControlFlow::Continue(())).unwrap();
    let folder = TraceFolder::open(place).unwrap();
    (above, folder)
}

fn nodes(folder: &TraceFolder) -> Vec<(HostId, Vec<Node>)> {
    folder
        .manifest()
        .hosts
        .iter()
        .map(|host| {
            let mut reader = folder.graph(host.id).unwrap();
            let mut nodes = Vec::new();
            while let Some(node) = reader.node().unwrap() {
                nodes.push(node);
            }
            (host.id, nodes)
        })
        .collect()
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in ["", "graph", "pcap"] {
        for entry in fs::read_dir(folder.join(name)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn judge(folder: &TraceFolder) -> Result<(), TestCaseError> {
    let manifest = folder.manifest();
    let connections: Vec<_> = manifest
        .queue_pairs
        .chunks(2)
        .map(|pair| {
            let [one, other] = [&pair[0], &pair[1]].map(|end| {
                let address = manifest.nics[end.nic.index()].addresses[0].parse().unwrap();
                (address, Qpn::new(end.qpn).unwrap())
            });
            Connection { one, other }
        })
        .collect();
    let mut critic = Critic::new(&connections);
    for (to, departures) in traces::audit::departures(folder).unwrap() {
        critic.expect(to, departures);
    }
    for nic in &manifest.nics {
        let file = fs::File::open(folder.path().join(&nic.pcap[0])).unwrap();
        let vantage = Vantage {
            mac: Some(nic.mac.parse::<Mac>().unwrap()),
            addresses: nic.addresses.iter().map(|address| address.parse().unwrap()).collect(),
            rate: BitRate::new(nic.link_bps),
            content: Payloads::named(&manifest.transport.payload),
            habits: critic::Habits::of(&manifest.transport),
        };
        critic.capture(&nic.name, vantage, &mut CaptureReader::new(file).unwrap()).unwrap();
    }
    let checks = critic.finish();
    let wrong: Vec<_> = checks.iter().filter(|check| check.violations > 0).collect();
    prop_assert!(wrong.is_empty(), "{wrong:#?}");
    prop_assert!(manifest.totals.frames == 0 || passed(&checks));
    Ok(())
}

/// The first number of what a NIC sends to a queue pair of this number.
fn first_psn(manifest: &Manifest, nic: &manifest::Nic, to: Qpn) -> u32 {
    let pairs = &manifest.queue_pairs;
    let sends =
        |pair: &&manifest::QueuePair| pair.nic == nic.id && pairs[pair.peer.index()].qpn == to.value();
    pairs.iter().find(sends).unwrap().first_psn
}

/// What each host has to send, by closed form: rings and trains over those edges that leave it.
fn planned(plan: &Plan) -> Vec<Bytes> {
    let placement = Placement::new(plan);
    let mut sums = vec![Bytes::ZERO; HostId(plan.cluster.hosts).index()];
    for rank in placement.ranks() {
        for item in crate::schedule::RankSchedule::new(plan, &placement, rank, plan.training.steps) {
            let host = placement.seat(rank).host;
            let away = |other| placement.seat(other).host != host;
            match item.work {
                crate::schedule::Work::AllReduce(operation) => {
                    let group = operation.group;
                    let position = group.position(rank).unwrap();
                    if away(group.member(position + 1)) {
                        let n = u64::from(group.size());
                        // Over all channels: 2 T less two chunks; summed over the ring, 2 (n-1) T.
                        let ring = crate::collective::RingAllReduce::new(
                            group.size(),
                            operation.payload,
                            operation.element,
                            plan.collectives.channels,
                        );
                        let whole: u64 = (0..ring.channels())
                            .flat_map(|channel| (0..n).map(move |position| (channel, position)))
                            .map(|(channel, position)| ring.edge_bytes(channel, position).0)
                            .sum();
                        assert_eq!(whole, 2 * (n - 1) * operation.payload.0);
                        for channel in 0..ring.channels() {
                            sums[host.index()] += ring.edge_bytes(channel, position.into());
                        }
                    }
                }
                crate::schedule::Work::Send { operation, to } if away(to) => {
                    sums[host.index()] += operation.payload;
                }
                _ => {}
            }
        }
    }
    sums
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn bytes_are_conserved_from_operations_to_messages_to_frames(small in small()) {
        let plan = small.plan();
        let (_above, folder) = made(&plan, &options());
        let manifest = folder.manifest();
        judge(&folder)?;

        // Frames: what the captures hold is what the manifest says, and what one port sends another receives.
        let mut sums = BTreeMap::new();
        for nic in &manifest.nics {
            let own: Mac = nic.mac.parse().unwrap();
            let file = fs::File::open(folder.path().join(&nic.pcap[0])).unwrap();
            let mut capture = CaptureReader::new(file).unwrap();
            let mut counted = [(0_u64, 0_u64); 2];
            let mut psns = BTreeMap::new();
            while let Some(record) = capture.next_record().unwrap() {
                let Ok(Parsed::Roce(frame)) = ParsedFrame::parse(record.bytes, record.bytes.len()) else {
                    return Err(TestCaseError::fail("not RoCE"));
                };
                let sent = frame.link.source == own;
                counted[usize::from(sent)].0 += 1;
                let opcode = frame.bth.opcode().unwrap();
                // Neither clear-to-send writes nor handshakes carry data.
                let data = opcode.is_reliable_connection()
                    && !(opcode == Opcode::WriteOnly && frame.payload.len() == 64);
                let payload = if data { u64::try_from(frame.payload.len()).unwrap() } else { 0 };
                counted[usize::from(sent)].1 += payload;
                if sent && opcode.is_reliable_connection() && frame.extensions.aeth.is_none() {
                    let flow = (frame.link.destination, frame.bth.destination);
                    let next = psns.entry(flow).or_insert_with(|| first_psn(manifest, nic, frame.bth.destination));
                    prop_assert_eq!(frame.bth.psn.value(), *next);
                    *next = (*next + 1) % (1 << 24);
                }
            }
            let [received, sent] = counted;
            prop_assert_eq!(sent, (nic.frames_sent, nic.payload_bytes_sent));
            prop_assert_eq!(received, (nic.frames_received, nic.payload_bytes_received));
            *sums.entry(nic.host).or_insert(0) += nic.payload_bytes_sent;
        }
        for (host, planned) in (0..).map(HostId).zip(planned(&plan)) {
            prop_assert_eq!(sums[&host], planned.0, "{}", host);
        }
        let sum = |f: fn(&manifest::Nic) -> u64| manifest.nics.iter().map(f).sum::<u64>();
        prop_assert_eq!(sum(|nic| nic.frames_sent), sum(|nic| nic.frames_received));
        prop_assert_eq!(sum(|nic| nic.payload_bytes_sent), sum(|nic| nic.payload_bytes_received));

        // Graphs: every send has its receive, on another host, and queue pairs count on.
        let (mut sends, mut receives) = (BTreeMap::new(), BTreeMap::new());
        let mut joined: BTreeMap<_, Bytes> = BTreeMap::new();
        for (host, nodes) in nodes(&folder) {
            for node in nodes {
                prop_assert!(node.planned_start <= node.planned_end);
                match node.work {
                    Work::Send(message) => drop(sends.insert(message.id, (host, message))),
                    Work::Receive(message) => drop(receives.insert(message.id, (host, message))),
                    Work::Join { payload, origin } => {
                        // A message counts where it is sent, so half of its two joins.
                        let share = if origin.operation == Operation::SendReceive { 1 } else { 2 };
                        *joined.entry(origin.class).or_default() += payload * share;
                    }
                    Work::Compute { .. } | Work::Local { .. } => {}
                }
            }
        }
        prop_assert_eq!(sends.len(), receives.len());
        let mut next: BTreeMap<_, (u32, u32)> = BTreeMap::new();
        for (id, (host, message)) in &sends {
            let (peer, received): &(HostId, Message) = &receives[id];
            prop_assert_ne!(host, peer);
            prop_assert_eq!(message, received);
            let MessageId { sender, sequence } = *id;
            let first = manifest.queue_pairs[sender.index()].first_psn;
            let (expected, psn) = next.entry(sender).or_insert((0, first));
            prop_assert_eq!((sequence, message.first_psn), (*expected, *psn));
            let apart = small.habits.adaptive && message.immediate.unwrap() > 8192;
            let frames = message.bytes.0.div_ceil(u64::from(small.path_mtu)).max(1) + u64::from(apart);
            *expected += 1;
            *psn = u32::try_from((u64::from(*psn) + frames) % (1 << 24)).unwrap();
        }

        // Operations: the payloads of the joins are those that `explain` tells.
        let placement = Placement::new(&plan);
        let mut told: BTreeMap<_, Bytes> = BTreeMap::new();
        for rank in placement.ranks() {
            for work in operation::of_rank(&plan, &placement, rank) {
                *told.entry(work.class).or_default() += work.payload * (2 * u64::from(plan.training.steps));
            }
        }
        prop_assert_eq!(joined, told);
    }
}

#[test]
fn parts_of_a_message_in_the_form_for_adaptive_routing_are_clean() {
    let habits = Habits { queue_pairs: 2, split: true, adaptive: true, ..Small::LEAST.habits };
    let small =
        Small { pipeline: 2, data: 2, hidden: 48, vocab: 282, layers_per_stage: 2, habits, ..Small::LEAST };
    let (_above, folder) = made(&small.plan(), &options());
    let messages = nodes(&folder).into_iter().flat_map(|(_, nodes)| nodes);
    let apart =
        messages.filter(|node| matches!(node.work, Work::Send(message) if message.immediate > Some(8192)));
    assert!(apart.count() > 0);
    judge(&folder).unwrap();
}

#[test]
fn a_nic_of_ones_own_is_judged_by_its_own_habits() {
    let habits = Habits { profile: "mine", ..Small::LEAST.habits };
    let small = Small { hidden: 64, vocab: 300, path_mtu: 256, habits, ..Small::LEAST };
    let text = format!(
        "{}\n[nic_profiles.mine]\nack_every_frame = 8\ncnp_interval = \"1us\"\n[fabric.dcqcn]\nenabled = false\n[[fabric.impairments]]\nkind = \"ce\"\nrate = 1\n",
        small.text()
    );
    let (_above, folder) = made(&Small::read(&text), &options());
    judge(&folder).unwrap();
}

#[test]
fn threads_and_chosen_nics_change_no_byte() {
    let small = Small {
        tensor: 2,
        pipeline: 2,
        data: 2,
        gpus_per_host: 2,
        microbatches: 3,
        hidden: 64,
        ..Small::LEAST
    };
    let plan = small.plan();
    let (_one, alone) = made(&plan, &options());
    let (_three, together) = made(&plan, &Options { threads: 4, ..options() });
    let (alone_files, together_files) = (files(alone.path()), files(together.path()));
    assert!(alone_files == together_files);
    assert!(alone_files.len() >= 10);

    let chosen = Options { nics: Some(vec![NicId(3)]), threads: 2, ..options() };
    let (_part, part) = made(&plan, &chosen);
    let part = files(part.path());
    assert_eq!(part.keys().filter(|path| path.starts_with("pcap")).count(), 1);
    for (path, bytes) in part.iter().filter(|(path, _)| path.components().count() > 1) {
        assert!(alone_files[path] == *bytes, "{}", path.display());
    }
}

#[test]
fn a_cut_frame_tells_its_length() {
    let (_above, whole) = made(&Small::LEAST.plan(), &options());
    let (_other, cut) = made(&Small::LEAST.plan(), &Options { snap: Some(80), ..options() });
    let read = |folder: &TraceFolder| {
        let file = fs::File::open(folder.path().join("pcap/host0-nic0.pcap")).unwrap();
        let mut capture = CaptureReader::new(file).unwrap();
        let mut frames = Vec::new();
        while let Some(record) = capture.next_record().unwrap() {
            frames.push((record.time, record.original_length, record.bytes.to_vec()));
        }
        frames
    };
    let (whole, cut) = (read(&whole), read(&cut));
    assert_eq!(whole.len(), cut.len());
    for (whole, cut) in whole.iter().zip(&cut) {
        assert_eq!((whole.0, whole.1), (cut.0, cut.1));
        assert_eq!(cut.2, whole.2[..whole.2.len().min(80)]);
    }
}

#[test]
fn steps_are_told_and_end_in_order() {
    let plan = Small { steps: 2, ..Small::LEAST }.plan();
    let steps = Cell::new((0, 0));
    let above = TempDir::new().unwrap();
    let place = generate(&plan, &options(), &above.path().join("trace"), &|progress: Progress| {
        steps.set((progress.steps_ended, progress.steps));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(steps.get(), (2, 2));
    let folder = TraceFolder::open(place).unwrap();
    let ends = &folder.manifest().step_ends_ns;
    assert!(ends[0] < ends[1] && ends[1] <= folder.manifest().duration_ns);
    assert!(folder.manifest().ideal_step_ns <= ends[0]);

    let (_one, one) = made(&plan, &Options { steps: Some(1), ..options() });
    assert_eq!(one.manifest().step_ends_ns, ends[..1]);
}

#[test]
fn who_has_had_enough_leaves_nothing() {
    let above = TempDir::new().unwrap();
    for threads in [1, 3] {
        let options = Options { threads, ..options() };
        let stop = |_| ControlFlow::Break(());
        let error = generate(&Small::LEAST.plan(), &options, &above.path().join("trace"), &stop).unwrap_err();
        assert!(matches!(error, TraceError::Stopped), "{error:?}");
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
    }
}

#[test]
fn the_text_of_a_plan_stands_beside_it_and_the_plan_reads_back() {
    let mut plan = Small::LEAST.plan();
    plan.training.words =
        crate::plan::Words::Text { name: "../some/where/a.txt".to_owned(), text: "nel mezzo".to_owned() };
    let (_kept, folder) = made(&plan, &options());
    let place = folder.path().join("plan.toml");
    let again = crate::plan::load::load(place.to_str().unwrap()).unwrap();
    assert_eq!(again.digest(), folder.manifest().plan_digest);
}

#[test]
fn what_exists_is_kept_and_what_fails_leaves_nothing() {
    let above = TempDir::new().unwrap();
    let place = above.path().join("trace");
    let plan = Small::LEAST.plan();
    generate(&plan, &options(), &place, &|_| ControlFlow::Continue(())).unwrap();
    let again = generate(&plan, &options(), &place, &|_| ControlFlow::Continue(()));
    assert!(matches!(again, Err(TraceError::Folder(_))), "{again:?}");
    let elsewhere = above.path().join("other");
    let chosen = Options { nics: Some(vec![NicId(9)]), ..options() };
    let error = generate(&plan, &chosen, &elsewhere, &|_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.to_string(), "there is no nic9: the plan has 2 NICs, counted from nic0");
    let left: Vec<_> = fs::read_dir(above.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["trace"]);
}
