//! What a measurement asks of a device.
//!
//! [`Device`] has the few primitives that everything else is made of: memory,
//! kernels, one queue of work with time marks in it, and sparse mappings at
//! chosen addresses. [`cuda::CudaDevice`] is the real one.

pub mod cuda;
#[cfg(test)]
pub(crate) mod fake;
pub mod kernels;

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a device is; constant while it is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Product name, as the driver tells it.
    pub name: String,
    /// Number among the visible devices, as `--gpu` takes it.
    pub index: u32,
    /// PCI bus id, `0000:3b:00.0`.
    pub pci_bus_id: String,
    /// Compute capability, (major, minor).
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Size of the L2 cache as the driver tells it, bytes.
    pub l2_bytes: u64,
    /// Memory of the card, bytes.
    pub memory_bytes: u64,
    /// Highest SM clock, Hz.
    pub sm_clock_hz: u64,
    /// Highest memory clock, Hz.
    pub memory_clock_hz: u64,
    /// Width of the memory bus, bits.
    pub memory_bus_bits: u32,
    /// Whether error correction is on.
    pub ecc: bool,
    /// Most shared memory a block can be given, bytes.
    pub shared_bytes_per_block: u64,
    /// Shared memory that the blocks of an SM can have together, bytes.
    pub shared_bytes_per_sm: u64,
    /// Shared memory that the driver takes of each block for itself, bytes.
    pub shared_bytes_reserved: u64,
    /// Threads that an SM holds at most.
    pub threads_per_sm: u32,
    /// Blocks that an SM holds at most; 0 where the driver is too old to tell.
    pub blocks_per_sm: u32,
    /// 32-bit registers of an SM.
    pub registers_per_sm: u32,
    /// CUDA version of the driver, (major, minor).
    pub cuda: (u32, u32),
    /// Version of the driver, where NVML or the kernel module tells it.
    pub driver: Option<String>,
}

/// Free and total memory of the card, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryState {
    /// Not allocated by anybody.
    pub free: u64,
    /// All of it.
    pub total: u64,
}

/// Clocks and what holds them down, at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// SM clock, Hz.
    pub sm_hz: u64,
    /// Memory clock, Hz.
    pub memory_hz: u64,
    /// `P0` (fastest) to `P15`.
    pub performance_state: Option<String>,
    /// Reasons for reduced clocks, in NVML's words; idling is none.
    pub throttled: Vec<String>,
    /// Degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Watts.
    pub power_w: Option<f64>,
}

/// Where memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On the card.
    Device,
    /// Page-locked on the host, mapped into the device's address space.
    Pinned,
}

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte, as kernels address it.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Where it is.
    pub place: Place,
}

/// How hard the driver's assembler works on PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Level 0: every memory access stays as it is written. For counting.
    Unoptimised,
    /// The driver's default, level 4. For timing.
    Default,
}

/// A loaded kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelId(pub usize);

/// What a kernel uses once assembled for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Registers a thread.
    pub registers: u32,
    /// Statically declared shared memory a block, bytes.
    pub shared_bytes: u64,
    /// Local memory a thread, bytes: spills and indexed arrays.
    pub local_bytes: u64,
}

/// Grid, block and dynamic shared memory of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Blocks on x, y, z.
    pub grid: [u32; 3],
    /// Threads a block on x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory a block, bytes.
    pub shared_bytes: u32,
}

impl Shape {
    /// A one-dimensional launch without dynamic shared memory.
    pub const fn linear(blocks: u32, threads: u32) -> Self {
        Self { grid: [blocks, 1, 1], block: [threads, 1, 1], shared_bytes: 0 }
    }
}

/// One kernel argument: the bytes of its value, as long as the kernel's
/// parameter.
pub type Argument = Vec<u8>;

/// A moment in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub usize);

/// A device with one queue of work.
///
/// `enqueue…` and [`Device::mark`] return before the work is done, and the work
/// is done in the order in which it was enqueued. Memory is released and
/// kernels are unloaded only when nothing enqueued uses them: callers
/// [`Device::wait`] first.
pub trait Device {
    /// What the device is.
    fn description(&self) -> &Description;

    /// Free and total memory.
    fn memory(&self) -> Result<MemoryState, Error>;

    /// Clocks now; `None` where nothing tells them.
    fn clocks(&self) -> Option<Clocks>;

    /// Allocates at least `bytes` (more than 0).
    fn allocate(&mut self, bytes: u64, place: Place) -> Result<Region, Error>;

    /// Gives an allocation back.
    fn release(&mut self, region: Region) -> Result<(), Error>;

    /// Copies from the host to `region` from its byte `offset` on; done when
    /// it returns.
    fn write(&mut self, region: &Region, offset: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Copies from `region`, from its byte `offset` on, to the host.
    fn read(&mut self, region: &Region, offset: u64, bytes: &mut [u8]) -> Result<(), Error>;

    /// Assembles PTX and finds its kernel `entry`.
    fn load(&mut self, ptx: &str, entry: &str, level: Level) -> Result<KernelId, Error>;

    /// What the assembled kernel uses.
    fn resources(&self, kernel: KernelId) -> Result<Resources, Error>;

    /// Forgets a kernel.
    fn unload(&mut self, kernel: KernelId) -> Result<(), Error>;

    /// Enqueues a launch. One argument for each parameter of the kernel, of
    /// its size.
    fn enqueue(
        &mut self,
        kernel: KernelId,
        shape: &Shape,
        arguments: &[Argument],
    ) -> Result<(), Error>;

    /// Enqueues a copy of the first `bytes` of one allocation to another.
    fn enqueue_copy(&mut self, to: &Region, from: &Region, bytes: u64) -> Result<(), Error>;

    /// Enqueues a time mark.
    fn mark(&mut self) -> Result<Mark, Error>;

    /// Makes all marks so far invalid and their places free.
    fn clear_marks(&mut self);

    /// Waits until everything enqueued is done.
    ///
    /// # Errors
    /// [`Error::Timeout`] after `limit`; what is enqueued then still runs, and
    /// the process had better end. A driver error where a kernel faulted.
    fn wait(&mut self, limit: Duration) -> Result<(), Error>;

    /// Seconds from one mark to a later one; both have passed.
    fn seconds(&self, from: Mark, to: Mark) -> Result<f64, Error>;

    /// Size and alignment of the pieces of [`Device::back`], bytes; a power of
    /// two.
    fn granule(&self) -> Result<u64, Error>;

    /// Reserves a range of the device's address space without memory behind
    /// it: at `wanted` where that is free, else elsewhere, at a multiple of
    /// `alignment`. Sizes and addresses are multiples of the granule.
    fn reserve(&mut self, bytes: u64, alignment: u64, wanted: Option<u64>) -> Result<u64, Error>;

    /// Gives back what [`Device::reserve`] returned for this size.
    fn unreserve(&mut self, address: u64, bytes: u64) -> Result<(), Error>;

    /// Puts memory behind one reserved granule.
    fn back(&mut self, address: u64) -> Result<(), Error>;

    /// Takes it away again.
    fn unback(&mut self, address: u64) -> Result<(), Error>;
}
