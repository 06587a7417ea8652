//! The picture for a terminal, at most 80 columns wide.

use crate::layout::{
    bank_count, color_of_lane, counted, headline, lane_list, lanes_in_words, lanes_served,
    line_in_bank, short_address, shortened, words_used,
};
use crate::palette::paint;
use anstyle::{Ansi256Color, AnsiColor, Color, Style};
use simulator::explain::{Explanation, WavefrontKind};
use simulator::{RuleSet, Space, WARP_LANES, WarpAccess};
use std::fmt::Write;

/// Columns of the terminal that the picture keeps to.
const WIDTH: usize = 80;
/// Lanes side by side in one row of the lane table.
const LANES_A_ROW: usize = 16;
/// Banks side by side in one row of the bank table.
const BANKS_A_ROW: usize = 16;
/// Data wavefronts drawn before the rest is summed up in one line.
const DATA_WAVEFRONTS: usize = 32;
/// Groups of lanes listed with their data wavefronts.
const GROUPS: usize = 8;

/// The access as text with ANSI styles: lanes with their sectors, sectors with
/// their used words, banks and wavefronts.
pub fn text(rules: &RuleSet, access: &WarpAccess) -> String {
    let explanation = rules.explain(access);
    let mut out = String::new();
    let bold = Style::new().bold();
    let data = rules.data();
    let _ = writeln!(
        out,
        "{bold}{}{bold:#}   CC {} {} ({})",
        headline(access),
        data.archs.join("/"),
        data.name,
        data.evidence
    );
    let _ = writeln!(out, "{}", counted(rules, &explanation, access.op.space));
    if access.mask.is_empty() {
        out.push_str("\nNo lane is on: the instruction sends no request.\n");
        return out;
    }
    match access.op.space {
        Space::Shared => banks(&mut out, rules, access.op.space, &explanation),
        _ => {
            lanes(&mut out, access, &explanation);
            sectors(&mut out, rules, access, &explanation);
            transactions(&mut out, &explanation);
            tag_stage(&mut out, rules, &explanation);
            if explanation.data_wavefronts.len() > 1 {
                banks(&mut out, rules, access.op.space, &explanation);
            }
        }
    }
    out
}

fn dim() -> Style {
    Style::new().fg_color(Some(AnsiColor::BrightBlack.into()))
}

fn painted(index: usize) -> Style {
    let paint = paint(index);
    let ink = if paint.dark { AnsiColor::BrightWhite } else { AnsiColor::Black };
    Style::new().bg_color(Some(Color::Ansi256(Ansi256Color(paint.ansi)))).fg_color(Some(ink.into()))
}

/// The lanes in rows of 16, each with the number of its sector, in the colour
/// of its line.
fn lanes(out: &mut String, access: &WarpAccess, explanation: &Explanation) {
    if explanation.sectors.is_empty() {
        return;
    }
    let dim = dim();
    for row in (0..WARP_LANES).step_by(LANES_A_ROW) {
        let _ = write!(out, "\n  {dim}lane   {dim:#}");
        for lane in row..row + LANES_A_ROW {
            let _ = write!(out, "{dim}{lane:>4}{dim:#}");
        }
        out.push_str("\n  sector ");
        for lane in row..row + LANES_A_ROW {
            match explanation.lanes.iter().find(|used| usize::from(used.lane) == lane) {
                Some(used) if access.mask.contains(lane) => {
                    let style = painted(used.lines.first().copied().unwrap_or(0));
                    let sector = used.sectors.first().map_or(String::new(), usize::to_string);
                    let more = if used.sectors.len() > 1 { "+" } else { "" };
                    let _ = write!(out, " {style}{:>3}{style:#}", format!("{sector}{more}"));
                }
                _ => {
                    let _ = write!(out, " {dim}  ·{dim:#}");
                }
            }
        }
        out.push('\n');
    }
}

/// Each line with its touched sectors, in order of address.
fn sectors(out: &mut String, rules: &RuleSet, access: &WarpAccess, explanation: &Explanation) {
    let Some(cache) = rules.data().cache else { return };
    let dim = dim();
    let mut lines: Vec<usize> = (0..explanation.lines.len()).collect();
    lines.sort_by_key(|&line| explanation.lines[line].address);
    out.push('\n');
    for line in lines {
        let used = &explanation.lines[line];
        let style = painted(line);
        let _ = write!(out, "  {style} line {:#014x} {style:#}", used.address);
        if let Some(bank) = used.tag_bank {
            let _ = write!(out, "  tag bank {bank}");
        }
        if !used.tag_wavefronts.is_empty() {
            let waves: Vec<String> = used.tag_wavefronts.iter().map(usize::to_string).collect();
            let _ = write!(out, ", tag wavefront {}", waves.join(" "));
        }
        out.push('\n');
        let mut touched: Vec<usize> = (0..explanation.sectors.len())
            .filter(|&sector| explanation.sectors[sector].line == line)
            .collect();
        touched.sort_by_key(|&sector| explanation.sectors[sector].address);
        for sector in touched {
            let used = &explanation.sectors[sector];
            let bar: String = if access.op.space == Space::Local {
                String::new()
            } else {
                words_used(access, used.address, u64::from(cache.sector_bytes))
                    .into_iter()
                    .map(|bytes| match bytes {
                        0 => '·',
                        4 => '█',
                        _ => '▒',
                    })
                    .collect()
            };
            let _ = writeln!(
                out,
                "    sector {sector:>2}  +{:<4}{bar}  {:>2} of {} B used  {dim}{}{dim:#}",
                used.address - explanation.lines[line].address,
                used.bytes_used,
                cache.sector_bytes,
                lanes_in_words(used.lanes),
            );
        }
    }
    let _ = writeln!(
        out,
        "  {dim}each block of a sector is a word of 4 B: █ used, ▒ used in part, · not used{dim:#}"
    );
}

fn transactions(out: &mut String, explanation: &Explanation) {
    if explanation.transactions.is_empty() {
        return;
    }
    let dim = dim();
    out.push('\n');
    for (index, used) in explanation.transactions.iter().enumerate() {
        let style = painted(index);
        let _ = writeln!(
            out,
            "  {style} {:>3} B at {:#014x} {style:#}  request {}  {dim}{}{dim:#}",
            used.transaction.bytes,
            used.transaction.address,
            used.request,
            lanes_in_words(used.lanes),
        );
    }
}

/// One row a tag wavefront, one column a tag bank, with the end of the address
/// of the line that is looked up, in its colour; then the lanes it serves.
fn tag_stage(out: &mut String, rules: &RuleSet, explanation: &Explanation) {
    let Some(tag) = rules.data().tag.as_ref().filter(|_| explanation.tag_wavefronts.len() > 1)
    else {
        return;
    };
    let dim = dim();
    let banks = tag.banks();
    let _ = write!(out, "\n  {dim}tag bank     ");
    for bank in 0..banks {
        let _ = write!(out, "{bank:<9}");
    }
    let _ = writeln!(out, "{dim:#}");
    for (index, wavefront) in explanation.tag_wavefronts.iter().enumerate() {
        let _ = write!(out, "  wavefront {index:<3}");
        for bank in 0..banks {
            match line_in_bank(explanation, wavefront, bank) {
                Some(line) => {
                    let style = painted(line);
                    let end = short_address(explanation.lines[line].address);
                    let _ = write!(out, "{style}{end:^8}{style:#} ");
                }
                None => {
                    let _ = write!(out, "{dim}{:^8}{dim:#} ", "·");
                }
            }
        }
        let left = (WIDTH - 14).saturating_sub(9 * banks as usize).max(12);
        let served = shortened(&lanes_in_words(wavefront.lanes), left);
        let _ = writeln!(out, " {dim}{served}{dim:#}");
    }
    let _ = writeln!(
        out,
        "  {dim}one row a tag wavefront: it looks up at most one line of each tag bank{dim:#}"
    );
}

/// A row of banks for each data wavefront, with the lane that is served; as many
/// rows as the banks need.
fn banks(out: &mut String, rules: &RuleSet, space: Space, explanation: &Explanation) {
    if explanation.data_wavefronts.is_empty() {
        return;
    }
    let count = bank_count(rules, space);
    let rows = || (0..count).step_by(BANKS_A_ROW).map(|row| row..count.min(row + BANKS_A_ROW));
    let dim = dim();
    out.push('\n');
    for (row, banks) in rows().enumerate() {
        let name = if row == 0 { "data bank" } else { "" };
        let _ = write!(out, "  {dim}{name:<13}");
        for bank in banks {
            let _ = write!(out, "{bank:>4}");
        }
        let _ = writeln!(out, "{dim:#}");
    }
    for (index, wavefront) in explanation.data_wavefronts.iter().enumerate() {
        if index == DATA_WAVEFRONTS {
            let rest = explanation.data_wavefronts.len() - DATA_WAVEFRONTS;
            let _ = writeln!(out, "  … and {rest} more");
            break;
        }
        let kind = match wavefront.kind {
            WavefrontKind::Data => "wavefront",
            WavefrontKind::Result => "result",
            WavefrontKind::Extra => "extra",
        };
        for (row, banks) in rows().enumerate() {
            let name = if row == 0 { format!("{kind} {index}") } else { String::new() };
            let _ = write!(out, "  {name:<13}");
            for bank in banks {
                let served = wavefront.words.iter().find(|word| word.bank as usize == bank);
                match served.and_then(|word| lanes_served(explanation, wavefront, word).next()) {
                    Some(lane) => {
                        let style = painted(color_of_lane(explanation, lane));
                        let _ = write!(out, " {style}{:>3}{style:#}", lane.lane);
                    }
                    None => {
                        let _ = write!(out, " {dim}  ·{dim:#}");
                    }
                }
            }
            out.push('\n');
        }
    }
    let each = match rows().count() {
        1 => "one row a data wavefront".to_owned(),
        several => format!("{several} rows a data wavefront"),
    };
    let _ = writeln!(out, "  {dim}{each}; a number is the first lane that its bank serves{dim:#}");
    for (index, group) in explanation.data_groups.iter().enumerate() {
        if index == GROUPS {
            let rest = explanation.data_groups.len() - GROUPS;
            let _ = writeln!(out, "  … and {rest} more groups of lanes");
            break;
        }
        if explanation.data_groups.len() > 1 {
            let plural = if group.wavefronts == 1 { "" } else { "s" };
            let served = shortened(&lanes_in_words(group.lanes), 40);
            let _ = writeln!(out, "  {served}: {} data wavefront{plural}", group.wavefronts);
        }
        for conflict in group.conflicting_banks.iter().take(4) {
            let words: Vec<String> = conflict
                .words
                .iter()
                .take(2)
                .map(|(word, lanes)| {
                    format!("{} ({})", short_address(*word), shortened(&lane_list(*lanes), 12))
                })
                .collect();
            let rest = conflict.words.len().saturating_sub(words.len());
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            let _ = writeln!(
                out,
                "    bank {} has {} words to give: {}{more}",
                conflict.bank,
                conflict.words.len(),
                words.join(", "),
            );
        }
        let rest = group.conflicting_banks.len().saturating_sub(4);
        if rest > 0 {
            let plural = if rest == 1 { "" } else { "s" };
            let _ = writeln!(out, "    … and {rest} more bank{plural} in conflict");
        }
    }
}
