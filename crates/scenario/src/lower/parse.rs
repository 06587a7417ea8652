//! From source text to a syntax tree, with the way back from each node to the
//! bytes that the user wrote.
//!
//! What the grammar parses is the text after the preprocessor, changed in four
//! ways that keep its meaning:
//!
//! - The bodies of host functions are emptied: they may contain anything, and a
//!   kernel needs none of them.
//! - `(T)` before an operand, with `T` the name of a type, becomes `(struct
//!   T)`: without knowledge of types `(T)-x` is a subtraction.
//! - `a < b` becomes `(a) < b` where a `>` follows and `a` is no template:
//!   otherwise `i < n && j > (k)` would be a call of one.
//! - `(i += 2, j)` becomes `((i += 2), j)`, which is no fold expression.

use super::macros::{self, MacroError, Preprocessed};
use super::tokens::{self, Lead, Token, TokenKind};
use super::{Code, labels};
use crate::run::ParamValue;
use crate::source::Span;
use crate::types;
use std::collections::BTreeSet;
use std::ops::Range;
use tree_sitter::{Node, Parser, Tree};

/// What the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A translation unit.
    File,
    /// The statements of a function's body.
    Body,
    /// One expression.
    Expression,
    /// A declaration without its semicolon.
    Declaration,
}

/// A parsed text.
#[derive(Debug)]
pub(crate) struct Unit {
    /// What the user wrote.
    pub(crate) code: Code,
    /// What the grammar parsed.
    pub(crate) text: String,
    pub(crate) tree: Tree,
    segments: Vec<Segment>,
    /// Names that the source `#define`s or tests.
    pub(crate) macro_names: BTreeSet<String>,
    /// What `#include` names.
    pub(crate) includes: Vec<String>,
    /// Errors of the preprocessor, as bytes of the code.
    pub(crate) macro_errors: Vec<(Range<u32>, MacroError)>,
    /// `@label` comments.
    pub(crate) labels: Vec<labels::Label>,
}

/// A run of bytes of the parsed text and where it comes from.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// First byte and one past the last in the parsed text.
    start: u32,
    end: u32,
    /// The same in the code.
    from: u32,
    to: u32,
    /// Whether byte `start + i` is `from + i`.
    verbatim: bool,
}

impl Unit {
    /// Preprocesses and parses.
    pub(crate) fn new(code: &Code, shape: Shape, params: &[(String, ParamValue)]) -> Self {
        let cut = tokens::tokenize(&code.text);
        let labels = labels::find(code, &cut.comments);
        let Preprocessed { mut tokens, names, includes, errors } =
            macros::preprocess(cut.lines, params);
        if shape == Shape::File {
            empty_host_functions(&mut tokens);
        }
        disambiguate(&mut tokens);
        let (open, close) = match shape {
            Shape::File => ("", ""),
            Shape::Body => ("void body() {\n", "\n}\n"),
            Shape::Expression => ("void body() { return ", "\n; }\n"),
            Shape::Declaration => ("void body() { ", "\n; }\n"),
        };
        let (text, segments) = print(&tokens, open, close, code.text.len() as u32);
        let tree = syntax_tree(&text);
        Self {
            code: code.clone(),
            text,
            tree,
            segments,
            macro_names: names,
            includes,
            macro_errors: errors,
            labels,
        }
    }

    /// The text of a node.
    pub(crate) fn text(&self, node: Node<'_>) -> &str {
        &self.text[node.byte_range()]
    }

    /// The bytes of the code that a node stands for.
    pub(crate) fn range(&self, node: Node<'_>) -> Range<u32> {
        self.code_range(node.start_byte() as u32, node.end_byte() as u32)
    }

    /// The place of a node in its source.
    pub(crate) fn span(&self, node: Node<'_>) -> Span {
        let range = self.range(node);
        self.code.span(range.start as usize, range.end as usize)
    }

    fn code_range(&self, start: u32, end: u32) -> Range<u32> {
        let first = self.segments.partition_point(|segment| segment.end <= start);
        let Some(first) = self.segments.get(first.min(self.segments.len().saturating_sub(1)))
        else {
            return 0..0;
        };
        let from = if first.verbatim && start > first.start {
            first.from + (start - first.start).min(first.to - first.from)
        } else {
            first.from
        };
        if end <= start {
            return from..from;
        }
        let after = self.segments.partition_point(|segment| segment.start < end);
        let last = &self.segments[after.saturating_sub(1)];
        let to =
            if last.verbatim && end < last.end { last.from + (end - last.start) } else { last.to };
        // The arguments of a macro need not stand in the order of its body.
        from.min(to)..from.max(to)
    }
}

/// Parses a text; the grammar never refuses one, errors are nodes of the tree.
fn syntax_tree(text: &str) -> Tree {
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_cuda::LANGUAGE.into())
        .expect("the grammar is of a version that this tree-sitter reads");
    parser.parse(text, None).expect("a parser with a language and without a limit returns a tree")
}

/// The text of tokens, and where its bytes come from.
fn print(tokens: &[Token], open: &str, close: &str, code_len: u32) -> (String, Vec<Segment>) {
    let mut text = String::from(open);
    let mut segments = Vec::with_capacity(tokens.len() + 2);
    let mut push = |start: usize, end: usize, place: &Range<u32>, verbatim: bool| {
        segments.push(Segment {
            start: start as u32,
            end: end as u32,
            from: place.start,
            to: place.end,
            verbatim,
        });
    };
    let first = tokens.first().map_or(0, |token| token.place.start);
    push(0, text.len(), &(first..first), false);
    let mut glue_before = false;
    for token in tokens {
        match token.lead {
            Lead::Newline => text.push('\n'),
            Lead::Space => text.push(' '),
            // Tokens of macros must not grow together.
            Lead::None if glue_before || !token.verbatim => text.push(' '),
            Lead::None => {}
        }
        glue_before = !token.verbatim;
        let start = text.len();
        text.push_str(&token.text);
        push(start, text.len(), &token.place, token.verbatim);
    }
    let start = text.len();
    text.push_str(close);
    let last = tokens.last().map_or(code_len, |token| token.place.end);
    push(start, text.len(), &(last..last), false);
    (text, segments)
}

/// Removes the bodies of functions outside device code.
fn empty_host_functions(tokens: &mut Vec<Token>) {
    let mut kept: Vec<Token> = Vec::with_capacity(tokens.len());
    // Where the declaration being read starts in `kept`.
    let mut declaration = 0;
    let mut rest = std::mem::take(tokens).into_iter();
    while let Some(token) = rest.next() {
        let ends = token.is(";") || token.is("}");
        if !token.is("{") {
            kept.push(token);
            if ends {
                declaration = kept.len();
            }
            continue;
        }
        kept.push(token);
        let keep = match brace_opens(&kept[declaration..kept.len() - 1]) {
            Opens::Scope => {
                declaration = kept.len();
                continue;
            }
            Opens::HostFunction => false,
            Opens::Other => true,
        };
        let mut depth = 1_usize;
        for inner in rest.by_ref() {
            if inner.is("{") {
                depth += 1;
            } else if inner.is("}") {
                depth -= 1;
            }
            if keep || depth == 0 {
                kept.push(inner);
            }
            if depth == 0 {
                break;
            }
        }
        if !keep {
            declaration = kept.len();
        }
    }
    *tokens = kept;
}

/// What a brace at namespace level opens.
enum Opens {
    /// A namespace or `extern "C"`.
    Scope,
    /// The body of a function that no kernel can call.
    HostFunction,
    /// A device function, a class, an initialiser.
    Other,
}

/// What a brace opens after the tokens of a declaration, `head`.
fn brace_opens(head: &[Token]) -> Opens {
    // Words outside parentheses and template parameters.
    let mut outer = Vec::new();
    let mut depth = 0_usize;
    let mut after_template = false;
    for token in head {
        let opens = token.is("(") || (token.is("<") && (after_template || depth > 0));
        let closes = token.is(")") || (token.is(">") && depth > 0);
        after_template = token.is("template");
        if closes {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            outer.push(token);
        }
        depth += usize::from(opens);
    }
    let any = |words: &[&str]| outer.iter().any(|token| words.iter().any(|word| token.is(word)));
    let linkage = outer.last().is_some_and(|token| token.kind == TokenKind::Literal);
    if any(&["namespace"]) || (any(&["extern"]) && linkage) {
        Opens::Scope
    } else if any(&["("])
        && !any(&["=", "class", "struct", "union", "enum", "operator"])
        && !any(&["__global__", "__device__", "constexpr"])
    {
        Opens::HostFunction
    } else {
        Opens::Other
    }
}

/// Tokens that one statement may have and still be looked at for what the
/// grammar misreads.
const MAX_STATEMENT: usize = 4096;

/// What the names of a text are, as far as its tokens tell.
struct Names {
    types: BTreeSet<Box<str>>,
    templates: BTreeSet<Box<str>>,
    /// Variables, which may have the name of a type of CUDA: `int half`.
    variables: BTreeSet<Box<str>>,
}

impl Names {
    fn collect(tokens: &[Token]) -> Self {
        Self {
            types: type_names(tokens),
            templates: template_names(tokens),
            variables: variable_names(tokens),
        }
    }

    fn is_type(&self, token: &Token) -> bool {
        token.is_ident()
            && (self.types.contains(&token.text)
                || (types::type_of_word(&token.text).is_some()
                    && !self.variables.contains(&token.text)))
    }
}

/// Rewrites what the grammar reads differently from C++; see the module's
/// documentation.
fn disambiguate(tokens: &mut Vec<Token>) {
    let names = Names::collect(tokens);
    // Texts to insert before the token of an index.
    let mut insertions: Vec<(usize, &'static str)> = Vec::new();
    for at in 0..tokens.len() {
        if tokens[at].is("(") && is_cast(tokens, at, &names) {
            insertions.push((at + 1, "struct"));
        } else if tokens[at].is("<") && is_misread_comparison(tokens, at, &names) {
            insertions.push((operand_start(tokens, at), "("));
            insertions.push((at, ")"));
        } else if tokens[at].is("(") {
            wrap_assignments(tokens, at, &mut insertions);
        }
    }
    if insertions.is_empty() {
        return;
    }
    // A parenthesis closes before another opens at the same place.
    insertions.sort_by_key(|&(at, text)| (at, text != ")"));
    let mut insertions = insertions.into_iter().peekable();
    let old = std::mem::take(tokens);
    for (at, token) in old.into_iter().enumerate() {
        while let Some((_, text)) = insertions.next_if(|&(place, _)| place == at) {
            let place = token.place.start..token.place.start;
            let kind = if text == "struct" { TokenKind::Ident } else { TokenKind::Punct };
            let lead = token.lead.max(Lead::Space);
            tokens.push(Token { kind, text: text.into(), lead, place, verbatim: false });
        }
        tokens.push(token);
    }
}

/// Puts parentheses around the assignments of a comma expression in
/// parentheses: `(i += 2, j)`, which the grammar reads as a fold expression.
fn wrap_assignments(tokens: &[Token], open: usize, insertions: &mut Vec<(usize, &'static str)>) {
    const ASSIGNMENTS: [&str; 11] =
        ["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="];
    let callee = open.checked_sub(1).map(|before| &tokens[before]).is_some_and(|before| {
        (before.is_ident() && !is_operand_keyword(&before.text))
            || [")", "]", ">"].iter().any(|text| before.is(text))
    });
    if callee {
        return;
    }
    let (mut depth, mut start, mut assigns) = (0_usize, open + 1, false);
    let mut parts = Vec::new();
    for (at, token) in tokens.iter().enumerate().skip(open + 1).take(MAX_STATEMENT) {
        match &*token.text {
            "(" | "[" | "{" => depth += 1,
            ")" if depth == 0 => {
                parts.push((start, at, assigns));
                break;
            }
            ";" if depth == 0 => return,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "," if depth == 0 => {
                parts.push((start, at, assigns));
                (start, assigns) = (at + 1, false);
            }
            text => assigns |= depth == 0 && ASSIGNMENTS.contains(&text),
        }
    }
    if parts.len() > 1 {
        for (start, end, _) in parts.into_iter().filter(|part| part.2) {
            insertions.push((start, "("));
            insertions.push((end, ")"));
        }
    }
}

/// Whether the `<` at `at` compares, but the grammar could take it for the start
/// of template arguments, because a `>` follows.
fn is_misread_comparison(tokens: &[Token], at: usize, names: &Names) -> bool {
    let Some(name) = at.checked_sub(1).map(|before| &tokens[before]) else { return false };
    if !name.is_ident() || name.text.ends_with("_cast") || names.templates.contains(&name.text) {
        return false;
    }
    let before = at.checked_sub(2).map(|before| &tokens[before]);
    // The name of a header's template: qualified, or with a type as argument.
    let typed = tokens.get(at + 1).is_some_and(|token| names.is_type(token));
    if typed
        || ["template", "operator"].iter().any(|word| name.is(word))
        || before.is_some_and(|token| token.is("::"))
    {
        return false;
    }
    let mut depth = 0_usize;
    let mut close = None;
    for (index, token) in tokens.iter().enumerate().skip(at + 1).take(MAX_STATEMENT) {
        match &*token.text {
            "(" | "[" => depth += 1,
            ")" | "]" if depth == 0 => break,
            ")" | "]" => depth -= 1,
            ";" | "{" | "}" => break,
            ">" | ">>" if depth == 0 => {
                close = Some(index);
                break;
            }
            _ => {}
        }
    }
    let Some(close) = close else { return false };
    // `Name<16> variable` at the start of a statement declares.
    let starts = before.is_none_or(|token| [";", "{", "}", ")"].iter().any(|t| token.is(t)));
    !(starts && tokens.get(close + 1).is_some_and(Token::is_ident))
}

/// The index of the first token of the operand that ends before `end`: a name
/// with what it is a member, element or result of.
fn operand_start(tokens: &[Token], end: usize) -> usize {
    let mut start = end - 1;
    loop {
        while tokens[start].is(")") || tokens[start].is("]") {
            let mut depth = 0_usize;
            let mut at = start;
            loop {
                let token = &tokens[at];
                if token.is(")") || token.is("]") {
                    depth += 1;
                } else if token.is("(") || token.is("[") {
                    depth -= 1;
                }
                if depth == 0 || at == 0 {
                    break;
                }
                at -= 1;
            }
            let callee = at.checked_sub(1).filter(|&before| {
                tokens[before].is_ident() || tokens[before].is(")") || tokens[before].is("]")
            });
            match callee {
                Some(before) => start = before,
                None => return at,
            }
        }
        let member = start
            .checked_sub(1)
            .filter(|&before| [".", "->"].iter().any(|text| tokens[before].is(text)) && before > 0);
        match member {
            Some(dot) => start = dot - 1,
            None => return start,
        }
    }
}

/// Whether the parenthesis at `open` holds just the name of a type and stands
/// before an operand.
fn is_cast(tokens: &[Token], open: usize, names: &Names) -> bool {
    let mut at = open + 1;
    while tokens.get(at).is_some_and(Token::is_ident)
        && tokens.get(at + 1).is_some_and(|token| token.is("::"))
    {
        at += 2;
    }
    let is_type = |token: &Token| names.is_type(token) && !is_keyword(&token.text);
    if !tokens.get(at).is_some_and(is_type) || !tokens.get(at + 1).is_some_and(|t| t.is(")")) {
        return false;
    }
    let operand = tokens.get(at + 2).is_some_and(|token| {
        token.kind != TokenKind::Punct
            || ["(", "-", "+", "*", "&", "~", "!", "++", "--", "{"].iter().any(|t| token.is(t))
    });
    // After a name it is an argument or parameter list.
    let callee = open > 0
        && (tokens[open - 1].is_ident() && !is_operand_keyword(&tokens[open - 1].text)
            || tokens[open - 1].is(")")
            || tokens[open - 1].is("]")
            || tokens[open - 1].is(">"));
    operand && !callee
}

/// Keywords that an expression may follow.
fn is_operand_keyword(word: &str) -> bool {
    matches!(word, "return" | "case" | "else" | "do")
}

/// Names of types that the grammar knows by itself.
fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "void"
            | "bool"
            | "char"
            | "short"
            | "int"
            | "long"
            | "signed"
            | "unsigned"
            | "float"
            | "double"
    )
}

/// Names that the text declares as types.
fn type_names(tokens: &[Token]) -> BTreeSet<Box<str>> {
    let mut names = BTreeSet::new();
    let mut at = 0;
    while at < tokens.len() {
        let token = &tokens[at];
        at += 1;
        if ["struct", "class", "union", "enum", "typename"].iter().any(|text| token.is(text)) {
            let mut name = at;
            while tokens.get(name).is_some_and(|t| t.is("alignas") || t.is("__attribute__")) {
                name = skip_parentheses(tokens, name + 1);
            }
            if tokens.get(name).is_some_and(|t| t.is("class")) {
                name += 1;
            }
            if let Some(token) = tokens.get(name).filter(|token| token.is_ident()) {
                names.insert(token.text.clone());
            }
        } else if token.is("using") && tokens.get(at + 1).is_some_and(|token| token.is("=")) {
            names.insert(tokens[at].text.clone());
        } else if token.is("typedef") {
            let mut depth = 0_usize;
            let mut name = None;
            for part in &tokens[at..] {
                if part.is("{") || part.is("(") || part.is("[") {
                    depth += 1;
                } else if part.is("}") || part.is(")") || part.is("]") {
                    depth = depth.saturating_sub(1);
                } else if depth == 0 && (part.is(";") || part.is(",")) {
                    names.extend(name.take());
                    if part.is(";") {
                        break;
                    }
                } else if depth == 0 && part.is_ident() {
                    name = Some(part.text.clone());
                }
            }
        }
    }
    names
}

/// Names of types of CUDA that the text declares as variables: they stand
/// between a word and what ends a declarator.
fn variable_names(tokens: &[Token]) -> BTreeSet<Box<str>> {
    let mut names = BTreeSet::new();
    for part in tokens.windows(3) {
        let [before, name, after] = part else { continue };
        let declares = before.is_ident() && !is_operand_keyword(&before.text)
            || before.is("*")
            || before.is("&")
            || before.is(",");
        if name.is_ident()
            && declares
            && ["=", ";", "[", "{"].iter().any(|text| after.is(text))
            && types::type_of_word(&name.text).is_some()
            && !is_keyword(&name.text)
        {
            names.insert(name.text.clone());
        }
    }
    names
}

/// Names that the text declares as templates.
fn template_names(tokens: &[Token]) -> BTreeSet<Box<str>> {
    let mut names = BTreeSet::new();
    for at in 0..tokens.len() {
        if !(tokens[at].is("template") && tokens.get(at + 1).is_some_and(|token| token.is("<"))) {
            continue;
        }
        let mut depth = 0_usize;
        let mut end = at + 1;
        while let Some(token) = tokens.get(end).filter(|_| end - at < MAX_STATEMENT) {
            end += 1;
            match &*token.text {
                "<" | "(" => depth += 1,
                ">" | ")" => depth = depth.saturating_sub(1),
                ">>" => depth = depth.saturating_sub(2),
                ";" | "{" => break,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        let mut last = None;
        for part in tokens[end.min(tokens.len())..].iter().take(64) {
            if part.is("(") || part.is("{") || part.is(";") || part.is("=") || part.is(":") {
                break;
            }
            if part.is_ident() {
                last = Some(part.text.clone());
            }
        }
        names.extend(last);
    }
    names
}

/// The index after the parentheses that open at `at`.
fn skip_parentheses(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}
