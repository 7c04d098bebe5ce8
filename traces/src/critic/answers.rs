//! Checks of answers: nothing is acknowledged before it was sent, numbers do not go back, every question is
//! answered.
//!
//! An answer whose flow of requests is not known is not examined.

use std::collections::VecDeque;

use super::check::Tally;
use super::flow::{Part, Step, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::wire::{Aeth, Opcode, ParsedFrame, Psn};

family! {
    "answers":
    Causality,
    AckOrder,
    MessageOrder,
    MessageCount,
    Answered,
    BareAck,
}

/// An answer is about a request that was seen before.
#[derive(Default)]
struct Causality(Vec<Option<Psn>>);

impl Rule for Causality {
    fn name(&self) -> &'static str {
        "ack_causality"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let psn = frame.bth.psn;
        match placed.part {
            Part::Request(opcode, _) => {
                // A READ takes numbers for its answers; 2^31 bytes of 256 are the most that it can.
                let last = match frame.extensions.reth {
                    Some(reth) if opcode == Opcode::ReadRequest => {
                        psn + (reth.length.div_ceil(256).max(1) - 1)
                    }
                    _ => psn,
                };
                let greatest = state_of(&mut self.0, placed.flow).get_or_insert(last);
                if greatest.is_before(last) {
                    *greatest = last;
                }
            }
            Part::Answer(opcode, Some(flow)) => {
                if let Some(greatest) = *state_of(&mut self.0, flow) {
                    let wrong = psn.is_after(greatest).then(|| {
                        format!("{opcode} of PSN {psn}, but {greatest} is the last that was sent so far")
                    });
                    sight.judge(tally, wrong);
                }
            }
            Part::Answer(_, None) | Part::Other => {}
        }
    }
}

/// Positive acknowledgements do not go back.
#[derive(Default)]
struct AckOrder(Vec<Option<Psn>>);

impl Rule for AckOrder {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "ack_monotone"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, aeth)) = acknowledge(sight) else { return };
        if aeth.syndrome().is_ack() {
            let flow = sight.roce().map_or(0, |(_, placed)| placed.flow);
            judge_order("PSN", state_of(&mut self.0, flow), frame.bth.psn, sight, tally);
        }
    }
}

/// Message sequence numbers do not go back.
#[derive(Default)]
struct MessageOrder(Vec<Option<Psn>>);

impl Rule for MessageOrder {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "msn_monotone"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        if let Some(aeth) = frame.extensions.aeth {
            judge_order("MSN", state_of(&mut self.0, placed.flow), aeth.message_sequence, sight, tally);
        }
    }
}

/// From one answer to the next, the message sequence number grows by the messages that ended between them.
#[derive(Default)]
struct MessageCount(Vec<Completion>);

#[derive(Default)]
struct Completion {
    /// The last numbers of messages that no answer has reached.
    ends: VecDeque<Psn>,
    /// The last answer: its number, and the messages completed by then.
    answered: Option<(Psn, Psn)>,
    /// Too much is unanswered to be kept, so the next answer starts anew.
    lost: bool,
}

impl Rule for MessageCount {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "msn_counts_messages"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let psn = frame.bth.psn;
        match (placed.part, frame.extensions.aeth) {
            (Part::Request(opcode, step), _) => {
                let state = state_of(&mut self.0, placed.flow);
                if let Step::Back(_) = step {
                    state.ends.retain(|end| end.is_before(psn));
                }
                let news = state.answered.is_none_or(|(last, _)| psn.is_after(last));
                if opcode.shape().place.ends() && news {
                    state.ends.push_back(psn);
                }
                if state.ends.len() > MOST {
                    state.ends.clear();
                    state.lost = true;
                }
            }
            (Part::Answer(_, Some(flow)), Some(aeth)) if aeth.syndrome().is_ack() => {
                let state = state_of(&mut self.0, flow);
                let unanswered = state.ends.len();
                state.ends.retain(|end| end.is_after(psn));
                let ended = u32::try_from(unanswered - state.ends.len()).unwrap_or(u32::MAX);
                let now = aeth.message_sequence;
                if let Some((_, before)) = state.answered.filter(|_| !state.lost) {
                    let right = before + ended;
                    let wrong = (now != right).then(|| {
                        format!(
                            "MSN {now} after {before}, but {ended} messages ended since, should be {right}"
                        )
                    });
                    sight.judge(tally, wrong);
                }
                state.answered = Some((psn, now));
                state.lost = false;
            }
            (Part::Answer(..) | Part::Other, _) => {}
        }
    }
}

/// Every request for an acknowledgement is answered before the capture ends.
#[derive(Default)]
struct Answered(Vec<Questions>);

#[derive(Default)]
struct Questions {
    open: VecDeque<Question>,
    /// Those beyond [`MOST`], of which only the last number is kept.
    more: u64,
    last: Psn,
}

struct Question {
    psn: Psn,
    file: usize,
    frame: u64,
}

impl Rule for Answered {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "ack_requests_answered"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let psn = frame.bth.psn;
        match placed.part {
            Part::Request(..) if frame.bth.ack_request => {
                tally.examine();
                let questions = state_of(&mut self.0, placed.flow);
                questions.last = psn;
                if questions.open.len() < MOST {
                    questions.open.push_back(Question { psn, file: sight.file, frame: sight.number });
                } else {
                    questions.more += 1;
                }
            }
            Part::Answer(_, Some(flow)) => {
                let questions = state_of(&mut self.0, flow);
                if frame.extensions.aeth.is_none_or(|aeth| aeth.syndrome().is_ack()) {
                    questions.open.retain(|question| question.psn.is_after(psn));
                    if !questions.last.is_after(psn) {
                        questions.more = 0;
                    }
                } else {
                    // What was asked before is answered, what follows will be asked again.
                    questions.open.clear();
                    questions.more = 0;
                }
            }
            Part::Request(..) | Part::Answer(_, None) | Part::Other => {}
        }
    }

    fn finish(&mut self, names: &super::sight::Captures, tally: &mut Tally) {
        for questions in self.0.iter().filter(|_| !names.cut) {
            for question in &questions.open {
                let name = names.get(question.file).map_or("", String::as_str);
                tally.violate(name, question.frame, || {
                    format!("asks for an acknowledgement of PSN {}, and none follows", question.psn)
                });
            }
            tally.violate_many(questions.more);
        }
    }
}

/// An acknowledgement carries no payload.
#[derive(Default)]
struct BareAck;

impl Rule for BareAck {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "ack_without_payload"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        if let Some((frame, _)) = acknowledge(sight) {
            let bytes = frame.payload_length;
            sight.judge(
                tally,
                (bytes > 0).then(|| format!("an acknowledgement with {bytes} bytes of payload")),
            );
        }
    }
}

fn acknowledge<'s, 'a>(sight: &'s Sight<'a>) -> Option<(&'s ParsedFrame<'a>, Aeth)> {
    let (frame, _) = sight.roce()?;
    let aeth = frame.extensions.aeth?;
    (frame.bth.opcode() == Some(Opcode::Acknowledge)).then_some((frame, aeth))
}

fn judge_order(what: &str, last: &mut Option<Psn>, now: Psn, sight: &Sight<'_>, tally: &mut Tally) {
    let before = last.replace(now);
    let wrong = before
        .filter(|&before| now.is_before(before))
        .map(|before| format!("{what} {now} is acknowledged after {before}"));
    if wrong.is_some() {
        *last = before;
    }
    sight.judge(tally, wrong);
}

/// Unanswered requests of a flow whose frames are remembered.
const MOST: usize = 4096;
