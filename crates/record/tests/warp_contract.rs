//! The contract of `coalescope warp`, by example: `warp/contract.in.jsonl` and
//! what each architecture answers, `warp/contract-ARCH.out.jsonl`.
//!
//! To accept changed answers, run with `COALESCOPE_BLESS=1` and read the diff.

use std::fs;
use std::path::PathBuf;

use coalescope_record::warp;
use simulator::RuleSet;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/warp")
}

#[test]
fn every_example_is_answered_as_before() {
    let input = fs::read(folder().join("contract.in.jsonl")).unwrap();
    for arch in ["1.0", "2.0", "7.0", "9.0"] {
        let rules = RuleSet::for_arch(arch).unwrap();
        let mut output = Vec::new();
        let summary = warp::stream(&rules, &input[..], &mut output).unwrap();
        assert_eq!(summary.lines as usize, input.split(|&byte| byte == b'\n').count() - 1);
        let output = String::from_utf8(output).unwrap();
        let path = folder().join(format!("contract-{arch}.out.jsonl"));
        if std::env::var_os("COALESCOPE_BLESS").is_some() {
            fs::write(&path, &output).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        similar_asserts::assert_eq!(
            output,
            expected,
            "answers on {arch} differ from {}; accept them with COALESCOPE_BLESS=1",
            path.display()
        );
    }
}

/// Lines counted on a device go in as they were recorded, counters and all,
/// and the answers are what was counted.
#[test]
fn recorded_lines_go_in_as_they_are() {
    use std::io::{BufReader, Read};

    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/hardware/h200/warp-truth/warp-a.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let rules = RuleSet::for_arch("9.0").unwrap();
    let mut output = Vec::new();
    let summary =
        warp::stream(&rules, BufReader::with_capacity(1 << 16, text.as_bytes()), &mut output)
            .unwrap();
    assert_eq!(summary, warp::Summary { lines: 1000, bad_lines: 0 });
    let output = String::from_utf8(output).unwrap();
    let mut agree = 0;
    for (record, answer) in text.lines().zip(output.lines()) {
        let record: serde_json::Value = serde_json::from_str(record).unwrap();
        let answer: serde_json::Value = serde_json::from_str(answer).unwrap();
        assert_eq!(record["id"], answer["id"]);
        let counters = &record["counters"];
        let pairs = match record["op"].as_str() {
            Some("lds" | "sts") => [
                ("shared_wavefronts", "data_wavefronts"),
                ("shared_bank_conflicts", "bank_conflicts"),
            ],
            _ => [("sectors", "sectors"), ("tag_wavefronts", "tag_wavefronts")],
        };
        agree += usize::from(
            pairs
                .iter()
                .all(|pair| !answer[pair.1].is_null() && counters[pair.0] == answer[pair.1]),
        );
    }
    assert!(agree >= 990, "{agree} of 1000");
}
