//! `coalescope diff`: scenarios, variants and records side by side.

use super::check::{Folder, assert_code, scenario};
use super::{coalescope, json_lines, stderr, stdout};

#[test]
fn two_scenarios_stand_side_by_side() {
    let folder = Folder::with("a.toml", &scenario("i", ""));
    folder.write("b.toml", &scenario("2 * i", ""));
    let output = folder.run(&["diff", "a.toml", "b.toml"]);
    assert_code(&output, 0);
    let text = stdout(&output);
    for line in [
        "A: a n=65536 (predicted, CC 9.0)",
        "B: b n=65536 (predicted, CC 9.0)",
        "sectors per request",
        "+8,192",
        "−50 points",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    // What is the same takes no row.
    assert!(!text.contains("requests"), "{text}");
    assert_code(&folder.run(&["diff", "a.toml", "b.toml", "--exit-code"]), 1);
    let same = folder.run(&["diff", "a.toml", "a.toml", "--exit-code"]);
    assert_code(&same, 0);
    assert!(stdout(&same).contains("no difference"), "{}", stdout(&same));
}

#[test]
fn variants_can_be_named_two_ways() {
    let with_colons = coalescope(&["diff", "transpose:naive", "transpose:padded"]);
    assert_code(&with_colons, 0);
    let with_options =
        coalescope(&["diff", "transpose", "--variant", "naive", "--variant", "padded"]);
    similar_asserts::assert_eq!(stdout(&with_colons), stdout(&with_options));
    let text = stdout(&with_colons);
    assert!(text.contains("A: transpose:naive") && text.contains("B: transpose:padded"), "{text}");
    // The tile is on one side only.
    assert!(text.contains("only in B: tile["), "{text}");

    let unknown = coalescope(&["diff", "transpose:naive", "transpose:paded"]);
    assert_code(&unknown, 2);
    assert!(stderr(&unknown).contains("no variant `paded`"), "{}", stderr(&unknown));
    assert_code(&coalescope(&["diff", "transpose"]), 2);
    assert_code(&coalescope(&["diff"]), 2);
}

#[test]
fn json_has_both_sides_difference_and_ratio() {
    let folder = Folder::with("a.toml", &scenario("2 * i", ""));
    folder.write("b.toml", &scenario("i", ""));
    let output = folder.run(&["diff", "a.toml", "b.toml", "--json"]);
    let [compared] = json_lines(&output).try_into().expect("one pair of runs");
    assert_eq!(compared["format"], "coalescope-diff/1");
    assert_eq!(compared["differs"], true);
    assert_eq!(compared["a"]["scenario"], "a");
    assert_eq!(compared["b"]["params"]["n"], 65536);
    let access = &compared["accesses"][0];
    assert_eq!((&access["a"]["label"], &access["matched_by"]), (&"load".into(), &"label".into()));
    assert_eq!(
        access["quantities"]["sectors"],
        serde_json::json!({ "a": 16384, "b": 8192, "difference": -8192, "ratio": 0.5 })
    );
    assert_eq!(access["quantities"]["unique_efficiency"]["ratio"], 2.0);
    assert_eq!(compared["kernel"]["sectors"]["difference"], -8192);
}

#[test]
fn records_compare_with_records_and_scenarios() {
    let sweep = |values: &str| {
        scenario("s * i", &format!("[sweep]\ns = {values}\n"))
            .replace("[params]", "[params]\ns = 1")
    };
    let folder = Folder::with("a.toml", &sweep("[1, 2, 4]"));
    let store = |name: &str| {
        let output = folder.run(&["sim", "a.toml", "--json"]);
        folder.write(name, &stdout(&output));
    };
    store("before.jsonl");
    assert_code(&folder.run(&["diff", "before.jsonl", "a.toml", "--exit-code"]), 0);
    folder.write("a.toml", &sweep("[4, 2, 8]"));
    store("after.jsonl");
    let output = folder.run(&["diff", "before.jsonl", "after.jsonl", "--exit-code"]);
    assert_code(&output, 1);
    let text = stdout(&output);
    assert_eq!(text.matches("no difference").count(), 4, "{text}");
    assert!(text.contains("only in A: a s=1 n=65536"), "{text}");
    assert!(text.contains("only in B: a s=8 n=65536"), "{text}");
    let json = json_lines(&folder.run(&["diff", "before.jsonl", "after.jsonl", "--json"]));
    assert_eq!(json.len(), 4);
    assert!(json.iter().any(|pair| pair["b"].is_null() && pair["a"]["params"]["s"] == 1));
    // One of the runs of each.
    let one = folder.run(&["diff", "before.jsonl", "after.jsonl", "--set", "s=2", "--exit-code"]);
    assert_code(&one, 0);

    folder.write("after.jsonl", &format!("rubbish\n{}", folder.read("after.jsonl")));
    let output = folder.run(&["diff", "before.jsonl", "after.jsonl"]);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("after.jsonl: line 1: "), "{}", stderr(&output));
    assert!(stdout(&output).contains("only in B"), "{}", stdout(&output));
}
