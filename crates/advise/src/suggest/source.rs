//! The kernel's text with the accesses to a struct rewritten for another layout.
//!
//! What can be rewritten is `buffer[index].field`, for every use of the buffer
//! in the kernel, as [`Source::written_out`] makes of references, pointers and
//! copies; anything else that is done with it (a pointer that is passed on) is
//! refused with its place. Whether the
//! text that comes out touches the same elements is not taken on trust: the
//! caller runs it.

use super::aliases::is_repeatable;
use super::candidate::FieldArray;
use std::ops::Range;
use tree_sitter::{Node, Parser, Tree};

/// A kernel's text and its syntax.
pub(super) struct Source {
    text: String,
    tree: Tree,
    /// Bytes in front of the text that make a body a function.
    prefix: usize,
    entry: Option<String>,
    /// For each line of the code, its number in the code as it was first.
    lines: Vec<usize>,
}

/// One `buffer[index].field`.
#[derive(Clone, Debug)]
pub(super) struct Use {
    /// The whole of it.
    pub(super) whole: Range<usize>,
    /// The buffer's name.
    name: Range<usize>,
    /// What stands between the brackets.
    pub(super) index: Range<usize>,
    /// From behind the bracket to the end of the field's name.
    member: Range<usize>,
    /// The field's name.
    pub(super) field: String,
    /// Whether it is read, and nothing else.
    pub(super) reads: bool,
}

/// Replacements of ranges of bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    pub(super) fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.0.push((range, text.into()));
    }

    /// The text with the edits made; those inside of another are dropped.
    pub(super) fn apply(mut self, text: &str) -> String {
        // What is put in front of a place comes before what takes the place.
        self.0.sort_by_key(|(range, _)| {
            (range.start, !range.is_empty(), std::cmp::Reverse(range.end))
        });
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for (range, replacement) in &self.0 {
            let Some(kept) = text.get(at..range.start) else { continue };
            out.push_str(kept);
            out.push_str(replacement);
            at = range.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }
}

impl Source {
    /// Parses a kernel file, or with no `entry` a kernel's body.
    pub(super) fn new(code: &str, entry: Option<&str>) -> Option<Self> {
        let prefix = if entry.is_none() { "__global__ void kernel() {\n" } else { "" };
        let suffix = if entry.is_none() { "\n}\n" } else { "" };
        let text = format!("{prefix}{code}{suffix}");
        let mut parser = Parser::new();
        parser.set_language(&tree_sitter_cuda::LANGUAGE.into()).ok()?;
        let tree = parser.parse(&text, None)?;
        let lines = (1..=code.matches('\n').count() + 1).collect();
        Some(Self { text, tree, prefix: prefix.len(), entry: entry.map(str::to_owned), lines })
    }

    /// The source after changes of places that do not overlap. A line that nothing is
    /// left of goes.
    pub(super) fn changed(&self, mut changes: Vec<(Range<usize>, String)>) -> Option<Self> {
        changes.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
        let apart = changes.windows(2).all(|pair| pair[1].0.end <= pair[0].0.start);
        let inside = changes.iter().all(|(range, _)| range.start >= self.prefix);
        if !apart || !inside {
            return None;
        }
        let (mut text, mut lines) = (self.text.clone(), self.lines.clone());
        for (range, replacement) in changes {
            let start = text.get(..range.start)?.rfind('\n').map_or(0, |at| at + 1);
            let end = text.get(range.end..)?.find('\n').map(|at| range.end + at + 1);
            let around =
                (text.get(start..range.start)?, text.get(range.end..end.unwrap_or(range.end))?);
            let first = text.get(self.prefix..range.start)?.matches('\n').count();
            let alone = around.0.trim().is_empty() && around.1.trim().is_empty();
            match end.filter(|_| alone && replacement.is_empty() && start >= self.prefix) {
                Some(end) => {
                    let gone = text.get(start..end)?.matches('\n').count();
                    lines.drain(first..(first + gone).min(lines.len()));
                    text.replace_range(start..end, "");
                }
                None => {
                    let gone = text.get(range.clone())?.matches('\n').count();
                    let number = *lines.get(first)?;
                    let more = vec![number; replacement.matches('\n').count()];
                    let after = (first + 1 + gone).min(lines.len());
                    lines.splice(first + 1..after, more);
                    text.replace_range(range, &replacement);
                }
            }
        }
        let suffix = if self.entry.is_none() { "\n}\n".len() } else { 0 };
        let code = text.get(self.prefix..text.len().checked_sub(suffix)?)?;
        Some(Self { lines, ..Self::new(code, self.entry.as_deref())? })
    }

    /// The text between two places.
    pub(super) fn text(&self, range: &Range<usize>) -> &str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    /// The code with the edits made.
    pub(super) fn edited(&self, edits: Edits) -> String {
        let whole = edits.apply(&self.text);
        let suffix = if self.entry.is_none() { "\n}\n" } else { "" };
        let end = whole.len().saturating_sub(suffix.len());
        whole.get(self.prefix..end).unwrap_or_default().to_owned()
    }

    fn line(&self, node: Node<'_>) -> usize {
        let lines = self.text.get(self.prefix..node.start_byte()).unwrap_or_default();
        let line = lines.matches('\n').count();
        self.lines.get(line).copied().unwrap_or(line + 1)
    }

    /// The kernel.
    fn kernel(&self) -> Option<Node<'_>> {
        let mut found = None;
        each(self.tree.root_node(), &mut |node| {
            if node.kind() == "function_definition" {
                let name = name_of(node).map(|name| self.text(&name.byte_range()).to_owned());
                let wanted = self.entry.as_deref().unwrap_or("kernel");
                if name.as_deref() == Some(wanted) {
                    found = Some(node);
                }
            }
        });
        found
    }

    /// The kernel's body.
    pub(super) fn body(&self) -> Option<Node<'_>> {
        self.kernel()?.child_by_field_name("body")
    }

    /// Every use of a buffer in the kernel's body.
    pub(super) fn uses(&self, buffer: &str) -> Result<Vec<Use>, String> {
        let body = self.body().ok_or("the kernel's function was not found in its text")?;
        let mut uses = Vec::new();
        let mut odd = None;
        each(body, &mut |node| {
            if node.kind() == "identifier" && self.text(&node.byte_range()) == buffer {
                match self.use_of(node) {
                    Some(found) => uses.push(found),
                    None => odd = odd.or(Some(node)),
                }
            }
        });
        match odd {
            Some(node) => {
                let place = statement(node).unwrap_or(node);
                let line = self.text(&place.byte_range()).lines().next().unwrap_or_default();
                Err(format!(
                    "`{buffer}` is used other than as `{buffer}[…].field` in line {} of the kernel: `{}`",
                    self.line(node),
                    line.trim()
                ))
            }
            None if self.in_macros(buffer) => {
                Err(format!("a macro of the kernel's file uses `{buffer}`"))
            }
            None => Ok(uses),
        }
    }

    fn in_macros(&self, name: &str) -> bool {
        let mut found = false;
        each(self.tree.root_node(), &mut |node| {
            if matches!(node.kind(), "preproc_arg") {
                let words = self.text(&node.byte_range());
                let mut words = words.split(|c: char| !c.is_alphanumeric() && c != '_');
                found |= words.any(|word| word == name);
            }
        });
        found
    }

    fn use_of(&self, name: Node<'_>) -> Option<Use> {
        let subscript = name.parent().filter(|node| node.kind() == "subscript_expression")?;
        if subscript.child_by_field_name("argument")? != name {
            return None;
        }
        let (open, close) = brackets(subscript)?;
        let field = subscript.parent().filter(|node| node.kind() == "field_expression")?;
        if field.child_by_field_name("argument")? != subscript {
            return None;
        }
        let member = field.child_by_field_name("field")?;
        let dot = self.text(&(subscript.end_byte()..member.start_byte())).trim() == ".";
        dot.then(|| Use {
            whole: field.byte_range(),
            name: name.byte_range(),
            index: open..close,
            member: subscript.end_byte()..field.end_byte(),
            field: self.text(&member.byte_range()).to_owned(),
            reads: self.is_read(field),
        })
    }

    /// Whether an expression is read, and neither assigned to nor pointed at.
    fn is_read(&self, node: Node<'_>) -> bool {
        let mut node = node;
        while let Some(parent) = node.parent() {
            match parent.kind() {
                "assignment_expression" => {
                    return parent.child_by_field_name("left") != Some(node);
                }
                "update_expression" | "pointer_expression" => return false,
                "field_expression" | "parenthesized_expression" => node = parent,
                "argument_list" => {
                    // The helper `store` writes to what it is given; atomics
                    // and the like take pointers.
                    let call = parent.parent();
                    let function = call.and_then(|call| call.child_by_field_name("function"));
                    return function.is_some_and(|name| self.text(&name.byte_range()) != "store");
                }
                _ => return true,
            }
        }
        true
    }

    /// Refuses an index that may not be written twice: one that assigns, reads
    /// memory or calls a function.
    pub(super) fn repeatable(&self, found: &Use) -> Result<(), String> {
        let index = self.text(&found.index);
        if !is_repeatable(index) {
            return Err(format!("the index `{index}` is not one to be written twice"));
        }
        Ok(())
    }

    /// `buffer[i].f` becomes `buffer_f[i]`, or the part of another array's element that
    /// the field is now, in the body and among the parameters. `arrays` come with
    /// their types as C writes them.
    pub(super) fn separate(
        &self,
        buffer: &str,
        uses: &[Use],
        arrays: &[(FieldArray, String)],
        edits: &mut Edits,
    ) -> Result<(), String> {
        for found in uses {
            let place = arrays.iter().find_map(|(array, _)| {
                let (part, _) = array.parts.iter().find(|(_, field)| *field == found.field)?;
                Some((array.name(), part))
            });
            let (array, part) =
                place.ok_or_else(|| format!("`{buffer}` has no field `{}`", found.field))?;
            edits.replace(found.name.clone(), array);
            edits.replace(found.member.clone(), part.clone());
        }
        if self.entry.is_none() {
            return Ok(());
        }
        let parameter = self
            .parameter(buffer)
            .ok_or_else(|| format!("the parameter `{buffer}` was not found"))?;
        let (ty, name) = (
            parameter.child_by_field_name("type").ok_or("a parameter without a type")?,
            innermost_name(parameter).ok_or("a parameter without a name")?,
        );
        let whole = parameter.byte_range();
        let parameters: Vec<String> = arrays
            .iter()
            .map(|(array, array_type)| {
                let before = self.text(&(whole.start..ty.start_byte()));
                let between = self.text(&(ty.end_byte()..name.start_byte()));
                let after = self.text(&(name.end_byte()..whole.end));
                format!("{before}{array_type}{between}{}{after}", array.name())
            })
            .collect();
        edits.replace(whole, parameters.join(", "));
        Ok(())
    }

    /// `buffer[i].f` becomes `buffer[i / width].f[i % width]`.
    pub(super) fn block(&self, uses: &[Use], width: u64, edits: &mut Edits) -> Result<(), String> {
        for found in uses {
            self.repeatable(found)?;
            let index = self.text(&found.index).trim().to_owned();
            let simple = index.chars().all(|c| c.is_alphanumeric() || c == '_');
            let index = if simple { index } else { format!("({index})") };
            edits.replace(found.index.clone(), format!("{index} / {width}"));
            edits.replace(found.member.clone(), format!(".{}[{index} % {width}]", found.field));
        }
        Ok(())
    }

    /// Reads of `buffer[i].f` become components of vectors that are read once,
    /// before the first of them.
    pub(super) fn vectors(
        &self,
        buffer: &str,
        uses: &[Use],
        vectors: &Vectors<'_>,
        edits: &mut Edits,
    ) -> Result<(), String> {
        let Some(first) = uses.first() else { return Err("it is not used".to_owned()) };
        if let Some(written) = uses.iter().find(|found| !found.reads) {
            return Err(format!(
                "`{}` is written too: a vector load would have to be taken apart and put together again",
                self.text(&written.whole)
            ));
        }
        let index = self.text(&first.index).trim().to_owned();
        if uses.iter().any(|found| self.text(&found.index).trim() != index) {
            return Err(format!("`{buffer}` is read at several indices"));
        }
        self.repeatable(first)?;
        let place = self.insertion(uses)?;
        if self.is_assigned_after(&index, place.node) {
            return Err(format!("what is in `{index}` changes between the reads"));
        }
        let indent = self.indent(place.node);
        let constant = match self.parameter(buffer) {
            Some(parameter) if self.text(&parameter.byte_range()).contains("const") => "const ",
            _ => "",
        };
        let mut loads = String::new();
        for chunk in vectors.chunks {
            let ty = vectors.ty;
            let variable = vectors.variable(buffer, *chunk);
            let from = match &vectors.from {
                VectorsFrom::Structs { per_element } => {
                    let at = match per_element {
                        1 => index.clone(),
                        n => format!("({index}) * {n} + {chunk}"),
                    };
                    format!("reinterpret_cast<{constant}{ty} *>({buffer})[{at}]")
                }
                VectorsFrom::Array { name, .. } => format!("{name}[{index}]"),
            };
            let is_of =
                |found: &&Use| vectors.component(&found.field).is_some_and(|(of, _)| of == *chunk);
            let bare: Option<Vec<Range<usize>>> =
                uses.iter().filter(is_of).map(|found| self.bare_load(found)).collect();
            // Nobody asks for what was read: a variable would be dropped unread.
            if let Some([first, others @ ..]) = bare.as_deref() {
                edits.replace(first.clone(), format!("load({from});"));
                for statement in others {
                    edits.replace(statement.clone(), "");
                }
                continue;
            }
            loads.push_str(&format!("{ty} {variable} = {from};\n{indent}"));
        }
        for found in uses {
            let (chunk, component) = vectors
                .component(&found.field)
                .ok_or_else(|| format!("`{}` is in none of the vectors", found.field))?;
            let replacement = format!("{}.{component}", vectors.variable(buffer, chunk));
            // A bare `load(…)` of a register is no load: the vector is.
            match self.bare_load(found) {
                Some(statement) => edits.replace(statement, ""),
                None => edits.replace(found.whole.clone(), replacement),
            }
        }
        let start = place.node.start_byte();
        if place.braces {
            edits.replace(
                start..start,
                format!("{{\n{indent}    {}", loads.replace('\n', "\n    ")),
            );
            let end = place.node.end_byte();
            edits.replace(end..end, format!("\n{indent}}}"));
        } else {
            edits.replace(start..start, loads);
        }
        Ok(())
    }

    /// The statement `load(use);`, where that is what the use is in.
    fn bare_load(&self, found: &Use) -> Option<Range<usize>> {
        let node =
            self.tree.root_node().descendant_for_byte_range(found.whole.start, found.whole.end)?;
        let call = node.parent()?.parent()?;
        let function = call.child_by_field_name("function")?;
        let statement = call.parent().filter(|node| node.kind() == "expression_statement")?;
        (self.text(&function.byte_range()) == "load").then(|| statement.byte_range())
    }

    /// The statement before which something can be inserted that all uses see.
    fn insertion(&self, uses: &[Use]) -> Result<Place<'_>, String> {
        let start = uses.iter().map(|found| found.whole.start).min().unwrap_or(0);
        let end = uses.iter().map(|found| found.whole.end).max().unwrap_or(0);
        let mut node = self
            .tree
            .root_node()
            .descendant_for_byte_range(start, end)
            .ok_or("the uses were not found")?;
        if node.kind() == "compound_statement" {
            let mut cursor = node.walk();
            let first = node
                .named_children(&mut cursor)
                .find(|child| child.end_byte() > start)
                .ok_or("the uses were not found")?;
            return if matches!(first.kind(), "expression_statement" | "declaration") {
                Ok(Place { node: first, braces: false })
            } else {
                Err("the first of the reads is made under a condition".to_owned())
            };
        }
        loop {
            let parent = node.parent().ok_or("the reads are in no statement")?;
            let is_statement =
                matches!(node.kind(), "expression_statement" | "declaration" | "return_statement");
            if is_statement {
                return Ok(Place { node, braces: parent.kind() != "compound_statement" });
            }
            if node.kind().ends_with("_statement") {
                return Err("the reads are parts of a condition or a loop".to_owned());
            }
            node = parent;
        }
    }

    /// Whether a name in `index` is assigned at or after a statement.
    fn is_assigned_after(&self, index: &str, place: Node<'_>) -> bool {
        let names: Vec<&str> = index
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
            .collect();
        let Some(scope) = place.parent() else { return true };
        let mut assigned = false;
        each(scope, &mut |node| {
            let target = match node.kind() {
                "assignment_expression" => node.child_by_field_name("left"),
                "update_expression" => node.child_by_field_name("argument"),
                _ => None,
            };
            if let Some(target) = target
                && node.end_byte() > place.start_byte()
            {
                assigned |= names.contains(&self.text(&target.byte_range()));
            }
        });
        assigned
    }

    pub(super) fn indent(&self, node: Node<'_>) -> String {
        let before = self.text.get(..node.start_byte()).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        line.chars().take_while(|c| c.is_whitespace()).collect()
    }

    fn parameter(&self, name: &str) -> Option<Node<'_>> {
        let mut found = None;
        each(self.kernel()?.child_by_field_name("declarator")?, &mut |node| {
            if matches!(node.kind(), "parameter_declaration" | "optional_parameter_declaration")
                && innermost_name(node).is_some_and(|n| self.text(&n.byte_range()) == name)
            {
                found = Some(node);
            }
        });
        found
    }

    /// Whether a name occurs in the code.
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
    }

    /// Gives a struct of the text another definition. `false`: it defines none
    /// of that name.
    pub(super) fn define(
        &self,
        name: &str,
        definition: &str,
        edits: &mut Edits,
    ) -> Result<bool, String> {
        let mut found = None;
        each(self.tree.root_node(), &mut |node| {
            if matches!(node.kind(), "struct_specifier" | "class_specifier")
                && let (Some(named), Some(body)) =
                    (node.child_by_field_name("name"), node.child_by_field_name("body"))
                && self.text(&named.byte_range()) == name
            {
                found = Some((node, body));
            }
        });
        let Some((node, body)) = found else { return Ok(false) };
        let mut cursor = body.walk();
        let plain = body
            .named_children(&mut cursor)
            .all(|child| matches!(child.kind(), "field_declaration" | "comment"))
            && !self.text(&body.byte_range()).contains('(');
        if !plain {
            return Err(format!("`{name}` has more than fields"));
        }
        edits.replace(node.byte_range(), definition);
        Ok(true)
    }

    /// Takes out the other kernels of the file and the host's functions: they
    /// are written for the layout as it was.
    pub(super) fn only_kernel(&self, edits: &mut Edits) {
        let Some(kernel) = self.kernel().filter(|_| self.entry.is_some()) else { return };
        each(self.tree.root_node(), &mut |node| {
            if node.kind() != "function_definition" || node == kernel {
                return;
            }
            let text = self.text(&node.byte_range());
            // `extern "C"` stands around the definition.
            let whole = match node.parent() {
                Some(parent) if parent.kind() == "linkage_specification" => parent,
                _ => node,
            };
            let head = text.split('{').next().unwrap_or_default();
            let on_device = head.contains("__device__") || head.contains("constexpr");
            if on_device && !text.contains("<<<") {
                return;
            }
            let mut start = whole.start_byte();
            let mut before = whole.prev_sibling();
            while let Some(comment) = before.filter(|node| node.kind() == "comment") {
                let between = self.text(&(comment.end_byte()..start));
                if between.matches('\n').count() > 1 {
                    break;
                }
                start = comment.start_byte();
                before = comment.prev_sibling();
            }
            let mut end = whole.end_byte();
            while self.text.as_bytes().get(end).is_some_and(|byte| *byte == b'\n') {
                end += 1;
            }
            edits.replace(start..end, "");
        });
    }
}

/// Where vectors are read: before `node`, or with it in braces of their own.
struct Place<'a> {
    node: Node<'a>,
    braces: bool,
}

/// The components of a vector.
pub(super) const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// Where vectors are read.
pub(super) enum VectorsFrom<'a> {
    /// In the buffer of structs, as many in each.
    Structs { per_element: u64 },
    /// In an array of them, into a variable.
    Array { name: &'a str, variable: &'a str },
}

/// The vectors that stand in for a struct's fields.
pub(super) struct Vectors<'a> {
    /// `float4`
    pub(super) ty: &'a str,
    /// Where they are read.
    pub(super) from: VectorsFrom<'a>,
    /// Those that are read.
    pub(super) chunks: &'a [u64],
    /// Field, vector, component.
    pub(super) fields: &'a [(String, u64, u64)],
}

impl Vectors<'_> {
    fn component(&self, field: &str) -> Option<(u64, &'static str)> {
        let (_, chunk, at) = self.fields.iter().find(|(name, ..)| name == field)?;
        Some((*chunk, COMPONENTS.get(*at as usize)?))
    }

    /// The variable that a vector is read into.
    fn variable(&self, buffer: &str, chunk: u64) -> String {
        match &self.from {
            VectorsFrom::Structs { .. } => format!("{buffer}_{chunk}"),
            VectorsFrom::Array { variable, .. } => (*variable).to_owned(),
        }
    }
}

pub(super) fn each<'t>(node: Node<'t>, visit: &mut impl FnMut(Node<'t>)) {
    // Without recursion: nothing bounds how deep a text nests.
    let mut pending = vec![node];
    while let Some(node) = pending.pop() {
        visit(node);
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.children(&mut cursor).collect();
        pending.extend(children.into_iter().rev());
    }
}

/// The name that a function's declarator gives it.
fn name_of(function: Node<'_>) -> Option<Node<'_>> {
    let mut node = function.child_by_field_name("declarator")?;
    loop {
        match node.kind() {
            "identifier" => return Some(node),
            _ => node = node.child_by_field_name("declarator")?,
        }
    }
}

/// The name that a parameter has.
pub(super) fn innermost_name(parameter: Node<'_>) -> Option<Node<'_>> {
    let mut found = None;
    each(parameter.child_by_field_name("declarator")?, &mut |node| {
        if node.kind() == "identifier" {
            found = found.or(Some(node));
        }
    });
    found
}

/// What stands between the brackets of a subscript with one index.
pub(super) fn brackets(subscript: Node<'_>) -> Option<(usize, usize)> {
    let list = subscript.child_by_field_name("indices");
    let node = list.unwrap_or(subscript);
    let mut cursor = node.walk();
    let (mut open, mut close) = (None, None);
    for child in node.children(&mut cursor) {
        match child.kind() {
            "[" => open = Some(child.end_byte()),
            "]" => close = Some(child.start_byte()),
            "," => return None,
            _ => {}
        }
    }
    Some((open?, close?))
}

/// The statement that a node is in.
fn statement(node: Node<'_>) -> Option<Node<'_>> {
    let mut node = node;
    loop {
        if node.kind().ends_with("_statement") || node.kind() == "declaration" {
            return Some(node);
        }
        node = node.parent()?;
    }
}
