//! Measured run records.

use crate::device::{Clocks, Description, Resources};
use crate::job::{Cache, Reference, Timed};
use crate::profiler::Counted;
use crate::statistics;
use record::{
    Bandwidth, Bases, Buffer, CacheState, KernelKind, KernelTotals, Launch, Level, MetricMap,
    OpClass, Part, ReferenceSpeed, RunRecord, Source, Spread, Time, Traffic, Value,
};
use scenario::Run;
use scenario::program::Scalar;
use simulator::{Field, Totals};
use std::collections::{BTreeMap, BTreeSet};

/// Which kernel ran, and how it was assembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Build {
    pub(crate) kernel: KernelKind,
    /// At the driver's default level; else at level 0.
    pub(crate) optimised: bool,
}

impl Build {
    /// The generated kernel as it is timed.
    pub(crate) const TIMED: Self = Self { kernel: KernelKind::Generated, optimised: true };
    /// The generated kernel as it is counted.
    pub(crate) const COUNTED: Self = Self { kernel: KernelKind::Generated, optimised: false };
    /// The hand-written kernel.
    pub(crate) const HAND_WRITTEN: Self = Self { kernel: KernelKind::HandWritten, optimised: true };
}

/// What all records of a campaign share.
pub(crate) struct About {
    pub(crate) description: Description,
    pub(crate) cache: Cache,
    pub(crate) tools: BTreeMap<String, String>,
}

/// Where a run's buffers were and what its kernel used.
pub(crate) struct Placed<'a> {
    pub(crate) bases: &'a [u64],
    pub(crate) resources: Resources,
}

/// A record with all that is known before any result.
pub(crate) fn blank(about: &About, run: &Run, build: Build, part: Part) -> RunRecord {
    let launch = Launch {
        grid: run.launch.grid,
        block: run.launch.block,
        registers: None,
        shared_bytes: (run.program.shared_bytes > 0).then_some(run.program.shared_bytes),
    };
    let mut record = RunRecord::new(&run.scenario, Source::Measured, launch);
    record.variant = run.variant.clone();
    record.params = run
        .params
        .iter()
        .map(|(name, value)| {
            let value = match (value.ty, value.integer(), value.float()) {
                (Scalar::Bool, ..) => Value::Bool(value.value != 0),
                (_, Some(integer), _) => Value::Integer(integer),
                (_, None, real) => Value::Real(real.unwrap_or(f64::NAN)),
            };
            (name.as_str(), value)
        })
        .collect();
    let description = &about.description;
    let (major, minor) = description.compute_capability;
    record.device = Some(description.name.clone());
    record.arch = Some(format!("{major}.{minor}"));
    record.cache = Some(match about.cache {
        Cache::Cold => CacheState::Cold,
        Cache::Warm => CacheState::Warm,
    });
    record.driver = description.driver.clone();
    record.tools = about.tools.clone();
    record.date = Some(crate::date::now());
    record.part = Some(part);
    record.kernel = Some(build.kernel);
    record.optimised = Some(build.optimised);
    record
}

/// Adds where the buffers were and what the kernel used.
fn place(record: &mut RunRecord, run: &Run, placed: &Placed<'_>) {
    record.bases = Some(Bases::Measured);
    record.buffers = run
        .buffers
        .iter()
        .zip(placed.bases)
        .map(|(buffer, base)| Buffer {
            name: buffer.name.clone(),
            base: base + buffer.offset_bytes,
            bytes: buffer.bytes,
            pitch: buffer.pitch,
        })
        .collect();
    record.launch.registers = Some(placed.resources.registers);
    if placed.resources.local_bytes > 0 {
        record.warnings.push(format!(
            "the kernel keeps {} bytes a thread in local memory, whose traffic is in the figures",
            placed.resources.local_bytes
        ));
    }
}

/// The record of a timed run.
pub(crate) fn timed(
    about: &About,
    run: &Run,
    build: Build,
    placed: &Placed<'_>,
    timed: &Timed,
    requested_bytes: Option<u128>,
    reference: Option<&Reference>,
) -> RunRecord {
    let mut record = blank(about, run, build, Part::Time);
    place(&mut record, run, placed);
    let seconds = record::median(&timed.samples_s);
    record.samples = timed.samples_s.clone();
    record.spread = Spread::of(&timed.samples_s);
    record.time = Some(Time { seconds, ..Time::default() });
    record.bandwidth = seconds.zip(requested_bytes).map(|(seconds, bytes)| Bandwidth {
        requested_bytes_per_s: Some(bytes as f64 / seconds).filter(|rate| rate.is_finite()),
        ..Bandwidth::default()
    });
    let clocks = timed.clocks_during.as_ref().or(timed.clocks_after.as_ref());
    record.clocks = Some(record::Clocks {
        sm_hz: clocks.map(|clocks| clocks.sm_hz as f64),
        memory_hz: clocks.map(|clocks| clocks.memory_hz as f64),
        max_sm_hz: Some(about.description.sm_clock_hz as f64),
        max_memory_hz: Some(about.description.memory_clock_hz as f64),
    });
    record.reference = reference.map(speed);
    record.warnings.extend(timing_warnings(timed, seconds, record.reference.as_ref()));
    record
}

/// The device's own speed in the same process.
pub(crate) fn speed(reference: &Reference) -> ReferenceSpeed {
    let copy = record::median(&reference.copy_s);
    ReferenceSpeed {
        copy_bytes: reference.copy_bytes,
        // Each byte is read and written.
        copy_bytes_per_s: copy.map(|seconds| 2.0 * reference.copy_bytes as f64 / seconds),
        launch_overhead_seconds: record::median(&reference.empty_kernel_s),
    }
}

/// What makes samples doubtful.
fn timing_warnings(
    timed: &Timed,
    median: Option<f64>,
    reference: Option<&ReferenceSpeed>,
) -> Vec<String> {
    /// A clock that moved by more than this is told.
    const CLOCK_CHANGE: f64 = 0.02;
    let mut warnings = Vec::new();
    let outliers = statistics::outliers(&timed.samples_s);
    if !outliers.is_empty() {
        warnings.push(format!(
            "{} of {} samples stand apart (numbers {}): something else may have run on the GPU",
            outliers.len(),
            timed.samples_s.len(),
            outliers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        ));
    }
    let overhead = reference.and_then(|reference| reference.launch_overhead_seconds);
    if let (Some(median), Some(overhead)) = (median, overhead)
        && median < 4.0 * overhead
    {
        warnings.push(format!(
            "short: the kernel takes {median:e} s, of which an empty one takes {overhead:e} s; choose \
             larger parameters to time its memory accesses"
        ));
    }
    if let (Some(during), Some(after)) = (&timed.clocks_during, &timed.clocks_after) {
        let moved = |a: u64, b: u64| (a as f64 - b as f64).abs() > CLOCK_CHANGE * a as f64;
        let idle = |clocks: &Clocks| clocks.performance_state.as_deref() != Some("P0");
        // An idle GPU lowers its clocks at once; that is no change under load.
        if moved(during.sm_hz, after.sm_hz) && !idle(after) {
            warnings.push(format!(
                "the SM clock went from {} to {} Hz meanwhile",
                during.sm_hz, after.sm_hz
            ));
        }
    }
    let reasons: BTreeSet<&String> = [&timed.clocks_during, &timed.clocks_after]
        .into_iter()
        .flatten()
        .flat_map(|clocks| &clocks.throttled)
        .collect();
    if !reasons.is_empty() {
        let reasons: Vec<&str> = reasons.into_iter().map(String::as_str).collect();
        warnings.push(format!("clocks were held down: {}", reasons.join(", ")));
    }
    warnings
}

/// The record of a counted run.
pub(crate) fn counted(
    about: &About,
    run: &Run,
    build: Build,
    placed: &Placed<'_>,
    counted: &Counted,
) -> RunRecord {
    let mut record = blank(about, run, build, Part::Counters);
    place(&mut record, run, placed);
    record.counters = counted.values.clone();
    if let Some(passes) = counted.passes {
        record.tools.insert("ncu passes".into(), passes.to_string());
    }
    let classes: BTreeSet<OpClass> =
        run.program.sites.iter().map(|site| OpClass::of(site.op)).collect();
    let classes: Vec<OpClass> = classes.into_iter().collect();
    let chip = record.arch.clone().unwrap_or_default();
    let fields = MetricMap::shipped().read(&chip, &record.counters, Level::Hardware, &classes);
    record.totals = (fields.totals != KernelTotals::default()).then_some(fields.totals);
    record.traffic = (fields.traffic != Traffic::default()).then_some(fields.traffic);
    record
}

/// How the counts of another build differ from those of the generated kernel
/// as written: `global_ld instructions 32768 → 16384`. Instructions, requests,
/// sectors and the wavefronts of shared memory that the addresses alone cause
/// are compared, class by class.
pub(crate) fn differences(written: &RunRecord, other: &RunRecord) -> Vec<String> {
    const FIELDS: [Field; 2] = [Field::Requests, Field::Sectors];
    let (Some(counts), Some(others)) = (&written.totals, &other.totals) else { return Vec::new() };
    let empty = Totals::default();
    let mut differences = Vec::new();
    for class in OpClass::ALL {
        let a = counts.by_class.get(&class).unwrap_or(&empty);
        let b = others.by_class.get(&class).unwrap_or(&empty);
        let mut tell = |what: &str, a: u128, b: u128| {
            if a != b {
                differences.push(format!("{class} {what} {a} → {b}"));
            }
        };
        tell("instructions", a.instructions, b.instructions);
        for field in FIELDS {
            if let (Some(a), Some(b)) = (a.get(field), b.get(field)) {
                tell(field.name(), a, b);
            }
        }
        let wavefronts = |record: &RunRecord| {
            let chip = record.arch.as_deref()?;
            let name = Field::DataWavefronts.name();
            let metric = MetricMap::shipped().find(chip, name, Some(class), Level::Instruction)?;
            metric.field_value(record.counters.get(&metric.name)?)?.as_u128()
        };
        if let (Some(a), Some(b)) = (wavefronts(written), wavefronts(other)) {
            tell("wavefronts", a, b);
        }
    }
    differences
}

/// What a record is of, for `--resume`: two records with the same key are of
/// the same measurement.
pub(crate) fn key(record: &RunRecord) -> String {
    let part = record.part.map_or("", Part::name);
    let kernel = record.kernel.map_or("", KernelKind::name);
    let level = if record.optimised == Some(false) { "as written" } else { "optimised" };
    format!("{} {kernel} {level} {part}", record.point())
}
