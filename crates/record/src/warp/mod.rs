//! The `coalescope warp` contract: warp accesses in, counts out, one JSON
//! object a line.
//!
//! **A line in** is an object:
//!
//! | field | value |
//! |---|---|
//! | `id` | any JSON, given back as it is written; `null` when left out |
//! | `arch` | the compute capability that the access is for: that of the stream's rule set, or of a shipped one; the stream's when left out |
//! | `op` | `ld`, `ld.cg`, `ld.nc`, `st`, `red`, `atom`, `lds`, `sts`, `cp.async`, … ([`Op::names`](simulator::Op::names) lists all) |
//! | `width` | bytes a lane: 1, 2, 4, 8, 16, 32, as far as the architecture has them |
//! | `mask` | the lanes that are on, a number of 32 bits, lane 0 the lowest; all lanes when left out |
//! | `addresses` | 32 byte addresses; for `lds` and `sts` offsets in shared memory |
//! | `atomic` | red, atom: `add` (as when left out), `min`, `max`, `cas`, … |
//! | `type` | the PTX type of the values: `u32` (as when left out), `f32`, `v2.f32`, … |
//! | `shared_addresses` | cp.async: the 32 offsets in shared memory that are copied to |
//!
//! An active lane's address is a whole number below 2⁶⁴ and a multiple of
//! `width`. In the place of an inactive lane anything may stand; all 32 places
//! must be there. Unknown fields are ignored, so that counted records
//! (`counters`, `family`, …) can be fed back; a known field given twice is an
//! error.
//!
//! **A line out** is an object: `id`, then of
//!
//! `requests, sectors, tags, tag_wavefronts, data_wavefronts, bank_conflicts,
//! l2_sectors, unique_sectors, requested_bytes, unique_bytes, moved_bytes`
//!
//! those that the rule set defines, then `exact`, then, on architectures whose
//! transactions have several sizes, `transactions`: `[{"address","bytes"}]`.
//! Shared memory has `requests, data_wavefronts, bank_conflicts`.
//!
//! **A bad line** gives `{"id":…,"error":"…"}` in its place; the `id` is there
//! if it could be read before the trouble, else `null`. The lines after it are
//! counted all the same. Blank lines give nothing. A line may have
//! [`MAX_LINE_BYTES`]; a longer one is a bad line, and takes no more memory
//! than that.
//!
//! ```
//! use coalescope_record::warp;
//! use simulator::RuleSet;
//!
//! let addresses: Vec<u64> = (0..32).map(|lane| 0x1000 + 8 * lane).collect();
//! let input = format!("{{\"id\":1,\"op\":\"ld\",\"width\":4,\"mask\":255,\"addresses\":{addresses:?}}}\n");
//! let mut output = Vec::new();
//! let summary = warp::stream(&RuleSet::for_arch("8.0").unwrap(), input.as_bytes(), &mut output)?;
//! assert_eq!(summary.bad_lines, 0);
//! assert!(output.starts_with(br#"{"id":1,"requests":1,"sectors":2,"tags":1"#));
//! # Ok::<(), std::io::Error>(())
//! ```

mod parse;
mod quick;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, BufRead, Write};

use rayon::prelude::*;
use simulator::{Counts, RuleSet, Space, WarpAccess};

pub use parse::{LineError, WarpLine};

/// The longest line that is read, in bytes: 1 MiB, some two thousand times a
/// usual line.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// Lines that a core takes at a time.
const LINES_A_TASK: usize = 64;

/// Lines whose answers are kept until they are written.
const LINES_A_PIECE: usize = 64 * LINES_A_TASK;

/// What [`stream`] went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines answered.
    pub lines: u64,
    /// Those of them answered with an error.
    pub bad_lines: u64,
}

/// Reads one line; `rules` says which accesses there are, unless the line
/// names another architecture.
///
/// Never panics, whatever the bytes. The error has the `id`, if it could be
/// read.
pub fn parse_line<'a>(line: &'a [u8], rules: &'a RuleSet) -> Result<WarpLine<'a>, LineError<'a>> {
    match quick::fields(line) {
        Some(fields) => fields.check(rules),
        None => parse::fields(line)?.check(rules),
    }
}

/// Answers every line of `input` on `output`, in order: by `rules`, but for
/// lines that name another architecture.
///
/// Reads as much as there is, answers it, and flushes; so a program that sends
/// a line and waits for the answer gets it. Memory is bounded, by
/// [`MAX_LINE_BYTES`] and by some thousands of answers, besides the input's own
/// buffer. Large pieces are shared out among the cores;
/// a buffer of a megabyte keeps them busy.
///
/// The error is of `input` or `output`; bad lines are counted.
pub fn stream<R: BufRead, W: Write>(
    rules: &RuleSet,
    mut input: R,
    mut output: W,
) -> io::Result<Summary> {
    let mut summary = Summary::default();
    let mut lines_before = 0u64;
    // What was read and not answered: the start of a line.
    let mut pending = Vec::new();
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let read = available.len();
        if let Some(last) = memchr::memrchr(b'\n', available) {
            let (mut whole, rest) = available.split_at(last + 1);
            if !pending.is_empty() {
                // The first line ends what is pending.
                let first = memchr::memchr(b'\n', whole).unwrap_or(last);
                append(&mut pending, &whole[..first]);
                lines_before += answer(rules, &pending, lines_before, &mut output, &mut summary)?;
                pending.clear();
                whole = &whole[first + 1..];
            }
            lines_before += answer(rules, whole, lines_before, &mut output, &mut summary)?;
            output.flush()?;
            append(&mut pending, rest);
        } else {
            append(&mut pending, available);
        }
        input.consume(read);
        if read == 0 {
            answer(rules, &pending, lines_before, &mut output, &mut summary)?;
            output.flush()?;
            return Ok(summary);
        }
    }
}

/// Appends to a line what still counts of it: one byte more than the limit
/// tells that it is too long.
fn append(line: &mut Vec<u8>, more: &[u8]) {
    let room = (MAX_LINE_BYTES + 1).saturating_sub(line.len());
    line.extend_from_slice(&more[..more.len().min(room)]);
}

/// Answers the lines of `text`, whose last may lack its end, and gives their
/// number, blank ones included.
fn answer<W: Write>(
    rules: &RuleSet,
    text: &[u8],
    lines_before: u64,
    output: &mut W,
    summary: &mut Summary,
) -> io::Result<u64> {
    let mut answered = 0;
    let mut lines = Vec::new();
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', text).map(|end| end + 1);
    // What follows the last line end is a line, too; of no text there is none.
    let rest = (!text.is_empty() && !text.ends_with(b"\n")).then_some(text.len());
    for end in ends.chain(rest) {
        let line = &text[start..end];
        lines.push(line.strip_suffix(b"\n").unwrap_or(line));
        start = end;
        if lines.len() == LINES_A_PIECE || start == text.len() {
            answer_piece(rules, &lines, lines_before + answered, output, summary)?;
            answered += lines.len() as u64;
            lines.clear();
        }
    }
    Ok(answered)
}

/// Answers `lines`, shared out among the cores where they are many.
fn answer_piece<W: Write>(
    rules: &RuleSet,
    lines: &[&[u8]],
    lines_before: u64,
    output: &mut W,
    summary: &mut Summary,
) -> io::Result<()> {
    let answer_task = |(task, lines): (usize, &[&[u8]])| {
        let mut answers = Answers::default();
        let first = lines_before + (task * LINES_A_TASK) as u64 + 1;
        for (number, line) in (first..).zip(lines) {
            answers.add(rules, line, number);
        }
        answers
    };
    let mut write = |answers: Answers| {
        summary.lines += answers.lines;
        summary.bad_lines += answers.bad_lines;
        output.write_all(&answers.text)
    };
    if lines.len() <= LINES_A_TASK {
        return write(answer_task((0, lines)));
    }
    let answers: Vec<Answers> =
        lines.par_chunks(LINES_A_TASK).enumerate().map(answer_task).collect();
    answers.into_iter().try_for_each(write)
}

/// Answers to some lines in a row.
#[derive(Default)]
struct Answers {
    text: Vec<u8>,
    lines: u64,
    bad_lines: u64,
}

impl Answers {
    fn add(&mut self, rules: &RuleSet, line: &[u8], number: u64) {
        let line = match line.strip_prefix("\u{feff}".as_bytes()) {
            // A byte-order mark, as some editors put at a file's start.
            Some(line) if number == 1 => line,
            _ => line,
        };
        if crate::lines::is_blank(line) {
            return;
        }
        self.lines += 1;
        match parse_line(line, rules) {
            Ok(WarpLine { id, access, rules }) => {
                write_counts(&mut self.text, id, rules, &access);
            }
            Err(error) => {
                self.bad_lines += 1;
                write_error(&mut self.text, number, &error);
            }
        }
    }
}

/// The answer to a good line.
fn write_counts(text: &mut Vec<u8>, id: &str, rules: &RuleSet, access: &WarpAccess) {
    let counts = rules.count(access);
    text.extend_from_slice(b"{\"id\":");
    text.extend_from_slice(id.as_bytes());
    let mut digits = itoa::Buffer::new();
    let mut field = |key: &[u8], value: Option<u32>| {
        if let Some(value) = value {
            text.extend_from_slice(key);
            text.extend_from_slice(digits.format(value).as_bytes());
        }
    };
    let Counts { requests, data_wavefronts, bank_conflicts, .. } = counts;
    field(b",\"requests\":", Some(requests));
    if access.op.space == Space::Shared {
        field(b",\"data_wavefronts\":", data_wavefronts);
        field(b",\"bank_conflicts\":", bank_conflicts);
    } else {
        field(b",\"sectors\":", counts.sectors);
        field(b",\"tags\":", counts.tags);
        field(b",\"tag_wavefronts\":", counts.tag_wavefronts);
        field(b",\"data_wavefronts\":", data_wavefronts);
        field(b",\"bank_conflicts\":", bank_conflicts);
        field(b",\"l2_sectors\":", counts.l2_sectors);
        field(b",\"unique_sectors\":", counts.unique_sectors);
        field(b",\"requested_bytes\":", Some(counts.requested_bytes));
        field(b",\"unique_bytes\":", Some(counts.unique_bytes));
        field(b",\"moved_bytes\":", counts.moved_bytes);
    }
    text.extend_from_slice(if counts.exact { b",\"exact\":true" } else { b",\"exact\":false" });
    if let Some(transactions) = rules.transactions(access) {
        text.extend_from_slice(b",\"transactions\":[");
        for (index, transaction) in transactions.iter().enumerate() {
            let open: &[u8] = if index == 0 { b"{\"address\":" } else { b",{\"address\":" };
            text.extend_from_slice(open);
            text.extend_from_slice(digits.format(transaction.address).as_bytes());
            text.extend_from_slice(b",\"bytes\":");
            text.extend_from_slice(digits.format(transaction.bytes).as_bytes());
            text.push(b'}');
        }
        text.push(b']');
    }
    text.extend_from_slice(b"}\n");
}

/// The answer to a bad line.
fn write_error(text: &mut Vec<u8>, number: u64, error: &LineError<'_>) {
    let message = serde_json::Value::String(format!("line {number}: {}", error.message));
    text.extend_from_slice(b"{\"id\":");
    text.extend_from_slice(error.id.unwrap_or("null").as_bytes());
    text.extend_from_slice(b",\"error\":");
    text.extend_from_slice(message.to_string().as_bytes());
    text.extend_from_slice(b"}\n");
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lines, {} of them bad", self.lines, self.bad_lines)
    }
}
