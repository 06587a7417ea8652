//! Errors with their place and remedy.

use crate::source::{Sources, Span};
use std::sync::Arc;

/// What kind of error it is; tests and callers match on it, people read the
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The file can't be read, or is not UTF-8, or is empty.
    Input,
    /// TOML syntax, keys and types.
    Document,
    /// CUDA syntax.
    Syntax,
    /// A name that nothing defines.
    UnknownName,
    /// Types that don't fit.
    Type,
    /// A construct outside the subset: "not modelled".
    NotModelled,
    /// Launch, shared memory or size limits.
    Limit,
    /// Found while evaluating: overflow, bounds, division, alignment, barrier.
    Evaluation,
}

/// One error, with where it is and what to do.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// What kind of error.
    pub kind: Kind,
    /// One sentence in lower case without a full stop.
    pub message: String,
    /// The place that the caret underlines, with the words beside the caret.
    pub primary: Option<(Span, String)>,
    /// Further places.
    pub secondary: Vec<(Span, String)>,
    /// Facts: lane, block, values.
    pub notes: Vec<String>,
    /// The remedy; every diagnostic has one.
    pub help: String,
}

impl Diagnostic {
    /// A diagnostic at `span`.
    pub fn new(
        kind: Kind,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            message: message.into(),
            primary: Some((span, String::new())),
            secondary: Vec::new(),
            notes: Vec::new(),
            help: help.into(),
        }
    }

    /// A diagnostic about a file as a whole.
    pub fn whole_file(kind: Kind, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            primary: None,
            secondary: Vec::new(),
            notes: Vec::new(),
            help: help.into(),
        }
    }

    /// Sets the words beside the caret.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        if let Some(primary) = &mut self.primary {
            primary.1 = label.into();
        }
        self
    }

    /// Adds a place.
    pub fn also(mut self, span: Span, label: impl Into<String>) -> Self {
        self.secondary.push((span, label.into()));
        self
    }

    /// Adds a fact.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// The errors of one scenario together with the texts they point into.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    /// The texts.
    pub sources: Arc<Sources>,
    /// At least one error, in order of place.
    pub errors: Vec<Diagnostic>,
}
