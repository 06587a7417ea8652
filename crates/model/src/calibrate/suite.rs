//! The micro-benchmarks: scenarios that ship with the program.
//!
//! They name a device's own figures by parameters, so that none of them is in
//! the files.

use std::io;
use std::path::{Path, PathBuf};

use scenario::{Diagnostics, Files, Options, RunPlan, Scenario};

use super::Device;

macro_rules! suite {
    ($($name:literal),+ $(,)?) => {
        /// Name and text of each scenario, in the order of measuring.
        pub const SCENARIOS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../calibration/", $name, ".toml")))),+];
    };
}

suite! {
    "ramp", "dispatch", "turnaround", "issue", "issue-chain", "issue-costs", "barrier", "shared-ways", "l1-widths", "l1-tags", "chase",
    "chase-many", "chase-shared", "l1-window", "l2-window", "l2", "dram", "dram-sparse", "in-flight", "atomics",
    "overlap", "overlap-sm", "phases", "loaded-latency", "store-merge",
}

/// Points whose counters tell more than their times: scenario, and what of its
/// sweep is counted.
const COUNTED: &[(&str, &[(&str, u64)])] = &[
    ("dram", &[("length", 8)]),
    ("dram-sparse", &[("stride", 256), ("length", 48)]),
    ("dram-sparse", &[("stride", 256), ("length", 144)]),
    ("store-merge", &[]),
];

/// The suite's scenarios need no other files.
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// A scenario of the suite, sized for a device.
pub struct Benchmark {
    /// The scenario.
    pub scenario: Scenario,
    /// Its points.
    pub plans: Vec<RunPlan>,
}

/// The suite to be timed on a device: parameters called `sms`, `l2_bytes` and
/// `shared_bytes` are set to its multiprocessors, the bytes of its L2 and the
/// most bytes of shared memory that a block can have.
///
/// # Errors
/// A scenario that cannot be sized for the device.
pub fn timed(device: &Device) -> Result<Vec<Benchmark>, Diagnostics> {
    SCENARIOS.iter().map(|(name, text)| sized(device, name, text, &[])).collect()
}

/// What of the suite is counted under a profiler, as well.
///
/// # Errors
/// As [`timed`].
pub fn counted(device: &Device) -> Result<Vec<Benchmark>, Diagnostics> {
    let counted = COUNTED.iter().filter_map(|(name, point)| {
        let (_, text) = SCENARIOS.iter().find(|(other, _)| other == name)?;
        Some((name, text, point))
    });
    counted.map(|(name, text, point)| sized(device, name, text, point)).collect()
}

fn sized(
    device: &Device,
    name: &str,
    text: &str,
    point: &[(&str, u64)],
) -> Result<Benchmark, Diagnostics> {
    let known = [
        ("sms", u64::from(device.multiprocessors)),
        ("l2_bytes", device.l2_bytes),
        ("shared_bytes", device.shared_bytes_per_block),
    ];
    let path = PathBuf::from(format!("calibration/{name}.toml"));
    let scenario = Scenario::from_text(path, text, &NoFiles)?;
    let set: Vec<(String, String)> = known
        .iter()
        .filter(|(param, _)| has_parameter(text, param))
        .chain(point)
        .map(|(param, value)| ((*param).to_owned(), value.to_string()))
        .collect();
    let plans = scenario.runs(&set, Options::default())?;
    Ok(Benchmark { scenario, plans })
}

/// Whether a scenario of the suite has a parameter: its line begins with it.
fn has_parameter(text: &str, name: &str) -> bool {
    text.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(" = ")))
}
