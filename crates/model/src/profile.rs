//! The device profile: what the model knows of a device, as data.
//!
//! ```toml
//! format = "coalescope-profile/1"
//! name = "h200"
//! device = "NVIDIA H200"
//! arch = "9.0"
//! kind = "measured"
//!
//! [constants.dram_latency]
//! value = 650.0
//! unit = "clk"
//! origin = "measured"
//! spread = 4.0
//! source = "calibration/2026-12-01.jsonl: latency-dram"
//! ```
//!
//! A profile may lack constants: what needs them is then not predicted. One
//! made from a data sheet is a [`Kind::Specification`]: its rates are what the
//! vendor states, so times from it are lower bounds.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Version of the format, in each file.
pub const FORMAT: &str = "coalescope-profile/1";

macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        /// Name and text of each profile that ships with the program.
        const SHIPPED: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../profiles/", $name, ".toml")))),+];
    };
}

shipped! { "h200", "v100", "t4", "a100", "h100", "h200-spec", "rtx4090", "l40s" }

/// What is known of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// [`FORMAT`].
    pub format: String,
    /// Short name, as `--device` takes it.
    pub name: String,
    /// The device's name as its driver gives it.
    pub device: String,
    /// Compute capability; names the rule set.
    pub arch: String,
    /// Where the profile as a whole comes from.
    pub kind: Kind,
    /// What else a reader must know: driver, tools, date, what could not be
    /// measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Tag banks, where they were measured; they take the place of the rule
    /// set's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<TagBanks>,
    /// Data banks, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataBanks>,
    /// The numbers.
    pub constants: BTreeMap<Constant, Quantity>,
}

/// How lines fall on the tag banks, recovered from counted warps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagBanks {
    /// Parity of the line index (virtual address ÷ 128) under each mask is one
    /// bit of the bank. Any basis of the same space tells the same lines apart;
    /// this one is in reduced form.
    pub hash: Vec<u64>,
    /// Bits of the line index that were asked for; what the masks say of others
    /// is nothing.
    pub line_bits: u64,
    /// Counted warps that it follows from.
    pub evidence: u64,
    /// Further counted warps, of many lines each.
    pub checked: u64,
    /// Those of them whose tag wavefronts it predicts exactly.
    pub exact: u64,
    /// The record of the warps.
    pub source: String,
}

/// How words fall on the data banks, recovered from counted warps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataBanks {
    /// Number of banks.
    pub banks: u64,
    /// Bytes of a bank's word.
    pub bank_bytes: u64,
    /// The record of the warps.
    pub source: String,
}

/// Where a profile comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Micro-benchmarks on the device (`coalescope calibrate`).
    Measured,
    /// Data sheets: error unknown, times are lower bounds.
    Specification,
}

/// One number of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// In `unit`.
    pub value: f64,
    /// [`Constant::unit`].
    pub unit: String,
    /// How it is known.
    pub origin: Origin,
    /// How far repeated measurements lay from `value` at most, in `unit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// The record that it was measured in, or the document that states it.
    pub source: String,
}

/// How a number is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Measured on the device by itself, or the difference of two measurements.
    Measured,
    /// Solved for together with others from several measurements.
    Fitted,
    /// Told by the device's driver.
    Driver,
    /// Stated by a document.
    Specification,
    /// None of these: taken from a similar device, or from a round figure.
    Assumed,
}

macro_rules! constants {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $unit:literal;)+) => {
        /// The numbers that a profile may have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Constant {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant,)+
        }

        impl Constant {
            /// All of them, in the order of a file.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name in a file.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Its unit. `clk` is a cycle of the SM clock; rates "/SM" are of
            /// one SM, others of the whole device.
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit),+ }
            }
        }
    };
}

constants! {
    /// Streaming multiprocessors.
    SmCount = "sm_count", "SM";
    /// SM clock under load.
    SmClock = "sm_clock", "Hz";
    /// Warps that an SM holds at most.
    WarpsPerSm = "warps_per_sm", "warp/SM";
    /// Blocks that an SM holds at most.
    BlocksPerSm = "blocks_per_sm", "block/SM";
    /// 32-bit registers of an SM.
    RegistersPerSm = "registers_per_sm", "register/SM";
    /// Shared memory that the blocks of an SM can have together.
    SharedBytesPerSm = "shared_bytes_per_sm", "B/SM";
    /// Shared memory that the driver takes of each block for itself.
    SharedBytesReserved = "shared_bytes_reserved", "B/block";
    /// Memory of an SM that L1 and shared memory divide between them.
    L1BytesPerSm = "l1_bytes_per_sm", "B/SM";
    /// L2 as the driver tells it.
    L2Bytes = "l2_bytes", "B";
    /// Working set up to which repeated reads are served by L2.
    L2EffectiveBytes = "l2_effective_bytes", "B";
    /// Parts of L2, each near to some of the SMs: data homed in another part is
    /// kept in both.
    L2Partitions = "l2_partitions", "partition";
    /// Share of L2 that holds data not yet written to DRAM at most.
    L2DirtyShare = "l2_dirty_share", "1";
    /// Share of L2's lines that have partly written sectors at most.
    L2PartialShare = "l2_partial_share", "1";
    /// Data not yet written to DRAM that a launch finds in L2 under the profiler.
    L2DirtyBefore = "l2_dirty_before", "B";
    /// Sectors that two warps of a block store parts of, in one statement: share
    /// of those that L1 writes to L2 once.
    StoreMergeShare = "store_merge_share", "1";
    /// Bytes that L2 fetches from DRAM at least.
    DramAccessBytes = "dram_access_bytes", "B";
    /// Bytes of an open DRAM granule: further accesses to it are cheap.
    DramGranuleBytes = "dram_granule_bytes", "B";
    /// Bytes read from DRAM for each sector that is written in part, once it
    /// leaves L2.
    DramFillBytes = "dram_fill_bytes", "B/sector";
    /// DRAM bandwidth by clock × bus width.
    DramPeak = "dram_peak", "B/s";

    /// Between a load and the use of its value, hit in L1.
    L1Latency = "l1_latency", "clk";
    /// The same, from shared memory.
    SharedLatency = "shared_latency", "clk";
    /// The same, hit in L2 (mean over SMs and slices).
    L2Latency = "l2_latency", "clk";
    /// The same, from DRAM.
    DramLatency = "dram_latency", "clk";
    /// How much longer the slowest of twice as many accesses to DRAM takes.
    DramLatencyDoubling = "dram_latency_doubling", "clk";
    /// Between an arithmetic instruction and one that uses its result.
    InstructionLatency = "instruction_latency", "clk/instruction";
    /// A barrier, whatever the warps of the block.
    BarrierLatency = "barrier_latency", "clk";
    /// What each warp of the block adds to it.
    BarrierWarp = "barrier_warp", "clk/warp";

    /// Warp instructions issued.
    IssueRate = "issue_rate", "instruction/clk/SM";
    /// What a 32-bit product of 64 bits takes of issue, in other instructions.
    WideIssue = "wide_issue", "1";
    /// The same of a warp's part in a barrier.
    BarrierIssue = "barrier_issue", "1";
    /// Memory instructions of 4 bytes a lane or less taken by the load/store unit.
    RequestRate = "request_rate", "request/clk/SM";
    /// Tag wavefronts.
    TagRate = "tag_rate", "wavefront/clk/SM";
    /// Data wavefronts, of global and shared memory.
    DataRate = "data_rate", "wavefront/clk/SM";
    /// Sectors read from L2 by one SM.
    L2ReadRatePerSm = "l2_read_rate_per_sm", "sector/clk/SM";
    /// Sectors written to L2 by one SM.
    L2WriteRatePerSm = "l2_write_rate_per_sm", "sector/clk/SM";
    /// Read requests (lines with missing sectors) sent to L2 by one SM.
    L2ReadRequestRatePerSm = "l2_read_request_rate_per_sm", "request/clk/SM";
    /// Write requests (lines) sent to L2 by one SM.
    L2WriteRequestRatePerSm = "l2_write_request_rate_per_sm", "request/clk/SM";
    /// Sectors read from L2 by all SMs.
    L2ReadRate = "l2_read_rate", "sector/s";
    /// Sectors written to L2 by all SMs.
    L2WriteRate = "l2_write_rate", "sector/s";
    /// Read requests for one sector served by all L2 slices.
    L2ReadRequestRate = "l2_read_request_rate", "request/s";
    /// Requests that write one whole sector served by all L2 slices.
    L2WriteRequestRate = "l2_write_request_rate", "request/s";
    /// Sectors of which a store writes a part, four of a line a request.
    L2PartialRate = "l2_partial_rate", "sector/s";
    /// Requests that write a part of one sector.
    L2PartialRequestRate = "l2_partial_request_rate", "request/s";
    /// Sectors of reductions and atomics on distinct sectors, four of a line a
    /// request.
    L2AtomicRate = "l2_atomic_rate", "sector/s";
    /// Requests of reductions and atomics, one sector of one lane each.
    L2AtomicRequestRate = "l2_atomic_request_rate", "request/s";
    /// The same where the result is used.
    L2AtomicResultRate = "l2_atomic_result_rate", "request/s";
    /// Reductions and atomics (lanes) on one address; or sectors that one slice
    /// changes, each as often as lanes meet at one of its addresses.
    L2SameAddressRate = "l2_same_address_rate", "lane/s";
    /// Lanes of shared-memory atomics on distinct words.
    SharedAtomicRate = "shared_atomic_rate", "lane/clk/SM";
    /// Bytes read from DRAM, reads alone.
    DramReadRate = "dram_read_rate", "B/s";
    /// Bytes written to DRAM, writes alone.
    DramWriteRate = "dram_write_rate", "B/s";
    /// Bytes read and written at one to one.
    DramMixedRate = "dram_mixed_rate", "B/s";
    /// DRAM granules opened to read a line of each.
    DramOpenRate = "dram_open_rate", "granule/s";
    /// Further lines read from open granules.
    DramLineRate = "dram_line_rate", "line/s";
    /// DRAM granules opened to write a line of each.
    DramWriteOpenRate = "dram_write_open_rate", "granule/s";
    /// Further lines written to open granules.
    DramWriteLineRate = "dram_write_line_rate", "line/s";
    /// How many times as long lines take that are read and written by turns.
    DramTurns = "dram_turns", "1";
    /// Loads that one SM can have in flight to L2 and beyond, in sectors.
    SectorsInFlight = "sectors_in_flight", "sector/SM";

    /// From one block's start to the next one's, all SMs together.
    BlockDispatch = "block_dispatch", "s/block";
    /// From the end of a block's last warp to the first instruction of the block
    /// that takes its place on the SM.
    BlockTurnaround = "block_turnaround", "clk/block";
    /// From one warp's start to the next one's, of a block.
    WarpStart = "warp_start", "clk/warp";
    /// An empty kernel between two events.
    LaunchOverhead = "launch_overhead", "s";
    /// What a kernel takes beyond the empty one if each SM has one warp that
    /// reads one line from DRAM: first instruction fetch, address translation,
    /// one DRAM access, drain.
    RampTime = "ramp_time", "s";
    /// Exponent of the p-norm by which terms are combined: large is a hard
    /// maximum.
    OverlapExponent = "overlap_exponent", "1";
    /// The same for what blocks wait for beside their work, where barriers part
    /// the two.
    PhaseOverlap = "phase_overlap", "1";
    /// The same for the giving out of blocks beside all else.
    DispatchOverlap = "dispatch_overlap", "1";
    /// How much longer an access to DRAM takes when reads keep DRAM busy all the
    /// time; it grows with the square of the share of the time that they do.
    DramQueueRead = "dram_queue_read", "1";
    /// How much longer yet where it reads as much as it writes; it grows with the
    /// sixth power of that share.
    DramQueueMixed = "dram_queue_mixed", "1";
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a text is no profile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// No TOML of the right form.
    #[error("{0}")]
    Text(String),
    /// Of another version.
    #[error("the format is `{0}`, and this program reads `{FORMAT}`")]
    Format(String),
    /// A number in another unit.
    #[error("`{constant}` is in `{unit}`; give it in `{}`", constant.unit())]
    Unit {
        /// Which.
        constant: Constant,
        /// What the file says.
        unit: String,
    },
    /// A number that none of the constants can be.
    #[error("`{constant}` is {value}; it must be a finite number of at least 0")]
    Value {
        /// Which.
        constant: Constant,
        /// What the file says.
        value: f64,
    },
}

impl Profile {
    /// A profile that ships with the program, by its name.
    pub fn shipped(name: &str) -> Option<Self> {
        let (_, text) = SHIPPED.iter().find(|(other, _)| *other == name)?;
        Self::from_toml(text).ok()
    }

    /// Names of the profiles that ship with the program.
    pub fn shipped_names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// TOML that is none, unknown fields and constants, wrong units, numbers
    /// that are none.
    pub fn from_toml(text: &str) -> Result<Self, ProfileError> {
        let profile: Self =
            toml::from_str(text).map_err(|error| ProfileError::Text(error.to_string()))?;
        if profile.format != FORMAT {
            return Err(ProfileError::Format(profile.format));
        }
        for (&constant, quantity) in &profile.constants {
            if quantity.unit != constant.unit() {
                return Err(ProfileError::Unit { constant, unit: quantity.unit.clone() });
            }
            let numbers = [Some(quantity.value), quantity.spread];
            if let Some(value) =
                numbers.into_iter().flatten().find(|value| !value.is_finite() || *value < 0.0)
            {
                return Err(ProfileError::Value { constant, value });
            }
        }
        Ok(profile)
    }

    /// The profile as [`Profile::from_toml`] reads it.
    ///
    /// # Errors
    /// What TOML cannot hold; no profile that was read has it.
    pub fn to_toml(&self) -> Result<String, ProfileError> {
        toml::to_string(self).map_err(|error| ProfileError::Text(error.to_string()))
    }

    /// A number with its origin.
    pub fn quantity(&self, constant: Constant) -> Option<&Quantity> {
        self.constants.get(&constant)
    }

    /// A number, in [`Constant::unit`].
    pub fn get(&self, constant: Constant) -> Option<f64> {
        self.quantity(constant).map(|quantity| quantity.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        format = "coalescope-profile/1"
        name = "small"
        device = "Small"
        arch = "9.0"
        kind = "measured"
        [constants.sm_count]
        value = 132
        unit = "SM"
        origin = "driver"
        source = "cuDeviceGetAttribute"
        [constants.dram_latency]
        value = 650.5
        unit = "clk"
        origin = "measured"
        spread = 4.0
        source = "latency"
    "#;

    #[test]
    fn a_profile_is_written_as_it_was_read() {
        let profile = Profile::from_toml(SMALL).expect("a profile");
        assert_eq!(profile.get(Constant::SmCount), Some(132.0));
        assert_eq!(profile.get(Constant::L2Latency), None);
        let text = profile.to_toml().expect("text");
        assert_eq!(Profile::from_toml(&text), Ok(profile));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let unit = Profile::from_toml(&SMALL.replace("\"clk\"", "\"ns\"")).unwrap_err();
        assert_eq!(unit.to_string(), "`dram_latency` is in `ns`; give it in `clk`");
        let value = Profile::from_toml(&SMALL.replace("650.5", "-1.0")).unwrap_err();
        assert!(value.to_string().starts_with("`dram_latency` is -1;"), "{value}");
        let version = Profile::from_toml(&SMALL.replace("profile/1", "profile/2")).unwrap_err();
        assert!(matches!(version, ProfileError::Format(_)));
        let name = Profile::from_toml(&SMALL.replace("dram_latency", "dram_lateness")).unwrap_err();
        assert!(name.to_string().contains("dram_lateness"), "{name}");
    }

    #[test]
    fn shipped_profiles_are_what_they_say() {
        for name in Profile::shipped_names() {
            let profile = Profile::shipped(name).expect(name);
            assert_eq!(profile.name, name);
            assert!(
                simulator::RuleSet::for_arch(&profile.arch).is_some(),
                "{name}: {}",
                profile.arch
            );
            assert!(profile.get(Constant::DramPeak).is_some_and(|peak| peak > 1e11), "{name}");
            for (constant, quantity) in &profile.constants {
                assert!(!quantity.source.is_empty(), "{name}: {constant} has no source");
                let stated = matches!(quantity.origin, Origin::Specification | Origin::Driver);
                assert!(
                    profile.kind == Kind::Measured || stated && quantity.spread.is_none(),
                    "{name}: {constant} is not what a document states"
                );
            }
        }
        assert_eq!(Profile::shipped("no-such-device"), None);
    }

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> = Constant::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), Constant::ALL.len());
    }
}
