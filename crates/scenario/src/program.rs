//! The typed program: what a kernel means, once every name, type and
//! conversion is settled.
//!
//! One program is made for each run (scenario × variant × sweep point), with
//! the run's parameters and launch as constants. The evaluator
//! (`eval`), the extraction of affine accesses and the `ptx` crate all
//! walk this one tree.
//!
//! - Expressions are **pure**: integers, booleans and pointers only. Values
//!   that come from floating-point arithmetic or from memory whose contents
//!   are not given are [`ExprKind::Opaque`].
//! - Everything that touches memory is a statement, [`StmtKind::Access`], in
//!   the order C evaluates it. A load's result goes to a local.
//! - `&&`, `||` and `?:` keep C's short circuit: the right operand is evaluated
//!   under the mask of the lanes that need it. Where an operand contains a
//!   memory access, lowering turns the operator into [`StmtKind::If`].

use crate::source::Span;
use simulator::Op;

/// An element type of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the types
pub enum Scalar {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    BF16,
    F32,
    F64,
}

impl Scalar {
    /// Size and natural alignment in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether values of this type are floating point, hence opaque.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// Whether values of this type are signed integers.
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }
}

/// Type of an expression's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// An integer or `bool`; never a floating-point scalar. Arithmetic happens
    /// in `I32`, `U32`, `I64` and `U64` only, the narrow ones are results of
    /// conversions.
    Int(Scalar),
    /// An address: virtual in global memory, an offset in shared memory. What
    /// it points to, and the space, were settled by lowering.
    Pointer,
}

/// Index of a buffer in [`Run::buffers`](crate::Run::buffers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub usize);
/// Index into [`Program::shared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharedId(pub usize);
/// Index into [`Program::locals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalId(pub usize);
/// Index into [`Program::local_arrays`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalArrayId(pub usize);
/// Index into [`Program::sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub usize);

/// The three axes of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Axis {
    X,
    Y,
    Z,
}

/// Values that differ between threads; `blockDim`, `gridDim` and `warpSize` are
/// constants of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// `threadIdx`
    ThreadIdx(Axis),
    /// `blockIdx`
    BlockIdx(Axis),
}

/// A kernel of one run.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The statements of the kernel.
    pub body: Block,
    /// Every load, store and atomic in the source, in order of appearance.
    pub sites: Vec<Site>,
    /// Scalar variables and temporaries.
    pub locals: Vec<Local>,
    /// Arrays that each thread has for itself.
    pub local_arrays: Vec<LocalArray>,
    /// `__shared__` arrays, with their place in the block's window.
    pub shared: Vec<SharedArray>,
    /// Bytes of shared memory a block uses: static and dynamic.
    pub shared_bytes: u64,
}

/// A sequence of statements.
pub type Block = Vec<Stmt>;

/// A scalar variable of each thread.
#[derive(Clone, Debug)]
pub struct Local {
    /// Name in the source; temporaries have the text of what they hold.
    pub name: String,
    /// Its type.
    pub ty: ValueType,
}

/// An array of each thread, held in registers (an index that is not the same
/// for all threads at a place is refused by lowering as not modelled: it would
/// live in local memory).
#[derive(Clone, Debug)]
pub struct LocalArray {
    /// Name in the source.
    pub name: String,
    /// Type of an element; arrays of floats have none, their elements are
    /// opaque.
    pub element: Option<ValueType>,
    /// Elements.
    pub len: u64,
}

/// A `__shared__` array, or the dynamic (`extern`) one.
#[derive(Clone, Debug)]
pub struct SharedArray {
    /// Name in the source.
    pub name: String,
    /// Offset in the block's shared window, bytes.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Elements along each axis, outermost first, as it is declared.
    pub shape: Vec<u64>,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Bytes of one scalar element when all elements are one integer type and
    /// contents are therefore tracked; `None` for floats and structs.
    pub integer: Option<Scalar>,
}

/// What an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// A buffer of the scenario.
    Buffer(BufferId),
    /// A shared array.
    Shared(SharedId),
    /// A pointer that may have come from several buffers: the address is
    /// looked up among all of them.
    AnyBuffer,
}

/// One place in the source that touches memory.
#[derive(Clone, Debug)]
pub struct Site {
    /// `// @label name` where one was given, else made from the source text;
    /// unique in the program.
    pub label: String,
    /// Whether the author gave the label.
    pub labelled: bool,
    /// The operation; its space is the place's.
    pub op: Op,
    /// Bytes a lane: 1, 2, 4, 8, 16 or 32.
    pub width: u8,
    /// The scalar that is moved.
    pub element: Scalar,
    /// How many scalars a lane moves: 1, 2 or 4 (8 for 256-bit accesses).
    pub vector: u8,
    /// Where the address points.
    pub root: Root,
    /// For asynchronous copies: the shared array written.
    pub shared_root: Option<SharedId>,
    /// The access in the source.
    pub span: Span,
    /// Its text, white space folded.
    pub text: String,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Where it stands.
    pub span: Span,
}

/// What a statement does.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `local = value`
    Set {
        /// Assigned variable.
        local: LocalId,
        /// New value, of the local's type.
        value: Expr,
    },
    /// `array[index] = value`; `value` is `None` for opaque elements.
    SetElement {
        /// Assigned array.
        array: LocalArrayId,
        /// Element.
        index: Expr,
        /// New value.
        value: Option<Expr>,
    },
    /// A load, store or atomic.
    Access(Access),
    /// Lanes for which `condition` holds run `then`, the rest `otherwise`; all
    /// reconverge after it.
    If {
        /// Of type `Bool`.
        condition: Expr,
        /// For the lanes where it holds.
        then: Block,
        /// For the others.
        otherwise: Block,
    },
    /// `while`, `for` and `do`: lanes leave when the condition fails.
    Loop {
        /// Evaluated before each test: the memory accesses of the condition.
        header: Block,
        /// Of type `Bool`.
        condition: Expr,
        /// The body; `Continue` ends it for a lane.
        body: Block,
        /// The third part of a `for`.
        step: Block,
        /// `false` for `do … while`: the first iteration is not tested.
        test_first: bool,
    },
    /// An inlined function's body: `Return` inside ends it.
    Call {
        /// Statements of the function.
        body: Block,
    },
    /// Leaves the innermost loop.
    Break,
    /// Ends this iteration of the innermost loop.
    Continue,
    /// Leaves the innermost [`StmtKind::Call`], else the kernel.
    Return,
    /// `__syncthreads()`
    Barrier,
}

/// A memory access as it is executed.
#[derive(Clone, Debug)]
pub struct Access {
    /// Its place in the source.
    pub site: SiteId,
    /// Address of each lane (for asynchronous copies: in global memory).
    pub address: Expr,
    /// For asynchronous copies: offset in shared memory.
    pub shared_address: Option<Expr>,
    /// What is written, one a component; empty where it is opaque (floats) or
    /// nothing is written. For atomics: the operand(s); `Cas` has two.
    pub values: Vec<Expr>,
    /// Where loaded integers go, one a component; empty where nobody needs
    /// them.
    pub results: Vec<LocalId>,
}

/// A pure expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it computes.
    pub kind: ExprKind,
    /// Type of the value.
    pub ty: ValueType,
    /// Where it stands in the source.
    pub span: Span,
}

/// Operators of two integer operands of the same type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the operators
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// Comparisons; the result is `Bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the operators
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Functions on integers that the model computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intrinsic {
    /// `hash(unsigned)`, on 32 bits.
    Hash,
    /// `hash64(unsigned long long)`.
    Hash64,
    /// `min`, of the operands' type.
    Min,
    /// `max`, of the operands' type.
    Max,
    /// `abs`, signed types only.
    Abs,
    /// `__popc`, `__popcll`.
    Popc,
    /// `__clz`, `__clzll`.
    Clz,
    /// `__ffs`, `__ffsll`.
    Ffs,
    /// `__brev`, `__brevll`.
    Brev,
}

/// What an expression computes.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A constant; the bits of a `U64` above `i64::MAX` are reinterpreted.
    Const(i64),
    /// A value that the model does not know: floating point, or read from
    /// memory without contents. Using it as an index or in a condition that
    /// guards an access is an error; the reason is told with it.
    Opaque(OpaqueReason),
    /// `threadIdx`, `blockIdx`; of type `U32`.
    Builtin(Builtin),
    /// A variable.
    Local(LocalId),
    /// An element of a local array.
    Element(LocalArrayId, Box<Expr>),
    /// First byte of a buffer (its `offset_bytes` included).
    BufferBase(BufferId),
    /// First byte of a shared array.
    SharedBase(SharedId),
    /// `-x`; signed overflow is an error.
    Neg(Box<Expr>),
    /// `~x`
    Not(Box<Expr>),
    /// `!x` on `Bool`.
    LogicalNot(Box<Expr>),
    /// Arithmetic. Shift counts have their own type. Pointer arithmetic is
    /// `Add` of a `Pointer` and an `I64` number of bytes, and `Sub` of two
    /// pointers gives `I64` bytes.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// Comparison of two values of one type.
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    /// `a && b`, both `Bool`; `b` is evaluated where `a` holds.
    LogicalAnd(Box<Expr>, Box<Expr>),
    /// `a || b`, both `Bool`; `b` is evaluated where `a` does not hold.
    LogicalOr(Box<Expr>, Box<Expr>),
    /// `c ? a : b`; each side is evaluated for its lanes only.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Conversion to the expression's type as C defines it (to `Bool`: not
    /// equal to 0). From and to `Pointer`: the address.
    Convert(Box<Expr>),
    /// A function on integers.
    Call(Intrinsic, Vec<Expr>),
    /// A multi-dimensional buffer's index, checked against its extent:
    /// evaluates to the index as `I64`; outside `0..extent` is an error that
    /// names the axis. Row-wise indexing `in[y][x]` uses one for each axis.
    CheckedIndex {
        /// The index, any integer type.
        index: Box<Expr>,
        /// Number of elements on this axis.
        extent: u64,
        /// Which axis, 0 for the outermost.
        axis: u8,
        /// The buffer or array indexed.
        of: Root,
    },
}

/// Why a value is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpaqueReason {
    /// It comes from floating-point arithmetic or a float buffer.
    Float,
    /// It was read from this buffer, which has no `init` and no file.
    NoContents(String),
    /// It was read from this buffer, which the kernel also writes.
    Written(String),
    /// It is the old value of an atomic: depends on the order of threads.
    AtomicResult,
    /// A variable that was never given a value.
    Uninitialised(String),
}
