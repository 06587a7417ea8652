//! The launch: its numbers, and the limits that a device would refuse it at.
//!
//! Limits are those of the CUDA C++ Programming Guide, “Technical
//! Specifications per Compute Capability”. Where capabilities differ, the most
//! that any of 7.0–9.0 allows is taken: a scenario is not bound to a device.

use crate::diagnostic::{Diagnostic, Kind};
use crate::document::{self, Extents, Located, Quantity};
use crate::params::Scope;
use crate::program::Program;
use crate::source::{SourceId, Sources, Span};

/// Threads a block.
pub const MAX_THREADS_PER_BLOCK: u64 = 1024;
/// Threads a block along x, y, z.
pub const MAX_BLOCK: [u64; 3] = [1024, 1024, 64];
/// Blocks a grid along x, y, z.
pub const MAX_GRID: [u64; 3] = [(1 << 31) - 1, 65_535, 65_535];
/// Registers a thread.
pub const MAX_REGISTERS_PER_THREAD: u64 = 255;
/// 32-bit registers a block.
pub const MAX_REGISTERS_PER_BLOCK: u64 = 64 * 1024;
/// Registers are given to a warp in portions of this many (CUDA Occupancy
/// Calculator, “register allocation unit size”).
const REGISTER_UNIT: u64 = 256;
/// Bytes of shared memory a block can have: 227 KiB, capability 9.0, by
/// `cudaFuncAttributeMaxDynamicSharedMemorySize` (7.0: 96 KiB, 7.5: 64 KiB,
/// 8.0: 163 KiB, 8.6 and 8.9: 99 KiB).
pub const MAX_SHARED_BYTES: u64 = 227 * 1024;
/// Bytes of statically sized `__shared__` arrays; nvcc refuses more on every
/// architecture.
pub const MAX_STATIC_SHARED_BYTES: u64 = 48 * 1024;

const AXES: [&str; 3] = ["x", "y", "z"];

/// Evaluates `[launch]` and sets `scope.launch` to it. The block is known to
/// the grid's expressions, and both to that of the shared memory.
pub(crate) fn evaluate(
    launch: &Located<document::Launch>,
    scope: &mut Scope<'_>,
    source: SourceId,
    sources: &Sources,
) -> Result<(), Vec<Diagnostic>> {
    let table = launch.span(source);
    let launch = &launch.value;
    let missing = |key: &str, example: &str| {
        Diagnostic::new(
            Kind::Document,
            table,
            format!("the launch has no `{key}`"),
            format!("add `{key} = {example}` to [launch]"),
        )
    };
    let mut errors = Vec::new();
    let block = match &launch.block {
        None => Err(vec![missing("block", "[256]")]),
        Some(block) => block_extents(block, scope, source, sources),
    };
    match block {
        Ok(block) => scope.launch.block = block,
        Err(found) => errors.extend(found),
    }
    match &launch.grid {
        None => errors.push(missing("grid", "[\"(n + 255) / 256\"]")),
        // Without a block, an expression over `blockDim` would be wrong.
        Some(_) if !errors.is_empty() => {}
        Some(grid) => match extents("grid", "blocks", grid, MAX_GRID, scope, source, sources) {
            Ok(grid) => scope.launch.grid = grid,
            Err(found) => errors.extend(found),
        },
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    match registers(launch, scope, source, sources) {
        Ok(registers) => scope.launch.registers = registers,
        Err(error) => errors.push(error),
    }
    match dynamic_shared(launch, scope, source, sources) {
        Ok(bytes) => scope.launch.dynamic_shared_bytes = bytes,
        Err(error) => errors.push(error),
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn block_extents(
    block: &Located<Extents>,
    scope: &Scope<'_>,
    source: SourceId,
    sources: &Sources,
) -> Result<[u32; 3], Vec<Diagnostic>> {
    let size = extents("block", "threads", block, MAX_BLOCK, scope, source, sources)?;
    let threads: u64 = size.iter().product();
    if threads > MAX_THREADS_PER_BLOCK {
        let [x, y, z] = size;
        let product = if z > 1 { format!("{x} × {y} × {z}") } else { format!("{x} × {y}") };
        return Err(vec![
            Diagnostic::new(
                Kind::Limit,
                block.span(source),
                format!(
                    "a block of {product} = {threads} threads is over the limit of \
                     {MAX_THREADS_PER_BLOCK}"
                ),
                "use fewer threads a block, and more blocks",
            )
            .label(format!("{threads} threads")),
        ]);
    }
    // Each is at most 1024.
    Ok(size.map(|n| u32::try_from(n).unwrap_or(u32::MAX)))
}

/// One to three extents, each at least 1 and within its limit; axes that are
/// left out are 1.
fn extents(
    key: &str,
    unit: &str,
    extents: &Located<Extents>,
    limits: [u64; 3],
    scope: &Scope<'_>,
    source: SourceId,
    sources: &Sources,
) -> Result<[u64; 3], Vec<Diagnostic>> {
    let given = &extents.value.0;
    if given.is_empty() || given.len() > 3 {
        return Err(vec![Diagnostic::new(
            Kind::Document,
            extents.span(source),
            format!("`{key}` has {} axes", given.len()),
            format!("give {unit} along x, or x and y, or x, y and z"),
        )]);
    }
    let mut size = [1; 3];
    let mut errors = Vec::new();
    for (axis, quantity) in given.iter().enumerate() {
        if axis == 0 && key == "block" || key == "grid" {
            let names: &[&str] =
                if key == "block" { &["blockDim", "gridDim"] } else { &["gridDim"] };
            if let Quantity::Expr(text) = &quantity.value {
                let code = sources.string(quantity.span(source), text);
                if let Err(error) = scope.refuse_launch(&code, names) {
                    errors.push(error);
                    continue;
                }
            }
        }
        let span = quantity.span(source);
        let limit = limits[axis];
        match scope.number(quantity, source, sources) {
            Err(error) => errors.push(error),
            Ok(n) if n < 1 => errors.push(
                scope.explain(
                    Diagnostic::new(
                        Kind::Limit,
                        span,
                        format!("`{key}` is {n} along {}", AXES[axis]),
                        match &quantity.value {
                            Quantity::Expr(_) => {
                                "a launch has at least one of each; divide by rounding up: \
                             \"(n + 255) / 256\""
                            }
                            Quantity::Int(_) => "a launch has at least one of each",
                        },
                    )
                    .label(format!("{n} {unit}")),
                    quantity,
                ),
            ),
            Ok(n) => match u64::try_from(n) {
                Ok(n) if n <= limit => size[axis] = n,
                _ => errors.push(
                    scope.explain(
                        Diagnostic::new(
                            Kind::Limit,
                            span,
                            format!(
                                "a {key} of {n} {unit} along {} is over the limit of {limit}",
                                AXES[axis]
                            ),
                            match (key, axis) {
                                ("grid", 0) => "give each thread several elements",
                                ("grid", _) => {
                                    "put the long axis on x, which takes 2147483647 blocks"
                                }
                                _ => "use fewer threads a block, and more blocks",
                            },
                        )
                        .label(format!("{n} {unit}")),
                        quantity,
                    ),
                ),
            },
        }
    }
    if errors.is_empty() { Ok(size) } else { Err(errors) }
}

fn registers(
    launch: &document::Launch,
    scope: &Scope<'_>,
    source: SourceId,
    sources: &Sources,
) -> Result<Option<u32>, Diagnostic> {
    let Some(quantity) = &launch.registers else { return Ok(None) };
    let span = quantity.span(source);
    let n = scope.number(quantity, source, sources)?;
    let Some(count) = u64::try_from(n).ok().filter(|n| (1..=MAX_REGISTERS_PER_THREAD).contains(n))
    else {
        return Err(Diagnostic::new(
            Kind::Limit,
            span,
            format!("a thread cannot have {n} registers"),
            format!("a thread has 1 to {MAX_REGISTERS_PER_THREAD}; `ptxas -v` prints how many"),
        ));
    };
    let warps = u64::from(scope.launch.warps_per_block());
    let block = warps * (count * 32).next_multiple_of(REGISTER_UNIT);
    if block > MAX_REGISTERS_PER_BLOCK {
        return Err(Diagnostic::new(
            Kind::Limit,
            span,
            format!(
                "{count} registers a thread are {block} a block, over the limit of \
                 {MAX_REGISTERS_PER_BLOCK}"
            ),
            "use fewer registers a thread, or fewer threads a block",
        )
        .note(format!(
            "{warps} warps × 32 lanes × {count} registers, in portions of {REGISTER_UNIT} a warp"
        )));
    }
    Ok(u32::try_from(count).ok())
}

fn dynamic_shared(
    launch: &document::Launch,
    scope: &Scope<'_>,
    source: SourceId,
    sources: &Sources,
) -> Result<u64, Diagnostic> {
    let Some(quantity) = &launch.dynamic_shared_bytes else { return Ok(0) };
    let n = scope.number(quantity, source, sources)?;
    match u64::try_from(n) {
        Ok(bytes) if bytes <= MAX_SHARED_BYTES => Ok(bytes),
        _ if n < 0 => Err(Diagnostic::new(
            Kind::Limit,
            quantity.span(source),
            format!("{n} bytes of shared memory"),
            "give a number of bytes, 0 or more",
        )),
        _ => Err(over_shared(quantity.span(source), n)),
    }
}

fn over_shared(span: Span, bytes: i128) -> Diagnostic {
    Diagnostic::new(
        Kind::Limit,
        span,
        format!("{bytes} bytes of shared memory a block are over the limit of {MAX_SHARED_BYTES}"),
        "use a smaller tile",
    )
    .note("227 KiB is the most of any device up to compute capability 9.0")
}

/// Refuses a kernel whose shared memory, static and dynamic, is over the
/// limit; the scope's launch is that of the kernel.
pub(crate) fn check_shared(
    program: &Program,
    launch: &Located<document::Launch>,
    dynamic_bytes: u64,
    source: SourceId,
) -> Result<(), Diagnostic> {
    if program.shared_bytes <= MAX_SHARED_BYTES {
        return Ok(());
    }
    let span = match &launch.value.dynamic_shared_bytes {
        Some(quantity) => quantity.span(source),
        None => launch.span(source),
    };
    let fixed = program.shared_bytes.saturating_sub(dynamic_bytes);
    Err(over_shared(span, i128::from(program.shared_bytes))
        .note(format!("{fixed} bytes of `__shared__` arrays, and {dynamic_bytes} dynamic")))
}
