//! The nouns of the model: lane, mask, operation, warp access.

use core::fmt;

/// Lanes in a warp, on every NVIDIA GPU so far.
pub const WARP_LANES: usize = 32;

/// A byte address: virtual for global and local memory, an offset for shared
/// memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addr(pub u64);

/// Index of a lane in its warp, 0..=31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u8);

/// The lanes that are active and predicated on; bit `i` stands for lane `i`.
/// "No access" is an unset bit, never address 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LaneMask(pub u32);

impl LaneMask {
    /// All 32 lanes.
    pub const FULL: Self = Self(u32::MAX);
    /// No lane: the instruction sends no request.
    pub const EMPTY: Self = Self(0);

    /// Number of lanes in the mask, 0..=32.
    #[inline]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether no lane is on.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `lane` (0..=31) is on.
    #[inline]
    pub const fn contains(self, lane: usize) -> bool {
        lane < WARP_LANES && self.0 >> lane & 1 == 1
    }

    /// The lanes that are on, in ascending order.
    pub fn lanes(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            (rest != 0).then(|| {
                let lane = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                lane
            })
        })
    }
}

/// The memory an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Global memory, through L1TEX to L2 and DRAM.
    Global,
    /// Shared memory, inside the SM. Addresses are offsets in the block's
    /// window.
    Shared,
    /// Local memory: per-thread, interleaved, cached like global memory.
    Local,
}

/// Cache operator of a load or store, as PTX names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheOp {
    /// None written: `.ca` for loads, `.wb` for stores.
    #[default]
    Default,
    /// `.ca`: cache at all levels.
    Ca,
    /// `.cg`: cache in L2, not in L1 (`__ldcg`, `__stcg`).
    Cg,
    /// `.cs`: streaming, evict first (`__ldcs`, `__stcs`).
    Cs,
    /// `.lu`: last use (`__ldlu`).
    Lu,
    /// `.cv`: do not cache, fetch again (`__ldcv`, `volatile`).
    Cv,
    /// `.wb`: write back (`__stwb`).
    Wb,
    /// `.wt`: write through (`__stwt`).
    Wt,
    /// `.nc`: the read-only data path (`__ldg`).
    Nc,
}

/// What an atomic operation does to the word in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum AtomicOp {
    Add,
    Sub,
    Min,
    Max,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    Exch,
    Cas,
}

/// The kind of value an access moves, where the hardware tells them apart
/// (atomics do).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// Bits without arithmetic: plain loads and stores.
    #[default]
    Bits,
    /// Signed integer.
    Signed,
    /// Unsigned integer.
    Unsigned,
    /// One IEEE `f32` or `f64`.
    Float,
    /// A vector of two or more `f32` (sm_90's `red.v2.f32`).
    FloatVector,
    /// IEEE `f16`, alone or packed (`f16x2`) or in vectors of those.
    Half,
    /// `bf16`, alone or packed (`bf16x2`) or in vectors of those.
    BFloat,
    /// 64 bits of which the kernel uses the lower half only: the assembler
    /// makes a 32-bit load of a 64-bit one from shared memory.
    LowWord,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Reads memory into registers.
    Load,
    /// Writes registers to memory.
    Store,
    /// An atomic whose old value nobody uses (PTX `red`).
    Reduction(AtomicOp),
    /// An atomic that returns the old value (PTX `atom`).
    Atomic(AtomicOp),
    /// Copies from global to shared memory without registers (`cp.async`).
    AsyncCopy,
}

/// The operation of a warp access: kind, memory, cache operator, value kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// What it does.
    pub kind: OpKind,
    /// Where it does it. For [`OpKind::AsyncCopy`]: [`Space::Global`].
    pub space: Space,
    /// The cache operator written with it.
    pub cache: CacheOp,
    /// The kind of value, for atomics.
    pub value: ValueKind,
}

impl Op {
    /// A plain global load.
    pub const LOAD: Self = Self::plain(OpKind::Load, Space::Global);
    /// A plain global store.
    pub const STORE: Self = Self::plain(OpKind::Store, Space::Global);
    /// A plain shared-memory load (`lds`).
    pub const SHARED_LOAD: Self = Self::plain(OpKind::Load, Space::Shared);
    /// A plain shared-memory store (`sts`).
    pub const SHARED_STORE: Self = Self::plain(OpKind::Store, Space::Shared);

    /// An operation without a cache operator and of bits.
    pub const fn plain(kind: OpKind, space: Space) -> Self {
        Self { kind, space, cache: CacheOp::Default, value: ValueKind::Bits }
    }

    /// Whether it reads or writes without arithmetic in memory.
    pub const fn is_atomic(self) -> bool {
        matches!(self.kind, OpKind::Reduction(_) | OpKind::Atomic(_))
    }
}

/// One warp executing one memory instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WarpAccess {
    /// The operation.
    pub op: Op,
    /// Bytes a lane: 1, 2, 4, 8, 16 or 32. Vector accesses count whole (a
    /// `float4` load has width 16).
    pub width: u8,
    /// The lanes that take part.
    pub mask: LaneMask,
    /// Byte address of each lane; those of inactive lanes mean nothing.
    pub addresses: [u64; WARP_LANES],
    /// For [`OpKind::AsyncCopy`]: the shared-memory offset each lane copies to.
    pub shared_addresses: Option<[u64; WARP_LANES]>,
}

impl WarpAccess {
    /// An access of all 32 lanes.
    pub const fn new(op: Op, width: u8, addresses: [u64; WARP_LANES]) -> Self {
        Self { op, width, mask: LaneMask::FULL, addresses, shared_addresses: None }
    }

    /// The active lanes with their addresses, in ascending lane order.
    pub fn active(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.mask.lanes().map(|lane| (lane, self.addresses[lane]))
    }
}

impl fmt::Debug for WarpAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} B a lane, mask {:#010x}:", self.op, self.width, self.mask.0)?;
        for (lane, address) in self.active() {
            write!(f, " {lane}:{address:#x}")?;
        }
        Ok(())
    }
}
