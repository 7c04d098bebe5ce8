//! DCQCN's notification point: which marked frames a receiver answers with a congestion notification packet (CNP).
//!
//! Zhu et al. (SIGCOMM 2015, 3.1): a marked frame is answered at once if no notification went out in the interval before, and
//! otherwise not at all: nothing is put off to the interval's end. The interval is the NIC profile's, a queue pair's own
//! (mlx5: `min_time_between_cnps`). A frame that is not marked never gets here.

use traces::unit::Nanos;

/// The notification point of one queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotificationPoint {
    /// When the next notification may go; none has gone if there is no such time.
    from: Option<Nanos>,
}

/// What a marked frame leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A notification goes to the frame's sender.
    Send,
    /// The last one was too short a time ago.
    Withhold,
}

impl NotificationPoint {
    /// A marked frame has arrived at `now`; at most one notification goes out in any time of `interval`.
    pub fn on_marked(&mut self, now: Nanos, interval: Nanos) -> Notice {
        if self.from.is_some_and(|from| now < from) {
            return Notice::Withhold;
        }
        self.from = Some(Nanos(now.0.saturating_add(interval.0)));
        Notice::Send
    }

    /// Whether a marked frame at `now` would be answered: then it can be forgotten, for a new one does the same.
    #[must_use]
    pub fn is_idle(&self, now: Nanos) -> bool {
        self.from.is_none_or(|from| now >= from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INTERVAL: Nanos = Nanos(4_000);

    fn sent(marks: &[u64]) -> Vec<u64> {
        let mut point = NotificationPoint::default();
        let answered = |mark: &&u64| point.on_marked(Nanos(**mark), INTERVAL) == Notice::Send;
        marks.iter().filter(answered).copied().collect()
    }

    #[test]
    fn the_first_mark_is_answered_at_once_and_then_one_in_four_microseconds() {
        assert_eq!(sent(&[10, 100, 4_009, 4_010, 4_011, 9_000]), [10, 4_010, 9_000]);
        assert_eq!(sent(&[]), [0; 0]);
    }

    #[test]
    fn an_idle_point_is_as_good_as_a_new_one() {
        let mut point = NotificationPoint::default();
        assert!(point.is_idle(Nanos::ZERO));
        point.on_marked(Nanos(5), INTERVAL);
        assert!(!point.is_idle(Nanos(4_004)) && point.is_idle(Nanos(4_005)));
    }

    proptest! {
        #[test]
        fn notifications_keep_their_distance_and_no_mark_is_long_unanswered(
            steps in prop::collection::vec(0..5_000_u64, 1..200),
        ) {
            let marks: Vec<u64> = steps.iter().scan(0, |at, step| { *at += step; Some(*at) }).collect();
            let sent = sent(&marks);
            prop_assert!(sent.windows(2).all(|pair| pair[1] - pair[0] >= INTERVAL.0));
            for mark in marks {
                prop_assert!(sent.iter().any(|at| *at <= mark && mark - at < INTERVAL.0));
            }
        }
    }
}
