//! The parent's side of a worker process: starts it, reads its reports, ends it
//! when it hangs, and starts another for the jobs that are left.

use crate::device::Description;
use crate::error::Error;
use crate::job::{Header, Job, Outcome, Report, Work};
use crate::worker::{JOBS_FILE, REPORTS_FILE};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a worker is started.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program and its arguments; the folder of the jobs is appended. For
    /// the command line: this program, `measure --worker`.
    pub command: Vec<OsString>,
    /// Environment variables set for it.
    pub environment: Vec<(OsString, OsString)>,
}

impl WorkerCommand {
    /// This very program with the arguments `measure --worker`.
    ///
    /// # Errors
    /// Where the system does not say what this program is.
    pub fn this_program() -> Result<Self, Error> {
        let program = std::env::current_exe()
            .map_err(|error| Error::Worker(format!("this program's path is unknown: {error}")))?;
        let command = vec![program.into(), "measure".into(), "--worker".into()];
        Ok(Self { command, environment: Vec::new() })
    }

    /// The same worker under another program, such as a profiler.
    pub fn under(&self, wrapper: Vec<OsString>) -> Self {
        let mut command = wrapper;
        command.extend(self.command.iter().cloned());
        Self { command, environment: self.environment.clone() }
    }
}

/// What the supervisor tells while it works.
#[derive(Debug)]
pub enum Event<'a> {
    /// A worker has opened the device.
    Ready(&'a Description),
    /// A job ended, well or not.
    Done(&'a Job, Box<Outcome>),
}

/// How long a worker may take to open the device: JIT caches and profilers can
/// make that slow.
const OPEN_LIMIT: Duration = Duration::from_secs(120);

/// How often the reports are looked at.
const POLL: Duration = Duration::from_millis(10);

/// How a worker ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status; `None` where the supervisor ended it.
    pub status: Option<ExitStatus>,
    /// The end of what it and a wrapper wrote to standard error and output.
    pub said: String,
    /// Whether it did all its jobs.
    pub complete: bool,
}

/// Does the jobs in worker processes, restarting them as often as needed. Each
/// job gets exactly one [`Event::Done`], in the jobs' order.
///
/// # Errors
/// Where no worker can be started, or the device cannot be opened.
pub fn run(
    worker: &WorkerCommand,
    gpu: u32,
    jobs: &[Job],
    mut event: impl FnMut(Event<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut rest = jobs;
    let mut idle_ends = 0;
    while !rest.is_empty() {
        let (done, ended) = run_once(worker, gpu, rest, &mut event)?;
        rest = &rest[done..];
        if rest.is_empty() || ended.complete {
            break;
        }
        // A worker that ends before it has done anything will not do better
        // forever.
        idle_ends = if done == 0 { idle_ends + 1 } else { 0 };
        if idle_ends >= 2 {
            return Err(Error::Worker(format!(
                "the worker process ended {} before its first job{}",
                how(ended.status),
                said(&ended.said)
            )));
        }
    }
    Ok(())
}

/// What the GPU is: opens it in a worker that has nothing to do.
///
/// # Errors
/// Where it cannot be opened.
pub fn describe(worker: &WorkerCommand, gpu: u32) -> Result<Description, Error> {
    let mut found = None;
    let mut take = |event: Event<'_>| {
        if let Event::Ready(description) = event {
            found = Some(description.clone());
        }
        Ok(())
    };
    let (_, ended) = run_once(worker, gpu, &[], &mut take)?;
    found.ok_or_else(|| {
        Error::Worker(format!(
            "the worker process ended {} before it had opened the GPU{}",
            how(ended.status),
            said(&ended.said)
        ))
    })
}

fn how(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "late".to_owned(), |status| format!("with {status}"))
}

fn said(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!(": {}", text.trim()) }
}

/// Does jobs in one worker process, until it ends or has to be ended. Returns
/// how many of the jobs have had their [`Event::Done`].
///
/// # Errors
/// Where the worker cannot be started, or refuses; and those of `event`.
pub fn run_once(
    worker: &WorkerCommand,
    gpu: u32,
    jobs: &[Job],
    event: &mut impl FnMut(Event<'_>) -> Result<(), Error>,
) -> Result<(usize, Ended), Error> {
    let folder = tempfile::Builder::new()
        .prefix("coalescope-worker-")
        .tempdir()
        .map_err(|error| Error::file(std::env::temp_dir(), error))?;
    write_jobs(folder.path(), gpu, jobs)?;
    let mut process = Process::start(worker, folder.path())?;
    let mut reports = Tail::new(folder.path().join(REPORTS_FILE));
    let mut state = Watch { done: 0, started: false, ready: false, since: Instant::now() };

    let status = loop {
        // The status first: what the worker wrote before it ended is then in
        // the file.
        let status = process.status()?;
        for report in reports.read()? {
            if state.take(report, jobs, event)? {
                process.end();
                let said = process.said(folder.path());
                return Ok((state.done, Ended { status: None, said, complete: false }));
            }
        }
        if status.is_some() {
            break status;
        }
        if state.since.elapsed() > state.patience(jobs) {
            process.end();
            break None;
        }
        std::thread::sleep(POLL);
    };

    let said_text = process.said(folder.path());
    let complete = state.done == jobs.len();
    if state.started
        && let Some(job) = jobs.get(state.done)
    {
        // It went down with this job.
        let message = match status {
            Some(status) => {
                format!("the worker process ended with {status}{}", said(&said_text))
            }
            None => format!(
                "the worker process made no progress for {} s and was ended",
                state.patience(jobs).as_secs()
            ),
        };
        state.done += 1;
        event(Event::Done(job, Box::new(Outcome::Failed { message, fatal: true })))?;
    }
    Ok((state.done, Ended { status, said: said_text, complete }))
}

/// What is known of a worker from its reports.
struct Watch {
    done: usize,
    started: bool,
    ready: bool,
    since: Instant,
}

impl Watch {
    /// Takes in a report; `true` where the worker is to be ended.
    fn take(
        &mut self,
        report: Report,
        jobs: &[Job],
        event: &mut impl FnMut(Event<'_>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        self.since = Instant::now();
        match report {
            Report::Ready(description) => {
                self.ready = true;
                event(Event::Ready(&description))?;
            }
            Report::Refused { message, exit_code } => {
                return Err(Error::Refused { message, exit_code });
            }
            Report::Started(_) => self.started = true,
            Report::Done { id, outcome } => {
                let Some(job) = jobs.get(self.done).filter(|job| job.id == id) else {
                    return Err(Error::Worker(format!("the worker reports an unknown job {id}")));
                };
                self.done += 1;
                self.started = false;
                let fatal = matches!(*outcome, Outcome::Failed { fatal: true, .. });
                event(Event::Done(job, outcome))?;
                return Ok(fatal);
            }
            Report::End => self.started = false,
        }
        Ok(false)
    }

    /// How long nothing may be heard.
    fn patience(&self, jobs: &[Job]) -> Duration {
        match jobs.get(self.done) {
            Some(job) if self.ready => patience(job),
            _ => OPEN_LIMIT,
        }
    }
}

/// How long a job may take in all before its worker is given up: the worker's
/// own limits come first, this is for one that does not come back from a call
/// into the driver.
fn patience(job: &Job) -> Duration {
    let launches = match &job.work {
        // First launch, warm-up, two launches a sample.
        Work::Time { samples, .. } => 5 + 2 * samples,
        _ => 1,
    };
    let limit = Duration::try_from_secs_f64(job.limit_s).unwrap_or(OPEN_LIMIT);
    limit.saturating_mul(launches).saturating_add(OPEN_LIMIT)
}

fn write_jobs(folder: &Path, gpu: u32, jobs: &[Job]) -> Result<(), Error> {
    let path = folder.join(JOBS_FILE);
    let file = File::create(&path).map_err(|error| Error::file(&path, error))?;
    let mut file = std::io::BufWriter::new(file);
    let mut line = |value: serde_json::Result<String>| -> Result<(), Error> {
        let text = value.map_err(|error| Error::Worker(format!("a job: {error}")))?;
        writeln!(file, "{text}").map_err(|error| Error::file(&path, error))
    };
    line(serde_json::to_string(&Header::new(gpu)))?;
    for job in jobs {
        line(serde_json::to_string(job))?;
    }
    file.flush().map_err(|error| Error::file(&path, error))
}

const STDOUT_FILE: &str = "stdout";
const STDERR_FILE: &str = "stderr";

/// A running worker, ended with everything it started when this is dropped.
struct Process {
    child: Child,
}

impl Process {
    fn start(worker: &WorkerCommand, folder: &Path) -> Result<Self, Error> {
        let Some((program, arguments)) = worker.command.split_first() else {
            return Err(Error::Worker("there is no worker command".into()));
        };
        let output = |name: &str| {
            let path = folder.join(name);
            File::create(&path).map_err(|error| Error::file(path, error))
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .arg(folder)
            .envs(worker.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output(STDOUT_FILE)?)
            .stderr(output(STDERR_FILE)?);
        #[cfg(unix)]
        {
            // A group of its own, so that a wrapper and the worker under it
            // end together.
            use std::os::unix::process::CommandExt;
            command.process_group(0);
        }
        let child = command.spawn().map_err(|error| {
            Error::Worker(format!(
                "the worker process `{}` cannot be started: {error}",
                program.to_string_lossy()
            ))
        })?;
        Ok(Self { child })
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child
            .try_wait()
            .map_err(|error| Error::Worker(format!("the worker process is lost: {error}")))
    }

    /// Ends the worker and what it started, at once.
    fn end(&mut self) {
        #[cfg(unix)]
        {
            // The child is not yet waited for, so its id is still its own.
            if let Some(group) = rustix::process::Pid::from_raw(self.child.id() as i32) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The end of what was written to standard error, else to output.
    fn said(&self, folder: &Path) -> String {
        const LAST_LINES: usize = 8;
        [STDERR_FILE, STDOUT_FILE]
            .iter()
            .filter_map(|name| std::fs::read(folder.join(name)).ok())
            .map(|bytes| {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let lines: Vec<&str> = text.lines().collect();
                lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
            })
            .find(|text| !text.trim().is_empty())
            .unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.end();
        }
    }
}

/// Reads whole lines from a file that another process appends to.
struct Tail {
    path: PathBuf,
    position: u64,
    partial: Vec<u8>,
}

impl Tail {
    fn new(path: PathBuf) -> Self {
        Self { path, position: 0, partial: Vec::new() }
    }

    fn read(&mut self) -> Result<Vec<Report>, Error> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            // Not yet there.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::file(&self.path, error)),
        };
        let mut fresh = Vec::new();
        file.seek(SeekFrom::Start(self.position))
            .and_then(|_| file.read_to_end(&mut fresh))
            .map_err(|error| Error::file(&self.path, error))?;
        self.position += fresh.len() as u64;
        self.partial.extend(fresh);
        let Some(end) = self.partial.iter().rposition(|&byte| byte == b'\n') else {
            return Ok(Vec::new());
        };
        let rest = self.partial.split_off(end + 1);
        let lines = std::mem::replace(&mut self.partial, rest);
        lines
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| {
                serde_json::from_slice(line)
                    .map_err(|error| Error::Worker(format!("a report is damaged: {error}")))
            })
            .collect()
    }
}
