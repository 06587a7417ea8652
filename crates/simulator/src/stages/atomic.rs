//! Reductions and atomics in the tag stage: rounds instead of wavefronts.
//!
//! As for loads each tag bank takes one line a round, in lane order. But a
//! lane also waits while any earlier lane that is still pending has the same
//! tag bank and the same offset in its line. The rest of the address is not
//! compared, so two lanes can wait for each other that touch different words:
//! a cheap test of what could be a same-address conflict.
//!
//! `l1tex__t_sectors` counts the sectors of each round, so that a sector that
//! several rounds touch counts several times. On an H200 this agrees with
//! every one of the 201 recorded 4- and 8-byte integer additions.

use super::tag::MAX_TAG_BANKS;
use super::{LaneSets, Lanes};
use crate::access::{LaneMask, WARP_LANES};
use crate::rules::TagStage;

/// The rounds of a reduction or atomic.
pub(crate) fn rounds(tag: &TagStage, lanes: Lanes<'_>, line_shift: u32) -> LaneSets {
    let mut line = [0; WARP_LANES];
    // Tag bank and offset in the line: all that the test for a conflict sees.
    let mut key = [u64::MAX; WARP_LANES];
    let mut of_bank = [LaneMask::EMPTY; MAX_TAG_BANKS];
    for (lane, address) in lanes.iter() {
        line[lane] = address >> line_shift;
        let bank = tag.bank(line[lane]);
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
            // The bank's line is that of its first pending lane.
            let Some(leader) = here.lanes().next() else { continue };
            for lane in here.lanes() {
                if line[lane] == line[leader] && waits_for[lane] & pending.0 == 0 {
                    served.0 |= 1 << lane;
                }
            }
        }
        rounds.push(served);
        pending.0 &= !served.0;
    }
    rounds
}
