//! The data banks, from counted loads of shared memory.
//!
//! Two lanes whose words lie in one bank pass one after the other. At powers of
//! two apart, the first distance at which they do is all banks' bytes together;
//! moved from there byte by byte, the first distance at which they no longer do
//! is a bank's bytes.

use super::probe::{Counted, Probe};

/// The largest distance asked for, bytes: 2^12 = 64 banks of 64 bytes.
const MAX_LOG2: u32 = 12;

/// The most bytes of a bank that are asked for.
const MAX_BANK_BYTES: u64 = 16;

/// The warps to count.
pub fn probes() -> Vec<Probe> {
    let apart = (2..=MAX_LOG2).map(|log2| Probe::shared(4, &[0, 1 << log2]));
    let moved = (3..=MAX_LOG2).flat_map(|log2| {
        [1, 2, 4, 8, MAX_BANK_BYTES].map(|more| Probe::shared(1, &[0, (1 << log2) + more]))
    });
    apart.chain(moved).collect()
}

/// Number of banks and bytes of each; `None` where the counts do not tell.
pub fn recover(counted: &[Counted]) -> Option<(u64, u64)> {
    let conflicts = |width: u8| {
        counted.iter().filter(move |warp| warp.width == width).filter_map(|warp| {
            let addresses: Vec<u64> = warp.active_addresses().collect();
            let &[0, distance] = addresses.as_slice() else { return None };
            Some((distance, warp.shared_wavefronts()? > 1))
        })
    };
    let period = conflicts(4).filter(|&(_, conflict)| conflict).map(|(d, _)| d).min()?;
    let bytes = conflicts(1)
        .filter(|&(distance, conflict)| {
            distance > period && distance <= period + MAX_BANK_BYTES && !conflict
        })
        .map(|(distance, _)| distance - period)
        .min()?;
    period.is_multiple_of(bytes).then_some((period / bytes, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(banks: u64, bytes: u64) -> Vec<Counted> {
        let count = |probe: &Probe| {
            let mut counted = Counted::of(probe);
            let bank = |address: u64| address / bytes % banks;
            let lanes: Vec<u64> = counted.active_addresses().collect();
            let (a, b) = (lanes[0], lanes[1]);
            let conflict = bank(a) == bank(b) && a / bytes != b / bytes;
            counted.counters.insert("shared_wavefronts".into(), 1 + u64::from(conflict));
            counted
        };
        probes().iter().map(count).collect()
    }

    #[test]
    fn banks_are_told_by_their_conflicts() {
        for (banks, bytes) in [(32, 4), (16, 4), (32, 8), (64, 8), (16, 16)] {
            assert_eq!(recover(&device(banks, bytes)), Some((banks, bytes)));
        }
        assert_eq!(recover(&[]), None);
    }
}
