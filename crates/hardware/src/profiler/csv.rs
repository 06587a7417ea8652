//! The profiler's CSV, as `ncu --csv --page raw --print-units base` prints it.
//!
//! - Lines that begin with `==` are messages; they stand before the header and
//!   may stand anywhere.
//! - The header begins with `"ID"`; the row below it has units, with the first
//!   field empty. Every field is in quotes.
//! - Numbers are written in the locale of the machine: `1,234.5`, `1.234,5`,
//!   `1 234,5`, `1'234.5`.

/// The profiler's output, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Their units; empty where there is none.
    pub units: Vec<String>,
    /// One row a profiled launch.
    pub rows: Vec<Vec<String>>,
    /// The messages, without the leading `==`.
    pub messages: Vec<String>,
}

impl Table {
    /// Index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}

/// Takes the output apart. Lines that are neither messages nor part of the
/// table, such as what the profiled program prints, are left out; so is a row
/// that was cut short.
pub fn parse(text: &str) -> Table {
    let mut table = Table::default();
    let mut separator = ',';
    for line in text.lines() {
        let line = line.trim_end_matches('\r');
        if let Some(message) = line.strip_prefix("==") {
            table.messages.push(message.trim_start_matches('=').to_owned());
            continue;
        }
        let line = line.trim_start_matches('\u{feff}');
        if !line.starts_with('"') {
            continue;
        }
        if let Some(rest) = line.strip_prefix("\"ID\"") {
            // The header, once more where output was joined.
            separator = rest.chars().next().unwrap_or(',');
            table.columns = fields(line, separator).unwrap_or_default();
            table.units.clear();
            continue;
        }
        let Some(fields) = fields(line, separator) else { continue };
        if table.columns.is_empty() || fields.len() != table.columns.len() {
            continue;
        }
        if fields[0].is_empty() {
            table.units = fields;
        } else {
            table.rows.push(fields);
        }
    }
    table
}

/// The fields of a line; `None` where a quote is left open.
fn fields(line: &str, separator: char) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let last = fields.last_mut()?;
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                last.push('"');
            }
            '"' => quoted = !quoted,
            c if c == separator && !quoted => fields.push(String::new()),
            c => last.push(c),
        }
    }
    (!quoted).then_some(fields)
}

/// How the numbers of an output are written, as far as they tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumberFormat {
    /// `.` or `,`; `None` where no number decides.
    decimal: Option<char>,
}

/// Characters that only ever group digits: spaces, apostrophes.
fn groups(character: char) -> bool {
    matches!(character, ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}' | '\'' | '\u{2019}' | '_')
}

impl NumberFormat {
    /// Finds out from all numbers of an output together.
    pub fn detect<'a>(cells: impl IntoIterator<Item = &'a str>) -> Self {
        Self { decimal: cells.into_iter().find_map(decimal_of) }
    }

    /// The number in a cell; `whole` where it is known to be a whole number.
    /// `None` for text such as `n/a`.
    ///
    /// One separator before exactly three digits (`1,234`) is ambiguous where
    /// nothing else of the output decides: it groups in whole numbers; in
    /// others a comma groups and a point is decimal, as in the C and English
    /// locales.
    pub fn read(self, cell: &str, whole: bool) -> Option<f64> {
        let mut text: String = cell.trim().chars().filter(|&c| !groups(c)).collect();
        let decimal = match (self.decimal, whole) {
            (Some(decimal), _) => Some(decimal),
            (None, true) => decimal_of(&text),
            (None, false) => Some('.'),
        };
        if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | ',')) {
            return None;
        }
        text.retain(|c| !(matches!(c, '.' | ',') && Some(c) != decimal));
        text.replace(',', ".").parse().ok().filter(|number: &f64| number.is_finite())
    }
}

/// The decimal separator that a number shows: `None` where it has none or
/// could be read both ways.
fn decimal_of(cell: &str) -> Option<char> {
    let text: String = cell.trim().chars().filter(|&c| !groups(c)).collect();
    let number =
        text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '+' | 'e' | 'E'));
    if !number {
        return None;
    }
    let other = |c| if c == '.' { ',' } else { '.' };
    let last = text.rfind(['.', ','])?;
    let separator = text[last..].chars().next()?;
    if text.contains(other(separator)) {
        return Some(separator);
    }
    if text.matches(separator).count() > 1 {
        return Some(other(separator));
    }
    let before = text[..last].trim_start_matches(['-', '+']);
    let after = text[last + 1..].bytes().take_while(u8::is_ascii_digit).count();
    let grouping = after == 3 && (1..=3).contains(&before.len()) && !before.starts_with('0');
    (!grouping).then_some(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ncu 2025.3 prints it, shortened.
    const ENGLISH: &str = "\
==PROF== Connected to process 4242 (/opt/coalescope)
==PROF== Profiling \"coalescope_r000000\" - 0: 0%....50%....100% - 5 passes
==PROF== Disconnected from process 4242
\"ID\",\"Process ID\",\"Kernel Name\",\"Block Size\",\"gpu__time_duration.sum\",\"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum\"
\"\",\"\",\"\",\"\",\"nsecond\",\"sector\"
\"0\",\"4242\",\"coalescope_r000000\",\"(256, 1, 1)\",\"12,345\",\"1,048,576\"
\"1\",\"4242\",\"say \"\"hello\"\"\",\"(32, 1, 1)\",\"n/a\",\"4\"
";

    #[test]
    fn messages_header_units_and_rows_are_told_apart() {
        let table = parse(ENGLISH);
        assert_eq!(table.messages.len(), 3);
        assert_eq!(table.columns[2], "Kernel Name");
        assert_eq!(table.units[4..], ["nsecond", "sector"]);
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[0][3], "(256, 1, 1)");
        assert_eq!(table.rows[1][2], "say \"hello\"");
        assert_eq!(table.column("gpu__time_duration.sum"), Some(4));
    }

    #[test]
    fn output_of_the_program_and_cut_rows_are_left_out() {
        let text = format!("hello from the program\n{ENGLISH}\"2\",\"4242\",\"coalescope_r0000");
        assert_eq!(parse(&text).rows.len(), 2);
        assert_eq!(parse("").rows.len(), 0);
        assert_eq!(parse("\"1\",\"2\"\n").rows.len(), 0);
    }

    #[test]
    fn a_semicolon_separates_where_the_header_says_so() {
        let table = parse("\"ID\";\"x\"\n\"\";\"\"\n\"0\";\"1,5\"\n");
        assert_eq!(table.rows, [["0", "1,5"]]);
    }

    fn reads(cells: &[(&str, f64)]) {
        let format = NumberFormat::detect(cells.iter().map(|(cell, _)| *cell));
        for (cell, value) in cells {
            assert_eq!(
                format.read(cell, value.fract() == 0.0),
                Some(*value),
                "{cell} in {format:?}"
            );
        }
    }

    #[test]
    fn numbers_are_read_in_any_locale() {
        // English, German, French (narrow space), Swiss, plain C.
        reads(&[("1,234", 1234.0), ("1,234,567", 1_234_567.0), ("12.50", 12.5), ("0.125", 0.125)]);
        reads(&[("1.234", 1234.0), ("1.234.567", 1_234_567.0), ("12,50", 12.5), ("0,125", 0.125)]);
        reads(&[("1\u{202f}234", 1234.0), ("1\u{a0}234\u{a0}567,25", 1_234_567.25)]);
        reads(&[("1'234", 1234.0), ("1\u{2019}234.5", 1234.5)]);
        reads(&[("1234", 1234.0), ("0.000001", 0.000_001), ("1.5e+06", 1_500_000.0)]);
        reads(&[("1.234,5", 1234.5), ("7.125", 7125.0)]);
    }

    #[test]
    fn a_lone_separator_before_three_digits_is_read_by_what_is_counted() {
        let format = NumberFormat::detect(["1,234", "n/a", ""]);
        assert_eq!(format, NumberFormat { decimal: None });
        assert_eq!(format.read("1,234", true), Some(1234.0));
        assert_eq!(format.read("1.234", true), Some(1234.0));
        assert_eq!(format.read("1,234", false), Some(1234.0));
        assert_eq!(format.read("1.234", false), Some(1.234));
    }

    #[test]
    fn what_is_no_number_is_none() {
        for cell in ["n/a", "", "(!) nan", "nan", "inf", "-", "1,2,x", "(256, 1, 1)"] {
            assert_eq!(NumberFormat::default().read(cell, true), None, "{cell}");
        }
    }
}
