//! The rule set of an architecture: everything that differs between compute
//! capabilities, as data read from `arch/*.toml`.
//!
//! A file names the compute capabilities it holds for, how well its rules are
//! known, and one table for each part of the memory pipeline that it
//! describes. What a file leaves out, [`Counts`](crate::Counts) leaves out.
//!
//! ```
//! use coalescope_simulator::{Op, RuleSet, WarpAccess};
//!
//! // A made-up GPU with 64-byte sectors.
//! let rules = RuleSet::from_toml(r#"
//!     archs = ["made-up"]
//!     name = "Made-up"
//!     evidence = "hypothesis"
//!     note = "An example."
//!     widths = [1, 2, 4, 8, 16]
//!     [request]
//!     lanes = 32
//!     [cache]
//!     line_bytes = 128
//!     sector_bytes = 64
//! "#)?;
//! let stride_2 = WarpAccess::new(Op::LOAD, 4, std::array::from_fn(|lane| lane as u64 * 8));
//! assert_eq!(rules.count(&stride_2).sectors, Some(4));
//! # Ok::<(), coalescope_simulator::RuleError>(())
//! ```

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::Deserialize;

use crate::access::{AtomicOp, Op, OpKind, Space, ValueKind, WARP_LANES};
use crate::fast::FastRules;
use crate::stages::drain::KnownBatches;

/// The files shipped with the crate, oldest architecture first, with the
/// architectures that each is for.
const FILES: &[(&[&str], &str)] = &[
    (&["1.0", "1.1"], include_str!("../arch/1.0.toml")),
    (&["1.2", "1.3"], include_str!("../arch/1.2.toml")),
    (&["2.0", "2.1"], include_str!("../arch/2.0.toml")),
    (&["3.0", "3.2"], include_str!("../arch/3.0.toml")),
    (&["3.0-bank8", "3.2-bank8"], include_str!("../arch/3.0-bank8.toml")),
    (&["3.5", "3.7"], include_str!("../arch/3.5.toml")),
    (&["5.0", "5.2", "5.3", "6.0", "6.1", "6.2"], include_str!("../arch/5.0.toml")),
    (&["7.0", "7.2", "7.5"], include_str!("../arch/7.0.toml")),
    (&["8.0", "8.6", "8.7", "8.9"], include_str!("../arch/8.0.toml")),
    (&["9.0"], include_str!("../arch/9.0.toml")),
    (&["10.0", "10.3", "11.0", "12.0", "12.1"], include_str!("../arch/10.0.toml")),
];

/// How well the rules of a file are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Compared with a device's own counters, record by record.
    Measured,
    /// Stated by the vendor, not compared with counters here.
    Documented,
    /// Assumed.
    Hypothesis,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Documented => "documented",
            Self::Hypothesis => "hypothesis",
        })
    }
}

/// The rule set of one or more compute capabilities.
///
/// It is made from TOML ([`RuleSet::from_toml`]) or taken from those shipped
/// ([`RuleSet::for_arch`]), and checked once; counting never fails.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSet {
    data: RuleData,
    inexact: Vec<ClassMask>,
    /// By operation and log2 of the width.
    exactness: [[Exactness; WIDTHS]; OPS],
    fast: Option<FastRules>,
}

/// Room for the widths 1 to 32 bytes, by their log2.
const WIDTHS: usize = 8;
/// Room for the operation names.
const OPS: usize = 32;

/// Whether the accesses of one operation and width are exact: with fewer tag
/// wavefronts than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exactness(u32);

impl Exactness {
    const ALWAYS: Self = Self(u32::MAX);
    const NEVER: Self = Self(0);
    /// It depends on more; ask the classes. (No access has as many tag
    /// wavefronts.)
    const DEPENDS: Self = Self(u32::MAX - 1);
}

/// The data of a rule set: one field for each key of an `arch/*.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleData {
    /// The compute capabilities it holds for, as `--arch` spells them.
    pub archs: Vec<String>,
    /// Name of the architecture.
    pub name: String,
    /// How well the rules are known.
    pub evidence: Evidence,
    /// Where they come from and what is doubtful, in a sentence or two.
    pub note: String,
    /// Widths that a lane may have, in bytes.
    pub widths: Vec<u8>,
    /// Whether it has `cp.async`.
    #[serde(default)]
    pub async_copy: bool,
    /// How an instruction to global or local memory is split into requests. With
    /// [`tag`](Self::tag) it is whole warps, `lanes = 32` without `bytes`: the tag
    /// stage takes the lines of one request, and its lanes are all of the warp.
    pub request: LaneGroups,
    /// Lines and sectors of the first-level cache. Left out where memory is
    /// reached by transactions of several sizes.
    #[serde(default)]
    pub cache: Option<Cache>,
    /// Transactions of several sizes (CC 1.x–2.x).
    #[serde(default)]
    pub transactions: Option<TransactionRule>,
    /// The tag stage of the first-level cache.
    #[serde(default)]
    pub tag: Option<TagStage>,
    /// The data stage of the first-level cache.
    #[serde(default)]
    pub data: Option<DataStage>,
    /// How reductions and atomics pass the tag stage.
    #[serde(default)]
    pub atomic: Option<AtomicStage>,
    /// Local memory: one request of the lanes that go together when left out.
    #[serde(default)]
    pub local: Option<LocalMemory>,
    /// Shared memory.
    #[serde(default)]
    pub shared: Option<SharedMemory>,
    /// How `cp.async` passes from global to shared memory.
    #[serde(default)]
    pub copy: Option<CopyStage>,
    /// Classes of access whose counts are not known to be the device's own.
    #[serde(default)]
    pub inexact: Vec<InexactClass>,
}

/// Consecutive lanes that go together: `lanes`, or fewer so that the group
/// moves at most `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneGroups {
    /// At most so many lanes.
    pub lanes: u8,
    /// At most so many bytes; no limit when left out.
    #[serde(default)]
    pub bytes: Option<u16>,
}

impl LaneGroups {
    /// Lanes in a group of an access of `width` bytes a lane: 1..=32.
    #[inline]
    pub fn lanes(&self, width: u8) -> u32 {
        let fit = self.bytes.map_or(u32::MAX, |bytes| u32::from(bytes) / u32::from(width.max(1)));
        u32::from(self.lanes).min(fit).clamp(1, WARP_LANES as u32)
    }
}

/// Lines and sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Bytes in a line, the unit of tags.
    pub line_bytes: u32,
    /// Bytes in a sector, the unit of traffic.
    pub sector_bytes: u32,
    /// Whether a cold load or store sends to L2 exactly the sectors counted
    /// (`l2_sectors` = `sectors`).
    #[serde(default)]
    pub sectors_reach_l2: bool,
}

/// Transactions of several sizes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, tag = "rule")]
pub enum TransactionRule {
    /// CC 1.0/1.1: the k-th lane of a request must access the k-th word of an
    /// aligned segment; otherwise one transaction a lane.
    InOrder {
        /// Segments of a request that obeys, by width.
        segments: Vec<InOrderSegment>,
        /// Size of the transactions otherwise, in bytes.
        fallback_bytes: u32,
    },
    /// CC 1.2/1.3: the aligned segment of the lowest lane not yet served, with
    /// all lanes in it, halved while only one half is used.
    Shrinking {
        /// Size of the segment by width.
        segments: Vec<WidthBytes>,
        /// Smallest size, in bytes.
        smallest_bytes: u32,
    },
    /// CC 2.x: the distinct aligned blocks of a request.
    Blocks {
        /// Size of a block, in bytes.
        bytes: u32,
        /// Operations with another size.
        #[serde(default)]
        except: Vec<OpBytes>,
    },
}

/// Segments of an in-order request (CC 1.0/1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InOrderSegment {
    /// Bytes a lane.
    pub width: u8,
    /// Bytes in one segment.
    pub bytes: u32,
    /// Consecutive segments that the request fills.
    pub count: u32,
}

/// A size for a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WidthBytes {
    /// Bytes a lane.
    pub width: u8,
    /// Size in bytes.
    pub bytes: u32,
}

/// A size for some operations.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpBytes {
    /// Operation names, as the `warp` lines spell them.
    pub ops: Vec<String>,
    /// Size in bytes.
    pub bytes: u32,
}

/// The tag stage: as many banks as `hash` selects, each taking one line a
/// wavefront.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagStage {
    /// For each bit of the bank number, lowest first, the mask of bits of the
    /// line index (address ÷ line size) whose parity it is.
    pub hash: Vec<u64>,
}

/// The data stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataStage {
    /// Number of banks.
    pub banks: u32,
    /// Bytes a bank gives in a wavefront.
    pub bank_bytes: u32,
    /// Lanes that pass together.
    pub group: LaneGroups,
    /// Tag wavefronts whose lanes a store of at least `bank_bytes` a lane
    /// gathers before it enters the data stage.
    pub store_gather: u8,
    /// The same for narrower stores.
    pub narrow_store_gather: u8,
    /// How the tag wavefronts beyond these pass.
    pub store_drain: StoreDrain,
}

/// How the lines of a store leave for L2, which decides what of its later tag
/// wavefronts passes the data stage together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreDrain {
    /// Cycles from the writing of a gather until its first line leaves.
    pub latency: u8,
    /// Cycles that a gather waits at least for another wavefront.
    pub patience: u8,
    /// The write of a gather.
    pub write: StoreWrite,
    /// The write of a gather of lanes narrower than `bank_bytes`.
    pub narrow_write: StoreWrite,
}

/// How the writing of a gather keeps lines from leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreWrite {
    /// Bit *n*: no line leaves in the cycle *n* + 1 after the write is ordered.
    pub cycles: u32,
    /// Whether that holds for the lines of all tag banks, or only of those that
    /// are written.
    pub all_banks: bool,
}

/// How reductions and atomics pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtomicStage {
    /// Data wavefronts of an atomic for one of a reduction, 1 at least: on CC 9.0
    /// two, one for the operands and one for the results.
    pub result_passes: u8,
    /// Bits of the bank number that do not separate banks in a tag round in
    /// which every line has one lane.
    pub single_lane_merged_banks: u32,
    /// Bytes under one tag for compare-and-swap, whose two operands fill the
    /// packet to L2 twice as fast; the line when left out.
    #[serde(default)]
    pub cas_tag_bytes: Option<u32>,
}

/// Local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalMemory {
    /// Bytes a lane of a request: a wider access is several.
    pub request_bytes: u8,
}

/// How `cp.async` passes: its lanes read the data banks at one address and
/// write them at another, each bank serving one lane a pass on either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyStage {
    /// Tag wavefronts of the instruction beyond those of a load.
    pub extra_tag_wavefronts: u32,
    /// Data wavefronts of the instruction beyond the passes.
    pub extra_data_wavefronts: u32,
}

/// Shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedMemory {
    /// Number of banks.
    pub banks: u32,
    /// Bytes of a bank's word.
    pub bank_bytes: u32,
    /// How an instruction is split into requests: not at all when left out.
    #[serde(default = "whole_warp")]
    pub request: LaneGroups,
    /// Lanes that pass together.
    pub group: LaneGroups,
    /// Widths it is stated for, in bytes a lane.
    pub widths: Vec<u8>,
    /// Consecutive rows (of banks × bank_bytes) within which a bank serves all
    /// words at once: 1, or 2 for Kepler's 8-byte-wide banks with 4-byte
    /// words.
    #[serde(default = "one")]
    pub merged_rows: u32,
    /// Whether lanes that share a word are served together. CC 1.x broadcasts
    /// one word a pass and leaves open which; there such an access counts only
    /// when the choice does not matter.
    #[serde(default = "yes")]
    pub broadcast: bool,
    /// Loads whose lanes pass in other groups.
    #[serde(default)]
    pub load_groups: Vec<SharedLoadGroup>,
    /// Whether 64-bit loads of which one half is used ([`ValueKind::LowWord`])
    /// are 32-bit loads, as those of the recorded warps are.
    #[serde(default)]
    pub narrows_half_used_loads: bool,
    /// Reductions and atomics that the memory itself does; others are loops of
    /// instructions. Not defined when left out.
    #[serde(default)]
    pub atomic: Option<SharedAtomics>,
}

/// Reductions and atomics on integers in shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedAtomics {
    /// Widths that it does, in bytes a lane.
    pub widths: Vec<u8>,
    /// Wavefronts of a compare-and-swap for one of the others, 1 at least: it has
    /// two operands.
    pub cas_passes: u8,
}

fn whole_warp() -> LaneGroups {
    LaneGroups { lanes: WARP_LANES as u8, bytes: None }
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

/// A shared load whose lanes pass in groups of their own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedLoadGroup {
    /// Bytes a lane.
    pub width: u8,
    /// Lanes that pass together.
    pub lanes: u8,
    /// Whether only when the lanes of each pair have one address, or one of
    /// them is off; for one of these distances in lane number (1: lanes 2i and
    /// 2i + 1). Always when empty.
    #[serde(default)]
    pub when_pairs_agree: Vec<u8>,
}

/// A class of access whose counts are not known to be the device's own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InexactClass {
    /// Operation names, as the `warp` lines spell them; all when empty.
    #[serde(default)]
    pub ops: Vec<String>,
    /// Widths in bytes a lane; all when empty.
    #[serde(default)]
    pub widths: Vec<u8>,
    /// `atomic` texts; all operations, atomics or not, when empty.
    #[serde(default)]
    pub atomics: Vec<String>,
    /// `type` texts; all when empty.
    #[serde(default)]
    pub types: Vec<String>,
    /// Only accesses of more tag wavefronts than this.
    #[serde(default)]
    pub above_tag_wavefronts: u32,
    /// Why.
    pub reason: String,
}

/// An [`InexactClass`] as sets of bits, so that no text is compared while
/// counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClassMask {
    /// Bit [`Op::index`].
    ops: u32,
    /// Bit log2 of the width.
    widths: u8,
    /// Bit [`AtomicOp`] as a number.
    atomics: u16,
    any_atomic: bool,
    /// For each width, bit [`ValueKind`] as a number.
    types: [u8; 8],
    any_type: bool,
    above_tag_wavefronts: u32,
}

impl Exactness {
    /// What two classes say together.
    fn and(self, other: Self) -> Self {
        if self == Self::NEVER || other == Self::NEVER {
            Self::NEVER
        } else if self == Self::DEPENDS || other == Self::DEPENDS {
            Self::DEPENDS
        } else {
            Self(self.0.min(other.0))
        }
    }
}

impl ClassMask {
    fn new(class: &InexactClass) -> Self {
        let mut mask = Self {
            ops: 0,
            widths: 0,
            atomics: 0,
            any_atomic: class.atomics.is_empty(),
            types: [0; 8],
            any_type: class.types.is_empty(),
            above_tag_wavefronts: class.above_tag_wavefronts,
        };
        for (index, name) in Op::names().enumerate() {
            if class.ops.is_empty() || class.ops.iter().any(|op| op == name) {
                mask.ops |= 1 << index;
            }
        }
        for width in [1u8, 2, 4, 8, 16, 32] {
            if class.widths.is_empty() || class.widths.contains(&width) {
                mask.widths |= 1 << width.trailing_zeros();
            }
        }
        for atomic in class.atomics.iter().filter_map(|text| AtomicOp::parse(text)) {
            mask.atomics |= 1 << atomic as u32;
        }
        for (kind, width) in class.types.iter().filter_map(|text| ValueKind::parse(text)) {
            mask.types[width.trailing_zeros() as usize % 8] |= 1 << kind as u32;
        }
        mask
    }

    /// Whether some access of this operation and log2 of the width is in it.
    fn concerns(&self, op: u32, width: usize) -> bool {
        self.ops >> op & 1 == 1 && self.widths >> width & 1 == 1
    }

    /// What it says of the operations and widths that it concerns.
    fn exactness(&self) -> Exactness {
        match self.above_tag_wavefronts {
            _ if !self.any_atomic || !self.any_type => Exactness::DEPENDS,
            0 => Exactness::NEVER,
            above => Exactness(above.saturating_add(1).min(Exactness::DEPENDS.0 - 1)),
        }
    }

    fn holds(&self, op: &Op, width: u8, tag_wavefronts: Option<u32>) -> bool {
        let size = width.trailing_zeros() % 8;
        let atomic = match op.kind {
            OpKind::Reduction(atomic) | OpKind::Atomic(atomic) => 1u16 << atomic as u32,
            _ => 0,
        };
        self.ops >> op.index() & 1 == 1
            && self.widths >> size & 1 == 1
            && (self.any_atomic || self.atomics & atomic != 0)
            && (self.any_type || self.types[size as usize] >> op.value as u32 & 1 == 1)
            && (self.above_tag_wavefronts == 0
                || tag_wavefronts.is_some_and(|count| count > self.above_tag_wavefronts))
    }
}

/// Why a rule file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleError {
    /// Not TOML, or not of the form of [`RuleData`]; the parser's message.
    Toml(String),
    /// A value that no engine could work with.
    Value {
        /// The key, from the root of the file.
        key: &'static str,
        /// What is wrong, with the value.
        reason: String,
    },
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Toml(message) => f.write_str(message),
            Self::Value { key, reason } => write!(f, "{key}: {reason}"),
        }
    }
}

impl core::error::Error for RuleError {}

fn refuse(key: &'static str, reason: String) -> Result<(), RuleError> {
    Err(RuleError::Value { key, reason })
}

/// Most bytes of a line, a sector or a bank's word: what 32 lanes move of them can be
/// counted.
const LARGEST: u32 = 1 << 16;

fn require_power_of_two(key: &'static str, value: u32, least: u32) -> Result<(), RuleError> {
    if value.is_power_of_two() && (least..=LARGEST).contains(&value) {
        return Ok(());
    }
    refuse(
        key,
        alloc::format!("{value} is no power of two of at least {least} and at most {LARGEST}"),
    )
}

impl RuleData {
    /// Whether an engine can work with these values.
    fn validate(&self) -> Result<(), RuleError> {
        if self.archs.is_empty() {
            refuse("archs", "names no architecture".to_owned())?;
        }
        if let Some(width) = self.widths.iter().find(|w| ![1, 2, 4, 8, 16, 32].contains(*w)) {
            refuse("widths", alloc::format!("{width} is none of 1, 2, 4, 8, 16, 32"))?;
        }
        let widest = u32::from(self.widths.iter().copied().max().unwrap_or(1));
        let groups = |key, groups: LaneGroups| {
            if groups.lanes == 0 || usize::from(groups.lanes) > WARP_LANES {
                return refuse(key, alloc::format!("{} lanes: not in 1..=32", groups.lanes));
            }
            require_power_of_two(key, u32::from(groups.lanes), 1)?;
            require_power_of_two(key, u32::from(groups.bytes.unwrap_or(1)), 1)
        };
        groups("request", self.request)?;
        match (&self.cache, &self.transactions) {
            (None, None) => {
                refuse("cache", "either cache or transactions must be there".to_owned())?;
            }
            (Some(_), Some(_)) if self.tag.is_some() => {
                refuse("tag", "a tag stage and transactions exclude each other".to_owned())?;
            }
            _ => {}
        }
        if let Some(cache) = self.cache {
            require_power_of_two("cache.sector_bytes", cache.sector_bytes, widest)?;
            require_power_of_two("cache.line_bytes", cache.line_bytes, cache.sector_bytes)?;
        } else if self.tag.is_some() || self.data.is_some() || self.atomic.is_some() {
            refuse("cache", "tag, data and atomic need it".to_owned())?;
        }
        match &self.transactions {
            Some(TransactionRule::InOrder { segments, fallback_bytes }) => {
                require_power_of_two("transactions.fallback_bytes", *fallback_bytes, widest)?;
                for segment in segments {
                    require_power_of_two("transactions.segments.bytes", segment.bytes, 1)?;
                    let lanes = self.request.lanes(segment.width);
                    if segment.bytes * segment.count != lanes * u32::from(segment.width) {
                        refuse(
                            "transactions.segments",
                            alloc::format!(
                                "{} segments of {} bytes do not hold {lanes} lanes of {} bytes",
                                segment.count,
                                segment.bytes,
                                segment.width
                            ),
                        )?;
                    }
                }
            }
            Some(TransactionRule::Shrinking { segments, smallest_bytes }) => {
                require_power_of_two("transactions.smallest_bytes", *smallest_bytes, widest)?;
                for segment in segments {
                    require_power_of_two(
                        "transactions.segments.bytes",
                        segment.bytes,
                        *smallest_bytes,
                    )?;
                }
                if let Some(width) =
                    self.widths.iter().find(|w| !segments.iter().any(|s| s.width == **w))
                {
                    refuse(
                        "transactions.segments",
                        alloc::format!("no segment for width {width}"),
                    )?;
                }
            }
            Some(TransactionRule::Blocks { bytes, except }) => {
                require_power_of_two("transactions.bytes", *bytes, widest)?;
                for entry in except {
                    require_power_of_two("transactions.except.bytes", entry.bytes, widest)?;
                    known_ops("transactions.except.ops", &entry.ops)?;
                }
            }
            None => {}
        }
        if let Some(tag) = &self.tag
            && (tag.hash.is_empty() || tag.hash.len() > 5)
        {
            refuse("tag.hash", alloc::format!("{} bits: not in 1..=5", tag.hash.len()))?;
        }
        if self.tag.is_some() && self.request != (LaneGroups { lanes: 32, bytes: None }) {
            let reason = "a tag stage takes whole warps: lanes = 32, no bytes; without tag, data \
                          and atomic other groups may be";
            refuse("request", reason.to_owned())?;
        }
        if let Some(data) = self.data {
            require_power_of_two("data.banks", data.banks, 1)?;
            require_power_of_two("data.bank_bytes", data.bank_bytes, 1)?;
            groups("data.group", data.group)?;
            if data.banks > MAX_BANKS {
                refuse("data.banks", alloc::format!("{} is above {MAX_BANKS}", data.banks))?;
            }
            if self.tag.is_none() {
                refuse("tag", "data needs it".to_owned())?;
            }
            if data.store_gather == 0 || data.narrow_store_gather == 0 {
                refuse("data.store_gather", "a store gathers 1 wavefront at least".to_owned())?;
            }
        } else if self.atomic.is_some() {
            refuse("data", "atomic needs it".to_owned())?;
        }
        if self.atomic.is_some_and(|atomic| atomic.result_passes == 0) {
            refuse(
                "atomic.result_passes",
                "0: an atomic passes once at least, with its operands".to_owned(),
            )?;
        }
        if let Some(atomic) = self.atomic
            && let (Some(bytes), Some(cache)) = (atomic.cas_tag_bytes, self.cache)
        {
            require_power_of_two("atomic.cas_tag_bytes", bytes, widest)?;
            if bytes > cache.line_bytes {
                refuse("atomic.cas_tag_bytes", alloc::format!("{bytes} is more than a line"))?;
            }
        }
        if let Some(local) = self.local {
            // A word of a lane is in one piece.
            require_power_of_two("local.request_bytes", u32::from(local.request_bytes), 4)?;
        }
        if self.copy.is_some() && (self.data.is_none() || self.shared.is_none()) {
            refuse("copy", "it needs data and shared".to_owned())?;
        }
        if let Some(shared) = &self.shared {
            require_power_of_two("shared.banks", shared.banks, 1)?;
            require_power_of_two("shared.bank_bytes", shared.bank_bytes, 1)?;
            require_power_of_two("shared.merged_rows", shared.merged_rows, 1)?;
            groups("shared.request", shared.request)?;
            groups("shared.group", shared.group)?;
            if let Some(width) = shared.widths.iter().find(|width| !self.widths.contains(width)) {
                refuse("shared.widths", alloc::format!("{width} is not among widths"))?;
            }
            if shared.banks > MAX_BANKS {
                refuse("shared.banks", alloc::format!("{} is above {MAX_BANKS}", shared.banks))?;
            }
            if shared.atomic.as_ref().is_some_and(|atomic| atomic.cas_passes == 0) {
                refuse(
                    "shared.atomic.cas_passes",
                    "0: a compare-and-swap passes once at least".to_owned(),
                )?;
            }
            for load in &shared.load_groups {
                groups("shared.load_groups", LaneGroups { lanes: load.lanes, bytes: None })?;
                for &distance in &load.when_pairs_agree {
                    require_power_of_two(
                        "shared.load_groups.when_pairs_agree",
                        u32::from(distance),
                        1,
                    )?;
                }
            }
        }
        for class in &self.inexact {
            known_ops("inexact.ops", &class.ops)?;
            if let Some(text) = class.atomics.iter().find(|text| AtomicOp::parse(text).is_none()) {
                refuse("inexact.atomics", alloc::format!("unknown atomic \"{text}\""))?;
            }
            if let Some(text) = class.types.iter().find(|text| ValueKind::parse(text).is_none()) {
                refuse("inexact.types", alloc::format!("unknown type \"{text}\""))?;
            }
        }
        Ok(())
    }
}

impl RuleData {
    /// What the fast path needs, if the geometry is the one it is written for.
    fn fast(&self) -> Option<FastRules> {
        let whole_warp = LaneGroups { lanes: WARP_LANES as u8, bytes: None };
        let cache = self.cache?;
        if (cache.line_bytes, cache.sector_bytes, self.request) != (128, 32, whole_warp)
            || self.transactions.is_some()
        {
            return None;
        }
        let row = LaneGroups { lanes: WARP_LANES as u8, bytes: Some(128) };
        let (hash, data) = match (&self.tag, self.data) {
            (None, None) => ([0, 0], None),
            (Some(tag), Some(data))
                if tag.hash.len() <= 2
                    && (data.banks, data.bank_bytes, data.group) == (32, 4, row) =>
            {
                let mask = |bit: usize| tag.hash.get(bit).copied().unwrap_or(0);
                ([mask(0), mask(1)], Some(data))
            }
            _ => return None,
        };
        Some(FastRules {
            hash,
            banks: self.tag.as_ref().map_or(1, TagStage::banks),
            data,
            batches: data.map(|_| [KnownBatches::new(), KnownBatches::new()]),
            sectors_reach_l2: cache.sectors_reach_l2,
        })
    }
}

/// Most banks that the engine's counters hold.
pub(crate) const MAX_BANKS: u32 = 64;

fn known_ops(key: &'static str, ops: &[String]) -> Result<(), RuleError> {
    match ops.iter().find(|op| !Op::names().any(|name| name == **op)) {
        Some(op) => refuse(key, alloc::format!("unknown op \"{op}\"")),
        None => Ok(()),
    }
}

impl RuleSet {
    /// Reads and checks the text of a rule file.
    pub fn from_toml(text: &str) -> Result<Self, RuleError> {
        Self::new(toml::from_str(text).map_err(|error| RuleError::Toml(error.to_string()))?)
    }

    /// Checks rules that are already data.
    pub fn new(data: RuleData) -> Result<Self, RuleError> {
        data.validate()?;
        let inexact: Vec<ClassMask> = data.inexact.iter().map(ClassMask::new).collect();
        let exactness = core::array::from_fn(|op| {
            core::array::from_fn(|width| {
                if data.evidence == Evidence::Hypothesis {
                    return Exactness::NEVER;
                }
                let of_class = inexact.iter().filter(|class| class.concerns(op as u32, width));
                of_class.map(ClassMask::exactness).fold(Exactness::ALWAYS, Exactness::and)
            })
        });
        let fast = data.fast();
        Ok(Self { data, inexact, exactness, fast })
    }

    /// The shipped rule set for a compute capability ("9.0"); `None` when
    /// there is none. The rules are read at each call: keep them.
    pub fn for_arch(arch: &str) -> Option<Self> {
        let (archs, text) = FILES.iter().find(|(archs, _)| archs.contains(&arch))?;
        Some(Self::from_shipped(archs, text))
    }

    /// All shipped rule sets, oldest architecture first.
    pub fn shipped() -> impl Iterator<Item = Self> {
        FILES.iter().map(|(archs, text)| Self::from_shipped(archs, text))
    }

    /// A file of the crate itself: one that can't be read is a fault of the
    /// build, which every test that takes a rule set shows with the parser's
    /// message. As "no such architecture" it would go unnoticed.
    fn from_shipped(archs: &[&str], text: &str) -> Self {
        Self::from_toml(text)
            .unwrap_or_else(|error| panic!("the shipped rules of CC {archs:?}: {error}"))
    }

    /// The compute capabilities that [`RuleSet::for_arch`] knows, oldest
    /// first.
    pub fn known_archs() -> Vec<String> {
        FILES.iter().flat_map(|(archs, _)| archs.iter().map(ToString::to_string)).collect()
    }

    /// The data it was made from.
    pub fn data(&self) -> &RuleData {
        &self.data
    }

    /// The compute capabilities it holds for.
    pub fn archs(&self) -> &[String] {
        &self.data.archs
    }

    /// Name of the architecture ("Hopper").
    pub fn name(&self) -> &str {
        &self.data.name
    }

    /// How well its rules are known.
    pub fn evidence(&self) -> Evidence {
        self.data.evidence
    }

    /// Where its rules come from and what is doubtful about them.
    pub fn note(&self) -> &str {
        &self.data.note
    }

    /// Bytes in a sector; `None` where memory is reached by transactions of
    /// several sizes only.
    pub fn sector_bytes(&self) -> Option<u32> {
        self.data.cache.map(|cache| cache.sector_bytes)
    }

    /// Bytes in a line; `None` as for [`RuleSet::sector_bytes`].
    pub fn line_bytes(&self) -> Option<u32> {
        self.data.cache.map(|cache| cache.line_bytes)
    }

    /// Consecutive lanes that make one request to global memory, for lanes of
    /// `width` bytes: 32 on CC ≥ 7.0.
    pub fn request_lanes(&self, width: u8) -> u32 {
        self.data.request.lanes(width)
    }

    /// Whether counts of this class of access are believed to be the device's
    /// own, given how many tag wavefronts it has (where they are defined).
    #[inline(always)]
    pub fn is_exact(&self, op: &Op, width: u8, tag_wavefronts: Option<u32>) -> bool {
        let size = width.trailing_zeros() as usize % WIDTHS;
        let exactness = self.exactness[op.index() as usize % OPS][size];
        if exactness == Exactness::DEPENDS {
            return self.is_outside_classes(op, width, tag_wavefronts);
        }
        tag_wavefronts.unwrap_or(0) < exactness.0
    }

    #[cold]
    fn is_outside_classes(&self, op: &Op, width: u8, tag_wavefronts: Option<u32>) -> bool {
        !self.inexact.iter().any(|class| class.holds(op, width, tag_wavefronts))
    }

    /// What the fast path needs, if the geometry is today's.
    #[inline]
    pub(crate) fn fast(&self) -> Option<&FastRules> {
        self.fast.as_ref()
    }

    /// The widths that `op` may have, in bytes a lane.
    pub fn widths(&self, op: &Op) -> impl Iterator<Item = u8> + '_ {
        let allowed: &[u8] = match op.kind {
            OpKind::AsyncCopy => &[4, 8, 16],
            OpKind::Reduction(_) | OpKind::Atomic(_) => &[2, 4, 8, 16],
            // 32 bytes a lane exist in global memory only.
            _ if op.space == Space::Global => &[1, 2, 4, 8, 16, 32],
            _ => &[1, 2, 4, 8, 16],
        };
        self.data.widths.iter().copied().filter(|width| allowed.contains(width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_file_is_sound() {
        for ((archs, _), rules) in FILES.iter().zip(RuleSet::shipped()) {
            assert_eq!(rules.archs(), *archs, "`FILES` and the file's `archs` differ");
        }
        let archs = RuleSet::known_archs();
        let mut unique = archs.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), archs.len(), "an architecture stands in two files");
    }

    /// A file that is put into the folder alone is not shipped.
    #[test]
    fn every_file_of_the_folder_is_shipped() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("arch");
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(
                FILES.iter().any(|&(_, shipped)| shipped == text),
                "{} has no line in `FILES`",
                path.display()
            );
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), FILES.len());
    }

    #[test]
    #[should_panic(expected = "the shipped rules of CC [\"9.9\"]: TOML parse error at line 2")]
    fn a_shipped_file_that_does_not_parse_is_shown_with_the_parsers_message() {
        RuleSet::from_shipped(&["9.9"], "archs = [\"9.9\"]\nname = 9.9\n");
    }

    /// Blackwell's note says that it is taken to be as Hopper.
    #[test]
    fn blackwell_has_hoppers_rules() {
        let hopper = RuleSet::for_arch("9.0").unwrap().data().clone();
        let blackwell = RuleSet::for_arch("10.0").unwrap().data().clone();
        assert!(blackwell.widths.starts_with(&hopper.widths));
        let named_as_hopper = RuleData {
            archs: hopper.archs.clone(),
            name: hopper.name.clone(),
            evidence: hopper.evidence,
            note: hopper.note.clone(),
            widths: hopper.widths.clone(),
            ..blackwell
        };
        assert_eq!(named_as_hopper, hopper);
    }
}
