//! Checks of NCCL's conversation: the receiver writes a clear-to-send into the sender's memory, the sender
//! writes the message where that says, with its length as immediate.
//!
//! A clear-to-send is a WRITE Only of 64 bytes for each message that it asks for, little-endian (NCCL,
//! `net_ib/p2p.cc`, `struct ncclIbSendFifo`):
//!
//! ```text
//! 0 address 8 | 8 size 8 | 16 remote keys 8 x 4 | 48 messages 4 | 52 tag 4 | 56 index 8
//! ```
//! It goes over the first queue pair of a connection, the data over all of them. Queue pairs over which none
//! was seen to go, and hosts between which none was, are not examined: who speaks there is not NCCL, or its
//! payload was not captured.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use super::check::Tally;
use super::flow::{Part, Placed, Step, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::wire::opcode::Operation;
use crate::wire::{Opcode, ParsedFrame, Psn, RemoteKey, Reth};

family! {
    "conversation":
    Index,
    Slot,
    Within,
    ImmediateLength,
}

/// A clear-to-send for one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clear {
    address: u64,
    size: u64,
    /// One for each NIC that the sender may use.
    keys: [RemoteKey; 8],
    index: u64,
}

/// The clear-to-send messages of a frame; none if it is none.
fn clears<'a>(frame: &ParsedFrame<'a>) -> impl Iterator<Item = Clear> + use<'a> {
    let bytes =
        if frame.bth.opcode() == Some(Opcode::WriteOnly) && frame.payload.len() == frame.payload_length {
            frame.payload
        } else {
            &[]
        };
    let (entries, rest) = bytes.as_chunks::<ENTRY>();
    let count = u32::try_from(entries.len()).unwrap_or_default();
    let all =
        rest.is_empty() && (1..=8).contains(&count) && entries.iter().all(|entry| is_clear(entry, count));
    entries.iter().filter(move |_| all).map(parse)
}

/// Whether a frame carries clear-to-send messages.
pub(super) fn is_clear_to_send(frame: &ParsedFrame<'_>) -> bool {
    clears(frame).next().is_some()
}

fn is_clear(entry: &[u8; ENTRY], count: u32) -> bool {
    let Clear { address, size, index, keys } = parse(entry);
    let messages = u32::from_le_bytes([entry[48], entry[49], entry[50], entry[51]]);
    messages == count
        && address >> 48 == 0
        && size >> 40 == 0
        && (1..1 << 40).contains(&index)
        && keys[0].0 != 0
}

fn parse(entry: &[u8; ENTRY]) -> Clear {
    let (words, _) = entry.as_chunks::<8>();
    let long = |at: usize| u64::from_le_bytes(words[at]);
    let keys = std::array::from_fn(|at| {
        let [a, b, c, d, e, f, g, h] = words[2 + at / 2];
        RemoteKey(u32::from_le_bytes(if at % 2 == 0 { [a, b, c, d] } else { [e, f, g, h] }))
    });
    Clear { address: long(0), size: long(1), keys, index: long(7) }
}

const ENTRY: usize = 64;

/// The index of a clear-to-send is one more than that of the one before.
#[derive(Default)]
struct Index(Vec<Option<u64>>);

impl Rule for Index {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "cts_index"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed, step)) = write_only(sight) else { return };
        let Some(clear) = clears(frame).next() else { return };
        let last = state_of(&mut self.0, placed.flow);
        let before = last.replace(clear.index);
        // Where frames arrive some may be missing; what is sent again starts over.
        let right = match (before, step) {
            (None, _) | (_, Step::First | Step::Back(_)) => true,
            (Some(before), Step::Gap(_)) => clear.index > before,
            (Some(before), Step::Next | Step::BehindRead) => clear.index == before + 1,
        };
        sight.expect(tally, right, || {
            format!("clear-to-send {} behind {}", clear.index, before.unwrap_or_default())
        });
    }
}

/// Clear-to-send messages are written into slots of 512 bytes, one after the other, around in a ring.
#[derive(Default)]
struct Slot(Vec<Option<Ring>>);

#[derive(Clone, Copy)]
struct Ring {
    key: RemoteKey,
    lowest: u64,
    last: u64,
}

impl Rule for Slot {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "cts_slot"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed, step)) = write_only(sight) else { return };
        let Some(Reth { virtual_address: now, remote_key: key, .. }) = frame.extensions.reth else { return };
        if clears(frame).next().is_none() {
            return;
        }
        let ring = state_of(&mut self.0, placed.flow).get_or_insert(Ring { key, lowest: now, last: now });
        let Ring { key: before, lowest, last } = *ring;
        let right = match step {
            Step::Next | Step::BehindRead => last.checked_add(SLOT) == Some(now) || now <= lowest,
            Step::First | Step::Back(_) | Step::Gap(_) => true,
        };
        *ring = Ring { key: before, lowest: lowest.min(now), last: now };
        sight.expect(tally, right && key == before, || {
            format!("clear-to-send at 0x{now:x} with key {key}, the last was at 0x{last:x} with {before}")
        });
    }
}

/// Eight entries of 64 bytes.
const SLOT: u64 = 512;

/// Data go where a clear-to-send of the other direction says, with one of its keys, no more than it lets, and
/// only behind it.
#[derive(Default)]
struct Within {
    flows: Vec<Credits>,
    pairs: Pairs,
}

/// What a flow was told by, or tells, the other direction.
#[derive(Default)]
struct Credits {
    /// Clear-to-send that this flow carries, with what was used of each.
    open: VecDeque<(Clear, u64)>,
    /// Its first clear-to-send that is seen: the index, the file and the frame.
    first: Option<(u64, usize, u64)>,
    peer: Option<usize>,
    /// Where its last message starts.
    start: Option<Psn>,
    /// Its first message, if that was before any clear-to-send.
    early: Option<(usize, u64)>,
    /// One asked for several messages at once: there is a message of their sizes too, whose place is not told.
    several: bool,
}

impl Rule for Within {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "data_within_cts"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let Part::Request(opcode, _) = placed.part else { return };
        let Some(reth) = frame.extensions.reth.filter(|_| opcode.shape().operation == Operation::Write)
        else {
            return;
        };
        let mut entries = clears(frame).peekable();
        if let Some(&first) = entries.peek() {
            self.pairs.tells(sight.port, frame, placed.flow);
            let credits = state_of(&mut self.flows, placed.flow);
            credits.first.get_or_insert((first.index, sight.file, sight.number));
            credits.peer = credits.peer.or(placed.peer);
            let mut count = 0;
            for clear in entries {
                credits.open.retain(|(open, _)| open.address != clear.address);
                if credits.open.len() == MOST {
                    credits.open.pop_front();
                }
                credits.open.push_back((clear, 0));
                count += 1;
            }
            credits.several |= count > 1;
            return;
        }
        let psn = frame.bth.psn;
        let credits = state_of(&mut self.flows, placed.flow);
        if credits.start.is_some_and(|start| !psn.is_after(start)) || reth.length == 0 {
            return;
        }
        credits.start = Some(psn);
        let own = placed.peer.filter(|&peer| self.flows.get(peer).is_some_and(|peer| peer.first.is_some()));
        let telling = match &own {
            Some(own) => std::slice::from_ref(own),
            None => self.pairs.telling(sight.port, frame),
        };
        if telling.is_empty() {
            let early = (sight.file, sight.number);
            self.flows[placed.flow].early.get_or_insert(early);
            return;
        }
        let whole = telling.iter().any(|&flow| self.flows[flow].first.is_some_and(|(index, ..)| index == 1));
        let several = telling.iter().any(|&flow| self.flows[flow].several);
        let sizes = several && opcode == Opcode::WriteOnlyImmediate && reth.length <= 32;
        match telling.iter().find_map(|&flow| self.flows[flow].take(&reth)) {
            Some(Ok(())) => tally.examine(),
            Some(Err((clear, used))) => sight.expect(tally, false, || {
                format!(
                    "{} bytes at 0x{:x} with key {}: clear to send are {} bytes at 0x{:x} with key {}, {used} of \
                     them sent",
                    reth.length, reth.virtual_address, reth.remote_key, clear.size, clear.address, clear.keys[0]
                )
            }),
            // What was cleared before the capture began is not known.
            None => sight.expect(tally, sizes || !whole, || {
                format!("{} bytes at 0x{:x}, which nothing clears to send", reth.length, reth.virtual_address)
            }),
        }
    }

    fn finish(&mut self, names: &super::sight::Captures, tally: &mut Tally) {
        for credits in &self.flows {
            let Some((1, file, frame)) = credits.first else { continue };
            let early = credits.peer.and_then(|peer| self.flows.get(peer)?.early);
            if let Some((_, early)) = early.filter(|&early| early < (file, frame)) {
                tally.examine();
                tally.violate(names.get(file).map_or("", String::as_str), early, || {
                    format!("data before the first clear-to-send, which is frame {frame}")
                });
            }
        }
    }
}

impl Credits {
    /// Takes the room that a message needs; or says what there is, if it does not fit. `None` if nothing is
    /// known of the place.
    fn take(&mut self, reth: &Reth) -> Option<Result<(), (Clear, u64)>> {
        let Reth { virtual_address: at, remote_key, length } = *reth;
        let (place, (clear, used)) = self
            .open
            .iter_mut()
            .enumerate()
            .find(|(_, (clear, _))| (clear.address..clear.address + clear.size).contains(&at))?;
        let before = *used;
        let key = clear.keys.contains(&remote_key) && remote_key.0 != 0;
        *used += u64::from(length);
        if !key || *used > clear.size || at + u64::from(length) > clear.address + clear.size {
            return Some(Err((*clear, before)));
        }
        if *used == clear.size {
            // A place that is used up is not cleared any more.
            self.open.remove(place);
        }
        Some(Ok(()))
    }
}

/// Clear-to-send of a connection that are remembered; NCCL has eight places and as many again in flight.
const MOST: usize = 64;

/// Between which hosts clear-to-send messages go, and in which flows.
#[derive(Default)]
struct Pairs(BTreeMap<(usize, IpAddr, IpAddr), Vec<usize>>);

impl Pairs {
    /// A clear-to-send of this flow was seen.
    fn tells(&mut self, port: usize, frame: &ParsedFrame<'_>, flow: usize) {
        let ip = &frame.network.ip;
        let flows = self.0.entry((port, ip.source(), ip.destination())).or_default();
        if !flows.contains(&flow) {
            flows.push(flow);
        }
    }

    /// The flows that carry clear-to-send messages for what this frame's sender sends to its receiver.
    fn telling(&self, port: usize, frame: &ParsedFrame<'_>) -> &[usize] {
        let ip = &frame.network.ip;
        self.0.get(&(port, ip.destination(), ip.source())).map_or(&[], Vec::as_slice)
    }
}

/// The immediate of a message is its bytes, big-endian. A part of a message that is split over queue pairs has
/// those of the whole; with adaptive routing the message goes in front and an empty one brings its length.
#[derive(Default)]
struct ImmediateLength {
    flows: Vec<Message>,
    pairs: Pairs,
}

#[derive(Default)]
struct Message {
    /// Bytes of the message that is under way; unknown when the sender went back into an earlier one.
    length: Option<u64>,
    /// Bytes of messages without immediate since the last one with.
    plain: u64,
    plains: u64,
    tells: bool,
}

impl Rule for ImmediateLength {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "immediate_is_length"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let Part::Request(opcode, step) = placed.part else { return };
        let shape = opcode.shape();
        if shape.operation != Operation::Write {
            return;
        }
        let message = state_of(&mut self.flows, placed.flow);
        match step {
            Step::Back(_) => *message = Message { tells: message.tells, ..Message::default() },
            Step::Gap(_) => message.length = None,
            Step::First | Step::Next | Step::BehindRead => {}
        }
        if let Some(reth) = frame.extensions.reth {
            message.length = Some(u64::from(reth.length));
            if clears(frame).next().is_some() {
                message.tells = true;
                self.pairs.tells(sight.port, frame, placed.flow);
                return;
            }
        }
        if !shape.place.ends() {
            return;
        }
        let Some(immediate) = frame.extensions.immediate else {
            message.plain += message.length.unwrap_or(0);
            message.plains += 1;
            return;
        };
        let said = u64::from(immediate.to_u32());
        let Message { length, plain, plains, .. } = *message;
        (message.plain, message.plains) = (0, 0);
        let Some(length) = length else { return };
        let own = placed.peer.is_some_and(|peer| self.flows.get(peer).is_some_and(|peer| peer.tells));
        if !own && self.pairs.telling(sight.port, frame).is_empty() {
            return;
        }
        // The sizes of several messages follow them in one of four bytes each.
        let sizes = plains > 1 && length == 4 * plains;
        // An empty WRITE speaks for the plain one before it.
        let carried = if length == 0 && plains > 0 { plain } else { length };
        let right = said == carried || sizes || is_part(carried, said);
        sight.expect(tally, right, || format!("immediate {said}, but the message has {length} bytes"));
    }
}

/// Whether a message of `whole` bytes, split over some number of queue pairs, has a part of `length`: all are
/// of one size, rounded up to 128 bytes, but for the last (NCCL, `ncclIbMultiSend`).
fn is_part(length: u64, whole: u64) -> bool {
    length < whole
        && (2..=MOST_PAIRS).any(|pairs| {
            let part = whole.div_ceil(pairs).next_multiple_of(SPLIT);
            (0..pairs).any(|before| length == part.min(whole.saturating_sub(before * part)))
        })
}

/// `NCCL_IB_QPS_PER_CONNECTION` beyond this is not heard of.
const MOST_PAIRS: u64 = 16;
const SPLIT: u64 = 128;

fn write_only<'s, 'a>(sight: &'s Sight<'a>) -> Option<(&'s ParsedFrame<'a>, &'s Placed, Step)> {
    let (frame, placed) = sight.roce()?;
    match placed.part {
        Part::Request(Opcode::WriteOnly, step) => Some((frame, placed, step)),
        _ => None,
    }
}
