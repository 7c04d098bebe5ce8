//! The nodes of a host that are under way: what each waits for, and those that wait to be written in order.

use std::collections::VecDeque;

use traces::graph::Node;
use traces::id::NodeId;

/// Nodes from the first unwritten one on.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// The id of the first.
    first: u64,
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    node: Node,
    /// Nodes that it waits for and that are not complete.
    waits: u32,
    done: bool,
    /// Nodes that wait for it.
    waiting: Vec<NodeId>,
}

impl Host {
    /// Adds the next node, and says whether it waits for nothing.
    pub(super) fn add(&mut self, node: Node) -> bool {
        let id = node.id;
        let mut waits = 0;
        for &before in &node.after {
            if let Some(entry) = self.entry(before).filter(|entry| !entry.done) {
                entry.waiting.push(id);
                waits += 1;
            }
        }
        self.entries.push_back(Entry { node, waits, done: false, waiting: Vec::new() });
        waits == 0
    }

    /// A node that is not written.
    pub(super) fn node(&mut self, id: NodeId) -> Option<&mut Node> {
        self.entry(id).map(|entry| &mut entry.node)
    }

    /// Marks a node as complete, and gives those that now wait for nothing.
    pub(super) fn finish(&mut self, id: NodeId) -> Vec<NodeId> {
        let Some(entry) = self.entry(id) else { return Vec::new() };
        entry.done = true;
        let mut begun = std::mem::take(&mut entry.waiting);
        begun.retain(|&next| {
            self.entry(next).is_some_and(|entry| {
                entry.waits -= 1;
                entry.waits == 0
            })
        });
        begun
    }

    /// The next node in order of ids, if it is complete.
    pub(super) fn pop(&mut self) -> Option<Node> {
        let entry = self.entries.pop_front_if(|entry| entry.done)?;
        self.first += 1;
        Some(entry.node)
    }

    /// Nodes that are not written.
    pub(super) fn held(&self) -> usize {
        self.entries.len()
    }

    /// The first node that is not complete.
    pub(super) fn first(&self) -> Option<NodeId> {
        self.entries.iter().find(|entry| !entry.done).map(|entry| entry.node.id)
    }

    fn entry(&mut self, id: NodeId) -> Option<&mut Entry> {
        let index = usize::try_from(id.0.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(index)
    }
}
