//! What of a queue pair's messages is at the other end: those that have arrived, and the receives that wait for them.

use std::collections::VecDeque;

use traces::id::{NodeId, Rank};
use traces::unit::Nanos;

/// Messages from the first that has not been received.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    arriving: VecDeque<Arriving>,
    first: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arriving {
    /// When its first frame came.
    pub(super) first: Option<Nanos>,
    pub(super) whole: bool,
    /// The node that waits for it.
    pub(super) node: Option<NodeId>,
}

impl Inbox {
    /// The message of this number on its way.
    pub(super) fn arriving(&mut self, sequence: u32) -> &mut Arriving {
        let index = Rank(sequence.wrapping_sub(self.first)).index();
        while self.arriving.len() <= index {
            self.arriving.push_back(Arriving::default());
        }
        &mut self.arriving[index]
    }

    /// Messages that have arrived and were received are forgotten.
    pub(super) fn forget(&mut self) {
        while self.arriving.pop_front_if(|message| message.whole && message.node.is_some()).is_some() {
            self.first = self.first.wrapping_add(1);
        }
    }
}
