//! Instruction issue: each SM's schedulers together start so many instructions
//! a clock; 64-bit products and barriers take the place of several.

use super::{Input, Missing};
use crate::Constant;

pub(super) fn seconds(input: &Input<'_>) -> Result<f64, Missing> {
    let work = input.work;
    let more = |number: f64, of: Constant| -> Result<f64, Missing> {
        if number <= 0.0 {
            return Ok(0.0);
        }
        Ok(number * (input.get(of)? - 1.0).max(0.0))
    };
    let instructions = work.instructions
        + more(work.wide_products, Constant::WideIssue)?
        + more(work.barriers_per_block * work.warps(), Constant::BarrierIssue)?;
    input.at_sm_rate(instructions, Constant::IssueRate)
}
