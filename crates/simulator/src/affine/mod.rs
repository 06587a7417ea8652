//! Sets of warp accesses whose addresses are affine, counted without looking
//! at each of them.
//!
//! A kernel's access `in[blockIdx.x * 256 + threadIdx.x + 1024 * j]` is one
//! pattern of 32 lane addresses, moved as a whole by `1024·blockIdx.x` bytes,
//! by `128` for each warp of a block, by `4096·j` for each turn of a loop. An
//! [`AffineAccess`] is that set: one pattern, and a list of variables each with
//! its coefficient and its range.
//!
//! How far the whole warp is moved, the *uniform part* `Σ coefficient·v`,
//! decides what a warp counts, and it does so in one of two ways:
//!
//! - **by period**: requests, sectors, tags and bytes depend on the addresses
//!   modulo the line size only ([`Field::is_periodic`]). The number of warps
//!   for each residue of the uniform part is exact integer arithmetic; one
//!   representative warp is counted for each residue (`residues.rs`).
//! - **by carries**: the stages of CC 9.0 hash all address bits, but by XOR,
//!   and an XOR of all addresses by a constant on line bits changes no count.
//!   So what matters of the upper bits is only how a carry out of the lower
//!   ones changes them for some lanes and not for others (`carries.rs`). The
//!   exception are stores of more tag wavefronts than are gathered, where it
//!   can matter which bank is which (`banks.rs`): these are enumerated.
//!
//! Both take a time that does not depend on the ranges of the variables. Where
//! the second would need too many representatives, and the set is too large to
//! be enumerated, the fields are absent and [`Stages`] says why.
//!
//! ```
//! use coalescope_simulator::{AffineAccess, AffineTerm, LaneMask, Op, RuleSet, Stages};
//!
//! // out[i] = …, floats, one float past an aligned base: 2^35 warps.
//! let access = AffineAccess {
//!     op: Op::STORE,
//!     width: 4,
//!     mask: LaneMask::FULL,
//!     lane_addresses: std::array::from_fn(|lane| 0x7000_0000_0004 + 4 * lane as u64),
//!     terms: vec![AffineTerm { coefficient: 128, count: 1 << 35 }],
//! };
//! let counted = access.count(&RuleSet::for_arch("9.0").unwrap(), 1 << 16)?;
//! assert_eq!(counted.totals.sectors, Some(5 << 35));
//! assert_eq!(counted.totals.tags, Some(2 << 35));
//! assert!(matches!(counted.stages, Stages::Exact { .. }));
//! # Ok::<(), coalescope_simulator::AffineError>(())
//! ```

mod banks;
mod carries;
mod columns;
mod congruence;
mod residues;
#[cfg(test)]
mod tests;
mod uniform;

use alloc::vec::Vec;
use core::fmt;

use crate::access::{LaneMask, Op, Space, WARP_LANES, WarpAccess};
use crate::rules::{RuleSet, TransactionRule};
use crate::totals::{Field, Totals};

/// A variable that moves all lanes alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AffineTerm {
    /// Bytes that one step of the variable moves the warp.
    pub coefficient: i64,
    /// The variable runs over 0..count.
    pub count: u64,
}

/// The set of warp accesses
/// `{ lane_addresses[l] + Σ terms[k].coefficient · v[k] : 0 ≤ v[k] < terms[k].count }`,
/// each with the same operation, width and mask. Two choices of `v` are two
/// accesses even where they give the same addresses. Addresses are taken modulo
/// 2⁶⁴.
///
/// A `cp.async` is counted on its global side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffineAccess {
    /// The operation.
    pub op: Op,
    /// Bytes a lane.
    pub width: u8,
    /// The lanes that take part.
    pub mask: LaneMask,
    /// Byte address of each lane with all variables 0; those of inactive lanes
    /// mean nothing.
    pub lane_addresses: [u64; WARP_LANES],
    /// The variables.
    pub terms: Vec<AffineTerm>,
}

/// The counts of an [`AffineAccess`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffineCounts {
    /// Exact sums over the whole set. The fields without a period
    /// ([`Field::is_periodic`]) are absent unless `stages` is
    /// [`Stages::Exact`].
    pub totals: Totals,
    /// How the fields without a period fared.
    pub stages: Stages,
}

/// What became of the fields that have no period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stages {
    /// They are in the totals, exact, or the rule set has none for this
    /// operation.
    Exact {
        /// Representative warps that were counted for them.
        representatives: u64,
    },
    /// They are absent: every way would count more warps than the budget.
    OverBudget {
        /// Warps that the cheapest way would count, where that is known.
        needed: u128,
        /// What the caller allowed.
        budget: u64,
    },
}

/// Why an [`AffineAccess`] cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AffineError {
    /// More than [`MAX_WARPS`] warps.
    TooManyWarps,
    /// An active lane's address is no multiple of the width.
    MisalignedLane {
        /// The lane.
        lane: u8,
        /// Its address.
        address: u64,
        /// Bytes a lane.
        width: u8,
    },
    /// A coefficient is no multiple of the width.
    MisalignedTerm {
        /// Index of the term.
        term: usize,
        /// Its coefficient.
        coefficient: i64,
        /// Bytes a lane.
        width: u8,
    },
    /// The rule set's period is too long to go through, in bytes.
    LongPeriod(u64),
}

/// The largest set that is counted, in warps: 2⁹⁶. With at most 2¹⁰ bytes a
/// warp every sum stays far inside 128 bits.
pub const MAX_WARPS: u128 = 1 << 96;

/// The longest period that is gone through, in bytes.
const MAX_PERIOD: u64 = 1 << 16;

impl fmt::Display for AffineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyWarps => f.write_str("the access stands for more than 2^96 warps"),
            Self::MisalignedLane { lane, address, width } => {
                write!(
                    f,
                    "lane {lane}: address {address:#x} is no multiple of the width, {width} B"
                )
            }
            Self::MisalignedTerm { term, coefficient, width } => write!(
                f,
                "term {term}: coefficient {coefficient} is no multiple of the width, {width} B"
            ),
            Self::LongPeriod(period) => write!(
                f,
                "the rule set's counts repeat only every {period} B; at most {MAX_PERIOD} B can be counted in closed form"
            ),
        }
    }
}

impl core::error::Error for AffineError {}

impl AffineAccess {
    /// Number of warp accesses in the set.
    pub fn warps(&self) -> Result<u128, AffineError> {
        // A variable without values empties the set, however large the others.
        if self.terms.iter().any(|term| term.count == 0) {
            return Ok(0);
        }
        self.terms
            .iter()
            .try_fold(1u128, |warps, term| warps.checked_mul(term.count.into()))
            .filter(|&warps| warps <= MAX_WARPS)
            .ok_or(AffineError::TooManyWarps)
    }

    /// The access with its whole warp moved by `uniform` bytes, modulo 2⁶⁴.
    pub fn moved(&self, uniform: u64) -> WarpAccess {
        WarpAccess {
            op: self.op,
            width: self.width,
            mask: self.mask,
            addresses: self.lane_addresses.map(|address| address.wrapping_add(uniform)),
            shared_addresses: None,
        }
    }

    /// The `index`-th of the set's accesses, the first variable running fastest;
    /// `index` is less than [`AffineAccess::warps`].
    pub fn nth(&self, mut index: u128) -> WarpAccess {
        let mut uniform = 0u64;
        for term in &self.terms {
            let count = u128::from(term.count.max(1));
            let value = (index % count) as u64;
            index /= count;
            uniform = uniform.wrapping_add((term.coefficient as u64).wrapping_mul(value));
        }
        self.moved(uniform)
    }

    /// The exact sum of `rules.count` over the set.
    ///
    /// What the period fixes takes a time that does not depend on the ranges
    /// of the variables. For the other fields at most `budget` representative
    /// warps are counted; where that does not do, they are absent.
    pub fn count(&self, rules: &RuleSet, budget: u64) -> Result<AffineCounts, AffineError> {
        let warps = self.warps()?;
        self.check_alignment()?;
        let mut totals = self.periodic(rules, warps)?;
        let missing = Field::ALL.into_iter().any(|f| self.enumerated(f) && totals.get(f).is_some());
        if !missing {
            return Ok(AffineCounts { totals, stages: Stages::Exact { representatives: 0 } });
        }
        let line_bytes = rules.data().cache.map(|cache| cache.line_bytes);
        let mut plan = carries::Plan::cheapest(self, line_bytes);
        let in_budget = |plan: &carries::Plan| plan.representatives() <= u128::from(budget);
        let mut counted = None;
        if in_budget(&plan) {
            counted = plan.count(self, rules);
            if counted.is_none() {
                plan = carries::Plan::by_choices(self);
                counted = in_budget(&plan).then(|| plan.count(self, rules)).flatten();
            }
        }
        let stages = if let Some((all, representatives)) = counted {
            totals = all;
            Stages::Exact { representatives }
        } else {
            for field in Field::ALL.into_iter().filter(|&field| self.enumerated(field)) {
                totals.set(field, None);
            }
            Stages::OverBudget { needed: plan.representatives(), budget }
        };
        Ok(AffineCounts { totals, stages })
    }

    /// Whether `field` needs more than the residues.
    fn enumerated(&self, field: Field) -> bool {
        !field.is_periodic(self.op)
    }

    /// The sums by residues; only those of periodic fields are right.
    fn periodic(&self, rules: &RuleSet, warps: u128) -> Result<Totals, AffineError> {
        let period = rules.period(self.op);
        if period > MAX_PERIOD {
            return Err(AffineError::LongPeriod(period));
        }
        let mut totals = Totals::default();
        if warps != 0 {
            let weights = residues::warps_by_residue(&self.terms, period);
            for (residue, &weight) in (0u64..).zip(&weights).filter(|(_, weight)| **weight != 0) {
                totals.add_times(&rules.count(&self.moved(residue)), weight);
            }
        }
        Ok(totals)
    }

    /// Counting assumes what the scenario and `warp` check: accesses aligned to
    /// their width.
    fn check_alignment(&self) -> Result<(), AffineError> {
        let width = self.width;
        let aligned = |bytes: u64| width == 0 || bytes.is_multiple_of(u64::from(width));
        for lane in self.mask.lanes() {
            let address = self.lane_addresses[lane];
            if !aligned(address) {
                return Err(AffineError::MisalignedLane { lane: lane as u8, address, width });
            }
        }
        for (index, term) in self.terms.iter().enumerate() {
            if term.count > 1 && !aligned(term.coefficient.unsigned_abs()) {
                let coefficient = term.coefficient;
                return Err(AffineError::MisalignedTerm { term: index, coefficient, width });
            }
        }
        Ok(())
    }
}

impl RuleSet {
    /// Moving all lanes of an access by a multiple of this many bytes never
    /// changes a field that [`Field::is_periodic`] names: the largest of the
    /// blocks that the rule set cuts memory into. All of them are powers of
    /// two.
    pub fn period(&self, op: Op) -> u64 {
        let data = self.data();
        if op.space == Space::Shared {
            return data.shared.as_ref().map_or(1, |shared| {
                u64::from(shared.banks)
                    * u64::from(shared.bank_bytes)
                    * u64::from(shared.merged_rows)
            });
        }
        let line = data.cache.map_or(1, |cache| u64::from(cache.line_bytes));
        let block = match &data.transactions {
            None => 1,
            Some(TransactionRule::InOrder { segments, fallback_bytes }) => {
                segments.iter().map(|segment| segment.bytes).fold(*fallback_bytes, u32::max)
            }
            Some(TransactionRule::Shrinking { segments, smallest_bytes }) => {
                segments.iter().map(|segment| segment.bytes).fold(*smallest_bytes, u32::max)
            }
            Some(TransactionRule::Blocks { bytes, except }) => {
                except.iter().map(|entry| entry.bytes).fold(*bytes, u32::max)
            }
        };
        line.max(u64::from(block))
    }
}
