//! Dependency replay comes to its end whatever the network does, and counts exactly what it did.

use proptest::prelude::*;
use traces::id::QueuePairId;
use traces::wire::psn::Psn;

use super::*;
use crate::outcome::{ClassOutcome, End};

/// Everything was sent and received once, as messages go, and the counts are those of the network.
fn check(network: &Network, outcome: &RunOutcome, messages: u64, bytes: u64) {
    assert!(!outcome.partial, "{:?}", outcome.reasons);
    assert_eq!(outcome.nodes_complete, outcome.nodes_read);
    let classes = |count: fn(&ClassOutcome) -> u64| outcome.classes.iter().map(count).sum::<u64>();
    assert_eq!(classes(|class| class.counts.messages_sent), messages);
    assert_eq!(classes(|class| class.counts.messages_received), messages);
    let goodput: u64 = outcome.nics.iter().map(|nic| nic.goodput_bytes_received).sum();
    assert_eq!(goodput, messages * bytes);
    let sum = |count: fn(&crate::outcome::ReceivedFlow) -> u64| -> u64 {
        outcome.flows.iter().filter_map(|flow| flow.received.as_ref()).map(count).sum()
    };
    assert_eq!(sum(|flow| flow.messages), messages);
    assert_eq!(sum(|flow| flow.duplicated), network.counts.stamped_doubled);
    assert_eq!(classes(|class| class.lost), network.counts.stamped_lost);
    assert_eq!(outcome.nics.iter().map(|nic| nic.frames_sent).sum::<u64>(), network.counts.frames);
    assert_eq!(outcome.nics.iter().map(|nic| nic.unmatched + nic.malformed).sum::<u64>(), 0);
}

#[test]
fn a_ring_of_four_over_a_perfect_network_takes_the_time_of_its_links() {
    let world = World::all_reduce(4, 10_000, Psn::ZERO, Limits::default());
    let mut network = network(world, Link::PERFECT, 1);
    network.run(10 * SECOND);
    let outcome = outcome(&network, Mode::Dependency);
    check(&network, &outcome, 4 * 6, 10_000);
    let sent = |pick: fn(&crate::outcome::SentFlow) -> u64| -> u64 {
        outcome.flows.iter().filter_map(|flow| flow.sent.as_ref()).map(pick).sum()
    };
    assert_eq!(
        (sent(|flow| flow.retransmitted), sent(|flow| flow.naks), sent(|flow| flow.timeouts)),
        (0, 0, 0)
    );
    assert_eq!(sent(|flow| flow.frames), 4 * 6 * 10);
    // One step: ten frames of 12 + 4 bytes around the payload, RETH with the first and an immediate with every other
    // last one, at a nanosecond a byte; then 2 us of delay. Its acknowledgement of 20 bytes comes back before the next
    // step can begin, and waits behind the frame that the line is busy with.
    let [collective] = outcome.collectives.as_slice() else { panic!("one collective") };
    assert_eq!((collective.ranks.len(), collective.payload_bytes), (4, 40_000));
    let time = collective.complete_ns() - collective.ready_ns();
    let step = 10_000 + 10 * 16 + 16 + 2_000;
    let answer = 20 + 2_000;
    assert!((6 * step..6 * (step + answer + 24)).contains(&time), "{time}");
    assert_eq!(outcome.steps.len(), 4);
    assert_eq!(outcome.classes.len(), 1);
}

#[test]
fn compute_takes_its_time_and_a_pipeline_fills() {
    let world = World::pipeline(3, 100, 50_000, 4, Limits::default());
    let mut network = network(world, Link::PERFECT, 1);
    network.run(10 * SECOND);
    let outcome = outcome(&network, Mode::Dependency);
    check(&network, &outcome, 2 * 4, 100);
    // Three stages and four microbatches: six slots of compute and, for the first microbatch, two hops of 12 + 16 + 4 +
    // 100 + 4 bytes and the delay. The second hop waits 16 ns behind the acknowledgement of the second microbatch, which
    // has no immediate and so came 4 ns before the compute ended.
    let end = outcome.steps.iter().map(|step| step.end_ns).max().unwrap();
    assert_eq!(end, 1_000 + 6 * 50_000 + 2 * (2_000 + 136) + 16);
    let busy: Vec<_> = outcome.computes.iter().map(|span| span.end_ns - span.start_ns).collect();
    assert_eq!(busy.iter().sum::<u64>(), 3 * 4 * 50_000);
}

#[test]
fn sequence_numbers_wrap_within_a_message() {
    let first = Psn::wrapping(0x00ff_fff8);
    let link = Link { lost: 30, ..Link::PERFECT };
    let mut network = network(World::all_reduce(3, 20_000, first, Limits::default()), link, 5);
    network.run(100 * SECOND);
    check(&network, &outcome(&network, Mode::Dependency), 3 * 4, 20_000);
}

#[test]
fn a_window_of_one_frame_is_slow_and_comes_to_its_end() {
    let limits = Limits { window: 1, ..Limits::default() };
    let link = Link { lost: 50, ..Link::PERFECT };
    let mut network = network(World::all_reduce(3, 5_000, Psn::ZERO, limits), link, 9);
    network.run(100 * SECOND);
    check(&network, &outcome(&network, Mode::Dependency), 3 * 4, 5_000);
}

#[test]
fn messages_without_bytes_are_messages() {
    let mut network = network(World::all_reduce(5, 0, Psn::LAST, Limits::default()), Link::PERFECT, 1);
    network.run(10 * SECOND);
    let outcome = outcome(&network, Mode::Dependency);
    check(&network, &outcome, 5 * 8, 0);
    // Their class is known by the node that waits for them.
    assert_eq!(outcome.classes.len(), 1);
}

#[test]
fn a_dead_peer_is_named_within_the_bound() {
    let limits = Limits::default();
    let mut network = network(World::all_reduce(3, 1_000_000, Psn::ZERO, limits), Link::PERFECT, 1);
    network.dead = Some((1, 300_000));
    // Time-outs of 20, 40, 80, 160 and eight times 250 ms; then the others notice: host 2 waits for what never comes.
    network.run(limits.idle.0 + 10 * SECOND);
    let outcomes: Vec<_> =
        network.engines.iter().map(|engine| engine.outcome(Nanos(network.now)).unwrap()).collect();
    let End::Fault { what } = &outcomes[0].end else { panic!("{:?}", outcomes[0].end) };
    assert!(what.starts_with("qp0 has had no acknowledgement"), "{what}");
    assert!(outcomes[0].end_ns < 4 * SECOND, "{}", outcomes[0].end_ns);
    let run = RunOutcome::merge(3, Mode::Dependency, outcomes, &[]).unwrap();
    assert!(run.partial);
    assert!(run.flows.iter().any(|flow| flow.sender == QueuePairId(0)));
}

#[test]
fn a_run_that_is_stopped_says_what_it_has_measured() {
    let mut network =
        network(World::all_reduce(3, 1_000_000, Psn::ZERO, Limits::default()), Link::PERFECT, 1);
    let mut buffer = vec![0; 65_536];
    network.engines[0].poll(Nanos(7_000), &mut buffer);
    network.engines[0].stop(Nanos(8_000));
    assert_eq!(
        network.engines[0].poll(Nanos(8_000), &mut buffer),
        super::super::Next::Wait(Nanos(50_008_000))
    );
    assert_eq!(network.engines[0].poll(Nanos(50_008_000), &mut buffer), super::super::Next::Done);
    let outcome = network.engines[0].outcome(Nanos(50_008_000)).unwrap();
    assert_eq!((outcome.end, outcome.end_ns), (End::Stopped, 8_000));
    // The first frame of a message has a header more, so one more fits behind it as the shorter last.
    assert_eq!(outcome.nics[0].frames_sent, 2);
}

#[test]
fn a_stalled_sender_shows_in_response_and_not_in_service() {
    let world = World::pipeline(2, 100, 1_000_000, 40, Limits::default());
    let mut network = network(world, Link::PERFECT, 1);
    network.stall = Some((0, 10_500_000, 30_500_000));
    network.run(10 * SECOND);
    let outcome = outcome(&network, Mode::Dependency);
    check(&network, &outcome, 40, 100);
    let [response, service, lateness] = [LatencyKind::Response, LatencyKind::Service, LatencyKind::Lateness]
        .map(|kind| latency(&outcome, kind));
    assert_eq!((response.count, service.count, lateness.count), (40, 40, 40));
    // The message that was due 0.5 ms after the stall began left 19.499 ms late, at its end.
    assert_eq!(lateness.max_ns, Some(30_500_000 - 11_001_000));
    assert!(service.max_ns.unwrap() < 10_000, "{service:?}");
    assert!(response.max_ns.unwrap() >= lateness.max_ns.unwrap());
    assert!(response.histogram().unwrap().value_at_quantile(0.75) > 9_000_000);
    // The compute was not shifted: the sender's last one ended when it would have without the stall.
    let end = outcome.steps.iter().find(|step| step.rank.0 == 0).unwrap().end_ns;
    assert_eq!(end, 1_000 + 40 * 1_000_000);
}

#[test]
fn time_goes_on_beyond_32_bits_of_microseconds() {
    let long = 5_000_000_000_000_000;
    let world = World::pipeline(2, 4_000, long, 2, Limits { idle: Nanos(u64::MAX), ..Limits::default() });
    let mut network = network(world, Link::PERFECT, 1);
    network.run(u64::MAX);
    let outcome = outcome(&network, Mode::Dependency);
    check(&network, &outcome, 2, 4_000);
    assert!(outcome.end_ns > 3 * long);
    assert!(latency(&outcome, LatencyKind::Service).max_ns.unwrap() < 20_000);
}

#[test]
fn memory_is_bounded_by_nodes_under_way() {
    let limits = Limits { held: 16, ..Limits::default() };
    let world = World::pipeline(2, 100, 1_000, 500, limits);
    let graphs = world.graphs.clone();
    let engines = world.setups.into_iter().map(Engine::dependency).collect();
    let mut network = Network::new(engines, world.routes, Link::PERFECT, 1);
    let mut fed = [0; 2];
    while fed != [graphs[0].len(), graphs[1].len()] {
        for host in 0..2 {
            while network.engines[host].wants() && fed[host] < graphs[host].len() {
                network.engines[host].feed_node(Nanos(network.now), &graphs[host][fed[host]]).unwrap();
                fed[host] += 1;
            }
        }
        network.step(100);
    }
    network.engines.iter_mut().for_each(Engine::end_of_input);
    network.run(10 * SECOND);
    check(&network, &outcome(&network, Mode::Dependency), 500, 100);
    let all =
        Progress { done: 2 * 500 + 1, fed: 2 * 500 + 1, finished: true, ..network.engines[0].progress() };
    assert_eq!(network.engines[0].progress(), all);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn it_comes_to_its_end_whatever_is_lost_doubled_or_held_back(
        hosts in 2_u32..5,
        bytes in prop_oneof![Just(0), 32_u64..40, 200_u64..30_000],
        lost in 0_u64..200,
        doubled in 0_u64..200,
        held in 0_u64..200,
        window in prop_oneof![Just(1), Just(2), 3_u32..300],
        seed in any::<u64>(),
    ) {
        // A last frame without room for a stamp cannot be told from its repetition: sizes here leave room in all.
        let bytes = if bytes % 1_024 < 32 && bytes > 0 { bytes + 32 } else { bytes };
        let limits = Limits { window, tries: 100, ..Limits::default() };
        let link = Link { lost, doubled, held, hold: 50_000, ..Link::PERFECT };
        let world = World::all_reduce(hosts, bytes, Psn::wrapping(0x00ff_ff00), limits);
        let mut network = network(world, link, seed);
        network.run(1_000 * SECOND);
        let messages = u64::from(hosts) * u64::from(2 * (hosts - 1));
        check(&network, &outcome(&network, Mode::Dependency), messages, bytes);
    }
}
