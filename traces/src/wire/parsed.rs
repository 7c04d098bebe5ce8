//! A captured frame taken apart without copying: every field, or the byte at which something is missing.
//!
//! A capture may have cut a frame short; what is left of it is read as long as its headers are there. Frames
//! that are no RoCEv2 are an answer of their own, not an error: captures hold ARP, TCP and more.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{EtherType, Ethernet2Header, IpNumber, Ipv4Header, Ipv6Header, SingleVlanHeader, UdpHeader};
use thiserror::Error;

use super::bth::Bth;
use super::extensions::Extensions;
use super::icrc::{self, icrc};
use super::link::{Link, Mac, Vlan};
use super::network::{Ip, Network};
use super::source_port::ROCE;

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

/// Why a frame cannot be taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The frame ends within a header.
    #[error("byte {at}: {header} needs {needs} bytes, {left} are left{}", if *.cut { "; the capture cut the frame" } else { "" })]
    Short {
        /// The header.
        header: &'static str,
        /// Where it starts.
        at: usize,
        /// Its bytes.
        needs: usize,
        /// What is there.
        left: usize,
        /// Whether the frame was longer than what was captured of it.
        cut: bool,
    },
    /// The first byte of the IP header does not fit its Ethernet type.
    #[error("byte {at}: an {expected} header does not start with 0x{byte:02x}")]
    IpHeader {
        /// Where it is.
        at: usize,
        /// What the Ethernet type promises.
        expected: &'static str,
        /// What is there.
        byte: u8,
    },
    /// The UDP length is less than the headers, pad and ICRC that it counts.
    #[error("byte {at}: UDP length {length} is less than the {needs} bytes of its headers, pad and ICRC")]
    UdpLength {
        /// Where the length is.
        at: usize,
        /// What it says.
        length: u16,
        /// The least that it can be.
        needs: usize,
    },
    /// The UDP length is more than the frame has.
    #[error("byte {at}: UDP length {length} reaches beyond the frame, {left} bytes are left")]
    Beyond {
        /// Where UDP starts.
        at: usize,
        /// What its length says.
        length: u16,
        /// What the frame had on the wire.
        left: usize,
    },
}

impl<'a> ParsedFrame<'a> {
    /// Takes `captured` apart: the first bytes of a frame that had `original_length` on the wire.
    ///
    /// # Errors
    /// [`ParseError`] says at which byte what is missing or wrong.
    pub fn parse(captured: &'a [u8], original_length: usize) -> Result<Parsed<'a>, ParseError> {
        let mut cursor = Cursor { bytes: captured, at: 0, cut: original_length > captured.len() };
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
        let too_short = |needs| ParseError::UdpLength { at: udp_at + 4, length: udp.length, needs };
        let least = UdpHeader::LEN + Bth::LEN + icrc::LEN;
        if usize::from(udp.length) < least {
            return Err(too_short(least));
        }
        let bth = Bth::parse(cursor.take("base transport header")?);
        let extensions_at = cursor.at;
        let (extensions, extensions_length) = match bth.opcode() {
            Some(opcode) => {
                let shape = opcode.shape();
                let needs = shape.extension_length();
                if usize::from(udp.length) < least + needs {
                    return Err(too_short(least + needs));
                }
                let (extensions, _) = Extensions::parse(&shape, cursor.rest())
                    .ok_or_else(|| cursor.short("extension headers", needs))?;
                (extensions, needs)
            }
            None => (Extensions::default(), 0),
        };
        let payload_at = extensions_at + extensions_length;
        let icrc_at = end - icrc::LEN;
        let payload_end = icrc_at
            .checked_sub(usize::from(bth.pad))
            .filter(|&payload_end| payload_end >= payload_at)
            .ok_or_else(|| too_short(least + extensions_length + usize::from(bth.pad)))?;
        let between = |from: usize, to: usize| {
            let from = from.min(captured.len());
            &captured[from..to.clamp(from, captured.len())]
        };
        Ok(Parsed::Roce(Self {
            link,
            network,
            network_payload,
            network_checksum,
            udp,
            bth,
            extensions,
            payload: between(payload_at, payload_end),
            payload_length: payload_end - payload_at,
            pad: between(payload_end, icrc_at),
            icrc: between(icrc_at, end).first_chunk().map(|bytes| u32::from_le_bytes(*bytes)),
            datagram: between(network_at, icrc_at),
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

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    cut: bool,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn take<const N: usize>(&mut self, header: &'static str) -> Result<&'a [u8; N], ParseError> {
        let chunk = self.rest().first_chunk().ok_or_else(|| self.short(header, N))?;
        self.at += N;
        Ok(chunk)
    }

    fn short(&self, header: &'static str, needs: usize) -> ParseError {
        ParseError::Short { header, at: self.at, needs, left: self.rest().len(), cut: self.cut }
    }
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

fn parse_v4(cursor: &mut Cursor<'_>) -> Result<(Network, u16, u16, Protocol), ParseError> {
    let (header, _) = Ipv4Header::from_slice(cursor.rest()).map_err(|_| match cursor.rest().first() {
        Some(&byte) if byte >> 4 != 4 || byte & 0x0f < 5 => {
            ParseError::IpHeader { at: cursor.at, expected: "IPv4", byte }
        }
        Some(&byte) => cursor.short("IPv4 header", usize::from(byte & 0x0f) * 4),
        None => cursor.short("IPv4 header", Ipv4Header::MIN_LEN),
    })?;
    let network = Network {
        ip: Ip::V4 {
            source: Ipv4Addr::from(header.source),
            destination: Ipv4Addr::from(header.destination),
            identification: header.identification,
            dont_fragment: header.dont_fragment,
        },
        dscp: header.dscp.value(),
        ecn: header.ecn.into(),
        ttl: header.time_to_live,
    };
    let protocol =
        if header.is_fragmenting_payload() { Protocol::Fragment } else { Protocol::Number(header.protocol) };
    cursor.at += header.header_len();
    Ok((network, header.payload_len().unwrap_or(0), header.header_checksum, protocol))
}

fn parse_v6(cursor: &mut Cursor<'_>) -> Result<(Network, u16, u16, Protocol), ParseError> {
    let (header, _) = Ipv6Header::from_slice(cursor.rest()).map_err(|_| match cursor.rest().first() {
        Some(&byte) if byte >> 4 != 6 => ParseError::IpHeader { at: cursor.at, expected: "IPv6", byte },
        _ => cursor.short("IPv6 header", Ipv6Header::LEN),
    })?;
    let network = Network {
        ip: Ip::V6 {
            source: Ipv6Addr::from(header.source),
            destination: Ipv6Addr::from(header.destination),
            flow_label: header.flow_label.value(),
        },
        dscp: header.dscp().value(),
        ecn: header.ecn().into(),
        ttl: header.hop_limit,
    };
    cursor.at += Ipv6Header::LEN;
    Ok((network, header.payload_length, 0, Protocol::Number(header.next_header)))
}

#[cfg(test)]
mod tests;
