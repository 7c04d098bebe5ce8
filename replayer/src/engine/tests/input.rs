//! Nothing that arrives or is fed makes an engine panic.

use proptest::prelude::*;
use traces::wire::psn::Psn;

use super::super::{Fault, Next};
use super::*;
use crate::outcome::End;

fn engine() -> Engine {
    let world = World::all_reduce(3, 5_000, Psn::ZERO, Limits::default());
    let mut engine = Engine::dependency(world.setups[0].clone());
    for node in &world.graphs[0] {
        engine.feed_node(Nanos(0), node).unwrap();
    }
    engine.end_of_input();
    engine
}

#[test]
fn frames_of_another_run_are_unmatched() {
    let mut other = engine();
    let mut buffer = vec![0; 65_536];
    let Next::Send(burst) = other.poll(Nanos(9_000), &mut buffer) else { panic!("a frame") };
    let setup = crate::engine::Setup {
        run: 4,
        ..World::all_reduce(3, 5_000, Psn::ZERO, Limits::default()).setups.remove(1)
    };
    let mut engine = Engine::dependency(setup);
    engine.on_arrival(Nanos(9_000), 0, &buffer[..burst.bytes], 0);
    engine.on_arrival(Nanos(9_000), 0, &buffer[..7], 0);
    engine.on_arrival(Nanos(9_000), 5, &buffer[..7], 0);
    engine.on_icrc(0, false);
    let outcome = engine.outcome(Nanos(9_001)).unwrap();
    let nic = &outcome.nics[0];
    assert_eq!((nic.unmatched, nic.malformed, nic.frames_received, nic.icrc_errors), (1, 1, 0, Some(1)));
}

#[test]
fn a_graph_of_another_host_is_refused() {
    let world = World::all_reduce(3, 5_000, Psn::ZERO, Limits::default());
    let mut engine = Engine::dependency(world.setups[1].clone());
    engine.feed_node(Nanos(0), &world.graphs[0][0]).unwrap();
    let error = engine.feed_node(Nanos(0), &world.graphs[0][1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "node 1 of the graph sends from a queue pair that the manifest does not give to this host"
    );
    assert_eq!(engine.poll(Nanos(5_000), &mut [0; 9_000]), Next::Done);
    assert!(matches!(engine.outcome(Nanos(5_000)).unwrap().end, End::Fault { .. }));
}

#[test]
fn a_buffer_without_room_for_a_frame_is_a_fault() {
    let mut engine = engine();
    assert_eq!(engine.poll(Nanos(9_000), &mut [0; 64]), Next::Done);
    assert_eq!(engine.fault(), Some(&Fault::Buffer { has: 64, needs: 12 + 16 + 1_024 + 4 }));
}

#[test]
fn a_message_that_nobody_sends_ends_the_run_by_name() {
    let mut engine = engine();
    let mut buffer = vec![0; 65_536];
    engine.poll(Nanos(1_000), &mut buffer);
    let mut now = 1_000;
    let next = loop {
        match engine.poll(Nanos(now), &mut buffer) {
            Next::Wait(until) => now = until.0,
            Next::Send(_) => {}
            Next::Done => break engine.fault().cloned(),
        }
    };
    assert!(matches!(next, Some(Fault::PeerSilent { .. })), "{next:?}");
}

proptest! {
    #[test]
    fn any_bytes_may_arrive(
        frames in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..120), any::<bool>(), 0_usize..2),
            0..40,
        ),
    ) {
        let mut engine = engine();
        let mut buffer = vec![0; 65_536];
        for (number, (mut bytes, aimed, nic)) in frames.into_iter().enumerate() {
            if aimed && bytes.len() > 12 {
                // A queue pair of this host, an opcode that is known, a number near the expected one.
                bytes[0] %= 0x13;
                bytes[5..8].copy_from_slice(&[0, 0, 16]);
                bytes[9..11].fill(0);
                bytes[11] %= 8;
            }
            let now = Nanos(2_000 + 1_000 * u64::try_from(number).unwrap());
            engine.on_arrival(now, nic, &bytes, bytes.first().copied().unwrap_or(0));
            while let Next::Send(burst) = engine.poll(now, &mut buffer) {
                prop_assert!(burst.frames > 0 && burst.bytes <= buffer.len());
            }
        }
        engine.outcome(Nanos(SECOND)).unwrap();
    }
}
