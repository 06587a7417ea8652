//! Stored runs, and what it means to be worse than one.

use crate::pairing::{Pairing, pair};
use record::{Access, BadLine, RunRecord, Source, Value, read_runs, units};
use simulator::{Field, Op, Space, Totals};
use std::collections::BTreeSet;
use std::io::BufRead;
use std::sync::Arc;

/// A stored run.
pub(super) type Stored = Arc<RunRecord>;

/// The runs that a check compares with: what `coalescope sim --json` printed.
#[derive(Debug, Default)]
pub struct Baseline {
    runs: Vec<(Stored, bool)>,
    remarks: Vec<String>,
    ambiguous: Vec<String>,
}

/// What a baseline has for a run.
pub(super) enum Found {
    Run { stored: Stored, remark: Option<String> },
    Nothing { why: String },
}

impl Baseline {
    /// Reads stored runs. Lines that are none are returned beside it; the rest
    /// is used. Of two records of the same run the later counts.
    pub fn read(input: impl BufRead) -> (Self, Vec<BadLine>) {
        let mut baseline = Self::default();
        let mut bad = Vec::new();
        let (mut others, mut replaced) = (0_usize, 0_usize);
        for run in read_runs(input) {
            match run {
                Err(line) => bad.push(line),
                Ok(run) if run.source != Source::Predicted || run.error.is_some() => others += 1,
                Ok(run) => {
                    let same = baseline.runs.iter_mut().find(|(known, _)| {
                        same_but_params(known, &run)
                            && known.arch == run.arch
                            && known.params.len() == run.params.len()
                            && unlike_params(known, &run).is_empty()
                    });
                    let run = (Arc::new(run), false);
                    match same {
                        Some(known) => {
                            if known.0.accesses != run.0.accesses {
                                baseline.ambiguous.push(run.0.point());
                            }
                            *known = run;
                            replaced += 1;
                        }
                        None => baseline.runs.push(run),
                    }
                }
            }
        }
        if others > 0 {
            baseline.remarks.push(format!(
                "{others} records of the baseline are measured or failed, and not used"
            ));
        }
        if replaced > 0 {
            baseline.remarks.push(format!(
                "runs that the baseline has more than once: {replaced}; the last of each is used"
            ));
        }
        (baseline, bad)
    }

    /// Runs that it has more than once, with different counts: of scenario
    /// files of one name, say. What they are compared with is not known.
    pub fn ambiguous(&self) -> &[String] {
        &self.ambiguous
    }

    /// How many runs it has.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The stored run that `now` is to be compared with: of the same scenario,
    /// variant, architecture and parameters; where there is none, the only one
    /// whose parameters agree as far as both have them.
    pub(super) fn find(&mut self, now: &RunRecord) -> Found {
        let named: Vec<usize> = self.indices(|stored| same_but_params(stored, now));
        if named.is_empty() {
            let known = self.runs.iter().any(|(stored, _)| stored.scenario == now.scenario);
            let why = match &now.variant {
                Some(variant) if known => format!("it has no variant `{variant}`"),
                _ if known => "it has this scenario with variants only".to_owned(),
                _ => format!("it has no scenario `{}`", now.scenario),
            };
            return Found::Nothing { why };
        }
        let on_arch =
            self.indices(|stored| same_but_params(stored, now) && stored.arch == now.arch);
        if on_arch.is_empty() {
            let mut archs: Vec<&str> =
                named.iter().filter_map(|&index| self.runs.get(index)?.0.arch.as_deref()).collect();
            archs.sort_unstable();
            archs.dedup();
            let why = format!("it has compute capability {} only", archs.join(", "));
            return Found::Nothing { why };
        }
        let alike = self.indices(|stored| {
            same_but_params(stored, now)
                && stored.arch == now.arch
                && unlike_params(stored, now).is_empty()
        });
        let exact = alike.iter().copied().find(|&index| {
            self.runs.get(index).is_some_and(|(stored, _)| stored.params.len() == now.params.len())
        });
        let only = match alike.as_slice() {
            [only] => Some(*only),
            _ => None,
        };
        let Some((stored, used)) = exact.or(only).and_then(|index| self.runs.get_mut(index)) else {
            let why = match on_arch.as_slice() {
                [only] => self
                    .runs
                    .get(*only)
                    .map(|(stored, _)| unlike_params(stored, now).join(", "))
                    .filter(|unlike| !unlike.is_empty())
                    .map(|unlike| format!("it has other parameters: {unlike}")),
                _ => None,
            };
            return Found::Nothing {
                why: why.unwrap_or_else(|| "it has other parameters".to_owned()),
            };
        };
        *used = true;
        let missing = |a: &RunRecord, b: &RunRecord| -> Vec<String> {
            let names = a.params.iter().map(|(name, _)| name);
            names.filter(|name| b.params.get(name).is_none()).map(str::to_owned).collect()
        };
        let mut remarks = Vec::new();
        let (new, gone) = (missing(now, stored), missing(stored, now));
        if !new.is_empty() {
            remarks.push(format!("the stored run had no parameter {}", new.join(", ")));
        }
        if !gone.is_empty() {
            remarks.push(format!("the stored run had a parameter {}", gone.join(", ")));
        }
        let remark = (!remarks.is_empty()).then(|| remarks.join("; "));
        Found::Run { stored: Arc::clone(stored), remark }
    }

    fn indices(&self, wanted: impl Fn(&RunRecord) -> bool) -> Vec<usize> {
        let runs = self.runs.iter().enumerate();
        runs.filter(|(_, (stored, _))| wanted(stored)).map(|(index, _)| index).collect()
    }

    /// Stored runs of the scenarios and architectures `seen` that no run was
    /// compared with.
    pub(super) fn unused<'a>(
        &'a self,
        seen: &'a BTreeSet<(String, Option<String>)>,
    ) -> impl Iterator<Item = &'a RunRecord> {
        self.runs.iter().filter_map(move |(stored, used)| {
            let of = (stored.scenario.clone(), stored.arch.clone());
            (!used && seen.contains(&of)).then_some(&**stored)
        })
    }

    pub(super) fn into_remarks(self) -> Vec<String> {
        self.remarks
    }
}

fn same_but_params(a: &RunRecord, b: &RunRecord) -> bool {
    a.scenario == b.scenario && a.variant == b.variant
}

/// The parameters that both have with different values, as `n = 4, not 8`.
fn unlike_params(stored: &RunRecord, now: &RunRecord) -> Vec<String> {
    let unlike = now.params.iter().filter_map(|(name, now)| {
        let before = stored.params.get(name)?;
        (!same_value(before, now)).then(|| format!("{name} = {before}, not {now}"))
    });
    unlike.collect()
}

fn same_value(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
}

/// A stored run beside one of now.
pub(super) struct Comparison<'a> {
    stored: &'a RunRecord,
    now: &'a RunRecord,
    pub(super) pairing: Pairing,
    same_launch: bool,
    same_bases: bool,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(stored: &'a RunRecord, now: &'a RunRecord) -> Self {
        let launch = |run: &RunRecord| (run.launch.grid, run.launch.block);
        let bases = |run: &RunRecord| -> Vec<(String, u64)> {
            run.buffers.iter().map(|buffer| (buffer.name.clone(), buffer.base)).collect()
        };
        Self {
            stored,
            now,
            pairing: pair(&stored.accesses, &now.accesses),
            same_launch: launch(stored) == launch(now),
            same_bases: bases(stored) == bases(now),
        }
    }

    /// What limits the comparison.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.same_launch {
            let launch = |run: &RunRecord| {
                let ([gx, gy, gz], [bx, by, bz]) = (run.launch.grid, run.launch.block);
                format!("grid {gx}×{gy}×{gz}, block {bx}×{by}×{bz}")
            };
            remarks.push(format!(
                "the launch has changed from {} to {}: accesses are compared by the bytes they ask for, those of shared memory by the request",
                launch(self.stored),
                launch(self.now),
            ));
        }
        if !self.same_bases
            && self.now.accesses.iter().any(|now| now.counts.tag_wavefronts.is_some())
        {
            remarks.push(
                "the buffers lie elsewhere than in the stored run: what depends on their addresses (tag and data wavefronts) is not compared".to_owned(),
            );
        }
        for pair in &self.pairing.pairs {
            let (Some(before), Some(now)) =
                (self.stored.accesses.get(pair.a), self.now.accesses.get(pair.b))
            else {
                continue;
            };
            let lost: Vec<&str> = COMPARED
                .into_iter()
                .filter(|&field| {
                    before.counts.get(field).is_some() && now.counts.get(field).is_none()
                })
                .map(Field::name)
                .collect();
            if !lost.is_empty() && now.counts.requests.is_some() {
                remarks.push(format!(
                    "{} of `{}` were stored, and are not counted now: ask for them with --exact",
                    lost.join(", "),
                    now.label
                ));
            }
        }
        remarks
    }

    /// Whether and how `now` is worse than `before`; `op` is that of `now`.
    ///
    /// The same launch is compared by its sums. Another launch has another
    /// number of requests, with other numbers of lanes, so that the cost of a
    /// byte asked for is compared; shared memory, whose bytes are not counted,
    /// by the request.
    pub(super) fn worse(&self, before: &Access, now: &Access, op: Op) -> Option<Regression> {
        let mut worse = Vec::new();
        for field in COMPARED {
            if !self.same_bases && !field.is_periodic(op) {
                continue;
            }
            let (Some(was), Some(is)) = (before.counts.get(field), now.counts.get(field)) else {
                continue;
            };
            let factor = if self.same_launch {
                ratio(is as f64, was as f64)
            } else {
                let of = |totals: &Totals| match op.space {
                    Space::Shared => totals.requests,
                    _ => totals.requested_bytes,
                };
                let (Some(per_is), Some(per_was)) = (of(&now.counts), of(&before.counts)) else {
                    continue;
                };
                if field == Field::Requests || per_is == 0 || per_was == 0 {
                    continue;
                }
                ratio(is as f64 / per_is as f64, was as f64 / per_was as f64)
            };
            if factor > 1.0 + ROUNDING {
                worse.push(Worse {
                    field,
                    was,
                    is,
                    factor,
                    averages: before.counts.per_request(field).zip(now.counts.per_request(field)),
                });
            }
        }
        let moved = |totals: &Totals| totals.moved_bytes;
        let efficiency = before.counts.unique_efficiency().zip(now.counts.unique_efficiency());
        let efficiency = efficiency.filter(|(was, is)| {
            // An access that moves less is not worse for using less of it.
            let moves_less = self.same_launch && moved(&now.counts) < moved(&before.counts);
            *is < was * (1.0 - ROUNDING) && !moves_less
        });
        let shared = op.space == Space::Shared;
        (!worse.is_empty() || efficiency.is_some()).then_some(Regression {
            worse,
            efficiency,
            shared,
        })
    }
}

/// Relative differences below this are those of rounding.
const ROUNDING: f64 = 1e-9;

/// What may not grow. Bytes asked for are work, not cost; distinct sectors are
/// in `sectors`.
const COMPARED: [Field; 9] = [
    Field::Sectors,
    Field::Transactions,
    Field::BankConflicts,
    Field::DataWavefronts,
    Field::TagWavefronts,
    Field::Tags,
    Field::L2Sectors,
    Field::MovedBytes,
    Field::Requests,
];

/// `is ÷ was`; infinite where there was nothing.
fn ratio(is: f64, was: f64) -> f64 {
    match (is, was) {
        (0.0, 0.0) => 1.0,
        (_, 0.0) => f64::INFINITY,
        _ => is / was,
    }
}

struct Worse {
    field: Field,
    was: u128,
    is: u128,
    factor: f64,
    averages: Option<(f64, f64)>,
}

impl Worse {
    /// `+100 %`, `from none`.
    fn growth(&self) -> String {
        if self.factor.is_infinite() {
            "from none".to_owned()
        } else {
            units::signed_percent(self.factor - 1.0)
        }
    }
}

/// In what an access is worse.
pub(super) struct Regression {
    /// The counters that grew.
    worse: Vec<Worse>,
    /// Unique efficiency before and now, where it fell.
    efficiency: Option<(f64, f64)>,
    /// Whether it is an access to shared memory.
    shared: bool,
}

impl Regression {
    /// The counter to name first. Shared memory: bank conflicts, then
    /// wavefronts. Global: the one that grew most; what was nothing before grew
    /// beyond comparison, and comes last.
    fn first(&self) -> Option<&Worse> {
        let finite = self.worse.iter().filter(|worse| worse.factor.is_finite());
        let largest = finite.reduce(|best, next| {
            // The first of those that grew alike: the more telling come first.
            if next.factor > best.factor { next } else { best }
        });
        let in_order = self.worse.first();
        if self.shared { in_order } else { largest.or(in_order) }
    }

    /// That counter: `sectors +100 % (4 → 8 a request)`.
    pub(super) fn headline(&self) -> String {
        match (self.first(), self.efficiency) {
            (Some(worse), _) => {
                let figures = match worse.averages {
                    Some((was, is)) if was != is && worse.field != Field::Requests => {
                        format!("{} → {} a request", units::average(was), units::average(is))
                    }
                    _ => format!("{} → {}", units::count(worse.was), units::count(worse.is)),
                };
                format!("{} {} ({figures})", name(worse.field), worse.growth())
            }
            (None, Some((was, is))) => {
                format!("unique efficiency {} → {}", units::percent(was), units::percent(is))
            }
            (None, None) => String::new(),
        }
    }

    /// By how much that counter grew, comparable among regressions.
    pub(super) fn factor(&self) -> f64 {
        let efficiency = || self.efficiency.map_or(1.0, |(was, is)| ratio(was, is));
        self.first().map_or_else(efficiency, |worse| worse.factor)
    }

    /// Every counter that got worse, one a line.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .worse
            .iter()
            .map(|worse| {
                let averages = match worse.averages {
                    Some((was, is)) if worse.field != Field::Requests => {
                        format!(", {} → {} a request", units::average(was), units::average(is))
                    }
                    _ => String::new(),
                };
                format!(
                    "{}: {} → {} ({}{averages})",
                    name(worse.field),
                    units::count(worse.was),
                    units::count(worse.is),
                    worse.growth()
                )
            })
            .collect();
        if let Some((was, is)) = self.efficiency {
            lines.push(format!(
                "unique efficiency: {} → {}",
                units::percent(was),
                units::percent(is)
            ));
        }
        lines
    }
}

/// A counter's name for people: `bank conflicts`.
fn name(field: Field) -> String {
    match field {
        Field::L2Sectors => "L2 sectors".to_owned(),
        Field::MovedBytes => "bytes moved".to_owned(),
        other => other.name().replace('_', " "),
    }
}
