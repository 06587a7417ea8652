//! `coalescope lab`: lists, shows, runs, grades and exports the teaching labs.

use crate::args::{LabArgs, LabCommand};
use crate::commands::{GOOD, bad_input, check_failed};
use crate::folder::write_folder;
use crate::output::write_whole;
use crate::selection::Complaints;
use crate::shipped;
use anyhow::Result;
use labs::grade::{Grade, Grader, write_csv};
use labs::session::{self, SessionError};
use labs::site::Site;
use labs::{Campaign, Lab, LabError, Workbench, folders, show};
use scenario::{Disk, Files};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Does what the arguments say with one lab, or lists them all.
pub(crate) fn run(args: &LabArgs) -> Result<ExitCode> {
    let mut complaints = Complaints::default();
    let folders = match &args.labs {
        None => shipped::labs(),
        Some(folder) if folder.join("lab.toml").is_file() => vec![folder.clone()],
        Some(folder) => match folders(folder) {
            Ok(folders) => folders,
            Err(error) => return Ok(refused(&mut complaints, &error)),
        },
    };
    let files: &dyn Files = if args.labs.is_some() { &Local } else { &shipped::Shipped };
    match &args.command {
        LabCommand::List => return list(&folders, files, &mut complaints),
        LabCommand::Export { output, seed, without_solutions } => {
            return export(&folders, files, output, *seed, !without_solutions, &mut complaints);
        }
        _ => {}
    }
    let wanted = args.command.lab();
    let Some(folder) = folders.iter().find(|folder| is_called(folder, wanted)) else {
        let names: Vec<String> = folders.iter().map(|folder| name_of(folder)).collect();
        complaints.message(
            &format!("there is no lab `{wanted}`"),
            &match names.is_empty() {
                true => "a lab is a folder with lab.toml and text.md in it".to_owned(),
                false => format!("there are {}", names.join(", ")),
            },
        );
        return Ok(bad_input());
    };
    let lab = match Lab::load(folder, files) {
        Ok(lab) => lab,
        Err(error) => return Ok(refused(&mut complaints, &error)),
    };
    let campaign = shipped::campaign()?;
    match with_lab(args, &lab, files, &campaign) {
        Ok(code) => Ok(code),
        Err(Failure::Lab(error)) => Ok(refused(&mut complaints, &error)),
        Err(Failure::Other(error)) => Err(error),
    }
}

/// What ends a command on a lab.
enum Failure {
    Lab(LabError),
    Other(anyhow::Error),
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        Self::Lab(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Other(error.into())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Lab(error) => Self::Lab(error),
            // As it is, for whoever looks for a closed pipe.
            SessionError::Io(error) => error.into(),
            other => Self::Other(other.into()),
        }
    }
}

fn with_lab(
    args: &LabArgs,
    lab: &Lab,
    files: &dyn Files,
    campaign: &Campaign,
) -> Result<ExitCode, Failure> {
    let workbench = |seed: &Option<u64>| Workbench::new(lab, files, campaign, *seed);
    let mut out = anstream::stdout().lock();
    match &args.command {
        // They are of no single lab.
        LabCommand::List | LabCommand::Export { .. } => Ok(GOOD),
        LabCommand::Show { seed, start, answers, .. } => {
            let exercise = lab.document.exercise.as_ref().filter(|_| *start);
            let text = match exercise.and_then(|exercise| lab.scenarios.get(&exercise.start)) {
                Some(text) => text.clone(),
                None if *answers => show::answers(&workbench(seed))?,
                None => show::markdown(&workbench(seed))?,
            };
            write!(out, "{text}")?;
            Ok(GOOD)
        }
        LabCommand::Run { seed, .. } => {
            session::run(&workbench(seed), &mut std::io::stdin().lock(), &mut out)?;
            Ok(GOOD)
        }
        LabCommand::Grade { submission, seed, output, .. } => {
            if !submission.exists() {
                let path = submission.display();
                Complaints::default().message(
                    &format!("there is no file and no folder `{path}`"),
                    "name an answers file, an edited scenario, or a folder of them",
                );
                return Ok(bad_input());
            }
            let grader = Grader { lab, files, campaign, seed: *seed };
            let is_class = submission.is_dir();
            let grades = match is_class {
                true => grader.class(submission)?,
                false => vec![grader.file(submission)?],
            };
            if grades.is_empty() {
                Complaints::default().message(
                    &format!("there are no submissions in `{}`", submission.display()),
                    "a submission is a .toml file, or a folder of one student's files",
                );
                return Ok(bad_input());
            }
            let all_full = grades.iter().all(Grade::is_full);
            if is_class || output.is_some() {
                let mut csv = Vec::new();
                write_csv(&grades, &mut csv)?;
                match output {
                    Some(path) => write_whole(path, &csv)?,
                    None => out.write_all(&csv)?,
                }
                return Ok(if is_class || all_full { GOOD } else { check_failed() });
            }
            for grade in &grades {
                write_grade(grade, &mut out)?;
            }
            Ok(if all_full { GOOD } else { check_failed() })
        }
    }
}

fn write_grade(grade: &Grade, out: &mut dyn Write) -> std::io::Result<()> {
    let bold = anstyle::Style::new().bold();
    writeln!(out, "{bold}{}: {} of {} points{bold:#}", grade.file, grade.mark, grade.out_of)?;
    for reason in &grade.reasons {
        writeln!(out, "- {}", reason.trim().replace('\n', "\n  "))?;
    }
    Ok(())
}

/// Number, name, title, length and claims of each lab.
fn list(folders: &[PathBuf], files: &dyn Files, complaints: &mut Complaints) -> Result<ExitCode> {
    let mut out = anstream::stdout().lock();
    for folder in folders {
        match Lab::load(folder, files) {
            Ok(lab) => writeln!(
                out,
                "{:>3}  {:<20} {:>3} min  {}",
                lab.number, lab.name, lab.document.minutes, lab.document.title
            )?,
            Err(error) => {
                refused(complaints, &error);
            }
        }
    }
    Ok(if complaints.any() { bad_input() } else { GOOD })
}

/// Writes all labs as a site.
fn export(
    folders: &[PathBuf],
    files: &dyn Files,
    output: &Path,
    seed: Option<u64>,
    solutions: bool,
    complaints: &mut Complaints,
) -> Result<ExitCode> {
    let mut labs = Vec::new();
    for folder in folders {
        match Lab::load(folder, files) {
            Ok(lab) => labs.push(lab),
            Err(error) => {
                refused(complaints, &error);
            }
        }
    }
    if complaints.any() {
        return Ok(bad_input());
    }
    let campaign = shipped::campaign()?;
    let site = Site { labs: &labs, files, campaign: &campaign, seed, solutions };
    let built = match site.build() {
        Ok(built) => built,
        Err(error) => return Ok(refused(complaints, &error)),
    };
    let written: Vec<(&str, &[u8])> =
        built.iter().map(|file| (file.path.as_str(), &file.bytes[..])).collect();
    write_folder(output, &written)?;
    let index = output.join("index.html");
    writeln!(anstream::stdout(), "{} files; open {}", written.len(), index.display())?;
    Ok(GOOD)
}

/// Says what is wrong with a lab.
fn refused(complaints: &mut Complaints, error: &LabError) -> ExitCode {
    match error {
        LabError::Scenario(errors) => complaints.diagnostics(errors),
        error => complaints
            .message(&error.to_string(), "scenarios/labs/README.md describes the files of a lab"),
    }
    bad_input()
}

fn name_of(folder: &Path) -> String {
    folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Whether a lab is meant by its number or its name.
fn is_called(folder: &Path, wanted: &str) -> bool {
    let name = name_of(folder);
    let digits = name.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let number = digits.parse::<u32>();
    name == wanted || matches!((number, wanted.parse::<u32>()), (Ok(a), Ok(b)) if a == b)
}

/// The file system, with the shipped files behind their own name.
struct Local;

impl Files for Local {
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        let path = scenario::source::normalised(path);
        match path.strip_prefix(labs::SHIPPED) {
            Ok(shipped) => shipped::Shipped.read(shipped),
            Err(_) => Disk.read(&path),
        }
    }
}
