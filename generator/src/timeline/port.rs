//! A NIC's port: what it has to send, and what comes in.

use std::collections::{BTreeMap, VecDeque};

use traces::id::{NicId, QueuePairId};
use traces::unit::Nanos;

use super::burst::{Burst, Content};
use crate::random::Stream;

/// The state of a port.
#[derive(Debug, Default)]
pub(super) struct Port {
    /// From when on its line is free.
    pub(super) sends_from: Nanos,
    /// Whether an event will serve it.
    pub(super) serving: bool,
    /// What goes first: answers, notifications, handshakes, with who says them.
    pub(super) sayings: VecDeque<(QueuePairId, Content)>,
    /// Queue pairs that have something to send, in the order of their turns.
    pub(super) round: VecDeque<QueuePairId>,
    /// From when on the line towards it is free.
    pub(super) receives_from: Nanos,
    /// Bursts under way to it, by arrival, with how long each takes.
    pub(super) incoming: BTreeMap<(Nanos, u64), (Burst, Nanos)>,
    /// Datagrams that its queue pair 1 has sent.
    pub(super) datagrams: u32,
    identification: u16,
}

impl Port {
    /// A port whose NIC has sent frames before the trace began: its identification starts anywhere.
    pub(super) fn new(seed: u64, nic: NicId) -> Self {
        let start = Stream::new(seed, "identification", nic.0.into()).below(1 << 16, 0);
        Self { identification: u16::try_from(start).unwrap_or(0), ..Self::default() }
    }

    /// Says something before all data; an acknowledgement that still waits is brought up to date if `coalesce` says so.
    pub(super) fn say(&mut self, sender: QueuePairId, content: Content, coalesce: bool) {
        let last = self.sayings.iter_mut().rev().find(|(other, _)| *other == sender);
        match last {
            Some((_, waiting)) if coalesce && content.acknowledges() && waiting.acknowledges() => {
                *waiting = content;
            }
            _ => self.sayings.push_back((sender, content)),
        }
    }

    /// The identification of the first of `frames` frames that it sends next.
    pub(super) fn identify(&mut self, frames: u64) -> u16 {
        let first = self.identification;
        let [.., high, low] = frames.to_be_bytes();
        self.identification = first.wrapping_add(u16::from_be_bytes([high, low]));
        first
    }
}
