//! From CUDA C, as tree-sitter parses it, to the typed program.

use crate::run::{Buffer, Launch, ParamValue};
use crate::source::{SourceId, Span};
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

/// Which function of the code is the kernel.
#[derive(Clone, Debug)]
pub enum Entry {
    /// The code is a body; or it has exactly one `__global__` function.
    Only,
    /// The `__global__` function of this name; the span is where it is asked
    /// for.
    Named(String, Span),
}
