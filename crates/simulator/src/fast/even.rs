//! 32 lanes a constant stride apart.

use super::wavefronts::{depth, tag_banks};
use super::{
    FastRules, LINE_BYTES, LINE_SHIFT, LaneOps, Passing, ROW_BYTES, SECTOR_SHIFT, Sets, Stages,
    WORD_BYTES, WORD_SHIFT, group_lanes,
};
use crate::access::WARP_LANES;

/// Most lines that go through the tag stage one by one; above, all at once are
/// quicker.
const FEW_LINES: u32 = 4;

/// The sets of 32 lanes a constant stride apart.
#[inline(always)]
pub(super) fn sets(first: u64, stride: u32) -> Sets {
    let last = first.wrapping_add(u64::from(stride) * (WARP_LANES as u64 - 1));
    let blocks = |shift: u32| {
        // A stride below the block size leaves out no block on its way.
        if stride >> shift != 0 {
            WARP_LANES as u32
        } else {
            (last >> shift).wrapping_sub(first >> shift) as u32 + 1
        }
    };
    let starts = if stride == 0 { 1 } else { WARP_LANES as u32 };
    Sets { lines: blocks(LINE_SHIFT), sectors: blocks(SECTOR_SHIFT), starts }
}

/// The stages of 32 lanes a constant stride apart; `None` where no short cut
/// applies.
#[inline(always)]
pub(super) fn stages(
    ops: impl LaneOps,
    rules: &FastRules,
    addresses: &[u64; WARP_LANES],
    stride: u32,
    lines: u32,
    width: u32,
    passing: Passing,
) -> Option<Stages> {
    const ROW_WORDS: u32 = ROW_BYTES / WORD_BYTES;
    if stride == width {
        let stages = gapless(rules, addresses[0], lines, width, passing);
        return passing.gathers_all(stages.tag_wavefronts).then_some(stages);
    }
    let words = stride >> WORD_SHIFT;
    // Every bank has a word of one lane at most, whatever the wavefront.
    let spread = words % 2 == 1;
    // Lines have their words in the same banks: all of them, or all but the
    // first and last, which share out one line's.
    let stacked = words.is_power_of_two() && words < ROW_WORDS || words.is_multiple_of(ROW_WORDS);
    if width != WORD_BYTES || !(spread || stacked) || words == 0 {
        return None;
    }
    let (tag_wavefronts, wavefront_of_last) = tags(ops, rules, addresses, stride, lines)?;
    if !passing.gathers_all(tag_wavefronts) {
        return None;
    }
    let groups = match passing {
        Passing::Load => tag_wavefronts,
        Passing::Store { .. } => 1,
    };
    let data_wavefronts = if spread {
        groups
    } else {
        let shared_out = lines % ROW_WORDS == words % ROW_WORDS + 1;
        lines - u32::from(shared_out && passing.batch(wavefront_of_last) == 0)
    };
    Some(Stages { tag_wavefronts, data_wavefronts, groups })
}

/// Tag wavefronts of 32 lanes a constant stride apart, and the wavefront of the
/// last line; `None` when they lie too far apart.
#[inline(always)]
fn tags(
    ops: impl LaneOps,
    rules: &FastRules,
    addresses: &[u64; WARP_LANES],
    stride: u32,
    lines: u32,
) -> Option<(u32, u32)> {
    let base = addresses[0] >> LINE_SHIFT;
    if lines <= FEW_LINES {
        let mut queue = TagQueue::new(rules);
        let mut last = 0;
        for line in 0..lines {
            last = queue.push(base.wrapping_add(u64::from(line)));
        }
        return Some((queue.wavefronts(), last));
    }
    let index = if stride < LINE_BYTES {
        // A stride below the line size leaves out no line on its way.
        let first = base as u32;
        first.checked_add(WARP_LANES as u32)?;
        core::array::from_fn(|line| first.wrapping_add(line as u32))
    } else {
        let (index, far) = ops.lines(addresses, base);
        if far != 0 {
            return None;
        }
        index
    };
    let last = 1 << (lines.clamp(1, WARP_LANES as u32) - 1);
    let banks = tag_banks(ops, &index, last | (last - 1), rules.hash);
    let of_last = banks
        .iter()
        .fold(0, |of_last, &bank| if bank & last != 0 { bank.count_ones() - 1 } else { of_last });
    Some((depth(banks), of_last))
}

/// Which wavefront each line takes, line after line.
struct TagQueue {
    hash: [u64; 2],
    /// Lines in each bank, 8 bits a bank.
    depth: u32,
}

impl TagQueue {
    #[inline(always)]
    fn new(rules: &FastRules) -> Self {
        Self { hash: rules.hash, depth: 0 }
    }

    #[inline(always)]
    fn push(&mut self, line: u64) -> u32 {
        let [low, high] = self.hash;
        let bank = (line & low).count_ones() & 1 | ((line & high).count_ones() & 1) << 1;
        let wavefront = self.depth >> (8 * bank) & 0xff;
        self.depth += 1 << (8 * bank);
        wavefront
    }

    #[inline(always)]
    fn wavefronts(&self) -> u32 {
        let [a, b, c, d] = self.depth.to_le_bytes();
        u32::from(a.max(b).max(c.max(d)))
    }
}

/// The stages of lanes that fill a block of memory without gaps: a lane group
/// takes at most a row of banks, each bank once. A group that two lines share
/// passes twice where these are not in one batch.
#[inline(always)]
fn gapless(rules: &FastRules, first: u64, lines: u32, width: u32, passing: Passing) -> Stages {
    let base = first >> LINE_SHIFT;
    let mut groups = WARP_LANES as u32 / group_lanes(width);
    // A line for each group, or, misaligned, one line more.
    let misaligned = lines > groups;
    let mut queue = TagQueue::new(rules);
    let mut before = passing.batch(queue.push(base));
    for line in 1..lines {
        let batch = passing.batch(queue.push(base.wrapping_add(u64::from(line))));
        groups += u32::from(misaligned && batch != before);
        before = batch;
    }
    Stages { tag_wavefronts: queue.wavefronts(), data_wavefronts: groups, groups }
}
