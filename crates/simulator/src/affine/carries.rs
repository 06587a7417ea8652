//! What has no period, counted by the carries out of the lower address bits.
//!
//! Let the active lanes lie within 2ᵏ bytes, 2ᵏ at least a line, and let A be
//! the lowest lane's address. Split A = H·2ᵏ + L. Lane l, which lies dₗ < 2ᵏ
//! above, is at (H + carryₗ)·2ᵏ + (L + dₗ mod 2ᵏ), where carryₗ says whether
//! L + dₗ reaches 2ᵏ. An XOR of all addresses by H·2ᵏ changes no count, since
//! it is a constant on line bits; where it does (`banks.rs`), this way is not
//! open. It leaves the lanes without carry at upper
//! bits 0 and those with carry at H xor (H + 1) = 2ᵗ⁺¹ − 1, where t is the
//! number of trailing ones of H. So a warp's counts are a function of L alone
//! where no lane carries, and of (L, t) where one does.
//!
//! That leaves at most 2ᵏ values of L, fewer where all coefficients share a
//! power of two, and at most 64 of t, however many warps there are
//! ([`Classes`]). Lanes that lie whole rows apart, as in a walk down a column,
//! would have a large k; but then most bits of L are common to all lanes and
//! drop out as well ([`Columns`]).
//!
//! How many warps fall on each class is the number of solutions of a linear
//! congruence modulo a power of two, which [`solutions`] counts.

use alloc::vec::Vec;

use super::columns::Columns;
use super::congruence::{low_ones, solutions};
use super::residues::warps_by_residue;
use super::uniform::{Uniform, for_each_choice, loops};
use super::{AffineAccess, AffineTerm, banks};
use crate::rules::RuleSet;
use crate::totals::Totals;

/// The most sums of variables that are tabulated; 16 B each.
pub(super) const MAX_TABLE: u128 = 1 << 22;

/// A way to count the fields without a period.
pub(super) struct Plan {
    uniform: Uniform,
    way: Way,
    representatives: u128,
}

/// What the representatives are.
enum Way {
    /// Every choice of the variables.
    Choices,
    /// Classes of carries.
    Classes(Classes),
    /// Classes of carries of lanes that lie whole rows apart.
    Columns(Columns),
}

/// The lowest address of an active lane, and the distance to the highest.
pub(super) fn extent(access: &AffineAccess) -> (u64, u64) {
    let lanes = || access.mask.lanes().map(|lane| access.lane_addresses[lane]);
    let (lowest, highest) = (lanes().min().unwrap_or(0), lanes().max().unwrap_or(0));
    (lowest, highest - lowest)
}

/// log2 of the smallest power of two above `span`, at least `least`.
pub(super) fn bits_of(span: u64, least: u32) -> u32 {
    (u64::BITS - span.leading_zeros()).max(least)
}

/// Upper bound of the values that the number of trailing ones of the address
/// bits from `low_bits` on can take.
pub(super) fn trailing_ones(uniform: &Uniform, low_bits: u32) -> u128 {
    let reach = uniform.reach() >> low_bits.min(u128::BITS - 1);
    u128::from(u128::BITS - reach.leading_zeros() + 2)
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
        let all = Self::by_choices(access);
        let classes = line_bytes.and_then(|line_bytes| Self::by_classes(access, line_bytes));
        let columns = line_bytes.and_then(|line_bytes| Self::by_columns(access, line_bytes));
        let cheaper = |best: Self, other: Self| {
            if other.representatives < best.representatives { other } else { best }
        };
        classes.into_iter().chain(columns).fold(all, cheaper)
    }

    /// The way that is always open.
    pub(super) fn by_choices(access: &AffineAccess) -> Self {
        let uniform = Uniform::new(&access.terms);
        Self { representatives: uniform.choices(), way: Way::Choices, uniform }
    }

    /// The way by classes of carries, where it is open.
    pub(super) fn by_classes(access: &AffineAccess, line_bytes: u32) -> Option<Self> {
        let uniform = Uniform::new(&access.terms);
        let classes = Classes::new(access, &uniform, line_bytes)?;
        let representatives = classes.representatives(&uniform);
        Some(Self { uniform, way: Way::Classes(classes), representatives })
    }

    /// The way for lanes that lie whole rows apart, where it is open.
    pub(super) fn by_columns(access: &AffineAccess, line_bytes: u32) -> Option<Self> {
        let uniform = Uniform::new(&access.terms);
        let columns = Columns::new(access, &uniform, line_bytes)?;
        let representatives = columns.representatives(&uniform);
        Some(Self { uniform, way: Way::Columns(columns), representatives })
    }

    /// Upper bound of the warps to be counted, variables gone through included.
    pub(super) fn representatives(&self) -> u128 {
        self.representatives
    }

    /// The sums over the set, and the warps that were counted for them; `None`
    /// where a representative does not stand for its class because it matters
    /// which bank its lines are in.
    pub(super) fn count(&self, access: &AffineAccess, rules: &RuleSet) -> Option<(Totals, u64)> {
        let mut totals = Totals::default();
        let mut representatives = 0u64;
        let is_class = !matches!(self.way, Way::Choices);
        let mut stands_for_all = true;
        let mut add = |uniform: u64, weight: u128| {
            let weight = weight * self.uniform.multiplicity;
            if weight != 0 && stands_for_all {
                representatives += 1;
                let warp = access.moved(uniform);
                let counts = rules.count(&warp);
                stands_for_all = !(is_class && banks::matter(rules, &warp, &counts));
                totals.add_times(&counts, weight);
            }
        };
        match &self.way {
            Way::Classes(classes) => classes.for_each(&self.uniform, &mut add),
            Way::Columns(columns) => columns.for_each(&self.uniform, &mut add),
            Way::Choices => {
                for_each_choice(&self.uniform.terms, self.uniform.base, &mut |uniform| {
                    add(uniform, 1);
                })
            }
        }
        stands_for_all.then_some((totals, representatives))
    }
}

impl Classes {
    /// `None` where the table would be too large. `line_bytes` is a power of
    /// two, as every rule set's is.
    fn new(access: &AffineAccess, uniform: &Uniform, line_bytes: u32) -> Option<Self> {
        let (lowest, span) = extent(access);
        let low_bits = bits_of(span, line_bytes.trailing_zeros());
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
        let trailing_ones = trailing_ones(uniform, self.low_bits);
        (table + straddling.min(table) * trailing_ones).saturating_mul(loops(&uniform.terms))
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
