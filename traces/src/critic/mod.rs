//! The critic: checks over captured frames, each of which a real RoCEv2 capture passes.
//!
//! Pure and streaming: frames come in as files have them, results go out at the end. Memory follows flows and
//! what is unanswered, never the length of a capture. Each check is a small struct that implements the trait
//! `Rule`, in the file of its family. Which frames belong together (a direction of a connection, a request
//! and its answer) is found out once per frame, in `flow`, for all rules.
//!
//! Not here: reading files ([`crate::pcap`]), and what only the plan knows.

mod state;
mod check;
mod totals;
mod flow;
mod nic;
mod repeat;
mod sight;
mod bits;
mod sequence;
mod answers;
mod identity;
mod timing;
mod layer;
mod asking;
mod recovery;
mod congestion;
mod read;
mod memory;
mod management;
mod conversation;
mod payload;
mod place;
mod pause;
mod dependency;

use std::io::Read;
use std::net::IpAddr;

pub use check::{Check, Example, Verdict, passed};
pub use dependency::{Departures, Receiver};
pub use flow::Connection;
pub use nic::HostProfile;
pub use payload::Content as Payloads;
pub use totals::{Sums, Totals};

use crate::manifest::Transport;
use crate::pcap::{CaptureReader, PcapError};
use crate::unit::{BitRate, Nanos};
use crate::wire::{Mac, Parsed, ParsedFrame};
use flow::Flows;
use nic::Nics;
use repeat::{Repeats, Seen, is_plain};
use sight::{Captures, Content, Family, Sight};

/// Takes frames, gives checks.
pub struct Critic {
    files: Vec<File>,
    ports: Vec<Port>,
    flows: Flows,
    nics: Nics,
    repeats: Repeats,
    rules: Rules,
    cut: bool,
}

/// All rules, family by family, in the order of results.
macro_rules! families {
    ($($family:ident),* $(,)?) => {
        #[derive(Default)]
        struct Rules {
            $($family: $family::Rules,)*
        }

        impl Family for Rules {
            #[inline]
            fn every(&mut self, sight: &Sight<'_>) {
                $(self.$family.every(sight);)*
            }

            #[inline]
            fn constant(&mut self, sight: &Sight<'_>, seen: &mut Seen) {
                $(self.$family.constant(sight, seen);)*
            }

            #[inline]
            fn outside(&mut self, sight: &Sight<'_>) {
                $(self.$family.outside(sight);)*
            }

            fn finish(self, names: &Captures, repeats: &Repeats, constant: &mut u32, checks: &mut Vec<Check>) {
                $(self.$family.finish(names, repeats, constant, checks);)*
            }
        }
    };
}

families! {
    bits,
    sequence,
    answers,
    identity,
    timing,
    layer,
    asking,
    recovery,
    congestion,
    read,
    memory,
    management,
    conversation,
    payload,
    place,
    pause,
    dependency,
}

/// Where a capture was taken, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vantage {
    /// The port's MAC address: tells frames that it sends from those that it receives.
    pub mac: Option<Mac>,
    /// The port's IP addresses: they tell it too.
    pub addresses: Vec<IpAddr>,
    /// The port's line rate. Without it the spacing of frames is not examined.
    pub rate: Option<BitRate>,
    /// What data frames carry, if whoever made the capture says so. Without it payloads are not examined.
    pub content: Option<Payloads>,
    /// What the NICs do otherwise than known ones, if whoever made the capture says so.
    pub habits: Habits,
}

/// Habits that checks allow for, where no known NIC has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// The least time between two congestion notifications of a queue pair.
    pub notice_interval: Nanos,
    /// The least frames from one request for an acknowledgement within a message to the next.
    pub ack_interval: u32,
    /// Whether senders slow down as NICs are shipped; otherwise their rate is not examined.
    pub slows_down: bool,
}

impl Default for Habits {
    /// 4 us, mlx5's default `MIN_TIME_BETWEEN_CNPS`, as three public configurations have it; 64 frames, for rxe asks with the
    /// 66th in a row, mlx5 with every 256th.
    fn default() -> Self {
        Self { notice_interval: Nanos(4_000), ack_interval: 64, slows_down: true }
    }
}

impl Habits {
    /// The known habits, and those of a trace that says its own.
    #[must_use]
    pub fn of(transport: &Transport) -> Self {
        let known = Self::default();
        Self {
            notice_interval: known.notice_interval.min(Nanos(transport.cnp_interval_ns)),
            ack_interval: transport
                .ack_interval
                .map_or(known.ack_interval, |own| own.min(known.ack_interval)),
            slows_down: transport.congestion_control == "dcqcn",
        }
    }
}

struct Port {
    vantage: Vantage,
    totals: Totals,
}

struct File {
    name: String,
    port: usize,
}

impl Critic {
    /// A critic that knows these connections. Others are found out where the frames leave no doubt: by the
    /// source port of mlx5, or if there is only one between two hosts.
    #[must_use]
    pub fn new(connections: &[Connection]) -> Self {
        Self {
            files: Vec::new(),
            ports: Vec::new(),
            flows: Flows::new(connections),
            nics: Nics::default(),
            repeats: Repeats::default(),
            cut: false,
            rules: Rules::default(),
        }
    }

    /// Tells when the messages to a queue pair may leave, as the graph of a trace has it.
    pub fn expect(&mut self, to: Receiver, departures: Departures) {
        self.rules.dependency.expect(to, departures);
    }

    /// Says where frames were seen. The answer stands for the port in [`Self::file`].
    pub fn port(&mut self, vantage: Vantage) -> usize {
        self.ports.push(Port { vantage, totals: Totals::default() });
        self.ports.len() - 1
    }

    /// Names a capture of a port. The answer stands for it in [`Self::frame`]. A capture of several ports is a
    /// file of each; captures of one port are shown one after the other, and what was in one holds for the next.
    pub fn file(&mut self, name: impl Into<String>, port: usize) -> usize {
        self.files.push(File { name: name.into(), port });
        self.files.len() - 1
    }

    /// Looks at a frame: the `number`-th of a capture (from 1), seen at `time`, with `original_length` bytes
    /// on the wire, of which `bytes` were captured. A file that was not named before is not looked at.
    pub fn frame(&mut self, file: usize, number: u64, time: Nanos, original_length: u32, bytes: &[u8]) {
        let Some(File { name, port }) = self.files.get(file) else { return };
        let (name, port) = (name.as_str(), *port);
        let Some(Port { vantage, totals }) = self.ports.get_mut(port) else { return };
        let length = usize::try_from(original_length).unwrap_or(usize::MAX);
        let parsed = ParsedFrame::parse(bytes, length);
        let content = match &parsed {
            Ok(Parsed::Roce(frame)) => {
                let placed = self.flows.place(port, frame);
                self.nics.frame(&placed, frame);
                Content::Roce(frame, placed)
            }
            Ok(Parsed::NotRoce(other)) => Content::Other(*other),
            Err(error) => Content::Broken(*error),
        };
        let source = Mac(bytes.get(6..).and_then(|rest| rest.first_chunk().copied()).unwrap_or_default());
        let sent = sent(vantage, source, &content);
        let roce = if let Content::Roce(frame, _) = content { Some(frame) } else { None };
        totals.add(sent == Some(true), original_length, roce);
        let sight = Sight {
            file,
            port,
            name,
            number,
            time,
            length: original_length,
            rate: vantage.rate,
            source,
            sent,
            vantage,
            bytes,
            content,
        };
        match &sight.content {
            Content::Roce(frame, placed) if is_plain(frame, placed) => {
                if !self.repeats.is_known(placed.flow, bytes, original_length) {
                    let mut seen = Seen::default();
                    self.rules.constant(&sight, &mut seen);
                    self.repeats.learn(placed.flow, bytes, original_length, &seen);
                }
            }
            _ => {
                self.rules.constant(&sight, &mut Seen::default());
                self.rules.outside(&sight);
            }
        }
        self.rules.every(&sight);
    }

    /// Looks at all frames of a capture, and says how many there were.
    ///
    /// # Errors
    /// [`PcapError`] where the file cannot be read on; what was before it counts.
    pub fn capture<R: Read>(
        &mut self,
        name: impl Into<String>,
        vantage: Vantage,
        capture: &mut CaptureReader<R>,
    ) -> Result<u64, PcapError> {
        let port = self.port(vantage);
        let file = self.file(name, port);
        let mut frames = 0;
        while let Some(record) = capture.next_record()? {
            self.frame(file, record.number, record.time, record.original_length, record.bytes);
            frames = record.number;
        }
        Ok(frames)
    }

    /// What was seen of a port so far.
    #[must_use]
    pub fn totals(&self, port: usize) -> Totals {
        self.ports.get(port).map(|port| port.totals).unwrap_or_default()
    }

    /// The NIC of each host, as its frames tell.
    #[must_use]
    pub fn profiles(&self) -> Vec<HostProfile> {
        self.nics.describe(&self.flows)
    }

    /// Learns that the captures were not read to their end: what is open there is no fault.
    pub const fn cut(&mut self) {
        self.cut = true;
    }

    /// The checks, in a fixed order.
    #[must_use]
    pub fn finish(self) -> Vec<Check> {
        let names = self.files.into_iter().map(|file| file.name).collect();
        let mut checks = Vec::new();
        self.rules.finish(&Captures { names, cut: self.cut }, &self.repeats, &mut 0, &mut checks);
        checks
    }
}

fn sent(vantage: &Vantage, source: Mac, content: &Content<'_>) -> Option<bool> {
    if let Some(mac) = vantage.mac {
        return Some(mac == source);
    }
    match content {
        Content::Roce(frame, _) if !vantage.addresses.is_empty() => {
            Some(vantage.addresses.contains(&frame.network.ip.source()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
