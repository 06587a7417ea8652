//! What of a device the traffic depends on, for one launch.

use crate::occupancy;
use crate::profile::{Constant, Kind, Profile};
use scenario::Launch;

/// Bytes of a sector: the rule sets whose caches are modelled have these.
pub const SECTOR_BYTES: u64 = 32;
/// Bytes of a line, likewise.
pub const LINE_BYTES: u64 = 128;

/// How much of an SM's memory can be shared memory, KiB (CUDA C++ Programming
/// Guide, "Compute capability 9.0"). The driver takes the least that holds the
/// blocks that run together; smaller devices lack the larger ones.
const CARVE_OUTS_KIB: [u64; 10] = [0, 8, 16, 32, 64, 100, 132, 164, 196, 228];

/// The caches of a device as one launch finds them.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Blocks that run together on one.
    pub resident_blocks: u32,
    /// What is left to L1 of each SM's memory, bytes.
    pub l1_bytes: u64,
    /// L2, bytes.
    pub l2_bytes: u64,
    /// Parts of L2, each near to some of the SMs. A line has its home in one of
    /// them; SMs of another part read it through a copy in their own.
    pub l2_partitions: u32,
    /// Share of L2 that may hold data newer than DRAM's.
    pub l2_dirty_share: f64,
    /// Share of L2 whose lines may hold partly written sectors.
    pub l2_partial_share: f64,
    /// Data newer than DRAM's that the launch finds in L2, bytes.
    pub l2_dirty_before_bytes: u64,
    /// Bytes that a missing sector makes L2 fetch.
    pub dram_access_bytes: u64,
    /// Bytes of a DRAM granule, opened as one.
    pub dram_granule_bytes: u64,
    /// Of the sectors that a warp stores partly and another warp of its block
    /// stores the rest of in the same statement, how many go to L2 once.
    pub store_merge_share: f64,
}

impl Geometry {
    /// What a launch finds on a device. No data sheet says how much L2 fetches
    /// for a missing sector: with one, it is taken to fetch nothing else.
    ///
    /// # Errors
    /// The constant that the profile lacks.
    pub fn of(
        profile: &Profile,
        launch: &Launch,
        shared_bytes: u64,
        registers: Option<u32>,
    ) -> Result<Self, Constant> {
        let get = |constant| profile.get(constant).ok_or(constant);
        let limits = SmLimits::of(profile)?;
        let resident_blocks = limits.resident_blocks(launch, shared_bytes, registers);
        let or = |constant, default| profile.get(constant).unwrap_or(default);
        Ok(Self {
            sms: get(Constant::SmCount)? as u32,
            resident_blocks,
            l1_bytes: limits.l1_bytes(resident_blocks, shared_bytes),
            l2_bytes: get(Constant::L2Bytes)? as u64,
            l2_partitions: or(Constant::L2Partitions, 1.0) as u32,
            l2_dirty_share: or(Constant::L2DirtyShare, 1.0),
            l2_partial_share: or(Constant::L2PartialShare, 1.0),
            l2_dirty_before_bytes: or(Constant::L2DirtyBefore, 0.0) as u64,
            dram_access_bytes: match profile.kind {
                Kind::Measured => get(Constant::DramAccessBytes)? as u64,
                Kind::Specification => or(Constant::DramAccessBytes, SECTOR_BYTES as f64) as u64,
            },
            dram_granule_bytes: or(Constant::DramGranuleBytes, 256.0) as u64,
            store_merge_share: or(Constant::StoreMergeShare, 0.0),
        })
    }
}

/// The least part of an SM's memory that can be shared memory and has so many
/// bytes; all there is where none has.
pub(crate) fn carve_out(needed: f64) -> f64 {
    let bytes = CARVE_OUTS_KIB.iter().map(|kib| (kib << 10) as f64);
    bytes.into_iter().find(|bytes| *bytes >= needed).unwrap_or(f64::INFINITY)
}

/// What an SM has for the blocks that run on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmLimits {
    /// Warps at most.
    pub warps: u64,
    /// Blocks at most.
    pub blocks: u64,
    /// 32-bit registers.
    pub registers: u64,
    /// Shared memory at most, bytes.
    pub shared_bytes: u64,
    /// Shared memory that the driver takes of each block, bytes.
    pub reserved_bytes: u64,
    /// L1 and shared memory together, bytes.
    pub memory_bytes: u64,
}

impl SmLimits {
    /// The limits in a profile.
    ///
    /// # Errors
    /// The constant that the profile lacks.
    pub fn of(profile: &Profile) -> Result<Self, Constant> {
        let get = |constant| profile.get(constant).map(|value| value as u64).ok_or(constant);
        Ok(Self {
            warps: get(Constant::WarpsPerSm)?,
            blocks: get(Constant::BlocksPerSm)?,
            registers: get(Constant::RegistersPerSm)?,
            shared_bytes: get(Constant::SharedBytesPerSm)?,
            // Before compute capability 8.0 the driver reserves none.
            reserved_bytes: get(Constant::SharedBytesReserved).unwrap_or(0),
            memory_bytes: get(Constant::L1BytesPerSm)?,
        })
    }

    /// Occupancy: how many blocks of a launch run together on an SM, at least 1.
    /// Where the registers a thread are not known they are taken not to matter.
    pub fn resident_blocks(
        &self,
        launch: &Launch,
        shared_bytes: u64,
        registers: Option<u32>,
    ) -> u32 {
        let warps = u64::from(launch.warps_per_block()).max(1);
        let mut blocks = self.blocks.min(self.warps / warps);
        if let Some(registers) = registers.or(launch.registers).filter(|&n| n > 0) {
            blocks = blocks.min(occupancy::warps_by_registers(self.registers, registers) / warps);
        }
        let of_block = self.shared_of_block(shared_bytes);
        blocks = blocks.min(self.shared_bytes.checked_div(of_block).unwrap_or(blocks));
        u32::try_from(blocks).unwrap_or(u32::MAX).max(1)
    }

    /// What is left to L1 where so many blocks run together, bytes.
    pub fn l1_bytes(&self, resident_blocks: u32, shared_bytes: u64) -> u64 {
        let needed = u64::from(resident_blocks) * self.shared_of_block(shared_bytes);
        let carved = (carve_out(needed as f64) as u64).min(self.shared_bytes);
        self.memory_bytes.saturating_sub(carved)
    }

    fn shared_of_block(&self, shared_bytes: u64) -> u64 {
        occupancy::shared_of_block(shared_bytes, self.reserved_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compute capability 9.0.
    const HOPPER: SmLimits = SmLimits {
        warps: 64,
        blocks: 32,
        registers: 1 << 16,
        shared_bytes: 228 << 10,
        reserved_bytes: 1 << 10,
        memory_bytes: 256 << 10,
    };

    fn launch(threads: u32) -> Launch {
        Launch { grid: [1; 3], block: [threads, 1, 1], registers: None, dynamic_shared_bytes: 0 }
    }

    #[test]
    fn each_limit_binds_in_turn() {
        let blocks = |threads, shared, registers| {
            HOPPER.resident_blocks(&launch(threads), shared, registers)
        };
        assert_eq!(blocks(256, 0, None), 8, "warps");
        assert_eq!(blocks(32, 0, None), 32, "blocks");
        assert_eq!(blocks(33, 0, Some(32)), 32, "two warps a block");
        assert_eq!(blocks(256, 0, Some(33)), 6, "33 registers are 40: 12 warps in each part");
        assert_eq!(blocks(256, 48 << 10, None), 4, "shared memory: 49 of 228 KiB");
        assert_eq!(blocks(1024, 227 << 10, Some(64)), 1);
    }

    #[test]
    fn shared_memory_is_carved_out_of_l1() {
        assert_eq!(HOPPER.l1_bytes(8, 0), 248 << 10, "8 reserved KiB");
        assert_eq!(HOPPER.l1_bytes(4, 48 << 10), (256 - 196) << 10);
        assert_eq!(HOPPER.l1_bytes(1, 227 << 10), 28 << 10);
    }
}
