//! A check's result: how much it examined, what it found wrong, and the first examples.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// What it belongs to.
    pub family: String,
    /// How often there was something to examine. A check that examined nothing has not passed.
    pub examined: u64,
    /// How often it was wrong.
    pub violations: u64,
    /// The first of them.
    pub examples: Vec<Example>,
}

/// A frame that violates a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Example {
    /// The capture.
    pub file: String,
    /// The frame's number in it, from 1.
    pub frame: u64,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// A check's result in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Something was examined, and all of it was right.
    Passed,
    /// Something was wrong.
    Violated,
    /// There was nothing to examine.
    Idle,
}

impl Check {
    /// The result in a word.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        match (self.examined, self.violations) {
            (0, 0) => Verdict::Idle,
            (_, 0) => Verdict::Passed,
            _ => Verdict::Violated,
        }
    }
}

/// Whether all is well: nothing was wrong, and at least one check had something to examine.
#[must_use]
pub fn passed(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.violations == 0) && checks.iter().any(|check| check.examined > 0)
}

/// A check's result as it grows.
#[derive(Debug, Default)]
pub(super) struct Tally {
    examined: u64,
    violations: u64,
    examples: Vec<Example>,
}

impl Tally {
    /// Counts something examined.
    #[inline]
    pub(super) fn examine(&mut self) {
        self.examined += 1;
    }

    /// Counts what was examined so often.
    pub(super) fn examine_many(&mut self, count: u64) {
        self.examined += count;
    }

    /// How much was examined, and how much was wrong.
    #[inline]
    pub(super) const fn counts(&self) -> (u64, u64) {
        (self.examined, self.violations)
    }

    /// Counts a violation.
    #[cold]
    #[inline(never)]
    pub(super) fn violate(&mut self, file: &str, frame: u64, what: impl FnOnce() -> String) {
        self.violations += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(Example { file: file.to_owned(), frame, what: what() });
        }
    }

    /// Counts violations of which no example is known.
    pub(super) fn violate_many(&mut self, count: u64) {
        self.violations += count;
    }

    pub(super) fn check(self, family: &str, name: &str) -> Check {
        let Self { examined, violations, examples } = self;
        Check { name: name.to_owned(), family: family.to_owned(), examined, violations, examples }
    }
}

const EXAMPLES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_examined_nothing_has_not_passed() {
        let idle = Tally::default().check("any", "idle");
        assert_eq!(idle.verdict(), Verdict::Idle);
        assert!(!passed(std::slice::from_ref(&idle)));
        let mut tally = Tally::default();
        tally.examine();
        let good = tally.check("any", "good");
        assert_eq!(good.verdict(), Verdict::Passed);
        assert!(passed(&[idle, good]));
    }

    #[test]
    fn five_examples_are_kept_and_all_are_counted() {
        let mut tally = Tally::default();
        for frame in 1..=7 {
            tally.examine();
            tally.violate("a.pcap", frame, || format!("frame {frame}"));
        }
        let check = tally.check("any", "bad");
        assert_eq!((check.examined, check.violations, check.examples.len()), (7, 7, 5));
        assert_eq!(check.verdict(), Verdict::Violated);
        assert!(!passed(&[check]));
    }
}
