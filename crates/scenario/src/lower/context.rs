//! The state of lowering one kernel: names in scope, statements so far, errors.

use super::items::Items;
use super::parse::Unit;
use super::suggest;
use super::value::{Leaf, Place, Pointer, Target, Value};
use super::{Environment, fold};
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::{
    Block, BufferId, Expr, ExprKind, Local, LocalArrayId, LocalId, Program, SharedId, Stmt,
    StmtKind, ValueType,
};
use crate::source::Span;
use crate::types::{self, StructId, StructTable, Type};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use tree_sitter::Node;

/// How deeply expressions, statements and calls may nest. The stack of a thread
/// with 2 MiB holds several times as many levels.
const MAX_DEPTH: usize = 200;

/// How many expressions, statements and calls may be lowered, each as often as
/// the function around it is inlined. A kernel has hundreds or thousands; without
/// a limit, functions that call others twice would double the work at each level.
const MAX_STEPS: u32 = 500_000;

/// Errors after which the rest is not worth reading.
const MAX_ERRORS: usize = 50;

/// Lowering of this part failed; the error is recorded already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed;

/// The result of lowering a part.
pub(crate) type Lowered<T> = Result<T, Failed>;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Binding {
    /// A variable, an array, a reference.
    Place(Place),
    /// A value that never changes: a parameter, a constant.
    Value(Value),
    /// A type: `typedef`, `using`, a template's parameter.
    Type(Type),
    /// A buffer of the scenario.
    Buffer(BufferId),
    /// `cg::thread_block`, the threads of a block.
    ThreadBlock,
    /// Its declaration had an error, which is recorded already.
    Poisoned,
}

/// Where `return` in the function being lowered goes.
#[derive(Clone, Debug)]
pub(crate) enum Returns {
    /// Out of the kernel.
    Kernel,
    /// To the call: the value is stored here (`None` for `void`).
    Call(Option<Place>),
    /// The one `return` at the end of a function, of this type (`None` for
    /// `auto`): its value is that of the call, kept here.
    Tail(Option<Type>, Option<Value>),
}

/// What `break` and `continue` mean where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breaks {
    /// Outside loops.
    Nothing,
    /// In a loop.
    Loop,
    /// In a `switch` that became a loop of one iteration: `break` leaves it,
    /// `continue` has no way out of it.
    Switch,
}

/// Everything known while a kernel is lowered.
pub(crate) struct Lowerer<'a> {
    pub(crate) unit: &'a Unit,
    pub(crate) env: &'a Environment<'a>,
    pub(crate) structs: StructTable,
    pub(crate) items: Items<'a>,
    pub(crate) program: Program,
    /// Facts about accesses that only the end of lowering uses, by site.
    pub(crate) site_notes: Vec<SiteNote>,
    /// The statements being made.
    pub(crate) block: Block,
    /// Names, innermost scope last; the first scope is that of the file.
    pub(crate) scopes: Vec<HashMap<String, Binding>>,
    pub(crate) returns: Returns,
    pub(crate) breaks: Breaks,
    /// The function being lowered.
    pub(crate) body: Option<Node<'a>>,
    /// Names that it assigns to.
    pub(crate) assigned: HashSet<String>,
    /// Functions being inlined: the start of their text, and their template
    /// arguments.
    pub(crate) calls: Vec<(usize, String)>,
    /// Shared arrays by declaration and instance of its function.
    pub(crate) shared: BTreeMap<(usize, String), SharedId>,
    /// Shared arrays that are `extern`, with their alignment.
    pub(crate) dynamic_shared: Vec<(SharedId, u64, Span)>,
    /// Template arguments of the function being lowered.
    pub(crate) instance: String,
    /// Bodies of the file's structs, for their member functions, with the
    /// template arguments that their names stand for.
    pub(crate) struct_bodies: HashMap<StructId, (Node<'a>, HashMap<String, Binding>)>,
    /// Items of the file whose value is being worked out.
    pub(crate) resolving: HashSet<String>,
    /// Indices into arrays of floats inside variables, with the variable's
    /// name: they must be the same for all threads.
    pub(crate) indexed: Vec<(Expr, String)>,
    /// The bytes of the code that were lowered, and of branches never taken.
    pub(crate) lowered: Vec<Range<u32>>,
    pub(crate) dropped: Vec<Range<u32>>,
    pub(crate) errors: Vec<Diagnostic>,
    depth: usize,
    steps: u32,
    /// Number of the call that is being inlined, and of those so far; 0 is the
    /// kernel.
    pub(crate) call: u32,
    pub(crate) calls_so_far: u32,
    /// Types of expressions, by call and node.
    pub(crate) types: HashMap<(u32, usize), Lowered<Type>>,
}

/// What the end of lowering needs to know about a site.
#[derive(Clone, Debug)]
pub(crate) struct SiteNote {
    /// The bytes of the access in the code.
    pub(crate) range: Range<u32>,
    /// Number of the place that the site is a piece of.
    pub(crate) group: usize,
    /// What the label gets where several pieces share it: `.x`.
    pub(crate) suffix: String,
    /// Whether the access is `volatile`.
    pub(crate) volatile: bool,
}

impl<'a> Lowerer<'a> {
    pub(crate) fn new(unit: &'a Unit, env: &'a Environment<'a>, items: Items<'a>) -> Self {
        Self {
            unit,
            env,
            structs: env.structs.clone(),
            items,
            program: Program::default(),
            site_notes: Vec::new(),
            block: Block::new(),
            scopes: vec![HashMap::new()],
            returns: Returns::Kernel,
            breaks: Breaks::Nothing,
            body: None,
            assigned: HashSet::new(),
            calls: Vec::new(),
            shared: BTreeMap::new(),
            dynamic_shared: Vec::new(),
            instance: String::new(),
            struct_bodies: HashMap::new(),
            resolving: HashSet::new(),
            indexed: Vec::new(),
            lowered: Vec::new(),
            dropped: Vec::new(),
            errors: Vec::new(),
            depth: 0,
            steps: 0,
            call: 0,
            calls_so_far: 0,
            types: HashMap::new(),
        }
    }

    pub(crate) fn text(&self, node: Node<'_>) -> &'a str {
        self.unit.text(node)
    }

    pub(crate) fn span(&self, node: Node<'_>) -> Span {
        self.unit.span(node)
    }

    /// The text that the user wrote for a node, white space folded.
    pub(crate) fn source_text(&self, node: Node<'_>) -> String {
        let range = self.unit.range(node);
        let text = self.unit.code.text.get(range.start as usize..range.end as usize);
        fold_space(text.unwrap_or(""))
    }

    // Errors

    /// Records an error.
    pub(crate) fn fail(&mut self, error: Diagnostic) -> Failed {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
        Failed
    }

    /// Records a construct outside the subset.
    pub(crate) fn not_modelled(
        &mut self,
        node: Node<'_>,
        what: impl AsRef<str>,
        help: impl Into<String>,
    ) -> Failed {
        let message = format!("not modelled: {}", what.as_ref());
        let span = self.span(node);
        self.fail(Diagnostic::new(Kind::NotModelled, span, message, help))
    }

    /// Records a type error.
    pub(crate) fn type_error(
        &mut self,
        node: Node<'_>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Failed {
        let span = self.span(node);
        self.fail(Diagnostic::new(Kind::Type, span, message, help))
    }

    /// Records a name that nothing defines, with one like it if there is one.
    pub(crate) fn unknown_name(&mut self, node: Node<'_>, name: &str, what: &str) -> Failed {
        let span = self.span(node);
        let (names, remedy) = if what == "type" {
            let structs = self.structs.structs.iter().map(|layout| layout.name.clone());
            let common = types::COMMON_NAMES.iter().map(|&name| name.to_owned());
            let remedy = "use a type of CUDA such as float, int, float4, or define it";
            (structs.chain(common).collect(), remedy)
        } else if what == "function" {
            (self.visible_names(), "define it as a __device__ function in the same text")
        } else {
            (self.visible_names(), "declare it, or add it to [params] or [buffers]")
        };
        let mut error = Diagnostic::new(
            Kind::UnknownName,
            span,
            format!("unknown {what} `{name}`"),
            match suggest::nearest(name, names.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => remedy.to_owned(),
            },
        );
        let unread: Vec<_> = self
            .unit
            .includes
            .iter()
            .filter(|include| include.starts_with('"'))
            .map(String::as_str)
            .collect();
        if !unread.is_empty() {
            error = error.note(format!(
                "#include is not followed ({}): copy what the kernel needs into its file",
                unread.join(", "),
            ));
        }
        self.fail(error)
    }

    /// All names that an expression could use.
    pub(crate) fn visible_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.scopes.iter().flat_map(|s| s.keys().cloned()).collect();
        names.extend(self.items.names().map(str::to_owned));
        names.extend(self.env.params.iter().map(|(name, _)| name.clone()));
        names.extend(super::builtins::NAMES.iter().map(|&name| name.to_owned()));
        names.sort();
        names.dedup();
        names
    }

    // Nesting

    /// Runs `inner` one level deeper.
    pub(crate) fn nested<T>(
        &mut self,
        node: Node<'_>,
        inner: impl FnOnce(&mut Self) -> Lowered<T>,
    ) -> Lowered<T> {
        if self.depth >= MAX_DEPTH {
            let span = self.span(node);
            return Err(self.fail(Diagnostic::new(
                Kind::Limit,
                span,
                format!("nested more than {MAX_DEPTH} levels deep"),
                "split the expression or statement",
            )));
        }
        self.steps = self.steps.saturating_add(1);
        if self.steps >= MAX_STEPS {
            // Told once; then all that is left fails at once.
            if self.steps == MAX_STEPS {
                let span = self.span(node);
                self.errors.push(Diagnostic::new(
                    Kind::Limit,
                    span,
                    format!(
                        "the kernel has more than {MAX_STEPS} parts when its calls are inlined"
                    ),
                    "call fewer functions from functions, or write a shorter kernel",
                ));
            }
            return Err(Failed);
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    // Names

    /// Runs `inner` with a scope of its own.
    pub(crate) fn scoped<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(HashMap::new());
        let result = inner(self);
        self.scopes.pop();
        result
    }

    /// Binds a name in the innermost scope.
    pub(crate) fn bind(&mut self, name: &str, binding: Binding) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), binding);
        }
    }

    /// Binds a name that a declaration introduces; a second declaration in the
    /// same scope is an error.
    pub(crate) fn declare(&mut self, node: Node<'_>, name: &str, binding: Binding) -> Lowered<()> {
        let taken = self.scopes.last().and_then(|scope| scope.get(name));
        let taken = taken.is_some_and(|taken| !matches!(taken, Binding::Poisoned));
        self.bind(name, binding);
        if taken {
            let span = self.span(node);
            return Err(self.fail(Diagnostic::new(
                Kind::Type,
                span,
                format!("`{name}` is declared twice in the same scope"),
                "rename one of them, or assign to the first",
            )));
        }
        Ok(())
    }

    /// What a name stands for in the scopes around, the file's items not yet
    /// looked at excepted.
    pub(crate) fn local_binding(&self, name: &str) -> Option<&Binding> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    // Statements

    /// Appends a statement.
    pub(crate) fn emit(&mut self, kind: StmtKind, span: Span) {
        self.block.push(Stmt { kind, span });
    }

    /// The statements that `inner` makes, as a block of their own.
    pub(crate) fn in_block<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> (Block, T) {
        let outer = std::mem::take(&mut self.block);
        let result = inner(self);
        (std::mem::replace(&mut self.block, outer), result)
    }

    /// Runs `inner` for the type or place it finds and forgets what it emitted,
    /// as `sizeof` does with its operand.
    pub(crate) fn unevaluated<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Lowered<T>,
    ) -> Lowered<T> {
        let (sites, locals) = (self.program.sites.len(), self.program.locals.len());
        let notes = self.site_notes.len();
        let (_, result) = self.in_block(inner);
        self.program.sites.truncate(sites);
        self.program.locals.truncate(locals);
        self.site_notes.truncate(notes);
        result
    }

    /// A new scalar variable.
    pub(crate) fn local(&mut self, name: &str, ty: ValueType) -> LocalId {
        self.program.locals.push(Local { name: name.to_owned(), ty });
        LocalId(self.program.locals.len() - 1)
    }

    /// The value of a local.
    pub(crate) fn read(&self, local: LocalId, span: Span) -> Expr {
        Expr { kind: ExprKind::Local(local), ty: self.program.locals[local.0].ty, span }
    }

    /// Puts an expression into a temporary and returns the temporary's value.
    pub(crate) fn temporary(&mut self, name: &str, value: Expr) -> Expr {
        let span = value.span;
        let local = self.local(name, value.ty);
        self.emit(StmtKind::Set { local, value }, span);
        self.read(local, span)
    }

    // Order of evaluation

    /// Keeps expressions true that were lowered when the block had `mark`
    /// statements: where a statement since then assigns a variable that one
    /// reads, its value is saved before those statements.
    pub(crate) fn keep(&mut self, mark: usize, exprs: Vec<&mut Expr>) {
        if self.block.len() == mark {
            return;
        }
        let mut written = Written::default();
        written.block(&self.block[mark..]);
        let mut at = mark;
        for expr in exprs {
            if !written.touches(expr) {
                continue;
            }
            let span = expr.span;
            let local = self.local("saved", expr.ty);
            let read = self.read(local, span);
            let value = std::mem::replace(expr, read);
            self.block.insert(at, Stmt { kind: StmtKind::Set { local, value }, span });
            at += 1;
        }
    }

    /// [`Lowerer::keep`] for a value.
    pub(crate) fn keep_value(&mut self, mark: usize, value: &mut Value) {
        self.keep(mark, value_exprs(value));
    }

    /// [`Lowerer::keep`] for the addresses and indices of a place.
    pub(crate) fn keep_place(&mut self, mark: usize, place: &mut Place) {
        self.keep(mark, place_exprs(place));
    }
}

/// The expressions that a value is made of.
pub(crate) fn value_exprs(value: &mut Value) -> Vec<&mut Expr> {
    let mut exprs = Vec::new();
    for leaf in &mut value.leaves {
        match leaf {
            Leaf::Int(expr) => exprs.push(expr),
            Leaf::Float(_) => {}
            Leaf::Pointer(Pointer { target: Target::Memory(expr), .. }) => exprs.push(expr),
            Leaf::Pointer(Pointer { target: Target::Register(place, offset), .. }) => {
                exprs.extend(place_exprs(place));
                exprs.push(offset);
            }
        }
    }
    exprs
}

/// The expressions that a place is found by.
pub(crate) fn place_exprs(place: &mut Place) -> Vec<&mut Expr> {
    match place {
        Place::Memory(memory) => vec![&mut memory.address],
        Place::Rows(rows) => vec![&mut rows.address],
        Place::Register(_) | Place::Constant(_) => Vec::new(),
        Place::Elements(elements) => vec![&mut elements.index],
        Place::Value(value) => value_exprs(value),
    }
}

/// Variables that statements assign.
#[derive(Default)]
struct Written {
    locals: HashSet<LocalId>,
    arrays: HashSet<LocalArrayId>,
}

impl Written {
    fn block(&mut self, block: &[Stmt]) {
        for stmt in block {
            match &stmt.kind {
                StmtKind::Set { local, .. } => {
                    self.locals.insert(*local);
                }
                StmtKind::SetElement { array, .. } => {
                    self.arrays.insert(*array);
                }
                StmtKind::Access(access) => self.locals.extend(&access.results),
                StmtKind::If { then, otherwise, .. } => {
                    self.block(then);
                    self.block(otherwise);
                }
                StmtKind::Loop { header, body, step, .. } => {
                    self.block(header);
                    self.block(body);
                    self.block(step);
                }
                StmtKind::Call { body } => self.block(body),
                StmtKind::Break | StmtKind::Continue | StmtKind::Return | StmtKind::Barrier => {}
            }
        }
    }

    fn touches(&self, expr: &Expr) -> bool {
        let mut found = false;
        fold::visit(expr, &mut |expr| match &expr.kind {
            ExprKind::Local(local) => found |= self.locals.contains(local),
            ExprKind::Element(array, _) => found |= self.arrays.contains(array),
            _ => {}
        });
        found
    }
}

/// A type's name with its article: "an `int`".
pub(crate) fn article(name: &str) -> String {
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} `{name}`")
}

/// White space folded to single spaces.
pub(crate) fn fold_space(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
