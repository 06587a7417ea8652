//! The evaluator: a typed program → the warp accesses of its launch.
//!
//! # What it does
//!
//! A block is evaluated as a whole, statement by statement, all its warps in
//! lockstep under masks: a value is one integer for each of its threads. Lanes
//! that went different ways come together again after the statement that parted
//! them. This is the order of events, and it is the only one:
//!
//! - operands from left to right, then the operator, for all active threads;
//! - an access: its address, the values it stores, the check of every lane
//!   against the bounds of what it goes to, the check of its alignment, then
//!   the accesses of the warps, ascending;
//! - stores and atomics of one statement to shared memory in the order of the
//!   threads, so that of several stores to one place the highest thread's
//!   stays;
//! - `if`: the threads for which the condition holds, then the others.
//!
//! A program without data races sees no difference to the device. One that
//! leaves out a `__syncthreads()` may see shared memory as it is after the
//! statement of *all* warps, where a device would let some warps run ahead.
//!
//! # Many blocks at once
//!
//! The same evaluation serves a *box* of blocks: all with `blockIdx` =
//! start + step·q for 0 ≤ q < count on each axis. A value then is, for each
//! thread, an integer plus a coefficient for each variable of the box, exactly.
//! Every condition must have one answer for each thread all over the box, every
//! conversion must wrap alike, every division leave the same remainder. Where
//! that is not so, evaluation of the box stops and asks for it to be cut: where
//! a comparison changes its answer, by residues for `/`, `%`, `&` and shifts,
//! or, where an operation is not affine (a hash, a product of two variables,
//! an index read from memory), into single points along the variables it
//! depends on. Loops become variables of the box too (see `loops`). So
//! a launch of 2⁴⁰ threads takes a few boxes where its accesses are affine, and
//! is gone through block by block, in parallel, where they are not; what can't
//! be gone through within [`Limits`] is refused.
//!
//! # What fails
//!
//! Signed overflow, division by zero, shifts beyond the width of the type,
//! indices outside of what they index, misaligned accesses, barriers that not
//! all threads of the block reach, loops that do not end. Shifts to the left
//! wrap, as in C++20. Of several failures the one reported is that of the first
//! block in launch order, there the first statement, there the first thread;
//! it does not depend on how the launch was cut or on the number of cores.
//!
//! # What is not known
//!
//! Floats, buffers without contents, buffers that the kernel writes, results of
//! atomics, variables never assigned are *opaque*. An operation on an opaque
//! operand is opaque. An `if` on an opaque condition runs neither side: what
//! they assign is opaque after it. An address, a local array's index, a loop's
//! condition, or the condition of an `if` that contains an access, a barrier, a
//! loop or a jump must be known; else the error says what makes it unknown.

mod affine;
mod code;
mod drive;
mod exec;
mod expr;
mod lanes;
mod loops;
mod machine;
mod memory;
mod value;
mod walk;

use crate::diagnostic::{Diagnostic, Kind};
use crate::program::{BufferId, SiteId};
use crate::run::{Contents, Launch, Run};
use crate::source::Span;
use code::Code;
use lanes::{Lanes, Mask};
use machine::Machine;
use simulator::WarpAccess;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use value::Value;

pub(crate) use drive::{Cost, Drive, Tally};
pub(crate) use machine::{BlockAccess, Sink};
pub use walk::{Alike, AlikeLimits, Walk};

/// The blocks with `blockIdx` = `start + step·q`, 0 ≤ q < `count`, on each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockBox {
    /// `blockIdx` of its first block.
    pub start: [u64; 3],
    /// Distance between its blocks on each axis.
    pub step: [u64; 3],
    /// Blocks on each axis, at least 1.
    pub count: [u64; 3],
}

impl BlockBox {
    /// One block.
    pub const fn point(block: [u64; 3]) -> Self {
        Self { start: block, step: [1; 3], count: [1; 3] }
    }

    /// All blocks of a launch.
    pub const fn whole(launch: &Launch) -> Self {
        Self { start: [0; 3], step: [1; 3], count: launch.grid }
    }

    /// Number of blocks in it.
    pub fn blocks(&self) -> u64 {
        self.count.iter().fold(1, |all, &n| all.saturating_mul(n))
    }

    /// Its pieces, cut along an axis before these of its blocks, ascending.
    fn split(&self, axis: usize, at: &[u64]) -> Vec<Self> {
        let mut pieces = Vec::with_capacity(at.len() + 1);
        let mut from = 0;
        for &to in at.iter().chain([&self.count[axis]]) {
            if to > from {
                let mut piece = *self;
                piece.start[axis] += self.step[axis] * from;
                piece.count[axis] = to - from;
                pieces.push(piece);
                from = to;
            }
        }
        pieces
    }

    /// Its pieces by the residues of an axis' blocks modulo `period`.
    fn classes(&self, axis: usize, period: u64) -> impl Iterator<Item = Self> {
        let whole = *self;
        (0..period.min(whole.count[axis])).map(move |residue| {
            let mut piece = whole;
            piece.start[axis] += whole.step[axis] * residue;
            piece.step[axis] *= period;
            piece.count[axis] = (whole.count[axis] - residue).div_ceil(period);
            piece
        })
    }

    /// Position of its first block in launch order.
    fn first(&self, grid: [u64; 3]) -> u64 {
        let [x, y, z] = self.start;
        (z * grid[1] + y) * grid[0] + x
    }
}

/// How much evaluation may take before it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Boxes of blocks, before the rest is gone through block by block.
    pub boxes: u64,
    /// Threads that are gone through one by one.
    pub threads: u64,
    /// Iterations of one loop that are run one by one.
    pub loop_iterations: u64,
    /// Statements, each counted once for every warp of the block that runs it.
    pub warp_statements: u64,
}

impl Default for Limits {
    /// 2¹⁶ boxes, 2³⁶ threads, 2²² iterations, 2³⁶ statements: at most an hour
    /// or so of a few cores.
    fn default() -> Self {
        Self {
            boxes: 1 << 16,
            threads: 1 << 36,
            loop_iterations: 1 << 22,
            warp_statements: 1 << 36,
        }
    }
}

/// Why evaluation of a box stopped.
enum Stop {
    /// An error, of the box's only block.
    Fails(Box<Diagnostic>),
    /// Every block of the box fails, by the same thread of the same statement.
    FailsInBox,
    /// The box must be cut.
    Request(Box<Request>),
}

struct Request {
    ask: Ask,
    /// The expression that asks.
    span: Span,
}

/// How a box must be cut.
enum Ask {
    /// At these places of a variable, ascending.
    Split { var: usize, at: SmallVec<[u64; 8]> },
    /// By the residues of a variable.
    Classes { var: usize, period: u64 },
    /// Into the single points of the variables in a set.
    Pin { vars: u8 },
}

/// A warp access as it is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Its place in the source.
    pub site: SiteId,
    /// `blockIdx` of its block.
    pub block: [u64; 3],
    /// Its warp in the block: threads `32·warp..32·warp + 32` by their linear
    /// index, x fastest.
    pub warp: u32,
    /// Operation, lanes and addresses; never without an active lane.
    pub access: WarpAccess,
}

/// An access of one warp, with how often that place was executed before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// Its place in the source.
    pub site: SiteId,
    /// 0 for the first time that this warp executes the place.
    pub occurrence: u64,
    /// Operation, lanes and addresses; never without an active lane.
    pub access: WarpAccess,
}

/// A run made ready for evaluation.
pub struct Evaluator<'r> {
    code: Code<'r>,
    /// Address of each buffer's first element.
    firsts: Vec<u64>,
    limits: Limits,
    /// Statements run by walks, of all warps.
    walked: AtomicU64,
}

impl<'r> Evaluator<'r> {
    /// Checks that a run can be evaluated with its buffers at `bases`, the
    /// addresses of their allocations ([`Run::assumed_bases`], or where a device
    /// put them).
    ///
    /// # Errors
    /// A launch beyond what can be evaluated, or a program that lowering would
    /// not make.
    pub fn new(run: &'r Run, bases: &[u64], limits: Limits) -> Result<Self, Diagnostic> {
        if bases.len() != run.buffers.len() {
            return Err(Diagnostic::whole_file(
                Kind::Evaluation,
                format!("{} base addresses for {} buffers", bases.len(), run.buffers.len()),
                "give the address of each buffer, in the order of the file",
            ));
        }
        let mut firsts = Vec::with_capacity(bases.len());
        for (buffer, base) in run.buffers.iter().zip(bases) {
            let first = base.checked_add(buffer.offset_bytes);
            // The end, too, must be an address.
            match first.filter(|first| first.checked_add(buffer.bytes).is_some()) {
                Some(first) => firsts.push(first),
                None => {
                    return Err(Diagnostic::new(
                        Kind::Limit,
                        buffer.span,
                        format!("`{}` does not fit into the address space", buffer.name),
                        "choose a smaller shape",
                    ));
                }
            }
        }
        Ok(Self { code: Code::new(run)?, firsts, limits, walked: AtomicU64::new(0) })
    }

    /// The run that is evaluated.
    pub fn run(&self) -> &'r Run {
        self.code.run
    }

    /// Calls `visit` with every warp access of one block, in the order of
    /// execution: statement by statement, the warps ascending in each.
    ///
    /// # Errors
    /// What the kernel does wrong in this block; accesses before it have been
    /// visited.
    pub fn visit_block(
        &self,
        block: [u64; 3],
        visit: impl FnMut(&Issue),
    ) -> Result<(), Diagnostic> {
        let grid = self.code.run.launch.grid;
        if block.iter().zip(&grid).any(|(index, extent)| index >= extent) {
            return Err(no_such_block(block, grid));
        }
        self.visit_all(std::iter::once(block), visit)
    }

    /// Calls `visit` with every warp access of the launch, block by block in
    /// launch order (x fastest), in each as [`Evaluator::visit_block`] does.
    ///
    /// # Errors
    /// The first thing that the kernel does wrong, or a launch of more than
    /// [`Limits::threads`] threads.
    pub fn visit(&self, visit: impl FnMut(&Issue)) -> Result<(), Diagnostic> {
        let threads = u128::from(self.code.blocks()) * self.code.threads() as u128;
        if threads > u128::from(self.limits.threads) {
            return Err(drive::too_many_threads(self.limits.threads, None));
        }
        let [x, y, z] = self.code.run.launch.grid;
        let rows = (0..z).flat_map(move |z| (0..y).map(move |y| (y, z)));
        self.visit_all(rows.flat_map(move |(y, z)| (0..x).map(move |x| [x, y, z])), visit)
    }

    fn visit_all(
        &self,
        blocks: impl Iterator<Item = [u64; 3]>,
        visit: impl FnMut(&Issue),
    ) -> Result<(), Diagnostic> {
        let sink = Visitor { run: self.code.run, visit };
        let spent = AtomicU64::new(0);
        let mut machine = Machine::new(&self.code, &self.firsts, self.limits, &spent, sink);
        machine.fold_loops = false;
        for block in blocks {
            machine.run(&BlockBox::point(block)).map_err(Stop::into_diagnostic)?;
        }
        Ok(())
    }

    /// The integers in a buffer, `elements` by their flat index, in the
    /// buffer's own type (bits of a `U64` above `i64::MAX` reinterpreted);
    /// `None` where the buffer has no contents. What the kernel does to them
    /// plays no part.
    ///
    /// # Errors
    /// What the buffer's `init` does wrong at one of these elements.
    pub fn contents(
        &self,
        buffer: BufferId,
        elements: Range<u64>,
    ) -> Result<Option<Vec<i64>>, Diagnostic> {
        let Some(found) = self.code.run.buffers.get(buffer.0) else { return Ok(None) };
        if matches!(found.contents, Contents::Unknown) {
            return Ok(None);
        }
        let (spent, sink) = (AtomicU64::new(0), Visitor { run: self.code.run, visit: |_: &_| {} });
        let mut machine = Machine::new(&self.code, &self.firsts, self.limits, &spent, sink);
        machine.n = lanes::MAX_THREADS;
        let mut integers = Vec::new();
        for start in elements.clone().step_by(machine.n) {
            let lanes = (elements.end - start).min(machine.n as u64) as usize;
            let index = Lanes::from_fn(machine.n, |lane| start.saturating_add(lane as u64) as i64);
            let (index, mask) = (Value::known(index), Mask::first_n(lanes));
            let values = machine
                .integers(buffer, index, &mask, found.span)
                .map_err(|stop| without_thread(stop.into_diagnostic()))?;
            if values.opaque.is_some() {
                return Ok(None);
            }
            integers.extend((0..lanes).map(|lane| values.base.get(lane)));
        }
        Ok(Some(integers))
    }

    /// All accesses of one warp of one block, in the order of execution.
    ///
    /// # Errors
    /// What the kernel does wrong in this block, or a block or warp that the
    /// launch does not have.
    pub fn accesses_of(&self, block: [u64; 3], warp: u32) -> Result<Vec<Occurrence>, Diagnostic> {
        let warps = self.code.run.launch.warps_per_block();
        if warp >= warps {
            return Err(Diagnostic::whole_file(
                Kind::Evaluation,
                format!("there is no warp {warp}: a block has {warps}"),
                format!("name a warp from 0 to {}", warps - 1),
            ));
        }
        let mut executed = vec![0; self.code.run.program.sites.len()];
        let mut found = Vec::new();
        self.visit_block(block, |issue| {
            if issue.warp == warp {
                let occurrence = executed[issue.site.0];
                executed[issue.site.0] += 1;
                found.push(Occurrence { site: issue.site, occurrence, access: issue.access });
            }
        })?;
        Ok(found)
    }
}

/// An error found while nothing runs: no thread reads the element.
fn without_thread(mut error: Diagnostic) -> Diagnostic {
    for note in &mut error.notes {
        if let Some(end) = note.find(", read by thread") {
            note.truncate(end);
        }
    }
    error
}

fn no_such_block([x, y, z]: [u64; 3], grid: [u64; 3]) -> Diagnostic {
    Diagnostic::whole_file(
        Kind::Evaluation,
        format!(
            "there is no block ({x}, {y}, {z}): the grid is {} × {} × {}",
            grid[0], grid[1], grid[2]
        ),
        format!(
            "name a block from (0, 0, 0) to ({}, {}, {})",
            grid[0] - 1,
            grid[1] - 1,
            grid[2] - 1
        ),
    )
}

impl Stop {
    /// The error of an evaluation of one block without folded loops, which asks
    /// for nothing.
    fn into_diagnostic(self) -> Diagnostic {
        match self {
            Self::Fails(diagnostic) => *diagnostic,
            Self::FailsInBox => unresolved(None),
            Self::Request(request) => unresolved(Some(request.span)),
        }
    }
}

/// A single block that asks to be cut, which it never should.
fn unresolved(span: Option<Span>) -> Diagnostic {
    let message = "evaluation of a single block did not come to an end";
    let help = "this is an error in coalescope: please report it with the scenario";
    match span {
        Some(span) => Diagnostic::new(Kind::Evaluation, span, message, help),
        None => Diagnostic::whole_file(Kind::Evaluation, message, help),
    }
}

/// Hands every warp's access of every point to a closure.
struct Visitor<'r, F> {
    run: &'r Run,
    visit: F,
}

impl<F: FnMut(&Issue)> Sink for Visitor<'_, F> {
    type Mark = ();

    fn issue(&mut self, emission: &BlockAccess<'_>) {
        let site = &self.run.program.sites[emission.site()];
        for (warp, word) in emission.warps() {
            (self.visit)(&Issue {
                site: SiteId(emission.site()),
                block: emission.block(),
                warp: warp as u32,
                access: emission.warp_access(site, warp, word),
            });
        }
    }

    fn mark(&mut self) {}

    fn rollback(&mut self, (): ()) {}
}
