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
    assert_eq!(workload("atomicAdd(&bins[0], 1);").same_address_lanes, 1024.0);
    assert_eq!(workload("atomicAdd(&bins[t & 15], 1);").same_address_lanes, 64.0);
    assert_eq!(workload("b[t] = a[t];").same_address_lanes, 0.0);
}

#[test]
fn slow_instructions_take_more_slots() {
    let slots = |code| workload(code).slots / 32.0;
    let plain = slots("load(a[t]);");
    let by_constant = slots("load(a[t / 3]);");
    let by_value = slots("load(a[t / (next[t] + 1)]);");
    assert!(
        plain < by_constant && by_constant + 10.0 < by_value,
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
