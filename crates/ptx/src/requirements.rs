//! The lowest PTX version and target that a tree's instructions need.
//!
//! Each rule cites the section of the *PTX ISA* manual whose "PTX ISA Notes"
//! and "Target ISA Notes" it takes its numbers from
//! (<https://docs.nvidia.com/cuda/parallel-thread-execution/>).

use crate::syntax::{Instruction, Item, Target, Type, Version};

/// What every emitted kernel asks for: what Volta's first drivers of the
/// CUDA 11 series accept.
pub const BASE: (Version, Target) = (Version { major: 7, minor: 0 }, Target(70));

/// The lowest version and target that accept all of `body`.
pub fn of(body: &[Item]) -> (Version, Target) {
    body.iter().fold(BASE, |(version, target), item| match item {
        Item::Instruction { instruction, .. } => {
            let (v, t) = of_instruction(instruction);
            (version.max(v), target.max(t))
        }
        Item::Comment(_) | Item::Label(_) => (version, target),
    })
}

fn of_instruction(instruction: &Instruction) -> (Version, Target) {
    let needs = |major, minor, target| (Version { major, minor }, Target(target));
    match instruction {
        // cp.async: PTX 7.0, sm_80.
        Instruction::CopyAsync { .. } | Instruction::CopyAsyncWaitAll => needs(7, 0, 80),
        // red, atom: "vector types … PTX ISA 8.1, sm_90"; ".bf16, .bf16x2 …
        // PTX ISA 7.8, sm_90"; ".f16 … sm_70", ".f16x2 … sm_60".
        Instruction::Red { src, .. } | Instruction::Atom { src, .. } if src.len() > 1 => {
            needs(8, 1, 90)
        }
        Instruction::Red { ty: Type::BF16 | Type::BF16x2, .. }
        | Instruction::Atom { ty: Type::BF16 | Type::BF16x2, .. } => needs(7, 8, 90),
        // ld, st: ".v8 for 32-bit and .v4 for 64-bit types … PTX ISA 8.8,
        // sm_100".
        Instruction::Load { dst, ty, .. } if is_256_bits(dst.len(), *ty) => needs(8, 8, 100),
        Instruction::Store { src, ty, .. } if is_256_bits(src.len(), *ty) => needs(8, 8, 100),
        _ => BASE,
    }
}

fn is_256_bits(components: usize, ty: Type) -> bool {
    matches!(
        (components, ty),
        (8, Type::B32 | Type::U32 | Type::F32) | (4, Type::B64 | Type::U64 | Type::F64)
    )
}
