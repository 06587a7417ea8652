//! The second table of `coalescope sim`: what moves between the levels of
//! memory, how long it takes and what bounds it, one row a run.

use crate::commands::sim::Device;
use anstyle::{AnsiColor, Style};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use model::Kind;
use record::units::{self, UNKNOWN, or_unknown};
use record::{RunRecord, SampledTraffic, Time, Traffic};
use std::fmt;

/// The runs of a scenario on one device.
pub(crate) struct Moved {
    title: String,
    kind: Kind,
    rows: Vec<Row>,
}

struct Row {
    run: String,
    traffic: Option<Traffic>,
    time: Option<Time>,
}

impl Moved {
    pub(crate) fn new(device: &Device) -> Self {
        let profile = &device.profile;
        let kind = match profile.kind {
            Kind::Measured => "measured",
            Kind::Specification => "specification",
        };
        Self {
            title: format!("on {} (profile {}, {kind})", profile.device, profile.name),
            kind: profile.kind,
            rows: Vec::new(),
        }
    }

    /// Adds a run, unless neither its traffic nor its time is known.
    pub(crate) fn add(&mut self, run: String, record: &RunRecord) {
        if record.traffic.is_some() || record.time.is_some() {
            let (traffic, time) = (record.traffic.clone(), record.time.clone());
            self.rows.push(Row { run, traffic, time });
        }
    }
}

/// A column: its heading, whether it is a number, and what it says of a run.
type Column = (&'static str, bool, fn(&Row) -> String);

fn count(row: &Row, of: fn(&Traffic) -> Option<u128>) -> String {
    or_unknown(row.traffic.as_ref().and_then(of), units::count)
}

fn bytes(row: &Row, of: fn(&Traffic) -> Option<u128>) -> String {
    or_unknown(row.traffic.as_ref().and_then(of), units::bytes)
}

/// How far a reduced simulation may be off, as a share of what it found.
fn deviation(
    row: &Row,
    deviation: fn(&SampledTraffic) -> u64,
    total: fn(&Traffic) -> [Option<u128>; 2],
) -> String {
    let Some(traffic) = &row.traffic else { return UNKNOWN.to_owned() };
    let Some(sampled) = &traffic.sampled else { return units::percent(0.0) };
    let total: u128 = total(traffic).into_iter().flatten().sum();
    match total {
        0 => UNKNOWN.to_owned(),
        total => units::percent(deviation(sampled) as f64 / total as f64),
    }
}

/// `next l2_reads at 80 %`.
fn next(time: &Time) -> String {
    match (&time.next, time.next_share) {
        (Some(next), Some(share)) => format!("{next} at {}", units::percent(share)),
        _ => UNKNOWN.to_owned(),
    }
}

const RUN: Column = ("run", false, |row| row.run.clone());
const TRAFFIC: [Column; 3] = [
    ("L1 hits", true, |row| count(row, |traffic| traffic.l1_hit_sectors)),
    ("L2 read", true, |row| count(row, |traffic| traffic.l2_read_sectors)),
    ("L2 written", true, |row| count(row, |traffic| traffic.l2_write_sectors)),
];
const ATOMICS: Column = ("L2 atomics", true, |row| count(row, |traffic| traffic.l2_atomic_sectors));
const L2_DEVIATION: Column = ("±", true, |row| {
    deviation(
        row,
        |sampled| sampled.l2_sectors_deviation,
        |traffic| [traffic.l2_read_sectors, traffic.l2_write_sectors],
    )
});
const DRAM: [Column; 2] = [
    ("DRAM read", true, |row| bytes(row, |traffic| traffic.dram_read_bytes)),
    ("DRAM written", true, |row| bytes(row, |traffic| traffic.dram_write_bytes)),
];
const DRAM_DEVIATION: Column = ("±", true, |row| {
    deviation(
        row,
        |sampled| sampled.dram_bytes_deviation,
        |traffic| [traffic.dram_read_bytes, traffic.dram_write_bytes],
    )
});
const TIME: [Column; 3] = [
    ("time", true, |row| {
        let Some(time) = &row.time else { return UNKNOWN.to_owned() };
        match time.at_least_seconds {
            Some(least) => format!("≥ {}", units::seconds(least)),
            None => or_unknown(time.seconds, units::seconds),
        }
    }),
    ("bound by", false, |row| {
        let bound_by = row.time.as_ref().and_then(|time| time.bound_by.clone());
        bound_by.unwrap_or_else(|| UNKNOWN.to_owned())
    }),
    ("next", false, |row| row.time.as_ref().map_or_else(|| UNKNOWN.to_owned(), next)),
];
const KNOWN_ERROR: Column = ("known error", true, |row| match &row.time {
    Some(Time { known_error: Some(error), .. }) => units::percent(*error),
    Some(_) => "not known".to_owned(),
    None => UNKNOWN.to_owned(),
});

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let (bold, dim) = (Style::new().bold(), AnsiColor::BrightBlack.on_default());
        let any = |of: fn(&Row) -> bool| self.rows.iter().any(of);
        let sampled =
            any(|row| row.traffic.as_ref().is_some_and(|traffic| traffic.sampled.is_some()));
        let atomics = any(|row| {
            row.traffic.as_ref().is_some_and(|traffic| traffic.l2_atomic_sectors.is_some())
        });
        let predicted = self.kind == Kind::Measured && any(|row| row.time.is_some());
        let mut columns: Vec<Column> = Vec::new();
        columns.extend(any(|row| !row.run.is_empty()).then_some(RUN));
        columns.extend(TRAFFIC);
        columns.extend(atomics.then_some(ATOMICS));
        columns.extend(sampled.then_some(L2_DEVIATION));
        columns.extend(DRAM);
        columns.extend(sampled.then_some(DRAM_DEVIATION));
        columns.extend(TIME);
        columns.extend(predicted.then_some(KNOWN_ERROR));

        let cell = |text: String, is_number: bool| match is_number {
            true => Cell::new(text).set_alignment(CellAlignment::Right),
            false => Cell::new(text),
        };
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(columns.iter().map(|(name, number, _)| cell((*name).to_owned(), *number)));
        for row in &self.rows {
            table.add_row(columns.iter().map(|(_, number, of)| cell(of(row), *number)));
        }
        writeln!(f, "{bold}What moves and how long it takes, {}{bold:#}", self.title)?;
        for line in table.lines() {
            writeln!(f, "{}", line.trim_end())?;
        }
        write!(f, "{dim}L1 and L2 in sectors, caches cold at the start")?;
        if sampled {
            write!(
                f,
                "; simulated on some lines and blocks, ± three standard errors of that, --exact \
                 simulates all"
            )?;
        }
        writeln!(f, "{dim:#}")?;
        if self.kind == Kind::Specification {
            writeln!(
                f,
                "{dim}≥: by the rates of a data sheet it takes at least this long: specification, error \
                 unknown{dim:#}"
            )?;
        } else if predicted {
            writeln!(
                f,
                "{dim}known error: how far predicted times of this scenario's kind lay from measured \
                 ones on average{dim:#}"
            )?;
        }
        Ok(())
    }
}
