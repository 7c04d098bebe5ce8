//! A ring all-reduce becoming the nodes of a host, one step of all its members on that host at a time.

use std::collections::VecDeque;

use traces::id::{NodeId, Rank};

use super::Places;
use super::pen::{Pen, Piece, part_of};
use crate::collective::ring::SLICES;
use crate::collective::{RING_WINDOW, RingAllReduce};
use crate::connection::ConnectionId;
use crate::schedule::Operation;

/// The state of an all-reduce between two steps.
#[derive(Debug)]
pub(super) struct Emission {
    ring: RingAllReduce,
    operation: Operation,
    members: Vec<Member>,
    round: u64,
    step: u64,
}

/// A member on this host.
#[derive(Debug)]
struct Member {
    rank: Rank,
    position: u64,
    /// What its item waits for.
    start: Vec<NodeId>,
    /// What it sends goes here.
    next: Neighbour,
    /// What it receives comes from here.
    previous: Neighbour,
    /// One per channel in use.
    lanes: Vec<Lane>,
}

/// The other end of an edge of the ring.
#[derive(Debug)]
enum Neighbour {
    /// A member on this host, by its place among [`Emission::members`].
    Here(usize),
    /// A member elsewhere, by the connections of the edge, one per channel.
    Away(Vec<ConnectionId>),
}

/// A member's channel between two steps.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// What arrived in the step before, by slice.
    data: [Option<NodeId>; SLICES],
    /// What arrives in this step.
    arriving: [Option<NodeId>; SLICES],
    /// The last that arrived.
    last: Option<NodeId>,
    /// The last messages sent, each with its parts, or the last copy.
    window: VecDeque<Vec<NodeId>>,
    /// Receives that no other one waits for, the latest last; at most [`RING_WINDOW`].
    posted: VecDeque<NodeId>,
    /// What each message that arrived waits for to leave its memory: to be passed on, or to be where it belongs.
    freed: VecDeque<Vec<NodeId>>,
}

impl Emission {
    /// The all-reduce at its beginning; `starts` are the members on this host with what each waits for.
    pub(super) fn new(
        places: Places<'_>,
        operation: Operation,
        starts: impl Iterator<Item = (Rank, Vec<NodeId>)>,
    ) -> Self {
        let group = operation.group;
        let channels = places.plan.collectives.channels;
        let ring = RingAllReduce::new(group.size(), operation.payload, operation.element, channels);
        let starts: Vec<_> = starts.collect();
        let here = |rank| starts.iter().position(|&(member, _)| member == rank);
        let edge = |other: Rank, from: Rank, to: Rank| match here(other) {
            Some(place) => Neighbour::Here(place),
            None => Neighbour::Away(
                (0..channels)
                    .filter_map(|channel| places.network.between(group.id, from, to, channel))
                    .collect(),
            ),
        };
        let members = starts
            .iter()
            .map(|(rank, start)| {
                let position = group.position(*rank).unwrap_or(0);
                let (next, previous) =
                    (group.member(position + 1), group.member(position + group.size() - 1));
                Member {
                    rank: *rank,
                    position: position.into(),
                    start: start.clone(),
                    next: edge(next, *rank, next),
                    previous: edge(previous, previous, *rank),
                    lanes: vec![Lane::default(); ring.channels()],
                }
            })
            .collect();
        Self { ring, operation, members, round: 0, step: 0 }
    }

    /// Writes the nodes of the next step. Behind the last step it writes the joins, and gives them by member.
    pub(super) fn step(&mut self, pen: &mut Pen<'_, '_>) -> Option<Vec<(Rank, NodeId)>> {
        let rounds = (0..self.ring.channels()).map(|channel| self.ring.loops(channel)).max().unwrap_or(0);
        if self.round == rounds {
            let ends = self.members.iter().map(|member| (member.rank, member.end(&self.operation, pen)));
            return Some(ends.collect());
        }
        for member in 0..self.members.len() {
            for channel in 0..self.ring.channels() {
                if self.round < self.ring.loops(channel) {
                    for slice in 0..SLICES {
                        self.receive(member, channel, slice, pen);
                        self.send(member, channel, slice, pen);
                    }
                }
            }
        }
        let at_end = self.step + 1 == self.ring.steps();
        for member in &mut self.members {
            let frees = at_end && matches!(member.previous, Neighbour::Away(_));
            for lane in &mut member.lanes {
                if frees {
                    lane.freed.extend(lane.arriving.iter().flatten().map(|&node| vec![node]));
                }
                let [.., last] = lane.arriving;
                lane.last = last.or(lane.last);
                lane.data = std::mem::take(&mut lane.arriving);
            }
        }
        self.step += 1;
        if self.step == self.ring.steps() {
            (self.round, self.step) = (self.round + 1, 0);
        }
        None
    }

    /// What the member before sends in this step, if it comes from elsewhere.
    fn receive(&mut self, member: usize, channel: usize, slice: usize, pen: &mut Pen<'_, '_>) {
        let piece = self.message(member, channel, slice, Edge::In);
        let member = &mut self.members[member];
        let Neighbour::Away(connections) = &member.previous else { return };
        let lane = &mut member.lanes[channel];
        let after = if lane.posted.len() == RING_WINDOW {
            lane.posted.pop_front();
            lane.freed.pop_front().unwrap_or_default()
        } else {
            member.start.clone()
        };
        let node = pen.receive_message(member.rank, after, connections[channel], piece);
        lane.posted.push_back(node);
        lane.arriving[slice] = Some(node);
    }

    /// What the member sends in this step.
    fn send(&mut self, index: usize, channel: usize, slice: usize, pen: &mut Pen<'_, '_>) {
        let piece = self.message(index, channel, slice, Edge::Out);
        let member = &mut self.members[index];
        let lane = &mut member.lanes[channel];
        let data = if self.step == 0 { lane.last } else { lane.data[slice] };
        let mut after = data.map_or_else(|| member.start.clone(), |data| vec![data]);
        let frees = self.step > 0 && matches!(member.previous, Neighbour::Away(_));
        match &member.next {
            Neighbour::Away(connections) => {
                if lane.window.len() == RING_WINDOW {
                    after.extend(lane.window.pop_front().into_iter().flatten());
                }
                if frees {
                    lane.freed.push_back(after.clone());
                }
                let parts = pen.send_message(member.rank, &after, connections[channel], piece);
                lane.window.push_back(parts);
            }
            &Neighbour::Here(next) => {
                // Copies of a channel go one after another; the first waits until both ends have come so far.
                let before = lane.window.pop_front();
                let rank = member.rank;
                match before {
                    Some(before) => after.extend(before),
                    None => {
                        after.extend(&member.start);
                        after.extend(&self.members[next].start);
                    }
                }
                if frees {
                    self.members[index].lanes[channel].freed.push_back(after.clone());
                }
                let node = pen.local(rank, after, piece);
                self.members[index].lanes[channel].window.push_back(vec![node]);
                self.members[next].lanes[channel].arriving[slice] = Some(node);
            }
        }
    }

    /// What a member sends or receives in this step.
    fn message(&self, member: usize, channel: usize, slice: usize, edge: Edge) -> Piece {
        let size = u64::from(self.operation.group.size());
        let position = match edge {
            Edge::Out => self.members[member].position,
            Edge::In => (self.members[member].position + size - 1) % size,
        };
        let bytes = self.ring.message(channel, self.round, self.step, slice, position);
        let offset = self.ring.offset(channel, self.round, self.step, slice, position);
        let step = self.round * self.ring.steps() + self.step;
        let [channel, slice] = [channel, slice].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
        Piece { bytes, offset, origin: part_of(&self.operation, step, channel, slice) }
    }
}

impl Member {
    /// The end of the all-reduce on this rank: all has arrived, all that it sent is acknowledged.
    fn end(&self, operation: &Operation, pen: &mut Pen<'_, '_>) -> NodeId {
        let ends = self.lanes.iter().flat_map(|lane| {
            lane.last.iter().chain(&lane.posted).chain(lane.window.back().into_iter().flatten()).copied()
        });
        let after = self.start.iter().copied().chain(ends).collect();
        pen.join(self.rank, after, operation)
    }
}

/// An edge of the ring, seen from a member.
#[derive(Clone, Copy)]
enum Edge {
    In,
    Out,
}
