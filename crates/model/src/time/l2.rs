//! L2's slices, all SMs together: each serves so many requests and sectors.

use super::{Input, Missing};
use crate::Atomics;
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

/// Seconds that requests with `sectors` take: one with a single sector what the
/// rate `of_one` says, one with four of them what the rate `of_four`, in sectors,
/// says, and in between in proportion.
fn service(
    input: &Input<'_>,
    requests: f64,
    sectors: f64,
    [of_one, of_four]: [Constant; 2],
) -> Result<f64, Missing> {
    if sectors <= 0.0 {
        return Ok(0.0);
    }
    let requests = requests.clamp(sectors / SECTORS_PER_LINE, sectors);
    let one = input.at_rate(1.0, of_one)?;
    let more = (input.at_rate(SECTORS_PER_LINE, of_four)? - one).max(0.0);
    Ok(requests * one + (sectors - requests) / (SECTORS_PER_LINE - 1.0) * more)
}

/// Requests for sectors.
pub(super) fn reads(input: &Input<'_>) -> Result<f64, Missing> {
    let rates = [Constant::L2ReadRequestRate, Constant::L2ReadRate];
    service(input, read_requests(input), input.moved.l2_read_sectors, rates)
}

/// Requests with sectors; those of which a part is written are merged with what
/// L2 has, and take longer.
pub(super) fn writes(input: &Input<'_>) -> Result<f64, Missing> {
    let moved = input.moved;
    let partial = moved.l2_partial_sectors.min(moved.l2_write_sectors);
    let rates = [Constant::L2PartialRequestRate, Constant::L2PartialRate];
    let parts = service(input, moved.l2_partial_requests, partial, rates)?;
    let requests = (input.work.store_lines - moved.l2_partial_requests).max(0.0);
    let rates = [Constant::L2WriteRequestRate, Constant::L2WriteRate];
    Ok(parts + service(input, requests, moved.l2_write_sectors - partial, rates)?)
}

/// Seconds that the slice with most sectors of an access needs. Slices take turns
/// at stretches of memory, so few bins are in few of them: with as many slices as
/// the rate of all of them is that of one, some have one stretch more than the
/// others.
fn busiest_slice(input: &Input<'_>, atomics: &Atomics) -> Result<f64, Missing> {
    if atomics.sectors <= 0.0 {
        return Ok(0.0);
    }
    let one = input.get(Constant::L2SameAddressRate)?;
    let slices = (input.get(Constant::L2AtomicRequestRate)? / one.max(1.0)).max(1.0);
    let stretches = (atomics.bytes / SLICE_STRETCH_BYTES).ceil().max(1.0);
    let share = (stretches / slices).ceil() / stretches;
    input.at_rate(atomics.sectors * share.max(slices.recip()), Constant::L2SameAddressRate)
}

/// Bytes that one slice has side by side. Assumed: no benchmark measures it; with
/// it, counting into 256 and into 8192 bins takes as long as it was measured to.
const SLICE_STRETCH_BYTES: f64 = 512.0;

/// Requests of atomics; or the sectors of the slice that has most of them.
pub(super) fn atomics(input: &Input<'_>) -> Result<f64, Missing> {
    let (lines, sectors) = (input.work.atomic_lines, input.moved.l2_atomic_sectors);
    let results = if lines > 0.0 { (input.work.atomic_result_lines / lines).min(1.0) } else { 0.0 };
    let mut sectors_time = 0.0;
    for (share, of_one) in
        [(1.0 - results, Constant::L2AtomicRequestRate), (results, Constant::L2AtomicResultRate)]
    {
        let rates = [of_one, Constant::L2AtomicRate];
        sectors_time += service(input, share * lines, share * sectors, rates)?;
    }
    let mut busiest: f64 = 0.0;
    for atomics in &input.work.atomics {
        busiest = busiest.max(busiest_slice(input, atomics)?);
    }
    Ok(sectors_time.max(busiest))
}
