//! From counts to traffic to time.
//!
//! A [`Profile`] holds what is known of a device: capacities, rates, latencies,
//! each with its unit, its origin and its spread. [`traffic`] says what a launch
//! moves between L1, L2 and DRAM.
//! each with its unit, its origin and its spread. A [`Workload`] holds what a run
//! makes its warps do.

#[cfg(test)]
mod made_up;
pub mod occupancy;
pub mod profile;
pub mod traffic;
pub mod workload;

pub use occupancy::{BlockShape, Limit, Occupancy};
pub use profile::{Constant, Kind, Origin, Profile, ProfileError, Quantity};
pub use workload::Workload;
