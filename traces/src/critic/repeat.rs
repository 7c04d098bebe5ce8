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

/// The headers of a frame up to BTH, with zeros where frames differ, and the frame's lengths.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    bytes: [u8; MOST],
    original: u32,
    captured: usize,
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
    pub(super) fn is_known(&mut self, flow: usize, header: Option<&Header>) -> bool {
        match (state_of(&mut self.flows, flow), header) {
            (Some(known), Some(header)) if known.header == *header => {
                if let Some((_, frames)) = self.examined.get_mut(known.examined) {
                    *frames += 1;
                }
                true
            }
            _ => false,
        }
    }

    /// Remembers a frame that was looked at.
    pub(super) fn learn(&mut self, flow: usize, header: Option<Header>, seen: &Seen) {
        let known = state_of(&mut self.flows, flow);
        *known = header.filter(|_| !seen.odd).map(|header| {
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
    #[inline]
    pub(super) fn of(captured: &[u8], original: u32) -> Option<Self> {
        match *captured.first_chunk::<18>()? {
            [.., 0x08, 0x00, 0x45, _, _, _] => Self::v4::<54>(captured, original, 14),
            [.., 0x81, 0x00, _, _, 0x08, 0x00] => Self::v4::<58>(captured, original, 18),
            [.., 0x86, 0xdd, _, _, _, _] => Self::v6(captured, original),
            _ => None,
        }
    }

    /// IPv4 at byte `ip`, without options; BTH ends at `END`.
    #[inline]
    fn v4<const END: usize>(captured: &[u8], original: u32, ip: usize) -> Option<Self> {
        let first = captured.first_chunk::<END>()?;
        let mut bytes = [0; MOST];
        bytes[..END].copy_from_slice(first);
        bytes[ip + 4..ip + 6].fill(0);
        bytes[ip + 10..ip + 12].fill(0);
        bytes[END - 3..END].fill(0);
        (first[ip] == 0x45).then_some(Self { bytes, original, captured: captured.len() })
    }

    /// IPv6 behind an untagged header; its UDP checksum is another in each frame.
    fn v6(captured: &[u8], original: u32) -> Option<Self> {
        let first = captured.first_chunk::<MOST>()?;
        let mut bytes = *first;
        bytes[60..62].fill(0);
        bytes[MOST - 3..].fill(0);
        Some(Self { bytes, original, captured: captured.len() })
    }
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

    fn frame(change: impl FnOnce(&mut [u8; 62])) -> Option<Header> {
        let mut bytes = [7; 62];
        bytes[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        change(&mut bytes);
        Header::of(&bytes, 1082)
    }

    #[test]
    fn identification_checksum_and_sequence_number_are_no_news() {
        let first = frame(|_| {}).unwrap();
        for at in [18, 19, 24, 25, 51, 52, 53] {
            assert!(frame(|bytes| bytes[at] ^= 1) == Some(first), "byte {at}");
        }
        for at in [0, 11, 15, 16, 20, 22, 23, 26, 33, 34, 40, 41, 42, 43, 46, 49, 50] {
            assert!(frame(|bytes| bytes[at] ^= 1) != Some(first), "byte {at}");
        }
        assert!(frame(|bytes| bytes[14] = 0x46).is_none(), "IP options");
    }

    #[test]
    fn what_repeats_is_counted_for_the_rules_that_examined_the_first() {
        let mut repeats = Repeats::default();
        let header = frame(|_| {});
        assert!(!repeats.is_known(3, header.as_ref()));
        let mut seen = Seen::default();
        seen.add((0, 0), (1, 0));
        seen.add((5, 2), (5, 2));
        repeats.learn(3, header, &seen);
        assert!(repeats.is_known(3, header.as_ref()) && repeats.is_known(3, header.as_ref()));
        assert!(!repeats.is_known(4, header.as_ref()));
        assert_eq!((repeats.of(0), repeats.of(1)), (2, 0));
        // What was wrong is looked at each time.
        seen.add((0, 0), (1, 1));
        repeats.learn(3, header, &seen);
        assert!(!repeats.is_known(3, header.as_ref()));
    }
}
