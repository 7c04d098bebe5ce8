//! The pictures of the page: throughput in time, latency by percentile, the step by rank.

use std::f64::consts::LOG10_2;

use maud::{Markup, html};
use traces::unit::{Bytes, Nanos};

use crate::report::axis::{Axis, Quantity, SPAN};
use crate::report::bandwidth;
use crate::report::lanes::{Activity, COLUMNS, Lanes};
use crate::report::plot::{Path, Plot, number, percent, ticks};

/// Throughput of one NIC: bytes in bins of equal width from the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Throughput<'a> {
    pub(super) name: &'a str,
    pub(super) bin: Nanos,
    pub(super) sent: &'a [u64],
    pub(super) received: &'a [u64],
    pub(super) planned: &'a [u64],
}

/// One picture for each NIC, all on the same axes.
pub(super) fn throughput(nics: &[Throughput<'_>]) -> Markup {
    let measured = nics.iter().flat_map(|nic| [(nic.sent, nic.bin), (nic.received, nic.bin)]);
    let (measured_time, measured_rate) = extent(measured);
    let (planned_time, planned_rate) = extent(nics.iter().map(|nic| (nic.planned, nic.bin)));
    let planned = planned_rate > 0;
    // Curves of one size share axes; otherwise the smaller one would be a line on the ground.
    let alike = planned_rate / 6 <= measured_rate
        && measured_rate / 6 <= planned_rate
        && planned_time / 6 <= measured_time;
    let (run, plan) = if planned && alike {
        let both = (measured_time.max(planned_time), measured_rate.max(planned_rate));
        (both, both)
    } else {
        ((measured_time, measured_rate), (planned_time, planned_rate))
    };
    let (run, plan) = (Panel::new(run), Panel::new(plan));
    html! {
        ul.legend {
            li.sent { i {} "sent" }
            li.received { i {} "received" }
            @if planned { li.plan { i {} "sent in the plan" @if !alike { ", on axes of its own" } } }
        }
        div.multiples { @for nic in nics {
            figure {
                figcaption { b { (nic.name) } }
                (run.draw(&format!("{}: payload per second over time", nic.name), 120, html! {
                    (run.area(nic.sent, nic.bin, "sent", "sent"))
                    (run.line(nic.received, nic.bin, "received curve thin"))
                }))
                @if planned {
                    (plan.draw(&format!("{}: the plan's own curve", nic.name), 76, html! {
                        (plan.area(nic.planned, nic.bin, "plan", "sent in the plan"))
                    }))
                }
            }
        } }
    }
}

/// The time that curves take, and the highest rate that is drawn of any.
fn extent<'a>(curves: impl Iterator<Item = (&'a [u64], Nanos)> + Clone) -> (u64, u64) {
    let time = curves.clone().map(|(bins, bin)| length(bins, bin)).max().unwrap_or(0);
    let rates = curves.flat_map(|(bins, bin)| curve(bins, bin, time)).map(|(_, rate)| rate);
    (time, rates.max().unwrap_or(0))
}

fn length(bins: &[u64], bin: Nanos) -> u64 {
    bin.0.saturating_mul(u64::try_from(bins.len()).unwrap_or(u64::MAX))
}

/// A frame of throughput over time, the same for all NICs.
struct Panel {
    time: u64,
    across: Axis,
    up: Axis,
}

impl Panel {
    fn new((time, rate): (u64, u64)) -> Self {
        let across = Axis::linear(Quantity::Time, time, 7);
        Self { time, across, up: Axis::linear_with_room(Quantity::Rate, rate, 4) }
    }

    fn draw(&self, label: &str, height: u32, inside: Markup) -> Markup {
        let (across_ticks, up_ticks) = (ticks(&self.across), ticks(&self.up));
        Plot { label, across: self.across.unit, up: self.up.unit, across_ticks, up_ticks, inside, height }
            .draw()
    }

    fn line(&self, bins: &[u64], bin: Nanos, class: &str) -> Markup {
        let points = self.points(bins, bin);
        html! { @if !points.is_empty() { path class=(class) d=(Path::steps(&points, self.end(bins, bin)).d()) {} } }
    }

    fn area(&self, bins: &[u64], bin: Nanos, class: &str, name: &str) -> Markup {
        let (points, end) = (self.points(bins, bin), self.end(bins, bin));
        html! { @if !points.is_empty() { g class=(class) {
            title { (name) ", " (Bytes(bins.iter().sum())) " in all" }
            path.fill d=(Path::area(&points, end).d()) {}
            path.curve.thin d=(Path::steps(&points, end).d()) {}
        } } }
    }

    fn points(&self, bins: &[u64], bin: Nanos) -> Vec<(f64, f64)> {
        let curve = curve(bins, bin, self.time).into_iter();
        curve.map(|(at, rate)| (self.across.place(at), self.up.place(rate))).collect()
    }

    fn end(&self, bins: &[u64], bin: Nanos) -> f64 {
        self.across.place(length(bins, bin))
    }
}

/// Bins as start and rate, joined so that at most [`MOST_POINTS`] cover `time`.
fn curve(bins: &[u64], bin: Nanos, time: u64) -> Vec<(u64, u64)> {
    let joined = time.div_ceil(bin.0.max(1)).div_ceil(MOST_POINTS).max(1);
    let width = Nanos(bin.0.saturating_mul(joined));
    let joined = usize::try_from(joined).unwrap_or(usize::MAX);
    bins.chunks(joined)
        .zip(0_u64..)
        .map(|(bytes, place)| {
            let bytes = Bytes(bytes.iter().sum());
            (place * width.0, bandwidth::rate(bytes, width).unwrap_or(0))
        })
        .collect()
}

/// Values of a distribution by quantile, as a curve takes them.
pub(super) struct Distribution<'a> {
    /// What was timed.
    pub(super) name: &'a str,
    /// The CSS class that paints it.
    pub(super) css_class: &'a str,
    /// Samples.
    pub(super) count: u64,
    /// The exact largest value.
    pub(super) max: u64,
    /// The value at a quantile, from 0 to 1.
    pub(super) at: &'a dyn Fn(f64) -> u64,
}

/// Latency over percentile; the axis gives each further nine the same room.
pub(super) fn percentiles(label: &str, distributions: &[Distribution<'_>]) -> Markup {
    let most = distributions.iter().map(|d| d.count).max().unwrap_or(0).max(1);
    let nines = (most as f64).log10().ceil().clamp(2.0, 7.0);
    let least = distributions.iter().map(|d| (d.at)(0.0)).min().unwrap_or(1).max(10);
    let largest = distributions.iter().map(|d| d.max).max().unwrap_or(1);
    let up = Axis::logarithmic(Quantity::Time, least, largest);
    let place = |nine: f64| nine / nines * SPAN;
    let named = [
        (0.0, "0"),
        (LOG10_2, "50"),
        (1.0, "90"),
        (2.0, "99"),
        (3.0, "99.9"),
        (4.0, "99.99"),
        (5.0, "99.999"),
    ];
    let across_ticks: Vec<_> = named
        .into_iter()
        .filter(|(nine, _)| *nine < nines)
        .map(|(nine, name)| (place(nine), name.to_owned()))
        .chain([(SPAN, "max".to_owned())])
        .collect();
    let inside = html! { @for distribution in distributions {
        @let reliable = (distribution.count as f64 / 10.0).log10().clamp(0.0, nines);
        @let value = |nine: f64| up.place((distribution.at)(1.0 - 10_f64.powf(-nine)));
        @let solid = (0..=CURVE_POINTS).map(|share| reliable * f64::from(share) / f64::from(CURVE_POINTS));
        @let last = (place(reliable), value(reliable));
        @let max = up.place(distribution.max);
        g class=(distribution.css_class) {
            title { (distribution.name) ": " (distribution.count) " samples, max " (Nanos(distribution.max)) }
            path.curve d=(Path::line(solid.map(|nine| (place(nine), value(nine)))).d()) {}
            path.curve.few d=(Path::line([last, (SPAN, max)]).d()) {}
            path.dot d={ "M1000 " (number(SPAN - max)) "h0" } {}
        }
    } };
    let plot = Plot {
        label,
        across: "percentile, per cent of samples",
        up: "latency",
        across_ticks,
        up_ticks: ticks(&up),
        inside,
        height: 260,
    };
    html! {
        ul.legend { @for distribution in distributions {
            li.(distribution.css_class) { i {} (distribution.name) ", n = " (distribution.count) }
        } }
        div.wide { (plot.draw()) }
    }
}

/// One step by rank: the plan's lane above the measured one.
pub(super) fn lanes(planned: &Lanes, measured: &Lanes) -> Markup {
    let time = planned.duration().0.max(measured.duration().0);
    let across = Axis::linear(Quantity::Time, time, 8);
    let mut ranks: Vec<_> = planned.ranks().chain(measured.ranks()).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut activities: Vec<_> = planned.activities().chain(measured.activities()).collect();
    activities.sort_unstable();
    activities.dedup();
    html! {
        ul.legend {
            @for activity in &activities { li.(activity.css_class()) { i {} (activity.name()) } }
            li { i.pale {} "pale: the plan" }
            li { i.full {} "full: this run" }
        }
        div.lanes {
            @for rank in ranks.iter().take(MOST_LANES) {
                div { "rank " (rank.0) }
                svg viewBox="0 0 1000 46" preserveAspectRatio="none" role="img" style="height:46px"
                    aria-label={ "rank " (rank.0) ": planned above, measured below" } {
                    @for (lane, class, top) in [(planned, "planned", 1_u32), (measured, "measured", 25)] {
                        @let stretch = lane.duration().0 as f64 / time as f64 * SPAN / COLUMNS as f64;
                        @for (activity, first, columns) in lane.spans(*rank) {
                            // Compute in the upper part of the lane, traffic below it, so that overlap is seen.
                            @let (y, height) = if activity == Activity::Compute { (top, 8) } else { (top + 9, 11) };
                            rect class={ (class) " " (activity.css_class()) } x=(number(first as f64 * stretch)) y=(y)
                                width=(number((columns as f64 * stretch).max(0.8))) height=(height) {
                                title { (activity.name()) ", " (Nanos(lane.duration().0 / COLUMNS as u64 * columns as u64)) }
                            }
                        }
                    }
                }
            }
            div {}
            div.acrosslabels aria-hidden="true" {
                @for (at, text) in ticks(&across) { span style={ "left:" (percent(at)) } { (text) } }
            }
            div.across { (across.unit) " since the step began" }
        }
        @if ranks.len() > MOST_LANES {
            p.note { "The first " (MOST_LANES) " of " (ranks.len()) " ranks." }
        }
    }
}

/// Points of a curve: more than a screen's column each two pixels would not be seen.
const MOST_POINTS: u64 = 240;

/// Ranks drawn; more would not fit a screen.
const MOST_LANES: usize = 16;

/// Points of a percentile curve: one every few pixels.
const CURVE_POINTS: u32 = 200;
