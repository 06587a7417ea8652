//! What the documents say that the program prints is what it prints.
//!
//! In a document, a block ```` ```toml NAME ```` is a file of that name, and a block
//! ```` ```console ```` has commands behind `$ `, each followed by what it prints. A
//! line `…` at the end stands for the rest of it. `COALESCOPE_BLESS=1` writes the
//! blocks anew.

use std::path::Path;
use std::process::Command;

const BLESS: &str = "COALESCOPE_BLESS";
/// Stands for the rest of what a command prints.
const REST: &str = "…";

/// What a command prints, to either stream, in a folder.
fn printed(command: &str, folder: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_coalescope")).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", program.display()))
        .env("NO_COLOR", "1")
        .output()
        .expect("a shell");
    let text = String::from_utf8(output.stdout).expect("output is UTF-8");
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// A block of commands with what they print now, cut where it was cut.
fn played(block: &str, folder: &Path) -> String {
    let mut now = String::new();
    for step in block.split("$ ").skip(1) {
        let (command, kept) = step.split_once('\n').expect("a command is a line");
        let text = printed(command, folder);
        let text = match kept.strip_suffix(&format!("{REST}\n")) {
            Some(kept) => {
                let lines = kept.lines().count();
                let cut: String = text.lines().take(lines).flat_map(|line| [line, "\n"]).collect();
                assert!(cut.len() < text.len(), "nothing is left out of `{command}`");
                cut + REST + "\n"
            }
            None => text,
        };
        now += &format!("$ {command}\n{text}");
    }
    now
}

/// The document with its commands' output as it is now, and how many blocks of
/// commands it has.
fn replayed(document: &str) -> (String, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut now, mut commands) = (String::new(), 0);
    let mut rest = document;
    while let Some((before, fenced)) = rest.split_once("```") {
        let (info, fenced) = fenced.split_once('\n').expect("a fence ends its line");
        let (block, after) = fenced.split_once("```").expect("a block is closed");
        let block = if info == "console" {
            commands += 1;
            played(block, folder.path())
        } else {
            if let Some((_, name)) = info.split_once(' ') {
                std::fs::write(folder.path().join(name), block).expect("writable");
            }
            block.to_owned()
        };
        now += &format!("{before}```{info}\n{block}```");
        rest = after;
    }
    (now + rest, commands)
}

fn assert_true(path: &str, at_least: usize) {
    let document = std::fs::read_to_string(path).expect("the document");
    let (now, commands) = replayed(&document);
    assert!(commands >= at_least, "{path} has {commands} blocks of commands");
    if std::env::var_os(BLESS).is_some_and(|value| value == "1") {
        std::fs::write(path, &now).expect("writable");
        return;
    }
    similar_asserts::assert_eq!(
        document,
        now,
        "{path} says something else than the program: set {BLESS}=1 to write what it prints"
    );
}

#[test]
fn rule_sets_are_tried_as_their_document_says() {
    assert_true("docs/rule-sets.md", 3);
}

#[test]
fn the_tour_of_the_readme_is_what_the_program_prints() {
    assert_true("README.md", 6);
}
