//! What to do about an access: the reason for its counts, counterfactuals,
//! thresholds.
//!
//! Advice is judged against the access's own ideal (its width, its lanes), and
//! every figure in it is counted, never quoted.
//!
//! - [`why`] is about one warp access: the reason for its counts and the
//!   smallest change of its addresses.
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

pub mod why;
