//! Questions with their answers computed, and the marking of answers.

use crate::document::{Kind, Question};
use crate::error::LabError;
use crate::metric::{Quantity, Unit};
use crate::workbench::Workbench;

/// The answer `same` to which run is the fastest.
pub(crate) const SAME: &str = "same";

/// A question ready to be asked.
#[derive(Clone, Debug)]
pub struct Posed {
    /// What answer files call it.
    pub id: String,
    /// How it is answered.
    pub kind: Kind,
    /// The question, Markdown.
    pub ask: String,
    /// The unit of a number, in words.
    pub unit: String,
    /// What can be chosen: the answer and its meaning.
    pub options: Vec<(String, String)>,
    /// Whether a factor is asked for too.
    pub asks_factor: bool,
    /// The right answer.
    pub right: Right,
    /// The right answer in words.
    pub right_words: String,
    /// Wrong answers and what lies behind them, in the order in which they are
    /// tried.
    wrong: Vec<(Match, String)>,
    /// What is said after the answer, Markdown.
    pub explain: String,
}

/// The right answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Right {
    /// A number, and how far off is still right.
    Number {
        /// The number; for a share in percent.
        value: f64,
        /// The most that an answer may be off.
        within: f64,
    },
    /// One of the options.
    Option(String),
    /// One of the options, with the factor from the slowest to the fastest and
    /// how far off it may be.
    Factor(String, f64, f64),
}

/// Which answers a misconception leads to.
#[derive(Clone, Debug, PartialEq)]
enum Match {
    Number { value: f64, within: f64 },
    Below(f64),
    Above(f64),
    Option(String),
}

/// An answer as it was given.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A number.
    Number(f64),
    /// An option, and perhaps a factor.
    Option(String, Option<f64>),
}

/// What an answer is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Marked {
    /// 1 for a right answer; a half where one part of two is right.
    pub points: f64,
    /// The misconception behind it, where the lab knows one.
    pub misconception: Option<String>,
}

impl Workbench<'_> {
    /// Computes a question's words and answers.
    ///
    /// # Errors
    /// What cannot be computed, a choice of which not exactly one statement
    /// holds, and runs without a recorded time.
    pub fn pose(&self, question: &Question) -> Result<Posed, LabError> {
        let mut posed = Posed {
            id: question.id.clone(),
            kind: question.kind,
            ask: self.render(&question.ask)?,
            unit: question.unit.clone(),
            options: Vec::new(),
            asks_factor: question.factor_within.is_some(),
            right: Right::Option(String::new()),
            right_words: String::new(),
            wrong: Vec::new(),
            explain: self.render(&question.explain)?,
        };
        match question.kind {
            Kind::Number => self.pose_number(question, &mut posed)?,
            Kind::Choice => self.pose_choice(question, &mut posed)?,
            Kind::FasterWhich => self.pose_race(question, &mut posed)?,
        }
        Ok(posed)
    }

    fn pose_number(&self, question: &Question, posed: &mut Posed) -> Result<(), LabError> {
        // Shares are asked for in percent.
        let scale = if question.unit == "%" { 100.0 } else { 1.0 };
        let expect = question.expect.as_deref().unwrap_or_default();
        let quantity = self.quantity(expect)?;
        let value = quantity.value * scale;
        let within = match question.tolerance.as_deref() {
            None => 0.0,
            Some(text) => match text.trim().strip_suffix('%') {
                Some(share) => {
                    let share: f64 = share.trim().parse().map_err(|_| {
                        self.wrong(format!("question `{}`: tolerance: {text}", question.id))
                    })?;
                    value.abs() * share / 100.0
                }
                None => self.value(text)?,
            },
        };
        // Rounding of a computed figure is no error of the student's.
        let within = within.max(value.abs() * 1e-9);
        posed.right = Right::Number { value, within };
        posed.right_words = match (question.unit.as_str(), quantity.unit) {
            ("%", _) => Quantity::new(quantity.value, Unit::Share).to_string(),
            (unit, Unit::Count | Unit::Times) => {
                format!("{} {unit}", Quantity::new(value, Unit::Count)).trim_end().to_owned()
            }
            (_, _) => quantity.to_string(),
        };
        for wrong in &question.wrong {
            let of = |text: &Option<String>| {
                text.as_deref().map(|text| Ok(self.value(text)? * scale)).transpose()
            };
            let matched = match (of(&wrong.value)?, of(&wrong.below)?, of(&wrong.above)?) {
                (Some(value), ..) => {
                    Match::Number { value, within: within.min(value.abs() * 0.02) }
                }
                (_, Some(bound), _) => Match::Below(bound),
                (_, _, Some(bound)) => Match::Above(bound),
                // `Lab::load` has checked that there is one.
                (None, None, None) => continue,
            };
            posed.wrong.push((matched, self.render(&wrong.says)?));
        }
        Ok(())
    }

    fn pose_choice(&self, question: &Question, posed: &mut Posed) -> Result<(), LabError> {
        let mut right = Vec::new();
        for (letter, choice) in ('a'..='z').zip(&question.choice) {
            let letter = letter.to_string();
            let text = self.render(&choice.text)?;
            if self.value(&choice.holds)? != 0.0 {
                right.push((letter.clone(), text.clone()));
            } else if !choice.says.is_empty() {
                posed.wrong.push((Match::Option(letter.clone()), self.render(&choice.says)?));
            }
            posed.options.push((letter, text));
        }
        let [(letter, text)] = &right[..] else {
            return Err(self.wrong(format!(
                "question `{}`: {} of its statements hold; exactly one must",
                question.id,
                right.len()
            )));
        };
        posed.right = Right::Option(letter.clone());
        posed.right_words = format!("{letter}: {text}");
        Ok(())
    }

    fn pose_race(&self, question: &Question, posed: &mut Posed) -> Result<(), LabError> {
        let mut times = Vec::new();
        for racer in &question.racer {
            let seconds = self.value(&format!("{{{}: record.seconds}}", racer.point))?;
            let shown = Quantity::new(seconds, Unit::Seconds).to_string();
            posed.options.push((racer.name.clone(), String::new()));
            times.push((racer, seconds, shown));
        }
        times.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (Some(fastest), Some(slowest)) = (times.first(), times.last()) else { return Ok(()) };
        let factor = slowest.1 / fastest.1;
        let same = question.same_within.is_some_and(|share| factor <= 1.0 + share);
        if question.same_within.is_some() {
            posed.options.push((SAME.to_owned(), "no difference worth naming".to_owned()));
        }
        let best = if same { SAME.to_owned() } else { fastest.0.name.clone() };
        posed.right = match question.factor_within {
            Some(within) if !same => Right::Factor(best.clone(), factor, factor * within),
            _ => Right::Option(best.clone()),
        };
        posed.asks_factor = matches!(posed.right, Right::Factor(..));
        let all: Vec<String> =
            times.iter().map(|(racer, _, shown)| format!("{} {shown}", racer.name)).collect();
        posed.right_words = format!("{best} ({}; slowest ÷ fastest = {factor:.2})", all.join(", "));
        for (racer, ..) in &times {
            if racer.name != best && !racer.says.is_empty() {
                posed.wrong.push((Match::Option(racer.name.clone()), self.render(&racer.says)?));
            }
        }
        if let Some(says) = question.same_says.as_deref().filter(|_| !same) {
            posed.wrong.push((Match::Option(SAME.to_owned()), self.render(says)?));
        }
        Ok(())
    }
}

impl Posed {
    /// Reads an answer as it is typed: a number (`8`, `12.5 %`), an option's name, an
    /// option and a factor (`padded 6.5`).
    ///
    /// # Errors
    /// What is expected, in words.
    pub fn read(&self, text: &str) -> Result<Answer, String> {
        let text = text.trim().trim_end_matches('.');
        if self.kind == Kind::Number {
            return number(text)
                .map(Answer::Number)
                .ok_or_else(|| format!("`{text}` is no number"));
        }
        // A factor, where there is one, is the last word.
        let (name, factor) = match text.rsplit_once(char::is_whitespace) {
            Some((name, last)) if self.asks_factor => match factor(last) {
                Some(factor) => (name.trim(), Some(factor)),
                None => (text, None),
            },
            _ => (text, None),
        };
        let lower = name.to_lowercase();
        match self.options.iter().find(|(option, _)| option.to_lowercase() == lower) {
            Some((option, _)) => Ok(Answer::Option(option.clone(), factor)),
            None => {
                let names: Vec<&str> =
                    self.options.iter().map(|(option, _)| option.as_str()).collect();
                Err(format!("`{text}` is none of {}", names.join(", ")))
            }
        }
    }

    /// Marks an answer.
    pub fn mark(&self, answer: &Answer) -> Marked {
        let points = match (&self.right, answer) {
            (Right::Number { value, within }, Answer::Number(given)) => {
                points((given - value).abs() <= *within)
            }
            (Right::Option(right), Answer::Option(given, _)) => points(right == given),
            (Right::Factor(right, factor, within), Answer::Option(given, said)) => {
                let close = said.is_some_and(|said| (said - factor).abs() <= *within);
                // The factor of the wrong one is worth nothing.
                if right == given { points(true) * if close { 1.0 } else { 0.5 } } else { 0.0 }
            }
            _ => 0.0,
        };
        let misconception = (points == 0.0)
            .then(|| self.wrong.iter().find(|(matched, _)| matched.takes(answer)))
            .flatten()
            .map(|(_, says)| says.clone());
        Marked { points, misconception }
    }

    /// How far off a number may be, in words, where that is more than nothing.
    pub fn leeway(&self) -> Option<String> {
        match self.right {
            Right::Number { value, within } if within > value.abs() * 1e-6 => {
                Some(Quantity::new(within, Unit::Count).to_string())
            }
            _ => None,
        }
    }

    /// Whether an answer is the right number itself, as it is shown.
    pub fn hits(&self, answer: &Answer) -> bool {
        match (&self.right, answer) {
            (Right::Number { value, .. }, Answer::Number(given)) => {
                (given - value).abs() <= value.abs() * 0.02
            }
            _ => true,
        }
    }

    /// A right answer as it can be typed.
    pub fn right_answer(&self) -> String {
        match &self.right {
            Right::Number { value, .. } => value.to_string(),
            Right::Option(name) => name.clone(),
            Right::Factor(name, factor, _) => format!("{name} {factor}"),
        }
    }

    /// For each misconception the answers that it leads to, in words, with its text.
    pub fn misconceptions(&self) -> impl Iterator<Item = (String, &str)> {
        let number = |value: f64| {
            let number = Quantity::new(value, Unit::Count);
            format!("{number} {}", self.unit).trim_end().to_owned()
        };
        self.wrong.iter().map(move |(matched, says)| {
            let answer = match matched {
                Match::Number { value, .. } => number(*value),
                Match::Below(bound) => format!("less than {}", number(*bound)),
                Match::Above(bound) => format!("more than {}", number(*bound)),
                Match::Option(name) => name.clone(),
            };
            (answer, says.as_str())
        })
    }

    /// For each misconception an answer that shows it, with its text.
    pub fn wrong_answers(&self) -> impl Iterator<Item = (String, &str)> {
        self.wrong.iter().map(|(matched, says)| {
            let answer = match matched {
                Match::Number { value, .. } => value.to_string(),
                Match::Below(bound) => (bound - bound.abs() * 0.03 - 0.01).to_string(),
                Match::Above(bound) => (bound + bound.abs() * 0.03 + 0.01).to_string(),
                Match::Option(name) => name.clone(),
            };
            (answer, says.as_str())
        })
    }
}

impl Match {
    fn takes(&self, answer: &Answer) -> bool {
        match (self, answer) {
            (Self::Number { value, within }, Answer::Number(given)) => {
                (given - value).abs() <= within.max(value.abs() * 1e-9)
            }
            (Self::Below(bound), Answer::Number(given)) => given < bound,
            (Self::Above(bound), Answer::Number(given)) => given > bound,
            (Self::Option(name), Answer::Option(given, _)) => name == given,
            _ => false,
        }
    }
}

fn points(right: bool) -> f64 {
    if right { 1.0 } else { 0.0 }
}

/// A number as people write it: digits grouped by commas, or a comma before the
/// decimals; a percent sign after it.
fn number(text: &str) -> Option<f64> {
    let plain = text.trim_end_matches('%').trim().replace('_', "");
    let mut groups = plain.split('.').next().unwrap_or_default().split(',').skip(1).peekable();
    let is_grouped = groups.peek().is_some() && groups.all(|group| group.len() == 3);
    let plain = match plain.matches(',').count() {
        _ if is_grouped => plain.replace(',', ""),
        1 if !plain.contains('.') => plain.replace(',', "."),
        _ => plain,
    };
    plain.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A factor: `6.5`, `6.5x`, `×6.5`.
fn factor(text: &str) -> Option<f64> {
    number(text.trim_matches(['x', '×']))
}
