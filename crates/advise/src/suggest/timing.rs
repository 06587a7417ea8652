//! How long a candidate takes on a device that was calibrated.

use model::predict::{Counted, KnownErrors, predict};
use model::{Kind, Profile, traffic};
use record::Time;
use scenario::Run;
use scenario::count::SiteCounts;
use simulator::{Field, RuleSet, Totals};

use crate::sample::Sample;

/// Candidates that share a second or so of simulation.
const TOGETHER: usize = 20;

/// Times nearer to each other than this share of the present layout's are taken
/// as equal, and counts decide: simulating a part of a launch leaves as much
/// open.
const EQUAL: f64 = 0.01;

/// The predicted time of a counted run; `None` where the profile was not
/// measured, or lacks a number.
pub(super) fn time(
    run: &Run,
    rules: &RuleSet,
    bases: &[u64],
    sites: &[SiteCounts],
    profile: &Profile,
) -> Option<Time> {
    if profile.kind != Kind::Measured {
        return None;
    }
    let options = traffic::Options { together: TOGETHER, ..traffic::Options::default() };
    let counted = Counted { run, rules, bases, sites };
    let time = predict(&counted, profile, &options, &KnownErrors::default()).time;
    time.filter(|time| time.seconds.is_some())
}

/// The counts of a launch's accesses, from those of a sample's blocks.
pub(super) fn scaled_sites(run: &Run, sample: &Sample, rules: &RuleSet) -> Vec<SiteCounts> {
    let mut sites = vec![SiteCounts::default(); run.program.sites.len()];
    for issue in &sample.issues {
        sites[issue.site.0].totals.add(&rules.count(&issue.access));
    }
    for site in &mut sites {
        let totals: &mut Totals = &mut site.totals;
        totals.instructions = sample.extent.scale(totals.instructions);
        for field in Field::ALL {
            totals.set(field, totals.get(field).map(|count| sample.extent.scale(count)));
        }
    }
    sites
}

/// A time on a scale on which equal ones are equal: the present layout's is in
/// the middle of its step.
pub(super) fn step(seconds: f64, present: f64) -> i64 {
    ((seconds / present).ln() / EQUAL).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_as_good_as_equal_are_one_step() {
        assert_eq!(step(1.004e-3, 1e-3), 0);
        assert_eq!(step(0.996e-3, 1e-3), 0);
        assert!(step(0.9e-3, 1e-3) < step(0.95e-3, 1e-3));
        assert!(step(2e-3, 1e-3) > 50);
    }
}
