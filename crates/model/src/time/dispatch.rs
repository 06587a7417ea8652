//! Blocks are given out one after the other, for all SMs together, and their
//! warps are set up: a launch of short blocks takes as long as that.

use super::{Input, Missing};
use crate::Constant;

pub(super) fn seconds(input: &Input<'_>) -> Result<f64, Missing> {
    let blocks = input.work.blocks * input.get(Constant::BlockDispatch)?;
    let warps = input.work.warps() * input.get(Constant::WarpDispatch)?;
    Ok(blocks + warps)
}
