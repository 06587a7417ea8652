//! What names and expressions stand for while a kernel is lowered.
//!
//! A [`Value`] is flattened to scalars, its leaves: the typed program knows
//! integers and addresses only, and floating-point values not at all. A
//! [`Place`] is what can be assigned to or have its address taken.

use super::fold;
use crate::program::{BufferId, Expr, LocalArrayId, LocalId, Root, Scalar};
use crate::types::{StructTable, Type};
use std::rc::Rc;

/// Scalars that a value held in registers may have; a struct with more would
/// live in local memory.
pub(crate) const MAX_LEAVES: u64 = 1024;

/// A value of any type, as its scalars in order of their offset.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) ty: Type,
    pub(crate) leaves: Vec<Leaf>,
}

/// One scalar of a value.
#[derive(Clone, Debug)]
pub(crate) enum Leaf {
    /// An integer or `bool`, of exactly the type's scalar.
    Int(Expr),
    /// A floating-point number, where it is a constant of the source.
    Float(Option<f64>),
    /// An address.
    Pointer(Pointer),
}

/// An address; what it points to is in the type of the value.
#[derive(Clone, Debug)]
pub(crate) struct Pointer {
    pub(crate) target: Target,
    pub(crate) qualifiers: Qualifiers,
}

/// Where an address points.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Into memory.
    Memory(Expr),
    /// At a variable in registers: the place, and how many scalars further.
    /// Such an address cannot be stored, only followed.
    Register(Box<Place>, Expr),
}

/// Qualifiers of what a pointer points to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Qualifiers {
    pub(crate) volatile: bool,
    pub(crate) read_only: bool,
}

impl Qualifiers {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            volatile: self.volatile || other.volatile,
            read_only: self.read_only || other.read_only,
        }
    }
}

/// Something with a place: in memory, in registers, or a value whose parts can
/// be named.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Memory(Memory),
    /// A multi-dimensional buffer with some of its indices.
    Rows(Rows),
    Register(Register),
    Elements(Elements),
    /// A `__constant__` variable or a part of it.
    Constant(Constant),
    Value(Value),
}

/// A place in constant memory. Reading it is no access to global or shared
/// memory: constants have a cache of their own. What is in it is not known.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) name: Rc<str>,
    pub(crate) ty: Type,
}

/// A place in global or shared memory.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) address: Expr,
    pub(crate) ty: Type,
    pub(crate) qualifiers: Qualifiers,
    /// The buffer or array it is part of, where a name says so.
    pub(crate) of: Option<Root>,
    /// Whether it is an element or field of something larger, so that an index
    /// beyond it would reach its neighbour.
    pub(crate) nested: bool,
    /// How many indices of the array are given.
    pub(crate) axis: u8,
}

impl Memory {
    /// The object at an address.
    pub(crate) fn at(address: Expr, ty: Type, qualifiers: Qualifiers) -> Self {
        Self { address, ty, qualifiers, of: None, nested: false, axis: 0 }
    }
}

/// Part of a multi-dimensional buffer.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) buffer: BufferId,
    pub(crate) address: Expr,
    /// How many of its indices are given.
    pub(crate) axis: usize,
}

/// A variable, or a part of one, held in registers.
#[derive(Clone, Debug)]
pub(crate) struct Register {
    pub(crate) name: Rc<str>,
    pub(crate) ty: Type,
    pub(crate) slots: Vec<Slot>,
    pub(crate) read_only: bool,
    /// Whether it is a struct that is only copied, never looked into.
    pub(crate) moved: bool,
}

/// Where one scalar of a variable is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Int(LocalId),
    /// Floating-point variables don't exist in the typed program.
    Float,
    Pointer(LocalId, Qualifiers),
}

/// An array that each thread has in registers, or a part of it.
#[derive(Clone, Debug)]
pub(crate) struct Elements {
    pub(crate) array: Rc<ThreadArray>,
    /// Index of the first innermost element, `I64`.
    pub(crate) index: Expr,
    pub(crate) ty: Type,
    pub(crate) read_only: bool,
}

/// An array of each thread: one array of the typed program for each scalar of
/// an element.
#[derive(Debug)]
pub(crate) struct ThreadArray {
    pub(crate) name: String,
    pub(crate) scalars: Vec<(LocalArrayId, LeafType)>,
}

/// What a leaf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafType {
    Scalar(Scalar),
    Pointer,
}

impl Value {
    pub(crate) fn void() -> Self {
        Self { ty: Type::Void, leaves: Vec::new() }
    }

    /// An integer, from its expression.
    pub(crate) fn int(expr: Expr) -> Self {
        Self { ty: Type::Scalar(fold::scalar_of(&expr)), leaves: vec![Leaf::Int(expr)] }
    }

    pub(crate) fn float(ty: Scalar, value: Option<f64>) -> Self {
        let value = value.map(|value| round_to(ty, value));
        Self { ty: Type::Scalar(ty), leaves: vec![Leaf::Float(value)] }
    }

    pub(crate) fn pointer(address: Expr, pointee: Type, qualifiers: Qualifiers) -> Self {
        let pointer = Pointer { target: Target::Memory(address), qualifiers };
        Self { ty: Type::Pointer(Box::new(pointee)), leaves: vec![Leaf::Pointer(pointer)] }
    }

    /// The integer expression of a value that is one.
    pub(crate) fn as_int(&self) -> Option<&Expr> {
        match (&self.ty, self.leaves.as_slice()) {
            (Type::Scalar(_), [Leaf::Int(expr)]) => Some(expr),
            _ => None,
        }
    }

    pub(crate) fn is_float(&self) -> bool {
        matches!(self.ty, Type::Scalar(scalar) if scalar.is_float())
    }
}

/// A constant of a floating-point type.
pub(crate) fn round_to(ty: Scalar, value: f64) -> f64 {
    if ty == Scalar::F64 { value } else { f64::from(value as f32) }
}

/// Number of scalars in a type; saturates.
pub(crate) fn leaf_count(ty: &Type, structs: &StructTable) -> u64 {
    match ty {
        Type::Void => 0,
        Type::Scalar(_) | Type::Pointer(_) => 1,
        Type::Vector { count, .. } => u64::from(*count),
        Type::Struct(id) => structs
            .get(*id)
            .fields
            .iter()
            .fold(0, |sum: u64, field| sum.saturating_add(leaf_count(&field.ty, structs))),
        Type::Array { element, len } => leaf_count(element, structs).saturating_mul(*len),
    }
}

/// The scalars of a type with their offsets; the caller has checked that there
/// are at most [`MAX_LEAVES`].
pub(crate) fn leaf_types(ty: &Type, structs: &StructTable) -> Vec<(LeafType, u64)> {
    let mut leaves = Vec::new();
    collect_leaves(ty, structs, 0, &mut leaves);
    leaves
}

fn collect_leaves(
    ty: &Type,
    structs: &StructTable,
    offset: u64,
    leaves: &mut Vec<(LeafType, u64)>,
) {
    match ty {
        Type::Void => {}
        Type::Scalar(scalar) => leaves.push((LeafType::Scalar(*scalar), offset)),
        Type::Pointer(_) => leaves.push((LeafType::Pointer, offset)),
        Type::Vector { element, count } => {
            for component in 0..u64::from(*count) {
                leaves.push((LeafType::Scalar(*element), offset + component * element.bytes()));
            }
        }
        Type::Struct(id) => {
            for field in &structs.get(*id).fields {
                collect_leaves(&field.ty, structs, offset + field.offset, leaves);
            }
        }
        Type::Array { element, len } => {
            let size = structs.size_of(element);
            for index in 0..*len {
                collect_leaves(element, structs, offset + index * size, leaves);
            }
        }
    }
}
