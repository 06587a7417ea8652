//! What the blocks of a launch access, in lines and sectors.

use super::geometry::{LINE_BYTES, SECTOR_BYTES};
use super::l1::Sectors;
use scenario::Diagnostic;
use scenario::eval::{Alike, AlikeLimits, BlockBox, Evaluator, Issue};
use simulator::{CacheOp, OpKind, RuleSet, Space, WarpAccess};

/// Boxes of alike blocks that a launch is divided into at most: each block is
/// looked for among them.
const BOXES: usize = 64;

/// Accesses kept for them at most, some 300 bytes each before their lines are
/// known.
const KEPT: usize = 1 << 17;

/// How an access goes through the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Through L1.
    Load,
    /// Past L1.
    LoadPastL1,
    /// Written through to L2.
    Store,
    /// Done at L2; so many sectors are sent there in turns.
    Atomic {
        /// Summed over the turns of lanes that meet in a word.
        sectors: u32,
    },
}

impl Action {
    /// `None`: it does not leave the SM.
    fn of(access: &WarpAccess, rules: &RuleSet) -> Option<Self> {
        if access.op.space != Space::Global {
            return None;
        }
        let past_l1 = matches!(access.op.cache, CacheOp::Cg | CacheOp::Cv);
        Some(match access.op.kind {
            OpKind::Load | OpKind::AsyncCopy if past_l1 => Self::LoadPastL1,
            OpKind::Load | OpKind::AsyncCopy => Self::Load,
            OpKind::Store => Self::Store,
            OpKind::Reduction(_) | OpKind::Atomic(_) => {
                Self::Atomic { sectors: rules.count(access).sectors? }
            }
        })
    }
}

/// A line that an access touches: its index, the sectors that are written
/// wholly, and the sectors touched, in 56, 4 and 4 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part(u64);

impl Part {
    fn new(line: u64, whole: Sectors, sectors: Sectors) -> Self {
        Self(line << 8 | u64::from(whole) << 4 | u64::from(sectors))
    }

    pub(super) fn line(self) -> u64 {
        self.0 >> 8
    }

    pub(super) fn whole(self) -> Sectors {
        (self.0 >> 4) as Sectors & 0b1111
    }

    pub(super) fn sectors(self) -> Sectors {
        self.0 as Sectors & 0b1111
    }
}

/// The lines of one warp access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Footprint {
    pub(super) parts: Vec<Part>,
    /// The bytes of each line of a store that it writes a sector of partly, in
    /// the order of `parts`.
    pub(super) bytes: Vec<u128>,
}

impl Footprint {
    /// Of an access whose addresses all move by `moved` bytes.
    fn of(access: &WarpAccess, moved: u64) -> Self {
        let mut lines: Vec<(u64, u128)> = Vec::with_capacity(4);
        let width = u32::from(access.width);
        for (_, address) in access.active() {
            let mut address = address.wrapping_add(moved);
            let mut left = width;
            // Aligned accesses of up to 32 bytes lie in one line.
            while left > 0 {
                let offset = (address % LINE_BYTES) as u32;
                let here = left.min(LINE_BYTES as u32 - offset);
                let ones = u128::MAX >> (128 - here) << offset;
                let line = address / LINE_BYTES;
                match lines.iter_mut().rev().find(|(known, _)| *known == line) {
                    Some((_, bytes)) => *bytes |= ones,
                    None => lines.push((line, ones)),
                }
                address = address.wrapping_add(u64::from(here));
                left -= here;
            }
        }
        let is_store = access.op.kind == OpKind::Store;
        let mut footprint = Self::default();
        for (line, bytes) in lines {
            let (mut whole, mut sectors) = (0, 0);
            for sector in 0..(LINE_BYTES / SECTOR_BYTES) as u32 {
                let these = (bytes >> (sector * SECTOR_BYTES as u32)) as u32;
                sectors |= Sectors::from(these != 0) << sector;
                whole |= Sectors::from(these == u32::MAX) << sector;
            }
            footprint.parts.push(Part::new(line, whole, sectors));
            if is_store && whole != sectors {
                footprint.bytes.push(bytes);
            }
        }
        footprint
    }
}

/// A warp access of a block.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) action: Action,
    /// Whether it is the last warp's of its statement.
    pub(super) ends_statement: bool,
    site: usize,
    warp: u32,
    from: From,
}

#[derive(Debug)]
enum From {
    /// A block by itself.
    Block(Footprint),
    /// The first block of a box.
    Box(Box<Moving>),
}

/// An access that moves from block to block.
#[derive(Debug)]
struct Moving {
    access: WarpAccess,
    steps: [i64; 3],
    /// Its footprints where it has moved by a number of lines and so many bytes.
    known: Vec<(u8, Footprint)>,
}

impl Access {
    fn of(issue: &Issue, rules: &RuleSet, from: From) -> Option<Self> {
        Some(Self {
            action: Action::of(&issue.access, rules)?,
            ends_statement: true,
            site: issue.site.0,
            warp: issue.warp,
            from,
        })
    }

    /// The lines that it touches in a block at a position in its box, and by how
    /// many lines they are moved.
    #[inline]
    pub(super) fn footprint(&mut self, position: [u64; 3]) -> (&Footprint, u64) {
        match &mut self.from {
            From::Block(footprint) => (footprint, 0),
            From::Box(moving) => moving.footprint(position),
        }
    }
}

impl Moving {
    fn footprint(&mut self, position: [u64; 3]) -> (&Footprint, u64) {
        let moved = self
            .steps
            .iter()
            .zip(position)
            .fold(0_u64, |moved, (&step, q)| moved.wrapping_add((step as u64).wrapping_mul(q)));
        let rest = (moved % LINE_BYTES) as u8;
        let lines = ((moved as i64) >> LINE_BYTES.ilog2()) as u64;
        let at = match self.known.iter().position(|(known, _)| *known == rest) {
            Some(at) => at,
            None => {
                self.known.push((rest, Footprint::of(&self.access, u64::from(rest))));
                self.known.len() - 1
            }
        };
        (&self.known[at].1, lines)
    }
}

/// Marks the last access of each statement.
fn end_statements(accesses: &mut [Access]) {
    for at in 1..accesses.len() {
        let [before, this] = &mut accesses[at - 1..=at] else { continue };
        before.ends_statement = this.site != before.site || this.warp <= before.warp;
    }
}

/// The blocks of a launch and what they access.
pub(super) struct Blocks<'e> {
    boxes: Vec<(BlockBox, Option<Vec<Access>>)>,
    /// The box that the last block was found in.
    last: usize,
    grid: [u64; 3],
    evaluate: Box<Evaluate<'e>>,
}

/// The accesses of one block, by its place in the grid.
type Evaluate<'e> = dyn FnMut([u64; 3]) -> Result<Vec<Access>, Diagnostic> + 'e;

/// A block about to run.
pub(super) enum Started {
    /// One of a box, at a position in it.
    OfBox {
        /// Which box.
        index: usize,
        /// Where in it.
        position: [u64; 3],
    },
    /// By itself.
    Alone(Vec<Access>),
}

impl<'e> Blocks<'e> {
    pub(super) fn new(
        evaluator: &'e Evaluator<'_>,
        rules: &'e RuleSet,
    ) -> Result<Self, Diagnostic> {
        let keep = |issue: &Issue, steps| {
            let moving = Moving { access: issue.access, steps, known: Vec::new() };
            Access::of(issue, rules, From::Box(Box::new(moving)))
        };
        let found = evaluator.walk(keep).alike(AlikeLimits { boxes: BOXES, kept: KEPT })?;
        let boxes = found
            .into_iter()
            .map(|Alike { blocks, mut kept }| {
                kept.iter_mut().for_each(|accesses| end_statements(accesses));
                (blocks, kept)
            })
            .collect();
        let mut walk = evaluator.walk(|issue: &Issue, _| {
            Access::of(issue, rules, From::Block(Footprint::of(&issue.access, 0)))
        });
        let evaluate = Box::new(move |block| {
            let mut accesses = walk.block(block)?;
            end_statements(&mut accesses);
            Ok(accesses)
        });
        Ok(Self { boxes, last: 0, grid: evaluator.run().launch.grid, evaluate })
    }

    /// Number of blocks.
    pub(super) fn count(&self) -> u64 {
        self.grid.iter().product()
    }

    /// The accesses of a box.
    pub(super) fn of_box(&mut self, index: usize) -> &mut [Access] {
        self.boxes[index].1.as_deref_mut().unwrap_or(&mut [])
    }

    /// The block with a number in launch order.
    pub(super) fn start(&mut self, number: u64) -> Result<Started, Diagnostic> {
        let [x, y, _] = self.grid;
        let block = [number % x, number / x % y, number / x / y];
        let boxes = &self.boxes;
        let candidates = std::iter::once(self.last).chain(0..boxes.len());
        for index in candidates {
            let Some((blocks, kept)) = boxes.get(index) else { continue };
            if let Some(position) = blocks.position(block) {
                self.last = index;
                if kept.is_some() {
                    return Ok(Started::OfBox { index, position });
                }
                break;
            }
        }
        Ok(Started::Alone((self.evaluate)(block)?))
    }

    /// Lines that all accesses of the launch touch, each access for itself, and
    /// accesses that have to be evaluated block by block; estimated from the
    /// first block of each box.
    pub(super) fn work(&mut self) -> Result<Work, Diagnostic> {
        let mut work = Work::default();
        for index in 0..self.boxes.len() {
            let (blocks, kept) = &mut self.boxes[index];
            let (number, start) = (blocks.blocks() as f64, blocks.start);
            let lines = |accesses: &mut [Access]| -> usize {
                accesses.iter_mut().map(|access| access.footprint([0; 3]).0.parts.len()).sum()
            };
            let of_block = match kept {
                Some(accesses) => lines(accesses),
                None => {
                    let mut accesses = (self.evaluate)(start)?;
                    work.evaluated += number * accesses.len() as f64;
                    lines(&mut accesses)
                }
            };
            work.lines += number * of_block as f64;
        }
        Ok(work)
    }
}

/// What going through a launch takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) lines: f64,
    pub(super) evaluated: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulator::{Op, WARP_LANES};

    #[test]
    fn a_store_knows_its_bytes() {
        // 32 floats from byte 100 of line 3.
        let start = 3 * LINE_BYTES + 100;
        let store = WarpAccess::new(
            Op::STORE,
            4,
            std::array::from_fn::<_, WARP_LANES, _>(|lane| start + 4 * lane as u64),
        );
        let footprint = Footprint::of(&store, 0);
        assert_eq!(footprint.parts, [Part::new(3, 0, 0b1000), Part::new(4, 0b0111, 0b1111)]);
        assert_eq!(footprint.bytes, [u128::MAX << 100, u128::MAX >> 28]);
        assert_eq!(Footprint::of(&store, 28).parts, [Part::new(4, 0b1111, 0b1111)]);
    }

    #[test]
    fn an_access_moves_with_its_block() {
        let access =
            WarpAccess::new(Op::LOAD, 4, std::array::from_fn(|lane| 1280 + 4 * lane as u64));
        let mut moving = Moving { access, steps: [132, -256, 0], known: Vec::new() };
        for (position, lines) in
            [([0, 0, 0], vec![10]), ([32, 0, 0], vec![43]), ([1, 1, 0], vec![9, 10])]
        {
            let (footprint, moved) = moving.footprint(position);
            let found: Vec<u64> =
                footprint.parts.iter().map(|part| part.line().wrapping_add(moved)).collect();
            assert_eq!(found, lines, "{position:?}");
        }
    }
}
