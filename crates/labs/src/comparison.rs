//! What an answer is made of: recorded times and traffic, each beside what the
//! model predicts.

use crate::document::{Kind, Point, Question, Setting};
use crate::error::LabError;
use crate::expression::Expression;
use crate::metric::{self, Quantity, Unit};
use crate::workbench::{Figure, Side, Workbench};
use record::{Spread, units};
use std::collections::BTreeSet;

/// The recorded figures behind an answer, beside what the model predicts.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The device that recorded them.
    pub device: String,
    /// The figures, in the order in which the question names them.
    pub rows: Vec<Compared>,
    /// The answer as the model alone would have it, in words; none where it does not
    /// predict all that the answer is made of, and of statements.
    pub by_model: Option<String>,
    /// What the figures can't tell: a difference within the noise, or within the
    /// known error. Sentences.
    pub caveats: Vec<String>,
}

/// A figure with the run that it is of.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The run: its name in the question, or its scenario with what sets it apart.
    pub run: String,
    /// The point of the lab.
    pub point: String,
    /// What a record calls the quantity.
    pub metric: String,
    /// Predicted beside recorded.
    pub figure: Figure,
}

/// A run's time with all that limits what it tells.
struct Timed {
    /// Its place among the figures.
    place: usize,
    seconds: f64,
    spread: Option<Spread>,
    known_error: Option<f64>,
}

impl Workbench<'_> {
    /// The recorded figures that a question's answer is made of, each beside what the
    /// model predicts; none where it is made of counts alone.
    ///
    /// # Errors
    /// What cannot be computed.
    pub fn compare(&self, question: &Question) -> Result<Option<Comparison>, LabError> {
        let mut named: Vec<(String, String, Option<&str>)> = Vec::new();
        for racer in &question.racer {
            named.push((racer.point.clone(), "seconds".to_owned(), Some(&racer.name)));
        }
        let mut seen = BTreeSet::new();
        let holds = question.choice.iter().map(|choice| choice.holds.as_str());
        for text in question.expect.as_deref().into_iter().chain(holds) {
            self.recorded_in(text, &mut seen, &mut named)?;
        }
        let mut device = None;
        let mut rows = Vec::new();
        let mut times = Vec::new();
        for (name, metric, racer) in named {
            let point = self.point(&name)?;
            let built = self.built(&name, point)?;
            let (time, _) = self.records(&built);
            let Some(figure) = self.figure_of(&built, metric::in_words(&metric), &metric)? else {
                continue;
            };
            device = device.or_else(|| time.and_then(|record| record.device.clone()));
            let run = match racer {
                Some(racer) => vec![racer.to_owned()],
                None => self.parts_of(&built.run.scenario, point)?,
            };
            if metric == "seconds" {
                times.push(Timed {
                    place: rows.len(),
                    seconds: figure.recorded.value,
                    spread: time.and_then(|record| record.spread),
                    known_error: figure.known_error,
                });
            }
            rows.push((run, name, metric, figure));
        }
        let Some(device) = device else { return Ok(None) };
        let common = shared(rows.iter().map(|(run, ..)| &run[..]));
        let rows: Vec<Compared> = rows
            .into_iter()
            .map(|(run, point, metric, figure)| {
                // All runs may be the same: their last part stays.
                let first = common.min(run.len().saturating_sub(1));
                Compared { run: run[first..].join(", "), point, metric, figure }
            })
            .collect();
        // The device's own copy is what others are held against: nothing predicts it.
        let all = rows
            .iter()
            .all(|row| row.figure.predicted.is_some() || row.metric == metric::YARDSTICK);
        let by_model = if all { self.by_model(question, &rows)? } else { None };
        let name = |timed: &Timed| rows[timed.place].run.as_str();
        let caveats = caveats(times, name);
        Ok(Some(Comparison { device, rows, by_model, caveats }))
    }

    /// Points and quantities of records that an expression names, those in the values
    /// that it names included.
    fn recorded_in(
        &self,
        text: &str,
        seen: &mut BTreeSet<String>,
        found: &mut Vec<(String, String, Option<&str>)>,
    ) -> Result<(), LabError> {
        let parsed = Expression::parse(text).map_err(|error| self.wrong(error))?;
        for name in parsed.names() {
            if !seen.insert(name.clone()) {
                continue;
            }
            match name.split_once(':') {
                Some((point, metric)) => {
                    if let Some(metric) = metric.trim().strip_prefix("record.") {
                        found.push((point.trim().to_owned(), metric.to_owned(), None));
                    }
                }
                None => {
                    if let Some(text) = self.lab.document.value.get(name) {
                        self.recorded_in(text, seen, found)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A point's run in words, what sets it apart last: `strided`, `read`, `stride = 2`.
    fn parts_of(&self, scenario: &str, point: &Point) -> Result<Vec<String>, LabError> {
        let mut parts = vec![scenario.to_owned()];
        parts.extend(point.variant.clone());
        for (name, setting) in &point.params {
            let value = match setting {
                Setting::Number(number) => *number,
                Setting::Expression(text) => self.value(text)? as i64,
            };
            parts.push(format!("{name} = {value}"));
        }
        Ok(parts)
    }

    /// The answer by predictions alone.
    fn by_model(&self, question: &Question, rows: &[Compared]) -> Result<Option<String>, LabError> {
        match question.kind {
            Kind::Choice => Ok(None),
            Kind::Number => {
                let expect = question.expect.as_deref().unwrap_or_default();
                let quantity = self.quantity_by(expect, Side::Predicted)?;
                Ok(Some(match (question.unit.as_str(), quantity.unit) {
                    ("%", _) => Quantity::new(quantity.value, Unit::Share).to_string(),
                    (unit, Unit::Count | Unit::Times) => {
                        let number = Quantity::new(quantity.value, Unit::Count);
                        format!("{number} {unit}").trim_end().to_owned()
                    }
                    (_, _) => quantity.to_string(),
                }))
            }
            Kind::FasterWhich => {
                let predicted = |row: &Compared| row.figure.predicted.map(|time| time.value);
                let mut times: Vec<(&str, f64)> = rows
                    .iter()
                    .filter_map(|row| Some((row.run.as_str(), predicted(row)?)))
                    .collect();
                times.sort_by(|a, b| a.1.total_cmp(&b.1));
                let (Some(fastest), Some(slowest)) = (times.first(), times.last()) else {
                    return Ok(None);
                };
                let factor = slowest.1 / fastest.1;
                let same = question.same_within.is_some_and(|share| factor <= 1.0 + share);
                let best = if same { crate::question::SAME } else { fastest.0 };
                Ok(Some(format!("{best} (slowest ÷ fastest = {factor:.2})")))
            }
        }
    }
}

/// How many of the first parts all runs have in common.
fn shared<'a>(runs: impl Iterator<Item = &'a [String]>) -> usize {
    let first = |a: &'a [String], b: &'a [String]| -> &'a [String] {
        let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        a.split_at(same).0
    };
    runs.reduce(first).map_or(0, <[String]>::len)
}

/// What the two fastest times can't tell; `name` has the words for a run.
fn caveats<'a>(mut times: Vec<Timed>, name: impl Fn(&Timed) -> &'a str) -> Vec<String> {
    times.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let [fastest, next, ..] = &times[..] else { return Vec::new() };
    let mut caveats = Vec::new();
    let apart = next.seconds / fastest.seconds - 1.0;
    let (first, second) = (name(fastest), name(next));
    let between = format!("“{first}” and “{second}” are {} apart", units::percent(apart));
    let overlap = fastest
        .spread
        .zip(next.spread)
        .is_some_and(|(a, b)| a.upper_quartile_seconds >= b.lower_quartile_seconds);
    if overlap {
        caveats.push(format!(
            "{between}, no more than the times of one run lie apart: the recording does not tell \
             which is faster."
        ));
    }
    let known_error = fastest.known_error.into_iter().chain(next.known_error).reduce(f64::max);
    if let Some(error) = known_error.filter(|error| apart < *error) {
        caveats.push(format!(
            "{between}, less than the known error of the predicted times, {}: the model does not \
             tell which is faster.",
            units::percent(error)
        ));
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(timed: &Timed) -> &'static str {
        ["a", "b", "c"][timed.place]
    }

    #[test]
    fn runs_are_told_apart_by_what_they_do_not_share() {
        let run = |parts: &[&str]| -> Vec<String> { parts.iter().map(|p| (*p).into()).collect() };
        let runs = [run(&["s", "read", "n = 1"]), run(&["s", "read", "n = 2"]), run(&["s", "to"])];
        assert_eq!(shared(runs[..2].iter().map(|run| &run[..])), 2);
        assert_eq!(shared(runs.iter().map(|run| &run[..])), 1);
        assert_eq!(shared(std::iter::empty()), 0);
    }

    fn timed(place: usize, seconds: f64, samples: &[f64], known_error: f64) -> Timed {
        Timed { place, seconds, spread: Spread::of(samples), known_error: Some(known_error) }
    }

    #[test]
    fn what_cannot_be_told_is_said_of_the_two_fastest() {
        let slow = || timed(2, 9.0, &[9.0, 9.0], 0.2);
        let of = |a: Timed, b: Timed| caveats(vec![slow(), b, a], named);
        // Samples overlap, and the difference is below the error.
        let both = of(timed(0, 1.0, &[0.9, 1.2], 0.01), timed(1, 1.02, &[1.0, 1.1], 0.05));
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(both[0].starts_with("“a” and “b” are 2") && both[0].contains("recording"));
        assert!(both[1].contains("5 %") && both[1].contains("the model does not tell"), "{both:?}");
        // Apart by more than the noise, by less than the error; and by more than both.
        let one = of(timed(0, 1.0, &[1.0, 1.0], 0.05), timed(1, 1.02, &[1.02, 1.02], 0.01));
        assert!(one.len() == 1 && one[0].contains("the model"), "{one:?}");
        let none = of(timed(0, 1.0, &[1.0, 1.0], 0.05), timed(1, 2.0, &[2.0, 2.0], 0.05));
        assert_eq!(none, Vec::<String>::new());
        assert_eq!(caveats(vec![slow()], named), Vec::<String>::new());
    }
}
