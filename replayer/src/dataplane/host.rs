//! A host that is ready to be played: its engine, its sockets, its part of the trace.

use std::fs::File;
use std::io::BufReader;
use std::net::{IpAddr, SocketAddr};

use traces::folder::TraceFolder;
use traces::graph::Node;
use traces::graph::encode::GraphReader;
use traces::id::{HostId, NicId};
use traces::manifest::Manifest;
use traces::unit::Nanos;

use super::feed::{Feed, Source};
use super::frames::{Frame, Frames};
use super::{Assignment, DataplaneError};
use crate::engine::{Engine, Setup};
use crate::net::{Backend as _, Flow, Udp, UdpOptions};
use crate::outcome::Mode;

/// A host that is ready to be played.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) engine: Engine,
    pub(super) sockets: Udp,
    pub(super) input: Input,
    pub(super) threads: usize,
    id: HostId,
}

/// What a host's engine is fed.
#[derive(Debug)]
pub(super) enum Input {
    /// The nodes of its graph.
    Nodes(Feed<Node>),
    /// The frames that it sends.
    Frames(Feed<Frame>),
}

impl Host {
    pub(super) fn new(
        folder: &TraceFolder,
        id: HostId,
        assignment: &Assignment,
    ) -> Result<Self, DataplaneError> {
        let manifest = folder.manifest();
        let setup = Setup::new(manifest, id, assignment.run, Nanos::ZERO)?;
        let sockets = Udp::open(&options(manifest, &setup, assignment)?)?;
        let thread = |source| DataplaneError::Thread { host: id, source };
        let (engine, input) = match assignment.mode {
            Mode::Dependency => {
                let feed = Feed::start(Nodes(folder.graph(id)?), BLOCK_NODES).map_err(thread)?;
                (Engine::dependency(setup), Input::Nodes(feed))
            }
            Mode::Timed { speed } => {
                let frames = Frames::new(folder, id, &setup)?;
                let feed = Feed::start(frames, BLOCK_FRAMES).map_err(thread)?;
                (Engine::timed(setup, speed, Nanos(manifest.duration_ns)), Input::Frames(feed))
            }
        };
        Ok(Self { engine, sockets, input, threads: assignment.threads, id })
    }

    pub(super) const fn id(&self) -> HostId {
        self.id
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.sockets.notes().iter().map(|note| format!("{}: {note}", self.id)).collect()
    }
}

/// The sockets of a host: its NICs in the engine's order, a flow per queue pair in the engine's order.
fn options(
    manifest: &Manifest,
    setup: &Setup,
    assignment: &Assignment,
) -> Result<UdpOptions, DataplaneError> {
    let address = |nic: NicId| -> Result<IpAddr, DataplaneError> {
        let entry = assignment.addresses.iter().find(|entry| entry.nic == nic);
        entry.map(|entry| entry.address).ok_or(DataplaneError::NoAddress(nic))
    };
    let at = |address| SocketAddr::new(address, assignment.udp_port);
    let listen = setup.nics.iter().map(|&nic| address(nic).map(at)).collect::<Result<_, _>>()?;
    let flows = setup
        .queue_pairs
        .iter()
        .map(|end| {
            let [here, there] = [end.id, end.peer].map(|id| &manifest.queue_pairs[id.index()]);
            let from = SocketAddr::new(address(here.nic)?, here.source_port);
            Ok(Flow { from, to: at(address(there.nic)?) })
        })
        .collect::<Result<_, DataplaneError>>()?;
    let transport = &manifest.transport;
    Ok(UdpOptions {
        listen,
        flows,
        traffic_class: transport.dscp << 2 | transport.ecn & 0b11,
        ttl: transport.ttl,
        offload: assignment.offload,
    })
}

/// The nodes of a graph, in blocks.
#[derive(Debug)]
struct Nodes(GraphReader<BufReader<File>>);

impl Source<Node> for Nodes {
    fn fill(&mut self, block: &mut Vec<Node>) -> Result<bool, String> {
        while block.len() < block.capacity() {
            match self.0.node() {
                Ok(Some(node)) => block.push(node),
                Ok(None) => return Ok(false),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(true)
    }
}

/// Nodes in a block.
const BLOCK_NODES: usize = 512;

/// Frames in one: they are larger.
const BLOCK_FRAMES: usize = 64;
