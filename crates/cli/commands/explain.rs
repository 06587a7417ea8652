//! `coalescope explain`: lane by lane, where one warp's accesses go, and why
//! they cost what they cost.

use crate::args::ExplainArgs;
use crate::commands::{GOOD, bad_input, what_if};
use crate::output::write_whole;
use crate::selection::{Complaints, rule_sets, runs, scenarios};
use advise::SiteAdvice;
use anyhow::Result;
use scenario::eval::{Evaluator, Limits, Occurrence};
use scenario::program::SiteId;
use scenario::{Diagnostic, Diagnostics, Options, Run, RunPlan};
use simulator::RuleSet;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// Draws the accesses that the arguments select, of the first run selected.
pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let mut complaints = Complaints::default();
    let rules = rule_sets(std::slice::from_ref(&args.arch), &mut complaints);
    let mut plans = Vec::new();
    for scenario in scenarios(&args.selection.scenarios, &mut complaints) {
        plans.extend(runs(&scenario, &args.selection, Options::default(), &mut complaints));
    }
    let (Some((_, rules)), Some(plan), false) = (rules.first(), plans.first(), complaints.any())
    else {
        return Ok(bad_input());
    };
    let built = match plan.build() {
        Ok(run) => run,
        Err(errors) => {
            complaints.diagnostics(&errors);
            return Ok(bad_input());
        }
    };
    let found = match select(&built, args) {
        Ok(found) => found,
        Err(error) => {
            complaints.diagnostics(&Diagnostics::new(Arc::clone(&built.sources), vec![*error]));
            return Ok(bad_input());
        }
    };
    if found.is_empty() {
        let number = built.program.sites.len();
        let access = args.access.as_deref().and_then(|access| access.parse::<usize>().ok());
        match access.filter(|access| *access > number) {
            Some(access) => complaints.message(
                &format!("there is no access {access}: the kernel has {number}"),
                "`coalescope sim` lists them with their numbers",
            ),
            None => complaints.message(
                "this warp executes no such access",
                "choose another with --access (numbers from 1), --block and --warp",
            ),
        }
        return Ok(bad_input());
    }
    let mut out = anstream::stdout().lock();
    let label = label(plan, args);
    let named = if label.is_empty() { String::new() } else { format!(" [{label}]") };
    let sites: Vec<SiteId> = found.iter().map(|occurrence| occurrence.site).collect();
    let advice = match advise::advise(
        &built,
        rules,
        &built.assumed_bases(),
        Some(&sites),
        &advise::Options::default(),
    ) {
        Ok(advice) => advice,
        Err(error) => {
            complaints.diagnostics(&Diagnostics::new(Arc::clone(&built.sources), vec![error]));
            return Ok(bad_input());
        }
    };
    // The file first: whoever reads what is said may go away before its end.
    if let (Some(path), Some(first)) = (&args.svg, found.first()) {
        let title = format!("{}{named}: {}", built.scenario, title(&built, first));
        let notes = sentences(rules, first, advice.iter().find(|a| a.site == first.site));
        let picture = draw::svg_with_notes(rules, &first.access, &title, &notes);
        write_whole(path, picture.as_bytes())?;
    }
    for occurrence in &found {
        let title = title(&built, occurrence);
        let bold = anstyle::Style::new().bold();
        writeln!(out, "{bold}{}{named}: {title}{bold:#}", built.scenario)?;
        write!(out, "{}", draw::text(rules, &occurrence.access))?;
        writeln!(
            out,
            "\n{}\n",
            reason(rules, occurrence, advice.iter().find(|advice| advice.site == occurrence.site))
        )?;
    }
    Ok(GOOD)
}

/// The accesses of the warp, each place once: the first time it is executed.
fn select(run: &Run, args: &ExplainArgs) -> Result<Vec<Occurrence>, Box<Diagnostic>> {
    let evaluator = Evaluator::new(run, &run.assumed_bases(), Limits::default())?;
    let mut found = evaluator.accesses_of(args.block, args.warp)?;
    found.retain(|occurrence| {
        occurrence.occurrence == 0
            && match &args.access {
                None => true,
                Some(wanted) => {
                    run.program
                        .sites
                        .get(occurrence.site.0)
                        .is_some_and(|site| site.label == *wanted)
                        || wanted.parse::<usize>().is_ok_and(|n| n == occurrence.site.0 + 1)
                }
            }
    });
    Ok(found)
}

/// `in[i * stride] in line 12, access 1`.
fn title(run: &Run, occurrence: &Occurrence) -> String {
    match run.program.sites.get(occurrence.site.0) {
        Some(site) => format!(
            "{} in line {}, access {}",
            site.label,
            run.sources.line(site.span),
            occurrence.site.0 + 1
        ),
        None => format!("access {}", occurrence.site.0 + 1),
    }
}

/// The run's label, with the parameters that were set: they decide what is seen.
fn label(plan: &RunPlan, args: &ExplainArgs) -> String {
    let set = args.selection.overrides.iter().map(|(name, value)| format!("{name} = {value}"));
    let label = plan.label();
    (!label.is_empty()).then_some(label).into_iter().chain(set).collect::<Vec<_>>().join(", ")
}

/// Why so many, the smallest change, and what the caches make of it.
fn sentences(rules: &RuleSet, occurrence: &Occurrence, advice: Option<&SiteAdvice>) -> Vec<String> {
    let why = advise::why::explain(rules, &occurrence.access);
    let mut sentences = vec![format!("Why: {}.", why.sentence)];
    if let Some(advice) = advice {
        sentences.push(format!("Smallest change: {}", advice.sentence()));
        sentences.extend(advice.caveat().map(|caveat| format!("Does it matter? {caveat}")));
    }
    sentences
}

/// The sentences; then, for a poor access, every change that was tried.
fn reason(rules: &RuleSet, occurrence: &Occurrence, advice: Option<&SiteAdvice>) -> String {
    let mut text = sentences(rules, occurrence, advice).join("\n");
    if let Some(advice) = advice.filter(|advice| !advice.counterfactuals.is_empty()) {
        text.push_str(&format!("\n\n{}", what_if::table(advice)));
    }
    text
}
