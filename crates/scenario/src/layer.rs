//! A scenario with one of its variants merged in, key by key.

use crate::diagnostic::{Diagnostic, Kind, known_names};
use crate::document::{
    Buffer, BufferChange, Document, Kernel, Launch, Literal, Located, Param, Struct,
};
use crate::source::{SourceId, Span};
use std::collections::HashMap;

/// What a run is made of, before parameters have values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layer {
    pub(crate) params: Entries<Param>,
    pub(crate) launch: Option<Located<Launch>>,
    pub(crate) structs: Entries<Struct>,
    pub(crate) buffers: Entries<Buffer>,
    pub(crate) kernel: Option<Located<Kernel>>,
    pub(crate) sweep: Entries<Vec<Located<Literal>>>,
}

/// Entries of a table by name, in order.
pub(crate) type Entries<T> = Vec<(Located<String>, Located<T>)>;

/// Most parameters, buffers, structs … a scenario may have: more are not
/// written by a person, and would make names slow to look up.
const MAX_ENTRIES: usize = 1000;

impl Layer {
    /// The file without any variant.
    pub(crate) fn base(document: &Document) -> Self {
        Self {
            params: document.params.0.clone(),
            launch: document.launch.clone(),
            structs: document.structs.0.clone(),
            buffers: document.buffers.0.clone(),
            kernel: document.kernel.clone(),
            sweep: document.sweep.0.clone(),
        }
    }

    /// The file with a variant merged in. Fails where the variant drops a
    /// buffer that is not there.
    pub(crate) fn with_variant(
        document: &Document,
        variant: &crate::document::Variant,
        source: SourceId,
    ) -> Result<Self, Diagnostic> {
        let mut layer = Self::base(document);
        for (name, param) in &variant.params.0 {
            set(&mut layer.params, name, param.clone());
        }
        for (name, values) in &variant.sweep.0 {
            set(&mut layer.sweep, name, values.clone());
        }
        if let Some(changes) = &variant.launch {
            let base = layer.launch.take().unwrap_or_else(|| Located {
                value: Launch::default(),
                start: changes.start,
                end: changes.end,
            });
            layer.launch =
                Some(Located { value: merge_launch(base.value, changes.value.clone()), ..base });
        }
        for (name, changes) in &variant.structs.0 {
            let changed = match find(&layer.structs, &name.value) {
                Some(base) => Located {
                    value: Struct {
                        fields: changes.value.fields.clone().or(base.value.fields.clone()),
                        align: changes.value.align.clone().or(base.value.align.clone()),
                    },
                    ..base.clone()
                },
                None => changes.clone(),
            };
            set(&mut layer.structs, name, changed);
        }
        for (name, change) in &variant.buffers.0 {
            let base = find(&layer.buffers, &name.value).cloned();
            match (&change.value, base) {
                (BufferChange::Drop, None) => {
                    return Err(Diagnostic::new(
                        Kind::Document,
                        name.span(source),
                        format!("there is no buffer `{}` to drop", name.value),
                        known_names(
                            &name.value,
                            "buffers",
                            layer.buffers.iter().map(|(name, _)| name.value.as_str()),
                        ),
                    ));
                }
                (BufferChange::Drop, Some(_)) => {
                    layer.buffers.retain(|(kept, _)| kept.value != name.value);
                }
                (BufferChange::Merge(changes), base) => {
                    let merged = match base {
                        Some(base) => merge_buffer(base.value, (**changes).clone()),
                        None => (**changes).clone(),
                    };
                    let merged = Located { value: merged, start: change.start, end: change.end };
                    set(&mut layer.buffers, name, merged);
                }
            }
        }
        if let Some(changes) = &variant.kernel {
            let merged = match layer.kernel.take() {
                Some(base) => merge_kernel(base.value, changes.value.clone()),
                None => changes.value.clone(),
            };
            layer.kernel = Some(Located { value: merged, start: changes.start, end: changes.end });
        }
        Ok(layer)
    }

    /// Whether a run can be made of it: a base that variants are to complete
    /// is not one by itself.
    pub(crate) fn is_complete(&self) -> bool {
        let launch = self
            .launch
            .as_ref()
            .is_some_and(|launch| launch.value.grid.is_some() && launch.value.block.is_some());
        let kernel = self
            .kernel
            .as_ref()
            .is_some_and(|kernel| kernel.value.code.is_some() || kernel.value.file.is_some());
        let buffers = self
            .buffers
            .iter()
            .all(|(_, buffer)| buffer.value.ty.is_some() && buffer.value.shape.is_some());
        launch && kernel && buffers
    }

    /// Everything that is wrong whatever the parameters are.
    pub(crate) fn check(&self, source: SourceId, errors: &mut Vec<Diagnostic>) {
        let too_many = |what: &str, count: usize, at: Option<Span>| {
            (count > MAX_ENTRIES).then(|| {
                let message = format!("{count} {what}, more than the {MAX_ENTRIES} of a scenario");
                let help = "put what varies into a sweep, or data into a file";
                match at {
                    Some(span) => Diagnostic::new(Kind::Limit, span, message, help),
                    None => Diagnostic::whole_file(Kind::Limit, message, help),
                }
            })
        };
        let first = |name: Option<&Located<String>>| name.map(|name| name.span(source));
        let counts = [
            too_many("parameters", self.params.len(), first(self.params.first().map(|e| &e.0))),
            too_many("buffers", self.buffers.len(), first(self.buffers.first().map(|e| &e.0))),
            too_many("structs", self.structs.len(), first(self.structs.first().map(|e| &e.0))),
        ];
        let before = errors.len();
        errors.extend(counts.into_iter().flatten());
        if errors.len() > before {
            return;
        }

        let mut seen: HashMap<&str, (&str, Span)> = HashMap::new();
        let names = self
            .params
            .iter()
            .map(|(name, _)| ("parameter", name))
            .chain(self.buffers.iter().map(|(name, _)| ("buffer", name)))
            .chain(self.structs.iter().map(|(name, _)| ("struct", name)));
        for (what, name) in names {
            let span = name.span(source);
            if let Some(reason) = not_an_identifier(&name.value) {
                errors.push(Diagnostic::new(
                    Kind::Document,
                    span,
                    format!("`{}` cannot name a {what}: {reason}", name.value.escape_debug()),
                    "the kernel calls it by this name: choose a C identifier, such as `in_a`",
                ));
            }
            if let Some((other, place)) = seen.insert(&name.value, (what, span)) {
                errors.push(
                    Diagnostic::new(
                        Kind::Document,
                        span,
                        format!("`{}` names a {other} and a {what}", name.value),
                        "rename one of them: the kernel could not tell them apart",
                    )
                    .label(format!("this {what}"))
                    .also(place, format!("this {other}")),
                );
            }
        }

        if let Some(kernel) = &self.kernel
            && let (Some(code), Some(file)) = (&kernel.value.code, &kernel.value.file)
        {
            errors.push(
                Diagnostic::new(
                    Kind::Document,
                    file.span(source),
                    "the kernel has both `code` and `file`",
                    "keep one of the two",
                )
                .label("the file")
                .also(Span { end: code.start, ..code.span(source) }, "the code"),
            );
        }
        for (name, buffer) in &self.buffers {
            if let (Some(init), Some(file)) = (&buffer.value.init, &buffer.value.file) {
                errors.push(
                    Diagnostic::new(
                        Kind::Document,
                        file.span(source),
                        format!("buffer `{}` has both `init` and `file`", name.value),
                        "keep one of the two",
                    )
                    .also(init.span(source), "its other contents"),
                );
            }
        }
        for (name, values) in &self.sweep {
            if !self.params.iter().any(|(param, _)| param.value == name.value) {
                errors.push(Diagnostic::new(
                    Kind::UnknownName,
                    name.span(source),
                    format!("the sweep is over `{}`, which is no parameter", name.value),
                    known_names(
                        &name.value,
                        "parameters",
                        self.params.iter().map(|(param, _)| param.value.as_str()),
                    ),
                ));
            }
            if values.value.is_empty() {
                errors.push(Diagnostic::new(
                    Kind::Document,
                    values.span(source),
                    format!("the sweep over `{}` has no values", name.value),
                    "list at least one value, or remove the key",
                ));
            }
        }
    }
}

/// The value at `name`.
fn find<'a, T>(entries: &'a Entries<T>, name: &str) -> Option<&'a Located<T>> {
    entries.iter().find(|(key, _)| key.value == name).map(|(_, value)| value)
}

/// Replaces the value at `name` where it stands, or appends it.
fn set<T>(entries: &mut Entries<T>, name: &Located<String>, value: Located<T>) {
    match entries.iter_mut().find(|(key, _)| key.value == name.value) {
        Some(entry) => entry.1 = value,
        None => entries.push((name.clone(), value)),
    }
}

fn merge_launch(base: Launch, changes: Launch) -> Launch {
    Launch {
        grid: changes.grid.or(base.grid),
        block: changes.block.or(base.block),
        registers: changes.registers.or(base.registers),
        dynamic_shared_bytes: changes.dynamic_shared_bytes.or(base.dynamic_shared_bytes),
    }
}

fn merge_buffer(base: Buffer, changes: Buffer) -> Buffer {
    // The two kinds of contents exclude each other: a new one replaces both.
    let (init, file) = match (&changes.init, &changes.file) {
        (None, None) => (base.init, base.file),
        _ => (changes.init, changes.file),
    };
    Buffer {
        ty: changes.ty.or(base.ty),
        shape: changes.shape.or(base.shape),
        pitch: changes.pitch.or(base.pitch),
        offset_bytes: changes.offset_bytes.or(base.offset_bytes),
        init,
        file,
        memory: changes.memory.or(base.memory),
    }
}

fn merge_kernel(base: Kernel, changes: Kernel) -> Kernel {
    // New code or a new file replaces both, and with it the old entry.
    match (&changes.code, &changes.file) {
        (None, None) => Kernel { entry: changes.entry.or(base.entry), ..base },
        (None, Some(_)) if base.file.is_some() => {
            Kernel { entry: changes.entry.or(base.entry), ..changes }
        }
        _ => changes,
    }
}

/// Why a name cannot stand in C++ code, if it cannot.
fn not_an_identifier(name: &str) -> Option<&'static str> {
    let mut chars = name.chars();
    match chars.next() {
        None => return Some("it is empty"),
        Some(first) if first.is_ascii_digit() => return Some("it starts with a digit"),
        Some(_) => {}
    }
    if name.chars().any(|c| !(c.is_ascii_alphanumeric() || c == '_')) {
        return Some("only letters without accents, digits and `_` can stand in it");
    }
    if KEYWORDS.binary_search(&name).is_ok() {
        return Some("it is a word of C++ or CUDA");
    }
    if ["hash", "hash64", "load", "store"].contains(&name) {
        return Some("it is a function that kernels may call");
    }
    None
}

/// Words that C++17 keeps for itself (ISO/IEC 14882:2017, 5.11), and CUDA's
/// built-in variables (CUDA C++ Programming Guide, “Built-in Variables”);
/// sorted.
const KEYWORDS: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "blockDim",
    "blockIdx",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "class",
    "compl",
    "const",
    "const_cast",
    "constexpr",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "gridDim",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "threadIdx",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "warpSize",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_sorted() {
        assert!(KEYWORDS.is_sorted());
    }

    #[test]
    fn identifiers() {
        for good in ["in", "n", "_x", "a1", "N_ROWS"] {
            assert_eq!(not_an_identifier(good), None, "{good}");
        }
        for bad in ["", "1a", "a-b", "für", "float", "a b", "threadIdx", "load"] {
            assert!(not_an_identifier(bad).is_some(), "{bad}");
        }
    }
}
