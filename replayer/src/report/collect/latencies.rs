//! Latencies: percentiles of each histogram, and the histograms for the interval log.

use crate::outcome::{Clock, LatencyKind, RunOutcome, Samples, SamplesError};
use crate::report::Tagged;
use crate::report::directory::Directory;
use crate::report::latency::{PERCENTILES, kind_name};
use crate::report::summary::{LatencySummary, Reasons};

/// Over everything and by class, as the outcome has them.
pub(super) fn latencies(
    outcome: &RunOutcome,
    directory: &Directory<'_>,
) -> Result<(Vec<LatencySummary>, Vec<Tagged>), SamplesError> {
    let (mut summaries, mut histograms) = (Vec::new(), Vec::new());
    let whole = outcome.latency.iter().map(|part| (part.kind, part.class, None, &part.samples));
    let by_host = outcome
        .host_latency
        .iter()
        .map(|part| (part.kind, None, Some(directory.host_name(part.host)), &part.samples));
    for (kind, class, host, samples) in whole.chain(by_host) {
        let histogram = samples.histogram()?;
        let mut tag = kind_name(kind).to_owned();
        if let Some(class) = class {
            tag.push_str(&format!("/{class}"));
        }
        if let Some(host) = &host {
            tag.push_str(&format!("@{}", host.replace([',', ' ', '\r', '\n'], "_")));
        }
        let mut summary = summary(kind, samples, &outcome.clock);
        for percentile in PERCENTILES {
            let extremes = samples.min_ns.zip(samples.max_ns);
            let value = extremes.and_then(|(min, max)| percentile.of(&histogram, min, max));
            let key = format!("{}_ns", percentile.key);
            if value.is_none() {
                summary.reason.insert(key, percentile.reason(samples.count));
            }
            match percentile.key {
                "p50" => summary.p50_ns = value,
                "p99" => summary.p99_ns = value,
                _ => summary.p999_ns = value,
            }
        }
        summaries.push(LatencySummary { class, host, ..summary });
        histograms.push(Tagged { tag, histogram });
    }
    Ok((summaries, histograms))
}

fn summary(kind: LatencyKind, samples: &Samples, clock: &Clock) -> LatencySummary {
    let mut reason = Reasons::new();
    if samples.count == 0 {
        for key in ["min_ns", "max_ns"] {
            reason.insert(key.to_owned(), "there are no samples".to_owned());
        }
    }
    // A sender reads one clock for both ends of these two.
    let own_clock = matches!(kind, LatencyKind::Lateness | LatencyKind::Completion);
    LatencySummary {
        kind,
        class: None,
        host: None,
        tier: clock.tier.clone(),
        uncertainty_ns: if own_clock { 0 } else { clock.uncertainty_ns },
        count: samples.count,
        min_ns: samples.min_ns,
        p50_ns: None,
        p99_ns: None,
        p999_ns: None,
        max_ns: samples.max_ns,
        saturated: samples.saturated,
        negative: samples.negative,
        reason,
    }
}
