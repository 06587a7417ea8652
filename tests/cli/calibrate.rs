//! `coalescope calibrate` without a GPU: profiles from records, compared, listed.

use super::{coalescope, stderr, stdout};
use std::path::Path;

const ABOUT: &str = r#"{"device": {"name": "Made up", "compute_capability": [9, 0],
    "multiprocessors": 20, "l2_bytes": 16777216, "sm_clock_hz": 1500000000,
    "memory_clock_hz": 1000000000, "memory_bus_bits": 4096, "shared_bytes_per_block": 101376},
    "date": "2026-12-01T00:00:00Z"}"#;

/// Two runs of `dram:read` at 1 TB/s.
const RUNS: &str = r#"{"format":"coalescope-run/1","scenario":"dram","variant":"read","params":{"length":8,"repeat":1,"work":1000000000},"source":"measured","launch":{"grid":[1,1,1],"block":[256,1,1]},"part":"time","kernel":"generated","optimised":true,"time":{"seconds":0.0011}}
{"format":"coalescope-run/1","scenario":"dram","variant":"read","params":{"length":16,"repeat":1,"work":2000000000},"source":"measured","launch":{"grid":[1,1,1],"block":[256,1,1]},"part":"time","kernel":"generated","optimised":true,"time":{"seconds":0.0021}}
"#;

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_profile_is_made_of_records_and_agrees_with_itself() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let records = folder.path().join("mine.records");
    std::fs::create_dir(&records).expect("made");
    std::fs::write(records.join("about.json"), ABOUT).expect("written");
    std::fs::write(records.join("runs.jsonl"), RUNS).expect("written");
    let profile = text(&folder.path().join("mine.toml"));
    let made = coalescope(&["calibrate", "-o", &profile, "--from", &text(&records)]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let toml = std::fs::read_to_string(&profile).expect("a profile");
    for line in ["name = \"mine\"", "[constants.dram_read_rate]", "value = 1000000000000.0"] {
        assert!(toml.contains(line), "{line} is not in {toml}");
    }
    assert!(stderr(&made).contains("not measured:"), "{}", stderr(&made));

    let same = coalescope(&["calibrate", "--compare", &profile, &profile]);
    assert_eq!(same.status.code(), Some(0), "{}", stderr(&same));
    assert!(stdout(&same).contains("\n0 of "), "{}", stdout(&same));

    // A folder without records is told, and the profile that is there stays.
    let nothing = text(&folder.path().join("nothing"));
    let missing = coalescope(&["calibrate", "-o", &profile, "--from", &nothing]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("about.json is missing"), "{}", stderr(&missing));
    assert_eq!(std::fs::read_to_string(&profile).expect("still there"), toml);
}

#[test]
fn shipped_profiles_are_listed_and_compared() {
    let list = stdout(&coalescope(&["calibrate", "--list"]));
    for name in ["h200", "v100", "t4", "a100", "h100", "h200-spec", "rtx4090", "l40s"] {
        assert!(list.lines().any(|line| line.split_whitespace().next() == Some(name)), "{list}");
    }
    assert!(list.contains("specification, error unknown"), "{list}");
    let compared = stdout(&coalescope(&["calibrate", "--compare", "a100", "h100"]));
    let row = compared.lines().find(|line| line.contains("dram_peak")).expect("a row");
    assert!(row.contains("+115.6 %") && row.contains("unknown"), "{row}");
    let unknown = coalescope(&["calibrate", "--compare", "a100", "h1000"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("no shipped profile (h200, v100,"), "{}", stderr(&unknown));
}

#[test]
fn without_a_gpu_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let profile = text(&folder.path().join("mine.toml"));
    let output = coalescope(&["calibrate", "-o", &profile]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    assert_eq!(coalescope(&["calibrate"]).status.code(), Some(2));
}
