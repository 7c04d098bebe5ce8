//! Hosts of one process play rings over loopback, also through a relay that loses, doubles and reorders.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use traces::origin::Class;

use super::ring::Ring;
use super::*;
use crate::clock::Clock;
use crate::outcome::{End, Speed};

/// Addresses of a ring in a network of loopback of its own.
fn addresses(network: u8, hosts: u32) -> Vec<NicAddress> {
    (0..hosts)
        .map(|nic| NicAddress {
            nic: NicId(nic),
            address: IpAddr::V4(Ipv4Addr::new(127, network, 0, u8::try_from(nic + 1).unwrap())),
        })
        .collect()
}

fn assignment(trace: PathBuf, hosts: u32, addresses: Vec<NicAddress>, udp_port: u16) -> Assignment {
    Assignment {
        run: 7,
        trace,
        hosts: (0..hosts).map(HostId).collect(),
        addresses,
        udp_port,
        mode: Mode::Dependency,
        offload: Offload::Auto,
        threads: 99,
    }
}

/// Plays until all are finished, or for too long.
fn play(all: Vec<Prepared>) -> Vec<HostOutcome> {
    let at = Nanos(Clock::MONOTONIC.now().0 + 20_000_000);
    let running: Vec<_> = all.into_iter().map(|prepared| prepared.start(at).unwrap()).collect();
    for _ in 0..3_000 {
        if running.iter().all(|running| running.standing().finished || running.is_over()) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    for running in &running {
        running.stop();
        assert_eq!(running.failure(), None);
    }
    running.iter().flat_map(Running::outcomes).collect()
}

#[test]
fn four_hosts_pass_a_ring_and_every_byte_is_counted() {
    let ring = Ring { hosts: 4, rounds: 20, bytes: 300_001, compute: Nanos(100_000), udp_port: 47_800 };
    let place = tempfile::tempdir().unwrap();
    let trace = ring.write(place.path());
    let outcomes = play(vec![
        Prepared::new(&assignment(trace, ring.hosts, addresses(78, ring.hosts), ring.udp_port)).unwrap(),
    ]);
    assert_eq!(outcomes.len(), 4);
    for outcome in &outcomes {
        assert_eq!(outcome.end, End::Complete);
        assert_eq!(outcome.nodes_complete, ring.nodes_per_host());
        assert_eq!(outcome.nics[0].goodput_bytes_received, ring.bytes_per_nic());
        assert!(outcome.nics[0].payload_bytes_sent >= ring.bytes_per_nic());
        assert_eq!(outcome.nics[0].unmatched, 0);
        assert!(outcome.end_ns >= 20 * 100_000, "compute alone takes 2 ms: {}", outcome.end_ns);
    }
}

/// What a relay did.
#[derive(Debug, Default)]
struct Mischief {
    lost: u64,
    doubled: u64,
    held: u64,
    passed: u64,
}

/// Passes datagrams from one address to another, and now and then loses one, sends it twice, or lets later ones
/// overtake it. Keeps the sender's source port out of it: receivers go by queue pair numbers.
fn relay(from: SocketAddr, to: SocketAddr, seed: u64, stop: &AtomicBool) -> Mischief {
    let socket = UdpSocket::bind(from).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let out = UdpSocket::bind(SocketAddr::new(to.ip(), 0)).unwrap();
    let mut state = seed;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % 1_000
    };
    let mut mischief = Mischief::default();
    let mut held: VecDeque<(u32, Vec<u8>)> = VecDeque::new();
    let mut buffer = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        let Ok(length) = socket.recv(&mut buffer) else {
            for (_, late) in held.drain(..) {
                out.send_to(&late, to).unwrap();
            }
            continue;
        };
        for entry in &mut held {
            entry.0 -= 1;
        }
        while held.front().is_some_and(|(left, _)| *left == 0) {
            out.send_to(&held.pop_front().unwrap().1, to).unwrap();
        }
        let bytes = &buffer[..length];
        match random() {
            0..10 => mischief.lost += 1,
            10..15 => {
                mischief.doubled += 1;
                out.send_to(bytes, to).unwrap();
                out.send_to(bytes, to).unwrap();
            }
            15..20 => {
                mischief.held += 1;
                held.push_back((4, bytes.to_vec()));
            }
            _ => {
                mischief.passed += 1;
                out.send_to(bytes, to).unwrap();
            }
        }
    }
    mischief
}

#[test]
fn loss_repetition_and_reordering_cost_time_and_no_byte() {
    let ring = Ring { hosts: 2, rounds: 30, bytes: 200_000, compute: Nanos(10_000), udp_port: 47_801 };
    let place = tempfile::tempdir().unwrap();
    let trace = ring.write(place.path());
    let (real, relayed) = (addresses(79, 2), addresses(80, 2));
    // Each host listens at its own address, and reaches the other at the relay's.
    let prepared: Vec<_> = (0..2)
        .map(|host| {
            let mut mine = relayed.clone();
            mine[host] = real[host];
            let mut assignment = assignment(trace.clone(), 1, mine, ring.udp_port);
            assignment.hosts = vec![HostId(u32::try_from(host).unwrap())];
            assignment.offload = Offload::Mmsg;
            Prepared::new(&assignment).unwrap()
        })
        .collect();
    let stop = AtomicBool::new(false);
    let (outcomes, mischief) = std::thread::scope(|scope| {
        let relays: Vec<_> = (0..2)
            .map(|host| {
                let at = |addresses: &[NicAddress]| SocketAddr::new(addresses[host].address, ring.udp_port);
                let (from, to, stop) = (at(&relayed), at(&real), &stop);
                scope.spawn(move || relay(from, to, 0x9e37_79b9 + u64::try_from(host).unwrap(), stop))
            })
            .collect();
        let outcomes = play(prepared);
        stop.store(true, Ordering::Relaxed);
        (outcomes, relays.into_iter().map(|relay| relay.join().unwrap()).collect::<Vec<_>>())
    });
    for outcome in &outcomes {
        assert_eq!(outcome.end, End::Complete);
        assert_eq!(outcome.nics[0].goodput_bytes_received, ring.bytes_per_nic());
        assert!(outcome.sent.iter().any(|flow| flow.retransmitted > 0), "{mischief:?}");
    }
    assert!(mischief.iter().all(|one| one.lost > 0 && one.doubled > 0 && one.held > 0), "{mischief:?}");
}

#[test]
fn a_run_that_is_stopped_says_so() {
    let ring = Ring { hosts: 2, rounds: 1_000, bytes: 4_096, compute: Nanos(10_000_000), udp_port: 47_802 };
    let place = tempfile::tempdir().unwrap();
    let trace = ring.write(place.path());
    let prepared = Prepared::new(&assignment(trace, 2, addresses(81, 2), ring.udp_port)).unwrap();
    let running = prepared.start(Clock::MONOTONIC.now()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    running.stop();
    for outcome in running.outcomes() {
        assert_eq!(outcome.end, End::Stopped);
        assert!(outcome.nodes_complete > 0 && outcome.nodes_complete < ring.nodes_per_host());
    }
}

#[test]
fn each_nic_needs_an_address() {
    let ring = Ring { hosts: 2, rounds: 1, bytes: 1, compute: Nanos(0), udp_port: 47_803 };
    let place = tempfile::tempdir().unwrap();
    let trace = ring.write(place.path());
    let error = Prepared::new(&assignment(trace, 2, addresses(82, 1), ring.udp_port)).unwrap_err();
    assert_eq!(error.to_string(), "no address is given for nic1");
}

#[test]
fn captures_are_played_at_their_times_and_at_twice_the_speed() {
    let ring = Ring { hosts: 3, rounds: 200, bytes: 1_024, compute: Nanos(0), udp_port: 47_804 };
    let place = tempfile::tempdir().unwrap();
    let trace = ring.write_with_captures(place.path(), Nanos(500_000));
    for (per_mille, last) in [(1_000, 99_500_000), (2_000, 49_750_000)] {
        let mut assignment = assignment(trace.clone(), ring.hosts, addresses(83, ring.hosts), ring.udp_port);
        assignment.mode = Mode::Timed { speed: Speed::per_mille(per_mille).unwrap() };
        let outcomes = play(vec![Prepared::new(&assignment).unwrap()]);
        assert_eq!(outcomes.len(), 3);
        for outcome in &outcomes {
            assert_eq!(outcome.end, End::Complete);
            let nic = &outcome.nics[0];
            assert_eq!((nic.frames_sent, nic.frames_received), (200, 200));
            assert_eq!(nic.goodput_bytes_received, ring.bytes_per_nic());
            assert!(nic.last_sent_ns.unwrap() >= last, "no frame leaves before its time");
            let class =
                outcome.classes.iter().find(|counts| counts.class == Some(Class::DpGradients)).unwrap();
            assert_eq!((class.stamped_sent, class.stamped_received), (200, 200));
        }
    }
}

#[test]
fn a_damaged_graph_ends_the_run_with_its_place() {
    let ring = Ring { hosts: 2, rounds: 3_000, bytes: 64, compute: Nanos(0), udp_port: 47_805 };
    let place = tempfile::tempdir().unwrap();
    let trace = ring.write(place.path());
    let graph = trace.join("graph/host0.graph");
    let bytes = std::fs::read(&graph).unwrap();
    std::fs::write(&graph, &bytes[..bytes.len() / 2]).unwrap();
    let prepared = Prepared::new(&assignment(trace, 2, addresses(84, 2), ring.udp_port)).unwrap();
    let running = prepared.start(Clock::MONOTONIC.now()).unwrap();
    for _ in 0..1_000 {
        if running.failure().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let why = running.failure().unwrap();
    assert!(why.contains("host0: the graph ends at byte"), "{why}");
    running.stop();
    let outcomes = running.outcomes();
    assert!(matches!(outcomes[0].end, End::Fault { .. }));
}
