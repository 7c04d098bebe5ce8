//! Fuzzing: whatever bytes come as a frame, a capture, a manifest, a graph or a plan, nothing panics, nothing runs
//! on, and memory stays under a stated bound.
//!
//! ```text
//! cargo test --test fuzz                                   a few seconds
//! TOKENWIRE_FUZZ_SECONDS=3600 cargo test --release --test fuzz          an hour
//! TOKENWIRE_FUZZ_SECONDS=60 cargo test --test fuzz -- graph             one target
//! cargo test --test fuzz -- --replay graph FILE            an input that failed, once more
//! ```
//! Coverage-guided fuzzing needs a nightly compiler; this runs on the stable one. What it has instead: examples made by our own
//! writers, changes that know where fields begin, and inputs that are kept when they are answered in a new way.
//!
//! Each target runs in a process of its own, which writes each input to a file before it is read, so whatever ends the process
//! (a panic, an overflow of the stack, a refused allocation, its own watchdog) leaves the input behind.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that is its own harness says how it went"
)]
#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

mod corpus;
mod memory;
mod mutate;
mod target;
mod worker;

use std::env;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::str::FromStr;
use std::sync::Mutex;
use std::thread;

use target::{TARGETS, Target};

#[global_allocator]
static HEAP: memory::Counted = memory::Counted;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--replay", name, file] => worker::replay(named(name), Path::new(file)),
        ["--worker", name, seed, milliseconds, folder] => {
            worker::run(named(name), seed.parse().unwrap(), milliseconds.parse().unwrap(), Path::new(folder));
        }
        // As the standard harness answers, for programs that ask.
        _ if words.contains(&"--list") => TARGETS.iter().for_each(|target| println!("{}: test", target.name)),
        _ => return all(&words),
    }
    ExitCode::SUCCESS
}

/// Runs the targets whose names hold one of the words; all if none is given.
fn all(words: &[&str]) -> ExitCode {
    let filters: Vec<_> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let wanted =
        |target: &&Target| filters.is_empty() || filters.iter().any(|word| target.name.contains(**word));
    let targets: Vec<_> = TARGETS.iter().filter(wanted).collect();
    let seconds: u64 = setting("TOKENWIRE_FUZZ_SECONDS", DEFAULT_SECONDS);
    let seed: u64 = setting("TOKENWIRE_FUZZ_SEED", 1);
    let lanes = thread::available_parallelism().map_or(1, usize::from).min(targets.len().max(1));
    let share =
        seconds * 1_000 * u64::try_from(lanes).unwrap() / u64::try_from(targets.len().max(1)).unwrap();
    println!("\nfuzzing {} targets for {seconds} s with seed {seed}", targets.len());
    let (queue, failed) = (Mutex::new(targets.into_iter()), Mutex::new(false));
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let Some(target) = queue.lock().unwrap().next() else { break };
                    if let Err(what) = fuzz(target, seed, share) {
                        eprintln!("{what}");
                        *failed.lock().unwrap() = true;
                    }
                }
            });
        }
    });
    if *failed.lock().unwrap() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs one target in a process of its own; what went wrong, with the input's place.
fn fuzz(target: &Target, seed: u64, milliseconds: u64) -> Result<(), String> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args(["--worker", target.name, &seed.to_string(), &milliseconds.to_string()])
        .arg(folder.path())
        .env("RUST_BACKTRACE", "1")
        .output()
        .unwrap();
    if output.status.success() {
        print!("{}", String::from_utf8_lossy(&output.stdout));
        return Ok(());
    }
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}-seed-{seed}", target.name));
    let said = String::from_utf8_lossy(&output.stderr);
    let input = match fs::copy(worker::input_path(folder.path()), &kept) {
        Ok(bytes) => format!(
            "the input has {bytes} bytes; replay it: cargo test --test fuzz -- --replay {} {}",
            target.name,
            kept.display()
        ),
        Err(error) => format!("before the first input ({error})"),
    };
    Err(format!("{}: {} with seed {seed}\n{said}\n{input}", target.name, output.status))
}

fn named(name: &str) -> &'static Target {
    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    TARGETS
        .iter()
        .find(|target| target.name == name)
        .unwrap_or_else(|| panic!("no target `{name}` in {names:?}"))
}

fn setting<T: FromStr<Err: Display>>(name: &str, default: T) -> T {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")),
        Err(_) => default,
    }
}

/// Of all targets together, under a plain `cargo test`.
const DEFAULT_SECONDS: u64 = 4;
