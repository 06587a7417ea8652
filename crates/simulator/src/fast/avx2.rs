//! The questions of [`LaneOps`] answered with 256-bit vectors (x86-64-v3).
//!
//! Loops and no closures: a closure that is not inlined is compiled without
//! AVX2, and every vector operation in it is then a call.

use core::arch::x86_64::__m256i;

use super::lane_ops::{CHUNK, LaneOps, Lanes32, largest};
use super::{LINE_SHIFT, WORD_SHIFT};
use crate::access::WARP_LANES;

/// Eight numbers of 32 bits, or four of 64.
type Vector = __m256i;

/// Puts the 64-bit quarters of a vector back in order after an operation on
/// pairs of vectors that works on each 128-bit half by itself.
const IN_ORDER: i32 = 0b11_01_10_00;

/// The operations with AVX2, on a processor that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(pub(crate) pulp::x86::V3);

impl Avx2 {
    #[inline(always)]
    fn splat(self, number: u32) -> Vector {
        self.0.avx._mm256_set1_epi32(number as i32)
    }

    #[inline(always)]
    fn or(self, a: Vector, b: Vector) -> Vector {
        self.0.avx2._mm256_or_si256(a, b)
    }

    #[inline(always)]
    fn and(self, a: Vector, b: Vector) -> Vector {
        self.0.avx2._mm256_and_si256(a, b)
    }

    #[inline(always)]
    fn xor(self, a: Vector, b: Vector) -> Vector {
        self.0.avx2._mm256_xor_si256(a, b)
    }

    #[inline(always)]
    fn is_zero(self, a: Vector) -> bool {
        self.0.avx._mm256_testz_si256(a, a) == 1
    }

    /// One bit a lane: the sign of its number.
    #[inline(always)]
    fn signs(self, [a, b, c, d]: [Vector; 4]) -> u32 {
        let avx2 = self.0.avx2;
        // Packing interleaves by groups of four lanes.
        let order = self.0.avx._mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let (ab, cd) = (avx2._mm256_packs_epi32(a, b), avx2._mm256_packs_epi32(c, d));
        let packed = avx2._mm256_packs_epi16(ab, cd);
        avx2._mm256_movemask_epi8(avx2._mm256_permutevar8x32_epi32(packed, order)) as u32
    }

    /// The low halves of 32 numbers, or the high ones.
    #[inline(always)]
    fn halves<const HIGH: bool>(self, numbers: &[Vector; 8]) -> [Vector; 4] {
        let (avx, avx2) = (self.0.avx, self.0.avx2);
        let mut halves = [self.splat(0); 4];
        for (half, pair) in halves.iter_mut().zip(numbers.as_chunks::<2>().0) {
            let (one, other) = (avx._mm256_castsi256_ps(pair[0]), avx._mm256_castsi256_ps(pair[1]));
            let both = if HIGH {
                avx._mm256_shuffle_ps::<0b11_01_11_01>(one, other)
            } else {
                avx._mm256_shuffle_ps::<0b10_00_10_00>(one, other)
            };
            *half = avx2._mm256_permute4x64_epi64::<IN_ORDER>(avx._mm256_castps_si256(both));
        }
        halves
    }

    /// Each number moved `BY` lanes to the left; 0 comes in from the right.
    #[inline(always)]
    fn moved_left<const BY: usize>(self, [a, b, c, d]: [Vector; 4]) -> [Vector; 4] {
        let avx2 = self.0.avx2;
        let zero = self.splat(0);
        let mut moved = match BY {
            16 => return [c, d, zero, zero],
            _ => [b, c, d, zero],
        };
        if BY < 8 {
            for (moved, here) in moved.iter_mut().zip([a, b, c, d]) {
                let between = avx2._mm256_permute2x128_si256::<0x21>(here, *moved);
                *moved = match BY {
                    1 => avx2._mm256_alignr_epi8::<4>(between, here),
                    2 => avx2._mm256_alignr_epi8::<8>(between, here),
                    _ => between,
                };
            }
        }
        moved
    }

    /// One step of [`LaneOps::join_runs`].
    #[inline(always)]
    fn join<const REACH: usize>(self, words: [Vector; 4], lines: [Vector; 4]) -> [Vector; 4] {
        let (others, their_lines) =
            (self.moved_left::<REACH>(words), self.moved_left::<REACH>(lines));
        let mut joined = words;
        for index in 0..4 {
            let same = self.0.avx2._mm256_cmpeq_epi32(lines[index], their_lines[index]);
            joined[index] = self.or(words[index], self.and(others[index], same));
        }
        joined
    }

    /// How many of eight numbers are not 0.
    #[inline(always)]
    fn filled(self, numbers: Vector) -> u32 {
        let empty = self.0.avx2._mm256_cmpeq_epi32(numbers, self.splat(0));
        let empty = self.0.avx._mm256_castsi256_ps(empty);
        CHUNK as u32 - self.0.avx._mm256_movemask_ps(empty).count_ones()
    }

    /// The bit slices of the sums of two numbers given as bit slices.
    #[inline(always)]
    fn add<const N: usize, const M: usize>(
        self,
        one: [Vector; N],
        other: [Vector; N],
    ) -> [Vector; M] {
        let mut sum = [self.splat(0); M];
        let mut carry = self.splat(0);
        for weight in 0..N {
            let differ = self.xor(one[weight], other[weight]);
            sum[weight] = self.xor(differ, carry);
            carry = self.or(self.and(one[weight], other[weight]), self.and(carry, differ));
        }
        sum[N] = carry;
        sum
    }
}

impl LaneOps for Avx2 {
    #[inline(always)]
    fn is_even(self, addresses: &[u64; WARP_LANES], stride: u64) -> bool {
        let (avx, avx2) = (self.0.avx, self.0.avx2);
        let at = |lane: u64| addresses[0].wrapping_add(stride.wrapping_mul(lane)) as i64;
        let mut expected = avx._mm256_setr_epi64x(at(0), at(1), at(2), at(3));
        let step = avx._mm256_set1_epi64x(stride.wrapping_mul(4) as i64);
        let mut wrong = self.splat(0);
        for vector in pulp::cast::<_, [Vector; 8]>(*addresses) {
            wrong = self.or(wrong, self.xor(vector, expected));
            expected = avx2._mm256_add_epi64(expected, step);
        }
        self.is_zero(wrong)
    }

    #[inline(always)]
    fn steps(self, addresses: &[u64; WARP_LANES]) -> Option<Lanes32> {
        let avx2 = self.0.avx2;
        let here: [Vector; 8] = pulp::cast(*addresses);
        let mut wide = self.splat(0);
        let mut steps = here;
        for index in 0..8 {
            let left = if index == 0 {
                avx2._mm256_permute4x64_epi64::<0b10_01_00_00>(here[0])
            } else {
                let first = 4 * index - 1;
                let [a, b, c, d] = [first, first + 1, first + 2, first + 3];
                pulp::cast([addresses[a], addresses[b], addresses[c], addresses[d]])
            };
            steps[index] = self.xor(here[index], left);
            let distance = avx2._mm256_sub_epi64(here[index], left);
            wide = self.or(wide, self.or(steps[index], distance));
        }
        let upper = self.0.avx._mm256_set1_epi64x(-1 << 31);
        if !self.is_zero(self.and(wide, upper)) {
            return None;
        }
        Some(pulp::cast(self.halves::<false>(&steps)))
    }

    #[inline(always)]
    fn above(self, numbers: &Lanes32, limit: u32) -> u32 {
        let limit = self.splat(limit);
        let mut numbers: [Vector; 4] = pulp::cast(*numbers);
        for vector in &mut numbers {
            *vector = self.0.avx2._mm256_cmpgt_epi32(*vector, limit);
        }
        self.signs(numbers)
    }

    #[inline(always)]
    fn lines(self, addresses: &[u64; WARP_LANES], base: u64) -> (Lanes32, u32) {
        let avx2 = self.0.avx2;
        let base = self.0.avx._mm256_set1_epi64x(base as i64);
        let mut lines: [Vector; 8] = pulp::cast(*addresses);
        let mut wide = self.splat(0);
        for line in &mut lines {
            *line = self.xor(avx2._mm256_srli_epi64::<{ LINE_SHIFT as i32 }>(*line), base);
            wide = self.or(wide, *line);
        }
        let low = self.halves::<false>(&lines);
        let upper = self.0.avx._mm256_set1_epi64x(-1 << 31);
        if self.is_zero(self.and(wide, upper)) {
            return (pulp::cast(low), 0);
        }
        let mut near = self.halves::<true>(&lines);
        for high in &mut near {
            *high = avx2._mm256_cmpeq_epi32(*high, self.splat(0));
        }
        (pulp::cast(low), !self.signs(near) | self.signs(low))
    }

    #[inline(always)]
    fn words(self, addresses: &[u64; WARP_LANES], lane_words: u32) -> Lanes32 {
        let avx2 = self.0.avx2;
        let (lane_words, in_line) = (self.splat(lane_words), self.splat(31));
        let mut words = self.halves::<false>(&pulp::cast(*addresses));
        for word in &mut words {
            let place = avx2._mm256_srli_epi32::<{ WORD_SHIFT as i32 }>(*word);
            *word = avx2._mm256_sllv_epi32(lane_words, self.and(place, in_line));
        }
        pulp::cast(words)
    }

    #[inline(always)]
    fn select(self, mask: u32, on: &Lanes32, off: &Lanes32) -> Lanes32 {
        let avx2 = self.0.avx2;
        let bit = self.0.avx._mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        let (on, mut chosen): ([Vector; 4], [Vector; 4]) = (pulp::cast(*on), pulp::cast(*off));
        for index in 0..4 {
            let here = self.and(self.splat(mask >> (8 * index)), bit);
            let here = avx2._mm256_cmpeq_epi32(here, bit);
            chosen[index] = avx2._mm256_blendv_epi8(chosen[index], on[index], here);
        }
        pulp::cast(chosen)
    }

    #[inline(always)]
    fn equal(self, numbers: &Lanes32, number: u32) -> u32 {
        let number = self.splat(number);
        let mut numbers: [Vector; 4] = pulp::cast(*numbers);
        for vector in &mut numbers {
            *vector = self.0.avx2._mm256_cmpeq_epi32(*vector, number);
        }
        self.signs(numbers)
    }

    /// By 16 bits of each number, the upper half folded into the lower, so that
    /// half as many comparisons do.
    #[inline(always)]
    fn twins(self, numbers: &Lanes32) -> u32 {
        const HALF: usize = WARP_LANES / 2;
        let avx2 = self.0.avx2;
        let low = self.splat(0xffff);
        let mut folded: [Vector; 4] = pulp::cast(*numbers);
        for n in &mut folded {
            *n = self.and(self.xor(*n, avx2._mm256_srli_epi32::<16>(*n)), low);
        }
        let mut halves = [
            avx2._mm256_packus_epi32(folded[0], folded[1]),
            avx2._mm256_packus_epi32(folded[2], folded[3]),
        ];
        for half in &mut halves {
            *half = avx2._mm256_permute4x64_epi64::<IN_ORDER>(*half);
        }
        let turned: [u16; WARP_LANES + HALF] = pulp::cast([halves[0], halves[1], halves[0]]);
        let mut twins = [self.splat(0); 2];
        for ahead in 1..=HALF {
            for (index, twins) in twins.iter_mut().enumerate() {
                let mut other = [0; HALF];
                other.copy_from_slice(&turned[HALF * index + ahead..][..HALF]);
                let same = avx2._mm256_cmpeq_epi16(halves[index], pulp::cast(other));
                *twins = self.or(*twins, same);
            }
        }
        let twins = avx2._mm256_packs_epi16(twins[0], twins[1]);
        avx2._mm256_movemask_epi8(avx2._mm256_permute4x64_epi64::<IN_ORDER>(twins)) as u32
    }

    #[inline(always)]
    fn join_runs(self, words: &Lanes32, lines: &Lanes32) -> Lanes32 {
        let lines: [Vector; 4] = pulp::cast(*lines);
        let one = self.join::<1>(pulp::cast(*words), lines);
        let two = self.join::<2>(one, lines);
        let four = self.join::<4>(two, lines);
        let eight = self.join::<8>(four, lines);
        pulp::cast(self.join::<16>(eight, lines))
    }

    #[inline(always)]
    fn parities(self, numbers: &Lanes32, masks: [u32; 2]) -> [u32; 2] {
        let avx2 = self.0.avx2;
        let (one, other) = (self.splat(masks[0]), self.splat(masks[1]));
        // Both fold together, in one half each, towards its uppermost bit.
        let mut upper: [Vector; 4] = pulp::cast(*numbers);
        let mut lower = upper;
        for (upper, lower) in upper.iter_mut().zip(&mut lower) {
            let (one, other) = (self.and(*upper, one), self.and(*upper, other));
            let one = self.xor(one, avx2._mm256_srli_epi32::<16>(one));
            let other = self.xor(other, avx2._mm256_slli_epi32::<16>(other));
            let mut both = avx2._mm256_blend_epi16::<0b1010_1010>(one, other);
            both = self.xor(both, avx2._mm256_slli_epi32::<8>(both));
            both = self.xor(both, avx2._mm256_slli_epi32::<4>(both));
            both = self.xor(both, avx2._mm256_slli_epi32::<2>(both));
            *upper = self.xor(both, avx2._mm256_slli_epi32::<1>(both));
            *lower = avx2._mm256_slli_epi32::<16>(*upper);
        }
        [self.signs(lower), self.signs(upper)]
    }

    #[inline(always)]
    fn most_shared(self, words: &Lanes32) -> u32 {
        let avx2 = self.0.avx2;
        let [a, b, c, d]: [Vector; 4] = pulp::cast(*words);
        let (ab, cd): ([Vector; 2], [Vector; 2]) = (self.add([a], [b]), self.add([c], [d]));
        let eight: [Vector; 3] = self.add(ab, cd);
        let mut swapped = eight;
        for slice in &mut swapped {
            *slice = avx2._mm256_permute4x64_epi64::<0b01_00_11_10>(*slice);
        }
        let four: [Vector; 4] = self.add(eight, swapped);
        let mut swapped = four;
        for slice in &mut swapped {
            *slice = avx2._mm256_shuffle_epi32::<0b01_00_11_10>(*slice);
        }
        let two: [Vector; 5] = self.add(four, swapped);
        let mut swapped = two;
        for slice in &mut swapped {
            *slice = avx2._mm256_shuffle_epi32::<0b10_11_00_01>(*slice);
        }
        let sums: [Vector; 6] = self.add(two, swapped);
        let mut slices = [0; 6];
        for (slice, sum) in slices.iter_mut().zip(sums) {
            *slice = avx2._mm256_extract_epi32::<0>(sum) as u32;
        }
        largest(slices)
    }

    #[inline(always)]
    fn most_shared_of_four(self, words: &[[u32; CHUNK]; 4]) -> (u32, u32) {
        let [a, b, c, d]: [Vector; 4] = pulp::cast(*words);
        let (ab, cd) = (self.xor(a, b), self.xor(c, d));
        let (two_ab, two_cd) = (self.and(a, b), self.and(c, d));
        let ones = self.xor(ab, cd);
        let twos = self.xor(self.xor(two_ab, two_cd), self.and(ab, cd));
        let four = self.and(two_ab, two_cd);
        let any = self.or(self.or(a, b), self.or(c, d));
        let first = self.filled(any);
        let second = self.filled(self.or(twos, four));
        let third = self.filled(self.or(self.and(twos, ones), four));
        (first + second + third + self.filled(four), first)
    }
}
