use proptest::prelude::*;

use crate::wire::frame::Frame;
use crate::wire::opcode::Opcode;
use crate::wire::samples::{bytes, frames, nccl};
use crate::wire::segment::pad;
use crate::wire::{Aeth, Psn, Syndrome};

use super::*;

fn roce(captured: &[u8], original_length: usize) -> ParsedFrame<'_> {
    match ParsedFrame::parse(captured, original_length) {
        Ok(Parsed::Roce(frame)) => frame,
        other => panic!("{other:?}"),
    }
}

fn acknowledgement() -> Vec<u8> {
    let aeth = Some(Aeth::new(Syndrome::UNLIMITED, Psn::wrapping(3)));
    bytes(&nccl(Opcode::Acknowledge, 17, Extensions { aeth, ..Extensions::default() }, &[]))
}

#[test]
fn an_acknowledgement_has_62_bytes_and_no_payload() {
    let bytes = acknowledgement();
    assert_eq!(bytes.len(), 62);
    let frame = roce(&bytes, 62);
    assert_eq!(frame.extensions.aeth.unwrap().message_sequence, Psn::wrapping(3));
    assert_eq!((frame.payload_length, frame.network_payload, frame.udp.length), (0, 28, 28));
    assert_eq!(frame.computed_icrc(), frame.icrc);
}

#[test]
fn a_cut_payload_keeps_its_length() {
    let payload = [7; 1022];
    let bytes = bytes(&nccl(Opcode::WriteMiddle, 1, Extensions::default(), &payload));
    let frame = roce(&bytes[..100], bytes.len());
    assert_eq!((frame.payload.len(), frame.payload_length), (100 - 54, 1022));
    assert_eq!((frame.icrc, frame.computed_icrc(), frame.pad), (None, None, &[][..]));
    assert_eq!(frame.length, 1082);
}

#[test]
fn a_cut_header_is_named_with_its_place() {
    let bytes = acknowledgement();
    for (length, message) in [
        (13, "byte 0: Ethernet header needs 14 bytes, 13 are left; the capture cut the frame"),
        (20, "byte 14: IPv4 header needs 20 bytes, 6 are left; the capture cut the frame"),
        (41, "byte 34: UDP header needs 8 bytes, 7 are left; the capture cut the frame"),
        (51, "byte 42: base transport header needs 12 bytes, 9 are left; the capture cut the frame"),
        (56, "byte 54: extension headers together needs 4 bytes, 2 are left; the capture cut the frame"),
    ] {
        assert_eq!(ParsedFrame::parse(&bytes[..length], 62).unwrap_err().to_string(), message);
    }
    let error = ParsedFrame::parse(&bytes[..51], 51).unwrap_err();
    assert_eq!(error.to_string(), "byte 34: UDP length 28 reaches beyond the frame, 17 bytes are left");
}

#[test]
fn wrong_lengths_are_named() {
    let mut bytes = acknowledgement();
    bytes[39] = 23;
    let error = ParsedFrame::parse(&bytes, 62).unwrap_err();
    assert_eq!(error.to_string(), "byte 42: UDP carries 15 bytes, but headers, pad and ICRC need 16");
    bytes[39] = 28;
    bytes[43] |= 0x10;
    assert!(matches!(ParsedFrame::parse(&bytes, 62), Err(ParseError::Content { needs: 21, .. })));
    bytes[14] = 0x65;
    let error = ParsedFrame::parse(&bytes, 62).unwrap_err();
    assert_eq!(error.to_string(), "byte 14: an IPv4 header does not start with 0x65");
}

#[test]
fn other_traffic_is_no_error() {
    let mut bytes = acknowledgement();
    let other = |bytes: &[u8]| match ParsedFrame::parse(bytes, bytes.len()) {
        Ok(Parsed::NotRoce(other)) => other,
        other => panic!("{other:?}"),
    };
    bytes[36] = 0x12;
    bytes[37] = 0xb6;
    assert_eq!(other(&bytes), NotRoce::Port { source: 50800, destination: 4790 });
    bytes[23] = 6;
    assert_eq!(other(&bytes), NotRoce::Protocol(6));
    bytes[20] = 0x20;
    assert_eq!(other(&bytes), NotRoce::Fragment);
    bytes[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(other(&bytes), NotRoce::EtherType(0x0806));
}

#[test]
fn an_unknown_opcode_leaves_all_behind_bth_as_payload() {
    let mut bytes = acknowledgement();
    bytes[42] = 0x3f;
    let frame = roce(&bytes, 62);
    assert_eq!((frame.bth.opcode(), frame.payload_length), (None, 4));
    assert_eq!(frame.extensions, Extensions::default());
}

proptest! {
    #[test]
    fn parse_of_emit_is_the_identity(frame in frames(), payload in prop::collection::vec(any::<u8>(), 0..300)) {
        let payload = if frame.bth.opcode().unwrap().shape().payload { &payload[..] } else { &[] };
        let frame = Frame { payload, bth: Bth { pad: pad(payload.len()), ..frame.bth }, ..frame };
        let bytes = bytes(&frame);
        let parsed = roce(&bytes, bytes.len());
        prop_assert_eq!(
            Frame {
                link: parsed.link,
                network: parsed.network,
                source_port: parsed.udp.source,
                bth: parsed.bth,
                extensions: parsed.extensions,
                payload: parsed.payload,
            },
            frame
        );
        prop_assert_eq!(parsed.payload_length, payload.len());
        prop_assert_eq!(parsed.icrc, parsed.computed_icrc());
        prop_assert_eq!(parsed.network_payload, parsed.udp.length);
        prop_assert!(parsed.pad.iter().chain(parsed.trailer).all(|&byte| byte == 0));
    }

    #[test]
    fn no_bytes_make_it_panic(captured in prop::collection::vec(any::<u8>(), 0..200), original in 0..300_usize) {
        let _ = ParsedFrame::parse(&captured, original);
    }

    #[test]
    fn no_damage_makes_it_panic(
        frame in frames(), payload in prop::collection::vec(any::<u8>(), 0..64),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut: prop::sample::Index, original in 0..200_usize,
    ) {
        let mut bytes = bytes(&Frame { payload: &payload, ..frame });
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let cut = cut.index(bytes.len() + 1);
        if let Ok(Parsed::Roce(frame)) = ParsedFrame::parse(&bytes[..cut], original) {
            prop_assert!(frame.payload.len() <= frame.payload_length);
            let _ = frame.computed_icrc();
        }
    }
}
