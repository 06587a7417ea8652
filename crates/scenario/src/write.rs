//! A scenario document as the text of a file.
//!
//! Reading what is written gives the same scenario; comments and the layout of
//! the original are not kept.

use crate::document::{
    Buffer, Document, Extents, Kernel, Launch, Literal, Located, Memory, Param, Quantity, Struct,
};
use std::fmt::Write;

impl Document {
    /// The document as TOML: what one run is made of. Variants, sweep and
    /// counting parameters, of which a settled document has none, are left out.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        if let Some(title) = &self.title {
            line(&mut out, format_args!("title = {}", string(&title.value)));
        }
        if let Some(summary) = &self.summary {
            line(&mut out, format_args!("summary = {}", string(&summary.value)));
        }
        if !self.claims.is_empty() {
            let claims = list(self.claims.iter().map(|claim| claim.value.to_string()));
            line(&mut out, format_args!("claims = {claims}"));
        }
        if !self.params.0.is_empty() {
            line(&mut out, format_args!("\n[params]"));
            for (name, param) in &self.params.0 {
                line(&mut out, format_args!("{} = {}", key(&name.value), param_text(&param.value)));
            }
        }
        if let Some(launch) = &self.launch {
            line(&mut out, format_args!("\n[launch]"));
            launch_text(&mut out, &launch.value);
        }
        for (name, spec) in &self.structs.0 {
            line(&mut out, format_args!("\n[struct.{}]", key(&name.value)));
            struct_text(&mut out, &spec.value);
        }
        if !self.buffers.0.is_empty() {
            line(&mut out, format_args!("\n[buffers]"));
            for (name, buffer) in &self.buffers.0 {
                let entries = list_of(&buffer_entries(&buffer.value));
                line(&mut out, format_args!("{} = {{ {entries} }}", key(&name.value)));
            }
        }
        if let Some(kernel) = &self.kernel {
            line(&mut out, format_args!("\n[kernel]"));
            kernel_text(&mut out, &kernel.value);
        }
        for allow in &self.allow {
            let allow = &allow.value;
            line(&mut out, format_args!("\n[[allow]]"));
            line(&mut out, format_args!("label = {}", string(&allow.label.value)));
            if let Some(least) = &allow.min_efficiency {
                line(&mut out, format_args!("min_efficiency = {}", string(&least.value)));
            }
            if let Some(most) = &allow.max_conflicts {
                line(&mut out, format_args!("max_conflicts = {:?}", most.value));
            }
            line(&mut out, format_args!("reason = {}", string(&allow.reason.value)));
        }
        out
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let written = writeln!(out, "{text}");
    debug_assert!(written.is_ok());
}

fn launch_text(out: &mut String, launch: &Launch) {
    if let Some(grid) = &launch.grid {
        line(out, format_args!("grid = {}", extents(&grid.value)));
    }
    if let Some(block) = &launch.block {
        line(out, format_args!("block = {}", extents(&block.value)));
    }
    if let Some(registers) = &launch.registers {
        line(out, format_args!("registers = {}", quantity(&registers.value)));
    }
    if let Some(bytes) = &launch.dynamic_shared_bytes {
        line(out, format_args!("dynamic_shared_bytes = {}", quantity(&bytes.value)));
    }
}

fn struct_text(out: &mut String, spec: &Struct) {
    if let Some(fields) = &spec.fields {
        let fields = list(fields.value.iter().map(|field| string(&field.value)));
        line(out, format_args!("fields = {fields}"));
    }
    if let Some(align) = &spec.align {
        line(out, format_args!("align = {}", quantity(&align.value)));
    }
}

fn buffer_entries(buffer: &Buffer) -> Vec<(&'static str, String)> {
    let mut entries = Vec::new();
    if let Some(ty) = &buffer.ty {
        entries.push(("type", string(&ty.value)));
    }
    if let Some(shape) = &buffer.shape {
        entries.push(("shape", extents(&shape.value)));
    }
    if let Some(pitch) = &buffer.pitch {
        entries.push(("pitch", quantity(&pitch.value)));
    }
    if let Some(offset) = &buffer.offset_bytes {
        entries.push(("offset_bytes", quantity(&offset.value)));
    }
    if let Some(init) = &buffer.init {
        entries.push(("init", quantity(&init.value)));
    }
    if let Some(file) = &buffer.file {
        entries.push(("file", string(&file.value)));
    }
    if let Some(memory) = &buffer.memory {
        let memory = match memory.value {
            Memory::Device => "device",
            Memory::Pinned => "pinned",
        };
        entries.push(("memory", string(memory)));
    }
    entries
}

fn kernel_text(out: &mut String, kernel: &Kernel) {
    if let Some(file) = &kernel.file {
        line(out, format_args!("file = {}", string(&file.value)));
    }
    if let Some(entry) = &kernel.entry {
        line(out, format_args!("entry = {}", string(&entry.value)));
    }
    if let Some(code) = &kernel.code {
        line(out, format_args!("code = {}", string(&code.value)));
    }
}

fn list_of(entries: &[(&'static str, String)]) -> String {
    let entries: Vec<_> = entries.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    entries.join(", ")
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn extents(extents: &Extents) -> String {
    list(extents.0.iter().map(|extent| quantity(&extent.value)))
}

fn quantity(quantity: &Quantity) -> String {
    match quantity {
        Quantity::Int(int) => int.to_string(),
        Quantity::Expr(text) => string(text),
    }
}

fn literal(literal: &Literal) -> String {
    match literal {
        Literal::Quantity(value) => quantity(value),
        Literal::Bool(truth) => truth.to_string(),
        Literal::Float(float) => toml_float(*float),
    }
}

/// TOML wants a digit on both sides of the point, and writes the others so.
fn toml_float(float: f64) -> String {
    if float.is_nan() {
        "nan".to_owned()
    } else if float.is_infinite() {
        if float > 0.0 { "inf".to_owned() } else { "-inf".to_owned() }
    } else {
        format!("{float:?}")
    }
}

fn param_text(param: &Param) -> String {
    match param {
        Param::Plain(value) => literal(value),
        Param::Typed(typed) => format!(
            "{{ type = {}, value = {} }}",
            string(&typed.ty.value),
            literal(&typed.value.value)
        ),
    }
}

/// A key, bare where TOML allows it.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { basic(name) }
}

/// A string: between ''' where it has several lines, so that code stays
/// readable.
fn string(text: &str) -> String {
    let plain = |c: char| c == '\n' || c == '\t' || !c.is_control();
    if text.contains('\n')
        && text.chars().all(plain)
        && !text.contains("'''")
        && !text.ends_with('\'')
    {
        // The newline after the opening quotes is no part of the string.
        format!("'''\n{text}'''")
    } else {
        basic(text)
    }
}

fn basic(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A value without a place in a file.
pub(crate) fn nowhere<T>(value: T) -> Located<T> {
    Located { value, start: 0, end: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;
    use crate::source::SourceId;

    #[test]
    fn what_is_written_reads_the_same() {
        let text = r#"
title = "a \"quoted\" title"
summary = """
Two
lines."""
claims = [1, 2]
[params]
n = 1024
m = "n / 2"
dt = 0.5
on = true
u = { type = "unsigned", value = 7 }
[launch]
grid = ["n / 256", 2]
block = 256
registers = 32
[struct.P]
fields = ["float x", "float y[4]"]
align = 16
[buffers]
p = { type = "P", shape = ["n"], offset_bytes = 16, memory = "pinned" }
q = { type = "int", shape = ["n", 4], pitch = "cuda", init = "hash(i) % n" }
[kernel]
entry = "k"
code = '''
__global__ void k(P *p) { load(p[0].x); } // tab	and \ stay
'''
[[allow]]
label = "x"
max_conflicts = 2.0
reason = "why not"
"#;
        let document = parse(text, SourceId(0)).expect("it parses");
        let written = document.to_toml();
        let again = parse(&written, SourceId(0)).expect("what is written parses");
        assert_eq!(again.to_toml(), written);
        // Not only stable: nothing is lost.
        for piece in ["claims = [1, 2]", "'''\nTwo\nlines.'''", "\\\"quoted\\\"", "and \\ stay"] {
            assert!(written.contains(piece), "{piece} is missing in\n{written}");
        }
        assert_eq!(again.buffers.0.len(), 2);
        assert_eq!(
            again.kernel.and_then(|kernel| kernel.value.code).map(|code| code.value),
            document.kernel.and_then(|kernel| kernel.value.code).map(|code| code.value)
        );
    }

    #[test]
    fn odd_strings_survive() {
        for text in ["", "'", "'''\n", "a\r\nb", "\u{7}", "end'\n'", "line\nend'"] {
            let toml = format!("title = {}", string(text));
            let document = parse(&toml, SourceId(0)).expect(&toml);
            assert_eq!(document.title.map(|title| title.value).as_deref(), Some(text));
        }
    }
}
