//! What holds for runs and for errors, whatever the text they come from is.
//!
//! `checks/` is shared by the fuzz targets and the tests that replay the
//! corpora; both have the crates `scenario` and `simulator` by these names.

use scenario::count::{self, Method};
use scenario::eval::{Evaluator, Limits};
use scenario::{Diagnostics, Run, Style};
use simulator::{RuleSet, Totals};
use std::sync::LazyLock;

static RULES: LazyLock<RuleSet> =
    LazyLock::new(|| RuleSet::for_arch("9.0").expect("a shipped rule set"));

/// Evaluation is cut short here: a fraction of a second.
const LIMITS: Limits =
    Limits { boxes: 64, threads: 1 << 14, loop_iterations: 1 << 10, warp_statements: 1 << 16 };

/// Launches up to this many threads are counted a second time, warp by warp.
const FEW_THREADS: u128 = 1 << 11;

/// Renders errors.
///
/// # Panics
/// Where one has no message or no remedy.
pub(crate) fn check_errors(errors: &Diagnostics) {
    assert!(!errors.errors.is_empty());
    for error in &errors.errors {
        assert!(!error.message.is_empty() && !error.help.is_empty(), "{error:?}");
    }
    assert!(errors.to_string().starts_with("error: "));
    errors.render(Style::Coloured);
}

/// Counts a run.
///
/// # Panics
/// Where the counts contradict each other.
pub(crate) fn check_run(run: &Run) {
    scenario::dump::dump(&run.program, &run.buffers);
    let bases = run.assumed_bases();
    let options = count::Options { exact: true, limits: LIMITS, ..Default::default() };
    let counted = count::count(run, &RULES, &bases, &options);
    if let Err(error) = &counted {
        check_errors(&run.fail(error.clone()));
    }
    if run.launch.blocks() * u128::from(run.launch.threads_per_block()) > FEW_THREADS {
        return;
    }
    let (Ok(counted), Ok(evaluator)) = (counted, Evaluator::new(run, &bases, LIMITS)) else {
        return;
    };
    let mut totals = vec![Totals::default(); run.program.sites.len()];
    let gone_through = evaluator.visit(|issue| {
        totals[issue.site.0].add(&RULES.count(&issue.access));
    });
    if gone_through.is_err() {
        // A loop may be folded that is too long to be gone through.
        return;
    }
    for (number, (closed, one_by_one)) in counted.sites.iter().zip(&totals).enumerate() {
        if closed.method != Method::NotExecuted || one_by_one.instructions > 0 {
            assert_eq!(closed.totals, *one_by_one, "access {number}");
        }
    }
}
