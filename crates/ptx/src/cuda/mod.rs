//! A scenario's run as one CUDA C++ file that `nvcc` compiles and runs.
//!
//! The kernel is printed as its author wrote it. Around it stands what the
//! scenario file says: parameters as `constexpr`, structs, the helpers that the
//! kernel uses, and a `main` that allocates, fills, launches and times.

mod expr;
mod scan;

use crate::text;
use scan::Scan;
use scenario::program::{Scalar, ValueType};
use scenario::run::{Argument, Buffer, Contents, Memory, ParamValue};
use scenario::{MAX_STATIC_SHARED_BYTES, Run};
use std::fmt::Write as _;

/// Timed launches of the emitted program.
const SAMPLES: u32 = 20;

/// The namespace of a kernel that is not a whole file, so that a parameter may
/// be called `y1` or `index` whatever the C library calls so.
const NAMESPACE: &str = "scenario_code";

/// The CUDA C++ text of one run.
pub fn emit(run: &Run) -> String {
    let is_body = run.kernel.entry.is_none();
    let code = &run.kernel.code;
    let scan = if is_body { Scan::body(code) } else { Scan::file(code) };
    let structs = Scan::file(&run.kernel.structs);
    let file = File { run, is_body, whole: scan.includes(), scan, structs };
    let mut out = String::new();
    file.heading(&mut out);
    file.includes(&mut out);
    file.helpers(&mut out);
    file.kernel(&mut out);
    file.contents(&mut out);
    file.main(&mut out);
    out
}

struct File<'a> {
    run: &'a Run,
    /// Whether the code is the statements of a kernel; else it has functions.
    is_body: bool,
    /// Whether the code includes files, so that it can't be put into a
    /// namespace.
    whole: bool,
    scan: Scan<'a>,
    /// Names in the scenario's structs.
    structs: Scan<'a>,
}

/// How the statements of a body see a buffer.
enum Seen {
    /// `T *name`
    Pointer,
    /// `T (*name)[…]`
    Array,
    /// `View<T, …> name`
    View,
}

impl File<'_> {
    fn heading(&self, out: &mut String) {
        let run = self.run;
        let name = match &run.variant {
            Some(variant) => format!("{} [{variant}]", run.scenario),
            None => run.scenario.clone(),
        };
        comment(out, &format!("{name}: {}", run.title));
        for (name, value) in &run.params {
            comment(out, &format!("    {name} = {value}"));
        }
        let [x, y, z] = run.launch.grid;
        let [bx, by, bz] = run.launch.block;
        comment(out, &format!("grid {x} x {y} x {z}, block {bx} x {by} x {bz}"));
        comment(out, "");
        comment(out, "nvcc -std=c++17 -O3 -arch=native FILE.cu -o FILE && ./FILE");
    }

    fn includes(&self, out: &mut String) {
        let run = self.run;
        let mut headers = vec!["algorithm", "cstdio", "cstdlib", "cstring", "vector"];
        let names = |word: &str| {
            run.kernel.structs.contains(word)
                || run.kernel.code.contains(word)
                || run.buffers.iter().any(|buffer| buffer.type_name.contains(word))
        };
        headers.push("cuda_runtime.h");
        if names("half") {
            headers.push("cuda_fp16.h");
        }
        if names("bfloat16") {
            headers.push("cuda_bf16.h");
        }
        if self.scan.uses_prefix("__pipeline_") {
            headers.push("cuda_pipeline.h");
        }
        out.push('\n');
        for header in headers {
            let _ = writeln!(out, "#include <{header}>");
        }
    }

    fn helpers(&self, out: &mut String) {
        let mut add = |text: &str| {
            out.push('\n');
            out.push_str(text);
        };
        let load = self.scan.calls_undefined("load");
        let store = self.scan.calls_undefined("store");
        if load || store {
            add(include_str!("helpers.cuh"));
        }
        if load {
            add(include_str!("load.cuh"));
        }
        if store {
            add(include_str!("store.cuh"));
        }
        if self.needs_hash("hash") {
            add(include_str!("hash.cuh"));
        }
        if self.needs_hash("hash64") {
            add(include_str!("hash64.cuh"));
        }
        let views = |buffer: &Buffer| matches!(self.seen(buffer), Seen::View);
        if self.is_body && self.run.buffers.iter().any(views) {
            add(include_str!("view.cuh"));
        }
        add(include_str!("host.cuh"));
    }

    /// Whether the kernel or an `init` calls a hash that the kernel's text
    /// doesn't define.
    fn needs_hash(&self, name: &str) -> bool {
        let call = format!("{name}(");
        let in_init = self.run.buffers.iter().any(|buffer| match &buffer.contents {
            Contents::Computed(init) => expr::text(init).is_some_and(|text| text.contains(&call)),
            Contents::Unknown | Contents::Listed(_) => false,
        });
        !self.scan.defines(name) && (in_init || self.scan.calls_undefined(name))
    }

    fn kernel(&self, out: &mut String) {
        let run = self.run;
        out.push('\n');
        if !self.whole {
            let _ = writeln!(out, "namespace {NAMESPACE} {{\n");
        }
        let mut any = false;
        for (name, value) in &run.params {
            if self.needs_constant(name) {
                let _ = writeln!(out, "constexpr {};", declaration(name, *value));
                any = true;
            }
        }
        if any {
            out.push('\n');
        }
        if !run.kernel.structs.trim().is_empty() {
            let _ = writeln!(out, "{}\n", run.kernel.structs.trim_end());
        }
        if self.is_body {
            let _ = writeln!(out, "__global__ void {}({})\n{{", self.entry(), self.body_params());
            for line in run.kernel.code.trim_matches('\n').lines() {
                let indent = if line.trim().is_empty() { "" } else { "    " };
                let _ = writeln!(out, "{indent}{}", line.trim_end());
            }
            out.push_str("}\n");
        } else {
            let has_main = self.scan.defines("main");
            if has_main {
                out.push_str("// The file's own main gives way to the one below.\n");
                out.push_str("#define main original_main\n");
            }
            out.push_str(self.overridden().trim_matches('\n'));
            out.push('\n');
            if has_main {
                out.push_str("#undef main\n");
            }
        }
        if !self.whole {
            let _ = writeln!(out, "\n}} // namespace {NAMESPACE}");
        }
    }

    /// Whether a parameter's name must be defined before the code. What the
    /// code defines itself it keeps, with its macros' values replaced; what a
    /// kernel in a whole file takes as a parameter is that parameter.
    fn needs_constant(&self, name: &str) -> bool {
        let is_own = self.whole && self.run.kernel.parameters.iter().any(|own| own == name);
        (self.scan.uses(name) || self.structs.uses(name)) && !self.scan.defines(name) && !is_own
    }

    /// The code, with the macros that parameters override.
    fn overridden(&self) -> String {
        let code = &self.run.kernel.code;
        let mut out = String::with_capacity(code.len());
        let mut copied = 0;
        for found in self.scan.macros() {
            let Some((_, value)) = self.run.params.iter().find(|(name, _)| name == found.name)
            else {
                continue;
            };
            out.push_str(&code[copied..found.range.start]);
            let _ = write!(out, "#define {} {}", found.name, literal(*value));
            copied = found.range.end;
        }
        out.push_str(&code[copied..]);
        out
    }

    fn entry(&self) -> String {
        match &self.run.kernel.entry {
            Some(entry) => entry.clone(),
            None => format!("kernel_{}", text::identifier(&self.run.scenario)),
        }
    }

    fn body_params(&self) -> String {
        let params: Vec<String> = self
            .run
            .buffers
            .iter()
            .map(|buffer| {
                let (ty, name) = (&buffer.type_name, &buffer.name);
                match self.seen(buffer) {
                    Seen::Pointer => format!("{ty} *{name}"),
                    Seen::Array => format!("{ty} (*{name}){}", inner_extents(buffer)),
                    Seen::View => format!("{} {name}", view_type(buffer, ty)),
                }
            })
            .collect();
        params.join(", ")
    }

    fn seen(&self, buffer: &Buffer) -> Seen {
        if buffer.shape.len() < 2 {
            Seen::Pointer
        } else if buffer.pitch.is_none() && self.scan.uses("reinterpret_cast") {
            // A class can't be the operand of reinterpret_cast.
            Seen::Array
        } else {
            Seen::View
        }
    }

    /// What fills the buffers whose contents the scenario gives.
    fn contents(&self, out: &mut String) {
        for buffer in &self.run.buffers {
            let value = match &buffer.contents {
                Contents::Unknown => continue,
                Contents::Computed(init) => {
                    expr::text(init).unwrap_or_else(|| self.run.sources.text(init.span).to_owned())
                }
                Contents::Listed(values) => {
                    let _ = writeln!(
                        out,
                        "\n__device__ const {} listed_{}[] = {{",
                        self.scalar_type(buffer),
                        buffer.name
                    );
                    let used = values.get(..elements(buffer) as usize).unwrap_or(values);
                    for line in used.chunks(16) {
                        let words: Vec<String> = line.iter().map(i64::to_string).collect();
                        let _ = writeln!(out, "    {},", words.join(", "));
                    }
                    out.push_str("};\n");
                    format!("listed_{}[i]", buffer.name)
                }
            };
            // A listed array is in device memory.
            let where_ = match &buffer.contents {
                Contents::Listed(_) => "__device__",
                Contents::Computed(_) | Contents::Unknown => "__host__ __device__",
            };
            let _ = writeln!(
                out,
                "\nstruct Contents_{} {{\n    {where_} long long operator()(long long i) const\n    \
                 {{\n        return {value};\n    }}\n}};",
                buffer.name
            );
        }
    }

    fn main(&self, out: &mut String) {
        let run = self.run;
        out.push_str("\nint main()\n{\n");
        for buffer in &run.buffers {
            self.allocation(out, buffer);
        }
        for buffer in &run.buffers {
            self.filling(out, buffer);
        }
        out.push_str("    coalescope::check(cudaDeviceSynchronize(), \"fill\");\n\n");

        let [x, y, z] = run.launch.grid;
        let [bx, by, bz] = run.launch.block;
        let _ = writeln!(out, "    const dim3 grid({x}, {y}, {z}), block({bx}, {by}, {bz});");
        let entry = self.qualified(&self.entry());
        let shared = run.launch.dynamic_shared_bytes;
        // Beyond what arrays may take statically, a kernel opts in.
        if shared > MAX_STATIC_SHARED_BYTES {
            let _ = writeln!(
                out,
                "    coalescope::check(cudaFuncSetAttribute({entry},\n                      \
                 cudaFuncAttributeMaxDynamicSharedMemorySize, {shared}), \
                 \"cudaFuncSetAttribute\");"
            );
        }
        let third = if shared > 0 { format!(", {shared}") } else { String::new() };
        let arguments = self.arguments();
        let _ = writeln!(
            out,
            "    coalescope::time_launches(\"{}\", {SAMPLES}, [&] {{\n        \
             {entry}<<<grid, block{third}>>>({arguments});\n    }});",
            text::ascii(&self.entry())
        );
        out.push_str("    return EXIT_SUCCESS;\n}\n");
    }

    fn allocation(&self, out: &mut String, buffer: &Buffer) {
        let allocate = match buffer.memory {
            Memory::Device => "allocate",
            Memory::Pinned => "allocate_pinned",
        };
        let shape: Vec<String> = buffer.shape.iter().map(u64::to_string).collect();
        let pitch = match buffer.pitch {
            Some(pitch) => format!(", rows {pitch} bytes apart"),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "    // {} {}: {}{pitch}\n    char *{} = coalescope::{allocate}({}, {});",
            text::ascii(&buffer.type_name),
            buffer.name,
            shape.join(" x "),
            host_name(buffer),
            buffer.bytes.max(1),
            buffer.offset_bytes,
        );
    }

    fn filling(&self, out: &mut String, buffer: &Buffer) {
        let elements = elements(buffer);
        let columns = buffer.shape.last().copied().unwrap_or(1).max(1);
        let pitch = row_bytes(buffer);
        let data = host_name(buffer);
        let scalars = match buffer.scalar {
            Some(scalar) => buffer.element_bytes / scalar.bytes(),
            None => 1,
        };
        let (ty, count, columns, pitch, value) = match (&buffer.contents, buffer.scalar) {
            (Contents::Computed(_) | Contents::Listed(_), _) => {
                let ty = self.scalar_type(buffer);
                (ty, elements, columns, pitch, format!("Contents_{}{{}}", buffer.name))
            }
            (Contents::Unknown, Some(scalar)) => {
                let ty = expr::scalar_name(scalar).to_owned();
                let (count, columns) = (elements * scalars, columns * scalars);
                let value = if scalar.is_float() {
                    "coalescope::Numbers{}".to_owned()
                } else {
                    "coalescope::Words{}".to_owned()
                };
                (ty, count, columns, pitch, value)
            }
            // A struct: as words, unless it isn't made of any.
            (Contents::Unknown, None) => {
                let (ty, bytes) =
                    if buffer.bytes.is_multiple_of(4) && buffer.offset_bytes.is_multiple_of(4) {
                        ("unsigned", 4)
                    } else {
                        ("unsigned char", 1)
                    };
                let count = buffer.bytes / bytes;
                let value = "coalescope::Words{}".to_owned();
                (ty.to_owned(), count, count.max(1), buffer.bytes.max(1), value)
            }
        };
        let _ = writeln!(
            out,
            "    coalescope::fill<{ty}>({data}, {count}, {columns}, {pitch}, {value});"
        );
    }

    /// The C++ type in which a buffer's contents are written.
    fn scalar_type(&self, buffer: &Buffer) -> String {
        match buffer.scalar {
            Some(scalar) if scalar.bytes() == buffer.element_bytes => {
                expr::scalar_name(scalar).to_owned()
            }
            _ => self.qualified(&buffer.type_name),
        }
    }

    fn arguments(&self) -> String {
        let run = self.run;
        let arguments: Vec<String> = if self.is_body {
            run.buffers
                .iter()
                .map(|buffer| {
                    let name = host_name(buffer);
                    match self.seen(buffer) {
                        Seen::Pointer | Seen::Array => format!("coalescope::AnyPointer{{{name}}}"),
                        Seen::View => {
                            let ty = self.qualified_element(&buffer.type_name);
                            format!("{}{{{name}}}", view_type(buffer, &ty))
                        }
                    }
                })
                .collect()
        } else {
            let bound = run.kernel.parameters.iter().zip(&run.kernel.arguments);
            bound
                .map(|(name, argument)| match argument {
                    Argument::Buffer(id) => {
                        format!("coalescope::AnyPointer{{{}}}", host_name(&run.buffers[id.0]))
                    }
                    Argument::Param(value) => format!("/* {name} = */ {}", literal(*value)),
                    Argument::Pitch(bytes) => format!("/* {name} = */ {bytes}"),
                    Argument::PitchedBuffer(id) => pitched_pointer(&run.buffers[id.0]),
                    Argument::Any => format!("/* {name} = */ {{}}"),
                })
                .collect()
        };
        arguments.join(", ")
    }

    fn qualified(&self, name: &str) -> String {
        if self.whole { name.to_owned() } else { format!("{NAMESPACE}::{name}") }
    }

    /// An element type: CUDA's own, or a struct of the scenario.
    fn qualified_element(&self, type_name: &str) -> String {
        if self.structs.defines(type_name) {
            self.qualified(type_name)
        } else {
            type_name.to_owned()
        }
    }
}

/// The host's variable for a buffer: a name of its own, for the buffer may be
/// called like a function.
fn host_name(buffer: &Buffer) -> String {
    format!("{}_data", text::identifier(&buffer.name))
}

/// What `cudaMalloc3D` would say of a buffer.
fn pitched_pointer(buffer: &Buffer) -> String {
    let columns = buffer.shape.last().copied().unwrap_or(1);
    let rows = buffer.shape.iter().rev().nth(1).copied().unwrap_or(1);
    format!(
        "make_cudaPitchedPtr({}, {}, {}, {rows})",
        host_name(buffer),
        row_bytes(buffer),
        columns.saturating_mul(buffer.element_bytes),
    )
}

fn elements(buffer: &Buffer) -> u64 {
    buffer.shape.iter().fold(1, |n, &axis| n.saturating_mul(axis))
}

fn row_bytes(buffer: &Buffer) -> u64 {
    let columns = buffer.shape.last().copied().unwrap_or(1);
    buffer.pitch.unwrap_or_else(|| columns.saturating_mul(buffer.element_bytes))
}

fn view_type(buffer: &Buffer, element: &str) -> String {
    let mut text = format!("coalescope::View<{element}, {}", row_bytes(buffer));
    for extent in buffer.shape.iter().skip(1) {
        let _ = write!(text, ", {extent}");
    }
    text.push('>');
    text
}

fn inner_extents(buffer: &Buffer) -> String {
    buffer.shape.iter().skip(1).map(|extent| format!("[{extent}]")).collect()
}

fn declaration(name: &str, value: ParamValue) -> String {
    format!("{} {name} = {}", expr::scalar_name(value.ty), literal(value))
}

fn literal(value: ParamValue) -> String {
    match value.float() {
        Some(float) if value.ty == Scalar::F64 => format!("{float:?}"),
        Some(float) => format!("{float:?}f"),
        None => expr::literal(value.value, ValueType::Int(value.ty)),
    }
}

/// A line of comment: one line, not continued by a backslash.
fn comment(out: &mut String, line: &str) {
    let line: String =
        line.chars().map(|c| if c.is_control() || c.is_whitespace() { ' ' } else { c }).collect();
    let line = line.trim_end();
    let stop = if line.ends_with('\\') { "." } else { "" };
    let space = if line.is_empty() { "" } else { " " };
    let _ = writeln!(out, "//{space}{line}{stop}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hand;
    use scenario::program::BufferId;
    use scenario::run::KernelText;

    fn with_code(code: &str, entry: Option<&str>, parameters: &[&str]) -> Run {
        let mut run = hand::copy();
        let bound = |name: &str| match run.buffers.iter().position(|buffer| buffer.name == name) {
            Some(index) => Argument::Buffer(BufferId(index)),
            None => match run.params.iter().find(|(param, _)| param == name) {
                Some((_, value)) => Argument::Param(*value),
                None => Argument::Any,
            },
        };
        let arguments = parameters.iter().map(|name| bound(name)).collect();
        run.kernel = KernelText {
            structs: String::new(),
            code: code.into(),
            entry: entry.map(str::to_owned),
            parameters: parameters.iter().map(|&name| name.to_owned()).collect(),
            arguments,
        };
        run
    }

    #[test]
    fn a_body_becomes_a_kernel_of_its_buffers() {
        let text = emit(&hand::copy());
        assert!(text.contains(
            "constexpr int n = 1000;\n\n__global__ void kernel_hand(float *in, float *out)\n{\n    \
             int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) out[i] = in[i];\n}\n"
        ));
        assert!(text.contains("const dim3 grid(4, 1, 1), block(256, 1, 1);"));
        assert!(!text.contains("struct View"), "no buffer has several axes");
        assert!(!text.contains("T load("), "nothing calls it");
    }

    #[test]
    fn rows_and_planes_are_views() {
        let mut run = with_code("load(in[0][1]); store(out[0][1][2]); load(in.pitch);", None, &[]);
        run.buffers[0].shape = vec![20, 50];
        run.buffers[0].pitch = Some(512);
        run.buffers[1].shape = vec![5, 4, 50];
        let text = emit(&run);
        assert!(text.contains(
            "(coalescope::View<float, 512, 50> in, coalescope::View<float, 200, 4, 50> out)"
        ));
        assert!(text.contains("T load(") && text.contains("void store("));
        assert!(text.contains("fill<float>(in_data, 1000, 50, 512, coalescope::Numbers{})"));
    }

    #[test]
    fn arrays_without_padding_are_arrays_where_a_cast_wants_one() {
        let mut run = with_code("reinterpret_cast<float4 *>(in)[0];", None, &[]);
        run.buffers[0].shape = vec![20, 50];
        assert!(emit(&run).contains("(float (*in)[50], float *out)"));
    }

    #[test]
    fn a_file_keeps_its_text_but_for_overridden_macros_and_main() {
        let code = "#include <cstdio>\n#define n 7 // rows\n#define other 8\n__global__ void k(float \
                    *in, int m) { in[n] = m; }\nint main() { return 0; }\n";
        let mut run = with_code(code, Some("k"), &["out", "m"]);
        let m = ParamValue { ty: Scalar::I64, value: -2 };
        run.params.push(("m".to_owned(), m));
        run.kernel.arguments[1] = Argument::Param(m);
        let text = emit(&run);
        assert!(text.contains(
            "#define main original_main\n#include <cstdio>\n#define n 1000\n#define other 8\n"
        ));
        assert!(text.contains("int main() { return 0; }\n#undef main\n"));
        assert!(
            text.contains(
                "k<<<grid, block>>>(coalescope::AnyPointer{out_data}, /* m = */ (-2ll));"
            )
        );
        assert!(!text.contains("constexpr int n ="), "the macro is its definition");
        assert!(!text.contains("namespace scenario_code"), "it includes files");
    }

    #[test]
    fn contents_are_written_by_the_expression_of_the_scenario() {
        let mut run = with_code("load(in[col[0]]);", None, &[]);
        let mut col = hand::buffer("col", Scalar::I32, "int", 100);
        let i = hand::local(0, hand::I64);
        let twice = hand::binary(scenario::program::BinaryOp::Mul, i, hand::number(2, hand::I64));
        col.contents = Contents::Computed(std::sync::Arc::new(hand::convert(twice, hand::I32)));
        let mut list = hand::buffer("list", Scalar::U16, "unsigned short", 3);
        list.contents = Contents::Listed([5, 6, 7, 8].into());
        run.buffers.extend([col, list]);
        let text = emit(&run);
        assert!(text.contains("return (int)(i * 2ll);"));
        assert!(text.contains("fill<int>(col_data, 100, 100, 400, Contents_col{});"));
        assert!(text.contains("listed_list[] = {\n    5, 6, 7,\n};"), "three elements only");
    }

    #[test]
    fn float_parameters_are_literals_of_their_type() {
        assert_eq!(literal(ParamValue::of_float(Scalar::F32, 0.1)), "0.10000000149011612f");
        assert_eq!(literal(ParamValue::of_float(Scalar::F64, 1e30)), "1e30");
    }
}
