//! Typed programs by hand, each expression and statement at a place of its own.

use coalescope_scenario::program::*;
use coalescope_scenario::run::{Contents, KernelText, Memory};
use coalescope_scenario::types::{StructTable, Type};
use coalescope_scenario::{Buffer, Launch, Run, SourceId, Sources, Span};
use simulator::{Op, OpKind, Space};
use std::cell::Cell;
use std::sync::Arc;

pub(crate) const I32: ValueType = ValueType::Int(Scalar::I32);
pub(crate) const U32: ValueType = ValueType::Int(Scalar::U32);
pub(crate) const I64: ValueType = ValueType::Int(Scalar::I64);
pub(crate) const BOOL: ValueType = ValueType::Int(Scalar::Bool);

thread_local! {
    static PLACES: Cell<u32> = const { Cell::new(0) };
}

/// A place that nothing else has.
pub(crate) fn place() -> Span {
    let start = PLACES.get() + 1;
    PLACES.set(start);
    Span::new(SourceId(0), start, start + 1)
}

pub(crate) fn expr(ty: ValueType, kind: ExprKind) -> Expr {
    Expr { kind, ty, span: place() }
}

pub(crate) fn stmt(kind: StmtKind) -> Stmt {
    Stmt { kind, span: place() }
}

pub(crate) fn constant(ty: ValueType, value: i64) -> Expr {
    expr(ty, ExprKind::Const(value))
}

pub(crate) fn int(value: i64) -> Expr {
    constant(I32, value)
}

pub(crate) fn long(value: i64) -> Expr {
    constant(I64, value)
}

pub(crate) fn thread(axis: Axis) -> Expr {
    expr(U32, ExprKind::Builtin(Builtin::ThreadIdx(axis)))
}

pub(crate) fn block(axis: Axis) -> Expr {
    expr(U32, ExprKind::Builtin(Builtin::BlockIdx(axis)))
}

pub(crate) fn local(ty: ValueType, id: usize) -> Expr {
    expr(ty, ExprKind::Local(LocalId(id)))
}

pub(crate) fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    expr(a.ty, ExprKind::Binary(op, Box::new(a), Box::new(b)))
}

pub(crate) fn compare(op: CompareOp, a: Expr, b: Expr) -> Expr {
    expr(BOOL, ExprKind::Compare(op, Box::new(a), Box::new(b)))
}

pub(crate) fn convert(ty: ValueType, a: Expr) -> Expr {
    if a.ty == ty { a } else { expr(ty, ExprKind::Convert(Box::new(a))) }
}

pub(crate) fn add(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Add, a, b)
}

pub(crate) fn mul(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Mul, a, b)
}

pub(crate) fn less(a: Expr, b: Expr) -> Expr {
    compare(CompareOp::Lt, a, b)
}

pub(crate) fn set(id: usize, value: Expr) -> Stmt {
    stmt(StmtKind::Set { local: LocalId(id), value })
}

pub(crate) fn when(condition: Expr, then: Vec<Stmt>) -> Stmt {
    stmt(StmtKind::If { condition, then, otherwise: Vec::new() })
}

/// `for (; condition; step) body`
pub(crate) fn looped(condition: Expr, body: Vec<Stmt>, step: Vec<Stmt>) -> Stmt {
    stmt(StmtKind::Loop { header: Vec::new(), condition, body, step, test_first: true })
}

/// `blockIdx.x * blockDim.x + threadIdx.x`, unsigned.
pub(crate) fn linear(block_dim: u32) -> Expr {
    add(mul(block(Axis::X), constant(U32, block_dim.into())), thread(Axis::X))
}

/// Address of element `index` (`I64`) of a root.
pub(crate) fn element(root: Root, bytes: i64, index: Expr) -> Expr {
    let base = match root {
        Root::Shared(id) => ExprKind::SharedBase(id),
        Root::Buffer(id) => ExprKind::BufferBase(id),
        Root::AnyBuffer => ExprKind::BufferBase(BufferId(0)),
    };
    let offset = mul(convert(I64, index), long(bytes));
    let base = expr(ValueType::Pointer, base);
    expr(ValueType::Pointer, ExprKind::Binary(BinaryOp::Add, Box::new(base), Box::new(offset)))
}

/// A run under construction.
pub(crate) struct Builder {
    pub(crate) run: Run,
}

impl Builder {
    pub(crate) fn new(grid: [u64; 3], block: [u32; 3]) -> Self {
        let mut sources = Sources::default();
        sources.add("case.toml", " ".repeat(4096));
        Self {
            run: Run {
                scenario: "case".to_owned(),
                title: String::new(),
                variant: None,
                params: Vec::new(),
                swept: Vec::new(),
                launch: Launch { grid, block, registers: None, dynamic_shared_bytes: 0 },
                buffers: Vec::new(),
                structs: StructTable::default(),
                program: Program::default(),
                allows: Vec::new(),
                claims: Vec::new(),
                sources: Arc::new(sources),
                kernel: KernelText {
                    structs: String::new(),
                    code: "".into(),
                    entry: None,
                    parameters: Vec::new(),
                    arguments: Vec::new(),
                },
            },
        }
    }

    pub(crate) fn buffer(
        &mut self,
        name: &str,
        scalar: Scalar,
        len: u64,
        contents: Contents,
    ) -> Root {
        let id = BufferId(self.run.buffers.len());
        self.run.buffers.push(Buffer {
            name: name.to_owned(),
            type_name: format!("{scalar:?}"),
            ty: Type::Scalar(scalar),
            element_bytes: scalar.bytes(),
            scalar: Some(scalar),
            shape: vec![len],
            pitch: None,
            offset_bytes: 0,
            bytes: len * scalar.bytes(),
            memory: Memory::Device,
            contents,
            span: place(),
        });
        Root::Buffer(id)
    }

    pub(crate) fn shared(&mut self, name: &str, scalar: Scalar, len: u64) -> Root {
        let id = SharedId(self.run.program.shared.len());
        let offset = self.run.program.shared_bytes;
        self.run.program.shared.push(SharedArray {
            name: name.to_owned(),
            offset,
            bytes: len * scalar.bytes(),
            shape: vec![len],
            element_bytes: scalar.bytes(),
            integer: (!scalar.is_float()).then_some(scalar),
        });
        self.run.program.shared_bytes = (offset + len * scalar.bytes()).next_multiple_of(8);
        Root::Shared(id)
    }

    pub(crate) fn local(&mut self, ty: ValueType) -> usize {
        let id = self.run.program.locals.len();
        self.run.program.locals.push(Local { name: format!("v{id}"), ty });
        id
    }

    pub(crate) fn site(&mut self, kind: OpKind, root: Root, element: Scalar, vector: u8) -> SiteId {
        let space = if matches!(root, Root::Shared(_)) { Space::Shared } else { Space::Global };
        let id = SiteId(self.run.program.sites.len());
        self.run.program.sites.push(Site {
            label: format!("site{}", id.0),
            labelled: false,
            op: Op::plain(kind, space),
            width: element.bytes() as u8 * vector,
            element,
            vector,
            root,
            shared_root: None,
            span: place(),
            text: String::new(),
        });
        id
    }

    /// A load or store of one element whose value nobody needs.
    pub(crate) fn access(&mut self, kind: OpKind, root: Root, scalar: Scalar, index: Expr) -> Stmt {
        let site = self.site(kind, root, scalar, 1);
        stmt(StmtKind::Access(Access {
            site,
            address: element(root, scalar.bytes() as i64, index),
            shared_address: None,
            values: Vec::new(),
            results: Vec::new(),
        }))
    }

    /// A load of one integer into a local.
    pub(crate) fn load_into(&mut self, to: usize, root: Root, scalar: Scalar, index: Expr) -> Stmt {
        let mut access = self.access(OpKind::Load, root, scalar, index);
        if let StmtKind::Access(access) = &mut access.kind {
            access.results.push(LocalId(to));
        }
        access
    }

    /// A store of one integer.
    pub(crate) fn store_of(
        &mut self,
        root: Root,
        scalar: Scalar,
        index: Expr,
        value: Expr,
    ) -> Stmt {
        let mut access = self.access(OpKind::Store, root, scalar, index);
        if let StmtKind::Access(access) = &mut access.kind {
            access.values.push(value);
        }
        access
    }

    pub(crate) fn body(mut self, body: Vec<Stmt>) -> Run {
        self.run.program.body = body;
        self.run
    }
}
