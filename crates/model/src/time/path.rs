//! An SM's way to L2 and back: requests, each of one line, and sectors. Reads
//! come back on wires of their own, so they and writes are terms apart.

use super::{Input, Missing, l2};
use crate::Constant;

/// Sectors that an SM gets, or requests for them.
pub(super) fn reads(input: &Input<'_>) -> Result<f64, Missing> {
    let sectors = input.at_sm_rate(input.moved.l2_read_sectors, Constant::L2ReadRatePerSm)?;
    let requests = input.at_sm_rate(l2::read_requests(input), Constant::L2ReadRequestRatePerSm)?;
    Ok(sectors.max(requests))
}

/// Sectors that an SM sends, or requests for them. Atomics go the same way.
pub(super) fn writes(input: &Input<'_>) -> Result<f64, Missing> {
    let sent = input.moved.l2_write_sectors + input.moved.l2_atomic_sectors;
    let sectors = input.at_sm_rate(sent, Constant::L2WriteRatePerSm)?;
    let requests = input.at_sm_rate(input.work.store_lines, Constant::L2WriteRequestRatePerSm)?;
    Ok(sectors.max(requests))
}
