//! A mock of the profiler, for tests: takes `ncu`'s arguments, runs the program
//! on the mock driver, and prints a table of what was launched.
//!
//! Metric m of the n-th profiled launch counts `1000 × (n + 1) + length of m`,
//! and 0 in the first launch if its name ends in `writes.sum`. `MOCK_NCU`
//! scripts it, by words:
//!
//! | word | effect |
//! |---|---|
//! | `forbidden` | no permission; the program fails at its first launch |
//! | `unknown=NAME` | that metric is not known; nothing is run |
//! | `lost=KERNEL` | no row for that kernel |
//! | `broken` | fails to start |
//! | `german` | separators of a German locale |
//! | `busy` | the counters are in use |
//!
//! `MOCK_NCU_LOG` names a file to which each run adds its arguments.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--version") {
        println!("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 1)");
        return ExitCode::SUCCESS;
    }
    let script = std::env::var("MOCK_NCU").unwrap_or_default();
    let says = |word: &str| script.split(' ').any(|said| said == word);
    let value_of = |key: &str| script.split(' ').find_map(|said| said.strip_prefix(key));
    if let Ok(path) = std::env::var("MOCK_NCU_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let _ = writeln!(file.expect("a log"), "{}", arguments.join(" "));
    }

    let (mut log, mut metrics, mut prefix) = (None, Vec::new(), String::new());
    let mut rest = arguments.as_slice();
    let command = loop {
        match rest {
            [flag] if flag == "--csv" => break &rest[1..],
            [flag, more @ ..] if flag == "--csv" => rest = more,
            [flag, value, more @ ..] if flag.starts_with("--") => {
                match flag.as_str() {
                    "--log-file" => log = Some(value.clone()),
                    "--metrics" => metrics = value.split(',').map(str::to_owned).collect(),
                    "--kernel-name" => {
                        let pattern = value.strip_prefix("regex:^").expect("anchored");
                        prefix = pattern.trim_end_matches("[0-9]+$").to_owned();
                    }
                    _ => {}
                }
                rest = more;
            }
            command => break command,
        }
    };
    let log = log.expect("a log file");
    let mut out = String::new();
    let finish = |out: &str, code: u8| {
        std::fs::write(&log, out).expect("the log is written");
        ExitCode::from(code)
    };
    if says("broken") {
        return finish("==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n", 1);
    }
    let known: BTreeSet<&str> = metrics.iter().map(String::as_str).collect();
    if let Some(unknown) = value_of("unknown=").filter(|name| known.contains(name)) {
        return finish(&format!("==ERROR== Failed to find metric {unknown}\n"), 1);
    }

    let launches = format!("{log}.launches");
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).env("MOCK_CUDA_LOG", &launches);
    let status = child.status().expect("the program starts");
    out += "==PROF== Connected to process 1 (program)\n";
    if says("forbidden") {
        out += "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU \
                Performance Counters on the target device 0.\n";
        return finish(&out, 1);
    }
    if says("busy") {
        out += "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no \
                other tool (like DCGM) is concurrently collecting profiling data.\n";
        return finish(&out, 1);
    }
    let launched = std::fs::read_to_string(&launches).unwrap_or_default();
    let profiled: Vec<&str> = launched
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| name.starts_with(&prefix))
        .filter(|name| value_of("lost=") != Some(name))
        .collect();
    for (n, name) in profiled.iter().enumerate() {
        out += &format!("==PROF== Profiling \"{name}\" - {n}: 0%....50%....100% - 4 passes\n");
    }
    if profiled.is_empty() {
        out += "==WARNING== No kernels were profiled.\n";
    } else {
        let row = |fields: &mut dyn Iterator<Item = String>| {
            fields.map(|field| format!("\"{field}\"")).collect::<Vec<_>>().join(",") + "\n"
        };
        let own = |list: [&str; 3]| list.map(str::to_owned).into_iter();
        out += &row(&mut own(["ID", "Process ID", "Kernel Name"]).chain(metrics.iter().cloned()));
        out += &row(&mut own(["", "", ""]).chain(metrics.iter().map(|_| "sector".to_owned())));
        for (n, name) in profiled.iter().enumerate() {
            let value = |metric: &String| {
                if n == 0 && metric.ends_with("writes.sum") {
                    return "0".to_owned();
                }
                let (thousands, units) = (n + 1, metric.len());
                let separator = if says("german") { '.' } else { ',' };
                format!("{thousands}{separator}{units:03}")
            };
            out += &row(&mut own([&n.to_string(), "1", name]).chain(metrics.iter().map(value)));
        }
    }
    out += "==PROF== Disconnected from process 1\n";
    finish(&out, if status.success() { 0 } else { 1 })
}
