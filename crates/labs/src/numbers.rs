//! Numbers that are drawn for each student.

use crate::document::Numbers;

/// splitmix64, by Sebastiano Vigna (<https://prng.di.unimi.it/splitmix64.c>).
///
/// Written out, since a seed must give a student the same numbers in every
/// version of the program: a library's generator may change under it.
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// A sequence for `seed` that is apart from those for other `purpose`s.
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        // FNV-1a of the purpose.
        let hash = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed ^ hash)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is at least 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        // The bias is below n / 2^64.
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// One of the numbers that `numbers` allows.
    pub(crate) fn one_of(&mut self, numbers: &Numbers) -> i64 {
        if let Some(list) = &numbers.of {
            let at = self.below(list.len().max(1) as u64) as usize;
            return list.get(at).copied().unwrap_or(numbers.shown);
        }
        let (Some(from), Some(to)) = (numbers.from, numbers.to) else { return numbers.shown };
        let step = numbers.step.max(1);
        let steps = to.saturating_sub(from).max(0) / step;
        let at = self.below(steps.unsigned_abs().saturating_add(1));
        from.saturating_add(step.saturating_mul(i64::try_from(at).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // First outputs of splitmix64 from the state 1234567.
        let mut draw = Draw(1_234_567);
        assert_eq!(
            [draw.next(), draw.next(), draw.next()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn every_number_of_a_range_is_drawn_and_no_other() {
        let range = Numbers { shown: 4, of: None, from: Some(4), to: Some(17), step: 3 };
        let mut seen = std::collections::BTreeSet::new();
        let mut draw = Draw::new(1, "test");
        for _ in 0..200 {
            seen.insert(draw.one_of(&range));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [4, 7, 10, 13, 16]);
    }

    #[test]
    fn seeds_and_purposes_differ() {
        let first = |seed, purpose| Draw::new(seed, purpose).next();
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
    }
}
