//! A device for tests: memory is host memory, kernels do nothing, and time is
//! scripted.

use super::{
    Argument, Clocks, Description, Device, KernelId, Level, Mark, MemoryState, Place, Region,
    Resources, Shape,
};
use crate::error::Error;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// What was enqueued, for tests to look at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Launch { entry: String, shape: Shape, arguments: Vec<Argument> },
    Copy(u64),
    Mark,
}

/// A scripted device.
pub(crate) struct FakeDevice {
    pub(crate) description: Description,
    pub(crate) free: u64,
    pub(crate) memory: BTreeMap<u64, Vec<u8>>,
    pub(crate) events: Vec<Event>,
    /// Times of the launches of an entry, one after the other; the last one
    /// stays.
    pub(crate) times: HashMap<String, VecDeque<f64>>,
    /// Entries whose launch never ends.
    pub(crate) hangs: BTreeSet<String>,
    pub(crate) clocks: Option<Clocks>,
    pub(crate) kernels: HashMap<usize, String>,
    /// Addresses that cannot be reserved.
    pub(crate) taken: Vec<(u64, u64)>,
    pub(crate) reserved: Vec<(u64, u64)>,
    pub(crate) backed: BTreeSet<u64>,
    marks: Vec<f64>,
    now: f64,
    hung: bool,
    next: u64,
}

impl FakeDevice {
    pub(crate) fn new() -> Self {
        Self {
            description: Description {
                name: "Fake".into(),
                index: 0,
                pci_bus_id: "0000:00:00.0".into(),
                compute_capability: (9, 0),
                multiprocessors: 2,
                l2_bytes: 1 << 16,
                memory_bytes: 1 << 30,
                sm_clock_hz: 1_000_000_000,
                memory_clock_hz: 2_000_000_000,
                memory_bus_bits: 256,
                ecc: false,
                shared_bytes_per_block: 227 << 10,
                shared_bytes_per_sm: 228 << 10,
                shared_bytes_reserved: 1 << 10,
                threads_per_sm: 2048,
                blocks_per_sm: 32,
                registers_per_sm: 1 << 16,
                cuda: (13, 0),
                driver: Some("580.1".into()),
            },
            free: 1 << 30,
            memory: BTreeMap::new(),
            events: Vec::new(),
            times: HashMap::new(),
            hangs: BTreeSet::new(),
            clocks: None,
            kernels: HashMap::new(),
            taken: Vec::new(),
            reserved: Vec::new(),
            backed: BTreeSet::new(),
            marks: Vec::new(),
            now: 0.0,
            hung: false,
            next: 0x7000_0000_0000,
        }
    }

    pub(crate) fn script(&mut self, entry: &str, times: &[f64]) {
        self.times.insert(entry.into(), times.iter().copied().collect());
    }

    /// Names of the launches and marks, in order.
    pub(crate) fn sequence(&self) -> Vec<&str> {
        self.events
            .iter()
            .map(|event| match event {
                Event::Launch { entry, .. } => entry.as_str(),
                Event::Copy(_) => "copy",
                Event::Mark => "mark",
            })
            .collect()
    }

    fn overlaps(&self, address: u64, bytes: u64) -> bool {
        let mut ranges = self.taken.iter().chain(&self.reserved);
        ranges.any(|&(start, length)| address < start + length && start < address + bytes)
    }
}

impl Device for FakeDevice {
    fn description(&self) -> &Description {
        &self.description
    }

    fn memory(&self) -> Result<MemoryState, Error> {
        let used: u64 = self.memory.values().map(|bytes| bytes.len() as u64).sum();
        Ok(MemoryState { free: self.free.saturating_sub(used), total: 1 << 30 })
    }

    fn clocks(&self) -> Option<Clocks> {
        self.clocks.clone()
    }

    fn allocate(&mut self, bytes: u64, place: Place) -> Result<Region, Error> {
        assert!(bytes > 0 && bytes.is_multiple_of(8), "the contract of allocate and fill");
        let address = self.next;
        self.next += bytes.next_multiple_of(1 << 21);
        self.memory.insert(address, vec![0xee; bytes as usize]);
        Ok(Region { address, bytes, place })
    }

    fn release(&mut self, region: Region) -> Result<(), Error> {
        assert!(self.memory.remove(&region.address).is_some(), "released once");
        Ok(())
    }

    fn write(&mut self, region: &Region, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let memory = self.memory.get_mut(&region.address).expect("allocated");
        memory[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, region: &Region, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let memory = self.memory.get(&region.address).expect("allocated");
        bytes.copy_from_slice(&memory[offset as usize..offset as usize + bytes.len()]);
        Ok(())
    }

    fn load(&mut self, ptx: &str, entry: &str, _level: Level) -> Result<KernelId, Error> {
        assert!(ptx.contains(&format!(".entry {entry}(")), "the text has the entry {entry}");
        let id = self.next as usize;
        self.next += 1 << 21;
        self.kernels.insert(id, entry.to_owned());
        Ok(KernelId(id))
    }

    fn resources(&self, _kernel: KernelId) -> Result<Resources, Error> {
        Ok(Resources { registers: 16, shared_bytes: 0, local_bytes: 0 })
    }

    fn unload(&mut self, kernel: KernelId) -> Result<(), Error> {
        assert!(self.kernels.remove(&kernel.0).is_some(), "unloaded once");
        Ok(())
    }

    fn enqueue(
        &mut self,
        kernel: KernelId,
        shape: &Shape,
        arguments: &[Argument],
    ) -> Result<(), Error> {
        let entry = self.kernels[&kernel.0].clone();
        let time = self.times.get_mut(&entry).map_or(1e-6, |times| {
            if times.len() > 1 { times.pop_front() } else { times.front().copied() }.unwrap_or(1e-6)
        });
        self.now += time;
        self.hung |= self.hangs.contains(&entry);
        self.events.push(Event::Launch { entry, shape: *shape, arguments: arguments.to_vec() });
        Ok(())
    }

    fn enqueue_copy(&mut self, _to: &Region, _from: &Region, bytes: u64) -> Result<(), Error> {
        self.now += 2.0 * bytes as f64 / 1e12;
        self.events.push(Event::Copy(bytes));
        Ok(())
    }

    fn mark(&mut self) -> Result<Mark, Error> {
        self.events.push(Event::Mark);
        self.marks.push(self.now);
        Ok(Mark(self.marks.len() - 1))
    }

    fn clear_marks(&mut self) {
        self.marks.clear();
    }

    fn wait(&mut self, limit: Duration) -> Result<(), Error> {
        if self.hung {
            return Err(Error::Timeout { limit_s: limit.as_secs_f64() });
        }
        Ok(())
    }

    fn seconds(&self, from: Mark, to: Mark) -> Result<f64, Error> {
        Ok(self.marks[to.0] - self.marks[from.0])
    }

    fn granule(&self) -> Result<u64, Error> {
        Ok(1 << 21)
    }

    fn reserve(&mut self, bytes: u64, alignment: u64, wanted: Option<u64>) -> Result<u64, Error> {
        let mut address = wanted.unwrap_or(0);
        if address == 0 || self.overlaps(address, bytes) {
            address = 0x5000_0000_0000_u64.next_multiple_of(alignment);
            while self.overlaps(address, bytes) {
                address += alignment;
            }
        }
        self.reserved.push((address, bytes));
        Ok(address)
    }

    fn unreserve(&mut self, address: u64, bytes: u64) -> Result<(), Error> {
        let at = self.reserved.iter().position(|&entry| entry == (address, bytes));
        self.reserved.remove(at.expect("reserved with this size"));
        Ok(())
    }

    fn back(&mut self, address: u64) -> Result<(), Error> {
        let inside =
            self.reserved.iter().any(|&(start, bytes)| (start..start + bytes).contains(&address));
        assert!(inside && address.is_multiple_of(1 << 21), "{address:#x} is a reserved granule");
        assert!(self.backed.insert(address), "backed once");
        Ok(())
    }

    fn unback(&mut self, address: u64) -> Result<(), Error> {
        assert!(self.backed.remove(&address), "backed before");
        Ok(())
    }
}
