//! From CUDA C, as tree-sitter parses it, to the typed program.
//!
//! A kernel goes through these steps, one file each:
//!
//! 1. `tokens` cuts the text, `macros` runs the preprocessor over it, with the
//!    scenario's parameters in place of the `#define`s that they override.
//! 2. `parse` drops the bodies of host functions, puts right what a grammar
//!    without types would misread, and gives the rest to tree-sitter. Every node
//!    finds its way back to the bytes that the user wrote.
//! 3. `items` lists what the file defines; `entry` finds the kernel and binds its
//!    parameters to buffers and parameters of the scenario.
//! 4. `stmt`, `decl`, `expr`, `place`, `functions` and `builtins` lower the body
//!    in one pass, calls inlined. A value is flattened to its scalars (`value`);
//!    what touches memory becomes an access (`access`); constants are folded
//!    (`fold`), but never so that an error disappears.
//! 5. `finish` settles what needs the whole kernel: where each pointer points,
//!    labels, arrays that must stay in registers; `dead` drops what is left of
//!    floating-point arithmetic.
//!
//! What the subset lacks is an error with the words "not modelled". A statement
//! with an error is given up, the next ones are still read, so that all errors
//! are reported at once.

mod access;
mod builtins;
mod context;
mod convert;
mod dead;
mod decl;
mod entry;
mod expr;
mod finish;
mod fold;
mod functions;
mod items;
mod labels;
mod literal;
mod macros;
mod parse;
mod place;
mod stmt;
pub(crate) mod suggest;
mod tokens;
mod usage;
mod value;

use self::context::{Binding, Lowered, Lowerer};
use self::items::Items;
use self::parse::{Shape, Unit};
use self::value::Value;
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::{Expr, Program, Scalar, ValueType};
use crate::run::{Buffer, KernelText, Launch, ParamValue};
use crate::source::{SourceId, Span};
use crate::types::{self, StructTable, Type};
use std::sync::Arc;
use tree_sitter::Node;

/// A piece of C text and where it stands in a source, so that errors point
/// into the file the user edits even where the text is a TOML string with
/// escapes.
#[derive(Clone, Debug)]
pub struct Code {
    /// The text as C sees it.
    pub text: Arc<str>,
    /// The source it is part of.
    pub source: SourceId,
    /// Where its bytes stand there.
    pub origin: Origin,
}

/// How bytes of a [`Code`] map to its source.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Byte `i` stands at `start + i`.
    Offset(u32),
    /// Byte `i` stands at `offsets[i]`; one more entry for the end.
    Mapped(Arc<[u32]>),
}

impl Code {
    /// The span of the bytes `start..end` of the text.
    pub fn span(&self, start: usize, end: usize) -> Span {
        let at = |i: usize| match &self.origin {
            Origin::Offset(base) => base + i as u32,
            Origin::Mapped(offsets) => offsets[i.min(offsets.len() - 1)],
        };
        Span::new(self.source, at(start), at(end))
    }
}

/// What a kernel is lowered against.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// Parameters of the run, by name, evaluated.
    pub params: &'a [(String, ParamValue)],
    /// Structs of the scenario file.
    pub structs: &'a StructTable,
    /// Buffers of the run.
    pub buffers: &'a [Buffer],
    /// Element types of the buffers, in the same order.
    pub buffer_types: &'a [Type],
    /// The launch.
    pub launch: &'a Launch,
}

impl<'a> Environment<'a> {
    /// An environment for expressions outside kernels: parameters and structs,
    /// no buffers.
    pub fn outside_kernels(params: &'a [(String, ParamValue)], structs: &'a StructTable) -> Self {
        static ONE_THREAD: Launch =
            Launch { grid: [1; 3], block: [1; 3], registers: None, dynamic_shared_bytes: 0 };
        Self { params, structs, buffers: &[], buffer_types: &[], launch: &ONE_THREAD }
    }
}

/// Which function of the code is the kernel.
#[derive(Clone, Debug)]
pub enum Entry {
    /// The code is a body; or it has exactly one `__global__` function.
    Only,
    /// The `__global__` function of this name; the span is where it is asked
    /// for.
    Named(String, Span),
}

/// The kernel code of a scenario, parsed.
#[derive(Clone, Debug)]
pub struct Parsed {
    shape: Shape,
    unit: Arc<Unit>,
}

impl Parsed {
    /// Parses a kernel's body, whole `__global__` functions, or a whole `.cu`
    /// file. Syntax errors are reported by [`Parsed::kernel`], where they
    /// concern the entry or what it calls.
    pub fn new(code: Code) -> Self {
        let shape = shape_of(&code);
        Self { shape, unit: Arc::new(Unit::new(&code, shape, &[])) }
    }

    /// The typed program of `entry` for one run, and its text.
    ///
    /// # Errors
    /// All errors found, in order of place; at least one.
    pub fn kernel(
        &self,
        entry: &Entry,
        env: &Environment<'_>,
    ) -> Result<(Program, KernelText), Vec<Diagnostic>> {
        entry::kernel(&self.unit_for(env.params), self.shape, entry, env)
    }

    /// Defines in `structs` the struct that the file calls `name`, where it has
    /// one and `structs` does not: buffers may be of types that only the `.cu`
    /// file defines.
    ///
    /// # Errors
    /// What is wrong with its definition, or outside the subset.
    pub(crate) fn define_struct(
        &self,
        name: &str,
        params: &[(String, ParamValue)],
        structs: &mut StructTable,
    ) -> Result<(), Vec<Diagnostic>> {
        if self.shape != Shape::File || structs.by_name(name).is_some() {
            return Ok(());
        }
        let env = Environment::outside_kernels(params, structs);
        let unit = self.unit_for(params);
        let mut lowerer = Lowerer::new(&unit, &env, Items::collect(&unit));
        if lowerer.items.types.get(name).is_none_or(|item| item.template.is_some()) {
            return Ok(());
        }
        lowerer.bind_params();
        let found = lowerer.file_type(name);
        let (errors, mut table) = (lowerer.errors, lowerer.structs);
        if !errors.is_empty() {
            return Err(errors);
        }
        if let Ok(Some(Type::Struct(id))) = found {
            table.alias(name, id);
            structs.extend(table);
        }
        Ok(())
    }

    /// The code as it reads with these parameters: those that a `#define` or
    /// `#if` names change it.
    fn unit_for(&self, params: &[(String, ParamValue)]) -> Arc<Unit> {
        if params.iter().any(|(name, _)| self.unit.macro_names.contains(name)) {
            Arc::new(Unit::new(&self.unit.code, self.shape, params))
        } else {
            Arc::clone(&self.unit)
        }
    }
}

/// Whether a text is statements or contains whole functions.
fn shape_of(code: &Code) -> Shape {
    let whole = tokens::tokenize(&code.text).lines.iter().any(|line| match line {
        tokens::Line::Text(tokens) => tokens.iter().any(|token| token.is("__global__")),
        tokens::Line::Directive(_) => false,
    });
    if whole { Shape::File } else { Shape::Body }
}

/// The value of a C integer constant expression over parameters, as quoted
/// numbers in TOML are: `"(n + 255) / 256"`. It is typed as C types it.
///
/// # Errors
/// Syntax, unknown names, anything but integers, overflow, division by zero.
pub fn constant(code: &Code, env: &Environment<'_>) -> Result<ParamValue, Diagnostic> {
    expression(code, env, |lowerer, node| {
        let value = lowerer.expr(node)?;
        let expr = match value.as_int() {
            Some(expr) => expr.clone(),
            None => lowerer.integer(value, node)?,
        };
        match fold::as_const(&expr) {
            Some(value) => {
                Ok(ParamValue { ty: convert::param_type(fold::scalar_of(&expr)), value })
            }
            None => Err(lowerer.not_constant(node, &expr, "this")),
        }
    })
}

/// The expression of a buffer's `init`, over local 0 = `i`, the flat element
/// index, of type `I64`; parameters, `hash` and `hash64`.
///
/// # Errors
/// Syntax, unknown names, anything but integers.
pub fn init_expression(code: &Code, env: &Environment<'_>) -> Result<Expr, Diagnostic> {
    expression(code, env, |lowerer, node| {
        let local = lowerer.local("i", ValueType::Int(Scalar::I64));
        let index = lowerer.read(local, code.span(0, code.text.len()));
        lowerer.bind("i", Binding::Value(Value::int(index)));
        let value = lowerer.expr(node)?;
        match value.as_int() {
            Some(expr) => {
                let expr = expr.clone();
                // Constant parts that have no value are errors wherever they
                // stand.
                let mut error = None;
                fold::visit(&expr, &mut |part| {
                    error = expr::constant_error(part).or(error.take());
                });
                match error {
                    Some(error) => Err(lowerer.fail(error)),
                    None => Ok(expr),
                }
            }
            None => lowerer.integer(value, node),
        }
    })
}

/// Lowers a text that is one expression.
fn expression<T>(
    code: &Code,
    env: &Environment<'_>,
    lower: impl for<'u> FnOnce(&mut Lowerer<'u>, Node<'u>) -> Lowered<T>,
) -> Result<T, Diagnostic> {
    let unit = Unit::new(code, Shape::Expression, &[]);
    let mut lowerer = Lowerer::new(&unit, env, Items::default());
    lowerer.bind_params();
    // For `buffer.pitch`.
    lowerer.bind_buffers();
    let node = single_statement(&unit)
        .filter(|statement| statement.kind() == "return_statement")
        .and_then(|statement| statement.named_child(0));
    let result = match node {
        Some(node) => lower(&mut lowerer, node),
        None if code.text.trim().is_empty() => {
            return Err(Diagnostic::new(
                Kind::Syntax,
                code.span(0, code.text.len()),
                "an expression is missing",
                "write a number, or an expression of parameters such as \"n / 32\"",
            ));
        }
        None => Err(lowerer.syntax_errors(unit.tree.root_node())),
    };
    let statements = !lowerer.block.is_empty();
    match result {
        Ok(value) if lowerer.errors.is_empty() && !statements => Ok(value),
        _ => Err(lowerer.errors.into_iter().next().unwrap_or_else(|| {
            Diagnostic::new(
                Kind::Type,
                code.span(0, code.text.len()),
                "this expression must have no side effects",
                "use the arithmetic operators on numbers and parameters",
            )
        })),
    }
}

/// The one statement of a text that was parsed as a body, if there are no
/// syntax errors.
fn single_statement(unit: &Unit) -> Option<Node<'_>> {
    let root = unit.tree.root_node();
    let body = root.named_child(0)?.child_by_field_name("body")?;
    let mut cursor = body.walk();
    let mut statements = body.named_children(&mut cursor);
    let first = statements.next()?;
    // An empty statement may follow from the semicolon added behind the text.
    let only = statements.all(|rest| rest.named_child_count() == 0);
    (only && !root.has_error() && root.named_child_count() == 1).then_some(first)
}

/// Name and type of a field as C declares it: `float x[32]`.
pub(crate) fn field(
    code: &Code,
    structs: &StructTable,
    params: &[(String, ParamValue)],
) -> Result<(String, Type), Diagnostic> {
    let env = Environment::outside_kernels(params, structs);
    let unit = Unit::new(code, Shape::Declaration, &[]);
    let mut lowerer = Lowerer::new(&unit, &env, Items::default());
    lowerer.bind_params();
    let declaration = single_statement(&unit).filter(|node| node.kind() == "declaration");
    let result = match declaration {
        Some(node) => lowerer.field_type(node),
        None => Err(lowerer.syntax_errors(unit.tree.root_node())),
    };
    match result {
        Ok((name, ty)) if lowerer.errors.is_empty() => Ok((name, ty)),
        _ => Err(lowerer.errors.into_iter().next().unwrap_or_else(|| {
            Diagnostic::new(
                Kind::Syntax,
                code.span(0, code.text.len()),
                "this is no field",
                "write a type and a name: \"float x\"",
            )
        })),
    }
}

/// A type without array lengths.
pub(crate) fn type_name(code: &Code, structs: &StructTable) -> Result<Type, Diagnostic> {
    let words: Vec<&str> = code.text.split_whitespace().collect();
    if let Some(ty) = types::type_of_words(&words).filter(|ty| *ty != Type::Void) {
        return Ok(ty);
    }
    let name = words.join(" ");
    if let Some(id) = structs.by_name(&name).or_else(|| structs.by_alias(&name)) {
        return Ok(Type::Struct(id));
    }
    let names = structs
        .structs
        .iter()
        .map(|layout| layout.name.as_str())
        .chain(types::COMMON_NAMES.iter().copied());
    let help = match suggest::nearest(&name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            "use a type of CUDA such as float, int, float4, or a struct of this or the kernel's file".to_owned()
        }
    };
    let span = code.span(0, code.text.len());
    Err(Diagnostic::new(Kind::UnknownName, span, format!("unknown type `{name}`"), help))
}
