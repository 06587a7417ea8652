//! A chart with two numeric axes: lines of the model, measured points with
//! their spread, trivial models behind them.

use super::axis::Axis;
use super::canvas::{
    Anchor, Canvas, ChartError, FAINT, GRID, INK, MARGIN, Mark, SERIES, Shape, WIDTH, svg,
};

const HEIGHT: u32 = 520;

/// A measured value with its spread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Its place.
    pub(crate) x: f64,
    /// The median.
    pub(crate) y: f64,
    /// The quartiles, where there are several samples.
    pub(crate) spread: Option<(f64, f64)>,
}

/// One thing predicted and measured.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Its name.
    pub(crate) label: String,
    /// What the model says.
    pub(crate) line: Vec<(f64, f64)>,
    /// What the device did.
    pub(crate) points: Vec<Measured>,
}

/// The chart.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// The finding.
    pub(crate) title: String,
    /// How to read it.
    pub(crate) subtitle: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Trivial models with their names.
    pub(crate) faint: Vec<(String, Vec<(f64, f64)>)>,
    /// Whether x and y are the same quantity: the diagonal and a band of this
    /// share around it are drawn.
    pub(crate) band: Option<f64>,
}

impl Plot {
    /// The chart as SVG.
    pub(crate) fn draw(&self) -> Result<String, ChartError> {
        svg(HEIGHT, &self.title, |canvas| {
            let top = canvas.heading(&self.title, &self.subtitle, &self.legend())? + 12;
            let mut widest = 0;
            for (_, label) in &self.y.ticks {
                widest = widest.max(canvas.width(label)?);
            }
            let left = MARGIN + 26 + widest + 8;
            let (right, bottom) = (WIDTH as i32 - MARGIN - 14, HEIGHT as i32 - 64);
            let frame = Frame { canvas, plot: self, left, right, top, bottom };
            frame.axes()?;
            frame.content()
        })
    }

    fn legend(&self) -> Vec<(Mark, String)> {
        let mut legend = Vec::new();
        for (i, series) in self.series.iter().enumerate() {
            let color = SERIES[i % SERIES.len()];
            if !series.points.is_empty() {
                legend.push((Mark::Filled(Shape::of(i), color), series.label.clone()));
            }
            if !series.line.is_empty() {
                let label = match self.series.len() {
                    1 => "model".to_owned(),
                    _ => format!("model, {}", series.label),
                };
                legend.push((Mark::Line(color), label));
            }
        }
        for (i, (label, _)) in self.faint.iter().enumerate() {
            legend.push((Mark::Dashed(i), label.clone()));
        }
        legend
    }
}

struct Frame<'a, 'b> {
    canvas: &'a Canvas<'b>,
    plot: &'a Plot,
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Frame<'_, '_> {
    fn place(&self, x: f64, y: f64) -> (i32, i32) {
        let between = |low: i32, high: i32, share: f64| {
            low + (f64::from(high - low) * share.clamp(0.0, 1.0)).round() as i32
        };
        (
            between(self.left, self.right, self.plot.x.place(x)),
            between(self.bottom, self.top, self.plot.y.place(y)),
        )
    }

    fn axes(&self) -> Result<(), ChartError> {
        let (canvas, plot) = (self.canvas, self.plot);
        for (value, label) in &plot.y.ticks {
            let (_, y) = self.place(plot.x.range.0, *value);
            canvas.line(&[(self.left, y), (self.right, y)], GRID, 1)?;
            canvas.text(label, (self.left - 8, y), Anchor::Right, INK)?;
        }
        // Labels that would touch the one before are left out.
        let mut free = i32::MIN;
        for (value, label) in &plot.x.ticks {
            let (x, _) = self.place(*value, plot.y.range.0);
            let half = canvas.width(label)? / 2;
            canvas.line(&[(x, self.bottom), (x, self.bottom + 5)], INK, 1)?;
            if x - half < free {
                continue;
            }
            free = x + half + 8;
            canvas.line(&[(x, self.top), (x, self.bottom)], GRID, 1)?;
            canvas.text(label, (x, self.bottom + 18), Anchor::Centre, INK)?;
        }
        canvas.line(&[(self.left, self.bottom), (self.right, self.bottom)], INK, 1)?;
        let middle = (self.left + self.right) / 2;
        canvas.text(&plot.x.label, (middle, self.bottom + 44), Anchor::Centre, INK)?;
        canvas.text_upwards(&plot.y.label, (MARGIN - 2, (self.top + self.bottom) / 2))
    }

    fn content(&self) -> Result<(), ChartError> {
        let canvas = self.canvas;
        if let Some(share) = self.plot.band {
            let (low, high) = self.plot.x.range;
            let outline = [
                self.place(low, low),
                self.place(low, low * (1.0 + share)),
                self.place(high / (1.0 + share), high),
                self.place(high, high),
                self.place(high, high * (1.0 - share)),
                self.place(low / (1.0 - share), low),
            ];
            canvas.band(&outline, FAINT)?;
            canvas.line(&[self.place(low, low), self.place(high, high)], FAINT, 1)?;
        }
        for (i, (_, points)) in self.plot.faint.iter().enumerate() {
            let points: Vec<_> = points.iter().map(|(x, y)| self.place(*x, *y)).collect();
            canvas.dashed(&points, i)?;
        }
        for (i, series) in self.plot.series.iter().enumerate() {
            let points: Vec<_> = series.line.iter().map(|(x, y)| self.place(*x, *y)).collect();
            if points.len() > 1 {
                canvas.line(&points, SERIES[i % SERIES.len()], 3)?;
            }
        }
        for (i, series) in self.plot.series.iter().enumerate() {
            let color = SERIES[i % SERIES.len()];
            for point in &series.points {
                if let Some((low, high)) = point.spread {
                    let (from, to) = (self.place(point.x, low), self.place(point.x, high));
                    canvas.line(&[from, to], color, 2)?;
                }
                let mark = Mark::Filled(Shape::of(i), color);
                canvas.mark(self.place(point.x, point.y), mark)?;
            }
        }
        Ok(())
    }
}
