//! `coalescope sim` for a device: traffic, time, what bounds it.

use super::{coalescope, json_lines, stderr, stdout};
use std::path::Path;

/// A device with every constant, as if it had been calibrated.
const MADE_UP: &str = "tests/cli/profiles/made-up.toml";

/// Set to 1, it has the goldens rewritten with what is printed now.
const BLESS: &str = "COALESCOPE_BLESS";

/// Compares with a file of `tests/cli/goldens`.
fn golden(name: &str, now: &str) {
    let path = Path::new("tests/cli/goldens").join(name);
    if std::env::var_os(BLESS).is_some_and(|value| value == "1") {
        std::fs::write(&path, now).expect("the golden can be written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let difference = similar_asserts::SimpleDiff::from_str(&golden, now, "golden", "now");
    assert!(
        golden == now,
        "{}: {difference}\nset {BLESS}=1 to accept it, then read the difference",
        path.display()
    );
}

fn sim(args: &[&str]) -> String {
    let output = coalescope(&[&["sim"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// JSON Lines, one field a line.
fn pretty(args: &[&str]) -> String {
    let output = coalescope(&[&["sim", "--json"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines = json_lines(&output);
    let text = lines.iter().map(|line| serde_json::to_string_pretty(line).expect("JSON"));
    text.map(|line| line + "\n").collect()
}

const STRIDED: [&str; 5] = ["strided", "--set", "stride=4", "--set", "n=1048576"];

#[test]
fn a_calibrated_device_has_traffic_and_time() {
    golden("sim-measured.txt", &sim(&[&STRIDED[..], &["--device", MADE_UP]].concat()));
    let read = ["--variant", "read", "--device", MADE_UP];
    golden("sim-measured.json", &pretty(&[&STRIDED[..], &read].concat()));
}

#[test]
fn a_data_sheet_gives_a_lower_bound() {
    golden("sim-specification.txt", &sim(&[&STRIDED[..], &["--device", "a100"]].concat()));
    let read = ["--variant", "read", "--device", "a100"];
    let text = pretty(&[&STRIDED[..], &read].concat());
    assert!(text.contains("at_least_seconds") && !text.contains("\"seconds\""), "{text}");
    golden("sim-specification.json", &text);
}

#[test]
fn data_sheets_bound_what_they_have_numbers_for() {
    for name in ["v100", "t4", "a100", "h100", "h200-spec", "rtx4090"] {
        let output = coalescope(&["sim", "contiguous", "--device", name, "--json"]);
        let record = &json_lines(&output)[0];
        assert!(record["time"]["at_least_seconds"].as_f64().is_some_and(|s| s > 0.0), "{record}");
        assert!(record["time"]["known_error"].is_null(), "{record}");
    }
    // Its data sheet states neither the size of L2 nor a clock.
    let record = &json_lines(&coalescope(&["sim", "contiguous", "--device", "l40s", "--json"]))[0];
    assert!(record["time"].is_null(), "{record}");
    assert!(record["warnings"].to_string().contains("no `l2_bytes`"), "{record}");
}

#[test]
fn a_reduced_simulation_says_so() {
    let args = ["contiguous", "--set", "n=1 << 28", "--device", MADE_UP];
    let text = sim(&args);
    assert!(text.contains("--exact simulates all"), "{text}");
    let record = &json_lines(&coalescope(&[&["sim", "--json"], &args[..]].concat()))[0];
    let sampled = &record["traffic"]["sampled"];
    assert!(sampled["one_line_in"].as_u64().is_some_and(|lines| lines > 1), "{record}");
    let read = record["traffic"]["l2_read_sectors"].as_u64().expect("sectors");
    let off = read.abs_diff((1 << 28) * 4 / 32);
    assert!(off <= sampled["l2_sectors_deviation"].as_u64().expect("a deviation"), "{record}");
    let small = ["contiguous", "--set", "n=65536", "--device", MADE_UP];
    assert!(!sim(&small).contains("--exact"), "all of it is simulated");
}

#[test]
fn counts_alone_are_asked_for_by_a_rule_set() {
    let args = ["sim", "contiguous", "--arch", "9.0", "--json"];
    let record = &json_lines(&coalescope(&args))[0];
    assert!(record["traffic"].is_null() && record["time"].is_null(), "{record}");
}

#[test]
fn the_hosts_memory_is_not_timed() {
    let args = ["sim", "pinned-host", "--device", MADE_UP, "--json"];
    for record in json_lines(&coalescope(&args)) {
        let warnings = record["warnings"].to_string();
        let pinned = warnings.contains("in the host's memory");
        assert_eq!(pinned, record["time"].is_null(), "{record}");
    }
}
