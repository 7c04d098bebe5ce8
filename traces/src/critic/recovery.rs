//! Checks of recovery: what a receiver may say of a gap, and what a sender does about it.

use super::check::Tally;
use super::flow::{Part, Step, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::unit::Nanos;
use crate::wire::{Psn, RnrTimer, Syndrome};

family! {
    "recovery":
    NakNamesGap,
    NakOnce,
    GoesBack,
    NotReadyWait,
}

/// A NAK of a sequence error has the number that is missing. At the port that sends it the gap is seen; at the
/// other, that the number was sent and not yet acknowledged.
#[derive(Default)]
struct NakNamesGap(Vec<Gaps>);

#[derive(Default)]
struct Gaps {
    missing: Option<Psn>,
    acknowledged: Option<Psn>,
    /// The first number that was seen: all before it may be missing.
    first: Option<Psn>,
}

impl Rule for NakNamesGap {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "nak_names_gap"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let psn = frame.bth.psn;
        match placed.part {
            Part::Request(_, Step::First) => state_of(&mut self.0, placed.flow).first = Some(psn),
            Part::Request(_, Step::Gap(expected)) => {
                state_of(&mut self.0, placed.flow).missing.get_or_insert(expected);
            }
            Part::Request(_, Step::Back(_)) => {
                let gaps = state_of(&mut self.0, placed.flow);
                gaps.missing.take_if(|missing| !psn.is_after(*missing));
                gaps.first.take_if(|first| psn.is_before(*first));
            }
            Part::Answer(_, Some(flow)) => {
                let Some(syndrome) = frame.extensions.aeth.map(|aeth| aeth.syndrome()) else { return };
                let gaps = state_of(&mut self.0, flow);
                match syndrome {
                    Syndrome::Ack(_) => gaps.acknowledged = Some(psn),
                    Syndrome::SequenceError if sight.sent == Some(true) => {
                        let before = gaps.first.is_some_and(|first| psn.is_before(first));
                        sight.expect(tally, gaps.missing == Some(psn) || before, || match gaps.missing {
                            Some(missing) => format!("NAK of PSN {psn}, but {missing} is missing"),
                            None => format!("NAK of PSN {psn}, but nothing is missing"),
                        });
                    }
                    Syndrome::SequenceError => {
                        let news = gaps.acknowledged.is_none_or(|last| psn.is_after(last));
                        sight.expect(tally, news, || format!("NAK of PSN {psn}, which was acknowledged"));
                    }
                    _ => {}
                }
            }
            Part::Request(..) | Part::Answer(_, None) | Part::Other => {}
        }
    }
}

/// A receiver names a gap once; until what is missing has come, it drops what follows and says nothing.
#[derive(Default)]
struct NakOnce(Vec<Option<Psn>>);

impl Rule for NakOnce {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "nak_once"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        match placed.part {
            Part::Request(_, Step::Back(_)) => {
                let named = state_of(&mut self.0, placed.flow);
                named.take_if(|named| !frame.bth.psn.is_after(*named));
            }
            Part::Answer(_, Some(flow)) => {
                if frame.extensions.aeth.is_some_and(|aeth| aeth.syndrome() == Syndrome::SequenceError) {
                    let psn = frame.bth.psn;
                    let before = state_of(&mut self.0, flow).replace(psn);
                    sight.expect(tally, before != Some(psn), || {
                        format!("NAK of PSN {psn} again, and it was not sent again between them")
                    });
                }
            }
            Part::Request(..) | Part::Answer(_, None) | Part::Other => {}
        }
    }
}

/// A sender that is told to go back does so: to just that number, and before long. What it sent before it
/// heard may still come.
#[derive(Default)]
struct GoesBack {
    asked: Vec<Option<Told>>,
    /// When each port's last frame was seen.
    ends: Vec<Nanos>,
}

#[derive(Clone, Copy)]
struct Told {
    psn: Psn,
    at: Nanos,
    /// A receiver that is not ready is left alone for so long.
    wait: Nanos,
    port: usize,
    file: usize,
    frame: u64,
}

impl Rule for GoesBack {
    fn name(&self) -> &'static str {
        "nak_goes_back"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        *state_of(&mut self.ends, sight.port) = sight.time;
        let psn = frame.bth.psn;
        match placed.part {
            Part::Request(_, Step::Back(_)) => {
                let told = state_of(&mut self.asked, placed.flow).take();
                // Where frames arrive, the first ones that are sent again may be lost too.
                if let Some(told) = told.filter(|_| sight.sent == Some(true)) {
                    sight.expect(tally, psn == told.psn, || {
                        format!("goes back to PSN {psn}, was told to {}", told.psn)
                    });
                }
            }
            // A receiver may never have seen what it asks for, or what came behind.
            Part::Request(_, Step::Next | Step::BehindRead) => {
                state_of(&mut self.asked, placed.flow).take_if(|told| told.psn == psn);
            }
            Part::Answer(_, Some(flow)) => {
                let Some(syndrome) = frame.extensions.aeth.map(|aeth| aeth.syndrome()) else { return };
                let wait = match syndrome {
                    Syndrome::SequenceError => Nanos::ZERO,
                    Syndrome::ReceiverNotReady(code) => wait(code),
                    // Other errors end the connection.
                    _ => return,
                };
                let (port, file, frame) = (sight.port, sight.file, sight.number);
                *state_of(&mut self.asked, flow) =
                    Some(Told { psn, at: sight.time, wait, port, file, frame });
            }
            Part::Request(..) | Part::Answer(_, None) | Part::Other => {}
        }
    }

    fn finish(&mut self, names: &super::sight::Captures, tally: &mut Tally) {
        for told in self.asked.iter().flatten() {
            let end = self.ends.get(told.port).copied().unwrap_or_default();
            if end.0.saturating_sub(told.at.0) > told.wait.0 + PATIENCE.0 {
                tally.examine();
                tally.violate(names.get(told.file).map_or("", String::as_str), told.frame, || {
                    format!("asks for PSN {}, and nobody goes back to it", told.psn)
                });
            }
        }
    }
}

/// A capture that ends sooner may have missed what a sender does.
const PATIENCE: Nanos = Nanos(1_000_000);

/// What was refused because the receiver was not ready comes again when the time that it said has passed.
#[derive(Default)]
struct NotReadyWait(Vec<Option<(Psn, Nanos, Nanos)>>);

impl Rule for NotReadyWait {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "rnr_wait"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let psn = frame.bth.psn;
        match placed.part {
            Part::Request(..) => {
                let waiting = state_of(&mut self.0, placed.flow);
                if let Some((_, since, wait)) = waiting.take_if(|(refused, ..)| *refused == psn) {
                    let waited = sight.time.0.saturating_sub(since.0);
                    sight.expect(tally, waited >= wait.0, || {
                        format!("PSN {psn} again {waited} ns after it was refused, should wait {} ns", wait.0)
                    });
                }
            }
            Part::Answer(_, Some(flow)) => {
                let syndrome = frame.extensions.aeth.map(|aeth| aeth.syndrome());
                if let Some(Syndrome::ReceiverNotReady(code)) = syndrome {
                    *state_of(&mut self.0, flow) = Some((psn, sight.time, wait(code)));
                }
            }
            Part::Answer(_, None) | Part::Other => {}
        }
    }
}

fn wait(code: u8) -> Nanos {
    RnrTimer::from_code(code).map_or(Nanos::ZERO, RnrTimer::wait)
}
