//! Predicted beside measured: errors, claims, charts and a report.
//!
//! **What it models.** A [`Point`] is one run (scenario, variant, parameters)
//! with the records that a device gave of it, its counters and its time apart,
//! and the prediction for the addresses at which the device had the buffers.
//! From points follow
//!
//! - [`figures`](fn@figures): each quantity on both sides, with the error and the noise of the
//!   measurement;
//! - [`Statistics`]: errors by quantity, by family and by the part of the
//!   [`Split`] that the family belongs to; trivial models on the same points;
//!   the worst points with the reason, where it is known;
//! - [`Claims`]: what tutorials say, as data, judged by both sides;
//! - [`charts`](fn@charts::charts): pictures whose titles say what the data show, as SVG and PNG;
//! - [`report::html`]: all of it in one file.
//!
//! What is not known is absent everywhere and shown as "—" or "not predicted",
//! never as 0.
//!
//! **What it leaves out.** It predicts nothing and reads no files: the caller
//! brings the records.
//!
//! ```
//! use coalescope_compare::{figure, points, Quantity};
//! use record::{Launch, RunRecord, Source, Time};
//!
//! let time = |seconds| Some(Time { seconds: Some(seconds), ..Time::default() });
//! let mut measured = RunRecord::new("copy", Source::Measured, Launch::default());
//! measured.time = time(100e-6);
//! let mut predicted = RunRecord::new("copy", Source::Predicted, Launch::default());
//! predicted.time = time(104e-6);
//!
//! let mut points = points([measured]);
//! points[0].predicted = Some(predicted);
//! let error = figure(&points[0], Quantity::Seconds).error.unwrap();
//! assert!((error - 0.04).abs() < 1e-12);
//! ```

pub mod charts;
pub mod claims;
pub mod export;
mod figures;
mod join;
pub mod labels;
mod png;
mod reasons;
pub mod report;
mod split;
mod statistics;

pub use claims::{Claims, Judged, Verdict};
pub use figures::{
    Figure, Quantity, SHORTEST_SCORED_SECONDS, Trivial, figure, figures, requested_bytes,
};
pub use join::{Key, Point, mismatches, points};
pub use png::{PngError, png};
pub use reasons::Reasons;
pub use split::{Part, Split};
pub use statistics::{Row, Statistics, Summary, TrivialRow, Worst};
