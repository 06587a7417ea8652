//! Named quantities of a run, counted by the model or recorded on a device.

use record::{KernelTotals, RunRecord, units};
use scenario::Run;
use scenario::count::LaunchCounts;
use simulator::{Field, RuleSet, Space, Totals, WarpAccess};

/// What a quantity is measured in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// A number of things, or an average of such numbers.
    #[default]
    Count,
    /// Bytes.
    Bytes,
    /// A share; 1.0 is 100 %.
    Share,
    /// Seconds.
    Seconds,
    /// Bytes a second.
    BytesPerSecond,
    /// How many times one is the other.
    Times,
}

impl Unit {
    /// The unit by its name in `{{value|NAME}}`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "bytes" => Self::Bytes,
            "percent" => Self::Share,
            "seconds" => Self::Seconds,
            "bytes/s" => Self::BytesPerSecond,
            "times" => Self::Times,
            _ => return None,
        })
    }
}

/// A number with its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantity {
    /// In the unit's base: bytes, seconds, shares of 1.0.
    pub value: f64,
    /// What it is measured in.
    pub unit: Unit,
}

impl Quantity {
    pub(crate) fn new(value: f64, unit: Unit) -> Self {
        Self { value, unit }
    }

    fn count(value: u128) -> Self {
        Self::new(value as f64, Unit::Count)
    }
}

/// As a person reads it: `8`, `12.5 %`, `2.68 TB/s`.
impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.value;
        let whole = value.fract() == 0.0 && (0.0..1e30).contains(&value);
        f.write_str(&match self.unit {
            Unit::Count if whole => units::count(value as u128),
            Unit::Count => units::average(value),
            Unit::Bytes if whole => units::bytes(value as u128),
            Unit::Bytes if value < 1024.0 => format!("{} B", units::average(value)),
            Unit::Bytes => units::bytes(value.round() as u128),
            Unit::Share => units::percent(value),
            Unit::Seconds => units::seconds(value),
            Unit::BytesPerSecond => units::bytes_per_s(value),
            Unit::Times => format!("{value:.1}×"),
        })
    }
}

/// The unit of a field's sum.
fn unit_of(field: Field) -> Unit {
    match field {
        Field::RequestedBytes | Field::UniqueBytes | Field::MovedBytes => Unit::Bytes,
        _ => Unit::Count,
    }
}

/// `sectors`, `sectors/request`, `unique_efficiency` … of some accesses.
pub(crate) fn of_totals(name: &str, totals: &Totals) -> Option<Quantity> {
    match name {
        "unique_efficiency" => {
            return totals.unique_efficiency().map(|share| Quantity::new(share, Unit::Share));
        }
        "requested_efficiency" => {
            return totals.requested_efficiency().map(|share| Quantity::new(share, Unit::Share));
        }
        "instructions" => return Some(Quantity::count(totals.instructions)),
        _ => {}
    }
    if let Some(field) = name.strip_suffix("/request") {
        let field = Field::from_name(field)?;
        return totals.per_request(field).map(|value| Quantity::new(value, unit_of(field)));
    }
    if let Some(field) = name.strip_suffix("/instruction") {
        let field = Field::from_name(field)?;
        let sum = totals.get(field)? as f64;
        let warps = totals.instructions.max(1) as f64;
        return Some(Quantity::new(sum / warps, unit_of(field)));
    }
    let field = Field::from_name(name)?;
    totals.get(field).map(|value| Quantity::new(value as f64, unit_of(field)))
}

/// `warp.sectors`, `warp.range_bytes` … without the `warp.`.
pub(crate) fn of_warp(
    name: &str,
    access: &WarpAccess,
    run: &Run,
    rules: &RuleSet,
) -> Option<Quantity> {
    let lowest = access.active().map(|(_, address)| address).min()?;
    let highest = access.active().map(|(_, address)| address).max()?;
    Some(match name {
        "lanes" => Quantity::count(access.mask.count().into()),
        "width" => Quantity::new(access.width.into(), Unit::Bytes),
        // From the first byte of all to the last.
        "range_bytes" => {
            Quantity::new((highest - lowest) as f64 + f64::from(access.width), Unit::Bytes)
        }
        "start_in_line" => {
            Quantity::new((lowest % u64::from(rules.line_bytes()?)) as f64, Unit::Bytes)
        }
        // From the first byte of the buffer's first element.
        "offset_bytes" => {
            let firsts = run.buffers.iter().zip(run.assumed_bases());
            let offset = firsts
                .filter_map(|(buffer, base)| {
                    let offset = lowest.checked_sub(base.checked_add(buffer.offset_bytes)?)?;
                    (offset < buffer.bytes).then_some(offset)
                })
                .next()?;
            bytes(offset)
        }
        _ => {
            let mut totals = Totals::default();
            totals.add(&rules.count(access));
            return of_totals(name, &totals);
        }
    })
}

/// `threads`, `buffer.NAME.pitch`, `param.NAME`, `arch.sector_bytes` ….
pub(crate) fn of_run(name: &str, run: &Run, rules: &RuleSet) -> Option<Quantity> {
    let threads = run.launch.blocks() * u128::from(run.launch.threads_per_block());
    match name {
        "threads" => return Some(Quantity::count(threads)),
        "blocks" => return Some(Quantity::count(run.launch.blocks())),
        "block_threads" => return Some(Quantity::count(run.launch.threads_per_block().into())),
        "block_warps" => return Some(Quantity::count(run.launch.warps_per_block().into())),
        "arch.sector_bytes" => return Some(bytes(rules.sector_bytes()?.into())),
        "arch.line_bytes" => return Some(bytes(rules.line_bytes()?.into())),
        _ => {}
    }
    if let Some(param) = name.strip_prefix("param.") {
        let (_, value) = run.params.iter().find(|(name, _)| name == param)?;
        return value.integer().map(|value| Quantity::new(value as f64, Unit::Count));
    }
    let (buffer, what) = name.strip_prefix("buffer.")?.rsplit_once('.')?;
    let buffer = run.buffers.iter().find(|candidate| candidate.name == buffer)?;
    match what {
        "bytes" => Some(bytes(buffer.bytes)),
        "element_bytes" => Some(bytes(buffer.element_bytes)),
        "pitch" => Some(bytes(buffer.pitch.unwrap_or_else(|| {
            buffer.shape.last().copied().unwrap_or(1).saturating_mul(buffer.element_bytes)
        }))),
        _ => None,
    }
}

fn bytes(value: u64) -> Quantity {
    Quantity::new(value as f64, Unit::Bytes)
}

/// `record.seconds`, `record.dram_read_bytes` … without the `record.`.
pub(crate) fn of_record(
    name: &str,
    time: Option<&RunRecord>,
    counted: Option<&RunRecord>,
) -> Option<Quantity> {
    let traffic = || counted.and_then(|record| record.traffic.as_ref());
    let sectors = |value: Option<u128>| value.map(Quantity::count);
    match name {
        "seconds" => time
            .and_then(|record| record.time.as_ref()?.seconds)
            .map(|value| Quantity::new(value, Unit::Seconds)),
        "requested_bytes_per_s" => time
            .and_then(|record| record.bandwidth.as_ref()?.requested_bytes_per_s)
            .map(|value| Quantity::new(value, Unit::BytesPerSecond)),
        // What the driver's own copy moved a second in the same process.
        "copy_bytes_per_s" => time
            .and_then(|record| record.reference.as_ref()?.copy_bytes_per_s)
            .map(|value| Quantity::new(value, Unit::BytesPerSecond)),
        "l1_hit_sectors" => sectors(traffic()?.l1_hit_sectors),
        "l2_read_sectors" => sectors(traffic()?.l2_read_sectors),
        "l2_write_sectors" => sectors(traffic()?.l2_write_sectors),
        "l2_atomic_sectors" => sectors(traffic()?.l2_atomic_sectors),
        "dram_read_bytes" => {
            traffic()?.dram_read_bytes.map(|n| Quantity::new(n as f64, Unit::Bytes))
        }
        "dram_write_bytes" => {
            traffic()?.dram_write_bytes.map(|n| Quantity::new(n as f64, Unit::Bytes))
        }
        _ => of_kernel(name, counted?.totals.as_ref()?),
    }
}

/// `sectors`, `global_ld.sectors/request` … of all accesses of a kernel.
fn of_kernel(name: &str, totals: &KernelTotals) -> Option<Quantity> {
    match name.split_once('.') {
        Some((class, name)) => {
            let (_, part) = totals.by_class.iter().find(|(c, _)| c.name() == class)?;
            of_totals(name, part)
        }
        None => of_totals(name, &totals.counts),
    }
}

/// The rate of the device's own copy, which rates of kernels are held against. It is
/// recorded and never predicted.
pub(crate) const YARDSTICK: &str = "copy_bytes_per_s";

/// What a quantity of records is, in words.
pub(crate) fn in_words(name: &str) -> &'static str {
    match name {
        "seconds" => "time",
        "requested_bytes_per_s" => "requested bytes",
        YARDSTICK => "the device's own copy",
        "sectors" => "sectors, all accesses",
        "global_ld.sectors/request" => "sectors per load request",
        "l1_hit_sectors" => "sectors found in L1",
        "l2_read_sectors" => "sectors read from L2",
        "l2_write_sectors" => "sectors written to L2",
        "l2_atomic_sectors" => "sectors of atomics in L2",
        "dram_read_bytes" => "read from DRAM",
        "dram_write_bytes" => "written to DRAM",
        _ => "counter",
    }
}

/// Whether a quantity that [`of_record`] finds is as uncertain as a time.
pub(crate) fn follows_from_time(name: &str) -> bool {
    name == "seconds" || name.ends_with("_per_s")
}

/// What the model counts of a quantity that [`of_record`] finds in records; none
/// for times and traffic.
pub(crate) fn counted(name: &str, run: &Run, counts: &LaunchCounts) -> Option<Quantity> {
    let sites = run.program.sites.iter().zip(&counts.sites);
    of_kernel(name, &KernelTotals::of(sites.map(|(site, counted)| (site.op, &counted.totals))))
}

/// The totals that a metric without an access is of: those of global memory,
/// and for bank conflicts and data wavefronts those of shared memory where the
/// kernel uses it.
pub(crate) fn kernel_totals(name: &str, run: &Run, counts: &LaunchCounts) -> Totals {
    let uses_shared = run.program.sites.iter().any(|site| site.op.space == Space::Shared);
    let of_shared =
        uses_shared && (name.starts_with("bank_conflicts") || name.starts_with("data_wavefronts"));
    let wanted = if of_shared { Space::Shared } else { Space::Global };
    let sites = run.program.sites.iter().zip(&counts.sites);
    KernelTotals::of(
        sites
            .filter(|(site, _)| site.op.space == wanted)
            .map(|(site, counted)| (site.op, &counted.totals)),
    )
    .counts
}

/// What a metric may be called, for messages.
pub(crate) const KNOWN: &str = "counts such as sectors, sectors/request, moved_bytes, \
unique_efficiency, bank_conflicts/request; warp.NAME, warp.range_bytes, warp.lanes, \
warp.start_in_line, warp.offset_bytes; threads, blocks, param.NAME, buffer.NAME.pitch, arch.sector_bytes; \
record.seconds, record.requested_bytes_per_s, record.copy_bytes_per_s, \
record.dram_read_bytes, record.sectors/request";
