//! A graph file: [`MAGIC`], then length-delimited protobuf records: the head, the nodes in order, the totals.
//!
//! ```text
//! 0        8
//! +--------+--------+--------+--     --+--------+
//! | magic  | length | head   |  nodes  | totals |
//! |        | varint |        | likewise| likewise, and nothing behind
//! +--------+--------+--------+--     --+--------+
//! ```
//!
//! Length-delimited protobuf is what Chakra execution traces use too, and any language reads it with the published
//! `docs/graph.proto`. Both sides stream: memory is one record.

use std::io::{self, BufRead, Write};

use prost::Message as _;
use thiserror::Error;

use super::record::{Body, Record};
use super::{Head, Node, Totals};
use crate::id::{HostId, NodeId};

/// The first eight bytes of a graph file.
pub const MAGIC: [u8; 8] = *b"TWGRAPH\n";

/// The version of the records.
pub const FORMAT_VERSION: u32 = 1;

/// Writes one host's graph.
#[derive(Debug)]
pub struct GraphWriter<W> {
    output: W,
    totals: Totals,
    buffer: Vec<u8>,
}

/// Reads one host's graph, node by node.
#[derive(Debug)]
pub struct GraphReader<R> {
    input: R,
    head: Head,
    position: u64,
    seen: Totals,
    buffer: Vec<u8>,
    ended: bool,
}

/// Why bytes are not a graph.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Reading failed, or writing.
    #[error("graph at byte {position}")]
    Io {
        /// Where.
        position: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file starts with other bytes.
    #[error("not a graph file: it starts with {found:02x?}, not with \"TWGRAPH\\n\"")]
    Magic {
        /// The bytes.
        found: Vec<u8>,
    },
    /// The file is of another version.
    #[error(
        "graph format version {found}, but this program reads version {FORMAT_VERSION}; generate the trace again"
    )]
    Version {
        /// The version.
        found: u32,
    },
    /// The file ends in the middle, or before its totals.
    #[error("the graph ends at byte {position}, before its totals: it was cut after {nodes} nodes")]
    Cut {
        /// Where.
        position: u64,
        /// Nodes read until then.
        nodes: u64,
    },
    /// A record is not what may stand there.
    #[error("graph record at byte {position} (after {nodes} nodes): {what}")]
    Record {
        /// Where the record starts.
        position: u64,
        /// Nodes read until then.
        nodes: u64,
        /// What is wrong.
        what: String,
    },
}

impl<W: Write> GraphWriter<W> {
    /// Starts a file with its head.
    ///
    /// # Errors
    /// [`GraphError::Io`] when writing fails.
    pub fn new(output: W, head: &Head) -> Result<Self, GraphError> {
        let mut writer = Self { output, totals: Totals::default(), buffer: Vec::new() };
        writer.output.write_all(&MAGIC).map_err(|source| GraphError::Io { position: 0, source })?;
        writer.write(&Record::head(head, FORMAT_VERSION))?;
        Ok(writer)
    }

    /// Writes the next node; its id must be the number of nodes written before.
    ///
    /// # Errors
    /// [`GraphError::Record`] when the id is another or the node waits for one that is not before it,
    /// [`GraphError::Io`] when writing fails.
    pub fn node(&mut self, node: &Node) -> Result<(), GraphError> {
        check_order(node, self.totals.nodes).map_err(|what| self.fault(what))?;
        if !node.after.is_sorted_by(|a, b| a < b) || node.planned_end < node.planned_start {
            return Err(
                self.fault(format!("node {} has unordered dependencies or ends before it starts", node.id.0))
            );
        }
        self.totals.add(node);
        self.write(&Record::node(node))
    }

    /// Ends the file with its totals.
    ///
    /// # Errors
    /// [`GraphError::Io`] when writing fails.
    pub fn finish(mut self) -> Result<(W, Totals), GraphError> {
        self.write(&Record::totals(&self.totals.clone()))?;
        self.output.flush().map_err(|source| GraphError::Io { position: 0, source })?;
        Ok((self.output, self.totals))
    }

    fn write(&mut self, record: &Record) -> Result<(), GraphError> {
        self.buffer.clear();
        record.encode_length_delimited(&mut self.buffer).expect("a Vec grows as far as the record needs");
        self.output.write_all(&self.buffer).map_err(|source| GraphError::Io { position: 0, source })
    }

    fn fault(&self, what: String) -> GraphError {
        GraphError::Record { position: 0, nodes: self.totals.nodes, what }
    }
}

impl<R: BufRead> GraphReader<R> {
    /// Reads the head and checks the version.
    ///
    /// # Errors
    /// [`GraphError`] when the file is not a graph of this version.
    pub fn new(mut input: R) -> Result<Self, GraphError> {
        let mut found = Vec::with_capacity(MAGIC.len());
        for _ in 0..MAGIC.len() {
            match next_byte(&mut input, 0)? {
                Some(byte) => found.push(byte),
                None => break,
            }
        }
        if found != MAGIC {
            return Err(GraphError::Magic { found });
        }
        let head = Head { host: HostId(0), plan_digest: String::new() };
        let mut reader =
            Self { input, head, position: 8, seen: Totals::default(), buffer: Vec::new(), ended: false };
        let start = reader.position;
        match reader.record()? {
            Body::Head(head) if head.format_version != FORMAT_VERSION => {
                Err(GraphError::Version { found: head.format_version })
            }
            Body::Head(head) => {
                reader.head = Head { host: HostId(head.host), plan_digest: head.plan_digest };
                Ok(reader)
            }
            Body::Node(_) | Body::Totals(_) => Err(reader.fault(start, "the head is missing")),
        }
    }

    /// Whose graph it is.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The next node; `None` once the totals were read and agree with the nodes.
    ///
    /// # Errors
    /// [`GraphError`] when the file is cut or damaged.
    pub fn node(&mut self) -> Result<Option<Node>, GraphError> {
        if self.ended {
            return Ok(None);
        }
        let start = self.position;
        match self.record()? {
            Body::Node(record) => {
                let node = Node::try_from(record).map_err(|fault| self.fault(start, fault.0))?;
                check_order(&node, self.seen.nodes).map_err(|what| self.fault(start, what))?;
                self.seen.add(&node);
                Ok(Some(node))
            }
            Body::Totals(record) => {
                if Totals::from(record) != self.seen {
                    return Err(self.fault(start, "the totals differ from the nodes before them"));
                }
                if next_byte(&mut self.input, self.position)?.is_some() {
                    return Err(self.fault(start, "something stands behind the totals"));
                }
                self.ended = true;
                Ok(None)
            }
            Body::Head(_) => Err(self.fault(start, "a second head")),
        }
    }

    /// What was read so far; the whole file's once [`Self::node`] has returned `None`.
    pub const fn totals(&self) -> &Totals {
        &self.seen
    }

    fn record(&mut self) -> Result<Body, GraphError> {
        let start = self.position;
        let length = self.length()?;
        if length > MAX_RECORD_BYTES {
            return Err(
                self.fault(start, format!("a record of {length} bytes; the most is {MAX_RECORD_BYTES}"))
            );
        }
        self.buffer.clear();
        while self.buffer.len() < length {
            let available =
                self.input.fill_buf().map_err(|source| GraphError::Io { position: start, source })?;
            if available.is_empty() {
                return Err(GraphError::Cut { position: self.position, nodes: self.seen.nodes });
            }
            let taken = available.len().min(length - self.buffer.len());
            self.buffer.extend_from_slice(&available[..taken]);
            self.input.consume(taken);
            self.position += taken as u64;
        }
        let record =
            Record::decode(self.buffer.as_slice()).map_err(|error| self.fault(start, error.to_string()))?;
        record.body.ok_or_else(|| self.fault(start, "an empty record"))
    }

    /// A varint of at most five bytes.
    fn length(&mut self) -> Result<usize, GraphError> {
        let start = self.position;
        let mut length = 0_usize;
        for shift in [0, 7, 14, 21, 28] {
            let byte = next_byte(&mut self.input, self.position)?
                .ok_or(GraphError::Cut { position: self.position, nodes: self.seen.nodes })?;
            self.position += 1;
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(length);
            }
        }
        Err(self.fault(start, "a record length of more than five bytes"))
    }

    fn fault(&self, position: u64, what: impl Into<String>) -> GraphError {
        GraphError::Record { position, nodes: self.seen.nodes, what: what.into() }
    }
}

impl<R: BufRead> Iterator for GraphReader<R> {
    type Item = Result<Node, GraphError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.node().transpose();
        self.ended |= matches!(item, Some(Err(_)));
        item
    }
}

fn next_byte(input: &mut impl BufRead, position: u64) -> Result<Option<u8>, GraphError> {
    let available = input.fill_buf().map_err(|source| GraphError::Io { position, source })?;
    let Some(&byte) = available.first() else { return Ok(None) };
    input.consume(1);
    Ok(Some(byte))
}

fn check_order(node: &Node, expected: u64) -> Result<(), String> {
    if node.id != NodeId(expected) {
        return Err(format!("node {} where {expected} should be", node.id.0));
    }
    match node.after.last() {
        Some(last) if *last >= node.id => {
            Err(format!("node {} waits for {}, which is not before it", node.id.0, last.0))
        }
        _ => Ok(()),
    }
}

/// More than the largest node needs: a join that waits for 100,000 messages.
const MAX_RECORD_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::{Message, Purpose, Task, Work};
    use crate::id::{GroupId, MessageId, QueuePairId, Rank};
    use crate::origin::{Class, Operation, Origin, Phase};
    use crate::unit::{Bytes, Nanos};

    fn written(nodes: &[Node]) -> Vec<u8> {
        let head = Head { host: HostId(3), plan_digest: "d1".to_owned() };
        let mut writer = GraphWriter::new(Vec::new(), &head).unwrap();
        for node in nodes {
            writer.node(node).unwrap();
        }
        writer.finish().unwrap().0
    }

    fn read(bytes: &[u8]) -> Result<Vec<Node>, GraphError> {
        GraphReader::new(bytes)?.collect()
    }

    fn origins() -> impl Strategy<Value = Origin> {
        let place = (any::<u32>(), any::<Option<u32>>(), any::<Option<u32>>(), 1_u32..4, 1_u32..23, 1_u32..8);
        (place, any::<[u32; 5]>()).prop_map(|((step, microbatch, layer, phase, class, operation), rest)| {
            Origin {
                step,
                microbatch,
                layer,
                phase: Phase::from_number(phase).unwrap(),
                class: Class::from_number(class).unwrap(),
                operation: Operation::from_number(operation).unwrap(),
                group: GroupId(rest[0]),
                instance: rest[1],
                collective_step: rest[2],
                channel: rest[3],
                slice: rest[4],
            }
        })
    }

    fn works() -> impl Strategy<Value = Work> {
        let message = (
            any::<u64>(),
            any::<u32>(),
            0..1_u64 << 31,
            any::<Option<u32>>(),
            0..1_u32 << 24,
            any::<u64>(),
            any::<u64>(),
            origins(),
        )
            .prop_map(|(id, receiver, bytes, immediate, first_psn, address, offset, origin)| Message {
                id: MessageId::from_u64(id),
                receiver: QueuePairId(receiver),
                bytes: Bytes(bytes),
                offset: Bytes(offset),
                immediate,
                first_psn,
                address,
                origin,
            });
        let purpose = (any::<u32>(), any::<Option<u32>>(), any::<Option<u32>>())
            .prop_map(|(step, microbatch, layer)| Purpose { step, microbatch, layer, task: Task::Backward });
        prop_oneof![
            (any::<u64>(), purpose)
                .prop_map(|(duration, purpose)| Work::Compute { duration: Nanos(duration), purpose }),
            (any::<u64>(), origins())
                .prop_map(|(payload, origin)| Work::Join { payload: Bytes(payload), origin }),
            (any::<u64>(), any::<u64>(), origins()).prop_map(|(bytes, duration, origin)| Work::Local {
                bytes: Bytes(bytes),
                duration: Nanos(duration),
                origin
            }),
            (message, any::<bool>()).prop_map(|(message, sent)| if sent {
                Work::Send(message)
            } else {
                Work::Receive(message)
            }),
        ]
    }

    fn graphs() -> impl Strategy<Value = Vec<Node>> {
        prop::collection::vec(
            (works(), any::<u32>(), any::<[u16; 3]>(), 0..1_u64 << 40, 0..1_u64 << 40),
            0..20,
        )
        .prop_map(|nodes| {
            nodes
                .into_iter()
                .zip(0_u64..)
                .map(|((work, rank, after, start, length), id)| {
                    let mut after: Vec<_> =
                        after.iter().filter(|_| id > 0).map(|&a| NodeId(u64::from(a) % id.max(1))).collect();
                    after.sort_unstable();
                    after.dedup();
                    let planned_start = Nanos(start);
                    Node {
                        id: NodeId(id),
                        rank: Rank(rank),
                        after,
                        work,
                        planned_start,
                        planned_end: Nanos(start + length),
                    }
                })
                .collect()
        })
    }

    fn compute(id: u64, after: &[u64]) -> Node {
        Node {
            id: NodeId(id),
            rank: Rank(0),
            after: after.iter().map(|&id| NodeId(id)).collect(),
            work: Work::Compute {
                duration: Nanos(5),
                purpose: Purpose { step: 0, microbatch: None, layer: None, task: Task::Optimizer },
            },
            planned_start: Nanos(0),
            planned_end: Nanos(5),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(nodes in graphs()) {
            let bytes = written(&nodes);
            let mut reader = GraphReader::new(bytes.as_slice()).unwrap();
            prop_assert_eq!(reader.head().host, HostId(3));
            prop_assert_eq!(reader.by_ref().collect::<Result<Vec<_>, _>>().unwrap(), nodes);
        }

        #[test]
        fn a_cut_graph_is_noticed_wherever_it_is_cut(nodes in graphs(), cut in any::<prop::sample::Index>()) {
            let bytes = written(&nodes);
            prop_assert!(read(&bytes[..cut.index(bytes.len())]).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_refused_and_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read(&bytes).is_err());
            prop_assert!(read(&[&MAGIC, bytes.as_slice()].concat()).is_err());
        }
    }

    #[test]
    fn a_compute_node_takes_eleven_bytes() {
        let empty = written(&[]).len();
        let count_in_totals = 2;
        assert_eq!(written(&[compute(0, &[])]).len() - empty, 11 + count_in_totals);
    }

    #[test]
    fn a_node_that_waits_for_itself_is_not_written() {
        let head = Head { host: HostId(0), plan_digest: String::new() };
        let mut writer = GraphWriter::new(Vec::new(), &head).unwrap();
        let error = writer.node(&compute(0, &[0])).unwrap_err().to_string();
        assert!(error.contains("node 0 waits for 0, which is not before it"), "{error}");
        assert!(writer.node(&compute(1, &[])).is_err(), "the first node is node 0");
    }

    #[test]
    fn another_file_is_named_by_its_first_bytes() {
        let error = read(b"\xd4\xc3\xb2\xa1abcdefgh").unwrap_err().to_string();
        assert!(error.starts_with("not a graph file: it starts with [d4, c3, b2, a1"), "{error}");
    }

    #[test]
    fn bytes_behind_the_totals_are_refused() {
        let mut bytes = written(&[compute(0, &[])]);
        bytes.push(0);
        assert!(read(&bytes).unwrap_err().to_string().contains("something stands behind the totals"));
    }
}
