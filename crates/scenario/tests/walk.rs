//! Blocks that are evaluated as one, against each of them evaluated by itself.

use coalescope_scenario::eval::{AlikeLimits, Evaluator, Issue, Limits};
use coalescope_scenario::{Options, Run, Scenario};
use std::path::Path;

/// A warp access: its site, its warp and its active lanes' addresses.
type Access = (usize, u32, u32, Vec<u64>);

fn access(issue: &Issue) -> Access {
    let addresses = issue.access.active().map(|(_, address)| address).collect();
    (issue.site.0, issue.warp, issue.access.mask.0, addresses)
}

fn runs(name: &str, set: &[(&str, &str)]) -> Vec<Run> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/{name}.toml"));
    let set: Vec<(String, String)> =
        set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let plans = Scenario::load(path)
        .and_then(|scenario| scenario.runs(&set, Options::default()))
        .unwrap_or_else(|errors| panic!("{errors}"));
    plans.iter().map(|plan| plan.build().unwrap_or_else(|errors| panic!("{errors}"))).collect()
}

/// Checks every block of a run; how many were evaluated as one.
fn check(run: &Run) -> u64 {
    let bases = run.assumed_bases();
    let evaluator = Evaluator::new(run, &bases, Limits::default()).expect("a run");
    let mut walk = evaluator.walk(|issue: &Issue, steps| Some((access(issue), steps)));
    let found = walk.alike(AlikeLimits { boxes: 64, kept: 1 << 17 }).expect("no error");
    let blocks: u64 = found.iter().map(|alike| alike.blocks.blocks()).sum();
    assert_eq!(u128::from(blocks), run.launch.blocks(), "every block is in one box");
    let mut as_one = 0;
    for alike in &found {
        let Some(kept) = &alike.kept else { continue };
        as_one += alike.blocks.blocks();
        let [nx, ny, nz] = alike.blocks.count;
        for q in 0..nx * ny * nz {
            let position = [q % nx, q / nx % ny, q / nx / ny];
            let block: [u64; 3] = std::array::from_fn(|axis| {
                alike.blocks.start[axis] + alike.blocks.step[axis] * position[axis]
            });
            assert_eq!(alike.blocks.position(block), Some(position));
            let moved: Vec<Access> = kept
                .iter()
                .map(|((site, warp, mask, addresses), steps)| {
                    let by = (0..3).map(|axis| steps[axis] * position[axis] as i64).sum::<i64>();
                    let addresses = addresses.iter().map(|a| a.wrapping_add_signed(by)).collect();
                    (*site, *warp, *mask, addresses)
                })
                .collect();
            let mut visited = Vec::new();
            evaluator.visit_block(block, |issue| visited.push(access(issue))).expect("no error");
            assert_eq!(moved, visited, "{} block {block:?}", run.scenario);
            let alone = walk.block(block).expect("no error");
            assert!(alone.into_iter().map(|(access, _)| access).eq(visited));
        }
    }
    as_one
}

#[test]
fn blocks_that_are_alike_do_what_each_does_by_itself() {
    for (name, set) in [
        ("misaligned-copy", &[("n", "4099"), ("offset", "3")][..]),
        ("odd-block", &[("n", "5000"), ("threads", "33")]),
        ("stencil-5", &[("width", "100"), ("height", "70"), ("block_x", "32")]),
        ("transpose", &[("width", "96"), ("height", "64")]),
        ("matrix-multiply", &[("n", "64"), ("TILE", "16")]),
        ("tail", &[("whole", "300000"), ("extra", "31")]),
    ] {
        for run in runs(name, set) {
            assert!(check(&run) > 0, "{name}: no box");
        }
    }
}

#[test]
fn blocks_that_are_not_alike_are_left_to_be_evaluated() {
    for run in runs("random-gather", &[("n", "4096"), ("window", "1024")]) {
        assert_eq!(check(&run), 0);
    }
}
