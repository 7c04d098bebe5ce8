//! Frames for tests, and strategies that draw them: in one place for all modules of the wire format.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::aeth::Aeth;
use super::atomic::{AtomicAckEth, AtomicEth};
use super::bth::Bth;
use super::datagram::Deth;
use super::extensions::Extensions;
use super::frame::Frame;
use super::immediate::Immediate;
use super::link::{Link, Mac, Vlan};
use super::network::{Ecn, Ip, Network};
use super::opcode::Opcode;
use super::psn::Psn;
use super::qpn::Qpn;
use super::reth::{RemoteKey, Reth};
use super::segment::pad;

/// A frame of mlx5 under NCCL: untagged IPv4 from 198.18.0.1 to 198.18.0.2, port 50800, queue pair 0x2a7.
pub(crate) fn nccl(opcode: Opcode, psn: u32, extensions: Extensions, payload: &[u8]) -> Frame<'_> {
    Frame {
        link: Link {
            source: Mac([2, 0, 198, 18, 0, 1]),
            destination: Mac([2, 0, 198, 18, 0, 2]),
            vlan: None,
        },
        network: Network {
            ip: Ip::V4 {
                source: Ipv4Addr::new(198, 18, 0, 1),
                destination: Ipv4Addr::new(198, 18, 0, 2),
                identification: 1,
                dont_fragment: true,
            },
            dscp: 26,
            ecn: Ecn::Capable0,
            ttl: 255,
        },
        source_port: 50800,
        bth: Bth {
            pad: pad(payload.len()),
            ..Bth::new(opcode, Qpn::for_data(0x2a7).unwrap(), Psn::wrapping(psn))
        },
        extensions,
        payload,
    }
}

pub(crate) fn bytes(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.emit(&mut bytes).unwrap();
    bytes
}

prop_compose! {
    pub(crate) fn links()(
        source: [u8; 6], destination: [u8; 6],
        vlan in prop::option::of((0..8_u8, any::<bool>(), 0..4096_u16)),
    ) -> Link {
        let vlan = vlan.map(|(priority, drop_eligible, id)| Vlan { priority, drop_eligible, id });
        Link { source: Mac(source), destination: Mac(destination), vlan }
    }
}

prop_compose! {
    pub(crate) fn networks()(
        v4: bool, from: [u8; 16], to: [u8; 16], identification: u16, dont_fragment: bool,
        flow_label in 0..1_u32 << 20, dscp in 0..64_u8, ttl: u8,
        ecn in prop::sample::select(vec![
            Ecn::NotCapable, Ecn::Capable1, Ecn::Capable0, Ecn::CongestionExperienced,
        ]),
    ) -> Network {
        let ip = if v4 {
            let address = |bytes: [u8; 16]| Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]);
            Ip::V4 { source: address(from), destination: address(to), identification, dont_fragment }
        } else {
            Ip::V6 { source: Ipv6Addr::from(from), destination: Ipv6Addr::from(to), flow_label }
        };
        Network { ip, dscp, ecn, ttl }
    }
}

prop_compose! {
    pub(crate) fn extensions(opcode: Opcode)(
        address: u64, key: u32, length: u32, syndrome: u8, sequence: u32, source in 0..1_u32 << 24, old: u64,
    ) -> Extensions {
        let shape = opcode.shape();
        Extensions {
            deth: shape.deth.then_some(Deth {
                queue_key: key, reserved: 0, source: Qpn::new(source).unwrap(),
            }),
            reth: shape.reth.then_some(Reth {
                virtual_address: address, remote_key: RemoteKey(key), length,
            }),
            atomic: shape.atomic.then_some(AtomicEth {
                virtual_address: address, remote_key: RemoteKey(key), swap_or_add: old, compare: !old,
            }),
            aeth: shape.aeth.then_some(Aeth { syndrome, message_sequence: Psn::wrapping(sequence) }),
            atomic_ack: shape.atomic_ack.then_some(AtomicAckEth { original: old }),
            immediate: shape.immediate.then_some(Immediate(length.to_be_bytes())),
            invalidate: shape.invalidate.then_some(RemoteKey(key)),
        }
    }
}

prop_compose! {
    pub(crate) fn headers(opcode: Opcode)(
        solicited: bool, migrated: bool, ack_request: bool, partition_key: u16, congestion: u8,
        destination in 0..1_u32 << 24, psn: u32,
    ) -> Bth {
        Bth {
            solicited,
            migrated,
            partition_key,
            congestion,
            ack_request,
            ..Bth::new(opcode, Qpn::new(destination).unwrap(), Psn::wrapping(psn))
        }
    }
}

pub(crate) fn opcodes() -> impl Strategy<Value = Opcode> {
    prop::sample::select(Opcode::ALL.to_vec())
}

prop_compose! {
    /// Any frame, without its payload.
    pub(crate) fn frames()(opcode in opcodes())(
        link in links(), network in networks(), source_port in any::<u16>(), bth in headers(opcode),
        extensions in extensions(opcode),
    ) -> Frame<'static> {
        Frame { link, network, source_port, bth, extensions, payload: &[] }
    }
}
