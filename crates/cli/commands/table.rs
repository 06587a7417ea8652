//! The table of `coalescope sim`: one row an access, the worst of a run first;
//! `#` is an access's number in the program.

use crate::commands::moved::Moved;
use crate::commands::sim::{Device, Prediction};
use advise::Verdict;
use anstyle::{AnsiColor, Style};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use record::units;
use scenario::count::Sampled;
use scenario::program::SiteId;
use scenario::{Run, RunPlan, Scenario};
use simulator::{Field, RuleSet, Space, Totals};
use std::fmt;

/// Below this share of used bytes an access is painted red.
const POOR: f64 = 0.5;
/// Below this one yellow: the threshold that `coalescope check` uses by
/// default.
const FAIR: f64 = 0.8;

/// The rows of one scenario.
pub(crate) struct Report {
    title: String,
    about: Vec<String>,
    /// What is to be said of runs, with the labels of those it is true of.
    notes: Vec<(String, Vec<String>)>,
    runs: usize,
    several_archs: bool,
    rows: Vec<Row>,
    /// What the runs move and how long they take, where that was asked for.
    moved: Option<Moved>,
    /// Each access in the run in which it does worst.
    worst: Vec<Worst>,
    /// What to do about them.
    advice: Vec<String>,
}

/// An access in the run in which it does worst.
struct Worst {
    access: String,
    site: SiteId,
    waste: f64,
    label: String,
    run: Run,
    rules: RuleSet,
}

struct Row {
    run: String,
    arch: String,
    /// Its number in the program, from 1: `explain --access` takes it.
    number: usize,
    access: String,
    op: String,
    space: Space,
    totals: Totals,
    sector_bytes: Option<u32>,
}

impl Report {
    pub(crate) fn new(
        scenario: &Scenario,
        rules: &[(String, RuleSet)],
        device: Option<&Device>,
    ) -> Self {
        let about = rules
            .iter()
            .map(|(arch, rules)| {
                format!("compute capability {arch}: {} ({})", rules.name(), rules.evidence())
            })
            .collect();
        Self {
            title: format!("{} · {}", scenario.name(), scenario.title()),
            about,
            notes: Vec::new(),
            runs: 0,
            several_archs: rules.len() > 1,
            rows: Vec::new(),
            moved: device.map(Moved::new),
            worst: Vec::new(),
            advice: Vec::new(),
        }
    }

    /// Whether no run could be counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds the accesses of a run.
    pub(crate) fn add(&mut self, plan: &RunPlan, prediction: &Prediction) {
        let Prediction { run, counts, rules, arch, .. } = prediction;
        let mut rows: Vec<Row> = run
            .program
            .sites
            .iter()
            .zip(&counts.sites)
            .enumerate()
            .map(|(index, (site, counted))| Row {
                run: plan.label(),
                arch: arch.clone(),
                number: index + 1,
                access: format!("{} (line {})", site.label, run.sources.line(site.span)),
                op: format!("{} {} B", site.op.name(), site.width),
                space: site.op.space,
                totals: counted.totals.clone(),
                sector_bytes: rules.sector_bytes(),
            })
            .collect();
        for (site, row) in rows.iter().enumerate() {
            self.remember(SiteId(site), row, &plan.label(), prediction);
        }
        rows.sort_by(|a, b| b.waste().total_cmp(&a.waste()));
        self.rows.extend(rows);
        let [x, y, z] = run.launch.grid;
        let [bx, by, bz] = run.launch.block;
        let label = plan.label();
        self.runs += 1;
        let how = match counts.because {
            None => "counted in closed form".to_owned(),
            Some(span) => format!(
                "counted warp by warp, because of `{}` in line {}",
                run.sources.text(span).split_whitespace().collect::<Vec<_>>().join(" "),
                run.sources.line(span)
            ),
        };
        self.note(&label, format!("grid {x}×{y}×{z}, block {bx}×{by}×{bz}; {how}"));
        for warning in &prediction.record.warnings {
            self.note(&label, warning.clone());
        }
        if let Some(moved) = &mut self.moved {
            moved.add(label.clone(), &prediction.record);
        }
        for (site, counted) in run.program.sites.iter().zip(&counts.sites) {
            if counted.uncounted.is_none() {
                continue;
            }
            let text = match &counted.sampled {
                Some(sampled) => format!(
                    "wavefronts of {} are estimated from {} of {} warps, {} but for one case in a \
                     thousand; --exact counts all",
                    site.label,
                    sampled.warps,
                    sampled.of,
                    bounds(&counted.totals, sampled)
                ),
                None => format!(
                    "wavefronts of {} need a count warp by warp: ask for it with --exact",
                    site.label
                ),
            };
            self.note(&label, text);
        }
    }

    fn remember(&mut self, site: SiteId, row: &Row, label: &str, prediction: &Prediction) {
        let waste = row.waste();
        let known = self.worst.iter().position(|worst| worst.access == row.access);
        if waste <= 0.0 || known.is_some_and(|at| self.worst[at].waste >= waste) {
            return;
        }
        let worst = Worst {
            access: row.access.clone(),
            site,
            waste,
            label: label.to_owned(),
            run: prediction.run.clone(),
            rules: prediction.rules.clone(),
        };
        match known {
            Some(at) => self.worst[at] = worst,
            None => self.worst.push(worst),
        }
    }

    /// Looks for what to do about the poor accesses, each in the run in which
    /// it does worst.
    pub(crate) fn advise(&mut self) {
        // Less than `explain` looks at: there may be many of them.
        let options = advise::Options { accesses: 1 << 10, ..advise::Options::default() };
        for worst in &self.worst {
            let (run, bases) = (&worst.run, worst.run.assumed_bases());
            // What can't be gone through for advice was counted all the same.
            let Ok(found) =
                advise::advise(run, &worst.rules, &bases, Some(&[worst.site]), &options)
            else {
                continue;
            };
            for advice in found.iter().filter(|advice| advice.verdict == Verdict::Poor) {
                let place = match worst.label.as_str() {
                    "" => worst.access.clone(),
                    label => format!("{}, {label}", worst.access),
                };
                self.advice.push(format!("{place}: {}", advice.sentence()));
            }
        }
    }

    fn note(&mut self, run: &str, note: String) {
        let run = run.to_owned();
        match self.notes.iter_mut().find(|(known, _)| *known == note) {
            Some((_, runs)) if runs.contains(&run) => {}
            Some((_, runs)) => runs.push(run),
            None => self.notes.push((note, vec![run])),
        }
    }
}

impl Row {
    /// Share of the work that better addresses would save, 0..=1.
    fn waste(&self) -> f64 {
        match self.space {
            Space::Shared => {
                let conflicts = self.totals.per_request(Field::BankConflicts).unwrap_or(0.0);
                let wavefronts = self.totals.per_request(Field::DataWavefronts).unwrap_or(0.0);
                if wavefronts > 0.0 { conflicts / wavefronts } else { 0.0 }
            }
            _ => 1.0 - self.totals.unique_efficiency().unwrap_or(1.0),
        }
    }

    /// Sectors a request if the lanes that are on were packed: the profiler's
    /// "ideal". More than that is excess, less is lanes that share addresses.
    fn ideal(&self) -> Option<f64> {
        let sector = f64::from(self.sector_bytes?);
        let bytes = self.totals.per_request(Field::RequestedBytes)?;
        (self.space != Space::Shared).then_some(bytes / sector)
    }

    fn style(&self) -> Style {
        let used = 1.0 - self.waste();
        if used < POOR {
            AnsiColor::Red.on_default()
        } else if used < FAIR {
            AnsiColor::Yellow.on_default()
        } else {
            Style::new()
        }
    }
}

fn number(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn average(value: Option<f64>) -> Cell {
    number(units::or_unknown(value, units::average))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bold = Style::new().bold();
        let dim = AnsiColor::BrightBlack.on_default();
        writeln!(f, "{bold}{}{bold:#}", self.title)?;
        writeln!(f, "{dim}{}{dim:#}", self.about.join("; "))?;
        let runs = self.rows.iter().any(|row| !row.run.is_empty());
        let shared = self.rows.iter().any(|row| row.totals.get(Field::BankConflicts).is_some());
        let transactions =
            self.rows.iter().any(|row| row.totals.get(Field::Transactions).is_some());
        let tag_wavefronts =
            self.rows.iter().any(|row| row.totals.get(Field::TagWavefronts).is_some());
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let mut header = Vec::new();
        if runs {
            header.push(Cell::new("run"));
        }
        if self.several_archs {
            header.push(Cell::new("CC"));
        }
        header.push(number("#".into()));
        header.push(Cell::new("access"));
        header.push(Cell::new("op"));
        header.push(number("requests".into()));
        if transactions {
            header.push(number("trans./req".into()));
        }
        header.push(number("sectors/req".into()));
        header.push(number("ideal".into()));
        header.push(number("lines/req".into()));
        if tag_wavefronts {
            header.push(number("tag waves/req".into()));
        }
        if shared {
            header.push(number("data waves/req".into()));
            header.push(number("conflicts/req".into()));
        }
        header.push(number("used".into()));
        header.push(number("moved".into()));
        table.set_header(header);
        let mut last = (String::new(), String::new());
        for row in &self.rows {
            let mut cells = Vec::new();
            if runs {
                // The label of a run once, so that runs stand out.
                let text = if last.0 == row.run && !last.1.is_empty() { "" } else { &row.run };
                cells.push(Cell::new(text));
            }
            if self.several_archs {
                cells.push(Cell::new(&row.arch));
            }
            last = (row.run.clone(), row.arch.clone());
            let style = row.style();
            let totals = &row.totals;
            cells.push(number(row.number.to_string()));
            cells.push(Cell::new(&row.access));
            cells.push(Cell::new(&row.op));
            cells.push(number(units::or_unknown(totals.get(Field::Requests), units::count)));
            if transactions {
                cells.push(average(totals.per_request(Field::Transactions)));
            }
            cells.push(average(totals.per_request(Field::Sectors)));
            cells.push(average(row.ideal()));
            cells.push(average(totals.per_request(Field::Tags)));
            if tag_wavefronts {
                cells.push(average(totals.per_request(Field::TagWavefronts)));
            }
            if shared {
                cells.push(average(totals.per_request(Field::DataWavefronts)));
                cells.push(average(totals.per_request(Field::BankConflicts)));
            }
            let used = units::or_unknown(totals.unique_efficiency(), units::percent);
            cells.push(number(format!("{style}{used}{style:#}")));
            cells.push(number(units::or_unknown(totals.get(Field::MovedBytes), units::bytes)));
            table.add_row(cells);
        }
        for line in table.lines() {
            writeln!(f, "{}", line.trim_end())?;
        }
        if let Some(moved) = &self.moved {
            write!(f, "{moved}")?;
        }
        for advice in &self.advice {
            writeln!(f, "→ {advice}")?;
        }
        for (note, runs) in &self.notes {
            // What is true of all needs no names.
            let all = runs.len() * self.about.len().max(1) >= self.runs;
            match runs.as_slice() {
                _ if all => writeln!(f, "{dim}{note}{dim:#}")?,
                [run] => writeln!(f, "{dim}{run}: {note}{dim:#}")?,
                [run, rest @ ..] => {
                    writeln!(f, "{dim}{run} (and {} more): {note}{dim:#}", rest.len())?;
                }
                [] => {}
            }
        }
        writeln!(f)
    }
}

/// How far estimated counts may be off: `tag_wavefronts ± 0.2 %`.
fn bounds(totals: &Totals, sampled: &Sampled) -> String {
    let each = sampled.bounds.iter().filter_map(|(field, bound)| {
        let share = *bound as f64 / totals.get(*field).filter(|total| *total > 0)? as f64;
        Some(format!("{} ± {}", field.name(), units::percent(share)))
    });
    each.collect::<Vec<_>>().join(", ")
}
