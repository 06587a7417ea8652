//! The explorer's page: its script, its choices, and the simulator in it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;
use simulator::RuleSet;

/// The parts of the script. They are one script on the page: a page from a file may
/// not load modules.
const PARTS: [&str; 5] = [
    include_str!("../../site/explorer/simulator.js"),
    include_str!("../../site/explorer/state.js"),
    include_str!("../../site/explorer/scenario.js"),
    include_str!("../../site/explorer/picture.js"),
    include_str!("../../site/explorer/page.js"),
];

/// What is counted, by the names of the records, and in words.
const COUNTS: [(&str, &str); 14] = [
    ("unique_efficiency", "Efficiency"),
    ("requested_efficiency", "Efficiency, each lane counted"),
    ("requests", "Requests"),
    ("transactions", "Transactions"),
    ("sectors", "Sectors"),
    ("unique_sectors", "Different sectors"),
    ("tags", "Lines (tag lookups)"),
    ("tag_wavefronts", "Tag wavefronts"),
    ("data_wavefronts", "Data wavefronts"),
    ("bank_conflicts", "Bank conflicts"),
    ("l2_sectors", "Sectors to L2, L1 cold"),
    ("requested_bytes", "Bytes, each lane counted"),
    ("unique_bytes", "Different bytes"),
    ("moved_bytes", "Bytes moved"),
];

#[derive(Clone, Debug, Serialize)]
struct Arch {
    cc: String,
    /// The place of its rule set in the simulator of the page.
    rules: usize,
    name: String,
    evidence: String,
}

#[derive(Clone, Debug, Serialize)]
struct Count {
    name: &'static str,
    words: &'static str,
}

/// The script of the page.
pub(super) fn script() -> String {
    format!("(() => {{\n\"use strict\";\n\n{}}})();\n", PARTS.join("\n"))
}

/// What the page's template names.
pub(super) fn context() -> Value {
    let mut archs = Vec::new();
    for (place, rules) in RuleSet::shipped().enumerate() {
        let data = rules.data();
        for cc in rules.archs() {
            archs.push(Arch {
                cc: cc.clone(),
                rules: place,
                name: data.name.clone(),
                evidence: data.evidence.to_string(),
            });
        }
    }
    let counts = COUNTS.map(|(name, words)| Count { name, words });
    context! {
        archs => Serde(archs),
        counts => Serde(counts),
        base => "0x7000_0000_0000",
        wasm => STANDARD.encode(explorer::WASM),
    }
}
