//! Percentiles of a latency histogram, shown only where enough samples stand behind them.

use hdrhistogram::Histogram;

use crate::outcome::LatencyKind;

/// A percentile: how reports name it, and the quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Percentile {
    /// The key in JSON, without the unit.
    pub(super) key: &'static str,
    /// The column's head.
    pub(super) name: &'static str,
    /// The quantile, from 0 to 1.
    pub(super) quantile: f64,
    /// Samples that it needs: [`BEYOND`] of them must lie beyond it.
    pub(super) least_count: u64,
}

impl Percentile {
    /// Its value in nanoseconds, if there are samples enough: never above `max`, the exact largest value.
    pub(super) fn of(self, histogram: &Histogram<u64>, min: u64, max: u64) -> Option<u64> {
        (histogram.len() >= self.least_count)
            .then(|| histogram.value_at_quantile(self.quantile).clamp(min, max))
    }

    /// Why it is absent.
    pub(super) fn reason(self, count: u64) -> String {
        format!("n (1 - p) >= {BEYOND} needs {} samples, there are {count}", self.least_count)
    }
}

/// The name of a kind as JSON, tables and tags write it.
pub(super) const fn kind_name(kind: LatencyKind) -> &'static str {
    match kind {
        LatencyKind::Response => "response",
        LatencyKind::Service => "service",
        LatencyKind::Lateness => "lateness",
        LatencyKind::Completion => "completion",
    }
}

/// The percentiles of every report.
pub(super) const PERCENTILES: [Percentile; 3] = [
    Percentile { key: "p50", name: "p50", quantile: 0.5, least_count: 2 * BEYOND },
    Percentile { key: "p99", name: "p99", quantile: 0.99, least_count: 100 * BEYOND },
    Percentile { key: "p999", name: "p99.9", quantile: 0.999, least_count: 1_000 * BEYOND },
];

/// Samples that must lie beyond a percentile for it to be shown: with fewer, it is the luck of a few.
pub(super) const BEYOND: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn one_to(count: u64) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        (1..=count).for_each(|value| histogram.record(value).unwrap());
        histogram
    }

    #[test]
    fn a_percentile_with_fewer_than_ten_samples_beyond_it_is_hidden() {
        let [p50, p99, p999] = PERCENTILES;
        for (count, shown) in [(19, 0), (20, 1), (999, 1), (1_000, 2), (9_999, 2), (10_000, 3)] {
            let histogram = one_to(count);
            let found = [p50, p99, p999].into_iter().filter_map(|p| p.of(&histogram, 1, count)).count();
            assert_eq!(found, shown, "{count} samples");
        }
        assert_eq!(p99.reason(420), "n (1 - p) >= 10 needs 1000 samples, there are 420");
    }

    #[test]
    fn a_percentile_never_passes_the_exact_extremes() {
        // Three digits: buckets of a value near a million are 512 wide, and report their upper edge.
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        histogram.record_n(1_000_000, 20).unwrap();
        assert!(histogram.value_at_quantile(0.5) > 1_000_000);
        assert_eq!(PERCENTILES[0].of(&histogram, 1_000_000, 1_000_000), Some(1_000_000));
    }
}
