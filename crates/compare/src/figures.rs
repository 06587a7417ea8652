//! What is compared at a point: counters, traffic, time.

use record::{Level, Metric, MetricMap, OpClass, RunRecord};
use serde::Serialize;
use simulator::{Field, Totals};

use crate::join::Point;

/// Kernels that take less are left out of the statistics of time: between two
/// events they spread by tens of percent.
pub const SHORTEST_SCORED_SECONDS: f64 = 30e-6;

/// Traffic is judged against at least this share of the L2 sectors, so that a
/// few stray sectors in a kernel that moves none don't count as infinite error.
const LEAST_SHARE: f64 = 0.01;

/// A quantity that both sides have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Warp instructions.
    Instructions,
    /// Requests to L1.
    Requests,
    /// Sectors of the requests (of atomics each once).
    Sectors,
    /// Tag lookups.
    Tags,
    /// Passes through the tag stage, with the device's arbitration between
    /// warps.
    TagWavefronts,
    /// Passes through the data stage of shared memory.
    DataWavefronts,
    /// Distinct bytes asked for.
    UniqueBytes,
    /// Sectors found in L1.
    L1HitSectors,
    /// Sectors between L1 and L2: reads, writes and atomics.
    L2Sectors,
    /// Bytes read from DRAM.
    DramReadBytes,
    /// Bytes written to DRAM.
    DramWriteBytes,
    /// Both.
    DramBytes,
    /// The kernel's time.
    Seconds,
}

impl Quantity {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 13] = [
        Self::Instructions,
        Self::Requests,
        Self::Sectors,
        Self::Tags,
        Self::TagWavefronts,
        Self::DataWavefronts,
        Self::UniqueBytes,
        Self::L1HitSectors,
        Self::L2Sectors,
        Self::DramReadBytes,
        Self::DramWriteBytes,
        Self::DramBytes,
        Self::Seconds,
    ];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Requests => "requests",
            Self::Sectors => "sectors",
            Self::Tags => "tags",
            Self::TagWavefronts => "tag wavefronts",
            Self::DataWavefronts => "shared wavefronts",
            Self::UniqueBytes => "distinct bytes",
            Self::L1HitSectors => "L1 hit sectors",
            Self::L2Sectors => "L2 sectors",
            Self::DramReadBytes => "DRAM bytes read",
            Self::DramWriteBytes => "DRAM bytes written",
            Self::DramBytes => "DRAM bytes",
            Self::Seconds => "time",
        }
    }

    /// Whether it is a count of L1 that the rules claim to the last unit. Tag
    /// wavefronts of many warps contain arbitration, which no address causes.
    pub const fn is_count(self) -> bool {
        matches!(
            self,
            Self::Instructions
                | Self::Requests
                | Self::Sectors
                | Self::Tags
                | Self::DataWavefronts
                | Self::UniqueBytes
        )
    }

    /// A value as tables show it.
    pub fn text(self, value: f64) -> String {
        use record::units;
        match self {
            Self::Seconds => units::seconds(value),
            Self::DramReadBytes | Self::DramWriteBytes | Self::DramBytes => {
                units::bytes(value as u128)
            }
            _ => units::count(value as u128),
        }
    }

    /// The field of the counts, and the levels of counters to take it from, the
    /// best first.
    fn counter(self) -> Option<(&'static str, &'static [Level])> {
        const EXACT: &[Level] = &[Level::Instruction, Level::Hardware];
        Some(match self {
            Self::Instructions => ("instructions", EXACT),
            Self::Requests => ("requests", EXACT),
            Self::Sectors => ("sectors", EXACT),
            Self::Tags => ("tags", &[Level::Hardware]),
            Self::TagWavefronts => ("tag_wavefronts", &[Level::Hardware]),
            Self::DataWavefronts => ("data_wavefronts", &[Level::Instruction]),
            Self::UniqueBytes => ("unique_bytes", EXACT),
            _ => return None,
        })
    }
}

/// A quantity at a point, on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Which.
    pub quantity: Quantity,
    /// What the model says; absent: not predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<f64>,
    /// What the device did; absent: not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// (predicted − measured) ÷ measured; of traffic ÷ at least 1 % of the L2
    /// bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// How far the measurement itself spreads, as a share of it: from the median
    /// to the farther quartile of its samples. Absent where there is one sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
}

impl Figure {
    fn new(
        quantity: Quantity,
        predicted: Option<f64>,
        measured: Option<f64>,
        least: f64,
        noise: Option<f64>,
    ) -> Self {
        let error = predicted.zip(measured).and_then(|(predicted, measured)| {
            let of = measured.max(least);
            match () {
                () if predicted == measured => Some(0.0),
                () if of > 0.0 => Some((predicted - measured) / of),
                () => None,
            }
        });
        Self { quantity, predicted, measured, error, noise }
    }

    /// Whether the difference is smaller than the noise of the measurement.
    pub fn is_within_noise(&self) -> bool {
        self.error.zip(self.noise).is_some_and(|(error, noise)| error.abs() <= noise)
    }

    /// Whether the statistics take it: both sides are known, and a time is long
    /// enough to be measured well.
    pub fn is_scored(&self) -> bool {
        self.error.is_some()
            && (self.quantity != Quantity::Seconds
                || self.measured.is_some_and(|time| time >= SHORTEST_SCORED_SECONDS))
    }
}

/// All quantities of a point that at least one side knows.
pub fn figures(point: &Point) -> Vec<Figure> {
    let all = Quantity::ALL.into_iter().map(|quantity| figure(point, quantity));
    all.filter(|figure| figure.predicted.is_some() || figure.measured.is_some()).collect()
}

/// One quantity of a point.
pub fn figure(point: &Point, quantity: Quantity) -> Figure {
    let predicted = point.predicted.as_ref();
    let counted = point.counted.as_ref();
    if quantity.counter().is_some() {
        let (predicted, measured) = match (predicted, counted) {
            (Some(predicted), Some(counted)) => counts(predicted, counted, quantity),
            _ => (None, None),
        };
        return Figure::new(quantity, predicted, measured, 0.0, None);
    }
    if quantity == Quantity::Seconds {
        return Figure::new(
            quantity,
            predicted.and_then(seconds),
            point.timed.as_ref().and_then(seconds),
            0.0,
            point.timed.as_ref().and_then(noise),
        );
    }
    let l2_sectors = counted.and_then(|record| traffic(record, Quantity::L2Sectors));
    let least = l2_sectors.map_or(0.0, |sectors| {
        let unit = if matches!(quantity, Quantity::L1HitSectors | Quantity::L2Sectors) {
            1.0
        } else {
            f64::from(SECTOR_BYTES)
        };
        LEAST_SHARE * sectors * unit
    });
    Figure::new(
        quantity,
        predicted.and_then(|record| traffic(record, quantity)),
        counted.and_then(|record| traffic(record, quantity)),
        least,
        None,
    )
}

/// Bytes of a sector on the architectures whose records have traffic.
pub(crate) const SECTOR_BYTES: u32 = 32;

/// The time of a record.
pub(crate) fn seconds(record: &RunRecord) -> Option<f64> {
    record.time.as_ref()?.seconds.filter(|seconds| *seconds > 0.0)
}

fn noise(record: &RunRecord) -> Option<f64> {
    let (median, spread) = (seconds(record)?, record.spread?);
    let farther =
        (spread.upper_quartile_seconds - median).max(median - spread.lower_quartile_seconds);
    Some(farther.max(0.0) / median)
}

/// A quantity of traffic.
pub(crate) fn traffic(record: &RunRecord, quantity: Quantity) -> Option<f64> {
    let traffic = record.traffic.as_ref()?;
    let both = |a: Option<u128>, b: Option<u128>| Some(a? + b?);
    let value = match quantity {
        Quantity::L1HitSectors => traffic.l1_hit_sectors,
        // A kernel without atomics has no such counter.
        Quantity::L2Sectors => both(traffic.l2_read_sectors, traffic.l2_write_sectors)
            .map(|sectors| sectors + traffic.l2_atomic_sectors.unwrap_or(0)),
        Quantity::DramReadBytes => traffic.dram_read_bytes,
        Quantity::DramWriteBytes => traffic.dram_write_bytes,
        Quantity::DramBytes => both(traffic.dram_read_bytes, traffic.dram_write_bytes),
        _ => None,
    };
    value.map(|value| value as f64)
}

/// A counter of all classes of operations that both sides know, summed.
fn counts(
    predicted: &RunRecord,
    counted: &RunRecord,
    quantity: Quantity,
) -> (Option<f64>, Option<f64>) {
    let (mut ours, mut theirs, mut known) = (0.0, 0.0, false);
    let Some(totals) = &predicted.totals else { return (None, None) };
    for (&class, totals) in &totals.by_class {
        let (Some(field), Some(device)) =
            (field_of(quantity, class), measured_count(counted, quantity, class))
        else {
            continue;
        };
        let Some(count) = count_of(totals, field) else { continue };
        ours += count as f64;
        theirs += device as f64;
        known = true;
    }
    if known { (Some(ours), Some(theirs)) } else { (None, None) }
}

/// The field of a quantity for a class of operations. The instruction-level
/// counters have each sector of an atomic once.
fn field_of(quantity: Quantity, class: OpClass) -> Option<&'static str> {
    let atomic = matches!(class, OpClass::GlobalRed | OpClass::GlobalAtom);
    match quantity {
        Quantity::Sectors if atomic => Some("unique_sectors"),
        _ => quantity.counter().map(|(field, _)| field),
    }
}

/// A count by its field's name.
pub(crate) fn count_of(totals: &Totals, field: &str) -> Option<u128> {
    match field {
        "instructions" => Some(totals.instructions),
        name => totals.get(Field::from_name(name)?),
    }
}

/// What the device counted of a class.
pub(crate) fn measured_count(
    record: &RunRecord,
    quantity: Quantity,
    class: OpClass,
) -> Option<u128> {
    let (_, levels) = quantity.counter()?;
    let field = field_of(quantity, class)?;
    let chip = record.arch.as_deref()?;
    levels.iter().find_map(|&level| {
        let metric: &Metric = MetricMap::shipped().find(chip, field, Some(class), level)?;
        metric.field_value(record.counters.get(&metric.name)?)?.as_u128()
    })
}

/// What a trivial model says: bytes that move at the device's peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trivial {
    /// The bytes that the kernel asks for.
    RequestedBytes,
    /// The sectors of its requests.
    Sectors,
    /// What the model says of DRAM; where it says nothing, what was counted.
    DramBytes,
}

impl Trivial {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::RequestedBytes, Self::Sectors, Self::DramBytes];

    /// Its name in tables and legends.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestedBytes => "requested bytes ÷ peak",
            Self::Sectors => "sectors × 32 B ÷ peak",
            Self::DramBytes => "DRAM bytes ÷ peak",
        }
    }

    /// The time at `peak` bytes a second.
    pub fn seconds(self, point: &Point, peak: f64) -> Option<f64> {
        let bytes = match self {
            Self::RequestedBytes => requested_bytes(point)?,
            Self::Sectors => {
                point.predicted.as_ref()?.totals.as_ref()?.counts.get(Field::MovedBytes)? as f64
            }
            Self::DramBytes => {
                let figure = figure(point, Quantity::DramBytes);
                figure.predicted.or(figure.measured)?
            }
        };
        (bytes > 0.0 && peak > 0.0).then(|| bytes / peak)
    }
}

/// Bytes that the lanes ask global memory for.
pub fn requested_bytes(point: &Point) -> Option<f64> {
    let predicted = point.predicted.as_ref().and_then(|record| {
        let totals = record.totals.as_ref()?;
        Some(totals.counts.get(Field::RequestedBytes)? as f64)
    });
    // What nobody predicted still has the bandwidth that was measured.
    predicted.or_else(|| {
        let timed = point.timed.as_ref()?;
        Some(timed.bandwidth.as_ref()?.requested_bytes_per_s? * seconds(timed)?)
    })
}
