//! What holds for scenario files, whatever their text is.

use crate::run::{check_errors, check_run};
use scenario::{Embedded, Options, Scenario};

/// The other files that a text may name.
const FILES: &[(&str, &[u8])] = &[
    ("d.txt", b"0 1 2 3"),
    ("../kernels/copy.cu", include_bytes!("../../kernels/copy.cu")),
    ("../kernels/gather.cu", include_bytes!("../../kernels/gather.cu")),
    ("../kernels/histogram.cu", include_bytes!("../../kernels/histogram.cu")),
    ("../kernels/particles.cu", include_bytes!("../../kernels/particles.cu")),
    ("../kernels/transpose_tiled.cu", include_bytes!("../../kernels/transpose_tiled.cu")),
];

/// Reads a scenario, builds the first and the last of its runs, and counts them.
///
/// # Panics
/// Where an error has no message, or counts contradict each other.
pub(crate) fn check_scenario(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let plans = Scenario::from_text("case.toml", text, &Embedded(FILES))
        .and_then(|scenario| scenario.runs(&[], Options::default()));
    let plans = match plans {
        Ok(plans) => plans,
        Err(errors) => return check_errors(&errors),
    };
    for plan in plans.iter().take(1).chain(plans.iter().skip(1).last()) {
        match plan.build() {
            Ok(run) => check_run(&run),
            Err(errors) => check_errors(&errors),
        }
    }
}
