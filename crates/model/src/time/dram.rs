//! DRAM: bytes, by the mix of reads and writes, and granules opened.

use super::{Input, Missing};
use crate::{Constant, Kind};

/// Bytes read and written. Bytes of one kind alone have that kind's rate; a read
/// byte and a written one together take what [`Constant::DramMixedRate`] says,
/// for the bus turns around between them.
pub(super) fn bytes(input: &Input<'_>) -> Result<f64, Missing> {
    let (read, written) = (input.moved.dram_read_bytes, input.moved.dram_write_bytes);
    if input.profile.kind == Kind::Specification {
        return input.at_rate(read + written, Constant::DramPeak);
    }
    let both = read.min(written);
    let mixed = input.at_rate(2.0 * both, Constant::DramMixedRate)?;
    let reads = input.at_rate(read - both, Constant::DramReadRate)?;
    let writes = input.at_rate(written - both, Constant::DramWriteRate)?;
    Ok(mixed + reads + writes)
}

/// Granules opened.
pub(super) fn openings(input: &Input<'_>) -> Result<f64, Missing> {
    input.at_rate(input.moved.dram_openings, Constant::DramOpenRate)
}
