//! Loads, stores, atomics: how an object in memory is moved, and the sites.
//!
//! An object is moved as nvcc moves it: each scalar by itself, neighbours of
//! equal size together where the object's alignment allows, up to 16 bytes. So
//! a `float4` is one access of 16 bytes, a `float3` three of 4, a `double4` two
//! of 16, and a struct of four floats is four accesses of 4 bytes, or one of 16
//! with `__align__(16)`. Padding is not moved. A whole struct is moved
//! even where only some fields are used afterwards; name the field
//! (`p[i].x`) to move just that.

use super::context::{Lowered, Lowerer, SiteNote, fold_space};
use super::decl::leaf_names;
use super::fold;
use super::value::{Leaf, LeafType, Memory, Qualifiers, Value, leaf_types};
use crate::program::{
    Access, BufferId, Expr, LocalId, OpaqueReason, Root, Scalar, Site, SiteId, StmtKind, ValueType,
};
use crate::types::Type;
use simulator::{CacheOp, Op, OpKind, Space};
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
    /// Number of the first of the object's scalars in it.
    pub(crate) first: usize,
    /// Scalars in it.
    pub(crate) count: usize,
    /// What the piece is called: `.x`, `.xy`; empty for the whole object.
    pub(crate) suffix: String,
}

impl<'a> Lowerer<'a> {
    /// How an object of type `ty` is moved.
    pub(crate) fn pieces(&mut self, ty: &Type, node: Node<'a>) -> Lowered<Vec<Piece>> {
        self.check_leaves(node, ty)?;
        let leaves = leaf_types(ty, &self.structs);
        let align = self.structs.align_of(ty);
        let mut scalars = Vec::with_capacity(leaves.len());
        for (leaf, offset) in leaves {
            match leaf {
                LeafType::Scalar(scalar) => scalars.push((scalar, offset)),
                LeafType::Pointer => return Err(self.pointer_in_memory(node)),
            }
        }
        let names = leaf_names(ty, &self.structs);
        let mut pieces = Vec::new();
        let mut first = 0;
        while let Some(&(element, offset)) = scalars.get(first) {
            let size = element.bytes();
            let count = [4, 2]
                .into_iter()
                .find(|&count| {
                    let bytes = size * count as u64;
                    bytes <= MAX_ACCESS_BYTES.min(align)
                        && offset % bytes == 0
                        && scalars.get(first..first + count).is_some_and(|together| {
                            together.iter().enumerate().all(|(index, &(other, at))| {
                                other.bytes() == size && at == offset + size * index as u64
                            })
                        })
                })
                .unwrap_or(1);
            let together = &scalars[first..first + count];
            let same = together.iter().all(|&(other, _)| other == element);
            let element = if same { element } else { unsigned_of(size) };
            let suffix = if count == scalars.len() {
                String::new()
            } else {
                piece_name(&names[first..first + count])
            };
            pieces.push(Piece { offset, element, first, count, suffix });
            first += count;
        }
        Ok(pieces)
    }

    /// Refuses a pointer that would be read from or written to memory.
    pub(crate) fn pointer_in_memory(&mut self, node: Node<'a>) -> super::context::Failed {
        self.not_modelled(
            node,
            "pointers in memory (double pointers, arrays of pointers)",
            "pass one buffer and compute offsets into it",
        )
    }

    /// Loads an object.
    pub(crate) fn load_memory(
        &mut self,
        memory: Memory,
        cache: CacheOp,
        node: Node<'a>,
    ) -> Lowered<Value> {
        let span = self.span(node);
        let pieces = self.pieces(&memory.ty, node)?;
        let types = leaf_types(&memory.ty, &self.structs);
        let mut leaves = Vec::with_capacity(types.len());
        let op = Op { cache, ..Op::LOAD };
        let group = self.site_notes.len();
        for piece in pieces {
            let site = self.site(op, &piece, memory.of, memory.qualifiers, group, node);
            let address = self.piece_address(&memory, &piece, node);
            let wanted: Vec<Scalar> = types[piece.first..piece.first + piece.count]
                .iter()
                .filter_map(|(leaf, _)| match leaf {
                    LeafType::Scalar(scalar) => Some(*scalar),
                    LeafType::Pointer => None,
                })
                .collect();
            let mut results = Vec::new();
            if wanted.iter().any(|scalar| !scalar.is_float()) {
                let name = self.program.sites[site.0].text.clone();
                for _ in 0..piece.count {
                    results.push(self.local(&name, ValueType::Int(piece.element)));
                }
            }
            for (index, scalar) in wanted.into_iter().enumerate() {
                leaves.push(match results.get(index) {
                    Some(&local) if !scalar.is_float() => {
                        Leaf::Int(fold::convert(self.read(local, span), scalar))
                    }
                    _ => Leaf::Float(None),
                });
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
        let pieces = self.pieces(&memory.ty, node)?;
        let op = Op { cache, ..Op::STORE };
        let group = self.site_notes.len();
        for piece in pieces {
            let site = self.site(op, &piece, memory.of, memory.qualifiers, group, node);
            let address = self.piece_address(memory, &piece, node);
            let stored = value.map_or(&[][..], |value| {
                value.leaves.get(piece.first..piece.first + piece.count).unwrap_or(&[])
            });
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
            first: 0,
            count: (bytes / element.bytes()) as usize,
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
        let piece = Piece { offset: 0, element, first: 0, count, suffix: String::new() };
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
