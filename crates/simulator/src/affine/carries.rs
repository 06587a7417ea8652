//! What has no period, counted by the carries out of the lower address bits.
//!
//! Let the active lanes lie within 2ᵏ bytes, 2ᵏ at least a line, and let A be
//! the lowest lane's address. Split A = H·2ᵏ + L. Lane l, which lies dₗ < 2ᵏ
//! above, is at (H + carryₗ)·2ᵏ + (L + dₗ mod 2ᵏ), where carryₗ says whether
//! L + dₗ reaches 2ᵏ. An XOR of all addresses by H·2ᵏ changes no count, since
//! it is a constant on line bits. It leaves the lanes without carry at upper
//! bits 0 and those with carry at H xor (H + 1) = 2ᵗ⁺¹ − 1, where t is the
//! number of trailing ones of H. So a warp's counts are a function of L alone
//! where no lane carries, and of (L, t) where one does.
//!
//! That leaves at most 2ᵏ values of L, fewer where all coefficients share a
//! power of two, and at most 64 of t, however many warps there are. How many
//! warps fall on each is the number of solutions of a linear congruence modulo
//! a power of two, which [`solutions`] counts in closed form for two variables
//! and by going through the others.

use alloc::vec::Vec;

use super::residues::warps_by_residue;
use super::{AffineAccess, AffineTerm};
use crate::rules::RuleSet;
use crate::totals::Totals;

/// The most residues that are tabulated; 16 B each.
const MAX_TABLE: u128 = 1 << 22;

/// The uniform part in its simplest form: coefficients positive and ascending,
/// neighbours merged that count in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Uniform {
    /// The uniform part where all variables are 0, modulo 2⁶⁴.
    base: u64,
    /// Coefficient (≥ 1) and count (≥ 2) of each variable.
    terms: Vec<(u64, u64)>,
    /// How many choices of variables give each choice of `terms`.
    multiplicity: u128,
}

impl Uniform {
    /// The simplest form of a nonempty set of warps.
    pub(super) fn new(terms: &[AffineTerm]) -> Self {
        let mut base = 0u64;
        let mut multiplicity = 1u128;
        let mut kept: Vec<(u64, u64)> = Vec::new();
        for term in terms.iter().filter(|term| term.count > 1) {
            if term.coefficient == 0 {
                multiplicity *= u128::from(term.count);
                continue;
            }
            if term.coefficient < 0 {
                // Counting v from its other end makes the coefficient positive.
                let last = term.count - 1;
                base = base.wrapping_add((term.coefficient as u64).wrapping_mul(last));
            }
            kept.push((term.coefficient.unsigned_abs(), term.count));
        }
        kept.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (coefficient, count) in kept {
            if let Some(last) = merged.last_mut()
                && last.0.checked_mul(last.1) == Some(coefficient)
                && let Some(product) = last.1.checked_mul(count)
            {
                last.1 = product;
            } else {
                merged.push((coefficient, count));
            }
        }
        // Solving for the variables with the largest counts leaves the fewest
        // to go through.
        merged.sort_unstable_by_key(|&(_, count)| core::cmp::Reverse(count));
        Self { base, terms: merged, multiplicity }
    }

    /// Number of choices of `terms`.
    fn choices(&self) -> u128 {
        self.terms.iter().fold(1, |n, term| n.saturating_mul(term.1.into()))
    }

    /// Choices of the variables that [`solutions`] goes through.
    fn loops(&self) -> u128 {
        self.terms.iter().skip(2).fold(1, |n, term| n.saturating_mul(term.1.into()))
    }

    /// The largest `Σ coefficient·v`.
    fn reach(&self) -> u128 {
        self.terms.iter().fold(0u128, |sum, &(coefficient, count)| {
            sum.saturating_add(u128::from(coefficient) * u128::from(count - 1))
        })
    }
}

/// A way to count the fields without a period.
pub(super) struct Plan {
    uniform: Uniform,
    classes: Option<Classes>,
    representatives: u128,
}

/// The split of the lowest lane's address.
#[derive(Clone, Copy)]
struct Classes {
    /// k: bits of L.
    low_bits: u32,
    /// Address of the lowest lane with a uniform part of 0.
    lowest: u64,
    /// Distance from the lowest lane to the highest, bytes.
    span: u64,
    /// All coefficients are multiples of 2^`step_bits`.
    step_bits: u32,
}

impl Plan {
    /// The way with the fewest representatives to count a set that is not
    /// empty.
    pub(super) fn cheapest(access: &AffineAccess, line_bytes: Option<u32>) -> Self {
        let uniform = Uniform::new(&access.terms);
        let choices = uniform.choices();
        let classes = line_bytes.and_then(|line_bytes| Classes::new(access, &uniform, line_bytes));
        match classes.map(|classes| (classes, classes.representatives(&uniform))) {
            Some((classes, representatives)) if representatives < choices => {
                Self { uniform, classes: Some(classes), representatives }
            }
            _ => Self { uniform, classes: None, representatives: choices },
        }
    }

    /// The way by classes of carries, where it is open.
    #[cfg(test)]
    pub(super) fn by_classes(access: &AffineAccess, line_bytes: u32) -> Option<Self> {
        let uniform = Uniform::new(&access.terms);
        let classes = Classes::new(access, &uniform, line_bytes)?;
        let representatives = classes.representatives(&uniform);
        Some(Self { uniform, classes: Some(classes), representatives })
    }

    /// Upper bound of the warps to be counted, variables gone through included.
    pub(super) fn representatives(&self) -> u128 {
        self.representatives
    }

    /// The sums over the set, and the warps that were counted for them.
    pub(super) fn count(&self, access: &AffineAccess, rules: &RuleSet) -> (Totals, u64) {
        let mut totals = Totals::default();
        let mut representatives = 0u64;
        let mut add = |uniform: u64, weight: u128| {
            let weight = weight * self.uniform.multiplicity;
            if weight != 0 {
                representatives += 1;
                totals.add_times(&rules.count(&access.moved(uniform)), weight);
            }
        };
        match &self.classes {
            Some(classes) => classes.for_each(&self.uniform, &mut add),
            None => for_each_choice(&self.uniform.terms, self.uniform.base, &mut |uniform| {
                add(uniform, 1);
            }),
        }
        (totals, representatives)
    }
}

impl Classes {
    /// `None` where the table would be too large. `line_bytes` is a power of
    /// two, as every rule set's is.
    fn new(access: &AffineAccess, uniform: &Uniform, line_bytes: u32) -> Option<Self> {
        let lanes = || access.mask.lanes().map(|lane| access.lane_addresses[lane]);
        let (lowest, highest) = (lanes().min().unwrap_or(0), lanes().max().unwrap_or(0));
        let span = highest - lowest;
        let low_bits = (u64::BITS - span.leading_zeros()).max(line_bytes.trailing_zeros());
        let step_bits = uniform
            .terms
            .iter()
            .map(|term| term.0.trailing_zeros())
            .min()
            .map_or(low_bits, |bits| bits.min(low_bits));
        let lowest = lowest.wrapping_add(uniform.base);
        let table = 1u128 << (low_bits - step_bits);
        (low_bits < u64::BITS && table <= MAX_TABLE).then_some(Self {
            low_bits,
            lowest,
            span,
            step_bits,
        })
    }

    /// Upper bound of the classes, times the variables gone through for each.
    fn representatives(&self, uniform: &Uniform) -> u128 {
        let table = 1u128 << (self.low_bits - self.step_bits);
        let straddling = (u128::from(self.span) >> self.step_bits) + 1;
        let reach = uniform.reach() >> self.low_bits;
        let trailing_ones = u128::from(u128::BITS - reach.leading_zeros() + 2);
        (table + straddling.min(table) * trailing_ones).saturating_mul(uniform.loops())
    }

    /// Calls `add` with a representative uniform part and the number of choices
    /// of `uniform.terms` in its class.
    fn for_each(&self, uniform: &Uniform, add: &mut impl FnMut(u64, u128)) {
        let Self { low_bits, lowest, span, step_bits } = *self;
        // Weights by the low bits of the uniform part, in steps.
        let steps: Vec<AffineTerm> = uniform
            .terms
            .iter()
            .map(|&(coefficient, count)| AffineTerm {
                coefficient: (coefficient >> step_bits) as i64 & i64::MAX,
                count,
            })
            .collect();
        let table = warps_by_residue(&steps, 1 << (low_bits - step_bits));
        let low_mask = (1u64 << low_bits) - 1;
        for (step, &weight) in (0u64..).zip(&table).filter(|(_, weight)| **weight != 0) {
            let low = lowest.wrapping_add(step << step_bits) & low_mask;
            if low + span <= low_mask {
                add(low.wrapping_sub(lowest).wrapping_add(uniform.base), weight);
                continue;
            }
            // Upper bits with at least t trailing ones; those with exactly t
            // are the difference to the next.
            let mut at_least = weight;
            for trailing in 0..=u64::BITS - low_bits {
                let bits = low_bits + trailing + 1;
                let more = if bits > u64::BITS {
                    0
                } else {
                    let ones = low_ones(trailing + 1) << low_bits | low;
                    solutions(&uniform.terms, ones.wrapping_sub(lowest), bits)
                };
                if at_least != more {
                    let address = low_ones(trailing) << low_bits | low;
                    add(address.wrapping_sub(lowest).wrapping_add(uniform.base), at_least - more);
                }
                at_least = more;
                if at_least == 0 {
                    break;
                }
            }
        }
    }
}

/// The number with its `n` lowest bits set; `n` ≤ 64.
fn low_ones(n: u32) -> u64 {
    u64::MAX.checked_shr(u64::BITS - n).unwrap_or(0)
}

/// Calls `visit` with every value of `base + Σ coefficient·v`, modulo 2⁶⁴.
fn for_each_choice(terms: &[(u64, u64)], base: u64, visit: &mut impl FnMut(u64)) {
    match terms.split_first() {
        None => visit(base),
        Some((&(coefficient, count), rest)) => {
            let mut value = base;
            for _ in 0..count {
                for_each_choice(rest, value, visit);
                value = value.wrapping_add(coefficient);
            }
        }
    }
}

/// Number of choices of `terms` (coefficient, count) with
/// `Σ coefficient·v ≡ rest (mod 2^bits)`, 1 ≤ `bits` ≤ 64.
///
/// Closed form in the first two terms; the others are gone through.
pub(super) fn solutions(terms: &[(u64, u64)], rest: u64, bits: u32) -> u128 {
    let term = |index: usize| terms.get(index).copied().unwrap_or((0, 1));
    let mut sum = 0;
    for_each_choice(terms.get(2..).unwrap_or(&[]), 0, &mut |others| {
        sum += pairs(term(0), term(1), rest.wrapping_sub(others), bits);
    });
    sum
}

/// [`solutions`] of two terms: solved for one, whose value then must lie below
/// its count; the other's values for which it does are counted by
/// [`hits_below`].
fn pairs(first: (u64, u64), second: (u64, u64), rest: u64, bits: u32) -> u128 {
    let mask = low_ones(bits);
    let zeros = |coefficient: u64| (coefficient & mask).trailing_zeros().min(bits);
    let (first, second) =
        if zeros(first.0) <= zeros(second.0) { (first, second) } else { (second, first) };
    let shift = zeros(first.0);
    if rest & low_ones(shift) != 0 {
        return 0;
    }
    if shift == bits {
        // Neither moves anything modulo 2^bits.
        return u128::from(first.1) * u128::from(second.1);
    }
    let mask = low_ones(bits - shift);
    let modulus = u128::from(mask) + 1;
    let inverse = odd_inverse(first.0 >> shift);
    let start = inverse.wrapping_mul(rest >> shift) & mask;
    let step = inverse.wrapping_mul(second.0 >> shift).wrapping_neg() & mask;
    let (count, others) = (u128::from(first.1), u128::from(second.1));
    let whole = others * (count / modulus);
    whole + hits_below(count % modulus, start.into(), step.into(), others, modulus)
}

/// Number of x in 0..n with `(start + step·x) mod modulus < limit`;
/// start, step, limit < modulus ≤ 2⁶⁴, n < 2⁶⁴.
fn hits_below(limit: u128, start: u128, step: u128, n: u128, modulus: u128) -> u128 {
    // With y = start + step·x + modulus: ⌊y/modulus⌋ − ⌊(y − limit)/modulus⌋ is
    // 1 exactly where y mod modulus < limit.
    floor_sum(n, modulus, step, start + modulus).wrapping_sub(floor_sum(
        n,
        modulus,
        step,
        start + modulus - limit,
    ))
}

/// `Σ_{x < n} ⌊(a·x + b) / m⌋` modulo 2¹²⁸, by Euclid's algorithm; n ≤ 2⁶⁴,
/// a < m ≤ 2⁶⁴, b < 2m.
fn floor_sum(mut n: u128, mut m: u128, mut a: u128, mut b: u128) -> u128 {
    let mut sum = 0u128;
    loop {
        if a >= m {
            let pairs =
                if n.is_multiple_of(2) { n / 2 * n.wrapping_sub(1) } else { (n - 1) / 2 * n };
            sum = sum.wrapping_add(pairs.wrapping_mul(a / m));
            a %= m;
        }
        if b >= m {
            sum = sum.wrapping_add(n.wrapping_mul(b / m));
            b %= m;
        }
        let top = a * n + b;
        if top < m {
            return sum;
        }
        n = top / m;
        b = top % m;
        core::mem::swap(&mut m, &mut a);
    }
}

/// The inverse of an odd number modulo 2⁶⁴, by Newton's iteration: each step
/// doubles the number of right bits, and `odd` itself is right in three.
fn odd_inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn negative_and_chained_terms_merge() {
        let terms = [
            AffineTerm { coefficient: 1024, count: 7 },
            AffineTerm { coefficient: 0, count: 5 },
            AffineTerm { coefficient: -128, count: 8 },
            AffineTerm { coefficient: 3, count: 1 },
        ];
        let uniform = Uniform::new(&terms);
        assert_eq!(uniform.terms, vec![(128, 56)]);
        assert_eq!(uniform.base, 0u64.wrapping_sub(128 * 7));
        assert_eq!(uniform.multiplicity, 5);
    }

    #[test]
    fn inverses() {
        for odd in [1u64, 3, 5, 0xdead_beef, u64::MAX] {
            assert_eq!(odd.wrapping_mul(odd_inverse(odd)), 1);
        }
    }

    #[test]
    fn whole_word_moduli_do_not_overflow() {
        // v·1 ≡ rest (mod 2^64) has one solution among 2^64 − 1 values but one.
        let all = u64::MAX;
        assert_eq!(solutions(&[(1, all)], 17, 64), 1);
        assert_eq!(solutions(&[(1, all)], all, 64), 0);
        assert_eq!(solutions(&[(1, all), (1, all)], 0, 64), u128::from(all) - 1);
        assert_eq!(solutions(&[(all, all), (all - 2, all)], 5, 64), u128::from(all) - 1);
        assert_eq!(solutions(&[], 0, 64), 1);
        assert_eq!(solutions(&[], 1 << 63, 64), 0);
    }

    proptest! {
        #[test]
        fn solutions_equal_enumeration(
            terms in proptest::collection::vec((0u64..200, 1u64..12), 0..4),
            rest in 0u64..256,
            bits in 1u32..8,
        ) {
            let mut expected = 0;
            for_each_choice(&terms, 0, &mut |sum| {
                expected += u128::from(sum & low_ones(bits) == rest & low_ones(bits));
            });
            prop_assert_eq!(solutions(&terms, rest, bits), expected);
        }
    }
}
