//! Sockets on loopback.

use std::net::{Ipv4Addr, SocketAddr};

use rstest::rstest;

use super::*;

const PORT: u16 = 47_910;

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(127, 77, 0, host), port))
}

fn options(me: u8, peer: u8, port: u16, offload: Offload) -> UdpOptions {
    UdpOptions {
        listen: vec![address(me, port)],
        flows: vec![Flow { from: address(me, port + 1), to: address(peer, port) }],
        traffic_class: 0b10,
        ttl: 64,
        offload,
    }
}

/// A burst of `count` frames of `length` bytes, each with its place in the first four.
fn frames(count: u32, length: usize) -> Vec<u8> {
    (0..count).flat_map(|place| place.to_be_bytes().into_iter().chain(vec![0xa5; length - 4])).collect()
}

fn receive_all(backend: &mut Udp, count: usize) -> Vec<(u32, usize, u8)> {
    let mut received = Vec::new();
    for _ in 0..200 {
        backend
            .receive(&mut |arrival| {
                let place = u32::from_be_bytes(*arrival.bytes.first_chunk().unwrap());
                received.push((place, arrival.bytes.len(), arrival.ecn));
            })
            .unwrap();
        if received.len() >= count {
            break;
        }
        backend.wait(Nanos(10_000_000)).unwrap();
    }
    received
}

#[rstest]
#[case(Offload::Gso, Offload::Gso, 1)]
#[case(Offload::Mmsg, Offload::Mmsg, 11)]
#[case(Offload::Gso, Offload::Mmsg, 21)]
#[case(Offload::Mmsg, Offload::Auto, 31)]
fn two_hosts_exchange_bursts_whole_and_in_order(
    #[case] one: Offload,
    #[case] other: Offload,
    #[case] place: u8,
) {
    let port = PORT + u16::from(place);
    let mut a = Udp::open(&options(place, place + 1, port, one)).unwrap();
    let mut b = Udp::open(&options(place + 1, place, port, other)).unwrap();
    for length in [24, 1_048, 4_120] {
        let mut burst = frames(150, length);
        assert_eq!(a.send(Burst { flow: FlowId(0), bytes: &mut burst, frame_bytes: length }).unwrap(), 150);
        let expected: Vec<_> = (0..150).map(|place| (place, length, 0b10)).collect();
        assert_eq!(receive_all(&mut b, 150), expected);
        assert_eq!(b.send(Burst { flow: FlowId(0), bytes: &mut burst, frame_bytes: length }).unwrap(), 150);
        assert_eq!(receive_all(&mut a, 150), expected);
    }
    assert!(a.notes().is_empty() && b.notes().is_empty(), "{:?} {:?}", a.notes(), b.notes());
}

#[test]
fn the_last_frame_of_a_burst_may_be_shorter() {
    let port = PORT + 60;
    let mut a = Udp::open(&options(61, 62, port, Offload::Gso)).unwrap();
    let mut b = Udp::open(&options(62, 61, port, Offload::Gso)).unwrap();
    let mut burst = frames(3, 100);
    burst.truncate(2 * 100 + 40);
    assert_eq!(a.send(Burst { flow: FlowId(0), bytes: &mut burst, frame_bytes: 100 }).unwrap(), 3);
    assert_eq!(receive_all(&mut b, 3), [(0, 100, 2), (1, 100, 2), (2, 40, 2)]);
    let mut single = frames(1, 40);
    assert_eq!(a.send(Burst { flow: FlowId(0), bytes: &mut single, frame_bytes: 100 }).unwrap(), 1);
    assert_eq!(receive_all(&mut b, 1), [(0, 40, 2)]);
}

#[test]
fn a_port_in_use_is_named() {
    let port = PORT + 70;
    let _first = Udp::open(&options(71, 72, port, Offload::Auto)).unwrap();
    let error = Udp::open(&options(71, 72, port, Offload::Auto)).unwrap_err();
    assert!(matches!(error, UdpError::InUse(at) if at == address(71, port)));
    assert_eq!(
        error.to_string(),
        "UDP port 47980 of 127.77.0.71 is in use; end the program that holds it (`ss -ulpn` names it) or choose \
         another port"
    );
}

#[test]
fn a_source_port_in_use_is_replaced_and_said() {
    let port = PORT + 80;
    let _holder = std::net::UdpSocket::bind(address(81, port + 1)).unwrap();
    let backend = Udp::open(&options(81, 82, port, Offload::Auto)).unwrap();
    assert_eq!(backend.notes(), ["source port 47991 of 127.77.0.81 is in use; another one is used"]);
}

#[test]
fn nobody_is_played_to_and_strange_addresses_are_not_ours() {
    let mut asked = options(91, 92, PORT + 90, Offload::Auto);
    asked.flows[0].to = "192.0.2.1:4791".parse().unwrap();
    assert!(matches!(Udp::open(&asked), Err(UdpError::Foreign(_))));
    asked.listen = vec!["198.18.255.254:4791".parse().unwrap()];
    assert!(matches!(Udp::open(&asked), Err(UdpError::NotHere(_))));
}
