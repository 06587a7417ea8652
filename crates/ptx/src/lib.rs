//! PTX and CUDA C++ text of a scenario's run.

pub mod emitted;
pub mod print;
pub mod requirements;
pub mod syntax;
pub mod verify;

pub use emitted::{Emitted, EmittedSite, Parameter, Purpose};
