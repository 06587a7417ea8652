//! The explanation always agrees with the counts.

mod common;

use coalescope_simulator::{AtomicOp, Explanation, OpKind, RuleSet, Space, WarpAccess};
use proptest::prelude::*;

fn agrees(rules: &RuleSet, access: &WarpAccess) -> Result<(), TestCaseError> {
    let explanation: Explanation = rules.explain(access);
    let counts = rules.count(access);
    prop_assert_eq!(explanation.counts, counts);
    let len = |items: usize| items as u32;
    prop_assert_eq!(len(explanation.requests.len()), counts.requests);
    prop_assert_eq!(len(explanation.lanes.len()), access.mask.count());

    if let Some(sectors) = counts.unique_sectors {
        prop_assert_eq!(len(explanation.sectors.len()), sectors);
        let used: u32 = explanation.sectors.iter().map(|sector| sector.bytes_used).sum();
        prop_assert_eq!(used, counts.unique_bytes);
    }
    // Blocks of each group of lanes, summed. The requests of local memory's words
    // have the same lanes, and touch different lines.
    let mut requests: Vec<u32> = explanation.requests.iter().map(|mask| mask.0).collect();
    if access.op.space == Space::Local {
        requests.sort_unstable();
        requests.dedup();
    }
    let per = |masks: &mut dyn Iterator<Item = u32>, blocks: &[u32]| {
        masks
            .map(|mask| len(blocks.iter().filter(|lanes| **lanes & mask != 0).count()))
            .sum::<u32>()
    };
    let lines: Vec<u32> = explanation.lines.iter().map(|line| line.lanes.0).collect();
    let sectors: Vec<u32> = explanation.sectors.iter().map(|sector| sector.lanes.0).collect();
    let rounds = explanation.tag_wavefronts.iter().map(|wavefront| wavefront.lanes.0);
    if let Some(tags) = counts.tags {
        let total = if access.op.is_atomic() {
            per(&mut rounds.clone(), &lines)
        } else {
            per(&mut requests.iter().copied(), &lines)
        };
        // A compare-and-swap may look up more than one tag for a line.
        match access.op.kind {
            OpKind::Atomic(AtomicOp::Cas) => prop_assert!(total <= tags),
            _ => prop_assert_eq!(total, tags),
        }
    }
    if let Some(counted) = counts.sectors {
        let total = if access.op.is_atomic() {
            per(&mut rounds.clone(), &sectors)
        } else {
            per(&mut requests.iter().copied(), &sectors)
        };
        prop_assert_eq!(total, counted);
    }
    // A copy shows some wavefronts that belong to no lane.
    let copies = access.op.kind == OpKind::AsyncCopy && !access.mask.is_empty();
    let copy = rules.data().copy.filter(|_| copies);
    let (extra_tags, extra_data) =
        copy.map_or((0, 0), |copy| (copy.extra_tag_wavefronts, copy.extra_data_wavefronts));
    if let Some(count) = counts.tag_wavefronts {
        prop_assert_eq!(len(explanation.tag_wavefronts.len()) + extra_tags, count);
    }
    if let Some(count) = counts.data_wavefronts {
        prop_assert_eq!(len(explanation.data_wavefronts.len()) + extra_data, count);
    }
    let conflicts: u32 = explanation.data_groups.iter().map(|group| group.conflicts).sum();
    prop_assert_eq!(conflicts, counts.bank_conflicts.unwrap_or(0));
    prop_assert_eq!(len(explanation.transactions.len()), counts.transactions.unwrap_or(0));

    for wavefront in &explanation.tag_wavefronts {
        let mut banks: Vec<_> =
            wavefront.lines.iter().map(|&line| explanation.lines[line].tag_bank).collect();
        banks.sort_unstable();
        banks.dedup();
        prop_assert_eq!(banks.len(), wavefront.lines.len(), "two lines of one tag bank at once");
    }
    for lane in &explanation.lanes {
        let bit = 1u32 << lane.lane;
        for &line in &lane.lines {
            prop_assert!(explanation.lines[line].lanes.0 & bit != 0);
        }
        if access.op.space != Space::Local {
            prop_assert!(lane.sectors.len() <= 1);
        }
        // Every word of the lane is carried by one of its wavefronts.
        for word in &lane.words {
            let carried = lane
                .data_wavefronts
                .iter()
                .any(|&place| explanation.data_wavefronts[place].words.contains(word));
            prop_assert!(carried, "lane {} misses {word:?}", lane.lane);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn explanation_agrees_on_hopper(access in common::any_access_of(&RuleSet::for_arch("9.0").unwrap(), |_, _| true)) {
        agrees(&RuleSet::for_arch("9.0").unwrap(), &access)?;
    }

    #[test]
    fn explanation_agrees_everywhere(
        (rules, access) in prop::sample::select(RuleSet::shipped().collect::<Vec<_>>())
            .prop_flat_map(|rules| {
                let access = common::any_access_of(&rules, |_, _| true);
                (Just(rules), access)
            })
    ) {
        prop_assert_eq!(rules.check(&access), Ok(()));
        agrees(&rules, &access)?;
    }
}
