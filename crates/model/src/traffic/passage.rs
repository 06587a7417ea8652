//! One pass of a launch's blocks through the caches.

use super::blocks::{Access, Action, Blocks, Footprint, Started};
use super::geometry::Geometry;
use super::l1::{L1, Sectors};
use super::l2::{DramCounts, L2, Stored, Writer};
use super::sampling::{GROUPS, Sampling, mix};
use scenario::Diagnostic;

/// Lines with partly written sectors of a statement that a store looks for
/// what another warp has just stored.
const RECENT_STORES: usize = 8;

/// None of them.
const NO_STORES: [(u64, Sectors, u64); RECENT_STORES] = [(u64::MAX, 0, 0); RECENT_STORES];

/// Lines of stores that an SM gathers before they go to L2. Measured with all fields
/// of a struct stored one after the other, 4 bytes each: parts of sectors come
/// together in structs of up to four words (a warp's request has as many lines), some in
/// those of five to seven, none in those of eight and more. So a warp's lines must
/// find room beside another's; beyond half of the room, other requests push part of
/// them out.
const GATHERED_LINES: usize = 8;

/// Whether an SM still holds a line of a request of so many lines when the warp's next
/// statement stores to it: of those between half and all of the room some, which fall
/// off by the square, as measured.
fn gathers(lines: usize, line: u64, block: u64) -> bool {
    let half = GATHERED_LINES / 2;
    if lines <= half {
        return true;
    }
    let beyond = (lines - half) as f64 / half as f64;
    let chance = mix(line ^ mix(block)) as f64 / u64::MAX as f64;
    chance < 1.0 - beyond * beyond
}

/// What passed, in each group of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// Sectors of loads and stores found in L1.
    pub(super) l1_hits: [u64; GROUPS],
    /// Of these, sectors that were being fetched.
    pub(super) l1_awaited: [u64; GROUPS],
    /// Sectors that L1 read from L2.
    pub(super) l2_reads: [u64; GROUPS],
    /// Sectors of stores.
    pub(super) l2_writes: [u64; GROUPS],
    /// Of these, sectors that another warp of the block stored a part of in the
    /// same statement.
    pub(super) shared_writes: [u64; GROUPS],
    /// Sectors of stores that were not written as a whole.
    pub(super) partial_writes: [u64; GROUPS],
    /// Lines of stores with such sectors.
    pub(super) partial_lines: [u64; GROUPS],
    /// Of these sectors, those that went to L2 together with the next store's, and the
    /// last ones of those that became whole so.
    pub(super) gathered_writes: [u64; GROUPS],
    pub(super) completing_writes: [u64; GROUPS],
    /// Requests of loads, and those that wait for L2: one of their sectors is not in
    /// L1 yet. Both only of lines that are looked at.
    pub(super) load_requests: u64,
    pub(super) waiting_requests: u64,
    /// Sectors of atomics, in all lines together.
    pub(super) l2_atomics: u64,
    pub(super) dram: DramCounts,
}

/// A run of consecutive blocks, and how many blocks each stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) blocks: u64,
    pub(super) weight: f64,
}

/// A block that runs.
struct Running {
    block: Started,
    number: u64,
    next: usize,
}

/// The caches with the blocks that run before them.
pub(super) struct Passage {
    l1: L1,
    l2: L2,
    sampling: Sampling,
    sms: usize,
    partitions: usize,
    slots: usize,
    l1_bytes: u64,
    counts: Counts,
    /// Of partly written lines of the statement: line, sectors, how many came
    /// before it.
    recent: [(u64, Sectors, u64); RECENT_STORES],
    /// Partly written lines so far, whether they are looked at or not.
    stored: u64,
}

impl Passage {
    pub(super) fn new(geometry: &Geometry, sampling: Sampling) -> Self {
        let sms = geometry.sms.max(1) as usize;
        Self {
            l1: L1::new(sms, geometry.l1_bytes, sampling.log),
            l2: L2::new(geometry, sampling),
            sampling,
            sms,
            partitions: geometry.l2_partitions.max(1) as usize,
            slots: sms * geometry.resident_blocks.max(1) as usize,
            l1_bytes: geometry.l1_bytes,
            counts: Counts::default(),
            recent: NO_STORES,
            stored: 0,
        }
    }

    /// Runs the blocks of all segments, one after another: as many at a time as
    /// the device holds, dealt out to the SMs in turn, each a statement at a
    /// time. Returns what passed during each segment; L2 stays as it is.
    pub(super) fn run(
        &mut self,
        blocks: &mut Blocks<'_>,
        segments: &[Segment],
    ) -> Result<Vec<Counts>, Diagnostic> {
        self.l1 = L1::new(self.sms, self.l1_bytes, self.sampling.log);
        self.counts = Counts::default();
        self.l2.counts = DramCounts::default();
        let mut passed = Vec::with_capacity(segments.len());
        let mut queue = segments.iter().copied();
        let mut segment = queue.next();
        let mut started = 0;
        let all: u64 = segments.iter().map(|segment| segment.blocks).sum();
        let mut running: Vec<Option<Running>> = Vec::new();
        running.resize_with(self.slots.min(usize::try_from(all).unwrap_or(usize::MAX)), || None);
        let mut left = running.len();
        while left > 0 {
            left = 0;
            self.l1.next_round();
            self.l2.next_round();
            for (slot, place) in running.iter_mut().enumerate() {
                if place.is_none() {
                    while segment.is_some_and(|segment| started == segment.blocks) {
                        (segment, started) = (queue.next(), 0);
                        // The last one ends with its last block.
                        if segment.is_some() {
                            passed.push(self.snapshot());
                        }
                    }
                    if let Some(segment) = segment {
                        let block = blocks.start(segment.start + started)?;
                        started += 1;
                        *place = Some(Running { block, number: segment.start + started, next: 0 });
                    }
                }
                let Some(block) = place else { continue };
                left += 1;
                if self.statement(slot % self.sms, block, blocks) {
                    *place = None;
                }
            }
        }
        passed.push(self.snapshot());
        let mut before = Counts::default();
        for counts in &mut passed {
            let until = *counts;
            counts.subtract(&before);
            before = until;
        }
        Ok(passed)
    }

    /// Changed sectors that L2 still holds, of the lines looked at: those of the
    /// launch, and those from before it.
    pub(super) fn dirty_sectors(&self) -> [u64; 2] {
        self.l2.dirty_sectors()
    }

    fn snapshot(&self) -> Counts {
        Counts { dram: self.l2.counts, ..self.counts }
    }

    /// Executes the next statement of a block; whether it was the last.
    fn statement(&mut self, sm: usize, running: &mut Running, blocks: &mut Blocks<'_>) -> bool {
        let (accesses, position) = match &mut running.block {
            Started::OfBox { index, position } => (blocks.of_box(*index), *position),
            Started::Alone(accesses) => (accesses.as_mut_slice(), [0; 3]),
        };
        self.recent = NO_STORES;
        while let Some(access) = accesses.get_mut(running.next) {
            running.next += 1;
            let (action, ends) = (access.action, access.ends_statement);
            let (footprint, moved) = Access::footprint(access, position);
            self.access(sm, running.number, action, footprint, moved);
            if ends {
                break;
            }
        }
        running.next >= accesses.len()
    }

    fn access(&mut self, sm: usize, block: u64, action: Action, footprint: &Footprint, moved: u64) {
        let near = sm * self.partitions / self.sms;
        let mut bytes = footprint.bytes.iter();
        if let Action::Atomic { sectors } = action {
            self.counts.l2_atomics += u64::from(sectors);
        }
        let (mut looked_at, mut waits) = (false, false);
        for part in &footprint.parts {
            let line = part.line().wrapping_add(moved);
            let (sectors, whole) = (part.sectors(), part.whole());
            let is_partial = action == Action::Store && whole != sectors;
            let written = if is_partial { bytes.next().copied().unwrap_or(0) } else { 0 };
            self.stored += u64::from(is_partial);
            if !self.sampling.takes(line) {
                continue;
            }
            let group = self.sampling.group(line);
            let number = |sectors: Sectors| u64::from(sectors.count_ones());
            match action {
                Action::Load | Action::LoadPastL1 => {
                    let (missing, awaited) = match action {
                        Action::Load => self.l1.load(sm, line, sectors),
                        _ => (sectors, 0),
                    };
                    self.counts.l1_awaited[group] += number(awaited);
                    (looked_at, waits) = (true, waits || missing | awaited != 0);
                    self.counts.l1_hits[group] += number(sectors & !missing);
                    if missing != 0 {
                        self.counts.l2_reads[group] += number(missing);
                        self.l2.read(near, line, missing);
                    }
                }
                Action::Store => {
                    if self.l1.store(sm, line, whole) {
                        self.counts.l1_hits[group] += number(sectors);
                    }
                    self.counts.l2_writes[group] += number(sectors);
                    if is_partial {
                        self.counts.partial_writes[group] += number(sectors & !whole);
                        self.counts.partial_lines[group] += 1;
                        let shared = self.stored_before(line, sectors & !whole);
                        self.counts.shared_writes[group] += number(shared);
                    }
                    let gathers = is_partial && gathers(footprint.parts.len(), line, block);
                    let stored = Stored { sectors, whole, bytes: written, gathers };
                    let gathered = self.l2.write(Writer { block, near }, line, stored);
                    self.counts.gathered_writes[group] += u64::from(gathered.parts);
                    self.counts.completing_writes[group] += u64::from(gathered.completed);
                }
                Action::Atomic { .. } => {
                    self.l1.forget(sm, line, sectors);
                    self.l2.atomic(line, sectors);
                }
            }
        }
        self.counts.load_requests += u64::from(looked_at);
        self.counts.waiting_requests += u64::from(waits);
    }

    /// Partly written sectors that this statement has just stored other parts
    /// of.
    fn stored_before(&mut self, line: u64, partial: Sectors) -> Sectors {
        let first = self.stored.saturating_sub(RECENT_STORES as u64);
        let before = self.recent.iter().filter(|(recent, _, at)| *recent == line && *at >= first);
        let shared = before.fold(0, |all, (_, sectors, _)| all | sectors) & partial;
        self.recent[self.stored as usize % RECENT_STORES] = (line, partial, self.stored);
        shared
    }
}

impl Counts {
    fn subtract(&mut self, before: &Self) {
        let [opening_reads, further_reads] = &mut self.dram.read_lines;
        let [opening_writes, further_writes] = &mut self.dram.written_lines;
        let pairs = [
            (&mut self.l1_hits, &before.l1_hits),
            (&mut self.l1_awaited, &before.l1_awaited),
            (&mut self.l2_reads, &before.l2_reads),
            (&mut self.l2_writes, &before.l2_writes),
            (&mut self.shared_writes, &before.shared_writes),
            (&mut self.partial_writes, &before.partial_writes),
            (&mut self.partial_lines, &before.partial_lines),
            (&mut self.gathered_writes, &before.gathered_writes),
            (&mut self.completing_writes, &before.completing_writes),
            (&mut self.dram.fetched, &before.dram.fetched),
            (&mut self.dram.filled, &before.dram.filled),
            (&mut self.dram.written, &before.dram.written),
            (&mut self.dram.changed, &before.dram.changed),
            (opening_reads, &before.dram.read_lines[0]),
            (further_reads, &before.dram.read_lines[1]),
            (opening_writes, &before.dram.written_lines[0]),
            (further_writes, &before.dram.written_lines[1]),
            (&mut self.dram.awaited, &before.dram.awaited),
        ];
        for (mine, theirs) in pairs {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine -= theirs);
        }
        self.load_requests -= before.load_requests;
        self.waiting_requests -= before.waiting_requests;
        self.l2_atomics -= before.l2_atomics;
    }
}
