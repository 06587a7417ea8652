//! The tag and data stages of an access whose lines are known.

use super::lane_ops::CHUNK;
use super::lines::Lines;
use super::{FastRules, LaneOps, Passing, Stages, WORD_BYTES};
use crate::access::WARP_LANES;
use crate::rules::DataStage;
use crate::stages::drain::Batches;

/// The lines of each tag bank as masks, from the mask of all lines.
///
/// Only the low 32 bits of the hash are looked at: lines for which the others
/// matter lie too far apart for the fast path, or have these bits in common,
/// which exchanges banks but keeps them apart.
#[inline(always)]
pub(super) fn tag_banks(
    ops: impl LaneOps,
    lines: &[u32; WARP_LANES],
    all: u32,
    hash: [u64; 2],
) -> [u32; 4] {
    let [low, high] = ops.parities(lines, hash.map(|mask| mask as u32));
    [all & !low & !high, all & low & !high, all & !low & high, all & low & high]
}

/// The number of lines in the fullest bank.
#[inline(always)]
pub(super) fn depth([a, b, c, d]: [u32; 4]) -> u32 {
    let most = |one: u32, other: u32| one.count_ones().max(other.count_ones());
    most(a, b).max(most(c, d))
}

/// The tag and data stages. `line` is the index of the line from which the
/// others are said to differ.
#[inline(always)]
pub(super) fn stages<const P: usize>(
    ops: impl LaneOps,
    rules: &FastRules,
    lines: &Lines<P>,
    width: u32,
    passing: Passing,
    line: u64,
) -> Stages {
    let mut banks = tag_banks(ops, &lines.index, lines.firsts, rules.hash);
    let tag_wavefronts = depth(banks);
    let mut result = Stages { tag_wavefronts, ..Stages::default() };
    if let Passing::Store { gather } = passing {
        let mut ends = 0;
        if !passing.gathers_all(tag_wavefronts) {
            ends = batches(rules, banks, width, gather, line).ends();
        }
        let any = |banks: [u32; 4]| banks[0] | banks[1] | banks[2] | banks[3];
        // Without batches all pass together. No closure passes them: it would
        // not be inlined, and not be vectorised.
        let mut begin = 0;
        loop {
            let mut gathered = lines.firsts;
            if ends != 0 {
                let end = ends.trailing_zeros() + 1;
                let before = any(banks);
                for _ in begin..end {
                    banks = banks.map(|bank| bank & bank.wrapping_sub(1));
                }
                gathered = before & !any(banks);
                begin = end;
                ends &= ends - 1;
            }
            for part in &lines.words {
                let most = ops.most_shared(&ops.select(gathered, part, &[0; WARP_LANES]));
                result.data_wavefronts += most;
                result.groups += u32::from(most != 0);
            }
            if ends == 0 {
                break;
            }
        }
        return result;
    }
    // One entry more than lanes: the line of an empty bank, which has no words.
    let mut words = [[0; WARP_LANES + 1]; P];
    for (words, of_lines) in words.iter_mut().zip(&lines.words) {
        words[..WARP_LANES].copy_from_slice(of_lines);
    }
    let mut wavefront = 0;
    while wavefront < tag_wavefronts {
        // What each bank gives in some wavefronts.
        let mut given = [[[0; CHUNK]; 4]; P];
        for chunk in 0..CHUNK.min((tag_wavefronts - wavefront) as usize) {
            for (index, bank) in banks.iter_mut().enumerate() {
                let line = bank.trailing_zeros() as usize;
                *bank &= bank.wrapping_sub(1);
                for (given, words) in given.iter_mut().zip(&words) {
                    given[index][chunk] = words[line];
                }
            }
        }
        for words in &given {
            let (wavefronts, groups) = ops.most_shared_of_four(words);
            result.data_wavefronts += wavefronts;
            result.groups += groups;
        }
        wavefront += CHUNK as u32;
    }
    result
}

/// What of a store's tag wavefronts passes together.
#[inline]
fn batches(rules: &FastRules, banks: [u32; 4], width: u32, gather: u32, line: u64) -> Batches {
    // The lines are known by how they differ from this one.
    let bit = |mask: u64| (line & mask).count_ones() as usize & 1;
    let exchange = bit(rules.hash[0]) | bit(rules.hash[1]) << 1;
    let mut lines = [0u8; 4];
    for (bank, of_bank) in banks.iter().enumerate() {
        lines[bank ^ exchange] = of_bank.count_ones() as u8;
    }
    let (Some(stage), Some(known)) = (&rules.data, &rules.batches) else {
        return Batches::default();
    };
    known[usize::from(width < WORD_BYTES)]
        .of(lines, || drained(rules, stage, &lines, width, gather))
}

/// Kept apart, since it is long and seldom asked for.
#[inline(never)]
fn drained(
    rules: &FastRules,
    stage: &DataStage,
    lines: &[u8; 4],
    width: u32,
    gather: u32,
) -> Batches {
    let lines = &lines[..lines.len().min(rules.banks as usize)];
    stage.store_drain.batches(lines, gather.max(1) as usize, stage.write(width))
}
