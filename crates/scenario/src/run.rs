//! One run of a scenario: variant and sweep point settled, program typed.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::program::{BufferId, Expr, Program, Scalar};
use crate::source::{Sources, Span};
use crate::types::{StructTable, Type};
use std::fmt;
use std::sync::Arc;

/// A parameter's value; typed by its size unless the file says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamValue {
    /// `I32`, `U32`, `I64`, `U64` or `Bool`; `F32` or `F64` for a parameter
    /// that a kernel takes as a factor, which decides no address.
    pub ty: Scalar,
    /// Value; the bits of a `U64` above `i64::MAX` are reinterpreted, and those
    /// of `F32` and `F64` are the bits of the value as an `f64`.
    pub value: i64,
}

impl ParamValue {
    /// An integer, as `int`, else `long long`, else `unsigned long long`:
    /// the first that it fits in, if there is one.
    pub fn of_integer(value: i128) -> Option<Self> {
        [Scalar::I32, Scalar::I64, Scalar::U64].into_iter().find_map(|ty| Self::of_type(ty, value))
    }

    /// An integer as a value of the integer type `ty`, where it fits.
    pub fn of_type(ty: Scalar, value: i128) -> Option<Self> {
        let fits = match ty {
            Scalar::Bool => (0..=1).contains(&value),
            Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64 => false,
            Scalar::U64 => u64::try_from(value).is_ok(),
            _ => {
                let bits = 8 * ty.bytes();
                let (least, most) = if ty.is_signed() {
                    (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
                } else {
                    (0, (1_i128 << bits) - 1)
                };
                (least..=most).contains(&value)
            }
        };
        // Values of `U64` above `i64::MAX` keep their bits.
        fits.then_some(Self { ty, value: value as i64 })
    }

    /// A floating-point value; `ty` is `F32` or `F64`.
    pub fn of_float(ty: Scalar, value: f64) -> Self {
        let value = if ty == Scalar::F32 { f64::from(value as f32) } else { value };
        Self { ty, value: value.to_bits() as i64 }
    }

    /// The integer, where it is one.
    pub fn integer(self) -> Option<i128> {
        match self.ty {
            Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64 => None,
            Scalar::U64 => Some(i128::from(self.value as u64)),
            _ => Some(i128::from(self.value)),
        }
    }

    /// The value as a floating-point number, where it is one.
    pub fn float(self) -> Option<f64> {
        self.ty.is_float().then(|| f64::from_bits(self.value as u64))
    }
}

/// As a person writes it: `1024`, `true`, `0.5`.
impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ty, self.integer(), self.float()) {
            (Scalar::Bool, ..) => write!(f, "{}", self.value != 0),
            (_, Some(integer), _) => write!(f, "{integer}"),
            (Scalar::F32, _, Some(float)) => write!(f, "{:?}", float as f32),
            (_, _, Some(float)) => write!(f, "{float:?}"),
            _ => write!(f, "{}", self.value),
        }
    }
}

/// Grid, block and resources of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks on x, y, z; each at least 1.
    pub grid: [u64; 3],
    /// Threads a block on x, y, z; at most 1024 together.
    pub block: [u32; 3],
    /// Registers a thread, where the scenario states them.
    pub registers: Option<u32>,
    /// Dynamic shared memory, bytes.
    pub dynamic_shared_bytes: u64,
}

impl Launch {
    /// Threads in a block.
    pub fn threads_per_block(&self) -> u32 {
        self.block.iter().product()
    }

    /// Warps in a block, the last one possibly partial.
    pub fn warps_per_block(&self) -> u32 {
        self.threads_per_block().div_ceil(32)
    }

    /// Blocks in the grid.
    pub fn blocks(&self) -> u128 {
        self.grid.iter().map(|&n| u128::from(n)).product()
    }
}

/// Where a buffer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The device's own memory.
    Device,
    /// Page-locked host memory, read over the bus.
    Pinned,
}

/// What the integers in a buffer are.
#[derive(Clone, Debug)]
pub enum Contents {
    /// Not given: values are opaque.
    Unknown,
    /// A function of the flat element index: [`crate::program::Builtin`] and
    /// locals don't occur; local 0 is `i`, of type `I64`.
    Computed(Arc<Expr>),
    /// Read from a file: at least one value for each element, by flat index.
    Listed(Arc<[i64]>),
}

/// A buffer of a run.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its name in the file.
    pub name: String,
    /// The element type as the file writes it (`float`, `float4`, `Particle`).
    pub type_name: String,
    /// The element type; its structs are those of [`Run::structs`].
    pub ty: Type,
    /// Bytes of an element, padding included.
    pub element_bytes: u64,
    /// The scalar, where the element is one or a vector of one.
    pub scalar: Option<Scalar>,
    /// Elements along each axis, outermost first.
    pub shape: Vec<u64>,
    /// Bytes from one row to the next, where rows are padded.
    pub pitch: Option<u64>,
    /// Bytes between the allocation's base and the first element.
    pub offset_bytes: u64,
    /// Bytes of the allocation after `offset_bytes`.
    pub bytes: u64,
    /// Where it lives.
    pub memory: Memory,
    /// Its integers.
    pub contents: Contents,
    /// Its definition in the file.
    pub span: Span,
}

/// A waiver of `coalescope check`.
#[derive(Clone, Debug, PartialEq)]
pub struct Allow {
    /// Label of the access it is for.
    pub label: String,
    /// Efficiency it may fall to; 1.0 is 100 %.
    pub min_efficiency: Option<f64>,
    /// Bank conflicts a request it may have.
    pub max_conflicts: Option<f64>,
    /// Why.
    pub reason: String,
    /// The entry in the file.
    pub span: Span,
}

/// A scenario × variant × sweep point.
#[derive(Clone, Debug)]
pub struct Run {
    /// File name without its extension.
    pub scenario: String,
    /// Title from the file.
    pub title: String,
    /// Name of the variant, where the file has variants.
    pub variant: Option<String>,
    /// All parameters in the file's order, evaluated.
    pub params: Vec<(String, ParamValue)>,
    /// Names of the parameters that the sweep varies.
    pub swept: Vec<String>,
    /// The launch.
    pub launch: Launch,
    /// The buffers, in the file's order; [`crate::program::BufferId`] indexes
    /// them.
    pub buffers: Vec<Buffer>,
    /// Layouts of the structs that buffers and shared arrays hold.
    pub structs: StructTable,
    /// The typed kernel.
    pub program: Program,
    /// Waivers.
    pub allows: Vec<Allow>,
    /// Numbers of the tutorial claims that this scenario judges.
    pub claims: Vec<u32>,
    /// The texts that spans point into.
    pub sources: Arc<Sources>,
    /// What `emit --cuda` prints: see [`KernelText`].
    pub kernel: KernelText,
}

/// The kernel's source as CUDA C++ wants it.
#[derive(Clone, Debug)]
pub struct KernelText {
    /// Struct definitions of the scenario, CUDA C.
    pub structs: String,
    /// Either a whole `.cu` file's text or the statements of a body.
    pub code: Arc<str>,
    /// The entry function in `code`, where it is a file or contains whole
    /// functions; `None` where `code` is a body.
    pub entry: Option<String>,
    /// The names of the entry's parameters, in order.
    pub parameters: Vec<String>,
    /// What each of them is bound to.
    pub arguments: Vec<Argument>,
}

/// What a parameter of the kernel is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A pointer to the first element of the buffer of its name.
    Buffer(BufferId),
    /// The value of the scenario's parameter of its name.
    Param(ParamValue),
    /// A number of bytes: the pitch of the scenario's one pitched buffer.
    Pitch(u64),
    /// The buffer of its name as `cudaMalloc3D` describes it
    /// (`cudaPitchedPtr`).
    PitchedBuffer(BufferId),
    /// Nothing: a floating-point number or vector, which decides no address.
    Any,
}

impl Run {
    /// Variant and sweep point in words: `padded, stride = 2`; empty where the
    /// scenario has one run only.
    pub fn label(&self) -> String {
        let point = self.params.iter().filter(|(name, _)| self.swept.contains(name));
        let point = point.map(|(name, value)| format!("{name} = {value}"));
        self.variant.iter().cloned().chain(point).collect::<Vec<_>>().join(", ")
    }

    /// An error of this run (of its evaluation, say), with the run's name and
    /// the texts that it points into.
    pub fn fail(&self, error: Diagnostic) -> Diagnostics {
        let error = match self.label().as_str() {
            "" => error,
            label => error.note(format!("in the run: {label}")),
        };
        Diagnostics::new(Arc::clone(&self.sources), vec![error])
    }

    /// Base addresses assumed when no device says otherwise: each buffer starts
    /// at the next multiple of 2 MiB (the granularity at which the driver maps
    /// large allocations), from 0x7000_0000_0000 on.
    pub fn assumed_bases(&self) -> Vec<u64> {
        const GRANULE: u64 = 2 << 20;
        let mut next = 0x7000_0000_0000_u64;
        self.buffers
            .iter()
            .map(|buffer| {
                let base = next;
                let end =
                    base.saturating_add(buffer.offset_bytes).saturating_add(buffer.bytes.max(1));
                next = end.saturating_add(GRANULE - 1) / GRANULE * GRANULE;
                base
            })
            .collect()
    }
}
