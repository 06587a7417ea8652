//! Measuring on a [`Device`]: buffers with data in them, cold and warm caches,
//! samples.
//!
//! # How a sample is taken
//! Everything between two samples is enqueued without waiting, so that the
//! device never idles while the host prepares the next launch:
//!
//! - cold: read a buffer of [`FLUSH_FACTOR`] × L2, mark, kernel, mark;
//! - warm: a short delay, the kernel untimed, mark, kernel, mark.
//!
//! The flush and the delay outlast the host's work for the three calls that
//! follow them, so the launch latency lies outside the marks. What remains
//! between them beside the kernel is measured with an empty kernel
//! ([`Bench::reference`]). Before the samples the kernel runs alone under its
//! time limit (a hang shows there), and then [`WARM_UP`] times.
//!
//! The method follows NVBench's cold measurement (warm-up, flushed L2, start
//! event behind queued work).

use crate::device::{Argument, Device, KernelId, Level, Place, Region, Shape, kernels};
use crate::error::Error;
use crate::job::{Cache, Contents, JobArgument, JobBuffer, Launch, Reference, Timed};
use std::io::Read;
use std::time::Duration;

/// Size of the buffer read to empty L2, in multiples of L2: its replacement
/// keeps some lines for longer than one pass, so a pass over twice its size
/// could leave some of the scenario's behind.
pub const FLUSH_FACTOR: u64 = 4;

/// Untimed launches before the samples.
pub const WARM_UP: u32 = 3;

/// Length of the delay before a warm sample, SM clock cycles: about 50 µs,
/// several times what the host needs to enqueue four calls.
const DELAY_CYCLES: u64 = 100_000;

/// Allocations are filled and compared in pieces of this size.
const PIECE: usize = 8 << 20;

/// How long helper kernels and copies may take.
const HELPER_LIMIT: Duration = Duration::from_secs(60);

/// A device with the helper kernels loaded.
pub struct Bench<'d> {
    /// The device.
    pub device: &'d mut dyn Device,
    fill: Option<KernelId>,
    flush: Option<(KernelId, Region)>,
    delay: Option<KernelId>,
}

/// Buffers and arguments of a launch, allocated.
pub struct Prepared {
    /// The kernel.
    pub kernel: KernelId,
    /// Its shape.
    pub shape: Shape,
    /// One for each parameter.
    pub arguments: Vec<Argument>,
    /// One for each buffer of the job.
    pub regions: Vec<Region>,
    results: Option<Region>,
}

impl Prepared {
    /// Base address of each buffer's allocation.
    pub fn bases(&self) -> Vec<u64> {
        self.regions.iter().map(|region| region.address).collect()
    }
}

fn argument(value: u64) -> Argument {
    value.to_ne_bytes().to_vec()
}

/// The low `bytes` bytes of a value.
fn value_argument(bytes: u8, value: u64) -> Argument {
    value.to_le_bytes()[..usize::from(bytes).min(8)].to_vec()
}

impl<'d> Bench<'d> {
    /// A bench on `device`; helper kernels are loaded when they are needed.
    pub fn new(device: &'d mut dyn Device) -> Self {
        Self { device, fill: None, flush: None, delay: None }
    }

    /// Checks that the device takes the launch and has the memory, loads the
    /// kernel, allocates and fills. `result_words` 64-bit zeros are allocated
    /// for [`JobArgument::Results`].
    ///
    /// # Errors
    /// Those of the device; [`Error::OutOfMemory`] and [`Error::LaunchLimit`]
    /// before anything is launched. What was allocated is released.
    pub fn prepare(&mut self, launch: &Launch, result_words: u64) -> Result<Prepared, Error> {
        self.check_limits(launch)?;
        self.check_memory(launch, result_words)?;
        let kernel = self.device.load(&launch.ptx, &launch.entry, launch.level)?;
        let mut prepared = Prepared {
            kernel,
            shape: launch.shape,
            arguments: Vec::new(),
            regions: Vec::new(),
            results: None,
        };
        match self.allocate_and_fill(launch, result_words, &mut prepared) {
            Ok(()) => Ok(prepared),
            Err(error) => {
                // The first error is the one to tell.
                let _ = self.release(prepared);
                Err(error)
            }
        }
    }

    fn allocate_and_fill(
        &mut self,
        launch: &Launch,
        result_words: u64,
        prepared: &mut Prepared,
    ) -> Result<(), Error> {
        for buffer in &launch.buffers {
            let region = self.device.allocate(allocation_bytes(buffer), buffer.place)?;
            prepared.regions.push(region);
            self.fill(&region, buffer)?;
        }
        if result_words > 0 {
            let region = self.device.allocate(result_words * 8, Place::Device)?;
            prepared.results = Some(region);
            self.zero(&region, 0)?;
        }
        for wanted in &launch.arguments {
            prepared.arguments.push(match *wanted {
                JobArgument::Buffer(index) => {
                    let (Some(region), Some(buffer)) =
                        (prepared.regions.get(index), launch.buffers.get(index))
                    else {
                        return Err(Error::Worker(format!("the job has no buffer {index}")));
                    };
                    argument(region.address + buffer.offset_bytes)
                }
                JobArgument::Value { bytes, value } => value_argument(bytes, value),
                JobArgument::Results => {
                    argument(prepared.results.map_or(0, |region| region.address))
                }
            });
        }
        self.device.wait(HELPER_LIMIT)
    }

    /// Gives back what [`Bench::prepare`] took; nothing enqueued uses it.
    ///
    /// # Errors
    /// The first of the device's; the rest is released nevertheless.
    pub fn release(&mut self, prepared: Prepared) -> Result<(), Error> {
        let mut result = Ok(());
        for region in prepared.regions.into_iter().chain(prepared.results) {
            result = result.and(self.device.release(region));
        }
        result.and(self.device.unload(prepared.kernel))
    }

    fn check_limits(&self, launch: &Launch) -> Result<(), Error> {
        // CUDA C++ Programming Guide, technical specifications by compute
        // capability (the same since 3.0): the grid's y and z, and a block's
        // axes.
        let [_, gy, gz] = launch.shape.grid.map(u64::from);
        let [bx, by, bz] = launch.shape.block.map(u64::from);
        let limits = [
            ("the grid's x extent", launch.shape.grid[0].into(), i32::MAX as u64),
            ("the grid's y extent", gy, 65_535),
            ("the grid's z extent", gz, 65_535),
            ("the block's x extent", bx, 1024),
            ("the block's y extent", by, 1024),
            ("the block's z extent", bz, 64),
            ("the number of threads a block", bx * by * bz, 1024),
            (
                "shared memory a block, in bytes,",
                launch.shape.shared_bytes.into(),
                self.device.description().shared_bytes_per_block,
            ),
        ];
        match limits.into_iter().find(|(_, value, most)| value > most) {
            Some((what, value, most)) => Err(Error::LaunchLimit { what, value, most }),
            None => Ok(()),
        }
    }

    fn check_memory(&self, launch: &Launch, result_words: u64) -> Result<(), Error> {
        let on_device = || launch.buffers.iter().filter(|buffer| buffer.place == Place::Device);
        let needed = on_device()
            .map(allocation_bytes)
            .fold(result_words.saturating_mul(8), u64::saturating_add);
        let free = self.device.memory()?.free;
        if needed <= free {
            return Ok(());
        }
        let largest = on_device().max_by_key(|buffer| buffer.bytes);
        Err(Error::OutOfMemory {
            needed,
            free,
            largest: largest.map_or_else(|| "results".to_owned(), |buffer| buffer.name.clone()),
            largest_bytes: largest.map_or(result_words * 8, allocation_bytes),
        })
    }

    /// Fills an allocation as the buffer asks.
    fn fill(&mut self, region: &Region, buffer: &JobBuffer) -> Result<(), Error> {
        match &buffer.contents {
            Contents::Random { seed, keep, set } => self.fill_random(region, *seed, *keep, *set),
            Contents::Zero => self.zero(region, 0),
            Contents::Computed(fill) => {
                self.zero(region, 0)?;
                let kernel = self.device.load(&fill.ptx, &fill.entry, Level::Default)?;
                let first = region.address + buffer.offset_bytes;
                let arguments: Vec<Argument> = fill
                    .arguments
                    .iter()
                    .map(|wanted| match *wanted {
                        JobArgument::Buffer(_) => argument(first),
                        JobArgument::Value { bytes, value } => value_argument(bytes, value),
                        JobArgument::Results => argument(0),
                    })
                    .collect();
                let filled = self
                    .device
                    .enqueue(kernel, &fill.shape, &arguments)
                    .and_then(|()| self.device.wait(HELPER_LIMIT));
                filled.and(self.device.unload(kernel))
            }
            Contents::File(path) => {
                let file_error = |error| Error::file(path, error);
                let mut file = std::fs::File::open(path).map_err(file_error)?;
                let mut piece = vec![0; PIECE];
                let mut at = buffer.offset_bytes;
                loop {
                    let length = read_full(&mut file, &mut piece).map_err(file_error)?;
                    if length == 0 {
                        break;
                    }
                    self.device.write(region, at, &piece[..length])?;
                    at += length as u64;
                }
                self.zero(region, at)
            }
        }
    }

    /// Zeroes an allocation from byte `from` on.
    fn zero(&mut self, region: &Region, from: u64) -> Result<(), Error> {
        let zeros = vec![0; PIECE.min(usize::try_from(region.bytes).unwrap_or(PIECE))];
        let mut at = from;
        while at < region.bytes {
            let length = (region.bytes - at).min(zeros.len() as u64);
            self.device.write(region, at, &zeros[..length as usize])?;
            at += length;
        }
        Ok(())
    }

    /// Fills an allocation, whose size is a multiple of 8, with
    /// [`kernels::fill_word`]s.
    pub fn fill_random(
        &mut self,
        region: &Region,
        seed: u64,
        keep: u64,
        set: u64,
    ) -> Result<(), Error> {
        let kernel = match self.fill {
            Some(kernel) => kernel,
            None => {
                let (entry, text) = kernels::FILL;
                *self.fill.insert(self.device.load(text, entry, Level::Default)?)
            }
        };
        let arguments = [region.address, region.bytes / 8, seed, keep, set].map(argument);
        let shape = self.wide();
        self.device.enqueue(kernel, &shape, &arguments)
    }

    /// A launch that fills the device: 8 blocks of 256 threads an SM.
    fn wide(&self) -> Shape {
        Shape::linear(self.device.description().multiprocessors.max(1) * 8, 256)
    }

    /// Enqueues a pass over the flush buffer.
    fn enqueue_flush(&mut self) -> Result<(), Error> {
        let (kernel, region) = match self.flush {
            Some(flush) => flush,
            None => {
                let (entry, text) = kernels::FLUSH;
                let kernel = self.device.load(text, entry, Level::Default)?;
                let bytes = (self.device.description().l2_bytes * FLUSH_FACTOR).max(16);
                let region = self.device.allocate(bytes, Place::Device)?;
                self.fill_random(&region, 0x00f1_0500, u64::MAX, 0)?;
                *self.flush.insert((kernel, region))
            }
        };
        let arguments = [region.address, region.bytes / 16, 0].map(argument);
        let shape = self.wide();
        self.device.enqueue(kernel, &shape, &arguments)
    }

    /// Enqueues a wait on the device.
    fn enqueue_delay(&mut self) -> Result<(), Error> {
        let kernel = match self.delay {
            Some(kernel) => kernel,
            None => {
                let (entry, text) = kernels::DELAY;
                *self.delay.insert(self.device.load(text, entry, Level::Default)?)
            }
        };
        self.device.enqueue(kernel, &Shape::linear(1, 1), &[argument(DELAY_CYCLES)])
    }

    /// Launches once, alone, and waits.
    ///
    /// # Errors
    /// [`Error::Timeout`], and what the kernel did wrong.
    pub fn once(&mut self, prepared: &Prepared, limit: Duration) -> Result<(), Error> {
        self.device.enqueue(prepared.kernel, &prepared.shape, &prepared.arguments)?;
        self.device.wait(limit)
    }

    /// The results buffer of a verifying launch.
    pub fn results(&mut self, prepared: &Prepared) -> Result<Vec<u64>, Error> {
        let Some(region) = prepared.results else { return Ok(Vec::new()) };
        let mut bytes = vec![0; region.bytes as usize];
        self.device.read(&region, 0, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
    }

    /// Takes `samples` samples of a kernel's time.
    ///
    /// # Errors
    /// Those of the device; [`Error::Timeout`] if one launch takes longer than
    /// `limit`.
    pub fn time(
        &mut self,
        prepared: &Prepared,
        cache: Cache,
        samples: u32,
        limit: Duration,
    ) -> Result<Timed, Error> {
        self.device.clear_marks();
        let start = self.device.mark()?;
        self.device.enqueue(prepared.kernel, &prepared.shape, &prepared.arguments)?;
        let end = self.device.mark()?;
        self.device.wait(limit)?;
        let first_s = self.device.seconds(start, end)?;

        for _ in 0..WARM_UP {
            self.device.enqueue(prepared.kernel, &prepared.shape, &prepared.arguments)?;
        }
        self.device.wait(limit.saturating_mul(WARM_UP) + HELPER_LIMIT)?;

        self.device.clear_marks();
        let mut marks = Vec::new();
        for _ in 0..samples {
            match cache {
                Cache::Cold => self.enqueue_flush()?,
                Cache::Warm => {
                    self.enqueue_delay()?;
                    self.device.enqueue(prepared.kernel, &prepared.shape, &prepared.arguments)?;
                }
            }
            let start = self.device.mark()?;
            self.device.enqueue(prepared.kernel, &prepared.shape, &prepared.arguments)?;
            marks.push((start, self.device.mark()?));
        }
        // Read while the device works through the queue: clocks fall at once
        // when it idles.
        let clocks_during = self.device.clocks();
        self.device.wait(limit.saturating_mul(samples.saturating_mul(2)) + HELPER_LIMIT)?;
        let clocks_after = self.device.clocks();
        let samples_s = marks
            .into_iter()
            .map(|(start, end)| self.device.seconds(start, end))
            .collect::<Result<_, _>>()?;
        Ok(Timed { samples_s, first_s, clocks_during, clocks_after })
    }

    /// Measures what the device itself does: `cuMemcpyDtoDAsync` from one
    /// buffer of `copy_bytes` to another, and the time by events of a kernel
    /// that does nothing.
    pub fn reference(&mut self, copy_bytes: u64, samples: u32) -> Result<Reference, Error> {
        // A third of what is free, so that two buffers fit beside the flush.
        let copy_bytes = (copy_bytes.min(self.device.memory()?.free / 3) / 16 * 16).max(16);
        let from = self.device.allocate(copy_bytes, Place::Device)?;
        let to = match self.device.allocate(copy_bytes, Place::Device) {
            Ok(region) => region,
            Err(error) => {
                let _ = self.device.release(from);
                return Err(error);
            }
        };
        let result = self.reference_with(&to, &from, samples);
        self.device.release(to)?;
        self.device.release(from)?;
        result
    }

    fn reference_with(
        &mut self,
        to: &Region,
        from: &Region,
        samples: u32,
    ) -> Result<Reference, Error> {
        self.fill_random(from, 0xc0b1, u64::MAX, 0)?;
        for _ in 0..WARM_UP {
            self.device.enqueue_copy(to, from, from.bytes)?;
        }
        self.device.wait(HELPER_LIMIT)?;
        self.device.clear_marks();
        let mut marks = Vec::new();
        for _ in 0..samples {
            self.enqueue_flush()?;
            let start = self.device.mark()?;
            self.device.enqueue_copy(to, from, from.bytes)?;
            marks.push((start, self.device.mark()?));
        }
        self.device.wait(HELPER_LIMIT)?;
        let copy_s = marks
            .into_iter()
            .map(|(start, end)| self.device.seconds(start, end))
            .collect::<Result<_, _>>()?;

        let (entry, text) = kernels::EMPTY;
        let kernel = self.device.load(text, entry, Level::Default)?;
        let prepared = Prepared {
            kernel,
            shape: Shape::linear(1, 32),
            arguments: Vec::new(),
            regions: Vec::new(),
            results: None,
        };
        let timed = self.time(&prepared, Cache::Cold, samples, HELPER_LIMIT);
        self.release(prepared)?;
        Ok(Reference { copy_bytes: from.bytes, copy_s, empty_kernel_s: timed?.samples_s })
    }
}

/// Bytes to allocate for a buffer: offset and elements, rounded up to what the
/// fill kernel writes in one piece, and at least one piece.
fn allocation_bytes(buffer: &JobBuffer) -> u64 {
    buffer.offset_bytes.saturating_add(buffer.bytes).div_ceil(16).max(1).saturating_mul(16)
}

/// Reads until the piece is full or the file ends.
fn read_full(file: &mut impl Read, piece: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < piece.len() {
        match file.read(&mut piece[length..]) {
            Ok(0) => break,
            Ok(n) => length += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Clocks;
    use crate::device::fake::{Event, FakeDevice};
    use crate::job::JobArgument;

    fn launch(contents: Contents, bytes: u64) -> Launch {
        Launch {
            ptx: ".version 7.0\n.target sm_70\n.visible .entry kernel(".into(),
            entry: "kernel".into(),
            level: Level::Default,
            shape: Shape::linear(4, 128),
            buffers: vec![JobBuffer {
                name: "in".into(),
                offset_bytes: 4,
                bytes,
                place: Place::Device,
                contents,
            }],
            arguments: vec![
                JobArgument::Buffer(0),
                JobArgument::Value { bytes: 4, value: 0x1_0000_0002 },
                JobArgument::Results,
            ],
        }
    }

    const LIMIT: Duration = Duration::from_secs(1);

    #[test]
    fn a_cold_sample_is_a_flush_then_the_kernel_between_marks() {
        let mut device = FakeDevice::new();
        device.script("coalescope_flush", &[1.0]);
        device.script("kernel", &[0.9, 0.8, 0.8, 0.8, 0.5, 0.25]);
        let mut bench = Bench::new(&mut device);
        let prepared = bench.prepare(&launch(Contents::Zero, 64), 0).expect("prepared");
        let timed = bench.time(&prepared, Cache::Cold, 2, LIMIT).expect("timed");
        assert_eq!(timed.first_s, 0.9);
        for (sample, scripted) in timed.samples_s.iter().zip([0.5, 0.25]) {
            assert!((sample - scripted).abs() < 1e-9, "the flush is outside: {timed:?}");
        }
        bench.release(prepared).expect("released");
        let sample = ["coalescope_flush", "mark", "kernel", "mark"];
        let first = ["mark", "kernel", "mark", "kernel", "kernel", "kernel"];
        // The flush buffer is filled once, before the first flush.
        let expected: Vec<&str> =
            first.into_iter().chain(["coalescope_fill"]).chain(sample).chain(sample).collect();
        assert_eq!(device.sequence(), expected);
        // All but the flush buffer has been given back.
        assert_eq!(device.memory.len(), 1);
        assert_eq!(device.memory.values().next().map(Vec::len), Some(4 << 16));
    }

    #[test]
    fn a_warm_sample_runs_the_kernel_just_before() {
        let mut device = FakeDevice::new();
        let mut bench = Bench::new(&mut device);
        let prepared = bench.prepare(&launch(Contents::Zero, 64), 0).expect("prepared");
        bench.time(&prepared, Cache::Warm, 1, LIMIT).expect("timed");
        let sequence = device.sequence();
        assert_eq!(sequence[6..], ["coalescope_delay", "kernel", "mark", "kernel", "mark"]);
    }

    #[test]
    fn arguments_are_addresses_and_values_of_their_size() {
        let mut device = FakeDevice::new();
        let mut bench = Bench::new(&mut device);
        let prepared = bench.prepare(&launch(Contents::Zero, 64), 2).expect("prepared");
        let base = prepared.bases()[0];
        assert_eq!(prepared.arguments[0], (base + 4).to_ne_bytes());
        assert_eq!(prepared.arguments[1], [2, 0, 0, 0]);
        assert_eq!(bench.results(&prepared).expect("read"), [0, 0]);
        let results =
            u64::from_ne_bytes(prepared.arguments[2].clone().try_into().expect("8 bytes"));
        assert_ne!(results, base);
    }

    #[test]
    fn contents_of_a_file_start_at_the_offset_and_zeros_follow() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), [7u8; 10]).expect("written");
        let mut device = FakeDevice::new();
        let mut bench = Bench::new(&mut device);
        let contents = Contents::File(file.path().to_owned());
        let prepared = bench.prepare(&launch(contents, 20), 0).expect("prepared");
        let mut bytes = vec![0; 32];
        bench.device.read(&prepared.regions[0], 0, &mut bytes).expect("read");
        assert_eq!(bytes[4..14], [7; 10]);
        assert_eq!(bytes[14..], [0; 18]);
    }

    #[test]
    fn random_contents_are_asked_of_the_fill_kernel() {
        let mut device = FakeDevice::new();
        let mut bench = Bench::new(&mut device);
        let contents = Contents::Random { seed: 5, keep: 6, set: 7 };
        let prepared = bench.prepare(&launch(contents, 20), 0).expect("prepared");
        let base = prepared.bases()[0];
        let expected = [base, 4, 5, 6, 7].map(|value: u64| value.to_ne_bytes().to_vec());
        let Some(Event::Launch { entry, arguments, .. }) = device.events.first() else {
            panic!("{:?}", device.events)
        };
        assert_eq!((entry.as_str(), arguments.as_slice()), ("coalescope_fill", &expected[..]));
    }

    #[test]
    fn clocks_are_read_while_the_samples_run_and_after() {
        let mut device = FakeDevice::new();
        device.clocks = Some(Clocks {
            sm_hz: 1_980_000_000,
            memory_hz: 3_201_000_000,
            performance_state: Some("P0".into()),
            throttled: Vec::new(),
            temperature_c: None,
            power_w: None,
        });
        let mut bench = Bench::new(&mut device);
        let prepared = bench.prepare(&launch(Contents::Zero, 64), 0).expect("prepared");
        let timed = bench.time(&prepared, Cache::Cold, 1, LIMIT).expect("timed");
        assert!(timed.clocks_during.is_some() && timed.clocks_after.is_some());
    }

    #[test]
    fn a_hang_shows_at_the_first_launch() {
        let mut device = FakeDevice::new();
        device.hangs.insert("kernel".into());
        let mut bench = Bench::new(&mut device);
        let prepared = bench.prepare(&launch(Contents::Zero, 64), 0).expect("prepared");
        let error = bench.time(&prepared, Cache::Cold, 20, LIMIT).expect_err("it hangs");
        assert!(matches!(error, Error::Timeout { limit_s: 1.0 }) && error.is_fatal());
        assert_eq!(device.sequence(), ["mark", "kernel", "mark"]);
    }

    #[test]
    fn what_does_not_fit_is_refused_before_anything_is_allocated() {
        let mut device = FakeDevice::new();
        device.free = 1000;
        let mut bench = Bench::new(&mut device);
        let error = bench.prepare(&launch(Contents::Zero, 2000), 0).err().expect("too large");
        assert!(
            matches!(&error, Error::OutOfMemory { needed: 2016, free: 1000, largest, .. } if largest == "in"),
            "{error}"
        );
        assert!(device.memory.is_empty() && device.kernels.is_empty());
    }

    #[test]
    fn a_job_that_names_no_buffer_of_its_own_is_refused_and_releases_all() {
        let mut device = FakeDevice::new();
        let mut bench = Bench::new(&mut device);
        let mut bad = launch(Contents::Zero, 64);
        bad.arguments = vec![JobArgument::Buffer(3)];
        let error = bench.prepare(&bad, 1).err().expect("no buffer 3");
        assert!(error.to_string().contains("no buffer 3"), "{error}");
        assert!(device.memory.is_empty() && device.kernels.is_empty());
    }

    #[test]
    fn the_reference_leaves_nothing_but_the_flush_buffer() {
        let mut device = FakeDevice::new();
        device.script("coalescope_empty", &[2e-6]);
        let mut bench = Bench::new(&mut device);
        let reference = bench.reference(1 << 20, 5).expect("measured");
        assert_eq!(reference.copy_bytes, 1 << 20);
        assert_eq!((reference.copy_s.len(), reference.empty_kernel_s.len()), (5, 5));
        assert_eq!(device.memory.len(), 1);
    }
}
