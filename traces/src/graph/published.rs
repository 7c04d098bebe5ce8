//! The published schema, `docs/graph.proto`, read by another implementation of protobuf, agrees with what is written.

use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, Value};

use super::encode::{GraphWriter, MAGIC};
use super::{Head, Message, Node, Purpose, Task, Work};
use crate::id::{GroupId, HostId, MessageId, NodeId, QueuePairId, Rank};
use crate::origin::{Class, Operation, Origin, Phase};
use crate::unit::{Bytes, Nanos};

/// A graph with every kind of node and every field set.
fn nodes() -> Vec<Node> {
    let origin = Origin {
        step: 1,
        microbatch: Some(2),
        layer: Some(3),
        phase: Phase::Backward,
        class: Class::TpBackward,
        operation: Operation::AllReduce,
        group: GroupId(4),
        instance: 5,
        collective_step: 6,
        channel: 7,
        slice: 8,
    };
    let message = Message {
        id: MessageId { sender: QueuePairId(9), sequence: 10 },
        receiver: QueuePairId(11),
        bytes: Bytes(12),
        offset: Bytes(16),
        immediate: Some(13),
        first_psn: 14,
        address: 15,
        origin,
    };
    let purpose = Purpose { step: 1, microbatch: Some(2), layer: Some(3), task: Task::Backward };
    let works = [
        Work::Compute { duration: Nanos(5), purpose },
        Work::Local { bytes: Bytes(6), duration: Nanos(7), origin },
        Work::Send(message),
        Work::Receive(message),
        Work::Join { payload: Bytes(8), origin },
    ];
    works
        .into_iter()
        .zip(0_u64..)
        .map(|(work, id)| Node {
            id: NodeId(id),
            rank: Rank(1),
            after: (0..id).map(NodeId).collect(),
            work,
            planned_start: Nanos(100),
            planned_end: Nanos(103),
        })
        .collect()
}

fn pool() -> DescriptorPool {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
    let files = protox::compile([format!("{folder}/graph.proto")], [folder]).unwrap();
    DescriptorPool::from_file_descriptor_set(files).unwrap()
}

#[test]
fn the_published_schema_knows_every_field_that_is_written() {
    let head = Head { host: HostId(2), plan_digest: "d1".to_owned() };
    let mut writer = GraphWriter::new(Vec::new(), &head).unwrap();
    for node in nodes() {
        writer.node(&node).unwrap();
    }
    let bytes = writer.finish().unwrap().0;

    let descriptor = pool().get_message_by_name("tokenwire.graph.v1.Record").unwrap();
    let mut rest = &bytes[MAGIC.len()..];
    let mut kinds = Vec::new();
    while !rest.is_empty() {
        let mut record = DynamicMessage::new(descriptor.clone());
        record.merge_length_delimited(&mut rest).unwrap();
        let text = record.to_text_format();
        assert_eq!(unknown_fields(&record), 0, "{text}");
        kinds.push(text);
    }
    assert_eq!(kinds.len(), 7, "head, five nodes, totals");
    assert_eq!(kinds[0], "head{format_version:1,host:2,plan_digest:\"d1\"}");
    let origin = "origin{step:1,microbatch:2,layer:3,phase:2,class:5,operation:1,group:4,instance:5,collective_step:6,channel:7,slice:8}";
    assert_eq!(
        kinds[3],
        format!(
            "node{{id:2,rank:1,after:[2,1],planned_start_ns:100,planned_duration_ns:3,\
             send{{sender:9,sequence:10,receiver:11,bytes:12,immediate:13,first_psn:14,address:15,{origin},offset:16}}}}"
        )
    );
    assert_eq!(
        kinds[5],
        format!(
            "node{{id:4,rank:1,after:[4,3,2,1],planned_start_ns:100,planned_duration_ns:3,join{{payload_bytes:8,{origin}}}}}"
        )
    );
    assert_eq!(
        kinds[6],
        "totals{nodes:5,messages_sent:1,bytes_sent:12,messages_received:1,bytes_received:12}"
    );
}

fn unknown_fields(message: &DynamicMessage) -> usize {
    let nested = message.fields().map(|(_, value)| match value {
        Value::Message(message) => unknown_fields(message),
        _ => 0,
    });
    message.unknown_fields().count() + nested.sum::<usize>()
}
