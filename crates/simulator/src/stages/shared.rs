//! Shared memory: one request, whose lanes pass the banks in groups.

use super::data::{Banks, Passage};
use super::{LaneSets, Lanes, request};
use crate::access::{AtomicOp, Op, OpKind, ValueKind, WARP_LANES};
use crate::fast::{self, CountShared, SharedCounts};
use crate::rules::{MAX_BANKS, SharedAtomics, SharedMemory};

impl SharedMemory {
    pub(crate) fn banks(&self) -> Banks {
        Banks {
            count: self.banks,
            bytes: self.bank_bytes,
            merged: 0,
            merged_rows: self.merged_rows,
        }
    }

    /// The requests of an instruction.
    pub(crate) fn requests(&self, lanes: Lanes<'_>) -> LaneSets {
        request::split(lanes, self.request.lanes(lanes.width as u8))
    }

    /// The lanes as they pass: with the bytes that the load really moves.
    pub(crate) fn passing<'a>(&self, op: &Op, lanes: Lanes<'a>) -> Lanes<'a> {
        match op.value {
            ValueKind::LowWord if self.narrows_half_used_loads => {
                Lanes { width: lanes.width / 2, ..lanes }
            }
            _ => lanes,
        }
    }

    /// Lanes that pass together.
    pub(crate) fn group_lanes(&self, kind: OpKind, lanes: Lanes<'_>) -> u32 {
        let special = self.load_groups.iter().find(|special| {
            kind == OpKind::Load
                && u32::from(special.width) == lanes.width
                && (special.when_pairs_agree.is_empty()
                    || special.when_pairs_agree.iter().any(|&d| pairs_agree(lanes, d.into())))
        });
        match special {
            Some(special) => u32::from(special.lanes),
            None => self.group.lanes(lanes.width as u8),
        }
    }

    /// The counts, where [`crate::fast`] has them.
    pub(crate) fn pass_fast(&self, kind: OpKind, lanes: Lanes<'_>) -> Option<SharedCounts> {
        if (self.banks, self.bank_bytes, self.merged_rows, self.broadcast) != (32, 4, 1, true)
            || !self.defines(kind, lanes.width)
            || lanes.mask.is_empty()
        {
            return None;
        }
        let group = self.group_lanes(kind, lanes);
        if group < fast::LEAST_GROUP {
            return None;
        }
        let Lanes { mask, addresses, width } = lanes;
        fast::vectorized(CountShared { mask, addresses, width, group })
    }

    fn defines(&self, kind: OpKind, width: u32) -> bool {
        matches!(kind, OpKind::Load | OpKind::Store)
            && self.widths.iter().any(|&known| u32::from(known) == width)
    }

    /// The groups and their wavefronts; `None` where the rule set does not
    /// define them.
    pub(crate) fn pass(&self, op: &Op, lanes: Lanes<'_>) -> Option<Passage> {
        let kind = op.kind;
        if let OpKind::Reduction(atomic) | OpKind::Atomic(atomic) = kind {
            return self.atomic.as_ref()?.pass(self.banks(), atomic, op.value, lanes);
        }
        if !self.defines(kind, lanes.width) {
            return None;
        }
        let mut passage = Passage::default();
        let size = self.group_lanes(kind, lanes);
        for &group in request::split(lanes, size).as_slice() {
            let group = lanes.only(group);
            if !self.broadcast && !broadcast_is_settled(group, self.bank_bytes) {
                return None;
            }
            passage.push(group, self.banks().wavefronts(group), 1);
        }
        Some(passage)
    }
}

impl SharedAtomics {
    /// Lanes that update words of one bank take turns, those of one word
    /// included: each needs the result of the one before. On an H200
    /// (`2026-11-30/warps/operations` in `tests/hardware/h200`) this agrees
    /// with all 30 recorded integer atomics of 4 bytes. Of floats, and of 8
    /// bytes, the compiler makes loops of loads and compare-and-swaps, so that
    /// one instruction of the source is no request.
    fn pass(
        &self,
        banks: Banks,
        atomic: AtomicOp,
        value: ValueKind,
        lanes: Lanes<'_>,
    ) -> Option<Passage> {
        let integer = matches!(value, ValueKind::Bits | ValueKind::Unsigned | ValueKind::Signed);
        if !integer || !self.widths.iter().any(|&width| u32::from(width) == lanes.width) {
            return None;
        }
        let passes = match atomic {
            AtomicOp::Cas => u32::from(self.cas_passes),
            _ => 1,
        };
        let mut depth = [0u8; MAX_BANKS as usize];
        let mut turns = [0; WARP_LANES];
        for (lane, address) in lanes.iter() {
            let depth = &mut depth[banks.bank(address / u64::from(banks.bytes)) as usize];
            turns[lane] = *depth;
            *depth += 1;
        }
        let deepest = u32::from(depth.into_iter().max().unwrap_or(0));
        let mut passage = Passage::default();
        // The second operand goes with the first: conflicts occur once.
        let conflicts = deepest.saturating_sub(1);
        passage.push(lanes, passes * deepest, passes * deepest - conflicts);
        passage.turns = Some(turns);
        Some(passage)
    }
}

/// The lanes of every pair `distance` apart have one address, or at most one
/// of them is on.
fn pairs_agree(lanes: Lanes<'_>, distance: usize) -> bool {
    lanes.iter().all(|(lane, address)| {
        let other = lane ^ distance;
        !lanes.mask.contains(other) || lanes.addresses[other] == address
    })
}

/// Without a general broadcast: whether all lanes share one word, or no two do.
fn broadcast_is_settled(lanes: Lanes<'_>, bank_bytes: u32) -> bool {
    let words = lanes.distinct(bank_bytes.trailing_zeros());
    words <= 1 || words == lanes.mask.count()
}
