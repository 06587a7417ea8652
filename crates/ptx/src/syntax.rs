//! PTX as a tree: modules, declarations, instructions, operands.
//!
//! It holds the instructions that this crate emits, in the form of the
//! *PTX ISA* manual; [`crate::print`] turns it into text and
//! [`crate::requirements`] says which version and target a tree needs.
//! Nothing here knows of scenarios.

/// A PTX ISA version, `.version major.minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Before the dot.
    pub major: u8,
    /// After the dot.
    pub minor: u8,
}

/// A target architecture: `Target(70)` is `sm_70`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target(pub u16);

/// A translation unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Lines of comment at the top.
    pub comment: Vec<String>,
    /// `.version`
    pub version: Version,
    /// `.target`
    pub target: Target,
    /// Variables outside functions.
    pub variables: Vec<Variable>,
    /// Kernels.
    pub entries: Vec<Entry>,
}

/// `.extern .shared .align N .b8 name[];`: the block's window of shared
/// memory, sized by the launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Alignment in bytes, a power of two.
    pub align: u32,
}

/// `.visible .entry`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// `.param .u64` names in order.
    pub params: Vec<String>,
    /// `.reqntid`: the block shape it is launched with.
    pub block: [u32; 3],
    /// Registers used: number of each class.
    pub registers: Registers,
    /// Labels, comments and instructions.
    pub body: Vec<Item>,
}

/// How many registers of each class an entry declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// `.pred %p<n>`
    pub pred: u32,
    /// `.b16 %rs<n>`
    pub b16: u32,
    /// `.b32 %r<n>`
    pub b32: u32,
    /// `.b64 %rd<n>`
    pub b64: u32,
}

/// Class of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// One bit.
    Pred,
    /// 16 bits; only the operands of 16-bit atomics.
    B16,
    /// 32 bits; narrower values are held extended.
    B32,
    /// 64 bits.
    B64,
}

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reg {
    /// Its class.
    pub class: Class,
    /// Its number in the class.
    pub index: u32,
}

/// A register or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A register.
    Reg(Reg),
    /// An integer constant; the bits of a `u64` above `i64::MAX` are
    /// reinterpreted.
    Imm(i64),
}

impl From<Reg> for Value {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

/// A branch target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(pub u32);

/// A line of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// `// text`
    Comment(String),
    /// `$Lname:`
    Label(Label),
    /// An instruction, possibly predicated.
    Instruction {
        /// `@p` or `@!p`.
        guard: Option<Guard>,
        /// The instruction.
        instruction: Instruction,
        /// A number the emitter gives it to find it again: the scenario's
        /// site.
        tag: Option<usize>,
    },
}

/// `@p` or `@!p`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The predicate.
    pub pred: Reg,
    /// Whether it is executed where the predicate is false.
    pub negated: bool,
}

/// Fundamental types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    BF16,
    F16x2,
    BF16x2,
    F32,
    F64,
}

/// State spaces of memory instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's
pub enum Space {
    Global,
    Shared,
}

/// Cache operators, and `.volatile` in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's
pub enum Cache {
    Default,
    Ca,
    Cg,
    Cs,
    Lu,
    Cv,
    Wb,
    Wt,
    Nc,
    Volatile,
}

/// Operations of `atom` and `red`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's
pub enum AtomOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    Exch,
    Cas,
}

/// Instructions of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's
pub enum Binary {
    Add,
    Sub,
    /// `mul.lo`
    Mul,
    /// `mul.wide`: 32-bit operands, 64-bit result.
    MulWide,
    Div,
    Rem,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Min,
    Max,
}

/// Instructions of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's
pub enum Unary {
    Mov,
    Neg,
    Not,
    Abs,
    Popc,
    Clz,
    Brev,
}

/// Comparisons of `setp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// `%tid.x` and its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's
pub enum Special {
    Tid(u8),
    Ctaid(u8),
}

/// `[base + offset]`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A 64-bit register for global, a 32-bit one for shared memory.
    pub base: Reg,
    /// Bytes, signed; within 32 bits.
    pub offset: i32,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// `ld.param.u64 dst, [name]`
    LoadParam {
        /// Destination.
        dst: Reg,
        /// The parameter.
        param: String,
    },
    /// `cvta.to.global.u64 dst, src`
    ToGlobal {
        /// Destination.
        dst: Reg,
        /// Generic address.
        src: Reg,
    },
    /// `mov.u32 dst, %tid.x`
    Special {
        /// Destination.
        dst: Reg,
        /// Source.
        src: Special,
    },
    /// `mov.u32 dst, name`: the address of a shared variable.
    AddressOf {
        /// Destination.
        dst: Reg,
        /// The variable.
        variable: String,
    },
    /// `op.type dst, src`
    Unary {
        /// Operation.
        op: Unary,
        /// Type.
        ty: Type,
        /// Destination.
        dst: Reg,
        /// Operand.
        src: Value,
    },
    /// `op.type dst, a, b`
    Binary {
        /// Operation.
        op: Binary,
        /// Type.
        ty: Type,
        /// Destination.
        dst: Reg,
        /// First operand.
        a: Value,
        /// Second operand; a 32-bit count for shifts.
        b: Value,
    },
    /// `mad.lo.type dst, a, b, c`: `a * b + c`.
    Mad {
        /// Type.
        ty: Type,
        /// Destination.
        dst: Reg,
        /// First factor.
        a: Value,
        /// Second factor.
        b: Value,
        /// What is added.
        c: Value,
    },
    /// `setp.cmp.type dst, a, b`
    Setp {
        /// Comparison.
        cmp: Compare,
        /// Type.
        ty: Type,
        /// Predicate.
        dst: Reg,
        /// First operand.
        a: Value,
        /// Second operand.
        b: Value,
    },
    /// `selp.type dst, a, b, p`
    Selp {
        /// Type.
        ty: Type,
        /// Destination.
        dst: Reg,
        /// Where the predicate holds.
        a: Value,
        /// Where it does not.
        b: Value,
        /// The predicate.
        pred: Reg,
    },
    /// `cvt.to.from dst, src`
    Cvt {
        /// Type of the result.
        to: Type,
        /// Type the operand is read as.
        from: Type,
        /// Destination.
        dst: Reg,
        /// Operand.
        src: Reg,
    },
    /// `mov.b64 {low, high}, src`
    Unpack {
        /// Bits 0..32.
        low: Reg,
        /// Bits 32..64.
        high: Reg,
        /// Operand.
        src: Reg,
    },
    /// `mov.b64 dst, {low, high}`
    Pack {
        /// Destination.
        dst: Reg,
        /// Bits 0..32.
        low: Value,
        /// Bits 32..64.
        high: Value,
    },
    /// `ld.space.cache.vec.type {dst}, [address]`
    Load {
        /// State space.
        space: Space,
        /// Cache operator.
        cache: Cache,
        /// Type of a component.
        ty: Type,
        /// Destinations: 1, 2, 4 or 8.
        dst: Vec<Reg>,
        /// Where.
        address: Address,
    },
    /// `st.space.cache.vec.type [address], {src}`
    Store {
        /// State space.
        space: Space,
        /// Cache operator.
        cache: Cache,
        /// Type of a component.
        ty: Type,
        /// Where.
        address: Address,
        /// Operands: 1, 2, 4 or 8.
        src: Vec<Value>,
    },
    /// `red.space.op.type [address], {src}`
    Red {
        /// State space.
        space: Space,
        /// Operation.
        op: AtomOp,
        /// Type of a component.
        ty: Type,
        /// Where.
        address: Address,
        /// Operands: 1, or 2 or 4 for vectors.
        src: Vec<Value>,
    },
    /// `atom.space.op.type {dst}, [address], {src}`
    Atom {
        /// State space.
        space: Space,
        /// Operation.
        op: AtomOp,
        /// Type of a component.
        ty: Type,
        /// Old value's components; empty prints `_`.
        dst: Vec<Reg>,
        /// Where.
        address: Address,
        /// Operand's components.
        src: Vec<Value>,
        /// The new value of `cas`, whose `src` is what is compared.
        swap: Option<Value>,
    },
    /// `cp.async.cache.shared.global [to], [from], bytes`
    CopyAsync {
        /// `Ca` or `Cg`.
        cache: Cache,
        /// Shared memory.
        to: Address,
        /// Global memory.
        from: Address,
        /// 4, 8 or 16.
        bytes: u8,
    },
    /// `cp.async.wait_all`
    CopyAsyncWaitAll,
    /// `bra target`
    Branch {
        /// Where to.
        target: Label,
    },
    /// `bar.sync 0`
    Barrier,
    /// `ret`
    Ret,
}

impl Instruction {
    /// Every register that it reads or writes, guards left out.
    pub fn registers(&self) -> Vec<Reg> {
        let mut values: Vec<Value> = Vec::new();
        match self {
            Self::LoadParam { dst, .. }
            | Self::Special { dst, .. }
            | Self::AddressOf { dst, .. } => values.push((*dst).into()),
            Self::ToGlobal { dst, src } | Self::Cvt { dst, src, .. } => {
                values.extend([Value::from(*dst), (*src).into()]);
            }
            Self::Unary { dst, src, .. } => values.extend([(*dst).into(), *src]),
            Self::Binary { dst, a, b, .. } | Self::Setp { dst, a, b, .. } => {
                values.extend([(*dst).into(), *a, *b]);
            }
            Self::Mad { dst, a, b, c, .. } => values.extend([(*dst).into(), *a, *b, *c]),
            Self::Selp { dst, a, b, pred, .. } => {
                values.extend([(*dst).into(), *a, *b, (*pred).into()]);
            }
            Self::Unpack { low, high, src } => {
                values.extend([*low, *high, *src].map(Value::from));
            }
            Self::Pack { dst, low, high } => values.extend([(*dst).into(), *low, *high]),
            Self::Load { dst, address, .. } => {
                values.extend(dst.iter().copied().map(Value::from));
                values.push(address.base.into());
            }
            Self::Store { address, src, .. } | Self::Red { address, src, .. } => {
                values.push(address.base.into());
                values.extend(src);
            }
            Self::Atom { dst, address, src, swap, .. } => {
                values.extend(dst.iter().copied().map(Value::from));
                values.push(address.base.into());
                values.extend(src.iter().chain(swap));
            }
            Self::CopyAsync { to, from, .. } => {
                values.extend([to.base, from.base].map(Value::from));
            }
            Self::CopyAsyncWaitAll | Self::Branch { .. } | Self::Barrier | Self::Ret => {}
        }
        let registers = values.into_iter().filter_map(|value| match value {
            Value::Reg(reg) => Some(reg),
            Value::Imm(_) => None,
        });
        registers.collect()
    }
}
