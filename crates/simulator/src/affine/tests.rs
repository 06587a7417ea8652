//! The closed forms against the sum over every warp.

use super::*;
use alloc::string::ToString;
use alloc::vec;
use proptest::prelude::*;

use crate::access::{AtomicOp, OpKind};

/// `rules.count` of every warp of the set, one after the other.
fn brute_force(access: &AffineAccess, rules: &RuleSet) -> Totals {
    let mut totals = Totals::default();
    let mut counters = vec![0u64; access.terms.len()];
    if access.terms.iter().any(|term| term.count == 0) {
        return totals;
    }
    loop {
        let uniform = access.terms.iter().zip(&counters).fold(0u64, |sum, (term, &v)| {
            sum.wrapping_add((term.coefficient as u64).wrapping_mul(v))
        });
        totals.add(&rules.count(&access.moved(uniform)));
        let Some(digit) = (0..counters.len()).find(|&k| counters[k] + 1 < access.terms[k].count)
        else {
            return totals;
        };
        counters[..digit].fill(0);
        counters[digit] += 1;
    }
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::LOAD),
        Just(Op::STORE),
        Just(Op::SHARED_LOAD),
        Just(Op::SHARED_STORE),
        Just(Op::plain(OpKind::Reduction(AtomicOp::Add), Space::Global)),
        Just(Op::plain(OpKind::Atomic(AtomicOp::Max), Space::Global)),
        Just(Op::plain(OpKind::Load, Space::Local)),
        Just(Op::plain(OpKind::AsyncCopy, Space::Global)),
    ]
}

/// Coefficients as kernels have them (rows, blocks, elements) and odd ones.
fn coefficients() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(0),
        -40i64..40,
        prop_oneof![Just(32i64), Just(128), Just(1024), Just(-128), Just(1 << 20)],
        -100_000i64..100_000,
    ]
}

fn accesses() -> impl Strategy<Value = AffineAccess> {
    let lanes = prop_oneof![
        // A stride in elements, the shape of nearly every access.
        (0u64..200, 0u64..1 << 20).prop_map(|(stride, base)| {
            core::array::from_fn::<u64, 32, _>(|lane| base + stride * lane as u64)
        }),
        // Two rows of 16 lanes.
        (0u64..5000, 0u64..1 << 20).prop_map(|(pitch, base)| {
            core::array::from_fn(|lane| base + pitch * (lane as u64 / 16) + lane as u64 % 16)
        }),
        // Anything.
        proptest::array::uniform32(0u64..1 << 14),
        // Across the end of the address space.
        (0u64..200).prop_map(|stride| {
            core::array::from_fn(|lane| (u64::MAX >> 4).wrapping_add(stride * lane as u64))
        }),
    ];
    let terms = proptest::collection::vec((coefficients(), 0u64..9), 0..4);
    let masks = prop_oneof![Just(u32::MAX), any::<u32>(), Just(0), Just(1)];
    (ops(), 0u32..5, masks, lanes, terms).prop_map(|(op, log_width, mask, lanes, terms)| {
        let width = 1u64 << log_width;
        AffineAccess {
            op,
            width: width as u8,
            mask: LaneMask(mask),
            lane_addresses: lanes.map(|element| element.wrapping_mul(width)),
            terms: terms
                .into_iter()
                .map(|(coefficient, count)| AffineTerm {
                    coefficient: coefficient * width as i64,
                    count,
                })
                .collect(),
        }
    })
}

/// Lanes whole rows apart, moved along and across the rows.
fn columns() -> impl Strategy<Value = AffineAccess> {
    let op = prop_oneof![
        Just(Op::LOAD),
        Just(Op::STORE),
        Just(Op::plain(OpKind::Reduction(AtomicOp::Add), Space::Global)),
    ];
    let lane_rows = prop_oneof![
        Just(core::array::from_fn(|lane| lane as u64)),
        Just(core::array::from_fn(|lane| lane as u64 / 8)),
        proptest::array::uniform32(0u64..20),
    ];
    let within = prop_oneof![Just(1i64), Just(-1), Just(32), 1i64..64];
    let across = prop_oneof![Just(32i64), Just(1), Just(-1), 1i64..40];
    let terms = (within, 1u64..100, across, 1u64..12, coefficients(), 1u64..3);
    (op, 8u32..13, any::<u32>(), lane_rows, 0u64..1 << 44, terms).prop_map(
        |(op, log_pitch, mask, rows, base, (within, length, across, height, other, more))| {
            let term = |coefficient: i64, count| AffineTerm { coefficient, count };
            AffineAccess {
                op,
                width: 4,
                mask: LaneMask(mask),
                lane_addresses: rows.map(|row| base * 4 + (row << log_pitch)),
                terms: vec![
                    term(4 * within, length),
                    term(across << log_pitch, height),
                    term(4 * other, more),
                ],
            }
        },
    )
}

/// Every field that either has a period or was counted.
fn assert_same(access: &AffineAccess, rules: &RuleSet, counted: &AffineCounts) {
    let expected = brute_force(access, rules);
    let exact = matches!(counted.stages, Stages::Exact { .. });
    for field in Field::ALL {
        if exact || field.is_periodic(access.op) {
            assert_eq!(counted.totals.get(field), expected.get(field), "{field} of {access:?}");
        } else {
            assert_eq!(counted.totals.get(field), None, "{field} of {access:?}");
        }
    }
    assert_eq!(counted.totals.instructions, expected.instructions);
    if exact {
        assert_eq!(counted.totals.exact, expected.exact, "{access:?}");
    }
}

/// Each way to count the fields without a period, whether or not it is the
/// cheapest; `None` where it matters which bank is which.
fn all_ways(access: &AffineAccess, rules: &RuleSet) -> Vec<Option<Totals>> {
    let Some(cache) = rules.data().cache else { return Vec::new() };
    let ways = [
        carries::Plan::by_classes(access, cache.line_bytes),
        carries::Plan::by_columns(access, cache.line_bytes),
    ];
    ways.into_iter()
        .flatten()
        .map(|plan| {
            let counted = plan.count(access, rules);
            assert!(counted.is_some() || access.op.kind == OpKind::Store, "{access:?}");
            counted.map(|(totals, _)| totals)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn equal_to_brute_force(access in accesses(), arch in 0usize..64, budget in 0u64..3000) {
        let all: Vec<RuleSet> = RuleSet::shipped().collect();
        let rules = &all[arch % all.len()];
        assert_same(&access, rules, &access.count(rules, budget).unwrap());
    }

    #[test]
    fn every_way_equals_brute_force_on_hopper(access in accesses()) {
        let rules = hopper();
        if access.op.space == Space::Global && access.terms.iter().all(|term| term.count > 0) {
            for totals in all_ways(&access, &rules).into_iter().flatten() {
                prop_assert_eq!(totals, brute_force(&access, &rules));
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn columns_equal_brute_force_on_hopper(access in columns()) {
        let rules = hopper();
        let ways = all_ways(&access, &rules);
        prop_assert!(access.mask.count() < 2 || ways.len() == 2 || access.terms.len() > 2);
        for totals in ways.into_iter().flatten() {
            prop_assert_eq!(totals, brute_force(&access, &rules));
        }
    }
}

fn hopper() -> RuleSet {
    RuleSet::for_arch("9.0").unwrap()
}

fn contiguous(terms: Vec<AffineTerm>) -> AffineAccess {
    AffineAccess {
        op: Op::LOAD,
        width: 4,
        mask: LaneMask::FULL,
        lane_addresses: core::array::from_fn(|lane| (7 << 44) + 4 + 4 * lane as u64),
        terms,
    }
}

#[test]
fn large_sets_are_counted_exactly_and_at_once() {
    let rules = hopper();
    let count = |warps| {
        let access = contiguous(vec![AffineTerm { coefficient: 128, count: warps }]);
        access.count(&rules, 1 << 12).unwrap()
    };
    // 2^60 warps wrap round the address space; what has a period is exact.
    assert_eq!(count(1 << 60).totals.sectors, Some(5 << 60));
    assert!(matches!(count(1 << 60).stages, Stages::Exact { .. }));
    // Tag wavefronts: two neighbouring lines, 1 where their banks differ, else
    // 2. One more warp adds what that warp counts.
    for warps in [1u64 << 20, (1 << 35) - 7, 1 << 43] {
        let step = |n| count(n).totals.tag_wavefronts.unwrap();
        let last = contiguous(vec![]).moved((warps - 1) * 128);
        let expected = rules.count(&last).tag_wavefronts.unwrap();
        assert_eq!(step(warps) - step(warps - 1), u128::from(expected));
    }
}

/// A transpose that writes down columns, 2^18 × 2^18 floats: each warp's lanes
/// lie a row of 2^20 bytes apart.
#[test]
fn walks_down_columns_are_counted_exactly_and_at_once() {
    let rules = hopper();
    let log_pitch = 20;
    let access = |along, across| AffineAccess {
        op: Op::STORE,
        lane_addresses: core::array::from_fn(|lane| (7 << 44) + ((lane as u64) << log_pitch)),
        ..contiguous(vec![
            AffineTerm { coefficient: 4, count: along },
            AffineTerm { coefficient: 32 << log_pitch, count: across },
        ])
    };
    let counted = access(1 << 18, 1 << 13).count(&rules, 1 << 16).unwrap();
    assert!(matches!(counted.stages, Stages::Exact { .. }), "{:?}", counted.stages);
    // Neither the place along the row nor 32 rows more change anything, as long
    // as rows begin at multiples of 32 rows: 2^31 times one warp.
    let one = rules.count(&access(1, 1).moved(0));
    assert_eq!(counted.totals.tag_wavefronts, one.tag_wavefronts.map(|n| u128::from(n) << 31));
    assert_eq!(counted.totals.data_wavefronts, one.data_wavefronts.map(|n| u128::from(n) << 31));
    // Moved on by one row they straddle; brute force on a small part, and the
    // number of warps on the whole.
    let mut moved = access(1 << 18, 1 << 13);
    moved.lane_addresses = moved.lane_addresses.map(|address| address + (1 << log_pitch));
    let whole = moved.count(&rules, 1 << 16).unwrap();
    assert!(matches!(whole.stages, Stages::Exact { .. }), "{:?}", whole.stages);
    assert_eq!(whole.totals.instructions, 1 << 31);
    moved.terms[0].count = 40;
    moved.terms[1].count = 300;
    assert_same(&moved, &rules, &moved.count(&rules, 1 << 16).unwrap());
}

#[test]
fn a_set_of_two_to_the_96_warps_is_the_limit() {
    let term = AffineTerm { coefficient: 128, count: 1 << 48 };
    let rules = hopper();
    let limit = contiguous(vec![term, term]);
    assert_eq!(limit.warps(), Ok(MAX_WARPS));
    assert_eq!(limit.count(&rules, 0).unwrap().totals.sectors, Some(5 * MAX_WARPS));
    let over = contiguous(vec![term, AffineTerm { count: (1 << 48) + 1, ..term }]);
    assert_eq!(over.count(&rules, 0), Err(AffineError::TooManyWarps));
    let largest = AffineTerm { coefficient: i64::MIN, count: u64::MAX };
    assert_eq!(contiguous(vec![largest; 9]).warps(), Err(AffineError::TooManyWarps));
    let empty = contiguous(vec![largest, largest, AffineTerm { coefficient: 0, count: 0 }]);
    assert_eq!(empty.count(&rules, 0).unwrap().totals, Totals::default());
}

#[test]
fn extreme_coefficients_do_not_overflow() {
    let rules = hopper();
    for coefficient in [i64::MIN, i64::MIN + 4, i64::MAX - 3, 4, -4] {
        for count in [1, 2, 1 << 40, u64::MAX] {
            let access = contiguous(vec![AffineTerm { coefficient, count }]);
            let counted = access.count(&rules, 1 << 12).unwrap();
            assert_eq!(counted.totals.instructions, u128::from(count));
            assert_eq!(counted.totals.requests, Some(u128::from(count)));
        }
    }
}

#[test]
fn what_is_not_aligned_is_refused() {
    let rules = hopper();
    let mut access = contiguous(vec![AffineTerm { coefficient: 6, count: 2 }]);
    assert_eq!(
        access.count(&rules, 0).unwrap_err().to_string(),
        "term 0: coefficient 6 is no multiple of the width, 4 B"
    );
    access.terms[0].count = 1;
    assert!(access.count(&rules, 0).is_ok());
    access.lane_addresses[3] += 2;
    assert!(matches!(
        access.count(&rules, 0),
        Err(AffineError::MisalignedLane { lane: 3, width: 4, .. })
    ));
    access.mask = LaneMask(!8);
    assert!(access.count(&rules, 0).is_ok());
}

#[test]
fn over_budget_says_what_it_would_take() {
    let rules = hopper();
    // Lanes scattered over 2^40 bytes: no short split of the addresses.
    let access = AffineAccess {
        lane_addresses: core::array::from_fn(|lane| {
            (lane as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24 & !3
        }),
        ..contiguous(vec![AffineTerm { coefficient: 4, count: 1 << 33 }])
    };
    let counted = access.count(&rules, 1000).unwrap();
    assert_eq!(counted.stages, Stages::OverBudget { needed: 1 << 33, budget: 1000 });
    assert_eq!(counted.totals.tag_wavefronts, None);
    assert!(counted.totals.sectors.is_some());
}

#[test]
fn older_rule_sets_need_no_enumeration() {
    let rules = RuleSet::for_arch("7.0").unwrap();
    let counted =
        contiguous(vec![AffineTerm { coefficient: 128, count: 1 << 40 }]).count(&rules, 0).unwrap();
    assert_eq!(counted.stages, Stages::Exact { representatives: 0 });
    assert_eq!(counted.totals.sectors, Some(5 << 40));
    assert_eq!(counted.totals.tag_wavefronts, None);
}
