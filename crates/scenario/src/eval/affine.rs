//! Arithmetic on affine values over a box of more than one point.
//!
//! Everything here is exact: each lane's value is computed in `i128` as
//! `base + Σ coefficient·variable` with its interval over the box. Where the
//! result is not affine over the whole box, or a question has no single answer,
//! the box is asked to be cut so that it is ([`Ask`]); where it surely fails for
//! a lane, the whole box fails.

use super::lanes::{Lanes, Mask, Vector};
use super::value::{MAX_VARS, Value, Var, bits, exact, range};
use super::{Ask, Request, Stop};
use crate::program::{BinaryOp, CompareOp, Scalar};
use crate::source::Span;
use smallvec::SmallVec;

/// Most places at which a box is cut at once.
const MAX_CUTS: usize = 64;

/// Most wrap-arounds of an unsigned value that are worth a box each.
const MAX_WINDOWS: i128 = 4096;

/// How many points each variable of the box has; 1 for those not in use.
#[derive(Clone, Copy)]
pub(super) struct Vars {
    pub(super) counts: [u64; MAX_VARS],
}

/// One lane's value over the box.
#[derive(Clone, Copy)]
pub(super) struct Lin {
    pub(super) base: i128,
    pub(super) coefficients: [i128; MAX_VARS],
}

impl Lin {
    pub(super) fn constant(base: i128) -> Self {
        Self { base, coefficients: [0; MAX_VARS] }
    }

    pub(super) fn of(value: &Value, scalar: Scalar, lane: usize) -> Self {
        let mut lin = Self::constant(exact(scalar, value.base.get(lane)));
        for (var, coefficient) in &value.terms {
            lin.coefficients[*var] = i128::from(coefficient.get(lane));
        }
        lin
    }

    pub(super) fn is_constant(&self) -> bool {
        self.coefficients.iter().all(|&c| c == 0)
    }

    pub(super) fn zip(&self, other: &Self, f: impl Fn(i128, i128) -> i128) -> Self {
        Self {
            base: f(self.base, other.base),
            coefficients: std::array::from_fn(|k| f(self.coefficients[k], other.coefficients[k])),
        }
    }

    pub(super) fn minus(&self, other: &Self) -> Self {
        self.zip(other, i128::wrapping_sub)
    }

    /// `None` where the product leaves `i128`, which only values far outside
    /// of every type do.
    fn times(&self, factor: i128) -> Option<Self> {
        let mut product = Self::constant(self.base.checked_mul(factor)?);
        for (to, from) in product.coefficients.iter_mut().zip(&self.coefficients) {
            *to = from.checked_mul(factor)?;
        }
        Some(product)
    }

    fn negated(&self) -> Self {
        Self { base: -self.base, coefficients: self.coefficients.map(|c| -c) }
    }

    /// The variables it depends on, a bit each.
    fn vars(&self) -> u8 {
        self.coefficients.iter().enumerate().fold(0, |set, (k, &c)| set | u8::from(c != 0) << k)
    }
}

impl Vars {
    pub(super) const POINT: Self = Self { counts: [1; MAX_VARS] };

    /// Least and greatest value over the box.
    pub(super) fn interval(&self, lin: &Lin) -> (i128, i128) {
        let (mut low, mut high) = (lin.base, lin.base);
        for (&c, &count) in lin.coefficients.iter().zip(&self.counts) {
            if c != 0 {
                let reach = c.saturating_mul(i128::from(count) - 1);
                if reach < 0 {
                    low = low.saturating_add(reach);
                } else {
                    high = high.saturating_add(reach);
                }
            }
        }
        (low, high)
    }

    /// Where variable `var` must be cut so that `lin < threshold` has one
    /// answer on each piece, as far as that can be told for all values of the
    /// other variables; else its middle.
    fn crossing(&self, lin: &Lin, var: Var, threshold: i128, at: &mut SmallVec<[u64; 8]>) {
        let c = lin.coefficients[var];
        let count = i128::from(self.counts[var]);
        let mut rest = *lin;
        rest.coefficients[var] = 0;
        let (low, high) = self.interval(&rest);
        // For c > 0 the condition holds for all q below the first place and for
        // none from the second on; for c < 0 the other way round.
        let (first, second) = if c > 0 {
            (div_ceil(threshold - high, c), div_ceil(threshold - low, c))
        } else {
            ((low - threshold).div_euclid(-c) + 1, (high - threshold).div_euclid(-c) + 1)
        };
        let before = at.len();
        for place in [first, second] {
            if 0 < place && place < count {
                at.push(place as u64);
            }
        }
        if at.len() == before {
            at.push(self.counts[var] / 2);
        }
    }

    /// The variable that moves `lin` most.
    fn widest(&self, lin: &Lin) -> Option<Var> {
        (0..MAX_VARS).filter(|&k| lin.coefficients[k] != 0 && self.counts[k] > 1).max_by_key(|&k| {
            let reach = i128::from(self.counts[k]) - 1;
            lin.coefficients[k].saturating_mul(reach).saturating_abs()
        })
    }

    /// Points of the variables in a set.
    fn points(&self, set: u8) -> u128 {
        (0..MAX_VARS)
            .filter(|k| set >> k & 1 == 1)
            .fold(1, |all: u128, k| all.saturating_mul(self.counts[k].into()))
    }
}

fn div_ceil(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i128
}

/// What stands in the way of an operation on the whole box, gathered over its
/// lanes.
pub(super) struct Troubles {
    vars: Vars,
    cut: Option<(Var, SmallVec<[u64; 8]>)>,
    classes: Option<(Var, u64)>,
    pin: u8,
    fails: bool,
}

impl Troubles {
    pub(super) fn new(vars: Vars) -> Self {
        Self { vars, cut: None, classes: None, pin: 0, fails: false }
    }

    /// `lin < threshold` has to have one answer.
    pub(super) fn cut(&mut self, lin: &Lin, threshold: i128) {
        if self.cut.is_none() {
            self.cut = self.vars.widest(lin).map(|var| (var, SmallVec::new()));
        }
        if let Some((var, at)) = &mut self.cut
            && lin.coefficients[*var] != 0
            && at.len() < MAX_CUTS
        {
            self.vars.crossing(lin, *var, threshold, at);
        }
    }

    /// All coefficients have to be multiples of `divisor`.
    pub(super) fn multiple(&mut self, lin: &Lin, divisor: i128) {
        let offending = (0..MAX_VARS).find(|&k| lin.coefficients[k] % divisor != 0);
        if let Some(var) = offending {
            let period = divisor / gcd(lin.coefficients[var], divisor);
            if period < i128::from(self.vars.counts[var]) {
                self.classes.get_or_insert((var, period as u64));
            } else {
                self.pin |= 1 << var;
            }
        }
    }

    /// Nothing is known of how the operation acts on these variables.
    pub(super) fn pin(&mut self, set: u8) {
        self.pin |= set;
    }

    pub(super) fn pin_all_of(&mut self, lin: &Lin) {
        self.pin |= lin.vars();
    }

    /// The operation surely fails in a lane.
    pub(super) fn fail(&mut self) {
        self.fails = true;
    }

    /// Cuts come first: a piece may have no other trouble. Failures come last,
    /// so that where every block of the box fails, it is by the same lane.
    pub(super) fn finish(self, span: Span) -> Result<(), Stop> {
        let ask = match self {
            Self { cut: Some((var, mut at)), .. } => {
                at.sort_unstable();
                at.dedup();
                Ask::Split { var, at }
            }
            Self { classes: Some((var, period)), .. } => Ask::Classes { var, period },
            Self { pin, .. } if pin != 0 => Ask::Pin { vars: pin },
            Self { fails: true, .. } => return Err(Stop::FailsInBox),
            _ => return Ok(()),
        };
        Err(Stop::Request(Box::new(Request { ask, span })))
    }

    /// Fails unless `from <= lin < to`.
    pub(super) fn require(&mut self, lin: &Lin, from: i128, to: i128) {
        let (low, high) = self.vars.interval(lin);
        if high < from || low >= to {
            self.fail();
            return;
        }
        if high >= to {
            self.cut(lin, to);
        }
        if low < from {
            self.cut(lin, from);
        }
    }

    /// `lin` as a value of type `scalar`: out of its range is a failure where
    /// `traps`, else it is reduced modulo 2^bits.
    pub(super) fn fit(&mut self, mut lin: Lin, scalar: Scalar, traps: bool) -> Lin {
        let (low, high) = self.vars.interval(&lin);
        let (min, max) = range(scalar);
        if min <= low && high <= max {
            return lin;
        }
        if traps {
            self.require(&lin, min, max + 1);
            return lin;
        }
        let size = 1i128 << bits(scalar);
        let first = low.saturating_sub(min).div_euclid(size);
        let last = high.saturating_sub(min).div_euclid(size);
        if first == last {
            lin.base -= first * size;
            return lin;
        }
        let points = self.vars.widest(&lin).map_or(1, |var| i128::from(self.vars.counts[var]));
        let windows = last - first + 1;
        if windows > MAX_WINDOWS || windows > (points / 4).max(2) {
            self.pin_all_of(&lin);
        } else {
            for window in first + 1..=last.min(first + MAX_CUTS as i128 / 2) {
                self.cut(&lin, min + window * size);
            }
        }
        lin
    }

    /// Quotient and remainder by `divisor` > 0, rounded towards zero (`floor`:
    /// towards −∞).
    fn divide(&mut self, lin: &Lin, divisor: i128, floor: bool) -> (Lin, Lin) {
        let zero = Lin::constant(0);
        let multiples = lin.coefficients.iter().all(|c| c % divisor == 0);
        if multiples && (floor || lin.base % divisor == 0) {
            let quotient = lin.zip(&zero, |x, _| x.div_euclid(divisor));
            return (quotient, Lin::constant(lin.base.rem_euclid(divisor)));
        }
        let (low, high) = self.vars.interval(lin);
        if !floor && high <= 0 && low < 0 {
            let (quotient, remainder) = self.divide(&lin.negated(), divisor, true);
            return (quotient.negated(), remainder.negated());
        }
        if !floor && low < 0 {
            self.cut(lin, 0);
            return (zero, zero);
        }
        if multiples {
            return self.divide(lin, divisor, true);
        }
        let (first, last) = (low.div_euclid(divisor), high.div_euclid(divisor));
        if first == last {
            let quotient = Lin::constant(first);
            return (quotient, lin.minus(&Lin::constant(first * divisor)));
        }
        // A few steps of the quotient: a box each. Many: a box for each residue
        // of the variable.
        let steps = last - first;
        let period = lin
            .coefficients
            .iter()
            .filter(|c| *c % divisor != 0)
            .fold(0, |all, &c| all.max(divisor / gcd(c, divisor)));
        let points = self.vars.widest(lin).map_or(1, |var| i128::from(self.vars.counts[var]));
        if steps * 4 <= period.min(points) {
            for step in first + 1..=last.min(first + MAX_CUTS as i128 / 2) {
                self.cut(lin, step * divisor);
            }
        } else {
            self.multiple(lin, divisor);
        }
        (zero, zero)
    }

    /// `lin op constant` on bits. `constant` is sign-extended for signed types.
    fn bitwise(&mut self, op: BinaryOp, lin: &Lin, constant: i128, scalar: Scalar) -> Lin {
        let ones = range(scalar).1;
        let signed = scalar.is_signed();
        // The same constant as an infinite two's complement number whose high
        // bits repeat: unsigned constants that keep all high bits are negative.
        let unsigned_high = !signed && constant > ones / 2;
        let constant = if unsigned_high { constant - ones - 1 } else { constant };
        let power = |x: i128| 1i128 << (128 - x.leading_zeros()).min(126);
        match op {
            BinaryOp::And if constant == -1 => *lin,
            BinaryOp::And if constant < 0 => {
                // x & c = x − (x & ~c)
                let cleared = self.bitwise(BinaryOp::And, lin, !constant, scalar);
                lin.minus(&cleared)
            }
            BinaryOp::And if constant & (constant + 1) == 0 => {
                self.divide(lin, constant + 1, true).1
            }
            BinaryOp::And => {
                let low = self.divide(lin, power(constant), true).1;
                if low.is_constant() {
                    Lin::constant(low.base & constant)
                } else {
                    self.multiple(lin, power(constant));
                    low
                }
            }
            // x | c = x + c − (x & c);  x ^ c = x + c − 2 (x & c)
            BinaryOp::Or | BinaryOp::Xor => {
                let common = self.bitwise(BinaryOp::And, lin, constant, scalar);
                let twice = if op == BinaryOp::Xor { 2 } else { 1 };
                let mut sum = lin.zip(&common, |x, common| x - twice * common);
                sum.base += constant;
                if unsigned_high {
                    sum.base += ones + 1;
                }
                sum
            }
            _ => *lin,
        }
    }
}

/// Where an operation takes place.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) vars: Vars,
    /// Threads in the block.
    pub(super) n: usize,
    /// The lanes in which it counts.
    pub(super) live: &'a Mask,
    pub(super) span: Span,
}

/// An operation on lanes, gathered into a value.
pub(super) fn build(
    place: Place<'_>,
    inputs: &[&Value],
    mut f: impl FnMut(&mut Troubles, usize) -> Lin,
) -> Result<Value, Stop> {
    let Place { vars, n, live, span } = place;
    let mut troubles = Troubles::new(vars);
    let to_i64 = |troubles: &mut Troubles, lin: &Lin, k: usize| {
        i64::try_from(lin.coefficients[k]).unwrap_or_else(|_| {
            troubles.pin(1 << k);
            0
        })
    };
    let Some(first) = live.first() else { return Ok(Value::uniform(0)) };
    let uniform = inputs.iter().all(|value| value.is_uniform());
    let lin = f(&mut troubles, first);
    let mut value = Value::uniform(lin.base as i64);
    for var in 0..MAX_VARS {
        if lin.coefficients[var] != 0 {
            let c = to_i64(&mut troubles, &lin, var);
            value.terms.push((var, Lanes::Uniform(c)));
        }
    }
    if !uniform {
        let mut base = Vector::from_fn(n, |_| lin.base as i64);
        let bases = base.make_mut();
        let mut each: [Option<Vector>; MAX_VARS] = Default::default();
        let reference = lin.coefficients;
        for lane in live.lanes() {
            let lin = f(&mut troubles, lane);
            bases[lane] = lin.base as i64;
            for var in 0..MAX_VARS {
                if lin.coefficients[var] != reference[var] || each[var].is_some() {
                    let c = to_i64(&mut troubles, &lin, var);
                    let vector = each[var]
                        .get_or_insert_with(|| Vector::from_fn(n, |_| reference[var] as i64));
                    vector.make_mut()[lane] = c;
                }
            }
        }
        value.base = Lanes::Each(base);
        for (var, vector) in each.into_iter().enumerate() {
            if let Some(vector) = vector {
                value.terms.retain(|(v, _)| *v != var);
                value.terms.push((var, Lanes::Each(vector)));
            }
        }
        value.terms.sort_by_key(|(var, _)| *var);
    }
    troubles.finish(span)?;
    Ok(value)
}

/// Operands of a binary operation with their types.
pub(super) struct Operands<'a> {
    pub(super) a: &'a Value,
    pub(super) a_type: Scalar,
    pub(super) b: &'a Value,
    pub(super) b_type: Scalar,
}

/// `a op b` in type `scalar`; `traps`: leaving its range is a failure.
pub(super) fn binary(
    place: Place<'_>,
    op: BinaryOp,
    operands: &Operands<'_>,
    scalar: Scalar,
    traps: bool,
) -> Result<Value, Stop> {
    let Operands { a, a_type, b, b_type } = *operands;
    let vars = place.vars;
    build(place, &[a, b], |troubles, lane| {
        let (a, b) = (Lin::of(a, a_type, lane), Lin::of(b, b_type, lane));
        match op {
            BinaryOp::Add => troubles.fit(a.zip(&b, i128::wrapping_add), scalar, traps),
            BinaryOp::Sub => troubles.fit(a.minus(&b), scalar, traps),
            BinaryOp::Mul => {
                let product = if b.is_constant() {
                    a.times(b.base)
                } else if a.is_constant() {
                    b.times(a.base)
                } else {
                    let fewer = vars.points(a.vars()) < vars.points(b.vars());
                    troubles.pin_all_of(if fewer { &a } else { &b });
                    return a;
                };
                match product {
                    Some(product) => troubles.fit(product, scalar, traps),
                    None => {
                        troubles.pin_all_of(&a);
                        troubles.pin_all_of(&b);
                        a
                    }
                }
            }
            BinaryOp::Div | BinaryOp::Rem => {
                if !b.is_constant() {
                    troubles.pin_all_of(&b);
                    return a;
                }
                if b.base == 0 {
                    troubles.fail();
                    return a;
                }
                let (quotient, remainder) = troubles.divide(&a, b.base.abs(), false);
                let quotient = if b.base < 0 { quotient.negated() } else { quotient };
                // MIN / −1 overflows, and so does MIN % −1 (C 2011, 6.5.5).
                let quotient = troubles.fit(quotient, scalar, traps);
                if op == BinaryOp::Div { quotient } else { remainder }
            }
            BinaryOp::Shl | BinaryOp::Shr => {
                if !b.is_constant() {
                    troubles.pin_all_of(&b);
                    return a;
                }
                if !(0..i128::from(bits(scalar))).contains(&b.base) {
                    troubles.fail();
                    return a;
                }
                if op == BinaryOp::Shr {
                    return troubles.divide(&a, 1 << b.base, true).0;
                }
                match a.times(1 << b.base) {
                    Some(product) => troubles.fit(product, scalar, false),
                    None => {
                        troubles.pin_all_of(&a);
                        a
                    }
                }
            }
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => {
                let (lin, constant) = if b.is_constant() {
                    (a, b.base)
                } else if a.is_constant() {
                    (b, a.base)
                } else {
                    let fewer = vars.points(a.vars()) < vars.points(b.vars());
                    troubles.pin_all_of(if fewer { &a } else { &b });
                    return a;
                };
                let result = troubles.bitwise(op, &lin, constant, scalar);
                troubles.fit(result, scalar, false)
            }
        }
    })
}

/// The lanes of `live` for which `a op b` holds everywhere in the box; for the
/// others it holds nowhere.
pub(super) fn compare(
    place: Place<'_>,
    op: CompareOp,
    operands: &Operands<'_>,
) -> Result<Mask, Stop> {
    let Operands { a, a_type, b, b_type } = *operands;
    let Place { vars, live, span, .. } = place;
    let mut troubles = Troubles::new(vars);
    let mut holds = |lane: usize| {
        let difference = Lin::of(a, a_type, lane).minus(&Lin::of(b, b_type, lane));
        let (low, high) = vars.interval(&difference);
        let mut below = |threshold: i128| {
            if low < threshold && high >= threshold {
                troubles.cut(&difference, threshold);
            }
            high < threshold
        };
        match op {
            CompareOp::Lt => below(0),
            CompareOp::Le => below(1),
            CompareOp::Gt => !below(1),
            CompareOp::Ge => !below(0),
            CompareOp::Eq | CompareOp::Ne => {
                let step = difference.coefficients.iter().fold(0, |all, &c| gcd(all, c));
                let reachable = low <= 0 && 0 <= high && (step == 0 || difference.base % step == 0);
                if reachable && low != high {
                    below(0);
                    below(1);
                }
                reachable == (op == CompareOp::Eq)
            }
        }
    };
    let yes = if a.is_uniform() && b.is_uniform() {
        match live.first() {
            Some(lane) if holds(lane) => *live,
            _ => Mask::EMPTY,
        }
    } else {
        let mut yes = Mask::EMPTY;
        for lane in live.lanes() {
            if holds(lane) {
                yes.insert(lane);
            }
        }
        yes
    };
    troubles.finish(span)?;
    Ok(yes)
}
