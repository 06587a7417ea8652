//! One warp, one memory instruction, counted on the device.

pub mod kernel;
pub mod placement;
