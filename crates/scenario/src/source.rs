//! Source texts, places in them, and where files come from.

use crate::diagnostic::{Diagnostic, Kind};
use crate::lower::{Code, Origin};
use std::io;
use std::path::{Component, Path, PathBuf};
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

/// One text that a scenario was read from: its TOML file, a `.cu` file, or
/// what was given on the command line. The code of an inline kernel is part of
/// the TOML file's text, so that errors point into the file the user edits.
#[derive(Clone, Debug)]
pub struct Source {
    /// As the user named it.
    pub path: PathBuf,
    /// The whole text.
    pub text: Arc<str>,
}

/// The texts of one scenario; the first is its TOML file.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    texts: Vec<Source>,
}

impl Sources {
    /// Adds a text and returns its id. (A scenario has a handful: the loader
    /// refuses one that names more files than ids can count.)
    pub fn add(&mut self, path: impl Into<PathBuf>, text: impl Into<Arc<str>>) -> SourceId {
        let id = SourceId(u16::try_from(self.texts.len()).unwrap_or(u16::MAX));
        self.texts.push(Source { path: path.into(), text: text.into() });
        id
    }

    /// The text behind an id that [`Sources::add`] of this value gave.
    pub fn get(&self, id: SourceId) -> &Source {
        &self.texts[usize::from(id.0)]
    }

    /// The text behind an id, if there is one.
    pub fn find(&self, id: SourceId) -> Option<&Source> {
        self.texts.get(usize::from(id.0))
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

    /// A whole text as code: without a byte order mark, lines ending in `\n`.
    pub fn code(&self, id: SourceId) -> Code {
        let text = &self.get(id).text;
        let skip = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        code_at(text, id, skip, text.len())
    }

    /// What a TOML string says, as code whose places are those in the file.
    ///
    /// `span` is that of the string with its quotes, `value` what the TOML
    /// parser read there.
    pub fn string(&self, span: Span, value: &str) -> Code {
        let raw = self.text(span);
        match decode_string(raw, span.start) {
            Some((text, offsets)) if text.replace("\r\n", "\n") == value.replace("\r\n", "\n") => {
                code(text, span.source, offsets)
            }
            // Not a string as TOML has them: the places inside are unknown.
            _ => Code {
                text: value.into(),
                source: span.source,
                origin: Origin::Mapped(vec![span.start; value.len() + 1].into()),
            },
        }
    }
}

/// The bytes `start..end` of a text as code.
fn code_at(text: &str, source: SourceId, start: usize, end: usize) -> Code {
    let part = text.get(start..end).unwrap_or("");
    let mut out = String::with_capacity(part.len());
    let mut offsets = Vec::with_capacity(part.len() + 1);
    push_raw(part, start, &mut out, &mut offsets);
    offsets.push(byte(start + part.len()));
    code(out, source, offsets)
}

fn byte(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Appends text that stands for itself, `\r\n` as `\n`.
fn push_raw(part: &str, start: usize, out: &mut String, offsets: &mut Vec<u32>) {
    for (at, c) in part.char_indices() {
        if c == '\r' && part[at + 1..].starts_with('\n') {
            continue;
        }
        out.push(c);
        offsets.extend((0..c.len_utf8()).map(|i| byte(start + at + i)));
    }
}

/// Code with its offsets, in the short form where they are consecutive.
fn code(text: String, source: SourceId, offsets: Vec<u32>) -> Code {
    let first = offsets.first().copied().unwrap_or(0);
    let consecutive = offsets.iter().zip(first..).all(|(&offset, expected)| offset == expected);
    let origin = if consecutive { Origin::Offset(first) } else { Origin::Mapped(offsets.into()) };
    Code { text: text.into(), source, origin }
}

/// Decodes a TOML string with its quotes: the text, and where each of its
/// bytes stands (one more for the end). `None` where it is no string.
///
/// The grammar is that of <https://toml.io/en/v1.1.0#string>.
fn decode_string(raw: &str, start: u32) -> Option<(String, Vec<u32>)> {
    let start = start as usize;
    let (quotes, literal) = ["'''", "\"\"\"", "'", "\""]
        .into_iter()
        .find(|quotes| raw.starts_with(quotes))
        .map(|quotes| (quotes, quotes.starts_with('\'')))?;
    let mut at = quotes.len();
    let end = raw.len().checked_sub(quotes.len()).filter(|&end| end >= at)?;
    raw[at..].ends_with(quotes).then_some(())?;
    if quotes.len() == 3 {
        // A line break right after the opening quotes is not part of the text.
        let rest = &raw[at..end];
        at += if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    }
    let mut out = String::new();
    let mut offsets = Vec::new();
    if literal {
        push_raw(&raw[at..end], start + at, &mut out, &mut offsets);
        offsets.push(byte(start + end));
        return Some((out, offsets));
    }
    while at < end {
        let rest = &raw[at..end];
        let plain = rest.find('\\').unwrap_or(rest.len());
        push_raw(&rest[..plain], start + at, &mut out, &mut offsets);
        at += plain;
        if at == end {
            break;
        }
        let escape = raw[at + 1..end].chars().next()?;
        let digits = match escape {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        let c = match escape {
            'b' => '\u{8}',
            't' => '\t',
            'n' => '\n',
            'f' => '\u{c}',
            'r' => '\r',
            'e' => '\u{1b}',
            '"' => '"',
            '\\' => '\\',
            'x' | 'u' | 'U' => {
                let hex = raw.get(at + 2..at + 2 + digits)?;
                char::from_u32(u32::from_str_radix(hex, 16).ok()?)?
            }
            c if c.is_ascii_whitespace() => {
                // A backslash at the end of a line joins it with the next text.
                let rest = &raw[at + 1..end];
                at += 1 + (rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len());
                continue;
            }
            _ => return None,
        };
        out.push(c);
        offsets.extend(std::iter::repeat_n(byte(start + at), c.len_utf8()));
        at += 1 + escape.len_utf8() + digits;
    }
    offsets.push(byte(start + end));
    Some((out, offsets))
}

/// Where the files that a scenario names come from.
pub trait Files {
    /// The bytes of the file at `path`: the scenario's folder joined with what
    /// the scenario says, not normalised.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

/// Most bytes a file may have.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let size = std::fs::metadata(path)?.len();
        if size > MAX_FILE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("the file has {size} bytes, more than the {MAX_FILE_BYTES} that are read"),
            ));
        }
        std::fs::read(path)
    }
}

/// Files in the program itself, by path with `/`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Embedded<'a>(pub &'a [(&'a str, &'a [u8])]);

impl Files for Embedded<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let wanted = normalised(path);
        self.0
            .iter()
            .find(|(name, _)| Path::new(name) == wanted)
            .map(|(_, bytes)| bytes.to_vec())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The path without `.` and, where it can be told from the path alone, without
/// `..`.
pub fn normalised(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(out.components().next_back(), Some(Component::Normal(_))) =>
            {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// Most bytes a text (TOML or CUDA) may have; also keeps spans in 32 bits.
pub const MAX_TEXT_BYTES: usize = 16 << 20;

/// Adds the text that was read from `path`. An error points into it.
pub(crate) fn add_text(
    sources: &mut Sources,
    path: &Path,
    bytes: Vec<u8>,
) -> Result<SourceId, Diagnostic> {
    if bytes.len() > MAX_TEXT_BYTES {
        sources.add(path, "");
        return Err(Diagnostic::whole_file(
            Kind::Limit,
            format!("the file has {} bytes, more than the {MAX_TEXT_BYTES} of a text", bytes.len()),
            "a scenario or kernel is a text that a person writes; is this the right file?",
        ));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(sources.add(path, text)),
        Err(error) => {
            let bad = error.utf8_error().valid_up_to();
            let bytes = error.into_bytes();
            let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
            let value = bytes.get(bad).copied().unwrap_or_default();
            let id = sources.add(path, String::from_utf8_lossy(&bytes));
            let at = Span::new(id, byte(bad), byte(bad + '\u{fffd}'.len_utf8()));
            let help = if utf16 {
                "the file looks like UTF-16; save it as UTF-8"
            } else {
                "save the file as UTF-8 (an editor's “save with encoding”)"
            };
            Err(Diagnostic::new(Kind::Input, at, "the file is not UTF-8", help)
                .label(format!("byte 0x{value:02x}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads the string at `key = …` as a scenario does.
    fn code_of(toml: &str) -> (Code, String) {
        let mut sources = Sources::default();
        let id = sources.add("case.toml", toml);
        let document = crate::document::parse(toml, id).unwrap_or_else(|e| panic!("{e:?}"));
        let title = document.title.unwrap_or_else(|| panic!("no title in {toml}"));
        (sources.string(title.span(id), &title.value), title.value)
    }

    #[test]
    fn bytes_of_a_string_keep_their_place() {
        for (toml, text, letter) in [
            ("title = 'abQ'", "abQ", 'Q'),
            ("title = \"a\\tb\\u00e9Q\"", "a\tbéQ", 'Q'),
            ("title = '''\nab\nQ'''", "ab\nQ", 'Q'),
            ("title = '''\r\nab\r\nQ\r\n'''", "ab\nQ\n", 'Q'),
            ("title = \"\"\"\n  a \\\n   Q\"\"\"", "  a Q", 'Q'),
            ("title = \"\"\"a\\\\\"Q\"\"\"", "a\\\"Q", 'Q'),
            ("title = '''it''s Q''''", "it''s Q'", 'Q'),
            ("\u{feff}title = '宽Q'", "宽Q", 'Q'),
        ] {
            let (code, _) = code_of(toml);
            assert_eq!(&*code.text, text, "{toml:?}");
            let at = code.text.find(letter).unwrap_or_else(|| panic!("no {letter}"));
            let span = code.span(at, at + 1);
            assert_eq!(&toml[span.start as usize..][..1], "Q", "{toml:?}");
        }
    }

    proptest! {
        /// What we decode is what the TOML parser decodes.
        #[test]
        fn decoding_agrees_with_the_parser(text in "[ -~\\t\\n\\r宽\u{e9}]{0,40}") {
            let escaped: String = text.chars().map(|c| match c {
                '"' => "\\\"".into(),
                '\\' => "\\\\".into(),
                '\n' => "\\n".into(),
                '\r' => "\\r".into(),
                '\t' => "\\t".into(),
                c if c.is_ascii() => c.to_string(),
                c => format!("\\U{:08X}", c as u32),
            }).collect();
            let toml = format!("title = \"{escaped}\"");
            let (code, value) = code_of(&toml);
            prop_assert_eq!(&value, &text);
            prop_assert_eq!(&*code.text, &text);
            // The last byte's place is known, hence the string was decoded.
            let end = code.span(text.len(), text.len()).end as usize;
            prop_assert_eq!(end, toml.len() - 1);
        }
    }

    #[test]
    fn paths_are_normalised() {
        assert_eq!(normalised(Path::new("scenarios/../kernels/./a.cu")), Path::new("kernels/a.cu"));
        assert_eq!(normalised(Path::new("../a.cu")), Path::new("../a.cu"));
    }
}
