//! What fuzzing found and what covers the code best, from fuzz/corpus/scenario
//! and fuzz/corpus/kernel.

extern crate coalescope_scenario as scenario;

#[path = "../../../fuzz/checks/kernel.rs"]
mod kernel;
#[path = "../../../fuzz/checks/run.rs"]
mod run;
#[path = "../../../fuzz/checks/scenario.rs"]
mod scenarios;

use std::fs;
use std::path::Path;

/// Gives every input of a corpus to `check`; the name of the one that fails is
/// the last that is printed.
fn replay(corpus: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(corpus);
    let mut inputs = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check(&fs::read(path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0);
}

#[test]
fn every_scenario_of_the_corpus_is_counted_or_refused() {
    replay("scenario", scenarios::check_scenario);
}

#[test]
fn every_kernel_of_the_corpus_is_counted_or_refused() {
    replay("kernel", |code| drop(kernel::check_kernel(code)));
}
