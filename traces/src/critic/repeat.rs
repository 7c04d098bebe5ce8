//! Frames that say nothing new.
//!
//! Most frames of a capture are in the middle of a message and have the headers of the one before, but for sequence number,
//! IPv4 identification and checksum. Rules that look at nothing else need not look again: what they said of the first such frame
//! they would say of each. So the first is remembered by its headers, and those that repeat it are counted; the counts are added
//! to the results at the end.

use super::flow::Placed;
use super::state::state_of;
use crate::wire::ParsedFrame;
use crate::wire::opcode::Place;

/// What was the same, and how often.
#[derive(Default)]
pub(super) struct Repeats {
    /// By flow, the last frame that was looked at and found right.
    flows: Vec<Option<Known>>,
    /// Sets of rules that examined a frame, and how many frames repeated one of which they did.
    examined: Vec<(u128, u64)>,
}

struct Known {
    header: Header,
    /// Its place in [`Repeats::examined`].
    examined: usize,
}

/// The headers of a frame up to BTH as they were captured, and the frame's lengths.
struct Header {
    form: Form,
    bytes: [u8; MOST],
    original: u32,
    captured: usize,
}

/// Where headers stand in most frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    V4,
    TaggedV4,
    V6,
}

/// What the rules that look at constant fields made of one frame.
#[derive(Default)]
pub(super) struct Seen {
    rule: u32,
    examined: u128,
    /// One found it wrong, or counted otherwise than once.
    odd: bool,
}

impl Repeats {
    /// Whether the frame repeats one of its flow; then it is counted.
    #[inline]
    pub(super) fn is_known(&mut self, flow: usize, captured: &[u8], original: u32) -> bool {
        match state_of(&mut self.flows, flow) {
            Some(known) if known.header.is_that_of(captured, original) => {
                if let Some((_, frames)) = self.examined.get_mut(known.examined) {
                    *frames += 1;
                }
                true
            }
            _ => false,
        }
    }

    /// Remembers a frame that was looked at.
    pub(super) fn learn(&mut self, flow: usize, captured: &[u8], original: u32, seen: &Seen) {
        let header = Header::of(captured, original).filter(|_| !seen.odd);
        *state_of(&mut self.flows, flow) = header.map(|header| {
            let place = self.examined.iter().position(|&(rules, _)| rules == seen.examined);
            let examined = place.unwrap_or(self.examined.len());
            if place.is_none() {
                self.examined.push((seen.examined, 0));
            }
            Known { header, examined }
        });
    }

    /// How often the rule of this number would have examined what repeated.
    pub(super) fn of(&self, rule: u32) -> u64 {
        self.examined.iter().filter(|(rules, _)| rules & bit(rule) != 0).map(|(_, frames)| frames).sum()
    }
}

impl Header {
    /// The headers of a captured frame, if they stand where they do in most frames.
    fn of(captured: &[u8], original: u32) -> Option<Self> {
        let form = match *captured.first_chunk::<19>()? {
            [.., 0x08, 0x00, 0x45, _, _, _, _] => Form::V4,
            [.., 0x81, 0x00, _, _, 0x08, 0x00, 0x45] => Form::TaggedV4,
            [.., 0x86, 0xdd, _, _, _, _, _] => Form::V6,
            _ => return None,
        };
        let mut bytes = [0; MOST];
        let length = captured.len().min(MOST);
        bytes[..length].copy_from_slice(&captured[..length]);
        Some(Self { form, bytes, original, captured: captured.len() })
    }

    /// Whether a frame has these headers, but for what differs from frame to frame.
    #[inline]
    fn is_that_of(&self, captured: &[u8], original: u32) -> bool {
        self.original == original
            && self.captured == captured.len()
            && match self.form {
                Form::V4 => are_v4::<14, 54>(&self.bytes, captured),
                Form::TaggedV4 => are_v4::<18, 58>(&self.bytes, captured),
                Form::V6 => are_v6(&self.bytes, captured),
            }
    }
}

/// IPv4 at byte `IP`, BTH up to byte `END`: all is equal but identification, checksum and sequence number. Compared in place, for
/// a copy with zeros there would be read again before it is written.
#[inline]
fn are_v4<const IP: usize, const END: usize>(known: &[u8; MOST], captured: &[u8]) -> bool {
    let (Some(one), Some(other)) = (known.first_chunk::<END>(), captured.first_chunk::<END>()) else {
        return false;
    };
    one[..IP + 4] == other[..IP + 4]
        && one[IP + 6..IP + 10] == other[IP + 6..IP + 10]
        && one[IP + 12..END - 3] == other[IP + 12..END - 3]
}

/// IPv6 behind an untagged header: all is equal but UDP checksum and sequence number.
fn are_v6(known: &[u8; MOST], captured: &[u8]) -> bool {
    captured
        .first_chunk::<MOST>()
        .is_some_and(|other| known[..60] == other[..60] && known[62..MOST - 3] == other[62..MOST - 3])
}

impl Seen {
    /// The next rule has looked at the frame: how much it had examined and found wrong before, and has now.
    #[inline]
    pub(super) fn add(&mut self, before: (u64, u64), after: (u64, u64)) {
        match after.0 - before.0 {
            0 => {}
            1 => self.examined |= bit(self.rule),
            _ => self.odd = true,
        }
        self.odd |= before.1 != after.1;
        self.rule += 1;
    }
}

/// Whether a frame is in the middle of a message, follows the one before, and asks nothing: most are.
#[inline]
pub(super) fn is_plain(frame: &ParsedFrame<'_>, placed: &Placed) -> bool {
    placed.follows(Place::Middle) && !frame.bth.ack_request && frame.bth.pad == 0
}

fn bit(rule: u32) -> u128 {
    1_u128.checked_shl(rule).unwrap_or(0)
}

/// From Ethernet to BTH over IPv6.
const MOST: usize = 74;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(change: impl FnOnce(&mut [u8; 62])) -> [u8; 62] {
        let mut bytes = [7; 62];
        bytes[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        change(&mut bytes);
        bytes
    }

    #[test]
    fn identification_checksum_and_sequence_number_are_no_news() {
        let first = Header::of(&frame(|_| {}), 1082).unwrap();
        for at in [18, 19, 24, 25, 51, 52, 53] {
            assert!(first.is_that_of(&frame(|bytes| bytes[at] ^= 1), 1082), "byte {at}");
        }
        for at in [0, 11, 13, 15, 16, 20, 22, 23, 26, 33, 34, 40, 41, 42, 43, 46, 49, 50] {
            assert!(!first.is_that_of(&frame(|bytes| bytes[at] ^= 1), 1082), "byte {at}");
        }
        assert!(!first.is_that_of(&frame(|_| {}), 1083));
        assert!(Header::of(&frame(|bytes| bytes[14] = 0x46), 1082).is_none(), "IP options");
    }

    #[test]
    fn what_repeats_is_counted_for_the_rules_that_examined_the_first() {
        let mut repeats = Repeats::default();
        let first = frame(|_| {});
        assert!(!repeats.is_known(3, &first, 1082));
        let mut seen = Seen::default();
        seen.add((0, 0), (1, 0));
        seen.add((5, 2), (5, 2));
        repeats.learn(3, &first, 1082, &seen);
        assert!(repeats.is_known(3, &first, 1082) && repeats.is_known(3, &first, 1082));
        assert!(!repeats.is_known(4, &first, 1082));
        assert_eq!((repeats.of(0), repeats.of(1)), (2, 0));
        // What was wrong is looked at each time.
        seen.add((0, 0), (1, 1));
        repeats.learn(3, &first, 1082, &seen);
        assert!(!repeats.is_known(3, &first, 1082));
    }
}
