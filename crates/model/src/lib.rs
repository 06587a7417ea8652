//! From counts to traffic to time.
//!
//! A [`Profile`] holds what is known of a device: capacities, rates, latencies,
//! each with its unit, its origin and its spread.

pub mod profile;

pub use profile::{Constant, Kind, Origin, Profile, ProfileError, Quantity};
