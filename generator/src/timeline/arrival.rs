//! Arrivals: what a port's frames mean to the queue pairs that they go to, and what these say to it.

use traces::id::{NicId, QueuePairId};
use traces::origin::Class;
use traces::unit::{Bytes, Nanos};
use traces::wire::opcode::Operation;
use traces::wire::segment::Segment;
use traces::wire::{Psn, RnrTimer, Syndrome};

use super::burst::{About, Burst, Content, Direction};
use super::event::Event;
use super::responder::{Responder, Verdict};
use super::{Sink, Timeline, TimelineError};
use crate::fabric::{Notice, ReactionPoint};
use crate::random::Stream;

impl Timeline<'_> {
    /// The first frame of a burst is at the port of its receiver.
    pub(super) fn arrive<S: Sink>(
        &mut self,
        nic: NicId,
        sink: &mut S,
    ) -> Result<(), TimelineError<S::Error>> {
        let port = &mut self.ports[nic.index()];
        let Some((_, (mut burst, duration))) = port.incoming.pop_first() else { return Ok(()) };
        burst.start = port.receives_from.max(self.now);
        burst.direction = Direction::Received;
        let end = burst.start + duration;
        port.receives_from = end;
        let waited = Nanos(burst.start.0 - self.now.0);
        if self.trouble.marks_by_queue() && matches!(burst.content, Content::Data { .. }) {
            for part in self.marked_in_queue(&burst, waited) {
                self.take_in(nic, &part, end, sink)?;
            }
            return Ok(());
        }
        self.take_in(nic, &burst, end, sink)
    }

    /// A burst in parts, of which the queue before the port has marked some: it found what has waited so long.
    fn marked_in_queue(&self, burst: &Burst, waited: Nanos) -> Vec<Burst> {
        let link = self.plan.cluster.link;
        let waiting = u128::from(waited.0) * u128::from(link.bits_per_second()) / 8_000_000_000;
        let waiting = Bytes(u64::try_from(waiting).unwrap_or(u64::MAX));
        let starts = burst.content.starts(self.encapsulation, link);
        let mut parts: Vec<Burst> = Vec::new();
        for (index, start) in (0..burst.content.frames()).zip(starts) {
            let frame = self.identity(burst, index, burst.start + start);
            let marked =
                burst.marked || frame.is_some_and(|frame| self.trouble.marked_in_queue(&frame, waiting));
            match parts.last_mut() {
                Some(part) if part.marked == marked => {
                    let frames = part.content.frames();
                    part.content = burst.content.part(index - frames, frames + 1);
                }
                _ => parts.push(burst.part(index, 1, start, marked)),
            }
        }
        parts
    }

    /// Frames of a port: they are seen, and mean something to a queue pair.
    fn take_in<S: Sink>(
        &mut self,
        nic: NicId,
        burst: &Burst,
        end: Nanos,
        sink: &mut S,
    ) -> Result<(), TimelineError<S::Error>> {
        sink.burst(nic, *burst).map_err(TimelineError::Sink)?;
        let receiver = self.network.pair(burst.sender).peer;
        match burst.content {
            Content::Answer { syndrome, psn, .. } => self.at(end, Event::Answered(receiver, syndrome, psn)),
            Content::Notification(..) => self.at(end, Event::Notified(receiver)),
            Content::Handshake(handshake) => self.at(end, Event::Heard(receiver, handshake.step)),
            Content::Data { .. } => self.requests(receiver, burst),
        }
        Ok(())
    }

    /// Requests arrive: each is taken or refused, and answered if it asks for that.
    fn requests(&mut self, receiver: QueuePairId, burst: &Burst) {
        let Content::Data { carried, first, count, .. } = burst.content else { return };
        let base = self.requesters[burst.sender.index()].count_of(carried.segments.first);
        let link = self.plan.cluster.link;
        let ends = burst.content.starts(self.encapsulation, link).skip(1);
        let mut end = burst.start;
        for (index, after) in (first..first + count).zip(ends) {
            let Some(segment) = carried.segments.get(index) else { continue };
            let start = std::mem::replace(&mut end, burst.start + after);
            let frame = base + index;
            if burst.marked {
                self.notify(receiver, (start, end), carried.origin.class);
            }
            let identity =
                self.identity(burst, index - first, burst.start).filter(|_| needs_receive(&segment));
            let trouble = &self.trouble;
            let ready = |attempt| !identity.is_some_and(|frame| trouble.not_ready(&frame, attempt));
            let responder = &mut self.responders[burst.sender.index()];
            let verdict = responder.take(frame, segment.opcode.shape().place.ends(), ready);
            let (expected, messages) = (responder.expected(), responder.completed());
            if verdict == Verdict::Duplicate {
                responder.repeated += 1;
            }
            let about = About {
                sequence: carried.sequence,
                index,
                class: carried.origin.class,
                repeated: responder.repeated,
                place: responder.answers,
            };
            let answer = |syndrome, psn| Content::Answer { syndrome, psn, messages, about };
            let last = segment.psn + ahead(frame, expected);
            match verdict {
                Verdict::Taken => {
                    if index == 0 {
                        self.starts_arriving(burst.sender, carried.sequence, burst.start);
                    }
                    if index + 1 == carried.segments.frames() {
                        self.at(end, Event::Whole(burst.sender, carried.sequence));
                    }
                    if segment.ack_request {
                        let syndrome = self.plan.transport.profile.acknowledgement();
                        self.answer(receiver, end, answer(syndrome, segment.psn));
                    }
                }
                Verdict::Duplicate if segment.ack_request => {
                    // `last` is what is expected: one behind what is there.
                    let syndrome = self.plan.transport.profile.acknowledgement();
                    self.answer(receiver, end, answer(syndrome, back(last, 1)));
                }
                Verdict::Missing => {
                    let gap = ahead(expected, frame);
                    self.answer(receiver, end, answer(Syndrome::SequenceError, back(segment.psn, gap)));
                }
                Verdict::NotReady => {
                    let syndrome = Syndrome::not_ready(self.plan.transport.rnr_timer);
                    self.answer(receiver, end, answer(syndrome, segment.psn));
                }
                Verdict::Duplicate | Verdict::Dropped => {}
            }
        }
    }

    /// The first frame of a message is there: its receive begins, as planned times have it.
    fn starts_arriving(&mut self, sender: QueuePairId, sequence: u32, start: Nanos) {
        if !self.network.pair(sender).sends_data {
            return;
        }
        let host = self.host_of(self.network.pair(sender).peer);
        let arriving = self.inboxes[sender.index()].arriving(sequence);
        arriving.first = Some(start);
        if let Some(node) = arriving.node.and_then(|node| self.hosts[host.index()].node(node)) {
            node.planned_start = start;
        }
    }

    /// An answer to a request that has ended: it takes a NIC some time, and answers keep their order.
    fn answer(&mut self, sender: QueuePairId, end: Nanos, content: Content) {
        let at = end + self.delay(sender);
        let responder = self.responder_at(sender);
        let at = at.max(responder.answered);
        responder.answered = at;
        responder.answers += 1;
        self.at(at, Event::Say(sender, content));
    }

    /// A marked frame arrives from `start` to `end`: its sender is notified, unless it just was.
    fn notify(&mut self, sender: QueuePairId, (start, end): (Nanos, Nanos), class: Class) {
        let responder = self.responder_at(sender);
        if responder.notifications.on_marked(start) == Notice::Send {
            let content = Content::Notification(responder.notified, class);
            responder.notified += 1;
            let at = end + self.delay(sender);
            self.at(at, Event::Say(sender, content));
        }
    }

    /// From the end of a frame to what is said about it.
    fn delay(&mut self, sender: QueuePairId) -> Nanos {
        let delays = Stream::new(self.plan.seed, "acknowledgement delay", sender.0.into());
        let responder = self.responder_at(sender);
        let delay = LEAST_DELAY + Nanos(delays.below(DELAY_SPREAD.0, responder.drawn));
        responder.drawn += 1;
        delay
    }

    /// The responding side that a queue pair speaks for.
    pub(super) fn responder_at(&mut self, sender: QueuePairId) -> &mut Responder {
        &mut self.responders[self.network.pair(sender).peer.index()]
    }

    /// An answer to what a queue pair has sent.
    pub(super) fn answered(&mut self, sender: QueuePairId, syndrome: Syndrome, psn: Psn) {
        let requester = &mut self.requesters[sender.index()];
        let frame = requester.count_of(psn);
        let mut done = std::mem::take(&mut self.acknowledged);
        let news = requester.acknowledge(if syndrome.is_ack() { frame + 1 } else { frame }, &mut done);
        if news {
            let until = self.now + self.plan.transport.timeout.duration();
            requester.deadline = requester.is_waiting().then_some(until).filter(|_| !self.trouble.is_quiet());
        }
        match syndrome {
            Syndrome::ReceiverNotReady(_) => {
                requester.go_back(Some(frame));
                let wait = syndrome.timer().map_or(Nanos::ZERO, RnrTimer::wait);
                requester.held_until = self.now + wait;
                requester.deadline = None;
            }
            Syndrome::SequenceError => requester.go_back(Some(frame)),
            _ => {}
        }
        let host = self.host_of(sender);
        self.complete.extend(done.drain(..).map(|node| (host, node)));
        self.acknowledged = done;
        self.activate(sender);
    }

    /// A congestion notification for what a queue pair sends.
    pub(super) fn notified(&mut self, sender: QueuePairId) {
        let (now, link, parameters) = (self.now, self.plan.cluster.link, &self.plan.fabric.dcqcn);
        let requester = &mut self.requesters[sender.index()];
        requester.reaction.get_or_insert_with(|| Box::new(ReactionPoint::new(link, parameters))).on_cnp(now);
    }

    /// Looks after a queue pair's oldest frame, if nothing does yet.
    pub(super) fn watch(&mut self, sender: QueuePairId) {
        let requester = &mut self.requesters[sender.index()];
        if let Some(deadline) = requester.deadline.filter(|_| !requester.watched) {
            requester.watched = true;
            self.at(deadline, Event::Watch(sender));
        }
    }

    /// Whether the queue pair's oldest frame has been out for too long at `time`; otherwise it is looked after later.
    pub(super) fn expires(&mut self, sender: QueuePairId, time: Nanos) -> bool {
        let requester = &mut self.requesters[sender.index()];
        requester.watched = false;
        let expires = requester.deadline.is_some_and(|deadline| deadline <= time);
        if !expires {
            self.watch(sender);
        }
        expires
    }

    /// The queue pair's oldest frame is given up: all from there on is sent again. False when that was once too often.
    pub(super) fn time_out(&mut self, sender: QueuePairId) -> bool {
        let requester = &mut self.requesters[sender.index()];
        requester.deadline = None;
        if requester.retries >= self.plan.transport.retry_count {
            return false;
        }
        requester.retries += 1;
        requester.go_back(None);
        self.activate(sender);
        true
    }
}

/// Whether the responder needs memory that its application has posted: for all but plain WRITEs.
fn needs_receive(segment: &Segment) -> bool {
    let shape = segment.opcode.shape();
    match shape.operation {
        Operation::Send => shape.place.starts(),
        _ => shape.place.ends() && shape.immediate,
    }
}

/// From one frame to a later one; zero if it is not later.
fn ahead(from: u64, to: u64) -> u32 {
    u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX)
}

fn back(psn: Psn, frames: u32) -> Psn {
    Psn::wrapping(psn.value().wrapping_sub(frames))
}

/// From the end of a frame to its answer: a microsecond and up to another one, as NICs under load take
/// (an assumption; ConnectX's own time is not published).
const LEAST_DELAY: Nanos = Nanos(1_000);
const DELAY_SPREAD: Nanos = Nanos(1_000);
