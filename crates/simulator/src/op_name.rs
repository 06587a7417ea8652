//! The text of operations: `ld.cg`, `red` with `atomic` and `type`, `lds` …,
//! as the `warp` lines and the run records spell them.

use core::fmt;

use crate::access::{AtomicOp, CacheOp, Op, OpKind, Space, ValueKind};

/// Every operation name with what it stands for. Atomics stand with `add`
/// here; the `atomic` and `type` texts refine them.
const NAMES: &[(&str, OpKind, Space, CacheOp)] = {
    use CacheOp::*;
    use OpKind::*;
    use Space::*;
    &[
        ("ld", Load, Global, Default),
        ("ld.ca", Load, Global, Ca),
        ("ld.cg", Load, Global, Cg),
        ("ld.cs", Load, Global, Cs),
        ("ld.cv", Load, Global, Cv),
        ("ld.lu", Load, Global, Lu),
        ("ld.nc", Load, Global, Nc),
        ("st", Store, Global, Default),
        ("st.wb", Store, Global, Wb),
        ("st.cg", Store, Global, Cg),
        ("st.cs", Store, Global, Cs),
        ("st.wt", Store, Global, Wt),
        ("red", Reduction(AtomicOp::Add), Global, Default),
        ("atom", Atomic(AtomicOp::Add), Global, Default),
        ("lds", Load, Shared, Default),
        ("sts", Store, Shared, Default),
        ("reds", Reduction(AtomicOp::Add), Shared, Default),
        ("atoms", Atomic(AtomicOp::Add), Shared, Default),
        ("ldl", Load, Local, Default),
        ("stl", Store, Local, Default),
        ("cp.async", AsyncCopy, Global, Default),
    ]
};

const ATOMICS: &[(&str, AtomicOp)] = &[
    ("add", AtomicOp::Add),
    ("sub", AtomicOp::Sub),
    ("min", AtomicOp::Min),
    ("max", AtomicOp::Max),
    ("and", AtomicOp::And),
    ("or", AtomicOp::Or),
    ("xor", AtomicOp::Xor),
    ("inc", AtomicOp::Inc),
    ("dec", AtomicOp::Dec),
    ("exch", AtomicOp::Exch),
    ("cas", AtomicOp::Cas),
];

/// Value types by PTX name, with the whole width in bytes that a lane moves.
const TYPES: &[(&str, ValueKind, u8)] = {
    use ValueKind::*;
    &[
        ("b8", Bits, 1),
        ("b16", Bits, 2),
        ("b32", Bits, 4),
        ("b64", Bits, 8),
        ("b128", Bits, 16),
        ("u8", Unsigned, 1),
        ("u16", Unsigned, 2),
        ("u32", Unsigned, 4),
        ("u64", Unsigned, 8),
        ("s8", Signed, 1),
        ("s16", Signed, 2),
        ("s32", Signed, 4),
        ("s64", Signed, 8),
        ("f32", Float, 4),
        ("f64", Float, 8),
        ("f16", Half, 2),
        ("f16x2", Half, 4),
        ("v2.f16x2", Half, 8),
        ("v4.f16x2", Half, 16),
        ("bf16", BFloat, 2),
        ("bf16x2", BFloat, 4),
        ("v2.bf16x2", BFloat, 8),
        ("v4.bf16x2", BFloat, 16),
        ("v2.f32", FloatVector, 8),
        ("v4.f32", FloatVector, 16),
    ]
};

/// Other spellings of the types above, as PTX also allows them.
const TYPE_ALIASES: &[(&str, &str)] = &[
    ("v2.f16", "f16x2"),
    ("v4.f16", "v2.f16x2"),
    ("v8.f16", "v4.f16x2"),
    ("v2.bf16", "bf16x2"),
    ("v4.bf16", "v2.bf16x2"),
    ("v8.bf16", "v4.bf16x2"),
];

/// Why a text names no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpNameError<'t> {
    /// No such `op`.
    UnknownOp(&'t str),
    /// No such `atomic`.
    UnknownAtomic(&'t str),
    /// No such `type`.
    UnknownType(&'t str),
    /// `atomic` beside an operation that is none.
    NotAtomic {
        /// The operation as written.
        op: &'t str,
        /// The `atomic` text.
        atomic: &'t str,
    },
    /// A type whose size is not the access's width.
    TypeWidth {
        /// The type as written.
        value_type: &'t str,
        /// Its size in bytes.
        bytes: u8,
        /// The width given, in bytes a lane.
        width: u8,
    },
}

impl fmt::Display for OpNameError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<'a>(
            f: &mut fmt::Formatter<'_>,
            names: impl Iterator<Item = &'a str>,
        ) -> fmt::Result {
            for (index, name) in names.enumerate() {
                write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
            }
            Ok(())
        }
        match self {
            Self::UnknownOp(op) => {
                write!(f, "unknown op \"{op}\"; known: ")?;
                list(f, NAMES.iter().map(|entry| entry.0))
            }
            Self::UnknownAtomic(atomic) => {
                write!(f, "unknown atomic \"{atomic}\"; known: ")?;
                list(f, ATOMICS.iter().map(|entry| entry.0))
            }
            Self::UnknownType(value_type) => {
                write!(f, "unknown type \"{value_type}\"; known: ")?;
                list(f, TYPES.iter().map(|entry| entry.0))
            }
            Self::NotAtomic { op, atomic } => write!(
                f,
                "op \"{op}\" takes no atomic (\"{atomic}\" is given); red, atom, reds and atoms do"
            ),
            Self::TypeWidth { value_type, bytes, width } => {
                write!(f, "type \"{value_type}\" has {bytes} bytes, but width is {width}")
            }
        }
    }
}

impl core::error::Error for OpNameError<'_> {}

impl Op {
    /// The operation that `op` (with `atomic` and `type` where given) names,
    /// for lanes of `width` bytes.
    ///
    /// An atomic without `atomic` adds; without `type` it is unsigned. Loads,
    /// stores and copies take any vector of a scalar (`v4.f32`), or the scalar
    /// alone when a whole number of them makes the width.
    ///
    /// An `lds` of 8 bytes without `type` stands for what those of the recorded
    /// warps without one executed ([`ValueKind::LowWord`]): their kernels used
    /// the lower halves alone, and the banks were read for 4 bytes a lane. With
    /// any type (`b64`, `v2.f32`) it is the full load.
    ///
    /// ```
    /// use coalescope_simulator::{Op, OpKind, AtomicOp, ValueKind};
    /// let op = Op::parse("red", Some("max"), Some("f32"), 4).unwrap();
    /// assert_eq!(op.kind, OpKind::Reduction(AtomicOp::Max));
    /// assert_eq!(op.value, ValueKind::Float);
    /// assert_eq!((op.name(), op.atomic_name(), op.type_name(4)), ("red", Some("max"), Some("f32")));
    /// ```
    pub fn parse<'t>(
        op: &'t str,
        atomic: Option<&'t str>,
        value_type: Option<&'t str>,
        width: u8,
    ) -> Result<Self, OpNameError<'t>> {
        let &(_, kind, space, cache) =
            NAMES.iter().find(|entry| entry.0 == op).ok_or(OpNameError::UnknownOp(op))?;
        let kind = match (kind, atomic) {
            (_, None) => kind,
            (OpKind::Reduction(_), Some(text)) => OpKind::Reduction(parse_atomic(text)?),
            (OpKind::Atomic(_), Some(text)) => OpKind::Atomic(parse_atomic(text)?),
            (_, Some(atomic)) => return Err(OpNameError::NotAtomic { op, atomic }),
        };
        let mut parsed = Self { kind, space, cache, value: ValueKind::Bits };
        parsed.value = match value_type {
            Some(text) if parsed.is_atomic() => parse_type(text, width)?,
            Some(text) => parse_vector_type(text, width)?,
            None if parsed.is_atomic() => ValueKind::Unsigned,
            None if (kind, space, width) == (OpKind::Load, Space::Shared, 8) => ValueKind::LowWord,
            None => ValueKind::Bits,
        };
        Ok(parsed)
    }

    /// Its `op` text. Combinations that PTX does not have (a shared load with
    /// a cache operator) go by the name without what is too much.
    pub fn name(&self) -> &'static str {
        NAMES[self.index() as usize].0
    }

    /// Its `atomic` text; `None` for an operation that is no atomic.
    pub fn atomic_name(&self) -> Option<&'static str> {
        let (OpKind::Reduction(atomic) | OpKind::Atomic(atomic)) = self.kind else { return None };
        ATOMICS.iter().find(|entry| entry.1 == atomic).map(|entry| entry.0)
    }

    /// Its `type` text for lanes of `width` bytes; `None` where PTX has no
    /// scalar or atomic vector of that kind and width.
    pub fn type_name(&self, width: u8) -> Option<&'static str> {
        TYPES.iter().find(|entry| entry.1 == self.value && entry.2 == width).map(|entry| entry.0)
    }

    /// Its place among [`Op::names`].
    #[inline(always)]
    pub(crate) fn index(&self) -> u32 {
        // By cache operator, in the order of `CacheOp`.
        const LOADS: [u8; 9] = [0, 1, 2, 3, 5, 4, 0, 0, 6];
        const STORES: [u8; 9] = [7, 7, 9, 10, 7, 7, 8, 11, 7];
        let global = matches!(self.space, Space::Global);
        let of = |kind: u32, shared: u32, local: u32| match self.space {
            Space::Shared => shared,
            Space::Local => local,
            Space::Global => kind,
        };
        match self.kind {
            OpKind::Load if global => LOADS[self.cache as usize] as u32,
            OpKind::Store if global => STORES[self.cache as usize] as u32,
            OpKind::Load => of(0, 14, 18),
            OpKind::Store => of(7, 15, 19),
            OpKind::Reduction(_) => of(12, 16, 12),
            OpKind::Atomic(_) => of(13, 17, 13),
            OpKind::AsyncCopy => 20,
        }
    }

    /// All `op` texts.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|entry| entry.0)
    }
}

impl AtomicOp {
    /// The operation that an `atomic` text names.
    pub fn parse(text: &str) -> Option<Self> {
        ATOMICS.iter().find(|entry| entry.0 == text).map(|entry| entry.1)
    }
}

impl ValueKind {
    /// The kind of value that a `type` text names, and its size in bytes.
    pub fn parse(text: &str) -> Option<(Self, u8)> {
        let canonical =
            TYPE_ALIASES.iter().find(|alias| alias.0 == text).map_or(text, |alias| alias.1);
        TYPES.iter().find(|entry| entry.0 == canonical).map(|entry| (entry.1, entry.2))
    }
}

fn parse_atomic(text: &str) -> Result<AtomicOp, OpNameError<'_>> {
    AtomicOp::parse(text).ok_or(OpNameError::UnknownAtomic(text))
}

fn parse_type(text: &str, width: u8) -> Result<ValueKind, OpNameError<'_>> {
    let (kind, bytes) = ValueKind::parse(text).ok_or(OpNameError::UnknownType(text))?;
    if bytes == width {
        Ok(kind)
    } else {
        Err(OpNameError::TypeWidth { value_type: text, bytes, width })
    }
}

/// The type of a plain access: a scalar, or `v2.`, `v4.`, `v8.` and a scalar.
fn parse_vector_type(text: &str, width: u8) -> Result<ValueKind, OpNameError<'_>> {
    let (lanes, scalar) = [("v2.", 2), ("v4.", 4), ("v8.", 8)]
        .into_iter()
        .find_map(|(prefix, count)| Some((Some(count), text.strip_prefix(prefix)?)))
        .unwrap_or((None, text));
    let &(_, kind, bytes) =
        TYPES.iter().find(|entry| entry.0 == scalar).ok_or(OpNameError::UnknownType(text))?;
    let fits = match lanes {
        Some(count) => bytes.checked_mul(count) == Some(width),
        None => width.checked_rem(bytes) == Some(0) && width != 0,
    };
    let bytes = lanes.map_or(bytes, |count| bytes.saturating_mul(count));
    if fits { Ok(kind) } else { Err(OpNameError::TypeWidth { value_type: text, bytes, width }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_name_comes_back() {
        for (index, name) in Op::names().enumerate() {
            let op = Op::parse(name, None, None, 4).unwrap();
            assert_eq!(op.index(), index as u32);
            assert_eq!(op.name(), name);
        }
    }

    #[test]
    fn every_atomic_and_type_comes_back() {
        for &(atomic, _) in ATOMICS {
            for &(value_type, _, width) in TYPES {
                let op = Op::parse("atom", Some(atomic), Some(value_type), width).unwrap();
                assert_eq!(op.atomic_name(), Some(atomic));
                assert_eq!(op.type_name(width), Some(value_type));
            }
        }
    }

    #[test]
    fn aliases_name_known_types() {
        for &(alias, canonical) in TYPE_ALIASES {
            let width = TYPES.iter().find(|entry| entry.0 == canonical).unwrap().2;
            assert_eq!(parse_type(alias, width), parse_type(canonical, width));
        }
    }

    #[test]
    fn plain_accesses_take_vectors() {
        let value = |text, width| Op::parse("ld", None, Some(text), width).map(|op| op.value);
        assert_eq!(value("v4.f32", 16), Ok(ValueKind::Float));
        assert_eq!(value("u64", 16), Ok(ValueKind::Unsigned));
        assert_eq!(value("f32", 16), Ok(ValueKind::Float));
        assert_eq!(
            value("v2.f32", 16).unwrap_err().to_string(),
            "type \"v2.f32\" has 8 bytes, but width is 16"
        );
        assert!(value("u64", 4).is_err());
        assert!(value("u32", 0).is_err());
    }

    #[test]
    fn errors_carry_the_values() {
        let text = |error: OpNameError| error.to_string();
        assert!(text(Op::parse("ldx", None, None, 4).unwrap_err()).starts_with(
            "unknown op \"ldx\"; known: ld, ld.ca, ld.cg, ld.cs, ld.cv, ld.lu, ld.nc, st"
        ));
        assert_eq!(
            text(Op::parse("ld", Some("add"), None, 4).unwrap_err()),
            "op \"ld\" takes no atomic (\"add\" is given); red, atom, reds and atoms do"
        );
        assert_eq!(
            text(Op::parse("red", Some("add"), Some("f64"), 4).unwrap_err()),
            "type \"f64\" has 8 bytes, but width is 4"
        );
        assert!(
            text(Op::parse("red", Some("nand"), None, 4).unwrap_err())
                .starts_with("unknown atomic \"nand\"; known: add, sub")
        );
        assert!(
            text(Op::parse("red", None, Some("q8"), 4).unwrap_err())
                .starts_with("unknown type \"q8\"; known: b8, b16")
        );
    }
}
