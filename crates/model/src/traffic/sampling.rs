//! Which lines are looked at, and how far the result may be off for it.

/// Parts that the lines looked at are divided into: their spread gives the
/// deviation.
pub(super) const GROUPS: usize = 7;

/// SplitMix64's finisher (Steele, Lea and Flood, OOPSLA 2014).
#[inline(always)]
pub(super) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Looks at one of each 2^`log` consecutive 256-byte granules, at random which:
/// a cache that is smaller by the same factor sees a fair part of what the
/// whole one sees ("Waldspurger et al., Efficient MRC Construction with SHARDS",
/// FAST 2015). Two lines that DRAM opens together stay together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampling {
    pub(super) log: u32,
}

impl Sampling {
    /// Whether a line is looked at.
    #[inline(always)]
    pub(super) fn takes(self, line: u64) -> bool {
        if self.log == 0 {
            return true;
        }
        let granule = line >> 1;
        let stratum = granule >> self.log;
        let chosen = stratum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.log);
        granule & ((1 << self.log) - 1) == chosen
    }

    /// The part of the lines looked at that a line belongs to.
    #[inline(always)]
    pub(super) fn group(self, line: u64) -> usize {
        ((line >> (1 + self.log)) % GROUPS as u64) as usize
    }

    /// How many lines each line looked at stands for.
    pub(super) fn factor(self) -> f64 {
        (1_u64 << self.log) as f64
    }
}

/// Three standard errors of a sum, from the sums of equal independent parts.
pub(super) fn deviation(parts: &[f64]) -> f64 {
    let n = parts.len() as f64;
    let mean = parts.iter().sum::<f64>() / n;
    let variance = parts.iter().map(|part| (part - mean).powi(2)).sum::<f64>() / (n - 1.0);
    3.0 * (n * variance).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_granule_of_each_stratum_is_taken_whole() {
        for log in 0..6 {
            let sampling = Sampling { log };
            for stratum in 0..1000_u64 {
                let lines = (stratum << (log + 1))..((stratum + 1) << (log + 1));
                let taken: Vec<u64> = lines.filter(|&line| sampling.takes(line)).collect();
                assert_eq!(taken.len(), 2);
                assert_eq!(taken[0] >> 1, taken[1] >> 1);
            }
        }
    }

    #[test]
    fn equal_parts_have_no_deviation() {
        assert_eq!(deviation(&[5.0; GROUPS]), 0.0);
        assert!(deviation(&[4.0, 6.0, 5.0]) > 3.0);
    }
}
