//! The order of frames: what one NIC sends to another arrives in the order in which it was sent.
//!
//! A frame that is held up holds up all that follow it on its path, as in a queue of a switch. If it were overtaken, the
//! receiver would take it for lost: reordering is loss to RoCE. Only plans that delay frames need this.

use std::collections::BTreeMap;

use traces::id::NicId;
use traces::unit::Nanos;

/// When the last frame of each path arrives.
#[derive(Clone, Debug, Default)]
pub struct Paths(BTreeMap<(NicId, NicId), Nanos>);

impl Paths {
    /// When a frame arrives that would arrive at `arrival` by itself: not before what was sent before it. Told in the order of
    /// sending; a lost frame is not told.
    pub fn arrival(&mut self, from: NicId, to: NicId, arrival: Nanos) -> Nanos {
        let last = self.0.entry((from, to)).or_default();
        *last = arrival.max(*last);
        *last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_delayed_frame_waits_for_it_on_its_own_path_only() {
        let mut paths = Paths::default();
        let [a, b, c] = [0, 1, 2].map(NicId);
        let arrivals = [
            paths.arrival(a, b, Nanos(10)),
            paths.arrival(a, b, Nanos(40)),
            paths.arrival(a, b, Nanos(12)),
            paths.arrival(a, c, Nanos(13)),
            paths.arrival(b, a, Nanos(14)),
            paths.arrival(a, b, Nanos(41)),
        ];
        assert_eq!(arrivals.map(|at| at.0), [10, 40, 40, 13, 14, 41]);
    }
}
