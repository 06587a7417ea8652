//! How the 32 lanes of a GPU warp turn one memory instruction into sectors,
//! lines and wavefronts.
#![no_std]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod access;

pub use access::{
    Addr, AtomicOp, CacheOp, Lane, LaneMask, Op, OpKind, Space, ValueKind, WARP_LANES, WarpAccess,
};
