//! A second interpreter, as plain as can be: one thread after the other, exact
//! integers, C's rules read off the standard. It shares nothing with the
//! evaluator and knows no masks, boxes or vectors.

use coalescope_scenario::program::*;
use coalescope_scenario::run::Contents;
use coalescope_scenario::{Run, Span};
use simulator::OpKind;
use std::collections::HashMap;

/// What went wrong in a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trap {
    /// Overflow, division by zero, shift too far, index out of range: the
    /// expression.
    Expression(Span),
    /// Out of bounds or misaligned: the access site.
    Access(Span),
    /// A value that is not known where it has to be.
    Opaque(Span),
    /// A loop that did not end.
    Endless(Span),
}

impl Trap {
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Expression(span)
            | Self::Access(span)
            | Self::Opaque(span)
            | Self::Endless(span) => *span,
        }
    }
}

/// `None`: not known.
type Value = Option<i128>;

enum Flow {
    Next,
    Break,
    Continue,
    Return,
}

/// One thread: where it accessed what, and how it ended.
pub(crate) struct Thread {
    pub(crate) accesses: Vec<(SiteId, u64)>,
    pub(crate) end: Result<(), Trap>,
}

pub(crate) struct Interpreter<'r> {
    run: &'r Run,
    firsts: Vec<u64>,
    written: Vec<bool>,
    block: [u64; 3],
    thread: [u64; 3],
    locals: Vec<Value>,
    arrays: HashMap<(usize, i128), Value>,
    shared: HashMap<u64, Option<u8>>,
    accesses: Vec<(SiteId, u64)>,
    fuel: u32,
}

fn scalar(ty: ValueType) -> Scalar {
    match ty {
        ValueType::Int(scalar) => scalar,
        ValueType::Pointer => Scalar::U64,
    }
}

fn limits(ty: ValueType) -> (i128, i128) {
    match scalar(ty) {
        Scalar::Bool => (0, 1),
        Scalar::I8 => (i8::MIN.into(), i8::MAX.into()),
        Scalar::U8 => (0, u8::MAX.into()),
        Scalar::I16 => (i16::MIN.into(), i16::MAX.into()),
        Scalar::U16 => (0, u16::MAX.into()),
        Scalar::I32 => (i32::MIN.into(), i32::MAX.into()),
        Scalar::U32 => (0, u32::MAX.into()),
        Scalar::I64 => (i64::MIN.into(), i64::MAX.into()),
        _ => (0, u64::MAX.into()),
    }
}

fn width(ty: ValueType) -> i128 {
    i128::from(scalar(ty).bytes() * 8)
}

fn wrapped(ty: ValueType, value: i128) -> i128 {
    if scalar(ty) == Scalar::Bool {
        return i128::from(value != 0);
    }
    let size = 1i128 << width(ty);
    let low = value.rem_euclid(size);
    if low > limits(ty).1 { low - size } else { low }
}

impl<'r> Interpreter<'r> {
    /// All threads of one block, in order; shared memory is handed from one to
    /// the next, so programs must only read what the same thread wrote.
    pub(crate) fn block(run: &'r Run, bases: &[u64], block: [u64; 3]) -> Vec<Thread> {
        let firsts = run.buffers.iter().zip(bases).map(|(b, base)| base + b.offset_bytes);
        let mut written = vec![false; run.buffers.len()];
        for site in &run.program.sites {
            if site.op.kind == OpKind::Load {
                continue;
            }
            match site.root {
                Root::Buffer(id) => written[id.0] = true,
                Root::AnyBuffer => written.fill(true),
                Root::Shared(_) => {}
            }
        }
        let mut this = Self {
            run,
            firsts: firsts.collect(),
            written,
            block,
            thread: [0; 3],
            locals: Vec::new(),
            arrays: HashMap::new(),
            shared: HashMap::new(),
            accesses: Vec::new(),
            fuel: 0,
        };
        let [bx, by, bz] = run.launch.block.map(u64::from);
        let mut threads = Vec::new();
        for z in 0..bz {
            for y in 0..by {
                for x in 0..bx {
                    this.thread = [x, y, z];
                    this.locals = vec![None; run.program.locals.len()];
                    this.arrays.clear();
                    this.fuel = 10_000;
                    let end = this.statements(&run.program.body).map(|_| ());
                    threads.push(Thread { accesses: std::mem::take(&mut this.accesses), end });
                }
            }
        }
        threads
    }

    fn statements(&mut self, block: &[Stmt]) -> Result<Flow, Trap> {
        for stmt in block {
            match self.statement(stmt)? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<Flow, Trap> {
        match &stmt.kind {
            StmtKind::Set { local, value } => {
                self.locals[local.0] = self.eval(value)?;
            }
            StmtKind::SetElement { array, index, value } => {
                let at = self.array_index(*array, index)?;
                let value = match value {
                    Some(value) => self.eval(value)?,
                    None => None,
                };
                self.arrays.insert((array.0, at), value);
            }
            StmtKind::Access(access) => self.access(access)?,
            StmtKind::If { condition, then, otherwise } => match self.eval(condition)? {
                Some(0) => return self.statements(otherwise),
                Some(_) => return self.statements(then),
                None => {
                    if guarded(then) || guarded(otherwise) {
                        return Err(Trap::Opaque(condition.span));
                    }
                    self.forget(then);
                    self.forget(otherwise);
                }
            },
            StmtKind::Loop { header, condition, body, step, test_first } => {
                let mut test = *test_first;
                loop {
                    if test {
                        if let Flow::Return = self.statements(header)? {
                            return Ok(Flow::Return);
                        }
                        match self.eval(condition)? {
                            Some(0) => break,
                            Some(_) => {}
                            None => return Err(Trap::Opaque(condition.span)),
                        }
                    }
                    test = true;
                    match self.fuel.checked_sub(1) {
                        Some(left) => self.fuel = left,
                        None => return Err(Trap::Endless(condition.span)),
                    }
                    match self.statements(body)? {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => break,
                        Flow::Return => return Ok(Flow::Return),
                    }
                    if let Flow::Return = self.statements(step)? {
                        return Ok(Flow::Return);
                    }
                }
            }
            StmtKind::Call { body } => {
                self.statements(body)?;
            }
            StmtKind::Break => return Ok(Flow::Break),
            StmtKind::Continue => return Ok(Flow::Continue),
            StmtKind::Return => return Ok(Flow::Return),
            StmtKind::Barrier => {}
        }
        Ok(Flow::Next)
    }

    /// What an `if` on an unknown condition leaves.
    fn forget(&mut self, block: &[Stmt]) {
        for stmt in block {
            match &stmt.kind {
                StmtKind::Set { local, .. } => self.locals[local.0] = None,
                StmtKind::SetElement { array, .. } => {
                    for ((of, _), value) in &mut self.arrays {
                        if *of == array.0 {
                            *value = None;
                        }
                    }
                }
                StmtKind::If { then, otherwise, .. } => {
                    self.forget(then);
                    self.forget(otherwise);
                }
                StmtKind::Call { body } => self.forget(body),
                _ => {}
            }
        }
    }

    fn access(&mut self, access: &Access) -> Result<(), Trap> {
        let site = &self.run.program.sites[access.site.0];
        let address = self.eval(&access.address)?;
        let address = address.ok_or(Trap::Opaque(access.address.span))? as u64;
        let mut values = Vec::new();
        for value in &access.values {
            values.push(self.eval(value)?);
        }
        let size = u64::from(site.width);
        let fits = |first: u64, bytes: u64| {
            address >= first && bytes >= size && address - first <= bytes - size
        };
        let buffers = self.run.buffers.iter().zip(&self.firsts).enumerate();
        let buffer = match site.root {
            Root::Buffer(id) => {
                fits(self.firsts[id.0], self.run.buffers[id.0].bytes).then_some(Some(id.0))
            }
            Root::Shared(id) => {
                let array = &self.run.program.shared[id.0];
                fits(array.offset, array.bytes).then_some(None)
            }
            Root::AnyBuffer => buffers
                .clone()
                .find(|(_, (buffer, first))| fits(**first, buffer.bytes))
                .map(|(id, _)| Some(id)),
        };
        let Some(buffer) = buffer else { return Err(Trap::Access(site.span)) };
        if !address.is_multiple_of(size) {
            return Err(Trap::Access(site.span));
        }
        self.accesses.push((access.site, address));
        let bytes = site.element.bytes();
        match site.op.kind {
            OpKind::Load => {
                for (component, local) in access.results.iter().enumerate() {
                    let at = address + component as u64 * bytes;
                    let value = match buffer {
                        Some(id) => self.contents(id, at, site.element)?,
                        None => self.load_shared(at, site.element),
                    };
                    let ty = self.run.program.locals[local.0].ty;
                    self.locals[local.0] = value.map(|value| wrapped(ty, value));
                }
            }
            OpKind::Store if buffer.is_none() => {
                for component in 0..u64::from(site.vector) {
                    let value = values.get(component as usize).copied().flatten();
                    for byte in 0..bytes {
                        let stored = value.map(|value| (value >> (8 * byte)) as u8);
                        self.shared.insert(address + component * bytes + byte, stored);
                    }
                }
            }
            _ => {
                for local in &access.results {
                    self.locals[local.0] = None;
                }
            }
        }
        Ok(())
    }

    fn load_shared(&self, at: u64, element: Scalar) -> Value {
        let mut bits = 0i128;
        for byte in 0..element.bytes() {
            bits |= i128::from((*self.shared.get(&(at + byte))?)?) << (8 * byte);
        }
        Some(wrapped(ValueType::Int(element), bits))
    }

    fn contents(&mut self, id: usize, at: u64, element: Scalar) -> Result<Value, Trap> {
        let buffer = &self.run.buffers[id];
        let Some(have) = buffer
            .scalar
            .filter(|have| !self.written[id] && !have.is_float() && !element.is_float())
        else {
            return Ok(None);
        };
        let mut bits = 0i128;
        for byte in 0..element.bytes() {
            let offset = at - self.firsts[id] + byte;
            let (row, column) = match buffer.pitch {
                Some(pitch) => (offset / pitch, offset % pitch),
                None => (0, offset),
            };
            let len = *buffer.shape.last().unwrap_or(&1);
            let column_index = column / buffer.element_bytes;
            if buffer.pitch.is_some() && column_index >= len {
                return Ok(None);
            }
            let index = row * len + column_index;
            let value = match &buffer.contents {
                Contents::Unknown => return Ok(None),
                Contents::Listed(list) => list.get(index as usize).map(|v| i128::from(*v)),
                Contents::Computed(expr) => {
                    let kernel = std::mem::replace(&mut self.locals, vec![Some(index.into())]);
                    let value = self.eval(expr);
                    self.locals = kernel;
                    value?
                }
            };
            let Some(value) = value else { return Ok(None) };
            let value = wrapped(ValueType::Int(have), value);
            bits |= (value >> (8 * (column % buffer.element_bytes)) & 0xff) << (8 * byte);
        }
        Ok(Some(wrapped(ValueType::Int(element), bits)))
    }

    fn array_index(&mut self, array: LocalArrayId, index: &Expr) -> Result<i128, Trap> {
        let at = self.eval(index)?.ok_or(Trap::Opaque(index.span))?;
        let len = i128::from(self.run.program.local_arrays[array.0].len);
        if (0..len).contains(&at) { Ok(at) } else { Err(Trap::Expression(index.span)) }
    }

    fn eval(&mut self, expr: &Expr) -> Result<Value, Trap> {
        let trap = Err(Trap::Expression(expr.span));
        let (min, max) = limits(expr.ty);
        let signed = min < 0;
        let axis = |axis: Axis| axis as usize;
        Ok(match &expr.kind {
            ExprKind::Const(value) => Some(wrapped(expr.ty, i128::from(*value))),
            ExprKind::Opaque(_) => None,
            ExprKind::Builtin(Builtin::ThreadIdx(a)) => Some(self.thread[axis(*a)].into()),
            ExprKind::Builtin(Builtin::BlockIdx(a)) => Some(self.block[axis(*a)].into()),
            ExprKind::Local(local) => self.locals[local.0],
            ExprKind::Element(array, index) => {
                let at = self.array_index(*array, index)?;
                self.arrays.get(&(array.0, at)).copied().flatten()
            }
            ExprKind::BufferBase(id) => Some(self.firsts[id.0].into()),
            ExprKind::SharedBase(id) => Some(self.run.program.shared[id.0].offset.into()),
            ExprKind::Neg(a) => match self.eval(a)? {
                None => None,
                Some(a) if signed && -a > max => return trap,
                Some(a) => Some(wrapped(expr.ty, -a)),
            },
            ExprKind::Not(a) => self.eval(a)?.map(|a| wrapped(expr.ty, !a)),
            ExprKind::LogicalNot(a) => self.eval(a)?.map(|a| i128::from(a == 0)),
            ExprKind::Binary(op, a, b) => {
                let pointers = [expr.ty, a.ty, b.ty].contains(&ValueType::Pointer);
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
                let bits = width(expr.ty);
                let result = match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Sub => a - b,
                    BinaryOp::Mul => match a.checked_mul(b) {
                        Some(product) => product,
                        None => wrapped(expr.ty, (a as u64).wrapping_mul(b as u64).into()),
                    },
                    BinaryOp::Div | BinaryOp::Rem if b == 0 => return trap,
                    BinaryOp::Div => a / b,
                    BinaryOp::Rem if signed && a == min && b == -1 => return trap,
                    BinaryOp::Rem => a % b,
                    BinaryOp::And => a & b,
                    BinaryOp::Or => a | b,
                    BinaryOp::Xor => a ^ b,
                    BinaryOp::Shl | BinaryOp::Shr if b < 0 || b >= bits => return trap,
                    BinaryOp::Shl => return Ok(Some(wrapped(expr.ty, a << b))),
                    BinaryOp::Shr => a >> b,
                };
                if signed && !pointers && (result < min || result > max) {
                    return trap;
                }
                Some(wrapped(expr.ty, result))
            }
            ExprKind::Compare(op, a, b) => {
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
                Some(i128::from(match op {
                    CompareOp::Eq => a == b,
                    CompareOp::Ne => a != b,
                    CompareOp::Lt => a < b,
                    CompareOp::Le => a <= b,
                    CompareOp::Gt => a > b,
                    CompareOp::Ge => a >= b,
                }))
            }
            ExprKind::LogicalAnd(a, b) => match self.eval(a)? {
                Some(0) => Some(0),
                Some(_) => self.eval(b)?.map(|b| i128::from(b != 0)),
                None => None,
            },
            ExprKind::LogicalOr(a, b) => match self.eval(a)? {
                Some(0) => self.eval(b)?.map(|b| i128::from(b != 0)),
                Some(_) => Some(1),
                None => None,
            },
            ExprKind::Select(c, a, b) => match self.eval(c)? {
                Some(0) => self.eval(b)?,
                Some(_) => self.eval(a)?,
                None => None,
            },
            ExprKind::Convert(a) => self.eval(a)?.map(|a| wrapped(expr.ty, a)),
            ExprKind::Call(function, arguments) => {
                let mut values = Vec::new();
                for argument in arguments {
                    values.push(self.eval(argument)?);
                }
                let Some(values) = values.into_iter().collect::<Option<Vec<i128>>>() else {
                    return Ok(None);
                };
                let a = values[0];
                let wide = width(arguments[0].ty) == 64;
                let result = match function {
                    Intrinsic::Hash => hash(a as u32).into(),
                    Intrinsic::Hash64 => hash64(a as u64).into(),
                    Intrinsic::Min => a.min(values[1]),
                    Intrinsic::Max => a.max(values[1]),
                    Intrinsic::Abs if -a > limits(expr.ty).1 => return trap,
                    Intrinsic::Abs => a.abs(),
                    Intrinsic::Popc if wide => (a as u64).count_ones().into(),
                    Intrinsic::Popc => (a as u32).count_ones().into(),
                    Intrinsic::Clz if wide => (a as u64).leading_zeros().into(),
                    Intrinsic::Clz => (a as u32).leading_zeros().into(),
                    Intrinsic::Ffs => {
                        let bits = if wide { a as u64 } else { u64::from(a as u32) };
                        (0..64).find(|bit| bits >> bit & 1 == 1).map_or(0, |bit| bit + 1)
                    }
                    Intrinsic::Brev if wide => (a as u64).reverse_bits().into(),
                    Intrinsic::Brev => (a as u32).reverse_bits().into(),
                };
                Some(wrapped(expr.ty, result))
            }
            ExprKind::CheckedIndex { index, extent, .. } => match self.eval(index)? {
                None => None,
                Some(at) if (0..i128::from(*extent)).contains(&at) => Some(at),
                Some(_) => return Err(Trap::Expression(index.span)),
            },
        })
    }
}

/// Whether a block does more than assign.
fn guarded(block: &[Stmt]) -> bool {
    fn inside(block: &[Stmt], in_call: bool) -> bool {
        block.iter().any(|stmt| match &stmt.kind {
            StmtKind::Set { .. } | StmtKind::SetElement { .. } => false,
            StmtKind::If { then, otherwise, .. } => {
                inside(then, in_call) || inside(otherwise, in_call)
            }
            StmtKind::Call { body } => inside(body, true),
            StmtKind::Return => !in_call,
            _ => true,
        })
    }
    inside(block, false)
}

fn hash(x: u32) -> u32 {
    let x = x ^ (x >> 16);
    let x = (u64::from(x) * 0x7feb_352d) as u32;
    let x = x ^ (x >> 15);
    let x = (u64::from(x) * 0x846c_a68b) as u32;
    x ^ (x >> 16)
}

fn hash64(x: u64) -> u64 {
    let x = x ^ (x >> 30);
    let x = (u128::from(x) * 0xbf58_476d_1ce4_e5b9) as u64;
    let x = x ^ (x >> 27);
    let x = (u128::from(x) * 0x94d0_49bb_1331_11eb) as u64;
    x ^ (x >> 31)
}
