//! What is settled once a kernel's statements are all known: where pointers
//! point, which results nobody needs, the place of dynamic shared memory, which
//! arrays stay in registers, labels.

use super::context::{Lowerer, SiteNote};
use super::dead;
use super::labels::{self, Label};
use super::parse::Unit;
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::{
    Block, BufferId, Expr, ExprKind, LocalArrayId, LocalId, Program, Root, Scalar, SharedId,
    SiteId, Stmt, StmtKind, ValueType,
};
use crate::source::Span;
use simulator::{CacheOp, OpKind, Space};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

/// Longest label made from source text, in characters.
const MAX_LABEL: usize = 80;

impl Lowerer<'_> {
    /// Completes the program.
    pub(crate) fn finish(&mut self) {
        self.program.body = std::mem::take(&mut self.block);
        self.place_dynamic_shared();
        join_shared(&mut self.program);
        let roots = Roots::solve(&self.program);
        let mut errors = Vec::new();
        settle_sites(&mut self.program, &roots, &self.site_notes, &mut errors);
        if !self.program.local_arrays.is_empty() || !self.indexed.is_empty() {
            Varying::check(&self.program, &self.indexed, &mut errors);
        }
        dead::remove(&mut self.program);
        for error in errors {
            self.fail(error);
        }
        self.name_sites();
    }

    /// Dynamic shared memory starts behind the static arrays; all `extern`
    /// arrays are the same bytes.
    fn place_dynamic_shared(&mut self) {
        let Some(align) = self.dynamic_shared.iter().map(|(_, align, _)| *align).max() else {
            // The launch reserves it whether or not the kernel names it.
            let dynamic = self.env.launch.dynamic_shared_bytes;
            self.program.shared_bytes = self.program.shared_bytes.saturating_add(dynamic);
            return;
        };
        let offset = self.program.shared_bytes.next_multiple_of(align);
        for (id, _, _) in &self.dynamic_shared {
            self.program.shared[id.0].offset = offset;
        }
        self.program.shared_bytes = offset.saturating_add(self.env.launch.dynamic_shared_bytes);
    }

    /// Gives each site its label.
    fn name_sites(&mut self) {
        let unit = self.unit;
        let given = match given_labels(unit, &self.site_notes, &self.lowered, &self.dropped) {
            Ok(given) => given,
            Err(error) => {
                self.fail(error);
                return;
            }
        };
        let mut taken: HashSet<String> = HashSet::new();
        // Names that authors give come first, so that they get them unchanged.
        for labelled in [true, false] {
            for (site, note) in self.program.sites.iter_mut().zip(&self.site_notes) {
                let name = given.get(&note.group);
                if name.is_some() != labelled {
                    continue;
                }
                let stem = match name {
                    Some(name) => format!("{name}{}", note.suffix),
                    None => shorten(&format!("{}{}", site.text, note.suffix)),
                };
                let mut label = stem.clone();
                let mut number = 2;
                while !taken.insert(label.clone()) {
                    label = format!("{stem} ({number})");
                    number += 1;
                }
                site.label = label;
                site.labelled = labelled;
            }
        }
    }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= MAX_LABEL {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(MAX_LABEL - 1).collect();
    short.push('…');
    short
}

/// The labels that authors gave, by group of sites.
fn given_labels<'u>(
    unit: &'u Unit,
    notes: &[SiteNote],
    lowered: &[Range<u32>],
    dropped: &[Range<u32>],
) -> Result<BTreeMap<usize, &'u str>, Diagnostic> {
    let text = &unit.code.text;
    let mut given = BTreeMap::new();
    let mut labels: BTreeMap<usize, Vec<&Label>> = BTreeMap::new();
    for label in &unit.labels {
        labels.entry(label.line).or_default().push(label);
    }
    for (line, labels) in labels {
        let on_line = |range: &Range<u32>| {
            let first = labels::line_of(text, range.start as usize);
            let last = labels::line_of(text, (range.end as usize).max(1) - 1);
            (first..=last).contains(&line)
        };
        let mut groups: Vec<usize> =
            notes.iter().filter(|note| on_line(&note.range)).map(|note| note.group).collect();
        groups.dedup();
        let first = labels[0];
        let span = unit.code.span(first.range.start as usize, first.range.end as usize);
        if groups.is_empty() {
            let inside = |ranges: &[Range<u32>]| {
                ranges.iter().any(|range| range.contains(&first.range.start))
            };
            let dropped = dropped.iter().any(on_line);
            if inside(lowered) && !dropped {
                return Err(Diagnostic::new(
                    Kind::Document,
                    span,
                    format!("label `{}` names no access: its line makes none", first.name),
                    "put the comment on the line of the load or store",
                ));
            }
            continue;
        }
        if let [only] = labels.as_slice() {
            // Of an assignment, the store.
            if let Some(&group) = groups.last() {
                given.insert(group, only.name.as_str());
            }
            continue;
        }
        if labels.len() != groups.len() {
            return Err(Diagnostic::new(
                Kind::Document,
                span,
                format!("{} labels for {} accesses on this line", labels.len(), groups.len()),
                "give one label for each access in the order they happen, or just one for the last",
            ));
        }
        for (group, label) in groups.into_iter().zip(labels) {
            given.insert(group, label.name.as_str());
        }
    }
    Ok(given)
}

/// Calls `f` on each statement, inner ones included.
pub(crate) fn each_stmt<'p>(block: &'p [Stmt], f: &mut impl FnMut(&'p Stmt)) {
    for stmt in block {
        f(stmt);
        for inner in inner_blocks(stmt) {
            each_stmt(inner, f);
        }
    }
}

fn inner_blocks(stmt: &Stmt) -> Vec<&Block> {
    match &stmt.kind {
        StmtKind::If { then, otherwise, .. } => vec![then, otherwise],
        StmtKind::Loop { header, body, step, .. } => vec![header, body, step],
        StmtKind::Call { body } => vec![body],
        _ => Vec::new(),
    }
}

/// The expressions of a statement itself.
pub(crate) fn own_exprs(stmt: &Stmt) -> Vec<&Expr> {
    match &stmt.kind {
        StmtKind::Set { value, .. } => vec![value],
        StmtKind::SetElement { index, value, .. } => {
            value.iter().chain(std::iter::once(index)).collect()
        }
        StmtKind::Access(access) => std::iter::once(&access.address)
            .chain(&access.shared_address)
            .chain(&access.values)
            .collect(),
        StmtKind::If { condition, .. } | StmtKind::Loop { condition, .. } => vec![condition],
        StmtKind::Call { .. }
        | StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Return
        | StmtKind::Barrier => Vec::new(),
    }
}

/// The buffers and shared arrays that an address may come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RootSet {
    buffers: BTreeSet<BufferId>,
    shared: BTreeSet<SharedId>,
}

impl RootSet {
    fn add(&mut self, other: &Self) -> bool {
        let before = self.buffers.len() + self.shared.len();
        self.buffers.extend(&other.buffers);
        self.shared.extend(&other.shared);
        self.buffers.len() + self.shared.len() > before
    }
}

/// Where each variable may point, in any order of statements.
struct Roots {
    locals: Vec<RootSet>,
    arrays: Vec<RootSet>,
}

impl Roots {
    fn solve(program: &Program) -> Self {
        let mut roots = Self {
            locals: vec![RootSet::default(); program.locals.len()],
            arrays: vec![RootSet::default(); program.local_arrays.len()],
        };
        let mut assignments = Vec::new();
        each_stmt(&program.body, &mut |stmt| match &stmt.kind {
            StmtKind::Set { local, value } if is_wide(value) => {
                assignments.push((Ok(*local), value));
            }
            StmtKind::SetElement { array, value: Some(value), .. } if is_wide(value) => {
                assignments.push((Err(*array), value));
            }
            _ => {}
        });
        loop {
            let mut changed = false;
            for (target, value) in &assignments {
                let set = roots.of(value);
                changed |= match target {
                    Ok(local) => roots.locals[local.0].add(&set),
                    Err(array) => roots.arrays[array.0].add(&set),
                };
            }
            if !changed {
                return roots;
            }
        }
    }

    /// Where an address, or an integer made from one, may come from.
    fn of(&self, expr: &Expr) -> RootSet {
        let mut set = RootSet::default();
        if !is_wide(expr) {
            return set;
        }
        match &expr.kind {
            ExprKind::BufferBase(id) => {
                set.buffers.insert(*id);
            }
            ExprKind::SharedBase(id) => {
                set.shared.insert(*id);
            }
            ExprKind::Local(local) => return self.locals[local.0].clone(),
            ExprKind::Element(array, _) => return self.arrays[array.0].clone(),
            ExprKind::Binary(_, left, right) => {
                let pointers = [left, right].map(|side| side.ty == ValueType::Pointer);
                match pointers {
                    // The distance of two pointers points nowhere.
                    [true, true] => {}
                    [true, false] => return self.of(left),
                    _ => {
                        set = self.of(left);
                        set.add(&self.of(right));
                    }
                }
            }
            ExprKind::Convert(inner) | ExprKind::Neg(inner) | ExprKind::Not(inner) => {
                return self.of(inner);
            }
            ExprKind::Select(_, then, otherwise) => {
                set = self.of(then);
                set.add(&self.of(otherwise));
            }
            ExprKind::Call(_, operands) => {
                for operand in operands {
                    set.add(&self.of(operand));
                }
            }
            ExprKind::Const(_)
            | ExprKind::Opaque(_)
            | ExprKind::Builtin(_)
            | ExprKind::LogicalNot(_)
            | ExprKind::Compare(..)
            | ExprKind::LogicalAnd(..)
            | ExprKind::LogicalOr(..)
            | ExprKind::CheckedIndex { .. } => {}
        }
        set
    }
}

/// Whether a value has the 64 bits of an address.
fn is_wide(expr: &Expr) -> bool {
    matches!(expr.ty, ValueType::Pointer | ValueType::Int(Scalar::I64 | Scalar::U64))
}

/// Makes one array of shared arrays that one pointer may go into: two buffers
/// that swap roles, say. The first takes the bytes of all.
fn join_shared(program: &mut Program) {
    let roots = Roots::solve(program);
    // The array that each is joined with.
    let mut joined: Vec<usize> = (0..program.shared.len()).collect();
    each_stmt(&program.body, &mut |stmt| {
        let StmtKind::Access(access) = &stmt.kind else { return };
        for address in std::iter::once(&access.address).chain(&access.shared_address) {
            let set = roots.of(address);
            let mut arrays = set.shared.iter().map(|id| joined[id.0]);
            let Some(first) = arrays.next() else { continue };
            let others: Vec<_> = arrays.collect();
            let keep = others.iter().copied().fold(first, usize::min);
            for array in &mut joined {
                if *array == first || others.contains(array) {
                    *array = keep;
                }
            }
        }
    });
    let mut moves = vec![None; program.shared.len()];
    for keep in 0..joined.len() {
        let members: Vec<usize> =
            (0..joined.len()).filter(|&array| joined[array] == keep).collect();
        if members.len() < 2 {
            continue;
        }
        let parts: Vec<_> = members.iter().map(|&array| program.shared[array].clone()).collect();
        let start = parts.iter().map(|part| part.offset).min().unwrap_or(0);
        let end = parts.iter().map(|part| part.offset.saturating_add(part.bytes)).max();
        for (&array, part) in members.iter().zip(&parts) {
            moves[array] = Some((SharedId(keep), part.offset - start));
        }
        let whole = &mut program.shared[keep];
        whole.name = parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join(" + ");
        whole.offset = start;
        whole.bytes = end.unwrap_or(start) - start;
        if parts.iter().any(|part| part.integer != whole.integer) {
            whole.integer = None;
        }
    }
    if moves.iter().all(Option::is_none) {
        return;
    }
    each_expr_mut(&mut program.body, &mut |expr| {
        if let ExprKind::SharedBase(id) = expr.kind
            && let Some((whole, bytes)) = moves[id.0]
        {
            expr.kind = ExprKind::SharedBase(whole);
            let bytes = super::fold::constant(Scalar::I64, bytes as i64, expr.span);
            *expr = super::fold::offset(expr.clone(), bytes, expr.span);
        }
    });
    for site in &mut program.sites {
        if let Root::Shared(id) = site.root
            && let Some((whole, _)) = moves[id.0]
        {
            site.root = Root::Shared(whole);
        }
    }
}

/// Calls `f` on each expression of a block's statements, parts first.
fn each_expr_mut(block: &mut Block, f: &mut impl FnMut(&mut Expr)) {
    for stmt in block {
        match &mut stmt.kind {
            StmtKind::Set { value, .. } => super::fold::visit_mut(value, f),
            StmtKind::SetElement { index, value, .. } => {
                super::fold::visit_mut(index, f);
                if let Some(value) = value {
                    super::fold::visit_mut(value, f);
                }
            }
            StmtKind::Access(access) => {
                let exprs = std::iter::once(&mut access.address)
                    .chain(&mut access.shared_address)
                    .chain(&mut access.values);
                for expr in exprs {
                    super::fold::visit_mut(expr, f);
                }
            }
            StmtKind::If { condition, then, otherwise } => {
                super::fold::visit_mut(condition, f);
                each_expr_mut(then, f);
                each_expr_mut(otherwise, f);
            }
            StmtKind::Loop { header, condition, body, step, .. } => {
                super::fold::visit_mut(condition, f);
                each_expr_mut(header, f);
                each_expr_mut(body, f);
                each_expr_mut(step, f);
            }
            StmtKind::Call { body } => each_expr_mut(body, f),
            StmtKind::Break | StmtKind::Continue | StmtKind::Return | StmtKind::Barrier => {}
        }
    }
}

/// Settles root, space and cache operator of each site.
fn settle_sites(
    program: &mut Program,
    roots: &Roots,
    notes: &[SiteNote],
    errors: &mut Vec<Diagnostic>,
) {
    let mut found: Vec<(SiteId, RootSet, Option<RootSet>)> = Vec::new();
    each_stmt(&program.body, &mut |stmt| {
        if let StmtKind::Access(access) = &stmt.kind {
            let shared = access.shared_address.as_ref().map(|address| roots.of(address));
            found.push((access.site, roots.of(&access.address), shared));
        }
    });
    for (id, set, shared) in found {
        let site = &mut program.sites[id.0];
        let span = site.span;
        let root = match single_root(&set, span) {
            Ok(root) => root,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        site.root = root;
        let is_shared = matches!(root, Root::Shared(_));
        if let Some(shared) = shared {
            match single_root(&shared, span) {
                Ok(Root::Shared(id)) if !is_shared => site.shared_root = Some(id),
                Ok(_) => errors.push(Diagnostic::new(
                    Kind::Type,
                    span,
                    "an asynchronous copy goes from global to shared memory",
                    "name the shared array first, then the place in a buffer",
                )),
                Err(error) => errors.push(error),
            }
            continue;
        }
        if !is_shared {
            if notes[id.0].volatile && site.op.kind == OpKind::Load {
                site.op.cache = CacheOp::Cv;
            }
            continue;
        }
        site.op.space = Space::Shared;
        if site.op.cache != CacheOp::Default {
            errors.push(Diagnostic::new(
                Kind::Type,
                span,
                "cache operators are for global memory, and this is shared",
                "read or write it without __ld… or __st…",
            ));
        }
    }
}

fn single_root(set: &RootSet, span: Span) -> Result<Root, Diagnostic> {
    let buffers: Vec<_> = set.buffers.iter().collect();
    let shared: Vec<_> = set.shared.iter().collect();
    match (buffers.as_slice(), shared.as_slice()) {
        ([buffer], []) => Ok(Root::Buffer(**buffer)),
        ([], [array]) => Ok(Root::Shared(**array)),
        ([], []) => Err(Diagnostic::new(
            Kind::Type,
            span,
            "this address comes from no buffer or shared array",
            "compute it from a buffer's name, a parameter of the kernel or a shared array",
        )),
        (_, []) => Ok(Root::AnyBuffer),
        // Shared arrays that one pointer may go into have been joined.
        _ => Err(Diagnostic::new(
            Kind::NotModelled,
            span,
            "not modelled: a pointer that may go into global or into shared memory",
            "use one pointer for each",
        )),
    }
}

/// Which variables may differ between threads or depend on more than constants
/// of the run; an index made of one puts its array into local memory.
struct Varying {
    locals: HashSet<LocalId>,
    arrays: HashSet<LocalArrayId>,
    changed: bool,
}

impl Varying {
    fn check(program: &Program, indexed: &[(Expr, String)], errors: &mut Vec<Diagnostic>) {
        let mut varying = Self { locals: HashSet::new(), arrays: HashSet::new(), changed: true };
        while varying.changed {
            varying.changed = false;
            varying.block(&program.body, false);
        }
        let mut reported: BTreeSet<&str> = BTreeSet::new();
        let mut check = |name, index: &Expr| {
            if varying.expr(index) && reported.insert(name) {
                errors.push(Diagnostic::new(
                    Kind::NotModelled,
                    index.span,
                    format!(
                        "not modelled: local memory: the index into `{name}` is not the same for \
                         all threads"
                    ),
                    "index arrays of a thread by constants and variables of loops over constants, \
                     or use a shared array or a buffer",
                ));
            }
        };
        let name_of = |array: LocalArrayId| program.local_arrays[array.0].name.as_str();
        for (index, name) in indexed {
            check(name, index);
        }
        each_stmt(&program.body, &mut |stmt| {
            if let StmtKind::SetElement { array, index, .. } = &stmt.kind {
                check(name_of(*array), index);
            }
            for expr in own_exprs(stmt) {
                super::fold::visit(expr, &mut |part| {
                    if let ExprKind::Element(array, index) = &part.kind {
                        check(name_of(*array), index);
                    }
                });
            }
        });
    }

    fn block(&mut self, block: &[Stmt], under: bool) {
        for stmt in block {
            match &stmt.kind {
                StmtKind::Set { local, value } => {
                    if under || self.expr(value) {
                        self.changed |= self.locals.insert(*local);
                    }
                }
                StmtKind::SetElement { array, index, value } => {
                    let varies = under
                        || self.expr(index)
                        || value.as_ref().is_some_and(|value| self.expr(value));
                    if varies {
                        self.changed |= self.arrays.insert(*array);
                    }
                }
                StmtKind::Access(access) => {
                    for local in &access.results {
                        self.changed |= self.locals.insert(*local);
                    }
                }
                StmtKind::If { condition, then, otherwise } => {
                    let under = under || self.expr(condition);
                    self.block(then, under);
                    self.block(otherwise, under);
                }
                StmtKind::Loop { header, condition, body, step, .. } => {
                    self.block(header, under);
                    let under = under || self.expr(condition);
                    self.block(body, under);
                    self.block(step, under);
                }
                StmtKind::Call { body } => self.block(body, under),
                StmtKind::Break | StmtKind::Continue | StmtKind::Return | StmtKind::Barrier => {}
            }
        }
    }

    fn expr(&self, expr: &Expr) -> bool {
        let mut varies = false;
        super::fold::visit(expr, &mut |part| match &part.kind {
            ExprKind::Builtin(_) | ExprKind::Opaque(_) => varies = true,
            ExprKind::Local(local) => varies |= self.locals.contains(local),
            ExprKind::Element(array, _) => varies |= self.arrays.contains(array),
            _ => {}
        });
        varies
    }
}
