//! What a link of the plan's rate needs on a veth pair, which by itself is as fast as memory: a token bucket.

use traces::unit::{BitRate, Bytes, Nanos};

/// A token bucket for one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    rate: BitRate,
    burst: Bytes,
}

impl Bucket {
    /// The bucket of what a host sends into its link, unless the rate is more than this machine surely moves.
    pub(super) fn of_host(link: BitRate) -> Option<Self> {
        let bits = u128::from(link.bits_per_second()) * u128::from(WAKE.0) / 1_000_000_000;
        let burst = Bytes(u64::try_from(bits / 8).unwrap_or(u64::MAX).max(LEAST_BURST.0));
        (link.bits_per_second() <= MOST).then_some(Self { rate: link, burst })
    }

    /// The bucket of what the switch sends to a host on the same link. What one host's bucket let pass, this one lets
    /// pass without a wait, which would cost a timer a frame; it holds back what several hosts send at once.
    pub(super) fn of_switch(link: BitRate) -> Option<Self> {
        Self::of_host(link).map(|Self { rate, burst }| Self { rate, burst: Bytes(2 * burst.0) })
    }

    /// What `tc` is told to do with a device.
    pub(super) fn words(self, device: &str) -> Vec<String> {
        let (rate, burst, limit) = (self.rate.bits_per_second(), self.burst.0, QUEUE.0);
        format!(
            "qdisc replace dev {device} root stab linklayer ethernet overhead {BETWEEN_FRAMES} \
             tbf rate {rate}bit burst {burst} limit {limit}"
        )
        .split_whitespace()
        .map(str::to_owned)
        .collect()
    }
}

/// Beyond this the testbed, not the bucket, would set the rate: two cores move some 10 Gbit/s in all.
const MOST: u64 = 4_000_000_000;

/// How late the kernel may wake up for a frame without losing the line's time. What passes at once follows from it.
const WAKE: Nanos = Nanos(1_000_000);

/// A bundle that nobody cuts before the bucket must fit, or it never passes.
const LEAST_BURST: Bytes = Bytes(128 << 10);

/// FCS, preamble, start delimiter and gap take time on a line, and are not in a frame as Linux counts it.
const BETWEEN_FRAMES: u32 = 24;

/// What a bucket holds back. A RoCE network loses nothing to a full queue: it pauses who sends. Here the queue is as
/// long as all that can be under way to one port, 60 queue pairs with a window of 256 frames of 4 KiB each.
const QUEUE: Bytes = Bytes(64 << 20);

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bits_per_second: u64) -> BitRate {
        BitRate::new(bits_per_second).unwrap()
    }

    #[test]
    fn a_gigabit_passes_a_bundle_at_once() {
        let words = Bucket::of_host(rate(1_000_000_000)).unwrap().words("eth0").join(" ");
        assert_eq!(
            words,
            "qdisc replace dev eth0 root stab linklayer ethernet overhead 24 tbf rate 1000000000bit \
             burst 131072 limit 67108864"
        );
    }

    #[test]
    fn a_fast_link_passes_a_millisecond_at_once_and_its_switch_two() {
        assert_eq!(Bucket::of_host(rate(4_000_000_000)).unwrap().burst, Bytes(500_000));
        assert_eq!(Bucket::of_switch(rate(4_000_000_000)).unwrap().burst, Bytes(1_000_000));
        assert_eq!(Bucket::of_host(rate(4_000_000_001)), None);
    }
}
