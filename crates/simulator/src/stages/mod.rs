//! The memory pipeline, one file a stage.
//!
//! A warp instruction to global or local memory is split into requests
//! ([`request`]). Each request looks up its lines in the tag stage ([`tag`];
//! reductions and atomics pass it by a rule of their own, [`atomic`]), and its
//! lanes then pass through the banks of the data stage ([`data`]). Shared
//! memory has only the data stage ([`shared`]); asynchronous copies pass it from
//! one memory to the other ([`copy`]). Architectures before the
//! sectored cache turn a request into transactions ([`transaction`]).
//!
//! Every stage takes lanes and gives back which lanes go together, so that
//! counting and explaining read the same result.

pub(crate) mod atomic;
pub(crate) mod copy;
pub(crate) mod data;
pub(crate) mod drain;
pub(crate) mod request;
pub(crate) mod shared;
pub(crate) mod tag;
pub(crate) mod transaction;

use crate::access::{LaneMask, WARP_LANES};

/// The lanes of one access that stand at a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes<'a> {
    pub(crate) mask: LaneMask,
    pub(crate) addresses: &'a [u64; WARP_LANES],
    /// Bytes a lane, at least 1.
    pub(crate) width: u32,
}

impl Lanes<'_> {
    /// The active lanes with their addresses, in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = (usize, u64)> {
        self.mask.lanes().map(move |lane| (lane, self.addresses[lane]))
    }

    /// Those of the lanes that are in `mask`.
    pub(crate) fn only(self, mask: LaneMask) -> Self {
        Self { mask: LaneMask(self.mask.0 & mask.0), ..self }
    }

    /// Distinct blocks of `1 << shift` bytes in which a lane starts.
    pub(crate) fn distinct(self, shift: u32) -> u32 {
        let mut seen = [0; WARP_LANES];
        let mut count = 0;
        for (_, address) in self.iter() {
            let block = address >> shift;
            if !seen[..count].contains(&block) {
                seen[count] = block;
                count += 1;
            }
        }
        count as u32
    }
}

/// Disjoint, non-empty sets of lanes, in the order in which they pass a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneSets {
    sets: [LaneMask; WARP_LANES],
    len: usize,
}

impl LaneSets {
    /// Adds a set; an empty one drops out. Disjoint sets are at most 32.
    pub(crate) fn push(&mut self, mask: LaneMask) {
        if !mask.is_empty()
            && let Some(slot) = self.sets.get_mut(self.len)
        {
            *slot = mask;
            self.len += 1;
        }
    }

    /// Puts a lane into set number `index`, which is at most one past the last.
    pub(crate) fn insert(&mut self, index: usize, lane: usize) {
        if let Some(slot) = self.sets.get_mut(index) {
            slot.0 |= 1 << lane;
            self.len = self.len.max(index + 1);
        }
    }

    pub(crate) fn as_slice(&self) -> &[LaneMask] {
        &self.sets[..self.len]
    }

    pub(crate) fn count(&self) -> u32 {
        self.len as u32
    }
}
