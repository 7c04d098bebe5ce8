//! Connection management (RDMA-CM): how two hosts agree on a pair of queue pairs, over unreliable datagrams.
//!
//! ```text
//! active   REQ ------------------>           passive      each is a management datagram of 256 bytes, the payload
//!              <------------------ REP                    of a UD SEND Only between queue pairs 1
//!          RTU ------------------>
//!               ... messages ...
//!         DREQ ------------------>                        either side
//!              <------------------ DREP
//!
//! byte 0  base version 1        4-5   status 0                   16-17 attribute: which message
//!      1  class 7               6-7   0                          18-19 0
//!      2  class version 2       8-15  transaction                20-23 attribute modifier 0
//!      3  method 3, Send                                         24-   the message, 232 bytes
//! ```
//! Each end says from which sequence number it wants to *receive*: the Starting PSN of REQ is that of the first frame
//! that the passive side sends. (Measured on rxe: REP said 12726936, and the active side's first frame had it.)
//!
//! In: what the generator's connections agree on. Out: bytes for [`super::frame`]. Not here: who waits for whom, and
//! retries; path migration (LAP, APR), service resolution (SIDR). NCCL does not use any of this, it has TCP.
//!
//! Sources: IBTA vol. 1, 12.6 and 12.7 (messages), 13.4.3 (header), annex A11 (IP addresses), as read through Linux
//! `include/rdma/ibta_vol1_c12.h` and Wireshark's dissector; captures of rxe.

mod answer;
mod request;

use thiserror::Error;

pub use answer::{
    DisconnectReply, DisconnectRequest, ReadyToUse, ReceiptAcknowledge, Reject, RejectReason, Reply, Subject,
};
pub use request::{IpHeader, Path, PrivateData, Request, ServiceId};

use super::bth::Bth;
use super::datagram::Deth;
use super::extensions::Extensions;
use super::opcode::Opcode;
use super::psn::Psn;
use super::qpn::Qpn;

/// A management datagram of connection management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mad {
    /// Bytes 8-15: the transaction. REP and RTU have REQ's, DREP has DREQ's.
    pub transaction: u64,
    /// What it says.
    pub message: Message,
}

/// A message of connection management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// REQ: a connection is asked for.
    Request(Request),
    /// MRA: the answer takes time.
    ReceiptAcknowledge(ReceiptAcknowledge),
    /// REJ: there will be no connection.
    Reject(Reject),
    /// REP: there can be a connection.
    Reply(Reply),
    /// RTU: there is a connection.
    ReadyToUse(ReadyToUse),
    /// DREQ: the connection is to end.
    DisconnectRequest(DisconnectRequest),
    /// DREP: the connection has ended.
    DisconnectReply(DisconnectReply),
}

/// The two numbers that ends give to a connection while it is made, as the sender of a message sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Communication {
    /// The sender's.
    pub local: u32,
    /// The receiver's.
    pub remote: u32,
}

/// What an end says of itself when a connection is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Its number for the connection (local communication ID).
    pub communication: u32,
    /// Its NIC (CA GUID), by custom made of the MAC address.
    pub guid: u64,
    /// Its queue pair.
    pub queue_pair: Qpn,
    /// The sequence number of the first frame that it will *receive*.
    pub starting_psn: Psn,
}

/// Why bytes are no management datagram that is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MadError {
    /// A wrong length.
    #[error("a management datagram has 256 bytes, not {0}")]
    Length(usize),
    /// Not sent for connection management.
    #[error(
        "base version {base}, class {class}, class version {version}, method {method} is no message of connection \
         management, which has 1, 7, 2, 3"
    )]
    Class {
        /// The base version.
        base: u8,
        /// The management class.
        class: u8,
        /// Its version.
        version: u8,
        /// The method.
        method: u8,
    },
    /// A message that is not known here.
    #[error("attribute 0x{0:04x} is none of 0x0010 to 0x0016: REQ, MRA, REJ, REP, RTU, DREQ, DREP")]
    Attribute(u16),
    /// A path MTU code that names no path MTU.
    #[error("path MTU code {0} is none of 1 to 5")]
    PathMtu(u8),
    /// An MRA or REJ that says a wrong thing of what it is about.
    #[error("{message} is about message {about}; known are 0 (REQ), 1 (REP) and 2 (another)")]
    About {
        /// The message.
        message: &'static str,
        /// What it is about.
        about: u8,
    },
}

impl Mad {
    /// Its length in bytes.
    pub const LEN: usize = 256;

    /// A datagram with this message.
    #[must_use]
    pub fn new(transaction: u64, message: impl Into<Message>) -> Self {
        Self { transaction, message: message.into() }
    }

    /// The bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&HEAD);
        bytes[8..16].copy_from_slice(&self.transaction.to_be_bytes());
        bytes[16..18].copy_from_slice(&self.message.attribute().to_be_bytes());
        bytes[24..].copy_from_slice(&match &self.message {
            Message::Request(message) => message.to_bytes(),
            Message::ReceiptAcknowledge(message) => message.to_bytes(),
            Message::Reject(message) => message.to_bytes(),
            Message::Reply(message) => message.to_bytes(),
            Message::ReadyToUse(message) => message.to_bytes(),
            Message::DisconnectRequest(message) => message.to_bytes(),
            Message::DisconnectReply(message) => message.to_bytes(),
        });
        bytes
    }

    /// Reads the payload of a datagram to queue pair 1. Reserved bytes and alternate paths are not looked at.
    ///
    /// # Errors
    /// [`MadError`] if it is no message of connection management that is known here.
    pub fn parse(bytes: &[u8]) -> Result<Self, MadError> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().map_err(|_| MadError::Length(bytes.len()))?;
        let head @ [base, class, version, method] = get(bytes, 0);
        if head != HEAD {
            return Err(MadError::Class { base, class, version, method });
        }
        let body: &[u8; BODY] = &get(bytes, 24);
        let message = match u16::from_be_bytes(get(bytes, 16)) {
            0x10 => Message::Request(Request::parse(body)?),
            0x11 => Message::ReceiptAcknowledge(ReceiptAcknowledge::parse(body)?),
            0x12 => Message::Reject(Reject::parse(body)?),
            0x13 => Message::Reply(Reply::parse(body)),
            0x14 => Message::ReadyToUse(ReadyToUse::parse(body)),
            0x15 => Message::DisconnectRequest(DisconnectRequest::parse(body)),
            0x16 => Message::DisconnectReply(DisconnectReply::parse(body)),
            attribute => return Err(MadError::Attribute(attribute)),
        };
        Ok(Self { transaction: u64::from_be_bytes(get(bytes, 8)), message })
    }

    /// The transport headers of the frame that carries a datagram: a UD SEND Only from queue pair 1 to queue pair 1.
    /// Queue pair 1 counts its frames, whatever connection they are for; `psn` is that count.
    #[must_use]
    pub fn headers(psn: Psn) -> (Bth, Extensions) {
        (
            Bth::new(Opcode::DatagramSendOnly, Qpn::GENERAL_SERVICES, psn),
            Extensions { deth: Some(Deth::GENERAL_SERVICES), ..Extensions::default() },
        )
    }
}

impl Message {
    /// The attribute that names it, bytes 16-17.
    #[must_use]
    pub const fn attribute(&self) -> u16 {
        match self {
            Self::Request(_) => 0x10,
            Self::ReceiptAcknowledge(_) => 0x11,
            Self::Reject(_) => 0x12,
            Self::Reply(_) => 0x13,
            Self::ReadyToUse(_) => 0x14,
            Self::DisconnectRequest(_) => 0x15,
            Self::DisconnectReply(_) => 0x16,
        }
    }

    /// Its short name: `REQ`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Request(_) => "REQ",
            Self::ReceiptAcknowledge(_) => "MRA",
            Self::Reject(_) => "REJ",
            Self::Reply(_) => "REP",
            Self::ReadyToUse(_) => "RTU",
            Self::DisconnectRequest(_) => "DREQ",
            Self::DisconnectReply(_) => "DREP",
        }
    }
}

impl Communication {
    /// As the other end sees it.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { local: self.remote, remote: self.local }
    }

    /// The first eight bytes of all messages but REQ.
    fn put(self, body: &mut [u8; BODY]) {
        put(body, 0, self.local.to_be_bytes());
        put(body, 4, self.remote.to_be_bytes());
    }

    fn get(body: &[u8; BODY]) -> Self {
        Self { local: u32::from_be_bytes(get(body, 0)), remote: u32::from_be_bytes(get(body, 4)) }
    }
}

macro_rules! messages {
    ($($name:ident)*) => {$(
        impl From<$name> for Message {
            fn from(message: $name) -> Self {
                Self::$name(message)
            }
        }
    )*};
}

messages! { Request ReceiptAcknowledge Reject Reply ReadyToUse DisconnectRequest DisconnectReply }

/// Base version, class, class version, method.
const HEAD: [u8; 4] = [1, 7, 2, 3];

/// The bytes of a message.
const BODY: usize = Mad::LEN - 24;

fn get<const N: usize, const FROM: usize>(bytes: &[u8; FROM], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

fn put<const N: usize>(body: &mut [u8; BODY], at: usize, bytes: [u8; N]) {
    body[at..at + N].copy_from_slice(&bytes);
}

#[cfg(test)]
mod tests;
