//! The tables of `coalescope compare`.

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use compare::report::{Contents, equal_counts, error_or_noise, summary};
use compare::{
    Judged, Part, Quantity, Summary, Trivial, Verdict, claims as judged_claims, export, figure,
};
use record::units::{UNKNOWN, or_unknown, percent, seconds, signed_percent};
use std::io::Write;

const BOLD: Style = Style::new().bold();
const DIM: Style = AnsiColor::BrightBlack.on_default();

fn table(header: &[&str], left: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(
        header
            .iter()
            .enumerate()
            .map(|(i, name)| if i < left { Cell::new(name) } else { number((*name).to_owned()) }),
    );
    table
}

fn number(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn print<W: Write>(out: &mut W, title: &str, table: &Table) -> Result<()> {
    writeln!(out, "{BOLD}{title}{BOLD:#}")?;
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)?;
    Ok(())
}

/// Every run, then the errors, the worst points and what it comes to.
pub(super) fn comparison<W: Write>(out: &mut W, contents: &Contents<'_>) -> Result<()> {
    let mut runs = table(
        &[
            "run",
            "counters equal",
            "L2",
            "DRAM",
            "predicted",
            "measured",
            "error",
            "noise",
            "bound by",
        ],
        1,
    );
    for (point, label) in contents.points.iter().zip(contents.labels) {
        let time = figure(point, Quantity::Seconds);
        let error = |quantity| number(or_unknown(figure(point, quantity).error, signed_percent));
        let (equal, of) = equal_counts(point);
        let counts = if of == 0 { UNKNOWN.to_owned() } else { format!("{equal} of {of}") };
        runs.add_row([
            Cell::new(label),
            number(counts),
            error(Quantity::L2Sectors),
            error(Quantity::DramBytes),
            number(or_unknown(time.predicted, seconds)),
            number(or_unknown(time.measured, seconds)),
            number(error_or_noise(point)),
            number(or_unknown(time.noise, percent)),
            number(export::bound_by(point).unwrap_or(UNKNOWN).to_owned()),
        ]);
    }
    print(out, &format!("Predicted and measured on {}", contents.device), &runs)?;

    let statistics = contents.statistics;
    let header = ["quantity", "families", "n", "mean", "worst", "within 1 %", "within 10 %"];
    let mut errors = table(&header, 2);
    for row in &statistics.parts {
        let name = row.quantity.name().to_owned();
        errors.add_row(cells(name, row.part.to_string(), &row.errors));
    }
    print(out, "Errors", &errors)?;
    if !statistics.trivial.is_empty() {
        let mut models = table(&header, 2);
        for row in &statistics.trivial {
            let name = row.model.map_or("coalescope", |model| model.name()).to_owned();
            models.add_row(cells(name, row.part.to_string(), &row.errors));
        }
        print(out, "Time, beside trivial models", &models)?;
    }
    for quantity in [Quantity::L2Sectors, Quantity::DramBytes, Quantity::Seconds] {
        let families = families(contents, quantity);
        if families.row_count() > 0 {
            print(out, &format!("Errors by family: {}", quantity.name()), &families)?;
        }
    }
    if !statistics.worst.is_empty() {
        let header = ["run", "quantity", "why", "predicted", "measured", "error"];
        let mut worst = table(&header, 3);
        for point in &statistics.worst {
            let figure = &point.figure;
            let text = |value| number(or_unknown(value, |value| figure.quantity.text(value)));
            worst.add_row([
                Cell::new(&point.point),
                Cell::new(figure.quantity.name()),
                Cell::new(point.reason.as_deref().unwrap_or("not known")),
                text(figure.predicted),
                text(figure.measured),
                number(or_unknown(figure.error, signed_percent)),
            ]);
        }
        print(out, "The worst points", &worst)?;
    }
    writeln!(out, "{DIM}{}{DIM:#}", summary(contents))?;
    Ok(())
}

/// The errors of a quantity by family, those of a time beside trivial models'.
fn families(contents: &Contents<'_>, quantity: Quantity) -> Table {
    let statistics = contents.statistics;
    let trivial = quantity == Quantity::Seconds && !statistics.trivial_families.is_empty();
    let mut header = vec!["family", "families", "n", "mean", "worst"];
    if trivial {
        header.extend(Trivial::ALL.map(Trivial::name));
    }
    let mut table = table(&header, 2);
    for part in Part::ALL {
        let rows = statistics.families.iter();
        for row in rows.filter(|row| row.quantity == quantity && row.part == part) {
            let mut cells = vec![
                Cell::new(row.family.as_deref().unwrap_or_default()),
                Cell::new(part),
                number(row.errors.n.to_string()),
                number(percent(row.errors.mean)),
                number(signed_percent(row.errors.worst)),
            ];
            for model in Trivial::ALL.into_iter().filter(|_| trivial) {
                let same = statistics
                    .trivial_families
                    .iter()
                    .find(|of| of.family == row.family && of.model == Some(model));
                cells.push(number(or_unknown(same.map(|of| of.errors.mean), percent)));
            }
            table.add_row(cells);
        }
    }
    table
}

fn cells(name: String, part: String, errors: &Summary) -> [Cell; 7] {
    [
        Cell::new(name),
        Cell::new(part),
        number(errors.n.to_string()),
        number(percent(errors.mean)),
        number(signed_percent(errors.worst)),
        number(errors.within_1_percent.to_string()),
        number(errors.within_10_percent.to_string()),
    ]
}

/// The claims with what was checked of each.
pub(super) fn claims<W: Write>(out: &mut W, judged: &[Judged]) -> Result<()> {
    for claim in judged {
        let style = match claim.verdict {
            Verdict::Holds => AnsiColor::Green.on_default(),
            Verdict::HoldsInPart => AnsiColor::Yellow.on_default(),
            Verdict::DoesNotHoldHere => AnsiColor::Red.on_default(),
            Verdict::NotJudged => DIM,
        };
        writeln!(out, "{BOLD}{}. {}{BOLD:#}", claim.id, claim.claim)?;
        writeln!(out, "   {style}{}{style:#}", claim.verdict)?;
        if let Some(why) = &claim.not_judged {
            writeln!(out, "   {DIM}{why}{DIM:#}")?;
        }
        let mut rows = table(&["   it says", "holds if", "model", "device"], 1);
        for row in &claim.rows {
            rows.add_row([
                Cell::new(format!("   {}", row.says)),
                number(row.condition.clone()),
                number(judged_claims::cell(row.model.as_ref())),
                number(judged_claims::cell(row.device.as_ref())),
            ]);
        }
        if !claim.rows.is_empty() {
            for line in rows.lines() {
                writeln!(out, "{}", line.trim_end())?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
