//! The contract of the command line: formats, order, exit codes.

mod calibrate;
mod check;
mod compare;
mod diff;
mod lab;
mod sim;
mod suggest;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn coalescope(args: &[&str]) -> Output {
    run(args, "")
}

fn run(args: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_coalescope"))
        .args(args)
        .env("NO_COLOR", "1")
        // Not even a machine with a GPU has this driver.
        .env("COALESCOPE_CUDA_DRIVER", "/nonexistent/libcuda.so")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut pipe = child.stdin.take().expect("stdin is piped");
    let input = stdin.to_owned();
    // From a thread of its own: the command answers while it reads.
    let writer = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    // A command that ends early, on a usage error, closes its end.
    let _ = writer.join().expect("the writer does not panic");
    output
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

fn json_lines(output: &Output) -> Vec<serde_json::Value> {
    stdout(output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn a_device_is_a_profile_by_name_or_file() {
    let unknown = coalescope(&["sim", "strided", "--device", "no-such-device"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("no device profile is called `no-such-device`"));
    let other = coalescope(&["sim", "strided", "--device", "Cargo.toml"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(stderr(&other).contains("can't use the profile Cargo.toml"), "{}", stderr(&other));
    assert_eq!(stdout(&other), "");
}

#[test]
fn every_shipped_scenario_counts() {
    let output = coalescope(&["sim", "scenarios", "--arch", "9.0", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = json_lines(&output);
    let listed = stdout(&coalescope(&["list"]));
    for line in listed.lines() {
        let name = line.split_whitespace().next().expect("a name");
        assert!(records.iter().any(|record| record["scenario"] == name), "{name} has no record");
    }
    for record in &records {
        assert_eq!(record["format"], "coalescope-run/1");
        assert_eq!(record["source"], "predicted");
        for access in record["accesses"].as_array().expect("accesses") {
            assert!(access["requests"].is_u64(), "{access}");
        }
    }
}

#[test]
fn a_name_and_a_file_give_the_same_counts() {
    let by_name = coalescope(&["sim", "strided", "--json"]);
    let by_file = coalescope(&["sim", "scenarios/strided.toml", "--json"]);
    assert_eq!(by_name.status.code(), Some(0), "{}", stderr(&by_name));
    similar_asserts::assert_eq!(stdout(&by_name), stdout(&by_file));
}

#[test]
fn set_fixes_a_swept_parameter() {
    let output = coalescope(&["sim", "strided", "--set", "stride=4", "--json"]);
    let records = json_lines(&output);
    assert!(!records.is_empty());
    assert!(records.iter().all(|record| record["params"]["stride"] == 4), "{}", stdout(&output));
}

#[test]
fn one_bad_scenario_does_not_void_the_others() {
    let output = coalescope(&["sim", "no-such-scenario", "contiguous", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!json_lines(&output).is_empty());
    assert!(stderr(&output).contains("no-such-scenario"), "{}", stderr(&output));
    assert!(stderr(&output).contains("help"), "{}", stderr(&output));
}

#[test]
fn an_unknown_override_names_those_that_exist() {
    let output = coalescope(&["sim", "strided", "--set", "strde=4"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("stride"), "{}", stderr(&output));
}

#[test]
fn json_is_never_mixed_with_prose() {
    let output = coalescope(&["sim", "transpose", "no-such", "--json", "--arch", "1.0,7.0,9.0"]);
    let records = json_lines(&output);
    assert!(records.len() >= 9);
    assert!(records.iter().all(serde_json::Value::is_object));
}

#[test]
fn warp_keeps_its_contract() {
    let addresses: Vec<String> = (0..32).map(|lane| (4096 + 8 * lane).to_string()).collect();
    let good = format!(
        r#"{{"id":"a","op":"ld","width":4,"mask":4294967295,"addresses":[{}]}}"#,
        addresses.join(",")
    );
    let input = format!("{good}\nnot json\n{}\n", good.replace("\"a\"", "{\"nested\":[1]}"));
    let output = run(&["warp", "--arch", "9.0"], &input);
    assert_eq!(output.status.code(), Some(2));
    let lines = json_lines(&output);
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["id"], "a");
    let fields: Vec<&str> =
        lines[0].as_object().expect("an object").keys().map(String::as_str).collect();
    for field in [
        "requests",
        "sectors",
        "tags",
        "tag_wavefronts",
        "data_wavefronts",
        "bank_conflicts",
        "l2_sectors",
        "unique_sectors",
        "requested_bytes",
        "unique_bytes",
        "moved_bytes",
        "exact",
    ] {
        assert!(fields.contains(&field), "{field} is missing in {}", lines[0]);
    }
    assert_eq!(lines[0]["sectors"], 8);
    assert_eq!(lines[0]["moved_bytes"], 256);
    assert!(lines[1]["error"].is_string());
    assert_eq!(lines[2]["id"], serde_json::json!({"nested": [1]}));
    assert_eq!(lines[2]["sectors"], 8);
}

/// A line's own architecture counts before `--arch`, and an unknown one is the
/// fault of its line alone.
#[test]
fn warp_counts_a_line_by_its_architecture() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let wide = folder.path().join("wide.toml");
    std::fs::write(
        &wide,
        "archs = [\"wide\"]\nname = \"Wide\"\nevidence = \"hypothesis\"\nnote = \"\"\nwidths = [4]\n\
         [request]\nlanes = 32\n[cache]\nline_bytes = 256\nsector_bytes = 64\n",
    )
    .expect("writable");
    let addresses: Vec<u64> = (0..32).map(|lane| 8 * lane).collect();
    let line = |arch: &str| format!(r#"{{"op":"ld","width":4{arch},"addresses":{addresses:?}}}"#);
    let input = [
        line(""),
        line(r#","arch":"9.0""#),
        line(r#","arch":"nonsense""#),
        line(r#","arch":"1.0""#),
        line(r#","arch":"wide""#),
    ]
    .join("\n");
    let answers = |arch: &[&str]| -> Vec<Option<u64>> {
        let output = run(&[&["warp"], arch].concat(), &input);
        assert_eq!(output.status.code(), Some(2));
        let lines = json_lines(&output);
        let error = lines[2]["error"].as_str().expect("an error");
        assert!(error.starts_with("line 3: unknown arch \"nonsense\"; known: 1.0, "), "{error}");
        assert_eq!(lines[3]["transactions"].as_array().map(Vec::len), Some(32), "{}", lines[3]);
        lines.iter().map(|line| line["sectors"].as_u64()).collect()
    };
    // Without --arch as on Hopper; `wide` is known where its file is given.
    assert_eq!(answers(&[]), [Some(8), Some(8), None, None, None]);
    let wide = wide.to_str().expect("UTF-8");
    assert_eq!(answers(&["--arch", wide]), [Some(4), Some(8), None, None, Some(4)]);
}

#[test]
fn warp_of_good_lines_ends_with_0_and_keeps_their_order() {
    let line = |id: u64| {
        let addresses: Vec<String> = (0..32).map(|lane| (id * 4 + 4 * lane).to_string()).collect();
        format!(
            r#"{{"id":{id},"op":"st","width":4,"mask":4294967295,"addresses":[{}]}}"#,
            addresses.join(",")
        )
    };
    let input: Vec<String> = (0..20_000).map(line).collect();
    let output = run(&["warp"], &(input.join("\n") + "\n"));
    assert_eq!(output.status.code(), Some(0));
    let ids: Vec<u64> =
        json_lines(&output).iter().map(|line| line["id"].as_u64().expect("an id")).collect();
    assert_eq!(ids, (0..20_000).collect::<Vec<u64>>());
}

#[test]
fn emit_writes_a_file_whole() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("transpose.cu");
    let target = path.to_str().expect("UTF-8");
    let output = coalescope(&["emit", "transpose", "--variant", "tiled", "--cuda", "-o", target]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(&path).expect("it was written");
    assert!(text.contains("__global__") && text.contains("int main("), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("listable").count(), 1, "no leftovers");
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_a_device_a_device() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (file, link) = (folder.path().join("file.cu"), folder.path().join("link.cu"));
    std::fs::write(&file, "old").expect("writable");
    std::os::unix::fs::symlink("file.cu", &link).expect("links work");
    let emit = |target: &str| {
        coalescope(&["emit", "transpose", "--variant", "tiled", "--cuda", "-o", target])
    };
    let output = emit(link.to_str().expect("UTF-8"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(link.is_symlink());
    assert!(std::fs::read_to_string(&file).expect("readable").contains("__global__"));

    let output = emit("/dev/stdout");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("__global__"));
    assert!(Path::new("/dev/stdout").is_symlink());
}

#[test]
fn what_is_set_twice_is_refused() {
    let output = coalescope(&["sim", "strided", "--set", "stride=4", "--set", "stride=8"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("`stride` is set twice"), "{}", stderr(&output));
}

#[test]
fn the_schema_is_current() {
    let printed = stdout(&coalescope(&["schema"]));
    let kept = std::fs::read_to_string("scenarios/scenario.schema.json").expect("it is kept");
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    similar_asserts::assert_eq!(parse(&printed), parse(&kept));
}

#[test]
fn usage_errors_end_with_2() {
    for args in
        [&["sim"][..], &["sim", "strided", "--arch", "0.1"], &["emit", "strided"], &["nonsense"]]
    {
        assert_eq!(coalescope(args).status.code(), Some(2), "{args:?}");
    }
}

/// The commands that `--help` lists.
fn commands() -> Vec<String> {
    let help = stdout(&coalescope(&["--help"]));
    let list = help.split("Commands:\n").nth(1).expect("a list");
    list.lines()
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_helps_with_examples() {
    let commands = commands();
    for known in ["sim", "check", "diff", "emit"] {
        assert!(commands.iter().any(|command| command == known), "{commands:?}");
    }
    for command in &commands {
        let help = stdout(&coalescope(&[command, "--help"]));
        let example = format!("\n  coalescope {command}");
        assert!(help.contains("Examples:") && help.contains(&example), "{command}: {help}");
    }
}

#[test]
fn completions_and_manual_pages_have_every_command() {
    let page = stdout(&coalescope(&["man"]));
    assert!(page.contains(".TH coalescope"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&coalescope(&["completions", shell]));
        for word in ["check", "min-efficiency", "sarif", "diff", "exit-code"] {
            assert!(script.contains(word), "{shell} completes no {word}");
        }
    }
    for command in commands() {
        assert!(page.contains(&format!("coalescope\\-{command}(1)")), "{command}\n{page}");
        let own = coalescope(&["man", &command]);
        assert_eq!(own.status.code(), Some(0), "{}", stderr(&own));
        assert!(stdout(&own).contains(&format!("coalescope\\-{command}")), "{}", stdout(&own));
    }
    let check = stdout(&coalescope(&["man", "check"]));
    assert!(check.contains("min\\-efficiency") && check.contains("Examples"), "{check}");
    let unknown = coalescope(&["man", "chek"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("did you mean `check`?"), "{}", stderr(&unknown));
}

#[test]
fn colours_are_for_terminals() {
    let commands: [&[&str]; 6] = [
        &["sim", "strided", "--set", "stride=2"],
        &["explain", "strided", "--set", "stride=2"],
        &["check", "strided", "--set", "stride=2"],
        &["diff", "strided:read", "strided:write", "--set", "stride=2"],
        &["sim", "no-such-scenario"],
        &["list"],
    ];
    for args in commands {
        let output = |more: &[&str], no_color: bool| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_coalescope"));
            command.args(args).args(more).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
            if no_color {
                command.env("NO_COLOR", "1");
            }
            let output = command.output().expect("the binary starts");
            stdout(&output) + &stderr(&output)
        };
        let plain = output(&[], false);
        assert!(!plain.contains('\u{1b}'), "{args:?} colours a pipe: {plain:?}");
        assert_eq!(output(&[], true), plain);
        assert_eq!(output(&["--color", "never"], false), plain);
        if args != ["list"] {
            assert!(output(&["--color", "always"], false).contains('\u{1b}'), "{args:?}");
        }
    }
}

#[test]
fn explain_says_why_and_draws() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("stride.svg");
    let target = path.to_str().expect("UTF-8");
    let output =
        coalescope(&["explain", "strided", "--set", "stride=2", "--access", "1", "--svg", target]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("8 sectors") && text.contains("Why: ") && text.contains("Smallest change: "),
        "{text}"
    );
    assert!(std::fs::read_to_string(&path).expect("it was written").starts_with("<svg"));
    let beyond = coalescope(&["explain", "strided", "--block", "4294967295,0,0"]);
    assert_eq!(beyond.status.code(), Some(2));
    assert!(stderr(&beyond).contains("no block"), "{}", stderr(&beyond));
    let nothing = coalescope(&["explain", "strided", "--access", "no such label"]);
    assert_eq!(nothing.status.code(), Some(2));
}

#[test]
fn without_a_driver_measuring_ends_with_3_and_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("records.jsonl");
    let target = path.to_str().expect("UTF-8");
    for args in [&["doctor"][..], &["measure", "contiguous", "-o", target]] {
        let output = coalescope(args);
        assert_eq!(output.status.code(), Some(3), "{args:?}");
        let said = stdout(&output) + &stderr(&output);
        assert!(said.contains("no NVIDIA driver found") && said.contains("/nonexistent"), "{said}");
    }
    assert!(!path.exists(), "nothing was measured, so nothing is written");
    let report = json_lines(&coalescope(&["doctor", "--json"]));
    assert_eq!(report.len(), 1);
    // A scenario that is wrong is told before the GPU is missed.
    let bad = coalescope(&["measure", "no-such-scenario", "-o", target]);
    assert_eq!(bad.status.code(), Some(2), "{}", stderr(&bad));
}

#[test]
fn suggest_writes_a_scenario_that_costs_what_it_says() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("better.toml");
    let target = path.to_str().expect("UTF-8");
    let args = ["suggest", "struct-layout", "--variant", "aos", "--json", "--write", target];
    let output = coalescope(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer = &json_lines(&output)[0];
    let best = &answer["ranked"][0];
    assert_eq!(best["layout"], "`Point` as SoA");
    assert_eq!(answer["best"], std::fs::read_to_string(&path).expect("it was written").as_str());
    let written = &json_lines(&coalescope(&["sim", target, "--json"]))[0];
    assert_eq!(written["totals"]["sectors"], best["totals"]["sectors"]);
    assert_eq!(written["totals"]["requests"], best["totals"]["requests"]);
}

#[test]
fn suggest_says_when_the_present_layout_is_best_and_writes_nothing() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("better.toml");
    let target = path.to_str().expect("UTF-8");
    let output = coalescope(&["suggest", "contiguous", "--write", target]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("The present layout is the best of these."));
    assert!(!path.exists());
    let nowhere = folder.path().join("no/such/folder/better.toml");
    let target = nowhere.to_str().expect("UTF-8");
    let output = coalescope(&["suggest", "struct-layout", "--variant", "aos", "--write", target]);
    assert_eq!(output.status.code(), Some(2), "a file that cannot be written is an error");
}

#[test]
fn suggest_keeps_the_scenario_it_is_about() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("mine.toml");
    let text = r#"
[launch]
grid = [4]
block = [128]
[struct.P]
fields = ["float x", "float y", "float z"]
[buffers]
p = { type = "P", shape = [512] }
[kernel]
code = "p[blockIdx.x * 128 + threadIdx.x].x = 1.0f;"
"#;
    std::fs::write(&path, text).expect("a scenario");
    let target = path.to_str().expect("UTF-8");
    let output = coalescope(&["suggest", target, "--write", target]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("is the scenario itself"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), text);
}

#[test]
fn explain_says_how_many_accesses_there_are() {
    let output = coalescope(&["explain", "contiguous", "--access", "99"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("there is no access 99: the kernel has 2"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn sim_gives_advice_for_poor_accesses_only() {
    let poor = coalescope(&["sim", "strided", "--set", "stride=8"]);
    let text = stdout(&poor);
    assert!(text.contains("→ in[i * stride]") && text.contains("12.5 % → 100 %"), "{text}");
    let good = stdout(&coalescope(&["sim", "contiguous"]));
    assert!(!good.contains("→ "), "{good}");
}

#[test]
fn wavefronts_of_launches_too_large_to_count_are_estimated_with_a_bound() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("columns.toml");
    let text = r#"
title = "Columns of a large pitched array"
[params]
rows = 1048577
cols = 40001
[launch]
grid = ["(rows + 255) / 256", 64]
block = [256]
[buffers]
a = { type = "float", shape = ["rows * cols"] }
[kernel]
code = '''
long long r = (long long)blockIdx.x * blockDim.x + threadIdx.x;
if (r < rows)
    for (long long c = blockIdx.y; c < cols; c += gridDim.y)
        store(a[r * cols + c]);
'''
"#;
    std::fs::write(&path, text).expect("written");
    let target = path.to_str().expect("UTF-8");
    let record = &json_lines(&coalescope(&["sim", target, "--json"]))[0];
    let access = &record["accesses"][0];
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    // What has a period is exact: every lane of every warp has a sector.
    assert_eq!(number(&access["sectors"]), 1_048_577 * 40_001);
    assert_eq!(access["exact"], false);
    let sampled = &access["sampled"];
    assert!(number(&sampled["of"]) > 1 << 30, "{sampled}");
    let bound = number(&sampled["bounds"]["tag_wavefronts"]);
    let (tags, wavefronts) = (number(&access["tags"]), number(&access["tag_wavefronts"]));
    assert!(tags / 4 <= wavefronts + bound && wavefronts <= tags + bound, "{access}");
    assert!(bound * 100 < wavefronts, "within a hundredth");
    let table = stdout(&coalescope(&["sim", target]));
    assert!(table.contains("are estimated from 131072 of") && table.contains("±"), "{table}");
}
