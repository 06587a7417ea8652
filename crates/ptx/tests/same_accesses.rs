//! The emitted kernel against the model, without a device: every thread of some
//! blocks of every shipped run is run through the tree of its PTX, and must
//! access what the evaluator says that its lane accesses, in that order.

mod comparison;
mod interpreter;

use comparison::{Difference, compare};
use scenario::{Options, Run, Scenario};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[test]
fn emitted_threads_access_what_the_model_says() {
    let runs = shipped();
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((name, run)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(Difference::Refused(words) | Difference::Found(words)) = compare(run)
                    {
                        wrong.lock().unwrap().push(format!("{name}: {words}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All runs of all shipped scenarios, of the sizes used under a profiler.
fn shipped() -> Vec<(String, Run)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    let mut runs = Vec::new();
    for file in files {
        let scenario = Scenario::load(&file).unwrap_or_else(|errors| panic!("{errors}"));
        for plan in scenario.runs(&[], Options::for_counting()).unwrap() {
            let run = plan.build().unwrap_or_else(|errors| panic!("{errors}"));
            runs.push((format!("{} {}", scenario.name(), plan.label()), run));
        }
    }
    assert!(!runs.is_empty());
    runs
}
