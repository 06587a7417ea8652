//! One file a command: arguments in, an exit code out.

pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod emit;
pub(crate) mod explain;
pub(crate) mod lab;
pub(crate) mod list;
pub(crate) mod measure;
mod moved;
pub(crate) mod sim;
pub(crate) mod suggest;
pub(crate) mod table;
pub(crate) mod warp;
pub(crate) mod what_if;

use std::process::ExitCode;

/// Everything went well.
pub(crate) const GOOD: ExitCode = ExitCode::SUCCESS;

/// A check failed.
pub(crate) fn check_failed() -> ExitCode {
    ExitCode::from(1)
}

/// Bad input or usage.
pub(crate) fn bad_input() -> ExitCode {
    ExitCode::from(2)
}
