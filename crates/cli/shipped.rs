//! The scenarios and kernels that ship inside the binary.

use include_dir::{Dir, include_dir};

static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/scenarios");
static KERNELS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/kernels");

/// Names of the shipped scenarios, in alphabetical order.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = SCENARIOS
        .files()
        .filter_map(|file| file.path().to_str()?.strip_suffix(".toml"))
        .collect();
    names.sort_unstable();
    names
}

/// The bytes of a shipped file by its path from the top of the repository,
/// such as `scenarios/strided.toml` or `kernels/transpose.cu`.
pub(crate) fn read(path: &str) -> Option<&'static [u8]> {
    let (folder, rest) = path.split_once('/')?;
    let dir = match folder {
        "scenarios" => &SCENARIOS,
        "kernels" => &KERNELS,
        _ => return None,
    };
    dir.get_file(rest).map(|file| file.contents())
}
