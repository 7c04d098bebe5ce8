//! Pictures: lines, areas, dots and bars in a frame with axes, as HTML around inline SVG.
//!
//! Labels are HTML beside the SVG, so the picture stretches to any width while letters keep their size.

use maud::{Markup, html};

use super::axis::{Axis, SPAN};

/// A frame with axes, and what is drawn in it.
pub(super) struct Plot<'a> {
    /// What it shows, for readers and for screen readers.
    pub(super) label: &'a str,
    /// What the horizontal axis counts, with its unit.
    pub(super) across: &'a str,
    /// What the vertical axis counts, with its unit.
    pub(super) up: &'a str,
    /// Ticks of the horizontal axis: thousandths and text.
    pub(super) across_ticks: Vec<(f64, String)>,
    /// Ticks of the vertical axis.
    pub(super) up_ticks: Vec<(f64, String)>,
    /// The SVG inside, in a square of a thousand units with zero at the lower left; see [`Path`].
    pub(super) inside: Markup,
    /// How high, in CSS pixels.
    pub(super) height: u32,
}

impl Plot<'_> {
    /// The HTML.
    pub(super) fn draw(&self) -> Markup {
        html! {
            div.plot {
                div.up { (self.up) }
                div.uplabels style={ "height:" (self.height) "px" } aria-hidden="true" {
                    @for (at, text) in &self.up_ticks {
                        span style={ "bottom:" (percent(*at)) } { (text) }
                    }
                }
                svg.frame viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img" aria-label=(self.label)
                    style={ "height:" (self.height) "px" } {
                    @for (at, _) in &self.up_ticks {
                        path.grid d={ "M0 " (down(*at)) "H1000" } {}
                    }
                    @for (at, _) in &self.across_ticks {
                        path.grid d={ "M" (number(*at)) " 0V1000" } {}
                    }
                    (self.inside)
                }
                div.acrosslabels aria-hidden="true" {
                    @for (at, text) in &self.across_ticks {
                        span style={ "left:" (percent(*at)) } { (text) }
                    }
                }
                div.across { (self.across) }
            }
        }
    }
}

/// The ticks of an axis as a plot takes them.
pub(super) fn ticks(axis: &Axis) -> Vec<(f64, String)> {
    axis.ticks.iter().map(|tick| (axis.place(tick.value), tick.label.clone())).collect()
}

/// A path through points in thousandths, with zero at the lower left.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    text: String,
}

impl Path {
    /// A line through the points.
    pub(super) fn line(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut text = String::new();
        for (x, y) in points {
            text.push_str(if text.is_empty() { "M" } else { "L" });
            text.push_str(&format!("{} {}", number(x), down(y)));
        }
        Self { text }
    }

    /// A curve of steps: from each `x` on it stands at `y`, and the last one ends at `end`.
    pub(super) fn steps(points: &[(f64, f64)], end: f64) -> Self {
        let ends = points.iter().skip(1).map(|(x, _)| *x).chain([end]);
        Self::line(points.iter().zip(ends).flat_map(|((x, y), end)| [(*x, *y), (end, *y)]))
    }

    /// The same, closed along the horizontal axis, to be filled.
    pub(super) fn area(points: &[(f64, f64)], end: f64) -> Self {
        let first = points.first().map_or(0.0, |(x, _)| *x);
        let text = Self::steps(points, end).text;
        let body = text.strip_prefix('M').unwrap_or_default();
        Self { text: format!("M{} 1000L{body}L{} 1000Z", number(first), number(end)) }
    }

    /// What the attribute `d` holds.
    pub(super) fn d(&self) -> &str {
        &self.text
    }
}

/// A coordinate with one decimal at most.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn down(value: f64) -> String {
    number(SPAN - value)
}

/// Thousandths as a CSS percentage.
pub(super) fn percent(thousandths: f64) -> String {
    format!("{:.2}%", thousandths / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_curve_keeps_its_value_until_the_next() {
        let points = [(0.0, 0.0), (500.0, 250.0)];
        assert_eq!(Path::steps(&points, 1_000.0).d(), "M0 1000L500 1000L500 750L1000 750");
        assert_eq!(Path::area(&points, 1_000.0).d(), "M0 1000L0 1000L500 1000L500 750L1000 750L1000 1000Z");
    }
}
