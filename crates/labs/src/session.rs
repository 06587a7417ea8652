//! A lab as a conversation: text, question, answer, picture, figures.

use crate::comparison::Comparison;
use crate::document::{Kind, Question};
use crate::error::LabError;
use crate::question::Posed;
use crate::show;
use crate::workbench::{Figure, Shown, Workbench};
use anstyle::{AnsiColor, Style};
use record::units;
use std::io::{self, BufRead, Write};

/// What came of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Points for right answers.
    pub points: f64,
    /// Questions that were answered.
    pub answered: usize,
    /// Questions of the lab.
    pub questions: usize,
}

/// Why a conversation ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The lab is wrong.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Input or output failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

const BOLD: Style = Style::new().bold();

fn coloured(color: AnsiColor) -> Style {
    color.on_default().bold()
}

/// Goes through the lab: prints the text, asks each question and reads a line
/// for it, shows what is right and why, and ends with the exercise. The input's
/// end ends the questions; an empty line passes one.
///
/// The text has ANSI styles; strip them where they are not wanted.
///
/// # Errors
/// A lab that cannot be computed, and failing input or output.
pub fn run(
    workbench: &Workbench<'_>,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> Result<Summary, SessionError> {
    let lab = workbench.lab;
    let document = &lab.document;
    let mut summary = Summary { questions: document.question.len(), ..Summary::default() };
    writeln!(out, "{BOLD}Lab {}: {}{BOLD:#}", lab.number, document.title)?;
    writeln!(
        out,
        "About {} minutes, {} questions. An empty line passes a question.\n",
        document.minutes, summary.questions
    )?;
    writeln!(out, "{}", workbench.render(&lab.introduction)?)?;
    let mut number = 0;
    let mut open = true;
    for section in &lab.sections {
        writeln!(out, "\n{BOLD}{}{BOLD:#}\n", section.heading)?;
        writeln!(out, "{}", workbench.render(&section.text)?)?;
        for question in lab.questions_after(section) {
            number += 1;
            let of = summary.questions;
            writeln!(out, "\n{BOLD}Question {number} of {of}{BOLD:#}")?;
            open = ask(workbench, question, input, out, &mut summary)?;
            if !open {
                break;
            }
        }
        if !open {
            break;
        }
    }
    writeln!(
        out,
        "\n{BOLD}{} of {} points{BOLD:#}{}",
        summary.points,
        summary.questions,
        if open { "" } else { ", and the input ended here" }
    )?;
    if let Some(exercise) = document.exercise.as_ref().filter(|_| open) {
        writeln!(out, "\n{BOLD}Exercise{BOLD:#}\n\n{}", workbench.render(&exercise.ask)?)?;
        write!(out, "{}", show::goals(exercise))?;
        writeln!(
            out,
            "\n`coalescope lab show {0} --start > mine.toml` gives the scenario to edit, and \
             `coalescope lab grade {0} mine.toml` marks it.",
            lab.number
        )?;
    }
    Ok(summary)
}

/// One question; `false` where the input has ended.
fn ask(
    workbench: &Workbench<'_>,
    question: &Question,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
    summary: &mut Summary,
) -> Result<bool, SessionError> {
    let posed = workbench.pose(question)?;
    let shown = question.show.as_deref().map(|point| workbench.show(point)).transpose()?;
    if let Some(shown) = &shown {
        write_kernel(shown, out)?;
    }
    write_question(&posed, out)?;
    let answer = loop {
        write!(out, "> ")?;
        out.flush()?;
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 {
            writeln!(out)?;
            return Ok(false);
        }
        let line = String::from_utf8_lossy(&line);
        // A piped answer does not show itself.
        match line.trim() {
            "" => break None,
            text => match posed.read(text) {
                Ok(answer) => break Some(answer),
                Err(reason) => writeln!(out, "{reason}; try again, or pass with an empty line")?,
            },
        }
    };
    writeln!(out)?;
    match &answer {
        None => writeln!(out, "Passed. The answer is {}.", posed.right_words)?,
        Some(answer) => {
            let marked = posed.mark(answer);
            summary.answered += 1;
            summary.points += marked.points;
            let (green, yellow, red) =
                (coloured(AnsiColor::Green), coloured(AnsiColor::Yellow), coloured(AnsiColor::Red));
            if marked.points >= 1.0 && !posed.hits(answer) {
                writeln!(out, "{green}Near enough{green:#}: it is {}.", posed.right_words)?;
            } else if marked.points >= 1.0 {
                writeln!(out, "{green}Right{green:#}: {}.", posed.right_words)?;
            } else if marked.points > 0.0 {
                writeln!(out, "{yellow}Half right{yellow:#}: {}.", posed.right_words)?;
            } else {
                writeln!(out, "{red}Not so{red:#}: the answer is {}.", posed.right_words)?;
            }
            if let Some(misconception) = marked.misconception {
                writeln!(out, "{misconception}")?;
            }
        }
    }
    let pictured = question.picture.as_deref().map(|point| workbench.show(point)).transpose()?;
    if let Some(shown) = pictured.as_ref().or(shown.as_ref()) {
        write_picture(shown, out)?;
    }
    if let Some(comparison) = workbench.compare(question)? {
        write_comparison(&comparison, out)?;
    }
    writeln!(out, "\n{}", posed.explain)?;
    Ok(true)
}

fn write_kernel(shown: &Shown, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    for line in shown.kernel.lines() {
        writeln!(out, "    {line}")?;
    }
    writeln!(out, "\nLaunched with {}.\n", shown.launch)
}

fn write_question(posed: &Posed, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", posed.ask)?;
    for (name, meaning) in &posed.options {
        match meaning.as_str() {
            "" => writeln!(out, "  {name}")?,
            meaning => writeln!(out, "  {name}: {meaning}")?,
        }
    }
    match (posed.kind, posed.asks_factor, posed.unit.as_str()) {
        (Kind::FasterWhich, true, _) => {
            writeln!(out, "(its name, and how many times faster than the slowest)")
        }
        (Kind::Number, _, unit) if !unit.is_empty() => match posed.leeway() {
            Some(within) => writeln!(out, "(in {unit}; {within} off is near enough)"),
            None => writeln!(out, "(in {unit})"),
        },
        _ => Ok(()),
    }
}

/// Name, recorded and predicted value.
fn texts_of(name: String, figure: &Figure) -> [String; 3] {
    let predicted = match (figure.predicted, figure.known_error) {
        (Some(predicted), Some(error)) => {
            format!("predicted {predicted}, ±{} known error", units::percent(error))
        }
        (Some(predicted), None) => format!("predicted {predicted}"),
        (None, _) => "not predicted".to_owned(),
    };
    [name, figure.recorded.to_string(), predicted]
}

/// The lanes and their sectors, and what a device recorded.
fn write_picture(shown: &Shown, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{BOLD}{}{BOLD:#}, one warp of it:", shown.label)?;
    write!(out, "{}", draw::text(&shown.rules, &shown.access))?;
    let why = advise::why::explain(&shown.rules, &shown.access);
    writeln!(out, "\nWhy: {}.", why.sentence)?;
    if let Some(device) = shown.device.as_ref().filter(|_| !shown.figures.is_empty()) {
        writeln!(out, "\nRecorded on an {device}, and predicted:")?;
        let figures = shown.figures.iter();
        let texts = figures.map(|figure| texts_of(figure.name.to_owned(), figure)).collect();
        write_figures(texts, out)?;
    }
    Ok(())
}

/// What the answer is made of, and what it does not tell.
fn write_comparison(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\nWhat the answer is made of, recorded on an {} and predicted:",
        comparison.device
    )?;
    let rows = comparison.rows.iter();
    let texts = rows.map(|row| texts_of(format!("{}: {}", row.run, row.figure.name), &row.figure));
    write_figures(texts.collect(), out)?;
    if let Some(answer) = &comparison.by_model {
        writeln!(out, "By the model's figures alone the answer is {answer}.")?;
    }
    for caveat in &comparison.caveats {
        writeln!(out, "{caveat}")?;
    }
    Ok(())
}

/// Names, recorded and predicted values, in columns.
fn write_figures(texts: Vec<[String; 3]>, out: &mut dyn Write) -> io::Result<()> {
    let width =
        |column: usize| texts.iter().map(|texts| texts[column].chars().count()).max().unwrap_or(0);
    let [name, recorded] = [width(0), width(1)];
    for [what, was, said] in &texts {
        writeln!(out, "  {what:name$}  {was:>recorded$}  {said}")?;
    }
    Ok(())
}
