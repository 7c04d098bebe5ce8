//! The clock of an interface of a pcapng file: what a tick is, and where it counts from.

use crate::unit::Nanos;

/// How timestamps become nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    scale: Scale,
    /// Seconds that are added.
    pub(super) offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// A tick is so many nanoseconds.
    Times(u64),
    /// So many ticks are a nanosecond.
    Over(u64),
    /// A second is two to this power of ticks.
    Shift(u32),
    /// All that 64 bits count is less than a nanosecond.
    Nothing,
}

impl Clock {
    /// A clock whose resolution is `code`: a negative power of ten, or of two if its high bit is set.
    pub(super) const fn new(code: u8) -> Self {
        let power = (code & 0x7f) as u32;
        let scale = match (code & 0x80 != 0, power) {
            (true, _) => Scale::Shift(power),
            (false, ..=9) => Scale::Times(10_u64.pow(9 - power)),
            (false, 10..=28) => Scale::Over(10_u64.pow(power - 9)),
            (false, _) => Scale::Nothing,
        };
        Self { scale, offset: 0 }
    }

    /// The instant of so many ticks; `None` if 64 bits of nanoseconds since 1970 do not hold it.
    #[inline]
    pub(super) fn at(&self, ticks: u64) -> Option<Nanos> {
        let nanos = match self.scale {
            Scale::Times(scale) => ticks.checked_mul(scale)?,
            Scale::Over(scale) => ticks / scale,
            Scale::Shift(power) => {
                u64::try_from((u128::from(ticks) * u128::from(SECOND)).checked_shr(power)?).ok()?
            }
            Scale::Nothing => 0,
        };
        if self.offset == 0 {
            return Some(Nanos(nanos));
        }
        let moved = i128::from(nanos) + i128::from(self.offset) * i128::from(SECOND);
        u64::try_from(moved).ok().map(Nanos)
    }
}

impl Default for Clock {
    /// Microseconds, which an interface has that says nothing.
    fn default() -> Self {
        Self::new(6)
    }
}

const SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_every_kind_become_nanoseconds() {
        for (code, ticks, nanos) in [
            (0, 3, Some(3_000_000_000)),
            (6, 5, Some(5_000)),
            (9, 7, Some(7)),
            (12, 12_345, Some(12)),
            (28, u64::MAX, Some(1)),
            (127, u64::MAX, Some(0)),
            (0x80 | 10, 1_024 + 512, Some(1_500_000_000)),
            (0x80 | 127, u64::MAX, Some(0)),
            (0x80, u64::MAX, None),
            (6, u64::MAX, None),
        ] {
            assert_eq!(Clock::new(code).at(ticks), nanos.map(Nanos), "{code} {ticks}");
        }
    }

    #[test]
    fn an_offset_moves_either_way_but_not_before_1970() {
        let clock = |offset| Clock { offset, ..Clock::new(9) };
        assert_eq!(clock(2).at(5), Some(Nanos(2_000_000_005)));
        assert_eq!(clock(-1).at(1_000_000_005), Some(Nanos(5)));
        assert_eq!(clock(-1).at(5), None);
        assert_eq!(clock(i64::MAX).at(5), None);
    }
}
