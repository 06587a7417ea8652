//! The hash of the tag banks, recovered over GF(2).
//!
//! The bank of a line is a linear function of the bits of its index (virtual
//! address ÷ 128): bit i of the bank is the parity of the index under a mask.
//! Two lines a and b share a bank if and only if a ⊕ b lies in the function's
//! null space. A warp with two lanes, one in each line, tells which it is: its
//! request takes two tag wavefronts, or one. So the differences of lines that
//! were found in one bank span the null space, and the masks are the basis of
//! all vectors that are orthogonal to it; any basis will do, since it numbers
//! the same banks otherwise.
//!
//! [`probes`] says which warps to count: first all differences in the lowest
//! bits, which settle how many banks there are; then, for each further bit, its
//! sum with one line of each bank, of which exactly one must be found in the
//! bank of line 0; at last warps of many lines, to check what was found.

use std::collections::{BTreeMap, BTreeSet};

use super::probe::{Counted, Probe};

/// log2 of the bytes of a line: what a tag stands for (all compute capabilities
/// that have a tag stage with banks: 7.0 and later).
const LINE_SHIFT: u32 = 7;

/// The lowest line bits, whose differences are all asked for.
const LOW_BITS: u32 = 6;

/// Bits of a line index of a user's virtual address: 47 bits of address.
const LINE_BITS: u32 = 40;

/// Warps of many lines that check the hash.
const CHECKS: usize = 48;

/// Address of the line that differences are taken from. Those around it are
/// usually free; where not, the counted line says where it was.
const BASE: u64 = 0x7e00_0000_0000;

/// A linear function of line indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagHash {
    /// Masks, in reduced row-echelon form, highest leading bit first.
    pub masks: Vec<u64>,
    /// Line bits that it is known for.
    pub line_bits: u64,
    /// Pairs of lines that it follows from.
    pub evidence: usize,
}

/// Why there is no hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// No counted warp has two lines.
    #[error("no counted warp with two lines tells of the tag banks")]
    NoPairs,
    /// No linear function explains the counts.
    #[error(
        "lines that differ by {difference:#x} were counted in two tag banks, where others that were \
         counted in one say that they share one: the banks are no linear function of the address"
    )]
    NotLinear {
        /// a ⊕ b of two lines.
        difference: u64,
    },
}

impl TagHash {
    /// Recovers the hash from counted warps; those without exactly two lines
    /// tell nothing and are passed over.
    ///
    /// # Errors
    /// Where no warp tells, or they contradict each other.
    pub fn recover(counted: &[Counted]) -> Result<Self, HashError> {
        let pairs: Vec<(u64, bool)> = counted.iter().filter_map(pair).collect();
        if pairs.is_empty() {
            return Err(HashError::NoPairs);
        }
        let line_bits = pairs.iter().fold(0, |bits, (difference, _)| bits | difference);
        let shared = reduced(pairs.iter().filter(|(_, same)| *same).map(|(d, _)| *d));
        let apart: Vec<u64> = pairs.iter().filter(|(_, same)| !same).map(|(d, _)| *d).collect();
        let shared = eliminated(shared, &apart, line_bits);
        let masks = orthogonal(&shared, line_bits);
        let hash = Self { masks, line_bits, evidence: pairs.len() };
        match pairs.iter().find(|&&(difference, same)| (hash.bank(difference) == 0) != same) {
            Some(&(difference, _)) => Err(HashError::NotLinear { difference }),
            None => Ok(hash),
        }
    }

    /// The bank of a line, as numbered by these masks.
    pub fn bank(&self, line: u64) -> u64 {
        self.masks
            .iter()
            .enumerate()
            .fold(0, |bank, (bit, mask)| bank | u64::from((line & mask).count_ones() & 1) << bit)
    }

    /// Tag wavefronts of a request: lines in the fullest bank.
    pub fn wavefronts(&self, lines: &[u64]) -> u64 {
        let mut banks = BTreeMap::new();
        for &line in lines {
            *banks.entry(self.bank(line)).or_insert(0) += 1;
        }
        banks.into_values().max().unwrap_or(0)
    }

    /// How many warps of more than two lines there are, and of how many of them
    /// the hash predicts the tag wavefronts exactly.
    pub fn check(&self, counted: &[Counted]) -> (usize, usize) {
        let many = counted.iter().filter_map(|warp| Some((lines(warp), warp.tag_wavefronts()?)));
        let many = many.filter(|(lines, _)| lines.len() > 2);
        many.fold((0, 0), |(n, exact), (lines, wavefronts)| {
            (n + 1, exact + usize::from(self.wavefronts(&lines) == wavefronts))
        })
    }

    /// Whether both tell the same lines apart, on the bits that both know.
    pub fn same_banks(&self, masks: &[u64]) -> bool {
        reduced(masks.iter().map(|mask| mask & self.line_bits)) == self.masks
    }
}

/// Distinct lines of a warp's lanes.
fn lines(warp: &Counted) -> Vec<u64> {
    let mut lines: Vec<u64> =
        warp.active_addresses().map(|address| address >> LINE_SHIFT).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// What a warp of two lines tells: their difference, and whether they share a
/// bank.
fn pair(warp: &Counted) -> Option<(u64, bool)> {
    let &[a, b] = lines(warp).as_slice() else { return None };
    match warp.tag_wavefronts()? {
        1 => Some((a ^ b, false)),
        2 => Some((a ^ b, true)),
        _ => None,
    }
}

/// `vector` without what the reduced basis spans.
fn remainder(basis: &[u64], vector: u64) -> u64 {
    basis.iter().fold(vector, |vector, row| vector.min(vector ^ row))
}

/// Adds to the differences that share a bank those that follow by elimination:
/// a line that was found apart from one line of each bank but one lies in that
/// one's. The banks taken into account are those that the lowest bits tell
/// apart.
fn eliminated(mut shared: Vec<u64>, apart: &[u64], line_bits: u64) -> Vec<u64> {
    loop {
        let apart: BTreeSet<u64> =
            apart.iter().map(|difference| remainder(&shared, *difference)).collect();
        let is_apart = |difference: u64| apart.contains(&remainder(&shared, difference));
        let bits = (0..u64::BITS).map(|bit| 1u64 << bit).filter(|bit| line_bits & bit != 0);
        // One line of each bank.
        let mut lines = vec![0];
        for bit in bits.clone() {
            if lines.iter().all(|line| is_apart(line ^ bit)) {
                lines.extend(lines.clone().iter().map(|line| line ^ bit));
            }
        }
        let found: Vec<u64> = bits
            .filter_map(|bit| {
                let mut open = lines.iter().map(|line| line ^ bit).filter(|&line| !is_apart(line));
                let only = open.next().filter(|_| open.next().is_none())?;
                (remainder(&shared, only) != 0).then_some(only)
            })
            .collect();
        if found.is_empty() {
            return shared;
        }
        shared = reduced(shared.into_iter().chain(found));
    }
}

/// The reduced row-echelon basis of a span, highest leading bit first.
fn reduced(vectors: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut basis: Vec<u64> = Vec::new();
    for mut vector in vectors {
        vector = remainder(&basis, vector);
        if vector != 0 {
            let lead = 1 << vector.ilog2();
            for row in &mut basis {
                if *row & lead != 0 {
                    *row ^= vector;
                }
            }
            basis.push(vector);
            basis.sort_unstable_by(|a, b| b.cmp(a));
        }
    }
    basis
}

/// The reduced basis of all vectors within `bits` whose product with each row
/// of a reduced basis is even.
fn orthogonal(rows: &[u64], bits: u64) -> Vec<u64> {
    let leads: u64 = rows.iter().map(|row| 1 << row.ilog2()).sum();
    let free = (0..u64::BITS).map(|bit| 1u64 << bit).filter(|bit| bits & bit & !leads != 0);
    // One solution for each free bit: it, and the leading bit of each row that
    // has it.
    reduced(free.map(|bit| {
        rows.iter().filter(|row| *row & bit != 0).fold(bit, |mask, row| mask | 1 << row.ilog2())
    }))
}

/// The warps that settle the hash, given what was counted so far: first those
/// given before, in the same order, then new ones. No new ones: all is known
/// that can be.
pub fn probes(counted: &[Counted]) -> Vec<Probe> {
    let pair = |difference: u64| Probe::load(&[BASE, BASE ^ difference << LINE_SHIFT]);
    let mut probes: Vec<Probe> = (1..1 << LOW_BITS).map(pair).collect();
    let low = counted.get(..probes.len().min(counted.len())).unwrap_or_default();
    if low.len() < probes.len() {
        return probes;
    }
    let Ok(hash) = TagHash::recover(low) else { return probes };
    let mut representatives: Vec<u64> = Vec::new();
    for line in 0..1 << LOW_BITS {
        if representatives.iter().all(|&other| hash.bank(other) != hash.bank(line)) {
            representatives.push(line);
        }
    }
    for bit in LOW_BITS..LINE_BITS {
        probes.extend(representatives.iter().map(|line| pair(1 << bit | line)));
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    probes.extend((0..CHECKS).map(|_| {
        let addresses: Vec<u64> = (0..32)
            .map(|_| {
                // xorshift64 (G. Marsaglia, 2003): any spread of lines will do.
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // Within 256 MiB, so that few pieces of memory are needed.
                BASE + (random >> 36 & !0x7f)
            })
            .collect();
        Probe::load(&addresses)
    }));
    probes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a device with these masks would count.
    fn count(probe: &Probe, masks: &[u64]) -> Counted {
        let truth = TagHash { masks: masks.to_vec(), line_bits: u64::MAX, evidence: 0 };
        let mut counted = Counted::of(probe);
        let wavefronts = truth.wavefronts(&lines(&counted));
        counted.counters.insert("tag_wavefronts".into(), wavefronts);
        counted
    }

    /// Counts what is asked for until nothing more is.
    fn campaign(masks: &[u64]) -> Vec<Counted> {
        let mut counted: Vec<Counted> = Vec::new();
        loop {
            let probes = probes(&counted);
            if probes.len() == counted.len() {
                return counted;
            }
            counted = probes.iter().map(|probe| count(probe, masks)).collect();
        }
    }

    proptest! {
        #[test]
        fn any_hash_whose_low_bits_tell_all_banks_apart_is_recovered(
            high in proptest::collection::vec(0u64..1 << 40, 1..=4),
        ) {
            // Consecutive lines fall on all banks, in any hash worth having.
            let masks: Vec<u64> =
                high.iter().enumerate().map(|(bit, mask)| mask & !0x3f | 1 << bit).collect();
            let counted = campaign(&masks);
            let hash = TagHash::recover(&counted).expect("linear");
            prop_assert!(hash.same_banks(&masks));
            prop_assert_eq!(hash.masks.len(), masks.len());
            prop_assert_eq!(hash.check(&counted), (CHECKS, CHECKS));
        }

        #[test]
        fn a_basis_spans_what_it_was_made_of(vectors in proptest::collection::vec(0u64..256, 0..8)) {
            let basis = reduced(vectors.iter().copied());
            let mut span = std::collections::BTreeSet::from([0]);
            for vector in vectors {
                span = span.iter().flat_map(|&sum| [sum, sum ^ vector]).collect();
            }
            prop_assert_eq!(span.len(), 1 << basis.len());
            prop_assert!(basis.iter().all(|row| span.contains(row)));
            let orthogonal = orthogonal(&basis, 255);
            prop_assert_eq!(orthogonal.len() + basis.len(), 8);
            for (a, b) in basis.iter().flat_map(|a| orthogonal.iter().map(move |b| (a, b))) {
                prop_assert_eq!((a & b).count_ones() % 2, 0);
            }
        }
    }

    #[test]
    fn the_bank_that_is_left_is_the_line_s() {
        let pair = |difference: u64, wavefronts: u64| {
            let mut counted = Counted::of(&Probe::load(&[0, difference << LINE_SHIFT]));
            counted.counters.insert("tag_wavefronts".into(), wavefronts);
            counted
        };
        // Four banks by bits 0 and 1; bit 2 is apart from those of 0, 1 and 2,
        // and whether from that of 3 was not asked.
        let counted = [1, 2, 3, 4, 5, 6].map(|difference| pair(difference, 1));
        let hash = TagHash::recover(&counted).expect("linear");
        assert_eq!(hash.masks.len(), 2);
        assert_eq!(hash.bank(4), hash.bank(3));
    }

    #[test]
    fn banks_that_are_no_linear_function_are_refused() {
        let pair = |difference: u64, wavefronts: u64| {
            let mut counted = Counted::of(&Probe::load(&[0, difference << LINE_SHIFT]));
            counted.counters.insert("tag_wavefronts".into(), wavefronts);
            counted
        };
        // 3 and 5 share the bank of 0, so 3 ⊕ 5 would have to.
        let counted = [pair(3, 2), pair(5, 2), pair(6, 1)];
        assert_eq!(TagHash::recover(&counted), Err(HashError::NotLinear { difference: 6 }));
        assert_eq!(TagHash::recover(&[]), Err(HashError::NoPairs));
    }
}
