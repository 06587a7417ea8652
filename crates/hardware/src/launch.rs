//! From a run of a scenario to a launch that a worker can make.

use crate::contents;
use crate::device::{Level, Place, Shape};
use crate::hand_written::HandWritten;
use crate::job::{JobArgument, JobBuffer, Launch};
use ptx::{Parameter, Purpose};
use scenario::Run;
use scenario::run::Memory;
use std::path::Path;

/// PTX text with one of its kernels under another name.
pub(crate) fn rename_entry(text: &str, from: &str, to: &str) -> String {
    let (from, to) = (format!(".entry {from}("), format!(".entry {to}("));
    text.replacen(&from, &to, 1)
}

/// The launch of a run's generated kernel, under the name `entry`.
///
/// # Errors
/// A sentence: what cannot be emitted, filled or launched.
pub(crate) fn generated(
    run: &Run,
    purpose: Purpose,
    level: Level,
    entry: &str,
    folder: &Path,
) -> Result<Launch, String> {
    let emitted = ptx::emit(run, purpose).map_err(|error| error.message.clone())?;
    let arguments = emitted
        .parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Buffer(buffer) => JobArgument::Buffer(buffer.0),
            Parameter::Sink => JobArgument::Value { bytes: 8, value: 0 },
            Parameter::Results => JobArgument::Results,
        })
        .collect();
    Ok(Launch {
        ptx: rename_entry(&emitted.text, &emitted.entry, entry),
        entry: entry.to_owned(),
        level,
        shape: shape(run, emitted.shared_bytes)?,
        buffers: buffers(run, folder)?,
        arguments,
    })
}

/// The launch of a run's hand-written kernel, under the name `entry`.
///
/// # Errors
/// As [`generated`].
pub(crate) fn hand_written(
    run: &Run,
    kernel: &HandWritten,
    entry: &str,
    folder: &Path,
) -> Result<Launch, String> {
    Ok(Launch {
        ptx: rename_entry(&kernel.ptx, &kernel.entry, entry),
        entry: entry.to_owned(),
        level: Level::Default,
        shape: shape(run, run.launch.dynamic_shared_bytes)?,
        buffers: buffers(run, folder)?,
        arguments: kernel.arguments.clone(),
    })
}

fn shape(run: &Run, dynamic_shared_bytes: u64) -> Result<Shape, String> {
    let fits = |value: u64, what: &str| {
        u32::try_from(value).map_err(|_| format!("{what} is {value}, more than any device takes"))
    };
    let [x, y, z] = run.launch.grid;
    Ok(Shape {
        grid: [fits(x, "the grid's x")?, fits(y, "the grid's y")?, fits(z, "the grid's z")?],
        block: run.launch.block,
        shared_bytes: fits(dynamic_shared_bytes, "shared memory a block, in bytes,")?,
    })
}

fn buffers(run: &Run, folder: &Path) -> Result<Vec<JobBuffer>, String> {
    run.buffers
        .iter()
        .enumerate()
        .map(|(index, buffer)| {
            Ok(JobBuffer {
                name: buffer.name.clone(),
                offset_bytes: buffer.offset_bytes,
                bytes: buffer.bytes,
                place: match buffer.memory {
                    Memory::Device => Place::Device,
                    Memory::Pinned => Place::Pinned,
                },
                contents: contents::wanted(run, index, folder)?,
            })
        })
        .collect()
}

/// Bytes of all buffers together.
pub(crate) fn footprint(run: &Run) -> u64 {
    run.buffers
        .iter()
        .map(|buffer| buffer.offset_bytes.saturating_add(buffer.bytes))
        .fold(0, u64::saturating_add)
}
