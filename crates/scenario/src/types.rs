//! CUDA's types and their layout in memory.

use crate::program::Scalar;

/// A type of the CUDA C subset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `void`
    Void,
    /// A scalar.
    Scalar(Scalar),
    /// `float4`, `int2`, `uchar3` …: `count` 1..=4 components.
    Vector {
        /// Component type.
        element: Scalar,
        /// Components.
        count: u8,
    },
    /// A struct, by its index in the [`StructTable`].
    Struct(StructId),
    /// An array of known length.
    Array {
        /// Element type.
        element: Box<Type>,
        /// Elements.
        len: u64,
    },
    /// A pointer; the space it points into is settled by lowering.
    Pointer(Box<Type>),
}

/// Index into [`StructTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StructId(pub usize);

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Bytes from the start of the struct.
    pub offset: u64,
}

/// A struct with its layout settled, as CUDA (the Itanium C++ ABI) lays it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructLayout {
    /// Its name.
    pub name: String,
    /// Fields in order.
    pub fields: Vec<Field>,
    /// Size with tail padding, bytes.
    pub bytes: u64,
    /// Alignment, bytes.
    pub align: u64,
}

/// The structs a kernel can name.
#[derive(Clone, Debug, Default)]
pub struct StructTable {
    /// By [`StructId`].
    pub structs: Vec<StructLayout>,
}
