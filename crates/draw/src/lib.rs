//! One warp access as a picture: lanes → sectors → lines → wavefronts, as
//! terminal text and as SVG.
//!
//! It draws what [`simulator::Explanation`] says and computes nothing of its
//! own, so a picture can't disagree with the counts.
//!
//! - [`text`] is for a terminal: lanes and their sectors, each sector with the
//!   words that are used, and the banks where data passes in more than one
//!   wavefront. It contains ANSI styles; strip them where they are not wanted
//!   (`anstream` does).
//! - [`svg`] is for a slide or a page: self-contained, no scripts, no fonts to
//!   load, with a title and a description for screen readers.
//!
//! Colours tell lines apart; they are the eight of Okabe and Ito, which people
//! with colour-blindness can tell apart too, and repeat after eight lines. No
//! information is in the colour alone: sectors and lines carry numbers.
//!
//! It leaves out time and traffic of whole launches: those are charts, not
//! pictures of one access.
//!
//! ```
//! use simulator::{Op, RuleSet, WarpAccess};
//!
//! let rules = RuleSet::for_arch("9.0").unwrap();
//! let access = WarpAccess::new(Op::LOAD, 4, std::array::from_fn(|lane| lane as u64 * 8));
//! let picture = coalescope_draw::svg(&rules, &access, "A stride of two floats");
//! assert!(picture.starts_with("<svg"));
//! ```

mod layout;
mod palette;
mod svg;
mod text;

pub use svg::{inline_svg, svg, svg_with_notes};
pub use text::text;
