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
//! // The rule sets have the order of `RuleSet::shipped`.
//! let hopper = simulator::RuleSet::shipped().position(|rules| rules.name() == "Hopper").unwrap() as u32;
//! assert_eq!(explorer::count(hopper, explorer::LOAD, 4, u32::MAX), explorer::GOOD);
//! assert_eq!(explorer::field(explorer::SECTORS), 8.0);
//! assert_eq!(explorer::lane_sector(31), 7);
//! ```
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use once_cell::race::OnceBox;
use simulator::{Explanation, Field, LaneMask, Op, RuleSet, Space, WARP_LANES, WarpAccess};

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

#[cfg(target_arch = "wasm32")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// This crate as WebAssembly, with the functions below as exports and nothing
/// imported: `crates/explorer/explorer.wasm`, built by `scripts/explorer.sh`.
#[cfg(not(target_arch = "wasm32"))]
pub const WASM: &[u8] = include_bytes!("../explorer.wasm");

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

/// Sectors and transactions that are kept: a lane of global memory touches two at
/// most.
const MOST_SECTORS: usize = 2 * WARP_LANES;

/// Words of data wavefronts that are kept: a lane of 32 bytes takes eight, and an
/// atomic passes twice.
const MOST_WORDS: usize = 16 * WARP_LANES;

/// Not there.
const NONE: i32 = -1;

static ADDRESSES: [AtomicU64; WARP_LANES] = [const { AtomicU64::new(0) }; WARP_LANES];
static COUNTS: [AtomicU64; FIELDS.len()] = [const { AtomicU64::new(u64::MAX) }; FIELDS.len()];
static EFFICIENCIES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static EXACT: AtomicI32 = AtomicI32::new(0);
static SECTOR_COUNT: AtomicI32 = AtomicI32::new(0);
static LINE_COUNT: AtomicI32 = AtomicI32::new(0);
static TRANSACTION_COUNT: AtomicI32 = AtomicI32::new(0);
static WORD_COUNT: AtomicI32 = AtomicI32::new(0);
static SECTOR_ADDRESSES: [AtomicU64; MOST_SECTORS] = [const { AtomicU64::new(0) }; MOST_SECTORS];
static SECTOR_BYTES: [AtomicI32; MOST_SECTORS] = [const { AtomicI32::new(0) }; MOST_SECTORS];
static SECTOR_LINES: [AtomicI32; MOST_SECTORS] = [const { AtomicI32::new(0) }; MOST_SECTORS];
static SECTOR_LANES: [AtomicU32; MOST_SECTORS] = [const { AtomicU32::new(0) }; MOST_SECTORS];
static LINE_ADDRESSES: [AtomicU64; MOST_SECTORS] = [const { AtomicU64::new(0) }; MOST_SECTORS];
static LINE_TAG_BANKS: [AtomicI32; MOST_SECTORS] = [const { AtomicI32::new(NONE) }; MOST_SECTORS];
static TRANSACTION_ADDRESSES: [AtomicU64; MOST_SECTORS] =
    [const { AtomicU64::new(0) }; MOST_SECTORS];
static TRANSACTION_BYTES: [AtomicI32; MOST_SECTORS] = [const { AtomicI32::new(0) }; MOST_SECTORS];
static TRANSACTION_LANES: [AtomicU32; MOST_SECTORS] = [const { AtomicU32::new(0) }; MOST_SECTORS];
static WORD_WAVEFRONTS: [AtomicI32; MOST_WORDS] = [const { AtomicI32::new(NONE) }; MOST_WORDS];
static WORD_BANKS: [AtomicI32; MOST_WORDS] = [const { AtomicI32::new(NONE) }; MOST_WORDS];
static WORD_LANES: [AtomicU32; MOST_WORDS] = [const { AtomicU32::new(0) }; MOST_WORDS];
static LANE_SECTORS: [AtomicI32; WARP_LANES] = [const { AtomicI32::new(NONE) }; WARP_LANES];
static LANE_TAG_BANKS: [AtomicI32; WARP_LANES] = [const { AtomicI32::new(NONE) }; WARP_LANES];
static LANE_TAG_WAVEFRONTS: [AtomicI32; WARP_LANES] = [const { AtomicI32::new(NONE) }; WARP_LANES];
static LANE_DATA_WAVEFRONTS: [AtomicI32; WARP_LANES] = [const { AtomicI32::new(NONE) }; WARP_LANES];

/// Number of rule sets: those of [`RuleSet::shipped`], each at its place there.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn arch_count() -> u32 {
    u32::try_from(all_rules().len()).unwrap_or(0)
}

/// Bytes of a sector of a rule set, 0 where it has none.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn sector_bytes(arch: u32) -> u32 {
    rules(arch).and_then(|rules| rules.sector_bytes()).unwrap_or(0)
}

/// Bytes of a line of a rule set, 0 where it has none.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn line_bytes(arch: u32) -> u32 {
    rules(arch).and_then(|rules| rules.line_bytes()).unwrap_or(0)
}

/// Banks of shared memory of a rule set, 0 where it has none.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn shared_banks(arch: u32) -> u32 {
    rules(arch).and_then(|rules| rules.data().shared.as_ref()).map_or(0, |shared| shared.banks)
}

/// Sets the address of a lane (0..=31), in bytes; of shared memory the offset.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn set_lane(lane: u32, address: u64) {
    if let Some(slot) = ADDRESSES.get(lane as usize) {
        slot.store(address, Relaxed);
    }
}

/// Counts the access of the addresses set, by the rule set at a place, with
/// `width` bytes a lane and the lanes of `mask` on (lane 0 the lowest bit).
/// [`GOOD`], [`UNKNOWN`] or [`REFUSED`].
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn count(arch: u32, op: u32, width: u32, mask: u32) -> i32 {
    let names = ["ld", "st", "red", "atom", "lds", "sts"];
    let (Some(rules), Some(name), Ok(width)) =
        (rules(arch), names.get(op as usize), u8::try_from(width))
    else {
        return UNKNOWN;
    };
    // All bytes of a lane are read; without a type, half of an 8-byte load from
    // shared memory would be.
    let value_type = (op == SHARED_LOAD && width == 8).then_some("b64");
    let Ok(op) = Op::parse(name, None, value_type, width) else { return REFUSED };
    let addresses = core::array::from_fn(|lane| ADDRESSES[lane].load(Relaxed));
    let access = WarpAccess { mask: LaneMask(mask), ..WarpAccess::new(op, width, addresses) };
    if rules.check(&access).is_err() {
        return REFUSED;
    }
    keep(&rules.explain(&access), op.space);
    GOOD
}

/// A count by its place in [`FIELDS`]; −1 where the rule set has none.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn field(index: u32) -> f64 {
    match COUNTS.get(index as usize).map(|count| count.load(Relaxed)) {
        None | Some(u64::MAX) => -1.0,
        Some(count) => count as f64,
    }
}

/// Bytes used of those moved, as a share of 1: with 0 the sum over the lanes, with 1
/// each byte once. NaN where the rule set does not define it, or nothing moves.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn efficiency(of: u32) -> f64 {
    EFFICIENCIES.get(of as usize).map_or(f64::NAN, |share| f64::from_bits(share.load(Relaxed)))
}

/// Whether the counts are known to be the device's: 1, else 0.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn exact() -> i32 {
    EXACT.load(Relaxed)
}

/// Sectors of the access, in the order of the first lane that touches them.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn sectors() -> i32 {
    SECTOR_COUNT.load(Relaxed)
}

/// First byte of a sector.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn sector_address(sector: u32) -> u64 {
    SECTOR_ADDRESSES.get(sector as usize).map_or(0, |address| address.load(Relaxed))
}

/// Distinct bytes that the lanes touch in a sector.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn sector_bytes_used(sector: u32) -> i32 {
    read(&SECTOR_BYTES, sector)
}

/// The line of a sector, numbered in the order of the first lane.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn sector_line(sector: u32) -> i32 {
    read(&SECTOR_LINES, sector)
}

/// The lanes that touch a sector, lane 0 the lowest bit.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn sector_lanes(sector: u32) -> u32 {
    read_mask(&SECTOR_LANES, sector)
}

/// Lines of the access.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn lines() -> i32 {
    LINE_COUNT.load(Relaxed)
}

/// First byte of a line.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn line_address(line: u32) -> u64 {
    LINE_ADDRESSES.get(line as usize).map_or(0, |address| address.load(Relaxed))
}

/// The tag bank of a line.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn line_tag_bank(line: u32) -> i32 {
    read(&LINE_TAG_BANKS, line)
}

/// Memory transactions of the access, on CC 1.x–2.x.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn transactions() -> i32 {
    TRANSACTION_COUNT.load(Relaxed)
}

/// First byte of a transaction.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn transaction_address(transaction: u32) -> u64 {
    TRANSACTION_ADDRESSES.get(transaction as usize).map_or(0, |address| address.load(Relaxed))
}

/// Bytes of a transaction.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn transaction_bytes(transaction: u32) -> i32 {
    read(&TRANSACTION_BYTES, transaction)
}

/// The lanes that a transaction serves, lane 0 the lowest bit.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn transaction_lanes(transaction: u32) -> u32 {
    read_mask(&TRANSACTION_LANES, transaction)
}

/// Words that the data banks give, over all data wavefronts.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn words() -> i32 {
    WORD_COUNT.load(Relaxed)
}

/// The data wavefront in which a word passes, from 0.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn word_wavefront(word: u32) -> i32 {
    read(&WORD_WAVEFRONTS, word)
}

/// The bank of a word.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn word_bank(word: u32) -> i32 {
    read(&WORD_BANKS, word)
}

/// The lanes that a word is for, lane 0 the lowest bit.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn word_lanes(word: u32) -> u32 {
    read_mask(&WORD_LANES, word)
}

/// The first sector of a lane; −1 where the lane is off.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn lane_sector(lane: u32) -> i32 {
    read(&LANE_SECTORS, lane)
}

/// The tag bank of a lane's line.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn lane_tag_bank(lane: u32) -> i32 {
    read(&LANE_TAG_BANKS, lane)
}

/// The pass through the tag stage that serves a lane, from 0.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn lane_tag_wavefront(lane: u32) -> i32 {
    read(&LANE_TAG_WAVEFRONTS, lane)
}

/// The first data wavefront that serves a lane, from 0.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn lane_data_wavefront(lane: u32) -> i32 {
    read(&LANE_DATA_WAVEFRONTS, lane)
}

/// The rule sets, read once.
fn all_rules() -> &'static [RuleSet] {
    static RULES: OnceBox<Vec<RuleSet>> = OnceBox::new();
    RULES.get_or_init(|| Box::new(RuleSet::shipped().collect()))
}

fn rules(arch: u32) -> Option<&'static RuleSet> {
    all_rules().get(arch as usize)
}

fn read(values: &[AtomicI32], index: u32) -> i32 {
    values.get(index as usize).map_or(NONE, |value| value.load(Relaxed))
}

fn read_mask(masks: &[AtomicU32], index: u32) -> u32 {
    masks.get(index as usize).map_or(0, |mask| mask.load(Relaxed))
}

fn place(index: Option<usize>) -> i32 {
    index.and_then(|index| i32::try_from(index).ok()).unwrap_or(NONE)
}

fn keep(explanation: &Explanation, space: Space) {
    let mut totals = simulator::Totals::default();
    totals.add(&explanation.counts);
    for (slot, field) in COUNTS.iter().zip(FIELDS) {
        let count = totals.get(field).filter(|_| field.applies_to(space));
        let count = count.and_then(|count| u64::try_from(count).ok());
        slot.store(count.unwrap_or(u64::MAX), Relaxed);
    }
    EXACT.store(explanation.counts.exact.into(), Relaxed);
    let shares =
        [explanation.counts.requested_efficiency(), explanation.counts.unique_efficiency()];
    for (slot, share) in EFFICIENCIES.iter().zip(shares) {
        slot.store(share.unwrap_or(f64::NAN).to_bits(), Relaxed);
    }
    keep_memory(explanation);
    keep_words(explanation);
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

/// Lines, sectors and transactions.
fn keep_memory(explanation: &Explanation) {
    let number = |value: Option<u32>| value.and_then(|n| i32::try_from(n).ok()).unwrap_or(NONE);
    let kept = explanation.sectors.len().min(MOST_SECTORS);
    SECTOR_COUNT.store(place(Some(kept)), Relaxed);
    for (index, sector) in explanation.sectors.iter().take(kept).enumerate() {
        SECTOR_ADDRESSES[index].store(sector.address, Relaxed);
        SECTOR_BYTES[index].store(number(Some(sector.bytes_used)), Relaxed);
        SECTOR_LINES[index].store(place(Some(sector.line)), Relaxed);
        SECTOR_LANES[index].store(sector.lanes.0, Relaxed);
    }
    let kept = explanation.lines.len().min(MOST_SECTORS);
    LINE_COUNT.store(place(Some(kept)), Relaxed);
    for (index, line) in explanation.lines.iter().take(kept).enumerate() {
        LINE_ADDRESSES[index].store(line.address, Relaxed);
        LINE_TAG_BANKS[index].store(number(line.tag_bank), Relaxed);
    }
    let kept = explanation.transactions.len().min(MOST_SECTORS);
    TRANSACTION_COUNT.store(place(Some(kept)), Relaxed);
    for (index, used) in explanation.transactions.iter().take(kept).enumerate() {
        TRANSACTION_ADDRESSES[index].store(used.transaction.address, Relaxed);
        TRANSACTION_BYTES[index].store(number(Some(used.transaction.bytes)), Relaxed);
        TRANSACTION_LANES[index].store(used.lanes.0, Relaxed);
    }
}

/// What the data banks give, wavefront by wavefront.
fn keep_words(explanation: &Explanation) {
    let mut kept = 0;
    for (index, wavefront) in explanation.data_wavefronts.iter().enumerate() {
        for word in wavefront.words.iter().take(MOST_WORDS - kept) {
            let mut served = LaneMask(0);
            for lane in explanation.lanes.iter().filter(|lane| lane.words.contains(word)) {
                if wavefront.lanes.contains(lane.lane.into()) {
                    served.0 |= 1 << lane.lane;
                }
            }
            WORD_WAVEFRONTS[kept].store(place(Some(index)), Relaxed);
            WORD_BANKS[kept].store(i32::try_from(word.bank).unwrap_or(NONE), Relaxed);
            WORD_LANES[kept].store(served.0, Relaxed);
            kept += 1;
        }
    }
    WORD_COUNT.store(place(Some(kept)), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of lines, sectors, transactions and words is what the
    /// explanation has.
    fn agree(rules: &RuleSet, explanation: &Explanation) {
        let counts = &explanation.counts;
        assert_eq!(sectors() as usize, explanation.sectors.len());
        assert_eq!(lines() as usize, explanation.lines.len());
        assert_eq!(transactions() as usize, explanation.transactions.len());
        for (index, sector) in explanation.sectors.iter().enumerate() {
            let index = index as u32;
            assert_eq!(sector_address(index), sector.address);
            assert_eq!(sector_lanes(index), sector.lanes.0);
            let line = u64::from(rules.line_bytes().expect("sectors have a line"));
            assert_eq!(line_address(sector_line(index) as u32), sector.address / line * line);
        }
        for (index, used) in explanation.transactions.iter().enumerate() {
            let index = index as u32;
            let kept = (transaction_address(index), transaction_bytes(index) as u32);
            assert_eq!(kept, (used.transaction.address, used.transaction.bytes));
            assert_eq!(transaction_lanes(index), used.lanes.0);
        }
        let passed = explanation.data_wavefronts.iter().map(|wavefront| wavefront.words.len());
        assert_eq!(words() as usize, passed.sum::<usize>());
        for word in 0..words() as u32 {
            let wavefront = &explanation.data_wavefronts[word_wavefront(word) as usize];
            assert!(wavefront.words.iter().any(|w| w.bank == word_bank(word) as u32));
            assert_ne!(word_lanes(word), 0);
        }
        let share = counts.unique_efficiency().unwrap_or(f64::NAN);
        assert_eq!(efficiency(1).to_bits(), share.to_bits());
    }

    /// One test alone: the state is one for all.
    #[test]
    fn what_is_read_is_what_the_simulator_counts() {
        assert_eq!(count(arch_count(), LOAD, 4, 1), UNKNOWN);
        assert_eq!(count(0, 99, 4, 1), UNKNOWN);
        assert_eq!(arch_count() as usize, RuleSet::shipped().count());
        assert_eq!((sector_bytes(arch_count()), shared_banks(arch_count())), (0, 0));

        let mut counted = 0;
        for arch in 0..arch_count() {
            let rules = rules(arch).expect("a rule set");
            assert_eq!(line_bytes(arch), rules.line_bytes().unwrap_or(0));
            let banks = rules.data().shared.as_ref().map_or(0, |shared| shared.banks);
            assert_eq!(shared_banks(arch), banks);
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
                        agree(rules, &rules.explain(&access));
                        let counts = rules.count(&access);
                        let mut totals = simulator::Totals::default();
                        totals.add(&counts);
                        for (index, of) in FIELDS.into_iter().enumerate() {
                            let expected = totals.get(of).filter(|_| of.applies_to(op_of.space));
                            let expected = expected.map_or(-1.0, |count| count as f64);
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
        other_sizes_are_kept_as_they_are();
    }

    /// Of a GPU that nobody built: sectors of 64 bytes, lines of 256, 64 banks.
    fn other_sizes_are_kept_as_they_are() {
        let rules = RuleSet::from_toml(
            r#"
            archs = ["made-up"]
            name = "Made-up"
            evidence = "hypothesis"
            note = "An example."
            widths = [1, 2, 4, 8, 16]
            request = { lanes = 32 }
            cache = { line_bytes = 256, sector_bytes = 64 }
            tag = { hash = [1, 2] }
            shared = { banks = 64, bank_bytes = 4, group = { lanes = 32 }, widths = [4] }
            "#,
        )
        .expect("sound rules");
        let addresses = core::array::from_fn(|lane| 32 * lane as u64);
        for op in [Op::LOAD, Op::SHARED_LOAD] {
            let explanation = rules.explain(&WarpAccess::new(op, 4, addresses));
            keep(&explanation, op.space);
            agree(&rules, &explanation);
        }
        let explanation = rules.explain(&WarpAccess::new(Op::LOAD, 4, addresses));
        keep(&explanation, Space::Global);
        assert_eq!((sectors(), lines()), (16, 4));
        assert_eq!((lane_sector(1), lane_sector(2), sector_address(1)), (0, 1, 64));
        assert_eq!((sector_line(3), sector_line(4), line_address(1)), (0, 1, 256));
    }
}
