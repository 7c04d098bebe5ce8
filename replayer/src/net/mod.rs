//! From frames to the network and back: backends that send bursts and receive batches.
//!
//! A backend is a value behind the trait [`Backend`], chosen at run time. It knows addresses and sockets; what stands
//! in a frame from its base transport header on is the engine's. All that the kernel has to be told without Rust's
//! help is in `sys`, the only room with unsafe code.

mod sys;
pub mod flow;
mod invariant;
mod wait;
pub mod udp;

use std::io;

use traces::unit::Nanos;

pub use flow::{Flow, FlowId, Place};
pub use udp::{Offload, Udp, UdpError, UdpOptions};

/// A way to the network. One thread owns it.
pub trait Backend {
    /// Sends a burst; returns how many of its frames the system has taken.
    ///
    /// # Errors
    /// When the system refuses for a reason that trying again does not cure: an unreachable address, a frame larger
    /// than the device takes.
    fn send(&mut self, burst: Burst<'_>) -> io::Result<usize>;

    /// Hands each frame that has arrived to `each`, at most one batch of them and without waiting; returns how many.
    ///
    /// # Errors
    /// What the system answers.
    fn receive(&mut self, each: &mut dyn FnMut(Arrival<'_>)) -> io::Result<usize>;

    /// Waits until something arrives, at the most for `timeout`.
    ///
    /// # Errors
    /// What the system answers.
    fn wait(&mut self, timeout: Nanos) -> io::Result<()>;

    /// What should be known about it: fallbacks taken, limits granted.
    fn notes(&self) -> &[String];
}

/// Frames of one flow, one behind the other, that leave together.
#[derive(Debug)]
pub struct Burst<'a> {
    /// Whose they are.
    pub flow: FlowId,
    /// Each from its base transport header to its last byte; the last four of each are room for the invariant CRC,
    /// which the backend writes, since it covers what only the backend knows.
    pub bytes: &'a mut [u8],
    /// The length of each frame. The last may be shorter.
    pub frame_bytes: usize,
}

/// A frame that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The NIC that it arrived at, by its place among the addresses to listen at.
    pub nic: usize,
    /// From its base transport header to its last byte.
    pub bytes: &'a [u8],
    /// Its ECN field: 3 when a switch has marked it.
    pub ecn: u8,
}

#[cfg(test)]
mod tests;
