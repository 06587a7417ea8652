//! The stages of L1 and shared memory in an SM: requests are taken, tags looked
//! up, data passed through the banks.

use super::{Input, Missing};
use crate::Constant;

/// Memory instructions taken by the load/store unit.
pub(super) fn requests(input: &Input<'_>) -> Result<f64, Missing> {
    input.at_sm_rate(input.work.requests, Constant::RequestRate)
}

/// Tag wavefronts.
pub(super) fn tags(input: &Input<'_>) -> Result<f64, Missing> {
    input.at_sm_rate(input.work.tag_wavefronts, Constant::TagRate)
}

/// Data wavefronts of global and shared memory, which have the banks in common.
pub(super) fn data(input: &Input<'_>) -> Result<f64, Missing> {
    input.at_sm_rate(input.work.data_wavefronts, Constant::DataRate)
}

/// Lanes of atomics on shared memory.
pub(super) fn shared_atomics(input: &Input<'_>) -> Result<f64, Missing> {
    input.at_sm_rate(input.work.shared_atomic_lanes, Constant::SharedAtomicRate)
}
