//! Collectives and training steps: times, bandwidths, and the timeline of one step.

use std::collections::BTreeMap;

use traces::id::Rank;
use traces::manifest::Manifest;
use traces::origin::Operation;
use traces::unit::{Bytes, Nanos};

use crate::outcome::{Collective, Mode, RankTime, RunOutcome};
use crate::report::Timeline;
use crate::report::bandwidth::{Factor, rate};
use crate::report::directory::Directory;
use crate::report::lanes::{Activity, Lanes};
use crate::report::summary::{CollectiveSummary, Reasons, StepSummary};

/// Each operation, in the order of their start.
pub(super) fn collectives(outcome: &RunOutcome, directory: &Directory<'_>) -> Vec<CollectiveSummary> {
    outcome.collectives.iter().map(|collective| summary(collective, directory)).collect()
}

fn summary(collective: &Collective, directory: &Directory<'_>) -> CollectiveSummary {
    let group = directory.group(collective.group);
    let reported = u64::try_from(collective.ranks.len()).unwrap_or(u64::MAX);
    // A send has two members, whichever group's ranks they are.
    let ranks = match (collective.operation, group) {
        (Operation::SendReceive, _) => 2,
        (_, Some(group)) => u64::try_from(group.ranks.len()).unwrap_or(u64::MAX),
        (_, None) => reported,
    };
    let factor = Factor::of(collective.operation, ranks);
    let mut reason = Reasons::new();
    let whole = reported == ranks;
    let span = |ready: fn(&RankTime) -> u64, complete: fn(&RankTime) -> u64| {
        let end = collective.ranks.iter().map(complete).max()?;
        end.checked_sub(start(collective, ready)?)
    };
    let time = span(|rank| rank.ready_ns, |rank| rank.complete_ns).filter(|_| whole);
    let planned = span(|rank| rank.planned_ready_ns, |rank| rank.planned_complete_ns).filter(|_| whole);
    let algorithm = time.and_then(|time| rate(Bytes(collective.payload_bytes), Nanos(time)));
    let why = match (whole, time) {
        (false, _) => format!("{reported} of {ranks} members completed it"),
        (true, Some(0)) => "it took no time that the clock can tell".to_owned(),
        (true, _) => "its members' times contradict each other".to_owned(),
    };
    for (key, absent) in [
        ("time_ns", time.is_none()),
        ("planned_ns", planned.is_none()),
        ("algbw_bps", algorithm.is_none()),
        ("busbw_bps", algorithm.is_none()),
    ] {
        if absent {
            reason.insert(key.to_owned(), why.clone());
        }
    }
    CollectiveSummary {
        step: collective.step,
        class: collective.class,
        operation: collective.operation,
        group: collective.group.0,
        group_name: group.map_or_else(String::new, |group| group.name.clone()),
        instance: collective.instance,
        ranks,
        payload_bytes: collective.payload_bytes,
        time_ns: time,
        planned_ns: planned,
        algbw_bps: algorithm,
        busbw_bps: algorithm.map(|algorithm| factor.bus(algorithm)),
        factor: factor.formula.to_owned(),
        reason,
    }
}

/// When the last member that gives data was ready.
///
/// In a send and a broadcast one member gives data, and the others are ready when theirs arrives: the first counts.
fn start(collective: &Collective, ready: fn(&RankTime) -> u64) -> Option<u64> {
    let ready = collective.ranks.iter().map(ready);
    match collective.operation {
        Operation::SendReceive | Operation::Broadcast => ready.min(),
        _ => ready.max(),
    }
}

/// Each step of the trace.
pub(super) fn steps(outcome: &RunOutcome, trace: &Manifest) -> Vec<StepSummary> {
    let ranks: usize = trace.hosts.iter().map(|host| host.ranks.len()).sum();
    let mut ends: BTreeMap<u32, (u64, usize)> = BTreeMap::new();
    for end in &outcome.steps {
        let entry = ends.entry(end.step).or_default();
        *entry = (entry.0.max(end.end_ns), entry.1 + 1);
    }
    let end = |step: u32| match ends.get(&step) {
        Some((end, ended)) if *ended == ranks => Ok(*end),
        _ if matches!(outcome.mode, Mode::Timed { .. }) => Err(TIMED.to_owned()),
        ended => Err(format!("{} of {ranks} ranks ended step {step}", ended.map_or(0, |(_, ended)| *ended))),
    };
    let mut planned_before = 0;
    (0..trace.steps)
        .zip(&trace.step_ends_ns)
        .map(|(step, planned_end)| {
            let planned_ns =
                planned_end - std::mem::replace(&mut planned_before, *planned_end).min(*planned_end);
            let before = step.checked_sub(1).map_or(Ok(outcome.start_ns), end);
            let time = before.and_then(|before| Ok(end(step)?.saturating_sub(before)));
            let mut reason = Reasons::new();
            if let Err(why) = &time {
                for key in ["time_ns", "ratio_to_planned", "ratio_to_ideal"] {
                    reason.insert(key.to_owned(), why.clone());
                }
            }
            let time_ns = time.ok();
            let mut ratio = |key: &str, to: u64| {
                if to == 0 {
                    reason.insert(key.to_owned(), "the plan's time is zero".to_owned());
                }
                time_ns.filter(|_| to > 0).map(|time| rounded(time as f64 / to as f64))
            };
            let ratio_to_planned = ratio("ratio_to_planned", planned_ns);
            let ratio_to_ideal = ratio("ratio_to_ideal", trace.ideal_step_ns);
            StepSummary {
                step,
                time_ns,
                planned_ns,
                ideal_ns: trace.ideal_step_ns,
                ratio_to_planned,
                ratio_to_ideal,
                reason,
            }
        })
        .collect()
}

/// The slowest step that ended, by rank; the first one with anything to show if none ended.
pub(super) fn timeline(outcome: &RunOutcome, steps: &[StepSummary]) -> Option<Timeline> {
    let slowest = steps.iter().filter(|step| step.time_ns.is_some()).max_by_key(|step| step.time_ns);
    let step =
        slowest.map(|step| step.step).or_else(|| outcome.computes.iter().map(|span| span.step).min())?;
    let (mut planned, mut measured) = (Vec::new(), Vec::new());
    for span in outcome.computes.iter().filter(|span| span.step == step) {
        measured.push((span.rank, Activity::Compute, span.start_ns, span.end_ns));
        planned.push((span.rank, Activity::Compute, span.planned_start_ns, span.planned_end_ns));
    }
    for collective in outcome.collectives.iter().filter(|collective| collective.step == step) {
        let activity = Activity::Class(collective.class);
        for rank in &collective.ranks {
            measured.push((rank.rank, activity, rank.ready_ns, rank.complete_ns));
            planned.push((rank.rank, activity, rank.planned_ready_ns, rank.planned_complete_ns));
        }
    }
    Some(Timeline { step, planned: lanes(&planned)?, measured: lanes(&measured)? })
}

/// The lanes of spans from the first start to the last end.
fn lanes(spans: &[(Rank, Activity, u64, u64)]) -> Option<Lanes> {
    let start = spans.iter().map(|(_, _, start, _)| *start).min()?;
    let end = spans.iter().map(|(_, _, _, end)| *end).max()?;
    let mut lanes = Lanes::new(Nanos(start), Nanos(end));
    for (rank, activity, start, end) in spans {
        lanes.add(*rank, *activity, Nanos(*start), Nanos(*end));
    }
    Some(lanes)
}

/// Four digits after the point, so that documents stay readable.
fn rounded(ratio: f64) -> f64 {
    (ratio * 10_000.0).round() / 10_000.0
}

const TIMED: &str = "timed mode replays frames at their times; steps have no end of their own";
