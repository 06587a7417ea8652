//! Accesses: where they go, whether they may, and what integers they move.

use super::affine::{self, Lin, Operands, Troubles};
use super::lanes::{Lanes, Mask};
use super::machine::{BlockAccess, Machine, Sink};
use super::value::{ReasonId, Value, bits, scalar_of, wrap};
use super::{Ask, Request, Stop};
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::{Access, BinaryOp, BufferId, Expr, Root, Scalar, SharedId, Site};
use crate::run::Contents;
use crate::source::Span;
use simulator::{AtomicOp, OpKind};
use smallvec::{SmallVec, smallvec};

/// The integers of a shared array, byte by byte.
pub(super) struct SharedContents {
    bytes: Vec<u8>,
    /// For each byte 0 where it is known, else 1 + why it is not.
    unknown: Vec<ReasonId>,
    /// Why nothing in it is known, while that is so; the vectors mean nothing
    /// then.
    nothing: Option<ReasonId>,
}

impl SharedContents {
    pub(super) fn new(bytes: u64) -> Self {
        // `Code` keeps contents of small arrays only.
        let bytes = bytes as usize;
        Self { bytes: vec![0; bytes], unknown: vec![0; bytes], nothing: Some(0) }
    }

    pub(super) fn reset(&mut self, reason: ReasonId) {
        self.nothing = Some(reason);
    }

    /// The integer of `width` bytes at an offset, zero-extended.
    fn load(&self, at: usize, width: usize) -> Result<u64, ReasonId> {
        if let Some(reason) = self.nothing {
            return Err(reason);
        }
        let range = at..at + width;
        if let Some(code) = self.unknown[range.clone()].iter().find(|code| **code != 0) {
            return Err(code - 1);
        }
        let mut value = [0; 8];
        value[..width].copy_from_slice(&self.bytes[range]);
        Ok(u64::from_le_bytes(value))
    }

    /// Whether a store would leave everything as it is.
    fn holds(&self, at: usize, width: usize, value: Result<u64, ReasonId>) -> bool {
        match (self.nothing, value) {
            (Some(before), Err(reason)) => before == reason,
            (Some(_), Ok(_)) => false,
            (None, Ok(value)) => {
                let range = at..at + width;
                self.unknown[range.clone()].iter().all(|code| *code == 0)
                    && self.bytes[range] == value.to_le_bytes()[..width]
            }
            (None, Err(reason)) => {
                self.unknown[at..at + width].iter().all(|code| *code == reason.saturating_add(1))
            }
        }
    }

    fn store(&mut self, at: usize, width: usize, value: Result<u64, ReasonId>) {
        if self.holds(at, width, value) {
            return;
        }
        if let Some(reason) = self.nothing.take() {
            self.unknown.fill(reason.saturating_add(1));
        }
        let range = at..at + width;
        match value {
            Ok(value) => {
                self.unknown[range.clone()].fill(0);
                self.bytes[range].copy_from_slice(&value.to_le_bytes()[..width]);
            }
            Err(reason) => self.unknown[range].fill(reason.saturating_add(1)),
        }
    }
}

/// Where the lanes of an access go: all to one place, or, through a pointer of
/// unknown origin, each to some buffer.
type Places = SmallVec<[(Root, Mask); 1]>;

impl<S: Sink> Machine<'_, '_, S> {
    pub(super) fn access(&mut self, access: &Access, span: Span, mask: &Mask) -> Result<(), Stop> {
        let code = self.code;
        let site = &code.run.program.sites[access.site.0];
        let address = self.address(&access.address, mask)?;
        let shared = match &access.shared_address {
            Some(expr) => Some(self.address(expr, mask)?),
            None => None,
        };
        let mut values: SmallVec<[Value; 4]> = SmallVec::new();
        for value in &access.values {
            values.push(self.eval(value, mask)?);
        }
        let places = self.locate(site, site.root, &address, mask)?;
        self.check_alignment(site, &address, mask)?;
        if let (Some(shared), Some(root)) = (&shared, site.shared_root) {
            self.locate(site, Root::Shared(root), shared, mask)?;
            self.check_alignment(site, shared, mask)?;
        }
        self.emit(access.site.0, &address, shared.as_ref(), mask, span)?;
        match site.op.kind {
            OpKind::Load => {
                for (component, local) in access.results.iter().enumerate() {
                    let offset = component as u64 * site.element.bytes();
                    let loaded = self.load(site, &places, &address, offset, mask, span)?;
                    let to = scalar_of(code.run.program.locals[local.0].ty);
                    let loaded = self.convert_to(to, site.element, loaded, mask, span)?;
                    self.assign(local.0, loaded, mask);
                }
            }
            OpKind::Atomic(op) | OpKind::Reduction(op) => {
                if let Root::Shared(array) = site.root {
                    let operand = access.values.first().map(|expr| scalar_of(expr.ty));
                    let operand = operand.zip(values.into_iter().next());
                    self.shared_atomic(array, site, op, &address, operand, mask, span)?;
                }
                for local in &access.results {
                    self.assign(local.0, Value::opaque(*mask, code.atomic_result), mask);
                }
            }
            OpKind::Store => {
                if let Root::Shared(array) = site.root {
                    for component in 0..site.vector {
                        let offset = u64::from(component) * site.element.bytes();
                        let value = match values.get(usize::from(component)) {
                            Some(value) => value.clone(),
                            None => Value::opaque(*mask, code.float),
                        };
                        self.shared_store(array, site, &address, offset, &value, mask, span)?;
                    }
                }
            }
            OpKind::AsyncCopy => {
                if let (Some(array), Some(shared)) = (site.shared_root, &shared)
                    && self.shared[array.0].is_some()
                {
                    for component in 0..site.vector {
                        let offset = u64::from(component) * site.element.bytes();
                        let value = self.load(site, &places, &address, offset, mask, span)?;
                        self.shared_store(array, site, shared, offset, &value, mask, span)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn address(&mut self, expr: &Expr, mask: &Mask) -> Result<Value, Stop> {
        let address = self.eval(expr, mask)?;
        match &address.opaque {
            None => Ok(address),
            Some(opaque) => {
                let (reason, lane) = (opaque.reason, opaque.mask.first().unwrap_or(0));
                Err(self
                    .fail(|m| m.opaque_error(expr.span, "the address of an access", reason, lane)))
            }
        }
    }

    /// First address and size of what a root stands for.
    fn extent(&self, root: Root) -> (u64, u64) {
        let run = self.code.run;
        match root {
            Root::Buffer(id) => (self.firsts[id.0], run.buffers[id.0].bytes),
            Root::Shared(id) => {
                let array = &run.program.shared[id.0];
                (array.offset, array.bytes)
            }
            Root::AnyBuffer => (0, u64::MAX),
        }
    }

    /// Checks that every lane stays within what it goes to.
    fn locate(
        &mut self,
        site: &Site,
        root: Root,
        address: &Value,
        mask: &Mask,
    ) -> Result<Places, Stop> {
        if root == Root::AnyBuffer {
            return self.locate_anywhere(site, address, mask);
        }
        let (first, bytes) = self.extent(root);
        let width = u64::from(site.width);
        // Places at which an access of this width fits.
        let fitting = bytes.checked_sub(width).map_or(0, |rest| rest.saturating_add(1));
        if address.terms.is_empty() {
            let outside = |address: i64| (address as u64).wrapping_sub(first) >= fitting;
            if address.base.fold(false, |any, x| any | outside(x))
                && let Some(lane) = mask.lanes().find(|&lane| outside(address.base.get(lane)))
            {
                let at = address.base.get(lane);
                return Err(self.fail(|m| m.outside(site, root, at as u64, lane)));
            }
        } else {
            let mut troubles = Troubles::new(self.vars);
            let (from, to) = (i128::from(first), i128::from(first) + i128::from(fitting));
            each(address, mask, |lin| troubles.require(lin, from, to));
            troubles.finish(site.span)?;
        }
        Ok(smallvec![(root, *mask)])
    }

    /// The buffer that each lane's address lies in.
    fn locate_anywhere(
        &mut self,
        site: &Site,
        address: &Value,
        mask: &Mask,
    ) -> Result<Places, Stop> {
        let width = u64::from(site.width);
        let buffers: SmallVec<[(Root, u64, u64); 8]> = (0..self.firsts.len())
            .map(|id| {
                let root = Root::Buffer(BufferId(id));
                let (first, bytes) = self.extent(root);
                (root, first, (bytes + 1).saturating_sub(width))
            })
            .collect();
        if !address.terms.is_empty() {
            let mut troubles = Troubles::new(self.vars);
            let vars = self.vars;
            each(address, mask, |lin| {
                let (low, high) = vars.interval(lin);
                for (_, first, fitting) in &buffers {
                    for border in [i128::from(*first), i128::from(*first) + i128::from(*fitting)] {
                        if low < border && border <= high {
                            troubles.cut(lin, border);
                        }
                    }
                }
            });
            troubles.finish(site.span)?;
        }
        let mut places = Places::new();
        for lane in mask.lanes() {
            let at = address.base.get(lane) as u64;
            let found = buffers.iter().find(|(_, first, fit)| at.wrapping_sub(*first) < *fit);
            let Some((root, ..)) = found else {
                return Err(self.fail(|m| m.nowhere(site, at, lane)));
            };
            match places.iter_mut().find(|(known, _)| known == root) {
                Some((_, lanes)) => lanes.insert(lane),
                None => {
                    let mut lanes = Mask::EMPTY;
                    lanes.insert(lane);
                    places.push((*root, lanes));
                }
            }
        }
        Ok(places)
    }

    fn check_alignment(&mut self, site: &Site, address: &Value, mask: &Mask) -> Result<(), Stop> {
        let width = i64::from(site.width);
        if address.terms.is_empty() {
            let low = address.base.fold(0, |all, x| all | x);
            if low & (width - 1) != 0
                && let Some(lane) =
                    mask.lanes().find(|&lane| address.base.get(lane) & (width - 1) != 0)
            {
                let at = address.base.get(lane) as u64;
                return Err(self.fail(|m| m.misaligned(site, at, lane)));
            }
            return Ok(());
        }
        let mut troubles = Troubles::new(self.vars);
        each(address, mask, |lin| {
            let width = i128::from(width);
            troubles.multiple(lin, width);
            if lin.base % width != 0 {
                troubles.fail();
            }
        });
        troubles.finish(site.span)
    }

    fn outside(&self, site: &Site, root: Root, at: u64, lane: usize) -> Diagnostic {
        let (first, bytes) = self.extent(root);
        let name = self.root_name(root);
        let offset = at.wrapping_sub(first) as i64;
        let (unit, unit_name) = match root {
            Root::Buffer(id) => {
                let buffer = &self.code.run.buffers[id.0];
                (buffer.element_bytes.max(1), buffer.type_name.clone())
            }
            _ => (site.element.bytes(), super::value::c_name(site.element).to_owned()),
        };
        let index = i128::from(offset).div_euclid(i128::from(unit));
        let rest = i128::from(offset).rem_euclid(i128::from(unit));
        let place = if rest == 0 { String::new() } else { format!(", byte {rest}") };
        let len = bytes / unit;
        let (message, help) = if offset < 0 {
            (
                format!("index below `{name}`: element {index}{place}"),
                "add a condition that keeps the index from going below 0".to_owned(),
            )
        } else if (offset as u64) < bytes {
            (
                format!(
                    "a {}-byte access at element {index}{place} reaches above the end of `{name}`",
                    site.width
                ),
                format!(
                    "let `{name}` hold a whole number of {}-byte pieces, or handle its end apart",
                    site.width
                ),
            )
        } else {
            (
                format!(
                    "index above `{name}`: element {index}{place}, where the last is {}",
                    i128::from(len) - 1
                ),
                format!("add a condition such as `if (i < n)`, or make `{name}` larger"),
            )
        };
        Diagnostic::new(Kind::Evaluation, site.span, message, help)
            .label(format!("{offset} bytes from the start of `{name}`"))
            .note(format!("`{name}`: {len} elements of type {unit_name}, {bytes} bytes"))
            .note(self.at(lane))
    }

    fn nowhere(&self, site: &Site, at: u64, lane: usize) -> Diagnostic {
        let mut diagnostic = Diagnostic::new(
            Kind::Evaluation,
            site.span,
            format!("address {at:#x} lies in no buffer"),
            "guard the access, or make the buffer that the pointer goes into larger",
        );
        for (buffer, &first) in self.code.run.buffers.iter().zip(self.firsts) {
            diagnostic = diagnostic.note(format!(
                "`{}`: {first:#x} to {:#x}",
                buffer.name,
                first.saturating_add(buffer.bytes)
            ));
        }
        diagnostic.note(self.at(lane))
    }

    fn misaligned(&self, site: &Site, at: u64, lane: usize) -> Diagnostic {
        let width = u64::from(site.width);
        let help = if site.vector > 1 {
            format!(
                "start at an index that is a multiple of {}, pad rows and offsets to {width} bytes, or access single elements",
                site.vector
            )
        } else {
            format!("make the byte offset a multiple of {width}")
        };
        Diagnostic::new(
            Kind::Evaluation,
            site.span,
            format!("misaligned access: {at:#x} is not a multiple of {width}"),
            help,
        )
        .label(format!("{width} bytes a lane, address mod {width} = {}", at % width))
        .note(self.at(lane))
    }

    /// Hands the access to the sink, one warp at a time.
    fn emit(
        &mut self,
        site: usize,
        address: &Value,
        shared: Option<&Value>,
        mask: &Mask,
        span: Span,
    ) -> Result<(), Stop> {
        for value in std::iter::once(address).chain(shared) {
            for (var, lanes) in &value.terms {
                if !mask.warps().all(|(warp, word)| same_in_warp(lanes, warp, word)) {
                    let ask = Ask::Pin { vars: 1 << var };
                    return Err(Stop::Request(Box::new(Request { ask, span })));
                }
            }
        }
        if self.muted {
            return Ok(());
        }
        self.sink.issue(&BlockAccess {
            site,
            mask,
            address,
            shared_address: shared,
            vars: &self.vars,
            blocks: &self.blocks,
        });
        Ok(())
    }

    /// One component of what a load reads.
    fn load(
        &mut self,
        site: &Site,
        places: &Places,
        address: &Value,
        offset: u64,
        mask: &Mask,
        span: Span,
    ) -> Result<Value, Stop> {
        if site.element.is_float() {
            return Ok(Value::opaque(*mask, self.code.float));
        }
        let mut loaded: Option<Value> = None;
        for (root, lanes) in places {
            let part = match root {
                Root::Buffer(id) => self.load_buffer(*id, site, address, offset, lanes, span)?,
                Root::Shared(id) => self.load_shared(*id, site, address, offset, lanes, span)?,
                Root::AnyBuffer => Value::opaque(*lanes, self.code.float),
            };
            loaded = Some(match loaded {
                None => part,
                Some(before) => part.merge(&before, lanes, self.n),
            });
        }
        Ok(loaded.unwrap_or_else(|| Value::opaque(*mask, self.code.float)))
    }

    fn load_buffer(
        &mut self,
        id: BufferId,
        site: &Site,
        address: &Value,
        offset: u64,
        mask: &Mask,
        span: Span,
    ) -> Result<Value, Stop> {
        let code = self.code;
        let buffer = &code.run.buffers[id.0];
        let unknown = Value::opaque(*mask, code.unknown_buffers[id.0]);
        let Some(scalar) = buffer.scalar.filter(|_| code.readable[id.0]) else {
            return Ok(unknown);
        };
        let first = self.firsts[id.0];
        // Addresses are aligned to the access; where the buffer is not, an
        // access straddles its elements.
        let (have, want) = (scalar.bytes(), site.element.bytes());
        if !first.is_multiple_of(want.min(have)) {
            return Ok(unknown);
        }
        let start = (first as i64).wrapping_sub(offset as i64);
        let position = self.with_constant(BinaryOp::Sub, address, start, mask, span)?;
        if have == want {
            let value = self.contents(id, &position, mask, span)?;
            return self.convert_to(site.element, scalar, value, mask, span);
        }
        if !position.terms.is_empty() {
            return Err(pin_vars(&position, span));
        }
        if want < have {
            let value = self.contents(id, &position, mask, span)?;
            let shift = position.base.map(|x| x.rem_euclid(have as i64) * 8);
            let base = value.base.zip(shift, |x, shift| x >> shift);
            return Ok(reinterpret(Value { base, ..value }, site.element));
        }
        let mut whole = Value::uniform(0);
        for piece in 0..want / have {
            let at =
                self.with_constant(BinaryOp::Add, &position, (piece * have) as i64, mask, span)?;
            let part = self.contents(id, &at, mask, span)?;
            let (shift, low) = (piece * have * 8, (1i64 << bits(scalar)) - 1);
            whole.base = whole.base.zip(part.base, |all, part| all | (part & low) << shift);
            whole.obscure_as(part.opaque.as_ref());
        }
        Ok(reinterpret(whole, site.element))
    }

    /// The integers of a buffer at byte positions from its first element, in
    /// the buffer's own type.
    fn contents(
        &mut self,
        id: BufferId,
        position: &Value,
        mask: &Mask,
        span: Span,
    ) -> Result<Value, Stop> {
        let code = self.code;
        let buffer = &code.run.buffers[id.0];
        let reason = code.unknown_buffers[id.0];
        let element = buffer.element_bytes as i64;
        let mut padding = Mask::EMPTY;
        let index = match buffer.pitch {
            None => self.with_constant(BinaryOp::Div, position, element, mask, span)?,
            Some(pitch) => {
                let row = self.with_constant(BinaryOp::Div, position, pitch as i64, mask, span)?;
                let byte = self.with_constant(BinaryOp::Rem, position, pitch as i64, mask, span)?;
                let column = self.with_constant(BinaryOp::Div, &byte, element, mask, span)?;
                let len = buffer.shape.last().copied().unwrap_or(1) as i64;
                let limit = Value::uniform(len);
                let operands =
                    Operands { a: &column, a_type: Scalar::I64, b: &limit, b_type: Scalar::I64 };
                let place = self.place(mask, span);
                let inside = affine::compare(place, crate::program::CompareOp::Lt, &operands)?;
                padding = mask.without(&inside);
                let row = self.with_constant(BinaryOp::Mul, &row, len, mask, span)?;
                let operands =
                    Operands { a: &row, a_type: Scalar::I64, b: &column, b_type: Scalar::I64 };
                affine::binary(place, BinaryOp::Add, &operands, Scalar::I64, false)?
            }
        };
        let live = mask.without(&padding);
        let mut value = self.integers(id, index, &live, span)?;
        value.obscure(&padding, reason);
        Ok(value)
    }

    /// The integers of a buffer at element indices, in the buffer's own type.
    pub(super) fn integers(
        &mut self,
        id: BufferId,
        index: Value,
        mask: &Mask,
        span: Span,
    ) -> Result<Value, Stop> {
        let code = self.code;
        let buffer = &code.run.buffers[id.0];
        let reason = code.unknown_buffers[id.0];
        match &buffer.contents {
            Contents::Unknown => Ok(Value::opaque(*mask, reason)),
            Contents::Computed(expr) => {
                let scalar = buffer.scalar.unwrap_or(Scalar::I64);
                let kernel = std::mem::replace(&mut self.locals, vec![Some(index.clone())]);
                let outer = self.element.replace((id, index));
                let value = self.eval(expr, mask).and_then(|value| {
                    self.convert_to(scalar, scalar_of(expr.ty), value, mask, expr.span)
                });
                self.element = outer;
                self.locals = kernel;
                value
            }
            Contents::Listed(list) => {
                if !index.terms.is_empty() {
                    return Err(pin_vars(&index, span));
                }
                let mut missing = Mask::EMPTY;
                let mut lanes = vec![0; self.n];
                for lane in mask.lanes() {
                    let at = usize::try_from(index.base.get(lane)).ok();
                    match at.and_then(|at| list.get(at)) {
                        Some(value) => lanes[lane] = *value,
                        None => missing.insert(lane),
                    }
                }
                let mut value = Value::known(Lanes::from_fn(self.n, |lane| lanes[lane]));
                value.obscure(&missing, reason);
                Ok(value)
            }
        }
    }

    /// `value op constant` in 64 bits, wrapping.
    fn with_constant(
        &self,
        op: BinaryOp,
        value: &Value,
        constant: i64,
        mask: &Mask,
        span: Span,
    ) -> Result<Value, Stop> {
        if !value.terms.is_empty() {
            let b = Value::uniform(constant);
            let operands = Operands { a: value, a_type: Scalar::I64, b: &b, b_type: Scalar::I64 };
            return affine::binary(self.place(mask, span), op, &operands, Scalar::I64, false);
        }
        let base = value.base.clone();
        Ok(Value::known(match op {
            BinaryOp::Add => base.map(|x| x.wrapping_add(constant)),
            BinaryOp::Sub => base.map(|x| x.wrapping_sub(constant)),
            BinaryOp::Mul => base.map(|x| x.wrapping_mul(constant)),
            BinaryOp::Rem => base.map(|x| x.checked_rem(constant).unwrap_or(0)),
            _ => base.map(|x| x.checked_div(constant).unwrap_or(0)),
        }))
    }

    fn load_shared(
        &mut self,
        id: SharedId,
        site: &Site,
        address: &Value,
        offset: u64,
        mask: &Mask,
        span: Span,
    ) -> Result<Value, Stop> {
        let code = self.code;
        let Some(contents) = &self.shared[id.0] else {
            return Ok(Value::opaque(*mask, code.float));
        };
        if let Some(reason) = contents.nothing {
            return Ok(Value::opaque(*mask, reason));
        }
        if !address.terms.is_empty() {
            return Err(pin_vars(address, span));
        }
        let first = code.run.program.shared[id.0].offset;
        let width = site.element.bytes() as usize;
        let mut lanes = vec![0; self.n];
        let mut unknown: Option<Value> = None;
        for lane in mask.lanes() {
            match contents.load(shared_offset(address, lane, first, offset), width) {
                Ok(value) => lanes[lane] = wrap(site.element, value as i64),
                Err(reason) => {
                    let mut one = Mask::EMPTY;
                    one.insert(lane);
                    unknown.get_or_insert_with(|| Value::uniform(0)).obscure(&one, reason);
                }
            }
        }
        let mut value = Value::known(Lanes::from_fn(self.n, |lane| lanes[lane]));
        value.obscure_as(unknown.and_then(|unknown| unknown.opaque).as_ref());
        Ok(value)
    }

    /// Stores one component to a shared array: in the order of the threads, so
    /// that of several that store to one place the last wins.
    #[allow(clippy::too_many_arguments)] // one component of one access
    fn shared_store(
        &mut self,
        id: SharedId,
        site: &Site,
        address: &Value,
        offset: u64,
        value: &Value,
        mask: &Mask,
        span: Span,
    ) -> Result<(), Stop> {
        let first = self.code.run.program.shared[id.0].offset;
        let Some(contents) = &self.shared[id.0] else { return Ok(()) };
        let width = site.element.bytes() as usize;
        if let (Some(before), Some(opaque)) = (contents.nothing, &value.opaque)
            && before == opaque.reason
            && mask.without(&opaque.mask).is_empty()
        {
            return Ok(());
        }
        if !address.terms.is_empty() {
            return Err(pin_vars(address, span));
        }
        let (opaque, reason) =
            value.opaque.as_ref().map_or((Mask::EMPTY, 0), |o| (o.mask, o.reason));
        if !value.terms.is_empty() && !mask.without(&opaque).is_empty() {
            return Err(pin_vars(value, span));
        }
        let stored = |lane: usize| {
            let at = shared_offset(address, lane, first, offset);
            let known = (!opaque.contains(lane)).then(|| value.base.get(lane) as u64);
            (at, known.ok_or(reason))
        };
        if self.loop_vars > 0
            && mask.lanes().any(|lane| {
                let (at, value) = stored(lane);
                !contents.holds(at, width, value)
            })
        {
            return Err(self.pin_loops(span));
        }
        if let Some(contents) = &mut self.shared[id.0] {
            for lane in mask.lanes() {
                let (at, value) = stored(lane);
                contents.store(at, width, value);
            }
        }
        Ok(())
    }

    /// An atomic on a shared array. What commutes leaves a known value; the
    /// rest depends on an order that the hardware does not promise.
    #[allow(clippy::too_many_arguments)] // one atomic access
    fn shared_atomic(
        &mut self,
        id: SharedId,
        site: &Site,
        op: AtomicOp,
        address: &Value,
        operand: Option<(Scalar, Value)>,
        mask: &Mask,
        span: Span,
    ) -> Result<(), Stop> {
        let first = self.code.run.program.shared[id.0].offset;
        let unordered = self.code.atomic_result;
        let Some(contents) = &self.shared[id.0] else { return Ok(()) };
        if contents.nothing == Some(unordered) {
            return Ok(());
        }
        if self.loop_vars > 0 {
            return Err(self.pin_loops(span));
        }
        if !address.terms.is_empty() {
            return Err(pin_vars(address, span));
        }
        let operand = match operand {
            Some((_, value)) if !value.terms.is_empty() => return Err(pin_vars(&value, span)),
            other => other.filter(|_| site.vector == 1 && !site.element.is_float()),
        };
        let width = site.element.bytes() as usize;
        let element = site.element;
        let Some(contents) = &mut self.shared[id.0] else { return Ok(()) };
        for lane in mask.lanes() {
            let at = shared_offset(address, lane, first, 0);
            let known = operand.as_ref().filter(|(_, value)| !value.opaque_mask().contains(lane));
            let combined = match (known, contents.load(at, width)) {
                (Some((_, value)), Ok(old)) => {
                    combine(op, element, wrap(element, old as i64), value.base.get(lane))
                }
                _ => None,
            };
            contents.store(at, width, combined.map(|x| x as u64).ok_or(unordered));
        }
        Ok(())
    }

    pub(super) fn pin_loops(&self, span: Span) -> Stop {
        let vars = (0..self.loop_vars).fold(0, |set, k| set | 1 << (3 + k));
        Stop::Request(Box::new(Request { ask: Ask::Pin { vars }, span }))
    }

    /// Gives a variable a value in the threads of `mask`.
    pub(super) fn assign(&mut self, local: usize, value: Value, mask: &Mask) {
        let value = value.restrict(mask);
        let others = self.alive.without(mask);
        let merged = if others.is_empty() {
            value
        } else {
            match self.locals[local].take() {
                None => {
                    let mut value = value;
                    value.obscure(&others, self.code.uninitialised_locals[local]);
                    value
                }
                // Nothing to keep: spares the merged lanes.
                Some(before) if others.without(&before.opaque_mask()).is_empty() => {
                    let mut value = value;
                    value.obscure_as(before.restrict(&others).opaque.as_ref());
                    value
                }
                Some(before) => value.merge(&before, mask, self.n),
            }
        };
        self.locals[local] = Some(merged);
    }
}

/// The new value in memory, where it does not depend on the order of threads.
fn combine(op: AtomicOp, element: Scalar, old: i64, operand: i64) -> Option<i64> {
    let wide = element == Scalar::U64;
    let less = if wide { (old as u64) < operand as u64 } else { old < operand };
    let new = match op {
        AtomicOp::Add => old.wrapping_add(operand),
        AtomicOp::Sub => old.wrapping_sub(operand),
        AtomicOp::Min => {
            if less {
                old
            } else {
                operand
            }
        }
        AtomicOp::Max => {
            if less {
                operand
            } else {
                old
            }
        }
        AtomicOp::And => old & operand,
        AtomicOp::Or => old | operand,
        AtomicOp::Xor => old ^ operand,
        AtomicOp::Inc | AtomicOp::Dec | AtomicOp::Exch | AtomicOp::Cas => return None,
    };
    Some(wrap(element, new))
}

fn shared_offset(address: &Value, lane: usize, first: u64, offset: u64) -> usize {
    ((address.base.get(lane) as u64).wrapping_sub(first) + offset) as usize
}

/// The low bits of a value of one point, as an integer of another type.
fn reinterpret(value: Value, to: Scalar) -> Value {
    Value { base: value.base.map(|x| wrap(to, x)), ..value }
}

/// Every live lane of an address over the box; once where all are the same.
fn each(address: &Value, mask: &Mask, mut f: impl FnMut(&Lin)) {
    let lanes = if address.is_uniform() { 1 } else { usize::MAX };
    for lane in mask.lanes().take(lanes) {
        f(&Lin::of(address, Scalar::U64, lane));
    }
}

fn pin_vars(value: &Value, span: Span) -> Stop {
    let vars = value.terms.iter().fold(0, |set, (var, _)| set | 1 << var);
    Stop::Request(Box::new(Request { ask: Ask::Pin { vars }, span }))
}

/// Whether all lanes of a warp have one value.
fn same_in_warp(lanes: &Lanes, warp: usize, word: u32) -> bool {
    if matches!(lanes, Lanes::Uniform(_)) {
        return true;
    }
    let lane = |bit: u32| lanes.get(warp * 32 + bit as usize);
    let first = lane(word.trailing_zeros());
    (0..32).all(|bit| word >> bit & 1 == 0 || lane(bit) == first)
}
