//! What a warp access must obey before it is counted.

use alloc::vec::Vec;
use core::fmt;

use crate::access::{OpKind, Space, WarpAccess};
use crate::rules::RuleSet;

/// Most local memory of a thread, in bytes: "Technical Specifications per
/// Compute Capability", CUDA C++ Programming Guide (CC ≥ 2.0).
pub const LOCAL_BYTES: u64 = 512 * 1024;

/// Why an access is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessError {
    /// The operation exists on other architectures only.
    Unsupported {
        /// The operation's name.
        op: &'static str,
        /// The first architecture of the rule set.
        arch: alloc::string::String,
    },
    /// The operation has no such width.
    Width {
        /// The operation's name.
        op: &'static str,
        /// The width given, in bytes a lane.
        width: u8,
        /// The widths that it may have here.
        allowed: Vec<u8>,
    },
    /// An active lane's address is no multiple of the width.
    Misaligned {
        /// The lane, 0..=31.
        lane: usize,
        /// Its address.
        address: u64,
        /// Bytes a lane.
        width: u8,
        /// Whether it is the shared-memory side of an asynchronous copy.
        shared: bool,
    },
    /// An active lane's access passes the end of the thread's local memory.
    /// (An aligned access cannot pass the end of the 64-bit address space.)
    BeyondLocal {
        /// The lane, 0..=31.
        lane: usize,
        /// Its offset in local memory.
        address: u64,
        /// Bytes a lane.
        width: u8,
    },
    /// An asynchronous copy without its shared-memory addresses.
    NoSharedAddresses,
    /// Shared-memory addresses beside an operation that is no asynchronous
    /// copy.
    StraySharedAddresses {
        /// The operation's name.
        op: &'static str,
    },
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { op, arch } => {
                write!(f, "compute capability {arch} has no {op}")
            }
            Self::Width { op, width, allowed } => {
                write!(f, "width {width} of {op} is none of")?;
                for (index, width) in allowed.iter().enumerate() {
                    write!(f, "{}{width}", if index == 0 { " " } else { ", " })?;
                }
                Ok(())
            }
            Self::Misaligned { lane, address, width, shared } => write!(
                f,
                "lane {lane}: {}address {address} ({address:#x}) is no multiple of the width {width}",
                if *shared { "shared-memory " } else { "" }
            ),
            Self::BeyondLocal { lane, address, width } => write!(
                f,
                "lane {lane}: {width} bytes at offset {address} pass the {LOCAL_BYTES} bytes of \
                 local memory that a thread can have"
            ),
            Self::NoSharedAddresses => f.write_str("cp.async needs shared_addresses"),
            Self::StraySharedAddresses { op } => {
                write!(f, "op {op} takes no shared_addresses; cp.async does")
            }
        }
    }
}

impl core::error::Error for AccessError {}

impl RuleSet {
    /// Whether the access is one that this architecture executes: a width that
    /// the operation has, and addresses of active lanes that are multiples of
    /// it.
    ///
    /// ```
    /// use coalescope_simulator::{Op, RuleSet, WarpAccess};
    /// let rules = RuleSet::for_arch("9.0").unwrap();
    /// let odd = WarpAccess::new(Op::LOAD, 4, [6; 32]);
    /// assert_eq!(
    ///     rules.check(&odd).unwrap_err().to_string(),
    ///     "lane 0: address 6 (0x6) is no multiple of the width 4"
    /// );
    /// ```
    pub fn check(&self, access: &WarpAccess) -> Result<(), AccessError> {
        let WarpAccess { op, width, .. } = *access;
        let copies = op.kind == OpKind::AsyncCopy;
        if copies && !self.data().async_copy {
            let arch = self.archs().first().cloned().unwrap_or_default();
            return Err(AccessError::Unsupported { op: op.name(), arch });
        }
        if !self.widths(&op).any(|allowed| allowed == width) {
            let allowed = self.widths(&op).collect();
            return Err(AccessError::Width { op: op.name(), width, allowed });
        }
        let size = u64::from(width);
        let aligned = |lane: usize, address: u64, shared| {
            if !address.is_multiple_of(size) {
                return Err(AccessError::Misaligned { lane, address, width, shared });
            }
            if op.space == Space::Local && address > LOCAL_BYTES - size {
                return Err(AccessError::BeyondLocal { lane, address, width });
            }
            Ok(())
        };
        for (lane, address) in access.active() {
            aligned(lane, address, false)?;
        }
        match &access.shared_addresses {
            None if copies => Err(AccessError::NoSharedAddresses),
            Some(_) if !copies => Err(AccessError::StraySharedAddresses { op: op.name() }),
            Some(shared) => {
                access.mask.lanes().try_for_each(|lane| aligned(lane, shared[lane], true))
            }
            None => Ok(()),
        }
    }
}
