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

use super::{LaneSets, Lanes};
use crate::access::LaneMask;
use crate::rules::TagStage;

/// The rounds of a reduction or atomic.
pub(crate) fn rounds(tag: &TagStage, lanes: Lanes<'_>, line_shift: u32) -> LaneSets {
    let mut rounds = LaneSets::default();
    let offset_mask = (1u64 << line_shift) - 1;
    let mut pending = lanes.mask;
    while !pending.is_empty() {
        let mut served = LaneMask::EMPTY;
        for lane in pending.lanes() {
            let address = lanes.addresses[lane];
            let (line, offset) = (address >> line_shift, address & offset_mask);
            let bank = tag.bank(line);
            let earlier = LaneMask(pending.0 & ((1u32 << lane) - 1));
            // The bank's line is that of its first pending lane.
            let leads = |other: &usize| tag.bank(lanes.addresses[*other] >> line_shift) == bank;
            let leader = earlier.lanes().find(leads);
            let same_line = leader.is_none_or(|other| lanes.addresses[other] >> line_shift == line);
            let waits = earlier
                .lanes()
                .filter(leads)
                .any(|other| lanes.addresses[other] & offset_mask == offset);
            if same_line && !waits {
                served.0 |= 1 << lane;
            }
        }
        rounds.push(served);
        pending.0 &= !served.0;
    }
    rounds
}
