//! The writers: pcap and pcapng in large aligned blocks, whole or as a set of files.

mod block;
mod classic;
mod options;
mod pcapng;
mod set;

pub use classic::PcapWriter;
pub use pcapng::{Label, PcapNgWriter, Section};
pub use set::{CaptureWriter, Files, Form, Split};

use std::io;

use super::LONGEST;
use crate::unit::Bytes;

/// What a file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Its frames.
    pub frames: u64,
    /// Its bytes, with all headers, before compression.
    pub bytes: Bytes,
}

/// The lengths of a frame as words, if a capture can say them.
fn lengths(captured: usize, original: usize) -> io::Result<[u32; 2]> {
    if captured > original || captured > LONGEST {
        return Err(invalid(format!(
            "{captured} bytes captured of a frame of {original}; at most {LONGEST} can be"
        )));
    }
    let original = u32::try_from(original).map_err(|_| invalid(format!("no frame has {original} bytes")))?;
    Ok([u32::try_from(captured).map_err(io::Error::other)?, original])
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// The block of [`PcapWriter::new`]: large enough that a system call costs nothing beside its copy.
pub const DEFAULT_BLOCK: usize = 1 << 20;
