//! Checks of priority flow control (IEEE 802.1Qbb): its frames have their form, and who is told to pause does.
//!
//! Such frames never leave their link, and NICs keep them from captures; where one is seen, it says something
//! about the port's own line.

use super::check::Tally;
use super::flow::state_of;
use super::sight::{Content, Look, Rule, Sight, family};
use crate::unit::{Bytes, Nanos};
use crate::wire::segment::line_bytes;
use crate::wire::{Mac, NotRoce, ParsedFrame};

family! {
    "flow control":
    Form,
    Heeded,
}

/// A frame of priority flow control.
struct Pause {
    /// The classes that it names, a bit each.
    classes: u16,
    /// For each class, how long it pauses, in times of 512 bits; 0 lets it go on.
    quanta: [u16; 8],
}

impl Pause {
    /// The frame, if it is one; an error says why not.
    fn parse(sight: &Sight<'_>) -> Option<Result<Self, String>> {
        let Content::Other(NotRoce::EtherType(FLOW_CONTROL)) = sight.content else { return None };
        let destination = sight.bytes.first_chunk().copied().map(Mac);
        let (words, _) = sight.bytes.get(14..)?.as_chunks::<2>();
        let words: &[_; 10] = words.first_chunk()?;
        let [operation, classes, quanta @ ..] = words.map(u16::from_be_bytes);
        Some(match (operation, destination) {
            // The plain pause of 802.3x is another thing.
            (PLAIN, _) => return None,
            (PRIORITY, Some(GROUP)) if classes <= 0xff => Ok(Self { classes, quanta }),
            (PRIORITY, Some(GROUP)) => Err(format!("classes 0x{classes:04x}, there are only eight")),
            (PRIORITY, other) => Err(format!("goes to {}, should go to {GROUP}", other.unwrap_or_default())),
            (other, _) => Err(format!("operation 0x{other:04x}, should be 0x0101")),
        })
    }
}

const FLOW_CONTROL: u16 = 0x8808;
const PLAIN: u16 = 0x0001;
const PRIORITY: u16 = 0x0101;
/// The group that bridges never forward to.
const GROUP: Mac = Mac([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);

/// Frames of priority flow control are 60 bytes to the group of their link, with eight classes.
#[derive(Default)]
struct Form;

impl Rule for Form {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "pause_form"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some(pause) = Pause::parse(sight) else { return };
        let wrong = match pause {
            Ok(_) if sight.length != 60 => Some(format!("{} bytes, should be 60", sight.length)),
            Ok(_) => None,
            Err(wrong) => Some(wrong),
        };
        sight.judge(tally, wrong);
    }
}

/// A port that was told to pause a class sends none of it until the time is over or it may go on, but for what
/// was under way. Examined where the line's rate is known.
#[derive(Default)]
struct Heeded(Vec<Paused>);

#[derive(Default)]
struct Paused {
    /// For each class, from when until when it is silent.
    classes: [Option<(Nanos, Nanos)>; 8],
}

impl Rule for Heeded {
    fn name(&self) -> &'static str {
        "pause_heeded"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some(rate) = sight.rate else { return };
        if let Some((frame, _)) = sight.roce() {
            if sight.sent != Some(true) || self.0.is_empty() {
                return;
            }
            let class = class(frame);
            let Some((from, until)) = state_of(&mut self.0, sight.port).classes[class] else { return };
            let silent = (from.0..until.0).contains(&sight.time.0);
            sight.expect(tally, !silent, || {
                format!("sends class {class}, which is paused for another {} ns", until.0 - sight.time.0)
            });
        } else if let (Some(false), Some(Ok(Pause { classes, quanta }))) = (sight.sent, Pause::parse(sight)) {
            let paused = state_of(&mut self.0, sight.port);
            // One frame on the line, and the time to understand.
            let from = sight.time.0 + 2 * rate.time_of(line_bytes(Bytes(LARGEST))).0 + REACTION.0;
            for (class, quanta) in (0..8).zip(quanta) {
                if classes >> class & 1 == 1 {
                    let pause = rate.time_of(Bytes(u64::from(quanta) * QUANTUM));
                    let until = sight.time.0 + pause.0;
                    paused.classes[class] = Some((Nanos(from), Nanos(until)));
                }
            }
        }
    }
}

/// The bytes of a line during one quantum: 512 bits.
const QUANTUM: u64 = 64;
/// A jumbo frame.
const LARGEST: u64 = 9_216;
const REACTION: Nanos = Nanos(1_000);

/// The class of a frame: its tag's priority, or the high bits of its code point, as switches map it by default.
fn class(frame: &ParsedFrame<'_>) -> usize {
    usize::from(frame.link.vlan.map_or(frame.network.dscp >> 3, |vlan| vlan.priority) & 7)
}
