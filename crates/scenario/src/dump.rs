//! The typed program as text, for people and for tests.
//!
//! One statement a line. Conversions are written as calls (`i64(x)`), constants
//! with the suffix of their type (`1u`, `1l`, `1ul`), the start of a buffer or
//! shared array as `&name`. An access names its site, operation, element and
//! address: `#0 ld.f32x4 [&in + i64(i) * 16]`.

use crate::program::{
    Access, Axis, BinaryOp, Block, Builtin, CompareOp, Expr, ExprKind, Intrinsic, LocalArrayId,
    LocalId, OpaqueReason, Program, Scalar, Site, Stmt, StmtKind, ValueType,
};
use crate::run::Buffer;
use simulator::{AtomicOp, CacheOp, OpKind, Space};
use std::fmt::Write as _;

/// Prints a program.
pub fn dump(program: &Program, buffers: &[Buffer]) -> String {
    let mut printer = Printer { program, buffers, text: String::new() };
    for shared in &program.shared {
        let _ = writeln!(
            printer.text,
            "shared {} at {}, {} bytes",
            shared.name, shared.offset, shared.bytes
        );
    }
    for array in &program.local_arrays {
        let element = match array.element {
            Some(ty) => type_name(ty),
            None => "float",
        };
        let _ = writeln!(printer.text, "array {}: {element}[{}]", array.name, array.len);
    }
    printer.block(&program.body, 0);
    printer.text
}

struct Printer<'a> {
    program: &'a Program,
    buffers: &'a [Buffer],
    text: String,
}

impl Printer<'_> {
    fn block(&mut self, block: &Block, depth: usize) {
        for stmt in block {
            self.stmt(stmt, depth);
        }
    }

    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.text, "{:indent$}{text}", "", indent = 2 * depth);
    }

    fn stmt(&mut self, stmt: &Stmt, depth: usize) {
        match &stmt.kind {
            StmtKind::Set { local, value } => {
                let text = format!("{} = {}", self.local(*local), self.expr(value));
                self.line(depth, &text);
            }
            StmtKind::SetElement { array, index, value } => {
                let value = value.as_ref().map_or_else(|| "?".to_owned(), |v| self.expr(v));
                let text = format!("{}[{}] = {value}", self.array(*array), self.expr(index));
                self.line(depth, &text);
            }
            StmtKind::Access(access) => {
                let text = self.access(access);
                self.line(depth, &text);
            }
            StmtKind::If { condition, then, otherwise } => {
                let text = format!("if {} {{", self.expr(condition));
                self.line(depth, &text);
                self.block(then, depth + 1);
                if !otherwise.is_empty() {
                    self.line(depth, "} else {");
                    self.block(otherwise, depth + 1);
                }
                self.line(depth, "}");
            }
            StmtKind::Loop { header, condition, body, step, test_first } => {
                let keyword = if *test_first { "while" } else { "do while" };
                if header.is_empty() {
                    let text = format!("{keyword} {} {{", self.expr(condition));
                    self.line(depth, &text);
                } else {
                    self.line(depth, &format!("{keyword} {{"));
                    self.block(header, depth + 1);
                    let text = format!("}} {} {{", self.expr(condition));
                    self.line(depth, &text);
                }
                self.block(body, depth + 1);
                if !step.is_empty() {
                    self.line(depth, "} step {");
                    self.block(step, depth + 1);
                }
                self.line(depth, "}");
            }
            StmtKind::Call { body } => {
                self.line(depth, "call {");
                self.block(body, depth + 1);
                self.line(depth, "}");
            }
            StmtKind::Break => self.line(depth, "break"),
            StmtKind::Continue => self.line(depth, "continue"),
            StmtKind::Return => self.line(depth, "return"),
            StmtKind::Barrier => self.line(depth, "barrier"),
        }
    }

    fn access(&self, access: &Access) -> String {
        let mut text = String::new();
        if !access.results.is_empty() {
            let results: Vec<_> = access.results.iter().map(|local| self.local(*local)).collect();
            text.push_str(&format!("{} = ", results.join(", ")));
        }
        let site = self.program.sites.get(access.site.0);
        let op = site.map_or_else(|| "?".to_owned(), operation);
        text.push_str(&format!("#{} {op} [{}]", access.site.0, self.expr(&access.address)));
        if let Some(shared) = &access.shared_address {
            text.push_str(&format!(" to [{}]", self.expr(shared)));
        }
        if !access.values.is_empty() {
            let values: Vec<_> = access.values.iter().map(|value| self.expr(value)).collect();
            text.push_str(&format!(" = {}", values.join(", ")));
        }
        text
    }

    fn local(&self, id: LocalId) -> String {
        let name = self.program.locals.get(id.0).map_or("", |local| local.name.as_str());
        let plain =
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
        let twins = self.program.locals.iter().filter(|local| local.name == name).count();
        match (plain, twins) {
            (true, 1) => name.to_owned(),
            (true, _) => format!("{name}%{}", id.0),
            (false, _) => format!("%{}", id.0),
        }
    }

    fn array(&self, id: LocalArrayId) -> &str {
        self.program.local_arrays.get(id.0).map_or("?", |array| array.name.as_str())
    }

    fn expr(&self, expr: &Expr) -> String {
        self.expr_at(expr, 0)
    }

    /// Prints an expression; in parentheses where it binds less than `level`.
    fn expr_at(&self, expr: &Expr, level: u8) -> String {
        let (text, own) = match &expr.kind {
            ExprKind::Const(value) => (constant(expr.ty, *value), 20),
            ExprKind::Opaque(reason) => (opaque(reason), 20),
            ExprKind::Builtin(builtin) => {
                let (name, axis) = match builtin {
                    Builtin::ThreadIdx(axis) => ("threadIdx", axis),
                    Builtin::BlockIdx(axis) => ("blockIdx", axis),
                };
                let axis = match axis {
                    Axis::X => "x",
                    Axis::Y => "y",
                    Axis::Z => "z",
                };
                (format!("{name}.{axis}"), 20)
            }
            ExprKind::Local(local) => (self.local(*local), 20),
            ExprKind::Element(array, index) => {
                (format!("{}[{}]", self.array(*array), self.expr(index)), 20)
            }
            ExprKind::BufferBase(id) => {
                let name = self.buffers.get(id.0).map_or("?", |buffer| buffer.name.as_str());
                (format!("&{name}"), 20)
            }
            ExprKind::SharedBase(id) => {
                let name = self.program.shared.get(id.0).map_or("?", |array| array.name.as_str());
                (format!("&{name}"), 20)
            }
            ExprKind::Neg(inner) => (format!("-{}", self.expr_at(inner, 12)), 12),
            ExprKind::Not(inner) => (format!("~{}", self.expr_at(inner, 12)), 12),
            ExprKind::LogicalNot(inner) => (format!("!{}", self.expr_at(inner, 12)), 12),
            ExprKind::Binary(op, left, right) => {
                let (symbol, own) = binary(*op);
                let (left, right) = (self.expr_at(left, own), self.expr_at(right, own + 1));
                (format!("{left} {symbol} {right}"), own)
            }
            ExprKind::Compare(op, left, right) => {
                let (left, right) = (self.expr_at(left, 8), self.expr_at(right, 8));
                (format!("{left} {} {right}", comparison(*op)), 7)
            }
            ExprKind::LogicalAnd(left, right) => {
                (format!("{} && {}", self.expr_at(left, 3), self.expr_at(right, 3)), 3)
            }
            ExprKind::LogicalOr(left, right) => {
                (format!("{} || {}", self.expr_at(left, 2), self.expr_at(right, 2)), 2)
            }
            ExprKind::Select(condition, then, otherwise) => (
                format!(
                    "{} ? {} : {}",
                    self.expr_at(condition, 2),
                    self.expr_at(then, 2),
                    self.expr_at(otherwise, 1)
                ),
                1,
            ),
            ExprKind::Convert(inner) => {
                (format!("{}({})", type_name(expr.ty), self.expr(inner)), 20)
            }
            ExprKind::Call(function, operands) => {
                let operands: Vec<_> = operands.iter().map(|operand| self.expr(operand)).collect();
                (format!("{}({})", intrinsic(*function), operands.join(", ")), 20)
            }
            ExprKind::CheckedIndex { index, extent, .. } => {
                (format!("within({}, {extent})", self.expr(index)), 20)
            }
        };
        if own < level { format!("({text})") } else { text }
    }
}

fn type_name(ty: ValueType) -> &'static str {
    match ty {
        ValueType::Pointer => "pointer",
        ValueType::Int(scalar) => scalar_name(scalar),
    }
}

fn scalar_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::I8 => "i8",
        Scalar::U8 => "u8",
        Scalar::I16 => "i16",
        Scalar::U16 => "u16",
        Scalar::I32 => "i32",
        Scalar::U32 => "u32",
        Scalar::I64 => "i64",
        Scalar::U64 => "u64",
        Scalar::F16 => "f16",
        Scalar::BF16 => "bf16",
        Scalar::F32 => "f32",
        Scalar::F64 => "f64",
    }
}

fn constant(ty: ValueType, value: i64) -> String {
    match ty {
        ValueType::Int(Scalar::Bool) => (value != 0).to_string(),
        ValueType::Int(Scalar::I32) => value.to_string(),
        ValueType::Int(Scalar::U32) => format!("{value}u"),
        ValueType::Int(Scalar::I64) => format!("{value}l"),
        ValueType::Int(Scalar::U64) => format!("{}ul", value as u64),
        ty => format!("{}({value})", type_name(ty)),
    }
}

fn opaque(reason: &OpaqueReason) -> String {
    match reason {
        OpaqueReason::Float => "?float".to_owned(),
        OpaqueReason::NoContents(name) => format!("?{name}"),
        OpaqueReason::Written(name) => format!("?written({name})"),
        OpaqueReason::AtomicResult => "?atomic".to_owned(),
        OpaqueReason::Uninitialised(name) => format!("?uninitialised({name})"),
    }
}

fn binary(op: BinaryOp) -> (&'static str, u8) {
    match op {
        BinaryOp::Mul => ("*", 11),
        BinaryOp::Div => ("/", 11),
        BinaryOp::Rem => ("%", 11),
        BinaryOp::Add => ("+", 10),
        BinaryOp::Sub => ("-", 10),
        BinaryOp::Shl => ("<<", 9),
        BinaryOp::Shr => (">>", 9),
        BinaryOp::And => ("&", 6),
        BinaryOp::Xor => ("^", 5),
        BinaryOp::Or => ("|", 4),
    }
}

fn comparison(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    }
}

fn intrinsic(function: Intrinsic) -> &'static str {
    match function {
        Intrinsic::Hash => "hash",
        Intrinsic::Hash64 => "hash64",
        Intrinsic::Min => "min",
        Intrinsic::Max => "max",
        Intrinsic::Abs => "abs",
        Intrinsic::Popc => "popc",
        Intrinsic::Clz => "clz",
        Intrinsic::Ffs => "ffs",
        Intrinsic::Brev => "brev",
    }
}

/// Operation and element of a site: `ld.cg.f32x4`, `sts.u32`, `red.add.s32`.
fn operation(site: &Site) -> String {
    let shared = site.op.space == Space::Shared;
    let mut text = match site.op.kind {
        OpKind::Load => if shared { "lds" } else { "ld" }.to_owned(),
        OpKind::Store => if shared { "sts" } else { "st" }.to_owned(),
        OpKind::Reduction(op) => format!("red{}.{}", shared_suffix(shared), atomic(op)),
        OpKind::Atomic(op) => format!("atom{}.{}", shared_suffix(shared), atomic(op)),
        OpKind::AsyncCopy => "cp.async".to_owned(),
    };
    text.push_str(match site.op.cache {
        CacheOp::Default => "",
        CacheOp::Ca => ".ca",
        CacheOp::Cg => ".cg",
        CacheOp::Cs => ".cs",
        CacheOp::Lu => ".lu",
        CacheOp::Cv => ".cv",
        CacheOp::Wb => ".wb",
        CacheOp::Wt => ".wt",
        CacheOp::Nc => ".nc",
    });
    text.push('.');
    text.push_str(scalar_name(site.element));
    if site.vector > 1 {
        let _ = write!(text, "x{}", site.vector);
    }
    text
}

fn shared_suffix(shared: bool) -> &'static str {
    if shared { ".shared" } else { "" }
}

fn atomic(op: AtomicOp) -> &'static str {
    match op {
        AtomicOp::Add => "add",
        AtomicOp::Sub => "sub",
        AtomicOp::Min => "min",
        AtomicOp::Max => "max",
        AtomicOp::And => "and",
        AtomicOp::Or => "or",
        AtomicOp::Xor => "xor",
        AtomicOp::Inc => "inc",
        AtomicOp::Dec => "dec",
        AtomicOp::Exch => "exch",
        AtomicOp::Cas => "cas",
    }
}
