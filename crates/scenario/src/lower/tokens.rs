//! Preprocessing tokens of CUDA C, and the comments between them.

use std::ops::Range;

/// What a token is, as far as the preprocessor needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Identifier or keyword.
    Ident,
    /// Preprocessing number.
    Number,
    /// String or character literal, with its prefix.
    Literal,
    /// Operator or punctuator.
    Punct,
}

/// What stands before a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lead {
    /// Nothing.
    None,
    /// White space or a comment.
    Space,
    /// The start of a line.
    Newline,
}

/// A token and the bytes of the source it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) text: Box<str>,
    pub(crate) lead: Lead,
    /// Where it stands in the source; for a token that a macro made: where the
    /// macro is used.
    pub(crate) place: Range<u32>,
    /// Whether the bytes of `text` are those of `place`.
    pub(crate) verbatim: bool,
}

impl Token {
    pub(crate) fn is(&self, text: &str) -> bool {
        &*self.text == text
    }

    pub(crate) fn is_ident(&self) -> bool {
        self.kind == TokenKind::Ident
    }
}

/// A line of the source: a directive or tokens.
#[derive(Debug)]
pub(crate) enum Line {
    /// `# …`, without the `#`, continued lines joined.
    Directive(Vec<Token>),
    /// Tokens of one or more lines without a directive.
    Text(Vec<Token>),
}

/// The source, in tokens, and its comments.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    pub(crate) lines: Vec<Line>,
    /// The bytes of each comment, delimiters included.
    pub(crate) comments: Vec<Range<u32>>,
}

/// Operators of several characters, longest first.
const OPERATORS: [&str; 27] = [
    "<<=", ">>=", "...", "->*", "<=>", "##", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++",
    "--", "->", "::", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", ".*",
];

/// Cuts a source into tokens. Never fails: what C would refuse becomes a token
/// that the parser refuses.
pub(crate) fn tokenize(source: &str) -> Tokens {
    let bytes = source.as_bytes();
    let mut tokens = Tokens::default();
    let mut at = 0;
    let mut lead = Lead::Newline;
    let mut directive: Option<Vec<Token>> = None;
    let mut text: Vec<Token> = Vec::new();
    while let Some(&byte) = bytes.get(at) {
        let rest = &source[at..];
        if byte == b'\\' && (rest.starts_with("\\\n") || rest.starts_with("\\\r\n")) {
            at += if bytes.get(at + 1) == Some(&b'\r') { 3 } else { 2 };
            lead = lead.max(Lead::Space);
            continue;
        }
        if byte == b'\n' {
            if let Some(line) = directive.take() {
                tokens.lines.push(Line::Directive(line));
            }
            lead = Lead::Newline;
            at += 1;
            continue;
        }
        if rest.starts_with("//") || rest.starts_with("/*") {
            let end = if rest.starts_with("//") {
                line_comment_end(rest)
            } else {
                rest[2..].find("*/").map_or(rest.len(), |end| end + 4)
            };
            tokens.comments.push(at as u32..(at + end) as u32);
            at += end;
            lead = lead.max(Lead::Space);
            continue;
        }
        let c = rest.chars().next().unwrap_or(' ');
        if c.is_whitespace() || c == '\u{feff}' {
            at += c.len_utf8();
            lead = lead.max(Lead::Space);
            continue;
        }
        if byte == b'#' && lead == Lead::Newline && directive.is_none() {
            if !text.is_empty() {
                tokens.lines.push(Line::Text(std::mem::take(&mut text)));
            }
            directive = Some(Vec::new());
            at += 1;
            lead = Lead::None;
            continue;
        }
        let (kind, len) = token_at(rest, c);
        let token = Token {
            kind,
            text: rest[..len].into(),
            lead,
            place: at as u32..(at + len) as u32,
            verbatim: true,
        };
        match &mut directive {
            Some(line) => line.push(token),
            None => text.push(token),
        }
        at += len;
        lead = Lead::None;
    }
    if let Some(line) = directive {
        tokens.lines.push(Line::Directive(line));
    }
    if !text.is_empty() {
        tokens.lines.push(Line::Text(text));
    }
    tokens
}

/// Length of a `//` comment; a backslash continues it on the next line.
fn line_comment_end(rest: &str) -> usize {
    let mut from = 0;
    while let Some(newline) = rest[from..].find('\n').map(|end| from + end) {
        let line = rest[..newline].trim_end_matches('\r');
        if !line.ends_with('\\') {
            return newline;
        }
        from = newline + 1;
    }
    rest.len()
}

/// Kind and length of the token at the start of `rest`, whose first character
/// is `c`.
fn token_at(rest: &str, c: char) -> (TokenKind, usize) {
    let bytes = rest.as_bytes();
    if is_ident_start(c) {
        let len = rest.find(|c| !is_ident_continue(c)).unwrap_or(rest.len());
        // A raw string: R"delimiter( … )delimiter"
        if matches!(&rest[..len], "R" | "u8R" | "uR" | "UR" | "LR")
            && bytes.get(len) == Some(&b'"')
            && let Some(open) = rest[len..].find('(')
        {
            let close = format!("){}\"", &rest[len + 1..len + open]);
            let end = rest[len..].find(&close).map_or(rest.len(), |at| len + at + close.len());
            return (TokenKind::Literal, end);
        }
        if matches!(&rest[..len], "L" | "u8" | "u" | "U")
            && matches!(bytes.get(len), Some(b'"' | b'\''))
        {
            return (TokenKind::Literal, len + literal_len(&rest[len..]));
        }
        return (TokenKind::Ident, len);
    }
    if c.is_ascii_digit() || (c == '.' && bytes.get(1).is_some_and(u8::is_ascii_digit)) {
        return (TokenKind::Number, number_len(bytes));
    }
    if c == '"' || c == '\'' {
        return (TokenKind::Literal, literal_len(rest));
    }
    let len = OPERATORS
        .iter()
        .find(|operator| rest.starts_with(**operator))
        .map_or(c.len_utf8(), |operator| operator.len());
    (TokenKind::Punct, len)
}

/// Length of a quoted literal, up to its end or that of the line.
fn literal_len(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let quote = bytes[0];
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' => return at,
            _ if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    rest.len()
}

/// Length of a preprocessing number: digits, letters, `.`, `'` between digits,
/// and signs after an exponent.
fn number_len(bytes: &[u8]) -> usize {
    let hex = bytes.len() > 1 && bytes[0] == b'0' && matches!(bytes[1], b'x' | b'X');
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let exponent = if hex { matches!(byte, b'p' | b'P') } else { matches!(byte, b'e' | b'E') };
        if exponent && matches!(bytes.get(at + 1), Some(b'+' | b'-')) {
            at += 2;
        } else if byte.is_ascii_alphanumeric()
            || byte == b'.'
            || byte == b'_'
            || (byte == b'\'' && bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric))
        {
            at += 1;
        } else {
            break;
        }
    }
    at
}

fn is_ident_start(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

fn is_ident_continue(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        let mut out = Vec::new();
        for line in tokenize(source).lines {
            let (tokens, hash) = match line {
                Line::Directive(tokens) => (tokens, true),
                Line::Text(tokens) => (tokens, false),
            };
            let mut text = if hash { "# ".to_owned() } else { String::new() };
            text.push_str(&tokens.iter().map(|token| &*token.text).collect::<Vec<_>>().join(" "));
            out.push(text);
        }
        out
    }

    #[test]
    fn tokens_comments_and_directives() {
        assert_eq!(
            texts(
                "#define A(x) \\\n  x+1 // c\nint a=0x1'000ull; /* 注释 */ b>>=1.5e-3f;\n # if A\n"
            ),
            ["# define A ( x ) x + 1", "int a = 0x1'000ull ; b >>= 1.5e-3f ;", "# if A"],
        );
        assert_eq!(
            texts("\"a\\\"b\" 'c' R\"x(\"#)x\" u8\"d\""),
            ["\"a\\\"b\" 'c' R\"x(\"#)x\" u8\"d\""]
        );
        assert_eq!(texts("a # b"), ["a # b"]);
        assert_eq!(texts("x // one \\\n two\ny"), ["x y"]);
    }

    #[test]
    fn comments_have_their_place() {
        let source = "a; // one\n/* two */ b;";
        let tokens = tokenize(source);
        let comments: Vec<_> = tokens
            .comments
            .iter()
            .map(|range| &source[range.start as usize..range.end as usize])
            .collect();
        assert_eq!(comments, ["// one", "/* two */"]);
    }
}
