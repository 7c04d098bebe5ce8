//! Lines: NICs serve their queue pairs, and frames fly to the port of their receiver.

use traces::id::{HostId, NicId, QueuePairId};
use traces::unit::Nanos;

use super::burst::{Burst, Content, Direction, Purpose};
use super::event::Event;
use super::handshake::Handshake;
use super::{Sink, Timeline, TimelineError};
use crate::fabric::{Fate, FrameId, FrameKind};

impl Timeline<'_> {
    /// The queue pair takes part in its NIC's round if it has a frame that may go, now or when it is no longer held.
    pub(super) fn activate(&mut self, sender: QueuePairId) {
        let cleared = self.cleared(sender);
        let requester = &mut self.requesters[sender.index()];
        if requester.active || requester.resumes || requester.due(cleared).is_none() {
            return;
        }
        let nic = self.network.pair(sender).nic;
        if requester.held_until > self.now {
            requester.resumes = true;
            let until = requester.held_until;
            self.at(until, Event::Resume(sender));
        } else {
            requester.active = true;
            self.ports[nic.index()].round.push_back(sender);
            self.serve_later(nic);
        }
    }

    /// How many messages of its connection the queue pair is cleared to send.
    fn cleared(&self, sender: QueuePairId) -> u32 {
        self.cleared[self.network.pair(sender).connection.index()]
    }

    pub(super) fn serve_later(&mut self, nic: NicId) {
        let port = &mut self.ports[nic.index()];
        if !port.serving {
            port.serving = true;
            let at = port.sends_from.max(self.now);
            self.at(at, Event::Serve(nic));
        }
    }

    /// Something is said: it goes before all data.
    pub(super) fn say(&mut self, sender: QueuePairId, content: Content) {
        let nic = self.network.pair(sender).nic;
        let content = match content {
            Content::Handshake(Handshake { step, .. }) => {
                Content::Handshake(Handshake { step, psn: self.datagram(nic) })
            }
            other => other,
        };
        self.ports[nic.index()].say(sender, content, self.plan.transport.coalesce);
        self.serve_later(nic);
    }

    /// A NIC's line is free: all that is to be said, or the next queue pair's turn.
    pub(super) fn serve<S: Sink>(&mut self, nic: NicId, sink: &mut S) -> Result<(), TimelineError<S::Error>> {
        let sayings = std::mem::take(&mut self.ports[nic.index()].sayings);
        if sayings.is_empty()
            && let Some(sender) = self.ports[nic.index()].round.pop_front()
        {
            self.turn(nic, sender, sink)?;
        }
        for (sender, content) in sayings {
            self.transmit(nic, sender, content, sink)?;
        }
        let port = &mut self.ports[nic.index()];
        port.serving = false;
        if !(port.round.is_empty() && port.sayings.is_empty()) {
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
        let cleared = self.cleared(sender);
        let requester = &mut self.requesters[sender.index()];
        requester.active = false;
        let Some(due) = requester.due(cleared).filter(|_| requester.held_until <= self.now) else {
            self.activate(sender);
            return Ok(());
        };
        // Under a limit frames go one by one, so that they keep their distance.
        let quantum = if requester.reaction.is_some() { 1 } else { u64::from(self.plan.fabric.quantum) };
        let repeats = requester.repeats();
        let count = due.left.min(quantum).min(if repeats > 0 { repeats } else { u64::MAX });
        requester.advance(count);
        if due.first == 0
            && repeats == 0
            && let Some(node) = due.request.node
        {
            let (host, now) = (self.host_of(sender), self.now);
            if let Some(node) = self.hosts[host.index()].node(node) {
                node.planned_start = now;
            }
        }
        let carried = due.request.carried;
        let content = Content::Data { carried, first: due.first, count, again: repeats > 0 };
        self.transmit(nic, sender, content, sink)?;
        self.after_turn(nic, sender, &content);
        self.activate(sender);
        Ok(())
    }

    /// What a queue pair's turn costs it: time until the next one under a limit, and patience.
    fn after_turn(&mut self, nic: NicId, sender: QueuePairId, content: &Content) {
        let (now, link) = (self.now, self.plan.cluster.link);
        let requester = &mut self.requesters[sender.index()];
        if let Some(reaction) = &mut requester.reaction {
            let bytes = content.line_bytes(self.encapsulation);
            let started = Nanos(self.ports[nic.index()].sends_from.0.saturating_sub(link.time_of(bytes).0));
            requester.held_until = started + reaction.rate(now).time_of(bytes);
            reaction.on_sent(now, bytes);
            if reaction.is_recovered(now) {
                requester.reaction = None;
            }
        }
        if !self.trouble.is_quiet() {
            let until = self.ports[nic.index()].sends_from + self.plan.transport.timeout.duration();
            requester.deadline.get_or_insert(until);
            self.watch(sender);
        }
    }

    /// Puts a burst on a NIC's line, and lets what the network leaves of it fly to the other end.
    fn transmit<S: Sink>(
        &mut self,
        nic: NicId,
        sender: QueuePairId,
        content: Content,
        sink: &mut S,
    ) -> Result<(), TimelineError<S::Error>> {
        let link = self.plan.cluster.link;
        let duration = link.time_of(content.line_bytes(self.encapsulation));
        let port = &mut self.ports[nic.index()];
        let start = port.sends_from.max(self.now);
        port.sends_from = start + duration;
        let identification = port.identify(content.frames());
        let burst =
            Burst { start, direction: Direction::Sent, sender, identification, marked: false, content };
        sink.burst(nic, burst).map_err(TimelineError::Sink)?;
        if let Content::Notification(..) = content {
            let interval = self.plan.transport.profile.notification.interval;
            self.responder_at(sender).notifications.on_sent(start, interval);
        }
        if self.trouble.touches(sender) {
            self.pass_through(nic, &burst);
        } else {
            self.fly(nic, burst, duration, Nanos::ZERO);
        }
        Ok(())
    }

    /// What trouble leaves of a burst: stretches of frames that share a fate.
    fn pass_through(&mut self, nic: NicId, burst: &Burst) {
        let starts: Vec<_> = burst.content.starts(self.encapsulation, self.plan.cluster.link).collect();
        let mut stretch: Option<(u64, u64, Fate)> = None;
        for (index, start) in (0..burst.content.frames()).zip(starts.iter().copied()) {
            let identity = self.identity(burst, index, burst.start + start);
            let fate = identity.map_or_else(Fate::default, |frame| self.trouble.fate(&frame));
            if let Some((_, count, shared)) = &mut stretch
                && *shared == fate
            {
                *count += 1;
            } else if let Some((skip, count, shared)) = stretch.replace((index, 1, fate)) {
                self.leave(nic, burst, (skip, count), shared, &starts);
            }
        }
        if let Some((skip, count, shared)) = stretch {
            self.leave(nic, burst, (skip, count), shared, &starts);
        }
    }

    fn leave(&mut self, nic: NicId, burst: &Burst, (skip, count): (u64, u64), fate: Fate, starts: &[Nanos]) {
        if fate.lost {
            return;
        }
        let after = usize::try_from(skip).ok().and_then(|skip| starts.get(skip)).copied().unwrap_or_default();
        let part = burst.part(skip, count, after, fate.marked);
        let duration = self.plan.cluster.link.time_of(part.content.line_bytes(self.encapsulation));
        self.fly(nic, part, duration, fate.delay);
    }

    /// What trouble knows of a frame of a burst; handshakes have none.
    pub(super) fn identity(&self, burst: &Burst, index: u64, sent: Nanos) -> Option<FrameId> {
        let (sender, from) = (burst.sender, self.network.pair(burst.sender).nic);
        let to = self.network.pair(self.network.pair(sender).peer).nic;
        Some(match burst.content {
            Content::Data { carried, first, .. } => {
                let requester = &self.requesters[sender.index()];
                let place = requester.count_of(carried.segments.first) + first + index;
                let transmission = requester.transmission(place);
                let common = FrameId {
                    sender,
                    from,
                    to,
                    kind: FrameKind::Data,
                    class: carried.origin.class,
                    sequence: carried.sequence,
                    index: first + index,
                    transmission,
                    place,
                    sent,
                };
                match carried.purpose {
                    Purpose::Data { .. } => common,
                    Purpose::Clearance(_) => FrameId { kind: FrameKind::ClearToSend, ..common },
                }
            }
            Content::Answer { about, .. } => FrameId {
                sender,
                from,
                to,
                kind: FrameKind::Acknowledgement,
                class: about.class,
                sequence: about.sequence,
                index: about.index,
                transmission: about.repeated + 1,
                place: about.place,
                sent,
            },
            Content::Notification(sequence, class) => FrameId {
                sender,
                from,
                to,
                kind: FrameKind::Notification,
                class,
                sequence,
                index: 0,
                transmission: 1,
                place: sequence.into(),
                sent,
            },
            Content::Handshake(_) => return None,
        })
    }

    /// Lets a burst arrive at the other end; frames of a path keep their order, however long one is delayed.
    fn fly(&mut self, nic: NicId, burst: Burst, duration: Nanos, delay: Nanos) {
        let receiver = self.network.pair(self.network.pair(burst.sender).peer).nic;
        let mut arrival = burst.start + self.plan.fabric.latency + delay;
        if self.trouble.delays() {
            arrival = self.paths.arrival(nic, receiver, arrival);
        }
        self.ports[receiver.index()].incoming.insert((arrival, self.made), (burst, duration));
        self.at(arrival, Event::Arrive(receiver));
    }

    pub(super) fn host_of(&self, pair: QueuePairId) -> HostId {
        self.network.nic(self.network.pair(pair).nic).host
    }
}
