//! Statements without effect, which a compiler would drop as well: what is left
//! of arithmetic on floating-point numbers, and variables that nobody reads.
//!
//! A statement that could fail (by overflow, division, an index outside) stays:
//! its error is the author's to see.

use crate::program::{
    BinaryOp, Block, CompareOp, Expr, ExprKind, Intrinsic, LocalArrayId, LocalId, Program, Stmt,
    StmtKind, ValueType,
};
use std::collections::HashMap;

/// Bounds and steps of loops that are known to end without overflow.
const SAFE_BOUND: i64 = 1 << 30;
const SAFE_STEP: i64 = 1 << 16;

/// Removes what has no effect.
pub(crate) fn remove(program: &mut Program) {
    let floats: Vec<bool> =
        program.local_arrays.iter().map(|array| array.element.is_none()).collect();
    loop {
        let mut reads = Reads::default();
        reads.block(&program.body);
        let mut remover = Remover { reads: &reads, floats: &floats, changed: false };
        remover.block(&mut program.body);
        if !remover.changed {
            return;
        }
    }
}

/// How often each variable is read.
#[derive(Default)]
struct Reads {
    locals: HashMap<LocalId, usize>,
    arrays: HashMap<LocalArrayId, usize>,
}

impl Reads {
    fn block(&mut self, block: &[Stmt]) {
        super::finish::each_stmt(block, &mut |stmt| {
            for expr in super::finish::own_exprs(stmt) {
                self.expr(expr);
            }
        });
    }

    fn expr(&mut self, expr: &Expr) {
        super::fold::visit(expr, &mut |part| match &part.kind {
            ExprKind::Local(local) => *self.locals.entry(*local).or_default() += 1,
            ExprKind::Element(array, _) => *self.arrays.entry(*array).or_default() += 1,
            _ => {}
        });
    }

    fn of(&self, local: LocalId) -> usize {
        self.locals.get(&local).copied().unwrap_or(0)
    }
}

struct Remover<'r> {
    reads: &'r Reads,
    /// Whether each array of the threads holds floats.
    floats: &'r [bool],
    changed: bool,
}

impl Remover<'_> {
    fn block(&mut self, block: &mut Block) {
        let before = block.len();
        block.retain_mut(|stmt| self.keeps(stmt));
        self.changed |= block.len() != before;
    }

    fn keeps(&mut self, stmt: &mut Stmt) -> bool {
        match &mut stmt.kind {
            StmtKind::Set { local, value } => self.reads.of(*local) > 0 || !is_harmless(value),
            StmtKind::SetElement { array, index, value } => {
                let unread = self.floats.get(array.0).copied().unwrap_or(false)
                    || !self.reads.arrays.contains_key(array);
                let harmless = is_harmless(index) && value.as_ref().is_none_or(is_harmless);
                !(unread && harmless)
            }
            StmtKind::Access(access) => {
                if !access.results.is_empty()
                    && access.results.iter().all(|local| self.reads.of(*local) == 0)
                {
                    access.results.clear();
                }
                true
            }
            StmtKind::If { condition, then, otherwise } => {
                self.block(then);
                self.block(otherwise);
                !(then.is_empty() && otherwise.is_empty() && is_harmless(condition))
            }
            StmtKind::Loop { header, condition, body, step, .. } => {
                self.block(header);
                self.block(body);
                !(header.is_empty() && body.is_empty() && self.only_counts(condition, step))
            }
            StmtKind::Call { body } => {
                self.block(body);
                !matches!(body.as_slice(), [] | [Stmt { kind: StmtKind::Return, .. }])
            }
            StmtKind::Break | StmtKind::Continue | StmtKind::Return | StmtKind::Barrier => true,
        }
    }

    /// Whether a loop without body counts a variable that nobody else reads up
    /// or down to a constant.
    fn only_counts(&self, condition: &Expr, step: &[Stmt]) -> bool {
        let [Stmt { kind: StmtKind::Set { local, value }, .. }] = step else { return false };
        let mut own = Reads::default();
        own.expr(condition);
        own.block(step);
        if own.of(*local) != self.reads.of(*local) {
            return false;
        }
        let ExprKind::Compare(op, left, right) = &condition.kind else { return false };
        let (ExprKind::Local(counted), ExprKind::Const(bound)) = (&left.kind, &right.kind) else {
            return false;
        };
        let ExprKind::Binary(BinaryOp::Add, from, by) = &value.kind else { return false };
        let (ExprKind::Local(stepped), ExprKind::Const(by)) = (&from.kind, &by.kind) else {
            return false;
        };
        counted == local
            && stepped == local
            && (-SAFE_BOUND..SAFE_BOUND).contains(bound)
            && matches!(op, CompareOp::Lt | CompareOp::Le)
            && (1..SAFE_STEP).contains(by)
    }
}

/// Whether evaluating an expression cannot fail.
fn is_harmless(expr: &Expr) -> bool {
    let mut harmless = true;
    super::fold::visit(expr, &mut |part| {
        let signed = matches!(part.ty, ValueType::Int(scalar) if scalar.is_signed());
        harmless &= match &part.kind {
            ExprKind::Binary(op, ..) => match op {
                BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => true,
                BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul => !signed,
                BinaryOp::Div | BinaryOp::Rem | BinaryOp::Shl | BinaryOp::Shr => false,
            },
            ExprKind::Neg(_) => !signed,
            ExprKind::Call(function, _) => *function != Intrinsic::Abs,
            ExprKind::CheckedIndex { .. } => false,
            // An index outside the array.
            ExprKind::Element(_, index) => super::fold::as_const(index).is_some(),
            _ => true,
        };
    });
    harmless
}
