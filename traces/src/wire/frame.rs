//! A frame as it is meant, and its bytes: the plain way, which judges the fast one ([`super::template`]).

use etherparse::UdpHeader;
use thiserror::Error;

use super::bth::Bth;
use super::extensions::{Extensions, ExtensionsError};
use super::field::FieldError;
use super::icrc::{self, icrc};
use super::link::Link;
use super::network::{Ip, Network};
use super::opcode::Opcode;
use super::segment::{ETHERNET_MINIMUM, pad};
use super::source_port::ROCE;

/// A RoCEv2 frame as it is meant. Lengths, checksums, pad and ICRC follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Ethernet.
    pub link: Link,
    /// IP.
    pub network: Network,
    /// The UDP source port; the destination is 4791.
    pub source_port: u16,
    /// The base transport header; its pad count is written as the payload needs it.
    pub bth: Bth,
    /// The extension headers of the opcode.
    pub extensions: Extensions,
    /// What it carries.
    pub payload: &'a [u8],
}

/// Why a frame cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A value does not fit its field.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The extension headers are not those of the opcode.
    #[error(transparent)]
    Extensions(#[from] ExtensionsError),
    /// The opcode is not known here.
    #[error("opcode 0x{0:02x} is not known, so what follows it cannot be written")]
    Opcode(u8),
    /// The payload does not fit into an IP packet.
    #[error("a payload of {0} bytes does not fit into an IP packet")]
    Payload(usize),
    /// A stamp that the template was not made for.
    #[error("a stamp of {stamp} bytes is not the template's, whose payload has {payload}")]
    Stamp {
        /// The bytes of the stamp.
        stamp: usize,
        /// The bytes of the payload.
        payload: usize,
    },
}

impl Frame<'_> {
    /// Where its base transport header starts: what stands from there to the ICRC is what UDP carries.
    #[must_use]
    pub const fn body_at(&self) -> usize {
        self.link.length() + self.network.ip.header_length() + UdpHeader::LEN
    }

    /// Appends the frame: from Ethernet to the ICRC, at least Ethernet's 60 bytes. The IPv4 UDP checksum is
    /// 0, as NICs leave it; the IPv6 one is computed.
    ///
    /// # Errors
    /// [`FrameError`] if a value does not fit, or the extension headers are not those of the opcode; nothing
    /// of use is appended then.
    pub fn emit(&self, into: &mut Vec<u8>) -> Result<(), FrameError> {
        let opcode = Opcode::from_byte(self.bth.opcode).ok_or(FrameError::Opcode(self.bth.opcode))?;
        let pad = pad(self.payload.len());
        let length = UdpHeader::LEN
            + Bth::LEN
            + opcode.shape().extension_length()
            + self.payload.len()
            + usize::from(pad)
            + icrc::LEN;
        let length = u16::try_from(length).map_err(|_| FrameError::Payload(self.payload.len()))?;
        let start = into.len();
        self.link.emit(self.network.ether_type(), into)?;
        let datagram = into.len();
        self.network.emit(length, into)?;
        let udp = into.len();
        let mut header =
            UdpHeader { source_port: self.source_port, destination_port: ROCE, length, checksum: 0 };
        into.extend(header.to_bytes());
        into.extend(Bth { pad, ..self.bth }.to_bytes());
        self.extensions.emit(opcode, into)?;
        into.extend(self.payload);
        into.extend(&[0; 3][..usize::from(pad)]);
        let crc = icrc(&into[datagram..]).expect("IP, UDP and BTH stand in front");
        into.extend(crc.to_le_bytes());
        if let Ip::V6 { source, destination, .. } = self.network.ip {
            // Behind the ICRC, which it covers and which does not cover it.
            let body = &into[udp + UdpHeader::LEN..];
            header.checksum = header
                .calc_checksum_ipv6_raw(source.octets(), destination.octets(), body)
                .map_err(|_| FrameError::Payload(self.payload.len()))?;
            into[udp..udp + UdpHeader::LEN].copy_from_slice(&header.to_bytes());
        }
        if into.len() < start + ETHERNET_MINIMUM {
            into.resize(start + ETHERNET_MINIMUM, 0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
