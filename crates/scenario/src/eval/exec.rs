//! Statements, for the whole block in lockstep.

use super::Stop;
use super::code::{Loop, Step};
use super::expr::Truth;
use super::lanes::Mask;
use super::machine::{Divergence, Machine, Sink};
use super::value::Value;
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::Expr;
use crate::source::Span;

impl<'c, S: Sink> Machine<'c, '_, S> {
    /// Runs statements for the threads of `mask`; gives those that come to
    /// their end.
    pub(super) fn steps(&mut self, steps: &'c [Step<'c>], mask: Mask) -> Result<Mask, Stop> {
        let mut mask = mask;
        for step in steps {
            if mask.is_empty() {
                break;
            }
            mask = self.step(step, mask)?;
        }
        Ok(mask)
    }

    fn step(&mut self, step: &'c Step<'c>, mask: Mask) -> Result<Mask, Stop> {
        self.work += (self.n as u64).div_ceil(32);
        match step {
            Step::Set { local, value } => {
                let value = self.eval(value, &mask)?;
                self.assign(*local, value, &mask);
                Ok(mask)
            }
            Step::SetElement { array, index, value, span } => {
                self.set_element(*array, index, *value, *span, &mask)?;
                Ok(mask)
            }
            Step::Access { access, span } => {
                self.access(access, *span, &mask)?;
                Ok(mask)
            }
            Step::If { condition, then, otherwise, guarded, locals, arrays } => {
                let truth = self.condition(condition, &mask)?;
                if !truth.opaque.is_empty() {
                    if let Some((place, what)) = guarded {
                        return Err(self.opaque_condition(condition, &truth, *place, what));
                    }
                    self.obscure_assigned(&truth, locals, arrays);
                }
                let no = mask.without(&truth.yes).without(&truth.opaque);
                self.divergences.push(Divergence { condition: condition.span, before: mask });
                let mut after = truth.opaque;
                if !truth.yes.is_empty() {
                    after = after.or(&self.steps(then, truth.yes)?);
                }
                if !no.is_empty() {
                    after = after.or(&self.steps(otherwise, no)?);
                }
                self.divergences.pop();
                Ok(after)
            }
            Step::Loop(looped) => self.run_loop(looped, mask),
            Step::Call(body) => {
                let outer = (self.returned, self.in_call, self.broken, self.continued);
                self.returned = Mask::EMPTY;
                self.in_call = true;
                let through = self.steps(body, mask)?;
                let after = through.or(&self.returned);
                (self.returned, self.in_call, self.broken, self.continued) = outer;
                Ok(after)
            }
            Step::Break => {
                self.broken = self.broken.or(&mask);
                Ok(Mask::EMPTY)
            }
            Step::Continue => {
                self.continued = self.continued.or(&mask);
                Ok(Mask::EMPTY)
            }
            Step::Return => {
                if self.in_call {
                    self.returned = self.returned.or(&mask);
                } else {
                    self.alive = self.alive.without(&mask);
                }
                Ok(Mask::EMPTY)
            }
            Step::Barrier(span) => {
                self.barrier(*span, &mask)?;
                Ok(mask)
            }
        }
    }

    /// All threads that are still there must arrive together.
    fn barrier(&mut self, span: Span, mask: &Mask) -> Result<(), Stop> {
        let Some(missing) = self.alive.without(mask).first() else { return Ok(()) };
        let (arrived, expected) = (mask.count(), self.alive.count());
        let turned = self.divergences.iter().rev().find(|d| d.before.contains(missing));
        let turned = turned.map(|d| d.condition);
        Err(self.fail(|m| {
            let diagnostic = Diagnostic::new(
                Kind::Evaluation,
                span,
                format!(
                    "barrier in divergent code: {arrived} of the block's {expected} threads come to it"
                ),
                "move the barrier out of the condition, so that all threads of the block reach it",
            )
            .label("some threads never arrive here")
            .note(format!("missing: {}", m.who(missing)));
            match turned {
                Some(condition) => diagnostic.also(condition, "threads part here"),
                None => diagnostic,
            }
        }))
    }

    fn set_element(
        &mut self,
        array: usize,
        index: &Expr,
        value: Option<&Expr>,
        span: Span,
        mask: &Mask,
    ) -> Result<(), Stop> {
        let at = self.array_index(array, index, mask)?;
        let tracked = self.code.run.program.local_arrays[array].element.is_some();
        let value = match value {
            Some(value) => self.eval(value, mask)?,
            None => Value::opaque(*mask, self.code.float),
        };
        if !tracked {
            return Ok(());
        }
        let uninitialised = self.code.uninitialised_arrays[array];
        let others = self.alive.without(mask);
        let before = self.arrays[array].get(&at);
        if self.loop_vars > 0 {
            // What an iteration leaves in an array is seen by the next ones:
            // they can run as one only where it leaves the array as it was.
            let same = before.is_some_and(|before| self.same_value(before, &value, mask));
            return if same { Ok(()) } else { Err(self.pin_loops(span)) };
        }
        let mut merged = match before {
            Some(before) if !others.is_empty() => value.merge(before, mask, self.n),
            _ => value,
        };
        if before.is_none() {
            merged.obscure(&others, uninitialised);
        }
        self.arrays[array].insert(at, merged);
        Ok(())
    }

    /// Whether two values agree in the threads of `mask` all over the box.
    pub(super) fn same_value(&self, a: &Value, b: &Value, mask: &Mask) -> bool {
        let opaque = a.opaque_mask().and(mask);
        if opaque != b.opaque_mask().and(mask) {
            return false;
        }
        let known = mask.without(&opaque);
        if known.is_empty() {
            return true;
        }
        let zero = super::lanes::Lanes::Uniform(0);
        a.base.same_on(&b.base, &known)
            && (0..super::value::MAX_VARS).all(|var| {
                let (a, b) = (a.coefficient(var), b.coefficient(var));
                (a.is_none() && b.is_none())
                    || a.unwrap_or(&zero).same_on(b.unwrap_or(&zero), &known)
            })
    }

    /// Neither side of an unknown condition runs: what they assign is not
    /// known after it.
    fn obscure_assigned(&mut self, truth: &Truth, locals: &[usize], arrays: &[usize]) {
        for &local in locals {
            match &mut self.locals[local] {
                Some(value) => value.obscure(&truth.opaque, truth.reason),
                None => {
                    let mut value =
                        Value::opaque(self.everyone, self.code.uninitialised_locals[local]);
                    value.obscure(&truth.opaque, truth.reason);
                    self.locals[local] = Some(value);
                }
            }
        }
        for &array in arrays {
            for value in self.arrays[array].values_mut() {
                value.obscure(&truth.opaque, truth.reason);
            }
        }
    }

    fn opaque_condition(
        &mut self,
        condition: &Expr,
        truth: &Truth,
        place: Span,
        what: &str,
    ) -> Stop {
        let (reason, lane) = (truth.reason, truth.opaque.first().unwrap_or(0));
        self.fail(|m| {
            m.opaque_error(condition.span, "the condition", reason, lane)
                .also(place, format!("{what} depends on it"))
        })
    }

    /// Whether a loop's condition holds, which must be known.
    pub(super) fn loop_condition(
        &mut self,
        looped: &'c Loop<'c>,
        mask: &Mask,
    ) -> Result<Mask, Stop> {
        let truth = self.condition(looped.condition, mask)?;
        if truth.opaque.is_empty() {
            return Ok(truth.yes);
        }
        Err(self.opaque_condition(looped.condition, &truth, looped.span, "how often the loop runs"))
    }
}
