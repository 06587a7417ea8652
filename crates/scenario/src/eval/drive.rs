//! From a launch to boxes and single blocks, in parallel.

use super::machine::{Machine, Sink};
use super::{Ask, BlockBox, Evaluator, Request, Stop, unresolved};
use crate::diagnostic::{Diagnostic, Kind};
use crate::source::Span;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is gathered over a launch, in parts that come together in any order.
pub(crate) trait Tally: Sink + Send {
    /// Adds what another part gathered.
    fn merge(&mut self, other: Self);
}

/// How a launch was gone through.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Boxes of blocks that were evaluated as one.
    pub(crate) boxes: u64,
    /// Blocks that were evaluated one by one.
    pub(crate) single_blocks: u64,
    /// The first expression, in the order of the source, that made that
    /// necessary.
    pub(crate) because: Option<Span>,
}

/// Blocks that are evaluated by one task.
const BLOCKS_A_TASK: u64 = 4096;

/// Tasks a core that a range of blocks is divided into, so that none waits
/// long for the others.
const TASKS_A_CORE: u64 = 16;

/// Work that is left to do.
enum Job {
    /// A box as one.
    Box(BlockBox),
    /// A box point by point along some axes, the slowest first; the points are
    /// numbered in that order.
    Points { blocks: BlockBox, axes: Vec<usize>, range: Range<u64> },
}

/// The evaluation of a launch.
pub(crate) struct Drive<'e, 'r> {
    evaluator: &'e Evaluator<'r>,
    progress: Option<&'e (dyn Fn(u64, u64) + Sync)>,
    /// The failure of the first block in launch order so far.
    failure: Mutex<Option<(u64, Diagnostic)>>,
    /// Its block's position, else `u64::MAX`: later blocks need not be looked
    /// at.
    failed_at: AtomicU64,
    boxes: AtomicU64,
    single_blocks: AtomicU64,
    because: Mutex<Option<Span>>,
    /// Threads that are to be gone through one by one.
    threads: AtomicU64,
    done: AtomicU64,
    spent: AtomicU64,
}

impl<'e, 'r> Drive<'e, 'r> {
    /// `progress` is called with the number of blocks done and of all.
    pub(crate) fn new(
        evaluator: &'e Evaluator<'r>,
        progress: Option<&'e (dyn Fn(u64, u64) + Sync)>,
    ) -> Self {
        Self {
            evaluator,
            progress,
            failure: Mutex::new(None),
            failed_at: AtomicU64::new(u64::MAX),
            boxes: AtomicU64::new(0),
            single_blocks: AtomicU64::new(0),
            because: Mutex::new(None),
            threads: AtomicU64::new(0),
            done: AtomicU64::new(0),
            spent: AtomicU64::new(0),
        }
    }

    /// Evaluates the launch into a tally, from parts that `part` makes.
    pub(crate) fn run<T: Tally>(
        self,
        part: &(dyn Fn() -> T + Sync),
    ) -> Result<(T, Cost), Diagnostic> {
        let whole = BlockBox::whole(&self.evaluator.code.run.launch);
        let mut tally = part();
        let mut jobs = vec![Job::Box(whole)];
        // What is gone through block by block waits for the boxes: only then
        // is it known how much it is in all.
        let mut waiting = Vec::new();
        while !jobs.is_empty() && self.failed_at.load(Ordering::Relaxed) > 0 {
            let tasks: Vec<Job> = jobs.into_iter().flat_map(divided).collect();
            // What is quick needs no second thread to be started.
            let (more, left) = if tasks.len() == 1 {
                tasks.into_iter().map(|task| self.task(task, part())).next()
            } else {
                tasks.into_par_iter().map(|task| self.task(task, part())).reduce_with(
                    |(mut tally, mut jobs), (more, left)| {
                        tally.merge(more);
                        jobs.extend(left);
                        (tally, jobs)
                    },
                )
            }
            .unwrap_or_else(|| (part(), Vec::new()));
            tally.merge(more);
            let (boxes, points): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|job| matches!(job, Job::Box(_)));
            waiting.extend(points);
            jobs = if boxes.is_empty() { std::mem::take(&mut waiting) } else { boxes };
        }
        let failure = self.failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((_, diagnostic)) = failure {
            return Err(diagnostic);
        }
        let because = self.because.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok((
            tally,
            Cost {
                boxes: self.boxes.into_inner(),
                single_blocks: self.single_blocks.into_inner(),
                because,
            },
        ))
    }

    /// Does one job, and says what it left to do.
    fn task<T: Tally>(&self, job: Job, tally: T) -> (T, Vec<Job>) {
        let evaluator = self.evaluator;
        let mut machine =
            Machine::new(&evaluator.code, &evaluator.firsts, evaluator.limits, &self.spent, tally);
        let left = match job {
            Job::Box(blocks) => self.run_box(&mut machine, &blocks),
            Job::Points { blocks, axes, range } => {
                self.run_points(&mut machine, &blocks, &axes, range)
            }
        };
        (machine.sink, left)
    }

    fn run_box<T: Tally>(&self, machine: &mut Machine<'_, '_, T>, blocks: &BlockBox) -> Vec<Job> {
        let grid = self.evaluator.code.run.launch.grid;
        let first = blocks.first(grid);
        if first >= self.failed_at.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let is_point = blocks.blocks() == 1;
        if !is_point && self.boxes.load(Ordering::Relaxed) >= self.box_budget() {
            return self.points(blocks, 0b111, None);
        }
        let mark = machine.sink.mark();
        let result = machine.run(blocks);
        let stop = match result {
            Ok(()) => {
                self.boxes.fetch_add(1, Ordering::Relaxed);
                self.advance(blocks.blocks());
                return Vec::new();
            }
            Err(stop) => stop,
        };
        machine.sink.rollback(mark);
        match stop {
            Stop::Fails(diagnostic) => self.fail(first, *diagnostic),
            // The first block shows the failure with its values.
            Stop::FailsInBox if !is_point => {
                let mark = machine.sink.mark();
                match machine.run(&BlockBox::point(blocks.start)) {
                    Err(Stop::Fails(diagnostic)) => self.fail(first, *diagnostic),
                    _ => {
                        machine.sink.rollback(mark);
                        return self.points(blocks, 0b111, None);
                    }
                }
            }
            Stop::Request(request) if !is_point => {
                // A box whose attempt failed has been paid for, too.
                self.boxes.fetch_add(1, Ordering::Relaxed);
                return self.cut(blocks, &request);
            }
            Stop::FailsInBox => self.fail(first, unresolved(None)),
            Stop::Request(request) => self.fail(first, unresolved(Some(request.span))),
        }
        Vec::new()
    }

    /// Boxes that pay, compared with going through the blocks.
    fn box_budget(&self) -> u64 {
        (self.evaluator.code.blocks() / 4).clamp(16, self.evaluator.limits.boxes.max(16))
    }

    fn cut(&self, blocks: &BlockBox, request: &Request) -> Vec<Job> {
        match &request.ask {
            Ask::Split { var: axis @ 0..3, at } => {
                blocks.split(*axis, at).into_iter().map(Job::Box).collect()
            }
            Ask::Classes { var: axis @ 0..3, period } => {
                let budget = self.box_budget().saturating_sub(self.boxes.load(Ordering::Relaxed));
                if *period > budget {
                    return self.points(blocks, 1 << axis, Some(request.span));
                }
                blocks.classes(*axis, *period).map(Job::Box).collect()
            }
            Ask::Pin { vars } => self.points(blocks, *vars, Some(request.span)),
            Ask::Split { .. } | Ask::Classes { .. } => {
                self.points(blocks, 0b111, Some(request.span))
            }
        }
    }

    /// The job of going through a box along the axes of a set.
    fn points(&self, blocks: &BlockBox, axes: u8, because: Option<Span>) -> Vec<Job> {
        let wanted = |axes: u8| -> Vec<usize> {
            (0..3).rev().filter(|axis| axes >> axis & 1 == 1 && blocks.count[*axis] > 1).collect()
        };
        let mut axes = wanted(axes);
        if axes.is_empty() {
            axes = wanted(0b111);
        }
        if let (Some(because), Ok(mut first)) = (because, self.because.lock()) {
            let key = |span: &Span| (span.source, span.start, span.end);
            if first.as_ref().is_none_or(|first| key(&because) < key(first)) {
                *first = Some(because);
            }
        }
        let range = 0..axes.iter().map(|&axis| blocks.count[axis]).product();
        match self.admit(range.end, because) {
            true => vec![Job::Points { blocks: *blocks, axes, range }],
            false => Vec::new(),
        }
    }

    /// Whether so many blocks may be gone through.
    fn admit(&self, points: u64, because: Option<Span>) -> bool {
        let limit = self.evaluator.limits.threads;
        let threads = u128::from(points) * self.evaluator.code.threads() as u128;
        let more = u64::try_from(threads).unwrap_or(u64::MAX / 2).min(u64::MAX / 2);
        let all = self.threads.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        if all <= limit {
            return true;
        }
        // Nothing else matters any more.
        self.fail(0, too_many_threads(limit, because));
        false
    }

    fn run_points<T: Tally>(
        &self,
        machine: &mut Machine<'_, '_, T>,
        blocks: &BlockBox,
        axes: &[usize],
        range: Range<u64>,
    ) -> Vec<Job> {
        let grid = self.evaluator.code.run.launch.grid;
        let in_launch_order = axes.is_sorted_by(|a, b| a > b);
        for index in range.clone() {
            let mut point = *blocks;
            let mut rest = index;
            for &axis in axes.iter().rev() {
                let at = rest % blocks.count[axis];
                rest /= blocks.count[axis];
                point.start[axis] += blocks.step[axis] * at;
                (point.step[axis], point.count[axis]) = (1, 1);
            }
            let first = point.first(grid);
            if first >= self.failed_at.load(Ordering::Relaxed) {
                match in_launch_order {
                    true => break,
                    false => continue,
                }
            }
            let single = point.blocks() == 1;
            let mark = (!single).then(|| machine.sink.mark());
            let stop = match machine.run(&point) {
                Ok(()) => {
                    let blocks = if single { &self.single_blocks } else { &self.boxes };
                    blocks.fetch_add(1, Ordering::Relaxed);
                    self.advance(point.blocks());
                    continue;
                }
                Err(stop) => stop,
            };
            match (stop, mark) {
                (Stop::Fails(diagnostic), _) => self.fail(first, *diagnostic),
                (Stop::FailsInBox, None) => self.fail(first, unresolved(None)),
                (Stop::Request(request), None) => {
                    self.fail(first, unresolved(Some(request.span)));
                }
                (Stop::FailsInBox, Some(mark)) => {
                    machine.sink.rollback(mark);
                    self.depth_first(machine, vec![Job::Box(point)]);
                }
                (Stop::Request(request), Some(mark)) => {
                    machine.sink.rollback(mark);
                    // The points that follow will ask for the same: go through
                    // all of them along these axes, too.
                    if let Ask::Pin { vars } = request.ask {
                        let more: Vec<usize> = (0..3)
                            .rev()
                            .filter(|a| vars >> a & 1 == 1 && point.count[*a] > 1)
                            .collect();
                        let factor: u64 = more.iter().map(|&axis| point.count[axis]).product();
                        if !more.is_empty() {
                            if !self
                                .admit(factor.saturating_mul(range.end - index), Some(request.span))
                            {
                                return Vec::new();
                            }
                            let range = index * factor..range.end * factor;
                            let axes = axes.iter().copied().chain(more).collect();
                            return vec![Job::Points { blocks: *blocks, axes, range }];
                        }
                    }
                    let jobs = self.cut(&point, &request);
                    self.depth_first(machine, jobs);
                }
            }
        }
        Vec::new()
    }

    /// Does jobs and those they leave on the spot: there may be some for every
    /// point of a range, too many to keep.
    fn depth_first<T: Tally>(&self, machine: &mut Machine<'_, '_, T>, jobs: Vec<Job>) {
        let mut stack = jobs;
        while let Some(job) = stack.pop() {
            let left = match job {
                Job::Box(blocks) => self.run_box(machine, &blocks),
                Job::Points { blocks, axes, range } => {
                    self.run_points(machine, &blocks, &axes, range)
                }
            };
            stack.extend(left);
        }
    }

    fn fail(&self, at: u64, diagnostic: Diagnostic) {
        if let Ok(mut failure) = self.failure.lock()
            && failure.as_ref().is_none_or(|(first, _)| at < *first)
        {
            *failure = Some((at, diagnostic));
            self.failed_at.fetch_min(at, Ordering::Relaxed);
        }
    }

    fn advance(&self, blocks: u64) {
        let done = self.done.fetch_add(blocks, Ordering::Relaxed).saturating_add(blocks);
        if let Some(progress) = self.progress {
            progress(done, self.evaluator.code.blocks());
        }
    }
}

/// Divides a long range into tasks.
fn divided(job: Job) -> Vec<Job> {
    let Job::Points { blocks, axes, range } = job else { return vec![job] };
    let points = range.end - range.start;
    let tasks = rayon::current_num_threads() as u64 * TASKS_A_CORE;
    let size = points.div_ceil(tasks.max(1)).clamp(1, BLOCKS_A_TASK);
    if points.div_ceil(size) > 1 << 16 {
        // So many tasks that their list would be long: larger ones.
        let size = points.div_ceil(1 << 16);
        return pieces(&blocks, &axes, range, size);
    }
    pieces(&blocks, &axes, range, size)
}

fn pieces(blocks: &BlockBox, axes: &[usize], range: Range<u64>, size: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let end = start.saturating_add(size).min(range.end);
        jobs.push(Job::Points { blocks: *blocks, axes: axes.to_vec(), range: start..end });
        start = end;
    }
    jobs
}

/// The refusal of a launch that would have to be gone through.
pub(super) fn too_many_threads(limit: u64, because: Option<Span>) -> Diagnostic {
    let message = format!(
        "the launch is too large: more than {limit} threads would have to be evaluated one by one"
    );
    let help = "choose smaller parameters, or index by expressions that are linear in `threadIdx` and `blockIdx`: these are counted in closed form";
    match because {
        Some(span) => Diagnostic::new(Kind::Limit, span, message, help)
            .label("not linear in `blockIdx`: every block is different"),
        None => Diagnostic::whole_file(Kind::Limit, message, help),
    }
}
