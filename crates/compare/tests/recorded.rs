//! Charts, statistics and claims over the recorded campaign, with predictions
//! that are made up: with time and traffic, and without.

use coalescope_compare::charts::{Material, charts};
use coalescope_compare::report::{self, Contents};
use coalescope_compare::{
    Claims, Part, Point, Quantity, Reasons, Split, Statistics, Verdict, claims, figure, labels,
    png, points,
};
use record::{
    KernelTotals, Level, MetricMap, OpClass, RunRecord, Source, Time, Traffic, read_runs,
};
use simulator::{Field, Totals};
use std::io::BufReader;

const SPLIT: &str = include_str!("../../model/split.toml");

fn recorded() -> Vec<Point> {
    let read = |bytes: &'static [u8]| {
        read_runs(BufReader::new(flate2::read::GzDecoder::new(bytes)))
            .map(|record| record.expect("a record"))
            .collect::<Vec<RunRecord>>()
    };
    let counters = include_bytes!("../../../tests/hardware/h200/2026-11-30/counters.jsonl.gz");
    let time = include_bytes!("../../../tests/hardware/h200/2026-11-30/time.jsonl.gz");
    points(read(counters).into_iter().chain(read(time)))
}

/// A prediction that repeats what the device counted.
fn counts(point: &Point) -> RunRecord {
    let counted = point.counted.as_ref().expect("counters");
    let mut record = RunRecord::new(&point.key.scenario, Source::Predicted, counted.launch.clone());
    let classes: Vec<OpClass> =
        counted.totals.iter().flat_map(|totals| totals.by_class.keys().copied()).collect();
    let mut totals = KernelTotals::default();
    for class in classes {
        let mut of_class = Totals { exact: true, ..Totals::default() };
        for field in Field::ALL {
            let levels = [Level::Instruction, Level::Hardware];
            let count = levels.into_iter().find_map(|level| {
                let metric = MetricMap::shipped().find("9.0", field.name(), Some(class), level)?;
                metric.field_value(counted.counters.get(&metric.name)?)?.as_u128()
            });
            of_class.set(field, count);
        }
        of_class.set(Field::UniqueSectors, of_class.get(Field::UniqueSectors).or(of_class.sectors));
        totals.by_class.insert(class, of_class);
    }
    let rate = point.timed.as_ref().and_then(|timed| {
        let rate = timed.bandwidth.as_ref()?.requested_bytes_per_s?;
        Some((rate * timed.time.as_ref()?.seconds?).round() as u128)
    });
    totals.counts.set(Field::RequestedBytes, rate);
    let sectors: u128 = totals.by_class.values().filter_map(|totals| totals.sectors).sum();
    totals.counts.set(Field::MovedBytes, Some(sectors * 32));
    record.totals = Some(totals);
    record
}

/// The same with a time and traffic that are 5 % too high.
fn complete(point: &Point) -> RunRecord {
    let mut record = counts(point);
    let seconds = point.timed.as_ref().and_then(|timed| timed.time.as_ref()?.seconds);
    record.time = Some(Time {
        seconds: seconds.map(|seconds| seconds * 1.05),
        bound_by: Some("DRAM".into()),
        ..Time::default()
    });
    let more = |count: Option<u128>| count.map(|count| count * 105 / 100);
    let traffic = point.counted.as_ref().and_then(|counted| counted.traffic.clone());
    record.traffic = traffic.map(|traffic| Traffic {
        l2_read_sectors: more(traffic.l2_read_sectors),
        l2_write_sectors: more(traffic.l2_write_sectors),
        dram_read_bytes: more(traffic.dram_read_bytes),
        dram_write_bytes: more(traffic.dram_write_bytes),
        ..traffic
    });
    record
}

fn with(predict: fn(&Point) -> RunRecord) -> Vec<Point> {
    let mut points = recorded();
    for point in &mut points {
        point.predicted = Some(predict(point));
    }
    points
}

#[test]
fn every_run_has_counters_and_a_time() {
    let points = recorded();
    assert_eq!(points.len(), 314);
    assert!(points.iter().all(|point| point.counted.is_some() && point.timed.is_some()));
    let split = Split::from_toml(SPLIT).unwrap();
    for point in &points {
        assert_ne!(split.part(&point.key.scenario), Part::Unlisted, "{}", point.name());
    }
}

#[test]
fn errors_are_what_was_made_up() {
    let points = with(complete);
    let names = labels::labels(&points);
    // The shipped list may hold out families that nobody has measured yet.
    let split = "development = ['strided', 'widths']\nheld_out = ['transpose', 'volume']";
    let split = Split::from_toml(split).unwrap();
    let statistics = Statistics::of(&points, &names, &split, &Reasons::shipped(), Some(4.8e12));
    let time = statistics.part(Quantity::Seconds, Part::HeldOut).expect("times");
    assert!((time.mean - 0.05).abs() < 1e-9 && (time.worst - 0.05).abs() < 1e-9, "{time:?}");
    assert_eq!((time.over, time.under, time.within_10_percent), (time.n, 0, time.n));
    let sectors = statistics.part(Quantity::Sectors, Part::Development).expect("sectors");
    assert_eq!(sectors.mean, 0.0);
    // A trivial model is worse than 5 %, and is judged on the same points.
    let held_out = |row: &&coalescope_compare::TrivialRow| row.part == Part::HeldOut;
    let rows: Vec<_> = statistics.trivial.iter().filter(held_out).collect();
    assert_eq!(rows.len(), 4);
    assert!(rows[0].errors.n > 3);
    assert!(rows.iter().all(|row| row.errors.n == rows[0].errors.n));
    assert!(rows[..3].iter().all(|row| row.errors.mean > 0.05));
    assert_eq!(statistics.worst.len(), 10);
}

#[test]
fn short_kernels_are_not_scored_and_noise_is_called_noise() {
    let points = with(complete);
    let short = points.iter().find(|point| point.key.scenario == "swapped").unwrap();
    assert!(!figure(short, Quantity::Seconds).is_scored());
    let noisy = points
        .iter()
        .map(|point| figure(point, Quantity::Seconds))
        .filter(|figure| figure.is_within_noise());
    assert!(noisy.clone().count() > 0, "some spread by more than 5 %");
    assert!(noisy.into_iter().all(|figure| figure.noise >= Some(0.049)));
}

#[test]
fn charts_are_drawn_with_and_without_predictions() {
    for (predict, peak) in [(counts as fn(&Point) -> RunRecord, None), (complete, Some(4.8e12))] {
        let points = with(predict);
        let names = labels::labels(&points);
        let split = Split::from_toml(SPLIT).unwrap();
        let material = Material { points: &points, labels: &names, split: &split, peak };
        let drawn = charts(&material).unwrap();
        assert_eq!(drawn.len(), 10);
        for chart in &drawn {
            let parsed = roxmltree::Document::parse(&chart.svg)
                .unwrap_or_else(|error| panic!("{}: {error}", chart.name));
            inside(chart.name, &parsed);
            let says = chart.svg.contains("not predicted") || chart.svg.contains("Not predicted");
            let silent = matches!(chart.name, "traffic-by-level" | "error-by-counter");
            assert!(says == peak.is_none() || silent, "{}", chart.name);
            if let Ok(folder) = std::env::var("COALESCOPE_SHOW_CHARTS") {
                let kind = if peak.is_some() { "complete" } else { "counts" };
                let path = format!("{folder}/{kind}-{}.png", chart.name);
                std::fs::write(path, png(&chart.svg, 1.0).unwrap()).unwrap();
            }
        }
        let statistics = Statistics::of(&points, &names, &split, &Reasons::shipped(), peak);
        let judged = Claims::shipped().judge(&points);
        let page = report::html(&Contents {
            device: "NVIDIA H200",
            profile: peak.map(|_| "h200"),
            notes: &["<note>".to_owned()],
            points: &points,
            labels: &names,
            split: &split,
            statistics: &statistics,
            claims: &judged,
            charts: &drawn,
        });
        assert!(page.contains("&lt;note&gt;") && !page.contains("http-equiv"));
        assert!(!page.contains("src=") && !page.contains("href="), "the page needs other files");
        assert_eq!(page.matches("<figure>").count(), 10);
    }
}

/// Every mark and text of a chart begins inside its frame.
fn inside(name: &str, chart: &roxmltree::Document<'_>) {
    let root = chart.root_element();
    let size = |attribute| root.attribute(attribute).and_then(|text| text.parse::<f64>().ok());
    let (width, height) = (size("width").unwrap(), size("height").unwrap());
    for node in chart.descendants() {
        let place = |a, b| node.attribute(a).or_else(|| node.attribute(b))?.parse::<f64>().ok();
        if let (Some(x), Some(y)) = (place("x", "cx"), place("y", "cy")) {
            assert!((0.0..=width).contains(&x) && (0.0..=height).contains(&y), "{name}: {node:?}");
        }
    }
}

#[test]
fn every_row_of_the_claims_is_judged_by_the_recorded_device() {
    let claims = Claims::from_toml(include_str!("../claims.toml")).unwrap();
    let ids: Vec<u32> = claims.claim.iter().map(|claim| claim.id).collect();
    assert_eq!(ids, (1..=17).collect::<Vec<_>>());
    let judged = claims.judge(&with(complete));
    for claim in &judged {
        assert_eq!(claim.rows.is_empty(), claim.not_judged.is_some(), "{}", claim.claim);
        for row in &claim.rows {
            let known = row.device.as_ref().or(row.model.as_ref());
            assert!(known.is_some() || row.says.contains("pitch"), "{}: {}", claim.id, row.says);
        }
    }
    let text = claims::markdown(&judged, "NVIDIA H200");
    assert_eq!(text.matches("\n### ").count(), 17);
}

#[test]
fn a_verdict_follows_the_values() {
    let claims = Claims::from_toml(
        r#"
        [[claim]]
        id = 1
        text = "stride 2 halves the bandwidth"
        [[claim.row]]
        says = "half"
        metric = "bandwidth"
        at = { scenario = "strided", variant = "read", params = { stride = 2 } }
        over = { scenario = "strided", variant = "read", params = { stride = 1 } }
        max = 0.5
        "#,
    )
    .unwrap();
    let verdict = |points: &[Point]| claims.judge(points)[0].verdict;
    let mut points = recorded();
    assert_eq!(verdict(&points), Verdict::DoesNotHoldHere);
    for point in &mut points {
        if let (Some(2.0), Some(timed)) = (point.key.number("stride"), &mut point.timed) {
            let time = timed.time.as_mut().unwrap();
            // The bandwidth of a record that nobody predicted is its own.
            timed.bandwidth = None;
            time.seconds = time.seconds.map(|seconds| seconds * 3.0);
        }
        point.predicted = Some(counts(point));
    }
    assert_eq!(verdict(&[]), Verdict::NotJudged);
    for point in &mut points {
        if let Some(totals) = point.predicted.as_mut().and_then(|record| record.totals.as_mut()) {
            totals.counts.set(Field::RequestedBytes, Some(1 << 27));
        }
    }
    assert_eq!(verdict(&points), Verdict::Holds);
}
