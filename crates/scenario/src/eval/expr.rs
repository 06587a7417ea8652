//! Expressions, for all threads of the block at once.
//!
//! Operands are evaluated left to right. Values of one point are computed
//! directly on `i64` lanes; what depends on the box goes to [`affine`].

use super::affine::{self, Lin, Operands};
use super::lanes::{Lanes, Mask};
use super::machine::{Machine, Sink};
use super::value::{ReasonId, Value, bits, c_name, exact, range, scalar_of, wrap};
use super::{Ask, Request, Stop};
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::{
    BinaryOp, Builtin, CompareOp, Expr, ExprKind, Intrinsic, Root, Scalar, ValueType,
};
use crate::source::Span;

/// The answer to a condition.
pub(super) struct Truth {
    /// Where it holds.
    pub(super) yes: Mask,
    /// Where that is not known, and why not in the first of these lanes.
    pub(super) opaque: Mask,
    pub(super) reason: ReasonId,
}

impl Truth {
    fn known(yes: Mask) -> Self {
        Self { yes, opaque: Mask::EMPTY, reason: 0 }
    }

    fn or_opaque(mut self, other: &Truth) -> Self {
        if self.opaque.is_empty() {
            self.reason = other.reason;
        }
        self.opaque = self.opaque.or(&other.opaque);
        self
    }
}

impl<S: Sink> Machine<'_, '_, S> {
    /// The value of `expr` for the threads of `mask`.
    pub(super) fn eval(&mut self, expr: &Expr, mask: &Mask) -> Result<Value, Stop> {
        match &expr.kind {
            ExprKind::Const(value) => Ok(Value::uniform(wrap(scalar_of(expr.ty), *value))),
            ExprKind::Opaque(reason) => Ok(Value::opaque(*mask, self.code.reason(reason))),
            ExprKind::Builtin(Builtin::ThreadIdx(axis)) => {
                Ok(Value::known(self.thread_index(*axis)))
            }
            ExprKind::Builtin(Builtin::BlockIdx(axis)) => Ok(self.block_index(*axis)),
            ExprKind::Local(local) => Ok(match &self.locals[local.0] {
                Some(value) => value.clone().restrict(mask),
                None => Value::opaque(*mask, self.code.uninitialised_locals[local.0]),
            }),
            ExprKind::Element(array, index) => self.element(array.0, index, mask),
            ExprKind::BufferBase(id) => Ok(Value::uniform(self.firsts[id.0] as i64)),
            ExprKind::SharedBase(id) => {
                Ok(Value::uniform(self.code.run.program.shared[id.0].offset as i64))
            }
            ExprKind::Neg(operand) => {
                let value = self.eval(operand, mask)?;
                self.negate(expr, value, mask)
            }
            ExprKind::Not(operand) => {
                let value = self.eval(operand, mask)?;
                self.complement(expr, value, mask)
            }
            ExprKind::Binary(op, a, b) => {
                let left = self.eval(a, mask)?;
                let right = self.eval(b, mask)?;
                self.binary(expr, *op, (a, left), (b, right), mask)
            }
            ExprKind::Select(condition, a, b) => {
                let truth = self.condition(condition, mask)?;
                self.select(truth, a, b, mask)
            }
            ExprKind::Convert(operand) if scalar_of(expr.ty) != Scalar::Bool => {
                let value = self.eval(operand, mask)?;
                let (to, from) = (scalar_of(expr.ty), scalar_of(operand.ty));
                self.convert_to(to, from, value, mask, expr.span)
            }
            ExprKind::Convert(_)
            | ExprKind::LogicalNot(_)
            | ExprKind::Compare(..)
            | ExprKind::LogicalAnd(..)
            | ExprKind::LogicalOr(..) => {
                let truth = self.condition(expr, mask)?;
                Ok(self.as_bool(&truth, mask))
            }
            ExprKind::Call(function, arguments) => self.call(expr, *function, arguments, mask),
            ExprKind::CheckedIndex { index, extent, axis, of } => {
                let value = self.eval(index, mask)?;
                self.checked_index(index, value, *extent, (*axis, *of), mask)
            }
        }
    }

    /// Where a `Bool` expression holds, for the threads of `mask`.
    pub(super) fn condition(&mut self, expr: &Expr, mask: &Mask) -> Result<Truth, Stop> {
        match &expr.kind {
            ExprKind::Compare(op, a, b) => {
                let left = self.eval(a, mask)?;
                let right = self.eval(b, mask)?;
                self.compare(expr, *op, (left, scalar_of(a.ty)), (right, scalar_of(b.ty)), mask)
            }
            ExprKind::LogicalNot(operand) => {
                let truth = self.condition(operand, mask)?;
                let yes = mask.without(&truth.yes).without(&truth.opaque);
                Ok(Truth { yes, ..truth })
            }
            ExprKind::LogicalAnd(a, b) => {
                let first = self.condition(a, mask)?;
                if first.yes.is_empty() {
                    return Ok(first);
                }
                let second = self.condition(b, &first.yes)?;
                Ok(Truth { yes: second.yes, ..first.or_opaque(&second) })
            }
            ExprKind::LogicalOr(a, b) => {
                let first = self.condition(a, mask)?;
                let rest = mask.without(&first.yes).without(&first.opaque);
                if rest.is_empty() {
                    return Ok(first);
                }
                let second = self.condition(b, &rest)?;
                let yes = first.yes.or(&second.yes);
                Ok(Truth { yes, ..first.or_opaque(&second) })
            }
            ExprKind::Convert(operand) if scalar_of(expr.ty) == Scalar::Bool => {
                if scalar_of(operand.ty) == Scalar::Bool {
                    return self.condition(operand, mask);
                }
                let value = self.eval(operand, mask)?;
                let scalar = scalar_of(operand.ty);
                self.compare(
                    expr,
                    CompareOp::Ne,
                    (value, scalar),
                    (Value::uniform(0), scalar),
                    mask,
                )
            }
            _ => {
                let value = self.eval(expr, mask)?;
                let scalar = scalar_of(expr.ty);
                self.compare(
                    expr,
                    CompareOp::Ne,
                    (value, scalar),
                    (Value::uniform(0), scalar),
                    mask,
                )
            }
        }
    }

    fn as_bool(&self, truth: &Truth, mask: &Mask) -> Value {
        let base = if truth.yes.is_empty() {
            Lanes::Uniform(0)
        } else if truth.yes == *mask {
            Lanes::Uniform(1)
        } else {
            Lanes::from_fn(self.n, |lane| i64::from(truth.yes.contains(lane)))
        };
        let mut value = Value::known(base);
        value.obscure(&truth.opaque, truth.reason);
        value
    }

    fn compare(
        &mut self,
        expr: &Expr,
        op: CompareOp,
        (a, a_type): (Value, Scalar),
        (b, b_type): (Value, Scalar),
        mask: &Mask,
    ) -> Result<Truth, Stop> {
        let mut live = *mask;
        let mut truth = Truth::known(Mask::EMPTY);
        if let Some(opaque) = a.opaque.as_ref().or(b.opaque.as_ref()) {
            truth.reason = opaque.reason;
            truth.opaque = a.opaque_mask().or(&b.opaque_mask());
            live = live.without(&truth.opaque);
        }
        truth.yes = if a.terms.is_empty() && b.terms.is_empty() {
            let (a, b, n) = (&a.base, &b.base, self.n);
            // Wide unsigned lanes are kept as signed ones: flip the sign bit
            // to compare them.
            let flip = |wide: Scalar| if wide == Scalar::U64 { i64::MIN } else { 0 };
            let (fa, fb) = (flip(a_type), flip(b_type));
            let all = if fa == fb {
                match op {
                    CompareOp::Eq => a.compare(b, n, |a, b| a == b),
                    CompareOp::Ne => a.compare(b, n, |a, b| a != b),
                    CompareOp::Lt => a.compare(b, n, |a, b| a ^ fa < b ^ fa),
                    CompareOp::Le => a.compare(b, n, |a, b| a ^ fa <= b ^ fa),
                    CompareOp::Gt => a.compare(b, n, |a, b| a ^ fa > b ^ fa),
                    CompareOp::Ge => a.compare(b, n, |a, b| a ^ fa >= b ^ fa),
                }
            } else {
                a.compare(b, n, |a, b| {
                    let (a, b) = (exact(a_type, a), exact(b_type, b));
                    match op {
                        CompareOp::Eq => a == b,
                        CompareOp::Ne => a != b,
                        CompareOp::Lt => a < b,
                        CompareOp::Le => a <= b,
                        CompareOp::Gt => a > b,
                        CompareOp::Ge => a >= b,
                    }
                })
            };
            all.and(&live)
        } else {
            let operands = Operands { a: &a, a_type, b: &b, b_type };
            affine::compare(self.place(&live, expr.span), op, &operands)?
        };
        Ok(truth)
    }

    /// `condition ? a : b`
    fn select(&mut self, truth: Truth, a: &Expr, b: &Expr, mask: &Mask) -> Result<Value, Stop> {
        let no = mask.without(&truth.yes).without(&truth.opaque);
        let mut value = if no.is_empty() {
            self.eval(a, &truth.yes)?
        } else if truth.yes.is_empty() {
            self.eval(b, &no)?
        } else {
            let a = self.eval(a, &truth.yes)?;
            let b = self.eval(b, &no)?;
            a.merge(&b, &truth.yes, self.n)
        };
        value.obscure(&truth.opaque, truth.reason);
        Ok(value)
    }

    /// An element of a local array: the same one for all threads.
    fn element(&mut self, array: usize, index: &Expr, mask: &Mask) -> Result<Value, Stop> {
        let at = self.array_index(array, index, mask)?;
        if self.code.run.program.local_arrays[array].element.is_none() {
            return Ok(Value::opaque(*mask, self.code.float));
        }
        Ok(match self.arrays[array].get(&at) {
            Some(value) => value.clone().restrict(mask),
            None => Value::opaque(*mask, self.code.uninitialised_arrays[array]),
        })
    }

    /// The index of a local array's element, checked.
    pub(super) fn array_index(
        &mut self,
        array: usize,
        index: &Expr,
        mask: &Mask,
    ) -> Result<i64, Stop> {
        let value = self.eval(index, mask)?;
        if let Some(opaque) = &value.opaque {
            return Err(self.opaque_index(index, opaque.reason, &opaque.mask));
        }
        if !value.terms.is_empty() {
            return Err(pin(&value, index));
        }
        let code = self.code;
        let declared = &code.run.program.local_arrays[array];
        let Some(at) = value.base.uniform_on(mask) else {
            return Err(self.fail(|m| {
                Diagnostic::new(
                    Kind::NotModelled,
                    index.span,
                    format!(
                        "not modelled: `{}` is indexed differently by the threads of a block",
                        declared.name
                    ),
                    "unroll the loop or use a shared array: such an array lives in local memory",
                )
                .note(m.at(mask.first().unwrap_or(0)))
            }));
        };
        let position = exact(scalar_of(index.ty), at);
        if !(0..i128::from(declared.len)).contains(&position) {
            let lane = mask.first().unwrap_or(0);
            return Err(self.fail(|m| {
                out_of_range(
                    index,
                    &format!("of `{}`", declared.name),
                    position,
                    declared.len,
                    m.at(lane),
                )
            }));
        }
        Ok(at)
    }

    fn opaque_index(&mut self, index: &Expr, reason: ReasonId, mask: &Mask) -> Stop {
        let lane = mask.first().unwrap_or(0);
        self.fail(|m| m.opaque_error(index.span, "an index", reason, lane))
    }

    fn negate(&mut self, expr: &Expr, value: Value, mask: &Mask) -> Result<Value, Stop> {
        let zero = Value::uniform(0);
        let scalar = scalar_of(expr.ty);
        if !value.terms.is_empty() {
            let live = mask.without(&value.opaque_mask());
            let operands = Operands { a: &zero, a_type: scalar, b: &value, b_type: scalar };
            let place = self.place(&live, expr.span);
            let mut result =
                affine::binary(place, BinaryOp::Sub, &operands, scalar, scalar.is_signed())?;
            result.obscure_as(value.opaque.as_ref());
            return Ok(result);
        }
        let opaque = value.opaque;
        if scalar.is_signed() {
            let min = range(scalar).0 as i64;
            if value.base.fold(false, |any, x| any | (x == min)) {
                let live = mask.without(&opaque.as_ref().map_or(Mask::EMPTY, |o| o.mask));
                if let Some(lane) = live.lanes().find(|&lane| value.base.get(lane) == min) {
                    return Err(self
                        .fail(|m| m.overflow(expr, lane, format!("-({min})"), -range(scalar).0)));
                }
            }
        }
        let base = value.base.map(|x| wrap(scalar, x.wrapping_neg()));
        Ok(Value { base, terms: Vec::new(), opaque })
    }

    fn complement(&mut self, expr: &Expr, value: Value, mask: &Mask) -> Result<Value, Stop> {
        let scalar = scalar_of(expr.ty);
        if value.terms.is_empty() {
            let base = value.base.map(|x| wrap(scalar, !x));
            return Ok(Value { base, ..value });
        }
        let live = mask.without(&value.opaque_mask());
        let mut result =
            affine::build(self.place(&live, expr.span), &[&value], |troubles, lane| {
                let lin = Lin::of(&value, scalar, lane);
                troubles.fit(Lin::constant(-1).minus(&lin), scalar, false)
            })?;
        result.obscure_as(value.opaque.as_ref());
        Ok(result)
    }

    /// A conversion between integer types; to `bool` only of single points.
    pub(super) fn convert_to(
        &self,
        to: Scalar,
        from: Scalar,
        value: Value,
        mask: &Mask,
        span: Span,
    ) -> Result<Value, Stop> {
        let ((from_min, from_max), (to_min, to_max)) = (range(from), range(to));
        if to_min <= from_min && from_max <= to_max {
            return Ok(value);
        }
        if value.terms.is_empty() {
            let base = if bits(to) == 64 { value.base } else { value.base.map(|x| wrap(to, x)) };
            return Ok(Value { base, terms: Vec::new(), opaque: value.opaque });
        }
        let live = mask.without(&value.opaque_mask());
        let mut result = affine::build(self.place(&live, span), &[&value], |troubles, lane| {
            let lin = Lin::of(&value, from, lane);
            if to == Scalar::Bool {
                troubles.pin_all_of(&lin);
                return lin;
            }
            troubles.fit(lin, to, false)
        })?;
        result.obscure_as(value.opaque.as_ref());
        Ok(result)
    }

    fn binary(
        &mut self,
        expr: &Expr,
        op: BinaryOp,
        (a, left): (&Expr, Value),
        (b, right): (&Expr, Value),
        mask: &Mask,
    ) -> Result<Value, Stop> {
        let scalar = scalar_of(expr.ty);
        let (a_type, b_type) = (scalar_of(a.ty), scalar_of(b.ty));
        // Pointers wrap like the addresses they are; a result outside of its
        // buffer is found where it is used.
        let pointers = [expr.ty, a.ty, b.ty].contains(&ValueType::Pointer);
        let traps = scalar.is_signed() && !pointers;
        let mut live = *mask;
        let mut opaque = left.opaque.clone();
        if left.opaque.is_some() || right.opaque.is_some() {
            live = live.without(&left.opaque_mask()).without(&right.opaque_mask());
            let mut both = Value { base: Lanes::Uniform(0), terms: Vec::new(), opaque };
            both.obscure_as(right.opaque.as_ref());
            opaque = both.opaque;
            if live.is_empty() {
                return Ok(Value { opaque, ..Value::uniform(0) });
            }
        }
        if !left.terms.is_empty() || !right.terms.is_empty() {
            let operands = Operands { a: &left, a_type, b: &right, b_type };
            let place = self.place(&live, expr.span);
            let value = affine::binary(place, op, &operands, scalar, traps)?;
            return Ok(Value { opaque, ..value });
        }
        let (x, y) = (left.base, right.base);
        if let Some(lane) = first_failure(op, scalar, traps, (&x, a_type), (&y, b_type), &live) {
            let (x, y) = (exact(a_type, x.get(lane)), exact(b_type, y.get(lane)));
            return Err(self.fail(|m| m.arithmetic_error(expr, op, scalar, (x, y), lane)));
        }
        let base = match op {
            BinaryOp::Add => x.zip(y, |x, y| x.wrapping_add(y)),
            BinaryOp::Sub => x.zip(y, |x, y| x.wrapping_sub(y)),
            BinaryOp::Mul => x.zip(y, |x, y| x.wrapping_mul(y)),
            BinaryOp::Div => divide(scalar, x, y),
            BinaryOp::Rem => remainder(scalar, x, y),
            BinaryOp::And => x.zip(y, |x, y| x & y),
            BinaryOp::Or => x.zip(y, |x, y| x | y),
            BinaryOp::Xor => x.zip(y, |x, y| x ^ y),
            BinaryOp::Shl => x.zip(y, |x, y| x.wrapping_shl(y as u32)),
            BinaryOp::Shr if scalar == Scalar::U64 => {
                x.zip(y, |x, y| (x as u64).wrapping_shr(y as u32) as i64)
            }
            BinaryOp::Shr => x.zip(y, |x, y| x.wrapping_shr(y as u32)),
        };
        // The others can't leave the type.
        let leaves = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Shl);
        let base = match scalar {
            Scalar::I64 | Scalar::U64 => base,
            Scalar::I32 if leaves => base.map(|x| i64::from(x as i32)),
            Scalar::U32 if leaves => base.map(|x| i64::from(x as u32)),
            other if leaves => base.map(|x| wrap(other, x)),
            _ => base,
        };
        Ok(Value { base, terms: Vec::new(), opaque })
    }

    fn arithmetic_error(
        &self,
        expr: &Expr,
        op: BinaryOp,
        scalar: Scalar,
        (x, y): (i128, i128),
        lane: usize,
    ) -> Diagnostic {
        let shown = |sign: &str| format!("{} {sign} {}", parenthesised(x), parenthesised(y));
        match op {
            BinaryOp::Div | BinaryOp::Rem if y == 0 => Diagnostic::new(
                Kind::Evaluation,
                expr.span,
                format!("division by zero in `{}`", self.text(expr.span)),
                "make sure that the divisor is not 0: check the parameters, or test it first",
            )
            .label(shown(if op == BinaryOp::Div { "/" } else { "%" }))
            .note(self.at(lane)),
            BinaryOp::Shl | BinaryOp::Shr => Diagnostic::new(
                Kind::Evaluation,
                expr.span,
                format!(
                    "shift too far: by {y} in the {}-bit type `{}`",
                    bits(scalar),
                    c_name(scalar)
                ),
                format!(
                    "shift by 0 to {}{}",
                    bits(scalar) - 1,
                    if bits(scalar) < 64 {
                        ", or widen the left operand to `long long`"
                    } else {
                        ""
                    }
                ),
            )
            .label(shown(if op == BinaryOp::Shl { "<<" } else { ">>" }))
            .note(self.at(lane)),
            BinaryOp::Add => self.overflow(expr, lane, shown("+"), x.wrapping_add(y)),
            BinaryOp::Sub => self.overflow(expr, lane, shown("-"), x.wrapping_sub(y)),
            BinaryOp::Mul => self.overflow(expr, lane, shown("*"), x.wrapping_mul(y)),
            _ => self.overflow(expr, lane, shown("/"), x.wrapping_neg()),
        }
    }

    fn overflow(&self, expr: &Expr, lane: usize, values: String, result: i128) -> Diagnostic {
        let scalar = scalar_of(expr.ty);
        let help = if bits(scalar) < 64 {
            "compute it in `long long`: convert an operand before the operation, as in `(long long)a * b`"
        } else {
            "choose smaller parameters, or compute it in an unsigned type, which wraps"
        };
        Diagnostic::new(
            Kind::Evaluation,
            expr.span,
            format!(
                "signed overflow: `{}` does not fit in `{}`",
                self.text(expr.span),
                c_name(scalar)
            ),
            help,
        )
        .label(format!("{values} = {result}"))
        .note(self.at(lane))
    }

    fn call(
        &mut self,
        expr: &Expr,
        function: Intrinsic,
        arguments: &[Expr],
        mask: &Mask,
    ) -> Result<Value, Stop> {
        let Some(first) = arguments.first() else { return Ok(Value::uniform(0)) };
        let scalar = scalar_of(first.ty);
        let value = self.eval(first, mask)?;
        match (function, arguments.get(1)) {
            (Intrinsic::Min | Intrinsic::Max, Some(second)) => {
                let other = self.eval(second, mask)?;
                let op = if function == Intrinsic::Min { CompareOp::Le } else { CompareOp::Ge };
                let sides = ((value.clone(), scalar), (other.clone(), scalar_of(second.ty)));
                let truth = self.compare(expr, op, sides.0, sides.1, mask)?;
                let mut chosen = if truth.yes == *mask {
                    value
                } else if truth.yes.is_empty() {
                    other
                } else {
                    value.merge(&other, &truth.yes, self.n)
                };
                chosen.obscure(&truth.opaque, truth.reason);
                return Ok(chosen);
            }
            (Intrinsic::Abs, _) => {
                let zero = (Value::uniform(0), scalar);
                let truth =
                    self.compare(expr, CompareOp::Lt, (value.clone(), scalar), zero, mask)?;
                if truth.yes.is_empty() {
                    return Ok(value);
                }
                let negated = self.negate(expr, value.clone(), &truth.yes)?;
                return Ok(negated.merge(&value, &truth.yes, self.n));
            }
            _ => {}
        }
        if !value.terms.is_empty() {
            return Err(pin(&value, expr));
        }
        let wide = bits(scalar) == 64;
        let base = value.base;
        let base = match function {
            Intrinsic::Hash => base.map(|x| i64::from(hash(x as u32))),
            Intrinsic::Hash64 => base.map(|x| hash64(x as u64) as i64),
            Intrinsic::Popc if wide => base.map(|x| i64::from(x.count_ones())),
            Intrinsic::Popc => base.map(|x| i64::from((x as u32).count_ones())),
            Intrinsic::Clz if wide => base.map(|x| i64::from(x.leading_zeros())),
            Intrinsic::Clz => base.map(|x| i64::from((x as u32).leading_zeros())),
            Intrinsic::Ffs if wide => base.map(|x| find_first_set(x as u64)),
            Intrinsic::Ffs => base.map(|x| find_first_set(u64::from(x as u32))),
            Intrinsic::Brev if wide => base.map(i64::reverse_bits),
            Intrinsic::Brev => base.map(|x| i64::from((x as u32).reverse_bits())),
            Intrinsic::Min | Intrinsic::Max | Intrinsic::Abs => base,
        };
        let to = scalar_of(expr.ty);
        let base = if bits(to) == 64 { base } else { base.map(|x| wrap(to, x)) };
        Ok(Value { base, terms: Vec::new(), opaque: value.opaque })
    }

    fn checked_index(
        &mut self,
        index: &Expr,
        value: Value,
        extent: u64,
        (axis, of): (u8, Root),
        mask: &Mask,
    ) -> Result<Value, Stop> {
        let scalar = scalar_of(index.ty);
        let live = mask.without(&value.opaque_mask());
        let inside = |x: i128| (0..i128::from(extent)).contains(&x);
        if !value.terms.is_empty() {
            let vars = self.vars;
            let mut checked =
                affine::build(self.place(&live, index.span), &[&value], |troubles, lane| {
                    let lin = Lin::of(&value, scalar, lane);
                    let (low, high) = vars.interval(&lin);
                    if !inside(low) || !inside(high) {
                        troubles.require(&lin, 0, i128::from(extent));
                    }
                    lin
                })?;
            checked.obscure_as(value.opaque.as_ref());
            return Ok(checked);
        }
        // Negative lanes are huge as unsigned ones.
        let outside = |x: i64| x as u64 >= extent;
        if value.base.fold(false, |any, x| any | outside(x))
            && let Some(lane) = live.lanes().find(|&lane| outside(value.base.get(lane)))
        {
            let position = exact(scalar, value.base.get(lane));
            return Err(self.fail(|m| {
                let name = m.root_name(of);
                out_of_range(
                    index,
                    &format!("on axis {axis} of `{name}`"),
                    position,
                    extent,
                    m.at(lane),
                )
            }));
        }
        Ok(value)
    }

    /// Name of what an access goes to.
    pub(super) fn root_name(&self, root: Root) -> String {
        let run = self.code.run;
        match root {
            Root::Buffer(id) => run.buffers.get(id.0).map(|buffer| buffer.name.clone()),
            Root::Shared(id) => run.program.shared.get(id.0).map(|array| array.name.clone()),
            Root::AnyBuffer => None,
        }
        .unwrap_or_else(|| "the buffer".to_owned())
    }
}

/// The demand to look at each point of the variables that a value depends on.
pub(super) fn pin(value: &Value, expr: &Expr) -> Stop {
    let vars = value.terms.iter().fold(0, |set, (var, _)| set | 1 << var);
    Stop::Request(Box::new(Request { ask: Ask::Pin { vars }, span: expr.span }))
}

fn out_of_range(index: &Expr, of: &str, position: i128, extent: u64, who: String) -> Diagnostic {
    let side = if position < 0 { "below" } else { "above" };
    Diagnostic::new(
        Kind::Evaluation,
        index.span,
        format!("index {position} {of} is {side} its range 0..{extent}"),
        if position < 0 {
            "add a condition that keeps the index from going below 0"
        } else {
            "add a condition such as `if (i < n)`, or make the array larger"
        },
    )
    .label(format!("= {position}"))
    .note(who)
}

fn parenthesised(x: i128) -> String {
    if x < 0 { format!("({x})") } else { x.to_string() }
}

/// The first live lane in which `x op y` has no value.
fn first_failure(
    op: BinaryOp,
    scalar: Scalar,
    traps: bool,
    (x, x_type): (&Lanes, Scalar),
    (y, y_type): (&Lanes, Scalar),
    live: &Mask,
) -> Option<usize> {
    // A quick look at all lanes, dead ones too, then a careful one.
    let suspicious = match op {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => false,
        BinaryOp::Shl | BinaryOp::Shr => {
            y.fold(false, |any, y| any | (y as u64 >= u64::from(bits(scalar))))
        }
        BinaryOp::Div | BinaryOp::Rem => y.fold(false, |any, y| any | (y == 0) | (y == -1)),
        _ if !traps => false,
        BinaryOp::Add if scalar == Scalar::I64 => {
            x.fold_with(y, 0, |any, x, y| {
                let sum = x.wrapping_add(y);
                any | ((x ^ sum) & (y ^ sum))
            }) < 0
        }
        BinaryOp::Sub if scalar == Scalar::I64 => {
            x.fold_with(y, 0, |any, x, y| any | ((x ^ y) & (x ^ x.wrapping_sub(y)))) < 0
        }
        BinaryOp::Mul if scalar == Scalar::I64 => {
            // Within 32 bits on both sides nothing can overflow.
            let spread = |lanes: &Lanes| lanes.fold(0, |all, x| all | (x ^ (x >> 63)));
            spread(x) | spread(y) > i64::from(i32::MAX)
        }
        // Narrower types are exact in 64 bits.
        BinaryOp::Add => leaves(scalar, x, y, i64::wrapping_add),
        BinaryOp::Sub => leaves(scalar, x, y, i64::wrapping_sub),
        BinaryOp::Mul => leaves(scalar, x, y, i64::wrapping_mul),
    };
    if !suspicious {
        return None;
    }
    let (min, max) = range(scalar);
    live.lanes().find(|&lane| {
        let (x, y) = (exact(x_type, x.get(lane)), exact(y_type, y.get(lane)));
        let result = match op {
            BinaryOp::Add => x.wrapping_add(y),
            BinaryOp::Sub => x.wrapping_sub(y),
            BinaryOp::Mul => return x.checked_mul(y).is_none_or(|p| p < min || p > max),
            BinaryOp::Div | BinaryOp::Rem => return y == 0 || (traps && y == -1 && x == min),
            BinaryOp::Shl | BinaryOp::Shr => return y < 0 || y >= i128::from(bits(scalar)),
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => return false,
        };
        result < min || result > max
    })
}

fn leaves(scalar: Scalar, x: &Lanes, y: &Lanes, f: impl Fn(i64, i64) -> i64) -> bool {
    let half = 1i64 << (bits(scalar) - 1);
    let above = x.fold_with(y, 0, |any, x, y| any | f(x, y).wrapping_add(half) as u64);
    above >> bits(scalar) != 0
}

fn divide(scalar: Scalar, x: Lanes, y: Lanes) -> Lanes {
    // Dead lanes may divide by anything.
    match scalar {
        Scalar::I32 => x.zip(y, |x, y| i64::from((x as i32).checked_div(y as i32).unwrap_or(0))),
        Scalar::U32 => x.zip(y, |x, y| i64::from((x as u32).checked_div(y as u32).unwrap_or(0))),
        Scalar::U64 => x.zip(y, |x, y| (x as u64).checked_div(y as u64).unwrap_or(0) as i64),
        _ => x.zip(y, |x, y| x.checked_div(y).unwrap_or(0)),
    }
}

fn remainder(scalar: Scalar, x: Lanes, y: Lanes) -> Lanes {
    match scalar {
        Scalar::I32 => x.zip(y, |x, y| i64::from((x as i32).checked_rem(y as i32).unwrap_or(0))),
        Scalar::U32 => x.zip(y, |x, y| i64::from((x as u32).checked_rem(y as u32).unwrap_or(0))),
        Scalar::U64 => x.zip(y, |x, y| (x as u64).checked_rem(y as u64).unwrap_or(0) as i64),
        _ => x.zip(y, |x, y| x.checked_rem(y).unwrap_or(0)),
    }
}

/// `hash(unsigned)`: a mixing function on 32 bits with few collisions in short
/// ranges.
fn hash(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}

/// `hash64(unsigned long long)`: the finaliser of splitmix64.
fn hash64(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn find_first_set(x: u64) -> i64 {
    if x == 0 { 0 } else { i64::from(x.trailing_zeros()) + 1 }
}
