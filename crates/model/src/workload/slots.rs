//! Issue slots of an emitted instruction.
//!
//! A slot is what one 32-bit addition of a warp takes. The figures are estimates
//! from the throughput of machine instructions ("Arithmetic Instructions" of the
//! CUDA C++ Programming Guide: results a clock and SM of 128, 64, 16): an
//! instruction on a pipe of a quarter or an eighth of the rate takes as many
//! slots. How many machine instructions a division becomes is assumed, and was
//! not compared with an assembler's output. They are of the instruction set,
//! not of a device's speed: that is the profile's `issue_rate`.

use ptx::syntax::{Binary, Class, Instruction, Type, Unary, Value};

/// A division by a number that is not known, 32 bits: reciprocal, two steps.
const DIVIDE_32: f64 = 24.0;
/// The same, 64 bits: a subroutine.
const DIVIDE_64: f64 = 90.0;
/// A division by a constant, 32 bits: the high half of a product, and shifts.
const DIVIDE_32_CONST: f64 = 4.0;
/// The same, 64 bits.
const DIVIDE_64_CONST: f64 = 20.0;
/// What the pipe for conversions and bit counts takes: an eighth of the rate.
const SLOW_PIPE: f64 = 8.0;

/// Slots of one execution by a warp.
pub(super) fn of(instruction: &Instruction) -> f64 {
    match instruction {
        // Constant bank and register renaming: no instruction is left.
        Instruction::LoadParam { .. }
        | Instruction::ToGlobal { .. }
        | Instruction::AddressOf { .. }
        | Instruction::Pack { .. }
        | Instruction::Unpack { .. }
        | Instruction::Unary { op: Unary::Mov, .. } => 0.0,
        Instruction::Unary { op, ty, .. } => match op {
            Unary::Popc | Unary::Clz | Unary::Brev => SLOW_PIPE * words(*ty),
            Unary::Mov | Unary::Neg | Unary::Not | Unary::Abs => words(*ty),
        },
        Instruction::Binary { op, ty, b, .. } => binary(*op, *ty, *b),
        // Products run on a pipe of half the rate.
        Instruction::Mad { ty, .. } => {
            if is_wide(*ty) {
                8.0
            } else {
                2.0
            }
        }
        Instruction::Setp { ty, .. } | Instruction::Selp { ty, .. } => words(*ty),
        Instruction::Cvt { to, from, .. } => match (is_float(*to), is_float(*from)) {
            (false, false) => 1.0,
            _ => SLOW_PIPE,
        },
        Instruction::Special { .. }
        | Instruction::Load { .. }
        | Instruction::Store { .. }
        | Instruction::Red { .. }
        | Instruction::Atom { .. }
        | Instruction::CopyAsync { .. }
        | Instruction::CopyAsyncWaitAll
        | Instruction::Branch { .. }
        | Instruction::Barrier
        | Instruction::Ret => 1.0,
    }
}

fn binary(op: Binary, ty: Type, b: Value) -> f64 {
    match (op, is_wide(ty), b) {
        (Binary::MulWide, ..) => 2.0,
        (Binary::Mul, _, Value::Imm(by)) if is_power(by) => words(ty),
        (Binary::Mul, true, _) => 8.0,
        (Binary::Mul, false, _) => 2.0,
        (Binary::Div | Binary::Rem, _, Value::Imm(by)) if is_power(by) => 2.0 * words(ty),
        (Binary::Div, true, Value::Imm(_)) => DIVIDE_64_CONST,
        (Binary::Div, false, Value::Imm(_)) => DIVIDE_32_CONST,
        // The remainder takes a product and a difference more.
        (Binary::Rem, true, Value::Imm(_)) => DIVIDE_64_CONST + 10.0,
        (Binary::Rem, false, Value::Imm(_)) => DIVIDE_32_CONST + 2.0,
        (Binary::Div | Binary::Rem, true, Value::Reg(_)) => DIVIDE_64,
        (Binary::Div | Binary::Rem, false, Value::Reg(_)) => DIVIDE_32,
        (
            Binary::Add
            | Binary::Sub
            | Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::Shl
            | Binary::Shr
            | Binary::Min
            | Binary::Max,
            ..,
        ) => words(ty),
    }
}

/// 32-bit registers of a value.
pub(super) fn registers(class: Class) -> u32 {
    match class {
        Class::Pred => 0,
        Class::B16 | Class::B32 => 1,
        Class::B64 => 2,
    }
}

fn words(ty: Type) -> f64 {
    if is_wide(ty) { 2.0 } else { 1.0 }
}

fn is_wide(ty: Type) -> bool {
    matches!(ty, Type::B64 | Type::U64 | Type::S64 | Type::F64)
}

fn is_float(ty: Type) -> bool {
    matches!(ty, Type::F16 | Type::BF16 | Type::F16x2 | Type::BF16x2 | Type::F32 | Type::F64)
}

fn is_power(by: i64) -> bool {
    by > 0 && by & (by - 1) == 0
}
