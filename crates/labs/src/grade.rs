//! Marks files of answers and edited scenarios, one or a class of them.
//!
//! A file of answers:
//!
//! ```toml
//! lab = "02-stride"      # may be left out
//! seed = 7               # the numbers that the student had
//! [answers]
//! sectors = 8
//! which = "padded 6.5"
//! ```
//!
//! Any other file is an edited scenario. What cannot be marked has no mark, and
//! a reason; it does not keep the others from theirs.

use crate::campaign::Campaign;
use crate::error::LabError;
use crate::lab::Lab;
use crate::workbench::Workbench;
use scenario::{Files, Scenario};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Most bytes that a submission may have.
const MAX_BYTES: u64 = 1 << 20;

/// What a submission is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Submitted {
    /// A file of answers.
    Answers,
    /// An edited scenario.
    Scenario,
    /// Neither.
    Unreadable,
}

/// The mark of one file, one row of a class's CSV.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grade {
    /// Whose it is: the folder in the class's folder, or the file's name.
    pub student: String,
    /// The file.
    pub file: String,
    /// The lab's name.
    pub lab: String,
    /// The seed of the numbers and sizes; none: those shown to all.
    pub seed: Option<u64>,
    /// What the file is.
    pub kind: Submitted,
    /// Points.
    pub mark: f64,
    /// The most there are.
    pub out_of: f64,
    /// Why not more; what was reached.
    #[serde(serialize_with = "joined")]
    pub reasons: Vec<String>,
}

fn joined<S: serde::Serializer>(reasons: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&reasons.join(" | "))
}

impl Grade {
    /// Whether there is nothing to better.
    pub fn is_full(&self) -> bool {
        self.kind != Submitted::Unreadable && self.mark >= self.out_of
    }
}

/// A file of answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answers {
    lab: Option<String>,
    /// For the teacher.
    #[serde(rename = "student")]
    _student: Option<String>,
    seed: Option<u64>,
    answers: BTreeMap<String, toml::Value>,
}

/// Marks submissions to one lab.
pub struct Grader<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// Where the lab's scenarios come from.
    pub files: &'a dyn Files,
    /// The recorded runs.
    pub campaign: &'a Campaign,
    /// The seed of all; without one that of each file of answers.
    pub seed: Option<u64>,
}

impl Grader<'_> {
    /// Marks a file.
    ///
    /// # Errors
    /// What is wrong with the lab; never what is wrong with the file.
    pub fn file(&self, path: &Path) -> Result<Grade, LabError> {
        let student = path.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into());
        self.submission(path, student, self.seed)
    }

    /// Marks a class: each file of a folder is a student's, and each
    /// folder in it holds the files of one student, whose answers' seed is that
    /// of their scenarios too.
    ///
    /// # Errors
    /// What is wrong with the lab, and a folder that cannot be listed.
    pub fn class(&self, folder: &Path) -> Result<Vec<Grade>, LabError> {
        let mut grades = Vec::new();
        for path in listed(folder)? {
            if !path.is_dir() {
                grades.push(self.file(&path)?);
                continue;
            }
            let student = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into());
            // A student's folder that cannot be listed has no mark either.
            let files = match listed(&path) {
                Ok(files) => files,
                Err(error) => {
                    let reason = error.to_string();
                    grades.push(self.unreadable(&path, student, self.seed, reason));
                    continue;
                }
            };
            let own = files.iter().find_map(|file| read(file).ok().and_then(|text| seed_of(&text)));
            for file in files.iter().filter(|file| file.is_file()) {
                grades.push(self.submission(file, student.clone(), self.seed.or(own))?);
            }
        }
        Ok(grades)
    }

    fn submission(
        &self,
        path: &Path,
        student: String,
        seed: Option<u64>,
    ) -> Result<Grade, LabError> {
        let is_toml = path.extension().is_some_and(|extension| extension == "toml");
        let text = match read(path) {
            Ok(_) if !is_toml => {
                let reason = "only .toml files are marked".to_owned();
                return Ok(self.unreadable(path, student, seed, reason));
            }
            Ok(text) => text,
            Err(reason) => return Ok(self.unreadable(path, student, seed, reason)),
        };
        let table: toml::Table = match toml::from_str(&text) {
            Ok(table) => table,
            Err(error) => {
                let reason = format!("it is no TOML: {}", error.to_string().trim());
                return Ok(self.unreadable(path, student, seed, reason));
            }
        };
        if table.contains_key("answers") {
            return match toml::from_str::<Answers>(&text) {
                Ok(answers) => self.answers(path, student, seed.or(answers.seed), &answers),
                Err(error) => {
                    Ok(self.unreadable(path, student, seed, error.to_string().trim().to_owned()))
                }
            };
        }
        self.scenario(path, student, seed, &text)
    }

    fn answers(
        &self,
        path: &Path,
        student: String,
        seed: Option<u64>,
        given: &Answers,
    ) -> Result<Grade, LabError> {
        let questions = &self.lab.document.question;
        let mut grade = Grade {
            kind: Submitted::Answers,
            out_of: questions.len() as f64,
            ..self.unreadable(path, student, seed, String::new())
        };
        grade.reasons.clear();
        if let Some(lab) = given.lab.as_ref().filter(|lab| **lab != self.lab.name) {
            grade.reasons.push(format!("these are answers to `{lab}`, not to `{}`", self.lab.name));
            return Ok(grade);
        }
        let workbench = Workbench::new(self.lab, self.files, self.campaign, seed);
        for question in questions {
            let posed = workbench.pose(question)?;
            let reason = match given.answers.get(&question.id).map(text_of) {
                None => "no answer".to_owned(),
                Some(Err(reason)) => reason,
                Some(Ok(text)) if text.trim().is_empty() => "no answer".to_owned(),
                Some(Ok(text)) => match posed.read(&text) {
                    Err(reason) => reason,
                    Ok(answer) => {
                        let marked = posed.mark(&answer);
                        grade.mark += marked.points;
                        if marked.points >= 1.0 {
                            continue;
                        }
                        let why = marked.misconception.map(|text| format!(" ({text})"));
                        format!(
                            "{text} is not right; it is {}{}",
                            posed.right_words,
                            why.unwrap_or_default()
                        )
                    }
                },
            };
            grade.reasons.push(format!("{}: {reason}", question.id));
        }
        for unknown in given.answers.keys() {
            if !questions.iter().any(|question| question.id == *unknown) {
                grade.reasons.push(format!("{unknown}: the lab has no such question"));
            }
        }
        Ok(grade)
    }

    fn scenario(
        &self,
        path: &Path,
        student: String,
        seed: Option<u64>,
        text: &str,
    ) -> Result<Grade, LabError> {
        let mut grade = Grade {
            kind: Submitted::Scenario,
            ..self.unreadable(path, student, seed, String::new())
        };
        grade.reasons.clear();
        let beside = Beside { folder: path.parent().unwrap_or(Path::new("")).to_owned() };
        match Scenario::from_text(path, text, &beside) {
            Err(errors) => grade.reasons.push(errors.to_string()),
            Ok(scenario) => {
                let workbench = Workbench::new(self.lab, self.files, self.campaign, seed);
                let judgement = workbench.judge(&scenario)?;
                // Out of ten, to a tenth; full marks only for all of it.
                let share = judgement.met as f64 / judgement.of.max(1) as f64;
                grade.mark = (share * OUT_OF * 10.0).floor() / 10.0;
                grade.reasons = judgement.reasons;
            }
        }
        Ok(grade)
    }

    fn unreadable(&self, path: &Path, student: String, seed: Option<u64>, reason: String) -> Grade {
        Grade {
            student,
            file: path.display().to_string(),
            lab: self.lab.name.clone(),
            seed,
            kind: Submitted::Unreadable,
            mark: 0.0,
            out_of: OUT_OF,
            reasons: vec![reason],
        }
    }
}

/// Points of an exercise.
const OUT_OF: f64 = 10.0;

/// An answer in a file as it would be typed.
fn text_of(value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        other => {
            Err(format!("a value of type {} is neither a number nor a text", other.type_str()))
        }
    }
}

/// The seed in a file of answers.
fn seed_of(text: &str) -> Option<u64> {
    toml::from_str::<Answers>(text).ok()?.seed
}

fn read(path: &Path) -> Result<String, String> {
    let about = |error: io::Error| format!("it cannot be read: {error}");
    let metadata = std::fs::metadata(path).map_err(about)?;
    if !metadata.is_file() {
        return Err("it is no file".to_owned());
    }
    if metadata.len() > MAX_BYTES {
        return Err(format!("it has more than {MAX_BYTES} bytes"));
    }
    let bytes = std::fs::read(path).map_err(about)?;
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

/// The files and folders in a folder, in order of name, without hidden ones.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, LabError> {
    let unreadable =
        |error: io::Error| LabError::Read { path: folder.to_owned(), reason: error.to_string() };
    let mut found = std::fs::read_dir(folder)
        .map_err(unreadable)?
        .map(|entry| Ok(entry.map_err(unreadable)?.path()))
        .collect::<Result<Vec<_>, LabError>>()?;
    found.retain(|path| {
        path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
    });
    found.sort();
    Ok(found)
}

/// Files in a submission's own folder; a submission reads no others.
struct Beside {
    folder: PathBuf,
}

impl Files for Beside {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let path = path.canonicalize()?;
        let folder = match self.folder.as_os_str().is_empty() {
            true => Path::new(".").canonicalize()?,
            false => self.folder.canonicalize()?,
        };
        let metadata = std::fs::metadata(&path)?;
        if !path.starts_with(&folder) || !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a submission may name small files of its own folder only",
            ));
        }
        std::fs::read(path)
    }
}

/// A class as CSV: a header and a row a file. What would be a formula to a
/// spreadsheet has an apostrophe before it.
///
/// # Errors
/// Output that fails.
pub fn write_csv(grades: &[Grade], out: impl io::Write) -> io::Result<()> {
    let tame = |text: &str| match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}"),
        false => text.to_owned(),
    };
    let mut writer = csv::Writer::from_writer(out);
    for grade in grades {
        let reasons = grade.reasons.iter().map(|reason| tame(reason)).collect();
        let tamed = Grade {
            student: tame(&grade.student),
            file: tame(&grade.file),
            reasons,
            ..grade.clone()
        };
        writer.serialize(tamed).map_err(io::Error::other)?;
    }
    writer.flush()
}
