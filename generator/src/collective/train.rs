//! A send and its receive: NCCL's parts over channels, each a train of messages (Simple protocol, network).
//!
//! Sources: NCCL `enqueue.cc` (addP2pToPlan, calcP2pChunkSize), `init.cc` (p2pnChannels).

use traces::unit::{BitRate, Bytes};

/// What one member sends to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Train {
    bytes: u64,
    part: u64,
    parts: u64,
    message: u64,
    /// Where the parts start among the channels.
    base: u64,
    channels: u64,
}

/// The channels of a communicator's sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainChannels {
    /// All of them: a power of two.
    pub all: u64,
    /// For one peer at most.
    pub per_peer: u64,
    /// Members of the communicator.
    pub members: u64,
}

impl TrainChannels {
    /// The channels for sends in a communicator of `members` ranks, at `link` per NIC, when collectives have
    /// `collective` channels: with one GPU per node four at most, and no more than collectives have.
    #[must_use]
    pub fn new(members: u32, link: BitRate, collective: u32) -> Self {
        let all = if collective >= 4 { 4 } else { u64::from(collective.max(1)).next_power_of_two() };
        let all = if all > u64::from(collective.max(1)) { all / 2 } else { all };
        let gigabytes = link.bits_per_second() / 8_000_000_000;
        let mut per_peer = gigabytes.div_ceil(GIGABYTES_PER_CHANNEL).max(1).next_power_of_two();
        while per_peer * u64::from(members).div_ceil(8) > all && per_peer > 1 {
            per_peer /= 2;
        }
        Self { all, per_peer, members: u64::from(members) }
    }
}

impl Train {
    /// The messages of `bytes` for the member `distance` places further in the communicator.
    #[must_use]
    pub fn new(bytes: Bytes, distance: u32, channels: TrainChannels) -> Self {
        let TrainChannels { all, per_peer, members } = channels;
        let bytes = bytes.0;
        let mut least = per_peer;
        while least * members > all && least > 1 {
            least /= 2;
        }
        let mut parts = least.min(bytes.div_ceil(LEAST_PART)).max(1);
        let mut size = LEAST_PART.max(bytes.div_ceil(parts));
        while size > MOST_PART && parts <= per_peer / 2 {
            parts *= 2;
            size = bytes.div_ceil(parts);
        }
        let part = bytes.div_ceil(parts).next_multiple_of(4096).max(4096);
        let message = match bytes {
            0..131_072 => 32 << 10,
            131_072..1_048_576 => 64 << 10,
            _ => 128 << 10,
        };
        let base = reversed(u64::from(distance), all);
        Self { bytes, part, parts: bytes.div_ceil(part).max(1), message, base, channels: all }
    }

    /// The parts: each goes over a channel of its own.
    #[must_use]
    pub const fn parts(&self) -> u64 {
        self.parts
    }

    /// The channel of a part.
    #[must_use]
    pub const fn channel(&self, part: u64) -> u64 {
        (self.base + part) % self.channels
    }

    /// The bytes of the first part.
    #[must_use]
    pub const fn first_part(&self) -> Bytes {
        Bytes(self.part)
    }

    /// The messages of a part: an empty part is a message too.
    #[must_use]
    pub fn messages(&self, part: u64) -> u64 {
        self.length(part).div_ceil(self.message).max(1)
    }

    /// The bytes of a message of a part.
    #[must_use]
    pub fn message(&self, part: u64, index: u64) -> Bytes {
        Bytes(self.length(part).saturating_sub(index * self.message).min(self.message))
    }

    /// Where the bytes of a message of a part stand in the buffer, from its beginning.
    #[must_use]
    pub fn offset(&self, part: u64, index: u64) -> Bytes {
        Bytes((part * self.part).min(self.bytes) + (index * self.message).min(self.length(part)))
    }

    fn length(&self, part: u64) -> u64 {
        self.bytes.saturating_sub(part * self.part).min(self.part)
    }
}

/// The bits of `value` below `size`, a power of two, in reverse order.
const fn reversed(value: u64, size: u64) -> u64 {
    let bits = size.trailing_zeros();
    if bits == 0 { 0 } else { (value % size).reverse_bits() >> (64 - bits) }
}

/// A channel is given to a peer for so many gigabytes per second of its NIC (NCCL, `ncclTopoGetNchannels`).
const GIGABYTES_PER_CHANNEL: u64 = 14;

const LEAST_PART: u64 = 64 << 10;
const MOST_PART: u64 = 128 << 10;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn of(bytes: u64, members: u32) -> (Train, Vec<(u64, u64)>) {
        let link = "400Gbit".parse().unwrap();
        let train = Train::new(Bytes(bytes), 1, TrainChannels::new(members, link, 4));
        let mut counts = BTreeMap::new();
        for part in 0..train.parts() {
            for index in 0..train.messages(part) {
                *counts.entry(train.message(part, index).0).or_insert(0) += 1;
            }
        }
        (train, counts.into_iter().rev().collect())
    }

    #[test]
    fn thirty_two_mib_go_in_four_trains_of_128_kib() {
        // V30.
        let (train, sizes) = of(33_554_432, 4);
        assert_eq!((train.parts(), train.first_part()), (4, Bytes(8_388_608)));
        assert_eq!(sizes, [(131_072, 256)]);
    }

    #[test]
    fn one_byte_more_makes_parts_of_whole_pages() {
        // V31.
        let (train, sizes) = of(33_554_433, 4);
        assert_eq!((train.parts(), train.first_part()), (4, Bytes(8_392_704)));
        assert_eq!(sizes, [(131_072, 255), (118_785, 1), (4096, 3)]);
    }

    #[test]
    fn one_byte_is_one_message_and_so_is_none() {
        // V32.
        let (train, sizes) = of(1, 2);
        assert_eq!((train.parts(), train.first_part()), (1, Bytes(4096)));
        assert_eq!(sizes, [(1, 1)]);
        assert_eq!(of(0, 2).1, [(0, 1)]);
    }

    #[test]
    fn parts_start_at_the_reversed_distance() {
        let channels = TrainChannels { all: 16, per_peer: 4, members: 64 };
        let bases: Vec<_> =
            (0..8).map(|distance| Train::new(Bytes(1), distance, channels).channel(0)).collect();
        assert_eq!(bases, [0, 8, 4, 12, 2, 10, 6, 14]);
    }

    proptest::proptest! {
        #[test]
        fn messages_tile_the_buffer_and_no_channel_has_two_parts(
            bytes in 0..50_000_000_u64, members in 2..64_u32, channels in 1..65_u32, gigabits in 1..800_u64,
        ) {
            let link = BitRate::new(gigabits * 1_000_000_000).unwrap();
            let train = Train::new(Bytes(bytes), members / 2, TrainChannels::new(members, link, channels));
            let mut end = 0;
            for part in 0..train.parts() {
                for index in 0..train.messages(part) {
                    proptest::prop_assert_eq!(train.offset(part, index).0, end);
                    end += train.message(part, index).0;
                }
            }
            proptest::prop_assert_eq!(end, bytes);
            let mut used: Vec<_> = (0..train.parts()).map(|part| train.channel(part)).collect();
            proptest::prop_assert!(used.iter().all(|&channel| channel < u64::from(channels)));
            used.sort_unstable();
            used.dedup();
            proptest::prop_assert_eq!(used.len(), usize::try_from(train.parts()).unwrap());
        }
    }
}
