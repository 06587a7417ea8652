//! Random programs from a list of choices; a shorter list, or smaller choices,
//! gives a simpler program, so that failures shrink.

use crate::build::*;
use coalescope_scenario::Run;
use coalescope_scenario::program::*;
use coalescope_scenario::run::Contents;
use simulator::{AtomicOp, OpKind};
use std::sync::Arc;

/// What kinds of things a program contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Linear indices, constant divisors, predicates: what the closed form is
    /// for.
    Affine,
    /// Everything.
    Wild,
}

struct Generator<'c> {
    choices: std::slice::Iter<'c, u32>,
    flavour: Flavour,
    builder: Builder,
    /// Integer locals that exist, with their types.
    locals: Vec<(usize, ValueType)>,
    /// Those that count iterations: assigning to them makes endless loops.
    counters: Vec<usize>,
    roots: Vec<(Root, Scalar, u64)>,
    shared: Option<Root>,
    array: Option<LocalArrayId>,
    loops: usize,
    in_call: bool,
    statements: usize,
}

pub(crate) fn program(choices: &[u32], flavour: Flavour) -> Run {
    let mut choices = choices.iter();
    let mut pick = |n: u32| choices.next().copied().unwrap_or(0) % n;
    let grid = match pick(4) {
        0 => [1 + u64::from(pick(6)), 1, 1],
        1 => [1 + u64::from(pick(40)), 1, 1],
        2 => [1 + u64::from(pick(7)), 1 + u64::from(pick(5)), 1],
        _ => [1 + u64::from(pick(4)), 1 + u64::from(pick(3)), 1 + u64::from(pick(3))],
    };
    let block = match pick(5) {
        0 => [1 + pick(40), 1, 1],
        1 => [32, 1 + pick(3), 1],
        2 => [1 + pick(9), 1 + pick(6), 1 + pick(3)],
        3 => [64, 1, 1],
        _ => [1, 1, 1 + pick(40)],
    };
    let mut builder = Builder::new(grid, block);
    let len = 1 + u64::from(pick(3000));
    let scale = i64::from(pick(9));
    // i * scale % 1000, hash(i) % len, a list, a written one, bytes, doubles
    let index = || local(I64, 0);
    let computed = binary(BinaryOp::Rem, mul(index(), long(scale)), long(1000));
    let hashed = {
        let narrow = convert(U32, index());
        let hash = expr(U32, ExprKind::Call(Intrinsic::Hash, vec![narrow]));
        binary(BinaryOp::Rem, hash, constant(U32, len as i64))
    };
    let listed: Arc<[i64]> = (0..len as i64).map(|i| i * 7 % 257).collect();
    let roots = vec![
        (builder.buffer("f", Scalar::F32, len, Contents::Unknown), Scalar::F32, len),
        (
            builder.buffer(
                "c",
                Scalar::I32,
                len,
                Contents::Computed(Arc::new(convert(I32, computed))),
            ),
            Scalar::I32,
            len,
        ),
        (
            builder.buffer("h", Scalar::U32, len, Contents::Computed(Arc::new(hashed))),
            Scalar::U32,
            len,
        ),
        (builder.buffer("l", Scalar::I16, len, Contents::Listed(listed)), Scalar::I16, len),
        (builder.buffer("d", Scalar::F64, len, Contents::Unknown), Scalar::F64, len),
    ];
    if let Some(pitched) = builder.run.buffers.get_mut(1)
        && pick(3) == 1
    {
        let row = 1 + u64::from(pick(50));
        let rows = len.div_ceil(row);
        pitched.shape = vec![rows, row];
        pitched.pitch = Some(row * 4 + 4 * u64::from(pick(5)));
        pitched.bytes = pitched.pitch.unwrap_or(0) * rows;
    }
    if let Some(moved) = builder.run.buffers.get_mut(0) {
        moved.offset_bytes = 4 * u64::from(pick(9));
    }
    let threads = u64::from(builder.run.launch.threads_per_block());
    let shared = builder.shared("s", Scalar::I32, threads);
    builder.run.program.local_arrays.push(LocalArray {
        name: "a".to_owned(),
        element: Some(I32),
        len: 4,
    });
    let mut generator = Generator {
        choices,
        flavour,
        builder,
        locals: Vec::new(),
        counters: Vec::new(),
        roots,
        shared: Some(shared),
        array: Some(LocalArrayId(0)),
        loops: 0,
        in_call: false,
        statements: 0,
    };
    // The usual index first, so that later expressions have something to
    // work with.
    let i = generator.builder.local(I32);
    generator.locals.push((i, I32));
    let block_dim = generator.builder.run.launch.block[0];
    let mut body = vec![set(i, convert(I32, linear(block_dim)))];
    body.extend(generator.block(3));
    generator.builder.body(body)
}

impl Generator<'_> {
    fn pick(&mut self, n: u32) -> u32 {
        self.choices.next().copied().unwrap_or(0) % n
    }

    fn exhausted(&self) -> bool {
        self.choices.len() == 0 || self.statements > 40
    }

    fn block(&mut self, depth: u32) -> Vec<Stmt> {
        let count = 1 + self.pick(4);
        let mut block = Vec::new();
        for _ in 0..count {
            if self.exhausted() {
                break;
            }
            self.statements += 1;
            self.statement(depth, &mut block);
        }
        block
    }

    fn integer_type(&mut self) -> ValueType {
        let types = [Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64];
        let wild = self.flavour == Flavour::Wild;
        let index = self.pick(if wild { 5 } else { 3 });
        ValueType::Int(types.get(index as usize).copied().unwrap_or(Scalar::I16))
    }

    fn statement(&mut self, depth: u32, out: &mut Vec<Stmt>) {
        let wild = self.flavour == Flavour::Wild;
        match self.pick(if wild { 16 } else { 10 }) {
            0..=2 => {
                let statement = self.access();
                out.extend(statement);
            }
            3 => {
                let ty = self.integer_type();
                let value = self.expression(ty, 3);
                let id = self.builder.local(ty);
                self.locals.push((id, ty));
                out.push(set(id, value));
            }
            4 if !self.locals.is_empty() => {
                let which = self.pick(self.locals.len() as u32) as usize;
                let (id, ty) = self.locals[which];
                let value = self.expression(ty, 2);
                if !self.counters.contains(&id) {
                    out.push(set(id, value));
                }
            }
            5 | 6 if depth > 0 => {
                let condition = self.condition(2);
                let then = self.block(depth - 1);
                let otherwise = if self.pick(3) == 0 { self.block(depth - 1) } else { Vec::new() };
                out.push(stmt(StmtKind::If { condition, then, otherwise }));
            }
            7 | 8 if depth > 0 && self.loops < 2 => self.counted_loop(depth, out),
            9 if depth > 0 && self.pick(3) == 0 => out.push(stmt(StmtKind::Return)),
            10 if self.loops > 0 && !self.in_call => {
                let jump = if self.pick(2) == 0 { StmtKind::Break } else { StmtKind::Continue };
                let condition = self.condition(1);
                out.push(when(condition, vec![stmt(jump)]));
            }
            11 if depth > 0 => {
                let (in_call, loops) = (self.in_call, self.loops);
                self.in_call = true;
                let body = self.block(depth - 1);
                self.in_call = in_call;
                self.loops = loops;
                out.push(stmt(StmtKind::Call { body }));
            }
            12 => self.load(out),
            13 => self.shared_access(out),
            14 => self.array_access(out),
            15 if depth > 0 && self.loops < 2 => self.while_loop(depth, out),
            _ => {
                let ty = I32;
                let value = self.expression(ty, 2);
                let id = self.builder.local(ty);
                self.locals.push((id, ty));
                out.push(set(id, value));
            }
        }
    }

    /// An index in range, by a condition or by `%`, or, seldom, as it comes.
    fn access(&mut self) -> Vec<Stmt> {
        let which = self.pick(self.roots.len() as u32) as usize;
        let (root, scalar, len) = self.roots[which];
        let index = self.expression(I64, 3);
        let id = self.builder.local(I64);
        let kind = match self.pick(8) {
            0 if self.flavour == Flavour::Wild => OpKind::Reduction(AtomicOp::Add),
            1 | 2 => OpKind::Store,
            _ => OpKind::Load,
        };
        // Stores go to the first only, so that the others keep their contents.
        let (root, scalar) =
            if kind == OpKind::Load { (root, scalar) } else { (self.roots[0].0, Scalar::F32) };
        let narrow = matches!(kind, OpKind::Reduction(_));
        let scalar = if narrow { Scalar::F32 } else { scalar };
        let access = self.builder.access(kind, root, scalar, local(I64, id));
        let guard = self.pick(8);
        let mut out = vec![set(id, index)];
        if guard == 1 {
            out.push(access);
            return out;
        }
        let inside = expr(
            BOOL,
            ExprKind::LogicalAnd(
                Box::new(compare(CompareOp::Ge, local(I64, id), long(0))),
                Box::new(less(local(I64, id), long(len as i64))),
            ),
        );
        out.push(when(inside, vec![access]));
        out
    }

    /// A load of an integer that later expressions use.
    fn load(&mut self, out: &mut Vec<Stmt>) {
        let which = 1 + self.pick(3) as usize;
        let (root, scalar, len) = self.roots[which];
        let index = self.expression(I64, 2);
        // Into range, whatever it is: ((index % len) + len) % len.
        let length = || long(len as i64);
        let index =
            binary(BinaryOp::Rem, add(binary(BinaryOp::Rem, index, length()), length()), length());
        let ty = ValueType::Int(scalar);
        let id = self.builder.local(ty);
        let load = self.builder.load_into(id, root, scalar, index);
        self.locals.push((id, ty));
        out.push(load);
    }

    /// A thread's own place in shared memory.
    fn shared_access(&mut self, out: &mut Vec<Stmt>) {
        let Some(root) = self.shared else { return };
        let [bx, by, _] = self.builder.run.launch.block;
        let index = || {
            let row = add(thread(Axis::Y), mul(thread(Axis::Z), constant(U32, by.into())));
            convert(I64, add(thread(Axis::X), mul(row, constant(U32, bx.into()))))
        };
        if self.pick(2) == 0 {
            let value = self.expression(I32, 2);
            out.push(self.builder.store_of(root, Scalar::I32, index(), value));
        } else {
            let id = self.builder.local(I32);
            out.push(self.builder.load_into(id, root, Scalar::I32, index()));
            self.locals.push((id, I32));
        }
    }

    fn array_access(&mut self, out: &mut Vec<Stmt>) {
        let Some(array) = self.array else { return };
        let index = int(i64::from(self.pick(4)));
        if self.pick(2) == 0 {
            let value = Some(self.expression(I32, 2));
            out.push(stmt(StmtKind::SetElement { array, index, value }));
        } else {
            let id = self.builder.local(I32);
            out.push(set(id, expr(I32, ExprKind::Element(array, Box::new(index)))));
            self.locals.push((id, I32));
        }
    }

    /// `for (v = start; v < bound; v += step)`, sometimes with a second
    /// induction.
    fn counted_loop(&mut self, depth: u32, out: &mut Vec<Stmt>) {
        let ty = if self.pick(2) == 0 { I32 } else { I64 };
        let v = self.builder.local(ty);
        let start = if self.pick(3) == 0 { self.expression(ty, 1) } else { constant(ty, 0) };
        let trips = i64::from(self.pick(40));
        let step = 1 + i64::from(self.pick(4));
        let bound = match self.pick(4) {
            0 => self.expression(ty, 1),
            1 => add(local(ty, v), constant(ty, 0)),
            _ => constant(ty, trips * step),
        };
        // A bound that moves would never be reached: only those that stay.
        let bound = if mentions(&bound, v) { constant(ty, trips) } else { bound };
        out.push(set(v, start));
        let other = (self.pick(3) == 0).then(|| {
            let w = self.builder.local(I32);
            out.push(set(w, int(5)));
            w
        });
        self.locals.push((v, ty));
        self.counters.push(v);
        if let Some(w) = other {
            self.locals.push((w, I32));
        }
        let in_call = std::mem::replace(&mut self.in_call, false);
        self.loops += 1;
        let mut body = self.block(depth - 1);
        self.loops -= 1;
        self.in_call = in_call;
        if let Some(w) = other {
            body.push(set(w, add(local(I32, w), int(3))));
        }
        let advance = set(v, add(local(ty, v), constant(ty, step)));
        let condition = less(local(ty, v), bound);
        let kind = if self.pick(6) == 1 {
            StmtKind::Loop {
                header: Vec::new(),
                condition,
                body,
                step: vec![advance],
                test_first: false,
            }
        } else {
            StmtKind::Loop {
                header: Vec::new(),
                condition,
                body,
                step: vec![advance],
                test_first: true,
            }
        };
        out.push(stmt(kind));
    }

    /// A loop on what the data say: `while (x > 0) x = x / 2 …`.
    fn while_loop(&mut self, depth: u32, out: &mut Vec<Stmt>) {
        let v = self.builder.local(I32);
        self.counters.push(v);
        let start = self.expression(I32, 2);
        let start = binary(BinaryOp::Rem, start, int(1000));
        out.push(set(v, start));
        let in_call = std::mem::replace(&mut self.in_call, false);
        self.loops += 1;
        let mut body = self.block(depth - 1);
        self.loops -= 1;
        self.in_call = in_call;
        let divisor = 2 + i64::from(self.pick(2));
        body.insert(0, set(v, binary(BinaryOp::Div, local(I32, v), int(divisor))));
        self.locals.push((v, I32));
        out.push(looped(compare(CompareOp::Gt, local(I32, v), int(0)), body, Vec::new()));
    }

    fn condition(&mut self, depth: u32) -> Expr {
        match self.pick(if depth > 0 { 7 } else { 4 }) {
            4 => {
                let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
                expr(BOOL, ExprKind::LogicalAnd(Box::new(a), Box::new(b)))
            }
            5 => {
                let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
                expr(BOOL, ExprKind::LogicalOr(Box::new(a), Box::new(b)))
            }
            6 => {
                let a = self.condition(depth - 1);
                expr(BOOL, ExprKind::LogicalNot(Box::new(a)))
            }
            _ => {
                let ty = self.integer_type();
                let ops = [
                    CompareOp::Lt,
                    CompareOp::Le,
                    CompareOp::Gt,
                    CompareOp::Ge,
                    CompareOp::Eq,
                    CompareOp::Ne,
                ];
                let op = ops[self.pick(6) as usize];
                let (a, b) = (self.expression(ty, 2), self.expression(ty, 1));
                compare(op, a, b)
            }
        }
    }

    fn small(&mut self, ty: ValueType) -> Expr {
        let value = match self.pick(8) {
            0 => 1,
            1 => 32,
            2 => 0,
            3 if self.flavour == Flavour::Wild => -1 - i64::from(self.pick(40)),
            4 => 4,
            5 => i64::from(self.pick(3000)),
            _ => i64::from(self.pick(70)),
        };
        constant(ty, value)
    }

    fn atom(&mut self, ty: ValueType) -> Expr {
        match self.pick(6) {
            0 | 1 if !self.locals.is_empty() => {
                let which = self.pick(self.locals.len() as u32) as usize;
                let (id, of) = self.locals[which];
                convert(ty, local(of, id))
            }
            2 => convert(ty, thread([Axis::X, Axis::Y, Axis::Z][self.pick(3) as usize])),
            3 => convert(ty, block([Axis::X, Axis::Y, Axis::Z][self.pick(3) as usize])),
            4 => self.small(ty),
            _ => {
                let block_dim = self.builder.run.launch.block[0];
                convert(ty, linear(block_dim))
            }
        }
    }

    fn expression(&mut self, ty: ValueType, depth: u32) -> Expr {
        if depth == 0 || self.exhausted() {
            return self.atom(ty);
        }
        let wild = self.flavour == Flavour::Wild;
        match self.pick(if wild { 22 } else { 12 }) {
            0 | 1 => self.atom(ty),
            2 | 3 => add(self.expression(ty, depth - 1), self.expression(ty, depth - 1)),
            4 => {
                let (a, b) = (self.expression(ty, depth - 1), self.atom(ty));
                binary(BinaryOp::Sub, a, b)
            }
            5 | 6 => mul(self.expression(ty, depth - 1), self.small(ty)),
            7 => {
                let divisor = 1 + i64::from(self.pick(40));
                binary(BinaryOp::Div, self.expression(ty, depth - 1), constant(ty, divisor))
            }
            8 => {
                let divisor = 1 + i64::from(self.pick(40));
                binary(BinaryOp::Rem, self.expression(ty, depth - 1), constant(ty, divisor))
            }
            9 => {
                let op = [BinaryOp::And, BinaryOp::Or, BinaryOp::Xor][self.pick(3) as usize];
                let value = self.pick(70);
                let ones = self.pick(3) == 0;
                let constant_ = if ones { (1i64 << (value % 8)) - 1 } else { value.into() };
                binary(op, self.expression(ty, depth - 1), constant(ty, constant_))
            }
            10 => {
                let op = if self.pick(2) == 0 { BinaryOp::Shr } else { BinaryOp::Shl };
                let count = i64::from(self.pick(6));
                let a = self.expression(ty, depth - 1);
                expr(ty, ExprKind::Binary(op, Box::new(a), Box::new(int(count))))
            }
            11 => {
                let other = self.integer_type();
                let inner = self.expression(other, depth - 1);
                convert(ty, inner)
            }
            12 => {
                let narrow = self.expression(U32, depth - 1);
                let hash = expr(U32, ExprKind::Call(Intrinsic::Hash, vec![narrow]));
                convert(ty, binary(BinaryOp::Rem, hash, constant(U32, 2000)))
            }
            13 => {
                let c = self.condition(1);
                let (a, b) = (self.expression(ty, depth - 1), self.expression(ty, depth - 1));
                expr(ty, ExprKind::Select(Box::new(c), Box::new(a), Box::new(b)))
            }
            14 => {
                let (a, b) = (self.expression(ty, depth - 1), self.expression(ty, depth - 1));
                mul(a, b)
            }
            15 => {
                let (a, b) = (self.expression(ty, depth - 1), self.expression(ty, depth - 1));
                let op = [BinaryOp::Div, BinaryOp::Rem, BinaryOp::And, BinaryOp::Xor];
                let op = op[self.pick(4) as usize];
                // Most divisors are not 0.
                let b =
                    if self.pick(8) == 1 { b } else { binary(BinaryOp::Or, b, constant(ty, 1)) };
                binary(op, a, b)
            }
            16 => {
                let a = self.expression(ty, depth - 1);
                let negated = self.pick(2) == 0;
                let a = Box::new(a);
                expr(ty, if negated { ExprKind::Neg(a) } else { ExprKind::Not(a) })
            }
            17 => {
                let (a, b) = (self.expression(ty, depth - 1), self.expression(ty, depth - 1));
                let f = [Intrinsic::Min, Intrinsic::Max][self.pick(2) as usize];
                expr(ty, ExprKind::Call(f, vec![a, b]))
            }
            18 => {
                let wide = self.pick(2) == 0;
                let of = if wide { I64 } else { I32 };
                let a = self.expression(of, depth - 1);
                let f = [Intrinsic::Popc, Intrinsic::Clz, Intrinsic::Ffs];
                let f = f[self.pick(3) as usize];
                convert(ty, expr(I32, ExprKind::Call(f, vec![a])))
            }
            19 => {
                let a = self.expression(I32, depth - 1);
                convert(ty, expr(I32, ExprKind::Call(Intrinsic::Abs, vec![a])))
            }
            20 => {
                let op = if self.pick(2) == 0 { BinaryOp::Shr } else { BinaryOp::Shl };
                let (a, count) = (self.expression(ty, depth - 1), self.expression(I32, 1));
                // Most shifts are short enough.
                let most = self.pick(8) != 1;
                let count = if most { binary(BinaryOp::And, count, int(15)) } else { count };
                expr(ty, ExprKind::Binary(op, Box::new(a), Box::new(count)))
            }
            _ => {
                if self.pick(8) == 1 {
                    return expr(ty, ExprKind::Opaque(OpaqueReason::Float));
                }
                let index = self.expression(I32, depth - 1);
                convert(
                    ty,
                    expr(
                        I64,
                        ExprKind::CheckedIndex {
                            index: Box::new(index),
                            extent: 100_000,
                            axis: 0,
                            of: self.roots[0].0,
                        },
                    ),
                )
            }
        }
    }
}

fn mentions(expr: &Expr, local: usize) -> bool {
    match &expr.kind {
        ExprKind::Local(id) => id.0 == local,
        ExprKind::Binary(_, a, b) => mentions(a, local) || mentions(b, local),
        _ => false,
    }
}
