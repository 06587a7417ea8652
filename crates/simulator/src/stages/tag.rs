//! The tag stage: each line that a request touches is looked up once, in the
//! tag bank that a hash of its address selects.
//!
//! What was measured on an H200 (driver 580, CUDA 13.0, Nsight Compute 2025.3;
//! `tests/hardware/h200/warp-truth`):
//!
//! - There are 4 banks, each taking one line a wavefront, in the order of the
//!   lines' first lanes. So a request passes in as many wavefronts as the
//!   fullest bank has lines: `l1tex__t_output_wavefronts` agrees on every
//!   recorded load and store.
//! - The bank is linear in the address bits (an XOR of some of them for each
//!   bit of the bank number). Therefore an XOR of all addresses by a constant
//!   exchanges banks and changes no count of this stage.
//! - The formulas in print, ⌈lines/4⌉ and ⌈(lines + 2)/4⌉, hold only when the
//!   hash happens to spread the lines evenly: 32 lines 4 KiB apart may pass in
//!   8 wavefronts or in 32.

use super::{LaneSets, Lanes};
use crate::access::WARP_LANES;
use crate::rules::TagStage;

/// Most banks that a hash of 5 bits selects.
pub(crate) const MAX_TAG_BANKS: usize = 32;

impl TagStage {
    /// The tag bank of a line, given its index (address ÷ line size).
    #[inline]
    pub fn bank(&self, line: u64) -> u32 {
        let bit = |(bit, mask): (usize, &u64)| ((line & mask).count_ones() & 1) << bit;
        self.hash.iter().enumerate().map(bit).sum()
    }

    /// Number of banks.
    pub fn banks(&self) -> u32 {
        1 << self.hash.len()
    }

    /// The wavefronts of a load or store.
    pub(crate) fn wavefronts(&self, lanes: Lanes<'_>, line_shift: u32) -> LaneSets {
        let mut wavefronts = LaneSets::default();
        let mut depth = [0u8; MAX_TAG_BANKS];
        // The lines seen so far, with the wavefront of each.
        let mut seen = [(0u64, 0u8); WARP_LANES];
        let mut lines = 0;
        for (lane, address) in lanes.iter() {
            let line = address >> line_shift;
            let known = seen[..lines].iter().find(|entry| entry.0 == line);
            let wavefront = match known {
                Some(&(_, wavefront)) => wavefront,
                None => {
                    let depth = &mut depth[self.bank(line) as usize % MAX_TAG_BANKS];
                    seen[lines] = (line, *depth);
                    lines += 1;
                    *depth += 1;
                    *depth - 1
                }
            };
            wavefronts.insert(wavefront as usize, lane);
        }
        wavefronts
    }
}
