//! Conversions and operators on values, as C++ defines them.

use super::context::{Failed, Lowered, Lowerer, article};
use super::fold;
use super::value::{Leaf, Pointer, Qualifiers, Target, Value, leaf_count, round_to};
use crate::program::{BinaryOp, CompareOp, Expr, ExprKind, OpaqueReason, Scalar, ValueType};
use crate::source::Span;
use crate::types::Type;
use tree_sitter::Node;

/// An operator of two operands that evaluates both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Arithmetic(BinaryOp),
    Compare(CompareOp),
}

impl Operator {
    /// The operator of this spelling; `&&`, `||` and `,` are none.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        use BinaryOp::{Add, And, Div, Mul, Or, Rem, Shl, Shr, Sub, Xor};
        use CompareOp::{Eq, Ge, Gt, Le, Lt, Ne};
        Some(match text {
            "+" => Self::Arithmetic(Add),
            "-" => Self::Arithmetic(Sub),
            "*" => Self::Arithmetic(Mul),
            "/" => Self::Arithmetic(Div),
            "%" => Self::Arithmetic(Rem),
            "&" | "bitand" => Self::Arithmetic(And),
            "|" | "bitor" => Self::Arithmetic(Or),
            "^" | "xor" => Self::Arithmetic(Xor),
            "<<" => Self::Arithmetic(Shl),
            ">>" => Self::Arithmetic(Shr),
            "==" => Self::Compare(Eq),
            "!=" | "not_eq" => Self::Compare(Ne),
            "<" => Self::Compare(Lt),
            "<=" => Self::Compare(Le),
            ">" => Self::Compare(Gt),
            ">=" => Self::Compare(Ge),
            _ => return None,
        })
    }
}

/// The type that an integer is promoted to in arithmetic.
pub(crate) fn promoted(ty: Scalar) -> Scalar {
    match ty {
        Scalar::Bool | Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => Scalar::I32,
        other => other,
    }
}

/// The type of a parameter that an expression of type `ty` gives.
pub(crate) fn param_type(ty: Scalar) -> Scalar {
    if ty == Scalar::Bool { ty } else { promoted(ty) }
}

/// The usual arithmetic conversions.
pub(crate) fn common(left: Scalar, right: Scalar) -> Scalar {
    use Scalar::{BF16, F16, F32, F64, I64, U32, U64};
    for float in [F64, F32, F16, BF16] {
        if left == float || right == float {
            return float;
        }
    }
    let (left, right) = (promoted(left), promoted(right));
    if left == U64 || right == U64 {
        U64
    } else if left == I64 || right == I64 {
        I64
    } else if left == U32 || right == U32 {
        U32
    } else {
        Scalar::I32
    }
}

/// Converts one scalar.
pub(crate) fn convert_leaf(leaf: Leaf, from: Scalar, to: Scalar, span: Span) -> Leaf {
    match leaf {
        Leaf::Int(expr) if to.is_float() => Leaf::Float(fold::as_const(&expr).map(|value| {
            let value = if from == Scalar::U64 { value as u64 as f64 } else { value as f64 };
            round_to(to, value)
        })),
        Leaf::Int(expr) => Leaf::Int(fold::convert(expr, to)),
        Leaf::Float(value) if to.is_float() => Leaf::Float(value.map(|v| round_to(to, v))),
        Leaf::Float(value) => Leaf::Int(match value.and_then(|value| truncate(value, to)) {
            Some(value) => fold::constant(to, value, span),
            None => fold::opaque(OpaqueReason::Float, to, span),
        }),
        pointer @ Leaf::Pointer(_) => pointer,
    }
}

/// A constant converted to an integer, where the type holds it.
fn truncate(value: f64, to: Scalar) -> Option<i64> {
    if to == Scalar::Bool {
        return Some(i64::from(value != 0.0));
    }
    let whole = value.trunc();
    if whole.abs() >= 9.0e15 {
        return None;
    }
    let whole = whole as i64;
    (fold::wrap(to, whole) == whole).then_some(whole)
}

impl<'a> Lowerer<'a> {
    /// An implicit conversion, as in an assignment or call.
    pub(crate) fn convert(&mut self, value: Value, to: &Type, node: Node<'a>) -> Lowered<Value> {
        if value.ty == *to {
            return Ok(value);
        }
        match (&value.ty, to) {
            (Type::Scalar(_), Type::Scalar(_)) => self.cast(value, to, node),
            (Type::Pointer(_), Type::Scalar(Scalar::Bool)) => {
                let expr = self.truth(value, node)?;
                Ok(Value::int(expr))
            }
            (Type::Pointer(_), Type::Pointer(pointee)) if **pointee == Type::Void => {
                Ok(Value { ty: to.clone(), ..value })
            }
            (Type::Scalar(_), Type::Pointer(_))
                if value.as_int().and_then(fold::as_const) == Some(0) =>
            {
                self.cast(value, to, node)
            }
            (Type::Pointer(pointee), Type::Pointer(_)) if is_null(&value, pointee) => {
                Ok(Value { ty: to.clone(), ..value })
            }
            (Type::Struct(_), _) if let Some(value) = self.conversion(&value, to, node)? => {
                Ok(value)
            }
            (from, _) => {
                let (from, to) = (self.structs.name_of(from), self.structs.name_of(to));
                let help = if from == "void" {
                    "use an expression that has a value".to_owned()
                } else if from.ends_with('*') && to.ends_with('*') {
                    format!("cast it: `({to})`")
                } else {
                    format!("use a value of type `{to}`")
                };
                Err(self.type_error(
                    node,
                    format!("wrong type: `{from}` does not convert to `{to}`"),
                    help,
                ))
            }
        }
    }

    /// An explicit conversion.
    pub(crate) fn cast(&mut self, mut value: Value, to: &Type, node: Node<'a>) -> Lowered<Value> {
        if value.ty == *to {
            return Ok(value);
        }
        let span = self.span(node);
        match (&value.ty, to) {
            (_, Type::Void) => Ok(Value::void()),
            (Type::Scalar(from), Type::Scalar(to_scalar)) => {
                let (from, to_scalar) = (*from, *to_scalar);
                let leaf = value.leaves.pop().ok_or(Failed)?;
                let mut leaf = convert_leaf(leaf, from, to_scalar, span);
                if let Leaf::Int(expr) = &mut leaf {
                    expr.span = span;
                }
                Ok(Value { ty: to.clone(), leaves: vec![leaf] })
            }
            (Type::Pointer(_), Type::Pointer(_)) => Ok(Value { ty: to.clone(), ..value }),
            (Type::Pointer(_), Type::Scalar(scalar)) if !scalar.is_float() => {
                let scalar = *scalar;
                if scalar == Scalar::Bool {
                    return Ok(Value::int(self.truth(value, node)?));
                }
                if scalar.bytes() < 8 {
                    return Err(self.type_error(
                        node,
                        "wrong type: an address has 64 bits",
                        "cast it to `size_t` or `uintptr_t` first",
                    ));
                }
                let address = self.address_of_value(value, node)?;
                let expr = Expr {
                    kind: ExprKind::Convert(Box::new(address)),
                    ty: ValueType::Int(scalar),
                    span,
                };
                Ok(Value::int(expr))
            }
            (Type::Scalar(scalar), Type::Pointer(pointee)) if !scalar.is_float() => {
                match value.leaves.pop() {
                    Some(Leaf::Int(expr)) => Ok(Value::pointer(
                        fold::to_pointer(expr),
                        (**pointee).clone(),
                        Qualifiers::default(),
                    )),
                    _ => Err(Failed),
                }
            }
            _ => self.convert(value, to, node),
        }
    }

    /// The address in a pointer to memory.
    pub(crate) fn address_of_value(&mut self, value: Value, node: Node<'a>) -> Lowered<Expr> {
        match value.leaves.into_iter().next() {
            Some(Leaf::Pointer(Pointer { target: Target::Memory(expr), .. })) => Ok(expr),
            _ => Err(self.register_address(node)),
        }
    }

    /// Refuses an address of a variable where it would have to be a number.
    pub(crate) fn register_address(&mut self, node: Node<'a>) -> Failed {
        self.not_modelled(
            node,
            "the address of a variable in this place: the variable would live in local memory",
            "use the variable itself, or an array with a constant index",
        )
    }

    /// A value as a condition.
    pub(crate) fn truth(&mut self, value: Value, node: Node<'a>) -> Lowered<Expr> {
        let span = self.span(node);
        let ty = value.ty.clone();
        match (ty, value.leaves.into_iter().next()) {
            (Type::Scalar(_), Some(Leaf::Int(expr))) => Ok(fold::convert(expr, Scalar::Bool)),
            (Type::Scalar(from), Some(leaf @ Leaf::Float(_))) => {
                match convert_leaf(leaf, from, Scalar::Bool, span) {
                    Leaf::Int(expr) => Ok(expr),
                    _ => Err(Failed),
                }
            }
            (Type::Pointer(_), Some(Leaf::Pointer(pointer))) => match pointer.target {
                Target::Memory(address) => Ok(fold::comparison(
                    CompareOp::Ne,
                    address,
                    fold::to_pointer(fold::constant(Scalar::U64, 0, span)),
                    span,
                )),
                Target::Register(..) => Ok(fold::truth(true, span)),
            },
            (ty, _) => {
                let name = self.structs.name_of(&ty);
                Err(self.type_error(
                    node,
                    format!("wrong type: {} is no condition", article(&name)),
                    "compare one of its parts with a number",
                ))
            }
        }
    }

    /// An integer operand, promoted.
    pub(crate) fn integer(&mut self, value: Value, node: Node<'a>) -> Lowered<Expr> {
        match value.as_int() {
            Some(expr) => {
                let expr = expr.clone();
                let ty = promoted(fold::scalar_of(&expr));
                Ok(fold::convert(expr, ty))
            }
            None => {
                let name = self.structs.name_of(&value.ty);
                Err(self.type_error(
                    node,
                    format!("wrong type: an integer is needed here, not {}", article(&name)),
                    if value.is_float() { "cast it: `(int)`" } else { "use an integer" },
                ))
            }
        }
    }

    /// `left op right`
    pub(crate) fn binary(
        &mut self,
        operator: Operator,
        left: Value,
        right: Value,
        node: Node<'a>,
    ) -> Lowered<Value> {
        match (&left.ty, &right.ty) {
            (Type::Scalar(a), Type::Scalar(b)) => {
                let (a, b) = (*a, *b);
                let (left, right) = (first_leaf(left)?, first_leaf(right)?);
                self.binary_scalar(operator, (left, a), (right, b), node)
            }
            (Type::Pointer(_), _) | (_, Type::Pointer(_)) => {
                self.binary_pointer(operator, left, right, node)
            }
            (Type::Vector { element, count }, other) => {
                let (element, count) = (*element, *count);
                let same = *other == left.ty;
                let scalar = match other {
                    Type::Scalar(scalar) => Some(*scalar),
                    _ => None,
                };
                if !same && scalar.is_none() {
                    return Err(self.no_operator(&left, &right, node));
                }
                let rights =
                    if same { right.leaves } else { vec![first_leaf(right)?; usize::from(count)] };
                let right_ty = scalar.unwrap_or(element);
                self.components(operator, element, left.leaves, element, rights, right_ty, node)
            }
            (Type::Scalar(scalar), Type::Vector { element, count }) => {
                let (scalar, element) = (*scalar, *element);
                let lefts = vec![first_leaf(left)?; usize::from(*count)];
                self.components(operator, element, lefts, scalar, right.leaves, element, node)
            }
            _ => Err(self.no_operator(&left, &right, node)),
        }
    }

    fn no_operator(&mut self, left: &Value, right: &Value, node: Node<'a>) -> Failed {
        let (left, right) = (self.structs.name_of(&left.ty), self.structs.name_of(&right.ty));
        self.type_error(
            node,
            format!("wrong type: no such operator for `{left}` and `{right}`"),
            "use their fields one by one",
        )
    }

    /// An operator on vectors, component by component, as CUDA's helper_math.h
    /// defines them.
    #[allow(clippy::too_many_arguments)] // two operands with their types
    fn components(
        &mut self,
        operator: Operator,
        element: Scalar,
        left: Vec<Leaf>,
        left_ty: Scalar,
        right: Vec<Leaf>,
        right_ty: Scalar,
        node: Node<'a>,
    ) -> Lowered<Value> {
        if matches!(operator, Operator::Compare(_)) {
            return Err(self.type_error(
                node,
                "wrong type: vectors have no comparison",
                "compare their components",
            ));
        }
        let count = left.len() as u8;
        let mut leaves = Vec::with_capacity(left.len());
        for (left, right) in left.into_iter().zip(right) {
            let part = self.binary_scalar(operator, (left, left_ty), (right, right_ty), node)?;
            let part = self.convert(part, &Type::Scalar(element), node)?;
            leaves.extend(part.leaves);
        }
        Ok(Value { ty: Type::Vector { element, count }, leaves })
    }

    fn binary_scalar(
        &mut self,
        operator: Operator,
        (left, left_ty): (Leaf, Scalar),
        (right, right_ty): (Leaf, Scalar),
        node: Node<'a>,
    ) -> Lowered<Value> {
        let span = self.span(node);
        let ty = common(left_ty, right_ty);
        let integral = matches!(
            operator,
            Operator::Arithmetic(
                BinaryOp::Rem
                    | BinaryOp::And
                    | BinaryOp::Or
                    | BinaryOp::Xor
                    | BinaryOp::Shl
                    | BinaryOp::Shr
            )
        );
        if ty.is_float() {
            if integral {
                return Err(self.type_error(
                    node,
                    "wrong type: this operator needs integers",
                    "cast the floating-point operand, or use fmodf for a remainder",
                ));
            }
            let known = |leaf, from| match convert_leaf(leaf, from, ty, span) {
                Leaf::Float(value) => value,
                _ => None,
            };
            let operands = known(left, left_ty).zip(known(right, right_ty));
            return Ok(match operator {
                Operator::Arithmetic(op) => Value::float(
                    ty,
                    operands.and_then(|(a, b)| match op {
                        BinaryOp::Add => Some(a + b),
                        BinaryOp::Sub => Some(a - b),
                        BinaryOp::Mul => Some(a * b),
                        BinaryOp::Div => Some(a / b),
                        _ => None,
                    }),
                ),
                Operator::Compare(op) => Value::int(match operands {
                    Some((a, b)) => fold::truth(
                        match op {
                            CompareOp::Eq => a == b,
                            CompareOp::Ne => a != b,
                            CompareOp::Lt => a < b,
                            CompareOp::Le => a <= b,
                            CompareOp::Gt => a > b,
                            CompareOp::Ge => a >= b,
                        },
                        span,
                    ),
                    None => fold::opaque(OpaqueReason::Float, Scalar::Bool, span),
                }),
            });
        }
        let (Leaf::Int(left), Leaf::Int(right)) = (left, right) else { return Err(Failed) };
        let shift = matches!(operator, Operator::Arithmetic(BinaryOp::Shl | BinaryOp::Shr));
        let (left, right) = if shift {
            // Each operand of a shift is promoted by itself.
            (fold::convert(left, promoted(left_ty)), fold::convert(right, promoted(right_ty)))
        } else {
            (fold::convert(left, ty), fold::convert(right, ty))
        };
        Ok(Value::int(match operator {
            Operator::Arithmetic(op) => fold::binary(op, left, right, span),
            Operator::Compare(op) => fold::comparison(op, left, right, span),
        }))
    }

    fn binary_pointer(
        &mut self,
        operator: Operator,
        left: Value,
        right: Value,
        node: Node<'a>,
    ) -> Lowered<Value> {
        let span = self.span(node);
        match (operator, &left.ty, &right.ty) {
            (Operator::Arithmetic(BinaryOp::Add), Type::Pointer(_), Type::Scalar(_)) => {
                let index = self.integer(right, node)?;
                self.advance(left, index, false, node)
            }
            (Operator::Arithmetic(BinaryOp::Add), Type::Scalar(_), Type::Pointer(_)) => {
                let index = self.integer(left, node)?;
                self.advance(right, index, false, node)
            }
            (Operator::Arithmetic(BinaryOp::Sub), Type::Pointer(_), Type::Scalar(_)) => {
                let index = self.integer(right, node)?;
                self.advance(left, index, true, node)
            }
            (Operator::Arithmetic(BinaryOp::Sub), Type::Pointer(a), Type::Pointer(b)) => {
                if a != b {
                    return Err(self.no_operator(&left, &right, node));
                }
                let size = self.pointee_size(a, node)?;
                let left = self.address_of_value(left, node)?;
                let right = self.address_of_value(right, node)?;
                let bytes = Expr {
                    kind: ExprKind::Binary(BinaryOp::Sub, Box::new(left), Box::new(right)),
                    ty: ValueType::Int(Scalar::I64),
                    span,
                };
                if size == 1 {
                    return Ok(Value::int(bytes));
                }
                let size = fold::constant(Scalar::I64, size as i64, span);
                Ok(Value::int(fold::binary(BinaryOp::Div, bytes, size, span)))
            }
            (Operator::Compare(op), Type::Pointer(_), Type::Pointer(_)) => {
                let left = self.address_of_value(left, node)?;
                let right = self.address_of_value(right, node)?;
                Ok(Value::int(fold::comparison(op, left, right, span)))
            }
            (Operator::Compare(_), Type::Pointer(_), Type::Scalar(_)) => {
                let ty = left.ty.clone();
                let right = self.convert(right, &ty, node)?;
                self.binary_pointer(operator, left, right, node)
            }
            (Operator::Compare(_), Type::Scalar(_), Type::Pointer(_)) => {
                let ty = right.ty.clone();
                let left = self.convert(left, &ty, node)?;
                self.binary_pointer(operator, left, right, node)
            }
            _ => Err(self.no_operator(&left, &right, node)),
        }
    }

    /// Bytes from one object to the next behind a pointer.
    fn pointee_size(&mut self, pointee: &Type, node: Node<'a>) -> Lowered<u64> {
        if *pointee == Type::Void {
            return Err(self.type_error(
                node,
                "wrong type: a `void*` points to objects of no size",
                "cast it to `char*` or to the type behind it",
            ));
        }
        Ok(self.structs.size_of(pointee).max(1))
    }

    /// A pointer moved by `index` objects, backwards if `back`.
    pub(crate) fn advance(
        &mut self,
        pointer: Value,
        index: Expr,
        back: bool,
        node: Node<'a>,
    ) -> Lowered<Value> {
        let span = self.span(node);
        let Type::Pointer(pointee) = &pointer.ty else { return Err(Failed) };
        let size = self.pointee_size(pointee, node)?;
        let scalars = leaf_count(pointee, &self.structs);
        let ty = pointer.ty.clone();
        let Some(Leaf::Pointer(Pointer { target, qualifiers })) = pointer.leaves.into_iter().next()
        else {
            return Err(Failed);
        };
        let mut step = fold::convert(index, Scalar::I64);
        if back {
            step = fold::negate(step, span);
        }
        let target = match target {
            Target::Memory(address) => {
                Target::Memory(fold::offset(address, fold::scale(step, size, span), span))
            }
            Target::Register(place, offset) => {
                let step = fold::scale(step, scalars, span);
                Target::Register(place, fold::add_index(offset, step, span))
            }
        };
        Ok(Value { ty, leaves: vec![Leaf::Pointer(Pointer { target, qualifiers })] })
    }

    /// The integer constant that an expression is, with its type.
    pub(crate) fn constant_int(&mut self, node: Node<'a>, what: &str) -> Lowered<(Scalar, i64)> {
        let (block, value) = self.in_block(|this| this.expr(node));
        let expr = self.integer(value?, node)?;
        match fold::as_const(&expr) {
            Some(value) if block.is_empty() => Ok((fold::scalar_of(&expr), value)),
            _ => Err(self.not_constant(node, &expr, what)),
        }
    }

    /// A constant that is a size: not negative.
    pub(crate) fn constant_size(&mut self, node: Node<'a>, what: &str) -> Lowered<u64> {
        let (ty, value) = self.constant_int(node, what)?;
        if ty.is_signed() && value < 0 {
            return Err(self.type_error(
                node,
                format!("{what} of {value}"),
                "use a value that is not negative",
            ));
        }
        Ok(value as u64)
    }
}

/// Whether a pointer is the null pointer constant.
fn is_null(value: &Value, pointee: &Type) -> bool {
    let [Leaf::Pointer(Pointer { target: Target::Memory(address), .. })] = value.leaves.as_slice()
    else {
        return false;
    };
    *pointee == Type::Void
        && matches!(&address.kind, ExprKind::Convert(inner) if fold::as_const(inner) == Some(0))
}

fn first_leaf(value: Value) -> Lowered<Leaf> {
    value.leaves.into_iter().next().ok_or(Failed)
}
