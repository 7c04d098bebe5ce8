//! Nodes as they are written: numbered, with their messages numbered too.

use std::collections::VecDeque;

use traces::graph::{Message, Node, Work as NodeWork};
use traces::id::{HostId, MessageId, NodeId, QueuePairId, Rank};
use traces::origin::Origin;
use traces::unit::{Bytes, Nanos};
use traces::wire::Psn;
use traces::wire::segment::{AckCadence, Segments, Verb};

use super::Places;
use crate::collective::{TRAIN_WINDOW, Train, TrainChannels};
use crate::schedule::Operation;

/// Writes nodes: gives them ids, and messages their numbers.
pub(super) struct Pen<'a, 'b> {
    pub(super) places: Places<'a>,
    pub(super) host: HostId,
    pub(super) next: &'b mut u64,
    pub(super) counters: &'b mut [Counters],
    pub(super) nodes: &'b mut Vec<(HostId, Node)>,
}

/// What a message or a copy carries: a part of an operation's buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    /// Where it stands in the buffer.
    pub(super) offset: Bytes,
    pub(super) origin: Origin,
}

/// What a queue pair has sent so far, as the programs of both ends count it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    sender: Counter,
    receiver: Counter,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    messages: u32,
    psn: Psn,
}

impl Pen<'_, '_> {
    /// Appends a node.
    pub(super) fn node(&mut self, rank: Rank, mut after: Vec<NodeId>, work: NodeWork) -> NodeId {
        after.sort_unstable();
        after.dedup();
        let id = NodeId(*self.next);
        *self.next += 1;
        let node = Node { id, rank, after, work, planned_start: Nanos::ZERO, planned_end: Nanos::ZERO };
        self.nodes.push((self.host, node));
        id
    }

    pub(super) fn join(&mut self, rank: Rank, after: Vec<NodeId>, operation: &Operation) -> NodeId {
        self.node(rank, after, NodeWork::Join { payload: operation.payload, origin: operation.origin })
    }

    pub(super) fn local(&mut self, rank: Rank, after: Vec<NodeId>, piece: Piece) -> NodeId {
        let Piece { bytes, origin, .. } = piece;
        let duration = self.places.plan.cluster.nvlink.time_of(bytes);
        self.node(rank, after, NodeWork::Local { bytes, duration, origin })
    }

    pub(super) fn send_message(
        &mut self,
        rank: Rank,
        after: Vec<NodeId>,
        sender: QueuePairId,
        piece: Piece,
    ) -> NodeId {
        let counter = &mut self.counters[sender.index()].sender;
        let message = counter.take(self.places, sender, piece);
        self.node(rank, after, NodeWork::Send(message))
    }

    pub(super) fn receive_message(
        &mut self,
        rank: Rank,
        after: Vec<NodeId>,
        sender: QueuePairId,
        piece: Piece,
    ) -> NodeId {
        let counter = &mut self.counters[sender.index()].receiver;
        let message = counter.take(self.places, sender, piece);
        self.node(rank, after, NodeWork::Receive(message))
    }

    /// A send: its end, and the last copies if the receiver is on this host.
    pub(super) fn send(
        &mut self,
        rank: Rank,
        to: Rank,
        operation: &Operation,
        after: Vec<NodeId>,
    ) -> (NodeId, Vec<NodeId>) {
        let train = self.train(rank, to, operation);
        let inside = self.places.placement.seat(to).host == self.host;
        let mut ends = after.clone();
        let mut copies = Vec::new();
        for part in 0..train.parts() {
            let mut window = VecDeque::with_capacity(TRAIN_WINDOW);
            for index in 0..train.messages(part) {
                let piece = part_of_train(operation, &train, part, index);
                let sender = self.places.network.between(
                    operation.origin.group,
                    rank,
                    to,
                    u32::try_from(train.channel(part)).unwrap_or(u32::MAX),
                );
                let most = if inside { 1 } else { TRAIN_WINDOW };
                let before = if window.len() == most { window.pop_front() } else { None };
                let waits = before.map_or_else(|| after.clone(), |before| vec![before]);
                window.push_back(match sender {
                    Some(sender) if !inside => self.send_message(rank, waits, sender, piece),
                    _ => self.local(rank, waits, piece),
                });
            }
            ends.extend(&window);
            if inside {
                copies.extend(window);
            }
        }
        (self.join(rank, ends, operation), copies)
    }

    /// A receive from another host: its end.
    pub(super) fn receive(
        &mut self,
        rank: Rank,
        from: Rank,
        operation: &Operation,
        after: Vec<NodeId>,
    ) -> NodeId {
        let train = self.train(from, rank, operation);
        let mut ends = after.clone();
        for part in 0..train.parts() {
            let channel = u32::try_from(train.channel(part)).unwrap_or(u32::MAX);
            let Some(sender) = self.places.network.between(operation.origin.group, from, rank, channel)
            else {
                continue;
            };
            let mut before: Option<NodeId> = None;
            for index in 0..train.messages(part) {
                let piece = part_of_train(operation, &train, part, index);
                let waits = before.map_or_else(|| after.clone(), |before| vec![before]);
                before = Some(self.receive_message(rank, waits, sender, piece));
            }
            ends.extend(before);
        }
        self.join(rank, ends, operation)
    }

    fn train(&self, from: Rank, to: Rank, operation: &Operation) -> Train {
        let group = &operation.group;
        let place = |rank| group.position(rank).unwrap_or(0);
        let distance = (place(to) + group.size() - place(from)) % group.size();
        let Places { plan, .. } = self.places;
        let channels = TrainChannels::new(group.size(), plan.cluster.link, plan.collectives.channels);
        Train::new(operation.payload, distance, channels)
    }
}

impl Counter {
    /// The next message of the queue pair `sender`.
    fn take(&mut self, places: Places<'_>, sender: QueuePairId, piece: Piece) -> Message {
        let Piece { bytes, offset, origin } = piece;
        let receiver = places.network.pair(sender).peer;
        let Self { messages, psn } = *self;
        let path_mtu = places.plan.transport.path_mtu;
        let segments =
            Segments { verb: Verb::WriteImmediate, bytes, path_mtu, first: psn, acks: AckCadence::default() };
        *self = Self { messages: messages.wrapping_add(1), psn: segments.next_psn() };
        Message {
            id: MessageId { sender, sequence: messages },
            receiver,
            bytes,
            offset,
            // NCCL tells the size by the immediate value.
            immediate: u32::try_from(bytes.0).ok(),
            first_psn: psn.value(),
            address: places.network.pair(receiver).slot_address(messages),
            origin,
        }
    }
}

fn part_of_train(operation: &Operation, train: &Train, part: u64, index: u64) -> Piece {
    Piece {
        bytes: train.message(part, index),
        offset: train.offset(part, index),
        origin: part_of(operation, 0, train.channel(part), index),
    }
}

/// The origin of a part of an operation.
pub(super) fn part_of(operation: &Operation, step: u64, channel: u64, slice: u64) -> Origin {
    let number = |value| u32::try_from(value).unwrap_or(u32::MAX);
    Origin {
        collective_step: number(step),
        channel: number(channel),
        slice: number(slice),
        ..operation.origin
    }
}
