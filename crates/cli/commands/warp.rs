//! `coalescope warp`: the bare model over JSON Lines.

use crate::args::WarpArgs;
use crate::commands::{GOOD, bad_input};
use crate::selection::{Complaints, rule_sets};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

/// Streams the file (or standard input) through the rule set.
pub(crate) fn run(args: &WarpArgs) -> Result<ExitCode> {
    let mut complaints = Complaints::default();
    let Some((_, rules)) = rule_sets(std::slice::from_ref(&args.arch), &mut complaints).pop()
    else {
        return Ok(bad_input());
    };
    let mut output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let summary = if args.file == Path::new("-") {
        record::warp::stream(
            &rules,
            BufReader::with_capacity(1 << 20, io::stdin().lock()),
            &mut output,
        )
    } else {
        let file = match File::open(&args.file) {
            Ok(file) => file,
            Err(error) => {
                complaints.message(
                    &format!("cannot read {}: {error}", args.file.display()),
                    "name a file of JSON Lines, or - for standard input",
                );
                return Ok(bad_input());
            }
        };
        record::warp::stream(&rules, BufReader::with_capacity(1 << 20, file), &mut output)
    }
    .context("the stream of lines broke off")?;
    output.flush().context("cannot write the results")?;
    Ok(if summary.bad_lines > 0 { bad_input() } else { GOOD })
}
