//! The receiving half of a reliable connection: what is expected, and what is answered.
//!
//! Frames out of order are dropped, and the first one after a gap is answered with a sequence error; duplicates are
//! acknowledged again (IBTA vol. 1, 9.7.5.1 and C9-105).

use traces::wire::aeth::{Aeth, Syndrome};
use traces::wire::opcode::Place;
use traces::wire::psn::Psn;

use crate::measure::Novelty;

/// What one queue pair receives.
#[derive(Debug)]
pub(super) struct Receiver {
    expected: Psn,
    /// Messages received whole, on the circle of 24 bits.
    message_sequence: Psn,
    /// Messages received whole.
    messages: u32,
    /// Whether the gap in front of `expected` was answered.
    gap_answered: bool,
    /// Whether a message has begun and not ended.
    within: bool,
    answer: Option<Syndrome>,
}

/// What a data frame did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Whether it was new.
    pub(super) novelty: Novelty,
    /// The message that it completes, by its number.
    pub(super) completes: Option<u32>,
}

impl Receiver {
    pub(super) const fn new(first: Psn) -> Self {
        Self {
            expected: first,
            message_sequence: Psn::ZERO,
            messages: 0,
            gap_answered: false,
            within: false,
            answer: None,
        }
    }

    /// Takes a data frame, or drops it.
    pub(super) fn take(&mut self, psn: Psn, place: Place, ack_request: bool) -> Taken {
        let dropped = Taken { novelty: Novelty::Discarded, completes: None };
        match self.expected.distance_to(psn) {
            0 if place.starts() == self.within => {
                // The middle of a message that never began, or a beginning within one.
                self.answer = Some(Syndrome::InvalidRequest);
                return dropped;
            }
            0 => {}
            1.. => {
                if !self.gap_answered {
                    self.gap_answered = true;
                    self.answer = Some(Syndrome::SequenceError);
                }
                return dropped;
            }
            ..0 => {
                self.answer.get_or_insert(Syndrome::UNLIMITED);
                return dropped;
            }
        }
        self.expected = self.expected + 1;
        self.gap_answered = false;
        self.within = !place.ends();
        // A sequence error that has not left yet stays, with the new expected number: what came behind it was dropped.
        if ack_request {
            self.answer.get_or_insert(Syndrome::UNLIMITED);
        }
        let completes = place.ends().then_some(self.messages);
        if place.ends() {
            self.messages = self.messages.wrapping_add(1);
            self.message_sequence = self.message_sequence + 1;
        }
        Taken { novelty: Novelty::Accepted, completes }
    }

    /// Messages received whole: the number of the one that comes next.
    pub(super) const fn messages(&self) -> u32 {
        self.messages
    }

    /// Whether an answer waits to be sent.
    pub(super) const fn has_answer(&self) -> bool {
        self.answer.is_some()
    }

    /// The answer to be sent now: its PSN, and what it says.
    pub(super) fn answer(&mut self) -> Option<(Psn, Aeth)> {
        let syndrome = self.answer.take()?;
        let last = self.expected + ((1 << 24) - 1);
        let psn = if syndrome.is_ack() { last } else { self.expected };
        Some((psn, Aeth::new(syndrome, self.message_sequence)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(receiver: &mut Receiver) -> Option<(u32, Syndrome, u32)> {
        receiver.answer().map(|(psn, aeth)| (psn.value(), aeth.syndrome(), aeth.message_sequence.value()))
    }

    #[test]
    fn one_sequence_error_for_a_gap_and_then_silence() {
        let mut receiver = Receiver::new(Psn::LAST);
        assert_eq!(receiver.take(Psn::LAST, Place::First, false).novelty, Novelty::Accepted);
        assert_eq!(receiver.take(Psn::wrapping(1), Place::Middle, true).novelty, Novelty::Discarded);
        assert_eq!(answer(&mut receiver), Some((0, Syndrome::SequenceError, 0)));
        receiver.take(Psn::wrapping(2), Place::Last, true);
        assert_eq!(answer(&mut receiver), None);
        receiver.take(Psn::ZERO, Place::Middle, true);
        assert_eq!(answer(&mut receiver), Some((0, Syndrome::UNLIMITED, 0)));
        receiver.take(Psn::wrapping(2), Place::Last, true);
        assert_eq!(answer(&mut receiver), Some((1, Syndrome::SequenceError, 0)));
    }

    #[test]
    fn acknowledgements_count_messages_and_duplicates_are_acknowledged_again() {
        let mut receiver = Receiver::new(Psn::ZERO);
        assert_eq!(receiver.take(Psn::ZERO, Place::Only, true).completes, Some(0));
        assert_eq!(receiver.take(Psn::wrapping(1), Place::Only, true).completes, Some(1));
        assert_eq!(answer(&mut receiver), Some((1, Syndrome::UNLIMITED, 2)));
        assert_eq!(receiver.take(Psn::ZERO, Place::Only, false).completes, None);
        assert_eq!(answer(&mut receiver), Some((1, Syndrome::UNLIMITED, 2)));
    }

    #[test]
    fn a_message_that_never_began_is_refused() {
        let mut receiver = Receiver::new(Psn::ZERO);
        receiver.take(Psn::ZERO, Place::Middle, true);
        assert_eq!(answer(&mut receiver), Some((0, Syndrome::InvalidRequest, 0)));
    }
}
