//! One target in a process of its own: inputs one after the other, each written down before it is read.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use replayer::clock::Clock;
use traces::unit::{Bytes, Nanos};

use crate::corpus::Material;
use crate::memory;
use crate::mutate::{self, Dice};
use crate::target::{Answer, Target};

/// Inputs begun: what the watchdog looks at.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Runs a target for so long in `folder`, and says how it went.
pub(crate) fn run(target: &Target, seed: u64, milliseconds: u64, folder: &Path) {
    let mut examples = (target.examples)(&Material::make(folder));
    let mut tried = Tried::new(target, folder);
    thread::spawn(watch);
    for example in &examples {
        let answer = tried.answer(example);
        assert!(answer.accepted, "an example of our own is refused: {}", answer.text);
    }
    let own = examples.len();
    let clock = Clock::since(Clock::MONOTONIC.now());
    let end = Nanos(milliseconds * 1_000_000);
    let mut accepted = 0_u64;
    let mut inputs = 0;
    while clock.now() < end {
        inputs += 1;
        let mut dice = Dice::new(seed, target.name, inputs);
        let known = if dice.once_in(2) { &examples[..own] } else { &examples };
        let input = mutate::draw(&mut dice, target.kind, known, target.seams);
        let answer = tried.answer(&input);
        accepted += u64::from(answer.accepted);
        if tried.is_new(&answer) && examples.len() < MOST_EXAMPLES {
            examples.push(input);
        }
    }
    // What C libraries take (zstd's tables) passes by the counted heap: the whole process is bounded too.
    let resident = resident();
    assert!(
        resident <= MOST_RESIDENT,
        "the process has taken {resident} of memory; the bound is {MOST_RESIDENT}"
    );
    let (most, of) = tried.most;
    println!(
        "fuzz {:<10} {inputs:>8} inputs, {accepted:>7} read to the end, {:>4} kinds of answer, at most {most} of heap (for {of})",
        target.name,
        tried.answers.len(),
    );
}

/// Reads one input again.
pub(crate) fn replay(target: &Target, file: &Path) {
    let input = fs::read(file).unwrap();
    let folder = tempfile::tempdir().unwrap();
    thread::spawn(watch);
    let answer = Tried::new(target, folder.path()).answer(&input);
    println!("{} bytes as {}: {}", input.len(), target.name, answer.text);
}

/// Where a run in `folder` writes the input that it is about to read.
pub(crate) fn input_path(folder: &Path) -> PathBuf {
    folder.join("input")
}

/// What a target was given, and what it answered.
struct Tried<'a> {
    target: &'a Target,
    folder: &'a Path,
    input: File,
    answers: BTreeSet<String>,
    /// The most heap that was held, and the length of the input that did.
    most: (Bytes, Bytes),
}

impl<'a> Tried<'a> {
    fn new(target: &'a Target, folder: &'a Path) -> Self {
        let input = File::create(input_path(folder)).unwrap();
        Self { target, folder, input, answers: BTreeSet::new(), most: (Bytes(0), Bytes(0)) }
    }

    fn answer(&mut self, bytes: &[u8]) -> Answer {
        self.input.rewind().unwrap();
        self.input.write_all(bytes).unwrap();
        self.input.set_len(bytes.len().try_into().unwrap()).unwrap();
        BEGUN.fetch_add(1, Relaxed);
        let (answer, held) = memory::measured(|| (self.target.read)(bytes, self.folder));
        let bound = self.target.fixed + self.target.per_byte * bytes.len();
        assert!(
            held <= bound,
            "{} bytes made {} hold {held} bytes of heap; the bound is {} + {} x input = {bound}",
            bytes.len(),
            self.target.name,
            self.target.fixed,
            self.target.per_byte,
        );
        self.most = self.most.max((Bytes(held.try_into().unwrap()), Bytes(bytes.len().try_into().unwrap())));
        answer
    }

    /// Whether nothing was answered like this before, numbers and names aside.
    fn is_new(&mut self, answer: &Answer) -> bool {
        let plain = |word: &&str| {
            let mut letters = word.chars().filter(|c| c.is_alphanumeric());
            !letters.all(|c| c.is_ascii_hexdigit()) && !word.contains(|c: char| c.is_ascii_digit())
        };
        let words: Vec<_> = answer.text.split_whitespace().filter(plain).take(16).collect();
        self.answers.len() < MOST_ANSWERS && self.answers.insert(words.join(" "))
    }
}

/// The most memory that the process has had at once (Linux: `VmHWM`); nothing where that is not told.
fn resident() -> Bytes {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    Bytes(kibibytes.map_or(0, |kibibytes: u64| kibibytes * 1_024))
}

/// Ends the process when an input takes too long.
fn watch() {
    let mut seen = BEGUN.load(Relaxed);
    let mut waited = Duration::ZERO;
    loop {
        thread::sleep(STEP);
        waited += STEP;
        let now = BEGUN.load(Relaxed);
        if now != seen {
            (seen, waited) = (now, Duration::ZERO);
        }
        if waited >= LONGEST {
            eprintln!("an input is not read within {} s", LONGEST.as_secs());
            process::exit(1);
        }
    }
}

/// A thousand times what the slowest input of any target takes on a slow machine without optimization.
const LONGEST: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(200);

/// The examples, the widest window that a compressed file may ask for (128 MiB), and as much again for the rest.
const MOST_RESIDENT: Bytes = Bytes(256 << 20);

const MOST_EXAMPLES: usize = 600;
const MOST_ANSWERS: usize = 2_000;
