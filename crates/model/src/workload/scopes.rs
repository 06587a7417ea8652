//! Stretches of an emitted kernel that are skipped or repeated together.

use ptx::syntax::{Instruction, Item, Label};
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of a stretch; 0 is the whole kernel.
pub(super) type Scope = usize;

struct Stretch {
    parent: Scope,
    items: Range<usize>,
    repeats: bool,
}

/// The stretches of a kernel, outer ones before those in them.
pub(super) struct Scopes {
    stretches: Vec<Stretch>,
    /// The innermost stretch of each item.
    innermost: Vec<Scope>,
}

impl Scopes {
    pub(super) fn of(body: &[Item]) -> Self {
        let labels = labels(body);
        let mut found: Vec<(Range<usize>, bool)> = Vec::new();
        for (place, item) in body.iter().enumerate() {
            match target(item, &labels) {
                Some(start) if start <= place => {
                    // The last branch back closes a loop.
                    found.retain(|(items, repeats)| !(*repeats && items.start == start));
                    found.push((start..place + 1, true));
                }
                Some(end) if end > place + 1 => found.push((place + 1..end, false)),
                _ => {}
            }
        }
        found.sort_by_key(|(items, repeats)| (items.start, std::cmp::Reverse(items.end), !repeats));
        let whole = Stretch { parent: 0, items: 0..body.len(), repeats: false };
        let mut scopes = Self { stretches: vec![whole], innermost: vec![0; body.len()] };
        for (items, repeats) in found {
            // A jump out of the stretch around it ends with that stretch.
            let parent = scopes.innermost.get(items.start).copied().unwrap_or(0);
            let end = items.end.min(scopes.stretches[parent].items.end);
            if items.start >= end {
                continue;
            }
            let number = scopes.stretches.len();
            scopes.innermost[items.start..end].fill(number);
            scopes.stretches.push(Stretch { parent, items: items.start..end, repeats });
        }
        scopes
    }

    /// The innermost stretch that an item is in.
    pub(super) fn at(&self, place: usize) -> Scope {
        self.innermost.get(place).copied().unwrap_or(0)
    }

    /// Whether `inner` is `outer` or in it.
    pub(super) fn is_within(&self, mut inner: Scope, outer: Scope) -> bool {
        while inner > outer {
            inner = self.stretches[inner].parent;
        }
        inner == outer
    }

    /// The innermost loop around a stretch: where it begins, and the stretch
    /// that it is in.
    pub(super) fn loop_around(&self, mut scope: Scope) -> Option<(Scope, usize, Scope)> {
        while scope != 0 {
            let stretch = &self.stretches[scope];
            if stretch.repeats {
                return Some((scope, stretch.items.start, stretch.parent));
            }
            scope = stretch.parent;
        }
        None
    }

    /// Items of the stretches that end before an item, inner ones first.
    pub(super) fn ending(&self, place: usize) -> impl Iterator<Item = Range<usize>> {
        let met = self.stretches[1..].iter().rev().filter(move |met| met.items.end == place);
        met.map(|stretch| stretch.items.clone())
    }

    /// Items of the loop that begins at an item.
    pub(super) fn beginning(&self, place: usize) -> Option<Range<usize>> {
        let met = self.stretches[1..].iter().find(|met| met.repeats && met.items.start == place);
        met.map(|stretch| stretch.items.clone())
    }
}

/// Where the labels stand.
pub(super) fn labels(body: &[Item]) -> BTreeMap<u32, usize> {
    let places = body.iter().enumerate();
    places
        .filter_map(|(place, item)| match item {
            Item::Label(Label(number)) => Some((*number, place)),
            _ => None,
        })
        .collect()
}

/// Where a branch goes.
pub(super) fn target(item: &Item, labels: &BTreeMap<u32, usize>) -> Option<usize> {
    match item {
        Item::Instruction { instruction: Instruction::Branch { target }, .. } => {
            labels.get(&target.0).copied()
        }
        _ => None,
    }
}
