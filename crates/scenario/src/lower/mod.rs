//! From CUDA C, as tree-sitter parses it, to the typed program.

use crate::diagnostic::{Diagnostic, Kind};
use crate::program::{Expr, Program};
use crate::run::{Buffer, KernelText, Launch, ParamValue};
use crate::source::{SourceId, Sources, Span};
use crate::types::{StructTable, Type};
use std::sync::Arc;

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
    code: Code,
}

impl Parsed {
    /// Parses a kernel's body, whole `__global__` functions, or a whole `.cu`
    /// file. Syntax errors are reported by [`Parsed::kernel`], where they
    /// concern the entry or what it calls.
    pub fn new(code: Code) -> Self {
        Self { code }
    }

    /// The typed program of `entry` for one run, and its text.
    ///
    /// # Errors
    /// All errors found, in order of place; at least one.
    pub fn kernel(
        &self,
        entry: &Entry,
        env: &Environment<'_>,
        sources: &Sources,
    ) -> Result<(Program, KernelText), Vec<Diagnostic>> {
        let _ = (entry, env, sources);
        Err(vec![pending(&self.code)])
    }
}

/// The value of a C integer constant expression over parameters, as quoted
/// numbers in TOML are: `"(n + 255) / 256"`. It is typed as C types it.
///
/// # Errors
/// Syntax, unknown names, anything but integers, overflow, division by zero.
pub fn constant(code: &Code, env: &Environment<'_>) -> Result<ParamValue, Diagnostic> {
    let _ = env;
    Err(pending(code))
}

/// The expression of a buffer's `init`, over local 0 = `i`, the flat element
/// index, of type `I64`; parameters, `hash` and `hash64`.
///
/// # Errors
/// Syntax, unknown names, anything but integers.
pub fn init_expression(code: &Code, env: &Environment<'_>) -> Result<Expr, Diagnostic> {
    let _ = env;
    Err(pending(code))
}

/// Name and type of a field as C declares it: `float x[32]`.
pub(crate) fn field(
    code: &Code,
    structs: &StructTable,
    params: &[(String, ParamValue)],
) -> Result<(String, Type), Diagnostic> {
    let _ = (structs, params);
    Err(pending(code))
}

/// A type without array lengths.
pub(crate) fn type_name(code: &Code, structs: &StructTable) -> Result<Type, Diagnostic> {
    let _ = structs;
    Err(pending(code))
}

fn pending(code: &Code) -> Diagnostic {
    Diagnostic::new(
        Kind::NotModelled,
        code.span(0, code.text.len()),
        "not modelled: lowering is under way",
        "wait for it",
    )
}
