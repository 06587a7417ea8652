//! Small kernels whose round trips are known.

use super::*;
use scenario::count::count;
use scenario::{Embedded, Options, Scenario};

/// 4096 elements in 4 blocks of 256 threads.
fn workload(code: &str) -> Workload {
    let text = format!(
        r#"
        [params]
        n = 4096
        [launch]
        grid = [4]
        block = [256]
        [buffers]
        a = {{ type = "float", shape = ["n"] }}
        b = {{ type = "float", shape = ["n"] }}
        c = {{ type = "float", shape = ["n"] }}
        d = {{ type = "float", shape = ["n"] }}
        next = {{ type = "int", shape = ["n"], init = "(i * 5 + 1) % n" }}
        bins = {{ type = "int", shape = [16] }}
        [kernel]
        code = """
        int t = blockIdx.x * blockDim.x + threadIdx.x;
        {code}
        """
        "#
    );
    let scenario = Scenario::from_text("case.toml", &text, &Embedded(&[])).expect("a scenario");
    let plans = scenario.runs(&[], Options::default()).expect("runs");
    let run = plans[0].build().expect("a run");
    let rules = simulator::RuleSet::for_arch("9.0").expect("rules");
    let counts = count(&run, &rules, &run.assumed_bases(), &Default::default()).expect("counts");
    Workload::of(&run, &counts.sites, None).expect("a workload")
}

/// Round trips to global memory, and loads in flight during one.
fn trips(code: &str) -> (f64, f64) {
    let work = workload(code);
    (work.global_round_trips, work.loads_in_flight)
}

#[test]
fn a_copy_waits_once() {
    assert_eq!(trips("b[t] = a[t];"), (1.0, 1.0));
}

#[test]
fn independent_loads_are_in_flight_together() {
    assert_eq!(trips("d[t] = a[t] + b[t] + c[t];"), (1.0, 3.0));
    assert_eq!(trips("load(a[t]); load(a[t + 1024]); load(a[t + 2048]); load(b[t]);"), (1.0, 4.0));
}

#[test]
fn an_index_from_memory_is_a_second_round_trip() {
    assert_eq!(trips("b[t] = a[next[t]];"), (2.0, 1.0));
    assert_eq!(trips("b[t] = a[next[t]] + c[t];"), (2.0, 1.5));
    assert_eq!(trips("int p = t; for (int k = 0; k < 6; ++k) p = next[p]; b[p] = 1.0f;").0, 6.0);
}

#[test]
fn a_load_stays_behind_a_store_that_waits() {
    assert_eq!(trips("b[t] = a[t]; d[t] = c[t];"), (2.0, 1.0));
    // A read-only load need not.
    assert_eq!(trips("b[t] = a[t]; d[t] = __ldg(&c[t]);"), (1.0, 2.0));
    // Nor one behind a store that waits for nothing.
    assert_eq!(trips("bins[t & 15] = t; d[t] = c[t];"), (1.0, 1.0));
}

#[test]
fn an_iteration_that_uses_its_load_is_a_round_trip() {
    let stride = "for (int i = t; i < n; i += 1024) load(a[i]);";
    assert_eq!(trips(stride), (4.0, 1.0));
    // Trips that are settled are written out, and the loads of a round go
    // together.
    let settled = "for (int k = 0; k < 4; ++k) load(a[t + 1024 * k]);";
    assert_eq!(trips(settled), (1.0, 4.0));
}

#[test]
fn warps_that_skip_a_loop_count_for_the_average() {
    // Half of the warps run the loop, twice as often.
    let code = "if (threadIdx.x < 128) for (int i = t; i < n; i += 512) load(a[i]);";
    let (trips, in_flight) = trips(code);
    assert!((3.0..=4.0).contains(&trips), "{trips}");
    assert_eq!(in_flight, 1.0);
}

#[test]
fn a_barrier_cuts() {
    let tile = "__shared__ float s[256]; s[threadIdx.x] = a[t]; __syncthreads(); \
                b[t] = s[255 - threadIdx.x];";
    let work = workload(tile);
    assert_eq!((work.global_round_trips, work.shared_round_trips), (1.0, 1.0));
    assert_eq!(work.barriers_per_block, 1.0);
    assert_eq!(work.shape.shared_bytes, 1024);
    // Loads on both sides of a barrier are not in flight together.
    assert_eq!(trips("load(a[t]); __syncthreads(); load(b[t]);"), (2.0, 1.0));
}

#[test]
fn only_an_atomic_with_a_result_is_waited_for() {
    assert_eq!(trips("atomicAdd(&bins[t & 15], 1);").0, 0.0);
    assert_eq!(trips("int old = atomicAdd(&bins[t & 15], 1); b[t] = old;").0, 1.0);
}

#[test]
fn lanes_of_an_atomic_meet() {
    let atomics = |code| workload(code).atomics;
    // 32 warps of 32 lanes on one word; on 16 words, two lanes on each.
    let one = Atomics { sectors: 1024.0, repeated: 992.0, bytes: 4.0, results: false };
    assert_eq!(atomics("atomicAdd(&bins[0], 1);"), [one]);
    let few = Atomics { sectors: 128.0, repeated: 64.0, bytes: 64.0, results: false };
    assert_eq!(atomics("atomicAdd(&bins[t & 15], 1);"), [few]);
    assert_eq!(atomics("b[t] = a[t];"), []);
}

#[test]
fn a_division_is_many_instructions() {
    let instructions = |code| workload(code).instructions / 32.0;
    let plain = instructions("load(a[t]);");
    let by_constant = instructions("load(a[t / 3]);");
    let by_value = instructions("load(a[t / (next[t] + 1)]);");
    assert!(
        plain + 10.0 < by_constant && by_constant < by_value,
        "{plain} {by_constant} {by_value}"
    );
    assert!((4.0..30.0).contains(&plain), "{plain}");
}

#[test]
fn sums_are_those_of_the_counts() {
    let work = workload("b[t] = a[2 * t];");
    assert_eq!((work.blocks, work.warps(), work.requests), (4.0, 32.0, 64.0));
    assert_eq!((work.load_requests, work.load_sectors, work.load_lines), (32.0, 256.0, 64.0));
    assert_eq!(work.store_lines, 32.0);
    assert!(work.registers_estimated && (16..=32).contains(&work.shape.registers));
}

/// Against what an assembler made of the same text; `--nocapture` prints the
/// table.
#[test]
fn instructions_are_about_those_of_an_assembler() {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut errors: Vec<(f64, String)> = Vec::new();
    for line in include_str!("ptxas.tsv").lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, variant, count] = fields[..] else { panic!("{line}") };
        let scenario = Scenario::load(top.join(format!("scenarios/{name}.toml")));
        let plans = scenario.expect("shipped").runs(&[], Options::default()).expect("runs");
        let plan = plans.iter().find(|plan| variant == "-" || plan.variant() == Some(variant));
        let run = plan.expect("a variant").build().expect("a run");
        let module = ptx::module(&run, Purpose::Measure).expect("PTX");
        let ours: f64 = module
            .entries
            .iter()
            .map(|entry| {
                let body = &entry.body;
                let mut instructions =
                    assembler::assemble(body, &scopes::Scopes::of(body)).instructions;
                let predicated = flow::predicated(body, &instructions);
                flow::charge_branches(body, &predicated, &mut instructions);
                let regions = flow::regions(body, &predicated, &vec![1.0; run.program.sites.len()]);
                let ran = regions.into_iter().filter(|region| region.times > 0.0);
                ran.map(|region| instructions[region.items].iter().sum::<f64>()).sum::<f64>()
            })
            .sum();
        let count: f64 = count.parse().expect("a number");
        errors.push((ours / count - 1.0, format!("{name} [{variant}]: {ours} for {count}")));
    }
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (error, what) in &errors {
        println!("{:+6.1} %  {what}", 100.0 * error);
    }
    let mean = errors.iter().map(|(error, _)| error.abs()).sum::<f64>() / errors.len() as f64;
    println!("n = {}, mean error {:.1} %", errors.len(), 100.0 * mean);
    // Most read 3 % and 33 %: the longest list of instructions is 120 long.
    let worst = errors.iter().map(|(error, _)| error.abs()).fold(0.0, f64::max);
    assert!(errors.len() > 90 && mean < 0.05 && worst < 0.4, "{mean} {worst}");
}

#[test]
fn an_address_of_a_computed_index_is_a_wide_product() {
    let wide = |code: &str| {
        let work = workload(code);
        work.wide_products / work.warps()
    };
    assert_eq!(wide("load(a[t]);"), 1.0);
    assert_eq!(wide("load(a[t]); load(a[t + 1]); load(b[next[t]]);"), 4.0);
    // With an index of 64 bits what is added is added to the address.
    assert_eq!(wide("long long i = t; load(a[i]); load(a[i + 1]);"), 1.0);
}
