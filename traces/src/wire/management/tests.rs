use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::wire::segment::PathMtu;
use crate::wire::timer::Timeout;

fn endpoint(communication: u32, queue_pair: u32, starting_psn: u32) -> Endpoint {
    Endpoint {
        communication,
        guid: 0x0200_c6ff_fe12_0001,
        queue_pair: Qpn::for_data(queue_pair).unwrap(),
        starting_psn: Psn::wrapping(starting_psn),
    }
}

fn request(source: IpAddr, destination: IpAddr) -> Request {
    let addresses = IpHeader::new(40_000, source, destination);
    Request::new(&endpoint(0x0102_0304, 0x11, 0x89_bb0e), ServiceId::tcp(7471), addresses, PathMtu::Mtu1024)
}

#[test]
fn a_request_has_its_fields_where_the_specification_puts_them() {
    let request = request([198, 18, 0, 1].into(), [198, 18, 0, 2].into());
    let bytes = Mad::new(0x1122_3344_5566_7788, request).to_bytes();
    let head: &[&[u8]] = &[
        &[1, 7, 2, 3, 0, 0, 0, 0],
        &[0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88],
        &[0x00, 0x10, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(bytes[..24], head.concat());
    let body: &[&[u8]] = &[
        &[0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0],
        // TCP port space, port 7471.
        &[0, 0, 0, 0, 0x01, 0x06, 0x1d, 0x2f],
        &[0x02, 0x00, 0xc6, 0xff, 0xfe, 0x12, 0x00, 0x01],
        &[0, 0, 0, 0, 0, 0, 0, 0],
        // Queue pair and responder resources; no EECN, initiator depth; no EECN, 20 << 3 and a reliable connection.
        &[0, 0, 0x11, 1, 0, 0, 0, 1, 0, 0, 0, 0xa0],
        // Starting PSN, 20 << 3 with 7 retries; partition; MTU code 3 with 7; 15 << 4.
        &[0x89, 0xbb, 0x0e, 0xa7, 0xff, 0xff, 0x37, 0xf0],
        &[0xff, 0xff, 0xff, 0xff],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 2],
        // Flow label 0 and rate 7; class 0, hop limit 64; level 0; 19 << 3.
        &[0, 0, 0, 7, 0, 64, 0, 0x98],
        &[0; 44],
        // IP version 4, port 40000.
        &[0, 0x40, 0x9c, 0x40],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 198, 18, 0, 1],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 198, 18, 0, 2],
        &[0; 56],
    ];
    assert_eq!(bytes[24..], body.concat());
}

#[test]
fn a_reply_has_its_fields_where_the_specification_puts_them() {
    let request = request([198, 18, 0, 1].into(), [198, 18, 0, 2].into());
    let reply =
        Reply { counts_credits: true, ..Reply::new(&endpoint(0x0506_0708, 0x17, 0xc2_3298), &request) };
    let bytes = Mad::new(1, reply).to_bytes();
    let body: &[&[u8]] = &[
        &[0x05, 0x06, 0x07, 0x08, 0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0],
        &[0, 0, 0x17, 0, 0, 0, 0, 0, 0xc2, 0x32, 0x98, 0],
        // Resources, depth; 15 << 3 and credits; 7 << 5; GUID.
        &[1, 1, 0x79, 0xe0, 0x02, 0x00, 0xc6, 0xff, 0xfe, 0x12, 0x00, 0x01],
    ];
    assert_eq!(bytes[16..18], [0x00, 0x13]);
    assert_eq!(bytes[24..60], body.concat());
    assert_eq!(bytes[60..], [0; 196]);
}

#[test]
fn each_end_sees_its_own_number_first() {
    let request = request([198, 18, 0, 1].into(), [198, 18, 0, 2].into());
    let reply = Reply::new(&endpoint(8, 0x17, 0), &request);
    assert_eq!(reply.communication, Communication { local: 8, remote: request.local });
    assert_eq!(ReadyToUse::new(&reply).communication, Communication { local: request.local, remote: 8 });
    let end = DisconnectRequest {
        communication: ReadyToUse::new(&reply).communication,
        remote_queue_pair: reply.queue_pair,
    };
    assert_eq!(DisconnectReply::new(&end).communication, reply.communication);
    let bytes = Mad::new(1, end).to_bytes();
    assert_eq!(bytes[24..36], [1, 2, 3, 4, 0, 0, 0, 8, 0, 0, 0x17, 0]);
}

#[test]
fn what_is_no_message_of_connection_management_is_said() {
    let bytes = Mad::new(1, request([198, 18, 0, 1].into(), [198, 18, 0, 2].into())).to_bytes();
    let spoiled = |at: usize, byte: u8| {
        let mut bytes = bytes;
        bytes[at] = byte;
        Mad::parse(&bytes).unwrap_err()
    };
    assert_eq!(Mad::parse(&bytes[1..]), Err(MadError::Length(255)));
    assert_eq!(
        spoiled(1, 3).to_string(),
        "base version 1, class 3, class version 2, method 3 is no message of connection management, which has 1, 7, 2, 3"
    );
    assert_eq!(
        spoiled(17, 0x17).to_string(),
        "attribute 0x0017 is none of 0x0010 to 0x0016: REQ, MRA, REJ, REP, RTU, DREQ, DREP"
    );
    let taken = ReceiptAcknowledge {
        communication: Communication::default(),
        received: Subject::Request,
        service_timeout: Timeout::MANAGEMENT,
    };
    let mut bytes_of_mra = Mad::new(1, taken).to_bytes();
    bytes_of_mra[24 + 8] = 0xc0;
    assert_eq!(
        Mad::parse(&bytes_of_mra).unwrap_err().to_string(),
        "MRA is about message 3; known are 0 (REQ), 1 (REP) and 2 (another)"
    );
    assert_eq!(spoiled(24 + 50, 0x67).to_string(), "path MTU code 6 is none of 1 to 5");
}

#[test]
fn addresses_of_two_versions_are_both_written_as_version_six() {
    let header = IpHeader::new(1, [192, 0, 2, 1].into(), Ipv6Addr::LOCALHOST.into());
    assert_eq!(header.source(), "::ffff:192.0.2.1".parse::<IpAddr>().unwrap());
    assert_eq!(IpHeader::parse(&header.to_bytes()), Some(header));
}

#[test]
fn only_a_service_that_is_a_port_has_addresses() {
    assert_eq!(ServiceId::tcp(7471).port(), Some(7471));
    assert_eq!(ServiceId(0x1000_0000_0106_1d2f).port(), None);
    let request = Request {
        service: ServiceId(7),
        private: PrivateData::Other([0x40; 92]),
        ..request([198, 18, 0, 1].into(), [198, 18, 0, 2].into())
    };
    let mad = Mad::new(0, request);
    assert_eq!(Mad::parse(&mad.to_bytes()), Ok(mad));
}

fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(a, b)| (Ipv4Addr::from_bits(a).into(), Ipv4Addr::from_bits(b).into())),
        any::<(u128, u128)>().prop_map(|(a, b)| (
            Ipv6Addr::from_bits(a | 1 << 127).into(),
            Ipv6Addr::from_bits(b | 1 << 127).into()
        )),
    ]
}

prop_compose! {
    fn requests()(
        (source, destination) in addresses(), ids in any::<(u32, u64, u16, u16)>(), numbers in any::<[u32; 3]>(),
        bytes in any::<[u8; 9]>(), data: [u8; 28], flags: [bool; 3],
        mtu in prop::sample::select(PathMtu::ALL.to_vec()),
    ) -> Request {
        let (local, guid, port, key) = ids;
        let timeout = Timeout::from_low_bits;
        let mut more = [0; 56];
        more[28..].copy_from_slice(&data);
        Request {
            local,
            service: ServiceId::tcp(port),
            guid,
            queue_pair: Qpn::new(numbers[0] >> 8).unwrap(),
            responder_resources: bytes[0],
            initiator_depth: bytes[1],
            remote_response: timeout(bytes[2]),
            transport: bytes[2] >> 6,
            counts_credits: flags[0],
            starting_psn: Psn::wrapping(numbers[1]),
            local_response: timeout(bytes[3]),
            retries: bytes[3] >> 5,
            partition_key: key,
            path_mtu: mtu,
            not_ready_retries: bytes[4] >> 5,
            management_retries: bytes[4] & 15,
            shared_receives: flags[1],
            path: Path {
                source,
                destination,
                flow_label: numbers[2] >> 12,
                rate: bytes[5] & 0x3f,
                traffic_class: bytes[6],
                hop_limit: bytes[7],
                service_level: bytes[8] & 15,
                subnet_local: flags[2],
                ack_timeout: timeout(bytes[8]),
            },
            private: PrivateData::Ip { header: IpHeader::new(port, source, destination), data: more },
        }
    }
}

prop_compose! {
    fn answers()(
        ids in any::<(u32, u32, u64)>(), numbers in any::<[u32; 2]>(), bytes in any::<[u8; 5]>(), flags: [bool; 2],
        about in prop::sample::select(vec![Subject::Request, Subject::Reply, Subject::Other]), which in 0..6,
    ) -> Message {
        let communication = Communication { local: ids.0, remote: ids.1 };
        let queue_pair = Qpn::new(numbers[0] >> 8).unwrap();
        let timeout = Timeout::from_low_bits(bytes[0]);
        match which {
            0 => Reply {
                communication,
                queue_pair,
                starting_psn: Psn::wrapping(numbers[1]),
                responder_resources: bytes[1],
                initiator_depth: bytes[2],
                ack_delay: timeout,
                failover: bytes[3] & 3,
                counts_credits: flags[0],
                not_ready_retries: bytes[4] & 7,
                shared_receives: flags[1],
                guid: ids.2,
            }
            .into(),
            1 => ReadyToUse { communication }.into(),
            2 => DisconnectRequest { communication, remote_queue_pair: queue_pair }.into(),
            3 => DisconnectReply { communication }.into(),
            4 => ReceiptAcknowledge { communication, received: about, service_timeout: timeout }.into(),
            _ => {
                let reason = RejectReason(u16::from_be_bytes([bytes[1], bytes[2]]));
                Reject { communication, rejected: about, reason }.into()
            }
        }
    }
}

proptest! {
    #[test]
    fn parse_of_emit_is_the_identity(
        transaction: u64, message in prop_oneof![requests().prop_map(Message::from), answers()],
    ) {
        let mad = Mad { transaction, message };
        prop_assert_eq!(Mad::parse(&mad.to_bytes()), Ok(mad));
    }

    #[test]
    fn no_bytes_make_it_panic(attribute in 0..0x20_u8, body: [u8; 29], at in 0..230_usize, length in 0..300_usize) {
        let mut bytes = vec![0; 300];
        bytes[..4].copy_from_slice(&HEAD);
        bytes[17] = attribute;
        bytes[at..at + 29].copy_from_slice(&body);
        for length in [length, 256] {
            if let Ok(mad) = Mad::parse(&bytes[..length]) {
                prop_assert_eq!(Mad::parse(&mad.to_bytes()), Ok(mad));
            }
        }
    }
}
