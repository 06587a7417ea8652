//! Run records as CSV, for spreadsheets and data frames: one row an access.

use std::io::Write;

use simulator::Field;

use crate::run::{Access, Launch, RunRecord, Source, space_name};

/// Writes runs as CSV with a header; a field that is not known is empty.
///
/// Columns: `scenario, variant, params, source, device, arch, grid, block,
/// cache`, then of the access `label, line, op, space, width, instructions`,
/// its counts under the names of the JSON fields, `exact,
/// requested_efficiency, unique_efficiency`; last, of the run, `seconds`. A run
/// without accesses (a measured one, whose counters are of the whole kernel)
/// is one row with the kernel's totals and an empty label.
///
/// Lengths are in bytes, efficiencies in shares (1 = 100 %), times in seconds;
/// `params` reads `n=1024 stride=2`, `grid` and `block` read `4096x1x1`.
#[derive(Debug)]
pub struct CsvWriter<W: Write> {
    rows: ::csv::Writer<W>,
}

impl<W: Write> CsvWriter<W> {
    /// A writer that has written the header.
    pub fn new(output: W) -> ::csv::Result<Self> {
        let mut rows = ::csv::Writer::from_writer(output);
        let mut header = vec![
            "scenario",
            "variant",
            "params",
            "source",
            "device",
            "arch",
            "grid",
            "block",
            "cache",
            "label",
            "line",
            "op",
            "space",
            "width",
            "instructions",
        ];
        header.extend(Field::ALL.map(Field::name));
        header.extend(["exact", "requested_efficiency", "unique_efficiency", "seconds"]);
        rows.write_record(header)?;
        Ok(Self { rows })
    }

    /// Writes the rows of one run.
    pub fn write(&mut self, run: &RunRecord) -> ::csv::Result<()> {
        for access in &run.accesses {
            self.write_row(run, Some(access))?;
        }
        if run.accesses.is_empty() {
            self.write_row(run, None)?;
        }
        Ok(())
    }

    /// Flushes and gives the output back.
    pub fn finish(self) -> ::csv::Result<W> {
        self.rows.into_inner().map_err(|error| error.into_error().into())
    }

    fn write_row(&mut self, run: &RunRecord, access: Option<&Access>) -> ::csv::Result<()> {
        let params: Vec<String> =
            run.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let source = match run.source {
            Source::Predicted => "predicted",
            Source::Measured => "measured",
        };
        let Launch { grid, block, .. } = &run.launch;
        let counts = access.map(|access| &access.counts);
        let counts = counts.or_else(|| run.totals.as_ref().map(|totals| &totals.counts));
        let efficiency = match access {
            Some(access) => access.efficiency,
            None => run.totals.as_ref().and_then(|totals| totals.efficiency),
        };
        let mut row = vec![
            run.scenario.clone(),
            run.variant.clone().unwrap_or_default(),
            params.join(" "),
            source.to_owned(),
            run.device.clone().unwrap_or_default(),
            run.arch.clone().unwrap_or_default(),
            format!("{}x{}x{}", grid[0], grid[1], grid[2]),
            format!("{}x{}x{}", block[0], block[1], block[2]),
            text(run.cache),
            access.map(|access| access.label.clone()).unwrap_or_default(),
            text(access.and_then(|access| access.line)),
            access.map(|access| access.op.clone()).unwrap_or_default(),
            text(access.map(|access| space_name(access.space))),
            text(access.map(|access| access.width)),
            text(counts.map(|counts| counts.instructions)),
        ];
        row.extend(Field::ALL.map(|field| text(counts.and_then(|counts| counts.get(field)))));
        row.push(text(counts.map(|counts| counts.exact)));
        row.push(text(efficiency.and_then(|efficiency| efficiency.requested)));
        row.push(text(efficiency.and_then(|efficiency| efficiency.unique)));
        row.push(text(run.time.as_ref().and_then(|time| time.seconds)));
        self.rows.write_record(row)
    }
}

/// The text of a value, empty where it is unknown.
fn text<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}
