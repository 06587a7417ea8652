//! Warps a second on one core: `cargo bench -p coalescope-simulator`.
//!
//! Each pattern is counted over 512 different warps, so that no branch can
//! be learnt by heart. `sets` is [`RuleSet::coalesce`] (sectors, tags, bytes),
//! `pipeline` is [`RuleSet::count`] (with tag and data wavefronts and bank
//! conflicts). `yardstick` is what one would write first: an ordered map a
//! quantity, lane by lane.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;

use coalescope_simulator::{Counts, LaneMask, Op, RuleSet, WARP_LANES, WarpAccess};
use divan::Bencher;
use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

/// Warps in a pattern: their addresses fill half of a common second-level
/// cache.
const WARPS: usize = 512;

/// The patterns: lane addresses by warp and lane, 4 bytes a lane.
const PATTERNS: &[&str] = &[
    "contiguous",
    "contiguous misaligned",
    "strided 8 B",
    "strided 12 B",
    "strided 128 B",
    "strided 2052 B",
    "random 64 KiB",
    "random 256 MiB",
    "half masked",
    "store contiguous",
    "store random 256 MiB",
    "16 B contiguous",
    "16 B random 256 MiB",
];

fn accesses(pattern: &str) -> Vec<WarpAccess> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    const BASE: u64 = 0x7f12_3400_0000;
    (0..WARPS as u64)
        .map(|warp| {
            let strided = |stride: u64| -> [u64; WARP_LANES] {
                std::array::from_fn(|lane| BASE + (warp * 32 + lane as u64) * stride)
            };
            let mut within = |bytes: u64, width: u64| -> [u64; WARP_LANES] {
                std::array::from_fn(|_| BASE + random() % bytes / width * width)
            };
            let load = |addresses| WarpAccess::new(Op::LOAD, 4, addresses);
            match pattern {
                "contiguous" => load(strided(4)),
                "contiguous misaligned" => load(strided(4).map(|address| address + warp % 31 * 4)),
                "strided 8 B" => load(strided(8)),
                "strided 12 B" => load(strided(12)),
                "strided 128 B" => load(strided(128)),
                "strided 2052 B" => load(strided(2052)),
                "random 64 KiB" => load(within(64 << 10, 4)),
                "random 256 MiB" => load(within(256 << 20, 4)),
                "half masked" => {
                    let mut access = load(strided(4));
                    access.mask = LaneMask(0xffff);
                    access
                }
                "store contiguous" => WarpAccess::new(Op::STORE, 4, strided(4)),
                "store random 256 MiB" => WarpAccess::new(Op::STORE, 4, within(256 << 20, 4)),
                "16 B contiguous" => WarpAccess::new(Op::LOAD, 16, strided(16)),
                "16 B random 256 MiB" => WarpAccess::new(Op::LOAD, 16, within(256 << 20, 16)),
                other => panic!("no pattern {other}"),
            }
        })
        .collect()
}

fn each(bencher: Bencher, pattern: &str, count: impl Fn(&WarpAccess) -> Counts + Sync) {
    let accesses = accesses(pattern);
    bencher.counter(ItemsCount::new(WARPS)).bench(|| {
        for access in &accesses {
            black_box(&count(black_box(access)));
        }
    });
}

#[divan::bench(args = PATTERNS)]
fn sets(bencher: Bencher, pattern: &str) {
    let rules = RuleSet::for_arch("9.0").unwrap();
    each(bencher, pattern, |access| rules.coalesce(access));
}

#[divan::bench(args = PATTERNS)]
fn pipeline(bencher: Bencher, pattern: &str) {
    let rules = RuleSet::for_arch("9.0").unwrap();
    each(bencher, pattern, |access| rules.count(access));
}

#[divan::bench(args = PATTERNS)]
fn yardstick_sets(bencher: Bencher, pattern: &str) {
    each(bencher, pattern, ordered_sets);
}

#[divan::bench(args = PATTERNS)]
fn yardstick_pipeline(bencher: Bencher, pattern: &str) {
    let rules = RuleSet::for_arch("9.0").unwrap();
    each(bencher, pattern, |access| ordered_pipeline(&rules, access));
}

/// Sectors, tags and bytes by ordered sets.
fn ordered_sets(access: &WarpAccess) -> Counts {
    let (mut sectors, mut lines, mut starts) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (_, address) in access.active() {
        sectors.insert(address >> 5);
        lines.insert(address >> 7);
        starts.insert(address);
    }
    let sectors = sectors.len() as u32;
    Counts {
        requests: u32::from(!access.mask.is_empty()),
        sectors: Some(sectors),
        tags: Some(lines.len() as u32),
        unique_sectors: Some(sectors),
        l2_sectors: Some(sectors),
        requested_bytes: access.mask.count() * u32::from(access.width),
        unique_bytes: starts.len() as u32 * u32::from(access.width),
        moved_bytes: Some(sectors * 32),
        ..Counts::default()
    }
}

/// The same with the tag and data stages by ordered maps.
fn ordered_pipeline(rules: &RuleSet, access: &WarpAccess) -> Counts {
    let tag = rules.data().tag.as_ref().unwrap();
    let mut wavefront_of: BTreeMap<u64, u32> = BTreeMap::new();
    let mut depth: BTreeMap<u32, u32> = BTreeMap::new();
    // Distinct words by tag wavefront, lane group and bank.
    let mut banks: BTreeMap<(u32, usize), BTreeMap<u64, BTreeSet<u64>>> = BTreeMap::new();
    let width = u64::from(access.width);
    let group = (128 / access.width as usize).min(WARP_LANES);
    let gather = if access.op == Op::STORE { 8 } else { 1 };
    for (lane, address) in access.active() {
        let wavefront = *wavefront_of.entry(address >> 7).or_insert_with(|| {
            let depth = depth.entry(tag.bank(address >> 7)).or_default();
            *depth += 1;
            *depth - 1
        });
        let batch = if wavefront < gather { 0 } else { wavefront };
        let words = banks.entry((batch, lane / group)).or_default();
        for word in address / 4..(address + width).div_ceil(4) {
            words.entry(word % 32).or_default().insert(word);
        }
    }
    let data = banks
        .values()
        .map(|words| words.values().map(BTreeSet::len).max().unwrap_or(0) as u32)
        .sum::<u32>();
    Counts {
        tag_wavefronts: Some(depth.values().copied().max().unwrap_or(0)),
        data_wavefronts: Some(data),
        bank_conflicts: Some(data - banks.len() as u32),
        ..ordered_sets(access)
    }
}
