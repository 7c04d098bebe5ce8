//! What a capture says of where its frames were seen.

use std::net::IpAddr;

use crate::wire::Mac;

/// An interface that frames were captured on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name; pcap files say none.
    pub name: Option<String>,
    /// What people call it.
    pub description: Option<String>,
    /// Its MAC address.
    pub mac: Option<Mac>,
    /// Its addresses, each with the length of its network's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its line rate in bits per second.
    pub bits_per_second: Option<u64>,
    /// The type of its frames; 1 is Ethernet.
    pub link_type: u16,
}

/// Which way a frame passed an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It arrived.
    Inbound,
    /// It left.
    Outbound,
}

impl Direction {
    /// The two low bits of a packet's flags.
    #[must_use]
    pub const fn flags(self) -> u32 {
        match self {
            Self::Inbound => 1,
            Self::Outbound => 2,
        }
    }

    /// What a packet's flags say.
    #[must_use]
    pub const fn from_flags(flags: u32) -> Option<Self> {
        match flags & 3 {
            1 => Some(Self::Inbound),
            2 => Some(Self::Outbound),
            _ => None,
        }
    }
}
