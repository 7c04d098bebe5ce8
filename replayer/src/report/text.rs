//! The summary as a terminal shows it at the end of a run: a hundred columns, no colour unless asked.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};
use traces::origin::Class;
use traces::unit::{BitRate, Bytes, Nanos};

use super::latency::kind_name;
use super::summary::{LatencySummary, NicSummary, Summary};
use crate::outcome::LatencyKind;

/// Whether text may carry ANSI escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Letters only.
    Plain,
    /// Bold heads, and yellow where a run is partial.
    Ansi,
}

/// The tables printed at the end of a run.
#[must_use]
pub fn text(summary: &Summary, colour: Colour) -> String {
    let mut text = format!("{}\n", bold(&headline(summary), colour));
    if summary.partial {
        let why = summary.reason.get("partial").map_or("the run ended early", String::as_str);
        text.push_str(&yellow(&format!("PARTIAL: {why}. The numbers cover what ran.\n"), colour));
    }
    for (head, table) in [
        ("Training steps", steps(summary)),
        ("Network interfaces", nics(summary)),
        ("Classes of traffic", classes(summary)),
        ("Latency, all classes", latency(summary)),
    ] {
        if table.row_count() > 0 {
            text.push_str(&format!("\n{}\n{}\n", bold(head, colour), table.trim_fmt()));
        }
    }
    text.push_str(&notes(summary));
    text
}

fn headline(summary: &Summary) -> String {
    format!("{}: {}", summary.plan, ran(summary))
}

/// What ran, in a line.
pub(super) fn ran(summary: &Summary) -> String {
    let speed = summary.speed.map_or(String::new(), |speed| format!(" at {speed} times the trace's speed"));
    let measured = summary.steps.iter().filter(|step| step.time_ns.is_some()).count();
    // Timed mode has no steps of its own.
    let steps = match summary.speed {
        None => format!("{measured} of {} training steps in ", summary.steps.len()),
        Some(_) => String::new(),
    };
    let (duration, nics) = (Nanos(summary.duration_ns), summary.nics.len());
    format!("{} mode{speed}, {steps}{duration} on {nics} NICs", summary.mode)
}

fn steps(summary: &Summary) -> Table {
    let mut table = table(&["step", "time", "planned", "ideal", "time/planned", "time/ideal"]);
    let ratio = |ratio: Option<f64>| ratio.map_or_else(absent, |ratio| format!("{ratio:.3}"));
    let any = summary.steps.iter().any(|step| step.time_ns.is_some());
    for step in summary.steps.iter().filter(|_| any) {
        table.add_row(cells(vec![
            step.step.to_string(),
            time(step.time_ns),
            Nanos(step.planned_ns).to_string(),
            Nanos(step.ideal_ns).to_string(),
            ratio(step.ratio_to_planned),
            ratio(step.ratio_to_ideal),
        ]));
    }
    table
}

fn nics(summary: &Summary) -> Table {
    let mut table = table(&["NIC", "sent", "received", "sending", "lost", "p50", "p99", "p99.9", "max"]);
    for nic in &summary.nics {
        let mut row = vec![
            nic.name.clone(),
            Bytes(nic.payload_bytes_sent).to_string(),
            Bytes(nic.payload_bytes_received).to_string(),
            rate(nic.throughput_sent_bps),
            nic.lost.to_string(),
        ];
        row.extend(percentiles(of_nic(summary, nic)));
        table.add_row(cells(row));
    }
    table
}

/// Response times at a NIC: its host's, if the host has no other.
pub(super) fn of_nic<'a>(summary: &'a Summary, nic: &NicSummary) -> Option<&'a LatencySummary> {
    let alone = summary.nics.iter().filter(|other| other.host == nic.host).count() == 1;
    let of_host =
        |latency: &&LatencySummary| latency.kind == RESPONSE && latency.host.as_ref() == Some(&nic.host);
    summary.latency.iter().find(of_host).filter(|_| alone)
}

/// Response times of a class; of all together for what has none.
pub(super) fn of_class(summary: &Summary, class: Option<Class>) -> Option<&LatencySummary> {
    let of_class = |latency: &&LatencySummary| {
        latency.kind == RESPONSE && latency.host.is_none() && latency.class == class
    };
    summary.latency.iter().find(of_class).filter(|_| class.is_some())
}

fn classes(summary: &Summary) -> Table {
    let mut table =
        table(&["class", "messages", "payload", "throughput", "lost", "p50", "p99", "p99.9", "max"]);
    for class in &summary.classes {
        let mut row = vec![
            class_name(class.class).to_owned(),
            class.messages.to_string(),
            Bytes(class.payload_bytes_received).to_string(),
            rate(class.throughput_bps),
            class.lost.to_string(),
        ];
        row.extend(percentiles(of_class(summary, class.class)));
        table.add_row(cells(row));
    }
    table
}

fn latency(summary: &Summary) -> Table {
    let mut table = table(&["kind", "samples", "min", "p50", "p99", "p99.9", "max", "clocks"]);
    let overall = summary.latency.iter().filter(|latency| latency.class.is_none() && latency.host.is_none());
    for latency in overall {
        let mut row =
            vec![kind_name(latency.kind).to_owned(), latency.count.to_string(), time(latency.min_ns)];
        row.extend(percentiles(Some(latency)));
        row.push(clocks(latency));
        table.add_row(cells(row));
    }
    table
}

/// The tier of the clocks and what it leaves uncertain.
pub(super) fn clocks(latency: &LatencySummary) -> String {
    match latency.uncertainty_ns {
        0 => format!("{}, one clock", latency.tier),
        uncertainty => format!("{}, +-{}", latency.tier, Nanos(uncertainty)),
    }
}

fn percentiles(latency: Option<&LatencySummary>) -> [String; 4] {
    latency.map_or_else(
        || [absent(), absent(), absent(), absent()],
        |latency| [latency.p50_ns, latency.p99_ns, latency.p999_ns, latency.max_ns].map(time),
    )
}

/// What the tables leave open.
fn notes(summary: &Summary) -> String {
    let mut notes = format!(
        "\nLost {}, duplicated {}, reordered {}, late {}, sent again {} of {} frames.\n",
        summary.lost,
        summary.duplicated,
        summary.reordered,
        summary.late,
        summary.retransmitted,
        summary.frames_sent,
    );
    if summary.classes.iter().any(|class| class.class.is_none()) {
        notes.push_str(
            "(no stamp): frames too small to carry one, so where they arrive their class is not known.\n",
        );
    }
    let unequal: Vec<_> = summary.reconciliation.iter().filter(|row| !row.equal).collect();
    if unequal.is_empty() {
        notes.push_str(&format!(
            "Counted equals expected in all of {} figures.\n",
            summary.reconciliation.len()
        ));
    }
    for row in unequal {
        notes.push_str(&format!(
            "{}: {} is {}, {} says {}{}.\n",
            row.nic,
            row.figure,
            row.counted,
            row.against,
            row.expected,
            row.explanation.as_ref().map_or(String::new(), |why| format!(" ({why})")),
        ));
    }
    notes.push_str(
        "Latency is from the intended departure to the arrival. \"-\": not measured or too few samples;\n\
         summary.json says why.\n",
    );
    notes
}

fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(cells(heads.iter().map(|head| (*head).to_owned()).collect()));
    table
}

/// A row: the first cell is a name, the others are numbers.
fn cells(texts: Vec<String>) -> Vec<Cell> {
    let alignment = |place| if place == 0 { CellAlignment::Left } else { CellAlignment::Right };
    texts
        .into_iter()
        .enumerate()
        .map(|(place, text)| Cell::new(text).set_alignment(alignment(place)))
        .collect()
}

/// A duration, or that there is none.
pub(super) fn time(time_ns: Option<u64>) -> String {
    time_ns.map_or_else(absent, |time| Nanos(time).to_string())
}

/// A rate, or that there is none.
pub(super) fn rate(bits_per_second: Option<u64>) -> String {
    match bits_per_second {
        None => absent(),
        Some(rate) => BitRate::new(rate).map_or_else(|| "0 bit/s".to_owned(), |rate| rate.to_string()),
    }
}

/// The name of a class, or of frames that do not say theirs.
pub(super) fn class_name(class: Option<Class>) -> &'static str {
    class.map_or("(no stamp)", Class::name)
}

fn absent() -> String {
    "-".to_owned()
}

fn bold(text: &str, colour: Colour) -> String {
    escape(text, "1", colour)
}

fn yellow(text: &str, colour: Colour) -> String {
    escape(text, "33", colour)
}

fn escape(text: &str, code: &str, colour: Colour) -> String {
    match colour {
        Colour::Plain => text.to_owned(),
        Colour::Ansi => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
    }
}

/// The kind of latency that is shown first: nothing is hidden by a sender that waits.
pub(super) const RESPONSE: LatencyKind = LatencyKind::Response;

/// A line below the heads and nothing else, so that columns are easy to cut out.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('-'));
