//! What a coordinator asks of its agents.

use std::path::PathBuf;

use traces::id::HostId;

use super::place::Place;
use crate::dataplane::NicAddress;
use crate::net::Offload;
use crate::outcome::Mode;

/// What is to be played, and how.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The run, as the stamps of its frames name it.
    pub run: u32,
    /// The trace folder, as all agents see it.
    pub trace: PathBuf,
    /// How.
    pub mode: Mode,
    /// The UDP port that all receive on.
    pub udp_port: u16,
    /// How bursts are handed to the kernel.
    pub offload: Offload,
}

/// An agent and its part.
#[derive(Clone, Debug)]
pub struct AgentPlace {
    /// Where it listens.
    pub place: Place,
    /// The hosts that it plays.
    pub hosts: Vec<HostId>,
    /// Where it reaches each NIC of the trace, and listens for its own.
    pub addresses: Vec<NicAddress>,
}
