//! Capture files in the classic pcap format: written in large aligned blocks, read in bounded memory.
//!
//! ```text
//! file    magic 4 | version 2+2 | zone 4 | accuracy 4 | snapshot length 4 | link type 4 | records
//! record  seconds 4 | nanoseconds 4 | captured length 4 | original length 4 | bytes
//! ```
//! Writers and readers work on any `Write` and `Read`; who opens the files is [`crate::folder`], or the
//! caller. Not here: what the frames say ([`crate::wire`]).

pub mod write;
pub mod read;

pub use read::{PcapError, PcapReader, Record};
pub use write::{PcapWriter, Written};

/// Bytes of the file header.
pub const HEADER: usize = 24;

/// Bytes in front of each frame.
pub const RECORD_HEADER: usize = 16;

/// The most bytes of a frame that are written or read: the snapshot length that tcpdump has used since 2013.
pub const SNAPSHOT_LENGTH: u32 = 262_144;

/// `SNAPSHOT_LENGTH` as a length in memory.
const LONGEST: usize = 262_144;
