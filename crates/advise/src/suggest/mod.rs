//! The layout search: which order of fields, padding, AoS, SoA or AoSoA, vector
//! width and pitch lets a kernel move the least.
//!
//! Every candidate is a scenario file of its own: the structs and buffers are
//! written anew, and the kernel's accesses to them rewritten. It is read back
//! like any other file, run through the model, and has to touch, thread by
//! thread, the same fields of the same elements as the original; else it is
//! refused. So what is promised is what the file that is printed costs.

mod aliases;
mod candidate;
mod source;
mod timing;
mod touched;

pub use candidate::Layout;

use crate::sample::{Extent, Options, Sample};
use candidate::{Choice, Draft};
use model::Profile;
use record::Time;
use scenario::count::{self, LaunchCounts};
use scenario::types::Type;
use scenario::{Diagnostic, Diagnostics, Disk, Embedded, Run, RunPlan, Scenario};
use simulator::{Counts, RuleSet, Space, Totals};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use touched::Touched;

/// Blocks that may be evaluated one by one before candidates are compared by
/// samples of the launch: below this, one takes about a second.
const MOST_SINGLE_WARPS: u64 = 1 << 18;

/// A layout with what it costs.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What it is.
    pub layout: Layout,
    /// The whole scenario file.
    pub toml: String,
    /// What all accesses together cost.
    pub totals: Totals,
    /// How much of the launch was counted.
    pub extent: Extent,
    /// How long it takes, where that is predicted for every candidate.
    pub time: Option<Time>,
}

impl Candidate {
    /// Its predicted time.
    pub fn seconds(&self) -> Option<f64> {
        self.time.as_ref()?.seconds
    }
}

/// The layouts of a scenario, the best first.
#[derive(Clone, Debug)]
pub struct Suggestions {
    /// The scenario as it is; it is among the ranked ones too.
    pub present: Candidate,
    /// All that keep what the kernel does, the best first.
    pub ranked: Vec<Candidate>,
    /// Layouts that were not tried, or whose trial failed: what, and why.
    pub refused: Vec<(String, String)>,
}

impl Suggestions {
    /// The best layout, where it is another than the present one.
    pub fn best(&self) -> Option<&Candidate> {
        self.ranked.first().filter(|best| !best.layout.is_present())
    }
}

/// What ranks layouts: predicted time, where `present` is that of the layout as
/// it is; then sectors moved (bytes on architectures without), then wavefronts,
/// then requests, then how much is changed. The smaller the better.
///
/// This is the one place that says what "better" means.
pub fn rank(a: &Candidate, b: &Candidate, present: Option<f64>) -> Ordering {
    let key = |candidate: &Candidate| {
        let seconds = candidate.seconds().zip(present);
        let totals = &candidate.totals;
        let scaled = |count: Option<u128>| count.map_or(u128::MAX, |n| candidate.extent.scale(n));
        let wavefronts = match (totals.tag_wavefronts, totals.data_wavefronts) {
            (None, None) => None,
            (tag, data) => Some(tag.unwrap_or(0).saturating_add(data.unwrap_or(0))),
        };
        (
            seconds.map(|(seconds, present)| timing::step(seconds, present)),
            scaled(totals.sectors.or(totals.moved_bytes)),
            scaled(wavefronts),
            scaled(totals.requests),
            candidate.layout.size(),
        )
    };
    key(a).cmp(&key(b))
}

/// Searches the layouts of one run. They are ranked by predicted time where
/// `profile` was measured on a device, else by counts.
///
/// # Errors
/// What is wrong with the run as it is.
pub fn suggest(
    plan: &RunPlan,
    rules: &RuleSet,
    profile: Option<&Profile>,
) -> Result<Suggestions, Diagnostics> {
    let run = plan.build()?;
    let document = plan.document()?;
    let draft = Draft::new(&run, &document);
    let fail = |error: Diagnostic| Diagnostics::new(Arc::clone(&run.sources), vec![error]);
    let mut search = Search::new(&run, rules, profile).map_err(fail)?;

    let mut present =
        search.measure(&run, draft.present().to_toml()).map_err(|error| fail(*error))?;
    let mut ranked = vec![present.clone()];
    // Each dimension by itself first, then the best of each together.
    let mut together = Vec::new();
    for dimension in draft.dimensions(&mut search.refused) {
        let mut best: Option<(Candidate, Choice)> = None;
        for choice in dimension {
            let Some(candidate) = search.try_out(&draft, std::slice::from_ref(&choice)) else {
                continue;
            };
            let seconds = present.seconds();
            if rank(&candidate, &present, seconds) == Ordering::Less
                && best
                    .as_ref()
                    .is_none_or(|(best, _)| rank(&candidate, best, seconds) == Ordering::Less)
            {
                best = Some((candidate.clone(), choice));
            }
            ranked.push(candidate);
        }
        together.extend(best.map(|(_, choice)| choice));
    }
    if together.len() > 1 {
        ranked.extend(search.try_out(&draft, &together));
    }
    // One without a time can't be laid beside the others.
    if ranked.iter().any(|candidate| candidate.seconds().is_none()) {
        ranked.iter_mut().chain([&mut present]).for_each(|candidate| candidate.time = None);
    }
    ranked.sort_by(|a, b| rank(a, b, present.seconds()));
    Ok(Suggestions { present, ranked, refused: search.refused })
}

/// What the search needs to judge a candidate.
struct Search<'a> {
    rules: &'a RuleSet,
    profile: Option<&'a Profile>,
    touched: Touched,
    /// Count samples only.
    sampled: bool,
    /// The blocks that samples are of: the same for all.
    blocks: Option<Vec<[u64; 3]>>,
    refused: Vec<(String, String)>,
}

impl<'a> Search<'a> {
    fn new(
        run: &Run,
        rules: &'a RuleSet,
        profile: Option<&'a Profile>,
    ) -> Result<Self, Diagnostic> {
        let touched = Touched::of(run, &Layout::default(), None)?;
        Ok(Self { rules, profile, touched, sampled: false, blocks: None, refused: Vec::new() })
    }

    /// Makes a candidate, runs it, and refuses it if it touches anything else.
    fn try_out(&mut self, draft: &Draft<'_>, choices: &[Choice]) -> Option<Candidate> {
        let what = choices.iter().map(Choice::to_string).collect::<Vec<_>>().join(", ");
        match self.candidate(draft, choices) {
            Ok(candidate) => Some(candidate),
            Err(reason) => {
                self.refused.push((what, reason));
                None
            }
        }
    }

    fn candidate(&mut self, draft: &Draft<'_>, choices: &[Choice]) -> Result<Candidate, String> {
        let made = draft.make(choices)?;
        let first = |errors: &Diagnostics| {
            errors.errors.first().map_or_else(String::new, |error| error.message.clone())
        };
        let run = read_back(&made.toml, draft.run)
            .map_err(|errors| format!("the rewritten kernel is refused: {}", first(&errors)))?;
        let touched = Touched::of(&run, &made.layout, Some(&self.touched))
            .map_err(|error| format!("the rewritten kernel fails: {}", error.message))?;
        if let Some(difference) = self.touched.difference(&touched) {
            return Err(format!("it would change what is accessed: {difference}"));
        }
        let mut candidate = self
            .measure(&run, made.toml)
            .map_err(|error| format!("it can't be counted: {}", error.message))?;
        candidate.layout = made.layout;
        Ok(candidate)
    }

    /// Counts a run: all of it where that is quick, else a sample.
    fn measure(&mut self, run: &Run, toml: String) -> Result<Candidate, Box<Diagnostic>> {
        let bases = run.assumed_bases();
        let of = run.launch.blocks();
        if !self.sampled {
            let counts = count::count(run, self.rules, &bases, &count::Options::default())?;
            let warps =
                counts.single_blocks.saturating_mul(u64::from(run.launch.warps_per_block()));
            self.sampled = warps > MOST_SINGLE_WARPS;
            if !self.sampled {
                let time = self.profile.and_then(|profile| {
                    timing::time(run, self.rules, &bases, &counts.sites, profile)
                });
                return Ok(Candidate {
                    layout: Layout::default(),
                    toml,
                    totals: across(run, &counts),
                    extent: Extent { blocks: of, of },
                    time,
                });
            }
        }
        let sample = match &self.blocks {
            Some(blocks) => Sample::of_blocks(run, &bases, blocks, &Options::default())?,
            None => Sample::take(run, &bases, &Options::default())?,
        };
        self.blocks.get_or_insert_with(|| sample.places.clone());
        let parts: Vec<(Space, Totals)> = sample
            .issues
            .iter()
            .map(|issue| {
                let counts: Counts = self.rules.count(&issue.access);
                let mut totals = Totals::default();
                totals.add(&counts);
                (issue.access.op.space, totals)
            })
            .collect();
        let totals = Totals::across(parts.iter().map(|(space, totals)| (*space, totals)));
        let time = self.profile.and_then(|profile| {
            let sites = timing::scaled_sites(run, &sample, self.rules);
            timing::time(run, self.rules, &bases, &sites, profile)
        });
        Ok(Candidate { layout: Layout::default(), toml, totals, extent: sample.extent, time })
    }
}

fn across(run: &Run, counts: &LaunchCounts) -> Totals {
    Totals::across(
        run.program
            .sites
            .iter()
            .zip(&counts.sites)
            .map(|(site, counted)| (site.op.space, &counted.totals)),
    )
}

/// The run of a scenario file that was written for one.
fn read_back(toml: &str, original: &Run) -> Result<Run, Diagnostics> {
    let path = original.sources.get(scenario::SourceId(0)).path.clone();
    // Data files are read from where the original has them; a scenario without
    // any needs no file system.
    let uses_files = toml.contains("file = ");
    let scenario = if uses_files {
        Scenario::from_text(&path, toml, &Disk)?
    } else {
        Scenario::from_text(&path, toml, &Embedded(&[]))?
    };
    let plans = scenario.runs(&[], scenario::Options::default())?;
    match plans.first() {
        Some(plan) => plan.build(),
        None => Err(Diagnostics::new(Arc::clone(&original.sources), Vec::new())),
    }
}

/// Reads a candidate's file, counts the whole launch, and says whether it costs
/// what the candidate promises.
///
/// # Errors
/// What is wrong with the file.
pub fn verify(candidate: &Candidate, path: &Path, rules: &RuleSet) -> Result<bool, Diagnostics> {
    let scenario = Scenario::from_text(path, &candidate.toml, &Disk)?;
    let plans = scenario.runs(&[], scenario::Options::default())?;
    let Some(plan) = plans.first() else { return Ok(false) };
    let run = plan.build()?;
    let counts = count::count(&run, rules, &run.assumed_bases(), &count::Options::default())
        .map_err(|error| Diagnostics::new(Arc::clone(&run.sources), vec![error]))?;
    Ok(!candidate.extent.is_whole() || across(&run, &counts) == candidate.totals)
}

/// The structs that buffers of a run are made of.
fn struct_of(ty: &Type) -> Option<scenario::types::StructId> {
    match ty {
        Type::Struct(id) => Some(*id),
        _ => None,
    }
}
