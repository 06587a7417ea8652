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
    fn svg_is_well_formed_for_any_title(access in access(), title in any::<String>(), arch in 0..RuleSet::shipped().count()) {
        let rules = RuleSet::shipped().nth(arch).expect("a shipped rule set");
        let picture = coalescope_draw::svg(&rules, &access, &title);
        let document = roxmltree::Document::parse(&picture).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let numbers: Vec<_> = document.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text()).collect();
        for lane in 0..WARP_LANES {
            prop_assert!(numbers.contains(&lane.to_string().as_str()));
        }
    }

    /// As many columns as the rule set has banks, apart from each other, and in
    /// them every word that a bank gives.
    #[test]
    fn every_bank_has_its_column(banks in 0_u32..7, bank_bytes in 0_u32..4, seed in any::<u64>()) {
        let (banks, bank_bytes) = (1 << banks, 1 << bank_bytes);
        let rules = RuleSet::from_toml(&format!(
            "archs = ['wide']\nname = 'Wide'\nevidence = 'hypothesis'\nnote = ''\nwidths = [4]\n\
             request = {{ lanes = 32 }}\ncache = {{ line_bytes = 256, sector_bytes = 64 }}\n\
             [shared]\nbanks = {banks}\nbank_bytes = {bank_bytes}\ngroup = {{ lanes = 32 }}\nwidths = [4]\n"
        ))
        .expect("sound rules");
        let addresses = std::array::from_fn(|lane| seed.rotate_left(2 * lane as u32) % 1024 * 4);
        let access = WarpAccess::new(Op::SHARED_LOAD, 4, addresses);
        let explanation = rules.explain(&access);
        let text = anstream::adapter::strip_str(&coalescope_draw::text(&rules, &access)).to_string();
        // The heads of the rows, then the rows of each wavefront, without their names.
        let rows = (banks as usize).div_ceil(16);
        let from = text.lines().position(|line| line.starts_with("  data bank")).expect("banks");
        prop_assert!(text.lines().skip(from).all(|line| line.chars().count() <= 80), "{}", text);
        let cells: Vec<Vec<String>> = text
            .lines()
            .skip(from)
            .map(|line| line.chars().skip(15).collect::<String>())
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect();
        let expected: Vec<String> = (0..banks).map(|bank| bank.to_string()).collect();
        prop_assert_eq!(cells[..rows].concat(), expected);
        for (index, wavefront) in explanation.data_wavefronts.iter().take(32).enumerate() {
            let drawn = cells[rows * (index + 1)..rows * (index + 2)].concat();
            prop_assert_eq!(drawn.len(), banks as usize, "{}", text);
            for (bank, cell) in drawn.iter().enumerate() {
                let gives = wavefront.words.iter().any(|word| word.bank as usize == bank);
                prop_assert_eq!(gives, cell != "·", "bank {} in\n{}", bank, text);
            }
        }

        let svg = coalescope_draw::svg(&rules, &access, "banks");
        let document = roxmltree::Document::parse(&svg).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let heads: Vec<_> = document
            .descendants()
            .skip_while(|node| node.text() != Some("data bank"))
            .filter(|node| node.has_tag_name("text"))
            .skip(1)
            .map_while(|node| node.text().filter(|text| text.parse::<u32>().is_ok()))
            .map(str::to_owned)
            .collect();
        let expected: Vec<String> = (0..banks).map(|bank| bank.to_string()).collect();
        prop_assert_eq!(heads, expected);
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
