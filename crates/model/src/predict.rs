//! From a counted run to what a record says of its traffic and its time.

use crate::time::{self, Estimate, Missing, Moved};
use crate::traffic::{self, Geometry, SECTOR_BYTES};
use crate::{Kind, Profile, Workload};
use record::{Bandwidth, RunRecord, Time, Traffic};
use scenario::Run;
use scenario::count::SiteCounts;
use scenario::run::Memory;
use serde::Deserialize;
use simulator::{Field, RuleSet, Space};
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

    /// That of a family on the device of a profile. A scenario that is none of
    /// those compared has the error of [`ALL_OTHERS`]. `None` where it is not
    /// yet known.
    pub fn of(&self, profile: &Profile, family: &str) -> Option<&KnownError> {
        let families = self.0.get(&profile.name)?;
        families.get(family).or_else(|| families.get(ALL_OTHERS))
    }
}

/// The name under which [`KnownErrors`] have the error of the families that took
/// no part in making the model: what to expect of any other scenario.
pub const ALL_OTHERS: &str = "*";

/// A run that was counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// The run.
    pub run: &'a Run,
    /// What it was counted by.
    pub rules: &'a RuleSet,
    /// Where its buffers lie.
    pub bases: &'a [u64],
    /// The counts of its accesses.
    pub sites: &'a [SiteCounts],
}

/// What a device profile says of a counted run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// What moves between the levels of memory.
    pub traffic: Option<traffic::Estimate>,
    /// How long it takes.
    pub time: Option<Time>,
    /// Bytes a second, of a time that is predicted.
    pub bandwidth: Option<Bandwidth>,
    /// Why something is absent.
    pub warnings: Vec<String>,
}

impl Prediction {
    /// Puts it into the record of the run.
    pub fn into_record(self, record: &mut RunRecord) {
        record.traffic = self.traffic.map(|estimate| estimate.traffic);
        record.time = self.time;
        record.bandwidth = self.bandwidth;
        record.warnings.extend(self.warnings);
    }
}

/// Predicts traffic and time of a counted run. What can't be told is absent, and
/// a warning says why.
pub fn predict(
    counted: &Counted<'_>,
    profile: &Profile,
    options: &traffic::Options,
    errors: &KnownErrors,
) -> Prediction {
    let mut prediction = Prediction::default();
    let mut warn = |what: &str, why: String| prediction.warnings.push(format!("no {what}: {why}"));
    let run = counted.run;
    if let Some(pinned) = run.buffers.iter().find(|buffer| buffer.memory == Memory::Pinned) {
        let why = format!("`{}` is in the host's memory, which is not modelled", pinned.name);
        warn("traffic and time", why);
        return prediction;
    }
    let work = Workload::of(run, counted.sites, None);
    let registers = work.as_ref().ok().map(|work| work.shape.registers);
    match Geometry::of(profile, &run.launch, run.program.shared_bytes, registers) {
        Err(constant) => warn("traffic", format!("the profile has no `{constant}`")),
        Ok(geometry) => {
            match traffic::traffic(run, counted.bases, counted.rules, &geometry, options) {
                Ok(Some(estimate)) => prediction.traffic = Some(estimate),
                Ok(None) => {
                    let caches = "the caches of this compute capability are not modelled";
                    warn("traffic", caches.to_owned());
                }
                Err(error) => warn("traffic", error.message.to_string()),
            }
        }
    }
    let work = match work {
        Ok(work) => work,
        Err(error) => {
            warn("time", error.message.to_string());
            return prediction;
        }
    };
    let moved = match &prediction.traffic {
        Some(estimate) => Moved::predicted(estimate),
        // What is not known to move does not make a lower bound wrong.
        None if profile.kind == Kind::Specification => Moved::default(),
        None => {
            warn("time", "what the run moves is not known".to_owned());
            return prediction;
        }
    };
    match time(&work, &moved, profile, &run.scenario, errors) {
        Ok(time) => {
            let traffic = prediction.traffic.as_ref().map(|estimate| &estimate.traffic);
            let known = traffic.zip(time.seconds);
            prediction.bandwidth =
                known.map(|(traffic, seconds)| bandwidth(counted, traffic, seconds));
            prediction.time = Some(time);
        }
        Err(missing) => warn("time", missing.to_string()),
    }
    prediction
}

/// Bytes that are requested and moved, a second.
fn bandwidth(counted: &Counted<'_>, traffic: &Traffic, seconds: f64) -> Bandwidth {
    let rate = |bytes: u128| Some(bytes as f64 / seconds).filter(|rate| rate.is_finite());
    let sites = || counted.run.program.sites.iter().zip(counted.sites);
    let requested: Option<u128> = sites()
        .filter(|(site, _)| site.op.space == Space::Global)
        .map(|(_, counts)| counts.totals.get(Field::RequestedBytes))
        .sum();
    let both = |a: Option<u128>, b: Option<u128>| Some(a? + b?);
    let l2 = both(traffic.l2_read_sectors, traffic.l2_write_sectors)
        .map(|sectors| sectors + traffic.l2_atomic_sectors.unwrap_or(0));
    Bandwidth {
        requested_bytes_per_s: requested.and_then(rate),
        l2_bytes_per_s: l2.and_then(|sectors| rate(sectors * u128::from(SECTOR_BYTES))),
        dram_bytes_per_s: both(traffic.dram_read_bytes, traffic.dram_write_bytes).and_then(rate),
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
    use crate::BlockShape;
    use crate::made_up::profile;

    fn work() -> (Workload, Moved) {
        let work = Workload {
            blocks: 1000.0,
            shape: BlockShape { warps: 8, registers: 16, shared_bytes: 0 },
            instructions: 1e5,
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
    fn any_other_scenario_has_the_error_of_the_families_held_out() {
        let errors = "[made-up.copy]\nn = 3\nmean = 0.05\nworst = 0.1\n\
                      [made-up.'*']\nn = 9\nmean = 0.07\nworst = 0.2\n";
        let errors = KnownErrors::from_toml(errors).expect("errors");
        let mean = |family| errors.of(&profile(), family).map(|error| error.mean);
        assert_eq!((mean("copy"), mean("mine")), (Some(0.05), Some(0.07)));
    }

    /// The tests of the command read it from a file, which `COALESCOPE_BLESS=1`
    /// writes anew.
    #[test]
    fn the_made_up_profile_is_that_of_the_commands_tests() {
        let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = top.join("tests/cli/profiles/made-up.toml");
        if std::env::var_os("COALESCOPE_BLESS").is_some_and(|value| value == "1") {
            let comment = "# A made-up device for tests: round numbers, of no GPU. It has every \
                           constant, as if it had been calibrated.\n";
            let text = profile().to_toml().expect("TOML");
            std::fs::write(&path, format!("{comment}{text}")).expect("it can be written");
        }
        let text = std::fs::read_to_string(path).expect("a profile");
        assert_eq!(Profile::from_toml(&text), Ok(profile()));
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
