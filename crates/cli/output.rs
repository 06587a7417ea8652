//! Where results go: standard output, or a file that is whole or not there.

use anyhow::{Context, Result};
use std::io::{self, Write};
use std::path::Path;

/// Writes `bytes` to `path` so that a reader sees all of them or the old file:
/// into a temporary file beside it, then renamed. A link stays a link: what it
/// points to is written. What is no file (`/dev/stdout`, a named pipe) is
/// written to as it is, since a rename would put a file in its place.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        let place = match path.canonicalize() {
            Ok(place) => place,
            Err(_) if path.is_symlink() => return in_place(path, bytes),
            Err(_) => path.to_owned(),
        };
        if place.exists() && !place.is_file() {
            return in_place(&place, bytes);
        }
        let folder = match place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut file = new_file(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(&place).map_err(|error| error.error)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn in_place(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::File::create(path)?.write_all(bytes)
}

/// A temporary file with the permissions of any new file: as the umask has it.
fn new_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// Whether an error only says that the reader of our output went away, as
/// `head` does.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
