//! What warps wait for: Little's law, twice.

use super::{Input, Missing, l2};
use crate::{Constant, Workload};

/// Bytes of a sector, on the architectures that have traffic.
const SECTOR_BYTES: f64 = 32.0;

/// Round trips, one after the other: a block's way from start to end, with
/// nobody else on the device, times the blocks that have to share one place of
/// an SM.
pub(super) fn round_trips(input: &Input<'_>) -> Result<f64, Missing> {
    let work = input.work;
    let each = work.instructions / work.warps().max(1.0);
    let mut clocks = together(input, trips_together(work))?;
    if work.global_round_trips > 0.0 {
        clocks += work.global_round_trips * global_latency(input)?;
    }
    if work.shared_round_trips > 0.0 {
        clocks += work.shared_round_trips * input.get(Constant::SharedLatency)?;
    }
    if work.barriers_per_block > 0.0 {
        let each = input.get(Constant::BarrierLatency)?
            + f64::from(work.shape.warps) * input.get(Constant::BarrierWarp)?;
        clocks += work.barriers_per_block * each;
    }
    if work.instructions > 0.0 {
        // A warp starts one instruction a clock at most.
        let chain = work.dependent_instructions * input.get(Constant::InstructionLatency)?;
        clocks += chain.max(each);
    }
    // The launch itself brings the first block.
    let again = input.get(Constant::BlockTurnaround)? * (input.waves.turns - 1.0);
    input.at_rate(clocks * input.waves.turns + again, Constant::SmClock)
}

/// Clocks that a block's warps spend one after the other, where `trips` round trips
/// stand between two barriers: they start as fast as their first instructions are
/// issued, and what they ask for comes through one way.
fn together(input: &Input<'_>, trips: f64) -> Result<f64, Missing> {
    let work = input.work;
    let each = work.instructions / work.warps().max(1.0);
    let first = input.at_rate(each / trips, Constant::IssueRate)?;
    let start = input.get(Constant::WarpStart)?.max(first);
    Ok(f64::from(work.shape.warps) * start + passage(input, trips)?)
}

/// Seconds of the round trips that no barrier is there for, less what warps gain by
/// drifting apart in them; and the share of the
/// round trips that there is one for.
pub(super) fn without_barrier(input: &Input<'_>) -> Result<(f64, f64), Missing> {
    let (trips, barriers) = (input.work.global_round_trips, input.work.barriers_per_block);
    let free = (trips - barriers).max(0.0);
    if free <= 0.0 {
        return Ok((0.0, 1.0));
    }
    let drift = together(input, 1.0)? - together(input, trips_together(input.work))?;
    let clocks = (free * global_latency(input)? - drift) * input.waves.turns;
    Ok((input.at_rate(clocks, Constant::SmClock)?, 1.0 - free / trips))
}

/// Clocks that a block's own sectors and wavefronts take on their way, one after
/// the other: its warps ask at the same time, and it ends with the last of them.
/// Between two barriers that is so for their first round trip; then they drift
/// apart, and each waits for its own.
fn passage(input: &Input<'_>, trips: f64) -> Result<f64, Missing> {
    let (work, moved) = (input.work, input.moved);
    let sent = moved.l2_write_sectors + moved.l2_atomic_sectors;
    let clocks = input.at_rate(moved.l2_read_sectors, Constant::L2ReadRatePerSm)?
        + input.at_rate(sent, Constant::L2WriteRatePerSm)?
        + input.at_rate(work.data_wavefronts, Constant::DataRate)?;
    let own = (1.0 - trips.recip()) / f64::from(work.shape.warps.max(1));
    Ok(clocks / work.blocks.max(1.0) * (trips.recip() + own))
}

/// Round trips between two barriers, at least one.
fn trips_together(work: &Workload) -> f64 {
    (work.global_round_trips / (work.barriers_per_block + 1.0)).max(1.0)
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

/// Of the round trips' seconds, those that are accesses to DRAM.
pub(super) fn on_dram(input: &Input<'_>) -> Result<f64, Missing> {
    let work = input.work;
    if work.global_round_trips <= 0.0 {
        return Ok(0.0);
    }
    let (beyond_l1, beyond_l2) = (misses_l1(input), misses_l2(input));
    let each = beyond_l1 * beyond_l2 * input.get(Constant::DramLatency)?;
    input.at_rate(each * work.global_round_trips * input.waves.turns, Constant::SmClock)
}

/// Clocks of a load's round trip. A warp waits for its slowest lane: for L2
/// where one of a request's sectors misses in L1, for DRAM where one of them
/// misses in L2 too.
fn global_latency(input: &Input<'_>) -> Result<f64, Missing> {
    let l1 = input.get(Constant::L1Latency)?;
    if input.moved.l2_read_sectors <= 0.0 && input.moved.l2_atomic_sectors <= 0.0 {
        return Ok(l1);
    }
    // Requests that miss ask L2 for a line each.
    Ok(l1 + misses_l1(input) * (beyond_l1(input)? - l1).max(0.0))
}

/// Share of a load's round trips that go beyond L1.
fn misses_l1(input: &Input<'_>) -> f64 {
    let work = input.work;
    if input.moved.l2_read_sectors <= 0.0 && input.moved.l2_atomic_sectors <= 0.0 {
        return 0.0;
    }
    if work.load_sectors <= 0.0 {
        return 1.0;
    }
    let together = work.loads_in_flight.max(1.0);
    if let Some(waiting) = input.moved.waiting_share {
        // The misses of loads that are in flight together are as a rule one load's:
        // the others find its sectors, or come to the next ones later.
        return (waiting * together).min(1.0);
    }
    let waited_for = input.moved.l2_read_sectors + input.moved.l1_awaited_sectors;
    let missed = share(waited_for, work.load_sectors);
    let each = work.load_sectors / work.load_requests.max(1.0);
    1.0 - (1.0 - missed).powf(each.max(1.0) * together)
}

/// Clocks of the round trip of a request that misses in L1.
fn beyond_l1(input: &Input<'_>) -> Result<f64, Missing> {
    let l2 = input.get(Constant::L2Latency)?;
    let missed = misses_l2(input);
    if missed <= 0.0 {
        return Ok(l2);
    }
    // Requests of one round trip that go to DRAM: it ends with the slowest.
    let work = input.work;
    let trips = (work.warps() * work.global_round_trips).max(1.0);
    let many = (l2::read_requests(input) / trips
        * share(input.moved.dram_read_bytes, bytes(input)))
    .max(1.0);
    let slowest = input.get(Constant::DramLatency)?
        + many.log2() * input.get(Constant::DramLatencyDoubling)?;
    Ok(l2 + missed * (slowest - l2).max(0.0))
}

/// Bytes read from L2.
fn bytes(input: &Input<'_>) -> f64 {
    SECTOR_BYTES * input.moved.l2_read_sectors
}

/// Share of the round trips beyond L1 that go on to DRAM.
fn misses_l2(input: &Input<'_>) -> f64 {
    let moved = input.moved;
    let awaited = share(moved.l2_awaited_sectors, moved.l2_read_sectors);
    // One access to DRAM is enough for a request, of a line each, to wait for it.
    let access = input.profile.get(Constant::DramAccessBytes).unwrap_or(SECTOR_BYTES);
    let accesses = moved.dram_read_bytes / access.max(SECTOR_BYTES);
    let missed = share(accesses, l2::read_requests(input)).max(awaited);
    let asked = moved.l2_read_sectors / input.work.load_sectors.max(1.0);
    let together = (asked * input.work.loads_in_flight).max(1.0);
    (missed * together).min(1.0)
}

/// `part` of `whole`, at most all of it.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}
