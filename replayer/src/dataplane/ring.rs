//! A trace for tests: hosts of one NIC each in a ring, each passing messages on to the next, round after round.

use std::path::{Path, PathBuf};

use traces::folder::{Existing, TraceFolderWriter};
use traces::graph::{Head, Message, Node, Purpose, Task, Work};
use traces::id::{GroupId, HostId, MessageId, NicId, NodeId, QueuePairId, Rank};
use traces::manifest::{FORMAT_VERSION, Host, Manifest, Nic, QueuePair, Totals, Transport};
use traces::origin::{Class, Operation, Origin, Phase};
use traces::pcap::Packing;
use traces::pcap::write::{CaptureWriter, Form, Label, Split};
use traces::unit::{Bytes, Nanos};
use traces::wire::{Bth, Ecn, Extensions, Frame, Ip, Link, Mac, Network, Opcode, Psn, Qpn, RemoteKey, Reth};

/// A ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    pub(crate) hosts: u32,
    pub(crate) rounds: u32,
    /// The payload of one message.
    pub(crate) bytes: u64,
    /// What a host computes before it sends.
    pub(crate) compute: Nanos,
    pub(crate) udp_port: u16,
}

impl Ring {
    /// Payload that each NIC sends and receives.
    pub(crate) fn bytes_per_nic(&self) -> u64 {
        u64::from(self.rounds) * self.bytes
    }

    /// Nodes of one host: per round a compute, a send, a receive; at the end the step's end.
    pub(crate) fn nodes_per_host(&self) -> u64 {
        3 * u64::from(self.rounds) + 1
    }

    /// Writes the trace folder below `place`.
    pub(crate) fn write(&self, place: &Path) -> PathBuf {
        let writer = TraceFolderWriter::create(place.join("trace"), Existing::Keep).unwrap();
        for host in 0..self.hosts {
            let mut graph =
                writer.graph(&Head { host: HostId(host), plan_digest: "ring".to_owned() }).unwrap();
            for node in self.nodes(host) {
                graph.node(&node).unwrap();
            }
            graph.finish().unwrap();
        }
        writer.finish(&self.manifest(), "").unwrap()
    }

    /// Writes the trace folder with captures: each message is one frame, and each round begins `gap` after the last.
    pub(crate) fn write_with_captures(&self, place: &Path, gap: Nanos) -> PathBuf {
        let writer = TraceFolderWriter::create(place.join("trace"), Existing::Keep).unwrap();
        let mut manifest = self.manifest();
        manifest.epoch_ns = EPOCH_NS;
        manifest.duration_ns = gap.0 * u64::from(self.rounds);
        for host in 0..self.hosts {
            let mut graph =
                writer.graph(&Head { host: HostId(host), plan_digest: "ring".to_owned() }).unwrap();
            for node in self.nodes(host) {
                graph.node(&node).unwrap();
            }
            graph.finish().unwrap();
            let nic = &mut manifest.nics[HostId(host).index()];
            let files = writer.captures(&nic.name, &Form::Pcap, Packing::Plain);
            let mut capture = CaptureWriter::new(files, &Form::Pcap, 4_096, Split::WHOLE).unwrap();
            for round in 0..self.rounds {
                let at = Nanos(EPOCH_NS + gap.0 * u64::from(round));
                let before = (host + self.hosts - 1) % self.hosts;
                for (sender, at) in [(host, at), (before, at + Nanos(2_000))] {
                    let frame = self.frame(sender, round);
                    let length = frame.len();
                    capture.record(&Label::default(), at, length, length).unwrap().copy_from_slice(&frame);
                }
            }
            nic.pcap = capture.finish().unwrap().0.names().to_vec();
        }
        writer.finish(&manifest, "").unwrap()
    }

    /// The one frame of a message.
    fn frame(&self, host: u32, round: u32) -> Vec<u8> {
        let place = |host: u32| u8::try_from(host % self.hosts + 1).unwrap();
        let (from, to) = (place(host), place(host + 1));
        let message = self.message(host, round);
        let destination = Qpn::for_data(0x100 + message.receiver.0).unwrap();
        let length = u32::try_from(self.bytes).unwrap();
        let reth = Reth { virtual_address: 0, remote_key: RemoteKey(0), length };
        let frame = Frame {
            link: Link {
                source: Mac([2, 0, 198, 18, 0, from]),
                destination: Mac([2, 0, 198, 18, 0, to]),
                vlan: None,
            },
            network: Network {
                ip: Ip::V4 {
                    source: [198, 18, 0, from].into(),
                    destination: [198, 18, 0, to].into(),
                    identification: 0,
                    dont_fragment: true,
                },
                dscp: 26,
                ecn: Ecn::Capable0,
                ttl: 64,
            },
            source_port: 49_152,
            bth: Bth::new(Opcode::WriteOnly, destination, Psn::wrapping(message.first_psn)),
            extensions: Extensions { reth: Some(reth), ..Extensions::default() },
            payload: &vec![0x77; usize::try_from(self.bytes).unwrap()],
        };
        let mut bytes = Vec::new();
        frame.emit(&mut bytes).unwrap();
        bytes
    }

    fn nodes(&self, host: u32) -> Vec<Node> {
        let before = (host + self.hosts - 1) % self.hosts;
        let mut nodes: Vec<Node> = Vec::new();
        let mut add = |after: &[u64], work| {
            let id = u64::try_from(nodes.len()).unwrap();
            let mut after: Vec<_> = after.iter().copied().map(NodeId).collect();
            after.sort_unstable();
            let (planned_start, planned_end) = (Nanos::ZERO, Nanos::ZERO);
            nodes.push(Node { id: NodeId(id), rank: Rank(host), after, work, planned_start, planned_end });
            id
        };
        let purpose = |task| Purpose { step: 0, microbatch: None, layer: None, task };
        let mut last = Vec::new();
        for round in 0..self.rounds {
            let duration = self.compute;
            let compute = add(&last, Work::Compute { duration, purpose: purpose(Task::Forward) });
            let send = add(&[compute], Work::Send(self.message(host, round)));
            let receive = add(&[], Work::Receive(self.message(before, round)));
            last = vec![send, receive];
        }
        add(&last, Work::Compute { duration: Nanos::ZERO, purpose: purpose(Task::StepEnd) });
        nodes
    }

    /// The message that `host` sends to the next one in a round.
    fn message(&self, host: u32, round: u32) -> Message {
        let frames = u32::try_from(self.bytes.div_ceil(4096).max(1)).unwrap();
        Message {
            id: MessageId { sender: QueuePairId(2 * host), sequence: round },
            receiver: QueuePairId(2 * host + 1),
            bytes: Bytes(self.bytes),
            offset: Bytes(0),
            immediate: None,
            first_psn: (FIRST_PSN + round * frames) % (1 << 24),
            address: 0,
            origin: Origin {
                step: 0,
                microbatch: None,
                layer: None,
                phase: Phase::from_number(1).unwrap(),
                class: Class::DpGradients,
                operation: Operation::from_number(1).unwrap(),
                group: GroupId(0),
                instance: 0,
                collective_step: round,
                channel: 0,
                slice: 0,
            },
        }
    }

    pub(crate) fn manifest(&self) -> Manifest {
        let hosts = (0..self.hosts).map(|host| Host {
            id: HostId(host),
            name: format!("host{host}"),
            ranks: vec![Rank(host)],
            graph: Some(TraceFolderWriter::graph_name(HostId(host))),
        });
        let nics = (0..self.hosts).map(|nic| Nic {
            id: NicId(nic),
            host: HostId(nic),
            name: format!("host{nic}-nic0"),
            mac: format!("02:00:c6:12:00:{:02x}", nic + 1),
            addresses: vec![format!("198.18.0.{}", nic + 1)],
            link_bps: 100_000_000_000,
            pcap: vec![],
            frames_sent: 0,
            frames_received: 0,
            payload_bytes_sent: self.bytes_per_nic(),
            payload_bytes_received: self.bytes_per_nic(),
            payload_bytes_repeated: 0,
            frame_bytes_sent: 0,
            frame_bytes_received: 0,
            classes: vec![],
        });
        // Of connection `c`, from host `c` to the next one, the queue pairs are 2c and 2c + 1.
        let queue_pairs = (0..2 * self.hosts).map(|id| QueuePair {
            id: QueuePairId(id),
            nic: NicId((id / 2 + id % 2) % self.hosts),
            peer: QueuePairId(id ^ 1),
            qpn: 0x100 + id,
            source_port: u16::try_from(49_152 + id).unwrap(),
            first_psn: FIRST_PSN,
            rkey: 0x1000 + id,
            address: 0,
            connection: 0,
            lane: 0,
            sends_data: id.is_multiple_of(2),
            group: GroupId(0),
            channel: 0,
            rank: Rank(0),
        });
        Manifest {
            schema_version: FORMAT_VERSION,
            generator: "test".to_owned(),
            name: "ring".to_owned(),
            seed: 0,
            plan_digest: "ring".to_owned(),
            epoch_ns: 0,
            steps: 1,
            duration_ns: 0,
            step_ends_ns: vec![0],
            ideal_step_ns: 0,
            transport: Transport {
                path_mtu_bytes: 4096,
                mtu_bytes: 9000,
                dscp: 26,
                ecn: 2,
                ttl: 64,
                nic_profile: "mlx5-nccl".to_owned(),
                cnp_dscp: 48,
                cnp_interval_ns: 4_000,
                congestion_control: "dcqcn".to_owned(),
                ack_interval: Some(256),
                setup: "none".to_owned(),
                udp_port: self.udp_port,
                vlan: None,
                payload: "pattern".to_owned(),
                snap_bytes: None,
            },
            hosts: hosts.collect(),
            nics: nics.collect(),
            queue_pairs: queue_pairs.collect(),
            groups: vec![],
            totals: Totals { nodes: u64::from(self.hosts) * self.nodes_per_host(), ..Totals::default() },
        }
    }
}

/// Time zero of captures, since 1970.
const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

/// Near the end of the circle, so that PSNs wrap.
const FIRST_PSN: u32 = 0x00ff_ff00;
