//! What to do about an access: the reason for its counts, counterfactuals,
//! thresholds.
//!
//! Advice is judged against the access's own ideal (its width, its lanes), and
//! every figure in it is counted, never quoted.
//!
//! - [`why`] is about one warp access: the reason for its counts and the
//!   smallest change of its addresses.
//! - [`advice`] is about an access of a run, over the warps of its launch: how
//!   far it is from its own ideal, and the smallest change that helps.
//! - [`counterfactual`] makes the changes and counts them: other layouts of a
//!   buffer, wider accesses, a detour through shared memory.
//! - [`banks`] searches pads and XOR swizzles of arrays in shared memory.
//! - [`sample`] says which warps are looked at where a launch has many.
//! - [`check`] judges the accesses of counted runs by thresholds and by stored
//!   runs, and makes SARIF of what it finds.
//! - [`diff`] lays two runs side by side.
//! - [`pairing`] tells which access of one run is which of another.
//!
//! ```
//! use coalescope_advise::why;
//! use simulator::{Op, RuleSet, WarpAccess};
//!
//! let rules = RuleSet::for_arch("9.0").unwrap();
//! let column = WarpAccess::new(Op::SHARED_LOAD, 4, std::array::from_fn(|lane| lane as u64 * 128));
//! let change = why::explain(&rules, &column).change.unwrap();
//! assert_eq!(change.what, "pad each row of 128 B by 1 element of 4 B");
//! ```

pub mod advice;
pub mod banks;
pub mod check;
pub mod counterfactual;
pub mod diff;
mod layout;
pub mod pairing;
pub mod sample;
pub mod suggest;
pub mod why;

pub use advice::{SiteAdvice, Verdict, advise};
pub use counterfactual::{Counted, Counterfactual, Kind, Outcome};
pub use sample::{Extent, Options, Sample};
