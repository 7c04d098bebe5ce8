//! The network as the plan means it: NICs with their addresses, and the queue pairs of all connections.
//!
//! A connection carries the data of one group and one channel from a rank to its neighbour in the group's ring or pipeline,
//! as NCCL's do: one way. It is one or more queue pairs, each with an end at both ranks; data go from the sending ends,
//! clear-to-send writes come back on the first of them. Everything is assigned once, before the first message, in memory
//! that follows the number of connections, and does not depend on which part of the trace is written.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use traces::id::{GroupId, HostId, NicId, QueuePairId, Rank};
use traces::manifest;
use traces::wire::profile::FirstPsn;
use traces::wire::segment::{Encapsulation, IpVersion};
use traces::wire::{Mac, Psn, Qpn, RemoteKey};

use crate::collective::{RING_WINDOW, TRAIN_WINDOW, TrainChannels};
use crate::placement::{Group, GroupKind, Placement};
use crate::plan::Plan;
use crate::random::Stream;

/// All NICs and queue pairs.
#[derive(Clone, Debug)]
pub struct Network {
    nics: Vec<Nic>,
    pairs: Vec<QueuePair>,
    /// Queue pairs of a connection.
    width: u32,
    /// The connection of an edge's channel 0; those of the other channels follow.
    edges: BTreeMap<(GroupId, Rank, Rank), u32>,
}

/// A connection, by its number: `2 * width * number` is the first of its queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

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

/// One end of a queue pair of a connection.
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
    /// The UDP source port of what it sends.
    pub source_port: u16,
    /// The sequence number of the first frame that it sends.
    pub first_psn: Psn,
    /// The remote key of its memory.
    pub remote_key: RemoteKey,
    /// The first address of its memory, [`REGION`] bytes.
    pub address: u64,
    /// The bytes of a slot of that memory.
    pub slot: u64,
    /// The connection that it belongs to.
    pub connection: ConnectionId,
    /// Its place among the queue pairs of the connection.
    pub lane: u32,
    /// Whether this end sends the connection's data; the other clears it to.
    pub sends_data: bool,
    /// The group that it serves.
    pub group: GroupId,
    /// The channel that it serves.
    pub channel: u32,
    /// The rank at this end.
    pub rank: Rank,
}

impl ConnectionId {
    /// Its place in a list of all connections.
    #[must_use]
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Network {
    /// Assigns everything.
    #[must_use]
    pub fn new(plan: &Plan, placement: &Placement) -> Self {
        let nics = (0..plan.nics()).map(|nic| self::nic(plan, nic)).collect();
        let width = plan.collectives.queue_pairs;
        let mut network = Self { nics, pairs: Vec::new(), width, edges: BTreeMap::new() };
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

    /// How many connections there are.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.pairs.len() / NicId(2 * self.width).index()
    }

    /// Queue pairs of a connection.
    #[must_use]
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// The connection on which `from` sends to `to` on a channel; none if they share a host or are no neighbours.
    #[must_use]
    pub fn between(&self, group: GroupId, from: Rank, to: Rank, channel: u32) -> Option<ConnectionId> {
        self.edges.get(&(group, from, to)).map(|first| ConnectionId(first + channel))
    }

    /// The sending end of a connection's queue pair.
    #[must_use]
    pub const fn sender(&self, connection: ConnectionId, lane: u32) -> QueuePairId {
        QueuePairId(2 * (connection.0 * self.width + lane))
    }

    fn connect(
        &mut self,
        plan: &Plan,
        placement: &Placement,
        group: &Group,
        ends: (Rank, Rank),
        channels: u32,
        taken: &mut [u32],
    ) {
        let first = u32::try_from(self.connections()).unwrap_or(u32::MAX);
        if self.edges.insert((group.id, ends.0, ends.1), first).is_some() {
            unreachable!("edges() names an edge once");
        }
        let slots = if group.kind == GroupKind::Pipeline { TRAIN_WINDOW } else { RING_WINDOW };
        let ends = [ends.0, ends.1];
        let hosts = ends.map(|rank| placement.seat(rank).host);
        for channel in 0..channels {
            let connection = ConnectionId(first + channel);
            // One piece of memory at each end, whatever the number of queue pairs.
            let places = hosts.map(|host| taken[host.index()]);
            for lane in 0..self.width {
                let ids = [0, 1].map(|end| self.sender(connection, lane).0 + end);
                let qpns = hosts.map(|host| {
                    let index = taken[host.index()];
                    taken[host.index()] += 1;
                    qpn(plan.seed, host, index)
                });
                for (end, other) in [(0, 1), (1, 0)] {
                    let profile = &plan.transport.profile;
                    self.pairs.push(QueuePair {
                        id: QueuePairId(ids[end]),
                        nic: placement.seat(ends[end]).nic,
                        peer: QueuePairId(ids[other]),
                        qpn: qpns[end],
                        source_port: profile.source_port.port(qpns[end], qpns[other]),
                        first_psn: first_psn(plan, ids[end]),
                        remote_key: remote_key(plan.seed, hosts[end], places[end]),
                        address: region(plan.seed, hosts[end], places[end]),
                        slot: REGION / slots as u64,
                        connection,
                        lane,
                        sends_data: end == 0,
                        group: group.id,
                        channel,
                        rank: ends[end],
                    });
                }
            }
        }
    }
}

impl QueuePair {
    /// Where the connection's `number`-th message is written, when this end receives it.
    #[must_use]
    pub const fn slot_address(&self, number: u32) -> u64 {
        self.address + (number as u64 % (REGION / self.slot)) * self.slot
    }

    /// Where the clear-to-send write of the connection's `number`-th message goes, when this end sends data
    /// (NCCL's `ctsFifo`: 256 slots with room for 8 requests each).
    #[must_use]
    pub const fn clearance_address(&self, number: u32) -> u64 {
        self.address + (number as u64 % CLEARANCES) * MOST_REQUESTS * CLEARANCE
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

/// Who sends to whom: around the ring, or both ways along the pipeline.
fn edges(group: &Group) -> impl Iterator<Item = (Rank, Rank)> + use<> {
    let group = *group;
    let pipeline = group.kind == GroupKind::Pipeline;
    let count = if pipeline { group.size() - 1 } else { group.size() };
    (0..count).flat_map(move |place| {
        let (one, other) = (group.member(place), group.member(place + 1));
        std::iter::once((one, other)).chain(pipeline.then_some((other, one)))
    })
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

fn first_psn(plan: &Plan, pair: u32) -> Psn {
    match plan.transport.profile.first_psn {
        FirstPsn::Zero => Psn::ZERO,
        FirstPsn::Random => {
            let drawn = Stream::new(plan.seed, "first sequence numbers", pair.into()).below(1 << 24, 0);
            Psn::wrapping(u32::try_from(drawn).unwrap_or(0))
        }
    }
}

/// An index in 24 bits that counts up over a host's regions, and the 8 bits that a consumer adds (mlx5).
fn remote_key(seed: u64, host: HostId, index: u32) -> RemoteKey {
    let stream = Stream::new(seed, "remote keys", host.0.into());
    let first = u32::try_from(stream.below(1 << 23, 0)).unwrap_or(0);
    let tag = u32::try_from(stream.below(1 << 8, 1 + u64::from(index))).unwrap_or(0);
    RemoteKey(((first + index) & 0xff_ffff) << 8 | tag)
}

/// Regions of a host lie one behind another, somewhere below 2^47, as a process maps them.
fn region(seed: u64, host: HostId, index: u32) -> u64 {
    let start = Stream::new(seed, "memory", host.0.into()).below(1 << 16, 0);
    0x7e00_0000_0000 + (start + u64::from(index)) * REGION
}

/// The memory of a queue pair: NCCL's buffer of the Simple protocol (NCCL_BUFFSIZE).
pub const REGION: u64 = 4 << 20;

/// A clear-to-send request in bytes (NCCL's `struct ncclIbSendFifo`), with eight remote keys.
pub const CLEARANCE: u64 = 64;

/// Requests that one clear-to-send write may have room for (NCCL_NET_IB_MAX_RECVS).
const MOST_REQUESTS: u64 = 8;

/// Slots of the sender's list of clearances (NCCL's NET_IB_MAX_REQUESTS).
const CLEARANCES: u64 = 256;
