//! Calibration: from micro-benchmarks to a [`Profile`].
//!
//! Each micro-benchmark is a scenario under `calibration/`, whose first lines
//! say which constants it tells; [`suite`] sizes them for a device. Their
//! measured records, and those of single warps ([`hash`], [`banks`]), are all
//! that [`profile`] needs: a pure function, so that anybody can make the profile
//! again from the records.
//!
//! | module | job |
//! |---|---|
//! | [`suite`] | the scenarios, sized |
//! | `measurements` | records → seconds for each unit of work, one for each repeat |
//! | `constants` | those → the profile's constants |
//! | [`least_squares`] | several unknowns from several measurements |
//! | [`hash`], [`banks`] | counted warps → tag banks, data banks |
//! | [`compare`] | two profiles side by side |

pub mod banks;
pub mod compare;
mod constants;
pub mod hash;
pub mod least_squares;
mod measurements;
pub mod probe;
pub mod suite;

use record::RunRecord;
use serde::{Deserialize, Serialize};

use crate::profile::{DataBanks, FORMAT, Kind, Profile, TagBanks};
use hash::TagHash;
use measurements::Measurements;
use probe::{Counted, Probe};

/// A device, as its driver describes it: fields of `coalescope doctor --json`'s
/// description that calibration uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Product name.
    pub name: String,
    /// Compute capability, (major, minor).
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Size of L2, bytes.
    pub l2_bytes: u64,
    /// Highest SM clock, Hz.
    pub sm_clock_hz: u64,
    /// Highest memory clock, Hz.
    pub memory_clock_hz: u64,
    /// Width of the memory bus, bits.
    pub memory_bus_bits: u32,
    /// Most shared memory a block can be given, bytes.
    pub shared_bytes_per_block: u64,
    /// Threads that an SM holds at most.
    #[serde(default)]
    pub threads_per_sm: Option<u32>,
    /// Blocks that an SM holds at most.
    #[serde(default)]
    pub blocks_per_sm: Option<u32>,
    /// 32-bit registers of an SM.
    #[serde(default)]
    pub registers_per_sm: Option<u32>,
    /// Shared memory that the blocks of an SM can have together, bytes.
    #[serde(default)]
    pub shared_bytes_per_sm: Option<u64>,
    /// Shared memory that the driver takes of each block, bytes.
    #[serde(default)]
    pub shared_bytes_reserved: Option<u64>,
    /// Version of the driver.
    #[serde(default)]
    pub driver: Option<String>,
}

/// All that one calibration has recorded.
#[derive(Clone, Debug)]
pub struct Records {
    /// The device.
    pub device: Device,
    /// When it began, RFC 3339.
    pub date: Option<String>,
    /// Records of the suite, times and counters.
    pub runs: Vec<RunRecord>,
    /// Counted warps; empty without a profiler.
    pub warps: Vec<Counted>,
}

/// The warps to count, given those counted so far: those asked for before, in
/// the same order, then new ones. Where none are new, all is counted.
pub fn probes(counted: &[Counted]) -> Vec<Probe> {
    let mut probes = banks::probes();
    let hashed = counted.get(probes.len().min(counted.len())..).unwrap_or_default();
    probes.extend(hash::probes(hashed));
    probes
}

/// The profile of a device from its records. `source` names the records, as a
/// reader will find them.
///
/// What the records do not tell is absent, and the profile's notes say why.
pub fn profile(name: &str, records: &Records, source: &str) -> Profile {
    let (major, minor) = records.device.compute_capability;
    let mut notes = Vec::new();
    let date = records.date.as_deref().unwrap_or("an unknown date");
    let driver = records.device.driver.as_deref().unwrap_or("unknown");
    notes.push(format!("calibrated on {date}, driver {driver}"));
    let tag = tag_banks(&records.warps, source, &mut notes);
    let data = data_banks(&records.warps, source, &mut notes);
    let arch = format!("{major}.{minor}");
    let known = tag.as_ref().map(|tag| tag.hash.clone());
    let masks = known.or_else(|| {
        let rules = simulator::RuleSet::for_arch(&arch)?;
        rules.data().tag.as_ref().map(|tag| tag.hash.clone())
    });
    let measurements = Measurements::new(&records.runs, source);
    let constants = constants::solve(&records.device, &measurements, masks.as_deref(), &mut notes);
    Profile {
        format: FORMAT.to_owned(),
        name: name.to_owned(),
        device: records.device.name.clone(),
        arch,
        kind: Kind::Measured,
        notes,
        tag,
        data,
        constants,
    }
}

fn tag_banks(warps: &[Counted], source: &str, notes: &mut Vec<String>) -> Option<TagBanks> {
    if warps.is_empty() {
        notes.push("tag and data banks: not counted, the rule set's are assumed".to_owned());
        return None;
    }
    match TagHash::recover(warps) {
        Ok(hash) => {
            let (checked, exact) = hash.check(warps);
            Some(TagBanks {
                hash: hash.masks.clone(),
                line_bits: hash.line_bits,
                evidence: hash.evidence as u64,
                checked: checked as u64,
                exact: exact as u64,
                source: format!("{source}: warps"),
            })
        }
        Err(error) => {
            notes.push(format!("tag banks: {error}; the rule set's are assumed"));
            None
        }
    }
}

fn data_banks(warps: &[Counted], source: &str, notes: &mut Vec<String>) -> Option<DataBanks> {
    if warps.is_empty() {
        return None;
    }
    let found = banks::recover(warps);
    if found.is_none() {
        notes.push(
            "data banks: the counts do not tell their number; the rule set's are assumed"
                .to_owned(),
        );
    }
    let (banks, bank_bytes) = found?;
    Some(DataBanks { banks, bank_bytes, source: format!("{source}: warps") })
}
