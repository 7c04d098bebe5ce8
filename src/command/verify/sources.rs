//! The files that are examined: which port each of their interfaces is, and their frames, one after the other.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use traces::critic::{Critic, Vantage};
use traces::pcap::{CaptureReader, Interface};
use traces::unit::BitRate;

use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::Progress;

/// Capture files in the order in which they are read.
#[derive(Default)]
pub(super) struct Sources {
    sources: Vec<Source>,
    by_path: BTreeMap<PathBuf, usize>,
}

struct Source {
    path: PathBuf,
    /// The ports of a trace that it shows, by the names of their NICs. One that is not of a trace shows a port for
    /// each of its interfaces.
    ports: Vec<(String, usize)>,
}

/// An error with the file that it was found in.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {error}")]
struct InFile {
    name: String,
    error: traces::pcap::PcapError,
}

impl Sources {
    /// A file of a trace shows this port. A file of several NICs names its interfaces as they are named.
    pub(super) fn add(&mut self, path: PathBuf, nic: &str, port: usize) {
        let new = self.sources.len();
        let source = *self.by_path.entry(path.clone()).or_insert(new);
        if source == new {
            self.sources.push(Source { path, ports: Vec::new() });
        }
        self.sources[source].ports.push((nic.to_owned(), port));
    }

    /// A file that nothing is known of.
    pub(super) fn add_foreign(&mut self, path: PathBuf) {
        self.sources.push(Source { path, ports: Vec::new() });
    }

    /// The bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.sources.iter().map(Source::bytes).sum()
    }

    /// Shows all frames to the critic; gives their number, and why that was not all of them.
    pub(super) fn read(&self, critic: &mut Critic, progress: &Progress) -> (u64, Option<Failure>) {
        let total = self.bytes();
        let (mut frames, mut done) = (0, 0);
        for source in &self.sources {
            let seen = |bytes| progress.set(done + bytes, total);
            if let Err(failure) = source.read(critic, &mut frames, seen) {
                return (frames, Some(failure));
            }
            done += source.bytes();
        }
        (frames, None)
    }
}

impl Source {
    fn bytes(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Reads it, and says now and then how far it is.
    fn read(&self, critic: &mut Critic, frames: &mut u64, progress: impl Fn(u64)) -> Result<(), Failure> {
        let name = self.path.display().to_string();
        let file =
            File::open(&self.path).map_err(|error| Failure::wrong(format!("cannot open {name}: {error}")))?;
        let in_file = |error| Failure::wrong(InFile { name: name.clone(), error });
        let mut reader = CaptureReader::new(file).map_err(in_file)?;
        // By interface: what the critic knows it as; nothing if it shows no port that is examined.
        let mut files: Vec<Option<usize>> = Vec::new();
        loop {
            let Some(record) = reader.next_record().map_err(in_file)? else { return Ok(()) };
            let place = usize::try_from(record.interface).unwrap_or(usize::MAX);
            let number = record.number;
            if let Some(&file) = files.get(place) {
                if let Some(file) = file {
                    critic.frame(file, number, record.time, record.original_length, record.bytes);
                }
            } else {
                // The first frame of an interface: the record is in the reader, which is asked about the interface.
                let (time, length, bytes) = (record.time, record.original_length, record.bytes.to_vec());
                for interface in reader.interfaces().iter().skip(files.len()) {
                    let port = self.port(critic, interface);
                    files.push(port.map(|port| critic.file(name.as_str(), port)));
                }
                if let Some(&Some(file)) = files.get(place) {
                    critic.frame(file, number, time, length, &bytes);
                }
            }
            *frames += 1;
            if number % 4_096 == 0 {
                progress(reader.consumed());
                if interrupt::asked() {
                    let what = format!("interrupted at frame {number} of {name}");
                    return Err(Failure::with(Exit::Partial, what));
                }
            }
        }
    }

    /// The port that an interface is: that of the trace's NIC with its name, or one of its own, which knows of itself what the
    /// file says. None if its frames are not Ethernet.
    fn port(&self, critic: &mut Critic, interface: &Interface) -> Option<usize> {
        if interface.link_type != ETHERNET {
            return None;
        }
        if let [(_, port)] = self.ports[..] {
            return Some(port);
        }
        let named = self.ports.iter().find(|(name, _)| interface.name.as_deref() == Some(name.as_str()));
        Some(named.map(|&(_, port)| port).unwrap_or_else(|| {
            critic.port(Vantage {
                mac: interface.mac,
                addresses: interface.addresses.iter().map(|&(address, _)| address).collect(),
                rate: interface.bits_per_second.and_then(BitRate::new),
                ..Vantage::default()
            })
        }))
    }
}

/// The link type of Ethernet.
const ETHERNET: u16 = 1;
