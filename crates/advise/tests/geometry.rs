//! Advice by a rule set of another geometry: 64-byte sectors in 256-byte lines, and
//! shared memory that goes round its banks in 256 bytes.

use coalescope_advise::{Options, SiteAdvice, advise};
use scenario::{Embedded, Scenario};
use simulator::RuleSet;

const RULES: &str = r#"
archs = ["wide"]
name = "Wide"
evidence = "hypothesis"
note = "Made up."
widths = [1, 2, 4, 8, 16]
[request]
lanes = 32
[cache]
line_bytes = 256
sector_bytes = 64
sectors_reach_l2 = true
[shared]
banks = 32
bank_bytes = 8
group = { lanes = 32, bytes = 256 }
widths = [1, 2, 4, 8, 16]
"#;

/// Advice on the accesses of a kernel over `a`, of 64 rows of 1001 floats or flat.
fn advice(shape: &str, lines: &str) -> Vec<SiteAdvice> {
    let text = format!(
        "[launch]\ngrid = [8]\nblock = [256]\n[buffers]\n\
         a = {{ type = \"float\", shape = {shape} }}\n\
         [kernel]\ncode = '''\nint i = blockIdx.x * blockDim.x + threadIdx.x;\n{lines}\n'''\n"
    );
    let scenario = Scenario::from_text("wide.toml", &text, &Embedded(&[])).expect("it reads");
    let plans = scenario.runs(&[], scenario::Options::default()).expect("it has a run");
    let run = plans.first().expect("it has a run").build().expect("it builds");
    let rules = RuleSet::from_toml(RULES).expect("the rules hold");
    advise(&run, &rules, &run.assumed_bases(), None, &Options::default()).expect("it runs")
}

#[test]
fn starts_and_pitches_are_multiples_of_sectors_and_lines() {
    let shifted = advice("[65536]", "load(a[i + 1]);");
    assert_eq!(
        shifted[0].sentence(),
        "Start `a` 252 B past a multiple of 256 B (63 elements of padding in front): \
         66.7 % → 100 %, 3 → 2 sectors per request."
    );
    let rows = advice("[64, 1001]", "load(a[blockIdx.x][threadIdx.x]);");
    assert_eq!(
        rows[0].sentence(),
        "Start each row of 1001 elements of `a` on a multiple of 64 B: a pitch of 4032 B in \
         place of 4004: 69.6 % → 100 %, 2.88 → 2 sectors per request."
    );
}

#[test]
fn what_a_block_uses_of_its_sectors_is_told_by_their_size() {
    // Sectors whose halves are read by two accesses, and by one.
    let both = advice("[65536]", "load(a[i / 8 * 16 + i % 8]);\nload(a[i / 8 * 16 + i % 8 + 8]);");
    assert_eq!(both[0].used_by_block, Some(1.0));
    let one = advice("[65536]", "load(a[i / 8 * 16 + i % 8]);");
    assert_eq!(one[0].used_by_block, Some(0.5));
}

#[test]
fn rows_of_a_shared_array_are_once_round_the_banks() {
    let column = advice(
        "[65536]",
        "__shared__ float s[32 * 64];\nif (threadIdx.x < 32) load(s[threadIdx.x * 64]);",
    );
    assert_eq!(
        column[0].sentence(),
        "Pad every 64 elements of `s` by 2 elements: 32 → 1 wavefronts and 31 → 0 conflicts per \
         request."
    );
}
