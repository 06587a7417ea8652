//! The schema that editors read is made from the code, and kept in scenarios/.

use std::fs;
use std::path::Path;

const COMMAND: &str = "COALESCOPE_BLESS=1 cargo test -p coalescope-scenario --test schema";

#[test]
fn the_schema_for_editors_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/scenario.schema.json");
    let current = format!("{:#}\n", coalescope_scenario::json_schema());
    if std::env::var_os("COALESCOPE_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, current).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == current,
        "{} is not what the code says; write it with\n{COMMAND}",
        path.display()
    );
}
