//! The recorded runs of a device.

use record::{KernelKind, Part, RunRecord, Value, read_runs};
use scenario::Run;
use std::collections::HashMap;
use std::io::Read;

/// Recorded runs by scenario: those of the kernels that are made from the
/// scenarios, with cold caches.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    times: HashMap<String, Vec<RunRecord>>,
    counters: HashMap<String, Vec<RunRecord>>,
}

impl Campaign {
    /// Reads records, gzipped JSON Lines: those of times and those of counters.
    ///
    /// # Errors
    /// The first line that is no run record, in words.
    pub fn read(times: impl Read, counters: impl Read) -> Result<Self, String> {
        let mut campaign = Self::default();
        for record in all(times)?.into_iter().chain(all(counters)?) {
            if record.kernel != Some(KernelKind::Generated) || record.error.is_some() {
                continue;
            }
            // Counters of the kernel as it is written, not as the assembler
            // changes it.
            let place = match record.part {
                Some(Part::Time) => &mut campaign.times,
                Some(Part::Counters) if record.optimised == Some(false) => &mut campaign.counters,
                _ => continue,
            };
            place.entry(record.scenario.clone()).or_default().push(record);
        }
        Ok(campaign)
    }

    /// The record with the time of a run.
    pub fn time(&self, run: &Run) -> Option<&RunRecord> {
        find(&self.times, run)
    }

    /// The record with the counters of a run.
    pub fn counted(&self, run: &Run) -> Option<&RunRecord> {
        find(&self.counters, run)
    }
}

fn all(gzipped: impl Read) -> Result<Vec<RunRecord>, String> {
    let text = std::io::BufReader::new(flate2::read::GzDecoder::new(gzipped));
    read_runs(text).map(|record| record.map_err(|error| error.to_string())).collect()
}

/// The record of the same scenario, variant and parameters.
fn find<'a>(records: &'a HashMap<String, Vec<RunRecord>>, run: &Run) -> Option<&'a RunRecord> {
    records.get(&run.scenario)?.iter().find(|record| {
        record.variant == run.variant
            && record.params.len() == run.params.len()
            && run
                .params
                .iter()
                .all(|(name, value)| record.params.get(name) == Some(&Value::from(value.value)))
    })
}
