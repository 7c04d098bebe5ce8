//! Checks of time: captures are sorted, and no line carries two frames at once.

use std::collections::BTreeMap;

use super::check::Tally;
use super::flow::state_of;
use super::sight::{Rule, Sight, family};
use crate::unit::{Bytes, Nanos};
use crate::wire::Mac;
use crate::wire::segment::line_bytes;

family! {
    "time and file":
    Sorted,
    Spacing,
}

/// The times of a capture never go back.
#[derive(Default)]
struct Sorted(Vec<Nanos>);

impl Rule for Sorted {
    fn name(&self) -> &'static str {
        "timestamps_sorted"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let before = std::mem::replace(state_of(&mut self.0, sight.port), sight.time);
        sight.expect(tally, before <= sight.time, || {
            format!("seen {} ns before the frame in front of it", before.0 - sight.time.0)
        });
    }
}

/// A frame does not start before the line has carried the one in front of it: (length + 24) * 8 / rate, with
/// one nanosecond for rounding. What a port sends and what it receives are two lines. Without a rate nothing
/// is examined.
#[derive(Default)]
struct Spacing(Vec<Lines>);

/// What each line of a port carried last, as well as lines are known.
#[derive(Default)]
struct Lines {
    sent: Option<(Nanos, u32)>,
    received: Option<(Nanos, u32)>,
    /// The time that a frame of this many bytes takes, as reckoned last: most frames have one of few lengths.
    reckoned: (u32, u64),
    /// The port is not known, so only frames of one sender are compared.
    from: BTreeMap<Mac, (Nanos, u32)>,
}

impl Rule for Spacing {
    fn name(&self) -> &'static str {
        "spacing"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some(rate) = sight.rate else { return };
        let now = (sight.time, sight.length);
        let lines = state_of(&mut self.0, sight.port);
        let before = match sight.sent {
            Some(true) => lines.sent.replace(now),
            Some(false) => lines.received.replace(now),
            None => lines.from.insert(sight.source, now),
        };
        let Some((time, length)) = before else { return };
        let needs = match lines.reckoned {
            (known, needs) if known == length => needs,
            _ => rate.time_of(line_bytes(Bytes(u64::from(length)))).0,
        };
        lines.reckoned = (length, needs);
        let gap = sight.time.0.saturating_sub(time.0);
        sight.expect(tally, gap + 1 >= needs, || {
            format!("starts {gap} ns after a frame of {length} bytes, which takes {needs} ns at {rate}")
        });
    }
}
