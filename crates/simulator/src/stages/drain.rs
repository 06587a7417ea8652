//! How a store's lines leave for L2, and which of its tag wavefronts pass the
//! data stage together.
//!
//! A store writes through. Each tag bank has a queue of as many lines as a
//! store gathers tag wavefronts; a wavefront enters when all banks that it has
//! a line for have room. The data stage writes what has come once the gather is
//! full, or in a cycle in which no wavefront enters and the gather has waited
//! long enough. Written lines leave, one a cycle, the banks in turn, but not in
//! the cycles that a write takes.
//!
//! So what passes together depends on nothing but the number of lines in each
//! bank. It does depend on which bank that is, since the turns have a fixed
//! order, the highest number first: the same warp at other addresses, where its lines have exchanged
//! banks, can pass in another number of groups, the same each time.
//!
//! The times were found by comparison with the stores counted on an H200
//! (`tests/hardware/h200`).

use super::tag::MAX_TAG_BANKS;
use crate::access::WARP_LANES;
use crate::rules::{StoreDrain, StoreWrite};
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

/// The numbers of tag wavefronts that pass the data stage together, in order. Bit
/// *k* is set if a batch ends with wavefront *k*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batches(u32);

impl Batches {
    fn push(&mut self, size: usize) {
        if size > 0 {
            let end = (u32::BITS - self.0.leading_zeros()) as usize + size;
            self.0 |= 1 << (end.min(WARP_LANES) - 1);
        }
    }

    /// Bit *k* is set if a batch ends with wavefront *k*.
    pub(crate) fn ends(self) -> u32 {
        self.0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let (mut ends, mut begin) = (self.0, 0);
        core::iter::from_fn(move || {
            (ends != 0).then(|| {
                let end = ends.trailing_zeros() as usize + 1;
                let size = end - begin;
                (ends, begin) = (ends & (ends - 1), end);
                size
            })
        })
    }
}

/// The batches of every way in which a warp's lines can fill four tag banks, each
/// worked out when it is first asked for. Going through the queues cycle by cycle
/// takes longer than all else that a store needs, and depends on four numbers only.
#[derive(Clone)]
pub(crate) struct KnownBatches(Arc<[AtomicU32]>);

/// Ways to share out at most 32 lines among four banks: C(36, 4).
const FILLINGS: usize = 58_905;

impl KnownBatches {
    pub(crate) fn new() -> Self {
        Self((0..FILLINGS).map(|_| AtomicU32::new(0)).collect())
    }

    /// Those of banks with so many lines, at most 32 in all; worked out by
    /// `drain` where nobody has asked before.
    #[inline]
    pub(crate) fn of(&self, lines: [u8; 4], drain: impl FnOnce() -> Batches) -> Batches {
        let Some(known) = self.0.get(rank(lines)) else { return drain() };
        // Whoever comes first, all write the same.
        match known.load(Ordering::Relaxed) {
            0 => {
                let batches = drain();
                known.store(batches.0, Ordering::Relaxed);
                batches
            }
            ends => Batches(ends),
        }
    }
}

/// Each filling of four banks has a number of its own, from 0 on: the sums of the
/// first one, two, three and four banks, in the combinatorial number system.
#[inline]
fn rank(lines: [u8; 4]) -> usize {
    let [a, b, c, d] = lines.map(usize::from);
    let (two, three) = (a + b, a + b + c);
    let four = three + d;
    a + two * (two + 1) / 2
        + three * (three + 1) * (three + 2) / 6
        + four * (four + 1) * (four + 2) * (four + 3) / 24
}

impl fmt::Debug for KnownBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownBatches")
    }
}

/// What has been asked so far makes no difference.
impl PartialEq for KnownBatches {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KnownBatches {}

impl StoreDrain {
    /// Splits up the tag wavefronts of a store that has `lines[b]` lines in tag
    /// bank *b*, at most 32 in all, where queues hold `gather` lines, at least 1.
    pub(crate) fn batches(&self, lines: &[u8], gather: usize, write: &StoreWrite) -> Batches {
        match lines.len() {
            0..=4 => self.split::<4>(lines, gather, write),
            _ => self.split::<MAX_TAG_BANKS>(lines, gather, write),
        }
    }

    /// The same with at most `N` banks.
    fn split<const N: usize>(&self, lines: &[u8], gather: usize, write: &StoreWrite) -> Batches {
        let mut batches = Batches::default();
        // In the order in which they take turns, the highest bank first.
        let mut total = [0usize; N];
        for (total, &lines) in total.iter_mut().zip(lines.iter().rev()) {
            *total = lines.into();
        }
        let wavefronts = total.iter().copied().max().unwrap_or(0).min(WARP_LANES);
        // One wavefront beyond a gather has none to pass with.
        if wavefronts <= gather + 1 {
            batches.push(wavefronts.min(gather));
            batches.push(wavefronts.saturating_sub(gather));
            return batches;
        }
        let mut left = [0usize; N];
        // The cycle from which on the lines of a wavefront may leave.
        let mut leaves_at = [u32::MAX; WARP_LANES];
        let (mut turn, mut entered, mut first, mut since) = (0, 0, 0, 0);
        // Bit n: a write keeps the bank's lines from leaving n cycles from now.
        let mut held = [0u32; N];
        let mut now = 0u32;
        while entered < wavefronts {
            // The banks with a line in their queue; the k-th line of a bank came
            // with wavefront k.
            let mut waiting = 0u32;
            for bank in 0..N {
                waiting |= u32::from(left[bank] < total[bank].min(entered)) << bank;
            }
            let later = waiting & u32::MAX << turn;
            let bank = (if later != 0 { later } else { waiting }).trailing_zeros() as usize;
            if bank < N && held[bank] & 1 == 0 && leaves_at[left[bank] % WARP_LANES] <= now {
                left[bank] += 1;
                turn = (bank + 1) % N;
            }
            let mut enters = true;
            for bank in 0..N {
                held[bank] >>= 1;
                enters &= total[bank] <= entered || entered - left[bank] < gather;
            }
            if enters {
                if entered == first {
                    since = now;
                }
                entered += 1;
            }
            let waits = !enters && now - since >= u32::from(self.patience);
            if entered - first >= gather || entered > first && waits {
                leaves_at[first..entered].fill(now + u32::from(self.latency));
                for (held, &total) in held.iter_mut().zip(&total) {
                    if write.all_banks || total > first {
                        *held |= write.cycles;
                    }
                }
                batches.push(entered - first);
                first = entered;
            }
            now += 1;
        }
        batches.push(entered - first);
        batches
    }
}

#[cfg(test)]
mod tests {
    use super::{FILLINGS, rank};
    use crate::rules::RuleSet;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn batches(lines: &[u8], gather: usize) -> Vec<usize> {
        let stage = RuleSet::for_arch("9.0").unwrap().data().data.unwrap();
        let drain = stage.store_drain;
        let narrow = gather == usize::from(stage.narrow_store_gather);
        let write = if narrow { drain.narrow_write } else { drain.write };
        drain.batches(lines, gather, &write).iter().collect()
    }

    /// As counted, if the lines of a bank are renumbered so that 0 is the first
    /// to leave: `lines` is by turn.
    fn by_turn(mut lines: [u8; 4], gather: usize) -> Vec<usize> {
        lines.reverse();
        batches(&lines, gather)
    }

    #[test]
    fn one_bank_fills_each_gather() {
        assert_eq!(batches(&[0, 20, 0, 0], 8), [8, 8, 4]);
        assert_eq!(batches(&[32, 0, 0, 0], 4), [4; 8]);
    }

    #[test]
    fn lines_that_leave_slowly_let_wavefronts_pass_alone() {
        assert_eq!(batches(&[8; 4], 4), [4, 1, 1, 1, 1]);
        assert_eq!(batches(&[0, 16, 0, 16], 8), [8, 2, 1, 1, 1, 1, 1, 1]);
        assert_eq!(batches(&[0, 16, 0, 16], 4), [4, 2, 1, 1, 2, 1, 1, 2, 1, 1]);
    }

    /// Counts of 2, 3, 3 and 9, 7 groups (`gather` in
    /// `tests/hardware/h200/2026-12-01`).
    #[test]
    fn it_matters_which_bank_has_the_last_line() {
        assert_eq!(by_turn([10, 6, 9, 7], 8), [8, 2]);
        assert_eq!(by_turn([10, 9, 6, 7], 8), [8, 1, 1]);
        assert_eq!(by_turn([9, 6, 7, 10], 8), [8, 1, 1]);
        assert_eq!(by_turn([30, 2, 0, 0], 8).len(), 9);
    }

    #[test]
    fn every_filling_has_a_number_of_its_own() {
        let mut numbers = Vec::new();
        for a in 0..=32u8 {
            for b in 0..=32 - a {
                for c in 0..=32 - a - b {
                    numbers.extend((0..=32 - a - b - c).map(|d| rank([a, b, c, d])));
                }
            }
        }
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(0..FILLINGS));
    }

    proptest! {
        /// Every wavefront passes once, in order, in gathers that are not
        /// overfull; the first is full.
        #[test]
        fn all_wavefronts_pass(
            lanes in prop::array::uniform32(0usize..4),
            count in 1usize..=32,
            gather in 1usize..=8,
        ) {
            let mut lines = [0u8; 4];
            lanes[..count].iter().for_each(|&bank| lines[bank] += 1);
            let wavefronts = usize::from(*lines.iter().max().unwrap());
            let batches = batches(&lines, gather);
            prop_assert_eq!(batches.iter().sum::<usize>(), wavefronts);
            prop_assert!(batches.iter().all(|&size| (1..=gather).contains(&size)));
            prop_assert_eq!(batches[0], wavefronts.min(gather));
        }
    }
}
