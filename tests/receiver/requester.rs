//! The end that sends: requests go on in the order of their numbers, or start again where an answer or a time-out says.

use std::collections::VecDeque;

use traces::unit::Nanos;
use traces::wire::{Extensions, ParsedFrame, Psn, RnrTimer, Syndrome};

use super::message::numbers;

pub(crate) struct Requester {
    path_mtu: usize,
    /// The number that continues what was sent last.
    next: Psn,
    /// The number that was never sent.
    fresh: Psn,
    /// The oldest number that is not acknowledged.
    oldest: Psn,
    /// What is not acknowledged, in order.
    unanswered: VecDeque<Request>,
    /// A NAK that has not been followed.
    asked: Option<Asked>,
    /// When an answer came last.
    heard: Nanos,
}

/// A request as it was first sent: as it must be sent again, but for the bit that asks for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    psn: Psn,
    last: Psn,
    /// When it was sent last.
    sent: Nanos,
    opcode: u8,
    payload: usize,
    extensions: Extensions,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    psn: Psn,
    /// Not before this.
    from: Nanos,
}

impl Requester {
    pub(crate) fn new(first: Psn, path_mtu: usize) -> Self {
        Self {
            path_mtu,
            next: first,
            fresh: first,
            oldest: first,
            unanswered: VecDeque::new(),
            asked: None,
            heard: Nanos(0),
        }
    }

    /// A request leaves.
    pub(crate) fn request(&mut self, time: Nanos, frame: &ParsedFrame<'_>) -> Result<(), String> {
        let psn = frame.bth.psn;
        let place = self.place(psn, time);
        let last = psn + (numbers(frame, self.path_mtu) - 1);
        self.next = last + 1;
        let request = Request {
            psn,
            last,
            sent: time,
            opcode: frame.bth.opcode,
            payload: frame.payload_length,
            extensions: frame.extensions,
        };
        if !psn.is_before(self.fresh) {
            self.fresh = last + 1;
            self.unanswered.push_back(request);
            return place;
        }
        let Some(first) = self.unanswered.iter_mut().find(|first| first.psn == psn) else { return place };
        let before = std::mem::replace(first, request);
        if (Request { sent: time, ..before }) != request {
            return Err(format!("sent again as {request:?}, it was {before:?}"));
        }
        place
    }

    /// Whether a request of this number may be sent now.
    fn place(&mut self, psn: Psn, time: Nanos) -> Result<(), String> {
        if let Some(asked) = self.asked.take_if(|asked| asked.psn == psn) {
            let early = || format!("{} ns too early after an RNR NAK", asked.from.0 - time.0);
            return if time < asked.from { Err(early()) } else { Ok(()) };
        }
        // What was acknowledged in the meantime need not be sent again.
        if psn == self.next || (psn == self.oldest && psn.is_after(self.next)) {
            return Ok(());
        }
        if psn == self.oldest && psn.is_before(self.next) {
            let since = self.unanswered.front().map_or(self.heard, |oldest| oldest.sent.max(self.heard));
            let idle = Nanos(time.0.saturating_sub(since.0));
            let early =
                || format!("it starts again after {idle}, which is no time-out, and no NAK asks for it");
            return if idle < LEAST_TIMEOUT { Err(early()) } else { Ok(()) };
        }
        Err(format!(
            "PSN {} would go on, {} is the oldest that is not acknowledged, a NAK asks for {:?}",
            self.next,
            self.oldest,
            self.asked.map(|asked| asked.psn),
        ))
    }

    /// An answer arrives.
    pub(crate) fn answer(&mut self, time: Nanos, frame: &ParsedFrame<'_>) -> Result<(), String> {
        self.heard = time;
        let psn = frame.bth.psn;
        if !psn.is_before(self.fresh) {
            return Err(format!("an answer, but only what is before {} was sent", self.fresh));
        }
        match frame.extensions.aeth.map(|aeth| aeth.syndrome()) {
            None | Some(Syndrome::Ack(_)) => self.acknowledged(psn + 1),
            Some(Syndrome::SequenceError) => {
                self.acknowledged(psn);
                self.asked = Some(Asked { psn, from: time });
            }
            Some(Syndrome::ReceiverNotReady(code)) => {
                self.acknowledged(psn);
                let wait = RnrTimer::from_code(code).expect("five bits").wait();
                self.asked = Some(Asked { psn, from: time + wait });
            }
            Some(fatal) => return Err(format!("{fatal:?} ends the connection")),
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<(), String> {
        if let Some(asked) = self.asked {
            return Err(format!("a NAK asks for PSN {}, and it is not sent again", asked.psn));
        }
        if let Some(request) = self.unanswered.front() {
            return Err(format!("PSN {} is never acknowledged", request.psn));
        }
        Ok(())
    }

    /// All before `psn` is done with.
    fn acknowledged(&mut self, psn: Psn) {
        if psn.is_after(self.oldest) || psn == self.oldest {
            self.oldest = psn;
        }
        while self.unanswered.front().is_some_and(|request| request.last.is_before(self.oldest)) {
            self.unanswered.pop_front();
        }
        self.asked.take_if(|asked| asked.psn.is_before(self.oldest));
    }
}

/// The shortest time-out that a queue pair can have: 4.096 us x 2 (IBTA vol. 1, 9.9.2.1.1).
const LEAST_TIMEOUT: Nanos = Nanos(8_192);
