//! A trace against itself: what the captures hold is what the manifest says, and the graphs agree with both.
//!
//! The critic ([`crate::critic`]) judges frames by the rules of RoCEv2, whoever made them; this judges a trace folder by its
//! own words. Frames come in as captures have them, the rest is read from the folder.

mod operation;

pub use operation::Operations;

use crate::critic::{Check, Departures, Example, Receiver, Totals};
use crate::folder::{FolderError, TraceFolder};
use crate::graph::Work;
use crate::manifest::{Manifest, Nic};
use crate::unit::{Bytes, Nanos};
use crate::wire::{Psn, Qpn};

/// Compares what was seen of a NIC's port with the manifest.
pub fn captures(nic: &Nic, seen: &Totals, check: &mut Check) {
    let Nic { name, pcap, .. } = nic;
    let file = pcap.first().map_or(name.as_str(), String::as_str);
    let Totals { sent, received } = seen;
    let figures = [
        ("frames_sent", sent.frames, nic.frames_sent),
        ("frames_received", received.frames, nic.frames_received),
        ("frame_bytes_sent", sent.frame_bytes, nic.frame_bytes_sent),
        ("frame_bytes_received", received.frame_bytes, nic.frame_bytes_received),
        ("payload_bytes_sent", sent.payload_bytes, nic.payload_bytes_sent),
        ("payload_bytes_received", received.payload_bytes, nic.payload_bytes_received),
    ];
    for (figure, seen, said) in figures {
        examine(check, seen == said, file, || {
            format!("{figure} of {name} is {seen} here, {said} in the manifest")
        });
    }
}

/// A check that examined nothing yet: captures against the manifest.
#[must_use]
pub fn captures_check() -> Check {
    check("manifest_captures")
}

/// Reads all graphs of a trace, and compares them with the manifest: the messages of each NIC carry its payload, each end
/// of a message knows it alike.
///
/// # Errors
/// [`FolderError`] when a graph can not be read.
pub fn graphs(folder: &TraceFolder) -> Result<Check, FolderError> {
    let manifest = folder.manifest();
    let mut check = check("manifest_graphs");
    let mut ends: Vec<Ends> = vec![Ends::default(); manifest.queue_pairs.len()];
    let whole = manifest.hosts.iter().all(|host| host.graph.is_some());
    for host in manifest.hosts.iter().filter(|host| host.graph.is_some()) {
        let file = host.graph.as_deref().unwrap_or_default();
        let mut reader = folder.graph(host.id)?;
        while let Some(node) = reader.node().map_err(|source| folder.damaged(file, source))? {
            let (message, sends) = match &node.work {
                Work::Send(message) => (message, true),
                Work::Receive(message) => (message, false),
                Work::Compute { .. } | Work::Join { .. } | Work::Local { .. } => continue,
            };
            let number = node.id.0;
            let Some(pair) = manifest.queue_pairs.get(message.id.sender.index()) else {
                examine(&mut check, false, file, || {
                    format!("node {number}: {} is not in the manifest", message.id.sender)
                });
                continue;
            };
            examine(&mut check, pair.peer == message.receiver, file, || {
                format!(
                    "node {number}: {} receives from {}, whose peer is {}",
                    message.receiver, pair.id, pair.peer
                )
            });
            let end = &mut ends[message.id.sender.index()];
            let side = if sends { &mut end.sent } else { &mut end.received };
            side.add(message.id.sequence, message.bytes, message.first_psn);
        }
    }
    for (pair, end) in manifest.queue_pairs.iter().zip(&ends).filter(|_| whole) {
        examine(&mut check, end.sent == end.received, "graph", || {
            format!("{}: {:?} sent, but {:?} received by its peer", pair.id, end.sent, end.received)
        });
    }
    for nic in manifest.nics.iter().filter(|_| whole) {
        let pairs = || manifest.queue_pairs.iter().zip(&ends).filter(|(pair, _)| pair.nic == nic.id);
        let sent: u64 = pairs().map(|(_, end)| end.sent.bytes).sum();
        // What was sent again was sent once before.
        let first = nic.payload_bytes_sent.saturating_sub(nic.payload_bytes_repeated);
        examine(&mut check, sent == first, "graph", || {
            format!("{} sends {sent} bytes in the graph, {first} in the manifest", nic.name)
        });
    }
    Ok(check)
}

/// Reads all graphs of a trace, and examines each operation as a whole: see [`Operations`].
///
/// # Errors
/// [`FolderError`] when a graph can not be read.
pub fn operations(folder: &TraceFolder) -> Result<Vec<Check>, FolderError> {
    let manifest = folder.manifest();
    let sizes = manifest.groups.iter().map(|group| u64::try_from(group.ranks.len()).unwrap_or(u64::MAX));
    let mut operations = Operations::new(sizes.collect());
    for host in manifest.hosts.iter().filter(|host| host.graph.is_some()) {
        let file = host.graph.as_deref().unwrap_or_default();
        let mut reader = folder.graph(host.id)?;
        operations.host();
        while let Some(node) = reader.node().map_err(|source| folder.damaged(file, source))? {
            operations.node(file, &node);
        }
    }
    Ok(operations.finish())
}

/// Reads all graphs of a trace, and says when the messages of each queue pair may leave: not before what they wait for has
/// ended. For [`Critic::expect`].
///
/// [`Critic::expect`]: crate::critic::Critic::expect
///
/// # Errors
/// [`FolderError`] when a graph can not be read.
pub fn departures(folder: &TraceFolder) -> Result<Vec<(Receiver, Departures)>, FolderError> {
    let manifest = folder.manifest();
    let mut pairs: Vec<Vec<(u32, Psn, Nanos)>> = vec![Vec::new(); manifest.queue_pairs.len()];
    for host in manifest.hosts.iter().filter(|host| host.graph.is_some()) {
        let file = host.graph.as_deref().unwrap_or_default();
        let mut reader = folder.graph(host.id)?;
        let mut ends: Vec<Nanos> = Vec::new();
        while let Some(node) = reader.node().map_err(|source| folder.damaged(file, source))? {
            let after =
                node.after.iter().filter_map(|&id| ends.get(usize::try_from(id.0).ok()?)).max().copied();
            if let Work::Send(message) = &node.work
                && let Some(pair) = pairs.get_mut(message.id.sender.index())
            {
                let first = Psn::wrapping(message.first_psn);
                pair.push((message.id.sequence, first, after.unwrap_or_default()));
            }
            ends.push(node.planned_end);
        }
    }
    let ends = manifest.queue_pairs.iter().zip(pairs).filter(|(_, sends)| !sends.is_empty());
    Ok(ends
        .filter_map(|(pair, mut sends)| {
            let peer = manifest.queue_pairs.get(pair.peer.index())?;
            let nic = manifest.nics.get(peer.nic.index())?;
            let to = (nic.addresses.first()?.parse().ok()?, Qpn::new(peer.qpn)?);
            sends.sort_by_key(|&(sequence, ..)| sequence);
            Some((to, sends.into_iter().map(|(_, psn, after)| (psn, after)).collect()))
        })
        .collect())
}

/// The NICs of a manifest that have captures.
pub fn captured(manifest: &Manifest) -> impl Iterator<Item = &Nic> {
    manifest.nics.iter().filter(|nic| !nic.pcap.is_empty())
}

/// What the two ends of a queue pair's messages say, summed so that order does not matter.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    sent: Side,
    received: Side,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Side {
    messages: u64,
    bytes: u64,
    /// A sum over messages that differs when sequence, size or PSN of one differs.
    mix: u64,
}

impl Side {
    fn add(&mut self, sequence: u32, bytes: Bytes, first_psn: u32) {
        self.messages += 1;
        self.bytes += bytes.0;
        let mix = (u64::from(sequence) << 24 | u64::from(first_psn)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.mix = self.mix.wrapping_add((mix ^ bytes.0).wrapping_mul(0xff51_afd7_ed55_8ccd));
    }
}

/// A check that examined nothing yet.
fn check(name: &str) -> Check {
    Check {
        name: name.to_owned(),
        family: FAMILY.to_owned(),
        examined: 0,
        violations: 0,
        examples: Vec::new(),
    }
}

fn examine(check: &mut Check, right: bool, file: &str, what: impl FnOnce() -> String) {
    check.examined += 1;
    if !right {
        check.violations += 1;
        if check.examples.len() < EXAMPLES {
            check.examples.push(Example { file: file.to_owned(), frame: 0, what: what() });
        }
    }
}

/// What these checks belong to.
const FAMILY: &str = "trace";

/// As many as the critic keeps.
const EXAMPLES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_sum_alike_in_any_order_and_differ_when_one_does() {
        let side = |messages: &[(u32, u64, u32)]| {
            let mut side = Side::default();
            for &(sequence, bytes, psn) in messages {
                side.add(sequence, Bytes(bytes), psn);
            }
            side
        };
        assert_eq!(side(&[(0, 10, 0), (1, 20, 5)]), side(&[(1, 20, 5), (0, 10, 0)]));
        assert_ne!(side(&[(0, 10, 0), (1, 20, 5)]), side(&[(0, 20, 0), (1, 10, 5)]));
        assert_ne!(side(&[(0, 10, 0)]), side(&[(0, 10, 1)]));
    }
}
