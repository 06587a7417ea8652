//! Parameters: from definitions that name each other to values.

use crate::diagnostic::{Diagnostic, Kind};
use crate::document::{Literal, Located, Param, Quantity};
use crate::lower::{self, Code, Environment};
use crate::program::Scalar;
use crate::run::{Buffer, Launch, ParamValue};
use crate::source::{SourceId, Sources, Span};
use crate::types::{StructTable, Type, scalar_name};
use std::collections::HashMap;

/// A parameter as it is written, wherever that is: `[params]`, a variant, a
/// sweep, `[counting]`, or the command line.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) name: String,
    /// The type, where one is stated.
    declared: Option<Code>,
    value: Value,
    /// The value's place.
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
enum Value {
    Int(i128),
    Bool(bool),
    Float(f64),
    Expr(Code),
}

impl Definition {
    /// The definition of `name` in the text `source`.
    pub(crate) fn new(
        name: &str,
        param: &Located<Param>,
        source: SourceId,
        sources: &Sources,
    ) -> Self {
        let (declared, literal, span) = match &param.value {
            Param::Plain(literal) => (None, literal, param.span(source)),
            Param::Typed(typed) => (
                Some(sources.string(typed.ty.span(source), &typed.ty.value)),
                &typed.value.value,
                typed.value.span(source),
            ),
        };
        let value = value_of(literal, span, sources);
        Self { name: name.to_owned(), declared, value, span }
    }

    /// Another value, as a sweep gives it; a stated type stays.
    pub(crate) fn replace(
        &mut self,
        literal: &Located<Literal>,
        source: SourceId,
        sources: &Sources,
    ) {
        self.span = literal.span(source);
        self.set(value_of(&literal.value, self.span, sources));
    }

    /// Sets the value; a floating-point parameter stays one.
    fn set(&mut self, value: Value) {
        self.value = match (&self.value, value) {
            (Value::Float(_), Value::Int(int)) => Value::Float(int as f64),
            (_, value) => value,
        };
    }

    /// Another value from the command line: a literal, else an expression.
    pub(crate) fn replace_with_text(&mut self, code: &Code) {
        let text = code.text.trim();
        self.span = code.span(0, code.text.len());
        let number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
        let float = if number { text.parse::<f64>().ok() } else { None };
        // `1e6` is how many say a million; integers up to 2^53 are exact.
        let whole = float.filter(|x| !text.contains('.') && x.fract() == 0.0 && x.abs() < 9e15);
        self.set(if let Ok(int) = text.replace('_', "").parse() {
            Value::Int(int)
        } else if let Ok(truth) = text.parse() {
            Value::Bool(truth)
        } else if let Some(whole) = whole {
            Value::Int(whole as i128)
        } else if let Some(float) = float {
            Value::Float(float)
        } else {
            Value::Expr(code.clone())
        });
    }

    /// Another definition that keeps the stated type when it states none.
    pub(crate) fn replace_definition(&mut self, other: Definition) {
        self.declared = other.declared.or(self.declared.take());
        self.value = other.value;
        self.span = other.span;
    }
}

fn value_of(literal: &Literal, span: Span, sources: &Sources) -> Value {
    match literal {
        Literal::Quantity(Quantity::Int(int)) => Value::Int(*int),
        Literal::Quantity(Quantity::Expr(text)) => Value::Expr(sources.string(span, text)),
        Literal::Bool(truth) => Value::Bool(*truth),
        Literal::Float(float) => Value::Float(*float),
    }
}

/// The values of all definitions, in their order.
///
/// A definition is evaluated once those that it names are. What is left when
/// no further one can be is a cycle, or depends on one.
pub(crate) fn evaluate(
    definitions: &[Definition],
    structs: &StructTable,
) -> Result<Vec<(String, ParamValue)>, Vec<Diagnostic>> {
    let index: HashMap<&str, usize> =
        definitions.iter().enumerate().map(|(i, d)| (d.name.as_str(), i)).collect();
    let needs: Vec<Vec<usize>> = definitions
        .iter()
        .map(|definition| match &definition.value {
            Value::Expr(code) => {
                let mut needs: Vec<usize> = identifiers(&code.text)
                    .filter_map(|(_, name)| index.get(name).copied())
                    .collect();
                needs.sort_unstable();
                needs.dedup();
                needs
            }
            _ => Vec::new(),
        })
        .collect();

    let mut dependents = vec![Vec::new(); definitions.len()];
    let mut missing: Vec<usize> = needs.iter().map(Vec::len).collect();
    for (user, needs) in needs.iter().enumerate() {
        for &need in needs {
            dependents[need].push(user);
        }
    }
    let mut ready: std::collections::VecDeque<usize> =
        (0..definitions.len()).filter(|&i| missing[i] == 0).collect();

    let mut values: Vec<Option<ParamValue>> = vec![None; definitions.len()];
    let mut reached = vec![false; definitions.len()];
    let mut scope = Scope::new(structs);
    let mut errors = Vec::new();
    while let Some(i) = ready.pop_front() {
        reached[i] = true;
        match value(&definitions[i], &scope) {
            Ok(value) => {
                values[i] = Some(value);
                scope.define(&definitions[i].name, value);
                for &user in &dependents[i] {
                    missing[user] -= 1;
                    if missing[user] == 0 {
                        ready.push_back(user);
                    }
                }
            }
            // What depends on it has no value and no error of its own.
            Err(error) => {
                errors.push(error);
                for user in consequences(i, &dependents) {
                    reached[user] = true;
                }
            }
        }
    }
    if let Some(first) = reached.iter().position(|&reached| !reached) {
        errors.push(cycle(first, definitions, &needs, &reached));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(definitions
        .iter()
        .zip(values)
        .filter_map(|(definition, value)| Some((definition.name.clone(), value?)))
        .collect())
}

/// Everything that depends on `i`.
fn consequences(i: usize, dependents: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; dependents.len()];
    let mut found = Vec::new();
    let mut open = vec![i];
    while let Some(next) = open.pop() {
        for &user in &dependents[next] {
            if !std::mem::replace(&mut seen[user], true) {
                found.push(user);
                open.push(user);
            }
        }
    }
    found
}

/// The error for the cycle that is reached from `first`.
fn cycle(
    first: usize,
    definitions: &[Definition],
    needs: &[Vec<usize>],
    reached: &[bool],
) -> Diagnostic {
    // Each one that is left needs another that is left: following those leads
    // into a cycle within as many steps as there are definitions.
    let mut path = vec![first];
    let mut at = first;
    let start = loop {
        let Some(&next) = needs[at].iter().find(|&&need| !reached[need]) else { break 0 };
        if let Some(start) = path.iter().position(|&seen| seen == next) {
            break start;
        }
        path.push(next);
        at = next;
    };
    // Told from the one that stands first in the file.
    let mut ring = path.split_off(start);
    let least = ring.iter().enumerate().min_by_key(|&(_, &i)| i).map_or(0, |(at, _)| at);
    ring.rotate_left(least);
    let names: Vec<&str> =
        ring.iter().chain(ring.first()).map(|&i| definitions[i].name.as_str()).collect();
    let mut error = Diagnostic::new(
        Kind::Document,
        definitions[ring[0]].span,
        format!("parameters depend on each other in a circle: {}", names.join(" → ")),
        "give one of them a value that does not depend on the others",
    );
    for &i in ring.iter().skip(1).take(8) {
        error = error.also(definitions[i].span, format!("`{}`", definitions[i].name));
    }
    error
}

/// The value of a definition, all that it names being in scope.
fn value(definition: &Definition, scope: &Scope<'_>) -> Result<ParamValue, Diagnostic> {
    let declared = match &definition.declared {
        None => None,
        Some(code) => Some(declared_type(code, scope.structs)?),
    };
    let value = match &definition.value {
        Value::Bool(truth) => ParamValue { ty: Scalar::Bool, value: i64::from(*truth) },
        Value::Float(float) => ParamValue::of_float(Scalar::F32, *float),
        Value::Int(int) => of_integer(*int, definition)?,
        Value::Expr(code) => {
            scope.refuse_launch(code, &["threadIdx", "blockIdx", "blockDim", "gridDim"])?;
            let value = lower::constant(code, &scope.environment())?;
            match (value.ty, value.integer()) {
                (Scalar::Bool, _) | (_, None) => value,
                (_, Some(integer)) => of_integer(integer, definition)?,
            }
        }
    };
    let Some(ty) = declared else { return Ok(value) };
    let does_not_fit = || {
        Diagnostic::new(
            Kind::Type,
            definition.span,
            format!("{value} does not fit in `{}`", scalar_name(ty)),
            "choose a wider type, or another value",
        )
    };
    match (value.integer(), value.float()) {
        (Some(integer), _) if ty.is_float() => Ok(ParamValue::of_float(ty, integer as f64)),
        (Some(integer), _) => ParamValue::of_type(ty, integer).ok_or_else(does_not_fit),
        (_, Some(_)) if ty.is_float() => Ok(match &definition.value {
            Value::Float(float) => ParamValue::of_float(ty, *float),
            _ => value,
        }),
        _ => Err(does_not_fit()),
    }
}

fn of_integer(integer: i128, definition: &Definition) -> Result<ParamValue, Diagnostic> {
    ParamValue::of_integer(integer).ok_or_else(|| {
        Diagnostic::new(
            Kind::Type,
            definition.span,
            format!("{integer} fits in no integer type of C"),
            "integers have 64 bits: from -9223372036854775808 to 18446744073709551615",
        )
    })
}

fn declared_type(declared: &Code, structs: &StructTable) -> Result<Scalar, Diagnostic> {
    match structs.parse_type(declared) {
        Ok(Type::Scalar(
            ty @ (Scalar::Bool
            | Scalar::I32
            | Scalar::U32
            | Scalar::I64
            | Scalar::U64
            | Scalar::F32
            | Scalar::F64),
        )) => Ok(ty),
        _ => Err(Diagnostic::new(
            Kind::Type,
            declared.span(0, declared.text.len()),
            format!("a parameter cannot be of type `{}`", declared.text.escape_debug()),
            "write one of: int, unsigned, long long, unsigned long long, size_t, bool, float, \
             double",
        )),
    }
}

/// What an expression in the scenario file can name.
///
/// Sizes are computed in 64 bits: a shape such as `"n * stride"` means the
/// product, also where `int` would overflow. So parameters are `long long`
/// here, whatever they are in the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'a> {
    params: Vec<(String, ParamValue)>,
    structs: &'a StructTable,
    pub(crate) launch: Launch,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) buffer_types: Vec<Type>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(structs: &'a StructTable) -> Self {
        let launch =
            Launch { grid: [1; 3], block: [1; 3], registers: None, dynamic_shared_bytes: 0 };
        Self { params: Vec::new(), structs, launch, buffers: Vec::new(), buffer_types: Vec::new() }
    }

    /// Adds a parameter.
    pub(crate) fn define(&mut self, name: &str, value: ParamValue) {
        let wide = match value.integer() {
            Some(integer) if value.ty != Scalar::Bool => {
                ParamValue::of_type(Scalar::I64, integer).unwrap_or(value)
            }
            _ => value,
        };
        self.params.push((name.to_owned(), wide));
    }

    pub(crate) fn environment(&self) -> Environment<'_> {
        Environment {
            params: &self.params,
            structs: self.structs,
            buffers: &self.buffers,
            buffer_types: &self.buffer_types,
            launch: &self.launch,
        }
    }

    /// The value of a size.
    pub(crate) fn number(
        &self,
        quantity: &Located<Quantity>,
        source: SourceId,
        sources: &Sources,
    ) -> Result<i128, Diagnostic> {
        let text = match &quantity.value {
            Quantity::Int(int) => return Ok(*int),
            Quantity::Expr(text) => text,
        };
        let span = quantity.span(source);
        let code = sources.string(span, text);
        self.refuse_launch(&code, &["threadIdx", "blockIdx"])?;
        let value = lower::constant(&code, &self.environment())?;
        value.integer().ok_or_else(|| {
            Diagnostic::new(
                Kind::Type,
                span,
                format!("`{text}` is not a whole number"),
                "use integer parameters here",
            )
        })
    }

    /// Adds to an error about the value of `quantity` what the parameters are
    /// that it comes from.
    pub(crate) fn explain(&self, error: Diagnostic, quantity: &Located<Quantity>) -> Diagnostic {
        let Quantity::Expr(text) = &quantity.value else { return error };
        let mut told: Vec<String> = Vec::new();
        for (_, name) in identifiers(text) {
            let param = self.params.iter().find(|(param, _)| param == name);
            if let Some((_, value)) = param {
                let value = format!("{name} = {value}");
                if !told.contains(&value) {
                    told.push(value);
                }
            }
        }
        if told.is_empty() { error } else { error.note(format!("here {}", told.join(", "))) }
    }

    /// Refuses built-in variables that have no value where `code` stands.
    pub(crate) fn refuse_launch(&self, code: &Code, names: &[&str]) -> Result<(), Diagnostic> {
        match identifiers(&code.text).find(|(_, name)| names.contains(name)) {
            None => Ok(()),
            Some((at, name)) => Err(Diagnostic::new(
                Kind::UnknownName,
                code.span(at, at + name.len()),
                format!("`{name}` has no value here"),
                "this is computed before the launch: use parameters",
            )),
        }
    }
}

/// The identifiers in C text and where they start. Comments and the letters in
/// numbers (`0x1f`, `10ull`) are none.
pub(crate) fn identifiers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = text.get(at..)?;
            let c = rest.chars().next()?;
            if rest.starts_with("//") {
                at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                at += rest.find("*/").map_or(rest.len(), |end| end + 2);
            } else if word(c) {
                let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
                let start = at;
                at += end;
                if !c.is_ascii_digit() {
                    return Some((start, &rest[..end]));
                }
            } else {
                at += c.len_utf8();
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_words_outside_numbers_and_comments() {
        let found: Vec<_> =
            identifiers("a+0x1f*n_1 /* b */ - c.d // e\n + 宽 + 7ull").map(|(_, n)| n).collect();
        assert_eq!(found, ["a", "n_1", "c", "d", "宽"]);
    }

    #[test]
    fn integers_take_the_first_type_that_holds_them() {
        for (value, ty) in [
            (0, Scalar::I32),
            (-(1 << 31), Scalar::I32),
            (1 << 31, Scalar::I64),
            (1 << 63, Scalar::U64),
        ] {
            assert_eq!(ParamValue::of_integer(value).map(|v| v.ty), Some(ty), "{value}");
        }
        assert_eq!(ParamValue::of_integer(1 << 64), None);
        assert_eq!(ParamValue::of_type(Scalar::U32, -1), None);
        let most = ParamValue::of_integer((1 << 64) - 1);
        assert_eq!(most.and_then(ParamValue::integer), Some((1 << 64) - 1));
    }
}
