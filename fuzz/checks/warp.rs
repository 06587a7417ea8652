//! What holds for `coalescope warp` whatever its input is.
//!
//! Shared by the fuzz target and the test that replays the corpus, which name
//! the crates `record` and `simulator`.

use record::warp::{self, Summary};
use serde_json::value::RawValue;
use simulator::RuleSet;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::sync::LazyLock;

/// Architectures whose rules differ most.
static RULES: LazyLock<[RuleSet; 4]> = LazyLock::new(|| {
    ["1.0", "2.0", "7.0", "9.0"].map(|arch| RuleSet::for_arch(arch).expect("a shipped rule set"))
});

/// Answers `input` and checks the answers.
///
/// # Panics
/// Where a line has no answer, or one that cannot be.
pub(crate) fn check(input: &[u8]) {
    for rules in RULES.iter() {
        let (whole, summary) = answers(rules, input, input.len().max(1));
        let text = std::str::from_utf8(&whole).expect("UTF-8");
        assert_eq!(text.lines().count() as u64, summary.lines);
        let mut bad = 0;
        for line in text.lines() {
            bad += u64::from(!is_good(line));
        }
        assert_eq!(bad, summary.bad_lines);
        // How the input comes in pieces changes nothing.
        assert_eq!(answers(rules, input, 7), (whole, summary));
    }
}

fn answers(rules: &RuleSet, input: &[u8], buffer: usize) -> (Vec<u8>, Summary) {
    let mut output = Vec::new();
    let input = BufReader::with_capacity(buffer, input);
    let summary = warp::stream(rules, input, &mut output).expect("memory can be read and written");
    (output, summary)
}

/// Whether an answer has counts, which must be possible, and no error.
fn is_good(line: &str) -> bool {
    // Not as numbers: an id is given back as it is written, 1e999 too.
    let answer: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line).expect("JSON");
    assert!(answer.contains_key("id"), "{line}");
    if let Some(error) = answer.get("error") {
        let error: String = serde_json::from_str(error.get()).expect("a text");
        assert!(!error.is_empty(), "{line}");
        return false;
    }
    let get = |key: &str| answer.get(key).map(|number| number.get().parse::<u64>().expect("whole"));
    assert!(answer.contains_key("exact") && get("requests").is_some(), "{line}");
    if let (Some(unique), Some(requested)) = (get("unique_bytes"), get("requested_bytes")) {
        assert!(unique <= requested && requested <= 32 * 32, "{line}");
    }
    if let (Some(unique), Some(sectors)) = (get("unique_sectors"), get("sectors")) {
        assert!(unique <= sectors, "{line}");
    }
    true
}
