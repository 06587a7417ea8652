//! From a warp access to its counts: the stages in order.

use crate::access::{OpKind, Space, WARP_LANES, WarpAccess};
use crate::counts::{Counts, Transactions};
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
        let lanes = Lanes {
            mask: access.mask,
            addresses: &access.addresses,
            width: u32::from(access.width.max(1)),
        };
        let requested_bytes = lanes.mask.count() * lanes.width;
        let bytes = Counts {
            requested_bytes,
            // Lanes of one width and alignment touch the same bytes or none in
            // common.
            unique_bytes: lanes.distinct(0) * lanes.width,
            exact: self.is_exact(&access.op, access.width, None),
            ..Counts::default()
        };
        match access.op.space {
            Space::Shared => self.count_shared(access.op.kind, lanes, bytes),
            Space::Local => {
                Counts { unique_bytes: requested_bytes, ..self.count_local(lanes, bytes) }
            }
            Space::Global => self.count_global(access, lanes, bytes),
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

    fn count_shared(&self, kind: OpKind, lanes: Lanes<'_>, bytes: Counts) -> Counts {
        let Some(shared) = &self.data().shared else {
            return Counts { requests: u32::from(!lanes.mask.is_empty()), ..bytes };
        };
        let passage = shared.pass(kind, lanes);
        Counts {
            requests: shared.requests(lanes).count(),
            data_wavefronts: passage.map(|passage| passage.total),
            bank_conflicts: passage.map(|passage| passage.conflicts),
            ..bytes
        }
    }

    fn count_global(&self, access: &WarpAccess, lanes: Lanes<'_>, bytes: Counts) -> Counts {
        let requests = self.requests(lanes);
        let mut counts = Counts { requests: requests.count(), ..bytes };
        if let Some(transactions) = self.transactions(access) {
            counts.transactions = Some(transactions.len() as u32);
            counts.moved_bytes = Some(transactions.bytes());
        }
        let Some(cache) = self.data().cache else { return counts };
        counts.unique_sectors = Some(lanes.distinct(cache.sector_shift()));
        counts.tags = Some(each(&requests, lanes, cache.line_shift()));
        let Some(stages) = self.stages(access, lanes, &requests) else { return counts };
        counts.sectors = stages.sectors;
        if let Some(sectors) = counts.sectors {
            counts.moved_bytes = Some(sectors * cache.sector_bytes);
            counts.l2_sectors = cache.sectors_reach_l2.then_some(sectors);
        }
        counts.tag_wavefronts = stages.tag_wavefronts.map(|sets| sets.count());
        counts.data_wavefronts = stages.data.map(|passage| passage.total);
        counts.bank_conflicts = stages.data.map(|passage| passage.conflicts);
        counts.exact = self.is_exact(&access.op, access.width, counts.tag_wavefronts);
        counts
    }

    /// The requests of an access to global memory.
    pub(crate) fn requests(&self, lanes: Lanes<'_>) -> LaneSets {
        request::split(lanes, self.data().request.lanes(lanes.width as u8))
    }

    /// What the tag and data stages do with an access to global memory.
    pub(crate) fn stages(
        &self,
        access: &WarpAccess,
        lanes: Lanes<'_>,
        requests: &LaneSets,
    ) -> Option<StageResult> {
        let data = self.data();
        let cache = data.cache?;
        let (line_shift, sector_shift) = (cache.line_shift(), cache.sector_shift());
        if let OpKind::Reduction(_) | OpKind::Atomic(_) = access.op.kind {
            let (Some(tag), Some(rule)) = (&data.tag, data.atomic) else {
                return Some(StageResult::default());
            };
            let rounds = atomic::rounds(tag, lanes, line_shift);
            let returns = matches!(access.op.kind, OpKind::Atomic(_));
            return Some(StageResult {
                sectors: Some(each(&rounds, lanes, sector_shift)),
                data: data
                    .data
                    .map(|stage| stage.atomic(&rule, lanes, &rounds, line_shift, returns)),
                tag_wavefronts: Some(rounds),
            });
        }
        let tag_wavefronts = data.tag.as_ref().map(|tag| tag.wavefronts(lanes, line_shift));
        let passage = match (&tag_wavefronts, data.data, access.op.kind) {
            (Some(wavefronts), Some(stage), OpKind::Load) => Some(stage.load(lanes, wavefronts)),
            (Some(wavefronts), Some(stage), OpKind::Store) => Some(stage.store(lanes, wavefronts)),
            _ => None,
        };
        Some(StageResult {
            // With several sizes of transactions the sector is no unit of
            // traffic.
            sectors: data.transactions.is_none().then(|| each(requests, lanes, sector_shift)),
            tag_wavefronts,
            data: passage,
        })
    }

    /// Local memory: consecutive 4-byte words of consecutive threads lie side
    /// by side (CUDA C++ Programming Guide, "Local Memory"), so that the warp
    /// touches one line for each 4 bytes of a lane when all lanes are at the
    /// same offset.
    fn count_local(&self, lanes: Lanes<'_>, bytes: Counts) -> Counts {
        let requests = self.requests(lanes);
        let counts = Counts { requests: requests.count(), ..bytes };
        let Some(cache) = self.data().cache.filter(|_| self.data().transactions.is_none()) else {
            return counts;
        };
        let (mut sectors, mut tags) = (0, 0);
        for &request in requests.as_slice() {
            let lanes = lanes.only(request);
            sectors += local_blocks(lanes, cache.sector_shift());
            tags += local_blocks(lanes, cache.line_shift());
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

/// What the tag and data stages do with one access.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StageResult {
    pub(crate) sectors: Option<u32>,
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
