//! The tag and data stages of an access whose lines are known.

use super::lane_ops::CHUNK;
use super::lines::Lines;
use super::{FastRules, LaneOps, Passing, Stages};
use crate::access::WARP_LANES;

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

/// The tag and data stages; `None` of a store that leaves wavefronts when it has
/// gathered the first: their timing is up to the stages.
#[inline(always)]
pub(super) fn stages<const P: usize>(
    ops: impl LaneOps,
    rules: &FastRules,
    lines: &Lines<P>,
    passing: Passing,
) -> Option<Stages> {
    let mut banks = tag_banks(ops, &lines.index, lines.firsts, rules.hash);
    let tag_wavefronts = depth(banks);
    if !passing.gathers_all(tag_wavefronts) {
        return None;
    }
    let mut result = Stages { tag_wavefronts, ..Stages::default() };
    if let Passing::Store { .. } = passing {
        for part in &lines.words {
            let most = ops.most_shared(&ops.select(lines.firsts, part, &[0; WARP_LANES]));
            result.data_wavefronts += most;
            result.groups += u32::from(most != 0);
        }
        return Some(result);
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
    Some(result)
}
