//! The L1 caches of all SMs.

use super::geometry::LINE_BYTES;
use super::sampling::mix;

/// Ways of a set. Sets are chosen by a hash, so that the number matters little.
const WAYS: usize = 16;

/// No line.
const EMPTY: u64 = u64::MAX;

/// Sectored lines of 128 bytes, one cache for each SM: a load that misses
/// allocates its line and fetches the sectors that it asks for; a store writes
/// through, allocates its line without fetching, and leaves the sectors that it
/// writes whole readable. The least recently used line of a set gives way.
pub(super) struct L1 {
    sets: u64,
    lines: Vec<u64>,
    stamps: Vec<u32>,
    /// Readable sectors of each line, 4 bits.
    valid: Vec<u8>,
    /// The round in which each line's sectors were fetched last.
    fetched: Vec<u32>,
    now: u32,
    round: u32,
}

/// Sectors of one line: bit `i` stands for sector `i`.
pub(super) type Sectors = u8;

impl L1 {
    /// Caches of so many bytes for so many SMs, one in 2^`log` lines each.
    pub(super) fn new(sms: usize, bytes: u64, log: u32) -> Self {
        let sets = ((bytes / LINE_BYTES / WAYS as u64) >> log).max(1);
        let ways = sms * sets as usize * WAYS;
        Self {
            sets,
            lines: vec![EMPTY; ways],
            stamps: vec![0; ways],
            valid: vec![0; ways],
            fetched: vec![0; ways],
            now: 0,
            round: 1,
        }
    }

    /// Begins a round: all blocks that run execute a statement in each.
    pub(super) fn next_round(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// A load: the sectors that it must fetch from L2, and those that are being
    /// fetched by another load of this round.
    #[inline]
    pub(super) fn load(&mut self, sm: usize, line: u64, sectors: Sectors) -> (Sectors, Sectors) {
        let (way, _) = self.touch(sm, line);
        let missing = sectors & !self.valid[way];
        let awaited = if self.fetched[way] == self.round { sectors & !missing } else { 0 };
        self.valid[way] |= sectors;
        if missing != 0 {
            self.fetched[way] = self.round;
        }
        (missing, awaited)
    }

    /// A store of `sectors`, of which `whole` are written wholly: whether the
    /// line was there.
    #[inline]
    pub(super) fn store(&mut self, sm: usize, line: u64, whole: Sectors) -> bool {
        let (way, found) = self.touch(sm, line);
        self.valid[way] |= whole;
        found
    }

    /// What happens past L1 makes its copy of some sectors old.
    #[inline]
    pub(super) fn forget(&mut self, sm: usize, line: u64, sectors: Sectors) {
        let first = self.first_way(sm, line);
        if let Some(at) = self.lines[first..first + WAYS].iter().position(|&l| l == line) {
            self.valid[first + at] &= !sectors;
        }
    }

    #[inline]
    fn first_way(&self, sm: usize, line: u64) -> usize {
        let set = ((mix(line) >> 32) * self.sets) >> 32;
        (sm * self.sets as usize + set as usize) * WAYS
    }

    /// The way that holds the line now, and whether it did before.
    #[inline]
    fn touch(&mut self, sm: usize, line: u64) -> (usize, bool) {
        let first = self.first_way(sm, line);
        self.now = self.now.wrapping_add(1);
        let set = &self.lines[first..first + WAYS];
        if let Some(at) = set.iter().position(|&l| l == line) {
            self.stamps[first + at] = self.now;
            return (first + at, true);
        }
        let mut oldest = 0;
        let mut age = 0;
        for (at, stamp) in self.stamps[first..first + WAYS].iter().enumerate() {
            // A way never used is older than any.
            let this = if set[at] == EMPTY { u32::MAX } else { self.now.wrapping_sub(*stamp) };
            if this > age {
                (oldest, age) = (at, this);
            }
        }
        let way = first + oldest;
        (self.lines[way], self.stamps[way], self.valid[way]) = (line, self.now, 0);
        self.fetched[way] = 0;
        (way, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(l1: &mut L1, sm: usize, line: u64, sectors: Sectors) -> Sectors {
        l1.load(sm, line, sectors).0
    }

    #[test]
    fn who_comes_while_a_sector_is_fetched_waits_for_it() {
        let mut l1 = L1::new(1, 16 * LINE_BYTES, 0);
        assert_eq!(l1.load(0, 7, 0b0011), (0b0011, 0));
        assert_eq!(l1.load(0, 7, 0b0110), (0b0100, 0b0010));
        l1.next_round();
        assert_eq!(l1.load(0, 7, 0b0111), (0, 0));
    }

    #[test]
    fn a_line_keeps_the_sectors_it_fetched() {
        let mut l1 = L1::new(2, 16 * LINE_BYTES, 0);
        assert_eq!(missing(&mut l1, 0, 7, 0b0011), 0b0011);
        assert_eq!(missing(&mut l1, 0, 7, 0b0110), 0b0100);
        assert_eq!(missing(&mut l1, 1, 7, 0b0110), 0b0110, "another SM has its own");
        assert!(l1.store(0, 7, 0b1000));
        assert_eq!(missing(&mut l1, 0, 7, 0b1111), 0, "what was written whole can be read");
        l1.forget(0, 7, 0b0001);
        assert_eq!(missing(&mut l1, 0, 7, 0b1111), 0b0001);
        assert!(!l1.store(0, 8, 0), "a new line");
        assert_eq!(missing(&mut l1, 0, 8, 0b0001), 0b0001, "what was written partly cannot");
    }

    #[test]
    fn the_least_recently_used_line_gives_way() {
        let mut l1 = L1::new(1, 16 * LINE_BYTES, 0);
        for line in 0..16 {
            missing(&mut l1, 0, line, 1);
        }
        missing(&mut l1, 0, 0, 1);
        missing(&mut l1, 0, 16, 1);
        assert_eq!(missing(&mut l1, 0, 0, 1), 0);
        assert_eq!(missing(&mut l1, 0, 1, 1), 1);
    }
}
