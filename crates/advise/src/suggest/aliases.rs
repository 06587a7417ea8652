//! References, pointers and copies of a struct's elements, written out.
//!
//! Kernels name an element before they use it: `const Cell &c = cells[i];`,
//! `const Cell *c = &cells[i];`, `Cell c = cells[i];`. Here they are written as
//! `cells[i].field` everywhere, which is what a layout can be changed under. What
//! is not understood stays as it is, and whoever looks for uses finds it.
//!
//! A name is replaced only where what it stands for can't change in between. An
//! index that may change, or that is long, becomes a variable of its own in the
//! name's place, so that it is worked out when and as often as before.

use super::source::{Source, brackets, each, innermost_name};
use std::ops::Range;
use tree_sitter::Node;

/// Rewritings of one kernel, beyond which it is taken as it is.
const MOST_STEPS: usize = 1000;

/// A buffer of structs, with the fields of one.
#[derive(Clone, Debug)]
pub(super) struct Elements {
    /// The buffer.
    pub(super) buffer: String,
    /// The struct.
    pub(super) name: String,
    /// Fields with their types as C writes them; none for an array's.
    pub(super) fields: Vec<(String, Option<String>)>,
}

/// `buffer + index`, or the element there.
#[derive(Clone, Debug)]
struct Spot<'e> {
    of: &'e Elements,
    index: String,
}

impl<'e> Spot<'e> {
    fn new(of: &'e Elements) -> Self {
        Self { of, index: "0".to_owned() }
    }

    fn plus(self, index: &str) -> Self {
        let index = match (self.index.as_str(), index.trim()) {
            ("0", index) => index.to_owned(),
            (index, "0") => index.to_owned(),
            (now, index) => format!("{} + {}", in_sum(now), in_sum(index)),
        };
        Self { index, ..self }
    }

    fn minus(self, index: &str) -> Self {
        let index = format!("{} - {}", in_sum(&self.index), in_product(index.trim()));
        Self { index, ..self }
    }

    fn element(&self) -> String {
        format!("{}[{}]", self.of.buffer, self.index)
    }
}

/// A name that stands for an element or its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Reference,
    Pointer,
    Copy,
}

/// The declaration of such a name.
struct Alias<'t, 'e> {
    sort: Sort,
    name: String,
    declaration: Node<'t>,
    /// What the declaration begins with: `const ` or nothing.
    constant: &'static str,
    spot: Spot<'e>,
    scope: Node<'t>,
}

type Change = (Range<usize>, String);

impl Source {
    /// The same kernel without names for elements of `buffers`.
    pub(super) fn written_out(self, buffers: &[Elements]) -> Self {
        let Some(kernel) = self.body() else { return self };
        // A name that is declared again is not the buffer's everywhere.
        let buffers: Vec<Elements> = buffers
            .iter()
            .filter(|elements| !self.declares(kernel, &elements.buffer))
            .cloned()
            .collect();
        let mut source = self;
        let mut skipped = 0;
        for _ in 0..MOST_STEPS {
            let aliases = source.aliases(&buffers);
            let change = match aliases.get(skipped) {
                Some(alias) => match source.without(alias, &buffers) {
                    Some(changes) => Some(changes),
                    None => {
                        skipped += 1;
                        continue;
                    }
                },
                None => source.copied(&buffers).or_else(|| source.canonical(&buffers)),
            };
            let Some(changes) = change else { return source };
            let Some(changed) = source.changed(changes) else { return source };
            source = changed;
        }
        source
    }

    /// The names for elements, in the order of the text.
    fn aliases<'s, 'e>(&'s self, buffers: &'e [Elements]) -> Vec<Alias<'s, 'e>> {
        let mut found = Vec::new();
        let Some(body) = self.body() else { return found };
        each(body, &mut |node| found.extend(self.alias(node, buffers)));
        found
    }

    fn alias<'s, 'e>(
        &'s self,
        declaration: Node<'s>,
        buffers: &'e [Elements],
    ) -> Option<Alias<'s, 'e>> {
        let scope = declaration.parent()?;
        let in_scope = matches!(scope.kind(), "compound_statement" | "for_statement");
        if declaration.kind() != "declaration" || !in_scope {
            return None;
        }
        let mut cursor = declaration.walk();
        let mut declarators = declaration.children_by_field_name("declarator", &mut cursor);
        let declarator = declarators.next()?;
        if declarators.next().is_some() || declarator.kind() != "init_declarator" {
            return None;
        }
        let declared = declarator.child_by_field_name("declarator")?;
        let value = declarator.child_by_field_name("value")?;
        // `Cell c(…)` and `Cell c{…}` have no `=`.
        let between = self.text(&(declared.end_byte()..value.start_byte()));
        let before = self.text(&(declaration.start_byte()..declared.start_byte()));
        let words = |text: &str, word: &str| text.split_whitespace().any(|found| found == word);
        if between.trim() != "="
            || ["volatile", "static", "extern"].iter().any(|w| words(before, w))
        {
            return None;
        }
        let name = self.text(&innermost_name(declarator)?.byte_range()).to_owned();
        let (element, place) =
            (self.element(value, buffers, None), self.place(value, buffers, None));
        let (sort, spot) = match (declared.kind(), element, place) {
            ("reference_declarator", Some(spot), _) => (Sort::Reference, spot),
            ("identifier", Some(spot), _) => (Sort::Copy, spot),
            ("pointer_declarator" | "identifier", None, Some(spot)) => (Sort::Pointer, spot),
            _ => return None,
        };
        let constant = if words(before, "const") { "const " } else { "" };
        Some(Alias { sort, name, declaration, constant, spot, scope })
    }

    /// A pointer into a buffer.
    fn place<'e>(
        &self,
        node: Node<'_>,
        buffers: &'e [Elements],
        pointer: Option<(&str, &Spot<'e>)>,
    ) -> Option<Spot<'e>> {
        match node.kind() {
            "identifier" => {
                let name = self.text(&node.byte_range());
                if let Some((known, spot)) = pointer
                    && known == name
                {
                    return Some(spot.clone());
                }
                buffers.iter().find(|elements| elements.buffer == name).map(Spot::new)
            }
            "parenthesized_expression" => self.place(node.named_child(0)?, buffers, pointer),
            "pointer_expression" if self.operator(node) == "&" => {
                self.element(node.child_by_field_name("argument")?, buffers, pointer)
            }
            "binary_expression" => {
                let left = node.child_by_field_name("left")?;
                let right = node.child_by_field_name("right")?;
                let on_left = self.place(left, buffers, pointer);
                let on_right = self.place(right, buffers, pointer);
                match (self.operator(node), on_left, on_right) {
                    ("+", Some(spot), None) => Some(spot.plus(self.text(&right.byte_range()))),
                    ("+", None, Some(spot)) => Some(spot.plus(self.text(&left.byte_range()))),
                    ("-", Some(spot), None) => Some(spot.minus(self.text(&right.byte_range()))),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// An element of a buffer.
    fn element<'e>(
        &self,
        node: Node<'_>,
        buffers: &'e [Elements],
        pointer: Option<(&str, &Spot<'e>)>,
    ) -> Option<Spot<'e>> {
        match node.kind() {
            "parenthesized_expression" => self.element(node.named_child(0)?, buffers, pointer),
            "pointer_expression" if self.operator(node) == "*" => {
                self.place(node.child_by_field_name("argument")?, buffers, pointer)
            }
            "subscript_expression" => {
                let (open, close) = brackets(node)?;
                let base = self.place(node.child_by_field_name("argument")?, buffers, pointer)?;
                Some(base.plus(self.text(&(open..close))))
            }
            _ => None,
        }
    }

    fn operator(&self, node: Node<'_>) -> &str {
        let operator = node.child_by_field_name("operator");
        operator.map_or("", |operator| self.text(&operator.byte_range()))
    }

    /// The changes that do without a name; `None` where it is used in a way that is
    /// not understood.
    fn without(&self, alias: &Alias<'_, '_>, buffers: &[Elements]) -> Option<Vec<Change>> {
        let uses = self.named(alias.scope, &alias.name, alias.declaration.end_byte());
        if self.declares_after(alias.scope, &alias.name, alias.declaration.end_byte()) {
            return None;
        }
        let moves =
            alias.sort == Sort::Pointer && uses.iter().any(|&node| self.target(node).is_some());
        let index = &alias.spot.index;
        let plain = index.chars().all(|c| c.is_alphanumeric() || c == '_');
        let written = uses.len() > 1 && !plain && alias.sort != Sort::Copy;
        let mut spot = alias.spot.clone();
        let mut head = String::new();
        let copied_often = alias.sort == Sort::Copy && !is_repeatable(index);
        if moves || written || copied_often || !self.is_stable(alias) {
            let variable = self.free(&format!("{}_index", alias.name));
            // A pointer counts in 64 bits; what never moves keeps its index's type.
            let ty = if moves { "long long" } else { "const auto" };
            head = format!("{ty} {variable} = {index};");
            spot.index = variable;
        }
        let mut changes: Vec<Change> = Vec::new();
        match alias.sort {
            Sort::Reference => {
                for node in uses {
                    changes.push((node.byte_range(), spot.element()));
                }
            }
            Sort::Pointer => {
                for node in uses {
                    changes.push(self.pointer_use(node, alias, &spot, buffers)?);
                }
            }
            Sort::Copy => {
                let mut fields: Vec<&str> = Vec::new();
                let all = || spot.of.fields.iter().map(|(name, _)| name.as_str());
                let mut whole = Vec::new();
                for node in uses {
                    let parent = node.parent()?;
                    let member = parent.child_by_field_name("field");
                    if let ("field_expression", Some(member)) = (parent.kind(), member) {
                        let field = self.text(&member.byte_range());
                        fields.push(all().find(|known| *known == field)?);
                        changes.push((
                            parent.start_byte()..member.end_byte(),
                            self.part(&alias.name, field),
                        ));
                    } else {
                        whole.push(node);
                    }
                }
                if !whole.is_empty() {
                    fields = all().collect();
                }
                for node in whole {
                    let assignment = node.parent()?;
                    let (statement, to) = self.stored(assignment, buffers)?;
                    let is_value = assignment.child_by_field_name("right") == Some(node);
                    if !is_value || to.of.name != spot.of.name || !is_repeatable(&to.index) {
                        return None;
                    }
                    let store = |field: &str| {
                        format!("{}.{field} = {};", to.element(), self.part(&alias.name, field))
                    };
                    let stores = fields.iter().copied().map(store).collect();
                    changes.push((statement.byte_range(), self.braced(statement, stores)));
                }
                for (field, ty) in spot.of.fields.iter().filter(|(n, _)| fields.contains(&&**n)) {
                    let ty = ty.as_ref()?;
                    let part = self.part(&alias.name, field);
                    let separator = if head.is_empty() { "" } else { "\n" };
                    let load =
                        format!("{}{ty} {part} = {}.{field};", alias.constant, spot.element());
                    head.push_str(separator);
                    head.push_str(&load);
                }
            }
        }
        if alias.scope.kind() == "for_statement" && (head.is_empty() || head.contains('\n')) {
            return None;
        }
        let head = head.replace('\n', &format!("\n{}", self.indent(alias.declaration)));
        changes.push((alias.declaration.byte_range(), head));
        Some(changes)
    }

    /// The variable for a field of a copy.
    fn part(&self, name: &str, field: &str) -> String {
        self.free(&format!("{name}_{field}"))
    }

    /// A pointer's use: moved along, or pointing.
    fn pointer_use<'e>(
        &self,
        node: Node<'_>,
        alias: &Alias<'_, 'e>,
        spot: &Spot<'e>,
        buffers: &'e [Elements],
    ) -> Option<Change> {
        let Some(target) = self.target(node) else {
            let place = match spot.index.as_str() {
                "0" => spot.of.buffer.clone(),
                index => format!("({} + {})", spot.of.buffer, in_sum(index)),
            };
            return Some((node.byte_range(), place));
        };
        // What a change of a pointer is worth is not looked into.
        let alone = |node: Node<'_>| {
            node.parent().is_some_and(|parent| {
                parent.kind() == "expression_statement"
                    || parent.kind() == "for_statement"
                        && parent.child_by_field_name("update") == Some(node)
            })
        };
        if !alone(target) {
            return None;
        }
        if target.kind() == "update_expression" || self.operator(target) != "=" {
            let added = target.child_by_field_name("right");
            let known = matches!(self.operator(target), "++" | "--" | "+=" | "-=");
            let again = added.is_some_and(|added| !self.named(added, &alias.name, 0).is_empty());
            return (known && !again).then(|| (node.byte_range(), spot.index.clone()));
        }
        let value = target.child_by_field_name("right")?;
        let there = self.place(value, buffers, Some((&alias.name, spot)))?;
        let mentioned = there.index.split(|c: char| !c.is_alphanumeric() && c != '_');
        if there.of.buffer != spot.of.buffer || mentioned.into_iter().any(|w| w == alias.name) {
            return None;
        }
        Some((target.byte_range(), format!("{} = {}", spot.index, there.index)))
    }

    /// The assignment or update whose target a name is.
    fn target<'s>(&'s self, node: Node<'s>) -> Option<Node<'s>> {
        let parent = node.parent()?;
        let field = match parent.kind() {
            "assignment_expression" => "left",
            "update_expression" => "argument",
            _ => return None,
        };
        (parent.child_by_field_name(field) == Some(node)).then_some(parent)
    }

    /// The statement `element = …;` that an assignment is.
    fn stored<'s, 'e>(
        &'s self,
        assignment: Node<'s>,
        buffers: &'e [Elements],
    ) -> Option<(Node<'s>, Spot<'e>)> {
        let statement = assignment.parent()?;
        let left = assignment.child_by_field_name("left")?;
        let is_one = assignment.kind() == "assignment_expression"
            && statement.kind() == "expression_statement"
            && self.operator(assignment) == "=";
        is_one.then_some(())?;
        Some((statement, self.element(left, buffers, None)?))
    }

    /// Statements in the place of one.
    fn braced(&self, statement: Node<'_>, parts: Vec<String>) -> String {
        let indent = self.indent(statement);
        let parts = parts.join(&format!("\n{indent}    "));
        format!("{{\n{indent}    {parts}\n{indent}}}")
    }

    /// `to[i] = from[j];` and `to[i] = value;`, field by field.
    fn copied(&self, buffers: &[Elements]) -> Option<Vec<Change>> {
        let mut found = None;
        each(self.body()?, &mut |node| {
            if found.is_some() {
                return;
            }
            let Some((statement, to)) = self.stored(node, buffers) else { return };
            let Some(value) = node.child_by_field_name("right") else { return };
            let from = match self.element(value, buffers, None) {
                Some(from) if from.of.name == to.of.name && is_repeatable(&from.index) => {
                    from.element()
                }
                None if value.kind() == "identifier" => self.text(&value.byte_range()).to_owned(),
                _ => return,
            };
            if is_repeatable(&to.index) {
                let store = |(field, _): &(String, Option<String>)| {
                    format!("{}.{field} = {from}.{field};", to.element())
                };
                let stores = to.of.fields.iter().map(store).collect();
                found = Some(vec![(statement.byte_range(), self.braced(statement, stores))]);
            }
        });
        found
    }

    /// `(*(cells + i)).x` and `(&cells[i])->x` as `cells[i].x`; `cells + i < cells + n`
    /// as `i < n`.
    fn canonical(&self, buffers: &[Elements]) -> Option<Vec<Change>> {
        let mut found = None;
        each(self.body()?, &mut |node| {
            if found.is_some() {
                return;
            }
            let change = match node.kind() {
                "field_expression" => self.canonical_field(node, buffers),
                "binary_expression" => self.canonical_order(node, buffers),
                _ => None,
            };
            found = change.map(|change| vec![change]);
        });
        found
    }

    fn canonical_field(&self, node: Node<'_>, buffers: &[Elements]) -> Option<Change> {
        let argument = node.child_by_field_name("argument")?;
        let member = node.child_by_field_name("field")?;
        let before = node.start_byte()..member.start_byte();
        let spot = match self.operator(node) {
            "." => self.element(argument, buffers, None)?,
            "->" => self.place(argument, buffers, None)?,
            _ => return None,
        };
        let is_canonical = argument.kind() == "subscript_expression"
            && argument.child_by_field_name("argument").is_some_and(|n| n.kind() == "identifier")
            && self.operator(node) == ".";
        (!is_canonical).then(|| (before, format!("{}.", spot.element())))
    }

    fn canonical_order(&self, node: Node<'_>, buffers: &[Elements]) -> Option<Change> {
        let operator = self.operator(node);
        if !matches!(operator, "<" | "<=" | ">" | ">=" | "==" | "!=") {
            return None;
        }
        let left = self.place(node.child_by_field_name("left")?, buffers, None)?;
        let right = self.place(node.child_by_field_name("right")?, buffers, None)?;
        (left.of.buffer == right.of.buffer).then(|| {
            let text = format!("{} {operator} {}", in_sum(&left.index), in_sum(&right.index));
            (node.byte_range(), text)
        })
    }

    /// The places of a name in a part of the text.
    fn named<'s>(&'s self, scope: Node<'s>, name: &str, from: usize) -> Vec<Node<'s>> {
        let mut found = Vec::new();
        each(scope, &mut |node| {
            let is_it = node.kind() == "identifier" && self.text(&node.byte_range()) == name;
            if is_it && node.start_byte() >= from {
                found.push(node);
            }
        });
        found
    }

    fn declares(&self, scope: Node<'_>, name: &str) -> bool {
        self.declares_after(scope, name, 0)
    }

    fn declares_after(&self, scope: Node<'_>, name: &str, from: usize) -> bool {
        let mut found = false;
        each(scope, &mut |node| {
            if !matches!(node.kind(), "declaration" | "parameter_declaration")
                || node.start_byte() < from
            {
                return;
            }
            let mut cursor = node.walk();
            for declarator in node.children_by_field_name("declarator", &mut cursor) {
                let named = declared_name(declarator);
                found |= named.is_some_and(|named| self.text(&named.byte_range()) == name);
            }
        });
        found
    }

    /// Whether the index of an element is the same wherever its name is used.
    fn is_stable(&self, alias: &Alias<'_, '_>) -> bool {
        let index = &alias.spot.index;
        if !is_repeatable(index) {
            return false;
        }
        let from = alias.declaration.end_byte();
        let words = index.split(|c: char| !c.is_alphanumeric() && c != '_');
        let mut names = words.filter(|w| w.starts_with(|c: char| c.is_alphabetic() || c == '_'));
        // A copy is made here and now.
        alias.sort == Sort::Copy
            || names.all(|name| {
                !self.declares_after(alias.scope, name, from)
                    && self.named(alias.scope, name, from).into_iter().all(|node| {
                        let parent = node.parent().map_or("", |parent| parent.kind());
                        // A function may take it by reference.
                        self.target(node).is_none()
                            && parent != "argument_list"
                            && parent != "pointer_expression"
                    })
            })
    }

    fn free(&self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while self.mentions(&name) {
            name.push('_');
        }
        name
    }
}

/// The name that a declarator declares, not those in its value.
fn declared_name(declarator: Node<'_>) -> Option<Node<'_>> {
    let mut node = declarator;
    for _ in 0..MOST_STEPS {
        if node.kind() == "identifier" {
            return Some(node);
        }
        // A reference's declarator has no field for what it declares.
        let mut cursor = node.walk();
        let last = node.named_children(&mut cursor).last();
        node = node.child_by_field_name("declarator").or(last)?;
    }
    None
}

/// Whether an index may be written twice: it assigns nothing, reads no memory and
/// calls nothing.
pub(super) fn is_repeatable(index: &str) -> bool {
    let calls = index.char_indices().any(|(at, c)| {
        c == '(' && index[..at].trim_end().ends_with(|c: char| c.is_alphanumeric() || c == '_')
    });
    let changes = ["[", "=", "++", "--", "*(", "->"].iter().any(|sign| index.contains(sign));
    !calls && !changes
}

/// An expression as a term of a sum.
fn in_sum(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ' ' | '*' | '+');
    if text.chars().all(plain) { text.to_owned() } else { format!("({text})") }
}

/// An expression that something is done to.
fn in_product(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    if text.chars().all(plain) { text.to_owned() } else { format!("({text})") }
}
