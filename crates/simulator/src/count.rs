//! From a warp access to its counts: the stages in order.

use crate::access::{AtomicOp, Op, OpKind, Space, WARP_LANES, WarpAccess};
use crate::counts::{Counts, Transactions};
use crate::fast::{self, FastRules, LaneOps};
use crate::rules::{Cache, RuleSet};
use crate::stages::data::Passage;
use crate::stages::{LaneSets, Lanes, atomic, request};

impl RuleSet {
    /// Counts the work of one warp access.
    ///
    /// Pure, without allocation, and without failure: an access that
    /// [`RuleSet::check`] refuses gets counts that mean nothing.
    ///
    /// ```
    /// use coalescope_simulator::{Op, RuleSet, WarpAccess};
    /// let rules = RuleSet::for_arch("9.0").unwrap();
    /// // Each lane reads a float, 128 bytes apart.
    /// let column = WarpAccess::new(Op::LOAD, 4, std::array::from_fn(|lane| lane as u64 * 128));
    /// let counts = rules.count(&column);
    /// assert_eq!((counts.sectors, counts.tags), (Some(32), Some(32)));
    /// // The tag banks spread these lines evenly: 8 in each of the four. But
    /// // all words of a wavefront lie in one data bank.
    /// assert_eq!(counts.tag_wavefronts, Some(8));
    /// assert_eq!(counts.data_wavefronts, Some(32));
    /// ```
    pub fn count(&self, access: &WarpAccess) -> Counts {
        fast::vectorized(Count::<true> { rules: self, access })
    }

    /// As [`RuleSet::count`], but only the sets: requests, sectors, tags,
    /// transactions and bytes. What the stages alone give (`tag_wavefronts`,
    /// `data_wavefronts`, `bank_conflicts`, and the `sectors` and `tags` of
    /// reductions and atomics) is `None`. For when only traffic matters; it is faster.
    pub fn coalesce(&self, access: &WarpAccess) -> Counts {
        fast::vectorized(Count::<false> { rules: self, access })
    }

    /// The counts of a load, store or copy of global memory that are sets.
    #[inline(always)]
    fn with_sets(&self, rules: &FastRules, access: &WarpAccess, sets: fast::Sets) -> Counts {
        let width = u32::from(access.width);
        Counts {
            requests: 1,
            sectors: Some(sets.sectors),
            tags: Some(sets.lines),
            tag_wavefronts: None,
            data_wavefronts: None,
            bank_conflicts: None,
            l2_sectors: rules.sectors_reach_l2.then_some(sets.sectors),
            unique_sectors: Some(sets.sectors),
            requested_bytes: access.mask.count() * width,
            unique_bytes: sets.starts * width,
            moved_bytes: Some(sets.sectors * fast::SECTOR_BYTES),
            transactions: None,
            exact: self.is_exact(&access.op, access.width, None),
        }
    }

    /// The same with its stages.
    #[inline(always)]
    fn with_stages(
        &self,
        rules: &FastRules,
        access: &WarpAccess,
        sets: fast::Sets,
        stages: fast::Stages,
    ) -> Counts {
        let tag_wavefronts = Some(stages.tag_wavefronts);
        Counts {
            tag_wavefronts,
            data_wavefronts: Some(stages.data_wavefronts),
            bank_conflicts: Some(stages.data_wavefronts - stages.groups),
            exact: self.is_exact(&access.op, access.width, tag_wavefronts),
            ..self.with_sets(rules, access, sets)
        }
    }

    /// The memory transactions of an access to global memory, where the
    /// architecture has transactions of several sizes (CC 1.x–2.x).
    pub fn transactions(&self, access: &WarpAccess) -> Option<Transactions> {
        let rule = self.data().transactions.as_ref()?;
        let plain = matches!(access.op.kind, OpKind::Load | OpKind::Store);
        if access.op.space != Space::Global || !plain {
            return None;
        }
        let width = access.width.max(1);
        let lanes =
            Lanes { mask: access.mask, addresses: &access.addresses, width: u32::from(width) };
        let size = self.request_lanes(width);
        let requests = request::split(lanes, size);
        Some(rule.all(&access.op, lanes, requests.as_slice(), size))
    }

    /// The counts, with or without the tag and data stages.
    #[inline(never)]
    fn count_parts(&self, access: &WarpAccess, stages: bool) -> Counts {
        let lanes = Lanes {
            mask: access.mask,
            addresses: &access.addresses,
            width: u32::from(access.width.max(1)),
        };
        let counts = Counts {
            requested_bytes: lanes.mask.count() * lanes.width,
            exact: self.is_exact(&access.op, access.width, None),
            ..Counts::default()
        };
        let counts = match access.op.space {
            Space::Global => self.count_global(access, lanes, counts, stages),
            Space::Shared => self.count_shared(&access.op, lanes, counts),
            Space::Local => self.count_local(lanes, counts),
        };
        if stages {
            return counts;
        }
        Counts { tag_wavefronts: None, data_wavefronts: None, bank_conflicts: None, ..counts }
    }

    /// Global memory, of any geometry.
    fn count_global(
        &self,
        access: &WarpAccess,
        lanes: Lanes<'_>,
        counts: Counts,
        stages: bool,
    ) -> Counts {
        let requests = self.requests(lanes);
        let mut counts = Counts { requests: requests.count(), ..counts };
        if let Some(transactions) = self.transactions(access) {
            counts.transactions = Some(transactions.len() as u32);
            counts.moved_bytes = Some(transactions.bytes());
        }
        let fast = self
            .fast()
            .filter(|_| access.op.is_atomic() && is_plain_width(access) && !access.mask.is_empty());
        if let Some(sets) = fast.and_then(|_| fast::vectorized(CountSets(lanes))) {
            counts.unique_bytes = sets.starts * lanes.width;
            counts.unique_sectors = Some(sets.sectors);
        } else {
            // Lanes of one width and alignment touch the same bytes or none in
            // common.
            counts.unique_bytes = lanes.distinct(0) * lanes.width;
            let Some(cache) = self.data().cache else { return counts };
            counts.unique_sectors = Some(lanes.distinct(cache.sector_shift()));
        }
        let Some(cache) = self.data().cache else { return counts };
        if !access.op.is_atomic() {
            counts.tags = Some(each(&requests, lanes, cache.line_shift()));
        }
        // With several sizes of transactions the sector is no unit of traffic.
        if !access.op.is_atomic() && self.data().transactions.is_none() {
            self.set_sectors(&mut counts, each(&requests, lanes, cache.sector_shift()));
        }
        if stages {
            self.add_stages(access, lanes, &mut counts);
        }
        counts
    }

    /// Adds what the tag and data stages give.
    fn add_stages(&self, access: &WarpAccess, lanes: Lanes<'_>, counts: &mut Counts) {
        let stages = self.stages(access, lanes);
        if let Some(sectors) = stages.sectors {
            self.set_sectors(counts, sectors);
        }
        if stages.tags.is_some() {
            counts.tags = stages.tags;
        }
        counts.tag_wavefronts = stages.tag_wavefronts.map(|sets| sets.count());
        if let (OpKind::AsyncCopy, Some(copy), false) =
            (access.op.kind, self.data().copy, lanes.mask.is_empty())
        {
            counts.tag_wavefronts =
                counts.tag_wavefronts.map(|count| count + copy.extra_tag_wavefronts);
        }
        counts.data_wavefronts = stages.data.map(|passage| passage.total);
        counts.bank_conflicts = stages.data.map(|passage| passage.conflicts);
        counts.exact = self.is_exact(&access.op, access.width, counts.tag_wavefronts);
    }

    /// Sets the sectors and what follows from them.
    #[inline]
    fn set_sectors(&self, counts: &mut Counts, sectors: u32) {
        let Some(cache) = self.data().cache else { return };
        counts.sectors = Some(sectors);
        counts.moved_bytes = Some(sectors * cache.sector_bytes);
        counts.l2_sectors = cache.sectors_reach_l2.then_some(sectors);
    }

    fn count_shared(&self, op: &Op, lanes: Lanes<'_>, counts: Counts) -> Counts {
        let mut counts = counts;
        let Some(shared) = &self.data().shared else {
            counts.requests = u32::from(!lanes.mask.is_empty());
            counts.unique_bytes = lanes.distinct(0) * lanes.width;
            return counts;
        };
        counts.requests = shared.requests(lanes).count();
        let width = lanes.width;
        let lanes = shared.passing(op, lanes);
        if let Some(fast) = shared.pass_fast(op.kind, lanes) {
            counts.data_wavefronts = Some(fast.wavefronts);
            counts.bank_conflicts = Some(fast.wavefronts - fast.groups);
            counts.unique_bytes = fast.starts * width;
            return counts;
        }
        let passage = shared.pass(op, lanes);
        counts.data_wavefronts = passage.map(|passage| passage.total);
        counts.bank_conflicts = passage.map(|passage| passage.conflicts);
        counts.unique_bytes = lanes.distinct(0) * width;
        counts
    }

    /// The requests of an access to global memory.
    pub(crate) fn requests(&self, lanes: Lanes<'_>) -> LaneSets {
        request::split(lanes, self.data().request.lanes(lanes.width as u8))
    }

    /// What the tag and data stages do with an access to global memory.
    pub(crate) fn stages(&self, access: &WarpAccess, lanes: Lanes<'_>) -> StageResult {
        let data = self.data();
        let (Some(cache), Some(tag)) = (data.cache, &data.tag) else {
            return StageResult::default();
        };
        let (line_shift, sector_shift) = (cache.line_shift(), cache.sector_shift());
        if let OpKind::Reduction(_) | OpKind::Atomic(_) = access.op.kind {
            let Some(rule) = data.atomic else { return StageResult::default() };
            let cas = matches!(access.op.kind, OpKind::Atomic(AtomicOp::Cas));
            let tag_shift = match rule.cas_tag_bytes {
                Some(bytes) if cas => bytes.trailing_zeros(),
                _ => line_shift,
            };
            let rounds = atomic::rounds(tag, lanes, line_shift, tag_shift);
            let returns = matches!(access.op.kind, OpKind::Atomic(_));
            return StageResult {
                sectors: Some(each(&rounds, lanes, sector_shift)),
                tags: Some(each(&rounds, lanes, tag_shift)),
                data: data
                    .data
                    .map(|stage| stage.atomic(&rule, lanes, &rounds, line_shift, returns)),
                tag_wavefronts: Some(rounds),
            };
        }
        let wavefronts = tag.wavefronts(lanes, line_shift);
        let passage = match (data.data, access.op.kind) {
            (Some(stage), OpKind::Load) => Some(stage.load(lanes, &wavefronts)),
            (Some(stage), OpKind::Store) => Some(stage.store(lanes, tag, &wavefronts, line_shift)),
            (Some(stage), OpKind::AsyncCopy) => {
                match (data.copy, &data.shared, &access.shared_addresses) {
                    (Some(copy), Some(shared), Some(target)) => {
                        Some(copy.pass(&stage, shared.banks(), lanes, target, &wavefronts))
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        StageResult { sectors: None, tags: None, tag_wavefronts: Some(wavefronts), data: passage }
    }

    /// Local memory: consecutive 4-byte words of consecutive threads lie side
    /// by side (CUDA C++ Programming Guide, "Local Memory"), so that the warp
    /// touches one line for each 4 bytes of a lane when all lanes are at the
    /// same offset.
    fn count_local(&self, lanes: Lanes<'_>, counts: Counts) -> Counts {
        let requests = self.requests(lanes);
        let pieces = self.local_pieces(lanes.width);
        let counts = Counts {
            requests: requests.count() * pieces.count,
            // Each lane has memory of its own.
            unique_bytes: counts.requested_bytes,
            ..counts
        };
        let Some(cache) = self.data().cache.filter(|_| self.data().transactions.is_none()) else {
            return counts;
        };
        let (mut sectors, mut tags) = (0, 0);
        for piece in 0..u64::from(pieces.count) {
            let first = piece * u64::from(pieces.bytes);
            let addresses = core::array::from_fn(|lane| lanes.addresses[lane].wrapping_add(first));
            for &request in requests.as_slice() {
                let mask = lanes.only(request).mask;
                let lanes = Lanes { mask, addresses: &addresses, width: pieces.bytes };
                sectors += local_blocks(lanes, cache.sector_shift());
                tags += local_blocks(lanes, cache.line_shift());
            }
        }
        Counts {
            sectors: Some(sectors),
            unique_sectors: Some(local_blocks(lanes, cache.sector_shift())),
            tags: Some(tags),
            moved_bytes: Some(sectors * cache.sector_bytes),
            ..counts
        }
    }
}

/// The equal parts of a lane's bytes that go in requests of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// How many.
    pub(crate) count: u32,
    /// Bytes of each.
    bytes: u32,
}

impl RuleSet {
    /// The pieces of an access of `width` bytes a lane to local memory.
    pub(crate) fn local_pieces(&self, width: u32) -> Pieces {
        let bytes = self.data().local.map_or(width, |local| width.min(local.request_bytes.into()));
        Pieces { count: width / bytes.max(1), bytes }
    }
}

/// Whether the width is one that exists.
#[inline(always)]
fn is_plain_width(access: &WarpAccess) -> bool {
    access.width.is_power_of_two() && access.width <= 32
}

/// The lanes of an access, if [`crate::fast`] can take it.
#[inline(always)]
fn fast_lanes(access: &WarpAccess) -> Option<Lanes<'_>> {
    let WarpAccess { op, width, mask, ref addresses, .. } = *access;
    let fits =
        op.space == Space::Global && !op.is_atomic() && !mask.is_empty() && is_plain_width(access);
    fits.then_some(Lanes { mask, addresses, width: u32::from(width) })
}

/// The sets of some lanes of global memory.
struct CountSets<'a>(Lanes<'a>);

impl fast::Work for CountSets<'_> {
    type Output = Option<fast::Sets>;

    #[inline(always)]
    fn run(self, ops: impl LaneOps) -> Option<fast::Sets> {
        let Lanes { mask, addresses, width } = self.0;
        fast::sets(ops, mask, addresses, width)
    }
}

/// The count of one access, with or without its stages.
struct Count<'a, const STAGES: bool> {
    rules: &'a RuleSet,
    access: &'a WarpAccess,
}

impl<const STAGES: bool> fast::Work for Count<'_, STAGES> {
    type Output = Counts;

    #[inline(always)]
    fn run(self, ops: impl LaneOps) -> Counts {
        let Self { rules, access } = self;
        if let Some(fast) = rules.fast()
            && let Some(Lanes { mask, addresses, width }) = fast_lanes(access)
        {
            if !STAGES || rules.data().tag.is_none() {
                if let Some(sets) = fast::sets(ops, mask, addresses, width) {
                    return rules.with_sets(fast, access, sets);
                }
            } else if let Some(passing) = fast.passing(access.op.kind, width)
                && let Some((sets, stages)) =
                    fast::pipeline(ops, fast, mask, addresses, width, passing)
            {
                return rules.with_stages(fast, access, sets, stages);
            }
        }
        rules.count_parts(access, STAGES)
    }
}

/// What the tag and data stages do with one access.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StageResult {
    /// Of a reduction or atomic: sectors of each round, summed.
    pub(crate) sectors: Option<u32>,
    /// The same of its tags.
    pub(crate) tags: Option<u32>,
    /// Wavefronts, or the rounds of a reduction or atomic.
    pub(crate) tag_wavefronts: Option<LaneSets>,
    pub(crate) data: Option<Passage>,
}

impl Cache {
    /// log2 of the line size.
    pub(crate) fn line_shift(&self) -> u32 {
        self.line_bytes.trailing_zeros()
    }

    /// log2 of the sector size.
    pub(crate) fn sector_shift(&self) -> u32 {
        self.sector_bytes.trailing_zeros()
    }
}

/// Distinct blocks of each set of lanes, summed.
fn each(sets: &LaneSets, lanes: Lanes<'_>, shift: u32) -> u32 {
    sets.as_slice().iter().map(|&set| lanes.only(set).distinct(shift)).sum()
}

/// Bytes of the interleaving of local memory.
const LOCAL_WORD: u64 = 4;

/// Address, within the warp's local memory, of a byte at `offset` of a lane.
pub(crate) fn local_address(lane: usize, offset: u64) -> u64 {
    (offset / LOCAL_WORD)
        .wrapping_mul(WARP_LANES as u64)
        .wrapping_add(lane as u64)
        .wrapping_mul(LOCAL_WORD)
        .wrapping_add(offset % LOCAL_WORD)
}

/// Distinct blocks of `1 << shift` bytes that the lanes touch in the warp's
/// local memory.
fn local_blocks(lanes: Lanes<'_>, shift: u32) -> u32 {
    const MOST_WORDS: usize = 8;
    let mut seen = [0; WARP_LANES * MOST_WORDS];
    let mut count = 0;
    for (lane, offset) in lanes.iter() {
        for word in 0..u64::from(lanes.width).div_ceil(LOCAL_WORD).min(MOST_WORDS as u64) {
            let block = local_address(lane, offset.wrapping_add(word * LOCAL_WORD)) >> shift;
            if !seen[..count].contains(&block) {
                seen[count] = block;
                count += 1;
            }
        }
    }
    count as u32
}

#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Op;
    use crate::fast::Work;
    use crate::rules::{LaneGroups, RuleData, SharedLoadGroup};
    use proptest::prelude::*;
    use std::sync::LazyLock;
    use std::vec::Vec;

    /// The rule sets that are shipped, and made-up ones beside Hopper's: what
    /// the fast path takes by other data, and what it must leave to the stages.
    static RULES: LazyLock<Vec<RuleSet>> = LazyLock::new(|| {
        let hopper = RuleSet::for_arch("9.0").unwrap();
        let changes: &[fn(&mut RuleData)] = &[
            |data| data.tag.as_mut().unwrap().hash = [0b1011].into(),
            |data| data.tag.as_mut().unwrap().hash = [0x55_5555_5555, 0x1].into(),
            |data| data.tag.as_mut().unwrap().hash = [1, 2, 4].into(),
            |data| data.tag.as_mut().unwrap().hash = [0, 0].into(),
            |data| data.data.as_mut().unwrap().store_gather = 1,
            |data| {
                let stage = data.data.as_mut().unwrap();
                (stage.store_gather, stage.narrow_store_gather) = (3, 32);
            },
            |data| data.data.as_mut().unwrap().group = LaneGroups { lanes: 16, bytes: Some(128) },
            |data| data.data.as_mut().unwrap().banks = 16,
            |data| data.cache.as_mut().unwrap().sector_bytes = 128,
            |data| data.cache.as_mut().unwrap().sector_bytes = 64,
            |data| data.cache.as_mut().unwrap().line_bytes = 256,
            |data| data.cache.as_mut().unwrap().sectors_reach_l2 = false,
            |data| (data.tag, data.data, data.atomic, data.copy) = (None, None, None, None),
            |data| data.shared.as_mut().unwrap().bank_bytes = 8,
            |data| data.shared.as_mut().unwrap().group = LaneGroups { lanes: 2, bytes: None },
            |data| {
                let group = SharedLoadGroup { width: 4, lanes: 8, when_pairs_agree: [4].into() };
                data.shared.as_mut().unwrap().load_groups.push(group);
            },
        ];
        let made_up = changes.iter().map(|change| {
            let mut data = hopper.data().clone();
            change(&mut data);
            RuleSet::new(data).unwrap()
        });
        RuleSet::shipped().chain(made_up).collect()
    });

    /// Hopper and its kin, for which most of the fast path is written, as often
    /// as all others together.
    fn any_rules() -> impl Strategy<Value = &'static RuleSet> {
        let is_fast = |rules: &&RuleSet| rules.fast().is_some();
        let (fast, other): (Vec<_>, Vec<_>) = RULES.iter().partition(is_fast);
        prop_oneof![prop::sample::select(fast), prop::sample::select(other)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8000))]

        /// The fast path, with vectors and without, and the stages, which the
        /// recorded counters judge, are one function.
        #[test]
        fn fast_equals_stages(
            (rules, access) in any_rules().prop_flat_map(|rules| {
                (Just(rules), super::common::any_access_of(rules, |_, _| true))
            })
        ) {
            let (all, sets) = (rules.count_parts(&access, true), rules.count_parts(&access, false));
            prop_assert_eq!(rules.count(&access), all);
            prop_assert_eq!(rules.coalesce(&access), sets);
            let access = &access;
            prop_assert_eq!(Count::<true> { rules, access }.run(fast::Portable), all);
            prop_assert_eq!(Count::<false> { rules, access }.run(fast::Portable), sets);
            shared_equals_stages(rules, access)?;
        }
    }

    /// `count_parts` takes the short cut for shared memory too; this doesn't.
    fn shared_equals_stages(rules: &RuleSet, access: &WarpAccess) -> Result<(), TestCaseError> {
        let WarpAccess { op, mask, ref addresses, width, .. } = *access;
        let (Space::Shared, Some(shared)) = (op.space, &rules.data().shared) else {
            return Ok(());
        };
        let lanes = shared.passing(&op, Lanes { mask, addresses, width: u32::from(width) });
        if let Some(fast) = shared.pass_fast(op.kind, lanes) {
            let slow = shared.pass(&op, lanes);
            prop_assert_eq!(
                slow.map(|passage| (passage.total, passage.groups.count())),
                Some((fast.wavefronts, fast.groups))
            );
            prop_assert_eq!(fast.starts, lanes.distinct(0));
        }
        Ok(())
    }

    /// So that the property above compares something.
    #[test]
    fn sectored_rule_sets_take_the_fast_path() {
        let fast: Vec<_> = RuleSet::shipped().filter(|rules| rules.fast().is_some()).collect();
        for arch in ["7.0", "8.0", "9.0", "10.0", "12.0"] {
            assert!(
                fast.iter().any(|rules| rules.data().archs.iter().any(|a| a == arch)),
                "{arch}"
            );
        }
    }

    #[test]
    fn lanes_far_apart_are_counted_too() {
        let rules = RuleSet::for_arch("9.0").unwrap();
        let access = WarpAccess::new(Op::LOAD, 4, core::array::from_fn(|lane| (lane as u64) << 58));
        assert_eq!(rules.count(&access).sectors, Some(32));
        assert_eq!(rules.coalesce(&access).sectors, Some(32));
    }
}
