//! Samples of one kind: a histogram with the exact extremes and what fell outside beside it.

use hdrhistogram::Histogram;
use traces::unit::Nanos;

use crate::outcome::samples::{HIGHEST, empty_histogram};
use crate::outcome::{Samples, SamplesError};

/// Records durations. One writer; merge afterwards.
#[derive(Clone, Debug)]
pub struct Recorder {
    histogram: Histogram<u64>,
    extremes: Option<(u64, u64)>,
    saturated: u64,
    negative: u64,
}

impl Recorder {
    /// Without samples.
    #[must_use]
    pub fn new() -> Self {
        Self { histogram: empty_histogram(), extremes: None, saturated: 0, negative: 0 }
    }

    /// Records the time from one instant to another. If the second is before the first, clocks cannot be trusted:
    /// that is counted, and is no sample.
    pub fn record(&mut self, from: Nanos, to: Nanos) {
        let Some(duration) = to.0.checked_sub(from.0) else {
            self.negative += 1;
            return;
        };
        self.saturated += u64::from(duration > HIGHEST);
        self.histogram.saturating_record(duration.min(HIGHEST));
        let (min, max) = self.extremes.unwrap_or((duration, duration));
        self.extremes = Some((min.min(duration), max.max(duration)));
    }

    /// The samples as they travel.
    ///
    /// # Errors
    /// [`SamplesError`] if the histogram cannot be written.
    pub fn samples(&self) -> Result<Samples, SamplesError> {
        Samples::new(&self.histogram, self.extremes, self.saturated, self.negative)
    }

    /// The smallest and the largest sample.
    #[must_use]
    pub const fn extremes(&self) -> Option<(u64, u64)> {
        self.extremes
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_stay_exact_and_what_is_outside_is_counted() {
        let mut recorder = Recorder::new();
        for duration in [0, 1_234_567, HIGHEST, HIGHEST + 5] {
            recorder.record(Nanos(10), Nanos(10 + duration));
        }
        recorder.record(Nanos(10), Nanos(9));
        let samples = recorder.samples().unwrap();
        assert_eq!((samples.count, samples.saturated, samples.negative), (4, 1, 1));
        assert_eq!((samples.min_ns, samples.max_ns), (Some(0), Some(HIGHEST + 5)));
    }
}
