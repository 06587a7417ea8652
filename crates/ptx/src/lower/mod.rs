//! From the typed program to instructions.
//!
//! Statements become structured branches: a label at the end of every `if`,
//! loop and inlined call, and jumps to it. Assemblers reconverge a warp where
//! such a region ends, leaving by `break` and `continue` included (they emit
//! `BSSY`, `BREAK` and `BSYNC` for it at every optimisation level), which is
//! where the model's lanes meet again. A `return` from the kernel ends the
//! thread on the spot, as barriers after it demand.

mod access;
mod expr;
mod verify;

use crate::emitted::{Parameter, Purpose};
use crate::syntax::{
    Binary, Class, Compare, Entry, Guard, Instruction, Item, Label, Module, Reg, Registers,
    Special, Type, Value, Variable,
};
use crate::{requirements, text};
use expr::{Condition, class_of};
use scenario::program::{
    Block, BufferId, Expr, ExprKind, LocalArrayId, Program, Site, SiteId, Stmt, StmtKind,
};
use scenario::source::Span;
use scenario::{Diagnostic, Kind, Run};
use simulator::OpKind;

/// The shared window's name in the module.
const WINDOW: &str = "window";

/// Registers that a thread's own arrays may take.
const MAX_ARRAY_ELEMENTS: u64 = 1024;

/// Multiplier of the block's number in a thread's first mix: 2^32 over the
/// golden ratio, so that blocks differ in all digits.
const MIX_FACTOR: i64 = 0x9e37_79b9;

/// A kernel lowered: its module, with one entry, and what that entry's
/// parameters mean.
pub(crate) struct Lowered {
    pub(crate) module: Module,
    pub(crate) entry: String,
    pub(crate) parameters: Vec<Parameter>,
}

/// Lowers `program`, the run's own or one derived from it.
pub(crate) fn lower(
    run: &Run,
    program: &Program,
    purpose: Purpose,
) -> Result<Lowered, Box<Diagnostic>> {
    let parameters = parameters(run, purpose);
    let names: Vec<String> =
        parameters.iter().map(|parameter| parameter_name(run, *parameter)).collect();

    let mut lowering = Lowering::new(program, purpose);
    lowering.allocate_arrays(program, run)?;
    if lowering.block(&program.body)? {
        lowering.exit();
    }
    let prologue = lowering.prologue(&parameters, &names);

    let name = entry_name(run);
    let body: Vec<Item> = prologue.into_iter().chain(lowering.body).collect();
    let (version, target) = requirements::of(&body);
    let variables = if lowering.window.is_some() {
        vec![Variable { name: WINDOW.to_owned(), align: 128 }]
    } else {
        Vec::new()
    };
    let entry = Entry {
        name: name.clone(),
        params: names,
        block: run.launch.block,
        registers: lowering.registers,
        body,
    };
    let comment = heading(run, purpose);
    let module = Module { comment, version, target, variables, entries: vec![entry] };
    Ok(Lowered { module, entry: name, parameters })
}

fn parameters(run: &Run, purpose: Purpose) -> Vec<Parameter> {
    let buffers = (0..run.buffers.len()).map(|i| Parameter::Buffer(BufferId(i)));
    buffers
        .chain([match purpose {
            Purpose::Measure => Parameter::Sink,
            Purpose::Verify => Parameter::Results,
        }])
        .collect()
}

fn parameter_name(run: &Run, parameter: Parameter) -> String {
    match parameter {
        Parameter::Buffer(id) => {
            let name = run.buffers.get(id.0).map_or("", |buffer| buffer.name.as_str());
            format!("buffer{}_{}", id.0, text::identifier(name))
        }
        Parameter::Sink => "sink".to_owned(),
        Parameter::Results => "results".to_owned(),
    }
}

fn entry_name(run: &Run) -> String {
    let mut name = format!("coalescope_{}", text::identifier(&run.scenario));
    if let Some(variant) = &run.variant {
        name.push('_');
        name.push_str(&text::identifier(variant));
    }
    name
}

fn heading(run: &Run, purpose: Purpose) -> Vec<String> {
    let mut lines = vec![match &run.variant {
        Some(variant) => format!("{} [{variant}]: {}", run.scenario, run.title),
        None => format!("{}: {}", run.scenario, run.title),
    }];
    if !run.params.is_empty() {
        let params: Vec<String> =
            run.params.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        lines.push(params.join(", "));
    }
    let [x, y, z] = run.launch.grid;
    let [bx, by, bz] = run.launch.block;
    lines.push(format!("grid {x} x {y} x {z}, block {bx} x {by} x {bz}"));
    if purpose == Purpose::Verify {
        lines.push("verifying launch: sums what every site touches".to_owned());
    }
    lines.iter().map(|line| text::ascii(line)).collect()
}

/// A kernel under construction.
struct Lowering<'a> {
    program: &'a Program,
    purpose: Purpose,
    body: Vec<Item>,
    registers: Registers,
    labels: u32,
    /// By local, once it is named.
    locals: Vec<Option<Reg>>,
    /// By local array; empty for opaque elements.
    arrays: Vec<Vec<Reg>>,
    /// By buffer, once it is named: its address in global memory.
    buffers: Vec<Option<Reg>>,
    specials: Vec<(Special, Reg)>,
    /// Address of the shared window.
    window: Option<Reg>,
    /// What the thread has loaded so far, combined; differs between threads
    /// from the start.
    mix: Option<Reg>,
    /// The sink's address, and its low bits.
    sink: Option<(Reg, Reg)>,
    /// Address of a verifying launch's results.
    results: Option<Reg>,
    /// Sums of a verifying launch: place in the results, register.
    sums: Vec<(usize, Reg)>,
    /// Targets of `break` and `continue`, innermost last.
    loops: Vec<(Label, Label)>,
    /// Ends of inlined functions, innermost last.
    calls: Vec<Label>,
    /// Whether the program loads anything that must be kept alive.
    keeps: bool,
    /// Whether the program copies asynchronously.
    copies: bool,
}

impl<'a> Lowering<'a> {
    fn new(program: &'a Program, purpose: Purpose) -> Self {
        let has =
            |wanted: fn(OpKind) -> bool| program.sites.iter().any(|site| wanted(site.op.kind));
        let mut lowering = Self {
            program,
            purpose,
            body: Vec::new(),
            registers: Registers::default(),
            labels: 0,
            locals: vec![None; program.locals.len()],
            arrays: Vec::new(),
            buffers: Vec::new(),
            specials: Vec::new(),
            window: None,
            mix: None,
            sink: None,
            results: None,
            sums: Vec::new(),
            loops: Vec::new(),
            calls: Vec::new(),
            keeps: has(|kind| matches!(kind, OpKind::Load | OpKind::Atomic(_))),
            copies: has(|kind| kind == OpKind::AsyncCopy),
        };
        if purpose == Purpose::Verify {
            lowering.allocate_sums();
        }
        lowering
    }

    fn allocate_arrays(&mut self, program: &Program, run: &Run) -> Result<(), Box<Diagnostic>> {
        for array in &program.local_arrays {
            let registers = match array.element {
                None => Vec::new(),
                Some(_) if array.len > MAX_ARRAY_ELEMENTS => {
                    return Err(too_long(&array.name, array.len, run));
                }
                Some(ty) => (0..array.len).map(|_| self.fresh(class_of(ty))).collect(),
            };
            self.arrays.push(registers);
        }
        Ok(())
    }

    // Statements.

    /// Emits `block`; `false` where its end can't be reached.
    fn block(&mut self, block: &[Stmt]) -> Result<bool, Box<Diagnostic>> {
        for stmt in block {
            if !self.stmt(stmt)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<bool, Box<Diagnostic>> {
        match &stmt.kind {
            StmtKind::Set { local, value } => {
                let dst = self.local(*local);
                self.assign(dst, value);
            }
            StmtKind::SetElement { array, index, value } => {
                if let Some(value) = value {
                    self.set_element(*array, index, value);
                }
            }
            StmtKind::Access(access) => self.access(access)?,
            StmtKind::If { condition, then, otherwise } => {
                return self.branch(condition, then, otherwise);
            }
            StmtKind::Loop { header, condition, body, step, test_first } => {
                self.repeat(stmt.span, header, condition, body, step, *test_first)?;
            }
            StmtKind::Call { body } => {
                let end = self.label();
                self.calls.push(end);
                self.block(body)?;
                self.calls.pop();
                self.place_label(end);
            }
            StmtKind::Break | StmtKind::Continue | StmtKind::Return => {
                match self.jump_target(&stmt.kind) {
                    Some(target) => self.jump(target),
                    None => self.exit(),
                }
                return Ok(false);
            }
            StmtKind::Barrier => {
                if self.copies {
                    self.emit(Instruction::CopyAsyncWaitAll);
                }
                self.emit(Instruction::Barrier);
            }
        }
        Ok(true)
    }

    /// Where a jump goes; `None` for a `return` from the kernel and for other
    /// statements.
    fn jump_target(&self, kind: &StmtKind) -> Option<Label> {
        match kind {
            StmtKind::Break => self.loops.last().map(|&(end, _)| end),
            StmtKind::Continue => self.loops.last().map(|&(_, next)| next),
            StmtKind::Return => self.calls.last().copied(),
            _ => None,
        }
    }

    fn branch(
        &mut self,
        condition: &Expr,
        then: &Block,
        otherwise: &Block,
    ) -> Result<bool, Box<Diagnostic>> {
        let condition = match self.condition(condition) {
            Condition::Known(true) => return self.block(then),
            Condition::Known(false) => return self.block(otherwise),
            condition => condition,
        };
        // `if (c) break;` is one jump.
        if let ([Stmt { kind, .. }], []) = (then.as_slice(), otherwise.as_slice())
            && let Some(target) = self.jump_target(kind)
        {
            self.jump_if(condition, true, target);
            return Ok(true);
        }
        let end = self.label();
        if then.is_empty() {
            self.jump_if(condition, true, end);
            self.block(otherwise)?;
            self.place_label(end);
            return Ok(true);
        }
        let other = if otherwise.is_empty() { end } else { self.label() };
        self.jump_if(condition, false, other);
        let mut goes_on = self.block(then)?;
        if otherwise.is_empty() {
            goes_on = true;
        } else {
            if goes_on {
                self.jump(end);
            }
            self.place_label(other);
            goes_on |= self.block(otherwise)?;
        }
        self.place_label(end);
        Ok(goes_on)
    }

    fn repeat(
        &mut self,
        span: Span,
        header: &Block,
        condition: &Expr,
        body: &Block,
        step: &Block,
        test_first: bool,
    ) -> Result<(), Box<Diagnostic>> {
        if is_opaque(condition) {
            return Err(Box::new(Diagnostic::new(
                Kind::NotModelled,
                span,
                "not modelled: a loop whose condition depends on a value that nobody knows",
                "give the buffer that it is read from contents with `init`, or bound the loop by \
                 integers",
            )));
        }
        let (head, next, end) = (self.label(), self.label(), self.label());
        self.loops.push((end, next));
        self.place_label(head);
        if test_first {
            self.block(header)?;
            let condition = self.condition(condition);
            self.jump_if(condition, false, end);
            self.block(body)?;
            self.place_label(next);
            self.block(step)?;
            self.jump(head);
        } else {
            self.block(body)?;
            self.place_label(next);
            self.block(step)?;
            self.block(header)?;
            let condition = self.condition(condition);
            self.jump_if(condition, true, head);
        }
        self.place_label(end);
        self.loops.pop();
        Ok(())
    }

    /// Ends the thread: keeps what it loaded alive, or adds its sums.
    fn exit(&mut self) {
        if self.copies {
            self.emit(Instruction::CopyAsyncWaitAll);
        }
        match self.purpose {
            Purpose::Measure if self.keeps => {
                // The sink is 0, so the combination is: every thread ends
                // here. An assembler can't know, and must have the loads done
                // before it may decide.
                let (sink, low) = self.sink();
                let mix = self.mix();
                let combined = self.fresh(Class::B32);
                self.binary(Binary::And, Type::B32, combined, mix.into(), low.into());
                let pred = self.fresh(Class::Pred);
                self.emit(Instruction::Setp {
                    cmp: Compare::Eq,
                    ty: Type::U32,
                    dst: pred,
                    a: combined.into(),
                    b: Value::Imm(0),
                });
                self.emit_guarded(Guard { pred, negated: false }, Instruction::Ret);
                self.emit(Instruction::Store {
                    space: crate::syntax::Space::Global,
                    cache: crate::syntax::Cache::Default,
                    ty: Type::B32,
                    address: crate::syntax::Address { base: sink, offset: 0 },
                    src: vec![mix.into()],
                });
            }
            Purpose::Measure => {}
            Purpose::Verify => {
                let results = self.results();
                self.publish_sums(results);
            }
        }
        self.emit(Instruction::Ret);
    }

    /// What must stand before the body: the values that it uses everywhere.
    fn prologue(&mut self, parameters: &[Parameter], names: &[String]) -> Vec<Item> {
        let body = std::mem::take(&mut self.body);
        for (parameter, name) in parameters.iter().zip(names) {
            let used = match parameter {
                Parameter::Buffer(id) => self.buffers.get(id.0).copied().flatten(),
                Parameter::Sink => self.sink.map(|(address, _)| address),
                Parameter::Results => self.results,
            };
            let Some(dst) = used else { continue };
            self.emit(Instruction::LoadParam { dst, param: name.clone() });
            self.emit(Instruction::ToGlobal { dst, src: dst });
        }
        if let Some((address, low)) = self.sink {
            self.emit(Instruction::Cvt { to: Type::U32, from: Type::U64, dst: low, src: address });
        }
        if let Some(dst) = self.window {
            self.emit(Instruction::AddressOf { dst, variable: WINDOW.to_owned() });
        }
        let mix_inputs = self
            .mix
            .map(|mix| (mix, self.special(Special::Ctaid(0)), self.special(Special::Tid(0))));
        for (src, dst) in self.specials.clone() {
            self.emit(Instruction::Special { dst, src });
        }
        if let Some((dst, block, thread)) = mix_inputs {
            let (a, b, c) = (block.into(), Value::Imm(MIX_FACTOR), thread.into());
            self.emit(Instruction::Mad { ty: Type::U32, dst, a, b, c });
        }
        for (_, dst) in self.sums.clone() {
            self.move_to(dst, Value::Imm(0));
        }
        std::mem::replace(&mut self.body, body)
    }

    // Values that live as long as the thread.

    fn buffer(&mut self, id: BufferId) -> Reg {
        if let Some(&Some(reg)) = self.buffers.get(id.0) {
            return reg;
        }
        let reg = self.fresh(Class::B64);
        if self.buffers.len() <= id.0 {
            self.buffers.resize(id.0 + 1, None);
        }
        self.buffers[id.0] = Some(reg);
        reg
    }

    fn special(&mut self, special: Special) -> Reg {
        if let Some(&(_, reg)) = self.specials.iter().find(|(known, _)| *known == special) {
            return reg;
        }
        let reg = self.fresh(Class::B32);
        self.specials.push((special, reg));
        reg
    }

    fn window(&mut self) -> Reg {
        let known = self.window;
        *self.window.insert(known.unwrap_or_else(|| fresh(&mut self.registers, Class::B32)))
    }

    fn mix(&mut self) -> Reg {
        let known = self.mix;
        *self.mix.insert(known.unwrap_or_else(|| fresh(&mut self.registers, Class::B32)))
    }

    fn results(&mut self) -> Reg {
        let known = self.results;
        *self.results.insert(known.unwrap_or_else(|| fresh(&mut self.registers, Class::B64)))
    }

    fn sink(&mut self) -> (Reg, Reg) {
        let known = self.sink;
        *self.sink.insert(known.unwrap_or_else(|| {
            (fresh(&mut self.registers, Class::B64), fresh(&mut self.registers, Class::B32))
        }))
    }

    fn array(&self, id: LocalArrayId) -> Vec<Reg> {
        self.arrays.get(id.0).cloned().unwrap_or_default()
    }

    /// Bits that depend on the thread and on what it has loaded.
    fn opaque_bits(&mut self, class: Class) -> Value {
        let mix = self.mix();
        if class != Class::B64 {
            return Value::Reg(mix);
        }
        let dst = self.fresh(Class::B64);
        self.emit(Instruction::Pack { dst, low: mix.into(), high: mix.into() });
        Value::Reg(dst)
    }

    /// Combines a loaded value with the thread's mix, so that it is used.
    fn keep(&mut self, loaded: Reg) {
        let mix = self.mix();
        let combine = |this: &mut Self, part: Reg| {
            this.binary(Binary::Xor, Type::B32, mix, mix.into(), part.into());
        };
        if loaded.class == Class::B64 {
            let (low, high) = (self.fresh(Class::B32), self.fresh(Class::B32));
            self.emit(Instruction::Unpack { low, high, src: loaded });
            combine(self, low);
            combine(self, high);
        } else {
            combine(self, loaded);
        }
    }

    // Emission.

    fn fresh(&mut self, class: Class) -> Reg {
        fresh(&mut self.registers, class)
    }

    fn label(&mut self) -> Label {
        let label = Label(self.labels);
        self.labels += 1;
        label
    }

    fn place_label(&mut self, label: Label) {
        self.body.push(Item::Label(label));
    }

    fn emit(&mut self, instruction: Instruction) {
        self.body.push(Item::Instruction { guard: None, instruction, tag: None });
    }

    fn emit_guarded(&mut self, guard: Guard, instruction: Instruction) {
        self.body.push(Item::Instruction { guard: Some(guard), instruction, tag: None });
    }

    /// Emits the instruction that is a site's access.
    fn emit_for(&mut self, site: SiteId, instruction: Instruction) {
        self.body.push(Item::Instruction { guard: None, instruction, tag: Some(site.0) });
    }

    fn describe(&mut self, site: &Site) {
        let comment = if site.labelled {
            format!("{}: {}", site.label, site.text)
        } else {
            site.text.clone()
        };
        self.body.push(Item::Comment(text::ascii(&comment)));
    }

    fn binary(&mut self, op: Binary, ty: Type, dst: Reg, a: Value, b: Value) {
        self.emit(Instruction::Binary { op, ty, dst, a, b });
    }

    fn jump(&mut self, target: Label) {
        self.emit(Instruction::Branch { target });
    }

    /// Jumps where the condition equals `when`.
    fn jump_if(&mut self, condition: Condition, when: bool, target: Label) {
        match condition {
            Condition::Known(value) if value == when => self.jump(target),
            Condition::Known(_) => {}
            Condition::Pred { pred, negated } => {
                let guard = Guard { pred, negated: negated == when };
                self.emit_guarded(guard, Instruction::Branch { target });
            }
        }
    }
}

fn fresh(registers: &mut Registers, class: Class) -> Reg {
    let count = match class {
        Class::Pred => &mut registers.pred,
        Class::B16 => &mut registers.b16,
        Class::B32 => &mut registers.b32,
        Class::B64 => &mut registers.b64,
    };
    let index = *count;
    *count += 1;
    Reg { class, index }
}

/// Whether a condition names an unknown value itself; one that comes through a
/// variable is refused by the evaluator.
fn is_opaque(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Opaque(_) => true,
        ExprKind::Neg(a) | ExprKind::Not(a) | ExprKind::LogicalNot(a) | ExprKind::Convert(a) => {
            is_opaque(a)
        }
        ExprKind::Binary(_, a, b)
        | ExprKind::Compare(_, a, b)
        | ExprKind::LogicalAnd(a, b)
        | ExprKind::LogicalOr(a, b) => is_opaque(a) || is_opaque(b),
        ExprKind::Select(c, a, b) => is_opaque(c) || is_opaque(a) || is_opaque(b),
        ExprKind::Call(_, args) => args.iter().any(is_opaque),
        ExprKind::CheckedIndex { index, .. } => is_opaque(index),
        ExprKind::Const(_)
        | ExprKind::Builtin(_)
        | ExprKind::Local(_)
        | ExprKind::Element(..)
        | ExprKind::BufferBase(_)
        | ExprKind::SharedBase(_) => false,
    }
}

fn too_long(name: &str, len: u64, run: &Run) -> Box<Diagnostic> {
    let help = "keep it to what a thread has registers for, or put it in shared memory";
    let message = format!(
        "not modelled: `{name}` has {len} elements, more than a thread can hold in registers \
         ({MAX_ARRAY_ELEMENTS})"
    );
    Box::new(match run.program.body.first() {
        Some(stmt) => Diagnostic::new(Kind::NotModelled, stmt.span, message, help),
        None => Diagnostic::whole_file(Kind::NotModelled, message, help),
    })
}
