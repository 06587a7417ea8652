//! Colours that people with colour-blindness can tell apart: Okabe and Ito,
//! "Color Universal Design" (2008).

/// A colour for the terminal and for SVG, with the text colour that reads on
/// it.
pub(crate) struct Paint {
    /// `#rrggbb`
    pub(crate) hex: &'static str,
    /// The nearest of the 256 terminal colours.
    pub(crate) ansi: u8,
    /// Whether white text reads better on it than black.
    pub(crate) dark: bool,
}

const PAINTS: [Paint; 8] = [
    Paint { hex: "#56b4e9", ansi: 74, dark: false },
    Paint { hex: "#e69f00", ansi: 178, dark: false },
    Paint { hex: "#009e73", ansi: 36, dark: false },
    Paint { hex: "#cc79a7", ansi: 175, dark: false },
    Paint { hex: "#f0e442", ansi: 227, dark: false },
    Paint { hex: "#0072b2", ansi: 25, dark: true },
    Paint { hex: "#d55e00", ansi: 166, dark: true },
    Paint { hex: "#999999", ansi: 246, dark: false },
];

/// The paint of line (or wavefront) number `index`.
pub(crate) fn paint(index: usize) -> &'static Paint {
    &PAINTS[index % PAINTS.len()]
}
