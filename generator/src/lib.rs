//! From a parallelism plan to a trace: words, tokens, tensors, operations, messages, frames.
//!
//! Synchronous and portable; pure but for `plan::load` and `trace`. The modules stand in the order in which data flows.
#![forbid(unsafe_code)]

pub mod model;
pub mod tokens;
pub mod plan;
pub mod placement;
pub mod operation;
pub mod pipeline;
pub mod explain;
pub mod random;
pub mod schedule;
pub mod collective;
pub mod connection;
pub mod carriage;
pub mod content;
pub mod program;
pub mod fabric;
pub mod timeline;
pub mod notes;
pub mod frames;
pub mod capture;
pub mod trace;
