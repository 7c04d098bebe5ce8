//! Checks of time: captures are sorted, and no line carries two frames at once.

use std::collections::BTreeMap;

use super::check::Tally;
use super::sight::{Rule, Sight};
use crate::unit::{Bytes, Nanos};
use crate::wire::Mac;
use crate::wire::segment::line_bytes;

pub(super) fn rules() -> Vec<Box<dyn Rule>> {
    vec![Box::new(Sorted::default()), Box::new(Spacing::default())]
}

/// The times of a capture never go back.
#[derive(Default)]
struct Sorted(BTreeMap<usize, Nanos>);

impl Rule for Sorted {
    fn name(&self) -> &'static str {
        "timestamps_sorted"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let before = self.0.insert(sight.file, sight.time).filter(|&before| before > sight.time);
        let wrong = before
            .map(|before| format!("seen {} ns before the frame in front of it", before.0 - sight.time.0));
        sight.judge(tally, wrong);
    }
}

/// A frame does not start before the line has carried the one in front of it: (length + 24) * 8 / rate, with
/// one nanosecond for rounding. What a port sends and what it receives are two lines. Without a rate nothing
/// is examined.
#[derive(Default)]
struct Spacing(BTreeMap<(usize, Line), (Nanos, u32)>);

/// A line, as well as it is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Sent,
    Received,
    /// The port is not known, so only frames of one sender are compared.
    From(Mac),
}

impl Rule for Spacing {
    fn name(&self) -> &'static str {
        "spacing"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some(rate) = sight.rate else { return };
        let line = match sight.sent {
            Some(true) => Line::Sent,
            Some(false) => Line::Received,
            None => Line::From(sight.source),
        };
        let Some((time, length)) = self.0.insert((sight.file, line), (sight.time, sight.length)) else {
            return;
        };
        let needs = rate.time_of(line_bytes(Bytes(u64::from(length)))).0;
        let gap = sight.time.0.saturating_sub(time.0);
        let wrong = (gap + 1 < needs).then(|| {
            format!("starts {gap} ns after a frame of {length} bytes, which takes {needs} ns at {rate}")
        });
        sight.judge(tally, wrong);
    }
}
