//! Every shipped scenario is read, its runs built, and its programs keep the
//! promises that the evaluator and the printers rely on.

use coalescope_scenario::dump::dump;
use coalescope_scenario::program::Root;
use coalescope_scenario::{Options, Scenario};
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn all_shipped_scenarios_are_lowered() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut count = 0;
    let mut wrong = String::new();
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the scenarios are in the repository")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    paths.sort();
    for path in paths {
        let scenario = Scenario::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let plans = scenario.runs(&[], Options::default());
        for plan in plans.unwrap_or_else(|errors| panic!("{errors}")) {
            let run = match plan.build() {
                Ok(run) => run,
                Err(errors) => {
                    wrong.push_str(&format!("{errors}\n"));
                    break;
                }
            };
            count += 1;
            let text = dump(&run.program, &run.buffers);
            if std::env::var_os("COALESCOPE_DUMP").is_some() {
                println!("{} {:?}\n{text}", run.scenario, run.variant);
            }
            let labels: BTreeSet<_> = run.program.sites.iter().map(|site| &site.label).collect();
            assert_eq!(labels.len(), run.program.sites.len(), "{}: labels", path.display());
            assert!(!run.program.sites.is_empty(), "{}: no access", path.display());
            for site in &run.program.sites {
                assert!(matches!(site.width, 1 | 2 | 4 | 8 | 16), "{}: {site:?}", path.display());
                if let Root::Buffer(id) = site.root {
                    assert!(id.0 < run.buffers.len(), "{}: {site:?}", path.display());
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 100, "{count} runs");
}
