//! `measure --warps FILE`: every line of a file of `warp` lines, counted on the
//! device.
//!
//! Each good line gives one line of output: the fields of the input line, with
//! `addresses` as they really were, and
//!
//! | field | value |
//! |---|---|
//! | `line` | number of the input line, from 1 |
//! | `counters` | object: our names (see [`super::counters`]) and what the profiler counted, nothing subtracted |
//! | `baseline` | the counters that are not 0 for the same kernel with all lanes off: what every kernel shows |
//! | `moved` | true where the wanted addresses could not be had ([`super::placement`]); absent otherwise |
//! | `passes` | how often the profiler replayed the kernel |
//! | `error` | in place of the others: why there are no counters |
//!
//! Lines are counted class by class, several to a profiler process, and are
//! written as each process ends; so their order differs from the input's, and
//! `line` is what to join by.

use super::counters::{self, CounterSet};
use super::kernel;
use crate::device::Description;
use crate::error::Error;
use crate::job::{Job, Outcome, WarpLaunch, WarpMemory, Work, measured_name};
use crate::output::Output;
use crate::profiler::session::{LaunchResult, Session};
use crate::profiler::{Counted, find};
use crate::supervisor::{self, WorkerCommand};
use record::warp::WarpLine;
use record::{OpClass, Value};
use serde_json::{Map, json};
use simulator::{RuleSet, Space, WARP_LANES, WarpAccess};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to count and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The lines.
    pub input: String,
    /// File to write.
    pub output: PathBuf,
    /// Whether to continue it.
    pub resume: bool,
    /// Which GPU.
    pub gpu: u32,
    /// Which counters.
    pub counters: CounterSet,
    /// State of the caches before each launch.
    pub cache: crate::job::Cache,
    /// Launches to a profiler process: what an interruption can lose.
    pub chunk: usize,
    /// Longest time that a launch may take, seconds.
    pub limit_s: f64,
    /// No new process is started after this time.
    pub budget: Option<Duration>,
    /// The profiler; looked for where it is not named.
    pub profiler: Option<PathBuf>,
    /// How workers are started.
    pub worker: WorkerCommand,
}

/// What became of the lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Lines of the input that are not blank.
    pub lines: usize,
    /// Lines that the output had before.
    pub done_before: usize,
    /// Lines counted now.
    pub counted: usize,
    /// Lines answered with an error now.
    pub errors: usize,
    /// Lines left for want of time.
    pub left: usize,
    /// Lines whose addresses were moved.
    pub moved: usize,
    /// Counters that the chip does not know, by the profiler's names.
    pub unknown_counters: BTreeSet<String>,
    /// Seconds in the profiler.
    pub profiler_s: f64,
}

/// A line to be counted.
struct Line {
    number: usize,
    fields: Map<String, serde_json::Value>,
    access: WarpAccess,
    value_type: Option<String>,
}

/// Counts a file. `progress` is called with the number of lines done and of
/// all.
///
/// # Errors
/// Without a GPU, without a profiler or the permission to use it, or where a
/// file cannot be used. Bad lines are answered in the output.
pub fn run(options: &Options, mut progress: impl FnMut(usize, usize)) -> Result<Summary, Error> {
    let start = Instant::now();
    let profiler = match &options.profiler {
        Some(path) => find::at(path)?,
        None => find::find()?,
    };
    let description = supervisor::describe(&options.worker, options.gpu)?;
    let rules = rules_for(&description)?;

    let mut done = BTreeSet::new();
    let mut output = Output::open(&options.output, options.resume, |line| {
        done.extend(number_of(line));
    })?;
    write_provenance(options, &description, &profiler.version)?;

    let mut summary = Summary::default();
    let mut by_class = BTreeMap::<OpClass, Vec<Line>>::new();
    for (index, text) in options.input.lines().enumerate() {
        let number = index + 1;
        if text.trim().is_empty() {
            continue;
        }
        summary.lines += 1;
        if done.contains(&number) {
            summary.done_before += 1;
            continue;
        }
        match parse(number, text, &rules) {
            Ok(line) => by_class.entry(OpClass::of(line.access.op)).or_default().push(line),
            Err(message) => {
                summary.errors += 1;
                output.line(&error_line(number, id_of(text), &message))?;
            }
        }
    }

    let worker = options.worker.clone();
    let mut session = Session::new(worker, options.gpu, profiler, options.cache);
    // Thousands of kernels that are never run again do not belong in the
    // driver's cache on disk.
    session.worker.environment.push(("CUDA_CACHE_DISABLE".into(), "1".into()));
    for (class, lines) in by_class {
        for chunk in lines.chunks(options.chunk.max(1)) {
            progress(summary.lines - remaining(&summary), summary.lines);
            if options.budget.is_some_and(|budget| start.elapsed() >= budget) {
                summary.left += chunk.len();
                continue;
            }
            let began = Instant::now();
            count(&mut session, class, options, chunk, &mut output, &mut summary)?;
            summary.profiler_s += began.elapsed().as_secs_f64();
        }
    }
    progress(summary.lines - summary.left, summary.lines);
    summary.unknown_counters = session.unknown;
    Ok(summary)
}

/// Lines that have no answer yet.
fn remaining(summary: &Summary) -> usize {
    summary.lines - summary.done_before - summary.counted - summary.errors
}

/// Counts lines of one class in one profiler process.
fn count(
    session: &mut Session,
    class: OpClass,
    options: &Options,
    lines: &[Line],
    output: &mut Output,
    summary: &mut Summary,
) -> Result<(), Error> {
    let counters = counters::of(class, options.counters);
    let metrics: Vec<String> = counters.iter().map(|(_, metric)| metric.clone()).collect();
    // The first launch is one of the lines with all its lanes off.
    let mut jobs = Vec::with_capacity(lines.len() + 1);
    let mut launched = Vec::with_capacity(lines.len());
    for line in lines {
        match job(jobs.len() as u32, line, options.limit_s) {
            Ok(job) => {
                if jobs.is_empty() {
                    jobs.push(all_lanes_off(&job));
                }
                let mut job = job;
                rename(&mut job, jobs.len() as u32);
                jobs.push(job);
                launched.push(line);
            }
            Err(message) => {
                summary.errors += 1;
                output.line(&error_line(line.number, line.fields.get("id").cloned(), &message))?;
            }
        }
    }
    if jobs.is_empty() {
        return Ok(());
    }
    let mut results = session.count(&jobs, &metrics)?.into_iter();
    let baseline = results
        .next()
        .and_then(LaunchResult::ok)
        .map(|(_, counted)| named(&counters, &counted, true))
        .unwrap_or_default();
    for (line, result) in launched.into_iter().zip(results) {
        match result {
            Ok((Outcome::Warp { addresses, exact }, counted)) => {
                summary.counted += 1;
                summary.moved += usize::from(!exact);
                output
                    .line(&counted_line(line, &addresses, exact, &counters, &counted, &baseline))?;
            }
            Ok((other, _)) => {
                return Err(Error::Worker(format!("a warp's launch came back as {other:?}")));
            }
            Err(message) => {
                summary.errors += 1;
                output.line(&error_line(line.number, line.fields.get("id").cloned(), &message))?;
            }
        }
    }
    Ok(())
}

/// The rules of the device's architecture, which say what accesses it has.
fn rules_for(description: &Description) -> Result<RuleSet, Error> {
    let (major, minor) = description.compute_capability;
    RuleSet::for_arch(&format!("{major}.{minor}")).ok_or_else(|| {
        Error::Input(format!(
            "{} has compute capability {major}.{minor}, for which there is no rule set that says \
             what accesses it has",
            description.name
        ))
    })
}

fn parse(number: usize, text: &str, rules: &RuleSet) -> Result<Line, String> {
    let WarpLine { access, rules: wanted, .. } =
        record::warp::parse_line(text.as_bytes(), rules).map_err(|error| error.message)?;
    if !std::ptr::eq(wanted, rules) {
        return Err(format!(
            "arch is for {}, and the device is {}; leave arch out to count the line here",
            wanted.name(),
            rules.name()
        ));
    }
    let fields: Map<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let value_type = fields.get("type").and_then(|value| value.as_str()).map(str::to_owned);
    Ok(Line { number, fields, access, value_type })
}

fn id_of(text: &str) -> Option<serde_json::Value> {
    serde_json::from_str::<Map<String, serde_json::Value>>(text).ok()?.remove("id")
}

/// The input line that an output line answers.
fn number_of(line: &str) -> Option<usize> {
    let fields: Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    usize::try_from(fields.get("line")?.as_u64()?).ok()
}

fn job(id: u32, line: &Line, limit_s: f64) -> Result<Job, String> {
    let entry = measured_name(id);
    let access = &line.access;
    let ptx = kernel::text(access, line.value_type.as_deref(), &entry)
        .map_err(|error| error.to_string())?;
    let warp = WarpLaunch {
        ptx,
        entry,
        mask: access.mask.0,
        width: access.width,
        addresses: access.addresses.to_vec(),
        memory: match access.op.space {
            Space::Global => WarpMemory::Global,
            Space::Shared => WarpMemory::Shared,
            Space::Local => WarpMemory::Local,
        },
        shared_addresses: access.shared_addresses.map(|list| list.to_vec()),
    };
    Ok(Job { id, limit_s, work: Work::Warp(warp) })
}

/// Gives a warp's job and its kernel another number.
fn rename(job: &mut Job, number: u32) {
    job.id = number;
    if let Work::Warp(warp) = &mut job.work {
        let name = measured_name(number);
        warp.ptx = warp.ptx.replace(&format!(".entry {}(", warp.entry), &format!(".entry {name}("));
        warp.entry = name;
    }
}

fn all_lanes_off(job: &Job) -> Job {
    let mut off = job.clone();
    if let Work::Warp(warp) = &mut off.work {
        warp.mask = 0;
    }
    rename(&mut off, 0);
    off
}

/// The counters by our names, in their order; `present`: only those not 0.
fn named(
    counters: &[(&'static str, String)],
    counted: &Counted,
    present: bool,
) -> Map<String, serde_json::Value> {
    counters
        .iter()
        .filter_map(|(name, metric)| {
            let value = counted.values.get(metric)?;
            let zero = value.as_f64() == Some(0.0);
            (!(present && zero)).then(|| ((*name).to_owned(), to_json(value)))
        })
        .collect()
}

fn to_json(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or(serde_json::Value::Null)
}

fn counted_line(
    line: &Line,
    addresses: &[u64],
    exact: bool,
    counters: &[(&'static str, String)],
    counted: &Counted,
    baseline: &Map<String, serde_json::Value>,
) -> String {
    let mut fields = Map::new();
    fields.insert("line".into(), json!(line.number));
    fields.extend(line.fields.clone());
    // What the input may have counted already is not ours.
    for name in ["counters", "baseline", "moved", "passes", "error"] {
        fields.remove(name);
    }
    let real: [u64; WARP_LANES] = std::array::from_fn(|lane| {
        let active = line.access.mask.contains(lane);
        let wanted = line.access.addresses[lane];
        if active { addresses.get(lane).copied().unwrap_or(wanted) } else { wanted }
    });
    fields.insert("addresses".into(), json!(real));
    if !exact {
        fields.insert("moved".into(), json!(true));
    }
    fields.insert("counters".into(), named(counters, counted, false).into());
    fields.insert("baseline".into(), baseline.clone().into());
    if let Some(passes) = counted.passes {
        fields.insert("passes".into(), json!(passes));
    }
    serde_json::Value::Object(fields).to_string()
}

fn error_line(number: usize, id: Option<serde_json::Value>, message: &str) -> String {
    let mut fields = Map::new();
    fields.insert("line".into(), json!(number));
    fields.insert("id".into(), id.unwrap_or(serde_json::Value::Null));
    fields.insert("error".into(), json!(message));
    serde_json::Value::Object(fields).to_string()
}

/// Writes what was measured with, beside the output: `NAME.about.json`.
fn write_provenance(
    options: &Options,
    description: &Description,
    profiler: &str,
) -> Result<(), Error> {
    let mut name = options.output.clone().into_os_string();
    name.push(".about.json");
    let path = PathBuf::from(name);
    let about = json!({
        "device": description,
        "tools": { "ncu": profiler, "coalescope": env!("CARGO_PKG_VERSION") },
        "date": crate::date::now(),
        "clock_control": "none",
        "cache": options.cache,
        "counters": match options.counters {
            CounterSet::Minimal => "minimal",
            CounterSet::Full => "full",
        },
        "kernel": "one warp, one memory instruction, addresses in the constant bank, assembled at level 0",
    });
    std::fs::write(&path, format!("{about:#}\n")).map_err(|error| Error::file(path, error))
}
