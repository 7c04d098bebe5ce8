//! `tokenwire verify`: captures examined as a critic of RoCEv2 would, and traces against their manifest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema};
use serde::Serialize;
use traces::audit;
use traces::critic::{Check, Connection, Critic, Payloads, Vantage, Verdict, passed};
use traces::folder::TraceFolder;
use traces::manifest::{Manifest, Nic, QueuePair};
use traces::pcap::{CaptureReader, Interface};
use traces::unit::BitRate;
use traces::wire::Qpn;

use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::{self, Progress};
use crate::typed;

/// What `verify --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Document {
    /// The version of this document.
    schema_version: u32,
    /// The checks, in a fixed order.
    checks: Vec<Check>,
    /// Whether nothing was wrong and something was examined.
    passed: bool,
}

/// What was captured at one port.
struct Capture<'a> {
    /// Its files, in the order of time.
    files: Vec<PathBuf>,
    vantage: Vantage,
    /// The NIC of the trace that it belongs to, if it belongs to one.
    nic: Option<&'a Nic>,
}

pub(crate) fn run(typed: &typed::Verify) -> Result<Exit, Failure> {
    interrupt::listen();
    let checks = examine(&typed.paths)?;
    let passed = passed(&checks);
    if typed.json {
        let document = Document { schema_version: 1, checks, passed };
        let json = serde_json::to_string_pretty(&document).map_err(Failure::wrong)?;
        output::result(&format!("{json}\n"))?;
    } else {
        output::result(&text(&checks))?;
    }
    Ok(if passed { Exit::Done } else { Exit::CheckFailed })
}

pub(crate) fn schema() -> Schema {
    schemars::schema_for!(Document)
}

/// Examines trace folders and captures together.
pub(crate) fn examine(paths: &[PathBuf]) -> Result<Vec<Check>, Failure> {
    let folders = paths.iter().filter(|path| path.is_dir());
    let folders = folders.map(TraceFolder::open).collect::<Result<Vec<_>, _>>().map_err(Failure::wrong)?;
    let (mut captures, mut connections, mut graphs) = (Vec::new(), Vec::new(), Vec::new());
    let mut departures = Vec::new();
    for folder in &folders {
        connections.extend(connections_of(folder.manifest())?);
        captures.extend(captures_of(folder)?);
        graphs.push(audit::graphs(folder).map_err(Failure::wrong)?);
        graphs.extend(audit::operations(folder).map_err(Failure::wrong)?);
        departures.extend(audit::departures(folder).map_err(Failure::wrong)?);
    }
    for path in paths.iter().filter(|path| !path.is_dir()) {
        captures.push(Capture { files: vec![path.clone()], vantage: Vantage::default(), nic: None });
    }
    let mut critic = Critic::new(&connections);
    for (to, departures) in departures {
        critic.expect(to, departures);
    }
    let ports: Vec<_> = captures.iter().map(|capture| critic.port(capture.vantage.clone())).collect();
    let files = files(&captures, &ports);
    let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    let total: u64 = files.iter().map(|(path, _)| size(path)).sum();
    let progress = Progress::start("verifying", total);
    let (mut done, mut manifests) = (0, audit::captures_check());
    for (path, owners) in &files {
        read(&mut critic, owners, path, |bytes| progress.set(done + bytes, total))?;
        done += size(path);
    }
    for (capture, &port) in captures.iter().zip(&ports) {
        if let Some(nic) = capture.nic {
            audit::captures(nic, &critic.totals(port), &mut manifests);
        }
    }
    if !folders.is_empty() {
        graphs.push(manifests);
    }
    let checks: Vec<_> = critic.finish().into_iter().chain(graphs).collect();
    let wrong: u64 = checks.iter().map(|check| check.violations).sum();
    let idle = checks.iter().all(|check| check.examined == 0);
    progress.finish(&match idle {
        true => "no frame of RoCEv2 was found, so nothing was examined".to_owned(),
        false => format!("{} checks, {wrong} violations", checks.len()),
    });
    Ok(checks)
}

/// A line a check, and the first examples of what is wrong below it.
pub(crate) fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).expect("a String takes all that is written");
        text.push('\n');
    };
    for check in checks {
        let verdict = match check.verdict() {
            Verdict::Passed => "ok",
            Verdict::Violated => "WRONG",
            Verdict::Idle => "nothing to examine",
        };
        line(format_args!(
            "{:<28} {:>12} examined {:>8} wrong  {verdict}",
            check.name, check.examined, check.violations
        ));
        for example in &check.examples {
            line(format_args!("    {} frame {}: {}", example.file, example.frame, example.what));
        }
    }
    text
}

/// A port, and the name of the trace's NIC that it is.
type Owner<'a> = (usize, Option<&'a str>);

/// All files, each once, with the ports that it is of: a merged capture is of several.
fn files<'a>(captures: &'a [Capture<'_>], ports: &[usize]) -> Vec<(&'a Path, Vec<Owner<'a>>)> {
    let mut files: Vec<(&Path, Vec<Owner<'_>>)> = Vec::new();
    let mut places = BTreeMap::new();
    for (capture, &port) in captures.iter().zip(ports) {
        for path in &capture.files {
            let place = *places.entry(path).or_insert(files.len());
            if place == files.len() {
                files.push((path, Vec::new()));
            }
            files[place].1.push((port, capture.nic.map(|nic| nic.name.as_str())));
        }
    }
    files
}

/// The port that an interface of a file is: that of the trace's NIC with its name, or one of its own, which knows of itself
/// what the file says.
fn port(critic: &mut Critic, owners: &[Owner<'_>], interface: &Interface) -> usize {
    match owners {
        &[(port, Some(_))] => port,
        _ => {
            let named = owners.iter().find(|(_, name)| name.is_some() && *name == interface.name.as_deref());
            named.map(|(port, _)| *port).unwrap_or_else(|| {
                critic.port(Vantage {
                    mac: interface.mac,
                    addresses: interface.addresses.iter().map(|(address, _)| *address).collect(),
                    rate: interface.bits_per_second.and_then(BitRate::new),
                    content: None,
                })
            })
        }
    }
}

/// Reads a file, and says now and then how far it is.
fn read(
    critic: &mut Critic,
    owners: &[Owner<'_>],
    path: &Path,
    progress: impl Fn(u64),
) -> Result<(), Failure> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| Failure::wrong(format!("cannot open {name}: {error}")))?;
    let in_file = |error| Failure::wrong(InFile { name: name.clone(), error });
    let mut reader = CaptureReader::new(file).map_err(in_file)?;
    // By interface: what stands for its frames at the critic.
    let mut numbers: Vec<Option<usize>> = Vec::new();
    while let Some(record) = reader.next_record().map_err(in_file)? {
        let place = usize::try_from(record.interface).unwrap_or(usize::MAX);
        let file = match numbers.get(place) {
            Some(Some(file)) => *file,
            _ => {
                let port = port(critic, owners, record.seen_by);
                let file = critic.file(name.as_str(), port);
                numbers.resize(numbers.len().max(place + 1), None);
                numbers[place] = Some(file);
                file
            }
        };
        let frame = record.number;
        critic.frame(file, frame, record.time, record.original_length, record.bytes);
        if frame % 4_096 == 0 {
            progress(reader.consumed());
            if interrupt::asked() {
                return Err(Failure::with(Exit::Partial, format!("interrupted at frame {frame} of {name}")));
            }
        }
    }
    Ok(())
}

/// An error with the file that it was found in.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {error}")]
struct InFile {
    name: String,
    error: traces::pcap::PcapError,
}

fn captures_of(folder: &TraceFolder) -> Result<Vec<Capture<'_>>, Failure> {
    let mut captures = Vec::new();
    for nic in audit::captured(folder.manifest()) {
        let wrong = |what: &str| {
            Failure::wrong(format!(
                "{}: {} has {what}",
                folder.path().join("manifest.json").display(),
                nic.name
            ))
        };
        let vantage = Vantage {
            mac: Some(nic.mac.parse().map_err(|_| wrong("no right MAC address"))?),
            addresses: addresses(&nic.addresses).ok_or_else(|| wrong("no right address"))?,
            rate: BitRate::new(nic.link_bps),
            content: Payloads::named(&folder.manifest().transport.payload),
        };
        let files = folder.captures(nic.id).map_err(Failure::wrong)?;
        captures.push(Capture { files, vantage, nic: Some(nic) });
    }
    Ok(captures)
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
