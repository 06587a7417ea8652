//! Charts as PNG, rendered from their SVG with the embedded font: no font of
//! the machine is looked at, so that the picture is the same everywhere.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use crate::charts::{BOLD, FONT};

/// Why a picture could not be rendered.
#[derive(Debug, thiserror::Error)]
#[error("a picture cannot be rendered: {0}")]
pub struct PngError(String);

/// The PNG of an SVG, with `scale` pixels for each of the SVG's.
///
/// # Errors
/// Text that is no SVG; a size that no memory holds.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, PngError> {
    let failed = |error: &dyn std::fmt::Display| PngError(error.to_string());
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.load_font_data(BOLD.to_vec());
    let family = fonts.faces().find_map(|face| Some(face.families.first()?.0.clone()));
    if let Some(family) = family {
        fonts.set_sans_serif_family(family);
    }
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| failed(&error))?;
    let size = tree.size();
    let (width, height) = (size.width() * scale, size.height() * scale);
    let mut pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32)
        .ok_or_else(|| failed(&"it is too large"))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"<svg width="40" height="20" xmlns="http://www.w3.org/2000/svg"><rect width="40" height="20" fill="white"/><text x="2" y="15" font-family="sans-serif" font-size="14">MMM</text></svg>"#;

    #[test]
    fn text_is_there_without_fonts_of_the_machine() {
        let with = png(TEXT, 1.0).unwrap();
        assert_eq!(&with[1..4], b"PNG");
        assert_ne!(with, png(&TEXT.replace("MMM", ""), 1.0).unwrap());
        assert!(png("no picture", 1.0).is_err());
    }
}
