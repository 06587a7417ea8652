//! The charts: what is in each, and the finding that its title states.
//!
//! Each has a model (line or hollow mark), the device (filled points with the
//! quartiles of the samples) and, where a peak is known, the trivial models
//! (faint and dashed). What is not predicted is not drawn, and the chart says
//! so.

mod axis;
mod bandwidth;
mod canvas;
mod compared;
mod plot;
mod rows;

use crate::join::Point;
use crate::split::{Part, Split};

pub use canvas::ChartError;
pub(crate) use canvas::{BOLD, FONT, escape};

/// A drawn chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// Name of its file, without the ending.
    pub name: &'static str,
    /// The finding, as its title states it.
    pub title: String,
    /// The picture: self-contained, on white.
    pub svg: String,
}

/// What all charts are drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Material<'a> {
    /// The points.
    pub points: &'a [Point],
    /// Their names.
    pub labels: &'a [String],
    /// Which families judge the model.
    pub split: &'a Split,
    /// The device's DRAM bandwidth in bytes a second, for the trivial models.
    pub peak: Option<f64>,
}

impl Material<'_> {
    /// The part of a family.
    pub(crate) fn part(&self, scenario: &str) -> Part {
        self.split.part(scenario)
    }
}

/// All charts that the points have data for.
///
/// # Errors
/// [`ChartError`]: none is known that input can cause.
pub fn charts(material: &Material<'_>) -> Result<Vec<Chart>, ChartError> {
    let all = [
        bandwidth::stride(material)?,
        bandwidth::offset(material)?,
        bandwidth::window(material)?,
        bandwidth::widths(material)?,
        bandwidth::transposes(material)?,
        bandwidth::layouts(material)?,
        bandwidth::pitch(material)?,
        compared::predicted_against_measured(material)?,
        compared::error_by_counter(material)?,
        compared::traffic_by_level(material)?,
    ];
    Ok(all.into_iter().flatten().collect())
}
