//! Traffic: what a launch moves between L1, L2 and DRAM.
//!
//! # The model
//!
//! Blocks start in launch order, as many together as an SM has room for
//! ([`SmLimits::resident_blocks`]), dealt out to the SMs in turn; when one ends,
//! the next takes its place. All blocks that run advance alike: each executes a
//! statement, all warps of it, then it is the next block's turn. A device's
//! order is looser than that; what depends on more than which accesses are near
//! to each other in time is not predicted.
//!
//! - L1, one an SM: sectored lines of 128 bytes, least recently used out first,
//!   in what shared memory leaves. Loads allocate and fetch the missing sectors.
//!   Stores write through; their lines are allocated without being fetched.
//!   `.cg` and `volatile` loads, and atomics, go past it. Empty at the start.
//! - Stores to L2: one sector for each sector that a warp writes. Two warps of a
//!   block that store parts of one sector in one statement send it once in
//!   [`Geometry::store_merge_share`] of the cases.
//! - L2: partitions with a copy of what their SMs read from another one's home;
//!   see [`Geometry`]. A missing sector fetches all of its DRAM access.
//!   A sector partly written is completed by later stores, or, when it has to
//!   leave, by a read of it from DRAM before it is written back.
//! - DRAM: what is written back counts as it leaves L2. What L2 still holds at
//!   the end is not in [`record::Traffic::dram_write_bytes`], as it is not in the
//!   counters; see [`Estimate::dirty_bytes`].
//!
//! Shared memory moves nothing, and local arrays are taken to be in registers.
//!
//! # Reduction
//!
//! Caches are simulated on one in 2ⁿ lines, with caches smaller by as much; and
//! of very long launches some runs of consecutive blocks stand for the others.
//! [`Estimate::deviation`] is three standard errors of that, and one part in a
//! hundred for what a smaller cache gets wrong near its capacity.

mod blocks;
mod geometry;
mod l1;
mod l2;
mod passage;
mod sampling;

pub(crate) use geometry::carve_out;
pub use geometry::{Geometry, LINE_BYTES, SECTOR_BYTES, SmLimits};

use blocks::{Blocks, Work};
use passage::{Counts, Passage, Segment};
use record::{SampledTraffic, Traffic};
use sampling::{GROUPS, Sampling, deviation};
use scenario::eval::{Evaluator, Limits};
use scenario::{Diagnostic, Run};
use simulator::RuleSet;

/// Lines simulated of the runs that are reduced together: half a second or so.
const SIMULATED_LINES: f64 = 3e6;
/// Lines that a run may take all the same where it can't be thinned out so far. What
/// L2 holds when a part of a launch begins is not what it would hold, so that some
/// blocks stand less well for all than some lines do.
const SIMULATED_LINES_OF_A_RUN: f64 = 2e6;
/// Lines gone through to find those, of all runs and of one.
const VISITED_LINES: f64 = 300e6;
const VISITED_LINES_OF_A_RUN: f64 = 30e6;
/// Accesses evaluated block by block, of all runs.
const EVALUATED_ACCESSES: f64 = 5e5;
/// Most that lines are thinned out: one in 2^this.
const MOST_THINNING: u32 = 8;
/// Granules of the smallest buffer that must be left: what fits a cache or doesn't
/// is decided by them.
const LEAST_GRANULES: u64 = 64;
/// Lines of an SM's L1 that must be left.
const LEAST_L1_LINES: u64 = 64;
/// What a cache that is simulated by some of its lines gets wrong beside chance:
/// the sets of a smaller cache are filled less evenly. SHARDS (see
/// [`Sampling`]) reports errors of the miss ratio about this large.
const THINNED_CACHE_ERROR: f64 = 0.01;
/// Runs of blocks that stand for a launch too long to be gone through.
const RUNS: u64 = 8;

/// How to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Simulate every line of every block, however long it takes.
    pub exact: bool,
    /// Let the launch find in L2 what a first one left there.
    pub warm: bool,
    /// Runs that share a second or so of one core where they are reduced: those of
    /// a scenario, whichever of them are asked for, so that a run's result does
    /// not depend on the others.
    pub together: usize,
    /// When to give up evaluating.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self { exact: false, warm: false, together: 1, limits: Limits::default() }
    }
}

/// What a launch moves.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Sectors and bytes, as the counters have them.
    pub traffic: Traffic,
    /// Bytes read from DRAM to complete partly written sectors; they are in
    /// [`Traffic::dram_read_bytes`].
    pub fill_bytes: f64,
    /// Lines read from DRAM, by whether their granule was among those opened last.
    pub dram_reads: LineAccesses,
    /// Lines written to DRAM, likewise.
    pub dram_writes: LineAccesses,
    /// Sectors found in L1 that warps wait for as long as for L2, for they were
    /// being fetched.
    pub l1_awaited_sectors: f64,
    /// Share of the requests of loads that wait for L2, for the slowest lane does:
    /// that of blocks of one SM. `None` where they load nothing.
    pub waiting_share: Option<f64>,
    /// Sectors read from L2 that blocks wait for as long as for DRAM, for they were
    /// being fetched: by the reader or by another at about the same time.
    pub l2_awaited_sectors: f64,
    /// Sectors of [`Traffic::l2_write_sectors`] that a store wrote a part of, and that go
    /// to L2 so.
    pub l2_partial_sectors: f64,
    /// Lines of stores with such sectors, each a request to L2.
    pub l2_partial_requests: f64,
    /// Sectors of [`Traffic::l2_write_sectors`] that were written in part and that the SM
    /// gathers with the next store's, with which they count as one.
    pub l2_merged_sectors: f64,
    /// Lines of stores with such sectors.
    pub l2_merged_requests: f64,
    /// Bytes that the launch changed and L2 still holds at its end.
    pub dirty_bytes: f64,
    /// Blocks that run together on an SM.
    pub resident_blocks: u32,
    /// Blocks simulated.
    pub blocks_simulated: u64,
    /// Blocks of the launch.
    pub blocks: u64,
    /// One in so many lines was simulated.
    pub one_line_in: u32,
    /// Three standard errors and one part in a hundred; zero where all was
    /// simulated.
    pub deviation: Deviation,
}

/// Lines that DRAM reads from or writes to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LineAccesses {
    /// Those that open their granule.
    pub opening: f64,
    /// Those that find it open.
    pub further: f64,
}

impl LineAccesses {
    fn scaled(self, by: f64) -> Self {
        Self { opening: by * self.opening, further: by * self.further }
    }
}

impl Estimate {
    /// Whether all lines of all blocks were simulated.
    pub fn is_whole(&self) -> bool {
        self.one_line_in == 1 && self.blocks_simulated == self.blocks
    }
}

/// How far a reduced simulation may be off the whole one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Deviation {
    /// Sectors read from and written to L2.
    pub l2_sectors: f64,
    /// Bytes read from and written to DRAM.
    pub dram_bytes: f64,
}

/// Simulates a run with its buffers at `bases`. `None` where the rule set's
/// caches are not those that are modelled: 128-byte lines with 32-byte sectors,
/// global memory cached in L1.
///
/// # Errors
/// What the kernel does wrong, or a launch beyond the limits.
pub fn traffic(
    run: &Run,
    bases: &[u64],
    rules: &RuleSet,
    geometry: &Geometry,
    options: &Options,
) -> Result<Option<Estimate>, Diagnostic> {
    let sizes = (rules.line_bytes().map(u64::from), rules.sector_bytes().map(u64::from));
    let is_modelled = sizes == (Some(LINE_BYTES), Some(SECTOR_BYTES));
    if !is_modelled || !rules.data().cache.is_some_and(|cache| cache.sectors_reach_l2) {
        return Ok(None);
    }
    let evaluator = Evaluator::new(run, bases, options.limits)?;
    let mut blocks = Blocks::new(&evaluator, rules)?;
    let (sampling, segments) = match options.exact {
        true => (Sampling { log: 0 }, whole(blocks.count())),
        false => reduction(run, geometry, blocks.count(), blocks.work()?, options.together),
    };
    let mut passage = Passage::new(geometry, sampling);
    if options.warm {
        passage.run(&mut blocks, &segments)?;
    }
    let before = passage.dirty_sectors();
    let passed = passage.run(&mut blocks, &segments)?;
    let sums = Sums { segments: &segments, passed: &passed, factor: sampling.factor() };
    let estimate = sums.estimate(geometry, blocks.count(), [before, passage.dirty_sectors()]);
    let waiting_share = waiting_share(geometry, &mut blocks)?;
    Ok(Some(Estimate { waiting_share, ..estimate }))
}

/// Lines of the blocks that [`waiting_share`] simulates.
const LINES_OF_AN_SM: f64 = 2e5;

/// How often as many blocks as run together are simulated: what they share, a table
/// say, comes into L1 little by little.
const TURNS_OF_AN_SM: u64 = 16;

/// Of the blocks that one SM runs, the share of load requests that wait for L2. All
/// their lines are simulated: a request of 32 lines waits if one of them
/// is missing, which those that a reduced simulation looks at don't tell. The first
/// half of the blocks looked at stand for themselves, the second half for all that
/// follow.
fn waiting_share(geometry: &Geometry, blocks: &mut Blocks<'_>) -> Result<Option<f64>, Diagnostic> {
    let each = blocks.work()?.lines / blocks.count().max(1) as f64;
    let sms = u64::from(geometry.sms.max(1));
    let here = blocks.count().div_ceil(sms);
    let most = (LINES_OF_AN_SM / each.max(1.0)) as u64;
    let turns = TURNS_OF_AN_SM * u64::from(geometry.resident_blocks.max(1));
    let run = here.min(turns).min(most.max(1));
    let segments: Vec<Segment> =
        (0..run).map(|block| Segment { start: block * sms, blocks: 1, weight: 1.0 }).collect();
    // What is beyond L1 makes no difference to it.
    let beyond = Geometry { sms: 1, l2_bytes: 1 << 20, l2_dirty_before_bytes: 0, ..*geometry };
    let passed = Passage::new(&beyond, Sampling { log: 0 }).run(blocks, &segments)?;
    let (first, others) = passed.split_at(passed.len() / 2);
    let stands_for = (here - first.len() as u64) as f64 / others.len().max(1) as f64;
    let weighed = |of: fn(&Counts) -> u64| {
        let sum = |part: &[Counts]| part.iter().map(of).sum::<u64>() as f64;
        sum(first) + stands_for * sum(others)
    };
    let all = weighed(|counts| counts.load_requests);
    Ok((all > 0.0).then(|| weighed(|counts| counts.waiting_requests) / all))
}

fn whole(blocks: u64) -> Vec<Segment> {
    vec![Segment { start: 0, blocks, weight: 1.0 }]
}

/// What to simulate of a launch.
fn reduction(
    run: &Run,
    geometry: &Geometry,
    blocks: u64,
    work: Work,
    together: usize,
) -> (Sampling, Vec<Segment>) {
    let each = |all: f64| all / together.max(1) as f64;
    let simulated_lines = each(SIMULATED_LINES);
    let granules = run.buffers.iter().map(|buffer| buffer.bytes / geometry.dram_granule_bytes);
    let least = granules.min().unwrap_or(0) / LEAST_GRANULES;
    let least = least.min(geometry.l1_bytes / LINE_BYTES / LEAST_L1_LINES);
    let most = least.max(1).ilog2().min(MOST_THINNING);
    let wanted = (work.lines / simulated_lines).max(1.0).log2().ceil() as u32;
    let log = wanted.min(most);
    let of_lines =
        simulated_lines.max(SIMULATED_LINES_OF_A_RUN) * f64::from(1_u32 << log) / work.lines;
    let share = of_lines
        .min(each(VISITED_LINES).min(VISITED_LINES_OF_A_RUN) / work.lines)
        .min(each(EVALUATED_ACCESSES) / work.evaluated)
        .min(1.0);
    let resident = u64::from(geometry.sms) * u64::from(geometry.resident_blocks);
    let of_run = (blocks as f64 * share / RUNS as f64) as u64;
    // A run must be longer than what is under way at its start.
    let of_run = of_run.max(4 * resident);
    if share >= 1.0 || of_run.saturating_mul(RUNS) >= blocks {
        return (Sampling { log }, whole(blocks));
    }
    let stratum = blocks / RUNS;
    let mut segments = Vec::new();
    for run in 0..RUNS {
        let start = run * stratum;
        let stands_for = if run + 1 == RUNS { blocks - start } else { stratum };
        let warm_up = of_run / 4;
        let measured = of_run - warm_up;
        // The launch's first blocks stand for themselves: caches fill.
        let (own, others) = match run {
            0 => (1.0, stands_for - warm_up),
            _ => (0.0, stands_for),
        };
        segments.push(Segment { start, blocks: warm_up, weight: own });
        segments.push(Segment {
            start: start + warm_up,
            blocks: measured,
            weight: others as f64 / measured as f64,
        });
    }
    (Sampling { log }, segments)
}

/// The sums over segments and groups.
struct Sums<'a> {
    segments: &'a [Segment],
    passed: &'a [Counts],
    /// Lines that a line looked at stands for.
    factor: f64,
}

impl Sums<'_> {
    /// `dirty` are the changed sectors that L2 held before and holds after, of the
    /// launch and of others.
    fn estimate(&self, geometry: &Geometry, blocks: u64, dirty: [[u64; 2]; 2]) -> Estimate {
        let share_merged = geometry.store_merge_share;
        let l2_writes = |counts: &Counts, group: usize| {
            counts.l2_writes[group] as f64 - share_merged * counts.shared_writes[group] as f64
        };
        let dram_reads = |counts: &Counts, group: usize| {
            (counts.dram.fetched[group] + counts.dram.filled[group]) as f64
        };
        let sector = SECTOR_BYTES as f64;
        let total = |value: &dyn Fn(&Counts, usize) -> f64| {
            (0..GROUPS).map(|group| self.group(group, value)).sum::<f64>()
        };
        let simulated = self.segments.iter().map(|segment| segment.blocks).sum();
        let all_blocks = simulated == blocks;
        let passed = total(&|counts, group| counts.dram.written[group] as f64);
        let changed = total(&|counts, group| counts.dram.changed[group] as f64);
        let written = if all_blocks { passed } else { self.written(geometry, changed, dirty) };
        let share = if changed > 0.0 { written / changed } else { 0.0 };
        let written = |counts: &Counts, group: usize| match all_blocks {
            true => counts.dram.written[group] as f64,
            false => share * counts.dram.changed[group] as f64,
        };
        let lines = |of: &dyn Fn(&Counts) -> &[[u64; GROUPS]; 2]| LineAccesses {
            opening: total(&|counts, group| of(counts)[0][group] as f64),
            further: total(&|counts, group| of(counts)[1][group] as f64),
        };
        let atomics: f64 = self
            .segments
            .iter()
            .zip(self.passed)
            .map(|(segment, counts)| segment.weight * counts.l2_atomics as f64)
            .sum();
        let count = |value: f64| Some(value.round().max(0.0) as u128);
        let one_line_in = self.factor as u32;
        let l2_sectors = |counts: &Counts, group: usize| {
            counts.l2_reads[group] as f64 + l2_writes(counts, group)
        };
        let dram_sectors =
            |counts: &Counts, group: usize| dram_reads(counts, group) + written(counts, group);
        let deviation = Deviation {
            l2_sectors: self.deviation(&l2_sectors),
            dram_bytes: self.deviation(&dram_sectors) * sector,
        };
        let is_whole = one_line_in == 1 && all_blocks;
        let traffic = Traffic {
            l1_hit_sectors: count(total(&|counts, group| counts.l1_hits[group] as f64)),
            l2_read_sectors: count(total(&|counts, group| counts.l2_reads[group] as f64)),
            l2_write_sectors: count(total(&l2_writes)),
            l2_atomic_sectors: (atomics > 0.0).then(|| count(atomics)).flatten(),
            dram_read_bytes: count(total(&dram_reads) * sector),
            dram_write_bytes: count(total(&written) * sector),
            sampled: (!is_whole).then(|| SampledTraffic {
                one_line_in,
                blocks: simulated,
                of: blocks,
                l2_sectors_deviation: deviation.l2_sectors.ceil() as u64,
                dram_bytes_deviation: deviation.dram_bytes.ceil() as u64,
            }),
        };
        let parts = total(&|counts, group| counts.partial_writes[group] as f64);
        let completing = total(&|counts, group| counts.completing_writes[group] as f64);
        let merged = total(&|counts, group| counts.gathered_writes[group] as f64);
        let partial = (parts - completing - merged).max(0.0);
        let lines_of_parts = total(&|counts, group| counts.partial_lines[group] as f64);
        // Lines of each such sector.
        let each = if parts > 0.0 { lines_of_parts / parts } else { 0.0 };
        let dram_writes = lines(&|counts| &counts.dram.written_lines);
        Estimate {
            traffic,
            fill_bytes: total(&|counts, group| counts.dram.filled[group] as f64) * sector,
            dram_reads: lines(&|counts| &counts.dram.read_lines),
            dram_writes: dram_writes.scaled(if passed > 0.0 {
                total(&written) / passed
            } else {
                1.0
            }),
            l1_awaited_sectors: total(&|counts, group| counts.l1_awaited[group] as f64),
            waiting_share: None,
            l2_awaited_sectors: total(&|counts, group| counts.dram.awaited[group] as f64),
            l2_partial_sectors: partial,
            l2_partial_requests: each * partial,
            l2_merged_sectors: merged,
            l2_merged_requests: each * merged,
            dirty_bytes: dirty[1][0] as f64 * self.factor * sector,
            resident_blocks: geometry.resident_blocks,
            blocks_simulated: simulated,
            blocks,
            one_line_in,
            deviation,
        }
    }

    /// Sectors written back of a launch of which some blocks were left out. L2 is
    /// not as full of changed lines as it would be where these begin again, so
    /// that too few are written back: what was `changed`, less what L2 has in the
    /// end, is.
    fn written(&self, geometry: &Geometry, changed: f64, dirty: [[u64; 2]; 2]) -> f64 {
        let [[own, others], [own_after, others_after]] =
            dirty.map(|sectors| sectors.map(|sectors| self.factor * sectors as f64));
        let l2_sectors = (geometry.l2_bytes / SECTOR_BYTES) as f64;
        let of_launch =
            |counts: &Counts| -> u64 { counts.l2_reads.iter().chain(&counts.l2_writes).sum() };
        let seen = self.factor * self.passed.iter().map(of_launch).sum::<u64>() as f64;
        // Too little passed for L2 to be as it is in the end.
        let left = match seen < 2.0 * l2_sectors {
            true => changed.min(geometry.l2_dirty_share * l2_sectors).max(own_after),
            false => own_after,
        };
        (own + others - others_after + changed - left).max(0.0)
    }

    /// What the lines of a group, and those they stand for, add to a total.
    fn group(&self, group: usize, value: &dyn Fn(&Counts, usize) -> f64) -> f64 {
        let parts = self.segments.iter().zip(self.passed);
        self.factor
            * parts.map(|(segment, counts)| segment.weight * value(counts, group)).sum::<f64>()
    }

    /// From the spread over the groups of lines, where lines were left out, and
    /// over the runs of blocks, where blocks were.
    fn deviation(&self, value: &dyn Fn(&Counts, usize) -> f64) -> f64 {
        let of_lines = if self.factor > 1.0 {
            let groups: Vec<f64> = (0..GROUPS).map(|group| self.group(group, value)).collect();
            deviation(&groups) + THINNED_CACHE_ERROR * groups.iter().sum::<f64>()
        } else {
            0.0
        };
        let runs: Vec<f64> = self
            .segments
            .iter()
            .zip(self.passed)
            .filter(|(segment, _)| segment.weight > 1.0)
            .map(|(segment, counts)| {
                let all: f64 = (0..GROUPS).map(|group| value(counts, group)).sum();
                self.factor * segment.weight * all
            })
            .collect();
        let of_blocks = if runs.len() > 1 { deviation(&runs) } else { 0.0 };
        of_lines.hypot(of_blocks)
    }
}
