//! Pads and XOR swizzles of an array in shared memory, by trying them.
//!
//! An array is rows of `row_bytes`. A *pad* makes each row some elements longer.
//! A *swizzle* keeps the size and moves the columns of a row about: the number
//! of a column is XORed with bits of the number of its row. Both leave every
//! element where its row and column say, so the kernel touches the same elements
//! as before; what they cost is counted by the rule set, for every access that
//! the array gets.

use simulator::{Field, OpKind, RuleSet, Space, WARP_LANES, WarpAccess};

/// Longest pad that is tried, in elements: one bank cycle of 4-byte elements. A
/// pad of 32 words more is the same pad again.
pub const MOST_PAD: u32 = 32;

/// Rows of an array in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Offset of the array in the block's window, bytes.
    pub start: u64,
    /// Bytes of a row, at least 1.
    pub row_bytes: u64,
    /// Bytes of an element, at least 1.
    pub element_bytes: u64,
}

impl Rows {
    /// Where a byte lies once each row is `pad_bytes` longer; `None` where an
    /// access of `width` bytes would be torn apart by that.
    pub fn padded(&self, offset: u64, width: u64, pad_bytes: u64) -> Option<u64> {
        let from = offset.checked_sub(self.start)?;
        let (row, column) = (from / self.row_bytes, from % self.row_bytes);
        if column + width > self.row_bytes {
            return None;
        }
        offset.checked_add(row.checked_mul(pad_bytes)?)
    }

    /// Where a byte lies once the columns are swizzled; `None` where an access
    /// of `width` bytes would be torn apart by that.
    pub fn swizzled(&self, offset: u64, width: u64, swizzle: &Swizzle) -> Option<u64> {
        let from = offset.checked_sub(self.start)?;
        let (row, column) = (from / self.row_bytes, from % self.row_bytes);
        let (chunk, rest) = (column / swizzle.chunk_bytes, column % swizzle.chunk_bytes);
        if rest + width > swizzle.chunk_bytes {
            return None;
        }
        let moved = chunk ^ (row >> swizzle.row_shift & ((1 << swizzle.bits) - 1));
        let column = moved * swizzle.chunk_bytes + rest;
        Some(self.start + row * self.row_bytes + column)
    }
}

/// Column chunk `c` of row `r` goes to chunk `c ^ ((r >> row_shift) & (2^bits −
/// 1))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swizzle {
    /// Bytes that stay together: the widest access.
    pub chunk_bytes: u64,
    /// Low bits of the row's number that play no part.
    pub row_shift: u32,
    /// Bits of the row's number that do.
    pub bits: u32,
}

/// What one pad comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pad {
    /// Bank conflicts of all accesses together.
    Conflicts(u128),
    /// Rows would start where the widest access may not.
    Misaligns,
    /// An access reaches over the end of a row.
    Tears,
}

/// Every pad up to [`MOST_PAD`] elements, and what it comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PadSearch {
    /// Result for 1, 2, … [`MOST_PAD`] elements.
    pub pads: Vec<Pad>,
    /// Conflicts without any.
    pub before: u128,
}

impl PadSearch {
    /// The smallest pad without conflicts, in elements.
    pub fn smallest_free(&self) -> Option<u32> {
        let at = self.pads.iter().position(|pad| *pad == Pad::Conflicts(0))?;
        u32::try_from(at + 1).ok()
    }

    /// The pad with the fewest conflicts, the smaller of equals, in elements.
    pub fn least(&self) -> Option<(u32, u128)> {
        let mut least = None;
        for (pad, elements) in self.pads.iter().zip(1..) {
            if let Pad::Conflicts(conflicts) = *pad
                && least.is_none_or(|(_, fewest)| conflicts < fewest)
            {
                least = Some((elements, conflicts));
            }
        }
        least
    }

    /// The smallest pad that the width of an access forbids, in elements.
    pub fn first_misaligned(&self) -> Option<u32> {
        let at = self.pads.iter().position(|pad| *pad == Pad::Misaligns)?;
        u32::try_from(at + 1).ok()
    }
}

/// The accesses of an array, each with how often it occurs.
pub type Accesses = [(WarpAccess, u128)];

/// The widest access, bytes.
pub fn widest(accesses: &Accesses) -> u64 {
    accesses.iter().map(|(access, _)| u64::from(access.width)).max().unwrap_or(1)
}

/// `access` with its addresses in shared memory moved; `None` where one of them
/// cannot be.
pub fn moved(access: &WarpAccess, place: impl Fn(u64) -> Option<u64>) -> Option<WarpAccess> {
    let mut moved = *access;
    for lane in access.mask.lanes() {
        moved.addresses[lane] = place(access.addresses[lane])?;
    }
    Some(moved)
}

/// Bank conflicts of all accesses together once their addresses are moved.
/// `None`: an access cannot be, or the rule set does not define conflicts.
fn conflicts(
    rules: &RuleSet,
    accesses: &Accesses,
    place: impl Fn(u64, u64) -> Option<u64>,
) -> Option<u128> {
    accesses.iter().try_fold(0_u128, |sum, (access, times)| {
        let there = moved(access, |offset| place(offset, u64::from(access.width)))?;
        let conflicts = Field::BankConflicts.of(&rules.count(&there))?;
        Some(sum + u128::from(conflicts) * times)
    })
}

/// Bytes of one word of each bank of shared memory. A rule set that says nothing of
/// shared memory counts no conflicts; there it is a word of 4 B for each lane.
pub fn cycle_bytes(rules: &RuleSet) -> u64 {
    let shared = rules.data().shared.as_ref();
    shared.map_or(4 * WARP_LANES as u64, |shared| {
        u64::from(shared.banks) * u64::from(shared.bank_bytes)
    })
}

/// Whether an access is one that a rule set counts bank conflicts of.
pub fn is_countable(access: &WarpAccess) -> bool {
    access.op.space == Space::Shared && access.op.kind != OpKind::AsyncCopy
}

/// Tries every pad. `None` where the rule set defines no bank conflicts for one
/// of the accesses.
///
/// ```
/// use coalescope_advise::banks::{Rows, pads};
/// use simulator::{Op, RuleSet, WarpAccess};
///
/// let rules = RuleSet::for_arch("9.0").unwrap();
/// // A column of a tile of 32 × 32 floats.
/// let column = WarpAccess::new(Op::SHARED_LOAD, 4, std::array::from_fn(|lane| lane as u64 * 128));
/// let rows = Rows { start: 0, row_bytes: 128, element_bytes: 4 };
/// let search = pads(&rules, &rows, 4, &[(column, 1)]).unwrap();
/// assert_eq!(search.smallest_free(), Some(1));
/// ```
pub fn pads(rules: &RuleSet, rows: &Rows, width: u64, accesses: &Accesses) -> Option<PadSearch> {
    let before = conflicts(rules, accesses, |offset, _| Some(offset))?;
    let pads = (1..=u64::from(MOST_PAD))
        .map(|elements| {
            let pad_bytes = elements * rows.element_bytes;
            if !(rows.row_bytes + pad_bytes).is_multiple_of(width) {
                return Pad::Misaligns;
            }
            let place = |offset, width| rows.padded(offset, width, pad_bytes);
            conflicts(rules, accesses, place).map_or(Pad::Tears, Pad::Conflicts)
        })
        .collect();
    Some(PadSearch { pads, before })
}

/// The XOR swizzle with the fewest conflicts, the simplest of equals, and these.
/// `None`: rows are no power of two of chunks, an access does not fit into a
/// chunk, or none is better than no swizzle.
pub fn swizzle(
    rules: &RuleSet,
    rows: &Rows,
    width: u64,
    accesses: &Accesses,
) -> Option<(Swizzle, u128)> {
    let chunk_bytes = width.max(rows.element_bytes);
    let chunks = rows.row_bytes / chunk_bytes.max(1);
    if !chunks.is_power_of_two() || chunks < 2 || !rows.row_bytes.is_multiple_of(chunk_bytes) {
        return None;
    }
    let mut best: Option<(Swizzle, u128)> = None;
    let mut fewest = conflicts(rules, accesses, |offset, _| Some(offset))?;
    // All bits of the column first: `c ^ r` is the simplest to write.
    for row_shift in 0..=5 {
        for bits in (1..=chunks.trailing_zeros().min(10)).rev() {
            let candidate = Swizzle { chunk_bytes, row_shift, bits };
            let place = |offset, width| rows.swizzled(offset, width, &candidate);
            let Some(conflicts) = conflicts(rules, accesses, place) else { continue };
            if conflicts < fewest {
                fewest = conflicts;
                best = Some((candidate, conflicts));
            }
            if fewest == 0 {
                return best;
            }
        }
    }
    best
}
