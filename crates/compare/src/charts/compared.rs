//! Charts of the model against the device.

use record::units;

use super::axis::{self, Axis};
use super::canvas::{ChartError, INK, Mark, SERIES, Shape};
use super::plot::{Measured, Plot, Series};
use super::rows::{Row, Rows};
use super::{Chart, Material};
use crate::figures::{Quantity, SECTOR_BYTES, figure, requested_bytes};
use crate::join::Point;
use crate::split::Part;

/// Half width of the band around the diagonal.
const BAND: f64 = 0.1;

/// Predicted against measured: the time, or what is nearest to it of what the
/// model predicts.
pub(crate) fn predicted_against_measured(
    material: &Material<'_>,
) -> Result<Option<Chart>, ChartError> {
    let candidates =
        [Quantity::Seconds, Quantity::DramBytes, Quantity::L2Sectors, Quantity::Sectors];
    let pairs = |quantity| -> Vec<(Part, f64, f64)> {
        material
            .points
            .iter()
            .filter_map(|point| {
                let figure = figure(point, quantity);
                let part = material.part(&point.key.scenario);
                let both = figure.measured.zip(figure.predicted)?;
                (figure.is_scored() && both.0 > 0.0 && both.1 > 0.0)
                    .then_some((part, both.0, both.1))
            })
            .collect()
    };
    let found = candidates.into_iter().map(|q| (q, pairs(q))).find(|(_, pairs)| pairs.len() > 2);
    let Some((quantity, pairs)) = found else { return Ok(None) };
    let within = pairs
        .iter()
        .filter(|(_, measured, predicted)| (predicted / measured - 1.0).abs() <= BAND)
        .count();
    let series = Part::ALL.into_iter().filter_map(|part| {
        let points: Vec<Measured> = pairs
            .iter()
            .filter(|(of, ..)| *of == part)
            .map(|(_, x, y)| Measured { x: *x, y: *y, spread: None })
            .collect();
        (!points.is_empty()).then(|| Series { label: part.to_string(), line: Vec::new(), points })
    });
    let series: Vec<Series> = series.collect();
    let text = match quantity {
        Quantity::Seconds => axis::time,
        Quantity::DramBytes => axis::size,
        _ => axis::count,
    };
    let all = || pairs.iter().flat_map(|(_, a, b)| [*a, *b]);
    let name = quantity.name();
    let what = if quantity == Quantity::Seconds {
        format!("{name} of kernels over 30 µs")
    } else {
        format!("{name}; time is not predicted")
    };
    let plot = Plot {
        title: format!(
            "{within} of {} predictions of {name} lie within ±10 % of the device",
            pairs.len()
        ),
        subtitle: format!("One point a run: {what}. The band is ±10 %."),
        x: Axis::log(&format!("measured {name}"), all(), text),
        y: Axis::log(&format!("predicted {name}"), all(), text),
        series,
        faint: Vec::new(),
        band: Some(BAND),
    };
    Ok(Some(Chart {
        name: "predicted-against-measured",
        title: plot.title.clone(),
        svg: plot.draw()?,
    }))
}

/// Mean error of each quantity.
pub(crate) fn error_by_counter(material: &Material<'_>) -> Result<Option<Chart>, ChartError> {
    let mut rows = Vec::new();
    let mut exact = 0;
    let mut farthest: Option<(f64, &str)> = None;
    for quantity in Quantity::ALL {
        let errors: Vec<f64> = material
            .points
            .iter()
            .map(|point| figure(point, quantity))
            .filter(|figure| figure.is_scored())
            .filter_map(|figure| figure.error.map(f64::abs))
            .collect();
        if errors.is_empty() {
            continue;
        }
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let worst = errors.iter().copied().fold(0.0, f64::max);
        if worst == 0.0 {
            exact += 1;
        } else if farthest.is_none_or(|(known, _)| mean > known) {
            farthest = Some((mean, quantity.name()));
        }
        let mut marks = vec![(Mark::Bar(SERIES[0]), mean, None)];
        if worst > 0.0 {
            marks.push((Mark::Hollow(Shape::Diamond, SERIES[1]), worst, None));
        }
        rows.push(Row {
            label: quantity.name().to_owned(),
            marks,
            note: if worst == 0.0 {
                format!("exact, n = {}", errors.len())
            } else {
                format!("{}, n = {}", units::percent(mean), errors.len())
            },
            starts_group: false,
        });
    }
    if rows.is_empty() {
        return Ok(None);
    }
    let title = match farthest {
        None => format!("All {exact} counters are predicted exactly"),
        Some((mean, name)) => format!(
            "{exact} of {} quantities are predicted exactly; {name} are off most, {} on average",
            rows.len(),
            units::percent(mean)
        ),
    };
    let values: Vec<f64> =
        rows.iter().flat_map(|row| row.marks.iter().map(|mark| mark.1)).collect();
    let not_predicted: Vec<&str> = [Quantity::L2Sectors, Quantity::DramBytes, Quantity::Seconds]
        .into_iter()
        .filter(|quantity| !rows.iter().any(|row| row.label == quantity.name()))
        .map(Quantity::name)
        .collect();
    let chart = Rows {
        title: title.clone(),
        subtitle: if not_predicted.is_empty() {
            "Mean of |predicted − measured| ÷ measured over all runs.".to_owned()
        } else {
            format!(
                "Mean of |predicted − measured| ÷ measured. Not predicted: {}.",
                not_predicted.join(", ")
            )
        },
        legend: vec![
            (Mark::Bar(SERIES[0]), "mean error".to_owned()),
            (Mark::Hollow(Shape::Diamond, SERIES[1]), "worst run".to_owned()),
        ],
        axis: Axis::from_zero("error", values.into_iter(), axis::percent),
        apart: false,
        rows,
    };
    Ok(Some(Chart { name: "error-by-counter", title, svg: chart.draw()? }))
}

/// Bytes at each level for each requested byte, of some runs that differ.
pub(crate) fn traffic_by_level(material: &Material<'_>) -> Result<Option<Chart>, ChartError> {
    const RUNS: [(&str, Option<&str>, &str, f64); 11] = [
        ("contiguous", None, "", 0.0),
        ("misaligned-copy", Some("read"), "offset", 1.0),
        ("strided", Some("read"), "stride", 2.0),
        ("strided", Some("read"), "stride", 8.0),
        ("strided", Some("read"), "stride", 32.0),
        ("strided", Some("write"), "stride", 32.0),
        ("random-gather", None, "window", 1_048_576.0),
        ("random-gather", None, "window", 67_108_864.0),
        ("struct-layout", Some("aos"), "", 0.0),
        ("vector-add-layout", Some("aos"), "", 0.0),
        ("transpose", Some("naive"), "", 0.0),
    ];
    let sector = f64::from(SECTOR_BYTES);
    let levels = [
        ("L1 sectors", Quantity::Sectors, sector),
        ("L2 sectors", Quantity::L2Sectors, sector),
        ("DRAM", Quantity::DramBytes, 1.0),
    ];
    let mut rows = Vec::new();
    let mut farthest: Option<(f64, &str)> = None;
    let mut predicted_any = false;
    for (scenario, variant, param, value) in RUNS {
        let found = material.points.iter().zip(material.labels).find(|(point, _)| {
            let key = &point.key;
            key.scenario == scenario
                && key.variant.as_deref() == variant
                && (param.is_empty() || key.number(param) == Some(value))
        });
        let Some((point, label)) = found else { continue };
        let Some(bytes) = requested_bytes(point).filter(|bytes| *bytes > 0.0) else { continue };
        let mut row = Row { label: name(point, label), ..Row::default() };
        for (i, (_, quantity, unit)) in levels.into_iter().enumerate() {
            let figure = figure(point, quantity);
            let shape = Shape::of(i);
            if let Some(measured) = figure.measured {
                let each = measured * unit / bytes;
                row.marks.push((Mark::Filled(shape, SERIES[i]), each, None));
                if i == 2 && farthest.is_none_or(|(known, _)| each > known) {
                    farthest = Some((each, label));
                }
            }
            if let Some(predicted) = figure.predicted
                && (i > 0 || figure.measured.is_none())
            {
                predicted_any = true;
                // In another colour, to be seen where it lies on the measured one.
                row.marks.push((Mark::Hollow(shape, INK), predicted * unit / bytes, None));
            }
        }
        rows.push(row);
    }
    let Some((most, label)) = farthest else { return Ok(None) };
    let values: Vec<f64> =
        rows.iter().flat_map(|row| row.marks.iter().map(|mark| mark.1)).collect();
    let title = format!(
        "Of these runs {} moves the most to and from DRAM: {} bytes for each byte asked for",
        label.replace(':', " "),
        units::average(most)
    );
    let mut legend: Vec<(Mark, String)> = levels
        .into_iter()
        .enumerate()
        .map(|(i, (level, ..))| (Mark::Filled(Shape::of(i), SERIES[i]), level.to_owned()))
        .collect();
    if predicted_any {
        legend.push((Mark::Hollow(Shape::Circle, INK), "model".to_owned()));
    }
    let chart = Rows {
        title: title.clone(),
        subtitle: if predicted_any {
            "Reads and writes together. Filled: measured; outlined: predicted.".to_owned()
        } else {
            "Reads and writes together, measured; L2 and DRAM are not predicted.".to_owned()
        },
        legend,
        axis: Axis::log("bytes moved ÷ bytes requested", values.into_iter(), axis::factor),
        apart: true,
        rows,
    };
    Ok(Some(Chart { name: "traffic-by-level", title, svg: chart.draw()? }))
}

/// A label short enough for a row: a window in bytes.
fn name(point: &Point, label: &str) -> String {
    match point.key.number("window") {
        Some(window) => format!("{} {}", point.name(), axis::size(window * 4.0)),
        None => label.replace(':', " "),
    }
}
