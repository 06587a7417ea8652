//! A chart with one row a case: marks along one numeric axis.

use super::axis::Axis;
use super::canvas::{
    Anchor, Canvas, ChartError, FAINT, GRID, INK, MARGIN, Mark, Shape, WIDTH, svg,
};

/// A mark, its place on the axis, and the ends of its spread.
type Placed = (Mark, f64, Option<(f64, f64)>);

/// One row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// What it is of.
    pub(crate) label: String,
    /// Marks with their places, and a spread where one is known.
    pub(crate) marks: Vec<Placed>,
    /// What stands at the row's right end.
    pub(crate) note: String,
    /// Whether a line parts it from the row above.
    pub(crate) starts_group: bool,
}

/// The chart.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    /// The finding.
    pub(crate) title: String,
    /// How to read it.
    pub(crate) subtitle: String,
    pub(crate) legend: Vec<(Mark, String)>,
    pub(crate) axis: Axis,
    /// Whether marks of different shapes lie above each other, so that none
    /// hides another.
    pub(crate) apart: bool,
    pub(crate) rows: Vec<Row>,
}

/// Height of a row.
const ROW: i32 = 30;

impl Rows {
    /// The chart as SVG.
    pub(crate) fn draw(&self) -> Result<String, ChartError> {
        // The heading takes up to two lines of title, two of text, two of legend.
        let height = 190 + ROW * self.rows.len() as i32 + 66;
        svg(height as u32, &self.title, |canvas| {
            let top = canvas.heading(&self.title, &self.subtitle, &self.legend)? + 10;
            let bottom = height - 62;
            self.content(canvas, top, bottom)
        })
    }

    fn content(&self, canvas: &Canvas<'_>, top: i32, bottom: i32) -> Result<(), ChartError> {
        let widest = |text: fn(&Row) -> &str| -> Result<i32, ChartError> {
            self.rows.iter().try_fold(0, |widest, row| Ok(canvas.width(text(row))?.max(widest)))
        };
        let left = MARGIN + widest(|row| &row.label)? + 14;
        let notes = widest(|row| &row.note)?;
        let right = WIDTH as i32 - MARGIN - if notes > 0 { notes + 16 } else { 10 };
        let place = |value: f64| {
            let share = self.axis.place(value).clamp(0.0, 1.0);
            left + (f64::from(right - left) * share).round() as i32
        };
        let mut free = i32::MIN;
        for (value, label) in &self.axis.ticks {
            let (x, half) = (place(*value), canvas.width(label)? / 2);
            if x - half < free {
                continue;
            }
            free = x + half + 8;
            canvas.line(&[(x, top), (x, bottom)], GRID, 1)?;
            canvas.text(label, (x, bottom + 17), Anchor::Centre, INK)?;
        }
        canvas.line(&[(left, bottom), (right, bottom)], INK, 1)?;
        canvas.text(&self.axis.label, ((left + right) / 2, bottom + 43), Anchor::Centre, INK)?;
        let step = f64::from(bottom - top) / self.rows.len().max(1) as f64;
        for (i, row) in self.rows.iter().enumerate() {
            let y = top + (step * (i as f64 + 0.5)).round() as i32;
            if row.starts_group && i > 0 {
                let line = top + (step * i as f64).round() as i32;
                canvas.line(&[(MARGIN, line), (WIDTH as i32 - MARGIN, line)], GRID, 2)?;
            }
            canvas.text(&row.label, (left - 12, y), Anchor::Right, INK)?;
            canvas.text(&row.note, (right + 14, y), Anchor::Left, INK)?;
            for (mark, value, spread) in &row.marks {
                self.mark(canvas, *mark, (place(*value), y), left)?;
                if let Some((low, high)) = spread {
                    let color = match mark {
                        Mark::Filled(_, color) | Mark::Hollow(_, color) => *color,
                        _ => INK,
                    };
                    canvas.line(&[(place(*low), y), (place(*high), y)], color, 2)?;
                }
            }
        }
        Ok(())
    }

    fn mark(
        &self,
        canvas: &Canvas<'_>,
        mark: Mark,
        (x, y): (i32, i32),
        left: i32,
    ) -> Result<(), ChartError> {
        match mark {
            Mark::Bar(_) => canvas.bar((left, y - 8), (x.max(left + 1), y + 8), mark),
            Mark::Line(color) => canvas.line(&[(x, y - 10), (x, y + 10)], color, 4),
            Mark::Tick | Mark::Dashed(_) => canvas.line(&[(x, y - 11), (x, y + 11)], FAINT, 2),
            Mark::Filled(shape, _) | Mark::Hollow(shape, _) => {
                let shift = match shape {
                    Shape::Circle => -8,
                    Shape::Diamond => 0,
                    Shape::Triangle => 8,
                };
                canvas.mark((x, if self.apart { y + shift } else { y }), mark)
            }
        }
    }
}
