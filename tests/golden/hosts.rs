//! The two hosts that golden frames travel between, and what their NICs put around a message.

use std::net::{IpAddr, Ipv6Addr};

use traces::wire::management::Endpoint;
use traces::wire::{
    Bth, Ecn, Extensions, Frame, Ip, Link, Mac, Network, Opcode, Psn, Qpn, Vlan, source_port,
};

/// One of two hosts, by its last address byte.
#[derive(Clone, Copy)]
pub(crate) struct Host(pub(crate) u8);

pub(crate) const A: Host = Host(1);

pub(crate) const B: Host = Host(2);

impl Host {
    pub(crate) fn queue_pair(self) -> Qpn {
        Qpn::for_data(if self.0 == 1 { 0x124 } else { 0x2a7 }).unwrap()
    }

    pub(crate) fn mac(self) -> Mac {
        Mac([2, 0, 198, 18, 0, self.0])
    }

    pub(crate) fn address(self, v6: bool) -> IpAddr {
        if v6 {
            Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, self.0.into()).into()
        } else {
            [198, 18, 0, self.0].into()
        }
    }

    /// Its number for the connection that it makes.
    pub(crate) fn id(self) -> u32 {
        0x1f00_0000 + u32::from(self.0)
    }

    pub(crate) fn endpoint(self) -> Endpoint {
        Endpoint {
            communication: self.id(),
            guid: 0x0200_c6ff_fe12_0000 + u64::from(self.0),
            queue_pair: self.queue_pair(),
            starting_psn: Psn::wrapping(if self.0 == 1 { 0x89_bb0e } else { 0xc2_3298 }),
        }
    }
}

/// A frame as ConnectX sends it under NCCL: over IPv4, without VLAN.
pub(crate) fn frame(from: Host, to: Host, bth: Bth, extensions: Extensions, payload: &[u8]) -> Frame<'_> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (from.address(false), to.address(false)) else {
        unreachable!()
    };
    Frame {
        link: Link { source: from.mac(), destination: to.mac(), vlan: None },
        network: Network {
            ip: Ip::V4 { source, destination, identification: 7, dont_fragment: true },
            dscp: 26,
            ecn: Ecn::Capable0,
            ttl: 255,
        },
        source_port: source_port::product(A.queue_pair(), B.queue_pair()),
        bth,
        extensions,
        payload,
    }
}

pub(crate) fn from_a(bth: Bth, extensions: Extensions, payload: &[u8]) -> Frame<'_> {
    frame(A, B, bth, extensions, payload)
}

pub(crate) fn from_b(bth: Bth, extensions: Extensions, payload: &[u8]) -> Frame<'_> {
    frame(B, A, bth, extensions, payload)
}

pub(crate) fn to_a(opcode: Opcode, psn: Psn) -> Bth {
    Bth::new(opcode, A.queue_pair(), psn)
}

pub(crate) fn to_b(opcode: Opcode, psn: Psn) -> Bth {
    Bth::new(opcode, B.queue_pair(), psn)
}

pub(crate) fn tagged(link: Link, priority: u8, id: u16) -> Link {
    Link { vlan: Some(Vlan { priority, drop_eligible: false, id }), ..link }
}

pub(crate) fn identified(network: Network, identification: u16) -> Network {
    let ip = match network.ip {
        Ip::V4 { source, destination, dont_fragment, .. } => {
            Ip::V4 { source, destination, identification, dont_fragment }
        }
        v6 @ Ip::V6 { .. } => v6,
    };
    Network { ip, ..network }
}

pub(crate) fn version_6(network: Network) -> Network {
    let address = |address: IpAddr| {
        let host = if address == A.address(false) { A } else { B };
        match host.address(true) {
            IpAddr::V6(v6) => v6,
            IpAddr::V4(_) => unreachable!(),
        }
    };
    let (source, destination) = (address(network.ip.source()), address(network.ip.destination()));
    Network { ip: Ip::V6 { source, destination, flow_label: 0 }, ..network }
}
