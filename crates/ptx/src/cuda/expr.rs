//! The C text of an `init` expression.

use scenario::program::{
    BinaryOp, CompareOp, Expr, ExprKind, Intrinsic, LocalId, Scalar, ValueType,
};

/// `expr` as C++, in which local 0 is `i`; `None` where it names something
/// that expressions outside kernels don't.
pub(super) fn text(expr: &Expr) -> Option<String> {
    let two = |op: &str, a: &Expr, b: &Expr| Some(format!("({} {op} {})", text(a)?, text(b)?));
    Some(match &expr.kind {
        ExprKind::Const(value) => literal(*value, expr.ty),
        ExprKind::Local(LocalId(0)) => "i".to_owned(),
        ExprKind::Neg(a) => format!("(-{})", text(a)?),
        ExprKind::Not(a) => format!("(~{})", text(a)?),
        ExprKind::LogicalNot(a) => format!("(!{})", text(a)?),
        ExprKind::Binary(op, a, b) => two(operator(*op), a, b)?,
        ExprKind::Compare(op, a, b) => two(comparison(*op), a, b)?,
        ExprKind::LogicalAnd(a, b) => two("&&", a, b)?,
        ExprKind::LogicalOr(a, b) => two("||", a, b)?,
        ExprKind::Select(c, a, b) => format!("({} ? {} : {})", text(c)?, text(a)?, text(b)?),
        ExprKind::Convert(a) => format!("({}){}", type_name(expr.ty), text(a)?),
        ExprKind::Call(intrinsic, args) => {
            let args: Option<Vec<String>> = args.iter().map(text).collect();
            format!("{}({})", function(*intrinsic, expr.ty), args?.join(", "))
        }
        ExprKind::Opaque(_)
        | ExprKind::Builtin(_)
        | ExprKind::Local(_)
        | ExprKind::Element(..)
        | ExprKind::BufferBase(_)
        | ExprKind::SharedBase(_)
        | ExprKind::CheckedIndex { .. } => return None,
    })
}

/// A constant as C++ writes it, typed by its suffix.
pub(super) fn literal(value: i64, ty: ValueType) -> String {
    match ty {
        ValueType::Int(Scalar::Bool) => (value != 0).to_string(),
        ValueType::Int(Scalar::U32) => format!("{}u", value as u32),
        ValueType::Int(Scalar::U64) => format!("{}ull", value as u64),
        // The most negative numbers have no literal of their own.
        ValueType::Int(Scalar::I64) if value == i64::MIN => format!("({}ll - 1)", i64::MIN + 1),
        ValueType::Int(Scalar::I64) => parenthesised(value, "ll"),
        _ if value == i64::from(i32::MIN) => format!("({} - 1)", i32::MIN + 1),
        _ => parenthesised(value, ""),
    }
}

fn parenthesised(value: i64, suffix: &str) -> String {
    if value < 0 { format!("({value}{suffix})") } else { format!("{value}{suffix}") }
}

/// The C++ type of a value.
pub(super) fn type_name(ty: ValueType) -> &'static str {
    match ty {
        ValueType::Int(scalar) => scalar_name(scalar),
        ValueType::Pointer => "unsigned long long",
    }
}

/// The C++ type of a scalar.
pub(super) fn scalar_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::I8 => "signed char",
        Scalar::U8 => "unsigned char",
        Scalar::I16 => "short",
        Scalar::U16 => "unsigned short",
        Scalar::I32 => "int",
        Scalar::U32 => "unsigned",
        Scalar::I64 => "long long",
        Scalar::U64 => "unsigned long long",
        Scalar::F16 => "__half",
        Scalar::BF16 => "__nv_bfloat16",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
    }
}

fn operator(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Rem => "%",
        BinaryOp::And => "&",
        BinaryOp::Or => "|",
        BinaryOp::Xor => "^",
        BinaryOp::Shl => "<<",
        BinaryOp::Shr => ">>",
    }
}

fn comparison(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    }
}

fn function(intrinsic: Intrinsic, ty: ValueType) -> &'static str {
    let wide = matches!(ty, ValueType::Int(Scalar::I64 | Scalar::U64));
    match intrinsic {
        Intrinsic::Hash => "hash",
        Intrinsic::Hash64 => "hash64",
        Intrinsic::Min => "min",
        Intrinsic::Max => "max",
        Intrinsic::Abs if wide => "llabs",
        Intrinsic::Abs => "abs",
        // These return `int` whatever they count in; the 64-bit forms take
        // 32-bit operands as well, but for leading zeros and reversal.
        Intrinsic::Popc => "__popcll",
        Intrinsic::Ffs => "__ffsll",
        Intrinsic::Clz => "__clz",
        Intrinsic::Brev if wide => "__brevll",
        Intrinsic::Brev => "__brev",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hand::{I64, U32, binary, convert, local, number};

    #[test]
    fn init_is_written_with_its_conversions() {
        let i = convert(local(0, I64), U32);
        let hash = Expr { kind: ExprKind::Call(Intrinsic::Hash, vec![i.clone()]), ..i };
        let expr = convert(binary(BinaryOp::Rem, hash, number(7, U32)), I64);
        assert_eq!(text(&expr).as_deref(), Some("(long long)(hash((unsigned)i) % 7u)"));
        assert_eq!(text(&local(1, I64)), None);
    }

    #[test]
    fn extreme_constants_have_literals() {
        let int = |scalar| ValueType::Int(scalar);
        assert_eq!(literal(i64::MIN, int(Scalar::I64)), "(-9223372036854775807ll - 1)");
        assert_eq!(literal(i64::from(i32::MIN), int(Scalar::I32)), "(-2147483647 - 1)");
        assert_eq!(literal(-1, int(Scalar::U64)), "18446744073709551615ull");
        assert_eq!(literal(-3, int(Scalar::I32)), "(-3)");
        assert_eq!(literal(1, int(Scalar::Bool)), "true");
    }
}
