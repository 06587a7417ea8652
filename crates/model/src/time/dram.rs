//! DRAM: bytes, by the mix of reads and writes, and lines, by whether they open
//! their granule.

use super::{Input, Missing};
use crate::traffic::LineAccesses;
use crate::{Constant, Kind};

/// Written bytes for each read one up to which every write waits for the bus to turn
/// around. Measured up to this: four stores for each load lose as much a written
/// byte as one for each.
const WRITES_PER_READ: f64 = 4.0;

/// Bytes read and written. Bytes of one kind alone have that kind's rate. Where there
/// are reads as well, writes are held back and sent many at a time, and each time
/// the bus turns around and back: what a written byte takes longer then is what
/// [`Constant::DramMixedRate`], of as many bytes read as written, says.
pub(super) fn bytes(input: &Input<'_>) -> Result<f64, Missing> {
    let (read, written) = (input.moved.dram_read_bytes, input.moved.dram_write_bytes);
    if input.profile.kind == Kind::Specification {
        return input.at_rate(read + written, Constant::DramPeak);
    }
    let alone = |read: f64, written: f64| -> Result<f64, Missing> {
        Ok(input.at_rate(read, Constant::DramReadRate)?
            + input.at_rate(written, Constant::DramWriteRate)?)
    };
    let turned = written.min(WRITES_PER_READ * read);
    if turned <= 0.0 {
        return alone(read, written);
    }
    let turns = input.at_rate(2.0 * turned, Constant::DramMixedRate)? - alone(turned, turned)?;
    Ok(alone(read, written)? + turns.max(0.0))
}

/// Lines: to open a granule takes longer than to go on in an open one, and
/// reads and writes by turns longer than apart.
pub(super) fn openings(input: &Input<'_>) -> Result<f64, Missing> {
    let lines = |lines: LineAccesses, open, further| -> Result<f64, Missing> {
        Ok(input.at_rate(lines.opening, open)? + input.at_rate(lines.further, further)?)
    };
    let moved = input.moved;
    let reads = lines(moved.dram_reads, Constant::DramOpenRate, Constant::DramLineRate)?;
    let writes =
        lines(moved.dram_writes, Constant::DramWriteOpenRate, Constant::DramWriteLineRate)?;
    let both = reads.min(writes);
    let turns = if both > 0.0 { input.get(Constant::DramTurns)? } else { 1.0 };
    Ok(reads + writes + 2.0 * both * (turns - 1.0).max(0.0))
}

/// Bytes read and written by turns alone, as far as there are as many of either.
pub(super) fn by_turns(input: &Input<'_>) -> Result<f64, Missing> {
    let both = input.moved.dram_read_bytes.min(input.moved.dram_write_bytes);
    input.at_rate(2.0 * both, Constant::DramMixedRate)
}
