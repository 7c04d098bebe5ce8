//! Randomness from the plan's seed, in named streams: one per purpose and object.
//!
//! A draw depends on nothing but its stream and its index, so leaving out NICs or adding threads changes no other draw.

/// A stream of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(u64);

impl Stream {
    /// The stream for `purpose` and the object with this number.
    #[must_use]
    pub fn new(seed: u64, purpose: &str, object: u64) -> Self {
        let named = purpose.bytes().fold(mixed(seed), |state, byte| mixed(state ^ u64::from(byte)));
        Self(mixed(named ^ mixed(object)))
    }

    /// The number at `index`, evenly among all of 64 bits.
    #[must_use]
    pub const fn draw(self, index: u64) -> u64 {
        mixed(self.0 ^ mixed(index))
    }

    /// The number at `index` of splitmix64's own sequence from the stream's start: as even as [`Self::draw`], in half the
    /// time, for numbers by the million.
    #[must_use]
    pub const fn sequence(self, index: u64) -> u64 {
        mixed(self.0.wrapping_add(index.wrapping_mul(GAMMA)))
    }

    /// The number at `index`, among those below `bound`; zero if there are none.
    #[must_use]
    pub const fn below(self, bound: u64, index: u64) -> u64 {
        // A multiple-and-shift instead of a remainder: it takes the best bits.
        let wide = (self.draw(index) as u128) * (bound as u128);
        high_half(wide)
    }
}

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014), with its increment.
const fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(GAMMA);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The golden ratio's fraction, odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

const fn high_half(wide: u128) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = wide.to_be_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_purpose_and_object() {
        let streams = [(1, "a", 0), (2, "a", 0), (1, "b", 0), (1, "a", 1), (1, "ab", 0)];
        let mut draws: Vec<_> =
            streams.iter().map(|&(seed, name, object)| Stream::new(seed, name, object).draw(7)).collect();
        draws.sort_unstable();
        draws.dedup();
        assert_eq!(draws.len(), 5);
    }

    #[test]
    fn draws_stay_below_their_bound_and_reach_all_of_it() {
        let stream = Stream::new(1, "test", 0);
        let mut seen = [false; 10];
        for index in 0..1000 {
            seen[usize::try_from(stream.below(10, index)).unwrap()] = true;
        }
        assert_eq!(seen, [true; 10]);
        assert_eq!(stream.below(0, 3), 0);
    }
}
