//! What happens, and in which order.

use std::cmp::Ordering;

use traces::id::{HostId, NicId, NodeId, QueuePairId};
use traces::unit::Nanos;
use traces::wire::{Psn, Syndrome};

use super::burst::Content;
use super::handshake::Step;

/// An event and when it happens; those of one instant happen in the order in which they were made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) at: Nanos,
    pub(super) made: u64,
    pub(super) event: Event,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A compute or a copy is over.
    Complete(HostId, NodeId),
    /// A message has arrived whole.
    Whole(QueuePairId, u32),
    /// An answer to what the queue pair sends has arrived.
    Answered(QueuePairId, Syndrome, Psn),
    /// A congestion notification for the queue pair has arrived.
    Notified(QueuePairId),
    /// A NIC can send.
    Serve(NicId),
    /// The queue pair may send again.
    Resume(QueuePairId),
    /// The queue pair's oldest frame may have been out for too long.
    Watch(QueuePairId),
    /// Something is said by the queue pair.
    Say(QueuePairId, Content),
    /// A message of a handshake has arrived at the queue pair.
    Heard(QueuePairId, Step),
    /// The training begins.
    Begin,
    /// The first of `Port::incoming` is there.
    Arrive(NicId),
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.made).cmp(&(other.at, other.made))
    }
}
