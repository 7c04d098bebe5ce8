//! Dependency replay: the host's graph, executed over reliable connections.
//!
//! Compute and local copies end when their time is over, whenever that is noticed, so one late wake-up does not shift
//! what follows: the next node begins at the instant at which it should. What a late wake-up costs shows as lateness
//! of the frames that it delayed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use traces::graph::{Message, Node, Work};
use traces::id::NodeId;
use traces::origin::Class;
use traces::unit::Nanos;
use traces::wire::aeth::Aeth;
use traces::wire::bth::Bth;
use traces::wire::opcode::{Operation, Role};

use super::directory::Directory;
use super::graph::Graph;
use super::inbox::Inbox;
use super::operations::Operations;
use super::sender::Outgoing;
use super::setup::Setup;
use super::transport::Transport;
use super::{Burst, Fault, Next, NodeIdText, Progress, blank};
use crate::measure::{Arrived, Meter};
use crate::outcome::{End, HostOutcome, Mode, SamplesError};

/// An engine that executes a graph.
#[derive(Debug)]
pub(super) struct Dependency {
    directory: Directory,
    graph: Graph,
    /// Nodes that wait for nothing any more.
    ready: VecDeque<NodeId>,
    /// Ends of compute and local copies.
    ends: BinaryHeap<Reverse<(Nanos, NodeId)>>,
    transport: Transport,
    /// By queue pair.
    inboxes: Vec<Inbox>,
    meter: Meter,
    operations: Operations,
    fed_all: bool,
    last_arrival: Nanos,
    last_progress: Nanos,
    finished: Option<Nanos>,
    stopped: Option<Nanos>,
    fault: Option<Fault>,
}

impl Dependency {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            directory: Directory::new(&setup),
            graph: Graph::new(setup.start, setup.limits.held),
            ready: VecDeque::new(),
            ends: BinaryHeap::new(),
            inboxes: setup.queue_pairs.iter().map(|_| Inbox::default()).collect(),
            meter: setup.meter(),
            operations: Operations::default(),
            fed_all: false,
            last_arrival: setup.start,
            last_progress: setup.start,
            finished: None,
            stopped: None,
            fault: None,
            transport: Transport::new(setup),
        }
    }

    pub(super) fn wants(&self) -> bool {
        !self.fed_all && self.stopped.is_none() && self.fault.is_none() && self.graph.has_room()
    }

    pub(super) fn feed(&mut self, now: Nanos, node: &Node) -> Result<(), Fault> {
        let outcome = self.check(node).and_then(|()| self.graph.add(node));
        match outcome {
            Ok(true) => self.ready.push_back(node.id),
            Ok(false) => {}
            Err(what) => {
                let fault = Fault::Graph { node: NodeIdText(node.id), what };
                self.fail(now, fault.clone());
                return Err(fault);
            }
        }
        Ok(())
    }

    pub(super) const fn end_of_input(&mut self) {
        self.fed_all = true;
    }

    pub(super) fn poll(&mut self, now: Nanos, buffer: &mut [u8]) -> Next {
        if self.fault.is_some() {
            return Next::Done;
        }
        let start = self.setup().start;
        if now < start {
            return Next::Wait(start);
        }
        if self.stopped.is_none() {
            self.run(now);
        }
        match self.next_burst(now, buffer) {
            Ok(Some(burst)) => Next::Send(burst),
            Ok(None) if self.fault.is_none() => self.rest(now),
            Ok(None) => Next::Done,
            Err(fault) => {
                self.fail(now, fault);
                Next::Done
            }
        }
    }

    pub(super) fn on_arrival(&mut self, now: Nanos, nic: usize, bytes: &[u8], ecn: u8) {
        let setup = self.transport.setup();
        let Some(admitted) = self.directory.admit(setup, &mut self.meter, now, nic, (bytes, ecn)) else {
            return;
        };
        let (flow, bth) = (admitted.flow, admitted.packet.bth);
        self.last_arrival = now;
        let Some(shape) = admitted.shape else { return };
        match (shape.role, shape.operation) {
            (Role::Request, Operation::Write | Operation::Send) => {
                let (stamp, sizes) = (admitted.stamp, admitted.sizes);
                let class = if stamp.is_none() { self.expected_class(flow) } else { None };
                let taken = self.transport.take(flow, &bth, shape.place);
                self.meter.arrived(now, &Arrived { flow, sizes, stamp, class, novelty: taken.novelty });
                if let Some(number) = taken.completes {
                    if let Some(entry) = self.inboxes[flow].entry(number) {
                        entry.arrived = Some(now);
                    }
                    self.deliver(flow, number);
                    // What it set free begins now, not when the next poll comes.
                    self.run(now);
                }
            }
            (Role::Response, Operation::Acknowledge) => {
                if let Some(aeth) = admitted.packet.extensions.aeth {
                    self.acknowledged(now, flow, &bth, aeth);
                }
            }
            _ => {}
        }
    }

    pub(super) fn stop(&mut self, now: Nanos) {
        self.stopped.get_or_insert(now);
        self.transport.silence();
    }

    pub(super) const fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    pub(super) fn progress(&mut self) -> Progress {
        let mut progress = Progress {
            done: self.graph.complete_nodes(),
            fed: self.graph.read(),
            finished: self.finished.is_some(),
            ..Progress::default()
        };
        for nic in 0..self.setup().nics.len() {
            if let Some(counts) = self.meter.nic(nic) {
                progress.payload_bytes_sent += counts.payload_bytes_sent;
                progress.payload_bytes_received += counts.payload_bytes_received;
            }
        }
        progress
    }

    pub(super) const fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    pub(super) fn outcome(&self, now: Nanos) -> Result<HostOutcome, SamplesError> {
        let end = match (&self.fault, self.finished) {
            (Some(fault), _) => End::Fault { what: fault.to_string() },
            (None, Some(_)) => End::Complete,
            (None, None) => End::Stopped,
        };
        let mut outcome = blank(self.setup(), Mode::Dependency, end);
        outcome.end_ns = self.finished.or(self.stopped).unwrap_or(now).0;
        outcome.nodes_complete = self.graph.complete_nodes();
        outcome.nodes_read = self.graph.read();
        self.meter.report(&mut outcome)?;
        self.operations.report(&mut outcome);
        Ok(outcome)
    }

    fn check(&self, node: &Node) -> Result<(), &'static str> {
        match &node.work {
            Work::Send(message) => self
                .directory
                .place(message.id.sender)
                .map(|_| ())
                .ok_or("sends from a queue pair that the manifest does not give to this host"),
            Work::Receive(message) => match self.directory.place(message.receiver) {
                Some(place) if self.setup().queue_pairs[place].peer == message.id.sender => Ok(()),
                Some(_) => Err("receives from a queue pair that is not the peer of its own"),
                None => Err("receives at a queue pair that the manifest does not give to this host"),
            },
            Work::Compute { .. } | Work::Join { .. } | Work::Local { .. } => Ok(()),
        }
    }

    const fn setup(&self) -> &Setup {
        self.transport.setup()
    }

    fn next_burst(&mut self, now: Nanos, buffer: &mut [u8]) -> Result<Option<Burst>, Fault> {
        if self.fault.is_some() {
            return Ok(None);
        }
        if self.stopped.is_none() {
            self.transport.ring(now, &mut self.meter)?;
        }
        if let Some(burst) = self.transport.answer(now, &mut self.meter, buffer)? {
            return Ok(Some(burst));
        }
        if self.stopped.is_some() {
            return Ok(None);
        }
        self.transport.send(now, &mut self.meter, buffer)
    }

    /// Does all that takes no frames: nodes that are ready begin, and those whose time is over end.
    fn run(&mut self, now: Nanos) {
        loop {
            while let Some(node) = self.ready.pop_front() {
                self.begin(now, node);
            }
            match self.ends.peek() {
                Some(&Reverse((at, node))) if at <= now => {
                    self.ends.pop();
                    self.complete(node, at);
                }
                _ => break,
            }
        }
        if self.finished.is_none() && self.fed_all && self.graph.first().is_none() {
            self.finished = Some(self.last_progress.max(self.setup().start));
        }
    }

    fn begin(&mut self, now: Nanos, node: NodeId) {
        let Some(slot) = self.graph.get(node) else { return };
        let ready = slot.ready;
        match &slot.work {
            Work::Compute { duration, .. } => self.ends.push(Reverse((later(ready, *duration), node))),
            Work::Local { duration, origin, .. } => {
                self.operations.begins(slot, origin);
                self.ends.push(Reverse((later(ready, *duration), node)));
            }
            Work::Join { .. } => self.complete(node, ready),
            Work::Send(message) => {
                let message = *message;
                self.operations.begins(slot, &message.origin);
                self.stage(now, node, ready, &message);
            }
            Work::Receive(message) => {
                let (receiver, sequence) = (message.receiver, message.id.sequence);
                let entry = self.directory.place(receiver).and_then(|flow| {
                    let entry = self.inboxes[flow].entry(sequence)?;
                    entry.node.is_none().then(|| entry.node = Some(node))?;
                    Some(flow)
                });
                match entry {
                    Some(flow) => self.deliver(flow, sequence),
                    None => self.fail(
                        now,
                        Fault::Graph {
                            node: NodeIdText(node),
                            what: "receives a message that another node has received, or one much too early",
                        },
                    ),
                }
            }
        }
    }

    fn stage(&mut self, now: Nanos, node: NodeId, ready: Nanos, message: &Message) {
        let outgoing = Outgoing {
            node,
            bytes: message.bytes,
            immediate: message.immediate,
            address: message.address,
            class: message.origin.class,
            ready,
        };
        let flow = self.directory.place(message.id.sender);
        let sequence = message.id.sequence;
        if !flow.is_some_and(|flow| self.transport.stage(flow, sequence, outgoing)) {
            let what = "sends a message that another node has sent, or one much too early";
            self.fail(now, Fault::Graph { node: NodeIdText(node), what });
        }
    }

    /// Completes the node that waits for a message, when both are there.
    fn deliver(&mut self, flow: usize, number: u32) {
        let Some((node, at)) = self.inboxes[flow].take(number) else { return };
        let Some(slot) = self.graph.get(node) else { return };
        let Work::Receive(message) = &slot.work else { return };
        let at = at.max(slot.ready);
        self.operations.arrives(slot, &message.origin, at);
        self.meter.message_received(flow, Some(message.origin.class));
        self.complete(node, at);
    }

    /// The class of the message that a flow brings next, if the node that waits for it is ready.
    fn expected_class(&mut self, flow: usize) -> Option<Class> {
        let node = self.inboxes[flow].entry(self.transport.expects(flow))?.node?;
        Some(self.graph.get(node)?.work.origin()?.class)
    }

    fn complete(&mut self, node: NodeId, at: Nanos) {
        if let Some(slot) = self.graph.get(node) {
            match &slot.work {
                Work::Compute { purpose, .. } => self.operations.computed(slot, purpose, at),
                Work::Join { payload, origin } => self.operations.ends(slot, origin, *payload),
                Work::Local { .. } | Work::Send(_) | Work::Receive(_) => {}
            }
        }
        self.last_progress = self.last_progress.max(at);
        let ready = &mut self.ready;
        self.graph.complete(node, at, |node| ready.push_back(node));
    }

    fn acknowledged(&mut self, now: Nanos, flow: usize, bth: &Bth, aeth: Aeth) {
        let sent = self.meter.sender(flow);
        *if aeth.syndrome().is_ack() { &mut sent.acknowledgements } else { &mut sent.naks } += 1;
        let Self { transport, meter, graph, ready, last_progress, .. } = self;
        let answered = transport.on_answer(now, flow, bth.psn, aeth, |message| {
            meter.message_sent(flow, Some(message.class));
            meter.message_completed(message.class, message.ready, now);
            *last_progress = (*last_progress).max(now);
            graph.complete(message.node, now, |node| ready.push_back(node));
        });
        match answered {
            Ok(()) => self.run(now),
            Err(fault) => self.fail(now, fault),
        }
    }

    /// Nothing can be sent now: until when, or whether ever again.
    fn rest(&mut self, now: Nanos) -> Next {
        if let Some(stopped) = self.stopped {
            let end = later(stopped, STOP_DRAIN);
            return if now >= end { Next::Done } else { Next::Wait(end) };
        }
        if let Some(finished) = self.finished {
            let end = later(finished.max(self.last_arrival), self.setup().limits.drain);
            return if now >= end { Next::Done } else { Next::Wait(end) };
        }
        let end = self.ends.peek().map(|Reverse((at, _))| *at);
        if let Some(at) = [end, self.transport.alarm()].into_iter().flatten().min() {
            return Next::Wait(at);
        }
        let after = self.setup().limits.idle;
        let idle = later(self.last_arrival.max(self.last_progress), after);
        match self.graph.first() {
            Some(node) if now >= idle => {
                self.fail(now, Fault::Idle { after, node: NodeIdText(node) });
                Next::Done
            }
            _ => Next::Wait(idle.max(later(now, Nanos(1)))),
        }
    }

    fn fail(&mut self, now: Nanos, fault: Fault) {
        self.fault.get_or_insert(fault);
        self.stopped.get_or_insert(now);
    }
}

fn later(from: Nanos, by: Nanos) -> Nanos {
    Nanos(from.0.saturating_add(by.0))
}

/// How long a stopped host answers what is under way.
const STOP_DRAIN: Nanos = Nanos(50_000_000);
