//! Small graphs, built by hand: a ring all-reduce and a pipeline, one rank and one NIC a host.

use traces::graph::{Message, Node, Purpose, Task, Work};
use traces::id::{GroupId, HostId, MessageId, NicId, NodeId, QueuePairId, Rank};
use traces::origin::{Class, Operation, Origin, Phase};
use traces::unit::{Bytes, Nanos};
use traces::wire::payload::Payload;
use traces::wire::psn::Psn;
use traces::wire::qpn::Qpn;
use traces::wire::reth::RemoteKey;
use traces::wire::segment::{Encapsulation, IpVersion, PathMtu};

use super::super::{Limits, QueuePairEnd, Setup};

/// A graph a host, and how its hosts are connected.
pub(super) struct World {
    pub(super) graphs: Vec<Vec<Node>>,
    pub(super) setups: Vec<Setup>,
    pub(super) routes: Vec<Vec<usize>>,
}

impl World {
    /// Hosts in a ring: host `h` sends to `h + 1` by queue pair `2 h`, which has its peer `2 h + 1` there.
    fn ring_of(hosts: u32, first_psn: Psn, limits: Limits) -> Self {
        let end = |id: u32| QueuePairEnd {
            id: QueuePairId(id),
            peer: QueuePairId(id ^ 1),
            nic: 0,
            number: Qpn::for_data(id + 16).unwrap(),
            peer_number: Qpn::for_data((id ^ 1) + 16).unwrap(),
            first_psn,
            peer_first_psn: first_psn,
            peer_key: RemoteKey(7),
            sends_data: id.is_multiple_of(2),
        };
        let setup = |host: u32| Setup {
            run: 3,
            host: HostId(host),
            start: Nanos(1_000),
            nics: vec![NicId(host)],
            queue_pairs: vec![end(2 * host), end(2 * ((host + hosts - 1) % hosts) + 1)],
            path_mtu: PathMtu::Mtu1024,
            payload: Payload::Pattern,
            encapsulation: Encapsulation { ip: IpVersion::V4, vlan: false },
            stamps: true,
            limits,
        };
        let count = usize::try_from(hosts).unwrap();
        Self {
            graphs: vec![Vec::new(); count],
            setups: (0..hosts).map(setup).collect(),
            routes: (0..count).map(|host| vec![(host + 1) % count, (host + count - 1) % count]).collect(),
        }
    }

    /// A ring all-reduce of `chunk` bytes a rank and step: 2 (n - 1) steps, each waiting for the one before.
    pub(super) fn all_reduce(hosts: u32, chunk: u64, first_psn: Psn, limits: Limits) -> Self {
        let mut world = Self::ring_of(hosts, first_psn, limits);
        for host in 0..hosts {
            let before = (host + hosts - 1) % hosts;
            let mut graph = Builder { rank: Rank(host), nodes: Vec::new() };
            let mut last = vec![graph.compute(5_000, &[])];
            for step in 0..2 * (hosts - 1) {
                let send = graph.send(2 * host, step, chunk, &last);
                let receive = graph.receive(2 * before, step, chunk, &[]);
                last = vec![send, receive];
            }
            let join = graph.join(chunk * u64::from(hosts), &last);
            graph.end_of_step(&[join]);
            world.graphs[usize::try_from(host).unwrap()] = graph.nodes;
        }
        world
    }

    /// A pipeline: each host computes `compute` on what the one before sent, `microbatches` times; the last sends on
    /// nothing.
    pub(super) fn pipeline(hosts: u32, bytes: u64, compute: u64, microbatches: u32, limits: Limits) -> Self {
        let mut world = Self::ring_of(hosts, Psn::ZERO, limits);
        for host in 0..hosts {
            let mut graph = Builder { rank: Rank(host), nodes: Vec::new() };
            let mut last = Vec::new();
            for microbatch in 0..microbatches {
                let mut after = last.clone();
                if host > 0 {
                    after.push(graph.receive(2 * (host - 1), microbatch, bytes, &[]));
                }
                last = vec![graph.compute(compute, &after)];
                if host + 1 < hosts {
                    graph.send(2 * host, microbatch, bytes, &last);
                }
            }
            graph.end_of_step(&last);
            world.graphs[usize::try_from(host).unwrap()] = graph.nodes;
        }
        world
    }
}

struct Builder {
    rank: Rank,
    nodes: Vec<Node>,
}

impl Builder {
    fn compute(&mut self, duration: u64, after: &[u64]) -> u64 {
        let purpose = Purpose { step: 0, microbatch: None, layer: None, task: Task::Forward };
        self.push(after, Work::Compute { duration: Nanos(duration), purpose })
    }

    fn end_of_step(&mut self, after: &[u64]) {
        let purpose = Purpose { step: 0, microbatch: None, layer: None, task: Task::StepEnd };
        self.push(after, Work::Compute { duration: Nanos(0), purpose });
    }

    fn join(&mut self, payload: u64, after: &[u64]) -> u64 {
        self.push(after, Work::Join { payload: Bytes(payload), origin: origin(0) })
    }

    fn send(&mut self, sender: u32, sequence: u32, bytes: u64, after: &[u64]) -> u64 {
        self.push(after, Work::Send(message(sender, sequence, bytes)))
    }

    fn receive(&mut self, sender: u32, sequence: u32, bytes: u64, after: &[u64]) -> u64 {
        self.push(after, Work::Receive(message(sender, sequence, bytes)))
    }

    fn push(&mut self, after: &[u64], work: Work) -> u64 {
        let id = u64::try_from(self.nodes.len()).unwrap();
        let mut after: Vec<_> = after.iter().copied().map(NodeId).collect();
        after.sort_unstable();
        let (planned_start, planned_end) = (Nanos(10 * id), Nanos(10 * id + 10));
        self.nodes.push(Node { id: NodeId(id), rank: self.rank, after, work, planned_start, planned_end });
        id
    }
}

fn message(sender: u32, sequence: u32, bytes: u64) -> Message {
    Message {
        id: MessageId { sender: QueuePairId(sender), sequence },
        receiver: QueuePairId(sender ^ 1),
        bytes: Bytes(bytes),
        offset: Bytes(0),
        immediate: sequence.is_multiple_of(2).then_some(sequence),
        first_psn: 0,
        address: 0x10_0000,
        origin: origin(sequence),
    }
}

const fn origin(collective_step: u32) -> Origin {
    Origin {
        step: 0,
        microbatch: None,
        layer: None,
        phase: Phase::Backward,
        class: Class::DpGradients,
        operation: Operation::AllReduce,
        group: GroupId(1),
        instance: 0,
        collective_step,
        channel: 0,
        slice: 0,
    }
}
