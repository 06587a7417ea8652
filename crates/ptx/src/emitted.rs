//! What emission hands to whoever launches the kernel.

use crate::syntax::{Target, Version};
use scenario::program::{BufferId, SiteId};

/// What a kernel's text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// To be counted and timed: exactly the scenario's accesses. Counting
    /// wants the driver's optimisation level 0, at which the assembler keeps
    /// every access as written; above it, equal loads are merged and invariant
    /// ones leave their loops.
    Measure,
    /// To be checked once: every thread also sums what it touched, and adds
    /// the sums to a results buffer as it ends (see [`crate::verify`]).
    Verify,
}

/// One 64-bit parameter of an emitted kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// Device address of the buffer's first element, its `offset_bytes`
    /// included.
    Buffer(BufferId),
    /// **Pass 0.** Loaded values are combined with it and would be stored to
    /// it if the combination were not zero, so that no assembler may drop a
    /// load. With 0 the store is branched around by every thread.
    Sink,
    /// Device address of [`crate::verify::result_words`] zeroed 64-bit words
    /// ([`Purpose::Verify`] only).
    Results,
}

/// Where a site of the program went in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmittedSite {
    /// The site.
    pub site: SiteId,
    /// Its instruction without operands, e.g. `ld.global.v4.b32`; empty for a
    /// site that no statement reaches.
    pub instruction: String,
    /// Lines of the text, from 1, that hold one of its instructions: several
    /// where a loop was unrolled or a function inlined twice, none where no
    /// thread can reach it.
    pub lines: Vec<usize>,
}

/// The PTX of one run, with what a launch needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// The module's text.
    pub text: String,
    /// Name of its only entry.
    pub entry: String,
    /// The entry's parameters in order, each 64 bits wide.
    pub parameters: Vec<Parameter>,
    /// PTX version it needs.
    pub version: Version,
    /// Architecture it needs.
    pub target: Target,
    /// Dynamic shared memory to launch with, bytes: all that the kernel uses,
    /// for none is declared statically.
    pub shared_bytes: u64,
    /// By [`SiteId`].
    pub sites: Vec<EmittedSite>,
}
