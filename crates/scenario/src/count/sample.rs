//! Fields that can be counted neither by period nor by carries, estimated from
//! some of the warps, with a bound of the error.
//!
//! The warps of an access are divided into equal parts in their order, and one
//! is taken at random from each. The bound is the empirical Bernstein bound of
//! Maurer and Pontil ("Empirical Bernstein bounds and sample variance
//! penalization", COLT 2009, theorem 4), on either side; it holds for
//! independent samples, and taking one from each part only lowers the variance.

use rayon::prelude::*;
use simulator::{AffineAccess, Field, Op, RuleSet, Totals, WARP_LANES};

/// Warps that are counted for an estimate: a fraction of a second.
const WARPS: u64 = 1 << 17;

/// How often the bound fails, at most.
pub const FAILURE: f64 = 1e-3;

/// What was estimated of an access, and how well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Warps counted.
    pub warps: u64,
    /// Warps that they stand for.
    pub of: u128,
    /// The estimated fields, each with the most that its total is off, but for
    /// one case in a thousand ([`FAILURE`]).
    pub bounds: Vec<(Field, u128)>,
}

/// The estimated sum of each field, and how far it may be off.
pub(super) struct Estimate {
    pub(super) sampled: Sampled,
    pub(super) sums: Vec<(Field, u128)>,
}

/// Estimates the sums over `accesses`; `None` where they are empty or cannot be
/// numbered.
pub(super) fn estimate(accesses: &[AffineAccess], op: Op, rules: &RuleSet) -> Option<Estimate> {
    let ends: Vec<u128> = accesses
        .iter()
        .scan(0u128, |end, access| {
            *end = end.checked_add(access.warps().ok()?)?;
            Some(*end)
        })
        .collect();
    let all = *ends.last().filter(|_| ends.len() == accesses.len())?;
    if all == 0 {
        return None;
    }
    let fields: Vec<Field> =
        Field::ALL.into_iter().filter(|field| !field.is_periodic(op)).collect();
    let parts = (0..WARPS).into_par_iter().fold(
        || vec![Moments::default(); fields.len()],
        |mut moments, part| {
            let index = place(part, all);
            let at = ends.partition_point(|&end| end <= index);
            let before = at.checked_sub(1).map_or(0, |at| ends[at]);
            let mut counts = Totals::default();
            counts.add_times(&rules.count(&accesses[at].nth(index - before)), 1);
            for (moments, field) in moments.iter_mut().zip(&fields) {
                moments.add(counts.get(*field));
            }
            moments
        },
    );
    let moments = parts.reduce(
        || vec![Moments::default(); fields.len()],
        |mut a, b| {
            a.iter_mut().zip(&b).for_each(|(a, b)| a.merge(b));
            a
        },
    );
    let known = || fields.iter().zip(&moments).filter(|(_, moments)| moments.warps == WARPS);
    let total = |mean: f64| (mean * all as f64).round() as u128;
    Some(Estimate {
        sums: known().map(|(field, moments)| (*field, total(moments.mean()))).collect(),
        sampled: Sampled {
            warps: WARPS,
            of: all,
            bounds: known()
                .map(|(field, moments)| (*field, total(moments.bound(range(*field, rules)))))
                .collect(),
        },
    })
}

/// A warp at random from the `part`-th of [`WARPS`] equal parts; the same each
/// time.
fn place(part: u64, all: u128) -> u128 {
    // SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) of the part's number.
    let mut bits = part.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    // 2^96 warps at most: the products need two steps.
    let parts = u128::from(WARPS);
    let (width, rest) = (all / parts, all % parts);
    let start = |part: u64| width * u128::from(part) + rest * u128::from(part) / parts;
    let (first, end) = (start(part), start(part + 1));
    let size = end - first;
    let high = size >> 32;
    let offset =
        high * u128::from(bits >> 32) + (((size & 0xffff_ffff) * u128::from(bits >> 32)) >> 32);
    // With fewer warps than parts some parts are empty.
    (first + offset.min(size.saturating_sub(1))).min(all - 1)
}

/// The largest value that a warp can have, less the smallest.
fn range(field: Field, rules: &RuleSet) -> f64 {
    let lanes = WARP_LANES as f64;
    match field {
        // A lane of 32 bytes fills 8 banks, each once.
        Field::DataWavefronts | Field::BankConflicts => 8.0 * lanes,
        Field::MovedBytes => lanes * f64::from(rules.sector_bytes().unwrap_or(0)),
        _ => lanes,
    }
}

/// Sums of whole numbers: exact in any order.
#[derive(Clone, Copy, Default)]
struct Moments {
    warps: u64,
    sum: u128,
    squares: u128,
}

impl Moments {
    fn add(&mut self, value: Option<u128>) {
        let Some(value) = value else { return };
        self.warps += 1;
        self.sum += value;
        self.squares += value * value;
    }

    fn merge(&mut self, other: &Self) {
        self.warps += other.warps;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / self.warps as f64
    }

    /// How far the mean may be off.
    fn bound(&self, range: f64) -> f64 {
        let n = self.warps as f64;
        let spread = self.squares as f64 - self.sum as f64 * self.mean();
        let variance = spread.max(0.0) / (n - 1.0);
        // Both sides together fail at FAILURE.
        let log = (4.0 / FAILURE).ln();
        (2.0 * variance * log / n).sqrt() + 7.0 * range * log / (3.0 * (n - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulator::{AffineTerm, LaneMask};

    /// A column walk through a pitched array: how many tag wavefronts a warp
    /// takes depends on where it is.
    fn columns(op: Op, pitch: u64, rows: u64, columns: u64) -> AffineAccess {
        AffineAccess {
            op,
            width: 4,
            mask: LaneMask::FULL,
            lane_addresses: std::array::from_fn(|lane| 0x7000_0000_0000 + pitch * lane as u64),
            terms: vec![
                AffineTerm { coefficient: 32 * pitch as i64, count: rows },
                AffineTerm { coefficient: 4, count: columns },
            ],
        }
    }

    #[test]
    fn the_exact_sums_lie_within_the_bounds() {
        let rules = RuleSet::for_arch("9.0").expect("a rule set");
        for op in [Op::LOAD, Op::STORE] {
            for pitch in [2052, 4100, 8192, 12_292] {
                let accesses = [columns(op, pitch, 60, 500), columns(op, pitch + 4, 7, 3000)];
                let mut exact = Totals::default();
                for access in &accesses {
                    for index in 0..access.warps().expect("few warps") {
                        exact.add_times(&rules.count(&access.nth(index)), 1);
                    }
                }
                let estimate = estimate(&accesses, op, &rules).expect("an estimate");
                assert_eq!(estimate.sampled.of, 51_000);
                assert_eq!(estimate.sums.len(), 3);
                for ((field, sum), (_, bound)) in estimate.sums.iter().zip(&estimate.sampled.bounds)
                {
                    let exact = exact.get(*field).expect("counted");
                    let off = exact.abs_diff(*sum);
                    assert!(off <= *bound, "{field} of {op:?}, {pitch}: off {off}, bound {bound}");
                    let says_something = *bound < exact / 100;
                    assert!(says_something || *field != Field::TagWavefronts, "{bound} of {exact}");
                }
            }
        }
    }

    #[test]
    fn places_are_spread_over_all_warps() {
        for all in [1, 1000, u128::from(WARPS) * 3 + 17, 1 << 96] {
            let mut last = 0;
            for part in 0..WARPS {
                let at = place(part, all);
                assert!(at < all && at >= last, "{part} of {all}: {at} after {last}");
                last = at;
            }
            assert!(last >= all - all / u128::from(WARPS) - 1);
        }
    }

    #[test]
    fn nothing_gives_no_estimate() {
        let rules = RuleSet::for_arch("9.0").expect("a rule set");
        assert!(estimate(&[], Op::LOAD, &rules).is_none());
        assert!(estimate(&[columns(Op::LOAD, 4096, 0, 5)], Op::LOAD, &rules).is_none());
    }
}
