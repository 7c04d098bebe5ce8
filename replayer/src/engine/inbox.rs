//! Messages that arrive before a node waits for them, and nodes that wait for messages to come.

use std::collections::VecDeque;

use traces::id::NodeId;
use traces::unit::Nanos;

/// Messages by their number: when each arrived and which node waits for it, until both are known.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    base: u32,
    entries: VecDeque<Entry>,
}

/// What is known of one message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) node: Option<NodeId>,
    pub(super) arrived: Option<Nanos>,
    taken: bool,
}

impl Inbox {
    /// The entry of a message that has not been taken.
    pub(super) fn entry(&mut self, number: u32) -> Option<&mut Entry> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok().filter(|&index| index < FARTHEST)?;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, Entry::default());
        }
        self.entries.get_mut(index).filter(|entry| !entry.taken)
    }

    /// The node and the arrival of a message, once, when both are known.
    pub(super) fn take(&mut self, number: u32) -> Option<(NodeId, Nanos)> {
        let entry = self.entry(number)?;
        let both = entry.node.zip(entry.arrived)?;
        entry.taken = true;
        while self.entries.front().is_some_and(|entry| entry.taken) {
            self.entries.pop_front();
            self.base += 1;
        }
        Some(both)
    }
}

/// A message may arrive, or be waited for, so far before its turn.
const FARTHEST: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_once_whichever_comes_first() {
        let mut inbox = Inbox::default();
        inbox.entry(1).unwrap().arrived = Some(Nanos(5));
        assert_eq!(inbox.take(1), None);
        inbox.entry(1).unwrap().node = Some(NodeId(9));
        assert_eq!(inbox.take(1), Some((NodeId(9), Nanos(5))));
        assert_eq!(inbox.take(1), None);
        inbox.entry(0).unwrap().node = Some(NodeId(2));
        inbox.entry(0).unwrap().arrived = Some(Nanos(6));
        assert_eq!(inbox.take(0), Some((NodeId(2), Nanos(6))));
        assert!(inbox.entries.is_empty() && inbox.entry(1).is_none());
        assert!(inbox.entry(u32::MAX).is_none(), "much too far ahead");
    }
}
