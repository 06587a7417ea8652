//! The preprocessor: `#define`, `#if` and their kin.
//!
//! The grammar parses text after preprocessing, as a compiler does, so that a
//! macro may stand for anything: a number, an index formula, a type, half a
//! statement. Each token remembers where in the source it comes from; those of
//! a macro's body point at the place where the macro is used, those of its
//! arguments at the arguments.
//!
//! - A parameter of the scenario overrides a `#define` of its name: the name
//!   stays in the text and means the parameter.
//! - `#include` is passed over; so are `#pragma`, `#error` and `#line`.
//! - Names that CUDA's own headers define as macros (`__align__`) are known.

use super::tokens::{Lead, Line, Token, TokenKind};
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::Scalar;
use crate::run::ParamValue;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Tokens that macros may make in one source; a few lines can ask for more than
/// memory holds.
const MAX_EXPANSION: usize = 100_000;
/// Macros inside macros' arguments, and parentheses in `#if`.
const MAX_DEPTH: usize = 64;

/// `__CUDA_ARCH__` in `#if`: device code is taken as compiled for compute
/// capability 9.0.
const CUDA_ARCH: &str = "900";

/// The source after preprocessing.
#[derive(Debug, Default)]
pub(crate) struct Preprocessed {
    pub(crate) tokens: Vec<Token>,
    /// Names that the source `#define`s without parameters, or tests in `#if`:
    /// a parameter of such a name changes the text.
    pub(crate) names: BTreeSet<String>,
    /// What `#include` names, delimiters included.
    pub(crate) includes: Vec<String>,
    /// What went wrong, with its place in the source.
    pub(crate) errors: Vec<(Range<u32>, MacroError)>,
}

/// What can be wrong with macros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MacroError {
    /// More than [`MAX_EXPANSION`] tokens, or nested too deeply.
    TooLarge,
    /// `F(` without its `)`.
    Unclosed,
    /// Too few or too many arguments.
    Arguments,
}

impl MacroError {
    pub(crate) fn diagnostic(self, span: crate::source::Span, name: &str) -> Diagnostic {
        let (message, help) = match self {
            Self::TooLarge => (
                format!("macro `{name}` expands to too much text"),
                "macros may nest 64 deep and make about 100,000 tokens; write it out",
            ),
            Self::Unclosed => {
                (format!("the arguments of macro `{name}` have no `)`"), "close the parenthesis")
            }
            Self::Arguments => (
                format!("macro `{name}` takes another number of arguments"),
                "give it as many as its #define names",
            ),
        };
        Diagnostic::new(Kind::Syntax, span, message, help)
    }
}

/// A macro's definition.
#[derive(Clone, Debug)]
struct Macro {
    /// Names of the parameters of `F(a, b)`; `None` for `A`.
    params: Option<Vec<Box<str>>>,
    /// Whether the last parameter is `...`, named `__VA_ARGS__`.
    variadic: bool,
    body: Vec<Token>,
}

/// Runs the preprocessor over a source's lines.
pub(crate) fn preprocess(lines: Vec<Line>, params: &[(String, ParamValue)]) -> Preprocessed {
    let mut state = State {
        params,
        macros: predefined(),
        conditions: Vec::new(),
        out: Preprocessed::default(),
        made: 0,
    };
    let mut pending = Vec::new();
    for line in lines {
        match line {
            Line::Text(tokens) => {
                if state.active() {
                    pending.extend(tokens);
                }
            }
            Line::Directive(tokens) => {
                // A directive that defines nothing may stand among a macro's
                // arguments; expanding at definitions keeps their order.
                if matches!(tokens.first(), Some(name) if name.is("define") || name.is("undef")) {
                    state.flush(&mut pending);
                }
                state.directive(tokens);
            }
        }
    }
    state.flush(&mut pending);
    state.out
}

struct State<'a> {
    params: &'a [(String, ParamValue)],
    macros: HashMap<Box<str>, Macro>,
    conditions: Vec<Condition>,
    out: Preprocessed,
    /// Tokens made by macros so far.
    made: usize,
}

/// One open `#if`.
struct Condition {
    /// Whether this branch's lines count.
    active: bool,
    /// Whether a branch was taken already.
    taken: bool,
    /// Whether the lines around it count.
    outer: bool,
}

impl State<'_> {
    fn active(&self) -> bool {
        self.conditions.last().is_none_or(|condition| condition.active)
    }

    fn param(&self, name: &str) -> Option<ParamValue> {
        self.params.iter().find(|(param, _)| param == name).map(|(_, value)| *value)
    }

    fn flush(&mut self, pending: &mut Vec<Token>) {
        let tokens = std::mem::take(pending);
        let mut expanded = Vec::with_capacity(tokens.len());
        self.expand(tokens, &mut Vec::new(), &mut expanded, 0);
        self.out.tokens.extend(expanded);
    }

    fn directive(&mut self, mut tokens: Vec<Token>) {
        let Some(name) = tokens.first().map(|token| token.text.clone()) else { return };
        let rest = tokens.split_off(1);
        match &*name {
            "if" => {
                let value = self.active() && self.condition(rest);
                self.open(value);
            }
            "ifdef" | "ifndef" => {
                let defined = rest.first().is_some_and(|token| self.defined(&token.text));
                self.note_names(&rest);
                self.open(defined == (&*name == "ifdef"));
            }
            "elif" | "elifdef" | "elifndef" => {
                let value = match &*name {
                    "elif" => {
                        let wanted = self.conditions.last().is_some_and(|c| c.outer && !c.taken);
                        wanted && self.condition(rest)
                    }
                    _ => {
                        self.note_names(&rest);
                        rest.first().is_some_and(|token| self.defined(&token.text))
                            == (&*name == "elifdef")
                    }
                };
                if let Some(condition) = self.conditions.last_mut() {
                    condition.active = condition.outer && !condition.taken && value;
                    condition.taken |= condition.active;
                }
            }
            "else" => {
                if let Some(condition) = self.conditions.last_mut() {
                    condition.active = condition.outer && !condition.taken;
                    condition.taken = true;
                }
            }
            "endif" => {
                self.conditions.pop();
            }
            "define" if self.active() => self.define(rest),
            "undef" if self.active() => {
                if let Some(token) = rest.first() {
                    self.macros.remove(&token.text);
                }
            }
            "include" if self.active() => {
                let text: String = rest.iter().map(|token| &*token.text).collect();
                self.out.includes.push(text);
            }
            _ => {}
        }
    }

    fn open(&mut self, value: bool) {
        let outer = self.active();
        self.conditions.push(Condition { active: outer && value, taken: value, outer });
    }

    fn defined(&self, name: &str) -> bool {
        self.macros.contains_key(name) || self.param(name).is_some()
    }

    fn note_names(&mut self, tokens: &[Token]) {
        for token in tokens.iter().filter(|token| token.is_ident() && !token.is("defined")) {
            self.out.names.insert(token.text.to_string());
        }
    }

    fn define(&mut self, mut tokens: Vec<Token>) {
        if tokens.is_empty() || !tokens[0].is_ident() {
            return;
        }
        let name = tokens[0].clone();
        let mut body = tokens.split_off(1);
        let function = body.first().is_some_and(|token| token.is("(") && token.lead == Lead::None);
        if !function {
            self.out.names.insert(name.text.to_string());
            if self.param(&name.text).is_some() {
                self.macros.remove(&name.text);
                return;
            }
            self.macros.insert(name.text, Macro { params: None, variadic: false, body });
            return;
        }
        let Some(close) = body.iter().position(|token| token.is(")")) else { return };
        let rest = body.split_off(close + 1);
        let mut params = Vec::new();
        let mut variadic = false;
        for token in &body[1..close] {
            if token.is("...") {
                variadic = true;
                params.push("__VA_ARGS__".into());
            } else if token.is_ident() {
                params.push(token.text.clone());
            }
        }
        self.macros.insert(name.text, Macro { params: Some(params), variadic, body: rest });
    }

    /// Replaces macros in `input`; `hidden` are the macros being replaced, which
    /// C does not replace again.
    fn expand(
        &mut self,
        input: Vec<Token>,
        hidden: &mut Vec<Box<str>>,
        out: &mut Vec<Token>,
        depth: usize,
    ) {
        // The rest of the input, last token first; `Leave` ends a macro's body.
        enum Item {
            Token(Token),
            Leave,
        }
        let mut rest: Vec<Item> = input.into_iter().rev().map(Item::Token).collect();
        while let Some(item) = rest.pop() {
            let Item::Token(token) = item else {
                hidden.pop();
                continue;
            };
            let replaced = token.is_ident() && !hidden.contains(&token.text);
            let Some(definition) =
                self.macros.get(&token.text).filter(|_| replaced && self.made < MAX_EXPANSION)
            else {
                out.push(token);
                continue;
            };
            let definition = definition.clone();
            let mut end = token.place.end;
            let body = match &definition.params {
                None => definition.body.iter().map(in_body).collect(),
                Some(params) => {
                    // Without `(` it is an ordinary name.
                    let open = rest.iter().rposition(|item| matches!(item, Item::Token(_)));
                    let is_call = open
                        .is_some_and(|at| matches!(&rest[at], Item::Token(token) if token.is("(")));
                    if !is_call {
                        out.push(token);
                        continue;
                    }
                    let mut arguments = vec![Vec::new()];
                    let mut nesting = 0_usize;
                    let closed = loop {
                        match rest.pop() {
                            None => break false,
                            Some(Item::Leave) => {
                                hidden.pop();
                            }
                            Some(Item::Token(part)) => {
                                let opens = part.is("(");
                                let closes = part.is(")");
                                if closes && nesting == 1 {
                                    if part.place.end > end && part.verbatim {
                                        end = part.place.end;
                                    }
                                    break true;
                                }
                                nesting = nesting + usize::from(opens) - usize::from(closes);
                                if nesting == 1 && opens {
                                    continue;
                                }
                                let separates = part.is(",")
                                    && nesting == 1
                                    && !(definition.variadic && arguments.len() == params.len());
                                if separates {
                                    arguments.push(Vec::new());
                                } else if let Some(argument) = arguments.last_mut() {
                                    argument.push(part);
                                }
                            }
                        }
                    };
                    if !closed {
                        self.error(&token, MacroError::Unclosed);
                        continue;
                    }
                    if params.is_empty() && arguments.len() == 1 && arguments[0].is_empty() {
                        arguments.clear();
                    }
                    if definition.variadic && arguments.len() + 1 == params.len() {
                        arguments.push(Vec::new());
                    }
                    if arguments.len() != params.len() {
                        self.error(&token, MacroError::Arguments);
                        continue;
                    }
                    if depth >= MAX_DEPTH {
                        self.error(&token, MacroError::TooLarge);
                        continue;
                    }
                    self.substitute(&definition.body, params, arguments, hidden, depth)
                }
            };
            self.made += body.len();
            if self.made >= MAX_EXPANSION {
                self.error(&token, MacroError::TooLarge);
                continue;
            }
            let place = if token.verbatim { token.place.start..end } else { token.place.clone() };
            hidden.push(token.text.clone());
            rest.push(Item::Leave);
            let first = rest.len();
            rest.extend(body.into_iter().rev().map(|mut part| {
                // Tokens of arguments keep their own place.
                if part.place == BODY {
                    part.place = place.clone();
                    part.verbatim = false;
                }
                Item::Token(part)
            }));
            if rest.len() > first
                && let Some(Item::Token(part)) = rest.last_mut()
            {
                part.lead = token.lead.max(Lead::Space);
            }
        }
    }

    /// A macro's body with its arguments in place; tokens of the body itself
    /// have the place [`BODY`].
    fn substitute(
        &mut self,
        body: &[Token],
        params: &[Box<str>],
        arguments: Vec<Vec<Token>>,
        hidden: &mut Vec<Box<str>>,
        depth: usize,
    ) -> Vec<Token> {
        let mut expanded: Vec<Option<Vec<Token>>> = vec![None; params.len()];
        let mut out: Vec<Token> = Vec::new();
        let mut at = 0;
        while let Some(token) = body.get(at) {
            at += 1;
            let param = |token: &Token| params.iter().position(|param| *param == token.text);
            if token.is("#")
                && let Some(index) = body.get(at).and_then(param)
            {
                let mut text = String::new();
                for part in &arguments[index] {
                    if part.lead > Lead::None && !text.is_empty() {
                        text.push(' ');
                    }
                    text.push_str(&part.text);
                }
                let text = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
                out.push(made(TokenKind::Literal, &text));
                at += 1;
                continue;
            }
            if token.is("##") {
                let Some(next) = body.get(at) else { break };
                at += 1;
                let mut right: Vec<Token> = match param(next) {
                    Some(index) => arguments[index].clone(),
                    None => vec![in_body(next)],
                };
                if let (Some(left), Some(first)) = (out.pop(), right.first_mut()) {
                    let text = format!("{}{}", left.text, first.text);
                    let kind = if left.is_ident() { TokenKind::Ident } else { left.kind };
                    *first = Token { lead: left.lead, ..made(kind, &text) };
                }
                out.append(&mut right);
                continue;
            }
            match param(token) {
                Some(index) if body.get(at).is_some_and(|next| next.is("##")) => {
                    out.extend(arguments[index].iter().cloned());
                }
                Some(index) => {
                    let argument = match &expanded[index] {
                        Some(argument) => argument.clone(),
                        None => {
                            let mut argument = Vec::new();
                            let input = arguments[index].clone();
                            self.expand(input, hidden, &mut argument, depth + 1);
                            expanded[index] = Some(argument.clone());
                            argument
                        }
                    };
                    let first = out.len();
                    out.extend(argument);
                    if let Some(part) = out.get_mut(first) {
                        part.lead = part.lead.max(token.lead);
                    }
                }
                None => out.push(in_body(token)),
            }
            if out.len() + self.made > MAX_EXPANSION {
                break;
            }
        }
        out
    }

    fn error(&mut self, token: &Token, error: MacroError) {
        self.out.errors.push((token.place.clone(), error));
    }

    /// The value of an `#if`; what C would refuse counts as false.
    fn condition(&mut self, tokens: Vec<Token>) -> bool {
        self.note_names(&tokens);
        let mut input = Vec::with_capacity(tokens.len());
        let mut rest = tokens.into_iter().peekable();
        while let Some(token) = rest.next() {
            if !token.is("defined") {
                input.push(token);
                continue;
            }
            let parenthesised = rest.next_if(|next| next.is("(")).is_some();
            let defined = rest.next().is_some_and(|name| self.defined(&name.text));
            if parenthesised {
                rest.next_if(|next| next.is(")"));
            }
            input.push(made(TokenKind::Number, if defined { "1" } else { "0" }));
        }
        let mut expanded = Vec::new();
        self.expand(input, &mut Vec::new(), &mut expanded, 0);
        let mut parser = ConditionParser { state: self, tokens: &expanded, at: 0 };
        parser.ternary(0).is_some_and(|value| parser.at == expanded.len() && value != 0)
    }
}

/// The place of tokens of a macro's body until it is used.
const BODY: Range<u32> = u32::MAX..u32::MAX;

fn made(kind: TokenKind, text: &str) -> Token {
    Token { kind, text: text.into(), lead: Lead::Space, place: BODY, verbatim: false }
}

fn in_body(token: &Token) -> Token {
    Token { place: BODY, verbatim: false, ..token.clone() }
}

/// Macros of CUDA's headers and of the compiler.
fn predefined() -> HashMap<Box<str>, Macro> {
    let mut macros = HashMap::new();
    let objects = [
        ("__CUDACC__", "1"),
        ("__NVCC__", "1"),
        ("__CUDA_ARCH__", CUDA_ARCH),
        ("__CUDACC_VER_MAJOR__", "13"),
        ("__CUDACC_VER_MINOR__", "0"),
        ("CUDART_VERSION", "13000"),
        ("CUDA_VERSION", "13000"),
        ("__cplusplus", "201703L"),
        ("__linux__", "1"),
        ("__x86_64__", "1"),
        ("__GNUC__", "13"),
        ("__inline__", "inline"),
        ("__inline", "inline"),
        ("__restrict", "__restrict__"),
        ("__volatile__", "volatile"),
        ("__extension__", ""),
    ];
    for (name, body) in objects {
        let body = if body.is_empty() {
            Vec::new()
        } else if body.starts_with(|c: char| c.is_ascii_digit()) {
            vec![made(TokenKind::Number, body)]
        } else {
            vec![made(TokenKind::Ident, body)]
        };
        macros.insert(name.into(), Macro { params: None, variadic: false, body });
    }
    for name in ["__align__", "__builtin_align__"] {
        let body = vec![
            made(TokenKind::Ident, "alignas"),
            Token { lead: Lead::None, ..made(TokenKind::Punct, "(") },
            made(TokenKind::Ident, "n"),
            made(TokenKind::Punct, ")"),
        ];
        let params = Some(vec!["n".into()]);
        macros.insert(name.into(), Macro { params, variadic: false, body });
    }
    // Bounds on registers and clusters say nothing about addresses.
    for name in
        ["__launch_bounds__", "__maxnreg__", "__cluster_dims__", "__block_size__", "__declspec"]
    {
        let params = Some(vec!["__VA_ARGS__".into()]);
        macros.insert(name.into(), Macro { params, variadic: true, body: Vec::new() });
    }
    macros
}

/// Evaluates the expression of an `#if` with C's precedence, on 64 bits.
struct ConditionParser<'s, 'p> {
    state: &'s State<'p>,
    tokens: &'s [Token],
    at: usize,
}

impl ConditionParser<'_, '_> {
    fn next_is(&mut self, text: &str) -> bool {
        let found = self.tokens.get(self.at).is_some_and(|token| token.is(text));
        self.at += usize::from(found);
        found
    }

    fn ternary(&mut self, depth: usize) -> Option<i64> {
        let condition = self.binary(0, depth)?;
        if !self.next_is("?") {
            return Some(condition);
        }
        if depth > MAX_DEPTH {
            return None;
        }
        let then = self.ternary(depth + 1)?;
        if !self.next_is(":") {
            return None;
        }
        let otherwise = self.ternary(depth + 1)?;
        Some(if condition != 0 { then } else { otherwise })
    }

    fn binary(&mut self, level: usize, depth: usize) -> Option<i64> {
        const LEVELS: [&[&str]; 10] = [
            &["||", "or"],
            &["&&", "and"],
            &["|"],
            &["^"],
            &["&"],
            &["==", "!="],
            &["<", ">", "<=", ">="],
            &["<<", ">>"],
            &["+", "-"],
            &["*", "/", "%"],
        ];
        let Some(operators) = LEVELS.get(level) else { return self.unary(depth) };
        let mut left = self.binary(level + 1, depth)?;
        while let Some(operator) = operators.iter().find(|operator| self.next_is(operator)) {
            let right = self.binary(level + 1, depth)?;
            let truth = |value: bool| Some(i64::from(value));
            left = match *operator {
                "||" | "or" => truth(left != 0 || right != 0),
                "&&" | "and" => truth(left != 0 && right != 0),
                "|" => Some(left | right),
                "^" => Some(left ^ right),
                "&" => Some(left & right),
                "==" => truth(left == right),
                "!=" => truth(left != right),
                "<" => truth(left < right),
                ">" => truth(left > right),
                "<=" => truth(left <= right),
                ">=" => truth(left >= right),
                "<<" => left.checked_shl(u32::try_from(right).ok()?),
                ">>" => left.checked_shr(u32::try_from(right).ok()?),
                "+" => left.checked_add(right),
                "-" => left.checked_sub(right),
                "*" => left.checked_mul(right),
                "/" => left.checked_div(right),
                _ => left.checked_rem(right),
            }?;
        }
        Some(left)
    }

    fn unary(&mut self, depth: usize) -> Option<i64> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.next_is("!") {
            return Some(i64::from(self.unary(depth + 1)? == 0));
        }
        if self.next_is("-") {
            return self.unary(depth + 1)?.checked_neg();
        }
        if self.next_is("+") {
            return self.unary(depth + 1);
        }
        if self.next_is("~") {
            return Some(!self.unary(depth + 1)?);
        }
        if self.next_is("(") {
            let value = self.ternary(depth + 1)?;
            return self.next_is(")").then_some(value);
        }
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        match token.kind {
            TokenKind::Number => {
                let number = super::literal::integer(&token.text).ok()?;
                Some(number.value)
            }
            TokenKind::Ident => Some(match &*token.text {
                "true" => 1,
                name => self.state.param(name).map_or(0, |value| match value.ty {
                    Scalar::Bool => i64::from(value.value != 0),
                    ty if ty.is_float() => f64::from_bits(value.value as u64) as i64,
                    _ => value.value,
                }),
            }),
            _ => None,
        }
    }
}
