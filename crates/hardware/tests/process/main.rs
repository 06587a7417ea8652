//! Worker processes against the mock driver library: crashes, hangs, faults,
//! restarts, profiling, resuming.
//!
//! This binary is also the worker: with `--worker FOLDER` it does what
//! `coalescope measure --worker FOLDER` does; and with `--measure FILE` it is a
//! campaign that a test can end.

mod measure;
#[path = "../../../cuda-driver/tests/mock/mod.rs"]
mod mock;
mod warps;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A test's name and what it does.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, folder] = arguments.as_slice()
        && flag == "--worker"
    {
        return coalescope_hardware::worker::main(Path::new(folder)).into();
    }
    if let [flag, output] = arguments.as_slice()
        && flag == "--measure"
    {
        measure::child(Path::new(output));
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let tests: Vec<Test> = [worker::TESTS, warps::TESTS, measure::TESTS].concat();
    let mut failed = Vec::new();
    for (name, test) in &tests {
        if filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let passed = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            failed.push(name);
        }
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The folder for what tests build.
fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}
