//! What to say about each access of a run: how far it is from its own ideal,
//! the counterfactuals, and the smallest change that helps, in a sentence.

use crate::counterfactual::{
    Counted, Counterfactual, Judge, Kind, Outcome, cost, is_less, per_request,
};
use crate::sample::{Extent, Options, Sample};
use record::units;
use scenario::program::SiteId;
use scenario::{Diagnostic, Run};
use simulator::{Field, Op, OpKind, RuleSet, Space, Totals, WARP_LANES};

/// How an access does by its own measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No warp of the sample executes it.
    NotExecuted,
    /// It costs what its width and its lanes need.
    Ideal,
    /// It costs more.
    Poor,
    /// The rule set has no number for its cost.
    Uncounted,
}

/// What there is to say about one access.
#[derive(Clone, Debug)]
pub struct SiteAdvice {
    /// The access.
    pub site: SiteId,
    /// Its space.
    pub space: Space,
    /// What it does.
    pub kind: OpKind,
    /// Rows of lanes that a warp covers, and lanes in each, where the block is
    /// narrower than a warp.
    pub rows_a_warp: Option<(u32, u32)>,
    /// How it does.
    pub verdict: Verdict,
    /// What it costs, over the sample.
    pub present: Totals,
    /// What its lanes would cost with their elements side by side.
    pub ideal: Totals,
    /// Every counterfactual, for a poor access.
    pub counterfactuals: Vec<Counterfactual>,
    /// The one to take: an index into them.
    pub best: Option<usize>,
    /// Share of the bytes of its sectors that the block uses, through whatever
    /// access. Near 1: L1 may serve the others from them.
    pub used_by_block: Option<f64>,
    /// How much of the launch the numbers are from.
    pub extent: Extent,
}

/// From this share on, what a block uses of its sectors is said to be all.
const ALL: f64 = 0.95;

/// A change that does as well as the best within this share of its cost is as
/// good, and is taken if it is smaller.
const AS_GOOD: f64 = 1.05;

impl SiteAdvice {
    /// The change to make.
    pub fn change(&self) -> Option<(&Counterfactual, &Counted)> {
        let best = self.counterfactuals.get(self.best?)?;
        Some((best, best.helps()?))
    }

    /// The smallest change that helps and what it would give, one sentence; or
    /// that there is none, and why.
    pub fn sentence(&self) -> String {
        match self.verdict {
            Verdict::NotExecuted => "No warp executes it.".to_owned(),
            Verdict::Ideal => "Nothing: it costs what its width and its lanes need.".to_owned(),
            Verdict::Uncounted => "The rule set has no number for what it costs.".to_owned(),
            Verdict::Poor => match self.change() {
                Some((change, counted)) => {
                    let mut sentence =
                        format!("{}: {}", capital(&change.what), gain(self.space, counted));
                    if change.kind == Kind::ThroughShared
                        && let Some(waves) = per_access(&counted.added_shared, &counted.before)
                    {
                        sentence.push_str(&format!(
                            ", for {} shared wavefronts a request",
                            units::average(waves)
                        ));
                    }
                    sentence.push('.');
                    sentence
                }
                None => self.no_change(),
            },
        }
    }

    /// Why no change is proposed.
    fn no_change(&self) -> String {
        if self.space == Space::Shared {
            let proofs: Vec<&str> = self.counterfactuals.iter().filter_map(reason).collect();
            return format!("No change of layout frees the banks: {}.", proofs.join("; "));
        }
        let near = match (per_request(&self.present), per_request(&self.ideal)) {
            (Some((now, unit)), Some((ideal, _))) => format!(
                ": {} {unit} a request, {} if its elements lay side by side",
                units::average(now),
                units::average(ideal)
            ),
            _ => String::new(),
        };
        // A start that would suit this access and not the others.
        let shifted = self.counterfactuals.iter().any(|counterfactual| {
            counterfactual.kind == Kind::Aligned
                && matches!(&counterfactual.outcome, Outcome::Refused { counted: Some(counted), .. }
                    if cost(self.space, &counted.after) < cost(self.space, &counted.before))
        });
        let way = match self.rows_a_warp {
            Some((rows, lanes)) => format!(
                "A warp covers {rows} rows of {lanes} lanes: make the block 32 threads wide or a multiple"
            ),
            None if shifted => "Accesses to this buffer want different starts, and it has one; \
                 L1 holds what they share, and so would a tile in shared memory"
                .to_owned(),
            None => "Change which thread takes what, or sort the array of indices that says it"
                .to_owned(),
        };
        format!("No other layout of the data helps{near}. {way}.")
    }

    /// What the caches make of it, where that matters: the waste of one access
    /// is another's data.
    pub fn caveat(&self) -> Option<String> {
        let used = self.used_by_block?;
        let own = self.present.unique_efficiency()?;
        let rest = match self.kind {
            OpKind::Load | OpKind::AsyncCopy => {
                "while L1 holds them, only L1 does the extra work, not L2 or DRAM"
            }
            OpKind::Store => {
                "L2 can put the pieces together, so that DRAM is spared the extra work, but not L2"
            }
            OpKind::Reduction(_) | OpKind::Atomic(_) => return None,
        };
        (self.verdict == Verdict::Poor && used >= ALL && own < ALL).then(|| {
            format!(
                "Its block as a whole uses {} of the bytes of these sectors: {rest}.",
                units::percent(used)
            )
        })
    }

    /// Where the numbers are from: `64 of 65,536 blocks` where they are not
    /// from all.
    pub fn basis(&self) -> Option<String> {
        (!self.extent.is_whole()).then(|| {
            format!(
                "{} of {} blocks",
                units::count(self.extent.blocks),
                units::count(self.extent.of)
            )
        })
    }
}

fn reason(counterfactual: &Counterfactual) -> Option<&str> {
    match &counterfactual.outcome {
        Outcome::Refused { reason, .. } => Some(reason),
        Outcome::Helps(_) => None,
    }
}

fn per_access(added: &Totals, before: &Totals) -> Option<f64> {
    match (added.data_wavefronts, before.requests) {
        (Some(waves), Some(requests)) if requests > 0 => Some(waves as f64 / requests as f64),
        _ => None,
    }
}

/// `12.5 % → 100 %, 32 → 4 sectors per request`.
pub fn gain(space: Space, counted: &Counted) -> String {
    let arrow =
        |before: f64, after: f64| format!("{} → {}", units::average(before), units::average(after));
    if space == Space::Shared {
        let waves = |totals: &Totals| totals.per_request(Field::DataWavefronts).unwrap_or(0.0);
        let conflicts = |totals: &Totals| totals.per_request(Field::BankConflicts).unwrap_or(0.0);
        return format!(
            "{} wavefronts and {} conflicts per request",
            arrow(waves(&counted.before), waves(&counted.after)),
            arrow(conflicts(&counted.before), conflicts(&counted.after)),
        );
    }
    let share = counted.efficiency().map_or_else(String::new, |(before, after)| {
        format!("{} → {}, ", units::percent(before), units::percent(after))
    });
    let merged = counted.merged();
    let per = |totals: &Totals| {
        let (per, unit) = per_request(totals)?;
        Some((per, unit))
    };
    match (per(&counted.before), per(&counted.after)) {
        (Some((before, unit)), Some((after, _))) if merged > 1.0 + 1e-9 => format!(
            "{share}{} {unit} for {} requests in one",
            arrow(before * merged, after),
            units::average(merged)
        ),
        (Some((before, unit)), Some((after, _))) => {
            format!("{share}{} {unit} per request", arrow(before, after))
        }
        _ => share.trim_end_matches(", ").to_owned(),
    }
}

/// The sentence's first letter large; a name in back quotes stays as it is.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

/// Advice on every access of a run, or on those of `only`.
///
/// # Errors
/// What the kernel does wrong, or a block that takes too long to go through.
pub fn advise(
    run: &Run,
    rules: &RuleSet,
    bases: &[u64],
    only: Option<&[SiteId]>,
    options: &Options,
) -> Result<Vec<SiteAdvice>, Diagnostic> {
    let sample = Sample::take(run, bases, options)?;
    Ok((0..run.program.sites.len())
        .map(SiteId)
        .filter(|site| only.is_none_or(|only| only.contains(site)))
        .filter_map(|site| {
            let judge = Judge { run, rules, bases, sample: &sample, site };
            let op = run.program.sites.get(site.0)?.op;
            Some(of_site(&judge, op))
        })
        .collect())
}

fn of_site(judge: &Judge<'_>, op: Op) -> SiteAdvice {
    let space = op.space;
    let [width, height, depth] = judge.run.launch.block;
    let rows = WARP_LANES as u32 / width.max(1);
    let (present, ideal) = (judge.present(), judge.ideal());
    let verdict = if present.instructions == 0 {
        Verdict::NotExecuted
    } else {
        match (cost(space, &present), cost(space, &ideal)) {
            (Some(present), Some(ideal)) if is_less(ideal, present) => Verdict::Poor,
            (Some(_), Some(_)) => Verdict::Ideal,
            _ => Verdict::Uncounted,
        }
    };
    let mut advice = SiteAdvice {
        site: judge.site,
        space,
        kind: op.kind,
        rows_a_warp: (rows > 1 && height.saturating_mul(depth) >= rows).then_some((rows, width)),
        verdict,
        present,
        ideal,
        counterfactuals: Vec::new(),
        best: None,
        used_by_block: None,
        extent: judge.extent(),
    };
    if verdict == Verdict::Poor {
        advice.counterfactuals = match space {
            Space::Global => judge.global(),
            Space::Shared => judge.shared(),
            Space::Local => Vec::new(),
        };
        advice.best = choose(space, &advice.counterfactuals);
        if space == Space::Global {
            advice.used_by_block = judge.used_by_block();
        }
    }
    advice
}

/// The smallest of the changes that do as well as the best: by the cost of all
/// accesses to the buffer, the change has to suit them all.
fn choose(space: Space, counterfactuals: &[Counterfactual]) -> Option<usize> {
    let costs: Vec<Option<f64>> = counterfactuals
        .iter()
        .map(|counterfactual| {
            let counted = counterfactual.helps()?;
            cost(space, &counted.together_after).map(|cost| cost as f64)
        })
        .collect();
    let least = costs.iter().flatten().copied().reduce(f64::min)?;
    (0..counterfactuals.len())
        .filter(|&at| costs[at].is_some_and(|cost| cost <= least * AS_GOOD))
        .min_by_key(|&at| counterfactuals[at].kind)
}
