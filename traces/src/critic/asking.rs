//! Checks of how acknowledgements are asked for and given: when a sender asks, how often a receiver answers,
//! how long it takes.

use super::check::Tally;
use super::flow::{Part, Step, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::unit::{Bytes, Nanos};
use crate::wire::opcode::Operation;
use crate::wire::segment::line_bytes;
use crate::wire::{Aeth, Opcode, Psn, Syndrome};

family! {
    "acknowledgements":
    AskedAtEnd,
    AskedRarely,
    AnsweredOnce,
    CreditKind,
    Delay,
    DelayVaries,
}

/// The last frame of a message asks for an acknowledgement. READs and atomics need none, they are answered.
#[derive(Default)]
struct AskedAtEnd;

impl Rule for AskedAtEnd {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "ack_request_on_last"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let Part::Request(opcode, _) = placed.part else { return };
        let shape = opcode.shape();
        if shape.place.ends() && matches!(shape.operation, Operation::Send | Operation::Write) {
            sight.expect(tally, frame.bth.ack_request, || {
                format!("{opcode} does not ask for an acknowledgement")
            });
        }
    }
}

/// Within messages, at most one frame in 64 asks: rxe's 66th in a row, every 256th of mlx5. The first frame of
/// a queue pair may (HNS), and so may what is sent again.
#[derive(Default)]
struct AskedRarely(Vec<Asking>);

#[derive(Default)]
struct Asking {
    /// Frames since one in the middle asked; `None` before the first.
    since: Option<u32>,
}

impl Rule for AskedRarely {
    fn name(&self) -> &'static str {
        "ack_request_sparse"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let Part::Request(opcode, step) = placed.part else { return };
        let Asking { since } = state_of(&mut self.0, placed.flow);
        match step {
            Step::First | Step::Back(_) => *since = None,
            Step::Next | Step::BehindRead | Step::Gap(_) => {
                if let Some(since) = since {
                    *since = since.saturating_add(1);
                }
                if !opcode.shape().place.ends() {
                    let rarest = sight.vantage.habits.ack_interval;
                    let often = since.filter(|_| frame.bth.ack_request);
                    sight.expect(tally, often.is_none_or(|since| since >= rarest), || {
                        let since = often.unwrap_or_default();
                        format!(
                            "{opcode} asks for an acknowledgement, {since} frames after the last that did"
                        )
                    });
                    if frame.bth.ack_request {
                        *since = Some(0);
                    }
                }
            }
        }
    }
}

/// Nothing is acknowledged twice in the same words, unless it was sent twice. (Other words may follow: new
/// credits.)
#[derive(Default)]
struct AnsweredOnce(Vec<Given>);

#[derive(Default)]
struct Given {
    last: Option<(Psn, Aeth)>,
    /// The sender went back since, so that the receiver may repeat itself.
    again: bool,
}

impl Rule for AnsweredOnce {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "ack_once"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        match (placed.part, frame.extensions.aeth) {
            (Part::Request(_, Step::Back(_)), _) => state_of(&mut self.0, placed.flow).again = true,
            (Part::Answer(Opcode::Acknowledge, Some(flow)), Some(aeth)) if aeth.syndrome().is_ack() => {
                let given = state_of(&mut self.0, flow);
                let now = (frame.bth.psn, aeth);
                let repeated = given.last.replace(now) == Some(now) && !given.again;
                sight.expect(tally, !repeated, || {
                    format!("acknowledges PSN {} again, which was sent once", frame.bth.psn)
                });
                given.again &= given.last.is_some_and(|(last, _)| last == now.0);
            }
            _ => {}
        }
    }
}

/// A queue pair either counts credits in all its acknowledgements, or in none (code 31).
#[derive(Default)]
struct CreditKind(Vec<Option<bool>>);

impl Rule for CreditKind {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "credits_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let Some(Syndrome::Ack(code)) = frame.extensions.aeth.map(|aeth| aeth.syndrome()) else { return };
        let now = code != UNCOUNTED;
        let first = *state_of(&mut self.0, placed.flow).get_or_insert(now);
        sight.expect(tally, now == first, || match now {
            true => format!("credit code {code}, but credits were not counted (31) before"),
            false => format!("credits are not counted ({code}), but were before"),
        });
    }
}

/// The credit code of who does not count.
const UNCOUNTED: u8 = 0x1f;

/// What a flow asked last, and when.
#[derive(Default)]
struct Asked {
    last: Option<(Psn, Nanos, u32)>,
}

impl Asked {
    /// Keeps a question; for an answer to just this one, says how long it took and how many bytes it answers.
    fn delay(states: &mut Vec<Self>, sight: &Sight<'_>) -> Option<(usize, Nanos, u32)> {
        let (frame, placed) = sight.roce()?;
        match placed.part {
            Part::Request(..) if frame.bth.ack_request => {
                state_of(states, placed.flow).last = Some((frame.bth.psn, sight.time, sight.length));
                None
            }
            Part::Answer(Opcode::Acknowledge, Some(flow)) => {
                let (psn, asked, length) = state_of(states, flow).last?;
                let positive = frame.extensions.aeth.is_some_and(|aeth| aeth.syndrome().is_ack());
                (positive && psn == frame.bth.psn)
                    .then(|| (flow, Nanos(sight.time.0.saturating_sub(asked.0)), length))
            }
            _ => None,
        }
    }
}

/// An acknowledgement takes time: the frame has to be there, whole, before it can be answered.
#[derive(Default)]
struct Delay(Vec<Asked>);

impl Rule for Delay {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "ack_delay"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((_, delay, length)) = Asked::delay(&mut self.0, sight) else { return };
        let needs = sight.rate.map_or(1, |rate| rate.time_of(line_bytes(Bytes(u64::from(length)))).0);
        sight.expect(tally, delay.0 >= needs, || {
            format!(
                "acknowledged {} ns after a frame of {length} bytes, which takes {needs} ns itself",
                delay.0
            )
        });
    }
}

/// No NIC takes the same time for every acknowledgement of a flow.
#[derive(Default)]
struct DelayVaries(Vec<Asked>, Vec<Delays>);

#[derive(Default)]
struct Delays {
    first: Nanos,
    count: u32,
    vary: bool,
    file: usize,
    frame: u64,
}

impl Rule for DelayVaries {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "ack_delay_varies"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((flow, delay, _)) = Asked::delay(&mut self.0, sight) else { return };
        let delays = state_of(&mut self.1, flow);
        if delays.count == 0 {
            *delays = Delays { first: delay, count: 0, vary: false, file: sight.file, frame: sight.number };
        }
        delays.count = delays.count.saturating_add(1);
        delays.vary |= delay != delays.first;
        if delays.count == ENOUGH {
            tally.examine();
        }
    }

    fn finish(&mut self, names: &super::sight::Captures, tally: &mut Tally) {
        for delays in self.1.iter().filter(|delays| delays.count >= ENOUGH && !delays.vary) {
            tally.violate(names.get(delays.file).map_or("", String::as_str), delays.frame, || {
                format!("the first of {} acknowledgements, all after {} ns", delays.count, delays.first.0)
            });
        }
    }
}

/// So many acknowledgements of one flow say whether their delays vary.
const ENOUGH: u32 = 16;
