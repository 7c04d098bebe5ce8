//! `latency.hlog`: every histogram of a run in the interval log format of the HdrHistogram tools (V2, deflated, base64).
//!
//! A run is one interval; the tag of a line is `KIND`, `KIND/CLASS` or `KIND@NIC`. Values are nanoseconds; the log's own
//! times are seconds with three decimals, as the format has it.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};

/// Writes the log of a run that started at `started_unix_ns` and took `duration_ns`.
pub(super) fn write<'a>(
    mut output: &mut dyn Write,
    started_unix_ns: u64,
    duration_ns: u64,
    histograms: impl IntoIterator<Item = (&'a str, &'a Histogram<u64>)>,
) -> io::Result<()> {
    let started = UNIX_EPOCH + Duration::from_nanos(started_unix_ns);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(started)
        .with_base_time(started)
        .begin_log_with(&mut output, &mut serializer)?;
    log.write_comment(
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"",
    )?;
    for (name, histogram) in histograms {
        let tag = Tag::new(name).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{name}` has a comma, a space or a line end"),
            )
        })?;
        log.write_histogram(histogram, Duration::ZERO, Duration::from_nanos(duration_ns), Some(tag))
            .map_err(|error| match error {
                IntervalLogWriterError::IoError(error) => error,
                IntervalLogWriterError::SerializeError(error) => io::Error::other(error),
            })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn what_was_written_is_read_back_by_the_reader_of_the_format() {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        for value in [1, 1_000, 48_500, 48_500, 2_000_000_000] {
            histogram.record(value).unwrap();
        }
        let empty = Histogram::new_with_bounds(1, 3_600_000_000_000, 2).unwrap();
        let mut log = Vec::new();
        let named = [("response/pp_forward", &histogram), ("service", &empty)];
        write(&mut log, 1_700_000_000_123_000_000, 71_250_000, named).unwrap();
        let entries: Vec<_> = IntervalLogIterator::new(&log).map(Result::unwrap).collect();
        let [
            LogEntry::StartTime(start),
            LogEntry::BaseTime(_),
            LogEntry::Interval(first),
            LogEntry::Interval(last),
        ] = &entries[..]
        else {
            panic!("{entries:?}")
        };
        assert_eq!(start.as_millis(), 1_700_000_000_123);
        assert_eq!(first.tag().unwrap().as_str(), "response/pp_forward");
        assert_eq!(first.duration().as_millis(), 71);
        let bytes = base64::engine::general_purpose::STANDARD.decode(first.encoded_histogram()).unwrap();
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        assert_eq!((read.len(), read.count_at(48_500)), (5, 2));
        assert_eq!(last.tag().unwrap().as_str(), "service");
    }

    #[test]
    fn a_name_that_would_break_the_line_is_refused() {
        let histogram = Histogram::new_with_bounds(1, 1_000, 2).unwrap();
        let error = write(&mut Vec::new(), 0, 0, [("two words", &histogram)]).unwrap_err();
        assert!(error.to_string().contains("`two words`"), "{error}");
    }
}
