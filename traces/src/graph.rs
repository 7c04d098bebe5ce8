//! The dependency graph of one host: what its ranks do, what each node waits for, and the messages between hosts.
//!
//! It is the contract between generator and replayer: the generator writes it as its timeline runs, the replayer
//! executes it. Nodes stand in an order in which they could run, so each waits only for smaller ids, and both sides
//! stream. Planned times are the timeline's, kept for comparison and never needed to run the graph.
//!
//! [`encode`] turns it into bytes and back; `docs/trace-format.md` describes them for other tools.

mod record;
pub mod encode;

use crate::id::{HostId, MessageId, NodeId, QueuePairId, Rank};
use crate::origin::Origin;
use crate::unit::{Bytes, Nanos};

/// A node of a host's graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number: nodes of a host are numbered from zero without gaps.
    pub id: NodeId,
    /// The rank that executes it.
    pub rank: Rank,
    /// What it waits for: smaller ids of the same host, ascending.
    pub after: Vec<NodeId>,
    /// What it does.
    pub work: Work,
    /// When the timeline began it: a compute or a local copy starts, the first frame of a message leaves or arrives.
    pub planned_start: Nanos,
    /// When the timeline completed it: a send when it is acknowledged, a receive when its last byte is there.
    pub planned_end: Nanos,
}

/// What a node does, and when it is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Passes time; complete when it is over.
    Compute {
        /// How long.
        duration: Nanos,
        /// What the time is spent on.
        purpose: Purpose,
    },
    /// Ends an operation on a rank: complete, without taking time, when all that it waits for is.
    Join {
        /// What the operation means: its payload by the convention of its kind, not the bytes sent for it.
        payload: Bytes,
        /// The operation; its last three fields are zero.
        origin: Origin,
    },
    /// Moves data inside the host (NVLink and the like): a delay, never a frame.
    Local {
        /// How much.
        bytes: Bytes,
        /// How long.
        duration: Nanos,
        /// Why.
        origin: Origin,
    },
    /// Sends a message; complete when it is acknowledged, so its buffer is free.
    Send(Message),
    /// Receives a message; complete when all its bytes have arrived.
    Receive(Message),
}

/// What a compute node stands for in the training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// The training step.
    pub step: u32,
    /// The microbatch, if it belongs to one.
    pub microbatch: Option<u32>,
    /// The layer, if it belongs to one.
    pub layer: Option<u32>,
    /// What is computed.
    pub task: Task,
}

/// The kinds of compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// A forward pass.
    Forward,
    /// A backward pass.
    Backward,
    /// The optimizer's update.
    Optimizer,
    /// The end of a training step on a rank: waits for all of it and takes no time.
    StepEnd,
}

/// A message from one host to another, as both ends know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// The queue pair that receives it: the peer of `id.sender`.
    pub receiver: QueuePairId,
    /// Its payload. Zero is a message too.
    pub bytes: Bytes,
    /// Where its payload stands in the buffer that the operation is about: what an all-reduce sums, what a send hands over.
    pub offset: Bytes,
    /// The immediate value that its last frame carries.
    pub immediate: Option<u32>,
    /// The packet sequence number of its first frame, 24 bits.
    pub first_psn: u32,
    /// Where it is written in the receiver's memory.
    pub address: u64,
    /// Why it exists.
    pub origin: Origin,
}

/// What a graph file says of itself before its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The host whose graph it is.
    pub host: HostId,
    /// The digest of the plan it was made from.
    pub plan_digest: String,
}

/// What a graph file says after its nodes, so that a cut file is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Nodes written.
    pub nodes: u64,
    /// Messages sent by this host.
    pub messages_sent: u64,
    /// Their payload.
    pub bytes_sent: Bytes,
    /// Messages received by this host.
    pub messages_received: u64,
    /// Their payload.
    pub bytes_received: Bytes,
}

impl Work {
    /// The origin of a message, a local copy or a join; compute has none.
    #[must_use]
    pub const fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Compute { .. } => None,
            Self::Join { origin, .. } | Self::Local { origin, .. } => Some(origin),
            Self::Send(message) | Self::Receive(message) => Some(&message.origin),
        }
    }
}

impl Totals {
    /// Counts one more node.
    pub fn add(&mut self, node: &Node) {
        self.nodes += 1;
        match &node.work {
            Work::Send(message) => {
                self.messages_sent += 1;
                self.bytes_sent += message.bytes;
            }
            Work::Receive(message) => {
                self.messages_received += 1;
                self.bytes_received += message.bytes;
            }
            Work::Compute { .. } | Work::Join { .. } | Work::Local { .. } => {}
        }
    }
}

#[cfg(test)]
mod published;
