//! Measured records become points, and each point gets its prediction.

use record::{KernelKind, Map, Part, RunRecord, Source, Value};

/// What names a point: two records with the same key are of the same run.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// The scenario.
    pub scenario: String,
    /// Its variant, where it has variants.
    pub variant: Option<String>,
    /// All parameters.
    pub params: Map<Value>,
}

impl Key {
    /// That of a record.
    pub fn of(record: &RunRecord) -> Self {
        Self {
            scenario: record.scenario.clone(),
            variant: record.variant.clone(),
            params: record.params.clone(),
        }
    }

    /// Whether a scenario's run with these parameters is this point. The order
    /// of parameters doesn't matter.
    pub fn is(&self, variant: Option<&str>, params: &Map<Value>) -> bool {
        self.variant.as_deref() == variant
            && self.params.len() == params.len()
            && params.iter().all(|(name, value)| {
                self.params.get(name).is_some_and(|own| same_value(own, value))
            })
    }

    /// A parameter as a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.params.get(name)?.as_f64()
    }
}

/// Whether two records mean the same value. The first campaigns wrote a real
/// parameter as the integer with its bits.
fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Integer(bits), Value::Real(real)) | (Value::Real(real), Value::Integer(bits)) => {
            *bits as f64 == *real || *bits == i128::from(real.to_bits())
        }
        _ => a == b,
    }
}

/// One run, measured and, where it can be, predicted.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its name.
    pub key: Key,
    /// The prediction, with the bases of the measurement.
    pub predicted: Option<RunRecord>,
    /// The record with the device's counters.
    pub counted: Option<RunRecord>,
    /// The record with the device's time.
    pub timed: Option<RunRecord>,
}

impl Point {
    /// The name without the parameters: `transpose:naive`.
    pub fn name(&self) -> String {
        match &self.key.variant {
            Some(variant) => format!("{}:{variant}", self.key.scenario),
            None => self.key.scenario.clone(),
        }
    }

    /// The measured record whose buffers a prediction is made with: that of the
    /// counters, since only counts depend on them.
    pub fn placed(&self) -> Option<&RunRecord> {
        self.counted.as_ref().or(self.timed.as_ref())
    }

    /// Where it was measured.
    pub fn device(&self) -> Option<&str> {
        self.placed()?.device.as_deref()
    }

    /// The compute capability that it was measured on.
    pub fn arch(&self) -> Option<&str> {
        self.placed()?.arch.as_deref()
    }
}

/// How well a record stands for its point; the larger the better. A scenario's
/// accesses are those of the generated kernel: as written for the counters,
/// optimised (as everybody runs kernels) for the time.
fn rank(record: &RunRecord, part: Part) -> u8 {
    let generated = record.kernel != Some(KernelKind::HandWritten);
    let wanted = record.optimised == Some(part == Part::Time);
    2 * u8::from(generated) + u8::from(wanted)
}

/// The points of measured records, in the order in which they first appear.
/// Predictions and records of runs that failed are left out. Of several
/// records for one part of a point the one nearest to the scenario counts (the
/// generated kernel before the hand-written one), of equal ones the last.
pub fn points(records: impl IntoIterator<Item = RunRecord>) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut places: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    for record in records {
        if record.source != Source::Measured || record.error.is_some() {
            continue;
        }
        let part = record.part.unwrap_or(if record.counters.is_empty() {
            Part::Time
        } else {
            Part::Counters
        });
        let place = *places.entry(record.point()).or_insert_with(|| {
            points.push(Point {
                key: Key::of(&record),
                predicted: None,
                counted: None,
                timed: None,
            });
            points.len() - 1
        });
        let Some(point) = points.get_mut(place) else { continue };
        let slot = match part {
            Part::Time => &mut point.timed,
            Part::Counters => &mut point.counted,
        };
        if slot.as_ref().is_none_or(|known| rank(known, part) <= rank(&record, part)) {
            *slot = Some(record);
        }
    }
    points
}

/// What a reader must know before comparing: the profile is of another device
/// than the records, or they are of another architecture than the rules, or of
/// several devices.
pub fn mismatches(points: &[Point], arch: &str, device: Option<&str>) -> Vec<String> {
    let mut devices: Vec<&str> = points.iter().filter_map(Point::device).collect();
    devices.sort_unstable();
    devices.dedup();
    let mut archs: Vec<&str> = points.iter().filter_map(Point::arch).collect();
    archs.sort_unstable();
    archs.dedup();
    let mut found = Vec::new();
    if let Some(device) = device
        && devices.iter().any(|measured| *measured != device)
    {
        found.push(format!(
            "the profile is of {device}, the records of {}: times are compared across devices",
            devices.join(", ")
        ));
    } else if devices.len() > 1 {
        found.push(format!("the records are of several devices: {}", devices.join(", ")));
    }
    if archs.iter().any(|measured| *measured != arch) {
        found.push(format!(
            "predicted for compute capability {arch}, measured on {}: counts may differ by rule",
            archs.join(", ")
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Launch;

    fn measured(part: Part, kernel: KernelKind, optimised: bool) -> RunRecord {
        let mut record = RunRecord::new("copy", Source::Measured, Launch::default());
        record.part = Some(part);
        record.kernel = Some(kernel);
        record.optimised = Some(optimised);
        record
    }

    #[test]
    fn the_generated_kernel_stands_for_the_scenario() {
        let written = measured(Part::Counters, KernelKind::Generated, false);
        let time = measured(Part::Time, KernelKind::Generated, true);
        let records = vec![
            measured(Part::Counters, KernelKind::Generated, true),
            written.clone(),
            measured(Part::Counters, KernelKind::HandWritten, true),
            time.clone(),
            measured(Part::Time, KernelKind::HandWritten, true),
        ];
        let points = points(records);
        assert_eq!(points.len(), 1);
        assert_eq!(points[0].counted, Some(written));
        assert_eq!(points[0].timed, Some(time));
    }

    #[test]
    fn failures_and_predictions_are_no_measurements() {
        let mut failed = measured(Part::Time, KernelKind::Generated, true);
        failed.error = Some("timed out".into());
        let predicted = RunRecord::new("copy", Source::Predicted, Launch::default());
        assert!(points([failed, predicted]).is_empty());
    }

    #[test]
    fn a_real_parameter_may_have_been_written_as_its_bits() {
        let key = |value| Key {
            scenario: "copy".into(),
            variant: None,
            params: [("dt", value)].into_iter().collect(),
        };
        let params: Map<Value> = [("dt", Value::Real(0.01))].into_iter().collect();
        assert!(key(Value::Integer(0.01f64.to_bits().into())).is(None, &params));
        assert!(key(Value::Real(0.01)).is(None, &params));
        assert!(!key(Value::Integer(1)).is(None, &params));
        assert!(!key(Value::Real(0.01)).is(Some("a"), &params));
    }

    #[test]
    fn other_devices_are_named() {
        let mut record = measured(Part::Time, KernelKind::Generated, true);
        record.device = Some("NVIDIA A100".into());
        record.arch = Some("8.0".into());
        let points = points([record]);
        let found = mismatches(&points, "9.0", Some("NVIDIA H200"));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("NVIDIA A100") && found[1].contains("8.0"), "{found:?}");
        assert!(mismatches(&points, "8.0", Some("NVIDIA A100")).is_empty());
        assert!(mismatches(&points, "8.0", None).is_empty());
    }
}
