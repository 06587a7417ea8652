//! What the time model needs to know of a run, whatever the device.
//!
//! Sums over the launch come from what the scenario crate counted; what a warp
//! does between its accesses comes from the kernel that `ptx` emits, for that
//! is what a device runs: its machine instructions (`assembler`), how often each
//! part of it runs (`flow`), and which loads wait for which (`depends`).

mod assembler;
mod depends;
mod flow;
mod scopes;

use crate::BlockShape;
use ptx::Purpose;
use ptx::syntax::{Class, Entry, Instruction, Item, Reg};
use record::OpClass;
use scenario::count::SiteCounts;
use scenario::program::{Access, Block, Expr, ExprKind, Root, StmtKind};
use scenario::{Diagnostic, Run};
use simulator::{Field, OpKind, Space, Totals};
use std::collections::{BTreeMap, HashMap};

/// Registers that the ABI and the assembler keep for themselves.
const REGISTERS_KEPT: u32 = 8;
/// Assemblers give registers in portions of this many.
const REGISTERS_UNIT: u32 = 8;
/// Fewest registers that an assembler gives a kernel with a memory access.
const REGISTERS_LEAST: u32 = 16;

/// A run as the time model sees it. Sums are over the whole launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Blocks of the grid.
    pub blocks: f64,
    /// What a block takes of an SM.
    pub shape: BlockShape,
    /// Whether [`BlockShape::registers`] is an estimate from the emitted
    /// kernel, not what an assembler gave.
    pub registers_estimated: bool,
    /// Machine instructions, all warps: an estimate of what an assembler makes of
    /// the emitted kernel.
    pub instructions: f64,
    /// Of these, 32-bit products of 64 bits, all warps: addresses, above all.
    pub wide_products: f64,
    /// Machine instructions that a warp executes one after the other, each with
    /// what the one before gives.
    pub dependent_instructions: f64,
    /// Barriers that a block passes.
    pub barriers_per_block: f64,
    /// Round trips to global memory that a warp makes one after the other.
    pub global_round_trips: f64,
    /// Round trips to shared memory that a warp makes one after the other,
    /// those beside a round trip to global memory left out.
    pub shared_round_trips: f64,
    /// Loads that a warp has in flight on average during a round trip to
    /// global memory.
    pub loads_in_flight: f64,
    /// Requests of global and shared memory.
    pub requests: f64,
    /// Tag wavefronts.
    pub tag_wavefronts: f64,
    /// Data wavefronts, of global and shared memory.
    pub data_wavefronts: f64,
    /// Requests for global loads.
    pub load_requests: f64,
    /// Sectors that global loads ask L1 for.
    pub load_sectors: f64,
    /// Lines that global loads ask L1 for.
    pub load_lines: f64,
    /// Lines that global stores write.
    pub store_lines: f64,
    /// Lanes of atomics on shared memory.
    pub shared_atomic_lanes: f64,
    /// Reductions and atomics on global memory, access by access.
    pub atomics: Vec<Atomics>,
}

/// An access that changes global memory where it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Atomics {
    /// Sectors, each as often as lanes of a request meet at one of its addresses.
    pub sectors: f64,
    /// Of these, sectors that the same request has been to before.
    pub repeated: f64,
    /// Bytes that they are spread over.
    pub bytes: f64,
    /// Whether the old values come back.
    pub results: bool,
}

impl Workload {
    /// That of a run whose sites have these counts. `registers` is what an
    /// assembler gave a thread, where that is known; else the scenario's own
    /// statement is taken, else an estimate.
    ///
    /// # Errors
    /// What PTX has no instruction for.
    pub fn of(
        run: &Run,
        sites: &[SiteCounts],
        registers: Option<u32>,
    ) -> Result<Self, Box<Diagnostic>> {
        let module = ptx::module(run, Purpose::Measure)?;
        let warps_per_block = run.launch.warps_per_block();
        let blocks = run.launch.blocks() as f64;
        let warps = blocks * f64::from(warps_per_block);
        let executed: Vec<f64> =
            sites.iter().map(|site| site.totals.instructions as f64 / warps).collect();
        let mut pass = Pass::default();
        for entry in &module.entries {
            pass.add(entry, &executed);
        }
        let known = registers.or(run.launch.registers);
        let estimated = || module.entries.iter().map(live_registers).max().unwrap_or(0);
        let mut workload = Self {
            blocks,
            shape: BlockShape {
                warps: warps_per_block,
                registers: known.unwrap_or_else(estimated),
                shared_bytes: run.program.shared_bytes,
            },
            registers_estimated: known.is_none(),
            instructions: pass.instructions * warps,
            wide_products: pass.wide_products * warps,
            dependent_instructions: pass.dependent,
            barriers_per_block: pass.barriers,
            global_round_trips: pass.global,
            shared_round_trips: pass.shared,
            loads_in_flight: if pass.global > 0.0 { pass.loads / pass.global } else { 0.0 },
            ..Self::default()
        };
        for (index, (site, counts)) in run.program.sites.iter().zip(sites).enumerate() {
            let own = match pass.own.get(&index) {
                Some((all, own)) if *all > 0.0 => own / all,
                _ => 1.0,
            };
            workload.add(OpClass::of(site.op), &counts.totals, own);
            let lanes = number(&counts.totals, Field::RequestedBytes) / f64::from(site.width);
            let atomic = matches!(site.op.kind, OpKind::Reduction(_) | OpKind::Atomic(_));
            match site.op.space {
                Space::Shared if atomic => workload.shared_atomic_lanes += lanes,
                Space::Global if atomic => {
                    let sectors = number(&counts.totals, Field::Sectors);
                    let distinct = number(&counts.totals, Field::UniqueSectors);
                    workload.atomics.push(Atomics {
                        sectors,
                        repeated: (sectors - distinct).max(0.0),
                        bytes: places(run, index) * f64::from(site.width),
                        results: matches!(site.op.kind, OpKind::Atomic(_)),
                    });
                }
                _ => {}
            }
        }
        Ok(workload)
    }

    /// Warps of the launch.
    pub fn warps(&self) -> f64 {
        self.blocks * f64::from(self.shape.warps)
    }

    /// Adds the counts of a site. A share `own` of its accesses is an instruction of
    /// its own; the others are parts of wider ones, which have as many wavefronts as
    /// each part alone, for lanes that differ do so by whole vectors.
    fn add(&mut self, class: OpClass, totals: &Totals, own: f64) {
        let requests = own * number(totals, Field::Requests);
        // Where a field was not counted, each request has one wavefront at
        // least.
        let wavefronts = |field| totals.get(field).map_or(requests, |count| own * count as f64);
        self.requests += requests;
        self.data_wavefronts += wavefronts(Field::DataWavefronts);
        if class.space() == Space::Shared {
            return;
        }
        self.tag_wavefronts += wavefronts(Field::TagWavefronts);
        match class {
            OpClass::GlobalLd | OpClass::GlobalLdgsts | OpClass::LocalLd => {
                self.load_requests += requests;
                self.load_sectors += number(totals, Field::Sectors);
                self.load_lines += number(totals, Field::Tags);
            }
            OpClass::GlobalSt | OpClass::LocalSt => {
                self.store_lines += number(totals, Field::Tags);
            }
            _ => {}
        }
    }
}

fn number(totals: &Totals, field: Field) -> f64 {
    totals.get(field).unwrap_or(0) as f64
}

/// One warp's way through the kernel, on average.
#[derive(Default)]
struct Pass {
    instructions: f64,
    wide_products: f64,
    dependent: f64,
    barriers: f64,
    global: f64,
    shared: f64,
    loads: f64,
    /// Of each site how often it is met, and how often it is an instruction of its
    /// own, not part of another.
    own: BTreeMap<usize, (f64, f64)>,
}

impl Pass {
    fn add(&mut self, entry: &Entry, executed: &[f64]) {
        let body = &entry.body;
        let assembler::Assembled { mut instructions, wide_products, merged } =
            assembler::assemble(body, &scopes::Scopes::of(body));
        let predicated = flow::predicated(body, &instructions);
        flow::charge_branches(body, &predicated, &mut instructions);
        for region in flow::regions(body, &predicated, executed) {
            let work =
                depends::work(&body[region.items.clone()], &instructions[region.items.clone()]);
            self.instructions += region.times * work.instructions;
            let products: f64 = wide_products[region.items.clone()].iter().sum();
            self.wide_products += region.times * products;
            self.dependent += region.times * f64::from(work.depth.instructions);
            self.barriers += region.times * f64::from(work.barriers);
            self.global += region.times * f64::from(work.depth.global);
            self.shared += region.times * f64::from(work.depth.shared);
            self.loads += region.times * f64::from(work.global_loads);
            for place in region.items.clone() {
                let Item::Instruction { tag: Some(site), .. } = &body[place] else { continue };
                let (all, own) = self.own.entry(*site).or_default();
                *all += region.times;
                *own += if merged[place] { 0.0 } else { region.times };
            }
        }
    }
}

/// Addresses that an atomic's site goes to at most: one where the address is
/// the same for all threads, else the elements of its buffer.
fn places(run: &Run, site: usize) -> f64 {
    let mut same = true;
    visit(&run.program.body, &mut |access| {
        if access.site.0 == site {
            same &= is_same_everywhere(&access.address);
        }
    });
    if same {
        return 1.0;
    }
    let Some(site) = run.program.sites.get(site) else { return 1.0 };
    let bytes = match site.root {
        Root::Buffer(id) => run.buffers.get(id.0).map_or(0, |buffer| buffer.bytes),
        Root::AnyBuffer | Root::Shared(_) => run.buffers.iter().map(|buffer| buffer.bytes).sum(),
    };
    bytes as f64 / f64::from(site.width)
}

/// Whether an expression has the same value for all threads, as far as is seen
/// without following variables.
fn is_same_everywhere(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Const(_) | ExprKind::BufferBase(_) | ExprKind::SharedBase(_) => true,
        ExprKind::Neg(a) | ExprKind::Not(a) | ExprKind::Convert(a) => is_same_everywhere(a),
        ExprKind::CheckedIndex { index, .. } => is_same_everywhere(index),
        ExprKind::Binary(_, a, b) => is_same_everywhere(a) && is_same_everywhere(b),
        _ => false,
    }
}

fn visit(block: &Block, see: &mut impl FnMut(&Access)) {
    for stmt in block {
        match &stmt.kind {
            StmtKind::Access(access) => see(access),
            StmtKind::If { then, otherwise, .. } => {
                visit(then, see);
                visit(otherwise, see);
            }
            StmtKind::Loop { header, body, step, .. } => {
                visit(header, see);
                visit(body, see);
                visit(step, see);
            }
            StmtKind::Call { body } => visit(body, see),
            StmtKind::Set { .. }
            | StmtKind::SetElement { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Return
            | StmtKind::Barrier => {}
        }
    }
}

/// Registers that an assembler needs for the kernel, estimated: those between
/// whose first and last mention in the text most lie at once.
fn live_registers(entry: &Entry) -> u32 {
    let mut lives: HashMap<Reg, (usize, usize)> = HashMap::new();
    for (place, item) in entry.body.iter().enumerate() {
        let Item::Instruction { instruction, .. } = item else { continue };
        // What a parameter or a special register holds is read where needed.
        if matches!(instruction, Instruction::LoadParam { .. } | Instruction::Special { .. }) {
            continue;
        }
        for reg in instruction.registers() {
            lives.entry(reg).and_modify(|life| life.1 = place).or_insert((place, place));
        }
    }
    let mut changes: Vec<(usize, i64)> = Vec::new();
    for (reg, (first, last)) in lives {
        let words = i64::from(registers(reg.class));
        changes.push((first, words));
        changes.push((last, -words));
    }
    changes.sort_unstable_by_key(|&(place, words)| (place, words));
    let mut live = 0;
    let most = changes.iter().map(|&(_, words)| {
        live += words;
        live
    });
    let most = u32::try_from(most.max().unwrap_or(0)).unwrap_or(0);
    let given = (most + REGISTERS_KEPT).next_multiple_of(REGISTERS_UNIT);
    given.clamp(REGISTERS_LEAST, scenario::MAX_REGISTERS_PER_THREAD as u32)
}

/// 32-bit registers of a value.
fn registers(class: Class) -> u32 {
    match class {
        Class::Pred => 0,
        Class::B16 | Class::B32 => 1,
        Class::B64 => 2,
    }
}

#[cfg(test)]
mod tests;
