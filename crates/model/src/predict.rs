//! From a counted run and its traffic to what a record says of its time.

use crate::time::{self, Estimate, Missing, Moved};
use crate::{Profile, Workload};
use record::Time;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What ships: see the file's own comment.
const SHIPPED: &str = include_str!("../errors.toml");

/// How far the model's times were found to lie from measured ones, by device
/// profile and family of scenarios.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct KnownErrors(BTreeMap<String, BTreeMap<String, KnownError>>);

/// The error of a family; 0.1 = 10 %.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownError {
    /// Points compared.
    pub n: u64,
    /// Mean of the relative errors.
    pub mean: f64,
    /// The largest of them.
    pub worst: f64,
}

impl KnownErrors {
    /// Reads a table of profiles of families.
    ///
    /// # Errors
    /// What is no such table, in TOML's words.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Those that ship with the program.
    pub fn shipped() -> Self {
        Self::from_toml(SHIPPED).unwrap_or_default()
    }

    /// That of a family on the device of a profile; `None` where it is not yet
    /// known.
    pub fn of(&self, profile: &Profile, family: &str) -> Option<&KnownError> {
        self.0.get(&profile.name)?.get(family)
    }
}

/// How long a run takes, as records say it: `family` is its scenario's name.
/// With a profile from a data sheet there is no prediction, only what it takes
/// at least.
///
/// # Errors
/// What the profile lacks, and a launch that the device would refuse.
pub fn time(
    work: &Workload,
    moved: &Moved,
    profile: &Profile,
    family: &str,
    errors: &KnownErrors,
) -> Result<Time, Missing> {
    let estimate = time::estimate(work, moved, profile)?;
    let known_error = errors.of(profile, family).map(|error| error.mean);
    Ok(record_of(&estimate, known_error))
}

fn record_of(estimate: &Estimate, known_error: Option<f64>) -> Time {
    let parts = estimate.terms.iter().chain(&estimate.overheads);
    let tail = (estimate.tail > 0.0).then_some(("tail", estimate.tail));
    let next = estimate.next();
    let bound = estimate.lower_bound;
    Time {
        seconds: (!bound).then_some(estimate.seconds),
        at_least_seconds: bound.then_some(estimate.seconds),
        bound_by: Some(estimate.bound_by().to_owned()),
        next: next.map(|(name, _)| name.to_owned()),
        next_share: next.map(|(_, share)| share),
        components: parts.map(|part| (part.name, part.seconds)).chain(tail).collect(),
        known_error: known_error.filter(|_| !bound),
    }
}

/// The predicted time by which layouts and changes are ranked: seconds where
/// the profile was measured, `None` where there is only a data sheet or a
/// number is missing. Those who rank then fall back to counts.
pub fn rank_seconds(work: &Workload, moved: &Moved, profile: &Profile) -> Option<f64> {
    let estimate = time::estimate(work, moved, profile).ok()?;
    (!estimate.lower_bound).then_some(estimate.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::profile;
    use crate::{BlockShape, Kind};

    fn work() -> (Workload, Moved) {
        let work = Workload {
            blocks: 1000.0,
            shape: BlockShape { warps: 8, registers: 16, shared_bytes: 0 },
            slots: 1e5,
            ..Workload::default()
        };
        (work, Moved { dram_read_bytes: 1e9, ..Moved::default() })
    }

    #[test]
    fn the_shipped_errors_can_be_read() {
        assert!(KnownErrors::from_toml(SHIPPED).is_ok());
    }

    #[test]
    fn a_known_error_goes_with_its_family_and_device() {
        let errors = "[made-up.copy]\nn = 3\nmean = 0.05\nworst = 0.1\n";
        let errors = KnownErrors::from_toml(errors).expect("errors");
        let (work, moved) = work();
        let of = |family| time(&work, &moved, &profile(), family, &errors).expect("a time");
        assert_eq!(of("copy").known_error, Some(0.05));
        assert_eq!(of("transpose").known_error, None);
        let time = of("copy");
        assert_eq!(time.bound_by.as_deref(), Some("dram_bytes"));
        assert_eq!(time.components.get("dram_bytes"), Some(&(1e9 / 3.8e12)));
        assert!(time.components.get("launch_overhead").is_some());
        assert!(time.next_share.is_some_and(|share| share < 1.0));
    }

    #[test]
    fn a_data_sheet_predicts_nothing() {
        let sheet = Profile { kind: Kind::Specification, ..profile() };
        let (work, moved) = work();
        let time = time(&work, &moved, &sheet, "copy", &KnownErrors::default()).expect("a time");
        assert_eq!((time.seconds, time.at_least_seconds), (None, Some(1e9 / 4e12)));
        assert_eq!(rank_seconds(&work, &moved, &sheet), None);
        assert!(rank_seconds(&work, &moved, &profile()).is_some());
    }
}
