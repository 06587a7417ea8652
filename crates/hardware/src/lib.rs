//! Runs kernels on an NVIDIA GPU: allocation, timing, single warps.
//!
//! **Processes.** The device is held by a child process, the [worker]. A kernel
//! that faults, hangs or takes the driver down ends a worker and nothing else:
//! the [supervisor] starts another one and goes on with the next job. Jobs hold
//! all that a launch needs ([`job`]).
//!
//! **Device.** [`device::Device`] is the seam: [`device::cuda::CudaDevice`] is
//! the real one, through `cust`; [`mod@bench`] says how a sample is taken and is
//! tested on a fake. The tests in `tests/process` run the real device code on a
//! mock driver library, in real processes.
//!
//! **Single warps.** [`warps`] makes kernels of one memory instruction with
//! given addresses and puts memory behind those addresses.
// Launching kernels is unsafe in `cust`, and so is the driver's own interface
// where `cust` has no words for it: device/cuda.rs has all of it.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod bench;
pub mod clocks;
mod contents;
pub mod date;
pub mod device;
pub mod doctor;
pub mod error;
mod hand_written;
pub mod job;
mod launch;
pub mod measure;
mod measured;
mod output;
pub mod profiler;
pub mod statistics;
pub mod supervisor;
mod verify;
pub mod warps;
pub mod worker;

pub use error::Error;
