//! Errors over many points.

use serde::Serialize;

use crate::figures::{Figure, Quantity, Trivial, figure};
use crate::join::Point;
use crate::reasons::Reasons;
use crate::split::{Part, Split};

/// The errors of one quantity over some points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Points with both sides.
    pub n: usize,
    /// Mean of the errors' magnitudes.
    pub mean: f64,
    /// The error of the largest magnitude, with its sign.
    pub worst: f64,
    /// Where that is.
    pub worst_point: String,
    /// Points where the prediction is too high.
    pub over: usize,
    /// Points where it is too low.
    pub under: usize,
    /// Points within 1 %.
    pub within_1_percent: usize,
    /// Points within 10 %.
    pub within_10_percent: usize,
    /// Points where the difference is smaller than the noise of the
    /// measurement.
    pub within_noise: usize,
}

impl Summary {
    /// That of errors with the names of their points; `None` of none.
    fn of(errors: &[(f64, bool, String)]) -> Option<Self> {
        let (worst, _, worst_point) =
            errors.iter().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))?;
        let count = |holds: &dyn Fn(f64) -> bool| errors.iter().filter(|e| holds(e.0)).count();
        Some(Self {
            n: errors.len(),
            mean: errors.iter().map(|(error, ..)| error.abs()).sum::<f64>() / errors.len() as f64,
            worst: *worst,
            worst_point: worst_point.clone(),
            over: count(&|error| error > 0.0),
            under: count(&|error| error < 0.0),
            within_1_percent: count(&|error| error.abs() <= 0.01),
            within_10_percent: count(&|error| error.abs() <= 0.1),
            within_noise: errors.iter().filter(|(_, noise, _)| *noise).count(),
        })
    }
}

/// The errors of one quantity in one part of the split, or in one family.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which quantity.
    pub quantity: Quantity,
    /// The family; absent: all of the part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// The part of the split.
    pub part: Part,
    /// Their errors.
    pub errors: Summary,
}

/// The errors of one trivial model of the time in one part of the split, or in
/// one family.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrivialRow {
    /// Which; absent: coalescope's own model, on the same points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Trivial>,
    /// The family; absent: all of the part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// The part of the split.
    pub part: Part,
    /// Their errors.
    pub errors: Summary,
}

/// A point and how far off it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worst {
    /// The point's scenario, variant and parameters.
    pub point: String,
    /// The part of the split.
    pub part: Part,
    /// What is off.
    pub figure: Figure,
    /// Why, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Everything that is said of many points together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// By quantity and part.
    pub parts: Vec<Row>,
    /// By quantity and family.
    pub families: Vec<Row>,
    /// Trivial models of the time beside ours, where a peak is given: by part.
    pub trivial: Vec<TrivialRow>,
    /// The same by family.
    pub trivial_families: Vec<TrivialRow>,
    /// The ten worst points, of those that differ by more than the noise:
    /// times where there are any, else traffic, else counts.
    pub worst: Vec<Worst>,
}

/// How many points the list of the worst has.
const WORST: usize = 10;

impl Statistics {
    /// Those of `points`. `labels` are their names, `peak` the device's DRAM
    /// bandwidth in bytes a second, for the trivial models.
    pub fn of(
        points: &[Point],
        labels: &[String],
        split: &Split,
        reasons: &Reasons,
        peak: Option<f64>,
    ) -> Self {
        let mut statistics = Self::default();
        let named = || points.iter().zip(labels);
        let mut families: Vec<&str> =
            points.iter().map(|point| point.key.scenario.as_str()).collect();
        families.sort_unstable();
        families.dedup();
        for quantity in Quantity::ALL {
            let scored: Vec<(&Point, &String, Figure)> = named()
                .map(|(point, label)| (point, label, figure(point, quantity)))
                .filter(|(.., figure)| figure.is_scored())
                .collect();
            let errors = |keep: &dyn Fn(&str) -> bool| -> Vec<(f64, bool, String)> {
                scored
                    .iter()
                    .filter(|(point, ..)| keep(&point.key.scenario))
                    .filter_map(|(_, label, figure)| {
                        Some((figure.error?, figure.is_within_noise(), (*label).clone()))
                    })
                    .collect()
            };
            for part in Part::ALL {
                let of_part = errors(&|family| split.part(family) == part);
                if let Some(errors) = Summary::of(&of_part) {
                    statistics.parts.push(Row { quantity, family: None, part, errors });
                }
            }
            for &family in &families {
                if let Some(errors) = Summary::of(&errors(&|name| name == family)) {
                    let (part, family) = (split.part(family), Some(family.to_owned()));
                    statistics.families.push(Row { quantity, family, part, errors });
                }
            }
        }
        if let Some(peak) = peak {
            let timed = timed(points, labels, peak);
            for part in Part::ALL {
                let rows = trivial(&timed, |point| split.part(&point.key.scenario) == part);
                let row = |(model, errors)| TrivialRow { model, family: None, part, errors };
                statistics.trivial.extend(rows.map(row));
            }
            for &family in &families {
                let rows = trivial(&timed, |point| point.key.scenario == family);
                let part = split.part(family);
                let name = || Some(family.to_owned());
                let row = |(model, errors)| TrivialRow { model, family: name(), part, errors };
                statistics.trivial_families.extend(rows.map(row));
            }
        }
        statistics.worst = worst(points, labels, split, reasons);
        statistics
    }

    /// The errors of a quantity in a part.
    pub fn part(&self, quantity: Quantity, part: Part) -> Option<&Summary> {
        let found = self.parts.iter().find(|row| row.quantity == quantity && row.part == part);
        found.map(|row| &row.errors)
    }
}

/// A point with its name, and the errors of the trivial models and of ours, the
/// last.
type Timed<'a> = (&'a Point, &'a String, [f64; Trivial::ALL.len() + 1]);

/// The points that all trivial models and ours can time.
fn timed<'a>(points: &'a [Point], labels: &'a [String], peak: f64) -> Vec<Timed<'a>> {
    let of = |(point, label): (&'a Point, &'a String)| {
        let time = figure(point, Quantity::Seconds);
        let measured = time.measured.filter(|_| time.is_scored())?;
        let error = |predicted: f64| predicted / measured - 1.0;
        let mut errors = [error(time.predicted?); Trivial::ALL.len() + 1];
        for (slot, model) in errors.iter_mut().zip(Trivial::ALL) {
            *slot = error(model.seconds(point, peak)?);
        }
        Some((point, label, errors))
    };
    points.iter().zip(labels).filter_map(of).collect()
}

/// The errors of the trivial models, and of ours, on some of the points.
fn trivial(
    timed: &[Timed<'_>],
    keep: impl Fn(&Point) -> bool,
) -> impl Iterator<Item = (Option<Trivial>, Summary)> {
    let models = Trivial::ALL.into_iter().map(Some).chain([None]);
    models.enumerate().filter_map(move |(at, model)| {
        let kept = timed.iter().filter(|(point, ..)| keep(point));
        let errors: Vec<(f64, bool, String)> =
            kept.map(|(_, label, errors)| (errors[at], false, (*label).clone())).collect();
        Some((model, Summary::of(&errors)?))
    })
}

fn worst(points: &[Point], labels: &[String], split: &Split, reasons: &Reasons) -> Vec<Worst> {
    let of = |quantities: &[Quantity]| -> Vec<Worst> {
        let mut found: Vec<Worst> = points
            .iter()
            .zip(labels)
            .flat_map(|(point, label)| {
                quantities.iter().filter_map(move |&quantity| {
                    let figure = figure(point, quantity);
                    let differs = figure.error.is_some_and(|error| error != 0.0);
                    (differs && figure.is_scored() && !figure.is_within_noise()).then(|| Worst {
                        point: label.clone(),
                        part: split.part(&point.key.scenario),
                        reason: reasons.of(point, quantity),
                        figure,
                    })
                })
            })
            .collect();
        let size = |worst: &Worst| worst.figure.error.map_or(0.0, f64::abs);
        found.sort_by(|a, b| size(b).total_cmp(&size(a)));
        found.truncate(WORST);
        found
    };
    let levels: [&[Quantity]; 3] = [
        &[Quantity::Seconds],
        &[Quantity::L2Sectors, Quantity::DramBytes],
        &[
            Quantity::Instructions,
            Quantity::Requests,
            Quantity::Sectors,
            Quantity::Tags,
            Quantity::DataWavefronts,
            Quantity::UniqueBytes,
            Quantity::TagWavefronts,
        ],
    ];
    levels.into_iter().map(of).find(|found| !found.is_empty()).unwrap_or_default()
}
