//! How a message goes: NCCL's rules from the bytes of a message to the WRITEs that carry it over a connection.
//!
//! Messages of a connection are numbered. Its queue pairs take them in turn, or each carries a part of every message. The
//! receiver clears each number by a WRITE into the sender's list; the last frame of the message says its bytes as immediate
//! value. Source: NCCL 2.30, `src/transport/net_ib/p2p.cc`.

use traces::graph::Message;
use traces::unit::Bytes;
use traces::wire::Psn;
use traces::wire::segment::{AckCadence, Segments, Verb};

use crate::connection::{CLEARANCE, QueuePair};
use crate::plan::{Collectives, Transport};

/// Where a part of a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The queue pair's place in its connection.
    pub lane: u32,
    /// Where it starts in the message.
    pub offset: u64,
    /// Its bytes.
    pub bytes: Bytes,
}

/// The parts of the connection's `number`-th message of `bytes`: one of them, or one a queue pair.
pub fn parts(collectives: &Collectives, number: u32, bytes: Bytes) -> impl Iterator<Item = Part> + use<> {
    let width = collectives.queue_pairs;
    let (first, lanes, share) = if collectives.split {
        (0, width, bytes.0.div_ceil(width.into()).next_multiple_of(SPLIT_ALIGNMENT))
    } else {
        (number % width, 1, bytes.0)
    };
    (0..lanes).map(move |part| {
        let offset = (u64::from(part) * share).min(bytes.0);
        Part { lane: first + part, offset, bytes: Bytes(share.min(bytes.0 - offset)) }
    })
}

/// The number in its connection of a queue pair's message.
#[must_use]
pub const fn number(collectives: &Collectives, pair: &QueuePair, sequence: u32) -> u32 {
    if collectives.split {
        sequence
    } else {
        sequence.wrapping_mul(collectives.queue_pairs).wrapping_add(pair.lane)
    }
}

/// The frames of a part of `bytes` of a message of `whole` bytes, the queue pair's `sequence`-th.
#[must_use]
pub fn segments(transport: &Transport, bytes: Bytes, whole: Bytes, sequence: u32, first: Psn) -> Segments {
    let apart = transport.adaptive_routing && whole.0 > ADAPTIVE_THRESHOLD;
    Segments {
        verb: if apart { Verb::Write } else { Verb::WriteImmediate },
        bytes,
        path_mtu: transport.path_mtu,
        first,
        acks: acks(transport, sequence),
        closing: apart.then_some(0),
    }
}

/// The frames of a message of the graph.
#[must_use]
pub fn message(transport: &Transport, message: &Message) -> Segments {
    let whole = message.immediate.map_or(message.bytes, |bytes| Bytes(bytes.into()));
    let first = Psn::wrapping(message.first_psn);
    segments(transport, message.bytes, whole, message.id.sequence, first)
}

/// The frame of the `sequence`-th clear-to-send write of a queue pair.
#[must_use]
pub fn clearance(transport: &Transport, sequence: u32, first: Psn) -> Segments {
    Segments {
        verb: Verb::Write,
        bytes: Bytes(CLEARANCE),
        path_mtu: transport.path_mtu,
        first,
        acks: acks(transport, sequence),
        closing: None,
    }
}

const fn acks(transport: &Transport, sequence: u32) -> AckCadence {
    let AckCadence { between, opening } = transport.profile.acks;
    AckCadence { between, opening: opening && sequence == 0 }
}

/// Parts of a split message are multiples of so many bytes, but the last (`ncclIbMultiSend`).
const SPLIT_ALIGNMENT: u64 = 128;

/// Messages above so many bytes go apart from their immediate value (`NCCL_IB_AR_THRESHOLD`).
const ADAPTIVE_THRESHOLD: u64 = 8192;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn collectives(queue_pairs: u32, split: bool) -> Collectives {
        Collectives { channels: 1, queue_pairs, split }
    }

    #[test]
    fn queue_pairs_take_messages_in_turn_or_each_a_part() {
        let turns: Vec<_> = (0..5).flat_map(|n| parts(&collectives(3, false), n, Bytes(10))).collect();
        assert_eq!(turns.iter().map(|part| part.lane).collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
        let split: Vec<_> = parts(&collectives(4, true), 7, Bytes(1000)).collect();
        assert_eq!(
            split.iter().map(|part| (part.lane, part.offset, part.bytes.0)).collect::<Vec<_>>(),
            [(0, 0, 256), (1, 256, 256), (2, 512, 256), (3, 768, 232)]
        );
        let small: Vec<_> = parts(&collectives(4, true), 7, Bytes(100)).map(|part| part.bytes.0).collect();
        assert_eq!(small, [100, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn parts_tile_the_message(width in 1..=16_u32, split: bool, number in 0..100_u32, bytes in 0..5_000_000_u64) {
            let mut at = 0;
            for part in parts(&collectives(width, split), number, Bytes(bytes)) {
                prop_assert_eq!(part.offset, at);
                prop_assert!(part.lane < width);
                at += part.bytes.0;
            }
            prop_assert_eq!(at, bytes);
        }
    }
}
