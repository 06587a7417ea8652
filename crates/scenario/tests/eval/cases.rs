//! Kernels made for one question each.

use crate::build::*;
use coalescope_scenario::count::{self, LaunchCounts, Method, Options};
use coalescope_scenario::eval::{BlockBox, Evaluator, Limits};
use coalescope_scenario::program::*;
use coalescope_scenario::run::Contents;
use coalescope_scenario::{Diagnostic, Kind, Run};
use simulator::{AtomicOp, OpKind, RuleSet};
use std::sync::Arc;

fn counted(run: &Run) -> Result<LaunchCounts, Diagnostic> {
    counted_with(run, Limits::default())
}

fn counted_with(run: &Run, limits: Limits) -> Result<LaunchCounts, Diagnostic> {
    let rules = RuleSet::for_arch("9.0").expect("shipped");
    count::count(run, &rules, &run.assumed_bases(), &Options { limits, ..Options::default() })
}

/// Counts within limits that a launch gone through block by block, or a loop
/// gone through trip by trip, would soon be beyond.
fn counted_in_few_steps(run: &Run) -> Result<LaunchCounts, Diagnostic> {
    let few = Limits { boxes: 64, threads: 1 << 12, loop_iterations: 64, warp_statements: 1 << 12 };
    counted_with(run, few)
}

/// `if (i < n) out[i] = in[i]` in `long long`, 1024 threads a block.
fn copy(blocks: u64, n: u64) -> Run {
    let mut b = Builder::new([blocks, 1, 1], [1024, 1, 1]);
    let input = b.buffer("in", Scalar::F32, n, Contents::Unknown);
    let output = b.buffer("out", Scalar::F32, n, Contents::Unknown);
    let i = b.local(I64);
    let wide = |e| convert(I64, e);
    let index = add(mul(wide(block(Axis::X)), long(1024)), wide(thread(Axis::X)));
    let index_of = || local(I64, i);
    let load = b.access(OpKind::Load, input, Scalar::F32, index_of());
    let store = b.access(OpKind::Store, output, Scalar::F32, index_of());
    b.body(vec![set(i, index), when(less(index_of(), long(n as i64)), vec![load, store])])
}

#[test]
fn steps_do_not_depend_on_the_grid() {
    // 2^40 threads, all in range; and with a tail of 1 + 5 of 32 warps.
    let whole = copy(1 << 30, 1 << 40);
    let counts = counted_in_few_steps(&whole).expect("in range");
    assert_eq!((counts.boxes, counts.single_blocks), (1, 0));
    for site in &counts.sites {
        assert_eq!(site.totals.instructions, 1 << 35);
        assert_eq!(site.totals.sectors, Some(4 << 35));
        assert_eq!(site.totals.tag_wavefronts, Some(1 << 35));
        assert_eq!((site.method, site.uncounted), (Method::ClosedForm, None));
    }
    let n = (1 << 40) - 1024 + 37;
    let tail = copy(1 << 30, n);
    let counts = counted_in_few_steps(&tail).expect("in range");
    assert_eq!(counts.sites[0].totals.instructions, (1 << 35) - 32 + 2);
    assert_eq!(counts.sites[0].totals.requested_bytes, Some(u128::from(n) * 4));
    assert_eq!(counts.sites[0].totals.sectors, Some((4 << 35) - 128 + 5));
}

#[test]
fn a_long_loop_is_one_evaluation() {
    // for (int i = 0; i < 1 << 20; ++i) load(x[i * 32 + t]) in 2^20 blocks.
    let mut b = Builder::new([1 << 20, 1, 1], [32, 1, 1]);
    let x = b.buffer("x", Scalar::F32, 1 << 25, Contents::Unknown);
    let i = b.local(I32);
    let index = add(mul(local(I32, i), int(32)), convert(I32, thread(Axis::X)));
    let load = b.access(OpKind::Load, x, Scalar::F32, index);
    let run = b.body(vec![
        set(i, int(0)),
        looped(
            less(local(I32, i), int(1 << 20)),
            vec![load],
            vec![set(i, add(local(I32, i), int(1)))],
        ),
    ]);
    let counts = counted_in_few_steps(&run).expect("in range");
    assert_eq!(counts.sites[0].totals.sectors, Some(4 << 40));
    assert_eq!((counts.boxes, counts.single_blocks), (1, 0));
    // A single block alone is as quick, and says the same.
    let mut single = run;
    single.launch.grid = [1; 3];
    let counts = counted_in_few_steps(&single).expect("in range");
    assert_eq!(counts.sites[0].totals.sectors, Some(4 << 20));
}

#[test]
fn a_grid_stride_loop_of_a_small_grid() {
    // for (i = linear; i < n; i += 108 * 256): most blocks make one iteration
    // more than the last ones.
    let n = 10_000_019;
    let stride = 108 * 256;
    let mut b = Builder::new([108, 1, 1], [256, 1, 1]);
    let x = b.buffer("x", Scalar::F64, n, Contents::Unknown);
    let i = b.local(I64);
    let load = b.access(OpKind::Load, x, Scalar::F64, local(I64, i));
    let run = b.body(vec![
        set(i, convert(I64, linear(256))),
        looped(
            less(local(I64, i), long(n as i64)),
            vec![load],
            vec![set(i, add(local(I64, i), long(stride)))],
        ),
    ]);
    let counts = counted(&run).expect("in range");
    let totals = &counts.sites[0].totals;
    assert_eq!(totals.requested_bytes, Some(u128::from(n) * 8));
    assert_eq!(totals.instructions, u128::from(n.div_ceil(32)));
    assert_eq!(counts.single_blocks, 0);
}

#[test]
fn a_triangle_takes_boxes_along_its_edge() {
    // if (x <= y) load(a[y][x]) on 2^12 × 2^12 blocks of 8 × 4.
    let (width, height) = (8 << 12, 4 << 12);
    let mut b = Builder::new([1 << 12, 1 << 12, 1], [8, 4, 1]);
    let a = b.buffer("a", Scalar::F32, width * height, Contents::Unknown);
    let axis = |axis, extent| {
        let index = mul(convert(I64, block(axis)), long(extent));
        add(index, convert(I64, thread(axis)))
    };
    let (x, y) = (b.local(I64), b.local(I64));
    let index = add(mul(local(I64, y), long(width as i64)), local(I64, x));
    let load = b.access(OpKind::Load, a, Scalar::F32, index);
    let run = b.body(vec![
        set(x, axis(Axis::X, 8)),
        set(y, axis(Axis::Y, 4)),
        when(compare(CompareOp::Le, local(I64, x), local(I64, y)), vec![load]),
    ]);
    let counts = counted(&run).expect("in range");
    let elements = (0..height).map(|y| y + 1).sum::<u64>();
    assert_eq!(counts.sites[0].totals.requested_bytes, Some(u128::from(elements) * 4));
    assert_eq!(counts.single_blocks, 0, "{} boxes", counts.boxes);
}

#[test]
fn remainders_have_a_period() {
    // load(a[i % 1000 + i / 1000]), i = 256 b + t: 125 residues of the block.
    let mut b = Builder::new([1 << 28, 1, 1], [256, 1, 1]);
    let a = b.buffer("a", Scalar::F32, 1 << 28, Contents::Unknown);
    let i = b.local(I64);
    let part = |op| binary(op, local(I64, i), long(1000));
    let index = add(part(BinaryOp::Rem), part(BinaryOp::Div));
    let load = b.access(OpKind::Load, a, Scalar::F32, index);
    let wide = |e| convert(I64, e);
    let linear = add(mul(wide(block(Axis::X)), long(256)), wide(thread(Axis::X)));
    let run = b.body(vec![set(i, linear), load]);
    let counts = counted(&run).expect("in range");
    assert_eq!(counts.sites[0].totals.instructions, 1 << 31);
    assert_eq!(counts.single_blocks, 0);
    assert!(counts.boxes <= 130, "{} boxes", counts.boxes);
}

/// `load(x[hash(i) % n])`
fn gather(blocks: u64, n: u64) -> Run {
    let mut b = Builder::new([blocks, 1, 1], [256, 1, 1]);
    let x = b.buffer("x", Scalar::F32, n, Contents::Unknown);
    let hash = expr(U32, ExprKind::Call(Intrinsic::Hash, vec![linear(256)]));
    let index = binary(BinaryOp::Rem, hash, constant(U32, n as i64));
    let load = b.access(OpKind::Load, x, Scalar::F32, index);
    b.body(vec![load])
}

#[test]
fn what_is_not_linear_is_gone_through_or_refused() {
    let counts = counted(&gather(512, 1 << 20)).expect("in range");
    assert_eq!(counts.single_blocks, 512);
    assert_eq!(counts.sites[0].method, Method::OneByOne);
    assert_eq!(counts.sites[0].totals.instructions, 512 * 8);
    assert!(counts.because.is_some());

    let refused = counted(&gather(1 << 30, 1 << 20));
    let error = refused.expect_err("2^38 threads");
    assert_eq!(error.kind, Kind::Limit);
    assert!(error.message.starts_with("the launch is too large"), "{}", error.message);
    assert!(error.primary.is_some());
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let run = gather(300, 1 << 16);
    let rules = RuleSet::for_arch("9.0").expect("shipped");
    let with = |threads| {
        let options = Options { threads, ..Options::default() };
        count::count(&run, &rules, &run.assumed_bases(), &options).expect("in range")
    };
    assert_eq!(with(Some(1)), with(Some(3)));
    assert_eq!(with(Some(1)), with(None));
}

#[test]
fn only_the_axis_that_is_not_linear_is_gone_through() {
    // load(x[hash(blockIdx.y) % 64 * … + i]): 64 rows of 2^24 blocks each.
    let mut b = Builder::new([1 << 24, 64, 1], [256, 1, 1]);
    let x = b.buffer("x", Scalar::F32, 1 << 40, Contents::Unknown);
    let hash = expr(U32, ExprKind::Call(Intrinsic::Hash, vec![block(Axis::Y)]));
    let row = binary(BinaryOp::Rem, hash, constant(U32, 64));
    let row = mul(convert(I64, row), long(1 << 32));
    let load = b.access(OpKind::Load, x, Scalar::F32, add(row, convert(I64, linear(256))));
    let run = b.body(vec![load]);
    let counts = counted(&run).expect("in range");
    assert_eq!((counts.boxes, counts.single_blocks), (64 + 1, 0));
    assert_eq!(counts.sites[0].totals.instructions, 8 << 30);
}

#[test]
fn progress_comes_to_an_end() {
    let run = gather(100, 1000);
    let rules = RuleSet::for_arch("9.0").expect("shipped");
    let most = std::sync::atomic::AtomicU64::new(0);
    let progress = |done: u64, all: u64| {
        assert_eq!(all, 100);
        most.fetch_max(done, std::sync::atomic::Ordering::Relaxed);
    };
    let options = Options { progress: Some(&progress), ..Options::default() };
    count::count(&run, &rules, &run.assumed_bases(), &options).expect("in range");
    assert_eq!(most.into_inner(), 100);
}

// What goes wrong.

fn error(run: &Run) -> Diagnostic {
    let found = counted(run).expect_err("the kernel is wrong");
    assert!(!found.help.is_empty());
    // Counting and going through the blocks fail alike.
    let evaluator = Evaluator::new(run, &run.assumed_bases(), Limits::default()).expect("fine");
    let visited = evaluator.visit(|_| {}).expect_err("the kernel is wrong");
    assert_eq!(visited.message, found.message);
    assert_eq!(visited.notes, found.notes);
    found
}

#[test]
fn the_first_block_that_fails_is_named() {
    // 1000 / (7 - b): block 7 divides by zero, as does 2^20 + 7, had it.
    let mut b = Builder::new([1 << 20, 1, 1], [64, 1, 1]);
    let v = b.local(I32);
    let divisor = binary(BinaryOp::Sub, int(7), convert(I32, block(Axis::X)));
    let run = b.body(vec![set(v, binary(BinaryOp::Div, int(1000), divisor))]);
    let error = error(&run);
    assert!(error.message.starts_with("division by zero"), "{}", error.message);
    let who = "in thread (0, 0, 0) of block (7, 0, 0): lane 0 of warp 0";
    assert_eq!(error.notes, [who]);
}

#[test]
fn overflow_is_found_where_it_begins() {
    // int i = b * 1024 + t for 2^40 threads.
    let mut b = Builder::new([1 << 30, 1, 1], [1024, 1, 1]);
    let v = b.local(I32);
    let index = add(mul(convert(I32, block(Axis::X)), int(1024)), convert(I32, thread(Axis::X)));
    let run = b.body(vec![set(v, index)]);
    let found = counted_in_few_steps(&run).expect_err("overflows");
    assert!(found.message.starts_with("signed overflow"), "{}", found.message);
    let label = found.primary.map(|(_, label)| label);
    assert_eq!(label.as_deref(), Some("2097152 * 1024 = 2147483648"));
    assert!(found.notes[0].contains("block (2097152, 0, 0)"), "{:?}", found.notes);
}

#[test]
fn indices_out_of_their_buffer() {
    // load(x[i]) with 1000 of 1024 elements, then load(x[i - 1]).
    let with_offset = |offset: i64| {
        let mut b = Builder::new([4, 1, 1], [256, 1, 1]);
        let x = b.buffer("x", Scalar::F32, 1000, Contents::Unknown);
        let index = add(convert(I32, linear(256)), int(offset));
        let load = b.access(OpKind::Load, x, Scalar::F32, index);
        b.body(vec![load])
    };
    let above = error(&with_offset(0));
    assert_eq!(above.message, "index above `x`: element 1000, where the last is 999");
    let who = "in thread (232, 0, 0) of block (3, 0, 0): lane 8 of warp 7";
    assert_eq!(above.notes[1], who);
    let below = error(&with_offset(-1));
    assert_eq!(below.message, "index below `x`: element -1");
    assert!(below.notes[1].contains("thread (0, 0, 0) of block (0, 0, 0)"), "{:?}", below.notes);
}

#[test]
fn a_vector_access_that_is_not_aligned() {
    let mut b = Builder::new([2, 1, 1], [32, 1, 1]);
    let x = b.buffer("x", Scalar::F32, 1 << 10, Contents::Unknown);
    let site = b.site(OpKind::Load, x, Scalar::F32, 4);
    let index = add(convert(I32, linear(32)), int(0));
    let load = stmt(StmtKind::Access(Access {
        site,
        address: element(x, 4, index),
        shared_address: None,
        values: Vec::new(),
        results: Vec::new(),
    }));
    let found = error(&b.body(vec![load]));
    assert_eq!(found.message, "misaligned access: 0x700000000004 is not a multiple of 16");
    let label = found.primary.map(|(_, label)| label);
    assert_eq!(label.as_deref(), Some("16 bytes a lane, address mod 16 = 4"));
}

#[test]
fn a_barrier_that_not_all_reach() {
    // if (t < 40) __syncthreads()
    let mut b = Builder::new([3, 1, 1], [64, 1, 1]);
    b.local(I32);
    let condition = less(convert(I32, thread(Axis::X)), int(40));
    let place = condition.span;
    let run = b.body(vec![when(condition, vec![stmt(StmtKind::Barrier)])]);
    let found = error(&run);
    assert!(found.message.contains("40 of the block's 64 threads"), "{}", found.message);
    assert_eq!(found.notes, ["missing: thread (40, 0, 0) of block (0, 0, 0): lane 8 of warp 1"]);
    assert_eq!(found.secondary[0].0, place);
}

#[test]
fn threads_that_returned_are_not_waited_for() {
    let b = Builder::new([3, 1, 1], [64, 1, 1]);
    let condition = less(convert(I32, thread(Axis::X)), int(40));
    let run = b.body(vec![when(condition, vec![stmt(StmtKind::Return)]), stmt(StmtKind::Barrier)]);
    counted(&run).expect("the others are all there");
}

#[test]
fn loops_without_end() {
    // while (v < 5) w = w + 0 …: nothing moves; and u >= 0, which always holds.
    let mut b = Builder::new([1 << 20, 1, 1], [32, 1, 1]);
    let (v, w) = (b.local(I32), b.local(I32));
    let still =
        looped(less(local(I32, v), int(5)), vec![set(w, add(local(I32, v), int(1)))], Vec::new());
    let run = b.body(vec![set(v, int(0)), still]);
    let found = error(&run);
    assert_eq!(found.message, "the loop does not end");
    let early = counted_in_few_steps(&run).expect_err("endless");
    assert_eq!(early.message, found.message);

    let mut b = Builder::new([1, 1, 1], [32, 1, 1]);
    let u = b.local(U32);
    let always = compare(CompareOp::Ge, local(U32, u), constant(U32, 0));
    let down = set(u, binary(BinaryOp::Sub, local(U32, u), constant(U32, 1)));
    let run = b.body(vec![set(u, constant(U32, 10)), looped(always, Vec::new(), vec![down])]);
    let found = counted(&run).expect_err("endless");
    assert!(found.message.starts_with("the loop has not ended after"), "{}", found.message);
}

#[test]
fn an_index_that_is_not_known() {
    let mut b = Builder::new([1 << 20, 1, 1], [32, 1, 1]);
    let x = b.buffer("x", Scalar::F32, 100, Contents::Unknown);
    let c = b.buffer("c", Scalar::I32, 1 << 25, Contents::Unknown);
    let v = b.local(I32);
    let read = b.load_into(v, c, Scalar::I32, linear(32));
    let load = b.access(OpKind::Load, x, Scalar::F32, local(I32, v));
    let found = error(&b.body(vec![read, load]));
    assert_eq!(found.kind, Kind::NotModelled);
    assert_eq!(found.message, "not modelled: the address of an access is not known");
    assert!(found.help.contains("give `c` contents"), "{}", found.help);
}

#[test]
fn unknown_conditions_guard_no_access() {
    // if (c[i] > 0) v = 1; — fine until v is an index.
    let kernel = |inside: bool| {
        let mut b = Builder::new([4, 1, 1], [32, 1, 1]);
        let x = b.buffer("x", Scalar::F32, 200, Contents::Unknown);
        let c = b.buffer("c", Scalar::I32, 200, Contents::Unknown);
        let (u, v) = (b.local(I32), b.local(I32));
        let read = b.load_into(u, c, Scalar::I32, linear(32));
        let load = b.access(OpKind::Load, x, Scalar::F32, linear(32));
        let condition = compare(CompareOp::Gt, local(I32, u), int(0));
        let then = vec![set(v, int(1))];
        if inside {
            b.body(vec![read, when(condition, vec![load])])
        } else {
            b.body(vec![read, when(condition, then), load])
        }
    };
    counted(&kernel(false)).expect("only a value depends on it");
    let found = error(&kernel(true));
    assert_eq!(found.message, "not modelled: the condition is not known");
    assert_eq!(found.secondary[0].1, "an access depends on it");
}

#[test]
fn shared_integers_are_kept() {
    // s[t] = 31 - t; barrier; load(x[s[t]]); then a count by atomics.
    let mut b = Builder::new([1 << 16, 1, 1], [32, 1, 1]);
    let x = b.buffer("x", Scalar::F32, 32, Contents::Unknown);
    let s = b.shared("s", Scalar::I32, 32);
    let v = b.local(I32);
    let t = || convert(I32, thread(Axis::X));
    let store = b.store_of(s, Scalar::I32, t(), binary(BinaryOp::Sub, int(31), t()));
    let site = b.site(OpKind::Reduction(AtomicOp::Add), s, Scalar::I32, 1);
    let count = stmt(StmtKind::Access(Access {
        site,
        address: element(s, 4, int(0)),
        shared_address: None,
        values: vec![int(1)],
        results: Vec::new(),
    }));
    let read = b.load_into(v, s, Scalar::I32, t());
    let load =
        b.access(OpKind::Load, x, Scalar::F32, binary(BinaryOp::Rem, local(I32, v), int(32)));
    let run =
        b.body(vec![store, stmt(StmtKind::Barrier), count, stmt(StmtKind::Barrier), read, load]);
    let evaluator = Evaluator::new(&run, &run.assumed_bases(), Limits::default()).expect("fine");
    let accesses = evaluator.accesses_of([5, 0, 0], 0).expect("in range");
    let last = accesses.last().expect("four accesses").access;
    let first = run.assumed_bases()[0];
    // s[0] = 31 + 32 = 63, which is 31 modulo 32, as it was.
    let expected: Vec<u64> = (0..32).map(|t| first + 4 * (31 - t)).collect();
    assert_eq!(last.addresses.to_vec(), expected);
    let counts = counted(&run).expect("in range");
    assert_eq!((counts.boxes, counts.single_blocks), (1, 0));
}

#[test]
fn contents_that_are_linear_stay_in_the_closed_form() {
    // row[i] = 7 i: for (j = row[i]; j < row[i + 1]; ++j) load(x[j])
    let n = 1 << 24;
    let mut b = Builder::new([n / 256, 1, 1], [256, 1, 1]);
    let seven = mul(local(I64, 0), long(7));
    let contents = Contents::Computed(Arc::new(convert(I32, seven)));
    let row = b.buffer("row", Scalar::I32, n + 1, contents);
    let x = b.buffer("x", Scalar::F32, 7 * n, Contents::Unknown);
    let (i, j, end) = (b.local(I32), b.local(I32), b.local(I32));
    let from = b.load_into(j, row, Scalar::I32, local(I32, i));
    let to = b.load_into(end, row, Scalar::I32, add(local(I32, i), int(1)));
    let load = b.access(OpKind::Load, x, Scalar::F32, local(I32, j));
    let run = b.body(vec![
        set(i, convert(I32, linear(256))),
        from,
        to,
        looped(
            less(local(I32, j), local(I32, end)),
            vec![load],
            vec![set(j, add(local(I32, j), int(1)))],
        ),
    ]);
    let counts = counted(&run).expect("in range");
    assert_eq!((counts.boxes, counts.single_blocks), (1, 0));
    assert_eq!(counts.sites[2].totals.instructions, u128::from(n / 32 * 7));
    // 32 lanes, 28 bytes apart: 28 sectors, or one more where they start late.
    let sectors = counts.sites[2].totals.sectors.expect("counted");
    assert_eq!(sectors, u128::from(n / 32 * 7 * 28));
}

#[test]
fn blocks_and_warps_that_are_not_there() {
    let run = copy(4, 4096);
    let evaluator = Evaluator::new(&run, &run.assumed_bases(), Limits::default()).expect("fine");
    assert!(evaluator.accesses_of([4, 0, 0], 0).is_err());
    assert!(evaluator.accesses_of([3, 0, 0], 32).is_err());
    assert_eq!(evaluator.accesses_of([3, 0, 0], 31).map(|a| a.len()).ok(), Some(2));
    assert!(Evaluator::new(&run, &[0], Limits::default()).is_err());
    assert_eq!(BlockBox::whole(&run.launch).blocks(), 4);
}

#[test]
fn malformed_programs_are_refused() {
    let mut b = Builder::new([1, 1, 1], [32, 1, 1]);
    let v = b.local(I32);
    let bad: Vec<Stmt> = vec![
        set(9, int(0)),
        set(v, local(I32, 7)),
        set(v, expr(I32, ExprKind::BufferBase(BufferId(3)))),
        set(v, expr(I32, ExprKind::SharedBase(SharedId(3)))),
        set(v, expr(I32, ExprKind::Element(LocalArrayId(0), Box::new(int(0))))),
        set(v, expr(I32, ExprKind::Call(Intrinsic::Min, vec![int(0)]))),
        set(v, constant(ValueType::Int(Scalar::F32), 0)),
        stmt(StmtKind::Break),
        stmt(StmtKind::Access(Access {
            site: SiteId(0),
            address: int(0),
            shared_address: None,
            values: Vec::new(),
            results: Vec::new(),
        })),
    ];
    let run = b.body(Vec::new());
    for stmt in bad {
        let mut run = run.clone();
        run.program.body = vec![stmt];
        assert_eq!(counted(&run).expect_err("malformed").kind, Kind::NotModelled);
    }
    // Deep nesting is refused, not a stack overflow.
    let mut deep = run.clone();
    let mut value = int(0);
    for _ in 0..100_000 {
        value = expr(I32, ExprKind::Not(Box::new(value)));
    }
    deep.program.body = vec![set(v, value)];
    assert!(counted(&deep).is_err());
    // Dropping it recursively would overflow the stack as well.
    std::mem::forget(deep);
}

#[test]
fn iterations_that_differ_by_residue_are_folded() {
    // for (k = 0; k < 3 << 20; ++k) { if (k % 3 == 1) last = k; load(x[k & 255]); }
    // load(y[last >> 14]), where the last such k is 3 * 2^20 - 2.
    let trips = 3 << 20;
    let kernel = |len: u64| {
        let mut b = Builder::new([1 << 20, 1, 1], [32, 1, 1]);
        let x = b.buffer("x", Scalar::F32, 256, Contents::Unknown);
        let y = b.buffer("y", Scalar::F32, len, Contents::Unknown);
        let (k, last) = (b.local(I32), b.local(I32));
        let third = binary(BinaryOp::Rem, local(I32, k), int(3));
        let keep = when(compare(CompareOp::Eq, third, int(1)), vec![set(last, local(I32, k))]);
        let masked = binary(BinaryOp::And, local(I32, k), int(255));
        let load = b.access(OpKind::Load, x, Scalar::F32, masked);
        let shifted = binary(BinaryOp::Shr, local(I32, last), int(14));
        let after = b.access(OpKind::Load, y, Scalar::F32, shifted);
        let step = set(k, add(local(I32, k), int(1)));
        let condition = less(local(I32, k), int(trips));
        b.body(vec![set(k, int(0)), looped(condition, vec![keep, load], vec![step]), after])
    };
    let counts = counted_in_few_steps(&kernel(192)).expect("in range");
    assert_eq!(counts.sites[0].totals.instructions, (trips as u128) << 20);
    assert_eq!(counts.sites[0].totals.sectors, Some((trips as u128) << 20));
    assert_eq!((counts.boxes, counts.single_blocks), (1, 0));
    let error = counted(&kernel(191)).expect_err("one too few");
    assert_eq!(error.message, "index above `y`: element 191, where the last is 190");
}

#[test]
fn contents_can_be_asked_for() {
    let mut b = Builder::new([1, 1, 1], [1, 1, 1]);
    let squares = mul(local(I64, 0), local(I64, 0));
    let contents = Contents::Computed(Arc::new(convert(I32, squares)));
    b.buffer("squares", Scalar::I32, 5000, contents);
    b.buffer("unknown", Scalar::I32, 5000, Contents::Unknown);
    let inverse = binary(BinaryOp::Div, long(100), add(local(I64, 0), long(-3)));
    b.buffer("inverse", Scalar::I32, 10, Contents::Computed(Arc::new(inverse)));
    let run = b.body(Vec::new());
    let evaluator = Evaluator::new(&run, &run.assumed_bases(), Limits::default()).expect("fine");
    let contents = |buffer, range| evaluator.contents(BufferId(buffer), range);
    let found = contents(0, 10..3010).expect("defined").expect("given");
    assert_eq!(found.len(), 3000);
    assert_eq!((found[0], found[2999]), (100, 3009 * 3009));
    assert_eq!(contents(1, 0..5).expect("nothing to compute"), None);
    let error = contents(2, 0..10).expect_err("divides by zero");
    assert_eq!(error.notes, ["at element 3 of `inverse`"]);
}
