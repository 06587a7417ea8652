//! The verifying launch: what the device touched, against the host's own
//! computation.
//!
//! A kernel emitted for it sums hashes of all addresses that each access used
//! and of all that it loaded (see [`ptx::verify`]). The host evaluates the same
//! run with the buffers where the device had them and compares sums, and the
//! bytes of the buffers that were written.

use crate::device::{Level, kernels};
use crate::job::{Contents, Dump, Launch, Work};
use crate::launch;
use ptx::Purpose;
use ptx::verify::{self, Sums};
use scenario::Run;
use scenario::eval::{Evaluator, Limits};
use scenario::program::{BufferId, Root, SiteId};
use simulator::{OpKind, Space};
use std::path::{Path, PathBuf};

/// Most bytes of buffers that are verified: they are copied to the host.
pub(crate) const MOST_BYTES: u64 = 64 << 20;

/// Most threads: the host goes through all of them.
const MOST_THREADS: u64 = 1 << 24;

/// A verifying launch that is to be made, and what its outcome means.
pub(crate) struct Verification {
    run: Run,
    launch: Launch,
    before: Vec<Dump>,
    after: Vec<Dump>,
}

impl Verification {
    /// Prepares the launch; files go to `folder`.
    ///
    /// # Errors
    /// A sentence: why this run is not verified.
    pub(crate) fn prepare(run: Run, entry: &str, folder: &Path) -> Result<Self, String> {
        let bytes = launch::footprint(&run);
        if bytes > MOST_BYTES {
            return Err(format!(
                "not verified: its buffers have {bytes} bytes, more than {MOST_BYTES}; [counting] \
                 gives smaller parameters"
            ));
        }
        let launch = launch::generated(&run, Purpose::Verify, Level::Default, entry, folder)?;
        let known = verify::data_is_known(&run.program);
        let written = verify::written_is_known(&run.program);
        let dump = |stage: &str, buffer: usize| Dump {
            buffer,
            path: folder.join(format!("{stage}-{buffer}.bin")),
        };
        // Contents that a kernel has computed are taken as they are; all else
        // the host knows.
        let read = |buffer: BufferId| {
            run.program.sites.iter().zip(&known).any(|(site, known)| {
                *known && site.op.kind == OpKind::Load && site.root == Root::Buffer(buffer)
            })
        };
        let before = (0..run.buffers.len())
            .filter(|&index| matches!(launch.buffers[index].contents, Contents::Computed(_)))
            .filter(|&index| read(BufferId(index)) || written.contains(&BufferId(index)))
            .map(|index| dump("before", index))
            .collect();
        let after = written.iter().map(|buffer| dump("after", buffer.0)).collect();
        Ok(Self { run, launch, before, after })
    }

    /// What a worker has to do.
    pub(crate) fn work(&self) -> Work {
        Work::Verify {
            launch: self.launch.clone(),
            result_words: verify::result_words(self.run.program.sites.len()) as u64,
            before: self.before.clone(),
            after: self.after.clone(),
        }
    }

    /// Compares what came back; `Ok(None)` where all agrees, else the first
    /// difference.
    ///
    /// # Errors
    /// A sentence: why it cannot be judged.
    pub(crate) fn judge(&self, bases: &[u64], words: &[u64]) -> Result<Option<String>, String> {
        let program = &self.run.program;
        let known = verify::data_is_known(program);
        let memory = self.memory(bases)?;
        let mut written = Vec::new();
        for dump in &self.after {
            written.push((BufferId(dump.buffer), memory.bytes(dump.buffer)?));
        }

        let limits = Limits { threads: MOST_THREADS, ..Limits::default() };
        let describe = |error: scenario::Diagnostic| format!("not verified: {}", error.message);
        let evaluator = Evaluator::new(&self.run, bases, limits).map_err(describe)?;
        let mut expected = Sums::new(program.sites.len());
        evaluator
            .visit(|issue| {
                let (SiteId(index), access) = (issue.site, &issue.access);
                let Some(site) = program.sites.get(index) else { return };
                expected.record(issue.site, access);
                if site.op.kind == OpKind::Load && known.get(index) == Some(&true) {
                    expected.record_loads(issue.site, site, access, |address, bytes| {
                        memory.read(address, bytes)
                    });
                }
                let Root::Buffer(buffer) = site.root else { return };
                let stores = site.op.kind == OpKind::Store && site.op.space == Space::Global;
                if let Some((_, bytes)) = written.iter_mut().find(|(id, _)| stores && *id == buffer)
                {
                    let first = memory.first(buffer.0);
                    for (_, address) in access.active() {
                        overlay(bytes, first, address, access.width.into());
                    }
                }
            })
            .map_err(describe)?;

        let found = Sums::from_device(program.sites.len(), words);
        for (index, site) in program.sites.iter().enumerate() {
            let (want, have) = (expected.sites[index], found.sites[index]);
            let label = &site.label;
            if have.lanes != want.lanes {
                return Ok(Some(format!(
                    "`{label}` was executed by {} lanes on the device, {} expected",
                    have.lanes, want.lanes
                )));
            }
            if have.addresses != want.addresses {
                return Ok(Some(format!("`{label}` used other addresses on the device")));
            }
            if known[index] && have.data != want.data {
                return Ok(Some(format!("`{label}` loaded other values on the device")));
            }
        }
        for ((buffer, bytes), dump) in written.iter().zip(&self.after) {
            let have = read_file(&dump.path)?;
            if let Some(at) = bytes.iter().zip(&have).position(|(want, have)| want != have) {
                let name = &self.run.buffers[buffer.0].name;
                return Ok(Some(format!("byte {at} of `{name}` was written otherwise")));
            }
        }
        Ok(None)
    }

    fn memory(&self, bases: &[u64]) -> Result<Memory, String> {
        let mut buffers = Vec::new();
        for (index, (buffer, base)) in self.launch.buffers.iter().zip(bases).enumerate() {
            let dumped = self.before.iter().find(|dump| dump.buffer == index);
            let data = match (&buffer.contents, dumped) {
                (_, Some(dump)) => Data::Bytes(read_file(&dump.path)?),
                (Contents::File(path), _) => Data::Bytes(read_file(path)?),
                (Contents::Random { seed, keep, set }, _) => {
                    Data::Random { seed: *seed, keep: *keep, set: *set }
                }
                (Contents::Zero | Contents::Computed(_), _) => Data::Bytes(Vec::new()),
            };
            buffers.push(HostBuffer {
                first: base + buffer.offset_bytes,
                offset_bytes: buffer.offset_bytes,
                length: buffer.bytes,
                data,
            });
        }
        Ok(Memory { buffers })
    }
}

fn read_file(path: &PathBuf) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Puts what a verifying store leaves at `address` into a buffer's bytes.
fn overlay(bytes: &mut [u8], first: u64, address: u64, width: u64) {
    let offset = address.wrapping_sub(first) as usize;
    let piece = width.min(8);
    for at in (0..width).step_by(piece as usize) {
        let value = verify::pattern(address + at, piece).to_le_bytes();
        let start = offset + at as usize;
        if let Some(place) = bytes.get_mut(start..start + piece as usize) {
            place.copy_from_slice(&value[..piece as usize]);
        }
    }
}

/// What the buffers held before the launch, as the host knows it.
struct Memory {
    buffers: Vec<HostBuffer>,
}

struct HostBuffer {
    /// Device address of the first element.
    first: u64,
    /// Bytes of the allocation before it.
    offset_bytes: u64,
    length: u64,
    data: Data,
}

enum Data {
    /// From the first element on; zeros follow.
    Bytes(Vec<u8>),
    /// Words from the allocation's base on.
    Random { seed: u64, keep: u64, set: u64 },
}

impl HostBuffer {
    fn byte(&self, offset: u64) -> u8 {
        match &self.data {
            Data::Bytes(bytes) => bytes.get(offset as usize).copied().unwrap_or(0),
            Data::Random { seed, keep, set } => {
                let at = self.offset_bytes + offset;
                kernels::fill_word(*seed, at / 8, *keep, *set).to_le_bytes()[(at % 8) as usize]
            }
        }
    }
}

impl Memory {
    /// Device address of a buffer's first element.
    fn first(&self, buffer: usize) -> u64 {
        self.buffers.get(buffer).map_or(0, |buffer| buffer.first)
    }

    /// All bytes of a buffer.
    fn bytes(&self, buffer: usize) -> Result<Vec<u8>, String> {
        let buffer = self.buffers.get(buffer).ok_or("the run has no such buffer")?;
        let length = buffer.length as usize;
        Ok(match &buffer.data {
            Data::Bytes(bytes) => {
                let mut bytes = bytes.clone();
                bytes.resize(length, 0);
                bytes
            }
            Data::Random { seed, keep, set } => {
                let (start, end) = (buffer.offset_bytes, buffer.offset_bytes + buffer.length);
                (start / 8..end.div_ceil(8))
                    .flat_map(|word| kernels::fill_word(*seed, word, *keep, *set).to_le_bytes())
                    .skip((start % 8) as usize)
                    .take(length)
                    .collect()
            }
        })
    }

    /// The `bytes` bytes at a device address, little-endian; 0 outside all
    /// buffers, which the evaluator has ruled out.
    fn read(&self, address: u64, bytes: u64) -> u64 {
        let inside =
            |buffer: &HostBuffer| address >= buffer.first && address - buffer.first < buffer.length;
        let Some(buffer) = self.buffers.iter().find(|buffer| inside(buffer)) else { return 0 };
        let offset = address - buffer.first;
        if let Data::Random { seed, keep, set } = &buffer.data {
            let at = buffer.offset_bytes + offset;
            if at % 8 + bytes <= 8 {
                let word = kernels::fill_word(*seed, at / 8, *keep, *set) >> (8 * (at % 8));
                return if bytes == 8 { word } else { word & ((1 << (8 * bytes)) - 1) };
            }
        }
        (0..bytes).fold(0, |value, i| value | u64::from(buffer.byte(offset + i)) << (8 * i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::{Embedded, Options, Scenario};

    const TEXT: &str = r#"
title = "Copy"
[launch]
grid = [1]
block = [64]
[buffers]
in = { type = "float", shape = ["64"] }
out = { type = "float", shape = ["66"], offset_bytes = 8 }
[kernel]
code = "int i = threadIdx.x; if (i < 60) out[i + 1] = in[i];"
"#;

    /// What a device that does it right sends back: computed here from the
    /// formulas of the two accesses.
    struct Device {
        verification: Verification,
        bases: [u64; 2],
        words: Vec<u64>,
        _folder: tempfile::TempDir,
    }

    fn device() -> Device {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Embedded(&[]);
        let scenario = Scenario::from_text("copy.toml", TEXT, &files).expect("a scenario");
        let run = scenario.runs(&[], Options::default()).expect("runs")[0].build().expect("a run");
        let verification = Verification::prepare(run, "v", folder.path()).expect("prepared");
        let bases = [0x7000_0000_0000, 0x7000_0020_0000];
        let mut words = vec![0_u64; verify::result_words(2)];
        let (load, store) = words.split_at_mut(3);
        // Buffer 0 is filled with words from its seed on; floats are between 1
        // and 2.
        let seed = 1 << 48;
        let word = |i| kernels::fill_word(seed, i, 0x007f_ffff_007f_ffff, 0x3f80_0000_3f80_0000);
        for i in 0..60u64 {
            load[0] += 1;
            load[1] = load[1].wrapping_add(verify::hash64(bases[0] + 4 * i));
            let bits = word(i / 2) >> (32 * (i % 2)) & 0xffff_ffff;
            load[2] = load[2].wrapping_add(verify::hash64(bits));
            store[0] += 1;
            store[1] = store[1].wrapping_add(verify::hash64(bases[1] + 8 + 4 + 4 * i));
        }
        // Elements 1 to 60 of `out` hold the pattern, the others what they did.
        let mut out = Vec::new();
        for element in 0..66u64 {
            let address = bases[1] + 8 + 4 * element;
            let bytes = if (1..61).contains(&element) {
                verify::pattern(address, 4) as u32
            } else {
                let at = 8 + 4 * element;
                let word = kernels::fill_word(
                    2 << 48,
                    at / 8,
                    0x007f_ffff_007f_ffff,
                    0x3f80_0000_3f80_0000,
                );
                (word >> (8 * (at % 8))) as u32
            };
            out.extend(bytes.to_le_bytes());
        }
        std::fs::write(&verification.after[0].path, out).expect("written");
        Device { verification, bases, words, _folder: folder }
    }

    #[test]
    fn a_device_that_does_it_right_is_confirmed() {
        let device = device();
        let Work::Verify { after, before, result_words, .. } = device.verification.work() else {
            panic!("a verifying launch")
        };
        assert_eq!((after.len(), after[0].buffer, before.len()), (1, 1, 0));
        assert_eq!(result_words, verify::result_words(2) as u64);
        assert_eq!(device.verification.judge(&device.bases, &device.words), Ok(None));
    }

    fn difference(change: impl FnOnce(&mut Device)) -> String {
        let mut device = device();
        change(&mut device);
        let judged = device.verification.judge(&device.bases, &device.words);
        judged.expect("judged").expect("a difference")
    }

    #[test]
    fn each_kind_of_difference_is_found() {
        assert!(difference(|device| device.words[0] -= 1).contains("by 59 lanes"));
        assert!(difference(|device| device.words[1] ^= 4).contains("other addresses"));
        assert!(difference(|device| device.words[2] ^= 4).contains("other values"));
        assert!(difference(|device| device.words[4] ^= 4).contains("`out[i + 1]` used other"));
        // Buffers elsewhere than the launch had them.
        assert!(difference(|device| device.bases[0] += 256).contains("other addresses"));
        let written = difference(|device| {
            let path = &device.verification.after[0].path;
            let mut bytes = std::fs::read(path).expect("read");
            bytes[263] ^= 1;
            std::fs::write(path, bytes).expect("written");
        });
        assert!(written.contains("byte 263 of `out`"), "{written}");
    }

    #[test]
    fn what_is_too_large_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = TEXT.replace("[\"64\"]", "[\"1 << 25\"]");
        let scenario = Scenario::from_text("copy.toml", &text, &Embedded(&[])).expect("a scenario");
        let run = scenario.runs(&[], Options::default()).expect("runs")[0].build().expect("a run");
        let why = Verification::prepare(run, "v", folder.path()).err().expect("too large");
        assert!(why.contains("[counting]"), "{why}");
    }
}
