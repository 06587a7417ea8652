//! How long a launch takes, and what bounds it.
//!
//! Each term is the time that one part of the device needs for its share of
//! the work, were it alone: one file for each part, each with its own constants
//! of the [`Profile`].
//!
//! | file | terms |
//! |---|---|
//! | `issue` | instruction issue |
//! | `l1` | requests, tag stage, data stage, shared-memory atomics |
//! | `path` | an SM's way to L2 and back |
//! | `l2` | L2 slices: reads, writes, atomics |
//! | `dram` | bytes by the mix of reads and writes; granules opened |
//! | `latency` | round trips that warps wait for; sectors in flight |
//! | `dispatch` | blocks given out |
//! | `waves` | how blocks spread over SMs |
//!
//! # How they are combined
//!
//! overhead + ramp + (Σ termᵖ)^(1/p), with the profile's
//! [`Constant::OverlapExponent`] as p. Parts of a device work side by side, so
//! the slowest decides; a large p is the hard maximum. There are four
//! exceptions:
//!
//! - L2's slices serve reads, writes and atomics in turn: these terms are added.
//! - Latencies are those of an idle device. An access to DRAM takes longer the
//!   larger the share of the time is that DRAM is busy, and yet longer where it
//!   reads and writes by turns, for a read then waits for the bus to turn around
//!   ([`Constant::DramQueueRead`], [`Constant::DramQueueMixed`]).
//! - A block that meets at barriers waits and works by turns, and only other
//!   blocks' work fills its waits: work and as many round trips as there are
//!   barriers are combined with an exponent of their own
//!   ([`Constant::PhaseOverlap`]), if that takes longer.
//! - What comes out is combined with the giving out of blocks by another exponent
//!   ([`Constant::DispatchOverlap`]): a place is not taken at once when it becomes
//!   free.
//!
//! # Where a number is missing
//!
//! A measured profile must have the constants of every term that has work;
//! else there is no prediction ([`Missing`]). One from a data sheet gives a
//! lower bound: the hard maximum of what its rates allow, without overheads.

mod dispatch;
mod dram;
mod issue;
mod l1;
mod l2;
mod latency;
mod path;
mod waves;

use crate::traffic::{self, LineAccesses};
use crate::{Constant, Kind, Occupancy, Profile, Workload};
use record::Traffic;
use waves::Waves;

/// What moved between the levels of memory, for the time model. Sums over the
/// launch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moved {
    /// Sectors read from L2.
    pub l2_read_sectors: f64,
    /// Sectors written to L2.
    pub l2_write_sectors: f64,
    /// Sectors of reductions and atomics.
    pub l2_atomic_sectors: f64,
    /// Bytes read from DRAM.
    pub dram_read_bytes: f64,
    /// Bytes written to DRAM.
    pub dram_write_bytes: f64,
    /// Of the sectors written to L2, those that a store wrote a part of, and that
    /// stay so; 0 where nobody knows.
    pub l2_partial_sectors: f64,
    /// Requests with such sectors.
    pub l2_partial_requests: f64,
    /// Of the sectors written to L2, those that an SM gathers with the next store's,
    /// with which they count as one; 0 where nobody knows.
    pub l2_merged_sectors: f64,
    /// Requests with such sectors.
    pub l2_merged_requests: f64,
    /// Sectors found in L1 that take as long as from L2; 0 where nobody knows.
    pub l1_awaited_sectors: f64,
    /// Share of the requests of loads that wait for L2; `None` where nobody knows.
    pub waiting_share: Option<f64>,
    /// Of the sectors read from L2, those that take as long as from DRAM; where
    /// nobody knows, those that DRAM's bytes are.
    pub l2_awaited_sectors: f64,
    /// Lines read from DRAM; none where nobody knows.
    pub dram_reads: LineAccesses,
    /// Lines written to DRAM, likewise.
    pub dram_writes: LineAccesses,
}

impl Moved {
    /// That of a simulated launch.
    pub fn predicted(estimate: &traffic::Estimate) -> Self {
        Self {
            l2_partial_sectors: estimate.l2_partial_sectors,
            l2_partial_requests: estimate.l2_partial_requests,
            l2_merged_sectors: estimate.l2_merged_sectors,
            l2_merged_requests: estimate.l2_merged_requests,
            l1_awaited_sectors: estimate.l1_awaited_sectors,
            waiting_share: estimate.waiting_share,
            l2_awaited_sectors: estimate.l2_awaited_sectors,
            dram_reads: estimate.dram_reads,
            dram_writes: estimate.dram_writes,
            ..Self::of(&estimate.traffic)
        }
    }

    /// That of a record's traffic. What a record leaves out is taken as none.
    pub fn of(traffic: &Traffic) -> Self {
        let number = |count: Option<u128>| count.unwrap_or(0) as f64;
        Self {
            l2_read_sectors: number(traffic.l2_read_sectors),
            l2_write_sectors: number(traffic.l2_write_sectors),
            l2_atomic_sectors: number(traffic.l2_atomic_sectors),
            dram_read_bytes: number(traffic.dram_read_bytes),
            dram_write_bytes: number(traffic.dram_write_bytes),
            ..Self::default()
        }
    }
}

/// One part of the device, and how long it takes for its share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Component {
    /// Its name in records.
    pub name: &'static str,
    /// Seconds.
    pub seconds: f64,
}

/// How long a launch takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Seconds: a prediction, or with [`Estimate::lower_bound`] what it takes
    /// at least.
    pub seconds: f64,
    /// Whether the profile is from a data sheet: no prediction, only «at
    /// least».
    pub lower_bound: bool,
    /// The terms, the longest first. Those without work are left out.
    pub terms: Vec<Component>,
    /// What is added whatever the work.
    pub overheads: Vec<Component>,
    /// How much shorter it would be were the work spread evenly over all SMs:
    /// part of [`Estimate::seconds`] already.
    pub tail: f64,
    /// How full the SMs are.
    pub occupancy: Occupancy,
}

impl Estimate {
    /// The term that bounds the time: the longest; `overhead` where all terms
    /// together are shorter than what is added to them.
    pub fn bound_by(&self) -> &'static str {
        let added: f64 = self.overheads.iter().map(|overhead| overhead.seconds).sum();
        match self.terms.first() {
            Some(term) if self.seconds - added >= added => term.name,
            Some(term) if self.lower_bound => term.name,
            _ => OVERHEAD,
        }
    }

    /// The term that would bind next, and its share of the one that does.
    pub fn next(&self) -> Option<(&'static str, f64)> {
        let mut terms = self.terms.iter();
        let first = match self.bound_by() {
            OVERHEAD => self.overheads.iter().map(|overhead| overhead.seconds).sum(),
            _ => terms.next()?.seconds,
        };
        let next = terms.next()?;
        (first > 0.0).then(|| (next.name, next.seconds / first))
    }
}

/// The name of what is added whatever the work.
const OVERHEAD: &str = "launch_overhead";

/// Why there is no prediction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Missing {
    /// The profile lacks a number that the launch needs.
    #[error("the profile has no `{0}`, without which the time can't be told")]
    Constant(Constant),
    /// No block fits on an SM.
    #[error("a block takes more of an SM than it has ({0:?}): the launch would fail")]
    Block(crate::Limit),
    /// A lower bound of nothing.
    #[error("the profile has no rate that bounds this launch")]
    Nothing,
}

/// What the terms are made of.
struct Input<'a> {
    work: &'a Workload,
    moved: &'a Moved,
    profile: &'a Profile,
    waves: Waves,
}

impl Input<'_> {
    fn get(&self, constant: Constant) -> Result<f64, Missing> {
        self.profile.get(constant).ok_or(Missing::Constant(constant))
    }

    /// Seconds for `amount` at the rate of a constant of the whole device.
    fn at_rate(&self, amount: f64, rate: Constant) -> Result<f64, Missing> {
        if amount <= 0.0 {
            return Ok(0.0);
        }
        match self.get(rate)? {
            rate if rate > 0.0 => Ok(amount / rate),
            _ => Err(Missing::Constant(rate)),
        }
    }

    /// Seconds that the busiest SM needs for its share of `amount`, at the rate
    /// of a constant of one SM and clock.
    fn at_sm_rate(&self, amount: f64, rate: Constant) -> Result<f64, Missing> {
        if amount <= 0.0 {
            return Ok(0.0);
        }
        let clocks = self.at_rate(amount * self.waves.busiest_share, rate)?;
        self.at_rate(clocks, Constant::SmClock)
    }
}

const LATENCY: &str = "latency";
const DISPATCH: &str = "block_dispatch";

/// Terms of DRAM.
const DRAM: [&str; 2] = ["dram_bytes", "dram_openings"];

/// Terms of L2's slices.
const SLICES: [&str; 3] = ["l2_reads", "l2_writes", "l2_atomics"];

type Term = (&'static str, fn(&Input<'_>) -> Result<f64, Missing>);

const TERMS: [Term; 15] = [
    ("issue", issue::seconds),
    ("l1_requests", l1::requests),
    ("l1_tags", l1::tags),
    ("l1_data", l1::data),
    ("shared_atomics", l1::shared_atomics),
    ("l1_l2_reads", path::reads),
    ("l1_l2_writes", path::writes),
    (SLICES[0], l2::reads),
    (SLICES[1], l2::writes),
    (SLICES[2], l2::atomics),
    (DRAM[0], dram::bytes),
    (DRAM[1], dram::openings),
    (LATENCY, latency::round_trips),
    ("sectors_in_flight", latency::in_flight),
    (DISPATCH, dispatch::seconds),
];

/// Terms that a lower bound leaves out, for they rest on an estimate of what an
/// assembler makes of the kernel.
const ESTIMATED: [&str; 3] = ["issue", "latency", "sectors_in_flight"];

/// How long a launch takes that does this work and moves this much.
///
/// # Errors
/// A measured profile that lacks a number; a block that fits on no SM; a data
/// sheet that bounds nothing.
pub fn estimate(work: &Workload, moved: &Moved, profile: &Profile) -> Result<Estimate, Missing> {
    let lower_bound = profile.kind == Kind::Specification;
    let sms = profile.get(Constant::SmCount).ok_or(Missing::Constant(Constant::SmCount))?;
    let occupancy =
        Occupancy::of(work.shape, profile).ok_or(Missing::Constant(Constant::WarpsPerSm))?;
    if occupancy.blocks_per_sm == 0 {
        return Err(Missing::Block(occupancy.limit));
    }
    let blocks_per_sm = occupancy.blocks_per_sm as f64;
    let waves = Waves::of(work.blocks, sms, blocks_per_sm);
    let input = Input { work, moved, profile, waves };
    let terms = terms(&input, lower_bound)?;
    if lower_bound {
        let seconds = terms.first().ok_or(Missing::Nothing)?.seconds;
        let overheads = Vec::new();
        return Ok(Estimate { seconds, lower_bound, terms, overheads, tail: 0.0, occupancy });
    }
    let overheads = vec![
        Component { name: OVERHEAD, seconds: input.get(Constant::LaunchOverhead)? },
        Component { name: "ramp", seconds: ramp(&input)? },
    ];
    let added: f64 = overheads.iter().map(|overhead| overhead.seconds).sum();
    let busy = combined(&input, &terms)?;
    let even = Input { waves: Waves::even(work.blocks, sms, blocks_per_sm), ..input };
    let tail = (busy - combined(&even, &self::terms(&even, lower_bound)?)?).max(0.0);
    Ok(Estimate { seconds: added + busy, lower_bound, terms, overheads, tail, occupancy })
}

/// The terms that have work, the longest first.
fn terms(input: &Input<'_>, lower_bound: bool) -> Result<Vec<Component>, Missing> {
    let mut terms = Vec::with_capacity(TERMS.len());
    for (name, term) in TERMS {
        if lower_bound && ESTIMATED.contains(&name) {
            continue;
        }
        match term(input) {
            Ok(seconds) if seconds > 0.0 => terms.push(Component { name, seconds }),
            Err(missing) if !lower_bound => return Err(missing),
            Ok(_) | Err(_) => {}
        }
    }
    terms.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    Ok(terms)
}

/// What a kernel takes to get going, less the access to DRAM that is part of the
/// ramp as it is measured: `latency` has it.
fn ramp(input: &Input<'_>) -> Result<f64, Missing> {
    let access = input.at_rate(input.get(Constant::DramLatency)?, Constant::SmClock)?;
    Ok((input.get(Constant::RampTime)? - access).max(0.0))
}

/// The terms together, as the module's text says.
fn combined(input: &Input<'_>, terms: &[Component]) -> Result<f64, Missing> {
    let exponent = input.get(Constant::OverlapExponent)?;
    let of = |names: &[&str]| -> f64 {
        let terms = terms.iter().filter(|term| names.contains(&term.name));
        terms.map(|term| term.seconds).sum()
    };
    let alone = |term: &&Component| {
        !SLICES.contains(&term.name) && ![LATENCY, DISPATCH].contains(&term.name)
    };
    let mut parts: Vec<f64> = terms.iter().filter(alone).map(|term| term.seconds).collect();
    parts.push(of(&SLICES));
    let (waits, busy) = (of(&[LATENCY]), norm(&parts, exponent));
    let on_dram = latency::on_dram(input)?;
    let barriers = input.work.barriers_per_block > 0.0;
    let phases = if barriers { input.get(Constant::PhaseOverlap)? } else { 1.0 };
    let (free, parted) = latency::without_barrier(input)?;
    let together = |queue: f64| -> f64 {
        let apart = waits - free + parted * on_dram * queue;
        let apart = if barriers { norm(&[busy, apart], phases) } else { 0.0 };
        norm(&[busy, waits + on_dram * queue], exponent).max(apart)
    };
    let dram = of(&[DRAM[0]]).max(of(&[DRAM[1]]));
    let waited = if on_dram > 0.0 && dram > 0.0 {
        let by_turns = dram::by_turns(input)?;
        let read = input.get(Constant::DramQueueRead)?;
        let mixed = if by_turns > 0.0 { input.get(Constant::DramQueueMixed)? } else { 0.0 };
        let queue = |seconds: f64| {
            let share = |part: f64| (part / seconds).min(1.0);
            read * share(dram).powf(QUEUE_READ) + mixed * share(by_turns).powf(QUEUE_MIXED)
        };
        loaded(together, queue)
    } else {
        together(0.0)
    };
    Ok(norm(&[of(&[DISPATCH]), waited], input.get(Constant::DispatchOverlap)?))
}

/// Power of the share of the time that DRAM is busy, by which reads queue: read
/// off the times of loads that follow one another, 8 to 64 warps an SM
/// (`loaded-latency:read`), and of short blocks (`turnaround:load-resident`).
pub(crate) const QUEUE_READ: f64 = 2.0;
/// The same of what reading and writing by turns adds (`turnaround:copy-long`, where
/// it takes 0.1 to 0.45 of an idle access more with DRAM busy 20 to 60 % of the time;
/// `loaded-latency:copy-long` the same).
pub(crate) const QUEUE_MIXED: f64 = 1.0;

/// How long it takes, where accesses to DRAM queue. `with` gives the seconds for
/// a queue that makes an access so much longer (0.5 for one and a half times as
/// long); `queue` how much longer it makes them where all takes so many seconds:
/// the longer, the less.
///
/// So the time depends on the queue and the queue on the time. What is looked
/// for is where both agree; bisection finds it.
pub(crate) fn loaded(with: impl Fn(f64) -> f64, queue: impl Fn(f64) -> f64) -> f64 {
    let shortest = with(0.0);
    if shortest <= 0.0 {
        return 0.0;
    }
    let (mut low, mut high) = (shortest, with(queue(shortest)));
    // To the last bit.
    for _ in 0..64 {
        let seconds = f64::midpoint(low, high);
        if with(queue(seconds)) > seconds { low = seconds } else { high = seconds }
    }
    f64::midpoint(low, high)
}

/// The p-norm. The largest is taken out first, so that no power underflows.
pub(crate) fn norm(values: &[f64], exponent: f64) -> f64 {
    let exponent = exponent.max(1.0);
    let largest = values.iter().copied().fold(0.0, f64::max);
    if largest <= 0.0 {
        return 0.0;
    }
    let sum: f64 = values.iter().map(|value| (value / largest).powf(exponent)).sum();
    largest * sum.powf(exponent.recip())
}

#[cfg(test)]
mod tests;
