//! What the buffers of a run hold before a launch.

use crate::device::Shape;
use crate::job::{Contents as Wanted, FillKernel, JobArgument};
use ptx::{Parameter, Purpose};
use scenario::program::{
    Access, Axis, BinaryOp, BufferId, Builtin, CompareOp, Expr, ExprKind, Local, LocalId, Program,
    Root, Scalar, Site, SiteId, Stmt, StmtKind, ValueType,
};
use scenario::run::Contents;
use scenario::{Buffer, Diagnostic, Launch, Run, Span};
use simulator::Op;
use std::path::Path;

/// Threads a block of a filling kernel.
const THREADS: u32 = 256;

/// What the job has to put into buffer `index` of a run. Contents from a file
/// are written to `folder`.
///
/// # Errors
/// A sentence: what cannot be computed, or written.
pub(crate) fn wanted(run: &Run, index: usize, folder: &Path) -> Result<Wanted, String> {
    let buffer = &run.buffers[index];
    match &buffer.contents {
        Contents::Unknown => Ok(random(buffer, index)),
        Contents::Listed(values) => {
            let path = folder.join(format!("contents-{index}.bin"));
            let bytes = listed_bytes(buffer, values);
            std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(Wanted::File(path))
        }
        Contents::Computed(expr) => fill_kernel(run, buffer, expr)
            .map(|fill| Wanted::Computed(Box::new(fill)))
            .map_err(|error| format!("the contents of `{}`: {}", buffer.name, error.message)),
    }
}

/// Pseudo-random contents for a buffer whose values nobody knows: floats are
/// between 1 and 2, so that no kernel meets infinities; `bool` is 0 or 1.
fn random(buffer: &Buffer, index: usize) -> Wanted {
    let repeated = |bits: u64, pattern: u64| match bits {
        8 => pattern * 0x0101_0101_0101_0101,
        16 => pattern * 0x0001_0001_0001_0001,
        32 => pattern * 0x0000_0001_0000_0001,
        _ => pattern,
    };
    let (keep, set) = match buffer.scalar {
        Some(Scalar::F64) => (0x000f_ffff_ffff_ffff, 0x3ff0_0000_0000_0000),
        Some(Scalar::F32) => (repeated(32, 0x007f_ffff), repeated(32, 0x3f80_0000)),
        Some(Scalar::F16) => (repeated(16, 0x03ff), repeated(16, 0x3c00)),
        Some(Scalar::BF16) => (repeated(16, 0x007f), repeated(16, 0x3f80)),
        Some(Scalar::Bool) => (repeated(8, 1), 0),
        _ => (u64::MAX, 0),
    };
    // Far apart, so that no two buffers share a stretch of the sequence.
    Wanted::Random { seed: (index as u64 + 1) << 48, keep, set }
}

/// The values in the buffer's own type, rows at their pitch.
fn listed_bytes(buffer: &Buffer, values: &[i64]) -> Vec<u8> {
    let size = buffer.element_bytes.min(8) as usize;
    let columns = buffer.shape.last().copied().unwrap_or(1).max(1) as usize;
    let pitch = buffer.pitch.map_or(columns * size, |pitch| pitch as usize);
    let elements: u64 = buffer.shape.iter().product();
    let mut bytes = vec![0; buffer.bytes as usize];
    for (i, value) in values.iter().take(elements as usize).enumerate() {
        let at = i / columns * pitch + i % columns * size;
        if let Some(place) = bytes.get_mut(at..at + size) {
            place.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
    bytes
}

/// A kernel that computes each element from its index, as the scenario's own
/// kernel would: `if (i < n) buffer[i] = init(i)`, emitted by the same code.
fn fill_kernel(run: &Run, buffer: &Buffer, init: &Expr) -> Result<FillKernel, Box<Diagnostic>> {
    let scalar = buffer.scalar.unwrap_or(Scalar::I64);
    let elements: u64 = buffer.shape.iter().product();
    let columns = buffer.shape.last().copied().unwrap_or(1).max(1);
    let blocks = elements.div_ceil(THREADS.into()).max(1);
    let program = fill_program(buffer, init, scalar, elements, columns);
    let fill = Run {
        launch: Launch {
            grid: [blocks, 1, 1],
            block: [THREADS, 1, 1],
            registers: None,
            dynamic_shared_bytes: 0,
        },
        buffers: vec![Buffer { contents: Contents::Unknown, ..buffer.clone() }],
        program,
        ..run.clone()
    };
    let emitted = ptx::emit(&fill, Purpose::Measure)?;
    let arguments = emitted
        .parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Buffer(_) => JobArgument::Buffer(0),
            Parameter::Sink => JobArgument::Value { bytes: 8, value: 0 },
            Parameter::Results => JobArgument::Results,
        })
        .collect();
    // A helper's name, which no profiler looks for.
    let entry = "coalescope_init".to_owned();
    let ptx = crate::launch::rename_entry(&emitted.text, &emitted.entry, &entry);
    let grid = u32::try_from(blocks).unwrap_or(u32::MAX);
    Ok(FillKernel { ptx, entry, shape: Shape::linear(grid, THREADS), arguments })
}

fn fill_program(
    buffer: &Buffer,
    init: &Expr,
    scalar: Scalar,
    elements: u64,
    columns: u64,
) -> Program {
    let span = init.span;
    let int = ValueType::Int(Scalar::I64);
    let expr = |kind, ty| Expr { kind, ty, span };
    let constant = |value: u64| expr(ExprKind::Const(value as i64), int);
    let binary = |op, a: Expr, b: Expr| {
        let ty = a.ty;
        expr(ExprKind::Binary(op, Box::new(a), Box::new(b)), ty)
    };
    let wide = |builtin| {
        let value = expr(ExprKind::Builtin(builtin), ValueType::Int(Scalar::U32));
        expr(ExprKind::Convert(Box::new(value)), int)
    };
    // Local 0 is `i` in the expression, too.
    let i = || expr(ExprKind::Local(LocalId(0)), int);
    let block = binary(BinaryOp::Mul, wide(Builtin::BlockIdx(Axis::X)), constant(THREADS.into()));
    let index = binary(BinaryOp::Add, block, wide(Builtin::ThreadIdx(Axis::X)));

    let bytes = |index: Expr| binary(BinaryOp::Mul, index, constant(buffer.element_bytes));
    let offset = match buffer.pitch {
        None => bytes(i()),
        Some(pitch) => {
            let row = binary(BinaryOp::Div, i(), constant(columns));
            let column = binary(BinaryOp::Rem, i(), constant(columns));
            let row = binary(BinaryOp::Mul, row, constant(pitch));
            binary(BinaryOp::Add, row, bytes(column))
        }
    };
    let base = expr(ExprKind::BufferBase(BufferId(0)), ValueType::Pointer);
    let value = match init.ty {
        ValueType::Int(ty) if ty == scalar => init.clone(),
        _ => expr(ExprKind::Convert(Box::new(init.clone())), ValueType::Int(scalar)),
    };
    let stmt = |kind| Stmt { kind, span };
    let store = stmt(StmtKind::Access(Access {
        site: SiteId(0),
        address: binary(BinaryOp::Add, base, offset),
        shared_address: None,
        values: vec![value],
        results: Vec::new(),
    }));
    let condition = expr(
        ExprKind::Compare(CompareOp::Lt, Box::new(i()), Box::new(constant(elements))),
        ValueType::Int(Scalar::Bool),
    );
    Program {
        body: vec![
            stmt(StmtKind::Set { local: LocalId(0), value: index }),
            stmt(StmtKind::If { condition, then: vec![store], otherwise: Vec::new() }),
        ],
        sites: vec![fill_site(buffer, scalar, span)],
        locals: vec![Local { name: "i".into(), ty: int }],
        ..Program::default()
    }
}

fn fill_site(buffer: &Buffer, scalar: Scalar, span: Span) -> Site {
    Site {
        label: "init".into(),
        labelled: false,
        op: Op::STORE,
        width: scalar.bytes() as u8,
        element: scalar,
        vector: 1,
        root: Root::Buffer(BufferId(0)),
        shared_root: None,
        span,
        text: format!("{}[i]", buffer.name),
    }
}
