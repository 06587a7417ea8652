//! Runs the tree of an emitted kernel, one thread at a time, and notes what its
//! sites access.
//!
//! Threads don't see each other's writes: stores go nowhere, shared memory
//! reads as zero. That is enough where no address depends on what another
//! thread wrote, as in all shipped scenarios.

use coalescope_ptx::syntax::*;
use std::collections::HashMap;

/// One access of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Touch {
    /// The site's number.
    pub(crate) site: usize,
    /// Device address, or offset in the shared window.
    pub(crate) address: u64,
    /// For asynchronous copies: the offset written.
    pub(crate) shared: Option<u64>,
}

/// Where and with what a thread runs.
pub(crate) struct Thread<'a> {
    pub(crate) tid: [u32; 3],
    pub(crate) ctaid: [u32; 3],
    /// By parameter name.
    pub(crate) params: &'a HashMap<String, u64>,
    /// The `bytes` bytes at a global address, little endian.
    pub(crate) read: &'a dyn Fn(u64, u64) -> u64,
    /// What a verifying kernel adds to its results: word address to sum.
    pub(crate) results: HashMap<u64, u64>,
}

/// An instruction budget that no shipped scenario's thread comes near.
const FUEL: u64 = 1 << 22;

/// Address of the shared window: not zero, so that mixing it up with an offset
/// shows.
const WINDOW: u64 = 1024;

/// An entry made ready to run: where its labels are.
pub(crate) struct Kernel<'e> {
    entry: &'e Entry,
    /// By label number.
    labels: Vec<usize>,
}

impl<'e> Kernel<'e> {
    pub(crate) fn new(entry: &'e Entry) -> Self {
        let mut labels = Vec::new();
        for (at, item) in entry.body.iter().enumerate() {
            if let Item::Label(label) = item {
                let number = label.0 as usize;
                if labels.len() <= number {
                    labels.resize(number + 1, usize::MAX);
                }
                labels[number] = at;
            }
        }
        Self { entry, labels }
    }
}

/// A thread's registers. One that nothing was written to reads as a value that
/// leads nowhere.
struct File {
    classes: [Vec<u64>; 4],
}

impl File {
    fn new(registers: Registers) -> Self {
        let Registers { pred, b16, b32, b64 } = registers;
        Self { classes: [pred, b16, b32, b64].map(|n| vec![0xdead_beef; n as usize]) }
    }

    fn class(class: Class) -> usize {
        match class {
            Class::Pred => 0,
            Class::B16 => 1,
            Class::B32 => 2,
            Class::B64 => 3,
        }
    }

    fn get(&self, reg: Reg) -> u64 {
        self.classes[Self::class(reg.class)][reg.index as usize]
    }

    fn set(&mut self, reg: Reg, value: u64) {
        self.classes[Self::class(reg.class)][reg.index as usize] = value;
    }
}

impl Thread<'_> {
    /// Runs the kernel and returns the thread's accesses in order.
    pub(crate) fn run(&mut self, kernel: &Kernel<'_>) -> Vec<Touch> {
        let mut regs = File::new(kernel.entry.registers);
        let mut touches = Vec::new();
        let mut at = 0;
        for _ in 0..FUEL {
            let Some(item) = kernel.entry.body.get(at) else { panic!("ran past the end") };
            at += 1;
            let Item::Instruction { guard, instruction, tag } = item else { continue };
            if let Some(guard) = guard
                && (regs.get(guard.pred) != 0) == guard.negated
            {
                continue;
            }
            match instruction {
                Instruction::Branch { target } => at = kernel.labels[target.0 as usize],
                Instruction::Ret => return touches,
                other => {
                    let touched = self.step(other, &mut regs);
                    if let (Some(site), Some((address, shared))) = (tag, touched) {
                        touches.push(Touch { site: *site, address, shared });
                    }
                }
            }
        }
        panic!("out of fuel")
    }

    fn step(&mut self, instruction: &Instruction, regs: &mut File) -> Option<(u64, Option<u64>)> {
        let value = |value: &Value| match value {
            Value::Reg(reg) => regs.get(*reg),
            Value::Imm(imm) => *imm as u64,
        };
        let place =
            |address: &Address| regs.get(address.base).wrapping_add(address.offset as i64 as u64);
        let (dst, result) = match instruction {
            Instruction::LoadParam { dst, param } => (*dst, self.params[param]),
            Instruction::ToGlobal { dst, src } => (*dst, regs.get(*src)),
            Instruction::Special { dst, src } => {
                let value = match src {
                    Special::Tid(axis) => self.tid[usize::from(*axis)],
                    Special::Ctaid(axis) => self.ctaid[usize::from(*axis)],
                };
                (*dst, u64::from(value))
            }
            Instruction::AddressOf { dst, .. } => (*dst, WINDOW),
            Instruction::Unary { op, ty, dst, src } => (*dst, unary(*op, *ty, value(src))),
            Instruction::Binary { op, ty, dst, a, b } => {
                (*dst, binary(*op, *ty, value(a), value(b)))
            }
            Instruction::Mad { ty, dst, a, b, c } => {
                let product = binary(Binary::Mul, *ty, value(a), value(b));
                (*dst, binary(Binary::Add, *ty, product, value(c)))
            }
            Instruction::Setp { cmp, ty, dst, a, b } => {
                (*dst, u64::from(compare(*cmp, *ty, value(a), value(b))))
            }
            Instruction::Selp { ty, dst, a, b, pred } => {
                let chosen = if regs.get(*pred) != 0 { value(a) } else { value(b) };
                (*dst, cut(*ty, chosen))
            }
            Instruction::Cvt { to, from, dst, src } => {
                // Signed sources extend; the result is then cut to its type.
                let wide = signed(*from, regs.get(*src));
                (*dst, cut(*to, wide as u64))
            }
            Instruction::Unpack { low, high, src } => {
                let bits = regs.get(*src);
                regs.set(*low, bits & 0xffff_ffff);
                regs.set(*high, bits >> 32);
                return None;
            }
            Instruction::Pack { dst, low, high } => {
                (*dst, value(low) & 0xffff_ffff | value(high) << 32)
            }
            Instruction::Load { space, ty, dst, address, .. } => {
                let at = place(address);
                let bytes = bytes(*ty);
                for (k, reg) in dst.iter().enumerate() {
                    let value = match space {
                        Space::Global => (self.read)(at + k as u64 * bytes, bytes),
                        Space::Shared => 0,
                    };
                    regs.set(*reg, value);
                }
                return Some(at_model(*space, at));
            }
            Instruction::Store { space, address, .. } => {
                return Some(at_model(*space, place(address)));
            }
            Instruction::Red { space, address, src, .. } => {
                let at = place(address);
                let added = value(&src[0]);
                let sum = self.results.entry(at).or_default();
                *sum = sum.wrapping_add(added);
                return Some(at_model(*space, at));
            }
            Instruction::Atom { space, dst, address, .. } => {
                let at = place(address);
                for reg in dst {
                    regs.set(*reg, 0);
                }
                return Some(at_model(*space, at));
            }
            Instruction::CopyAsync { to, from, .. } => {
                return Some((place(from), Some(place(to) - WINDOW)));
            }
            Instruction::CopyAsyncWaitAll | Instruction::Barrier => return None,
            Instruction::Branch { .. } | Instruction::Ret => unreachable!("control flow"),
        };
        regs.set(dst, result);
        None
    }
}

fn at_model(space: Space, at: u64) -> (u64, Option<u64>) {
    match space {
        Space::Global => (at, None),
        Space::Shared => (at - WINDOW, None),
    }
}

fn bytes(ty: Type) -> u64 {
    match ty {
        Type::Pred | Type::B8 | Type::U8 | Type::S8 => 1,
        Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::BF16 => 2,
        Type::B32 | Type::U32 | Type::S32 | Type::F32 | Type::F16x2 | Type::BF16x2 => 4,
        Type::B64 | Type::U64 | Type::S64 | Type::F64 => 8,
    }
}

fn is_signed(ty: Type) -> bool {
    matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64)
}

/// Keeps the bits that a register of the type's class holds: narrow types are
/// extended to 32 bits.
fn cut(ty: Type, value: u64) -> u64 {
    match ty {
        Type::Pred => value & 1,
        _ if bytes(ty) == 8 => value,
        _ => value & 0xffff_ffff,
    }
}

/// `value` as the type reads it.
fn signed(ty: Type, value: u64) -> i128 {
    let bits = 8 * bytes(ty);
    let value = if bits == 64 { value } else { value & ((1 << bits) - 1) };
    if is_signed(ty) && value >> (bits - 1) & 1 == 1 {
        i128::from(value) - (1_i128 << bits)
    } else {
        i128::from(value)
    }
}

fn unary(op: Unary, ty: Type, a: u64) -> u64 {
    let bits = 8 * bytes(ty) as u32;
    let narrow = signed(ty, a);
    let unsigned = if bits == 64 { a } else { a & ((1 << bits) - 1) };
    match op {
        Unary::Mov => cut(ty, a),
        Unary::Neg => cut(ty, narrow.wrapping_neg() as u64),
        Unary::Not => cut(ty, !a),
        Unary::Abs => cut(ty, narrow.unsigned_abs() as u64),
        Unary::Popc => u64::from(unsigned.count_ones()),
        Unary::Clz => u64::from(unsigned.leading_zeros() - (64 - bits)),
        Unary::Brev => unsigned.reverse_bits() >> (64 - bits),
    }
}

fn binary(op: Binary, ty: Type, a: u64, b: u64) -> u64 {
    let (x, y) = (signed(ty, a), signed(ty, b));
    // Counts are 32 bits wide whatever is shifted, and stop at its width.
    let count = (b & 0xffff_ffff).min(8 * bytes(ty)) as u32;
    let result = match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x.wrapping_mul(y),
        Binary::MulWide => return (x * y) as u64,
        Binary::Div => x.checked_div(y).unwrap_or(-1),
        Binary::Rem => x.checked_rem(y).unwrap_or(x),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::Shl => x << count,
        Binary::Shr => x >> count,
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
    };
    cut(ty, result as u64)
}

fn compare(cmp: Compare, ty: Type, a: u64, b: u64) -> bool {
    let (a, b) = (signed(ty, a), signed(ty, b));
    match cmp {
        Compare::Eq => a == b,
        Compare::Ne => a != b,
        Compare::Lt => a < b,
        Compare::Le => a <= b,
        Compare::Gt => a > b,
        Compare::Ge => a >= b,
    }
}
