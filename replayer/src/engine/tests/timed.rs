//! Timed replay keeps the trace's times at any speed, and only counts.

use traces::origin::Class;
use traces::wire::bth::Bth;
use traces::wire::opcode::Opcode;
use traces::wire::psn::Psn;
use traces::wire::qpn::Qpn;

use super::super::{Fault, TimedFrame};
use super::*;
use crate::outcome::Speed;

/// What UDP carries for a frame of host 0 to host 1 with this payload.
fn frame(psn: u32, payload: usize) -> Vec<u8> {
    let mut bytes =
        Bth::new(Opcode::WriteMiddle, Qpn::for_data(17).unwrap(), Psn::wrapping(psn)).to_bytes().to_vec();
    bytes.resize(12 + payload + 4, 0xab);
    bytes
}

/// Two hosts; host 0 sends a frame each 10 us, `frames` times.
fn play(per_mille: u32, frames: u32, payload: usize, link: Link) -> Network {
    let world = World::pipeline(2, 0, 0, 0, Limits::default());
    let speed = Speed::per_mille(per_mille).unwrap();
    let duration = Nanos(u64::from(frames) * 10_000);
    let mut engines: Vec<_> =
        world.setups.into_iter().map(|setup| Engine::timed(setup, speed, duration)).collect();
    for index in 0..frames {
        let bytes = frame(index, payload);
        let at = Nanos(u64::from(index) * 10_000);
        let frame =
            TimedFrame { at, flow: 0, class: Some(Class::PpForward), bytes: &bytes, length: bytes.len() };
        engines[0].feed_frame(&frame).unwrap();
    }
    engines.iter_mut().for_each(Engine::end_of_input);
    Network::new(engines, world.routes, link, 3)
}

fn finish(network: &mut Network, per_mille: u32) -> RunOutcome {
    network.run(10 * SECOND);
    outcome(network, Mode::Timed { speed: Speed::per_mille(per_mille).unwrap() })
}

#[test]
fn at_k_times_the_speed_it_takes_the_kth_part_of_the_time() {
    for (per_mille, duration) in [(1_000, 1_000_000), (2_000, 500_000), (500, 2_000_000)] {
        let mut network = play(per_mille, 100, 1_024, Link::PERFECT);
        let outcome = finish(&mut network, per_mille);
        assert!(!outcome.partial);
        assert_eq!(outcome.end_ns - outcome.start_ns, duration);
        let nic = &outcome.nics[0];
        assert_eq!(nic.first_sent_ns, Some(1_000));
        assert_eq!(nic.last_sent_ns, Some(1_000 + duration / 100 * 99));
        assert_eq!((nic.frames_sent, nic.late, outcome.flows[0].lost), (100, 0, Some(0)));
        assert_eq!(outcome.nics[1].payload_bytes_received, 102_400);
        assert_eq!(latency(&outcome, LatencyKind::Service).min_ns, Some(1_040 + 2_000));
    }
}

#[test]
fn what_is_lost_doubled_and_overtaken_is_told_apart() {
    let link = Link { lost: 100, doubled: 100, held: 100, hold: 100_000, ..Link::PERFECT };
    let mut network = play(1_000, 3_000, 64, link);
    let outcome = finish(&mut network, 1_000);
    let received = outcome.flows[0].received.as_ref().unwrap();
    let counts = network.counts;
    assert!(counts.stamped_lost > 200 && counts.stamped_doubled > 200);
    assert_eq!(outcome.flows[0].lost, Some(counts.stamped_lost));
    assert_eq!(received.duplicated, counts.stamped_doubled);
    assert_eq!(received.frames, 3_000 - counts.stamped_lost + counts.stamped_doubled);
    assert!(received.reordered > 100 && (1..=10).contains(&received.reorder_extent), "{received:?}");
    assert_eq!(outcome.classes[0].counts.class, Some(Class::PpForward));
}

#[test]
fn what_a_stall_delays_is_late_and_the_rest_keeps_its_time() {
    let mut network = play(1_000, 5_000, 64, Link::PERFECT);
    network.stall = Some((0, 10_000_000, 30_000_000));
    let outcome = finish(&mut network, 1_000);
    // Due from 10 to 30 ms after the run's epoch, of which those of the last 100 us are not late.
    assert_eq!(outcome.nics[0].late, 2_000 - 10);
    assert_eq!(outcome.nics[0].last_sent_ns, Some(1_000 + 49_990_000));
    assert_eq!(latency(&outcome, LatencyKind::Lateness).max_ns, Some(30_000_000 - 10_001_000));
    // A burst of 64 frames shares the line: the network's own queue, not the sender's stall.
    assert!(latency(&outcome, LatencyKind::Service).max_ns.unwrap() < 2_100_000);
    assert!(latency(&outcome, LatencyKind::Response).max_ns.unwrap() >= 19_999_000);
}

#[test]
fn frames_too_small_for_a_stamp_are_counted_by_what_was_sent() {
    let mut network = play(1_000, 500, 16, Link { lost: 100, ..Link::PERFECT });
    let outcome = finish(&mut network, 1_000);
    let flow = &outcome.flows[0];
    let (sent, received) = (flow.sent.as_ref().unwrap(), flow.received.as_ref().unwrap());
    assert_eq!((sent.frames, sent.stamped, received.stamped), (500, 0, 0));
    assert!(received.frames < 500);
    assert_eq!(flow.lost, Some(500 - received.frames));
}

#[test]
fn a_frame_that_cannot_be_played_is_refused_and_the_others_are_played() {
    let mut network = play(1_000, 10, 64, Link::PERFECT);
    let mut engine =
        Engine::timed(World::pipeline(2, 0, 0, 0, Limits::default()).setups.remove(0), Speed::REAL, Nanos(9));
    let whole = frame(0, 64);
    let bad = [
        (7, &whole[..], 80),
        (0, &whole[..5], 80),
        (0, &whole[..], 79),
        (0, &whole[..], 5_000),
        (0, &[0xff; 20], 20),
    ];
    for (flow, bytes, length) in bad {
        let frame = TimedFrame { at: Nanos(1), flow, class: None, bytes, length };
        assert!(matches!(engine.feed_frame(&frame), Err(Fault::Frame { .. })), "{flow} {length}");
    }
    let cut = TimedFrame { at: Nanos(1), flow: 0, class: None, bytes: &whole[..20], length: 80 };
    engine.feed_frame(&cut).unwrap();
    assert!(!finish(&mut network, 1_000).partial);
}
