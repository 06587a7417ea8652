//! What the parent hands to a worker process, and what comes back: one JSON
//! object a line in each direction.
//!
//! A job holds everything that its launch needs, PTX text included; a worker
//! knows nothing of scenarios. So what is launched is exactly what the parent
//! has checked, and the same worker serves generated kernels, hand-written ones
//! and single warps.

use crate::device::{Clocks, Description, Level, Place, Resources, Shape};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How the entries of measured kernels begin. A number follows, another one for
/// each launch of a profiled process, so that a profiler's row names the launch
/// it belongs to; no helper kernel's name begins so.
pub const MEASURED_PREFIX: &str = "coalescope_r";

/// Name of the measured kernel with this number.
pub fn measured_name(number: u32) -> String {
    format!("{MEASURED_PREFIX}{number:06}")
}

/// State of the caches when a kernel starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// Nothing of the buffers is in L2.
    #[default]
    Cold,
    /// The same kernel ran just before.
    Warm,
}

/// What a buffer holds before the launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// Pseudo-random words, `(mix(seed + i) & keep) | set` (see
    /// [`crate::device::cuda`]'s fill kernel): floats come out between 1 and 2.
    Random {
        /// Differs by buffer.
        seed: u64,
        /// Bits kept.
        keep: u64,
        /// Bits set.
        set: u64,
    },
    /// The bytes of a file, from the buffer's first element on; the rest of
    /// the buffer is zero.
    File(PathBuf),
    /// What a kernel writes: integers that the scenario computes from their
    /// index. The rest of the buffer is zero.
    Computed(Box<FillKernel>),
    /// All zero.
    Zero,
}

/// A kernel that fills a buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FillKernel {
    /// PTX module.
    pub ptx: String,
    /// Its kernel.
    pub entry: String,
    /// Grid and block.
    pub shape: Shape,
    /// One for each parameter; [`JobArgument::Buffer`] is the buffer itself,
    /// whatever its number.
    pub arguments: Vec<JobArgument>,
}

/// A buffer of a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobBuffer {
    /// Its name in the scenario.
    pub name: String,
    /// Bytes between the allocation's base and the first element.
    pub offset_bytes: u64,
    /// Bytes from the first element on.
    pub bytes: u64,
    /// Where it lives.
    pub place: Place,
    /// What it holds.
    pub contents: Contents,
}

/// A kernel argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobArgument {
    /// Address of the first element of a buffer of the job.
    Buffer(usize),
    /// A number.
    Value {
        /// Size of the kernel's parameter: 1, 2, 4 or 8.
        bytes: u8,
        /// The value; its low `bytes` bytes are passed.
        value: u64,
    },
    /// Address of the zeroed results buffer of a verifying launch.
    Results,
}

/// A kernel with all that its launch needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// PTX module.
    pub ptx: String,
    /// Its kernel.
    pub entry: String,
    /// How it is assembled.
    pub level: Level,
    /// Grid, block, dynamic shared memory.
    pub shape: Shape,
    /// Buffers to allocate.
    pub buffers: Vec<JobBuffer>,
    /// One for each parameter of the kernel.
    pub arguments: Vec<JobArgument>,
}

/// The memory of a warp's access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarpMemory {
    /// Virtual addresses.
    Global,
    /// Offsets in the block's shared memory.
    Shared,
    /// Offsets in each thread's local memory.
    Local,
}

/// One warp that executes one memory instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WarpLaunch {
    /// PTX module.
    pub ptx: String,
    /// Its kernel.
    pub entry: String,
    /// Lanes that take part.
    pub mask: u32,
    /// Bytes a lane.
    pub width: u8,
    /// Wanted addresses of the 32 lanes in global memory, or offsets in shared
    /// or local memory.
    pub addresses: Vec<u64>,
    /// What `addresses` go to.
    pub memory: WarpMemory,
    /// For asynchronous copies: offsets in shared memory.
    pub shared_addresses: Option<Vec<u64>>,
}

/// Writes the bytes of a buffer, from its first element on, to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dump {
    /// Which buffer of the launch.
    pub buffer: usize,
    /// The file.
    pub path: PathBuf,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Take samples of the kernel's time.
    Time {
        /// The kernel.
        launch: Launch,
        /// Cache state of each sample.
        cache: Cache,
        /// Number of samples.
        samples: u32,
    },
    /// Launch it once, for a profiler or a sanitizer around this process.
    Once(Launch),
    /// Launch it once and read the results buffer, and buffers before and
    /// after.
    Verify {
        /// The kernel.
        launch: Launch,
        /// Size of the results buffer, 64-bit words.
        result_words: u64,
        /// Buffers whose bytes go to a file before the launch.
        before: Vec<Dump>,
        /// Buffers whose bytes go to a file after it.
        after: Vec<Dump>,
    },
    /// Launch one warp.
    Warp(WarpLaunch),
    /// Measure the device itself: copy bandwidth and launch overhead.
    Reference {
        /// Bytes copied.
        copy_bytes: u64,
        /// Number of samples.
        samples: u32,
    },
}

/// A line from parent to worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: u32,
    /// Longest time that one launch may take, seconds.
    pub limit_s: f64,
    /// What to do.
    pub work: Work,
}

/// Times of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Seconds of each sample, in order.
    pub samples_s: Vec<f64>,
    /// Seconds of the first launch, with all that is slow once.
    pub first_s: f64,
    /// Clocks while the samples ran.
    pub clocks_during: Option<Clocks>,
    /// Clocks when they had ended.
    pub clocks_after: Option<Clocks>,
}

/// Speed of the device itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Bytes copied by each `cuMemcpyDtoDAsync`.
    pub copy_bytes: u64,
    /// Seconds of each copy.
    pub copy_s: Vec<f64>,
    /// Seconds by events of each launch of an empty kernel: what every time
    /// contains beside the kernel's work.
    pub empty_kernel_s: Vec<f64>,
}

/// What a launch came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The samples.
    Time {
        /// Seconds.
        timed: Timed,
        /// Base address of each buffer's allocation.
        bases: Vec<u64>,
        /// What the assembled kernel uses.
        resources: Resources,
    },
    /// It ran.
    Once {
        /// Base address of each buffer's allocation.
        bases: Vec<u64>,
        /// What the assembled kernel uses.
        resources: Resources,
    },
    /// It ran, and this is what it saw.
    Verify {
        /// Base address of each buffer's allocation.
        bases: Vec<u64>,
        /// The results buffer.
        words: Vec<u64>,
    },
    /// The warp ran.
    Warp {
        /// Where the lanes really went; inactive ones are 0.
        addresses: Vec<u64>,
        /// Whether these are the wanted addresses.
        exact: bool,
    },
    /// The device's speed.
    Reference(Reference),
    /// It failed, and this is why.
    Failed {
        /// A sentence.
        message: String,
        /// Whether the worker cannot go on after it.
        fatal: bool,
    },
}

/// A line from worker to parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The device is open; the first line.
    Ready(Box<Description>),
    /// It is not, and this is why; the only line.
    Refused {
        /// A sentence.
        message: String,
        /// Exit code of the command for it.
        exit_code: u8,
    },
    /// Work on this job begins.
    Started(u32),
    /// What came of it.
    Done {
        /// The job.
        id: u32,
        /// The result.
        outcome: Box<Outcome>,
    },
    /// All jobs are done; the last line.
    End,
}

/// The first line of a job file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Which GPU.
    pub gpu: u32,
    /// Version of this program: a worker of another build refuses.
    pub version: String,
    /// Process id of the parent: a worker whose parent is gone ends.
    pub parent: u32,
}

impl Header {
    /// The header that this process gives its workers.
    pub fn new(gpu: u32) -> Self {
        Self { gpu, version: env!("CARGO_PKG_VERSION").to_owned(), parent: std::process::id() }
    }

    /// Whether the parent still runs.
    pub fn parent_is_alive(&self) -> bool {
        #[cfg(unix)]
        if let Some(parent) = rustix::process::Pid::from_raw(self.parent as i32) {
            let asked = rustix::process::test_kill_process(parent);
            return asked != Err(rustix::io::Errno::SRCH);
        }
        true
    }
}
