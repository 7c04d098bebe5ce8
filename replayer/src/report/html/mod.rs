//! The report for people: one file without network, scripts or fonts of its own, for light and dark screens of any width.

mod pictures;
mod prose;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use traces::unit::{Bytes, Nanos, duration_text};

use self::pictures::{Distribution, Throughput};
use super::latency::kind_name;
use super::rows::FlowRow;
use super::summary::{LatencySummary, Summary};
use super::text::{RESPONSE, clocks, ran, rate, time};
use super::{Report, palette};
use crate::outcome::LatencyKind;

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let summary = &report.summary;
    let sections = sections(report);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (summary.plan) " - " (summary.run) }
                style { (PreEscaped(STYLE)) (PreEscaped(palette::css())) }
            }
            body {
                @if summary.partial {
                    div.partial role="alert" {
                        b { "Partial run. " }
                        (summary.reason.get("partial").map_or("The run ended early", String::as_str))
                        ". The numbers cover what ran."
                    }
                }
                h1 { (summary.plan) }
                p.lead { (ran(summary)) ", " span.run { (summary.run) } }
                (facts(summary))
                nav { @for section in &sections { a href={ "#" (section.id) } { (section.head) } } }
                @for section in &sections {
                    section id=(section.id) {
                        h2 { (section.head) }
                        (section.body)
                    }
                }
            }
        }
    }
    .into_string()
}

struct Section {
    id: &'static str,
    head: &'static str,
    body: Markup,
}

fn sections(report: &Report) -> Vec<Section> {
    let summary = &report.summary;
    let section = |id, head, body| Section { id, head, body };
    vec![
        section("steps", "Training steps", steps(report)),
        section("throughput", "Throughput in time", throughput(report)),
        section("latency", "Latency", latency(report)),
        section("collectives", "Collectives", collectives(summary)),
        section(
            "classes",
            "Classes of traffic",
            html! {
                p.note { "Payload received, and response times." }
                (tables::classes(summary))
            },
        ),
        section("nics", "Network interfaces", tables::nics(summary)),
        section("losses", "Loss, duplicates, reordering", tables::losses(summary)),
        section("flows", "Flows", flows(&report.flows)),
        section("reconciliation", "Reconciliation", tables::reconciliation(summary)),
        section("deviations", "What these numbers are not", prose::deviations(summary)),
        section("definitions", "Definitions", prose::definitions()),
        section("environment", "To reproduce", environment(report)),
    ]
}

/// The numbers that are asked for first.
fn facts(summary: &Summary) -> Markup {
    let slowest = summary.steps.iter().filter(|step| step.time_ns.is_some()).max_by_key(|step| step.time_ns);
    let response = overall(summary, RESPONSE);
    let goodput = super::bandwidth::rate(Bytes(summary.goodput_bytes_received), Nanos(summary.duration_ns));
    let percentile = response.and_then(|response| {
        [
            (response.p999_ns, "p99.9"),
            (response.p99_ns, "p99"),
            (response.p50_ns, "p50"),
            (response.max_ns, "max"),
        ]
        .into_iter()
        .find_map(|(value, name)| value.map(|value| (value, name)))
    });
    html! {
        dl.facts {
            div { dt { "mode" } dd { (summary.mode) @if let Some(speed) = summary.speed { small { (speed) " times the trace's speed" } } } }
            @if let Some(step) = slowest {
                div { dt { "slowest step" } dd { (time(step.time_ns)) small {
                    @if let Some(ratio) = step.ratio_to_planned { (format!("{ratio:.2}")) " x planned" }
                    @if let Some(ratio) = step.ratio_to_ideal { ", " (format!("{ratio:.2}")) " x compute alone" }
                } } }
            }
            div { dt { "goodput" } dd { (Bytes(summary.goodput_bytes_received)) small { (rate(goodput)) " over all NICs" } } }
            @if let (Some(response), Some((value, name))) = (response, percentile) {
                div { dt { "response " (name) } dd { (Nanos(value)) small { (clocks(response)) } } }
            }
            div { dt { "frames lost" } dd { (summary.lost) small { "of " (summary.frames_sent) ", " (summary.retransmitted) " sent again" } } }
            div { dt { "frames late" } dd { (summary.late) small { (summary.duplicated) " duplicated, " (summary.reordered) " reordered" } } }
        }
    }
}

fn steps(report: &Report) -> Markup {
    html! {
        (tables::steps(&report.summary))
        @if let Some(why) = report.summary.steps.iter().find_map(|step| step.reason.get("time_ns")) {
            p.note { "Without a time: " (why) "." }
        }
        @if let Some(timeline) = &report.timeline {
            figure {
                figcaption { b { "Step " (timeline.step) " by rank" } ": compute above, traffic below it" }
                (pictures::lanes(&timeline.planned, &timeline.measured))
            }
        }
    }
}

fn collectives(summary: &Summary) -> Markup {
    html! {
        p.note {
            "n members and S, the payload. Time runs from the instant at which the last member that gives data was ready to "
            "the last member's completion. algbw = S / time; busbw = algbw times the factor. Alike operations share a row."
        }
        @if !summary.collectives.is_empty() { (tables::collectives(summary)) }
        @else if summary.speed.is_some() { p { "None was seen: timed mode replays frames, not what they are for." } }
        @else { p { "None was seen." } }
    }
}

fn throughput(report: &Report) -> Markup {
    let nics: Vec<_> = report
        .throughput
        .iter()
        .map(|nic| Throughput {
            name: &nic.name,
            bin: nic.bin,
            sent: &nic.sent,
            received: &nic.received,
            planned: report.planned.as_ref().map_or(&[], |planned| planned.sent(nic.id)),
        })
        .take(MOST_NICS)
        .collect();
    html! {
        p.note { "Payload per second, counted in intervals of " (duration_text(nics.first().map_or(Nanos(0), |nic| nic.bin))) ". All NICs on the same axes." }
        (pictures::throughput(&nics))
        @if report.throughput.len() > MOST_NICS {
            p.note { "The first " (MOST_NICS) " of " (report.throughput.len()) " NICs; intervals.ndjson has all." }
        }
    }
}

fn latency(report: &Report) -> Markup {
    let kinds = [
        (LatencyKind::Response, "response"),
        (LatencyKind::Service, "servicetime"),
        (LatencyKind::Lateness, "lateness"),
    ];
    let found: Vec<_> = kinds
        .into_iter()
        .filter_map(|(kind, css_class)| {
            let summary = overall(&report.summary, kind).filter(|summary| summary.count > 0)?;
            let histogram = report.histograms.iter().find(|one| one.tag == kind_name(kind))?;
            Some((css_class, summary, &histogram.histogram))
        })
        .collect();
    let readers: Vec<_> = found
        .iter()
        .map(|(_, summary, histogram)| {
            let (min, max) = (summary.min_ns.unwrap_or(0), summary.max_ns.unwrap_or(u64::MAX));
            move |quantile: f64| {
                if quantile <= 0.0 { min } else { histogram.value_at_quantile(quantile).clamp(min, max) }
            }
        })
        .collect();
    let distributions: Vec<_> = found
        .iter()
        .zip(&readers)
        .map(|((css_class, summary, _), at)| Distribution {
            name: kind_name(summary.kind),
            css_class,
            count: summary.count,
            max: summary.max_ns.unwrap_or(0),
            at,
        })
        .collect();
    html! {
        p.note {
            "Response counts from the intended departure, service from the actual one, lateness is what lies between. "
            "The curve is dotted where fewer than ten samples lie beyond it."
        }
        @if !distributions.is_empty() {
            figure { (pictures::percentiles("latency by percentile: response, service, lateness", &distributions)) }
        }
        (tables::latency(&report.summary))
    }
}

fn flows(flows: &[FlowRow]) -> Markup {
    let mut largest: Vec<_> = flows.iter().collect();
    largest.sort_by_key(|flow| std::cmp::Reverse(flow.rx_bytes));
    html! {
        p.note {
            @if flows.len() > MOST_FLOWS { "The " (MOST_FLOWS) " largest of " (flows.len()) " flows; " }
            "flows.csv has all of them, with all columns."
        }
        div.scroll { table {
            thead { tr {
                th { "flow" } th { "from" } th { "to" } th { "group" } th.n { "payload" } th.n { "messages" }
                th.n { "completion" } th.n { "lost" } th.n { "service min" } th.n { "max" }
            } }
            tbody { @for flow in largest.into_iter().take(MOST_FLOWS) { tr {
                td { (flow.flow_name) }
                td { (flow.port_tx) }
                td { (flow.port_rx) }
                td { (flow.group) }
                td.n { (Bytes(flow.rx_bytes)) }
                td.n { (flow.message_complete_rx) }
                td.n { (time(flow.flow_completion_time_ns)) }
                td.n { (flow.data_frames_lost.map_or_else(|| "-".to_owned(), |lost| lost.to_string())) }
                td.n { (time(flow.min_latency_ns)) }
                td.n { (time(flow.max_latency_ns)) }
            } } }
        } }
    }
}

fn environment(report: &Report) -> Markup {
    let manifest = &report.manifest;
    html! {
        dl.terms {
            dt { "program" } dd { (manifest.program) }
            dt { "command" } dd { code { (manifest.command.join(" ")) } }
            dt { "plan" } dd { (manifest.plan) ", seed " (manifest.seed) ", digest " code { (manifest.plan_digest) } }
            dt { "run" } dd { code { (manifest.run) } }
        }
        div.scroll { table {
            thead { tr { th { "host" } th { "addresses" } th { "backend" } th { "kernel" } } }
            tbody { @for host in &manifest.hosts { tr {
                td { (host.host) }
                td { (host.addresses.join(", ")) }
                td { (host.backend) }
                td { (host.kernel) }
            } } }
        } }
        p.note {
            "To compare with another run, both must agree in plan, mode, hosts and NICs, line rates, and where clocks "
            "were read; summary.json and manifest.json hold them."
        }
    }
}

fn overall(summary: &Summary, kind: LatencyKind) -> Option<&LatencySummary> {
    summary
        .latency
        .iter()
        .find(|latency| latency.kind == kind && latency.class.is_none() && latency.host.is_none())
}

const STYLE: &str = include_str!("page.css");

/// NICs that are drawn.
const MOST_NICS: usize = 24;

/// Flows that are listed.
const MOST_FLOWS: usize = 20;
