//! Published figures: every case of `published.toml`.

use coalescope_simulator::{LaneMask, Op, RuleSet, WarpAccess};
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    source: String,
    archs: Vec<String>,
    #[serde(default = "load")]
    op: String,
    width: u8,
    first: u64,
    stride: u64,
    #[serde(default)]
    swap: u64,
    #[serde(default = "full")]
    mask: u32,
    transactions: Option<Vec<String>>,
    requests: Option<u32>,
    sectors: Option<u32>,
    tags: Option<u32>,
    data_wavefronts: Option<u32>,
    bank_conflicts: Option<u32>,
    l2_sectors: Option<u32>,
    unique_sectors: Option<u32>,
    requested_bytes: Option<u32>,
    unique_bytes: Option<u32>,
    moved_bytes: Option<u32>,
}

fn load() -> String {
    "ld".to_owned()
}

fn full() -> u32 {
    u32::MAX
}

/// "8×32@128" as eight pairs of size and address.
fn expand(text: &str) -> Vec<(u32, u64)> {
    let (count, rest) = text.split_once('×').unwrap();
    let (bytes, address) = rest.split_once('@').unwrap();
    vec![(bytes.parse().unwrap(), address.parse().unwrap()); count.parse().unwrap()]
}

#[test]
fn published_figures_come_out() {
    let file: File = toml::from_str(include_str!("published.toml")).unwrap();
    for case in &file.case {
        for arch in &case.archs {
            let rules = RuleSet::for_arch(arch).unwrap_or_else(|| panic!("no rules for {arch}"));
            let op = Op::parse(&case.op, None, None, case.width).unwrap();
            let address = |lane: usize| case.first + case.stride * (lane as u64 ^ case.swap);
            let mut access = WarpAccess::new(op, case.width, std::array::from_fn(address));
            access.mask = LaneMask(case.mask);
            rules.check(&access).unwrap();

            let counts = rules.count(&access);
            for (field, expected, count) in [
                ("requests", case.requests, Some(counts.requests)),
                ("sectors", case.sectors, counts.sectors),
                ("tags", case.tags, counts.tags),
                ("data_wavefronts", case.data_wavefronts, counts.data_wavefronts),
                ("bank_conflicts", case.bank_conflicts, counts.bank_conflicts),
                ("l2_sectors", case.l2_sectors, counts.l2_sectors),
                ("unique_sectors", case.unique_sectors, counts.unique_sectors),
                ("requested_bytes", case.requested_bytes, Some(counts.requested_bytes)),
                ("unique_bytes", case.unique_bytes, Some(counts.unique_bytes)),
                ("moved_bytes", case.moved_bytes, counts.moved_bytes),
            ] {
                if expected.is_some() {
                    assert_eq!(count, expected, "{field} on {arch}: {}", case.source);
                }
            }
            let Some(expected) = &case.transactions else { continue };
            let mut expected: Vec<_> = expected.iter().flat_map(|text| expand(text)).collect();
            let issued = rules.transactions(&access).unwrap();
            let mut issued: Vec<_> = issued.iter().map(|t| (t.bytes, t.address)).collect();
            expected.sort_unstable();
            issued.sort_unstable();
            assert_eq!(issued, expected, "transactions on {arch}: {}", case.source);
            assert_eq!(counts.transactions, Some(issued.len() as u32));
        }
    }
}
