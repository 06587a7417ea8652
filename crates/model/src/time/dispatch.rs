//! Blocks are given out one after the other, for all SMs together: a launch of
//! short blocks takes as long as that. How many warps a block has does not
//! matter; what an SM takes to start them is in `latency`.

use super::{Input, Missing};
use crate::Constant;

pub(super) fn seconds(input: &Input<'_>) -> Result<f64, Missing> {
    Ok(input.work.blocks * input.get(Constant::BlockDispatch)?)
}
