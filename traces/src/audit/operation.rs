//! Operations by their graphs: what all ranks send together is the closed form of the collective, step by step, and nothing
//! begins before what it waits for has ended.

use std::collections::BTreeMap;

use super::{check, examine};
use crate::critic::Check;
use crate::graph::{Node, Work};
use crate::id::GroupId;
use crate::origin::{Operation, Origin};
use crate::unit::Nanos;

/// Takes the nodes of all hosts, gives checks.
#[derive(Debug)]
pub struct Operations {
    /// Ranks of each group.
    sizes: Vec<u64>,
    open: BTreeMap<(GroupId, u32), Sum>,
    /// When each node of the host in hand ends.
    ends: Vec<Nanos>,
    planned: Check,
}

/// What was seen of an operation.
#[derive(Debug)]
struct Sum {
    origin: Origin,
    /// Ranks that completed it, and what it means on one.
    joins: u64,
    payload: u64,
    /// Sent over links, NVLink included.
    bytes: u64,
    /// One more than the last step of the algorithm.
    steps: u64,
}

impl Operations {
    /// Nothing was seen yet; `sizes` are the ranks of each group, by its number.
    #[must_use]
    pub fn new(sizes: Vec<u64>) -> Self {
        Self { sizes, open: BTreeMap::new(), ends: Vec::new(), planned: check("dependencies_planned") }
    }

    /// The nodes that follow are of another host.
    pub fn host(&mut self) {
        self.ends.clear();
    }

    /// Looks at a node; `file` is the graph it is from.
    pub fn node(&mut self, file: &str, node: &Node) {
        let ended =
            node.after.iter().filter_map(|&id| self.ends.get(usize::try_from(id.0).ok()?)).max().copied();
        self.ends.push(node.planned_end);
        let start = node.planned_start;
        // A receive is planned from its first frame on, whichever part of its message that is.
        if let Some(ended) = ended.filter(|_| !matches!(node.work, Work::Receive(_))) {
            examine(&mut self.planned, start >= ended, file, || {
                format!(
                    "node {} begins at {} ns, what it waits for ends at {} ns",
                    node.id.0, start.0, ended.0
                )
            });
        }
        let (origin, joins, payload, bytes) = match &node.work {
            Work::Compute { .. } | Work::Receive(_) => return,
            Work::Join { payload, origin } => (origin, 1, payload.0, 0),
            Work::Local { bytes, origin, .. } => (origin, 0, 0, bytes.0),
            Work::Send(message) => (&message.origin, 0, 0, message.bytes.0),
        };
        let sum = self.open.entry((origin.group, origin.instance)).or_insert_with(|| Sum {
            origin: *origin,
            joins: 0,
            payload: 0,
            bytes: 0,
            steps: 0,
        });
        sum.joins += joins;
        sum.payload = sum.payload.max(payload);
        sum.bytes += bytes;
        if joins == 0 {
            sum.steps = sum.steps.max(u64::from(origin.collective_step) + 1);
        }
    }

    /// The checks: volumes, steps, planned times. Operations that not all ranks of the graphs complete are left out.
    #[must_use]
    pub fn finish(self) -> Vec<Check> {
        let (mut volume, mut steps) = (check("operation_volume"), check("operation_steps"));
        for sum in self.open.values() {
            let Some(&ranks) = self.sizes.get(sum.origin.group.index()) else { continue };
            let Some((passes, payload)) = sum.closed_form(ranks) else { continue };
            examine(&mut volume, sum.bytes == payload, "graph", || {
                format!("{}: {} bytes are sent, should be {payload}", sum.origin, sum.bytes)
            });
            // A ring of few bytes leaves out no step: its messages are empty then. One of many goes around again.
            let right = sum.steps > 0 && sum.steps.is_multiple_of(passes);
            examine(&mut steps, right || sum.steps == passes, "graph", || {
                format!("{}: {} steps, should be {passes} for each time around", sum.origin, sum.steps)
            });
        }
        vec![volume, steps, self.planned]
    }
}

impl Sum {
    /// Steps, and bytes over all ranks, of the ring algorithms: each byte passes all edges but one, once or (all-reduce)
    /// twice. (Patarasuk and Yuan 2009.)
    fn closed_form(&self, ranks: u64) -> Option<(u64, u64)> {
        let edges = ranks.checked_sub(1)?;
        let (complete, passes) = match self.origin.operation {
            Operation::AllReduce => (ranks, 2 * edges),
            Operation::AllGather | Operation::ReduceScatter => (ranks, edges),
            Operation::Broadcast | Operation::Reduce | Operation::AllToAll | Operation::SendReceive => {
                return None;
            }
        };
        (self.joins == complete).then_some((passes, passes * self.payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Purpose;
    use crate::graph::Task;
    use crate::id::{NodeId, Rank};
    use crate::origin::{Class, Phase};
    use crate::unit::Bytes;

    fn origin(collective_step: u32) -> Origin {
        Origin {
            step: 0,
            microbatch: None,
            layer: None,
            phase: Phase::End,
            class: Class::DpGradients,
            operation: Operation::AllReduce,
            group: GroupId(0),
            instance: 0,
            collective_step,
            channel: 0,
            slice: 0,
        }
    }

    fn node(id: u64, after: &[u64], (start, end): (u64, u64), work: Work) -> Node {
        Node {
            id: NodeId(id),
            rank: Rank(0),
            after: after.iter().copied().map(NodeId).collect(),
            work,
            planned_start: Nanos(start),
            planned_end: Nanos(end),
        }
    }

    fn copy(step: u32, bytes: u64) -> Work {
        Work::Local { bytes: Bytes(bytes), duration: Nanos(10), origin: origin(step) }
    }

    /// Two ranks reduce 100 bytes: each sends its half twice.
    fn graph() -> Vec<Node> {
        let join = || Work::Join { payload: Bytes(100), origin: origin(0) };
        vec![
            node(0, &[], (0, 10), copy(0, 50)),
            node(1, &[], (0, 10), copy(0, 50)),
            node(2, &[1], (10, 20), copy(1, 50)),
            node(3, &[0], (10, 20), copy(1, 50)),
            node(4, &[2, 3], (20, 20), join()),
            node(5, &[2, 3], (20, 20), join()),
        ]
    }

    fn found(nodes: &[Node]) -> Vec<(String, u64, u64)> {
        let mut operations = Operations::new(vec![2]);
        for node in nodes {
            operations.node("graph/host0.twg", node);
        }
        let checks = operations.finish();
        checks.into_iter().map(|check| (check.name, check.examined, check.violations)).collect()
    }

    fn expected(volume: (u64, u64), steps: (u64, u64), planned: (u64, u64)) -> Vec<(String, u64, u64)> {
        [("operation_volume", volume), ("operation_steps", steps), ("dependencies_planned", planned)]
            .map(|(name, (examined, violations))| (name.to_owned(), examined, violations))
            .into()
    }

    #[test]
    fn a_ring_of_two_sends_twice_its_payload() {
        assert_eq!(found(&graph()), expected((1, 0), (1, 0), (4, 0)));
    }

    #[test]
    fn a_message_that_is_too_short_is_found() {
        let mut nodes = graph();
        nodes[2].work = copy(1, 48);
        assert_eq!(found(&nodes), expected((1, 1), (1, 0), (4, 0)));
    }

    #[test]
    fn a_step_that_is_left_out_is_found() {
        let mut nodes = graph();
        (nodes[2].work, nodes[3].work) = (copy(0, 50), copy(0, 50));
        assert_eq!(found(&nodes), expected((1, 0), (1, 1), (4, 0)));
    }

    #[test]
    fn what_begins_too_early_is_found() {
        let mut nodes = graph();
        nodes[2].planned_start = Nanos(9);
        assert_eq!(found(&nodes), expected((1, 0), (1, 0), (4, 1)));
    }

    #[test]
    fn an_operation_that_is_cut_off_is_not_judged() {
        let mut nodes = graph();
        nodes.truncate(5);
        assert_eq!(found(&nodes), expected((0, 0), (0, 0), (3, 0)));
        nodes.truncate(1);
        let purpose = Purpose { step: 0, microbatch: None, layer: None, task: Task::Forward };
        nodes.push(node(1, &[0], (10, 12), Work::Compute { duration: Nanos(2), purpose }));
        assert_eq!(found(&nodes), expected((0, 0), (0, 0), (1, 0)));
    }
}
