//! Who goes where: the result of every stage for one warp access, lane by
//! lane, as data for pictures and advice.
//!
//! An [`Explanation`] is made by the same stages as [`Counts`], so the two
//! always agree: `tags` is the number of [`Explanation::lines`] (per request; of
//! a reduction or atomic per round),
//! `tag_wavefronts` the length of [`Explanation::tag_wavefronts`],
//! `data_wavefronts` the length of [`Explanation::data_wavefronts`], and so
//! on. What the rule set does not define is empty or `None`.
//!
//! Indices (of lines, sectors, wavefronts) are places in the vectors of the
//! same explanation. Lines and sectors stand in the order of the first lane
//! that touches them.

use alloc::vec::Vec;

use crate::access::{LaneMask, Op, OpKind, Space, WARP_LANES, WarpAccess};
use crate::count::local_address;
use crate::counts::{Counts, Transaction};
use crate::rules::RuleSet;
use crate::stages::data::{Banks, Passage, words};
use crate::stages::{Lanes, request};

/// Where each lane of one warp access goes, and why the counts are what they
/// are.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The same counts that [`RuleSet::count`] gives.
    pub counts: Counts,
    /// The lanes of each request. One on CC ≥ 7.0, but for wide accesses to local
    /// memory, whose requests are of the same lanes.
    pub requests: Vec<LaneMask>,
    /// The active lanes, in ascending order.
    pub lanes: Vec<LaneUse>,
    /// Distinct lines. Empty for shared memory, and on CC 1.x.
    pub lines: Vec<LineUse>,
    /// Distinct sectors, as [`Explanation::lines`].
    pub sectors: Vec<SectorUse>,
    /// Passes through the tag stage, in order: wavefronts of a load or store,
    /// rounds of a reduction or atomic.
    pub tag_wavefronts: Vec<TagWavefront>,
    /// Groups of lanes that pass the data stage (or the banks of shared
    /// memory) one after the other, in order.
    pub data_groups: Vec<DataGroup>,
    /// The data wavefronts of all groups, in order.
    pub data_wavefronts: Vec<DataWavefront>,
    /// Memory transactions, on CC 1.x–2.x.
    pub transactions: Vec<TransactionUse>,
}

/// One active lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneUse {
    /// Lane number, 0..=31.
    pub lane: u8,
    /// Its address: for local memory the lane's own offset.
    pub address: u64,
    /// Places in [`Explanation::lines`] that it touches: one, but for local
    /// memory, where a wide access spans several.
    pub lines: Vec<usize>,
    /// Places in [`Explanation::sectors`] that it touches.
    pub sectors: Vec<usize>,
    /// Tag bank of its line.
    pub tag_bank: Option<u32>,
    /// Place in [`Explanation::tag_wavefronts`].
    pub tag_wavefront: Option<usize>,
    /// Place in [`Explanation::data_groups`].
    pub data_group: Option<usize>,
    /// The words it touches in the data banks.
    pub words: Vec<BankWord>,
    /// Places in [`Explanation::data_wavefronts`] that serve it.
    pub data_wavefronts: Vec<usize>,
}

/// A word of a data bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BankWord {
    /// The bank, from 0.
    pub bank: u32,
    /// Byte address of the word (shared memory: offset).
    pub address: u64,
}

/// One line, with the lanes that touch it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineUse {
    /// First byte. For local memory: in the warp's interleaved window.
    pub address: u64,
    /// Lanes that touch it.
    pub lanes: LaneMask,
    /// Its tag bank.
    pub tag_bank: Option<u32>,
    /// Places in [`Explanation::tag_wavefronts`] in which it is looked up: one
    /// for loads and stores, one for each round of a reduction or atomic.
    pub tag_wavefronts: Vec<usize>,
}

/// One sector, with the lanes that touch it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectorUse {
    /// First byte, as [`LineUse::address`].
    pub address: u64,
    /// Place of its line in [`Explanation::lines`].
    pub line: usize,
    /// Lanes that touch it.
    pub lanes: LaneMask,
    /// Distinct bytes that the lanes touch in it.
    pub bytes_used: u32,
}

/// One pass through the tag stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagWavefront {
    /// Lanes that it serves.
    pub lanes: LaneMask,
    /// Places in [`Explanation::lines`], at most one of each tag bank.
    pub lines: Vec<usize>,
}

/// Lanes that pass the data banks together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataGroup {
    /// The lanes.
    pub lanes: LaneMask,
    /// Data wavefronts that it takes, all told.
    pub wavefronts: u32,
    /// Of these, how many are bank conflicts.
    pub conflicts: u32,
    /// Banks that have more than one word of this group, lowest bank first.
    pub conflicting_banks: Vec<BankConflict>,
}

/// A bank that several words of a group need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BankConflict {
    /// The bank, from 0.
    pub bank: u32,
    /// The words that it must give one after the other, in the order of the
    /// first lane that needs them; each with the lanes that need it.
    pub words: Vec<(u64, LaneMask)>,
}

/// What a data wavefront carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WavefrontKind {
    /// Data of a load or store, or the operands of a reduction or atomic.
    Data,
    /// The results of an atomic.
    Result,
    /// Counted by the device beyond what the words of the group explain.
    Extra,
}

/// One pass through the data banks.
///
/// How many there are is counted; which word of a conflicting bank goes first
/// is not observable and taken to be that of the lowest lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataWavefront {
    /// Place in [`Explanation::data_groups`].
    pub group: usize,
    /// What it carries.
    pub kind: WavefrontKind,
    /// Lanes that get at least one word.
    pub lanes: LaneMask,
    /// The words, lowest bank first.
    pub words: Vec<BankWord>,
}

/// A memory transaction with the lanes that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionUse {
    /// Place in [`Explanation::requests`].
    pub request: usize,
    /// Address and size.
    pub transaction: Transaction,
    /// Lanes that it serves.
    pub lanes: LaneMask,
}

impl RuleSet {
    /// Says of one warp access which lane goes where at each stage.
    ///
    /// ```
    /// use coalescope_simulator::{Op, RuleSet, WarpAccess};
    /// let rules = RuleSet::for_arch("9.0").unwrap();
    /// // A column of a 32 × 32 tile of floats: every lane in bank 0.
    /// let column = WarpAccess::new(Op::SHARED_LOAD, 4, std::array::from_fn(|lane| lane as u64 * 128));
    /// let explanation = rules.explain(&column);
    /// assert_eq!(explanation.counts.bank_conflicts, Some(31));
    /// let conflict = &explanation.data_groups[0].conflicting_banks[0];
    /// assert_eq!((conflict.bank, conflict.words.len()), (0, 32));
    /// ```
    pub fn explain(&self, access: &WarpAccess) -> Explanation {
        let lanes = Lanes {
            mask: access.mask,
            addresses: &access.addresses,
            width: u32::from(access.width.max(1)),
        };
        let mut explanation = Explanation {
            counts: self.count(access),
            requests: Vec::new(),
            lanes: lanes
                .iter()
                .map(|(lane, address)| LaneUse {
                    lane: lane as u8,
                    address,
                    lines: Vec::new(),
                    sectors: Vec::new(),
                    tag_bank: None,
                    tag_wavefront: None,
                    data_group: None,
                    words: Vec::new(),
                    data_wavefronts: Vec::new(),
                })
                .collect(),
            lines: Vec::new(),
            sectors: Vec::new(),
            tag_wavefronts: Vec::new(),
            data_groups: Vec::new(),
            data_wavefronts: Vec::new(),
            transactions: Vec::new(),
        };
        match access.op.space {
            Space::Shared => self.explain_shared(&access.op, lanes, &mut explanation),
            space => {
                let requests = self.requests(lanes);
                explanation.requests = requests.as_slice().to_vec();
                if space == Space::Local {
                    let pieces = self.local_pieces(lanes.width).count as usize;
                    explanation.requests = explanation.requests.repeat(pieces);
                }
                self.explain_blocks(space, lanes, &mut explanation);
                if space == Space::Global {
                    self.explain_stages(access, lanes, &mut explanation);
                    self.explain_transactions(access, lanes, &mut explanation);
                }
            }
        }
        explanation
    }

    fn explain_shared(&self, op: &Op, lanes: Lanes<'_>, explanation: &mut Explanation) {
        let Some(shared) = &self.data().shared else {
            explanation.requests = request::split(lanes, WARP_LANES as u32).as_slice().to_vec();
            return;
        };
        explanation.requests = shared.requests(lanes).as_slice().to_vec();
        let lanes = shared.passing(op, lanes);
        if let Some(passage) = shared.pass(op, lanes) {
            explain_data(shared.banks(), &passage, lanes, 1, explanation);
        }
    }

    /// Lines and sectors.
    fn explain_blocks(&self, space: Space, lanes: Lanes<'_>, explanation: &mut Explanation) {
        let Some(cache) = self.data().cache else { return };
        let (line_mask, sector_mask) =
            (!(u64::from(cache.line_bytes) - 1), !(u64::from(cache.sector_bytes) - 1));
        let mut seen: Vec<u64> = Vec::new();
        for place in 0..explanation.lanes.len() {
            let (lane, address) =
                (explanation.lanes[place].lane as usize, explanation.lanes[place].address);
            for (piece, bytes) in pieces(space, lane, address, lanes.width) {
                let (line_at, sector_at) = (piece & line_mask, piece & sector_mask);
                let line = find_or(
                    &mut explanation.lines,
                    |l| l.address == line_at,
                    || LineUse {
                        address: line_at,
                        lanes: LaneMask::EMPTY,
                        tag_bank: self
                            .data()
                            .tag
                            .as_ref()
                            .filter(|_| space == Space::Global)
                            .map(|tag| tag.bank(line_at >> cache.line_shift())),
                        tag_wavefronts: Vec::new(),
                    },
                );
                let sector = find_or(
                    &mut explanation.sectors,
                    |s| s.address == sector_at,
                    || SectorUse {
                        address: sector_at,
                        line,
                        lanes: LaneMask::EMPTY,
                        bytes_used: 0,
                    },
                );
                explanation.lines[line].lanes.0 |= 1 << lane;
                explanation.sectors[sector].lanes.0 |= 1 << lane;
                if !seen.contains(&piece) {
                    seen.push(piece);
                    explanation.sectors[sector].bytes_used += bytes;
                }
                let lane_use = &mut explanation.lanes[place];
                lane_use.tag_bank = explanation.lines[line].tag_bank;
                push_new(&mut lane_use.lines, line);
                push_new(&mut lane_use.sectors, sector);
            }
        }
    }

    /// Tag wavefronts and the data stage.
    fn explain_stages(&self, access: &WarpAccess, lanes: Lanes<'_>, explanation: &mut Explanation) {
        let stages = self.stages(access, lanes);
        if let Some(wavefronts) = stages.tag_wavefronts {
            for (index, &mask) in wavefronts.as_slice().iter().enumerate() {
                let mut lines = Vec::new();
                for lane in explanation.lanes.iter_mut() {
                    if mask.contains(lane.lane as usize) {
                        lane.tag_wavefront = Some(index);
                        for &line in &lane.lines {
                            push_new(&mut lines, line);
                            push_new(&mut explanation.lines[line].tag_wavefronts, index);
                        }
                    }
                }
                explanation.tag_wavefronts.push(TagWavefront { lanes: mask, lines });
            }
        }
        if let (Some(passage), Some(stage)) = (stages.data, self.data().data) {
            let returns = matches!(access.op.kind, OpKind::Atomic(_));
            let repetitions = match self.data().atomic {
                Some(atomic) if returns => u32::from(atomic.result_passes),
                _ => 1,
            };
            explain_data(stage.banks(), &passage, lanes, repetitions, explanation);
        }
    }

    fn explain_transactions(
        &self,
        access: &WarpAccess,
        lanes: Lanes<'_>,
        explanation: &mut Explanation,
    ) {
        let Some(rule) = &self.data().transactions else { return };
        if explanation.counts.transactions.is_none() {
            return;
        }
        let size = self.request_lanes(access.width.max(1));
        for (request, &mask) in explanation.requests.iter().enumerate() {
            rule.issue(&access.op, lanes.only(mask), size, |transaction, lanes| {
                explanation.transactions.push(TransactionUse { request, transaction, lanes });
            });
        }
    }
}

/// The blocks of memory that one lane touches, each with its size in bytes:
/// one, or one for each word in local memory.
fn pieces(space: Space, lane: usize, address: u64, width: u32) -> impl Iterator<Item = (u64, u32)> {
    const WORD: u32 = 4;
    let size = if space == Space::Local { width.min(WORD) } else { width };
    (0..width / size).map(move |index| {
        let at = address.wrapping_add(u64::from(index * size));
        (if space == Space::Local { local_address(lane, at) } else { at }, size)
    })
}

fn find_or<T>(items: &mut Vec<T>, same: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> usize {
    items.iter().position(same).unwrap_or_else(|| {
        items.push(make());
        items.len() - 1
    })
}

fn push_new(items: &mut Vec<usize>, item: usize) {
    if !items.contains(&item) {
        items.push(item);
    }
}

/// A word that a group needs: its bank, what the bank serves at once, its
/// address and lanes.
struct Word {
    bank: u32,
    row: u64,
    address: u64,
    lanes: LaneMask,
    /// Place among the distinct rows of its bank.
    turn: usize,
}

/// The groups, their conflicting banks, and each wavefront.
fn explain_data(
    banks: Banks,
    passage: &Passage,
    lanes: Lanes<'_>,
    repetitions: u32,
    explanation: &mut Explanation,
) {
    let groups = passage.groups.as_slice().iter().zip(&passage.wavefronts);
    for (group, ((&mask, &wavefronts), &conflicts)) in groups.zip(&passage.conflicts_of).enumerate()
    {
        let group_words = words_of(banks, lanes.only(mask), passage.turns.as_ref());
        for lane in explanation.lanes.iter_mut().filter(|lane| mask.contains(lane.lane as usize)) {
            lane.data_group = Some(group);
            lane.words = group_words
                .iter()
                .filter(|word| word.lanes.contains(lane.lane as usize))
                .map(|word| BankWord { bank: word.bank, address: word.address })
                .collect();
        }
        explanation.data_groups.push(DataGroup {
            lanes: mask,
            wavefronts,
            conflicts,
            conflicting_banks: conflicting_banks(banks, &group_words),
        });
        let turns = group_words.iter().map(|word| word.turn + 1).max().unwrap_or(0);
        for wavefront in 0..wavefronts as usize {
            let kind = match (turns != 0).then(|| wavefront / turns) {
                Some(0) => WavefrontKind::Data,
                Some(repetition) if repetition < repetitions as usize => WavefrontKind::Result,
                _ => WavefrontKind::Extra,
            };
            let served: Vec<&Word> = group_words
                .iter()
                .filter(|word| kind != WavefrontKind::Extra && word.turn == wavefront % turns)
                .collect();
            let place = explanation.data_wavefronts.len();
            let mut served_lanes = LaneMask::EMPTY;
            for word in &served {
                served_lanes.0 |= word.lanes.0;
            }
            for lane in explanation.lanes.iter_mut() {
                if served_lanes.contains(lane.lane as usize) {
                    lane.data_wavefronts.push(place);
                }
            }
            let mut words: Vec<BankWord> = served
                .iter()
                .map(|word| BankWord { bank: word.bank, address: word.address })
                .collect();
            words.sort_by_key(|word| (word.bank, word.address));
            explanation.data_wavefronts.push(DataWavefront {
                group,
                kind,
                lanes: served_lanes,
                words,
            });
        }
    }
}

/// The distinct words of a group, in the order of the first lane; with `turns`,
/// those of lanes that take different ones apart.
fn words_of(banks: Banks, lanes: Lanes<'_>, turns: Option<&[u8; WARP_LANES]>) -> Vec<Word> {
    let mut found: Vec<Word> = Vec::new();
    for (lane, address) in lanes.iter() {
        for word in words(address, lanes.width, banks.bytes) {
            let address = word.wrapping_mul(u64::from(banks.bytes));
            let (bank, row) = (banks.bank(word), banks.row(word));
            if let Some(turns) = turns {
                let turn = usize::from(turns[lane]);
                found.push(Word { bank, row, address, lanes: LaneMask(1 << lane), turn });
                continue;
            }
            if let Some(known) = found.iter_mut().find(|known| known.address == address) {
                known.lanes.0 |= 1 << lane;
                continue;
            }
            let mut rows: Vec<u64> = Vec::new();
            for known in found.iter().filter(|known| known.bank == bank) {
                if !rows.contains(&known.row) {
                    rows.push(known.row);
                }
            }
            let turn = rows.iter().position(|&known| known == row).unwrap_or(rows.len());
            found.push(Word { bank, row, address, lanes: LaneMask(1 << lane), turn });
        }
    }
    found
}

fn conflicting_banks(banks: Banks, words: &[Word]) -> Vec<BankConflict> {
    (0..banks.count)
        .filter_map(|bank| {
            let of_bank = || words.iter().filter(|word| word.bank == bank);
            of_bank().any(|word| word.turn > 0).then(|| BankConflict {
                bank,
                words: of_bank().map(|word| (word.address, word.lanes)).collect(),
            })
        })
        .collect()
}
