//! Dependency replay: the host's graph, executed over reliable connections.
//!
//! Compute and local copies end when their time is over, whenever that is noticed, so one late wake-up does not shift
//! what follows: the next node begins at the instant at which it should. What a late wake-up costs shows as lateness
//! of the frames that it delayed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use traces::graph::{Message, Node, Work};
use traces::id::{NodeId, QueuePairId};
use traces::origin::Class;
use traces::unit::Nanos;
use traces::wire::aeth::Aeth;
use traces::wire::bth::Bth;
use traces::wire::extensions::Extensions;
use traces::wire::immediate::Immediate;
use traces::wire::opcode::{Opcode, Operation, Role};
use traces::wire::packet::Packet;
use traces::wire::reth::Reth;

use super::graph::Graph;
use super::operations::Operations;
use super::receiver::Receiver;
use super::sender::{Answered, Due, Outgoing, Sender};
use super::setup::{QueuePairEnd, Setup};
use super::turns::Turns;
use super::{Burst, Fault, Next, NodeIdText, Progress, packet};
use crate::measure::{Arrived, Departed, Meter};
use crate::outcome::{End, HostOutcome, Mode, SamplesError};
use crate::stamp::Stamp;

/// An engine that executes a graph.
#[derive(Debug)]
pub(super) struct Dependency {
    setup: Setup,
    graph: Graph,
    /// Nodes that wait for nothing any more.
    ready: VecDeque<NodeId>,
    /// Ends of compute and local copies.
    ends: BinaryHeap<Reverse<(Nanos, NodeId)>>,
    connections: Vec<Connection>,
    /// Ids of queue pairs, and (NIC, number) pairs, to their places; ascending.
    by_id: Vec<(QueuePairId, usize)>,
    by_number: Vec<((usize, u32), usize)>,
    answers: Turns,
    data: Turns,
    /// Frames that the first of `data` has sent in its turn.
    served: u32,
    /// Times to look at a connection's time-out; each armed connection stands once.
    alarms: BinaryHeap<Reverse<(Nanos, usize)>>,
    meter: Meter,
    operations: Operations,
    fed_all: bool,
    unacknowledged: usize,
    last_arrival: Nanos,
    last_progress: Nanos,
    finished: Option<Nanos>,
    stopped: Option<Nanos>,
    fault: Option<Fault>,
}

/// Both directions of a connection, at this end.
#[derive(Debug)]
struct Connection {
    end: QueuePairEnd,
    sender: Sender,
    receiver: Receiver,
    inbox: Inbox,
    armed: bool,
}

/// Messages by their number: when each arrived and which node waits for it, until both are known.
#[derive(Debug, Default)]
struct Inbox {
    base: u32,
    entries: VecDeque<Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    node: Option<NodeId>,
    arrived: Option<Nanos>,
    taken: bool,
}

impl Dependency {
    pub(super) fn new(setup: Setup) -> Self {
        let ends = &setup.queue_pairs;
        let mut by_id: Vec<_> = ends.iter().enumerate().map(|(place, end)| (end.id, place)).collect();
        by_id.sort_unstable();
        let numbered = |(place, end): (usize, &QueuePairEnd)| ((end.nic, end.number.value()), place);
        let mut by_number: Vec<_> = ends.iter().enumerate().map(numbered).collect();
        by_number.sort_unstable();
        let flows: Vec<_> = ends.iter().map(|end| (end.nic, end.id, end.peer)).collect();
        let connection = |end: &QueuePairEnd| Connection {
            end: *end,
            sender: Sender::new(end.first_psn, setup.path_mtu, setup.limits),
            receiver: Receiver::new(end.peer_first_psn),
            inbox: Inbox::default(),
            armed: false,
        };
        Self {
            graph: Graph::new(setup.start, setup.limits.held),
            ready: VecDeque::new(),
            ends: BinaryHeap::new(),
            connections: ends.iter().map(connection).collect(),
            by_id,
            by_number,
            answers: Turns::new(ends.len()),
            data: Turns::new(ends.len()),
            served: 0,
            alarms: BinaryHeap::with_capacity(ends.len()),
            meter: Meter::new(setup.start, setup.limits.bin, &setup.nics, &flows),
            operations: Operations::default(),
            fed_all: false,
            unacknowledged: 0,
            last_arrival: setup.start,
            last_progress: setup.start,
            finished: None,
            stopped: None,
            fault: None,
            setup,
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
        if now < self.setup.start {
            return Next::Wait(self.setup.start);
        }
        if self.stopped.is_none() {
            self.run(now);
            self.ring(now);
        }
        if self.fault.is_some() {
            return Next::Done;
        }
        if let Some(burst) = self.answer(now, buffer) {
            return Next::Send(burst);
        }
        if self.stopped.is_none()
            && let Some(burst) = self.send(now, buffer)
        {
            return Next::Send(burst);
        }
        if self.fault.is_some() { Next::Done } else { self.rest(now) }
    }

    pub(super) fn on_arrival(&mut self, now: Nanos, nic: usize, bytes: &[u8], ecn: u8) {
        let Ok(packet) = Packet::parse(bytes) else {
            if let Some(counts) = self.meter.nic(nic) {
                counts.malformed += 1;
            }
            return;
        };
        let key = (nic, packet.bth.destination.value());
        let place = self.by_number.binary_search_by_key(&key, |(number, _)| *number);
        let stamp = Stamp::parse(packet.payload);
        let ours = match stamp {
            Some(stamp) => stamp.run == self.setup.run,
            None => !self.setup.stamps || packet.payload_length < Stamp::LEN,
        };
        let (Ok(place), true) = (place, ours) else {
            if let Some(counts) = self.meter.nic(nic) {
                counts.unmatched += 1;
            }
            return;
        };
        let flow = self.by_number[place].1;
        let data = packet.payload_length;
        let sizes = packet::sizes(self.setup.encapsulation, bytes.len(), data);
        self.meter.arrives(now, flow, sizes, ecn & 3 == CONGESTION_EXPERIENCED);
        self.last_arrival = now;
        let shape = packet.bth.opcode().map(Opcode::shape);
        match shape.map(|shape| (shape.role, shape.operation)) {
            Some((Role::Request, Operation::Write | Operation::Send)) => {
                let Some(shape) = shape else { return };
                let class = if stamp.is_none() { self.expected_class(flow) } else { None };
                let taken =
                    self.connections[flow].receiver.take(packet.bth.psn, shape.place, packet.bth.ack_request);
                self.meter.arrived(now, &Arrived { flow, sizes, stamp, class, novelty: taken.novelty });
                if self.connections[flow].receiver.has_answer() {
                    self.answers.join(flow);
                }
                if let Some(number) = taken.completes {
                    let entry = self.connections[flow].inbox.entry(number);
                    if let Some(entry) = entry {
                        entry.arrived = Some(now);
                    }
                    self.deliver(flow, number);
                    // What it set free begins now, not when the next poll comes.
                    self.run(now);
                }
            }
            Some((Role::Response, Operation::Acknowledge)) => {
                if let Some(aeth) = packet.extensions.aeth {
                    self.acknowledged(now, flow, packet.bth, aeth);
                }
            }
            Some((Role::Notification, _)) => self.meter.nic_of(flow).congestion_notifications += 1,
            _ => {}
        }
    }

    pub(super) fn stop(&mut self, now: Nanos) {
        self.stopped.get_or_insert(now);
        self.data.clear();
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
        for nic in 0..self.setup.nics.len() {
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
        let mut outcome = super::blank(&self.setup, Mode::Dependency, end);
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
                .place(message.id.sender)
                .map(|_| ())
                .ok_or("sends from a queue pair that the manifest does not give to this host"),
            Work::Receive(message) => match self.place(message.receiver) {
                Some(place) if self.setup.queue_pairs[place].peer == message.id.sender => Ok(()),
                Some(_) => Err("receives from a queue pair that is not the peer of its own"),
                None => Err("receives at a queue pair that the manifest does not give to this host"),
            },
            Work::Compute { .. } | Work::Join { .. } | Work::Local { .. } => Ok(()),
        }
    }

    fn place(&self, id: QueuePairId) -> Option<usize> {
        let found = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.by_id[found].1)
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
        if self.finished.is_none() && self.fed_all && self.graph.first().is_none() && self.unacknowledged == 0
        {
            self.finished = Some(self.last_progress.max(self.setup.start));
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
                let entry = self.place(receiver).and_then(|flow| {
                    let entry = self.connections[flow].inbox.entry(sequence)?;
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
        let flow = self.place(message.id.sender);
        let staged = flow.filter(|&flow| self.connections[flow].sender.stage(message.id.sequence, outgoing));
        match staged {
            Some(flow) => {
                self.unacknowledged += 1;
                self.data.join(flow);
            }
            None => self.fail(
                now,
                Fault::Graph {
                    node: NodeIdText(node),
                    what: "sends a message that another node has sent, or one much too early",
                },
            ),
        }
    }

    /// Completes the node that waits for a message, when both are there.
    fn deliver(&mut self, flow: usize, number: u32) {
        let inbox = &mut self.connections[flow].inbox;
        let Some((node, at)) = inbox.take(number) else { return };
        let Some(slot) = self.graph.get(node) else { return };
        let Work::Receive(message) = &slot.work else { return };
        let at = at.max(slot.ready);
        self.operations.arrives(slot, &message.origin, at);
        self.meter.message_received(flow, Some(message.origin.class));
        self.complete(node, at);
    }

    /// The class of the message that a flow brings next, if the node that waits for it is ready.
    fn expected_class(&mut self, flow: usize) -> Option<Class> {
        let Connection { receiver, inbox, .. } = &mut self.connections[flow];
        let node = inbox.entry(receiver.messages())?.node?;
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

    fn acknowledged(&mut self, now: Nanos, flow: usize, bth: Bth, aeth: Aeth) {
        let Self { connections, meter, graph, ready, unacknowledged, last_progress, .. } = self;
        let connection = &mut connections[flow];
        let syndrome = aeth.syndrome();
        let answered = connection.sender.on_answer(now, bth.psn, syndrome, |message| {
            meter.message_sent(flow, Some(message.class));
            meter.message_completed(message.class, message.ready, now);
            *unacknowledged -= 1;
            *last_progress = (*last_progress).max(now);
            graph.complete(message.node, now, |node| ready.push_back(node));
        });
        let sent = self.meter.sender(flow);
        *if syndrome.is_ack() { &mut sent.acknowledgements } else { &mut sent.naks } += 1;
        match answered {
            Answered::Taken => self.data.join(flow),
            Answered::Old => {}
            Answered::Refused => {
                let sender = self.connections[flow].end.id;
                self.fail(now, Fault::Refused { sender, syndrome: aeth.syndrome });
            }
        }
        self.run(now);
    }

    /// Looks at connections whose time-out may be over.
    fn ring(&mut self, now: Nanos) {
        while let Some(&Reverse((at, flow))) = self.alarms.peek() {
            if at > now {
                break;
            }
            self.alarms.pop();
            let connection = &mut self.connections[flow];
            connection.armed = false;
            match connection.sender.deadline() {
                Some(deadline) if deadline <= now => {
                    let tries = connection.sender.time_out();
                    self.meter.sender(flow).timeouts += 1;
                    if tries > self.setup.limits.tries {
                        let sender = self.connections[flow].end.id;
                        self.fail(now, Fault::PeerSilent { sender, tries });
                        return;
                    }
                    self.data.join(flow);
                }
                _ => self.arm(flow),
            }
        }
    }

    fn arm(&mut self, flow: usize) {
        let connection = &mut self.connections[flow];
        if let Some(deadline) = connection.sender.deadline().filter(|_| !connection.armed) {
            connection.armed = true;
            self.alarms.push(Reverse((deadline, flow)));
        }
    }

    /// Writes the next acknowledgement.
    fn answer(&mut self, now: Nanos, buffer: &mut [u8]) -> Option<Burst> {
        loop {
            let flow = self.answers.first()?;
            let length = packet::length(Opcode::Acknowledge, 0);
            if !self.fits(now, buffer, length) {
                return None;
            }
            self.answers.leave();
            let connection = &mut self.connections[flow];
            let Some((psn, aeth)) = connection.receiver.answer() else { continue };
            let bth = Bth::new(Opcode::Acknowledge, connection.end.peer_number, psn);
            let bytes = packet::write_answer(&bth, &aeth, buffer);
            let sizes = packet::sizes(self.setup.encapsulation, bytes, 0);
            self.meter.answered(now, flow, sizes.frame, !aeth.syndrome().is_ack());
            return Some(Burst { flow, frames: 1, frame_bytes: bytes, bytes });
        }
    }

    /// Writes frames of the queue pair whose turn it is: equal in length but for a shorter last one.
    fn send(&mut self, now: Nanos, buffer: &mut [u8]) -> Option<Burst> {
        loop {
            let flow = self.data.first()?;
            let mut burst = Burst { flow, frames: 0, frame_bytes: 0, bytes: 0 };
            let most = u64::from(self.setup.limits.burst.max(1));
            while u64::try_from(burst.frames).unwrap_or(most) < most
                && self.served < self.setup.limits.quantum.max(1)
            {
                let Some(due) = self.connections[flow].sender.due() else { break };
                let length = packet::length(due.segment.opcode, usize::from(due.segment.payload));
                if burst.frames == 0 {
                    if !self.fits(now, buffer, length) {
                        return None;
                    }
                    burst.frame_bytes = length;
                }
                if length > burst.frame_bytes || burst.bytes + length > buffer.len().min(MOST_BURST) {
                    break;
                }
                self.write(now, flow, &due, &mut buffer[burst.bytes..]);
                self.connections[flow].sender.advance(now);
                self.served += 1;
                burst.frames += 1;
                burst.bytes += length;
                if length < burst.frame_bytes {
                    break;
                }
            }
            self.arm(flow);
            let more = self.connections[flow].sender.due().is_some();
            if !more || self.served >= self.setup.limits.quantum.max(1) {
                self.served = 0;
                self.data.leave();
                if more {
                    self.data.join(flow);
                }
            }
            if burst.frames > 0 {
                return Some(burst);
            }
        }
    }

    fn write(&mut self, now: Nanos, flow: usize, due: &Due, into: &mut [u8]) {
        let Due { message, segment, psn, ack_request, again } = *due;
        let end = self.connections[flow].end;
        let shape = segment.opcode.shape();
        let extensions = Extensions {
            reth: shape.reth.then(|| Reth {
                virtual_address: message.address,
                remote_key: end.peer_key,
                length: u32::try_from(message.bytes.0).unwrap_or(u32::MAX),
            }),
            immediate: message.immediate.filter(|_| shape.immediate).map(Immediate::from_u32),
            ..Extensions::default()
        };
        let mut bth = Bth::new(segment.opcode, end.peer_number, psn);
        bth.pad = segment.pad;
        bth.ack_request = ack_request;
        let stamped = self.setup.stamps && usize::from(segment.payload) >= Stamp::LEN;
        let stamp = stamped.then(|| Stamp {
            class: Some(message.class),
            run: self.setup.run,
            sequence: self.meter.next_sequence(flow),
            intended: message.ready,
            departure: now,
        });
        let content = packet::content(self.setup.payload, segment.offset, segment.payload);
        let udp = packet::write_data(&bth, segment.opcode, &extensions, stamp.as_ref(), content, into);
        let sizes = packet::sizes(self.setup.encapsulation, udp, content.len());
        let class = Some(message.class);
        let departed = Departed { flow, class, sizes, intended: message.ready, stamped, again };
        self.meter.departed(now, &departed);
    }

    fn fits(&mut self, now: Nanos, buffer: &[u8], needs: usize) -> bool {
        let fits = buffer.len() >= needs;
        if !fits {
            self.fail(now, Fault::Buffer { has: buffer.len(), needs });
        }
        fits
    }

    /// Nothing can be sent now: until when, or whether ever again.
    fn rest(&mut self, now: Nanos) -> Next {
        if let Some(stopped) = self.stopped {
            let end = later(stopped, STOP_DRAIN);
            return if now >= end { Next::Done } else { Next::Wait(end) };
        }
        if let Some(finished) = self.finished {
            let end = later(finished.max(self.last_arrival), self.setup.limits.drain);
            return if now >= end { Next::Done } else { Next::Wait(end) };
        }
        let end = self.ends.peek().map(|Reverse((at, _))| *at);
        let alarm = self.alarms.peek().map(|Reverse((at, _))| *at);
        if let Some(at) = [end, alarm].into_iter().flatten().min() {
            return Next::Wait(at);
        }
        let after = self.setup.limits.idle;
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

impl Inbox {
    /// The entry of a message that has not been taken.
    fn entry(&mut self, number: u32) -> Option<&mut Entry> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok().filter(|&index| index < FARTHEST)?;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, Entry::default());
        }
        self.entries.get_mut(index).filter(|entry| !entry.taken)
    }

    /// The node and the arrival of a message, once, when both are known.
    fn take(&mut self, number: u32) -> Option<(NodeId, Nanos)> {
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

fn later(from: Nanos, by: Nanos) -> Nanos {
    Nanos(from.0.saturating_add(by.0))
}

/// How long a stopped host answers what is under way.
const STOP_DRAIN: Nanos = Nanos(50_000_000);

/// The ECN field of a frame that a switch has marked (RFC 3168).
const CONGESTION_EXPERIENCED: u8 = 3;

/// A message may arrive, or be waited for, so far before its turn.
const FARTHEST: usize = 1 << 20;

/// The most that one UDP send takes: 65535 less IP and UDP headers.
const MOST_BURST: usize = 65_507 - 20;
