//! Capture files: pcap and pcapng, plain or compressed, written in large aligned blocks, read in bounded memory.
//!
//! ```text
//! pcap    magic 4 | version 2+2 | zone 4 | accuracy 4 | snapshot length 4 | link type 4 | records
//! record  seconds 4 | nanoseconds 4 | captured length 4 | original length 4 | bytes
//!
//! pcapng  section header | interface descriptions | name resolution | packets | interface statistics
//! block   type 4 | length 4 | content, padded to 4 | length 4
//! packet  interface 4 | time 8 | captured length 4 | original length 4 | bytes, padded to 4 | options
//! ```
//! ("PCAP Now Generic", draft-ietf-opsawg-pcapng.) Writers and readers work on any `Write` and `Read`; who opens the files
//! is [`crate::folder`], or the caller. Not here: what the frames say ([`crate::wire`]).

pub mod packing;
pub mod interface;
pub mod write;
pub mod read;

pub use interface::{Direction, Interface};
pub use packing::Packing;
pub use read::{CaptureReader, PcapError, Record};
pub use write::{PcapWriter, Written};

/// Bytes of the header of a pcap file.
pub const HEADER: usize = 24;

/// Bytes in front of each frame of a pcap file.
pub const RECORD_HEADER: usize = 16;

/// The most bytes of a frame that are written or read: the snapshot length that tcpdump has used since 2013.
pub const SNAPSHOT_LENGTH: u32 = 262_144;

/// `SNAPSHOT_LENGTH` as a length in memory.
const LONGEST: usize = 262_144;

/// The link type of Ethernet.
const ETHERNET: u16 = 1;
