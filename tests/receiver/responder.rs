//! The end that receives: takes requests in the order of their numbers, once each, and knows what it may answer.
//!
//! Whether a receive was posted cannot be seen from outside. So a request is taken when it comes, and if the port then says
//! that it was not ready for it, what was taken from there on is given back.

use std::collections::VecDeque;

use traces::wire::opcode::{Operation, Place};
use traces::wire::{Ecn, ParsedFrame, Psn, Syndrome};

use super::message::{Delivered, Open, numbers};

pub(crate) struct Responder {
    path_mtu: usize,
    pattern: bool,
    now: State,
    /// What was taken since the last answer.
    taken: VecDeque<Taken>,
    /// The last number that was answered, and the messages that had ended by then.
    answered: (Psn, u32),
    /// READs and atomics that are not answered whole.
    owed: VecDeque<Owed>,
    gap: Gap,
    /// Requests that came again and have no answer of their own; whether one asked for one since the last answer.
    again: u64,
    again_asked: bool,
    /// Marks of congestion that came, less notifications that left: each has a mark of its own, though one that was decided
    /// may leave after the next mark.
    marks: u64,
    delivered: Vec<Delivered>,
}

/// What changes when a request is taken.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The number that comes next.
    expected: Psn,
    /// Messages that have ended, on a circle of 24 bits.
    messages: u32,
    open: Option<Open>,
    /// Messages delivered.
    delivered: usize,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Its last number: a READ takes several.
    psn: Psn,
    before: State,
    after: State,
    ack_request: bool,
    /// Whether it needs a receive that was posted.
    consumes: bool,
}

/// What a READ or an atomic is still owed.
#[derive(Clone, Copy, Debug)]
struct Owed {
    operation: Operation,
    next: Psn,
    last: Psn,
    left: u64,
    begun: bool,
    messages: u32,
}

/// What stands between the expected number and what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    None,
    /// A later one has come: a NAK is due.
    Seen,
    /// The NAK was sent, or the port was not ready: what comes is dropped until the expected number is there.
    Told,
}

impl Responder {
    pub(crate) fn new(first: Psn, path_mtu: usize, pattern: bool) -> Self {
        Self {
            path_mtu,
            pattern,
            now: State { expected: first, messages: 0, open: None, delivered: 0 },
            taken: VecDeque::new(),
            answered: (before(first), 0),
            owed: VecDeque::new(),
            gap: Gap::None,
            again: 0,
            again_asked: false,
            marks: 0,
            delivered: Vec::new(),
        }
    }

    /// A request arrives.
    pub(crate) fn request(&mut self, frame: &ParsedFrame<'_>) -> Result<(), String> {
        self.marks += u64::from(frame.network.ecn == Ecn::CongestionExperienced);
        match self.now.expected.distance_to(frame.bth.psn) {
            0 => {
                let told = std::mem::replace(&mut self.gap, Gap::None) != Gap::Seen;
                self.take(frame)?;
                told.then_some(()).ok_or_else(|| "it was missing, and no NAK has asked for it".to_owned())
            }
            1.. => {
                if self.gap == Gap::None {
                    self.gap = Gap::Seen;
                }
                Ok(())
            }
            ..0 => {
                self.again += 1;
                self.again_asked |= frame.bth.ack_request;
                self.repeat(frame)
            }
        }
    }

    /// An answer leaves.
    pub(crate) fn answer(&mut self, frame: &ParsedFrame<'_>) -> Result<(), String> {
        let shape = frame.bth.opcode().expect("the judge has looked").shape();
        match (shape.operation, frame.extensions.aeth.map(|aeth| aeth.syndrome())) {
            (Operation::Acknowledge, Some(Syndrome::Ack(_))) => self.acknowledge(frame),
            (Operation::Acknowledge, Some(Syndrome::SequenceError)) => self.sequence_error(frame),
            (Operation::Acknowledge, Some(Syndrome::ReceiverNotReady(_))) => self.not_ready(frame),
            (Operation::Acknowledge, syndrome) => {
                Err(format!("it ends the connection with {syndrome:?}, but no request was wrong"))
            }
            (operation, _) => self.result(operation, shape.place, frame),
        }
    }

    /// A notification of congestion leaves.
    pub(crate) fn notify(&mut self) -> Result<(), String> {
        let left = self.marks.checked_sub(1).ok_or("more notifications than marks")?;
        self.marks = left;
        Ok(())
    }

    /// All that was delivered; or what is missing.
    pub(crate) fn finish(self) -> Result<Vec<Delivered>, String> {
        let expected = self.now.expected;
        if self.gap != Gap::None {
            return Err(format!("PSN {expected} is missing to the end"));
        }
        if let Some(open) = self.now.open {
            return Err(format!("the message of PSN {} never ends", open.first_psn()));
        }
        if let Some(result) = self.owed.front() {
            return Err(format!("the {:?} is not answered from PSN {} on", result.operation, result.next));
        }
        if let Some(asked) = self.taken.iter().rev().find(|taken| taken.ack_request) {
            return Err(format!("PSN {} asks for an acknowledgement and gets none", asked.psn));
        }
        if self.again_asked {
            return Err("what came again asks for an acknowledgement and gets none".to_owned());
        }
        Ok(self.delivered)
    }

    fn take(&mut self, frame: &ParsedFrame<'_>) -> Result<(), String> {
        let shape = frame.bth.opcode().expect("the judge has looked").shape();
        let (psn, before) = (frame.bth.psn, self.now);
        let mut last = psn;
        match shape.operation {
            Operation::Send | Operation::Write => {
                let (open, ended) = Open::with(before.open, frame, self.path_mtu, self.pattern)?;
                self.now.open = open;
                ended.into_iter().for_each(|message| self.deliver(message));
            }
            Operation::Read | Operation::Atomic => {
                if before.open.is_some() {
                    return Err("it stands within a message".to_owned());
                }
                let reth = frame.extensions.reth;
                let left = reth.map_or(8, |reth| u64::from(reth.length));
                last = psn + (numbers(frame, self.path_mtu) - 1);
                self.deliver(Delivered {
                    first_psn: psn,
                    operation: shape.operation,
                    bytes: left,
                    address: reth.map(|reth| reth.virtual_address),
                    immediate: None,
                });
                let messages = self.now.messages;
                let operation = shape.operation;
                self.owed.push_back(Owed { operation, next: psn, last, left, begun: false, messages });
            }
            Operation::Acknowledge | Operation::Congestion => return Err("it is no request".to_owned()),
        }
        self.now.expected = last + 1;
        let consumes = match shape.operation {
            Operation::Send => shape.place.starts(),
            _ => shape.immediate,
        };
        let ack_request = frame.bth.ack_request;
        self.taken.push_back(Taken { psn: last, before, after: self.now, ack_request, consumes });
        Ok(())
    }

    fn deliver(&mut self, message: Delivered) {
        self.delivered.push(message);
        self.now.delivered += 1;
        self.now.messages = (self.now.messages + 1) & 0xff_ffff;
    }

    /// A request that was taken before: what was written is not written again, what was read is read again.
    fn repeat(&mut self, frame: &ParsedFrame<'_>) -> Result<(), String> {
        let operation = frame.bth.opcode().expect("the judge has looked").shape().operation;
        if matches!(operation, Operation::Read | Operation::Atomic) {
            let left = frame.extensions.reth.map_or(8, |reth| u64::from(reth.length));
            let psn = frame.bth.psn;
            let last = psn + (numbers(frame, self.path_mtu) - 1);
            let messages = self.now.messages;
            // A new request for the rest: what the first one is still owed is not sent any more.
            self.owed.retain(|result| result.last.is_before(psn) || result.last.is_after(last));
            self.owed.push_back(Owed { operation, next: psn, last, left, begun: false, messages });
        }
        Ok(())
    }

    fn acknowledge(&mut self, frame: &ParsedFrame<'_>) -> Result<(), String> {
        let (psn, said) = (frame.bth.psn, messages(frame));
        let (answered, ended) = self.answered;
        if psn.is_before(answered) {
            return Err(format!("PSN {answered} was answered before"));
        }
        if psn == answered {
            if self.again == 0 {
                return Err("it was answered before, and nothing came again".to_owned());
            }
            // Each request that came again may have an answer of its own.
            (self.again, self.again_asked) = (self.again - 1, false);
            return same_messages(said, ended);
        }
        if let Some(result) = self.owed.iter().find(|result| !result.next.is_after(psn)) {
            return Err(format!(
                "the {:?} of PSN {} before it is not answered",
                result.operation, result.next
            ));
        }
        let Some(place) = self.taken.iter().position(|taken| taken.psn == psn) else {
            let expected = self.now.expected;
            return Err(format!(
                "it has not arrived, or is no request of its own; {expected} is expected next"
            ));
        };
        let right = self.taken[place].after.messages;
        self.taken.drain(..=place);
        self.answered = (psn, right);
        self.again_asked = false;
        same_messages(said, right)
    }

    fn sequence_error(&mut self, frame: &ParsedFrame<'_>) -> Result<(), String> {
        let expected = self.now.expected;
        if frame.bth.psn != expected {
            return Err(format!("a NAK, but PSN {expected} is expected"));
        }
        match std::mem::replace(&mut self.gap, Gap::Told) {
            Gap::Seen => {}
            Gap::Told => return Err("a second NAK for one gap".to_owned()),
            Gap::None => return Err("a NAK, but nothing is missing".to_owned()),
        }
        self.taken.clear();
        (self.again, self.again_asked) = (0, false);
        self.answered = (before(expected), self.now.messages);
        same_messages(messages(frame), self.now.messages)
    }

    fn not_ready(&mut self, frame: &ParsedFrame<'_>) -> Result<(), String> {
        let psn = frame.bth.psn;
        let Some(place) = self.taken.iter().position(|taken| taken.psn == psn) else {
            return Err(
                "it says that it was not ready, but that request has not come, or was answered".to_owned()
            );
        };
        let Taken { before: state, consumes, .. } = self.taken[place];
        if !consumes {
            return Err("it says that it was not ready, but the request needs no receive".to_owned());
        }
        self.taken.clear();
        (self.again, self.again_asked) = (0, false);
        self.now = state;
        self.delivered.truncate(state.delivered);
        self.gap = Gap::Told;
        self.answered = (before(psn), state.messages);
        same_messages(messages(frame), state.messages)
    }

    /// A frame of a READ's answer, or an atomic's.
    fn result(&mut self, operation: Operation, place: Place, frame: &ParsedFrame<'_>) -> Result<(), String> {
        let mtu = u64::try_from(self.path_mtu).unwrap();
        let Some(result) = self.owed.front_mut() else { return Err("nothing was asked for".to_owned()) };
        if (result.operation, result.next) != (operation, frame.bth.psn) {
            return Err(format!("the {:?} is owed PSN {}", result.operation, result.next));
        }
        let ends = result.next == result.last;
        if place.starts() == result.begun || place.ends() != ends {
            return Err(format!("{place:?} is not its place"));
        }
        if operation == Operation::Read {
            let length = result.left.min(mtu);
            if u64::try_from(frame.payload_length).unwrap() != length {
                return Err(format!("{} bytes of payload, should be {length}", frame.payload_length));
            }
            result.left -= length;
        }
        let right = result.messages;
        (result.begun, result.next) = (true, result.next + 1);
        let last = result.last;
        if ends {
            self.owed.pop_front();
            if last.is_after(self.answered.0) {
                self.answered = (last, right);
            }
            self.taken.retain(|taken| taken.psn.is_after(last));
            self.again_asked = false;
        }
        frame.extensions.aeth.map_or(Ok(()), |_| same_messages(messages(frame), right))
    }
}

fn messages(frame: &ParsedFrame<'_>) -> u32 {
    frame.extensions.aeth.map_or(0, |aeth| aeth.message_sequence.value())
}

fn same_messages(said: u32, right: u32) -> Result<(), String> {
    if said == right {
        return Ok(());
    }
    Err(format!("MSN {said}, but {right} messages have ended there"))
}

fn before(psn: Psn) -> Psn {
    psn + Psn::LAST.value()
}
