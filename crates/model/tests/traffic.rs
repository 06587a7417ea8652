//! The traffic model against the counters of the recorded campaign: the
//! families that it was developed on, and reduced against whole simulations.

use coalescope_model::traffic::{Geometry, Options, SECTOR_BYTES, SmLimits, traffic};
use flate2::read::GzDecoder;
use proptest::prelude::*;
use rayon::prelude::*;
use record::{KernelKind, Part, RunRecord, read_runs};
use scenario::{Run, Scenario};
use simulator::RuleSet;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

fn top() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// An H200, as its driver and the CUDA C++ Programming Guide state it; what no
/// document states as `split.toml`'s development families show it.
fn h200(run: &Run, registers: Option<u32>) -> Geometry {
    let limits = SmLimits {
        warps: 64,
        blocks: 32,
        registers: 1 << 16,
        shared_bytes: 228 << 10,
        reserved_bytes: 1 << 10,
        memory_bytes: 256 << 10,
    };
    let shared = run.program.shared_bytes;
    let resident_blocks = limits.resident_blocks(&run.launch, shared, registers);
    Geometry {
        sms: 132,
        resident_blocks,
        l1_bytes: limits.l1_bytes(resident_blocks, shared),
        l2_bytes: 60 << 20,
        l2_partitions: 2,
        l2_dirty_share: 0.5,
        l2_partial_share: 0.125,
        l2_dirty_before_bytes: 2_400_000,
        dram_access_bytes: 64,
        dram_granule_bytes: 256,
        store_merge_share: 0.35,
    }
}

/// The families of a list of the split.
fn families(list: &str) -> Vec<String> {
    let text = std::fs::read_to_string(top().join("crates/model/split.toml")).expect("a split");
    let split: toml::Table = text.parse().expect("TOML");
    let names = split[list].as_array().expect("a list").iter();
    names.map(|name| name.as_str().expect("a name").to_owned()).collect()
}

/// The records of the kernels whose accesses are the model's: generated, as
/// written.
fn records(families: &[String]) -> Vec<RunRecord> {
    let path = top().join("tests/hardware/h200/2026-11-30/counters.jsonl.gz");
    let file = File::open(path).expect("the recorded counters");
    read_runs(std::io::BufReader::new(GzDecoder::new(file)))
        .map(|record| record.expect("a run record"))
        .filter(|record| {
            record.part == Some(Part::Counters)
                && record.kernel == Some(KernelKind::Generated)
                && record.optimised == Some(false)
                && families.contains(&record.scenario)
        })
        .collect()
}

/// The runs of a scenario that ships.
fn runs(name: &str, set: &[(String, String)]) -> Vec<Run> {
    let path = top().join(format!("scenarios/{name}.toml"));
    let scenario = Scenario::load(path).unwrap_or_else(|errors| panic!("{errors}"));
    let plans = scenario.runs(set, scenario::Options::default());
    let plans = plans.unwrap_or_else(|errors| panic!("{errors}"));
    plans.iter().map(|plan| plan.build().unwrap_or_else(|errors| panic!("{errors}"))).collect()
}

/// The run of a record.
fn run_of(record: &RunRecord) -> Run {
    let params: BTreeMap<&str, String> =
        record.params.iter().map(|(name, value)| (name, format!("{value:?}"))).collect();
    let found = runs(&record.scenario, &[]).into_iter().find(|run| {
        let own: BTreeMap<&str, String> = run
            .params
            .iter()
            .map(|(name, value)| (name.as_str(), format!("{:?}", record::Value::from(value.value))))
            .collect();
        run.variant == record.variant && own == params
    });
    found.unwrap_or_else(|| panic!("{} is no shipped run any more", record.point()))
}

/// Sectors of L2 and bytes of DRAM, read and written together.
fn sums(traffic: &record::Traffic) -> [f64; 2] {
    let value = |field: Option<u128>| field.unwrap_or(0) as f64;
    [
        value(traffic.l2_read_sectors)
            + value(traffic.l2_write_sectors)
            + value(traffic.l2_atomic_sectors),
        value(traffic.dram_read_bytes) + value(traffic.dram_write_bytes),
    ]
}

/// |predicted − measured| ÷ max(measured, 1 % of L2).
fn errors(
    predicted: &record::Traffic,
    measured: &record::Traffic,
    geometry: &Geometry,
) -> [f64; 2] {
    let least = geometry.l2_bytes as f64 / 100.0;
    let least = [least / 32.0, least];
    let (predicted, measured) = (sums(predicted), sums(measured));
    std::array::from_fn(|at| (predicted[at] - measured[at]).abs() / measured[at].max(least[at]))
}

/// Number, mean and worst.
#[derive(Clone, Copy, Default)]
struct Errors {
    n: u32,
    sum: f64,
    worst: f64,
}

impl Errors {
    fn add(&mut self, error: f64) {
        self.n += 1;
        self.sum += error;
        self.worst = self.worst.max(error);
    }

    fn mean(&self) -> f64 {
        self.sum / f64::from(self.n)
    }
}

impl std::fmt::Display for Errors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:7.2} % {:7.2} %", 100.0 * self.mean(), 100.0 * self.worst)
    }
}

/// Points of a family that are replayed when not all are asked for.
const POINTS_OF_A_FAMILY: usize = 4;

/// Keeps some points of each family, spread over all.
fn thin(points: &mut Vec<RunRecord>) {
    let mut families: BTreeMap<String, Vec<RunRecord>> = BTreeMap::new();
    for point in points.drain(..) {
        families.entry(point.scenario.clone()).or_default().push(point);
    }
    for family in families.into_values() {
        let step = family.len().div_ceil(POINTS_OF_A_FAMILY).max(1);
        points.extend(family.into_iter().step_by(step));
    }
}

/// Four points of each family, or with `COALESCOPE_ALL` set all of them.
#[test]
fn the_counters_of_the_development_families() {
    let rules = RuleSet::for_arch("9.0").expect("shipped");
    let only = std::env::var("COALESCOPE_FAMILY").ok();
    let mut families = families("development");
    families.retain(|family| only.as_ref().is_none_or(|only| family == only));
    let mut points = records(&families);
    if only.is_none() && std::env::var_os("COALESCOPE_ALL").is_none() {
        thin(&mut points);
    }
    let replayed: Vec<_> = points
        .par_iter()
        .map(|record| {
            let run = run_of(record);
            let bases: Vec<u64> = run
                .buffers
                .iter()
                .zip(&record.buffers)
                .map(|(buffer, placed)| placed.base - buffer.offset_bytes)
                .collect();
            let geometry = h200(&run, record.launch.registers);
            // As the command simulates them.
            let together = runs(&record.scenario, &[]).len();
            let options = Options { together, ..Options::default() };
            let estimate = traffic(&run, &bases, &rules, &geometry, &options)
                .unwrap_or_else(|error| panic!("{}: {error:?}", record.point()))
                .expect("a rule set with sectors");
            let measured = record.traffic.clone().expect("counted");
            let errors = errors(&estimate.traffic, &measured, &geometry);
            if std::env::var_os("COALESCOPE_POINTS").is_some() {
                println!(
                    "{:60} {:6.2} % {:6.2} %\n  predicted {:?}\n  measured  {:?}\n  1 in {}, fill {}",
                    record.point().to_string(),
                    100.0 * errors[0],
                    100.0 * errors[1],
                    estimate.traffic,
                    measured,
                    estimate.one_line_in,
                    estimate.fill_bytes,
                );
            }
            (record.scenario.clone(), errors)
        })
        .collect();
    let mut table: BTreeMap<String, [Errors; 2]> = BTreeMap::new();
    for (family, errors) in replayed {
        for key in [family, "all".to_owned()] {
            let row = table.entry(key).or_default();
            row.iter_mut().zip(errors).for_each(|(sum, error)| sum.add(error));
        }
    }
    println!("{:20} {:>4} {:>20} {:>20}", "", "n", "L2: mean worst", "DRAM: mean worst");
    for (family, [l2, dram]) in &table {
        println!("{family:20} {:4} {l2} {dram}", l2.n);
    }
    if only.is_none() {
        let [l2, dram] = table["all"];
        assert!(l2.n > 60, "{} points", l2.n);
        assert!(l2.mean() < 0.02, "L2: {l2}");
        assert!(dram.mean() < 0.05, "DRAM: {dram}");
    }
}

/// A tenth of an H200, so that launches of a test fill its caches.
fn small(run: &Run) -> Geometry {
    let whole = h200(run, None);
    Geometry { sms: 12, l1_bytes: 64 << 10, l2_bytes: 4 << 20, l2_dirty_before_bytes: 0, ..whole }
}

fn set(values: &[(&str, &str)]) -> Vec<(String, String)> {
    values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_reduced_simulation_is_off_the_whole_one_by_no_more_than_it_says() {
    let rules = RuleSet::for_arch("9.0").expect("shipped");
    let mut reduced_runs = 0;
    for (name, values) in [
        ("strided", &[("n", "1 << 21"), ("stride", "8")][..]),
        ("misaligned-copy", &[("n", "(1 << 23) + 5"), ("offset", "3")]),
        ("block-shape", &[("width", "2048"), ("height", "2048"), ("block_x", "1")]),
        ("transpose", &[("width", "2048"), ("height", "2048")]),
        ("matrix-multiply", &[("n", "512"), ("TILE", "16")]),
    ] {
        for run in runs(name, &set(values)) {
            let (bases, geometry) = (run.assumed_bases(), small(&run));
            let estimate = |exact| {
                let options = Options { exact, ..Options::default() };
                traffic(&run, &bases, &rules, &geometry, &options)
                    .unwrap_or_else(|error| panic!("{name}: {error:?}"))
                    .expect("a rule set with sectors")
            };
            let (reduced, whole) = (estimate(false), estimate(true));
            assert!(whole.is_whole() && whole.deviation.l2_sectors == 0.0);
            reduced_runs += u32::from(!reduced.is_whole());
            let (estimated, exact) = (sums(&reduced.traffic), sums(&whole.traffic));
            let stated = [reduced.deviation.l2_sectors, reduced.deviation.dram_bytes];
            for at in 0..2 {
                let off = (estimated[at] - exact[at]).abs();
                let label = ["L2", "DRAM"][at];
                let of = exact[at];
                assert!(
                    off <= stated[at] + 1e-3 * of,
                    "{name} {:?}, {label}: off {off} of {of}, said {}",
                    run.variant,
                    stated[at]
                );
            }
        }
    }
    assert!(reduced_runs > 0, "none of the launches was large enough to be reduced");
}

/// Sectors that stores of 4096 threads write parts of, and those that an SM gathers
/// with the next store's: thread i has `words` words, one after the other.
fn parts_and_gathered(words: u32, code: &str) -> [f64; 2] {
    let text = format!(
        r#"
        [launch]
        grid = [32]
        block = [128]
        [buffers]
        to = {{ type = "float", shape = ["4096 * {words}"] }}
        from = {{ type = "float", shape = [4096] }}
        [kernel]
        code = """
        int t = blockIdx.x * blockDim.x + threadIdx.x;
        {code}
        """
        "#
    );
    let scenario = Scenario::from_text("case.toml", &text, &scenario::Embedded(&[]));
    let plans = scenario.expect("a scenario").runs(&[], scenario::Options::default());
    let run = plans.expect("runs")[0].build().expect("a run");
    let rules = RuleSet::for_arch("9.0").expect("shipped");
    let options = Options { exact: true, ..Options::default() };
    let estimate = traffic(&run, &run.assumed_bases(), &rules, &h200(&run, None), &options);
    let estimate = estimate.expect("traffic").expect("a rule set with sectors");
    [estimate.l2_partial_sectors, estimate.l2_merged_sectors]
}

/// As `s-merge` and `e-aos` on an H200: fields of structs of up to four words are
/// gathered, of those of eight none, and a load between two stores ends it.
#[test]
fn an_sm_gathers_parts_of_few_lines_that_no_load_comes_between() {
    let stores = |words: u32, between: &str| -> String {
        (0..words).map(|word| format!("to[t * {words} + {word}] = 1.0f; {between}")).collect()
    };
    for words in [2_u32, 3, 4] {
        // A sector is written by each store that has a word in it.
        let all = f64::from(4096 * words / 8 * words.min(8));
        let [parts, gathered] = parts_and_gathered(words, &stores(words, ""));
        assert_eq!((parts, gathered), (0.0, all - f64::from(4096 * words / 8)), "{words} words");
        let [parts, gathered] = parts_and_gathered(words, &stores(words, "load(from[t]);"));
        assert_eq!((parts, gathered), (all, 0.0), "{words} words and loads");
    }
    assert_eq!(parts_and_gathered(8, &stores(8, "")), [8.0 * 4096.0, 0.0]);
    let [parts, gathered] = parts_and_gathered(6, &stores(6, ""));
    assert!(parts > 0.0 && gathered > 0.0, "{parts}, {gathered}");
}

/// Sectors that the loads and the stores of a run ask global memory for.
fn asked(run: &Run, rules: &RuleSet) -> [u128; 2] {
    let bases = run.assumed_bases();
    let counts = scenario::count::count(run, rules, &bases, &scenario::count::Options::default());
    let counts = counts.unwrap_or_else(|error| panic!("{error:?}"));
    let mut sectors = [0; 2];
    for (site, counted) in run.program.sites.iter().zip(&counts.sites) {
        let at = match site.op.kind {
            simulator::OpKind::Load => 0,
            simulator::OpKind::Store => 1,
            _ => panic!("{} has atomics", run.scenario),
        };
        if site.op.space == simulator::Space::Global {
            sectors[at] += counted.totals.sectors.expect("a rule set with sectors");
        }
    }
    sectors
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Nothing comes from nowhere: L2 gives what L1 asks for and lacks, stores
    /// write through, DRAM gives what L2 lacks and takes what was changed.
    #[test]
    fn sectors_are_conserved(pattern in 0_usize..5, n in 1_u64..40_000, by in 0_u64..40) {
        let rules = RuleSet::for_arch("9.0").expect("shipped");
        let (side, stride) = ((n % 300 + 1).to_string(), (by + 1).to_string());
        let (n, by) = (n.to_string(), by.to_string());
        let (name, values) = match pattern {
            0 => ("strided", vec![("n", n.as_str()), ("stride", stride.as_str())]),
            1 => ("misaligned-copy", vec![("n", n.as_str()), ("offset", by.as_str())]),
            2 => ("random-gather", vec![("n", n.as_str()), ("window", "4096")]),
            3 => ("scatter", vec![("n", n.as_str())]),
            _ => ("transpose", vec![("width", side.as_str()), ("height", "96")]),
        };
        for run in runs(name, &set(&values)) {
            let geometry = Geometry { store_merge_share: 0.0, ..small(&run) };
            let options = Options { exact: true, ..Options::default() };
            let estimate = traffic(&run, &run.assumed_bases(), &rules, &geometry, &options);
            let estimate = estimate.expect("no error").expect("sectors");
            let moved = &estimate.traffic;
            let [loads, stores] = asked(&run, &rules);
            let value = |field: Option<u128>| field.expect("simulated");
            let (hits, reads) = (value(moved.l1_hit_sectors), value(moved.l2_read_sectors));
            prop_assert_eq!(value(moved.l2_write_sectors), stores);
            prop_assert!(reads <= loads, "{} of {}", reads, loads);
            // A hit of a store is written through all the same.
            prop_assert!(hits + reads >= loads && hits + reads <= loads + stores);
            let sector = u128::from(SECTOR_BYTES);
            let access = u128::from(geometry.dram_access_bytes);
            let (dram_reads, dram_writes) =
                (value(moved.dram_read_bytes), value(moved.dram_write_bytes));
            prop_assert!(dram_reads <= reads * access + stores * sector);
            prop_assert!(dram_writes + estimate.dirty_bytes as u128 <= stores * sector);
            prop_assert!(stores == 0 || dram_writes + estimate.dirty_bytes as u128 > 0);
        }
    }
}

#[test]
fn a_warm_cache_spares_dram() {
    let rules = RuleSet::for_arch("9.0").expect("shipped");
    for run in runs("read-write", &set(&[("n", "1 << 18")])) {
        let geometry = small(&run);
        let read = |warm| {
            let options = Options { warm, exact: true, ..Options::default() };
            let estimate = traffic(&run, &run.assumed_bases(), &rules, &geometry, &options);
            estimate.expect("no error").expect("sectors").traffic.dram_read_bytes
        };
        assert_eq!(read(true), Some(0), "{:?}", run.variant);
        let reads = run.variant.as_deref() != Some("write");
        assert_eq!(read(false), Some(if reads { 1 << 20 } else { 0 }), "{:?}", run.variant);
    }
}

#[test]
fn what_a_rule_set_does_not_define_is_not_predicted() {
    let rules = RuleSet::for_arch("1.3").expect("shipped");
    let run = runs("contiguous", &set(&[("n", "4096")])).remove(0);
    let estimate = traffic(&run, &run.assumed_bases(), &rules, &small(&run), &Options::default());
    assert_eq!(estimate.expect("no error"), None);
}
