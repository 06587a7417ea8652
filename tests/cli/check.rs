//! `coalescope check`: thresholds, waivers, baselines, SARIF.

use super::{coalescope, stderr, stdout};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A scenario of one load, in line 11, labelled `load`.
pub(super) fn scenario(index: &str, more: &str) -> String {
    format!(
        "[params]
n = 65536
[launch]
grid = [\"n / 256\"]
block = [256]
[buffers]
in = {{ type = \"float\", shape = [\"8 * n\"] }}
[kernel]
code = '''
int i = blockIdx.x * blockDim.x + threadIdx.x;
load(in[{index}]);  // @label load
'''
{more}"
    )
}

pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().expect("a scratch folder"))
    }

    pub(super) fn with(name: &str, text: &str) -> Self {
        let folder = Self::new();
        folder.write(name, text);
        folder
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("in a folder")).expect("writable");
        std::fs::write(path, text).expect("writable");
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).expect("it was written")
    }

    /// Runs the command in the folder.
    pub(super) fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_coalescope"))
            .args(args)
            .current_dir(self.path())
            .env("NO_COLOR", "1")
            .output()
            .expect("the binary starts")
    }

    /// Stores the runs of `a.toml` as a baseline.
    fn store(&self, args: &[&str]) {
        let output = self.run(&[&["sim", "a.toml", "--json"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        self.write("base.jsonl", &stdout(&output));
    }

    /// Checks `a.toml` against the baseline.
    fn compare(&self) -> Output {
        self.run(&["check", "a.toml", "--baseline", "base.jsonl"])
    }

    /// The SARIF log of checking `a.toml`, valid by its schema.
    fn sarif(&self, args: &[&str]) -> Value {
        let output = self.run(&[&["check", "a.toml", "--sarif", "log.sarif"], args].concat());
        assert!(output.status.code().is_some_and(|code| code < 3), "{}", stderr(&output));
        let log: Value = serde_json::from_str(&self.read("log.sarif")).expect("JSON");
        assert_valid(&log);
        log
    }
}

/// What readers rely on beyond the schema, which `tests/sarif` validates the
/// kept logs by.
fn assert_valid(log: &Value) {
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    for result in results(log) {
        let index = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(run["tool"]["driver"]["rules"][index]["id"], result["ruleId"]);
        let text = result["message"]["text"].as_str().expect("a message");
        assert!(text.contains("\nHelp: ") && text.ends_with('.'), "{text}");
        assert!(result["suppressions"].is_array());
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["artifactLocation"]["uri"].as_str().is_some_and(|uri| !uri.is_empty()));
        assert!(place["region"]["startLine"].as_u64() >= Some(1));
    }
}

pub(super) fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}{}", stdout(output), stderr(output));
}

#[test]
fn says_where_and_by_how_much() {
    let folder = Folder::with("a.toml", &scenario("2 * i", ""));
    let output = folder.run(&["check", "a.toml"]);
    assert_code(&output, 1);
    let expected = "\
error: `load` has a unique efficiency of 50 %, less than 80 %
  --> a.toml:11:6
   |
11 | load(in[2 * i]);  // @label load
   |      ^^^^^^^^^ 8 sectors a request: 256 B moved, 128 B of them used
   |
   = note: the first warp: the lanes lie 8 B apart and take 4 B each: 8 sectors, 128 of 256 B moved are used
   = help: Store every 2nd element of `in` side by side: 2 arrays in place of one (SoA): 50 % → 100 %, 8 → 4 sectors per request. `coalescope explain a.toml --access 1` shows it lane by lane

";
    similar_asserts::assert_eq!(stderr(&output), expected);
    assert_eq!(stdout(&output), "1 finding; 1 access in 1 run judged\n");
}

#[test]
fn thresholds_are_those_asked_for() {
    let folder = Folder::with("a.toml", &scenario("2 * i", ""));
    for (threshold, code) in [("50%", 0), ("50.1 %", 1), ("0%", 0), ("100%", 1)] {
        let output = folder.run(&["check", "a.toml", "--min-efficiency", threshold]);
        assert_code(&output, code);
    }
    // Asking for the other one alone leaves efficiency out.
    assert_code(&folder.run(&["check", "a.toml", "--max-conflicts", "0"]), 0);
    for wrong in ["80", "0.8", "-1%", "101%", "all"] {
        let output = folder.run(&["check", "a.toml", &format!("--min-efficiency={wrong}")]);
        assert_code(&output, 2);
        assert!(stderr(&output).contains("such as 80%"), "{}", stderr(&output));
    }
    assert_code(&folder.run(&["check", "a.toml", "--max-conflicts=-1"]), 2);
}

#[test]
fn what_moves_one_sector_cannot_move_less() {
    // A broadcast, and a warp of which one lane is on.
    for index in ["blockIdx.x", "i / 32 * 32"] {
        let folder = Folder::with("a.toml", &scenario(index, ""));
        assert_code(&folder.run(&["check", "a.toml", "--arch", "5.0,9.0"]), 0);
    }
    // One element off: exactly 80 %.
    let folder = Folder::with("a.toml", &scenario("i + 1", ""));
    assert_code(&folder.run(&["check", "a.toml"]), 0);
}

#[test]
fn bank_conflicts_are_judged_and_found_in_the_cu_file() {
    let output = coalescope(&["check", "transpose", "--variant", "tiled"]);
    assert_code(&output, 1);
    let text = stderr(&output);
    assert!(text.contains("has 31 bank conflicts a request, more than 0"), "{text}");
    assert!(text.contains(" --> kernels/transpose_tiled.cu:34:41"), "{text}");
    assert!(
        text.contains("help: Pad each row of `tile` by 1 element: 32 → 1 wavefronts"),
        "{text}"
    );
    let allowed =
        coalescope(&["check", "transpose", "--variant", "tiled", "--max-conflicts", "31"]);
    assert_code(&allowed, 0);
    assert_code(&coalescope(&["check", "transpose", "--variant", "padded"]), 0);
}

#[test]
fn many_runs_make_one_finding() {
    let folder = Folder::with("a.toml", &scenario("s * i", "[sweep]\ns = [1, 2, 8, 4]\n"));
    folder.write("a.toml", &folder.read("a.toml").replace("[params]", "[params]\ns = 1"));
    let output = folder.run(&["check", "a.toml"]);
    assert_code(&output, 1);
    assert_eq!(stdout(&output), "1 finding; 4 accesses in 4 runs judged\n");
    let text = stderr(&output);
    let runs = "in the run: s = 8; also in: s = 2 (50 %); s = 4 (25 %)";
    assert!(text.contains("of 12.5 %, less than 80 %") && text.contains(runs), "{text}");
}

fn allow(label: &str, limit: &str) -> String {
    format!("[[allow]]\nlabel = \"{label}\"\n{limit}\nreason = \"runs once\"\n")
}

#[test]
fn waivers_let_pass_and_are_named() {
    let waived = allow("load", "min_efficiency = \"40%\"");
    let folder = Folder::with("a.toml", &scenario("2 * i", &waived));
    let output = folder.run(&["check", "a.toml"]);
    assert_code(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("waived in a: `load` has a unique efficiency of 50 %"), "{text}");
    assert!(text.contains("(runs once)\ngood, 1 waived;"), "{text}");
    assert_eq!(stderr(&output), "");

    // Worse than what is waived.
    folder.write("a.toml", &scenario("4 * i", &waived));
    let output = folder.run(&["check", "a.toml"]);
    assert_code(&output, 1);
    assert!(stderr(&output).contains("waived down to 40 % only: runs once"), "{}", stderr(&output));
}

#[test]
fn a_waiver_that_nothing_needs_is_said() {
    let folder = Folder::with("a.toml", &scenario("i", &allow("load", "min_efficiency = \"40%\"")));
    let output = folder.run(&["check", "a.toml"]);
    assert_code(&output, 0);
    let text = stderr(&output);
    assert!(text.starts_with("warning: the waiver for `load` is unused\n"), "{text}");
    assert!(text.contains("a.toml:13:1") && text.contains("no run needs it"), "{text}");
    // Only a part of the runs was judged: another may need it.
    assert_eq!(stderr(&folder.run(&["check", "a.toml", "--set", "n=1024"])), "");
    // Conflicts were not judged.
    folder.write("a.toml", &scenario("i", &allow("load", "max_conflicts = 3")));
    let output = folder.run(&["check", "a.toml", "--min-efficiency", "80%"]);
    assert_eq!(stderr(&output), "");

    folder.write("a.toml", &scenario("i", &allow("laod", "min_efficiency = \"40%\"")));
    let text = stderr(&folder.run(&["check", "a.toml"]));
    assert!(text.contains("no access has that label"), "{text}");
    assert!(text.contains("did you mean `load`?"), "{text}");

    folder.write("a.toml", &scenario("i", "[[allow]]\nlabel = \"load\"\nmax_conflicts = 1\n"));
    let output = folder.run(&["check", "a.toml"]);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("the key `reason` is missing"), "{}", stderr(&output));
}

#[test]
fn a_baseline_holds_what_there_is() {
    let folder = Folder::with("a.toml", &scenario("2 * i", ""));
    folder.store(&[]);
    // Poor, but no worse; better is no finding either.
    assert_code(&folder.compare(), 0);
    folder.write("a.toml", &scenario("i", ""));
    assert_code(&folder.compare(), 0);
    // Thresholds that are asked for are judged beside it.
    folder.write("a.toml", &scenario("2 * i", ""));
    let both = ["check", "a.toml", "--baseline", "base.jsonl", "--min-efficiency", "80%"];
    assert_code(&folder.run(&both), 1);

    folder.write("a.toml", &scenario("3 * i", ""));
    let output = folder.compare();
    assert_code(&output, 1);
    let text = stderr(&output);
    for line in [
        "error: `load` is worse than its baseline: sectors +50 % (8 → 12 a request)",
        " --> a.toml:11:6",
        "note: sectors: 16,384 → 24,576 (+50 %, 8 → 12 a request)",
        "note: tags: 4,096 → 6,144 (+50 %, 2 → 3 a request)",
        "note: unique efficiency: 50 % → 33.3 %",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[test]
fn an_access_is_found_again_after_an_edit() {
    let unlabelled = |text: &str| text.replace("  // @label load", "");
    let folder = Folder::with("a.toml", &unlabelled(&scenario("i", "")));
    folder.store(&[]);
    // Another text in another line.
    folder.write("a.toml", &format!("title = \"moved\"\n{}", unlabelled(&scenario("5 * i", ""))));
    let output = folder.compare();
    assert_code(&output, 1);
    let text = stderr(&output);
    assert!(text.contains("`in[5 * i]` is worse than its baseline"), "{text}");
    assert!(text.contains("compared with `in[i]` of the baseline"), "{text}");
    assert!(text.contains(" --> a.toml:12:6"), "{text}");
}

#[test]
fn new_and_vanished_accesses_are_told() {
    let folder = Folder::with("a.toml", &scenario("i", ""));
    folder.store(&[]);
    let second = |index: &str| {
        scenario("i", "")
            .replace("'''\n", "load(in[i + n]);\n'''\n")
            .replacen("load(in[i + n]);\n", "", 1)
            .replace("i + n", index)
    };
    folder.write("a.toml", &second("i + n"));
    let output = folder.compare();
    assert_code(&output, 0);
    assert!(stderr(&output).contains("warning: `in[i + n]` is not in the baseline"));
    // What is new has to meet the thresholds.
    folder.write("a.toml", &second("3 * i"));
    let output = folder.compare();
    assert_code(&output, 1);
    assert!(stderr(&output).contains("`in[3 * i]` has a unique efficiency of 33.3 %"));

    folder.store(&[]);
    folder.write("a.toml", &scenario("i", ""));
    let output = folder.compare();
    assert_code(&output, 0);
    assert!(
        stderr(&output).contains("warning: `in[3 * i]` of the baseline, line 12 then, is gone"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn another_launch_is_compared_by_the_bytes_asked_for() {
    let folder = Folder::with("a.toml", &scenario("i", ""));
    folder.store(&[]);
    let with_block =
        |index: &str| scenario(index, "").replace("256]", "128]").replace("n / 256", "n / 128");
    folder.write("a.toml", &with_block("i"));
    let output = folder.compare();
    assert_code(&output, 0);
    assert!(
        stderr(&output).contains("the launch has changed from grid 256×1×1, block 256×1×1"),
        "{}",
        stderr(&output)
    );
    folder.write("a.toml", &with_block("2 * i"));
    let output = folder.compare();
    assert_code(&output, 1);
    assert!(stderr(&output).contains("sectors +100 % (4 → 8 a request)"), "{}", stderr(&output));
}

#[test]
fn bad_lines_are_named_and_the_others_used() {
    let folder = Folder::with("a.toml", &scenario("i", ""));
    folder.store(&[]);
    let good = folder.read("base.jsonl");
    folder
        .write("base.jsonl", &format!("not a record\n{good}{{\"format\":\"coalescope-run/9\"}}\n"));
    let output = folder.compare();
    assert_code(&output, 2);
    let text = stderr(&output);
    assert!(
        text.contains("base.jsonl: line 1: ") && text.contains("base.jsonl: line 3: "),
        "{text}"
    );
    // The good line still found what got worse.
    folder.write("a.toml", &scenario("2 * i", ""));
    let output = folder.compare();
    assert_code(&output, 2);
    assert!(stderr(&output).contains("worse than its baseline"), "{}", stderr(&output));

    for text in ["", "\n", "nothing good\n"] {
        folder.write("base.jsonl", text);
        assert_code(&folder.compare(), 2);
    }
    let output = folder.run(&["check", "a.toml", "--baseline", "no-such-file"]);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("cannot read no-such-file"), "{}", stderr(&output));
}

#[test]
fn runs_are_matched_by_variant_parameters_and_architecture() {
    let folder = Folder::with("a.toml", &scenario("i", ""));
    folder.store(&["--arch", "7.0"]);
    let output = folder.compare();
    assert_code(&output, 0);
    assert!(stderr(&output).contains("it has compute capability 7.0 only"), "{}", stderr(&output));

    folder.store(&[]);
    let output = folder.run(&["check", "a.toml", "--baseline", "base.jsonl", "--set", "n=1024"]);
    assert_code(&output, 0);
    let text = stderr(&output);
    assert!(text.contains("it has other parameters: n = 65536, not 1024"), "{text}");

    // A parameter more does not hide the run.
    folder.write("a.toml", &scenario("2 * i", "").replace("[params]", "[params]\npad = 0"));
    let output = folder.compare();
    assert_code(&output, 1);
    assert!(stderr(&output).contains("the stored run had no parameter pad"), "{}", stderr(&output));

    folder.write("b.toml", &scenario("i", ""));
    let output = folder.run(&["check", "b.toml", "--baseline", "base.jsonl"]);
    assert_code(&output, 0);
    assert!(stderr(&output).contains("it has no scenario `b`"), "{}", stderr(&output));
}

#[test]
fn a_waiver_covers_the_baseline_too() {
    let waived = allow("load", "min_efficiency = \"40%\"");
    let folder = Folder::with("a.toml", &scenario("i", &waived));
    folder.store(&[]);
    folder.write("a.toml", &scenario("2 * i", &waived));
    let output = folder.compare();
    assert_code(&output, 0);
    assert!(stdout(&output).contains("waived in a: `load` is worse"), "{}", stdout(&output));
    folder.write("a.toml", &scenario("4 * i", &waived));
    assert_code(&folder.compare(), 1);
}

fn results(log: &Value) -> &Vec<Value> {
    log["runs"][0]["results"].as_array().expect("results")
}

#[test]
fn sarif_is_valid_and_points_at_the_line() {
    let folder = Folder::with("a.toml", &scenario("2 * i", ""));
    let log = folder.sarif(&[]);
    let [result] = results(&log).as_slice() else { panic!("{log:#}") };
    assert_eq!(result["ruleId"], "global-efficiency");
    let index = result["ruleIndex"].as_u64().expect("an index") as usize;
    let rule = &log["runs"][0]["tool"]["driver"]["rules"][index];
    assert_eq!(rule["id"], "global-efficiency");
    assert!(rule["help"]["text"].as_str().is_some_and(|text| text.contains("threadIdx.x")));
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "a.toml");
    assert_eq!(place["artifactLocation"]["uriBaseId"], "%SRCROOT%");
    assert_eq!(
        place["region"],
        serde_json::json!({
            "startLine": 11, "startColumn": 6, "endLine": 11, "endColumn": 15,
            "snippet": { "text": "in[2 * i]" },
        })
    );
    assert_eq!(log["runs"][0]["invocations"][0]["exitCode"], 1);
    assert_eq!(result["suppressions"], serde_json::json!([]));
}

#[test]
fn fingerprints_outlive_edits() {
    let folder = Folder::with("a.toml", &scenario("2 * i", ""));
    let fingerprint = |log: &Value| results(log)[0]["partialFingerprints"].clone();
    let before = fingerprint(&folder.sarif(&[]));
    folder.write("a.toml", &format!("title = \"one line more\"\n{}", scenario("4 * i", "")));
    let log = folder.sarif(&[]);
    assert_eq!(fingerprint(&log), before);
    let region = &results(&log)[0]["locations"][0]["physicalLocation"]["region"];
    assert_eq!(region["startLine"], 12);
}

#[test]
fn sarif_has_waived_findings_suppressed() {
    let waivers = allow("load", "min_efficiency = \"40%\"") + &allow("none", "max_conflicts = 1");
    let folder = Folder::with("a.toml", &scenario("2 * i", &waivers));
    let log = folder.sarif(&[]);
    let of = |rule: &str| {
        results(&log).iter().find(|result| result["ruleId"] == rule).expect("such a result")
    };
    let suppression = &of("global-efficiency")["suppressions"][0];
    assert_eq!(suppression["kind"], "inSource");
    assert_eq!(suppression["justification"], "runs once");
    assert_eq!(suppression["location"]["physicalLocation"]["region"]["startLine"], 13);
    assert_eq!(of("unused-waiver")["level"], "warning");
    assert_eq!(log["runs"][0]["invocations"][0]["exitCode"], 0);
}

/// Compares with a kept log, which `tests/sarif` validates by the schema.
fn assert_kept(name: &str, log: &Value) {
    const BLESS: &str = "COALESCOPE_BLESS";
    let path = format!("tests/sarif/logs/{name}");
    let mut log = log.clone();
    // A release does not change the logs.
    let driver = &mut log["runs"][0]["tool"]["driver"];
    driver["version"] = "0.0.0".into();
    driver["semanticVersion"] = "0.0.0".into();
    let text = serde_json::to_string_pretty(&log).expect("JSON") + "\n";
    if std::env::var_os(BLESS).is_some_and(|value| value == "1") {
        std::fs::write(&path, &text).expect("writable");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    similar_asserts::assert_eq!(
        text,
        kept,
        "{path} differs: set {BLESS}=1 to accept it, then validate it (tests/sarif/README.md)"
    );
}

/// In a pipe to a reader that goes away, as `head` does.
#[test]
fn a_closed_pipe_makes_no_failing_check_good() {
    let folder = Folder::with("a.toml", &scenario("2 * i", ""));
    for _ in 0..5 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_coalescope"))
            .args(["check", "a.toml", "--sarif", "log.sarif"])
            .current_dir(folder.path())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the binary starts");
        drop(child.stdout.take());
        let status = child.wait().expect("it ends");
        assert!(matches!(status.code(), Some(1 | 141)), "{status}");
        assert!(folder.read("log.sarif").contains("global-efficiency"));
    }
}

#[test]
fn sarif_logs_are_those_kept() {
    let folder = Folder::with("a.toml", &scenario("i", ""));
    folder.store(&[]);
    // Worse, a run and an access that the baseline does not have, a waiver that
    // nothing needs, and one that is needed.
    let waivers = allow("none", "max_conflicts = 1") + &allow("sparse", "min_efficiency = \"10%\"");
    let kernel = scenario("2 * i", &waivers).replace(
        "// @label load",
        "// @label load\nload(in[3 * i]);\nload(in[4 * i]); // @label sparse",
    );
    folder.write("a.toml", &kernel);
    let log = folder.sarif(&["--baseline", "base.jsonl", "--arch", "9.0,2.0"]);
    let mut rules: Vec<&str> =
        results(&log).iter().filter_map(|result| result["ruleId"].as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    let all = ["global-efficiency", "outdated-baseline", "unused-waiver", "worse-than-baseline"];
    assert_eq!(rules, all);
    assert_kept("findings.sarif", &log);

    folder.write("a.toml", &scenario("i", ""));
    let log = folder.sarif(&[]);
    assert!(results(&log).is_empty());
    assert_kept("good.sarif", &log);

    folder.write("a.toml", "launch = 1");
    let log = folder.sarif(&[]);
    assert_eq!(log["runs"][0]["invocations"][0]["executionSuccessful"], false);
    assert_kept("bad-input.sarif", &log);

    let output = coalescope(&["check", "transpose", "--variant", "tiled", "--sarif", "-"]);
    assert_code(&output, 1);
    let log: Value = serde_json::from_str(&stdout(&output)).expect("JSON and nothing else");
    assert_valid(&log);
    assert_kept("bank-conflicts.sarif", &log);
}

#[test]
fn sarif_of_a_kernel_file_points_into_it() {
    let folder = Folder::new();
    let kernel =
        "// größe 宽\n__global__ void k(float *in) {\n    /* ö */ in[3 * threadIdx.x] = 1.0f;\n}\n";
    folder.write("größe kernel.cu", kernel);
    folder.write(
        "a.toml",
        "[launch]\ngrid = [1]\nblock = [32]\n[buffers]\nin = { type = \"float\", shape = [96] }\n[kernel]\nfile = \"größe kernel.cu\"\nentry = \"k\"\n",
    );
    let log = folder.sarif(&[]);
    let place = &results(&log)[0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "gr%C3%B6%C3%9Fe%20kernel.cu");
    assert_eq!(place["region"]["startLine"], 3);
    assert_eq!(place["region"]["startColumn"], 13);
    assert_eq!(place["region"]["snippet"]["text"], "in[3 * threadIdx.x]");
}

/// The lines of the code blocks of `language` in a document.
fn code_blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    text.split(&fence)
        .skip(1)
        .map(|rest| rest.split("```").next().expect("a first part").to_owned())
        .collect()
}

#[test]
#[cfg(unix)]
fn the_ci_document_works_as_it_stands() {
    let document = std::fs::read_to_string("docs/ci.md").expect("it is there");
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("scenarios")).expect("writable");
    folder.write("scenarios/particles.toml", &scenario("i", ""));
    let binary = Path::new(env!("CARGO_BIN_EXE_coalescope"));
    let path = std::env::var("PATH").expect("a PATH");
    let path = format!("{}:{path}", binary.parent().expect("a folder").display());
    let shell = |script: &str| {
        Command::new("sh")
            .args(["-euc", script])
            .current_dir(folder.path())
            .env("PATH", &path)
            .output()
            .expect("a shell")
    };
    let scripts = code_blocks(&document, "sh");
    assert_eq!(scripts.len(), 4);
    for script in &scripts {
        assert_code(&shell(script), 0);
    }
    // What the workflow runs is what was run here.
    let workflow = code_blocks(&document, "yaml").concat();
    let steps: Vec<&str> = workflow
        .lines()
        .filter_map(|line| line.split_once("- run: coalescope "))
        .map(|s| s.1)
        .collect();
    assert_eq!(steps.len(), 1);
    for step in steps {
        assert!(scripts.iter().any(|script| *script == format!("coalescope {step}\n")), "{step}");
        let file = step.split_whitespace().last().expect("the log");
        assert!(workflow.contains(&format!("sarif_file: {file}")));
        assert_valid(&serde_json::from_str(&folder.read(file)).expect("JSON"));
    }
    // And it fails where it should.
    folder.write("scenarios/particles.toml", &scenario("3 * i", ""));
    for script in &scripts[2..] {
        assert_code(&shell(script), 1);
    }
}

/// Two files of one name are one run in a baseline: that is no comparison.
#[test]
fn files_of_one_name_are_not_compared_with_one_baseline() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let scenario = |name: &str, index: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).expect("created");
        let text = format!(
            "title = \"T\"\n[params]\nn = 1024\n[launch]\ngrid = [4]\nblock = [256]\n[buffers]\n\
             x = {{ type = \"float\", shape = [\"n * 4\"] }}\n[kernel]\ncode = '''\n\
             int i = blockIdx.x * blockDim.x + threadIdx.x;\nload(x[{index}]);\n'''\n"
        );
        std::fs::write(path.join("k.toml"), text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (good, bad) = (scenario("good", "i"), scenario("bad", "i * 4"));
    let stored = coalescope(&["sim", &good, &bad, "--json"]);
    let baseline = folder.path().join("baseline.jsonl");
    std::fs::write(&baseline, &stored.stdout).expect("written");
    let baseline = baseline.to_str().expect("UTF-8");
    let output = coalescope(&["check", &good, &bad, "--baseline", baseline]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("two different runs k") && said.contains("are named `k`"), "{said}");
    assert!(stdout(&output).contains("not everything could be judged"), "{}", stdout(&output));
}

/// An edit and a new access in one line: the edited one is found by its buffer.
#[test]
fn an_edited_access_beside_a_new_one_is_still_compared() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("k.toml");
    let write = |body: &str| {
        let text = format!(
            "title = \"T\"\n[params]\nn = 1024\n[launch]\ngrid = [4]\nblock = [256]\n[buffers]\n\
             x = {{ type = \"float\", shape = [\"n * 4\"] }}\ny = {{ type = \"float\", shape = [\"n\"] }}\n\
             out = {{ type = \"float\", shape = [\"n\"] }}\n[kernel]\ncode = '''\n\
             int i = blockIdx.x * blockDim.x + threadIdx.x;\n{body}\n'''\n"
        );
        std::fs::write(&path, text).expect("written");
    };
    let target = path.to_str().expect("UTF-8");
    write("out[i] = x[i];");
    let stored = coalescope(&["sim", target, "--json"]);
    let baseline = folder.path().join("baseline.jsonl");
    std::fs::write(&baseline, &stored.stdout).expect("written");
    write("out[i] = y[i] * x[i * 4];");
    let baseline = baseline.to_str().expect("UTF-8");
    let output = coalescope(&["check", target, "--baseline", baseline, "--min-efficiency", "10%"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("`x[i * 4]` is worse than its baseline"),
        "{}",
        stderr(&output)
    );
}
