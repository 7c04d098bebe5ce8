//! All-reduce in a ring: NCCL's channels, loops, chunks and slices (Simple protocol).
//!
//! ```text
//! payload -> channels (contiguous parts) -> loops of n chunks -> 2 (n-1) steps -> two slices, each a message
//! ```
//! In step k the member at ring position p sends chunk (p - 1 - k) mod n to position p + 1: the first n - 1 steps
//! reduce, the others copy. Sources: NCCL `enqueue.cc` (scheduleCollTasksToPlan), `device/all_reduce.h` (runRing),
//! `device/prims_simple.h` (genericOp).

use traces::unit::Bytes;

/// An all-reduce of one buffer among the members of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingAllReduce {
    members: u64,
    /// Bytes of an element; parts, chunks and slices are whole elements.
    element: u64,
    /// The elements of each channel that has some.
    channels: Vec<u64>,
}

impl RingAllReduce {
    /// The all-reduce of `payload` among `members`, at least two, over at most `channels` channels.
    ///
    /// A payload that is not a whole number of elements is split in bytes.
    #[must_use]
    pub fn new(members: u32, payload: Bytes, element: u64, channels: u32) -> Self {
        let element = if payload.0.is_multiple_of(element.max(1)) { element.max(1) } else { 1 };
        let channels =
            split(payload.0, u64::from(channels.max(1))).into_iter().map(|part| part / element).collect();
        Self { members: u64::from(members.max(2)), element, channels }
    }

    /// The channels that carry something.
    #[must_use]
    pub const fn channels(&self) -> usize {
        self.channels.len()
    }

    /// The payload's part on a channel.
    #[must_use]
    pub fn channel_bytes(&self, channel: usize) -> Bytes {
        Bytes(self.elements(channel) * self.element)
    }

    /// Steps of a loop: 2 (n - 1).
    #[must_use]
    pub const fn steps(&self) -> u64 {
        2 * (self.members - 1)
    }

    /// Loops of the channel: each takes a chunk from every member's place.
    #[must_use]
    pub fn loops(&self, channel: usize) -> u64 {
        self.elements(channel).div_ceil(self.members * self.most_chunk())
    }

    /// The chunk that position `position` sends in a step: (p - 1 - k) mod n.
    #[must_use]
    pub const fn chunk_sent(&self, position: u64, step: u64) -> u64 {
        // Steps are fewer than 2 n, so 2 n keeps the difference positive.
        (position + 2 * self.members - 1 - step) % self.members
    }

    /// The bytes of a message: slice `slice` of what `position` sends in step `step` of loop `round`.
    #[must_use]
    pub fn message(&self, channel: usize, round: u64, step: u64, slice: usize, position: u64) -> Bytes {
        self.piece(channel, round, step, slice, position).1
    }

    /// Where that message's bytes stand in the buffer, from its beginning; an empty message stands where its chunk ends.
    #[must_use]
    pub fn offset(&self, channel: usize, round: u64, step: u64, slice: usize, position: u64) -> Bytes {
        self.piece(channel, round, step, slice, position).0
    }

    /// Where a message's bytes stand in the buffer, and how many they are.
    fn piece(&self, channel: usize, round: u64, step: u64, slice: usize, position: u64) -> (Bytes, Bytes) {
        let whole = self.members * self.most_chunk();
        let left = self.elements(channel).saturating_sub(round * whole);
        let chunk = if left >= whole {
            self.most_chunk()
        } else {
            left.div_ceil(self.members).next_multiple_of((16 / self.element).max(1))
        };
        let chunk_at = (self.chunk_sent(position, step) * chunk).min(left);
        let length = (left - chunk_at).min(chunk);
        // NCCL keeps slices from getting small: at least 1/32 of two steps of 512 KiB.
        let most = (length.div_ceil(16 * 2) * 16).max(2 * STEP / self.element / 32);
        let before = if slice == 0 { 0 } else { most.min(length) };
        let channel_at: u64 = self.channels.iter().take(channel).sum();
        let at = channel_at + (round * whole).min(self.elements(channel)) + chunk_at + before;
        (Bytes(at * self.element), Bytes((length - before).min(most) * self.element))
    }

    /// What position `position` sends on a channel: 2 T minus the chunks that it does not pass on, its own and its
    /// successor's.
    #[must_use]
    pub fn edge_bytes(&self, channel: usize, position: u64) -> Bytes {
        let rounds =
            (0..self.loops(channel)).flat_map(|round| (0..self.steps()).map(move |step| (round, step)));
        rounds
            .flat_map(|(round, step)| (0..SLICES).map(move |slice| (round, step, slice)))
            .map(|(round, step, slice)| self.message(channel, round, step, slice, position))
            .sum()
    }

    /// Elements of the largest chunk: four steps of the buffer.
    const fn most_chunk(&self) -> u64 {
        4 * STEP / self.element
    }

    fn elements(&self, channel: usize) -> u64 {
        self.channels.get(channel).copied().unwrap_or(0)
    }
}

/// The bytes of each channel that has some: nearly equal contiguous parts, on fewer channels when there is little.
fn split(bytes: u64, most: u64) -> Vec<u64> {
    if bytes == 0 {
        return Vec::new();
    }
    let mut wanted = most;
    while bytes < wanted * THREADS * BYTES_PER_THREAD && wanted >= 2 {
        wanted -= 1;
    }
    let traffic_per_byte = 2;
    let traffic = (bytes * traffic_per_byte).max(LEAST_TRAFFIC);
    let per_channel = (traffic / wanted).next_multiple_of(16);
    let cell = LEAST_TRAFFIC.div_ceil(traffic_per_byte).next_multiple_of(16);
    let cells = bytes.div_ceil(cell);
    let low = cells.min(per_channel.div_ceil(cell * traffic_per_byte));
    let mut each = low;
    let mut middle = (cells - low) / each;
    let mut high = (cells - low) % each;
    if high == 0 && middle > 0 {
        high = each;
        middle -= 1;
    }
    if 1 + middle + u64::from(high > 0) > most {
        middle = most.saturating_sub(2);
        each = (cells - low) / (middle + 1);
        high = each + (cells - low) % (middle + 1);
    }
    let parts = std::iter::once(low)
        .chain(std::iter::repeat_n(each, usize::try_from(middle).unwrap_or(0)))
        .chain((high > 0).then_some(high));
    let mut left = bytes;
    parts
        .map(|cells| {
            let part = (cells * cell).min(left);
            left -= part;
            part
        })
        .filter(|&part| part > 0)
        .collect()
}

/// Messages of a chunk: its slices, of which the last may be empty (4 chunk steps by 2 slice steps).
pub const SLICES: usize = 2;

/// A step of NCCL's buffer: 4 MiB in eight.
const STEP: u64 = 512 << 10;

/// Threads of a channel in the Simple protocol, and the bytes that make one worth while.
const THREADS: u64 = 512;
const BYTES_PER_THREAD: u64 = 64;

/// The least traffic that a channel is given.
const LEAST_TRAFFIC: u64 = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of the messages on one edge of the ring, over these channels, with how often each occurs.
    fn sizes(ring: &RingAllReduce, channels: &[usize], position: impl Fn(usize) -> u64) -> Vec<(u64, u64)> {
        let mut counts = std::collections::BTreeMap::new();
        for &channel in channels.iter().filter(|&&channel| channel < ring.channels()) {
            for round in 0..ring.loops(channel) {
                for step in 0..ring.steps() {
                    for slice in 0..SLICES {
                        let bytes = ring.message(channel, round, step, slice, position(channel)).0;
                        *counts.entry(bytes).or_insert(0) += 1;
                    }
                }
            }
        }
        counts.into_iter().collect()
    }

    /// On nodes of 8 GPUs, the position from which channel c leaves node 0 (collectives.md, corrections, 1).
    fn exit(n: u64) -> impl Fn(usize) -> u64 {
        move |channel| (7 + n - u64::try_from(channel).unwrap() % 8) % n
    }

    #[test]
    fn two_nodes_of_eight_send_64_mib_in_120_messages_per_nic() {
        // V1: NIC 0 carries channels 0 and 8 of 16.
        let ring = RingAllReduce::new(16, Bytes(64 << 20), 4, 16);
        assert_eq!((ring.channels(), ring.channel_bytes(0)), (16, Bytes(4 << 20)));
        assert_eq!(sizes(&ring, &[0, 8], exit(16)), [(131_072, 120)]);
    }

    #[test]
    fn a_hundred_megabytes_are_no_whole_number_of_cells() {
        // V5: all messages of NIC 0 are alike, and the last channel has less.
        let ring = RingAllReduce::new(16, Bytes(100_000_000), 4, 16);
        assert_eq!((ring.channels(), ring.channel_bytes(0)), (16, Bytes(6_258_688)));
        assert_eq!(sizes(&ring, &[0, 8], exit(16)), [(195_584, 120)]);
        let nics: Vec<u64> = (0..8)
            .map(|nic| [nic, nic + 8].map(|c| ring.edge_bytes(c, exit(16)(c)).0).iter().sum())
            .collect();
        assert_eq!((nics.iter().min(), nics.iter().max()), (Some(&23_209_440), Some(&23_470_080)));
    }

    #[test]
    fn little_goes_over_few_channels_and_empty_slices_are_sent() {
        // V8.
        let ring = RingAllReduce::new(16, Bytes(131_072), 4, 16);
        assert_eq!((ring.channels(), ring.channel_bytes(0)), (4, Bytes(32_768)));
        assert_eq!(sizes(&ring, &[0, 8], exit(16)), [(0, 30), (2048, 30)]);
    }

    #[test]
    fn four_nodes_of_one_gpu_send_256_mib_in_slices_of_one() {
        // V13: all four channels leave by the only NIC.
        let ring = RingAllReduce::new(4, Bytes(256 << 20), 4, 4);
        assert_eq!((ring.channels(), ring.channel_bytes(0)), (4, Bytes(64 << 20)));
        assert_eq!(sizes(&ring, &[0, 1, 2, 3], |_| 0), [(1 << 20, 384)]);
    }

    #[test]
    fn a_byte_too_many_may_take_one_more_channel_but_never_more_than_there_are() {
        // Corrections, 2.
        assert_eq!(RingAllReduce::new(16, Bytes(262_145), 1, 16).channels(), 9);
        assert_eq!(RingAllReduce::new(16, Bytes((64 << 20) + 1), 1, 16).channels(), 16);
        assert_eq!(RingAllReduce::new(4, Bytes(0), 4, 4).channels(), 0);
    }

    #[test]
    fn a_message_stands_where_its_channel_chunk_and_slice_do() {
        // Two channels of 32 KiB among four members: chunks of 8 KiB, one slice each (at least 32 KiB a slice).
        let ring = RingAllReduce::new(4, Bytes(65_536), 4, 2);
        assert_eq!((ring.channels(), ring.channel_bytes(0)), (2, Bytes(32_768)));
        // Position 3 starts with chunk 2, and passes on chunk 1 in the next step.
        assert_eq!((ring.offset(0, 0, 0, 0, 3), ring.message(0, 0, 0, 0, 3)), (Bytes(16_384), Bytes(8192)));
        assert_eq!(ring.offset(0, 0, 1, 0, 3), Bytes(8192));
        assert_eq!((ring.offset(0, 0, 1, 1, 3), ring.message(0, 0, 1, 1, 3)), (Bytes(16_384), Bytes(0)));
        assert_eq!(ring.offset(1, 0, 0, 0, 3), Bytes(32_768 + 16_384));
    }

    proptest::proptest! {
        #[test]
        fn what_all_positions_send_in_a_step_tiles_the_channel(
            members in 2..12_u32, payload in 0..30_000_000_u64, channels in 1..8_u32,
            element in proptest::sample::select(vec![1_u64, 2, 4, 8]), step in 0..22_u64,
        ) {
            let ring = RingAllReduce::new(members, Bytes(payload), element, channels);
            let step = step % ring.steps();
            let mut end = 0;
            for channel in 0..ring.channels() {
                let mut pieces: Vec<_> = (0..ring.loops(channel))
                    .flat_map(|round| (0..u64::from(members)).map(move |position| (round, position)))
                    .flat_map(|(round, position)| (0..SLICES).map(move |slice| (round, slice, position)))
                    .map(|(round, slice, position)| {
                        let at = |law: fn(&RingAllReduce, usize, u64, u64, usize, u64) -> Bytes| {
                            law(&ring, channel, round, step, slice, position).0
                        };
                        (at(RingAllReduce::offset), at(RingAllReduce::message))
                    })
                    .collect();
                pieces.sort_unstable();
                for (offset, bytes) in pieces {
                    proptest::prop_assert_eq!(offset, end);
                    end += bytes;
                }
            }
            proptest::prop_assert_eq!(end, payload);
        }

        #[test]
        fn channels_share_the_payload_and_an_edge_carries_twice_less_two_chunks(
            members in 2..16_u32, payload in 0..40_000_000_u64, channels in 1..20_u32,
            element in proptest::sample::select(vec![1_u64, 2, 4, 8]),
        ) {
            let ring = RingAllReduce::new(members, Bytes(payload), element, channels);
            proptest::prop_assert!(ring.channels() <= usize::try_from(channels).unwrap());
            let whole: u64 = (0..ring.channels()).map(|channel| ring.channel_bytes(channel).0).sum();
            proptest::prop_assert_eq!(whole, payload);
            let n = u64::from(members);
            for channel in 0..ring.channels() {
                // What a position adds in step 0 over all rounds is its chunk p - 1.
                let chunk = |chunk: u64| -> u64 {
                    (0..ring.loops(channel))
                        .flat_map(|round| (0..SLICES).map(move |slice| (round, slice)))
                        .map(|(round, slice)| ring.message(channel, round, 0, slice, (chunk + 1) % n).0)
                        .sum()
                };
                let total = ring.channel_bytes(channel).0;
                proptest::prop_assert_eq!((0..n).map(chunk).sum::<u64>(), total);
                for position in 0..n {
                    let less = chunk(position) + chunk((position + 1) % n);
                    proptest::prop_assert_eq!(ring.edge_bytes(channel, position).0, 2 * total - less);
                }
            }
        }
    }
}
