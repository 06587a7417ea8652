//! What a verifying launch adds: sums of what each thread touched. The host's
//! side is [`crate::verify`].

use super::Lowering;
use crate::syntax::{
    Address, AtomOp, Binary, Class, Compare, Guard, Instruction, Reg, Space, Special, Type, Value,
};
use crate::verify::{REPLICAS, WORDS_PER_SITE};
use scenario::program::{Scalar, SiteId, ValueType};
use simulator::OpKind;

/// Word of a site's sums that counts lanes.
const LANES: usize = 0;
/// Word that sums the hashes of addresses.
pub(super) const ADDRESSES: usize = 1;
/// Word that sums the hashes of data.
pub(super) const DATA: usize = 2;

const WORD_BYTES: i64 = 8;

impl Lowering<'_> {
    /// Counts a lane of `site`.
    pub(super) fn add_lane(&mut self, site: SiteId) {
        self.add_to_sum(site, LANES, Value::Imm(1));
    }

    /// Adds the hash of `value`, 64 bits, to a word of the site's sums.
    pub(super) fn add_hash(&mut self, site: SiteId, word: usize, value: Value) {
        let hash = self.hash64(value, None);
        self.add_to_sum(site, word, hash.into());
    }

    /// Gives every sum its register, before the first exit of the kernel.
    pub(super) fn allocate_sums(&mut self) {
        for (i, site) in self.program.sites.iter().enumerate() {
            let has_data = matches!(site.op.kind, OpKind::Load | OpKind::AsyncCopy);
            for word in [LANES, ADDRESSES].into_iter().chain(has_data.then_some(DATA)) {
                let reg = self.fresh(Class::B64);
                self.sums.push((i * WORDS_PER_SITE + word, reg));
            }
        }
    }

    /// Adds `value` to a word of the site's sums.
    fn add_to_sum(&mut self, site: SiteId, word: usize, value: Value) {
        let place = site.0 * WORDS_PER_SITE + word;
        let found = self.sums.iter().find(|(at, _)| *at == place);
        if let Some(&(_, sum)) = found {
            self.binary(Binary::Add, Type::U64, sum, sum.into(), value);
        }
    }

    /// [`crate::verify::pattern`] of an address, in a register of `class`: the
    /// bits above the stored width are not cleared.
    pub(super) fn pattern(&mut self, address: Address, class: Class) -> Reg {
        let byte = self.fresh(Class::B64);
        let offset = Value::Imm(i64::from(address.offset));
        self.binary(Binary::Add, Type::S64, byte, address.base.into(), offset);
        let word = self.fresh(Class::B64);
        self.binary(Binary::Shr, Type::U64, word, byte.into(), Value::Imm(3));
        let hash = self.hash64(word.into(), None);
        if class == Class::B64 {
            return hash;
        }
        let (u64_, u32_) = (ValueType::Int(Scalar::U64), ValueType::Int(Scalar::U32));
        let low = self.convert(byte.into(), u64_, u32_, None);
        let in_word = self.fresh(Class::B32);
        self.binary(Binary::And, Type::B32, in_word, low, Value::Imm(7));
        let by = self.fresh(Class::B32);
        self.binary(Binary::Shl, Type::B32, by, in_word.into(), Value::Imm(3));
        let shifted = self.fresh(Class::B64);
        self.binary(Binary::Shr, Type::U64, shifted, hash.into(), by.into());
        let value = self.convert(shifted.into(), u64_, u32_, None);
        self.reg(value, class)
    }

    /// Adds the thread's sums to its block's replica of the results.
    pub(super) fn publish_sums(&mut self, results: Reg) {
        let block = self.fresh(Class::B32);
        let (x, y, z) = (
            self.special(Special::Ctaid(0)),
            self.special(Special::Ctaid(1)),
            self.special(Special::Ctaid(2)),
        );
        self.binary(Binary::Add, Type::U32, block, x.into(), y.into());
        self.binary(Binary::Add, Type::U32, block, block.into(), z.into());
        self.binary(Binary::And, Type::B32, block, block.into(), Value::Imm(REPLICAS as i64 - 1));
        let bytes = WORD_BYTES * (WORDS_PER_SITE * self.program.sites.len()) as i64;
        let offset = self.fresh(Class::B64);
        self.binary(Binary::MulWide, Type::U32, offset, block.into(), Value::Imm(bytes));
        let base = self.fresh(Class::B64);
        self.binary(Binary::Add, Type::S64, base, results.into(), offset.into());
        for (at, reg) in self.sums.clone() {
            let pred = self.fresh(Class::Pred);
            let (a, b) = (reg.into(), Value::Imm(0));
            self.emit(Instruction::Setp { cmp: Compare::Ne, ty: Type::U64, dst: pred, a, b });
            self.emit_guarded(
                Guard { pred, negated: false },
                Instruction::Red {
                    space: Space::Global,
                    op: AtomOp::Add,
                    ty: Type::U64,
                    address: Address { base, offset: (WORD_BYTES * at as i64) as i32 },
                    src: vec![reg.into()],
                },
            );
        }
    }
}
