//! Why a capture cannot be read on.

use std::{fmt, io};

use thiserror::Error;

use crate::pcap::{HEADER, SNAPSHOT_LENGTH};

/// Why a file cannot be read on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PcapError {
    /// It does not start as a capture does.
    #[error("no capture: it starts with {found}{}", hint(.found))]
    Magic {
        /// Its first bytes, at most four.
        found: Start,
    },
    /// It ends within its header.
    #[error("a pcap file starts with {HEADER} bytes of header, {0} are there")]
    Header(usize),
    /// It holds no Ethernet frames.
    #[error("link type {link_type} at byte {offset} is not Ethernet (1)")]
    LinkType {
        /// What the file says.
        link_type: u32,
        /// Where.
        offset: u64,
    },
    /// It ends within a record.
    #[error(
        "frame {number} at byte {offset}: {part} needs {needs} bytes, {left} are left; the file is cut short"
    )]
    Truncated {
        /// The frame.
        number: u64,
        /// Where its record starts.
        offset: u64,
        /// The part of the record.
        part: &'static str,
        /// Its bytes.
        needs: u32,
        /// What is there.
        left: usize,
    },
    /// A length that no frame has.
    #[error(
        "frame {number} at byte {offset}: {captured} bytes captured of {original}; captured is at most original, and at most {SNAPSHOT_LENGTH}"
    )]
    Length {
        /// The frame.
        number: u64,
        /// Where its record starts.
        offset: u64,
        /// The captured length.
        captured: u32,
        /// The original length.
        original: u32,
    },
    /// A fraction of a second that is a second or more.
    #[error("frame {number} at byte {offset}: {fraction} {unit} are no fraction of a second")]
    Time {
        /// The frame.
        number: u64,
        /// Where its record starts.
        offset: u64,
        /// What is there.
        fraction: u32,
        /// The unit that the file's magic promises.
        unit: &'static str,
    },
    /// A block of a pcapng file that is not as it should be.
    #[error("the pcapng {kind} at byte {offset}, behind frame {number}: {what}")]
    Block {
        /// What it is.
        kind: &'static str,
        /// Where it starts.
        offset: u64,
        /// The last frame before it.
        number: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The file could not be read.
    #[error("after frame {number}, byte {offset}: the file cannot be read: {source}")]
    Read {
        /// The last frame that was read.
        number: u64,
        /// How far all is well, counted in what the file is when decompressed.
        offset: u64,
        /// What the system says, or the decompression.
        #[source]
        source: io::Error,
    },
}

/// The first bytes of a file, at most four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    bytes: [u8; 4],
    length: usize,
}

impl Start {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let length = bytes.len().min(4);
        let mut start = Self { bytes: [0; 4], length };
        start.bytes[..length].copy_from_slice(&bytes[..length]);
        start
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length == 0 {
            return f.write_str("nothing: it is empty");
        }
        self.bytes[..self.length].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn hint(start: &Start) -> &'static str {
    match start.bytes {
        [0x04, 0x22, 0x4d, 0x18] => " and is compressed by lz4; decompress it first",
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd] => " and is compressed twice",
        _ if start.length == 0 => "",
        _ => ", not with a1b2c3d4 or a1b23c4d in either byte order, nor as pcapng does (0a0d0d0a)",
    }
}
