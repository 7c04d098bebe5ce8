//! Lines: NICs serve their queue pairs, frames arrive at ports, and are acknowledged.

use traces::id::{HostId, NicId, QueuePairId};
use traces::unit::{Bytes, Nanos};
use traces::wire::segment::{Segments, line_bytes};

use super::burst::{Burst, Content, Direction};
use super::event::Event;
use super::pair::Outgoing;
use super::port::Acknowledgement;
use super::{Sink, Timeline, TimelineError};
use crate::random::Stream;

impl Timeline<'_> {
    /// The queue pair has a message that may go: it takes part in its NIC's round.
    pub(super) fn activate(&mut self, sender: QueuePairId) {
        let pair = &mut self.pairs[sender.index()];
        if !pair.active && pair.ready.contains_key(&pair.next) {
            pair.active = true;
            let nic = self.network.pair(sender).nic;
            self.ports[nic.index()].round.push_back(sender);
            self.serve_later(nic);
        }
    }

    pub(super) fn serve_later(&mut self, nic: NicId) {
        let port = &mut self.ports[nic.index()];
        if !port.serving {
            port.serving = true;
            let at = port.sends_from.max(self.now);
            self.at(at, Event::Serve(nic));
        }
    }

    /// A NIC's line is free: all acknowledgements, or the next queue pair's turn.
    pub(super) fn serve<S: Sink>(&mut self, nic: NicId, sink: &mut S) -> Result<(), TimelineError<S::Error>> {
        let acknowledgements = std::mem::take(&mut self.ports[nic.index()].acknowledgements);
        if acknowledgements.is_empty()
            && let Some(sender) = self.ports[nic.index()].round.pop_front()
        {
            self.turn(nic, sender, sink)?;
        }
        for Acknowledgement { sender, psn, messages, completes } in acknowledgements {
            let content = Content::Acknowledge { psn, messages };
            self.transmit(nic, sender, content, completes, sink)?;
        }
        let port = &mut self.ports[nic.index()];
        port.serving = false;
        if !(port.round.is_empty() && port.acknowledgements.is_empty()) {
            self.serve_later(nic);
        }
        Ok(())
    }

    /// Frames of a queue pair's next message.
    fn turn<S: Sink>(
        &mut self,
        nic: NicId,
        sender: QueuePairId,
        sink: &mut S,
    ) -> Result<(), TimelineError<S::Error>> {
        let pair = &mut self.pairs[sender.index()];
        let Some(&Outgoing { node, segments, origin }) = pair.ready.get(&pair.next) else { return Ok(()) };
        let (sequence, first) = (pair.next, pair.gone);
        let count = (segments.frames() - first).min(u64::from(self.plan.fabric.quantum));
        pair.gone += count;
        if pair.gone == segments.frames() {
            pair.ready.remove(&sequence);
            pair.flying.push_back(node);
            pair.next = pair.next.wrapping_add(1);
            pair.gone = 0;
        }
        pair.active = pair.ready.contains_key(&pair.next);
        if pair.active {
            self.ports[nic.index()].round.push_back(sender);
        }
        if first == 0 {
            let (host, now) = (self.host_of(sender), self.now);
            if let Some(node) = self.hosts[host.index()].node(node) {
                node.planned_start = now;
            }
        }
        self.transmit(nic, sender, Content::Data { sequence, segments, first, count, origin }, false, sink)
    }

    /// Puts a burst on a NIC's line, and lets it arrive at the other end.
    fn transmit<S: Sink>(
        &mut self,
        nic: NicId,
        sender: QueuePairId,
        content: Content,
        completes: bool,
        sink: &mut S,
    ) -> Result<(), TimelineError<S::Error>> {
        let duration = self.duration(&content);
        let port = &mut self.ports[nic.index()];
        let start = port.sends_from.max(self.now);
        port.sends_from = start + duration;
        let identification = port.identify(content.frames());
        let burst = Burst { start, direction: Direction::Sent, sender, identification, content };
        sink.burst(nic, burst).map_err(TimelineError::Sink)?;
        let receiver = self.network.pair(self.network.pair(sender).peer).nic;
        let arrival = start + self.plan.fabric.latency;
        self.ports[receiver.index()].incoming.insert((arrival, self.made), (burst, completes, duration));
        self.at(arrival, Event::Arrive(receiver));
        Ok(())
    }

    /// The first frame of a burst is at the port of its receiver.
    pub(super) fn arrive<S: Sink>(
        &mut self,
        nic: NicId,
        sink: &mut S,
    ) -> Result<(), TimelineError<S::Error>> {
        let port = &mut self.ports[nic.index()];
        let Some((_, (mut burst, completes, duration))) = port.incoming.pop_first() else { return Ok(()) };
        burst.start = port.receives_from.max(self.now);
        burst.direction = Direction::Received;
        let end = burst.start + duration;
        port.receives_from = end;
        sink.burst(nic, burst).map_err(TimelineError::Sink)?;
        match burst.content {
            Content::Acknowledge { .. } if completes => {
                self.at(end, Event::Acknowledged(self.network.pair(burst.sender).peer));
            }
            Content::Acknowledge { .. } => {}
            Content::Data { sequence, segments, first, count, .. } => {
                if first == 0 {
                    self.pairs[burst.sender.index()].arriving(sequence).first = Some(burst.start);
                    let host = self.host_of(self.network.pair(burst.sender).peer);
                    let waiting = self.pairs[burst.sender.index()].arriving(sequence).node;
                    if let Some(node) = waiting.and_then(|node| self.hosts[host.index()].node(node)) {
                        node.planned_start = burst.start;
                    }
                }
                self.answer(nic, burst.sender, burst.start, (segments, first, count));
                if first + count == segments.frames() {
                    self.at(end, Event::Whole(burst.sender, sequence));
                }
            }
        }
        Ok(())
    }

    /// The acknowledgements that frames of a burst ask for.
    fn answer(
        &mut self,
        nic: NicId,
        sender: QueuePairId,
        start: Nanos,
        (segments, first, count): (Segments, u64, u64),
    ) {
        let receiver = self.network.pair(sender).peer;
        let delays = Stream::new(self.plan.seed, "acknowledgement delay", receiver.0.into());
        let mut bytes = Bytes::ZERO;
        for index in first..first + count {
            let Some(segment) = segments.get(index) else { continue };
            bytes += line_bytes(segment.frame_bytes(self.encapsulation));
            if !segment.ack_request {
                continue;
            }
            let completes = index + 1 == segments.frames();
            let pair = &mut self.pairs[sender.index()];
            if completes {
                pair.arrived = pair.arrived + 1;
            }
            let end = start + self.plan.cluster.link.time_of(bytes);
            let delay = LEAST_DELAY + Nanos(delays.below(DELAY_SPREAD.0, pair.acknowledgements));
            pair.acknowledgements += 1;
            let at = (end + delay).max(pair.acknowledged);
            pair.acknowledged = at;
            let messages = pair.arrived;
            let answer = Acknowledgement { sender: receiver, psn: segment.psn, messages, completes };
            self.at(at, Event::Acknowledge(nic, answer));
        }
    }

    fn duration(&self, content: &Content) -> Nanos {
        self.plan.cluster.link.time_of(content.line_bytes(self.encapsulation))
    }

    pub(super) fn host_of(&self, pair: QueuePairId) -> HostId {
        self.network.nic(self.network.pair(pair).nic).host
    }
}

/// From the end of a frame to its acknowledgement: a microsecond and up to another one, as NICs under load take
/// (an assumption; ConnectX's own time is not published).
const LEAST_DELAY: Nanos = Nanos(1_000);
const DELAY_SPREAD: Nanos = Nanos(1_000);
