//! A rule set is one TOML file: a made-up GPU, and what a file may not say.

mod common;

use coalescope_simulator::{Op, RuleError, RuleSet, WarpAccess};
use proptest::prelude::*;

/// 64-byte sectors in 256-byte lines, two tag banks, 16 data banks of 8 bytes.
const MADE_UP: &str = r#"
archs = ["made-up"]
name = "Made-up"
evidence = "hypothesis"
note = "Exists in this test only."
widths = [1, 2, 4, 8, 16, 32]
[request]
lanes = 32
[cache]
line_bytes = 256
sector_bytes = 64
sectors_reach_l2 = true
[tag]
hash = [0b101]
[data]
banks = 16
bank_bytes = 8
group = { lanes = 16, bytes = 128 }
store_gather = 2
narrow_store_gather = 1
[data.store_drain]
latency = 5
patience = 1
write = { cycles = 1, all_banks = false }
narrow_write = { cycles = 2, all_banks = true }
[shared]
banks = 16
bank_bytes = 8
group = { lanes = 16 }
widths = [4, 8]
"#;

fn strided(op: Op, width: u8, stride: u64) -> WarpAccess {
    WarpAccess::new(op, width, std::array::from_fn(|lane| lane as u64 * stride))
}

#[test]
fn a_made_up_gpu_counts_by_its_own_geometry() {
    let rules = RuleSet::from_toml(MADE_UP).unwrap();

    // 128 contiguous bytes: two sectors of one line; each half-warp reads 64
    // bytes from 8 banks.
    let counts = rules.count(&strided(Op::LOAD, 4, 4));
    assert_eq!((counts.sectors, counts.tags, counts.moved_bytes), (Some(2), Some(1), Some(128)));
    assert_eq!((counts.tag_wavefronts, counts.data_wavefronts), (Some(1), Some(2)));
    assert_eq!((counts.l2_sectors, counts.bank_conflicts), (Some(2), Some(0)));
    assert!(!counts.exact);

    // One line a lane: lines 0..32 by the parity of their bits 0 and 2, 16 a
    // bank. Every lane's word is in bank 0.
    let counts = rules.count(&strided(Op::LOAD, 8, 256));
    assert_eq!(
        (counts.sectors, counts.tags, counts.tag_wavefronts),
        (Some(32), Some(32), Some(16))
    );
    assert_eq!((counts.data_wavefronts, counts.bank_conflicts), (Some(32), Some(32 - 16)));

    // A store of 8 bytes a lane gathers two of the 16 tag wavefronts (4 lanes of
    // one half-warp, all in bank 0), a narrower one none.
    let counts = rules.count(&strided(Op::STORE, 8, 256));
    assert_eq!((counts.data_wavefronts, counts.bank_conflicts), (Some(32), Some(32 - 15)));
    let counts = rules.count(&strided(Op::STORE, 4, 256));
    assert_eq!((counts.data_wavefronts, counts.bank_conflicts), (Some(32), Some(32 - 16)));

    // Shared memory: 16 banks of 8 bytes, half-warps.
    let counts = rules.count(&strided(Op::SHARED_LOAD, 8, 8));
    assert_eq!((counts.data_wavefronts, counts.bank_conflicts), (Some(2), Some(0)));
    let counts = rules.count(&strided(Op::SHARED_LOAD, 8, 128));
    assert_eq!((counts.data_wavefronts, counts.bank_conflicts), (Some(32), Some(30)));
    // Not stated for 16 bytes a lane.
    assert_eq!(rules.count(&strided(Op::SHARED_LOAD, 16, 16)).data_wavefronts, None);
    // It has no atomics' rounds.
    let red = Op::parse("red", None, None, 4).unwrap();
    assert_eq!(rules.count(&strided(red, 4, 4)).sectors, None);
}

proptest! {
    #[test]
    fn a_made_up_gpu_explains_what_it_counts(
        access in common::any_access_of(&RuleSet::from_toml(MADE_UP).unwrap(), |_, _| true)
    ) {
        let rules = RuleSet::from_toml(MADE_UP).unwrap();
        let (counts, explanation) = (rules.count(&access), rules.explain(&access));
        prop_assert_eq!(explanation.counts, counts);
        prop_assert_eq!(
            explanation.data_wavefronts.len() as u32,
            counts.data_wavefronts.unwrap_or(0)
        );
        if let Some(sectors) = counts.unique_sectors {
            prop_assert_eq!(explanation.sectors.len() as u32, sectors);
        }
    }
}

/// Each word of a lane is a request, and looks the line up that both share.
#[test]
fn requests_to_local_memory_are_as_wide_as_the_file_says() {
    let load = Op::parse("ldl", None, None, 8).unwrap();
    let counts = |file: &str| {
        let counts = RuleSet::from_toml(file).unwrap().count(&strided(load, 8, 0));
        (counts.requests, counts.sectors, counts.tags, counts.unique_sectors)
    };
    assert_eq!(counts(MADE_UP), (1, Some(4), Some(1), Some(4)));
    let by_words = MADE_UP.replacen("[shared]", "[local]\nrequest_bytes = 4\n[shared]", 1);
    assert_eq!(counts(&by_words), (2, Some(4), Some(2), Some(4)));
}

#[test]
fn an_impossible_file_is_refused_with_its_key() {
    for (from, to, key) in [
        ("[\"made-up\"]", "[]", "archs"),
        ("widths = [1, 2, 4, 8, 16, 32]", "widths = [3]", "widths"),
        ("[request]\nlanes = 32", "[request]\nlanes = 0", "request"),
        ("[request]\nlanes = 32", "[request]\nlanes = 12", "request"),
        ("[request]\nlanes = 32", "[request]\nlanes = 8", "request"),
        ("sector_bytes = 64", "sector_bytes = 48", "cache.sector_bytes"),
        ("sector_bytes = 64", "sector_bytes = 16", "cache.sector_bytes"),
        ("line_bytes = 256", "line_bytes = 32", "cache.line_bytes"),
        ("line_bytes = 256", "line_bytes = 2147483648", "cache.line_bytes"),
        ("hash = [0b101]", "hash = []", "tag.hash"),
        ("hash = [0b101]", "hash = [1, 2, 4, 8, 16, 32]", "tag.hash"),
        ("[data]\nbanks = 16", "[data]\nbanks = 128", "data.banks"),
        ("[tag]\nhash = [0b101]", "", "tag"),
        (
            "[shared]",
            "[atomic]\nresult_passes = 0\nsingle_lane_merged_banks = 0\n[shared]",
            "atomic.result_passes",
        ),
        (
            "widths = [4, 8]\n",
            "widths = [4, 8]\n[shared.atomic]\nwidths = [4]\ncas_passes = 0\n",
            "shared.atomic.cas_passes",
        ),
        ("[shared]", "[local]\nrequest_bytes = 2\n[shared]", "local.request_bytes"),
        ("[shared]\nbanks = 16", "[shared]\nbanks = 15", "shared.banks"),
        ("[shared]", "[[inexact]]\nops = [\"lds.128\"]\nreason = \"\"\n[shared]", "inexact.ops"),
    ] {
        let text = MADE_UP.replacen(from, to, 1);
        assert_ne!(text, MADE_UP, "{from} is not in the file");
        match RuleSet::from_toml(&text) {
            Err(RuleError::Value { key: found, reason }) => {
                assert_eq!(found, key, "{reason}\n{text}");
            }
            other => panic!("{key}: {other:?}\n{text}"),
        }
    }
    let misspelt = MADE_UP.replacen("line_bytes", "line_byte", 1);
    let message = RuleSet::from_toml(&misspelt).unwrap_err().to_string();
    assert!(message.contains("unknown field `line_byte`"), "{message}");
}
