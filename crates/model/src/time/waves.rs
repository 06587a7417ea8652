//! How blocks spread over SMs: waves and the tail.
//!
//! Blocks are given out in turn, so the busiest SM has ⌈blocks / SMs⌉ of them.
//! What that is more than an even share is the tail, in which the others have
//! nothing to do.

/// The spread of a launch's blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Waves {
    /// Share of the launch's work that the busiest SM does.
    pub(super) busiest_share: f64,
    /// How many warps one after the other have each place of that SM: at least
    /// one.
    pub(super) turns: f64,
}

impl Waves {
    pub(super) fn of(blocks: f64, sms: f64, blocks_per_sm: f64) -> Self {
        let most = (blocks / sms.max(1.0)).ceil().max(1.0);
        Self {
            busiest_share: most / blocks.max(1.0),
            turns: (most / blocks_per_sm.max(1.0)).max(1.0),
        }
    }

    /// As if every SM had the same share, parts of blocks included.
    pub(super) fn even(blocks: f64, sms: f64, blocks_per_sm: f64) -> Self {
        Self {
            busiest_share: sms.max(1.0).recip(),
            turns: (blocks / sms.max(1.0) / blocks_per_sm.max(1.0)).max(1.0),
        }
    }
}
