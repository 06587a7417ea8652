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

/// The numbers of tag wavefronts that pass the data stage together, in order.
#[derive(Default)]
pub(crate) struct Batches {
    sizes: [u8; WARP_LANES],
    len: usize,
}

impl Batches {
    fn push(&mut self, size: usize) {
        if size > 0
            && let Some(slot) = self.sizes.get_mut(self.len)
        {
            *slot = size as u8;
            self.len += 1;
        }
    }

    /// Number of batches.
    pub(crate) fn count(&self) -> usize {
        self.len
    }

    /// Tag wavefronts of a batch, if there are so many.
    pub(crate) fn size(&self, batch: usize) -> Option<u32> {
        self.sizes[..self.len].get(batch).copied().map(u32::from)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.sizes[..self.len].iter().map(|&size| usize::from(size))
    }
}

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
