//! What holds for kernels, whatever their text is.

use crate::run::{check_errors, check_run};
use scenario::{Embedded, Options, Run, Scenario};

/// Builds the run of a kernel in a scenario with buffers and parameters of
/// usual names; `None` where it is refused.
///
/// # Panics
/// Where an error has no message, or counts contradict each other.
pub(crate) fn check_kernel(code: &[u8]) -> Option<Run> {
    let code = std::str::from_utf8(code).ok()?;
    let mut text = include_str!("kernel.toml").to_owned() + "[kernel]\ncode = \"";
    for character in code.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            control if control.is_control() => text += &format!("\\u{:04x}", u32::from(control)),
            other => text.push(other),
        }
    }
    text += "\"\n";
    let run = Scenario::from_text("case.toml", &text, &Embedded(&[]))
        .and_then(|scenario| scenario.runs(&[], Options::default()))
        .and_then(|plans| plans[0].build());
    match run {
        Ok(run) => {
            check_run(&run);
            Some(run)
        }
        Err(errors) => {
            check_errors(&errors);
            None
        }
    }
}
