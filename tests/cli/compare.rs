//! `coalescope compare`.

use super::{coalescope, json_lines, stderr, stdout};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// A measured record of one point of `strided`, as `measure` writes it.
fn measured(device: &str, arch: &str) -> String {
    format!(
        r#"{{"format":"coalescope-run/1","scenario":"strided","variant":"read","params":{{"n":16777216,"stride":2}},"source":"measured","device":"{device}","arch":"{arch}","launch":{{"grid":[65536,1,1],"block":[256,1,1]}},"time":{{"seconds":6e-5}},"samples":[6e-5],"part":"time","kernel":"generated","optimised":true}}"#
    )
}

#[test]
fn a_scenario_is_laid_over_the_recorded_device() {
    let output = coalescope(&["compare", "strided", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let points = json_lines(&output);
    assert_eq!(points.len(), 14);
    for point in &points {
        assert_eq!(point["device"], "NVIDIA H200");
        let figures = point["figures"].as_array().expect("figures");
        let of = |name: &str| figures.iter().find(|figure| figure["quantity"] == name);
        let sectors = of("sectors").expect("sectors");
        assert_eq!(sectors["error"], 0.0, "{point}");
        assert!(of("seconds").expect("a time")["measured"].is_number());
        assert!(of("seconds").expect("a time")["noise"].is_number());
    }
    let table = stdout(&coalescope(&["compare", "strided"]));
    assert!(table.contains("strided:read stride=2") && table.contains("Errors"), "{table}");
    let csv = stdout(&coalescope(&["compare", "strided", "--csv"]));
    assert!(csv.starts_with("scenario,variant,params,"), "{csv}");
}

#[test]
fn another_devices_records_are_named_and_bad_lines_skipped() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.jsonl.gz");
    let mut file = GzEncoder::new(std::fs::File::create(&path).unwrap(), Compression::default());
    writeln!(file, "not json\n{}", measured("NVIDIA A100", "8.0")).unwrap();
    file.finish().unwrap();
    let path = path.to_str().unwrap();
    let output = coalescope(&["compare", "--measured", path, "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(json_lines(&output).len(), 1);
    assert!(stderr(&output).contains("line 1"), "{}", stderr(&output));
    let output = coalescope(&["compare", "--measured", path, "--arch", "9.0", "--csv"]);
    assert!(stderr(&output).contains("measured on 8.0"), "{}", stderr(&output));
}

#[test]
fn a_point_that_set_made_is_predicted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.jsonl");
    let record = measured("NVIDIA H200", "9.0").replace(r#""stride":2"#, r#""stride":5"#);
    std::fs::write(&path, record).unwrap();
    let output = coalescope(&["compare", "--measured", path.to_str().unwrap(), "--csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("not predicted"), "{}", stderr(&output));
}

#[test]
fn what_the_record_lacks_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.jsonl");
    std::fs::write(&path, measured("NVIDIA H200", "9.0")).unwrap();
    let path = path.to_str().unwrap();
    let output = coalescope(&["compare", "contiguous", "--measured", path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no run of `contiguous`"), "{}", stderr(&output));
    let output = coalescope(&["compare", "--measured", "no-such.jsonl"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no-such.jsonl"), "{}", stderr(&output));
}

#[test]
fn a_folder_gets_charts_and_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("plots");
    let output = coalescope(&["compare", "strided", "-o", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for name in ["stride.svg", "stride.png", "report.html", "claims.md"] {
        let size = std::fs::metadata(out.join(name)).map(|file| file.len()).unwrap_or(0);
        assert!(size > 1000, "{name}: {size} bytes");
    }
    let again = coalescope(&["compare", "strided", "-o", out.to_str().unwrap()]);
    assert_eq!(stdout(&output), stdout(&again));
}

/// The committed table of claims is what the program makes.
#[test]
fn the_claims_in_plots_are_up_to_date() {
    let output = coalescope(&["compare", "--claims", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let committed = std::fs::read_to_string("plots/claims.md").expect("plots/claims.md");
    let claims = json_lines(&output);
    assert_eq!(claims.len(), 17);
    for claim in claims {
        let verdict = claim["verdict"].as_str().expect("a verdict").replace('_', " ");
        let row =
            format!("| {} | {} | **{verdict}** |", claim["id"], claim["claim"].as_str().unwrap());
        assert!(
            committed.contains(&row),
            "{row}\nis not in plots/claims.md: run `coalescope compare -o plots`"
        );
        for row in claim["rows"].as_array().expect("rows") {
            // Counts are the same on both sides.
            if let (Some(model), Some(device)) = (row.get("model"), row.get("device"))
                && row["says"]
                    .as_str()
                    .is_some_and(|says| says.contains("sector") || says.contains("line"))
            {
                assert_eq!(model["text"], device["text"], "{row}");
            }
        }
    }
}

/// A device with every constant, as if it had been calibrated.
const MADE_UP: &str = "tests/cli/profiles/made-up.toml";

#[test]
fn a_profile_predicts_traffic_and_time_of_every_run() {
    let output = coalescope(&["compare", "strided", "--device", MADE_UP, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("the profile is of Made-up, the records of NVIDIA H200"));
    for point in json_lines(&output) {
        assert!(point["bound_by"].is_string(), "{point}");
        let figures = point["figures"].as_array().expect("figures");
        for name in ["l2_sectors", "dram_bytes", "seconds"] {
            let figure = figures.iter().find(|figure| figure["quantity"] == name);
            let figure = figure.unwrap_or_else(|| panic!("{name}: {point}"));
            for side in ["predicted", "measured", "error"] {
                assert!(figure[side].is_number(), "{side}: {point}");
            }
        }
    }
    let table = stdout(&coalescope(&["compare", "strided", "--device", MADE_UP]));
    let header = table.lines().nth(1).expect("a header");
    for column in ["L2", "DRAM", "predicted", "measured", "error", "noise", "bound by"] {
        assert!(header.contains(column), "{column}: {header}");
    }
    for line in table.lines().filter(|line| line.starts_with("strided:")).take(14) {
        assert!(!line.contains('—'), "a column is empty: {line}");
    }
    for part in ["beside trivial models", "requested bytes ÷ peak", "Errors by family: time"] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn known_errors_are_printed_as_the_model_reads_them() {
    let args = ["compare", "strided", "--device", MADE_UP, "--known-errors"];
    let output = coalescope(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let errors = model::predict::KnownErrors::from_toml(&stdout(&output)).expect("TOML");
    let text = std::fs::read_to_string(MADE_UP).expect("a profile");
    let profile = model::Profile::from_toml(&text).expect("a profile");
    let error = errors.of(&profile, "strided").expect("an error");
    assert!(error.n > 5 && error.mean <= error.worst, "{error:?}");
    assert!(errors.of(&profile, "transpose").is_none(), "it was not compared");
}
