//! A testbed on this machine: one agent process per host of a trace, each with addresses of its own.
//!
//! Two kinds. *Namespaces*: each agent in a network namespace of its own with a veth pair per NIC, all joined by a
//! bridge, with the trace's addresses, MACs and MTU; frames pass a real Ethernet, and a capture there shows them.
//! Links have the trace's rate where this machine holds it.
//! *Loopback*: each NIC is an address in 127.0.0.0/8; needs nothing, but there is no Ethernet. Neither leaves anything
//! behind: namespaces, bridge and agents end with the process that owns the lab, however it ends.

mod error;
mod agents;
mod loopback;
mod shape;
mod namespaces;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use traces::manifest::Manifest;

pub use error::LabError;

use crate::control::{AgentPlace, Place, chain};
use crate::dataplane::NicAddress;
use agents::{Agent, Folder};
use namespaces::Namespaces;

/// Which kind of testbed is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    /// Namespaces if the user may make them, else loopback.
    #[default]
    Auto,
    /// Namespaces or nothing.
    Namespaces,
    /// Loopback.
    Loopback,
}

/// What a lab is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Network namespaces with veth pairs.
    Namespaces,
    /// Addresses of loopback.
    Loopback,
}

/// A testbed and its agents. Dropping it ends them and waits until they have ended.
#[derive(Debug)]
pub struct Lab {
    kind: Kind,
    notes: Vec<String>,
    places: Vec<AgentPlace>,
    // In the order in which they end: agents before the network that they use, their folder last.
    agents: Vec<Agent>,
    _network: Option<Namespaces>,
    _folder: Folder,
}

impl Lab {
    /// Builds a testbed for the hosts of a trace and starts an agent on each: `program agent --socket PATH
    /// --with-parent`.
    ///
    /// # Errors
    /// [`LabError`] when an agent does not start, or namespaces are wanted and not possible.
    pub fn start(manifest: &Manifest, how: How, program: &Path) -> Result<Self, LabError> {
        let folder = Folder::new()?;
        let mut notes = Vec::new();
        if how != How::Loopback {
            match Self::with_namespaces(manifest, program, &folder, &mut notes) {
                Ok((network, agents, places)) => {
                    let (kind, _network) = (Kind::Namespaces, Some(network));
                    return Ok(Self { kind, notes, places, agents, _network, _folder: folder });
                }
                Err(error) if how == How::Namespaces => return Err(error),
                Err(error) => {
                    notes.clear();
                    notes.push(format!("no network namespaces: {}", chain(&error)));
                }
            }
        }
        notes.push(
            "links are not shaped on loopback: they are as fast as memory, so steps may be faster than planned"
                .to_owned(),
        );
        let addresses = loopback::addresses(manifest)?;
        let mut agents = Vec::new();
        for host in &manifest.hosts {
            agents.push(Agent::start(program, &[], &folder, &host.name)?);
        }
        let places = places(manifest, &agents, &addresses);
        Ok(Self { kind: Kind::Loopback, notes, places, agents, _network: None, _folder: folder })
    }

    fn with_namespaces(
        manifest: &Manifest,
        program: &Path,
        folder: &Folder,
        notes: &mut Vec<String>,
    ) -> Result<(Namespaces, Vec<Agent>, Vec<AgentPlace>), LabError> {
        let addresses = namespaces::addresses(manifest)?;
        let mut network = Namespaces::new(manifest)?;
        let mut agents = Vec::new();
        for host in &manifest.hosts {
            agents.push(Agent::start(program, &network.enter_new(), folder, &host.name)?);
        }
        let processes: Vec<_> = agents.iter().map(Agent::process).collect();
        network.connect(manifest, &processes, notes)?;
        let places = places(manifest, &agents, &addresses);
        Ok((network, agents, places))
    }

    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// What it is and why, in a sentence for people.
    #[must_use]
    pub fn description(&self) -> String {
        let hosts = self.agents.len();
        match self.kind {
            Kind::Namespaces => format!("{hosts} hosts, each a network namespace, joined by a bridge"),
            Kind::Loopback => format!("{hosts} hosts, each an address of loopback"),
        }
    }

    /// Why it is what it is, and what should be known about it.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Its agents, one per host of the trace, in order.
    #[must_use]
    pub fn agents(&self) -> &[AgentPlace] {
        &self.places
    }

    /// The processes of its agents, in the same order.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.agents.iter().map(Agent::process).collect()
    }
}

fn places(manifest: &Manifest, agents: &[Agent], addresses: &[NicAddress]) -> Vec<AgentPlace> {
    manifest
        .hosts
        .iter()
        .zip(agents)
        .map(|(host, agent)| AgentPlace {
            place: Place::Socket(agent.socket().to_owned()),
            hosts: vec![host.id],
            addresses: addresses.to_vec(),
        })
        .collect()
}

impl FromStr for How {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "namespaces" => Ok(Self::Namespaces),
            "loopback" => Ok(Self::Loopback),
            _ => Err(format!("`{text}` is no testbed; choose auto, namespaces or loopback")),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespaces => "namespaces",
            Self::Loopback => "loopback",
        })
    }
}

#[cfg(test)]
mod tests;
