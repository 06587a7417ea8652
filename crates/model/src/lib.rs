//! From counts to traffic to time.
//!
//! A [`Profile`] holds what is known of a device: capacities, rates, latencies,
//! each with its unit, its origin and its spread. [`calibrate`] makes one from
//! measurements; others come from data sheets ([`Profile::shipped`]). [`traffic`](mod@traffic) says
//! what a launch moves between L1, L2 and DRAM. A [`Workload`] holds what a run
//! makes its warps do, and [`time`] says from both, and from what the run moves,
//! how long it takes and what bounds it; [`predict`] puts that into a record.

pub mod calibrate;
#[cfg(test)]
mod made_up;
pub mod occupancy;
pub mod predict;
pub mod profile;
pub mod time;
pub mod traffic;
pub mod workload;

pub use occupancy::{BlockShape, Limit, Occupancy};
pub use profile::{Constant, Kind, Origin, Profile, ProfileError, Quantity};
pub use workload::{Atomics, Workload};
