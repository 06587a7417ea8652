//! One worker and its supervisor.

use crate::{Test, mock, scratch};
use coalescope_hardware::Error;
use coalescope_hardware::device::{Description, Level, Place, Shape};
use coalescope_hardware::job::{
    Cache, Contents, Dump, Job, JobArgument, JobBuffer, Launch, Outcome, WarpLaunch, WarpMemory,
    Work, measured_name,
};
use coalescope_hardware::supervisor::{self, Event, WorkerCommand};
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("a_kernel_is_timed_cold_and_warm", a_kernel_is_timed_cold_and_warm),
    ("a_crash_loses_its_own_job_only", a_crash_loses_its_own_job_only),
    ("a_hang_is_ended_and_the_rest_goes_on", a_hang_is_ended_and_the_rest_goes_on),
    ("a_fault_is_told_and_the_rest_goes_on", a_fault_is_told_and_the_rest_goes_on),
    ("too_large_a_launch_is_refused_with_numbers", too_large_a_launch_is_refused_with_numbers),
    ("ptx_that_the_driver_refuses_is_explained", ptx_that_the_driver_refuses_is_explained),
    ("the_device_itself_is_measured", the_device_itself_is_measured),
    ("contents_of_a_file_reach_the_device", contents_of_a_file_reach_the_device),
    ("warps_run_at_their_addresses", warps_run_at_their_addresses),
    ("without_a_driver_the_worker_refuses", without_a_driver_the_worker_refuses),
    ("a_gpu_that_is_not_there_is_refused", a_gpu_that_is_not_there_is_refused),
    ("a_program_that_is_no_worker_is_given_up", a_program_that_is_no_worker_is_given_up),
];

/// This binary as a worker on the mock driver.
pub(crate) fn command(variables: &[(&str, &str)]) -> WorkerCommand {
    let program = std::env::current_exe().expect("this binary");
    let mut environment =
        vec![("COALESCOPE_CUDA_DRIVER".into(), mock::driver(&scratch()).into_os_string())];
    environment.extend(variables.iter().map(|(name, value)| (name.into(), value.into())));
    WorkerCommand { command: vec![program.into(), "--worker".into()], environment }
}

pub(crate) fn ptx(entry: &str, version: &str) -> String {
    format!(
        ".version {version}\n.target sm_70\n.address_size 64\n.visible .entry {entry}(\n    .param \
         .u64 p0,\n    .param .u64 sink\n)\n{{\n    ret;\n}}\n"
    )
}

fn launch(entry: &str) -> Launch {
    Launch {
        ptx: ptx(entry, "7.0"),
        entry: entry.into(),
        level: Level::Default,
        shape: Shape::linear(4, 256),
        buffers: vec![JobBuffer {
            name: "in".into(),
            offset_bytes: 16,
            bytes: 4096,
            place: Place::Device,
            contents: Contents::Random { seed: 1, keep: u64::MAX, set: 0 },
        }],
        arguments: vec![JobArgument::Buffer(0), JobArgument::Value { bytes: 8, value: 0 }],
    }
}

fn time(id: u32, entry: &str) -> Job {
    let work = Work::Time { launch: launch(entry), cache: Cache::Cold, samples: 20 };
    Job { id, limit_s: 1.0, work }
}

/// Does the jobs and returns the outcomes in order.
fn outcomes(worker: &WorkerCommand, jobs: &[Job]) -> Result<Vec<Outcome>, Error> {
    let mut outcomes = Vec::new();
    supervisor::run(worker, 0, jobs, |event| {
        if let Event::Done(job, outcome) = event {
            assert_eq!(job, &jobs[outcomes.len()], "in order, one each");
            outcomes.push(*outcome);
        }
        Ok(())
    })?;
    Ok(outcomes)
}

fn message(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Failed { message, .. } => message,
        other => panic!("expected a failure, got {other:?}"),
    }
}

fn log_of(name: &str) -> std::path::PathBuf {
    let path = scratch().join(format!("{name}.log"));
    let _ = std::fs::remove_file(&path);
    path
}

fn a_kernel_is_timed_cold_and_warm() {
    let log = log_of("timed");
    let worker = command(&[
        ("MOCK_CUDA_TIMES", "coalescope_flush=0.1;coalescope_r=0.5;coalescope_delay=0.05"),
        ("MOCK_CUDA_LOG", log.to_str().expect("text")),
    ]);
    let mut warm = time(1, &measured_name(1));
    if let Work::Time { cache, .. } = &mut warm.work {
        *cache = Cache::Warm;
    }
    let mut described: Option<Description> = None;
    let mut outcomes = Vec::new();
    supervisor::run(&worker, 0, &[time(0, &measured_name(0)), warm], |event| {
        match event {
            Event::Ready(description) => described = Some(description.clone()),
            Event::Done(_, outcome) => outcomes.push(*outcome),
        }
        Ok(())
    })
    .expect("both are done");
    let described = described.expect("a description");
    assert_eq!(described.compute_capability, (9, 0));
    assert_eq!((described.name.as_str(), described.l2_bytes), ("Mock GPU 0", 1 << 20));

    for outcome in &outcomes {
        let Outcome::Time { timed, bases, resources } = outcome else { panic!("{outcome:?}") };
        assert_eq!(timed.samples_s.len(), 20);
        // The flush and the delay lie outside the marks.
        assert!(timed.samples_s.iter().all(|s| (s - 0.5e-3).abs() < 1e-6), "{timed:?}");
        assert_eq!(bases.len(), 1);
        assert_eq!(resources.registers, 24);
    }

    let log = std::fs::read_to_string(&log).expect("a log");
    let count = |part: &str| log.lines().filter(|line| line.starts_with(part)).count();
    // First launch, warm-up, samples; twice that of samples when warm.
    assert_eq!(count(&measured_name(0)), 1 + 3 + 20);
    assert_eq!(count(&measured_name(1)), 1 + 3 + 40);
    assert_eq!(count("coalescope_flush"), 20);
    assert_eq!(count("coalescope_delay"), 20);
    // The kernel gets the address of the first element.
    let Outcome::Time { bases, .. } = &outcomes[0] else { panic!() };
    let first = log.lines().find(|line| line.starts_with(&measured_name(0))).expect("a launch");
    assert!(
        first.contains(&format!(
            "O4 grid 4,1,1 block 256,1,1 shared 0 arguments {} 0",
            bases[0] + 16
        )),
        "{first}"
    );
}

fn a_crash_loses_its_own_job_only() {
    let worker = command(&[("MOCK_CUDA_CRASH", "crash")]);
    let jobs = [time(0, "fine"), time(1, "crash"), time(2, "also_fine")];
    let outcomes = outcomes(&worker, &jobs).expect("all are tried");
    assert!(matches!(outcomes[0], Outcome::Time { .. }));
    assert!(message(&outcomes[1]).contains("signal"), "{outcomes:?}");
    assert!(matches!(outcomes[2], Outcome::Time { .. }));
}

fn a_hang_is_ended_and_the_rest_goes_on() {
    let worker = command(&[("MOCK_CUDA_HANG", "hangs")]);
    let mut jobs = [time(0, "hangs"), time(1, "fine")];
    jobs[0].limit_s = 0.2;
    let start = Instant::now();
    let outcomes = outcomes(&worker, &jobs).expect("all are tried");
    assert!(
        message(&outcomes[0]).contains("did not end within its limit of 0.2 s"),
        "{outcomes:?}"
    );
    assert!(matches!(outcomes[1], Outcome::Time { .. }));
    assert!(start.elapsed() < Duration::from_secs(20), "the worker was ended, not waited for");
}

fn a_fault_is_told_and_the_rest_goes_on() {
    let worker = command(&[("MOCK_CUDA_FAULT", "fault")]);
    let jobs = [time(0, "fault"), time(1, "fine")];
    let outcomes = outcomes(&worker, &jobs).expect("all are tried");
    assert!(message(&outcomes[0]).contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{outcomes:?}");
    assert!(matches!(outcomes[1], Outcome::Time { .. }));
}

fn too_large_a_launch_is_refused_with_numbers() {
    let worker = command(&[("MOCK_CUDA_FREE", "65536")]);
    let mut large = launch("large");
    large.buffers.push(JobBuffer {
        name: "huge".into(),
        bytes: 1 << 20,
        ..large.buffers[0].clone()
    });
    let mut wide = launch("wide");
    wide.shape.block = [1024, 2, 1];
    let mut tall = launch("tall");
    tall.shape.grid = [1, 65536, 1];
    let once = |id, launch| Job { id, limit_s: 1.0, work: Work::Once(launch) };
    let jobs = [once(0, large), once(1, wide), once(2, tall)];
    let outcomes = outcomes(&worker, &jobs).expect("all are tried");
    let text = message(&outcomes[0]);
    assert!(
        text.contains("`huge` with 1048592 bytes") && text.contains("65536 are free"),
        "{text}"
    );
    assert!(message(&outcomes[1]).contains("threads a block is 2048"), "{outcomes:?}");
    assert!(message(&outcomes[2]).contains("the grid's y extent is 65536"), "{outcomes:?}");
}

fn ptx_that_the_driver_refuses_is_explained() {
    let worker = command(&[("MOCK_CUDA_PTX_VERSION", "8.0")]);
    let mut new = launch("new");
    new.ptx = ptx("new", "9.0");
    let mut broken = launch("broken");
    broken.ptx = "nonsense".into();
    let once = |id, launch| Job { id, limit_s: 1.0, work: Work::Once(launch) };
    let outcomes = outcomes(&worker, &[once(0, new), once(1, broken)]).expect("all are tried");
    let text = message(&outcomes[0]);
    assert!(text.contains("CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)"), "{text}");
    assert!(text.contains("install a newer driver"), "{text}");
    let text = message(&outcomes[1]);
    assert!(text.contains("Missing .version directive"), "the assembler's own words: {text}");
}

fn the_device_itself_is_measured() {
    let worker = command(&[("MOCK_CUDA_TIMES", "coalescope_empty=0.007")]);
    let work = Work::Reference { copy_bytes: 1 << 20, samples: 10 };
    let outcomes = outcomes(&worker, &[Job { id: 0, limit_s: 1.0, work }]).expect("done");
    let Outcome::Reference(reference) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert_eq!(reference.copy_bytes, 1 << 20);
    // The mock copies at 4 TB/s, read and write, after 2 µs.
    let expected = 2e-6 + 2.0 * 1048576.0 / 4e12;
    assert_eq!(reference.copy_s.len(), 10);
    assert!(reference.copy_s.iter().all(|s| (s - expected).abs() < 1e-8), "{reference:?}");
    assert!(reference.empty_kernel_s.iter().all(|s| (s - 7e-6).abs() < 1e-8), "{reference:?}");
}

fn contents_of_a_file_reach_the_device() {
    // The results buffer is read back: pass it as the kernel's buffer.
    let file = scratch().join("contents.bin");
    std::fs::write(&file, [1u8, 2, 3, 4]).expect("written");
    let worker = command(&[]);
    let mut launch = launch("reads");
    launch.buffers[0].contents = Contents::File(file);
    launch.arguments = vec![JobArgument::Buffer(0), JobArgument::Results];
    let before = vec![Dump { buffer: 0, path: scratch().join("before.bin") }];
    let after = vec![Dump { buffer: 0, path: scratch().join("after.bin") }];
    let work = Work::Verify { launch: launch.clone(), result_words: 3, before, after };
    let mut missing = launch;
    missing.buffers[0].contents = Contents::File(scratch().join("no such file"));
    let jobs =
        [Job { id: 0, limit_s: 1.0, work }, Job { id: 1, limit_s: 1.0, work: Work::Once(missing) }];
    let outcomes = outcomes(&worker, &jobs).expect("all are tried");
    let Outcome::Verify { words, bases } = &outcomes[0] else { panic!("{outcomes:?}") };
    assert_eq!((words.as_slice(), bases.len()), ([0u64; 3].as_slice(), 1));
    for name in ["before.bin", "after.bin"] {
        let bytes = std::fs::read(scratch().join(name)).expect("dumped");
        assert_eq!((bytes.len(), &bytes[..6]), (4096, &[1u8, 2, 3, 4, 0, 0][..]));
    }
    assert!(message(&outcomes[1]).contains("no such file"), "{outcomes:?}");
}

fn warps_run_at_their_addresses() {
    let log = log_of("warps");
    let worker = command(&[("MOCK_CUDA_LOG", log.to_str().expect("text"))]);
    let entry = measured_name(7);
    let ptx = format!(
        ".version 7.0\n.target sm_70\n.visible .entry {entry}(\n    .param .align 8 .b8 \
         addresses[256],\n    .param .u32 mask,\n    .param .u32 zero,\n    .param .u64 \
         sink\n)\n{{\n    ret;\n}}\n"
    );
    let warp = |id, addresses: Vec<u64>| Job {
        id,
        limit_s: 1.0,
        work: Work::Warp(WarpLaunch {
            ptx: ptx.clone(),
            entry: entry.clone(),
            mask: 0b11,
            width: 4,
            addresses,
            memory: WarpMemory::Global,
            shared_addresses: None,
        }),
    };
    let far: Vec<u64> = (0..32).map(|lane| 0x7f12_3456_7800 + (lane << 33)).collect();
    let low: Vec<u64> = (0..32).map(|lane| 4 * lane).collect();
    let outcomes = outcomes(&worker, &[warp(0, far.clone()), warp(1, low)]).expect("done");
    let Outcome::Warp { addresses, exact: true } = &outcomes[0] else { panic!("{outcomes:?}") };
    assert_eq!(addresses[..3], [far[0], far[1], 0]);
    let Outcome::Warp { addresses, exact: false } = &outcomes[1] else { panic!("{outcomes:?}") };
    assert_eq!(addresses[1] - addresses[0], 4);
    let log = std::fs::read_to_string(&log).expect("a log");
    assert!(log.contains(&format!("{entry} O0 grid 1,1,1 block 32,1,1")), "{log}");
    assert!(log.contains(&format!("arguments {} 3 0 0", far[0])), "{log}");
}

fn without_a_driver_the_worker_refuses() {
    let mut worker = command(&[]);
    worker.environment = vec![("COALESCOPE_CUDA_DRIVER".into(), "/nonexistent/libcuda.so".into())];
    let error = outcomes(&worker, &[time(0, "fine")]).expect_err("no driver");
    assert_eq!(error.exit_code(), 3);
    assert!(error.to_string().contains("no NVIDIA driver found"), "{error}");
}

fn a_gpu_that_is_not_there_is_refused() {
    let worker = command(&[("MOCK_CUDA_DEVICES", "2")]);
    let error = supervisor::run(&worker, 2, &[time(0, "fine")], |_| Ok(())).expect_err("two only");
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("there is no GPU 2: this machine has 2, numbered 0 to 1"));
}

fn a_program_that_is_no_worker_is_given_up() {
    let mut worker = command(&[]);
    worker.command = vec!["sh".into(), "-c".into(), "echo no worker >&2; exit 7".into()];
    let error = outcomes(&worker, &[time(0, "fine")]).expect_err("it ends at once");
    let text = error.to_string();
    assert!(text.contains("exit status: 7") && text.contains("no worker"), "{text}");
    worker.command = vec!["/nonexistent/program".into()];
    let error = outcomes(&worker, &[time(0, "fine")]).expect_err("it cannot start");
    assert!(error.to_string().contains("cannot be started"), "{error}");
}
