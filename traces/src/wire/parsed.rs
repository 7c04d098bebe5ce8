//! A captured frame taken apart without copying: every field, or the byte at which something is missing.
//!
//! A capture may have cut a frame short; what is left of it is read as long as its headers are there. Frames
//! that are no RoCEv2 are an answer of their own, not an error: captures hold ARP, TCP and more.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::bth::Bth;
use super::extensions::Extensions;
use super::icrc::{self, icrc};
use super::link::{Link, Mac, Vlan};
use super::network::{Ip, Network};
use super::packet::{Body, Cursor, Packet, ParseError};
use super::source_port::ROCE;
use etherparse::{
    EtherType, Ethernet2Header, IpNumber, Ipv4Header, Ipv4HeaderSlice, Ipv6Header, Ipv6HeaderSlice,
    SingleVlanHeader, UdpHeader,
};

/// What a captured frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack of who reads a frame; nothing is stored"
)]
pub enum Parsed<'a> {
    /// RoCEv2.
    Roce(ParsedFrame<'a>),
    /// Something else, and why.
    NotRoce(NotRoce),
}

/// Why a frame is no RoCEv2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRoce {
    /// Neither IPv4 nor IPv6: the Ethernet type (or, below 1536, a length).
    EtherType(u16),
    /// IP, but not UDP: the protocol.
    Protocol(u8),
    /// A later part of a cut IP packet.
    Fragment,
    /// UDP, but not to 4791.
    Port {
        /// The source port.
        source: u16,
        /// The destination port.
        destination: u16,
    },
}

/// A RoCEv2 frame, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedFrame<'a> {
    /// Ethernet; of several VLAN tags the innermost.
    pub link: Link,
    /// IP.
    pub network: Network,
    /// What the IP header says follows it, in bytes.
    pub network_payload: u16,
    /// The IPv4 header checksum; 0 for IPv6.
    pub network_checksum: u16,
    /// The UDP header.
    pub udp: Udp,
    /// The base transport header.
    pub bth: Bth,
    /// The extension headers; none if the opcode is not known.
    pub extensions: Extensions,
    /// The payload as far as it was captured.
    pub payload: &'a [u8],
    /// The bytes of the payload as the lengths have it.
    pub payload_length: usize,
    /// The pad as far as it was captured.
    pub pad: &'a [u8],
    /// The ICRC that it carries; `None` if it was not captured.
    pub icrc: Option<u32>,
    /// From the IP header to the last byte that the ICRC covers, as far as captured.
    pub datagram: &'a [u8],
    /// What follows the UDP datagram: Ethernet's padding, as far as captured.
    pub trailer: &'a [u8],
    /// The bytes that the frame had on the wire, without FCS.
    pub length: usize,
}

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Udp {
    /// The source port.
    pub source: u16,
    /// The destination port.
    pub destination: u16,
    /// The bytes of header and content.
    pub length: u16,
    /// The checksum; 0 if there is none.
    pub checksum: u16,
}

impl<'a> ParsedFrame<'a> {
    /// Takes `captured` apart: the first bytes of a frame that had `original_length` on the wire.
    ///
    /// # Errors
    /// [`ParseError`] says at which byte what is missing or wrong.
    #[inline]
    pub fn parse(captured: &'a [u8], original_length: usize) -> Result<Parsed<'a>, ParseError> {
        let mut cursor = Cursor { bytes: captured, at: 0, base: 0, cut: original_length > captured.len() };
        let length = original_length.max(captured.len());
        let (link, ether_type) = parse_link(&mut cursor)?;
        let network_at = cursor.at;
        let (network, network_payload, network_checksum, protocol) = match ether_type {
            EtherType::IPV4 => parse_v4(&mut cursor)?,
            EtherType::IPV6 => parse_v6(&mut cursor)?,
            other => return Ok(Parsed::NotRoce(NotRoce::EtherType(other.0))),
        };
        match protocol {
            Protocol::Fragment => return Ok(Parsed::NotRoce(NotRoce::Fragment)),
            Protocol::Number(IpNumber::UDP) => {}
            Protocol::Number(other) => return Ok(Parsed::NotRoce(NotRoce::Protocol(other.0))),
        }
        let udp_at = cursor.at;
        let udp = UdpHeader::from_bytes(*cursor.take("UDP header")?);
        let udp = Udp {
            source: udp.source_port,
            destination: udp.destination_port,
            length: udp.length,
            checksum: udp.checksum,
        };
        if udp.destination != ROCE {
            return Ok(Parsed::NotRoce(NotRoce::Port { source: udp.source, destination: udp.destination }));
        }
        let end = udp_at + usize::from(udp.length);
        if end > length {
            return Err(ParseError::Beyond { at: udp_at, length: udp.length, left: length - udp_at });
        }
        let between = |from: usize, to: usize| {
            let from = from.min(captured.len());
            &captured[from..to.clamp(from, captured.len())]
        };
        let body =
            Body { captured: between(cursor.at, end), at: cursor.at, length: end.saturating_sub(cursor.at) };
        let Packet { bth, extensions, payload, payload_length, pad, icrc } = body.parse()?;
        Ok(Parsed::Roce(Self {
            link,
            network,
            network_payload,
            network_checksum,
            udp,
            bth,
            extensions,
            payload,
            payload_length,
            pad,
            icrc,
            datagram: between(network_at, end - icrc::LEN),
            trailer: between(end, captured.len()),
            length,
        }))
    }

    /// The ICRC that the captured bytes have; `None` if the frame was cut.
    #[must_use]
    pub fn computed_icrc(&self) -> Option<u32> {
        self.icrc.and_then(|_| icrc(self.datagram))
    }
}

enum Protocol {
    Fragment,
    Number(IpNumber),
}

fn parse_link(cursor: &mut Cursor<'_>) -> Result<(Link, EtherType), ParseError> {
    let header = Ethernet2Header::from_bytes(*cursor.take("Ethernet header")?);
    let mut link = Link { source: Mac(header.source), destination: Mac(header.destination), vlan: None };
    let mut ether_type = header.ether_type;
    while matches!(ether_type, EtherType::VLAN_TAGGED_FRAME | EtherType::PROVIDER_BRIDGING) {
        let tag = SingleVlanHeader::from_bytes(*cursor.take("VLAN tag")?);
        link.vlan = Some(Vlan {
            priority: tag.pcp.value(),
            drop_eligible: tag.drop_eligible_indicator,
            id: tag.vlan_id.value(),
        });
        ether_type = tag.ether_type;
    }
    Ok((link, ether_type))
}

// The slices of etherparse check as its headers do, but copy nothing: a header with room for options is 56 bytes, which is
// felt at ten million frames a second.

fn parse_v4(cursor: &mut Cursor<'_>) -> Result<(Network, u16, u16, Protocol), ParseError> {
    let header = Ipv4HeaderSlice::from_slice(cursor.rest()).map_err(|_| match cursor.rest().first() {
        Some(&byte) if byte >> 4 != 4 || byte & 0x0f < 5 => {
            ParseError::IpHeader { at: cursor.at, expected: "IPv4", byte }
        }
        Some(&byte) => cursor.short("IPv4 header", usize::from(byte & 0x0f) * 4),
        None => cursor.short("IPv4 header", Ipv4Header::MIN_LEN),
    })?;
    let network = Network {
        ip: Ip::V4 {
            source: Ipv4Addr::from(header.source()),
            destination: Ipv4Addr::from(header.destination()),
            identification: header.identification(),
            dont_fragment: header.dont_fragment(),
        },
        dscp: header.dcp().value(),
        ecn: header.ecn().into(),
        ttl: header.ttl(),
    };
    let protocol = if header.is_fragmenting_payload() {
        Protocol::Fragment
    } else {
        Protocol::Number(header.protocol())
    };
    cursor.at += header.slice().len();
    Ok((network, header.payload_len().unwrap_or(0), header.header_checksum(), protocol))
}

fn parse_v6(cursor: &mut Cursor<'_>) -> Result<(Network, u16, u16, Protocol), ParseError> {
    let header = Ipv6HeaderSlice::from_slice(cursor.rest()).map_err(|_| match cursor.rest().first() {
        Some(&byte) if byte >> 4 != 6 => ParseError::IpHeader { at: cursor.at, expected: "IPv6", byte },
        _ => cursor.short("IPv6 header", Ipv6Header::LEN),
    })?;
    let network = Network {
        ip: Ip::V6 {
            source: Ipv6Addr::from(header.source()),
            destination: Ipv6Addr::from(header.destination()),
            flow_label: header.flow_label().value(),
        },
        dscp: header.dscp().value(),
        ecn: header.ecn().into(),
        ttl: header.hop_limit(),
    };
    cursor.at += Ipv6Header::LEN;
    Ok((network, header.payload_length(), 0, Protocol::Number(header.next_header())))
}

#[cfg(test)]
mod tests;
