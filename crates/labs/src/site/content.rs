//! What the pages say: a lab with its figures computed, as the templates name it.

use super::markdown::{anchor, html_of, inline_html_of};
use crate::comparison::Comparison;
use crate::document::{Exercise, Kind, Question};
use crate::error::LabError;
use crate::question::Posed;
use crate::show;
use crate::workbench::{Figure, Shown, Workbench};
use record::units;
use serde::Serialize;
use std::collections::HashMap;

/// A lab in a list.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) title: String,
    pub(super) minutes: u32,
    pub(super) questions: usize,
}

/// A lab. `introduction`, a section's `text`, `ask`, `explain`, `says`, `meaning`,
/// `goals` and `svg` are markup; all else is plain text, which templates escape.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LabContent {
    number: u32,
    name: String,
    title: String,
    minutes: u32,
    introduction: String,
    sections: Vec<SectionContent>,
    exercise: Option<ExerciseContent>,
}

#[derive(Clone, Debug, Serialize)]
struct SectionContent {
    id: String,
    heading: String,
    text: String,
    /// It stands after the last question and tells answers.
    concludes: bool,
    questions: Vec<QuestionContent>,
}

#[derive(Clone, Debug, Serialize)]
struct QuestionContent {
    id: String,
    number: usize,
    kernel: Option<String>,
    launch: String,
    /// The question before it that shows the same kernel, and its number.
    same_as: Option<String>,
    same_as_number: usize,
    ask: String,
    options: Vec<OptionContent>,
    hint: Option<String>,
    picture: Option<PictureContent>,
    answer: String,
    explain: String,
    wrong: Vec<WrongContent>,
    device: Option<String>,
    figures: Vec<FigureContent>,
    comparison: Option<ComparisonContent>,
}

/// What an answer is made of.
#[derive(Clone, Debug, Serialize)]
struct ComparisonContent {
    device: String,
    rows: Vec<FigureContent>,
    by_model: Option<String>,
    caveats: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct OptionContent {
    name: String,
    meaning: String,
}

#[derive(Clone, Debug, Serialize)]
struct PictureContent {
    svg: String,
    caption: String,
    why: String,
}

#[derive(Clone, Debug, Serialize)]
struct WrongContent {
    answer: String,
    says: String,
}

#[derive(Clone, Debug, Serialize)]
struct FigureContent {
    name: String,
    predicted: Option<String>,
    known_error: Option<String>,
    recorded: String,
}

#[derive(Clone, Debug, Serialize)]
struct ExerciseContent {
    ask: String,
    goals: String,
    file: String,
    text: String,
    solution: String,
    /// What the solution reaches, goal by goal.
    reached: Vec<String>,
}

/// A lab's folder as a name of files and in links: other letters than those that stand
/// for themselves in both become `-`.
pub(super) fn file_name(folder: &str) -> String {
    let keeps = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    folder.chars().map(|c| if keeps(c) { c } else { '-' }).collect()
}

/// Computes all that the pages of one lab show.
pub(super) fn of_lab(workbench: &Workbench<'_>) -> Result<LabContent, LabError> {
    let lab = workbench.lab;
    let mut sections = Vec::new();
    let mut number = 0;
    // Question and number that showed a kernel first.
    let mut shown_before: HashMap<(String, String), (String, usize)> = HashMap::new();
    for section in &lab.sections {
        let mut questions = Vec::new();
        for question in lab.questions_after(section) {
            number += 1;
            let mut content = of_question(workbench, question, number)?;
            if let Some(kernel) = &content.kernel {
                let key = (kernel.clone(), content.launch.clone());
                match shown_before.get(&key) {
                    Some((id, number)) => {
                        content.same_as = Some(id.clone());
                        content.same_as_number = *number;
                    }
                    None => {
                        shown_before.insert(key, (content.id.clone(), number));
                    }
                }
            }
            questions.push(content);
        }
        sections.push(SectionContent {
            id: anchor(&section.heading),
            heading: section.heading.clone(),
            text: html_of(&workbench.render(&section.text)?),
            concludes: lab.concludes(section),
            questions,
        });
    }
    let exercise = &lab.document.exercise;
    Ok(LabContent {
        number: lab.number,
        name: file_name(&lab.name),
        title: lab.document.title.clone(),
        minutes: lab.document.minutes,
        introduction: html_of(&workbench.render(&lab.introduction)?),
        sections,
        exercise: exercise.as_ref().map(|e| of_exercise(workbench, e)).transpose()?,
    })
}

fn of_question(
    workbench: &Workbench<'_>,
    question: &Question,
    number: usize,
) -> Result<QuestionContent, LabError> {
    let posed = workbench.pose(question)?;
    let shown = question.show.as_deref().map(|point| workbench.show(point)).transpose()?;
    let pictured = question.picture.as_deref().map(|point| workbench.show(point)).transpose()?;
    let pictured = pictured.as_ref().or(shown.as_ref());
    let hint = match (posed.kind, posed.asks_factor, posed.unit.as_str()) {
        (Kind::FasterWhich, true, _) => {
            Some("Its name, and how many times faster it is than the slowest.".to_owned())
        }
        (Kind::Number, _, unit) if !unit.is_empty() => Some(match posed.leeway() {
            Some(within) => format!("In {unit}; {within} off is near enough."),
            None => format!("In {unit}."),
        }),
        _ => None,
    };
    let figures = pictured.iter().flat_map(|shown| &shown.figures);
    let figures = figures.map(|figure| of_figure(figure.name.to_owned(), figure));
    // Its place on a page; the page's own anchors start otherwise.
    let id = format!("q-{}", question.id);
    Ok(QuestionContent {
        picture: pictured.map(|shown| picture(shown, &id)),
        id,
        number,
        kernel: shown.as_ref().map(|shown| shown.kernel.trim_end().to_owned()),
        launch: shown.as_ref().map(|shown| shown.launch.clone()).unwrap_or_default(),
        same_as: None,
        same_as_number: 0,
        ask: html_of(&posed.ask),
        options: options(&posed),
        hint,
        answer: posed.right_words.clone(),
        explain: html_of(&posed.explain),
        wrong: posed
            .misconceptions()
            .map(|(answer, says)| WrongContent { answer, says: html_of(says) })
            .collect(),
        device: pictured.and_then(|shown| shown.device.clone()),
        figures: figures.collect(),
        comparison: workbench.compare(question)?.map(of_comparison),
    })
}

fn of_figure(name: String, figure: &Figure) -> FigureContent {
    FigureContent {
        name,
        predicted: figure.predicted.map(|quantity| quantity.to_string()),
        known_error: figure.known_error.map(units::percent),
        recorded: figure.recorded.to_string(),
    }
}

fn of_comparison(comparison: Comparison) -> ComparisonContent {
    let row =
        |row: &crate::Compared| of_figure(format!("{}: {}", row.run, row.figure.name), &row.figure);
    ComparisonContent {
        rows: comparison.rows.iter().map(row).collect(),
        device: comparison.device,
        by_model: comparison.by_model,
        caveats: comparison.caveats,
    }
}

fn options(posed: &Posed) -> Vec<OptionContent> {
    let options = posed.options.iter();
    options
        .map(|(name, meaning)| OptionContent {
            name: name.clone(),
            meaning: inline_html_of(meaning),
        })
        .collect()
}

/// Lanes and sectors of the access, its parts named after the question.
fn picture(shown: &Shown, id: &str) -> PictureContent {
    let title = format!("{}, one warp of it", shown.label);
    PictureContent {
        svg: draw::inline_svg(&shown.rules, &shown.access, &title, &format!("{id}-picture")),
        caption: format!("{title}, by the rules of compute capability {}.", shown.arch),
        why: advise::why::explain(&shown.rules, &shown.access).sentence,
    }
}

fn of_exercise(
    workbench: &Workbench<'_>,
    exercise: &Exercise,
) -> Result<ExerciseContent, LabError> {
    let text = |file: &str| workbench.lab.scenarios.get(file).cloned().unwrap_or_default();
    let solution = workbench.scenario(&exercise.solution)?;
    Ok(ExerciseContent {
        ask: html_of(&workbench.render(&exercise.ask)?),
        goals: html_of(&show::goals(exercise)),
        file: file_name(&exercise.start),
        text: text(&exercise.start),
        solution: text(&exercise.solution),
        reached: workbench.judge(&solution)?.reasons,
    })
}

impl Entry {
    pub(super) fn of(lab: &crate::Lab) -> Self {
        Self {
            number: lab.number,
            name: file_name(&lab.name),
            title: lab.document.title.clone(),
            minutes: lab.document.minutes,
            questions: lab.document.question.len(),
        }
    }
}

impl LabContent {
    /// Leaves out the pictures, which tell the answers.
    pub(super) fn without_pictures(mut self) -> Self {
        for question in self.sections.iter_mut().flat_map(|section| &mut section.questions) {
            question.picture = None;
        }
        self
    }

    /// The file that the exercise starts from, and a solution.
    pub(super) fn files(&self) -> Option<(&str, &str, &str)> {
        let exercise = self.exercise.as_ref()?;
        Some((&exercise.file, &exercise.text, &exercise.solution))
    }
}
