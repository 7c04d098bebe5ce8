//! Which sequence numbers of a flow have arrived: a bitmap that slides with the highest.

/// The numbers seen among the last [`SequenceWindow::SPAN`].
#[derive(Clone, Debug)]
pub struct SequenceWindow {
    /// The bit of number `n` is bit `n % 64` of word `n / 64 % WORDS`.
    words: Box<[u64]>,
    /// One more than the highest seen.
    end: u64,
}

/// What is known of a number that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// For the first time, and higher than all before.
    Next,
    /// For the first time, but after a higher one: this many numbers behind it.
    Behind(u64),
    /// Again.
    Again,
    /// So far behind that it is not known whether it had come before.
    Unknown(u64),
}

impl SequenceWindow {
    /// How far back it remembers.
    pub const SPAN: u64 = 1 << 15;

    /// Nothing seen.
    #[must_use]
    pub fn new() -> Self {
        Self { words: vec![0; WORDS].into_boxed_slice(), end: 0 }
    }

    /// One more than the highest number seen.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Notes a number, and says what is known of it.
    pub fn note(&mut self, number: u64) -> Seen {
        if number >= self.end {
            self.slide(number.saturating_add(1));
            *self.word(number) |= 1 << (number % 64);
            return Seen::Next;
        }
        let behind = self.end - 1 - number;
        if behind >= Self::SPAN {
            return Seen::Unknown(behind);
        }
        let bit = 1 << (number % 64);
        let word = self.word(number);
        if *word & bit != 0 {
            return Seen::Again;
        }
        *word |= bit;
        Seen::Behind(behind)
    }

    /// Forgets what falls out when `end` becomes the end.
    fn slide(&mut self, end: u64) {
        if end - self.end >= Self::SPAN {
            self.words.fill(0);
        } else {
            let mut number = self.end;
            while number < end {
                if number.is_multiple_of(64) && end - number >= 64 {
                    *self.word(number) = 0;
                    number += 64;
                } else {
                    *self.word(number) &= !(1 << (number % 64));
                    number += 1;
                }
            }
        }
        self.end = end;
    }

    fn word(&mut self, number: u64) -> &mut u64 {
        let index = usize::try_from(number / 64 % (Self::SPAN / 64)).unwrap_or(0);
        &mut self.words[index]
    }
}

impl Default for SequenceWindow {
    fn default() -> Self {
        Self::new()
    }
}

const WORDS: usize = 512;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_words_are_the_span() {
        assert_eq!(u64::try_from(WORDS * 64).unwrap(), SequenceWindow::SPAN);
    }

    #[test]
    fn a_duplicate_does_not_hide_a_loss() {
        let mut window = SequenceWindow::new();
        let seen: Vec<_> = [0, 1, 3, 3, 2, 2, 5].into_iter().map(|number| window.note(number)).collect();
        assert_eq!(
            seen,
            [Seen::Next, Seen::Next, Seen::Next, Seen::Again, Seen::Behind(1), Seen::Again, Seen::Next]
        );
        assert_eq!(window.end(), 6);
    }

    #[test]
    fn what_is_too_far_behind_is_not_guessed() {
        let mut window = SequenceWindow::new();
        window.note(0);
        window.note(SequenceWindow::SPAN);
        assert_eq!(window.note(0), Seen::Unknown(SequenceWindow::SPAN));
        assert_eq!(window.note(1), Seen::Behind(SequenceWindow::SPAN - 1));
        assert_eq!(window.note(u64::MAX), Seen::Next);
    }

    proptest! {
        #[test]
        fn within_the_span_it_is_a_set(numbers in proptest::collection::vec(0_u64..SequenceWindow::SPAN, 1..400)) {
            let mut window = SequenceWindow::new();
            let mut set = BTreeSet::new();
            for number in numbers {
                let highest = set.last().copied();
                let expected = match (set.insert(number), highest) {
                    (false, _) => Seen::Again,
                    (true, Some(highest)) if highest > number => Seen::Behind(highest - number),
                    (true, _) => Seen::Next,
                };
                prop_assert_eq!(window.note(number), expected);
            }
        }
    }
}
