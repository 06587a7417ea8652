//! The emitted kernel's straight-line regions, and how often a warp runs each.
//!
//! A region ends where a branch or a label stands, but for a forward branch
//! over a few instructions, which assemblers turn into predicates: these are
//! part of the region around them.
//!
//! How often a region runs is found from what the evaluator counted: the warp
//! instructions of each access site. A loop's trips are those of an access in
//! it; where several tell, the most frequent, for the others may stand under a
//! condition. A loop without an access is taken to run once for each time that
//! it is reached: nothing that was counted tells more. A region without an
//! access runs as often as the loop it is in.

use super::scopes::{labels, target};
use ptx::syntax::{Instruction, Item, Space};
use std::collections::BTreeMap;
use std::ops::Range;

/// Machine instructions, global loads left out, that a branch may skip for the
/// assembler to put them under a predicate instead. Read off what `ptxas` 13.0
/// makes of the guarded copies of a tiled transpose: it does so with 8, and not
/// with 9.
const PREDICATED_INSTRUCTIONS: f64 = 8.0;
/// What stands around a branch for warps that diverge (`BSSY`, `BSYNC`).
const RECONVERGE: f64 = 2.0;

/// Instructions that run one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Region {
    /// Of the kernel's body.
    pub(super) items: Range<usize>,
    /// The innermost loop around it, if there is one.
    within: Option<usize>,
    /// How often a warp of the launch runs it, on average.
    pub(super) times: f64,
}

/// Which branches are none in the machine's code, as what they skip is under a
/// predicate. `instructions` has the machine instructions of each item.
pub(super) fn predicated(body: &[Item], instructions: &[f64]) -> Vec<bool> {
    let labels = labels(body);
    let mut jumps: BTreeMap<usize, usize> = BTreeMap::new();
    for item in body {
        if let Some(to) = target(item, &labels) {
            *jumps.entry(to).or_default() += 1;
        }
    }
    let is_predicated = |(place, item): (usize, &Item)| {
        let end = target(item, &labels).filter(|end| *end > place);
        end.is_some_and(|end| {
            let skipped = place + 1..end;
            // One that skips all the rest is kept: it ends the warp.
            let ends = !body[end..]
                .iter()
                .any(|item| matches!(item, Item::Instruction { tag: Some(_), .. }));
            !ends
                && jumps.get(&end) == Some(&1)
                && without_loads(&body[skipped.clone()], &instructions[skipped.clone()])
                    <= PREDICATED_INSTRUCTIONS
                && is_predicable(&body[skipped])
        })
    };
    body.iter().enumerate().map(is_predicated).collect()
}

fn without_loads(items: &[Item], instructions: &[f64]) -> f64 {
    let is_load = |item: &Item| {
        matches!(
            item,
            Item::Instruction { instruction: Instruction::Load { space: Space::Global, .. }, .. }
        )
    };
    let counted = items.iter().zip(instructions).filter(|(item, _)| !is_load(item));
    counted.map(|(_, each)| each).sum()
}

/// Sets what branches themselves take.
pub(super) fn charge_branches(body: &[Item], predicated: &[bool], instructions: &mut [f64]) {
    let labels = labels(body);
    for (place, item) in body.iter().enumerate() {
        let Item::Instruction { guard, instruction: Instruction::Branch { target: label }, .. } =
            item
        else {
            continue;
        };
        let end = labels.get(&label.0).copied().unwrap_or(place);
        // A loop's test is moved to its end, so the jump back is the test.
        let is_back = |item: &Item| matches!(target(item, &labels), Some(to) if to <= place && guard.is_some());
        let leaves_loop = end > place && end <= body.len() && end > 0 && {
            let before = body[place + 1..end].iter().rev();
            before.take_while(|item| !matches!(item, Item::Label(_))).any(is_back)
        };
        // Warps that end need not meet again.
        let is_end =
            |item: &Item| matches!(item, Item::Instruction { instruction: Instruction::Ret, .. });
        let is_nothing = |item: &Item| matches!(item, Item::Label(_) | Item::Comment(_));
        let returns = end > place
            && (body[place + 1..end].last().is_some_and(is_end)
                || body[end..].iter().find(|item| !is_nothing(item)).is_some_and(is_end));
        instructions[place] = match guard {
            _ if predicated[place] => 0.0,
            None if end <= place => 0.0,
            Some(_) if end > place && !leaves_loop && !returns => 1.0 + RECONVERGE,
            _ => 1.0,
        };
    }
}

/// The regions of `body`. `executed` has the warp instructions of each access
/// site, for one warp on average.
pub(super) fn regions(body: &[Item], predicated: &[bool], executed: &[f64]) -> Vec<Region> {
    let labels = labels(body);
    let loops = loops(body, &labels);
    let mut regions = cut(body, &labels, predicated);
    for region in &mut regions {
        region.within = innermost(&loops, region.items.start);
    }
    let places = places(body, &regions);
    let trips = loop_times(&loops, &regions, &places, executed);
    for region in &mut regions {
        region.times = region.within.map_or(1.0, |index| trips[index]);
    }
    // An access under a condition says how often its region runs, where it
    // stands in that region alone.
    let mut told: Vec<Option<f64>> = vec![None; regions.len()];
    for (site, places) in &places {
        let Some(&executed) = executed.get(*site) else { continue };
        if places.iter().all(|place| *place == places[0]) {
            let each = executed / places.len() as f64;
            let told = &mut told[places[0]];
            *told = Some(told.map_or(each, |known| known.max(each)));
        }
    }
    for (region, told) in regions.iter_mut().zip(told) {
        match told {
            Some(times) => region.times = times,
            // What no site stands for writes the sink, where no warp comes.
            None if body[region.items.clone()].iter().any(is_store) => region.times = 0.0,
            None => {}
        }
    }
    regions
}

fn is_store(item: &Item) -> bool {
    matches!(item, Item::Instruction { instruction: Instruction::Store { .. }, tag: None, .. })
}

/// Loops as ranges of positions, from the label to the last branch back to it;
/// outer ones first.
fn loops(body: &[Item], labels: &BTreeMap<u32, usize>) -> Vec<Range<usize>> {
    let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
    for (place, item) in body.iter().enumerate() {
        if let Some(start) = target(item, labels).filter(|start| *start <= place) {
            ends.insert(start, place + 1);
        }
    }
    let mut loops: Vec<Range<usize>> = ends.into_iter().map(|(start, end)| start..end).collect();
    loops.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    loops
}

fn innermost(loops: &[Range<usize>], place: usize) -> Option<usize> {
    loops.iter().rposition(|range| range.contains(&place))
}

/// Cuts the body at labels and after jumps, but for those that are predicates.
fn cut(body: &[Item], labels: &BTreeMap<u32, usize>, predicated: &[bool]) -> Vec<Region> {
    let mut regions = Vec::new();
    let mut start = 0;
    let mut end_at = |place: usize, start: &mut usize| {
        if place > *start {
            regions.push(Region { items: *start..place, within: None, times: 1.0 });
        }
        *start = place;
    };
    // Labels up to here belong to a predicated stretch.
    let mut predicated_to = 0;
    for (place, item) in body.iter().enumerate() {
        match item {
            Item::Label(_) if place >= predicated_to => end_at(place, &mut start),
            Item::Instruction { instruction: Instruction::Branch { .. }, .. } => {
                match target(item, labels) {
                    Some(end) if predicated[place] => predicated_to = predicated_to.max(end + 1),
                    _ => end_at(place + 1, &mut start),
                }
            }
            Item::Instruction { instruction: Instruction::Ret, .. } => {
                end_at(place + 1, &mut start);
            }
            _ => {}
        }
    }
    end_at(body.len(), &mut start);
    regions
}

/// Whether an assembler can put these under a predicate.
fn is_predicable(items: &[Item]) -> bool {
    !items.iter().any(|item| match item {
        Item::Label(_) => true,
        Item::Instruction { instruction, .. } => matches!(
            instruction,
            Instruction::Branch { .. }
                | Instruction::Ret
                | Instruction::Barrier
                | Instruction::CopyAsyncWaitAll
        ),
        Item::Comment(_) => false,
    })
}

/// The regions that each site's instructions stand in, one for each.
fn places(body: &[Item], regions: &[Region]) -> BTreeMap<usize, Vec<usize>> {
    let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, region) in regions.iter().enumerate() {
        for item in &body[region.items.clone()] {
            if let Item::Instruction { tag: Some(site), .. } = item {
                places.entry(*site).or_default().push(index);
            }
        }
    }
    places
}

/// How often the body of each loop runs, for one warp on average.
fn loop_times(
    loops: &[Range<usize>],
    regions: &[Region],
    places: &BTreeMap<usize, Vec<usize>>,
    executed: &[f64],
) -> Vec<f64> {
    let mut times: Vec<f64> = Vec::with_capacity(loops.len());
    for index in 0..loops.len() {
        let told = places.iter().filter_map(|(site, places)| {
            let here = places.iter().any(|&place| regions[place].within == Some(index));
            let (mut elsewhere, mut unknown) = (0.0, 0_usize);
            for &place in places {
                match regions[place].within {
                    None => elsewhere += 1.0,
                    Some(outer) if outer < index => elsewhere += times[outer],
                    Some(_) => unknown += 1,
                }
            }
            let left = (executed.get(*site)? - elsewhere).max(0.0);
            here.then(|| left / unknown.max(1) as f64)
        });
        let most = told.reduce(f64::max);
        let outer = loops[..index].iter().rposition(|outer| outer.contains(&loops[index].start));
        times.push(most.unwrap_or_else(|| outer.map_or(1.0, |outer| times[outer])));
    }
    times
}
