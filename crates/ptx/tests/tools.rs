//! The vendor's assembler and compiler on what is emitted for every shipped
//! scenario and every kernel that lowering is tested with, where they are
//! installed: `ptxas` named by `PTXAS` or on `PATH`, `nvcc` named by `NVCC` or on
//! `PATH`. Where they are not, these tests say so and pass.

use coalescope_ptx as ptx;
use scenario::{Options, Run, Scenario};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

/// A tool by its variable, or on the path; says that the test is skipped where
/// there is none. The words go to the terminal itself: a passing test's
/// `eprintln` is swallowed.
fn tool(variable: &str, name: &str, test: &str) -> Option<PathBuf> {
    let found = env::var_os(variable).map(PathBuf::from).or_else(|| {
        let path = env::var_os("PATH")?;
        env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
    });
    if found.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {test}: no {name} on PATH; name one with {variable}=/path/to/{name}"
        );
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All runs of all shipped scenarios, with their names.
fn shipped() -> Vec<(String, Run)> {
    runs_in("scenarios")
}

/// The kernels that lowering is tested with: those of tutorials, and C++ of
/// every kind that is read.
fn lowered() -> Vec<(String, Run)> {
    runs_in("crates/scenario/tests/lowering")
}

fn runs_in(folder: &str) -> Vec<(String, Run)> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    let mut runs = Vec::new();
    for file in files {
        let scenario = Scenario::load(&file).unwrap_or_else(|errors| panic!("{errors}"));
        for plan in scenario.runs(&[], Options::default()).unwrap() {
            let run = plan.build().unwrap_or_else(|errors| panic!("{errors}"));
            runs.push((format!("{} {}", scenario.name(), plan.label()), run));
        }
    }
    assert!(!runs.is_empty());
    runs
}

/// Does `work` for all `items` on all cores and returns what it complains of.
fn complaints<T: Sync>(items: &[T], work: impl Fn(usize, &T) -> Vec<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { break };
                    let new = work(i, item);
                    found.lock().unwrap().extend(new);
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort();
    found
}

#[test]
fn every_access_of_the_text_is_a_sites() {
    for (name, run) in shipped() {
        for purpose in [ptx::Purpose::Measure, ptx::Purpose::Verify] {
            let emitted =
                ptx::emit(&run, purpose).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            let of_sites: BTreeSet<usize> =
                emitted.sites.iter().flat_map(|site| site.lines.iter().copied()).collect();
            for (i, line) in emitted.text.lines().enumerate() {
                let opcode =
                    line.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or("");
                let touches =
                    ["ld.", "st.", "red.", "atom."].iter().any(|op| opcode.starts_with(op))
                        || opcode.starts_with("cp.async.c");
                let own = match purpose {
                    ptx::Purpose::Measure => opcode == "st.global.b32",
                    ptx::Purpose::Verify => opcode == "red.global.add.u64",
                };
                if touches && !opcode.starts_with("ld.param") && !of_sites.contains(&(i + 1)) {
                    assert!(own, "{name}: {line}");
                }
            }
            // The store that never runs stands after a `ret` that always does.
            if purpose == ptx::Purpose::Measure {
                let lines: Vec<&str> = emitted.text.lines().collect();
                for (i, line) in lines.iter().enumerate() {
                    let is_store = line.trim().starts_with("st.global.b32");
                    if is_store && !of_sites.contains(&(i + 1)) {
                        assert!(lines[i - 1].trim().ends_with(" ret;"), "{name}: {line}");
                    }
                }
            }
        }
    }
}

#[test]
fn ptxas_accepts_every_kernel() {
    let Some(ptxas) = tool("PTXAS", "ptxas", "ptxas_accepts_every_kernel") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let runs = [shipped(), lowered()].concat();
    let complaints = complaints(&runs, |i, (name, run)| {
        let mut complaints = Vec::new();
        for purpose in [ptx::Purpose::Measure, ptx::Purpose::Verify] {
            let emitted = match ptx::emit(run, purpose) {
                Ok(emitted) => emitted,
                Err(error) => {
                    complaints.push(format!("{name}: {error:?}"));
                    continue;
                }
            };
            let file = folder.path().join(format!("{i}.ptx"));
            fs::write(&file, &emitted.text).unwrap();
            for arch in [75, 90] {
                if emitted.target.0 > arch {
                    continue;
                }
                for level in ["-O0", "-O3"] {
                    let output = Command::new(&ptxas)
                        .arg(level)
                        .args(["-v", &format!("-arch=sm_{arch}"), "-o"])
                        .arg(folder.path().join(format!("{i}.cubin")))
                        .arg(&file)
                        .output()
                        .unwrap();
                    let words = String::from_utf8_lossy(&output.stderr).into_owned();
                    // What is measured must not touch local memory.
                    let spills = purpose == ptx::Purpose::Measure
                        && !words.contains("0 bytes stack frame, 0 bytes spill stores");
                    if !output.status.success() || spills {
                        complaints.push(format!("{name} {purpose:?} {level} sm_{arch}: {words}"));
                    }
                }
            }
        }
        complaints
    });
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn nvcc_compiles_every_kernel() {
    let Some(nvcc) = tool("NVCC", "nvcc", "nvcc_compiles_every_kernel") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // Sweeps change numbers only: one run a variant, and one a scenario all
    // the way to an object file.
    let mut seen = BTreeSet::new();
    let mut scenarios = BTreeSet::new();
    let runs: Vec<(String, Run, bool)> = shipped()
        .into_iter()
        .chain(lowered())
        .filter(|(_, run)| seen.insert((run.scenario.clone(), run.variant.clone())))
        .map(|(name, run)| {
            let whole = scenarios.insert(run.scenario.clone());
            (name, run, whole)
        })
        .collect();
    let complaints = complaints(&runs, |i, (name, run, whole)| {
        let file = folder.path().join(format!("{i}.cu"));
        fs::write(&file, ptx::cuda::emit(run)).unwrap();
        let output = Command::new(&nvcc)
            .args(["-std=c++17", "-arch=sm_90", if *whole { "-c" } else { "-ptx" }, "-o"])
            .arg(folder.path().join(format!("{i}.out")))
            .arg(&file)
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Vec::new() } else { vec![format!("{name}: {words}")] }
    });
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
