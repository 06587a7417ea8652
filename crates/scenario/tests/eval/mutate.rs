//! Programs that lowering would never make: types, ids and constants of a
//! well-formed one changed at random.

use coalescope_scenario::Run;
use coalescope_scenario::program::*;

struct Mutator<'c> {
    choices: std::slice::Iter<'c, u32>,
    /// One node in so many is changed.
    rarity: u32,
}

/// Changes about one node in `rarity`.
pub(crate) fn mutate(run: &mut Run, choices: &[u32], rarity: u32) {
    let mut mutator = Mutator { choices: choices.iter(), rarity };
    for site in &mut run.program.sites {
        if mutator.hit() {
            match mutator.pick(5) {
                0 => site.width = [0, 1, 2, 3, 4, 8, 16, 32, 255][mutator.pick(9) as usize],
                1 => site.element = mutator.scalar(),
                2 => site.vector = mutator.pick(10) as u8,
                3 => site.root = mutator.root(),
                _ => site.shared_root = Some(SharedId(mutator.pick(3) as usize)),
            }
        }
    }
    for local in &mut run.program.locals {
        if mutator.hit() {
            local.ty = mutator.value_type();
        }
    }
    for array in &mut run.program.shared {
        if mutator.hit() {
            array.bytes = mutator.constant() as u64;
        }
        if mutator.hit() {
            array.offset = mutator.constant() as u64;
        }
    }
    for buffer in &mut run.buffers {
        if mutator.hit() {
            match mutator.pick(4) {
                0 => buffer.bytes = mutator.constant() as u64,
                1 => buffer.element_bytes = u64::from(mutator.pick(20)),
                2 => buffer.pitch = Some(mutator.constant() as u64),
                _ => buffer.scalar = Some(mutator.scalar()),
            }
        }
    }
    let mut body = std::mem::take(&mut run.program.body);
    mutator.block(&mut body);
    run.program.body = body;
}

impl Mutator<'_> {
    fn pick(&mut self, n: u32) -> u32 {
        self.choices.next().copied().unwrap_or(0) % n
    }

    fn hit(&mut self) -> bool {
        self.pick(self.rarity) == 1
    }

    fn scalar(&mut self) -> Scalar {
        let all = [
            Scalar::Bool,
            Scalar::I8,
            Scalar::U8,
            Scalar::I16,
            Scalar::U16,
            Scalar::I32,
            Scalar::U32,
            Scalar::I64,
            Scalar::U64,
            Scalar::F32,
            Scalar::F64,
        ];
        all[self.pick(11) as usize]
    }

    fn value_type(&mut self) -> ValueType {
        if self.pick(6) == 0 { ValueType::Pointer } else { ValueType::Int(self.scalar()) }
    }

    fn root(&mut self) -> Root {
        match self.pick(3) {
            0 => Root::AnyBuffer,
            1 => Root::Buffer(BufferId(self.pick(7) as usize)),
            _ => Root::Shared(SharedId(self.pick(3) as usize)),
        }
    }

    fn constant(&mut self) -> i64 {
        let values = [0, 1, -1, i64::MIN, i64::MAX, 1 << 31, (1 << 31) - 1, 1 << 32, 63, 64];
        values[self.pick(10) as usize]
    }

    fn block(&mut self, block: &mut Block) {
        for stmt in block {
            match &mut stmt.kind {
                StmtKind::Set { local, value } => {
                    if self.hit() {
                        local.0 = self.pick(12) as usize;
                    }
                    self.expr(value);
                }
                StmtKind::SetElement { index, value, .. } => {
                    self.expr(index);
                    value.iter_mut().for_each(|value| self.expr(value));
                }
                StmtKind::Access(access) => {
                    self.expr(&mut access.address);
                    access.values.iter_mut().for_each(|value| self.expr(value));
                    if self.hit() {
                        access.results.push(LocalId(self.pick(6) as usize));
                    }
                }
                StmtKind::If { condition, then, otherwise } => {
                    self.expr(condition);
                    self.block(then);
                    self.block(otherwise);
                }
                StmtKind::Loop { header, condition, body, step, test_first } => {
                    *test_first ^= self.hit();
                    self.expr(condition);
                    self.block(header);
                    self.block(body);
                    self.block(step);
                }
                StmtKind::Call { body } => self.block(body),
                StmtKind::Break | StmtKind::Continue | StmtKind::Return | StmtKind::Barrier => {}
            }
            if self.hit() {
                let kinds =
                    [StmtKind::Break, StmtKind::Continue, StmtKind::Return, StmtKind::Barrier];
                stmt.kind = kinds[self.pick(4) as usize].clone();
            }
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        if self.hit() {
            expr.ty = self.value_type();
        }
        match &mut expr.kind {
            ExprKind::Const(value) => {
                if self.hit() {
                    *value = self.constant();
                }
            }
            ExprKind::Local(id) => {
                if self.hit() {
                    id.0 = self.pick(12) as usize;
                }
            }
            ExprKind::BufferBase(id) => {
                if self.hit() {
                    id.0 = self.pick(7) as usize;
                }
            }
            ExprKind::Opaque(_) | ExprKind::Builtin(_) | ExprKind::SharedBase(_) => {}
            ExprKind::Element(_, a)
            | ExprKind::Neg(a)
            | ExprKind::Not(a)
            | ExprKind::LogicalNot(a)
            | ExprKind::Convert(a)
            | ExprKind::CheckedIndex { index: a, .. } => self.expr(a),
            ExprKind::Binary(_, a, b)
            | ExprKind::Compare(_, a, b)
            | ExprKind::LogicalAnd(a, b)
            | ExprKind::LogicalOr(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Select(c, a, b) => {
                self.expr(c);
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Call(_, arguments) => arguments.iter_mut().for_each(|a| self.expr(a)),
        }
        if self.hit() {
            let inner = expr.clone();
            expr.kind = match self.pick(4) {
                0 => ExprKind::Neg(Box::new(inner)),
                1 => ExprKind::LogicalNot(Box::new(inner)),
                2 => ExprKind::Convert(Box::new(inner)),
                _ => ExprKind::Call(Intrinsic::Brev, vec![inner]),
            };
        }
    }
}
