//! One thread per host: it owns the host's engine and sockets, and turns the one's wishes into the other's calls.
//!
//! Comes from a trace folder and the agent's [`Assignment`]; goes to the network, and in the end to a
//! [`HostOutcome`]. The thread neither locks nor allocates nor logs while it plays: a reader thread decodes the trace
//! ahead into a ring, counters are atomics, and the outcome is what the thread returns.

mod feed;
mod classes;
mod frames;
mod host;
mod core;
mod player;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use thiserror::Error;
use traces::folder::{FolderError, TraceFolder};
use traces::id::{HostId, NicId};
use traces::unit::Nanos;

use crate::engine::SetupError;
use crate::net::{Offload, UdpError};
use crate::outcome::{HostOutcome, Mode};
use host::Host;

/// What an agent is to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The run, as the stamps of its frames name it.
    pub run: u32,
    /// The trace folder.
    pub trace: PathBuf,
    /// The hosts to play.
    pub hosts: Vec<HostId>,
    /// Where each NIC of the trace is reached; those of the hosts to play are listened at.
    pub addresses: Vec<NicAddress>,
    /// The UDP port that all receive on.
    pub udp_port: u16,
    /// How the trace is played.
    pub mode: Mode,
    /// How bursts are handed to the kernel.
    pub offload: Offload,
    /// Threads like ours on this machine, in all of its agents: they spin before deadlines only if there is a core for
    /// each and one to spare.
    pub threads: usize,
}

/// Where a NIC of the trace is reached in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicAddress {
    /// The NIC.
    pub nic: NicId,
    /// Its address in the run.
    pub address: IpAddr,
}

/// How a run stands: sums over hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Frames handed to the system.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Bytes handed to the system, from the base transport header on.
    pub bytes_sent: u64,
    /// Nodes complete, or frames sent in timed mode.
    pub done: u64,
    /// Frames that could not be sent: the system's queues were full for too long, or a capture has what is none.
    pub refused: u64,
    /// Whether all are done with their own part.
    pub finished: bool,
}

/// Hosts that are ready to be played: sockets open, the trace read ahead.
#[derive(Debug)]
pub struct Prepared {
    hosts: Vec<Host>,
    notes: Vec<String>,
}

/// Hosts that are being played. Dropping it stops them.
#[derive(Debug)]
pub struct Running {
    hosts: Vec<Arc<Shared>>,
    threads: Mutex<Vec<JoinHandle<Option<HostOutcome>>>>,
}

/// What a thread and its owner share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    over: AtomicBool,
    finished: AtomicBool,
    frames_sent: AtomicU64,
    frames_received: AtomicU64,
    bytes_sent: AtomicU64,
    done: AtomicU64,
    refused: AtomicU64,
    failure: Mutex<Option<String>>,
}

/// Why hosts cannot be played.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataplaneError {
    /// The trace cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The trace does not say what the engine has to know.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The sockets cannot be opened.
    #[error(transparent)]
    Udp(#[from] UdpError),
    /// A NIC has no address in this run.
    #[error("no address is given for {0}")]
    NoAddress(NicId),
    /// There is nothing to play.
    #[error("no host is given to play")]
    NoHost,
    /// A thread cannot be started.
    #[error("cannot start a thread for {host}")]
    Thread {
        /// For which host.
        host: HostId,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl Prepared {
    /// Opens the trace and the sockets of the hosts, and begins to read ahead.
    ///
    /// # Errors
    /// [`DataplaneError`] when the trace or the addresses do not allow it.
    pub fn new(assignment: &Assignment) -> Result<Self, DataplaneError> {
        let folder = TraceFolder::open(&assignment.trace)?;
        let hosts = assignment
            .hosts
            .iter()
            .map(|&host| Host::new(&folder, host, assignment))
            .collect::<Result<Vec<_>, _>>()?;
        if hosts.is_empty() {
            return Err(DataplaneError::NoHost);
        }
        let notes = hosts.iter().flat_map(Host::notes).collect();
        Ok(Self { hosts, notes })
    }

    /// What should be known: fallbacks taken, limits granted.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Starts the threads; they play from `at` on, an instant of [`crate::clock::Clock::MONOTONIC`].
    ///
    /// # Errors
    /// [`DataplaneError::Thread`] when the system starts none.
    pub fn start(self, at: Nanos) -> Result<Running, DataplaneError> {
        let mut running = Running { hosts: Vec::new(), threads: Mutex::default() };
        for host in self.hosts {
            let shared = Arc::new(Shared::default());
            running.hosts.push(Arc::clone(&shared));
            let id = host.id();
            let thread = std::thread::Builder::new()
                .name(format!("play {id}"))
                .spawn(move || player::play(host, at, &shared))
                .map_err(|source| DataplaneError::Thread { host: id, source })?;
            running.threads.get_mut().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(running)
    }
}

impl Running {
    /// How they stand.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.hosts.iter().map(|host| host.standing()).sum()
    }

    /// Whether all threads have ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.hosts.iter().all(|host| host.over.load(Ordering::Acquire))
    }

    /// Why one of them cannot go on, if so.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.hosts.iter().find_map(|host| host.failure.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Tells all of them to end.
    pub fn stop(&self) {
        for host in &self.hosts {
            host.stop.store(true, Ordering::Release);
        }
    }

    /// Waits until all have ended; what they measured. Empty when it was taken before.
    #[must_use]
    pub fn outcomes(&self) -> Vec<HostOutcome> {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn standing(&self) -> Standing {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Standing {
            frames_sent: of(&self.frames_sent),
            frames_received: of(&self.frames_received),
            bytes_sent: of(&self.bytes_sent),
            done: of(&self.done),
            refused: of(&self.refused),
            finished: self.finished.load(Ordering::Acquire),
        }
    }

    fn publish(&self, standing: Standing) {
        let to = |counter: &AtomicU64, value| counter.store(value, Ordering::Relaxed);
        to(&self.frames_sent, standing.frames_sent);
        to(&self.frames_received, standing.frames_received);
        to(&self.bytes_sent, standing.bytes_sent);
        to(&self.done, standing.done);
        to(&self.refused, standing.refused);
        self.finished.store(standing.finished, Ordering::Release);
    }

    fn fail(&self, why: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }
}

impl std::iter::Sum for Standing {
    /// Counts add up; all of none are not finished.
    fn sum<I: Iterator<Item = Self>>(standings: I) -> Self {
        standings
            .reduce(|a, b| Self {
                frames_sent: a.frames_sent + b.frames_sent,
                frames_received: a.frames_received + b.frames_received,
                bytes_sent: a.bytes_sent + b.bytes_sent,
                done: a.done + b.done,
                refused: a.refused + b.refused,
                finished: a.finished && b.finished,
            })
            .unwrap_or_default()
    }
}

#[cfg(test)]
pub(crate) mod ring;
#[cfg(test)]
mod tests;
