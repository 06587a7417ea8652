//! Launches counted under the profiler, several to a process.

use super::{Counted, Profiler, Trouble, command, environment, read};
use crate::error::Error;
use crate::job::{Cache, Job, Outcome, Work};
use crate::supervisor::{Event, WorkerCommand, run_once};
use std::collections::{BTreeMap, BTreeSet};

/// A profiler on one GPU. It remembers which metrics the chip does not know.
#[derive(Clone, Debug)]
pub struct Session {
    /// How a worker is started, without the profiler.
    pub worker: WorkerCommand,
    /// Which GPU.
    pub gpu: u32,
    /// The profiler.
    pub profiler: Profiler,
    /// State of the caches at each launch: flushed by the profiler, or left.
    pub cache: Cache,
    /// Metrics that the profiler has refused so far.
    pub unknown: BTreeSet<String>,
    /// Whether it has counted anything yet.
    works: bool,
    /// Failures in a row of the profiler itself.
    failures: u32,
}

/// A launch that was counted, or why it was not.
pub type LaunchResult = Result<(Outcome, Counted), String>;

/// How often a launch is tried before it is given up.
const ATTEMPTS: u32 = 2;

impl Session {
    /// A session that has counted nothing yet.
    pub fn new(worker: WorkerCommand, gpu: u32, profiler: Profiler, cache: Cache) -> Self {
        let unknown = BTreeSet::new();
        Self { worker, gpu, profiler, cache, unknown, works: false, failures: 0 }
    }

    /// Runs the jobs under the profiler in one process, and what is left over
    /// by a failure in further ones. One result for each job, in order.
    ///
    /// The jobs are [`Work::Once`] or [`Work::Warp`], and each kernel's entry
    /// is named by [`crate::job::measured_name`] with another number.
    ///
    /// # Errors
    /// Where no launch can be counted: [`Error::Profiler`], or those of the
    /// worker. What the profiler says of single launches is in their results.
    pub fn count(&mut self, jobs: &[Job], metrics: &[String]) -> Result<Vec<LaunchResult>, Error> {
        let mut results: Vec<Option<LaunchResult>> = jobs.iter().map(|_| None).collect();
        let mut attempts: Vec<u32> = vec![0; jobs.len()];
        loop {
            let pending: Vec<usize> =
                (0..jobs.len()).filter(|&index| results[index].is_none()).collect();
            if pending.is_empty() {
                break;
            }
            let known: Vec<String> =
                metrics.iter().filter(|name| !self.unknown.contains(*name)).cloned().collect();
            if known.is_empty() {
                return Err(Trouble::UnknownMetrics(metrics.to_vec()).into());
            }
            let batch: Vec<Job> = pending.iter().map(|&index| jobs[index].clone()).collect();
            let (outcomes, counted) = match self.run(&batch, &known)? {
                Ok(run) => run,
                Err(Trouble::UnknownMetrics(names)) => {
                    self.unknown.extend(names);
                    continue;
                }
                Err(trouble @ Trouble::Failed(_)) => {
                    self.failures += 1;
                    if !self.works && self.failures >= ATTEMPTS {
                        return Err(trouble.into());
                    }
                    // Perhaps one launch upset it: the rest deserves a try.
                    give_up(&pending, &mut attempts, &mut results, &trouble.to_string());
                    continue;
                }
                Err(trouble) => return Err(trouble.into()),
            };
            self.failures = 0;
            self.works |= !counted.is_empty();
            for (position, &index) in pending.iter().enumerate() {
                let rows = counted.get(entry(&jobs[index])).map_or(&[][..], Vec::as_slice);
                results[index] = match (outcomes.get(position), rows) {
                    (Some(Outcome::Failed { message, .. }), _) => Some(Err(message.clone())),
                    (Some(outcome), [row]) => Some(Ok((outcome.clone(), row.clone()))),
                    (Some(_), [_, _, ..]) => {
                        Some(Err("the profiler has several rows for one launch".into()))
                    }
                    _ => None,
                };
            }
            let left: Vec<usize> =
                pending.iter().copied().filter(|&index| results[index].is_none()).collect();
            if left.len() == pending.len() {
                give_up(&left, &mut attempts, &mut results, "the profiler has no row for it");
            }
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// One process. The outcomes are those of the first jobs, as far as the
    /// worker came; rows are by kernel name.
    #[allow(clippy::type_complexity)] // two lists, used in one place
    fn run(
        &self,
        jobs: &[Job],
        metrics: &[String],
    ) -> Result<Result<(Vec<Outcome>, BTreeMap<String, Vec<Counted>>), Trouble>, Error> {
        let folder = tempfile::Builder::new()
            .prefix("coalescope-profile-")
            .tempdir()
            .map_err(|error| Error::file(std::env::temp_dir(), error))?;
        let log = folder.path().join("profile.csv");
        let mut worker = self.worker.under(command(&self.profiler, metrics, self.cache, &log));
        worker.environment.extend(environment());
        let mut outcomes = Vec::new();
        let mut collect = |event: Event<'_>| {
            if let Event::Done(_, outcome) = event {
                outcomes.push(*outcome);
            }
            Ok(())
        };
        let (_, ended) = run_once(&worker, self.gpu, jobs, &mut collect)?;
        let output = match std::fs::read(&log) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::file(log, error)),
        };
        // What keeps it from starting the program is told outside the log.
        let all = format!("{output}\n{}", ended.said);
        Ok(match read(&all, metrics) {
            Err(trouble) => Err(trouble),
            Ok(rows) if rows.is_empty() && outcomes.is_empty() => Err(Trouble::Failed(format!(
                "it ended {} without starting a launch{}",
                ended.status.map_or("late".into(), |status| format!("with {status}")),
                if ended.said.is_empty() { String::new() } else { format!(": {}", ended.said) },
            ))),
            Ok(rows) => {
                let mut by_name = BTreeMap::<String, Vec<Counted>>::new();
                for row in rows {
                    by_name.entry(row.kernel.clone()).or_default().push(row);
                }
                Ok((outcomes, by_name))
            }
        })
    }
}

/// Notes a failed attempt, and gives the first launch up where it was one too
/// many: it stands in the way of the others.
fn give_up(
    pending: &[usize],
    attempts: &mut [u32],
    results: &mut [Option<LaunchResult>],
    why: &str,
) {
    let Some(&first) = pending.first() else { return };
    attempts[first] += 1;
    if attempts[first] >= ATTEMPTS {
        results[first] = Some(Err(why.to_owned()));
    }
}

/// Name of a job's kernel.
fn entry(job: &Job) -> &str {
    match &job.work {
        Work::Once(launch) | Work::Time { launch, .. } | Work::Verify { launch, .. } => {
            &launch.entry
        }
        Work::Warp(warp) => &warp.entry,
        Work::Reference { .. } => "",
    }
}
