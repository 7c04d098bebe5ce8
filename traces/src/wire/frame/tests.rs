use std::net::Ipv4Addr;

use crate::wire::samples::{bytes, nccl};
use crate::wire::{Ecn, Immediate, Qpn, RemoteKey, Reth};

use super::*;

#[test]
fn a_write_with_immediate_is_these_bytes() {
    let extensions = Extensions {
        reth: Some(Reth { virtual_address: 0x7f00_0000_1000, remote_key: RemoteKey(0x0018_1aed), length: 5 }),
        immediate: Some(Immediate::from_u32(5)),
        ..Extensions::default()
    };
    let frame = nccl(Opcode::WriteOnlyImmediate, 0, extensions, b"token");
    let expected: &[&[u8]] = &[
        &[0x02, 0x00, 0xc6, 0x12, 0x00, 0x02, 0x02, 0x00, 0xc6, 0x12, 0x00, 0x01, 0x08, 0x00],
        // 20 + 8 + 12 + 16 + 4 + 5 + 3 + 4 = 72
        &[0x45, 0x6a, 0x00, 0x48, 0x00, 0x01, 0x40, 0x00, 0xff, 0x11, 0xef, 0x11],
        &[0xc6, 0x12, 0x00, 0x01, 0xc6, 0x12, 0x00, 0x02],
        &[0xc6, 0x70, 0x12, 0xb7, 0x00, 0x34, 0x00, 0x00],
        &[0x0b, 0x70, 0xff, 0xff, 0x00, 0x00, 0x02, 0xa7, 0x00, 0x00, 0x00, 0x00],
        &[0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x18, 0x1a, 0xed, 0x00, 0x00, 0x00, 0x05],
        &[0x00, 0x00, 0x00, 0x05],
        b"token\0\0\0",
    ];
    let bytes = bytes(&frame);
    let (body, crc) = bytes.split_at(bytes.len() - 4);
    assert_eq!(body, expected.concat());
    assert_eq!(crc, icrc(&body[14..]).unwrap().to_le_bytes());
}

#[test]
fn an_empty_send_is_filled_to_sixty_bytes() {
    let bytes = bytes(&nccl(Opcode::SendOnly, 0, Extensions::default(), &[]));
    assert_eq!(bytes.len(), 60);
    assert_eq!(bytes[16..18], [0, 44], "the IP length does not count the filling");
    assert_eq!(bytes[58..], [0, 0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let long = vec![0; 65_536];
    let frame = nccl(Opcode::WriteMiddle, 0, Extensions::default(), &long);
    assert_eq!(frame.emit(&mut Vec::new()), Err(FrameError::Payload(65_536)));
    let longest = 65_535 - 8 - 12 - 4 - 3;
    let frame = Frame { payload: &long[..longest], ..frame };
    let error = frame.emit(&mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "IPv4 payload 65532 does not fit; the greatest is 65515");
    let mut unknown = nccl(Opcode::WriteMiddle, 0, Extensions::default(), &[]);
    unknown.bth.opcode = 0x3f;
    assert_eq!(unknown.emit(&mut Vec::new()), Err(FrameError::Opcode(0x3f)));
}

/// A whole frame of a ConnectX-4 Lx (scapy, `test/contrib/roce.uts`).
#[test]
fn a_captured_congestion_notification_comes_back_bit_for_bit() {
    let captured: &[&[u8]] = &[
        &[0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2, 0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32, 0x08, 0x00],
        &[0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61],
        &[0x0a, 0x00, 0x11, 0x01, 0x0a, 0x00, 0x12, 0x01],
        &[0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00],
        &[0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00],
        &[0; 16],
        &[0x82, 0xfd, 0x00, 0x2a],
    ];
    let frame = Frame {
        link: Link {
            source: "7c:fe:90:64:3b:32".parse().unwrap(),
            destination: "e4:1d:2d:ab:2b:c2".parse().unwrap(),
            vlan: None,
        },
        network: Network {
            ip: Ip::V4 {
                source: Ipv4Addr::new(10, 0, 17, 1),
                destination: Ipv4Addr::new(10, 0, 18, 1),
                identification: 0x718c,
                dont_fragment: true,
            },
            dscp: 48,
            ecn: Ecn::Capable0,
            ttl: 64,
        },
        source_port: 0,
        bth: Bth::notification(Qpn::for_data(0x118).unwrap()),
        extensions: Extensions::default(),
        payload: &Bth::NOTIFICATION_PAYLOAD,
    };
    assert_eq!(bytes(&frame), captured.concat());
}
