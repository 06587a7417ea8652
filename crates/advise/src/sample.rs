//! The warp accesses that advice is judged by: those of the whole launch where
//! they are few, else those of blocks spread over it.
//!
//! The blocks of a sample are drawn one from each of equal shares of the launch,
//! at a place that a hash decides, so that no power of two in the grid hides
//! from them; the first and the last are always among them. The same launch has
//! the same sample every time.

use scenario::eval::{Evaluator, Issue, Limits};
use scenario::program::Root;
use scenario::{Diagnostic, Run};
use std::ops::Range;

/// How much is gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Warp accesses to look at, about; whole blocks are taken.
    pub accesses: usize,
    /// Statements of one warp that evaluation may take, in all blocks together.
    pub warp_statements: u64,
}

impl Default for Options {
    /// 2¹⁵ accesses and 2²⁴ statements: well under a second.
    fn default() -> Self {
        Self { accesses: 1 << 15, warp_statements: 1 << 24 }
    }
}

/// How many blocks were looked at, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Blocks gone through.
    pub blocks: u128,
    /// Blocks of the launch.
    pub of: u128,
}

impl Extent {
    /// Whether it is the whole launch.
    pub fn is_whole(self) -> bool {
        self.blocks == self.of
    }

    /// A count of the sample, for the whole launch: exact where the sample is
    /// the launch, else in proportion to the blocks.
    pub fn scale(self, count: u128) -> u128 {
        if self.is_whole() || self.blocks == 0 {
            return count;
        }
        // Counts of a sample are far below 2^63, and so are blocks.
        count.saturating_mul(self.of) / self.blocks
    }
}

/// The accesses of some blocks.
#[derive(Clone, Debug)]
pub struct Sample {
    /// In the order of execution, block by block.
    pub(crate) issues: Vec<Issue>,
    /// The issues of each block.
    pub(crate) blocks: Vec<Range<usize>>,
    /// `blockIdx` of each block.
    pub(crate) places: Vec<[u64; 3]>,
    /// The buffer that all lanes of each issue lie in, if there is one.
    pub(crate) buffers: Vec<Option<usize>>,
    /// How much of the launch it is.
    pub extent: Extent,
}

impl Sample {
    /// Evaluates blocks of a run whose buffers are at `bases`.
    ///
    /// # Errors
    /// What the kernel does wrong in these blocks, or a block that takes too
    /// long to go through.
    pub fn take(run: &Run, bases: &[u64], options: &Options) -> Result<Self, Diagnostic> {
        let evaluator = evaluator(run, bases, options)?;
        let mut sample = Self::empty(run);
        let of = sample.extent.of;
        sample.visit(&evaluator, place(run, 0))?;
        // At least the last block too: it is the one cut by the data's end.
        let each = sample.issues.len().max(1) as u128;
        let blocks = (options.accesses as u128 / each).clamp(2, of.max(2)).min(of);
        for share in 1..blocks {
            let index = if blocks == of {
                share
            } else if share + 1 == blocks {
                of - 1
            } else {
                within_share(share, blocks, of)
            };
            sample.visit(&evaluator, place(run, index))?;
        }
        Ok(sample.with_buffers(run, bases))
    }

    /// Evaluates the blocks at these places: those of another run's sample.
    ///
    /// # Errors
    /// As [`Sample::take`], and blocks that the launch does not have.
    pub fn of_blocks(
        run: &Run,
        bases: &[u64],
        blocks: &[[u64; 3]],
        options: &Options,
    ) -> Result<Self, Diagnostic> {
        let evaluator = evaluator(run, bases, options)?;
        let mut sample = Self::empty(run);
        for block in blocks {
            sample.visit(&evaluator, *block)?;
        }
        Ok(sample.with_buffers(run, bases))
    }

    fn empty(run: &Run) -> Self {
        Self {
            issues: Vec::new(),
            blocks: Vec::new(),
            places: Vec::new(),
            buffers: Vec::new(),
            extent: Extent { blocks: 0, of: run.launch.blocks() },
        }
    }

    fn visit(&mut self, evaluator: &Evaluator<'_>, block: [u64; 3]) -> Result<(), Diagnostic> {
        let start = self.issues.len();
        evaluator.visit_block(block, |issue| self.issues.push(issue.clone()))?;
        self.blocks.push(start..self.issues.len());
        self.places.push(block);
        self.extent.blocks += 1;
        Ok(())
    }

    fn with_buffers(mut self, run: &Run, bases: &[u64]) -> Self {
        let places = Places::new(run, bases);
        self.buffers = self.issues.iter().map(|issue| places.of(run, issue)).collect();
        self
    }
}

fn evaluator<'r>(
    run: &'r Run,
    bases: &[u64],
    options: &Options,
) -> Result<Evaluator<'r>, Diagnostic> {
    let limits = Limits { warp_statements: options.warp_statements, ..Limits::default() };
    Evaluator::new(run, bases, limits)
}

/// `blockIdx` of a block by its number in launch order.
fn place(run: &Run, index: u128) -> [u64; 3] {
    let [x, y, _] = run.launch.grid.map(u128::from);
    [index % x, index / x % y, index / x / y].map(|n| n as u64)
}

/// A place in one of equal shares of the launch.
fn within_share(share: u128, shares: u128, of: u128) -> u128 {
    let (start, end) = (share * of / shares, (share + 1) * of / shares);
    // Knuth's multiplicative hash: spreads without a pattern of a power of two.
    let spread = u128::from((share as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32);
    start + spread % (end - start).max(1)
}

/// The buffers in the order of address.
struct Places {
    /// First byte, one past the last, buffer.
    ranges: Vec<(u64, u64, usize)>,
}

impl Places {
    fn new(run: &Run, bases: &[u64]) -> Self {
        let mut ranges: Vec<_> = run
            .buffers
            .iter()
            .zip(bases)
            .enumerate()
            .map(|(id, (buffer, base))| {
                let first = base.saturating_add(buffer.offset_bytes);
                (first, first.saturating_add(buffer.bytes), id)
            })
            .collect();
        ranges.sort_unstable();
        Self { ranges }
    }

    fn of(&self, run: &Run, issue: &Issue) -> Option<usize> {
        match run.program.sites.get(issue.site.0)?.root {
            Root::Shared(_) => None,
            Root::Buffer(id) => Some(id.0),
            Root::AnyBuffer => {
                let mut lanes = issue.access.active().map(|(_, address)| self.at(address));
                let first = lanes.next()??;
                lanes.all(|other| other == Some(first)).then_some(first)
            }
        }
    }

    fn at(&self, address: u64) -> Option<usize> {
        let after = self.ranges.partition_point(|&(first, ..)| first <= address);
        let &(_, end, id) = self.ranges.get(after.checked_sub(1)?)?;
        (address < end).then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_the_launch_in_order() {
        for (shares, of) in [(2, 3), (7, 100), (128, 1 << 40)] {
            let places: Vec<u128> = (0..shares).map(|i| within_share(i, shares, of)).collect();
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{shares} of {of}");
            assert!(places.iter().all(|&place| place < of));
        }
    }

    #[test]
    fn a_sample_is_scaled_to_the_launch() {
        let extent = Extent { blocks: 4, of: 10 };
        assert_eq!(extent.scale(8), 20);
        assert_eq!(Extent { blocks: 10, of: 10 }.scale(8), 8);
    }
}
