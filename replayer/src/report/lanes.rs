//! What each rank was busy with, at the resolution of a picture, so that memory does not follow the run's length.

use std::collections::BTreeMap;

use traces::id::Rank;
use traces::origin::Class;
use traces::unit::Nanos;

/// What a rank can be busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Activity {
    /// Computing.
    Compute,
    /// Taking part in an operation of this class of traffic.
    Class(Class),
}

/// The lanes of a stretch of time: one for each rank, with the spans of everything it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lanes {
    start: Nanos,
    end: Nanos,
    columns: BTreeMap<Rank, BTreeMap<Activity, Vec<bool>>>,
}

impl Activity {
    /// What a legend says.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Class(class) => class.name(),
        }
    }
}

impl Lanes {
    /// Empty lanes for the time from `start` to `end`.
    pub(super) fn new(start: Nanos, end: Nanos) -> Self {
        Self { start, end: end.max(start + Nanos(1)), columns: BTreeMap::new() }
    }

    /// The length of time that the lanes show.
    pub(super) fn duration(&self) -> Nanos {
        self.end - self.start
    }

    /// The ranks that did something.
    pub(super) fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.columns.keys().copied()
    }

    /// Everything that was done on any rank.
    pub(super) fn activities(&self) -> impl Iterator<Item = Activity> {
        self.columns.values().flat_map(|activities| activities.keys().copied())
    }

    /// Notes that `rank` was busy with `activity` from `from` to `to`; what lies outside of the lanes' time is not kept.
    pub(super) fn add(&mut self, rank: Rank, activity: Activity, from: Nanos, to: Nanos) {
        if to < self.start || from >= self.end || to < from {
            return;
        }
        let (first, last) = (self.column(from), self.column(to));
        let columns =
            self.columns.entry(rank).or_default().entry(activity).or_insert_with(|| vec![false; COLUMNS]);
        columns[first..=last].fill(true);
    }

    /// The spans of a rank: what, first column, columns.
    pub(super) fn spans(&self, rank: Rank) -> impl Iterator<Item = (Activity, usize, usize)> {
        let activities = self.columns.get(&rank).into_iter().flatten();
        activities.flat_map(|(activity, columns)| {
            let mut from = 0;
            columns.chunk_by(|a, b| a == b).filter_map(move |run| {
                let first = from;
                from += run.len();
                run[0].then_some((*activity, first, run.len()))
            })
        })
    }

    fn column(&self, at: Nanos) -> usize {
        let at = u128::from(at.0.clamp(self.start.0, self.end.0 - 1) - self.start.0);
        let columns = at * COLUMNS as u128 / u128::from(self.duration().0);
        usize::try_from(columns).map_or(COLUMNS - 1, |column| column.min(COLUMNS - 1))
    }
}

/// The resolution: spans and gaps that are shorter than this part of the lanes' time are not told apart.
pub(super) const COLUMNS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_spans_are_one_and_what_lies_outside_is_cut() {
        let mut lanes = Lanes::new(Nanos(1_000), Nanos(2_000));
        for (from, to) in [(0, 1_004), (1_005, 1_009), (1_500, 1_500), (1_998, 9_000), (5_000, 6_000)] {
            lanes.add(Rank(3), Activity::Compute, Nanos(from), Nanos(to));
        }
        let spans: Vec<_> = lanes.spans(Rank(3)).map(|(_, first, length)| (first, length)).collect();
        assert_eq!(spans, [(0, 10), (500, 1), (998, 2)]);
        assert_eq!(lanes.spans(Rank(0)).count(), 0);
    }
}
