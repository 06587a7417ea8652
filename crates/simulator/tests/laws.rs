//! Laws of the counts, as properties over random accesses.
//!
//! Each was checked against the rules and the recorded counters before it was
//! asserted. Several that sound as plausible are false: tag wavefronts depend
//! on the order of the lanes, one more lane can lower the data wavefronts of a
//! store, and the sectors of an atomic depend on its rounds.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use coalescope_simulator::rules::LaneGroups;
use coalescope_simulator::{Counts, LaneMask, Op, OpKind, RuleSet, Space, WARP_LANES, WarpAccess};
use proptest::prelude::*;

/// A shipped rule set with an access that it executes.
fn any_counted() -> impl Strategy<Value = (RuleSet, WarpAccess)> {
    any_counted_of(|_, _| true)
}

/// As [`any_counted`], of the operations and widths that `wanted` says.
fn any_counted_of(wanted: fn(&Op, u8) -> bool) -> impl Strategy<Value = (RuleSet, WarpAccess)> {
    prop::sample::select(RuleSet::shipped().collect::<Vec<_>>()).prop_flat_map(move |rules| {
        let access = common::any_access_of(&rules, wanted);
        (Just(rules), access)
    })
}

/// A load or store of some memory.
fn is_plain(op: &Op, space: Space) -> bool {
    op.space == space && matches!(op.kind, OpKind::Load | OpKind::Store)
}

fn is_global(op: &Op, _: u8) -> bool {
    is_plain(op, Space::Global)
}

fn hopper() -> RuleSet {
    RuleSet::for_arch("9.0").unwrap()
}

/// Distinct blocks of `bytes` that some lanes touch, from sets of bytes.
fn blocks(access: &WarpAccess, mask: u32, bytes: u64) -> BTreeSet<u64> {
    let lanes = access.active().filter(|(lane, _)| mask >> lane & 1 == 1);
    lanes
        .flat_map(|(lane, address)| {
            (address..address + u64::from(access.width)).map(move |byte| (lane as u64, byte))
        })
        .map(|(lane, byte)| match access.op.space {
            // Consecutive 4-byte words of consecutive threads lie side by side.
            Space::Local => byte / 4 * 128 + lane * 4 + byte % 4,
            _ => byte,
        })
        .map(|byte| byte / bytes)
        .collect()
}

/// Masks of the lanes of each request.
fn requests(access: &WarpAccess, groups: LaneGroups) -> Vec<u32> {
    let size = match groups.bytes {
        Some(bytes) => u32::from(groups.lanes).min(u32::from(bytes) / u32::from(access.width)),
        None => u32::from(groups.lanes),
    };
    let mut masks = BTreeMap::new();
    for (lane, _) in access.active() {
        *masks.entry(lane as u32 / size.max(1)).or_insert(0) |= 1u32 << lane;
    }
    masks.into_values().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Sectors, unique sectors, tags and bytes equal sets of bytes.
    #[test]
    fn sets_equal_brute_force((rules, access) in any_counted()) {
        let counts = rules.count(&access);
        prop_assert_eq!(
            counts.requested_bytes,
            access.mask.count() * u32::from(access.width)
        );
        prop_assert_eq!(counts.unique_bytes as usize, blocks(&access, u32::MAX, 1).len());
        let (Some(sector), Some(line)) = (rules.sector_bytes(), rules.line_bytes()) else {
            return Ok(());
        };
        if access.op.space == Space::Shared {
            prop_assert_eq!(counts.unique_sectors, None);
            return Ok(());
        }
        let requests = requests(&access, rules.data().request);
        // Those of the words of local memory touch different lines of 128 bytes.
        let of_local = rules.data().local.filter(|_| access.op.space == Space::Local);
        let words = of_local.map_or(1, |local| access.width.div_ceil(local.request_bytes));
        prop_assert_eq!(counts.requests as usize, requests.len() * usize::from(words));
        let count = |bytes: u32| {
            let each = requests.iter().map(|&mask| blocks(&access, mask, bytes.into()).len());
            each.sum::<usize>() as u32
        };
        if let Some(unique) = counts.unique_sectors {
            prop_assert_eq!(unique as usize, blocks(&access, u32::MAX, sector.into()).len());
        }
        // Those of a reduction or atomic count in each of its rounds.
        let least = access.op.is_atomic();
        for (counted, expected) in [(counts.tags, count(line)), (counts.sectors, count(sector))] {
            let Some(counted) = counted else { continue };
            prop_assert!(counted == expected || least && counted > expected);
        }
    }

    /// The data wavefronts of shared memory equal distinct words by bank.
    #[test]
    fn shared_memory_equals_brute_force(
        access in common::any_access_of(&hopper(), |op, _| is_plain(op, Space::Shared))
    ) {
        let load = access.op.kind == OpKind::Load;
        let at = |lane: usize| access.mask.contains(lane).then(|| access.addresses[lane]);
        let agree = |distance: usize| {
            (0..WARP_LANES).all(|lane| match (at(lane), at(lane ^ distance)) {
                (Some(one), Some(other)) => one == other,
                _ => true,
            })
        };
        let size = match access.width {
            8 if load && (agree(1) || agree(2)) => 32,
            16 if load && (agree(1) || agree(2)) => 16,
            8 => 16,
            16 => 8,
            _ => 32,
        };
        let (mut wavefronts, mut groups) = (0, 0);
        for first in (0..WARP_LANES).step_by(size) {
            let mut banks: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
            for lane in first..first + size {
                let Some(address) = at(lane) else { continue };
                for byte in address..address + u64::from(access.width) {
                    banks.entry(byte / 4 % 32).or_default().insert(byte / 4);
                }
            }
            groups += u32::from(!banks.is_empty());
            wavefronts += banks.values().map(BTreeSet::len).max().unwrap_or(0) as u32;
        }
        let counts = hopper().count(&access);
        prop_assert_eq!(counts.data_wavefronts, Some(wavefronts));
        prop_assert_eq!(counts.bank_conflicts, Some(wavefronts - groups));
    }

    #[test]
    fn no_lane_no_work((rules, mut access) in any_counted()) {
        access.mask = LaneMask::EMPTY;
        let counts = rules.count(&access);
        let zero = |count: Option<u32>| count.is_none_or(|count| count == 0);
        prop_assert_eq!(counts.requests, 0);
        prop_assert_eq!((counts.requested_bytes, counts.unique_bytes), (0, 0));
        prop_assert!(
            [
                counts.sectors,
                counts.tags,
                counts.tag_wavefronts,
                counts.data_wavefronts,
                counts.bank_conflicts,
                counts.l2_sectors,
                counts.unique_sectors,
                counts.moved_bytes,
                counts.transactions,
            ]
            .into_iter()
            .all(zero)
        );
    }

    /// What is defined depends on the operation and width, not on the lanes.
    #[test]
    fn the_same_fields_are_defined((rules, access) in any_counted()) {
        prop_assume!(rules.data().shared.as_ref().is_none_or(|shared| shared.broadcast));
        let one = WarpAccess { mask: LaneMask(1), ..access };
        let fields = |c: Counts| {
            [
                c.sectors, c.tags, c.tag_wavefronts, c.data_wavefronts, c.bank_conflicts,
                c.l2_sectors, c.unique_sectors, c.moved_bytes, c.transactions,
            ]
            .map(|field| field.is_some())
        };
        prop_assert_eq!(fields(rules.count(&access)), fields(rules.count(&one)));
    }

    #[test]
    fn inactive_lanes_do_not_matter((rules, access) in any_counted(), noise: [u64; 32]) {
        let mut other = access;
        for (lane, &address) in noise.iter().enumerate() {
            if !access.mask.contains(lane) {
                other.addresses[lane] = address;
            }
        }
        prop_assert_eq!(rules.count(&access), rules.count(&other));
    }

    /// An XOR of all addresses by a constant on line bits exchanges tag banks:
    /// the hash is linear. That changes no count of any operation, but how a
    /// store passes the data stage that has more tag wavefronts than one beyond
    /// a gather.
    #[test]
    fn xor_on_line_bits_exchanges_banks(
        (rules, access) in any_counted_of(|op, _| op.space == Space::Global),
        key: u64,
    ) {
        prop_assume!(rules.sector_bytes().is_some());
        let mut other = access;
        // Bits 7..47, so that the addresses stay plausible.
        let key = key & 0x7fff_ffff_ff80;
        other.addresses = access.addresses.map(|address| address ^ key);
        let (one, mut other) = (rules.count(&access), rules.count(&other));
        if access.op.kind == OpKind::Store
            && let Some(stage) = rules.data().data
        {
            let is_narrow = u32::from(access.width) < stage.bank_bytes;
            let gather = if is_narrow { stage.narrow_store_gather } else { stage.store_gather };
            if one.tag_wavefronts > Some(u32::from(gather) + 1) {
                prop_assert!(other.data_wavefronts.is_some());
                other.data_wavefronts = one.data_wavefronts;
                other.bank_conflicts = one.bank_conflicts;
            }
        }
        prop_assert_eq!(one, other);
    }

    #[test]
    fn moving_by_a_line_changes_no_set((rules, access) in any_counted_of(is_global)) {
        let Some(line) = rules.line_bytes() else { return Ok(()) };
        let mut other = access;
        other.addresses = access.addresses.map(|address| address + u64::from(line));
        let sets = |c: Counts| (c.requests, c.sectors, c.tags, c.unique_sectors, c.moved_bytes);
        prop_assert_eq!(sets(rules.count(&access)), sets(rules.count(&other)));
    }

    /// Where a request is a whole warp, the order of the lanes does not change
    /// the sets.
    #[test]
    fn lane_order_changes_no_set(
        access in common::any_access_of(&hopper(), is_global),
        order in Just((0..WARP_LANES).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut other = access;
        other.mask = LaneMask(0);
        for (lane, &from) in order.iter().enumerate() {
            other.addresses[lane] = access.addresses[from];
            other.mask.0 |= u32::from(access.mask.contains(from)) << lane;
        }
        let sets = |c: Counts| (c.requests, c.sectors, c.tags, c.unique_sectors, c.unique_bytes);
        prop_assert_eq!(sets(hopper().count(&access)), sets(hopper().count(&other)));
    }

    #[test]
    fn one_more_lane_never_lowers_a_set(
        (rules, access) in any_counted_of(is_global),
        lane in 0usize..32,
    ) {
        let less = WarpAccess { mask: LaneMask(access.mask.0 & !(1 << lane)), ..access };
        let (more, less) = (rules.count(&access), rules.count(&less));
        prop_assert!(less.requests <= more.requests);
        prop_assert!(less.sectors <= more.sectors);
        prop_assert!(less.tags <= more.tags);
        prop_assert!(less.unique_sectors <= more.unique_sectors);
        prop_assert!(less.unique_bytes <= more.unique_bytes);
    }

    #[test]
    fn tags_sectors_and_bytes_bound_each_other((rules, access) in any_counted()) {
        let counts = rules.count(&access);
        if let (Some(sectors), Some(tags), false) =
            (counts.sectors, counts.tags, access.op.is_atomic())
        {
            let per_line = rules.line_bytes().unwrap() / rules.sector_bytes().unwrap();
            prop_assert!(tags <= sectors && sectors <= per_line * tags);
        }
        if let Some(moved) = counts.moved_bytes {
            prop_assert!(counts.unique_bytes <= moved);
        }
        if let (Some(sectors), Some(unique)) = (counts.sectors, counts.unique_sectors) {
            prop_assert!(unique <= sectors);
        }
    }

    #[test]
    fn wavefronts_have_their_bounds(access in common::any_access_of(&hopper(), is_global)) {
        let counts = hopper().count(&access);
        let (tags, tag_wavefronts) = (counts.tags.unwrap(), counts.tag_wavefronts.unwrap());
        prop_assert!(tags.div_ceil(4) <= tag_wavefronts && tag_wavefronts <= tags);
        if access.op.kind == OpKind::Load {
            prop_assert!(counts.data_wavefronts.unwrap() >= tag_wavefronts);
        }
    }

    /// Two lanes of one quarter-warp on one line, neither its first toucher,
    /// can change places (loads, and stores of at least 4 bytes).
    #[test]
    fn late_lanes_of_a_line_can_swap(
        mut access in common::any_access_of(&hopper(), |op, width| {
            is_global(op, width) && (op.kind == OpKind::Load || width >= 4)
        }),
        quarter in 0usize..4,
        (one, other) in (0usize..8, 0usize..8),
        first: prop::sample::Index,
        offsets: (u64, u64),
    ) {
        let (one, other) = (quarter * 8 + one, quarter * 8 + other);
        prop_assume!(one.min(other) > 0);
        let first = first.index(one.min(other));
        access.mask.0 |= 1 << first;
        let width = u64::from(access.width);
        let line = access.addresses[first] / 128 * 128;
        access.addresses[one] = line + offsets.0 % 128 / width * width;
        access.addresses[other] = line + offsets.1 % 128 / width * width;
        access.mask.0 |= 1 << one | 1 << other;
        let mut swapped = access;
        swapped.addresses.swap(one, other);
        prop_assert_eq!(hopper().count(&access), hopper().count(&swapped));
    }

    /// An access that `check` refuses still neither panics nor hangs.
    #[test]
    fn nothing_panics(
        (rules, mut access) in any_counted(),
        width: u8,
        addresses: [u64; 32],
        use_width: bool,
    ) {
        if use_width {
            access.width = width;
        }
        access.addresses = addresses;
        let counts = rules.count(&access);
        prop_assert_eq!(rules.explain(&access).counts, counts);
        let _ = (rules.check(&access), rules.transactions(&access));
    }
}
