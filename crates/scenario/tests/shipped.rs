//! The scenarios that ship in scenarios/ and the kernels in kernels/: each is
//! complete, listed, and counts what its summary says.

use coalescope_scenario::count::{self, LaunchCounts};
use coalescope_scenario::dump::dump;
use coalescope_scenario::program::Root;
use coalescope_scenario::{Options, Run, Scenario};
use simulator::{Field, RuleSet, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a footprint that is counted under a profiler without being asked
/// for: more is slow to save and restore between replays.
const COUNTED_BYTES: u64 = 64 << 20;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Paths of a folder's files with this extension, by their names without it.
fn files(folder: &str, extension: &str) -> BTreeMap<String, PathBuf> {
    fs::read_dir(top().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path))
        .collect()
}

fn scenarios() -> Vec<Scenario> {
    files("scenarios", "toml")
        .values()
        .map(|path| Scenario::load(path).unwrap_or_else(|errors| panic!("{errors}")))
        .collect()
}

/// Every run of every scenario, with the words that name it.
fn runs(options: Options) -> Vec<(String, Run)> {
    let mut runs = Vec::new();
    for scenario in scenarios() {
        for plan in scenario.runs(&[], options).unwrap_or_else(|errors| panic!("{errors}")) {
            let name = format!("{} [{}]", plan.scenario(), plan.label());
            let run = plan.build().unwrap_or_else(|errors| panic!("{errors}"));
            runs.push((name, run));
        }
    }
    runs
}

#[test]
fn each_has_a_title_and_a_summary_of_its_own() {
    let scenarios = scenarios();
    for scenario in &scenarios {
        let name = scenario.name();
        assert_ne!(scenario.title(), name, "{name} has no title");
        assert!(scenario.summary().len() > 80, "{name}: the summary is no paragraph");
    }
    let titles: BTreeSet<_> = scenarios.iter().map(Scenario::title).collect();
    assert_eq!(titles.len(), scenarios.len(), "two scenarios have the same title");
}

#[test]
fn every_claim_is_judged_by_a_scenario() {
    let judged: BTreeSet<u32> =
        scenarios().iter().flat_map(|scenario| scenario.claims().collect::<Vec<_>>()).collect();
    assert_eq!(judged, (1..=17).collect());
}

/// The programs keep the promises that the evaluator and the printers rely on.
#[test]
fn all_are_lowered() {
    let runs = runs(Options::default());
    assert!(runs.len() > 200, "{} runs", runs.len());
    for (name, run) in runs {
        let text = dump(&run.program, &run.buffers);
        if std::env::var_os("COALESCOPE_DUMP").is_some() {
            println!("{name}\n{text}");
        }
        let sites = &run.program.sites;
        let labels: BTreeSet<_> = sites.iter().map(|site| &site.label).collect();
        assert_eq!(labels.len(), sites.len(), "{name}: labels");
        assert!(!sites.is_empty(), "{name}: no access");
        for site in sites {
            assert!(matches!(site.width, 1 | 2 | 4 | 8 | 16), "{name}: {site:?}");
            if let Root::Buffer(id) = site.root {
                assert!(id.0 < run.buffers.len(), "{name}: {site:?}");
            }
        }
    }
}

/// They fit on a small card, and into the cache of a profiler's replay where
/// `[counting]` says how. A window that the sweep makes large is the exception.
#[test]
fn footprints_are_moderate() {
    let footprint = |run: &Run| run.buffers.iter().map(|buffer| buffer.bytes).sum::<u64>();
    for (name, run) in runs(Options::default()) {
        assert!(footprint(&run) <= 5 << 29, "{name}: {} bytes", footprint(&run));
    }
    for (name, run) in runs(Options::for_counting()) {
        let window = run.scenario == "random-gather";
        assert!(window || footprint(&run) <= COUNTED_BYTES, "{name}: {} bytes", footprint(&run));
    }
}

/// The tables of scenarios/README.md, from the files.
#[test]
fn the_index_lists_each_with_its_title_and_claims() {
    let readme = fs::read_to_string(top().join("scenarios/README.md")).unwrap();
    let listed: BTreeSet<&str> = readme.lines().filter(|line| line.starts_with("| [")).collect();
    let mut expected = BTreeSet::new();
    let mut judges: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for scenario in scenarios() {
        let name = scenario.name();
        let claims: Vec<_> = scenario.claims().map(|claim| claim.to_string()).collect();
        let claims = claims.join(", ");
        expected
            .insert(format!("| [{name}.toml]({name}.toml) | {} | {claims} |", scenario.title()));
        for claim in scenario.claims() {
            judges.entry(claim).or_default().insert(name.to_owned());
        }
    }
    assert_eq!(listed, expected.iter().map(String::as_str).collect());

    for (claim, judges) in judges {
        let row = readme
            .lines()
            .find(|line| line.starts_with(&format!("| {claim} |")))
            .unwrap_or_else(|| panic!("no row for claim {claim}"));
        let last = row.rsplit('|').nth(1).unwrap().trim();
        // Claim 17 is named, not judged: the row says so.
        let named = last.split([',', ' ']).filter(|word| judges.contains(*word));
        let named: BTreeSet<String> = named.map(str::to_owned).collect();
        assert_eq!(named, judges, "claim {claim}: {last}");
        if claim != 17 {
            assert_eq!(last.split(", ").count(), judges.len(), "claim {claim}: {last}");
        }
    }
}

/// What `kernels/build.sh` made is there, and has every kernel of its source.
#[test]
fn the_ptx_of_each_kernel_file_has_its_kernels() {
    let sources = files("kernels", "cu");
    let ptx = files("kernels", "ptx");
    assert_eq!(
        sources.keys().collect::<Vec<_>>(),
        ptx.keys().collect::<Vec<_>>(),
        "run kernels/build.sh"
    );
    for (name, path) in &sources {
        let source = fs::read_to_string(path).unwrap();
        let text = fs::read_to_string(&ptx[name]).unwrap();
        let command = format!("nvcc -ptx -arch=compute_75 {name}.cu -o {name}.ptx");
        assert!(source.contains(&command), "{name}.cu does not say how its PTX was made");
        assert!(text.contains("release 13.0"), "{name}.ptx is of another compiler");
        let kernels: BTreeSet<&str> = source
            .split("extern \"C\" __global__ void ")
            .skip(1)
            .map(|rest| rest.split('(').next().unwrap())
            .collect();
        assert_eq!(source.matches("__global__").count(), kernels.len(), "{name}.cu");
        let entries: BTreeSet<&str> = text
            .split(".visible .entry ")
            .skip(1)
            .map(|rest| rest.split('(').next().unwrap())
            .collect();
        assert_eq!(kernels, entries, "{name}: run kernels/build.sh");
    }
}

/// Every kernel in kernels/ is run by a scenario.
#[test]
fn every_kernel_is_used() {
    let mut unused: BTreeSet<(String, String)> = BTreeSet::new();
    for (name, path) in files("kernels", "cu") {
        let source = fs::read_to_string(path).unwrap();
        for rest in source.split("extern \"C\" __global__ void ").skip(1) {
            unused.insert((name.clone(), rest.split('(').next().unwrap().to_owned()));
        }
    }
    for path in files("scenarios", "toml").values() {
        let text = fs::read_to_string(path).unwrap();
        unused.retain(|(file, entry)| {
            !(text.contains(&format!("kernels/{file}.cu"))
                && text.contains(&format!("\"{entry}\"")))
        });
    }
    assert_eq!(unused, BTreeSet::new());
}

/// A run with its counts on CC 9.0, at the size for profilers.
struct Counted {
    name: String,
    run: Run,
    counts: LaunchCounts,
}

impl Counted {
    fn param(&self, name: &str) -> u64 {
        let found = self.run.params.iter().find(|(param, _)| param == name);
        found.unwrap_or_else(|| panic!("{}: no {name}", self.name)).1.value as u64
    }

    /// `field` per request of each access to `space`, in source order.
    fn per_request(&self, space: Space, field: Field) -> Vec<f64> {
        let sites = self.run.program.sites.iter().zip(&self.counts.sites);
        let sites = sites.filter(|(site, _)| site.op.space == space);
        sites.filter_map(|(_, counts)| counts.totals.per_request(field)).collect()
    }
}

/// What the accesses to global memory must count for each request, in source
/// order: sectors; `None` where the data decides, or warps differ.
fn expected_sectors(counted: &Counted) -> Option<Vec<u64>> {
    let run = &counted.run;
    let param = |name| counted.param(name);
    // 32 floats lie on 4 sectors if the first begins one, else on 5.
    let from = |start: u64| if start.is_multiple_of(32) { 4 } else { 5 };
    Some(match (run.scenario.as_str(), run.variant.as_deref().unwrap_or("")) {
        ("contiguous" | "reversed" | "swapped" | "cache-operators", _) => vec![4, 4],
        ("read-write", "both") => vec![4, 4],
        ("read-write", _) => vec![4],
        // Lanes 4 * stride bytes apart: never more than one sector a lane.
        ("strided", "read") => vec![(4 * param("stride")).min(32), 4],
        ("strided", "write") => vec![4, (4 * param("stride")).min(32)],
        ("start-address", _) => vec![from(param("start"))],
        // Byte k of every lane: the last of them may lie past the fourth sector.
        ("unaligned-bytes", _) => {
            (0..4).map(|k| if param("start") + k < 4 { 4 } else { 5 }).collect()
        }
        ("misaligned-copy", "read") | ("pinned-host", _) => vec![from(4 * param("offset")), 4],
        ("misaligned-copy", "copy") => vec![from(4 * param("offset")); 2],
        ("vector-add", _) => vec![from(4 * param("offset")); 3],
        ("aligned-pointer", "as-is") => vec![from(param("start")), 4],
        ("aligned-pointer", "rounded-up") => vec![4, 4],
        // Odd steps permute the words of the line; 16 leaves words 0 and 16.
        ("permuted", _) => vec![if param("step") == 16 { 2 } else { 4 }, 4],
        ("broadcast", _) => vec![(4 / param("share")).max(1), 4],
        // Eight floats a sector, or one sector for each lane up to four.
        ("partial-warp", "first") => vec![param("lanes").div_ceil(8); 2],
        ("partial-warp", "spread") => vec![param("lanes").min(4); 2],
        // 32 lanes of `width` bytes.
        ("widths", _) => vec![param("width"); 2],
        // Fields 24 bytes apart: 24 * 32 bytes, all of their sectors.
        ("mixed-types", "struct") => vec![24, 24, 24, 24, 24, 4],
        ("mixed-types", "arrays") => vec![1, 2, 4, 8, 4, 4],
        // Half of the lanes, still on all four sectors.
        ("mixed-types", "lanes") => vec![4; 4],
        ("struct-layout", "aos") => vec![12],
        ("struct-layout", _) => vec![4],
        ("vector-add-layout", "aos") => vec![12; 9],
        ("vector-add-layout", "soa") => vec![4; 9],
        ("particle-update", "aos") => vec![32; 9],
        ("particle-update", _) => vec![4; 9],
        ("padded-struct", "packed") => vec![12; 3],
        ("padded-struct", "padded") => vec![16; 3],
        ("padded-struct", "vector") => vec![16],
        ("aligned-struct", "packed") => vec![12, 12, 12, 4],
        ("aligned-struct", "align16") => vec![16, 4],
        ("aligned-struct", "node") => vec![20, 20, 20, 20, 20, 4],
        ("aligned-struct", "align32") => vec![32, 32, 32, 32, 32, 4],
        ("shared-alignment", _) => vec![4, 16],
        // Bytes three apart: 96 bytes from a multiple of 96.
        ("rgb-channel", "uchar3" | "bytes") => vec![3, 1],
        ("rgb-channel", "planar") => vec![1, 1],
        ("rgb-channel", "grey") => vec![3, 3, 3, 1],
        ("row-column-walk", "rows") => vec![32, 4],
        ("row-column-walk", "columns") => vec![4, 4],
        // 32 / block_x rows, each at least one sector.
        ("block-shape", _) => vec![(32 / param("block_x").min(8)).max(4); 2],
        ("transpose", "naive") => vec![4, 32],
        ("transpose", "read-columns") => vec![32, 4],
        ("transpose", _) | ("tile-padding" | "shared-stride", _) => vec![4, 4],
        ("scatter", _) => vec![4, 4, 32],
        // A warp covers 32 / TILE rows of c: one word of a and TILE words of b.
        ("matrix-multiply", "naive") => vec![32 / param("TILE"), param("TILE") / 8, 4],
        ("matrix-multiply", "tiled") => vec![4, 4, 4],
        _ => return None,
    })
}

/// Data wavefronts of one request to each shared access, in source order.
fn expected_wavefronts(counted: &Counted) -> Option<Vec<u64>> {
    // How many of 32 lanes `stride` words apart meet in a bank.
    let ways = |stride: u64| {
        let power = 1 << stride.trailing_zeros().min(5);
        if stride == 0 { 1 } else { power }
    };
    let run = &counted.run;
    Some(match (run.scenario.as_str(), run.variant.as_deref().unwrap_or("")) {
        ("transpose", "tiled") => vec![1, 32],
        ("transpose", "padded") => vec![1, 1],
        ("tile-padding", _) => vec![1, ways(32 + counted.param("PAD"))],
        ("shared-stride", _) => vec![ways(counted.param("stride")); 2],
        // Eight lanes of 16 bytes fill the 32 banks.
        ("shared-alignment", _) => vec![1, 4],
        _ => return None,
    })
}

#[test]
fn each_counts_what_its_summary_says() {
    let rules = RuleSet::for_arch("9.0").unwrap();
    let mut known = BTreeSet::new();
    for (name, run) in runs(Options::for_counting()) {
        let counts = count::count(&run, &rules, &run.assumed_bases(), &count::Options::default())
            .unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let counted = Counted { name, run, counts };
        let name = &counted.name;
        for (site, counts) in counted.run.program.sites.iter().zip(&counted.counts.sites) {
            let totals = &counts.totals;
            assert!(totals.requests.is_some_and(|n| n > 0), "{name}: {} never runs", site.label);
            assert_eq!(totals.requests, Some(totals.instructions), "{name}: {}", site.label);
        }
        if let Some(expected) = expected_sectors(&counted) {
            let expected: Vec<f64> = expected.iter().map(|&n| n as f64).collect();
            assert_eq!(counted.per_request(Space::Global, Field::Sectors), expected, "{name}");
            known.insert(counted.run.scenario.clone());
        }
        if let Some(expected) = expected_wavefronts(&counted) {
            let expected: Vec<f64> = expected.iter().map(|&n| n as f64).collect();
            let found = counted.per_request(Space::Shared, Field::DataWavefronts);
            assert_eq!(found, expected, "{name}");
        }
    }
    assert!(known.len() >= 30, "only {} scenarios have known counts", known.len());
}
