//! The RoCEv2 wire format: from a message to the bytes of its frames, and from bytes back to fields.
//!
//! ```text
//! Ethernet 14 | [802.1Q 4] | IPv4 20 or IPv6 40 | UDP 8 | BTH 12 | extension headers | payload | pad 0..3 | ICRC 4
//! ```
//! Pure: nothing here opens a file or asks the time. Ethernet, VLAN, IP and UDP headers come from etherparse;
//! what follows UDP is ours. Not here: capture files ([`crate::pcap`]), and the rules over many frames
//! ([`crate::critic`]).
//!
//! Sources: IBTA Architecture Specification vol. 1 (chapter 9, annex A17), as read through Linux
//! `drivers/infiniband` (rxe, mlx5), and captures of ConnectX, HNS and rxe.

pub mod field;
pub mod psn;
pub mod qpn;
pub mod opcode;
pub mod bth;
pub mod reth;
pub mod credits;
pub mod timer;
pub mod aeth;
pub mod immediate;
pub mod atomic;
pub mod datagram;
pub mod extensions;
pub mod icrc;
pub mod source_port;
pub mod segment;
pub mod read;
pub mod management;
pub mod payload;
pub mod link;
pub mod network;
pub mod profile;
pub mod frame;
pub mod packet;
pub mod parsed;
pub mod template;
#[cfg(test)]
pub(crate) mod samples;

pub use aeth::{Aeth, Syndrome};
pub use bth::Bth;
pub use credits::Credits;
pub use extensions::Extensions;
pub use frame::Frame;
pub use immediate::Immediate;
pub use link::{Link, Mac, Vlan};
pub use network::{Ecn, Ip, Network};
pub use opcode::Opcode;
pub use packet::{Packet, ParseError};
pub use parsed::{NotRoce, Parsed, ParsedFrame};
pub use payload::Payload;
pub use profile::NicProfile;
pub use psn::Psn;
pub use qpn::Qpn;
pub use read::{Read, ReadResponses};
pub use reth::{RemoteKey, Reth};
pub use segment::{PathMtu, Segment, Segments, Verb};
pub use template::{Content, Template, Varying};
pub use timer::{RnrTimer, Timeout};
