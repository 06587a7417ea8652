//! Blocks in any order: what each block of a launch accesses, one at a time or
//! for many blocks at once.
//!
//! Where a launch is gone through to *count*, order plays no part and loops fold
//! (see `drive`). Whoever wants to know what blocks do to caches needs the
//! accesses of a block in the order of execution, and blocks as a device starts
//! them. [`Walk`] gives both: [`Walk::alike`] divides the launch into boxes of
//! blocks that do the same at addresses that are affine in `blockIdx`, and
//! [`Walk::block`] evaluates a block by itself.

use super::machine::{BlockAccess, Machine, Sink};
use super::{Ask, BlockBox, Evaluator, Issue, Stop};
use crate::diagnostic::Diagnostic;
use crate::program::{Site, SiteId};

/// Blocks that execute the same accesses, moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alike<T> {
    /// The blocks.
    pub blocks: BlockBox,
    /// What was kept of the accesses of the first of them, in the order of
    /// execution. `None`: they are not alike, and each must be evaluated by
    /// itself.
    pub kept: Option<Vec<T>>,
}

/// When to stop looking for blocks that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlikeLimits {
    /// Boxes, before the rest of the launch is left to be evaluated block by
    /// block.
    pub boxes: usize,
    /// Accesses kept over all boxes; beyond it likewise.
    pub kept: usize,
}

/// Keeps what a closure makes of each access. Its second argument is by how
/// many bytes the access moves from a block of a box to the next along each
/// axis: 0 where a single block is evaluated.
struct Keep<'r, T, F> {
    sites: &'r [Site],
    keep: F,
    kept: Vec<T>,
}

impl<T, F: FnMut(&Issue, [i64; 3]) -> Option<T>> Sink for Keep<'_, T, F> {
    type Mark = usize;

    fn issue(&mut self, emission: &BlockAccess<'_>) {
        let site = &self.sites[emission.site()];
        for (warp, word) in emission.warps() {
            let issue = Issue {
                site: SiteId(emission.site()),
                block: emission.block(),
                warp: warp as u32,
                access: emission.warp_access(site, warp, word),
            };
            self.kept.extend((self.keep)(&issue, emission.block_steps(warp, word)));
        }
    }

    fn mark(&mut self) -> usize {
        self.kept.len()
    }

    fn rollback(&mut self, mark: usize) {
        self.kept.truncate(mark);
    }
}

/// The blocks of a launch, in any order. What they access is handed to a
/// closure, which makes of each access what the caller wants kept.
pub struct Walk<'e, 'r, T, F> {
    machine: Machine<'e, 'r, Keep<'r, T, F>>,
    grid: [u64; 3],
}

impl<'r> Evaluator<'r> {
    /// A walk through the launch's blocks. `keep` is called with each warp
    /// access and with the bytes by which it moves from a block to the next
    /// block of a box along each axis.
    pub fn walk<T, F>(&self, keep: F) -> Walk<'_, 'r, T, F>
    where
        F: FnMut(&Issue, [i64; 3]) -> Option<T>,
    {
        let sink = Keep { sites: &self.code.run.program.sites, keep, kept: Vec::new() };
        let mut machine = Machine::new(&self.code, &self.firsts, self.limits, &self.walked, sink);
        machine.fold_loops = false;
        Walk { machine, grid: self.code.run.launch.grid }
    }
}

impl<T, F: FnMut(&Issue, [i64; 3]) -> Option<T>> Walk<'_, '_, T, F> {
    /// What is kept of the accesses of one block, in the order of execution:
    /// statement by statement, the warps ascending in each.
    ///
    /// # Errors
    /// What the kernel does wrong in this block, or a block that the launch does
    /// not have.
    pub fn block(&mut self, block: [u64; 3]) -> Result<Vec<T>, Diagnostic> {
        if block.iter().zip(&self.grid).any(|(index, extent)| index >= extent) {
            return Err(super::no_such_block(block, self.grid));
        }
        self.machine.sink.kept.clear();
        self.machine.run(&BlockBox::point(block)).map_err(Stop::into_diagnostic)?;
        Ok(std::mem::take(&mut self.machine.sink.kept))
    }

    /// Divides the launch into boxes of blocks that are alike, and what is not.
    /// Every block is in one of them. Loops are run iteration by iteration.
    ///
    /// # Errors
    /// What a block does wrong, if it is come upon; errors in blocks that are
    /// left to be evaluated one by one are not.
    pub fn alike(&mut self, limits: AlikeLimits) -> Result<Vec<Alike<T>>, Diagnostic> {
        let whole = BlockBox { start: [0; 3], step: [1; 3], count: self.grid };
        let mut waiting = vec![whole];
        let mut found: Vec<Alike<T>> = Vec::new();
        let mut kept = 0;
        while let Some(blocks) = waiting.pop() {
            if found.len() + waiting.len() >= limits.boxes || kept >= limits.kept {
                found.push(Alike { blocks, kept: None });
                continue;
            }
            self.machine.sink.kept.clear();
            match self.machine.run(&blocks) {
                Ok(()) => {
                    let these = std::mem::take(&mut self.machine.sink.kept);
                    kept += these.len();
                    found.push(Alike { blocks, kept: Some(these) });
                }
                Err(Stop::Request(request)) if blocks.blocks() > 1 => {
                    match blocks.cut(&request.ask, limits.boxes) {
                        Some(pieces) => waiting.extend(pieces.into_iter().rev()),
                        None => found.push(Alike { blocks, kept: None }),
                    }
                }
                // Evaluation of its blocks will show the failure with its values.
                Err(Stop::FailsInBox) if blocks.blocks() > 1 => {
                    found.push(Alike { blocks, kept: None });
                }
                Err(stop) => return Err(stop.into_diagnostic()),
            }
        }
        Ok(found)
    }
}

impl BlockBox {
    /// The pieces that a request asks for; `None` where that is every single
    /// block, or more than `most` pieces.
    fn cut(&self, ask: &Ask, most: usize) -> Option<Vec<Self>> {
        match ask {
            Ask::Split { var: axis @ 0..3, at } => Some(self.split(*axis, at)),
            Ask::Classes { var: axis @ 0..3, period } if *period <= most as u64 => {
                Some(self.classes(*axis, *period).collect())
            }
            Ask::Pin { vars } => {
                // Along an axis of few blocks they may still be alike otherwise.
                let axis = (0..3).find(|axis| vars >> axis & 1 == 1 && self.count[*axis] > 1)?;
                (self.count[axis] <= most as u64 && self.blocks() > self.count[axis]).then(|| {
                    let piece = |q| {
                        let mut piece = *self;
                        piece.start[axis] += self.step[axis] * q;
                        (piece.step[axis], piece.count[axis]) = (1, 1);
                        piece
                    };
                    (0..self.count[axis]).map(piece).collect()
                })
            }
            Ask::Split { .. } | Ask::Classes { .. } => None,
        }
    }

    /// Where a block lies in the box: `q` on each axis, with `blockIdx` =
    /// `start` + `step`·`q`.
    pub fn position(&self, block: [u64; 3]) -> Option<[u64; 3]> {
        let mut position = [0; 3];
        for axis in 0..3 {
            let from = block[axis].checked_sub(self.start[axis])?;
            if !from.is_multiple_of(self.step[axis]) || from / self.step[axis] >= self.count[axis] {
                return None;
            }
            position[axis] = from / self.step[axis];
        }
        Some(position)
    }
}
