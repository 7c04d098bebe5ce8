//! A NIC's port: what it has to send, and what comes in.

use std::collections::{BTreeMap, VecDeque};

use traces::id::{NicId, QueuePairId};
use traces::unit::Nanos;
use traces::wire::Psn;

use super::burst::Burst;
use crate::random::Stream;

/// The state of a port.
#[derive(Debug, Default)]
pub(super) struct Port {
    /// From when on its line is free.
    pub(super) sends_from: Nanos,
    /// Whether an event will serve it.
    pub(super) serving: bool,
    /// What goes first.
    pub(super) acknowledgements: VecDeque<Acknowledgement>,
    /// Queue pairs that have something to send, in the order of their turns.
    pub(super) round: VecDeque<QueuePairId>,
    /// From when on the line towards it is free.
    pub(super) receives_from: Nanos,
    /// Bursts under way to it, by arrival: with whether it completes a message, and how long it takes.
    pub(super) incoming: BTreeMap<(Nanos, u64), (Burst, bool, Nanos)>,
    identification: u16,
}

/// An acknowledgement to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acknowledgement {
    /// The queue pair that sends it.
    pub(super) sender: QueuePairId,
    /// What it is about.
    pub(super) psn: Psn,
    /// Messages completed by then.
    pub(super) messages: Psn,
    /// Whether it is about the last frame of a message.
    pub(super) completes: bool,
}

impl Port {
    /// A port whose NIC has sent frames before the trace began: its identification starts anywhere.
    pub(super) fn new(seed: u64, nic: NicId) -> Self {
        let start = Stream::new(seed, "identification", nic.0.into()).below(1 << 16, 0);
        Self { identification: u16::try_from(start).unwrap_or(0), ..Self::default() }
    }

    /// The identification of the first of `frames` frames that it sends next.
    pub(super) fn identify(&mut self, frames: u64) -> u16 {
        let first = self.identification;
        let [.., high, low] = frames.to_be_bytes();
        self.identification = first.wrapping_add(u16::from_be_bytes([high, low]));
        first
    }
}
