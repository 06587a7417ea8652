//! The coalescope run record: one shape for what was predicted and what was
//! measured.
//!
//! **What it models.** A *run* is a scenario with a variant and one point of
//! its sweep, either predicted by the model or measured on a device: the same
//! [`RunRecord`], so that one can be laid over the other. A file of runs is
//! JSON Lines, one object a run. Beside the record itself the crate has what
//! goes with it: [units], the [map](metrics) from our fields to the profiler's
//! metrics, CSV ([`CsvWriter`]), and the contract of `coalescope warp`
//! ([`warp`]).
//!
//! ```
//! use coalescope_record::{Access, KernelTotals, Launch, RunRecord, Source, read_runs, write_run};
//! use simulator::{Op, RuleSet, Totals, WarpAccess};
//!
//! // One warp reads every second float.
//! let warp = WarpAccess::new(Op::LOAD, 4, std::array::from_fn(|lane| 0x1000 + 8 * lane as u64));
//! let mut counts = Totals::default();
//! counts.add(&RuleSet::for_arch("9.0").unwrap().count(&warp));
//!
//! let launch = Launch { grid: [1, 1, 1], block: [32, 1, 1], ..Launch::default() };
//! let mut run = RunRecord::new("strided", Source::Predicted, launch);
//! run.totals = Some(KernelTotals::of([(warp.op, &counts)]));
//! run.accesses = vec![Access::new("in[2 * i]", Some(12), warp.op, 4, counts)];
//!
//! let mut file = Vec::new();
//! write_run(&mut file, &run)?;
//! let read = read_runs(&file[..]).next().unwrap()?;
//! assert_eq!(read, run);
//! assert_eq!(read.accesses[0].efficiency.unwrap().unique, Some(0.5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The format, field by field
//!
//! The version is in `format`: `coalescope-run/1` ([`FORMAT`]). A reader
//! refuses a newer version, ignores fields that it does not know (those of the
//! run itself it writes back), and takes a field that is not there as not
//! known: nothing unknown is written as 0 or null. Integers are JSON integers,
//! also beyond 2⁶⁴. Sizes are in bytes, times in seconds, rates in bytes a
//! second, clocks in hertz, shares in parts of 1 (1 = 100 %).
//!
//! | field | value |
//! |---|---|
//! | `format` | `"coalescope-run/1"` |
//! | `scenario` | name of the scenario |
//! | `variant` | name of the variant, where there are variants |
//! | `params` | object: every parameter with its value, in the scenario's order |
//! | `source` | `"predicted"` or `"measured"` |
//! | `device` | name of the device or of the device profile |
//! | `arch` | compute capability, `"9.0"` |
//! | `launch.grid`, `launch.block` | blocks, threads a block: `[x, y, z]` |
//! | `launch.registers` | registers a thread |
//! | `launch.shared_bytes` | shared memory a block, static and dynamic, bytes |
//! | `cache` | L2 at the kernel's start: `"cold"` or `"warm"` |
//! | `buffers[]` | `name`; `base`, address of the first element; `bytes` from there on; `pitch`, bytes from row to row, where rows are padded |
//! | `bases` | what fixed the bases: `"assumed"` (no device), `"measured"`, or `"given"` (those of a measured record) |
//! | `accesses[]` | one for each access in the kernel's text |
//! | – `label`, `line` | its label or text; its line in the source, from 1 |
//! | – `op`, `space`, `width` | operation as in [`warp`] lines; `"global"`, `"shared"` or `"local"`; bytes a lane |
//! | – `atomic`, `type` | of a red or atom: `"add"`, `"u32"` |
//! | – `instructions` | warp instructions executed, those without an active lane included; not there where only their work was counted |
//! | – the counts | sums over all warps; `exact` is whether each was exact (below) |
//! | – `efficiency.requested` | requested bytes ÷ moved bytes; over 1 when lanes share addresses |
//! | – `efficiency.unique` | distinct bytes of each warp ÷ moved bytes; at most 1 |
//! | `totals` | `instructions`, the counts and `efficiency` of the kernel: sums over the accesses whose space has the field. A count that one of these accesses lacks is not there |
//! | `totals.by_class` | object: the counts of each class of operations that the profiler tells apart ([`OpClass`]): `global_ld`, `shared_st`, … |
//! | `traffic` | over the launch: `l1_hit_sectors`, `l2_read_sectors`, `l2_write_sectors`, `l2_atomic_sectors` (32-byte sectors), `dram_read_bytes`, `dram_write_bytes` |
//! | `time.seconds` | predicted, or the median of the samples |
//! | `time.at_least_seconds` | by a data sheet's peak rates, in place of a prediction |
//! | `time.bound_by`, `time.components` | the binding term; all terms, seconds |
//! | `time.next`, `time.next_share` | the term that would bind next; its share of the binding one |
//! | `time.known_error` | mean relative error of the model on scenarios of this kind |
//! | `bandwidth` | `requested_bytes_per_s`, `l2_bytes_per_s`, `dram_bytes_per_s` |
//! | `warnings[]` | what a reader must know to judge the figures |
//! | `error` | why there are no results |
//!
//! Measured runs also have:
//!
//! | field | value |
//! |---|---|
//! | `driver`, `tools` | the driver's version; object: tools with their versions |
//! | `clocks` | `sm_hz`, `memory_hz` while it ran; `max_sm_hz`, `max_memory_hz` |
//! | `date` | RFC 3339, UTC |
//! | `samples[]` | every sample of the kernel's time, seconds, in the order taken |
//! | `spread` | `min_seconds`, `lower_quartile_seconds`, `upper_quartile_seconds`, `max_seconds`; not there with one sample |
//! | `part` | what was measured: `"time"` or `"counters"`; the two are records of their own |
//! | `kernel` | `"generated"` from the scenario, or `"hand-written"`: its `.cu` file as nvcc compiled it |
//! | `optimised` | whether the driver's assembler optimised the kernel, or left every access as written (level 0) |
//! | `verified` | whether a verifying launch touched and loaded what the host computes |
//! | `reference` | the device itself in the same process: `copy_bytes`; `copy_bytes_per_s` of a device-to-device copy, read and written; `launch_overhead_seconds` |
//! | `counters` | object: the profiler's values as it gave them, by metric name |
//!
//! The counts, for one warp instruction ([`simulator::Counts`]), here summed:
//!
//! | count | meaning |
//! |---|---|
//! | `requests` | commands sent to the cache |
//! | `sectors` | sectors as the counter counts them (red, atom: summed over the rounds) |
//! | `tags` | tag lookups: distinct lines of each request |
//! | `tag_wavefronts`, `data_wavefronts` | passes through the tag stage, through the data stage |
//! | `bank_conflicts` | data wavefronts beyond the first of each lane group |
//! | `l2_sectors` | sectors that go to L2 when L1 is cold |
//! | `unique_sectors` | distinct sectors of each warp |
//! | `requested_bytes` | width × active lanes |
//! | `unique_bytes` | distinct bytes of each warp |
//! | `moved_bytes` | sectors × sector size; on CC 1.x–2.x the sum of the transactions |
//! | `transactions` | their number, on CC 1.x–2.x |
//!
//! Shared memory has `requests`, `data_wavefronts` and `bank_conflicts`.
//!
//! # What it leaves out
//!
//! Files: everything reads from [`BufRead`](std::io::BufRead) and writes to
//! [`Write`](std::io::Write). Arithmetic on the figures: that is the model's
//! and the comparison's.

mod csv;
mod jsonl;
mod lines;
pub mod metrics;
mod run;
pub mod units;
pub mod warp;

pub use crate::csv::CsvWriter;
pub use jsonl::{BadLine, BadLineKind, MAX_LINE_BYTES, read_runs, write_run};
pub use metrics::{Counted, Level, Metric, MetricMap};
pub use run::{
    Access, Bandwidth, Bases, Buffer, CacheState, Clocks, Efficiency, FORMAT, KernelKind,
    KernelTotals, Launch, Map, OpClass, Part, ReferenceSpeed, RunRecord, Sampled, SampledTraffic,
    Source, Spread, Time, Traffic, Value, median,
};
