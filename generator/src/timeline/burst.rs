//! What the timeline says of a line: frames that follow each other.

use traces::id::QueuePairId;
use traces::origin::Origin;
use traces::unit::{Bytes, Nanos};
use traces::wire::segment::{Encapsulation, Segments, frame_bytes, line_bytes};
use traces::wire::{Opcode, Psn};

/// Frames that follow each other on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// When its first bit passes the port.
    pub start: Nanos,
    /// Whether the port sends or receives it.
    pub direction: Direction,
    /// The queue pair that sends it.
    pub sender: QueuePairId,
    /// The IPv4 identification of its first frame; the others count on.
    pub identification: u16,
    /// What it carries.
    pub content: Content,
}

/// A direction, seen from a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// The port sends.
    Sent,
    /// The port receives.
    Received,
}

/// What a burst carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Frames of a message.
    Data {
        /// The message's place among those of its queue pair.
        sequence: u32,
        /// The message's frames.
        segments: Segments,
        /// The first frame, from zero.
        first: u64,
        /// How many.
        count: u64,
        /// Why the message exists.
        origin: Origin,
    },
    /// One acknowledgement.
    Acknowledge {
        /// The sequence number that it is about.
        psn: Psn,
        /// Messages completed by then.
        messages: Psn,
    },
}

impl Content {
    /// How many frames it is.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        match self {
            Self::Data { count, .. } => *count,
            Self::Acknowledge { .. } => 1,
        }
    }

    /// The bytes that it takes on the line, with FCS, preamble and gap.
    #[must_use]
    pub fn line_bytes(&self, encapsulation: Encapsulation) -> Bytes {
        match self {
            Self::Data { segments, first, count, .. } => (*first..first + count)
                .filter_map(|index| segments.get(index))
                .map(|segment| line_bytes(segment.frame_bytes(encapsulation)))
                .sum(),
            Self::Acknowledge { .. } => {
                let frame = frame_bytes(Opcode::Acknowledge, 0, encapsulation);
                line_bytes(frame)
            }
        }
    }
}
