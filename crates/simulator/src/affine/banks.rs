//! Where it matters which tag bank is which.
//!
//! An XOR of all addresses by a constant on line bits exchanges tag banks and
//! changes nothing else. That changes no count, but of a store with more tag
//! wavefronts than it gathers: its lines leave in an order of the banks
//! ([`StoreDrain`](crate::rules::StoreDrain)).

use crate::access::{OpKind, Space, WarpAccess};
use crate::counts::Counts;
use crate::rules::RuleSet;
use crate::stages::tag::MAX_TAG_BANKS;

/// Whether `access`, which has these counts, would have others if its lines
/// exchanged banks.
pub(super) fn matter(rules: &RuleSet, access: &WarpAccess, counts: &Counts) -> bool {
    let data = rules.data();
    let (Some(cache), Some(tag), Some(stage)) = (data.cache, &data.tag, data.data) else {
        return false;
    };
    let is_store = access.op.kind == OpKind::Store && access.op.space == Space::Global;
    let gather = stage.gather(access.width.into());
    // One wavefront beyond a gather has none to pass with.
    if !is_store || counts.tag_wavefronts.is_none_or(|wavefronts| wavefronts <= gather + 1) {
        return false;
    }
    // For each exchange of banks a line index that makes it.
    let mut exchanges = [None; MAX_TAG_BANKS];
    exchanges[0] = Some(0u64);
    for bit in 0..u64::BITS - cache.line_bytes.trailing_zeros() {
        let exchange = tag.bank(1 << bit) as usize % MAX_TAG_BANKS;
        if exchanges[exchange].is_none() {
            for known in 0..MAX_TAG_BANKS {
                if let Some(line) = exchanges[known] {
                    exchanges[known ^ exchange].get_or_insert(line ^ 1 << bit);
                }
            }
        }
    }
    exchanges.into_iter().flatten().any(|line| {
        let mut other = *access;
        other.addresses =
            access.addresses.map(|address| address ^ (line * u64::from(cache.line_bytes)));
        rules.count(&other) != *counts
    })
}
