//! `coalescope compare`: predicted beside measured.

use crate::args::CompareArgs;
use crate::commands::sim::{
    DEFAULT_ARCH, DEFAULT_DEVICE, Device, Placed, params, predict_at, traffic_options,
};
use crate::commands::{GOOD, bad_input};
use crate::output::write_whole;
use crate::progress;
use crate::selection::{Complaints, profile, rule_sets, scenarios};
use crate::shipped;
use anyhow::{Context, Result};
use compare::charts::{Chart, Material, charts};
use compare::report::{self, Contents};
use compare::{Claims, Judged, Key, Part, Point, Reasons, Split, Statistics, export, labels};
use flate2::read::MultiGzDecoder;
use model::{Constant, Kind, Profile};
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use record::{CacheState, RunRecord, read_runs};
use scenario::{Diagnostics, Options, Run, RunPlan, Scenario, count};
use simulator::RuleSet;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::ExitCode;

mod tables;

/// Compares what the arguments name.
pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode> {
    let mut complaints = Complaints::default();
    let mut points = compare::points(measured(args, &mut complaints)?);
    let named = keep_named(args, &mut points, &mut complaints);
    if points.is_empty() {
        if !complaints.any() {
            complaints.message(
                "there is no measured run to compare with",
                "name scenarios that the record has, or give another with --measured",
            );
        }
        return Ok(bad_input());
    }
    let profile = match &args.device {
        Some(name) => match profile(name, &mut complaints) {
            Some(profile) => Some(profile),
            None => return Ok(bad_input()),
        },
        None => profile_for(&points),
    };
    let arch = args.arch.clone().or_else(|| points[0].arch().map(str::to_owned));
    let arch = arch.unwrap_or_else(|| DEFAULT_ARCH.to_owned());
    let rules = rule_sets(std::slice::from_ref(&arch), &mut complaints);
    let Some((arch, rules)) = rules.into_iter().next() else { return Ok(bad_input()) };
    let mut notes = compare::mismatches(
        &points,
        &arch,
        profile.as_ref().map(|profile| profile.device.as_str()),
    );
    let on = On { arch: &arch, rules: &rules, device: profile.map(Device::new) };
    predict_all(named, &mut points, &on, &mut notes, &mut complaints);

    let split = Split::from_toml(shipped::SPLIT).context("the list of families is broken")?;
    let judges = |point: &Point| split.part(&point.key.scenario) == Part::HeldOut;
    if args.scenarios.is_empty() && on.device.is_some() && !points.iter().any(judges) {
        notes.push(format!(
            "none of the {} families that only judge the model is in these records; those that are were looked \
             at while it was made",
            split.held_out().len()
        ));
    }
    let names = labels::labels(&points);
    let profile = on.device.as_ref().map(|device| &device.profile);
    let peak = profile.and_then(|profile| profile.get(Constant::DramPeak));
    let statistics = Statistics::of(&points, &names, &split, &Reasons::shipped(), peak);
    let judged = Claims::shipped().judge(&points);
    let device = points.iter().find_map(Point::device).unwrap_or("an unnamed device").to_owned();
    let material = Material { points: &points, labels: &names, split: &split, peak };
    let mut contents = Contents {
        device: &device,
        profile: profile.map(|profile| profile.name.as_str()),
        notes: &notes,
        points: &points,
        labels: &names,
        split: &split,
        statistics: &statistics,
        claims: &judged,
        charts: &[],
    };

    let mut out = anstream::stdout().lock();
    match (args.json, args.csv, args.claims) {
        (true, ..) if args.claims => {
            for claim in &judged {
                writeln!(out, "{}", serde_json::to_string(claim)?)?;
            }
        }
        (true, ..) => export::write_json(&mut out, &points, &split)?,
        (_, true, _) => export::write_csv(&mut out, &points, &split)?,
        _ if args.known_errors => {
            let name = profile.map_or(DEFAULT_DEVICE, |profile| profile.name.as_str());
            export::write_known_errors(&mut out, name, &statistics)?;
        }
        (.., true) => tables::claims(&mut out, &judged)?,
        _ => tables::comparison(&mut out, &contents)?,
    }
    for note in &notes {
        let cyan = anstyle::AnsiColor::Cyan.on_default().bold();
        anstream::eprintln!("{cyan}note{cyan:#}: {note}");
    }
    if let Some(folder) = &args.output {
        let drawn = charts(&material)?;
        contents.charts = &drawn;
        write_folder(folder, &contents, &drawn, &judged)?;
    }
    Ok(if complaints.any() { bad_input() } else { GOOD })
}

/// The measured records: of a file, or those that come with the program.
fn measured(args: &CompareArgs, complaints: &mut Complaints) -> Result<Vec<RunRecord>> {
    let mut records = Vec::new();
    match &args.measured {
        Some(path) => {
            let file =
                File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.display().to_string();
            read(&name, BufReader::new(file), &mut records, complaints)?;
        }
        None => {
            for (name, bytes) in shipped::RECORDED {
                read(name, bytes, &mut records, complaints)?;
            }
        }
    }
    Ok(records)
}

/// Reads records, packed by gzip or not. A bad line is told and skipped.
fn read(
    name: &str,
    mut input: impl BufRead,
    records: &mut Vec<RunRecord>,
    complaints: &mut Complaints,
) -> Result<()> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let start = input.fill_buf().with_context(|| format!("cannot read {name}"))?;
    let packed = start.starts_with(&GZIP);
    let text: Box<dyn Read + '_> =
        if packed { Box::new(MultiGzDecoder::new(input)) } else { Box::new(input) };
    for record in read_runs(BufReader::new(text)) {
        match record {
            Ok(record) => records.push(record),
            Err(bad) => complaints.message(
                &format!("{name}, {bad}"),
                "the other lines are compared; take the line out or measure the run again",
            ),
        }
    }
    Ok(())
}

/// Leaves the points of the scenarios that were asked for, and gives these.
fn keep_named(
    args: &CompareArgs,
    points: &mut Vec<Point>,
    complaints: &mut Complaints,
) -> Vec<Scenario> {
    if args.scenarios.is_empty() {
        return Vec::new();
    }
    let named = scenarios(&args.scenarios, complaints);
    for scenario in &named {
        if !points.iter().any(|point| point.key.scenario == scenario.name()) {
            complaints.message(
                &format!("the measured record has no run of `{}`", scenario.name()),
                "measure it with `coalescope measure`, and give the file with --measured",
            );
        }
    }
    points.retain(|point| named.iter().any(|named| named.name() == point.key.scenario));
    named
}

/// The measured profile that ships for the records' device, else the default
/// one.
fn profile_for(points: &[Point]) -> Option<Profile> {
    let device = points.iter().find_map(Point::device);
    let mut shipped = Profile::shipped_names().filter_map(Profile::shipped);
    let of_device = shipped
        .find(|profile| profile.kind == Kind::Measured && Some(profile.device.as_str()) == device);
    of_device.or_else(|| Profile::shipped(DEFAULT_DEVICE))
}

/// What predicts.
struct On<'a> {
    arch: &'a str,
    rules: &'a RuleSet,
    device: Option<Device>,
}

/// Why a point has no prediction.
enum Without {
    /// There is no such scenario.
    Scenario,
    /// The scenario has no such run.
    Run,
    /// The run can't be counted.
    Failed(Diagnostics),
}

/// Gives each point its prediction, with the buffers where the device had them.
fn predict_all(
    named: Vec<Scenario>,
    points: &mut [Point],
    on: &On<'_>,
    notes: &mut Vec<String>,
    complaints: &mut Complaints,
) {
    let mut families: BTreeMap<String, Option<Family>> = named
        .into_iter()
        .map(|scenario| (scenario.name().to_owned(), Some(Family::of(scenario, complaints))))
        .collect();
    for point in points.iter() {
        let name = &point.key.scenario;
        families.entry(name.clone()).or_insert_with(|| {
            if let Some((path, text)) = shipped::judging(name) {
                let scenario = Scenario::from_text(path, text, &shipped::Shipped).ok()?;
                return Some(Family::of(scenario, complaints));
            }
            shipped::scenario(name)?;
            let scenario = scenarios(std::slice::from_ref(name), complaints).pop()?;
            Some(Family::of(scenario, complaints))
        });
    }
    let bar = progress::bar(points.len() as u64, "runs");
    // One point at a time to a thread: they take very different times.
    let predicted: Vec<Result<RunRecord, Without>> = points
        .par_iter()
        .with_max_len(1)
        .map(|point| {
            let family = families.get(&point.key.scenario).and_then(Option::as_ref);
            let record =
                family.ok_or(Without::Scenario).and_then(|family| on.predict(family, point));
            bar.inc(1);
            record
        })
        .collect();
    bar.finish_and_clear();
    let (mut gone, mut changed): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let remember = |names: &mut Vec<String>, name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for (point, predicted) in points.iter_mut().zip(predicted) {
        match predicted {
            Ok(record) => point.predicted = Some(record),
            Err(Without::Scenario) => remember(&mut gone, point.key.scenario.clone()),
            Err(Without::Run) => remember(&mut changed, point.name()),
            Err(Without::Failed(errors)) => complaints.diagnostics(&errors),
        }
    }
    if !gone.is_empty() {
        notes.push(format!("measured, but no scenario of that name: {}", gone.join(", ")));
    }
    if !changed.is_empty() {
        notes.push(format!(
            "measured with parameters that the scenario does not have, not predicted: {}",
            changed.join(", ")
        ));
    }
}

impl On<'_> {
    fn predict(&self, family: &Family, point: &Point) -> Result<RunRecord, Without> {
        let run = family.run(&point.key).ok_or(Without::Run)?;
        let placed = match point.placed().and_then(|record| bases(&run, record)) {
            Some(bases) => Placed::Given(bases),
            None => Placed::Assumed(run.assumed_bases()),
        };
        let warm = point.placed().is_some_and(|record| record.cache == Some(CacheState::Warm));
        let traffic = model::traffic::Options { warm, ..traffic_options(&family.scenario, false) };
        let on = self.device.as_ref().map(|device| (device, &traffic));
        let options = count::Options::default();
        predict_at(run, self.arch, self.rules, placed, &options, on)
            .map(|prediction| prediction.record)
            .map_err(Without::Failed)
    }
}

/// Where a measured record has the buffers' first bytes.
fn bases(run: &Run, record: &RunRecord) -> Option<Vec<u64>> {
    let base = |buffer: &scenario::Buffer| -> Option<u64> {
        let placed = record.buffers.iter().find(|placed| placed.name == buffer.name)?;
        placed.base.checked_sub(buffer.offset_bytes)
    };
    run.buffers.iter().map(base).collect()
}

/// A scenario with its runs, at their full size and at the size for counting.
struct Family {
    scenario: Scenario,
    runs: Vec<Run>,
}

impl Family {
    fn of(scenario: Scenario, complaints: &mut Complaints) -> Self {
        let plans = |options| -> Vec<RunPlan> { scenario.runs(&[], options).unwrap_or_default() };
        let all = plans(Options::default()).into_iter().chain(plans(Options::for_counting()));
        let built = all.filter_map(|plan| match plan.build() {
            Ok(run) => Some(run),
            Err(errors) => {
                complaints.diagnostics(&errors);
                None
            }
        });
        Self { runs: built.collect(), scenario }
    }

    /// The run of a measured point: one of the scenario's own, or with the
    /// parameters that `measure --set` gave it.
    fn run(&self, key: &Key) -> Option<Run> {
        let is = |run: &Run| key.is(run.variant.as_deref(), &params(run));
        if let Some(run) = self.runs.iter().find(|run| is(run)) {
            return Some(run.clone());
        }
        let overrides: Vec<(String, String)> =
            key.params.iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect();
        let plans = self.scenario.runs(&overrides, Options::default()).ok()?;
        plans.iter().filter_map(|plan| plan.build().ok()).find(is)
    }
}

/// Pixels of a PNG for each of the SVG's.
const PNG_SCALE: f32 = 1.5;

/// Writes charts, claims and the report, each file whole or not at all.
fn write_folder(
    folder: &Path,
    contents: &Contents<'_>,
    drawn: &[Chart],
    judged: &[Judged],
) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for chart in drawn {
        write_whole(&folder.join(format!("{}.svg", chart.name)), chart.svg.as_bytes())?;
        let png = compare::png(&chart.svg, PNG_SCALE)?;
        write_whole(&folder.join(format!("{}.png", chart.name)), &png)?;
    }
    let claims = compare::claims::markdown(judged, contents.device);
    write_whole(&folder.join("claims.md"), claims.as_bytes())?;
    write_whole(&folder.join("report.html"), report::html(contents).as_bytes())
}
