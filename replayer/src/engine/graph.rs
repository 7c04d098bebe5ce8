//! The part of a host's graph that is under way: nodes that were read and are not complete.
//!
//! Nodes come in the order of their ids, and what is complete leaves at the front, so memory follows what is under
//! way. Who waits for whom is kept as lists within one array.

use std::collections::VecDeque;

use traces::graph::{Node, Work};
use traces::id::{NodeId, Rank};
use traces::unit::Nanos;

/// The nodes under way.
#[derive(Debug)]
pub(super) struct Graph {
    start: Nanos,
    /// The id of the first slot.
    base: u64,
    slots: VecDeque<Slot>,
    edges: Vec<Edge>,
    free: Option<usize>,
    /// The latest completion among nodes that have left.
    left_at: Nanos,
    complete: u64,
    held: usize,
}

/// A node under way.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) rank: Rank,
    pub(super) work: Work,
    pub(super) planned_start: Nanos,
    pub(super) planned_end: Nanos,
    /// When all that it waited for was complete.
    pub(super) ready: Nanos,
    completed: Option<Nanos>,
    waits: usize,
    dependents: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    dependent: u64,
    next: Option<usize>,
}

impl Graph {
    pub(super) fn new(start: Nanos, held: usize) -> Self {
        Self {
            start,
            base: 0,
            slots: VecDeque::with_capacity(held),
            edges: Vec::with_capacity(held),
            free: None,
            left_at: start,
            complete: 0,
            held,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.slots.len() < self.held
    }

    /// How many nodes are complete.
    pub(super) const fn complete_nodes(&self) -> u64 {
        self.complete
    }

    /// How many nodes were read.
    pub(super) fn read(&self) -> u64 {
        self.base + count(self.slots.len())
    }

    /// The first node that is not complete.
    pub(super) fn first(&self) -> Option<NodeId> {
        (!self.slots.is_empty()).then_some(NodeId(self.base))
    }

    /// Takes the next node; says whether it is ready at once.
    pub(super) fn add(&mut self, node: &Node) -> Result<bool, &'static str> {
        if node.id.0 != self.read() {
            return Err("does not have the next id: nodes are numbered from zero without gaps");
        }
        let mut waits = 0;
        // Completions of nodes that have left are not told apart: the latest is not before the one that counts.
        let mut ready = self.start;
        for after in &node.after {
            if after.0 >= node.id.0 {
                return Err("waits for a node that is not before it");
            }
            let Some(index) = self.index(*after) else {
                ready = ready.max(self.left_at);
                continue;
            };
            match self.slots[index].completed {
                Some(at) => ready = ready.max(at),
                None => {
                    self.link(index, node.id.0);
                    waits += 1;
                }
            }
        }
        self.slots.push_back(Slot {
            rank: node.rank,
            work: node.work.clone(),
            planned_start: node.planned_start,
            planned_end: node.planned_end,
            ready,
            completed: None,
            waits,
            dependents: None,
        });
        Ok(waits == 0)
    }

    /// A node that is not complete.
    pub(super) fn get(&self, node: NodeId) -> Option<&Slot> {
        self.index(node).map(|index| &self.slots[index]).filter(|slot| slot.completed.is_none())
    }

    /// A node is complete; `ready` is told each node that waited for nothing else.
    pub(super) fn complete(&mut self, node: NodeId, at: Nanos, mut ready: impl FnMut(NodeId)) {
        let Some(index) = self.index(node).filter(|&index| self.slots[index].completed.is_none()) else {
            return;
        };
        self.complete += 1;
        self.slots[index].completed = Some(at);
        let mut edge = self.slots[index].dependents.take();
        while let Some(at_edge) = edge {
            let Edge { dependent, next } = self.edges[at_edge];
            self.edges[at_edge].next = self.free.replace(at_edge);
            edge = next;
            if let Some(index) = self.index(NodeId(dependent)) {
                let slot = &mut self.slots[index];
                slot.ready = slot.ready.max(at);
                slot.waits -= 1;
                if slot.waits == 0 {
                    ready(NodeId(dependent));
                }
            }
        }
        while let Some(at) = self.slots.front().and_then(|slot| slot.completed) {
            self.left_at = self.left_at.max(at);
            self.slots.pop_front();
            self.base += 1;
        }
    }

    fn link(&mut self, index: usize, dependent: u64) {
        let edge = Edge { dependent, next: self.slots[index].dependents };
        let place = match self.free {
            Some(place) => {
                self.free = self.edges[place].next;
                self.edges[place] = edge;
                place
            }
            None => {
                self.edges.push(edge);
                self.edges.len() - 1
            }
        };
        self.slots[index].dependents = Some(place);
    }

    fn index(&self, node: NodeId) -> Option<usize> {
        let index = usize::try_from(node.0.checked_sub(self.base)?).ok()?;
        (index < self.slots.len()).then_some(index)
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use traces::graph::{Purpose, Task};

    use super::*;

    fn node(id: u64, after: &[u64]) -> Node {
        let purpose = Purpose { step: 0, microbatch: None, layer: None, task: Task::Forward };
        Node {
            id: NodeId(id),
            rank: Rank(0),
            after: after.iter().copied().map(NodeId).collect(),
            work: Work::Compute { duration: Nanos(1), purpose },
            planned_start: Nanos(0),
            planned_end: Nanos(1),
        }
    }

    #[test]
    fn a_node_is_ready_when_the_last_of_those_it_waits_for_is_complete() {
        let mut graph = Graph::new(Nanos(0), 8);
        assert_eq!(graph.add(&node(0, &[])), Ok(true));
        assert_eq!(graph.add(&node(1, &[])), Ok(true));
        assert_eq!(graph.add(&node(2, &[0, 1])), Ok(false));
        let mut ready = Vec::new();
        graph.complete(NodeId(1), Nanos(9), |node| ready.push(node));
        assert!(ready.is_empty());
        graph.complete(NodeId(0), Nanos(4), |node| ready.push(node));
        assert_eq!(ready, [NodeId(2)]);
        assert_eq!(graph.get(NodeId(2)).unwrap().ready, Nanos(9));
        assert_eq!(graph.first(), Some(NodeId(2)));
        assert_eq!(graph.add(&node(3, &[0])), Ok(true));
        assert_eq!(
            graph.get(NodeId(3)).unwrap().ready,
            Nanos(9),
            "node 0 has left: the latest that left counts"
        );
    }

    #[test]
    fn edges_are_used_again() {
        let mut graph = Graph::new(Nanos(0), 8);
        graph.add(&node(0, &[])).unwrap();
        for id in 1..100 {
            graph.add(&node(id, &[id - 1])).unwrap();
            graph.complete(NodeId(id - 1), Nanos(id), |_| {});
        }
        assert_eq!(graph.edges.len(), 1);
        assert_eq!((graph.complete_nodes(), graph.read()), (99, 100));
    }

    #[test]
    fn ids_have_no_gaps() {
        let mut graph = Graph::new(Nanos(0), 8);
        assert!(graph.add(&node(1, &[])).is_err());
        assert!(graph.add(&node(0, &[0])).is_err());
    }
}
