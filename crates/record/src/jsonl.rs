//! Run records as JSON Lines: one object a line.

use std::fmt;
use std::io::{self, BufRead, Write};

use serde::Deserialize;

use crate::lines::{Line, LineReader, is_blank};
use crate::run::RunRecord;

/// The longest line that is read, in bytes: far above any record of a real
/// campaign, and a bound on the memory that a file of garbage can take.
pub const MAX_LINE_BYTES: usize = 64 << 20;

/// A line of a record file that is no run record.
#[derive(Debug)]
pub struct BadLine {
    /// Line number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub kind: BadLineKind,
}

/// What is wrong with a line.
#[derive(Debug)]
#[non_exhaustive]
pub enum BadLineKind {
    /// Not JSON, or JSON of another shape; the message names the column.
    Json(String),
    /// A record of another format or of a newer version.
    Format(String),
    /// Longer than [`MAX_LINE_BYTES`].
    TooLong,
    /// The last line, without its end: the writer was stopped in the middle of
    /// it. The lines before are good; the run is to be repeated.
    CutShort,
    /// The file could not be read on.
    Io(io::Error),
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            BadLineKind::Json(message) | BadLineKind::Format(message) => f.write_str(message),
            BadLineKind::TooLong => {
                write!(f, "longer than {} MiB: no run record", MAX_LINE_BYTES >> 20)
            }
            BadLineKind::CutShort => f.write_str(
                "cut short, as if its writer was stopped; delete the line, or resume the campaign to repeat it",
            ),
            BadLineKind::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BadLine {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            BadLineKind::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// The records of a JSON Lines stream, in order. A bad line is reported in its
/// place, and reading goes on behind it; blank lines are skipped. Only an error
/// of the stream itself ends it.
///
/// ```
/// use coalescope_record::{BadLine, RunRecord, read_runs};
///
/// let file = r#"{"format":"coalescope-run/1","scenario":"strided","source":"predicted",
/// "launch":{"grid":[1,1,1],"block":[32,1,1]},"from_the_future":[1,2]}"#.replace('\n', "")
///     + "\nnot a record\n";
/// let runs: Vec<Result<RunRecord, BadLine>> = read_runs(file.as_bytes()).collect();
/// assert_eq!(runs[0].as_ref().unwrap().scenario, "strided");
/// assert!(runs[1].as_ref().unwrap_err().to_string().starts_with("line 2: "));
/// ```
pub fn read_runs<R: BufRead>(input: R) -> impl Iterator<Item = Result<RunRecord, BadLine>> {
    let mut lines = LineReader::new(input, MAX_LINE_BYTES);
    let mut over = false;
    std::iter::from_fn(move || {
        while !over {
            let outcome = match lines.next() {
                Ok(None) => return None,
                Ok(Some(Line::Whole { text, .. })) if is_blank(text) => continue,
                Ok(Some(Line::Whole { text, ended })) => parse(text, ended),
                Ok(Some(Line::TooLong { .. })) => Err(BadLineKind::TooLong),
                Err(error) => {
                    over = true;
                    Err(BadLineKind::Io(error))
                }
            };
            return Some(outcome.map_err(|kind| BadLine { line: lines.number(), kind }));
        }
        None
    })
}

/// The record in one line.
fn parse(text: &[u8], ended: bool) -> Result<RunRecord, BadLineKind> {
    #[derive(Deserialize)]
    struct Format {
        format: String,
    }
    // The format first: of another one, no other complaint would help.
    match serde_json::from_slice::<Format>(text) {
        Ok(Format { format }) => {
            RunRecord::check_format(&format).map_err(BadLineKind::Format)?;
        }
        Err(error) if error.is_eof() && !ended => return Err(BadLineKind::CutShort),
        Err(error) => return Err(BadLineKind::Json(message(&error))),
    }
    serde_json::from_slice(text).map_err(|error| BadLineKind::Json(message(&error)))
}

/// The message of a JSON error, with the column alone: it knows only one line.
pub(crate) fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(text) => format!("column {}: {text}", error.column()),
        None => text,
    }
}

/// Writes one record as one line, in one write: an append-only file stays a
/// sequence of whole lines, but for its last, whenever the writer is stopped.
pub fn write_run<W: Write>(mut output: W, run: &RunRecord) -> io::Result<()> {
    let mut line = serde_json::to_vec(run)?;
    line.push(b'\n');
    output.write_all(&line)
}
