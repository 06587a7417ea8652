//! Expressions of the typed program, with constants folded.
//!
//! Folding never hides an error: an operation that overflows, divides by zero
//! or shifts too far stays as it is, for the evaluator to report with its lane.

use crate::program::{
    BinaryOp, CompareOp, Expr, ExprKind, Intrinsic, OpaqueReason, Scalar, ValueType,
};
use crate::source::Span;

/// Why an operation on constants has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArithmeticError {
    /// The result of signed arithmetic does not fit its type.
    Overflow,
    /// `/ 0` or `% 0`.
    DivisionByZero,
    /// A shift by a negative count, or by the width of the type or more.
    ShiftTooFar,
}

/// Brings bits into the range of a type: as a conversion to it does.
pub(crate) fn wrap(ty: Scalar, value: i64) -> i64 {
    match ty {
        Scalar::Bool => i64::from(value != 0),
        Scalar::I8 => i64::from(value as i8),
        Scalar::U8 => i64::from(value as u8),
        Scalar::I16 => i64::from(value as i16),
        Scalar::U16 => i64::from(value as u16),
        Scalar::I32 => i64::from(value as i32),
        Scalar::U32 => i64::from(value as u32),
        _ => value,
    }
}

/// Arithmetic on two values of type `ty`; shift counts are any integer.
pub(crate) fn arithmetic(
    op: BinaryOp,
    ty: Scalar,
    left: i64,
    right: i64,
) -> Result<i64, ArithmeticError> {
    use ArithmeticError::{DivisionByZero, Overflow, ShiftTooFar};
    let bits = 8 * ty.bytes() as i64;
    match op {
        BinaryOp::And => return Ok(left & right),
        BinaryOp::Or => return Ok(left | right),
        BinaryOp::Xor => return Ok(left ^ right),
        BinaryOp::Shl | BinaryOp::Shr if !(0..bits).contains(&right) => return Err(ShiftTooFar),
        // As C++20 and nvcc define it: modulo 2^bits, signed types included.
        BinaryOp::Shl => return Ok(wrap(ty, left << right)),
        BinaryOp::Shr if ty == Scalar::U64 => return Ok(((left as u64) >> right) as i64),
        BinaryOp::Shr => return Ok(left >> right),
        BinaryOp::Div | BinaryOp::Rem if right == 0 => return Err(DivisionByZero),
        _ => {}
    }
    if ty == Scalar::U64 {
        let (left, right) = (left as u64, right as u64);
        return Ok(match op {
            BinaryOp::Add => left.wrapping_add(right),
            BinaryOp::Sub => left.wrapping_sub(right),
            BinaryOp::Mul => left.wrapping_mul(right),
            BinaryOp::Div => left / right,
            _ => left % right,
        } as i64);
    }
    let exact = match op {
        BinaryOp::Add => left.checked_add(right),
        BinaryOp::Sub => left.checked_sub(right),
        BinaryOp::Mul if ty == Scalar::U32 => Some(left.wrapping_mul(right)),
        BinaryOp::Mul => left.checked_mul(right),
        BinaryOp::Div => left.checked_div(right),
        // `INT_MIN % -1` overflows with its quotient.
        _ => left.checked_rem(right).filter(|_| wrap(ty, left / right) == left / right),
    }
    .ok_or(Overflow)?;
    let wrapped = wrap(ty, exact);
    if ty.is_signed() && wrapped != exact { Err(Overflow) } else { Ok(wrapped) }
}

/// Compares two values of type `ty`.
pub(crate) fn compare(op: CompareOp, ty: Scalar, left: i64, right: i64) -> bool {
    let order =
        if ty == Scalar::U64 { (left as u64).cmp(&(right as u64)) } else { left.cmp(&right) };
    match op {
        CompareOp::Eq => order.is_eq(),
        CompareOp::Ne => order.is_ne(),
        CompareOp::Lt => order.is_lt(),
        CompareOp::Le => order.is_le(),
        CompareOp::Gt => order.is_gt(),
        CompareOp::Ge => order.is_ge(),
    }
}

/// The value of a constant.
pub(crate) fn as_const(expr: &Expr) -> Option<i64> {
    match expr.kind {
        ExprKind::Const(value) => Some(value),
        _ => None,
    }
}

/// The integer type of an expression; `U64` for a pointer.
pub(crate) fn scalar_of(expr: &Expr) -> Scalar {
    match expr.ty {
        ValueType::Int(scalar) => scalar,
        ValueType::Pointer => Scalar::U64,
    }
}

/// A constant.
pub(crate) fn constant(ty: Scalar, value: i64, span: Span) -> Expr {
    Expr { kind: ExprKind::Const(wrap(ty, value)), ty: ValueType::Int(ty), span }
}

/// A truth value.
pub(crate) fn truth(value: bool, span: Span) -> Expr {
    constant(Scalar::Bool, i64::from(value), span)
}

/// A value that the model does not know.
pub(crate) fn opaque(reason: OpaqueReason, ty: Scalar, span: Span) -> Expr {
    Expr { kind: ExprKind::Opaque(reason), ty: ValueType::Int(ty), span }
}

/// Conversion to an integer type.
pub(crate) fn convert(expr: Expr, to: Scalar) -> Expr {
    if expr.ty == ValueType::Int(to) {
        return expr;
    }
    let (span, ty) = (expr.span, ValueType::Int(to));
    match expr.kind {
        ExprKind::Const(value) => Expr { kind: ExprKind::Const(wrap(to, value)), ty, span },
        ExprKind::Opaque(reason) => Expr { kind: ExprKind::Opaque(reason), ty, span },
        _ => Expr { kind: ExprKind::Convert(Box::new(expr)), ty, span },
    }
}

/// Conversion of an integer to an address.
pub(crate) fn to_pointer(expr: Expr) -> Expr {
    if expr.ty == ValueType::Pointer {
        return expr;
    }
    // An address is 64 bits wide: narrower integers are extended first.
    let to = if scalar_of(&expr).is_signed() { Scalar::I64 } else { Scalar::U64 };
    let expr = convert(expr, to);
    let span = expr.span;
    Expr { kind: ExprKind::Convert(Box::new(expr)), ty: ValueType::Pointer, span }
}

/// Arithmetic on operands of one type (shift counts have their own).
pub(crate) fn binary(op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
    let ty = left.ty;
    if let (ValueType::Int(scalar), Some(a), Some(b)) = (ty, as_const(&left), as_const(&right))
        && let Ok(value) = arithmetic(op, scalar, a, b)
    {
        return constant(scalar, value, span);
    }
    Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), ty, span }
}

/// Comparison of operands of one type.
pub(crate) fn comparison(op: CompareOp, left: Expr, right: Expr, span: Span) -> Expr {
    if let (ValueType::Int(scalar), Some(a), Some(b)) = (left.ty, as_const(&left), as_const(&right))
    {
        return truth(compare(op, scalar, a, b), span);
    }
    let kind = ExprKind::Compare(op, Box::new(left), Box::new(right));
    Expr { kind, ty: ValueType::Int(Scalar::Bool), span }
}

/// `-x`
pub(crate) fn negate(expr: Expr, span: Span) -> Expr {
    let ty = expr.ty;
    if let (ValueType::Int(scalar), Some(value)) = (ty, as_const(&expr))
        && let Ok(value) = arithmetic(BinaryOp::Sub, scalar, 0, value)
    {
        return constant(scalar, value, span);
    }
    Expr { kind: ExprKind::Neg(Box::new(expr)), ty, span }
}

/// `~x`
pub(crate) fn complement(expr: Expr, span: Span) -> Expr {
    let ty = expr.ty;
    if let (ValueType::Int(scalar), Some(value)) = (ty, as_const(&expr)) {
        return constant(scalar, !value, span);
    }
    Expr { kind: ExprKind::Not(Box::new(expr)), ty, span }
}

/// `!x` on a `bool`.
pub(crate) fn not(expr: Expr, span: Span) -> Expr {
    if let Some(value) = as_const(&expr) {
        return truth(value == 0, span);
    }
    Expr { kind: ExprKind::LogicalNot(Box::new(expr)), ty: ValueType::Int(Scalar::Bool), span }
}

/// `a && b` (`or` false) or `a || b` (`or` true) on `bool`s.
pub(crate) fn logical(or: bool, left: Expr, right: Expr, span: Span) -> Expr {
    let ty = ValueType::Int(Scalar::Bool);
    match as_const(&left) {
        Some(value) if (value != 0) == or => return truth(or, span),
        Some(_) => return right,
        None => {}
    }
    let (left, right) = (Box::new(left), Box::new(right));
    let kind =
        if or { ExprKind::LogicalOr(left, right) } else { ExprKind::LogicalAnd(left, right) };
    Expr { kind, ty, span }
}

/// `c ? a : b`, both sides of one type.
pub(crate) fn select(condition: Expr, then: Expr, otherwise: Expr, span: Span) -> Expr {
    match as_const(&condition) {
        Some(0) => return otherwise,
        Some(_) => return then,
        None => {}
    }
    let ty = then.ty;
    let kind = ExprKind::Select(Box::new(condition), Box::new(then), Box::new(otherwise));
    Expr { kind, ty, span }
}

/// A call of a function on integers; all operands of one type.
pub(crate) fn call(function: Intrinsic, operands: Vec<Expr>, ty: Scalar, span: Span) -> Expr {
    let values: Option<Vec<i64>> = operands.iter().map(as_const).collect();
    let operand = operands.first().map_or(ty, scalar_of);
    if let Some(value) = values.and_then(|values| intrinsic(function, operand, &values)) {
        return constant(ty, value, span);
    }
    Expr { kind: ExprKind::Call(function, operands), ty: ValueType::Int(ty), span }
}

/// The value of a function on operands of type `ty`; `None` where it overflows.
pub(crate) fn intrinsic(function: Intrinsic, ty: Scalar, operands: &[i64]) -> Option<i64> {
    let (&first, second) = (operands.first()?, operands.get(1));
    let bits = 8 * ty.bytes() as u32;
    let word = if bits == 64 { first as u64 } else { first as u64 & ((1 << bits) - 1) };
    Some(match function {
        Intrinsic::Hash => i64::from(hash(first as u32)),
        Intrinsic::Hash64 => hash64(first as u64) as i64,
        Intrinsic::Min if compare(CompareOp::Lt, ty, *second?, first) => *second?,
        Intrinsic::Max if compare(CompareOp::Lt, ty, first, *second?) => *second?,
        Intrinsic::Min | Intrinsic::Max => first,
        Intrinsic::Abs if first < 0 => arithmetic(BinaryOp::Sub, ty, 0, first).ok()?,
        Intrinsic::Abs => first,
        Intrinsic::Popc => i64::from(word.count_ones()),
        Intrinsic::Clz => i64::from(word.leading_zeros()) - i64::from(64 - bits),
        Intrinsic::Ffs if word == 0 => 0,
        Intrinsic::Ffs => i64::from(word.trailing_zeros()) + 1,
        Intrinsic::Brev => wrap(ty, (word.reverse_bits() >> (64 - bits)) as i64),
    })
}

/// The scenario language's `hash(unsigned)`: an integer mixer with the
/// constants of "lowbias32" (Wellons, "Prospecting for hash functions", 2018).
fn hash(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}

/// The scenario language's `hash64(unsigned long long)`: the finaliser of
/// splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
fn hash64(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// `pointer + offset`, with an `I64` number of bytes; constant parts are added
/// up.
pub(crate) fn offset(pointer: Expr, bytes: Expr, span: Span) -> Expr {
    if as_const(&bytes) == Some(0) {
        return Expr { span, ..pointer };
    }
    if let (ExprKind::Binary(BinaryOp::Add, base, inner), Some(outer)) =
        (&pointer.kind, as_const(&bytes))
        && let Some(sum) = as_const(inner).and_then(|inner| inner.checked_add(outer))
    {
        return offset((**base).clone(), constant(Scalar::I64, sum, span), span);
    }
    let kind = ExprKind::Binary(BinaryOp::Add, Box::new(pointer), Box::new(bytes));
    Expr { kind, ty: ValueType::Pointer, span }
}

/// `index * size` as `I64`: the bytes of `index` elements.
pub(crate) fn scale(index: Expr, size: u64, span: Span) -> Expr {
    let index = convert(index, Scalar::I64);
    if size == 1 {
        return index;
    }
    binary(BinaryOp::Mul, index, constant(Scalar::I64, size as i64, span), span)
}

/// Calls `f` on all parts of an expression and then on itself.
pub(crate) fn visit_mut(expr: &mut Expr, f: &mut impl FnMut(&mut Expr)) {
    match &mut expr.kind {
        ExprKind::Const(_)
        | ExprKind::Opaque(_)
        | ExprKind::Builtin(_)
        | ExprKind::Local(_)
        | ExprKind::BufferBase(_)
        | ExprKind::SharedBase(_) => {}
        ExprKind::Element(_, inner)
        | ExprKind::Neg(inner)
        | ExprKind::Not(inner)
        | ExprKind::LogicalNot(inner)
        | ExprKind::Convert(inner)
        | ExprKind::CheckedIndex { index: inner, .. } => visit_mut(inner, f),
        ExprKind::Binary(_, left, right)
        | ExprKind::Compare(_, left, right)
        | ExprKind::LogicalAnd(left, right)
        | ExprKind::LogicalOr(left, right) => {
            visit_mut(left, f);
            visit_mut(right, f);
        }
        ExprKind::Select(condition, then, otherwise) => {
            visit_mut(condition, f);
            visit_mut(then, f);
            visit_mut(otherwise, f);
        }
        ExprKind::Call(_, operands) => {
            for operand in operands {
                visit_mut(operand, f);
            }
        }
    }
    f(expr);
}

/// The sum of two `I64` indices.
pub(crate) fn add_index(left: Expr, right: Expr, span: Span) -> Expr {
    if as_const(&left) == Some(0) {
        return right;
    }
    if as_const(&right) == Some(0) {
        return left;
    }
    binary(BinaryOp::Add, left, right, span)
}

/// Calls `f` on an expression and all its parts, outermost first.
pub(crate) fn visit<'e>(expr: &'e Expr, f: &mut impl FnMut(&'e Expr)) {
    f(expr);
    match &expr.kind {
        ExprKind::Const(_)
        | ExprKind::Opaque(_)
        | ExprKind::Builtin(_)
        | ExprKind::Local(_)
        | ExprKind::BufferBase(_)
        | ExprKind::SharedBase(_) => {}
        ExprKind::Element(_, inner)
        | ExprKind::Neg(inner)
        | ExprKind::Not(inner)
        | ExprKind::LogicalNot(inner)
        | ExprKind::Convert(inner)
        | ExprKind::CheckedIndex { index: inner, .. } => visit(inner, f),
        ExprKind::Binary(_, left, right)
        | ExprKind::Compare(_, left, right)
        | ExprKind::LogicalAnd(left, right)
        | ExprKind::LogicalOr(left, right) => {
            visit(left, f);
            visit(right, f);
        }
        ExprKind::Select(condition, then, otherwise) => {
            visit(condition, f);
            visit(then, f);
            visit(otherwise, f);
        }
        ExprKind::Call(_, operands) => {
            for operand in operands {
                visit(operand, f);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_follows_c() {
        use ArithmeticError::{DivisionByZero, Overflow, ShiftTooFar};
        let i32_max = i64::from(i32::MAX);
        let i32_min = i64::from(i32::MIN);
        for (op, ty, left, right, expected) in [
            (BinaryOp::Add, Scalar::I32, i32_max, 1, Err(Overflow)),
            (BinaryOp::Add, Scalar::U32, 0xffff_ffff, 1, Ok(0)),
            (BinaryOp::Sub, Scalar::U32, 0, 1, Ok(0xffff_ffff)),
            (BinaryOp::Mul, Scalar::U32, 0xffff_ffff, 0xffff_ffff, Ok(1)),
            (BinaryOp::Mul, Scalar::I64, i64::MAX, 2, Err(Overflow)),
            (BinaryOp::Mul, Scalar::U64, -1, -1, Ok(1)),
            (BinaryOp::Div, Scalar::I32, -7, 2, Ok(-3)),
            (BinaryOp::Rem, Scalar::I32, -7, 2, Ok(-1)),
            (BinaryOp::Div, Scalar::I32, i32_min, -1, Err(Overflow)),
            (BinaryOp::Rem, Scalar::I32, i32_min, -1, Err(Overflow)),
            (BinaryOp::Rem, Scalar::I64, i64::MIN, -1, Err(Overflow)),
            (BinaryOp::Div, Scalar::U64, -1, 2, Ok(i64::MAX)),
            (BinaryOp::Div, Scalar::I32, 1, 0, Err(DivisionByZero)),
            (BinaryOp::Shl, Scalar::I32, 1, 31, Ok(i32_min)),
            (BinaryOp::Shl, Scalar::I32, 1, 32, Err(ShiftTooFar)),
            (BinaryOp::Shr, Scalar::I32, -8, 1, Ok(-4)),
            (BinaryOp::Shr, Scalar::U64, -1, 63, Ok(1)),
            (BinaryOp::Shr, Scalar::U32, 1, -1, Err(ShiftTooFar)),
        ] {
            assert_eq!(arithmetic(op, ty, left, right), expected, "{op:?} {ty:?} {left} {right}");
        }
    }

    #[test]
    fn functions_on_integers() {
        let call = |function, ty, operands: &[i64]| intrinsic(function, ty, operands);
        assert_eq!(call(Intrinsic::Min, Scalar::I32, &[-1, 2]), Some(-1));
        assert_eq!(call(Intrinsic::Min, Scalar::U64, &[-1, 2]), Some(2));
        assert_eq!(call(Intrinsic::Max, Scalar::I32, &[-1, 2]), Some(2));
        assert_eq!(call(Intrinsic::Abs, Scalar::I32, &[i64::from(i32::MIN)]), None);
        assert_eq!(call(Intrinsic::Popc, Scalar::I32, &[-1]), Some(32));
        assert_eq!(call(Intrinsic::Clz, Scalar::I32, &[1]), Some(31));
        assert_eq!(call(Intrinsic::Clz, Scalar::I64, &[0]), Some(64));
        assert_eq!(call(Intrinsic::Ffs, Scalar::I32, &[8]), Some(4));
        assert_eq!(call(Intrinsic::Brev, Scalar::U32, &[1]), Some(0x8000_0000));
        assert_eq!(call(Intrinsic::Hash, Scalar::U32, &[1]), Some(0x6889_90c0));
        assert_eq!(call(Intrinsic::Hash64, Scalar::U64, &[1]), Some(0x5692161d100b05e5));
    }
}
