//! Loops whose trips are settled are written out, as compilers do.
//!
//! A kernel that `nvcc` compiles has its short loops unrolled, and long ones
//! four times, before `ptxas` sees it; `ptxas` itself does not unroll. Without
//! this stage a thread of the generated kernel would have one load in flight
//! where the author's has four, and arrays in registers would be indexed by
//! variables. What is accessed, and in which order, stays the same.

use crate::fold::{constant, in_type};
use scenario::program::{
    Access, BinaryOp, Block, CompareOp, Expr, ExprKind, LocalId, Program, Stmt, StmtKind, ValueType,
};

/// Statements that an unrolled loop may come to.
const MAX_STATEMENTS: usize = 256;

/// How often a loop too long to be written out is repeated in its body.
const FACTOR: i128 = 4;

/// Statements that a loop repeated [`FACTOR`] times may come to.
const MAX_REPEATED_STATEMENTS: usize = 64;

/// Writing out a loop settles the bounds of loops inside that run to its
/// variable; a second pass finds them.
const PASSES: usize = 2;

/// The program with its counted loops unrolled.
pub(crate) fn unroll(program: &Program) -> Program {
    let mut unrolled = program.clone();
    for _ in 0..PASSES {
        unrolled.body = block(program, &unrolled.body);
    }
    unrolled
}

fn block(program: &Program, statements: &[Stmt]) -> Block {
    let mut out = Block::with_capacity(statements.len());
    // Variables whose values are settled at this point of the block.
    let mut known: Vec<(LocalId, i64)> = Vec::new();
    for stmt in statements {
        let stmt = match &stmt.kind {
            StmtKind::Loop { header, condition, body, step, test_first } => {
                let counted = (*test_first && header.is_empty())
                    .then(|| Counted::new(program, &known, condition, body, step))
                    .flatten();
                forget_assigned(stmt, &mut known);
                if let Some(counted) = counted {
                    known.push((counted.local, counted.value_at(counted.trips)));
                    counted.write_out(stmt, block(program, body), step, &mut out);
                    continue;
                }
                let kind = StmtKind::Loop {
                    header: block(program, header),
                    condition: condition.clone(),
                    body: block(program, body),
                    step: block(program, step),
                    test_first: *test_first,
                };
                Stmt { kind, span: stmt.span }
            }
            StmtKind::If { condition, then, otherwise } => {
                forget_assigned(stmt, &mut known);
                let kind = StmtKind::If {
                    condition: condition.clone(),
                    then: block(program, then),
                    otherwise: block(program, otherwise),
                };
                Stmt { kind, span: stmt.span }
            }
            StmtKind::Call { body } => {
                forget_assigned(stmt, &mut known);
                Stmt { kind: StmtKind::Call { body: block(program, body) }, span: stmt.span }
            }
            StmtKind::Set { local, value } => {
                forget_assigned(stmt, &mut known);
                if let Some(value) = constant(program, value) {
                    known.push((*local, value));
                }
                stmt.clone()
            }
            StmtKind::Access(_)
            | StmtKind::SetElement { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Return
            | StmtKind::Barrier => {
                forget_assigned(stmt, &mut known);
                stmt.clone()
            }
        };
        out.push(stmt);
    }
    out
}

/// A loop over `start`, `start + stride`, …, `trips` times.
struct Counted {
    local: LocalId,
    ty: ValueType,
    start: i128,
    stride: i128,
    trips: i128,
}

impl Counted {
    fn new(
        program: &Program,
        known: &[(LocalId, i64)],
        condition: &Expr,
        body: &Block,
        step: &Block,
    ) -> Option<Self> {
        let ExprKind::Compare(op, left, right) = &condition.kind else { return None };
        let (local, op, limit, compared) =
            match (variable(left), constant(program, right), constant(program, left)) {
                (Some(local), Some(limit), _) => (local, *op, limit, left.ty),
                (_, _, Some(limit)) => (variable(right)?, mirrored(*op), limit, right.ty),
                _ => return None,
            };
        let ty = program.locals.get(local.0)?.ty;
        let &(_, start) = known.iter().find(|(id, _)| *id == local)?;
        let stride = i128::from(stride(program, step, local)?);
        let assigned_elsewhere = step.iter().filter(|stmt| assigns(stmt, local)).count() > 1
            || body.iter().any(|stmt| assigns(stmt, local));
        if assigned_elsewhere || body.iter().any(leaves_loop) || step.iter().any(leaves_loop) {
            return None;
        }

        let start = widened(start, ty);
        let limit = widened(limit, compared);
        let trips = trips(op, start, stride, limit)?;
        // The variable, and its conversion to the type of the comparison, must
        // not wrap on the way.
        let last = start + trips * stride;
        let stays = |value: i128| {
            let narrow = value as i64;
            widened(in_type(narrow, ty), ty) == value
                && widened(in_type(narrow, compared), compared) == value
        };
        (stays(start) && stays(last)).then_some(Self { local, ty, start, stride, trips })
    }

    fn value_at(&self, trip: i128) -> i64 {
        (self.start + trip * self.stride) as i64
    }

    /// Writes the loop to `out`: all trips, or a loop of several at a time, or
    /// as it was.
    fn write_out(&self, stmt: &Stmt, body: Block, step: &Block, out: &mut Block) {
        let size = count(&body) + count(step);
        let trips = usize::try_from(self.trips).unwrap_or(usize::MAX);
        if trips.saturating_mul(size) <= MAX_STATEMENTS {
            self.copies(&body, step, 0..self.trips, out);
            out.push(self.set(stmt, self.trips));
            return;
        }
        let repeats = self.trips >= 2 * FACTOR
            && size * FACTOR as usize <= MAX_REPEATED_STATEMENTS
            && !body.iter().any(contains_loop);
        if !repeats {
            let StmtKind::Loop { condition, .. } = &stmt.kind else { return };
            let kind = StmtKind::Loop {
                header: Block::new(),
                condition: condition.clone(),
                body,
                step: step.clone(),
                test_first: true,
            };
            out.push(Stmt { kind, span: stmt.span });
            return;
        }
        let whole = self.trips / FACTOR * FACTOR;
        let mut repeated = Block::new();
        for copy in 0..FACTOR {
            repeated.extend(body.iter().cloned());
            if copy + 1 < FACTOR {
                repeated.extend(step.iter().cloned());
            }
        }
        let span = stmt.span;
        let variable = Expr { kind: ExprKind::Local(self.local), ty: self.ty, span };
        let end = Expr { kind: ExprKind::Const(self.value_at(whole)), ty: self.ty, span };
        let condition = Expr {
            kind: ExprKind::Compare(CompareOp::Ne, Box::new(variable), Box::new(end)),
            ty: ValueType::Int(scenario::program::Scalar::Bool),
            span,
        };
        let kind = StmtKind::Loop {
            header: Block::new(),
            condition,
            body: repeated,
            step: step.clone(),
            test_first: true,
        };
        out.push(Stmt { kind, span });
        self.copies(&body, step, whole..self.trips, out);
        out.push(self.set(stmt, self.trips));
    }

    /// The trips of `range`, the variable replaced by its value.
    fn copies(&self, body: &Block, step: &Block, range: std::ops::Range<i128>, out: &mut Block) {
        for trip in range {
            let replace = Replace { local: self.local, value: self.value_at(trip) };
            out.extend(replace.block(body));
            let rest: Block =
                step.iter().filter(|stmt| !assigns(stmt, self.local)).cloned().collect();
            out.extend(replace.block(&rest));
        }
    }

    fn set(&self, stmt: &Stmt, trip: i128) -> Stmt {
        let value =
            Expr { kind: ExprKind::Const(self.value_at(trip)), ty: self.ty, span: stmt.span };
        Stmt { kind: StmtKind::Set { local: self.local, value }, span: stmt.span }
    }
}

/// `value` as its type reads it.
fn widened(value: i64, ty: ValueType) -> i128 {
    if crate::fold::is_signed(ty) { i128::from(value) } else { i128::from(value as u64) }
}

/// The variable behind conversions.
fn variable(expr: &Expr) -> Option<LocalId> {
    match &expr.kind {
        ExprKind::Local(id) => Some(*id),
        ExprKind::Convert(inner) => variable(inner),
        _ => None,
    }
}

fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        CompareOp::Eq | CompareOp::Ne => op,
    }
}

/// What `step` adds to `local`.
fn stride(program: &Program, step: &Block, local: LocalId) -> Option<i64> {
    let value = step.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Set { local: set, value } if *set == local => Some(value),
        _ => None,
    })?;
    let mut value = value;
    while let ExprKind::Convert(inner) = &value.kind {
        value = inner;
    }
    let ExprKind::Binary(op, a, b) = &value.kind else { return None };
    match (op, variable(a), variable(b)) {
        (BinaryOp::Add, Some(id), _) if id == local => constant(program, b),
        (BinaryOp::Add, _, Some(id)) if id == local => constant(program, a),
        (BinaryOp::Sub, Some(id), _) if id == local => constant(program, b)?.checked_neg(),
        _ => None,
    }
    // A step of an unsigned variable by a "negative" constant is one by a huge
    // number, which the range check refuses.
    .filter(|&stride| stride != 0)
}

/// How often the loop's body runs.
fn trips(op: CompareOp, start: i128, stride: i128, limit: i128) -> Option<i128> {
    // Rounded up: the first value that fails may be beyond the limit.
    let steps = |distance: i128| (distance + stride.abs() - 1) / stride.abs();
    let trips = match op {
        CompareOp::Lt if start >= limit => 0,
        CompareOp::Le if start > limit => 0,
        CompareOp::Gt if start <= limit => 0,
        CompareOp::Ge if start < limit => 0,
        CompareOp::Ne if start == limit => 0,
        CompareOp::Lt if stride > 0 => steps(limit - start),
        CompareOp::Le if stride > 0 => steps(limit + 1 - start),
        CompareOp::Gt if stride < 0 => steps(start - limit),
        CompareOp::Ge if stride < 0 => steps(start - limit + 1),
        CompareOp::Ne if (limit - start) % stride == 0 && ((limit - start) > 0) == (stride > 0) => {
            (limit - start) / stride
        }
        _ => return None,
    };
    Some(trips)
}

/// Whether the statement assigns `local`, in any depth.
fn assigns(stmt: &Stmt, local: LocalId) -> bool {
    let any = |block: &Block| block.iter().any(|stmt| assigns(stmt, local));
    match &stmt.kind {
        StmtKind::Set { local: set, .. } => *set == local,
        StmtKind::Access(access) => access.results.contains(&local),
        StmtKind::If { then, otherwise, .. } => any(then) || any(otherwise),
        StmtKind::Loop { header, body, step, .. } => any(header) || any(body) || any(step),
        StmtKind::Call { body } => any(body),
        StmtKind::SetElement { .. }
        | StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Return
        | StmtKind::Barrier => false,
    }
}

fn forget_assigned(stmt: &Stmt, known: &mut Vec<(LocalId, i64)>) {
    known.retain(|(local, _)| !assigns(stmt, *local));
}

/// Whether the statement can leave or shorten a trip of the loop around it.
fn leaves_loop(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Break | StmtKind::Continue => true,
        StmtKind::If { then, otherwise, .. } => then.iter().chain(otherwise).any(leaves_loop),
        StmtKind::Call { body } => body.iter().any(leaves_loop),
        // Its breaks are its own; `return` ends all trips either way.
        StmtKind::Loop { .. }
        | StmtKind::Return
        | StmtKind::Set { .. }
        | StmtKind::SetElement { .. }
        | StmtKind::Access(_)
        | StmtKind::Barrier => false,
    }
}

fn contains_loop(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Loop { .. } => true,
        StmtKind::If { then, otherwise, .. } => then.iter().chain(otherwise).any(contains_loop),
        StmtKind::Call { body } => body.iter().any(contains_loop),
        _ => false,
    }
}

fn count(block: &Block) -> usize {
    block
        .iter()
        .map(|stmt| match &stmt.kind {
            StmtKind::If { then, otherwise, .. } => 1 + count(then) + count(otherwise),
            StmtKind::Loop { header, body, step, .. } => {
                1 + count(header) + count(body) + count(step)
            }
            StmtKind::Call { body } => count(body),
            _ => 1,
        })
        .sum()
}

/// Replaces a variable by a constant.
struct Replace {
    local: LocalId,
    value: i64,
}

impl Replace {
    fn block(&self, block: &[Stmt]) -> Block {
        block.iter().map(|stmt| self.stmt(stmt)).collect()
    }

    fn stmt(&self, stmt: &Stmt) -> Stmt {
        let kind = match &stmt.kind {
            StmtKind::Set { local, value } => {
                StmtKind::Set { local: *local, value: self.expr(value) }
            }
            StmtKind::SetElement { array, index, value } => StmtKind::SetElement {
                array: *array,
                index: self.expr(index),
                value: value.as_ref().map(|value| self.expr(value)),
            },
            StmtKind::Access(access) => StmtKind::Access(Access {
                site: access.site,
                address: self.expr(&access.address),
                shared_address: access.shared_address.as_ref().map(|expr| self.expr(expr)),
                values: access.values.iter().map(|expr| self.expr(expr)).collect(),
                results: access.results.clone(),
            }),
            StmtKind::If { condition, then, otherwise } => StmtKind::If {
                condition: self.expr(condition),
                then: self.block(then),
                otherwise: self.block(otherwise),
            },
            StmtKind::Loop { header, condition, body, step, test_first } => StmtKind::Loop {
                header: self.block(header),
                condition: self.expr(condition),
                body: self.block(body),
                step: self.block(step),
                test_first: *test_first,
            },
            StmtKind::Call { body } => StmtKind::Call { body: self.block(body) },
            StmtKind::Break | StmtKind::Continue | StmtKind::Return | StmtKind::Barrier => {
                stmt.kind.clone()
            }
        };
        Stmt { kind, span: stmt.span }
    }

    fn expr(&self, expr: &Expr) -> Expr {
        let boxed = |expr: &Expr| Box::new(self.expr(expr));
        let kind = match &expr.kind {
            ExprKind::Local(id) if *id == self.local => ExprKind::Const(self.value),
            ExprKind::Element(array, index) => ExprKind::Element(*array, boxed(index)),
            ExprKind::Neg(a) => ExprKind::Neg(boxed(a)),
            ExprKind::Not(a) => ExprKind::Not(boxed(a)),
            ExprKind::LogicalNot(a) => ExprKind::LogicalNot(boxed(a)),
            ExprKind::Binary(op, a, b) => ExprKind::Binary(*op, boxed(a), boxed(b)),
            ExprKind::Compare(op, a, b) => ExprKind::Compare(*op, boxed(a), boxed(b)),
            ExprKind::LogicalAnd(a, b) => ExprKind::LogicalAnd(boxed(a), boxed(b)),
            ExprKind::LogicalOr(a, b) => ExprKind::LogicalOr(boxed(a), boxed(b)),
            ExprKind::Select(c, a, b) => ExprKind::Select(boxed(c), boxed(a), boxed(b)),
            ExprKind::Convert(a) => ExprKind::Convert(boxed(a)),
            ExprKind::Call(intrinsic, args) => {
                ExprKind::Call(*intrinsic, args.iter().map(|arg| self.expr(arg)).collect())
            }
            ExprKind::CheckedIndex { index, extent, axis, of } => ExprKind::CheckedIndex {
                index: boxed(index),
                extent: *extent,
                axis: *axis,
                of: *of,
            },
            ExprKind::Const(_)
            | ExprKind::Opaque(_)
            | ExprKind::Builtin(_)
            | ExprKind::Local(_)
            | ExprKind::BufferBase(_)
            | ExprKind::SharedBase(_) => expr.kind.clone(),
        };
        Expr { kind, ty: expr.ty, span: expr.span }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trips_are_those_of_the_loop_run_by_hand() {
        let holds = |op, value: i128, limit| match op {
            CompareOp::Lt => value < limit,
            CompareOp::Le => value <= limit,
            CompareOp::Gt => value > limit,
            CompareOp::Ge => value >= limit,
            CompareOp::Ne => value != limit,
            CompareOp::Eq => value == limit,
        };
        use CompareOp::{Ge, Gt, Le, Lt, Ne};
        for op in [Lt, Le, Gt, Ge, Ne] {
            for start in -7..7 {
                for stride in [-3, -2, -1, 1, 2, 3] {
                    for limit in -7..7 {
                        let mut value = start;
                        let mut run = 0;
                        while holds(op, value, limit) && run < 100 {
                            value += stride;
                            run += 1;
                        }
                        let expected = (run < 100).then_some(run);
                        assert_eq!(
                            trips(op, start, stride, limit),
                            expected,
                            "{op:?} from {start} by {stride} to {limit}"
                        );
                    }
                }
            }
        }
    }
}
