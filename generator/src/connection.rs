//! The network as the plan means it: NICs with their addresses, and the queue pairs of all connections.
//!
//! A connection serves one group, one channel and two ranks that are neighbours in the group's ring or pipeline; it is
//! two queue pairs, one at each end, and both ends may send. Everything is assigned once, before the first message, in
//! memory that follows the number of connections, and does not depend on which part of the trace is written.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use traces::id::{GroupId, HostId, NicId, QueuePairId, Rank};
use traces::manifest;
use traces::wire::segment::{Encapsulation, IpVersion};
use traces::wire::{Mac, Qpn, RemoteKey, source_port};

use crate::collective::{RING_WINDOW, TRAIN_WINDOW, TrainChannels};
use crate::placement::{Group, GroupKind, Placement};
use crate::plan::Plan;
use crate::random::Stream;

/// All NICs and queue pairs.
#[derive(Clone, Debug)]
pub struct Network {
    nics: Vec<Nic>,
    pairs: Vec<QueuePair>,
    /// The first queue pair of an edge: at its first rank, for channel 0.
    edges: BTreeMap<(GroupId, Rank, Rank), u32>,
}

/// A NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Its number.
    pub id: NicId,
    /// Its host.
    pub host: HostId,
    /// Its name: `host3-nic0`.
    pub name: String,
    /// Its MAC address: locally administered, with the low 32 bits of the IP address.
    pub mac: Mac,
    /// Its IP address: the network's, counted up.
    pub address: IpAddr,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePair {
    /// Its id in the trace.
    pub id: QueuePairId,
    /// The NIC that owns it.
    pub nic: NicId,
    /// The other end.
    pub peer: QueuePairId,
    /// The number that frames to it carry.
    pub qpn: Qpn,
    /// The UDP source port of what it sends: mlx5's rule, the same in both directions.
    pub source_port: u16,
    /// The remote key of its memory.
    pub remote_key: RemoteKey,
    /// The first address of its memory, [`REGION`] bytes.
    pub address: u64,
    /// The bytes of a slot: message `n` that it receives goes into slot `n` modulo the slots of the region.
    pub slot: u64,
    /// The group that it serves.
    pub group: GroupId,
    /// The channel that it serves.
    pub channel: u32,
    /// The rank at this end.
    pub rank: Rank,
}

impl Network {
    /// Assigns everything.
    #[must_use]
    pub fn new(plan: &Plan, placement: &Placement) -> Self {
        let nics = (0..plan.nics()).map(|nic| self::nic(plan, nic)).collect();
        let mut network = Self { nics, pairs: Vec::new(), edges: BTreeMap::new() };
        // Per host: queue pairs so far.
        let mut taken = vec![0_u32; NicId(plan.cluster.hosts).index()];
        for group in placement.groups() {
            let channels = channels(plan, &group);
            for (from, to) in edges(&group) {
                if placement.seat(from).host != placement.seat(to).host {
                    network.connect(plan, placement, &group, (from, to), channels, &mut taken);
                }
            }
        }
        network
    }

    /// All NICs, by id.
    #[must_use]
    pub fn nics(&self) -> &[Nic] {
        &self.nics
    }

    /// A NIC.
    #[must_use]
    pub fn nic(&self, id: NicId) -> &Nic {
        &self.nics[id.index()]
    }

    /// All queue pairs, by id.
    #[must_use]
    pub fn pairs(&self) -> &[QueuePair] {
        &self.pairs
    }

    /// A queue pair.
    #[must_use]
    pub fn pair(&self, id: QueuePairId) -> &QueuePair {
        &self.pairs[id.index()]
    }

    /// The queue pair through which `from` sends to `to` on a channel; none if they share a host or are no neighbours.
    #[must_use]
    pub fn between(&self, group: GroupId, from: Rank, to: Rank, channel: u32) -> Option<QueuePairId> {
        let (edge, end) = if from < to { ((group, from, to), 0) } else { ((group, to, from), 1) };
        self.edges.get(&edge).map(|first| QueuePairId(first + 2 * channel + end))
    }

    fn connect(
        &mut self,
        plan: &Plan,
        placement: &Placement,
        group: &Group,
        (from, to): (Rank, Rank),
        channels: u32,
        taken: &mut [u32],
    ) {
        let ends = if from < to { [from, to] } else { [to, from] };
        let first = QueuePairId(u32::try_from(self.pairs.len()).unwrap_or(u32::MAX)).0;
        if self.edges.insert((group.id, ends[0], ends[1]), first).is_some() {
            unreachable!("edges() names an edge once");
        }
        let slots = if group.kind == GroupKind::Pipeline { TRAIN_WINDOW } else { RING_WINDOW };
        for channel in 0..channels {
            let id = first + 2 * channel;
            let numbers = ends.map(|rank| {
                let host = placement.seat(rank).host;
                let index = taken[host.index()];
                taken[host.index()] += 1;
                (host, index)
            });
            let qpns = numbers.map(|(host, index)| qpn(plan.seed, host, index));
            for (end, other) in [(0, 1), (1, 0)] {
                let (host, index) = numbers[end];
                let [own, peer] = [end, other].map(|end| if end == 0 { id } else { id + 1 });
                self.pairs.push(QueuePair {
                    id: QueuePairId(own),
                    nic: placement.seat(ends[end]).nic,
                    peer: QueuePairId(peer),
                    qpn: qpns[end],
                    source_port: source_port::product(qpns[end], qpns[other]),
                    remote_key: remote_key(plan.seed, own),
                    address: region(plan.seed, host, index),
                    slot: REGION / slots as u64,
                    group: group.id,
                    channel,
                    rank: ends[end],
                });
            }
        }
    }
}

impl QueuePair {
    /// Where the message of this sequence number is written, when this queue pair receives it.
    #[must_use]
    pub const fn slot_address(&self, sequence: u32) -> u64 {
        self.address + (sequence as u64 % (REGION / self.slot)) * self.slot
    }
}

/// What the frames of the plan are wrapped in.
#[must_use]
pub const fn encapsulation(plan: &Plan) -> Encapsulation {
    let ip = if plan.cluster.addresses.network.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
    Encapsulation { ip, vlan: plan.cluster.vlan.is_some() }
}

/// The channels of a group: those of its collectives, or of its sends.
#[must_use]
pub fn channels(plan: &Plan, group: &Group) -> u32 {
    match group.kind {
        GroupKind::Pipeline => {
            let trains = TrainChannels::new(group.size(), plan.cluster.link, plan.collectives.channels);
            u32::try_from(trains.all).unwrap_or(u32::MAX)
        }
        _ => plan.collectives.channels,
    }
}

/// The group as the manifest tells it.
#[must_use]
pub fn group_entry(placement: &Placement, group: &Group) -> manifest::Group {
    manifest::Group {
        id: group.id,
        name: group.kind.name().to_owned(),
        ranks: group.members().collect(),
        leaves_host: placement.leaves_host(group),
    }
}

/// The pairs of members that talk to each other, each once.
fn edges(group: &Group) -> impl Iterator<Item = (Rank, Rank)> + use<> {
    let group = *group;
    let around = group.kind != GroupKind::Pipeline && group.size() > 2;
    let count = if around { group.size() } else { group.size() - 1 };
    (0..count).map(move |place| (group.member(place), group.member(place + 1)))
}

fn nic(plan: &Plan, index: u32) -> Nic {
    let (host, port) = (index / plan.cluster.nics_per_host, index % plan.cluster.nics_per_host);
    // The network's own address belongs to nobody.
    let address = match plan.cluster.addresses.network {
        IpAddr::V4(network) => IpAddr::V4(Ipv4Addr::from_bits(network.to_bits().wrapping_add(index + 1))),
        IpAddr::V6(network) => {
            IpAddr::V6(Ipv6Addr::from_bits(network.to_bits().wrapping_add(u128::from(index) + 1)))
        }
    };
    let [a, b, c, d] = match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => {
            let [.., a, b, c, d] = address.octets();
            [a, b, c, d]
        }
    };
    Nic {
        id: NicId(index),
        host: HostId(host),
        name: format!("host{host}-nic{port}"),
        mac: Mac([0x02, 0x00, a, b, c, d]),
        address,
    }
}

/// Numbers of a host start anywhere and grow in steps of a few, as drivers hand them out.
fn qpn(seed: u64, host: HostId, index: u32) -> Qpn {
    let stream = Stream::new(seed, "queue pair numbers", host.0.into());
    let (base, step) = (256 + stream.below(1 << 23, 0), 1 + stream.below(7, 1));
    // Beyond 2^24 numbers start again behind the managed ones; no host has so many queue pairs.
    let number = 2 + (base + u64::from(index) * step - 2) % ((1 << 24) - 2);
    Qpn::new(u32::try_from(number).unwrap_or(2)).unwrap_or(Qpn::GENERAL_SERVICES)
}

/// An index in 24 bits, and the 8 bits that a consumer adds (mlx5).
fn remote_key(seed: u64, pair: u32) -> RemoteKey {
    let key = Stream::new(seed, "remote keys", pair.into()).below(1 << 24, 0);
    RemoteKey(u32::try_from(key).unwrap_or(0) << 8 | (pair & 0xff))
}

/// Regions of a host lie one behind another, somewhere below 2^47, as a process maps them.
fn region(seed: u64, host: HostId, index: u32) -> u64 {
    let start = Stream::new(seed, "memory", host.0.into()).below(1 << 16, 0);
    0x7e00_0000_0000 + (start + u64::from(index)) * REGION
}

/// The memory of a queue pair: NCCL's buffer of the Simple protocol (NCCL_BUFFSIZE).
pub const REGION: u64 = 4 << 20;
