//! Memory accesses: the only instructions of a kernel that touch memory, apart
//! from what a verifying launch adds.

use super::Lowering;
use super::expr::{bits, class_of};
use crate::Purpose;
use crate::syntax::{
    Address, AtomOp, Binary, Cache, Class, Compare, Instruction, Reg, Space, Type, Value,
};
use scenario::program::{Access, Expr, ExprKind, LocalId, Scalar, Site, ValueType};
use scenario::{Diagnostic, Kind};
use simulator::{AtomicOp, CacheOp, OpKind, Space as ModelSpace};

/// How a lane's bytes are split into a vector of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Type of a component.
    ty: Type,
    /// Class of its register.
    class: Class,
    /// Components: 1, 2, 4 or 8.
    components: usize,
    /// Whether the components are the site's scalars; else they are wider and
    /// hold several.
    scalars: bool,
}

/// Type and class in which a scalar is moved: 8- and 16-bit values travel
/// zero-extended in 32-bit registers.
fn moved_as(scalar: Scalar) -> (Type, Class) {
    match scalar.bytes() {
        1 => (Type::U8, Class::B32),
        2 => (Type::U16, Class::B32),
        4 => (Type::B32, Class::B32),
        _ => (Type::B64, Class::B64),
    }
}

fn shape(site: &Site) -> Shape {
    let (ty, class) = moved_as(site.element);
    let components = usize::from(site.width) / site.element.bytes() as usize;
    match (components, site.width) {
        (1 | 2 | 4, _) | (8, 32) => Shape { ty, class, components, scalars: true },
        // Eight or more narrow scalars move as 32-bit words: PTX vectors have
        // at most four components of them.
        (_, width) => Shape {
            ty: Type::B32,
            class: Class::B32,
            components: usize::from(width) / 4,
            scalars: false,
        },
    }
}

fn space(site: &Site) -> Space {
    match site.op.space {
        ModelSpace::Global => Space::Global,
        // Sites in local memory don't get here: see `Lowering::access`.
        ModelSpace::Shared | ModelSpace::Local => Space::Shared,
    }
}

fn cache(site: &Site) -> Cache {
    let is_store = site.op.kind == OpKind::Store;
    match (site.op.cache, site.op.space) {
        // `volatile`, the only qualifier of shared memory; and there is no
        // `st.cv`.
        (CacheOp::Cv, ModelSpace::Shared) => Cache::Volatile,
        (CacheOp::Cv, _) if is_store => Cache::Volatile,
        (_, ModelSpace::Shared) => Cache::Default,
        (CacheOp::Default, _) => Cache::Default,
        (CacheOp::Ca, _) => Cache::Ca,
        (CacheOp::Cg, _) => Cache::Cg,
        (CacheOp::Cs, _) => Cache::Cs,
        (CacheOp::Lu, _) => Cache::Lu,
        (CacheOp::Cv, _) => Cache::Cv,
        (CacheOp::Wb, _) => Cache::Wb,
        (CacheOp::Wt, _) => Cache::Wt,
        (CacheOp::Nc, _) => Cache::Nc,
    }
}

/// Where a lane accesses.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// As the instruction wants it.
    address: Address,
    /// As the model has it: a device address, or an offset in the window.
    model: ModelAddress,
}

#[derive(Clone, Copy, Debug)]
enum ModelAddress {
    Global(Address),
    Shared(Value),
}

impl Lowering<'_> {
    /// Emits `access`.
    pub(super) fn access(&mut self, access: &Access) -> Result<(), Box<Diagnostic>> {
        let Some(site) = self.program.sites.get(access.site.0) else { return Ok(()) };
        if site.op.space == ModelSpace::Local {
            return Err(not_modelled(
                site,
                "not modelled: an access to local memory",
                "keep the variable in registers: index it with constants",
            ));
        }
        self.describe(site);
        match site.op.kind {
            OpKind::Load => self.load(access, site),
            OpKind::Store => self.store(access, site),
            OpKind::Reduction(op) => self.atomic(access, site, op, false)?,
            OpKind::Atomic(op) => self.atomic(access, site, op, true)?,
            OpKind::AsyncCopy => self.copy_async(access, site)?,
        }
        Ok(())
    }

    fn load(&mut self, access: &Access, site: &Site) {
        let place = self.place(&access.address, site);
        let shape = shape(site);
        let dst: Vec<Reg> = (0..shape.components).map(|_| self.fresh(shape.class)).collect();
        self.emit_for(
            access.site,
            Instruction::Load {
                space: space(site),
                cache: cache(site),
                ty: shape.ty,
                dst: dst.clone(),
                address: place.address,
            },
        );
        self.sum_place(access, &place);
        for &reg in &dst {
            self.keep(reg);
            self.sum_data(access, reg, shape);
        }
        self.deliver(site, shape, &dst, &access.results);
    }

    fn store(&mut self, access: &Access, site: &Site) {
        let place = self.place(&access.address, site);
        let shape = shape(site);
        let known = shape.scalars && access.values.len() == shape.components;
        let src = (0..shape.components)
            .map(|k| match access.values.get(k) {
                Some(value) if known && !is_opaque(value) => {
                    Value::Reg(self.operand(value, shape.class))
                }
                _ => Value::Reg(self.opaque_store(&place, shape, k)),
            })
            .collect();
        self.emit_for(
            access.site,
            Instruction::Store {
                space: space(site),
                cache: cache(site),
                ty: shape.ty,
                address: place.address,
                src,
            },
        );
        self.sum_place(access, &place);
    }

    /// Component `k` of a value that nobody knows: in a measured kernel,
    /// whatever the thread has loaded so far; in a verifying one, a function of
    /// the address.
    fn opaque_store(&mut self, place: &Place, shape: Shape, k: usize) -> Reg {
        match (self.purpose, place.model) {
            (Purpose::Verify, ModelAddress::Global(address)) => {
                let bytes = match shape.ty {
                    Type::U8 => 1,
                    Type::U16 => 2,
                    Type::B32 => 4,
                    _ => 8,
                };
                let offset = address.offset.wrapping_add((k as i32) * bytes);
                self.pattern(Address { base: address.base, offset }, shape.class)
            }
            _ => {
                let value = self.opaque_bits(shape.class);
                self.reg(value, shape.class)
            }
        }
    }

    fn atomic(
        &mut self,
        access: &Access,
        site: &Site,
        op: AtomicOp,
        wants_old: bool,
    ) -> Result<(), Box<Diagnostic>> {
        let shape = atomic_shape(site, op)?;
        let place = self.place(&access.address, site);
        // `cas` compares with the first operand and writes the second.
        let groups = if op == AtomicOp::Cas { 2 } else { 1 };
        let known = access.values.len() == groups * shape.components;
        let mut operands = Vec::with_capacity(groups * shape.components);
        for k in 0..groups * shape.components {
            operands.push(match access.values.get(k) {
                Some(value) if known && !is_opaque(value) => {
                    let class = if shape.class == Class::B64 { Class::B64 } else { Class::B32 };
                    self.operand(value, class)
                }
                _ => self.opaque_operand(shape.ty),
            });
        }
        if op == AtomicOp::Sub {
            // PTX has no `sub`: compilers add the negative.
            for operand in &mut operands {
                *operand = self.negated(*operand);
            }
        }
        if shape.class == Class::B16 {
            for operand in &mut operands {
                let dst = self.fresh(Class::B16);
                self.emit(Instruction::Cvt { to: Type::U16, from: Type::U32, dst, src: *operand });
                *operand = dst;
            }
        }
        let mut operands = operands.into_iter().map(Value::Reg);
        let src: Vec<Value> = operands.by_ref().take(shape.components).collect();
        let swap = operands.next();
        let ptx_op = ptx_op(op);
        // `exch` and `cas` exist as `atom` only; without use of the old value
        // it goes to the bit bucket.
        let is_red = !wants_old && !matches!(ptx_op, AtomOp::Exch | AtomOp::Cas);
        let dst: Vec<Reg> = if wants_old {
            (0..shape.components).map(|_| self.fresh(shape.class)).collect()
        } else {
            Vec::new()
        };
        let (space, ty, address) = (space(site), shape.ty, place.address);
        self.emit_for(
            access.site,
            if is_red {
                Instruction::Red { space, op: ptx_op, ty, address, src }
            } else {
                Instruction::Atom { space, op: ptx_op, ty, dst: dst.clone(), address, src, swap }
            },
        );
        self.sum_place(access, &place);
        let dst: Vec<Reg> = dst
            .into_iter()
            .map(|reg| {
                if reg.class != Class::B16 {
                    return reg;
                }
                let wide = self.fresh(Class::B32);
                self.emit(Instruction::Cvt { to: Type::U32, from: Type::U16, dst: wide, src: reg });
                wide
            })
            .collect();
        for &reg in &dst {
            self.keep(reg);
        }
        self.deliver(site, shape, &dst, &access.results);
        Ok(())
    }

    fn copy_async(&mut self, access: &Access, site: &Site) -> Result<(), Box<Diagnostic>> {
        let Some(shared) = &access.shared_address else {
            return Err(not_modelled(
                site,
                "not modelled: an asynchronous copy without a place in shared memory",
                "copy to a __shared__ array",
            ));
        };
        let cache = match (site.width, site.op.cache) {
            (16, CacheOp::Cg) => Cache::Cg,
            (4 | 8 | 16, CacheOp::Default | CacheOp::Ca) => Cache::Ca,
            _ => {
                return Err(not_modelled(
                    site,
                    format!("not modelled: an asynchronous copy of {} bytes", site.width),
                    "cp.async copies 4, 8 or 16 bytes, and past L1 only 16",
                ));
            }
        };
        let place = self.place(&access.address, site);
        let offset = self.shared_offset(shared);
        let to = self.window_address(offset);
        self.emit_for(
            access.site,
            Instruction::CopyAsync { cache, to, from: place.address, bytes: site.width },
        );
        self.sum_place(access, &place);
        self.sum_offset(access, offset);
        Ok(())
    }

    fn place(&mut self, pointer: &Expr, site: &Site) -> Place {
        if site.op.space == ModelSpace::Global {
            let address = self.global_address(pointer);
            return Place { address, model: ModelAddress::Global(address) };
        }
        let offset = self.shared_offset(pointer);
        Place { address: self.window_address(offset), model: ModelAddress::Shared(offset) }
    }

    /// The place `offset` bytes into the block's window.
    fn window_address(&mut self, offset: Value) -> Address {
        let window = self.window();
        match offset {
            Value::Imm(offset) => Address { base: window, offset: offset as i32 },
            Value::Reg(_) => {
                let base = self.fresh(Class::B32);
                self.binary(Binary::Add, Type::U32, base, window.into(), offset);
                Address { base, offset: 0 }
            }
        }
    }

    /// Hands what was loaded to the variables that want it.
    fn deliver(&mut self, site: &Site, shape: Shape, from: &[Reg], to: &[LocalId]) {
        let per_word = if shape.scalars { 1 } else { 4 / site.element.bytes().min(4) as usize };
        for (k, &id) in to.iter().enumerate() {
            let Some(&reg) = from.get(k / per_word) else { return };
            let Some(local) = self.program.locals.get(id.0) else { return };
            let mut value = Value::Reg(reg);
            let at = k % per_word;
            if at > 0 {
                let shifted = self.fresh(Class::B32);
                let by = 8 * site.element.bytes() as i64 * at as i64;
                self.binary(Binary::Shr, Type::U32, shifted, value, Value::Imm(by));
                value = Value::Reg(shifted);
            }
            let dst = self.local(id);
            if local.ty == ValueType::Int(Scalar::Bool) {
                let byte = ValueType::Int(Scalar::U8);
                let value = self.convert(value, ValueType::Int(Scalar::U32), byte, None);
                let pred = self.fresh(Class::Pred);
                self.emit(Instruction::Setp {
                    cmp: Compare::Ne,
                    ty: Type::U32,
                    dst: pred,
                    a: value,
                    b: Value::Imm(0),
                });
                let (a, b) = (Value::Imm(1), Value::Imm(0));
                self.emit(Instruction::Selp { ty: Type::B32, dst, a, b, pred });
                continue;
            }
            // The register holds raw bits; the element's own sign is applied
            // first, then C's conversion to the variable's type.
            let raw = if reg.class == Class::B64 { Scalar::U64 } else { Scalar::U32 };
            let element = match site.element {
                Scalar::F16 | Scalar::BF16 => Scalar::U16,
                Scalar::F32 => Scalar::U32,
                Scalar::F64 => Scalar::U64,
                Scalar::Bool => Scalar::U8,
                integer => integer,
            };
            let element = ValueType::Int(element);
            let value = self.convert(value, ValueType::Int(raw), element, None);
            let value = self.convert(value, element, local.ty, Some(dst));
            self.move_to(dst, value);
        }
    }

    /// `value` in a register of `class`, as its type extends it.
    fn operand(&mut self, value: &Expr, class: Class) -> Reg {
        let computed = self.value(value, None);
        let computed = match (class_of(value.ty), class) {
            (Class::B32, Class::B64) => {
                self.convert(computed, value.ty, ValueType::Int(Scalar::I64), None)
            }
            (Class::B64, Class::B32) => {
                self.convert(computed, value.ty, ValueType::Int(Scalar::U32), None)
            }
            _ => computed,
        };
        self.reg(computed, class)
    }

    /// An operand of an atomic that nobody knows: for floating point a number
    /// in `1..2` whose last digits depend on the thread, so that sums stay
    /// finite; else any bits.
    fn opaque_operand(&mut self, ty: Type) -> Reg {
        let mix = Value::Reg(self.mix());
        let (digits, one) = match ty {
            Type::F32 => (0x007f_ffff, 0x3f80_0000),
            Type::F16 => (0x03ff, 0x3c00),
            Type::F16x2 => (0x03ff_03ff, 0x3c00_3c00),
            Type::BF16 => (0x007f, 0x3f80),
            Type::BF16x2 => (0x007f_007f, 0x3f80_3f80),
            Type::F64 => {
                let high = self.masked(mix, 0x000f_ffff, 0x3ff0_0000);
                let dst = self.fresh(Class::B64);
                self.emit(Instruction::Pack { dst, low: mix, high: high.into() });
                return dst;
            }
            Type::U64 | Type::S64 | Type::B64 => {
                let value = self.opaque_bits(Class::B64);
                return self.reg(value, Class::B64);
            }
            _ => return self.reg(mix, Class::B32),
        };
        self.masked(mix, digits, one)
    }

    /// `value & mask | set`
    fn masked(&mut self, value: Value, mask: i64, set: i64) -> Reg {
        let kept = self.fresh(Class::B32);
        self.binary(Binary::And, Type::B32, kept, value, Value::Imm(mask));
        let dst = self.fresh(Class::B32);
        self.binary(Binary::Or, Type::B32, dst, kept.into(), Value::Imm(set));
        dst
    }

    fn negated(&mut self, operand: Reg) -> Reg {
        let ty = if operand.class == Class::B64 { Type::S64 } else { Type::S32 };
        let dst = self.fresh(operand.class);
        self.binary(Binary::Sub, ty, dst, Value::Imm(0), operand.into());
        dst
    }

    /// Adds the lane and its address to the site's sums.
    fn sum_place(&mut self, access: &Access, place: &Place) {
        if self.purpose != Purpose::Verify {
            return;
        }
        let address = match place.model {
            ModelAddress::Global(Address { base, offset: 0 }) => Value::Reg(base),
            ModelAddress::Global(Address { base, offset }) => {
                let dst = self.fresh(Class::B64);
                self.binary(
                    Binary::Add,
                    Type::S64,
                    dst,
                    base.into(),
                    Value::Imm(i64::from(offset)),
                );
                Value::Reg(dst)
            }
            ModelAddress::Shared(offset) => self.widened(offset),
        };
        let address = self.reg(address, Class::B64);
        self.add_lane(access.site);
        self.add_hash(access.site, super::verify::ADDRESSES, address.into());
    }

    /// Adds a loaded component to the site's sums.
    fn sum_data(&mut self, access: &Access, component: Reg, shape: Shape) {
        if self.purpose != Purpose::Verify || !shape.scalars {
            return;
        }
        let data = self.widened(component.into());
        self.add_hash(access.site, super::verify::DATA, data);
    }

    /// Adds a shared-memory offset to the site's data sum.
    fn sum_offset(&mut self, access: &Access, offset: Value) {
        if self.purpose != Purpose::Verify {
            return;
        }
        let offset = self.widened(offset);
        self.add_hash(access.site, super::verify::DATA, offset);
    }

    /// Zero-extends a 32-bit value.
    fn widened(&mut self, value: Value) -> Value {
        match value {
            Value::Reg(reg) if reg.class == Class::B32 => {
                let (from, to) = (ValueType::Int(Scalar::U32), ValueType::Int(Scalar::U64));
                self.convert(value, from, to, None)
            }
            Value::Reg(_) => value,
            Value::Imm(imm) => {
                let dst = self.fresh(Class::B64);
                self.move_to(dst, Value::Imm(i64::from(imm as u32)));
                dst.into()
            }
        }
    }

    /// A constant in a register; a register as it is.
    pub(super) fn reg(&mut self, value: Value, class: Class) -> Reg {
        match value {
            Value::Reg(reg) => reg,
            Value::Imm(_) => {
                let dst = self.fresh(class);
                self.emit(Instruction::Unary {
                    op: crate::syntax::Unary::Mov,
                    ty: bits(class),
                    dst,
                    src: value,
                });
                dst
            }
        }
    }
}

fn is_opaque(value: &Expr) -> bool {
    matches!(value.kind, ExprKind::Opaque(_))
}

fn ptx_op(op: AtomicOp) -> AtomOp {
    match op {
        AtomicOp::Add | AtomicOp::Sub => AtomOp::Add,
        AtomicOp::Min => AtomOp::Min,
        AtomicOp::Max => AtomOp::Max,
        AtomicOp::And => AtomOp::And,
        AtomicOp::Or => AtomOp::Or,
        AtomicOp::Xor => AtomOp::Xor,
        AtomicOp::Inc => AtomOp::Inc,
        AtomicOp::Dec => AtomOp::Dec,
        AtomicOp::Exch => AtomOp::Exch,
        AtomicOp::Cas => AtomOp::Cas,
    }
}

/// The type of an atomic, by the tables of `atom` and `red` in the PTX ISA.
fn atomic_shape(site: &Site, op: AtomicOp) -> Result<Shape, Box<Diagnostic>> {
    let components = usize::from(site.width) / site.element.bytes() as usize;
    let one = |ty, class| Some(Shape { ty, class, components: 1, scalars: true });
    let found = match (op, site.element, components) {
        (AtomicOp::Add, Scalar::F32, 1) => one(Type::F32, Class::B32),
        (AtomicOp::Add, Scalar::F64, 1) => one(Type::F64, Class::B64),
        (AtomicOp::Add, Scalar::F16, 1) => one(Type::F16, Class::B16),
        (AtomicOp::Add, Scalar::BF16, 1) => one(Type::BF16, Class::B16),
        (AtomicOp::Add, Scalar::F16, 2) => one(Type::F16x2, Class::B32),
        (AtomicOp::Add, Scalar::BF16, 2) => one(Type::BF16x2, Class::B32),
        (AtomicOp::Add, Scalar::F32, 2 | 4) if site.op.space == ModelSpace::Global => {
            Some(Shape { ty: Type::F32, class: Class::B32, components, scalars: true })
        }
        (AtomicOp::Add | AtomicOp::Sub, Scalar::I32 | Scalar::U32, 1) => one(Type::U32, Class::B32),
        (AtomicOp::Add | AtomicOp::Sub, Scalar::I64 | Scalar::U64, 1) => one(Type::U64, Class::B64),
        (AtomicOp::Min | AtomicOp::Max, Scalar::I32, 1) => one(Type::S32, Class::B32),
        (AtomicOp::Min | AtomicOp::Max, Scalar::U32, 1) => one(Type::U32, Class::B32),
        (AtomicOp::Min | AtomicOp::Max, Scalar::I64, 1) => one(Type::S64, Class::B64),
        (AtomicOp::Min | AtomicOp::Max, Scalar::U64, 1) => one(Type::U64, Class::B64),
        (AtomicOp::And | AtomicOp::Or | AtomicOp::Xor, Scalar::I32 | Scalar::U32, 1) => {
            one(Type::B32, Class::B32)
        }
        (AtomicOp::And | AtomicOp::Or | AtomicOp::Xor, Scalar::I64 | Scalar::U64, 1) => {
            one(Type::B64, Class::B64)
        }
        (AtomicOp::Inc | AtomicOp::Dec, Scalar::U32, 1) => one(Type::U32, Class::B32),
        (AtomicOp::Exch | AtomicOp::Cas, scalar, 1) => match scalar.bytes() {
            4 => one(Type::B32, Class::B32),
            8 => one(Type::B64, Class::B64),
            2 if op == AtomicOp::Cas => one(Type::B16, Class::B16),
            _ => None,
        },
        _ => None,
    };
    found.ok_or_else(|| {
        not_modelled(
            site,
            format!("not modelled: this atomic on {} bytes of {:?}", site.width, site.element),
            "PTX has no such instruction; use 32- or 64-bit integers, or add floats",
        )
    })
}

fn not_modelled(site: &Site, message: impl Into<String>, help: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic::new(Kind::NotModelled, site.span, message, help))
}
