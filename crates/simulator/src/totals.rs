//! Sums of [`Counts`] over many warps.
//!
//! A field that a rule set does not define for a summand is absent from the
//! sum too: a total never mixes what was counted with what was not.
//!
//! ```
//! use coalescope_simulator::{Op, RuleSet, Totals, WarpAccess};
//!
//! let rules = RuleSet::for_arch("9.0").unwrap();
//! // One warp reads 32 floats in a row, another reads every second one.
//! let mut totals = Totals::default();
//! for stride in [4, 8] {
//!     let access = WarpAccess::new(Op::LOAD, 4, std::array::from_fn(|lane| lane as u64 * stride));
//!     totals.add(&rules.count(&access));
//! }
//! assert_eq!((totals.instructions, totals.requests), (2, Some(2)));
//! assert_eq!(totals.sectors, Some(4 + 8));
//! assert_eq!(totals.unique_efficiency(), Some(256.0 / 384.0));
//! assert_eq!(totals.per_request(coalescope_simulator::Field::Sectors), Some(6.0));
//! ```

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::access::{Op, Space};
use crate::counts::Counts;

/// A summable quantity of [`Counts`], by the name that `warp` lines and run
/// records give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // each is the field of `Counts` of the same name
pub enum Field {
    Requests,
    Sectors,
    Tags,
    TagWavefronts,
    DataWavefronts,
    BankConflicts,
    L2Sectors,
    UniqueSectors,
    RequestedBytes,
    UniqueBytes,
    MovedBytes,
    /// [`Counts::transactions`], the number of them.
    Transactions,
}

impl Field {
    /// All of them, in the order in which records list them.
    pub const ALL: [Self; 12] = [
        Self::Requests,
        Self::Sectors,
        Self::Tags,
        Self::TagWavefronts,
        Self::DataWavefronts,
        Self::BankConflicts,
        Self::L2Sectors,
        Self::UniqueSectors,
        Self::RequestedBytes,
        Self::UniqueBytes,
        Self::MovedBytes,
        Self::Transactions,
    ];

    /// The name in records: `tag_wavefronts`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Sectors => "sectors",
            Self::Tags => "tags",
            Self::TagWavefronts => "tag_wavefronts",
            Self::DataWavefronts => "data_wavefronts",
            Self::BankConflicts => "bank_conflicts",
            Self::L2Sectors => "l2_sectors",
            Self::UniqueSectors => "unique_sectors",
            Self::RequestedBytes => "requested_bytes",
            Self::UniqueBytes => "unique_bytes",
            Self::MovedBytes => "moved_bytes",
            Self::Transactions => "transactions",
        }
    }

    /// The field of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }

    /// Its value for one warp; `None` where the rule set does not define it.
    #[inline]
    pub fn of(self, counts: &Counts) -> Option<u32> {
        match self {
            Self::Requests => Some(counts.requests),
            Self::Sectors => counts.sectors,
            Self::Tags => counts.tags,
            Self::TagWavefronts => counts.tag_wavefronts,
            Self::DataWavefronts => counts.data_wavefronts,
            Self::BankConflicts => counts.bank_conflicts,
            Self::L2Sectors => counts.l2_sectors,
            Self::UniqueSectors => counts.unique_sectors,
            Self::RequestedBytes => Some(counts.requested_bytes),
            Self::UniqueBytes => Some(counts.unique_bytes),
            Self::MovedBytes => counts.moved_bytes,
            Self::Transactions => counts.transactions,
        }
    }

    /// Whether accesses to `space` have this quantity: shared memory has
    /// requests, data wavefronts and bank conflicts, and its bytes are none of
    /// those that sectors move. What a rule set leaves open is another matter.
    pub const fn applies_to(self, space: Space) -> bool {
        match space {
            Space::Global | Space::Local => true,
            Space::Shared => {
                matches!(self, Self::Requests | Self::DataWavefronts | Self::BankConflicts)
            }
        }
    }

    /// Whether it is fixed by the addresses modulo the rule set's period
    /// ([`RuleSet::period`](crate::RuleSet::period)): moving all lanes by a
    /// multiple of the period never changes it.
    ///
    /// The tag stage hashes all bits of the address, and what passes it
    /// together shapes the data stage; red/atom count their sectors and tags
    /// once for each tag round. These have no short period.
    pub const fn is_periodic(self, op: Op) -> bool {
        if matches!(op.space, Space::Shared) {
            return true;
        }
        match self {
            Self::Requests
            | Self::UniqueSectors
            | Self::RequestedBytes
            | Self::UniqueBytes
            | Self::Transactions => true,
            Self::Sectors | Self::Tags | Self::L2Sectors | Self::MovedBytes => !op.is_atomic(),
            Self::TagWavefronts | Self::DataWavefronts | Self::BankConflicts => false,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Counts summed over the warps that executed one or more memory instructions.
///
/// Each field is the sum of the field of the same name of [`Counts`]. The sum
/// of no warps is `Totals::default()`: zero instructions, and every field
/// absent because nothing says which of them the rule set defines. Sums
/// saturate at `u128::MAX`, which no sum of fewer than 2¹¹⁵ warps reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Warp instructions summed, those without an active lane included.
    #[serde(default)]
    pub instructions: u128,
    /// Requests sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u128>,
    /// Sectors as the counter counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors: Option<u128>,
    /// Tag lookups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<u128>,
    /// Passes through the tag stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag_wavefronts: Option<u128>,
    /// Passes through the data stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_wavefronts: Option<u128>,
    /// Data wavefronts that bank conflicts added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank_conflicts: Option<u128>,
    /// Sectors that go to L2 when L1 is cold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_sectors: Option<u128>,
    /// Distinct sectors of each warp, summed over the warps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_sectors: Option<u128>,
    /// Width × active lanes, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_bytes: Option<u128>,
    /// Distinct bytes of each warp, summed over the warps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_bytes: Option<u128>,
    /// Bytes moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_bytes: Option<u128>,
    /// Transactions, on architectures that have several sizes of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<u128>,
    /// Whether every summand was exact.
    #[serde(default = "yes")]
    pub exact: bool,
}

fn yes() -> bool {
    true
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            instructions: 0,
            requests: None,
            sectors: None,
            tags: None,
            tag_wavefronts: None,
            data_wavefronts: None,
            bank_conflicts: None,
            l2_sectors: None,
            unique_sectors: None,
            requested_bytes: None,
            unique_bytes: None,
            moved_bytes: None,
            transactions: None,
            exact: true,
        }
    }
}

impl Totals {
    /// The sum so far of `field`.
    pub fn get(&self, field: Field) -> Option<u128> {
        match field {
            Field::Requests => self.requests,
            Field::Sectors => self.sectors,
            Field::Tags => self.tags,
            Field::TagWavefronts => self.tag_wavefronts,
            Field::DataWavefronts => self.data_wavefronts,
            Field::BankConflicts => self.bank_conflicts,
            Field::L2Sectors => self.l2_sectors,
            Field::UniqueSectors => self.unique_sectors,
            Field::RequestedBytes => self.requested_bytes,
            Field::UniqueBytes => self.unique_bytes,
            Field::MovedBytes => self.moved_bytes,
            Field::Transactions => self.transactions,
        }
    }

    /// Puts `value` in the place of `field`.
    pub fn set(&mut self, field: Field, value: Option<u128>) {
        *self.slot(field) = value;
    }

    fn slot(&mut self, field: Field) -> &mut Option<u128> {
        match field {
            Field::Requests => &mut self.requests,
            Field::Sectors => &mut self.sectors,
            Field::Tags => &mut self.tags,
            Field::TagWavefronts => &mut self.tag_wavefronts,
            Field::DataWavefronts => &mut self.data_wavefronts,
            Field::BankConflicts => &mut self.bank_conflicts,
            Field::L2Sectors => &mut self.l2_sectors,
            Field::UniqueSectors => &mut self.unique_sectors,
            Field::RequestedBytes => &mut self.requested_bytes,
            Field::UniqueBytes => &mut self.unique_bytes,
            Field::MovedBytes => &mut self.moved_bytes,
            Field::Transactions => &mut self.transactions,
        }
    }

    /// Adds one warp.
    #[inline]
    pub fn add(&mut self, counts: &Counts) {
        self.add_times(counts, 1);
    }

    /// Adds `warps` warps that all count the same.
    pub fn add_times(&mut self, counts: &Counts, warps: u128) {
        if warps == 0 {
            return;
        }
        let first = self.instructions == 0;
        self.instructions = self.instructions.saturating_add(warps);
        self.exact &= counts.exact;
        for field in Field::ALL {
            let more = field.of(counts).map(|n| match u64::try_from(warps) {
                // One multiplication, which can't overflow: the usual case, and
                // by far the most frequent when warps are counted one by one.
                Ok(warps) => u128::from(n) * u128::from(warps),
                Err(_) => u128::from(n).saturating_mul(warps),
            });
            accumulate(self.slot(field), more, first);
        }
    }

    /// Adds the warps of `other`, of the same or of another instruction of the
    /// same space. For instructions of different spaces see [`Totals::across`].
    pub fn merge(&mut self, other: &Self) {
        if other.instructions == 0 {
            return;
        }
        let first = self.instructions == 0;
        self.instructions = self.instructions.saturating_add(other.instructions);
        self.exact &= other.exact;
        for field in Field::ALL {
            accumulate(self.slot(field), other.get(field), first);
        }
    }

    /// The totals of a kernel: the sum of the totals of its accesses, each with
    /// the space it goes to.
    ///
    /// An access only speaks to the fields that its space has
    /// ([`Field::applies_to`]): shared-memory accesses leave `sectors` and the
    /// bytes as the others make them, while a global access whose sectors are
    /// unknown makes the kernel's unknown. Requests, data wavefronts and bank
    /// conflicts are those of all spaces together, as the load/store pipe's own
    /// counters have them.
    pub fn across<'a>(parts: impl IntoIterator<Item = (Space, &'a Self)>) -> Self {
        let mut kernel = Self::default();
        let mut spoken = [false; Field::ALL.len()];
        for (space, totals) in parts {
            if totals.instructions == 0 {
                continue;
            }
            kernel.instructions = kernel.instructions.saturating_add(totals.instructions);
            kernel.exact &= totals.exact;
            for (field, spoken) in Field::ALL.into_iter().zip(&mut spoken) {
                if field.applies_to(space) {
                    accumulate(kernel.slot(field), totals.get(field), !*spoken);
                    *spoken = true;
                }
            }
        }
        kernel
    }

    /// Average of `field` over the requests. `None` without requests.
    pub fn per_request(&self, field: Field) -> Option<f64> {
        ratio(self.get(field), self.requests)
    }

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

/// The sum of two totals of one instruction, or of instructions of one space.
impl core::iter::Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |mut sum, part| {
            sum.merge(&part);
            sum
        })
    }
}

/// Adds `more` to `sum`; absent with either absent, unless `first`.
#[inline]
fn accumulate(sum: &mut Option<u128>, more: Option<u128>, first: bool) {
    *sum = match (*sum, more) {
        (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
        (None, more) if first => more,
        _ => None,
    };
}

fn ratio(numerator: Option<u128>, denominator: Option<u128>) -> Option<f64> {
    match (numerator, denominator) {
        (Some(n), Some(d)) if d != 0 => Some(n as f64 / d as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn load(sectors: u32) -> Counts {
        Counts {
            requests: 1,
            sectors: Some(sectors),
            tags: Some(1),
            requested_bytes: 128,
            unique_bytes: 128,
            moved_bytes: Some(sectors * 32),
            exact: true,
            ..Counts::default()
        }
    }

    #[test]
    fn names_come_back() {
        for field in Field::ALL {
            assert_eq!(Field::from_name(field.name()), Some(field));
        }
        assert_eq!(Field::from_name("lines"), None);
    }

    #[test]
    fn the_empty_sum_claims_nothing() {
        let empty = Totals::default();
        assert!(Field::ALL.into_iter().all(|field| empty.get(field).is_none()));
        assert_eq!(empty.per_request(Field::Sectors), None);

        let mut sum = Totals::default();
        sum.add_times(&load(4), 0);
        assert_eq!(sum, empty);
        sum.merge(&empty);
        assert_eq!(sum, empty);
    }

    #[test]
    fn a_field_absent_in_one_summand_is_absent_in_the_sum() {
        let mut sum = Totals::default();
        sum.add(&load(4));
        sum.add(&Counts { sectors: None, ..load(8) });
        sum.add(&load(4));
        assert_eq!(sum.sectors, None);
        assert_eq!(sum.tags, Some(3));
        assert_eq!(sum.tag_wavefronts, None);
        assert_eq!(sum.instructions, 3);
    }

    #[test]
    fn exact_holds_only_if_it_holds_for_all() {
        let mut sum = Totals::default();
        sum.add(&load(4));
        assert!(sum.exact);
        sum.add(&Counts { exact: false, ..load(4) });
        sum.add(&load(4));
        assert!(!sum.exact);
    }

    #[test]
    fn merging_equals_adding_all() {
        let mut all = Totals::default();
        let mut halves = [Totals::default(), Totals::default()];
        for i in 0..10 {
            all.add(&load(i));
            halves[i as usize % 2].add(&load(i));
        }
        assert_eq!(all, halves.into_iter().sum());

        let mut times = Totals::default();
        times.add_times(&load(5), 1 << 70);
        assert_eq!(times.sectors, Some(5 << 70));
        assert_eq!(times.per_request(Field::Sectors), Some(5.0));
    }

    #[test]
    fn spaces_speak_only_to_what_they_have() {
        let mut global = Totals::default();
        global.add(&load(4));
        let mut shared = Totals::default();
        shared.add(&Counts {
            requests: 1,
            data_wavefronts: Some(2),
            bank_conflicts: Some(1),
            requested_bytes: 128,
            unique_bytes: 128,
            exact: true,
            ..Counts::default()
        });

        let kernel = Totals::across([(Space::Shared, &shared), (Space::Global, &global)]);
        assert_eq!(kernel.sectors, Some(4));
        assert_eq!(kernel.requests, Some(2));
        assert_eq!(kernel.requested_bytes, Some(128));
        // The global access has data wavefronts, but nobody counted them.
        assert_eq!(kernel.data_wavefronts, None);
        assert_eq!(kernel.instructions, 2);

        let only_shared = Totals::across([(Space::Shared, &shared)]);
        assert_eq!(only_shared.data_wavefronts, Some(2));
        assert_eq!(only_shared.sectors, None);
        assert_eq!(Totals::across(Vec::<(Space, &Totals)>::new()), Totals::default());
    }

    #[test]
    fn efficiencies_need_moved_bytes() {
        let mut sum = Totals::default();
        sum.add(&load(8));
        assert_eq!(sum.requested_efficiency(), Some(0.5));
        assert_eq!(sum.unique_efficiency(), Some(0.5));
        sum.moved_bytes = Some(0);
        assert_eq!(sum.unique_efficiency(), None);
        sum.moved_bytes = None;
        assert_eq!(sum.unique_efficiency(), None);
    }

    #[test]
    fn json_leaves_out_what_is_absent_and_keeps_large_integers() {
        let mut sum = Totals::default();
        sum.add_times(&load(5), 1 << 70);
        let json = serde_json::to_string(&sum).unwrap();
        assert!(json.contains("\"sectors\":5902958103587056517120,"), "{json}");
        assert!(!json.contains("tag_wavefronts"), "{json}");
        assert_eq!(serde_json::from_str::<Totals>(&json).unwrap(), sum);
    }
}
