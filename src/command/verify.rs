//! `tokenwire verify`: captures examined as a critic of RoCEv2 would, and traces against their manifest.

mod sources;
mod text;

use std::net::IpAddr;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema};
use serde::Serialize;
use traces::audit;
use traces::critic::{Check, Connection, Critic, Habits, HostProfile, Payloads, Vantage, passed};
use traces::folder::TraceFolder;
use traces::manifest::{Manifest, Nic, QueuePair};
use traces::unit::BitRate;
use traces::wire::Qpn;

use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::{self, Progress};
use crate::typed;
use sources::Sources;
pub(crate) use text::text;

/// What was found.
pub(crate) struct Examined {
    /// The checks, in a fixed order.
    pub(crate) checks: Vec<Check>,
    /// The NIC of each host, as its frames tell.
    pub(crate) profiles: Vec<HostProfile>,
    /// How many frames were looked at.
    pub(crate) frames: u64,
    /// Why it ended before all was read.
    pub(crate) ended: Option<Failure>,
}

/// What `verify --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
struct Document {
    /// The version of this document.
    schema_version: u32,
    /// The checks, in a fixed order.
    checks: Vec<Check>,
    /// The NIC of each host, as its frames tell.
    profiles: Vec<HostProfile>,
    /// How many frames were looked at.
    frames: u64,
    /// Whether nothing was wrong, something was examined, and all was read.
    passed: bool,
}

pub(crate) fn run(typed: &typed::Verify) -> Result<Exit, Failure> {
    interrupt::listen();
    let examined = examine(&typed.paths)?;
    let passed = examined.passed();
    if typed.json {
        let Examined { checks, profiles, frames, .. } = &examined;
        let (checks, profiles) = (checks.clone(), profiles.clone());
        let document = Document { schema_version: 1, checks, profiles, frames: *frames, passed };
        let json = serde_json::to_string_pretty(&document).map_err(Failure::wrong)?;
        output::result(&format!("{json}\n"))?;
    } else {
        output::result(&text(&examined))?;
    }
    match examined.ended {
        Some(failure) => Err(failure),
        None => Ok(if passed { Exit::Done } else { Exit::CheckFailed }),
    }
}

pub(crate) fn schema() -> Schema {
    schemars::schema_for!(Document)
}

/// Examines trace folders and captures together.
///
/// # Errors
/// [`Failure`] if something can not be opened, or nothing of it read. A capture that can not be read to its end is no error here:
/// what was before counts, and [`Examined::ended`] says why.
pub(crate) fn examine(paths: &[PathBuf]) -> Result<Examined, Failure> {
    let folders = paths.iter().filter(|path| path.is_dir());
    let folders = folders.map(TraceFolder::open).collect::<Result<Vec<_>, _>>().map_err(Failure::wrong)?;
    let (mut connections, mut graphs, mut departures) = (Vec::new(), Vec::new(), Vec::new());
    for folder in &folders {
        connections.extend(connections_of(folder.manifest())?);
        graphs.push(audit::graphs(folder).map_err(Failure::wrong)?);
        graphs.extend(audit::operations(folder).map_err(Failure::wrong)?);
        departures.extend(audit::departures(folder).map_err(Failure::wrong)?);
    }
    let mut critic = Critic::new(&connections);
    for (to, departures) in departures {
        critic.expect(to, departures);
    }
    let mut sources = Sources::default();
    let mut nics = Vec::new();
    for folder in &folders {
        for nic in audit::captured(folder.manifest()) {
            let port = critic.port(vantage(folder, nic)?);
            for path in folder.captures(nic.id).map_err(Failure::wrong)? {
                sources.add(path, &nic.name, port);
            }
            nics.push((nic, port));
        }
    }
    for path in paths.iter().filter(|path| !path.is_dir()) {
        sources.add_foreign(path.clone());
    }
    let progress = Progress::start("verifying", sources.bytes());
    let (frames, ended) = match sources.read(&mut critic, &progress) {
        (0, Some(failure)) => return Err(failure),
        read => read,
    };
    let mut manifests = audit::captures_check();
    for (nic, port) in nics {
        // What was not read to its end does not count.
        if ended.is_none() {
            audit::captures(nic, &critic.totals(port), &mut manifests);
        }
    }
    if !folders.is_empty() {
        graphs.push(manifests);
    }
    if ended.is_some() {
        critic.cut();
    }
    let profiles = critic.profiles();
    let checks: Vec<_> = critic.finish().into_iter().chain(graphs).collect();
    let examined = Examined { checks, profiles, frames, ended };
    progress.finish(&text::summary(&examined));
    Ok(examined)
}

impl Examined {
    /// Whether nothing was wrong, something was examined, and all was read.
    pub(crate) fn passed(&self) -> bool {
        self.ended.is_none() && passed(&self.checks)
    }
}

fn vantage(folder: &TraceFolder, nic: &Nic) -> Result<Vantage, Failure> {
    let wrong = |what: &str| {
        let manifest = folder.path().join("manifest.json");
        Failure::wrong(format!("{}: {} has {what}", manifest.display(), nic.name))
    };
    Ok(Vantage {
        mac: Some(nic.mac.parse().map_err(|_| wrong("no right MAC address"))?),
        addresses: addresses(&nic.addresses).ok_or_else(|| wrong("no right address"))?,
        rate: BitRate::new(nic.link_bps),
        content: Payloads::named(&folder.manifest().transport.payload),
        habits: Habits::of(&folder.manifest().transport),
    })
}

fn addresses(texts: &[String]) -> Option<Vec<IpAddr>> {
    texts.iter().map(|text| text.parse().ok()).collect()
}

/// Both ends of each connection, each named once.
fn connections_of(manifest: &Manifest) -> Result<Vec<Connection>, Failure> {
    let end = |pair: &QueuePair| {
        let address = manifest.nics[pair.nic.index()].addresses.first().and_then(|text| text.parse().ok());
        let wrong = || Failure::wrong(format!("the manifest's {} has no right address or number", pair.id));
        Ok((address.ok_or_else(wrong)?, Qpn::new(pair.qpn).ok_or_else(wrong)?))
    };
    let pairs = manifest.queue_pairs.iter().filter(|pair| pair.id < pair.peer);
    pairs
        .map(|pair| Ok(Connection { one: end(pair)?, other: end(&manifest.queue_pairs[pair.peer.index()])? }))
        .collect()
}
