//! The engine of one host: which frame leaves when, and what an arriving one means. Without sockets, clocks, threads.
//!
//! A thread owns it, tells it the time and what arrives, and sends what it writes:
//!
//! ```text
//! loop {
//!     while engine.wants()     { engine.feed_node(..) or feed_frame(..), or end_of_input() }
//!     for each frame received  { engine.on_arrival(now, nic, bytes, ecn) }
//!     match engine.poll(now, buffer) {
//!         Send(burst)  => its bytes stand in the buffer; the invariant CRCs are the sender's to write
//!         Wait(until)  => receive until then, or until there is something to feed
//!         Done         => outcome(now)
//!     }
//! }
//! ```
//! Time is nanoseconds since the run's epoch. Two sources: `dependency` executes the host's graph over a reliable
//! transport (`sender`, `receiver`), `timed` plays the frames of a capture. Neither locks, logs or reads a clock,
//! and neither allocates once its queues have grown to what the trace needs.
//!
//! Not here: the invariant CRC (it covers IP, which the network's side knows), and reading traces.

pub mod setup;
mod packet;
mod directory;
mod graph;
mod inbox;
mod operations;
mod sender;
mod receiver;
mod turns;
mod transport;
mod dependency;
mod timed;

use thiserror::Error;
use traces::graph::Node;
use traces::id::{NodeId, QueuePairId};
use traces::unit::Nanos;

use self::dependency::Dependency;
use self::timed::Timed;
use crate::outcome::host::SCHEMA_VERSION;
use crate::outcome::{Clock, End, HostOutcome, Mode, SamplesError, Speed};

pub use setup::{Limits, QueuePairEnd, Setup, SetupError};
pub use timed::TimedFrame;

/// The engine of one host.
#[derive(Debug)]
pub struct Engine {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Dependency(Box<Dependency>),
    Timed(Box<Timed>),
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send the burst that was written into the buffer, all of it; then ask again.
    Send(Burst),
    /// Nothing until this instant, unless something arrives or is fed.
    Wait(Nanos),
    /// Nothing any more.
    Done,
}

/// Frames of one flow, one behind the other from the start of the buffer, each from its base transport header to the
/// four bytes of room for its invariant CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The queue pair that sends, by its place in [`Setup::queue_pairs`].
    pub flow: usize,
    /// How many frames.
    pub frames: usize,
    /// The length of each; the last may be shorter.
    pub frame_bytes: usize,
    /// The length of all.
    pub bytes: usize,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Nodes complete, or frames sent in timed mode.
    pub done: u64,
    /// Nodes or frames fed so far.
    pub fed: u64,
    /// Payload sent, what was sent again included.
    pub payload_bytes_sent: u64,
    /// Payload received.
    pub payload_bytes_received: u64,
    /// Whether this host's own part is done; it still answers its peers until [`Engine::stop`] or the drain's end.
    pub finished: bool,
}

/// Why a host cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// A peer does not acknowledge.
    #[error(
        "{sender} has had no acknowledgement from its peer for {tries} time-outs in a row; is the peer alive?"
    )]
    PeerSilent {
        /// The queue pair that sends.
        sender: QueuePairId,
        /// Time-outs in a row.
        tries: u32,
    },
    /// A peer refuses a request for good.
    #[error("the peer of {sender} refuses with syndrome 0x{syndrome:02x}")]
    Refused {
        /// The queue pair that sends.
        sender: QueuePairId,
        /// The syndrome of its answer.
        syndrome: u8,
    },
    /// Nothing happens, and there is work left.
    #[error("nothing has arrived for {after}, and {node} still waits for a message")]
    Idle {
        /// For how long.
        after: Nanos,
        /// The first node that is not complete.
        node: NodeIdText,
    },
    /// The graph contradicts itself or the manifest.
    #[error("{node} of the graph {what}")]
    Graph {
        /// The node.
        node: NodeIdText,
        /// What is wrong, and what would be right.
        what: &'static str,
    },
    /// The buffer for bursts is too small.
    #[error("the buffer for bursts has {has} bytes, a frame needs {needs}")]
    Buffer {
        /// Its length.
        has: usize,
        /// What it needs.
        needs: usize,
    },
    /// A frame of the capture is none that can be played.
    #[error("a frame at {at} of the capture {what}")]
    Frame {
        /// Its time.
        at: Nanos,
        /// What is wrong.
        what: &'static str,
    },
    /// What was fed belongs to the other mode.
    #[error("a {mode} replay was fed {what}")]
    Mode {
        /// The mode.
        mode: &'static str,
        /// What it was fed.
        what: &'static str,
    },
}

/// A node as messages name it: `node 17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdText(pub NodeId);

impl std::fmt::Display for NodeIdText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node {}", self.0.0)
    }
}

impl Engine {
    /// An engine that runs the host's graph.
    #[must_use]
    pub fn dependency(setup: Setup) -> Self {
        Self { source: Source::Dependency(Box::new(Dependency::new(setup))) }
    }

    /// An engine that plays the host's captures at a speed. `duration` is that of the whole trace: what the host is to
    /// receive may come until then.
    #[must_use]
    pub fn timed(setup: Setup, speed: Speed, duration: Nanos) -> Self {
        Self { source: Source::Timed(Box::new(Timed::new(setup, speed, duration))) }
    }

    /// How the trace is played.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        match &self.source {
            Source::Dependency(_) => Mode::Dependency,
            Source::Timed(timed) => Mode::Timed { speed: timed.speed() },
        }
    }

    /// Whether there is room for more nodes or frames, and the end has not been told.
    #[must_use]
    pub fn wants(&self) -> bool {
        match &self.source {
            Source::Dependency(engine) => engine.wants(),
            Source::Timed(engine) => engine.wants(),
        }
    }

    /// Takes the next node of the graph: they come in the order of their ids, without gaps.
    ///
    /// # Errors
    /// [`Fault::Graph`] if the node cannot be what the graph has next; the engine is then [`Next::Done`].
    pub fn feed_node(&mut self, now: Nanos, node: &Node) -> Result<(), Fault> {
        match &mut self.source {
            Source::Dependency(engine) => engine.feed(now, node),
            Source::Timed(_) => Err(Fault::Mode { mode: "timed", what: "a node" }),
        }
    }

    /// Takes the next frame of the captures: they come in the order of their times.
    ///
    /// # Errors
    /// [`Fault::Frame`] if it cannot be played; the engine goes on without it.
    pub fn feed_frame(&mut self, frame: &TimedFrame<'_>) -> Result<(), Fault> {
        match &mut self.source {
            Source::Dependency(_) => Err(Fault::Mode { mode: "dependency", what: "a frame" }),
            Source::Timed(engine) => engine.feed(frame),
        }
    }

    /// There are no more nodes or frames.
    pub fn end_of_input(&mut self) {
        match &mut self.source {
            Source::Dependency(engine) => engine.end_of_input(),
            Source::Timed(engine) => engine.end_of_input(),
        }
    }

    /// What is to be done at `now`, which never goes back. Frames are written into `buffer`, at most as many as fit and
    /// as the kernel segments at once; it needs room for one frame, and 64 KiB is the best.
    pub fn poll(&mut self, now: Nanos, buffer: &mut [u8]) -> Next {
        match &mut self.source {
            Source::Dependency(engine) => engine.poll(now, buffer),
            Source::Timed(engine) => engine.poll(now, buffer),
        }
    }

    /// A datagram arrived at a NIC, given by its place in [`Setup::nics`]: `bytes` from the base transport header to the
    /// invariant CRC, `ecn` the two bits of its IP header.
    pub fn on_arrival(&mut self, now: Nanos, nic: usize, bytes: &[u8], ecn: u8) {
        match &mut self.source {
            Source::Dependency(engine) => engine.on_arrival(now, nic, bytes, ecn),
            Source::Timed(engine) => engine.on_arrival(now, nic, bytes, ecn),
        }
    }

    /// A datagram arrived whose invariant CRC, `checked` by the network's side, is wrong or right; only wrong ones count,
    /// and must not be given to [`Self::on_arrival`].
    pub fn on_icrc(&mut self, nic: usize, right: bool) {
        let meter = match &mut self.source {
            Source::Dependency(engine) => engine.meter(),
            Source::Timed(engine) => engine.meter(),
        };
        if let Some(counts) = meter.nic(nic) {
            *counts.icrc_errors.get_or_insert(0) += u64::from(!right);
        }
    }

    /// Starts nothing new; what is on its way may still arrive for a short while. If the host's own part is done, its
    /// end is [`crate::outcome::End::Complete`] all the same.
    pub fn stop(&mut self, now: Nanos) {
        match &mut self.source {
            Source::Dependency(engine) => engine.stop(now),
            Source::Timed(engine) => engine.stop(now),
        }
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&mut self) -> Progress {
        match &mut self.source {
            Source::Dependency(engine) => engine.progress(),
            Source::Timed(engine) => engine.progress(),
        }
    }

    /// Why it cannot go on, if so.
    #[must_use]
    pub const fn fault(&self) -> Option<&Fault> {
        match &self.source {
            Source::Dependency(engine) => engine.fault(),
            Source::Timed(engine) => engine.fault(),
        }
    }

    /// What was measured until `now`. Meant for the end; asked before it, the outcome is that of a host that stopped.
    ///
    /// # Errors
    /// [`SamplesError`] if a histogram cannot be written.
    pub fn outcome(&self, now: Nanos) -> Result<HostOutcome, SamplesError> {
        match &self.source {
            Source::Dependency(engine) => engine.outcome(now),
            Source::Timed(engine) => engine.outcome(now),
        }
    }
}

/// The outcome of a host that has not measured anything.
fn blank(setup: &Setup, mode: Mode, end: End) -> HostOutcome {
    HostOutcome {
        schema_version: SCHEMA_VERSION,
        run: setup.run,
        host: setup.host,
        mode,
        end,
        clock: Clock::same(),
        start_ns: setup.start.0,
        end_ns: setup.start.0,
        nodes_complete: 0,
        nodes_read: 0,
        nics: Vec::new(),
        classes: Vec::new(),
        sent: Vec::new(),
        received: Vec::new(),
        latency: Vec::new(),
        operations: Vec::new(),
        steps: Vec::new(),
        computes: Vec::new(),
        left_off: 0,
    }
}
#[cfg(test)]
mod tests;
