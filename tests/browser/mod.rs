//! The exported site: its files as they are, and in a headless Chromium where there
//! is one.

mod devtools;
mod explorer;
mod pages;
mod site;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The site of the shipped labs, exported once for all tests.
fn exported() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("site");
        let start = std::time::Instant::now();
        let output = export(&["-o", folder.to_str().expect("UTF-8")]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        say(&format!("site: exported in {:.1} s", start.elapsed().as_secs_f64()));
        folder.canonicalize().expect("it is there")
    });
    folder.clone()
}

fn export(args: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalescope"));
    command.args(["lab", "export"]).args(args).output().expect("the binary starts")
}

/// To the terminal, also where the test passes.
fn say(words: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{words}");
}
