//! The evaluator against a second interpreter, and the closed form against
//! both.

#[path = "eval/build.rs"]
mod build;
#[path = "eval/cases.rs"]
mod cases;
#[path = "eval/mutate.rs"]
mod mutate;
#[path = "eval/random.rs"]
mod random;
#[path = "eval/scalar.rs"]
mod scalar;

use coalescope_scenario::count::{self, Options};
use coalescope_scenario::eval::{Evaluator, Limits};
use coalescope_scenario::program::SiteId;
use coalescope_scenario::{Diagnostic, Run, Scenario, Span};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use random::{Flavour, program};
use scalar::{Interpreter, Trap};
use simulator::{Counts, RuleSet, Totals};

/// Loops of random programs are short; those that are not are endless.
const LIMITS: Limits =
    Limits { boxes: 1 << 16, threads: 1 << 36, loop_iterations: 10_000, warp_statements: 1 << 36 };

fn blocks(run: &Run) -> Vec<[u64; 3]> {
    let [x, y, z] = run.launch.grid;
    let rows = (0..z).flat_map(|z| (0..y).map(move |y| (y, z)));
    rows.flat_map(|(y, z)| (0..x).map(move |x| [x, y, z])).collect()
}

fn rules() -> RuleSet {
    RuleSet::for_arch("9.0").expect("the rules of 9.0 are shipped")
}

/// The thread that an error names: its index in the block.
fn named_thread(error: &Diagnostic, run: &Run) -> Option<usize> {
    let note = error.notes.iter().find_map(|note| note.strip_prefix("in thread ("))?;
    let numbers = note.split_once(')')?.0.split(", ");
    let numbers: Vec<usize> = numbers.filter_map(|n| n.parse().ok()).collect();
    let [bx, by, _] = run.launch.block.map(|n| n as usize);
    let [x, y, z] = <[usize; 3]>::try_from(numbers).ok()?;
    Some((z * by + y) * bx + x)
}

fn primary(error: &Diagnostic) -> Option<Span> {
    error.primary.as_ref().map(|(span, _)| *span)
}

/// Every block by the evaluator, compared with the scalar interpreter, summed
/// as the rules count them. `Err`: the first block's error.
fn by_blocks(run: &Run, rules: &RuleSet) -> Result<Result<Vec<Totals>, Diagnostic>, TestCaseError> {
    let bases = run.assumed_bases();
    let evaluator = Evaluator::new(run, &bases, LIMITS).expect("random programs are well formed");
    let mut totals = vec![Totals::default(); run.program.sites.len()];
    for block in blocks(run) {
        let expected = Interpreter::block(run, &bases, block);
        let mut found: Vec<Vec<(SiteId, u64)>> = vec![Vec::new(); expected.len()];
        let result = evaluator.visit_block(block, |issue| {
            assert!(issue.access.mask.0 != 0, "an access without lanes");
            assert_eq!(issue.block, block);
            let counts: Counts = rules.count(&issue.access);
            totals[issue.site.0].add(&counts);
            for (lane, address) in issue.access.active() {
                found[issue.warp as usize * 32 + lane].push((issue.site, address));
            }
        });
        if expected.iter().any(|thread| matches!(thread.end, Err(Trap::Endless(_)))) {
            // Too long for the scalar interpreter.
            return Err(TestCaseError::reject("long loops"));
        }
        match result {
            Ok(()) => {
                for (index, (thread, found)) in expected.iter().zip(&found).enumerate() {
                    prop_assert_eq!(&thread.end, &Ok(()), "thread {} of {:?}", index, block);
                    prop_assert_eq!(&thread.accesses, found, "thread {} of {:?}", index, block);
                }
            }
            Err(error) => {
                let thread = named_thread(&error, run).expect("errors name their thread");
                match &expected[thread].end {
                    Err(trap) => {
                        prop_assert_eq!(Some(trap.span()), primary(&error), "{:?}", error);
                    }
                    Ok(()) => prop_assert!(false, "thread {thread} of {block:?}: {error:?}"),
                }
                return Ok(Err(error));
            }
        }
    }
    Ok(Ok(totals))
}

/// The launch by boxes, compared with its blocks.
fn check(run: &Run) -> Result<(), TestCaseError> {
    let rules = rules();
    let blocks = by_blocks(run, &rules)?;
    let options = Options { exact: true, limits: LIMITS, ..Options::default() };
    let launch = count::count(run, &rules, &run.assumed_bases(), &options);
    match (blocks, launch) {
        (Ok(expected), Ok(found)) => {
            for (index, (expected, found)) in expected.iter().zip(&found.sites).enumerate() {
                prop_assert_eq!(expected, &found.totals, "site {}, {:?}", index, found.method);
            }
        }
        // Run as one, more iterations than these come to another end.
        (Err(expected), _) if expected.message.contains("has not ended") => {}
        (Err(expected), Err(found)) => {
            prop_assert_eq!(&expected.message, &found.message);
            prop_assert_eq!(&expected.notes, &found.notes);
            prop_assert_eq!(primary(&expected), primary(&found));
        }
        (Ok(_), Err(error)) => prop_assert!(false, "only the boxes fail: {error:?}"),
        (Err(error), Ok(_)) => prop_assert!(false, "only the blocks fail: {error:?}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    /// Linear kernels: closed form = block by block = thread by thread.
    #[test]
    fn affine_programs(choices in prop::collection::vec(0u32..1 << 16, 0..200)) {
        check(&program(&choices, Flavour::Affine))?;
    }

    /// Programs that make no sense end in an error, or count something; what
    /// matters is that they end.
    #[test]
    fn mutated_programs_do_not_panic(
        choices in prop::collection::vec(0u32..1 << 16, 0..300),
        changes in prop::collection::vec(0u32..1 << 16, 0..600),
        rarity in 8u32..120,
    ) {
        let mut run = program(&choices, Flavour::Wild);
        mutate::mutate(&mut run, &changes, rarity);
        let limits = Limits { loop_iterations: 300, warp_statements: 1 << 18, ..LIMITS };
        let options = Options { limits, ..Options::default() };
        let _ = count::count(&run, &rules(), &run.assumed_bases(), &options);
        if let Ok(evaluator) = Evaluator::new(&run, &run.assumed_bases(), limits) {
            let _ = evaluator.visit(|_| {});
        }
    }

    /// Any program, errors included.
    #[test]
    fn wild_programs(choices in prop::collection::vec(0u32..1 << 16, 0..300)) {
        check(&program(&choices, Flavour::Wild))?;
    }
}

/// The shipped scenarios that are small enough: counting is going through their
/// blocks.
#[test]
fn shipped_scenarios() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let rules = rules();
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).expect("scenarios/ is there") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let scenario = Scenario::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let plans = scenario.runs(&[], coalescope_scenario::Options::for_counting());
        // The first of each sweep is as good as the others.
        let plans = plans.unwrap_or_else(|errors| panic!("{errors}"));
        for plan in plans.iter().step_by(3).take(3) {
            let run = plan.build().unwrap_or_else(|errors| panic!("{errors}"));
            let threads = run.launch.blocks() * u128::from(run.launch.threads_per_block());
            if threads > 1 << 18 {
                continue;
            }
            let bases = run.assumed_bases();
            let options = Options { exact: true, ..Options::default() };
            let found = count::count(&run, &rules, &bases, &options)
                .unwrap_or_else(|error| panic!("{}: {error:?}", plan.label()));
            let mut expected = vec![Totals::default(); run.program.sites.len()];
            let evaluator = Evaluator::new(&run, &bases, Limits::default()).expect("well formed");
            let visited = evaluator.visit(|issue| {
                expected[issue.site.0].add(&rules.count(&issue.access));
            });
            assert!(visited.is_ok(), "{visited:?}");
            for (expected, found) in expected.iter().zip(&found.sites) {
                assert_eq!(expected, &found.totals, "{} {}", scenario.name(), plan.label());
            }
            compared += 1;
        }
    }
    assert!(compared > 10, "only {compared} runs are small enough");
}

/// `PROPTEST_CASES` cases, or as many as take a few seconds.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let regressions = FileFailurePersistence::Direct("tests/eval/regressions.txt");
    ProptestConfig {
        max_shrink_time: 30_000,
        cases,
        failure_persistence: Some(Box::new(regressions)),
        ..ProptestConfig::default()
    }
}
