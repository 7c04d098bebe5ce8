//! Which frames belong together: flows (one direction of a connection in one capture), how a request follows
//! the one before, and which requests an answer is about.
//!
//! Frames of a reliable connection name only the queue pair that they go to, so a flow is known by capture,
//! addresses and that number; the flow of the other direction is known from the trace, or found out (see
//! [`Flows::find_peer`]).

use std::collections::BTreeMap;
use std::net::IpAddr;

pub(super) use super::state::state_of;
use crate::wire::opcode::{Operation, Place, Role};
use crate::wire::{Opcode, ParsedFrame, Psn, Qpn, source_port};

/// The two ends of a connection: the address and number of each queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection {
    /// One end.
    pub one: (IpAddr, Qpn),
    /// The other.
    pub other: (IpAddr, Qpn),
}

/// Where a frame belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// The flow, counted over all ports.
    pub(super) flow: usize,
    /// The flow in the other direction, if that is known: its requests are what this one's answers are about.
    pub(super) peer: Option<usize>,
    /// Who sent it: an address at a port, counted over all ports.
    pub(super) host: usize,
    /// What it is there.
    pub(super) part: Part,
}

/// What a frame is in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A request of a reliable connection, and how it follows the one before.
    Request(Opcode, Step),
    /// An answer to a request of the flow in the other direction, if that flow is known.
    Answer(Opcode, Option<usize>),
    /// A datagram, a congestion notification, or an opcode that is not known.
    Other,
}

/// How a request follows the one before in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is the first seen.
    First,
    /// Its number is the next.
    Next,
    /// It follows a READ, which takes as many numbers as it has answers.
    BehindRead,
    /// Numbers are missing before it: the one that was expected.
    Gap(Psn),
    /// Its number was there before: the one that was expected.
    Back(Psn),
}

/// What a flow shows of its sender's habits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowHabits {
    /// The sender.
    pub(super) host: usize,
    /// The source port.
    pub(super) source_port: u16,
    /// The sender's queue pair, if the other direction is known.
    pub(super) own: Option<Qpn>,
    /// The receiver's queue pair.
    pub(super) destination: Qpn,
    /// The number of the first request that was seen, if it starts a message.
    pub(super) first: Option<Psn>,
}

pub(super) struct Flows {
    flows: BTreeMap<Key, usize>,
    states: Vec<State>,
    /// Where to look first: flows by a hash of their keys, each in one place, the last one that came there.
    recent: Vec<usize>,
    hosts: BTreeMap<(usize, IpAddr), usize>,
    /// How many flows have requests.
    requesters: usize,
    /// For each end, the other one, as the caller knows it.
    known: BTreeMap<(IpAddr, Qpn), Vec<(IpAddr, Qpn)>>,
}

/// The order of the fields lets all flows between two addresses stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    port: usize,
    source: IpAddr,
    destination: IpAddr,
    queue_pair: Qpn,
}

struct State {
    key: Key,
    host: usize,
    /// That of its first frame which does not come from port 0, as notifications of ConnectX do.
    source_port: u16,
    /// The number of the first request, if it starts a message.
    first: Option<Psn>,
    /// The number that the next request should have.
    next: Option<Psn>,
    after_read: bool,
    requests: bool,
    peer: Option<usize>,
    /// How many flows had requests when the peer was last looked for: without new ones it is in vain.
    looked: usize,
}

impl Placed {
    /// Whether it is a request at this place of its message, with the number behind that of the one before.
    #[inline]
    pub(super) fn follows(&self, place: Place) -> bool {
        matches!(self.part, Part::Request(opcode, Step::Next) if opcode.shape().place == place)
    }
}

impl Flows {
    pub(super) fn new(connections: &[Connection]) -> Self {
        let mut known: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for &Connection { one, other } in connections {
            known.entry(one).or_default().push(other);
            known.entry(other).or_default().push(one);
        }
        Self {
            flows: BTreeMap::new(),
            states: Vec::new(),
            recent: vec![usize::MAX; RECENT],
            hosts: BTreeMap::new(),
            requesters: 0,
            known,
        }
    }

    /// Finds the frame's place, and remembers it for the frames to come.
    #[inline]
    pub(super) fn place(&mut self, port: usize, frame: &ParsedFrame<'_>) -> Placed {
        let ip = &frame.network.ip;
        let (source, destination) = (ip.source(), ip.destination());
        let key = Key { port, source, destination, queue_pair: frame.bth.destination };
        let recent = key.hash();
        let flow = match self.recent[recent] {
            flow if self.states.get(flow).is_some_and(|state| state.key == key) => flow,
            _ => {
                let flow = self.find(key, frame.udp.source);
                self.recent[recent] = flow;
                flow
            }
        };
        if self.states[flow].source_port == 0 {
            // ConnectX notifies from port 0.
            self.states[flow].source_port = frame.udp.source;
        }
        let part = match frame.bth.opcode() {
            Some(opcode) if opcode.is_reliable_connection() => match opcode.shape().role {
                Role::Request => Part::Request(opcode, self.step(flow, opcode, frame.bth.psn)),
                Role::Response => Part::Answer(opcode, self.peer(flow, false)),
                Role::Notification => Part::Other,
            },
            Some(Opcode::CongestionNotification) => {
                // It comes where answers come, perhaps before the first of them.
                self.peer(flow, true);
                Part::Other
            }
            _ => Part::Other,
        };
        let State { host, peer, .. } = self.states[flow];
        Placed { flow, peer, host, part }
    }

    /// All hosts, by address and number; an address that is seen at several ports is there several times.
    pub(super) fn hosts(&self) -> impl Iterator<Item = (IpAddr, usize)> {
        self.hosts.iter().map(|(&(_, address), &host)| (address, host))
    }

    /// What flows show of their sender's habits.
    pub(super) fn habits(&self) -> impl Iterator<Item = FlowHabits> {
        self.states.iter().map(|state| FlowHabits {
            host: state.host,
            source_port: state.source_port,
            own: state.peer.and_then(|peer| self.states.get(peer)).map(|peer| peer.key.queue_pair),
            destination: state.key.queue_pair,
            first: state.first,
        })
    }

    /// The flow with this key, made if it is new.
    #[cold]
    fn find(&mut self, key: Key, source_port: u16) -> usize {
        if let Some(&flow) = self.flows.get(&key) {
            return flow;
        }
        let hosts = self.hosts.len();
        let host = *self.hosts.entry((key.port, key.source)).or_insert(hosts);
        let flow = self.states.len();
        self.flows.insert(key, flow);
        self.states.push(State {
            key,
            host,
            source_port,
            first: None,
            next: None,
            after_read: false,
            requests: false,
            peer: None,
            looked: 0,
        });
        flow
    }

    fn step(&mut self, flow: usize, opcode: Opcode, psn: Psn) -> Step {
        let state = &mut self.states[flow];
        if !state.requests {
            state.requests = true;
            state.first = Some(psn).filter(|_| opcode.shape().place.starts());
            self.requesters += 1;
        }
        let expected = state.next.replace(psn + 1);
        let after_read =
            std::mem::replace(&mut state.after_read, opcode.shape().operation == Operation::Read);
        match expected {
            None => Step::First,
            Some(expected) => match expected.distance_to(psn) {
                0 => Step::Next,
                1.. if after_read => Step::BehindRead,
                1.. => Step::Gap(expected),
                ..0 => Step::Back(expected),
            },
        }
    }

    /// The flow of requests that the answers of `flow` are about; remembered at both once it is found.
    #[inline]
    fn peer(&mut self, flow: usize, sure: bool) -> Option<usize> {
        let state = &self.states[flow];
        match state.peer {
            None if state.looked < self.requesters => self.look_for_peer(flow, sure),
            peer => peer,
        }
    }

    #[cold]
    fn look_for_peer(&mut self, flow: usize, sure: bool) -> Option<usize> {
        let peer = self.find_peer(self.states[flow].key, flow, sure);
        if let Some(peer) = peer.filter(|_| !self.states[flow].key.queue_pair.is_management()) {
            self.states[peer].peer.get_or_insert(flow);
        }
        // What may guess has more to find.
        let requesters = if sure { 0 } else { self.requesters };
        let state = &mut self.states[flow];
        (state.peer, state.looked) = (peer, requesters);
        peer
    }

    /// In this order: as the caller knows it; the one whose number makes, with this one's, the source ports of
    /// both by the rule of mlx5 or that of rxe; the only one with this source port; the only one between the two
    /// hosts. The last two are guesses, which the queue pair of a notification is not good enough for.
    fn find_peer(&self, key: Key, flow: usize, sure: bool) -> Option<usize> {
        let source_port = self.states[flow].source_port;
        let (from, to) = (key.destination, key.source);
        let first = Key { port: key.port, source: from, destination: to, queue_pair: Qpn::new(0)? };
        let candidates = || {
            self.flows
                .range(first..)
                .take_while(move |(other, _)| {
                    (other.port, other.source, other.destination) == (key.port, from, to)
                })
                .map(|(other, &index)| (other.queue_pair, index, &self.states[index]))
                .filter(|(_, _, state)| state.requests)
        };
        let same_port = || candidates().filter(|(_, _, state)| state.source_port == source_port);
        if let Some(ends) = self.known.get(&(key.destination, key.queue_pair)) {
            return only(candidates().filter(|&(queue_pair, _, _)| ends.contains(&(to, queue_pair))));
        }
        let product = |&(queue_pair, _, state): &(Qpn, usize, &State)| {
            let right = source_port::product(queue_pair, key.queue_pair);
            state.source_port == right && (source_port == right || sure)
        };
        let own = |&(queue_pair, _, state): &(Qpn, usize, &State)| {
            source_port::own(queue_pair) == source_port
                && source_port::own(key.queue_pair) == state.source_port
        };
        let guess = || only(same_port()).or_else(|| only(candidates()));
        only(candidates().filter(product))
            .or_else(|| only(candidates().filter(own)))
            .or_else(|| if sure { None } else { guess() })
    }
}

impl Key {
    /// A place in [`Flows::recent`]: the numbers of queue pairs and hosts are dense, a product spreads them.
    #[inline]
    fn hash(&self) -> usize {
        let low = |address: IpAddr| match address {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(address) => {
                let [.., a, b, c, d] = address.octets();
                u32::from_be_bytes([a, b, c, d])
            }
        };
        let hosts = low(self.source).rotate_left(16) ^ low(self.destination);
        let all = (u64::from(hosts) << 24) ^ u64::from(self.queue_pair.value());
        let [high, low, ..] = all.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        usize::from(u16::from_be_bytes([high, low])) % RECENT
    }
}

/// Places for flows to be found at once: 64 KiB, four for each of 2048 flows.
const RECENT: usize = 8192;

fn only<'a>(mut candidates: impl Iterator<Item = (Qpn, usize, &'a State)>) -> Option<usize> {
    let (_, index, _) = candidates.next()?;
    candidates.next().is_none().then_some(index)
}
