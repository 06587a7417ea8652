//! Where the profiler is.

use super::{Profiler, Trouble};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names the profiler's program: a path.
pub const PROFILER_VARIABLE: &str = "COALESCOPE_NCU";

/// Folders in which installers put it. Nsight Compute's own have a folder for
/// each version.
const FOLDERS: &[&str] = &["/usr/local/cuda/bin", "/opt/cuda/bin", "/usr/lib/nsight-compute"];
const VERSIONED: &[&str] = &["/opt/nvidia/nsight-compute", "/usr/local/cuda/nsight-compute"];

#[cfg(windows)]
const PROGRAM: &str = "ncu.exe";
#[cfg(not(windows))]
const PROGRAM: &str = "ncu";

/// Finds the profiler: `$COALESCOPE_NCU`, then `PATH`, then the folders in
/// which installers put it, newest version first.
///
/// # Errors
/// [`Trouble::NotInstalled`] with the places looked at.
pub fn find() -> Result<Profiler, Trouble> {
    if let Some(named) = std::env::var_os(PROFILER_VARIABLE) {
        return at(Path::new(&named));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates =
        candidates(&path, FOLDERS.iter().map(Path::new), VERSIONED.iter().map(Path::new));
    candidates
        .into_iter()
        .filter(|candidate| candidate.is_file())
        .find_map(|path| version(&path).map(|version| Profiler { path, version }))
        .ok_or_else(|| Trouble::NotInstalled {
            looked: format!("PATH, {}", [FOLDERS, VERSIONED].concat().join(", ")),
        })
}

/// The profiler at `path`.
///
/// # Errors
/// [`Trouble::NotInstalled`] where it cannot be run.
pub fn at(path: &Path) -> Result<Profiler, Trouble> {
    match version(path) {
        Some(version) => Ok(Profiler { path: path.to_owned(), version }),
        None => Err(Trouble::NotInstalled {
            looked: format!("`{}`, which cannot be run", path.display()),
        }),
    }
}

/// Files that could be it, in the order of preference.
fn candidates<'a>(
    path: &OsStr,
    folders: impl Iterator<Item = &'a Path>,
    versioned: impl Iterator<Item = &'a Path>,
) -> Vec<PathBuf> {
    let mut candidates: Vec<PathBuf> =
        std::env::split_paths(path).map(|folder| folder.join(PROGRAM)).collect();
    candidates.extend(folders.map(|folder| folder.join(PROGRAM)));
    for folder in versioned {
        let mut versions: Vec<PathBuf> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        versions.sort_by_key(|version| std::cmp::Reverse(numbers(version)));
        candidates.extend(versions.into_iter().map(|version| version.join(PROGRAM)));
    }
    candidates
}

/// The numbers in a folder's name, so that 2025.10 comes after 2025.3.
fn numbers(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// The version that a program tells; `None` where it cannot be run.
fn version(path: &Path) -> Option<String> {
    let output = Command::new(path).arg("--version").stdin(Stdio::null()).output().ok()?;
    Some(version_in(&String::from_utf8_lossy(&output.stdout)))
}

/// The version in `Version 2025.3.1.0 (build 36398880) (public-release)`.
fn version_in(text: &str) -> String {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("Version "))
        .filter_map(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .next()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_what_it_prints() {
        let text = "NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright (c) 2018-2025 NVIDIA \
                    Corporation\nVersion 2025.3.1.0 (build 36398880) (public-release)\n";
        assert_eq!(version_in(text), "2025.3.1.0");
        assert_eq!(version_in(""), "");
    }

    #[test]
    fn path_comes_first_and_newer_versions_before_older() {
        let folder = tempfile::tempdir().expect("a folder");
        for version in ["2024.1.1", "2025.10.0", "2025.3.1"] {
            std::fs::create_dir(folder.path().join(version)).expect("made");
        }
        let path = std::env::join_paths(["/a", "/b"]).expect("a path");
        let found = candidates(&path, [Path::new("/c")].into_iter(), [folder.path()].into_iter());
        let names: Vec<String> = found
            .iter()
            .map(|file| {
                let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
                folder.to_string_lossy().into_owned()
            })
            .collect();
        assert_eq!(names, ["a", "b", "c", "2025.10.0", "2025.3.1", "2024.1.1"]);
    }
}
