//! Numbers for people: the one place where base units get prefixes.
//!
//! Inside the project every quantity is in base units (bytes, seconds, bytes a
//! second; a share of 1.0 is 100 %). Only printing adds prefixes, and only here,
//! so that the same figure reads the same in every table:
//!
//! | quantity | prefixes | example |
//! |---|---|---|
//! | sizes in memory ([`bytes`]) | binary (KiB = 1024 B) | `4.00 MiB` |
//! | traffic a second ([`bytes_per_s`]) | decimal (GB = 10⁹ B), as vendors state bandwidth | `4.41 TB/s` |
//! | time ([`seconds`]) | decimal | `12.3 µs` |
//! | counts ([`count`]) | none, digits in groups of three | `1,048,576` |
//! | per-request averages ([`average`]) | none | `8`, `4.13` |
//! | shares ([`percent`]) | – | `12.5 %` |
//!
//! ```
//! use coalescope_record::units;
//! assert_eq!(units::bytes(4 << 20), "4.00 MiB");
//! assert_eq!(units::bytes_per_s(4.41e12), "4.41 TB/s");
//! assert_eq!(units::seconds(12.34e-6), "12.3 µs");
//! assert_eq!(units::count(1_048_576), "1,048,576");
//! assert_eq!(units::percent(0.125), "12.5 %");
//! ```

/// What stands where a number is not known. Never 0.
pub const UNKNOWN: &str = "—";

const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A whole number with a comma between groups of three digits.
pub fn count(n: u128) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size: bytes with binary prefixes. Below 1 KiB the number is exact.
pub fn bytes(n: u128) -> String {
    if n < 1024 {
        return format!("{n} B");
    }
    scaled(n as f64, 1024.0, &BINARY, "B")
}

/// A rate: bytes a second with decimal prefixes.
pub fn bytes_per_s(rate: f64) -> String {
    scaled(rate, 1000.0, &DECIMAL, "B/s")
}

/// A time: seconds with decimal prefixes down to nanoseconds.
pub fn seconds(time: f64) -> String {
    if !time.is_finite() {
        return UNKNOWN.to_owned();
    }
    if time == 0.0 {
        return "0 s".to_owned();
    }
    // Rounded to three digits first, so that 999.9 µs reads 1.00 ms.
    let rounded = three_digits(time.abs());
    let (scale, unit) = match rounded {
        t if t >= 1.0 => (1.0, "s"),
        t if t >= 1e-3 => (1e3, "ms"),
        t if t >= 1e-6 => (1e6, "µs"),
        _ => (1e9, "ns"),
    };
    format!("{} {unit}", significant(time * scale))
}

/// A share of 1.0 as percent: `100 %`, `12.5 %`, `400 %`.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return UNKNOWN.to_owned();
    }
    format!("{} %", trimmed(share * 100.0, 1))
}

/// A relative error with its sign: `+3.2 %`, `−0.4 %`, `±0 %`.
pub fn signed_percent(share: f64) -> String {
    if !share.is_finite() {
        return UNKNOWN.to_owned();
    }
    let magnitude = trimmed((share * 100.0).abs(), 1);
    let sign = match magnitude.as_str() {
        "0" => '±',
        _ if share < 0.0 => '−',
        _ => '+',
    };
    format!("{sign}{magnitude} %")
}

/// An average such as sectors a request: whole numbers bare, others with two
/// decimals.
pub fn average(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// `format` applied to a number that may be unknown; [`UNKNOWN`] where it is.
pub fn or_unknown<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), format)
}

fn scaled(value: f64, base: f64, prefixes: &[&str], unit: &str) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    let mut mantissa = value;
    let mut prefix = 0;
    // What would be printed decides, not the number: 999.9 k reads 1.00 M.
    while printed(mantissa.abs()) >= base && prefix + 1 < prefixes.len() {
        mantissa /= base;
        prefix += 1;
    }
    format!("{} {}{unit}", significant(mantissa), prefixes[prefix])
}

/// `value` rounded to three significant digits.
fn three_digits(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let unit = 10f64.powi(value.abs().log10().floor() as i32 - 2);
    (value / unit).round() * unit
}

/// The value that [`significant`] shows for `value`.
fn printed(value: f64) -> f64 {
    if value >= 100.0 { value.round() } else { three_digits(value) }
}

/// Three significant digits, or all digits of the whole part where it has more.
fn significant(value: f64) -> String {
    let magnitude = three_digits(value.abs());
    match magnitude {
        m if m >= 100.0 => format!("{value:.0}"),
        m if m >= 10.0 => format!("{value:.1}"),
        _ if value == 0.0 => "0".to_owned(),
        _ => format!("{value:.2}"),
    }
}

/// At most `decimals` decimals, without trailing zeros.
fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    };
    if text == "-0" { "0".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_from_the_right() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(123_456), "123,456");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(u128::from(u64::MAX)), "18,446,744,073,709,551,615");
    }

    #[test]
    fn sizes_have_binary_prefixes_and_are_exact_below_one_kibibyte() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.00 KiB");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(10 << 20), "10.0 MiB");
        assert_eq!(bytes(512 << 20), "512 MiB");
        assert_eq!(bytes(1000 << 20), "1000 MiB");
        assert_eq!(bytes((1 << 30) - 1), "1.00 GiB");
        assert_eq!(bytes(1 << 60), "1.00 EiB");
        assert_eq!(bytes(1 << 90), "1073741824 EiB");
    }

    #[test]
    fn rates_have_decimal_prefixes_and_three_digits() {
        assert_eq!(bytes_per_s(0.0), "0 B/s");
        assert_eq!(bytes_per_s(999.4), "999 B/s");
        assert_eq!(bytes_per_s(999.6), "1.00 kB/s");
        assert_eq!(bytes_per_s(790e9), "790 GB/s");
        assert_eq!(bytes_per_s(68.8e9), "68.8 GB/s");
        assert_eq!(bytes_per_s(4.8144e12), "4.81 TB/s");
        assert_eq!(bytes_per_s(f64::NAN), "—");
    }

    #[test]
    fn times_pick_the_prefix_that_is_printed() {
        assert_eq!(seconds(0.0), "0 s");
        assert_eq!(seconds(1.5), "1.50 s");
        assert_eq!(seconds(0.146e-3), "146 µs");
        assert_eq!(seconds(999.9e-6), "1.00 ms");
        assert_eq!(seconds(0.9994e-6), "999 ns");
        assert_eq!(seconds(7.25e-6), "7.25 µs");
        assert_eq!(seconds(f64::INFINITY), "—");
    }

    #[test]
    fn shares_are_percent_and_errors_keep_their_sign() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.125), "12.5 %");
        assert_eq!(percent(4.0), "400 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(1.0 / 3.0), "33.3 %");
        assert_eq!(signed_percent(0.032), "+3.2 %");
        assert_eq!(signed_percent(-0.004), "−0.4 %");
        assert_eq!(signed_percent(0.0), "±0 %");
        assert_eq!(signed_percent(-0.000_1), "±0 %");
    }

    #[test]
    fn averages_show_whole_numbers_bare_and_the_unknown_as_a_dash() {
        assert_eq!(average(8.0), "8");
        assert_eq!(average(4.125), "4.12");
        assert_eq!(or_unknown(None, count), "—");
        assert_eq!(or_unknown(Some(1000), count), "1,000");
    }
}
