//! Everything in one HTML file: it works from a disk, on a narrow and on a wide
//! screen, light and dark, without a network.

use std::fmt::Write as _;

use record::units::{UNKNOWN, or_unknown, percent, seconds, signed_percent};

use crate::charts::{Chart, escape};
use crate::claims::{Answer, Judged};
use crate::export::bound_by;
use crate::figures::{Quantity, Trivial, figure};
use crate::join::Point;
use crate::split::{Part, Split};
use crate::statistics::{Statistics, Summary, TrivialRow};

/// What a report is made of.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The device's name.
    pub device: &'a str,
    /// The device profile that predicted traffic and time.
    pub profile: Option<&'a str>,
    /// What a reader must know first: other devices, runs left out.
    pub notes: &'a [String],
    /// The points.
    pub points: &'a [Point],
    /// Their names.
    pub labels: &'a [String],
    /// Which families judge the model.
    pub split: &'a Split,
    /// Their errors.
    pub statistics: &'a Statistics,
    /// The claims, judged.
    pub claims: &'a [Judged],
    /// The charts.
    pub charts: &'a [Chart],
}

/// The report.
pub fn html(contents: &Contents<'_>) -> String {
    let device = escape(contents.device);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Predicted and measured: {device}</title>\n<style>\n{}</style>\n</head>\n<body>\n\
         <h1>Predicted and measured: {device}</h1>\n",
        include_str!("report.css")
    );
    let _ = writeln!(page, "<p>{}</p>", escape(&summary(contents)));
    for note in contents.notes {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escape(note));
    }
    page.push_str("<h2>Charts</h2>\n<div class=\"charts\">\n");
    for chart in contents.charts {
        let _ = writeln!(page, "<figure>{}</figure>", chart.svg);
    }
    page.push_str("</div>\n");
    errors(&mut page, contents);
    worst(&mut page, contents.statistics);
    claims(&mut page, contents.claims);
    runs(&mut page, contents);
    page.push_str("</body>\n</html>\n");
    page
}

/// What it comes to, in two sentences.
pub fn summary(contents: &Contents<'_>) -> String {
    let n = contents.points.len();
    let (mut differing, mut compared) = (0, 0);
    for point in contents.points {
        for quantity in Quantity::ALL.into_iter().filter(|quantity| quantity.is_count()) {
            if let Some(error) = figure(point, quantity).error {
                compared += 1;
                differing += usize::from(error != 0.0);
            }
        }
    }
    let mut text = format!(
        "{n} runs, {compared} counters of the L1 stage compared, {differing} of them differ."
    );
    let times = |part| contents.statistics.part(Quantity::Seconds, part);
    let mut any = false;
    for part in [Part::HeldOut, Part::Development, Part::Unlisted] {
        if let Some(errors) = times(part) {
            any = true;
            let _ = write!(
                text,
                " Time, {part} families: {} off on average, {} at worst, n = {}.",
                percent(errors.mean),
                signed_percent(errors.worst),
                errors.n
            );
        }
    }
    match contents.profile {
        Some(profile) if any => {
            let _ = write!(text, " Traffic and time are predicted by the profile {profile}.");
        }
        _ if !any => text.push_str(" Time is not predicted."),
        _ => {}
    }
    text
}

fn errors(page: &mut String, contents: &Contents<'_>) {
    let statistics = contents.statistics;
    page.push_str(
        "<h2>Errors</h2>\n<p class=\"faint\">(predicted − measured) ÷ measured; of traffic ÷ at least \
         1 % of the L2 bytes. Times of kernels over 30 µs. The model was made on the development \
         families; the held-out ones only judge it.</p>\n<div class=\"wide\">\n",
    );
    table(
        page,
        "quantity",
        statistics.parts.iter().map(|row| (row.quantity.name().to_owned(), row.part, &row.errors)),
    );
    page.push_str("</div>\n");
    if !statistics.trivial.is_empty() {
        page.push_str(
            "<h3>Time: what the model is worth</h3>\n<p class=\"faint\">Trivial models on the same \
             points.</p>\n<div class=\"wide\">\n",
        );
        table(
            page,
            "model",
            statistics.trivial.iter().map(|row| {
                let name = row.model.map_or("coalescope", |model| model.name());
                (name.to_owned(), row.part, &row.errors)
            }),
        );
        page.push_str("</div>\n");
    }
    families(page, statistics);
}

/// The quantities that a model of traffic and time is judged by.
const JUDGED: [Quantity; 3] = [Quantity::L2Sectors, Quantity::DramBytes, Quantity::Seconds];

/// Errors by family, those that judge the model apart from those it was made on.
fn families(page: &mut String, statistics: &Statistics) {
    for quantity in JUDGED {
        if !statistics.families.iter().any(|row| row.quantity == quantity) {
            continue;
        }
        let trivial = quantity == Quantity::Seconds && !statistics.trivial_families.is_empty();
        let _ = writeln!(
            page,
            "<h3>By family: {}</h3>\n<div class=\"wide\">\n<table><thead><tr><th>family</th>\
             <th>families</th><th class=\"n\">n</th><th class=\"n\">mean</th><th class=\"n\">worst</th>",
            quantity.name()
        );
        for model in Trivial::ALL.into_iter().filter(|_| trivial) {
            let _ = writeln!(page, "<th class=\"n\">{}, mean</th>", escape(model.name()));
        }
        page.push_str("<th>worst run</th></tr></thead><tbody>\n");
        for part in Part::ALL {
            let rows = statistics.families.iter();
            for row in rows.filter(|row| row.quantity == quantity && row.part == part) {
                let errors = &row.errors;
                let _ = writeln!(
                    page,
                    "<tr><td>{}</td><td>{part}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                     <td class=\"n\">{}</td>",
                    escape(row.family.as_deref().unwrap_or_default()),
                    errors.n,
                    percent(errors.mean),
                    signed_percent(errors.worst),
                );
                for model in Trivial::ALL.into_iter().filter(|_| trivial) {
                    let same =
                        |of: &&TrivialRow| of.family == row.family && of.model == Some(model);
                    let mean = statistics.trivial_families.iter().find(same);
                    let mean = or_unknown(mean.map(|of| of.errors.mean), percent);
                    let _ = writeln!(page, "<td class=\"n faint\">{mean}</td>");
                }
                let _ = writeln!(page, "<td>{}</td></tr>", escape(&errors.worst_point));
            }
        }
        page.push_str("</tbody></table>\n</div>\n");
    }
}

fn table<'a>(
    page: &mut String,
    what: &str,
    rows: impl Iterator<Item = (String, Part, &'a Summary)>,
) {
    let _ = writeln!(
        page,
        "<table><thead><tr><th>{what}</th><th>families</th><th class=\"n\">n</th><th class=\"n\">mean</th>\
         <th class=\"n\">worst</th><th class=\"n\">within 1 %</th><th class=\"n\">within 10 %</th>\
         <th class=\"n\">too high</th><th class=\"n\">too low</th></tr></thead><tbody>"
    );
    for (name, part, errors) in rows {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{part}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\" title=\"{}\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            escape(&name),
            errors.n,
            percent(errors.mean),
            escape(&errors.worst_point),
            signed_percent(errors.worst),
            errors.within_1_percent,
            errors.within_10_percent,
            errors.over,
            errors.under
        );
    }
    page.push_str("</tbody></table>\n");
}

fn worst(page: &mut String, statistics: &Statistics) {
    page.push_str("<h2>The worst points</h2>\n");
    if statistics.worst.is_empty() {
        page.push_str("<p>Nothing that is predicted differs.</p>\n");
        return;
    }
    page.push_str(
        "<div class=\"wide\">\n<table><thead><tr><th>run</th><th>quantity</th><th>families</th>\
         <th class=\"n\">predicted</th><th class=\"n\">measured</th><th class=\"n\">error</th><th>why</th>\
         </tr></thead><tbody>\n",
    );
    for worst in &statistics.worst {
        let figure = &worst.figure;
        let number = |value| or_unknown(value, |value| figure.quantity.text(value));
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td>{}</td></tr>",
            escape(&worst.point),
            figure.quantity.name(),
            worst.part,
            number(figure.predicted),
            number(figure.measured),
            or_unknown(figure.error, signed_percent),
            escape(worst.reason.as_deref().unwrap_or("not known"))
        );
    }
    page.push_str("</tbody></table>\n</div>\n");
}

fn claims(page: &mut String, claims: &[Judged]) {
    page.push_str(
        "<h2>What tutorials claim</h2>\n<p class=\"faint\">Verdicts are evaluated: of the device where \
         it was measured, else of the model.</p>\n",
    );
    for claim in claims {
        let class = claim.verdict.to_string().replace(' ', "-");
        let _ = writeln!(
            page,
            "<h3>{}. {}</h3>\n<p><strong class=\"{class}\">{}</strong></p>",
            claim.id,
            escape(&claim.claim),
            claim.verdict
        );
        if let Some(why) = &claim.not_judged {
            let _ = writeln!(page, "<p class=\"faint\">{}</p>", escape(why));
        }
        if claim.rows.is_empty() {
            continue;
        }
        page.push_str(
            "<div class=\"wide\"><table><thead><tr><th>it says</th><th>holds if</th><th>model</th>\
             <th>device</th></tr></thead><tbody>\n",
        );
        for row in &claim.rows {
            let _ = writeln!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(&row.says),
                escape(&row.condition),
                answer(row.model.as_ref()),
                answer(row.device.as_ref())
            );
        }
        page.push_str("</tbody></table></div>\n");
    }
}

fn answer(answer: Option<&Answer>) -> String {
    answer.map_or_else(
        || UNKNOWN.to_owned(),
        |answer| {
            let word = if answer.holds { "yes" } else { "no" };
            format!("{} <span class=\"{word}\">{word}</span>", escape(&answer.text))
        },
    )
}

fn runs(page: &mut String, contents: &Contents<'_>) {
    page.push_str(
        "<h2>All runs</h2>\n<details><summary>Every run with its time</summary>\n<div class=\"wide\">\n\
         <table><thead><tr><th>run</th><th>families</th><th class=\"n\">counters equal</th>\
         <th class=\"n\">L2</th><th class=\"n\">DRAM</th><th class=\"n\">predicted</th>\
         <th class=\"n\">measured</th><th class=\"n\">error</th><th class=\"n\">noise</th><th>bound by</th>\
         </tr></thead><tbody>\n",
    );
    for (point, label) in contents.points.iter().zip(contents.labels) {
        let time = figure(point, Quantity::Seconds);
        let error = |quantity| or_unknown(figure(point, quantity).error, signed_percent);
        let (equal, of) = equal_counts(point);
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{equal} of {of}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td>{}</td></tr>",
            escape(label),
            contents.split.part(&point.key.scenario),
            error(Quantity::L2Sectors),
            error(Quantity::DramBytes),
            or_unknown(time.predicted, seconds),
            or_unknown(time.measured, seconds),
            error_or_noise(point),
            or_unknown(time.noise, percent),
            escape(bound_by(point).unwrap_or(UNKNOWN))
        );
    }
    page.push_str("</tbody></table>\n</div>\n</details>\n");
}

/// How many of the L1 stage's counters of a point are equal, and of how many.
pub fn equal_counts(point: &Point) -> (usize, usize) {
    let counts = Quantity::ALL.into_iter().filter(|quantity| quantity.is_count());
    let errors: Vec<f64> = counts.filter_map(|quantity| figure(point, quantity).error).collect();
    (errors.iter().filter(|error| **error == 0.0).count(), errors.len())
}

/// The error of a point's time; a difference smaller than the noise of the
/// measurement is called that.
pub fn error_or_noise(point: &Point) -> String {
    let time = figure(point, Quantity::Seconds);
    if time.is_within_noise() {
        return "within noise".to_owned();
    }
    or_unknown(time.error, signed_percent)
}
