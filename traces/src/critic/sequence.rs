//! Checks of requests in a flow: sequence numbers, the grammar of messages, their lengths.

use super::check::Tally;
use super::flow::{Part, Step, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::unit::Nanos;
use crate::wire::opcode::{Operation, Place};
use crate::wire::{Opcode, ParsedFrame, PathMtu, Psn};

family! {
    "opcodes, sequence numbers":
    Consecutive,
    Grammar,
    FullFrames,
    DmaLength,
}

/// Sequence numbers of requests are consecutive. A port that sends leaves no gap; one that receives may see
/// one, if a negative acknowledgement names the missing number afterwards. A sender goes back to what such a
/// one asks for, or, when it has waited in vain, to the oldest that is not acknowledged.
#[derive(Default)]
struct Consecutive(Vec<Continuity>);

#[derive(Default)]
struct Continuity {
    /// The number that a negative acknowledgement asked for.
    asked: Option<Psn>,
    /// The number that has to come before the receiver says anything more of what is missing.
    waiting: Option<Psn>,
    /// A gap that none has named yet.
    gap: Option<Gap>,
    /// The last number that was acknowledged.
    acknowledged: Option<Psn>,
    /// When the last request was seen, and the last answer.
    request: Nanos,
    answer: Nanos,
}

struct Gap {
    expected: Psn,
    file: usize,
    frame: u64,
}

impl Rule for Consecutive {
    fn name(&self) -> &'static str {
        "psn_consecutive"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let psn = frame.bth.psn;
        match placed.part {
            Part::Request(_, step) => {
                let state = state_of(&mut self.0, placed.flow);
                let wrong = match step {
                    Step::First | Step::Next | Step::BehindRead => None,
                    Step::Gap(expected) if sight.sent == Some(true) => {
                        Some(format!("PSN {psn} leaves a gap, {expected} was expected"))
                    }
                    Step::Gap(expected) => {
                        if state.waiting.is_none() {
                            let gap = Gap { expected, file: sight.file, frame: sight.number };
                            state.gap.get_or_insert(gap);
                        }
                        None
                    }
                    Step::Back(_) if state.may_go_back(psn, sight) => None,
                    Step::Back(expected) => {
                        Some(format!("PSN {psn} again, {expected} was expected and nothing asked to go back"))
                    }
                };
                if let Step::Back(_) = step {
                    state.asked = None;
                    state.waiting.take_if(|waiting| !psn.is_after(*waiting));
                }
                state.request = sight.time;
                sight.judge(tally, wrong);
            }
            Part::Answer(_, Some(flow)) => {
                let state = state_of(&mut self.0, flow);
                state.answer = sight.time;
                if frame.extensions.aeth.is_none_or(|aeth| aeth.syndrome().is_ack()) {
                    state.acknowledged = Some(psn);
                } else {
                    (state.asked, state.waiting) = (Some(psn), Some(psn));
                    // Everything before it has come.
                    state.acknowledged = Some(psn + (Psn::LAST.value()));
                    state.gap.take_if(|gap| gap.expected == psn);
                }
            }
            Part::Answer(_, None) | Part::Other => {}
        }
    }

    fn finish(&mut self, names: &super::sight::Captures, tally: &mut Tally) {
        for gap in self.0.iter().filter(|_| !names.cut).filter_map(|state| state.gap.as_ref()) {
            let name = names.get(gap.file).map_or("", String::as_str);
            tally.violate(name, gap.frame, || {
                format!(
                    "PSN {} is missing before it, and no negative acknowledgement asks for it",
                    gap.expected
                )
            });
        }
    }
}

impl Continuity {
    fn may_go_back(&self, psn: Psn, sight: &Sight<'_>) -> bool {
        if self.asked == Some(psn) {
            return true;
        }
        let since = |time: Nanos| sight.time.0.saturating_sub(time.0);
        let waited = since(self.request) >= SHORTEST.0 || since(self.answer) >= UNANSWERED.0;
        if sight.sent == Some(true) {
            waited && self.acknowledged.is_none_or(|last| psn == last + 1)
        } else {
            // Acknowledgements get lost on their way, and so does the first of what is sent again.
            waited || self.asked.is_some_and(|asked| psn.is_after(asked))
        }
    }
}

/// The shortest time-out that can be set for acknowledgements: 4.096 us x 2.
const SHORTEST: Nanos = Nanos(8_192);
/// A sender that has more to send does not stop before its time-out, which is not as short then.
const UNANSWERED: Nanos = Nanos(500_000);

/// A message is First, Middle.., Last of one kind, or Only; messages of a flow do not interleave.
#[derive(Default)]
struct Grammar(Vec<Message>);

/// What is known of the message that a flow is in.
#[derive(Default)]
enum Message {
    /// The capture starts in the middle, or frames are missing.
    #[default]
    Unknown,
    /// None is begun.
    Between,
    /// One of this kind is begun.
    Begun(Operation),
}

impl Rule for Grammar {
    fn name(&self) -> &'static str {
        "message_grammar"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((opcode, step, flow)) = request(sight) else { return };
        let state = state_of(&mut self.0, flow);
        if !follows(step) {
            *state = Message::Unknown;
        }
        let shape = opcode.shape();
        let wrong = match (&state, shape.place.starts()) {
            (Message::Unknown, _) | (Message::Between, true) => None,
            (Message::Between, false) => Some(format!("{opcode}, but no message is begun")),
            (Message::Begun(_), true) => Some(format!("{opcode}, but a message is begun and not ended")),
            (Message::Begun(operation), false) if *operation != shape.operation => {
                Some(format!("{opcode} within a message of another kind"))
            }
            (Message::Begun(_), false) => None,
        };
        *state = if shape.place.ends() { Message::Between } else { Message::Begun(shape.operation) };
        sight.judge(tally, wrong);
    }
}

/// First and Middle frames are full: all of a flow carry the same path MTU; Last and Only carry no more, Last
/// at least 1.
#[derive(Default)]
struct FullFrames(Vec<usize>);

impl Rule for FullFrames {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "payload_path_mtu"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let (Some((opcode, _, flow)), Some((frame, _))) = (request(sight), sight.roce()) else { return };
        if !opcode.shape().payload {
            return;
        }
        let mtu = state_of(&mut self.0, flow);
        let payload = frame.payload_length;
        let greatest = usize::from(PathMtu::Mtu4096.bytes());
        let limit = if *mtu == 0 { greatest } else { *mtu };
        let wrong = match opcode.shape().place {
            Place::First | Place::Middle if *mtu == 0 => {
                let known = u16::try_from(payload).ok().and_then(PathMtu::new);
                if known.is_some() {
                    *mtu = payload;
                }
                known.is_none().then(|| format!("{opcode} with {payload} bytes, which is no path MTU"))
            }
            Place::First | Place::Middle => {
                (payload != limit).then(|| format!("{opcode} with {payload} bytes, should be {limit}"))
            }
            Place::Last if payload == 0 => Some(format!("{opcode} without payload")),
            Place::Last | Place::Only => {
                (payload > limit).then(|| format!("{opcode} with {payload} bytes, should be at most {limit}"))
            }
        };
        sight.judge(tally, wrong);
    }
}

/// The length in RETH is the sum of the message's payload.
#[derive(Default)]
struct DmaLength(Vec<Option<Announced>>);

struct Announced {
    length: u64,
    seen: u64,
}

impl Rule for DmaLength {
    fn name(&self) -> &'static str {
        "dma_length"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let (Some((opcode, step, flow)), Some((frame, _))) = (request(sight), sight.roce()) else { return };
        let state = state_of(&mut self.0, flow);
        if !follows(step) || opcode.shape().place.starts() {
            *state = announced(opcode, frame);
        }
        let Some(message) = state else { return };
        message.seen += u64::try_from(frame.payload_length).unwrap_or(u64::MAX);
        if opcode.shape().place.ends() {
            let Announced { length, seen } = *message;
            *state = None;
            let wrong = (length != seen)
                .then(|| format!("the message ends with {seen} bytes, its RETH announced {length}"));
            sight.judge(tally, wrong);
        }
    }
}

fn announced(opcode: Opcode, frame: &ParsedFrame<'_>) -> Option<Announced> {
    let reth = frame.extensions.reth.filter(|_| opcode.shape().operation == Operation::Write)?;
    Some(Announced { length: u64::from(reth.length), seen: 0 })
}

fn request(sight: &Sight<'_>) -> Option<(Opcode, Step, usize)> {
    let (_, placed) = sight.roce()?;
    match placed.part {
        Part::Request(opcode, step) => Some((opcode, step, placed.flow)),
        Part::Answer(..) | Part::Other => None,
    }
}

/// Whether what is known of the frame before still holds.
const fn follows(step: Step) -> bool {
    match step {
        Step::Next | Step::BehindRead => true,
        Step::First | Step::Gap(_) | Step::Back(_) => false,
    }
}
