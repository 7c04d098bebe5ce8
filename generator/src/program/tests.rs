//! All-reduces carried out with sets in place of numbers: whatever order the dependencies allow, every rank ends with every
//! contribution exactly once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use traces::id::QueuePairId;
use traces::origin::{Class, Operation as Kind, Origin, Phase};
use traces::unit::Bytes;

use super::pen::{Counters, Pen};
use super::*;
use crate::collective::RingAllReduce;
use crate::placement::GroupKind;

/// Ranks on hosts, and one all-reduce among all of them.
#[derive(Clone, Copy, Debug)]
struct Case {
    ranks: u32,
    gpus_per_host: u32,
    payload: u64,
    channels: u32,
}

/// The nodes of all hosts, by host and id.
type Graph = BTreeMap<(HostId, NodeId), Node>;

/// How often each rank's contribution is in a piece: by rank that holds it, channel, round, chunk, slice.
type Held = BTreeMap<(Rank, u32, u64, u64, u32), Vec<u32>>;

impl Case {
    fn plan(self) -> Plan {
        let text = format!(
            r#"
            version = 1
            name = "ring"
            [model]
            family = "gpt"
            layers = 1
            hidden = 8
            heads = 1
            vocab = 10
            [training]
            sequence_length = 8
            micro_batch = 1
            global_batch = {ranks}
            [parallelism]
            data = {ranks}
            [cluster]
            hosts = {hosts}
            gpus_per_host = {gpus}
            link = "100Gbit"
            [collectives]
            channels = {channels}
            "#,
            ranks = self.ranks,
            hosts = self.ranks / self.gpus_per_host,
            gpus = self.gpus_per_host,
            channels = self.channels,
        );
        Plan::read("ring.toml", &text, |_| Err(String::new())).unwrap()
    }

    fn ring(self) -> RingAllReduce {
        RingAllReduce::new(self.ranks, Bytes(self.payload), 2, self.channels)
    }

    fn graph(self) -> Graph {
        let plan = self.plan();
        let placement = Placement::new(&plan);
        let network = Network::new(&plan, &placement);
        let places = Places { plan: &plan, placement: &placement, network: &network };
        let group = placement.group(GroupKind::Data, Rank(0)).unwrap();
        let origin = Origin {
            step: 0,
            microbatch: None,
            layer: None,
            phase: Phase::Backward,
            class: Class::DpGradients,
            operation: Kind::AllReduce,
            group: group.id,
            instance: 0,
            collective_step: 0,
            channel: 0,
            slice: 0,
        };
        let operation = Operation { origin, group, payload: Bytes(self.payload), element: 2 };
        let mut counters = Counters::new(&network);
        let mut graph = Graph::new();
        for host in (0..plan.cluster.hosts).map(HostId) {
            let (mut next, mut nodes) = (0, Vec::new());
            let members = group.members().filter(|&rank| placement.seat(rank).host == host);
            let mut emission =
                Emission::new(places, operation.clone(), members.map(|rank| (rank, Vec::new())));
            let mut pen = Pen { places, host, next: &mut next, counters: &mut counters, nodes: &mut nodes };
            while emission.step(&mut pen).is_none() {}
            graph.extend(nodes.into_iter().map(|(host, node)| ((host, node.id), node)));
        }
        graph
    }

    /// Carries the graph out; `choose` picks one of the nodes that may run. Says what is wrong at the end.
    fn carry_out(self, graph: &Graph, mut choose: impl FnMut(&[&Node]) -> usize) -> Result<(), String> {
        let mut buffers = Buffers { ranks: self.ranks, ring: self.ring(), held: Held::new() };
        let mut carried = BTreeMap::new();
        let mut done = BTreeSet::new();
        let mut left: Vec<_> = graph.iter().collect();
        while !left.is_empty() {
            let may_run = |&place: &usize| {
                let ((host, _), node) = left[place];
                let sent = match node.work {
                    NodeWork::Receive(message) => carried.contains_key(&message.id),
                    _ => true,
                };
                sent && node.after.iter().all(|&id| done.contains(&(*host, id)))
            };
            let runnable: Vec<_> = (0..left.len()).filter(may_run).collect();
            if runnable.is_empty() {
                return Err(format!("{} nodes wait for each other", left.len()));
            }
            let nodes: Vec<_> = runnable.iter().map(|&place| left[place].1).collect();
            let (&key, node) = left.swap_remove(runnable[choose(&nodes)]);
            done.insert(key);
            let next = Rank((node.rank.0 + 1) % self.ranks);
            let before = Rank((node.rank.0 + self.ranks - 1) % self.ranks);
            match node.work {
                NodeWork::Send(message) => {
                    carried.insert(message.id, buffers.sent(node.rank, message.origin));
                }
                NodeWork::Receive(message) => {
                    buffers.arrive(before, node.rank, message.origin, &carried[&message.id]);
                }
                NodeWork::Local { origin, .. } => {
                    let counts = buffers.sent(node.rank, origin);
                    buffers.arrive(node.rank, next, origin, &counts);
                }
                NodeWork::Join { .. } | NodeWork::Compute { .. } => {}
            }
        }
        buffers.judge()
    }
}

/// The buffers of all ranks.
struct Buffers {
    ranks: u32,
    ring: RingAllReduce,
    held: Held,
}

impl Buffers {
    /// What `rank` sends for this reason.
    fn sent(&mut self, rank: Rank, origin: Origin) -> Vec<u32> {
        self.piece(rank, rank, origin).clone()
    }

    /// What `from` sent arrives at `to`: added in the first n - 1 steps, in place of its own in the others.
    fn arrive(&mut self, from: Rank, to: Rank, origin: Origin, counts: &[u32]) {
        let reduces = u64::from(origin.collective_step) % self.ring.steps() + 1 < u64::from(self.ranks);
        let own = self.piece(from, to, origin);
        if reduces {
            own.iter_mut().zip(counts).for_each(|(own, more)| *own += more);
        } else {
            own.copy_from_slice(counts);
        }
    }

    /// The piece that `sender` sends for this reason, as `holder` has it.
    fn piece(&mut self, sender: Rank, holder: Rank, origin: Origin) -> &mut Vec<u32> {
        let steps = self.ring.steps();
        let step = u64::from(origin.collective_step);
        let chunk = self.ring.chunk_sent(sender.0.into(), step % steps);
        let key = (holder, origin.channel, step / steps, chunk, origin.slice);
        let own = (0..self.ranks).map(|rank| u32::from(rank == holder.0)).collect();
        self.held.entry(key).or_insert(own)
    }

    fn judge(&self) -> Result<(), String> {
        let wrong = self.held.iter().find(|(_, counts)| counts.iter().any(|&count| count != 1));
        if let Some((key, counts)) = wrong {
            return Err(format!("{key:?} ends with {counts:?}"));
        }
        let rounds: u64 = (0..self.ring.channels()).map(|channel| self.ring.loops(channel)).sum();
        let all = u64::from(self.ranks) * u64::from(self.ranks) * 2 * rounds;
        if u64::try_from(self.held.len()).unwrap() == all {
            Ok(())
        } else {
            Err("pieces are missing".to_owned())
        }
    }
}

/// Small enough that orders are many, large enough for several rounds.
fn case() -> impl Strategy<Value = Case> {
    let payload = prop_oneof![Just(0_u64), 1..20_u64, 1..200_000_u64, 4_000_000..10_000_000_u64];
    (2..=16_u32, any::<prop::sample::Index>(), payload, 1..=3_u32).prop_map(
        |(ranks, gpus, payload, channels)| {
            let divisors: Vec<_> = (1..=ranks).filter(|n| ranks % n == 0).collect();
            // Long payloads in long rings have too many messages for an order to be drawn quickly.
            let payload = if ranks > 4 { payload.min(200_000) } else { payload };
            Case { ranks, gpus_per_host: *gpus.get(&divisors), payload, channels }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_rank_ends_with_every_contribution_once(case in case(), seed in any::<u64>()) {
        let graph = case.graph();
        for ((_, id), node) in &graph {
            prop_assert!(node.after.is_sorted_by(|a, b| a < b) && node.after.iter().all(|after| after < id));
        }
        let order = crate::random::Stream::new(seed, "order", 0);
        let mut index = 0;
        let ended = case.carry_out(&graph, |nodes| {
            index += 1;
            let count = u64::try_from(nodes.len()).unwrap();
            usize::try_from(order.below(count, index)).unwrap()
        });
        prop_assert_eq!(ended, Ok(()));
    }
}

#[test]
fn a_missing_dependency_is_caught() {
    let case = Case { ranks: 4, gpus_per_host: 1, payload: 200_000, channels: 2 };
    let whole = case.graph();
    // Sends as early as they may: that is where a dependency is missed.
    let eager = |nodes: &[&Node]| {
        nodes.iter().position(|node| matches!(node.work, NodeWork::Send(_))).unwrap_or(nodes.len() - 1)
    };
    assert_eq!(case.carry_out(&whole, eager), Ok(()));
    let depends = |node: &Node| match node.work {
        NodeWork::Send(message) => (message.origin.collective_step == 1 && message.bytes.0 > 0).then_some(()),
        _ => None,
    };
    let keys: Vec<_> =
        whole.iter().filter(|(_, node)| depends(node).is_some()).map(|(key, _)| *key).collect();
    assert_eq!(keys.len(), 4 * 2, "four ranks, two channels; second slices are empty");
    for key in keys {
        let mut graph = whole.clone();
        let node = graph.get_mut(&key).unwrap();
        assert_eq!(node.after.len(), 1, "what it passes on; the window is not full yet");
        node.after.clear();
        assert!(case.carry_out(&graph, eager).is_err(), "{key:?}");
    }
}

#[test]
fn no_more_messages_than_the_window_are_under_way() {
    let case = Case { ranks: 2, gpus_per_host: 1, payload: 30_000_000, channels: 1 };
    let graph = case.graph();
    let mut unacknowledged = BTreeMap::<QueuePairId, VecDeque<NodeId>>::new();
    for node in graph.values() {
        let NodeWork::Send(message) = node.work else { continue };
        let sent = unacknowledged.entry(message.id.sender).or_default();
        if sent.len() == crate::collective::RING_WINDOW {
            assert!(node.after.contains(&sent.pop_front().unwrap()));
        }
        sent.push_back(node.id);
    }
    assert_eq!(unacknowledged.len(), 2);
}
