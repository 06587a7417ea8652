//! Loads, stores, atomics: how an object in memory is moved, and the sites.
//!
//! Objects are moved as nvcc 13.0 moves them (seen in the PTX it makes of one
//! small kernel for each case below):
//!
//! - A vector is one access where its alignment allows, up to 16 bytes:
//!   `float4` one of 16, `float3` three of 4, `double4` two of 16. All of it is
//!   moved, whichever components are used.
//! - A struct that is copied from memory to memory (`a[i] = b[j]`, also by way of
//!   a variable that is not looked into) is moved in pieces of its alignment, at
//!   most 16 bytes, padding included.
//! - A struct that is loaded for its fields is moved field by field, those that
//!   the function reads. Neighbours of one size move together in a vector of the
//!   struct's alignment, at most 16 bytes, whole if one of them is read (three
//!   floats with 4 bytes of padding: one access of 16); if only one field of the
//!   struct is read, it moves alone.
//! - A struct that is stored from a variable is moved field by field, neighbours
//!   together where alignment allows, without padding.
//!
//! nvcc also joins accesses that the source writes one by one (`a[i].x` and
//! `a[i].y` of a `float4`) and drops loads whose value is not used. Those are
//! counted as written.

use super::context::{Lowered, Lowerer, SiteNote, fold_space};
use super::decl::leaf_names;
use super::fold;
use super::value::{Leaf, LeafType, Memory, Qualifiers, Value, leaf_types};
use crate::program::{
    Access, BufferId, Expr, LocalId, OpaqueReason, Root, Scalar, Site, SiteId, StmtKind, ValueType,
};
use crate::types::Type;
use simulator::{CacheOp, Op, OpKind, Space};
use std::ops::Range;
use tree_sitter::Node;

/// Most bytes that one lane moves in one access.
const MAX_ACCESS_BYTES: u64 = 16;

/// Part of an object that one access moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Bytes from the object's start.
    pub(crate) offset: u64,
    /// The scalar that is moved; where floats and integers of one size are
    /// moved together, the unsigned integer of that size.
    pub(crate) element: Scalar,
    /// How many of them.
    pub(crate) count: usize,
    /// Numbers of the object's scalars that they are; fewer than `count` where
    /// padding is moved, none where the scalars are not told apart.
    pub(crate) leaves: Range<usize>,
    /// What the piece is called: `.x`, `.xy`; empty for the whole object.
    pub(crate) suffix: String,
}

/// The scalars of an object that is moved.
struct Layout {
    scalars: Vec<(Scalar, u64)>,
    names: Vec<String>,
    bytes: u64,
    /// Bytes that one access may move: the alignment, up to 16.
    unit: u64,
}

impl Layout {
    /// Neighbours of one size within one unit, the most from `first` on.
    fn run(&self, first: usize) -> Range<usize> {
        let (scalar, start) = self.scalars[first];
        let size = scalar.bytes();
        let mut end = first + 1;
        while let Some(&(next, offset)) = self.scalars.get(end) {
            let follows = next.bytes() == size && offset == start + size * (end - first) as u64;
            if !follows || offset / self.unit != start / self.unit {
                break;
            }
            end += 1;
        }
        first..end
    }

    /// Whether an access of `count` scalars can start at scalar `first`.
    fn fits(&self, first: usize, count: usize) -> bool {
        let (scalar, offset) = self.scalars[first];
        let bytes = scalar.bytes() * count as u64;
        bytes <= self.unit && offset % bytes == 0
    }

    /// The pieces that move a run: vectors of 4 and 2 as they fit; with
    /// `padding`, three move as four where what follows is padding.
    fn split(&self, run: Range<usize>, padding: bool, pieces: &mut Vec<Piece>) {
        let mut first = run.start;
        while first < run.end {
            let rest = run.end - first;
            let end = self.scalars[first].1 + 4 * self.scalars[first].0.bytes();
            let is_padding = self.scalars.get(run.end).is_none_or(|&(_, next)| next >= end);
            let count = if rest == 3 && padding && is_padding && self.fits(first, 4) {
                4
            } else {
                [4, 2].into_iter().find(|&n| n <= rest && self.fits(first, n)).unwrap_or(1)
            };
            let leaves = first..(first + count).min(run.end);
            first = leaves.end;
            pieces.push(self.piece(leaves, count));
        }
    }

    fn piece(&self, leaves: Range<usize>, count: usize) -> Piece {
        let (element, offset) = self.scalars[leaves.start];
        let same = self.scalars[leaves.clone()].iter().all(|&(other, _)| other == element);
        let suffix = if leaves.len() == self.scalars.len() {
            String::new()
        } else {
            piece_name(&self.names[leaves.clone()])
        };
        let element = if same { element } else { unsigned_of(element.bytes()) };
        Piece { offset, element, count, leaves, suffix }
    }

    /// All runs in order.
    fn runs(&self) -> Vec<Range<usize>> {
        let mut runs = Vec::new();
        let mut first = 0;
        while first < self.scalars.len() {
            let run = self.run(first);
            first = run.end;
            runs.push(run);
        }
        runs
    }
}

impl<'a> Lowerer<'a> {
    fn layout(&mut self, ty: &Type, node: Node<'a>) -> Lowered<Layout> {
        self.check_leaves(node, ty)?;
        let mut scalars = Vec::new();
        for (leaf, offset) in leaf_types(ty, &self.structs) {
            match leaf {
                LeafType::Scalar(scalar) => scalars.push((scalar, offset)),
                LeafType::Pointer => return Err(self.pointer_in_memory(node)),
            }
        }
        let unit = self.structs.align_of(ty).min(MAX_ACCESS_BYTES);
        let (names, bytes) = (leaf_names(ty, &self.structs), self.structs.size_of(ty));
        Ok(Layout { scalars, names, bytes, unit })
    }

    /// How an object is loaded of which the scalars in `used` are read.
    fn load_pieces(layout: &Layout, used: Option<&[bool]>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if let Some(used) = used
            && let [only] =
                used.iter().enumerate().filter(|(_, used)| **used).collect::<Vec<_>>()[..]
        {
            pieces.push(layout.piece(only.0..only.0 + 1, 1));
            return pieces;
        }
        for run in layout.runs() {
            if used.is_none_or(|used| used[run.clone()].contains(&true)) {
                layout.split(run, true, &mut pieces);
            }
        }
        pieces
    }

    /// How an object is stored whose scalars are at hand.
    fn store_pieces(layout: &Layout) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for run in layout.runs() {
            layout.split(run, false, &mut pieces);
        }
        pieces
    }

    /// How an object is copied from memory to memory.
    fn copy_pieces(layout: &Layout) -> Vec<Piece> {
        let unit = layout.unit;
        let whole = layout.bytes <= unit;
        (0..layout.bytes / unit)
            .map(|index| {
                let offset = index * unit;
                let inside: Vec<usize> = (0..layout.scalars.len())
                    .filter(|&leaf| (offset..offset + unit).contains(&layout.scalars[leaf].1))
                    .collect();
                let names: Vec<_> = inside.iter().map(|&leaf| layout.names[leaf].clone()).collect();
                let suffix = if whole { String::new() } else { piece_name(&names) };
                // Scalars of one kind keep it; others move as words.
                let first = inside.first().map(|&leaf| layout.scalars[leaf].0);
                let element = first
                    .filter(|first| {
                        unit / first.bytes() <= 4
                            && inside.iter().all(|&leaf| layout.scalars[leaf].0 == *first)
                    })
                    .unwrap_or(unsigned_of(unit.min(4)));
                let count = (unit / element.bytes()) as usize;
                Piece { offset, element, count, leaves: 0..0, suffix }
            })
            .collect()
    }

    /// Copies a struct from memory to memory.
    pub(crate) fn copy_memory(
        &mut self,
        from: &Memory,
        to: &Memory,
        from_node: Node<'a>,
        to_node: Node<'a>,
    ) -> Lowered<()> {
        self.load_whole(from, from_node)?;
        self.store_whole(to, to_node)
    }

    /// Loads a struct that is not looked into.
    pub(crate) fn load_whole(&mut self, memory: &Memory, node: Node<'a>) -> Lowered<()> {
        self.move_whole(memory, Op::LOAD, node)
    }

    /// Stores a struct that was not looked into.
    pub(crate) fn store_whole(&mut self, memory: &Memory, node: Node<'a>) -> Lowered<()> {
        self.move_whole(memory, Op::STORE, node)
    }

    fn move_whole(&mut self, memory: &Memory, op: Op, node: Node<'a>) -> Lowered<()> {
        let layout = self.layout(&memory.ty, node)?;
        let group = self.site_notes.len();
        for piece in Self::copy_pieces(&layout) {
            let site = self.site(op, &piece, memory.of, memory.qualifiers, group, node);
            let address = self.piece_address(memory, &piece, node);
            self.access(site, address, Vec::new(), Vec::new(), node);
        }
        Ok(())
    }

    /// Refuses a pointer that would be read from or written to memory.
    pub(crate) fn pointer_in_memory(&mut self, node: Node<'a>) -> super::context::Failed {
        self.not_modelled(
            node,
            "pointers in memory (double pointers, arrays of pointers)",
            "pass one buffer and compute offsets into it",
        )
    }

    /// Loads an object; of a struct, the scalars in `used` and what nvcc moves
    /// with them.
    pub(crate) fn load_memory(
        &mut self,
        memory: Memory,
        cache: CacheOp,
        used: Option<&[bool]>,
        node: Node<'a>,
    ) -> Lowered<Value> {
        let span = self.span(node);
        let layout = self.layout(&memory.ty, node)?;
        let op = Op { cache, ..Op::LOAD };
        let group = self.site_notes.len();
        let mut leaves: Vec<Leaf> = layout
            .scalars
            .iter()
            .map(|&(scalar, _)| match scalar.is_float() {
                true => Leaf::Float(None),
                false => Leaf::Int(fold::opaque(
                    OpaqueReason::Uninitialised(self.source_text(node)),
                    scalar,
                    span,
                )),
            })
            .collect();
        for piece in Self::load_pieces(&layout, used) {
            let site = self.site(op, &piece, memory.of, memory.qualifiers, group, node);
            let address = self.piece_address(&memory, &piece, node);
            let scalars = &layout.scalars[piece.leaves.clone()];
            let mut results = Vec::new();
            if scalars.iter().any(|(scalar, _)| !scalar.is_float()) {
                let name = self.program.sites[site.0].text.clone();
                for _ in 0..piece.count {
                    results.push(self.local(&name, ValueType::Int(piece.element)));
                }
            }
            for ((index, &(scalar, _)), &local) in piece.leaves.clone().zip(scalars).zip(&results) {
                if !scalar.is_float() {
                    leaves[index] = Leaf::Int(fold::convert(self.read(local, span), scalar));
                }
            }
            self.access(site, address, Vec::new(), results, node);
        }
        Ok(Value { ty: memory.ty, leaves })
    }

    /// Stores an object; without a value, an unknown one.
    pub(crate) fn store_memory(
        &mut self,
        memory: &Memory,
        value: Option<&Value>,
        cache: CacheOp,
        node: Node<'a>,
    ) -> Lowered<()> {
        let span = self.span(node);
        let layout = self.layout(&memory.ty, node)?;
        let op = Op { cache, ..Op::STORE };
        let group = self.site_notes.len();
        for piece in Self::store_pieces(&layout) {
            let site = self.site(op, &piece, memory.of, memory.qualifiers, group, node);
            let address = self.piece_address(memory, &piece, node);
            let stored = value
                .map_or(&[][..], |value| value.leaves.get(piece.leaves.clone()).unwrap_or(&[]));
            let known = stored.iter().any(|leaf| matches!(leaf, Leaf::Int(_)));
            let values = stored
                .iter()
                .filter(|_| known)
                .map(|leaf| match leaf {
                    Leaf::Int(expr) => fold::convert(expr.clone(), piece.element),
                    _ => fold::opaque(OpaqueReason::Float, piece.element, span),
                })
                .collect();
            self.access(site, address, values, Vec::new(), node);
        }
        Ok(())
    }

    /// A load that writes shared memory instead of registers.
    pub(crate) fn copy_async(
        &mut self,
        from: Expr,
        to: Expr,
        element: Scalar,
        bytes: u64,
        node: Node<'a>,
    ) {
        // What the intrinsic compiles to: `cp.async.cg` for 16 bytes, else
        // `cp.async.ca` (CUDA's pipeline_primitives header).
        let cache = if bytes == 16 { CacheOp::Cg } else { CacheOp::Ca };
        let op = Op { cache, ..Op::plain(OpKind::AsyncCopy, Space::Global) };
        let piece = Piece {
            offset: 0,
            element,
            count: (bytes / element.bytes()) as usize,
            leaves: 0..0,
            suffix: String::new(),
        };
        let group = self.site_notes.len();
        let site = self.site(op, &piece, None, Qualifiers::default(), group, node);
        let span = self.span(node);
        let access = Access {
            site,
            address: from,
            shared_address: Some(to),
            values: Vec::new(),
            results: Vec::new(),
        };
        self.emit(StmtKind::Access(access), span);
    }

    /// An atomic on one scalar or a pair of halves.
    pub(crate) fn atomic(
        &mut self,
        op: Op,
        memory: &Memory,
        values: Vec<Expr>,
        wanted: bool,
        node: Node<'a>,
    ) -> Lowered<Option<LocalId>> {
        let (element, count) = match &memory.ty {
            Type::Scalar(scalar) => (*scalar, 1),
            Type::Vector { element, count } => (*element, usize::from(*count)),
            _ => (Scalar::U32, 1),
        };
        let piece = Piece { offset: 0, element, count, leaves: 0..0, suffix: String::new() };
        let group = self.site_notes.len();
        let site = self.site(op, &piece, memory.of, memory.qualifiers, group, node);
        let result = (wanted && !element.is_float()).then(|| {
            let name = self.program.sites[site.0].text.clone();
            self.local(&name, ValueType::Int(element))
        });
        self.access(site, memory.address.clone(), values, result.into_iter().collect(), node);
        Ok(result)
    }

    fn access(
        &mut self,
        site: SiteId,
        address: Expr,
        values: Vec<Expr>,
        results: Vec<LocalId>,
        node: Node<'a>,
    ) {
        let span = self.span(node);
        let access = Access { site, address, shared_address: None, values, results };
        self.emit(StmtKind::Access(access), span);
    }

    fn piece_address(&mut self, memory: &Memory, piece: &Piece, node: Node<'a>) -> Expr {
        let span = self.span(node);
        let offset = fold::constant(Scalar::I64, piece.offset as i64, span);
        fold::offset(memory.address.clone(), offset, span)
    }

    /// A new site. Its space, root and label are settled at the end of
    /// lowering, when all pointers are known.
    fn site(
        &mut self,
        op: Op,
        piece: &Piece,
        of: Option<Root>,
        qualifiers: Qualifiers,
        group: usize,
        node: Node<'a>,
    ) -> SiteId {
        let range = self.unit.range(node);
        let text = self.unit.code.text.get(range.start as usize..range.end as usize);
        let text = fold_space(text.unwrap_or(""));
        self.site_notes.push(SiteNote {
            range,
            group,
            suffix: piece.suffix.clone(),
            volatile: qualifiers.volatile,
        });
        self.program.sites.push(Site {
            label: String::new(),
            labelled: false,
            op,
            width: (piece.element.bytes() * piece.count as u64) as u8,
            element: piece.element,
            vector: piece.count as u8,
            root: of.unwrap_or(Root::Buffer(BufferId(usize::MAX))),
            shared_root: None,
            span: self.span(node),
            text,
        });
        SiteId(self.program.sites.len() - 1)
    }
}

/// The unsigned integer of this many bytes.
fn unsigned_of(bytes: u64) -> Scalar {
    match bytes {
        1 => Scalar::U8,
        2 => Scalar::U16,
        4 => Scalar::U32,
        _ => Scalar::U64,
    }
}

/// A name for neighbouring parts: `.x`, `.xy`, `.a…d`.
fn piece_name(names: &[String]) -> String {
    match names {
        [name] => name.clone(),
        [first, rest @ ..] => {
            let component = |name: &String| {
                let (stem, last) = name.split_at(name.len().saturating_sub(1));
                matches!(last, "x" | "y" | "z" | "w").then(|| (stem.to_owned(), last.to_owned()))
            };
            if let Some((stem, mut text)) = component(first)
                && stem.ends_with('.')
                && rest.iter().all(|name| component(name).is_some_and(|(other, _)| other == stem))
            {
                for name in rest {
                    text.push_str(&name[name.len() - 1..]);
                }
                return format!("{stem}{text}");
            }
            match rest.last() {
                Some(last) => format!("{first}…{}", last.trim_start_matches('.')),
                None => first.clone(),
            }
        }
        [] => String::new(),
    }
}
