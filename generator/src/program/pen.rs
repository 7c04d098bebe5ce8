//! Nodes as they are written: numbered, with their messages numbered too.

use std::collections::VecDeque;

use traces::graph::{Message, Node, Work as NodeWork};
use traces::id::{HostId, MessageId, NodeId, Rank};
use traces::origin::Origin;
use traces::unit::{Bytes, Nanos};
use traces::wire::Psn;

use super::Places;
use crate::carriage;
use crate::collective::{TRAIN_WINDOW, Train, TrainChannels};
use crate::connection::{ConnectionId, Network, QueuePair};
use crate::schedule::Operation;

/// Writes nodes: gives them ids, and messages their numbers.
pub(super) struct Pen<'a, 'b> {
    pub(super) places: Places<'a>,
    pub(super) host: HostId,
    pub(super) next: &'b mut u64,
    pub(super) counters: &'b mut Counters,
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

/// What has been sent so far, as the programs of both ends count it.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    /// By queue pair that sends.
    pairs: Vec<[Counter; 2]>,
    /// Messages by connection.
    connections: Vec<[u32; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    messages: u32,
    psn: Psn,
}

/// An end of a connection, as a place in its counters.
#[derive(Clone, Copy)]
enum End {
    Sends,
    Receives,
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

    /// A message of a connection, as its sender knows it: complete when all its parts are acknowledged.
    pub(super) fn send_message(
        &mut self,
        rank: Rank,
        after: &[NodeId],
        connection: ConnectionId,
        piece: Piece,
    ) -> Vec<NodeId> {
        let parts: Vec<_> = self.messages(End::Sends, connection, piece).collect();
        parts.into_iter().map(|part| self.node(rank, after.to_vec(), NodeWork::Send(part))).collect()
    }

    /// A message of a connection, as its receiver knows it: it waits for what frees its memory. Of its parts each waits for
    /// the one before, so that the last says that all are there.
    pub(super) fn receive_message(
        &mut self,
        rank: Rank,
        after: Vec<NodeId>,
        connection: ConnectionId,
        piece: Piece,
    ) -> NodeId {
        let parts: Vec<_> = self.messages(End::Receives, connection, piece).collect();
        let mut last = NodeId::default();
        let mut after = after;
        for part in parts {
            last = self.node(rank, std::mem::take(&mut after), NodeWork::Receive(part));
            after.push(last);
        }
        last
    }

    /// The next message of a connection, as the messages of its queue pairs.
    fn messages(
        &mut self,
        end: End,
        connection: ConnectionId,
        Piece { bytes, offset, origin }: Piece,
    ) -> impl Iterator<Item = Message> {
        let Places { plan, network, .. } = self.places;
        let end = end as usize;
        let numbers = &mut self.counters.connections[connection.index()];
        let number = numbers[end];
        numbers[end] = number.wrapping_add(1);
        let counters = &mut self.counters.pairs;
        carriage::parts(&plan.collectives, number, bytes).map(move |part| {
            let sender = network.sender(connection, part.lane);
            let counter = &mut counters[sender.index()][end];
            let Counter { messages: sequence, psn } = *counter;
            let segments = carriage::segments(&plan.transport, part.bytes, bytes, sequence, psn);
            *counter = Counter { messages: sequence.wrapping_add(1), psn: segments.next_psn() };
            let receiver = network.pair(sender).peer;
            Message {
                id: MessageId { sender, sequence },
                receiver,
                bytes: part.bytes,
                offset: offset + Bytes(part.offset),
                // NCCL tells the size by the immediate value: that of the whole, on each queue pair.
                immediate: u32::try_from(bytes.0).ok(),
                first_psn: psn.value(),
                address: network.pair(receiver).slot_address(number) + part.offset,
                origin,
            }
        })
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
                let connection = self.places.network.between(
                    operation.origin.group,
                    rank,
                    to,
                    u32::try_from(train.channel(part)).unwrap_or(u32::MAX),
                );
                let most = if inside { 1 } else { TRAIN_WINDOW };
                let before = if window.len() == most { window.pop_front() } else { None };
                let waits = before.unwrap_or_else(|| after.clone());
                window.push_back(match connection {
                    Some(connection) if !inside => self.send_message(rank, &waits, connection, piece),
                    _ => vec![self.local(rank, waits, piece)],
                });
            }
            ends.extend(window.iter().flatten());
            if inside {
                copies.extend(window.into_iter().flatten());
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
            let Some(connection) = self.places.network.between(operation.origin.group, from, rank, channel)
            else {
                continue;
            };
            // The memory of a message is free again when the message has arrived: its data are where they belong.
            let mut window = VecDeque::with_capacity(TRAIN_WINDOW);
            for index in 0..train.messages(part) {
                let piece = part_of_train(operation, &train, part, index);
                let before = if window.len() == TRAIN_WINDOW { window.pop_front() } else { None };
                let waits = before.map_or_else(|| after.clone(), |before| vec![before]);
                window.push_back(self.receive_message(rank, waits, connection, piece));
            }
            ends.extend(window);
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

impl Counters {
    /// Nothing was sent yet.
    pub(super) fn new(network: &Network) -> Self {
        let counter = |pair: &QueuePair| Counter { messages: 0, psn: pair.first_psn };
        Self {
            pairs: network.pairs().iter().map(|pair| [counter(pair); 2]).collect(),
            connections: vec![[0; 2]; network.connections()],
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
