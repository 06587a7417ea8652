//! How many blocks an SM holds at once, and what limits it.
//!
//! Rules of the CUDA Occupancy Calculator for compute capability 7.0 and later:
//! registers are given to warps in portions of 256, each of an SM's four
//! sub-partitions has a quarter of them, and warps are spread evenly over the
//! sub-partitions; shared memory is given to blocks in portions of 128 bytes,
//! with what the driver reserves of each block on top.

use crate::{Constant, Profile};
use serde::Serialize;
use simulator::WARP_LANES;

/// Sub-partitions of an SM, each with a scheduler and a quarter of the
/// registers.
const SUB_PARTITIONS: u64 = 4;

/// Registers are given to a warp in portions of this many.
const REGISTER_UNIT: u64 = 256;

/// Shared memory is given to a block in portions of this many bytes.
const SHARED_UNIT: u64 = 128;

/// What a block takes of an SM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockShape {
    /// Warps.
    pub warps: u32,
    /// Registers a thread.
    pub registers: u32,
    /// Shared memory, static and dynamic, in bytes.
    pub shared_bytes: u64,
}

/// How full an SM is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks that an SM holds at once; 0 where a single one does not fit.
    pub blocks_per_sm: u64,
    /// Warps of these blocks.
    pub warps_per_sm: u64,
    /// What does not allow one more block.
    pub limit: Limit,
}

/// What keeps an SM from holding one more block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Warps an SM.
    Warps,
    /// Blocks an SM.
    Blocks,
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
}

impl Occupancy {
    /// That of blocks of this shape, by the profile's limits. `None` where the
    /// profile lacks the warps that an SM holds. Limits that the profile lacks
    /// otherwise are taken as not there.
    pub fn of(block: BlockShape, profile: &Profile) -> Option<Self> {
        let limit = |constant| profile.get(constant).map(|value| value as u64);
        let warps = u64::from(block.warps).max(1);
        let mut most = limit(Constant::WarpsPerSm)? / warps;
        let mut by = Limit::Warps;
        let mut take = |blocks: u64, why| {
            if blocks < most {
                (most, by) = (blocks, why);
            }
        };
        if let Some(blocks) = limit(Constant::BlocksPerSm) {
            take(blocks, Limit::Blocks);
        }
        if let Some(registers) = limit(Constant::RegistersPerSm) {
            take(warps_by_registers(registers, block.registers) / warps, Limit::Registers);
        }
        if let Some(bytes) = limit(Constant::SharedBytesPerSm) {
            let reserved = limit(Constant::SharedBytesReserved).unwrap_or(0);
            if let Some(blocks) = bytes.checked_div(shared_of_block(block.shared_bytes, reserved)) {
                take(blocks, Limit::SharedMemory);
            }
        }
        Some(Self { blocks_per_sm: most, warps_per_sm: most * warps, limit: by })
    }
}

/// Warps that an SM has the registers for, with so many a thread.
pub(crate) fn warps_by_registers(of_sm: u64, a_thread: u32) -> u64 {
    let of_warp = (u64::from(a_thread) * WARP_LANES as u64)
        .next_multiple_of(REGISTER_UNIT)
        .max(REGISTER_UNIT);
    of_sm / SUB_PARTITIONS / of_warp * SUB_PARTITIONS
}

/// Shared memory that a block takes of an SM, what is reserved of each block
/// included; bytes.
pub(crate) fn shared_of_block(bytes: u64, reserved: u64) -> u64 {
    (bytes + reserved).next_multiple_of(SHARED_UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;

    fn of(warps: u32, registers: u32, shared_bytes: u64) -> (u64, Limit) {
        let shape = BlockShape { warps, registers, shared_bytes };
        let occupancy = Occupancy::of(shape, &made_up::profile()).expect("limits");
        assert_eq!(occupancy.warps_per_sm, occupancy.blocks_per_sm * u64::from(warps));
        (occupancy.blocks_per_sm, occupancy.limit)
    }

    /// Against figures of the CUDA Occupancy Calculator for capability 9.0.
    #[test]
    fn each_resource_limits_in_turn() {
        assert_eq!(of(8, 32, 0), (8, Limit::Warps));
        assert_eq!(of(1, 16, 0), (32, Limit::Blocks));
        // 40 registers: 1280 a warp, 12 warps a sub-partition, 48 an SM.
        assert_eq!(of(8, 40, 0), (6, Limit::Registers));
        assert_eq!(of(32, 64, 0), (1, Limit::Registers));
        // 48 KiB and the driver's 1 KiB: 4 of 228 KiB.
        assert_eq!(of(8, 32, 48 << 10), (4, Limit::SharedMemory));
        assert_eq!(of(8, 32, 227 << 10), (1, Limit::SharedMemory));
    }

    #[test]
    fn a_block_that_does_not_fit_is_said() {
        assert_eq!(of(32, 255, 0).0, 0);
        assert_eq!(of(8, 32, 228 << 10), (0, Limit::SharedMemory));
    }
}
