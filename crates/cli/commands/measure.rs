//! `coalescope measure`: scenarios and single warps on the GPU.

use crate::args::{MeasureArgs, MetricsSet, Selection};
use crate::commands::{GOOD, bad_input};
use crate::progress;
use crate::selection::{Complaints, runs, scenarios};
use crate::shipped;
use anyhow::{Context, Result};
use hardware::job::Cache;
use hardware::measure::{self, CounterSet, Options, Point};
use hardware::supervisor::WorkerCommand;
use hardware::warps::file as warps;
use record::units;
use scenario::{Disk, Files};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Measures what the arguments select, or is the worker of such a measurement.
pub(crate) fn run(args: &MeasureArgs) -> Result<ExitCode> {
    if let Some(folder) = &args.worker {
        return Ok(hardware::worker::main(folder).into());
    }
    let Some(output) = &args.output else { return Ok(bad_input()) };
    match &args.warps {
        Some(file) => count_warps(args, file, output),
        None => measure_scenarios(args, output),
    }
}

fn counter_set(set: MetricsSet) -> CounterSet {
    match set {
        MetricsSet::Minimal => CounterSet::Minimal,
        MetricsSet::Full => CounterSet::Full,
    }
}

fn cache(args: &MeasureArgs) -> Cache {
    if args.warm { Cache::Warm } else { Cache::Cold }
}

/// Says what ended a measurement; the exit code tells a missing GPU apart.
pub(super) fn ended(error: &hardware::Error) -> ExitCode {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    anstream::eprintln!("{red}error{red:#}: {error}");
    error.exit_code().into()
}

/// The words that say that time was up; scripts look for them.
fn tell_left(left: usize, what: &str) {
    if left > 0 {
        anstream::eprintln!("{left} {what} left: the budget is spent; continue with --resume");
    }
}

fn measure_scenarios(args: &MeasureArgs, output: &Path) -> Result<ExitCode> {
    let mut complaints = Complaints::default();
    let names = if args.scenarios.is_empty() {
        shipped::names().into_iter().map(str::to_owned).collect()
    } else {
        args.scenarios.clone()
    };
    let selection = Selection {
        scenarios: names,
        overrides: args.overrides.clone(),
        variants: args.variants.clone(),
    };
    let mut points = Vec::new();
    for name in &selection.scenarios {
        let is_shipped = shipped::scenario(name).is_some() && !Path::new(name).exists();
        let files: &dyn Files = if is_shipped { &shipped::Shipped } else { &Disk };
        for scenario in scenarios(std::slice::from_ref(name), &mut complaints) {
            let plans = runs(&scenario, &selection, scenario::Options::default(), &mut complaints);
            let counting = scenario::Options::for_counting();
            let counting = runs(&scenario, &selection, counting, &mut Complaints::default());
            points.extend(plans.into_iter().zip(counting).map(|(plan, counting)| Point {
                plan,
                counting,
                has_counting: scenario.has_counting(),
                files,
            }));
        }
    }
    if complaints.any() {
        return Ok(bad_input());
    }

    let mut options = Options::new(output, WorkerCommand::this_program()?);
    options.resume = args.resume;
    options.retry = args.retry;
    options.gpu = args.gpu;
    options.time = !args.no_time;
    options.counters = args.counters;
    options.full = args.full;
    options.once = args.once;
    options.counter_set = counter_set(args.metrics_set);
    options.cache = cache(args);
    options.samples = args.samples;
    options.limit_s = args.limit;
    options.chunk = args.chunk.unwrap_or(options.chunk);
    options.budget = args.budget.map(Duration::from_secs);
    options.profiler = args.ncu.clone();

    let bar = progress::bar(points.len() as u64, "points");
    let summary = measure::run(&points, &options, &mut |progress| {
        bar.set_position(progress.done as u64);
        bar.set_message(format!("{} {}", progress.part, progress.label));
    });
    bar.finish_and_clear();
    let summary = match summary {
        Ok(summary) => summary,
        Err(error) => return Ok(ended(&error)),
    };
    tell(&summary);
    Ok(if summary.failures.is_empty() { GOOD } else { ExitCode::from(1) })
}

/// What came of it, on standard error: standard output is for results, and
/// those are in the file.
fn tell(summary: &measure::Summary) {
    let note = anstyle::AnsiColor::Cyan.on_default().bold();
    let red = anstyle::AnsiColor::Red.on_default().bold();
    for text in &summary.notes {
        anstream::eprintln!("{note}note{note:#}: {text}");
    }
    for (label, why) in &summary.skipped {
        anstream::eprintln!("{note}left out{note:#}: {label}: {why}");
    }
    for (label, why) in &summary.failures {
        anstream::eprintln!("{red}failed{red:#}: {label}: {why}");
    }
    anstream::eprintln!(
        "{} timed, {} counted, {} verified, {} failed; {} were in the file before",
        summary.timed,
        summary.counted,
        summary.verified,
        summary.failures.len(),
        summary.done_before
    );
    let copy = record::median(&summary.copy_bytes_per_s);
    if let Some(copy) = copy {
        anstream::eprintln!("device-to-device copy: {}", units::bytes_per_s(copy));
    }
    if let Some(overhead) = record::median(&summary.launch_overhead_s) {
        anstream::eprintln!("an empty kernel between events: {}", units::seconds(overhead));
    }
    if let Some((label, rate)) = &summary.best {
        let share = copy.map(|copy| rate / copy);
        anstream::eprintln!(
            "highest requested bandwidth: {} ({} of the copy), {label}",
            units::bytes_per_s(*rate),
            units::or_unknown(share, units::percent)
        );
    }
    if let (launches @ 1.., seconds) = summary.profiled {
        anstream::eprintln!(
            "the profiler: {} for {launches} launches, {} each",
            units::seconds(seconds),
            units::seconds(seconds / launches as f64)
        );
    }
    tell_left(summary.left, "points");
}

fn count_warps(args: &MeasureArgs, file: &Path, output: &Path) -> Result<ExitCode> {
    let input = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        text
    } else {
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?
    };
    let options = warps::Options {
        input,
        output: PathBuf::from(output),
        resume: args.resume,
        gpu: args.gpu,
        counters: counter_set(args.metrics_set),
        cache: cache(args),
        chunk: args.chunk.unwrap_or(200),
        limit_s: args.limit,
        budget: args.budget.map(Duration::from_secs),
        profiler: args.ncu.clone(),
        worker: WorkerCommand::this_program()?,
    };
    let bar = progress::bar(0, "lines");
    let summary = warps::run(&options, |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let summary = match summary {
        Ok(summary) => summary,
        Err(error) => return Ok(ended(&error)),
    };
    anstream::eprintln!(
        "{} of {} lines counted ({} at other addresses than wanted), {} answered with an error; {} \
         were in the file before; {} in the profiler",
        summary.counted,
        summary.lines,
        summary.moved,
        summary.errors,
        summary.done_before,
        units::seconds(summary.profiler_s)
    );
    if !summary.unknown_counters.is_empty() {
        let names: Vec<&str> = summary.unknown_counters.iter().map(String::as_str).collect();
        anstream::eprintln!("this chip does not know {}", names.join(", "));
    }
    tell_left(summary.left, "lines");
    Ok(if summary.errors > 0 { bad_input() } else { GOOD })
}
