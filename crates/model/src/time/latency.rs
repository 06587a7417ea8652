//! What warps wait for: Little's law, twice.

use super::{Input, Missing, l2};
use crate::Constant;

/// Bytes of a sector, on the architectures that have traffic.
const SECTOR_BYTES: f64 = 32.0;

/// Round trips, one after the other: a block's way from start to end, with
/// nobody else on the device, times the blocks that have to share one place of
/// an SM.
pub(super) fn round_trips(input: &Input<'_>) -> Result<f64, Missing> {
    let work = input.work;
    let mut clocks = f64::from(work.shape.warps) * input.get(Constant::WarpStart)?;
    clocks += passage(input)?;
    if work.global_round_trips > 0.0 {
        clocks += work.global_round_trips * global_latency(input)?;
    }
    if work.shared_round_trips > 0.0 {
        clocks += work.shared_round_trips * input.get(Constant::SharedLatency)?;
    }
    if work.barriers_per_block > 0.0 {
        clocks += work.barriers_per_block * input.get(Constant::BarrierLatency)?;
    }
    if work.slots > 0.0 {
        let each = work.slots / work.warps().max(1.0);
        clocks += each * input.get(Constant::InstructionLatency)?;
    }
    // The launch itself brings the first block.
    let again = input.get(Constant::BlockTurnaround)? * (input.waves.turns - 1.0);
    input.at_rate(clocks * input.waves.turns + again, Constant::SmClock)
}

/// Clocks that a block's own sectors and wavefronts take on their way, one after
/// the other: its warps ask at the same time, and it ends with the last of them.
fn passage(input: &Input<'_>) -> Result<f64, Missing> {
    let (work, moved) = (input.work, input.moved);
    let sent = moved.l2_write_sectors + moved.l2_atomic_sectors;
    let clocks = input.at_rate(moved.l2_read_sectors, Constant::L2ReadRatePerSm)?
        + input.at_rate(sent, Constant::L2WriteRatePerSm)?
        + input.at_rate(work.data_wavefronts, Constant::DataRate)?;
    Ok(clocks / work.blocks.max(1.0))
}

/// Sectors that an SM can wait for at once: each stays for the latency.
pub(super) fn in_flight(input: &Input<'_>) -> Result<f64, Missing> {
    let sectors = input.moved.l2_read_sectors;
    if sectors <= 0.0 {
        return Ok(0.0);
    }
    let clocks = beyond_l1(input)?;
    input.at_sm_rate(sectors * clocks, Constant::SectorsInFlight)
}

/// Clocks of a load's round trip. A warp waits for its slowest lane: for L2
/// where one of a request's sectors misses in L1, for DRAM where one of them
/// misses in L2 too.
fn global_latency(input: &Input<'_>) -> Result<f64, Missing> {
    let work = input.work;
    let l1 = input.get(Constant::L1Latency)?;
    if input.moved.l2_read_sectors <= 0.0 && input.moved.l2_atomic_sectors <= 0.0 {
        return Ok(l1);
    }
    let waited_for = input.moved.l2_read_sectors + input.moved.l1_awaited_sectors;
    let missed = share(waited_for, work.load_sectors);
    let each = work.load_sectors / work.load_requests.max(1.0);
    let any = if work.load_sectors > 0.0 { 1.0 - (1.0 - missed).powf(each.max(1.0)) } else { 1.0 };
    // Requests that miss ask L2 for a line each.
    Ok(l1 + any * (beyond_l1(input)? - l1).max(0.0))
}

/// Clocks of the round trip of a request that misses in L1.
fn beyond_l1(input: &Input<'_>) -> Result<f64, Missing> {
    let l2 = input.get(Constant::L2Latency)?;
    let bytes = SECTOR_BYTES * input.moved.l2_read_sectors;
    let awaited = share(input.moved.l2_awaited_sectors, input.moved.l2_read_sectors);
    let missed = share(input.moved.dram_read_bytes, bytes).max(awaited);
    if missed <= 0.0 {
        return Ok(l2);
    }
    let each = input.moved.l2_read_sectors / l2::read_requests(input).max(1.0);
    let any = 1.0 - (1.0 - missed).powf(each.max(1.0));
    Ok(l2 + any * (input.get(Constant::DramLatency)? - l2).max(0.0))
}

/// `part` of `whole`, at most all of it.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}
