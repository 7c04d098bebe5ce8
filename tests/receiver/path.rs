//! Between two ports: what arrives was sent, later than it was sent, and in the same order.

use traces::unit::Nanos;
use traces::wire::opcode::Role;
use traces::wire::{Extensions, ParsedFrame, Psn};

/// All that one queue pair sends to its peer.
#[derive(Default)]
pub(crate) struct Path {
    requests: Lane,
    answers: Lane,
    notifications: Lane,
}

/// What keeps its order: a switch may serve requests, answers and notifications from different queues.
#[derive(Default)]
struct Lane {
    sent: Vec<Passed>,
    received: Vec<Passed>,
}

/// A frame as it passes a port; what switches may change is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Passed {
    time: Nanos,
    frame: Frame,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    opcode: u8,
    psn: Psn,
    payload: usize,
    extensions: Extensions,
    icrc: Option<u32>,
}

impl Path {
    pub(crate) fn sent(&mut self, time: Nanos, frame: &ParsedFrame<'_>) {
        self.lane(frame).sent.push(Passed { time, frame: Frame::of(frame) });
    }

    pub(crate) fn received(&mut self, time: Nanos, frame: &ParsedFrame<'_>) {
        self.lane(frame).received.push(Passed { time, frame: Frame::of(frame) });
    }

    /// Whether all that arrived was sent, and (without `loss`) all that was sent has arrived.
    pub(crate) fn finish(self, loss: bool) -> Result<(), String> {
        [self.requests, self.answers, self.notifications].iter().try_for_each(|lane| lane.finish(loss))
    }

    fn lane(&mut self, frame: &ParsedFrame<'_>) -> &mut Lane {
        match frame.bth.opcode().map(|opcode| opcode.shape().role) {
            Some(Role::Request) | None => &mut self.requests,
            Some(Role::Response) => &mut self.answers,
            Some(Role::Notification) => &mut self.notifications,
        }
    }
}

impl Lane {
    fn finish(&self, loss: bool) -> Result<(), String> {
        let mut sent = self.sent.iter();
        let mut lost = 0;
        for received in &self.received {
            // The earliest that fits leaves the most for those behind it.
            let Some(skipped) = sent.clone().position(|sent| sent.frame == received.frame) else {
                return Err(format!("PSN {} arrives, but was not sent before it", received.frame.psn));
            };
            lost += skipped;
            let sent = sent.nth(skipped).expect("it was found there");
            if received.time <= sent.time {
                return Err(format!(
                    "PSN {} arrives at {}, and is sent at {}",
                    received.frame.psn, received.time, sent.time
                ));
            }
        }
        lost += sent.len();
        match lost {
            1.. if !loss => Err(format!("{lost} frames are lost in a network that loses none")),
            _ => Ok(()),
        }
    }
}

impl Frame {
    fn of(frame: &ParsedFrame<'_>) -> Self {
        Self {
            opcode: frame.bth.opcode,
            psn: frame.bth.psn,
            payload: frame.payload_length,
            extensions: frame.extensions,
            icrc: frame.icrc,
        }
    }
}
