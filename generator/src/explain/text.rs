//! The figures as a person reads them, within a hundred columns.

use std::fmt::Write as _;

use traces::unit::{Bytes, Nanos};

use super::{Explanation, OperationFigures, StageFigures};

/// The life of a token, for people.
#[must_use]
pub fn render(figures: &Explanation) -> String {
    let mut page = Page::default();
    page.line(&format!("The life of a token: {}", figures.name));
    words(&mut page, figures);
    tensors(&mut page, figures);
    ranks(&mut page, figures);
    for group in figures.stages.chunk_by(alike) {
        stage(&mut page, group);
    }
    totals(&mut page, figures);
    schedule(&mut page, figures);
    page.text
}

fn words(page: &mut Page, figures: &Explanation) {
    let text = &figures.text;
    page.heading("Words and tokens");
    match (text.bytes, text.words) {
        (Some(bytes), Some(words)) => page.line(&format!(
            "  {} bytes of text, {} words -> {} tokens of GPT-2's vocabulary ({} bytes a token)",
            grouped(bytes),
            grouped(words),
            grouped(text.tokens),
            decimal(bytes, text.tokens)
        )),
        _ => page.line(&format!("  {} tokens", grouped(text.tokens))),
    }
    let (Some(ids), false) = (&text.ids, text.first_line.is_empty()) else { return };
    page.line("  The first line, token by token (· is a space):");
    let mut row = (String::new(), String::new());
    for (piece, id) in text.first_line.iter().zip(ids) {
        // What would break the columns is shown as one sign of its own.
        let piece: String = piece
            .chars()
            .map(|c| {
                if c == ' ' {
                    '\u{b7}'
                } else if c.is_control() {
                    '\u{fffd}'
                } else {
                    c
                }
            })
            .collect();
        let id = id.to_string();
        let width = piece.chars().count().max(id.len()) + 1;
        if row.0.chars().count() + width > WIDTH - 4 {
            page.line(&format!("    {}", row.0));
            page.line(&format!("    {}", row.1));
            row = (String::new(), String::new());
        }
        let _ = write!(row.0, "{piece:<width$}");
        let _ = write!(row.1, "{id:<width$}");
    }
    page.line(&format!("    {}", row.0));
    page.line(&format!("    {}", row.1));
}

fn tensors(page: &mut Page, figures: &Explanation) {
    let (model, tensors) = (&figures.model, &figures.tensors);
    page.heading("Tensors");
    page.line(&format!(
        "  {}: {} layers, hidden {}, {} heads, vocabulary {}",
        model.name,
        model.layers,
        model.hidden,
        model.heads,
        grouped(model.vocab)
    ));
    page.entry("parameters", &grouped(model.parameters), "");
    let shape =
        format!("{} sequences x {} tokens x {}", tensors.micro_batch, tensors.sequence_length, model.hidden);
    page.entry("an activation", &format!("{} B", grouped(tensors.activation_bytes)), &shape);
    page.entry("of parameters", &format!("{} B", grouped(tensors.parameter_bytes)), "as they are stored");
    page.entry("of gradients", &format!("{} B", grouped(tensors.gradient_bytes)), "as they are summed");
}

fn ranks(page: &mut Page, figures: &Explanation) {
    let ranks = &figures.ranks;
    page.heading("Ranks");
    page.line(&format!(
        "  tensor {} x pipeline {} x data {} = {} ranks; {} microbatch{} a step on each replica",
        ranks.tensor,
        ranks.pipeline,
        ranks.data,
        ranks.world,
        ranks.microbatches,
        if ranks.microbatches == 1 { "" } else { "es" }
    ));
    for (stage, held) in figures.stages.iter().zip(&ranks.parameters_per_rank) {
        page.line(&format!(
            "  stage {:<3} {:>3} layer{}  {:>15} parameters a rank   forward {}, backward {}",
            stage.stage,
            stage.layers,
            if stage.layers == 1 { " " } else { "s" },
            grouped(held.dense),
            Nanos(stage.forward_ns),
            Nanos(stage.backward_ns)
        ));
    }
}

/// One table for a run of stages whose ranks do the same.
fn stage(page: &mut Page, stages: &[StageFigures]) {
    let [first, ..] = stages else { return };
    let last = stages.last().unwrap_or(first);
    let which = if first.stage == last.stage {
        format!("One step of stage {}, seen from rank {} on host {}", first.stage, first.rank, first.host)
    } else {
        format!("One step of stages {} to {}, each seen from its first rank", first.stage, last.stage)
    };
    page.heading(&which);
    if first.operations.is_empty() {
        page.line("  Nothing goes to another rank.");
        return;
    }
    page.line(&row(["class", "collective", "group", "count", "payload B", "sent B", "frames", "at line"]));
    for operation in &first.operations {
        page.line(&operation_row(operation));
    }
    let sum = |figure: fn(&OperationFigures) -> u64| first.operations.iter().map(figure).sum::<u64>();
    page.line(&row([
        "together",
        "",
        "",
        &grouped(sum(|operation| operation.count)),
        &grouped(sum(|operation| operation.payload_bytes)),
        &grouped(sum(|operation| operation.wire_bytes)),
        &grouped(sum(|operation| operation.frames)),
        &Nanos(sum(|operation| operation.wire_ns)).to_string(),
    ]));
}

fn operation_row(operation: &OperationFigures) -> String {
    let group = if operation.group == "first and last stage" { "ends" } else { operation.group };
    let frames = if operation.leaves_host { grouped(operation.frames) } else { "NVLink".to_owned() };
    row([
        operation.class.name(),
        operation.collective.name(),
        &format!("{group} {}", operation.group_size),
        &grouped(operation.count),
        &grouped(operation.payload_bytes),
        &grouped(operation.wire_bytes),
        &frames,
        &Nanos(operation.wire_ns).to_string(),
    ])
}

fn totals(page: &mut Page, figures: &Explanation) {
    page.heading("One step of all ranks");
    if figures.totals.is_empty() {
        page.line("  Nothing goes from rank to rank.");
        return;
    }
    for total in &figures.totals {
        let people = Bytes(total.wire_bytes).to_string();
        page.entry(total.class.name(), &format!("{} B", grouped(total.wire_bytes)), &people);
    }
    let sum = figures.totals.iter().fold(0_u64, |sum, total| sum.saturating_add(total.wire_bytes));
    page.entry("together", &format!("{} B", grouped(sum)), &Bytes(sum).to_string());
}

fn schedule(page: &mut Page, figures: &Explanation) {
    let schedule = &figures.schedule;
    page.heading("The step in time, computation alone");
    page.line(&format!(
        "  {}; the busiest stage computes {}; idle over that: {:.1} %",
        Nanos(schedule.makespan_ns),
        Nanos(schedule.ideal_ns),
        100.0 * schedule.bubble_over_ideal
    ));
}

fn alike(a: &StageFigures, b: &StageFigures) -> bool {
    a.operations == b.operations
}

/// A line of the table of operations.
fn row([class, collective, group, count, payload, sent, frames, time]: [&str; 8]) -> String {
    format!(
        "  {class:<16} {collective:<10} {group:<11} {count:>6} {payload:>15} {sent:>15} {frames:>9} {time:>9}"
    )
}

/// A number with a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A ratio with two digits behind the point, in integers.
fn decimal(part: u64, whole: u64) -> String {
    let hundredths = u128::from(part) * 100 / u128::from(whole.max(1));
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Lines of text, without blanks at their ends.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn heading(&mut self, heading: &str) {
        self.line("");
        self.line(heading);
    }

    fn entry(&mut self, name: &str, value: &str, remark: &str) {
        self.line(&format!("  {name:<18} {value:>22}   {remark}"));
    }
}

/// The widest line.
const WIDTH: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_told_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(124_439_808), "124,439,808");
        assert_eq!(decimal(347, 151), "2.29");
    }
}
