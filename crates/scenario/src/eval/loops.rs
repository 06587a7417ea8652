//! Loops: iteration by iteration, or many iterations as one.
//!
//! A loop is first run as it stands. Once an iteration has shown how the
//! *carried* variables move (those that an iteration hands to the next), all
//! further iterations are tried at once: each carried variable `v` becomes
//! `v + step·k` with a box variable `k`, and one iteration is evaluated with
//! it. That this stands for the iterations `k = 0, 1, …, n − 1` is not assumed
//! but proved by the evaluation itself: if from the state at `k` every lane
//! takes the same path for all `k`, and the state it ends in is the state at
//! `k + 1`, then, by induction, the iterations are just these. Where a
//! condition has no single answer for all `k` (the loop's own above all), the
//! number of iterations is cut where the answer changes; where `k` is divided
//! with a remainder, every residue of it is evaluated by itself. Where the
//! attempt fails otherwise, the loop goes on iteration by iteration.
//!
//! The same proof shows that a loop never ends: when no variable moves, no lane
//! leaves, and memory stays as it is.

use super::affine::Lin;
use super::code::Loop;
use super::lanes::{Lanes, Mask};
use super::machine::{Divergence, Machine, Sink};
use super::value::{Value, range, scalar_of};
use super::{Ask, Stop};
use crate::diagnostic::{Diagnostic, Kind};

/// Iterations that are not worth running as one: where values are affine
/// already, and where they are single points, whose arithmetic is some ten
/// times quicker.
const FEW_IN_BOX: u64 = 3;
const FEW_AT_POINT: u64 = 24;

/// Iterations after which a loop that is to be run one by one is suspected of
/// being endless.
const LONG: u64 = 1 << 12;

/// Most iterations that run as one, and most that a loop may have at all.
const MOST_ITERATIONS: u64 = 1 << 40;

/// Most residues that iterations are divided into.
const MOST_CLASSES: u64 = 1 << 10;

/// Attempts to find a number of iterations that goes.
const CUTS: usize = 16;

/// What came of an attempt.
enum Folded {
    /// So many iterations are done.
    Done(u64),
    /// No iteration is done.
    No,
    /// No iteration changes anything, ever.
    Endless,
}

/// The carried variables at the start of an iteration.
type State = Vec<Option<Value>>;

/// `rounds` × `period` iterations, one evaluation for each residue of their
/// number modulo `period`.
#[derive(Clone, Copy)]
struct Attempt<'a, 'c> {
    looped: &'c Loop<'c>,
    active: &'a Mask,
    state: &'a State,
    steps: &'a [Option<Lanes>],
    /// The variable that counts rounds.
    var: usize,
    rounds: u64,
    period: u64,
}

/// Everything that an attempt may change.
struct Saved {
    locals: Vec<Option<Value>>,
    alive: Mask,
    returned: Mask,
    in_call: bool,
    broken: Mask,
    continued: Mask,
    divergences: usize,
}

/// Puts a variable's value into a value.
fn settle(value: &mut Value, var: usize, point: u64) {
    let Some(place) = value.terms.iter().position(|(v, _)| *v == var) else { return };
    let (_, coefficient) = value.terms.remove(place);
    let base = std::mem::replace(&mut value.base, Lanes::Uniform(0));
    value.base = base.zip(coefficient, |base, c| base.wrapping_add(c.wrapping_mul(point as i64)));
}

impl<'c, S: Sink> Machine<'c, '_, S> {
    pub(super) fn run_loop(&mut self, looped: &'c Loop<'c>, entry: Mask) -> Result<Mask, Stop> {
        let outer = (self.broken, self.continued);
        (self.broken, self.continued) = (Mask::EMPTY, Mask::EMPTY);
        self.divergences.push(Divergence { condition: looped.condition.span, before: entry });
        let mut active = entry;
        let mut left = Mask::EMPTY;
        let mut tested = looped.test_first;
        // Iterations run one by one, and in all.
        let mut single: u64 = 0;
        let mut total: u64 = 0;
        let mut since_attempt: u64 = 0;
        let mut previous: Option<State> = None;
        while !active.is_empty() {
            let mut state = self.carried(looped);
            let wait = match self.fold_loops {
                true => 1 << self.fold_failures[looped.index].min(40),
                false => LONG,
            };
            if let Some(previous) = &previous
                && since_attempt >= wait
            {
                since_attempt = 0;
                match self.fold(looped, &active, previous, &state)? {
                    Folded::Done(done) => {
                        self.fold_failures[looped.index] = 0;
                        total = total.saturating_add(done);
                        state = self.carried(looped);
                    }
                    Folded::No => self.fold_failures[looped.index] += 1,
                    Folded::Endless => return Err(self.endless(looped, &active, total, true)),
                }
            }
            self.iterate(looped, &mut active, &mut left, tested)?;
            tested = true;
            previous = Some(state);
            since_attempt += 1;
            single += 1;
            total = total.saturating_add(1);
            if !active.is_empty()
                && (single >= self.limits.loop_iterations || total > MOST_ITERATIONS)
            {
                return Err(self.endless(looped, &active, total, false));
            }
            self.spend()?;
        }
        let after = left.or(&self.broken);
        self.divergences.pop();
        (self.broken, self.continued) = outer;
        Ok(after)
    }

    /// One iteration: `active` are the threads that go on to the next, `left`
    /// takes those for which the condition failed.
    fn iterate(
        &mut self,
        looped: &'c Loop<'c>,
        active: &mut Mask,
        left: &mut Mask,
        tested: bool,
    ) -> Result<(), Stop> {
        if tested {
            *active = self.steps(&looped.header, *active)?;
            if active.is_empty() {
                return Ok(());
            }
            let yes = self.loop_condition(looped, active)?;
            *left = left.or(&active.without(&yes));
            *active = yes;
            if active.is_empty() {
                return Ok(());
            }
        }
        let through = self.steps(&looped.body, *active)?;
        let through = through.or(&std::mem::replace(&mut self.continued, Mask::EMPTY));
        *active = self.steps(&looped.step, through)?;
        Ok(())
    }

    fn carried(&self, looped: &Loop<'_>) -> State {
        looped.carried.iter().map(|&local| self.locals[local].clone()).collect()
    }

    /// Tries to run many iterations as one.
    fn fold(
        &mut self,
        looped: &'c Loop<'c>,
        active: &Mask,
        previous: &State,
        state: &State,
    ) -> Result<Folded, Stop> {
        let few = if self.in_box() { FEW_IN_BOX } else { FEW_AT_POINT };
        let Some((steps, mut iterations)) = self.steps_of(looped, active, previous, state) else {
            return Ok(Folded::No);
        };
        let Some(var) = self.push_var(1) else { return Ok(Folded::No) };
        let saved = Saved {
            locals: self.locals.clone(),
            alive: self.alive,
            returned: self.returned,
            in_call: self.in_call,
            broken: self.broken,
            continued: self.continued,
            divergences: self.divergences.len(),
        };
        let mut period: u64 = 1;
        let mut outcome = Ok(Folded::No);
        for _ in 0..CUTS {
            let rounds = iterations / period;
            if rounds < few {
                break;
            }
            let attempt = Attempt { looped, active, state, steps: &steps, var, rounds, period };
            let mark = self.sink.mark();
            let ran = self.attempt(&attempt, &saved);
            if let Ok(true) = ran {
                outcome = Ok(match iterations {
                    MOST_ITERATIONS if steps.iter().all(Option::is_none) => Folded::Endless,
                    _ => Folded::Done(rounds * period),
                });
                break;
            }
            self.sink.rollback(mark);
            self.restore(&saved);
            match ran {
                Err(Stop::Request(request)) => match &request.ask {
                    // One cut less each time: the number only shrinks.
                    Ask::Split { var: cut, at } if *cut == var => match at.first() {
                        Some(&at) if at < rounds => iterations = at * period,
                        _ => break,
                    },
                    Ask::Classes { var: by, period: more } if *by == var => {
                        match period.checked_mul(*more) {
                            Some(product) if product <= MOST_CLASSES => period = product,
                            _ => break,
                        }
                    }
                    Ask::Pin { vars } if vars >> var & 1 == 1 => break,
                    // Of the blocks, or of an outer loop.
                    _ => {
                        outcome = Err(Stop::Request(request));
                        break;
                    }
                },
                // It fails in each of the iterations: the next one will tell.
                Ok(_) | Err(Stop::FailsInBox) => break,
                Err(stop) => {
                    outcome = Err(stop);
                    break;
                }
            }
        }
        if let Ok(Folded::Done(done)) = outcome {
            if self.fold_loops {
                self.leave(looped, active, state, &steps, done);
            } else {
                self.restore(&saved);
                outcome = Ok(Folded::No);
            }
        }
        self.pop_var();
        outcome
    }

    /// Runs `rounds` × `period` iterations as `period` of them; whether they
    /// are what they should be.
    fn attempt(&mut self, attempt: &Attempt<'_, 'c>, saved: &Saved) -> Result<bool, Stop> {
        let Attempt { looped, active, state, steps, var, rounds, period } = *attempt;
        self.vars.counts[var] = rounds;
        for residue in 0..period {
            let start: State = state
                .iter()
                .zip(steps)
                .map(|(value, step)| {
                    let (Some(value), Some(step)) = (value, step) else { return value.clone() };
                    let mut value = value.clone();
                    let offset =
                        |base: i64, step: i64| base.wrapping_add(step.wrapping_mul(residue as i64));
                    value.base = value.base.zip(step.clone(), offset);
                    value.terms.push((var, step.clone().map(|s| s.wrapping_mul(period as i64))));
                    Some(value)
                })
                .collect();
            for (&local, value) in looped.carried.iter().zip(&start) {
                self.locals[local].clone_from(value);
            }
            let (mut lanes, mut left) = (*active, Mask::EMPTY);
            let muted = self.muted;
            self.muted |= !self.fold_loops;
            let ran = self.iterate(looped, &mut lanes, &mut left, true);
            self.muted = muted;
            ran?;
            let proved = lanes == *active
                && self.alive == saved.alive
                && self.returned == saved.returned
                && self.broken == saved.broken
                && self.moved_by(looped, active, &start, steps);
            if !proved {
                return Ok(false);
            }
            self.locals.iter_mut().flatten().for_each(|value| settle(value, var, rounds - 1));
        }
        Ok(true)
    }

    /// By how much an iteration moves each carried variable (`None`: not at
    /// all), and after how many the first would leave its type's range.
    fn steps_of(
        &self,
        looped: &Loop<'_>,
        active: &Mask,
        previous: &State,
        state: &State,
    ) -> Option<(Vec<Option<Lanes>>, u64)> {
        let mut most = i128::from(MOST_ITERATIONS);
        let mut steps = Vec::with_capacity(state.len());
        for ((&local, before), now) in looped.carried.iter().zip(previous).zip(state) {
            let (before, now) = match (before, now) {
                (Some(before), Some(now)) => (before, now),
                (None, None) => {
                    steps.push(None);
                    continue;
                }
                _ => return None,
            };
            let opaque = now.opaque_mask().and(active);
            if opaque != before.opaque_mask().and(active) {
                return None;
            }
            let known = active.without(&opaque);
            let step = match (&before.base, &now.base) {
                (Lanes::Uniform(before), Lanes::Uniform(now)) => {
                    Lanes::Uniform(now.wrapping_sub(*before))
                }
                (before, now) => {
                    let difference = |lane: usize| now.get(lane).wrapping_sub(before.get(lane));
                    let first = difference(known.first().unwrap_or(0));
                    if known.lanes().all(|lane| difference(lane) == first) {
                        Lanes::Uniform(first)
                    } else {
                        Lanes::from_fn(self.n, |lane| {
                            if known.contains(lane) { difference(lane) } else { 0 }
                        })
                    }
                }
            };
            if known.is_empty() || matches!(step, Lanes::Uniform(0)) {
                steps.push(None);
                continue;
            }
            let scalar = scalar_of(self.code.run.program.locals[local].ty);
            let (min, max) = range(scalar);
            for lane in known.lanes() {
                let (low, high) = self.vars.interval(&Lin::of(now, scalar, lane));
                let step = i128::from(step.get(lane));
                most = most.min(match step {
                    0 => most,
                    1.. => (max - high) / step,
                    _ => (low - min) / -step,
                });
            }
            steps.push(Some(step));
        }
        Some((steps, u64::try_from(most).unwrap_or(0)))
    }

    /// Whether the iteration that has just been run from `start` has moved each
    /// carried variable by its step, all over the box.
    fn moved_by(
        &self,
        looped: &Loop<'_>,
        active: &Mask,
        start: &State,
        steps: &[Option<Lanes>],
    ) -> bool {
        looped.carried.iter().zip(start).zip(steps).all(|((&local, start), step)| {
            match (start, &self.locals[local]) {
                (Some(start), Some(end)) => {
                    let mut expected = start.clone();
                    if let Some(step) = step {
                        expected.base = expected.base.zip(step.clone(), i64::wrapping_add);
                    }
                    self.same_value(&expected, end, active)
                }
                (None, None) => true,
                (None, Some(end)) => active.without(&end.opaque_mask()).is_empty(),
                (Some(_), None) => false,
            }
        })
    }

    /// Leaves the carried variables as so many iterations do.
    fn leave(
        &mut self,
        looped: &Loop<'_>,
        active: &Mask,
        state: &State,
        steps: &[Option<Lanes>],
        iterations: u64,
    ) {
        for (&local, (start, step)) in looped.carried.iter().zip(state.iter().zip(steps)) {
            if let (Some(start), Some(step)) = (start, step) {
                let mut value = start.clone();
                value.base = value.base.zip(step.clone(), |base, step| {
                    base.wrapping_add(step.wrapping_mul(iterations as i64))
                });
                if !self.alive.without(active).is_empty() {
                    value = value.merge(start, active, self.n);
                }
                self.locals[local] = Some(value);
            }
        }
    }

    fn restore(&mut self, saved: &Saved) {
        self.locals.clone_from(&saved.locals);
        self.alive = saved.alive;
        self.returned = saved.returned;
        self.in_call = saved.in_call;
        self.broken = saved.broken;
        self.continued = saved.continued;
        self.divergences.truncate(saved.divergences);
    }

    fn endless(&mut self, looped: &Loop<'_>, active: &Mask, total: u64, proved: bool) -> Stop {
        let lane = active.first().unwrap_or(0);
        self.fail(|m| {
            let (message, label) = if proved {
                let label = "an iteration changes nothing that this depends on";
                ("the loop does not end".to_owned(), label)
            } else {
                (format!("the loop has not ended after {total} iterations"), "still holds")
            };
            Diagnostic::new(
                Kind::Evaluation,
                looped.condition.span,
                message,
                "let every iteration bring the condition closer to failing, or choose smaller parameters",
            )
            .label(label)
            .note(m.at(lane))
        })
    }
}
