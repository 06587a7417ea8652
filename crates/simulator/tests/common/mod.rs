//! Random warp accesses for the property tests, here and in the crate.

// The crate's own tests include this file, and it has no prelude of std.
use std::vec::Vec;

use coalescope_simulator::{LaneMask, Op, OpKind, RuleSet, WARP_LANES, WarpAccess};
use proptest::prelude::*;

/// Any access that `rules` executes: every operation and width, addresses that
/// are contiguous, strided, permuted, clustered or spread over gigabytes.
///
/// Only of the operations and widths that `wanted` says.
pub(crate) fn any_access_of(
    rules: &RuleSet,
    wanted: fn(&Op, u8) -> bool,
) -> impl Strategy<Value = WarpAccess> + use<> {
    let kinds: Vec<(Op, u8)> = Op::names()
        .map(|name| Op::parse(name, None, None, 4).unwrap())
        .filter(|op| op.kind != OpKind::AsyncCopy || rules.data().async_copy)
        .flat_map(|op| rules.widths(&op).map(move |width| (op, width)).collect::<Vec<_>>())
        .filter(|(op, width)| wanted(op, *width))
        .collect();
    (prop::sample::select(kinds), any_mask(), any_addresses()).prop_map(
        |((op, width), mask, addresses)| {
            let width_bytes = u64::from(width);
            let limit = match op.space {
                coalescope_simulator::Space::Local => 1 << 16,
                coalescope_simulator::Space::Shared => 1 << 17,
                coalescope_simulator::Space::Global => 1 << 47,
            };
            let addresses = addresses.map(|address| address % limit / width_bytes * width_bytes);
            let mut access = WarpAccess::new(op, width, addresses);
            access.mask = mask;
            if op.kind == OpKind::AsyncCopy {
                access.shared_addresses =
                    Some(std::array::from_fn(|lane| lane as u64 * width_bytes));
            }
            access
        },
    )
}

pub(crate) fn any_mask() -> impl Strategy<Value = LaneMask> {
    prop_oneof![
        4 => Just(LaneMask::FULL),
        1 => Just(LaneMask::EMPTY),
        2 => (1u32..32).prop_map(|lanes| LaneMask((1 << lanes) - 1)),
        3 => any::<u32>().prop_map(LaneMask),
    ]
}

fn any_addresses() -> impl Strategy<Value = [u64; WARP_LANES]> {
    let base = prop_oneof![Just(0x7f00_0000_0000u64), 0x7f00_0000_0000u64..0x7f00_4000_0000];
    let spread = |bits: u32| prop::array::uniform32(0u64..1 << bits);
    let offsets = prop_oneof![
        3 => (0u64..9).prop_map(|log| std::array::from_fn(|lane| (lane as u64) << log)),
        3 => (0u64..5000).prop_map(|stride| std::array::from_fn(|lane| lane as u64 * stride)),
        2 => (6u32..34).prop_flat_map(spread),
        2 => ((5u32..20).prop_flat_map(spread), 1usize..8).prop_map(|(mut offsets, distinct)| {
            for lane in 0..WARP_LANES {
                offsets[lane] = offsets[lane % distinct];
            }
            offsets
        }),
        2 => (spread(12), 2u32..13).prop_map(|(offsets, shift)| {
            offsets.map(|offset| (offset & 31) << shift | offset >> 5 << 2)
        }),
    ];
    (base, offsets, any::<bool>()).prop_map(|(base, mut offsets, reversed)| {
        if reversed {
            offsets.reverse();
        }
        offsets.map(|offset| base + offset)
    })
}
