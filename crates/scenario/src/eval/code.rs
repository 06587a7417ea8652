//! The program made ready for evaluation: every index checked once, and what
//! the evaluator must know about a statement before it runs it.

use super::lanes::MAX_THREADS;
use super::value::ReasonId;
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::{
    Access, Block, Expr, ExprKind, Intrinsic, LocalId, OpaqueReason, Program, Root, Stmt, StmtKind,
    ValueType,
};
use crate::run::{Contents, Run};
use crate::source::Span;
use simulator::{OpKind, Space};

/// Statements and expressions may nest this deep; deeper ones are refused
/// before they can exhaust the stack.
const MAX_DEPTH: usize = 256;

/// Elements a local array may have: 512 KiB a thread (the local memory limit
/// of every compute capability since 2.0) of one byte each.
const MAX_LOCAL_ELEMENTS: u64 = 512 << 10;

/// Blocks a launch may have, so that counts of blocks fit `u64` with room.
const MAX_BLOCKS: u128 = 1 << 62;

/// Bytes of shared memory a block may declare for its contents to be kept;
/// every device has less.
const MAX_SHARED_BYTES: u64 = 1 << 20;

/// A run whose program can be evaluated without further checks.
pub(super) struct Code<'r> {
    pub(super) run: &'r Run,
    pub(super) body: Vec<Step<'r>>,
    /// Why values are opaque, by [`ReasonId`].
    pub(super) reasons: Vec<OpaqueReason>,
    /// Of local `i`: never given a value.
    pub(super) uninitialised_locals: Vec<ReasonId>,
    /// The same of local arrays.
    pub(super) uninitialised_arrays: Vec<ReasonId>,
    /// The same of shared arrays.
    pub(super) uninitialised_shared: Vec<ReasonId>,
    /// Of buffer `i`: why its values are unknown (also where it has contents).
    pub(super) unknown_buffers: Vec<ReasonId>,
    /// Whether values of buffer `i` can be computed: it has contents and the
    /// kernel does not write it.
    pub(super) readable: Vec<bool>,
    /// Whether the integers in shared array `i` are kept.
    pub(super) tracked: Vec<bool>,
    pub(super) float: ReasonId,
    pub(super) atomic_result: ReasonId,
    /// Number of [`Step::Loop`]s.
    pub(super) loops: usize,
}

/// A statement with what was found out about it.
pub(super) enum Step<'r> {
    Set {
        local: usize,
        value: &'r Expr,
    },
    SetElement {
        array: usize,
        index: &'r Expr,
        value: Option<&'r Expr>,
        span: Span,
    },
    Access {
        access: &'r Access,
        span: Span,
    },
    If {
        condition: &'r Expr,
        then: Vec<Step<'r>>,
        otherwise: Vec<Step<'r>>,
        /// The first statement inside that must not depend on an unknown
        /// condition: an access, a barrier, a loop or a jump.
        guarded: Option<(Span, &'static str)>,
        /// What either side assigns.
        locals: Vec<usize>,
        arrays: Vec<usize>,
    },
    Loop(Loop<'r>),
    Call(Vec<Step<'r>>),
    Break,
    Continue,
    Return,
    Barrier(Span),
}

pub(super) struct Loop<'r> {
    /// Number of this loop, 0..[`Code::loops`].
    pub(super) index: usize,
    pub(super) header: Vec<Step<'r>>,
    pub(super) condition: &'r Expr,
    pub(super) body: Vec<Step<'r>>,
    pub(super) step: Vec<Step<'r>>,
    pub(super) test_first: bool,
    /// Locals that an iteration assigns and that it may read before it has
    /// assigned them: what one iteration hands to the next.
    pub(super) carried: Vec<usize>,
    pub(super) span: Span,
}

impl<'r> Code<'r> {
    pub(super) fn new(run: &'r Run) -> Result<Self, Diagnostic> {
        check_launch(run)?;
        let program = &run.program;
        let mut reasons = Reasons::default();
        let float = reasons.intern(OpaqueReason::Float);
        let atomic_result = reasons.intern(OpaqueReason::AtomicResult);
        let written = written_buffers(run);
        let mut builder = Builder { run, program, reasons, loops: 0 };
        let mut readable = Vec::with_capacity(run.buffers.len());
        for (buffer, &written) in run.buffers.iter().zip(&written) {
            if let Contents::Computed(expr) = &buffer.contents {
                builder.check_contents(expr, 0)?;
            }
            readable.push(
                !written
                    && !matches!(buffer.contents, Contents::Unknown)
                    && buffer.scalar.is_some_and(|scalar| !scalar.is_float())
                    && buffer.element_bytes > 0
                    && buffer.pitch != Some(0),
            );
        }
        for site in &program.sites {
            builder.check_site(site)?;
        }
        for array in &program.local_arrays {
            if array.len > MAX_LOCAL_ELEMENTS {
                return Err(malformed(
                    program.sites.first().map(|site| site.span),
                    format!("local array `{}` of {} elements", array.name, array.len),
                ));
            }
        }
        let body = builder.block(&program.body, 0, 0)?;
        let mut reasons = builder.reasons;
        let loops = builder.loops;
        let mut uninitialised =
            |name: &String| reasons.intern(OpaqueReason::Uninitialised(name.clone()));
        let uninitialised_locals = program.locals.iter().map(|l| uninitialised(&l.name)).collect();
        let uninitialised_arrays =
            program.local_arrays.iter().map(|a| uninitialised(&a.name)).collect();
        let uninitialised_shared = program.shared.iter().map(|a| uninitialised(&a.name)).collect();
        let unknown_buffers = run
            .buffers
            .iter()
            .zip(&written)
            .map(|(buffer, &written)| {
                let name = buffer.name.clone();
                reasons.intern(if written {
                    OpaqueReason::Written(name)
                } else {
                    OpaqueReason::NoContents(name)
                })
            })
            .collect();
        Ok(Self {
            run,
            body,
            uninitialised_locals,
            uninitialised_arrays,
            uninitialised_shared,
            unknown_buffers,
            readable,
            tracked: tracked_shared(program),
            float,
            atomic_result,
            loops,
            reasons: reasons.0,
        })
    }

    /// The id of a reason that the program names.
    pub(super) fn reason(&self, reason: &OpaqueReason) -> ReasonId {
        let found = self.reasons.iter().position(|known| known == reason);
        found.map_or(self.float, |id| id as ReasonId)
    }

    pub(super) fn threads(&self) -> usize {
        self.run.launch.threads_per_block() as usize
    }

    pub(super) fn blocks(&self) -> u64 {
        // Checked by `check_launch`.
        self.run.launch.grid.iter().product()
    }
}

fn check_launch(run: &Run) -> Result<(), Diagnostic> {
    let limit = |message: String, help: &str| {
        Err(Diagnostic::whole_file(Kind::Limit, message, help.to_owned()))
    };
    let threads: u128 = run.launch.block.iter().map(|&n| u128::from(n)).product();
    if threads == 0 || run.launch.blocks() == 0 {
        return limit("the launch has no threads".to_owned(), "make every axis at least 1");
    }
    if threads > MAX_THREADS as u128 {
        return limit(
            format!("{threads} threads in a block, at most {MAX_THREADS} are possible"),
            "launch smaller blocks and more of them",
        );
    }
    if run.launch.blocks() > MAX_BLOCKS || run.launch.grid.iter().any(|&n| n > 1 << 32) {
        return limit(
            format!("a grid of {} blocks is too large", run.launch.blocks()),
            &format!("launch at most {MAX_BLOCKS} blocks"),
        );
    }
    Ok(())
}

/// The buffers that the kernel stores to.
fn written_buffers(run: &Run) -> Vec<bool> {
    let mut written = vec![false; run.buffers.len()];
    for site in &run.program.sites {
        if site.op.space == Space::Shared
            || matches!(site.op.kind, OpKind::Load | OpKind::AsyncCopy)
        {
            continue;
        }
        match site.root {
            Root::Buffer(id) => {
                if let Some(flag) = written.get_mut(id.0) {
                    *flag = true;
                }
            }
            Root::AnyBuffer => written.fill(true),
            Root::Shared(_) => {}
        }
    }
    written
}

/// The shared arrays whose integers some statement reads.
fn tracked_shared(program: &Program) -> Vec<bool> {
    let mut read = vec![false; program.shared.len()];
    fn visit(block: &Block, program: &Program, read: &mut [bool]) {
        for stmt in block {
            match &stmt.kind {
                StmtKind::Access(access) => {
                    if !access.results.is_empty()
                        && let Some(site) = program.sites.get(access.site.0)
                        && let Root::Shared(id) = site.root
                        && let Some(flag) = read.get_mut(id.0)
                    {
                        *flag = true;
                    }
                }
                StmtKind::If { then, otherwise, .. } => {
                    visit(then, program, read);
                    visit(otherwise, program, read);
                }
                StmtKind::Loop { header, body, step, .. } => {
                    visit(header, program, read);
                    visit(body, program, read);
                    visit(step, program, read);
                }
                StmtKind::Call { body } => visit(body, program, read),
                _ => {}
            }
        }
    }
    visit(&program.body, program, &mut read);
    program
        .shared
        .iter()
        .zip(read)
        .map(|(array, read)| read && array.integer.is_some() && array.bytes <= MAX_SHARED_BYTES)
        .collect()
}

#[derive(Default)]
struct Reasons(Vec<OpaqueReason>);

impl Reasons {
    fn intern(&mut self, reason: OpaqueReason) -> ReasonId {
        if let Some(id) = self.0.iter().position(|known| *known == reason) {
            return id as ReasonId;
        }
        // A program with more names than ids: the rest share one.
        if self.0.len() >= usize::from(ReasonId::MAX) {
            return 0;
        }
        self.0.push(reason);
        (self.0.len() - 1) as ReasonId
    }
}

fn malformed(span: Option<Span>, what: String) -> Diagnostic {
    let help = "the kernel was not lowered correctly: please report it with the scenario";
    let message = format!("the program can't be evaluated: {what}");
    match span {
        Some(span) => Diagnostic::new(Kind::NotModelled, span, message, help),
        None => Diagnostic::whole_file(Kind::NotModelled, message, help),
    }
}

struct Builder<'r> {
    run: &'r Run,
    program: &'r Program,
    reasons: Reasons,
    loops: usize,
}

impl<'r> Builder<'r> {
    fn block(
        &mut self,
        block: &'r Block,
        depth: usize,
        loop_depth: usize,
    ) -> Result<Vec<Step<'r>>, Diagnostic> {
        block.iter().map(|stmt| self.statement(stmt, depth, loop_depth)).collect()
    }

    fn statement(
        &mut self,
        stmt: &'r Stmt,
        depth: usize,
        loop_depth: usize,
    ) -> Result<Step<'r>, Diagnostic> {
        if depth > MAX_DEPTH {
            return Err(too_deep(stmt.span));
        }
        Ok(match &stmt.kind {
            StmtKind::Set { local, value } => {
                self.check_local(*local, stmt.span)?;
                self.check(value, depth)?;
                Step::Set { local: local.0, value }
            }
            StmtKind::SetElement { array, index, value } => {
                if self.program.local_arrays.get(array.0).is_none() {
                    return Err(malformed(Some(stmt.span), format!("local array {}", array.0)));
                }
                self.check(index, depth)?;
                if let Some(value) = value {
                    self.check(value, depth)?;
                }
                Step::SetElement { array: array.0, index, value: value.as_ref(), span: stmt.span }
            }
            StmtKind::Access(access) => {
                self.check_access(access, stmt.span, depth)?;
                Step::Access { access, span: stmt.span }
            }
            StmtKind::If { condition, then, otherwise } => {
                self.check(condition, depth)?;
                let mut effects = Effects::default();
                effects.block(then);
                effects.block(otherwise);
                Step::If {
                    condition,
                    then: self.block(then, depth + 1, loop_depth)?,
                    otherwise: self.block(otherwise, depth + 1, loop_depth)?,
                    guarded: effects.guarded,
                    locals: effects.locals,
                    arrays: effects.arrays,
                }
            }
            StmtKind::Loop { header, condition, body, step, test_first } => {
                let index = self.loops;
                self.loops += 1;
                self.check(condition, depth)?;
                let lowered = Loop {
                    index,
                    header: self.block(header, depth + 1, 0)?,
                    condition,
                    body: self.block(body, depth + 1, loop_depth + 1)?,
                    step: self.block(step, depth + 1, 0)?,
                    test_first: *test_first,
                    carried: carried(header, condition, body, step, self.program.locals.len()),
                    span: stmt.span,
                };
                Step::Loop(lowered)
            }
            StmtKind::Call { body } => Step::Call(self.block(body, depth + 1, 0)?),
            StmtKind::Break | StmtKind::Continue if loop_depth == 0 => {
                return Err(malformed(Some(stmt.span), "a jump outside of a loop".to_owned()));
            }
            StmtKind::Break => Step::Break,
            StmtKind::Continue => Step::Continue,
            StmtKind::Return => Step::Return,
            StmtKind::Barrier => Step::Barrier(stmt.span),
        })
    }

    fn check_local(&self, local: LocalId, span: Span) -> Result<(), Diagnostic> {
        match self.program.locals.get(local.0) {
            Some(local) if is_integer(local.ty) => Ok(()),
            Some(local) => {
                Err(malformed(Some(span), format!("`{}` is of a floating-point type", local.name)))
            }
            None => Err(malformed(Some(span), format!("local {}", local.0))),
        }
    }

    fn check_site(&self, site: &crate::program::Site) -> Result<(), Diagnostic> {
        let bad = |what: &str| Err(malformed(Some(site.span), what.to_owned()));
        if !matches!(site.width, 1 | 2 | 4 | 8 | 16 | 32) {
            return bad("the width of an access");
        }
        let moved = site.element.bytes() * u64::from(site.vector);
        if moved == 0 || moved > u64::from(site.width) {
            return bad("what an access moves");
        }
        let root_exists = |root: Root| match root {
            Root::Buffer(id) => id.0 < self.run.buffers.len(),
            Root::Shared(id) => id.0 < self.program.shared.len(),
            Root::AnyBuffer => true,
        };
        if !root_exists(site.root)
            || !site.shared_root.is_none_or(|id| root_exists(Root::Shared(id)))
        {
            return bad("what an access goes to");
        }
        if (site.op.space == Space::Shared) != matches!(site.root, Root::Shared(_)) {
            return bad("the space of an access");
        }
        Ok(())
    }

    fn check_access(&self, access: &Access, span: Span, depth: usize) -> Result<(), Diagnostic> {
        let Some(site) = self.program.sites.get(access.site.0) else {
            return Err(malformed(Some(span), format!("access site {}", access.site.0)));
        };
        self.check(&access.address, depth)?;
        if let Some(address) = &access.shared_address {
            self.check(address, depth)?;
        }
        let copies = site.op.kind == OpKind::AsyncCopy;
        if copies != access.shared_address.is_some() || copies != site.shared_root.is_some() {
            return Err(malformed(Some(span), "an asynchronous copy".to_owned()));
        }
        for value in &access.values {
            self.check(value, depth)?;
        }
        access.results.iter().try_for_each(|&local| self.check_local(local, span))
    }

    /// Checks an expression of the kernel.
    fn check(&self, expr: &Expr, depth: usize) -> Result<(), Diagnostic> {
        if depth > MAX_DEPTH {
            return Err(too_deep(expr.span));
        }
        if !is_integer(expr.ty) {
            return Err(malformed(Some(expr.span), "a floating-point expression".to_owned()));
        }
        let bad = |what: String| Err(malformed(Some(expr.span), what));
        let next = depth + 1;
        match &expr.kind {
            ExprKind::Const(_) | ExprKind::Opaque(_) | ExprKind::Builtin(_) => Ok(()),
            ExprKind::Local(local) => self.check_local(*local, expr.span),
            ExprKind::Element(array, index) => {
                if self.program.local_arrays.get(array.0).is_none() {
                    return bad(format!("local array {}", array.0));
                }
                self.check(index, next)
            }
            ExprKind::BufferBase(id) => match self.run.buffers.get(id.0) {
                Some(_) => Ok(()),
                None => bad(format!("buffer {}", id.0)),
            },
            ExprKind::SharedBase(id) => match self.program.shared.get(id.0) {
                Some(_) => Ok(()),
                None => bad(format!("shared array {}", id.0)),
            },
            _ => children(expr).iter().try_for_each(|child| self.check(child, next)),
        }?;
        match &expr.kind {
            ExprKind::Call(function, arguments) if arguments.len() != arity(*function) => {
                bad(format!("{} arguments of {function:?}", arguments.len()))
            }
            _ => Ok(()),
        }
    }

    /// Checks a buffer's `init`: a function of local 0 alone.
    fn check_contents(&self, expr: &Expr, depth: usize) -> Result<(), Diagnostic> {
        if depth > MAX_DEPTH {
            return Err(too_deep(expr.span));
        }
        match &expr.kind {
            ExprKind::Const(_) | ExprKind::Opaque(_) | ExprKind::Local(LocalId(0)) => Ok(()),
            ExprKind::Local(_)
            | ExprKind::Builtin(_)
            | ExprKind::Element(..)
            | ExprKind::BufferBase(_)
            | ExprKind::SharedBase(_) => {
                Err(malformed(Some(expr.span), "contents that depend on the thread".to_owned()))
            }
            ExprKind::Call(function, arguments) if arguments.len() != arity(*function) => {
                Err(malformed(Some(expr.span), format!("arguments of {function:?}")))
            }
            _ => children(expr).iter().try_for_each(|c| self.check_contents(c, depth + 1)),
        }
    }
}

fn too_deep(span: Span) -> Diagnostic {
    Diagnostic::new(
        Kind::NotModelled,
        span,
        format!("not modelled: statements and expressions nested more than {MAX_DEPTH} deep"),
        "name intermediate results with variables of their own",
    )
}

fn is_integer(ty: ValueType) -> bool {
    match ty {
        ValueType::Int(scalar) => !scalar.is_float(),
        ValueType::Pointer => true,
    }
}

fn arity(function: Intrinsic) -> usize {
    match function {
        Intrinsic::Min | Intrinsic::Max => 2,
        Intrinsic::Hash
        | Intrinsic::Hash64
        | Intrinsic::Abs
        | Intrinsic::Popc
        | Intrinsic::Clz
        | Intrinsic::Ffs
        | Intrinsic::Brev => 1,
    }
}

/// The operands of an expression.
fn children(expr: &Expr) -> smallvec::SmallVec<[&Expr; 3]> {
    match &expr.kind {
        ExprKind::Const(_)
        | ExprKind::Opaque(_)
        | ExprKind::Builtin(_)
        | ExprKind::Local(_)
        | ExprKind::BufferBase(_)
        | ExprKind::SharedBase(_) => smallvec::SmallVec::new(),
        ExprKind::Element(_, a)
        | ExprKind::Neg(a)
        | ExprKind::Not(a)
        | ExprKind::LogicalNot(a)
        | ExprKind::Convert(a)
        | ExprKind::CheckedIndex { index: a, .. } => smallvec::smallvec![&**a],
        ExprKind::Binary(_, a, b)
        | ExprKind::Compare(_, a, b)
        | ExprKind::LogicalAnd(a, b)
        | ExprKind::LogicalOr(a, b) => smallvec::smallvec![&**a, &**b],
        ExprKind::Select(a, b, c) => smallvec::smallvec![&**a, &**b, &**c],
        ExprKind::Call(_, arguments) => arguments.iter().collect(),
    }
}

/// What a block assigns, and whether it does anything else.
#[derive(Default)]
struct Effects {
    locals: Vec<usize>,
    arrays: Vec<usize>,
    guarded: Option<(Span, &'static str)>,
}

impl Effects {
    fn block(&mut self, block: &Block) {
        self.nested(block, false);
    }

    /// `returns_inside`: whether `return` leaves only an inlined function.
    fn nested(&mut self, block: &Block, returns_inside: bool) {
        for stmt in block {
            let what = match &stmt.kind {
                StmtKind::Set { local, .. } => {
                    self.local(local.0);
                    None
                }
                StmtKind::SetElement { array, .. } => {
                    if !self.arrays.contains(&array.0) {
                        self.arrays.push(array.0);
                    }
                    None
                }
                StmtKind::Access(access) => {
                    access.results.iter().for_each(|local| self.local(local.0));
                    Some("an access")
                }
                StmtKind::If { then, otherwise, .. } => {
                    self.nested(then, returns_inside);
                    self.nested(otherwise, returns_inside);
                    None
                }
                StmtKind::Loop { header, body, step, .. } => {
                    self.nested(header, returns_inside);
                    self.nested(body, returns_inside);
                    self.nested(step, returns_inside);
                    Some("a loop")
                }
                StmtKind::Call { body } => {
                    self.nested(body, true);
                    None
                }
                StmtKind::Return if returns_inside => None,
                StmtKind::Return => Some("a `return`"),
                StmtKind::Break => Some("a `break`"),
                StmtKind::Continue => Some("a `continue`"),
                StmtKind::Barrier => Some("a barrier"),
            };
            if let Some(what) = what
                && self.guarded.is_none()
            {
                self.guarded = Some((stmt.span, what));
            }
        }
    }

    fn local(&mut self, local: usize) {
        if !self.locals.contains(&local) {
            self.locals.push(local);
        }
    }
}

/// Locals that an iteration assigns and may read before it has: what one
/// iteration hands to the next. Definite assignment as in Java's
/// specification, chapter 16, kept coarse where that only adds locals.
fn carried(
    header: &Block,
    condition: &Expr,
    body: &Block,
    step: &Block,
    locals: usize,
) -> Vec<usize> {
    let mut effects = Effects::default();
    for block in [header, body, step] {
        effects.block(block);
    }
    let mut flow = Flow { read_first: vec![false; locals], continues: Vec::new() };
    let mut assigned = Assigned::Some(vec![false; locals]);
    flow.block(header, &mut assigned, &mut Assigned::Unreachable);
    flow.expr(condition, &assigned);
    flow.continues.push(Assigned::Unreachable);
    flow.block(body, &mut assigned, &mut Assigned::Unreachable);
    if let Some(continued) = flow.continues.pop() {
        assigned.meet(&continued);
    }
    flow.block(step, &mut assigned, &mut Assigned::Unreachable);
    effects.locals.retain(|&local| flow.read_first.get(local).copied().unwrap_or(true));
    effects.locals
}

/// The locals that are assigned on every path to a place.
#[derive(Clone)]
enum Assigned {
    Unreachable,
    Some(Vec<bool>),
}

impl Assigned {
    fn meet(&mut self, other: &Assigned) {
        match (&mut *self, other) {
            (_, Self::Unreachable) => {}
            (Self::Unreachable, _) => *self = other.clone(),
            (Self::Some(mine), Self::Some(theirs)) => {
                mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine &= theirs);
            }
        }
    }

    fn insert(&mut self, local: usize) {
        if let Self::Some(set) = self
            && let Some(flag) = set.get_mut(local)
        {
            *flag = true;
        }
    }
}

struct Flow {
    read_first: Vec<bool>,
    /// For each enclosing loop, what is assigned where it continues.
    continues: Vec<Assigned>,
}

impl Flow {
    fn expr(&mut self, expr: &Expr, assigned: &Assigned) {
        let Assigned::Some(set) = assigned else { return };
        if let ExprKind::Local(local) = &expr.kind
            && set.get(local.0) == Some(&false)
        {
            self.read_first[local.0] = true;
        }
        for child in children(expr) {
            self.expr(child, assigned);
        }
    }

    fn block(&mut self, block: &Block, assigned: &mut Assigned, returns: &mut Assigned) {
        for stmt in block {
            match &stmt.kind {
                StmtKind::Set { local, value } => {
                    self.expr(value, assigned);
                    assigned.insert(local.0);
                }
                StmtKind::SetElement { index, value, .. } => {
                    self.expr(index, assigned);
                    if let Some(value) = value {
                        self.expr(value, assigned);
                    }
                }
                StmtKind::Access(access) => {
                    self.expr(&access.address, assigned);
                    for expr in access.shared_address.iter().chain(&access.values) {
                        self.expr(expr, assigned);
                    }
                    access.results.iter().for_each(|local| assigned.insert(local.0));
                }
                StmtKind::If { condition, then, otherwise } => {
                    self.expr(condition, assigned);
                    let mut other = assigned.clone();
                    self.block(then, assigned, returns);
                    self.block(otherwise, &mut other, returns);
                    assigned.meet(&other);
                }
                StmtKind::Loop { header, condition, body, step, test_first } => {
                    // A `do` loop's first iteration skips header and test, so
                    // neither may count as assigned in its body.
                    let mut inside = assigned.clone();
                    self.block(header, &mut inside, returns);
                    self.expr(condition, &inside);
                    if *test_first {
                        *assigned = inside;
                    }
                    let mut inside = assigned.clone();
                    self.continues.push(Assigned::Unreachable);
                    self.block(body, &mut inside, returns);
                    self.continues.pop();
                    self.block(step, &mut assigned.clone(), returns);
                }
                StmtKind::Call { body } => {
                    let mut returned = Assigned::Unreachable;
                    // Loops outside the function can't be continued from it.
                    let outside = std::mem::take(&mut self.continues);
                    self.block(body, assigned, &mut returned);
                    self.continues = outside;
                    assigned.meet(&returned);
                }
                StmtKind::Return => {
                    returns.meet(assigned);
                    *assigned = Assigned::Unreachable;
                }
                StmtKind::Continue => {
                    if let Some(continued) = self.continues.last_mut() {
                        continued.meet(assigned);
                    }
                    *assigned = Assigned::Unreachable;
                }
                StmtKind::Break => *assigned = Assigned::Unreachable,
                StmtKind::Barrier => {}
            }
        }
    }
}
