//! The split of a warp instruction into groups of consecutive lanes: requests
//! before the tag stage, half- and quarter-warps before the data stage.
//!
//! On CC ≥ 7.0 an instruction is one request whatever its width; on an H200
//! every one of the recorded 1,943 accesses to global memory counted exactly
//! one (`tests/hardware/h200/warp-truth`).

use super::{LaneSets, Lanes};
use crate::access::{LaneMask, WARP_LANES};

/// The lanes in groups of `size` consecutive lane numbers; groups without an
/// active lane drop out.
pub(crate) fn split(lanes: Lanes<'_>, size: u32) -> LaneSets {
    let mut groups = LaneSets::default();
    let size = (size as usize).clamp(1, WARP_LANES);
    let group = (u32::MAX >> (WARP_LANES - size)) as u64;
    for first in (0..WARP_LANES).step_by(size) {
        groups.push(LaneMask(lanes.mask.0 & (group << first) as u32));
    }
    groups
}
