//! The run record: one scenario × variant × sweep point, predicted or measured.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use simulator::{Field, Op, OpKind, Space, Totals};

/// The format that this version writes, in [`RunRecord::format`].
pub const FORMAT: &str = "coalescope-run/1";

/// The part of [`FORMAT`] before the version.
const FORMAT_NAME: &str = "coalescope-run";

/// The newest version of the format that this version reads.
const FORMAT_VERSION: u32 = 1;

/// One run. The [crate documentation](crate) lists the fields with their
/// units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`FORMAT`].
    pub format: String,
    /// The scenario's name.
    pub scenario: String,
    /// The variant's name, where the scenario has variants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// All parameters of the run, in the scenario's order.
    #[serde(default)]
    pub params: Map<Value>,
    /// Predicted or measured.
    pub source: Source,
    /// Name of the device or device profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Compute capability: `9.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// Grid, block and resources.
    pub launch: Launch,
    /// State of L2 when the kernel starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheState>,
    /// Where the buffers lie.
    #[serde(default)]
    pub buffers: Vec<Buffer>,
    /// What fixed the buffers' base addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bases: Option<Bases>,
    /// Counts of each access of the kernel.
    #[serde(default)]
    pub accesses: Vec<Access>,
    /// Counts of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<KernelTotals>,
    /// What moved between the levels of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// How long the kernel takes, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Measured: the driver's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Measured: the tools used, by name, with their versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
    /// Measured: the clocks while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocks: Option<Clocks>,
    /// Measured: when, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Measured: every sample of the kernel's time, in seconds, in the order
    /// taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "serialize_finite")]
    pub samples: Vec<f64>,
    /// Measured: how far the samples spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Measured: what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// Measured: whose kernel ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelKind>,
    /// Measured: whether the driver's assembler optimised the kernel (it merges
    /// and moves accesses) or left it as written (its level 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimised: Option<bool>,
    /// Measured: whether a verifying launch of the scenario, at its counting
    /// size, touched and loaded what the host computes; `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// Measured: the device's own speed in the same process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<ReferenceSpeed>,
    /// Measured: the profiler's values as it gave them, by metric name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, Value>,
    /// What a reader must know to judge the figures: `optimised_away`,
    /// throttling, fields that were left out and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why the run has no results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Fields that this version does not know; they are written back as read.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
}

impl RunRecord {
    /// A record of the current format with nothing known but what is given.
    pub fn new(scenario: impl Into<String>, source: Source, launch: Launch) -> Self {
        Self {
            format: FORMAT.to_owned(),
            scenario: scenario.into(),
            variant: None,
            params: Map::default(),
            source,
            device: None,
            arch: None,
            launch,
            cache: None,
            buffers: Vec::new(),
            bases: None,
            accesses: Vec::new(),
            totals: None,
            traffic: None,
            time: None,
            bandwidth: None,
            driver: None,
            tools: BTreeMap::new(),
            clocks: None,
            date: None,
            samples: Vec::new(),
            spread: None,
            part: None,
            kernel: None,
            optimised: None,
            verified: None,
            reference: None,
            counters: BTreeMap::new(),
            warnings: Vec::new(),
            error: None,
            unknown: serde_json::Map::new(),
        }
    }

    /// The version in a `format` field. `Err` with what is wrong where it is
    /// none that this version reads.
    pub(crate) fn check_format(format: &str) -> Result<(), String> {
        let version = format
            .split_once('/')
            .filter(|(name, _)| *name == FORMAT_NAME)
            .and_then(|(_, version)| version.parse::<u32>().ok());
        match version {
            Some(FORMAT_VERSION) => Ok(()),
            Some(version) if version > FORMAT_VERSION => Err(format!(
                "format version {version} is newer than {FORMAT_VERSION}, the newest that this coalescope reads; update it"
            )),
            _ => Err(format!("format is \"{format}\", not \"{FORMAT}\": no run record")),
        }
    }

    /// What names the point in a campaign: two records of the same scenario,
    /// variant, parameters and cache state are of the same point.
    pub fn point(&self) -> String {
        let mut name = self.scenario.clone();
        if let Some(variant) = &self.variant {
            name.push(':');
            name.push_str(variant);
        }
        for (key, value) in self.params.iter() {
            name.push_str(&format!(" {key}={value}"));
        }
        if let Some(cache) = self.cache {
            name.push_str(&format!(" {cache}"));
        }
        name
    }
}

/// Where a record's figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The model.
    Predicted,
    /// A device.
    Measured,
}

/// What a measured record has: the two are taken in different processes, at
/// different sizes where the scenario says so, and so are records of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Samples of the kernel's time.
    Time,
    /// The profiler's counters.
    Counters,
}

impl Part {
    /// The text in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Counters => "counters",
        }
    }
}

/// Whose kernel a measured record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelKind {
    /// Made from the scenario: exactly its accesses.
    Generated,
    /// The scenario's `.cu` file as nvcc compiled it.
    HandWritten,
}

impl KernelKind {
    /// The text in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generated => "generated",
            Self::HandWritten => "hand-written",
        }
    }
}

/// What the device itself did in the process that took the samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReferenceSpeed {
    /// Bytes that each copy from device memory to device memory moved.
    pub copy_bytes: u64,
    /// Bytes read and written by such a copy (`cuMemcpyDtoDAsync`), a second.
    #[serde(default, skip_serializing_if = "unknown")]
    pub copy_bytes_per_s: Option<f64>,
    /// Time between two events around a kernel that does nothing: every sample
    /// has it in it.
    #[serde(default, skip_serializing_if = "unknown")]
    pub launch_overhead_seconds: Option<f64>,
}

/// State of L2 when the kernel starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// Flushed.
    Cold,
    /// As the same kernel's run before left it.
    Warm,
}

impl fmt::Display for CacheState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        })
    }
}

/// What fixed the buffers' base addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bases {
    /// No device: a layout like the driver's.
    Assumed,
    /// The device that ran it.
    Measured,
    /// Taken over from a measured record, to compare with it.
    Given,
}

/// Grid, block and resources of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Blocks on x, y, z.
    pub grid: [u64; 3],
    /// Threads a block on x, y, z.
    pub block: [u32; 3],
    /// Registers a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    /// Shared memory a block, static and dynamic, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_bytes: Option<u64>,
}

/// A buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// Its name in the scenario.
    pub name: String,
    /// Address of its first element's byte 0, `offset_bytes` of the scenario
    /// included.
    pub base: u64,
    /// Its size from `base` on, in bytes.
    pub bytes: u64,
    /// Bytes from one row to the next, where rows are padded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pitch: Option<u64>,
}

/// Shares of the bytes moved that were of use; 1.0 = 100 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Efficiency {
    /// Requested bytes ÷ moved bytes; passes 1 when lanes share addresses.
    #[serde(default, skip_serializing_if = "unknown")]
    pub requested: Option<f64>,
    /// Distinct bytes of each warp ÷ moved bytes; never above 1.
    #[serde(default, skip_serializing_if = "unknown")]
    pub unique: Option<f64>,
}

impl Efficiency {
    /// That of `counts`; `None` where no bytes moved or nobody knows how many.
    pub fn of(counts: &Totals) -> Option<Self> {
        let (requested, unique) = (counts.requested_efficiency(), counts.unique_efficiency());
        (requested.is_some() || unique.is_some()).then_some(Self { requested, unique })
    }
}

/// One access in the kernel's text, with its counts over the launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// Its label in the scenario, or its text.
    pub label: String,
    /// Line in the scenario or .cu file, from 1.
    pub line: Option<u32>,
    /// The operation as `warp` lines name it: `ld`, `st`, `red`, `lds` …
    pub op: String,
    /// `global`, `shared` or `local`.
    pub space: Space,
    /// Bytes a lane.
    pub width: u8,
    /// red, atom: what it does (`add`).
    pub atomic: Option<String>,
    /// The type of its values (`f32`), where it matters to the counts.
    pub value_type: Option<String>,
    /// The counts, summed over all warps.
    pub counts: Totals,
    /// Shares of the bytes moved.
    pub efficiency: Option<Efficiency>,
    /// Of a prediction: which counts are estimated from some of the warps.
    pub sampled: Option<Sampled>,
}

/// Counts that were estimated from some of the warps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// Warps counted.
    pub warps: u64,
    /// Warps that they stand for.
    pub of: u128,
    /// The estimated counts, each with the most that it is off, but for one
    /// case in a thousand.
    pub bounds: BTreeMap<String, u128>,
}

impl Access {
    /// A record of `counts` of the operation `op`, without those that its space
    /// does not have ([`Field::applies_to`]); the efficiencies follow from them.
    pub fn new(
        label: impl Into<String>,
        line: Option<u32>,
        op: Op,
        width: u8,
        mut counts: Totals,
    ) -> Self {
        for field in Field::ALL.into_iter().filter(|field| !field.applies_to(op.space)) {
            counts.set(field, None);
        }
        Self {
            label: label.into(),
            line,
            op: op.name().to_owned(),
            space: op.space,
            width,
            atomic: op.atomic_name().map(str::to_owned),
            value_type: op.is_atomic().then(|| op.type_name(width)).flatten().map(str::to_owned),
            efficiency: Efficiency::of(&counts),
            counts,
            sampled: None,
        }
    }
}

/// Counts of a whole kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelTotals {
    /// Sums over all accesses; see [`Totals::across`].
    pub counts: Totals,
    /// Shares of the bytes moved.
    pub efficiency: Option<Efficiency>,
    /// The same apart for each class of operations, as the profiler's counters
    /// tell them apart.
    pub by_class: BTreeMap<OpClass, Totals>,
}

impl KernelTotals {
    /// The totals of a kernel with these accesses.
    pub fn of<'a>(accesses: impl IntoIterator<Item = (Op, &'a Totals)>) -> Self {
        let parts: Vec<(Op, &Totals)> = accesses.into_iter().collect();
        let counts = Totals::across(parts.iter().map(|&(op, totals)| (op.space, totals)));
        let mut by_class = BTreeMap::<OpClass, Totals>::new();
        for (op, totals) in parts {
            by_class.entry(OpClass::of(op)).or_default().merge(totals);
        }
        Self { efficiency: Efficiency::of(&counts), counts, by_class }
    }
}

/// A class of operations that the profiler counts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpClass {
    /// Loads from global memory.
    GlobalLd,
    /// Stores to global memory.
    GlobalSt,
    /// Atomics on global memory without a result.
    GlobalRed,
    /// Atomics on global memory with a result.
    GlobalAtom,
    /// Asynchronous copies from global to shared memory (`cp.async`, LDGSTS).
    GlobalLdgsts,
    /// Loads from local memory.
    LocalLd,
    /// Stores to local memory.
    LocalSt,
    /// Loads from shared memory.
    SharedLd,
    /// Stores to shared memory.
    SharedSt,
    /// Atomics on shared memory, with and without a result.
    SharedAtom,
}

impl OpClass {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::GlobalLd,
        Self::GlobalSt,
        Self::GlobalRed,
        Self::GlobalAtom,
        Self::GlobalLdgsts,
        Self::LocalLd,
        Self::LocalSt,
        Self::SharedLd,
        Self::SharedSt,
        Self::SharedAtom,
    ];

    /// The class of an operation.
    pub fn of(op: Op) -> Self {
        match (op.space, op.kind) {
            (_, OpKind::AsyncCopy) => Self::GlobalLdgsts,
            (Space::Global, OpKind::Load) => Self::GlobalLd,
            (Space::Global, OpKind::Store) => Self::GlobalSt,
            (Space::Global, OpKind::Reduction(_)) => Self::GlobalRed,
            (Space::Global, OpKind::Atomic(_)) => Self::GlobalAtom,
            (Space::Shared, OpKind::Load) => Self::SharedLd,
            (Space::Shared, OpKind::Store) => Self::SharedSt,
            (Space::Shared, OpKind::Reduction(_) | OpKind::Atomic(_)) => Self::SharedAtom,
            (Space::Local, OpKind::Load) => Self::LocalLd,
            // Local memory has no atomics.
            (Space::Local, _) => Self::LocalSt,
        }
    }

    /// The memory it goes to.
    pub const fn space(self) -> Space {
        match self {
            Self::GlobalLd
            | Self::GlobalSt
            | Self::GlobalRed
            | Self::GlobalAtom
            | Self::GlobalLdgsts => Space::Global,
            Self::LocalLd | Self::LocalSt => Space::Local,
            Self::SharedLd | Self::SharedSt | Self::SharedAtom => Space::Shared,
        }
    }

    /// The name in records and in the metric map: `global_ld`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GlobalLd => "global_ld",
            Self::GlobalSt => "global_st",
            Self::GlobalRed => "global_red",
            Self::GlobalAtom => "global_atom",
            Self::GlobalLdgsts => "global_ldgsts",
            Self::LocalLd => "local_ld",
            Self::LocalSt => "local_st",
            Self::SharedLd => "shared_ld",
            Self::SharedSt => "shared_st",
            Self::SharedAtom => "shared_atom",
        }
    }
}

impl fmt::Display for OpClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What moved between the levels of memory, over the launch. Sectors are of 32
/// bytes on the architectures that have traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Sectors found in L1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1_hit_sectors: Option<u128>,
    /// Sectors read from L2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_read_sectors: Option<u128>,
    /// Sectors written to L2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_write_sectors: Option<u128>,
    /// Sectors of reductions and atomics that go to L2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_atomic_sectors: Option<u128>,
    /// Bytes read from DRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram_read_bytes: Option<u128>,
    /// Bytes written to DRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram_write_bytes: Option<u128>,
    /// Predicted: from which part of the launch, where not from all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledTraffic>,
}

/// The part of a launch that its traffic was simulated from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledTraffic {
    /// One in so many lines.
    pub one_line_in: u32,
    /// Blocks simulated.
    pub blocks: u64,
    /// Blocks of the launch.
    pub of: u64,
    /// Three standard errors of the sectors read from and written to L2, and
    /// what a reduced cache gets wrong.
    pub l2_sectors_deviation: u64,
    /// The same of the bytes read from and written to DRAM.
    pub dram_bytes_deviation: u64,
}

/// How long the kernel takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// Predicted, or the median of the samples.
    #[serde(default, skip_serializing_if = "unknown")]
    pub seconds: Option<f64>,
    /// What it takes at least, by the peak rates of a data sheet; where that is
    /// all that is known of a device, there is no prediction.
    #[serde(default, skip_serializing_if = "unknown")]
    pub at_least_seconds: Option<f64>,
    /// The component that bounds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_by: Option<String>,
    /// The component that would bound it next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// That component's time ÷ the time of the one that bounds.
    #[serde(default, skip_serializing_if = "unknown")]
    pub next_share: Option<f64>,
    /// The model's terms by name, in seconds.
    #[serde(
        default,
        skip_serializing_if = "Map::is_empty",
        serialize_with = "serialize_finite_map"
    )]
    pub components: Map<f64>,
    /// The model's mean relative error on scenarios of this kind; 0.1 = 10 %.
    #[serde(default, skip_serializing_if = "unknown")]
    pub known_error: Option<f64>,
}

/// Bytes a second: bytes of the run ÷ its seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Of requested bytes of global memory.
    #[serde(default, skip_serializing_if = "unknown")]
    pub requested_bytes_per_s: Option<f64>,
    /// Of bytes moved between L1 and L2.
    #[serde(default, skip_serializing_if = "unknown")]
    pub l2_bytes_per_s: Option<f64>,
    /// Of bytes moved between L2 and DRAM, both directions together.
    #[serde(default, skip_serializing_if = "unknown")]
    pub dram_bytes_per_s: Option<f64>,
}

/// Clocks of a device, in hertz.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// The SMs' while it ran (median over the samples).
    #[serde(default, skip_serializing_if = "unknown")]
    pub sm_hz: Option<f64>,
    /// The memory's while it ran.
    #[serde(default, skip_serializing_if = "unknown")]
    pub memory_hz: Option<f64>,
    /// The SMs' highest.
    #[serde(default, skip_serializing_if = "unknown")]
    pub max_sm_hz: Option<f64>,
    /// The memory's highest.
    #[serde(default, skip_serializing_if = "unknown")]
    pub max_memory_hz: Option<f64>,
}

/// How far two samples or more spread, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The fastest.
    pub min_seconds: f64,
    /// A quarter of the samples are at most this.
    pub lower_quartile_seconds: f64,
    /// Three quarters of the samples are at most this.
    pub upper_quartile_seconds: f64,
    /// The slowest.
    pub max_seconds: f64,
}

impl Spread {
    /// That of `samples`; one sample has none. Quartiles interpolate linearly
    /// between samples (definition 7 of Hyndman and Fan, "Sample quantiles in
    /// statistical packages", The American Statistician 50, 1996).
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.len() < 2 {
            return None;
        }
        Some(Self {
            min_seconds: quantile(samples, 0.0)?,
            lower_quartile_seconds: quantile(samples, 0.25)?,
            upper_quartile_seconds: quantile(samples, 0.75)?,
            max_seconds: quantile(samples, 1.0)?,
        })
    }
}

/// The median of `samples`; `None` of none, or where one is no number.
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

/// The value that a share `q` (0..=1) of the samples does not exceed.
fn quantile(samples: &[f64], q: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    if sorted.iter().any(|sample| sample.is_nan()) {
        return None;
    }
    sorted.sort_by(f64::total_cmp);
    let place = q * (sorted.len().checked_sub(1)?) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let (low, high) = (*sorted.get(below)?, *sorted.get(above)?);
    Some(if below == above { low } else { low + (high - low) * place.fract() })
}

/// Whether a number must be left out of JSON, which has no words for infinity
/// and NaN.
fn unknown(value: &Option<f64>) -> bool {
    !value.is_some_and(f64::is_finite)
}

fn serialize_finite<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().filter(|value| value.is_finite()))
}

fn serialize_finite_map<S: Serializer>(
    values: &Map<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(values.iter().filter(|(_, value)| value.is_finite()))
}

/// Names with values, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub struct Map<T>(pub Vec<(String, T)>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Map<T> {
    /// The value of the first entry of that name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T, N: Into<String>> FromIterator<(N, T)> for Map<T> {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(entries: I) -> Self {
        Self(entries.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl<T: Serialize> Serialize for Map<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Map<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Map(entries))
            }
        }
        deserializer.deserialize_map(Entries(std::marker::PhantomData))
    }
}

/// A parameter's or counter's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Real(f64),
    /// Text.
    Text(String),
}

impl Value {
    /// As a real number; `None` for text and truth values.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Integer(n) => Some(*n as f64),
            Self::Real(x) => Some(*x),
            Self::Bool(_) | Self::Text(_) => None,
        }
    }

    /// As a count; `None` for what is negative, not whole, or no number.
    pub fn as_u128(&self) -> Option<u128> {
        match self {
            Self::Integer(n) => u128::try_from(*n).ok(),
            // 2^53: beyond it a double does not tell whole numbers apart.
            Self::Real(x) if x.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(x) => {
                Some(*x as u128)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Real(value) => value.fmt(f),
            Self::Text(value) => f.write_str(value),
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value.into())
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_i128(*value),
            Self::Real(value) if value.is_finite() => serializer.serialize_f64(*value),
            // A profiler may say "nan"; JSON has only text for that.
            Self::Real(value) => serializer.collect_str(value),
            Self::Text(value) => serializer.serialize_str(value),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, true, false or text")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(Value::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(Value::Integer(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(Value::Integer(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(Value::Real(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(Value::Text(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Scalar)
    }
}

/// The text of a space in records.
pub(crate) const fn space_name(space: Space) -> &'static str {
    match space {
        Space::Global => "global",
        Space::Shared => "shared",
        Space::Local => "local",
    }
}

// Access and KernelTotals put their counts beside their other fields. Serde's
// `flatten` would do it, but reads through a buffer that has no integers above
// 64 bits; hence by hand.

impl Serialize for Access {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("label", &self.label)?;
        if let Some(line) = self.line {
            map.serialize_entry("line", &line)?;
        }
        map.serialize_entry("op", &self.op)?;
        map.serialize_entry("space", space_name(self.space))?;
        map.serialize_entry("width", &self.width)?;
        if let Some(atomic) = &self.atomic {
            map.serialize_entry("atomic", atomic)?;
        }
        if let Some(value_type) = &self.value_type {
            map.serialize_entry("type", value_type)?;
        }
        serialize_counts(&mut map, &self.counts)?;
        if let Some(efficiency) = &self.efficiency {
            map.serialize_entry("efficiency", efficiency)?;
        }
        if let Some(sampled) = &self.sampled {
            map.serialize_entry("sampled", sampled)?;
        }
        map.end()
    }
}

impl Serialize for KernelTotals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        serialize_counts(&mut map, &self.counts)?;
        if let Some(efficiency) = &self.efficiency {
            map.serialize_entry("efficiency", efficiency)?;
        }
        if !self.by_class.is_empty() {
            map.serialize_entry("by_class", &ByClass(&self.by_class))?;
        }
        map.end()
    }
}

/// The counts of each class, as an object.
struct ByClass<'a>(&'a BTreeMap<OpClass, Totals>);

impl Serialize for ByClass<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Counts<'a>(&'a Totals);
        impl Serialize for Counts<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                serialize_counts(&mut map, self.0)?;
                map.end()
            }
        }
        serializer.collect_map(self.0.iter().map(|(class, totals)| (class, Counts(totals))))
    }
}

fn serialize_counts<M: SerializeMap>(map: &mut M, counts: &Totals) -> Result<(), M::Error> {
    // Counters may lack the instructions of what they count.
    let uncounted = counts.instructions == 0
        && Field::ALL.into_iter().any(|field| counts.get(field).is_some_and(|count| count > 0));
    if !uncounted {
        map.serialize_entry("instructions", &counts.instructions)?;
    }
    for field in Field::ALL {
        if let Some(value) = counts.get(field) {
            map.serialize_entry(field.name(), &value)?;
        }
    }
    map.serialize_entry("exact", &counts.exact)
}

/// Reads the entry of `key` into `counts`, if it is one of theirs.
fn deserialize_count<'de, A: MapAccess<'de>>(
    key: &str,
    map: &mut A,
    counts: &mut Totals,
) -> Result<bool, A::Error> {
    match (key, Field::from_name(key)) {
        ("instructions", _) => counts.instructions = map.next_value()?,
        ("exact", _) => counts.exact = map.next_value()?,
        (_, Some(field)) => counts.set(field, map.next_value()?),
        _ => return Ok(false),
    }
    Ok(true)
}

impl<'de> Deserialize<'de> for Access {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Access;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an access: an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Access, A::Error> {
                let (mut label, mut line, mut op, mut space, mut width) =
                    (None, None, None, None::<String>, None);
                let (mut atomic, mut value_type, mut efficiency) = (None, None, None);
                let mut sampled = None;
                let mut counts = Totals::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "label" => label = Some(map.next_value()?),
                        "line" => line = map.next_value()?,
                        "op" => op = Some(map.next_value()?),
                        "space" => space = Some(map.next_value()?),
                        "width" => width = Some(map.next_value()?),
                        "atomic" => atomic = map.next_value()?,
                        "type" => value_type = map.next_value()?,
                        "efficiency" => efficiency = map.next_value()?,
                        "sampled" => sampled = map.next_value()?,
                        key if deserialize_count(key, &mut map, &mut counts)? => {}
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                let missing = de::Error::missing_field;
                let space = match space.as_deref() {
                    Some("global") => Space::Global,
                    Some("shared") => Space::Shared,
                    Some("local") => Space::Local,
                    Some(other) => {
                        return Err(de::Error::unknown_variant(
                            other,
                            &["global", "shared", "local"],
                        ));
                    }
                    None => return Err(missing("space")),
                };
                Ok(Access {
                    label: label.ok_or_else(|| missing("label"))?,
                    line,
                    op: op.ok_or_else(|| missing("op"))?,
                    space,
                    width: width.ok_or_else(|| missing("width"))?,
                    atomic,
                    value_type,
                    counts,
                    efficiency,
                    sampled,
                })
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl<'de> Deserialize<'de> for KernelTotals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = KernelTotals;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("totals: an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KernelTotals, A::Error> {
                let mut totals = KernelTotals::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "efficiency" => totals.efficiency = map.next_value()?,
                        "by_class" => totals.by_class = classes(map.next_value()?),
                        key if deserialize_count(key, &mut map, &mut totals.counts)? => {}
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(totals)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// The classes that this version knows.
fn classes(entries: Map<Totals>) -> BTreeMap<OpClass, Totals> {
    let class = |name: &str| OpClass::ALL.into_iter().find(|class| class.name() == name);
    entries.0.into_iter().filter_map(|(name, totals)| Some((class(&name)?, totals))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_interpolate_and_one_sample_has_no_spread() {
        assert_eq!(Spread::of(&[1.0]), None);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[1.0, f64::NAN]), None);
        let spread = Spread::of(&[5.0, 1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((spread.min_seconds, spread.max_seconds), (1.0, 5.0));
        assert_eq!((spread.lower_quartile_seconds, spread.upper_quartile_seconds), (2.0, 4.0));
    }

    #[test]
    fn values_keep_what_they_are() {
        let json = r#"{"a":true,"b":-3,"c":18446744073709551615,"d":0.5,"e":"x"}"#;
        let map: Map<Value> = serde_json::from_str(json).unwrap();
        assert_eq!(map.get("c"), Some(&Value::Integer(u64::MAX.into())));
        assert_eq!(serde_json::to_string(&map).unwrap(), json);
        assert_eq!(map.get("b").and_then(Value::as_u128), None);
        assert_eq!(Value::Real(4096.0).as_u128(), Some(4096));
        assert_eq!(Value::Real(0.5).as_u128(), None);
    }

    #[test]
    fn every_class_is_named_as_serde_names_it() {
        for class in OpClass::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
        assert_eq!(OpClass::of(Op::LOAD), OpClass::GlobalLd);
        assert_eq!(OpClass::of(Op::SHARED_STORE), OpClass::SharedSt);
        assert!(
            OpClass::ALL
                .into_iter()
                .all(|class| class.name().starts_with(space_name(class.space())))
        );
    }

    #[test]
    fn formats_are_told_apart() {
        assert_eq!(RunRecord::check_format(FORMAT), Ok(()));
        assert!(RunRecord::check_format("coalescope-run/2").unwrap_err().contains("newer"));
        assert!(RunRecord::check_format("coalescope-run/0").unwrap_err().contains("no run record"));
        assert!(RunRecord::check_format("likwid/1").unwrap_err().contains("no run record"));
    }
}
