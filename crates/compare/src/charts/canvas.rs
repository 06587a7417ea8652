//! The drawing surface that all charts share: colours, type, marks, legends.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontTransform, register_font};
use std::sync::Once;

/// Width of every chart, in pixels of the SVG.
pub(crate) const WIDTH: u32 = 800;
/// Distance from the edges.
pub(crate) const MARGIN: i32 = 22;

/// Text and axes.
pub(crate) const INK: RGBColor = RGBColor(0x1a, 0x1a, 0x1a);
/// Second-rank text and the trivial models.
pub(crate) const FAINT: RGBColor = RGBColor(0x6b, 0x6b, 0x6b);
/// Grid lines.
pub(crate) const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
/// The ground.
pub(crate) const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);

/// Colours of series that people with colour-blindness can tell apart, on white
/// and on dark: Okabe and Ito, "Color Universal Design" (2008). The order keeps
/// neighbours far apart in lightness.
pub(crate) const SERIES: [RGBColor; 5] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
];

/// Size of titles; sizes are heights of a line of type.
const TITLE: f64 = 25.0;
/// Size of all other text.
const TEXT: f64 = 18.5;
/// Lines of a title lie so far apart.
const TITLE_LINE: i32 = 29;
/// Lines of other text lie so far apart.
pub(crate) const TEXT_LINE: i32 = 24;

pub(crate) const FONT: &[u8] = include_bytes!("../../fonts/DejaVuSansCondensed.ttf");
pub(crate) const BOLD: &[u8] = include_bytes!("../../fonts/DejaVuSansCondensed-Bold.ttf");
const FAMILY: &str = "sans-serif";

/// Why a chart could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("a chart cannot be drawn: {0}")]
pub struct ChartError(String);

type Drawn = Result<(), ChartError>;

fn failed(error: impl std::fmt::Display) -> ChartError {
    ChartError(error.to_string())
}

/// A shape that tells series apart without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A circle.
    Circle,
    /// A square on its side.
    Diamond,
    /// A triangle.
    Triangle,
}

impl Shape {
    /// The shape of series `index`.
    pub(crate) fn of(index: usize) -> Self {
        [Self::Circle, Self::Diamond, Self::Triangle][index % 3]
    }
}

/// What stands for something in a chart and in its legend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    /// A measured point.
    Filled(Shape, RGBColor),
    /// A predicted point.
    Hollow(Shape, RGBColor),
    /// A predicted line.
    Line(RGBColor),
    /// A faint line, one of three dash patterns.
    Dashed(usize),
    /// What a trivial model says of one row.
    Tick,
    /// A bar.
    Bar(RGBColor),
}

/// The surface of one chart.
pub(crate) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

/// Draws a chart of a height and gives its SVG.
pub(crate) fn svg(
    height: u32,
    title: &str,
    draw: impl FnOnce(&Canvas<'_>) -> Drawn,
) -> Result<String, ChartError> {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // A font that could not be read shows in a test: nothing could be
        // measured.
        let _ = register_font(FAMILY, FontStyle::Normal, FONT);
        let _ = register_font(FAMILY, FontStyle::Bold, BOLD);
    });
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        area.fill(&PAPER).map_err(failed)?;
        let canvas = Canvas { area };
        draw(&canvas)?;
        canvas.area.present().map_err(failed)?;
    }
    // For screen readers, and so that the picture scales with its column.
    let title = escape(title);
    Ok(text.replacen(
        '>',
        &format!(" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>"),
        1,
    ))
}

/// Text in XML and HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Where text is fixed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    /// Its left end, half way up.
    Left,
    /// Its middle.
    Centre,
    /// Its right end, half way up.
    Right,
}

impl Canvas<'_> {
    fn style(size: f64, bold: bool, color: RGBColor, anchor: Anchor) -> TextStyle<'static> {
        let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
        let horizontal = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Centre => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        (FAMILY, size, style).into_font().color(&color).pos(Pos::new(horizontal, VPos::Center))
    }

    /// Ordinary text.
    pub(crate) fn text(
        &self,
        text: &str,
        at: (i32, i32),
        anchor: Anchor,
        color: RGBColor,
    ) -> Drawn {
        let style = Self::style(TEXT, false, color, anchor);
        self.area.draw_text(text, &style, at).map_err(failed)
    }

    /// Text that reads upwards.
    pub(crate) fn text_upwards(&self, text: &str, at: (i32, i32)) -> Drawn {
        let style = (FAMILY, TEXT, FontStyle::Normal)
            .into_font()
            .transform(FontTransform::Rotate270)
            .color(&INK)
            .pos(Pos::new(HPos::Center, VPos::Center));
        self.area.draw_text(text, &style, at).map_err(failed)
    }

    /// Width of ordinary text.
    pub(crate) fn width(&self, text: &str) -> Result<i32, ChartError> {
        self.measure(text, TEXT, false)
    }

    fn measure(&self, text: &str, size: f64, bold: bool) -> Result<i32, ChartError> {
        let style = Self::style(size, bold, INK, Anchor::Left);
        let (width, _) = self.area.estimate_text_size(text, &style).map_err(failed)?;
        Ok(width as i32)
    }

    fn wrapped(&self, text: &str, size: f64, bold: bool) -> Result<Vec<String>, ChartError> {
        let room = WIDTH as i32 - 2 * MARGIN;
        let mut lines: Vec<String> = Vec::new();
        for word in text.split(' ') {
            let longer = lines.last().map(|line| format!("{line} {word}"));
            match (longer, lines.last_mut()) {
                (Some(longer), Some(last)) if self.measure(&longer, size, bold)? <= room => {
                    *last = longer;
                }
                _ => lines.push(word.to_owned()),
            }
        }
        Ok(lines)
    }

    /// The title, the line that says how to read the chart, and the legend;
    /// gives the y below them.
    pub(crate) fn heading(
        &self,
        title: &str,
        subtitle: &str,
        legend: &[(Mark, String)],
    ) -> Result<i32, ChartError> {
        let mut y = MARGIN + 6;
        for line in self.wrapped(title, TITLE, true)? {
            let style = Self::style(TITLE, true, INK, Anchor::Left);
            self.area.draw_text(&line, &style, (MARGIN, y)).map_err(failed)?;
            y += TITLE_LINE;
        }
        for line in self.wrapped(subtitle, TEXT, false)? {
            self.text(&line, (MARGIN, y), Anchor::Left, FAINT)?;
            y += TEXT_LINE;
        }
        let mut x = MARGIN;
        for (i, (mark, label)) in legend.iter().enumerate() {
            let width = 34 + self.width(label)? + 20;
            if x + width > WIDTH as i32 - MARGIN + 20 && i > 0 {
                x = MARGIN;
                y += TEXT_LINE;
            }
            self.legend_mark(*mark, (x, y))?;
            self.text(label, (x + 34, y), Anchor::Left, INK)?;
            x += width;
        }
        Ok(if legend.is_empty() { y - 4 } else { y + TEXT_LINE - 6 })
    }

    fn legend_mark(&self, mark: Mark, (x, y): (i32, i32)) -> Drawn {
        match mark {
            Mark::Line(color) => self.line(&[(x, y), (x + 26, y)], color, 3),
            Mark::Dashed(pattern) => self.dashed(&[(x, y), (x + 26, y)], pattern),
            Mark::Tick => self.line(&[(x + 13, y - 8), (x + 13, y + 8)], FAINT, 2),
            Mark::Bar(_) => self.bar((x, y - 6), (x + 26, y + 6), mark),
            Mark::Filled(..) | Mark::Hollow(..) => self.mark((x + 13, y), mark),
        }
    }

    /// A line through points.
    pub(crate) fn line(&self, points: &[(i32, i32)], color: RGBColor, width: u32) -> Drawn {
        let style = color.stroke_width(width);
        self.area.draw(&PathElement::new(points.to_vec(), style)).map_err(failed)
    }

    /// A faint dashed line through points.
    pub(crate) fn dashed(&self, points: &[(i32, i32)], pattern: usize) -> Drawn {
        let (dash, gap) = [(9.0, 4.0), (3.0, 3.0), (14.0, 8.0)][pattern % 3];
        let (mut on, mut left) = (true, dash);
        for pair in points.windows(2) {
            let &[from, to] = pair else { continue };
            let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
            let length = dx.hypot(dy);
            let at = |share: f64| {
                let share = share / length.max(1.0);
                (from.0 + (dx * share).round() as i32, from.1 + (dy * share).round() as i32)
            };
            let mut done = 0.0;
            while done < length {
                let step: f64 = f64::min(left, length - done);
                if on {
                    self.line(&[at(done), at(done + step)], FAINT, 2)?;
                }
                done += step;
                left -= step;
                if left <= 0.0 {
                    on = !on;
                    left = if on { dash } else { gap };
                }
            }
        }
        Ok(())
    }

    /// A filled rectangle.
    pub(crate) fn bar(&self, from: (i32, i32), to: (i32, i32), mark: Mark) -> Drawn {
        let color = match mark {
            Mark::Bar(color) | Mark::Line(color) => color,
            Mark::Filled(_, color) | Mark::Hollow(_, color) => color,
            Mark::Dashed(_) | Mark::Tick => FAINT,
        };
        self.area.draw(&Rectangle::new([from, to], color.filled())).map_err(failed)
    }

    /// A faint filled band.
    pub(crate) fn band(&self, outline: &[(i32, i32)], color: RGBColor) -> Drawn {
        self.area.draw(&Polygon::new(outline.to_vec(), color.mix(0.16))).map_err(failed)
    }

    /// A point's mark.
    pub(crate) fn mark(&self, (x, y): (i32, i32), mark: Mark) -> Drawn {
        let (shape, color, filled) = match mark {
            Mark::Filled(shape, color) => (shape, color, true),
            Mark::Hollow(shape, color) => (shape, color, false),
            _ => return Ok(()),
        };
        let outline = match shape {
            Shape::Circle if filled => {
                return self.area.draw(&Circle::new((x, y), 5, color.filled())).map_err(failed);
            }
            Shape::Circle => {
                let style = color.stroke_width(2);
                return self.area.draw(&Circle::new((x, y), 6, style)).map_err(failed);
            }
            Shape::Diamond => vec![(x, y - 7), (x + 7, y), (x, y + 7), (x - 7, y), (x, y - 7)],
            Shape::Triangle => vec![(x, y - 7), (x + 7, y + 5), (x - 7, y + 5), (x, y - 7)],
        };
        if filled {
            self.area.draw(&Polygon::new(outline, color.filled())).map_err(failed)
        } else {
            self.line(&outline, color, 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_titles_wrap_and_text_is_measured_by_the_embedded_font() {
        let long = "many words ".repeat(12);
        let svg = svg(300, &long, |canvas| {
            let narrow = canvas.width("iiii")?;
            assert!(narrow > 0 && canvas.width("mmmm")? > 2 * narrow);
            let below = canvas.heading(&long, "how to read it", &[])?;
            assert!(below > MARGIN + 2 * TITLE_LINE);
            Ok(())
        });
        roxmltree::Document::parse(&svg.unwrap()).unwrap();
    }
}
