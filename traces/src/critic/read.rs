//! Checks of READ: which numbers its answers have, how much they bring, and how many numbers it takes.

use std::collections::VecDeque;

use super::check::Tally;
use super::flow::{Part, Step, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::wire::opcode::{Operation, Place};
use crate::wire::{Opcode, Psn};

family! {
    "reads":
    Numbers,
    Bytes,
    Takes,
}

/// What was asked of a queue pair and not answered in full.
#[derive(Default)]
struct Asked {
    reads: VecDeque<Read>,
}

struct Read {
    psn: Psn,
    length: u32,
    /// The number of the request behind it.
    next: Option<Psn>,
}

impl Asked {
    /// Keeps what is asked. (A NIC has 16 or 128 of them open, and forgets in order.)
    fn request(&mut self, opcode: Opcode, step: Step, psn: Psn, length: Option<u32>) {
        if let Step::Back(_) = step {
            self.reads.retain(|read| read.psn.is_before(psn));
        }
        if let Some(read) = self.reads.back_mut() {
            read.next.get_or_insert(psn);
        }
        if let Some(length) = length.filter(|_| opcode == Opcode::ReadRequest) {
            if self.reads.len() == MOST {
                self.reads.pop_front();
            }
            self.reads.push_back(Read { psn, length, next: None });
        }
    }
}

const MOST: usize = 256;

fn is_answer(opcode: Opcode) -> bool {
    opcode.shape().operation == Operation::Read && opcode != Opcode::ReadRequest
}

/// The first answer has the request's number, each one behind it the next. Where answers arrive, some may be
/// missing.
#[derive(Default)]
struct Numbers(Vec<Answers>);

#[derive(Default)]
struct Answers {
    asked: Asked,
    /// The last answer that is not the last of its message.
    open: Option<Psn>,
}

impl Rule for Numbers {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "read_response_psn"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let psn = frame.bth.psn;
        match placed.part {
            Part::Request(opcode, step) => {
                let length = frame.extensions.reth.map(|reth| reth.length);
                if opcode == Opcode::ReadRequest || self.0.get(placed.flow).is_some() {
                    state_of(&mut self.0, placed.flow).asked.request(opcode, step, psn, length);
                }
            }
            Part::Answer(opcode, Some(flow)) if is_answer(opcode) => {
                let state = state_of(&mut self.0, flow);
                let place = opcode.shape().place;
                let before = state.open.take();
                if !place.ends() {
                    state.open = Some(psn);
                }
                if place.starts() {
                    let asked = state.asked.reads.iter().any(|read| read.psn == psn);
                    sight.expect(tally, asked, || format!("{opcode} of PSN {psn}, which no READ has"));
                } else if let Some(before) = before {
                    let lossy = sight.sent != Some(true) && psn.is_after(before);
                    sight.expect(tally, psn == before + 1 || lossy, || {
                        format!("{opcode} of PSN {psn} behind {before}")
                    });
                }
            }
            Part::Answer(..) | Part::Other => {}
        }
    }
}

/// The answers bring as many bytes as were asked for.
#[derive(Default)]
struct Bytes(Vec<Brought>);

#[derive(Default)]
struct Brought {
    asked: Asked,
    /// What the answers seen so far bring, and the number that the next one has.
    open: Option<(u64, u32, Psn)>,
}

impl Rule for Bytes {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "read_length"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let psn = frame.bth.psn;
        match placed.part {
            Part::Request(opcode, step) => {
                let length = frame.extensions.reth.map(|reth| reth.length);
                if opcode == Opcode::ReadRequest || self.0.get(placed.flow).is_some() {
                    state_of(&mut self.0, placed.flow).asked.request(opcode, step, psn, length);
                }
            }
            Part::Answer(opcode, Some(flow)) if is_answer(opcode) => {
                let state = state_of(&mut self.0, flow);
                let place = opcode.shape().place;
                let before = match place {
                    Place::First | Place::Only => {
                        let read = state.asked.reads.iter().find(|read| read.psn == psn);
                        read.map(|read| (0, read.length, psn))
                    }
                    Place::Middle | Place::Last => state.open.take().filter(|&(.., next)| next == psn),
                };
                let Some((brought, length, _)) = before else { return };
                let brought = brought + u64::try_from(frame.payload_length).unwrap_or(u64::MAX);
                if place.ends() {
                    sight.expect(tally, brought == u64::from(length), || {
                        format!("the answers bring {brought} bytes, {length} were asked for")
                    });
                } else {
                    state.open = Some((brought, length, psn + 1));
                }
            }
            Part::Answer(..) | Part::Other => {}
        }
    }
}

/// A READ takes as many sequence numbers as it has answers: the request behind it has the number behind the
/// last of them.
#[derive(Default)]
struct Takes(Vec<Taken>);

#[derive(Default)]
struct Taken {
    asked: Asked,
    /// The number behind the last answer of the READ that the last request was.
    after: Option<Psn>,
}

impl Rule for Takes {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "read_takes_psns"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let psn = frame.bth.psn;
        match placed.part {
            Part::Request(opcode, step) => {
                if opcode != Opcode::ReadRequest && self.0.get(placed.flow).is_none() {
                    return;
                }
                let state = state_of(&mut self.0, placed.flow);
                let length = frame.extensions.reth.map(|reth| reth.length);
                state.asked.request(opcode, step, psn, length);
                // Answered before the next was asked.
                if let Some(after) = state.after.take().filter(|_| !matches!(step, Step::Back(_))) {
                    let lossy = sight.sent == Some(false) && psn.is_after(after);
                    sight.expect(tally, psn == after || lossy, || {
                        format!("PSN {psn} behind a READ whose answers end before {after}")
                    });
                }
            }
            Part::Answer(opcode, Some(flow)) if is_answer(opcode) && opcode.shape().place.ends() => {
                let state = state_of(&mut self.0, flow);
                while state.asked.reads.front().is_some_and(|read| !read.psn.is_after(psn)) {
                    let Some(read) = state.asked.reads.pop_front() else { return };
                    if state.asked.reads.front().is_some_and(|next| !next.psn.is_after(psn)) {
                        continue;
                    }
                    match read.next {
                        None => state.after = Some(psn + 1),
                        Some(next) => {
                            let lossy = sight.sent == Some(true) && next.is_after(psn + 1);
                            sight.expect(tally, next == psn + 1 || lossy, || {
                                format!("the READ's answers end with PSN {psn}, the next request has {next}")
                            });
                        }
                    }
                }
            }
            Part::Answer(..) | Part::Other => {}
        }
    }
}
