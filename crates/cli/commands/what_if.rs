//! The table of counterfactuals: one row each, the refused ones with the reason.

use advise::{Counted, Counterfactual, Outcome, SiteAdvice};
use anstyle::{AnsiColor, Style};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use record::units;
use simulator::{Field, Space, Totals};
use std::fmt::Write;

/// What an access costs as it is, and with every change that was tried.
pub(crate) fn table(advice: &SiteAdvice) -> String {
    let fields: &[(&str, Field)] = match advice.space {
        Space::Shared => &[
            ("requests", Field::Requests),
            ("data waves", Field::DataWavefronts),
            ("conflicts", Field::BankConflicts),
        ],
        _ => &[
            ("requests", Field::Requests),
            ("sectors", Field::Sectors),
            ("lines", Field::Tags),
            ("tag waves", Field::TagWavefronts),
            ("data waves", Field::DataWavefronts),
            ("moved", Field::MovedBytes),
        ],
    };
    // Only what the rule set counts.
    let fields: Vec<_> =
        fields.iter().filter(|(_, field)| advice.present.get(*field).is_some()).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec![Cell::new("what if")];
    header.extend(fields.iter().map(|(name, _)| right((*name).to_owned())));
    if advice.space != Space::Shared {
        header.push(right("used".to_owned()));
    }
    header.push(Cell::new(""));
    table.set_header(header);

    let row = |name: String, totals: Option<&Totals>, used: Option<f64>, note: String| {
        let mut cells = vec![Cell::new(name)];
        for (_, field) in &fields {
            let value = totals.and_then(|totals| totals.get(*field));
            let value = value.map(|value| advice.extent.scale(value));
            let text = match (value, field) {
                (None, _) => String::new(),
                (Some(value), Field::MovedBytes) => units::bytes(value),
                (Some(value), _) => units::count(value),
            };
            cells.push(right(text));
        }
        if advice.space != Space::Shared {
            cells.push(right(used.map_or_else(String::new, units::percent)));
        }
        cells.push(Cell::new(note));
        cells
    };
    let now = advice.present.unique_efficiency();
    table.add_row(row("as it is".to_owned(), Some(&advice.present), now, String::new()));
    for (at, counterfactual) in advice.counterfactuals.iter().enumerate() {
        let counted = counted(counterfactual);
        let used = counted.and_then(Counted::efficiency).map(|(_, after)| after);
        let note = match &counterfactual.outcome {
            Outcome::Refused { reason, .. } => format!("no: {reason}"),
            Outcome::Helps(_) if advice.best == Some(at) => "← the smallest that helps most".into(),
            Outcome::Helps(_) => counterfactual.what.clone(),
        };
        let name = counterfactual.kind.name().to_owned();
        table.add_row(row(name, counted.map(|counted| &counted.after), used, note));
    }
    let (bold, dim) = (Style::new().bold(), AnsiColor::BrightBlack.on_default());
    let mut text = String::new();
    for (at, line) in table.lines().enumerate() {
        let line = line.trim_end();
        let written = match at {
            0 => writeln!(text, "{bold}{line}{bold:#}"),
            _ if line.contains(" no: ") => writeln!(text, "{dim}{line}{dim:#}"),
            _ => writeln!(text, "{line}"),
        };
        // Writing to a string cannot fail.
        debug_assert!(written.is_ok());
    }
    let basis = match advice.basis() {
        Some(basis) => format!("Counts of the whole launch, estimated from {basis}."),
        None => "Counts of the whole launch.".to_owned(),
    };
    text.push_str(&basis);
    text
}

fn counted(counterfactual: &Counterfactual) -> Option<&Counted> {
    match &counterfactual.outcome {
        Outcome::Helps(counted) => Some(counted),
        Outcome::Refused { counted, .. } => counted.as_deref(),
    }
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
