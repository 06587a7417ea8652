//! How the 32 lanes of a GPU warp turn one memory instruction into sectors,
//! lines and wavefronts.
//!
//! **What it models.** One warp executes one memory instruction, a
//! [`WarpAccess`]: an operation, a width in bytes, the lanes that are on, and
//! their addresses. A [`RuleSet`] is what one compute capability does with it:
//! [`RuleSet::count`] gives the [`Counts`] that the device's own counters
//! show, [`RuleSet::explain`] says which lane goes where. Both are pure
//! functions: no input or output, no state, and no allocation in `count`.
//!
//! ```
//! use coalescope_simulator::{Op, RuleSet, WarpAccess};
//!
//! let rules = RuleSet::for_arch("9.0").unwrap();
//! // Each lane reads a float, two floats apart.
//! let access = WarpAccess::new(Op::LOAD, 4, std::array::from_fn(|lane| lane as u64 * 8));
//! rules.check(&access)?;
//! let counts = rules.count(&access);
//! assert_eq!(counts.sectors, Some(8));
//! assert_eq!(counts.tags, Some(2));
//! assert_eq!(counts.unique_efficiency(), Some(0.5));
//! # Ok::<(), coalescope_simulator::AccessError>(())
//! ```
//!
//! **Its nouns.**
//!
//! | noun | meaning |
//! |---|---|
//! | [lane](Lane), [mask](LaneMask) | one of the 32 places in a warp; those that are on |
//! | request | the command that the instruction sends to the cache: one on CC ≥ 7.0 |
//! | line, tag | an aligned 128-byte block; its key, looked up once a request |
//! | sector | an aligned 32-byte block, the unit of traffic |
//! | wavefront | what passes one stage in one cycle: `tag_wavefronts`, `data_wavefronts` |
//! | bank conflict | a data wavefront beyond the first of its lane group |
//!
//! The sizes are those of today's devices. Everything that differs between
//! architectures is data: `arch/*.toml`, in the form that [`rules`] documents.
//! The stages of the pipeline are one file each (`src/stages/`), and say what
//! was measured and on how many records.
//!
//! **What it leaves out.** Time, cache hits, and what two instructions do to
//! each other: counts are those of one access with a cold cache. Textures,
//! tensor-map copies, `ldmatrix` and distributed shared memory are not
//! modelled.
//!
//! Without the default features the crate needs no `std`, only `alloc`.
#![no_std]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;
// The generators of `tests/common` serve the unit tests too.
#[cfg(test)]
extern crate self as coalescope_simulator;

pub mod access;
pub mod affine;
#[cfg(feature = "batch")]
pub mod batch;
mod check;
mod count;
pub mod counts;
pub mod explain;
mod fast;
mod op_name;
pub mod rules;
mod stages;
pub mod totals;

pub use access::{
    Addr, AtomicOp, CacheOp, Lane, LaneMask, Op, OpKind, Space, ValueKind, WARP_LANES, WarpAccess,
};
pub use affine::{AffineAccess, AffineCounts, AffineError, AffineTerm, Stages};
#[cfg(feature = "batch")]
pub use batch::{BatchCounts, BatchError};
pub use check::{AccessError, LOCAL_BYTES};
pub use counts::{Counts, Transaction, Transactions};
pub use explain::Explanation;
pub use op_name::OpNameError;
pub use rules::{Evidence, RuleError, RuleSet};
pub use totals::{Field, Totals};
