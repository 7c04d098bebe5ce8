//! The critic: checks over captured frames, each of which a real RoCEv2 capture passes.
//!
//! Pure and streaming: frames come in as files have them, results go out at the end. Memory follows flows and
//! what is unanswered, never the length of a capture. Each check is a small struct that implements the trait
//! `Rule`, in the file of its family. Which frames belong together (a direction of a connection, a request
//! and its answer) is found out once per frame, in `flow`, for all rules.
//!
//! Not here: reading files ([`crate::pcap`]), and what only the plan knows.

mod check;
mod flow;
mod sight;
mod bits;
mod sequence;
mod answers;
mod identity;
mod timing;

use std::io::Read;
use std::net::IpAddr;

pub use check::{Check, Example, Verdict, passed};
pub use flow::Connection;

use crate::pcap::{PcapError, PcapReader};
use crate::unit::{BitRate, Nanos};
use crate::wire::{Mac, Parsed, ParsedFrame};
use check::Tally;
use flow::Flows;
use sight::{Content, Rule, Sight};

/// Takes frames, gives checks.
pub struct Critic {
    files: Vec<File>,
    flows: Flows,
    rules: Vec<(Box<dyn Rule>, Tally)>,
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
}

struct File {
    name: String,
    vantage: Vantage,
}

impl Critic {
    /// A critic that knows these connections. Others are found out where the frames leave no doubt: by the
    /// source port of mlx5, or if there is only one between two hosts.
    #[must_use]
    pub fn new(connections: &[Connection]) -> Self {
        let rules: Vec<Box<dyn Rule>> =
            [bits::rules(), sequence::rules(), answers::rules(), identity::rules(), timing::rules()]
                .into_iter()
                .flatten()
                .collect();
        Self {
            files: Vec::new(),
            flows: Flows::new(connections),
            rules: rules.into_iter().map(|rule| (rule, Tally::default())).collect(),
        }
    }

    /// Names a capture, and says where it was taken. The answer stands for it in [`Self::frame`].
    pub fn file(&mut self, name: impl Into<String>, vantage: Vantage) -> usize {
        self.files.push(File { name: name.into(), vantage });
        self.files.len() - 1
    }

    /// Looks at a frame: the `number`-th of a capture (from 1), seen at `time`, with `original_length` bytes
    /// on the wire, of which `bytes` were captured. A file that was not named before is not looked at.
    pub fn frame(&mut self, file: usize, number: u64, time: Nanos, original_length: u32, bytes: &[u8]) {
        let Some(File { name, vantage }) = self.files.get(file) else { return };
        let length = usize::try_from(original_length).unwrap_or(usize::MAX);
        let content = match ParsedFrame::parse(bytes, length) {
            Ok(Parsed::Roce(frame)) => Content::Roce(frame, self.flows.place(file, &frame)),
            Ok(Parsed::NotRoce(other)) => Content::Other(other),
            Err(error) => Content::Broken(error),
        };
        let source = Mac(bytes.get(6..).and_then(|rest| rest.first_chunk().copied()).unwrap_or_default());
        let sent = sent(vantage, source, &content);
        let sight = Sight {
            file,
            name,
            number,
            time,
            length: original_length,
            rate: vantage.rate,
            source,
            sent,
            content,
        };
        for (rule, tally) in &mut self.rules {
            rule.frame(&sight, tally);
        }
    }

    /// Looks at all frames of a capture, and says how many there were.
    ///
    /// # Errors
    /// [`PcapError`] where the file cannot be read on; what was before it counts.
    pub fn capture<R: Read>(
        &mut self,
        name: impl Into<String>,
        vantage: Vantage,
        capture: &mut PcapReader<R>,
    ) -> Result<u64, PcapError> {
        let file = self.file(name, vantage);
        let mut frames = 0;
        while let Some(record) = capture.next_record()? {
            self.frame(file, record.number, record.time, record.original_length, record.bytes);
            frames = record.number;
        }
        Ok(frames)
    }

    /// The checks, in a fixed order.
    #[must_use]
    pub fn finish(self) -> Vec<Check> {
        let names: Vec<_> = self.files.into_iter().map(|file| file.name).collect();
        self.rules
            .into_iter()
            .map(|(mut rule, mut tally)| {
                rule.finish(&names, &mut tally);
                tally.check(rule.name())
            })
            .collect()
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
