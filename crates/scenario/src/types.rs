//! CUDA's types and their layout in memory.
//!
//! Sizes and alignments are those of the CUDA C++ Programming Guide, "Built-in
//! Vector Types" (alignment table), and, for structs, of the Itanium C++ ABI
//! that nvcc follows on Linux: fields in order, each at the next multiple of
//! its alignment, the size rounded up to the alignment of the whole. `long` has
//! 8 bytes, `char` is signed.

use crate::diagnostic::{Diagnostic, Kind};
use crate::lower::{self, Code};
use crate::program::Scalar;
use crate::run::ParamValue;
use crate::source::Span;

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

impl StructLayout {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// The structs a kernel can name.
#[derive(Clone, Debug, Default)]
pub struct StructTable {
    /// By [`StructId`].
    pub structs: Vec<StructLayout>,
    /// Further names, as `typedef` gives them.
    aliases: Vec<(String, StructId)>,
    /// How many of them the scenario file defines; the others are the kernel
    /// file's. `None`: all.
    own: Option<usize>,
}

/// Largest object that a type may describe, bytes: the 57-bit virtual address
/// space of current GPUs. Keeps sums of sizes within `u64`.
pub const MAX_BYTES: u64 = 1 << 57;

/// Largest alignment that `align` and `alignas` may ask for, bytes.
pub const MAX_ALIGN: u64 = 1 << 16;

impl StructTable {
    /// Defines a struct from its fields, each as C declares it without the
    /// semicolon (`"float x"`, `"float x[32]"`, `"float3 p"`; array lengths may
    /// use parameters), with `align` as `__align__(n)` does.
    ///
    /// # Errors
    /// Unknown types, a name given twice, no fields, an alignment that is no
    /// power of two, a struct too large to address.
    pub fn define(
        &mut self,
        name: &str,
        fields: &[Code],
        align: Option<u64>,
        params: &[(String, ParamValue)],
        span: Span,
    ) -> Result<StructId, Diagnostic> {
        let mut typed = Vec::with_capacity(fields.len());
        for code in fields {
            let (field, ty) = lower::field(code, self, params)?;
            typed.push((field, ty, code.span(0, code.text.len())));
        }
        self.lay_out(name, typed, align, span)
    }

    /// Defines a struct from fields whose types are known.
    ///
    /// # Errors
    /// As [`StructTable::define`].
    pub fn lay_out(
        &mut self,
        name: &str,
        fields: Vec<(String, Type, Span)>,
        align: Option<u64>,
        span: Span,
    ) -> Result<StructId, Diagnostic> {
        if self.by_name(name).is_some() {
            return Err(Diagnostic::new(
                Kind::Type,
                span,
                format!("struct `{name}` is defined twice"),
                "remove or rename one of the definitions",
            ));
        }
        if fields.is_empty() {
            return Err(Diagnostic::new(
                Kind::Type,
                span,
                format!("struct `{name}` has no fields"),
                "give it at least one, such as \"float x\"",
            ));
        }
        let mut layout =
            StructLayout { name: name.to_owned(), fields: Vec::new(), bytes: 0, align: 1 };
        for (field, ty, place) in fields {
            if layout.field(&field).is_some() {
                return Err(Diagnostic::new(
                    Kind::Type,
                    place,
                    format!("struct `{name}` has two fields named `{field}`"),
                    "rename one of them",
                ));
            }
            let align = self.align_of(&ty);
            let offset = layout.bytes.next_multiple_of(align);
            layout.align = layout.align.max(align);
            layout.bytes = offset.saturating_add(self.size_of(&ty));
            if layout.bytes > MAX_BYTES {
                return Err(too_large(place, &format!("struct `{name}`")));
            }
            layout.fields.push(Field { name: field, ty, offset });
        }
        if let Some(align) = align {
            if !align.is_power_of_two() || align > MAX_ALIGN {
                return Err(Diagnostic::new(
                    Kind::Type,
                    span,
                    format!("an alignment of {align} bytes is not possible"),
                    format!("use a power of two from 1 to {MAX_ALIGN}"),
                ));
            }
            layout.align = layout.align.max(align);
        }
        layout.bytes = layout.bytes.next_multiple_of(layout.align);
        self.structs.push(layout);
        Ok(StructId(self.structs.len() - 1))
    }

    /// The struct of this name.
    pub fn by_name(&self, name: &str) -> Option<StructId> {
        self.structs.iter().position(|layout| layout.name == name).map(StructId)
    }

    /// The structs that the scenario file defines.
    pub(crate) fn own(&self) -> &[StructLayout] {
        &self.structs[..self.own.unwrap_or(self.structs.len())]
    }

    /// Takes over `defined`, this table with structs of the kernel file behind.
    pub(crate) fn extend(&mut self, defined: Self) {
        let own = self.own().len();
        *self = Self { own: Some(own), ..defined };
    }

    /// Gives a struct a further name, if it is none.
    pub(crate) fn alias(&mut self, name: &str, id: StructId) {
        if self.by_name(name).is_none() {
            self.aliases.push((name.to_owned(), id));
        }
    }

    /// The struct that has this further name.
    pub(crate) fn by_alias(&self, name: &str) -> Option<StructId> {
        self.aliases.iter().find(|(alias, _)| alias == name).map(|(_, id)| *id)
    }

    /// The layout of a struct of this table.
    pub fn get(&self, id: StructId) -> &StructLayout {
        &self.structs[id.0]
    }

    /// Size in bytes, padding included; 0 for `void`.
    pub fn size_of(&self, ty: &Type) -> u64 {
        match ty {
            Type::Void => 0,
            Type::Scalar(scalar) => scalar.bytes(),
            Type::Vector { element, count } => element.bytes() * u64::from(*count),
            Type::Struct(id) => self.get(*id).bytes,
            Type::Array { element, len } => self.size_of(element).saturating_mul(*len),
            Type::Pointer(_) => 8,
        }
    }

    /// Alignment in bytes; 1 for `void`.
    pub fn align_of(&self, ty: &Type) -> u64 {
        match ty {
            Type::Void => 1,
            Type::Scalar(scalar) => scalar.bytes(),
            Type::Vector { element, count: 3 } => element.bytes(),
            Type::Vector { element, count } => (element.bytes() * u64::from(*count)).min(16),
            Type::Struct(id) => self.get(*id).align,
            Type::Array { element, .. } => self.align_of(element),
            Type::Pointer(_) => 8,
        }
    }

    /// The type as C writes it.
    pub fn name_of(&self, ty: &Type) -> String {
        match ty {
            Type::Void => "void".to_owned(),
            Type::Scalar(scalar) => scalar_name(*scalar).to_owned(),
            Type::Vector { element, count } => vector_name(*element, *count),
            Type::Struct(id) => self.get(*id).name.clone(),
            Type::Array { .. } => {
                let mut element = ty;
                let mut lens = String::new();
                while let Type::Array { element: inner, len } = element {
                    lens.push_str(&format!("[{len}]"));
                    element = inner;
                }
                self.name_of(element) + &lens
            }
            Type::Pointer(pointee) => match &**pointee {
                Type::Array { element, len } => {
                    format!("{} (*)[{len}]", self.name_of(element))
                }
                other => self.name_of(other) + "*",
            },
        }
    }

    /// A type without array lengths, as a buffer's `type` or a template
    /// argument names it: `unsigned int`, `float4`, `Particle`.
    ///
    /// # Errors
    /// A name that is neither a type of CUDA nor a struct of this table.
    pub fn parse_type(&self, code: &Code) -> Result<Type, Diagnostic> {
        lower::type_name(code, self)
    }
}

impl Type {
    /// The scalar of a scalar or vector.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Self::Scalar(scalar) | Self::Vector { element: scalar, .. } => Some(*scalar),
            _ => None,
        }
    }
}

/// The error for an object of more than [`MAX_BYTES`].
pub(crate) fn too_large(span: Span, what: &str) -> Diagnostic {
    Diagnostic::new(
        Kind::Limit,
        span,
        format!("{what} has more than 2^57 bytes, the address space of a GPU"),
        "make an array in it shorter",
    )
}

/// A scalar as C writes it.
pub fn scalar_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::I8 => "char",
        Scalar::U8 => "unsigned char",
        Scalar::I16 => "short",
        Scalar::U16 => "unsigned short",
        Scalar::I32 => "int",
        Scalar::U32 => "unsigned int",
        Scalar::I64 => "long long",
        Scalar::U64 => "unsigned long long",
        Scalar::F16 => "half",
        Scalar::BF16 => "__nv_bfloat16",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
    }
}

/// A vector as CUDA names it.
fn vector_name(element: Scalar, count: u8) -> String {
    let stem = match element {
        Scalar::Bool => "bool",
        Scalar::I8 => "char",
        Scalar::U8 => "uchar",
        Scalar::I16 => "short",
        Scalar::U16 => "ushort",
        Scalar::I32 => "int",
        Scalar::U32 => "uint",
        Scalar::I64 => "longlong",
        Scalar::U64 => "ulonglong",
        Scalar::F16 => "half",
        Scalar::BF16 => "__nv_bfloat16",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
    };
    format!("{stem}{count}")
}

/// Names that suggestions draw on.
pub(crate) const COMMON_NAMES: &[&str] = &[
    "bool",
    "char",
    "short",
    "int",
    "unsigned",
    "long long",
    "unsigned long long",
    "size_t",
    "half",
    "float",
    "double",
    "uchar4",
    "short2",
    "int2",
    "int3",
    "int4",
    "uint2",
    "uint4",
    "longlong2",
    "float2",
    "float3",
    "float4",
    "double2",
    "double4",
];

/// The type that one word names: a keyword, a fixed-width or vector type of
/// CUDA or a type of its headers (`uint`, `half`, `dim3`).
pub(crate) fn type_of_word(word: &str) -> Option<Type> {
    let scalar = match word {
        "void" => return Some(Type::Void),
        "bool" => Scalar::Bool,
        "char" | "int8_t" | "schar" => Scalar::I8,
        "uint8_t" | "uchar" | "u_char" => Scalar::U8,
        "short" | "int16_t" => Scalar::I16,
        "uint16_t" | "ushort" | "u_short" => Scalar::U16,
        "int" | "int32_t" | "signed" => Scalar::I32,
        "uint32_t" | "uint" | "unsigned" | "u_int" | "wchar32_t" | "char32_t" => Scalar::U32,
        "long" | "int64_t" | "ptrdiff_t" | "ssize_t" | "intptr_t" | "intmax_t" | "longlong"
        | "clock_t" => Scalar::I64,
        "uint64_t"
        | "size_t"
        | "uintptr_t"
        | "uintmax_t"
        | "ulong"
        | "ulonglong"
        | "u_long"
        | "cudaTextureObject_t"
        | "cudaSurfaceObject_t" => Scalar::U64,
        "half" | "__half" | "__half_raw" => Scalar::F16,
        "__nv_bfloat16" | "nv_bfloat16" | "bfloat16" => Scalar::BF16,
        "float" => Scalar::F32,
        "double" => Scalar::F64,
        "half2" | "__half2" => return Some(Type::Vector { element: Scalar::F16, count: 2 }),
        "__nv_bfloat162" | "nv_bfloat162" => {
            return Some(Type::Vector { element: Scalar::BF16, count: 2 });
        }
        "dim3" => return Some(Type::Vector { element: Scalar::U32, count: 3 }),
        _ => {
            let stem = word.strip_suffix(['1', '2', '3', '4'])?;
            let count = word.as_bytes()[word.len() - 1] - b'0';
            let element = match stem {
                "char" => Scalar::I8,
                "uchar" => Scalar::U8,
                "short" => Scalar::I16,
                "ushort" => Scalar::U16,
                "int" => Scalar::I32,
                "uint" => Scalar::U32,
                "long" | "longlong" => Scalar::I64,
                "ulong" | "ulonglong" => Scalar::U64,
                "float" => Scalar::F32,
                "double" => Scalar::F64,
                _ => return None,
            };
            return Some(Type::Vector { element, count });
        }
    };
    Some(Type::Scalar(scalar))
}

/// The type that several words name together, in any order, as in
/// `unsigned long long int`; `None` where C has no such type.
pub(crate) fn type_of_words(words: &[&str]) -> Option<Type> {
    if let [word] = words {
        return type_of_word(word);
    }
    let count = |word: &str| words.iter().filter(|&&w| w == word).count();
    let (signed, unsigned) = (count("signed"), count("unsigned"));
    let (short, long) = (count("short"), count("long"));
    let (char, int, double) = (count("char"), count("int"), count("double"));
    if signed + unsigned + short + long + char + int + double != words.len()
        || signed + unsigned > 1
        || int > 1
        || words.is_empty()
    {
        return None;
    }
    let unsigned = unsigned == 1;
    let pick = |s, u| Some(Type::Scalar(if unsigned { u } else { s }));
    match (short, long, char, double, int) {
        (0, 0, 1, 0, 0) => pick(Scalar::I8, Scalar::U8),
        (1, 0, 0, 0, _) => pick(Scalar::I16, Scalar::U16),
        (0, 0, 0, 0, _) => pick(Scalar::I32, Scalar::U32),
        (0, 1 | 2, 0, 0, _) => pick(Scalar::I64, Scalar::U64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::Origin;
    use crate::source::SourceId;

    fn code(text: &str) -> Code {
        Code { text: text.into(), source: SourceId(0), origin: Origin::Offset(0) }
    }

    fn span() -> Span {
        Span::new(SourceId(0), 0, 0)
    }

    #[test]
    fn sizes_and_alignments_are_those_of_the_programming_guide() {
        let table = StructTable::default();
        for (name, bytes, align) in [
            ("bool", 1, 1),
            ("unsigned char", 1, 1),
            ("uchar3", 3, 1),
            ("char4", 4, 4),
            ("short", 2, 2),
            ("ushort3", 6, 2),
            ("short4", 8, 8),
            ("half2", 4, 4),
            ("unsigned", 4, 4),
            ("uint3", 12, 4),
            ("float3", 12, 4),
            ("float4", 16, 16),
            ("long", 8, 8),
            ("long long unsigned int", 8, 8),
            ("longlong2", 16, 16),
            ("ulonglong3", 24, 8),
            ("double", 8, 8),
            ("double2", 16, 16),
            ("double3", 24, 8),
            ("double4", 32, 16),
            ("size_t", 8, 8),
        ] {
            let ty = table.parse_type(&code(name)).expect(name);
            assert_eq!((table.size_of(&ty), table.align_of(&ty)), (bytes, align), "{name}");
        }
    }

    #[test]
    fn structs_are_laid_out_with_padding() {
        let mut table = StructTable::default();
        let fields = [code("char tag"), code("double v"), code("float3 p[2]"), code("short s")];
        let id = table.define("Mixed", &fields, None, &[], span()).unwrap();
        let layout = table.get(id);
        let offsets: Vec<_> =
            layout.fields.iter().map(|field| (field.name.as_str(), field.offset)).collect();
        assert_eq!(offsets, [("tag", 0), ("v", 8), ("p", 16), ("s", 40)]);
        assert_eq!((layout.bytes, layout.align), (48, 8));

        let fields = [code("float x"), code("float y"), code("float z")];
        let id = table.define("Aligned", &fields, Some(16), &[], span()).unwrap();
        assert_eq!((table.get(id).bytes, table.get(id).align), (16, 16));

        let width = ParamValue { ty: Scalar::I32, value: 32 };
        let fields = [code("float x[W]"), code("Aligned a")];
        let id =
            table.define("Blocked", &fields, None, &[("W".to_owned(), width)], span()).unwrap();
        assert_eq!((table.get(id).bytes, table.get(id).align), (144, 16));
    }

    #[test]
    fn bad_structs_are_refused() {
        let mut table = StructTable::default();
        let mut message = |fields: &[&str], align| {
            let fields: Vec<_> = fields.iter().map(|text| code(text)).collect();
            table.define("S", &fields, align, &[], span()).unwrap_err().message
        };
        assert_eq!(message(&[], None), "struct `S` has no fields");
        assert_eq!(message(&["float x", "int x"], None), "struct `S` has two fields named `x`");
        assert_eq!(message(&["float x"], Some(3)), "an alignment of 3 bytes is not possible");
        assert_eq!(message(&["flaot x"], None), "unknown type `flaot`");
    }
}
