//! `coalescope measure`: scenarios on the GPU, timed and counted.
//!
//! Each point (scenario × variant × sweep point) gives up to five records:
//!
//! | part | kernel | assembled | size |
//! |---|---|---|---|
//! | time | generated | optimised | the scenario's |
//! | time | hand-written, where the scenario's kernel is a `.cu` file | optimised | the scenario's |
//! | counters, all | generated | as written | counting size |
//! | counters, few | generated | optimised | counting size |
//! | counters, few | hand-written | optimised | counting size |
//!
//! Before anything of a point is launched, the host evaluates all its accesses:
//! one outside its buffer refuses the point. Before its time is taken, a
//! verifying launch at the counting size compares what the device touches with
//! that evaluation. The two optimised counts tell whether the assembler or the
//! compiler changed the accesses; where they did, the record's warnings begin
//! with `optimised_away:` or `compiler_changed:`.
//!
//! Records are appended one by one as they come; `resume` skips what a file
//! already has, records with an error included (`retry` tries those again).

use crate::device::{Description, Level, Resources};
use crate::error::Error;
use crate::hand_written::{self, HandWritten};
use crate::job::{Cache, Job, Launch, Outcome, Reference, Work, measured_name};
use crate::launch;
use crate::measured::{self, About, Build, Placed};
use crate::output::Output;
use crate::profiler::session::{LaunchResult, Session};
use crate::profiler::{Profiler, find};
use crate::supervisor::{self, Event, WorkerCommand};
use crate::verify::Verification;
use ptx::Purpose;
use record::{KernelKind, Metric, MetricMap, OpClass, Part, RunRecord};
use scenario::{Files, Run, RunPlan};
use simulator::{Field, RuleSet, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use crate::warps::counters::CounterSet;

/// Points to a timing process: how many a worker that is lost can cost, and
/// how often the device's own speed is measured again.
const TIME_BATCH: usize = 16;

/// A footprint up to which a scenario without `[counting]` is counted as it is.
pub const COUNTING_BYTES: u64 = 64 << 20;

/// A scenario × variant × sweep point.
pub struct Point<'a> {
    /// The run as it is timed.
    pub plan: RunPlan,
    /// The run as it is counted: with the parameters of `[counting]`; the same
    /// where there are none.
    pub counting: RunPlan,
    /// Whether the scenario has `[counting]`.
    pub has_counting: bool,
    /// Where its `.cu` file's PTX is read from.
    pub files: &'a dyn Files,
}

impl Point<'_> {
    /// Scenario, variant and point in words.
    pub fn label(&self) -> String {
        match self.plan.label() {
            label if label.is_empty() => self.plan.scenario().to_owned(),
            label => format!("{} ({label})", self.plan.scenario()),
        }
    }
}

/// What to measure and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// File of records to append to.
    pub output: PathBuf,
    /// Whether to continue it where it exists.
    pub resume: bool,
    /// Whether to try again what has an error record.
    pub retry: bool,
    /// Which GPU.
    pub gpu: u32,
    /// Whether to take times.
    pub time: bool,
    /// Whether to count under the profiler.
    pub counters: bool,
    /// Whether to count large footprints at full size.
    pub full: bool,
    /// Whether a verifying launch precedes each time.
    pub verify: bool,
    /// Whether to launch each point once and nothing else, at its counting
    /// size and as written: for a sanitizer around the command.
    pub once: bool,
    /// Which counters.
    pub counter_set: CounterSet,
    /// State of the caches.
    pub cache: Cache,
    /// Samples of each time.
    pub samples: u32,
    /// Bytes copied to measure the device's own speed.
    pub copy_bytes: u64,
    /// Longest time that a launch may take, seconds.
    pub limit_s: f64,
    /// Launches to a profiler process.
    pub chunk: usize,
    /// No new process is started after this time.
    pub budget: Option<Duration>,
    /// The profiler; looked for where it is not named.
    pub profiler: Option<PathBuf>,
    /// How workers are started.
    pub worker: WorkerCommand,
}

impl Options {
    /// Times of everything into `output`: cold caches, 25 samples.
    pub fn new(output: impl Into<PathBuf>, worker: WorkerCommand) -> Self {
        Self {
            output: output.into(),
            resume: false,
            retry: false,
            gpu: 0,
            time: true,
            counters: false,
            full: false,
            verify: true,
            once: false,
            counter_set: CounterSet::Full,
            cache: Cache::Cold,
            samples: 25,
            copy_bytes: 1 << 30,
            limit_s: 10.0,
            chunk: 32,
            budget: None,
            profiler: None,
            worker,
        }
    }
}

/// How far a campaign is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// What is being done: `timing`, `counting`.
    pub part: &'a str,
    /// Points done.
    pub done: usize,
    /// Points in all.
    pub total: usize,
    /// What was just done.
    pub label: &'a str,
}

/// What came of a campaign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The device.
    pub device: Option<Description>,
    /// Records of times written.
    pub timed: usize,
    /// Records of counters written.
    pub counted: usize,
    /// Points that a verifying launch confirmed.
    pub verified: usize,
    /// Records that the file had before.
    pub done_before: usize,
    /// What was left out, and why.
    pub skipped: Vec<(String, String)>,
    /// What failed, and why.
    pub failures: Vec<(String, String)>,
    /// What is to be known about the whole: no profiler, unknown metrics.
    pub notes: Vec<String>,
    /// Points not begun for want of time.
    pub left: usize,
    /// Bytes read and written a second by a device-to-device copy, of each
    /// process.
    pub copy_bytes_per_s: Vec<f64>,
    /// Seconds by events of an empty kernel, of each process.
    pub launch_overhead_s: Vec<f64>,
    /// The run with the highest requested bandwidth, bytes a second.
    pub best: Option<(String, f64)>,
    /// Launches counted, and seconds in the profiler for them.
    pub profiled: (usize, f64),
}

/// The rules for a device that has none of its own; the summary says so.
const OTHERWISE: &str = "9.0";

/// Measures points, and appends their records to a file.
///
/// # Errors
/// Where there is no GPU or the file cannot be used. What fails of single
/// points is in the summary.
pub fn run(
    points: &[Point<'_>],
    options: &Options,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Summary, Error> {
    let start = Instant::now();
    let description = supervisor::describe(&options.worker, options.gpu)?;
    let mut summary = Summary { device: Some(description.clone()), ..Summary::default() };
    let profiler = if options.counters { profiler(options, &mut summary)? } else { None };

    let mut done = BTreeSet::new();
    let mut bad_lines = 0;
    let output = Output::open(&options.output, options.resume, |line| {
        match record::read_runs(line.as_bytes()).next() {
            Some(Ok(record)) => {
                if record.error.is_none() || !options.retry {
                    done.insert(measured::key(&record));
                }
            }
            _ => bad_lines += 1,
        }
    })?;
    if bad_lines > 0 {
        summary.notes.push(format!(
            "{} lines of {} are no run records and are left alone",
            bad_lines,
            options.output.display()
        ));
    }
    summary.done_before = done.len();

    let (major, minor) = description.compute_capability;
    let arch = format!("{major}.{minor}");
    let rules = match RuleSet::for_arch(&arch) {
        Some(rules) => rules,
        None => {
            summary.notes.push(format!(
                "there is no rule set for compute capability {arch}; which accesses the device has \
                 and how many bytes they ask for is taken from CC {OTHERWISE}"
            ));
            RuleSet::for_arch(OTHERWISE)
                .ok_or_else(|| Error::Input("no rule set ships with this program".into()))?
        }
    };
    let mut tools =
        BTreeMap::from([("coalescope".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    tools
        .insert("cuda driver api".into(), format!("{}.{}", description.cuda.0, description.cuda.1));
    if let Some(profiler) = &profiler {
        tools.insert("ncu".into(), profiler.version.clone());
    }
    let about = About { description, cache: options.cache, tools };
    let mut campaign =
        Campaign { points, options, about, rules, arch, done, output, start, summary, progress };
    if options.once {
        campaign.launch_once()?;
    } else {
        if options.time {
            campaign.time()?;
        }
        if let Some(profiler) = profiler {
            campaign.count(profiler)?;
        }
    }
    Ok(campaign.summary)
}

/// The profiler; without one, times alone are taken, and the summary says so.
fn profiler(options: &Options, summary: &mut Summary) -> Result<Option<Profiler>, Error> {
    let found = match &options.profiler {
        Some(path) => find::at(path),
        None => find::find(),
    };
    match found {
        Ok(profiler) => Ok(Some(profiler)),
        Err(trouble) if options.time => {
            summary.notes.push(trouble.to_string());
            Ok(None)
        }
        Err(trouble) => Err(trouble.into()),
    }
}

struct Campaign<'a, 'p> {
    points: &'a [Point<'p>],
    options: &'a Options,
    about: About,
    rules: RuleSet,
    arch: String,
    /// Keys of the records that the file has.
    done: BTreeSet<String>,
    output: Output,
    start: Instant,
    summary: Summary,
    progress: &'a mut dyn FnMut(&Progress<'_>),
}

/// A job's meaning to the campaign.
enum Meaning {
    Reference,
    Verify { label: String, verification: Box<Verification> },
    Time { label: String, run: Box<Run>, build: Build, requested_bytes: Option<u128> },
}

/// A launch to be counted.
struct Counting {
    label: String,
    /// Index of the point.
    point: usize,
    run: std::rc::Rc<Run>,
    build: Build,
    launch: Launch,
}

impl Campaign<'_, '_> {
    fn time_is_up(&self) -> bool {
        self.options.budget.is_some_and(|budget| self.start.elapsed() >= budget)
    }

    fn tell(&mut self, part: &str, done: usize, label: &str) {
        (self.progress)(&Progress { part, done, total: self.points.len(), label });
    }

    /// Builds a run; what is wrong with it goes to the summary.
    fn build(&mut self, label: &str, plan: &RunPlan) -> Option<Run> {
        match plan.build() {
            Ok(run) => Some(run),
            Err(errors) => {
                self.fail(label, errors.to_string());
                None
            }
        }
    }

    fn fail(&mut self, label: &str, why: impl Into<String>) {
        self.summary.failures.push((label.to_owned(), why.into()));
    }

    fn skip(&mut self, label: &str, why: impl Into<String>) {
        self.summary.skipped.push((label.to_owned(), why.into()));
    }

    /// Whether the file has this record already.
    fn has(&self, run: &Run, build: Build, part: Part) -> bool {
        self.done.contains(&measured::key(&measured::blank(&self.about, run, build, part)))
    }

    fn write(&mut self, record: &RunRecord) -> Result<(), Error> {
        let line = serde_json::to_string(record)
            .map_err(|error| Error::Worker(format!("a record cannot be written: {error}")))?;
        self.output.line(&line)?;
        self.done.insert(measured::key(record));
        Ok(())
    }

    /// Writes a record that says why there are no results.
    fn write_failure(
        &mut self,
        label: &str,
        run: &Run,
        build: Build,
        part: Part,
        why: &str,
    ) -> Result<(), Error> {
        self.fail(label, why);
        let mut record = measured::blank(&self.about, run, build, part);
        record.error = Some(why.to_owned());
        self.write(&record)
    }

    /// Evaluates all accesses of a run: its requested bytes of global memory,
    /// or what it does wrong.
    fn evaluate(&self, run: &Run) -> Result<Option<u128>, String> {
        let options = scenario::count::Options::default();
        let counts = scenario::count::count(run, &self.rules, &run.assumed_bases(), &options)
            .map_err(|error| {
                error.render(&run.sources, scenario::Style::Plain).trim_end().to_owned()
            })?;
        Ok(run
            .program
            .sites
            .iter()
            .zip(&counts.sites)
            .filter(|(site, _)| site.op.space == Space::Global)
            .map(|(_, counts)| counts.totals.get(Field::RequestedBytes))
            .try_fold(0u128, |sum, bytes| Some(sum.saturating_add(bytes.unwrap_or(0)))))
    }

    /// The run's hand-written kernel; why there is none goes to the summary.
    fn hand_written(&mut self, label: &str, run: &Run, files: &dyn Files) -> Option<HandWritten> {
        match hand_written::find(run, files) {
            Ok(kernel) => kernel,
            Err(why) => {
                self.skip(&format!("{label}, hand-written"), why);
                None
            }
        }
    }

    // ---- time ----------------------------------------------------------------

    fn time(&mut self) -> Result<(), Error> {
        let points = self.points;
        for (batch, chunk) in points.chunks(TIME_BATCH).enumerate() {
            let before = batch * TIME_BATCH;
            if self.time_is_up() {
                self.summary.left += points.len() - before;
                break;
            }
            let folder = scratch("time")?;
            let mut meanings = Vec::new();
            let mut jobs = Vec::new();
            let mut add = |work: Work, meaning: Meaning, limit_s: f64| {
                jobs.push(Job { id: jobs.len() as u32, limit_s, work });
                meanings.push(meaning);
            };
            let copy_bytes = self.options.copy_bytes;
            let reference = Work::Reference { copy_bytes, samples: self.options.samples.min(10) };
            add(reference, Meaning::Reference, self.options.limit_s);
            for (index, point) in chunk.iter().enumerate() {
                let folder = folder.path().join(index.to_string());
                for (work, meaning) in self.time_of(before + index, point, &folder)? {
                    add(work, meaning, self.options.limit_s);
                }
                self.tell("preparing", before + index, &point.label());
            }
            if jobs.len() > 1 {
                self.run_timing(&jobs, meanings)?;
            }
            self.tell("timing", before + chunk.len(), "");
        }
        Ok(())
    }

    /// The jobs of a point.
    fn time_of(
        &mut self,
        index: usize,
        point: &Point<'_>,
        folder: &Path,
    ) -> Result<Vec<(Work, Meaning)>, Error> {
        let label = point.label();
        let Some(run) = self.build(&label, &point.plan) else { return Ok(Vec::new()) };
        let hand_written = self.hand_written(&label, &run, point.files);
        let builds = [Some(Build::TIMED), hand_written.is_some().then_some(Build::HAND_WRITTEN)];
        let builds: Vec<Build> = builds
            .into_iter()
            .flatten()
            .filter(|&build| !self.has(&run, build, Part::Time))
            .collect();
        if builds.is_empty() {
            return Ok(Vec::new());
        }
        let requested_bytes = match self.evaluate(&run) {
            Ok(bytes) => bytes,
            Err(why) => {
                for build in builds {
                    self.write_failure(&label, &run, build, Part::Time, &why)?;
                }
                return Ok(Vec::new());
            }
        };
        let mut work = Vec::new();
        if self.options.verify && builds.contains(&Build::TIMED) {
            match self.verification(index, &label, point, &folder.join("verify")) {
                Some(Ok(verification)) => work.push((
                    verification.work(),
                    Meaning::Verify { label: label.clone(), verification: Box::new(verification) },
                )),
                Some(Err(why)) => self.skip(&format!("{label}, verification"), why),
                None => {}
            }
        }
        for build in builds {
            let folder = folder.join(build.kernel.name());
            let entry = format!("coalescope_t{index:06}_{}", build.kernel.name().replace('-', "_"));
            let launch = make(&run, build, hand_written.as_ref(), &entry, &folder);
            match launch {
                Ok(launch) => {
                    let label = match build.kernel {
                        KernelKind::Generated => label.clone(),
                        KernelKind::HandWritten => format!("{label}, hand-written"),
                    };
                    let samples = self.options.samples;
                    work.push((
                        Work::Time { launch, cache: self.options.cache, samples },
                        Meaning::Time { label, run: Box::new(run.clone()), build, requested_bytes },
                    ));
                }
                Err(why) => self.write_failure(&label, &run, build, Part::Time, &why)?,
            }
        }
        Ok(work)
    }

    /// The verifying launch of a point, at its counting size.
    fn verification(
        &mut self,
        index: usize,
        label: &str,
        point: &Point<'_>,
        folder: &Path,
    ) -> Option<Result<Verification, String>> {
        let run = self.build(label, &point.counting)?;
        Some(
            make_folder(folder).and_then(|()| {
                Verification::prepare(run, &format!("coalescope_v{index:06}"), folder)
            }),
        )
    }

    fn run_timing(&mut self, jobs: &[Job], meanings: Vec<Meaning>) -> Result<(), Error> {
        let options = self.options;
        let mut meanings = meanings.into_iter();
        let mut reference: Option<Reference> = None;
        // What the verifying launch of the point said that comes next.
        let mut verdict: Option<Result<(), String>> = None;
        supervisor::run(&options.worker, options.gpu, jobs, |event| {
            let Event::Done(_, outcome) = event else { return Ok(()) };
            let Some(meaning) = meanings.next() else { return Ok(()) };
            match (meaning, *outcome) {
                (Meaning::Reference, Outcome::Reference(measured)) => {
                    let speed = measured::speed(&measured);
                    self.summary.copy_bytes_per_s.extend(speed.copy_bytes_per_s);
                    self.summary.launch_overhead_s.extend(speed.launch_overhead_seconds);
                    reference = Some(measured);
                    Ok(())
                }
                (Meaning::Reference, outcome) => {
                    self.fail("the device's own speed", said(outcome));
                    Ok(())
                }
                (Meaning::Verify { label, verification }, outcome) => {
                    verdict = self.judge(&label, &verification, outcome);
                    Ok(())
                }
                (
                    Meaning::Time { label, run, build, requested_bytes },
                    Outcome::Time { timed, bases, resources },
                ) => {
                    let placed = Placed { bases: &bases, resources };
                    let mut record = measured::timed(
                        &self.about,
                        &run,
                        build,
                        &placed,
                        &timed,
                        requested_bytes,
                        reference.as_ref(),
                    );
                    if build == Build::TIMED {
                        match verdict.take() {
                            Some(Ok(())) => record.verified = Some(true),
                            Some(Err(why)) => {
                                record.verified = Some(false);
                                record.warnings.push(format!("verification: {why}"));
                            }
                            None => {}
                        }
                    }
                    self.note_best(&label, &record);
                    self.write(&record)?;
                    self.summary.timed += 1;
                    Ok(())
                }
                (Meaning::Time { label, run, build, .. }, outcome) => {
                    self.write_failure(&label, &run, build, Part::Time, &said(outcome))
                }
            }
        })
    }

    fn judge(
        &mut self,
        label: &str,
        verification: &Verification,
        outcome: Outcome,
    ) -> Option<Result<(), String>> {
        let judged = match outcome {
            Outcome::Verify { bases, words } => verification.judge(&bases, &words),
            outcome => Ok(Some(said(outcome))),
        };
        match judged {
            Ok(None) => {
                self.summary.verified += 1;
                Some(Ok(()))
            }
            Ok(Some(difference)) => {
                self.fail(&format!("{label}, verification"), difference.clone());
                Some(Err(difference))
            }
            Err(why) => {
                self.skip(&format!("{label}, verification"), why);
                None
            }
        }
    }

    fn note_best(&mut self, label: &str, record: &RunRecord) {
        let rate = record.bandwidth.as_ref().and_then(|bandwidth| bandwidth.requested_bytes_per_s);
        if let Some(rate) = rate
            && self.summary.best.as_ref().is_none_or(|(_, best)| rate > *best)
        {
            self.summary.best = Some((label.to_owned(), rate));
        }
    }

    // ---- counters ------------------------------------------------------------

    fn count(&mut self, profiler: Profiler) -> Result<(), Error> {
        let options = self.options;
        let mut session =
            Session::new(options.worker.clone(), options.gpu, profiler, options.cache);
        // Points whose kernels need the same metrics go together.
        let mut groups = BTreeMap::<BTreeSet<OpClass>, Vec<usize>>::new();
        for (index, point) in self.points.iter().enumerate() {
            let label = point.label();
            let Some(run) = self.build(&label, &point.counting) else { continue };
            let classes: BTreeSet<OpClass> =
                run.program.sites.iter().map(|site| OpClass::of(site.op)).collect();
            groups.entry(classes).or_default().push(index);
        }
        let mut done = 0;
        for (classes, members) in groups {
            // The kernel as written is asked for everything; of the others it
            // is only asked whether they do the same.
            let all = metrics(&self.arch, &classes, options.counter_set);
            let few = metrics(&self.arch, &classes, CounterSet::Minimal);
            for chunk in members.chunks(options.chunk.max(1)) {
                if self.time_is_up() {
                    self.summary.left += chunk.len();
                    continue;
                }
                match self.count_chunk(&mut session, chunk, &all, &few) {
                    Ok(()) => {}
                    // Times have been taken; what keeps counters away is said
                    // once and keeps all of them away.
                    Err(Error::Profiler(trouble)) if options.time => {
                        self.summary.notes.push(trouble.to_string());
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
                done += chunk.len();
                self.tell("counting", done, "");
            }
        }
        if !session.unknown.is_empty() {
            let names: Vec<&str> = session.unknown.iter().map(String::as_str).collect();
            self.summary.notes.push(format!(
                "the profiler does not know on this chip, and they were left out: {}",
                names.join(", ")
            ));
        }
        Ok(())
    }

    fn count_chunk(
        &mut self,
        session: &mut Session,
        chunk: &[usize],
        all: &[String],
        few: &[String],
    ) -> Result<(), Error> {
        let folder = scratch("count")?;
        let mut launches = Vec::new();
        for &index in chunk {
            launches.extend(self.count_of(index, &folder.path().join(index.to_string()))?);
        }
        let (as_written, others): (Vec<Counting>, Vec<Counting>) =
            launches.into_iter().partition(|counting| counting.build == Build::COUNTED);
        let mut written = BTreeMap::new();
        for (mut launches, metrics) in [(as_written, all), (others, few)] {
            let jobs: Vec<Job> = launches
                .iter_mut()
                .enumerate()
                .map(|(id, counting)| {
                    let name = measured_name(id as u32);
                    let launch = &mut counting.launch;
                    launch.ptx = launch::rename_entry(&launch.ptx, &launch.entry, &name);
                    launch.entry = name;
                    let work = Work::Once(launch.clone());
                    Job { id: id as u32, limit_s: self.options.limit_s, work }
                })
                .collect();
            let began = Instant::now();
            let results = session.count(&jobs, metrics)?;
            self.summary.profiled.0 += results.iter().filter(|result| result.is_ok()).count();
            self.summary.profiled.1 += began.elapsed().as_secs_f64();
            self.write_counts(launches, results, &mut written)?;
        }
        Ok(())
    }

    fn write_counts(
        &mut self,
        launches: Vec<Counting>,
        results: Vec<LaunchResult>,
        written: &mut BTreeMap<usize, RunRecord>,
    ) -> Result<(), Error> {
        for (counting, result) in launches.into_iter().zip(results) {
            let Counting { label, point, run, build, .. } = counting;
            let (outcome, counted) = match result {
                Ok(counted) => counted,
                Err(why) => {
                    self.write_failure(&label, &run, build, Part::Counters, &why)?;
                    continue;
                }
            };
            let (bases, resources) = placed_of(outcome)?;
            let placed = Placed { bases: &bases, resources };
            let mut record = measured::counted(&self.about, &run, build, &placed, &counted);
            if let Some(as_written) = written.get(&point) {
                let differences = measured::differences(as_written, &record);
                if !differences.is_empty() {
                    let what = match build.kernel {
                        KernelKind::Generated => "optimised_away",
                        KernelKind::HandWritten => "compiler_changed",
                    };
                    record.warnings.push(format!("{what}: {}", differences.join("; ")));
                }
            }
            self.write(&record)?;
            self.summary.counted += 1;
            if build == Build::COUNTED {
                written.insert(point, record);
            }
        }
        Ok(())
    }

    /// The launches of a point that are to be counted.
    fn count_of(&mut self, index: usize, folder: &Path) -> Result<Vec<Counting>, Error> {
        let point = &self.points[index];
        let label = point.label();
        let plan = if self.options.full { &point.plan } else { &point.counting };
        let Some(run) = self.build(&label, plan) else { return Ok(Vec::new()) };
        let bytes = launch::footprint(&run);
        if bytes > COUNTING_BYTES && !self.options.full && !point.has_counting {
            self.skip(
                &format!("{label}, counters"),
                format!(
                    "its buffers have {bytes} bytes, and the profiler saves and restores them for \
                     each pass: give smaller parameters in [counting], or count it as it is with \
                     --full"
                ),
            );
            return Ok(Vec::new());
        }
        let hand_written = self.hand_written(&label, &run, point.files);
        let builds = [
            Some(Build::COUNTED),
            Some(Build::TIMED),
            hand_written.is_some().then_some(Build::HAND_WRITTEN),
        ];
        let all: Vec<Build> = builds.into_iter().flatten().collect();
        if all.iter().all(|&build| self.has(&run, build, Part::Counters)) {
            return Ok(Vec::new());
        }
        if let Err(why) = self.evaluate(&run) {
            for build in all {
                if !self.has(&run, build, Part::Counters) {
                    self.write_failure(&label, &run, build, Part::Counters, &why)?;
                }
            }
            return Ok(Vec::new());
        }
        let run = std::rc::Rc::new(run);
        let mut launches = Vec::new();
        for (number, build) in all.into_iter().enumerate() {
            let folder = folder.join(number.to_string());
            match make(&run, build, hand_written.as_ref(), "kernel", &folder) {
                Ok(launch) => launches.push(Counting {
                    label: label.clone(),
                    point: index,
                    run: std::rc::Rc::clone(&run),
                    build,
                    launch,
                }),
                Err(why) => self.write_failure(&label, &run, build, Part::Counters, &why)?,
            }
        }
        Ok(launches)
    }

    // ---- once ----------------------------------------------------------------

    /// Launches every point's kernels once, for a sanitizer around the command.
    fn launch_once(&mut self) -> Result<(), Error> {
        let options = self.options;
        for (batch, chunk) in self.points.chunks(TIME_BATCH).enumerate() {
            let first = batch * TIME_BATCH;
            if self.time_is_up() {
                self.summary.left += self.points.len() - first;
                break;
            }
            let folder = scratch("once")?;
            let mut launches = Vec::new();
            for index in first..first + chunk.len() {
                launches.extend(self.count_of(index, &folder.path().join(index.to_string()))?);
            }
            let jobs: Vec<Job> = launches
                .iter()
                .enumerate()
                .map(|(id, counting)| Job {
                    id: id as u32,
                    limit_s: options.limit_s,
                    work: Work::Once(counting.launch.clone()),
                })
                .collect();
            let mut launches = launches.into_iter();
            supervisor::run(&options.worker, options.gpu, &jobs, |event| {
                if let Event::Done(_, outcome) = event
                    && let Some(counting) = launches.next()
                    && let Outcome::Failed { message, .. } = *outcome
                {
                    self.fail(&counting.label, message);
                }
                Ok(())
            })?;
            self.tell("launching", first + chunk.len(), "");
        }
        Ok(())
    }
}

/// The launch of one build of a run.
fn make(
    run: &Run,
    build: Build,
    hand_written: Option<&HandWritten>,
    entry: &str,
    folder: &Path,
) -> Result<Launch, String> {
    make_folder(folder)?;
    match (build.kernel, hand_written) {
        (KernelKind::HandWritten, Some(kernel)) => launch::hand_written(run, kernel, entry, folder),
        _ => {
            let level = if build.optimised { Level::Default } else { Level::Unoptimised };
            launch::generated(run, Purpose::Measure, level, entry, folder)
        }
    }
}

fn make_folder(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn scratch(what: &str) -> Result<tempfile::TempDir, Error> {
    tempfile::Builder::new()
        .prefix(&format!("coalescope-{what}-"))
        .tempdir()
        .map_err(|error| Error::file(std::env::temp_dir(), error))
}

/// What an outcome says that is not the one awaited.
fn said(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failed { message, .. } => message,
        other => format!("the worker answered something else: {other:?}"),
    }
}

fn placed_of(outcome: Outcome) -> Result<(Vec<u64>, Resources), Error> {
    match outcome {
        Outcome::Once { bases, resources } => Ok((bases, resources)),
        other => Err(Error::Worker(said(other))),
    }
}

/// The metrics of kernels with these classes of operations: those of the
/// classes, and those of the kernel as a whole.
fn metrics(arch: &str, classes: &BTreeSet<OpClass>, set: CounterSet) -> Vec<String> {
    /// What [`CounterSet::Minimal`] has: enough to tell whether the counts of a
    /// kernel are the model's.
    const MINIMAL: [&str; 5] =
        ["instructions", "requests", "sectors", "data_wavefronts", "unique_bytes"];
    let map = MetricMap::shipped();
    let wanted = |metric: &&Metric| {
        metric.class.is_none_or(|class| classes.contains(&class))
            && (set == CounterSet::Full || MINIMAL.contains(&metric.field.as_str()))
    };
    let known: Vec<String> =
        map.on(arch).filter(wanted).map(|metric| metric.name.clone()).collect();
    if !known.is_empty() {
        return known;
    }
    // A chip that nobody has asked yet: the profiler says what it lacks.
    map.iter().filter(wanted).map(|metric| metric.name.clone()).collect()
}
