//! A lab as it is read from its folder.

use crate::document::{Document, Exercise, Goal, Kind, Numbers, Question};
use crate::error::LabError;
use crate::expression::Expression;
use scenario::Files;
use scenario::source::normalised;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What the paths of shipped files start with, followed by their place in the
/// repository; whoever provides the [`Files`] knows them by it.
pub const SHIPPED: &str = "shipped:";

/// A part of the text under one heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The heading, without its marks.
    pub heading: String,
    /// What stands under it: Markdown, with `{{…}}` for computed figures
    /// ([`Workbench::render`](crate::Workbench::render)).
    pub text: String,
}

/// A lab: all there is to show, in order.
///
/// First the introduction, then each section with the questions that are asked
/// after it ([`Lab::questions_after`]), then the exercise.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The folder's name: `02-stride`.
    pub name: String,
    /// The number that the name starts with; 0 where it starts with none.
    pub number: u32,
    /// The folder.
    pub folder: PathBuf,
    /// Title, numbers, points, questions and exercise.
    pub document: Document,
    /// The text before the first section, Markdown as in [`Section::text`].
    pub introduction: String,
    /// The sections.
    pub sections: Vec<Section>,
    /// Text of the scenario files of the lab's own folder, by name: those that
    /// points, the exercise and its solution name.
    pub scenarios: BTreeMap<String, String>,
}

impl Lab {
    /// Reads the lab in `folder`.
    ///
    /// # Errors
    /// A file that cannot be read, or what is wrong in `lab.toml`: unknown keys,
    /// sections, points and names, questions without what their kind needs, and
    /// answers that are typed in.
    pub fn load(folder: &Path, files: &dyn Files) -> Result<Self, LabError> {
        let read = |name: &str| {
            let path = normalised(&folder.join(name));
            let reason = |reason: String| LabError::Read { path: path.clone(), reason };
            let bytes = files.read(&path).map_err(|error| reason(error.to_string()))?;
            String::from_utf8(bytes).map_err(|_| reason("it is not UTF-8".to_owned()))
        };
        let toml_path = folder.join("lab.toml");
        let document: Document = toml::from_str(&read("lab.toml")?)
            .map_err(|error| LabError::content(&toml_path, error.to_string()))?;
        let (introduction, sections) = sections(&read("text.md")?);
        let name =
            folder.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let number = name
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(0);
        let mut own: BTreeSet<&str> =
            document.point.values().map(|point| point.scenario.as_str()).collect();
        if let Some(exercise) = &document.exercise {
            own.extend([exercise.start.as_str(), exercise.solution.as_str()]);
        }
        let scenarios = own
            .into_iter()
            .filter(|file| !file.contains('/') && !file.starts_with(SHIPPED))
            .map(|file| Ok((file.to_owned(), read(file)?)))
            .collect::<Result<_, LabError>>()?;
        let lab = Self {
            name,
            number,
            folder: folder.to_owned(),
            document,
            introduction,
            sections,
            scenarios,
        };
        match lab.check() {
            Ok(()) => Ok(lab),
            Err(message) => Err(LabError::content(toml_path, message)),
        }
    }

    /// The questions that are asked after a section, in order.
    pub fn questions_after<'a>(
        &'a self,
        section: &'a Section,
    ) -> impl Iterator<Item = &'a Question> {
        self.document.question.iter().filter(|question| question.after == section.heading)
    }

    /// Whether a section stands after the last question, where it draws conclusions.
    pub fn concludes(&self, section: &Section) -> bool {
        let place =
            |heading: &str| self.sections.iter().position(|section| section.heading == heading);
        let last =
            self.document.question.iter().filter_map(|question| place(&question.after)).max();
        last.is_some() && place(&section.heading) > last
    }

    /// Where a scenario of the lab lies: a path from its folder, or
    /// `shipped:NAME` for one of those that ship with the program.
    pub fn path(&self, file: &str) -> PathBuf {
        match file.strip_prefix(SHIPPED) {
            Some(name) => Path::new(SHIPPED).join("scenarios").join(format!("{name}.toml")),
            None => normalised(&self.folder.join(file)),
        }
    }

    fn check(&self) -> Result<(), String> {
        let document = &self.document;
        for (name, numbers) in &document.numbers {
            check_numbers(name, numbers)?;
        }
        for (name, text) in &document.value {
            self.expression(&format!("value.{name}"), text)?;
        }
        for (name, point) in &document.point {
            for (param, setting) in &point.params {
                if let crate::document::Setting::Expression(text) = setting {
                    let place = format!("point.{name}.params.{param}");
                    for used in Expression::parse(text)?.names() {
                        if !document.numbers.contains_key(used) {
                            return Err(format!("{place}: there is no number `{used}`"));
                        }
                    }
                }
            }
        }
        let mut ids = BTreeSet::new();
        for question in &document.question {
            let place = format!("question `{}`", question.id);
            let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if question.id.is_empty() || !question.id.chars().all(bare) {
                return Err(format!("{place}: an id has letters, digits, `-` and `_`"));
            }
            if !ids.insert(&question.id) {
                return Err(format!("{place}: another question has this id"));
            }
            self.check_question(question).map_err(|error| format!("{place}: {error}"))?;
        }
        if let Some(exercise) = &document.exercise {
            check_exercise(exercise).map_err(|error| format!("exercise: {error}"))?;
        }
        Ok(())
    }

    fn check_question(&self, question: &Question) -> Result<(), String> {
        if !self.sections.iter().any(|section| section.heading == question.after) {
            return Err(format!("text.md has no section `{}`", question.after));
        }
        if let Some(point) = &question.show {
            self.point(point)?;
        }
        match question.kind {
            Kind::Number => {
                let Some(expect) = &question.expect else {
                    return Err("a number needs `expect`".to_owned());
                };
                if self.expression("expect", expect)?.names().is_empty() {
                    return Err(
                        "`expect` names nothing that is computed: answers are not typed in"
                            .to_owned(),
                    );
                }
                for wrong in &question.wrong {
                    let bounds: Vec<&String> =
                        [&wrong.value, &wrong.below, &wrong.above].into_iter().flatten().collect();
                    let [bound] = bounds[..] else {
                        return Err(
                            "a wrong answer needs one of `value`, `below` and `above`".to_owned()
                        );
                    };
                    self.expression("wrong", bound)?;
                }
            }
            Kind::Choice => {
                if question.choice.len() < 2 {
                    return Err("a choice needs two `choice` or more".to_owned());
                }
                for choice in &question.choice {
                    if self.expression("holds", &choice.holds)?.names().is_empty() {
                        return Err(
                            "`holds` names nothing that is computed: answers are not typed in"
                                .to_owned(),
                        );
                    }
                }
            }
            Kind::FasterWhich => {
                if question.racer.len() < 2 {
                    return Err("it needs two `racer` or more".to_owned());
                }
                for racer in &question.racer {
                    self.point(&racer.point)?;
                }
            }
        }
        Ok(())
    }

    fn point(&self, name: &str) -> Result<(), String> {
        if self.document.point.contains_key(name) {
            return Ok(());
        }
        Err(format!("there is no point `{name}`"))
    }

    /// A parsed expression whose names are all known.
    fn expression(&self, place: &str, text: &str) -> Result<Expression, String> {
        let parsed = Expression::parse(text).map_err(|error| format!("{place}: {error}"))?;
        for name in parsed.names() {
            match name.split_once(':') {
                Some((point, _)) => {
                    self.point(point.trim()).map_err(|error| format!("{place}: {error}"))?;
                }
                None if self.document.value.contains_key(name)
                    || self.document.numbers.contains_key(name) => {}
                None => {
                    return Err(format!(
                        "{place}: there is no value and no number `{name}`; a metric is written \
                         {{POINT: METRIC}}"
                    ));
                }
            }
        }
        Ok(parsed)
    }
}

fn check_numbers(name: &str, numbers: &Numbers) -> Result<(), String> {
    let range = match (&numbers.of, numbers.from, numbers.to) {
        (Some(list), None, None) => !list.is_empty(),
        (None, Some(from), Some(to)) => from <= to && numbers.step > 0,
        _ => false,
    };
    if range {
        return Ok(());
    }
    Err(format!(
        "`{name}` needs a list `of` numbers, or `from` and `to` (and a positive `step`), to draw from"
    ))
}

fn check_exercise(exercise: &Exercise) -> Result<(), String> {
    for (name, numbers) in &exercise.sizes {
        check_numbers(name, numbers)?;
    }
    if exercise.goal.is_empty() {
        return Err("it needs a `goal`".to_owned());
    }
    for pair in &exercise.pair {
        Expression::parse(&pair.element)?;
    }
    for Goal { what, at_least, at_most, .. } in &exercise.goal {
        let bounds: Vec<&String> = [at_least, at_most].into_iter().flatten().collect();
        let [bound] = bounds[..] else {
            return Err(format!("the goal “{what}” needs one of `at_least` and `at_most`"));
        };
        Expression::parse(bound)?;
    }
    Ok(())
}

/// The text before the first heading of the second level, and the sections.
fn sections(text: &str) -> (String, Vec<Section>) {
    let mut introduction = String::new();
    let mut found: Vec<Section> = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if let Some(heading) = line.strip_prefix("## ").filter(|_| !fenced) {
            found.push(Section { heading: heading.trim().to_owned(), text: String::new() });
            continue;
        }
        let place = match found.last_mut() {
            Some(section) => &mut section.text,
            None => &mut introduction,
        };
        place.push_str(line);
        place.push('\n');
    }
    for section in &mut found {
        section.text = section.text.trim().to_owned();
    }
    (introduction.trim().to_owned(), found)
}

/// The lab folders in `folder`, those with a `lab.toml`, in order of name.
///
/// # Errors
/// A folder that cannot be listed.
pub fn folders(folder: &Path) -> Result<Vec<PathBuf>, LabError> {
    let unreadable = |error: std::io::Error| LabError::Read {
        path: folder.to_owned(),
        reason: error.to_string(),
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.join("lab.toml").is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_divide_the_text_but_not_in_code() {
        let (introduction, found) =
            sections("Hello.\n\n## One\n\ntext\n```c\n## no heading\n```\n## Two\nmore\n");
        assert_eq!(introduction, "Hello.");
        let headings: Vec<&str> = found.iter().map(|section| section.heading.as_str()).collect();
        assert_eq!(headings, ["One", "Two"]);
        assert_eq!(found[0].text, "text\n```c\n## no heading\n```");
    }
}
