//! Axes: which ticks a range gets, what they say, and where a value stands on them.
//!
//! Ticks are chosen in integers, so a label is exact. Only a place on the picture is a fraction.

/// What an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Nanoseconds.
    Time,
    /// Bits per second.
    Rate,
}

/// An axis from zero, or from a positive least value when it is logarithmic.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    scale: Scale,
    /// Its ticks, ascending.
    pub(super) ticks: Vec<Tick>,
    /// The unit of the labels, empty when each label carries its own.
    pub(super) unit: &'static str,
}

/// A tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tick {
    /// Where.
    pub(super) value: u64,
    /// What it says.
    pub(super) label: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Linear { max: u64 },
    Logarithmic { least: u64, max: u64 },
}

impl Axis {
    /// From zero to `max`, which is not moved: with at most `most` ticks after zero, at multiples of 1, 2 or 5 of a power of ten.
    pub(super) fn linear(quantity: Quantity, max: u64, most: u64) -> Self {
        let max = max.max(1);
        let step = nice_at_least(max.div_ceil(most.max(1)));
        let (unit, scale) = quantity.unit(max);
        let ticks = (0..=max / step)
            .map(|tick| Tick { value: tick * step, label: decimal(tick * step, scale) })
            .collect();
        Self { scale: Scale::Linear { max }, ticks, unit }
    }

    /// Like [`Self::linear`], with `max` moved up to the next tick.
    pub(super) fn linear_with_room(quantity: Quantity, max: u64, most: u64) -> Self {
        let step = nice_at_least(max.max(1).div_ceil(most.max(1)));
        Self::linear(quantity, max.max(1).div_ceil(step).saturating_mul(step), most)
    }

    /// From the power of ten below `least` to the one above `max`; a tick at each power of ten, with its own unit.
    pub(super) fn logarithmic(quantity: Quantity, least: u64, max: u64) -> Self {
        let least = 10_u64.pow(least.max(1).ilog10());
        let decades = max.max(least).div_ceil(least);
        let mut top = least;
        while top / least < decades && top <= u64::MAX / 10 {
            top *= 10;
        }
        let top = top.max(least.saturating_mul(10));
        let ticks = std::iter::successors(Some(least), |value| value.checked_mul(10))
            .take_while(|value| *value <= top)
            .map(|value| {
                let (unit, scale) = quantity.unit(value);
                Tick { value, label: format!("{} {unit}", decimal(value, scale)) }
            })
            .collect();
        Self { scale: Scale::Logarithmic { least, max: top }, ticks, unit: "" }
    }

    /// Where `value` stands, in thousandths of the axis; beyond its ends, at the end.
    pub(super) fn place(&self, value: u64) -> f64 {
        match self.scale {
            Scale::Linear { max } => value.min(max) as f64 * SPAN / max as f64,
            Scale::Logarithmic { least, max } => {
                let (value, least, max) = (value.clamp(least, max) as f64, least as f64, max as f64);
                (value / least).log10() * SPAN / (max / least).log10()
            }
        }
    }
}

impl Quantity {
    /// The largest unit that `value` has one of, and its size.
    fn unit(self, value: u64) -> (&'static str, u64) {
        let units: &[(&'static str, u64)] = match self {
            Self::Time => &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)],
            Self::Rate => &[
                ("Tbit/s", 1_000_000_000_000),
                ("Gbit/s", 1_000_000_000),
                ("Mbit/s", 1_000_000),
                ("kbit/s", 1_000),
                ("bit/s", 1),
            ],
        };
        units.iter().copied().find(|(_, size)| value >= *size).unwrap_or((units[units.len() - 1].0, 1))
    }
}

/// The least number of the form 1, 2 or 5 times a power of ten that is not below `value`.
fn nice_at_least(value: u64) -> u64 {
    let power = 10_u64.pow(value.max(1).ilog10());
    [1, 2, 5, 10]
        .into_iter()
        .filter_map(|factor| power.checked_mul(factor))
        .find(|nice| *nice >= value)
        .unwrap_or(power)
}

/// `value` in units of `scale`, a power of ten, without zeros at the end.
fn decimal(value: u64, scale: u64) -> String {
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = usize::try_from(scale.ilog10()).unwrap_or_default();
    format!("{whole}.{}", format!("{rest:0digits$}").trim_end_matches('0'))
}

/// The length of every axis, in units of the picture.
pub(super) const SPAN: f64 = 1_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_multiples_of_one_two_or_five() {
        let axis = Axis::linear(Quantity::Time, 23_400_000, 5);
        assert_eq!((labels(&axis), axis.unit), (vec!["0", "5", "10", "15", "20"], "ms"));
        let axis = Axis::linear_with_room(Quantity::Rate, 940_000_000, 4);
        assert_eq!((labels(&axis), axis.unit), (vec!["0", "0.5", "1"], "Gbit/s"));
        assert_eq!(labels(&Axis::linear(Quantity::Time, 0, 4)), ["0", "1"]);
    }

    #[test]
    fn a_place_is_a_share_of_the_axis() {
        let axis = Axis::linear(Quantity::Time, 200, 4);
        assert_eq!((axis.place(0), axis.place(50), axis.place(500)), (0.0, 250.0, 1_000.0));
        let axis = Axis::logarithmic(Quantity::Time, 2_000, 900_000);
        assert_eq!(labels(&axis), ["1 us", "10 us", "100 us", "1 ms"]);
        assert!((axis.place(10_000) - 1_000.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn the_largest_values_have_axes_too() {
        for axis in [
            Axis::linear(Quantity::Time, u64::MAX, 5),
            Axis::linear_with_room(Quantity::Rate, u64::MAX, 4),
            Axis::logarithmic(Quantity::Time, 1, u64::MAX),
        ] {
            assert!((axis.place(u64::MAX) - SPAN).abs() < 1e-9, "{axis:?}");
        }
    }
}
