//! Builds the mock driver library with the Rust compiler.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Compiles `source` to `kind` (`cdylib` or `bin`) in `folder` and returns the
/// file; several tests and processes may do so at once.
pub(crate) fn build(source: &Path, kind: &str, folder: &Path) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let stem = source.file_stem().expect("a file name").to_string_lossy().into_owned();
    let output = folder.join(format!("mock_{stem}_{kind}"));
    let fresh = |file: &Path| {
        let modified = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
        modified(file) > modified(source)
    };
    if fresh(&output) {
        return output;
    }
    let unique = folder.join(format!("mock_{stem}_{kind}.{}", std::process::id()));
    let status = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--edition", "2024", "--crate-type", kind, "-O", "-A", "warnings", "-o"])
        .arg(&unique)
        .arg(source)
        .status()
        .expect("the Rust compiler runs");
    assert!(status.success(), "the mock {} compiles", source.display());
    std::fs::rename(&unique, &output).expect("the mock can be put in its place");
    output
}

/// The mock driver library.
pub(crate) fn driver(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda-driver/tests/mock/driver.rs");
    build(&source, "cdylib", folder)
}
