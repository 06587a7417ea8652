//! Whole campaigns on the mock driver and the mock profiler.
//!
//! The mock executes no kernel, so every verifying launch has to report a
//! difference here.

use crate::warps::profiler;
use crate::worker::command;
use crate::{Test, scratch};
use coalescope_hardware::measure::{self, CounterSet, Options, Point, Summary};
use record::{KernelKind, Part, RunRecord, read_runs};
use scenario::{Embedded, Options as RunOptions, Scenario};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("points_are_timed_and_counted", points_are_timed_and_counted),
    ("a_finished_file_has_nothing_to_resume", a_finished_file_has_nothing_to_resume),
    ("a_killed_campaign_is_resumed", a_killed_campaign_is_resumed),
    ("what_leaves_its_buffer_is_not_launched", what_leaves_its_buffer_is_not_launched),
    ("a_crash_costs_one_record", a_crash_costs_one_record),
    ("without_a_profiler_times_are_taken", without_a_profiler_times_are_taken),
    ("hand_written_kernels_run_too", hand_written_kernels_run_too),
    ("an_old_driver_costs_the_hand_written_kernel", an_old_driver_costs_the_hand_written_kernel),
    ("large_footprints_are_counted_when_asked", large_footprints_are_counted_when_asked),
    ("each_point_can_be_launched_once", each_point_can_be_launched_once),
    ("a_forbidden_profiler_is_said_once", a_forbidden_profiler_is_said_once),
    ("an_unknown_architecture_is_said", an_unknown_architecture_is_said),
];

const STRIDED: &str = r#"
title = "Strided"
[params]
n = 4096
stride = 2
[launch]
grid = ["(n + 255) / 256"]
block = [256]
[buffers]
in = { type = "float", shape = ["n * stride"] }
out = { type = "float", shape = ["n"], offset_bytes = 64 }
[kernel]
code = '''
int i = blockIdx.x * blockDim.x + threadIdx.x;
if (i < n) out[i] = in[i * stride];
'''
[sweep]
stride = [1, 2]
"#;

const GATHER: &str = r#"
title = "Gather"
[params]
n = 1024
[launch]
grid = ["n / 256"]
block = [256]
[buffers]
col = { type = "int", shape = ["n"], init = "hash(i) % n" }
x = { type = "float", shape = ["n"] }
y = { type = "float", shape = ["n"] }
[kernel]
file = "gather.cu"
[counting]
params = { n = 512 }
"#;

const GATHER_CU: &str = "\
extern \"C\" __global__ void gather(const int *col, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[col[i]];
}
";

const GATHER_PTX: &str = "\
.version 9.0
.target sm_75
.address_size 64
.visible .entry gather(
	.param .u64 gather_param_0,
	.param .u64 gather_param_1,
	.param .u64 gather_param_2,
	.param .u32 gather_param_3
)
{
	ret;
}
";

const FILES: &[(&str, &[u8])] =
    &[("gather.cu", GATHER_CU.as_bytes()), ("gather.ptx", GATHER_PTX.as_bytes())];

fn files() -> Embedded<'static> {
    Embedded(FILES)
}

fn points<'a>(texts: &[(&str, &str)], files: &'a Embedded<'a>) -> Vec<Point<'a>> {
    let mut points = Vec::new();
    for (name, text) in texts {
        let path = format!("{name}.toml");
        let scenario = Scenario::from_text(&path, text, files).expect("a scenario");
        let plans = scenario.runs(&[], RunOptions::default()).expect("runs");
        let counting = scenario.runs(&[], RunOptions::for_counting()).expect("runs");
        points.extend(plans.into_iter().zip(counting).map(|(plan, counting)| Point {
            plan,
            counting,
            has_counting: scenario.has_counting(),
            files,
        }));
    }
    points
}

fn options(name: &str, variables: &[(&str, &str)]) -> Options {
    let output = scratch().join(format!("measure-{name}.jsonl"));
    let _ = std::fs::remove_file(&output);
    let mut options = Options::new(output, command(variables));
    options.copy_bytes = 1 << 20;
    options.profiler = Some(profiler());
    options.counters = true;
    options
}

fn records(path: &Path) -> Vec<RunRecord> {
    let bytes = std::fs::read(path).expect("output");
    read_runs(&bytes[..]).map(|record| record.expect("a record")).collect()
}

fn run(texts: &[(&str, &str)], options: &Options) -> Summary {
    let files = files();
    measure::run(&points(texts, &files), options, &mut |_| ()).expect("a campaign")
}

fn points_are_timed_and_counted() {
    let log = scratch().join("measure-all.log");
    let _ = std::fs::remove_file(&log);
    let options = options(
        "all",
        &[
            ("MOCK_CUDA_TIMES", "coalescope_t=0.04;coalescope_empty=0.005"),
            ("MOCK_CUDA_LOG", log.to_str().expect("text")),
        ],
    );
    let summary = run(&[("strided", STRIDED)], &options);
    assert_eq!((summary.timed, summary.counted, summary.left), (2, 4, 0), "{summary:?}");
    // Nothing is executed, so no lane is seen.
    assert_eq!(summary.verified, 0);
    assert_eq!(summary.failures.len(), 2, "{:?}", summary.failures);
    assert!(summary.failures[0].1.contains("was executed by 0 lanes on the device, 4096 expected"));
    assert_eq!(summary.profiled.0, 4);
    assert_eq!(summary.copy_bytes_per_s.len(), 1);

    let records = records(&options.output);
    assert_eq!(records.len(), 6);
    let timed = &records[0];
    assert_eq!((timed.part, timed.kernel), (Some(Part::Time), Some(KernelKind::Generated)));
    assert_eq!((timed.optimised, timed.verified), (Some(true), Some(false)));
    assert_eq!(timed.samples.len(), 25);
    let seconds = timed.time.as_ref().and_then(|time| time.seconds).expect("a median");
    assert!((seconds - 40e-6).abs() < 1e-7, "{seconds}");
    assert!(timed.spread.is_some());
    // 4096 floats read and as many written.
    let rate = timed.bandwidth.as_ref().and_then(|b| b.requested_bytes_per_s).expect("a rate");
    assert!((rate / (2.0 * 4096.0 * 4.0 / seconds) - 1.0).abs() < 1e-6, "{rate}");
    let reference = timed.reference.as_ref().expect("the device's own speed");
    assert!((reference.launch_overhead_seconds.expect("overhead") - 5e-6).abs() < 1e-8);
    assert_eq!((timed.arch.as_deref(), timed.device.as_deref()), (Some("9.0"), Some("Mock GPU 0")));
    assert_eq!(timed.buffers[1].name, "out");
    assert_eq!(timed.buffers[1].base % 512, 64, "the offset is in the base");
    assert!(timed.tools.contains_key("ncu") && timed.date.is_some());

    let counted: Vec<&RunRecord> =
        records.iter().filter(|record| record.part == Some(Part::Counters)).collect();
    let levels: Vec<Option<bool>> = counted.iter().map(|record| record.optimised).collect();
    assert_eq!(levels, [Some(false), Some(false), Some(true), Some(true)]);
    let metric = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum";
    assert_eq!(counted[0].counters[metric].as_u128(), Some(1000 + metric.len() as u128));
    assert!(counted[0].counters.keys().all(|name| !name.contains("shared_op")));
    assert!(!counted[2].counters.contains_key("dram__sectors_read.sum"), "few are asked for");
    // The mock counts by the launch's place in its process.
    assert_eq!(counted[2].warnings, Vec::<String>::new());
    assert_eq!(counted[3].warnings, Vec::<String>::new());

    let log = std::fs::read_to_string(&log).expect("a log");
    assert!(log.contains("coalescope_t000000_generated O4 grid 16,1,1 block 256,1,1"), "{log}");
    assert!(log.contains("coalescope_v000000 O4"), "{log}");
}

fn a_finished_file_has_nothing_to_resume() {
    let mut options = options("again", &[]);
    run(&[("strided", STRIDED)], &options);
    let before = std::fs::read(&options.output).expect("output");
    options.resume = true;
    let summary = run(&[("strided", STRIDED)], &options);
    assert_eq!((summary.timed, summary.counted, summary.done_before), (0, 0, 6));
    assert_eq!(std::fs::read(&options.output).expect("output"), before);
    // Another cache state is another measurement.
    options.cache = coalescope_hardware::job::Cache::Warm;
    assert_eq!(run(&[("strided", STRIDED)], &options).timed, 2);
}

/// A campaign of forty points whose launches take real time.
fn long_campaign() -> String {
    let strides: Vec<String> = (1..=40).map(|stride| stride.to_string()).collect();
    STRIDED.replace("stride = [1, 2]", &format!("stride = [{}]", strides.join(", ")))
}

fn long_options(output: &Path) -> Options {
    let mut options = Options::new(output, command(&[("MOCK_CUDA_SLEEP_MS", "1")]));
    options.copy_bytes = 1 << 16;
    options.samples = 5;
    options.resume = true;
    options
}

/// What `--measure FILE` does.
pub(crate) fn child(output: &Path) {
    let text = long_campaign();
    run(&[("strided", &text)], &long_options(output));
}

fn a_killed_campaign_is_resumed() {
    let output = scratch().join("measure-killed.jsonl");
    let _ = std::fs::remove_file(&output);
    let whole_lines = || {
        let text = std::fs::read_to_string(&output).unwrap_or_default();
        text.matches('\n').count()
    };
    for wanted in [3, 20] {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this binary"))
            .arg("--measure")
            .arg(&output)
            .spawn()
            .expect("the campaign starts");
        let start = Instant::now();
        while whole_lines() < wanted && start.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // SIGKILL: nothing can be tidied up.
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert!((wanted..40).contains(&whole_lines()), "{} lines", whole_lines());
    }
    // As if the last write had been cut, too.
    let mut bytes = std::fs::read(&output).expect("output");
    bytes.truncate(bytes.len() - 7);
    std::fs::write(&output, bytes).expect("cut");

    let text = long_campaign();
    let summary = run(&[("strided", &text)], &long_options(&output));
    assert!(summary.done_before >= 19 && summary.timed == 40 - summary.done_before, "{summary:?}");
    let records = records(&output);
    let points: BTreeSet<String> = records.iter().map(RunRecord::point).collect();
    assert_eq!((records.len(), points.len()), (40, 40), "each point once");
}

fn what_leaves_its_buffer_is_not_launched() {
    let log = scratch().join("measure-outside.log");
    let _ = std::fs::remove_file(&log);
    let mut options = options("outside", &[("MOCK_CUDA_LOG", log.to_str().expect("text"))]);
    options.counters = false;
    // With a stride of 2 the last element is one that the buffer still has; with
    // 1 it is not.
    let bad = STRIDED.replace("in[i * stride]", "in[i * stride + 1]");
    let summary = run(&[("outside", &bad), ("strided", STRIDED)], &options);
    assert_eq!(summary.timed, 3, "the good points go on");
    let records = records(&options.output);
    let errors: Vec<&str> = records.iter().filter_map(|record| record.error.as_deref()).collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("in[i * stride + 1]"), "the place: {}", errors[0]);
    let log = std::fs::read_to_string(&log).expect("a log");
    assert!(!log.contains("coalescope_t000000") && log.contains("coalescope_t000001"), "{log}");
}

fn a_crash_costs_one_record() {
    let mut options = options("crash", &[("MOCK_CUDA_CRASH", "coalescope_t000000")]);
    options.counters = false;
    let summary = run(&[("strided", STRIDED)], &options);
    assert_eq!(summary.timed, 1);
    let records = records(&options.output);
    assert!(records[0].error.as_deref().expect("an error").contains("signal"), "{records:?}");
    assert!(records[1].error.is_none());
    // Failed records are left alone, and tried again when asked.
    options.resume = true;
    options.worker = command(&[]);
    assert_eq!(run(&[("strided", STRIDED)], &options).timed, 0);
    options.retry = true;
    assert_eq!(run(&[("strided", STRIDED)], &options).timed, 1);
}

fn without_a_profiler_times_are_taken() {
    let mut options = options("times", &[]);
    options.profiler = Some("/nonexistent/ncu".into());
    let summary = run(&[("strided", STRIDED)], &options);
    assert_eq!((summary.timed, summary.counted), (2, 0));
    assert!(summary.notes[0].contains("COALESCOPE_NCU"), "{:?}", summary.notes);
}

fn hand_written_kernels_run_too() {
    let log = scratch().join("measure-hand.log");
    let _ = std::fs::remove_file(&log);
    let options = options("hand", &[("MOCK_CUDA_LOG", log.to_str().expect("text"))]);
    let summary = run(&[("gather", GATHER)], &options);
    assert_eq!((summary.timed, summary.counted), (2, 3), "{summary:?}");
    let records = records(&options.output);
    let hand: Vec<&RunRecord> =
        records.iter().filter(|record| record.kernel == Some(KernelKind::HandWritten)).collect();
    assert_eq!(hand.len(), 2);
    assert_eq!(hand[0].params.get("n").map(ToString::to_string).as_deref(), Some("1024"));
    assert_eq!(hand[1].params.get("n").map(ToString::to_string).as_deref(), Some("512"));
    // The mock counts the second launch of a process otherwise than the first.
    assert!(hand[1].warnings[0].starts_with("compiler_changed: "), "{:?}", hand[1].warnings);
    let log = std::fs::read_to_string(&log).expect("a log");
    let launch = log.lines().find(|line| line.starts_with("coalescope_t000000_hand_written"));
    // Three addresses, and n as an int.
    let launch = launch.expect("launched");
    assert!(launch.ends_with(" 1024"), "{launch}");
    assert_eq!(launch.split(" arguments ").nth(1).expect("arguments").split(' ').count(), 4);
    // The indices are computed on the device.
    assert!(log.contains("coalescope_init O4 grid 4,1,1 block 256,1,1"), "{log}");
}

fn an_old_driver_costs_the_hand_written_kernel() {
    let mut options = options("old", &[("MOCK_CUDA_PTX_VERSION", "8.0")]);
    options.counters = false;
    let summary = run(&[("gather", GATHER)], &options);
    assert_eq!(summary.timed, 1);
    let records = records(&options.output);
    let error = records.iter().find_map(|record| record.error.as_deref()).expect("an error");
    assert!(error.contains("install a newer driver"), "{error}");
}

fn large_footprints_are_counted_when_asked() {
    let large = STRIDED.replace("n = 4096", "n = 16777216").replace("[1, 2]", "[1]");
    let mut options = options("large", &[]);
    options.time = false;
    let summary = run(&[("large", &large)], &options);
    assert_eq!(summary.counted, 0);
    assert!(summary.skipped[0].1.contains("--full"), "{:?}", summary.skipped);
    options.full = true;
    options.resume = true;
    options.counter_set = CounterSet::Minimal;
    assert_eq!(run(&[("large", &large)], &options).counted, 2);
    let records = records(&options.output);
    assert!(!records[0].counters.contains_key("dram__sectors_read.sum"));
}

fn each_point_can_be_launched_once() {
    let log = scratch().join("measure-once.log");
    let _ = std::fs::remove_file(&log);
    let mut options = options("once", &[("MOCK_CUDA_LOG", log.to_str().expect("text"))]);
    options.once = true;
    options.counters = false;
    let summary = run(&[("gather", GATHER), ("strided", STRIDED)], &options);
    assert!(summary.failures.is_empty(), "{summary:?}");
    assert_eq!(std::fs::read(&options.output).expect("output"), b"");
    let log = std::fs::read_to_string(&log).expect("a log");
    assert!(log.lines().any(|line| line.starts_with("kernel O0 grid 2,1,1")), "{log}");
    assert!(!log.contains("coalescope_flush"));
}

fn a_forbidden_profiler_is_said_once() {
    let options = options("forbidden", &[("MOCK_NCU", "forbidden")]);
    let summary = run(&[("strided", STRIDED)], &options);
    assert_eq!((summary.timed, summary.counted), (2, 0));
    assert_eq!(summary.notes.len(), 1, "{:?}", summary.notes);
    assert!(summary.notes[0].contains("ERR_NVGPUCTRPERM"));
}

fn an_unknown_architecture_is_said() {
    let mut options = options("unknown-arch", &[("MOCK_CUDA_MAJOR", "99")]);
    options.counters = false;
    let summary = run(&[("strided", STRIDED)], &options);
    assert_eq!(summary.timed, 2, "{summary:?}");
    let [note] = &summary.notes[..] else { panic!("{:?}", summary.notes) };
    assert!(note.contains("no rule set for compute capability 99.0"), "{note}");
    assert!(note.contains("taken from CC 9.0"), "{note}");
}
