//! Threads a second of launches that no closed form covers, on one core:
//! `cargo bench -p coalescope-scenario`.
//!
//! Each is a shipped scenario with its index arithmetic, its contents and its
//! accesses, evaluated block by block and counted with every stage of CC 9.0.
//! `random-gather` has 2²⁴ threads.

use coalescope_scenario::count::{Options, count};
use coalescope_scenario::{Run, Scenario};
use divan::counter::ItemsCount;
use simulator::RuleSet;

fn main() {
    divan::main();
}

/// A run of a shipped scenario.
fn run(name: &str, variant: &str, set: &[(&str, &str)]) -> Run {
    let path = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let set: Vec<(String, String)> =
        set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let plans = Scenario::load(path)
        .and_then(|scenario| scenario.runs(&set, coalescope_scenario::Options::default()))
        .unwrap_or_else(|errors| panic!("{errors}"));
    let plan = plans.iter().find(|plan| plan.label().contains(variant));
    let plan = plan.unwrap_or_else(|| panic!("{name} has no {variant}"));
    plan.build().unwrap_or_else(|errors| panic!("{errors}"))
}

fn bench(bencher: divan::Bencher<'_, '_>, run: &Run) {
    let rules = RuleSet::for_arch("9.0").expect("shipped");
    let options = Options { threads: Some(1), ..Options::default() };
    let blocks: u64 = run.launch.grid.iter().product();
    let threads = blocks * run.launch.block.iter().copied().map(u64::from).product::<u64>();
    bencher
        .counter(ItemsCount::new(threads))
        .bench(|| count(run, &rules, &run.assumed_bases(), &options).map(|counts| counts.sites));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn random_gather(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, &run("random-gather", "", &[("n", "1 << 24"), ("window", "1 << 20")]));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn spmv_csr_scalar(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, &run("spmv-csr", "scalar", &[("nonzeros", "32")]));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn spmv_csr_vector(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, &run("spmv-csr", "vector", &[("nonzeros", "32")]));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn histogram_global(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, &run("histogram", "global", &[("BINS", "256")]));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn histogram_shared(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, &run("histogram", "shared", &[("BINS", "256")]));
}
