//! An operation as messages: which bytes go from which member to which, in which order, by formula.
//!
//! The rules are NCCL's (release 2.30), for the Simple protocol: [`ring`] for all-reduce, [`train`] for a send and its
//! receive. Everything is closed form, so nothing here grows with the size of an operation. What a message waits for
//! is decided in [`crate::program`], when it becomes a node of a graph.
//!
//! Not here: which NIC carries a message, and when.

pub mod ring;
pub mod train;

pub use ring::RingAllReduce;
pub use train::{Train, TrainChannels};

/// Messages of a ring's edge that may be under way: NCCL_STEPS 8, and a slice of the Simple ring is two steps.
pub const RING_WINDOW: usize = 4;

/// Messages of a send that may be under way on a channel: NCCL_STEPS 8, and a message is one step.
pub const TRAIN_WINDOW: usize = 8;
