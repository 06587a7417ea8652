//! `coalescope list`: the scenarios that ship with the program.

use crate::commands::{GOOD, bad_input};
use crate::selection::{Complaints, scenarios};
use crate::shipped;
use anyhow::Result;
use std::io::Write;
use std::process::ExitCode;

/// Prints name and title of each.
pub(crate) fn run() -> Result<ExitCode> {
    let mut complaints = Complaints::default();
    let names: Vec<String> = shipped::names().into_iter().map(str::to_owned).collect();
    let found = scenarios(&names, &mut complaints);
    let width = found.iter().map(|scenario| scenario.name().len()).max().unwrap_or(0);
    let mut out = anstream::stdout().lock();
    for scenario in found {
        writeln!(out, "{:<width$}  {}", scenario.name(), scenario.title())?;
    }
    Ok(if complaints.any() { bad_input() } else { GOOD })
}
