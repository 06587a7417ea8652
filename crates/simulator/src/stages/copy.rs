//! `cp.async`: from global to shared memory without a register between.
//!
//! The lines pass the tag stage as those of a load do. Then the lanes of each
//! tag wavefront pass the data banks in the groups of a load, reading at their
//! global address and writing at their shared one. On either side a bank serves
//! one lane a pass, also where two lanes read one word: nothing is broadcast.
//! A lane takes the first pass after those of all earlier lanes that it shares a
//! bank with, on the one side or the other. So a conflict of the source costs
//! what one of the target does, and both together no more than the worse.
//!
//! On an H200 (`2026-11-30/warps/operations` in `tests/hardware/h200`) this
//! agrees with `l1tex__data_pipe_lsu_wavefronts_mem_shared` and
//! `l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts` of all 90 recorded
//! copies of 4, 8 and 16 bytes, but for three wavefronts that every copy shows,
//! and one more of the instruction that commits the group.

use super::data::{Banks, Passage, words};
use super::{LaneSets, Lanes, request};
use crate::access::WARP_LANES;
use crate::rules::{CopyStage, DataStage, MAX_BANKS};

impl CopyStage {
    /// The groups of lanes and the passes that each takes. `target`: offsets in
    /// shared memory, whose banks are `shared`.
    pub(crate) fn pass(
        &self,
        data: &DataStage,
        shared: Banks,
        source: Lanes<'_>,
        target: &[u64; WARP_LANES],
        tag_wavefronts: &LaneSets,
    ) -> Passage {
        let mut passage = Passage::default();
        let mut turns = [0; WARP_LANES];
        for &wavefront in tag_wavefronts.as_slice() {
            let lanes = source.only(wavefront);
            let size = data.group.lanes(source.width as u8);
            for &group in request::split(lanes, size).as_slice() {
                let group = source.only(group);
                let passes = take_turns(data.banks(), shared, group, target, &mut turns);
                passage.push(group, passes, 1);
            }
        }
        if !source.mask.is_empty() {
            passage.total += self.extra_data_wavefronts;
        }
        passage.turns = Some(turns);
        passage
    }
}

/// Gives each lane of a group its turn, and returns how many there are.
fn take_turns(
    read: Banks,
    written: Banks,
    lanes: Lanes<'_>,
    target: &[u64; WARP_LANES],
    turns: &mut [u8; WARP_LANES],
) -> u32 {
    // The first turn that each bank has free, on each side.
    let mut free = [[0u8; MAX_BANKS as usize]; 2];
    let mut passes = 0;
    for (lane, address) in lanes.iter() {
        let sides = [(read, address), (written, target[lane])];
        let touched = |side: usize| {
            let (banks, address) = sides[side];
            words(address, lanes.width, banks.bytes).map(move |word| banks.bank(word) as usize)
        };
        let turn = (0..2)
            .flat_map(|side| touched(side).map(move |bank| (side, bank)))
            .map(|(side, bank)| free[side][bank])
            .max()
            .unwrap_or(0);
        for (side, free) in free.iter_mut().enumerate() {
            for bank in touched(side) {
                free[bank] = turn + 1;
            }
        }
        turns[lane] = turn;
        passes = passes.max(u32::from(turn) + 1);
    }
    passes
}
