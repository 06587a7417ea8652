//! L2 and the DRAM behind it.

use super::geometry::{Geometry, LINE_BYTES, SECTOR_BYTES};
use super::l1::Sectors;
use super::sampling::{GROUPS, Sampling, mix};

/// Ways of a set. Sets are chosen by a hash, so that the number matters little.
const WAYS: usize = 16;

/// No line.
const EMPTY: u64 = u64::MAX;

/// A line that no access names: data from before the launch.
const BEFORE: u64 = 1 << 62;

/// DRAM granules that count as open: of so many last opened ones a further
/// access is cheap.
const OPEN_GRANULES: u64 = 1 << 13;

/// What passed between L2 and DRAM.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct DramCounts {
    /// Sectors fetched because they were missing, in each group of lines.
    pub(super) fetched: [u64; GROUPS],
    /// Sectors fetched to complete partly written ones.
    pub(super) filled: [u64; GROUPS],
    /// Sectors written back.
    pub(super) written: [u64; GROUPS],
    /// Sectors that the launch changed and that were as in DRAM before.
    pub(super) changed: [u64; GROUPS],
    /// Lines read from: those that opened their granule, and those that found
    /// it open.
    pub(super) read_lines: [[u64; GROUPS]; 2],
    /// Lines written to, likewise.
    pub(super) written_lines: [[u64; GROUPS]; 2],
    /// Sectors read from L2 that had been fetched in the same round: whoever
    /// reads them waits for DRAM, too.
    pub(super) awaited: [u64; GROUPS],
}

/// One way of a set.
#[derive(Clone, Copy)]
struct Way {
    line: u64,
    stamp: u32,
    /// Sectors that can be read.
    valid: Sectors,
    /// Sectors newer than DRAM's. Those not valid are partly written.
    dirty: Sectors,
    /// Whether the other line of the granule was written back while this one
    /// waited to be.
    follows: bool,
    /// The round in which sectors were fetched last.
    fetched: u32,
}

const NO_LINE: Way = Way { line: EMPTY, stamp: 0, valid: 0, dirty: 0, follows: false, fetched: 0 };

/// What stores have left of sectors that none of them wrote as a whole.
#[derive(Clone, Copy, Default)]
struct Parts {
    line: u64,
    /// The bytes written since the line was last whole.
    bytes: u128,
    /// Sectors that the last store wrote parts of.
    sectors: Sectors,
    /// Block and round of the last one.
    block: u64,
    round: u32,
}

/// What a store gathered of what the block's store before it had left.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Gathered {
    /// Sectors that it found parts of, and goes to L2 with as one.
    pub(super) parts: u32,
    /// Of these, sectors that are whole with it.
    pub(super) completed: u32,
}

impl Way {
    fn partial(&self) -> Sectors {
        self.dirty & !self.valid
    }
}

/// Who stores: a block, on an SM of the partition `near`.
#[derive(Clone, Copy)]
pub(super) struct Writer {
    pub(super) block: u64,
    pub(super) near: usize,
}

/// What a request stores of a line.
#[derive(Clone, Copy)]
pub(super) struct Stored {
    pub(super) sectors: Sectors,
    /// Of these, those written as a whole.
    pub(super) whole: Sectors,
    /// The line's bytes that are written of the others.
    pub(super) bytes: u128,
    /// Whether the SM still holds what the statement before stored of the line.
    pub(super) gathers: bool,
}

/// Sectored lines of 128 bytes, written back.
///
/// L2 has partitions, each near to some SMs. A line's home is one of them, by
/// its address. SMs read a line through their own partition, which keeps a copy
/// of it; what is missing at home is fetched from DRAM, all sectors of a DRAM
/// access together. Stores go to the home and leave a copy in the SM's own partition,
/// atomics go to the home alone. A set holds no more
/// changed lines than its share, and fewer lines with partly written sectors:
/// the oldest is written back, partly written sectors after a read that fills
/// them.
pub(super) struct L2 {
    partitions: usize,
    sets: u64,
    ways: Vec<Way>,
    /// Of each way, what its partly written sectors have. By themselves, for they are
    /// seldom looked at, and a set is searched often.
    parts: Vec<Parts>,
    dirty_ways: usize,
    partial_ways: usize,
    /// Sectors fetched together.
    access_sectors: u32,
    granule_shift: u32,
    open: Vec<u64>,
    now: u32,
    round: u32,
    sampling: Sampling,
    pub(super) counts: DramCounts,
}

impl L2 {
    /// The L2 of a device, one in 2^`log` of its lines, empty but for what the
    /// launch finds changed.
    pub(super) fn new(geometry: &Geometry, sampling: Sampling) -> Self {
        let partitions = geometry.l2_partitions.max(1) as usize;
        let lines = (geometry.l2_bytes / LINE_BYTES) >> sampling.log;
        let sets = (lines / partitions as u64 / WAYS as u64).max(1);
        let share = |share: f64| ((share * WAYS as f64).round() as usize).clamp(1, WAYS);
        let mut l2 = Self {
            partitions,
            sets,
            ways: vec![NO_LINE; partitions * sets as usize * WAYS],
            parts: vec![Parts::default(); partitions * sets as usize * WAYS],
            dirty_ways: share(geometry.l2_dirty_share),
            partial_ways: share(geometry.l2_partial_share),
            access_sectors: (geometry.dram_access_bytes / SECTOR_BYTES).clamp(1, 4) as u32,
            granule_shift: (geometry.dram_granule_bytes / LINE_BYTES).max(1).ilog2(),
            open: vec![EMPTY; (OPEN_GRANULES >> sampling.log).max(1) as usize],
            now: 1,
            round: 1,
            sampling,
            counts: DramCounts::default(),
        };
        let before = (geometry.l2_dirty_before_bytes / LINE_BYTES) >> sampling.log;
        for index in 0..before {
            let line = BEFORE + (index >> 1 << (1 + sampling.log)) + (index & 1);
            let way = l2.touch(l2.home(line), line);
            (l2.ways[way].valid, l2.ways[way].dirty) = (0b1111, 0b1111);
        }
        l2.counts = DramCounts::default();
        l2
    }

    /// A read of sectors by an SM of the partition `near`.
    pub(super) fn read(&mut self, near: usize, line: u64, sectors: Sectors) {
        let home = self.home(line);
        let near = near % self.partitions;
        let mut missing = sectors;
        if near != home {
            let way = self.touch(near, line);
            missing &= !self.ways[way].valid;
            self.ways[way].valid |= sectors;
        }
        let at_home = if missing != 0 {
            let way = self.touch(home, line);
            self.need(way, missing);
            Some(way)
        } else {
            let first = self.first_way(home, line);
            (first..first + WAYS).find(|&at| self.ways[at].line == line)
        };
        if at_home.is_some_and(|at| self.ways[at].fetched == self.round) {
            let group = self.sampling.group(line);
            self.counts.awaited[group] += u64::from(sectors.count_ones());
        }
    }

    /// Begins a round: all blocks that run execute a statement in each.
    pub(super) fn next_round(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// A reduction or atomic: read and written at home.
    pub(super) fn atomic(&mut self, line: u64, sectors: Sectors) {
        let way = self.write_way(line, sectors);
        self.need(way, sectors);
        self.change(way, sectors);
        self.limit_dirty(way);
    }

    /// A store of `sectors`, of which `whole` are written wholly, of the others
    /// `bytes` of the line. What it gathers, where an SM still holds parts that the
    /// block's last statement stored (`gathers`).
    pub(super) fn write(&mut self, from: Writer, line: u64, stored: Stored) -> Gathered {
        let Stored { sectors, whole, bytes, gathers } = stored;
        let at = self.write_way(line, sectors);
        let (near, home) = (from.near % self.partitions, self.home(line));
        if near != home && whole != 0 {
            let copy = self.touch(near, line);
            self.ways[copy].valid |= whole;
        }
        let way = &mut self.ways[at];
        way.valid |= whole;
        let now = sectors & !whole;
        let mut gathered = Gathered::default();
        if now != 0 {
            let parts = &mut self.parts[at];
            let (same, ago) = (parts.line == line, self.round.wrapping_sub(parts.round));
            let of_block = if same && parts.block == from.block { parts.sectors } else { 0 };
            let before = if gathers && ago == 1 { of_block & now } else { 0 };
            gathered.parts = before.count_ones();
            *parts = Parts {
                line,
                bytes: bytes | if same && way.partial() != 0 { parts.bytes } else { 0 },
                // Beside another warp's of the same statement.
                sectors: now | if ago == 0 { of_block } else { 0 },
                block: from.block,
                round: self.round,
            };
            let is_whole = |sector: u32| (parts.bytes >> (32 * sector)) as u32 == u32::MAX;
            let complete = (0..4).filter(|&sector| now >> sector & 1 != 0 && is_whole(sector));
            let complete = complete.fold(0, |all, sector| all | 1 << sector);
            gathered.completed = (before & complete).count_ones();
            way.valid |= complete;
        }
        self.change(at, sectors);
        if self.ways[at].partial() != 0 {
            self.limit_partial(at);
        }
        self.limit_dirty(at);
        gathered
    }

    /// Sectors newer than DRAM's: in lines that the launch named, and from before.
    pub(super) fn dirty_sectors(&self) -> [u64; 2] {
        let mut sectors = [0; 2];
        for way in self.ways.iter().filter(|way| way.line != EMPTY) {
            sectors[usize::from(way.line >= BEFORE)] += u64::from(way.dirty.count_ones());
        }
        sectors
    }

    /// Sectors of a way are newer than DRAM's from now on.
    fn change(&mut self, at: usize, sectors: Sectors) {
        let way = &mut self.ways[at];
        let group = self.sampling.group(way.line);
        self.counts.changed[group] += u64::from((sectors & !way.dirty).count_ones());
        way.dirty |= sectors;
    }

    /// The partition that is a line's home.
    fn home(&self, line: u64) -> usize {
        self.place(line).0
    }

    /// The partition that is a line's home, and its set in every partition.
    /// Consecutive granules go round the sets, so that arrays fill them evenly;
    /// where each round begins is random, so that powers of two as strides do,
    /// too. Both lines of a granule are in one set.
    #[inline]
    fn place(&self, line: u64) -> (usize, u64) {
        let granule = line >> (1 + self.sampling.log);
        let home = (mix(granule) >> 32) % self.partitions as u64;
        let (lap, step) = (granule / self.sets, granule % self.sets);
        (home as usize, (step + mix(lap) % self.sets) % self.sets)
    }

    /// The way at home that is about to be written; copies elsewhere are old.
    fn write_way(&mut self, line: u64, sectors: Sectors) -> usize {
        let home = self.home(line);
        for other in (0..self.partitions).filter(|&other| other != home) {
            let first = self.first_way(other, line);
            let set = &mut self.ways[first..first + WAYS];
            if let Some(copy) = set.iter_mut().find(|way| way.line == line) {
                copy.valid &= !sectors;
            }
        }
        self.touch(home, line)
    }

    /// Makes sectors of a line at home readable.
    fn need(&mut self, way: usize, sectors: Sectors) {
        let Way { line, valid, .. } = self.ways[way];
        let missing = sectors & !valid;
        if missing == 0 {
            return;
        }
        let mut fetched: Sectors = 0;
        let of_access = ((1_u32 << self.access_sectors) - 1) as Sectors;
        for first in (0..4).step_by(self.access_sectors as usize) {
            let access = of_access << first;
            if missing & access != 0 {
                fetched |= access;
            }
        }
        let group = self.sampling.group(line);
        self.counts.fetched[group] += u64::from(fetched.count_ones());
        self.open(line, group);
        // What was written stays; the rest of its sector comes from DRAM.
        self.ways[way].valid |= fetched;
        self.ways[way].fetched = self.round;
    }

    #[inline]
    fn first_way(&self, partition: usize, line: u64) -> usize {
        (partition * self.sets as usize + self.place(line).1 as usize) * WAYS
    }

    /// The way that holds a line now, in place of the least recently used.
    fn touch(&mut self, partition: usize, line: u64) -> usize {
        let first = self.first_way(partition, line);
        self.now = self.now.wrapping_add(1);
        let mut oldest = first;
        let mut age = 0;
        for at in first..first + WAYS {
            let way = &mut self.ways[at];
            if way.line == line {
                way.stamp = self.now;
                return at;
            }
            let this = if way.line == EMPTY { u32::MAX } else { self.now.wrapping_sub(way.stamp) };
            if this > age {
                (oldest, age) = (at, this);
            }
        }
        if self.ways[oldest].dirty != 0 {
            self.write_back(oldest, 0b1111);
        }
        self.ways[oldest] = Way { line, stamp: self.now, ..NO_LINE };
        oldest
    }

    /// Writes those of a line's changed sectors that are among `sectors` to DRAM,
    /// partly written ones after a read that fills them. The line stays.
    fn write_back(&mut self, at: usize, sectors: Sectors) {
        let Way { line, follows, .. } = self.ways[at];
        let dirty = self.ways[at].dirty & sectors;
        let partial = self.ways[at].partial() & sectors;
        let group = self.sampling.group(line);
        self.counts.filled[group] += u64::from(partial.count_ones());
        self.counts.written[group] += u64::from(dirty.count_ones());
        // The other line of the granule is mostly read and written next to it.
        let place = usize::from(follows);
        if partial != 0 {
            self.counts.read_lines[place][group] += 1;
        }
        self.counts.written_lines[place][group] += 1;
        let first = at / WAYS * WAYS;
        let sibling = line ^ 1;
        let set = &mut self.ways[first..first + WAYS];
        if !follows && let Some(other) = set.iter_mut().find(|way| way.line == sibling) {
            other.follows = other.dirty != 0;
        }
        let way = &mut self.ways[at];
        way.valid |= partial;
        way.dirty &= !dirty;
        way.follows = false;
    }

    /// Writes the oldest changed line of a set back where there are too many.
    fn limit_dirty(&mut self, newest: usize) {
        if let Some(oldest) = self.too_many(newest, self.dirty_ways, |way| way.dirty != 0) {
            self.write_back(oldest, 0b1111);
        }
    }

    /// The same for lines with partly written sectors.
    fn limit_partial(&mut self, newest: usize) {
        if let Some(oldest) = self.too_many(newest, self.partial_ways, |way| way.partial() != 0) {
            let partial = self.ways[oldest].partial();
            self.write_back(oldest, partial);
        }
    }

    /// The oldest way like this in a set that has more than `most` of them.
    fn too_many(
        &self,
        newest: usize,
        most: usize,
        is_like_this: impl Fn(&Way) -> bool,
    ) -> Option<usize> {
        let first = newest / WAYS * WAYS;
        let mut number = 0;
        let mut oldest = None;
        let mut age = 0;
        for at in first..first + WAYS {
            let way = &self.ways[at];
            if is_like_this(way) {
                number += 1;
                let this = self.now.wrapping_sub(way.stamp);
                if this > age {
                    (oldest, age) = (Some(at), this);
                }
            }
        }
        oldest.filter(|_| number > most)
    }

    /// A read from DRAM: whether its granule must be opened.
    fn open(&mut self, line: u64, group: usize) {
        let granule = line >> self.granule_shift;
        let place = ((mix(granule) >> 32) * self.open.len() as u64) >> 32;
        let place = &mut self.open[place as usize];
        let was_open = *place == granule;
        *place = granule;
        self.counts.read_lines[usize::from(was_open)][group] += 1;
    }
}
