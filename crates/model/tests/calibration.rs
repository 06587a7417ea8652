//! The suite on a device that exists in arithmetic only: its constants must
//! come out of its records.

use std::collections::BTreeMap;
use std::io::Read;

use coalescope_model::calibrate::hash::TagHash;
use coalescope_model::calibrate::probe::{Counted, Probe};
use coalescope_model::calibrate::{Device, Records, probes, profile, suite};
use coalescope_model::{Constant, Profile};
use record::{
    Buffer, Clocks, KernelKind, Launch, Part, ReferenceSpeed, RunRecord, Source, Time, Traffic,
    Value,
};

const HZ: f64 = 1.5e9;
const SMS: f64 = 20.0;
const OVERHEAD: f64 = 4e-6;
/// Eight tag banks, by a hash that no rule set has.
const HASH: [u64; 3] = [0x12_3456_7889, 0xf0_0f0f_0f12, 0x8_0808_0824];

fn device() -> Device {
    Device {
        name: "Made up".to_owned(),
        compute_capability: (9, 0),
        multiprocessors: SMS as u32,
        l2_bytes: 16 << 20,
        sm_clock_hz: 1_600_000_000,
        memory_clock_hz: 1_000_000_000,
        memory_bus_bits: 4096,
        shared_bytes_per_block: 99 << 10,
        threads_per_sm: Some(1536),
        blocks_per_sm: Some(16),
        registers_per_sm: Some(65536),
        shared_bytes_per_sm: Some(100 << 10),
        shared_bytes_reserved: Some(1024),
        driver: Some("1.0".to_owned()),
    }
}

/// What the profile must say.
fn truth() -> BTreeMap<Constant, f64> {
    use Constant as C;
    BTreeMap::from([
        (C::SmCount, SMS),
        (C::SmClock, HZ),
        (C::WarpsPerSm, 48.0),
        (C::L2Bytes, 16.0 * 1024.0 * 1024.0),
        (C::DramPeak, 1.024e12),
        (C::LaunchOverhead, OVERHEAD),
        (C::RampTime, 1.5e-6),
        (C::BlockDispatch, 4e-9),
        (C::BlockTurnaround, 280.0),
        (C::WarpStart, 5.0),
        (C::IssueRate, 3.2),
        (C::RequestRate, 0.9),
        (C::DataRate, 0.95),
        (C::TagRate, 0.8),
        (C::BarrierLatency, 24.0),
        (C::BarrierWarp, 1.7),
        (C::WideIssue, 1.9),
        (C::BarrierIssue, 3.1),
        (C::L1Latency, 34.0),
        (C::SharedLatency, 25.0),
        (C::L2Latency, 220.0),
        (C::DramLatency, 500.0),
        (C::L2EffectiveBytes, 9e6),
        (C::L2ReadRatePerSm, 1.9),
        (C::L2ReadRate, 3.5e10),
        (C::L2ReadRequestRatePerSm, 0.6),
        (C::L2ReadRequestRate, 1.5e10),
        (C::L2WriteRatePerSm, 1.7),
        (C::L2WriteRate, 3e10),
        (C::L2WriteRequestRatePerSm, 0.3),
        (C::L2WriteRequestRate, 8e9),
        (C::DramReadRate, 9e11),
        (C::DramWriteRate, 8.5e11),
        (C::DramMixedRate, 8e11),
        (C::DramAccessBytes, 64.0),
        (C::DramGranuleBytes, 256.0),
        (C::DramOpenRate, 8e9),
        (C::DramWriteOpenRate, 6e9),
        (C::DramLineRate, 2e10),
        (C::DramWriteLineRate, 1.5e10),
        (C::DramTurns, 1.05),
        (C::DramFillBytes, 32.0),
        (C::SectorsInFlight, 600.0),
        (C::L2PartialRate, 1.2e10),
        (C::L2PartialRequestRate, 4e9),
        (C::L2Partitions, 2.0),
        (C::L2DirtyShare, 0.4),
        (C::L2PartialShare, 0.1),
        (C::L2DirtyBefore, 1e6),
        (C::StoreMergeShare, 0.3),
        (C::L2AtomicRate, 5e9),
        (C::L2AtomicRequestRate, 3e9),
        (C::L2AtomicResultRate, 2.5e9),
        (C::L2SameAddressRate, 2e9),
        (C::SharedAtomicRate, 12.0),
        (C::OverlapExponent, 4.0),
        (C::DramQueueRead, 0.5),
        (C::DramQueueMixed, 2.0),
        (C::PhaseOverlap, 1.6),
        (C::DispatchOverlap, 8.0),
        (C::DramLatencyDoubling, 30.0),
        (C::InstructionLatency, 4.5),
    ])
}

/// Tag wavefronts of a request, the plain way.
fn wavefronts(lines: &[u64]) -> u64 {
    let mut banks: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
    let distinct: std::collections::BTreeSet<u64> = lines.iter().copied().collect();
    for line in distinct {
        let bank = HASH.iter().map(|mask| (line & mask).count_ones() % 2).collect();
        *banks.entry(bank).or_default() += 1;
    }
    banks.into_values().max().unwrap_or(0)
}

/// The seconds that make themselves, of what is the shorter the longer it takes.
fn settled(of: impl Fn(f64) -> f64) -> f64 {
    let mut seconds = of(f64::INFINITY);
    for _ in 0..200 {
        seconds = 0.5 * (seconds + of(seconds));
    }
    seconds
}

/// Seconds of a run beyond the launch.
fn seconds(record: &RunRecord) -> f64 {
    let truth = truth();
    let c = |constant| truth[&constant];
    let p = |name: &str| record.params.get(name).and_then(Value::as_f64).expect(name);
    let variant = record.variant.as_deref().unwrap_or("");
    let norm_of =
        |a: f64, b: f64, exponent: f64| (a.powf(exponent) + b.powf(exponent)).powf(1.0 / exponent);
    let norm = |a: f64, b: f64| norm_of(a, b, c(Constant::OverlapExponent));
    let work = p("work");
    use Constant as C;
    match (record.scenario.as_str(), variant) {
        ("ramp", _) => c(C::RampTime),
        ("dispatch", _) => work * c(C::BlockDispatch),
        ("turnaround", variant) => {
            let start = c(C::BlockTurnaround) + c(C::WarpStart) * p("threads") / 32.0;
            let block = |waits: f64| (start + waits) / HZ / SMS / p("resident");
            match variant {
                "empty" => return work * block(0.0),
                // One block at a time leaves DRAM idle.
                "load-few" | "copy-long" if p("resident") > 1.0 => {}
                _ => return work * block(500.0),
            }
            let (dram, mixed) = match variant {
                "load-few" => (p("threads") * 4.0 / c(C::DramReadRate), 0.0),
                _ => (p("threads") * 8.0 / c(C::DramMixedRate), c(C::DramQueueMixed)),
            };
            let on_dram = c(C::DramLatency) / HZ / SMS / p("resident");
            let queue = |seconds: f64| {
                let busy = dram / seconds;
                c(C::DramQueueRead) * busy.powi(2) + mixed * busy
            };
            let waited =
                settled(|seconds| norm_of(dram, block(500.0) + on_dram * queue(seconds), 32.0));
            if variant == "copy-long" {
                return work * waited;
            }
            work * norm_of(waited, c(C::BlockDispatch), c(C::DispatchOverlap))
        }
        ("issue-chain", _) => work * c(C::InstructionLatency) / HZ,
        ("issue", _) => work / c(C::IssueRate) / HZ,
        ("issue-costs", variant) => {
            let more = match variant {
                "wide" => 16.0 * c(C::WideIssue),
                "barrier" => 4.0 * c(C::BarrierIssue),
                _ => 0.0,
            };
            work * (110.0 + more) / c(C::IssueRate) / HZ
        }
        ("barrier", _) => {
            work * (c(C::BarrierLatency) + p("threads") / 32.0 * c(C::BarrierWarp)) / HZ
        }
        ("shared-ways", _) => work * (0.2 + p("ways") / c(C::DataRate)) / HZ,
        ("l1-widths", "w4") => work / c(C::RequestRate) / HZ,
        ("l1-widths", _) => work / 0.4 / HZ,
        ("l1-tags", _) => {
            let base = record.buffers[0].base;
            let of_trip = |trip: u64| {
                let lines: Vec<u64> =
                    (0..32).map(|lane| (base + 4 * (trip * 32 + lane * 33)) / 128).collect();
                wavefronts(&lines)
            };
            let mean = (0..256).map(of_trip).sum::<u64>() as f64 / 256.0;
            work * mean / c(C::TagRate) / HZ
        }
        ("chase", "l1") => work * c(C::L1Latency) / HZ,
        ("chase", "l2") => work * c(C::L2Latency) / HZ,
        ("chase", _) => work * c(C::DramLatency) / HZ,
        ("chase-many", _) => {
            let doublings = p("lanes").log2();
            work * (c(C::DramLatency) + doublings * c(C::DramLatencyDoubling)) / HZ
        }
        ("chase-shared", _) => work * c(C::SharedLatency) / HZ,
        ("l1-window", _) => {
            let fits = p("lines") * 128.0 <= 120.0 * 1024.0;
            work * c(if fits { C::L1Latency } else { C::L2Latency }) / HZ
        }
        ("l2-window", variant) => {
            // What all SMs read is kept in both parts.
            let copies = if variant == "many" { c(C::L2Bytes) / 2.0 } else { f64::INFINITY };
            let kept = c(C::L2EffectiveBytes).min(copies);
            let share = (kept / (p("lines") * 128.0)).min(1.0);
            let clks = share * c(C::L2Latency) + (1.0 - share) * c(C::DramLatency);
            1e-5 + work * clks / HZ
        }
        ("l2", "write-parts") => work / c(C::L2PartialRate),
        ("l2", "write-words") => work / c(C::L2PartialRequestRate),
        ("l2", variant) => {
            let (per_sm, all) = match variant {
                "read-lines" => (C::L2ReadRatePerSm, C::L2ReadRate),
                "read-sectors" => (C::L2ReadRequestRatePerSm, C::L2ReadRequestRate),
                "write-lines" => (C::L2WriteRatePerSm, C::L2WriteRate),
                _ => (C::L2WriteRequestRatePerSm, C::L2WriteRequestRate),
            };
            work / (c(per_sm) * HZ * p("blocks")).min(c(all))
        }
        ("dram", "read") => work / c(C::DramReadRate),
        ("dram", "write") => work / c(C::DramWriteRate),
        ("dram", _) => work / c(C::DramMixedRate),
        ("dram-sparse", variant) => {
            let (bytes, rate, open, line) = match variant {
                "write-sector" => {
                    (32.0, C::DramWriteRate, C::DramWriteOpenRate, C::DramWriteLineRate)
                }
                _ => {
                    let access = p("stride").clamp(32.0, c(C::DramAccessBytes));
                    (access, C::DramReadRate, C::DramOpenRate, C::DramLineRate)
                }
            };
            // Of the two lines of a granule each is met once at most.
            let granule = c(C::DramGranuleBytes);
            let granules = (p("stride") / granule).min(1.0);
            let lines = (p("stride") / (granule / 2.0)).min(1.0);
            let cost = |open, line| granules / c(open) + (lines - granules) / c(line);
            let cost = match variant {
                "write" => {
                    let reads = cost(C::DramOpenRate, C::DramLineRate);
                    let writes = cost(C::DramWriteOpenRate, C::DramWriteLineRate);
                    c(C::DramTurns) * (reads + writes)
                }
                _ => cost(open, line),
            };
            work * (bytes / c(rate)).max(cost)
        }
        ("loaded-latency", variant) => {
            let (rate, mixed, bytes) = match variant {
                "read" => (C::DramReadRate, 0.0, 4.0),
                _ => (C::DramMixedRate, c(C::DramQueueMixed), 8.0),
            };
            let dram = p("threads") * bytes / c(rate);
            let alone = c(C::DramLatency) / HZ;
            let queue = |seconds: f64| {
                let busy = if p("warps") > 8.0 { dram / seconds } else { 0.0 };
                c(C::DramQueueRead) * busy.powi(2) + mixed * busy
            };
            work * settled(|seconds| alone * (1.0 + queue(seconds)))
        }
        ("store-merge", _) => 1e-6,
        ("in-flight", _) => work / (c(C::SectorsInFlight) / c(C::DramLatency) * HZ * p("blocks")),
        ("atomics", "distinct") => work / c(C::L2AtomicRate),
        ("atomics", "rounds-result") => work / c(C::L2AtomicResultRate),
        ("atomics", "rounds") => work / c(C::L2AtomicRequestRate),
        ("atomics", "line" | "line-spread") => work * 32.0 / p("words") / c(C::L2SameAddressRate),
        ("atomics", "same") => work / c(C::L2SameAddressRate),
        ("atomics", _) => work / c(C::SharedAtomicRate) / HZ,
        ("phases", "wait") => work * 4e-9 / p("resident"),
        ("phases", "work") => work * 1e-10 * p("ways"),
        ("phases", _) => {
            let (wait, busy) = (4e-9 / p("resident"), 1e-10 * p("ways"));
            work * norm_of(wait, busy, c(C::PhaseOverlap))
        }
        ("overlap", "memory") | ("overlap-sm", "issue") => work * 3e-9,
        ("overlap", "shared") | ("overlap-sm", "ways") => work * 3e-9 * p("ways") / 8.0,
        ("overlap" | "overlap-sm", _) => work * norm(3e-9, 3e-9 * p("ways") / 8.0),
        (other, variant) => panic!("the device does not know {other}:{variant}"),
    }
}

fn run_records() -> Vec<RunRecord> {
    let device = device();
    let mut records = Vec::new();
    let benchmarks = suite::timed(&device).expect("sized");
    for plan in benchmarks.iter().flat_map(|benchmark| &benchmark.plans) {
        let mut record = blank(plan);
        let repeat = record.params.get("repeat").and_then(Value::as_f64).expect("a repeat");
        // A device whose clock wanders by half a percent.
        let noise = 1.0 + 0.005 * (repeat - 2.0);
        record.part = Some(Part::Time);
        record.optimised = Some(true);
        let seconds = OVERHEAD + seconds(&record) * noise;
        record.time = Some(Time { seconds: Some(seconds), ..Time::default() });
        record.clocks = Some(Clocks { sm_hz: Some(HZ), ..Clocks::default() });
        record.reference = Some(ReferenceSpeed {
            launch_overhead_seconds: Some(OVERHEAD),
            ..ReferenceSpeed::default()
        });
        records.push(record);
    }
    for plan in suite::counted(&device).expect("sized").iter().flat_map(|b| &b.plans) {
        let mut record = blank(plan);
        let work = record.params.get("work").and_then(Value::as_u128).expect("work");
        record.part = Some(Part::Counters);
        record.optimised = Some(false);
        record.traffic = Some(traffic(&record.scenario, record.variant.as_deref(), work as f64));
        records.push(record);
    }
    records
}

/// What the counters say of a launch.
fn traffic(scenario: &str, variant: Option<&str>, work: f64) -> Traffic {
    let truth = truth();
    let c = |constant| truth[&constant];
    let held = c(Constant::L2DirtyShare) * c(Constant::L2Bytes);
    let before = c(Constant::L2DirtyBefore);
    let (read, written, sectors) = match (scenario, variant) {
        ("dram", Some("read")) => (work, before, 0.0),
        ("dram", _) => (0.0, work + before - held, work / 32.0),
        ("dram-sparse", Some("read")) => (64.0 * work, before, 0.0),
        ("dram-sparse", Some("write")) => {
            let lines = c(Constant::L2PartialShare) * c(Constant::L2Bytes) / 128.0;
            (c(Constant::DramFillBytes) * (work - lines).max(0.0), 0.0, work)
        }
        ("store-merge", _) => (0.0, 0.0, work * (40.0 - 7.0 * c(Constant::StoreMergeShare))),
        _ => (0.0, 0.0, work),
    };
    Traffic {
        dram_read_bytes: Some(read as u128),
        dram_write_bytes: Some(written as u128),
        l2_write_sectors: Some(sectors as u128),
        ..Traffic::default()
    }
}

fn blank(plan: &scenario::RunPlan) -> RunRecord {
    let run = plan.build().expect("a run");
    let launch = Launch { grid: run.launch.grid, block: run.launch.block, ..Launch::default() };
    let mut record = RunRecord::new(&run.scenario, Source::Measured, launch);
    record.variant = run.variant.clone();
    record.kernel = Some(KernelKind::Generated);
    record.params = run
        .params
        .iter()
        .map(|(name, value)| (name.as_str(), Value::Integer(value.integer().expect("whole"))))
        .collect();
    record.buffers = run
        .buffers
        .iter()
        .zip(run.assumed_bases())
        .map(|(buffer, base)| Buffer {
            name: buffer.name.clone(),
            base,
            bytes: buffer.bytes,
            pitch: None,
        })
        .collect();
    record
}

fn count(probe: &Probe) -> Counted {
    let mut counted = Counted::of(probe);
    let addresses: Vec<u64> = counted.active_addresses().collect();
    let (name, wavefronts) = if probe.op == "ld" {
        let lines: Vec<u64> = addresses.iter().map(|address| address / 128).collect();
        ("tag_wavefronts", wavefronts(&lines))
    } else {
        let conflict =
            addresses[0] / 4 != addresses[1] / 4 && addresses[0] / 4 % 16 == addresses[1] / 4 % 16;
        ("shared_wavefronts", 1 + u64::from(conflict))
    };
    counted.counters.insert(name.to_owned(), wavefronts);
    counted
}

fn warps() -> Vec<Counted> {
    let mut counted: Vec<Counted> = Vec::new();
    loop {
        let probes = probes(&counted);
        if probes.len() == counted.len() {
            return counted;
        }
        counted = probes.iter().map(count).collect();
    }
}

fn records() -> Records {
    // As from a file.
    let runs = run_records();
    let text: String =
        runs.iter().map(|record| serde_json::to_string(record).expect("JSON") + "\n").collect();
    let runs = record::read_runs(text.as_bytes()).map(|record| record.expect("a record")).collect();
    Records { device: device(), date: Some("2026-12-01".to_owned()), runs, warps: warps() }
}

#[test]
fn the_constants_of_a_made_up_device_come_out_again() {
    let records = records();
    let made = profile("made-up", &records, "records");
    for (constant, value) in truth() {
        let quantity = made.quantity(constant).unwrap_or_else(|| panic!("{constant} is absent"));
        let error = (quantity.value - value).abs() / value;
        assert!(error < 0.02, "{constant}: {} for {value}", quantity.value);
    }
    let l1 = made.quantity(Constant::L1BytesPerSm).expect("L1");
    // The window fits in what 8 KiB of shared memory leave.
    let off = (l1.value - 128.0 * 1024.0).abs();
    assert!(off <= l1.spread.expect("a spread"), "{l1:?}");
    // What was repeated has a spread, and it holds the truth.
    for constant in [Constant::IssueRate, Constant::DramReadRate, Constant::L2Latency] {
        let quantity = made.quantity(constant).expect("measured");
        let spread = quantity.spread.expect("a spread");
        assert!(
            spread > 0.0 && (quantity.value - truth()[&constant]).abs() <= spread,
            "{quantity:?}"
        );
    }
    let tag = made.tag.as_ref().expect("tag banks");
    let hash = TagHash { masks: tag.hash.clone(), line_bits: tag.line_bits, evidence: 0 };
    assert!(hash.same_banks(&HASH));
    assert_eq!(tag.exact, tag.checked);
    let data = made.data.as_ref().expect("data banks");
    assert_eq!((data.banks, data.bank_bytes), (16, 4));
    let text = made.to_toml().expect("TOML");
    assert_eq!(Profile::from_toml(&text), Ok(made));
}

#[test]
fn without_counters_times_alone_make_a_profile_that_says_so() {
    let mut records = records();
    records.warps.clear();
    records.runs.retain(|record| record.part == Some(Part::Time));
    let made = profile("made-up", &records, "records");
    assert_eq!(made.tag, None);
    assert_eq!(made.get(Constant::DramAccessBytes), Some(64.0), "told by the times");
    assert_eq!(made.get(Constant::DramFillBytes), None);
    let notes = made.notes.join("\n");
    assert!(notes.contains("the rule set's are assumed"), "{notes}");
    let absent = notes.lines().find(|note| note.starts_with("not measured: ")).expect(&notes);
    assert!(absent.contains("dram_fill_bytes"), "{absent}");
}

#[test]
fn nothing_is_made_of_nothing() {
    let records = Records { device: device(), date: None, runs: Vec::new(), warps: Vec::new() };
    let made = profile("made-up", &records, "records");
    assert_eq!(made.get(Constant::SmCount), Some(SMS));
    assert_eq!(made.get(Constant::DramReadRate), None);
    assert_eq!(made.get(Constant::SmClock), Some(1.6e9));
}

#[test]
fn every_line_of_the_suite_is_sized_for_small_and_large_devices() {
    let small = Device {
        multiprocessors: 4,
        l2_bytes: 1 << 20,
        shared_bytes_per_block: 48 << 10,
        ..device()
    };
    let large = Device {
        multiprocessors: 300,
        l2_bytes: 256 << 20,
        shared_bytes_per_block: 227 << 10,
        ..device()
    };
    for device in [small, large] {
        for benchmark in suite::timed(&device).expect("sized") {
            for plan in benchmark.plans {
                let run = plan.build().unwrap_or_else(|errors| panic!("{errors}"));
                let work = run.params.iter().find(|(name, _)| name.as_str() == "work");
                assert!(work.is_some(), "{} has no work", run.scenario);
            }
        }
    }
}

/// Counted warps of the recorded device, and the hash that its rule set has.
fn recorded() -> (Vec<Counted>, Vec<u64>) {
    let files: [&[u8]; 2] = [
        include_bytes!("../../../tests/hardware/h200/2026-11-30/warps/hash-bits.jsonl.gz"),
        include_bytes!("../../../tests/hardware/h200/warp-truth/warp-bits.jsonl.gz"),
    ];
    let mut counted = Vec::new();
    for file in files {
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
        counted.extend(Counted::read(&text));
    }
    let rules = simulator::RuleSet::for_arch("9.0").expect("shipped");
    (counted, rules.data().tag.as_ref().expect("a tag stage").hash.clone())
}

#[test]
fn the_recorded_device_s_hash_is_recovered() {
    let (counted, masks) = recorded();
    let hash = TagHash::recover(&counted).expect("linear");
    assert_eq!(hash.masks.len(), 2, "four banks");
    assert!(hash.same_banks(&masks), "{hash:x?}");
    // Address bit 27 was only met in warps of many lines.
    assert_eq!(hash.line_bits, 0xff_ffff_ffff & !(1 << 20));
}

/// The records of a recorded calibration of an H200.
fn recorded_calibration(name: &str) -> Records {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/hardware/h200/2026-12-01")
        .join(name);
    let unpacked = |file: &str| {
        let packed = std::fs::read(folder.join(file)).expect(file);
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(packed.as_slice()).read_to_string(&mut text).expect(file);
        text
    };
    let about = std::fs::read_to_string(folder.join("about.json")).expect("about.json");
    let about: serde_json::Value = serde_json::from_str(&about).expect("JSON");
    let runs = unpacked("runs.jsonl.gz");
    Records {
        device: serde_json::from_value(about["device"].clone()).expect("a device"),
        date: about["date"].as_str().map(str::to_owned),
        runs: record::read_runs(runs.as_bytes()).map(|run| run.expect("a record")).collect(),
        warps: Counted::read(&unpacked("warps.jsonl.gz")),
    }
}

#[test]
fn the_shipped_profile_follows_from_its_records() {
    let name = "calibration-1.records";
    let made = profile("h200", &recorded_calibration(name), name);
    assert_eq!(Some(made), Profile::shipped("h200"));
}

#[test]
fn two_calibrations_agree_within_their_spreads() {
    let [first, second] = ["calibration-1.records", "calibration-2.records"]
        .map(|name| profile(name, &recorded_calibration(name), name));
    let rows = coalescope_model::calibrate::compare::rows(&first, &second);
    let apart: Vec<&str> = rows
        .iter()
        .filter(|row| row.verdict == coalescope_model::calibrate::compare::Verdict::Disagree)
        .map(|row| row.constant.name())
        .collect();
    assert_eq!(apart, [""; 0]);
    assert!(rows.len() > 55, "{}", rows.len());
}
