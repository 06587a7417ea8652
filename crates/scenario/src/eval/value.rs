//! Values: one `i64` a thread, plus affine terms over a box, plus the lanes
//! that the model does not know.

use super::lanes::{Lanes, Mask};
use crate::program::{Scalar, ValueType};
use std::rc::Rc;

/// Variables a box can have: three block axes and the loops that run
/// symbolically inside one another.
pub(super) const MAX_VARS: usize = 8;

/// Index of a box variable: 0, 1, 2 are `blockIdx.x`, `.y`, `.z`, then loops
/// from the outermost.
pub(super) type Var = usize;

/// Index of an [`OpaqueReason`](crate::program::OpaqueReason) in the code's
/// table.
pub(super) type ReasonId = u16;

/// Lanes whose value is not known, and why the first of them is not.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Opaque {
    pub(super) mask: Mask,
    pub(super) reason: ReasonId,
}

/// A value of every thread at every point of the box:
/// `base + Σ coefficient·variable`, exactly, within the range of its type.
#[derive(Clone)]
pub(super) struct Value {
    /// Value at the box's first point. Integers are sign- or zero-extended
    /// from their type; `U64` and pointers are reinterpreted.
    pub(super) base: Lanes,
    /// Coefficients, ascending by variable; only variables with more than one
    /// point.
    pub(super) terms: Vec<(Var, Lanes)>,
    /// Lanes in which nothing of this means anything.
    pub(super) opaque: Option<Rc<Opaque>>,
}

impl Value {
    pub(super) fn known(base: Lanes) -> Self {
        Self { base, terms: Vec::new(), opaque: None }
    }

    pub(super) fn uniform(value: i64) -> Self {
        Self::known(Lanes::Uniform(value))
    }

    pub(super) fn opaque(mask: Mask, reason: ReasonId) -> Self {
        Self {
            base: Lanes::Uniform(0),
            terms: Vec::new(),
            opaque: (!mask.is_empty()).then(|| Rc::new(Opaque { mask, reason })),
        }
    }

    /// The opaque lanes.
    pub(super) fn opaque_mask(&self) -> Mask {
        self.opaque.as_ref().map_or(Mask::EMPTY, |opaque| opaque.mask)
    }

    /// Forgets what is opaque outside `mask`.
    pub(super) fn restrict(mut self, mask: &Mask) -> Self {
        if let Some(opaque) = &self.opaque {
            let inside = opaque.mask.and(mask);
            if inside.is_empty() {
                self.opaque = None;
            } else if inside != opaque.mask {
                self.opaque = Some(Rc::new(Opaque { mask: inside, reason: opaque.reason }));
            }
        }
        self
    }

    /// Makes further lanes opaque.
    pub(super) fn obscure(&mut self, mask: &Mask, reason: ReasonId) {
        if mask.is_empty() {
            return;
        }
        let (mask, reason) = match &self.opaque {
            Some(before) => (before.mask.or(mask), before.reason),
            None => (*mask, reason),
        };
        self.opaque = Some(Rc::new(Opaque { mask, reason }));
    }

    /// Makes the lanes opaque that are so in another value.
    pub(super) fn obscure_as(&mut self, other: Option<&Rc<Opaque>>) {
        if let Some(other) = other {
            self.obscure(&other.mask, other.reason);
        }
    }

    /// Whether base and coefficients are the same for all threads.
    pub(super) fn is_uniform(&self) -> bool {
        matches!(self.base, Lanes::Uniform(_))
            && self.terms.iter().all(|(_, c)| matches!(c, Lanes::Uniform(_)))
    }

    /// The coefficient lanes of a variable.
    pub(super) fn coefficient(&self, var: Var) -> Option<&Lanes> {
        self.terms.iter().find(|(v, _)| *v == var).map(|(_, lanes)| lanes)
    }

    /// `self` on the threads of `mask`, `other` elsewhere.
    pub(super) fn merge(self, other: &Value, mask: &Mask, n: usize) -> Self {
        let zero = Lanes::Uniform(0);
        let mut terms = Vec::new();
        if !(self.terms.is_empty() && other.terms.is_empty()) {
            for var in 0..MAX_VARS {
                let (a, b) = (self.coefficient(var), other.coefficient(var));
                if a.is_some() || b.is_some() {
                    let a = a.unwrap_or(&zero).clone();
                    terms.push((var, a.merge(b.unwrap_or(&zero), mask, n)));
                }
            }
        }
        let mut merged =
            Self { base: self.base.merge(&other.base, mask, n), terms, opaque: self.opaque };
        if let Some(opaque) = &other.opaque {
            merged.obscure(&opaque.mask.without(mask), opaque.reason);
        }
        merged
    }
}

/// The integer type behind a value's type: pointers are 64-bit addresses.
pub(super) fn scalar_of(ty: ValueType) -> Scalar {
    match ty {
        ValueType::Int(scalar) => scalar,
        ValueType::Pointer => Scalar::U64,
    }
}

/// Bits of an integer type; 1 for `bool`.
pub(super) fn bits(scalar: Scalar) -> u32 {
    match scalar {
        Scalar::Bool => 1,
        other => other.bytes() as u32 * 8,
    }
}

/// Least and greatest value of an integer type.
pub(super) fn range(scalar: Scalar) -> (i128, i128) {
    let bits = bits(scalar);
    if scalar.is_signed() {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    }
}

/// The value of type `scalar` that equals `value` modulo 2^bits, as it is kept
/// in a lane; to `bool`: whether it is not 0.
#[inline]
pub(super) fn wrap(scalar: Scalar, value: i64) -> i64 {
    match scalar {
        Scalar::Bool => i64::from(value != 0),
        Scalar::I8 => i64::from(value as i8),
        Scalar::U8 => i64::from(value as u8),
        Scalar::I16 => i64::from(value as i16),
        Scalar::U16 | Scalar::F16 | Scalar::BF16 => i64::from(value as u16),
        Scalar::I32 => i64::from(value as i32),
        Scalar::U32 | Scalar::F32 => i64::from(value as u32),
        Scalar::I64 | Scalar::U64 | Scalar::F64 => value,
    }
}

/// The number that a lane of type `scalar` stands for.
#[inline]
pub(super) fn exact(scalar: Scalar, lane: i64) -> i128 {
    if scalar == Scalar::U64 { i128::from(lane as u64) } else { i128::from(lane) }
}

/// C's name of an integer type.
pub(super) fn c_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::I8 => "signed char",
        Scalar::U8 => "unsigned char",
        Scalar::I16 => "short",
        Scalar::U16 => "unsigned short",
        Scalar::I32 => "int",
        Scalar::U32 => "unsigned",
        Scalar::I64 => "long long",
        Scalar::U64 => "unsigned long long",
        Scalar::F16 => "__half",
        Scalar::BF16 => "__nv_bfloat16",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
    }
}
