//! Claims about pads and swizzles against a model of the banks that is written
//! anew here: 32 banks of 4 bytes, a wavefront gives one word of each.

use coalescope_advise::banks::{MOST_PAD, Pad, Rows, pads, swizzle};
use proptest::prelude::*;
use simulator::{Op, RuleSet, WarpAccess};
use std::collections::{BTreeMap, BTreeSet};

/// Wavefronts beyond the first of each group of lanes: 32 lanes of 4 bytes, 16
/// of 8, 8 of 16.
fn conflicts_of(offsets: &[u64; 32], width: u64) -> u128 {
    let group = (128 / width.max(4)) as usize;
    offsets
        .chunks(group)
        .map(|lanes| {
            let mut words: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
            for &offset in lanes {
                for word in offset / 4..(offset + width).div_ceil(4) {
                    words.entry(word % 32).or_default().insert(word);
                }
            }
            words.values().map(|words| words.len() as u128).max().unwrap_or(1) - 1
        })
        .sum()
}

/// A row and a column for each lane: an access to a two-dimensional tile.
fn place(lane: u64, rows: (u64, u64), columns: (u64, u64)) -> (u64, u64) {
    (lane / rows.0 % 32 * rows.1 % 32, lane / columns.0 % 32 * columns.1)
}

fn rules() -> RuleSet {
    RuleSet::for_arch("9.0").expect("9.0 is shipped")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Each pad's verdict, "no pad" among them, is what brute force says.
    #[test]
    fn verdicts_on_pads_are_those_of_brute_force(
        width in prop_oneof![Just(4_u64), Just(8), Just(16)],
        row_elements in 1..80_u64,
        rows in (1..33_u64, 1..5_u64),
        columns in (1..33_u64, 0..5_u64),
    ) {
        let row_bytes = row_elements * width;
        let at = |lane: u64, row_bytes: u64| {
            let (row, column) = place(lane, rows, columns);
            row * row_bytes + column % row_elements * width
        };
        let access = WarpAccess::new(
            match width { 4 => Op::SHARED_LOAD, _ => Op::SHARED_STORE },
            width as u8,
            std::array::from_fn(|lane| at(lane as u64, row_bytes)),
        );
        let rows = Rows { start: 0, row_bytes, element_bytes: 4 };
        let search = pads(&rules(), &rows, width, &[(access, 3)]).expect("conflicts are counted");
        prop_assert_eq!(search.pads.len(), MOST_PAD as usize);
        let mut free = None;
        for (verdict, elements) in search.pads.iter().zip(1_u64..) {
            let padded = row_bytes + elements * 4;
            if padded % width != 0 {
                prop_assert_eq!(*verdict, Pad::Misaligns);
                continue;
            }
            let offsets = std::array::from_fn(|lane| at(lane as u64, padded));
            let expected = 3 * conflicts_of(&offsets, width);
            prop_assert_eq!(*verdict, Pad::Conflicts(expected), "pad of {}", elements);
            if expected == 0 && free.is_none() {
                free = Some(elements as u32);
            }
        }
        prop_assert_eq!(search.smallest_free(), free);
    }

    /// A swizzle loses no element and has the conflicts that it claims.
    #[test]
    fn swizzles_are_permutations_with_the_conflicts_claimed(
        width in prop_oneof![Just(4_u64), Just(8), Just(16)],
        chunks in prop_oneof![Just(8_u64), Just(16), Just(32), Just(64)],
        rows in (1..33_u64, 1..5_u64),
        columns in (1..33_u64, 0..5_u64),
    ) {
        let row_bytes = chunks * width;
        let offsets: [u64; 32] = std::array::from_fn(|lane| {
            let (row, column) = place(lane as u64, rows, columns);
            row * row_bytes + column % chunks * width
        });
        let op = if width == 4 { Op::SHARED_LOAD } else { Op::SHARED_STORE };
        let access = WarpAccess::new(op, width as u8, offsets);
        let rows = Rows { start: 0, row_bytes, element_bytes: 4 };
        if let Some((found, claimed)) = swizzle(&rules(), &rows, width, &[(access, 1)]) {
            let there = |offset| rows.swizzled(offset, width, &found).expect("it fits a chunk");
            prop_assert_eq!(conflicts_of(&offsets.map(there), width), claimed);
            prop_assert!(claimed < conflicts_of(&offsets, width));
            for row in 0..32_u64 {
                let places: BTreeSet<u64> =
                    (0..chunks).map(|chunk| there(row * row_bytes + chunk * width)).collect();
                let first = row * row_bytes;
                let expected: BTreeSet<u64> = (0..chunks).map(|chunk| first + chunk * width).collect();
                prop_assert_eq!(places, expected, "each row keeps its elements");
            }
        }
    }
}

#[test]
fn sixteen_byte_columns_take_a_pad_that_keeps_them_aligned() {
    // Rows of 32 floats, each lane the 16 bytes at the start of its row.
    let access =
        WarpAccess::new(Op::SHARED_LOAD, 16, std::array::from_fn(|lane| lane as u64 * 128));
    let rows = Rows { start: 0, row_bytes: 128, element_bytes: 4 };
    let search = pads(&rules(), &rows, 16, &[(access, 1)]).expect("conflicts are counted");
    assert_eq!(search.first_misaligned(), Some(1), "+1 breaks float4");
    assert_eq!(search.smallest_free(), Some(4));
}
