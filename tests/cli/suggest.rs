//! `coalescope suggest` by predicted time and by counts.

use super::{coalescope, json_lines, stderr, stdout};

const LAYOUTS: [&str; 6] = ["suggest", "struct-layout", "--variant", "aos", "--set", "n=1 << 20"];

#[test]
fn a_calibrated_device_ranks_by_time() {
    let device = ["--device", "tests/cli/profiles/made-up.toml"];
    let output = coalescope(&[&LAYOUTS[..], &device, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer = &json_lines(&output)[0];
    assert_eq!((&answer["ranked_by"], &answer["device"]), (&"time".into(), &"Made-up".into()));
    let ranked = answer["ranked"].as_array().expect("layouts");
    let seconds: Vec<f64> =
        ranked.iter().map(|layout| layout["seconds"].as_f64().expect("a time")).collect();
    assert!(seconds.len() > 2);
    for pair in seconds.windows(2) {
        // Nearer times are ranked by counts.
        assert!(pair[0] < 1.011 * pair[1], "{seconds:?}");
    }
    assert!(seconds[0] < 0.9 * seconds[seconds.len() - 1], "{seconds:?}");
    let table = stdout(&coalescope(&[&LAYOUTS[..], &device].concat()));
    assert!(table.contains("predicted time on Made-up (error not known)"), "{table}");
}

#[test]
fn others_rank_by_counts() {
    for by in [["--device", "a100"], ["--arch", "8.0"]] {
        let output = coalescope(&[&LAYOUTS[..], &by, &["--json"]].concat());
        let answer = &json_lines(&output)[0];
        assert_eq!(answer["ranked_by"], "counts", "{by:?}");
        assert_eq!(answer["arch"], "8.0");
        assert!(answer["ranked"][0]["seconds"].is_null());
    }
}
