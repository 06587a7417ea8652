//! `coalescope suggest`: the layouts of a scenario, ranked, and the scenario
//! file of the best one.

use crate::args::SuggestArgs;
use crate::commands::sim::{DEFAULT_ARCH, DEFAULT_DEVICE};
use crate::commands::{GOOD, bad_input};
use crate::output::write_whole;
use crate::selection::{Complaints, profile, rule_sets, runs, scenarios};
use advise::suggest::{self, Candidate, Suggestions};
use anstyle::{AnsiColor, Style};
use anyhow::{Result, bail};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use model::Profile;
use model::predict::KnownErrors;
use record::units;
use scenario::{Options, RunPlan, SourceId};
use serde::Serialize;
use simulator::{Field, RuleSet, Totals};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Rows of the table, beyond which layouts are only counted.
const MOST_ROWS: usize = 12;

/// Searches the layouts of the one run that the arguments select.
pub(crate) fn run(args: &SuggestArgs) -> Result<ExitCode> {
    let mut complaints = Complaints::default();
    let profile = match (&args.device, &args.arch) {
        (Some(name), _) => profile(name, &mut complaints),
        // Who names a rule set asks for counts alone.
        (None, Some(_)) => None,
        (None, None) => Profile::shipped(DEFAULT_DEVICE),
    };
    let arch = profile.as_ref().map(|profile| profile.arch.clone()).or_else(|| args.arch.clone());
    let arch = arch.unwrap_or_else(|| DEFAULT_ARCH.to_owned());
    let rules = rule_sets(&[arch], &mut complaints);
    let mut plans = Vec::new();
    for scenario in scenarios(&args.selection.scenarios, &mut complaints) {
        plans.extend(runs(&scenario, &args.selection, Options::default(), &mut complaints));
    }
    let (Some((arch, rules)), Some(plan), false) = (rules.first(), plans.first(), complaints.any())
    else {
        return Ok(bad_input());
    };
    if plans.len() > 1 {
        let note = AnsiColor::Cyan.on_default().bold();
        anstream::eprintln!(
            "{note}note{note:#}: {} runs are selected, this is the first ({}); choose with --variant and --set",
            plans.len(),
            plan.label()
        );
    }
    let found = match suggest::suggest(plan, rules, profile.as_ref()) {
        Ok(found) => found,
        Err(errors) => {
            complaints.diagnostics(&errors);
            return Ok(bad_input());
        }
    };
    if let Some(path) = &args.write {
        is_another(plan, path)?;
    }
    if let Some(best) = found.best() {
        kept(plan, best, rules, args.write.as_deref())?;
    }
    // The file first: whoever reads what is said may go away before its end.
    if let (Some(path), Some(best)) = (&args.write, found.best()) {
        write_whole(path, best.toml.as_bytes())?;
        let note = AnsiColor::Cyan.on_default().bold();
        anstream::eprintln!("{note}note{note:#}: wrote {}", path.display());
    }
    let errors = KnownErrors::shipped();
    let known_error = profile
        .as_ref()
        .and_then(|profile| errors.of(profile, plan.scenario()))
        .map(|error| error.mean);
    let timed = Timed::of(profile.as_ref(), &found, known_error);
    if args.json {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &Answer::new(plan, arch, &found, timed.as_ref()))?;
        writeln!(out)?;
    } else {
        report(plan, arch, &found, timed.as_ref(), args.all)?;
        if plan.build()?.program.shared_bytes > 0 {
            writeln!(
                anstream::stdout().lock(),
                "Shared arrays keep their shape here; `coalescope explain` counts their pads and swizzles."
            )?;
        }
    }
    Ok(GOOD)
}

/// Whether `path` is a file other than those that the scenario was read from.
fn is_another(plan: &RunPlan, path: &Path) -> Result<()> {
    let Ok(there) = path.canonicalize() else { return Ok(()) };
    let own = plan.build()?.sources.get(SourceId(0)).path.clone();
    if own.canonicalize().is_ok_and(|own| own == there) {
        bail!(
            "{} is the scenario itself, which would be lost: give --write another name, and compare \
             the two with `coalescope diff`",
            path.display()
        );
    }
    Ok(())
}

/// Runs the best layout's file once more, from its text, before it is shown.
fn kept(plan: &RunPlan, best: &Candidate, rules: &RuleSet, write: Option<&Path>) -> Result<()> {
    let run = plan.build()?;
    let own = run.sources.get(SourceId(0)).path.clone();
    let path = write.unwrap_or(&own);
    if !suggest::verify(best, path, rules)? {
        bail!(
            "the file of the best layout ({}) does not cost what was counted: please report this with the scenario",
            best.layout
        );
    }
    Ok(())
}

/// What ranks layouts where their times are predicted.
struct Timed<'a> {
    device: &'a str,
    /// Seconds of the present layout.
    present: f64,
    /// How far the model's times were found to lie from measured ones.
    known_error: Option<f64>,
}

impl<'a> Timed<'a> {
    fn of(
        profile: Option<&'a Profile>,
        found: &Suggestions,
        known_error: Option<f64>,
    ) -> Option<Self> {
        let present = found.present.seconds()?;
        Some(Self { device: &profile?.device, present, known_error })
    }

    /// A candidate's time as a share of the present one's, less 1.
    fn change(&self, candidate: &Candidate) -> Option<f64> {
        Some(candidate.seconds()? / self.present - 1.0)
    }

    /// Whether a candidate's time differs by less than what the model is known to
    /// be off.
    fn is_within_known_error(&self, candidate: &Candidate) -> bool {
        self.change(candidate)
            .zip(self.known_error)
            .is_some_and(|(change, error)| change.abs() < error)
    }

    /// The change in words.
    fn change_text(&self, candidate: &Candidate) -> String {
        if candidate.layout.is_present() {
            return String::new();
        }
        let change = units::or_unknown(self.change(candidate), units::signed_percent);
        match self.is_within_known_error(candidate) {
            true => format!("{change}, less than the known error"),
            false => change,
        }
    }

    fn known_error_text(&self) -> String {
        match self.known_error {
            Some(error) => format!("known error {}", units::percent(error)),
            None => "error not known".to_owned(),
        }
    }
}

/// The answer as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    format: &'static str,
    scenario: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<&'a str>,
    arch: &'a str,
    /// What ranks the layouts: `time` or `counts`.
    ranked_by: &'static str,
    /// The device whose times rank them.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
    /// How far predicted times were found to lie from measured ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    known_error: Option<f64>,
    /// Whether the present layout is the best.
    present_is_best: bool,
    ranked: Vec<Ranked<'a>>,
    refused: Vec<Refused<'a>>,
    /// The scenario file of the best layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<&'a str>,
}

#[derive(Serialize)]
struct Ranked<'a> {
    layout: String,
    present: bool,
    /// Blocks that were counted, and those of the launch.
    blocks: [String; 2],
    totals: &'a Totals,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_by: Option<&'a str>,
    /// Whether the time differs from the present one's by less than the known
    /// error.
    #[serde(skip_serializing_if = "Option::is_none")]
    within_known_error: Option<bool>,
}

#[derive(Serialize)]
struct Refused<'a> {
    layout: &'a str,
    reason: &'a str,
}

impl<'a> Answer<'a> {
    fn new(
        plan: &'a RunPlan,
        arch: &'a str,
        found: &'a Suggestions,
        timed: Option<&Timed<'a>>,
    ) -> Self {
        let known_error = timed.and_then(|timed| timed.known_error);
        Self {
            format: "coalescope-suggest/1",
            scenario: plan.scenario(),
            variant: plan.variant(),
            arch,
            ranked_by: if timed.is_some() { "time" } else { "counts" },
            device: timed.map(|timed| timed.device),
            known_error,
            present_is_best: found.best().is_none(),
            ranked: found
                .ranked
                .iter()
                .map(|candidate| Ranked {
                    layout: candidate.layout.to_string(),
                    present: candidate.layout.is_present(),
                    blocks: [candidate.extent.blocks.to_string(), candidate.extent.of.to_string()],
                    totals: &candidate.totals,
                    seconds: candidate.seconds(),
                    bound_by: bound_by(candidate),
                    within_known_error: timed
                        .filter(|timed| timed.known_error.is_some())
                        .map(|timed| timed.is_within_known_error(candidate)),
                })
                .collect(),
            refused: found
                .refused
                .iter()
                .map(|(layout, reason)| Refused { layout, reason })
                .collect(),
            best: found.best().map(|best| best.toml.as_str()),
        }
    }
}

/// The part of the device that bounds a candidate's time.
fn bound_by(candidate: &Candidate) -> Option<&str> {
    candidate.time.as_ref()?.bound_by.as_deref()
}

/// The table, what was refused, and the file of the best layout.
fn report(
    plan: &RunPlan,
    arch: &str,
    found: &Suggestions,
    timed: Option<&Timed<'_>>,
    all: bool,
) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let (bold, dim) = (Style::new().bold(), AnsiColor::BrightBlack.on_default());
    let label = plan.label();
    let named = if label.is_empty() { String::new() } else { format!(" [{label}]") };
    let by = match timed {
        Some(timed) => format!("predicted time on {} ({})", timed.device, timed.known_error_text()),
        None => format!("what they move, compute capability {arch}"),
    };
    writeln!(out, "{bold}{}{named}: layouts by {by}{bold:#}", plan.scenario())?;
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let transactions = found.present.totals.sectors.is_none();
    let mut header = vec![right(String::new()), Cell::new("layout")];
    if timed.is_some() {
        header.push(right("time".to_owned()));
        header.push(Cell::new("change"));
        header.push(Cell::new("bound by"));
    }
    for name in [
        if transactions { "moved" } else { "sectors" },
        "of the present",
        "used",
        "requests",
        "tag waves",
        "data waves",
    ] {
        header.push(right(name.to_owned()));
    }
    table.set_header(header);
    let moved = |candidate: &Candidate| candidate.totals.sectors.or(candidate.totals.moved_bytes);
    let present = moved(&found.present);
    let rows = if all { found.ranked.len() } else { MOST_ROWS };
    for (place, candidate) in found.ranked.iter().enumerate() {
        // The present layout is always there to compare with.
        if place >= rows && !candidate.layout.is_present() {
            continue;
        }
        let totals = &candidate.totals;
        let share = match (moved(candidate), present) {
            (Some(this), Some(present)) if present > 0 => {
                units::percent(this as f64 / present as f64)
            }
            _ => units::UNKNOWN.to_owned(),
        };
        let scaled = |count: Option<u128>| {
            units::or_unknown(count, |count| units::count(candidate.extent.scale(count)))
        };
        let traffic = if transactions {
            units::or_unknown(totals.moved_bytes, |bytes| {
                units::bytes(candidate.extent.scale(bytes))
            })
        } else {
            scaled(totals.sectors)
        };
        let name = candidate.layout.to_string().replace('`', "");
        let mut cells = vec![right((place + 1).to_string()), Cell::new(name)];
        if let Some(timed) = timed {
            cells.push(right(units::or_unknown(candidate.seconds(), units::seconds)));
            cells.push(Cell::new(timed.change_text(candidate)));
            cells.push(Cell::new(bound_by(candidate).unwrap_or(units::UNKNOWN)));
        }
        cells.extend([
            right(traffic),
            right(share),
            right(units::or_unknown(totals.unique_efficiency(), units::percent)),
            right(scaled(totals.get(Field::Requests))),
            right(scaled(totals.get(Field::TagWavefronts))),
            right(scaled(totals.get(Field::DataWavefronts))),
        ]);
        table.add_row(cells);
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    let hidden = found.ranked.len().saturating_sub(rows);
    if hidden > 0 {
        writeln!(out, "{dim}{hidden} more with --all{dim:#}")?;
    }
    if !found.present.extent.is_whole() {
        writeln!(
            out,
            "{dim}estimated from {} of {} blocks{dim:#}",
            units::count(found.present.extent.blocks),
            units::count(found.present.extent.of)
        )?;
    }
    let sectors = match timed {
        Some(_) => "Sectors are those that L1 is asked for; the time is of what L2 and DRAM move.",
        None => {
            "Sectors are those that L1 is asked for; what it keeps from L2 and DRAM by hits is left out."
        }
    };
    writeln!(out, "{dim}{sectors}{dim:#}")?;
    for (layout, reason) in &found.refused {
        writeln!(out, "{dim}not tried: {} ({reason}){dim:#}", layout.replace('`', ""))?;
    }
    match found.best() {
        None if found.refused.is_empty() => {
            writeln!(out, "\nThe present layout is the best of these.")?;
        }
        None => writeln!(
            out,
            "\nThe present layout is the best of those that were tried; others were not, see above."
        )?,
        Some(best) => {
            let name = best.layout.to_string().replace('`', "");
            if timed.is_some_and(|timed| timed.is_within_known_error(best)) {
                writeln!(
                    out,
                    "\nThe best differs from the present layout by less than the model's known error."
                )?;
            }
            writeln!(out, "\n{bold}The best, {name}:{bold:#}\n")?;
            writeln!(out, "{}", best.toml)?;
        }
    }
    Ok(())
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
