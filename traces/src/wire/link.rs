//! Ethernet: the addresses of a frame and its VLAN tag.

use std::fmt;
use std::str::FromStr;

use etherparse::{EtherType, Ethernet2Header, SingleVlanHeader, VlanId, VlanPcp};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::field::FieldError;

/// A MAC address, written `02:00:c6:12:00:03`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

/// A text that is no MAC address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no MAC address; write six bytes in hexadecimal: 02:00:c6:12:00:03")]
pub struct MacError(String);

/// The Ethernet header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// Who sends it on this link.
    pub source: Mac,
    /// Who is to take it: the peer, or the router on the way to it.
    pub destination: Mac,
    /// Its VLAN tag, if it has one.
    pub vlan: Option<Vlan>,
}

/// An IEEE 802.1Q tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vlan {
    /// The priority, 0 to 7: with priority flow control, the class that may be paused.
    pub priority: u8,
    /// Whether it may be dropped first.
    pub drop_eligible: bool,
    /// The VLAN, 0 to 4095; 0 means that only the priority counts.
    pub id: u16,
}

impl Link {
    /// The bytes of the header.
    #[must_use]
    pub const fn length(&self) -> usize {
        Ethernet2Header::LEN + if self.vlan.is_some() { SingleVlanHeader::LEN } else { 0 }
    }

    pub(super) fn emit(&self, ether_type: EtherType, into: &mut Vec<u8>) -> Result<(), FieldError> {
        let outer = if self.vlan.is_some() { EtherType::VLAN_TAGGED_FRAME } else { ether_type };
        let header =
            Ethernet2Header { source: self.source.0, destination: self.destination.0, ether_type: outer };
        into.extend(header.to_bytes());
        if let Some(vlan) = self.vlan {
            let tag = SingleVlanHeader {
                pcp: VlanPcp::try_new(vlan.priority)
                    .map_err(|_| FieldError::new("VLAN priority", vlan.priority, 7_u8))?,
                drop_eligible_indicator: vlan.drop_eligible,
                vlan_id: VlanId::try_new(vlan.id)
                    .map_err(|_| FieldError::new("VLAN id", vlan.id, 4095_u16))?,
                ether_type,
            };
            into.extend(tag.to_bytes());
        }
        Ok(())
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let error = || MacError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(error)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| error())?;
        }
        parts.next().map_or(Ok(Self(bytes)), |_| Err(error()))
    }
}

impl TryFrom<String> for Mac {
    type Error = MacError;

    fn try_from(text: String) -> Result<Self, MacError> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        let mac = Mac([0x02, 0x00, 0xc6, 0x12, 0x00, 0x03]);
        assert_eq!(mac.to_string(), "02:00:c6:12:00:03");
        assert_eq!("02:00:C6:12:00:03".parse(), Ok(mac));
        for wrong in ["", "02:00:c6:12:00", "02:00:c6:12:00:03:04", "2:0:c6:12:00:03", "02-00-c6-12-00-03"] {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_tag_stands_between_address_and_type() {
        let vlan = Vlan { priority: 3, drop_eligible: false, id: 100 };
        let link = Link { source: Mac([2; 6]), destination: Mac([4; 6]), vlan: Some(vlan) };
        let mut bytes = Vec::new();
        link.emit(EtherType::IPV4, &mut bytes).unwrap();
        assert_eq!(bytes, [4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 0x81, 0x00, 0x60, 0x64, 0x08, 0x00]);
        let link = Link { vlan: Some(Vlan { priority: 8, ..vlan }), ..link };
        let error = link.emit(EtherType::IPV4, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "VLAN priority 8 does not fit; the greatest is 7");
    }
}
