//! Median, spread and outliers of samples.

/// Middle and spread of at least one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Median, in the samples' unit.
    pub median: f64,
    /// Median of the absolute deviations from the median, in the samples'
    /// unit; `None` for a single sample, which has no spread.
    pub median_deviation: Option<f64>,
    /// Smallest sample.
    pub minimum: f64,
    /// Largest sample.
    pub maximum: f64,
}

/// The middle of an ascending list.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// Median and spread; `None` without samples.
pub fn summary(samples: &[f64]) -> Option<Summary> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (&minimum, &maximum) = (sorted.first()?, sorted.last()?);
    let median = middle(&sorted);
    let mut deviations: Vec<f64> = sorted.iter().map(|sample| (sample - median).abs()).collect();
    deviations.sort_by(f64::total_cmp);
    let median_deviation = (samples.len() > 1).then(|| middle(&deviations));
    Some(Summary { median, median_deviation, minimum, maximum })
}

/// Indices of the samples that stand apart: those whose modified Z-score,
/// 0.6745 × |x − median| ÷ MAD, is above 3.5, and which are more than 5 % off
/// the median, since samples that agree to a nanosecond make any other one
/// look far away.
///
/// Source of score and threshold: B. Iglewicz, D. Hoaglin, *How to Detect and
/// Handle Outliers*, ASQC 1993.
pub fn outliers(samples: &[f64]) -> Vec<usize> {
    let Some(Summary { median, median_deviation: Some(deviation), .. }) = summary(samples) else {
        return Vec::new();
    };
    samples
        .iter()
        .enumerate()
        .filter(|(_, sample)| {
            let off = (*sample - median).abs();
            off > 0.05 * median.abs() && 0.6745 * off > 3.5 * deviation
        })
        .map(|(index, _)| index)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_has_no_spread_and_none_have_no_median() {
        assert_eq!(summary(&[]), None);
        let one = summary(&[2.0]).expect("one sample");
        assert_eq!((one.median, one.median_deviation), (2.0, None));
    }

    #[test]
    fn median_and_deviation_by_hand() {
        let odd = summary(&[3.0, 1.0, 2.0, 10.0, 2.5]).expect("samples");
        assert_eq!(odd.median, 2.5);
        // |deviations|: 0.5, 1.5, 0.5, 7.5, 0 → sorted 0, 0.5, 0.5, 1.5, 7.5
        assert_eq!(odd.median_deviation, Some(0.5));
        let even = summary(&[4.0, 1.0, 2.0, 3.0]).expect("samples");
        assert_eq!((even.median, even.median_deviation), (2.5, Some(1.0)));
        assert_eq!((even.minimum, even.maximum), (1.0, 4.0));
    }

    #[test]
    fn only_what_stands_apart_is_an_outlier() {
        let mut samples = vec![100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8];
        assert_eq!(outliers(&samples), Vec::<usize>::new());
        samples.push(130.0);
        assert_eq!(outliers(&samples), [7]);
        // Equal samples: 1 % off is far in units of the deviation, and no
        // outlier.
        assert_eq!(outliers(&[50.0, 50.0, 50.0, 50.0, 50.5]), Vec::<usize>::new());
        assert_eq!(outliers(&[50.0, 50.0, 50.0, 50.0, 60.0]), [4]);
    }
}
