//! Two profiles side by side.

use crate::profile::{Constant, Profile, Quantity};

/// A constant of two profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'a> {
    /// Which.
    pub constant: Constant,
    /// What each profile says; at least one does.
    pub sides: [Option<&'a Quantity>; 2],
    /// Whether they agree.
    pub verdict: Verdict,
}

/// Whether two numbers agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The intervals value ± spread meet, or the values are equal.
    Agree,
    /// They do not.
    Disagree,
    /// One profile does not have it, or neither has a spread.
    Unknown,
}

impl Verdict {
    /// The word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Disagree => "disagree",
            Self::Unknown => "unknown",
        }
    }
}

impl Row<'_> {
    /// Difference of the second to the first, as a share of the first.
    pub fn difference(&self) -> Option<f64> {
        let [a, b] = self.sides;
        let (a, b) = (a?.value, b?.value);
        (a != 0.0).then(|| (b - a) / a)
    }
}

/// The constants that at least one of the profiles has.
pub fn rows<'a>(a: &'a Profile, b: &'a Profile) -> Vec<Row<'a>> {
    Constant::ALL
        .iter()
        .filter_map(|&constant| {
            let sides = [a.quantity(constant), b.quantity(constant)];
            let verdict = match sides {
                [None, None] => return None,
                [Some(a), Some(b)] => verdict(a, b),
                _ => Verdict::Unknown,
            };
            Some(Row { constant, sides, verdict })
        })
        .collect()
}

fn verdict(a: &Quantity, b: &Quantity) -> Verdict {
    // Equal but for the rounding of a text.
    let apart = (a.value - b.value).abs();
    if apart <= 1e-9 * a.value.abs().max(b.value.abs()) {
        return Verdict::Agree;
    }
    match (a.spread, b.spread) {
        (None, None) => Verdict::Unknown,
        (a, b) if apart <= a.unwrap_or(0.0) + b.unwrap_or(0.0) => Verdict::Agree,
        _ => Verdict::Disagree,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{FORMAT, Kind, Origin};

    fn profile(numbers: &[(Constant, f64, Option<f64>)]) -> Profile {
        let quantity = |constant: Constant, value, spread| Quantity {
            value,
            unit: constant.unit().to_owned(),
            origin: Origin::Measured,
            spread,
            source: "test".to_owned(),
        };
        Profile {
            format: FORMAT.to_owned(),
            name: "test".to_owned(),
            device: "Test".to_owned(),
            arch: "9.0".to_owned(),
            kind: Kind::Measured,
            notes: Vec::new(),
            tag: None,
            data: None,
            constants: numbers.iter().map(|&(c, v, s)| (c, quantity(c, v, s))).collect(),
        }
    }

    #[test]
    fn intervals_that_meet_agree() {
        use Constant::{DataRate, IssueRate, L1Latency, L2Latency, SmCount};
        let a = profile(&[
            (SmCount, 20.0, None),
            (L1Latency, 33.0, Some(0.5)),
            (L2Latency, 200.0, Some(2.0)),
            (IssueRate, 3.0, None),
        ]);
        let b = profile(&[
            (SmCount, 20.0, None),
            (L1Latency, 34.0, Some(0.5)),
            (L2Latency, 210.0, Some(2.0)),
            (IssueRate, 3.1, None),
            (DataRate, 1.0, None),
        ]);
        let verdicts: Vec<_> = rows(&a, &b).iter().map(|row| (row.constant, row.verdict)).collect();
        assert_eq!(
            verdicts,
            [
                (SmCount, Verdict::Agree),
                (L1Latency, Verdict::Agree),
                (L2Latency, Verdict::Disagree),
                (IssueRate, Verdict::Unknown),
                (DataRate, Verdict::Unknown),
            ]
        );
        assert!((rows(&a, &b)[2].difference().expect("both") - 0.05).abs() < 1e-12);
    }
}
