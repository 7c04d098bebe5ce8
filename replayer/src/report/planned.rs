//! What the plan's timeline says a run should look like: each NIC's own curve, counted from the dependency graphs.
//!
//! The graphs are streamed: memory follows NICs times bins, never the length of the trace.

use std::collections::BTreeMap;

use traces::graph::{Node, Work};
use traces::id::{NicId, QueuePairId};
use traces::manifest::Manifest;
use traces::unit::{Bytes, Nanos};

/// Payload that each NIC sends and receives in the plan, in bins of equal width from the start of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCurve {
    bin: Nanos,
    owners: BTreeMap<QueuePairId, NicId>,
    sent: BTreeMap<NicId, Vec<u64>>,
    received: BTreeMap<NicId, Vec<u64>>,
}

impl PlannedCurve {
    /// An empty curve for the NICs of `manifest`, in bins of `bin`.
    #[must_use]
    pub fn new(manifest: &Manifest, bin: Nanos) -> Self {
        Self {
            bin: bin.max(Nanos(1)),
            owners: manifest.queue_pairs.iter().map(|pair| (pair.id, pair.nic)).collect(),
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
        }
    }

    /// Counts a node of any host's graph.
    ///
    /// A message's payload is spread evenly from its planned start to its planned end: the plan's own sharing of a
    /// line within that time is finer than the bins of a report.
    pub fn add(&mut self, node: &Node) {
        let (message, bins, owner) = match &node.work {
            Work::Send(message) => (message, &mut self.sent, message.id.sender),
            Work::Receive(message) => (message, &mut self.received, message.receiver),
            Work::Compute { .. } | Work::Join { .. } | Work::Local { .. } => return,
        };
        if let Some(nic) = self.owners.get(&owner) {
            spread(
                bins.entry(*nic).or_default(),
                self.bin,
                message.bytes,
                node.planned_start,
                node.planned_end,
            );
        }
    }

    /// The width of a bin.
    #[must_use]
    pub const fn bin(&self) -> Nanos {
        self.bin
    }

    /// The payload bytes that a NIC sends, bin by bin.
    #[must_use]
    pub fn sent(&self, nic: NicId) -> &[u64] {
        self.sent.get(&nic).map_or(&[], Vec::as_slice)
    }

    /// The payload bytes that a NIC receives, bin by bin.
    #[must_use]
    pub fn received(&self, nic: NicId) -> &[u64] {
        self.received.get(&nic).map_or(&[], Vec::as_slice)
    }
}

/// Adds `bytes` to the bins between two instants, in proportion to the time in each; no byte is lost to rounding.
fn spread(bins: &mut Vec<u64>, bin: Nanos, bytes: Bytes, start: Nanos, end: Nanos) {
    let index = |at: u64| usize::try_from(at / bin.0).unwrap_or(usize::MAX).min(MOST_BINS - 1);
    let length = u128::from(end.0.saturating_sub(start.0).max(1));
    let last = index((start.0 + (end.0.saturating_sub(start.0)).max(1)) - 1);
    if bins.len() <= last {
        bins.resize(last + 1, 0);
    }
    let mut before = 0;
    for (place, slot) in bins.iter_mut().enumerate().take(last + 1).skip(index(start.0)) {
        let edge = u128::try_from(place + 1).unwrap_or_default() * u128::from(bin.0);
        let passed =
            if place == last { length } else { edge.saturating_sub(u128::from(start.0)).min(length) };
        let until = u64::try_from(u128::from(bytes.0) * passed / length).unwrap_or(u64::MAX);
        *slot += until - before;
        before = until;
    }
}

/// No run of a day in milliseconds has more; what lies beyond is counted in the last.
const MOST_BINS: usize = 100_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_is_spread_over_the_bins_that_it_spans() {
        let mut bins = Vec::new();
        spread(&mut bins, Nanos(100), Bytes(1_000), Nanos(50), Nanos(250));
        assert_eq!(bins, [250, 500, 250]);
        spread(&mut bins, Nanos(100), Bytes(7), Nanos(100), Nanos(100));
        assert_eq!(bins, [250, 507, 250]);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(bin in 1_u64..1_000, bytes in 0_u64..1 << 40, start in 0_u64..10_000, length in 0_u64..10_000) {
            let mut bins = Vec::new();
            spread(&mut bins, Nanos(bin), Bytes(bytes), Nanos(start), Nanos(start + length));
            prop_assert_eq!(bins.iter().sum::<u64>(), bytes);
        }
    }
}
