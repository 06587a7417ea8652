//! The data stage: banks that each give one word a wavefront.
//!
//! The lanes of a tag wavefront pass in groups (half-warps at 8 bytes a lane,
//! quarter-warps at 16), each group in as many data wavefronts as its fullest
//! bank has distinct words; lanes that share a word are served together. On an
//! H200 this agrees with `l1tex__data_pipe_lsu_wavefronts` − 1 and
//! `l1tex__data_bank_conflicts_pipe_lsu` on all recorded loads.
//!
//! Stores collect the lanes of several tag wavefronts first and write them
//! together; how many is up to [`drain`](super::drain).

use super::tag::MAX_TAG_BANKS;
use super::{LaneSets, Lanes, request};
use crate::access::{LaneMask, WARP_LANES};
use crate::rules::{AtomicStage, DataStage, MAX_BANKS, StoreWrite, TagStage};

/// The banks that a group of lanes meets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Banks {
    /// Number of banks, a power of two.
    pub(crate) count: u32,
    /// Bytes of a bank's word, a power of two.
    pub(crate) bytes: u32,
    /// Bits of the bank number that do not tell banks apart.
    pub(crate) merged: u32,
    /// Consecutive rows of words that a bank serves at once.
    pub(crate) merged_rows: u32,
}

/// Words that one lane touches.
pub(crate) fn words(address: u64, width: u32, bank_bytes: u32) -> impl Iterator<Item = u64> {
    let shift = bank_bytes.trailing_zeros();
    let first = address >> shift;
    let last = address.wrapping_add(u64::from(width) - 1) >> shift;
    (0..=last.wrapping_sub(first)).map(move |offset| first.wrapping_add(offset))
}

impl Banks {
    /// The bank of a word.
    pub(crate) fn bank(&self, word: u64) -> u32 {
        (word % u64::from(self.count)) as u32 & !self.merged
    }

    /// What a bank serves at once: words with the same key and bank share a
    /// wavefront.
    pub(crate) fn row(&self, word: u64) -> u64 {
        // Words that differ in a merged bank bit share a bank, not a row.
        let kept = word & u64::from(self.merged);
        word / u64::from(self.count) / u64::from(self.merged_rows) * u64::from(self.count) + kept
    }

    /// Wavefronts of a group: distinct words of its fullest bank.
    pub(crate) fn wavefronts(&self, lanes: Lanes<'_>) -> u32 {
        if self.merged_rows > 1 {
            return self.merged_wavefronts(lanes);
        }
        let mut depth = [0u8; MAX_BANKS as usize];
        let mut done = [0u64; WARP_LANES];
        let mut distinct = 0;
        for (_, address) in lanes.iter() {
            // Lanes of one width and alignment touch the same words or none in
            // common.
            let first = address >> self.bytes.trailing_zeros();
            if done[..distinct].contains(&first) {
                continue;
            }
            done[distinct] = first;
            distinct += 1;
            for word in words(address, lanes.width, self.bytes) {
                let depth = &mut depth[self.bank(word) as usize];
                *depth = depth.saturating_add(1);
            }
        }
        depth.into_iter().max().unwrap_or(0).into()
    }

    /// The same where a bank serves several rows at once: different words can
    /// then be one.
    fn merged_wavefronts(&self, lanes: Lanes<'_>) -> u32 {
        const MOST_WORDS: usize = 8;
        let mut depth = [0u8; MAX_BANKS as usize];
        let mut seen = [(0u32, 0u64); WARP_LANES * MOST_WORDS];
        let mut count = 0;
        for (_, address) in lanes.iter() {
            for word in words(address, lanes.width, self.bytes) {
                let place = (self.bank(word), self.row(word));
                if !seen[..count].contains(&place) && count < seen.len() {
                    seen[count] = place;
                    count += 1;
                    depth[place.0 as usize] += 1;
                }
            }
        }
        depth.into_iter().max().unwrap_or(0).into()
    }
}

/// Groups of lanes that pass the data stage one after the other, each with the
/// wavefronts it takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passage {
    pub(crate) groups: LaneSets,
    /// Wavefronts of each group.
    pub(crate) wavefronts: [u32; WARP_LANES],
    /// Of these, beyond the first of each repetition.
    pub(crate) conflicts_of: [u32; WARP_LANES],
    /// Sum over the groups.
    pub(crate) total: u32,
    /// Of these, beyond the first of each group (and of each repetition).
    pub(crate) conflicts: u32,
    /// Where each lane passes alone with regard to a bank: the pass of its
    /// group that it takes. `None`: lanes that share a word pass together.
    pub(crate) turns: Option<[u8; WARP_LANES]>,
}

impl Passage {
    pub(crate) fn push(&mut self, lanes: Lanes<'_>, wavefronts: u32, repetitions: u32) {
        if lanes.mask.is_empty() {
            return;
        }
        let conflicts = wavefronts.saturating_sub(repetitions);
        let place = self.groups.count() as usize % WARP_LANES;
        self.wavefronts[place] = wavefronts;
        self.conflicts_of[place] = conflicts;
        self.groups.push(lanes.mask);
        self.total += wavefronts;
        self.conflicts += conflicts;
    }
}

impl DataStage {
    pub(crate) fn banks(&self) -> Banks {
        Banks { count: self.banks, bytes: self.bank_bytes, merged: 0, merged_rows: 1 }
    }

    /// Tag wavefronts that a store of lanes of `width` bytes gathers.
    #[inline]
    pub(crate) fn gather(&self, width: u32) -> u32 {
        u32::from(if width >= self.bank_bytes {
            self.store_gather
        } else {
            self.narrow_store_gather
        })
    }

    /// How a gather of lanes of `width` bytes is written.
    pub(crate) fn write(&self, width: u32) -> &StoreWrite {
        let drain = &self.store_drain;
        if width >= self.bank_bytes { &drain.write } else { &drain.narrow_write }
    }

    /// Loads: the groups of each tag wavefront.
    pub(crate) fn load(&self, lanes: Lanes<'_>, tag_wavefronts: &LaneSets) -> Passage {
        let mut passage = Passage::default();
        for &wavefront in tag_wavefronts.as_slice() {
            self.pass(&mut passage, lanes.only(wavefront));
        }
        passage
    }

    /// Stores: the groups of the tag wavefronts that pass together, as
    /// [`StoreDrain`](crate::rules::StoreDrain) has it.
    pub(crate) fn store(
        &self,
        lanes: Lanes<'_>,
        tag: &TagStage,
        tag_wavefronts: &LaneSets,
        line_shift: u32,
    ) -> Passage {
        let width = lanes.width;
        let gather = self.gather(width).max(1) as usize;
        let mut lines = [0u8; MAX_TAG_BANKS];
        for &wavefront in tag_wavefronts.as_slice() {
            let lanes = lanes.only(wavefront).iter();
            let banks = lanes.fold(0u32, |banks, (_, address)| {
                banks | 1 << (tag.bank(address >> line_shift) % MAX_TAG_BANKS as u32)
            });
            for (bank, lines) in lines.iter_mut().enumerate() {
                *lines += (banks >> bank & 1) as u8;
            }
        }
        let lines = &lines[..MAX_TAG_BANKS.min(tag.banks() as usize)];
        let batches = self.store_drain.batches(lines, gather, self.write(width));
        let mut passage = Passage::default();
        let mut rest = tag_wavefronts.as_slice();
        for together in batches.iter() {
            let (now, later) = rest.split_at(together.min(rest.len()));
            let gathered = LaneMask(now.iter().fold(0, |lanes, set| lanes | set.0));
            self.pass(&mut passage, lanes.only(gathered));
            rest = later;
        }
        passage
    }

    /// Reductions and atomics: the groups of each round.
    ///
    /// When every line of a round has one lane only, some bits of the bank
    /// number do not separate banks (counted on an H200; the reason is not
    /// known). An atomic passes with its operands and again with its results;
    /// the extra conflicts occur once.
    pub(crate) fn atomic(
        &self,
        atomic: &AtomicStage,
        lanes: Lanes<'_>,
        rounds: &LaneSets,
        line_shift: u32,
        returns: bool,
    ) -> Passage {
        let mut passage = Passage::default();
        let repetitions = if returns { u32::from(atomic.result_passes) } else { 1 };
        let merged = Banks { merged: atomic.single_lane_merged_banks, ..self.banks() };
        for &round in rounds.as_slice() {
            let lanes = lanes.only(round);
            let single = lanes.distinct(line_shift) == lanes.mask.count();
            for &group in request::split(lanes, self.group.lanes(lanes.width as u8)).as_slice() {
                let group = lanes.only(group);
                let wavefronts = self.banks().wavefronts(group);
                let extra = if single { merged.wavefronts(group) - wavefronts } else { 0 };
                passage.push(group, repetitions * wavefronts + extra, repetitions);
            }
        }
        passage
    }

    fn pass(&self, passage: &mut Passage, lanes: Lanes<'_>) {
        for &group in request::split(lanes, self.group.lanes(lanes.width as u8)).as_slice() {
            let group = lanes.only(group);
            passage.push(group, self.banks().wavefronts(group), 1);
        }
    }
}
