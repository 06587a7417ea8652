//! Statements.

use super::context::{Binding, Breaks, Failed, Lowered, Lowerer, Returns};
use super::fold;
use super::items;
use super::value::Place;
use crate::program::{Block, CompareOp, Expr, Scalar, StmtKind, ValueType};
use crate::types::Type;
use tree_sitter::Node;

impl<'a> Lowerer<'a> {
    /// A statement. Its error, if it has one, is recorded, and what follows is
    /// lowered as well.
    pub(crate) fn statement(&mut self, node: Node<'a>) {
        // The errors of a failed statement are recorded.
        let _ = self.nested(node, |this| this.statement_inner(node));
    }

    /// The statements between braces, in the current scope.
    pub(crate) fn block_statement(&mut self, node: Node<'a>) {
        let mut cursor = node.walk();
        let statements: Vec<_> = node.named_children(&mut cursor).collect();
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement_inner(&mut self, node: Node<'a>) -> Lowered<()> {
        let span = self.span(node);
        match node.kind() {
            "compound_statement" => {
                self.scoped(|this| this.block_statement(node));
                Ok(())
            }
            "declaration" => {
                self.local_declaration(node);
                Ok(())
            }
            "expression_statement" => match node.named_child(0) {
                Some(expression) => {
                    if let Some(done) = self.pointer_to_array(expression) {
                        return done;
                    }
                    self.discard(expression)
                }
                None => Ok(()),
            },
            "if_statement" => self.scoped(|this| this.if_statement(node)),
            "for_statement" => self.scoped(|this| this.for_statement(node)),
            "while_statement" => self.scoped(|this| this.while_statement(node)),
            "do_statement" => self.do_statement(node),
            "switch_statement" => self.scoped(|this| this.switch_statement(node)),
            "return_statement" => self.return_statement(node),
            "break_statement" => match self.breaks {
                Breaks::Loop | Breaks::Switch => {
                    self.emit(StmtKind::Break, span);
                    Ok(())
                }
                Breaks::Nothing => {
                    Err(self.type_error(node, "`break` outside a loop", "remove it"))
                }
            },
            "continue_statement" => match self.breaks {
                Breaks::Loop => {
                    self.emit(StmtKind::Continue, span);
                    Ok(())
                }
                Breaks::Switch => Err(self.not_modelled(
                    node,
                    "`continue` in a switch whose cases fall through",
                    "write the switch as if … else if …",
                )),
                Breaks::Nothing => {
                    Err(self.type_error(node, "`continue` outside a loop", "remove it"))
                }
            },
            "attributed_statement" => {
                let mut cursor = node.walk();
                let inner = node
                    .named_children(&mut cursor)
                    .find(|child| child.kind() != "attribute_declaration");
                if let Some(inner) = inner {
                    self.statement(inner);
                }
                Ok(())
            }
            // A label without `goto` means nothing.
            "labeled_statement" => {
                if let Some(inner) = node.named_child(1) {
                    self.statement(inner);
                }
                Ok(())
            }
            "type_definition" => self.local_typedef(node),
            "alias_declaration" => {
                let (Some(name), Some(ty)) =
                    (node.child_by_field_name("name"), node.child_by_field_name("type"))
                else {
                    return Err(self.syntax_error(node));
                };
                let name = self.text(name);
                let binding = match self.type_descriptor(ty) {
                    Ok(declared) => Binding::Type(declared.ty),
                    Err(Failed) => Binding::Poisoned,
                };
                self.bind(name, binding);
                Ok(())
            }
            "struct_specifier" | "class_specifier" | "enum_specifier" | "union_specifier" => {
                let binding = match self.type_specifier(node) {
                    Ok(super::decl::Named::Type(ty)) => Binding::Type(ty),
                    _ => Binding::Poisoned,
                };
                if let Some(name) = node.child_by_field_name("name") {
                    self.bind(self.text(name), binding);
                }
                Ok(())
            }
            "using_declaration" | "static_assert_declaration" | "namespace_alias_definition" => {
                Ok(())
            }
            "goto_statement" => Err(self.not_modelled(node, "goto", "use a loop, break or return")),
            "for_range_loop" => Err(self.not_modelled(
                node,
                "loops over ranges",
                "write `for (int i = 0; i < n; ++i)`",
            )),
            "try_statement" | "throw_statement" => {
                Err(self.not_modelled(node, "exceptions", "remove them"))
            }
            "ERROR" => Err(self.syntax_error(node)),
            "function_definition" | "template_declaration" => Err(self.not_modelled(
                node,
                "a function inside a kernel's body",
                "write the kernel as a whole __global__ function, with this one before it",
            )),
            kind => Err(self.not_modelled(
                node,
                format!("this statement ({})", kind.replace('_', " ")),
                "use declarations, assignments, if, loops, calls",
            )),
        }
    }

    /// `float (*p)[32] = …;`, which the grammar takes for the assignment to an
    /// element of a call's result.
    fn pointer_to_array(&mut self, node: Node<'a>) -> Option<Lowered<()>> {
        if node.kind() != "assignment_expression" || self.operator(node) != "=" {
            return None;
        }
        let value = node.child_by_field_name("right")?;
        let mut left = node.child_by_field_name("left")?;
        let mut lengths = Vec::new();
        while left.kind() == "subscript_expression" {
            lengths.push(left.child_by_field_name("indices")?.named_child(0)?);
            left = left.child_by_field_name("argument")?;
        }
        if lengths.is_empty() || left.kind() != "call_expression" {
            return None;
        }
        let ty = left.child_by_field_name("function")?;
        let name = left.child_by_field_name("arguments")?.named_child(0)?;
        if name.kind() != "pointer_expression" || self.operator(name) != "*" {
            return None;
        }
        let name = name.child_by_field_name("argument").filter(|n| n.kind() == "identifier")?;
        let base = match ty.kind() {
            "primitive_type" => match self.type_specifier(ty) {
                Ok(super::decl::Named::Type(ty)) => ty,
                _ => return Some(Err(Failed)),
            },
            _ => match self.type_by_name(ty) {
                Ok(Some(ty)) => ty,
                Ok(None) => return None,
                Err(Failed) => return Some(Err(Failed)),
            },
        };
        Some(self.declare_pointer_to_array(name, base, &lengths, value))
    }

    fn declare_pointer_to_array(
        &mut self,
        name: Node<'a>,
        mut ty: Type,
        lengths: &[Node<'a>],
        value: Node<'a>,
    ) -> Lowered<()> {
        // The last length was met first.
        for length in lengths {
            let len = self.constant_size(*length, "an array length")?;
            ty = Type::Array { element: Box::new(ty), len };
        }
        let ty = Type::Pointer(Box::new(ty));
        let initial = self.initial_value(value, &ty)?;
        let declared = super::decl::Declared {
            name: Some(name),
            ty,
            reference: false,
            unsized_array: false,
            read_only: false,
            pointee: Default::default(),
        };
        self.declare_variable(name, declared, Some(initial), &Default::default())
    }

    fn local_typedef(&mut self, node: Node<'a>) -> Lowered<()> {
        let specifiers = self.specifiers(node)?;
        let super::decl::Named::Type(base) = specifiers.ty else {
            return Err(self.syntax_error(node));
        };
        let mut cursor = node.walk();
        let declarators: Vec<_> = node.children_by_field_name("declarator", &mut cursor).collect();
        for declarator in declarators {
            let declared = self.declarator(declarator, base.clone())?;
            if let Some(name) = declared.name {
                self.bind(self.text(name), Binding::Type(declared.ty));
            }
        }
        Ok(())
    }

    /// A condition, whose accesses go to the current block.
    fn condition(&mut self, node: Node<'a>) -> Lowered<Expr> {
        let node = match node.kind() {
            "condition_clause" => {
                if let Some(init) = node.child_by_field_name("initializer") {
                    self.init_statement(init)?;
                }
                match node.child_by_field_name("value") {
                    Some(value) => value,
                    None => return Err(self.syntax_error(node)),
                }
            }
            _ => node,
        };
        if node.kind() == "declaration" {
            self.local_declaration(node);
            let name = node.child_by_field_name("declarator").and_then(items::declared_name);
            let Some(name) = name else { return Err(self.syntax_error(node)) };
            let value = self.expr(name)?;
            return self.truth(value, name);
        }
        let value = self.expr(node)?;
        self.truth(value, node)
    }

    fn init_statement(&mut self, node: Node<'a>) -> Lowered<()> {
        match node.kind() {
            "init_statement" => match node.named_child(0) {
                Some(inner) => self.init_statement(inner),
                None => Ok(()),
            },
            "declaration" => {
                self.local_declaration(node);
                Ok(())
            }
            "expression_statement" | "alias_declaration" | "type_definition" => {
                self.statement(node);
                Ok(())
            }
            _ => self.discard(node),
        }
    }

    fn if_statement(&mut self, node: Node<'a>) -> Lowered<()> {
        let span = self.span(node);
        let (Some(condition), Some(then)) =
            (node.child_by_field_name("condition"), node.child_by_field_name("consequence"))
        else {
            return Err(self.syntax_error(node));
        };
        let otherwise = node
            .child_by_field_name("alternative")
            .and_then(|clause| clause.named_child(0).filter(|_| clause.kind() == "else_clause"));
        let condition = self.condition(condition);
        // A branch that is never taken may be anything: `if constexpr`, `if
        // (blockSize >= 512)` in a template.
        if let Ok(condition) = &condition
            && let Some(value) = fold::as_const(condition)
        {
            let (taken, other) =
                if value != 0 { (Some(then), otherwise) } else { (otherwise, Some(then)) };
            if let Some(other) = other {
                self.dropped.push(self.unit.range(other));
            }
            if let Some(taken) = taken {
                self.scoped(|this| this.statement(taken));
            }
            return Ok(());
        }
        let (then, ()) = self.in_block(|this| this.scoped(|this| this.statement(then)));
        let (otherwise, ()) = self.in_block(|this| {
            if let Some(otherwise) = otherwise {
                this.scoped(|this| this.statement(otherwise));
            }
        });
        let condition = condition?;
        if !then.is_empty() {
            self.emit(StmtKind::If { condition, then, otherwise }, span);
        } else if !otherwise.is_empty() {
            let condition = fold::not(condition, span);
            self.emit(StmtKind::If { condition, then: otherwise, otherwise: then }, span);
        }
        Ok(())
    }

    fn for_statement(&mut self, node: Node<'a>) -> Lowered<()> {
        if let Some(init) = node.child_by_field_name("initializer") {
            self.init_statement(init)?;
        }
        let condition = node.child_by_field_name("condition");
        let update = node.child_by_field_name("update");
        let Some(body) = node.child_by_field_name("body") else {
            return Err(self.syntax_error(node));
        };
        self.loop_statement(node, condition, body, update, true)
    }

    fn while_statement(&mut self, node: Node<'a>) -> Lowered<()> {
        let (Some(condition), Some(body)) =
            (node.child_by_field_name("condition"), node.child_by_field_name("body"))
        else {
            return Err(self.syntax_error(node));
        };
        self.loop_statement(node, Some(condition), body, None, true)
    }

    fn do_statement(&mut self, node: Node<'a>) -> Lowered<()> {
        let (Some(condition), Some(body)) =
            (node.child_by_field_name("condition"), node.child_by_field_name("body"))
        else {
            return Err(self.syntax_error(node));
        };
        self.loop_statement(node, Some(condition), body, None, false)
    }

    fn loop_statement(
        &mut self,
        node: Node<'a>,
        condition: Option<Node<'a>>,
        body: Node<'a>,
        step: Option<Node<'a>>,
        test_first: bool,
    ) -> Lowered<()> {
        let span = self.span(node);
        let (header, condition) = self.in_block(|this| match condition {
            Some(condition) => this.condition(condition),
            None => Ok(fold::truth(true, span)),
        });
        let outer = std::mem::replace(&mut self.breaks, Breaks::Loop);
        let (body, ()) = self.in_block(|this| this.scoped(|this| this.statement(body)));
        self.breaks = outer;
        let (step, stepped) = self.in_block(|this| match step {
            Some(step) => this.discard(step),
            None => Ok(()),
        });
        stepped?;
        let condition = condition?;
        // `do { … } while (0)`, as macros have it, runs once.
        let once = !test_first && header.is_empty() && fold::as_const(&condition) == Some(0);
        if once && !leaves_loop(&body) {
            self.block.extend(body);
            return Ok(());
        }
        self.emit(StmtKind::Loop { header, condition, body, step, test_first }, span);
        Ok(())
    }

    fn return_statement(&mut self, node: Node<'a>) -> Lowered<()> {
        let span = self.span(node);
        let value = node.named_child(0);
        match self.returns.clone() {
            Returns::Kernel => {
                if let Some(value) = value {
                    return Err(self.type_error(
                        value,
                        "a kernel returns nothing",
                        "store the result in a buffer",
                    ));
                }
                self.emit(StmtKind::Return, span);
            }
            Returns::Call(None) => {
                if let Some(value) = value {
                    self.discard(value)?;
                }
                self.emit(StmtKind::Return, span);
            }
            Returns::Call(Some(place)) => {
                let (Some(value), Some(ty)) = (value, self.place_type(&place)) else {
                    return Err(self.type_error(node, "a value must be returned", "return one"));
                };
                let result = self.initial_value(value, &ty)?;
                if let Place::Register(register) = &place {
                    self.store_register(register, result, value)?;
                }
                self.emit(StmtKind::Return, span);
            }
            Returns::Tail(ty, _) => {
                let result = match (value, &ty) {
                    (None, _) => None,
                    (Some(value), Some(Type::Void)) => {
                        self.discard(value)?;
                        None
                    }
                    (Some(value), Some(ty)) => Some(self.initial_value(value, ty)?),
                    (Some(value), None) => Some(self.expr(value)?),
                };
                self.returns = Returns::Tail(ty, result);
            }
        }
        Ok(())
    }

    // switch

    fn switch_statement(&mut self, node: Node<'a>) -> Lowered<()> {
        let span = self.span(node);
        let (Some(condition), Some(body)) =
            (node.child_by_field_name("condition"), node.child_by_field_name("body"))
        else {
            return Err(self.syntax_error(node));
        };
        let value_node = condition.child_by_field_name("value").unwrap_or(condition);
        if let Some(init) = condition.child_by_field_name("initializer") {
            self.init_statement(init)?;
        }
        let value = self.expr(value_node)?;
        let value = self.integer(value, value_node)?;
        let value = match fold::as_const(&value) {
            Some(_) => value,
            None => self.temporary("switch", value),
        };
        let cases = self.cases(body, fold::scalar_of(&value))?;
        if cases.iter().all(|case| case.leaves) && !cases.iter().any(|case| case.inner_break) {
            return self.switch_as_ifs(value, cases);
        }
        // Cases that fall through: a loop of one iteration, which `break`
        // leaves; once a case was met, the following ones run, too.
        let bool_type = ValueType::Int(Scalar::Bool);
        let met = self.local("met", bool_type);
        self.emit(StmtKind::Set { local: met, value: fold::truth(false, span) }, span);
        if let Some(default) = cases.iter().position(|case| case.is_default)
            && default + 1 != cases.len()
        {
            return Err(self.not_modelled(
                node,
                "a switch that falls through with `default` before other cases",
                "put `default` last",
            ));
        }
        let outer = std::mem::replace(&mut self.breaks, Breaks::Switch);
        let (body, ()) = self.in_block(|this| {
            for case in cases {
                let here = this.span(case.node);
                let matches = if case.is_default {
                    fold::truth(true, here)
                } else {
                    this.matches(&value, &case.values, here)
                };
                let met_before = this.read(met, here);
                let now = fold::logical(true, met_before, matches, here);
                this.emit(StmtKind::Set { local: met, value: now }, here);
                let (then, ()) = this.in_block(|this| {
                    for statement in case.statements {
                        this.statement(statement);
                    }
                });
                let condition = this.read(met, here);
                if !then.is_empty() {
                    let otherwise = Block::new();
                    this.emit(StmtKind::If { condition, then, otherwise }, here);
                }
            }
        });
        self.breaks = outer;
        let condition = fold::truth(false, span);
        let (header, step) = (Block::new(), Block::new());
        self.emit(StmtKind::Loop { header, condition, body, step, test_first: false }, span);
        Ok(())
    }

    /// Whether a value is one of a case's.
    fn matches(&self, value: &Expr, values: &[i64], span: crate::source::Span) -> Expr {
        let ty = fold::scalar_of(value);
        values.iter().fold(fold::truth(false, span), |any, &case| {
            let case = fold::constant(ty, case, span);
            let here = fold::comparison(CompareOp::Eq, value.clone(), case, span);
            if fold::as_const(&any) == Some(0) {
                here
            } else {
                fold::logical(true, any, here, span)
            }
        })
    }

    fn switch_as_ifs(&mut self, value: Expr, cases: Vec<Case<'a>>) -> Lowered<()> {
        let mut default = None;
        let mut branches = Vec::new();
        for case in cases {
            let here = self.span(case.node);
            // A constant switch takes one branch; the others may be anything.
            let condition = self.matches(&value, &case.values, here);
            let never = !case.is_default && fold::as_const(&condition) == Some(0);
            if never {
                self.dropped.push(self.unit.range(case.node));
            }
            let (block, ()) = self.in_block(|this| {
                if !never {
                    this.scoped(|this| {
                        for statement in &case.statements {
                            this.statement(*statement);
                        }
                    });
                }
            });
            if case.is_default {
                default = Some(block);
            } else if !never {
                branches.push((condition, block, here));
            }
        }
        let mut rest = default.unwrap_or_default();
        for (condition, then, here) in branches.into_iter().rev() {
            if fold::as_const(&condition).is_some_and(|value| value != 0) {
                rest = then;
                continue;
            }
            let otherwise = std::mem::take(&mut rest);
            let kind = StmtKind::If { condition, then, otherwise };
            rest = vec![crate::program::Stmt { kind, span: here }];
        }
        self.block.extend(rest);
        Ok(())
    }

    /// The cases of a `switch`, empty ones joined with the next.
    fn cases(&mut self, body: Node<'a>, ty: Scalar) -> Lowered<Vec<Case<'a>>> {
        let mut cursor = body.walk();
        let children: Vec<_> = body.named_children(&mut cursor).collect();
        let mut cases: Vec<Case<'a>> = Vec::new();
        let mut values = Vec::new();
        let mut is_default = false;
        for child in children {
            if child.kind() != "case_statement" {
                return Err(self.not_modelled(
                    child,
                    "statements of a switch outside its cases",
                    "put them behind a case",
                ));
            }
            let label = child.child_by_field_name("value");
            match label {
                Some(label) => {
                    let (_, value) = self.constant_int(label, "a case")?;
                    values.push(fold::wrap(ty, value));
                }
                None => is_default = true,
            }
            let mut cursor = child.walk();
            let mut statements: Vec<_> = child
                .named_children(&mut cursor)
                .filter(|statement| label.is_none_or(|label| label.id() != statement.id()))
                .collect();
            if statements.is_empty() {
                continue;
            }
            // `case 1: { …; break; }`
            let tail = match statements.as_slice() {
                [only] if only.kind() == "compound_statement" => {
                    let mut cursor = only.walk();
                    only.named_children(&mut cursor).last()
                }
                _ => statements.last().copied(),
            };
            let leaves = tail.is_some_and(|tail| {
                matches!(tail.kind(), "break_statement" | "return_statement" | "continue_statement")
            });
            let ends_in_break = tail.is_some_and(|tail| tail.kind() == "break_statement");
            let inner_break = {
                let breaks: usize =
                    statements.iter().map(|statement| count_breaks(*statement)).sum();
                breaks > usize::from(ends_in_break)
            };
            let single = statements.len() == 1 && statements[0].kind() == "compound_statement";
            let mut statements_without = std::mem::take(&mut statements);
            if ends_in_break && single {
                let mut cursor = statements_without[0].walk();
                statements_without = statements_without[0].named_children(&mut cursor).collect();
            }
            let all = statements_without.clone();
            if ends_in_break {
                statements_without.pop();
            }
            cases.push(Case {
                node: child,
                values: std::mem::take(&mut values),
                is_default: std::mem::take(&mut is_default),
                statements: statements_without,
                all,
                leaves,
                inner_break,
            });
        }
        // The last case needs no `break`.
        if let Some(last) = cases.last_mut() {
            last.leaves = true;
        }
        let simple =
            cases.iter().all(|case| case.leaves) && !cases.iter().any(|case| case.inner_break);
        if !simple {
            for case in &mut cases {
                case.statements = std::mem::take(&mut case.all);
            }
        }
        Ok(cases)
    }
}

/// Whether a `break` or `continue` in a loop's body is for that loop.
fn leaves_loop(body: &Block) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Break | StmtKind::Continue => true,
        StmtKind::If { then, otherwise, .. } => leaves_loop(then) || leaves_loop(otherwise),
        StmtKind::Call { body } => leaves_loop(body),
        _ => false,
    })
}

/// One case of a `switch`.
struct Case<'a> {
    node: Node<'a>,
    /// The values of its labels.
    values: Vec<i64>,
    /// Whether `default` is among its labels.
    is_default: bool,
    /// Its statements, without the `break` at their end where the switch
    /// becomes a chain of `if`.
    statements: Vec<Node<'a>>,
    /// Its statements with that `break`.
    all: Vec<Node<'a>>,
    /// Whether it ends in `break`, `return` or `continue`.
    leaves: bool,
    /// Whether a `break` stands elsewhere in it.
    inner_break: bool,
}

/// The `break`s that leave the switch around a statement.
fn count_breaks(statement: Node<'_>) -> usize {
    let mut count = 0;
    let mut rest = vec![statement];
    while let Some(node) = rest.pop() {
        match node.kind() {
            "break_statement" => count += 1,
            "for_statement" | "while_statement" | "do_statement" | "switch_statement"
            | "for_range_loop" | "lambda_expression" => {}
            _ => {
                let mut cursor = node.walk();
                rest.extend(node.named_children(&mut cursor));
            }
        }
    }
    count
}
