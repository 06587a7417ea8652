//! Single warps to count, and what was counted.

use std::collections::BTreeMap;

use serde::Deserialize;
use simulator::WARP_LANES;

/// One warp that executes one load, as a `warp` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// `ld` or `lds`.
    pub op: &'static str,
    /// Bytes a lane.
    pub width: u8,
    /// Active lanes.
    pub mask: u32,
    /// Addresses, or offsets in shared memory, of all lanes.
    pub addresses: Vec<u64>,
}

impl Probe {
    /// A load of 4 bytes from global memory, one lane an address.
    pub fn load(addresses: &[u64]) -> Self {
        Self::new("ld", 4, addresses)
    }

    /// A load from shared memory, one lane an offset.
    pub fn shared(width: u8, offsets: &[u64]) -> Self {
        Self::new("lds", width, offsets)
    }

    fn new(op: &'static str, width: u8, addresses: &[u64]) -> Self {
        let mut lanes = addresses.to_vec();
        let lanes_on = lanes.len().min(WARP_LANES);
        lanes.resize(WARP_LANES, addresses.first().copied().unwrap_or(0));
        let mask = if lanes_on == WARP_LANES { u32::MAX } else { (1 << lanes_on) - 1 };
        Self { op, width, mask, addresses: lanes }
    }
}

/// A counted warp; of a line's other fields nothing is needed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Counted {
    /// Number of the line that asked for it, from 1.
    #[serde(default)]
    pub line: usize,
    /// Operation.
    #[serde(default)]
    pub op: String,
    /// Bytes a lane.
    #[serde(default)]
    pub width: u8,
    /// Active lanes.
    #[serde(default)]
    pub mask: u32,
    /// Where the lanes were.
    #[serde(default)]
    pub addresses: Vec<u64>,
    /// What was counted, by our names.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
}

impl Counted {
    /// The warp that was asked for, without counts.
    pub fn of(probe: &Probe) -> Self {
        Self {
            line: 0,
            op: probe.op.to_owned(),
            width: probe.width,
            mask: probe.mask,
            addresses: probe.addresses.clone(),
            counters: BTreeMap::new(),
        }
    }

    /// Reads counted lines; what is none is passed over. They come in the order
    /// of the lines that asked for them, with warps that have no counts where
    /// the line was answered with an error.
    pub fn read(text: &str) -> Vec<Self> {
        let mut counted: Vec<Self> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        counted.sort_by_key(|warp| warp.line);
        counted
    }

    /// Addresses of the active lanes.
    pub fn active_addresses(&self) -> impl Iterator<Item = u64> {
        self.addresses
            .iter()
            .enumerate()
            .filter(|(lane, _)| self.mask.checked_shr(*lane as u32).unwrap_or(0) & 1 == 1)
            .map(|(_, &address)| address)
    }

    /// Tag wavefronts of a load from global memory.
    pub fn tag_wavefronts(&self) -> Option<u64> {
        (self.op == "ld").then(|| self.counters.get("tag_wavefronts").copied()).flatten()
    }

    /// Wavefronts of a load from shared memory.
    pub fn shared_wavefronts(&self) -> Option<u64> {
        (self.op == "lds").then(|| self.counters.get("shared_wavefronts").copied()).flatten()
    }
}

/// The file of `warp` lines that asks for these warps, numbered from 1.
pub fn lines(probes: &[Probe]) -> String {
    let line = |(index, probe): (usize, &Probe)| {
        let Probe { op, width, mask, addresses } = probe;
        let id = index + 1;
        serde_json::json!({"id": id, "op": op, "width": width, "mask": mask, "addresses": addresses})
            .to_string()
            + "\n"
    };
    probes.iter().enumerate().map(line).collect()
}
