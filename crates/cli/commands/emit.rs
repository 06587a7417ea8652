//! `coalescope emit`: the scenario's kernel as CUDA C++ or PTX.

use crate::args::EmitArgs;
use crate::commands::{GOOD, bad_input};
use crate::output::write_whole;
use crate::selection::{Complaints, runs, scenarios};
use anyhow::Result;
use scenario::{Diagnostics, Options};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// Prints the text of the one run that the arguments select.
pub(crate) fn run(args: &EmitArgs) -> Result<ExitCode> {
    let mut complaints = Complaints::default();
    let mut plans = Vec::new();
    for scenario in scenarios(&args.selection.scenarios, &mut complaints) {
        plans.extend(runs(&scenario, &args.selection, Options::default(), &mut complaints));
    }
    if complaints.any() {
        return Ok(bad_input());
    }
    let Some(plan) = plans.first() else {
        complaints.message("nothing to emit", "name a scenario");
        return Ok(bad_input());
    };
    if plans.len() > 1 {
        let note = anstyle::AnsiColor::Cyan.on_default().bold();
        anstream::eprintln!(
            "{note}note{note:#}: {} runs are selected, this is the first ({}); choose with --variant and --set",
            plans.len(),
            plan.label()
        );
    }
    let built = match plan.build() {
        Ok(run) => run,
        Err(errors) => {
            complaints.diagnostics(&errors);
            return Ok(bad_input());
        }
    };
    let text = if args.cuda {
        ptx::cuda::emit(&built)
    } else {
        match ptx::emit(&built, ptx::Purpose::Measure) {
            Ok(emitted) => emitted.text,
            Err(error) => {
                complaints.diagnostics(&Diagnostics::new(Arc::clone(&built.sources), vec![*error]));
                return Ok(bad_input());
            }
        }
    };
    match &args.output {
        Some(path) => write_whole(path, text.as_bytes())?,
        None => anstream::stdout().lock().write_all(text.as_bytes())?,
    }
    Ok(GOOD)
}
