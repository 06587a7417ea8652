//! The state of one block, or of a box of blocks, under evaluation.

use super::affine::{Place, Vars};
use super::code::Code;
use super::lanes::{Lanes, Mask};
use super::memory::SharedContents;
use super::value::{ReasonId, Value, Var};
use super::{BlockBox, Limits, Stop};
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::{Axis, BufferId, OpaqueReason, Site};
use crate::source::Span;
use simulator::{LaneMask, WARP_LANES, WarpAccess};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// What receives the accesses.
pub(crate) trait Sink {
    /// What brings the sink back to an earlier state.
    type Mark;

    /// One memory instruction of the warps of a block, at every point of the
    /// box.
    fn issue(&mut self, emission: &BlockAccess<'_>);
    /// The state to come back to when an attempt on many points at once fails.
    fn mark(&mut self) -> Self::Mark;
    /// Forgets all that was issued since the mark.
    fn rollback(&mut self, mark: Self::Mark);
}

/// One memory instruction, executed by the warps that have a lane in `mask`.
pub(crate) struct BlockAccess<'a> {
    pub(super) site: usize,
    pub(super) mask: &'a Mask,
    /// Addresses at the first point of the box, and their coefficients, which
    /// are the same for all active lanes of a warp.
    pub(super) address: &'a Value,
    pub(super) shared_address: Option<&'a Value>,
    pub(super) vars: &'a Vars,
    pub(super) blocks: &'a BlockBox,
}

impl BlockAccess<'_> {
    /// Index of its place in the program's sites.
    pub(crate) fn site(&self) -> usize {
        self.site
    }

    /// The first block of the box.
    pub(crate) fn block(&self) -> [u64; 3] {
        self.blocks.start
    }

    /// The warps that execute it, and their masks.
    pub(crate) fn warps(&self) -> impl Iterator<Item = (usize, u32)> {
        self.mask.warps()
    }

    /// Number of points of the box.
    pub(crate) fn is_point(&self) -> bool {
        self.vars.counts.iter().all(|&count| count == 1)
    }

    /// What a warp does at the first point of the box.
    pub(crate) fn warp_access(&self, site: &Site, warp: usize, word: u32) -> WarpAccess {
        let lanes = |value: &Value| -> [u64; WARP_LANES] {
            match &value.base {
                Lanes::Uniform(address) => [*address as u64; WARP_LANES],
                Lanes::Each(vector) => {
                    let mut addresses = [0; WARP_LANES];
                    let warps = vector.lanes().get(warp * WARP_LANES..).unwrap_or(&[]);
                    for (to, from) in addresses.iter_mut().zip(warps) {
                        *to = *from as u64;
                    }
                    addresses
                }
            }
        };
        WarpAccess {
            op: site.op,
            width: site.width,
            mask: LaneMask(word),
            addresses: lanes(self.address),
            shared_addresses: self.shared_address.map(lanes),
        }
    }

    /// By how many bytes a warp's addresses move from a block of the box to the
    /// next along each axis.
    pub(crate) fn block_steps(&self, warp: usize, word: u32) -> [i64; 3] {
        let lane = warp * WARP_LANES + word.trailing_zeros() as usize;
        std::array::from_fn(|axis| {
            self.address.coefficient(axis).map_or(0, |lanes| lanes.get(lane))
        })
    }

    /// How each variable of the box moves a warp: coefficient in bytes and
    /// number of points.
    pub(crate) fn terms(&self, warp: usize, word: u32) -> impl Iterator<Item = (i64, u64)> + Clone {
        let lane = warp * WARP_LANES + word.trailing_zeros() as usize;
        let counts = self.vars.counts.iter().copied().enumerate();
        counts.filter(|(_, count)| *count > 1).map(move |(var, count)| {
            (self.address.coefficient(var).map_or(0, |lanes| lanes.get(lane)), count)
        })
    }
}

/// A place where threads of the block went different ways.
pub(super) struct Divergence {
    pub(super) condition: Span,
    /// The threads that came to it together.
    pub(super) before: Mask,
}

pub(super) struct Machine<'c, 'r, S> {
    pub(super) code: &'c Code<'r>,
    pub(super) limits: Limits,
    /// Address of each buffer's first element.
    pub(super) firsts: &'c [u64],
    /// Threads in the block.
    pub(super) n: usize,
    pub(super) everyone: Mask,
    thread_idx: [Lanes; 3],
    block_idx: [Value; 3],
    pub(super) blocks: BlockBox,
    pub(super) vars: Vars,
    /// Variables in use by loops that run symbolically.
    pub(super) loop_vars: usize,
    /// Whether loops may run symbolically.
    pub(super) fold_loops: bool,
    /// Whether accesses are kept from the sink.
    pub(super) muted: bool,
    pub(super) locals: Vec<Option<Value>>,
    pub(super) arrays: Vec<BTreeMap<i64, Value>>,
    pub(super) shared: Vec<Option<SharedContents>>,
    /// Threads that have not returned from the kernel.
    pub(super) alive: Mask,
    /// Threads that have left the innermost inlined function.
    pub(super) returned: Mask,
    /// Whether an inlined function is being run.
    pub(super) in_call: bool,
    /// Threads that have left the innermost loop by `break`.
    pub(super) broken: Mask,
    /// Threads that have ended this iteration of it by `continue`.
    pub(super) continued: Mask,
    pub(super) divergences: Vec<Divergence>,
    /// The buffer and element indices whose contents are being computed.
    pub(super) element: Option<(BufferId, Value)>,
    /// For each loop, how many attempts to fold it have failed in a row.
    pub(super) fold_failures: Vec<u32>,
    /// Statements × warps run since they were last added to `spent`.
    pub(super) work: u64,
    /// The same, of all machines of the launch.
    spent: &'c AtomicU64,
    pub(super) sink: S,
}

/// Work is added up in portions, so that machines don't wait for each other.
const WORK_PORTION: u64 = 1 << 16;

impl<'c, 'r, S: Sink> Machine<'c, 'r, S> {
    pub(super) fn new(
        code: &'c Code<'r>,
        firsts: &'c [u64],
        limits: Limits,
        spent: &'c AtomicU64,
        sink: S,
    ) -> Self {
        let n = code.threads();
        let [bx, by, _] = code.run.launch.block.map(|extent| extent as usize);
        let indices = |period: usize, extent: usize| {
            if extent == 1 {
                Lanes::Uniform(0)
            } else {
                Lanes::from_fn(n, |lane| (lane / period % extent) as i64)
            }
        };
        let bz = code.run.launch.block[2] as usize;
        let program = &code.run.program;
        Self {
            code,
            limits,
            firsts,
            n,
            everyone: Mask::first_n(n),
            thread_idx: [indices(1, bx), indices(bx, by), indices(bx * by, bz)],
            block_idx: [Value::uniform(0), Value::uniform(0), Value::uniform(0)],
            blocks: BlockBox::point([0; 3]),
            vars: Vars::POINT,
            loop_vars: 0,
            fold_loops: true,
            muted: false,
            locals: vec![None; program.locals.len()],
            arrays: vec![BTreeMap::new(); program.local_arrays.len()],
            shared: program
                .shared
                .iter()
                .zip(&code.tracked)
                .map(|(array, &tracked)| tracked.then(|| SharedContents::new(array.bytes)))
                .collect(),
            alive: Mask::EMPTY,
            returned: Mask::EMPTY,
            in_call: false,
            broken: Mask::EMPTY,
            continued: Mask::EMPTY,
            divergences: Vec::new(),
            element: None,
            fold_failures: vec![0; code.loops],
            work: 0,
            spent,
            sink,
        }
    }

    /// Runs the kernel for all blocks of a box.
    pub(super) fn run(&mut self, blocks: &BlockBox) -> Result<(), Stop> {
        self.blocks = *blocks;
        self.vars = Vars::POINT;
        self.loop_vars = 0;
        for axis in 0..3 {
            self.vars.counts[axis] = blocks.count[axis];
            let mut index = Value::uniform(blocks.start[axis] as i64);
            if blocks.count[axis] > 1 {
                index.terms.push((axis, Lanes::Uniform(blocks.step[axis] as i64)));
            }
            self.block_idx[axis] = index;
        }
        self.locals.fill(None);
        self.arrays.iter_mut().for_each(BTreeMap::clear);
        for (array, contents) in self.shared.iter_mut().enumerate() {
            if let Some(contents) = contents {
                contents.reset(self.code.uninitialised_shared[array]);
            }
        }
        self.muted = false;
        self.alive = self.everyone;
        self.returned = Mask::EMPTY;
        self.in_call = false;
        self.broken = Mask::EMPTY;
        self.continued = Mask::EMPTY;
        self.divergences.clear();
        self.element = None;
        let code = self.code;
        let everyone = self.everyone;
        self.steps(&code.body, everyone)?;
        self.spend()
    }

    /// Stops a launch that takes longer than anybody waits.
    pub(super) fn spend(&mut self) -> Result<(), Stop> {
        if self.work < WORK_PORTION {
            return Ok(());
        }
        let spent = self.spent.fetch_add(self.work, Ordering::Relaxed).saturating_add(self.work);
        self.work = 0;
        if spent <= self.limits.warp_statements {
            return Ok(());
        }
        Err(Stop::Fails(Box::new(Diagnostic::whole_file(
            Kind::Limit,
            format!(
                "evaluating the kernel takes more than {} statements of a warp",
                self.limits.warp_statements
            ),
            "choose smaller parameters: fewer blocks, or fewer iterations of its loops",
        ))))
    }

    /// Whether values stand for more than one point.
    pub(super) fn in_box(&self) -> bool {
        self.vars.counts.iter().any(|&count| count > 1)
    }

    pub(super) fn place<'a>(&self, live: &'a Mask, span: Span) -> Place<'a> {
        Place { vars: self.vars, n: self.n, live, span }
    }

    pub(super) fn thread_index(&self, axis: Axis) -> Lanes {
        self.thread_idx[axis as usize].clone()
    }

    pub(super) fn block_index(&self, axis: Axis) -> Value {
        self.block_idx[axis as usize].clone()
    }

    /// A variable of the box for the iterations of a loop.
    pub(super) fn push_var(&mut self, points: u64) -> Option<Var> {
        let var = 3 + self.loop_vars;
        let count = self.vars.counts.get_mut(var)?;
        *count = points;
        self.loop_vars += 1;
        Some(var)
    }

    pub(super) fn pop_var(&mut self) {
        if self.loop_vars > 0 {
            self.loop_vars -= 1;
            if let Some(count) = self.vars.counts.get_mut(3 + self.loop_vars) {
                *count = 1;
            }
        }
    }

    /// Fails: where the box is one point with the error that `describe` makes,
    /// else with the demand to look at one point.
    pub(super) fn fail(&mut self, describe: impl FnOnce(&mut Self) -> Diagnostic) -> Stop {
        if self.in_box() {
            return Stop::FailsInBox;
        }
        Stop::Fails(Box::new(describe(self)))
    }

    /// Where something went wrong, in words.
    pub(super) fn at(&self, lane: usize) -> String {
        format!("{} {}", if self.element.is_some() { "at" } else { "in" }, self.who(lane))
    }

    /// Which thread a lane is, in words.
    pub(super) fn who(&self, lane: usize) -> String {
        let [tx, ty, tz] = self.thread_idx.each_ref().map(|lanes| lanes.get(lane));
        let [bx, by, bz] = self.blocks.start;
        let (lane_of_warp, warp) = (lane % WARP_LANES, lane / WARP_LANES);
        let thread = format!(
            "thread ({tx}, {ty}, {tz}) of block ({bx}, {by}, {bz}): lane {lane_of_warp} of warp {warp}"
        );
        match &self.element {
            Some((id, index)) => {
                let buffer = &self.code.run.buffers[id.0].name;
                format!("element {} of `{buffer}`, read by {thread}", index.base.get(lane))
            }
            None => thread,
        }
    }

    /// The source text of a place, white space folded, shortened.
    pub(super) fn text(&self, span: Span) -> String {
        let text = self.code.run.sources.text(span);
        let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if folded.chars().count() <= 60 {
            return folded;
        }
        folded.chars().take(57).chain("...".chars()).collect()
    }

    /// The error of a value that the model does not know in a place where it
    /// has to.
    pub(super) fn opaque_error(
        &self,
        span: Span,
        what: &str,
        reason: ReasonId,
        lane: usize,
    ) -> Diagnostic {
        let (because, help) = match self.code.reasons.get(usize::from(reason)) {
            Some(OpaqueReason::Float) | None => (
                "it comes from floating-point arithmetic or from memory that holds floats"
                    .to_owned(),
                "compute it from integers, or put the integers into a buffer with `init = \"…\"`"
                    .to_owned(),
            ),
            Some(OpaqueReason::NoContents(name)) => (
                format!("it was read from `{name}`, which has no contents"),
                format!(
                    "give `{name}` contents: `init = \"…\"`, a function of the element's index `i`"
                ),
            ),
            Some(OpaqueReason::Written(name)) => (
                format!("it was read from `{name}`, which the kernel also writes"),
                format!(
                    "read it from another buffer, one with contents that the kernel does not write: what `{name}` holds depends on the order of the blocks"
                ),
            ),
            Some(OpaqueReason::AtomicResult) => (
                "it is the result of an atomic, which depends on the order of the threads"
                    .to_owned(),
                "compute the index from `threadIdx` and `blockIdx`, in an order that you assume"
                    .to_owned(),
            ),
            Some(OpaqueReason::Uninitialised(name)) => (
                format!("`{name}` has no value at this point"),
                format!("give `{name}` a value first"),
            ),
        };
        Diagnostic::new(Kind::NotModelled, span, format!("not modelled: {what} is not known"), help)
            .label(because)
            .note(self.at(lane))
    }
}
