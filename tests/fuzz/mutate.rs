//! How an input is drawn: from one that is right, by changes that know where its fields and blocks begin.

use generator::random::Stream;

/// Draws numbers: the same ones for the same seed, target and number of the input.
pub(crate) struct Dice {
    stream: Stream,
    drawn: u64,
}

/// What an input is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes with fields in binary.
    Binary,
    /// Text, where a field is a word or a number.
    Text,
}

impl Dice {
    pub(crate) fn new(seed: u64, target: &str, input: u64) -> Self {
        Self { stream: Stream::new(seed, target, input), drawn: 0 }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.drawn += 1;
        self.stream.draw(self.drawn)
    }

    /// A number below `bound`; zero if there is none.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        let bound = u64::try_from(bound).expect("a length fits");
        usize::try_from(self.stream.below(bound, self.drawn)).expect("below a length")
    }

    /// Whether one of `many` came up.
    pub(crate) fn once_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    fn byte(&mut self) -> u8 {
        self.number().to_le_bytes()[0]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.byte()).collect()
    }
}

/// An input: in one case of sixteen mere noise, else an example with a few changes.
pub(crate) fn draw(
    dice: &mut Dice,
    kind: Kind,
    examples: &[Vec<u8>],
    seams: impl Fn(&[u8]) -> Vec<usize>,
) -> Vec<u8> {
    if dice.once_in(16) {
        return dice.bytes(NOISE);
    }
    let mut input = dice.pick(examples).cloned().unwrap_or_default();
    // Mostly one change, so that what stands behind it is still read; now and then many.
    let mut changes = 1;
    while changes < 32 && !dice.once_in(2) {
        changes += 1;
    }
    for _ in 0..changes {
        let seams = seams(&input);
        match kind {
            Kind::Text if !dice.once_in(3) => change_word(dice, &mut input, &seams),
            Kind::Text | Kind::Binary => change(dice, &mut input, &seams, examples),
        }
        input.truncate(LONGEST);
    }
    input
}

fn change(dice: &mut Dice, input: &mut Vec<u8>, seams: &[usize], examples: &[Vec<u8>]) {
    let at = place(dice, input, seams);
    match dice.below(10) {
        // A bit, or a byte.
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = dice.byte();
            }
        }
        // A field, with a number that lies at an edge.
        2..=4 => {
            let value = interesting(dice);
            let width = 1 << dice.below(4);
            let bytes = if dice.once_in(2) {
                value.to_le_bytes()[..width].to_vec()
            } else {
                value.to_be_bytes()[8 - width..].to_vec()
            };
            for (byte, new) in input.iter_mut().skip(at).zip(bytes) {
                *byte = new;
            }
        }
        // A cut.
        5 => input.truncate(at),
        // A block goes, comes twice, or comes from elsewhere.
        6 => {
            let range = block(dice, input, seams);
            input.drain(range);
        }
        7 => {
            let copy = input[block(dice, input, seams)].to_vec();
            let times = if dice.once_in(8) { 64 } else { 1 };
            input.splice(at..at, copy.repeat(times));
        }
        8 => {
            let other = dice.pick(examples).cloned().unwrap_or_default();
            let from = dice.below(other.len() + 1);
            let length = dice.below((other.len() - from).min(512) + 1);
            let over = if dice.once_in(2) { length.min(input.len() - at) } else { 0 };
            input.splice(at..at + over, other[from..from + length].iter().copied());
        }
        _ => {
            let noise = dice.bytes(64);
            input.splice(at..at, noise);
        }
    }
}

/// Puts another word where a word or a number stands.
fn change_word(dice: &mut Dice, input: &mut Vec<u8>, seams: &[usize]) {
    let at = place(dice, input, seams);
    let old = input[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
        .count();
    let new = match dice.below(8) {
        0 => dice.below(100).to_string().into_bytes(),
        1 => interesting(dice).to_string().into_bytes(),
        2 => {
            let depth = 1 << dice.below(16);
            dice.pick(&["[", "{\"a\":", "(", "a.", "[[", "{a="])
                .map_or("", |word| word)
                .repeat(depth)
                .into_bytes()
        }
        _ => dice.pick(WORDS).map_or("", |word| word).as_bytes().to_vec(),
    };
    input.splice(at..at + old, new);
}

/// Somewhere in the input; mostly where a field begins.
fn place(dice: &mut Dice, input: &[u8], seams: &[usize]) -> usize {
    if dice.once_in(3) {
        return dice.below(input.len() + 1);
    }
    dice.pick(seams).copied().unwrap_or(0).min(input.len())
}

/// From one seam to another not far behind.
fn block(dice: &mut Dice, input: &[u8], seams: &[usize]) -> std::ops::Range<usize> {
    let first = dice.below(seams.len());
    let last = first + 1 + dice.below(8);
    let start = seams.get(first).copied().unwrap_or(0).min(input.len());
    let end = seams.get(last).copied().unwrap_or(input.len()).clamp(start, input.len());
    start..end
}

/// A number at an edge: of a width, of a limit that the formats have, or one beside it.
fn interesting(dice: &mut Dice) -> u64 {
    let edge = match dice.below(3) {
        0 => 1_u64 << dice.below(64),
        1 => dice.pick(EDGES).copied().unwrap_or(0),
        _ => u64::from(dice.byte()),
    };
    match dice.below(4) {
        0 => edge.wrapping_sub(1),
        1 => edge.wrapping_add(1),
        2 => edge.wrapping_neg(),
        _ => edge,
    }
}

/// The longest noise.
const NOISE: usize = 2_000;

/// The longest input: changes do not make it longer.
const LONGEST: usize = 256 << 10;

/// Limits of the formats: snapshot length, a record's length, MTUs, a second in its units, RoCE's port.
const EDGES: &[u64] =
    &[0, 60, 1_500, 4_096, 4_791, 9_000, 65_535, 262_144, 1_000_000, 1 << 20, 1_000_000_000];

const WORDS: &[&str] = &[
    "",
    "0",
    "-1",
    "1e400",
    "0.5",
    "null",
    "true",
    "\"\"",
    "\"a\"",
    "[]",
    "{}",
    ",",
    ":",
    "=",
    "\n",
    "\"",
    "'",
    "\\u0000",
    "../",
    "/",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "1e-400",
    "nan",
    "inf",
    "1979-05-27",
    "0x7fffffff",
    "\"400Gbit\"",
    "\"1us\"",
    "\"18446744073709551615s\"",
    "\"99999999999EiB\"",
    "\u{feff}",
    "\r\n",
];
