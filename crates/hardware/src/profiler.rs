//! The profiler, Nsight Compute's `ncu`, as a child process.
//!
//! The program profiled is our own worker (see [`crate::worker`]). Each launch
//! to be counted has an entry name of its own, so a row of the profiler's table
//! belongs to the launch of that name and to no other; helper kernels have
//! other names and are not profiled.

pub mod csv;
pub mod find;
pub mod session;

use crate::job::{Cache, MEASURED_PREFIX};
use csv::{NumberFormat, Table};
use record::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A profiler that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiler {
    /// The program.
    pub path: PathBuf,
    /// Its version, `2025.3.1.0`; empty where it does not say.
    pub version: String,
}

/// Why there are no counters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// There is no `ncu`.
    #[error(
        "no counters: the profiler `ncu` (NVIDIA Nsight Compute) was not found; looked at {looked}; \
         install it, put it on PATH, or name it with {}",
        find::PROFILER_VARIABLE
    )]
    NotInstalled {
        /// Where it was looked for.
        looked: String,
    },
    /// The driver keeps counters from this user.
    #[error(
        "no counters: this user may not read them (ERR_NVGPUCTRPERM); run as root or with \
         CAP_SYS_ADMIN, in a container with --cap-add=SYS_ADMIN, or let an administrator set \
         `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d/ and reload the \
         driver; https://developer.nvidia.com/ERR_NVGPUCTRPERM"
    )]
    NotPermitted,
    /// The chip does not know some metrics.
    #[error("the profiler does not know on this chip: {}", .0.join(", "))]
    UnknownMetrics(Vec<String>),
    /// Another profiler holds the counters.
    #[error(
        "no counters: the profiler says that they are in use ({0}); stop other profilers and DCGM's \
         profiling (dcgmi profpause), and try again"
    )]
    Busy(String),
    /// Anything else.
    #[error("no counters: the profiler failed: {0}")]
    Failed(String),
}

/// The counters of one launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Entry name of the kernel.
    pub kernel: String,
    /// Values by metric name.
    pub values: BTreeMap<String, Value>,
    /// How often the kernel was replayed, where the profiler said so.
    pub passes: Option<u32>,
}

/// The command before the worker's own.
pub fn command(profiler: &Profiler, metrics: &[String], cache: Cache, log: &Path) -> Vec<OsString> {
    let cache_control = match cache {
        Cache::Cold => "all",
        Cache::Warm => "none",
    };
    let mut command: Vec<OsString> = vec![profiler.path.clone().into()];
    command.extend(
        [
            "--csv",
            "--page",
            "raw",
            "--print-units",
            "base",
            "--clock-control",
            "none",
            "--cache-control",
            cache_control,
            "--target-processes",
            "application-only",
            "--kernel-name-base",
            "function",
            "--kernel-name",
        ]
        .map(OsString::from),
    );
    command.push(format!("regex:^{MEASURED_PREFIX}[0-9]+$").into());
    command.push("--metrics".into());
    command.push(metrics.join(",").into());
    command.push("--log-file".into());
    command.push(log.into());
    command
}

/// Environment for the profiler: numbers without a locale's separators. What
/// comes is read in any locale nevertheless.
pub fn environment() -> Vec<(OsString, OsString)> {
    vec![("LC_ALL".into(), "C".into())]
}

/// Reads the profiler's output.
///
/// # Errors
/// [`Trouble`], where its messages tell of any that leaves nothing counted, or
/// of metrics that it does not know.
pub fn read(output: &str, metrics: &[String]) -> Result<Vec<Counted>, Trouble> {
    let table = csv::parse(output);
    if let Some(trouble) = trouble(&table.messages, metrics)
        && (table.rows.is_empty() || matches!(trouble, Trouble::UnknownMetrics(_)))
    {
        return Err(trouble);
    }
    let Some(kernel) = table.column("Kernel Name") else {
        return if table.columns.is_empty() {
            Ok(Vec::new())
        } else {
            Err(Trouble::Failed("its table has no column `Kernel Name`".into()))
        };
    };
    let passes = passes(&table.messages);
    let wanted: Vec<(usize, &String)> =
        metrics.iter().filter_map(|name| Some((table.column(name)?, name))).collect();
    let format = NumberFormat::detect(
        table.rows.iter().flat_map(|row| wanted.iter().map(|&(column, _)| row[column].as_str())),
    );
    Ok(table
        .rows
        .iter()
        .map(|row| Counted {
            kernel: row[kernel].clone(),
            values: wanted
                .iter()
                .map(|&(column, name)| (name.clone(), value(format, &row[column], name)))
                .collect(),
            passes: passes.get(&row[kernel]).copied(),
        })
        .collect())
}

/// Whether a metric counts: its roll-up is a sum, or it has none.
fn is_whole(metric: &str) -> bool {
    metric.rsplit_once('.').is_none_or(|(_, roll_up)| matches!(roll_up, "sum" | "min" | "max"))
}

fn value(format: NumberFormat, cell: &str, metric: &str) -> Value {
    /// Beyond this a double does not tell whole numbers apart.
    const EXACT: f64 = (1u64 << 53) as f64;
    match format.read(cell, is_whole(metric)) {
        Some(number) if number.fract() == 0.0 && number.abs() <= EXACT => {
            Value::Integer(number as i128)
        }
        Some(number) => Value::Real(number),
        None => Value::Text(cell.to_owned()),
    }
}

/// What the messages say is wrong.
fn trouble(messages: &[String], metrics: &[String]) -> Option<Trouble> {
    let all = messages.join("\n");
    if all.contains("ERR_NVGPUCTRPERM") {
        return Some(Trouble::NotPermitted);
    }
    let complaints: Vec<&String> = messages
        .iter()
        .filter(|message| message.starts_with("ERROR==") || message.starts_with("WARNING=="))
        .collect();
    // A complaint that names a metric is about the metric.
    let unknown: Vec<String> = metrics
        .iter()
        .filter(|metric| {
            let base = metric.split('.').next().unwrap_or(metric);
            complaints
                .iter()
                .any(|message| words(message).any(|word| word == **metric || word == base))
        })
        .cloned()
        .collect();
    if !unknown.is_empty() {
        return Some(Trouble::UnknownMetrics(unknown));
    }
    let errors: Vec<&str> = complaints
        .iter()
        .filter_map(|message| message.strip_prefix("ERROR=="))
        .map(str::trim)
        .collect();
    let said = errors.join(" ");
    if said.contains("resource") && said.contains("unavailable") {
        return Some(Trouble::Busy(said));
    }
    (!errors.is_empty()).then_some(Trouble::Failed(said))
}

/// The words of a message, metric names whole.
fn words(message: &str) -> impl Iterator<Item = &str> {
    message
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.')))
        .map(|word| word.trim_matches('.'))
}

/// Passes by kernel name, from `PROF== Profiling "name" - 0: … - 5 passes`.
fn passes(messages: &[String]) -> BTreeMap<String, u32> {
    messages
        .iter()
        .filter_map(|message| {
            let rest = message.split_once("Profiling \"")?.1;
            let (name, rest) = rest.split_once('"')?;
            let mut last = rest.trim_end().rsplit(' ');
            let word = last.next()?;
            let count = last.next()?.parse().ok()?;
            word.starts_with("pass").then(|| (name.to_owned(), count))
        })
        .collect()
}

/// Messages of the profiler that are errors, for people.
pub fn errors(table: &Table) -> impl Iterator<Item = &str> {
    table.messages.iter().filter_map(|message| message.strip_prefix("ERROR==")).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    const OUTPUT: &str = "\
==PROF== Connected to process 7 (/bin/coalescope)
==PROF== Profiling \"coalescope_r000003\" - 0: 0%....50%....100% - 5 passes
==PROF== Profiling \"coalescope_r000004\" - 1: 0%....50%....100% - 1 pass
==PROF== Disconnected from process 7
\"ID\",\"Kernel Name\",\"a__x.sum\",\"a__y.ratio\"
\"\",\"\",\"sector\",\"\"
\"0\",\"coalescope_r000003\",\"1,234\",\"4\"
\"1\",\"coalescope_r000004\",\"n/a\",\"4.125\"
";

    #[test]
    fn rows_become_counters_by_kernel_name() {
        let counted = read(OUTPUT, &names(&["a__x.sum", "a__y.ratio", "a__z.sum"])).expect("rows");
        assert_eq!(counted[0].kernel, "coalescope_r000003");
        assert_eq!(counted[0].values["a__x.sum"], Value::Integer(1234));
        assert_eq!(counted[0].passes, Some(5));
        assert_eq!(counted[1].values["a__x.sum"], Value::Text("n/a".into()));
        assert_eq!(counted[1].values["a__y.ratio"], Value::Real(4.125));
        assert_eq!(counted[1].passes, Some(1));
        assert!(!counted[0].values.contains_key("a__z.sum"));
    }

    #[test]
    fn troubles_are_told_apart() {
        let metrics = names(&["a__x.sum", "b__nope.sum"]);
        let forbidden = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access \
                         NVIDIA GPU Performance Counters on the target device 0.\n";
        assert_eq!(read(forbidden, &metrics), Err(Trouble::NotPermitted));
        let unknown = "==ERROR== Failed to find metric b__nope.sum\n";
        assert_eq!(read(unknown, &metrics), Err(Trouble::UnknownMetrics(names(&["b__nope.sum"]))));
        let without_roll_up = "==ERROR== Metric 'b__nope' not found.\n";
        assert!(matches!(read(without_roll_up, &metrics), Err(Trouble::UnknownMetrics(_))));
        let busy = "==ERROR== Profiling failed because a driver resource was unavailable. Ensure \
                    that no other tool (like DCGM) is concurrently collecting profiling data.\n";
        assert!(matches!(read(busy, &metrics), Err(Trouble::Busy(_))));
        let other = "==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n";
        let error = read(other, &metrics).expect_err("an error");
        assert!(error.to_string().contains("LibraryNotLoaded"), "{error}");
        assert_eq!(read("==WARNING== No kernels were profiled.\n", &metrics), Ok(Vec::new()));
    }

    #[test]
    fn rows_count_even_where_the_program_failed_later() {
        let output = format!("{OUTPUT}==ERROR== The application returned an error code (1).\n");
        assert_eq!(read(&output, &names(&["a__x.sum"])).map(|rows| rows.len()), Ok(2));
    }

    #[test]
    fn the_command_counts_measured_kernels_alone() {
        let profiler = Profiler { path: "/opt/ncu".into(), version: String::new() };
        let metrics = names(&["a.sum", "b.sum"]);
        let words: Vec<String> = command(&profiler, &metrics, Cache::Warm, Path::new("/x/log"))
            .into_iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let after = |flag: &str| {
            let at = words.iter().position(|word| word == flag).expect(flag);
            words[at + 1].as_str()
        };
        assert_eq!(words[0], "/opt/ncu");
        assert_eq!(after("--metrics"), "a.sum,b.sum");
        assert_eq!(after("--cache-control"), "none");
        assert_eq!(after("--clock-control"), "none");
        assert_eq!(after("--kernel-name"), "regex:^coalescope_r[0-9]+$");
        assert_eq!(after("--log-file"), "/x/log");
    }
}
