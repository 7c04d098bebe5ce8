//! A frame as trouble knows it: by what it is, not by when anybody asks.

use traces::id::{NicId, QueuePairId};
use traces::origin::Class;
use traces::unit::Nanos;

/// One transmission of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameId {
    /// The queue pair that sends it.
    pub sender: QueuePairId,
    /// What it is.
    pub kind: FrameKind,
    /// Why the message exists that it belongs to, or that it answers.
    pub class: Class,
    /// The message that it belongs to, by its place among those of the sender. Acknowledgements: the message of the peer that
    /// they answer. Clear-to-send writes and notifications: the how-manieth of the sender, from zero.
    pub sequence: u32,
    /// Its place in that message, from zero. Acknowledgements: that of the frame that they answer. Otherwise zero.
    pub index: u64,
    /// The how-manieth time it is sent, from one.
    pub transmission: u32,
    /// Its place among all frames of this kind that the sender sends, repetitions not counted: where bursts are. Data: the
    /// distance from the first sequence number of the queue pair.
    pub place: u64,
    /// When it is sent.
    pub sent: Nanos,
    /// The NIC that sends it.
    pub from: NicId,
    /// The NIC that it goes to.
    pub to: NicId,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrameKind {
    /// Part of a message.
    Data,
    /// An acknowledgement, positive or negative.
    Acknowledgement,
    /// A clear-to-send write.
    ClearToSend,
    /// A congestion notification.
    Notification,
}

/// What happens to a frame on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// It does not arrive.
    pub lost: bool,
    /// A switch marks it (CE).
    pub marked: bool,
    /// How much later than others it arrives. What follows it on its path waits for it: see [`super::Paths`].
    pub delay: Nanos,
}

impl FrameKind {
    /// A number of its own, for draws.
    pub(super) const fn number(self) -> u64 {
        match self {
            Self::Data => 0,
            Self::Acknowledgement => 1,
            Self::ClearToSend => 2,
            Self::Notification => 3,
        }
    }
}
