//! Shared memory: one request, whose lanes pass the banks in groups.

use super::data::{Banks, Passage};
use super::{LaneSets, Lanes, request};
use crate::access::OpKind;
use crate::fast::{self, CountShared, SharedCounts};
use crate::rules::SharedMemory;

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
    pub(crate) fn pass(&self, kind: OpKind, lanes: Lanes<'_>) -> Option<Passage> {
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
