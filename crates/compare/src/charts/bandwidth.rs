//! Charts of requested bandwidth: curves over a parameter, and rows of
//! variants.

use record::units;

use super::axis::{self, Axis};
use super::canvas::{ChartError, Mark, SERIES, Shape};
use super::plot::{Measured, Plot, Series};
use super::rows::{Row, Rows};
use super::{Chart, Material};
use crate::figures::{Trivial, requested_bytes, seconds};
use crate::join::Point;

/// Bytes a second of a point on both sides.
struct Speed {
    measured: Option<f64>,
    spread: Option<(f64, f64)>,
    predicted: Option<f64>,
}

impl Speed {
    fn of(point: &Point) -> Option<Self> {
        let bytes = requested_bytes(point)?;
        let timed = point.timed.as_ref();
        let spread = timed.and_then(|record| record.spread);
        Some(Self {
            measured: timed.and_then(seconds).map(|time| bytes / time),
            spread: spread.map(|spread| {
                (bytes / spread.upper_quartile_seconds, bytes / spread.lower_quartile_seconds)
            }),
            predicted: point.predicted.as_ref().and_then(seconds).map(|time| bytes / time),
        })
    }

    /// What the titles speak of: the device where it was measured.
    fn best(&self) -> Option<f64> {
        self.measured.or(self.predicted)
    }
}

/// The device's name, for the line below a title.
fn device(points: &[&Point]) -> String {
    points.iter().find_map(|point| point.device()).unwrap_or("not measured").to_owned()
}

/// How to read marks, and how good the model is on these points.
fn subtitle(points: &[&Point]) -> String {
    let errors: Vec<f64> = points
        .iter()
        .filter_map(|point| crate::figure(point, crate::Quantity::Seconds).error)
        .map(f64::abs)
        .collect();
    let device = device(points);
    match errors.iter().copied().reduce(f64::max) {
        None => format!("{device}. Points are medians of samples; time is not predicted."),
        Some(worst) => {
            let mean = errors.iter().sum::<f64>() / errors.len() as f64;
            format!(
                "{device}. The model's time is off by {} on average, {} at most.",
                units::percent(mean),
                units::percent(worst)
            )
        }
    }
}

fn of<'a>(material: &Material<'a>, scenario: &str, variant: Option<&str>) -> Vec<&'a Point> {
    let points = material.points.iter();
    points
        .filter(|point| point.key.scenario == scenario)
        .filter(|point| variant.is_none() || point.key.variant.as_deref() == variant)
        .collect()
}

/// The series of some points over `x`.
fn series(label: &str, points: &[&Point], x: &dyn Fn(&Point) -> Option<f64>) -> Series {
    let mut series = Series { label: label.to_owned(), line: Vec::new(), points: Vec::new() };
    for point in points {
        let (Some(x), Some(speed)) = (x(point), Speed::of(point)) else { continue };
        if let Some(y) = speed.predicted {
            series.line.push((x, y));
        }
        if let Some(y) = speed.measured {
            series.points.push(Measured { x, y, spread: speed.spread });
        }
    }
    series.line.sort_by(|a, b| a.0.total_cmp(&b.0));
    series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    series
}

/// The trivial models over `x`.
fn faint(
    material: &Material<'_>,
    points: &[&Point],
    x: &dyn Fn(&Point) -> Option<f64>,
) -> Vec<(String, Vec<(f64, f64)>)> {
    let Some(peak) = material.peak else { return Vec::new() };
    let curve = |model: Trivial| {
        let mut points: Vec<(f64, f64)> = points
            .iter()
            .filter_map(|point| {
                Some((x(point)?, requested_bytes(point)? / model.seconds(point, peak)?))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (model.name().to_owned(), points)
    };
    Trivial::ALL.into_iter().map(curve).filter(|(_, points)| points.len() > 1).collect()
}

fn values(series: &[Series], faint: &[(String, Vec<(f64, f64)>)]) -> Vec<f64> {
    let of = series.iter().flat_map(|series| {
        series.points.iter().map(|point| point.y).chain(series.line.iter().map(|(_, y)| *y))
    });
    of.chain(faint.iter().flat_map(|(_, points)| points.iter().map(|(_, y)| *y))).collect()
}

fn places(series: &[Series]) -> Vec<f64> {
    let mut places: Vec<f64> = series
        .iter()
        .flat_map(|series| {
            series.points.iter().map(|point| point.x).chain(series.line.iter().map(|(x, _)| *x))
        })
        .collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

const REQUESTED: &str = "requested bytes a second";

/// Speed of a series at a place: the device's where measured.
fn at(series: &Series, x: f64) -> Option<f64> {
    let measured = series.points.iter().find(|point| point.x == x).map(|point| point.y);
    measured.or_else(|| series.line.iter().find(|(place, _)| *place == x).map(|(_, y)| *y))
}

fn chart(name: &'static str, plot: &Plot) -> Result<Option<Chart>, ChartError> {
    Ok(Some(Chart { name, title: plot.title.clone(), svg: plot.draw()? }))
}

/// Bandwidth against stride.
pub(crate) fn stride(material: &Material<'_>) -> Result<Option<Chart>, ChartError> {
    let x = |point: &Point| point.key.number("stride");
    let reads = of(material, "strided", Some("read"));
    let writes = of(material, "strided", Some("write"));
    let all: Vec<Series> = [("strided reads", &reads), ("strided writes", &writes)]
        .into_iter()
        .map(|(label, points)| series(label, points, &x))
        .filter(|series| !series.points.is_empty() || !series.line.is_empty())
        .collect();
    let places = places(&all);
    let (Some(&first), Some(&last)) = (places.first(), places.last()) else { return Ok(None) };
    if places.len() < 2 {
        return Ok(None);
    }
    let kept: Vec<String> = all
        .iter()
        .filter_map(|series| {
            let share = at(series, last)? / at(series, first)?;
            Some(format!("{} keep {}", series.label, units::percent(share)))
        })
        .collect();
    let faint = faint(material, &reads, &x);
    let both: Vec<&Point> = reads.iter().chain(&writes).copied().collect();
    let plot = Plot {
        title: format!(
            "At stride {last}, {} of the bandwidth of stride {first}",
            kept.join(" and ")
        ),
        subtitle: subtitle(&both),
        x: Axis::at("stride of neighbouring lanes, in floats", true, &places, axis::plain),
        y: Axis::log(REQUESTED, values(&all, &faint).into_iter(), axis::rate),
        series: all,
        faint,
        band: None,
    };
    chart("stride", &plot)
}

/// Bandwidth against offset.
pub(crate) fn offset(material: &Material<'_>) -> Result<Option<Chart>, ChartError> {
    let x = |point: &Point| point.key.number("offset");
    let reads = of(material, "misaligned-copy", Some("read"));
    let copies = of(material, "misaligned-copy", Some("copy"));
    let all: Vec<Series> = [("reads shifted", &reads), ("reads and writes shifted", &copies)]
        .into_iter()
        .map(|(label, points)| series(label, points, &x))
        .filter(|series| !series.points.is_empty() || !series.line.is_empty())
        .collect();
    let places = places(&all);
    let lost = all
        .iter()
        .flat_map(|series| {
            let aligned = at(series, 0.0);
            places.iter().filter_map(move |x| Some(1.0 - at(series, *x)? / aligned?))
        })
        .reduce(f64::max);
    let Some(lost) = lost.filter(|_| places.len() > 1) else { return Ok(None) };
    let faint = faint(material, &reads, &x);
    let both: Vec<&Point> = reads.iter().chain(&copies).copied().collect();
    let plot = Plot {
        title: format!(
            "A misaligned start costs a copy {} of its bandwidth at most",
            units::percent(lost)
        ),
        subtitle: subtitle(&both),
        x: Axis {
            ticks: (0..=40)
                .step_by(4)
                .map(f64::from)
                .filter(|x| places.last().is_some_and(|last| x <= last))
                .map(|x| (x, axis::plain(x)))
                .collect(),
            ..Axis::at("offset of the first element, in floats", false, &places, axis::plain)
        },
        y: Axis::from_zero(REQUESTED, values(&all, &faint).into_iter(), axis::rate),
        series: all,
        faint,
        band: None,
    };
    chart("offset", &plot)
}

/// Bandwidth against the window of random reads.
pub(crate) fn window(material: &Material<'_>) -> Result<Option<Chart>, ChartError> {
    // The window is in floats.
    let x = |point: &Point| Some(point.key.number("window")? * 4.0);
    let points = of(material, "random-gather", None);
    let all = vec![series("random reads", &points, &x)];
    let places = places(&all);
    let ends = places.first().zip(places.last()).filter(|(first, last)| first != last);
    let speeds =
        ends.and_then(|(first, last)| Some((at(all.first()?, *first)?, at(all.first()?, *last)?)));
    let (Some((first, last)), Some((small, large))) = (ends, speeds) else { return Ok(None) };
    let faint = faint(material, &points, &x);
    let plot = Plot {
        title: format!(
            "Random reads in a window of {} run at {} of the speed of those in {}",
            axis::size(*last),
            units::percent(large / small),
            axis::size(*first)
        ),
        subtitle: subtitle(&points),
        x: Axis::at("window that the reads fall into", true, &places, axis::size),
        y: Axis::log(REQUESTED, values(&all, &faint).into_iter(), axis::rate),
        series: all,
        faint,
        band: None,
    };
    chart("random-window", &plot)
}

/// Rows of points with their speeds, the marks of all three kinds.
fn rows(material: &Material<'_>, points: &[(&Point, String)]) -> Vec<Row> {
    let mut last = None;
    let row = |(point, label): &(&Point, String)| {
        let speed = Speed::of(point)?;
        let bytes = requested_bytes(point)?;
        let mut marks = Vec::new();
        if let Some(peak) = material.peak {
            // The nearest of the three; all of them would crowd the row.
            if let Some(time) = Trivial::DramBytes.seconds(point, peak) {
                marks.push((Mark::Tick, bytes / time, None));
            }
        }
        if let Some(measured) = speed.measured {
            marks.push((MEASURED, measured, speed.spread));
        }
        if let Some(predicted) = speed.predicted {
            marks.push((PREDICTED, predicted, None));
        }
        let starts_group = last.as_ref().is_some_and(|last| *last != point.key.scenario);
        last = Some(point.key.scenario.clone());
        let note = units::or_unknown(speed.best(), units::bytes_per_s);
        Some(Row { label: label.clone(), marks, note, starts_group })
    };
    points.iter().filter_map(row).collect()
}

const MEASURED: Mark = Mark::Filled(Shape::Circle, SERIES[0]);
const PREDICTED: Mark = Mark::Hollow(Shape::Diamond, SERIES[1]);

fn draw_rows(
    material: &Material<'_>,
    name: &'static str,
    title: String,
    points: &[(&Point, String)],
) -> Result<Option<Chart>, ChartError> {
    let rows = rows(material, points);
    if rows.is_empty() {
        return Ok(None);
    }
    let values: Vec<f64> =
        rows.iter().flat_map(|row| row.marks.iter().map(|(_, value, _)| *value)).collect();
    let has = |wanted: fn(&Mark) -> bool| {
        rows.iter().any(|row| row.marks.iter().any(|(mark, ..)| wanted(mark)))
    };
    let mut legend = vec![(MEASURED, "measured".to_owned())];
    if has(|mark| matches!(mark, Mark::Hollow(..))) {
        legend.push((PREDICTED, "model".to_owned()));
    }
    if has(|mark| matches!(mark, Mark::Tick)) {
        legend.push((Mark::Tick, Trivial::DramBytes.name().to_owned()));
    }
    let only: Vec<&Point> = points.iter().map(|(point, _)| *point).collect();
    let chart = Rows {
        title: title.clone(),
        subtitle: subtitle(&only),
        legend,
        axis: Axis::from_zero(REQUESTED, values.into_iter(), axis::rate),
        apart: false,
        rows,
    };
    Ok(Some(Chart { name, title, svg: chart.draw()? }))
}

/// The device's speed at a point, else the model's.
fn speed(point: Option<&Point>) -> Option<f64> {
    Speed::of(point?)?.best()
}

fn first<'a>(material: &Material<'a>, scenario: &str, variant: &str) -> Option<&'a Point> {
    of(material, scenario, Some(variant)).into_iter().next()
}

/// Bytes a lane.
pub(crate) fn widths(material: &Material<'_>) -> Result<Option<Chart>, ChartError> {
    let mut points = of(material, "widths", None);
    points.sort_by(|a, b| {
        let width = |point: &Point| point.key.number("width").unwrap_or(0.0);
        width(a).total_cmp(&width(b))
    });
    let ends = speed(points.first().copied()).zip(speed(points.last().copied()));
    let Some((narrow, wide)) = ends else { return Ok(None) };
    let named: Vec<(&Point, String)> = points
        .iter()
        .map(|point| {
            let bytes = point.key.number("width").map(axis::plain).unwrap_or_default();
            (*point, format!("{}, {bytes} B", point.key.variant.as_deref().unwrap_or("copy")))
        })
        .collect();
    let title = format!(
        "Copying the same bytes, the widest lanes are {} times as fast as the narrowest",
        units::average(wide / narrow)
    );
    draw_rows(material, "width", title, &named)
}

fn with_own_names<'a>(material: &Material<'a>, scenarios: &[&str]) -> Vec<(&'a Point, String)> {
    let all = material.points.iter().zip(material.labels);
    let mut named: Vec<(&Point, String)> = all
        .filter(|(point, _)| scenarios.contains(&point.key.scenario.as_str()))
        .map(|(point, label)| (point, label.replace(':', " ")))
        .collect();
    let place = |point: &Point| scenarios.iter().position(|name| *name == point.key.scenario);
    named.sort_by_key(|(point, _)| place(point));
    named
}

/// Transposes.
pub(crate) fn transposes(material: &Material<'_>) -> Result<Option<Chart>, ChartError> {
    let variant = |name| speed(first(material, "transpose", name));
    let (naive, tiled, padded) = (variant("naive"), variant("tiled"), variant("padded"));
    let (Some(naive), Some(tiled), Some(padded)) = (naive, tiled, padded) else { return Ok(None) };
    let title = format!(
        "A tile makes the transpose {} times as fast as the naive one, a padded tile {} times",
        units::average(tiled / naive),
        units::average(padded / naive)
    );
    draw_rows(
        material,
        "transpose",
        title,
        &with_own_names(material, &["transpose", "transpose-4k"]),
    )
}

/// Arrays of structs and structs of arrays.
pub(crate) fn layouts(material: &Material<'_>) -> Result<Option<Chart>, ChartError> {
    let scenarios = ["struct-layout", "vector-add-layout", "particle-update"];
    let gains: Vec<f64> = scenarios
        .iter()
        .filter_map(|name| {
            let (aos, soa) = (first(material, name, "aos"), first(material, name, "soa"));
            Some(speed(soa)? / speed(aos)?)
        })
        .collect();
    let low = gains.iter().copied().reduce(f64::min);
    let high = gains.iter().copied().reduce(f64::max);
    let (Some(low), Some(high)) = (low, high) else { return Ok(None) };
    let title = if gains.len() == 1 {
        format!("SoA is {} times as fast as AoS", units::average(low))
    } else {
        format!(
            "SoA is {} to {} times as fast as AoS in these kernels",
            units::average(low),
            units::average(high)
        )
    };
    draw_rows(material, "struct-layout", title, &with_own_names(material, &scenarios))
}

/// Padded rows.
pub(crate) fn pitch(material: &Material<'_>) -> Result<Option<Chart>, ChartError> {
    let scenarios = ["pitched-image", "volume"];
    let mut named = Vec::new();
    for (point, _) in with_own_names(material, &scenarios) {
        let width = point.key.number("width").map(axis::plain).unwrap_or_default();
        let variant = point.key.variant.as_deref().unwrap_or("");
        let what = if point.key.scenario == "volume" { "volume" } else { "image" };
        named.push((point, format!("{what} {width} wide, {variant}")));
    }
    // Pairs of the same size side by side.
    named.sort_by(|(a, _), (b, _)| {
        let key = |point: &Point| {
            let place = scenarios.iter().position(|name| *name == point.key.scenario);
            (place, point.key.number("width").map(|width| width as i64), point.key.variant.clone())
        };
        key(a).cmp(&key(b))
    });
    let gains: Vec<f64> = named
        .chunks(2)
        .filter_map(|pair| match pair {
            [(linear, _), (pitched, _)]
                if linear.key.number("width") == pitched.key.number("width") =>
            {
                Some(speed(Some(pitched))? / speed(Some(linear))? - 1.0)
            }
            _ => None,
        })
        .collect();
    let low = gains.iter().copied().reduce(f64::min);
    let high = gains.iter().copied().reduce(f64::max);
    let (Some(low), Some(high)) = (low, high) else { return Ok(None) };
    let title = format!(
        "Pitched rows change the bandwidth by {} to {}",
        units::signed_percent(low),
        units::signed_percent(high)
    );
    draw_rows(material, "pitch", title, &named)
}
