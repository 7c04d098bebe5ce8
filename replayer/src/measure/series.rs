//! Traffic in bins of time. When there are too many, neighbours become one.

use traces::unit::Nanos;

use crate::outcome::{IntervalBin, Intervals};

/// Bins from the run's start, at most 8,192.
#[derive(Clone, Debug)]
pub struct Series {
    start: Nanos,
    bin: Nanos,
    bins: Vec<IntervalBin>,
}

impl Series {
    /// Empty bins of the length `bin`, at least a nanosecond.
    #[must_use]
    pub fn new(start: Nanos, bin: Nanos) -> Self {
        Self { start, bin: bin.max(Nanos(1)), bins: Vec::with_capacity(1 << 13) }
    }

    /// The bin of an instant.
    pub fn at(&mut self, now: Nanos) -> &mut IntervalBin {
        let since = now.0.saturating_sub(self.start.0);
        let mut index = since / self.bin.0;
        while index >= MOST_BINS {
            self.halve();
            index = since / self.bin.0;
        }
        let index = usize::try_from(index).unwrap_or(0);
        if index >= self.bins.len() {
            self.bins.resize(index + 1, IntervalBin::default());
        }
        &mut self.bins[index]
    }

    /// The bins as they travel.
    #[must_use]
    pub fn intervals(&self) -> Intervals {
        Intervals { bin_ns: self.bin.0, bins: self.bins.clone() }
    }

    fn halve(&mut self) {
        self.bin = Nanos(self.bin.0.saturating_mul(2));
        let pairs = self.bins.len().div_ceil(2);
        for pair in 0..pairs {
            let mut sum = self.bins[2 * pair];
            if let Some(second) = self.bins.get(2 * pair + 1) {
                sum.frames_sent += second.frames_sent;
                sum.frames_received += second.frames_received;
                sum.frame_bytes_sent += second.frame_bytes_sent;
                sum.frame_bytes_received += second.frame_bytes_received;
                sum.payload_bytes_sent += second.payload_bytes_sent;
                sum.payload_bytes_received += second.payload_bytes_received;
            }
            self.bins[pair] = sum;
        }
        self.bins.truncate(pairs);
    }
}

/// The most bins; one more makes each twice as long.
const MOST_BINS: u64 = 1 << 13;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_a_run_has_longer_bins_and_loses_nothing() {
        let mut series = Series::new(Nanos(1_000), Nanos(10));
        for now in [0, 1_000, 1_009, 1_010, 1_000 + 10 * MOST_BINS] {
            series.at(Nanos(now)).frames_sent += 1;
        }
        let intervals = series.intervals();
        assert_eq!(intervals.bin_ns, 20);
        assert_eq!(intervals.bins.len(), 4_097);
        assert_eq!(intervals.bins[0].frames_sent, 4);
        assert_eq!(intervals.bins[4_096].frames_sent, 1);
    }
}
