//! What the timeline says of a line: frames that follow each other.

use traces::id::QueuePairId;
use traces::origin::{Class, Origin};
use traces::unit::{BitRate, Bytes, Nanos};
use traces::wire::management::Mad;
use traces::wire::segment::{Encapsulation, Segments, frame_bytes, line_bytes};
use traces::wire::{Bth, Opcode, Psn, RemoteKey, Syndrome};

use super::handshake::Handshake;

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
    /// Whether a switch has marked its frames (CE).
    pub marked: bool,
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
        /// The message.
        carried: Carried,
        /// The first frame, from zero.
        first: u64,
        /// How many.
        count: u64,
        /// Whether they were sent before.
        again: bool,
    },
    /// One answer: an acknowledgement or a refusal.
    Answer {
        /// What it says.
        syndrome: Syndrome,
        /// The sequence number that it is about.
        psn: Psn,
        /// Messages completed by then.
        messages: Psn,
        /// The frame that it answers.
        about: About,
    },
    /// One congestion notification: the how-manieth of its sender, from zero, and why the marked frame exists.
    Notification(u32, Class),
    /// One message of a handshake of RDMA-CM.
    Handshake(Handshake),
}

/// A frame that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its message, among those of its queue pair.
    pub sequence: u32,
    /// Its place in the message.
    pub index: u64,
    /// Why the message exists.
    pub class: Class,
    /// Answers of this sender to frames that it had answered before.
    pub repeated: u32,
    /// The how-manieth answer of its sender it is, from zero.
    pub place: u64,
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Its place among those of its queue pair.
    pub sequence: u32,
    /// Its frames.
    pub segments: Segments,
    /// Where its bytes stand in the operation's buffer.
    pub offset: u64,
    /// Where it is written.
    pub address: u64,
    /// The key of that memory.
    pub remote_key: RemoteKey,
    /// What it is for.
    pub purpose: Purpose,
    /// Why it exists; for a clearance, why the message does that it clears.
    pub origin: Origin,
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It carries data; its immediate value says how many bytes the whole is, of which it may be a part.
    Data {
        /// Those bytes.
        whole: u32,
    },
    /// It clears the sender to send: what it carries.
    Clearance(Clearance),
}

/// What a clear-to-send write says (NCCL's `struct ncclIbSendFifo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clearance {
    /// Where the data go.
    pub address: u64,
    /// The key of that memory.
    pub remote_key: RemoteKey,
    /// How many bytes there is room for.
    pub room: u64,
    /// The connection's so manieth message, from zero.
    pub number: u32,
}

impl Burst {
    /// Frames of it: `count` from `skip` on, the first of which starts so long `after` the burst.
    pub(super) fn part(&self, skip: u64, count: u64, after: Nanos, marked: bool) -> Self {
        let [.., high, low] = skip.to_be_bytes();
        Self {
            start: self.start + after,
            identification: self.identification.wrapping_add(u16::from_be_bytes([high, low])),
            marked,
            content: self.content.part(skip, count),
            ..*self
        }
    }
}

impl Content {
    /// How many frames it is.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        match self {
            Self::Data { count, .. } => *count,
            Self::Answer { .. } | Self::Notification(..) | Self::Handshake(_) => 1,
        }
    }

    /// Whether it is an acknowledgement.
    pub(super) const fn acknowledges(&self) -> bool {
        matches!(self, Self::Answer { syndrome: Syndrome::Ack(_), .. })
    }

    /// The frames from `skip` on, `count` of them.
    #[must_use]
    pub(super) fn part(&self, skip: u64, count: u64) -> Self {
        match *self {
            Self::Data { carried, first, again, .. } => {
                Self::Data { carried, first: first + skip, count, again }
            }
            other => other,
        }
    }

    /// The bytes that it takes on the line, with FCS, preamble and gap.
    #[must_use]
    pub fn line_bytes(&self, encapsulation: Encapsulation) -> Bytes {
        (0..self.frames()).map(|index| line_bytes(self.frame_bytes(index, encapsulation))).sum()
    }

    /// The bytes of its frame at `index`.
    fn frame_bytes(&self, index: u64, encapsulation: Encapsulation) -> Bytes {
        match self {
            Self::Data { carried, first, .. } => carried
                .segments
                .get(first + index)
                .map_or(Bytes::ZERO, |segment| segment.frame_bytes(encapsulation)),
            Self::Answer { .. } => frame_bytes(Opcode::Acknowledge, 0, encapsulation),
            Self::Notification(..) => {
                frame_bytes(Opcode::CongestionNotification, Bth::NOTIFICATION_PAYLOAD.len(), encapsulation)
            }
            Self::Handshake(_) => frame_bytes(Opcode::DatagramSendOnly, Mad::LEN, encapsulation),
        }
    }

    /// The time that each frame starts at, from the burst's start, and the one that ends the last.
    pub(super) fn starts(&self, encapsulation: Encapsulation, rate: BitRate) -> impl Iterator<Item = Nanos> {
        let mut bytes = Bytes::ZERO;
        (0..=self.frames()).map(move |index| {
            let start = rate.time_of(bytes);
            if index < self.frames() {
                bytes += line_bytes(self.frame_bytes(index, encapsulation));
            }
            start
        })
    }
}

impl Clearance {
    /// Its 64 bytes: address, room, eight keys of which the first counts, one request, a tag, and its number from one;
    /// little-endian, as the host has them.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.room.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.remote_key.0.to_le_bytes());
        bytes[48..52].copy_from_slice(&1_u32.to_le_bytes());
        bytes[56..].copy_from_slice(&(u64::from(self.number) + 1).to_le_bytes());
        bytes
    }
}
