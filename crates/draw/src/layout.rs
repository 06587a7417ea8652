//! What both forms of the picture need: lane lists in words, and which bytes
//! of a sector are used.

use simulator::explain::{BankWord, DataWavefront, LaneUse, TagWavefront};
use simulator::{Explanation, LaneMask, RuleSet, Space, WarpAccess};

/// `0–7, 12, 14`: the lanes of a mask, runs of three and more shortened.
pub(crate) fn lane_list(mask: LaneMask) -> String {
    let mut parts: Vec<String> = Vec::new();
    let lanes: Vec<usize> = mask.lanes().collect();
    let mut start = 0;
    while start < lanes.len() {
        let mut end = start;
        while end + 1 < lanes.len() && lanes[end + 1] == lanes[end] + 1 {
            end += 1;
        }
        if end - start >= 2 {
            parts.push(format!("{}–{}", lanes[start], lanes[end]));
        } else {
            parts.extend(lanes[start..=end].iter().map(usize::to_string));
        }
        start = end + 1;
    }
    parts.join(", ")
}

/// `lane 4`, `lanes 0–7`.
pub(crate) fn lanes_in_words(mask: LaneMask) -> String {
    let plural = if mask.count() == 1 { "lane" } else { "lanes" };
    format!("{plural} {}", lane_list(mask))
}

/// A text of at most `most` characters, its end replaced by `…` where it is
/// longer.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The end of an address, which is what differs within one access.
pub(crate) fn short_address(address: u64) -> String {
    if address <= 0xff_ffff {
        format!("{address:#x}")
    } else {
        format!("…{:06x}", address & 0xff_ffff)
    }
}

/// Place of the line of a tag bank that a wavefront looks up.
pub(crate) fn line_in_bank(
    explanation: &Explanation,
    wavefront: &TagWavefront,
    bank: u32,
) -> Option<usize> {
    let of_bank = |line: &usize| explanation.lines.get(*line)?.tag_bank.filter(|b| *b == bank);
    wavefront.lines.iter().copied().find(|line| of_bank(line).is_some())
}

/// Banks through which the data of an access passes: those of shared memory, or
/// of the cache's data stage; 0 where the rule set has none.
pub(crate) fn bank_count(rules: &RuleSet, space: Space) -> usize {
    let data = rules.data();
    let banks = match space {
        Space::Shared => data.shared.as_ref().map(|shared| shared.banks),
        _ => data.data.map(|stage| stage.banks),
    };
    banks.map_or(0, |banks| banks as usize)
}

/// The lanes to which a data wavefront gives a word.
pub(crate) fn lanes_served<'a>(
    explanation: &'a Explanation,
    wavefront: &'a DataWavefront,
    word: &'a BankWord,
) -> impl Iterator<Item = &'a LaneUse> {
    explanation.lanes.iter().filter(move |lane| {
        wavefront.lanes.contains(usize::from(lane.lane)) && lane.words.contains(word)
    })
}

/// Paint of a lane: that of its line, of its transaction, or, in shared memory,
/// of the group in which it passes the banks.
pub(crate) fn color_of_lane(explanation: &Explanation, lane: &LaneUse) -> usize {
    let of_transaction = || {
        let lane = usize::from(lane.lane);
        explanation.transactions.iter().position(|used| used.lanes.contains(lane))
    };
    lane.lines.first().copied().or_else(of_transaction).or(lane.data_group).unwrap_or(0)
}

/// `wavefront 2`, `wavefronts 0–3`.
pub(crate) fn waves_in_words(waves: &[usize]) -> String {
    match waves {
        [wave] => format!("wavefront {wave}"),
        [first, .., last] if last - first + 1 == waves.len() => {
            format!("wavefronts {first}–{last}")
        }
        _ => {
            let waves: Vec<String> = waves.iter().map(usize::to_string).collect();
            format!("wavefronts {}", waves.join(", "))
        }
    }
}

/// Bytes of each 4-byte word of a sector that the active lanes touch, in order
/// of address; each 0..=4.
pub(crate) fn words_used(access: &WarpAccess, sector: u64, sector_bytes: u64) -> Vec<u32> {
    let mut used = vec![[false; 4]; sector_bytes.div_ceil(4) as usize];
    for (_, address) in access.active() {
        for byte in address..address.saturating_add(u64::from(access.width)) {
            if let Some(offset) = byte.checked_sub(sector)
                && let Some(word) = used.get_mut((offset / 4) as usize)
            {
                word[(offset % 4) as usize] = true;
            }
        }
    }
    used.iter().map(|word| word.iter().map(|&byte| u32::from(byte)).sum()).collect()
}

/// What the access is, in a few words: `ld, 4 B a lane, 32 of 32 lanes`.
pub(crate) fn headline(access: &WarpAccess) -> String {
    format!("{}, {} B a lane, {} of 32 lanes", access.op.name(), access.width, access.mask.count())
}

/// The counts in one sentence, with the profiler's words.
pub(crate) fn counted(rules: &RuleSet, explanation: &Explanation, space: Space) -> String {
    let counts = &explanation.counts;
    let plural = |n: u32, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let mut parts = vec![plural(counts.requests, "request")];
    let mut add = |value: Option<u32>, one: &str| {
        if let Some(value) = value {
            parts.push(plural(value, one));
        }
    };
    add(counts.transactions, "transaction");
    add(counts.sectors, "sector");
    add(counts.tags, if space == Space::Shared { "tag" } else { "line" });
    add(counts.tag_wavefronts, "tag wavefront");
    add(counts.data_wavefronts, "data wavefront");
    add(counts.bank_conflicts, "bank conflict");
    let mut sentence = parts.join(", ");
    if let (Some(sectors), Some(different)) = (counts.sectors, counts.unique_sectors)
        && different < sectors
    {
        // What is drawn once is counted more often.
        let counted = format!("{sectors} sectors");
        let both = format!("{counted} ({different} different)");
        sentence = sentence.replacen(&counted, &both, 1);
    }
    if let Some(moved) = counts.moved_bytes {
        sentence.push_str(&format!("; {} B used of {moved} B moved", counts.unique_bytes));
    }
    if let Some(efficiency) = counts.unique_efficiency() {
        let percent = (efficiency * 1000.0).round() / 10.0;
        sentence.push_str(&format!(" ({percent} %)"));
    }
    if !counts.exact {
        sentence.push_str(&format!("; not known to be exact on {}", rules.data().name));
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulator::Op;

    #[test]
    fn lane_lists_shorten_runs() {
        assert_eq!(lane_list(LaneMask(0)), "");
        assert_eq!(lane_list(LaneMask(0b11)), "0, 1");
        assert_eq!(lane_list(LaneMask(0b1011_0111)), "0–2, 4, 5, 7");
        assert_eq!(lane_list(LaneMask::FULL), "0–31");
        assert_eq!(lanes_in_words(LaneMask(1 << 9)), "lane 9");
        assert_eq!(waves_in_words(&[0, 1, 2]), "wavefronts 0–2");
        assert_eq!(waves_in_words(&[0, 2]), "wavefronts 0, 2");
        assert_eq!(waves_in_words(&[4]), "wavefront 4");
    }

    #[test]
    fn words_count_distinct_bytes() {
        let mut access = WarpAccess::new(Op::LOAD, 2, [6; 32]);
        access.addresses[1] = 4;
        access.addresses[2] = 10;
        assert_eq!(words_used(&access, 0, 32), [0, 4, 2, 0, 0, 0, 0, 0]);
        assert_eq!(words_used(&access, 32, 32), [0; 8]);
    }
}
