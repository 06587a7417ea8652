//! `coalescope sim`: how a scenario's accesses fall on sectors and lines, what it
//! moves and how long it takes.

use crate::args::SimArgs;
use crate::commands::table::Report;
use crate::commands::{GOOD, bad_input};
use crate::progress;
use crate::selection::{Complaints, profile, rule_sets, runs, scenarios};
use anyhow::Result;
use model::Profile;
use model::predict::{Counted, KnownErrors};
use record::{Access, Bases, CacheState, KernelTotals, RunRecord, Source};
use scenario::count::{self, LaunchCounts};
use scenario::program::Scalar;
use scenario::run::ParamValue;
use scenario::{Diagnostics, Options, Run, RunPlan, Scenario};
use simulator::RuleSet;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// The profile that predicts where no other is named.
pub(crate) const DEFAULT_DEVICE: &str = "h200";

/// The rule set of a caller who names neither it nor a device.
pub(crate) const DEFAULT_ARCH: &str = "9.0";

/// Counts every run that the arguments select and prints the result.
pub(crate) fn run(args: &SimArgs) -> Result<ExitCode> {
    let mut complaints = Complaints::default();
    let profile = match &args.device {
        Some(name) => profile(name, &mut complaints),
        // Who names a rule set asks for counts alone.
        None if args.arch.is_empty() => Profile::shipped(DEFAULT_DEVICE),
        None => None,
    };
    let archs = match (&profile, args.arch.as_slice()) {
        (Some(profile), _) => vec![profile.arch.clone()],
        (None, []) => vec![DEFAULT_ARCH.to_owned()],
        (None, archs) => archs.to_vec(),
    };
    let rules = rule_sets(&archs, &mut complaints);
    if rules.is_empty() || args.device.is_some() && profile.is_none() {
        return Ok(bad_input());
    }
    let device = profile.map(Device::new);
    let scenarios = scenarios(&args.selection.scenarios, &mut complaints);
    let mut sink = Sink::new(args)?;
    for scenario in &scenarios {
        let plans = runs(scenario, &args.selection, Options::default(), &mut complaints);
        let mut report = Report::new(scenario, &rules, device.as_ref());
        let traffic = traffic_options(scenario, args.exact);
        for plan in plans {
            for (arch, rules) in &rules {
                let on = device.as_ref().map(|device| (device, &traffic));
                match predict_on(&plan, arch, rules, args.exact, on) {
                    Ok(prediction) => sink.one(&plan, &prediction, &mut report)?,
                    Err(errors) => {
                        complaints.diagnostics(&errors);
                        // Another rule set would say the same.
                        break;
                    }
                }
            }
        }
        sink.scenario(&mut report)?;
    }
    sink.finish()?;
    Ok(if complaints.any() { bad_input() } else { GOOD })
}

/// A device to predict for.
pub(crate) struct Device {
    pub(crate) profile: Profile,
    errors: KnownErrors,
}

impl Device {
    pub(crate) fn new(profile: Profile) -> Self {
        Self { profile, errors: KnownErrors::shipped() }
    }

    /// Adds what the profile says of a counted run.
    fn add_to(
        &self,
        record: &mut RunRecord,
        counted: &Counted<'_>,
        options: &model::traffic::Options,
    ) {
        record.device = Some(self.profile.name.clone());
        let cache = if options.warm { CacheState::Warm } else { CacheState::Cold };
        record.cache = Some(cache);
        model::predict::predict(counted, &self.profile, options, &self.errors).into_record(record);
    }
}

/// How the traffic of a scenario's runs is simulated.
pub(crate) fn traffic_options(scenario: &Scenario, exact: bool) -> model::traffic::Options {
    let together = scenario.runs(&[], Options::default()).map_or(1, |plans| plans.len());
    model::traffic::Options { exact, together, ..model::traffic::Options::default() }
}

/// A run with its counts by one rule set.
pub(crate) struct Prediction {
    pub(crate) run: Run,
    pub(crate) arch: String,
    pub(crate) rules: RuleSet,
    pub(crate) counts: LaunchCounts,
    pub(crate) record: RunRecord,
}

/// Builds a run and counts it.
pub(crate) fn predict(
    plan: &RunPlan,
    arch: &str,
    rules: &RuleSet,
    exact: bool,
) -> Result<Prediction, Diagnostics> {
    predict_on(plan, arch, rules, exact, None)
}

/// A device to predict for, and how its traffic is simulated.
pub(crate) type On<'a> = Option<(&'a Device, &'a model::traffic::Options)>;

/// Builds a run, counts it, and predicts it for a device.
fn predict_on(
    plan: &RunPlan,
    arch: &str,
    rules: &RuleSet,
    exact: bool,
    on: On<'_>,
) -> Result<Prediction, Diagnostics> {
    let run = plan.build()?;
    let bases = run.assumed_bases();
    let bar = progress::bar(0, "blocks");
    bar.set_message(format!("{} {}", run.scenario, plan.label()));
    let report = |done: u64, total: u64| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let options = count::Options { exact, progress: Some(&report), ..count::Options::default() };
    let prediction = predict_at(run, arch, rules, Placed::Assumed(bases), &options, on);
    bar.finish_and_clear();
    prediction
}

/// Where the buffers lie, and why.
pub(crate) enum Placed {
    /// No device.
    Assumed(Vec<u64>),
    /// Where a measured record has them.
    Given(Vec<u64>),
}

/// Counts a run that is built, with its buffers at given places, and predicts
/// it for a device.
pub(crate) fn predict_at(
    run: Run,
    arch: &str,
    rules: &RuleSet,
    placed: Placed,
    options: &count::Options<'_>,
    on: On<'_>,
) -> Result<Prediction, Diagnostics> {
    let (bases, how) = match placed {
        Placed::Assumed(bases) => (bases, Bases::Assumed),
        Placed::Given(bases) => (bases, Bases::Given),
    };
    let counts = count::count(&run, rules, &bases, options)
        .map_err(|error| Diagnostics::new(Arc::clone(&run.sources), vec![error]))?;
    let mut record = record_of(&run, arch, &counts, &bases);
    record.bases = Some(how);
    if let Some((device, traffic)) = on {
        let counted = Counted { run: &run, rules, bases: &bases, sites: &counts.sites };
        device.add_to(&mut record, &counted, traffic);
    }
    Ok(Prediction { run, arch: arch.to_owned(), rules: rules.clone(), counts, record })
}

/// The parameters of a run as records have them.
pub(crate) fn params(run: &Run) -> record::Map<record::Value> {
    run.params.iter().map(|(name, value)| (name.clone(), param(*value))).collect()
}

/// A parameter as records have it.
fn param(value: ParamValue) -> record::Value {
    match (value.ty, value.integer(), value.float()) {
        (Scalar::Bool, ..) => record::Value::Bool(value.value != 0),
        (_, Some(integer), _) => record::Value::Integer(integer),
        (_, None, real) => record::Value::Real(real.unwrap_or(f64::NAN)),
    }
}

/// The run record of a prediction.
fn record_of(run: &Run, arch: &str, counts: &LaunchCounts, bases: &[u64]) -> RunRecord {
    let launch = record::Launch {
        grid: run.launch.grid,
        block: run.launch.block,
        registers: run.launch.registers,
        shared_bytes: Some(run.program.shared_bytes),
    };
    let mut record = RunRecord::new(run.scenario.clone(), Source::Predicted, launch);
    record.variant = run.variant.clone();
    record.params = params(run);
    record.arch = Some(arch.to_owned());
    record.buffers = run
        .buffers
        .iter()
        .zip(bases)
        .map(|(buffer, &base)| record::Buffer {
            name: buffer.name.clone(),
            base: base.saturating_add(buffer.offset_bytes),
            bytes: buffer.bytes,
            pitch: buffer.pitch,
        })
        .collect();
    let sites = || run.program.sites.iter().zip(&counts.sites);
    record.accesses = sites()
        .map(|(site, counted)| {
            let line = u32::try_from(run.sources.line(site.span)).ok();
            let mut access =
                Access::new(site.label.clone(), line, site.op, site.width, counted.totals.clone());
            access.sampled = counted.sampled.as_ref().map(|sampled| record::Sampled {
                warps: sampled.warps,
                of: sampled.of,
                bounds: sampled
                    .bounds
                    .iter()
                    .map(|(field, bound)| (field.name().to_owned(), *bound))
                    .collect(),
            });
            access
        })
        .collect();
    record.totals =
        Some(KernelTotals::of(sites().map(|(site, counted)| (site.op, &counted.totals))));
    record
}

/// Where results go: tables, JSON Lines or CSV.
enum Sink {
    Tables,
    Json,
    Csv(Box<record::CsvWriter<std::io::StdoutLock<'static>>>),
}

impl Sink {
    fn new(args: &SimArgs) -> Result<Self> {
        Ok(match (args.json, args.csv) {
            (true, _) => Self::Json,
            (_, true) => Self::Csv(Box::new(record::CsvWriter::new(std::io::stdout().lock())?)),
            _ => Self::Tables,
        })
    }

    fn one(&mut self, plan: &RunPlan, prediction: &Prediction, report: &mut Report) -> Result<()> {
        match self {
            Self::Tables => report.add(plan, prediction),
            Self::Json => record::write_run(std::io::stdout().lock(), &prediction.record)?,
            Self::Csv(writer) => writer.write(&prediction.record)?,
        }
        Ok(())
    }

    fn scenario(&mut self, report: &mut Report) -> Result<()> {
        if matches!(self, Self::Tables) && !report.is_empty() {
            report.advise();
            write!(anstream::stdout().lock(), "{report}")?;
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        if let Self::Csv(writer) = self {
            drop(writer.finish()?);
        }
        Ok(())
    }
}
