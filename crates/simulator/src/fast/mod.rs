//! The counts of today's geometry, fast: 128-byte lines of 32-byte sectors, a
//! request for the whole warp, at most four tag banks, 32 data banks of 4
//! bytes. A rule set of another geometry is counted by the stages.
//!
//! The stages (`stages/`) say what the hardware does and are what the rules
//! mean; this module gives the same numbers by four observations, and property
//! tests hold the two equal for every shipped rule set and for made-up ones
//! (`count.rs`):
//!
//! - Lanes a constant stride apart need no comparing at all ([`even`]).
//! - Lanes in ascending order of address differ from their left neighbour
//!   exactly where a new line, sector or element begins; lanes in any order are
//!   compared with each other, and most often no two share a line ([`lines`]).
//! - A line has as many words as there are data banks. So what a lane group
//!   touches in a line is one 32-bit mask, and the data wavefronts of several
//!   lines are the largest number of their masks that share a bit: a
//!   bit-sliced sum ([`wavefronts`]).
//! - The lines of a tag bank are a 32-bit mask too, in the order of their first
//!   lanes; wavefront *k* takes the *k*-th set bit of each bank's mask.
//!
//! What is asked of all lanes at once is a trait, [`lane_ops`], answered in
//! plain Rust or with AVX2. Everything is inlined into [`vectorized`], which
//! chooses.

#[cfg(all(feature = "std", target_arch = "x86_64"))]
mod avx2;
mod even;
mod lane_ops;
mod lines;
mod wavefronts;

use crate::access::{LaneMask, OpKind, WARP_LANES};
use crate::rules::DataStage;
use crate::stages::drain::KnownBatches;
pub(crate) use lane_ops::{LaneOps, Portable};
use lines::{any_lines, ascending_lines, ascending_sets, fill};
use wavefronts::stages;

const LINE_SHIFT: u32 = 7;
const LINE_BYTES: u32 = 1 << LINE_SHIFT;
const SECTOR_SHIFT: u32 = 5;
pub(crate) const SECTOR_BYTES: u32 = 1 << SECTOR_SHIFT;
const WORD_SHIFT: u32 = 2;
const WORD_BYTES: u32 = 1 << WORD_SHIFT;
/// Bytes that pass the data banks at once.
const ROW_BYTES: u32 = 128;
/// Fewest lanes in a group that [`CountShared`] can take.
pub(crate) const LEAST_GROUP: u32 = 4;

/// What the fast path knows of a rule set that has its geometry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FastRules {
    /// The two masks of the tag-bank hash; one bank when both are 0.
    pub(crate) hash: [u64; 2],
    /// Number of tag banks, at most four.
    pub(crate) banks: u32,
    /// How stores gather; `None` where there are no tag and data stages.
    pub(crate) data: Option<DataStage>,
    /// What passes together of stores of a bank's width and more, and of narrower
    /// ones.
    pub(crate) batches: Option<[KnownBatches; 2]>,
    /// Whether the sectors counted are those that go to L2.
    pub(crate) sectors_reach_l2: bool,
}

impl FastRules {
    /// How the data stage takes an operation; `None` where it is not defined.
    #[inline(always)]
    pub(crate) fn passing(&self, kind: OpKind, width: u32) -> Option<Passing> {
        let data = self.data.as_ref()?;
        Some(match kind {
            OpKind::Store => Passing::Store { gather: data.gather(width) },
            // Both sides' banks matter.
            OpKind::AsyncCopy => return None,
            _ => Passing::Load,
        })
    }
}

/// Counts of one access to global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sets {
    pub(crate) lines: u32,
    pub(crate) sectors: u32,
    /// Distinct addresses.
    pub(crate) starts: u32,
}

/// Counts of the tag and data stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stages {
    pub(crate) tag_wavefronts: u32,
    pub(crate) data_wavefronts: u32,
    /// Lane groups that pass the data stage.
    pub(crate) groups: u32,
}

/// How the data stage takes the lines of the tag wavefronts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    /// Each tag wavefront by itself.
    Load,
    /// The first so many tag wavefronts together; the later ones as
    /// [`StoreDrain`](crate::rules::StoreDrain) has it.
    Store { gather: u32 },
}

impl Passing {
    /// Whether no wavefront is left over when a store has gathered the first
    /// ones.
    #[inline(always)]
    fn gathers_all(self, tag_wavefronts: u32) -> bool {
        match self {
            Self::Load => true,
            Self::Store { gather } => tag_wavefronts <= gather,
        }
    }

    /// The number of what passes the data stage together with a wavefront, of
    /// a store that gathers all or a load.
    #[inline(always)]
    fn batch(self, wavefront: u32) -> u32 {
        match self {
            Self::Store { gather } if wavefront < gather => 0,
            _ => wavefront,
        }
    }
}

/// Work for [`vectorized`]. A type and not a closure, because it must be
/// inlined for the processor's features to apply to it.
pub(crate) trait Work {
    type Output;
    fn run(self, ops: impl LaneOps) -> Self::Output;
}

/// Runs `work` with AVX2 where the processor has it.
#[inline(always)]
pub(crate) fn vectorized<W: Work>(work: W) -> W::Output {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    if let Some(simd) = pulp::x86::V3::try_new() {
        struct Inlined<W>(W, avx2::Avx2);

        impl<W: Work> pulp::NullaryFnOnce for Inlined<W> {
            type Output = W::Output;

            #[inline(always)]
            fn call(self) -> W::Output {
                self.0.run(self.1)
            }
        }

        return simd.vectorize(Inlined(work, avx2::Avx2(simd)));
    }
    portable(work)
}

/// Kept apart, so that the caller's frame stays small.
#[inline(never)]
fn portable<W: Work>(work: W) -> W::Output {
    work.run(Portable)
}

/// Lanes that pass the data stage together.
#[inline(always)]
fn group_lanes(width: u32) -> u32 {
    (ROW_BYTES / width).min(WARP_LANES as u32)
}

/// Bytes between the first two lanes, if it is the same for all neighbours of
/// the 32 lanes and less than 2 GiB.
#[inline(always)]
fn even_stride(ops: impl LaneOps, addresses: &[u64; WARP_LANES]) -> Option<u32> {
    let stride = addresses[1].wrapping_sub(addresses[0]);
    // Most accesses that are not even show it at once.
    let may_be = addresses[2].wrapping_sub(addresses[1]) == stride && stride >> 31 == 0;
    (may_be && ops.is_even(addresses, stride)).then_some(stride as u32)
}

/// The sets of an access to global memory by a non-empty mask; `None` when its
/// lanes lie too far apart.
#[inline(always)]
pub(crate) fn sets(
    ops: impl LaneOps,
    mask: LaneMask,
    addresses: &[u64; WARP_LANES],
    width: u32,
) -> Option<Sets> {
    if mask == LaneMask::FULL {
        if let Some(stride) = even_stride(ops, addresses) {
            return Some(even::sets(addresses[0], stride));
        }
        if let Some((sets, _)) = ascending_sets(ops, addresses) {
            return Some(sets);
        }
    } else if let Some((sets, _)) = ascending_sets(ops, &fill(mask, addresses)) {
        return Some(sets);
    }
    let group = WARP_LANES as u32;
    if width < WORD_BYTES {
        Some(any_lines::<1, true>(ops, mask, addresses, width, group)?.1)
    } else {
        Some(any_lines::<1, false>(ops, mask, addresses, width, group)?.1)
    }
}

/// The sets and stages of a load or store of global memory by a non-empty mask;
/// `None` when its lanes lie too far apart.
#[inline(always)]
pub(crate) fn pipeline(
    ops: impl LaneOps,
    rules: &FastRules,
    mask: LaneMask,
    addresses: &[u64; WARP_LANES],
    width: u32,
    passing: Passing,
) -> Option<(Sets, Stages)> {
    let filled;
    let mut neighbours = addresses;
    if mask == LaneMask::FULL {
        if let Some(stride) = even_stride(ops, addresses) {
            let sets = even::sets(addresses[0], stride);
            let even = even::stages(ops, rules, addresses, stride, sets.lines, width, passing);
            if let Some(stages) = even {
                return Some((sets, stages));
            }
        }
    } else {
        filled = fill(mask, addresses);
        neighbours = &filled;
    }
    if width <= WORD_BYTES
        && let Some((sets, firsts)) = ascending_sets(ops, neighbours)
        && let Some(lines) = ascending_lines(ops, neighbours, firsts)
    {
        return Some((
            sets,
            stages(ops, rules, &lines, width, passing, first_line(mask, addresses)),
        ));
    }
    let group = group_lanes(width);
    match WARP_LANES as u32 / group {
        1 if width < WORD_BYTES => {
            any_order::<1, true>(ops, rules, mask, addresses, width, passing)
        }
        1 => any_order::<1, false>(ops, rules, mask, addresses, width, passing),
        2 => any_order::<2, false>(ops, rules, mask, addresses, width, passing),
        4 => any_order::<4, false>(ops, rules, mask, addresses, width, passing),
        _ => any_order::<8, false>(ops, rules, mask, addresses, width, passing),
    }
}

/// The line of the first active lane, from which others are said to differ.
#[inline(always)]
fn first_line(mask: LaneMask, addresses: &[u64; WARP_LANES]) -> u64 {
    addresses[mask.0.trailing_zeros() as usize % WARP_LANES] >> LINE_SHIFT
}

#[inline(always)]
fn any_order<const P: usize, const FINE: bool>(
    ops: impl LaneOps,
    rules: &FastRules,
    mask: LaneMask,
    addresses: &[u64; WARP_LANES],
    width: u32,
    passing: Passing,
) -> Option<(Sets, Stages)> {
    let group = group_lanes(width);
    let (lines, sets) = any_lines::<P, FINE>(ops, mask, addresses, width, group)?;
    Some((sets, stages(ops, rules, &lines, width, passing, first_line(mask, addresses))))
}

/// What a shared-memory access of 32 banks of 4 bytes takes, whose lanes pass
/// in groups of `group`, at least [`LEAST_GROUP`]; `None` when its lanes lie too
/// far apart.
pub(crate) struct CountShared<'a> {
    pub(crate) mask: LaneMask,
    pub(crate) addresses: &'a [u64; WARP_LANES],
    pub(crate) width: u32,
    pub(crate) group: u32,
}

/// Counts of one access to shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedCounts {
    pub(crate) wavefronts: u32,
    /// Lane groups.
    pub(crate) groups: u32,
    /// Distinct addresses.
    pub(crate) starts: u32,
}

impl Work for CountShared<'_> {
    type Output = Option<SharedCounts>;

    #[inline(always)]
    fn run(self, ops: impl LaneOps) -> Option<SharedCounts> {
        let Self { mask, addresses, width, group } = self;
        let groups = WARP_LANES as u32 / group;
        if mask == LaneMask::FULL
            && group * width <= ROW_BYTES
            && even_stride(ops, addresses) == Some(width)
        {
            return Some(SharedCounts { wavefronts: groups, groups, starts: WARP_LANES as u32 });
        }
        match groups {
            1 if width < WORD_BYTES => shared_groups::<1, true>(ops, mask, addresses, width, group),
            1 => shared_groups::<1, false>(ops, mask, addresses, width, group),
            2 => shared_groups::<2, false>(ops, mask, addresses, width, group),
            4 => shared_groups::<4, false>(ops, mask, addresses, width, group),
            _ => shared_groups::<8, false>(ops, mask, addresses, width, group),
        }
    }
}

#[inline(always)]
fn shared_groups<const P: usize, const FINE: bool>(
    ops: impl LaneOps,
    mask: LaneMask,
    addresses: &[u64; WARP_LANES],
    width: u32,
    group: u32,
) -> Option<SharedCounts> {
    let (lines, sets) = any_lines::<P, FINE>(ops, mask, addresses, width, group)?;
    let mut counts = SharedCounts { starts: sets.starts, ..SharedCounts::default() };
    for part in &lines.words {
        let most = ops.most_shared(&ops.select(lines.firsts, part, &[0; WARP_LANES]));
        counts.wavefronts += most;
        counts.groups += u32::from(most != 0);
    }
    Some(counts)
}

#[cfg(all(test, feature = "std", target_arch = "x86_64"))]
mod tests {
    use super::lane_ops::CHUNK;
    use super::*;
    use proptest::prelude::*;

    fn addresses() -> impl Strategy<Value = [u64; WARP_LANES]> {
        let base = prop_oneof![Just(0u64), Just(0x7f00_0000_0000), any::<u64>()];
        let offsets = prop_oneof![
            (0u64..1 << 33).prop_map(|stride| std::array::from_fn(|lane| lane as u64 * stride)),
            (0u32..64).prop_flat_map(|bits| prop::array::uniform32(0u64..=(1 << bits) - 1)),
            (0u32..34)
                .prop_flat_map(|bits| prop::array::uniform32(0u64..=(1 << bits) - 1))
                .prop_map(|mut steps| {
                    for lane in 1..WARP_LANES {
                        steps[lane] += steps[lane - 1];
                    }
                    steps
                }),
        ];
        (base, offsets).prop_map(|(base, offsets): (u64, [u64; WARP_LANES])| {
            offsets.map(|offset| base.wrapping_add(offset))
        })
    }

    fn numbers() -> impl Strategy<Value = [u32; WARP_LANES]> {
        (0u32..32).prop_flat_map(|bits| prop::array::uniform32(0u32..=(1 << bits) - 1))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn vectors_answer_as_plain_rust(
            addresses in addresses(),
            numbers in numbers(),
            others in prop::array::uniform32(any::<u32>()),
            mask: u32,
            masks: [u32; 2],
            lane in 0..WARP_LANES,
        ) {
            let Some(simd) = pulp::x86::V3::try_new() else { return Ok(()) };
            let ops = avx2::Avx2(simd);
            let stride = addresses[1].wrapping_sub(addresses[0]);
            prop_assert_eq!(
                ops.is_even(&addresses, stride),
                Portable.is_even(&addresses, stride)
            );
            prop_assert_eq!(ops.steps(&addresses), Portable.steps(&addresses));
            let base = addresses[lane] >> LINE_SHIFT;
            prop_assert_eq!(ops.lines(&addresses, base), Portable.lines(&addresses, base));
            prop_assert_eq!(ops.words(&addresses, 0b11), Portable.words(&addresses, 0b11));
            prop_assert_eq!(ops.above(&numbers, 127), Portable.above(&numbers, 127));
            prop_assert_eq!(
                ops.select(mask, &numbers, &others),
                Portable.select(mask, &numbers, &others)
            );
            prop_assert_eq!(
                ops.equal(&numbers, numbers[lane]),
                Portable.equal(&numbers, numbers[lane])
            );
            prop_assert_eq!(ops.parities(&others, masks), Portable.parities(&others, masks));
            prop_assert_eq!(ops.most_shared(&others), Portable.most_shared(&others));
            prop_assert_eq!(ops.most_shared(&numbers), Portable.most_shared(&numbers));
            let mut sorted = numbers;
            sorted.sort_unstable();
            prop_assert_eq!(
                ops.join_runs(&others, &sorted),
                Portable.join_runs(&others, &sorted)
            );
            let four: [[u32; CHUNK]; 4] = pulp::cast(numbers);
            prop_assert_eq!(
                ops.most_shared_of_four(&four),
                Portable.most_shared_of_four(&four)
            );
            // At least one of each two.
            for twins in [ops.twins(&numbers), Portable.twins(&numbers)] {
                for (lane, number) in numbers.iter().enumerate() {
                    let same = Portable.equal(&numbers, *number);
                    if same.count_ones() == 2 {
                        prop_assert!(twins & same != 0, "lane {}", lane);
                    }
                }
            }
        }
    }
}
