//! The sending half of a reliable connection: a window of frames, cumulative acknowledgements, go-back-N.
//!
//! Frames of the connection are numbered from zero without end ([`Sender`] calls that a position); the PSN on the wire
//! is the first PSN plus the position, on the circle of 2^24. A position that was passed before is a retransmission.
//! Rules: IBTA vol. 1, 9.7.5; go-back-N as ConnectX NICs do.

use std::collections::VecDeque;

use traces::id::NodeId;
use traces::origin::Class;
use traces::unit::{Bytes, Nanos};
use traces::wire::aeth::Syndrome;
use traces::wire::psn::Psn;
use traces::wire::segment::{AckCadence, PathMtu, Segment, Segments, Verb};

use super::setup::Limits;

/// What one queue pair sends.
#[derive(Debug)]
pub(super) struct Sender {
    first_psn: Psn,
    path_mtu: PathMtu,
    limits: Limits,
    /// Messages that are ready but not yet in order: the first is the `in_order`-th of the queue pair.
    staged: VecDeque<Option<Outgoing>>,
    in_order: u32,
    /// Messages in order that are not acknowledged, oldest first.
    active: VecDeque<Active>,
    /// The position after the last frame in order.
    end: u64,
    /// All before it is acknowledged.
    acknowledged: u64,
    /// What is sent next.
    next: u64,
    /// The position after the last that was ever sent.
    reached: u64,
    /// When an acknowledgement is overdue, while something is under way.
    deadline: Option<Nanos>,
    tries: u32,
}

/// A message to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) node: NodeId,
    pub(super) bytes: Bytes,
    pub(super) immediate: Option<u32>,
    pub(super) address: u64,
    pub(super) class: Class,
    /// When it became ready: the intended time of its frames.
    pub(super) ready: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Active {
    message: Outgoing,
    segments: Segments,
    start: u64,
    end: u64,
}

/// The frame to be sent next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) message: Outgoing,
    pub(super) segment: Segment,
    pub(super) psn: Psn,
    pub(super) ack_request: bool,
    pub(super) again: bool,
}

/// What an answer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// It acknowledges or asks for something again.
    Taken,
    /// It is about something that was answered before.
    Old,
    /// The peer refuses for good.
    Refused,
}

impl Sender {
    pub(super) fn new(first_psn: Psn, path_mtu: PathMtu, limits: Limits) -> Self {
        Self {
            first_psn,
            path_mtu,
            limits,
            staged: VecDeque::new(),
            in_order: 0,
            active: VecDeque::new(),
            end: 0,
            acknowledged: 0,
            next: 0,
            reached: 0,
            deadline: None,
            tries: 0,
        }
    }

    /// Takes the `sequence`-th message of the queue pair; whether its place was free. Messages go in sequence order.
    pub(super) fn stage(&mut self, sequence: u32, message: Outgoing) -> bool {
        let Some(index) = sequence.checked_sub(self.in_order).and_then(|index| usize::try_from(index).ok())
        else {
            return false;
        };
        if index >= FARTHEST {
            return false;
        }
        if index >= self.staged.len() {
            self.staged.resize(index + 1, None);
        }
        if self.staged[index].replace(message).is_some() {
            return false;
        }
        while let Some(Some(message)) = self.staged.front().copied() {
            self.staged.pop_front();
            self.in_order = self.in_order.wrapping_add(1);
            self.append(message);
        }
        true
    }

    fn append(&mut self, message: Outgoing) {
        let verb = if message.immediate.is_some() { Verb::WriteImmediate } else { Verb::Write };
        let first = self.psn(self.end);
        let segments = Segments {
            verb,
            bytes: message.bytes,
            path_mtu: self.path_mtu,
            first,
            acks: AckCadence::default(),
            closing: None,
        };
        let start = self.end;
        self.end += segments.frames();
        self.active.push_back(Active { message, segments, start, end: self.end });
    }

    /// The frame that may be sent now.
    pub(super) fn due(&self) -> Option<Due> {
        let window_end = self.acknowledged + u64::from(self.limits.window.max(1));
        if self.next >= self.end.min(window_end) {
            return None;
        }
        let index = self.active.partition_point(|active| active.end <= self.next);
        let active = self.active.get(index)?;
        let segment = active.segments.get(self.next - active.start)?;
        let every = u64::from(self.limits.acknowledge_every.min(self.limits.window / 2).max(1));
        Some(Due {
            message: active.message,
            segment,
            psn: segment.psn,
            ack_request: segment.ack_request || (self.next + 1).is_multiple_of(every),
            again: self.next < self.reached,
        })
    }

    /// The frame that was due is sent.
    pub(super) fn advance(&mut self, now: Nanos) {
        self.next += 1;
        self.reached = self.reached.max(self.next);
        if self.deadline.is_none() {
            self.deadline = Some(self.overdue(now));
        }
    }

    /// An answer of the peer came. `complete` is told each message that is acknowledged whole.
    pub(super) fn on_answer(
        &mut self,
        now: Nanos,
        psn: Psn,
        syndrome: Syndrome,
        mut complete: impl FnMut(&Outgoing),
    ) -> Answered {
        let oldest = self.psn(self.acknowledged);
        let steps = oldest.distance_to(psn);
        let position = u64::try_from(steps).ok().map(|steps| self.acknowledged + steps);
        match syndrome {
            Syndrome::Ack(_) => match position {
                Some(position) if position < self.reached => {
                    self.acknowledge(now, position + 1, &mut complete);
                    Answered::Taken
                }
                _ => Answered::Old,
            },
            Syndrome::SequenceError => match position {
                Some(position) if position < self.reached => {
                    self.acknowledge(now, position, &mut complete);
                    self.next = position;
                    self.deadline = None;
                    Answered::Taken
                }
                _ => Answered::Old,
            },
            // The peer is alive but wants time: the time-out sends again.
            Syndrome::ReceiverNotReady(_) | Syndrome::Other(_) => Answered::Old,
            Syndrome::InvalidRequest
            | Syndrome::RemoteAccess
            | Syndrome::RemoteOperational
            | Syndrome::InvalidDomain => Answered::Refused,
        }
    }

    fn acknowledge(&mut self, now: Nanos, until: u64, complete: &mut impl FnMut(&Outgoing)) {
        if until > self.acknowledged {
            self.acknowledged = until;
            self.tries = 0;
            self.next = self.next.max(until);
            self.deadline = (self.next > until).then(|| self.overdue(now));
        }
        while let Some(active) = self.active.front().filter(|active| active.end <= self.acknowledged) {
            complete(&active.message);
            self.active.pop_front();
        }
    }

    /// When an acknowledgement is overdue.
    pub(super) const fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    /// An acknowledgement is overdue: sends again from the oldest frame on. Returns the time-outs in a row.
    pub(super) fn time_out(&mut self) -> u32 {
        self.deadline = None;
        self.next = self.acknowledged;
        self.tries += 1;
        self.tries
    }

    fn overdue(&self, now: Nanos) -> Nanos {
        let doubled = self.limits.timeout.0.saturating_mul(1 << self.tries.min(32));
        Nanos(now.0.saturating_add(doubled.min(self.limits.longest_timeout.0)))
    }

    fn psn(&self, position: u64) -> Psn {
        // The circle has 2^24 numbers, so the position modulo that is enough, and fits.
        self.first_psn + u32::try_from(position % (1 << 24)).unwrap_or(0)
    }
}

/// A message may become ready so far before its turn.
const FARTHEST: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(window: u32) -> Sender {
        let limits = Limits { window, ..Limits::default() };
        Sender::new(Psn::wrapping(0x00ff_fffe), PathMtu::Mtu256, limits)
    }

    fn message(node: u64, bytes: u64) -> Outgoing {
        Outgoing {
            node: NodeId(node),
            bytes: Bytes(bytes),
            immediate: None,
            address: 0,
            class: Class::Loss,
            ready: Nanos(5),
        }
    }

    fn send_all(sender: &mut Sender) -> Vec<(u32, bool)> {
        let mut sent = Vec::new();
        while let Some(due) = sender.due() {
            sent.push((due.psn.value(), due.again));
            sender.advance(Nanos(100));
        }
        sent
    }

    #[test]
    fn messages_go_in_sequence_order_and_psns_wrap() {
        let mut sender = sender(100);
        assert!(sender.stage(1, message(7, 256)));
        assert_eq!(sender.due().map(|due| due.psn), None);
        assert!(sender.stage(0, message(8, 512)));
        assert!(!sender.stage(0, message(9, 1)), "its place is taken");
        assert_eq!(send_all(&mut sender), [(0x00ff_fffe, false), (0x00ff_ffff, false), (0, false)]);
    }

    #[test]
    fn a_cumulative_acknowledgement_completes_messages() {
        let mut sender = sender(100);
        sender.stage(0, message(3, 512));
        sender.stage(1, message(4, 0));
        send_all(&mut sender);
        let mut complete = Vec::new();
        let mut answer = |sender: &mut Sender, psn, syndrome| {
            sender
                .on_answer(Nanos(200), Psn::wrapping(psn), syndrome, |message| complete.push(message.node.0))
        };
        assert_eq!(answer(&mut sender, 1, Syndrome::UNLIMITED), Answered::Old, "it was never sent");
        assert_eq!(answer(&mut sender, 0x00ff_fffe, Syndrome::UNLIMITED), Answered::Taken);
        assert_eq!(answer(&mut sender, 0, Syndrome::UNLIMITED), Answered::Taken);
        assert_eq!(answer(&mut sender, 0x00ff_ffff, Syndrome::UNLIMITED), Answered::Old);
        assert_eq!(complete, [3, 4]);
        assert!(sender.active.is_empty() && sender.deadline().is_none());
    }

    #[test]
    fn a_sequence_error_goes_back_and_acknowledges_what_is_before() {
        let mut sender = sender(100);
        sender.stage(0, message(3, 1024));
        assert_eq!(send_all(&mut sender).len(), 4);
        sender.on_answer(Nanos(200), Psn::LAST, Syndrome::SequenceError, |_| panic!("nothing is complete"));
        assert_eq!(send_all(&mut sender), [(0x00ff_ffff, true), (0, true), (1, true)]);
    }

    #[test]
    fn time_outs_double_up_to_the_longest() {
        let mut sender = sender(1);
        sender.stage(0, message(3, 512));
        let mut waits = Vec::new();
        for _ in 0..6 {
            assert_eq!(send_all(&mut sender).len(), 1, "the window is one frame");
            waits.push(sender.deadline().unwrap().0 - 100);
            sender.time_out();
        }
        let longest = 250_000_000;
        assert_eq!(waits, [67_108_864, 134_217_728, longest, longest, longest, longest]);
    }
}
