//! A comparison as JSON Lines and as CSV.

use std::io::{self, Write};

use record::{Map, Value};
use serde::Serialize;

use crate::figures::{Figure, Quantity, figures};
use crate::join::Point;
use crate::split::{Part, Split};
use crate::statistics::{Statistics, Summary};

/// One point with everything that is compared at it: an object of the JSON
/// Lines.
#[derive(Debug, Serialize)]
pub struct Compared<'a> {
    /// The scenario.
    pub scenario: &'a str,
    /// Its variant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<&'a str>,
    /// All parameters.
    pub params: &'a Map<Value>,
    /// Where it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<&'a str>,
    /// What the family was for while the model was made.
    pub part: Part,
    /// The term that bounds the predicted time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_by: Option<&'a str>,
    /// The quantities, in base units.
    pub figures: Vec<Figure>,
}

impl<'a> Compared<'a> {
    /// That of a point.
    pub fn of(point: &'a Point, split: &Split) -> Self {
        Self {
            scenario: &point.key.scenario,
            variant: point.key.variant.as_deref(),
            params: &point.key.params,
            device: point.device(),
            part: split.part(&point.key.scenario),
            bound_by: bound_by(point),
            figures: figures(point),
        }
    }
}

/// The term that bounds the predicted time of a point.
pub fn bound_by(point: &Point) -> Option<&str> {
    point.predicted.as_ref()?.time.as_ref()?.bound_by.as_deref()
}

/// Writes one object a point, one a line.
///
/// # Errors
/// Those of `output`.
pub fn write_json<W: Write>(mut output: W, points: &[Point], split: &Split) -> io::Result<()> {
    for point in points {
        let mut line = serde_json::to_vec(&Compared::of(point, split))?;
        line.push(b'\n');
        output.write_all(&line)?;
    }
    Ok(())
}

/// Writes one row a quantity of a point, in base units, with a header. What is
/// not known is empty.
///
/// # Errors
/// Those of `output`.
pub fn write_csv<W: Write>(output: W, points: &[Point], split: &Split) -> io::Result<()> {
    let mut rows = csv::Writer::from_writer(output);
    rows.write_record([
        "scenario",
        "variant",
        "params",
        "device",
        "part",
        "quantity",
        "predicted",
        "measured",
        "error",
        "noise",
        "within_noise",
        "bound_by",
    ])?;
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for point in points {
        let of = Compared::of(point, split);
        let params: Vec<String> =
            of.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        for figure in &of.figures {
            rows.write_record([
                of.scenario.to_owned(),
                of.variant.unwrap_or_default().to_owned(),
                params.join(" "),
                of.device.unwrap_or_default().to_owned(),
                of.part.to_string(),
                figure.quantity.name().to_owned(),
                number(figure.predicted),
                number(figure.measured),
                number(figure.error),
                number(figure.noise),
                figure.noise.map(|_| figure.is_within_noise().to_string()).unwrap_or_default(),
                of.bound_by.unwrap_or_default().to_owned(),
            ])?;
        }
    }
    rows.flush()
}

/// Writes the errors of the predicted times by family, in the TOML that the model
/// reads known errors from, under a profile's name; `*` has the held-out families
/// together.
///
/// # Errors
/// Those of `output`.
pub fn write_known_errors<W: Write>(
    mut output: W,
    profile: &str,
    statistics: &Statistics,
) -> io::Result<()> {
    let mut write = |family: &str, errors: &Summary| {
        writeln!(
            output,
            "[{profile}.{family}]\nn = {}\nmean = {:.4}\nworst = {:.4}\n",
            errors.n,
            errors.mean,
            errors.worst.abs()
        )
    };
    for row in statistics.families.iter().filter(|row| row.quantity == Quantity::Seconds) {
        if let Some(family) = &row.family {
            write(family, &row.errors)?;
        }
    }
    match statistics.part(Quantity::Seconds, Part::HeldOut) {
        Some(errors) => write("\"*\"", errors),
        None => Ok(()),
    }
}
