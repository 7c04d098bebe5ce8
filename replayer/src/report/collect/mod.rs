//! A report from an outcome: what was counted gets its name, its rate and what it is compared with.

mod traffic;
mod latencies;
mod operations;
mod reconcile;

use std::collections::BTreeMap;

use traces::manifest::Manifest;

use super::Report;
use super::directory::Directory;
use super::environment::{Circumstances, RUN_MANIFEST_VERSION, RunManifest};
use super::planned::PlannedCurve;
use super::summary::{Reasons, SCHEMA_VERSION, Summary};
use crate::outcome::{Mode, RunOutcome, SamplesError};

impl Report {
    /// What `outcome`, a run of `trace`, measured. `planned` is the plan's own curve, from the trace's graphs.
    ///
    /// # Errors
    /// [`SamplesError`] if a histogram of the outcome can not be read.
    pub fn new(
        outcome: &RunOutcome,
        trace: &Manifest,
        planned: Option<PlannedCurve>,
        circumstances: &Circumstances,
    ) -> Result<Self, SamplesError> {
        let directory = Directory::new(trace);
        let (latency, histograms) = latencies::latencies(outcome, &directory)?;
        let flows = traffic::flows(outcome, &directory);
        let nics = traffic::nics(outcome, &directory, circumstances);
        let mode = match outcome.mode {
            Mode::Dependency => "dependency",
            Mode::Timed { .. } => "timed",
        };
        let sum = |figure: fn(&super::summary::NicSummary) -> u64| nics.iter().map(figure).sum::<u64>();
        let summary = Summary {
            schema_version: SCHEMA_VERSION,
            run: circumstances.run.clone(),
            program: circumstances.program.clone(),
            plan: trace.name.clone(),
            plan_digest: trace.plan_digest.clone(),
            mode: mode.to_owned(),
            speed: speed(outcome.mode),
            partial: outcome.partial,
            reason: reasons(outcome),
            started_unix_ns: circumstances.started_unix_ns,
            duration_ns: traffic::duration(outcome).0,
            planned_duration_ns: trace.duration_ns,
            frames_sent: sum(|nic| nic.frames_sent),
            frames_received: sum(|nic| nic.frames_received),
            payload_bytes_sent: sum(|nic| nic.payload_bytes_sent),
            payload_bytes_received: sum(|nic| nic.payload_bytes_received),
            goodput_bytes_received: sum(|nic| nic.goodput_bytes_received),
            lost: sum(|nic| nic.lost),
            duplicated: sum(|nic| nic.duplicated),
            reordered: sum(|nic| nic.reordered),
            late: sum(|nic| nic.late),
            retransmitted: sum(|nic| nic.retransmitted),
            classes: traffic::classes(outcome),
            collectives: operations::collectives(outcome, &directory),
            steps: operations::steps(outcome, trace),
            latency,
            reconciliation: reconcile::reconciliation(outcome, trace, &directory),
            nics,
        };
        let manifest = RunManifest {
            schema_version: RUN_MANIFEST_VERSION,
            run: circumstances.run.clone(),
            program: circumstances.program.clone(),
            command: circumstances.command.clone(),
            plan: trace.name.clone(),
            plan_digest: trace.plan_digest.clone(),
            seed: trace.seed,
            mode: mode.to_owned(),
            started_unix_ns: circumstances.started_unix_ns,
            partial: outcome.partial,
            clock_tier: outcome.clock.tier.clone(),
            clock_uncertainty_ns: outcome.clock.uncertainty_ns,
            hosts: circumstances.hosts.clone(),
        };
        Ok(Self {
            flows,
            intervals: traffic::intervals(outcome, &directory),
            histograms,
            throughput: traffic::curves(outcome, &directory),
            planned,
            timeline: operations::timeline(outcome, &summary.steps),
            summary,
            manifest,
        })
    }
}

fn speed(mode: Mode) -> Option<f64> {
    match mode {
        Mode::Dependency => None,
        Mode::Timed { speed } => Some(f64::from(u32::from(speed)) / 1_000.0),
    }
}

fn reasons(outcome: &RunOutcome) -> Reasons {
    let mut reasons = BTreeMap::new();
    if outcome.mode == Mode::Dependency {
        reasons.insert("speed".to_owned(), "dependency mode follows no schedule".to_owned());
    }
    if outcome.partial {
        reasons.insert("partial".to_owned(), outcome.reasons.join("; "));
    }
    if outcome.left_off > 0 {
        let text = format!("there was no room for {} operations or stretches of compute", outcome.left_off);
        reasons.insert("collectives".to_owned(), text);
    }
    reasons
}
