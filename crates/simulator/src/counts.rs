//! What the model gives back for one warp access.

use crate::access::WARP_LANES;

/// The counted work of one warp access.
///
/// A quantity that the rule set does not define for this operation is `None`,
/// never 0; what it defines is 0 for an empty mask. All values are per warp
/// instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commands that the instruction sends to L1TEX (or, on CC 1.x–3.0, to the
    /// load/store unit): one on CC ≥ 7.0, one for each group of lanes before.
    /// 0 with an empty mask.
    pub requests: u32,
    /// Sectors that the counter `l1tex__t_sectors` counts. Loads and stores:
    /// distinct sectors of each request. Reductions and atomics: distinct
    /// sectors of each tag round, summed over the rounds, so that a sector can
    /// count more than once.
    pub sectors: Option<u32>,
    /// Tag lookups: distinct lines of each request
    /// (`l1tex__t_set_accesses`).
    pub tags: Option<u32>,
    /// Passes through the tag stage (`l1tex__t_output_wavefronts`).
    pub tag_wavefronts: Option<u32>,
    /// Passes through the data stage, without the one that every kernel shows
    /// (`l1tex__data_pipe_lsu_wavefronts` − 1; for shared memory
    /// `l1tex__data_pipe_lsu_wavefronts_mem_shared`).
    pub data_wavefronts: Option<u32>,
    /// Data wavefronts beyond the first of each lane group
    /// (`l1tex__data_bank_conflicts_pipe_lsu`).
    pub bank_conflicts: Option<u32>,
    /// Sectors that go to L2 when L1 is cold.
    pub l2_sectors: Option<u32>,
    /// Distinct sectors that the warp touches: the set, whatever the hardware
    /// counts.
    pub unique_sectors: Option<u32>,
    /// Width × active lanes, in bytes.
    pub requested_bytes: u32,
    /// Distinct bytes that the active lanes touch.
    pub unique_bytes: u32,
    /// Bytes moved: `sectors` × sector size; on CC 1.x–2.x the sum of the
    /// transactions.
    pub moved_bytes: Option<u32>,
    /// Number of memory transactions, on architectures whose transactions have
    /// several sizes (CC 1.x–2.x). [`RuleSet::transactions`] lists them.
    ///
    /// [`RuleSet::transactions`]: crate::RuleSet::transactions
    pub transactions: Option<u32>,
    /// Whether the counts are believed to be the device's own. `false`: this
    /// class of access (operation, width, stage) is known not to match the
    /// counters always, or nobody has measured it.
    pub exact: bool,
}

impl Counts {
    /// Requested bytes ÷ moved bytes, 1.0 = 100 %. Passes 1 when lanes share
    /// addresses. `None` without moved bytes, or when none moved.
    pub fn requested_efficiency(&self) -> Option<f64> {
        ratio(self.requested_bytes, self.moved_bytes)
    }

    /// Distinct bytes ÷ moved bytes, 1.0 = 100 %, never more. `None` without
    /// moved bytes, or when none moved.
    pub fn unique_efficiency(&self) -> Option<f64> {
        ratio(self.unique_bytes, self.moved_bytes)
    }
}

fn ratio(bytes: u32, moved: Option<u32>) -> Option<f64> {
    moved.filter(|&moved| moved != 0).map(|moved| f64::from(bytes) / f64::from(moved))
}

/// One memory transaction of CC 1.x–2.x: an aligned block of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// First byte.
    pub address: u64,
    /// Size in bytes: 32, 64 or 128.
    pub bytes: u32,
}

/// The transactions of one warp access, in the order in which the rule issues
/// them; at most one a lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transactions {
    items: [Transaction; WARP_LANES],
    len: usize,
}

impl Transactions {
    /// Adds one; a 33rd, which no rule makes, would be dropped.
    pub(crate) fn push(&mut self, transaction: Transaction) {
        if let Some(slot) = self.items.get_mut(self.len) {
            *slot = transaction;
            self.len += 1;
        }
    }

    /// The transactions as a slice.
    pub fn as_slice(&self) -> &[Transaction] {
        &self.items[..self.len]
    }

    /// Sum of their sizes, in bytes.
    pub fn bytes(&self) -> u32 {
        self.as_slice().iter().map(|transaction| transaction.bytes).sum()
    }
}

impl core::ops::Deref for Transactions {
    type Target = [Transaction];

    fn deref(&self) -> &[Transaction] {
        self.as_slice()
    }
}

impl PartialEq for Transactions {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Transactions {}
