//! Just enough of C's tokens to see which names a text uses and defines.
//!
//! The kernel's text is printed as its author wrote it; this finds what must be
//! put around it: helpers that it calls, macros that a parameter overrides, a
//! `main` of its own.

use std::ops::Range;

/// A name in a text, outside comments, strings and numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word<'a> {
    text: &'a str,
    /// Not inside braces or parentheses, nor in a preprocessor line.
    at_file_scope: bool,
    /// The next character that is not white space.
    next: Option<char>,
}

/// An object-like macro: `#define NAME value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Macro<'a> {
    pub(super) name: &'a str,
    /// The bytes from `#` to the end of the line, continuation lines included.
    pub(super) range: Range<usize>,
}

/// A text with its names found.
pub(super) struct Scan<'a> {
    words: Vec<Word<'a>>,
    macros: Vec<Macro<'a>>,
    includes: bool,
}

impl<'a> Scan<'a> {
    /// Finds the names of whole functions and what stands around them.
    pub(super) fn file(text: &'a str) -> Self {
        Scanner { text, at: 0, depth: 0 }.run()
    }

    /// Finds the names of a function's statements, none of which is at file
    /// scope.
    pub(super) fn body(text: &'a str) -> Self {
        Scanner { text, at: 0, depth: 1 }.run()
    }

    /// Whether the text names `word` anywhere.
    pub(super) fn uses(&self, word: &str) -> bool {
        self.words.iter().any(|found| found.text == word)
    }

    /// Whether a name that starts with `prefix` occurs.
    pub(super) fn uses_prefix(&self, prefix: &str) -> bool {
        self.words.iter().any(|found| found.text.starts_with(prefix))
    }

    /// Whether the text calls `name` without defining it.
    pub(super) fn calls_undefined(&self, name: &str) -> bool {
        self.words.iter().any(|found| found.text == name && found.next == Some('('))
            && !self.defines(name)
    }

    /// Whether the text defines `name` itself: as a macro, or as a function or
    /// variable at file scope.
    pub(super) fn defines(&self, name: &str) -> bool {
        self.macros.iter().any(|found| found.name == name)
            || self.words.iter().any(|found| {
                found.text == name
                    && found.at_file_scope
                    && matches!(found.next, Some('(' | '=' | '[' | ';' | '{'))
            })
    }

    /// Its object-like macros, in order.
    pub(super) fn macros(&self) -> &[Macro<'a>] {
        &self.macros
    }

    /// Whether it includes other files.
    pub(super) fn includes(&self) -> bool {
        self.includes
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Scanner<'a> {
    fn run(mut self) -> Scan<'a> {
        let mut scan = Scan { words: Vec::new(), macros: Vec::new(), includes: false };
        // Only white space so far on this line: a `#` starts a directive.
        let mut line_start = true;
        // Inside a directive's line.
        let mut directive = false;
        while let Some(c) = self.peek() {
            match c {
                '\\' if self.rest().starts_with("\\\n") || self.rest().starts_with("\\\r\n") => {
                    self.at += self.rest().find('\n').unwrap_or(0) + 1;
                }
                '\n' => {
                    self.at += 1;
                    line_start = true;
                    directive = false;
                }
                '/' if self.rest().starts_with("//") => self.skip_to_line_end(),
                '/' if self.rest().starts_with("/*") => {
                    let end = self.rest().find("*/").map_or(self.rest().len(), |end| end + 2);
                    self.at += end;
                }
                '#' if line_start => {
                    directive = true;
                    line_start = false;
                    self.directive(&mut scan);
                }
                '"' | '\'' => {
                    self.skip_quoted(c);
                    line_start = false;
                }
                c if c.is_ascii_digit() => {
                    self.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '\''));
                    line_start = false;
                }
                c if is_word_start(c) => {
                    let word = self.take_while(is_word);
                    line_start = false;
                    scan.words.push(Word {
                        text: word,
                        at_file_scope: self.depth == 0 && !directive,
                        next: self.rest().trim_start().chars().next(),
                    });
                }
                c => {
                    self.at += c.len_utf8();
                    line_start &= c.is_whitespace();
                    if !directive {
                        match c {
                            '{' | '(' => self.depth += 1,
                            '}' | ')' => self.depth = self.depth.saturating_sub(1),
                            _ => {}
                        }
                    }
                }
            }
        }
        scan
    }

    /// The `#` of a directive: its name and, of a macro, the macro's.
    fn directive(&mut self, scan: &mut Scan<'a>) {
        let start = self.at;
        self.at += 1;
        self.take_while(|c| c == ' ' || c == '\t');
        let name = self.take_while(is_word);
        if name == "include" {
            scan.includes = true;
            self.skip_to_line_end();
            return;
        }
        if name != "define" {
            return;
        }
        self.take_while(|c| c == ' ' || c == '\t');
        let name = self.take_while(is_word);
        if !name.is_empty() && self.peek() != Some('(') {
            let end = line_end(self.text, self.at);
            scan.macros.push(Macro { name, range: start..end });
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take_while(&mut self, holds: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !holds(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// To the end of the line, which a backslash puts off.
    fn skip_to_line_end(&mut self) {
        self.at = line_end(self.text, self.at);
    }

    fn skip_quoted(&mut self, quote: char) {
        let mut escaped = true;
        for (i, c) in self.rest().char_indices() {
            // An unclosed quote ends with its line.
            if !escaped && (c == quote || c == '\n') {
                self.at += i + usize::from(c == quote);
                return;
            }
            escaped = i > 0 && c == '\\' && !escaped;
        }
        self.at = self.text.len();
    }
}

/// The end of the line at `from`, going on where it ends with a backslash.
fn line_end(text: &str, from: usize) -> usize {
    let mut at = from;
    loop {
        let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
        let line = text[at..end].trim_end_matches('\r');
        if !line.ends_with('\\') || end == text.len() {
            return end;
        }
        at = end + 1;
    }
}

fn is_word_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
#include <cstdio>
#define TILE 32   // columns
#define ROWS \
    8
#define CHECK(x) do { x; } while (0)
// load(a);  "unbalanced
// goes on \
   store(x)
const int N = 5;
static const char *s = "store(b) // {{{";
__device__ unsigned hash(unsigned x) { return x; }
__global__ void k(float *p, int n) { if (n < 1'000) load(p[hash(n)]); }
int main() { k<<<1, TILE>>>(nullptr, N); return ROWS; }
"#;

    #[test]
    fn names_in_comments_and_strings_are_not_uses() {
        let scan = Scan::file(FILE);
        assert!(scan.includes());
        assert!(scan.calls_undefined("load"));
        assert!(!scan.uses("store"));
        assert!(!scan.calls_undefined("hash"), "the file has its own");
        assert!(!scan.calls_undefined("hash64"));
    }

    #[test]
    fn definitions_are_macros_and_names_at_file_scope() {
        let scan = Scan::file(FILE);
        let macros: Vec<(&str, &str)> =
            scan.macros().iter().map(|m| (m.name, &FILE[m.range.clone()])).collect();
        assert_eq!(
            macros,
            [("TILE", "#define TILE 32   // columns"), ("ROWS", "#define ROWS \\\n    8")]
        );
        assert!(scan.defines("main") && scan.defines("N") && scan.defines("TILE"));
        assert!(!scan.defines("n") && !scan.defines("p"));
    }

    #[test]
    fn unclosed_things_end_with_the_text() {
        for text in ["/* never", "\"never", "'", "#", "#define", "#define X \\", "\\", "é\"\\"] {
            Scan::file(text);
        }
    }
}
