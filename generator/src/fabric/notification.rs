//! DCQCN's notification point: which marked frames a receiver answers with a congestion notification packet (CNP).
//!
//! Zhu et al. (SIGCOMM 2015, 3.1): a marked frame is answered if no notification went out in the interval before, and
//! otherwise not at all: nothing is put off to the interval's end. The interval is the NIC profile's, a queue pair's own
//! (mlx5: `min_time_between_cnps`), and counts from when a notification leaves, so that it is what a capture shows. While one
//! is made or waits for the line, it speaks for the marks that come meanwhile. A frame that is not marked never gets here.

use traces::unit::Nanos;

/// The notification point of one queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotificationPoint {
    /// Whether a notification is made and has not left.
    under_way: bool,
    /// When the next may be asked for; none has left if there is no such time.
    from: Option<Nanos>,
}

/// What a marked frame leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A notification goes to the frame's sender.
    Send,
    /// The last one was too short a time ago, or has not left.
    Withhold,
}

impl NotificationPoint {
    /// A marked frame has begun to arrive at `now`.
    pub fn on_marked(&mut self, now: Nanos) -> Notice {
        if self.under_way || self.from.is_some_and(|from| now < from) {
            return Notice::Withhold;
        }
        self.under_way = true;
        Notice::Send
    }

    /// The notification leaves at `now`: no other in the `interval` after it.
    pub fn on_sent(&mut self, now: Nanos, interval: Nanos) {
        *self = Self { under_way: false, from: Some(Nanos(now.0.saturating_add(interval.0))) };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INTERVAL: Nanos = Nanos(4_000);

    /// Which marks are answered, when each notification leaves `delay` after its mark.
    fn answered(marks: &[u64], delay: u64) -> Vec<u64> {
        let mut point = NotificationPoint::default();
        let mut leaves: Option<u64> = None;
        let mut answered = Vec::new();
        for &mark in marks {
            if let Some(at) = leaves.take_if(|at| *at <= mark) {
                point.on_sent(Nanos(at), INTERVAL);
            }
            if point.on_marked(Nanos(mark)) == Notice::Send {
                leaves = Some(mark + delay);
                answered.push(mark);
            }
        }
        answered
    }

    #[test]
    fn the_first_mark_is_answered_at_once_and_then_one_in_four_microseconds() {
        assert_eq!(answered(&[10, 100, 4_009, 4_010, 4_011, 9_000], 0), [10, 4_010, 9_000]);
        assert_eq!(answered(&[], 0), [0; 0]);
    }

    #[test]
    fn the_interval_counts_from_when_a_notification_leaves() {
        assert_eq!(answered(&[10, 1_009, 5_009, 5_010], 1_000), [10, 5_010]);
    }

    proptest! {
        #[test]
        fn notifications_keep_their_distance_and_no_mark_is_long_unanswered(
            steps in prop::collection::vec(0..5_000_u64, 1..200), delay in 0..3_000_u64,
        ) {
            let marks: Vec<u64> = steps.iter().scan(0, |at, step| { *at += step; Some(*at) }).collect();
            let answered = answered(&marks, delay);
            prop_assert!(answered.windows(2).all(|pair| pair[1] - pair[0] >= INTERVAL.0 + delay));
            for mark in marks {
                prop_assert!(answered.iter().any(|at| *at <= mark && mark - at < INTERVAL.0 + delay));
            }
        }
    }
}
