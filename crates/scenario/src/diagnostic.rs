//! Errors, and what `coalescope check` finds, with their place and remedy.

pub use crate::lower::suggest::nearest;
use crate::source::{Source, SourceId, Sources, Span};
use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
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
    /// No error of the scenario: what a check of its counts found.
    Finding,
}

/// How much a diagnostic weighs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// To be known.
    Note,
    /// To be looked at; nothing fails by it.
    Warning,
    /// Something fails by it.
    #[default]
    Error,
}

/// One error, with where it is and what to do.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// What kind of error.
    pub kind: Kind,
    /// How much it weighs; an error unless said otherwise.
    pub severity: Severity,
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
            severity: Severity::Error,
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
            severity: Severity::Error,
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

    /// Sets how much it weighs.
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Adds a fact.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Renders it in the manner of rustc: message, ` --> file:line:column`, the
    /// line with a caret, notes, and the remedy.
    ///
    /// Never fails: a span that lies outside its text, or inside a character,
    /// is moved to the nearest place that does not.
    pub fn render(&self, sources: &Sources, style: Style) -> String {
        let mut marks: Vec<(SourceId, Mark<'_>)> = Vec::new();
        if let Some((span, label)) = &self.primary {
            marks.push((span.source, Mark { span: *span, label, kind: AnnotationKind::Primary }));
        }
        for (span, label) in &self.secondary {
            marks.push((span.source, Mark { span: *span, label, kind: AnnotationKind::Context }));
        }

        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let mut group = Group::with_title(level.primary_title(self.message.as_str()));
        // One snippet for each text, that of the primary place first.
        let mut texts: Vec<SourceId> = Vec::new();
        for (id, _) in &marks {
            if !texts.contains(id) {
                texts.push(*id);
            }
        }
        for id in texts {
            let Some(source) = sources.find(id) else { continue };
            let path = source.path.display().to_string();
            let snippet = Snippet::source(&*source.text).path(path).annotations(
                marks.iter().filter(|(of, _)| *of == id).map(|(_, mark)| mark.annotation(source)),
            );
            group = group.element(snippet);
        }
        if self.primary.is_none()
            && let Some(source) = sources.find(SourceId(0))
        {
            group = group.element(Origin::path(source.path.display().to_string()));
        }
        for note in &self.notes {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        group = group.element(Level::HELP.message(self.help.as_str()));

        let renderer = match style {
            Style::Plain => Renderer::plain(),
            Style::Coloured => Renderer::styled(),
        };
        let rendered = renderer.decor_style(DecorStyle::Ascii).render(&[group]);
        if self.primary.is_some() || !self.secondary.is_empty() {
            return rendered;
        }
        // Without a line there is no column of line numbers to stand under:
        // move the arrow and what follows to where they are otherwise.
        let arrow = rendered.replace("\n-->", "\n -->").replace("\n\u{1b}", "\n \u{1b}");
        arrow.replace("\n =", "\n  =")
    }
}

/// Whether a rendered error has terminal colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text only: files, logs, tests.
    Plain,
    /// ANSI colours. Whether the terminal wants them is the caller's question
    /// (the `anstream` crate answers it).
    Coloured,
}

/// A place with its words.
struct Mark<'a> {
    span: Span,
    label: &'a str,
    kind: AnnotationKind,
}

impl<'a> Mark<'a> {
    fn annotation(&self, source: &Source) -> annotate_snippets::Annotation<'a> {
        let annotation = self.kind.span(printable(&source.text, self.span));
        if self.label.is_empty() { annotation } else { annotation.label(self.label) }
    }
}

/// The part of `span` that can be underlined: inside the text, on character
/// borders, at most [`LINES_SHOWN`] lines, and one character at least where
/// there is one.
fn printable(text: &str, span: Span) -> Range<usize> {
    let start = text.floor_char_boundary((span.start as usize).min(text.len()));
    let end = text.ceil_char_boundary((span.end as usize).clamp(start, text.len()));
    let Some(shown) = text.get(start..end) else { return text.len()..text.len() };
    if shown.is_empty() {
        // A caret needs a character to stand under; at the end of a line the
        // renderer puts it after the last one.
        return match text.get(start..).and_then(|rest| rest.chars().next()) {
            Some(next) if next != '\n' && next != '\r' => start..start + next.len_utf8(),
            _ => start..start,
        };
    }
    // A span that covers a whole function would print all of it.
    let cut = shown.match_indices('\n').nth(LINES_SHOWN - 1).map_or(shown.len(), |(at, _)| at);
    let shown = shown.get(..cut).unwrap_or(shown).trim_end();
    start..start + shown.len()
}

/// Lines of a span that are underlined; the rest of a longer one is left out.
const LINES_SHOWN: usize = 6;

/// The remedy for an unknown name: the nearest known one, and all of them
/// (the first twenty, when there are more).
///
/// `what` names them in the plural: "parameters", "buffers".
pub fn known_names<'a>(
    name: &str,
    what: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    if candidates.is_empty() {
        return format!("there are no {what} here");
    }
    let shown: Vec<&str> = candidates.iter().copied().take(20).collect();
    let more = if candidates.len() > shown.len() { ", …" } else { "" };
    let list = format!("{}{more}", shown.join(", "));
    match nearest(name, candidates.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? Known {what}: {list}"),
        None => format!("known {what}: {list}"),
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

impl Diagnostics {
    /// Errors in order of place; what is said twice is kept once.
    ///
    /// Errors without a place come first.
    pub fn new(sources: Arc<Sources>, mut errors: Vec<Diagnostic>) -> Self {
        let place =
            |error: &Diagnostic| error.primary.as_ref().map(|(span, _)| (span.source, span.start));
        errors.sort_by_key(place);
        errors.dedup_by(|a, b| place(a) == place(b) && a.message == b.message);
        Self { sources, errors }
    }

    /// All of them, one under the other, a blank line between.
    pub fn render(&self, style: Style) -> String {
        let rendered: Vec<String> =
            self.errors.iter().map(|error| error.render(&self.sources, style)).collect();
        rendered.join("\n\n")
    }
}

/// The message with its remedy; the place needs the texts
/// ([`Diagnostic::render`]).
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

impl std::error::Error for Diagnostic {}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Style::Plain))
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sources(text: &str) -> Sources {
        let mut sources = Sources::default();
        sources.add("case.toml", text);
        sources
    }

    fn at(start: u32, end: u32) -> Diagnostic {
        Diagnostic::new(Kind::Type, Span::new(SourceId(0), start, end), "message", "remedy")
            .label("here")
    }

    #[test]
    fn looks_like_rustc() {
        let error = at(4, 7).note("lane 3: i = 8");
        let expected = "\
error: message
 --> case.toml:2:1
  |
2 | def
  | ^^^ here
  |
  = note: lane 3: i = 8
  = help: remedy";
        assert_eq!(error.render(&sources("abc\ndef\nghi\n"), Style::Plain), expected);
    }

    #[test]
    fn a_warning_says_so() {
        let warning = at(0, 3).severity(Severity::Warning).render(&sources("abc\n"), Style::Plain);
        assert!(warning.starts_with("warning: message\n"), "{warning}");
    }

    #[test]
    fn colours_are_only_added() {
        let (text, error) = (sources("abc\n"), at(0, 1));
        let coloured = error.render(&text, Style::Coloured);
        let plain = error.render(&text, Style::Plain);
        assert!(coloured.contains('\u{1b}') && !plain.contains('\u{1b}'));
    }

    #[test]
    fn tabs_and_wide_characters_keep_the_caret_in_place() {
        let text = "\tint 宽 = q;\n";
        let start = text.find('q').unwrap_or_default() as u32;
        let rendered = at(start, start + 1).render(&sources(text), Style::Plain);
        // A tab is shown as four spaces, 宽 takes two columns.
        assert!(rendered.contains("1 |     int 宽 = q;\n  |              ^ here"), "{rendered}");
    }

    #[test]
    fn a_place_outside_the_text_is_shown_at_its_end() {
        let rendered = at(900, 901).render(&sources("abc"), Style::Plain);
        assert!(rendered.contains("1 | abc\n  |    ^ here"), "{rendered}");
        at(0, 0).render(&sources(""), Style::Plain);
    }

    #[test]
    fn whole_file_errors_name_the_file() {
        let error = Diagnostic::whole_file(Kind::Input, "the file is empty", "write something");
        assert_eq!(
            error.render(&sources(""), Style::Plain),
            "error: the file is empty\n --> case.toml\n  = help: write something"
        );
    }

    #[test]
    fn unknown_names_are_told_with_the_known_ones() {
        let known = ["title", "summary", "launch"];
        assert_eq!(
            known_names("titel", "keys", known),
            "did you mean `title`? Known keys: title, summary, launch"
        );
        assert_eq!(known_names("grid", "keys", known), "known keys: title, summary, launch");
        assert_eq!(known_names("grid", "keys", []), "there are no keys here");
        let many: Vec<String> = (0..30).map(|i| format!("parameter_{i}")).collect();
        let help = known_names("x", "parameters", many.iter().map(String::as_str));
        assert!(help.ends_with("parameter_19, …"), "{help}");
    }

    proptest! {
        #[test]
        fn no_span_makes_it_panic(
            text in "[a-z \t\r\n宽é\u{feff}\u{200b}\u{7}]{0,60}",
            spans in prop::collection::vec((0u32..80, 0u32..80, 0u16..3), 1..5),
        ) {
            let mut sources = sources(&text);
            sources.add("kernel.cu", "int i;\r\n\tx");
            let mut error: Option<Diagnostic> = None;
            for (start, end, source) in spans {
                let span = Span::new(SourceId(source), start, end);
                error = Some(match error {
                    None => Diagnostic::new(Kind::Type, span, "message", "remedy").label("l"),
                    Some(error) => error.also(span, "also"),
                });
            }
            if let Some(error) = error {
                prop_assert!(error.render(&sources, Style::Plain).starts_with("error: message"));
                error.render(&sources, Style::Coloured);
            }
        }
    }
}
