//! What kernels are lowered to: each `lowering/NAME.toml` is a scenario, then a
//! line `# -- program --`, then the typed program of its first run, in comments.
//!
//! The kernels are those of tutorials and samples, as their authors print them,
//! or small ones for one rule of C.
//!
//! `COALESCOPE_BLESS=1 cargo test -p coalescope-scenario --test lowering`
//! writes the programs; read the diff before you commit it.

use coalescope_scenario::dump::dump;
use coalescope_scenario::{Options, Scenario};
use std::fs;
use std::path::{Path, PathBuf};

const BLESS: &str = "COALESCOPE_BLESS";
const COMMAND: &str = "COALESCOPE_BLESS=1 cargo test -p coalescope-scenario --test lowering";
const MARKER: &str = "# -- program --\n";

/// The first run's program and the labels of its accesses, as comments.
fn lowered(path: &Path) -> String {
    let scenario = Scenario::load(path).unwrap_or_else(|errors| panic!("{errors}"));
    let plans = scenario.runs(&[], Options::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let run = plans[0].build().unwrap_or_else(|errors| panic!("{errors}"));
    let mut text = dump(&run.program, &run.buffers);
    for (number, site) in run.program.sites.iter().enumerate() {
        let mark = if site.labelled { " (label)" } else { "" };
        text.push_str(&format!("#{number}: {}{mark}\n", site.label));
    }
    text.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect()
}

#[test]
fn programs_are_as_recorded() {
    let bless = std::env::var_os(BLESS).is_some_and(|value| value == "1");
    let mut paths: Vec<PathBuf> = fs::read_dir("tests/lowering")
        .unwrap_or_else(|error| panic!("{error}"))
        .map(|entry| entry.unwrap_or_else(|error| panic!("{error}")).path())
        .filter(|path| path.extension().is_some_and(|found| found == "toml"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let mut wrong = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}"));
        let (scenario, expected) = text.split_once(MARKER).unwrap_or((&text, ""));
        let found = lowered(&path);
        if bless {
            let scenario = scenario.trim_end();
            fs::write(&path, format!("{scenario}\n\n{MARKER}{found}"))
                .unwrap_or_else(|error| panic!("{error}"));
        } else if expected != found {
            let diff = similar_asserts::SimpleDiff::from_str(expected, &found, "recorded", "found");
            wrong.push(format!("{}\n{diff}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nIf this is right: {COMMAND}", wrong.join("\n"));
}
