//! The CUDA driver library, opened at first use.
//!
//! A program that uses [`cust`](https://docs.rs/cust) is normally linked to
//! `libcuda.so.1`, and then does not even start on a machine without an NVIDIA
//! driver. With this crate in the program it starts everywhere: the crate
//! *defines* the driver's functions that `cust` refers to, and each forwards
//! its call to the real library, which is opened at the first call.
//!
//! - Without a driver every function returns `CUDA_ERROR_NOT_INITIALIZED`.
//! - A function that the driver at hand lacks returns
//!   `CUDA_ERROR_NOT_SUPPORTED`.
//! - An error number that `cust_raw` does not list becomes
//!   `CUDA_ERROR_UNKNOWN` (its `CUresult` is a Rust enum, which must not hold
//!   other values); [`last_failure`] has the number and [`error_name`] the
//!   driver's name for it.
//! - [`availability`] opens and starts the driver and says what is missing.
//!
//! The environment variable [`DRIVER_VARIABLE`] (`COALESCOPE_CUDA_DRIVER`)
//! names another library to open: a driver in an unusual place, or a mock in a
//! test.
//!
//! # In a program of yours
//! 1. Depend on `cust` and on this crate, and write `use
//!    coalescope_cuda_driver as _;` somewhere, or the linker drops the crate
//!    and reports `undefined symbol: cuInit`.
//! 2. `cust_raw`'s build script wants the folder of a CUDA installation and
//!    links `-lcuda`. Where CUDA is not installed an empty archive will do:
//!    `mkdir -p link/lib64 && ar rc link/lib64/libcuda.a`, and in
//!    `.cargo/config.toml`
//!    ```toml
//!    [env]
//!    CUDA_LIBRARY_PATH = { value = "link", relative = true }
//!    ```
//!
//! # What is unsafe here
//! Three things, each stated where it is done: opening a library runs its
//! initialisers; a symbol's address is called with the C signature that the
//! CUDA headers give it (the compiler checks ours against `cust_raw`'s); and
//! the forwarders themselves ask of their callers what the driver API asks.
//!
//! ```
//! match coalescope_cuda_driver::availability() {
//!     Ok(driver) => println!("CUDA {}.{}", driver.cuda.0, driver.cuda.1),
//!     Err(missing) => println!("{missing}"),
//! }
//! ```
// Forwarding to a C library is this crate's purpose.
#![allow(unsafe_code)]

mod library;
mod symbols;

pub use library::{
    DRIVER_VARIABLE, DriverInfo, Failure, Missing, availability, error_name, last_failure,
};
pub use symbols::FORWARDED;
