//! What a verifying launch sums up, and the same sums on the host.
//!
//! A kernel emitted for [`Purpose::Verify`](crate::Purpose::Verify) does what
//! the scenario does and, for every site, adds up over all lanes of all warps
//!
//! - how often a lane accessed,
//! - [`hash64`] of each address it used (device addresses in global memory,
//!   offsets in the block's window in shared memory),
//! - [`hash64`] of each component it loaded, zero-extended to 64 bits; for
//!   asynchronous copies, of the shared-memory offset it copied to.
//!
//! Sums wrap at 64 bits, so the order of threads does not matter. They are
//! equal to the host's own if and only if, hash collisions apart, the device
//! touched exactly the addresses that the evaluator says.
//!
//! Its plain stores of opaque values to global memory write [`pattern`] of the
//! address, so that the host can tell afterwards what was written.

use scenario::program::{Access, Block, BufferId, Program, Root, Site, SiteId, StmtKind};
use simulator::{OpKind, Space, WarpAccess};

/// Copies of the sums that blocks spread their additions over; the host adds
/// them up.
pub const REPLICAS: usize = 64;

/// Words of one site's sums.
pub const WORDS_PER_SITE: usize = 3;

/// 64-bit words of the results buffer of a program with `sites` sites.
pub const fn result_words(sites: usize) -> usize {
    REPLICAS * WORDS_PER_SITE * sites
}

/// The finaliser of splitmix64, as the scenario language's `hash64`.
pub const fn hash64(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The `bytes` (1, 2, 4 or 8) bytes that a verifying launch stores at
/// `address`, a multiple of `bytes`, as a little-endian number. A function of
/// each byte's address: the width of the store does not matter.
pub const fn pattern(address: u64, bytes: u64) -> u64 {
    let word = hash64(address >> 3) >> (8 * (address & 7));
    if bytes >= 8 { word } else { word & ((1 << (8 * bytes)) - 1) }
}

/// What one site's lanes sum to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteSum {
    /// Accesses, one a lane.
    pub lanes: u64,
    /// Sum of the hashes of the addresses.
    pub addresses: u64,
    /// Sum of the hashes of what was loaded.
    pub data: u64,
}

/// The sums of all sites of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    /// By [`SiteId`].
    pub sites: Vec<SiteSum>,
}

impl Sums {
    /// Zeros for `sites` sites.
    pub fn new(sites: usize) -> Self {
        Self { sites: vec![SiteSum::default(); sites] }
    }

    /// The sums in a results buffer that a launch has filled; words beyond
    /// [`result_words`] are ignored.
    pub fn from_device(sites: usize, words: &[u64]) -> Self {
        let mut sums = Self::new(sites);
        if sites == 0 {
            return sums;
        }
        for replica in words.chunks_exact(WORDS_PER_SITE * sites).take(REPLICAS) {
            for (sum, words) in sums.sites.iter_mut().zip(replica.chunks_exact(WORDS_PER_SITE)) {
                sum.lanes = sum.lanes.wrapping_add(words[0]);
                sum.addresses = sum.addresses.wrapping_add(words[1]);
                sum.data = sum.data.wrapping_add(words[2]);
            }
        }
        sums
    }

    /// Adds one warp's access at `site`: lanes and addresses, and the
    /// shared-memory offsets of an asynchronous copy.
    pub fn record(&mut self, site: SiteId, access: &WarpAccess) {
        let Some(sum) = self.sites.get_mut(site.0) else { return };
        for (lane, address) in access.active() {
            sum.lanes = sum.lanes.wrapping_add(1);
            sum.addresses = sum.addresses.wrapping_add(hash64(address));
            if let Some(shared) = &access.shared_addresses {
                sum.data = sum.data.wrapping_add(hash64(shared[lane]));
            }
        }
    }

    /// Adds what one warp's access at `site` loads; `read` gives the `bytes`
    /// bytes at an address as a little-endian number.
    pub fn record_loads(
        &mut self,
        id: SiteId,
        site: &Site,
        access: &WarpAccess,
        mut read: impl FnMut(u64, u64) -> u64,
    ) {
        let Some(sum) = self.sites.get_mut(id.0) else { return };
        let bytes = site.element.bytes();
        for (_, address) in access.active() {
            for component in 0..u64::from(site.width) / bytes {
                let bits = read(address.wrapping_add(component * bytes), bytes);
                sum.data = sum.data.wrapping_add(hash64(bits));
            }
        }
    }

    /// Adds the sums of other warps.
    pub fn merge(&mut self, other: &Self) {
        for (sum, other) in self.sites.iter_mut().zip(&other.sites) {
            sum.lanes = sum.lanes.wrapping_add(other.lanes);
            sum.addresses = sum.addresses.wrapping_add(other.addresses);
            sum.data = sum.data.wrapping_add(other.data);
        }
    }
}

/// Which sites' data sums the host can compute: plain loads of a buffer that no
/// site writes, of at most four components (or 256 bits), and asynchronous
/// copies, whose data sum is of offsets.
pub fn data_is_known(program: &Program) -> Vec<bool> {
    let writes_anywhere =
        program.sites.iter().any(|site| writes(site) && site.root == Root::AnyBuffer);
    let written = |buffer: BufferId| {
        writes_anywhere
            || program.sites.iter().any(|site| writes(site) && site.root == Root::Buffer(buffer))
    };
    program
        .sites
        .iter()
        .map(|site| match (site.op.kind, site.root) {
            (OpKind::AsyncCopy, _) => true,
            (OpKind::Load, Root::Buffer(buffer)) => {
                let components = u64::from(site.width) / site.element.bytes();
                (components <= 4 || site.width == 32) && !written(buffer)
            }
            _ => false,
        })
        .collect()
}

/// Buffers whose contents after a verifying launch the host knows: each byte
/// holds [`pattern`] where a lane stored and what it held before elsewhere.
/// These are the buffers that only plain stores of opaque values write.
pub fn written_is_known(program: &Program) -> Vec<BufferId> {
    let mut opaque = vec![true; program.sites.len()];
    each_access(&program.body, &mut |access| {
        if let Some(opaque) = opaque.get_mut(access.site.0) {
            *opaque &= access.values.is_empty();
        }
    });
    let mut known: Vec<(BufferId, bool)> = Vec::new();
    for (site, &opaque) in program.sites.iter().zip(&opaque) {
        match site.root {
            _ if !writes(site) => {}
            // A pointer that may lead anywhere: no buffer is certain.
            Root::AnyBuffer => return Vec::new(),
            Root::Shared(_) => {}
            Root::Buffer(buffer) => {
                let certain = opaque && site.op.kind == OpKind::Store;
                match known.iter_mut().find(|(id, _)| *id == buffer) {
                    Some((_, known)) => *known &= certain,
                    None => known.push((buffer, certain)),
                }
            }
        }
    }
    known.into_iter().filter(|(_, known)| *known).map(|(buffer, _)| buffer).collect()
}

fn writes(site: &Site) -> bool {
    site.op.space == Space::Global
        && matches!(site.op.kind, OpKind::Store | OpKind::Reduction(_) | OpKind::Atomic(_))
}

fn each_access(block: &Block, visit: &mut impl FnMut(&Access)) {
    for stmt in block {
        match &stmt.kind {
            StmtKind::Access(access) => visit(access),
            StmtKind::If { then, otherwise, .. } => {
                each_access(then, visit);
                each_access(otherwise, visit);
            }
            StmtKind::Loop { header, body, step, .. } => {
                each_access(header, visit);
                each_access(body, visit);
                each_access(step, visit);
            }
            StmtKind::Call { body } => each_access(body, visit),
            StmtKind::Set { .. }
            | StmtKind::SetElement { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Return
            | StmtKind::Barrier => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulator::Op;

    #[test]
    fn hash64_is_splitmix64s_finaliser() {
        // The first output of splitmix64 seeded with 0 is the finaliser of the
        // golden-ratio increment: 0xe220a8397b1dcdaf (Vigna's reference code).
        assert_eq!(hash64(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn pattern_does_not_depend_on_the_width_of_the_store() {
        for word in [0_u64, 0x7000_0000_0008, 0x1238] {
            let bytes: Vec<u8> = (0..8).map(|i| pattern(word + i, 1) as u8).collect();
            for width in [2_u64, 4, 8] {
                for at in (0..8).step_by(width as usize) {
                    let stored = pattern(word + at, width).to_le_bytes();
                    let range = at as usize..(at + width) as usize;
                    assert_eq!(stored[..width as usize], bytes[range]);
                }
            }
        }
    }

    #[test]
    fn the_order_of_warps_and_replicas_does_not_matter() {
        let warp =
            |base: u64| WarpAccess::new(Op::LOAD, 4, std::array::from_fn(|i| base + 4 * i as u64));
        let mut forward = Sums::new(1);
        forward.record(SiteId(0), &warp(0));
        forward.record(SiteId(0), &warp(128));
        let mut backward = Sums::new(1);
        backward.record(SiteId(0), &warp(128));
        let mut other = Sums::new(1);
        other.record(SiteId(0), &warp(0));
        backward.merge(&other);
        assert_eq!(forward, backward);

        let mut words = vec![0; result_words(1)];
        words[..3].copy_from_slice(&[20, forward.sites[0].addresses, 0]);
        words[6..9].copy_from_slice(&[44, 0, 0]);
        assert_eq!(Sums::from_device(1, &words), forward);
    }
}
