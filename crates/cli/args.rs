//! What can be typed: the commands and their options.
//!
//! These structs record what was typed; each command validates it where it
//! starts.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Predicts, measures and explains how the 32 lanes of a GPU warp turn memory
/// instructions into transactions.
#[derive(Debug, Parser)]
#[command(
    name = "coalescope",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Examples:
  coalescope sim scenarios/strided.toml         how a strided read falls on sectors
  coalescope sim transpose --arch 7.0 --json    a shipped scenario, as JSON Lines
  coalescope explain strided --set stride=2     lane by lane, and why
  coalescope check scenarios --min-efficiency 80%   fail if an access wastes more
  coalescope diff transpose:naive transpose:tiled   two layouts side by side
  coalescope emit transpose --cuda              the same kernel as a complete .cu file
  coalescope lab run 1                          learn it: a first lab
  coalescope list                               the scenarios that ship with the program

Exit codes: 0 good, 1 a check failed, 2 bad input or usage, 3 no usable GPU."
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to colour the output.
    #[arg(long, value_enum, default_value_t, global = true, value_name = "WHEN")]
    pub(crate) color: Color,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Predict counts, traffic and time of a scenario, without a GPU.
    #[command(after_help = "Examples:
  coalescope sim scenarios                      every scenario of a folder
  coalescope sim strided --set stride=3         one point instead of the sweep
  coalescope sim strided --device a100          traffic, and the least time, on an A100
  coalescope sim strided --arch 9.0 --csv       counts alone, one row an access

Traffic of large launches is simulated on some of their lines and blocks, and how
far that may be off is stated. Times of devices that nobody calibrated are lower
bounds from data sheets.

SCENARIO is a file, a folder of files, or the name of a shipped scenario.")]
    Sim(SimArgs),
    /// Count single warp accesses: JSON Lines in, JSON Lines out.
    #[command(after_help = "A line in:
  {\"id\":1,\"op\":\"ld\",\"width\":4,\"mask\":4294967295,\"addresses\":[0,4,…]}
with 32 byte addresses (of shared memory: offsets), each a multiple of width.
  op     ld, st, red, atom, cp.async, lds, sts, reds, atoms, ldl, stl; ld.cg, ld.nc,
         st.cs, … with a cache operator
  width  bytes a lane: 1, 2, 4, 8, 16, on some architectures 32
  mask   the lanes that are on, lane 0 the lowest bit; all, where it is left out
  atomic of red and atom: add, min, max, inc, dec, and, or, xor, exch, cas
  type   of red and atom: u32, s32, u64, f16x2, f32, f64, …; of lds: b64 for a
         full 8-byte load
  shared_addresses  of cp.async: where the bytes go
  arch   the compute capability, where it is another than that of --arch
A bad line gives {\"id\":…,\"error\":…} in its place and exit code 2 at the end; the
rest is still counted.

Examples:
  coalescope warp accesses.jsonl > counts.jsonl
  generate-accesses | coalescope warp --arch 7.0 | jq .sectors")]
    Warp(WarpArgs),
    /// Show lane by lane where one warp's accesses go, and why they cost that.
    #[command(after_help = "Examples:
  coalescope explain strided --set stride=2             every access of the first warp
  coalescope explain transpose --variant tiled --access 3
  coalescope explain struct-layout --access 1 --svg aos.svg")]
    Explain(ExplainArgs),
    /// Search layouts: field order, padding, AoS/SoA/AoSoA, vector width, pitch.
    #[command(after_help = "Examples:
  coalescope suggest struct-layout                      layouts ranked, and the best one's scenario
  coalescope suggest particle-update --variant aos --write better.toml
  coalescope suggest padded-struct --json               every layout with its counts

Each layout is a scenario of its own that touches the same elements; it is run
through the model, so the counts are those of the file that is printed.")]
    Suggest(SuggestArgs),
    /// Fail where an access falls short of a threshold or of a stored run.
    #[command(after_help = "Examples:
  coalescope check scenarios                            at least 80% used, no bank conflicts
  coalescope check transpose --variant tiled --max-conflicts 1
  coalescope sim scenarios --json > baseline.jsonl      store what there is, and later
  coalescope check scenarios --baseline baseline.jsonl  fail if an access got worse
  coalescope check scenarios --sarif check.sarif        for a code host or an editor

Efficiency is unique efficiency: the distinct bytes that a warp asks for, divided
by the bytes moved. A request that moves one sector can't move less and passes.
Without --min-efficiency and --max-conflicts, 80% and 0 are asked for; with
--baseline only of what the baseline doesn't have. With one of the two, only that
one is judged.

An access may fall short for a reason that the scenario states:
  [[allow]]
  label = \"gather\"
  min_efficiency = \"10%\"
  reason = \"runs once, at start-up\"

Exit codes: 0 good, 1 an access falls short, 2 bad input.")]
    Check(CheckArgs),
    /// Lay two scenarios, variants or record files side by side.
    #[command(after_help = "Examples:
  coalescope diff transpose:naive transpose:padded      two variants
  coalescope diff transpose --variant naive --variant padded
  coalescope diff before.toml after.toml --set n=4096   two scenarios
  coalescope diff monday.jsonl today.jsonl --exit-code  two files of `sim --json`
  coalescope diff monday.jsonl scenarios/strided.toml   what was stored, and what is

A and B are scenarios (files or shipped), SCENARIO:VARIANT, or files of run
records. Runs are matched by what varies within a side: swept parameters,
variants. Accesses are matched by label, else by line, else by their order.

Exit codes: 0 whatever the difference, with --exit-code 1 if there is one; 2 bad
input.")]
    Diff(DiffArgs),
    /// Print a scenario's kernel as CUDA C++ or PTX.
    #[command(after_help = "Examples:
  coalescope emit transpose --variant tiled --cuda -o transpose.cu
  coalescope emit strided --set stride=2 --ptx")]
    Emit(EmitArgs),
    /// Time and count scenarios on an NVIDIA GPU.
    #[command(after_help = "Examples:
  coalescope measure strided -o strided.jsonl            times, cold caches
  coalescope measure strided --counters -o strided.jsonl and the profiler's counters
  coalescope measure --counters --resume -o all.jsonl    every shipped scenario, continued
  coalescope measure --warps lines.jsonl -o counted.jsonl

Without a profiler, or without the permission to use it, times are taken alone;
coalescope doctor says what to do about it.")]
    Measure(MeasureArgs),
    /// Measure a GPU's constants with micro-benchmarks: a device profile.
    #[command(after_help = "Examples:
  coalescope calibrate -o mine.toml                    measure, and write the profile
  coalescope calibrate -o mine.toml --resume           go on after an interruption
  coalescope calibrate -o again.toml --from mine.records   the profile again, without a GPU
  coalescope calibrate --compare mine.toml h100        two profiles, number by number
  coalescope calibrate --list                          the profiles that ship with the program

The records go to a folder beside the profile, mine.records for mine.toml.
Without a profiler, or without the permission to use it, the profile is made of
times alone, and its notes say what is missing.

Exit codes: 0 good, 1 not finished or the profiles disagree, 2 bad input, 3 no
usable GPU.")]
    Calibrate(CalibrateArgs),
    /// Lay predictions beside measurements: errors, charts, what tutorials claim.
    #[command(after_help = "Examples:
  coalescope compare                                    every shipped scenario and a recorded H200
  coalescope compare transpose strided                  only these
  coalescope compare -o plots                           charts (SVG, PNG), report.html, claims.md
  coalescope compare --measured mine.jsonl -o out       another device's records
  coalescope compare --measured mine.jsonl --device mine.toml   by another profile
  coalescope compare --claims                           what tutorials say, judged

Predictions are made with the buffers where the device had them. Of the records
of a run, those of the kernel made from the scenario are compared: its counters
as written, its time as optimised.

Exit codes: 0 compared, 2 bad input (the rest is compared all the same).")]
    Compare(CompareArgs),
    /// Say what works on this machine, and what to do about the rest.
    #[command(after_help = "Examples:
  coalescope doctor
  coalescope doctor --json | jq .")]
    Doctor {
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Teaching labs: predict a count, see why, improve a kernel, be marked.
    #[command(after_help = "Examples:
  coalescope lab list
  coalescope lab run 2                                  a conversation in the terminal
  coalescope lab show 2 --seed 7 --answers > answers.toml  the questions as a file to fill in
  coalescope lab show 2 --start > exercise.toml         the scenario to improve
  coalescope lab grade 2 exercise.toml                  the mark, with reasons
  coalescope lab grade 2 submissions/ -o class.csv      a folder: one row a file
  coalescope lab export -o site                         pages for a browser and for paper
  coalescope lab list --labs my-labs                    a teacher's own

LAB is a number or a name that `lab list` shows. A folder for `grade` holds a file
or a folder for each student. Exit codes of `grade` for one file: 0 full marks,
1 less, 2 bad input.")]
    Lab(LabArgs),
    /// List the scenarios that ship with the program.
    #[command(after_help = "Examples:
  coalescope list
  coalescope list | grep -i transpose")]
    List,
    /// Print the JSON Schema of scenario files, for editors.
    #[command(after_help = "Examples:
  coalescope schema > scenario.schema.json")]
    Schema,
    /// Print a completion script for a shell.
    #[command(after_help = "Examples:
  coalescope completions bash > ~/.local/share/bash-completion/completions/coalescope
  coalescope completions fish > ~/.config/fish/completions/coalescope.fish")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page in roff: of the program, or of one command.
    #[command(after_help = "Examples:
  coalescope man > ~/.local/share/man/man1/coalescope.1
  coalescope man check | man -l -")]
    Man {
        /// The command.
        command: Option<String>,
    },
}

/// `lab`
#[derive(Args, Debug)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) command: LabCommand,

    /// A folder of labs in the place of those that ship with the program, or a
    /// single lab.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) labs: Option<PathBuf>,
}

/// What to do with labs.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the labs.
    List,
    /// Print a lab's text and questions, as Markdown, without the answers.
    Show {
        /// Number or name.
        lab: String,
        /// Other numbers in the questions: a student's own.
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// The scenario that the exercise starts from, and nothing else.
        #[arg(long, conflicts_with = "answers")]
        start: bool,
        /// A file of answers to fill in, and nothing else.
        #[arg(long)]
        answers: bool,
    },
    /// Go through a lab: it asks, and shows what is right and why.
    Run {
        /// Number or name.
        lab: String,
        /// Other numbers in the questions: a student's own.
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
    /// Mark answers or an edited scenario; of a folder, a whole class.
    Grade {
        /// Number or name.
        lab: String,
        /// A file of answers, an edited scenario, or a folder of them.
        submission: PathBuf,
        /// The seed of all; without it that of each file of answers.
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// Write the marks as CSV.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Write all labs and the explorer as a static site.
    Export {
        /// The folder; one of an earlier export is replaced.
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
        /// Other numbers in the questions: a student's own.
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// Leave out the solutions, and the pictures that tell an answer.
        #[arg(long)]
        without_solutions: bool,
    },
}

impl LabCommand {
    /// The lab that it is about.
    pub(crate) fn lab(&self) -> &str {
        match self {
            Self::List | Self::Export { .. } => "",
            Self::Show { lab, .. } | Self::Run { lab, .. } | Self::Grade { lab, .. } => lab,
        }
    }
}

/// Which runs of which scenarios.
#[derive(Args, Debug)]
pub(crate) struct Selection {
    /// Scenario files, folders of them, or names of shipped scenarios.
    #[arg(required = true, value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,

    /// Give a parameter another value; a swept parameter is fixed by it.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) overrides: Vec<(String, String)>,

    /// Only this variant (repeatable).
    #[arg(long = "variant", value_name = "NAME")]
    pub(crate) variants: Vec<String>,
}

/// `sim`
#[derive(Args, Debug)]
pub(crate) struct SimArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Count alone, by the rule set of this compute capability or in this file;
    /// several, separated by commas, stand side by side.
    #[arg(long, value_delimiter = ',', value_name = "CC|FILE")]
    pub(crate) arch: Vec<String>,

    /// Device profile, by name or as a file: counts by the rules of its compute
    /// capability, traffic and time by its numbers. The H200's where neither it
    /// nor --arch is given.
    #[arg(long, conflicts_with = "arch", value_name = "NAME|FILE")]
    pub(crate) device: Option<String>,

    /// Count every warp and simulate every line, also where that takes long.
    #[arg(long)]
    pub(crate) exact: bool,

    /// One JSON object a run, one a line.
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,

    /// One CSV row an access.
    #[arg(long)]
    pub(crate) csv: bool,
}

/// `warp`
#[derive(Args, Debug)]
pub(crate) struct WarpArgs {
    /// Compute capability of the rule set, for lines without an "arch" of their
    /// own.
    #[arg(long, default_value = "9.0", value_name = "CC|FILE")]
    pub(crate) arch: String,

    /// The file of lines; `-` is standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// `explain`
#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Only this access: its number in the program, from 1, or its label.
    #[arg(long, value_name = "N")]
    pub(crate) access: Option<String>,

    /// The block whose warp is shown.
    #[arg(long, default_value = "0,0,0", value_name = "X,Y,Z", value_parser = block)]
    pub(crate) block: [u64; 3],

    /// The warp of that block, from 0.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) warp: u32,

    /// Compute capability of the rule set.
    #[arg(long, default_value = "9.0", value_name = "CC|FILE")]
    pub(crate) arch: String,

    /// Write the first access shown as a picture.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// `suggest`
#[derive(Args, Debug)]
pub(crate) struct SuggestArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Rank by counts alone, by the rule set of this compute capability.
    #[arg(long, value_name = "CC|FILE")]
    pub(crate) arch: Option<String>,

    /// Device profile, by name or as a file: rank by predicted time where it was
    /// measured, else by counts. The H200's where neither it nor --arch is given.
    #[arg(long, conflicts_with = "arch", value_name = "NAME|FILE")]
    pub(crate) device: Option<String>,

    /// Show every layout, not only the best dozen.
    #[arg(long)]
    pub(crate) all: bool,

    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the scenario file of the best layout here, where it is another
    /// than the present one.
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
}

/// `check`
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Least unique efficiency of an access to global memory, such as 80%.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) min_efficiency: Option<f64>,

    /// Most bank conflicts a request of an access to shared memory.
    #[arg(long, value_name = "N", value_parser = conflicts)]
    pub(crate) max_conflicts: Option<f64>,

    /// Runs stored with `sim --json`: no access may be worse than there.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,

    /// Write the findings as SARIF 2.1.0; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) sarif: Option<PathBuf>,

    /// Compute capability of the rule set; several, separated by commas, are
    /// all judged.
    #[arg(long, default_value = "9.0", value_delimiter = ',', value_name = "CC|FILE")]
    pub(crate) arch: Vec<String>,

    /// Count every warp, also where that takes long.
    #[arg(long)]
    pub(crate) exact: bool,
}

/// `diff`
#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// The two sides; one is enough where --variant names two.
    #[arg(required = true, num_args = 1..=2, value_names = ["A", "B"])]
    pub(crate) sides: Vec<String>,

    /// Only this variant; twice with one side: these are compared.
    #[arg(long = "variant", value_name = "NAME")]
    pub(crate) variants: Vec<String>,

    /// Give a parameter another value; of record files, take the runs that have
    /// it.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) overrides: Vec<(String, String)>,

    /// Compute capability of the rule set that scenarios are counted by.
    #[arg(long, default_value = "9.0", value_name = "CC|FILE")]
    pub(crate) arch: String,

    /// Count every warp, also where that takes long.
    #[arg(long)]
    pub(crate) exact: bool,

    /// One JSON object a pair of runs, one a line.
    #[arg(long)]
    pub(crate) json: bool,

    /// End with 1 if anything differs.
    #[arg(long)]
    pub(crate) exit_code: bool,
}

/// `compare`
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// Scenario files, folders of them, or names of shipped scenarios; all that
    /// the record has where there is none.
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,

    /// Records of `coalescope measure`, packed by gzip or not, in place of the
    /// recorded H200.
    #[arg(long, value_name = "FILE")]
    pub(crate) measured: Option<PathBuf>,

    /// Write charts, report.html and claims.md into this folder.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// Compute capability of the rule set; the record's where it is left out.
    #[arg(long, value_name = "CC|FILE")]
    pub(crate) arch: Option<String>,

    /// Device profile that predicts traffic and time, by name or as a file; that
    /// of the record's device where one ships, else the H200's.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) device: Option<String>,

    /// Print the errors of the predicted times by family, as `sim` reads them
    /// (crates/model/errors.toml).
    #[arg(long, conflicts_with_all = ["claims", "json", "csv"])]
    pub(crate) known_errors: bool,

    /// Print the claims of tutorials with what each comes to.
    #[arg(long)]
    pub(crate) claims: bool,

    /// One JSON object a run (with --claims, a claim), one a line.
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,

    /// One CSV row a quantity of a run.
    #[arg(long, conflicts_with = "claims")]
    pub(crate) csv: bool,
}

/// `emit`
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("form").required(true))]
pub(crate) struct EmitArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// A complete CUDA C++ file that nvcc compiles.
    #[arg(long, group = "form")]
    pub(crate) cuda: bool,

    /// PTX of exactly the scenario's accesses.
    #[arg(long, group = "form")]
    pub(crate) ptx: bool,

    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// `measure`
#[derive(Args, Debug)]
pub(crate) struct MeasureArgs {
    /// Scenario files, folders of them, or names of shipped scenarios; all
    /// shipped ones where there is none.
    #[arg(value_name = "SCENARIO", conflicts_with = "warps")]
    pub(crate) scenarios: Vec<String>,

    /// Give a parameter another value; a swept parameter is fixed by it.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) overrides: Vec<(String, String)>,

    /// Only this variant (repeatable).
    #[arg(long = "variant", value_name = "NAME")]
    pub(crate) variants: Vec<String>,

    /// The file to append records to; it must be named.
    #[arg(short, long, value_name = "FILE", required_unless_present = "worker")]
    pub(crate) output: Option<PathBuf>,

    /// Continue the file, leaving out what it has.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Try again what the file has with an error.
    #[arg(long, requires = "resume")]
    pub(crate) retry: bool,

    /// Count under the profiler (ncu), too.
    #[arg(long)]
    pub(crate) counters: bool,

    /// Take no times.
    #[arg(long)]
    pub(crate) no_time: bool,

    /// Count at the size that is timed, whatever it takes.
    #[arg(long)]
    pub(crate) full: bool,

    /// Which counters: those that a model predicts, or all.
    #[arg(long, value_enum, default_value_t, value_name = "SET")]
    pub(crate) metrics_set: MetricsSet,

    /// Count every line of a file of `warp` lines; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) warps: Option<PathBuf>,

    /// Which GPU, as nvidia-smi numbers those that are visible.
    #[arg(long, default_value_t, value_name = "N")]
    pub(crate) gpu: u32,

    /// Leave in the caches what the launch before has put there.
    #[arg(long)]
    pub(crate) warm: bool,

    /// Samples of each time.
    #[arg(long, default_value_t = 25, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) samples: u32,

    /// Longest time that one launch may take, in seconds.
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) limit: f64,

    /// Begin nothing new after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) budget: Option<u64>,

    /// Launches to a profiler process.
    #[arg(long, value_name = "N")]
    pub(crate) chunk: Option<usize>,

    /// Launch each kernel once and record only what fails: to run under a
    /// sanitizer.
    #[arg(long, conflicts_with_all = ["counters", "warps"])]
    pub(crate) once: bool,

    /// The profiler's program, where it is not found by itself.
    #[arg(long, value_name = "FILE")]
    pub(crate) ncu: Option<PathBuf>,

    /// What a worker process is started with.
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) worker: Option<PathBuf>,
}

/// `calibrate`
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("result").required(true))]
pub(crate) struct CalibrateArgs {
    /// The profile to write.
    #[arg(short, long, group = "result", value_name = "PROFILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print the constants of two profiles (files or shipped names) and which of
    /// them disagree.
    #[arg(long, group = "result", num_args = 2, value_names = ["A", "B"])]
    pub(crate) compare: Vec<String>,

    /// List the profiles that ship with the program.
    #[arg(long, group = "result")]
    pub(crate) list: bool,

    /// Make the profile of the records in this folder, without a GPU.
    #[arg(long, requires = "output", value_name = "FOLDER")]
    pub(crate) from: Option<PathBuf>,

    /// The folder of the records, where it is not to lie beside the profile.
    #[arg(long, requires = "output", value_name = "FOLDER", conflicts_with = "from")]
    pub(crate) records: Option<PathBuf>,

    /// The profile's name; that of its file where it is not given.
    #[arg(long, requires = "output", value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Continue the records, leaving out what they have.
    #[arg(long, requires = "output", conflicts_with = "from")]
    pub(crate) resume: bool,

    /// Which GPU, as nvidia-smi numbers those that are visible.
    #[arg(long, default_value_t, value_name = "N", conflicts_with = "from")]
    pub(crate) gpu: u32,

    /// Use no profiler.
    #[arg(long, conflicts_with = "from")]
    pub(crate) no_counters: bool,

    /// Samples of each time.
    #[arg(long, default_value_t = 25, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) samples: u32,

    /// Begin nothing new after so many seconds.
    #[arg(long, value_name = "SECONDS", conflicts_with = "from")]
    pub(crate) budget: Option<u64>,

    /// The profiler's program, where it is not found by itself.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) ncu: Option<PathBuf>,
}

/// How many counters.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum MetricsSet {
    /// Requests, sectors, wavefronts, bank conflicts: few passes.
    Minimal,
    /// All of them.
    #[default]
    Full,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("give seconds, more than 0 and at most a day".to_owned()),
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write KEY=VALUE, such as stride=4".to_owned()),
    }
}

/// `80%` as 0.8.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|n| n.trim_end().parse::<f64>().ok());
    match number {
        Some(number) if (0.0..=100.0).contains(&number) => Ok(number / 100.0),
        _ => Err("write a number from 0 to 100 with its sign, such as 80%".to_owned()),
    }
}

fn conflicts(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("write a number of conflicts a request, 0 or more".to_owned()),
    }
}

fn block(text: &str) -> Result<[u64; 3], String> {
    let mut block = [0; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("a block has at most three coordinates, such as 4,0,0".to_owned());
    }
    for (slot, part) in block.iter_mut().zip(parts) {
        *slot = part.trim().parse().map_err(|_| format!("`{part}` is no block coordinate"))?;
    }
    Ok(block)
}
