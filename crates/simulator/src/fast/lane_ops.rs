//! What the fast path asks of all 32 lanes at once.
//!
//! Every question has its answer in plain Rust here, as the default of a trait;
//! [`super::avx2`] answers the same ones with the processor's vectors, and a
//! test holds the two equal. Masks of lanes have one bit a lane, lane 0 lowest.

// Lane by lane over several arrays is what each of these loops says.
#![allow(clippy::needless_range_loop)]

use super::{LINE_SHIFT, WORD_SHIFT};
use crate::access::WARP_LANES;

/// One number a lane.
pub(crate) type Lanes32 = [u32; WARP_LANES];

/// Tag wavefronts whose words are compared at once.
pub(crate) const CHUNK: usize = 8;

/// Operations over the lanes of a warp.
pub(crate) trait LaneOps: Copy {
    /// Whether every lane lies `stride` bytes above its left neighbour.
    #[inline(always)]
    fn is_even(self, addresses: &[u64; WARP_LANES], stride: u64) -> bool {
        let mut wrong = 0;
        let mut expected = addresses[0];
        for &address in addresses {
            wrong |= address ^ expected;
            expected = expected.wrapping_add(stride);
        }
        wrong == 0
    }

    /// The bits in which the address of each lane differs from that of its left
    /// neighbour; `None` unless all ascend, by less than 2 GiB.
    #[inline(always)]
    fn steps(self, addresses: &[u64; WARP_LANES]) -> Option<Lanes32> {
        let mut wide = 0;
        let mut steps = [0; WARP_LANES];
        for lane in 0..WARP_LANES {
            let (left, here) = (addresses[lane.saturating_sub(1)], addresses[lane]);
            wide |= here.wrapping_sub(left) | (here ^ left);
            steps[lane] = (here ^ left) as u32;
        }
        (wide >> 31 == 0).then_some(steps)
    }

    /// The lanes whose number is above `limit`; all are below 2³¹.
    #[inline(always)]
    fn above(self, numbers: &Lanes32, limit: u32) -> u32 {
        let mut mask = 0;
        for lane in 0..WARP_LANES {
            mask |= u32::from(numbers[lane] > limit) << lane;
        }
        mask
    }

    /// The line of each lane, as the bits in which its index differs from
    /// `base` (the low 32 of them), and the lanes for which these take more than
    /// 31 bits.
    #[inline(always)]
    fn lines(self, addresses: &[u64; WARP_LANES], base: u64) -> (Lanes32, u32) {
        let (mut lines, mut far) = ([0; WARP_LANES], 0);
        for lane in 0..WARP_LANES {
            let line = addresses[lane] >> LINE_SHIFT ^ base;
            lines[lane] = line as u32;
            far |= u32::from(line >> 31 != 0) << lane;
        }
        (lines, far)
    }

    /// The words that each lane touches in its line, one bit each, if a lane at
    /// the start of a line touches `lane_words`.
    #[inline(always)]
    fn words(self, addresses: &[u64; WARP_LANES], lane_words: u32) -> Lanes32 {
        let mut words = [0; WARP_LANES];
        for lane in 0..WARP_LANES {
            words[lane] = lane_words << (addresses[lane] as u32 >> WORD_SHIFT & 31);
        }
        words
    }

    /// The numbers `on` of the lanes in `mask`, `off` of the others.
    #[inline(always)]
    fn select(self, mask: u32, on: &Lanes32, off: &Lanes32) -> Lanes32 {
        let mut chosen = [0; WARP_LANES];
        for lane in 0..WARP_LANES {
            chosen[lane] = if mask >> lane & 1 == 1 { on[lane] } else { off[lane] };
        }
        chosen
    }

    /// The lanes that have this number.
    #[inline(always)]
    fn equal(self, numbers: &Lanes32, number: u32) -> u32 {
        let mut mask = 0;
        for lane in 0..WARP_LANES {
            mask |= u32::from(numbers[lane] == number) << lane;
        }
        mask
    }

    /// At least one lane of each two that have the same number. (It may name
    /// lanes that share theirs with nobody, but few.)
    #[inline(always)]
    fn twins(self, numbers: &Lanes32) -> u32 {
        const HALF: usize = WARP_LANES / 2;
        // Of each two lanes, one finds the other at most half a turn ahead.
        let mut turned = [0; WARP_LANES + HALF];
        turned[..WARP_LANES].copy_from_slice(numbers);
        turned[WARP_LANES..].copy_from_slice(&numbers[..HALF]);
        let mut twins = [0; WARP_LANES];
        for ahead in 1..=HALF {
            for lane in 0..WARP_LANES {
                twins[lane] |= u32::from(numbers[lane] == turned[lane + ahead]);
            }
        }
        self.above(&twins, 0)
    }

    /// The words with, at each lane, those of the lanes to its right that have
    /// its line; lanes of one line are neighbours.
    #[inline(always)]
    fn join_runs(self, words: &Lanes32, lines: &Lanes32) -> Lanes32 {
        let mut joined = *words;
        for reach in [1, 2, 4, 8, 16] {
            for lane in 0..WARP_LANES - reach {
                let same = lines[lane] == lines[lane + reach];
                joined[lane] |= joined[lane + reach] & if same { u32::MAX } else { 0 };
            }
        }
        joined
    }

    /// The parity of each number under two masks: the lanes where it is odd.
    #[inline(always)]
    fn parities(self, numbers: &Lanes32, masks: [u32; 2]) -> [u32; 2] {
        let mut odd = [0, 0];
        for lane in 0..WARP_LANES {
            odd[0] |= ((numbers[lane] & masks[0]).count_ones() & 1) << lane;
            odd[1] |= ((numbers[lane] & masks[1]).count_ones() & 1) << lane;
        }
        odd
    }

    /// The largest number of lanes whose words have a bit in common: a tree of
    /// bit-sliced adders.
    #[inline(always)]
    fn most_shared(self, words: &Lanes32) -> u32 {
        // Slice `i` of the sums has weight 2^i.
        let mut slices = [[0; WARP_LANES]; 6];
        slices[0] = *words;
        for level in 0..5 {
            let half = WARP_LANES >> (level + 1);
            let mut carry = [0; WARP_LANES / 2];
            for slice in slices.iter_mut().take(level + 1) {
                for lane in 0..half {
                    let (one, other) = (slice[lane], slice[lane + half]);
                    let differ = one ^ other;
                    slice[lane] = differ ^ carry[lane];
                    carry[lane] = one & other | carry[lane] & differ;
                }
            }
            slices[level + 1][..half].copy_from_slice(&carry[..half]);
        }
        largest([0, 1, 2, 3, 4, 5].map(|weight: usize| slices[weight][0]))
    }

    /// Of each eight times four sets of words, the largest number of the four
    /// that have a bit in common: the sum over the eight, and how many of the
    /// eight have any word.
    #[inline(always)]
    fn most_shared_of_four(self, words: &[[u32; CHUNK]; 4]) -> (u32, u32) {
        let (mut sum, mut filled) = (0, 0);
        for chunk in 0..CHUNK {
            let [a, b, c, d] = [0, 1, 2, 3].map(|bank: usize| words[bank][chunk]);
            let (ones, twos, four) = add_four(a, b, c, d);
            filled += u32::from(a | b | c | d != 0);
            sum += u32::from(a | b | c | d != 0)
                + u32::from(twos | four != 0)
                + u32::from(twos & ones | four != 0)
                + u32::from(four != 0);
        }
        (sum, filled)
    }
}

/// Bit slices of the sum of four bits, weights 1, 2 and 4.
#[inline(always)]
fn add_four(a: u32, b: u32, c: u32, d: u32) -> (u32, u32, u32) {
    let (ab, cd) = (a ^ b, c ^ d);
    let (two_ab, two_cd) = (a & b, c & d);
    (ab ^ cd, two_ab ^ two_cd ^ (ab & cd), two_ab & two_cd)
}

/// The largest of the numbers whose bit slices, lowest weight first, these are:
/// one number a bit position.
#[inline(always)]
pub(super) fn largest<const N: usize>(slices: [u32; N]) -> u32 {
    let mut candidates = u32::MAX;
    let mut largest = 0;
    for (weight, slice) in slices.into_iter().enumerate().rev() {
        let with = candidates & slice;
        if with != 0 {
            candidates = with;
            largest |= 1 << weight;
        }
    }
    largest
}

/// The operations in plain Rust.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl LaneOps for Portable {}
