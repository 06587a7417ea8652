//! Linear congruences modulo a power of two: how many choices of bounded
//! variables solve them.

use super::uniform::for_each_choice;

/// The number with its `n` lowest bits set; `n` ≤ 64.
pub(super) fn low_ones(n: u32) -> u64 {
    u64::MAX.checked_shr(u64::BITS - n).unwrap_or(0)
}

/// Number of choices of `terms` (coefficient, count) with
/// `Σ coefficient·v ≡ rest (mod 2^bits)`, `bits` ≤ 64.
///
/// Closed form in the first two terms; the others are gone through.
pub(super) fn solutions(terms: &[(u64, u64)], rest: u64, bits: u32) -> u128 {
    let term = |index: usize| terms.get(index).copied().unwrap_or((0, 1));
    let mut sum = 0;
    for_each_choice(terms.get(2..).unwrap_or(&[]), 0, &mut |others| {
        sum += pairs(term(0), term(1), rest.wrapping_sub(others), bits);
    });
    sum
}

/// [`solutions`] of two terms: solved for one, whose value then must lie below
/// its count; the other's values for which it does are counted by
/// [`hits_below`].
fn pairs(first: (u64, u64), second: (u64, u64), rest: u64, bits: u32) -> u128 {
    let mask = low_ones(bits);
    let zeros = |coefficient: u64| (coefficient & mask).trailing_zeros().min(bits);
    let (first, second) =
        if zeros(first.0) <= zeros(second.0) { (first, second) } else { (second, first) };
    let shift = zeros(first.0);
    if rest & low_ones(shift) != 0 {
        return 0;
    }
    if shift == bits {
        // Neither moves anything modulo 2^bits.
        return u128::from(first.1) * u128::from(second.1);
    }
    let mask = low_ones(bits - shift);
    let modulus = u128::from(mask) + 1;
    let inverse = odd_inverse(first.0 >> shift);
    let start = inverse.wrapping_mul(rest >> shift) & mask;
    let step = inverse.wrapping_mul(second.0 >> shift).wrapping_neg() & mask;
    let (count, others) = (u128::from(first.1), u128::from(second.1));
    let whole = others * (count / modulus);
    whole + hits_below(count % modulus, start.into(), step.into(), others, modulus)
}

/// Number of x in 0..n with `(start + step·x) mod modulus < limit`;
/// start, step, limit < modulus ≤ 2⁶⁴, n < 2⁶⁴.
fn hits_below(limit: u128, start: u128, step: u128, n: u128, modulus: u128) -> u128 {
    // With y = start + step·x + modulus: ⌊y/modulus⌋ − ⌊(y − limit)/modulus⌋ is
    // 1 exactly where y mod modulus < limit.
    floor_sum(n, modulus, step, start + modulus).wrapping_sub(floor_sum(
        n,
        modulus,
        step,
        start + modulus - limit,
    ))
}

/// `Σ_{x < n} ⌊(a·x + b) / m⌋` modulo 2¹²⁸, by Euclid's algorithm; n ≤ 2⁶⁴,
/// a < m ≤ 2⁶⁴, b < 2m.
fn floor_sum(mut n: u128, mut m: u128, mut a: u128, mut b: u128) -> u128 {
    let mut sum = 0u128;
    loop {
        if a >= m {
            let pairs =
                if n.is_multiple_of(2) { n / 2 * n.wrapping_sub(1) } else { (n - 1) / 2 * n };
            sum = sum.wrapping_add(pairs.wrapping_mul(a / m));
            a %= m;
        }
        if b >= m {
            sum = sum.wrapping_add(n.wrapping_mul(b / m));
            b %= m;
        }
        let top = a * n + b;
        if top < m {
            return sum;
        }
        n = top / m;
        b = top % m;
        core::mem::swap(&mut m, &mut a);
    }
}

/// The inverse of an odd number modulo 2⁶⁴, by Newton's iteration: each step
/// doubles the number of right bits, and `odd` itself is right in three.
fn odd_inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn inverses() {
        for odd in [1u64, 3, 5, 0xdead_beef, u64::MAX] {
            assert_eq!(odd.wrapping_mul(odd_inverse(odd)), 1);
        }
    }

    #[test]
    fn whole_word_moduli_do_not_overflow() {
        // v·1 ≡ rest (mod 2^64) has one solution among 2^64 − 1 values but one.
        let all = u64::MAX;
        assert_eq!(solutions(&[(1, all)], 17, 64), 1);
        assert_eq!(solutions(&[(1, all)], all, 64), 0);
        assert_eq!(solutions(&[(1, all), (1, all)], 0, 64), u128::from(all) - 1);
        assert_eq!(solutions(&[(all, all), (all - 2, all)], 5, 64), u128::from(all) - 1);
        assert_eq!(solutions(&[], 0, 64), 1);
        assert_eq!(solutions(&[(3, 7), (5, 2)], 9, 0), 14);
        assert_eq!(solutions(&[], 1 << 63, 64), 0);
    }

    proptest! {
        #[test]
        fn solutions_equal_enumeration(
            terms in proptest::collection::vec((0u64..200, 1u64..12), 0..4),
            rest in 0u64..256,
            bits in 0u32..8,
        ) {
            let mut expected = 0;
            for_each_choice(&terms, 0, &mut |sum| {
                expected += u128::from(sum & low_ones(bits) == rest & low_ones(bits));
            });
            prop_assert_eq!(solutions(&terms, rest, bits), expected);
        }
    }
}
