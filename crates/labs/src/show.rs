//! A lab as one Markdown text, without its answers, and the files that a student
//! starts from.

use crate::document::{Exercise, Kind};
use crate::error::LabError;
use crate::question::Posed;
use crate::workbench::Workbench;
use std::fmt::Write;

/// The lab's text, its questions with the kernels that they are about, and its
/// exercise, without the answers and explanations, and without the sections after
/// the last question, which draw conclusions.
///
/// # Errors
/// What cannot be computed.
pub fn markdown(workbench: &Workbench<'_>) -> Result<String, LabError> {
    let lab = workbench.lab;
    let document = &lab.document;
    // Writing to a string cannot fail.
    let mut out = format!("# Lab {}: {}\n\n", lab.number, document.title);
    let _ = writeln!(out, "About {} minutes.\n", document.minutes);
    let _ = writeln!(out, "{}", workbench.render(&lab.introduction)?);
    for section in lab.sections.iter().filter(|section| !lab.concludes(section)) {
        let _ = writeln!(out, "\n## {}\n\n{}", section.heading, workbench.render(&section.text)?);
        for question in lab.questions_after(section) {
            let posed = workbench.pose(question)?;
            let _ = writeln!(out, "\n### Question `{}`\n", question.id);
            if let Some(point) = &question.show {
                let shown = workbench.show(point)?;
                let _ = writeln!(out, "```cuda\n{}\n```\n", shown.kernel.trim_end());
                let _ = writeln!(out, "Launched with {}.\n", shown.launch);
            }
            out.push_str(&asked(&posed));
        }
    }
    if let Some(exercise) = &document.exercise {
        let _ = writeln!(out, "\n## Exercise\n\n{}\n", workbench.render(&exercise.ask)?);
        out.push_str(&goals(exercise));
    }
    Ok(out)
}

/// The goals of an exercise as a list, each with its bound.
pub fn goals(exercise: &Exercise) -> String {
    let mut out = String::new();
    for goal in &exercise.goal {
        let bound = match (&goal.at_least, &goal.at_most) {
            (Some(least), _) => format!(": at least {least}"),
            (_, Some(most)) => format!(": at most {most}"),
            (None, None) => String::new(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "- {} (`{}`){bound}", goal.what, goal.metric);
    }
    let bounds = exercise.goal.iter().flat_map(|goal| goal.at_least.iter().chain(&goal.at_most));
    if bounds.into_iter().any(|bound| bound.contains("start")) {
        let _ = writeln!(out, "\n`start` is what the file has before you edit it.");
    }
    out
}

/// The question with what there is to choose, in Markdown.
pub fn asked(posed: &Posed) -> String {
    let mut out = format!("{}\n", posed.ask.trim());
    if !posed.options.is_empty() {
        out.push('\n');
    }
    for (name, meaning) in &posed.options {
        let _ = match meaning.as_str() {
            "" => writeln!(out, "- `{name}`"),
            meaning => writeln!(out, "- `{name}`: {meaning}"),
        };
    }
    let _ = match (posed.kind, posed.asks_factor, posed.unit.as_str()) {
        (Kind::FasterWhich, true, _) => {
            writeln!(out, "\n(Its name, and how many times faster than the slowest: `NAME 2.5`.)")
        }
        (Kind::Number, _, unit) if !unit.is_empty() => match posed.leeway() {
            Some(within) => writeln!(out, "\n(In {unit}; {within} off is near enough.)"),
            None => writeln!(out, "\n(In {unit}.)"),
        },
        _ => Ok(()),
    };
    out
}

/// A file of answers to fill in.
///
/// # Errors
/// What cannot be computed.
pub fn answers(workbench: &Workbench<'_>) -> Result<String, LabError> {
    let mut out = format!("lab = \"{}\"\n", workbench.lab.name);
    if let Some(seed) = workbench.seed {
        let _ = writeln!(out, "seed = {seed}");
    }
    out.push_str("\n[answers]\n");
    for question in &workbench.lab.document.question {
        let posed = workbench.pose(question)?;
        for line in asked(&posed).lines().filter(|line| !line.trim().is_empty()) {
            let _ = writeln!(out, "# {line}");
        }
        let _ = writeln!(out, "{} = \"\"\n", question.id);
    }
    Ok(out)
}
