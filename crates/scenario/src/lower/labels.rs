//! `// @label name`: names that authors give to accesses.
//!
//! A comment names an access on its line. Where the line makes several, one
//! label names the last one performed, which for an assignment is the store;
//! several labels name the accesses in the order they are performed, loads
//! before the store (`out[i] = in[i];  // @label read @label write`). An access
//! that moves a struct or vector in several pieces counts once; its pieces
//! share the name.

use super::Code;
use std::ops::Range;

/// A label and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) name: String,
    /// Line in the code, from 0.
    pub(crate) line: usize,
    /// The bytes of `@label name` in the code.
    pub(crate) range: Range<u32>,
}

/// Finds the labels in a code's comments.
pub(crate) fn find(code: &Code, comments: &[Range<u32>]) -> Vec<Label> {
    const KEY: &str = "@label";
    let mut labels = Vec::new();
    for comment in comments {
        let start = comment.start as usize;
        let text = &code.text[start..comment.end as usize];
        let mut from = 0;
        while let Some(key) = text[from..].find(KEY).map(|at| from + at) {
            let rest = &text[key + KEY.len()..];
            let spaces = rest.len() - rest.trim_start_matches([' ', '\t', ':']).len();
            let name = &rest[spaces..];
            let end = name
                .find(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '*'))
                .unwrap_or(name.len());
            let name = &name[..end];
            from = key + KEY.len() + spaces + end;
            if !name.is_empty() && spaces > 0 {
                labels.push(Label {
                    name: name.to_owned(),
                    line: line_of(&code.text, start + key),
                    range: (start + key) as u32..(start + from) as u32,
                });
            }
        }
    }
    labels
}

/// Line of a byte, from 0.
pub(crate) fn line_of(text: &str, byte: usize) -> usize {
    text.as_bytes()[..byte.min(text.len())].iter().filter(|&&b| b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::{Origin, tokens};
    use crate::source::SourceId;

    #[test]
    fn labels_stand_in_comments() {
        let text = "a; // @label one\nb; /* @label two @label three */\n\"@label no\"; // @labels";
        let code = Code { text: text.into(), source: SourceId(0), origin: Origin::Offset(0) };
        let found: Vec<_> = find(&code, &tokens::tokenize(text).comments)
            .into_iter()
            .map(|label| (label.name, label.line))
            .collect();
        let expected = [("one", 0), ("two", 1), ("three", 1)];
        assert_eq!(found, expected.map(|(name, line)| (name.to_owned(), line)));
    }
}
