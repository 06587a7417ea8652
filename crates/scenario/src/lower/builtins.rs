//! What CUDA defines for every kernel: variables, functions, intrinsics.

use super::context::{Lowered, Lowerer, article};
use super::convert::common;
use super::decl::Named;
use super::fold;
use super::value::{Leaf, Memory, Place, Value};
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::{
    Axis, BinaryOp, Builtin, Expr, ExprKind, Intrinsic, Scalar, StmtKind, ValueType,
};
use crate::types::{self, Type};
use simulator::{AtomicOp, CacheOp, Op, OpKind, Space, ValueKind};
use tree_sitter::Node;

/// Names that suggestions draw on.
pub(crate) const NAMES: &[&str] = &[
    "threadIdx",
    "blockIdx",
    "blockDim",
    "gridDim",
    "warpSize",
    "__syncthreads",
    "__syncwarp",
    "load",
    "store",
    "hash",
    "hash64",
    "__ldg",
    "__ldca",
    "__ldcg",
    "__ldcs",
    "__ldlu",
    "__ldcv",
    "__stwb",
    "__stcg",
    "__stcs",
    "__stwt",
    "atomicAdd",
    "atomicSub",
    "atomicMin",
    "atomicMax",
    "atomicAnd",
    "atomicOr",
    "atomicXor",
    "atomicInc",
    "atomicDec",
    "atomicExch",
    "atomicCAS",
    "min",
    "max",
    "abs",
    "umin",
    "umax",
    "llmin",
    "llmax",
    "ullmin",
    "ullmax",
    "labs",
    "llabs",
    "__popc",
    "__popcll",
    "__clz",
    "__clzll",
    "__ffs",
    "__ffsll",
    "__brev",
    "__brevll",
    "__mul24",
    "__umul24",
    "__mulhi",
    "__umulhi",
    "__pipeline_memcpy_async",
    "__pipeline_commit",
    "__pipeline_wait_prior",
    "__threadfence",
    "__threadfence_block",
    "__threadfence_system",
    "make_float4",
    "sqrtf",
    "rsqrtf",
    "expf",
    "logf",
    "sinf",
    "cosf",
    "powf",
    "fabsf",
    "fmaxf",
    "fminf",
    "fmaf",
    "sqrt",
    "exp",
    "log",
    "sin",
    "cos",
    "pow",
    "fabs",
    "fmax",
    "fmin",
    "fma",
];

/// `<math.h>` functions without their `f`.
const MATH: &[&str] = &[
    "sqrt",
    "rsqrt",
    "cbrt",
    "rcbrt",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "pow",
    "fabs",
    "floor",
    "ceil",
    "round",
    "trunc",
    "rint",
    "nearbyint",
    "fmod",
    "remainder",
    "fmin",
    "fmax",
    "fma",
    "fdim",
    "hypot",
    "copysign",
    "erf",
    "erfc",
    "erfinv",
    "erfcinv",
    "tgamma",
    "lgamma",
    "sinpi",
    "cospi",
    "normcdf",
    "normcdfinv",
    "logb",
    "ldexp",
    "scalbn",
    "j0",
    "j1",
    "y0",
    "y1",
    "rhypot",
    "norm3d",
    "norm4d",
    "nextafter",
    "__saturate",
    "__exp",
    "__exp10",
    "__log",
    "__log2",
    "__log10",
    "__sin",
    "__cos",
    "__tan",
    "__pow",
    "__fdivide",
    "__tanh",
    "fdivide",
];

/// Whether a name is one of CUDA's functions that the model knows.
pub(crate) fn is_function(name: &str) -> bool {
    NAMES[5..].contains(&name)
        || MATH.contains(&name)
        || name.strip_suffix('f').is_some_and(|stem| MATH.contains(&stem))
}

/// A family of functions outside the subset: what it is and what to do.
pub(crate) fn outside(name: &str) -> Option<(&'static str, &'static str)> {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let is = |names: &[&str]| names.contains(&name);
    Some(if starts(&["__shfl"]) {
        ("warp shuffles", "exchange through a shared array")
    } else if starts(&["__ballot", "__any", "__all", "__match_", "__activemask", "__reduce_"]) {
        ("warp votes and reductions", "compute the condition in each thread")
    } else if starts(&["tex1D", "tex2D", "tex3D", "texCubemap"]) {
        ("textures", "read through a pointer: textures have a cache and a layout of their own")
    } else if starts(&["surf1D", "surf2D", "surf3D"]) {
        ("surfaces", "read and write through a pointer")
    } else if is(&["printf", "__trap", "__brkpt", "__prof_trigger"]) {
        ("output and traps in kernels", "remove the call")
    } else if is(&["malloc", "free", "memcpy", "memmove", "memset"]) {
        ("memory functions in kernels", "write the loop that reads and writes the elements")
    } else if is(&["clock", "clock64", "__nanosleep", "__globaltimer"]) {
        ("clocks", "remove the call")
    } else if starts(&["__syncthreads_"]) {
        ("barriers that vote", "use __syncthreads() and a shared variable")
    } else if starts(&["wmma::", "nvcuda::"])
        || is(&["load_matrix_sync", "store_matrix_sync", "mma_sync", "fill_fragment"])
    {
        ("matrix instructions", "load the elements of the fragment one by one")
    } else if starts(&["cg::", "cooperative_groups::"])
        || is(&["memcpy_async", "tiled_partition", "this_grid", "coalesced_threads"])
    {
        ("cooperative groups but for thread_block", "use __pipeline_memcpy_async, __syncthreads()")
    } else if starts(&["__cluster", "__cp_async", "__mbarrier"]) {
        ("clusters and tensor-map copies", "use a block and __pipeline_memcpy_async")
    } else if is(&["alloca", "__builtin_alloca"]) {
        ("arrays of variable length", "declare an array of constant length")
    } else if starts(&["cuda", "cub::", "thrust::"]) {
        ("libraries and the CUDA runtime in kernels", "write out what the kernel does")
    } else {
        return None;
    })
}

impl<'a> Lowerer<'a> {
    /// Refuses a name of a family that is not modelled.
    pub(crate) fn outside(&mut self, node: Node<'a>) -> super::context::Failed {
        let text = self.text(node);
        let (what, help) = outside(text).unwrap_or(("this name", "write it without"));
        self.not_modelled(node, format!("{what} (`{text}`)"), help)
    }

    /// `threadIdx`, `warpSize`, `INT_MAX` and their like.
    pub(crate) fn builtin_value(&mut self, node: Node<'a>, name: &str) -> Option<Value> {
        use Axis::{X, Y, Z};
        let span = self.span(node);
        let axes = |builtin: fn(Axis) -> Builtin| {
            [X, Y, Z].map(|axis| Expr {
                kind: ExprKind::Builtin(builtin(axis)),
                ty: ValueType::Int(Scalar::U32),
                span,
            })
        };
        let launch = self.env.launch;
        let sizes = |sizes: [u64; 3]| sizes.map(|n| fold::constant(Scalar::U32, n as i64, span));
        let vector = match name {
            "threadIdx" => axes(Builtin::ThreadIdx),
            "blockIdx" => axes(Builtin::BlockIdx),
            "blockDim" => sizes(launch.block.map(u64::from)),
            "gridDim" => sizes(launch.grid),
            _ => {
                let int = |ty, value| Some(Value::int(fold::constant(ty, value, span)));
                return match name {
                    "warpSize" => int(Scalar::I32, simulator::WARP_LANES as i64),
                    "CHAR_BIT" => int(Scalar::I32, 8),
                    "SHRT_MAX" => int(Scalar::I32, i64::from(i16::MAX)),
                    "USHRT_MAX" => int(Scalar::I32, i64::from(u16::MAX)),
                    "INT_MAX" => int(Scalar::I32, i64::from(i32::MAX)),
                    "INT_MIN" => int(Scalar::I32, i64::from(i32::MIN)),
                    "UINT_MAX" => int(Scalar::U32, i64::from(u32::MAX)),
                    "LONG_MAX" | "LLONG_MAX" => int(Scalar::I64, i64::MAX),
                    "LONG_MIN" | "LLONG_MIN" => int(Scalar::I64, i64::MIN),
                    "ULONG_MAX" | "ULLONG_MAX" | "SIZE_MAX" => int(Scalar::U64, -1),
                    "NULL" => Some(Value::pointer(
                        fold::to_pointer(fold::constant(Scalar::U64, 0, span)),
                        Type::Void,
                        super::value::Qualifiers::default(),
                    )),
                    "FLT_MAX" | "FLT_MIN" | "FLT_EPSILON" | "INFINITY" | "NAN" | "HUGE_VALF"
                    | "CUDART_INF_F" | "CUDART_NAN_F" | "CUDART_PI_F" => {
                        Some(Value::float(Scalar::F32, None))
                    }
                    "DBL_MAX" | "DBL_MIN" | "DBL_EPSILON" | "HUGE_VAL" | "M_PI" | "M_E"
                    | "M_SQRT2" | "CUDART_INF" | "CUDART_NAN" | "CUDART_PI" => {
                        Some(Value::float(Scalar::F64, None))
                    }
                    _ => None,
                };
            }
        };
        Some(Value {
            ty: Type::Vector { element: Scalar::U32, count: 3 },
            leaves: vector.map(Leaf::Int).to_vec(),
        })
    }

    /// Whether an expression is `cg::this_thread_block()`.
    pub(crate) fn is_thread_block(&self, node: Node<'a>) -> bool {
        node.kind() == "call_expression"
            && node
                .child_by_field_name("function")
                .is_some_and(|function| self.text(function).ends_with("this_thread_block"))
    }

    /// Whether an expression is a thread block, by name or by call.
    pub(crate) fn names_thread_block(&self, node: Node<'a>) -> bool {
        self.is_thread_block(node)
            || (node.kind() == "identifier"
                && matches!(
                    self.local_binding(self.text(node)),
                    Some(super::context::Binding::ThreadBlock)
                ))
    }

    /// A member function of `cg::thread_block`.
    pub(crate) fn thread_block_call(&mut self, member: &str, node: Node<'a>) -> Lowered<Value> {
        let span = self.span(node);
        match member {
            "sync" | "barrier_arrive" | "barrier_wait" => {
                if member != "barrier_arrive" {
                    self.emit(StmtKind::Barrier, span);
                }
                Ok(Value::void())
            }
            "size" | "num_threads" => {
                let threads = i64::from(self.env.launch.threads_per_block());
                Ok(Value::int(fold::constant(Scalar::U32, threads, span)))
            }
            "thread_rank" => {
                let [x, y, z] = self.env.launch.block.map(i64::from);
                let Some(index) = self.builtin_value(node, "threadIdx") else {
                    return Ok(Value::void());
                };
                let mut sum: Option<Expr> = None;
                for (leaf, (stride, extent)) in
                    index.leaves.into_iter().zip([(1, x), (x, y), (x * y, z)])
                {
                    // An axis of one thread is always 0.
                    let Leaf::Int(axis) = leaf else { continue };
                    if extent == 1 && sum.is_some() {
                        continue;
                    }
                    let stride = fold::constant(Scalar::U32, stride, span);
                    let part = if fold::as_const(&stride) == Some(1) {
                        axis
                    } else {
                        fold::binary(BinaryOp::Mul, axis, stride, span)
                    };
                    sum = Some(match sum {
                        Some(sum) => fold::binary(BinaryOp::Add, sum, part, span),
                        None => part,
                    });
                }
                Ok(sum.map_or_else(Value::void, Value::int))
            }
            "thread_index" | "group_index" | "group_dim" | "dim_threads" => {
                let name = match member {
                    "thread_index" => "threadIdx",
                    "group_index" => "blockIdx",
                    _ => "blockDim",
                };
                Ok(self.builtin_value(node, name).unwrap_or_else(Value::void))
            }
            _ => Err(self.not_modelled(
                node,
                format!("`{member}` of a thread block"),
                "use sync(), thread_rank(), thread_index(), group_index(), size()",
            )),
        }
    }

    /// A call of one of CUDA's functions; `None` if the name is none of them.
    pub(crate) fn builtin_call(
        &mut self,
        name: &str,
        arguments: &[Node<'a>],
        wanted: bool,
        node: Node<'a>,
    ) -> Lowered<Option<Value>> {
        if let Some((what, help)) = outside(name) {
            return Err(self.not_modelled(node, format!("{what} (`{name}`)"), help));
        }
        let span = self.span(node);
        match name {
            "__syncthreads" => {
                self.arity(name, arguments, 0, node)?;
                self.emit(StmtKind::Barrier, span);
                return Ok(Some(Value::void()));
            }
            // Lanes run in lockstep, and one warp after another: nothing to wait
            // for.
            "__syncwarp"
            | "__threadfence"
            | "__threadfence_block"
            | "__threadfence_system"
            | "__pipeline_commit"
            | "__pipeline_wait_prior"
            | "__builtin_assume"
            | "__assume"
            | "__builtin_unreachable" => return Ok(Some(Value::void())),
            "assert" | "static_assert" => {
                for argument in arguments {
                    self.expr(*argument)?;
                }
                return Ok(Some(Value::void()));
            }
            "__builtin_expect" | "__builtin_assume_aligned" => {
                return match arguments.first() {
                    Some(first) => self.expr(*first).map(Some),
                    None => self.arity(name, arguments, 2, node).map(|()| None),
                };
            }
            "load" => return self.load_call(arguments, node).map(Some),
            "store" => return self.store_call(arguments, node).map(Some),
            "sincos" | "sincosf" | "sincospi" | "sincospif" | "__sincosf" => {
                return self.sincos(name, arguments, node).map(Some);
            }
            "__pipeline_memcpy_async" => return self.memcpy_async(arguments, node).map(Some),
            _ => {}
        }
        if let Some(cache) = cached_load(name) {
            self.arity(name, arguments, 1, node)?;
            let pointer = self.expr(arguments[0])?;
            let place = self.dereference(pointer, arguments[0])?;
            return self.load_with(place, cache, node).map(Some);
        }
        if let Some(cache) = cached_store(name) {
            self.arity(name, arguments, 2, node)?;
            let mut pointer = self.expr(arguments[0])?;
            let mark = self.block.len();
            let value = self.expr(arguments[1])?;
            self.keep_value(mark, &mut pointer);
            return match self.dereference(pointer, arguments[0])? {
                Place::Memory(memory) => {
                    self.check_writable(&memory, arguments[0])?;
                    let value = self.convert(value, &memory.ty, arguments[1])?;
                    self.store_memory(&memory, Some(&value), cache, node)?;
                    Ok(Some(Value::void()))
                }
                _ => Err(self.register_address(arguments[0])),
            };
        }
        if let Some((op, scope)) = atomic_op(name) {
            if !matches!(scope, "" | "_block" | "_system") {
                return Ok(None);
            }
            return self.atomic_call(name, op, arguments, wanted, node).map(Some);
        }
        if let Some(ty) = name.strip_prefix("make_").and_then(types::type_of_word)
            && matches!(ty, Type::Vector { .. })
        {
            return self.make_vector(name, &ty, arguments, node).map(Some);
        }
        if let Some(value) = self.integer_function(name, arguments, node)? {
            return Ok(Some(value));
        }
        self.float_function(name, arguments, node)
    }

    /// Checks the number of arguments.
    fn arity(
        &mut self,
        name: &str,
        arguments: &[Node<'a>],
        count: usize,
        node: Node<'a>,
    ) -> Lowered<()> {
        if arguments.len() == count {
            return Ok(());
        }
        let plural = if count == 1 { "" } else { "s" };
        Err(self.type_error(
            node,
            format!("`{name}` takes {count} argument{plural}, not {}", arguments.len()),
            "add or remove arguments",
        ))
    }

    /// The values of all arguments, in order.
    pub(crate) fn values(&mut self, arguments: &[Node<'a>]) -> Lowered<Vec<Value>> {
        let mut values: Vec<Value> = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let mark = self.block.len();
            let value = self.expr(*argument)?;
            for earlier in &mut values {
                self.keep_value(mark, earlier);
            }
            values.push(value);
        }
        Ok(values)
    }

    // Memory

    /// `load(x)`: reads a place for the sake of reading it.
    fn load_call(&mut self, arguments: &[Node<'a>], node: Node<'a>) -> Lowered<Value> {
        self.arity("load", arguments, 1, node)?;
        let place = self.place(arguments[0])?;
        match &place {
            Place::Memory(memory) if !matches!(memory.ty, Type::Array { .. }) => {
                self.load(place, arguments[0])
            }
            Place::Rows(_) => Err(self.too_few_indices(&place, arguments[0])),
            Place::Memory(_) => Err(self.whole_array(arguments[0])),
            _ => Err(self.no_memory("load", arguments[0])),
        }
    }

    /// `store(x)`: writes an unknown value; `store(x, v)` writes `v`.
    fn store_call(&mut self, arguments: &[Node<'a>], node: Node<'a>) -> Lowered<Value> {
        if arguments.len() != 2 {
            self.arity("store", arguments, 1, node)?;
        }
        let value = match arguments.get(1) {
            Some(value) => Some(self.expr(*value)?),
            None => None,
        };
        let mut value = value;
        let mark = self.block.len();
        let place = self.place(arguments[0])?;
        if let Some(value) = &mut value {
            self.keep_value(mark, value);
        }
        match place {
            Place::Memory(memory) if !matches!(memory.ty, Type::Array { .. }) => {
                self.check_writable(&memory, arguments[0])?;
                let value = match value {
                    Some(value) => Some(self.convert(value, &memory.ty, arguments[0])?),
                    None => None,
                };
                self.store_memory(&memory, value.as_ref(), CacheOp::Default, arguments[0])?;
                Ok(Value::void())
            }
            Place::Rows(_) => Err(self.too_few_indices(&place, arguments[0])),
            Place::Memory(_) => Err(self.whole_array(arguments[0])),
            _ => Err(self.no_memory("store", arguments[0])),
        }
    }

    fn whole_array(&mut self, node: Node<'a>) -> super::context::Failed {
        let text = self.source_text(node);
        self.type_error(
            node,
            format!("too few indices: `{text}` is a whole array"),
            format!("name an element: `{text}[i]`"),
        )
    }

    fn no_memory(&mut self, name: &str, node: Node<'a>) -> super::context::Failed {
        let text = self.source_text(node);
        self.type_error(
            node,
            format!("`{text}` is not an lvalue in memory, so {name}() makes no access"),
            "name an element of a buffer or shared array",
        )
    }

    /// `__pipeline_memcpy_async(shared, global, bytes[, zero-filled bytes])`
    fn memcpy_async(&mut self, arguments: &[Node<'a>], node: Node<'a>) -> Lowered<Value> {
        const NAME: &str = "__pipeline_memcpy_async";
        if arguments.len() != 4 {
            self.arity(NAME, arguments, 3, node)?;
        }
        let mut values = self.values(&arguments[..2])?;
        let (_, bytes) = self.constant_int(arguments[2], "the size of the copy")?;
        if !matches!(bytes, 4 | 8 | 16) {
            return Err(self.type_error(
                arguments[2],
                format!("an asynchronous copy of {bytes} bytes is not possible"),
                "copy 4, 8 or 16 bytes a thread",
            ));
        }
        if let Some(zero_filled) = arguments.get(3) {
            // Fewer bytes are read then; only a copy that reads all is known.
            let (_, value) = self.constant_int(*zero_filled, "the zero-filled size")?;
            if value != 0 {
                return Err(self.not_modelled(
                    *zero_filled,
                    "an asynchronous copy that fills with zeros",
                    "guard the copy with `if`",
                ));
            }
        }
        let from = values.pop().unwrap_or_else(Value::void);
        let to = values.pop().unwrap_or_else(Value::void);
        let element = match &to.ty {
            Type::Pointer(pointee) => super::decl::innermost(pointee).0.scalar(),
            _ => None,
        };
        for (value, argument) in [(&to, arguments[0]), (&from, arguments[1])] {
            if !matches!(value.ty, Type::Pointer(_)) {
                return Err(self.type_error(
                    argument,
                    "wrong type: an asynchronous copy needs two pointers",
                    "take the address with `&`",
                ));
            }
        }
        let bytes = bytes as u64;
        // At most four scalars a lane: bytes and halves are moved as words.
        let element = match element {
            Some(scalar) if bytes / scalar.bytes() <= 4 && scalar.bytes() <= bytes => scalar,
            _ => Scalar::U32,
        };
        let to = self.address_of_value(to, arguments[0])?;
        let from = self.address_of_value(from, arguments[1])?;
        self.copy_async(from, to, element, bytes, node);
        Ok(Value::void())
    }

    fn atomic_call(
        &mut self,
        name: &str,
        op: AtomicOp,
        arguments: &[Node<'a>],
        wanted: bool,
        node: Node<'a>,
    ) -> Lowered<Value> {
        let count = if op == AtomicOp::Cas { 3 } else { 2 };
        self.arity(name, arguments, count, node)?;
        let mut values = self.values(arguments)?;
        let operands = values.split_off(1);
        let pointer = values.pop().unwrap_or_else(Value::void);
        let place = self.dereference(pointer, arguments[0])?;
        let Place::Memory(memory) = place else {
            return Err(self.not_modelled(
                arguments[0],
                "atomics on a variable of the thread",
                "use an element of a buffer or shared array",
            ));
        };
        self.check_writable(&memory, arguments[0])?;
        let kind = self.atomic_type(name, op, &memory, arguments[0])?;
        let mut exprs = Vec::new();
        for (operand, argument) in operands.into_iter().zip(&arguments[1..]) {
            let operand = self.convert(operand, &memory.ty, *argument)?;
            if let Some(expr) = operand.as_int() {
                exprs.push(expr.clone());
            }
        }
        let kind_of = if wanted { OpKind::Atomic(op) } else { OpKind::Reduction(op) };
        let op = Op { value: kind, ..Op::plain(kind_of, Space::Global) };
        let span = self.span(node);
        let site_node = self.atomic_target(arguments[0]);
        let result = self.atomic(op, &memory, exprs, wanted, site_node)?;
        let ty = memory.ty;
        Ok(match (result, &ty) {
            (Some(local), Type::Scalar(_)) => Value::int(self.read(local, span)),
            (_, Type::Vector { count, .. }) => super::expr::unknown_value(&ty, usize::from(*count)),
            (None, _) if wanted => super::expr::unknown_value(&ty, 1),
            _ => Value::void(),
        })
    }

    /// The operand of `&` in an atomic's first argument, which names the place.
    fn atomic_target(&self, argument: Node<'a>) -> Node<'a> {
        let mut node = argument;
        loop {
            let inner = match node.kind() {
                "parenthesized_expression" => node.named_child(0),
                "pointer_expression" if self.operator(node) == "&" => {
                    return node.child_by_field_name("argument").unwrap_or(node);
                }
                _ => None,
            };
            match inner {
                Some(inner) => node = inner,
                None => return node,
            }
        }
    }

    /// Checks that CUDA has this atomic for the type, and says which kind of
    /// value it works on.
    fn atomic_type(
        &mut self,
        name: &str,
        op: AtomicOp,
        memory: &Memory,
        node: Node<'a>,
    ) -> Lowered<ValueKind> {
        use Scalar::{BF16, F16, F32, F64, I32, I64, U16, U32, U64};
        let scalar = match &memory.ty {
            Type::Scalar(scalar) => Some(*scalar),
            Type::Vector { element: element @ (F16 | BF16), count: 2 } if op == AtomicOp::Add => {
                Some(*element)
            }
            _ => None,
        };
        let allowed: &[Scalar] = match op {
            AtomicOp::Add => &[I32, U32, I64, U64, F16, BF16, F32, F64],
            AtomicOp::Exch => &[I32, U32, I64, U64, F32],
            AtomicOp::Cas => &[U16, I32, U32, I64, U64],
            AtomicOp::Inc | AtomicOp::Dec => &[U32],
            _ => &[I32, U32, I64, U64],
        };
        match scalar.filter(|scalar| allowed.contains(scalar)) {
            Some(scalar) => Ok(match (op, scalar) {
                (
                    AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exch | AtomicOp::Cas,
                    _,
                ) => ValueKind::Bits,
                (_, BF16) => ValueKind::BFloat,
                (_, scalar) if scalar.is_float() => ValueKind::Float,
                (_, scalar) if scalar.is_signed() => ValueKind::Signed,
                _ => ValueKind::Unsigned,
            }),
            None => {
                let ty = self.structs.name_of(&memory.ty);
                let names: Vec<_> =
                    allowed.iter().map(|scalar| types::scalar_name(*scalar)).collect();
                Err(self.type_error(
                    node,
                    format!("wrong type: there is no `{name}` on `{ty}`"),
                    format!("it works on {}", names.join(", ")),
                ))
            }
        }
    }

    /// `sincosf(x, &s, &c)`
    fn sincos(&mut self, name: &str, arguments: &[Node<'a>], node: Node<'a>) -> Lowered<Value> {
        self.arity(name, arguments, 3, node)?;
        let values = self.values(arguments)?;
        for (value, argument) in values.into_iter().zip(arguments).skip(1) {
            match self.dereference(value, *argument)? {
                Place::Memory(memory) => {
                    self.check_writable(&memory, *argument)?;
                    self.store_memory(&memory, None, CacheOp::Default, *argument)?;
                }
                place => {
                    let ty = self.place_type(&place);
                    if !ty.is_some_and(|ty| ty.is_float_like()) {
                        return Err(self.register_address(*argument));
                    }
                }
            }
        }
        Ok(Value::void())
    }

    // Values

    /// `make_float4(x, y, z, w)`; parts may be vectors, and one scalar fills
    /// all, as in CUDA's helper_math.h.
    fn make_vector(
        &mut self,
        name: &str,
        ty: &Type,
        arguments: &[Node<'a>],
        node: Node<'a>,
    ) -> Lowered<Value> {
        let Type::Vector { element, count } = ty else { return Ok(Value::void()) };
        let count = usize::from(*count);
        let mut leaves = Vec::new();
        let values = self.values(arguments)?;
        for (value, argument) in values.into_iter().zip(arguments) {
            let Some(from) = value.ty.scalar() else {
                let given = self.structs.name_of(&value.ty);
                return Err(self.type_error(
                    *argument,
                    format!("wrong type: {} is no component of a vector", article(&given)),
                    "give a number",
                ));
            };
            for leaf in value.leaves {
                let part = Value { ty: Type::Scalar(from), leaves: vec![leaf] };
                leaves.extend(self.convert(part, &Type::Scalar(*element), *argument)?.leaves);
            }
        }
        if leaves.len() == 1 && count > 1 {
            leaves = vec![leaves[0].clone(); count];
        }
        if leaves.len() != count {
            return self.arity(name, arguments, count, node).map(|()| Value::void());
        }
        Ok(Value { ty: ty.clone(), leaves })
    }

    /// Functions on integers.
    fn integer_function(
        &mut self,
        name: &str,
        arguments: &[Node<'a>],
        node: Node<'a>,
    ) -> Lowered<Option<Value>> {
        use Scalar::{I32, I64, U32, U64};
        let span = self.span(node);
        // Name, operand type, result type.
        let unary = |function, operand, result| Some((function, operand, result));
        let unary = match name {
            "hash" => unary(Intrinsic::Hash, U32, U32),
            "hash64" => unary(Intrinsic::Hash64, U64, U64),
            "labs" | "llabs" => unary(Intrinsic::Abs, I64, I64),
            "__popc" => unary(Intrinsic::Popc, U32, I32),
            "__popcll" => unary(Intrinsic::Popc, U64, I32),
            "__clz" => unary(Intrinsic::Clz, I32, I32),
            "__clzll" => unary(Intrinsic::Clz, I64, I32),
            "__ffs" => unary(Intrinsic::Ffs, I32, I32),
            "__ffsll" => unary(Intrinsic::Ffs, I64, I32),
            "__brev" => unary(Intrinsic::Brev, U32, U32),
            "__brevll" => unary(Intrinsic::Brev, U64, U64),
            _ => None,
        };
        if let Some((function, operand, result)) = unary {
            self.arity(name, arguments, 1, node)?;
            let value = self.expr(arguments[0])?;
            let value = self.convert(value, &Type::Scalar(operand), arguments[0])?;
            let Some(expr) = value.as_int().cloned() else { return Ok(None) };
            return Ok(Some(Value::int(fold::call(function, vec![expr], result, span))));
        }
        let fixed = match name {
            "umin" | "umax" => Some(U32),
            "llmin" | "llmax" => Some(I64),
            "ullmin" | "ullmax" => Some(U64),
            _ => None,
        };
        match name {
            "min" | "max" | "umin" | "umax" | "llmin" | "llmax" | "ullmin" | "ullmax" => {
                self.arity(name, arguments, 2, node)?;
                let values = self.values(arguments)?;
                let scalars: Vec<_> = values.iter().map(|value| &value.ty).collect();
                let [Type::Scalar(a), Type::Scalar(b)] = scalars.as_slice() else {
                    return Err(self.type_error(
                        node,
                        format!("wrong type: `{name}` needs two numbers"),
                        "use components or fields",
                    ));
                };
                let ty = fixed.unwrap_or_else(|| common(*a, *b));
                if ty.is_float() {
                    return Ok(Some(Value::float(ty, None)));
                }
                let function = if name.ends_with("min") { Intrinsic::Min } else { Intrinsic::Max };
                let mut operands = Vec::with_capacity(2);
                for (value, argument) in values.into_iter().zip(arguments) {
                    let value = self.convert(value, &Type::Scalar(ty), *argument)?;
                    operands.extend(value.as_int().cloned());
                }
                Ok(Some(Value::int(fold::call(function, operands, ty, span))))
            }
            "abs" => {
                self.arity(name, arguments, 1, node)?;
                let value = self.expr(arguments[0])?;
                if value.is_float() {
                    return Ok(Some(Value { leaves: vec![Leaf::Float(None)], ..value }));
                }
                let operand = self.integer(value, arguments[0])?;
                let ty = fold::scalar_of(&operand);
                if !ty.is_signed() {
                    return Ok(Some(Value::int(operand)));
                }
                Ok(Some(Value::int(fold::call(Intrinsic::Abs, vec![operand], ty, span))))
            }
            "__mul24" | "__umul24" => {
                self.arity(name, arguments, 2, node)?;
                let values = self.values(arguments)?;
                let mut operands = Vec::with_capacity(2);
                for (value, argument) in values.into_iter().zip(arguments) {
                    let operand = self.integer(value, *argument)?;
                    let word = fold::convert(operand, U32);
                    operands.push(self.low_24_bits(word, name == "__mul24"));
                }
                let (Some(right), Some(left)) = (operands.pop(), operands.pop()) else {
                    return Ok(None);
                };
                let product = fold::binary(BinaryOp::Mul, left, right, span);
                let ty = if name == "__mul24" { I32 } else { U32 };
                Ok(Some(Value::int(fold::convert(product, ty))))
            }
            "__mulhi" | "__umulhi" => {
                self.arity(name, arguments, 2, node)?;
                let values = self.values(arguments)?;
                let (narrow, wide) = if name == "__mulhi" { (I32, I64) } else { (U32, U64) };
                let mut operands = Vec::with_capacity(2);
                for (value, argument) in values.into_iter().zip(arguments) {
                    let operand = self.integer(value, *argument)?;
                    operands.push(fold::convert(fold::convert(operand, narrow), wide));
                }
                let (Some(right), Some(left)) = (operands.pop(), operands.pop()) else {
                    return Ok(None);
                };
                let product = fold::binary(BinaryOp::Mul, left, right, span);
                let high = fold::constant(I32, 32, span);
                let high = fold::binary(BinaryOp::Shr, product, high, span);
                Ok(Some(Value::int(fold::convert(high, narrow))))
            }
            _ => Ok(None),
        }
    }

    /// The low 24 bits of a 32-bit word, sign-extended if `signed`. A value that
    /// has no more bits is left as it is, so that its form stays visible.
    fn low_24_bits(&self, word: Expr, signed: bool) -> Expr {
        let span = word.span;
        let limit = if signed { 1 << 23 } else { 1 << 24 };
        if self.largest(&word).is_some_and(|value| value < limit) {
            return word;
        }
        if !signed {
            let mask = fold::constant(Scalar::U32, 0xff_ffff, span);
            return fold::binary(BinaryOp::And, word, mask, span);
        }
        let eight = fold::constant(Scalar::I32, 8, span);
        let up = fold::binary(BinaryOp::Shl, word, eight.clone(), span);
        let down = fold::binary(BinaryOp::Shr, fold::convert(up, Scalar::I32), eight, span);
        fold::convert(down, Scalar::U32)
    }

    /// The largest value of a constant or built-in.
    fn largest(&self, expr: &Expr) -> Option<u64> {
        let axis = |axis| match axis {
            Axis::X => 0,
            Axis::Y => 1,
            Axis::Z => 2,
        };
        match &expr.kind {
            ExprKind::Const(value) => u64::try_from(*value).ok(),
            ExprKind::Builtin(Builtin::ThreadIdx(a)) => {
                Some(u64::from(self.env.launch.block[axis(*a)]).saturating_sub(1))
            }
            ExprKind::Builtin(Builtin::BlockIdx(a)) => {
                Some(self.env.launch.grid[axis(*a)].saturating_sub(1))
            }
            _ => None,
        }
    }

    /// Functions on floating-point numbers: their values are unknown, but their
    /// arguments may be loads.
    fn float_function(
        &mut self,
        name: &str,
        arguments: &[Node<'a>],
        node: Node<'a>,
    ) -> Lowered<Option<Value>> {
        let Some(result) = float_result(name) else { return Ok(None) };
        let span = self.span(node);
        let values = self.values(arguments)?;
        if let Some(value) =
            values.iter().find(|value| value.ty.scalar().is_none() || value.ty == Type::Void)
        {
            let given = self.structs.name_of(&value.ty);
            return Err(self.type_error(
                node,
                format!("wrong type: `{name}` takes numbers, not {}", article(&given)),
                "use components or fields",
            ));
        }
        let ty = match result {
            FloatResult::Type(ty) => ty,
            FloatResult::Generic => {
                let all_single = values.iter().all(|value| value.ty.scalar() == Some(Scalar::F32));
                let scalar = if all_single { Scalar::F32 } else { Scalar::F64 };
                let half = values.first().and_then(|value| value.ty.scalar());
                match half {
                    Some(half @ (Scalar::F16 | Scalar::BF16)) => Type::Scalar(half),
                    _ => Type::Scalar(scalar),
                }
            }
        };
        let constants: Option<Vec<f64>> = values
            .iter()
            .map(|value| match (&value.ty, value.leaves.as_slice()) {
                (Type::Scalar(from), [leaf]) => {
                    match super::convert::convert_leaf(leaf.clone(), *from, Scalar::F64, span) {
                        Leaf::Float(value) => value,
                        _ => None,
                    }
                }
                _ => None,
            })
            .collect();
        Ok(Some(match &ty {
            Type::Scalar(scalar) if scalar.is_float() => {
                let value = constants.and_then(|operands| float_constant(name, &operands));
                Value::float(*scalar, value)
            }
            Type::Scalar(scalar) => super::expr::from_float(*scalar, span),
            Type::Vector { count, .. } => super::expr::unknown_value(&ty, usize::from(*count)),
            _ => Value::void(),
        }))
    }

    // Calls

    /// A call of any kind. `wanted`: whether its value is used.
    pub(crate) fn call(&mut self, node: Node<'a>, wanted: bool) -> Lowered<Value> {
        let (Some(mut function), Some(list)) =
            (node.child_by_field_name("function"), node.child_by_field_name("arguments"))
        else {
            return Err(self.syntax_error(node));
        };
        let mut cursor = node.walk();
        if node.named_children(&mut cursor).any(|child| child.kind() == "kernel_call_syntax") {
            return Err(self.not_modelled(
                node,
                "kernels launched by kernels (dynamic parallelism)",
                "give that kernel a scenario of its own",
            ));
        }
        if let Some((_, declared, argument)) = self.named_cast(node)? {
            if declared.ty == Type::Void {
                self.discard(argument)?;
                return Ok(Value::void());
            }
            let value = self.expr(argument)?;
            return self.explicit_cast(value, &declared, node);
        }
        let mut cursor = list.walk();
        let arguments: Vec<_> = list.named_children(&mut cursor).collect();
        while function.kind() == "parenthesized_expression" {
            match function.named_child(0) {
                Some(inner) => function = inner,
                None => return Err(self.syntax_error(node)),
            }
        }
        if list.kind() == "initializer_list" {
            return Err(self.syntax_error(node));
        }
        match function.kind() {
            "primitive_type" | "sized_type_specifier" => {
                let Named::Type(ty) = self.type_specifier(function)? else {
                    return Err(self.syntax_error(node));
                };
                return self.functional_cast(&ty, &arguments, node);
            }
            "field_expression" => return self.member_call(function, &arguments, node),
            _ => {}
        }
        if self.is_thread_block(node) {
            return Err(self.not_modelled(
                node,
                "a thread block as a value",
                "declare it: `cg::thread_block block = cg::this_thread_block();`",
            ));
        }
        let (name_node, template) = callee(function);
        let Some(name_node) = name_node else {
            return Err(self.not_modelled(
                function,
                "calls through anything but a name",
                "call a __device__ function by its name",
            ));
        };
        let name = self.text(name_node);
        if name == "sync"
            && let [block] = arguments.as_slice()
            && self.names_thread_block(*block)
        {
            return self.thread_block_call("sync", node);
        }
        if let Some(functions) = self.items.functions.get(name) {
            let functions = functions.clone();
            return self.call_function(&functions, name_node, template, &arguments, node);
        }
        if template.is_some()
            && self.items.types.contains_key(name)
            && let Named::Type(ty) = self.instance_type(name_node, name, template)?
        {
            return self.functional_cast(&ty, &arguments, node);
        }
        if template.is_none()
            && let Some(ty) = self.type_by_name(name_node)?
        {
            return self.functional_cast(&ty, &arguments, node);
        }
        // `std::min<int>(a, b)`
        if let Some(list) = template
            && matches!(name, "min" | "max")
            && let Some(ty) = list.named_child(0).filter(|ty| ty.kind() == "type_descriptor")
        {
            let ty = self.type_descriptor(ty)?.ty;
            let Some(value) = self.builtin_call(name, &arguments, wanted, node)? else {
                return Err(self.syntax_error(node));
            };
            return self.convert(value, &ty, node);
        }
        if self.local_binding(name).is_some() {
            return Err(self.type_error(
                name_node,
                format!("`{name}` is not a function"),
                "remove the parentheses, or call a function",
            ));
        }
        let outer = self.text(function);
        if let Some(scope) = outer.strip_suffix(name).filter(|scope| scope.contains("::"))
            && !matches!(scope, "std::" | "::" | "cuda::std::")
            && let Some((what, help)) = outside(scope)
        {
            return Err(self.not_modelled(node, format!("{what} (`{outer}`)"), help));
        }
        match self.builtin_call(name, &arguments, wanted, node)? {
            Some(value) => Ok(value),
            None => Err(self.unknown_function(name_node, name)),
        }
    }

    fn unknown_function(&mut self, node: Node<'a>, name: &str) -> super::context::Failed {
        if self.items.types.contains_key(name) {
            return self.not_modelled(
                node,
                format!("objects of the class `{name}`"),
                "use a struct without member functions",
            );
        }
        if let Some(prototype) = self.declared_only(name) {
            let span = self.span(node);
            return self.fail(
                Diagnostic::new(
                    Kind::UnknownName,
                    span,
                    format!("the body of `{name}` is not in this file"),
                    "copy its definition into the file",
                )
                .also(prototype, "declared here"),
            );
        }
        self.unknown_name(node, name, "function")
    }

    /// The place of a function's declaration without a body.
    fn declared_only(&self, name: &str) -> Option<crate::source::Span> {
        let root = self.unit.tree.root_node();
        let mut cursor = root.walk();
        root.named_children(&mut cursor)
            .filter(|node| node.kind() == "declaration")
            .filter_map(|node| node.child_by_field_name("declarator"))
            .filter_map(super::items::function_declarator)
            .filter_map(|function| function.child_by_field_name("declarator"))
            .find(|found| self.text(*found) == name)
            .map(|found| self.span(found))
    }

    /// `T(x)`
    fn functional_cast(
        &mut self,
        ty: &Type,
        arguments: &[Node<'a>],
        node: Node<'a>,
    ) -> Lowered<Value> {
        match arguments {
            [] => self.zero(node, ty),
            [argument] if !matches!(ty, Type::Vector { .. } | Type::Struct(_)) => {
                let value = self.expr(*argument)?;
                self.cast(value, ty, node)
            }
            [argument] => {
                let value = self.expr(*argument)?;
                if value.ty == *ty {
                    return Ok(value);
                }
                self.construct(node, ty, arguments)
            }
            _ => self.construct(node, ty, arguments),
        }
    }

    /// `object.function(…)`
    fn member_call(
        &mut self,
        function: Node<'a>,
        arguments: &[Node<'a>],
        node: Node<'a>,
    ) -> Lowered<Value> {
        let (Some(object), Some(member)) =
            (function.child_by_field_name("argument"), function.child_by_field_name("field"))
        else {
            return Err(self.syntax_error(node));
        };
        let member_name = self.text(member);
        if self.names_thread_block(object) {
            return self.thread_block_call(member_name, node);
        }
        let object = if self.operator(function) == "->" {
            let pointer = self.expr(object)?;
            self.dereference(pointer, function)?
        } else {
            self.place(object)?
        };
        self.call_member(object, member, arguments, node)
    }
}

/// The name that a call names, and its template arguments.
fn callee(function: Node<'_>) -> (Option<Node<'_>>, Option<Node<'_>>) {
    match function.kind() {
        "identifier" | "type_identifier" => (Some(function), None),
        "template_function" | "template_type" => {
            (function.child_by_field_name("name"), function.child_by_field_name("arguments"))
        }
        "qualified_identifier" => match function.child_by_field_name("name") {
            Some(name) if name.id() != function.id() => callee(name),
            _ => (None, None),
        },
        _ => (None, None),
    }
}

fn cached_load(name: &str) -> Option<CacheOp> {
    Some(match name {
        "__ldg" => CacheOp::Nc,
        "__ldca" => CacheOp::Ca,
        "__ldcg" => CacheOp::Cg,
        "__ldcs" => CacheOp::Cs,
        "__ldlu" => CacheOp::Lu,
        "__ldcv" => CacheOp::Cv,
        _ => return None,
    })
}

fn cached_store(name: &str) -> Option<CacheOp> {
    Some(match name {
        "__stwb" => CacheOp::Wb,
        "__stcg" => CacheOp::Cg,
        "__stcs" => CacheOp::Cs,
        "__stwt" => CacheOp::Wt,
        _ => return None,
    })
}

/// The operation of an atomic function, and the scope after it.
fn atomic_op(name: &str) -> Option<(AtomicOp, &str)> {
    let rest = name.strip_prefix("atomic")?;
    let ops = [
        ("Add", AtomicOp::Add),
        ("Sub", AtomicOp::Sub),
        ("Min", AtomicOp::Min),
        ("Max", AtomicOp::Max),
        ("And", AtomicOp::And),
        ("Or", AtomicOp::Or),
        ("Xor", AtomicOp::Xor),
        ("Inc", AtomicOp::Inc),
        ("Dec", AtomicOp::Dec),
        ("Exch", AtomicOp::Exch),
        ("CAS", AtomicOp::Cas),
    ];
    ops.into_iter().find_map(|(text, op)| rest.strip_prefix(text).map(|scope| (op, scope)))
}

/// What a function on floats returns.
enum FloatResult {
    Type(Type),
    /// `float` if all arguments are, else `double`.
    Generic,
}

fn float_result(name: &str) -> Option<FloatResult> {
    use Scalar::{BF16, Bool, F16, F32, F64, I32, I64, U16, U32, U64};
    let scalar = |ty| Some(FloatResult::Type(Type::Scalar(ty)));
    let pair = |element| Some(FloatResult::Type(Type::Vector { element, count: 2 }));
    if MATH.contains(&name) && !name.starts_with("__") {
        return Some(FloatResult::Generic);
    }
    if name.strip_suffix('f').is_some_and(|stem| MATH.contains(&stem)) {
        return scalar(F32);
    }
    match name {
        "isnan" | "isinf" | "isfinite" | "signbit" => return scalar(Bool),
        "lrint" | "llrint" | "lround" | "llround" | "lrintf" | "llrintf" | "lroundf"
        | "llroundf" => return scalar(I64),
        "ilogb" | "ilogbf" => return scalar(I32),
        "__float_as_int" => return scalar(I32),
        "__float_as_uint" => return scalar(U32),
        "__int_as_float" | "__uint_as_float" => return scalar(F32),
        "__double_as_longlong" => return scalar(I64),
        "__longlong_as_double" | "__hiloint2double" => return scalar(F64),
        "__double2hiint" | "__double2loint" => return scalar(I32),
        "__half2float" | "__bfloat162float" | "__low2float" | "__high2float" | "__frcp_rn"
        | "__fsqrt_rn" | "__frsqrt_rn" => return scalar(F32),
        "__float2half" | "__float2half_rn" | "__double2half" | "__int2half_rn" | "__low2half"
        | "__high2half" | "__ushort_as_half" | "__short_as_half" | "__uint2half_rn" => {
            return scalar(F16);
        }
        "__half_as_ushort" => return scalar(U16),
        "__float2bfloat16" | "__float2bfloat16_rn" | "__double2bfloat16" => return scalar(BF16),
        "__float2half2_rn" | "__floats2half2_rn" | "__float22half2_rn" | "__half2half2"
        | "__halves2half2" | "__lowhigh2highlow" => return pair(F16),
        "__float2bfloat162_rn" | "__floats2bfloat162_rn" | "__float22bfloat162_rn" => {
            return pair(BF16);
        }
        "__half22float2" | "__bfloat1622float2" => return pair(F32),
        _ => {}
    }
    let rounding = ["_rn", "_rz", "_ru", "_rd"].iter().find_map(|mode| name.strip_suffix(mode));
    if let Some(stem) = rounding {
        return match stem {
            "__fadd" | "__fsub" | "__fmul" | "__fdiv" | "__fmaf" | "__frcp" | "__fsqrt" => {
                scalar(F32)
            }
            "__dadd" | "__dsub" | "__dmul" | "__ddiv" | "__fma" | "__drcp" | "__dsqrt" => {
                scalar(F64)
            }
            "__float2int" | "__double2int" | "__half2int" => scalar(I32),
            "__float2uint" | "__double2uint" | "__half2uint" => scalar(U32),
            "__float2ll" | "__double2ll" => scalar(I64),
            "__float2ull" | "__double2ull" => scalar(U64),
            "__int2float" | "__uint2float" | "__ll2float" | "__ull2float" | "__double2float" => {
                scalar(F32)
            }
            "__int2double" | "__uint2double" | "__ll2double" | "__ull2double" => scalar(F64),
            _ => None,
        };
    }
    // Half arithmetic: `__hadd`, `__hadd2`, `__hgt` …
    let stem = name.strip_prefix("__h")?;
    match stem {
        "add" | "sub" | "mul" | "div" | "fma" | "neg" | "abs" | "max" | "min" => scalar(F16),
        "add2" | "sub2" | "mul2" | "fma2" | "neg2" | "abs2" | "max2" | "min2" => pair(F16),
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "isnan" => scalar(Bool),
        _ => None,
    }
}

/// The value of a function on constants, for the few that index arithmetic
/// uses.
fn float_constant(name: &str, operands: &[f64]) -> Option<f64> {
    let single = name.strip_suffix('f').unwrap_or(name);
    Some(match (single, operands) {
        ("ceil", [x]) => x.ceil(),
        ("floor", [x]) => x.floor(),
        ("round", [x]) => x.round(),
        ("trunc", [x]) => x.trunc(),
        ("sqrt", [x]) => x.sqrt(),
        ("fabs", [x]) => x.abs(),
        ("fmin", [x, y]) => x.min(*y),
        ("fmax", [x, y]) => x.max(*y),
        _ => return None,
    })
}
