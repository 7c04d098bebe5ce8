//! The records of a graph file as protobuf messages; `docs/graph.proto` publishes the same for other tools.

use std::fmt;

use super::{Head, Message, Node, Purpose, Task, Totals, Work};
use crate::id::{GroupId, MessageId, NodeId, QueuePairId, Rank};
use crate::origin::{Class, Operation, Origin, Phase};
use crate::unit::{Bytes, Nanos};

/// One length-delimited record of the file.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Record {
    #[prost(oneof = "Body", tags = "1, 2, 3")]
    pub(super) body: Option<Body>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Body {
    #[prost(message, tag = "1")]
    Head(HeadRecord),
    #[prost(message, tag = "2")]
    Node(NodeRecord),
    #[prost(message, tag = "3")]
    Totals(TotalsRecord),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HeadRecord {
    #[prost(uint32, tag = "1")]
    pub(super) format_version: u32,
    #[prost(uint32, tag = "2")]
    pub(super) host: u32,
    #[prost(string, tag = "3")]
    pub(super) plan_digest: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NodeRecord {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint32, tag = "2")]
    rank: u32,
    /// `id` minus each node that it waits for, so that near ones take a byte.
    #[prost(uint64, repeated, packed = "true", tag = "3")]
    after: Vec<u64>,
    #[prost(uint64, tag = "4")]
    planned_start: u64,
    /// From `planned_start`.
    #[prost(uint64, tag = "5")]
    planned_duration: u64,
    #[prost(oneof = "WorkRecord", tags = "6, 7, 8, 9, 10")]
    work: Option<WorkRecord>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum WorkRecord {
    #[prost(message, tag = "6")]
    Compute(ComputeRecord),
    #[prost(message, tag = "7")]
    Local(LocalRecord),
    #[prost(message, tag = "8")]
    Send(MessageRecord),
    #[prost(message, tag = "9")]
    Receive(MessageRecord),
    #[prost(message, tag = "10")]
    Join(JoinRecord),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ComputeRecord {
    #[prost(uint64, tag = "1")]
    duration: u64,
    #[prost(uint32, tag = "2")]
    task: u32,
    #[prost(uint32, tag = "3")]
    step: u32,
    #[prost(uint32, optional, tag = "4")]
    microbatch: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    layer: Option<u32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct JoinRecord {
    #[prost(uint64, tag = "1")]
    payload: u64,
    #[prost(message, optional, tag = "2")]
    origin: Option<OriginRecord>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LocalRecord {
    #[prost(uint64, tag = "1")]
    bytes: u64,
    #[prost(uint64, tag = "2")]
    duration: u64,
    #[prost(message, optional, tag = "3")]
    origin: Option<OriginRecord>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MessageRecord {
    #[prost(uint32, tag = "1")]
    sender: u32,
    #[prost(uint32, tag = "2")]
    sequence: u32,
    #[prost(uint32, tag = "3")]
    receiver: u32,
    #[prost(uint64, tag = "4")]
    bytes: u64,
    #[prost(uint32, optional, tag = "5")]
    immediate: Option<u32>,
    #[prost(uint32, tag = "6")]
    first_psn: u32,
    #[prost(uint64, tag = "7")]
    address: u64,
    #[prost(message, optional, tag = "8")]
    origin: Option<OriginRecord>,
    #[prost(uint64, tag = "9")]
    offset: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OriginRecord {
    #[prost(uint32, tag = "1")]
    step: u32,
    #[prost(uint32, optional, tag = "2")]
    microbatch: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    layer: Option<u32>,
    #[prost(uint32, tag = "4")]
    phase: u32,
    #[prost(uint32, tag = "5")]
    class: u32,
    #[prost(uint32, tag = "6")]
    operation: u32,
    #[prost(uint32, tag = "7")]
    group: u32,
    #[prost(uint32, tag = "8")]
    instance: u32,
    #[prost(uint32, tag = "9")]
    collective_step: u32,
    #[prost(uint32, tag = "10")]
    channel: u32,
    #[prost(uint32, tag = "11")]
    slice: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TotalsRecord {
    #[prost(uint64, tag = "1")]
    nodes: u64,
    #[prost(uint64, tag = "2")]
    messages_sent: u64,
    #[prost(uint64, tag = "3")]
    bytes_sent: u64,
    #[prost(uint64, tag = "4")]
    messages_received: u64,
    #[prost(uint64, tag = "5")]
    bytes_received: u64,
}

/// What a record lacks, or holds that it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault(pub(super) &'static str);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Record {
    pub(super) fn head(head: &Head, format_version: u32) -> Self {
        let Head { host, plan_digest } = head;
        let head = HeadRecord { format_version, host: host.0, plan_digest: plan_digest.clone() };
        Self { body: Some(Body::Head(head)) }
    }

    pub(super) fn node(node: &Node) -> Self {
        Self { body: Some(Body::Node(node.into())) }
    }

    pub(super) fn totals(totals: &Totals) -> Self {
        Self { body: Some(Body::Totals(totals.into())) }
    }
}

impl From<&Node> for NodeRecord {
    fn from(node: &Node) -> Self {
        Self {
            id: node.id.0,
            rank: node.rank.0,
            after: node.after.iter().map(|after| node.id.0 - after.0).collect(),
            planned_start: node.planned_start.0,
            planned_duration: node.planned_end.0 - node.planned_start.0,
            work: Some((&node.work).into()),
        }
    }
}

impl TryFrom<NodeRecord> for Node {
    type Error = Fault;

    fn try_from(record: NodeRecord) -> Result<Self, Fault> {
        let waits_for = |&distance: &u64| match record.id.checked_sub(distance) {
            Some(after) if distance > 0 => Ok(NodeId(after)),
            _ => Err(Fault("it waits for a node that is not before it")),
        };
        let after = record.after.iter().map(waits_for).collect::<Result<Vec<_>, _>>()?;
        if !after.is_sorted_by(|a, b| a < b) {
            return Err(Fault("the nodes it waits for are not in ascending order"));
        }
        let end = record.planned_start.checked_add(record.planned_duration);
        Ok(Self {
            id: NodeId(record.id),
            rank: Rank(record.rank),
            after,
            work: record.work.ok_or(Fault("its work is missing"))?.try_into()?,
            planned_start: Nanos(record.planned_start),
            planned_end: Nanos(end.ok_or(Fault("its planned end is beyond 2^64 ns"))?),
        })
    }
}

impl From<&Work> for WorkRecord {
    fn from(work: &Work) -> Self {
        match work {
            Work::Compute { duration, purpose } => Self::Compute(ComputeRecord {
                duration: duration.0,
                task: task_number(purpose.task),
                step: purpose.step,
                microbatch: purpose.microbatch,
                layer: purpose.layer,
            }),
            Work::Join { payload, origin } => {
                Self::Join(JoinRecord { payload: payload.0, origin: Some(origin.into()) })
            }
            Work::Local { bytes, duration, origin } => {
                Self::Local(LocalRecord { bytes: bytes.0, duration: duration.0, origin: Some(origin.into()) })
            }
            Work::Send(message) => Self::Send(message.into()),
            Work::Receive(message) => Self::Receive(message.into()),
        }
    }
}

impl TryFrom<WorkRecord> for Work {
    type Error = Fault;

    fn try_from(record: WorkRecord) -> Result<Self, Fault> {
        Ok(match record {
            WorkRecord::Compute(compute) => Self::Compute {
                duration: Nanos(compute.duration),
                purpose: Purpose {
                    step: compute.step,
                    microbatch: compute.microbatch,
                    layer: compute.layer,
                    task: task_from(compute.task)?,
                },
            },
            WorkRecord::Join(join) => {
                Self::Join { payload: Bytes(join.payload), origin: join.origin.ok_or(NO_ORIGIN)?.try_into()? }
            }
            WorkRecord::Local(local) => Self::Local {
                bytes: Bytes(local.bytes),
                duration: Nanos(local.duration),
                origin: local.origin.ok_or(NO_ORIGIN)?.try_into()?,
            },
            WorkRecord::Send(message) => Self::Send(message.try_into()?),
            WorkRecord::Receive(message) => Self::Receive(message.try_into()?),
        })
    }
}

impl From<&Message> for MessageRecord {
    fn from(message: &Message) -> Self {
        Self {
            sender: message.id.sender.0,
            sequence: message.id.sequence,
            receiver: message.receiver.0,
            bytes: message.bytes.0,
            immediate: message.immediate,
            first_psn: message.first_psn,
            address: message.address,
            origin: Some((&message.origin).into()),
            offset: message.offset.0,
        }
    }
}

impl TryFrom<MessageRecord> for Message {
    type Error = Fault;

    fn try_from(record: MessageRecord) -> Result<Self, Fault> {
        if record.first_psn >= 1 << 24 {
            return Err(Fault("its first PSN does not fit into 24 bits"));
        }
        if record.bytes > MAX_MESSAGE_BYTES {
            return Err(Fault("its message is longer than 2 GiB, the most that one RDMA message carries"));
        }
        Ok(Self {
            id: MessageId { sender: QueuePairId(record.sender), sequence: record.sequence },
            receiver: QueuePairId(record.receiver),
            bytes: Bytes(record.bytes),
            offset: Bytes(record.offset),
            immediate: record.immediate,
            first_psn: record.first_psn,
            address: record.address,
            origin: record.origin.ok_or(NO_ORIGIN)?.try_into()?,
        })
    }
}

impl From<&Origin> for OriginRecord {
    fn from(origin: &Origin) -> Self {
        Self {
            step: origin.step,
            microbatch: origin.microbatch,
            layer: origin.layer,
            phase: origin.phase.number(),
            class: origin.class.number(),
            operation: origin.operation.number(),
            group: origin.group.0,
            instance: origin.instance,
            collective_step: origin.collective_step,
            channel: origin.channel,
            slice: origin.slice,
        }
    }
}

impl TryFrom<OriginRecord> for Origin {
    type Error = Fault;

    fn try_from(record: OriginRecord) -> Result<Self, Fault> {
        Ok(Self {
            step: record.step,
            microbatch: record.microbatch,
            layer: record.layer,
            phase: Phase::from_number(record.phase).ok_or(Fault("its phase is unknown"))?,
            class: Class::from_number(record.class).ok_or(Fault("its class is unknown"))?,
            operation: Operation::from_number(record.operation).ok_or(Fault("its operation is unknown"))?,
            group: GroupId(record.group),
            instance: record.instance,
            collective_step: record.collective_step,
            channel: record.channel,
            slice: record.slice,
        })
    }
}

impl From<&Totals> for TotalsRecord {
    fn from(totals: &Totals) -> Self {
        Self {
            nodes: totals.nodes,
            messages_sent: totals.messages_sent,
            bytes_sent: totals.bytes_sent.0,
            messages_received: totals.messages_received,
            bytes_received: totals.bytes_received.0,
        }
    }
}

impl From<TotalsRecord> for Totals {
    fn from(record: TotalsRecord) -> Self {
        Self {
            nodes: record.nodes,
            messages_sent: record.messages_sent,
            bytes_sent: Bytes(record.bytes_sent),
            messages_received: record.messages_received,
            bytes_received: Bytes(record.bytes_received),
        }
    }
}

const fn task_number(task: Task) -> u32 {
    match task {
        Task::Forward => 1,
        Task::Backward => 2,
        Task::Optimizer => 3,
        Task::StepEnd => 4,
    }
}

const fn task_from(number: u32) -> Result<Task, Fault> {
    Ok(match number {
        1 => Task::Forward,
        2 => Task::Backward,
        3 => Task::Optimizer,
        4 => Task::StepEnd,
        _ => return Err(Fault("its task is unknown")),
    })
}

const NO_ORIGIN: Fault = Fault("its origin is missing");

/// The longest RDMA message (IBTA vol. 1, 9.7.5.1.1: up to 2^31 bytes).
const MAX_MESSAGE_BYTES: u64 = 1 << 31;
