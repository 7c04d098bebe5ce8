//! The judge: shares out the frames of all captures to the models of both ends, and keeps what they object to.

use std::collections::BTreeMap;
use std::net::IpAddr;

use traces::id::{NicId, QueuePairId};
use traces::manifest::Manifest;
use traces::unit::Nanos;
use traces::wire::opcode::Role;
use traces::wire::{ParsedFrame, Psn};

use super::message::Delivered;
use super::path::Path;
use super::requester::Requester;
use super::responder::Responder;

/// What is known of a trace before its first frame.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Both ends of all connections, by queue pair.
    pub(crate) ends: Vec<End>,
    /// The payload of a full frame.
    pub(crate) path_mtu: usize,
    /// Whether byte `i` of a message is `(167 i + 13) mod 256`.
    pub(crate) pattern: bool,
    /// Whether the network may lose frames.
    pub(crate) loss: bool,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) nic: NicId,
    pub(crate) address: IpAddr,
    pub(crate) peer: QueuePairId,
    pub(crate) number: u32,
    pub(crate) first_psn: Psn,
}

/// Which way a frame goes through the port that was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Sent,
    Received,
}

pub(crate) struct Judge {
    known: Known,
    /// The receiving end of a frame, by address and number.
    ends: BTreeMap<(IpAddr, u32), QueuePairId>,
    /// By the queue pair that requests.
    requesters: Vec<Requester>,
    responders: Vec<Responder>,
    /// By the queue pair that sends.
    paths: Vec<Path>,
    /// By NIC: the time of its last frame. Who has none is not captured.
    clocks: BTreeMap<NicId, Nanos>,
    objections: Vec<String>,
}

impl Known {
    /// What a manifest says.
    pub(crate) fn of(manifest: &Manifest, loss: bool) -> Self {
        let end = |pair: &traces::manifest::QueuePair| End {
            nic: pair.nic,
            address: manifest.nics[pair.nic.index()].addresses[0].parse().unwrap(),
            peer: pair.peer,
            number: pair.qpn,
            first_psn: Psn::new(pair.first_psn).unwrap(),
        };
        Self {
            ends: manifest.queue_pairs.iter().map(end).collect(),
            path_mtu: manifest.transport.path_mtu_bytes.try_into().unwrap(),
            pattern: manifest.transport.payload == "pattern",
            loss,
        }
    }
}

impl Judge {
    pub(crate) fn new(known: Known) -> Self {
        let ids = || (0..).map(QueuePairId);
        let responder = |end: &End| Responder::new(end.first_psn, known.path_mtu, known.pattern);
        Self {
            ends: known.ends.iter().zip(ids()).map(|(end, id)| ((end.address, end.number), id)).collect(),
            requesters: known.ends.iter().map(|end| Requester::new(end.first_psn, known.path_mtu)).collect(),
            responders: known.ends.iter().map(responder).collect(),
            paths: known.ends.iter().map(|_| Path::default()).collect(),
            clocks: BTreeMap::new(),
            objections: Vec::new(),
            known,
        }
    }

    /// The next frame of a NIC's capture.
    pub(crate) fn frame(&mut self, nic: NicId, number: u64, time: Nanos, frame: &ParsedFrame<'_>) {
        let before = self.clocks.insert(nic, time).unwrap_or(Nanos(0));
        let early = || format!("{} ns before the frame in front of it", before.0 - time.0);
        let ordered = if time < before { Err(early()) } else { Ok(()) };
        for what in [ordered, self.told(nic, time, frame)].into_iter().filter_map(Result::err) {
            let opcode = frame.bth.opcode().map_or("an unknown opcode", |opcode| opcode.name());
            self.objections.push(format!("{nic} frame {number}, {opcode} of PSN {}: {what}", frame.bth.psn));
        }
    }

    fn told(&mut self, nic: NicId, time: Nanos, frame: &ParsedFrame<'_>) -> Result<(), String> {
        let Some(opcode) = frame.bth.opcode() else { return Err("nobody understands it".to_owned()) };
        if opcode.shape().deth {
            // Datagrams of connection management are not of a connection.
            return Ok(());
        }
        let to = (frame.network.ip.destination(), frame.bth.destination.value());
        let Some(&to) = self.ends.get(&to) else {
            return Err(format!("no queue pair is {} at {}", to.1, to.0));
        };
        let receiver = self.known.ends[to.index()];
        let sender = self.known.ends[receiver.peer.index()];
        if frame.network.ip.source() != sender.address {
            return Err(format!(
                "from {}, but {} is the other end",
                frame.network.ip.source(),
                sender.address
            ));
        }
        let way = match (sender.nic == nic, receiver.nic == nic) {
            (true, false) => Way::Sent,
            (false, true) => Way::Received,
            _ => {
                return Err(format!("between {} and {}, which {nic} does not see", sender.nic, receiver.nic));
            }
        };
        let from = receiver.peer;
        match way {
            Way::Sent => self.paths[from.index()].sent(time, frame),
            Way::Received => self.paths[from.index()].received(time, frame),
        }
        match (opcode.shape().role, way) {
            (Role::Request, Way::Sent) => self.requesters[from.index()].request(time, frame),
            (Role::Request, Way::Received) => self.responders[from.index()].request(frame),
            (Role::Response, Way::Sent) => self.responders[to.index()].answer(frame),
            (Role::Response, Way::Received) => self.requesters[to.index()].answer(time, frame),
            (Role::Notification, Way::Sent) => self.responders[to.index()].notify(),
            (Role::Notification, Way::Received) => Ok(()),
        }
    }

    /// What was delivered to the peer of each queue pair, in order; or what is wrong with the trace.
    pub(crate) fn finish(self) -> Result<Vec<Vec<Delivered>>, Vec<String>> {
        let Self { known, requesters, responders, paths, clocks, mut objections, .. } = self;
        let captured = |end: &End| clocks.contains_key(&end.nic);
        let mut delivered = Vec::new();
        let ends = known.ends.iter().zip((0..).map(QueuePairId));
        for ((((sender, id), requester), responder), path) in ends.zip(requesters).zip(responders).zip(paths)
        {
            let receiver = &known.ends[sender.peer.index()];
            let mut object = |what| objections.push(format!("{id} to {}: {what}", sender.peer));
            if captured(sender) {
                requester.finish().unwrap_or_else(&mut object);
            }
            if captured(sender) && captured(receiver) {
                path.finish(known.loss).unwrap_or_else(&mut object);
            }
            match responder.finish() {
                Ok(messages) => delivered.push(messages),
                Err(what) => object(what),
            }
        }
        if objections.is_empty() { Ok(delivered) } else { Err(objections) }
    }
}
