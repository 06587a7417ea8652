//! The child process that holds the device: reads jobs, writes reports.
//!
//! A kernel that faults or hangs takes its context down, and with it every
//! later call of the process; so the parent (see [`crate::supervisor`]) only
//! ever loses a worker. Both files are JSON Lines in one folder: files rather
//! than pipes, because a profiler or a sanitizer around the worker writes to
//! its standard output too.

use crate::bench::Bench;
use crate::device::cuda::CudaDevice;
use crate::device::{Device, Level};
use crate::error::Error;
use crate::job::{Dump, Header, Job, Launch, Outcome, Report, WarpLaunch, Work};
use crate::warps::kernel::WarpArguments;
use crate::warps::placement::Arena;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

/// The jobs, in the worker's folder: a [`Header`], then [`Job`]s.
pub const JOBS_FILE: &str = "jobs.jsonl";

/// The [`Report`]s, in the worker's folder.
pub const REPORTS_FILE: &str = "reports.jsonl";

/// How long a worker whose kernel hangs waits to be ended by its parent.
const LAST_WAIT: Duration = Duration::from_secs(30);

/// Runs the worker on the jobs in `folder` and returns the exit code of its
/// process: 0 when all jobs were tried, whatever came of them.
///
/// This is what the hidden `--worker FOLDER` of `coalescope measure` calls.
pub fn main(folder: &Path) -> u8 {
    match run(folder) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("worker: {error}");
            error.exit_code()
        }
    }
}

fn run(folder: &Path) -> Result<(), Error> {
    let path = folder.join(REPORTS_FILE);
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(|error| Error::file(&path, error))?;
    let mut reports = Reports { file };
    let path = folder.join(JOBS_FILE);
    let file = File::open(&path).map_err(|error| Error::file(&path, error))?;
    let mut lines = BufReader::new(file).lines();
    let (header, mut device) = match open(&mut lines, &path) {
        Ok(opened) => opened,
        Err(error) => {
            let exit_code = error.exit_code();
            return reports.write(&Report::Refused { message: error.to_string(), exit_code });
        }
    };
    reports.write(&Report::Ready(Box::new(device.description().clone())))?;
    let jobs = lines.map(|line| {
        let line = line.map_err(|error| Error::file(&path, error))?;
        // A parent that was killed cannot end its worker.
        if !header.parent_is_alive() {
            return Err(Error::Worker("the parent process has ended".into()));
        }
        parse::<Job>(&line)
    });
    let ended = serve(jobs, &mut device, |report| reports.write(report))?;
    if ended == Ended::Hung {
        // Closing the context would wait for the kernel. The parent has read
        // the report by now and ends this process.
        std::thread::sleep(LAST_WAIT);
        std::process::abort();
    }
    Ok(())
}

fn open(
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
    path: &Path,
) -> Result<(Header, CudaDevice), Error> {
    let line = lines
        .next()
        .transpose()
        .map_err(|error| Error::file(path, error))?
        .ok_or_else(|| Error::Worker(format!("{} is empty", path.display())))?;
    let header: Header = parse(&line)?;
    let own = env!("CARGO_PKG_VERSION");
    if header.version != own {
        return Err(Error::Worker(format!(
            "the jobs are of version {}, this program is {own}",
            header.version
        )));
    }
    let device = CudaDevice::open(header.gpu)?;
    Ok((header, device))
}

fn parse<T: serde::de::DeserializeOwned>(line: &str) -> Result<T, Error> {
    serde_json::from_str(line).map_err(|error| Error::Worker(format!("a job is damaged: {error}")))
}

/// Writes each report whole and at once.
struct Reports {
    file: File,
}

impl Reports {
    fn write(&mut self, report: &Report) -> Result<(), Error> {
        let mut line = serde_json::to_string(report)
            .map_err(|error| Error::Worker(format!("a report cannot be written: {error}")))?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(|error| Error::file(REPORTS_FILE, error))
    }
}

/// How [`serve`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All jobs were tried.
    Done,
    /// A kernel faulted: the rest is for another worker.
    Faulted,
    /// A kernel does not end: the rest is for another worker, and this process
    /// cannot close its context.
    Hung,
}

/// Does the jobs one after the other.
pub(crate) fn serve(
    jobs: impl Iterator<Item = Result<Job, Error>>,
    device: &mut dyn Device,
    mut report: impl FnMut(&Report) -> Result<(), Error>,
) -> Result<Ended, Error> {
    let mut bench = Bench::new(device);
    let mut arena = Arena::default();
    for job in jobs {
        let job = job?;
        report(&Report::Started(job.id))?;
        let (outcome, ended) = match work(&mut bench, &mut arena, &job) {
            Ok(outcome) => (outcome, None),
            Err(error) => {
                let fatal = error.is_fatal();
                let ended = match error {
                    Error::Timeout { .. } => Some(Ended::Hung),
                    _ if fatal => Some(Ended::Faulted),
                    _ => None,
                };
                (Outcome::Failed { message: error.to_string(), fatal }, ended)
            }
        };
        report(&Report::Done { id: job.id, outcome: Box::new(outcome) })?;
        if let Some(ended) = ended {
            return Ok(ended);
        }
    }
    arena.clear(bench.device)?;
    report(&Report::End)?;
    Ok(Ended::Done)
}

fn work(bench: &mut Bench<'_>, arena: &mut Arena, job: &Job) -> Result<Outcome, Error> {
    let limit = Duration::try_from_secs_f64(job.limit_s)
        .map_err(|_| Error::Input(format!("{} s is no time limit", job.limit_s)))?;
    match &job.work {
        Work::Time { launch, cache, samples } => with(bench, launch, 0, |bench, prepared| {
            let timed = bench.time(prepared, *cache, *samples, limit)?;
            let resources = bench.device.resources(prepared.kernel)?;
            Ok(Outcome::Time { timed, bases: prepared.bases(), resources })
        }),
        Work::Once(launch) => with(bench, launch, 0, |bench, prepared| {
            bench.once(prepared, limit)?;
            let resources = bench.device.resources(prepared.kernel)?;
            Ok(Outcome::Once { bases: prepared.bases(), resources })
        }),
        Work::Verify { launch, result_words, before, after } => {
            with(bench, launch, *result_words, |bench, prepared| {
                dump(bench, launch, prepared, before)?;
                bench.once(prepared, limit)?;
                dump(bench, launch, prepared, after)?;
                let words = bench.results(prepared)?;
                Ok(Outcome::Verify { bases: prepared.bases(), words })
            })
        }
        Work::Warp(warp) => one_warp(bench.device, arena, warp, limit),
        Work::Reference { copy_bytes, samples } => {
            bench.reference(*copy_bytes, *samples).map(Outcome::Reference)
        }
    }
}

/// Writes buffers to files.
fn dump(
    bench: &mut Bench<'_>,
    launch: &Launch,
    prepared: &crate::bench::Prepared,
    dumps: &[Dump],
) -> Result<(), Error> {
    for Dump { buffer, path } in dumps {
        let (Some(region), Some(buffer)) =
            (prepared.regions.get(*buffer), launch.buffers.get(*buffer))
        else {
            return Err(Error::Worker(format!("the job has no buffer {buffer}")));
        };
        let mut bytes = vec![0; buffer.bytes as usize];
        bench.device.read(region, buffer.offset_bytes, &mut bytes)?;
        std::fs::write(path, bytes).map_err(|error| Error::file(path, error))?;
    }
    Ok(())
}

/// Prepares a launch, uses it and releases it, also where the use failed.
fn with(
    bench: &mut Bench<'_>,
    launch: &Launch,
    result_words: u64,
    use_it: impl FnOnce(&mut Bench<'_>, &crate::bench::Prepared) -> Result<Outcome, Error>,
) -> Result<Outcome, Error> {
    let prepared = bench.prepare(launch, result_words)?;
    let outcome = use_it(bench, &prepared);
    match outcome {
        // The context is gone: releasing would only fail, or wait.
        Err(error) if error.is_fatal() => Err(error),
        outcome => {
            let released = bench.release(prepared);
            let outcome = outcome?;
            released.map(|()| outcome)
        }
    }
}

fn one_warp(
    device: &mut dyn Device,
    arena: &mut Arena,
    warp: &WarpLaunch,
    limit: Duration,
) -> Result<Outcome, Error> {
    let arguments = WarpArguments::place(warp, device, arena)?;
    let kernel = device.load(&warp.ptx, &warp.entry, Level::Unoptimised)?;
    device.enqueue(kernel, &arguments.shape(), &arguments.values())?;
    device.wait(limit)?;
    device.unload(kernel)?;
    Ok(Outcome::Warp { addresses: arguments.addresses.to_vec(), exact: arguments.exact })
}
