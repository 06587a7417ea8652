//! Small programs made by hand, for tests.

use scenario::program::*;
use scenario::run::{Contents, KernelText, Memory, ParamValue};
use scenario::source::{SourceId, Sources, Span};
use scenario::types::{StructTable, Type};
use scenario::{Buffer, Launch, Run};
use simulator::Op;
use std::sync::Arc;

pub(crate) const SPAN: Span = Span::new(SourceId(0), 0, 1);
pub(crate) const I32: ValueType = ValueType::Int(Scalar::I32);
pub(crate) const U32: ValueType = ValueType::Int(Scalar::U32);
pub(crate) const I64: ValueType = ValueType::Int(Scalar::I64);
pub(crate) const BOOL: ValueType = ValueType::Int(Scalar::Bool);

pub(crate) fn expr(kind: ExprKind, ty: ValueType) -> Expr {
    Expr { kind, ty, span: SPAN }
}

pub(crate) fn number(value: i64, ty: ValueType) -> Expr {
    expr(ExprKind::Const(value), ty)
}

pub(crate) fn local(id: usize, ty: ValueType) -> Expr {
    expr(ExprKind::Local(LocalId(id)), ty)
}

pub(crate) fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    let ty = a.ty;
    expr(ExprKind::Binary(op, Box::new(a), Box::new(b)), ty)
}

pub(crate) fn compare(op: CompareOp, a: Expr, b: Expr) -> Expr {
    expr(ExprKind::Compare(op, Box::new(a), Box::new(b)), BOOL)
}

pub(crate) fn convert(a: Expr, ty: ValueType) -> Expr {
    expr(ExprKind::Convert(Box::new(a)), ty)
}

/// `blockIdx.x * blockDim.x + threadIdx.x` as an `int`.
pub(crate) fn thread(block: i64) -> Expr {
    let block_index = expr(ExprKind::Builtin(Builtin::BlockIdx(Axis::X)), U32);
    let thread_index = expr(ExprKind::Builtin(Builtin::ThreadIdx(Axis::X)), U32);
    convert(
        binary(BinaryOp::Add, binary(BinaryOp::Mul, block_index, number(block, U32)), thread_index),
        I32,
    )
}

/// `&buffer[index]` of elements of `bytes`.
pub(crate) fn at(buffer: usize, index: Expr, bytes: i64) -> Expr {
    let base = expr(ExprKind::BufferBase(BufferId(buffer)), ValueType::Pointer);
    let offset = binary(BinaryOp::Mul, convert(index, I64), number(bytes, I64));
    expr(ExprKind::Binary(BinaryOp::Add, Box::new(base), Box::new(offset)), ValueType::Pointer)
}

pub(crate) fn stmt(kind: StmtKind) -> Stmt {
    Stmt { kind, span: SPAN }
}

pub(crate) fn set(id: usize, value: Expr) -> Stmt {
    stmt(StmtKind::Set { local: LocalId(id), value })
}

pub(crate) fn access(site: usize, address: Expr) -> Access {
    Access {
        site: SiteId(site),
        address,
        shared_address: None,
        values: Vec::new(),
        results: Vec::new(),
    }
}

pub(crate) fn site(label: &str, op: Op, element: Scalar, vector: u8, root: Root) -> Site {
    Site {
        label: label.to_owned(),
        labelled: false,
        op,
        width: element.bytes() as u8 * vector,
        element,
        vector,
        root,
        shared_root: None,
        span: SPAN,
        text: label.to_owned(),
    }
}

pub(crate) fn variable(name: &str, ty: ValueType) -> Local {
    Local { name: name.to_owned(), ty }
}

pub(crate) fn buffer(name: &str, scalar: Scalar, type_name: &str, len: u64) -> Buffer {
    Buffer {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        ty: Type::Scalar(scalar),
        element_bytes: scalar.bytes(),
        scalar: Some(scalar),
        shape: vec![len],
        pitch: None,
        offset_bytes: 0,
        bytes: scalar.bytes() * len,
        memory: Memory::Device,
        contents: Contents::Unknown,
        span: SPAN,
    }
}

pub(crate) fn run(program: Program, buffers: Vec<Buffer>, code: &str) -> Run {
    let mut sources = Sources::default();
    sources.add("hand.toml", code);
    Run {
        scenario: "hand".to_owned(),
        title: "Made by hand".to_owned(),
        variant: None,
        params: vec![("n".to_owned(), ParamValue { ty: Scalar::I32, value: 1000 })],
        swept: Vec::new(),
        launch: Launch {
            grid: [4, 1, 1],
            block: [256, 1, 1],
            registers: None,
            dynamic_shared_bytes: 0,
        },
        buffers,
        structs: StructTable::default(),
        program,
        allows: Vec::new(),
        claims: Vec::new(),
        sources: Arc::new(sources),
        kernel: KernelText {
            structs: String::new(),
            code: code.into(),
            entry: None,
            parameters: Vec::new(),
            arguments: Vec::new(),
        },
    }
}

/// `int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = in[i];`
pub(crate) fn copy() -> Run {
    let i = || local(0, I32);
    let program = Program {
        sites: vec![
            site("in[i]", Op::LOAD, Scalar::F32, 1, Root::Buffer(BufferId(0))),
            site("out[i]", Op::STORE, Scalar::F32, 1, Root::Buffer(BufferId(1))),
        ],
        locals: vec![variable("i", I32)],
        body: vec![
            set(0, thread(256)),
            stmt(StmtKind::If {
                condition: compare(CompareOp::Lt, i(), number(1000, I32)),
                then: vec![
                    stmt(StmtKind::Access(access(0, at(0, i(), 4)))),
                    stmt(StmtKind::Access(access(1, at(1, i(), 4)))),
                ],
                otherwise: Vec::new(),
            }),
        ],
        ..Program::default()
    };
    run(
        program,
        vec![buffer("in", Scalar::F32, "float", 1000), buffer("out", Scalar::F32, "float", 1000)],
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n) out[i] = in[i];\n",
    )
}
