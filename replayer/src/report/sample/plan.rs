//! The trace that was run: its manifest, and what its graphs say of sends.

use traces::graph::{Message, Node, Work};
use traces::id::{GroupId, HostId, MessageId, NicId, NodeId, QueuePairId, Rank};
use traces::manifest::{self, ClassTotals, Group, Manifest, QueuePair, Totals, Transport};
use traces::origin::{Class, Origin, Phase};
use traces::unit::{Bytes, Nanos};

use super::{DATA_BYTES, FRAME_BYTES, HOSTS, MESSAGES, MS, PIPELINE_BYTES, PLANNED_STEP, operations};

/// The manifest of the trace that was run.
pub(in crate::report) fn trace() -> Manifest {
    let classes = |host: u32| {
        let pipeline = if host < 2 { Class::PpForward } else { Class::PpBackward };
        [(Class::DpGradients, DATA_BYTES), (pipeline, PIPELINE_BYTES)]
            .map(|(class, bytes)| ClassTotals {
                class,
                messages: MESSAGES,
                frames: bytes / FRAME_BYTES,
                payload_bytes: bytes,
            })
            .to_vec()
    };
    let payload = DATA_BYTES + PIPELINE_BYTES;
    Manifest {
        schema_version: manifest::FORMAT_VERSION,
        generator: "tokenwire 0.1.0".to_owned(),
        name: "demo".to_owned(),
        seed: 7,
        plan_digest: "blake3:00c0ffee".to_owned(),
        epoch_ns: 0,
        steps: 2,
        duration_ns: 2 * PLANNED_STEP,
        step_ends_ns: vec![PLANNED_STEP, 2 * PLANNED_STEP],
        ideal_step_ns: 40 * MS,
        transport: Transport {
            path_mtu_bytes: 4_096,
            mtu_bytes: 9_000,
            dscp: 26,
            ecn: 2,
            ttl: 64,
            nic_profile: "mlx5-nccl".to_owned(),
            cnp_dscp: 48,
            cnp_interval_ns: 4_000,
            congestion_control: "dcqcn".to_owned(),
            ack_interval: Some(256),
            setup: "none".to_owned(),
            udp_port: 4_791,
            vlan: None,
            payload: "pattern".to_owned(),
            snap_bytes: None,
        },
        hosts: (0..HOSTS)
            .map(|host| manifest::Host {
                id: HostId(host),
                name: format!("host{host}"),
                ranks: vec![Rank(host)],
                graph: None,
            })
            .collect(),
        nics: (0..HOSTS)
            .map(|host| manifest::Nic {
                id: NicId(host),
                host: HostId(host),
                name: format!("host{host}-nic0"),
                mac: format!("02:00:c6:12:00:0{host}"),
                addresses: vec![format!("198.18.0.{}", host + 1)],
                link_bps: 10_000_000_000,
                pcap: Vec::new(),
                frames_sent: payload / FRAME_BYTES + 2 * MESSAGES,
                frames_received: payload / FRAME_BYTES + 2 * MESSAGES,
                payload_bytes_sent: payload,
                payload_bytes_received: payload,
                payload_bytes_repeated: 0,
                frame_bytes_sent: payload + payload / FRAME_BYTES * 58,
                frame_bytes_received: payload + payload / FRAME_BYTES * 58,
                classes: classes(host),
            })
            .collect(),
        queue_pairs: (0..2 * HOSTS)
            .map(|pair| QueuePair {
                id: QueuePairId(pair),
                nic: NicId(pair % HOSTS),
                peer: QueuePairId(peer(pair)),
                qpn: 100 + pair,
                source_port: 49_152,
                first_psn: 0,
                rkey: 0,
                address: 0,
                connection: 0,
                lane: 0,
                sends_data: true,
                group: GroupId(if pair < HOSTS { pair % 2 } else { 2 + pair / 2 % 2 }),
                channel: 0,
                rank: Rank(pair % HOSTS),
            })
            .collect(),
        groups: [("pipeline", [0, 2]), ("pipeline", [1, 3]), ("data", [0, 1]), ("data", [2, 3])]
            .into_iter()
            .zip(0..)
            .map(|((name, ranks), id)| Group {
                id: GroupId(id),
                name: name.to_owned(),
                ranks: ranks.map(Rank).to_vec(),
                leaves_host: true,
            })
            .collect(),
        totals: Totals::default(),
    }
}

/// What a host sends in the plan, as its graph has it: each operation is one message here.
pub(in crate::report) fn sends(host: HostId) -> Vec<Node> {
    let pipeline = if host.0 < 2 { Class::PpForward } else { Class::PpBackward };
    let sent = operations(host.0, pipeline).into_iter().filter(|part| part.class != opposite(pipeline));
    sent.zip(0_u32..)
        .map(|(part, sequence)| {
            let sender = if part.class == Class::DpGradients { HOSTS + host.0 } else { host.0 };
            let origin = Origin {
                step: part.step,
                microbatch: None,
                layer: None,
                phase: Phase::Forward,
                class: part.class,
                operation: part.operation,
                group: part.group,
                instance: part.instance,
                collective_step: 0,
                channel: 0,
                slice: 0,
            };
            Node {
                id: NodeId(u64::from(sequence)),
                rank: part.rank,
                after: Vec::new(),
                work: Work::Send(Message {
                    id: MessageId { sender: QueuePairId(sender), sequence },
                    receiver: QueuePairId(peer(sender)),
                    bytes: Bytes(part.payload_bytes),
                    offset: Bytes(0),
                    immediate: None,
                    first_psn: 0,
                    address: 0,
                    origin,
                }),
                planned_start: Nanos(part.planned_ready_ns),
                planned_end: Nanos(part.planned_complete_ns),
            }
        })
        .collect()
}

fn opposite(class: Class) -> Class {
    if class == Class::PpForward { Class::PpBackward } else { Class::PpForward }
}

/// Queue pairs 0 to 3 serve the pipeline, 4 to 7 the gradients; each NIC owns one of both.
pub(super) fn peer(pair: u32) -> u32 {
    if pair < HOSTS { (pair + 2) % HOSTS } else { pair ^ 1 }
}
