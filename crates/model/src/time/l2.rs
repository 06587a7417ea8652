//! L2's slices, all SMs together: each serves so many requests and sectors.

use super::{Input, Missing};
use crate::Constant;

/// Read requests that L1 sends: the lines asked for, less the share of sectors
/// that hit. Never fewer than whole lines would take, nor more than sectors.
pub(super) fn read_requests(input: &Input<'_>) -> f64 {
    let (work, missed) = (input.work, input.moved.l2_read_sectors);
    if work.load_sectors <= 0.0 {
        return missed / SECTORS_PER_LINE;
    }
    let lines = work.load_lines * (missed / work.load_sectors);
    lines.clamp(missed / SECTORS_PER_LINE, missed)
}

/// Sectors of a line.
const SECTORS_PER_LINE: f64 = 4.0;

/// Sectors read, or requests for them.
pub(super) fn reads(input: &Input<'_>) -> Result<f64, Missing> {
    let sectors = input.at_rate(input.moved.l2_read_sectors, Constant::L2ReadRate)?;
    let requests = input.at_rate(read_requests(input), Constant::L2ReadRequestRate)?;
    Ok(sectors.max(requests))
}

/// Sectors written, or requests with them.
pub(super) fn writes(input: &Input<'_>) -> Result<f64, Missing> {
    let sectors = input.at_rate(input.moved.l2_write_sectors, Constant::L2WriteRate)?;
    let requests = input.at_rate(input.work.store_lines, Constant::L2WriteRequestRate)?;
    Ok(sectors.max(requests))
}

/// Sectors of atomics, or the lanes that meet at one address.
pub(super) fn atomics(input: &Input<'_>) -> Result<f64, Missing> {
    let sectors = input.at_rate(input.moved.l2_atomic_sectors, Constant::L2AtomicRate)?;
    let meeting = input.at_rate(input.work.same_address_lanes, Constant::L2SameAddressRate)?;
    Ok(sectors.max(meeting))
}
