//! The recorded campaign against the model: every counter of every shipped run
//! that the rule set claims to predict.
//!
//! `tests/hardware/h200/2026-11-30` says how the records came about. The model
//! counts each launch with the buffers where the device had them.

use flate2::read::GzDecoder;
use record::{KernelKind, KernelTotals, Level, MetricMap, OpClass, Part, RunRecord, read_runs};
use scenario::count::{self, Options};
use scenario::{Run, Scenario};
use simulator::{Field, RuleSet, Totals};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

const CAMPAIGN: &str = "tests/hardware/h200/2026-11-30";

fn records(name: &str) -> Vec<RunRecord> {
    let path = Path::new(CAMPAIGN).join(name);
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    read_runs(std::io::BufReader::new(GzDecoder::new(file)))
        .map(|record| record.expect("a run record"))
        .collect()
}

/// Fields that whole kernels of many warps are compared by. Wavefronts and
/// conflicts are not among the hardware counters: these also count arbitration
/// between warps. The instruction-level counters are free of it.
fn is_claimed(field: &str, level: Level) -> bool {
    match field {
        "instructions" | "requests" | "sectors" | "unique_sectors" | "tags" | "unique_bytes" => {
            true
        }
        "data_wavefronts" => level == Level::Instruction,
        _ => false,
    }
}

/// The run of a record, built from the scenario that ships now.
fn run_of(record: &RunRecord) -> Run {
    let path = format!("scenarios/{}.toml", record.scenario);
    let scenario = Scenario::load(&path).unwrap_or_else(|errors| panic!("{path}: {errors}"));
    let plans = scenario.runs(&[], scenario::Options::default()).expect("runs");
    let params: BTreeMap<&str, String> =
        record.params.iter().map(|(name, value)| (name, format!("{value:?}"))).collect();
    for plan in plans {
        let run = plan.build().unwrap_or_else(|errors| panic!("{path}: {errors}"));
        let own: BTreeMap<&str, String> = run
            .params
            .iter()
            .map(|(name, value)| (name.as_str(), format!("{:?}", record::Value::from(value.value))))
            .collect();
        if run.variant == record.variant && own == params {
            return run;
        }
    }
    panic!("{} is no shipped run any more: record the campaign again", record.point());
}

/// What differs, and how many counters were compared.
fn compare(record: &RunRecord, rules: &RuleSet) -> (usize, Vec<String>) {
    let run = run_of(record);
    let bases: Vec<u64> = run
        .buffers
        .iter()
        .zip(&record.buffers)
        .map(|(buffer, placed)| placed.base - buffer.offset_bytes)
        .collect();
    let counts = count::count(&run, rules, &bases, &Options::default())
        .unwrap_or_else(|error| panic!("{}: {error:?}", record.point()));
    let predicted = KernelTotals::of(
        run.program.sites.iter().zip(&counts.sites).map(|(site, counts)| (site.op, &counts.totals)),
    );
    let classes: BTreeSet<OpClass> = predicted.by_class.keys().copied().collect();
    let mut compared = 0;
    let mut differences = Vec::new();
    for metric in MetricMap::shipped().on("9.0") {
        let Some(counted) = record.counters.get(&metric.name) else { continue };
        if !is_claimed(&metric.field, metric.level) {
            continue;
        }
        let value = |totals: &Totals| match metric.field.as_str() {
            "instructions" => Some(totals.instructions),
            name => Field::ALL
                .into_iter()
                .find(|field| field.name() == name)
                .and_then(|field| totals.get(field)),
        };
        // A metric of the whole kernel sums over global memory's classes.
        let parts: Vec<OpClass> = match metric.class {
            Some(class) => vec![class],
            None => {
                classes.iter().copied().filter(|class| class.name().starts_with("global")).collect()
            }
        };
        // The instruction-level tags have each line of an atomic once; `tags`
        // have it once for each round.
        let is_atomic = |class: &OpClass| matches!(class, OpClass::GlobalRed | OpClass::GlobalAtom);
        if metric.field == "tags" && metric.class.is_none() && parts.iter().any(is_atomic) {
            continue;
        }
        let known = || parts.iter().filter_map(|class| predicted.by_class.get(class));
        // Absent where there is no such access, where the rule set does not
        // define it, or where the launch is too large to count it.
        if known().next().is_none() || known().any(|totals| value(totals).is_none()) {
            continue;
        }
        let sum: u128 = known().filter_map(value).sum();
        let exact = known().all(|totals| totals.exact);
        compared += 1;
        let counted = metric.field_value(counted).and_then(|value| value.as_u128());
        if counted != Some(sum) {
            differences.push(format!(
                "{}: {} = {}, predicted {sum}{}",
                record.point(),
                metric.name,
                counted.map_or("?".into(), |value| value.to_string()),
                if exact { "" } else { " (not exact)" }
            ));
        }
    }
    (compared, differences)
}

#[test]
fn every_claimed_counter_of_every_shipped_run_is_predicted() {
    let rules = RuleSet::for_arch("9.0").expect("a rule set");
    let counted: Vec<RunRecord> = records("counters.jsonl.gz")
        .into_iter()
        .filter(|record| {
            record.part == Some(Part::Counters)
                && record.kernel == Some(KernelKind::Generated)
                && record.optimised == Some(false)
        })
        .collect();
    let (mut compared, mut report, mut differing) = (0, String::new(), 0);
    for record in &counted {
        assert_eq!(record.error, None, "{}", record.point());
        let (of_it, differences) = compare(record, &rules);
        compared += of_it;
        differing += usize::from(!differences.is_empty());
        for difference in differences {
            let _ = writeln!(report, "{difference}");
        }
    }
    println!("{compared} counters of {} runs compared; {differing} runs differ", counted.len());
    assert!(counted.len() >= 314, "every shipped run is recorded: {}", counted.len());
    assert!(report.is_empty(), "{report}");
}

/// The hand-written kernels do what the generated ones do, or their records say
/// what the compiler changed.
#[test]
fn hand_written_kernels_have_the_same_counts() {
    let all = records("counters.jsonl.gz");
    let of = |kernel: KernelKind, optimised: bool| {
        all.iter().filter(move |record| {
            record.kernel == Some(kernel) && record.optimised == Some(optimised)
        })
    };
    let written: BTreeMap<String, &RunRecord> =
        of(KernelKind::Generated, false).map(|record| (record.point(), record)).collect();
    let (mut same, mut changed) = (0, 0);
    for record in of(KernelKind::HandWritten, true) {
        let generated = written[&record.point()];
        let differs = record.counters.iter().any(|(name, counted)| {
            let metric = MetricMap::shipped().by_name(name);
            // The assembler may choose another instruction for the same access:
            // the campaign's README says where.
            let claimed = metric.is_some_and(|metric| {
                is_claimed(&metric.field, metric.level) && metric.field != "data_wavefronts"
            });
            claimed && generated.counters.get(name) != Some(counted)
        });
        let told = record.warnings.iter().any(|text| text.starts_with("compiler_changed:"));
        assert!(
            !differs || told,
            "{}: its counts differ, and the record says nothing",
            record.point()
        );
        if told { changed += 1 } else { same += 1 }
    }
    assert_eq!((same, changed), (218, 16));
}

/// A copy of 16 bytes a lane is as fast as the driver's own, so the harness is
/// no bottleneck; and hand-written and generated kernels take the same time,
/// where the compiler did not unroll a loop.
#[test]
fn times_are_those_of_the_device() {
    let times = records("time.jsonl.gz");
    let seconds =
        |record: &RunRecord| record.time.as_ref().and_then(|time| time.seconds).expect("a time");
    let vector_copy = times
        .iter()
        .find(|record| {
            record.kernel == Some(KernelKind::Generated)
                && record.scenario == "widths"
                && record.variant.as_deref() == Some("float4")
        })
        .expect("a copy by float4");
    let copy = vector_copy.reference.as_ref().and_then(|speed| speed.copy_bytes_per_s);
    let own = vector_copy.bandwidth.as_ref().and_then(|rates| rates.requested_bytes_per_s);
    let share = own.expect("a bandwidth") / copy.expect("a copy");
    assert!(share >= 0.98, "{share} of the copy");

    let generated: BTreeMap<String, f64> = times
        .iter()
        .filter(|record| record.kernel == Some(KernelKind::Generated))
        .map(|record| (record.point(), seconds(record)))
        .collect();
    let ratios: Vec<f64> = times
        .iter()
        .filter(|record| record.kernel == Some(KernelKind::HandWritten))
        .map(|record| seconds(record) / generated[&record.point()])
        .collect();
    let within = |share: f64| ratios.iter().filter(|ratio| (*ratio - 1.0).abs() <= share).count();
    assert_eq!((ratios.len(), within(0.03), within(0.10)), (234, 202, 221));
    assert!(times.iter().all(|record| record.samples.len() >= 20 && record.error.is_none()));
    assert!(times.iter().filter(|record| record.verified == Some(true)).count() >= 312);
}
