//! Totals of a launch: what each access site of the kernel costs, summed over
//! all warps of all blocks.
//!
//! Where the accesses of many blocks (or iterations) are affine they are
//! counted in closed form, [`AffineAccess::count`], in a time that does not
//! depend on how many there are; the others one by one, in parallel. Both give
//! the same numbers. Only fields that no period fixes (what goes through the
//! tag stage of CC 9.0) may be too many to be counted for a very large launch:
//! they are absent then, and [`SiteCounts::uncounted`] says so.

mod sample;

pub use sample::{FAILURE, Sampled};

use crate::diagnostic::{Diagnostic, Kind};
use crate::eval::{BlockAccess, Cost, Drive, Evaluator, Limits, Sink, Tally};
use crate::program::Site;
use crate::run::Run;
use crate::source::Span;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use simulator::{
    AffineAccess, AffineError, AffineTerm, Counts, Field, LaneMask, OpKind, RuleSet, Stages,
    Totals, WARP_LANES, WarpAccess,
};

/// Representative warps that the affine accesses of a site may take for the
/// fields without a period: less than a second.
const SITE_BUDGET: u64 = 1 << 22;

/// What an affine access costs at least, in representatives: bounds how many
/// wait.
const LEAST_COST: u128 = 64;

/// Accesses of a site kept for an estimate, where counting them all takes too
/// long.
const MOST_WAITING: usize = 1 << 16;

/// Fewer representatives than this are not worth waking other threads for.
const FEW_REPRESENTATIVES: u128 = 1 << 14;

/// How to count.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Count every field, however long it takes within the limits; what can't
    /// be counted then is an error.
    pub exact: bool,
    /// Worker threads; all cores where it is `None`.
    pub threads: Option<usize>,
    /// When to give up.
    pub limits: Limits,
    /// Called now and then, from any thread, with the number of blocks that are
    /// done and of all.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
}

/// The counts of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchCounts {
    /// Of each [`Program::sites`](crate::program::Program::sites), in that
    /// order.
    pub sites: Vec<SiteCounts>,
    /// Boxes of blocks that were evaluated as one.
    pub boxes: u64,
    /// Blocks that were evaluated one by one.
    pub single_blocks: u64,
    /// The expression that made that necessary, the first in the source.
    pub because: Option<Span>,
}

/// The counts of one access site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteCounts {
    /// Sums over the warp instructions that had an active lane. A field that
    /// the rule set does not define is absent; so are those named by
    /// `uncounted`.
    pub totals: Totals,
    /// Whether some accesses were counted in closed form, and whether some were
    /// counted one by one.
    pub method: Method,
    /// Warps that would have to be counted one by one for the fields without a
    /// period ([`Field::is_periodic`]), and are not: these fields are estimated
    /// ([`SiteCounts::sampled`]), or absent. `None`: all are counted.
    pub uncounted: Option<u128>,
    /// How the fields without a period were estimated; their totals then are
    /// not `exact`.
    pub sampled: Option<Sampled>,
}

/// How the accesses of a site were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The site was never executed.
    #[default]
    NotExecuted,
    /// In closed form, all of them.
    ClosedForm,
    /// One by one, all of them.
    OneByOne,
    /// Some in closed form, the others one by one.
    Both,
}

impl Method {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::NotExecuted, method) | (method, Self::NotExecuted) => method,
            (a, b) if a == b => a,
            _ => Self::Both,
        }
    }
}

/// Counts the accesses of a run with its buffers at `bases` (the addresses of
/// their allocations: [`Run::assumed_bases`], or those of a device).
///
/// # Errors
/// What the kernel does wrong; operations that the rule set's architecture does
/// not have; a launch that goes beyond the limits.
pub fn count(
    run: &Run,
    rules: &RuleSet,
    bases: &[u64],
    options: &Options<'_>,
) -> Result<LaunchCounts, Diagnostic> {
    for site in &run.program.sites {
        check_site(site, rules)?;
    }
    let evaluator = Evaluator::new(run, bases, options.limits)?;
    let drive = Drive::new(&evaluator, options.progress);
    let exact_budget = options.limits.threads / WARP_LANES as u64;
    let part = || Counter {
        sites: &run.program.sites,
        rules,
        budget: if options.exact { exact_budget } else { SITE_BUDGET },
        tallies: vec![SiteTally::default(); run.program.sites.len()],
        error: None,
    };
    let go = || {
        let (counter, cost) = drive.run(&part)?;
        counter.finish(cost, options.exact)
    };
    let Some(threads) = options.threads else { return go() };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| {
        Diagnostic::whole_file(
            Kind::Limit,
            format!("can't start {threads} threads: {error}"),
            "ask for fewer threads",
        )
    })?;
    pool.install(go)
}

/// Whether the architecture has the operation of a site at its width.
fn check_site(site: &Site, rules: &RuleSet) -> Result<(), Diagnostic> {
    let copies = site.op.kind == OpKind::AsyncCopy;
    let nothing = WarpAccess {
        mask: LaneMask::EMPTY,
        shared_addresses: copies.then_some([0; WARP_LANES]),
        ..WarpAccess::new(site.op, site.width, [0; WARP_LANES])
    };
    rules.check(&nothing).map_err(|error| {
        Diagnostic::new(
            Kind::NotModelled,
            site.span,
            format!("not on this architecture: {error}"),
            "choose another architecture (`--arch`), or another access",
        )
    })
}

/// Sums of one site.
#[derive(Clone, Default)]
struct SiteTally {
    /// Of the accesses for which every field is counted.
    totals: Totals,
    /// Warps that count like this are not yet in the totals: neighbours often
    /// count alike.
    alike: Option<(Counts, u64)>,
    /// Of those whose fields without a period are not counted yet, and absent
    /// here.
    periodic: Totals,
    /// These accesses: all of them, or none when they are too many to keep.
    waiting: Vec<AffineAccess>,
    /// Whether they were too many.
    dropped: bool,
    /// Representatives that they take.
    cost: u128,
    method: Method,
}

/// A tally as it was.
struct Mark {
    totals: Totals,
    alike: Option<(Counts, u64)>,
    periodic: Totals,
    waiting: usize,
    dropped: bool,
    cost: u128,
    method: Method,
}

impl SiteTally {
    fn add(&mut self, counts: Counts) {
        match &mut self.alike {
            Some((like, warps)) if *like == counts => *warps += 1,
            _ => {
                self.settle();
                self.alike = Some((counts, 1));
            }
        }
    }

    fn settle(&mut self) {
        if let Some((counts, warps)) = self.alike.take() {
            self.totals.add_times(&counts, warps.into());
        }
    }

    fn mark(&self) -> Mark {
        Mark {
            totals: self.totals.clone(),
            alike: self.alike,
            periodic: self.periodic.clone(),
            waiting: self.waiting.len(),
            dropped: self.dropped,
            cost: self.cost,
            method: self.method,
        }
    }

    fn rollback(&mut self, mark: Mark) {
        let Mark { totals, alike, periodic, waiting, dropped, cost, method } = mark;
        self.waiting.truncate(waiting);
        self.dropped = dropped;
        (self.totals, self.alike, self.periodic) = (totals, alike, periodic);
        (self.cost, self.method) = (cost, method);
    }
}

/// Counts what the evaluator issues.
struct Counter<'a> {
    sites: &'a [Site],
    rules: &'a RuleSet,
    /// Representatives for the accesses of one site.
    budget: u64,
    tallies: Vec<SiteTally>,
    /// What went wrong in counting.
    error: Option<Diagnostic>,
}

impl Sink for Counter<'_> {
    type Mark = (Vec<Mark>, bool);

    fn issue(&mut self, emission: &BlockAccess<'_>) {
        let site = &self.sites[emission.site()];
        if emission.is_point() {
            let tally = &mut self.tallies[emission.site()];
            tally.method = tally.method.and(Method::OneByOne);
            for (warp, word) in emission.warps() {
                tally.add(self.rules.count(&emission.warp_access(site, warp, word)));
            }
            return;
        }
        // Warps that lie at equal distances are one more variable.
        let mut group: Option<Group> = None;
        for (warp, word) in emission.warps() {
            let access = emission.warp_access(site, warp, word);
            let terms = emission.terms(warp, word);
            if let Some(group) = &mut group
                && group.takes(&access, terms.clone())
            {
                continue;
            }
            if let Some(group) = group.replace(Group::new(access, terms)) {
                self.add_group(emission.site(), group);
            }
        }
        if let Some(group) = group {
            self.add_group(emission.site(), group);
        }
    }

    fn mark(&mut self) -> Self::Mark {
        (self.tallies.iter().map(SiteTally::mark).collect(), self.error.is_some())
    }

    fn rollback(&mut self, (marks, failed): Self::Mark) {
        for (tally, mark) in self.tallies.iter_mut().zip(marks) {
            tally.rollback(mark);
        }
        if !failed {
            self.error = None;
        }
    }
}

impl Tally for Counter<'_> {
    fn merge(&mut self, other: Self) {
        for (mine, mut theirs) in self.tallies.iter_mut().zip(other.tallies) {
            theirs.settle();
            mine.totals.merge(&theirs.totals);
            mine.periodic.merge(&theirs.periodic);
            mine.cost = mine.cost.saturating_add(theirs.cost);
            mine.waiting.append(&mut theirs.waiting);
            mine.dropped |= theirs.dropped || mine.waiting.len() > MOST_WAITING;
            if mine.dropped {
                mine.waiting = Vec::new();
            }
            mine.method = mine.method.and(theirs.method);
        }
        self.error = self.error.take().or(other.error);
    }
}

impl Counter<'_> {
    fn add_group(&mut self, site: usize, group: Group) {
        let tally = &mut self.tallies[site];
        tally.method = tally.method.and(Method::ClosedForm);
        let access = group.into_affine();
        // What has a period now; the rest once it is known how much it is.
        match access.count(self.rules, 0) {
            Ok(counted) => match counted.stages {
                Stages::Exact { .. } => tally.totals.merge(&counted.totals),
                Stages::OverBudget { needed, .. } => {
                    tally.periodic.merge(&counted.totals);
                    tally.cost = tally.cost.saturating_add(needed.max(LEAST_COST));
                    if tally.waiting.len() < MOST_WAITING {
                        tally.waiting.push(access);
                    } else {
                        tally.dropped = true;
                    }
                }
            },
            Err(error) => {
                self.error.get_or_insert_with(|| not_counted(&self.sites[site], &error));
            }
        }
    }

    fn finish(mut self, cost: Cost, exact: bool) -> Result<LaunchCounts, Diagnostic> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let (rules, budget) = (self.rules, self.budget);
        let mut sites = Vec::with_capacity(self.tallies.len());
        for (mut tally, site) in self.tallies.into_iter().zip(self.sites) {
            tally.settle();
            let mut totals = tally.totals;
            let uncounted = (tally.cost > u128::from(budget)).then_some(tally.cost);
            let mut sampled = None;
            if let Some(cost) = uncounted {
                if exact {
                    return Err(Diagnostic::new(
                        Kind::Limit,
                        site.span,
                        format!(
                            "counting every field of this access takes {cost} warps, and at most \
                             {budget} are counted"
                        ),
                        "leave out `--exact`, or choose smaller parameters",
                    ));
                }
                let estimated = (!tally.dropped)
                    .then(|| sample::estimate(&tally.waiting, site.op, rules))
                    .flatten();
                let counted = totals.clone();
                totals.merge(&tally.periodic);
                for field in Field::ALL {
                    if !field.is_periodic(site.op) {
                        totals.set(field, None);
                    }
                }
                if let Some(estimate) = estimated {
                    for (field, sum) in estimate.sums {
                        let known = match counted.instructions {
                            0 => Some(0),
                            _ => counted.get(field),
                        };
                        totals.set(field, known.map(|known| known.saturating_add(sum)));
                    }
                    totals.exact = false;
                    sampled = Some(estimate.sampled);
                }
            } else {
                let count = |access: AffineAccess| {
                    let counted = access.count(rules, budget).map_err(|e| not_counted(site, &e))?;
                    Ok(counted.totals)
                };
                let counted: Vec<Totals> = if tally.cost < FEW_REPRESENTATIVES {
                    tally.waiting.into_iter().map(count).collect::<Result<_, _>>()?
                } else {
                    tally.waiting.into_par_iter().map(count).collect::<Result<_, _>>()?
                };
                counted.iter().for_each(|counted| totals.merge(counted));
            }
            sites.push(SiteCounts { totals, method: tally.method, uncounted, sampled });
        }
        Ok(LaunchCounts {
            sites,
            boxes: cost.boxes,
            single_blocks: cost.single_blocks,
            because: cost.because,
        })
    }
}

fn not_counted(site: &Site, error: &AffineError) -> Diagnostic {
    Diagnostic::new(
        Kind::Limit,
        site.span,
        format!("the access can't be counted: {error}"),
        "choose smaller parameters",
    )
}

/// Warps of one instruction that lie at equal distances and move alike.
struct Group {
    access: WarpAccess,
    terms: Vec<AffineTerm>,
    /// Distance between them, once there are two.
    distance: i64,
    warps: u64,
}

impl Group {
    fn new(access: WarpAccess, terms: impl Iterator<Item = (i64, u64)>) -> Self {
        let terms = terms.map(|(coefficient, count)| AffineTerm { coefficient, count }).collect();
        Self { access, terms, distance: 0, warps: 1 }
    }

    /// Takes in the next warp where it fits.
    fn takes(&mut self, next: &WarpAccess, terms: impl Iterator<Item = (i64, u64)>) -> bool {
        if next.mask != self.access.mask
            || !terms.eq(self.terms.iter().map(|term| (term.coefficient, term.count)))
        {
            return false;
        }
        let first = self.access.mask.0.trailing_zeros() as usize % WARP_LANES;
        let apart = |lane: usize| next.addresses[lane].wrapping_sub(self.access.addresses[lane]);
        let from_first = apart(first) as i64;
        if self.warps > 1 && self.distance.checked_mul(self.warps as i64) != Some(from_first) {
            return false;
        }
        if !self.access.mask.lanes().all(|lane| apart(lane) as i64 == from_first) {
            return false;
        }
        if self.warps == 1 {
            self.distance = from_first;
        }
        self.warps += 1;
        true
    }

    fn into_affine(self) -> AffineAccess {
        let Self { access, mut terms, distance, warps } = self;
        if warps > 1 {
            terms.push(AffineTerm { coefficient: distance, count: warps });
        }
        AffineAccess {
            op: access.op,
            width: access.width,
            mask: access.mask,
            lane_addresses: access.addresses,
            terms,
        }
    }
}
