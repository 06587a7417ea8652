//! `coalescope doctor`: what works on this machine.

use anyhow::Result;
use hardware::doctor;
use hardware::supervisor::WorkerCommand;
use std::io::Write;
use std::process::ExitCode;

/// Prints the report.
pub(crate) fn run(json: bool) -> Result<ExitCode> {
    let report = doctor::report(&WorkerCommand::this_program()?);
    let mut out = anstream::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(report.exit_code().into())
}
