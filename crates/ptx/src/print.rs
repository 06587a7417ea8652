//! The text of a tree.

use crate::syntax::*;
use std::fmt::{self, Display, Formatter, Write as _};

/// A module's text, and where the tagged instructions stand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// The text.
    pub text: String,
    /// Tag, line from 1, and opcode of each tagged instruction, in order.
    pub tagged: Vec<(usize, usize, String)>,
}

/// Prints a module.
pub fn print(module: &Module) -> Printed {
    let mut out = Lines::default();
    for line in &module.comment {
        out.line(format_args!("// {line}"));
    }
    out.line(format_args!(".version {}", module.version));
    out.line(format_args!(".target {}", module.target));
    out.line(format_args!(".address_size 64"));
    for variable in &module.variables {
        out.line(format_args!(""));
        out.line(format_args!(
            ".extern .shared .align {} .b8 {}[];",
            variable.align, variable.name
        ));
    }
    for entry in &module.entries {
        out.line(format_args!(""));
        out.entry(entry);
    }
    Printed { text: out.text, tagged: out.tagged }
}

/// Text under construction, with the number of its lines.
#[derive(Default)]
struct Lines {
    text: String,
    count: usize,
    tagged: Vec<(usize, usize, String)>,
}

impl Lines {
    fn line(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string can't fail; a comment that spans lines would
        // shift the numbers, so the count is taken from what was written.
        let start = self.text.len();
        let _ = writeln!(self.text, "{text}");
        self.count += self.text[start..].bytes().filter(|&b| b == b'\n').count();
    }

    fn entry(&mut self, entry: &Entry) {
        self.line(format_args!(".visible .entry {}(", entry.name));
        for (i, param) in entry.params.iter().enumerate() {
            let comma = if i + 1 < entry.params.len() { "," } else { "" };
            self.line(format_args!("    .param .u64 {param}{comma}"));
        }
        self.line(format_args!(")"));
        let [x, y, z] = entry.block;
        self.line(format_args!(".reqntid {x}, {y}, {z}"));
        self.line(format_args!("{{"));
        let Registers { pred, b16, b32, b64 } = entry.registers;
        for (ty, prefix, count) in
            [("pred", "p", pred), ("b16", "rs", b16), ("b32", "r", b32), ("b64", "rd", b64)]
        {
            if count > 0 {
                self.line(format_args!("    .reg .{ty} %{prefix}<{count}>;"));
            }
        }
        for item in &entry.body {
            match item {
                Item::Comment(text) => self.line(format_args!("    // {text}")),
                Item::Label(label) => self.line(format_args!("{label}:")),
                Item::Instruction { guard, instruction, tag } => {
                    match guard {
                        Some(guard) => self.line(format_args!("    {guard} {instruction};")),
                        None => self.line(format_args!("    {instruction};")),
                    }
                    if let Some(tag) = tag {
                        self.tagged.push((*tag, self.count, instruction.opcode()));
                    }
                }
            }
        }
        self.line(format_args!("}}"));
    }
}

impl Display for Version {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.0)
    }
}

impl Display for Reg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let prefix = match self.class {
            Class::Pred => "p",
            Class::B16 => "rs",
            Class::B32 => "r",
            Class::B64 => "rd",
        };
        write!(f, "%{prefix}{}", self.index)
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reg(reg) => reg.fmt(f),
            Self::Imm(value) => value.fmt(f),
        }
    }
}

impl Display for Label {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "$L{}", self.0)
    }
}

impl Display for Guard {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "@{}{}", if self.negated { "!" } else { "" }, self.pred)
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.offset {
            0 => write!(f, "[{}]", self.base),
            offset => write!(f, "[{}{offset:+}]", self.base),
        }
    }
}

impl Display for Special {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (name, axis) = match self {
            Self::Tid(axis) => ("tid", axis),
            Self::Ctaid(axis) => ("ctaid", axis),
        };
        write!(f, "%{name}.{}", ["x", "y", "z"].get(usize::from(*axis)).unwrap_or(&"z"))
    }
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Pred => "pred",
            Self::B8 => "b8",
            Self::B16 => "b16",
            Self::B32 => "b32",
            Self::B64 => "b64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::S8 => "s8",
            Self::S16 => "s16",
            Self::S32 => "s32",
            Self::S64 => "s64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F16x2 => "f16x2",
            Self::BF16x2 => "bf16x2",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

impl Space {
    fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Shared => "shared",
        }
    }
}

impl Cache {
    /// With its dot; `.volatile` stands before the space and is not among
    /// them.
    fn suffix(self) -> &'static str {
        match self {
            Self::Default | Self::Volatile => "",
            Self::Ca => ".ca",
            Self::Cg => ".cg",
            Self::Cs => ".cs",
            Self::Lu => ".lu",
            Self::Cv => ".cv",
            Self::Wb => ".wb",
            Self::Wt => ".wt",
            Self::Nc => ".nc",
        }
    }
}

impl AtomOp {
    fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Min => "min",
            Self::Max => "max",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::Inc => "inc",
            Self::Dec => "dec",
            Self::Exch => "exch",
            Self::Cas => "cas",
        }
    }
}

impl Compare {
    fn name(self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::Lt => "lt",
            Self::Le => "le",
            Self::Gt => "gt",
            Self::Ge => "ge",
        }
    }
}

impl Unary {
    fn name(self) -> &'static str {
        match self {
            Self::Mov => "mov",
            Self::Neg => "neg",
            Self::Not => "not",
            Self::Abs => "abs",
            Self::Popc => "popc",
            Self::Clz => "clz",
            Self::Brev => "brev",
        }
    }
}

impl Binary {
    fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul.lo",
            Self::MulWide => "mul.wide",
            Self::Div => "div",
            Self::Rem => "rem",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::Shl => "shl",
            Self::Shr => "shr",
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

/// `x` for one component, `{x, y}` for several.
struct Braced<'a, T>(&'a [T]);

impl<T: Display> Display for Braced<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("_"),
            [one] => one.fmt(f),
            [first, rest @ ..] => {
                write!(f, "{{{first}")?;
                for value in rest {
                    write!(f, ", {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn vector(components: usize) -> &'static str {
    match components {
        2 => ".v2",
        4 => ".v4",
        8 => ".v8",
        _ => "",
    }
}

fn moved(name: &str, space: Space, cache: Cache, components: usize, ty: Type) -> String {
    let volatile = if cache == Cache::Volatile { ".volatile" } else { "" };
    format!(
        "{name}{volatile}.{}{}{}.{}",
        space.name(),
        cache.suffix(),
        vector(components),
        ty.name()
    )
}

fn atomic(name: &str, space: Space, op: AtomOp, components: usize, ty: Type) -> String {
    // Half-precision additions must say that they keep subnormals.
    let rounding = match ty {
        Type::F16 | Type::BF16 | Type::F16x2 | Type::BF16x2 => ".noftz",
        _ => "",
    };
    format!("{name}.{}.{}{rounding}{}.{}", space.name(), op.name(), vector(components), ty.name())
}

impl Instruction {
    /// The instruction without its operands.
    pub fn opcode(&self) -> String {
        match self {
            Self::LoadParam { .. } => "ld.param.u64".to_owned(),
            Self::ToGlobal { .. } => "cvta.to.global.u64".to_owned(),
            Self::Special { .. } | Self::AddressOf { .. } => "mov.u32".to_owned(),
            Self::Unary { op, ty, .. } => format!("{}.{}", op.name(), ty.name()),
            Self::Binary { op, ty, .. } => format!("{}.{}", op.name(), ty.name()),
            Self::Mad { ty, .. } => format!("mad.lo.{}", ty.name()),
            Self::Setp { cmp, ty, .. } => format!("setp.{}.{}", cmp.name(), ty.name()),
            Self::Selp { ty, .. } => format!("selp.{}", ty.name()),
            Self::Cvt { to, from, .. } => format!("cvt.{}.{}", to.name(), from.name()),
            Self::Unpack { .. } | Self::Pack { .. } => "mov.b64".to_owned(),
            Self::Load { space, cache, ty, dst, .. } => moved("ld", *space, *cache, dst.len(), *ty),
            Self::Store { space, cache, ty, src, .. } => {
                moved("st", *space, *cache, src.len(), *ty)
            }
            Self::Red { space, op, ty, src, .. } => atomic("red", *space, *op, src.len(), *ty),
            Self::Atom { space, op, ty, src, .. } => atomic("atom", *space, *op, src.len(), *ty),
            Self::CopyAsync { cache, .. } => {
                format!("cp.async{}.shared.global", cache.suffix())
            }
            Self::CopyAsyncWaitAll => "cp.async.wait_all".to_owned(),
            Self::Branch { .. } => "bra".to_owned(),
            Self::Barrier => "bar.sync".to_owned(),
            Self::Ret => "ret".to_owned(),
        }
    }
}

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let opcode = self.opcode();
        match self {
            Self::LoadParam { dst, param } => write!(f, "{opcode} {dst}, [{param}]"),
            Self::ToGlobal { dst, src } => write!(f, "{opcode} {dst}, {src}"),
            Self::Special { dst, src } => write!(f, "{opcode} {dst}, {src}"),
            Self::AddressOf { dst, variable } => write!(f, "{opcode} {dst}, {variable}"),
            Self::Unary { dst, src, .. } => write!(f, "{opcode} {dst}, {src}"),
            Self::Binary { dst, a, b, .. } | Self::Setp { dst, a, b, .. } => {
                write!(f, "{opcode} {dst}, {a}, {b}")
            }
            Self::Mad { dst, a, b, c, .. } => write!(f, "{opcode} {dst}, {a}, {b}, {c}"),
            Self::Selp { dst, a, b, pred, .. } => {
                write!(f, "{opcode} {dst}, {a}, {b}, {pred}")
            }
            Self::Cvt { dst, src, .. } => write!(f, "{opcode} {dst}, {src}"),
            Self::Unpack { low, high, src } => write!(f, "{opcode} {{{low}, {high}}}, {src}"),
            Self::Pack { dst, low, high } => write!(f, "{opcode} {dst}, {{{low}, {high}}}"),
            Self::Load { dst, address, .. } => write!(f, "{opcode} {}, {address}", Braced(dst)),
            Self::Store { address, src, .. } | Self::Red { address, src, .. } => {
                write!(f, "{opcode} {address}, {}", Braced(src))
            }
            Self::Atom { dst, address, src, swap, .. } => {
                write!(f, "{opcode} {}, {address}, {}", Braced(dst), Braced(src))?;
                match swap {
                    Some(swap) => write!(f, ", {swap}"),
                    None => Ok(()),
                }
            }
            Self::CopyAsync { to, from, bytes, .. } => {
                write!(f, "{opcode} {to}, {from}, {bytes}")
            }
            Self::CopyAsyncWaitAll | Self::Ret => f.write_str(&opcode),
            Self::Branch { target } => write!(f, "{opcode} {target}"),
            Self::Barrier => write!(f, "{opcode} 0"),
        }
    }
}
