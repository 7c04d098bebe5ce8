//! The responding side of a queue pair: what it expects, what it has, and what it says about it.
//!
//! The rules of a reliable connection's responder (IBTA vol. 1, 9.7.5): frames are taken in order; the first that comes too
//! early is answered by one NAK with the number that is expected, and all until then are dropped; what was there before is
//! acknowledged again.

use traces::unit::Nanos;
use traces::wire::Psn;

use crate::fabric::NotificationPoint;

/// The responding side of a queue pair.
#[derive(Clone, Debug, Default)]
pub(super) struct Responder {
    /// The frame that comes next, counted from the first.
    expected: u64,
    /// Whether the sender was told to go back to it.
    refused: bool,
    /// Messages completed.
    completed: Psn,
    /// When its last answer was made: they keep their order.
    pub(super) answered: Nanos,
    /// Answers made, and those that acknowledged again.
    pub(super) answers: u64,
    pub(super) repeated: u32,
    /// Times drawn for answers and notifications.
    pub(super) drawn: u64,
    /// When marked frames are answered, and how often they were.
    pub(super) notifications: NotificationPoint,
    pub(super) notified: u32,
    /// How often it was not ready for the frame that is expected.
    unready: u32,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is taken.
    Taken,
    /// It came before: what is there is acknowledged again.
    Duplicate,
    /// Frames before it are missing, and the sender is told.
    Missing,
    /// No memory waits for it, and the sender is told.
    NotReady,
    /// It is dropped, and nothing is said.
    Dropped,
}

impl Responder {
    /// A frame arrives; `ends` says whether a message ends with it, `ready(attempt)` whether there is memory for it.
    pub(super) fn take(&mut self, frame: u64, ends: bool, ready: impl FnOnce(u32) -> bool) -> Verdict {
        if frame < self.expected {
            return Verdict::Duplicate;
        }
        if frame > self.expected {
            return if std::mem::replace(&mut self.refused, true) {
                Verdict::Dropped
            } else {
                Verdict::Missing
            };
        }
        if !ready(self.unready + 1) {
            self.unready += 1;
            self.refused = true;
            return Verdict::NotReady;
        }
        self.unready = 0;
        self.refused = false;
        self.expected += 1;
        if ends {
            self.completed = self.completed + 1;
        }
        Verdict::Taken
    }

    /// The frame that comes next.
    pub(super) const fn expected(&self) -> u64 {
        self.expected
    }

    /// Messages completed.
    pub(super) const fn completed(&self) -> Psn {
        self.completed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_told_once_until_it_is_filled() {
        let mut responder = Responder::default();
        let mut take = |frame| responder.take(frame, false, |_| true);
        use Verdict::{Dropped, Duplicate, Missing, Taken};
        assert_eq!([0, 2, 3, 4].map(&mut take), [Taken, Missing, Dropped, Dropped]);
        assert_eq!(
            [0, 1, 2, 4, 5, 3, 4].map(&mut take),
            [Duplicate, Taken, Taken, Missing, Dropped, Taken, Taken]
        );
        assert_eq!(responder.expected(), 5);
    }

    #[test]
    fn memory_that_is_not_there_is_told_each_time() {
        let mut responder = Responder::default();
        let mut take = |frame| responder.take(frame, true, |attempt| attempt > 2);
        use Verdict::{Dropped, NotReady, Taken};
        assert_eq!([0, 1, 0, 0, 1].map(&mut take), [NotReady, Dropped, NotReady, Taken, NotReady]);
        assert_eq!(responder.completed(), Psn::wrapping(1));
    }
}
