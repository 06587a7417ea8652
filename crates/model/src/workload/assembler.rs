//! How many machine instructions an assembler makes of an emitted kernel, item
//! by item: an estimate that follows what optimising assemblers do with
//! straight-line code.
//!
//! Each PTX instruction becomes a *value*; a value's instructions are counted
//! where it is made, if anything needs it. What is modelled:
//!
//! - equal values are made once, as far as the first is there wherever the
//!   second is needed; a value of what a loop does not change is made before it;
//! - sums of products with constants are *linear forms*: a multiplication goes
//!   with the addition behind it (`IMAD`, `LEA`), two additions go together
//!   (`IADD3`), and a form that differs from one that is there by a constant is
//!   one addition;
//! - a 64-bit address of a 32-bit index is one `IMAD.WIDE`, and constants added
//!   to it are part of the access;
//! - two logical operations go together (`LOP3`), comparisons are combined on
//!   the way (`ISETP.AND`), and a test of bits is the operation itself;
//! - loads of 32 bits from shared memory that lie side by side, where it is plain
//!   that they are aligned, become one of 64 or 128 bits;
//! - parameters are read from the constant bank, once in each stretch that uses
//!   them; a branch that warps may diverge at has two instructions around it.
//!
//! The rules were read off what `ptxas` 13.0 makes of emitted kernels for
//! sm_90; `tests/assembler.rs` compares them for all shipped scenarios.

use super::scopes::{Scope, Scopes};
use ptx::syntax::{
    Address, Binary, Compare, Instruction, Item, Reg, Space, Special, Type, Unary, Value,
};
use std::collections::HashMap;

/// Stack pointer and descriptor of global memory: what every kernel begins with.
const ENTRY: f64 = 2.0;
/// Address of the window of shared memory (`S2UR`, `UMOV`, `ULEA`).
const SHARED_WINDOW: f64 = 3.0;
/// What a quotient of 32 bits needs of the divisor alone: conversion,
/// reciprocal, conversion back, correction. Assemblers do so for constants, too:
/// compilers have put shifts and products in their place before.
const DIVISOR_32: f64 = 7.0;
/// The rest: product, difference, two corrections.
const DIVIDE_32: f64 = 6.0;
/// Magnitude and sign.
const DIVIDE_SIGNED: f64 = 3.0;
/// A divisor that may be 0.
const DIVIDE_BY_ANY: f64 = 2.0;
/// A quotient of 64 bits: a subroutine.
const DIVIDE_64: f64 = 70.0;

/// Whether a loop runs at all: a test, a branch, and what stands around it.
const LOOP_ENTRY: f64 = 4.0;

/// Number of a value.
type Id = usize;

/// What makes a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// Not looked into: what memory gave, what a branch or a loop left.
    Opaque(usize),
    Parameter(String),
    Window,
    Special(Special),
    Constant(i64),
    /// Σ factor · value + constant.
    Linear(Form),
    /// A product of two 32-bit values, to which a third may be added.
    Product(Id, Id),
    /// A 32-bit value as one of 64 bits.
    Extended(Id),
    /// Exclusive or, and, or: the operation of each input.
    Logic(Vec<(Binary, Id)>),
    /// A comparison.
    Test(Compare, Type, Id, Id),
    /// Of predicates.
    Combined(Binary, Id, Id),
    /// Anything else.
    Other(&'static str, Type, Vec<Id>),
}

/// Values with their factors, by value.
type Terms = Vec<(Id, i64)>;

/// A sum of multiples.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Form {
    /// 64 bits, not 32.
    wide: bool,
    terms: Terms,
    constant: i64,
}

struct Made {
    kind: Kind,
    /// What it is made from.
    needs: Vec<Id>,
    instructions: f64,
    /// Of these, products of 64 bits.
    wide_products: f64,
    /// Where its instructions stand.
    place: usize,
    scope: Scope,
    /// How often the text names it.
    uses: usize,
}

/// What an assembler makes of a kernel.
pub(super) struct Assembled {
    /// Machine instructions of each item.
    pub(super) instructions: Vec<f64>,
    /// Of these, 32-bit products of 64 bits.
    pub(super) wide_products: Vec<f64>,
    /// Whether an item is a load that is part of a wider one.
    pub(super) merged: Vec<bool>,
}

/// Assembles `body`.
pub(super) fn assemble(body: &[Item], scopes: &Scopes) -> Assembled {
    let mut walk = Walk {
        scopes,
        place: 0,
        registers: HashMap::new(),
        made: Vec::new(),
        known: HashMap::new(),
        forms: HashMap::new(),
        uses: uses(body),
        carried: HashMap::new(),
        before_loops: Vec::new(),
        side_by_side: Vec::new(),
        merged: vec![false; body.len()],
    };
    let mut instructions = vec![0.0; body.len()];
    let mut wide_products = instructions.clone();
    let mut needed: Vec<Id> = Vec::new();
    for (place, item) in body.iter().enumerate() {
        walk.enter(place, body);
        let Item::Instruction { guard, instruction, .. } = item else { continue };
        if let Some(guard) = guard {
            needed.push(walk.value(guard.pred.into()));
        }
        if let Some(fixed) = walk.step(instruction, &mut needed) {
            instructions[place] += fixed;
        }
    }
    walk.merge();
    for (place, merged) in walk.merged.iter().enumerate() {
        if *merged {
            instructions[place] = 0.0;
        }
    }
    if let Some(first) = instructions.first_mut() {
        *first += ENTRY;
    }
    for (place, more) in &walk.before_loops {
        instructions[*place] += more;
    }
    let mut is_needed = vec![false; walk.made.len()];
    while let Some(id) = needed.pop() {
        if !std::mem::replace(&mut is_needed[id], true) {
            let made = &walk.made[id];
            instructions[made.place] += made.instructions;
            wide_products[made.place] += made.wide_products;
            needed.extend(&made.needs);
        }
    }
    Assembled { instructions, wide_products, merged: walk.merged }
}

/// The registers that items set, each once.
fn set_in(items: &[Item]) -> Vec<Reg> {
    let mut set: Vec<Reg> = Vec::new();
    for item in items {
        if let Item::Instruction { instruction, .. } = item {
            set.extend(results(instruction));
        }
    }
    set.sort_unstable_by_key(|reg| (reg.class as u8, reg.index));
    set.dedup();
    set
}

/// How often the text names what each instruction makes, until its register
/// gets something else. A copy is a second name.
fn uses(body: &[Item]) -> HashMap<(usize, Reg), usize> {
    let mut holds: HashMap<Reg, (usize, Reg)> = HashMap::new();
    let mut uses: HashMap<(usize, Reg), usize> = HashMap::new();
    for (place, item) in body.iter().enumerate() {
        let Item::Instruction { instruction, .. } = item else { continue };
        if let Instruction::Unary { op: Unary::Mov, dst, src: Value::Reg(src), .. } = instruction {
            let source = holds.get(src).copied().unwrap_or((place, *src));
            holds.insert(*dst, source);
            continue;
        }
        let results = results(instruction);
        // `registers` names the results first.
        for reg in instruction.registers().into_iter().skip(results.len()) {
            if let Some(held) = holds.get(&reg) {
                *uses.entry(*held).or_default() += 1;
            }
        }
        for reg in results {
            holds.insert(reg, (place, reg));
        }
    }
    uses
}

/// The registers that an instruction sets.
pub(super) fn results(instruction: &Instruction) -> Vec<Reg> {
    match instruction {
        Instruction::LoadParam { dst, .. }
        | Instruction::ToGlobal { dst, .. }
        | Instruction::Special { dst, .. }
        | Instruction::AddressOf { dst, .. }
        | Instruction::Unary { dst, .. }
        | Instruction::Binary { dst, .. }
        | Instruction::Mad { dst, .. }
        | Instruction::Setp { dst, .. }
        | Instruction::Selp { dst, .. }
        | Instruction::Cvt { dst, .. }
        | Instruction::Pack { dst, .. } => vec![*dst],
        Instruction::Unpack { low, high, .. } => vec![*low, *high],
        Instruction::Load { dst, .. } | Instruction::Atom { dst, .. } => dst.clone(),
        Instruction::Store { .. }
        | Instruction::Red { .. }
        | Instruction::CopyAsync { .. }
        | Instruction::CopyAsyncWaitAll
        | Instruction::Branch { .. }
        | Instruction::Barrier
        | Instruction::Ret => Vec::new(),
    }
}

struct Walk<'a> {
    scopes: &'a Scopes,
    place: usize,
    /// What registers hold.
    registers: HashMap<Reg, Id>,
    made: Vec<Made>,
    known: HashMap<Kind, Vec<Id>>,
    /// Linear forms by width and terms.
    forms: HashMap<(bool, Terms), Vec<Id>>,
    uses: HashMap<(usize, Reg), usize>,
    /// For each loop under way what its registers held at its begin.
    carried: HashMap<usize, Vec<(Reg, Id)>>,
    /// Instructions by item that decide whether a loop runs at all.
    before_loops: Vec<(usize, f64)>,
    /// Loads from shared memory that nothing stands between: terms of the address,
    /// bytes beyond them, place.
    side_by_side: Vec<(Terms, i64, usize)>,
    merged: Vec<bool>,
}

impl Walk<'_> {
    /// What a stretch that may have been skipped has set is not known after it,
    /// nor what a loop sets, in it.
    fn enter(&mut self, place: usize, body: &[Item]) {
        if self.scopes.at(place) != self.scopes.at(self.place) {
            self.merge();
        }
        self.place = place;
        for items in self.scopes.ending(place) {
            if let Some(carried) = self.carried.remove(&items.start) {
                for (reg, before) in carried {
                    if let Some(&after) = self.registers.get(&reg) {
                        self.made[before].needs.push(after);
                    }
                }
            }
            for reg in set_in(&body[items]) {
                let inside = self.registers.get(&reg).copied();
                let id = self.opaque();
                self.made[id].needs.extend(inside);
                self.registers.insert(reg, id);
            }
        }
        let Some(items) = self.scopes.beginning(place) else { return };
        if !self.is_settled(&body[items.clone()]) {
            self.before_loops.push((place.saturating_sub(1), LOOP_ENTRY));
        }
        let mut carried = Vec::new();
        for reg in set_in(&body[items]) {
            let before = self.registers.get(&reg).copied();
            let id = self.opaque();
            self.made[id].needs.extend(before);
            self.registers.insert(reg, id);
            carried.push((reg, id));
        }
        self.carried.insert(place, carried);
    }

    /// Whether a loop is known to run at all.
    fn is_settled(&self, items: &[Item]) -> bool {
        let test = items.iter().find_map(|item| match item {
            Item::Instruction { instruction: Instruction::Setp { a, b, .. }, .. } => Some([*a, *b]),
            _ => None,
        });
        test.is_none_or(|values| {
            values.iter().all(|value| match value {
                Value::Imm(_) => true,
                Value::Reg(reg) => {
                    self.registers.get(reg).is_some_and(|&id| self.constant_of(id).is_some())
                }
            })
        })
    }

    /// Puts down what an instruction makes, and in `needed` what it takes if it
    /// does more than to make a value; then its own instructions are returned.
    fn step(&mut self, instruction: &Instruction, needed: &mut Vec<Id>) -> Option<f64> {
        let (dst, id) = match instruction {
            Instruction::LoadParam { dst, param } => {
                // It is read where it is used.
                (*dst, self.put(Kind::Parameter(param.clone()), Vec::new(), 1.0))
            }
            Instruction::ToGlobal { dst, src } => match self.registers.get(src) {
                Some(&id) => (*dst, id),
                None => (*dst, self.opaque()),
            },
            Instruction::Special { dst, src } => {
                (*dst, self.make(Kind::Special(*src), Vec::new(), 1.0))
            }
            Instruction::AddressOf { dst, .. } => {
                (*dst, self.make(Kind::Window, Vec::new(), SHARED_WINDOW))
            }
            Instruction::Unary { op, ty, dst, src } => {
                let src = self.value(*src);
                (*dst, self.unary(*op, *ty, src))
            }
            Instruction::Binary { op, ty, dst, a, b } => {
                let (a, b) = (self.value(*a), self.value(*b));
                (*dst, self.binary(*op, *ty, a, b))
            }
            Instruction::Mad { ty, dst, a, b, c } => {
                let (a, b, c) = (self.value(*a), self.value(*b), self.value(*c));
                let product = self.product(*ty, a, b);
                // The product is nothing of its own, so it is always taken apart.
                self.made[product].uses = self.made[product].uses.max(1);
                (*dst, self.sum(is_wide(*ty), &[(product, 1), (c, 1)]))
            }
            Instruction::Setp { cmp, ty, dst, a, b } => {
                let (a, b) = (self.value(*a), self.value(*b));
                (*dst, self.test(*cmp, *ty, a, b))
            }
            Instruction::Selp { ty, dst, a, b, pred } => {
                let needs = [*a, *b, (*pred).into()].map(|value| self.value(value)).to_vec();
                (*dst, self.other("selp", *ty, needs, words(*ty)))
            }
            Instruction::Cvt { to, from, dst, src } => {
                let src = match self.registers.get(src) {
                    Some(&id) if matches!(self.made[id].kind, Kind::Parameter(_)) => id,
                    _ => self.value((*src).into()),
                };
                (*dst, self.convert(*to, *from, src))
            }
            Instruction::Pack { dst, low, high } => {
                let needs = [*low, *high].map(|value| self.value(value)).to_vec();
                (*dst, self.other("pack", Type::B64, needs, 0.0))
            }
            Instruction::Unpack { low, high, src } => {
                let src = self.value((*src).into());
                let first = self.other("low", Type::B64, vec![src], 0.0);
                self.hold(*low, first);
                (*high, self.other("high", Type::B64, vec![src], 0.0))
            }
            _ => return Some(self.act(instruction, needed)),
        };
        self.hold(dst, id);
        None
    }

    /// Accesses, branches, barriers: what they take is needed.
    fn act(&mut self, instruction: &Instruction, needed: &mut Vec<Id>) -> f64 {
        let (addresses, values): (Vec<Address>, Vec<Value>) = match instruction {
            Instruction::Load { address, .. } => (vec![*address], Vec::new()),
            Instruction::Store { address, src, .. } | Instruction::Red { address, src, .. } => {
                (vec![*address], src.clone())
            }
            Instruction::Atom { address, src, swap, .. } => {
                (vec![*address], src.iter().chain(swap).copied().collect())
            }
            Instruction::CopyAsync { to, from, .. } => (vec![*to, *from], Vec::new()),
            _ => (Vec::new(), Vec::new()),
        };
        match instruction {
            Instruction::Load { space: Space::Shared, ty, dst, address, .. }
                if bytes(*ty) == 4 && dst.len() == 1 =>
            {
                let base = self.value(address.base.into());
                let (terms, constant) = match &self.made[base].kind {
                    Kind::Linear(form) => (form.terms.clone(), form.constant),
                    _ => (vec![(base, 1)], 0),
                };
                let offset = constant + i64::from(address.offset);
                self.side_by_side.push((terms, offset, self.place));
            }
            Instruction::Load { .. } => {}
            _ => self.merge(),
        }
        for address in addresses {
            let base = self.value(address.base.into());
            needed.push(self.without_constant(base));
        }
        for value in values {
            needed.push(self.value(value));
        }
        for reg in results(instruction) {
            let id = self.opaque();
            self.hold(reg, id);
        }
        1.0
    }

    /// Makes wider loads of those that lie side by side.
    fn merge(&mut self) {
        let mut loads = std::mem::take(&mut self.side_by_side);
        loads.sort();
        let mut rest = loads.as_slice();
        while let [(terms, offset, _), ..] = rest {
            let part = |of: i64| {
                // The window begins at a multiple of any vector.
                let is_window = |id: Id| matches!(self.made[id].kind, Kind::Window);
                let aligned = |&(id, factor): &(Id, i64)| factor % of == 0 || is_window(id);
                let words = usize::try_from(of / 4).unwrap_or(1);
                let run = rest.iter().take(words).enumerate().filter(|(word, (others, at, _))| {
                    others == terms && *at == offset + 4 * *word as i64
                });
                offset % of == 0 && terms.iter().all(aligned) && run.count() == words
            };
            let words = if part(16) {
                4
            } else if part(8) {
                2
            } else {
                1
            };
            for (_, _, place) in &rest[1..words] {
                self.merged[*place] = true;
            }
            rest = &rest[words..];
        }
    }

    /// The value that an access takes its address from. A constant of a 64-bit
    /// sum is part of the access; so is that by which a 32-bit sum differs from
    /// one that is there.
    fn without_constant(&mut self, base: Id) -> Id {
        let Kind::Linear(form) = &self.made[base].kind else { return base };
        let (wide, terms) = (form.wide, form.terms.clone());
        if wide && form.constant != 0 {
            return self.form(Form { wide, terms, constant: 0 });
        }
        let here = self.scopes.at(self.place);
        let like = self.forms.get(&(wide, terms));
        like.and_then(|known| self.available(known, here)).unwrap_or(base)
    }

    fn hold(&mut self, reg: Reg, id: Id) {
        self.made[id].uses += self.uses.get(&(self.place, reg)).copied().unwrap_or(0);
        self.registers.insert(reg, id);
    }

    fn value(&mut self, value: Value) -> Id {
        match value {
            Value::Imm(value) => self.make(Kind::Constant(value), Vec::new(), 0.0),
            Value::Reg(reg) => match self.registers.get(&reg).copied() {
                // Each stretch reads the parameters that it uses.
                Some(id) => match self.made[id].kind.clone() {
                    kind @ Kind::Parameter(_) => self.make(kind, Vec::new(), 1.0),
                    _ => id,
                },
                None => {
                    let id = self.opaque();
                    self.registers.insert(reg, id);
                    id
                }
            },
        }
    }

    fn opaque(&mut self) -> Id {
        self.push(Kind::Opaque(self.made.len()), Vec::new(), 0.0)
    }

    fn other(&mut self, name: &'static str, ty: Type, needs: Vec<Id>, instructions: f64) -> Id {
        self.make(Kind::Other(name, ty, needs.clone()), needs, instructions)
    }

    /// A value, unless an equal one is there.
    fn make(&mut self, kind: Kind, needs: Vec<Id>, instructions: f64) -> Id {
        let here = self.scopes.at(self.place);
        let known = self.known.get(&kind).and_then(|known| self.available(known, here));
        known.unwrap_or_else(|| self.push(kind, needs, instructions))
    }

    fn available(&self, known: &[Id], here: Scope) -> Option<Id> {
        known.iter().copied().find(|&id| self.scopes.is_within(here, self.made[id].scope))
    }

    fn push(&mut self, kind: Kind, needs: Vec<Id>, instructions: f64) -> Id {
        let (mut place, mut scope) = (self.place, self.scopes.at(self.place));
        let moves = !matches!(kind, Kind::Opaque(_));
        while let Some((around, start, outside)) = self.scopes.loop_around(scope) {
            let depends = |&need: &Id| self.scopes.is_within(self.made[need].scope, around);
            if !moves || needs.iter().any(depends) {
                break;
            }
            (place, scope) = (start.saturating_sub(1), outside);
        }
        let id = self.made.len();
        self.known.entry(kind.clone()).or_default().push(id);
        if let Kind::Linear(form) = &kind {
            self.forms.entry((form.wide, form.terms.clone())).or_default().push(id);
        }
        let wide_products = 0.0;
        self.made.push(Made { kind, needs, instructions, wide_products, place, scope, uses: 0 });
        id
    }

    /// A value that later ones are not compared with.
    fn put(&mut self, kind: Kind, needs: Vec<Id>, instructions: f64) -> Id {
        let (place, scope) = (self.place, self.scopes.at(self.place));
        let wide_products = 0.0;
        self.made.push(Made { kind, needs, instructions, wide_products, place, scope, uses: 0 });
        self.made.len() - 1
    }

    fn constant_of(&self, id: Id) -> Option<i64> {
        match self.made[id].kind {
            Kind::Constant(value) => Some(value),
            _ => None,
        }
    }

    fn unary(&mut self, op: Unary, ty: Type, src: Id) -> Id {
        match op {
            Unary::Mov => src,
            Unary::Neg if is_integer(ty) => self.sum(is_wide(ty), &[(src, -1)]),
            Unary::Not if ty == Type::Pred => self.other("not", ty, vec![src], 0.0),
            Unary::Neg => self.other("neg", ty, vec![src], words(ty)),
            Unary::Not => self.other("not", ty, vec![src], words(ty)),
            Unary::Abs => self.other("abs", ty, vec![src], words(ty)),
            Unary::Popc => self.other("popc", ty, vec![src], words(ty)),
            Unary::Clz => self.other("clz", ty, vec![src], 2.0 * words(ty)),
            Unary::Brev => self.other("brev", ty, vec![src], words(ty)),
        }
    }

    fn binary(&mut self, op: Binary, ty: Type, a: Id, b: Id) -> Id {
        let (wide, both) = (is_wide(ty), vec![a, b]);
        match op {
            Binary::And | Binary::Or if ty == Type::Pred => self.combined(op, a, b),
            Binary::Xor if ty == Type::Pred => self.other("xor", ty, both, 1.0),
            Binary::Add if is_integer(ty) => self.sum(wide, &[(a, 1), (b, 1)]),
            Binary::Sub if is_integer(ty) => self.sum(wide, &[(a, 1), (b, -1)]),
            Binary::Mul if is_integer(ty) => self.product(ty, a, b),
            Binary::MulWide => match (self.constant_of(a), self.constant_of(b)) {
                (_, Some(by)) => {
                    let extended = self.extended(a);
                    self.sum(true, &[(extended, by)])
                }
                (Some(by), _) => {
                    let extended = self.extended(b);
                    self.sum(true, &[(extended, by)])
                }
                _ => {
                    let id = self.other("mul.wide", ty, both, 1.0);
                    self.made[id].wide_products = 1.0;
                    id
                }
            },
            Binary::Shl => match self.constant_of(b) {
                Some(by @ 0..63) => self.sum(wide, &[(a, 1 << by)]),
                _ => self.other("shl", ty, both, words(ty)),
            },
            Binary::Shr => self.other("shr", ty, both, words(ty)),
            Binary::And | Binary::Or | Binary::Xor if !wide => self.logic(op, a, b),
            Binary::And => self.other("and", ty, both, words(ty)),
            Binary::Or => self.other("or", ty, both, words(ty)),
            Binary::Xor => self.other("xor", ty, both, words(ty)),
            Binary::Min => self.other("min", ty, both, if wide { 4.0 } else { 1.0 }),
            Binary::Max => self.other("max", ty, both, if wide { 4.0 } else { 1.0 }),
            Binary::Add => self.other("add", ty, both, 1.0),
            Binary::Sub => self.other("sub", ty, both, 1.0),
            Binary::Mul => self.other("mul", ty, both, 1.0),
            Binary::Div => self.quotient("div", ty, a, b),
            Binary::Rem => self.quotient("rem", ty, a, b),
        }
    }

    fn quotient(&mut self, name: &'static str, ty: Type, a: Id, b: Id) -> Id {
        if is_wide(ty) {
            return self.other(name, ty, vec![a, b], DIVIDE_64);
        }
        let signed = matches!(ty, Type::S8 | Type::S16 | Type::S32);
        let known = self.constant_of(b).is_some();
        let divisor = self.other("divisor", Type::U32, vec![b], DIVISOR_32);
        // The quotient and the remainder are two ends of one computation.
        let more = [(signed, DIVIDE_SIGNED), (!known, DIVIDE_BY_ANY)];
        let more: f64 = more.iter().filter(|(is, _)| *is).map(|(_, more)| more).sum();
        self.other(name, ty, vec![a, divisor, b], DIVIDE_32 + more)
    }

    fn product(&mut self, ty: Type, a: Id, b: Id) -> Id {
        match (self.constant_of(a), self.constant_of(b)) {
            (_, Some(by)) => self.sum(is_wide(ty), &[(a, by)]),
            (Some(by), _) => self.sum(is_wide(ty), &[(b, by)]),
            _ if is_wide(ty) => self.other("mul", ty, vec![a, b], 4.0),
            _ => self.make(Kind::Product(a.min(b), a.max(b)), vec![a, b], 1.0),
        }
    }

    fn extended(&mut self, src: Id) -> Id {
        match self.constant_of(src) {
            Some(value) => self.make(Kind::Constant(value), Vec::new(), 0.0),
            None => self.make(Kind::Extended(src), vec![src], 1.0),
        }
    }

    fn convert(&mut self, to: Type, from: Type, src: Id) -> Id {
        if let Kind::Parameter(name) = &self.made[src].kind {
            let half = Kind::Parameter(format!("{name}, low half"));
            return self.make(half, Vec::new(), 1.0);
        }
        match (is_integer(to) && is_integer(from), is_wide(to), is_wide(from)) {
            (true, true, false) => self.extended(src),
            (true, false, true) => self.other("low", to, vec![src], 0.0),
            (true, true, true) => src,
            (true, false, false) if bytes(from) >= 4 && bytes(to) >= 4 => src,
            _ => self.other("cvt", to, vec![src], 1.0),
        }
    }

    fn combined(&mut self, op: Binary, a: Id, b: Id) -> Id {
        let is_test = |id: Id| matches!(self.made[id].kind, Kind::Test(..));
        let instructions = if is_test(a) || is_test(b) { 0.0 } else { 1.0 };
        self.make(Kind::Combined(op, a, b), vec![a, b], instructions)
    }

    fn test(&mut self, cmp: Compare, ty: Type, a: Id, b: Id) -> Id {
        let against_zero = self.constant_of(b) == Some(0);
        let needs = match &self.made[a] {
            Made { kind: Kind::Logic(inputs), uses, .. }
                if against_zero && *uses <= 1 && matches!(cmp, Compare::Eq | Compare::Ne) =>
            {
                inputs.iter().map(|(_, id)| *id).collect()
            }
            _ => vec![a, b],
        };
        self.make(Kind::Test(cmp, ty, a, b), needs, words(ty))
    }

    /// Up to three inputs are one instruction.
    fn logic(&mut self, op: Binary, a: Id, b: Id) -> Id {
        let joined = |id: Id| match &self.made[id] {
            Made { kind: Kind::Logic(inputs), uses, .. } if *uses <= 1 && inputs.len() == 2 => {
                Some(inputs.clone())
            }
            _ => None,
        };
        let mut inputs = Vec::with_capacity(3);
        match (joined(a), joined(b)) {
            (Some(first), _) => {
                inputs.extend(first);
                inputs.push((op, b));
            }
            (None, Some(second)) => {
                inputs.extend(second);
                inputs.push((op, a));
            }
            (None, None) => inputs.extend([(op, a), (op, b)]),
        }
        let needs = inputs.iter().map(|(_, id)| *id).collect();
        self.make(Kind::Logic(inputs), needs, 1.0)
    }

    /// A sum of multiples, with those that are sums themselves taken apart.
    fn sum(&mut self, wide: bool, parts: &[(Id, i64)]) -> Id {
        let mut form = Form { wide, terms: Vec::new(), constant: 0 };
        for &(part, factor) in parts {
            match &self.made[part] {
                Made { kind: Kind::Constant(value), .. } => {
                    form.constant = form.constant.wrapping_add(value.wrapping_mul(factor));
                }
                Made { kind: Kind::Linear(inner), uses, .. }
                    if inner.wide == wide
                        && (*uses <= 1 || (inner.terms.len() == 1 && inner.constant == 0)) =>
                {
                    let inner = inner.clone();
                    for (term, by) in inner.terms {
                        form.terms.push((term, by.wrapping_mul(factor)));
                    }
                    let more = inner.constant.wrapping_mul(factor);
                    form.constant = form.constant.wrapping_add(more);
                }
                _ => form.terms.push((part, factor)),
            }
        }
        form.terms.sort_unstable();
        form.terms.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.wrapping_add(next.1);
            }
            same
        });
        form.terms.retain(|(_, factor)| *factor != 0);
        self.form(form)
    }

    fn form(&mut self, form: Form) -> Id {
        match form.terms.as_slice() {
            [] => return self.make(Kind::Constant(form.constant), Vec::new(), 0.0),
            [(only, 1)] if form.constant == 0 => return *only,
            _ => {}
        }
        let here = self.scopes.at(self.place);
        let like = self.forms.get(&(form.wide, form.terms.clone()));
        let like = like.and_then(|known| self.available(known, here));
        let each = if form.wide { 2.0 } else { 1.0 };
        match like {
            Some(sibling) if form.terms.len() > 1 || form.terms[0].1 != 1 => {
                self.make(Kind::Linear(form), vec![sibling], each)
            }
            _ => {
                let (needs, instructions, wide_products) = self.apart(&form);
                let id = self.make(Kind::Linear(form), needs, instructions);
                self.made[id].wide_products = wide_products;
                id
            }
        }
    }

    /// What a form is made of where nothing like it is there, in how many instructions,
    /// and how many of these are products of 64 bits.
    fn apart(&self, form: &Form) -> (Vec<Id>, f64, f64) {
        let mut needs = Vec::new();
        let (mut products, mut wide) = (0.0, 0.0);
        // Each product takes one addend along; a constant has no room beside the
        // factor.
        let (mut joins, mut addends) = (0_usize, 0_usize);
        for &(term, factor) in &form.terms {
            match &self.made[term].kind {
                Kind::Product(a, b) if factor == 1 && form.terms.len() > 1 => {
                    needs.extend([*a, *b]);
                    (products, joins) = (products + 1.0, joins + 1);
                }
                // The sign comes along with the upper half of the sum.
                Kind::Extended(src) if form.wide && factor == 1 => {
                    needs.push(*src);
                    addends += 1;
                }
                Kind::Extended(src) if form.wide => {
                    needs.push(*src);
                    (products, wide, joins) = (products + 1.0, wide + 1.0, joins + 1);
                }
                _ if factor.unsigned_abs() == 1 => {
                    needs.push(term);
                    addends += 1;
                }
                _ => {
                    needs.push(term);
                    (products, joins) = (products + words_of(form.wide), joins + 1);
                }
            }
        }
        let left = if joins > 0 { addends.saturating_sub(joins) } else { addends.max(1) - 1 };
        let left = left + usize::from(form.constant != 0);
        // Two 32-bit additions are one instruction.
        let sums = if form.wide { 2 * left } else { left.div_ceil(2) };
        // At least one: a change of sign.
        (needs, (products + sums as f64).max(words_of(form.wide).min(1.0)), wide)
    }
}

fn words_of(wide: bool) -> f64 {
    if wide { 2.0 } else { 1.0 }
}

/// 32-bit registers of a type.
fn words(ty: Type) -> f64 {
    words_of(is_wide(ty))
}

fn is_wide(ty: Type) -> bool {
    bytes(ty) == 8
}

fn bytes(ty: Type) -> u32 {
    match ty {
        Type::Pred => 0,
        Type::B8 | Type::U8 | Type::S8 => 1,
        Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::BF16 => 2,
        Type::B32 | Type::U32 | Type::S32 | Type::F32 | Type::F16x2 | Type::BF16x2 => 4,
        Type::B64 | Type::U64 | Type::S64 | Type::F64 => 8,
    }
}

fn is_integer(ty: Type) -> bool {
    !matches!(
        ty,
        Type::Pred | Type::F16 | Type::BF16 | Type::F16x2 | Type::BF16x2 | Type::F32 | Type::F64
    )
}
