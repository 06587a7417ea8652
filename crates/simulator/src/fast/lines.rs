//! The distinct lines of lanes that ascend, and of lanes in any order.

use super::{LINE_BYTES, LINE_SHIFT, LaneOps, SECTOR_BYTES, Sets, WORD_BYTES, WORD_SHIFT};
use crate::access::{LaneMask, WARP_LANES};

/// The distinct lines of an access. A line stands at the place of its first
/// lane, so that their order is that of the lanes.
pub(super) struct Lines<const P: usize> {
    /// Line indices by lane, as the bits in which they differ from one of them;
    /// only those of `firsts` tell.
    pub(super) index: [u32; WARP_LANES],
    /// The first lane of each line.
    pub(super) firsts: u32,
    /// The words of each line that each of `P` lane groups touches, one bit
    /// each.
    pub(super) words: [[u32; WARP_LANES]; P],
}

/// The sets of lanes in ascending order of address, by comparing neighbours, and
/// the first lane of each line; `None` when they do not ascend, or by 2 GiB and
/// more.
#[inline(always)]
pub(super) fn ascending_sets(
    ops: impl LaneOps,
    addresses: &[u64; WARP_LANES],
) -> Option<(Sets, u32)> {
    let [first, second, third, fourth, ..] = *addresses;
    // Most accesses that do not ascend show it at once.
    if first > second || second > third || third > fourth {
        return None;
    }
    let steps = ops.steps(addresses)?;
    // Where a lane differs from its left neighbour in a bit of the line index or
    // above, it is the first of its line; and so on.
    let begin = |bytes: u32| ops.above(&steps, bytes - 1) | 1;
    let firsts = begin(LINE_BYTES);
    let sets = Sets {
        lines: firsts.count_ones(),
        sectors: begin(SECTOR_BYTES).count_ones(),
        starts: begin(1).count_ones(),
    };
    Some((sets, firsts))
}

/// The addresses with every inactive lane at the address of the active lane to
/// its left, and those before the first active lane at its address: lanes that
/// add nothing to any set.
#[inline(always)]
pub(super) fn fill(mask: LaneMask, addresses: &[u64; WARP_LANES]) -> [u64; WARP_LANES] {
    let mut filled = *addresses;
    let mut last = addresses[mask.0.trailing_zeros() as usize % WARP_LANES];
    for (lane, address) in filled.iter_mut().enumerate() {
        if mask.contains(lane) {
            last = *address;
        }
        *address = last;
    }
    filled
}

/// The lines of lanes of at most a word in ascending order, given the first lane
/// of each; `None` when they lie too far apart.
#[inline(always)]
pub(super) fn ascending_lines(
    ops: impl LaneOps,
    addresses: &[u64; WARP_LANES],
    firsts: u32,
) -> Option<Lines<1>> {
    let (index, far) = ops.lines(addresses, addresses[0] >> LINE_SHIFT);
    if far != 0 {
        return None;
    }
    let mut words = ops.words(addresses, 1);
    if firsts != u32::MAX {
        words = ops.join_runs(&words, &index);
    }
    Some(Lines { index, firsts, words: [words] })
}

/// The lines and sets of lanes in any order, which pass in groups of `group`;
/// `None` when they lie too far apart. `FINE` says whether lanes are narrower
/// than a word.
#[inline(always)]
pub(super) fn any_lines<const P: usize, const FINE: bool>(
    ops: impl LaneOps,
    mask: LaneMask,
    addresses: &[u64; WARP_LANES],
    width: u32,
    group: u32,
) -> Option<(Lines<P>, Sets)> {
    let group_shift = group.trailing_zeros();
    let base = addresses[mask.0.trailing_zeros() as usize % WARP_LANES] >> LINE_SHIFT;
    let (mut index, far) = ops.lines(addresses, base);
    if far & mask.0 != 0 {
        return None;
    }
    // The words of a lane at the start of a line.
    let lane_words = match width {
        0..=4 => 1u32,
        8 => 0b11,
        16 => 0xf,
        _ => 0xff,
    };
    let mut words_of = ops.words(addresses, lane_words);
    if mask != LaneMask::FULL {
        // Lanes that are off get a line of their own, and no words.
        let own = core::array::from_fn(|lane| 0xc000_0000 | lane as u32);
        index = ops.select(mask.0, &index, &own);
        words_of = ops.select(mask.0, &words_of, &[0; WARP_LANES]);
    }
    let words_of = words_of;
    let mut words = [words_of; P];
    if P > 1 {
        let lanes_of_group = ((1u64 << group) - 1) as u32;
        for (part, words) in words.iter_mut().enumerate() {
            let lanes = lanes_of_group << (part as u32 * group);
            *words = ops.select(lanes, &words_of, &[0; WARP_LANES]);
        }
    }

    let mut shared = ops.twins(&index) & mask.0;
    let mut firsts = mask.0;
    let mut alone = mask.0;
    let (mut sectors, mut starts) = (0, 0);
    while shared != 0 {
        let line = index[shared.trailing_zeros() as usize % WARP_LANES];
        let same = ops.equal(&index, line);
        shared &= !same;
        alone &= !same;
        let first = same.trailing_zeros() as usize % WARP_LANES;
        firsts &= !same | 1 << first;
        let mut bytes = 0u128;
        let mut rest = same;
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize % WARP_LANES;
            rest &= rest - 1;
            words[(lane >> group_shift) % P][first] |= words_of[lane];
            if FINE {
                bytes |= 1 << (addresses[lane] as u32 % LINE_BYTES);
            }
        }
        let all = words.iter().fold(0, |all, part| all | part[first]);
        sectors += sectors_of(all);
        starts += if FINE {
            bytes.count_ones()
        } else {
            all.count_ones() >> (width.trailing_zeros() - WORD_SHIFT)
        };
    }
    let alone = alone.count_ones();
    let sets =
        Sets { lines: firsts.count_ones(), sectors: sectors + alone, starts: starts + alone };
    Some((Lines { index, firsts, words }, sets))
}

/// Sectors of a line in which some words lie: groups of 8 bits that are not
/// empty.
#[inline(always)]
fn sectors_of(words: u32) -> u32 {
    const _: () = assert!(SECTOR_BYTES / WORD_BYTES == 8);
    let pairs = words | words >> 1;
    let quads = pairs | pairs >> 2;
    ((quads | quads >> 4) & 0x0101_0101).count_ones()
}
