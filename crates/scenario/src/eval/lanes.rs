//! Masks and per-thread values of one block.
//!
//! Lane `i` of a vector is thread `i` of the block by its linear index
//! (x fastest), so lanes `32w..32w + 32` are warp `w`.

use std::cell::RefCell;
use std::rc::Rc;

/// Most threads a block can have, on every compute capability since 2.0 (CUDA
/// C++ Programming Guide, "Technical Specifications per Compute Capability").
pub(super) const MAX_THREADS: usize = 1024;
const WORDS: usize = MAX_THREADS / 32;

/// A set of threads of a block: word `w` is the lane mask of warp `w`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Mask([u32; WORDS]);

impl Mask {
    pub(super) const EMPTY: Self = Self([0; WORDS]);

    /// The threads `0..n`.
    pub(super) fn first_n(n: usize) -> Self {
        Self(std::array::from_fn(|w| match n.saturating_sub(w * 32) {
            0 => 0,
            rest if rest >= 32 => u32::MAX,
            rest => (1 << rest) - 1,
        }))
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    #[inline]
    pub(super) fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|w| self.0[w] & other.0[w]))
    }

    #[inline]
    pub(super) fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|w| self.0[w] | other.0[w]))
    }

    #[inline]
    pub(super) fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|w| self.0[w] & !other.0[w]))
    }

    pub(super) fn contains(&self, lane: usize) -> bool {
        self.0[lane / 32] >> (lane % 32) & 1 == 1
    }

    pub(super) fn insert(&mut self, lane: usize) {
        self.0[lane / 32] |= 1 << (lane % 32);
    }

    /// The lowest thread in the set.
    pub(super) fn first(&self) -> Option<usize> {
        self.0
            .iter()
            .enumerate()
            .find(|(_, word)| **word != 0)
            .map(|(w, word)| w * 32 + word.trailing_zeros() as usize)
    }

    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The warps with a thread in the set, and their lane masks.
    pub(super) fn warps(&self) -> impl Iterator<Item = (usize, u32)> {
        self.0.into_iter().enumerate().filter(|(_, word)| *word != 0)
    }

    /// The threads of the set, ascending.
    #[inline]
    pub(super) fn lanes(&self) -> impl Iterator<Item = usize> {
        self.warps().flat_map(|(w, word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    w * 32 + bit
                })
            })
        })
    }

    /// The threads for which `holds`, among the first `n`.
    #[inline]
    pub(super) fn from_fn(n: usize, mut holds: impl FnMut(usize) -> bool) -> Self {
        let mut mask = Self::EMPTY;
        let mut lane = 0;
        for word in &mut mask.0[..n.div_ceil(32)] {
            let bits = (n - lane).min(32);
            for bit in 0..bits {
                *word |= u32::from(holds(lane + bit)) << bit;
            }
            lane += bits;
        }
        mask
    }
}

thread_local! {
    /// Vectors that nobody holds: evaluation makes one for every operator of
    /// every block, so they go round instead of through the allocator.
    static POOL: RefCell<Vec<Rc<Vec<i64>>>> = const { RefCell::new(Vec::new()) };
}

/// Vectors kept for reuse; an expression holds a few at a time.
const POOL_VECTORS: usize = 64;

/// A shared vector of one `i64` a thread that returns to the pool with its last
/// holder. `None` only while it is being dropped.
pub(super) struct Vector(Option<Rc<Vec<i64>>>);

impl Vector {
    /// A vector of `n` lanes with anything in them.
    fn any(n: usize) -> Rc<Vec<i64>> {
        let pooled = POOL.with(|pool| pool.borrow_mut().pop());
        let mut vector = pooled.unwrap_or_default();
        match Rc::get_mut(&mut vector) {
            Some(lanes) if lanes.len() == n => {}
            Some(lanes) => lanes.resize(n, 0),
            None => vector = Rc::new(vec![0; n]),
        }
        vector
    }

    /// A vector of `n` lanes, each from its index.
    pub(super) fn from_fn(n: usize, value: impl FnMut(usize) -> i64) -> Self {
        let mut vector = Self::any(n);
        fill(&mut vector, (0..n).map(value));
        Self(Some(vector))
    }

    #[inline]
    pub(super) fn lanes(&self) -> &[i64] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// The lanes, where nobody else sees them.
    #[inline]
    fn own(&mut self) -> Option<&mut [i64]> {
        self.0.as_mut().and_then(Rc::get_mut).map(Vec::as_mut_slice)
    }

    /// The lanes for writing, copied where somebody else sees them.
    pub(super) fn make_mut(&mut self) -> &mut [i64] {
        if self.own().is_none() {
            let copy = Self::from_slice(self.lanes());
            *self = copy;
        }
        self.own().unwrap_or_default()
    }

    fn from_slice(lanes: &[i64]) -> Self {
        let mut vector = Self::any(lanes.len());
        fill(&mut vector, lanes.iter().copied());
        Self(Some(vector))
    }
}

#[inline]
fn fill(vector: &mut Rc<Vec<i64>>, values: impl Iterator<Item = i64>) {
    if let Some(lanes) = Rc::get_mut(vector) {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = value;
        }
    }
}

impl Clone for Vector {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Drop for Vector {
    fn drop(&mut self) {
        let Some(vector) = self.0.take() else { return };
        if Rc::strong_count(&vector) == 1 {
            // A pool that is gone (thread exit) or in use: free it instead.
            let _ = POOL.try_with(|pool| {
                if let Ok(mut pool) = pool.try_borrow_mut()
                    && pool.len() < POOL_VECTORS
                {
                    pool.push(vector);
                }
            });
        }
    }
}

/// One `i64` a thread.
#[derive(Clone)]
pub(super) enum Lanes {
    /// The same for all threads.
    Uniform(i64),
    /// One each.
    Each(Vector),
}

impl Lanes {
    #[inline]
    pub(super) fn get(&self, lane: usize) -> i64 {
        match self {
            Self::Uniform(value) => *value,
            Self::Each(vector) => vector.lanes().get(lane).copied().unwrap_or(0),
        }
    }

    pub(super) fn from_fn(n: usize, value: impl FnMut(usize) -> i64) -> Self {
        Self::Each(Vector::from_fn(n, value))
    }

    /// `f` of every lane, in place where the vector is not shared.
    #[inline]
    pub(super) fn map(self, f: impl Fn(i64) -> i64) -> Self {
        match self {
            Self::Uniform(value) => Self::Uniform(f(value)),
            Self::Each(mut vector) => {
                if let Some(lanes) = vector.own() {
                    lanes.iter_mut().for_each(|lane| *lane = f(*lane));
                    return Self::Each(vector);
                }
                let from = vector.lanes();
                let mut to = Vector::any(from.len());
                fill(&mut to, from.iter().map(|&value| f(value)));
                Self::Each(Vector(Some(to)))
            }
        }
    }

    /// `f` of each pair of lanes, in place where a vector is not shared.
    #[inline]
    pub(super) fn zip(self, other: Self, f: impl Fn(i64, i64) -> i64) -> Self {
        match (self, other) {
            (a, Self::Uniform(b)) => a.map(|a| f(a, b)),
            (Self::Uniform(a), b) => b.map(|b| f(a, b)),
            (Self::Each(mut a), Self::Each(mut b)) => {
                if let Some(lanes) = a.own() {
                    lanes.iter_mut().zip(b.lanes()).for_each(|(a, &b)| *a = f(*a, b));
                    return Self::Each(a);
                }
                if let Some(lanes) = b.own() {
                    lanes.iter_mut().zip(a.lanes()).for_each(|(b, &a)| *b = f(a, *b));
                    return Self::Each(b);
                }
                let mut to = Vector::any(a.lanes().len());
                fill(&mut to, a.lanes().iter().zip(b.lanes()).map(|(&a, &b)| f(a, b)));
                Self::Each(Vector(Some(to)))
            }
        }
    }

    /// All lanes combined, dead ones too.
    #[inline]
    pub(super) fn fold<A>(&self, start: A, f: impl Fn(A, i64) -> A) -> A {
        match self {
            Self::Uniform(value) => f(start, *value),
            Self::Each(vector) => vector.lanes().iter().fold(start, |all, &lane| f(all, lane)),
        }
    }

    /// All pairs of lanes combined, dead ones too.
    #[inline]
    pub(super) fn fold_with<A>(&self, other: &Self, start: A, f: impl Fn(A, i64, i64) -> A) -> A {
        match (self, other) {
            (a, Self::Uniform(b)) => a.fold(start, |all, a| f(all, a, *b)),
            (Self::Uniform(a), b) => b.fold(start, |all, b| f(all, *a, b)),
            (Self::Each(a), Self::Each(b)) => {
                a.lanes().iter().zip(b.lanes()).fold(start, |all, (&a, &b)| f(all, a, b))
            }
        }
    }

    /// The threads among the first `n` for which `holds`.
    #[inline]
    pub(super) fn compare(&self, other: &Self, n: usize, holds: impl Fn(i64, i64) -> bool) -> Mask {
        match (self, other) {
            (Self::Uniform(a), Self::Uniform(b)) => {
                if holds(*a, *b) {
                    Mask::first_n(n)
                } else {
                    Mask::EMPTY
                }
            }
            (Self::Each(a), Self::Uniform(b)) => {
                let a = &a.lanes()[..n];
                Mask::from_fn(n, |lane| holds(a[lane], *b))
            }
            (Self::Uniform(a), Self::Each(b)) => {
                let b = &b.lanes()[..n];
                Mask::from_fn(n, |lane| holds(*a, b[lane]))
            }
            (Self::Each(a), Self::Each(b)) => {
                let (a, b) = (&a.lanes()[..n], &b.lanes()[..n]);
                Mask::from_fn(n, |lane| holds(a[lane], b[lane]))
            }
        }
    }

    /// `self` on the threads of `mask`, `other` elsewhere.
    pub(super) fn merge(self, other: &Self, mask: &Mask, n: usize) -> Self {
        match (self, other) {
            (Self::Uniform(a), Self::Uniform(b)) if a == *b => Self::Uniform(a),
            (Self::Each(mut a), other) => {
                let lanes = a.make_mut();
                for (w, chunk) in lanes.chunks_mut(32).enumerate() {
                    let word = mask.0[w];
                    match other {
                        Self::Uniform(b) => {
                            for (bit, lane) in chunk.iter_mut().enumerate() {
                                if word >> bit & 1 == 0 {
                                    *lane = *b;
                                }
                            }
                        }
                        Self::Each(b) => {
                            for (bit, (lane, b)) in
                                chunk.iter_mut().zip(&b.lanes()[w * 32..]).enumerate()
                            {
                                if word >> bit & 1 == 0 {
                                    *lane = *b;
                                }
                            }
                        }
                    }
                }
                Self::Each(a)
            }
            (Self::Uniform(a), other) => {
                Self::from_fn(n, |lane| if mask.contains(lane) { a } else { other.get(lane) })
            }
        }
    }

    /// The value that all threads of `mask` have, if they have one.
    pub(super) fn uniform_on(&self, mask: &Mask) -> Option<i64> {
        match self {
            Self::Uniform(value) => Some(*value),
            Self::Each(_) => {
                let value = self.get(mask.first()?);
                mask.lanes().all(|lane| self.get(lane) == value).then_some(value)
            }
        }
    }

    /// Whether both agree on the threads of `mask`.
    pub(super) fn same_on(&self, other: &Self, mask: &Mask) -> bool {
        match (self, other) {
            (Self::Uniform(a), Self::Uniform(b)) => a == b,
            _ => mask.lanes().all(|lane| self.get(lane) == other.get(lane)),
        }
    }
}
