//! `coalescope check`: fails where an access falls short.

use crate::args::CheckArgs;
use crate::commands::sim::predict;
use crate::commands::{GOOD, bad_input, check_failed};
use crate::output::write_whole;
use crate::selection::{Complaints, rule_sets, runs, scenarios};
use advise::check::{Baseline, Check, Invocation, Policy, Report, Subject, Thresholds, sarif};
use anstyle::AnsiColor;
use anyhow::{Context, Result};
use scenario::diagnostic::Style;
use scenario::source::SourceId;
use scenario::{Options, Run, Scenario};
use simulator::RuleSet;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

/// Judges every run that the arguments select.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode> {
    let mut complaints = Complaints::default();
    let rules = rule_sets(&args.arch, &mut complaints);
    let baseline = match &args.baseline {
        Some(path) => match read_baseline(path, &mut complaints) {
            Some(baseline) => Some(baseline),
            None => return Ok(bad_input()),
        },
        None => None,
    };
    let stored = baseline.is_some();
    let mut check = Check::new(policy(args), baseline, rules.len() > 1);
    let mut names = BTreeSet::new();
    for scenario in scenarios(&args.selection.scenarios, &mut complaints) {
        // Records have the name, not the path.
        if stored && !names.insert(scenario.name().to_owned()) {
            complaints.message(
                &format!("two scenario files are named `{}`", scenario.name()),
                "a baseline cannot tell them apart: rename one, or check them one by one",
            );
            continue;
        }
        judge(&scenario, &rules, args, &mut check, &mut complaints);
    }
    let report = check.finish();
    let code = match (complaints.any(), report.fails()) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    };
    // The file first: whoever reads what is said may go away before its end.
    if let Some(path) = args.sarif.as_ref().filter(|path| path.as_path() != Path::new("-")) {
        write_sarif(path, &report, code)?;
    }
    say(&report, args, complaints.any())?;
    if let Some(path) = args.sarif.as_ref().filter(|path| path.as_path() == Path::new("-")) {
        write_sarif(path, &report, code)?;
    }
    Ok(match code {
        0 => GOOD,
        1 => check_failed(),
        _ => bad_input(),
    })
}

/// What is asked for: both thresholds by default, else those given.
fn policy(args: &CheckArgs) -> Policy {
    let given =
        Thresholds { min_efficiency: args.min_efficiency, max_conflicts: args.max_conflicts };
    let any = given.min_efficiency.is_some() || given.max_conflicts.is_some();
    let selection = &args.selection;
    Policy {
        thresholds: any.then_some(given),
        all_runs: selection.variants.is_empty() && selection.overrides.is_empty(),
    }
}

/// The stored runs; bad lines are named and left out.
fn read_baseline(path: &Path, complaints: &mut Complaints) -> Option<Baseline> {
    let how = "store it with `coalescope sim SCENARIO… --json > FILE`";
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            complaints.message(&format!("cannot read {}: {error}", path.display()), how);
            return None;
        }
    };
    let (baseline, bad) = Baseline::read(BufReader::new(file));
    for line in &bad {
        complaints.message(
            &format!("{}: {line}", path.display()),
            "the other lines are used; store the baseline anew",
        );
    }
    for run in baseline.ambiguous() {
        complaints.message(
            &format!("{} has two different runs {run}", path.display()),
            "give scenario files of one name different names, or a baseline each",
        );
    }
    if baseline.is_empty() && bad.is_empty() {
        complaints.message(&format!("{} holds no predicted runs", path.display()), how);
    }
    (!baseline.is_empty()).then_some(baseline)
}

fn judge(
    scenario: &Scenario,
    rules: &[(String, RuleSet)],
    args: &CheckArgs,
    check: &mut Check,
    complaints: &mut Complaints,
) {
    let by_name = args.selection.scenarios.iter().any(|named| named == scenario.name());
    let called = |run: &Run| match run.sources.find(SourceId(0)) {
        Some(file) if !by_name => file.path.display().to_string(),
        _ => scenario.name().to_owned(),
    };
    for plan in runs(scenario, &args.selection, Options::default(), complaints) {
        for (arch, rules) in rules {
            match predict(&plan, arch, rules, args.exact) {
                Ok(prediction) => check.add(&Subject {
                    called: &called(&prediction.run),
                    plan: &plan,
                    run: &prediction.run,
                    arch,
                    rules,
                    record: &prediction.record,
                }),
                Err(errors) => {
                    complaints.diagnostics(&errors);
                    // Another rule set would say the same.
                    break;
                }
            }
        }
    }
}

/// Findings to standard error, each at its line; the sum to standard output.
fn say(report: &Report, args: &CheckArgs, incomplete: bool) -> Result<()> {
    for finding in report.failures().chain(report.warnings()) {
        anstream::eprintln!("{}\n", finding.diagnostic().render(Style::Coloured));
    }
    let note = AnsiColor::Cyan.on_default().bold();
    for remark in &report.remarks {
        anstream::eprintln!("{note}note{note:#}: {remark}");
    }
    let summary = summary(report, incomplete);
    if args.sarif.as_deref() == Some(Path::new("-")) {
        anstream::eprint!("{summary}");
    } else {
        write!(anstream::stdout().lock(), "{summary}")?;
    }
    Ok(())
}

fn summary(report: &Report, incomplete: bool) -> String {
    let plural = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let mut text = String::new();
    for finding in report.waived() {
        if let Some(waiver) = &finding.waiver {
            text.push_str(&format!(
                "waived in {}: {} ({})\n",
                finding.scenario, finding.message, waiver.reason
            ));
        }
    }
    let (failed, waived) = (report.failures().count(), report.waived().count());
    let colour = if failed > 0 || incomplete { AnsiColor::Red } else { AnsiColor::Green };
    let style = colour.on_default().bold();
    let verdict = match failed {
        0 if incomplete => "not everything could be judged".to_owned(),
        0 => "good".to_owned(),
        n => plural(n, "finding"),
    };
    text.push_str(&format!("{style}{verdict}{style:#}"));
    if waived > 0 {
        text.push_str(&format!(", {waived} waived"));
    }
    let warnings = report.warnings().count();
    if warnings > 0 {
        text.push_str(&format!(", {}", plural(warnings, "warning")));
    }
    text.push_str(&format!(
        "; {} in {} judged\n",
        if report.accesses == 1 {
            "1 access".to_owned()
        } else {
            format!("{} accesses", report.accesses)
        },
        plural(report.runs, "run")
    ));
    text
}

fn write_sarif(path: &Path, report: &Report, code: u8) -> Result<()> {
    let folder = std::env::current_dir().ok();
    let invocation = Invocation {
        version: env!("CARGO_PKG_VERSION"),
        information_uri: env!("CARGO_PKG_REPOSITORY"),
        exit_code: code,
        successful: code < 2,
        folder: folder.as_deref(),
    };
    let mut text = serde_json::to_vec_pretty(&sarif(report, &invocation))?;
    text.push(b'\n');
    if path == Path::new("-") {
        return std::io::stdout().lock().write_all(&text).context("cannot write the SARIF log");
    }
    write_whole(path, &text)
}
