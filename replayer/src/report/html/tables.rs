//! The tables of the page.

use std::collections::BTreeMap;

use maud::{Markup, html};
use traces::origin::{Class, Operation};
use traces::unit::{Bytes, Nanos};

use crate::report::lanes::Activity;
use crate::report::latency::kind_name;
use crate::report::summary::{CollectiveSummary, LatencySummary, Reasons, Summary};
use crate::report::text::{class_name, clocks, of_class, rate, time};

/// Each NIC.
pub(super) fn nics(summary: &Summary) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "NIC" } th { "address" } th.n { "line" } th.n { "sent" } th.n { "received" }
                th.n { "sending" } th.n { "receiving" } th.n { "busiest interval" } th.n { "frames sent" }
                th.n { "frames received" }
            } }
            tbody { @for nic in &summary.nics { tr {
                td { (nic.name) }
                td { (nic.address.as_deref().unwrap_or("-")) }
                td.n { (rate(Some(nic.link_bps))) }
                td.n title=(exact(nic.payload_bytes_sent)) { (Bytes(nic.payload_bytes_sent)) }
                td.n title=(exact(nic.payload_bytes_received)) { (Bytes(nic.payload_bytes_received)) }
                (or_reason(nic.throughput_sent_bps.map(|bps| rate(Some(bps))), "throughput_sent_bps", &nic.reason))
                (or_reason(nic.throughput_received_bps.map(|bps| rate(Some(bps))), "throughput_received_bps", &nic.reason))
                (or_reason(nic.peak_sent_bps.map(|bps| rate(Some(bps))), "peak_sent_bps", &nic.reason))
                td.n { (nic.frames_sent) }
                td.n { (nic.frames_received) }
            } } }
        } }
    }
}

/// Each class of traffic.
pub(super) fn classes(summary: &Summary) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "class" } th.n { "messages" } th.n { "payload" } th.n { "throughput" } th.n { "lost" }
                th.n { "duplicated" } th.n { "reordered" } th.n { "p50" } th.n { "p99" } th.n { "p99.9" } th.n { "max" }
            } }
            tbody { @for class in &summary.classes { tr {
                td { @if let Some(class) = class.class { (swatch(class)) } (class_name(class.class)) }
                td.n { (class.messages) }
                td.n title=(exact(class.payload_bytes_received)) { (Bytes(class.payload_bytes_received)) }
                (or_reason(class.throughput_bps.map(|bps| rate(Some(bps))), "throughput_bps", &class.reason))
                td.n { (class.lost) }
                td.n { (class.duplicated) }
                td.n { (class.reordered) }
                (percentiles(of_class(summary, class.class)))
            } } }
        } }
    }
}

/// Latency over everything, kind by kind.
pub(super) fn latency(summary: &Summary) -> Markup {
    let overall = summary.latency.iter().filter(|latency| latency.class.is_none() && latency.host.is_none());
    html! {
        div.scroll { table {
            thead { tr {
                th { "kind" } th.n { "samples" } th.n { "min" } th.n { "p50" } th.n { "p99" } th.n { "p99.9" }
                th.n { "max" } th { "clocks" } th.n { "beyond range" }
            } }
            tbody { @for latency in overall { tr {
                td { (kind_name(latency.kind)) }
                td.n { (latency.count) }
                (or_reason(latency.min_ns.map(|ns| time(Some(ns))), "min_ns", &latency.reason))
                (percentiles(Some(latency)))
                td { (clocks(latency)) }
                td.n { (latency.saturated) }
            } } }
        } }
    }
}

/// Each step.
pub(super) fn steps(summary: &Summary) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "step" } th.n { "measured" } th.n { "planned" } th.n { "compute alone" }
                th.n { "measured / planned" } th.n { "measured / compute alone" }
            } }
            tbody { @for step in &summary.steps { tr {
                td { (step.step) }
                (or_reason(step.time_ns.map(|ns| time(Some(ns))), "time_ns", &step.reason))
                td.n { (Nanos(step.planned_ns)) }
                td.n { (Nanos(step.ideal_ns)) }
                (or_reason(step.ratio_to_planned.map(ratio), "ratio_to_planned", &step.reason))
                (or_reason(step.ratio_to_ideal.map(ratio), "ratio_to_ideal", &step.reason))
            } } }
        } }
    }
}

/// Collectives one by one when they are few, by class, operation, group size and payload when they are many.
pub(super) fn collectives(summary: &Summary) -> Markup {
    let mut kinds: BTreeMap<(Class, Operation, u64, u64), Vec<&CollectiveSummary>> = BTreeMap::new();
    for collective in &summary.collectives {
        let kind = (collective.class, collective.operation, collective.ranks, collective.payload_bytes);
        kinds.entry(kind).or_default().push(collective);
    }
    let three = |mut values: Vec<u64>| {
        values.sort_unstable();
        let median = values.get(values.len() / 2).copied();
        (values.first().copied(), median, values.last().copied())
    };
    html! {
        div.scroll { table {
            thead { tr {
                th { "class" } th { "operation" } th.n { "n" } th.n { "S" } th.n { "count" } th.n { "time, min" }
                th.n { "median" } th.n { "max" } th.n { "algbw, median" } th.n { "factor" } th.n { "busbw, median" }
            } }
            tbody { @for ((class, operation, ranks, payload), all) in &kinds {
                @let (least, median, most) = three(all.iter().filter_map(|one| one.time_ns).collect());
                @let (_, algorithm, _) = three(all.iter().filter_map(|one| one.algbw_bps).collect());
                @let (_, bus, _) = three(all.iter().filter_map(|one| one.busbw_bps).collect());
                tr {
                    td { (swatch(*class)) (class.name()) }
                    td { (operation.name()) }
                    td.n { (ranks) }
                    td.n title=(exact(*payload)) { (Bytes(*payload)) }
                    td.n { (all.len()) }
                    td.n { (time(least)) }
                    td.n { (time(median)) }
                    td.n { (time(most)) }
                    td.n { (rate(algorithm)) }
                    td.n { (all[0].factor) }
                    td.n { (rate(bus)) }
                }
            } }
        } }
    }
}

/// What did not arrive as it was sent, on each NIC.
pub(super) fn losses(summary: &Summary) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "NIC" } th.n { "lost" } th.n { "duplicated" } th.n { "reordered" } th.n { "unmatched" }
                th.n { "ECN CE marks" } th.n { "sent late" } th.n { "sent again" }
            } }
            tbody { @for nic in &summary.nics { tr {
                td { (nic.name) }
                td.n { (nic.lost) }
                td.n { (nic.duplicated) }
                td.n { (nic.reordered) }
                td.n { (nic.unmatched) }
                td.n { (nic.congestion_marks) }
                td.n { (nic.late) }
                td.n { (nic.retransmitted) }
            } } }
        } }
    }
}

/// What was expected against what was counted.
pub(super) fn reconciliation(summary: &Summary) -> Markup {
    let unequal = summary.reconciliation.iter().filter(|row| !row.equal).count();
    html! {
        p {
            @if unequal == 0 {
                "All of " (summary.reconciliation.len()) " figures counted in the run equal what was expected."
            } @else {
                b { (unequal) " of " (summary.reconciliation.len()) " figures differ" } " from what was expected."
            }
        }
        div.scroll { table {
            thead { tr {
                th { "NIC" } th { "figure" } th { "against" } th.n { "expected" } th.n { "counted" }
                th.n { "difference" } th { "explanation" }
            } }
            tbody { @for row in &summary.reconciliation { tr {
                td { (row.nic) }
                td { code { (row.figure) } }
                td { (row.against) }
                td.n { (row.expected) }
                td.n { (row.counted) }
                td.n { (difference(row.expected, row.counted)) }
                td.wrap { (row.explanation.as_deref().unwrap_or("")) }
            } } }
        } }
    }
}

fn percentiles(latency: Option<&LatencySummary>) -> Markup {
    let none = Reasons::new();
    let values = latency.map_or([None; 4], |l| [l.p50_ns, l.p99_ns, l.p999_ns, l.max_ns]);
    let reasons = latency.map_or(&none, |latency| &latency.reason);
    html! {
        @for (value, key) in values.into_iter().zip(["p50_ns", "p99_ns", "p999_ns", "max_ns"]) {
            (or_reason(value.map(|ns| time(Some(ns))), key, reasons))
        }
    }
}

/// A cell with a number, or with a dash that says why there is none.
fn or_reason(value: Option<String>, key: &str, reasons: &Reasons) -> Markup {
    html! {
        td.n {
            @if let Some(value) = value { (value) }
            @else if let Some(reason) = reasons.get(key) { span.absent title=(reason) { "-" } }
            @else { "-" }
        }
    }
}

fn swatch(class: Class) -> Markup {
    html! { i.swatch.(Activity::Class(class).css_class()) {} }
}

fn exact(bytes: u64) -> String {
    format!("{bytes} bytes")
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.3}")
}

fn difference(expected: u64, counted: u64) -> String {
    match counted.cmp(&expected) {
        std::cmp::Ordering::Equal => "0".to_owned(),
        std::cmp::Ordering::Greater => format!("+{}", counted - expected),
        std::cmp::Ordering::Less => format!("-{}", expected - counted),
    }
}
