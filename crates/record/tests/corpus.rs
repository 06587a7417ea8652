//! What fuzzing found and what covers the code best, from fuzz/corpus/warp.

extern crate coalescope_record as record;

#[path = "../../../fuzz/checks/warp.rs"]
mod checks;

use std::fs;
use std::path::Path;

#[test]
fn every_input_of_the_corpus_is_answered() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/warp");
    let mut inputs = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        checks::check(&fs::read(path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0);
}
