//! Scenario files: a launch, its buffers and a kernel in a subset of CUDA C.
//!
//! A [`Scenario`] is what a person writes down about an access pattern: a TOML
//! file with parameters, a launch, buffers, and a kernel as it stands in a
//! program. This crate reads it, checks it, types the kernel and evaluates it
//! warp by warp: which addresses the 32 lanes of each warp access, in what
//! order, and what that costs by the rules of the `simulator` crate. No GPU is
//! needed, and nothing is guessed: what the kernel language lacks is refused
//! with its place and the words “not modelled”.
//!
//! # From file to counts
//!
//! 1. [`Scenario::load`] (or [`Scenario::from_text`]) reads the file and those
//!    it names.
//! 2. [`Scenario::runs`] lists the runs: variants × sweep points, with `--set`
//!    over them. Each is a [`RunPlan`].
//! 3. [`RunPlan::build`] evaluates the parameters, sizes launch and buffers,
//!    and types the kernel: a [`Run`] with its [`program::Program`].
//! 4. [`count::count`] sums what all warps of the launch cost, in closed form
//!    where the accesses are affine; [`eval::Evaluator`] gives the accesses of
//!    single warps.
//!
//! # Nouns
//!
//! - **scenario**: a file, with its variants and sweep.
//! - **variant**: a named change to the file, merged into it key by key.
//! - **run**: one variant at one sweep point, every parameter a number.
//! - **buffer**: an array in memory, by its name in the kernel; it has a type, a
//!   shape, perhaps a pitch, an offset and contents.
//! - **access site**: one place in the kernel that loads, stores or updates
//!   memory; it is counted by itself.
//! - **diagnostic**: an error with file, line, caret and a remedy.
//!
//! # What it leaves out
//!
//! Floating-point values are never computed, so no branch or index can depend
//! on one. Values in memory are known only where the scenario gives a buffer
//! contents. Textures, tensor-map copies, matrix instructions, distributed
//! shared memory and recursion are not modelled. What an access costs is the
//! `simulator` crate's business, and time that of the `model` crate.
//!
//! # Example: a layout guarded by a unit test
//!
//! ```
//! use coalescope_scenario::count::count;
//! use coalescope_scenario::{Embedded, Options, Scenario};
//! use simulator::Field;
//!
//! let text = r#"
//!     [params]
//!     n = 4096
//!     [launch]
//!     grid = ["n / 256"]
//!     block = [256]
//!     [struct.Particle]
//!     fields = ["float x", "float y", "float z"]
//!     [buffers]
//!     p = { type = "Particle", shape = ["n"] }
//!     [kernel]
//!     code = "load(p[blockIdx.x * blockDim.x + threadIdx.x].x);"
//! "#;
//! let scenario = Scenario::from_text("particles.toml", text, &Embedded(&[]))?;
//! for plan in scenario.runs(&[("n".into(), "8192".into())], Options::default())? {
//!     let run = plan.build()?;
//!     assert_eq!(run.launch.grid, [32, 1, 1]);
//!     assert_eq!(run.buffers[0].bytes, 8192 * 12);
//!     assert_eq!(run.program.sites[0].text, "p[blockIdx.x * blockDim.x + threadIdx.x].x");
//!
//!     let rules = simulator::RuleSet::for_arch("9.0").expect("a known architecture");
//!     let counts = count(&run, &rules, &run.assumed_bases(), &Default::default())?;
//!     let x = &counts.sites[0].totals;
//!     // 12 sectors a request where 4 would do: an array of structs wastes two
//!     // thirds. A test that guards the layout asserts the share it needs.
//!     assert_eq!(x.per_request(Field::Sectors), Some(12.0));
//!     assert!(x.unique_efficiency() >= Some(0.33));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is wrong is said with its place and a remedy:
//!
//! ```
//! # use coalescope_scenario::{Embedded, Options, Scenario};
//! let text = "[launch]\ngrid = [1]\nblock = [2048]\n[kernel]\ncode = \"\"\n";
//! let scenario = Scenario::from_text("case.toml", text, &Embedded(&[]))?;
//! let error = scenario.runs(&[], Options::default())?[0].build().unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "\
//! error: a block of 2048 threads along x is over the limit of 1024
//!  --> case.toml:3:10
//!   |
//! 3 | block = [2048]
//!   |          ^^^^ 2048 threads
//!   |
//!   = help: use fewer threads a block, and more blocks"
//! );
//! # Ok::<(), coalescope_scenario::Diagnostics>(())
//! ```
//!
//! The language is described in `docs/scenario-language.md`.

/// The README's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod buffers;
pub mod count;
pub mod diagnostic;
pub mod document;
pub mod dump;
pub mod eval;
mod launch;
mod layer;
mod load;
pub mod lower;
mod params;
mod plan;
pub mod program;
pub mod run;
mod schema;
pub mod source;
pub mod types;
mod write;

pub use buffers::{CUDA_PITCH_BYTES, MAX_AXES, MAX_CONTENTS, MAX_TOTAL_BYTES};
pub use diagnostic::{Diagnostic, Diagnostics, Kind, Severity, Style};
pub use launch::{
    MAX_BLOCK, MAX_GRID, MAX_REGISTERS_PER_BLOCK, MAX_REGISTERS_PER_THREAD, MAX_SHARED_BYTES,
    MAX_STATIC_SHARED_BYTES, MAX_THREADS_PER_BLOCK,
};
pub use load::{MAX_RUNS, Options, Scenario};
pub use plan::RunPlan;
pub use run::{Buffer, Launch, Run};
pub use schema::json_schema;
pub use source::{Disk, Embedded, Files, SourceId, Sources, Span};
