//! The check of what only a graph knows: no message leaves before what it waits for is complete.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::check::Tally;
use super::flow::{Part, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::unit::Nanos;
use crate::wire::{Psn, Qpn};

family! {
    "graph":
    Dependency,
}

/// A queue pair, by its address and number.
pub type Receiver = (IpAddr, Qpn);

/// When the messages to a queue pair may leave, by the numbers of their first frames, in their order.
pub type Departures = Vec<(Psn, Nanos)>;

/// The first frame of a message leaves when all that it waits for has arrived and is computed.
#[derive(Default)]
pub(super) struct Dependency {
    planned: BTreeMap<Receiver, Departures>,
    /// For each flow, what is planned, and how much of it was seen.
    flows: Vec<Option<(Departures, usize)>>,
}

impl Dependency {
    fn expect(&mut self, to: Receiver, departures: Departures) {
        self.planned.insert(to, departures);
    }
}

impl Rules {
    /// Tells the check what a graph says of the messages to a queue pair.
    pub(super) fn expect(&mut self, to: Receiver, departures: Departures) {
        self.Dependency.0.expect(to, departures);
    }
}

impl Rule for Dependency {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "data_dependency"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let Part::Request(opcode, _) = placed.part else { return };
        if sight.sent != Some(true)
            || !opcode.shape().place.starts()
            || (self.planned.is_empty() && self.flows.is_empty())
        {
            return;
        }
        let state = state_of(&mut self.flows, placed.flow);
        let (planned, seen) = state.get_or_insert_with(|| {
            let to = (frame.network.ip.destination(), frame.bth.destination);
            (self.planned.remove(&to).unwrap_or_default(), 0)
        });
        // What is sent again was judged when it was sent first.
        let Some(&(psn, earliest)) = planned.get(*seen).filter(|(psn, _)| *psn == frame.bth.psn) else {
            return;
        };
        *seen += 1;
        sight.expect(tally, sight.time >= earliest, || {
            let early = earliest.0.saturating_sub(sight.time.0);
            format!("the message of PSN {psn} leaves {early} ns before what it waits for is complete")
        });
    }
}
