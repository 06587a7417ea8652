//! Expressions: integers in 32- and 64-bit registers, conditions in
//! predicates.
//!
//! Values narrower than 32 bits are held in 32-bit registers, sign- or
//! zero-extended by their type; `bool` variables are 0 or 1 there. Expressions
//! are pure, so both sides of `&&`, `||` and `?:` are computed: what C would
//! not evaluate can't trap in PTX either.

use super::Lowering;
use crate::fold::{constant, in_type, is_signed};
use crate::syntax::{
    Address, Binary, Class, Compare, Instruction, Reg, Special, Type, Unary, Value,
};
use scenario::program::{
    Axis, BinaryOp, Builtin, CompareOp, Expr, ExprKind, Intrinsic, LocalArrayId, LocalId, Scalar,
    ValueType,
};

/// A condition: settled, or a predicate to be read as it is or negated.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    /// The same for all threads, known now.
    Known(bool),
    /// Holds where the predicate does, or where it does not.
    Pred {
        /// The predicate.
        pred: Reg,
        /// Whether it holds where the predicate does not.
        negated: bool,
    },
}

impl Condition {
    fn not(self) -> Self {
        match self {
            Self::Known(value) => Self::Known(!value),
            Self::Pred { pred, negated } => Self::Pred { pred, negated: !negated },
        }
    }
}

/// The register class of a value.
pub(super) fn class_of(ty: ValueType) -> Class {
    match ty {
        ValueType::Int(scalar) if scalar.bytes() < 8 => Class::B32,
        ValueType::Int(_) | ValueType::Pointer => Class::B64,
    }
}

/// The PTX type in which arithmetic on a value is done.
fn arithmetic(ty: ValueType) -> Type {
    match (class_of(ty), is_signed(ty)) {
        (Class::B64, true) => Type::S64,
        (Class::B64, false) => Type::U64,
        (_, true) => Type::S32,
        (_, false) => Type::U32,
    }
}

/// The untyped PTX type of a class.
pub(super) fn bits(class: Class) -> Type {
    match class {
        Class::Pred => Type::Pred,
        Class::B16 => Type::B16,
        Class::B32 => Type::B32,
        Class::B64 => Type::B64,
    }
}

impl Lowering<'_> {
    /// The value of `expr`. Where `want` is given and an instruction computes
    /// the value, that register receives it; the value may still be another
    /// register or a constant.
    pub(super) fn value(&mut self, expr: &Expr, want: Option<Reg>) -> Value {
        if let Some(value) = constant(self.program, expr) {
            return Value::Imm(value);
        }
        let class = class_of(expr.ty);
        let ty = arithmetic(expr.ty);
        match &expr.kind {
            ExprKind::Const(value) => Value::Imm(in_type(*value, expr.ty)),
            ExprKind::Opaque(_) => self.opaque_bits(class),
            ExprKind::Builtin(builtin) => Value::Reg(self.special(special(*builtin))),
            ExprKind::Local(id) => Value::Reg(self.local(*id)),
            ExprKind::Element(array, index) => self.element(*array, index, class),
            ExprKind::BufferBase(id) => Value::Reg(self.buffer(*id)),
            ExprKind::SharedBase(id) => {
                Value::Imm(self.program.shared.get(id.0).map_or(0, |array| array.offset as i64))
            }
            ExprKind::Neg(a) => {
                let src = self.value(a, None);
                // The type of a negation is signed in PTX; the bits are the
                // same.
                let ty = if class == Class::B64 { Type::S64 } else { Type::S32 };
                self.unary(Unary::Neg, ty, class, src, want)
            }
            ExprKind::Not(a) => {
                let src = self.value(a, None);
                self.unary(Unary::Not, bits(class), class, src, want)
            }
            ExprKind::Binary(op, a, b) => self.arithmetic(*op, expr, a, b, want),
            ExprKind::LogicalNot(_)
            | ExprKind::Compare(..)
            | ExprKind::LogicalAnd(..)
            | ExprKind::LogicalOr(..) => {
                let condition = self.condition(expr);
                self.select(condition, Value::Imm(1), Value::Imm(0), Class::B32, want)
            }
            ExprKind::Select(condition, a, b) => {
                let a = self.value(a, None);
                let b = self.value(b, None);
                let condition = self.condition(condition);
                self.select(condition, a, b, class, want)
            }
            ExprKind::Convert(_) if expr.ty == ValueType::Int(Scalar::Bool) => {
                let condition = self.condition(expr);
                self.select(condition, Value::Imm(1), Value::Imm(0), Class::B32, want)
            }
            ExprKind::Convert(a) => {
                let src = self.value(a, None);
                self.convert(src, a.ty, expr.ty, want)
            }
            ExprKind::CheckedIndex { index, .. } => {
                let src = self.value(index, None);
                self.convert(src, index.ty, expr.ty, want)
            }
            ExprKind::Call(intrinsic, args) => {
                let args: Vec<(Value, ValueType)> =
                    args.iter().map(|arg| (self.value(arg, None), arg.ty)).collect();
                self.intrinsic(*intrinsic, &args, ty, class, want)
            }
        }
    }

    /// The value of `expr` in a register of its class.
    pub(super) fn value_reg(&mut self, expr: &Expr) -> Reg {
        let value = self.value(expr, None);
        self.reg(value, class_of(expr.ty))
    }

    /// A condition: the value of a `Bool` expression.
    pub(super) fn condition(&mut self, expr: &Expr) -> Condition {
        if let Some(value) = constant(self.program, expr) {
            return Condition::Known(value != 0);
        }
        match &expr.kind {
            ExprKind::LogicalNot(a) => self.condition(a).not(),
            ExprKind::Compare(op, a, b) => {
                let ty = arithmetic(a.ty);
                let a = self.value(a, None);
                let b = self.value(b, None);
                let dst = self.fresh(Class::Pred);
                self.emit(Instruction::Setp { cmp: comparison(*op), ty, dst, a, b });
                Condition::Pred { pred: dst, negated: false }
            }
            ExprKind::LogicalAnd(a, b) => self.both(a, b, Binary::And),
            ExprKind::LogicalOr(a, b) => self.both(a, b, Binary::Or),
            ExprKind::Convert(a) if a.ty == ValueType::Int(Scalar::Bool) => self.condition(a),
            ExprKind::Convert(a) => {
                let class = class_of(a.ty);
                let value = self.value(a, None);
                self.is_not_zero(value, class)
            }
            ExprKind::Opaque(_) => {
                // Nothing that touches memory may depend on it; any bit will
                // do.
                let bit = self.fresh(Class::B32);
                let a = Value::Reg(self.mix());
                self.binary(Binary::And, Type::B32, bit, a, Value::Imm(1));
                self.is_not_zero(Value::Reg(bit), Class::B32)
            }
            _ => {
                let value = self.value(expr, None);
                self.is_not_zero(value, class_of(expr.ty))
            }
        }
    }

    /// Bits `0..32` of a 64-bit expression, computed in 32 bits where the
    /// operations allow it: an offset in shared memory.
    pub(super) fn low_bits(&mut self, expr: &Expr) -> Value {
        if let Some(value) = constant(self.program, expr) {
            return Value::Imm(i64::from(value as i32));
        }
        if class_of(expr.ty) == Class::B32 {
            return self.value(expr, None);
        }
        match &expr.kind {
            ExprKind::Convert(a) | ExprKind::CheckedIndex { index: a, .. } => self.low_bits(a),
            ExprKind::Binary(op, a, b) => {
                let (op, ty) = match op {
                    BinaryOp::Add => (Binary::Add, Type::U32),
                    BinaryOp::Sub => (Binary::Sub, Type::U32),
                    BinaryOp::Mul => (Binary::Mul, Type::U32),
                    BinaryOp::And => (Binary::And, Type::B32),
                    BinaryOp::Or => (Binary::Or, Type::B32),
                    BinaryOp::Xor => (Binary::Xor, Type::B32),
                    // Their low bits depend on the operand's high ones, or the
                    // count may pass 31.
                    BinaryOp::Div | BinaryOp::Rem | BinaryOp::Shl | BinaryOp::Shr => {
                        return self.truncated(expr);
                    }
                };
                let a = self.low_bits(a);
                let b = self.low_bits(b);
                if op == Binary::Add && a == Value::Imm(0) {
                    return b;
                }
                if op == Binary::Add && b == Value::Imm(0) {
                    return a;
                }
                let dst = self.fresh(Class::B32);
                self.binary(op, ty, dst, a, b);
                Value::Reg(dst)
            }
            _ => self.truncated(expr),
        }
    }

    fn truncated(&mut self, expr: &Expr) -> Value {
        let value = self.value(expr, None);
        self.convert(value, expr.ty, ValueType::Int(Scalar::U32), None)
    }

    /// Address of `pointer` in global memory.
    pub(super) fn global_address(&mut self, pointer: &Expr) -> Address {
        let (pointer, offset) = self.split_offset(pointer);
        let base = self.value_reg(pointer);
        Address { base, offset }
    }

    /// `pointer` without the constants added to it, and their sum.
    fn split_offset<'e>(&self, mut pointer: &'e Expr) -> (&'e Expr, i32) {
        let mut sum = 0_i32;
        while let ExprKind::Binary(BinaryOp::Add, a, b) = &pointer.kind {
            let Some(next) = constant(self.program, b)
                .and_then(|offset| i32::try_from(offset).ok())
                .and_then(|offset| sum.checked_add(offset))
            else {
                break;
            };
            sum = next;
            pointer = a;
        }
        (pointer, sum)
    }

    /// Offset of `pointer` in the shared window: a 32-bit register or a
    /// constant.
    pub(super) fn shared_offset(&mut self, pointer: &Expr) -> Value {
        self.low_bits(pointer)
    }

    fn both(&mut self, a: &Expr, b: &Expr, op: Binary) -> Condition {
        let a = self.condition(a);
        let b = self.condition(b);
        // The value with which the operator gives the other operand.
        let neutral = op == Binary::And;
        match (a, b) {
            (Condition::Known(known), other) | (other, Condition::Known(known)) => {
                if known == neutral { other } else { Condition::Known(known) }
            }
            (a, b) => {
                let a = Value::Reg(self.positive(a));
                let b = Value::Reg(self.positive(b));
                let dst = self.fresh(Class::Pred);
                self.binary(op, Type::Pred, dst, a, b);
                Condition::Pred { pred: dst, negated: false }
            }
        }
    }

    /// A predicate that holds where the condition does.
    fn positive(&mut self, condition: Condition) -> Reg {
        match condition {
            Condition::Pred { pred, negated: false } => pred,
            Condition::Pred { pred, negated: true } => {
                let dst = self.fresh(Class::Pred);
                self.emit(Instruction::Unary {
                    op: Unary::Not,
                    ty: Type::Pred,
                    dst,
                    src: Value::Reg(pred),
                });
                dst
            }
            Condition::Known(value) => {
                let dst = self.fresh(Class::Pred);
                self.emit(Instruction::Setp {
                    cmp: Compare::Ne,
                    ty: Type::U32,
                    dst,
                    a: Value::Imm(i64::from(value)),
                    b: Value::Imm(0),
                });
                dst
            }
        }
    }

    fn is_not_zero(&mut self, value: Value, class: Class) -> Condition {
        let dst = self.fresh(Class::Pred);
        let ty = if class == Class::B64 { Type::U64 } else { Type::U32 };
        self.emit(Instruction::Setp { cmp: Compare::Ne, ty, dst, a: value, b: Value::Imm(0) });
        Condition::Pred { pred: dst, negated: false }
    }

    fn select(
        &mut self,
        condition: Condition,
        a: Value,
        b: Value,
        class: Class,
        want: Option<Reg>,
    ) -> Value {
        match condition {
            Condition::Known(true) => a,
            Condition::Known(false) => b,
            Condition::Pred { pred, negated } => {
                let (a, b) = if negated { (b, a) } else { (a, b) };
                let dst = want.unwrap_or_else(|| self.fresh(class));
                self.emit(Instruction::Selp { ty: bits(class), dst, a, b, pred });
                Value::Reg(dst)
            }
        }
    }

    /// `value` of type `from` as a value of type `to`, neither of them `Bool`
    /// as a target.
    pub(super) fn convert(
        &mut self,
        value: Value,
        from: ValueType,
        to: ValueType,
        want: Option<Reg>,
    ) -> Value {
        let Value::Reg(src) = value else {
            let Value::Imm(imm) = value else { return value };
            return Value::Imm(in_type(imm, to));
        };
        let cvt = |this: &mut Self, to: Type, from: Type, class: Class| {
            let dst = want.unwrap_or_else(|| this.fresh(class));
            this.emit(Instruction::Cvt { to, from, dst, src });
            Value::Reg(dst)
        };
        // A 64-bit register read as a narrower type is cut, so that one
        // conversion does for narrowing from either class.
        let narrow = match to {
            ValueType::Int(Scalar::I8) => Some((Type::S32, Type::S8)),
            ValueType::Int(Scalar::U8 | Scalar::Bool) => Some((Type::U32, Type::U8)),
            ValueType::Int(Scalar::I16) => Some((Type::S32, Type::S16)),
            ValueType::Int(Scalar::U16) => Some((Type::U32, Type::U16)),
            _ => None,
        };
        match (class_of(from), class_of(to), narrow) {
            (Class::B64, Class::B32, Some((wide, narrow))) => {
                let low = self.fresh(Class::B32);
                self.emit(Instruction::Cvt { to: Type::U32, from: Type::U64, dst: low, src });
                let dst = want.unwrap_or_else(|| self.fresh(Class::B32));
                self.emit(Instruction::Cvt { to: wide, from: narrow, dst, src: low });
                Value::Reg(dst)
            }
            (_, _, Some(_)) if from == to => value,
            (_, _, Some((wide, narrow))) => cvt(self, wide, narrow, Class::B32),
            (Class::B64, Class::B32, None) => cvt(self, Type::U32, Type::U64, Class::B32),
            (Class::B32, Class::B64, None) if is_signed(from) => {
                cvt(self, Type::S64, Type::S32, Class::B64)
            }
            (Class::B32, Class::B64, None) => cvt(self, Type::U64, Type::U32, Class::B64),
            _ => value,
        }
    }

    fn arithmetic(
        &mut self,
        op: BinaryOp,
        expr: &Expr,
        a: &Expr,
        b: &Expr,
        want: Option<Reg>,
    ) -> Value {
        let class = class_of(expr.ty);
        let ty = arithmetic(expr.ty);
        if let Some(value) = self.widening_product(op, a, b, want) {
            return value;
        }
        let (op, ty) = match op {
            BinaryOp::Add => (Binary::Add, ty),
            BinaryOp::Sub => (Binary::Sub, ty),
            BinaryOp::Mul => (Binary::Mul, ty),
            BinaryOp::Div => (Binary::Div, ty),
            BinaryOp::Rem => (Binary::Rem, ty),
            BinaryOp::And => (Binary::And, bits(class)),
            BinaryOp::Or => (Binary::Or, bits(class)),
            BinaryOp::Xor => (Binary::Xor, bits(class)),
            BinaryOp::Shl => (Binary::Shl, bits(class)),
            BinaryOp::Shr => (Binary::Shr, ty),
        };
        let x = self.value(a, None);
        let mut y = self.value(b, None);
        if matches!(op, Binary::Shl | Binary::Shr) {
            // PTX counts are 32 bits wide; the evaluator has refused counts
            // that don't fit in the type.
            y = self.convert(y, b.ty, ValueType::Int(Scalar::U32), None);
        }
        // What lowering adds to every index of a one-dimensional array.
        let identity = match op {
            Binary::Add | Binary::Sub | Binary::Shl | Binary::Shr => Some(Value::Imm(0)),
            Binary::Mul | Binary::Div => Some(Value::Imm(1)),
            _ => None,
        };
        if Some(y) == identity && class_of(a.ty) == class {
            return x;
        }
        if x == Value::Imm(0) && op == Binary::Add && class_of(b.ty) == class {
            return y;
        }
        let dst = want.unwrap_or_else(|| self.fresh(class));
        self.binary(op, ty, dst, x, y);
        Value::Reg(dst)
    }

    /// `(long long)a * constant` with a 32-bit `a` is one `mul.wide`, as
    /// compilers write an index times an element's size.
    fn widening_product(
        &mut self,
        op: BinaryOp,
        a: &Expr,
        b: &Expr,
        want: Option<Reg>,
    ) -> Option<Value> {
        if op != BinaryOp::Mul {
            return None;
        }
        let (wide, factor) = match (constant(self.program, a), constant(self.program, b)) {
            (None, Some(factor)) => (a, factor),
            (Some(factor), None) => (b, factor),
            _ => return None,
        };
        if class_of(wide.ty) != Class::B64 || factor == 1 {
            return None;
        }
        let mut narrow = wide;
        while let ExprKind::Convert(inner) | ExprKind::CheckedIndex { index: inner, .. } =
            &narrow.kind
        {
            narrow = inner;
            if class_of(narrow.ty) == Class::B32 {
                break;
            }
        }
        if class_of(narrow.ty) != Class::B32 || narrow.ty == ValueType::Int(Scalar::Bool) {
            return None;
        }
        let ty = arithmetic(narrow.ty);
        let fits = match ty {
            Type::S32 => i32::try_from(factor).is_ok(),
            _ => u32::try_from(factor).is_ok(),
        };
        if !fits {
            return None;
        }
        let a = self.value(narrow, None);
        let dst = want.unwrap_or_else(|| self.fresh(Class::B64));
        self.binary(Binary::MulWide, ty, dst, a, Value::Imm(factor));
        Some(Value::Reg(dst))
    }

    fn element(&mut self, array: LocalArrayId, index: &Expr, class: Class) -> Value {
        let registers = self.array(array);
        if registers.is_empty() {
            return self.opaque_bits(class);
        }
        let ty = arithmetic(index.ty);
        match self.value(index, None) {
            Value::Imm(k) => {
                let register = usize::try_from(k).ok().and_then(|k| registers.get(k)).copied();
                register.map_or_else(|| self.opaque_bits(class), Value::Reg)
            }
            // An index that is the same for all threads but not known here:
            // registers have no addresses, so all are compared.
            index => {
                let dst = self.fresh(class);
                let mut chosen = Value::Reg(registers[0]);
                for (k, &register) in registers.iter().enumerate().skip(1) {
                    let pred = self.equals(ty, index, k);
                    self.emit(Instruction::Selp {
                        ty: bits(class),
                        dst,
                        a: Value::Reg(register),
                        b: chosen,
                        pred,
                    });
                    chosen = Value::Reg(dst);
                }
                chosen
            }
        }
    }

    /// `array[index] = value`
    pub(super) fn set_element(&mut self, array: LocalArrayId, index: &Expr, value: &Expr) {
        let registers = self.array(array);
        let class = class_of(value.ty);
        if registers.is_empty() {
            return;
        }
        let ty = arithmetic(index.ty);
        match self.value(index, None) {
            Value::Imm(k) => {
                if let Some(&dst) = usize::try_from(k).ok().and_then(|k| registers.get(k)) {
                    self.assign(dst, value);
                }
            }
            index => {
                let a = self.value(value, None);
                for (k, &dst) in registers.iter().enumerate() {
                    let pred = self.equals(ty, index, k);
                    self.emit(Instruction::Selp { ty: bits(class), dst, a, b: dst.into(), pred });
                }
            }
        }
    }

    fn equals(&mut self, ty: Type, index: Value, k: usize) -> Reg {
        let dst = self.fresh(Class::Pred);
        let b = Value::Imm(k as i64);
        self.emit(Instruction::Setp { cmp: Compare::Eq, ty, dst, a: index, b });
        dst
    }

    /// `dst = value`
    pub(super) fn assign(&mut self, dst: Reg, value: &Expr) {
        let src = self.value(value, Some(dst));
        self.move_to(dst, src);
    }

    /// `dst = src`, unless it is there already.
    pub(super) fn move_to(&mut self, dst: Reg, src: Value) {
        if src != Value::Reg(dst) {
            self.emit(Instruction::Unary { op: Unary::Mov, ty: bits(dst.class), dst, src });
        }
    }

    /// A variable's register.
    pub(super) fn local(&mut self, id: LocalId) -> Reg {
        if let Some(&Some(reg)) = self.locals.get(id.0) {
            return reg;
        }
        let class = self.program.locals.get(id.0).map_or(Class::B64, |local| class_of(local.ty));
        let reg = self.fresh(class);
        if let Some(slot) = self.locals.get_mut(id.0) {
            *slot = Some(reg);
        }
        reg
    }

    fn unary(&mut self, op: Unary, ty: Type, class: Class, src: Value, want: Option<Reg>) -> Value {
        let dst = want.unwrap_or_else(|| self.fresh(class));
        self.emit(Instruction::Unary { op, ty, dst, src });
        Value::Reg(dst)
    }

    fn intrinsic(
        &mut self,
        intrinsic: Intrinsic,
        args: &[(Value, ValueType)],
        ty: Type,
        class: Class,
        want: Option<Reg>,
    ) -> Value {
        let Some(&(a, a_ty)) = args.first() else { return Value::Imm(0) };
        let b = args.get(1).map_or(a, |&(b, _)| b);
        let wide = class_of(a_ty) == Class::B64;
        let raw = bits(class_of(a_ty));
        match intrinsic {
            Intrinsic::Hash => Value::Reg(self.hash32(a, want)),
            Intrinsic::Hash64 => Value::Reg(self.hash64(a, want)),
            Intrinsic::Min | Intrinsic::Max => {
                let op = if intrinsic == Intrinsic::Min { Binary::Min } else { Binary::Max };
                let dst = want.unwrap_or_else(|| self.fresh(class));
                self.binary(op, ty, dst, a, b);
                Value::Reg(dst)
            }
            Intrinsic::Abs => self.unary(Unary::Abs, ty, class, a, want),
            Intrinsic::Popc => self.unary(Unary::Popc, raw, Class::B32, a, want),
            Intrinsic::Clz => self.unary(Unary::Clz, raw, Class::B32, a, want),
            Intrinsic::Brev => self.unary(Unary::Brev, raw, class, a, want),
            Intrinsic::Ffs => {
                // The place of the lowest set bit, from 1: leading zeros of
                // the reversed bits, plus 1; 0 where none is set.
                let reversed = self.unary(Unary::Brev, raw, class_of(a_ty), a, None);
                let zeros = self.unary(Unary::Clz, raw, Class::B32, reversed, None);
                let place = self.fresh(Class::B32);
                self.binary(Binary::Add, Type::U32, place, zeros, Value::Imm(1));
                let pred = self.fresh(Class::Pred);
                let cmp_ty = if wide { Type::U64 } else { Type::U32 };
                self.emit(Instruction::Setp {
                    cmp: Compare::Eq,
                    ty: cmp_ty,
                    dst: pred,
                    a,
                    b: Value::Imm(0),
                });
                let dst = want.unwrap_or_else(|| self.fresh(Class::B32));
                self.emit(Instruction::Selp {
                    ty: Type::B32,
                    dst,
                    a: Value::Imm(0),
                    b: place.into(),
                    pred,
                });
                Value::Reg(dst)
            }
        }
    }

    /// The scenario language's `hash`.
    fn hash32(&mut self, x: Value, want: Option<Reg>) -> Reg {
        let x = self.xor_shifted(x, 16, Class::B32, None);
        let x = self.times(x, 0x7feb_352d, Class::B32);
        let x = self.xor_shifted(x, 15, Class::B32, None);
        let x = self.times(x, 0x846c_a68b, Class::B32);
        self.xor_shifted_reg(x, 16, Class::B32, want)
    }

    /// The scenario language's `hash64`.
    pub(super) fn hash64(&mut self, x: Value, want: Option<Reg>) -> Reg {
        let x = self.xor_shifted(x, 30, Class::B64, None);
        let x = self.times(x, 0xbf58_476d_1ce4_e5b9_u64 as i64, Class::B64);
        let x = self.xor_shifted(x, 27, Class::B64, None);
        let x = self.times(x, 0x94d0_49bb_1331_11eb_u64 as i64, Class::B64);
        self.xor_shifted_reg(x, 31, Class::B64, want)
    }

    fn xor_shifted(&mut self, x: Value, by: i64, class: Class, want: Option<Reg>) -> Value {
        Value::Reg(self.xor_shifted_reg(x, by, class, want))
    }

    /// `x ^ (x >> by)`
    fn xor_shifted_reg(&mut self, x: Value, by: i64, class: Class, want: Option<Reg>) -> Reg {
        let unsigned = if class == Class::B64 { Type::U64 } else { Type::U32 };
        let shifted = self.fresh(class);
        self.binary(Binary::Shr, unsigned, shifted, x, Value::Imm(by));
        let dst = want.unwrap_or_else(|| self.fresh(class));
        self.binary(Binary::Xor, bits(class), dst, x, shifted.into());
        dst
    }

    fn times(&mut self, x: Value, factor: i64, class: Class) -> Value {
        let unsigned = if class == Class::B64 { Type::U64 } else { Type::U32 };
        let dst = self.fresh(class);
        self.binary(Binary::Mul, unsigned, dst, x, Value::Imm(factor));
        Value::Reg(dst)
    }
}

fn special(builtin: Builtin) -> Special {
    let axis = |axis| match axis {
        Axis::X => 0,
        Axis::Y => 1,
        Axis::Z => 2,
    };
    match builtin {
        Builtin::ThreadIdx(a) => Special::Tid(axis(a)),
        Builtin::BlockIdx(a) => Special::Ctaid(axis(a)),
    }
}

fn comparison(op: CompareOp) -> Compare {
    match op {
        CompareOp::Eq => Compare::Eq,
        CompareOp::Ne => Compare::Ne,
        CompareOp::Lt => Compare::Lt,
        CompareOp::Le => Compare::Le,
        CompareOp::Gt => Compare::Gt,
        CompareOp::Ge => Compare::Ge,
    }
}
