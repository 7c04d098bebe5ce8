//! The schedule as nodes: for each host, what its ranks do in the order of their programs, message by message.
//!
//! A rank's items become nodes one after another, as far ahead as the timeline asks; an all-reduce becomes nodes step by
//! step, for all its members on the host at once, so that a node only ever waits for smaller ids of its host. Between hosts
//! no order is needed: both ends of a queue pair count its messages in the order of their own programs, which is the same.
//!
//! What a node waits for (collectives.md, "common dependency rules"):
//! - its data: what the member received in the step before;
//! - the program: receives of a channel in order, and the first of them behind the item's own dependencies;
//! - credit: a message waits until the one [`RING_WINDOW`](crate::collective::RING_WINDOW) or [`TRAIN_WINDOW`](crate::collective::TRAIN_WINDOW) before it is acknowledged.
//!
//! Memory follows ranks, connections and operations under way, never the length of the schedule.

mod pen;
mod emission;

use std::collections::BTreeMap;

use traces::graph::{Node, Work as NodeWork};
use traces::id::{GroupId, HostId, NodeId, Rank};

use crate::connection::Network;
use crate::placement::Placement;
use crate::plan::Plan;
use crate::schedule::{Item, Operation, RankSchedule, Work};
use emission::Emission;
use pen::{Counters, Pen};

/// The programs of all ranks, as far as they have become nodes.
#[derive(Debug)]
pub struct Program<'a> {
    places: Places<'a>,
    ranks: Vec<RankState<'a>>,
    hosts: Vec<HostState>,
    counters: Counters,
    woken: Vec<Rank>,
}

/// What a call to [`Program::advance`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// The rank has come further.
    Done,
    /// It waits for another rank of its host to come as far.
    Blocked,
    /// It has nothing left to do.
    Finished,
}

/// What does not change.
#[derive(Clone, Copy, Debug)]
struct Places<'a> {
    plan: &'a Plan,
    placement: &'a Placement,
    network: &'a Network,
}

#[derive(Debug)]
struct RankState<'a> {
    items: RankSchedule<'a>,
    /// The item that waits for another rank of the host.
    held: Option<Item>,
    /// The all-reduce that is becoming nodes.
    emitting: Option<Key>,
    /// The last node of each stream.
    streams: [Option<NodeId>; STREAMS],
}

#[derive(Debug, Default)]
struct HostState {
    next: u64,
    /// All-reduces that some members have reached, with those members.
    gathering: BTreeMap<Key, Vec<Rank>>,
    emissions: BTreeMap<Key, Emission>,
    /// The last copies of sends within the host, for the receives that wait for them.
    copies: BTreeMap<Key, Vec<NodeId>>,
}

/// An operation: its group and instance.
type Key = (GroupId, u32);

impl<'a> Program<'a> {
    /// The programs at their beginning, for `steps` training steps.
    #[must_use]
    pub fn new(plan: &'a Plan, placement: &'a Placement, network: &'a Network, steps: u32) -> Self {
        let rank = |rank| RankState {
            items: RankSchedule::new(plan, placement, rank, steps),
            held: None,
            emitting: None,
            streams: [None; STREAMS],
        };
        Self {
            places: Places { plan, placement, network },
            ranks: placement.ranks().map(rank).collect(),
            hosts: (0..plan.cluster.hosts).map(|_| HostState::default()).collect(),
            counters: Counters::new(network),
            woken: Vec::new(),
        }
    }

    /// Turns the next item of a rank into nodes, or the next step of its all-reduce, and appends them.
    pub fn advance(&mut self, rank: Rank, nodes: &mut Vec<(HostId, Node)>) -> Advance {
        let state = &mut self.ranks[rank.index()];
        let host = self.places.placement.seat(rank).host;
        let mut pen = Pen {
            places: self.places,
            host,
            next: &mut self.hosts[host.index()].next,
            counters: &mut self.counters,
            nodes,
        };
        if let Some(key) = state.emitting {
            self.emit(host, key, nodes);
            return Advance::Done;
        }
        let Some(item) = state.held.take().or_else(|| state.items.next()) else { return Advance::Finished };
        let after = state.behind(&item);
        let end = match &item.work {
            &Work::Compute { purpose, duration } => {
                pen.node(rank, after, NodeWork::Compute { duration, purpose })
            }
            Work::Send { operation, to } => {
                let (end, copies) = pen.send(rank, *to, operation, after);
                if !copies.is_empty() {
                    self.hosts[host.index()].copies.insert(operation.key(), copies);
                    self.woken.extend(self.places.blocked_by(host, rank));
                }
                end
            }
            Work::Receive { operation, from } if self.places.placement.seat(*from).host == host => {
                let Some(mut copies) = self.hosts[host.index()].copies.remove(&operation.key()) else {
                    state.held = Some(item);
                    return Advance::Blocked;
                };
                copies.extend(after);
                let mut pen = Pen {
                    places: self.places,
                    host,
                    next: &mut self.hosts[host.index()].next,
                    counters: &mut self.counters,
                    nodes,
                };
                pen.join(rank, copies, operation)
            }
            Work::Receive { operation, from } => pen.receive(rank, *from, operation, after),
            Work::AllReduce(operation) => {
                return self.gather(host, rank, operation.clone(), item, nodes);
            }
        };
        self.ranks[rank.index()].streams[item.stream as usize] = Some(end);
        Advance::Done
    }

    /// Ranks that were blocked and may go on, since the last call.
    pub fn woken(&mut self) -> std::vec::Drain<'_, Rank> {
        self.woken.drain(..)
    }

    /// A rank has reached an all-reduce: it starts when all members of the host have.
    fn gather(
        &mut self,
        host: HostId,
        rank: Rank,
        operation: Operation,
        item: Item,
        nodes: &mut Vec<(HostId, Node)>,
    ) -> Advance {
        let key = operation.key();
        let members: Vec<_> = operation
            .group
            .members()
            .filter(|&member| self.places.placement.seat(member).host == host)
            .collect();
        let state = &mut self.hosts[host.index()];
        self.ranks[rank.index()].held = Some(item);
        let here = state.gathering.entry(key).or_default();
        if !here.contains(&rank) {
            here.push(rank);
        }
        if here.len() < members.len() {
            return Advance::Blocked;
        }
        state.gathering.remove(&key);
        let starts = members.iter().map(|&member| {
            let state = &self.ranks[member.index()];
            let after = state.held.as_ref().map(|item| state.behind(item)).unwrap_or_default();
            (member, after)
        });
        let emission = Emission::new(self.places, operation, starts);
        self.hosts[host.index()].emissions.insert(key, emission);
        for &member in &members {
            self.ranks[member.index()].emitting = Some(key);
        }
        self.woken.extend(members.iter().filter(|&&member| member != rank));
        self.emit(host, key, nodes);
        Advance::Done
    }

    /// The next step of an all-reduce; behind the last, its members' programs go on.
    fn emit(&mut self, host: HostId, key: Key, nodes: &mut Vec<(HostId, Node)>) {
        let state = &mut self.hosts[host.index()];
        let Some(emission) = state.emissions.get_mut(&key) else { return };
        let mut pen =
            Pen { places: self.places, host, next: &mut state.next, counters: &mut self.counters, nodes };
        let Some(ends) = emission.step(&mut pen) else { return };
        state.emissions.remove(&key);
        for (member, end) in ends {
            let rank = &mut self.ranks[member.index()];
            rank.emitting = None;
            if let Some(item) = rank.held.take() {
                rank.streams[item.stream as usize] = Some(end);
            }
            self.woken.push(member);
        }
    }
}

impl RankState<'_> {
    /// What an item waits for: the last nodes of its own stream and of those that it names.
    fn behind(&self, item: &Item) -> Vec<NodeId> {
        let streams = std::iter::once(&item.stream).chain(item.after);
        streams.filter_map(|&stream| self.streams[stream as usize]).collect()
    }
}

impl Places<'_> {
    /// The ranks of a host other than this one.
    fn blocked_by(&self, host: HostId, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let gpus = self.plan.cluster.gpus_per_host;
        (host.0 * gpus..(host.0 + 1) * gpus).map(Rank).filter(move |&other| other != rank)
    }
}

impl Operation {
    const fn key(&self) -> Key {
        (self.origin.group, self.origin.instance)
    }
}

/// Streams of a rank.
const STREAMS: usize = 5;

#[cfg(test)]
mod tests;
