//! Expressions.

use super::context::{Binding, Failed, Lowered, Lowerer, article};
use super::convert::{Operator, promoted};
use super::decl::Declared;
use super::fold::{self, ArithmeticError};
use super::literal::{self, LiteralError};
use super::usage::Usage;
use super::value::{Leaf, Place, Pointer, Qualifiers, Target, Value};
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::{BinaryOp, Block, Expr, ExprKind, OpaqueReason, Scalar, StmtKind, ValueType};
use crate::types::Type;
use tree_sitter::Node;

impl<'a> Lowerer<'a> {
    /// The value of an expression; what it reads from memory is loaded now.
    pub(crate) fn expr(&mut self, node: Node<'a>) -> Lowered<Value> {
        self.nested(node, |this| this.expr_inner(node))
    }

    fn expr_inner(&mut self, node: Node<'a>) -> Lowered<Value> {
        match node.kind() {
            "identifier"
            | "type_identifier"
            | "namespace_identifier"
            | "subscript_expression"
            | "field_expression" => {
                let place = self.place(node)?;
                self.load(place, node)
            }
            "qualified_identifier" => {
                let place = self.place(node)?;
                self.load(place, node)
            }
            "pointer_expression" if self.operator(node) == "*" => {
                let place = self.place(node)?;
                self.load(place, node)
            }
            "parenthesized_expression" => match node.named_child(0) {
                Some(inner) => self.expr(inner),
                None => Err(self.syntax_error(node)),
            },
            "call_expression" => {
                if let Some(place) = self.reference_cast(node)? {
                    return self.load(place, node);
                }
                self.rvalue(node)
            }
            _ => self.rvalue(node),
        }
    }

    /// An expression that names no place.
    pub(crate) fn rvalue(&mut self, node: Node<'a>) -> Lowered<Value> {
        let span = self.span(node);
        match node.kind() {
            "number_literal" => self.number(node),
            "char_literal" => match literal::character(self.text(node)) {
                Ok(value) => Ok(Value::int(fold::constant(Scalar::I8, value, span))),
                Err(_) => Err(self.type_error(
                    node,
                    "this character is not one of C's",
                    "write its code as a number",
                )),
            },
            "true" => Ok(Value::int(fold::truth(true, span))),
            "false" => Ok(Value::int(fold::truth(false, span))),
            "null" | "nullptr" => Ok(Value::pointer(
                fold::to_pointer(fold::constant(Scalar::U64, 0, span)),
                Type::Void,
                Qualifiers::default(),
            )),
            "identifier"
            | "type_identifier"
            | "subscript_expression"
            | "field_expression"
            | "parenthesized_expression" => self.expr(node),
            "unary_expression" => self.unary(node),
            "binary_expression" => self.binary_expression(node),
            "assignment_expression" => self.assignment(node),
            "update_expression" => self.update(node, true),
            "conditional_expression" => self.conditional(node),
            "comma_expression" => {
                let place = self.comma(node, false)?;
                self.load(place, node)
            }
            "cast_expression" => {
                let (Some(ty), Some(value)) =
                    (node.child_by_field_name("type"), node.child_by_field_name("value"))
                else {
                    return Err(self.syntax_error(node));
                };
                let declared = self.type_descriptor(ty)?;
                if declared.reference {
                    let place = self.reinterpret(value, declared)?;
                    return self.load(place, node);
                }
                if declared.ty == Type::Void {
                    self.discard(value)?;
                    return Ok(Value::void());
                }
                let value = self.expr(value)?;
                self.explicit_cast(value, &declared, node)
            }
            "call_expression" => self.call(node, true),
            "sizeof_expression" | "alignof_expression" => self.size_of(node),
            "pointer_expression" => {
                let Some(argument) = node.child_by_field_name("argument") else {
                    return Err(self.syntax_error(node));
                };
                let place = self.place(argument)?;
                self.address_of(place, node)
            }
            "compound_literal_expression" => {
                let (Some(ty), Some(list)) =
                    (node.child_by_field_name("type"), node.child_by_field_name("value"))
                else {
                    return Err(self.syntax_error(node));
                };
                let ty = match ty.kind() {
                    "type_descriptor" => self.type_descriptor(ty)?.ty,
                    _ => match self.type_specifier(ty)? {
                        super::decl::Named::Type(ty) => ty,
                        _ => return Err(self.syntax_error(node)),
                    },
                };
                self.aggregate(list, &ty)
            }
            "initializer_list" => Err(self.type_error(
                node,
                "a list in braces needs a type here",
                "write `float4{…}` or declare a variable",
            )),
            "string_literal" | "concatenated_string" | "raw_string_literal" => {
                Err(self.not_modelled(node, "strings", "remove it"))
            }
            "lambda_expression" => Err(self.not_modelled(
                node,
                "lambdas",
                "write a __device__ function, or its statements in place",
            )),
            "new_expression" | "delete_expression" => Err(self.not_modelled(
                node,
                "memory allocation in kernels",
                "use a buffer of the scenario",
            )),
            "this" => match self.local_binding("this") {
                Some(Binding::Value(value)) => Ok(value.clone()),
                _ => Err(self.type_error(
                    node,
                    "`this` stands for nothing here",
                    "use it in member functions, on objects with a place",
                )),
            },
            "gnu_asm_expression" => Err(self.not_modelled(
                node,
                "inline assembly",
                "write it as CUDA C, for instance with load(x) or store(x)",
            )),
            "user_defined_literal" => Err(self.type_error(
                node,
                format!("`{}` is not a number of C", self.text(node)),
                "use a suffix such as `u`, `ll`, `f`",
            )),
            "template_function" => Err(self.type_error(
                node,
                format!("`{}` is a function, not a value", self.text(node)),
                "call it",
            )),
            "ERROR" => Err(self.syntax_error(node)),
            _ => Err(self.not_modelled(
                node,
                format!("`{}`", super::context::fold_space(self.text(node))),
                "write it with the operators of C",
            )),
        }
    }

    fn number(&mut self, node: Node<'a>) -> Lowered<Value> {
        let text = self.text(node);
        let span = self.span(node);
        // The grammar takes a sign before a number into it; in C it is an
        // operator, so that -2147483648 is a `long long`.
        let negative = text.starts_with('-');
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start();
        let error = if literal::is_float(digits) {
            match literal::float(digits) {
                Ok(float) => {
                    let value = if negative { -float.value } else { float.value };
                    return Ok(Value::float(float.ty, Some(value)));
                }
                Err(error) => error,
            }
        } else {
            match literal::integer(digits) {
                Ok(integer) => {
                    let value = fold::constant(integer.ty, integer.value, span);
                    let value = if negative { fold::negate(value, span) } else { value };
                    return Ok(Value::int(value));
                }
                Err(error) => error,
            }
        };
        Err(match error {
            LiteralError::Malformed => self.type_error(
                node,
                format!("`{text}` is not a number of C"),
                "use digits and a suffix such as `u`, `ll`, `f`",
            ),
            LiteralError::TooLarge => self.type_error(
                node,
                format!("`{text}` is too large for any integer type"),
                "the largest is 18446744073709551615ull",
            ),
        })
    }

    fn unary(&mut self, node: Node<'a>) -> Lowered<Value> {
        let span = self.span(node);
        let Some(argument) = node.child_by_field_name("argument") else {
            return Err(self.syntax_error(node));
        };
        let value = self.expr(argument)?;
        match self.operator(node) {
            "!" | "not" => {
                let condition = self.truth(value, argument)?;
                Ok(Value::int(fold::not(condition, span)))
            }
            "~" | "compl" => {
                let operand = self.integer(value, argument)?;
                Ok(Value::int(fold::complement(operand, span)))
            }
            "-" => match value.leaves.as_slice() {
                [Leaf::Float(constant)] => match value.ty {
                    Type::Scalar(ty) => Ok(Value::float(ty, constant.map(|value| -value))),
                    _ => Err(Failed),
                },
                _ if matches!(value.ty, Type::Vector { .. }) => {
                    let zero = self.zero(node, &value.ty.clone())?;
                    self.binary(Operator::Arithmetic(BinaryOp::Sub), zero, value, node)
                }
                _ => {
                    let operand = self.integer(value, argument)?;
                    Ok(Value::int(fold::negate(operand, span)))
                }
            },
            // Unary plus: promotes an integer, leaves the rest.
            _ => match value.as_int() {
                Some(expr) => {
                    let ty = promoted(fold::scalar_of(expr));
                    Ok(Value::int(fold::convert(expr.clone(), ty)))
                }
                None => Ok(value),
            },
        }
    }

    fn binary_expression(&mut self, node: Node<'a>) -> Lowered<Value> {
        let (Some(left), Some(right)) =
            (node.child_by_field_name("left"), node.child_by_field_name("right"))
        else {
            return Err(self.syntax_error(node));
        };
        let text = self.operator(node);
        match text {
            "&&" | "and" => return self.logical(false, left, right, node),
            "||" | "or" => return self.logical(true, left, right, node),
            _ => {}
        }
        let Some(operator) = Operator::from_text(text) else {
            return Err(self.not_modelled(
                node,
                format!("the operator `{text}`"),
                "use the arithmetic and comparison operators of C",
            ));
        };
        if let Some(value) = self.own_operator(text, left, right, node)? {
            return Ok(value);
        }
        let mut first = self.expr(left)?;
        let mark = self.block.len();
        let second = self.expr(right)?;
        self.keep_value(mark, &mut first);
        self.binary(operator, first, second, node)
    }

    /// An operator that the file defines for structs or vectors; `None` if it
    /// does not, or the operands are numbers and pointers.
    fn own_operator(
        &mut self,
        text: &str,
        left: Node<'a>,
        right: Node<'a>,
        node: Node<'a>,
    ) -> Lowered<Option<Value>> {
        let name = format!("operator{text}");
        let Some(functions) = self.items.functions.get(name.as_str()) else { return Ok(None) };
        let functions = functions.clone();
        let own = |ty: &Type| matches!(ty, Type::Struct(_) | Type::Vector { .. });
        if !own(&self.type_of_operand(left)?) && !own(&self.type_of_operand(right)?) {
            return Ok(None);
        }
        self.call_function(&functions, node, None, &[left, right], node).map(Some)
    }

    /// `a && b`, `a || b`. A right side that touches memory or assigns becomes
    /// a statement under the condition.
    fn logical(
        &mut self,
        or: bool,
        left: Node<'a>,
        right: Node<'a>,
        node: Node<'a>,
    ) -> Lowered<Value> {
        let span = self.span(node);
        let first = self.expr(left)?;
        let mut first = self.truth(first, left)?;
        if let Some(value) = fold::as_const(&first)
            && (value != 0) == or
        {
            return Ok(Value::int(first));
        }
        let (block, second) = self.in_block(|this| {
            let second = this.expr(right)?;
            this.truth(second, right)
        });
        let second = second?;
        if block.is_empty() {
            return Ok(Value::int(fold::logical(or, first, second, span)));
        }
        if fold::as_const(&first).is_some() {
            self.block.extend(block);
            return Ok(Value::int(second));
        }
        first.span = self.span(left);
        let local = self.local("condition", ValueType::Int(Scalar::Bool));
        self.emit(StmtKind::Set { local, value: first }, span);
        let read = self.read(local, span);
        let mut then = block;
        then.push(crate::program::Stmt {
            kind: StmtKind::Set { local, value: second },
            span: self.span(right),
        });
        let condition = if or { fold::not(read.clone(), span) } else { read.clone() };
        self.emit(StmtKind::If { condition, then, otherwise: Block::new() }, span);
        Ok(Value::int(read))
    }

    /// `c ? a : b`
    fn conditional(&mut self, node: Node<'a>) -> Lowered<Value> {
        let span = self.span(node);
        let (Some(condition_node), Some(then_node), Some(otherwise_node)) = (
            node.child_by_field_name("condition"),
            node.child_by_field_name("consequence"),
            node.child_by_field_name("alternative"),
        ) else {
            return Err(self.syntax_error(node));
        };
        let condition = self.expr(condition_node)?;
        let condition = self.truth(condition, condition_node)?;
        if let Some(value) = fold::as_const(&condition) {
            // The other side still gives the type.
            let (taken, other) =
                if value != 0 { (then_node, otherwise_node) } else { (otherwise_node, then_node) };
            let other = self.type_of(other)?;
            let value = self.expr(taken)?;
            let ty = self.common_type(&value.ty.clone(), &other, node)?;
            return self.convert(value, &ty, node);
        }
        let (then_block, then) = self.in_block(|this| this.expr(then_node));
        let (otherwise_block, otherwise) = self.in_block(|this| this.expr(otherwise_node));
        let (then, otherwise) = (then?, otherwise?);
        let ty = if is_null_pointer(&then) {
            otherwise.ty.clone()
        } else if is_null_pointer(&otherwise) {
            then.ty.clone()
        } else {
            self.common_type(&then.ty, &otherwise.ty, node)?
        };
        if ty == Type::Void {
            if !then_block.is_empty() || !otherwise_block.is_empty() {
                let kind = StmtKind::If { condition, then: then_block, otherwise: otherwise_block };
                self.emit(kind, span);
            }
            return Ok(Value::void());
        }
        let then = self.convert(then, &ty, then_node)?;
        let otherwise = self.convert(otherwise, &ty, otherwise_node)?;
        if then_block.is_empty() && otherwise_block.is_empty() {
            return self.select(condition, then, otherwise, node);
        }
        let register = self.new_register(node, "selected", &ty, qualifiers_of(&then))?;
        let side = |this: &mut Self, block: Block, value: Value| {
            let (mut stores, result) =
                this.in_block(|this| this.store_register(&register, value, node));
            result?;
            let mut block = block;
            block.append(&mut stores);
            Ok(block)
        };
        let then = side(self, then_block, then)?;
        let otherwise = side(self, otherwise_block, otherwise)?;
        self.emit(StmtKind::If { condition, then, otherwise }, span);
        self.load(Place::Register(register), node)
    }

    /// `c ? a : b` on values of one type that need no statements.
    fn select(
        &mut self,
        condition: Expr,
        then: Value,
        otherwise: Value,
        node: Node<'a>,
    ) -> Lowered<Value> {
        let span = self.span(node);
        let ty = then.ty;
        let mut leaves = Vec::with_capacity(then.leaves.len());
        for pair in then.leaves.into_iter().zip(otherwise.leaves) {
            leaves.push(match pair {
                (Leaf::Int(a), Leaf::Int(b)) => {
                    Leaf::Int(fold::select(condition.clone(), a, b, span))
                }
                (Leaf::Pointer(a), Leaf::Pointer(b)) => {
                    let qualifiers = a.qualifiers.and(b.qualifiers);
                    let (Target::Memory(a), Target::Memory(b)) = (a.target, b.target) else {
                        return Err(self.register_address(node));
                    };
                    let address = fold::select(condition.clone(), a, b, span);
                    Leaf::Pointer(Pointer { target: Target::Memory(address), qualifiers })
                }
                _ => Leaf::Float(None),
            });
        }
        Ok(Value { ty, leaves })
    }

    /// The type that both sides of `?:` convert to.
    fn common_type(&mut self, a: &Type, b: &Type, node: Node<'a>) -> Lowered<Type> {
        match (a, b) {
            _ if a == b => Ok(a.clone()),
            (Type::Scalar(a), Type::Scalar(b)) => Ok(Type::Scalar(super::convert::common(*a, *b))),
            (Type::Pointer(p), Type::Pointer(_)) if **p == Type::Void => Ok(a.clone()),
            (Type::Pointer(_), Type::Pointer(p)) if **p == Type::Void => Ok(b.clone()),
            (Type::Pointer(_), Type::Scalar(_)) => Ok(a.clone()),
            (Type::Scalar(_), Type::Pointer(_)) => Ok(b.clone()),
            _ => {
                let (left, right) = (self.structs.name_of(a), self.structs.name_of(b));
                Err(self.type_error(
                    node,
                    format!(
                        "wrong type: one side is {}, the other {}",
                        article(&left),
                        article(&right)
                    ),
                    "convert one of them",
                ))
            }
        }
    }

    /// `a, b`
    pub(crate) fn comma(&mut self, node: Node<'a>, as_place: bool) -> Lowered<Place> {
        let (Some(left), Some(right)) =
            (node.child_by_field_name("left"), node.child_by_field_name("right"))
        else {
            return Err(self.syntax_error(node));
        };
        self.discard(left)?;
        match right.kind() {
            "comma_expression" => self.nested(right, |this| this.comma(right, as_place)),
            _ if as_place => self.place(right),
            _ => Ok(Place::Value(self.expr(right)?)),
        }
    }

    /// An expression whose value nobody uses: what it assigns and calls
    /// happens; reading a plain place does not, as nvcc drops it (`load(x)`
    /// reads it).
    pub(crate) fn discard(&mut self, node: Node<'a>) -> Lowered<()> {
        match node.kind() {
            "comma_expression" => {
                let (Some(left), Some(right)) =
                    (node.child_by_field_name("left"), node.child_by_field_name("right"))
                else {
                    return Err(self.syntax_error(node));
                };
                self.nested(node, |this| {
                    let first = this.discard(left);
                    this.discard(right)?;
                    first
                })
            }
            "parenthesized_expression" => match node.named_child(0) {
                Some(inner) => self.nested(node, |this| this.discard(inner)),
                None => Err(self.syntax_error(node)),
            },
            "update_expression" => self.update(node, false).map(drop),
            "call_expression" => {
                if self.reference_cast(node)?.is_some() {
                    return Ok(());
                }
                self.call(node, false).map(drop)
            }
            "identifier" | "subscript_expression" | "field_expression" | "pointer_expression" => {
                match self.place(node)? {
                    Place::Memory(memory) if memory.qualifiers.volatile => {
                        self.load(Place::Memory(memory), node).map(drop)
                    }
                    rows @ Place::Rows(_) if node.kind() == "subscript_expression" => {
                        Err(self.too_few_indices(&rows, node))
                    }
                    _ => Ok(()),
                }
            }
            "cast_expression" => match node.child_by_field_name("value") {
                Some(value) => self.nested(node, |this| this.discard(value)),
                None => Err(self.syntax_error(node)),
            },
            _ => self.expr(node).map(drop),
        }
    }

    // Assignment

    fn assignment(&mut self, node: Node<'a>) -> Lowered<Value> {
        let (Some(left), Some(right)) =
            (node.child_by_field_name("left"), node.child_by_field_name("right"))
        else {
            return Err(self.syntax_error(node));
        };
        let text = self.operator(node);
        if text == "=" {
            return self.simple_assignment(left, right);
        }
        let spelling = match text {
            "and_eq" => "&",
            "or_eq" => "|",
            "xor_eq" => "^",
            _ => text.trim_end_matches('='),
        };
        let Some(operator) = Operator::from_text(spelling) else {
            return Err(self.syntax_error(node));
        };
        if let Some(value) = self.own_operator(text, left, right, node)? {
            return Ok(value);
        }
        // C++17 evaluates the right side of an assignment first.
        let mut value = self.expr(right)?;
        let mark = self.block.len();
        let place = self.place(left)?;
        self.keep_value(mark, &mut value);
        let old = self.load(place.clone(), left)?;
        let ty = old.ty.clone();
        let new = self.binary(operator, old, value, node)?;
        let new = self.convert(new, &ty, node)?;
        self.store(&place, new.clone(), left)?;
        self.assigned_value(place, new, left)
    }

    fn simple_assignment(&mut self, left: Node<'a>, right: Node<'a>) -> Lowered<Value> {
        if right.kind() == "initializer_list" {
            let place = self.place(left)?;
            let Some(ty) = self.place_type(&place) else {
                return Err(self.too_few_indices(&place, left));
            };
            let value = self.aggregate(right, &ty)?;
            self.store(&place, value.clone(), left)?;
            return self.assigned_value(place, value, left);
        }
        if super::decl::is_place(right) && matches!(self.type_of_operand(right)?, Type::Struct(_)) {
            return self.assign_struct(left, right);
        }
        let mut value = self.expr(right)?;
        let mark = self.block.len();
        let place = self.place(left)?;
        self.keep_value(mark, &mut value);
        let Some(ty) = self.place_type(&place) else {
            return Err(self.too_few_indices(&place, left));
        };
        if matches!(place, Place::Value(_)) || matches!(ty, Type::Array { .. }) {
            // The error about the place comes before one about its type.
            self.store(&place, value, left)?;
            return Err(Failed);
        }
        let value = self.convert(value, &ty, right)?;
        self.store(&place, value.clone(), left)?;
        self.assigned_value(place, value, left)
    }

    /// The assignment of a struct that has a place: a copy where both sides are
    /// in memory.
    fn assign_struct(&mut self, left: Node<'a>, right: Node<'a>) -> Lowered<Value> {
        let mut from = self.place(right)?;
        let mark = self.block.len();
        let to = self.place(left)?;
        self.keep_place(mark, &mut from);
        let same = self.place_type(&to) == self.place_type(&from);
        match (&from, &to) {
            (Place::Memory(from), Place::Memory(to)) if same => {
                self.check_writable(to, left)?;
                self.copy_memory(from, to, right, left)?;
                return Ok(Value::void());
            }
            (Place::Register(from), Place::Memory(to)) if same && from.moved => {
                self.check_writable(to, left)?;
                self.store_whole(to, left)?;
                return Ok(Value::void());
            }
            _ => {}
        }
        let Some(ty) = self.place_type(&to) else {
            return Err(self.too_few_indices(&to, left));
        };
        let value = match (from, &to) {
            (Place::Memory(memory), Place::Register(register))
                if same && left.kind() == "identifier" && !register.read_only =>
            {
                let used = self.usage(self.text(left), &ty);
                let place = Place::Memory(memory);
                match used {
                    Usage::Fields(_) | Usage::Moved => self.used_place(place, &used, right)?,
                    Usage::Whole => self.load(place, right)?,
                }
            }
            (from, _) => self.load(from, right)?,
        };
        let value = self.convert(value, &ty, right)?;
        self.store(&to, value.clone(), left)?;
        self.assigned_value(to, value, left)
    }

    /// The value of an assignment: a variable's new value, or what was stored.
    fn assigned_value(&mut self, place: Place, value: Value, node: Node<'a>) -> Lowered<Value> {
        match place {
            Place::Register(_) => self.load(place, node),
            _ => Ok(value),
        }
    }

    /// `++x`, `x--` and their like.
    fn update(&mut self, node: Node<'a>, wanted: bool) -> Lowered<Value> {
        let span = self.span(node);
        let (Some(argument), Some(operator)) =
            (node.child_by_field_name("argument"), node.child_by_field_name("operator"))
        else {
            return Err(self.syntax_error(node));
        };
        let prefix = operator.start_byte() < argument.start_byte();
        let place = self.place(argument)?;
        let old = self.load(place.clone(), argument)?;
        let ty = old.ty.clone();
        if !matches!(ty, Type::Scalar(_) | Type::Pointer(_)) {
            let name = self.structs.name_of(&ty);
            return Err(self.type_error(
                node,
                format!("wrong type: {} cannot be counted up or down", article(&name)),
                "use an integer or a pointer",
            ));
        }
        let old = if wanted && !prefix { self.held(old, "before") } else { old };
        let op = if self.text(operator) == "++" { BinaryOp::Add } else { BinaryOp::Sub };
        let one = Value::int(fold::constant(Scalar::I32, 1, span));
        let new = self.binary(Operator::Arithmetic(op), old.clone(), one, node)?;
        let new = self.convert(new, &ty, node)?;
        self.store(&place, new.clone(), argument)?;
        if prefix && wanted { self.assigned_value(place, new, argument) } else { Ok(old) }
    }

    // Casts

    /// A cast to a type that is no reference.
    pub(crate) fn explicit_cast(
        &mut self,
        value: Value,
        declared: &Declared<'a>,
        node: Node<'a>,
    ) -> Lowered<Value> {
        let mut value = self.cast(value, &declared.ty, node)?;
        // A cast says anew what may be done through the pointer.
        for leaf in &mut value.leaves {
            if let (Leaf::Pointer(pointer), Type::Pointer(_)) = (leaf, &declared.ty) {
                pointer.qualifiers = declared.pointee;
            }
        }
        Ok(value)
    }

    /// The place that a cast to a reference names: `reinterpret_cast<float4&>(x)`.
    /// `None` if the call is something else.
    pub(crate) fn reference_cast(&mut self, node: Node<'a>) -> Lowered<Option<Place>> {
        let Some((name, declared, argument)) = self.named_cast(node)? else { return Ok(None) };
        if !declared.reference || name == "dynamic_cast" {
            return Ok(None);
        }
        self.reinterpret(argument, declared).map(Some)
    }

    /// The parts of `static_cast<T>(x)` and its like: name, type, operand.
    pub(crate) fn named_cast(
        &mut self,
        node: Node<'a>,
    ) -> Lowered<Option<(&'a str, Declared<'a>, Node<'a>)>> {
        let Some(function) = node.child_by_field_name("function") else { return Ok(None) };
        if function.kind() != "template_function" {
            return Ok(None);
        }
        let Some(name) = function.child_by_field_name("name") else { return Ok(None) };
        let name = self.text(name);
        if !matches!(name, "static_cast" | "reinterpret_cast" | "const_cast" | "dynamic_cast") {
            return Ok(None);
        }
        let ty = function
            .child_by_field_name("arguments")
            .and_then(|arguments| arguments.named_child(0))
            .filter(|ty| ty.kind() == "type_descriptor");
        let argument = node
            .child_by_field_name("arguments")
            .filter(|arguments| arguments.named_child_count() == 1)
            .and_then(|arguments| arguments.named_child(0));
        let (Some(ty), Some(argument)) = (ty, argument) else {
            return Err(self.syntax_error(node));
        };
        Ok(Some((name, self.type_descriptor(ty)?, argument)))
    }

    /// A place seen as one of another type.
    fn reinterpret(&mut self, node: Node<'a>, declared: Declared<'a>) -> Lowered<Place> {
        let place = self.place(node)?;
        if self.place_type(&place).as_ref() == Some(&declared.ty) {
            return Ok(place);
        }
        let pointer = self.address_of(place, node)?;
        let to = Type::Pointer(Box::new(declared.ty));
        let mut pointer = self.cast(pointer, &to, node)?;
        for leaf in &mut pointer.leaves {
            if let Leaf::Pointer(pointer) = leaf {
                pointer.qualifiers = declared.pointee;
            }
        }
        self.dereference(pointer, node)
    }

    // Types of expressions

    /// The type of an expression that is not evaluated.
    pub(crate) fn type_of(&mut self, node: Node<'a>) -> Lowered<Type> {
        self.unevaluated(|this| {
            let place = this.place(node)?;
            match this.place_type(&place) {
                Some(ty) => Ok(ty),
                None => Ok(this.load(place, node)?.ty),
            }
        })
    }

    /// The type of an operand that is evaluated as well. Worked out once in each
    /// call: an operand that is looked at before it is evaluated has operands of
    /// its own, and so on.
    pub(crate) fn type_of_operand(&mut self, node: Node<'a>) -> Lowered<Type> {
        let key = (self.call, node.id());
        if let Some(ty) = self.types.get(&key) {
            return ty.clone();
        }
        let ty = self.type_of(node);
        self.types.insert(key, ty.clone());
        ty
    }

    /// `sizeof` and `alignof`
    fn size_of(&mut self, node: Node<'a>) -> Lowered<Value> {
        let span = self.span(node);
        let ty = if let Some(ty) = node.child_by_field_name("type") {
            self.type_descriptor(ty)?.ty
        } else if let Some(value) = node.child_by_field_name("value") {
            let mut inner = value;
            while inner.kind() == "parenthesized_expression" {
                match inner.named_child(0) {
                    Some(child) => inner = child,
                    None => return Err(self.syntax_error(node)),
                }
            }
            match self.type_by_name(inner)? {
                Some(ty) => ty,
                None => self.type_of(inner)?,
            }
        } else {
            return Err(self.syntax_error(node));
        };
        if ty == Type::Void {
            return Err(self.type_error(node, "`void` has no size", "name another type"));
        }
        let bytes = if node.kind() == "sizeof_expression" {
            self.structs.size_of(&ty)
        } else {
            self.structs.align_of(&ty)
        };
        Ok(Value::int(fold::constant(Scalar::U64, bytes as i64, span)))
    }

    /// The type that a name stands for, where it does not stand for a value.
    pub(crate) fn type_by_name(&mut self, node: Node<'a>) -> Lowered<Option<Type>> {
        let node = match node.kind() {
            "qualified_identifier" => match node.child_by_field_name("name") {
                Some(name) => name,
                None => return Ok(None),
            },
            _ => node,
        };
        if !matches!(node.kind(), "identifier" | "type_identifier") {
            return Ok(None);
        }
        let name = self.text(node);
        let is_type = match self.local_binding(name) {
            Some(Binding::Type(_)) => true,
            Some(_) => false,
            None => {
                self.items.types.get(name).is_some_and(|item| item.template.is_none())
                    || self.structs.by_name(name).is_some()
                    || crate::types::type_of_word(name).is_some()
            }
        };
        if !is_type {
            return Ok(None);
        }
        match self.named_type(node, name)? {
            super::decl::Named::Type(ty) => Ok(Some(ty)),
            _ => Ok(None),
        }
    }

    // Errors

    /// Why an expression that must be a constant is none.
    pub(crate) fn not_constant(&mut self, node: Node<'a>, expr: &Expr, what: &str) -> Failed {
        let mut culprit: Option<Diagnostic> = None;
        fold::visit(expr, &mut |part| {
            if let Some(error) = constant_error(part) {
                // The innermost one, visited last.
                culprit = Some(error);
            }
        });
        if let Some(error) = culprit {
            return self.fail(error);
        }
        let span = self.span(node);
        self.fail(Diagnostic::new(
            Kind::Type,
            span,
            format!("{what} must be a constant"),
            "use literals, parameters of the scenario, #define or constexpr",
        ))
    }

    /// Records a syntax error.
    pub(crate) fn syntax_error(&mut self, node: Node<'a>) -> Failed {
        let span = self.span(node);
        let text = super::context::fold_space(self.text(node));
        let message = if text.is_empty() {
            "syntax error".to_owned()
        } else {
            let short: String = text.chars().take(40).collect();
            let dots = if short.len() < text.len() { "…" } else { "" };
            format!("syntax error at `{short}{dots}`")
        };
        self.fail(Diagnostic::new(
            Kind::Syntax,
            span,
            message,
            "the kernel must be CUDA C++ that nvcc accepts",
        ))
    }
}

/// The error of an operation on constants that was left unfolded.
pub(crate) fn constant_error(expr: &Expr) -> Option<Diagnostic> {
    let (op, left, right, ty) = match &expr.kind {
        ExprKind::Binary(op, left, right) => {
            let ValueType::Int(ty) = expr.ty else { return None };
            (*op, fold::as_const(left)?, fold::as_const(right)?, ty)
        }
        ExprKind::Neg(operand) => {
            let ValueType::Int(ty) = expr.ty else { return None };
            (BinaryOp::Sub, 0, fold::as_const(operand)?, ty)
        }
        _ => return None,
    };
    let name = crate::types::scalar_name(ty);
    let (message, help) = match fold::arithmetic(op, ty, left, right).err()? {
        ArithmeticError::Overflow => (
            format!("signed overflow: {left} {} {right} does not fit `{name}`", op_text(op)),
            if ty == Scalar::I32 {
                "make an operand a `long long`, for instance with the suffix ll"
            } else {
                "use smaller values"
            },
        ),
        ArithmeticError::DivisionByZero => {
            (format!("division by zero: {left} {} 0", op_text(op)), "make the divisor at least 1")
        }
        ArithmeticError::ShiftTooFar => (
            format!("shift too far: {} has {} bits, not {right}", article(name), 8 * ty.bytes()),
            "shift by 0 up to the number of bits - 1, or use a wider type",
        ),
    };
    Some(Diagnostic::new(Kind::Evaluation, expr.span, message, help))
}

fn op_text(op: BinaryOp) -> &'static str {
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

fn is_null_pointer(value: &Value) -> bool {
    matches!(&value.ty, Type::Pointer(pointee) if **pointee == Type::Void)
        && matches!(value.leaves.as_slice(), [Leaf::Pointer(Pointer { target: Target::Memory(a), .. })]
            if matches!(&a.kind, ExprKind::Convert(inner) if fold::as_const(inner) == Some(0)))
}

fn qualifiers_of(value: &Value) -> Qualifiers {
    match value.leaves.as_slice() {
        [Leaf::Pointer(pointer)] => pointer.qualifiers,
        _ => Qualifiers::default(),
    }
}

/// A value of this type of which nothing is known.
pub(crate) fn unknown_value(ty: &Type, scalars: usize) -> Value {
    Value { ty: ty.clone(), leaves: vec![Leaf::Float(None); scalars] }
}

/// An integer that comes from floating point.
pub(crate) fn from_float(ty: Scalar, span: crate::source::Span) -> Value {
    Value::int(fold::opaque(OpaqueReason::Float, ty, span))
}
