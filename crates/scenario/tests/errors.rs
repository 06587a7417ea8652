//! Errors are goldens: the smallest bad input, `errors/NAME.toml`, and the
//! whole message that it gives, `errors/NAME.stderr`.
//!
//! Each input is taken as far as it goes: loaded, its runs listed, built and
//! evaluated. The message is that of the first step that fails. Lines
//! `# --set name=value` at the start of an input are overrides, `# --counting`
//! asks for the runs that are counted.
//!
//! `COALESCOPE_BLESS=1 cargo test -p coalescope-scenario --test errors` writes
//! the messages; read the diff before you commit it.

use coalescope_scenario::{Diagnostics, Options, Scenario, count};
use simulator::RuleSet;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const BLESS: &str = "COALESCOPE_BLESS";
const COMMAND: &str = "COALESCOPE_BLESS=1 cargo test -p coalescope-scenario --test errors";

/// The message for a scenario that must be wrong somewhere.
fn message(path: &Path) -> Option<String> {
    run(path).err().map(|errors| errors.to_string() + "\n")
}

/// Every step from the file to the accesses.
fn run(path: &Path) -> Result<(), Diagnostics> {
    let scenario = Scenario::load(path)?;
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let directives: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
    let overrides: Vec<(String, String)> = directives
        .iter()
        .filter_map(|line| line.strip_prefix("--set ")?.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let options = match directives.contains(&"--counting") {
        true => Options::for_counting(),
        false => Options::default(),
    };
    let rules = RuleSet::for_arch("9.0").expect("the rules of 9.0 are shipped");
    for plan in scenario.runs(&overrides, options)? {
        let run = plan.build()?;
        count::count(&run, &rules, &run.assumed_bases(), &count::Options::default())
            .map_err(|error| run.fail(error))?;
    }
    Ok(())
}

/// Files of tests/errors with this extension, by their name without it.
fn names(extension: &str) -> BTreeSet<PathBuf> {
    // Relative, so that messages are the same in every checkout.
    let folder = Path::new("tests/errors");
    fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| folder.join(entry.unwrap_or_else(|error| panic!("{error}")).file_name()))
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| path.with_extension(""))
        .collect()
}

#[test]
fn messages_are_as_recorded() {
    let bless = std::env::var_os(BLESS).is_some_and(|value| value == "1");
    let mut wrong = Vec::new();
    for name in names("toml") {
        let Some(found) = message(&name.with_extension("toml")) else {
            wrong.push(format!("{}: no error at all", name.display()));
            continue;
        };
        if !found.contains("= help: ") {
            wrong.push(format!("{}: no remedy:\n{found}", name.display()));
        }
        let golden = name.with_extension("stderr");
        if bless {
            fs::write(&golden, &found).unwrap_or_else(|e| panic!("{}: {e}", golden.display()));
            continue;
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if expected != found {
            let diff =
                similar_asserts::SimpleDiff::from_str(&expected, &found, "recorded", "found");
            wrong.push(format!("{}\n{diff}", golden.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nIf this is right: {COMMAND}", wrong.join("\n"));
}

#[test]
fn every_message_has_its_input() {
    let orphans: Vec<_> = names("stderr").difference(&names("toml")).cloned().collect();
    assert!(orphans.is_empty(), "no .toml for {orphans:?}");
}
