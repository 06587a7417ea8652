//! The simulator's core for a browser: a page sets 32 addresses, asks for a
//! count, and reads numbers.
//!
//! WebAssembly without a host's support passes numbers only, so that is the
//! whole interface: no strings, no memory of the module is touched from
//! outside. What is not defined by a rule set is −1. State lies in atomics: a
//! page has one thread, and they need no unsafe code.
//!
//! ```
//! use coalescope_explorer as explorer;
//!
//! for lane in 0..32 {
//!     explorer::set_lane(lane, 4096 + 8 * u64::from(lane));
//! }
//! let hopper = explorer::find_arch(90);
//! assert_eq!(explorer::count(hopper, explorer::LOAD, 4, u32::MAX), explorer::GOOD);
//! assert_eq!(explorer::field(explorer::SECTORS), 8.0);
//! assert_eq!(explorer::lane_sector(31), 7);
//! ```
#![cfg_attr(target_arch = "wasm32", no_std)]

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};
use simulator::{Explanation, Field, LaneMask, Op, RuleSet, WARP_LANES, WarpAccess};

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

#[cfg(target_arch = "wasm32")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// [`count`] counted.
pub const GOOD: i32 = 0;
/// [`count`] was given no rule set or operation.
pub const UNKNOWN: i32 = 1;
/// The rule set's architecture does not take the access: width, alignment,
/// address.
pub const REFUSED: i32 = 2;

/// Operations of [`count`].
pub const LOAD: u32 = 0;
/// A store.
pub const STORE: u32 = 1;
/// A reduction: 32-bit `add`.
pub const REDUCTION: u32 = 2;
/// An atomic with its result: 32-bit `add`.
pub const ATOMIC: u32 = 3;
/// A load from shared memory.
pub const SHARED_LOAD: u32 = 4;
/// A store to shared memory.
pub const SHARED_STORE: u32 = 5;

/// [`field`]: sectors.
pub const SECTORS: u32 = 1;

/// The fields in the order of [`field`].
pub const FIELDS: [Field; 12] = [
    Field::Requests,
    Field::Sectors,
    Field::Tags,
    Field::TagWavefronts,
    Field::DataWavefronts,
    Field::BankConflicts,
    Field::L2Sectors,
    Field::UniqueSectors,
    Field::RequestedBytes,
    Field::UniqueBytes,
    Field::MovedBytes,
    Field::Transactions,
];

/// Lanes touch two sectors at most, in local memory more: as many as are kept.
const MOST_SECTORS: usize = 2 * WARP_LANES;

/// Not there.
const NONE: i32 = -1;

static ADDRESSES: [AtomicU64; WARP_LANES] = [const { AtomicU64::new(0) }; WARP_LANES];
static COUNTS: [AtomicU64; FIELDS.len()] = [const { AtomicU64::new(u64::MAX) }; FIELDS.len()];
static EXACT: AtomicI32 = AtomicI32::new(0);
static SECTOR_COUNT: AtomicI32 = AtomicI32::new(0);
static SECTOR_ADDRESSES: [AtomicU64; MOST_SECTORS] = [const { AtomicU64::new(0) }; MOST_SECTORS];
static SECTOR_BYTES: [AtomicI32; MOST_SECTORS] = [const { AtomicI32::new(0) }; MOST_SECTORS];
static SECTOR_LINES: [AtomicI32; MOST_SECTORS] = [const { AtomicI32::new(0) }; MOST_SECTORS];
static LANE_SECTORS: [AtomicI32; WARP_LANES] = [const { AtomicI32::new(NONE) }; WARP_LANES];
static LANE_TAG_BANKS: [AtomicI32; WARP_LANES] = [const { AtomicI32::new(NONE) }; WARP_LANES];
static LANE_TAG_WAVEFRONTS: [AtomicI32; WARP_LANES] = [const { AtomicI32::new(NONE) }; WARP_LANES];
static LANE_DATA_WAVEFRONTS: [AtomicI32; WARP_LANES] = [const { AtomicI32::new(NONE) }; WARP_LANES];

/// Number of rule sets.
#[unsafe(no_mangle)]
pub extern "C" fn arch_count() -> u32 {
    u32::try_from(RuleSet::shipped().count()).unwrap_or(0)
}

/// The place of the rule set for a compute capability, given as ten times it
/// (9.0 is 90); [`arch_count`] where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn find_arch(tenfold: u32) -> u32 {
    let is_it = |arch: &str| {
        let (major, minor) = arch.split_once('.').unwrap_or((arch, ""));
        match (major.parse::<u32>(), minor.parse::<u32>()) {
            (Ok(major), Ok(minor)) => minor < 10 && major * 10 + minor == tenfold,
            _ => false,
        }
    };
    let found = RuleSet::shipped().position(|rules| rules.archs().iter().any(|arch| is_it(arch)));
    found.and_then(|place| u32::try_from(place).ok()).unwrap_or_else(|| arch_count())
}

/// Bytes of a sector of a rule set, 0 where it has none.
#[unsafe(no_mangle)]
pub extern "C" fn sector_bytes(arch: u32) -> u32 {
    rules(arch).and_then(|rules| rules.sector_bytes()).unwrap_or(0)
}

/// Bytes of a line of a rule set, 0 where it has none.
#[unsafe(no_mangle)]
pub extern "C" fn line_bytes(arch: u32) -> u32 {
    rules(arch).and_then(|rules| rules.line_bytes()).unwrap_or(0)
}

/// Sets the address of a lane (0..=31), in bytes; of shared memory the offset.
#[unsafe(no_mangle)]
pub extern "C" fn set_lane(lane: u32, address: u64) {
    if let Some(slot) = ADDRESSES.get(lane as usize) {
        slot.store(address, Relaxed);
    }
}

/// Counts the access of the addresses set, by the rule set at a place, with
/// `width` bytes a lane and the lanes of `mask` on (lane 0 the lowest bit).
/// [`GOOD`], [`UNKNOWN`] or [`REFUSED`].
#[unsafe(no_mangle)]
pub extern "C" fn count(arch: u32, op: u32, width: u32, mask: u32) -> i32 {
    let names = ["ld", "st", "red", "atom", "lds", "sts"];
    let (Some(rules), Some(name), Ok(width)) =
        (rules(arch), names.get(op as usize), u8::try_from(width))
    else {
        return UNKNOWN;
    };
    let Ok(op) = Op::parse(name, None, None, width) else { return REFUSED };
    let addresses = core::array::from_fn(|lane| ADDRESSES[lane].load(Relaxed));
    let access = WarpAccess { mask: LaneMask(mask), ..WarpAccess::new(op, width, addresses) };
    if rules.check(&access).is_err() {
        return REFUSED;
    }
    keep(&rules.explain(&access));
    GOOD
}

/// A count by its place in [`FIELDS`]; −1 where the rule set has none.
#[unsafe(no_mangle)]
pub extern "C" fn field(index: u32) -> f64 {
    match COUNTS.get(index as usize).map(|count| count.load(Relaxed)) {
        None | Some(u64::MAX) => -1.0,
        Some(count) => count as f64,
    }
}

/// Whether the counts are known to be the device's: 1, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn exact() -> i32 {
    EXACT.load(Relaxed)
}

/// Sectors of the access, in the order of the first lane that touches them.
#[unsafe(no_mangle)]
pub extern "C" fn sectors() -> i32 {
    SECTOR_COUNT.load(Relaxed)
}

/// First byte of a sector.
#[unsafe(no_mangle)]
pub extern "C" fn sector_address(sector: u32) -> u64 {
    SECTOR_ADDRESSES.get(sector as usize).map_or(0, |address| address.load(Relaxed))
}

/// Distinct bytes that the lanes touch in a sector.
#[unsafe(no_mangle)]
pub extern "C" fn sector_bytes_used(sector: u32) -> i32 {
    read(&SECTOR_BYTES, sector)
}

/// The line of a sector, numbered in the order of the first lane.
#[unsafe(no_mangle)]
pub extern "C" fn sector_line(sector: u32) -> i32 {
    read(&SECTOR_LINES, sector)
}

/// The first sector of a lane; −1 where the lane is off.
#[unsafe(no_mangle)]
pub extern "C" fn lane_sector(lane: u32) -> i32 {
    read(&LANE_SECTORS, lane)
}

/// The tag bank of a lane's line.
#[unsafe(no_mangle)]
pub extern "C" fn lane_tag_bank(lane: u32) -> i32 {
    read(&LANE_TAG_BANKS, lane)
}

/// The pass through the tag stage that serves a lane, from 0.
#[unsafe(no_mangle)]
pub extern "C" fn lane_tag_wavefront(lane: u32) -> i32 {
    read(&LANE_TAG_WAVEFRONTS, lane)
}

/// The first data wavefront that serves a lane, from 0.
#[unsafe(no_mangle)]
pub extern "C" fn lane_data_wavefront(lane: u32) -> i32 {
    read(&LANE_DATA_WAVEFRONTS, lane)
}

fn rules(arch: u32) -> Option<RuleSet> {
    RuleSet::shipped().nth(arch as usize)
}

fn read(values: &[AtomicI32], index: u32) -> i32 {
    values.get(index as usize).map_or(NONE, |value| value.load(Relaxed))
}

fn place(index: Option<usize>) -> i32 {
    index.and_then(|index| i32::try_from(index).ok()).unwrap_or(NONE)
}

fn keep(explanation: &Explanation) {
    let mut totals = simulator::Totals::default();
    totals.add(&explanation.counts);
    for (slot, field) in COUNTS.iter().zip(FIELDS) {
        let count = totals.get(field).and_then(|count| u64::try_from(count).ok());
        slot.store(count.unwrap_or(u64::MAX), Relaxed);
    }
    EXACT.store(explanation.counts.exact.into(), Relaxed);
    let kept = explanation.sectors.len().min(MOST_SECTORS);
    SECTOR_COUNT.store(place(Some(kept)), Relaxed);
    for (index, sector) in explanation.sectors.iter().take(kept).enumerate() {
        SECTOR_ADDRESSES[index].store(sector.address, Relaxed);
        SECTOR_BYTES[index].store(i32::try_from(sector.bytes_used).unwrap_or(NONE), Relaxed);
        SECTOR_LINES[index].store(place(Some(sector.line)), Relaxed);
    }
    let of_lanes = [&LANE_SECTORS, &LANE_TAG_BANKS, &LANE_TAG_WAVEFRONTS, &LANE_DATA_WAVEFRONTS];
    of_lanes.into_iter().flatten().for_each(|value| value.store(NONE, Relaxed));
    for lane in &explanation.lanes {
        let at = usize::from(lane.lane) % WARP_LANES;
        LANE_SECTORS[at].store(place(lane.sectors.first().copied()), Relaxed);
        let bank = lane.tag_bank.and_then(|bank| i32::try_from(bank).ok());
        LANE_TAG_BANKS[at].store(bank.unwrap_or(NONE), Relaxed);
        LANE_TAG_WAVEFRONTS[at].store(place(lane.tag_wavefront), Relaxed);
        LANE_DATA_WAVEFRONTS[at].store(place(lane.data_wavefronts.first().copied()), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test alone: the state is one for all.
    #[test]
    fn what_is_read_is_what_the_simulator_counts() {
        assert_eq!(count(arch_count(), LOAD, 4, 1), UNKNOWN);
        assert_eq!(count(0, 99, 4, 1), UNKNOWN);
        assert_eq!(find_arch(70), find_arch(75));
        assert_eq!(find_arch(99), arch_count());

        let mut counted = 0;
        for arch in 0..arch_count() {
            let rules = rules(arch).expect("a rule set");
            for (op, name) in ["ld", "st", "red", "atom", "lds", "sts"].into_iter().enumerate() {
                for stride in [0, 4, 8, 12, 36, 128, 4100] {
                    for mask in [0, 1, 0x8421_1248, u32::MAX] {
                        let addresses = core::array::from_fn(|lane| stride * lane as u64);
                        for (lane, address) in addresses.into_iter().enumerate() {
                            set_lane(lane as u32, address);
                        }
                        let op_of = Op::parse(name, None, None, 4).expect("an operation");
                        let access = WarpAccess {
                            mask: LaneMask(mask),
                            ..WarpAccess::new(op_of, 4, addresses)
                        };
                        let answer = count(arch, op as u32, 4, mask);
                        assert_eq!(answer == GOOD, rules.check(&access).is_ok());
                        if answer != GOOD {
                            continue;
                        }
                        counted += 1;
                        let counts = rules.count(&access);
                        let mut totals = simulator::Totals::default();
                        totals.add(&counts);
                        for (index, of) in FIELDS.into_iter().enumerate() {
                            let expected = totals.get(of).map_or(-1.0, |count| count as f64);
                            assert_eq!(
                                field(index as u32),
                                expected,
                                "{of} of {name}, arch {arch}"
                            );
                        }
                        assert_eq!(exact() == 1, counts.exact);
                        for lane in 0..32 {
                            let on = mask >> lane & 1 == 1;
                            assert!(on || lane_sector(lane) == NONE);
                        }
                    }
                }
            }
        }
        assert!(counted > 1000, "{counted}");
    }
}
