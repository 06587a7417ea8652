//! Laws of the time model, on a made-up device.

use super::*;
use crate::made_up::{profile, scaled};
use crate::{Atomics, BlockShape};
use proptest::prelude::*;

/// 1000 blocks of 8 warps that copy 4 bytes a thread.
fn copy() -> (Workload, Moved) {
    let warps = 8000.0;
    let work = Workload {
        blocks: 1000.0,
        shape: BlockShape { warps: 8, registers: 16, shared_bytes: 0 },
        registers_estimated: false,
        instructions: 12.0 * warps,
        wide_products: 2.0 * warps,
        dependent_instructions: 12.0,
        barriers_per_block: 0.0,
        global_round_trips: 1.0,
        shared_round_trips: 0.0,
        loads_in_flight: 1.0,
        requests: 2.0 * warps,
        tag_wavefronts: 2.0 * warps,
        data_wavefronts: 2.0 * warps,
        load_requests: warps,
        load_sectors: 4.0 * warps,
        load_lines: warps,
        store_lines: warps,
        shared_atomic_lanes: 0.0,
        atomics: Vec::new(),
    };
    let moved = Moved {
        l2_read_sectors: 4.0 * warps,
        l2_write_sectors: 4.0 * warps,
        l2_atomic_sectors: 0.0,
        dram_read_bytes: 128.0 * warps,
        dram_write_bytes: 128.0 * warps,
        dram_reads: LineAccesses { opening: warps, further: 0.0 },
        dram_writes: LineAccesses { opening: warps, further: 0.0 },
        ..Moved::default()
    };
    (work, moved)
}

fn seconds(work: &Workload, moved: &Moved, profile: &Profile) -> f64 {
    estimate(work, moved, profile).expect("an estimate").seconds
}

/// A launch of any mix of work.
fn launches() -> impl Strategy<Value = (Workload, Moved)> {
    (
        (1_u32..100_000, 1_u32..=32, 1_u32..=64, 0.0..20.0, 0.0..10.0, 0.0..8.0),
        (1.0..50.0, 1.0..4.0, 1.0..32.0, 0.0..1.0, 0.0..1.0, 0.0..1.0),
        (0.0..1.0, 0.0..8.0, 0.0..1e6),
    )
        .prop_map(|(launch, each, other)| {
            let (blocks, warps_each, registers, trips, shared, barriers) = launch;
            let (slots, requests, sectors, miss, dram, written) = each;
            let (openings, atomics, same) = other;
            let (mut work, mut moved) = copy();
            work.blocks = f64::from(blocks);
            work.shape = BlockShape { warps: warps_each, registers, shared_bytes: 0 };
            let warps = work.warps();
            work.instructions = slots * warps;
            work.wide_products = 0.2 * work.instructions;
            work.barriers_per_block = barriers;
            work.global_round_trips = trips;
            work.shared_round_trips = shared;
            work.requests = requests * warps;
            work.tag_wavefronts = requests * sectors * warps;
            work.data_wavefronts = requests * sectors * warps;
            work.load_requests = requests * warps;
            work.load_sectors = sectors * requests * warps;
            work.load_lines = work.load_sectors / 2.0;
            work.store_lines = written * work.load_sectors;
            work.shared_atomic_lanes = atomics * warps;
            work.atomics = vec![Atomics {
                sectors: same,
                repeated: miss * same,
                bytes: 1e4 * dram,
                results: written > 0.5,
            }];
            moved.l2_read_sectors = miss * work.load_sectors;
            moved.l2_write_sectors = written * work.load_sectors;
            moved.l2_atomic_sectors = atomics * warps;
            moved.dram_read_bytes = 32.0 * dram * moved.l2_read_sectors;
            moved.dram_write_bytes = 32.0 * moved.l2_write_sectors;
            moved.l2_partial_sectors = dram * moved.l2_write_sectors;
            moved.l2_partial_requests = moved.l2_partial_sectors.min(work.store_lines);
            let lines = |bytes: f64| LineAccesses {
                opening: openings * bytes / 64.0,
                further: (1.0 - openings) * bytes / 128.0,
            };
            moved.dram_reads = lines(moved.dram_read_bytes);
            moved.dram_writes = lines(moved.dram_write_bytes);
            (work, moved)
        })
}

proptest! {
    #[test]
    fn no_launch_is_faster_than_any_of_its_terms((work, moved) in launches()) {
        let found = estimate(&work, &moved, &profile()).expect("an estimate");
        let added: f64 = found.overheads.iter().map(|overhead| overhead.seconds).sum();
        for term in &found.terms {
            prop_assert!(found.seconds >= added + term.seconds * (1.0 - 1e-12), "{term:?}");
        }
        let all: f64 = found.terms.iter().map(|term| term.seconds).sum();
        // At worst one after the other, each access to DRAM behind a full queue.
        let queue = [Constant::DramQueueRead, Constant::DramQueueMixed];
        let queue: f64 = queue.iter().filter_map(|&queue| profile().get(queue)).sum();
        prop_assert!(found.seconds <= added + all * (1.0 + queue));
        prop_assert!(found.terms.is_sorted_by(|a, b| a.seconds >= b.seconds));
    }

    #[test]
    fn more_work_is_never_faster((work, moved) in launches(), factor in 1.0..4.0) {
        let before = seconds(&work, &moved, &profile());
        for more in MORE {
            let (mut work, mut moved) = (work.clone(), moved);
            more(&mut work, &mut moved, factor);
            let after = seconds(&work, &moved, &profile());
            prop_assert!(after >= before * (1.0 - 1e-12), "{after} < {before}");
        }
    }

    #[test]
    fn more_sms_are_never_slower((work, moved) in launches(), factor in 1_u32..5) {
        let larger = scaled(profile(), Constant::SmCount, f64::from(factor));
        let (before, after) = (seconds(&work, &moved, &profile()), seconds(&work, &moved, &larger));
        prop_assert!(after <= before * (1.0 + 1e-12), "{after} > {before}");
    }

    #[test]
    fn a_slower_part_is_never_faster((work, moved) in launches()) {
        let before = seconds(&work, &moved, &profile());
        for &rate in Constant::ALL.iter().filter(|constant| constant.name().contains("_rate")) {
            let slower = scaled(profile(), rate, 0.5);
            prop_assert!(seconds(&work, &moved, &slower) >= before * (1.0 - 1e-12), "{rate}");
        }
    }

    #[test]
    fn a_term_that_is_far_from_binding_hardly_matters((work, moved) in launches()) {
        let tags = |found: &Estimate| {
            found.terms.iter().find(|term| term.name == "l1_tags").map_or(0.0, |term| term.seconds)
        };
        // As many tag wavefronts as take a twenty-fifth of all else.
        let mut work = work;
        let found = estimate(&work, &moved, &profile()).expect("an estimate");
        let others = found.terms.iter().filter(|term| term.name != "l1_tags");
        let longest = others.map(|term| term.seconds).fold(0.0, f64::max);
        work.tag_wavefronts *= longest / 25.0 / tags(&found);
        let found = estimate(&work, &moved, &profile()).expect("an estimate");
        let slower = estimate(&work, &moved, &scaled(profile(), Constant::TagRate, 0.5));
        let slower = slower.expect("an estimate");
        prop_assert!((tags(&slower) / tags(&found) - 2.0).abs() < 1e-9);
        prop_assert!(slower.seconds < found.seconds * 1.01);
    }

    #[test]
    fn a_lower_bound_is_below_the_prediction((work, moved) in launches()) {
        let sheet = Profile { kind: Kind::Specification, ..profile() };
        let found = estimate(&work, &moved, &sheet).expect("a bound");
        prop_assert!(found.lower_bound && found.overheads.is_empty());
        prop_assert!(found.seconds <= seconds(&work, &moved, &profile()));
    }
}

/// Counts, each made larger by a factor.
const MORE: [fn(&mut Workload, &mut Moved, f64); 14] = [
    |work, _, by| work.instructions *= by,
    |work, _, by| work.wide_products *= by,
    |work, _, by| work.requests *= by,
    |work, _, by| work.tag_wavefronts *= by,
    |work, _, by| work.data_wavefronts *= by,
    |work, _, by| work.store_lines *= by,
    // With all that they are made of: fewer loads at a time arrive sooner.
    |work, moved, by| {
        work.global_round_trips *= by;
        (work.instructions, work.requests) = (by * work.instructions, by * work.requests);
        work.data_wavefronts *= by;
        (work.load_requests, work.load_lines) = (by * work.load_requests, by * work.load_lines);
        work.load_sectors *= by;
        moved.l2_read_sectors *= by;
        moved.dram_read_bytes *= by;
    },
    |work, _, by| work.barriers_per_block *= by,
    |work, _, by| work.shared_atomic_lanes *= by,
    |_, moved, by| moved.l2_write_sectors *= by,
    |_, moved, by| moved.dram_read_bytes *= by,
    |_, moved, by| moved.dram_write_bytes *= by,
    |_, moved, by| moved.dram_reads.opening *= by,
    |_, moved, by| moved.dram_writes.further *= by,
];

#[test]
fn reads_and_writes_at_one_to_one_have_the_mixed_rate() {
    let (work, mut moved) = copy();
    moved.dram_read_bytes = 1e9;
    moved.dram_write_bytes = 1e9;
    let term = |moved: &Moved| {
        let found = estimate(&work, moved, &profile()).expect("an estimate");
        found.terms.iter().find(|term| term.name == "dram_bytes").expect("DRAM").seconds
    };
    assert!((term(&moved) / (2e9 / 3.5e12) - 1.0).abs() < 1e-12);
    moved.dram_write_bytes = 0.0;
    assert!((term(&moved) / (1e9 / 3.8e12) - 1.0).abs() < 1e-12);
}

#[test]
fn each_written_byte_turns_the_bus_where_there_are_reads() {
    let (work, mut moved) = copy();
    let mut seconds = |read: f64, written: f64| {
        (moved.dram_read_bytes, moved.dram_write_bytes) = (read, written);
        let found = estimate(&work, &moved, &profile()).expect("an estimate");
        found.terms.iter().find(|term| term.name == "dram_bytes").expect("DRAM").seconds
    };
    let alone = |read: f64, written: f64| read / 3.8e12 + written / 3.6e12;
    let turns = |read, written, seconds: f64| seconds - alone(read, written);
    let one = turns(1e9, 1e9, seconds(1e9, 1e9));
    for (read, written, turned) in
        [(4e9, 1e9, 1.0), (1e9, 4e9, 4.0), (1e9, 9e9, 4.0), (0.0, 9e9, 0.0), (9e9, 0.0, 0.0)]
    {
        let found = turns(read, written, seconds(read, written));
        assert!((found - turned * one).abs() < 1e-12, "{read} {written}: {found} {one}");
    }
}

#[test]
fn a_slice_gives_out_two_sectors_as_fast_as_one() {
    let (mut work, mut moved) = copy();
    let mut reads = |sectors: f64| {
        let lines = 1e6;
        (work.load_lines, work.load_sectors) = (lines, sectors * lines);
        moved.l2_read_sectors = sectors * lines;
        let profile = profile();
        let waves = Waves::of(work.blocks, 100.0, 8.0);
        l2::reads(&Input { work: &work, moved: &moved, profile: &profile, waves }).expect("a time")
    };
    // 1e11 requests or 2.5e11 sectors a second.
    for (sectors, seconds) in [(1.0, 1e-5), (2.0, 1e-5), (2.5, 1e-5), (3.0, 1.2e-5), (4.0, 1.6e-5)]
    {
        let found = reads(sectors);
        assert!((found / seconds - 1.0).abs() < 1e-12, "{sectors}: {found}");
    }
}

#[test]
fn wide_products_and_barriers_take_more_of_issue() {
    let (mut work, moved) = copy();
    let issue = |work: &Workload| {
        let found = estimate(work, &moved, &profile()).expect("an estimate");
        found.terms.iter().find(|term| term.name == "issue").expect("issue").seconds
    };
    (work.wide_products, work.barriers_per_block) = (0.0, 0.0);
    let plain = issue(&work);
    work.wide_products = work.instructions;
    assert!((issue(&work) / plain - 2.0).abs() < 1e-12);
    work.wide_products = 0.0;
    work.barriers_per_block = 12.0;
    // 12 instructions a warp, and each barrier takes that of three.
    assert!((issue(&work) / plain - 3.0).abs() < 1e-12);
}

#[test]
fn a_further_line_of_an_open_granule_is_cheap() {
    let (work, moved) = copy();
    let openings = |reads: (f64, f64), writes: (f64, f64)| {
        let lines = |(opening, further)| LineAccesses { opening, further };
        let moved = Moved { dram_reads: lines(reads), dram_writes: lines(writes), ..moved };
        let profile = profile();
        let waves = Waves::of(work.blocks, 100.0, 8.0);
        dram::openings(&Input { work: &work, moved: &moved, profile: &profile, waves })
            .expect("a time")
    };
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
    assert!(near(openings((4e6, 0.0), (0.0, 0.0)), 1e-4));
    assert!(near(openings((4e6, 4e6), (0.0, 0.0)), 1.5e-4));
    // Reads beside writes.
    assert!(near(openings((4e6, 0.0), (4e6, 0.0)), 2.2e-4));
}

#[test]
fn stores_of_parts_of_sectors_take_longer_in_l2() {
    let (work, mut moved) = copy();
    let writes = |moved: &Moved| {
        let found = estimate(&work, moved, &profile()).expect("an estimate");
        found.terms.iter().find(|term| term.name == "l2_writes").expect("writes").seconds
    };
    // 4 sectors a line at 2e11 sectors/s.
    let whole = writes(&moved);
    assert!((whole / (moved.l2_write_sectors / 2e11) - 1.0).abs() < 1e-9);
    moved.l2_partial_sectors = moved.l2_write_sectors;
    moved.l2_partial_requests = work.store_lines;
    let parts = writes(&moved);
    assert!((parts / (moved.l2_write_sectors / 1e11) - 1.0).abs() < 1e-9);
}

#[test]
fn one_block_more_than_sms_doubles_what_an_sm_does() {
    let (mut work, _) = copy();
    work.wide_products = 0.0;
    let term = |blocks: f64, work: &mut Workload| {
        work.blocks = blocks;
        work.instructions = 1e6 * blocks;
        let found = estimate(work, &Moved::default(), &profile()).expect("an estimate");
        found.terms.iter().find(|term| term.name == "issue").expect("issue").seconds
    };
    let full = term(100.0, &mut work);
    assert!((term(101.0, &mut work) / full - 2.0).abs() < 1e-12);
    assert!((term(1.0, &mut work) / full - 1.0).abs() < 1e-12);
    let tail = |blocks: f64| {
        let work = Workload { blocks, instructions: 1e6 * blocks, ..work.clone() };
        let found = estimate(&work, &Moved::default(), &profile()).expect("an estimate");
        found.tail / found.seconds
    };
    assert!(tail(100.0) < 1e-12);
    // Half of the issue term; the warps' latency is not doubled, since an SM's
    // two blocks wait at the same time.
    assert!((0.1..0.5).contains(&tail(101.0)), "{}", tail(101.0));
}

#[test]
fn little_bounds_what_few_warps_can_read() {
    // 100 SMs × 64 warps, each waiting 600 clk for one line: 4000 GB/s.
    let (mut work, _) = copy();
    work.blocks = 80_000.0;
    let warps = work.warps();
    (work.instructions, work.requests, work.tag_wavefronts) = (0.0, warps, warps);
    (work.data_wavefronts, work.load_requests, work.load_lines) = (warps, warps, warps);
    (work.load_sectors, work.store_lines) = (4.0 * warps, 0.0);
    let moved =
        Moved { l2_read_sectors: 4.0 * warps, dram_read_bytes: 128.0 * warps, ..Moved::default() };
    let found = estimate(&work, &moved, &profile()).expect("an estimate");
    let term = found.terms.iter().find(|term| term.name == "latency").expect("latency");
    let rate = 128.0 * warps / term.seconds;
    // A block of 8 warps: 600 clk, 4 a warp to start, 16 for its 32 sectors, 8
    // for its wavefronts; and 250 from block to block, but for the first of 100.
    let block = 600.0 + 32.0 + 16.0 + 8.0 + 250.0 * 0.99;
    let expected = 100.0 * 64.0 * 128.0 * 2e9 / block;
    assert!((rate / expected - 1.0).abs() < 1e-9, "{rate}, not {expected}");
    // Half the warps an SM, half the rate.
    work.shape.registers = 64;
    let half = estimate(&work, &moved, &profile()).expect("an estimate");
    assert_eq!(half.occupancy.warps_per_sm, 32);
    let slower = half.terms.iter().find(|term| term.name == "latency").expect("latency");
    // 200 blocks one after the other.
    let twice = 2.0 * (block + 250.0 * 0.005) / block;
    assert!((slower.seconds / term.seconds - twice).abs() < 1e-9);
}

#[test]
fn what_binds_and_what_comes_next_are_named() {
    let (work, mut moved) = copy();
    moved.dram_read_bytes = 1e12;
    let found = estimate(&work, &moved, &profile()).expect("an estimate");
    assert_eq!(found.bound_by(), "dram_bytes");
    let (_, share) = found.next().expect("a next");
    assert!(share < 0.1, "{share}");
    let empty = estimate(&work, &Moved::default(), &profile()).expect("an estimate");
    assert_eq!(empty.bound_by(), "launch_overhead");
}

#[test]
fn a_number_that_is_missing_is_named() {
    let (work, moved) = copy();
    let mut profile = profile();
    profile.constants.remove(&Constant::DramMixedRate);
    let missing = estimate(&work, &moved, &profile);
    assert_eq!(missing, Err(Missing::Constant(Constant::DramMixedRate)));
    // A data sheet need not have it.
    profile.kind = Kind::Specification;
    assert!(estimate(&work, &moved, &profile).is_ok());
    let mut large = work.clone();
    large.shape.shared_bytes = 1 << 20;
    assert!(matches!(estimate(&large, &moved, &profile), Err(Missing::Block(_))));
}
