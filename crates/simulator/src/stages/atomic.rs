//! Reductions and atomics in the tag stage: rounds instead of wavefronts.
//!
//! As for loads each tag bank takes one line a round, in lane order. But a
//! lane also waits while any earlier lane that is still pending has the same
//! tag bank and the same offset in its line. The rest of the address is not
//! compared, so two lanes can wait for each other that touch different words:
//! a cheap test of what could be a same-address conflict.
//!
//! `l1tex__t_sectors` and `l1tex__t_set_accesses` count the sectors and lines of
//! each round, so that those that several rounds touch count several times. On
//! an H200 this agrees with all 488 recorded reductions and atomics of 4, 8 and
//! 16 bytes, whatever they do and on whatever type (`warp-truth` and
//! `2026-11-30/warps` in `tests/hardware/h200`). Compare-and-swap looks up a tag
//! for each half line: its two operands fill the packet to L2 twice as fast.

use super::tag::MAX_TAG_BANKS;
use super::{LaneSets, Lanes};
use crate::access::{LaneMask, WARP_LANES};
use crate::rules::TagStage;

/// The rounds of a reduction or atomic. Each tag covers `1 << tag_shift` bytes.
pub(crate) fn rounds(
    tag: &TagStage,
    lanes: Lanes<'_>,
    line_shift: u32,
    tag_shift: u32,
) -> LaneSets {
    // What a lookup of its tag covers.
    let mut tagged = [0; WARP_LANES];
    // Tag bank and offset in the line: all that the test for a conflict sees.
    let mut key = [u64::MAX; WARP_LANES];
    let mut of_bank = [LaneMask::EMPTY; MAX_TAG_BANKS];
    for (lane, address) in lanes.iter() {
        tagged[lane] = address >> tag_shift;
        let bank = tag.bank(address >> line_shift);
        key[lane] = u64::from(bank) << line_shift | address & ((1 << line_shift) - 1);
        of_bank[bank as usize % MAX_TAG_BANKS].0 |= 1 << lane;
    }
    // Of each lane, the earlier lanes that it waits for while they are pending.
    let mut waits_for = [0; WARP_LANES];
    for lane in lanes.mask.lanes() {
        for earlier in 0..lane {
            waits_for[lane] |= u32::from(key[earlier] == key[lane]) << earlier;
        }
    }
    let mut rounds = LaneSets::default();
    let mut pending = lanes.mask;
    while !pending.is_empty() {
        let mut served = LaneMask::EMPTY;
        for bank in &of_bank[..tag.banks() as usize] {
            let here = LaneMask(bank.0 & pending.0);
            // The bank's tag is that of its first pending lane.
            let Some(leader) = here.lanes().next() else { continue };
            for lane in here.lanes() {
                if tagged[lane] == tagged[leader] && waits_for[lane] & pending.0 == 0 {
                    served.0 |= 1 << lane;
                }
            }
        }
        rounds.push(served);
        pending.0 &= !served.0;
    }
    rounds
}
