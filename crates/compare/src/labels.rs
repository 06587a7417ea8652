//! Short names of points: scenario, variant, and the parameters that vary.

use record::Value;
use std::collections::BTreeMap;

use crate::join::Point;

/// A label for each point: `strided:read stride=2`. A parameter is named only
/// where it differs between points of the same scenario and variant.
pub fn labels(points: &[Point]) -> Vec<String> {
    let mut values: BTreeMap<(String, &str), Vec<&Value>> = BTreeMap::new();
    for point in points {
        for (name, value) in point.key.params.iter() {
            let known = values.entry((point.name(), name)).or_default();
            if !known.contains(&value) {
                known.push(value);
            }
        }
    }
    let varies = |point: &Point, name: &str| {
        values
            .iter()
            .any(|((run, param), known)| *run == point.name() && *param == name && known.len() > 1)
    };
    points
        .iter()
        .map(|point| {
            let mut label = point.name();
            for (name, value) in point.key.params.iter().filter(|(name, _)| varies(point, name)) {
                label.push_str(&format!(" {name}={value}"));
            }
            label
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Launch, RunRecord, Source};

    #[test]
    fn what_does_not_vary_is_not_named() {
        let record = |stride: i64| {
            let mut record = RunRecord::new("strided", Source::Measured, Launch::default());
            record.params =
                [("n", Value::from(4i64)), ("stride", stride.into())].into_iter().collect();
            record.samples = vec![1e-3];
            record
        };
        let points = crate::points([record(1), record(2)]);
        assert_eq!(labels(&points), ["strided stride=1", "strided stride=2"]);
        assert_eq!(labels(&points[..1]), ["strided"]);
    }
}
