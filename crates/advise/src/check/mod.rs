//! Thresholds and baselines: which accesses fall short, at which line, by how
//! much.
//!
//! [`Check`] takes counted runs one after the other and judges each access
//!
//! - by [`Thresholds`]: the unique efficiency of global accesses (distinct bytes
//!   ÷ bytes moved, at most 100 %), and the bank conflicts a request of shared
//!   ones. A global access of which every request moves one sector can't move
//!   less, however few of its bytes are used: a broadcast passes.
//! - by a [`Baseline`], the stored output of `coalescope sim --json`: no access
//!   may be worse than it was. What the baseline doesn't have is judged by the
//!   thresholds.
//!
//! A `[[allow]]` of the scenario, with its reason, lets an access fall to a
//! lower threshold. Such a [`Finding`] stays in the report, suppressed; a waiver
//! that nothing needs is itself found.
//!
//! What an access does in many runs (variants, sweep points, architectures) is
//! one finding, worded for the worst of them.

mod baseline;
mod finding;
mod sarif;

pub use baseline::Baseline;
pub use finding::{Finding, Rule, Waiver};
pub use sarif::{Invocation, sarif};

use crate::pairing::Pairing;
use crate::{Options, Verdict, advise, why};
use baseline::{Found, Regression};
use finding::{Draft, Drafts, Place};
use record::{Access, RunRecord, units};
use scenario::diagnostic::{Severity, known_names};
use scenario::eval::{Evaluator, Limits};
use scenario::program::{Site, SiteId};
use scenario::run::Allow;
use scenario::{Run, RunPlan, Span};
use simulator::{Field, RuleSet, Space, Totals};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What an access must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Least unique efficiency of a global access; 1.0 is 100 %. `None`: any.
    pub min_efficiency: Option<f64>,
    /// Most bank conflicts a request of a shared access. `None`: any.
    pub max_conflicts: Option<f64>,
}

/// What is asked for where nothing else is said: 80 % and no conflicts. A load
/// that is off by one element has exactly 80 % and passes: the sector that it
/// touches in addition is usually its neighbour's.
impl Default for Thresholds {
    fn default() -> Self {
        Self { min_efficiency: Some(0.8), max_conflicts: Some(0.0) }
    }
}

/// How strict a check is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Policy {
    /// Thresholds that were asked for. `None`: the default ones, and only for
    /// what the baseline doesn't have, where there is one.
    pub thresholds: Option<Thresholds>,
    /// Whether the runs are all that the scenarios have. Only then can it be
    /// said that a waiver is unused or that a stored run is gone.
    pub all_runs: bool,
}

/// A counted run.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// What the command calls the scenario by: a shipped one's name, or a path.
    pub called: &'a str,
    /// What it was made of.
    pub plan: &'a RunPlan,
    /// The run.
    pub run: &'a Run,
    /// Compute capability that it was counted for.
    pub arch: &'a str,
    /// The rule set of that.
    pub rules: &'a RuleSet,
    /// Its record: one access for each of the program's sites, in their order.
    pub record: &'a RunRecord,
}

impl Subject<'_> {
    /// Site, counts and number of every access that was executed.
    fn accesses(&self) -> impl Iterator<Item = (usize, &Site, &Access)> {
        let sites = self.run.program.sites.iter().zip(&self.record.accesses);
        sites.enumerate().map(|(number, (site, access))| (number, site, access))
    }

    fn place(&self, span: Option<Span>) -> Place {
        Place { sources: Arc::clone(&self.run.sources), span }
    }

    fn waiver(&self, label: &str, of: fn(&Allow) -> Option<f64>) -> Option<(&Allow, f64)> {
        let mut waivers = self.run.allows.iter().filter(|allow| allow.label == label);
        waivers.find_map(|allow| of(allow).map(|limit| (allow, limit)))
    }
}

/// A check in progress.
#[derive(Debug)]
pub struct Check {
    policy: Policy,
    baseline: Option<Baseline>,
    drafts: Drafts,
    waivers: Waivers,
    /// Scenarios and architectures that were judged.
    seen: BTreeSet<(String, Option<String>)>,
    several_archs: bool,
    runs: usize,
    accesses: usize,
    remarks: Vec<String>,
}

/// What a check found.
#[derive(Debug, Default)]
pub struct Report {
    /// Failures, waived failures and warnings, by scenario and place.
    pub findings: Vec<Finding>,
    /// Runs that were judged.
    pub runs: usize,
    /// Accesses that were judged, each once a run.
    pub accesses: usize,
    /// What is to be known about the comparison with the baseline.
    pub remarks: Vec<String>,
}

impl Report {
    /// Whether something fails: an error that is not waived.
    pub fn fails(&self) -> bool {
        self.failures().next().is_some()
    }

    /// The errors that are not waived.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.fails())
    }

    /// The errors that are waived.
    pub fn waived(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.waiver.is_some())
    }

    /// What is said without failing.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity < Severity::Error)
    }
}

impl Check {
    /// A check by `policy` of runs for one architecture, or several.
    pub fn new(policy: Policy, baseline: Option<Baseline>, several_archs: bool) -> Self {
        Self {
            policy,
            baseline,
            several_archs,
            drafts: Drafts::default(),
            waivers: Waivers::default(),
            seen: BTreeSet::new(),
            runs: 0,
            accesses: 0,
            remarks: Vec::new(),
        }
    }

    /// Judges a run.
    pub fn add(&mut self, subject: &Subject<'_>) {
        self.runs += 1;
        self.seen.insert((subject.record.scenario.clone(), subject.record.arch.clone()));
        self.waivers.declare(subject);
        let found = self.baseline.as_mut().map(|baseline| baseline.find(subject.record));
        let compared = match found {
            None => BTreeSet::new(),
            Some(Found::Run { stored, remark }) => {
                if let Some(remark) = remark {
                    self.remark(format!("{}: {remark}", subject.record.point()));
                }
                self.compare(subject, &stored)
            }
            Some(Found::Nothing { why }) => {
                let draft = self
                    .draft(Rule::OutdatedBaseline, subject, None)
                    .message(format!("the baseline has no run to judge this one by: {why}"))
                    .short(why)
                    .help("it is judged by the thresholds; store the baseline anew to guard it");
                self.drafts.push(draft);
                BTreeSet::new()
            }
        };
        let everywhere = self.policy.thresholds.is_some() || self.baseline.is_none();
        let thresholds = self.policy.thresholds.unwrap_or_default();
        for (number, site, access) in subject.accesses() {
            if access.counts.requests.is_none_or(|requests| requests == 0) {
                continue;
            }
            self.accesses += 1;
            if everywhere || !compared.contains(&number) {
                self.judge(subject, SiteId(number), site, access, thresholds);
            }
        }
    }

    /// Everything found.
    pub fn finish(mut self) -> Report {
        if self.policy.all_runs {
            let judged = match (self.policy.thresholds, &self.baseline) {
                (None, Some(_)) => None,
                (thresholds, _) => Some(thresholds.unwrap_or_default()),
            };
            for draft in self.waivers.unused(judged) {
                self.drafts.push(draft);
            }
            if let Some(baseline) = &self.baseline {
                for stored in baseline.unused(&self.seen) {
                    self.remarks.push(format!("stored, but no longer a run: {}", stored.point()));
                }
            }
        }
        if let Some(baseline) = self.baseline {
            self.remarks.extend(baseline.into_remarks());
        }
        Report {
            findings: self.drafts.finish(),
            runs: self.runs,
            accesses: self.accesses,
            remarks: self.remarks,
        }
    }

    fn remark(&mut self, remark: String) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// A finding about `site` of a run, or about the run.
    fn draft(&self, rule: Rule, subject: &Subject<'_>, site: Option<&Site>) -> Draft {
        let mut run = subject.plan.label();
        if self.several_archs {
            let arch = format!("CC {}", subject.arch);
            run = if run.is_empty() { arch } else { format!("{run}, {arch}") };
        }
        Draft::new(rule, &subject.record.scenario, run, subject.place(site.map(|site| site.span)))
            .access(site.map(|site| site.label.as_str()))
    }

    fn judge(
        &mut self,
        subject: &Subject<'_>,
        id: SiteId,
        site: &Site,
        access: &Access,
        thresholds: Thresholds,
    ) {
        let totals = &access.counts;
        let (rule, threshold, shortfall, of): (_, _, _, fn(&Allow) -> Option<f64>) =
            match site.op.space {
                Space::Global => {
                    let (Some(threshold), Some(efficiency)) =
                        (thresholds.min_efficiency, totals.unique_efficiency())
                    else {
                        return;
                    };
                    if moves_the_least(totals, subject.rules) {
                        return;
                    }
                    // Above 0 where it falls short, the more the worse.
                    (Rule::GlobalEfficiency, threshold, -efficiency, |allow| allow.min_efficiency)
                }
                Space::Shared => {
                    let (Some(threshold), Some(conflicts)) =
                        (thresholds.max_conflicts, totals.per_request(Field::BankConflicts))
                    else {
                        return;
                    };
                    (Rule::BankConflicts, threshold, conflicts, |allow| allow.max_conflicts)
                }
                // How local memory is laid out is not the author's choice.
                Space::Local => return,
            };
        let beyond = |limit: f64| match rule {
            Rule::GlobalEfficiency => -shortfall < limit,
            _ => shortfall > limit,
        };
        if !beyond(threshold) {
            return;
        }
        let headline = match rule {
            Rule::GlobalEfficiency => {
                let (value, limit) = percent_apart(-shortfall, threshold);
                format!("`{}` has a unique efficiency of {value}, less than {limit}", site.label)
            }
            _ => {
                let (value, limit) = (units::average(shortfall), units::average(threshold));
                format!("`{}` has {value} bank conflicts a request, more than {limit}", site.label)
            }
        };
        let short = match rule {
            Rule::GlobalEfficiency => percent_apart(-shortfall, threshold).0,
            _ => units::average(shortfall),
        };
        let mut draft = self
            .draft(rule, subject, Some(site))
            .message(headline)
            .short(short)
            .badness(shortfall)
            .label(cost(totals, site.op.space));
        if let Some((allow, limit)) = subject.waiver(&site.label, of) {
            self.waivers.used(subject, allow);
            if beyond(limit) {
                let limit = match rule {
                    Rule::GlobalEfficiency => units::percent(limit),
                    _ => units::average(limit),
                };
                draft = draft.note(format!("waived down to {limit} only: {}", allow.reason));
            } else {
                draft = draft.waived(allow);
            }
        }
        let draft = self.explained(draft, subject, id, totals);
        self.drafts.push(draft);
    }

    /// With the reason and the remedy, where that is worth finding out.
    fn explained(&self, draft: Draft, subject: &Subject<'_>, id: SiteId, totals: &Totals) -> Draft {
        if !self.drafts.is_worst(&draft) {
            return draft;
        }
        let mut draft = draft;
        if !totals.exact {
            draft = draft.note(format!(
                "on compute capability {} these counts are not known to be the device's own",
                subject.arch
            ));
        }
        let (notes, help) = reason(subject, id);
        notes.into_iter().fold(draft, Draft::note).help(help)
    }

    /// Compares with a stored run. Gives the numbers of the accesses that it
    /// has.
    fn compare(&mut self, subject: &Subject<'_>, stored: &RunRecord) -> BTreeSet<usize> {
        let comparison = baseline::Comparison::new(stored, subject.record);
        for remark in comparison.remarks() {
            self.remark(format!("{}: {remark}", subject.record.point()));
        }
        let Pairing { pairs, only_a, only_b } = &comparison.pairing;
        let mut compared = BTreeSet::new();
        for pair in pairs {
            let (Some(before), Some(now), Some(site)) = (
                stored.accesses.get(pair.a),
                subject.record.accesses.get(pair.b),
                subject.run.program.sites.get(pair.b),
            ) else {
                continue;
            };
            compared.insert(pair.b);
            let Some(regression) = comparison.worse(before, now, site.op) else { continue };
            let draft = self.regression(subject, site, before, now, &regression);
            let draft = self.explained(draft, subject, SiteId(pair.b), &now.counts);
            self.drafts.push(draft);
        }
        let new = |number: &usize| Some((*number, subject.run.program.sites.get(*number)?));
        for (_, site) in only_b.iter().filter_map(new) {
            let draft = self
                .draft(Rule::OutdatedBaseline, subject, Some(site))
                .message(format!("`{}` is not in the baseline", site.label))
                .label("new here")
                .help("it is judged by the thresholds; store the baseline anew to guard it");
            self.drafts.push(draft);
        }
        for gone in only_a.iter().filter_map(|&number| stored.accesses.get(number)) {
            let line = gone.line.map_or_else(String::new, |line| format!(", line {line} then"));
            let draft = self
                .draft(Rule::OutdatedBaseline, subject, None)
                .access(Some(&gone.label))
                .message(format!("`{}` of the baseline{line}, is gone", gone.label))
                .help("store the baseline anew if it was meant to go");
            self.drafts.push(draft);
        }
        compared
    }

    fn regression(
        &mut self,
        subject: &Subject<'_>,
        site: &Site,
        before: &Access,
        now: &Access,
        regression: &Regression,
    ) -> Draft {
        let mut draft = self
            .draft(Rule::WorseThanBaseline, subject, Some(site))
            .message(format!(
                "`{}` is worse than its baseline: {}",
                site.label,
                regression.headline()
            ))
            .short(regression.headline())
            .badness(regression.factor())
            .label(cost(&now.counts, site.op.space));
        if before.label != now.label {
            draft = draft.note(format!("compared with `{}` of the baseline", before.label));
        }
        for line in regression.lines() {
            draft = draft.note(line);
        }
        let waiver = match site.op.space {
            Space::Shared => subject
                .waiver(&site.label, |allow| allow.max_conflicts)
                .zip(now.counts.per_request(Field::BankConflicts))
                .filter(|((_, limit), conflicts)| conflicts <= limit),
            _ => subject
                .waiver(&site.label, |allow| allow.min_efficiency)
                .zip(now.counts.unique_efficiency())
                .filter(|((_, limit), efficiency)| efficiency >= limit),
        };
        if let Some(((allow, _), _)) = waiver {
            self.waivers.used(subject, allow);
            draft = draft.waived(allow);
        }
        draft
    }
}

/// Whether no request could move less than it does: one sector each, or one of
/// the smallest transactions (32 bytes on CC 1.x–2.x, as the sectors of the
/// later ones).
fn moves_the_least(totals: &Totals, rules: &RuleSet) -> bool {
    let least = u128::from(rules.sector_bytes().unwrap_or(SMALLEST_TRANSACTION_BYTES));
    match (totals.moved_bytes, totals.requests) {
        (Some(moved), Some(requests)) => moved <= requests.saturating_mul(least),
        _ => false,
    }
}

/// The smallest transaction of CC 1.x (CUDA C Programming Guide 4.2, F.3.2).
const SMALLEST_TRANSACTION_BYTES: u32 = 32;

/// What stands beside the caret: the cost of a request.
fn cost(totals: &Totals, space: Space) -> String {
    let average = |field| totals.per_request(field).map(units::average);
    if space == Space::Shared {
        return average(Field::DataWavefronts)
            .map_or_else(String::new, |waves| format!("{waves} data wavefronts a request"));
    }
    let sectors = average(Field::Sectors).map(|n| format!("{n} sectors a request: "));
    let transactions =
        average(Field::Transactions).map(|n| format!("{n} transactions a request: "));
    let what = transactions.or(sectors).unwrap_or_default();
    match (average(Field::MovedBytes), average(Field::UniqueBytes)) {
        (Some(moved), Some(used)) => format!("{what}{moved} B moved, {used} B of them used"),
        _ => what,
    }
}

/// Warp accesses that advice on a finding looks at: enough to see the pattern,
/// few enough that a hundred findings take no minute.
const ADVICE_ACCESSES: usize = 1 << 12;

/// Why it costs what it does, whether that matters, and what would help.
fn reason(subject: &Subject<'_>, id: SiteId) -> (Vec<String>, String) {
    let bases = subject.run.assumed_bases();
    let mut notes = Vec::new();
    let first = Evaluator::new(subject.run, &bases, Limits::default())
        .and_then(|evaluator| evaluator.accesses_of([0, 0, 0], 0))
        .unwrap_or_default()
        .into_iter()
        .find(|occurrence| occurrence.site == id);
    if let Some(first) = first {
        let why = why::explain(subject.rules, &first.access);
        notes.push(format!("the first warp: {}", why.sentence));
    }
    let look = format!(
        "`coalescope explain {} --access {}` shows it lane by lane",
        subject.called,
        id.0 + 1
    );
    let options = Options { accesses: ADVICE_ACCESSES, ..Options::default() };
    let advice = advise(subject.run, subject.rules, &bases, Some(&[id]), &options);
    let help = match advice.unwrap_or_default().first() {
        Some(advice) if advice.verdict == Verdict::Poor => {
            notes.extend(advice.caveat());
            format!("{} {look}", advice.sentence())
        }
        Some(advice) if advice.verdict == Verdict::Ideal => {
            format!(
                "it costs what its width and its lanes need; let more lanes take part, or waive it with [[allow]]; {look}"
            )
        }
        _ => look,
    };
    (notes, help)
}

/// Two different shares as percent, with as many decimals as it takes to tell
/// them apart.
fn percent_apart(a: f64, b: f64) -> (String, String) {
    let digits = |decimals: usize, share: f64| format!("{:.decimals$}", share * 100.0);
    (2..=9)
        .find(|&decimals| digits(decimals, a) != digits(decimals, b))
        .filter(|_| units::percent(a) == units::percent(b))
        .map_or_else(
            || (units::percent(a), units::percent(b)),
            |decimals| (format!("{} %", digits(decimals, a)), format!("{} %", digits(decimals, b))),
        )
}

/// Which waivers were needed.
#[derive(Debug, Default)]
struct Waivers {
    /// By scenario and the entry's place.
    all: BTreeMap<(String, u32), Declared>,
}

#[derive(Debug)]
struct Declared {
    scenario: String,
    allow: Allow,
    place: Place,
    /// Labels of all runs' accesses.
    labels: BTreeSet<String>,
    used: bool,
}

impl Waivers {
    fn declare(&mut self, subject: &Subject<'_>) {
        for allow in &subject.run.allows {
            let declared = self.all.entry(Self::key(subject, allow)).or_insert_with(|| Declared {
                scenario: subject.run.scenario.clone(),
                allow: allow.clone(),
                place: subject.place(Some(allow.span)),
                labels: BTreeSet::new(),
                used: false,
            });
            let labels = subject.run.program.sites.iter().map(|site| site.label.clone());
            declared.labels.extend(labels);
        }
    }

    fn key(subject: &Subject<'_>, allow: &Allow) -> (String, u32) {
        let path = subject.run.sources.get(allow.span.source).path.display().to_string();
        (path, allow.span.start)
    }

    fn used(&mut self, subject: &Subject<'_>, allow: &Allow) {
        if let Some(declared) = self.all.get_mut(&Self::key(subject, allow)) {
            declared.used = true;
        }
    }

    /// Those that nothing needed; `judged` are the thresholds by which every
    /// access was judged.
    fn unused(self, judged: Option<Thresholds>) -> impl Iterator<Item = Draft> {
        self.all.into_values().filter(|declared| !declared.used).filter_map(move |declared| {
            let Declared { scenario, allow, place, labels, .. } = declared;
            let (why, help) = if !labels.contains(&allow.label) {
                (
                    "no access has that label",
                    known_names(&allow.label, "labels", labels.iter().map(String::as_str)),
                )
            } else {
                // Whether somebody needs it is known only of what was judged.
                let judged = judged?;
                let unknown = (allow.min_efficiency.is_some() && judged.min_efficiency.is_none())
                    || (allow.max_conflicts.is_some() && judged.max_conflicts.is_none());
                if unknown {
                    return None;
                }
                ("no run needs it", "delete the entry".to_owned())
            };
            Some(
                Draft::new(Rule::UnusedWaiver, &scenario, String::new(), place)
                    .access(Some(&allow.label))
                    .message(format!("the waiver for `{}` is unused", allow.label))
                    .label(why)
                    .help(help),
            )
        })
    }
}

#[cfg(test)]
mod tests;
