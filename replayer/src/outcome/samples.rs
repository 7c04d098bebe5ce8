//! Samples of a duration: an HDR histogram in text form, with what the histogram cannot hold beside it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Samples in nanoseconds. Extremes are exact; the histogram has three digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Samples {
    /// How many, those outside of the histogram's range included.
    pub count: u64,
    /// The smallest; absent without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ns: Option<u64>,
    /// The largest; absent without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
    /// Samples above [`HIGHEST`], which the histogram holds at its upper edge.
    pub saturated: u64,
    /// Pairs of instants in the wrong order: the clocks cannot be trusted. They are no samples.
    pub negative: u64,
    /// The histogram: V2 with deflate, base64; empty without samples.
    pub histogram: String,
}

/// Why samples cannot be read or merged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SamplesError {
    /// Not base64.
    #[error("a histogram is not base64")]
    Text(#[source] base64::DecodeError),
    /// Not a histogram.
    #[error("a histogram's bytes are not those of HdrHistogram V2 with deflate: {0}")]
    Bytes(String),
    /// It could not be written.
    #[error("a histogram cannot be written: {0}")]
    Write(String),
}

impl Samples {
    /// The samples of a histogram that was filled within [`LOWEST`] and [`HIGHEST`].
    ///
    /// # Errors
    /// [`SamplesError::Write`] if the histogram cannot be written.
    pub fn new(
        histogram: &Histogram<u64>,
        extremes: Option<(u64, u64)>,
        saturated: u64,
        negative: u64,
    ) -> Result<Self, SamplesError> {
        let mut text = String::new();
        if !histogram.is_empty() {
            let mut bytes = Vec::new();
            V2DeflateSerializer::new()
                .serialize(histogram, &mut bytes)
                .map_err(|error| SamplesError::Write(format!("{error:?}")))?;
            text = STANDARD.encode(bytes);
        }
        let (min_ns, max_ns) = extremes.unzip();
        Ok(Self { count: histogram.len(), min_ns, max_ns, saturated, negative, histogram: text })
    }

    /// The histogram; empty if there are no samples.
    ///
    /// # Errors
    /// [`SamplesError`] if the text is no histogram.
    pub fn histogram(&self) -> Result<Histogram<u64>, SamplesError> {
        if self.histogram.is_empty() {
            return Ok(empty_histogram());
        }
        let bytes = STANDARD.decode(&self.histogram).map_err(SamplesError::Text)?;
        Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| SamplesError::Bytes(format!("{error:?}")))
    }

    /// These and the other samples.
    ///
    /// # Errors
    /// [`SamplesError`] if either text is no histogram.
    pub fn merged(&self, other: &Self) -> Result<Self, SamplesError> {
        let mut histogram = empty_histogram();
        for part in [self, other] {
            // What another program wrote may have another range: values beyond ours are held at our edge.
            for step in part.histogram()?.iter_recorded() {
                histogram.saturating_record_n(step.value_iterated_to().min(HIGHEST), step.count_at_value());
            }
        }
        let extremes = (
            [self.min_ns, other.min_ns].into_iter().flatten().min(),
            [self.max_ns, other.max_ns].into_iter().flatten().max(),
        );
        let extremes = extremes.0.zip(extremes.1);
        let sum = |a: u64, b: u64| a.saturating_add(b);
        Self::new(
            &histogram,
            extremes,
            sum(self.saturated, other.saturated),
            sum(self.negative, other.negative),
        )
    }
}

/// A histogram of our range.
#[must_use]
pub fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LOWEST, HIGHEST, 3).expect("1 <= lowest, 2 x lowest <= highest, digits <= 5")
}

/// The least duration that the histograms tell from zero: a nanosecond.
pub const LOWEST: u64 = 1;

/// The longest duration that the histograms hold: an hour.
pub const HIGHEST: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[u64]) -> Samples {
        let mut histogram = empty_histogram();
        values.iter().for_each(|&value| histogram.record(value).unwrap());
        let extremes = values.iter().min().copied().zip(values.iter().max().copied());
        Samples::new(&histogram, extremes, 0, 0).unwrap()
    }

    #[test]
    fn merging_adds_counts_and_keeps_the_exact_extremes() {
        let merged = samples(&[5, 1_000_001]).merged(&samples(&[3, 2_000_003, 7])).unwrap();
        assert_eq!((merged.count, merged.min_ns, merged.max_ns), (5, Some(3), Some(2_000_003)));
        let histogram = merged.histogram().unwrap();
        assert_eq!(histogram.len(), 5);
        assert_eq!(histogram.value_at_quantile(0.5), 7);
    }

    #[test]
    fn no_samples_have_no_extremes_and_no_text() {
        let none = samples(&[]);
        assert_eq!(none, Samples::default());
        assert_eq!(none.merged(&none).unwrap(), none);
        assert_eq!(none.merged(&samples(&[4])).unwrap(), samples(&[4]));
    }

    #[test]
    fn text_that_is_no_histogram_is_refused() {
        let with = |histogram: &str| Samples { histogram: histogram.to_owned(), ..Samples::default() };
        assert!(matches!(with("%").histogram(), Err(SamplesError::Text(_))));
        assert!(matches!(with("AAAA").histogram(), Err(SamplesError::Bytes(_))));
    }
}
