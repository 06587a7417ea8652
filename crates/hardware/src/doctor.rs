//! `coalescope doctor`: what works on this machine, and what to do about the
//! rest.

use crate::clocks::Monitor;
use crate::device::Description;
use crate::error::Error;
use crate::job::{Cache, Job, Outcome, WarpLaunch, WarpMemory, Work, measured_name};
use crate::profiler::session::Session;
use crate::profiler::{Profiler, Trouble, find};
use crate::supervisor::{self, WorkerCommand};
use crate::warps::kernel;
use serde::Serialize;
use simulator::{Op, WARP_LANES, WarpAccess};
use std::fmt;

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It works.
    Good,
    /// It is missing, and something does not work without it.
    Missing,
    /// It could not be found out.
    Unknown,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is: `driver`, `profiler`.
    pub what: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found, or what is wrong with what to do about it.
    pub text: String,
    /// What does not work without it; empty where it works.
    pub prevents: &'static str,
}

/// All that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// In the order in which one needs the other.
    pub findings: Vec<Finding>,
    /// The GPUs that could be opened.
    pub gpus: Vec<Description>,
}

impl Report {
    /// Exit code of the command: 0 where a GPU can be used, 3 where none can.
    /// What only adds to a measurement, as a profiler does, does not fail it.
    pub fn exit_code(&self) -> u8 {
        if self.gpus.is_empty() { 3 } else { 0 }
    }
}

/// What needs no GPU at all; said first, so that nobody is sent away.
const ALWAYS: &str = "all but measure needs no GPU";

/// Looks at driver, GPUs, memory, NVML, profiler, and, by counting a tiny
/// kernel, at the permission to use it.
pub fn report(worker: &WorkerCommand) -> Report {
    let mut report = Report { findings: Vec::new(), gpus: Vec::new() };
    let mut add = |what, state, text: String, prevents| {
        let prevents = if state == State::Good { "" } else { prevents };
        report.findings.push(Finding { what, state, text, prevents });
    };
    add("model", State::Good, ALWAYS.into(), "");

    const NO_GPU: &str = "measure";
    let driver = match cuda_driver::availability() {
        Ok(driver) => driver,
        Err(missing) => {
            add("driver", State::Missing, missing.to_string(), NO_GPU);
            return report;
        }
    };
    let version = crate::clocks::driver_version_of_module();
    let (major, minor) = driver.cuda;
    add(
        "driver",
        State::Good,
        match &version {
            Some(version) => format!("{version}, CUDA {major}.{minor} ({})", driver.library),
            None => format!("CUDA {major}.{minor} ({})", driver.library),
        },
        "",
    );
    // The kernels that ship are compiled by CUDA 13.0.
    if driver.cuda < (13, 0) {
        add(
            "hand-written kernels",
            State::Missing,
            format!(
                "their PTX needs a driver for CUDA 13.0, and this one is for {major}.{minor}; a \
                     newer driver brings them, generated kernels run with this one"
            ),
            "measuring the kernels in kernels/",
        );
    }

    let mut gpus = Vec::new();
    for index in 0..driver.devices {
        match supervisor::describe(worker, index) {
            Ok(gpu) => {
                add("GPU", State::Good, describe(&gpu), "");
                gpus.push(gpu);
            }
            Err(error) => add("GPU", State::Missing, format!("number {index}: {error}"), NO_GPU),
        }
    }
    if let Some(gpu) = gpus.first() {
        match Monitor::open(&gpu.pci_bus_id) {
            Ok(_) => add("NVML", State::Good, "clocks and throttling are recorded".into(), ""),
            Err(error) => add(
                "NVML",
                State::Missing,
                format!(
                    "{error}; the driver's package has libnvidia-ml.so.1, a container needs the \
                     `utility` capability (NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
                ),
                "noticing clock changes and throttling while timing",
            ),
        }
    }

    const NO_COUNTERS: &str = "measure --counters and --warps; times work without";
    match find::find() {
        Err(trouble) => add("profiler", State::Missing, trouble.to_string(), NO_COUNTERS),
        Ok(profiler) => {
            add(
                "profiler",
                State::Good,
                format!("ncu {} ({})", profiler.version, profiler.path.display()),
                "",
            );
            if let Some(gpu) = gpus.first() {
                let (state, text) = permission(worker, gpu, profiler);
                add("counters", state, text, NO_COUNTERS);
            }
        }
    }
    report.gpus = gpus;
    report
}

fn describe(gpu: &Description) -> String {
    let (major, minor) = gpu.compute_capability;
    format!(
        "number {}: {}, compute capability {major}.{minor}, {} SMs, L2 {}, memory {}{}, PCI {}",
        gpu.index,
        gpu.name,
        gpu.multiprocessors,
        record::units::bytes(gpu.l2_bytes.into()),
        record::units::bytes(gpu.memory_bytes.into()),
        if gpu.ecc { " with ECC" } else { "" },
        gpu.pci_bus_id
    )
}

/// Counts one warp that loads 128 bytes.
fn permission(worker: &WorkerCommand, gpu: &Description, profiler: Profiler) -> (State, String) {
    const METRIC: &str = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum";
    let entry = measured_name(0);
    // Low addresses are moved to where memory can be had.
    let addresses: [u64; WARP_LANES] = std::array::from_fn(|lane| 4 * lane as u64);
    let access = WarpAccess::new(Op::LOAD, 4, addresses);
    let ptx = match kernel::text(&access, None, &entry) {
        Ok(ptx) => ptx,
        Err(error) => return (State::Unknown, error.to_string()),
    };
    let warp = WarpLaunch {
        ptx,
        entry,
        mask: u32::MAX,
        width: 4,
        addresses: addresses.to_vec(),
        memory: WarpMemory::Global,
        shared_addresses: None,
    };
    let job = Job { id: 0, limit_s: 10.0, work: Work::Warp(warp) };
    let mut session = Session::new(worker.clone(), gpu.index, profiler, Cache::Cold);
    match session.count(&[job], &[METRIC.to_owned()]) {
        Ok(results) => match results.into_iter().next() {
            Some(Ok((Outcome::Warp { .. }, counted))) => {
                let value = counted.values.get(METRIC).map(ToString::to_string);
                let value = value.unwrap_or_default();
                let text = format!("allowed; a test kernel that reads 4 sectors counted {value}");
                (if value == "4" { State::Good } else { State::Unknown }, text)
            }
            Some(Ok((other, _))) => (State::Unknown, format!("the worker answered {other:?}")),
            Some(Err(why)) => (State::Unknown, why),
            None => (State::Unknown, "nothing was counted".into()),
        },
        Err(Error::Profiler(Trouble::NotPermitted)) => {
            let setting = restricted_setting();
            (State::Missing, format!("{}{setting}", Trouble::NotPermitted))
        }
        Err(error) => (State::Missing, error.to_string()),
    }
}

/// What the kernel module says of the restriction.
fn restricted_setting() -> &'static str {
    let params = std::fs::read_to_string("/proc/driver/nvidia/params").unwrap_or_default();
    match params.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:")) {
        Some(value) if value.trim() == "1" => " (RmProfilingAdminOnly is 1 here)",
        Some(_) => " (RmProfilingAdminOnly is 0 here: look at the container's capabilities)",
        None => "",
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.findings.iter().map(|finding| finding.what.len()).max().unwrap_or(0);
        for finding in &self.findings {
            let mark = match finding.state {
                State::Good => "ok",
                State::Missing => "--",
                State::Unknown => "??",
            };
            writeln!(f, "{mark} {:width$}  {}", finding.what, finding.text)?;
            if !finding.prevents.is_empty() {
                writeln!(f, "   {:width$}  prevents: {}", "", finding.prevents)?;
            }
        }
        Ok(())
    }
}
