//! `coalescope calibrate`: micro-benchmarks → device profile.

use crate::args::CalibrateArgs;
use crate::commands::measure::ended;
use crate::commands::{GOOD, bad_input};
use crate::output::write_whole;
use crate::progress;
use anyhow::{Context, Result, anyhow, bail};
use comfy_table::{CellAlignment, Table, presets};
use hardware::job::Cache;
use hardware::measure::{self, CounterSet, Options, Point};
use hardware::supervisor::{self, WorkerCommand};
use hardware::warps::file as warps;
use indicatif::ProgressBar;
use model::calibrate::compare::{self, Verdict};
use model::calibrate::probe::{self, Counted};
use model::calibrate::suite::{self, Benchmark};
use model::calibrate::{self, Device, Records};
use model::{Profile, Quantity};
use record::units;
use scenario::diagnostic::Style;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Times and counters of the suite, in the folder of the records.
const RUNS: &str = "runs.jsonl";
/// Counted warps.
const WARPS: &str = "warps.jsonl";
/// The device, and when its calibration began.
const ABOUT: &str = "about.json";

/// What is known before anything is measured.
#[derive(Serialize, Deserialize)]
struct About {
    device: Device,
    date: String,
}

/// Calibrates, refits, compares or lists.
pub(crate) fn run(args: &CalibrateArgs) -> Result<ExitCode> {
    if args.list {
        return list();
    }
    if let [a, b] = args.compare.as_slice() {
        return compare_profiles(&read_profile(a)?, &read_profile(b)?);
    }
    let Some(output) = &args.output else { return Ok(bad_input()) };
    let folder = match (&args.from, &args.records) {
        (Some(folder), _) | (None, Some(folder)) => folder.clone(),
        (None, None) => output.with_extension("records"),
    };
    if args.from.is_none() {
        match Calibration::open(args, &folder)?.run()? {
            Ended::Complete => {}
            Ended::Early(code) => return Ok(code),
        }
    }
    write_profile(args, output, &folder)
}

/// How the measuring ended.
enum Ended {
    /// All is measured that can be.
    Complete,
    /// Without what a profile needs; this is the exit code.
    Early(ExitCode),
}

struct Calibration<'a> {
    args: &'a CalibrateArgs,
    folder: &'a Path,
    worker: WorkerCommand,
    start: Instant,
    bar: ProgressBar,
}

impl<'a> Calibration<'a> {
    fn open(args: &'a CalibrateArgs, folder: &'a Path) -> Result<Self> {
        let worker = WorkerCommand::this_program()?;
        let bar = progress::bar(0, "points");
        Ok(Self { args, folder, worker, start: Instant::now(), bar })
    }

    fn run(&self) -> Result<Ended> {
        let device = match supervisor::describe(&self.worker, self.args.gpu) {
            Ok(description) => device(&description)?,
            Err(error) => return Ok(Ended::Early(ended(&error))),
        };
        self.remember(&device)?;
        let timed = benchmarks(suite::timed(&device))?;
        if let Some(early) = self.measure(&timed, true)? {
            return Ok(early);
        }
        if !self.args.no_counters {
            let counted = benchmarks(suite::counted(&device))?;
            if let Some(early) = self.measure(&counted, false)? {
                return Ok(early);
            }
            if let Some(early) = self.count_warps()? {
                return Ok(early);
            }
        }
        self.bar.finish_and_clear();
        Ok(Ended::Complete)
    }

    /// Writes down the device; where records are continued, it must be the one
    /// that they are of.
    fn remember(&self, device: &Device) -> Result<()> {
        std::fs::create_dir_all(self.folder)
            .with_context(|| format!("cannot make the folder {}", self.folder.display()))?;
        let path = self.folder.join(ABOUT);
        if path.exists() {
            if !self.args.resume {
                bail!(
                    "{} holds records already: continue them with --resume, or name another folder \
                     with --records",
                    self.folder.display()
                );
            }
            let about = about(self.folder)?;
            if about.device != *device {
                bail!(
                    "{} holds records of another device or driver ({}, driver {}), and records of \
                     two make no profile: name another folder with --records",
                    self.folder.display(),
                    about.device.name,
                    about.device.driver.as_deref().unwrap_or("unknown")
                );
            }
            return Ok(());
        }
        let about = About { device: device.clone(), date: hardware::date::now() };
        write_whole(&path, format!("{}\n", serde_json::to_string_pretty(&about)?).as_bytes())
    }

    fn budget(&self) -> Option<Duration> {
        let budget = Duration::from_secs(self.args.budget?);
        Some(budget.saturating_sub(self.start.elapsed()))
    }

    /// Times benchmarks, or counts them.
    fn measure(&self, benchmarks: &[Benchmark], time: bool) -> Result<Option<Ended>> {
        let points: Vec<Point<'_>> = benchmarks
            .iter()
            .flat_map(|benchmark| &benchmark.plans)
            .map(|plan| Point {
                plan: plan.clone(),
                counting: plan.clone(),
                has_counting: false,
                files: &suite::NoFiles,
            })
            .collect();
        let mut options = Options::new(self.folder.join(RUNS), self.worker.clone());
        options.resume = true;
        options.gpu = self.args.gpu;
        options.time = time;
        options.counters = !time;
        // At the size that is timed: what is asked of DRAM needs it.
        options.full = true;
        // The suite's accesses are evaluated before each launch; whether the
        // device makes them is what its own tests are for.
        options.verify = false;
        options.cache = Cache::Cold;
        options.samples = self.args.samples;
        options.budget = self.budget();
        options.profiler = self.args.ncu.clone();
        self.bar.set_length(points.len() as u64);
        let measured = measure::run(&points, &options, &mut |progress| {
            self.bar.set_position(progress.done as u64);
            self.bar.set_message(format!("{} {}", progress.part, progress.label));
        });
        let summary = match measured {
            Ok(summary) => summary,
            Err(error) => return Ok(self.failed(&error)),
        };
        for note in &summary.notes {
            self.note(note);
        }
        for (label, why) in &summary.failures {
            self.note(&format!("{label} failed, and what it tells will be missing: {why}"));
        }
        Ok(self.left(summary.left, "points"))
    }

    /// Counts single warps until no more are asked for.
    fn count_warps(&self) -> Result<Option<Ended>> {
        let path = self.folder.join(WARPS);
        loop {
            let counted = read_warps(self.folder)?;
            let probes = calibrate::probes(&counted);
            if counted.len() >= probes.len() {
                return Ok(None);
            }
            let options = warps::Options {
                input: probe::lines(&probes),
                output: path.clone(),
                resume: true,
                gpu: self.args.gpu,
                counters: CounterSet::Minimal,
                cache: Cache::Cold,
                chunk: 100,
                limit_s: 10.0,
                budget: self.budget(),
                profiler: self.args.ncu.clone(),
                worker: self.worker.clone(),
            };
            self.bar.set_message("counting single warps");
            let summary = warps::run(&options, |done, total| {
                self.bar.set_length(total as u64);
                self.bar.set_position(done as u64);
            });
            let summary = match summary {
                Ok(summary) => summary,
                Err(error) => return Ok(self.failed(&error)),
            };
            if let Some(early) = self.left(summary.left, "warps") {
                return Ok(Some(early));
            }
            if summary.counted + summary.errors == 0 {
                // Asked again, it would say the same.
                return Ok(None);
            }
        }
    }

    /// Without a profiler there are times; without anything else there is no
    /// profile.
    fn failed(&self, error: &hardware::Error) -> Option<Ended> {
        match error {
            hardware::Error::Profiler(trouble) => {
                self.note(&trouble.to_string());
                None
            }
            error => {
                self.bar.finish_and_clear();
                Some(Ended::Early(ended(error)))
            }
        }
    }

    /// The words that say that time was up; scripts look for them.
    fn left(&self, left: usize, what: &str) -> Option<Ended> {
        if left == 0 {
            return None;
        }
        self.bar.finish_and_clear();
        anstream::eprintln!("{left} {what} left: the budget is spent; continue with --resume");
        Some(Ended::Early(ExitCode::from(1)))
    }

    fn note(&self, text: &str) {
        let cyan = anstyle::AnsiColor::Cyan.on_default().bold();
        self.bar.suspend(|| anstream::eprintln!("{cyan}note{cyan:#}: {text}"));
    }
}

/// What calibration must know of a device.
fn device(description: &hardware::device::Description) -> Result<Device> {
    Ok(serde_json::from_value(serde_json::to_value(description)?)?)
}

fn benchmarks(suite: Result<Vec<Benchmark>, scenario::Diagnostics>) -> Result<Vec<Benchmark>> {
    suite.map_err(|errors| anyhow!("{}", errors.render(Style::Plain)))
}

/// A file of the records' folder, plain or compressed; `None` where there is
/// neither.
fn read_records(folder: &Path, name: &str) -> Result<Option<String>> {
    let plain = folder.join(name);
    let packed = folder.join(format!("{name}.gz"));
    let mut text = String::new();
    let read = if plain.exists() {
        std::fs::File::open(&plain).and_then(|mut file| file.read_to_string(&mut text))
    } else if packed.exists() {
        std::fs::File::open(&packed)
            .and_then(|file| flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text))
    } else {
        return Ok(None);
    };
    read.with_context(|| format!("cannot read {name} in {}", folder.display()))?;
    Ok(Some(text))
}

fn about(folder: &Path) -> Result<About> {
    let text = read_records(folder, ABOUT)?.with_context(|| {
        format!("{} holds no records of a calibration: {ABOUT} is missing", folder.display())
    })?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} does not describe a device", folder.join(ABOUT).display()))
}

fn read_warps(folder: &Path) -> Result<Vec<Counted>> {
    Ok(read_records(folder, WARPS)?.map(|text| Counted::read(&text)).unwrap_or_default())
}

fn write_profile(args: &CalibrateArgs, output: &Path, folder: &Path) -> Result<ExitCode> {
    let About { device, date } = about(folder)?;
    let text = read_records(folder, RUNS)?.with_context(|| {
        format!("{} holds no records of a calibration: {RUNS} is missing", folder.display())
    })?;
    let runs = record::read_runs(text.as_bytes()).filter_map(Result::ok).collect();
    let records = Records { device, date: Some(date), runs, warps: read_warps(folder)? };
    let name = match (&args.name, output.file_stem()) {
        (Some(name), _) => name.clone(),
        (None, Some(stem)) => stem.to_string_lossy().into_owned(),
        (None, None) => bail!("{} names no file", output.display()),
    };
    let source = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
    let profile = calibrate::profile(&name, &records, &source);
    write_whole(output, profile.to_toml()?.as_bytes())?;
    anstream::eprintln!(
        "{}: {} constants of {}",
        output.display(),
        profile.constants.len(),
        profile.device
    );
    for note in &profile.notes {
        anstream::eprintln!("  {note}");
    }
    Ok(GOOD)
}

/// A profile by file or shipped name.
fn read_profile(name: &str) -> Result<Profile> {
    let path = PathBuf::from(name);
    if !path.exists()
        && let Some(profile) = Profile::shipped(name)
    {
        return Ok(profile);
    }
    let text = std::fs::read_to_string(&path).with_context(|| {
        format!(
            "{name} is no file that can be read, and no shipped profile ({})",
            Profile::shipped_names().collect::<Vec<_>>().join(", ")
        )
    })?;
    Profile::from_toml(&text).with_context(|| format!("{name} is no profile"))
}

fn list() -> Result<ExitCode> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for name in Profile::shipped_names() {
        if let Some(profile) = Profile::shipped(name) {
            let kind = match profile.kind {
                model::Kind::Measured => "measured",
                model::Kind::Specification => "specification, error unknown",
            };
            table.add_row([name, &profile.device, &format!("CC {}", profile.arch), kind]);
        }
    }
    writeln!(anstream::stdout().lock(), "{}", table.trim_fmt())?;
    Ok(GOOD)
}

fn compare_profiles(a: &Profile, b: &Profile) -> Result<ExitCode> {
    let rows = compare::rows(a, b);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["constant", &a.name, &b.name, "difference", "unit", ""]);
    for row in &rows {
        let [left, right] = row.sides.map(quantity);
        let difference =
            units::or_unknown(row.difference(), |share| format!("{:+.1} %", share * 100.0));
        let name = row.constant.name();
        table.add_row([name, &left, &right, &difference, row.constant.unit(), row.verdict.name()]);
    }
    for column in [1, 2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut out = anstream::stdout().lock();
    writeln!(out, "{}", table.trim_fmt())?;
    let disagree = rows.iter().filter(|row| row.verdict == Verdict::Disagree).count();
    let tags = match (&a.tag, &b.tag) {
        (Some(a), Some(b)) if a.hash != b.hash => ", and so does the hash of the tag banks",
        _ => "",
    };
    writeln!(out, "{disagree} of {} constants disagree{tags}", rows.len())?;
    Ok(if disagree == 0 && tags.is_empty() { GOOD } else { ExitCode::from(1) })
}

/// Value and spread, with as many digits as a reader can use.
fn quantity(quantity: Option<&Quantity>) -> String {
    let Some(quantity) = quantity else { return units::UNKNOWN.to_owned() };
    let number = |value: f64| match value.abs() {
        0.0 => "0".to_owned(),
        small if small < 1e-2 => format!("{value:.3e}"),
        large if large >= 1e7 => format!("{value:.4e}"),
        whole if whole.fract() == 0.0 => format!("{value}"),
        _ => format!("{value:.3}"),
    };
    match quantity.spread {
        Some(spread) => format!("{} ± {}", number(quantity.value), number(spread)),
        None => number(quantity.value),
    }
}
