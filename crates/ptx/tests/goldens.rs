//! Scenario in, text out: each file of `tests/goldens/` is a scenario followed
//! by what its first run must become.
//!
//! A line `--- ptx`, `--- verify` or `--- cuda` starts the expected text of
//! [`ptx::Purpose::Measure`], of [`ptx::Purpose::Verify`], or of the CUDA C++
//! file; in place of a text, an error stands as people see it. With
//! `COALESCOPE_BLESS=1` in the environment the files are rewritten with what is
//! emitted now: read the difference before you commit it.

use coalescope_ptx as ptx;
use scenario::{Diagnostics, Disk, Options, Run, Scenario, Style};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLESS: &str = "COALESCOPE_BLESS";

#[test]
fn every_scenario_becomes_its_golden() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "golden"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no goldens in {}", folder.display());

    let bless = std::env::var_os(BLESS).is_some_and(|value| value == "1");
    let mut wrong = Vec::new();
    for file in files {
        let golden = fs::read_to_string(&file).unwrap();
        let now = emitted(&file, &golden);
        if now == golden {
            continue;
        }
        if bless {
            fs::write(&file, now).unwrap();
        } else {
            let difference = similar_asserts::SimpleDiff::from_str(&golden, &now, "golden", "now");
            wrong.push(format!("{}\n{difference}", file.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nset {BLESS}=1 to accept these texts, then read the difference",
        wrong.join("\n")
    );
}

/// The golden with its texts as they are emitted now.
fn emitted(file: &Path, golden: &str) -> String {
    let mut scenario = String::new();
    let mut sections = Vec::new();
    for line in golden.lines() {
        match line.strip_prefix("--- ") {
            Some(section) => sections.push(section.trim()),
            None if sections.is_empty() => {
                scenario.push_str(line);
                scenario.push('\n');
            }
            None => {}
        }
    }
    assert!(!sections.is_empty(), "{}: nothing is expected", file.display());

    let run = run(file, &scenario);
    let mut out = scenario;
    for section in sections {
        let text = match (section, &run) {
            (_, Err(errors)) => errors.render(Style::Plain),
            ("ptx", Ok(run)) => ptx_text(run, ptx::Purpose::Measure),
            ("verify", Ok(run)) => ptx_text(run, ptx::Purpose::Verify),
            ("cuda", Ok(run)) => ptx::cuda::emit(run),
            (other, _) => panic!("{}: no such section: {other}", file.display()),
        };
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        out.push_str(&format!("--- {section}\n{text}{newline}"));
    }
    out
}

/// The first run of a scenario that is named after its golden.
fn run(file: &Path, scenario: &str) -> Result<Run, Diagnostics> {
    let name = PathBuf::from(file.file_stem().unwrap()).with_extension("toml");
    let plans = Scenario::from_text(name, scenario, &Disk)?.runs(&[], Options::default())?;
    plans[0].build()
}

fn ptx_text(run: &Run, purpose: ptx::Purpose) -> String {
    match ptx::emit(run, purpose) {
        Ok(emitted) => emitted.text,
        Err(error) => Diagnostics { sources: Arc::clone(&run.sources), errors: vec![*error] }
            .render(Style::Plain),
    }
}
