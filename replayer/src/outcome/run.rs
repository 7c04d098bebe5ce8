//! What a whole run measured: the hosts' outcomes merged, flows joined from both of their ends.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traces::id::{GroupId, HostId, QueuePairId, Rank};
use traces::origin::{Class, Operation};
use traces::unit::Nanos;

use super::counts::{ClassCounts, NicOutcome, ReceivedFlow, SentFlow};
use super::host::{HostOutcome, LatencyKind, LatencySamples, SCHEMA_VERSION, Span, StepEnd};
use super::mode::{Clock, End, Mode};
use super::samples::{Samples, SamplesError};

/// Everything that a run measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunOutcome {
    /// The version of this document.
    pub schema_version: u32,
    /// The run, as the stamps of its frames name it.
    pub run: u32,
    /// How the trace was played.
    pub mode: Mode,
    /// Whether something is missing: a host that did not report, or did not come to its end.
    pub partial: bool,
    /// What is missing and why; empty if nothing.
    pub reasons: Vec<String>,
    /// How instants of different hosts compare.
    pub clock: Clock,
    /// When the run started.
    pub start_ns: u64,
    /// When the last host was done, drains not counted.
    pub end_ns: u64,
    /// The hosts that reported.
    #[schemars(with = "Vec<u32>")]
    pub hosts: Vec<HostId>,
    /// Nodes complete, over all hosts.
    pub nodes_complete: u64,
    /// Nodes read, over all hosts.
    pub nodes_read: u64,
    /// All NICs of the hosts that reported, by number.
    pub nics: Vec<NicOutcome>,
    /// Traffic by class.
    pub classes: Vec<ClassOutcome>,
    /// Flows, by sender.
    pub flows: Vec<FlowOutcome>,
    /// Latencies by kind and class; those of all classes together have no class and stand first of their kind.
    pub latency: Vec<LatencySamples>,
    /// The same of each host, all classes together.
    #[serde(default)]
    pub host_latency: Vec<HostLatency>,
    /// Operations with all their ranks, in the order of their start.
    pub collectives: Vec<Collective>,
    /// When ranks ended each training step.
    pub steps: Vec<StepEnd>,
    /// When ranks computed.
    pub computes: Vec<Span>,
    /// Operations and spans for which hosts had no room.
    pub left_off: u64,
}

/// Latencies of one kind that one host took, over all classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostLatency {
    /// The host: the sender for lateness and completion, else the receiver.
    #[schemars(with = "u32")]
    pub host: HostId,
    /// Between what.
    pub kind: LatencyKind,
    /// The samples.
    pub samples: Samples,
}

/// A class of traffic over all hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassOutcome {
    /// Its counts, summed.
    #[serde(flatten)]
    pub counts: ClassCounts,
    /// Stamped frames sent that did not arrive until the drain's end.
    pub lost: u64,
}

/// A flow, seen from both ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowOutcome {
    /// The queue pair that sends.
    #[schemars(with = "u32")]
    pub sender: QueuePairId,
    /// What its sender knows; absent if that host did not report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<SentFlow>,
    /// What its receiver knows; absent if that host did not report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<ReceivedFlow>,
    /// Data frames that did not arrive until the drain's end; absent if an end is missing. Exact for frames with a
    /// stamp; of those without, sent less received, which duplicates can hide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// From the intended time of the first frame to the arrival of the last new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_ns: Option<u64>,
}

/// An operation of a group, with all of the ranks that reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Collective {
    /// The training step.
    pub step: u32,
    /// The class.
    pub class: Class,
    /// What it does.
    pub operation: Operation,
    /// Among whom.
    #[schemars(with = "u32")]
    pub group: GroupId,
    /// Which one of the group's.
    pub instance: u32,
    /// What it means in bytes: S.
    pub payload_bytes: u64,
    /// Its ranks.
    pub ranks: Vec<RankTime>,
}

/// A rank's part in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankTime {
    /// The rank.
    #[schemars(with = "u32")]
    pub rank: Rank,
    /// When it could begin.
    pub ready_ns: u64,
    /// When it was done.
    pub complete_ns: u64,
    /// When the trace had it begin, in trace time.
    pub planned_ready_ns: u64,
    /// When the trace had it done, in trace time.
    pub planned_complete_ns: u64,
}

impl RunOutcome {
    /// Merges what hosts measured. `missing` says of each host that did not report why.
    ///
    /// # Errors
    /// [`SamplesError`] if a host's histogram cannot be read.
    pub fn merge(
        run: u32,
        mode: Mode,
        mut hosts: Vec<HostOutcome>,
        missing: &[String],
    ) -> Result<Self, SamplesError> {
        hosts.sort_by_key(|host| host.host);
        let mut reasons = missing.to_vec();
        reasons.extend(hosts.iter().filter_map(|host| match &host.end {
            End::Complete => None,
            End::Stopped => Some(format!("{} was stopped before its end", host.host)),
            End::Fault { what } => Some(format!("{}: {what}", host.host)),
        }));
        let mut collectives: Vec<_> = collectives(&hosts).into_values().collect();
        collectives.sort_by_key(Collective::ready_ns);
        let mut nics: Vec<_> = hosts.iter().flat_map(|host| host.nics.iter().cloned()).collect();
        nics.sort_by_key(|nic| nic.nic);
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            run,
            mode,
            partial: !reasons.is_empty(),
            reasons,
            clock: clock(&hosts),
            start_ns: hosts.iter().map(|host| host.start_ns).min().unwrap_or(0),
            end_ns: hosts.iter().map(|host| host.end_ns).max().unwrap_or(0),
            hosts: hosts.iter().map(|host| host.host).collect(),
            nodes_complete: hosts.iter().map(|host| host.nodes_complete).sum(),
            nodes_read: hosts.iter().map(|host| host.nodes_read).sum(),
            nics,
            classes: classes(&hosts),
            flows: flows(&hosts),
            latency: latency(&hosts)?,
            host_latency: hosts
                .iter()
                .map(host_latency)
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .flatten()
                .collect(),
            collectives,
            steps: hosts.iter().flat_map(|host| host.steps.iter().cloned()).collect(),
            computes: hosts.iter().flat_map(|host| host.computes.iter().copied()).collect(),
            left_off: hosts.iter().map(|host| host.left_off).sum(),
        })
    }
}

impl RunOutcome {
    /// The widest interval of any NIC: the one in which all of them can be compared.
    #[must_use]
    pub fn widest_bin(&self) -> Nanos {
        Nanos(self.nics.iter().map(|nic| nic.intervals.bin_ns).max().unwrap_or(0).max(1))
    }
}

impl FlowOutcome {
    fn join(sender: QueuePairId, sent: Option<SentFlow>, received: Option<ReceivedFlow>) -> Self {
        let both = sent.as_ref().zip(received.as_ref());
        let lost = both.map(|(sent, received)| {
            let plain = (sent.frames - sent.stamped).saturating_sub(received.frames - received.stamped);
            sent.stamped.saturating_sub(received.distinct) + plain
        });
        let completion_ns =
            both.and_then(|(sent, received)| Some(received.last_ns?.saturating_sub(sent.first_intended_ns?)));
        Self { sender, sent, received, lost, completion_ns }
    }
}

impl Collective {
    /// When the first of its ranks could begin.
    #[must_use]
    pub fn ready_ns(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.ready_ns).min().unwrap_or(0)
    }

    /// When the last of its ranks was done.
    #[must_use]
    pub fn complete_ns(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.complete_ns).max().unwrap_or(0)
    }
}

fn clock(hosts: &[HostOutcome]) -> Clock {
    hosts
        .iter()
        .map(|host| &host.clock)
        .max_by(|a, b| (&a.tier, a.uncertainty_ns).cmp(&(&b.tier, b.uncertainty_ns)))
        .cloned()
        .unwrap_or_else(Clock::same)
}

fn classes(hosts: &[HostOutcome]) -> Vec<ClassOutcome> {
    let mut classes: BTreeMap<Option<Class>, ClassCounts> = BTreeMap::new();
    for counts in hosts.iter().flat_map(|host| &host.classes) {
        let sum = classes.entry(counts.class).or_insert_with(|| ClassCounts::new(counts.class));
        sum.messages_sent += counts.messages_sent;
        sum.messages_received += counts.messages_received;
        sum.frames_sent += counts.frames_sent;
        sum.frames_received += counts.frames_received;
        sum.payload_bytes_sent += counts.payload_bytes_sent;
        sum.payload_bytes_received += counts.payload_bytes_received;
        sum.stamped_sent += counts.stamped_sent;
        sum.stamped_received += counts.stamped_received;
        sum.duplicated += counts.duplicated;
        sum.reordered += counts.reordered;
        sum.first_ns = [sum.first_ns, counts.first_ns].into_iter().flatten().min();
        sum.last_ns = sum.last_ns.max(counts.last_ns);
    }
    let lost = |counts: &ClassCounts| counts.stamped_sent.saturating_sub(counts.stamped_received);
    classes.into_values().map(|counts| ClassOutcome { lost: lost(&counts), counts }).collect()
}

fn flows(hosts: &[HostOutcome]) -> Vec<FlowOutcome> {
    let mut flows: BTreeMap<QueuePairId, (Option<SentFlow>, Option<ReceivedFlow>)> = BTreeMap::new();
    for host in hosts {
        for sent in &host.sent {
            flows.entry(sent.sender).or_default().0 = Some(sent.clone());
        }
        for received in &host.received {
            flows.entry(received.sender).or_default().1 = Some(received.clone());
        }
    }
    flows.into_iter().map(|(sender, (sent, received))| FlowOutcome::join(sender, sent, received)).collect()
}

fn latency(hosts: &[HostOutcome]) -> Result<Vec<LatencySamples>, SamplesError> {
    let mut merged = BTreeMap::new();
    for part in hosts.iter().flat_map(|host| &host.latency) {
        // All classes together stand under `None`, and what has no class is among them.
        let keys = [None, part.class];
        let count = if part.class.is_some() { 2 } else { 1 };
        for class in keys.into_iter().take(count) {
            let key = (part.kind, class);
            let sum = match merged.get(&key) {
                Some(sum) => part.samples.merged(sum)?,
                None => part.samples.clone(),
            };
            merged.insert(key, sum);
        }
    }
    Ok(merged.into_iter().map(|((kind, class), samples)| LatencySamples { kind, class, samples }).collect())
}

fn host_latency(host: &HostOutcome) -> Result<Vec<HostLatency>, SamplesError> {
    let mut merged: BTreeMap<LatencyKind, Samples> = BTreeMap::new();
    for part in &host.latency {
        let sum = match merged.get(&part.kind) {
            Some(sum) => part.samples.merged(sum)?,
            None => part.samples.clone(),
        };
        merged.insert(part.kind, sum);
    }
    Ok(merged.into_iter().map(|(kind, samples)| HostLatency { host: host.host, kind, samples }).collect())
}

fn collectives(hosts: &[HostOutcome]) -> BTreeMap<(u32, Class, GroupId, u32), Collective> {
    let mut collectives = BTreeMap::new();
    for part in hosts.iter().flat_map(|host| &host.operations) {
        let collective = collectives
            .entry((part.step, part.class, part.group, part.instance))
            .or_insert_with(|| Collective {
                step: part.step,
                class: part.class,
                operation: part.operation,
                group: part.group,
                instance: part.instance,
                payload_bytes: part.payload_bytes,
                ranks: Vec::new(),
            });
        collective.payload_bytes = collective.payload_bytes.max(part.payload_bytes);
        collective.ranks.push(RankTime {
            rank: part.rank,
            ready_ns: part.ready_ns,
            complete_ns: part.complete_ns,
            planned_ready_ns: part.planned_ready_ns,
            planned_complete_ns: part.planned_complete_ns,
        });
    }
    collectives
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Intervals, OperationTime};

    fn host(number: u32) -> HostOutcome {
        HostOutcome {
            schema_version: SCHEMA_VERSION,
            run: 7,
            host: HostId(number),
            mode: Mode::Dependency,
            end: End::Complete,
            clock: Clock::same(),
            start_ns: 0,
            end_ns: 100 + u64::from(number),
            nodes_complete: 3,
            nodes_read: 3,
            nics: Vec::new(),
            classes: Vec::new(),
            sent: Vec::new(),
            received: Vec::new(),
            latency: Vec::new(),
            operations: vec![OperationTime {
                rank: Rank(number),
                step: 0,
                class: Class::DpGradients,
                operation: Operation::AllReduce,
                group: GroupId(0),
                instance: 0,
                payload_bytes: 64,
                ready_ns: 10 * u64::from(number),
                complete_ns: 90 + u64::from(number),
                planned_ready_ns: 0,
                planned_complete_ns: 50,
            }],
            steps: Vec::new(),
            computes: Vec::new(),
            left_off: 0,
        }
    }

    #[test]
    fn an_operation_spans_from_its_first_rank_to_its_last() {
        let outcome = RunOutcome::merge(7, Mode::Dependency, vec![host(2), host(1)], &[]).unwrap();
        assert!(!outcome.partial);
        let [collective] = outcome.collectives.as_slice() else { panic!("one collective") };
        assert_eq!((collective.ready_ns(), collective.complete_ns(), outcome.end_ns), (10, 92, 102));
        assert_eq!(outcome.hosts, [HostId(1), HostId(2)]);
    }

    #[test]
    fn a_host_that_stopped_or_is_silent_makes_the_run_partial() {
        let stopped = HostOutcome { end: End::Stopped, ..host(0) };
        let outcome =
            RunOutcome::merge(7, Mode::Dependency, vec![stopped], &["host1 died".to_owned()]).unwrap();
        assert!(outcome.partial);
        assert_eq!(outcome.reasons, ["host1 died", "host0 was stopped before its end"]);
    }

    #[test]
    fn outcomes_travel_as_json() {
        let json = serde_json::to_string(&host(1)).unwrap();
        assert_eq!(serde_json::from_str::<HostOutcome>(&json).unwrap(), host(1));
        assert_eq!(Intervals::default().bins.len(), 0);
    }
}
