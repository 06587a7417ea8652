//! The uniform part of an affine set in its simplest form.

use alloc::vec::Vec;

use super::AffineTerm;

/// The uniform part in its simplest form: coefficients positive and ascending,
/// neighbours merged that count in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Uniform {
    /// The uniform part where all variables are 0, modulo 2⁶⁴.
    pub(super) base: u64,
    /// Coefficient (≥ 1) and count (≥ 2) of each variable.
    pub(super) terms: Vec<(u64, u64)>,
    /// How many choices of variables give each choice of `terms`.
    pub(super) multiplicity: u128,
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
        Self { base, terms: merge(kept), multiplicity }
    }

    /// Number of choices of `terms`.
    pub(super) fn choices(&self) -> u128 {
        self.terms.iter().fold(1, |n, term| n.saturating_mul(term.1.into()))
    }

    /// The largest `Σ coefficient·v`.
    pub(super) fn reach(&self) -> u128 {
        self.terms.iter().fold(0u128, |sum, &(coefficient, count)| {
            sum.saturating_add(u128::from(coefficient) * u128::from(count - 1))
        })
    }
}

/// Terms (coefficient, count) that stand for the same sums, with neighbours
/// merged that count in a row, the largest counts first: solving for these
/// leaves the fewest choices to go through.
pub(super) fn merge(mut terms: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    terms.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (coefficient, count) in terms {
        if let Some(last) = merged.last_mut()
            && last.0.checked_mul(last.1) == Some(coefficient)
            && let Some(product) = last.1.checked_mul(count)
        {
            last.1 = product;
        } else {
            merged.push((coefficient, count));
        }
    }
    merged.sort_unstable_by_key(|&(_, count)| core::cmp::Reverse(count));
    merged
}

/// Choices of the variables that [`solutions`](super::congruence::solutions)
/// goes through one by one.
pub(super) fn loops(terms: &[(u64, u64)]) -> u128 {
    terms.iter().skip(2).fold(1, |n, term| n.saturating_mul(term.1.into()))
}

/// Calls `visit` with every value of `base + Σ coefficient·v`, modulo 2⁶⁴.
pub(super) fn for_each_choice(terms: &[(u64, u64)], base: u64, visit: &mut impl FnMut(u64)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

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
}
