//! How many warps of an affine set fall on each residue of a modulus.

use alloc::vec;
use alloc::vec::Vec;

use super::AffineTerm;

/// For each residue r of `modulus`: the number of choices of the variables with
/// `Σ coefficient·v ≡ r (mod modulus)`.
///
/// Each variable is one pass over the residues: its values step round the cycle
/// of its coefficient, a whole number of times (every residue of the cycle
/// alike) and a rest (a window of consecutive residues of the cycle, whose sum
/// is kept while the window moves).
///
/// The product of the counts must fit 128 bits, which
/// `AffineAccess::warps` checks; `modulus` ≥ 1.
pub(super) fn warps_by_residue(terms: &[AffineTerm], modulus: u64) -> Vec<u128> {
    let size = modulus as usize;
    let mut weights = vec![0u128; size];
    if let Some(zero) = weights.first_mut() {
        *zero = 1;
    }
    for term in terms {
        let step = i128::from(term.coefficient).rem_euclid(i128::from(modulus)) as usize;
        weights = convolve_cyclic(&weights, step, term.count);
    }
    weights
}

/// `new[r] = Σ_{v < count} old[(r − step·v) mod size]`.
fn convolve_cyclic(old: &[u128], step: usize, count: u64) -> Vec<u128> {
    let size = old.len();
    let cycles = gcd(step, size);
    let cycle_len = size / cycles;
    let (turns, rest) = (count / cycle_len as u64, (count % cycle_len as u64) as usize);
    let mut new = vec![0u128; size];
    for start in 0..cycles {
        // The k-th residue of this cycle, for any k ≥ 0.
        let residue = |k: usize| (start + (k % cycle_len) * step) % size;
        let whole = u128::from(turns) * (0..cycle_len).map(|k| old[residue(k)]).sum::<u128>();
        // The window ends at residue(k) and holds the `rest` residues up to it.
        let mut window: u128 = (0..rest).map(|back| old[residue(cycle_len - back)]).sum();
        for k in 0..cycle_len {
            new[residue(k)] = whole + window;
            window += old[residue(k + 1)];
            window -= old[residue(k + 1 + cycle_len - rest)];
        }
    }
    new
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
