//! Why one warp access has the counts it has, in a sentence, and the smallest
//! change of its addresses that would help, with the counts it would then
//! have.
//!
//! Nothing here is quoted from a table of patterns: the shape of the addresses
//! is read off them, and each change is made and counted by the same rule set.

use simulator::{Counts, RuleSet, Space, WARP_LANES, WarpAccess};

/// How the active lanes' addresses lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// No lane is on.
    Empty,
    /// One lane is on.
    Single,
    /// All lanes have one address.
    Broadcast,
    /// Each lane's address is `stride` bytes after that of the lane before,
    /// counted by lane number; never 0.
    Strided {
        /// Bytes from one lane to the next.
        stride: i64,
    },
    /// The lanes cover a range without holes or doubles, in another order.
    Permuted,
    /// Runs of `run` neighbouring lanes cover ranges without holes; the runs
    /// lie `stride` bytes apart.
    Blocked {
        /// Lanes in a run.
        run: u32,
        /// Bytes from the start of one run to the next.
        stride: i64,
    },
    /// None of these.
    Scattered {
        /// Distinct addresses.
        distinct: u32,
    },
}

impl Shape {
    /// The shape of an access.
    pub fn of(access: &WarpAccess) -> Self {
        let lanes: Vec<(i64, i64)> =
            access.active().map(|(lane, address)| (lane as i64, address as i64)).collect();
        let (Some(&first), Some(&last)) = (lanes.first(), lanes.last()) else {
            return Self::Empty;
        };
        if lanes.len() == 1 {
            return Self::Single;
        }
        if lanes.iter().all(|lane| lane.1 == first.1) {
            return Self::Broadcast;
        }
        let (span, steps) = (last.1.wrapping_sub(first.1), last.0 - first.0);
        if span % steps == 0 {
            let stride = span / steps;
            let fits = |&(lane, address): &(i64, i64)| {
                address == first.1.wrapping_add(stride.wrapping_mul(lane - first.0))
            };
            if stride != 0 && lanes.iter().all(fits) {
                return Self::Strided { stride };
            }
        }
        let width = i64::from(access.width);
        let mut sorted: Vec<i64> = lanes.iter().map(|lane| lane.1).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let dense = sorted.len() == lanes.len()
            && sorted.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == width);
        if dense {
            return Self::Permuted;
        }
        if let Some(blocked) = blocked(access, width) {
            return blocked;
        }
        Self::Scattered { distinct: sorted.len() as u32 }
    }
}

/// Runs of lanes that are a power of two long, of a full warp.
fn blocked(access: &WarpAccess, width: i64) -> Option<Shape> {
    if access.mask.count() as usize != WARP_LANES {
        return None;
    }
    let at = |lane: usize| access.addresses[lane] as i64;
    let run = [16, 8, 4, 2].into_iter().find(|&run| {
        (0..WARP_LANES)
            .filter(|lane| lane % run != 0)
            .all(|lane| at(lane).wrapping_sub(at(lane - 1)) == width)
    })?;
    let stride = at(run).wrapping_sub(at(0));
    (run..WARP_LANES)
        .step_by(run)
        .all(|lane| at(lane).wrapping_sub(at(lane - run)) == stride)
        .then_some(Shape::Blocked { run: run as u32, stride })
}

/// A change of the addresses with what it would bring.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What to do, as an imperative clause: `start 4 B earlier …`.
    pub what: String,
    /// The counts after it.
    pub counts: Counts,
}

/// The reason for an access's counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// The shape of the addresses.
    pub shape: Shape,
    /// Why so many, one sentence.
    pub sentence: String,
    /// The smallest change that lowers the cost; `None` where the access is
    /// already as good as its width and lanes allow.
    pub change: Option<Change>,
}

/// Says why `access` has its counts by `rules`.
///
/// ```
/// use coalescope_advise::why;
/// use simulator::{Op, RuleSet, WarpAccess};
///
/// let rules = RuleSet::for_arch("9.0").unwrap();
/// let shifted = WarpAccess::new(Op::LOAD, 4, std::array::from_fn(|lane| 4 + lane as u64 * 4));
/// let why = why::explain(&rules, &shifted);
/// assert_eq!(why.change.unwrap().counts.sectors, Some(4));
/// ```
pub fn explain(rules: &RuleSet, access: &WarpAccess) -> Why {
    let shape = Shape::of(access);
    let counts = rules.count(access);
    match access.op.space {
        Space::Shared => shared(rules, access, shape, &counts),
        _ => global(rules, access, shape, &counts),
    }
}

/// `1 sector`, `4 sectors`.
fn plural(n: u32, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

/// Cost that a change must lower: sectors where a rule set has them, bytes
/// moved else.
fn cost(counts: &Counts) -> Option<u32> {
    counts.sectors.or(counts.moved_bytes)
}

fn global(rules: &RuleSet, access: &WarpAccess, shape: Shape, counts: &Counts) -> Why {
    let width = u32::from(access.width);
    let lanes = access.mask.count();
    let sector = rules.sector_bytes().unwrap_or(32);
    let many = match (counts.sectors, counts.transactions) {
        (Some(sectors), _) => plural(sectors, "sector"),
        (None, Some(transactions)) => plural(transactions, "transaction"),
        (None, None) => plural(counts.unique_sectors.unwrap_or(0), "sector"),
    };
    let used =
        format!("{} of {} B moved are used", counts.unique_bytes, counts.moved_bytes.unwrap_or(0));
    let sentence = match shape {
        Shape::Empty => "no lane is on, so no request is sent".to_owned(),
        Shape::Single => {
            format!("one lane takes {width} B, and a sector of {sector} B is the least that moves")
        }
        Shape::Broadcast => {
            format!("all {lanes} lanes have one address, so one sector serves them all")
        }
        Shape::Strided { stride } if stride.unsigned_abs() == u64::from(width) => {
            let direction =
                if stride < 0 { ", in descending order, which makes no difference" } else { "" };
            let start = lowest(access) % u64::from(sector);
            let total = lanes * width;
            if start == 0 {
                format!("the lanes cover {total} contiguous bytes{direction}: {many}, {used}")
            } else {
                format!(
                    "the lanes cover {total} contiguous bytes{direction}, but start {start} B into a sector, so they reach into one more: {many}, {used}"
                )
            }
        }
        Shape::Strided { stride } => {
            let stride = stride.unsigned_abs();
            if stride < u64::from(width) {
                format!("neighbouring lanes overlap, {stride} B apart: {many}, {used}")
            } else if stride >= u64::from(sector) {
                format!(
                    "the lanes lie {stride} B apart, so no two share a sector of {sector} B: {many}, {used}"
                )
            } else {
                format!("the lanes lie {stride} B apart and take {width} B each: {many}, {used}")
            }
        }
        Shape::Permuted => {
            format!(
                "the lanes cover one contiguous range in another order, and the order makes no difference: {many}, {used}"
            )
        }
        Shape::Blocked { run, stride } => {
            format!(
                "runs of {run} lanes are contiguous, and the runs lie {stride} B apart: {many}, {used}"
            )
        }
        Shape::Scattered { distinct } => {
            format!(
                "{} without a common stride fall on {many}: {used}",
                plural(distinct, "address").replace("addresss", "addresses")
            )
        }
    };
    let change = global_changes(rules, access, shape)
        .into_iter()
        .map(|(what, changed)| Change { what, counts: rules.count(&changed) })
        .find(|change| matches!((cost(&change.counts), cost(counts)), (Some(after), Some(before)) if after < before));
    Why { shape, sentence, change }
}

fn lowest(access: &WarpAccess) -> u64 {
    access.active().map(|(_, address)| address).min().unwrap_or(0)
}

/// Changes to try, the smallest first.
fn global_changes(rules: &RuleSet, access: &WarpAccess, shape: Shape) -> Vec<(String, WarpAccess)> {
    let sector = rules.sector_bytes().unwrap_or(32);
    let line = u64::from(rules.line_bytes().unwrap_or(128));
    let mut changes = Vec::new();
    let start = lowest(access) % u64::from(sector);
    if start != 0 {
        let mut moved = *access;
        for lane in access.mask.lanes() {
            moved.addresses[lane] = access.addresses[lane].wrapping_sub(start);
        }
        changes.push((format!("start {start} B earlier, on a multiple of {sector} B"), moved));
    }
    if !matches!(shape, Shape::Broadcast | Shape::Single | Shape::Empty) {
        // Each distinct element once, side by side, in the order of address.
        let mut distinct: Vec<u64> = access.active().map(|(_, address)| address).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let base = lowest(access) / line * line;
        let mut packed = *access;
        for lane in access.mask.lanes() {
            let rank = distinct.binary_search(&access.addresses[lane]).unwrap_or(0) as u64;
            packed.addresses[lane] = base.wrapping_add(rank * u64::from(access.width));
        }
        let what = match shape {
            Shape::Strided { stride } if stride.unsigned_abs() > u64::from(access.width) => {
                format!(
                    "put the elements that neighbouring lanes take side by side, {} B apart instead of {}",
                    access.width,
                    stride.unsigned_abs()
                )
            }
            _ => "put the elements that the warp takes side by side".to_owned(),
        };
        changes.push((what, packed));
    }
    changes
}

fn shared(rules: &RuleSet, access: &WarpAccess, shape: Shape, counts: &Counts) -> Why {
    let conflicts = counts.bank_conflicts.unwrap_or(0);
    let wavefronts = plural(counts.data_wavefronts.unwrap_or(0), "data wavefront");
    let explanation = rules.explain(access);
    let worst = explanation
        .data_groups
        .iter()
        .flat_map(|group| &group.conflicting_banks)
        .max_by_key(|conflict| conflict.words.len());
    let sentence = match (shape, worst) {
        (Shape::Empty, _) => "no lane is on, so no request is sent".to_owned(),
        (Shape::Broadcast, _) => {
            "all lanes have one address: a bank gives its word to all of them at once".to_owned()
        }
        (_, None) => format!("no bank is asked for two words at once: {wavefronts}"),
        (Shape::Strided { stride }, Some(conflict)) => format!(
            "the lanes lie {stride} B apart, so bank {} has {} words to give, one a wavefront: {wavefronts}, {}",
            conflict.bank,
            conflict.words.len(),
            plural(conflicts, "bank conflict")
        ),
        (_, Some(conflict)) => format!(
            "bank {} has {} words to give, one a wavefront: {wavefronts}, {}",
            conflict.bank,
            conflict.words.len(),
            plural(conflicts, "bank conflict")
        ),
    };
    let change = (conflicts > 0).then(|| padded(rules, access, shape, conflicts)).flatten();
    Why { shape, sentence, change }
}

/// The smallest padding of rows as long as the stride that frees the banks, if
/// up to 32 elements do.
fn padded(rules: &RuleSet, access: &WarpAccess, shape: Shape, conflicts: u32) -> Option<Change> {
    let Shape::Strided { stride } = shape else { return None };
    let row = stride.unsigned_abs();
    let width = u64::from(access.width);
    (1..=WARP_LANES as u64).find_map(|elements| {
        let pad = elements * width;
        let mut moved = *access;
        for lane in access.mask.lanes() {
            moved.addresses[lane] =
                access.addresses[lane].checked_add(access.addresses[lane] / row * pad)?;
        }
        let counts = rules.count(&moved);
        (counts.bank_conflicts? < conflicts && counts.bank_conflicts == Some(0)).then(|| Change {
            what: format!(
                "pad each row of {row} B by {} of {width} B",
                plural(elements as u32, "element")
            ),
            counts,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulator::{LaneMask, Op};

    fn rules() -> RuleSet {
        RuleSet::for_arch("9.0").expect("9.0 is shipped")
    }

    fn each(op: Op, width: u8, address: impl Fn(u64) -> u64) -> WarpAccess {
        WarpAccess::new(op, width, std::array::from_fn(|lane| address(lane as u64)))
    }

    #[test]
    fn shapes_are_read_off_the_addresses() {
        let shape = |address: &dyn Fn(u64) -> u64| Shape::of(&each(Op::LOAD, 4, address));
        assert_eq!(shape(&|_| 64), Shape::Broadcast);
        assert_eq!(shape(&|lane| 400 - 4 * lane), Shape::Strided { stride: -4 });
        assert_eq!(shape(&|lane| 12 * lane), Shape::Strided { stride: 12 });
        assert_eq!(shape(&|lane| 4 * (lane ^ 1)), Shape::Permuted);
        assert_eq!(
            shape(&|lane| lane / 8 * 1024 + lane % 8 * 4),
            Shape::Blocked { run: 8, stride: 1024 }
        );
        assert_eq!(shape(&|lane| lane * lane * 4), Shape::Scattered { distinct: 32 });
        let mut tail = each(Op::LOAD, 4, |lane| 8 * lane);
        tail.mask = LaneMask(0b1010);
        assert_eq!(Shape::of(&tail), Shape::Strided { stride: 8 });
        tail.mask = LaneMask(1 << 7);
        assert_eq!(Shape::of(&tail), Shape::Single);
        tail.mask = LaneMask::EMPTY;
        assert_eq!(Shape::of(&tail), Shape::Empty);
    }

    #[test]
    fn the_smallest_change_is_counted() {
        let misaligned = explain(&rules(), &each(Op::LOAD, 4, |lane| 4 + 4 * lane));
        let change = misaligned.change.expect("it can be aligned");
        assert_eq!(change.what, "start 4 B earlier, on a multiple of 32 B");
        assert_eq!(change.counts.sectors, Some(4));
        let strided = explain(&rules(), &each(Op::LOAD, 4, |lane| 32 * lane));
        assert_eq!(strided.change.expect("it can be packed").counts.sectors, Some(4));
        assert_eq!(explain(&rules(), &each(Op::LOAD, 4, |lane| 4 * lane)).change, None);
        assert_eq!(explain(&rules(), &each(Op::LOAD, 4, |_| 4)).change, None);
    }

    #[test]
    fn a_conflicting_column_is_padded_by_one_element() {
        let column = explain(&rules(), &each(Op::SHARED_LOAD, 4, |lane| 128 * lane));
        let change = column.change.expect("one float of padding frees it");
        assert_eq!(change.what, "pad each row of 128 B by 1 element of 4 B");
        assert_eq!(change.counts.bank_conflicts, Some(0));
        assert_eq!(explain(&rules(), &each(Op::SHARED_LOAD, 4, |lane| 4 * lane)).change, None);
    }
}
