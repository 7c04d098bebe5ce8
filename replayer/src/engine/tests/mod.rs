//! Engines over a simulated network, under a virtual clock.

mod graphs;
mod network;
mod dependency;
mod timed;
mod input;

use traces::unit::Nanos;

use self::graphs::World;
use self::network::{Link, Network};
use super::{Engine, Limits, Progress};
use crate::outcome::{LatencyKind, Mode, RunOutcome, Samples};

/// Engines that have read their whole graphs.
fn network(world: World, link: Link, seed: u64) -> Network {
    let mut engines: Vec<_> = world.setups.into_iter().map(Engine::dependency).collect();
    for (engine, graph) in engines.iter_mut().zip(&world.graphs) {
        for node in graph {
            assert!(engine.wants());
            engine.feed_node(Nanos(0), node).unwrap();
        }
        engine.end_of_input();
    }
    Network::new(engines, world.routes, link, seed)
}

fn outcome(network: &Network, mode: Mode) -> RunOutcome {
    let hosts = network.engines.iter().map(|engine| engine.outcome(Nanos(network.now)).unwrap()).collect();
    RunOutcome::merge(3, mode, hosts, &[]).unwrap()
}

fn latency(outcome: &RunOutcome, kind: LatencyKind) -> Samples {
    let all = outcome.latency.iter().find(|latency| latency.kind == kind && latency.class.is_none());
    all.map(|latency| latency.samples.clone()).unwrap_or_default()
}

const SECOND: u64 = 1_000_000_000;
