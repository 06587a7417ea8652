//! Judges an edited scenario: does it touch the same elements, and does it meet
//! the goals, at the shown size and at random ones?

use crate::document::{Exercise, Goal, Numbers};
use crate::elements::{Touched, Untold, Way};
use crate::error::LabError;
use crate::expression::Expression;
use crate::metric::{self, Quantity};
use crate::numbers::Draw;
use crate::workbench::{Workbench, of_run};
use scenario::count::{self, LaunchCounts};
use scenario::eval::Limits;
use scenario::{Options, Run, Scenario};
use simulator::RuleSet;
use std::collections::{BTreeMap, BTreeSet};

/// Random sizes beside the shown one.
const RANDOM_SIZES: u64 = 5;

/// What a submission may take: a fraction of a second.
const LIMITS: Limits =
    Limits { boxes: 1 << 12, threads: 1 << 23, loop_iterations: 1 << 18, warp_statements: 1 << 23 };

/// The rules that exercises are judged by.
const ARCH: &str = "9.0";

/// What an edited scenario is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Goals met, over all sizes.
    pub met: usize,
    /// Goals there are, over all sizes.
    pub of: usize,
    /// What is not as it should be, the size named; or what was reached.
    pub reasons: Vec<String>,
}

impl Judgement {
    /// Whether every goal is met at every size.
    pub fn passed(&self) -> bool {
        self.met == self.of
    }
}

/// The sizes that are tried: the one in the file, then random ones that `seed`
/// decides. Each is the parameters with their values.
///
/// Every second random size is no multiple of 32 where its range allows it.
pub fn sizes(lab: &str, exercise: &Exercise, seed: u64) -> Vec<Vec<(String, i64)>> {
    let mut sizes = vec![Vec::new()];
    if exercise.sizes.is_empty() {
        return sizes;
    }
    for round in 0..RANDOM_SIZES {
        let size = exercise.sizes.iter().map(|(name, numbers)| {
            let mut draw = Draw::new(seed, &format!("{lab}/size/{round}/{name}"));
            let mut value = draw.one_of(numbers);
            if round % 2 == 0 && value % 32 == 0 {
                value = beside(value, numbers);
            }
            (name.clone(), value)
        });
        sizes.push(size.collect());
    }
    sizes
}

/// The next number of the range that is no multiple of 32, if there is one.
fn beside(value: i64, numbers: &Numbers) -> i64 {
    let (Some(from), Some(to)) = (numbers.from, numbers.to) else { return value };
    [value.saturating_add(numbers.step), value.saturating_sub(numbers.step)]
        .into_iter()
        .find(|next| (from..=to).contains(next) && next % 32 != 0)
        .unwrap_or(value)
}

impl Workbench<'_> {
    /// Judges an edited scenario against the goals of the lab's exercise.
    ///
    /// # Errors
    /// What is wrong with the lab. What is wrong with the submission is a reason
    /// for its mark.
    pub fn judge(&self, submission: &Scenario) -> Result<Judgement, LabError> {
        let Some(exercise) = &self.lab.document.exercise else {
            return Err(self.wrong("the lab has no exercise"));
        };
        let start = self.scenario(&exercise.start)?;
        let Some(rules) = RuleSet::for_arch(ARCH) else {
            return Err(self.wrong(format!("there is no rule set for {ARCH}")));
        };
        let sizes = sizes(&self.lab.name, exercise, self.seed.unwrap_or(0));
        let of = sizes.len() * exercise.goal.len();
        let mut judgement = Judgement { met: 0, of, reasons: Vec::new() };
        let known = submission.params();
        for name in exercise.sizes.keys().filter(|name| !known.contains(&name.as_str())) {
            judgement.reasons.push(format!(
                "it has no parameter `{name}`, which the start has and other sizes are tried with"
            ));
        }
        if !judgement.reasons.is_empty() {
            return Ok(judgement);
        }
        let others = sizes.len() - 1;
        let (mut is_wrong, mut missed) = (false, false);
        let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
        let mut say = |named: &str, reason: String| match reasons
            .iter_mut()
            .find(|(known, _)| *known == reason)
        {
            Some((_, sizes)) => sizes.push(named.to_owned()),
            None => reasons.push((reason, vec![named.to_owned()])),
        };
        for size in sizes {
            let overrides: Vec<(String, String)> =
                size.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
            let original = one_run(&start, &overrides)
                .map_err(|reason| self.wrong(format!("{}: {reason}", exercise.start)))?;
            let named = match &size[..] {
                [] => "at the size in the file".to_owned(),
                size => {
                    let all: Vec<String> =
                        size.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                    format!("at {}", all.join(", "))
                }
            };
            let edited = match one_run(submission, &overrides) {
                Ok(run) => run,
                Err(reason) => {
                    (is_wrong, missed) = (true, true);
                    say(&named, reason);
                    // What is no run as it stands is none at other sizes either.
                    if size.is_empty() {
                        break;
                    }
                    continue;
                }
            };
            if let Some(reason) = self.differs(exercise, &original, &edited)? {
                (is_wrong, missed) = (true, true);
                say(&named, reason);
                continue;
            }
            let original = Counted::new(original, &rules)?;
            let edited = match Counted::new(edited, &rules) {
                Ok(counted) => counted,
                Err(error) => {
                    (is_wrong, missed) = (true, true);
                    say(&named, error.to_string());
                    continue;
                }
            };
            for goal in &exercise.goal {
                let (met, words) = self.meets(goal, &original, &edited)?;
                judgement.met += usize::from(met);
                // What was reached is said once, what was missed each time.
                if !met || size.is_empty() {
                    say(&named, words);
                }
                missed |= !met;
            }
        }
        for (reason, sizes) in reasons {
            let named = match &sizes[..] {
                [only] => only.clone(),
                [first, others @ ..] => format!("{first}, and at {} more sizes", others.len()),
                [] => continue,
            };
            judgement.reasons.push(format!("{named}: {reason}"));
        }
        if is_wrong {
            // Fast and wrong is worth half at most.
            judgement.met = judgement.met.min(judgement.of / 2);
        } else if !missed && others > 0 {
            let seed = self.seed.unwrap_or(0);
            judgement.reasons.push(format!(
                "at {others} more sizes, drawn with seed {seed}: the same elements, and every goal met"
            ));
        }
        Ok(judgement)
    }

    /// What the edited run does to memory that the original does not, or the
    /// other way round, in words.
    fn differs(
        &self,
        exercise: &Exercise,
        original: &Run,
        edited: &Run,
    ) -> Result<Option<String>, LabError> {
        let told = |untold| match untold {
            Untold::Fails(error) => of_run(original, *error),
            Untold::TooMuch(reason) => self.wrong(reason),
        };
        // The start calls everything by its own name.
        let before =
            Touched::of(original, &BTreeMap::new(), &exercise.padding, LIMITS).map_err(told)?;
        let after = match Touched::of(edited, &exercise.same, &exercise.padding, LIMITS) {
            Ok(touched) => touched,
            Err(Untold::Fails(error)) => return Ok(Some(of_run(edited, *error).to_string())),
            Err(Untold::TooMuch(reason)) => return Ok(Some(reason)),
        };
        if let Some(moved) = moved(&exercise.keep, original, edited) {
            return Ok(Some(moved));
        }
        if let Some(difference) = set_difference(&before, &after) {
            return Ok(Some(difference));
        }
        for pair in &exercise.pair {
            let element = Expression::parse(&pair.element).map_err(|error| self.wrong(error))?;
            let params = parameters(original);
            let number = |name: &str, e: u64| match name {
                "e" => Ok(e as f64),
                name => params
                    .get(name)
                    .copied()
                    .ok_or_else(|| format!("exercise: pair: there is no parameter `{name}`")),
            };
            let reads: BTreeSet<(u64, u64)> = touches(&after, Way::Read, &pair.read).collect();
            for (block, written) in touches(&after, Way::Written, &pair.written) {
                let wanted = element
                    .eval(|name| number(name, written))
                    .map_err(|error: String| self.wrong(error))?;
                if !reads.contains(&(block, wanted as u64)) {
                    return Ok(Some(format!(
                        "block {block} writes `{}[{written}]` without having read `{}[{wanted}]`, \
                         which is what belongs there",
                        pair.written, pair.read
                    )));
                }
            }
        }
        Ok(None)
    }

    /// Whether a goal is met, and what was reached in words.
    fn meets(
        &self,
        goal: &Goal,
        original: &Counted,
        edited: &Counted,
    ) -> Result<(bool, String), LabError> {
        let start = original.metric(&goal.metric);
        let params = parameters(&original.run);
        let bound = |text: &str| {
            let parsed = Expression::parse(text)?;
            parsed.eval(|name| match (name, start) {
                ("start", Some(start)) => Ok(start.value),
                (name, _) => params.get(name).copied().ok_or_else(|| {
                    format!("the goal “{}” names `{name}`, which is not known", goal.what)
                }),
            })
        };
        let Some(reached) = edited.metric(&goal.metric) else {
            return Ok((false, format!("{}: it has no {}", goal.what, goal.metric)));
        };
        let (text, is_least) = match (&goal.at_least, &goal.at_most) {
            (Some(text), _) => (text, true),
            (None, Some(text)) => (text, false),
            // `Lab::load` has checked that there is one.
            (None, None) => return Ok((true, goal.what.clone())),
        };
        let bound = bound(text).map_err(|error: String| self.wrong(error))?;
        // Sums of a few thousand terms are exact in a double.
        let met = if is_least { reached.value >= bound } else { reached.value <= bound };
        let words = format!(
            "{}: {reached}, {} {} {}",
            goal.what,
            if met { "and that is" } else { "but it must be" },
            if is_least { "at least" } else { "at most" },
            Quantity::new(bound, reached.unit),
        );
        Ok((met, words))
    }
}

/// A run with its counts.
struct Counted {
    run: Run,
    counts: LaunchCounts,
}

impl Counted {
    fn new(run: Run, rules: &RuleSet) -> Result<Self, LabError> {
        let options = count::Options { limits: LIMITS, ..count::Options::default() };
        let counts = count::count(&run, rules, &run.assumed_bases(), &options)
            .map_err(|error| of_run(&run, error))?;
        Ok(Self { run, counts })
    }

    fn metric(&self, name: &str) -> Option<Quantity> {
        let totals = metric::kernel_totals(name, &self.run, &self.counts);
        metric::of_totals(name, &totals)
    }
}

/// The only run of a scenario; in words why there is none.
fn one_run(scenario: &Scenario, overrides: &[(String, String)]) -> Result<Run, String> {
    let plans = scenario.runs(overrides, Options::default()).map_err(|e| e.to_string())?;
    match &plans[..] {
        [plan] => plan.build().map_err(|errors| errors.to_string()),
        several => Err(format!(
            "the scenario has {} runs; leave its variants and its sweep out",
            several.len()
        )),
    }
}

fn parameters(run: &Run) -> BTreeMap<String, f64> {
    run.params
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), value.integer()? as f64)))
        .collect()
}

/// Block and element of what is touched.
fn touches<'a>(
    touched: &'a Touched,
    way: Way,
    name: &str,
) -> impl Iterator<Item = (u64, u64)> + use<'a> {
    let wanted = touched.names.iter().position(|known| known == name);
    touched
        .touches
        .iter()
        .filter(move |touch| touch.way == way && Some(touch.name) == wanted)
        .map(|touch| (touch.block, touch.element))
}

/// The first of some buffers that is not where it was, in words.
fn moved(kept: &[String], original: &Run, edited: &Run) -> Option<String> {
    let offset = |run: &Run, name: &str| {
        run.buffers.iter().find(|buffer| buffer.name == name).map(|buffer| buffer.offset_bytes)
    };
    kept.iter().find_map(|name| match (offset(original, name)?, offset(edited, name)) {
        (_, None) => Some(format!("the buffer `{name}` is gone, and must stay where it is")),
        (was, Some(is)) => (was != is).then(|| {
            format!("`{name}` begins {is} B into its allocation, and must stay at {was} B")
        }),
    })
}

/// The first element that only one of two launches touches, in words.
fn set_difference(before: &Touched, after: &Touched) -> Option<String> {
    let names: BTreeSet<&String> = before.names.iter().chain(&after.names).collect();
    for name in names {
        if let (Some(was), Some(is)) = (before.bytes.get(name), after.bytes.get(name))
            && was != is
        {
            return Some(format!("an element of `{name}` has {is} bytes, and must have {was}"));
        }
        for way in [Way::Read, Way::Written, Way::Updated] {
            let (was, is) = (before.elements(way, name), after.elements(way, name));
            if was == is {
                continue;
            }
            let verb = way.verb();
            let lost = was.iter().find(|element| is.binary_search(element).is_err());
            let added = is.iter().find(|element| was.binary_search(element).is_err());
            return Some(match (lost, added) {
                (Some(lost), _) => format!("it no longer {verb} `{name}[{lost}]`"),
                (None, Some(added)) => {
                    format!("it {verb} `{name}[{added}]`, which the original does not")
                }
                (None, None) => continue,
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_random_sizes_and_more_are_no_multiples_of_a_warp() {
        let range = Numbers { shown: 64, of: None, from: Some(64), to: Some(6400), step: 32 };
        let odd = Numbers { step: 1, ..range.clone() };
        let exercise = |numbers: &Numbers| Exercise {
            ask: String::new(),
            start: String::new(),
            solution: String::new(),
            sizes: BTreeMap::from([("n".to_owned(), numbers.clone())]),
            same: BTreeMap::new(),
            padding: Vec::new(),
            keep: Vec::new(),
            pair: Vec::new(),
            goal: Vec::new(),
        };
        for seed in 0..50 {
            let drawn = sizes("lab", &exercise(&odd), seed);
            assert_eq!((drawn.len(), drawn[0].len()), (6, 0));
            let askew = drawn[1..].iter().filter(|size| size[0].1 % 32 != 0).count();
            assert!(askew >= 3, "{drawn:?}");
            // A range that has only multiples of 32 keeps to it.
            let even = sizes("lab", &exercise(&range), seed);
            assert!(even[1..].iter().all(|size| size[0].1 % 32 == 0), "{even:?}");
        }
    }
}
