//! The scenarios that ship in scenarios/ and the kernels in kernels/: each is
//! complete, listed, and counts what its summary says.

use coalescope_scenario::dump::dump;
use coalescope_scenario::program::Root;
use coalescope_scenario::{Options, Run, Scenario};
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
