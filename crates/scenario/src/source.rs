//! Source texts and places in them.

use std::path::PathBuf;
use std::sync::Arc;

/// Index of a text in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u16);

/// A byte range of one source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Which text.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end` of `source`.
    pub const fn new(source: SourceId, start: u32, end: u32) -> Self {
        Self { source, start, end }
    }
}

/// One text that a scenario was read from: its TOML file or a `.cu` file. The
/// code of an inline kernel is part of the TOML file's text, so that errors
/// point into the file the user edits.
#[derive(Clone, Debug)]
pub struct Source {
    /// As the user named it.
    pub path: PathBuf,
    /// The whole text.
    pub text: Arc<str>,
}

/// The texts of one scenario.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    texts: Vec<Source>,
}

impl Sources {
    /// Adds a text and returns its id.
    pub fn add(&mut self, path: impl Into<PathBuf>, text: impl Into<Arc<str>>) -> SourceId {
        let id = SourceId(self.texts.len() as u16);
        self.texts.push(Source { path: path.into(), text: text.into() });
        id
    }

    /// The text behind an id.
    pub fn get(&self, id: SourceId) -> &Source {
        &self.texts[usize::from(id.0)]
    }

    /// Line of the first byte of `span`, from 1.
    pub fn line(&self, span: Span) -> usize {
        let text = &self.get(span.source).text;
        let end = (span.start as usize).min(text.len());
        1 + text.as_bytes()[..end].iter().filter(|&&b| b == b'\n').count()
    }

    /// The text of `span`; empty where the range is not on character borders.
    pub fn text(&self, span: Span) -> &str {
        self.get(span.source).text.get(span.start as usize..span.end as usize).unwrap_or("")
    }
}
