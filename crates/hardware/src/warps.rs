//! One warp, one memory instruction, counted on the device.

pub mod counters;
pub mod file;
pub mod kernel;
pub mod placement;
