//! Axes: ranges, ticks, and where a value lies.

/// One axis of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// Quantity and unit.
    pub(crate) label: String,
    /// Whether equal ratios are equally far apart.
    pub(crate) log: bool,
    /// The ends.
    pub(crate) range: (f64, f64),
    /// Values with their labels.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Where a value lies, 0 at the lower end and 1 at the upper one.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let (low, high) = (scale(self.range.0), scale(self.range.1));
        if high > low { (scale(value) - low) / (high - low) } else { 0.5 }
    }

    /// A logarithmic axis around `values`, with ticks at 1, 2 and 5 times the
    /// powers of ten (at the powers alone where there are many).
    pub(crate) fn log(
        label: &str,
        values: impl Iterator<Item = f64>,
        text: fn(f64) -> String,
    ) -> Self {
        let (low, high) = ends(values.filter(|value| *value > 0.0)).unwrap_or((1.0, 10.0));
        let range = (low / 1.25, high * 1.25);
        let decades = (range.1 / range.0).log10();
        let steps: &[f64] = match decades {
            d if d > 5.0 => &[1.0],
            d if d > 2.5 => &[1.0, 3.0],
            _ => &[1.0, 2.0, 5.0],
        };
        let (first, last) = (range.0.log10().floor() as i32, range.1.log10().ceil() as i32);
        let stride = if decades > 10.0 { 3 } else { 1 };
        let ticks = (first..=last)
            .filter(|power| power.rem_euclid(stride) == 0)
            .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
            .filter(|value| *value >= range.0 && *value <= range.1)
            .map(|value| (value, text(value)))
            .collect();
        Self { label: label.to_owned(), log: true, range, ticks }
    }

    /// An axis from 0 to beyond the largest of `values`, with round ticks.
    pub(crate) fn from_zero(
        label: &str,
        values: impl Iterator<Item = f64>,
        text: fn(f64) -> String,
    ) -> Self {
        let (_, high) = ends(values).unwrap_or((0.0, 1.0));
        let high = if high > 0.0 { high * 1.06 } else { 1.0 };
        let rough = high / 5.0;
        let unit = 10f64.powi(rough.log10().floor() as i32);
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|step| step * unit)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let ticks = (0..)
            .map(|i| f64::from(i) * step)
            .take_while(|value| *value <= high)
            .map(|value| (value, text(value)))
            .collect();
        Self { label: label.to_owned(), log: false, range: (0.0, high), ticks }
    }

    /// An axis with a tick at each of `values`, in ascending order; labels that
    /// would crowd are for the drawing to leave out.
    pub(crate) fn at(label: &str, log: bool, values: &[f64], text: fn(f64) -> String) -> Self {
        let (low, high) = ends(values.iter().copied()).unwrap_or((0.0, 1.0));
        let room = if log { (low / 1.2, high * 1.2) } else { (low - 0.6, high + 0.6) };
        let ticks = values.iter().map(|value| (*value, text(*value))).collect();
        Self { label: label.to_owned(), log, range: room, ticks }
    }
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

/// A rate as ticks show it: `500 GB/s`, `2 TB/s`.
pub(crate) fn rate(value: f64) -> String {
    short(value, "B/s", &["", "k", "M", "G", "T", "P"], 1000.0)
}

/// A size as ticks show it: `4 KiB`, `256 MiB`.
pub(crate) fn size(value: f64) -> String {
    short(value, "B", &["", "Ki", "Mi", "Gi", "Ti", "Pi"], 1024.0)
}

/// A time as ticks show it.
pub(crate) fn time(value: f64) -> String {
    match value {
        v if v >= 1.0 => format!("{} s", plain(v)),
        v if v >= 0.999e-3 => format!("{} ms", plain(v * 1e3)),
        v if v >= 0.999e-6 => format!("{} µs", plain(v * 1e6)),
        v => format!("{} ns", plain(v * 1e9)),
    }
}

/// A number without needless digits.
pub(crate) fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A share as ticks show it.
pub(crate) fn percent(value: f64) -> String {
    format!("{} %", plain(value * 100.0))
}

/// A count as ticks show it: `10 k`, `1 M`.
pub(crate) fn count(value: f64) -> String {
    short(value, "", &["", "k", "M", "G", "T", "P"], 1000.0)
}

/// A factor as ticks show it.
pub(crate) fn factor(value: f64) -> String {
    format!("{}×", plain(value))
}

fn short(value: f64, unit: &str, prefixes: &[&str], base: f64) -> String {
    let (mut mantissa, mut prefix) = (value, 0);
    while mantissa >= base * 0.9999 && prefix + 1 < prefixes.len() {
        mantissa /= base;
        prefix += 1;
    }
    let text = format!("{} {}{unit}", plain(mantissa), prefixes.get(prefix).unwrap_or(&""));
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_axes_have_equal_steps() {
        let axis = Axis::log("x", [1.0, 100.0].into_iter(), plain);
        let step = axis.place(10.0) - axis.place(1.0);
        assert!((axis.place(100.0) - axis.place(10.0) - step).abs() < 1e-12);
        assert!(axis.ticks.iter().any(|(value, label)| *value == 10.0 && label == "10"));
        assert!(axis.place(1.0) > 0.0 && axis.place(100.0) < 1.0);
    }

    #[test]
    fn linear_axes_start_at_zero_with_round_ticks() {
        let axis = Axis::from_zero("x", [3.0, 4.3].into_iter(), plain);
        assert_eq!(axis.place(0.0), 0.0);
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["0", "1", "2", "3", "4"]);
    }

    #[test]
    fn ticks_read_as_people_write_them() {
        assert_eq!(rate(5e11), "500 GB/s");
        assert_eq!(rate(1e12), "1 TB/s");
        assert_eq!(size(4096.0), "4 KiB");
        assert_eq!(time(2e-4), "200 µs");
        assert_eq!(time(1e-3), "1 ms");
        assert_eq!(factor(0.5), "0.5×");
    }
}
