//! What a picture must say, whatever the access.

use proptest::prelude::*;
use simulator::{LaneMask, Op, RuleSet, WARP_LANES, WarpAccess};

fn access() -> impl Strategy<Value = WarpAccess> {
    let op = prop_oneof![Just(Op::LOAD), Just(Op::STORE), Just(Op::SHARED_LOAD)];
    let addresses = proptest::array::uniform32(0_u64..4096);
    (op, prop_oneof![Just(1_u8), Just(4), Just(16)], any::<u32>(), addresses).prop_map(
        |(op, width, mask, addresses)| {
            let addresses = addresses.map(|address| address / u64::from(width) * u64::from(width));
            WarpAccess { mask: LaneMask(mask), ..WarpAccess::new(op, width, addresses) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_active_lane_and_every_count_is_in_the_text(access in access()) {
        let rules = RuleSet::for_arch("9.0").expect("9.0 is shipped");
        let text = anstream::adapter::strip_str(&coalescope_draw::text(&rules, &access)).to_string();
        let counts = rules.count(&access);
        let lanes = format!("{} of 32 lanes", access.mask.count());
        prop_assert!(text.contains(&lanes));
        if let Some(sectors) = counts.sectors.filter(|&sectors| sectors > 1) {
            let counted = format!("{sectors} sectors");
            prop_assert!(text.contains(&counted), "{}", text);
            prop_assert_eq!(text.matches("B used  lane").count(), sectors as usize);
        }
    }

    #[test]
    fn svg_is_well_formed_for_any_title(access in access(), title in any::<String>(), arch in 0_usize..4) {
        let rules = RuleSet::for_arch(["1.0", "2.0", "7.0", "9.0"][arch]).expect("shipped");
        let picture = coalescope_draw::svg(&rules, &access, &title);
        let document = roxmltree::Document::parse(&picture).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let numbers: Vec<_> = document.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text()).collect();
        for lane in 0..WARP_LANES {
            prop_assert!(numbers.contains(&lane.to_string().as_str()));
        }
    }

    /// Which line is in which tag bank, which wavefront serves which lanes, and
    /// which data banks conflict.
    #[test]
    fn stages_are_drawn(access in access()) {
        let rules = RuleSet::for_arch("9.0").expect("9.0 is shipped");
        let explanation = rules.explain(&access);
        let text = anstream::adapter::strip_str(&coalescope_draw::text(&rules, &access)).to_string();
        let svg = coalescope_draw::svg(&rules, &access, "stages");
        let document = roxmltree::Document::parse(&svg).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let labels: Vec<_> = document.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text()).collect();

        let (tags, data) = (explanation.tag_wavefronts.len(), explanation.data_wavefronts.len());
        let drawn = if tags > 1 { tags } else { 0 } + if data > 1 { data } else { 0 };
        if access.op.space != simulator::Space::Shared {
            prop_assert_eq!(labels.iter().filter(|label| label.starts_with("wavefront ")).count(), drawn);
            prop_assert_eq!(text.matches("\n  wavefront ").count(), drawn);
            for line in &explanation.lines {
                let about = format!("tag bank {}", line.tag_bank.expect("9.0 has tag banks"));
                prop_assert!(text.contains(&about) && labels.iter().any(|label| label.starts_with(&about)));
            }
        }
        if data > 1 {
            let conflicting: std::collections::BTreeSet<u32> = explanation
                .data_groups
                .iter()
                .flat_map(|group| &group.conflicting_banks)
                .map(|conflict| conflict.bank)
                .collect();
            let marked = labels.iter().filter(|label| label.starts_with('×') && !label.contains(':'));
            prop_assert_eq!(marked.count(), conflicting.len());
        }
    }
}
