//! Carries of lanes that lie whole rows apart: a walk down a column.
//!
//! Let all distances between active lanes be multiples of 2ᵖ, more than a line,
//! and let the lanes lie within 2ᵏ bytes. Of the lowest lane's address
//! A = H·2ᵏ + M·2ᵖ + B·line + o, the lanes have B and o in common: adding a
//! multiple of 2ᵖ changes neither. B lies on line bits, so it drops out by an
//! XOR, as H does where no lane carries. What is left is the offset o in the
//! line, the row M, and, where M and the lanes' rows together reach 2ᵏ, the
//! number t of trailing ones of H.
//!
//! To count the warps of a class, the variables are told apart. Those whose
//! coefficient is a multiple of 2ᵖ move rows alone. Each of the others is split:
//! so many steps as make up a multiple of 2ᵖ become one step of a variable that
//! moves rows; what remains is short, and its sums are tabulated by o and by the
//! rows that they carry over. The rows' number then solves a congruence.

use alloc::vec;
use alloc::vec::Vec;

use super::AffineAccess;
use super::carries::{MAX_TABLE, bits_of, extent, trailing_ones};
use super::congruence::{low_ones, solutions};
use super::uniform::{Uniform, loops, merge};

/// The split of the lowest lane's address.
pub(super) struct Columns {
    /// log2 of the line size.
    line_bits: u32,
    /// p: all distances between lanes are multiples of 2ᵖ.
    row_bits: u32,
    /// k: the lanes lie within 2ᵏ.
    low_bits: u32,
    /// Address of the lowest lane with a uniform part of 0.
    lowest: u64,
    /// Distance from the lowest lane to the highest, in rows of 2ᵖ.
    span_rows: u64,
    /// Coefficients that are no multiples of 2ᵖ are multiples of this power.
    step_bits: u32,
    /// The set of warps, split up.
    parts: Vec<Part>,
}

/// A part of the set, with its variables told apart.
#[derive(Clone, Default)]
struct Part {
    /// Coefficient in bytes, and count, of the variables that move within rows.
    within: Vec<(u64, u64)>,
    /// Coefficient in rows, and count, of those that move rows.
    rows: Vec<(u64, u64)>,
    /// Rows that the whole part is moved.
    moved_rows: u64,
}

impl Part {
    /// Splits up one more variable: into one part, or two where its last steps
    /// are left over.
    fn split(&self, (coefficient, count): (u64, u64), row_bits: u32) -> Vec<Self> {
        let zeros = coefficient.trailing_zeros();
        let mut whole = self.clone();
        if zeros >= row_bits {
            whole.rows.push((coefficient >> row_bits, count));
            return vec![whole];
        }
        // So many steps move by whole rows: the coefficient's odd part.
        let steps = 1u64 << (row_bits - zeros);
        let (turns, rest) = (count / steps, count % steps);
        let mut left_over = self.clone();
        left_over.within.push((coefficient, rest));
        left_over.moved_rows =
            self.moved_rows.wrapping_add((coefficient >> zeros).wrapping_mul(turns));
        whole.within.push((coefficient, steps));
        whole.rows.push((coefficient >> zeros, turns));
        [(whole, turns), (left_over, rest)]
            .into_iter()
            .filter(|&(_, choices)| choices > 0)
            .map(|(part, _)| part)
            .collect()
    }

    /// Number of sums, in steps, that the table has to hold.
    fn table(&self, step_bits: u32) -> u128 {
        let reach = |&(coefficient, count): &(u64, u64)| {
            u128::from(coefficient >> step_bits) * u128::from(count - 1)
        };
        self.within.iter().map(reach).fold(1, u128::saturating_add)
    }
}

/// Warps by the rows that the sums carry over and by class of offset.
struct Counted<'a> {
    part: &'a Part,
    /// `by_carry[e][class]`.
    by_carry: Vec<Vec<u128>>,
}

impl Columns {
    /// `None` where the lanes lie closer, or where the tables would be too
    /// large.
    pub(super) fn new(access: &AffineAccess, uniform: &Uniform, line_bytes: u32) -> Option<Self> {
        let (lowest, span) = extent(access);
        let line_bits = line_bytes.trailing_zeros();
        let apart = access
            .mask
            .lanes()
            .fold(0, |apart, lane| apart | (access.lane_addresses[lane] - lowest));
        let row_bits = apart.trailing_zeros().min(u64::BITS - 1);
        let low_bits = bits_of(span, row_bits);
        // With one address for all lanes there are no rows, and no need.
        if apart == 0 || row_bits <= line_bits || low_bits >= u64::BITS {
            return None;
        }
        let step_bits =
            uniform.terms.iter().map(|term| term.0.trailing_zeros()).fold(row_bits, u32::min);
        let mut parts = vec![Part::default()];
        for &term in &uniform.terms {
            parts = parts.iter().flat_map(|part| part.split(term, row_bits)).collect();
            if parts.len() > 64 {
                return None;
            }
        }
        for part in &mut parts {
            part.rows = merge(core::mem::take(&mut part.rows));
        }
        let tables = parts.iter().map(|part| part.table(step_bits)).fold(0, u128::saturating_add);
        // A sum of bytes must stay in 63 bits.
        let fits = tables <= MAX_TABLE && tables << step_bits < 1 << 63;
        fits.then_some(Self {
            line_bits,
            row_bits,
            low_bits,
            lowest: lowest.wrapping_add(uniform.base),
            span_rows: span >> row_bits,
            step_bits,
            parts,
        })
    }

    /// Number of values of M.
    fn rows(&self) -> u64 {
        1 << (self.low_bits - self.row_bits)
    }

    /// Bits of the offset in a line that all warps have in common.
    fn common_bits(&self) -> u32 {
        self.step_bits.min(self.line_bits)
    }

    /// Number of values of o.
    fn offsets(&self) -> usize {
        1 << (self.line_bits - self.common_bits())
    }

    /// Upper bound of the classes, and of the congruences to be solved.
    pub(super) fn representatives(&self, uniform: &Uniform) -> u128 {
        let rows = u128::from(self.rows());
        let trailing_ones = trailing_ones(uniform, self.low_bits);
        let straddling = rows.min(self.span_rows.into());
        let levels = rows.saturating_add(straddling.saturating_mul(trailing_ones));
        let congruences = |part: &Part| {
            let carries = (part.table(self.step_bits) >> (self.row_bits - self.step_bits)) + 2;
            carries.saturating_mul(loops(&part.rows))
        };
        let congruences = self.parts.iter().map(congruences).fold(0, u128::saturating_add);
        levels.saturating_mul((self.offsets() as u128).saturating_add(congruences))
    }

    /// Calls `add` with a representative uniform part and the number of choices
    /// of `uniform.terms` in its class.
    pub(super) fn for_each(&self, uniform: &Uniform, add: &mut impl FnMut(u64, u128)) {
        let counted: Vec<Counted<'_>> = self.parts.iter().map(|part| self.tabulate(part)).collect();
        let upper_bits = self.low_bits - self.row_bits;
        let most = u64::BITS - self.low_bits;
        for row in 0..self.rows() {
            // Warps whose rows above `row` have at least `ones` trailing ones.
            let at_least = |ones: u32| {
                let target = low_ones(ones) << upper_bits | row;
                self.by_offset(&counted, target, upper_bits + ones)
            };
            let mut emit = |ones: u32, weights: &[u128]| {
                let rows = low_ones(ones) << upper_bits | row;
                for (offset, &weight) in weights.iter().enumerate() {
                    if weight != 0 {
                        let common = self.lowest & low_ones(self.common_bits());
                        let offset = (offset as u64) << self.common_bits() | common;
                        let address = rows << self.row_bits | offset;
                        add(address.wrapping_sub(self.lowest).wrapping_add(uniform.base), weight);
                    }
                }
            };
            let mut current = at_least(0);
            if row + self.span_rows < self.rows() {
                emit(0, &current);
                continue;
            }
            for ones in 0..=most {
                let next = if ones == most { vec![0; current.len()] } else { at_least(ones + 1) };
                let exactly: Vec<u128> =
                    current.iter().zip(&next).map(|(current, next)| current - next).collect();
                emit(ones, &exactly);
                current = next;
                if current.iter().all(|&weight| weight == 0) {
                    break;
                }
            }
        }
    }

    /// For each offset: warps whose row's `bits` lowest bits are `target`.
    fn by_offset(&self, counted: &[Counted<'_>], target: u64, bits: u32) -> Vec<u128> {
        let mut weights = vec![0u128; self.offsets()];
        for Counted { part, by_carry } in counted {
            let fixed = (self.lowest >> self.row_bits).wrapping_add(part.moved_rows);
            for (carry, offsets) in (0u64..).zip(by_carry) {
                if offsets.iter().all(|&warps| warps == 0) {
                    continue;
                }
                let rest = target.wrapping_sub(fixed).wrapping_sub(carry);
                let rows = solutions(&part.rows, rest, bits);
                for (weight, &warps) in weights.iter_mut().zip(offsets) {
                    *weight += warps * rows;
                }
            }
        }
        weights
    }

    /// The sums of the variables within rows, on top of the lowest address's
    /// place in its row.
    fn tabulate<'a>(&self, part: &'a Part) -> Counted<'a> {
        let mut sums = vec![1u128];
        for &(coefficient, count) in &part.within {
            sums = convolve(&sums, (coefficient >> self.step_bits) as usize, count as usize);
        }
        let start = self.lowest & low_ones(self.row_bits);
        let last = start + ((sums.len() as u64 - 1) << self.step_bits);
        let mut by_carry = vec![vec![0u128; self.offsets()]; (last >> self.row_bits) as usize + 1];
        for (step, warps) in (0u64..).zip(sums) {
            let place = start + (step << self.step_bits);
            let carry = (place >> self.row_bits) as usize;
            let offset = (place & low_ones(self.line_bits)) >> self.common_bits();
            by_carry[carry][offset as usize] += warps;
        }
        Counted { part, by_carry }
    }
}

/// `new[s] = Σ_{v < count} old[s − step·v]`, by a window that moves along every
/// step-th sum.
fn convolve(old: &[u128], step: usize, count: usize) -> Vec<u128> {
    let mut new = vec![0u128; old.len() + step * (count - 1)];
    let at = |index: usize| old.get(index).copied().unwrap_or(0);
    for sum in 0..new.len() {
        let before = if sum >= step { new[sum - step] } else { 0 };
        let left = if sum >= step * count { at(sum - step * count) } else { 0 };
        new[sum] = before + at(sum) - left;
    }
    new
}
