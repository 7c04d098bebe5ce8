//! IP: the addresses of a frame and what the network may do with it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    EtherType, IpDscp, IpEcn, IpFragOffset, IpNumber, Ipv4Header, Ipv4Options, Ipv6FlowLabel, Ipv6Header,
};
use serde::{Deserialize, Serialize};

use super::field::FieldError;
use super::segment::IpVersion;

/// The IP header of a frame, without its lengths and checksum, which follow from the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// Addresses, and what only one version has.
    pub ip: Ip,
    /// The differentiated services code point, 0 to 63: which queue it takes.
    pub dscp: u8,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Time to live, or hop limit.
    pub ttl: u8,
}

/// Addresses, and what only one version of IP has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ip {
    /// IPv4.
    V4 {
        /// Who sends it.
        source: Ipv4Addr,
        /// Where it goes.
        destination: Ipv4Addr,
        /// The identification: ConnectX and rxe count it up, HNS leaves it 0.
        identification: u16,
        /// Whether it must not be cut; RoCE always says so.
        dont_fragment: bool,
    },
    /// IPv6.
    V6 {
        /// Who sends it.
        source: Ipv6Addr,
        /// Where it goes.
        destination: Ipv6Addr,
        /// The flow label, 20 bits.
        flow_label: u32,
    },
}

/// Explicit congestion notification (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ecn {
    /// 0: a switch must drop, not mark.
    NotCapable,
    /// 1: the other capable codepoint.
    Capable1,
    /// 2: a switch may mark; RoCE NICs send this.
    Capable0,
    /// 3: a switch has marked it.
    CongestionExperienced,
}

impl Ecn {
    /// The two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0,
            Self::Capable1 => 1,
            Self::Capable0 => 2,
            Self::CongestionExperienced => 3,
        }
    }
}

impl Ip {
    /// Who sends it.
    #[must_use]
    pub const fn source(&self) -> IpAddr {
        match *self {
            Self::V4 { source, .. } => IpAddr::V4(source),
            Self::V6 { source, .. } => IpAddr::V6(source),
        }
    }

    /// Where it goes.
    #[must_use]
    pub const fn destination(&self) -> IpAddr {
        match *self {
            Self::V4 { destination, .. } => IpAddr::V4(destination),
            Self::V6 { destination, .. } => IpAddr::V6(destination),
        }
    }

    /// The version.
    #[must_use]
    pub const fn version(&self) -> IpVersion {
        match self {
            Self::V4 { .. } => IpVersion::V4,
            Self::V6 { .. } => IpVersion::V6,
        }
    }

    /// The bytes of the header.
    #[must_use]
    pub const fn header_length(&self) -> usize {
        match self {
            Self::V4 { .. } => Ipv4Header::MIN_LEN,
            Self::V6 { .. } => Ipv6Header::LEN,
        }
    }
}

impl Network {
    pub(super) const fn ether_type(&self) -> EtherType {
        match self.ip {
            Ip::V4 { .. } => EtherType::IPV4,
            Ip::V6 { .. } => EtherType::IPV6,
        }
    }

    /// Appends the header in front of `payload` bytes of UDP.
    pub(super) fn emit(&self, payload: u16, into: &mut Vec<u8>) -> Result<(), FieldError> {
        let dscp = IpDscp::try_new(self.dscp).map_err(|_| FieldError::new("DSCP", self.dscp, 63_u8))?;
        match self.ip {
            Ip::V4 { source, destination, identification, dont_fragment } => {
                let total_len = payload.checked_add(Ipv4Header::MIN_LEN_U16).ok_or_else(|| {
                    FieldError::new("IPv4 payload", payload, u16::MAX - Ipv4Header::MIN_LEN_U16)
                })?;
                let mut header = Ipv4Header {
                    dscp,
                    ecn: self.ecn.into(),
                    total_len,
                    identification,
                    dont_fragment,
                    more_fragments: false,
                    fragment_offset: IpFragOffset::ZERO,
                    time_to_live: self.ttl,
                    protocol: IpNumber::UDP,
                    header_checksum: 0,
                    source: source.octets(),
                    destination: destination.octets(),
                    options: Ipv4Options::new(),
                };
                header.header_checksum = header.calc_header_checksum();
                into.extend(header.to_bytes());
            }
            Ip::V6 { source, destination, flow_label } => {
                let header = Ipv6Header {
                    traffic_class: (self.dscp << 2) | self.ecn.bits(),
                    flow_label: Ipv6FlowLabel::try_new(flow_label)
                        .map_err(|_| FieldError::new("flow label", flow_label, 0xf_ffff_u32))?,
                    payload_length: payload,
                    next_header: IpNumber::UDP,
                    hop_limit: self.ttl,
                    source: source.octets(),
                    destination: destination.octets(),
                };
                into.extend(header.to_bytes());
            }
        }
        Ok(())
    }
}

impl From<Ecn> for IpEcn {
    fn from(ecn: Ecn) -> Self {
        match ecn {
            Ecn::NotCapable => Self::NotEct,
            Ecn::Capable1 => Self::Ect1,
            Ecn::Capable0 => Self::Ect0,
            Ecn::CongestionExperienced => Self::CongestionExperienced,
        }
    }
}

impl From<IpEcn> for Ecn {
    fn from(ecn: IpEcn) -> Self {
        match ecn {
            IpEcn::NotEct => Self::NotCapable,
            IpEcn::Ect1 => Self::Capable1,
            IpEcn::Ect0 => Self::Capable0,
            IpEcn::CongestionExperienced => Self::CongestionExperienced,
        }
    }
}
