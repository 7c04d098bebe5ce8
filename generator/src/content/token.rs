//! Activations that a person can read: each token's row of numbers holds a label in their place.
//!
//! An activation is `[sequence of the microbatch][token][hidden]`, so token `i` of a microbatch has `hidden` numbers from byte
//! `i x hidden x size` on: its slot. The slot holds the label again and again, so that any frame of it shows what it is about:
//! ```text
//! [ via] token 34 id 2884 seq 3 . [ via] token 34 id 2884 seq 3 .
//!  |           |     |        |
//!  |           |     |        the sequence, counted over the training
//!  |           |     the token's id in the vocabulary
//!  |           its position in the sequence
//!  the token's bytes
//! ```
//! Labels are repeated after the next power of two, so they stand in columns of Wireshark's byte pane and are not cut where
//! frames are. A slot too small for a whole label loses its end first; the text stays to the last.
//!
//! Sequences are dealt out as Megatron-LM's sampler does (`data_samplers.py`): microbatch by microbatch, in each the replicas
//! one after another. A sequence reads the next piece of the text, of the sequence's length; behind the text's last piece, which
//! is filled up with `[pad]`, the text begins again. So a text no longer than a sequence is what every sequence reads. A plan
//! that has only a number of tokens, or a program built without a vocabulary, has labels without text: `token 34 seq 3`.

use crate::plan::{Plan, Words};
use crate::tokens::Spelling;

/// The token slots of a plan's activations.
#[derive(Debug)]
pub(super) struct TokenSlots {
    text: Text,
    /// Bytes of a slot, at least one.
    width: u64,
    /// Tokens of a sequence.
    length: u64,
    micro_batch: u64,
    microbatches: u64,
    replicas: u64,
}

/// Which microbatch an activation belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    pub(super) step: u32,
    pub(super) microbatch: u32,
    pub(super) replica: u32,
}

#[derive(Debug)]
enum Text {
    Spelled(Spelling),
    /// So many tokens of which nothing more is known.
    Counted(u64),
}

impl TokenSlots {
    pub(super) fn new(plan: &Plan) -> Self {
        let training = &plan.training;
        let microbatches = u64::from(training.microbatches);
        let replicas = u64::from(plan.parallelism.data);
        let sequences = u64::from(training.steps) * microbatches * replicas * training.micro_batch;
        let read = sequences.saturating_mul(training.sequence_length);
        let text = match &training.words {
            Words::Text { text, .. } => Spelling::new(text, read).map_or(Text::Counted(read), Text::Spelled),
            Words::Tokens(0) => Text::Counted(read),
            Words::Tokens(tokens) => Text::Counted(*tokens),
        };
        Self {
            text,
            width: (plan.model.hidden * training.activation.bytes()).max(1),
            length: training.sequence_length.max(1),
            micro_batch: training.micro_batch,
            microbatches,
            replicas,
        }
    }

    /// The bytes of a microbatch's activation from `offset` on.
    pub(super) fn fill(&self, sequence: Sequence, offset: u64, into: &mut [u8]) {
        let Sequence { step, microbatch, replica } = sequence;
        let microbatch = u64::from(step) * self.microbatches + u64::from(microbatch);
        let first = (microbatch * self.replicas + u64::from(replica)) * self.micro_batch;
        let mut label = Vec::with_capacity(LABEL);
        let (mut offset, mut into) = (offset, into);
        while !into.is_empty() {
            let (slot, within) = (offset / self.width, offset % self.width);
            let left = usize::try_from(self.width - within).unwrap_or(usize::MAX).min(into.len());
            let (piece, rest) = into.split_at_mut(left);
            self.label(first + slot / self.length, slot % self.length, &mut label);
            repeat(&label, self.width, within, piece);
            offset += self.width - within;
            into = rest;
        }
    }

    /// The label of a token, filled up to where it is repeated.
    fn label(&self, sequence: u64, position: u64, label: &mut Vec<u8>) {
        let place = sequence % self.text.tokens().div_ceil(self.length).max(1) * self.length + position;
        let width = usize::try_from(self.width).unwrap_or(usize::MAX);
        label.clear();
        let mut id = None;
        let fits = match self.text.token(place) {
            Some((known, bytes)) => {
                id = Some(known);
                named(label, bytes, width)
            }
            None if place < self.text.tokens() => true,
            None => named(label, b"pad", width),
        };
        if fits {
            let counted = add(label, width, b" token ", position) || add(label, width, b" ", position);
            let _ = counted
                && id.is_none_or(|id| add(label, width, b" id ", id.into()))
                && add(label, width, b" seq ", sequence);
        }
        let filled = label.len().next_power_of_two().max(LEAST).min(width);
        label.extend((label.len()..filled).map(filler));
    }
}

impl Text {
    fn tokens(&self) -> u64 {
        match self {
            Self::Spelled(spelling) => spelling.tokens(),
            Self::Counted(tokens) => *tokens,
        }
    }

    /// The id and the bytes of a token, if they are known.
    fn token(&self, place: u64) -> Option<(u32, &[u8])> {
        match self {
            Self::Spelled(spelling) => spelling.token(place),
            Self::Counted(_) => None,
        }
    }
}

/// Writes a text in brackets, or as much of the text as fits; says whether all did.
fn named(label: &mut Vec<u8>, text: &[u8], width: usize) -> bool {
    // A zero byte could make a frame look like another protocol's.
    let text = text.iter().map(|&byte| if byte == 0 { FILLER } else { byte });
    if text.len() + 2 > width {
        label.extend(text.take(width));
        return false;
    }
    label.push(b'[');
    label.extend(text);
    label.push(b']');
    true
}

/// Adds a word and a number, if they fit; says whether they did. Not by `write!`, which takes most of a frame's time.
fn add(label: &mut Vec<u8>, width: usize, word: &[u8], number: u64) -> bool {
    let word = if label.is_empty() { word.trim_ascii_start() } else { word };
    let digits = number.checked_ilog10().map_or(1, |digits| digits + 1);
    let before = label.len() + word.len();
    let Some(end) = usize::try_from(digits).ok().map(|digits| before + digits).filter(|&end| end <= width)
    else {
        return false;
    };
    label.extend_from_slice(word);
    label.resize(end, b'0');
    let mut left = number;
    for digit in label[before..].iter_mut().rev() {
        let [.., last] = (left % 10).to_be_bytes();
        *digit = b'0' + last;
        left /= 10;
    }
    true
}

/// Writes the bytes of a slot of `width` bytes from `within` on: the label as often as it fits whole, then filler.
fn repeat(label: &[u8], width: u64, within: u64, into: &mut [u8]) {
    let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (width, within) = (index(width), index(within));
    let whole = width - width % label.len();
    let (labels, rest_of_slot) = into.split_at_mut(into.len().min(whole.saturating_sub(within)));
    for (byte, place) in rest_of_slot.iter_mut().zip(within.max(whole)..) {
        *byte = filler(place);
    }
    let (head, rest) = labels.split_at_mut(labels.len().min(label.len() - within % label.len()));
    head.copy_from_slice(&label[within % label.len()..][..head.len()]);
    for piece in rest.chunks_mut(label.len()) {
        piece.copy_from_slice(&label[..piece.len()]);
    }
}

/// What stands at a place where nothing is said: not the same everywhere, so that no frame holds one byte alone, as none of
/// a real activation would.
const fn filler(place: usize) -> u8 {
    if place.is_multiple_of(2) { FILLER } else { b' ' }
}

/// What stands for a byte that may not be there.
pub(super) const FILLER: u8 = b'.';

/// The least distance of two labels.
const LEAST: usize = 16;

/// Longer than nearly all labels.
const LABEL: usize = 256;
