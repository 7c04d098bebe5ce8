//! What the network and the congestion control do to frames: loss, marks, delay, receivers that are not ready, and the rate
//! that a sender keeps after it was notified.
//!
//! Pure, in whole nanoseconds, and told nothing but identities: what happens to a frame does not depend on what else was
//! asked, nor in which order. The timeline asks and acts; what receivers answer (NAK, RNR NAK, notifications on the wire) and
//! how senders repeat stands there.

pub mod notification;
pub mod dcqcn;
mod frame;
mod path;
mod trouble;

pub use dcqcn::ReactionPoint;
pub use frame::{Fate, FrameId, FrameKind};
pub use notification::{Notice, NotificationPoint};
pub use path::Paths;
pub use trouble::Trouble;
