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

/// Requests for sectors. A slice takes up one request at a time and gives out two
/// sectors at a time: one for one or two sectors of a line, whichever they are, takes as
/// long, one for three half as long again, one for four twice as long (measured
/// with random lines in L2).
pub(super) fn reads(input: &Input<'_>) -> Result<f64, Missing> {
    let sectors = input.moved.l2_read_sectors;
    let requests = input.at_rate(read_requests(input), Constant::L2ReadRequestRate)?;
    Ok(requests.max(input.at_rate(sectors, Constant::L2ReadRate)?))
}

/// Requests with sectors. Those of which a part is written are merged with what L2
/// has, and take longer; those that an SM gathers with the next store's go there with
/// it.
pub(super) fn writes(input: &Input<'_>) -> Result<f64, Missing> {
    let moved = input.moved;
    let merged = moved.l2_merged_sectors.min(moved.l2_write_sectors);
    let written = moved.l2_write_sectors - merged;
    let partial = moved.l2_partial_sectors.min(written);
    let rates = [Constant::L2PartialRequestRate, Constant::L2PartialRate];
    let parts = service(input, moved.l2_partial_requests, partial, rates)?;
    let others = moved.l2_partial_requests + moved.l2_merged_requests;
    let requests = (input.work.store_lines - others).max(0.0);
    let rates = [Constant::L2WriteRequestRate, Constant::L2WriteRate];
    Ok(parts + service(input, requests, written - partial, rates)?)
}

/// Bytes that one slice has side by side. Assumed: no benchmark measures it; with
/// it, counting into 256 and into 8192 bins takes as long as it was measured to.
const SLICE_STRETCH_BYTES: f64 = 512.0;

/// Sectors of reductions and atomics that the slices have under way, all together.
/// Assumed: no benchmark measures it; with it, counting into 8192, into 65,536 and
/// into a million bins takes as long as it was measured to.
const ATOMICS_UNDER_WAY: f64 = 1280.0;

/// Reductions and atomics of one access: seconds of the slices were each as busy as
/// the others, and of the busiest one.
///
/// A slice takes a sector in less time than it takes to change one: who comes to a
/// sector that is still being changed waits. That is who finds another lane of
/// its request there before, and by chance whoever comes where there are few
/// sectors. Slices take turns at stretches of memory, so few bins are in few slices,
/// and some slices have one stretch more than the others to change.
fn atomics_of(input: &Input<'_>, atomics: &Atomics) -> Result<[f64; 2], Missing> {
    if atomics.sectors <= 0.0 {
        return Ok([0.0; 2]);
    }
    let met = match atomics.results {
        true => Constant::L2AtomicResultRate,
        false => Constant::L2AtomicRequestRate,
    };
    let one = input.get(Constant::L2SameAddressRate)?;
    // As many as the rate of all of them is that of one.
    let slices = (input.get(Constant::L2AtomicRequestRate)? / one.max(1.0)).max(1.0);
    let stretches = (atomics.bytes / SLICE_STRETCH_BYTES).ceil().max(1.0);
    let sectors = (atomics.bytes / SECTOR_BYTES).max(1.0);
    let by_chance = (ATOMICS_UNDER_WAY / sectors).min(1.0);
    let repeated = (atomics.repeated / atomics.sectors).clamp(0.0, 1.0);
    let waits = 1.0 - (1.0 - repeated) * (1.0 - by_chance);
    let alone = input.at_rate(atomics.sectors, Constant::L2AtomicRate)?;
    let all = alone + waits * (input.at_rate(atomics.sectors, met)? - alone).max(0.0);
    let share = ((stretches / slices).ceil() / stretches).max(slices.recip());
    let busiest = input.at_rate(waits * share * atomics.sectors, Constant::L2SameAddressRate)?;
    Ok([all, busiest])
}

/// Bytes of a sector.
const SECTOR_BYTES: f64 = 32.0;

/// Sectors of atomics: of all slices, or of the one that has most of them.
pub(super) fn atomics(input: &Input<'_>) -> Result<f64, Missing> {
    let (mut all, mut busiest) = (0.0, 0.0_f64);
    for atomics in &input.work.atomics {
        let [even, most] = atomics_of(input, atomics)?;
        all += even;
        busiest = busiest.max(most);
    }
    Ok(all.max(busiest))
}
