//! Everything that is counted and timed on one host, frame by frame.

use traces::id::{NicId, QueuePairId};
use traces::origin::Class;
use traces::unit::Nanos;

use super::recorder::Recorder;
use super::sequence::{Seen, SequenceWindow};
use super::series::Series;
use crate::outcome::{
    ClassCounts, HostOutcome, LatencyKind, LatencySamples, NicOutcome, ReceivedFlow, SamplesError, SentFlow,
};
use crate::stamp::Stamp;

/// The counts of one host. NICs and flows are named by their place in what [`Meter::new`] was given.
#[derive(Debug)]
pub struct Meter {
    nics: Vec<NicOutcome>,
    series: Vec<Series>,
    flows: Vec<Flow>,
    /// By the class's number; 0 for what has none.
    classes: Vec<ClassCounts>,
    latency: Vec<[Option<Box<Recorder>>; KINDS.len()]>,
    late_after: Option<Nanos>,
}

/// What is sent by a queue pair of this host, and what is sent to it.
#[derive(Debug)]
struct Flow {
    nic: usize,
    sent: SentFlow,
    received: ReceivedFlow,
    window: SequenceWindow,
}

/// The sizes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The whole frame, without FCS, preamble and gap.
    pub frame: u64,
    /// Its payload.
    pub payload: u64,
}

/// A data frame that leaves.
#[derive(Clone, Copy, Debug)]
pub struct Departed {
    /// The queue pair that sends it.
    pub flow: usize,
    /// Its class.
    pub class: Option<Class>,
    /// Its sizes.
    pub sizes: Sizes,
    /// When it should have left.
    pub intended: Nanos,
    /// Whether it carries a stamp.
    pub stamped: bool,
    /// Whether it had been sent before.
    pub again: bool,
}

/// A data frame that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// The queue pair of this host that it is for.
    pub flow: usize,
    /// Its sizes.
    pub sizes: Sizes,
    /// Its stamp.
    pub stamp: Option<Stamp>,
    /// Its class, if it is known without a stamp.
    pub class: Option<Class>,
    /// What it brings.
    pub novelty: Novelty,
}

/// What a frame brings to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Novelty {
    /// What was expected next.
    Accepted,
    /// Nothing that can be used.
    Discarded,
    /// It is not decided by order but by its stamp: timed replay.
    ByStamp,
}

impl Meter {
    /// Counts for these NICs, and for flows given as their NIC's place, the queue pair here and its peer.
    #[must_use]
    pub fn new(
        start: Nanos,
        bin: Nanos,
        nics: &[NicId],
        flows: &[(usize, QueuePairId, QueuePairId)],
    ) -> Self {
        Self {
            nics: nics.iter().map(|&nic| NicOutcome::new(nic)).collect(),
            series: nics.iter().map(|_| Series::new(start, bin)).collect(),
            flows: flows
                .iter()
                .map(|&(nic, here, peer)| Flow {
                    nic,
                    sent: SentFlow::new(here),
                    received: ReceivedFlow::new(peer),
                    window: SequenceWindow::new(),
                })
                .collect(),
            classes: (0..CLASSES).map(|number| ClassCounts::new(Class::from_number(number))).collect(),
            latency: (0..CLASSES).map(|_| [const { None }; KINDS.len()]).collect(),
            late_after: None,
        }
    }

    /// Counts frames as late that leave more than `after` behind their intended time.
    pub fn count_late(&mut self, after: Nanos) {
        self.late_after = Some(after);
    }

    /// The number that the next stamp of a flow takes.
    #[must_use]
    pub fn next_sequence(&self, flow: usize) -> u64 {
        self.flows[flow].sent.stamped
    }

    /// A data frame leaves.
    pub fn departed(&mut self, now: Nanos, frame: &Departed) {
        let Departed { flow, class, sizes, intended, stamped, again } = *frame;
        self.leaves(now, flow, sizes);
        let late = self.late_after.is_some_and(|after| now.0 > intended.0.saturating_add(after.0));
        let flow = &mut self.flows[flow];
        self.nics[flow.nic].late += u64::from(late);
        let sent = &mut flow.sent;
        sent.frames += 1;
        sent.payload_bytes += sizes.payload;
        sent.stamped += u64::from(stamped);
        sent.retransmitted += u64::from(again);
        sent.first_intended_ns.get_or_insert(intended.0);
        sent.first_sent_ns.get_or_insert(now.0);
        sent.last_sent_ns = Some(now.0);
        let counts = &mut self.classes[number(class)];
        counts.frames_sent += 1;
        counts.payload_bytes_sent += sizes.payload;
        counts.stamped_sent += u64::from(stamped);
        touch(counts, now);
        self.record(LatencyKind::Lateness, class, intended, now);
    }

    /// A frame without data leaves.
    pub fn answered(&mut self, now: Nanos, flow: usize, frame: u64, negative: bool) {
        self.leaves(now, flow, Sizes { frame, payload: 0 });
        let received = &mut self.flows[flow].received;
        *if negative { &mut received.naks } else { &mut received.acknowledgements } += 1;
    }

    /// A frame that carries no data leaves: an answer, negative or not, or one that is none.
    pub fn controlled(&mut self, now: Nanos, flow: usize, frame: u64, answer: Option<bool>) {
        match answer {
            Some(negative) => self.answered(now, flow, frame, negative),
            None => self.leaves(now, flow, Sizes { frame, payload: 0 }),
        }
    }

    /// A frame of the run arrives.
    pub fn arrives(&mut self, now: Nanos, flow: usize, sizes: Sizes, marked: bool) {
        let flow = &mut self.flows[flow];
        flow.received.frame_bytes += sizes.frame;
        flow.received.congestion_marks += u64::from(marked);
        let nic = &mut self.nics[flow.nic];
        nic.frames_received += 1;
        nic.frame_bytes_received += sizes.frame;
        nic.payload_bytes_received += sizes.payload;
        nic.congestion_marks += u64::from(marked);
        nic.first_received_ns.get_or_insert(now.0);
        nic.last_received_ns = Some(now.0);
        let bin = self.series[flow.nic].at(now);
        bin.frames_received += 1;
        bin.frame_bytes_received += sizes.frame;
        bin.payload_bytes_received += sizes.payload;
    }

    /// A data frame that [`Self::arrives`] has counted is judged; says whether it brings anything new.
    pub fn arrived(&mut self, now: Nanos, frame: &Arrived) -> bool {
        let Arrived { flow, sizes, stamp, class, novelty } = *frame;
        let Flow { nic, received, window, .. } = &mut self.flows[flow];
        received.frames += 1;
        received.payload_bytes += sizes.payload;
        received.first_ns.get_or_insert(now.0);
        let counts = &mut self.classes[number(stamp.map_or(class, |stamp| stamp.class))];
        counts.frames_received += 1;
        counts.payload_bytes_received += sizes.payload;
        touch(counts, now);
        let mut new = novelty != Novelty::Discarded;
        let mut first_sight = false;
        if let Some(stamp) = stamp {
            received.stamped += 1;
            let seen = window.note(stamp.sequence);
            received.sequence_end = window.end();
            match seen {
                Seen::Again => {
                    received.duplicated += 1;
                    counts.duplicated += 1;
                }
                Seen::Next | Seen::Behind(_) | Seen::Unknown(_) => {
                    first_sight = true;
                    received.distinct += 1;
                    counts.stamped_received += 1;
                }
            }
            if let Seen::Behind(behind) | Seen::Unknown(behind) = seen {
                received.reordered += 1;
                counts.reordered += 1;
                received.reorder_extent = received.reorder_extent.max(behind);
            }
            received.beyond_window += u64::from(matches!(seen, Seen::Unknown(_)));
            new &= novelty == Novelty::Accepted || first_sight;
        }
        if new {
            self.nics[*nic].goodput_bytes_received += sizes.payload;
            received.last_ns = Some(now.0);
        }
        if let Some(stamp) = stamp.filter(|_| first_sight) {
            if let Some(latency) = now.0.checked_sub(stamp.departure.0) {
                received.min_latency_ns = Some(received.min_latency_ns.unwrap_or(latency).min(latency));
                received.max_latency_ns = received.max_latency_ns.max(Some(latency));
            }
            self.record(LatencyKind::Service, stamp.class, stamp.departure, now);
        }
        if let Some(stamp) = stamp.filter(|_| new) {
            self.record(LatencyKind::Response, stamp.class, stamp.intended, now);
        }
        new
    }

    /// A message of this flow was sent and acknowledged, or in timed mode its last frame was sent.
    pub fn message_sent(&mut self, flow: usize, class: Option<Class>) {
        self.flows[flow].sent.messages += 1;
        self.classes[number(class)].messages_sent += 1;
    }

    /// The time that a message took from being ready to its acknowledgement.
    pub fn message_completed(&mut self, class: Class, ready: Nanos, now: Nanos) {
        self.record(LatencyKind::Completion, Some(class), ready, now);
    }

    /// A message to this flow's queue pair arrived whole.
    pub fn message_received(&mut self, flow: usize, class: Option<Class>) {
        self.flows[flow].received.messages += 1;
        self.classes[number(class)].messages_received += 1;
    }

    /// What the sender of a flow counts of its own.
    pub fn sender(&mut self, flow: usize) -> &mut SentFlow {
        &mut self.flows[flow].sent
    }

    /// The counts of a NIC.
    pub fn nic(&mut self, nic: usize) -> Option<&mut NicOutcome> {
        self.nics.get_mut(nic)
    }

    /// The counts of a flow's NIC.
    pub fn nic_of(&mut self, flow: usize) -> &mut NicOutcome {
        &mut self.nics[self.flows[flow].nic]
    }

    /// Writes all counts into an outcome.
    ///
    /// # Errors
    /// [`SamplesError`] if a histogram cannot be written.
    pub fn report(&self, outcome: &mut HostOutcome) -> Result<(), SamplesError> {
        outcome.nics = self.nics.clone();
        for (nic, series) in outcome.nics.iter_mut().zip(&self.series) {
            nic.intervals = series.intervals();
        }
        outcome.classes = self
            .classes
            .iter()
            .filter(|counts| **counts != ClassCounts::new(counts.class))
            .cloned()
            .collect();
        outcome.sent = self.flows.iter().map(|flow| flow.sent.clone()).collect();
        outcome.received = self.flows.iter().map(|flow| flow.received.clone()).collect();
        outcome.latency.clear();
        for (counts, recorders) in self.classes.iter().zip(&self.latency) {
            for (&kind, recorder) in KINDS.iter().zip(recorders) {
                let Some(recorder) = recorder else { continue };
                let samples = recorder.samples()?;
                outcome.latency.push(LatencySamples { kind, class: counts.class, samples });
            }
        }
        Ok(())
    }

    fn leaves(&mut self, now: Nanos, flow: usize, sizes: Sizes) {
        let flow = &mut self.flows[flow];
        flow.sent.frame_bytes += sizes.frame;
        let nic = &mut self.nics[flow.nic];
        nic.frames_sent += 1;
        nic.frame_bytes_sent += sizes.frame;
        nic.payload_bytes_sent += sizes.payload;
        nic.first_sent_ns.get_or_insert(now.0);
        nic.last_sent_ns = Some(now.0);
        let bin = self.series[flow.nic].at(now);
        bin.frames_sent += 1;
        bin.frame_bytes_sent += sizes.frame;
        bin.payload_bytes_sent += sizes.payload;
    }

    fn record(&mut self, kind: LatencyKind, class: Option<Class>, from: Nanos, to: Nanos) {
        let kind = match kind {
            LatencyKind::Response => 0,
            LatencyKind::Service => 1,
            LatencyKind::Lateness => 2,
            LatencyKind::Completion => 3,
        };
        self.latency[number(class)][kind].get_or_insert_with(Box::default).record(from, to);
    }
}

fn number(class: Option<Class>) -> usize {
    class.and_then(|class| usize::try_from(class.number()).ok()).unwrap_or(0)
}

fn touch(counts: &mut ClassCounts, now: Nanos) {
    counts.first_ns.get_or_insert(now.0);
    counts.last_ns = Some(now.0);
}

/// In the order of a class's recorders.
const KINDS: [LatencyKind; 4] =
    [LatencyKind::Response, LatencyKind::Service, LatencyKind::Lateness, LatencyKind::Completion];

/// Numbers of classes go from 1 to 22; 0 is for what has none.
const CLASSES: u32 = 23;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_its_counts() {
        for class in Class::ALL {
            assert!(class.number() > 0 && class.number() < CLASSES, "{class}");
        }
    }
}
