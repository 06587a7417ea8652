//! The scenarios, kernels, labs and recorded runs that ship inside the binary.

use include_dir::{Dir, include_dir};
use std::io;
use std::path::{Path, PathBuf};

static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/scenarios");
static KERNELS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/kernels");

/// Which families of scenarios the model was developed on.
pub(crate) const SPLIT: &str = include_str!("../model/split.toml");

/// The recorded campaigns on an H200: files of run records, packed by gzip.
pub(crate) const RECORDED: [(&str, &[u8]); 8] = [
    (
        "tests/hardware/h200/2026-11-30/counters.jsonl.gz",
        include_bytes!("../../tests/hardware/h200/2026-11-30/counters.jsonl.gz"),
    ),
    (
        "tests/hardware/h200/2026-11-30/time.jsonl.gz",
        include_bytes!("../../tests/hardware/h200/2026-11-30/time.jsonl.gz"),
    ),
    (
        "tests/hardware/h200/2026-12-01/judged-counters.jsonl.gz",
        include_bytes!("../../tests/hardware/h200/2026-12-01/judged-counters.jsonl.gz"),
    ),
    (
        "tests/hardware/h200/2026-12-01/judged-time.jsonl.gz",
        include_bytes!("../../tests/hardware/h200/2026-12-01/judged-time.jsonl.gz"),
    ),
    (
        "tests/hardware/h200/2026-12-01/judged-3-counters.jsonl.gz",
        include_bytes!("../../tests/hardware/h200/2026-12-01/judged-3-counters.jsonl.gz"),
    ),
    (
        "tests/hardware/h200/2026-12-01/judged-3-time.jsonl.gz",
        include_bytes!("../../tests/hardware/h200/2026-12-01/judged-3-time.jsonl.gz"),
    ),
    (
        "tests/hardware/h200/2026-12-01/judged-4-counters.jsonl.gz",
        include_bytes!("../../tests/hardware/h200/2026-12-01/judged-4-counters.jsonl.gz"),
    ),
    (
        "tests/hardware/h200/2026-12-01/judged-4-time.jsonl.gz",
        include_bytes!("../../tests/hardware/h200/2026-12-01/judged-4-time.jsonl.gz"),
    ),
];

/// Names of the shipped scenarios, in alphabetical order. Those that only judge the
/// model are not among them.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> =
        SCENARIOS.files().filter_map(|file| file.path().to_str()?.strip_suffix(".toml")).collect();
    names.sort_unstable();
    names
}

/// The text of a shipped scenario by its name.
pub(crate) fn scenario(name: &str) -> Option<&'static str> {
    SCENARIOS.get_file(format!("{name}.toml"))?.contents_utf8()
}

/// Path, from the top of the repository, and text of a scenario that only judges the
/// model.
pub(crate) fn judging(name: &str) -> Option<(String, &'static str)> {
    let text = SCENARIOS.get_file(format!("judged/{name}.toml"))?.contents_utf8()?;
    Some((format!("scenarios/judged/{name}.toml"), text))
}

/// The folders of the shipped labs, by their paths from the top of the
/// repository, in order.
pub(crate) fn labs() -> Vec<PathBuf> {
    let labs = SCENARIOS.get_dir("labs").into_iter().flat_map(Dir::dirs);
    let mut folders: Vec<_> = labs.map(|lab| Path::new("scenarios").join(lab.path())).collect();
    folders.sort_unstable();
    folders
}

/// The recorded runs that labs show.
pub(crate) fn campaign() -> anyhow::Result<labs::Campaign> {
    let times = include_bytes!("../../tests/hardware/h200/2026-11-30/time.jsonl.gz");
    let counters = include_bytes!("../../tests/hardware/h200/2026-11-30/counters.jsonl.gz");
    labs::Campaign::read(&times[..], &counters[..]).map_err(anyhow::Error::msg)
}

/// The shipped files by their paths from the top of the repository.
pub(crate) struct Shipped;

impl scenario::Files for Shipped {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let path = scenario::source::normalised(path);
        let path = path.strip_prefix(labs::SHIPPED).unwrap_or(&path);
        let file = if let Ok(rest) = path.strip_prefix("scenarios") {
            SCENARIOS.get_file(rest)
        } else if let Ok(rest) = path.strip_prefix("kernels") {
            KERNELS.get_file(rest)
        } else {
            None
        };
        file.map(|file| file.contents().to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
