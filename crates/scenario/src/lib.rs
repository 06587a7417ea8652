//! Scenario files: a launch, its buffers and a kernel in a subset of CUDA C.

pub mod diagnostic;
pub mod lower;
pub mod program;
pub mod run;
pub mod source;
pub mod types;

pub use diagnostic::{Diagnostic, Diagnostics, Kind};
pub use run::{Buffer, Launch, Run};
pub use source::{SourceId, Sources, Span};
