//! The set-up and the end of connections by RDMA-CM, as the timeline has them: who says what when.
//!
//! Each queue pair of a connection is set up by three messages before the first step (request, reply, ready to use) and ended
//! by two after the last (disconnect request and reply). What they say in bytes stands in [`traces::wire::management`].

use traces::unit::Nanos;

/// A message of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// What it is.
    pub step: Step,
    /// The sequence number on its sender's queue pair 1.
    pub psn: u32,
}

/// The messages of a handshake, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The active side asks for a connection.
    Request,
    /// The passive side agrees.
    Reply,
    /// The active side is ready.
    Ready,
    /// The active side ends it.
    Disconnect,
    /// The passive side agrees.
    Disconnected,
}

impl Step {
    /// Whether the active side says it: the end that sends data.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Request | Self::Ready | Self::Disconnect)
    }

    /// What follows, and how long its sender takes for it.
    pub(super) const fn next(self) -> Option<(Self, Nanos)> {
        match self {
            Self::Request => Some((Self::Reply, REPLY)),
            Self::Reply => Some((Self::Ready, READY)),
            Self::Disconnect => Some((Self::Disconnected, REPLY)),
            Self::Ready | Self::Disconnected => None,
        }
    }
}

/// When the handshake of the `index`-th queue pair begins, behind that of the first.
pub(super) const fn begins(index: u64) -> Nanos {
    Nanos(index * APART.0)
}

/// From the last message of the set-up to the first step (rxe: half a millisecond).
pub(super) const SETTLED: Nanos = Nanos(500_000);

/// From the last event of the training to the first disconnect.
pub(super) const LINGER: Nanos = Nanos(700_000);

/// An application sets its connections up one after another.
const APART: Nanos = Nanos(50_000);

/// What a host takes to answer: user space is asked.
const REPLY: Nanos = Nanos(300_000);
const READY: Nanos = Nanos(100_000);
