//! Which frames belong together: flows (one direction of a connection in one capture), how a request follows
//! the one before, and which requests an answer is about.
//!
//! Frames of a reliable connection name only the queue pair that they go to, so a flow is known by capture,
//! addresses and that number; the flow of the other direction is known from the trace, or found out (see
//! [`Flows::find_peer`]).

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::wire::opcode::{Operation, Role};
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
    /// The flow, counted over all captures.
    pub(super) flow: usize,
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

pub(super) struct Flows {
    flows: BTreeMap<Key, usize>,
    states: Vec<State>,
    /// For each end, the other one, as the caller knows it.
    known: BTreeMap<(IpAddr, Qpn), Vec<(IpAddr, Qpn)>>,
}

/// The order of the fields lets all flows between two addresses stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    file: usize,
    source: IpAddr,
    destination: IpAddr,
    queue_pair: Qpn,
}

struct State {
    source_port: u16,
    /// The number that the next request should have.
    next: Option<Psn>,
    after_read: bool,
    requests: bool,
    peer: Option<usize>,
}

impl Flows {
    pub(super) fn new(connections: &[Connection]) -> Self {
        let mut known: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for &Connection { one, other } in connections {
            known.entry(one).or_default().push(other);
            known.entry(other).or_default().push(one);
        }
        Self { flows: BTreeMap::new(), states: Vec::new(), known }
    }

    /// Finds the frame's place, and remembers it for the frames to come.
    pub(super) fn place(&mut self, file: usize, frame: &ParsedFrame<'_>) -> Placed {
        let ip = &frame.network.ip;
        let (source, destination) = (ip.source(), ip.destination());
        let key = Key { file, source, destination, queue_pair: frame.bth.destination };
        let states = &mut self.states;
        let flow = *self.flows.entry(key).or_insert_with(|| {
            states.push(State {
                source_port: frame.udp.source,
                next: None,
                after_read: false,
                requests: false,
                peer: None,
            });
            states.len() - 1
        });
        let part = match frame.bth.opcode() {
            Some(opcode) if opcode.is_reliable_connection() => match opcode.shape().role {
                Role::Request => Part::Request(opcode, self.step(flow, opcode, frame.bth.psn)),
                Role::Response => Part::Answer(opcode, self.peer(key, flow)),
                Role::Notification => Part::Other,
            },
            _ => Part::Other,
        };
        Placed { flow, part }
    }

    fn step(&mut self, flow: usize, opcode: Opcode, psn: Psn) -> Step {
        let state = &mut self.states[flow];
        state.requests = true;
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

    /// The flow of requests that the answers of `flow` are about; remembered once it is found.
    fn peer(&mut self, key: Key, flow: usize) -> Option<usize> {
        if self.states[flow].peer.is_none() {
            self.states[flow].peer = self.find_peer(key, flow);
        }
        self.states[flow].peer
    }

    /// In this order: as the caller knows it; the one whose number makes, with this one's, the source port of
    /// both by the rule of mlx5; the only one with this source port; the only one between the two hosts.
    fn find_peer(&self, key: Key, flow: usize) -> Option<usize> {
        let source_port = self.states[flow].source_port;
        let (from, to) = (key.destination, key.source);
        let first = Key { file: key.file, source: from, destination: to, queue_pair: Qpn::new(0)? };
        let candidates = || {
            self.flows
                .range(first..)
                .take_while(move |(other, _)| {
                    (other.file, other.source, other.destination) == (key.file, from, to)
                })
                .map(|(other, &index)| (other.queue_pair, index, &self.states[index]))
                .filter(|(_, _, state)| state.requests)
        };
        let same_port = || candidates().filter(|(_, _, state)| state.source_port == source_port);
        if let Some(ends) = self.known.get(&(key.destination, key.queue_pair)) {
            return only(candidates().filter(|&(queue_pair, _, _)| ends.contains(&(to, queue_pair))));
        }
        only(
            same_port().filter(|&(queue_pair, _, _)| {
                source_port::product(queue_pair, key.queue_pair) == source_port
            }),
        )
        .or_else(|| only(same_port()))
        .or_else(|| only(candidates()))
    }
}

fn only<'a>(mut candidates: impl Iterator<Item = (Qpn, usize, &'a State)>) -> Option<usize> {
    let (_, index, _) = candidates.next()?;
    candidates.next().is_none().then_some(index)
}

/// The state of a flow in a rule's own list, made when it is first needed.
pub(super) fn state_of<T: Default>(states: &mut Vec<T>, flow: usize) -> &mut T {
    if states.len() <= flow {
        states.resize_with(flow + 1, T::default);
    }
    &mut states[flow]
}
