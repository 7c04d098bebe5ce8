//! When ranks took part in operations, computed, and ended steps.

use traces::graph::{Purpose, Task};
use traces::id::{GroupId, Rank};
use traces::origin::{Class, Origin};
use traces::unit::{Bytes, Nanos};

use super::graph::Slot;
use crate::outcome::host::MOST_ENTRIES;
use crate::outcome::{HostOutcome, OperationTime, Span, StepEnd};

/// What is noted of a host's operations.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// Begun and not ended, by key.
    open: Vec<(Key, Begun)>,
    times: Vec<OperationTime>,
    steps: Vec<StepEnd>,
    computes: Vec<Span>,
    /// The last span of each rank.
    latest: Vec<(Rank, usize)>,
    left_off: u64,
}

type Key = (Rank, u32, GroupId, u32, Class);

#[derive(Clone, Copy, Debug)]
struct Begun {
    /// The first data to send or to copy.
    own: Option<Nanos>,
    /// The first arrival.
    arrived: Option<Nanos>,
    planned: Nanos,
}

impl Operations {
    /// A rank can send or copy the first data of an operation, as far as this node tells.
    pub(super) fn begins(&mut self, slot: &Slot, origin: &Origin) {
        let begun = self.open(slot, origin);
        begun.own = Some(begun.own.map_or(slot.ready, |own| own.min(slot.ready)));
    }

    /// A message of an operation has arrived.
    pub(super) fn arrives(&mut self, slot: &Slot, origin: &Origin, at: Nanos) {
        self.open(slot, origin).arrived.get_or_insert(at);
    }

    /// A rank's part in an operation is over.
    pub(super) fn ends(&mut self, slot: &Slot, origin: &Origin, payload: Bytes) {
        let begun = match self.open.binary_search_by_key(&key(slot, origin), |(key, _)| *key) {
            Ok(index) => self.open.remove(index).1,
            Err(_) => Begun { own: None, arrived: None, planned: slot.planned_start },
        };
        if self.times.len() >= MOST_ENTRIES {
            self.left_off += 1;
            return;
        }
        self.times.push(OperationTime {
            rank: slot.rank,
            step: origin.step,
            class: origin.class,
            operation: origin.operation,
            group: origin.group,
            instance: origin.instance,
            payload_bytes: payload.0,
            ready_ns: begun.own.or(begun.arrived).unwrap_or(slot.ready).0,
            complete_ns: slot.ready.0,
            planned_ready_ns: begun.planned.0,
            planned_complete_ns: slot.planned_end.0,
        });
    }

    /// A compute is over.
    pub(super) fn computed(&mut self, slot: &Slot, purpose: &Purpose, end: Nanos) {
        if purpose.task == Task::StepEnd {
            let step = StepEnd {
                rank: slot.rank,
                step: purpose.step,
                end_ns: end.0,
                planned_end_ns: slot.planned_end.0,
            };
            self.steps.push(step);
            return;
        }
        let latest = self.latest.iter().position(|(rank, _)| *rank == slot.rank);
        let span = latest.and_then(|index| self.computes.get_mut(self.latest[index].1));
        if let Some(span) = span.filter(|span| span.step == purpose.step && span.end_ns == slot.ready.0) {
            span.end_ns = end.0;
            span.planned_end_ns = slot.planned_end.0;
            return;
        }
        if self.computes.len() >= MOST_ENTRIES {
            self.left_off += 1;
            return;
        }
        match latest {
            Some(index) => self.latest[index].1 = self.computes.len(),
            None => self.latest.push((slot.rank, self.computes.len())),
        }
        self.computes.push(Span {
            rank: slot.rank,
            step: purpose.step,
            start_ns: slot.ready.0,
            end_ns: end.0,
            planned_start_ns: slot.planned_start.0,
            planned_end_ns: slot.planned_end.0,
        });
    }

    /// Writes all into an outcome.
    pub(super) fn report(&self, outcome: &mut HostOutcome) {
        outcome.operations = self.times.clone();
        outcome.steps = self.steps.clone();
        outcome.computes = self.computes.clone();
        outcome.left_off = self.left_off;
    }

    fn open(&mut self, slot: &Slot, origin: &Origin) -> &mut Begun {
        let key = key(slot, origin);
        let index = match self.open.binary_search_by_key(&key, |(key, _)| *key) {
            Ok(index) => index,
            Err(index) => {
                let begun = Begun { own: None, arrived: None, planned: slot.planned_start };
                self.open.insert(index, (key, begun));
                index
            }
        };
        let begun = &mut self.open[index].1;
        begun.planned = begun.planned.min(slot.planned_start);
        begun
    }
}

fn key(slot: &Slot, origin: &Origin) -> Key {
    (slot.rank, origin.step, origin.group, origin.instance, origin.class)
}
