//! `coalescope diff`: two scenarios, variants or record files side by side.

use crate::args::{DiffArgs, Selection};
use crate::commands::sim::predict;
use crate::commands::{GOOD, bad_input, check_failed};
use crate::selection::{Complaints, rule_sets, runs, scenarios};
use advise::diff::{Figure, OnlyRun, Row, RunDiff, Side, diff, match_runs};
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use record::{Access, RunRecord, read_runs, units};
use scenario::Options;
use simulator::RuleSet;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

/// Compares what the arguments name.
pub(crate) fn run(args: &DiffArgs) -> Result<ExitCode> {
    let mut complaints = Complaints::default();
    let rules = rule_sets(std::slice::from_ref(&args.arch), &mut complaints);
    let (Some((arch, rules)), Some([a, b])) = (rules.first(), sides(args, &mut complaints)) else {
        return Ok(bad_input());
    };
    let a = records(&a, args, arch, rules, &mut complaints);
    let b = records(&b, args, arch, rules, &mut complaints);
    let matched = match_runs(&a, &b);
    let differences: Vec<RunDiff<'_>> = matched
        .pairs
        .iter()
        .filter_map(|&(of_a, of_b)| Some(diff(a.get(of_a)?, b.get(of_b)?)))
        .collect();
    let only_a: Vec<&RunRecord> = matched.only_a.iter().filter_map(|&run| a.get(run)).collect();
    let only_b: Vec<&RunRecord> = matched.only_b.iter().filter_map(|&run| b.get(run)).collect();

    let mut out = anstream::stdout().lock();
    if args.json {
        for difference in &differences {
            writeln!(out, "{}", serde_json::to_string(difference)?)?;
        }
        for (side, only) in [(Side::A, &only_a), (Side::B, &only_b)] {
            for run in only {
                writeln!(out, "{}", serde_json::to_string(&OnlyRun(side, run))?)?;
            }
        }
    } else {
        for difference in &differences {
            print(&mut out, difference)?;
        }
        for (side, only) in [("A", &only_a), ("B", &only_b)] {
            for run in only {
                writeln!(out, "only in {side}: {}", name(run))?;
            }
        }
    }
    let differs =
        !only_a.is_empty() || !only_b.is_empty() || differences.iter().any(RunDiff::differs);
    Ok(match (complaints.any(), differs && args.exit_code) {
        (true, _) => bad_input(),
        (false, true) => check_failed(),
        (false, false) => GOOD,
    })
}

/// What one side names.
struct Named {
    /// A scenario, or a file of records.
    what: String,
    /// The variants to take; none: all.
    variants: Vec<String>,
}

/// The two sides: two names, or one with two variants.
fn sides(args: &DiffArgs, complaints: &mut Complaints) -> Option<[Named; 2]> {
    match (args.sides.as_slice(), args.variants.as_slice()) {
        ([a, b], variants) => Some([a, b].map(|text| named(text, variants))),
        ([both], [a, b]) => Some(
            [a, b].map(|variant| Named { what: both.clone(), variants: vec![variant.clone()] }),
        ),
        _ => {
            complaints.message(
                "there is nothing to compare with",
                "name two scenarios or files, or one with --variant twice",
            );
            None
        }
    }
}

/// `scenario:variant`, or a name with the variants given for both sides.
fn named(text: &str, variants: &[String]) -> Named {
    match text.rsplit_once(':') {
        // A file may have a colon in its name, and a drive one after its
        // letter.
        Some((what, variant))
            if !Path::new(text).exists() && !variant.contains(['/', '\\']) && !what.is_empty() =>
        {
            Named { what: what.to_owned(), variants: vec![variant.to_owned()] }
        }
        _ => Named { what: text.to_owned(), variants: variants.to_vec() },
    }
}

/// The runs of one side: a record file's, or those of a scenario, counted.
fn records(
    side: &Named,
    args: &DiffArgs,
    arch: &str,
    rules: &RuleSet,
    complaints: &mut Complaints,
) -> Vec<RunRecord> {
    let path = Path::new(&side.what);
    let mut found = Vec::new();
    if path.is_file() && path.extension().is_none_or(|extension| extension != "toml") {
        found = stored(path, complaints);
        found.retain(|run| {
            let of_variant = side.variants.is_empty()
                || run.variant.as_ref().is_some_and(|variant| side.variants.contains(variant));
            let of_params = args.overrides.iter().all(|(name, value)| {
                run.params.get(name).is_some_and(|of_run| of_run.to_string() == *value)
            });
            of_variant && of_params
        });
    } else {
        let selection = Selection {
            scenarios: vec![side.what.clone()],
            overrides: args.overrides.clone(),
            variants: side.variants.clone(),
        };
        for scenario in scenarios(&selection.scenarios, complaints) {
            for plan in runs(&scenario, &selection, Options::default(), complaints) {
                match predict(&plan, arch, rules, args.exact) {
                    Ok(prediction) => found.push(prediction.record),
                    Err(errors) => complaints.diagnostics(&errors),
                }
            }
        }
    }
    if found.is_empty() && !complaints.any() {
        complaints.message(
            &format!("{} has no such run", side.what),
            "leave --set and --variant out to see which it has",
        );
    }
    found
}

fn stored(path: &Path, complaints: &mut Complaints) -> Vec<RunRecord> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            complaints.message(
                &format!("cannot read {}: {error}", path.display()),
                "name a file of run records, such as `coalescope sim --json` prints",
            );
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for run in read_runs(BufReader::new(file)) {
        match run {
            Ok(run) => found.push(run),
            Err(line) => complaints
                .message(&format!("{}: {line}", path.display()), "the other lines are used"),
        }
    }
    found
}

/// `transpose:tiled width=8192 (predicted, CC 9.0)`.
fn name(run: &RunRecord) -> String {
    let source = match run.source {
        record::Source::Predicted => "predicted",
        record::Source::Measured => "measured",
    };
    let on = run.device.clone().or_else(|| Some(format!("CC {}", run.arch.as_ref()?)));
    let on = on.map_or_else(String::new, |on| format!(", {on}"));
    format!("{} ({source}{on})", run.point())
}

fn print(out: &mut impl Write, difference: &RunDiff<'_>) -> Result<()> {
    let bold = Style::new().bold();
    writeln!(out, "{bold}A: {}{bold:#}", name(difference.a))?;
    writeln!(out, "{bold}B: {}{bold:#}", name(difference.b))?;
    if difference.a.launch != difference.b.launch {
        let launch = |run: &RunRecord| {
            let ([x, y, z], [bx, by, bz]) = (run.launch.grid, run.launch.block);
            format!("grid {x}×{y}×{z}, block {bx}×{by}×{bz}")
        };
        writeln!(out, "launch: A {}; B {}", launch(difference.a), launch(difference.b))?;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let number = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
    table.set_header(vec![
        Cell::new("access"),
        Cell::new("quantity"),
        number("A"),
        number("B"),
        number("B − A"),
        number("B ÷ A"),
    ]);
    for access in &difference.accesses {
        let (Some(a), Some(b)) =
            (difference.a.accesses.get(access.pair.a), difference.b.accesses.get(access.pair.b))
        else {
            continue;
        };
        let label = if a.label == b.label {
            a.label.clone()
        } else {
            format!("{} ↔ {}", a.label, b.label)
        };
        add(&mut table, &label, &access.rows);
    }
    add(&mut table, "kernel", &difference.kernel);
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    for (side, only) in [("A", &difference.only_a), ("B", &difference.only_b)] {
        for access in only {
            writeln!(out, "only in {side}: {}", described(access))?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// The rows that differ; that there are none is said.
fn add(table: &mut Table, label: &str, rows: &[Row]) {
    let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut label = Some(label);
    for row in rows.iter().filter(|row| row.differs()) {
        let better = row.ratio().filter(|&ratio| ratio != 1.0).map(|ratio| {
            let more = ratio > 1.0;
            let good = matches!(row.a, Some(Figure::Share(_) | Figure::Rate(_)));
            if more == good { AnsiColor::Green } else { AnsiColor::Red }
        });
        // Bytes asked for are work, neither good nor bad.
        let judged = !matches!(row.name.as_str(), "requested_bytes" | "unique_bytes");
        let style = better.filter(|_| judged).map_or_else(Style::new, AnsiColor::on_default);
        let ratio = units::or_unknown(row.ratio(), |ratio| format!("×{}", three_digits(ratio)));
        table.add_row(vec![
            Cell::new(label.take().unwrap_or("")),
            Cell::new(row.name.replace('_', " ")),
            number(units::or_unknown(row.a, |a| shown(a, &row.name))),
            number(units::or_unknown(row.b, |b| shown(b, &row.name))),
            number(units::or_unknown(row.difference(), |(less, by)| {
                let by = match by {
                    // Of two shares, not a share of one of them.
                    Figure::Share(_) => shown(by, &row.name).replace('%', "points"),
                    by => shown(by, &row.name),
                };
                format!("{}{by}", if less { '−' } else { '+' })
            })),
            number(format!("{style}{ratio}{style:#}")),
        ]);
    }
    if let Some(label) = label {
        table.add_row(vec![Cell::new(label), Cell::new("no difference")]);
    }
}

fn shown(figure: Figure, name: &str) -> String {
    match figure {
        Figure::Count(n) if name.ends_with("bytes") => units::bytes(n),
        Figure::Count(n) => units::count(n),
        Figure::Average(x) => units::average(x),
        Figure::Share(x) => units::percent(x),
        Figure::Seconds(x) => units::seconds(x),
        Figure::Rate(x) => units::bytes_per_s(x),
    }
}

fn three_digits(ratio: f64) -> String {
    if ratio >= 100.0 { format!("{ratio:.0}") } else { format!("{ratio:.3}") }
}

fn described(access: &Access) -> String {
    let line = access.line.map_or_else(String::new, |line| format!(" (line {line})"));
    let requests = units::or_unknown(access.counts.requests, units::count);
    format!("{}{line}, {} {} B, {requests} requests", access.label, access.op, access.width)
}
