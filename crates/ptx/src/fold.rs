//! Values that are settled before the kernel runs.

use scenario::program::{BinaryOp, CompareOp, Expr, ExprKind, Program, Scalar, ValueType};

/// The value of `expr` where it has no variables; `None` where it has, or
/// where its value is an error (division by zero, a shift too far) that the
/// evaluator reports.
///
/// Results are in the expression's type, as the evaluator holds them: `U64`
/// above `i64::MAX` reinterpreted, `Bool` 0 or 1. A shared array's base is its
/// offset.
pub(crate) fn constant(program: &Program, expr: &Expr) -> Option<i64> {
    let of = |expr: &Expr| constant(program, expr);
    let value = match &expr.kind {
        ExprKind::Const(value) => *value,
        ExprKind::SharedBase(id) => i64::try_from(program.shared.get(id.0)?.offset).ok()?,
        ExprKind::Neg(a) => of(a)?.wrapping_neg(),
        ExprKind::Not(a) => !of(a)?,
        ExprKind::LogicalNot(a) => i64::from(of(a)? == 0),
        ExprKind::Convert(a) => of(a)?,
        ExprKind::CheckedIndex { index, .. } => of(index)?,
        ExprKind::Binary(op, a, b) => binary(*op, expr.ty, of(a)?, of(b)?)?,
        ExprKind::Compare(op, a, b) => i64::from(compare(*op, a.ty, of(a)?, of(b)?)),
        ExprKind::LogicalAnd(a, b) => match (of(a), of(b)) {
            (Some(0), _) | (_, Some(0)) => 0,
            (Some(_), Some(_)) => 1,
            _ => return None,
        },
        ExprKind::LogicalOr(a, b) => match (of(a), of(b)) {
            (Some(0), Some(0)) => 0,
            (Some(1..), _) | (_, Some(1..)) => 1,
            _ => return None,
        },
        ExprKind::Select(condition, a, b) => {
            if of(condition)? != 0 {
                of(a)?
            } else {
                of(b)?
            }
        }
        ExprKind::Opaque(_)
        | ExprKind::Builtin(_)
        | ExprKind::Local(_)
        | ExprKind::Element(..)
        | ExprKind::BufferBase(_)
        | ExprKind::Call(..) => return None,
    };
    Some(in_type(value, expr.ty))
}

/// `value` brought into the range of `ty` as C converts it.
pub(crate) fn in_type(value: i64, ty: ValueType) -> i64 {
    match ty {
        ValueType::Int(Scalar::Bool) => i64::from(value != 0),
        ValueType::Int(Scalar::I8) => i64::from(value as i8),
        ValueType::Int(Scalar::U8) => i64::from(value as u8),
        ValueType::Int(Scalar::I16) => i64::from(value as i16),
        ValueType::Int(Scalar::U16) => i64::from(value as u16),
        ValueType::Int(Scalar::I32) => i64::from(value as i32),
        ValueType::Int(Scalar::U32) => i64::from(value as u32),
        // The floating scalars are never an expression's type.
        ValueType::Int(
            Scalar::I64 | Scalar::U64 | Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64,
        )
        | ValueType::Pointer => value,
    }
}

/// Whether comparison, division and right shift of `ty` are signed.
pub(crate) fn is_signed(ty: ValueType) -> bool {
    matches!(ty, ValueType::Int(scalar) if scalar.is_signed())
}

fn binary(op: BinaryOp, ty: ValueType, a: i64, b: i64) -> Option<i64> {
    let signed = is_signed(ty);
    let bits = match ty {
        ValueType::Int(scalar) => 8 * scalar.bytes() as i64,
        ValueType::Pointer => 64,
    };
    Some(match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div if signed => a.checked_div(b)?,
        BinaryOp::Rem if signed => a.checked_rem(b)?,
        BinaryOp::Div => (a as u64).checked_div(b as u64)? as i64,
        BinaryOp::Rem => (a as u64).checked_rem(b as u64)? as i64,
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Shl | BinaryOp::Shr if !(0..bits).contains(&b) => return None,
        BinaryOp::Shl => a << b,
        BinaryOp::Shr if signed => a >> b,
        BinaryOp::Shr => ((a as u64) >> b) as i64,
    })
}

fn compare(op: CompareOp, ty: ValueType, a: i64, b: i64) -> bool {
    let order = if is_signed(ty) { a.cmp(&b) } else { (a as u64).cmp(&(b as u64)) };
    match op {
        CompareOp::Eq => order.is_eq(),
        CompareOp::Ne => order.is_ne(),
        CompareOp::Lt => order.is_lt(),
        CompareOp::Le => order.is_le(),
        CompareOp::Gt => order.is_gt(),
        CompareOp::Ge => order.is_ge(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const I32: ValueType = ValueType::Int(Scalar::I32);
    const U32: ValueType = ValueType::Int(Scalar::U32);
    const U64: ValueType = ValueType::Int(Scalar::U64);

    #[test]
    fn values_wrap_in_their_type() {
        assert_eq!(in_type(0x1_ffff_ffff, U32), 0xffff_ffff);
        assert_eq!(in_type(0xffff_ffff, I32), -1);
        assert_eq!(in_type(300, ValueType::Int(Scalar::I8)), 44);
        assert_eq!(in_type(2, ValueType::Int(Scalar::Bool)), 1);
    }

    #[test]
    fn division_and_shifts_follow_the_sign_of_the_type() {
        assert_eq!(binary(BinaryOp::Div, I32, -7, 2), Some(-3));
        assert_eq!(binary(BinaryOp::Rem, I32, -7, 2), Some(-1));
        assert_eq!(binary(BinaryOp::Div, U64, -1, 2), Some(i64::MAX));
        assert_eq!(binary(BinaryOp::Shr, U64, -1, 63), Some(1));
        assert_eq!(binary(BinaryOp::Shr, I32, -8, 1), Some(-4));
        assert_eq!(binary(BinaryOp::Div, I32, 1, 0), None);
        assert_eq!(binary(BinaryOp::Div, ValueType::Int(Scalar::I64), i64::MIN, -1), None);
        assert_eq!(binary(BinaryOp::Shl, U32, 1, 32), None);
        assert!(compare(CompareOp::Gt, U64, -1, 1));
        assert!(!compare(CompareOp::Gt, I32, -1, 1));
    }
}
