//! Scenario files: a launch, its buffers and a kernel in a subset of CUDA C.

mod buffers;
pub mod diagnostic;
pub mod document;
pub mod dump;
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

pub use buffers::{CUDA_PITCH_BYTES, MAX_AXES, MAX_CONTENTS, MAX_TOTAL_BYTES};
pub use diagnostic::{Diagnostic, Diagnostics, Kind, Style};
pub use launch::{
    MAX_BLOCK, MAX_GRID, MAX_REGISTERS_PER_BLOCK, MAX_REGISTERS_PER_THREAD, MAX_SHARED_BYTES,
    MAX_STATIC_SHARED_BYTES, MAX_THREADS_PER_BLOCK,
};
pub use load::{MAX_RUNS, Options, Scenario};
pub use plan::RunPlan;
pub use run::{Buffer, Launch, Run};
pub use schema::json_schema;
pub use source::{Disk, Embedded, Files, SourceId, Sources, Span};
