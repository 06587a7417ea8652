//! `coalescope suggest`: the layouts of a scenario, ranked, and the scenario
//! file of the best one.

use crate::args::SuggestArgs;
use crate::commands::{GOOD, bad_input};
use crate::output::write_whole;
use crate::selection::{Complaints, rule_sets, runs, scenarios};
use advise::suggest::{self, Candidate, Suggestions};
use anstyle::{AnsiColor, Style};
use anyhow::{Result, bail};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
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
    let rules = rule_sets(std::slice::from_ref(&args.arch), &mut complaints);
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
    let found = match suggest::suggest(plan, rules) {
        Ok(found) => found,
        Err(errors) => {
            complaints.diagnostics(&errors);
            return Ok(bad_input());
        }
    };
    if let Some(best) = found.best() {
        kept(plan, best, rules, args.write.as_deref())?;
    }
    if args.json {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &Answer::new(plan, arch, &found))?;
        writeln!(out)?;
    } else {
        report(plan, arch, &found, args.all)?;
        if plan.build()?.program.shared_bytes > 0 {
            writeln!(
                anstream::stdout().lock(),
                "Shared arrays keep their shape here; `coalescope explain` counts their pads and swizzles."
            )?;
        }
    }
    if let (Some(path), Some(best)) = (&args.write, found.best()) {
        write_whole(path, best.toml.as_bytes())?;
        let note = AnsiColor::Cyan.on_default().bold();
        anstream::eprintln!("{note}note{note:#}: wrote {}", path.display());
    }
    Ok(GOOD)
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

/// The answer as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    format: &'static str,
    scenario: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<&'a str>,
    arch: &'a str,
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
}

#[derive(Serialize)]
struct Refused<'a> {
    layout: &'a str,
    reason: &'a str,
}

impl<'a> Answer<'a> {
    fn new(plan: &'a RunPlan, arch: &'a str, found: &'a Suggestions) -> Self {
        Self {
            format: "coalescope-suggest/1",
            scenario: plan.scenario(),
            variant: plan.variant(),
            arch,
            present_is_best: found.best().is_none(),
            ranked: found
                .ranked
                .iter()
                .map(|candidate| Ranked {
                    layout: candidate.layout.to_string(),
                    present: candidate.layout.is_present(),
                    blocks: [candidate.extent.blocks.to_string(), candidate.extent.of.to_string()],
                    totals: &candidate.totals,
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

/// The table, what was refused, and the file of the best layout.
fn report(plan: &RunPlan, arch: &str, found: &Suggestions, all: bool) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let (bold, dim) = (Style::new().bold(), AnsiColor::BrightBlack.on_default());
    let label = plan.label();
    let named = if label.is_empty() { String::new() } else { format!(" [{label}]") };
    writeln!(
        out,
        "{bold}{}{named}: layouts by what they move, compute capability {arch}{bold:#}",
        plan.scenario()
    )?;
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let transactions = found.present.totals.sectors.is_none();
    let mut header = vec![right(String::new()), Cell::new("layout")];
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
        table.add_row(vec![
            right((place + 1).to_string()),
            Cell::new(name),
            right(traffic),
            right(share),
            right(units::or_unknown(totals.unique_efficiency(), units::percent)),
            right(scaled(totals.get(Field::Requests))),
            right(scaled(totals.get(Field::TagWavefronts))),
            right(scaled(totals.get(Field::DataWavefronts))),
        ]);
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
    writeln!(
        out,
        "{dim}Sectors are those that L1 is asked for; what it keeps from L2 and DRAM by hits is left out.{dim:#}"
    )?;
    for (layout, reason) in &found.refused {
        writeln!(out, "{dim}not tried: {} ({reason}){dim:#}", layout.replace('`', ""))?;
    }
    match found.best() {
        None => writeln!(out, "\nThe present layout is the best of these.")?,
        Some(best) => {
            writeln!(
                out,
                "\n{bold}The best, {}:{bold:#}\n",
                best.layout.to_string().replace('`', "")
            )?;
            writeln!(out, "{}", best.toml)?;
        }
    }
    Ok(())
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
