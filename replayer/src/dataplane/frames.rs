//! What the NICs of a host send in their captures, in order of time, with what the engine has to know of each frame.

use std::collections::VecDeque;
use std::fs::File;
use std::net::IpAddr;
use std::path::PathBuf;

use traces::folder::{FolderError, TraceFolder};
use traces::id::HostId;
use traces::manifest::Manifest;
use traces::pcap::CaptureReader;
use traces::unit::Nanos;
use traces::wire::{Ip, Parsed, ParsedFrame, Qpn};

use super::classes::Classes;
use super::feed::Source;
use crate::engine::{Setup, TimedFrame};
use traces::origin::Class;

/// A frame to be sent, with bytes of its own.
#[derive(Debug)]
pub(super) struct Frame {
    at: Nanos,
    flow: usize,
    class: Option<Class>,
    bytes: Vec<u8>,
    length: usize,
}

/// The frames of a host's NICs.
#[derive(Debug)]
pub(super) struct Frames {
    epoch_ns: u64,
    ports: Vec<Port>,
    classes: Option<Classes>,
    folder: TraceFolder,
    host: HostId,
}

/// The captures of one NIC.
#[derive(Debug)]
struct Port {
    /// Its name, which its frames bear in a capture of several NICs.
    name: String,
    files: VecDeque<PathBuf>,
    open: Option<(PathBuf, CaptureReader<File>)>,
    addresses: Vec<IpAddr>,
    /// Address of the peer and the number that frames to it carry, to the flow; ascending.
    flows: Vec<((IpAddr, u32), usize)>,
    next: Option<Frame>,
}

impl Frame {
    /// As the engine takes it.
    pub(super) fn as_timed(&self) -> TimedFrame<'_> {
        TimedFrame {
            at: self.at,
            flow: self.flow,
            class: self.class,
            bytes: &self.bytes,
            length: self.length,
        }
    }
}

impl Frames {
    /// The frames that a host sends.
    ///
    /// # Errors
    /// [`FolderError`] when the folder lacks a capture.
    pub(super) fn new(folder: &TraceFolder, host: HostId, setup: &Setup) -> Result<Self, FolderError> {
        let manifest = folder.manifest();
        let ports = setup
            .nics
            .iter()
            .enumerate()
            .map(|(place, &nic)| {
                let files = folder.captures(nic)?.into();
                let flows = flows(manifest, setup, place);
                let addresses = addresses(&manifest.nics[nic.index()].addresses);
                let name = manifest.nics[nic.index()].name.clone();
                Ok(Port { name, files, open: None, addresses, flows, next: None })
            })
            .collect::<Result<_, FolderError>>()?;
        Ok(Self { epoch_ns: manifest.epoch_ns, ports, classes: None, folder: folder.clone(), host })
    }
}

impl Source<Frame> for Frames {
    fn fill(&mut self, block: &mut Vec<Frame>) -> Result<bool, String> {
        if self.classes.is_none() {
            self.classes = Some(Classes::of(&self.folder, self.host)?);
            for port in &mut self.ports {
                port.advance(self.epoch_ns, self.classes.as_mut())?;
            }
        }
        while block.len() < block.capacity() {
            let first = self.ports.iter_mut().filter(|port| port.next.is_some());
            let Some(port) = first.min_by_key(|port| port.next.as_ref().map(|frame| frame.at)) else {
                return Ok(false);
            };
            block.extend(port.next.take());
            port.advance(self.epoch_ns, self.classes.as_mut())?;
        }
        Ok(true)
    }
}

impl Port {
    /// Reads on to the next frame that the NIC sends.
    fn advance(&mut self, epoch_ns: u64, mut classes: Option<&mut Classes>) -> Result<(), String> {
        loop {
            let Some((path, reader)) = &mut self.open else {
                let Some(path) = self.files.pop_front() else { return Ok(()) };
                let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
                let file = File::open(&path).map_err(|error| fault(&error))?;
                let reader =
                    CaptureReader::new(file).map_err(|error| fault(&error))?.of_interface(&self.name);
                self.open = Some((path, reader));
                continue;
            };
            let Some(record) =
                reader.next_record().map_err(|error| format!("{}: {error}", path.display()))?
            else {
                self.open = None;
                continue;
            };
            let original = usize::try_from(record.original_length).unwrap_or(usize::MAX);
            let Ok(Parsed::Roce(frame)) = ParsedFrame::parse(record.bytes, original) else { continue };
            let (source, destination) = ends(&frame);
            if !self.addresses.contains(&source) {
                continue;
            }
            let number = frame.bth.destination.value();
            if number == Qpn::GENERAL_SERVICES.value() {
                // RDMA-CM sets the trace's connections up; agents set theirs up otherwise.
                continue;
            }
            let Ok(place) = self.flows.binary_search_by_key(&(destination, number), |(key, _)| *key) else {
                return Err(format!(
                    "{}: frame {} goes to queue pair {number:#x} of {destination}, which the manifest does not have",
                    path.display(),
                    record.number
                ));
            };
            let flow = self.flows[place].1;
            let (bytes, length) = content(&frame, record.bytes);
            let class = classes.as_mut().and_then(|classes| classes.class(flow, &frame.bth));
            let at = Nanos(record.time.0.saturating_sub(epoch_ns));
            self.next = Some(Frame { at, flow, class, bytes: bytes.to_vec(), length });
            return Ok(());
        }
    }
}

/// What UDP carries, as far as captured, and how long it was.
fn content<'a>(frame: &ParsedFrame<'_>, captured: &'a [u8]) -> (&'a [u8], usize) {
    let ip_at = captured.len() - frame.trailer.len() - frame.datagram.len() - icrc_captured(frame);
    let at = ip_at + ip_length(frame) + UDP;
    let length = usize::from(frame.udp.length).saturating_sub(UDP);
    let end = captured.len().min(at + length);
    (captured.get(at..end).unwrap_or_default(), length)
}

fn icrc_captured(frame: &ParsedFrame<'_>) -> usize {
    if frame.icrc.is_some() { traces::wire::icrc::LEN } else { 0 }
}

fn ip_length(frame: &ParsedFrame<'_>) -> usize {
    match frame.network.ip {
        Ip::V4 { .. } => usize::from(frame.datagram.first().map_or(0x45, |first| *first) & 0x0f) * 4,
        Ip::V6 { .. } => 40,
    }
}

fn ends(frame: &ParsedFrame<'_>) -> (IpAddr, IpAddr) {
    match frame.network.ip {
        Ip::V4 { source, destination, .. } => (source.into(), destination.into()),
        Ip::V6 { source, destination, .. } => (source.into(), destination.into()),
    }
}

fn flows(manifest: &Manifest, setup: &Setup, nic: usize) -> Vec<((IpAddr, u32), usize)> {
    let mut flows: Vec<_> = setup
        .queue_pairs
        .iter()
        .enumerate()
        .filter(|(_, end)| end.nic == nic)
        .flat_map(|(flow, end)| {
            let there = &manifest.nics[manifest.queue_pairs[end.peer.index()].nic.index()];
            addresses(&there.addresses)
                .into_iter()
                .map(move |address| ((address, end.peer_number.value()), flow))
        })
        .collect();
    flows.sort_unstable();
    flows
}

fn addresses(texts: &[String]) -> Vec<IpAddr> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

const UDP: usize = 8;
