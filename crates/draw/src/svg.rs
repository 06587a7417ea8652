//! The picture as SVG, for a slide or a page.

use crate::layout::{
    bank_count, color_of_lane, counted, headline, lane_list, lanes_in_words, lanes_served,
    line_in_bank, short_address, shortened, waves_in_words, words_used,
};
use crate::palette::paint;
use simulator::explain::{Explanation, WavefrontKind};
use simulator::{RuleSet, Space, WARP_LANES, WarpAccess};
use std::fmt::Write;

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 24.0;
const INNER: f64 = WIDTH - 2.0 * MARGIN;
const LANE_TOP: f64 = 104.0;
const LANE_HEIGHT: f64 = 26.0;
const CELL_HEIGHT: f64 = 40.0;
/// Lines in one row of the picture; with more, arrows would cross other rows.
const LINES_A_ROW: usize = 8;
/// Lines up to which an arrow goes from each lane to its sector.
const LINES_WITH_ARROWS: usize = LINES_A_ROW;

/// The access as a self-contained SVG with `title` above it (markup in it is
/// escaped). Dark and light backgrounds both suit: it brings its own.
pub fn svg(rules: &RuleSet, access: &WarpAccess, title: &str) -> String {
    svg_with_notes(rules, access, title, &[])
}

/// The same for a page that has several: `id` is a name that nothing else on the
/// page starts with.
pub fn inline_svg(rules: &RuleSet, access: &WarpAccess, title: &str, id: &str) -> String {
    picture(rules, access, title, &[], &escape(id))
}

/// The same with sentences below it: why so many, what to change.
pub fn svg_with_notes(
    rules: &RuleSet,
    access: &WarpAccess,
    title: &str,
    notes: &[String],
) -> String {
    picture(rules, access, title, notes, "picture")
}

fn picture(
    rules: &RuleSet,
    access: &WarpAccess,
    title: &str,
    notes: &[String],
    id: &str,
) -> String {
    let explanation = rules.explain(access);
    let mut body = Canvas::default();
    body.text(MARGIN, 36.0, 20.0, "bold", "start", INK, title);
    let data = rules.data();
    let about = format!(
        "{} · compute capability {} ({})",
        headline(access),
        data.archs.join("/"),
        data.evidence
    );
    body.text(MARGIN, 60.0, 14.0, "normal", "start", SOFT, &about);
    let sentence = counted(rules, &explanation, access.op.space);
    body.text(MARGIN, 80.0, 14.0, "normal", "start", INK, &sentence);
    lanes(&mut body, access, &explanation);
    let bottom = match access.op.space {
        Space::Shared => {
            banks(&mut body, rules, access.op.space, &explanation, LANE_TOP + LANE_HEIGHT + 56.0)
        }
        _ => {
            let mut bottom = lines(&mut body, rules, access, &explanation);
            bottom = transactions(&mut body, &explanation, bottom);
            bottom = tag_stage(&mut body, rules, &explanation, bottom);
            if explanation.data_wavefronts.len() > 1 {
                bottom = banks(&mut body, rules, access.op.space, &explanation, bottom + 40.0);
            }
            bottom
        }
    };
    let mut bottom = bottom;
    for note in notes {
        bottom += 8.0;
        for line in wrapped(note, NOTE_LETTERS) {
            bottom += 20.0;
            body.text(MARGIN, bottom, 14.0, "normal", "start", INK, &line);
        }
    }
    let height = bottom + MARGIN;
    let mut description = format!("{about}. {sentence}.");
    for note in notes {
        description.push(' ');
        description.push_str(note);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" role=\"img\" aria-labelledby=\"{id}-title {id}-text\" \
         font-family=\"'Helvetica Neue', Arial, 'Liberation Sans', sans-serif\">\n\
         <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-text\">{}</desc>\n\
         <rect width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n{}</svg>\n",
        escape(title),
        escape(&description),
        body.out
    )
}

const INK: &str = "#1a1a1a";
const SOFT: &str = "#5a5a5a";
const FAINT: &str = "#c8c8c8";
const EMPTY: &str = "#f4f4f4";
const ALARM: &str = "#b00020";

/// Letters of 14 pixels that fit beside each other, about.
const NOTE_LETTERS: usize = 138;

/// A text in lines of at most `most` letters, cut between words.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[derive(Default)]
struct Canvas {
    out: String,
}

impl Canvas {
    fn rect(&mut self, x: f64, y: f64, w: f64, h: f64, fill: &str, stroke: &str) {
        let _ = writeln!(
            self.out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" rx=\"2\" fill=\"{fill}\" stroke=\"{stroke}\"/>"
        );
    }

    #[expect(clippy::too_many_arguments, reason = "one for each attribute of the element")]
    fn text(
        &mut self,
        x: f64,
        y: f64,
        size: f64,
        weight: &str,
        anchor: &str,
        fill: &str,
        text: &str,
    ) {
        let _ = writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" text-anchor=\"{anchor}\" fill=\"{fill}\">{}</text>",
            escape(text)
        );
    }

    fn arrow(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str) {
        let middle = (from.1 + to.1) / 2.0;
        let _ = writeln!(
            self.out,
            "<path d=\"M{:.1},{:.1} C{:.1},{middle:.1} {:.1},{middle:.1} {:.1},{:.1}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"1.6\" stroke-opacity=\"0.75\"/>",
            from.0, from.1, from.0, to.0, to.0, to.1
        );
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML 1.0 has no other control characters, escaped or not.
            c if (c < ' ' && c != '\n' && c != '\t') || c == '\u{fffe}' || c == '\u{ffff}' => {
                out.push('\u{fffd}')
            }
            c => out.push(c),
        }
    }
    out
}

/// Text colour that reads on paint `index`. It is no other text's: a page that
/// turns the picture dark leaves it as it is.
fn ink_on(index: usize) -> &'static str {
    if paint(index).dark { "#ffffff" } else { "#000000" }
}

fn lane_center(lane: usize) -> f64 {
    MARGIN + INNER / WARP_LANES as f64 * (lane as f64 + 0.5)
}

/// The row of lanes, in the colour of the line, transaction or group each goes
/// to.
fn lanes(body: &mut Canvas, access: &WarpAccess, explanation: &Explanation) {
    let pitch = INNER / WARP_LANES as f64;
    for lane in 0..WARP_LANES {
        let x = lane_center(lane) - pitch / 2.0 + 1.5;
        let used = explanation.lanes.iter().find(|used| usize::from(used.lane) == lane);
        match used {
            Some(used) => {
                let index = color_of_lane(explanation, used);
                body.rect(x, LANE_TOP, pitch - 3.0, LANE_HEIGHT, paint(index).hex, INK);
                body.text(
                    lane_center(lane),
                    LANE_TOP + 18.0,
                    13.0,
                    "normal",
                    "middle",
                    ink_on(index),
                    &lane.to_string(),
                );
            }
            None => {
                body.rect(x, LANE_TOP, pitch - 3.0, LANE_HEIGHT, "#ffffff", FAINT);
                body.text(
                    lane_center(lane),
                    LANE_TOP + 18.0,
                    13.0,
                    "normal",
                    "middle",
                    FAINT,
                    &lane.to_string(),
                );
            }
        }
    }
    if access.mask.is_empty() {
        body.text(
            MARGIN,
            LANE_TOP + 50.0,
            14.0,
            "normal",
            "start",
            INK,
            "No lane is on: the instruction sends no request.",
        );
    }
}

/// The lines in order of address, four sectors each, filled as far as their
/// bytes are used. Returns the y below them.
fn lines(
    body: &mut Canvas,
    rules: &RuleSet,
    access: &WarpAccess,
    explanation: &Explanation,
) -> f64 {
    let Some(cache) = rules.data().cache.filter(|_| !explanation.lines.is_empty()) else {
        return LANE_TOP + LANE_HEIGHT + 20.0;
    };
    let mut order: Vec<usize> = (0..explanation.lines.len()).collect();
    order.sort_by_key(|&line| explanation.lines[line].address);
    let arrows = order.len() <= LINES_WITH_ARROWS;
    let columns = order.len().clamp(1, LINES_A_ROW);
    let slot = INNER / columns as f64;
    // A line alone stands in the middle.
    let line_width = (slot - 14.0).min(if columns == 1 { 720.0 } else { 440.0 });
    let sectors_a_line = (cache.line_bytes / cache.sector_bytes).max(1) as usize;
    let cell = line_width / sectors_a_line as f64;
    let top = LANE_TOP + LANE_HEIGHT + if arrows { 110.0 } else { 44.0 };
    let row_height = CELL_HEIGHT + 58.0;
    for (place, &line) in order.iter().enumerate() {
        let used = &explanation.lines[line];
        let (row, column) = (place / columns, place % columns);
        let x = MARGIN + slot * column as f64 + (slot - line_width) / 2.0;
        let y = top + row as f64 * row_height;
        for index in 0..sectors_a_line {
            let address = used.address + (index as u64) * u64::from(cache.sector_bytes);
            let left = x + cell * index as f64;
            body.rect(left, y, cell, CELL_HEIGHT, EMPTY, FAINT);
            let Some(sector) = explanation.sectors.iter().find(|sector| sector.address == address)
            else {
                continue;
            };
            fill(
                body,
                access,
                sector.address,
                u64::from(cache.sector_bytes),
                (left, y, cell),
                paint(line).hex,
                sector.bytes_used,
            );
            body.rect(left, y, cell, CELL_HEIGHT, "none", INK);
            let label = lane_list(sector.lanes);
            let size = if label.len() as f64 * 6.6 < cell - 4.0 { 12.0 } else { 9.0 };
            let label = if label.len() as f64 * size * 0.55 < cell {
                label
            } else {
                format!("{}×", sector.lanes.count())
            };
            body.text(
                left + cell / 2.0,
                y + CELL_HEIGHT + 14.0,
                size,
                "normal",
                "middle",
                SOFT,
                &label,
            );
            if arrows {
                for lane in sector.lanes.lanes() {
                    let within =
                        share_of_sector(access, lane, address, u64::from(cache.sector_bytes));
                    body.arrow(
                        (lane_center(lane), LANE_TOP + LANE_HEIGHT),
                        (left + cell * within, y),
                        paint(line).hex,
                    );
                }
            }
        }
        let mut about = Vec::new();
        if let Some(bank) = used.tag_bank {
            about.push(format!("tag bank {bank}"));
        }
        if !used.tag_wavefronts.is_empty() {
            about.push(waves_in_words(&used.tag_wavefronts));
        }
        let middle = x + line_width / 2.0;
        body.text(
            middle,
            y + CELL_HEIGHT + 30.0,
            11.0,
            "normal",
            "middle",
            INK,
            // In narrow columns only the end of an address, which is what differs.
            &if columns <= 6 {
                format!("line {:#x}", used.address)
            } else {
                short_address(used.address)
            },
        );
        let (separator, size) = if columns > 4 { (" · ", 9.0) } else { (" · ", 11.0) };
        body.text(
            middle,
            y + CELL_HEIGHT + 44.0,
            size,
            "normal",
            "middle",
            SOFT,
            &about.join(separator),
        );
    }
    let rows = order.len().div_ceil(columns);
    let bottom = top + rows as f64 * row_height;
    let legend = format!(
        "Each box is a sector of {} B, filled where its bytes are used; below it the lanes that touch it. A line is {} B.",
        cache.sector_bytes, cache.line_bytes
    );
    body.text(MARGIN, bottom + 10.0, 12.0, "normal", "start", SOFT, &legend);
    bottom + 16.0
}

/// Where in a sector the middle of what a lane takes of it lies, 0..=1.
fn share_of_sector(access: &WarpAccess, lane: usize, sector: u64, bytes: u64) -> f64 {
    if access.op.space == Space::Local {
        return 0.5;
    }
    let address = access.addresses[lane];
    let start = address.saturating_sub(sector);
    let end = address.saturating_add(u64::from(access.width)).saturating_sub(sector).min(bytes);
    (start + end) as f64 / (2 * bytes.max(1)) as f64
}

/// Fills the used words of a sector; of local memory, whose bytes are not at
/// the lanes' own addresses, the used share.
fn fill(
    body: &mut Canvas,
    access: &WarpAccess,
    address: u64,
    bytes: u64,
    (x, y, w): (f64, f64, f64),
    color: &str,
    used: u32,
) {
    if access.op.space == Space::Local {
        body.rect(x, y, w * f64::from(used) / bytes as f64, CELL_HEIGHT, color, "none");
        return;
    }
    let words = words_used(access, address, bytes);
    let word = w / words.len() as f64;
    for (index, &bytes) in words.iter().enumerate() {
        if bytes > 0 {
            let height = CELL_HEIGHT * f64::from(bytes) / 4.0;
            body.rect(
                x + word * index as f64 + 0.5,
                y + CELL_HEIGHT - height,
                word - 1.0,
                height,
                color,
                "none",
            );
        }
    }
}

fn transactions(body: &mut Canvas, explanation: &Explanation, top: f64) -> f64 {
    if explanation.transactions.is_empty() {
        return top;
    }
    let mut y = top + 24.0;
    for (index, used) in explanation.transactions.iter().enumerate() {
        let width = f64::from(used.transaction.bytes) * 2.0;
        body.rect(MARGIN, y, width, 20.0, paint(index).hex, INK);
        let label = format!(
            "{} B at {:#x} · request {} · {}",
            used.transaction.bytes,
            used.transaction.address,
            used.request,
            lanes_in_words(used.lanes)
        );
        body.text(MARGIN + 270.0, y + 15.0, 12.0, "normal", "start", INK, &label);
        y += 25.0;
    }
    body.text(
        MARGIN,
        y + 14.0,
        12.0,
        "normal",
        "start",
        SOFT,
        "Each bar is a memory transaction, as long as it moves bytes.",
    );
    y + 20.0
}

/// Tag banks as columns, tag wavefronts as rows, each with the lanes it serves;
/// nothing where one wavefront does. Returns the y below them.
fn tag_stage(body: &mut Canvas, rules: &RuleSet, explanation: &Explanation, top: f64) -> f64 {
    let Some(tag) = rules.data().tag.as_ref().filter(|_| explanation.tag_wavefronts.len() > 1)
    else {
        return top;
    };
    let top = top + 40.0;
    let banks = tag.banks();
    let left = MARGIN + 92.0;
    let pitch = (INNER * 0.55 / f64::from(banks)).min(96.0);
    let row = if explanation.tag_wavefronts.len() > 16 { 16.0 } else { 22.0 };
    body.text(MARGIN, top, 12.0, "normal", "start", SOFT, "tag bank");
    for bank in 0..banks {
        let middle = left + pitch * (f64::from(bank) + 0.5);
        body.text(middle, top, 11.0, "normal", "middle", SOFT, &bank.to_string());
    }
    let mut y = top + 8.0;
    for (index, wavefront) in explanation.tag_wavefronts.iter().enumerate() {
        let base = y + row * 0.7;
        body.text(MARGIN, base, 11.0, "normal", "start", INK, &format!("wavefront {index}"));
        for bank in 0..banks {
            let x = left + pitch * f64::from(bank);
            let Some(line) = line_in_bank(explanation, wavefront, bank) else {
                body.rect(x + 1.0, y + 1.0, pitch - 2.0, row - 2.0, EMPTY, "none");
                continue;
            };
            body.rect(x + 1.0, y + 1.0, pitch - 2.0, row - 2.0, paint(line).hex, INK);
            if pitch > 56.0 {
                let end = short_address(explanation.lines[line].address);
                body.text(x + pitch / 2.0, base, 11.0, "normal", "middle", ink_on(line), &end);
            }
        }
        let served = shortened(&lanes_in_words(wavefront.lanes), 68);
        let x = left + pitch * f64::from(banks) + 14.0;
        body.text(x, base, 11.0, "normal", "start", INK, &served);
        y += row;
    }
    let legend = "Each row is a tag wavefront: it looks up at most one line of each tag bank, for the lanes beside it.";
    body.text(MARGIN, y + 18.0, 12.0, "normal", "start", SOFT, legend);
    y + 26.0
}

/// Banks as columns, data wavefronts as rows. Returns the y below them.
fn banks(
    body: &mut Canvas,
    rules: &RuleSet,
    space: Space,
    explanation: &Explanation,
    top: f64,
) -> f64 {
    if explanation.data_wavefronts.is_empty() {
        return top;
    }
    let count = bank_count(rules, space);
    let left = MARGIN + 92.0;
    let pitch = (WIDTH - MARGIN - left) / count as f64;
    // Two digits and a plus stand in a bank's column: some 1.7 times as wide as
    // they are high.
    let size = (pitch / 1.8).min(11.0);
    let row = if explanation.data_wavefronts.len() > 16 { 16.0 } else { 22.0 };
    body.text(MARGIN, top, 12.0, "normal", "start", SOFT, "data bank");
    for bank in 0..count {
        body.text(
            left + pitch * (bank as f64 + 0.5),
            top,
            size,
            "normal",
            "middle",
            SOFT,
            &bank.to_string(),
        );
    }
    let mut y = top + 8.0;
    for (index, wavefront) in explanation.data_wavefronts.iter().enumerate() {
        let kind = match wavefront.kind {
            WavefrontKind::Data => "wavefront",
            WavefrontKind::Result => "result",
            WavefrontKind::Extra => "extra",
        };
        body.text(MARGIN, y + row * 0.7, 11.0, "normal", "start", INK, &format!("{kind} {index}"));
        for bank in 0..count {
            let x = left + pitch * bank as f64;
            body.rect(x + 1.0, y + 1.0, pitch - 2.0, row - 2.0, EMPTY, "none");
            let Some(word) = wavefront.words.iter().find(|word| word.bank as usize == bank) else {
                continue;
            };
            let mut served = lanes_served(explanation, wavefront, word);
            let Some(first) = served.next() else { continue };
            let more = if served.next().is_some() { "+" } else { "" };
            let color = color_of_lane(explanation, first);
            body.rect(x + 1.0, y + 1.0, pitch - 2.0, row - 2.0, paint(color).hex, INK);
            body.text(
                x + pitch / 2.0,
                y + row * 0.7,
                size,
                "normal",
                "middle",
                ink_on(color),
                &format!("{}{more}", first.lane),
            );
        }
        y += row;
    }
    // The banks that make a group of lanes take several wavefronts.
    let mut conflicts = false;
    for bank in 0..count {
        let of_bank = explanation.data_groups.iter().flat_map(|group| &group.conflicting_banks);
        let words = of_bank
            .filter(|conflict| conflict.bank as usize == bank)
            .map(|conflict| conflict.words.len())
            .max();
        if let Some(words) = words {
            conflicts = true;
            let middle = left + pitch * (bank as f64 + 0.5);
            body.text(middle, y + 12.0, size, "bold", "middle", ALARM, &format!("×{words}"));
        }
    }
    if conflicts {
        body.text(MARGIN, y + 12.0, 11.0, "bold", "start", ALARM, "bank conflict");
        y += 16.0;
    }
    let mut legend = "Each row is a data wavefront; a filled cell is the word a bank gives, with the first lane served (+ for more).".to_owned();
    let has = |kind| explanation.data_wavefronts.iter().any(|wavefront| wavefront.kind == kind);
    if has(WavefrontKind::Result) {
        legend.push_str(" result: of an atomic.");
    }
    if has(WavefrontKind::Extra) {
        legend.push_str(" extra: counted, not explained.");
    }
    body.text(MARGIN, y + 18.0, 12.0, "normal", "start", SOFT, &legend);
    if conflicts {
        let legend = "×n: lanes that pass together need n words of this bank, one after the other.";
        body.text(MARGIN, y + 34.0, 12.0, "normal", "start", SOFT, legend);
        y += 16.0;
    }
    y + 26.0
}
