//! PTX of one warp that executes one memory instruction with given addresses.
//!
//! Nothing else in the kernel may pass through L1TEX, or it would be counted
//! too. The addresses are therefore kernel parameters, which lie in the
//! constant bank, and each lane picks its own with 31 selects: every parameter
//! load has one address for the whole warp, so that not even the constant cache
//! sees divergent indices. The mask is a predicate on the instruction. What is
//! loaded is combined with a parameter that is 0 and would be stored if the
//! combination were not: the assembler cannot know, and the branch around the
//! store is always taken.

use super::placement::Arena;
use crate::device::{Argument, Device, Shape};
use crate::error::Error;
use crate::job::{WarpLaunch, WarpMemory};
use simulator::{AtomicOp, CacheOp, Op, OpKind, Space, ValueKind, WARP_LANES, WarpAccess};
use std::fmt::Write;

/// Why there is no such kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(String);

/// PTX version and target of a text, the lowest that its instruction needs.
type Needs = ((u8, u8), u16);

const BASIC: Needs = ((7, 0), 70);

/// Atomics on vectors (PTX ISA, `red` and `atom`).
const VECTORS: Needs = ((8, 1), 90);

/// The memory instruction as text.
struct Instruction {
    /// With its operands.
    text: String,
    /// What follows it, such as the wait for a copy.
    after: &'static str,
    /// Registers that it leaves a value in.
    results: Vec<String>,
    needs: Needs,
}

/// Element type and number of elements that move `width` bytes: those of
/// `value_type` (`v4.u16`, `f32` …) where it is given, else u8, u16, u32, u64
/// and v4.u32, as a compiler emits them.
fn elements(width: u8, value_type: Option<&str>) -> Result<(u8, u8), Unsupported> {
    let plain = match width {
        1 | 2 | 4 | 8 => (width, 1),
        16 => (4, 4),
        32 => (8, 4),
        _ => return Err(Unsupported(format!("there is no memory instruction of width {width}"))),
    };
    let Some(text) = value_type else { return Ok(plain) };
    let (count, scalar) = [("v2.", 2), ("v4.", 4), ("v8.", 8)]
        .into_iter()
        .find_map(|(prefix, count)| Some((count, text.strip_prefix(prefix)?)))
        .unwrap_or((1, text));
    let bytes = ValueKind::parse(scalar)
        .map(|(_, bytes)| bytes)
        .ok_or_else(|| Unsupported(format!("type `{text}` is unknown")))?;
    match (count, bytes) {
        (count, bytes) if bytes.checked_mul(count) == Some(width) && bytes <= 8 => {
            Ok((bytes, count))
        }
        // A scalar type beside a wider access: as many of them as fit.
        (1, bytes) if matches!(width.checked_div(bytes), Some(2 | 4)) => Ok((bytes, width / bytes)),
        _ => Ok(plain),
    }
}

/// Register operand of `count` elements: `{%v0, %v1}` or `%v0`. Registers `w`
/// have 64 bits, `v` 32 and `h` 16; loads and stores take wider registers than
/// they need, atomics do not.
fn registers(prefix: &str, count: u8, first: u8) -> (String, Vec<String>) {
    let names: Vec<String> = (first..first + count).map(|i| format!("%{prefix}{i}")).collect();
    match count {
        1 => (names[0].clone(), names),
        _ => (format!("{{{}}}", names.join(", ")), names),
    }
}

fn vector(count: u8) -> &'static str {
    match count {
        2 => ".v2",
        4 => ".v4",
        8 => ".v8",
        _ => "",
    }
}

fn cache_operator(cache: CacheOp) -> &'static str {
    match cache {
        CacheOp::Default => "",
        CacheOp::Ca => ".ca",
        CacheOp::Cg => ".cg",
        CacheOp::Cs => ".cs",
        CacheOp::Lu => ".lu",
        CacheOp::Cv => ".cv",
        CacheOp::Wb => ".wb",
        CacheOp::Wt => ".wt",
        CacheOp::Nc => ".nc",
    }
}

/// `.op.type` of an atomic with its register bytes and number of registers, as
/// the PTX ISA manual has them under `atom` and `red`; `None` for what PTX
/// lacks.
fn atomic_form(
    atomic: AtomicOp,
    value: ValueKind,
    width: u8,
    returns: bool,
) -> Option<(String, u8, u8, Needs)> {
    use AtomicOp::{Add, And, Cas, Dec, Exch, Inc, Max, Min, Or, Sub, Xor};
    let (unsigned, signed, bits) = match width {
        2 => ("u16", "s16", "b16"),
        4 => ("u32", "s32", "b32"),
        8 => ("u64", "s64", "b64"),
        _ => ("", "", ""),
    };
    let plain = |op: &str, ty: &str| Some((format!(".{op}.{ty}"), width, 1, BASIC));
    let op = match atomic {
        // Subtraction is the addition of the negative.
        Add | Sub => "add",
        Min => "min",
        Max => "max",
        And => "and",
        Or => "or",
        Xor => "xor",
        Inc => "inc",
        Dec => "dec",
        Exch => "exch",
        Cas => "cas",
    };
    let arithmetic = matches!(atomic, Add | Sub | Min | Max);
    match (value, width) {
        (ValueKind::Bits | ValueKind::Unsigned | ValueKind::Signed, 4 | 8) => match atomic {
            // Two's complement: `add.s64` does not exist and is not needed.
            Add | Sub if width == 8 => plain(op, unsigned),
            Add | Sub | Min | Max if value == ValueKind::Signed => plain(op, signed),
            Add | Sub | Min | Max => plain(op, unsigned),
            And | Or | Xor => plain(op, bits),
            Inc | Dec if width == 4 => plain(op, unsigned),
            Exch | Cas if returns => plain(op, bits),
            _ => None,
        },
        (_, 2 | 4 | 8) if returns && atomic == Cas && !matches!(value, ValueKind::FloatVector) => {
            plain(op, bits)
        }
        (_, 4 | 8) if returns && atomic == Exch && !matches!(value, ValueKind::FloatVector) => {
            plain(op, bits)
        }
        (ValueKind::Float, 4) if matches!(atomic, Add | Sub) => plain("add", "f32"),
        (ValueKind::Float, 8) if matches!(atomic, Add | Sub) => plain("add", "f64"),
        (ValueKind::Half, 2) if matches!(atomic, Add | Sub) => plain("add.noftz", "f16"),
        (ValueKind::Half, 4) if matches!(atomic, Add | Sub) => plain("add.noftz", "f16x2"),
        (ValueKind::BFloat, 2) if matches!(atomic, Add | Sub) => {
            Some((".add.noftz.bf16".into(), 2, 1, ((7, 8), 90)))
        }
        (ValueKind::BFloat, 4) if matches!(atomic, Add | Sub) => {
            Some((".add.noftz.bf16x2".into(), 4, 1, ((7, 8), 90)))
        }
        (ValueKind::FloatVector, 8 | 16) if matches!(atomic, Add | Sub) => {
            let count = width / 4;
            Some((format!(".add{}.f32", vector(count)), 4, count, VECTORS))
        }
        (ValueKind::Half | ValueKind::BFloat, 8 | 16) if arithmetic => {
            let count = width / 4;
            let ty = if value == ValueKind::Half { "f16x2" } else { "bf16x2" };
            Some((format!(".{op}.noftz{}.{ty}", vector(count)), 4, count, VECTORS))
        }
        _ => None,
    }
}

fn instruction(access: &WarpAccess, value_type: Option<&str>) -> Result<Instruction, Unsupported> {
    let Op { kind, space, cache, value } = access.op;
    let width = access.width;
    let space_name = match space {
        Space::Global => "global",
        Space::Shared => "shared",
        Space::Local => "local",
    };
    let wide = |needs: Needs| if width == 32 { ((8, 8), 100) } else { needs };
    match kind {
        OpKind::Load | OpKind::Store => {
            let (bytes, count) = match value {
                // What is left of it when the upper half is not used.
                ValueKind::LowWord => (width / 2, 1),
                _ => elements(width, value_type)?,
            };
            let (operand, names) = registers(if bytes == 8 { "w" } else { "v" }, count, 0);
            let vector = vector(count);
            let cache = cache_operator(cache);
            let ty = format!("b{}", 8 * u32::from(bytes));
            let (text, results) = if kind == OpKind::Load {
                (format!("ld.{space_name}{cache}{vector}.{ty} {operand}, [%a]"), names)
            } else {
                (format!("st.{space_name}{cache}{vector}.{ty} [%a], {operand}"), Vec::new())
            };
            Ok(Instruction { text, after: "", results, needs: wide(BASIC) })
        }
        OpKind::Reduction(atomic) | OpKind::Atomic(atomic) => {
            let returns = matches!(kind, OpKind::Atomic(_));
            let none = || {
                Unsupported(format!(
                    "PTX has no {}.{} of {} with {width} bytes a lane",
                    if returns { "atom" } else { "red" },
                    access.op.atomic_name().unwrap_or("?"),
                    value_type.unwrap_or("this type"),
                ))
            };
            let (form, bytes, count, needs) = atomic_form(atomic, value, width, returns)
                // Vectors of values exist in global memory only.
                .filter(|&(_, _, _, needs)| space == Space::Global || needs != VECTORS)
                .ok_or_else(none)?;
            let prefix = match bytes {
                8 => "w",
                2 => "h",
                _ => "v",
            };
            let (operand, _) = registers(prefix, count, 8);
            if !returns {
                let text = format!("red.{space_name}{form} [%a], {operand}");
                return Ok(Instruction { text, after: "", results: Vec::new(), needs });
            }
            let (result, results) = registers(prefix, count, 0);
            let new_value = match atomic {
                AtomicOp::Cas => format!(", {}", registers(prefix, 1, 9).0),
                _ => String::new(),
            };
            let text = format!("atom.{space_name}{form} {result}, [%a], {operand}{new_value}");
            Ok(Instruction { text, after: "", results, needs })
        }
        OpKind::AsyncCopy if !matches!(width, 4 | 8 | 16) => {
            Err(Unsupported(format!("cp.async copies 4, 8 or 16 bytes a lane, not {width}")))
        }
        OpKind::AsyncCopy => {
            // 4 and 8 bytes exist with `.ca` only (PTX ISA, `cp.async`).
            let operator = if cache == CacheOp::Cg && width == 16 { "cg" } else { "ca" };
            Ok(Instruction {
                text: format!("cp.async.{operator}.shared.global [%s], [%a], {width}"),
                after: "    cp.async.wait_all;\n",
                results: Vec::new(),
                needs: ((7, 0), 80),
            })
        }
    }
}

/// The kernel `entry` that executes `access` once. Its parameters are those of
/// [`WarpArguments`]. `value_type` chooses among instructions of one width
/// (`v2.u64` or `v4.u32`).
///
/// # Errors
/// Where PTX has no such instruction.
pub fn text(
    access: &WarpAccess,
    value_type: Option<&str>,
    entry: &str,
) -> Result<String, Unsupported> {
    let Instruction { text, after, results, needs: ((major, minor), target) } =
        instruction(access, value_type)?;
    let space = access.op.space;
    let copies = access.op.kind == OpKind::AsyncCopy;
    let mut out = format!(".version {major}.{minor}\n.target sm_{target}\n.address_size 64\n");
    if space == Space::Shared || copies {
        out += ".extern .shared .align 16 .b8 window[];\n";
    }
    let shared_parameter =
        if copies { ",\n    .param .align 8 .b8 shared_addresses[256]" } else { "" };
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        ".visible .entry {entry}(\n    .param .align 8 .b8 addresses[256],\n    .param .u32 mask,\n    \
         .param .u32 zero,\n    .param .u64 sink{shared_parameter}\n)\n.reqntid 32, 1, 1\n{{\n    \
         .reg .pred %active, %other, %p;\n    .reg .b32 %lane, %mask, %zero, %bit, %sum, %part;\n    \
         .reg .b16 %h<16>;\n    .reg .b32 %v<16>;\n    .reg .b64 %a, %b, %s, %sink;\n    .reg .b64 %w<16>;\n"
    );
    if space == Space::Local {
        let end = access.active().map(|(_, address)| address).max().unwrap_or(0);
        let bytes = (end + u64::from(access.width)).next_multiple_of(16);
        let _ = writeln!(out, "    .local .align 16 .b8 frame[{bytes}];");
    }
    out += "    mov.u32 %lane, %laneid;\n    ld.param.u32 %mask, [mask];\n    \
            ld.param.u32 %zero, [zero];\n    ld.param.u64 %sink, [sink];\n";
    select(&mut out, "%a", "addresses");
    match space {
        Space::Global => {}
        Space::Shared => out += "    mov.u64 %b, window;\n    add.s64 %a, %a, %b;\n",
        Space::Local => out += "    mov.u64 %b, frame;\n    add.s64 %a, %a, %b;\n",
    }
    if copies {
        select(&mut out, "%s", "shared_addresses");
        out += "    mov.u64 %b, window;\n    add.s64 %s, %s, %b;\n";
    }
    // Operands differ by lane; results of inactive lanes are 0.
    for i in 0..16 {
        let (v, w) = if i < 8 && !results.is_empty() { ("0", "0") } else { ("%lane", "%b") };
        if i == 0 {
            out += "    cvt.u64.u32 %b, %lane;\n";
        }
        let _ = writeln!(
            out,
            "    mov.b32 %v{i}, {v};\n    mov.b64 %w{i}, {w};\n    cvt.u16.u32 %h{i}, %v{i};"
        );
    }
    out += "    shr.u32 %bit, %mask, %lane;\n    and.b32 %bit, %bit, 1;\n    \
            setp.ne.u32 %active, %bit, 0;\n";
    let _ = writeln!(out, "    @%active {text};");
    out += after;
    if !results.is_empty() {
        out += "    mov.b32 %sum, 0;\n";
        for result in &results {
            let widen = match result.as_bytes().get(1) {
                Some(b'w') => "cvt.u32.u64",
                Some(b'h') => "cvt.u32.u16",
                _ => "mov.b32",
            };
            let _ = writeln!(out, "    {widen} %part, {result};");
            out += "    xor.b32 %sum, %sum, %part;\n";
        }
        out += "    and.b32 %sum, %sum, %zero;\n    setp.eq.u32 %p, %sum, 0;\n    \
                @%p bra $end;\n    st.global.u32 [%sink], %sum;\n";
    }
    out += "$end:\n    ret;\n}\n";
    Ok(out)
}

/// Picks the lane's own entry of a parameter array.
fn select(out: &mut String, register: &str, parameter: &str) {
    let _ = writeln!(out, "    ld.param.u64 {register}, [{parameter}];");
    for lane in 1..WARP_LANES {
        let _ = writeln!(
            out,
            "    ld.param.u64 %b, [{parameter}+{}];\n    setp.eq.u32 %other, %lane, {lane};\n    \
             selp.b64 {register}, %b, {register}, %other;",
            8 * lane
        );
    }
}

/// The arguments of a warp's kernel, its memory in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarpArguments {
    /// Address (or shared-memory offset) of each lane; 0 for inactive ones.
    pub addresses: [u64; WARP_LANES],
    /// Whether these are the wanted ones.
    pub exact: bool,
    shared_addresses: Option<[u64; WARP_LANES]>,
    mask: u32,
    shared_bytes: u32,
}

impl WarpArguments {
    /// Puts memory behind the wanted addresses, or behind others that stand to
    /// each other alike (see [`Arena`]). Offsets in shared memory are taken as
    /// they are.
    pub fn place(
        warp: &WarpLaunch,
        device: &mut dyn Device,
        arena: &mut Arena,
    ) -> Result<Self, Error> {
        let lanes = |list: &[u64]| -> Result<[u64; WARP_LANES], Error> {
            list.try_into()
                .map_err(|_| Error::Worker(format!("{} addresses for 32 lanes", list.len())))
        };
        let active = |lane: usize| warp.mask >> lane & 1 == 1;
        let masked = |mut list: [u64; WARP_LANES]| {
            for (lane, address) in list.iter_mut().enumerate() {
                if !active(lane) {
                    *address = 0;
                }
            }
            list
        };
        let wanted = masked(lanes(&warp.addresses)?);
        let shared_addresses = match &warp.shared_addresses {
            Some(list) => Some(masked(lanes(list)?)),
            None => None,
        };
        let (addresses, exact) = match warp.memory {
            WarpMemory::Global => arena.place(device, warp.mask, &wanted)?,
            WarpMemory::Shared | WarpMemory::Local => (wanted, true),
        };
        let window = match warp.memory {
            WarpMemory::Shared => Some(wanted),
            _ => shared_addresses,
        };
        let shared_end = window.iter().flatten().max().map_or(0, |end| end + u64::from(warp.width));
        let most = device.description().shared_bytes_per_block;
        if window.is_some() && shared_end > most {
            return Err(Error::LaunchLimit {
                what: "the end of the shared-memory offsets",
                value: shared_end,
                most,
            });
        }
        let shared_bytes = shared_end.next_multiple_of(16).min(most) as u32;
        Ok(Self { addresses, exact, shared_addresses, mask: warp.mask, shared_bytes })
    }

    /// One warp.
    pub fn shape(&self) -> Shape {
        Shape { grid: [1; 3], block: [32, 1, 1], shared_bytes: self.shared_bytes }
    }

    /// One argument for each parameter of [`text`]'s kernel.
    pub fn values(&self) -> Vec<Argument> {
        let table = |list: &[u64; WARP_LANES]| -> Argument {
            list.iter().flat_map(|address| address.to_le_bytes()).collect()
        };
        let mut values = vec![
            table(&self.addresses),
            self.mask.to_le_bytes().to_vec(),
            0u32.to_le_bytes().to_vec(),
            0u64.to_le_bytes().to_vec(),
        ];
        values.extend(self.shared_addresses.as_ref().map(table));
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fake::FakeDevice;
    use std::collections::{BTreeMap, BTreeSet};

    fn access(op: &str, atomic: Option<&str>, ty: Option<&str>, width: u8) -> WarpAccess {
        let op = Op::parse(op, atomic, ty, width).expect("a known operation");
        let mut access = WarpAccess::new(op, width, [64; 32]);
        if op.kind == OpKind::AsyncCopy {
            access.shared_addresses = Some([0; 32]);
        }
        access
    }

    /// The memory instruction of a text: the one under the mask.
    fn guarded(text: &str) -> &str {
        let line = text.lines().find(|line| line.trim().starts_with("@%active")).expect("one");
        line.trim().trim_start_matches("@%active ").trim_end_matches(';')
    }

    fn emitted(op: &str, atomic: Option<&str>, ty: Option<&str>, width: u8) -> String {
        let text =
            text(&access(op, atomic, ty, width), ty, "coalescope_r000001").expect("a kernel");
        guarded(&text).to_owned()
    }

    #[test]
    fn instructions_are_those_named() {
        assert_eq!(emitted("ld", None, None, 4), "ld.global.b32 %v0, [%a]");
        assert_eq!(emitted("ld.nc", None, None, 1), "ld.global.nc.b8 %v0, [%a]");
        assert_eq!(
            emitted("ld.cg", None, None, 16),
            "ld.global.cg.v4.b32 {%v0, %v1, %v2, %v3}, [%a]"
        );
        assert_eq!(emitted("ld", None, Some("v2.u64"), 16), "ld.global.v2.b64 {%w0, %w1}, [%a]");
        assert_eq!(
            emitted("ld", None, Some("v4.u8"), 4),
            "ld.global.v4.b8 {%v0, %v1, %v2, %v3}, [%a]"
        );
        assert_eq!(emitted("ld", None, Some("f32"), 8), "ld.global.v2.b32 {%v0, %v1}, [%a]");
        assert_eq!(emitted("st.wt", None, None, 8), "st.global.wt.b64 [%a], %w0");
        assert_eq!(emitted("sts", None, None, 2), "st.shared.b16 [%a], %v0");
        assert_eq!(emitted("ldl", None, None, 4), "ld.local.b32 %v0, [%a]");
        assert_eq!(emitted("red", None, None, 4), "red.global.add.u32 [%a], %v8");
        assert_eq!(emitted("red", Some("max"), Some("s64"), 8), "red.global.max.s64 [%a], %w8");
        assert_eq!(
            emitted("atom", Some("cas"), Some("b64"), 8),
            "atom.global.cas.b64 %w0, [%a], %w8, %w9"
        );
        assert_eq!(
            emitted("red", None, Some("v2.f32"), 8),
            "red.global.add.v2.f32 [%a], {%v8, %v9}"
        );
        assert_eq!(emitted("cp.async", None, None, 8), "cp.async.ca.shared.global [%s], [%a], 8");
    }

    #[test]
    fn what_ptx_lacks_is_refused() {
        for (op, atomic, ty, width) in [
            ("red", Some("exch"), None, 4),
            ("red", Some("max"), Some("f32"), 4),
            ("atom", Some("inc"), None, 8),
            ("atom", Some("xor"), Some("f64"), 8),
        ] {
            let access = access(op, atomic, ty, width);
            let error = text(&access, ty, "k").expect_err("PTX has no such instruction");
            assert!(error.to_string().contains("PTX has no"), "{error}");
        }
    }

    /// Every operation, width, atomic and type that has a text.
    fn all_texts() -> Vec<(String, String)> {
        let mut texts = Vec::new();
        let mut add = |op: &str, atomic: Option<&str>, ty: Option<&str>, width: u8| {
            if Op::parse(op, atomic, ty, width).is_err() {
                return;
            }
            if let Ok(made) = text(&access(op, atomic, ty, width), ty, "coalescope_r000001") {
                texts.push((format!("{op} {atomic:?} {ty:?} {width}"), made));
            }
        };
        let types = [
            "b8",
            "u16",
            "b32",
            "b64",
            "u32",
            "s32",
            "u64",
            "s64",
            "f32",
            "f64",
            "f16",
            "f16x2",
            "bf16",
            "bf16x2",
            "v2.f32",
            "v4.f32",
            "v2.f16x2",
            "v4.f16x2",
            "v2.bf16x2",
            "v4.bf16x2",
            "v2.u16",
            "v4.u8",
            "v2.u64",
            "v4.u16",
        ];
        let atomics = ["add", "sub", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas"];
        for op in Op::names() {
            for width in [1, 2, 4, 8, 16] {
                add(op, None, None, width);
                for ty in types {
                    add(op, None, Some(ty), width);
                    for atomic in atomics {
                        add(op, Some(atomic), Some(ty), width);
                    }
                }
            }
        }
        texts
    }

    /// Assembles every text where `ptxas` is there: `$PTXAS`, else on `PATH`.
    #[test]
    fn every_text_assembles() {
        let ptxas = std::env::var_os("PTXAS").unwrap_or_else(|| "ptxas".into());
        if std::process::Command::new(&ptxas).arg("--version").output().is_err() {
            eprintln!("skipped: no ptxas on PATH or in $PTXAS");
            return;
        }
        // One module for each version and target, one kernel for each text that
        // differs in more than its name.
        let mut modules: BTreeMap<String, (BTreeSet<String>, String)> = BTreeMap::new();
        for (name, text) in all_texts() {
            let (header, kernel) = text.split_at(text.find(".visible").expect("an entry"));
            let (seen, module) = modules.entry(header.to_owned()).or_default();
            if seen.insert(kernel.to_owned()) {
                let numbered = kernel.replace("coalescope_r000001", &format!("k{}", seen.len()));
                *module += &format!("// {name}\n{numbered}");
            }
        }
        let folder = tempfile::tempdir().expect("a folder");
        for (header, (_, kernels)) in modules {
            let path = folder.path().join("kernels.ptx");
            std::fs::write(&path, format!("{header}{kernels}")).expect("written");
            let output = std::process::Command::new(&ptxas)
                .args(["-arch=sm_90", "-O0", "-o", "/dev/null"])
                .arg(&path)
                .output()
                .expect("ptxas runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{header}{said}");
        }
    }

    #[test]
    fn arguments_follow_the_parameters() {
        let warp = WarpLaunch {
            ptx: String::new(),
            entry: String::new(),
            mask: 0b101,
            width: 4,
            addresses: (0..32).map(|lane| 0x7f00_0000_0000 + 4 * lane).collect(),
            memory: WarpMemory::Global,
            shared_addresses: Some((0..32).map(|lane| 16 * lane).collect()),
        };
        let (mut device, mut arena) = (FakeDevice::new(), Arena::default());
        let placed = WarpArguments::place(&warp, &mut device, &mut arena).expect("placed");
        assert!(placed.exact);
        assert_eq!(placed.addresses[..4], [0x7f00_0000_0000, 0, 0x7f00_0000_0008, 0]);
        // Lane 2 copies to 32..36.
        assert_eq!(placed.shape().shared_bytes, 48);
        let sizes: Vec<usize> = placed.values().iter().map(Vec::len).collect();
        assert_eq!(sizes, [256, 4, 4, 8, 256]);
    }

    #[test]
    fn shared_offsets_beyond_the_block_s_memory_are_refused() {
        let warp = WarpLaunch {
            ptx: String::new(),
            entry: String::new(),
            mask: 1,
            width: 4,
            addresses: vec![227 << 10; 32],
            memory: WarpMemory::Shared,
            shared_addresses: None,
        };
        let (mut device, mut arena) = (FakeDevice::new(), Arena::default());
        let error = WarpArguments::place(&warp, &mut device, &mut arena).expect_err("too large");
        assert!(matches!(error, Error::LaunchLimit { most: 232_448, .. }), "{error}");
    }
}
