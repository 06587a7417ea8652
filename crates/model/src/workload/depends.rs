//! How many round trips to memory a warp makes one after the other in a
//! straight-line region, and what it issues there.
//!
//! A warp issues in order and waits only where a value is used that has not
//! arrived. An assembler moves loads up as far as their addresses allow, and
//! uses down; but no load moves over a store, an atomic or a barrier before it,
//! as they might touch the same place. So each value has a *depth*: the
//! number of round trips that end one after the other before it is there.
//!
//! - A load's result is one round trip deeper than its address, and than the
//!   last store, atomic or barrier before it. Loads of one depth are in flight
//!   together.
//! - A store or atomic waits for its address and its value; one whose result
//!   is used is a round trip of its own.
//! - Shared and global memory are two spaces: what changes one holds back
//!   nothing in the other.
//! - Read-only loads (`ld.global.nc`) pass stores, not barriers.
//! - A barrier waits for every load before it, and all that follows waits for
//!   the barrier.
//! - What a region loads is used in that region: its depth is that of its
//!   deepest value. Emitted kernels do so, for they combine every loaded value
//!   with a register (the *mix*) on the spot.
//!
//! Assumed: enough registers for all loads of one depth; no stall for what L1
//! holds back.

use ptx::syntax::{Address, Cache, Instruction, Item, Reg, Space, Value};
use std::collections::HashMap;

/// Round trips and machine instructions, one after the other. One to global
/// memory outlasts those to shared memory, and these outlast instructions, so
/// that is how they are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Depth {
    pub(super) global: u32,
    pub(super) shared: u32,
    pub(super) instructions: u32,
}

impl Depth {
    fn after(self, space: Space) -> Self {
        match space {
            Space::Global => Self { global: self.global + 1, ..self },
            Space::Shared => Self { shared: self.shared + 1, ..self },
        }
    }
}

/// What one pass through a region is for a warp.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Work {
    /// Serial round trips.
    pub(super) depth: Depth,
    /// Loads of global memory, atomics with a result and asynchronous copies.
    pub(super) global_loads: u32,
    /// Machine instructions.
    pub(super) instructions: f64,
    /// Barriers.
    pub(super) barriers: u32,
}

/// Goes through the items of a region, each with its machine instructions.
pub(super) fn work(items: &[Item], instructions: &[f64]) -> Work {
    let mut walk = Walk::default();
    for (item, &each) in items.iter().zip(instructions) {
        walk.work.instructions += each;
        walk.own = each.round() as u32;
        if let Item::Instruction { guard, instruction, .. } = item {
            let guarded = guard.map_or(Depth::default(), |guard| walk.of(guard.pred.into()));
            walk.step(instruction, guarded);
        }
    }
    Work { depth: walk.deepest.max(walk.copies), ..walk.work }
}

#[derive(Default)]
struct Walk {
    /// Of each register.
    depths: HashMap<Reg, Depth>,
    /// Of the last store, atomic or barrier of each space: its loads stay behind.
    fences: [Depth; 2],
    /// Of the last barrier: read-only loads stay behind it, too.
    barrier: Depth,
    /// Of the asynchronous copies under way.
    copies: Depth,
    deepest: Depth,
    /// Machine instructions of the item in hand.
    own: u32,
    work: Work,
}

impl Walk {
    fn of(&self, value: Value) -> Depth {
        match value {
            Value::Reg(reg) => self.depths.get(&reg).copied().unwrap_or_default(),
            Value::Imm(_) => Depth::default(),
        }
    }

    fn all(&self, values: impl IntoIterator<Item = Value>) -> Depth {
        values.into_iter().map(|value| self.of(value)).max().unwrap_or_default()
    }

    fn at(&self, address: &Address) -> Depth {
        self.of(address.base.into())
    }

    fn set(&mut self, dst: Reg, depth: Depth) {
        let depth = Depth { instructions: depth.instructions + self.own, ..depth };
        self.depths.insert(dst, depth);
        self.deepest = self.deepest.max(depth);
    }

    fn load(&mut self, dst: &[Reg], start: Depth, space: Space) {
        let there = start.after(space);
        dst.iter().for_each(|&dst| self.set(dst, there));
        self.deepest = self.deepest.max(there);
        if space == Space::Global {
            self.work.global_loads += 1;
        }
    }

    /// What changes memory: later accesses to it stay behind.
    fn change(&mut self, space: Space, start: Depth) -> Depth {
        let fence = &mut self.fences[space as usize];
        *fence = (*fence).max(start);
        self.deepest = self.deepest.max(*fence);
        *fence
    }

    fn step(&mut self, instruction: &Instruction, guarded: Depth) {
        match instruction {
            Instruction::LoadParam { dst, .. }
            | Instruction::Special { dst, .. }
            | Instruction::AddressOf { dst, .. } => self.set(*dst, guarded),
            Instruction::ToGlobal { dst, src } | Instruction::Cvt { dst, src, .. } => {
                self.set(*dst, guarded.max(self.of((*src).into())));
            }
            Instruction::Unary { dst, src, .. } => self.set(*dst, guarded.max(self.of(*src))),
            Instruction::Binary { dst, a, b, .. } | Instruction::Setp { dst, a, b, .. } => {
                self.set(*dst, guarded.max(self.all([*a, *b])));
            }
            Instruction::Mad { dst, a, b, c, .. } => {
                self.set(*dst, guarded.max(self.all([*a, *b, *c])));
            }
            Instruction::Selp { dst, a, b, pred, .. } => {
                self.set(*dst, guarded.max(self.all([*a, *b, (*pred).into()])));
            }
            Instruction::Unpack { low, high, src } => {
                let depth = guarded.max(self.of((*src).into()));
                self.set(*low, depth);
                self.set(*high, depth);
            }
            Instruction::Pack { dst, low, high } => {
                self.set(*dst, guarded.max(self.all([*low, *high])));
            }
            Instruction::Load { space, cache, dst, address, .. } => {
                let fence = match cache {
                    Cache::Nc => self.barrier,
                    _ => self.fences[*space as usize],
                };
                self.load(dst, guarded.max(self.at(address)).max(fence), *space);
            }
            Instruction::Store { space, address, src, .. }
            | Instruction::Red { space, address, src, .. } => {
                let values = self.all(src.iter().copied());
                self.change(*space, guarded.max(self.at(address)).max(values));
            }
            Instruction::Atom { space, dst, address, src, swap, .. } => {
                let values = self.all(src.iter().chain(swap).copied());
                let start = self.change(*space, guarded.max(self.at(address)).max(values));
                self.load(dst, start, *space);
            }
            Instruction::CopyAsync { to, from, .. } => {
                let fence = self.fences[Space::Global as usize];
                let start = guarded.max(self.at(to)).max(self.at(from)).max(fence);
                self.copies = self.copies.max(start.after(Space::Global));
                self.work.global_loads += 1;
            }
            Instruction::CopyAsyncWaitAll => {
                let copies = std::mem::take(&mut self.copies);
                self.change(Space::Shared, copies);
            }
            Instruction::Barrier => {
                self.fences = [self.deepest; 2];
                self.barrier = self.deepest;
                self.work.barriers += 1;
            }
            Instruction::Branch { .. } | Instruction::Ret => {}
        }
    }
}
