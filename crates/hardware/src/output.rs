//! Append-only files of JSON lines that survive being cut anywhere.

use crate::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file of lines, open for appending.
pub(crate) struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    /// Opens a file for appending. With `resume`, its whole lines are handed to
    /// `line` and stay, and a last line without its end is cut off; without,
    /// a file that has something in it is refused.
    pub(crate) fn open(
        path: &Path,
        resume: bool,
        mut line: impl FnMut(&str),
    ) -> Result<Self, Error> {
        let file_error = |error| Error::file(path, error);
        let mut file =
            File::options().create(true).read(true).append(true).open(path).map_err(file_error)?;
        let length = file.metadata().map_err(file_error)?.len();
        if length > 0 && !resume {
            return Err(Error::Input(format!(
                "{} is there already: continue it with --resume, or name another file with -o",
                path.display()
            )));
        }
        file.seek(SeekFrom::Start(0)).map_err(file_error)?;
        let mut reader = BufReader::new(&file);
        let mut whole = 0;
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = reader.read_until(b'\n', &mut bytes).map_err(file_error)?;
            if read == 0 || bytes.last() != Some(&b'\n') {
                break;
            }
            whole += read as u64;
            line(String::from_utf8_lossy(&bytes).trim_end());
        }
        if whole < length {
            file.set_len(whole).map_err(file_error)?;
        }
        Ok(Self { path: path.to_owned(), file })
    }

    /// Appends one line, in one write.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Error> {
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(b'\n');
        self.file.write_all(&bytes).map_err(|error| Error::file(&self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path, resume: bool) -> Result<Vec<String>, Error> {
        let mut lines = Vec::new();
        Output::open(path, resume, |line| lines.push(line.to_owned()))?;
        Ok(lines)
    }

    #[test]
    fn a_cut_last_line_is_dropped_and_the_rest_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.jsonl");
        std::fs::write(&path, "{\"a\":1}\n{\"b\":2}\n{\"c\":").expect("written");
        let mut output = Output::open(&path, true, |_| ()).expect("opened");
        output.line("{\"d\":4}").expect("appended");
        drop(output);
        assert_eq!(lines(&path, true).expect("read"), ["{\"a\":1}", "{\"b\":2}", "{\"d\":4}"]);
    }

    #[test]
    fn every_cut_leaves_a_file_that_can_be_continued() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.jsonl");
        let whole = "{\"a\":1}\n{\"b\":\"ü\"}\n";
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole.as_bytes()[..cut]).expect("written");
            let kept = lines(&path, true).expect("read");
            assert_eq!(kept.len(), whole.as_bytes()[..cut].iter().filter(|&&b| b == b'\n').count());
            assert_eq!(std::fs::read(&path).expect("read").last().copied().unwrap_or(b'\n'), b'\n');
        }
    }

    #[test]
    fn without_resume_a_file_with_content_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.jsonl");
        assert_eq!(lines(&path, false).expect("new"), Vec::<String>::new());
        std::fs::write(&path, "x").expect("written");
        let error = lines(&path, false).expect_err("there already");
        assert!(error.to_string().contains("--resume"), "{error}");
        assert_eq!(std::fs::read(&path).expect("read"), b"x");
    }
}
