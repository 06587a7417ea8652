//! Memory behind given virtual addresses.
//!
//! What L1TEX does with a warp access depends on the addresses themselves, high
//! bits included, so a pattern from elsewhere is tried where it was: each
//! granule (2 MiB) that a lane touches is reserved at its own address. Where
//! the driver puts one of them elsewhere (taken by something else), the whole
//! line moves to a window: the bits above the highest one in which its
//! addresses differ are replaced, the rest stays. Where they differ in bits that
//! no window spans, several windows are taken, and the line moves to those whose
//! numbers differ in the same bits. All lanes keep their XOR
//! differences, and with a hash that is linear over the bits (as CC 9.0's tag
//! banks are) the counts too; the record holds the real addresses in any case.
//!
//! Only touched granules have memory behind them, and few at a time: a
//! profiler that replays a kernel saves and restores all that is mapped.

use crate::device::Device;
use crate::error::Error;
use simulator::{LaneMask, WARP_LANES};
use std::collections::{BTreeMap, VecDeque};

/// Granules kept mapped: those of one line (32 lanes, each inside one granule,
/// since accesses are aligned) and of a few before it.
const KEPT: usize = 64;

/// Widest window reserved, as a power of two: 2^44 bytes are an eighth of the
/// 47 bits that user addresses have on x86-64.
const WIDEST_WINDOW_LOG2: u32 = 44;

/// How addresses change that move.
struct Moved {
    /// Bits that stay.
    keep: u64,
    /// Bits that change then.
    flip: u64,
}

impl Moved {
    fn apply(&self, address: u64) -> u64 {
        (address & self.keep) ^ self.flip
    }
}

/// Reservations and mappings of a worker.
#[derive(Debug, Default)]
pub struct Arena {
    granule: u64,
    /// Single granules reserved at their own address.
    exact: BTreeMap<u64, ()>,
    /// Granules that could not be had at their own address.
    refused: BTreeMap<u64, ()>,
    /// Windows by size: reserved start, reserved bytes, aligned base.
    windows: BTreeMap<u64, (u64, u64, u64)>,
    /// Windows of the widest size beyond that in `windows`, by their base; empty
    /// until a line needs several.
    more_windows: Option<Vec<u64>>,
    /// Granules with memory behind them, least recently used first.
    backed: VecDeque<u64>,
}

impl Arena {
    /// Puts memory behind the addresses of the active lanes and returns where
    /// they went, with whether that is where they were wanted. Entries of
    /// inactive lanes are 0.
    pub fn place(
        &mut self,
        device: &mut dyn Device,
        mask: u32,
        wanted: &[u64; WARP_LANES],
    ) -> Result<([u64; WARP_LANES], bool), Error> {
        if self.granule == 0 {
            self.granule = device.granule()?;
        }
        let lanes: Vec<usize> = LaneMask(mask).lanes().collect();
        let mut granules: Vec<u64> =
            lanes.iter().map(|&lane| wanted[lane] & !(self.granule - 1)).collect();
        granules.sort_unstable();
        granules.dedup();

        let exact = self.reserve_exact(device, &granules)?;
        let mut placed = [0; WARP_LANES];
        if exact {
            for &lane in &lanes {
                placed[lane] = wanted[lane];
            }
        } else {
            let moved = self.moved(device, &granules)?;
            for &lane in &lanes {
                placed[lane] = moved.apply(wanted[lane]);
            }
            for granule in &mut granules {
                *granule = moved.apply(*granule);
            }
        }
        self.back(device, &granules)?;
        Ok((placed, exact))
    }

    /// Reserves each granule at its own address, all or none.
    fn reserve_exact(&mut self, device: &mut dyn Device, granules: &[u64]) -> Result<bool, Error> {
        let mut fresh = Vec::new();
        for &granule in granules {
            if self.exact.contains_key(&granule) {
                continue;
            }
            // The driver takes 0 for "anywhere".
            let got = if granule == 0 || self.refused.contains_key(&granule) {
                None
            } else {
                device.reserve(self.granule, self.granule, Some(granule)).ok()
            };
            if got == Some(granule) {
                fresh.push(granule);
                self.exact.insert(granule, ());
                continue;
            }
            if let Some(elsewhere) = got {
                device.unreserve(elsewhere, self.granule)?;
            }
            self.refused.insert(granule, ());
            for granule in fresh {
                self.exact.remove(&granule);
                device.unreserve(granule, self.granule)?;
            }
            return Ok(false);
        }
        Ok(true)
    }

    /// Where these granules go that cannot be had where they are.
    fn moved(&mut self, device: &mut dyn Device, granules: &[u64]) -> Result<Moved, Error> {
        let differences =
            granules.iter().fold(self.granule - 1, |bits, granule| bits | (granule ^ granules[0]));
        let log2 = u64::BITS - differences.leading_zeros();
        if log2 <= WIDEST_WINDOW_LOG2 {
            let (base, size) = self.window(device, log2)?;
            return Ok(Moved { keep: size - 1, flip: base });
        }
        let bases = self.widest_windows(device)?;
        let number = |address: u64| address >> WIDEST_WINDOW_LOG2;
        let fits = |flip: &u64| {
            granules
                .iter()
                .all(|&granule| bases.iter().any(|&base| number(base) == number(granule) ^ flip))
        };
        let flip = (0..1 << (47 - WIDEST_WINDOW_LOG2)).find(fits).ok_or_else(|| {
            Error::Input(format!(
                "the addresses differ in bit {}, and neither they nor others that differ in the \
                 same bits can be reserved",
                log2 - 1
            ))
        })?;
        Ok(Moved { keep: u64::MAX, flip: flip << WIDEST_WINDOW_LOG2 })
    }

    /// All windows of the widest size that the driver gives.
    fn widest_windows(&mut self, device: &mut dyn Device) -> Result<Vec<u64>, Error> {
        let (first, size) = self.window(device, WIDEST_WINDOW_LOG2)?;
        let more = self.more_windows.get_or_insert_with(|| {
            let mut more = Vec::new();
            while let Ok(start) = device.reserve(size, size, None) {
                if !start.is_multiple_of(size) {
                    // No aligned one is left.
                    let _ = device.unreserve(start, size);
                    break;
                }
                more.push(start);
                if more.len() >= 1 << (47 - WIDEST_WINDOW_LOG2) {
                    break;
                }
            }
            more
        });
        Ok(std::iter::once(first).chain(more.iter().copied()).collect())
    }

    /// A reserved window of `1 << log2` bytes that starts at a multiple of its
    /// size.
    fn window(&mut self, device: &mut dyn Device, log2: u32) -> Result<(u64, u64), Error> {
        let size = 1 << log2;
        if let Some(&(_, _, base)) = self.windows.get(&size) {
            return Ok((base, size));
        }
        let mut start = device.reserve(size, size, None)?;
        let mut bytes = size;
        if !start.is_multiple_of(size) {
            // The alignment was not honoured: take twice as much and align.
            device.unreserve(start, bytes)?;
            bytes = 2 * size;
            start = device.reserve(bytes, size, None)?;
        }
        let base = start.next_multiple_of(size);
        self.windows.insert(size, (start, bytes, base));
        Ok((base, size))
    }

    /// Puts memory behind granules, and takes it from those used longest ago.
    fn back(&mut self, device: &mut dyn Device, granules: &[u64]) -> Result<(), Error> {
        for &granule in granules {
            match self.backed.iter().position(|&backed| backed == granule) {
                Some(at) => {
                    self.backed.remove(at);
                }
                None => device.back(granule)?,
            }
            self.backed.push_back(granule);
        }
        while self.backed.len() > KEPT {
            if let Some(oldest) = self.backed.pop_front() {
                device.unback(oldest)?;
            }
        }
        Ok(())
    }

    /// Gives everything back.
    pub fn clear(&mut self, device: &mut dyn Device) -> Result<(), Error> {
        for granule in self.backed.drain(..) {
            device.unback(granule)?;
        }
        for granule in std::mem::take(&mut self.exact).into_keys() {
            device.unreserve(granule, self.granule)?;
        }
        for (start, bytes, _) in std::mem::take(&mut self.windows).into_values() {
            device.unreserve(start, bytes)?;
        }
        for start in self.more_windows.take().into_iter().flatten() {
            device.unreserve(start, 1 << WIDEST_WINDOW_LOG2)?;
        }
        self.refused.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fake::FakeDevice;

    const GRANULE: u64 = 2 << 20;

    fn lanes(addresses: &[u64]) -> ([u64; WARP_LANES], u32) {
        let mut list = [0; WARP_LANES];
        list[..addresses.len()].copy_from_slice(addresses);
        (list, ((1u64 << addresses.len()) - 1) as u32)
    }

    #[test]
    fn free_addresses_are_taken_as_they_are() {
        let (mut device, mut arena) = (FakeDevice::new(), Arena::default());
        let far = [0x7f00_1234_5680, 0x7f00_1234_5684, 0x0123_4567_8900];
        let (wanted, mask) = lanes(&far);
        let (placed, exact) = arena.place(&mut device, mask, &wanted).expect("placed");
        assert!(exact);
        assert_eq!(placed, wanted);
        assert_eq!(device.backed.len(), 2);
        // Again: nothing new is reserved.
        let reserved = device.reserved.len();
        arena.place(&mut device, mask, &wanted).expect("placed");
        assert_eq!(device.reserved.len(), reserved);
        arena.clear(&mut device).expect("cleared");
        assert!(device.reserved.is_empty() && device.backed.is_empty());
    }

    #[test]
    fn a_taken_address_moves_the_line_and_keeps_its_low_bits() {
        let (mut device, mut arena) = (FakeDevice::new(), Arena::default());
        let far = [0x7f12_3456_7880, 0x7f1a_3456_7884, 0x7f12_0000_0000];
        device.taken.push((far[1] & !(GRANULE - 1), GRANULE));
        let (wanted, mask) = lanes(&far);
        let (placed, exact) = arena.place(&mut device, mask, &wanted).expect("placed");
        assert!(!exact);
        // The highest difference is in bit 35.
        for lane in 0..3 {
            assert_eq!(placed[lane] ^ placed[0], wanted[lane] ^ wanted[0]);
            assert_eq!(placed[lane] & ((1 << 36) - 1), wanted[lane] & ((1 << 36) - 1));
        }
        assert_eq!(placed[3..], [0; 29]);
        // What had been reserved for the exact attempt was given back.
        assert_eq!(device.reserved.len(), 1);
    }

    #[test]
    fn low_addresses_get_a_window_of_one_granule() {
        let (mut device, mut arena) = (FakeDevice::new(), Arena::default());
        let (wanted, mask) = lanes(&[0, 128, 4096]);
        let (placed, exact) = arena.place(&mut device, mask, &wanted).expect("placed");
        assert!(!exact);
        assert_eq!(placed[1] - placed[0], 128);
        assert_eq!(placed[0] % GRANULE, 0);
        assert_eq!(device.reserved, [(placed[0], GRANULE)]);
    }

    #[test]
    fn what_no_window_can_hold_is_refused_with_the_bit() {
        let (mut device, mut arena) = (FakeDevice::new(), Arena::default());
        let far = [1 << 45, 1 << 46];
        device.taken.push((far[0], GRANULE));
        let (wanted, mask) = lanes(&far);
        let error = arena.place(&mut device, mask, &wanted).expect_err("too far apart");
        assert!(error.to_string().contains("bit 46"), "{error}");
    }

    #[test]
    fn differences_above_a_window_go_to_several() {
        let (mut device, mut arena) = (FakeDevice::new(), Arena::default());
        let far = [(1 << 45) + 0x1280, (1 << 45) + (1 << 44) + 0x1300];
        device.taken.push((far[0] & !(GRANULE - 1), GRANULE));
        let (wanted, mask) = lanes(&far);
        let (placed, exact) = arena.place(&mut device, mask, &wanted).expect("placed");
        assert!(!exact);
        assert_eq!(placed[0] ^ placed[1], wanted[0] ^ wanted[1]);
        assert_eq!(placed[0] & ((1 << 44) - 1), 0x1280);
        arena.clear(&mut device).expect("cleared");
        assert!(device.reserved.is_empty() && device.backed.is_empty());
    }

    #[test]
    fn few_granules_stay_mapped() {
        let (mut device, mut arena) = (FakeDevice::new(), Arena::default());
        for line in 0..10u64 {
            let wanted = std::array::from_fn(|lane| (line * 64 + lane as u64 + 1) * GRANULE);
            arena.place(&mut device, u32::MAX, &wanted).expect("placed");
            assert!(device.backed.len() <= KEPT);
            assert!(wanted.iter().all(|address| device.backed.contains(address)));
        }
    }

    #[test]
    fn an_empty_mask_needs_no_memory() {
        let (mut device, mut arena) = (FakeDevice::new(), Arena::default());
        let (placed, exact) = arena.place(&mut device, 0, &[7; 32]).expect("placed");
        assert!(exact && device.reserved.is_empty());
        assert_eq!(placed, [0; 32]);
    }
}
