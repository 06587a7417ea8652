//! From records to seconds for each unit of work.
//!
//! A benchmark runs at two lengths. What both runs have in common (launch, ramp,
//! the first pass over a cache) is not in the difference, which is what the
//! additional work takes. Parameters of the scenarios say it all: `length`,
//! `work` and `repeat`.

use std::collections::BTreeMap;

use record::{KernelKind, Part, RunRecord};

/// The records of a calibration.
pub(super) struct Measurements<'a> {
    records: &'a [RunRecord],
    source: &'a str,
}

/// A benchmark at one point: its scenario, variant and swept parameters.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) scenario: &'a str,
    pub(super) variant: Option<&'a str>,
    pub(super) params: &'a [(&'a str, i64)],
}

impl<'a> At<'a> {
    /// A scenario without variants.
    pub(super) const fn scenario(scenario: &'a str) -> Self {
        Self { scenario, variant: None, params: &[] }
    }

    /// Of a variant.
    pub(super) const fn variant(scenario: &'a str, variant: &'a str) -> Self {
        Self { scenario, variant: Some(variant), params: &[] }
    }

    /// At these values of swept parameters.
    pub(super) const fn at(self, params: &'a [(&'a str, i64)]) -> Self {
        Self { params, ..self }
    }

    fn is_of(&self, record: &RunRecord) -> bool {
        record.scenario == self.scenario
            && record.variant.as_deref() == self.variant
            && record.error.is_none()
            && self
                .params
                .iter()
                .all(|&(name, value)| parameter(record, name) == Some(value as f64))
    }
}

/// A parameter of a record.
pub(super) fn parameter(record: &RunRecord, name: &str) -> Option<f64> {
    record.params.get(name)?.as_f64()
}

impl<'a> Measurements<'a> {
    pub(super) fn new(records: &'a [RunRecord], source: &'a str) -> Self {
        Self { records, source }
    }

    /// The record's name, for the profile.
    pub(super) fn source(&self, what: &str) -> String {
        format!("{}: {what}", self.source)
    }

    /// Times of a benchmark.
    pub(super) fn times(&self, at: At<'_>) -> impl Iterator<Item = &'a RunRecord> {
        self.of(at, Part::Time).filter(|record| record.optimised != Some(false))
    }

    /// Counters of a benchmark, as written.
    pub(super) fn counts(&self, at: At<'_>) -> impl Iterator<Item = &'a RunRecord> {
        self.of(at, Part::Counters).filter(|record| record.optimised == Some(false))
    }

    fn of(&self, at: At<'_>, part: Part) -> impl Iterator<Item = &'a RunRecord> {
        self.records.iter().filter(move |record| {
            record.part == Some(part)
                && record.kernel != Some(KernelKind::HandWritten)
                && at.is_of(record)
        })
    }

    /// Seconds for each unit of work, one for each repeat that has a short and
    /// a long run.
    pub(super) fn slopes(&self, at: At<'_>) -> Vec<f64> {
        self.slopes_of(at).into_iter().map(|(slope, _)| slope).collect()
    }

    /// The same, each with the record of its long run.
    pub(super) fn slopes_of(&self, at: At<'_>) -> Vec<(f64, &'a RunRecord)> {
        let mut repeats: BTreeMap<i64, Vec<(f64, f64, &RunRecord)>> = BTreeMap::new();
        for record in self.times(at) {
            let seconds = record.time.as_ref().and_then(|time| time.seconds);
            if let (Some(repeat), Some(work), Some(seconds)) =
                (parameter(record, "repeat"), parameter(record, "work"), seconds)
            {
                repeats.entry(repeat as i64).or_default().push((work, seconds, record));
            }
        }
        repeats
            .into_values()
            .filter_map(|mut runs| {
                runs.sort_by(|a, b| a.0.total_cmp(&b.0));
                let (&(short, short_s, _), &(long, long_s, record)) = (runs.first()?, runs.last()?);
                let slope = (long_s - short_s) / (long - short);
                (slope.is_finite() && slope > 0.0).then_some((slope, record))
            })
            .collect()
    }

    /// The values that a swept parameter takes among a benchmark's records.
    pub(super) fn values(&self, at: At<'_>, name: &str) -> Vec<i64> {
        let mut values: Vec<i64> = self
            .times(at)
            .filter_map(|record| parameter(record, name).map(|value| value as i64))
            .collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    /// All times of the calibration.
    pub(super) fn all_times(&self) -> impl Iterator<Item = &'a RunRecord> {
        self.records.iter().filter(|record| record.part == Some(Part::Time))
    }
}

/// Median, and how far a value lies from it at most; `None` without values. One
/// value has no spread.
pub(super) fn middle(values: &[f64]) -> Option<(f64, Option<f64>)> {
    let median = record::median(values)?;
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some((median, (values.len() > 1).then_some((high - median).max(median - low))))
}
