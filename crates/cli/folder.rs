//! A folder of files that is written whole or not at all.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Names the files of a folder that the program wrote: they may be replaced.
const LIST: &str = ".coalescope-files";

/// Writes files, each with its path from `folder`, so that `folder` has all of them
/// or stays as it was: into a temporary folder beside it, then renamed. What was
/// there is replaced if the program wrote it, and all of it.
pub(crate) fn write_folder(folder: &Path, files: &[(&str, &[u8])]) -> Result<()> {
    let place = match folder.canonicalize() {
        Ok(place) => place,
        Err(error) if error.kind() == io::ErrorKind::NotFound => folder.to_owned(),
        Err(error) => return Err(error).with_context(|| cannot_write(folder)),
    };
    let replaces = may_be_replaced(folder, &place)?;
    let write = || -> io::Result<()> {
        let parent = match place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent)?;
        // What is left in it at the end, the old folder included, goes with it.
        let scratch = tempfile::Builder::new().prefix(".coalescope-").tempdir_in(parent)?;
        let new = scratch.path().join("new");
        fs::create_dir(&new)?;
        let mut list = String::new();
        for (path, bytes) in files {
            let file = new.join(path);
            if let Some(above) = file.parent() {
                fs::create_dir_all(above)?;
            }
            fs::write(file, bytes)?;
            list.push_str(path);
            list.push('\n');
        }
        fs::write(new.join(LIST), list)?;
        let old = scratch.path().join("old");
        if replaces {
            fs::rename(&place, &old)?;
        }
        fs::rename(&new, &place).inspect_err(|_| {
            if replaces {
                // The error that is told is the first one.
                let _ = fs::rename(&old, &place);
            }
        })
    };
    write().with_context(|| cannot_write(folder))
}

fn cannot_write(folder: &Path) -> String {
    format!("cannot write the folder {}", folder.display())
}

/// Whether there is a folder to replace. Anything else that is there is refused.
fn may_be_replaced(folder: &Path, place: &Path) -> Result<bool> {
    if !place.exists() {
        return Ok(false);
    }
    if !place.is_dir() {
        bail!("{} is no folder: name a new one", folder.display());
    }
    let mut found = Vec::new();
    files_under(place, place, &mut found).with_context(|| cannot_write(folder))?;
    let written = fs::read_to_string(place.join(LIST)).unwrap_or_default();
    let written: BTreeSet<&Path> = written.lines().map(Path::new).collect();
    let strange = found.iter().find(|path| {
        let path = path.as_path();
        path != Path::new(LIST) && !written.contains(path)
    });
    if let Some(strange) = strange {
        bail!(
            "{} has {} in it, which is not of an earlier export: name another folder, or move it \
             away",
            folder.display(),
            strange.display()
        );
    }
    Ok(true)
}

/// All that is no folder under `folder`, from `top`.
fn files_under(top: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            files_under(top, &path, found)?;
        } else {
            found.push(path.strip_prefix(top).map_or_else(|_| path.clone(), Path::to_owned));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_we_wrote_is_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let site = scratch.path().join("a/site");
        write_folder(&site, &[("index.html", b"1"), ("labs/1.html", b"2")]).unwrap();
        write_folder(&site, &[("index.html", b"3")]).unwrap();
        assert_eq!(fs::read(site.join("index.html")).unwrap(), b"3");
        assert!(!site.join("labs").exists());

        fs::write(site.join("notes.txt"), "mine").unwrap();
        let error = write_folder(&site, &[("index.html", b"4")]).unwrap_err();
        assert!(error.to_string().contains("has notes.txt in it"), "{error}");
        assert_eq!(fs::read(site.join("index.html")).unwrap(), b"3");
        assert_eq!(fs::read_dir(scratch.path().join("a")).unwrap().count(), 1, "no rests");

        let file = site.join("notes.txt");
        assert!(write_folder(&file, &[]).unwrap_err().to_string().contains("is no folder"));
    }

    #[test]
    fn an_empty_folder_is_taken_and_a_failure_leaves_it() {
        let scratch = tempfile::tempdir().unwrap();
        let site = scratch.path().join("site");
        fs::create_dir(&site).unwrap();
        // A file cannot be a folder as well.
        assert!(write_folder(&site, &[("a", b"1"), ("a/b", b"2")]).is_err());
        assert_eq!(fs::read_dir(&site).unwrap().count(), 0);
        write_folder(&site, &[("a", b"1")]).unwrap();
        assert_eq!(fs::read(site.join("a")).unwrap(), b"1");
    }
}
