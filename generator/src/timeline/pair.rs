//! A queue pair as sender, with what its peer knows of what it sends.

use std::collections::{BTreeMap, VecDeque};

use traces::id::NodeId;
use traces::id::Rank;
use traces::origin::Origin;
use traces::unit::Nanos;
use traces::wire::Psn;
use traces::wire::segment::Segments;

/// A queue pair as sender, with what its peer knows of it.
#[derive(Debug, Default)]
pub(super) struct Pair {
    /// Messages that may go, by sequence number.
    pub(super) ready: BTreeMap<u32, Outgoing>,
    /// The next to go, and the frames of it that have gone.
    pub(super) next: u32,
    pub(super) gone: u64,
    /// Whether its NIC has it in its round.
    pub(super) active: bool,
    /// Nodes of messages that have gone and are not acknowledged.
    pub(super) flying: VecDeque<NodeId>,
    /// Messages from `arrived_from` on that have not been received, at the peer.
    pub(super) arriving: VecDeque<Arriving>,
    pub(super) arrived_from: u32,
    /// Messages that have arrived whole.
    pub(super) arrived: Psn,
    /// When the peer's last acknowledgement was made.
    pub(super) acknowledged: Nanos,
    pub(super) acknowledgements: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) node: NodeId,
    pub(super) segments: Segments,
    pub(super) origin: Origin,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arriving {
    pub(super) first: Option<Nanos>,
    pub(super) whole: bool,
    /// The node that waits for it.
    pub(super) node: Option<NodeId>,
}

impl Pair {
    /// The message of this sequence number on its way to the peer.
    pub(super) fn arriving(&mut self, sequence: u32) -> &mut Arriving {
        let index = Rank(sequence.wrapping_sub(self.arrived_from)).index();
        while self.arriving.len() <= index {
            self.arriving.push_back(Arriving::default());
        }
        &mut self.arriving[index]
    }

    /// Messages that have arrived and were received are forgotten.
    pub(super) fn forget(&mut self) {
        while self.arriving.front().is_some_and(|message| message.whole && message.node.is_some()) {
            self.arriving.pop_front();
            self.arrived_from = self.arrived_from.wrapping_add(1);
        }
    }
}
