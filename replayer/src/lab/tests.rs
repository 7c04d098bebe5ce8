//! Agents as processes, led by a coordinator, in both kinds of testbed.
//!
//! An agent process is this test program again: a script starts it with [`serves_as_an_agent`] as its only test.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use traces::unit::Nanos;
use traces::wire::{Ip, Parsed, ParsedFrame};

use super::*;
use crate::clock::Clock;
use crate::control::{AgentOptions, ControlError, Run, RunSpec, run, serve};
use crate::dataplane::ring::Ring;
use crate::net::Offload;
use crate::outcome::{End, Mode};

const SOCKET: &str = "TOKENWIRE_TEST_AGENT_SOCKET";

/// Not a test of its own: what an agent process of the others runs.
#[test]
#[ignore = "started by other tests as a process of its own"]
fn serves_as_an_agent() {
    if let Some(socket) = std::env::var_os(SOCKET) {
        let mut options = AgentOptions::at(Place::Socket(PathBuf::from(socket)));
        options.with_parent = true;
        serve(&options).unwrap();
    }
}

/// A program that is called as tokenwire's agent is.
fn program(place: &Path) -> PathBuf {
    let path = place.join("agent.sh");
    let this = std::env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\ntest \"$1 $2 $3\" = 'agent --with-parent --socket' || exit 9\n{SOCKET}=\"$4\" exec {} --exact \
         lab::tests::serves_as_an_agent --include-ignored --nocapture\n",
        this.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}

struct Bed {
    ring: Ring,
    spec: RunSpec,
    lab: Lab,
    _place: tempfile::TempDir,
}

fn bed(how: How, ring: Ring) -> Bed {
    bed_with_links(how, ring, 100_000_000_000)
}

fn bed_with_links(how: How, ring: Ring, link_bps: u64) -> Bed {
    let place = tempfile::tempdir().unwrap();
    let trace = ring.write(place.path());
    let mut manifest = ring.manifest();
    for nic in &mut manifest.nics {
        nic.link_bps = link_bps;
    }
    let lab = Lab::start(&manifest, how, &program(place.path())).unwrap();
    let spec =
        RunSpec { run: 1, trace, mode: Mode::Dependency, udp_port: ring.udp_port, offload: Offload::Auto };
    Bed { ring, spec, lab, _place: place }
}

fn play(bed: &Bed) -> Run {
    let mut last = None;
    let run =
        run(bed.lab.agents(), &bed.spec, &AtomicBool::new(false), &mut |standing| last = Some(standing))
            .unwrap();
    let last = last.unwrap();
    assert_eq!(last.done, u64::from(bed.ring.hosts) * bed.ring.nodes_per_host(), "{:?}", run.reasons);
    run
}

fn check_whole(bed: &Bed, run: &Run) {
    assert_eq!(run.reasons, Vec::<String>::new());
    assert_eq!(run.hosts.len(), 4);
    for outcome in &run.hosts {
        assert_eq!(outcome.end, End::Complete);
        assert_eq!(outcome.nics[0].goodput_bytes_received, bed.ring.bytes_per_nic());
    }
}

#[test]
fn four_agents_on_loopback_play_twice_and_leave_nothing() {
    let ring = Ring { hosts: 4, rounds: 20, bytes: 100_000, compute: Nanos(50_000), udp_port: 47_820 };
    let bed = bed(How::Loopback, ring);
    assert_eq!(bed.lab.kind(), Kind::Loopback);
    let processes = bed.lab.processes();
    for _ in 0..2 {
        let run = play(&bed);
        check_whole(&bed, &run);
    }
    let sockets = bed.lab.agents()[0].place.to_string();
    drop(bed);
    for process in processes {
        assert!(!is_alive(process), "agent {process} is still there");
    }
    assert!(!Path::new(&sockets).parent().unwrap().exists());
}

#[test]
fn four_agents_in_namespaces_play_the_traces_addresses() {
    let ring = Ring { hosts: 4, rounds: 20, bytes: 100_000, compute: Nanos(50_000), udp_port: 4_791 };
    let bed = bed(How::Auto, ring);
    // Whether others than root may make user namespaces is the system's choice; then the lab says why not.
    let possible = bed.lab.kind() == Kind::Namespaces;
    assert!(possible || (!rustix::process::geteuid().is_root() && !bed.lab.notes().is_empty()));
    let run = play(&bed);
    check_whole(&bed, &run);
    assert!(run.notes.is_empty(), "{:?}", run.notes);
}

#[test]
fn a_shaped_link_carries_no_more_than_its_rate() {
    let ring = Ring { hosts: 4, rounds: 20, bytes: 1_000_000, compute: Nanos(0), udp_port: 4_791 };
    let bed = bed_with_links(How::Auto, ring, 500_000_000);
    if bed.lab.kind() == Kind::Loopback {
        assert!(bed.lab.notes().iter().any(|note| note.contains("not shaped on loopback")));
        return;
    }
    let shaped = "links shaped to 500.0 Mbit/s".to_owned();
    if !bed.lab.notes().contains(&shaped) {
        let refused = |note: &String| note.starts_with("links are not shaped: tc");
        assert!(bed.lab.notes().iter().any(refused), "{:?}", bed.lab.notes());
        return;
    }
    let run = play(&bed);
    check_whole(&bed, &run);
    for outcome in &run.hosts {
        let nic = &outcome.nics[0];
        let nanos = nic.last_received_ns.unwrap() - nic.first_received_ns.unwrap();
        let bits = 8 * nic.payload_bytes_received;
        // Two buckets of 128 and 256 KiB pass without a wait at the start: 2 % of 20 MB. Unshaped, the line is several
        // times as fast.
        assert!(bits * 1_000 <= nanos * 500 * 103 / 100, "{bits} bits in {nanos} ns");
    }
}

#[test]
fn a_link_faster_than_the_machine_is_said_to_be_unshaped() {
    let ring = Ring { hosts: 2, rounds: 1, bytes: 1, compute: Nanos(0), udp_port: 4_791 };
    let bed = bed(How::Auto, ring);
    assert!(bed.lab.notes().iter().any(|note| note.contains("not shaped")), "{:?}", bed.lab.notes());
}

#[test]
fn without_an_agent_the_run_ends_in_time_and_is_partial() {
    let ring = Ring { hosts: 4, rounds: 10_000, bytes: 10_000, compute: Nanos(1_000_000), udp_port: 47_821 };
    let bed = bed(How::Loopback, ring);
    let victim = bed.lab.processes()[2];
    let clock = Clock::since(Clock::MONOTONIC.now());
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(600));
        kill_process(pid(victim), Signal::KILL).unwrap();
    });
    let run = run(bed.lab.agents(), &bed.spec, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let took = clock.now();
    killer.join().unwrap();
    assert!(took < Nanos(5_600_000_000), "{took}");
    assert!(run.is_partial());
    assert!(run.reasons[0].contains("host2.sock is gone"), "{:?}", run.reasons);
    assert_eq!(run.hosts.iter().map(|outcome| outcome.host.0).collect::<Vec<_>>(), [0, 1, 3]);
    assert!(run.hosts.iter().all(|outcome| outcome.end == End::Stopped && outcome.nodes_complete > 0));
}

#[test]
fn a_run_can_be_ended_early() {
    let ring = Ring { hosts: 2, rounds: 10_000, bytes: 10_000, compute: Nanos(1_000_000), udp_port: 47_822 };
    let bed = bed(How::Loopback, ring);
    let stop = AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(400));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        run(bed.lab.agents(), &bed.spec, &stop, &mut |_| {}).unwrap()
    });
    assert!(run.interrupted && run.is_partial());
    assert_eq!(run.hosts.len(), 2);
}

#[test]
fn an_agent_says_what_it_can_not_do() {
    let ring = Ring { hosts: 2, rounds: 1, bytes: 1, compute: Nanos(0), udp_port: 47_823 };
    let bed = bed(How::Loopback, ring);
    let refused = |agents: &[AgentPlace], spec: &RunSpec| {
        run(agents, spec, &AtomicBool::new(false), &mut |_| {}).unwrap_err().to_string()
    };
    let address = bed.lab.agents()[0].addresses[0].address;
    let holder = std::net::UdpSocket::bind((address, ring.udp_port)).unwrap();
    let error = refused(bed.lab.agents(), &bed.spec);
    assert!(error.contains(&format!("can not prepare: UDP port 47823 of {address} is in use")), "{error}");
    drop(holder);
    let spec = RunSpec { trace: PathBuf::from("/nowhere"), ..bed.spec.clone() };
    let error = refused(bed.lab.agents(), &spec);
    assert!(error.contains("/nowhere"), "{error}");
    let mut agents = bed.lab.agents().to_vec();
    agents[0].addresses[1].address = "192.0.2.1".parse().unwrap();
    let error = refused(&agents, &bed.spec);
    assert!(error.contains("192.0.2.1 is not an address for tests"), "{error}");
    let run = run(bed.lab.agents(), &bed.spec, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert!(!run.is_partial(), "after what it refused, an agent still plays: {:?}", run.reasons);
}

#[test]
fn an_agent_that_does_not_start_is_reported_with_its_words() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("agent.sh");
    fs::write(&path, "#!/bin/sh\necho no such command >&2\nexit 2\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    let ring = Ring { hosts: 2, rounds: 1, bytes: 1, compute: Nanos(0), udp_port: 47_824 };
    let error = Lab::start(&ring.manifest(), How::Loopback, &path).unwrap_err();
    assert_eq!(error.to_string(), "the agent of host0 ended with exit status: 2: no such command");
}

#[test]
fn an_agent_is_not_open_to_the_network() {
    let place = Place::Tcp("0.0.0.0:0".parse().unwrap());
    assert!(matches!(serve(&AgentOptions::at(place)), Err(ControlError::Open(_))));
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(i32::try_from(process).unwrap()).unwrap()
}

fn is_alive(process: u32) -> bool {
    test_kill_process(pid(process)).is_ok()
}

/// All frames that pass the devices of a process's network namespace until `stop`, as a tap there sees them.
fn tap(process: u32, stop: &AtomicBool) -> Vec<Vec<u8>> {
    let namespace = fs::File::open(format!("/proc/{process}/ns/net")).unwrap();
    let kind = rustix::thread::LinkNameSpaceType::Network;
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind)).unwrap();
    let all = i32::from(u16::to_be(0x0003));
    let socket =
        socket2::Socket::new(socket2::Domain::PACKET, socket2::Type::RAW, Some(socket2::Protocol::from(all)))
            .unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (mut frames, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match std::io::Read::read(&mut &socket, &mut buffer) {
            Ok(length) => frames.push(buffer[..length].to_vec()),
            Err(_) if stop.load(std::sync::atomic::Ordering::Relaxed) => return frames,
            Err(_) => {}
        }
    }
}

#[test]
fn a_tap_in_a_namespace_sees_the_frames_of_rocev2() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let ring = Ring { hosts: 4, rounds: 6, bytes: 150_000, compute: Nanos(50_000), udp_port: 4_791 };
    let bed = bed(How::Namespaces, ring);
    let process = bed.lab.processes()[1];
    let stop = AtomicBool::new(false);
    let frames = std::thread::scope(|scope| {
        let tap = scope.spawn(|| tap(process, &stop));
        std::thread::sleep(Duration::from_millis(50));
        check_whole(&bed, &play(&bed));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        tap.join().unwrap()
    });
    let (mut payload, mut identifications) = ([0, 0], Vec::new());
    for bytes in &frames {
        let Parsed::Roce(frame) = ParsedFrame::parse(bytes, bytes.len()).unwrap() else { continue };
        assert_eq!(frame.icrc, frame.computed_icrc(), "{frame:?}");
        let Ip::V4 { source, destination, identification, dont_fragment } = frame.network.ip else {
            panic!("{frame:?}")
        };
        assert!(dont_fragment && frame.network.dscp == 26 && frame.network.ttl == 64, "{frame:?}");
        assert_eq!(frame.link.source.0[5], source.octets()[3], "the trace's MAC");
        assert_eq!(frame.link.destination.0[5], destination.octets()[3]);
        let sent = source.octets() == [198, 18, 0, 2];
        payload[usize::from(sent)] += frame.payload_length;
        identifications.push(identification);
    }
    // Host 1 receives what host 0 sends, and sends as much; nothing was lost, so nothing was sent again.
    let each = usize::try_from(ring.bytes_per_nic()).unwrap();
    assert_eq!(payload, [each, each], "{} frames", frames.len());
    assert!(identifications.iter().max() > Some(&0), "no bundle was cut");
}
