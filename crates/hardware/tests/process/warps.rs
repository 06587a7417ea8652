//! `--warps`: lines counted under the mock profiler.

use crate::worker::command;
use crate::{Test, mock, scratch};
use coalescope_hardware::Error;
use coalescope_hardware::job::Cache;
use coalescope_hardware::warps::counters::CounterSet;
use coalescope_hardware::warps::file::{Options, Summary, run};
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) const TESTS: &[Test] = &[
    ("lines_are_counted_class_by_class", lines_are_counted_class_by_class),
    ("a_line_for_another_device_is_refused", a_line_for_another_device_is_refused),
    ("a_cut_file_is_continued", a_cut_file_is_continued),
    ("a_lost_row_costs_its_own_line", a_lost_row_costs_its_own_line),
    ("a_faulting_line_costs_itself", a_faulting_line_costs_itself),
    ("an_unknown_metric_is_left_out", an_unknown_metric_is_left_out),
    ("troubles_of_the_profiler_are_told", troubles_of_the_profiler_are_told),
    ("a_german_table_is_read", a_german_table_is_read),
    ("time_that_is_up_leaves_lines", time_that_is_up_leaves_lines),
];

pub(crate) fn profiler() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mock/ncu.rs");
    mock::build(&source, "bin", &scratch())
}

fn line(id: &str, op: &str, base: u64, more: &str) -> String {
    let addresses: Vec<u64> = (0..32).map(|lane| base + 4 * lane).collect();
    format!(r#"{{"id":{id},"op":"{op}","width":4,"mask":7{more},"addresses":{addresses:?}}}"#)
}

fn input() -> String {
    let mut shared: Vec<u64> = (0..32).map(|lane| 16 * lane).collect();
    shared[31] = 0;
    [
        line("\"a\"", "ld", 0x7f00_0000_0000, ",\"family\":\"contiguous\""),
        line("2", "lds", 128, ""),
        String::new(),
        line("3", "ld.cg", 0x7f00_4000_0000, ""),
        line("4", "ld", 0x7f00_0000_0001, ""),
        line("5", "red", 0, ",\"type\":\"f32\""),
        line("6", "cp.async", 0x7f00_0000_0100, &format!(",\"shared_addresses\":{shared:?}")),
        line("7", "red", 64, ",\"atomic\":\"exch\""),
    ]
    .join("\n")
}

fn options(name: &str, variables: &[(&str, &str)]) -> Options {
    let output = scratch().join(format!("warps-{name}.jsonl"));
    let _ = std::fs::remove_file(&output);
    Options {
        input: input(),
        output,
        resume: false,
        gpu: 0,
        counters: CounterSet::Full,
        cache: Cache::Cold,
        chunk: 100,
        limit_s: 1.0,
        budget: None,
        profiler: Some(profiler()),
        worker: command(variables),
    }
}

fn answers(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("output");
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    lines.sort_by_key(|line| line["line"].as_u64());
    lines
}

fn counted(options: &Options) -> Summary {
    run(options, |_, _| ()).expect("counted")
}

fn lines_are_counted_class_by_class() {
    let log = scratch().join("warps-ncu.log");
    let _ = std::fs::remove_file(&log);
    let options = options("all", &[("MOCK_NCU_LOG", log.to_str().expect("text"))]);
    let mut progress = Vec::new();
    let summary = run(&options, |done, all| progress.push((done, all))).expect("counted");
    assert_eq!((summary.lines, summary.counted, summary.errors), (7, 5, 2));
    assert_eq!(summary.moved, 1, "the reduction at 0 cannot be where it was");
    assert_eq!(progress.last(), Some(&(7, 7)));

    let lines = answers(&options.output);
    assert_eq!(lines.len(), 7);
    let first = &lines[0];
    assert_eq!((&first["id"], &first["family"]), (&"a".into(), &"contiguous".into()));
    assert_eq!(first["addresses"][1], 0x7f00_0000_0004_u64);
    assert!(first.get("moved").is_none() && first["passes"] == 4);
    // The baseline is the first launch, so the first line is the second.
    let metric = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum";
    assert_eq!(first["counters"]["requests"], 2000 + metric.len() as u64);
    assert_eq!(first["baseline"]["requests"], 1000 + metric.len() as u64);
    assert!(first["baseline"].get("data_bank_writes").is_none(), "what is 0 is left out");
    // Line 4 of the file is the second of its class.
    assert_eq!(lines[2]["line"], 4);
    assert_eq!(lines[2]["counters"]["requests"], 3000 + metric.len() as u64);
    // Shared memory has its own counters; offsets stay.
    assert!(lines[1]["counters"]["shared_wavefronts"].is_u64());
    assert!(lines[1]["counters"].get("requests").is_none());
    assert_eq!(lines[1]["addresses"][0], 128);
    // Bad lines are answered in their place.
    assert!(lines[3]["error"].as_str().expect("an error").contains("multiple of the width"));
    assert!(lines[6]["error"].as_str().expect("an error").contains("PTX has no red.exch"));
    // The moved reduction keeps its low bits and its distances.
    let at = |lane: usize| lines[4]["addresses"][lane].as_u64().expect("an address");
    assert!(lines[4]["moved"] == true && at(0) % (2 << 20) == 0 && at(2) - at(0) == 8);

    let commands = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(commands.lines().count(), 4, "one profiler process for each class: {commands}");
    assert!(commands.lines().all(|command| command.contains("--cache-control all")));

    let about = options.output.with_extension("jsonl.about.json");
    let about: Value =
        serde_json::from_str(&std::fs::read_to_string(about).expect("read")).expect("JSON");
    assert_eq!(about["tools"]["ncu"], "2025.3.1.0");
    assert_eq!(about["device"]["name"], "Mock GPU 0");
}

/// What the device counts are its own lines: it can't count by another's rules.
fn a_line_for_another_device_is_refused() {
    let mut options = options("arch", &[]);
    options.input = [
        line("1", "ld", 0x7f00_0000_0000, ",\"arch\":\"9.0\""),
        line("2", "ld", 0x7f00_0000_0000, ",\"arch\":\"7.0\""),
        line("3", "ld", 0x7f00_0000_0000, ""),
    ]
    .join("\n");
    let summary = counted(&options);
    assert_eq!((summary.counted, summary.errors), (2, 1));
    let error = answers(&options.output)[1]["error"].to_string();
    assert!(
        error.contains("arch is for Volta and Turing, and the device is Hopper; leave arch out"),
        "{error}"
    );
}

fn a_cut_file_is_continued() {
    let mut options = options("cut", &[]);
    counted(&options);
    let whole = std::fs::read_to_string(&options.output).expect("output");
    let expected = answers(&options.output);
    options.resume = true;
    for cut in [0, 10, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&options.output, &whole.as_bytes()[..cut]).expect("cut");
        let kept = whole[..cut].matches('\n').count();
        let summary = counted(&options);
        assert_eq!(summary.done_before, kept);
        let lines = answers(&options.output);
        assert_eq!(lines.len(), 7, "cut at {cut}");
        for (line, expected) in lines.iter().zip(&expected) {
            assert_eq!((&line["line"], &line["id"]), (&expected["line"], &expected["id"]));
            assert_eq!(line["addresses"].is_array(), expected["addresses"].is_array());
        }
    }
    options.resume = false;
    let error = run(&options, |_, _| ()).expect_err("it is there already");
    assert!(error.to_string().contains("--resume"), "{error}");
}

fn a_lost_row_costs_its_own_line() {
    // The second launch of each process: the first line of each class.
    let options = options("lost", &[("MOCK_NCU", "lost=coalescope_r000001")]);
    let summary = counted(&options);
    assert_eq!((summary.counted, summary.errors), (1, 6));
    let lines = answers(&options.output);
    assert!(lines[0]["error"].as_str().expect("an error").contains("no row"), "{}", lines[0]);
    assert!(lines[2]["counters"].is_object(), "the other load was counted");
}

fn a_faulting_line_costs_itself() {
    let options = options("fault", &[("MOCK_CUDA_FAULT", "coalescope_r000002")]);
    let summary = counted(&options);
    let lines = answers(&options.output);
    assert!(
        lines[2]["error"].as_str().expect("an error").contains("ILLEGAL_ADDRESS"),
        "{}",
        lines[2]
    );
    assert!(lines[0]["counters"].is_object(), "{}", lines[0]);
    assert_eq!(summary.errors, 3);
}

fn an_unknown_metric_is_left_out() {
    let options = options("unknown", &[("MOCK_NCU", "unknown=l1tex__data_bank_reads.sum")]);
    let summary = counted(&options);
    assert_eq!(summary.counted, 5);
    let unknown: Vec<&String> = summary.unknown_counters.iter().collect();
    assert_eq!(unknown, ["l1tex__data_bank_reads.sum"]);
    let lines = answers(&options.output);
    assert!(lines[0]["counters"].get("data_bank_reads").is_none());
    assert!(lines[0]["counters"]["data_bank_writes"].is_u64());
}

fn troubles_of_the_profiler_are_told() {
    let trouble = |script: &str| {
        let options = options("trouble", &[("MOCK_NCU", script)]);
        run(&options, |_, _| ()).expect_err(script).to_string()
    };
    assert!(trouble("forbidden").contains("NVreg_RestrictProfilingToAdminUsers=0"));
    assert!(trouble("busy").contains("in use"));
    assert!(trouble("broken").contains("LibraryNotLoaded"));
    let mut without = options("none", &[]);
    without.profiler = Some("/nonexistent/ncu".into());
    let error = run(&without, |_, _| ()).expect_err("no profiler");
    assert!(matches!(error, Error::Profiler(_)), "{error}");
    assert!(error.to_string().contains("COALESCOPE_NCU"), "{error}");
}

fn a_german_table_is_read() {
    let options = options("german", &[("MOCK_NCU", "german")]);
    counted(&options);
    let metric = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum";
    let lines = answers(&options.output);
    assert_eq!(lines[0]["counters"]["requests"], 2000 + metric.len() as u64);
}

fn time_that_is_up_leaves_lines() {
    let mut options = options("budget", &[]);
    options.budget = Some(std::time::Duration::ZERO);
    let summary = counted(&options);
    assert_eq!((summary.counted, summary.left), (0, 6));
    options.budget = None;
    options.resume = true;
    assert_eq!(counted(&options).counted, 5);
}
