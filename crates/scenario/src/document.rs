//! The TOML of a scenario file: which keys there are and what each holds.
//!
//! These structs are the file's grammar. Parsing, the JSON Schema for editors
//! and the completions it gives all come from them, so the doc comments of the
//! fields are what a person reads when hovering over a key.
//!
//! Nothing is required here: a variant may supply what the base lacks, so
//! whether a run is complete is asked after merging (`layer.rs`).

use crate::diagnostic::{Diagnostic, Kind};
use crate::lower::suggest::nearest;
use crate::source::{SourceId, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Unexpected, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A value and the bytes of the scenario file that it was written in.
///
/// Equality is that of the values: two equal settings in different places are
/// equal.
#[derive(Clone, Debug)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// First byte in the file.
    pub start: u32,
    /// One past the last byte in the file.
    pub end: u32,
}

impl<T> Located<T> {
    /// The place, in the text `source`.
    pub fn span(&self, source: SourceId) -> Span {
        Span::new(source, self.start, self.end)
    }
}

impl<T: PartialEq> PartialEq for Located<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = toml::Spanned::<T>::deserialize(deserializer)?;
        let range = spanned.span();
        let byte = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Ok(Self { start: byte(range.start), end: byte(range.end), value: spanned.into_inner() })
    }
}

/// In the schema a located value is the value.
impl<T: JsonSchema> JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A TOML table with keys of the author's choice, in the file's order.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<T>(pub Vec<(Located<String>, T)>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Table<T> {
    /// The value at `key`.
    pub fn get(&self, key: &str) -> Option<&T> {
        self.0.iter().find(|(name, _)| name.value == key).map(|(_, value)| value)
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.value.as_str())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TableVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
            type Value = Table<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry::<Located<String>, T>()? {
                    entries.push(entry);
                }
                // The TOML parser hands tables over by name; the order that
                // counts is the author's.
                entries.sort_by_key(|(key, _)| key.start);
                Ok(Table(entries))
            }
        }
        deserializer.deserialize_map(TableVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Table<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("TableOf{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let values = generator.subschema_for::<T>();
        json_schema!({ "type": "object", "additionalProperties": values })
    }
}

/// A whole number, or an expression in quotes.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// Written as a number.
    Int(i128),
    /// Written in quotes: C over the parameters.
    Expr(String),
}

/// What a parameter can be given.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// A whole number or an expression.
    Quantity(Quantity),
    /// `true` or `false`.
    Bool(bool),
    /// A number with a decimal point: a `float`.
    Float(f64),
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    /// `n = 1024`: typed by its value.
    Plain(Literal),
    /// `n = { type = "unsigned", value = 1024 }`
    Typed(TypedParam),
}

/// A parameter whose type is stated.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedParam {
    /// Its C type: `int`, `unsigned`, `long long`, `unsigned long long`,
    /// `size_t`, `bool`, `float` or `double`.
    #[serde(rename = "type")]
    pub ty: Located<String>,
    /// Its value, or an expression in quotes over other parameters.
    pub value: Located<Literal>,
}

const QUANTITY: &str = "a whole number or an expression in quotes such as \"n / 32\"";
const LITERAL: &str = "a number, `true`, `false`, or an expression in quotes such as \"n / 32\"";
const PARAM: &str = "a number, `true`, `false`, an expression in quotes such as \"n / 32\", \
                     or a table { type = \"unsigned\", value = 1 }";

/// Reads the three kinds of value; which are welcome is `accepts`.
struct ValueVisitor {
    accepts: Accepts,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Accepts {
    Quantity,
    Literal,
    Param,
}

impl ValueVisitor {
    fn refuse<E: de::Error>(&self, found: Unexpected<'_>) -> E {
        E::invalid_type(found, self)
    }
}

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Param;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.accepts {
            Accepts::Quantity => QUANTITY,
            Accepts::Literal => LITERAL,
            Accepts::Param => PARAM,
        })
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Param, E> {
        self.visit_i128(i128::from(value))
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Param, E> {
        self.visit_i128(i128::from(value))
    }
    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Param, E> {
        Ok(Param::Plain(Literal::Quantity(Quantity::Int(value))))
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<Param, E> {
        Ok(Param::Plain(Literal::Quantity(Quantity::Expr(value.to_owned()))))
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Param, E> {
        if self.accepts == Accepts::Quantity {
            return Err(self.refuse(Unexpected::Bool(value)));
        }
        Ok(Param::Plain(Literal::Bool(value)))
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Param, E> {
        if self.accepts == Accepts::Quantity {
            return Err(self.refuse(Unexpected::Float(value)));
        }
        Ok(Param::Plain(Literal::Float(value)))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Param, A::Error> {
        if self.accepts != Accepts::Param {
            return Err(self.refuse(Unexpected::Map));
        }
        TypedParam::deserialize(de::value::MapAccessDeserializer::new(map)).map(Param::Typed)
    }
}

impl<'de> Deserialize<'de> for Param {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor { accepts: Accepts::Param })
    }
}

impl<'de> Deserialize<'de> for Literal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(ValueVisitor { accepts: Accepts::Literal })? {
            Param::Plain(literal) => Ok(literal),
            Param::Typed(_) => Err(de::Error::invalid_type(Unexpected::Map, &LITERAL)),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(ValueVisitor { accepts: Accepts::Quantity })? {
            Param::Plain(Literal::Quantity(quantity)) => Ok(quantity),
            _ => Err(de::Error::invalid_type(Unexpected::Map, &QUANTITY)),
        }
    }
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"] })
    }
}

impl JsonSchema for Literal {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Literal".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string", "boolean", "number"] })
    }
}

impl JsonSchema for Param {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Param".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let plain = generator.subschema_for::<Literal>();
        let typed = generator.subschema_for::<TypedParam>();
        json_schema!({ "anyOf": [plain, typed] })
    }
}

/// A size for each axis; a lone one needs no brackets.
#[derive(Clone, Debug, PartialEq)]
pub struct Extents(pub Vec<Located<Quantity>>);

impl<'de> Deserialize<'de> for Extents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Located::<OneOrMany>::deserialize(deserializer)?;
        Ok(Self(match given.value {
            OneOrMany::Many(many) => many,
            OneOrMany::One(value) => vec![Located { value, start: given.start, end: given.end }],
        }))
    }
}

enum OneOrMany {
    One(Quantity),
    Many(Vec<Located<Quantity>>),
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ExtentsVisitor;
        impl<'de> Visitor<'de> for ExtentsVisitor {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("whole numbers or expressions in quotes, such as [32, \"n / 32\"]")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(Quantity::Int(i128::from(value))))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(Quantity::Int(i128::from(value))))
            }

            fn visit_i128<E: de::Error>(self, value: i128) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(Quantity::Int(value)))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(Quantity::Expr(value.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMany, A::Error> {
                let mut many = Vec::new();
                while let Some(extent) = seq.next_element()? {
                    many.push(extent);
                }
                Ok(OneOrMany::Many(many))
            }
        }
        deserializer.deserialize_any(ExtentsVisitor)
    }
}

impl JsonSchema for Extents {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Extents".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<Quantity>();
        json_schema!({ "anyOf": [items, { "type": "array", "items": items, "minItems": 1 }] })
    }
}

/// A scenario: a launch, its buffers and a kernel in a subset of CUDA C.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// What the scenario shows, in a few words.
    pub title: Option<Located<String>>,
    /// A sentence or a paragraph on the access pattern.
    pub summary: Option<Located<String>>,
    /// Numbers of the tutorial claims that this scenario judges.
    #[serde(default)]
    pub claims: Vec<Located<u32>>,
    /// Named integers (also `bool` and `float`), usable in every expression of
    /// the file and in the kernel. `--set name=value` overrides one.
    #[serde(default)]
    pub params: Table<Located<Param>>,
    /// Grid, block and resources of the launch.
    pub launch: Option<Located<Launch>>,
    /// Structs that buffers and the kernel use, laid out as CUDA does.
    #[serde(default, rename = "struct")]
    pub structs: Table<Located<Struct>>,
    /// Arrays in memory, each of which the kernel knows by its name.
    #[serde(default)]
    pub buffers: Table<Located<Buffer>>,
    /// The kernel: code in the file, or a function of a `.cu` file.
    pub kernel: Option<Located<Kernel>>,
    /// Versions of the scenario: each is merged into the rest of the file, key
    /// by key.
    #[serde(default)]
    pub variant: Table<Variant>,
    /// Values that a parameter takes in turn; several keys give every
    /// combination.
    #[serde(default)]
    pub sweep: Table<Located<Vec<Located<Literal>>>>,
    /// Smaller parameters for counting under a profiler, which replays a
    /// kernel many times.
    pub counting: Option<Counting>,
    /// Accesses that `coalescope check` lets pass, each with a reason.
    #[serde(default)]
    pub allow: Vec<Located<Allow>>,
}

/// Grid, block and resources of a launch.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Blocks along x, y and z: 1 to 3 numbers or expressions in quotes.
    pub grid: Option<Located<Extents>>,
    /// Threads of a block along x, y and z: 1 to 3 numbers or expressions.
    pub block: Option<Located<Extents>>,
    /// Registers a thread uses, 1 to 255; bounds how many blocks are resident.
    pub registers: Option<Located<Quantity>>,
    /// Bytes of dynamic shared memory, for `extern __shared__` arrays.
    pub dynamic_shared_bytes: Option<Located<Quantity>>,
}

/// A struct.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Struct {
    /// Its fields as C declares them: `["float x", "float y[4]"]`.
    pub fields: Option<Located<Vec<Located<String>>>>,
    /// Alignment in bytes, a power of two, as `__align__(16)`.
    pub align: Option<Located<Quantity>>,
}

/// An array in memory.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Element type: a C scalar, a CUDA vector (`float4`), or a struct of this
    /// file or of the kernel's.
    #[serde(rename = "type")]
    pub ty: Option<Located<String>>,
    /// Elements along each axis, outermost first.
    pub shape: Option<Located<Extents>>,
    /// Bytes from one row to the next, as a number or an expression, or
    /// `"cuda"` for what `cudaMallocPitch` chooses.
    pub pitch: Option<Located<Quantity>>,
    /// Bytes between the start of the allocation and the first element.
    pub offset_bytes: Option<Located<Quantity>>,
    /// What the integers in it are: C over `i`, the flat index of the element.
    pub init: Option<Located<Quantity>>,
    /// A file that holds its integers: `.bin` or `.raw` (little endian, of the
    /// element type), or `.txt` or `.csv`.
    pub file: Option<Located<String>>,
    /// Where it lives.
    pub memory: Option<Located<Memory>>,
}

/// Where a buffer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// The device's own memory; the default.
    Device,
    /// Page-locked host memory, which the device reads over the bus.
    Pinned,
}

/// The kernel.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// CUDA C: the statements of a kernel's body, or whole functions.
    pub code: Option<Located<String>>,
    /// A `.cu` file, relative to the scenario file.
    pub file: Option<Located<String>>,
    /// The `__global__` function to run; may be left out where there is one.
    pub entry: Option<Located<String>>,
}

/// What a variant changes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What is different about it.
    pub summary: Option<Located<String>>,
    /// Parameters with other values, and further ones.
    #[serde(default)]
    pub params: Table<Located<Param>>,
    /// Parts of the launch.
    pub launch: Option<Located<Launch>>,
    /// Structs, or parts of them.
    #[serde(default, rename = "struct")]
    pub structs: Table<Located<Struct>>,
    /// Buffers, or parts of them; `name = false` drops one.
    #[serde(default)]
    pub buffers: Table<Located<BufferChange>>,
    /// The kernel, or parts of it.
    pub kernel: Option<Located<Kernel>>,
    /// Sweeps of its own.
    #[serde(default)]
    pub sweep: Table<Located<Vec<Located<Literal>>>>,
}

/// A buffer in a variant.
#[derive(Clone, Debug, PartialEq)]
pub enum BufferChange {
    /// `name = false`
    Drop,
    /// Keys that replace those of the base, or a further buffer.
    Merge(Box<Buffer>),
}

impl<'de> Deserialize<'de> for BufferChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ChangeVisitor;
        impl<'de> Visitor<'de> for ChangeVisitor {
            type Value = BufferChange;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a buffer such as { type = \"float\", shape = [\"n\"] }, or `false` to drop it",
                )
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<BufferChange, E> {
                if value {
                    return Err(E::invalid_value(Unexpected::Bool(true), &self));
                }
                Ok(BufferChange::Drop)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<BufferChange, A::Error> {
                Buffer::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(|buffer| BufferChange::Merge(Box::new(buffer)))
            }
        }
        deserializer.deserialize_any(ChangeVisitor)
    }
}

impl JsonSchema for BufferChange {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "BufferChange".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let buffer = generator.subschema_for::<Buffer>();
        json_schema!({ "anyOf": [{ "const": false }, buffer] })
    }
}

/// Parameters for counting.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Counting {
    /// Parameters that replace those of `[params]` while counting.
    #[serde(default)]
    pub params: Table<Located<Param>>,
}

/// An access that `coalescope check` lets pass.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// The access: what its `// @label` says.
    pub label: Located<String>,
    /// The efficiency it may fall to, such as `"10%"`.
    pub min_efficiency: Option<Located<String>>,
    /// The bank conflicts a request that it may have.
    pub max_conflicts: Option<Located<f64>>,
    /// Why that is fine here.
    pub reason: Located<String>,
}

/// Reads a document. The error is the first that the file has: later ones
/// would often be its consequences.
pub fn parse(text: &str, source: SourceId) -> Result<Document, Box<Diagnostic>> {
    toml::from_str(text).map_err(|error| Box::new(explain(&error, text, source)))
}

/// Turns the TOML library's error into ours: what, where, and what to do.
fn explain(error: &toml::de::Error, text: &str, source: SourceId) -> Diagnostic {
    let range = error.span().unwrap_or(0..0);
    let byte = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let span = Span::new(source, byte(range.start), byte(range.end));
    let (what, expected) = match error.message().split_once(", expected ") {
        Some((what, expected)) => (what, Some(expected)),
        None => (error.message(), None),
    };
    let quoted = |text: &str| -> Vec<String> {
        text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };

    if what.contains("$__toml_private_datetime")
        || what.contains("invalid type: map") && {
            // A bare date reaches serde as a map with a private key.
            text.get(range.clone()).is_some_and(|t| t.starts_with(|c: char| c.is_ascii_digit()))
        }
    {
        return Diagnostic::new(
            Kind::Document,
            span,
            "a date has no place in a scenario",
            "write a number, or an expression in quotes",
        );
    }
    if let Some(rest) = what.strip_prefix("unknown field ") {
        let key = quoted(rest).into_iter().next().unwrap_or_default();
        let known = expected.map(quoted).unwrap_or_default();
        let list = known.join(", ");
        let help = match nearest(&key, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`? The keys of this table are: {list}"),
            None => format!("the keys of this table are: {list}"),
        };
        return Diagnostic::new(Kind::Document, span, format!("unknown key `{key}`"), help)
            .label("not a key of this table");
    }
    if let Some(rest) = what.strip_prefix("unknown variant ") {
        let value = quoted(rest).into_iter().next().unwrap_or_default();
        let known = expected.map(quoted).unwrap_or_default();
        return Diagnostic::new(
            Kind::Document,
            span,
            format!("unknown value \"{value}\""),
            format!("write one of: {}", known.join(", ")),
        );
    }
    if let Some(rest) = what.strip_prefix("missing field ") {
        let key = quoted(rest).into_iter().next().unwrap_or_default();
        return Diagnostic::new(
            Kind::Document,
            span,
            format!("the key `{key}` is missing"),
            format!("add `{key} = …` to this table"),
        );
    }
    for (prefix, message) in
        [("invalid type: ", "a value of the wrong type"), ("invalid value: ", "a wrong value")]
    {
        if let Some(found) = what.strip_prefix(prefix) {
            let wanted = match expected.unwrap_or("something else") {
                "a sequence" => "an array, as in [1, 2]",
                "a string" => "text in \"quotes\"",
                "a table" => "a table",
                "u32" => "a whole number, 0 or more",
                "f64" => "a number",
                wanted if wanted.starts_with("struct ") => "a table",
                wanted => wanted,
            };
            return Diagnostic::new(
                Kind::Document,
                span,
                format!("{message}: {found}"),
                format!("write {wanted}"),
            );
        }
    }
    let help = match what {
        "duplicate key" => "a key stands once in a table; remove one of the two",
        _ => {
            "see https://toml.io for TOML; text stands in \"quotes\", and code of several lines \
             between ''' and '''"
        }
    };
    let error = Diagnostic::new(Kind::Document, span, format!("not valid TOML: {what}"), help);
    match expected {
        Some(expected) => error.label(format!("expected {expected}")),
        None => error,
    }
}
