//! Instruction issue: each SM's schedulers together start so many instructions
//! a clock.

use super::{Input, Missing};
use crate::Constant;

pub(super) fn seconds(input: &Input<'_>) -> Result<f64, Missing> {
    input.at_sm_rate(input.work.instructions, Constant::IssueRate)
}
