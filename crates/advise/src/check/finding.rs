//! What a check says: rules, findings, and how those of many runs become one.

use scenario::diagnostic::{Kind, Severity};
use scenario::run::Allow;
use scenario::{Diagnostic, Diagnostics, Sources, Span};
use std::sync::Arc;

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// A global access uses too few of the bytes that it moves.
    GlobalEfficiency,
    /// A shared access has too many bank conflicts.
    BankConflicts,
    /// An access is worse than the stored run has it.
    WorseThanBaseline,
    /// The baseline has something else than the scenario: runs, accesses.
    OutdatedBaseline,
    /// A waiver that nothing needs.
    UnusedWaiver,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::GlobalEfficiency,
        Self::BankConflicts,
        Self::WorseThanBaseline,
        Self::OutdatedBaseline,
        Self::UnusedWaiver,
    ];

    /// Its name in reports: `global-efficiency`.
    pub const fn id(self) -> &'static str {
        match self {
            Self::GlobalEfficiency => "global-efficiency",
            Self::BankConflicts => "bank-conflicts",
            Self::WorseThanBaseline => "worse-than-baseline",
            Self::OutdatedBaseline => "outdated-baseline",
            Self::UnusedWaiver => "unused-waiver",
        }
    }

    /// How much it weighs.
    pub const fn severity(self) -> Severity {
        match self {
            Self::GlobalEfficiency | Self::BankConflicts | Self::WorseThanBaseline => {
                Severity::Error
            }
            Self::OutdatedBaseline | Self::UnusedWaiver => Severity::Warning,
        }
    }

    /// What it asks for, one sentence.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::GlobalEfficiency => {
                "A warp's access to global memory uses most of the bytes that it moves."
            }
            Self::BankConflicts => "A warp's access to shared memory is free of bank conflicts.",
            Self::WorseThanBaseline => "No access is worse than the stored run has it.",
            Self::OutdatedBaseline => "The baseline has the runs and accesses that there are.",
            Self::UnusedWaiver => "Every waiver is needed.",
        }
    }

    /// What it means and what to do, a paragraph.
    pub const fn help(self) -> &'static str {
        match self {
            Self::GlobalEfficiency => {
                "The GPU moves whole sectors. Unique efficiency is the number of distinct bytes that a warp's lanes ask for, divided by the bytes of the sectors that they touch. Let neighbouring lanes access neighbouring addresses: index by threadIdx.x without a factor, store structures as arrays of fields, align rows. `coalescope explain` draws the access lane by lane. If the access may fall short, say so in the scenario with a reason: [[allow]] with `label`, `min_efficiency` and `reason`."
            }
            Self::BankConflicts => {
                "Lanes that want different words of one bank of shared memory wait for each other: each bank conflict is one more pass. Pad the rows of the array by one element, or swizzle its columns. `coalescope explain` draws the access bank by bank. If the conflicts may stay, say so in the scenario with a reason: [[allow]] with `label`, `max_conflicts` and `reason`."
            }
            Self::WorseThanBaseline => {
                "The access costs more than in the run that was stored with `coalescope sim --json`, or uses less of what it moves. Undo the change of the layout or of the index, or store the baseline anew if the cost is meant."
            }
            Self::OutdatedBaseline => {
                "The scenario has a run or an access that the stored runs don't have, or the other way round, so it is not compared. What is new is judged by the thresholds. Store the baseline anew with `coalescope sim --json`."
            }
            Self::UnusedWaiver => {
                "An entry [[allow]] of the scenario lets no access pass that would not pass without it: its label names none, or the access has become better. Delete it, or mend its label."
            }
        }
    }
}

/// Where something was found.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) sources: Arc<Sources>,
    /// `None`: the scenario as a whole.
    pub(super) span: Option<Span>,
}

/// A waiver that a finding is covered by.
#[derive(Clone, Debug)]
pub struct Waiver {
    /// Why the access may fall short.
    pub reason: String,
    /// The entry in the scenario.
    pub span: Span,
}

/// Something found, in one place, in one or more runs.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which rule.
    pub rule: Rule,
    /// How much it weighs.
    pub severity: Severity,
    /// Name of the scenario.
    pub scenario: String,
    /// Label of the access.
    pub access: Option<String>,
    /// The texts that places point into.
    pub sources: Arc<Sources>,
    /// The access; `None`: the scenario as a whole.
    pub span: Option<Span>,
    /// The worst run in one sentence.
    pub message: String,
    /// Words beside the caret.
    pub label: String,
    /// Facts of the worst run.
    pub notes: Vec<String>,
    /// The remedy.
    pub help: String,
    /// The runs that it is true of, each with its figure; the worst first.
    /// A scenario of a single run has it without a name.
    pub runs: Vec<(String, String)>,
    /// What it is waived by.
    pub waiver: Option<Waiver>,
    /// Stays the same while lines move: made of rule, scenario and access.
    pub fingerprint: String,
}

/// Runs that a message lists by name.
const RUNS_LISTED: usize = 6;

impl Finding {
    /// Whether the check fails by it.
    pub fn fails(&self) -> bool {
        self.severity == Severity::Error && self.waiver.is_none()
    }

    /// In which runs, in words; `None` where there is nothing to tell apart.
    pub fn in_runs(&self) -> Option<String> {
        let (worst, rest) = self.runs.split_first()?;
        if worst.0.is_empty() {
            return None;
        }
        let mut text = format!("in the run: {}", worst.0);
        if !rest.is_empty() {
            text.push_str("; also in: ");
            let named: Vec<String> = rest
                .iter()
                .take(RUNS_LISTED)
                .map(|(run, figure)| match figure.as_str() {
                    "" => run.clone(),
                    figure => format!("{run} ({figure})"),
                })
                .collect();
            text.push_str(&named.join("; "));
            if rest.len() > named.len() {
                text.push_str(&format!("; and {} more", rest.len() - named.len()));
            }
        }
        Some(text)
    }

    /// As a message with its place and remedy.
    pub fn diagnostic(&self) -> Diagnostics {
        let mut diagnostic = match self.span {
            Some(span) => Diagnostic::new(Kind::Finding, span, &*self.message, &*self.help)
                .label(&*self.label),
            None => Diagnostic::whole_file(Kind::Finding, &*self.message, &*self.help),
        }
        .severity(self.severity);
        diagnostic.notes.extend(self.in_runs());
        diagnostic.notes.extend(self.notes.iter().cloned());
        Diagnostics::new(Arc::clone(&self.sources), vec![diagnostic])
    }
}

/// A finding in one run.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    finding: Finding,
    /// The more the worse; comparable within a rule.
    badness: f64,
}

impl Draft {
    pub(super) fn new(rule: Rule, scenario: &str, run: String, place: Place) -> Self {
        let finding = Finding {
            rule,
            severity: rule.severity(),
            scenario: scenario.to_owned(),
            access: None,
            sources: place.sources,
            span: place.span,
            message: String::new(),
            label: String::new(),
            notes: Vec::new(),
            help: String::new(),
            runs: vec![(run, String::new())],
            waiver: None,
            fingerprint: String::new(),
        };
        Self { finding, badness: 0.0 }
    }

    pub(super) fn access(mut self, label: Option<&str>) -> Self {
        self.finding.access = label.map(str::to_owned);
        self
    }

    pub(super) fn message(mut self, message: String) -> Self {
        self.finding.message = message;
        self
    }

    /// The figure of this run in a list of runs.
    pub(super) fn short(mut self, figure: String) -> Self {
        if let Some(run) = self.finding.runs.first_mut() {
            run.1 = figure;
        }
        self
    }

    pub(super) fn badness(mut self, badness: f64) -> Self {
        self.badness = badness;
        self
    }

    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.finding.label = label.into();
        self
    }

    pub(super) fn note(mut self, note: String) -> Self {
        self.finding.notes.push(note);
        self
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.finding.help = help.into();
        self
    }

    pub(super) fn waived(mut self, allow: &Allow) -> Self {
        self.finding.waiver = Some(Waiver { reason: allow.reason.clone(), span: allow.span });
        self
    }

    /// Whether both are about the same: they become one finding.
    fn is_like(&self, other: &Self) -> bool {
        let (a, b) = (&self.finding, &other.finding);
        let path = |finding: &Finding| {
            let span = finding.span?;
            finding.sources.find(span.source).map(|source| source.path.clone())
        };
        a.rule == b.rule
            && a.scenario == b.scenario
            && a.access == b.access
            && a.waiver.is_some() == b.waiver.is_some()
            && a.span.map(|span| (span.start, span.end))
                == b.span.map(|span| (span.start, span.end))
            && path(a) == path(b)
            && (a.access.is_some() || a.rule != Rule::OutdatedBaseline || a.label == b.label)
    }
}

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct Drafts(Vec<Draft>);

impl Drafts {
    /// Whether the message of `draft` would be the one that is shown.
    pub(super) fn is_worst(&self, draft: &Draft) -> bool {
        self.0.iter().find(|known| known.is_like(draft)).is_none_or(|k| draft.badness > k.badness)
    }

    /// Adds it to what is known of its place.
    pub(super) fn push(&mut self, mut draft: Draft) {
        match self.0.iter_mut().find(|known| known.is_like(&draft)) {
            None => self.0.push(draft),
            Some(known) if draft.badness > known.badness => {
                draft.finding.runs.append(&mut known.finding.runs);
                *known = draft;
            }
            Some(known) => known.finding.runs.append(&mut draft.finding.runs),
        }
    }

    /// All of them by scenario and place, with their fingerprints.
    pub(super) fn finish(self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.0.into_iter().map(|draft| draft.finding).collect();
        findings.sort_by_key(|finding| {
            let place = finding.span.map(|span| (span.source, span.start));
            (finding.scenario.clone(), place, finding.rule)
        });
        let mut seen: Vec<String> = Vec::new();
        for finding in &mut findings {
            let access = finding.access.as_deref().unwrap_or("");
            let mut name = format!("{}\n{}\n{access}", finding.rule.id(), finding.scenario);
            // The same label may stand in the kernels of several variants.
            let nth = seen.iter().filter(|known| **known == name).count();
            seen.push(name.clone());
            if nth > 0 {
                name.push_str(&format!("\n{nth}"));
            }
            finding.fingerprint = format!("{:016x}", fnv1a(name.as_bytes()));
        }
        findings
    }
}

/// FNV-1a, 64 bits (<http://www.isthe.com/chongo/tech/comp/fnv/>): short, and
/// the same in every version of the program, which is all that is asked of it.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::fnv1a;

    /// Test vectors of the algorithm's authors.
    #[test]
    fn hashes_as_published() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
