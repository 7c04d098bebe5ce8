//! Algorithm and bus bandwidth of a collective, by the conventions of nccl-tests (`doc/PERFORMANCE.md`), which the IETF
//! drafts on benchmarking AI fabrics share: the factor belongs to the operation, whatever algorithm ran.

use traces::origin::Operation;
use traces::unit::{Bytes, Nanos};

/// What an operation's bus bandwidth is of its algorithm bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Factor {
    numerator: u64,
    denominator: u64,
    /// The formula as reports write it.
    pub(super) formula: &'static str,
}

impl Factor {
    /// The factor of an operation among `ranks` ranks.
    ///
    /// An all-reduce moves each byte twice over a rank's link but for its own share, 2(n-1)/n; an all-gather, a
    /// reduce-scatter and an all-to-all once, (n-1)/n; for the others the link carries the payload itself.
    pub(super) fn of(operation: Operation, ranks: u64) -> Self {
        let ranks = ranks.max(1);
        match operation {
            Operation::AllReduce => {
                Self { numerator: 2 * (ranks - 1), denominator: ranks, formula: "2(n-1)/n" }
            }
            Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll => {
                Self { numerator: ranks - 1, denominator: ranks, formula: "(n-1)/n" }
            }
            Operation::Broadcast | Operation::Reduce | Operation::SendReceive => {
                Self { numerator: 1, denominator: 1, formula: "1" }
            }
        }
    }

    /// The bus bandwidth in bits per second for this algorithm bandwidth, rounded down.
    pub(super) fn bus(self, algorithm_bps: u64) -> u64 {
        let bits = u128::from(algorithm_bps) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(bits).unwrap_or(u64::MAX)
    }
}

/// Bits per second of `bytes` in `time`, rounded down; none when no time passed.
pub(super) fn rate(bytes: Bytes, time: Nanos) -> Option<u64> {
    let bits = (u128::from(bytes.0) * 8 * 1_000_000_000).checked_div(u128::from(time.0))?;
    Some(u64::try_from(bits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_ranks_that_reduce_a_gigabyte_in_ten_milliseconds_have_175_gigabytes_per_second() {
        let algorithm = rate(Bytes(1_000_000_000), Nanos(10_000_000)).unwrap();
        assert_eq!(algorithm, 800_000_000_000);
        assert_eq!(Factor::of(Operation::AllReduce, 8).bus(algorithm), 8 * 175_000_000_000);
    }

    #[test]
    fn the_factor_belongs_to_the_operation() {
        let of = |operation| Factor::of(operation, 4).bus(1_000);
        assert_eq!(
            Operation::ALL.iter().map(|operation| of(*operation)).collect::<Vec<_>>(),
            [1_500, 750, 750, 1_000, 1_000, 750, 1_000]
        );
        assert_eq!(Factor::of(Operation::AllReduce, 1).bus(1_000), 0);
        assert_eq!(rate(Bytes(1), Nanos(0)), None);
    }
}
