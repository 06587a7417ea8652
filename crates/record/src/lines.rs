//! Lines of bounded length from a stream of any bytes.

use std::io::{self, BufRead};

/// What [`LineReader::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A line without its end. `ended` is whether it had one.
    Whole { text: &'a [u8], ended: bool },
    /// The first bytes of a line that is longer than the limit.
    TooLong { start: &'a [u8] },
}

/// Reads lines and counts them, keeping at most one in memory.
pub(crate) struct LineReader<R> {
    input: R,
    limit: usize,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> LineReader<R> {
    pub(crate) fn new(input: R, limit: usize) -> Self {
        Self { input, limit, line: Vec::new(), number: 0 }
    }

    /// Number of the line that `next` returned last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, blank or not; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let mut too_long = false;
        let mut read_any = false;
        let ended = loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                break false;
            }
            read_any = true;
            let end = memchr::memchr(b'\n', available);
            let piece = &available[..end.unwrap_or(available.len())];
            let room = self.limit - self.line.len();
            too_long |= piece.len() > room;
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            let consumed = piece.len() + usize::from(end.is_some());
            self.input.consume(consumed);
            if end.is_some() {
                break true;
            }
        };
        if !read_any {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(if too_long {
            Line::TooLong { start: &self.line }
        } else {
            Line::Whole { text: &self.line, ended }
        }))
    }
}

/// Whether a line has nothing but white space.
pub(crate) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn lines(input: &[u8], capacity: usize, limit: usize) -> Vec<String> {
        let mut reader = LineReader::new(BufReader::with_capacity(capacity, input), limit);
        let mut found = Vec::new();
        while let Some(line) = reader.next().unwrap() {
            let text = match line {
                Line::Whole { text, ended } => {
                    format!("{}{}", String::from_utf8_lossy(text), if ended { "$" } else { "" })
                }
                Line::TooLong { start } => format!("{}…", String::from_utf8_lossy(start)),
            };
            found.push(format!("{}:{text}", reader.number()));
        }
        found
    }

    #[test]
    fn lines_do_not_depend_on_how_the_input_arrives() {
        let input = b"one\n\ntwo\r\nfour is too long\nfive";
        let expected = ["1:one$", "2:$", "3:two\r$", "4:four is…", "5:five"];
        for capacity in 1..40 {
            assert_eq!(lines(input, capacity, 7), expected, "capacity {capacity}");
        }
        assert!(lines(b"", 8, 7).is_empty());
        assert_eq!(lines(b"1234567\n12345678", 3, 7), ["1:1234567$", "2:1234567…"]);
    }
}
