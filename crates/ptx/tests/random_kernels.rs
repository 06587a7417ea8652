//! Random kernels: what the emitted PTX accesses, thread by thread, against
//! what the evaluator says.
//!
//! A kernel is text in the scenario language, so that lowering, unrolling and
//! emission are all tried. One that the evaluator refuses (an overflow, a loop
//! without end) says nothing and is drawn again.

mod comparison;
mod interpreter;

use proptest::prelude::*;
use scenario::{Disk, Options, Scenario};

/// A scenario around `code`: `a` has contents, `b` has none.
fn scenario(code: &str) -> String {
    format!(
        "[launch]\ngrid = [2, 2]\nblock = [24, 2]\n[buffers]\na = {{ type = \"int\", shape = [256], \
         init = \"hash(i) % 64\" }}\nb = {{ type = \"float\", shape = [256] }}\n[kernel]\ncode = \
         '''\nint i = blockIdx.x * blockDim.x + threadIdx.x;\nunsigned u = threadIdx.y * 7 + \
         blockIdx.y;\nlong long w = 3 - i;\n{code}'''\n"
    )
}

fn operand() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("i".to_owned()),
        Just("u".to_owned()),
        Just("w".to_owned()),
        Just("threadIdx.x".to_owned()),
        Just("blockIdx.y".to_owned()),
        (0..40_i32).prop_map(|n| n.to_string()),
        (0..40_u32).prop_map(|n| format!("{n}u")),
        // In parentheses: a minus before a minus would be `--`.
        (-9..40_i64).prop_map(|n| format!("({n}ll)")),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    operand().prop_recursive(4, 24, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            (two.clone(), prop::sample::select(vec!["+", "-", "*", "&", "|", "^"]))
                .prop_map(|((a, b), op)| format!("({a} {op} {b})")),
            (inner.clone(), 1..20_i32, prop::sample::select(vec!["/", "%"]))
                .prop_map(|(a, n, op)| format!("({a} {op} {n})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} / (({b} & 7) + 1))")),
            (inner.clone(), 0..5_i32, prop::sample::select(vec!["<<", ">>"]))
                .prop_map(|(a, n, op)| format!("({a} {op} {n})")),
            (
                inner.clone(),
                prop::sample::select(vec![
                    "(int)",
                    "(unsigned)",
                    "(long long)",
                    "(unsigned long long)",
                    "(short)",
                    "(unsigned char)",
                    "(signed char)",
                    "(bool)",
                    "~",
                    "-",
                    "!",
                ])
            )
                .prop_map(|(a, op)| format!("({op}{a})")),
            (two.clone(), prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!=", "&&", "||"]))
                .prop_map(|((a, b), op)| format!("({a} {op} {b})")),
            (inner.clone(), two.clone()).prop_map(|(c, (a, b))| format!("({c} ? {a} : {b})")),
            (
                inner.clone(),
                prop::sample::select(vec![
                    "hash(%)",
                    "hash64(%)",
                    "__popc(%)",
                    "__clz(%)",
                    "__ffs(%)",
                    "__brev(%)",
                    "__popcll(%)",
                    "__clzll(%)",
                ])
            )
                .prop_map(|(a, call)| call.replace('%', &a)),
            two.prop_map(|(a, b)| format!("min((long long){a}, (long long){b})")),
        ]
    })
}

fn index() -> impl Strategy<Value = String> {
    prop_oneof![
        expression().prop_map(|e| format!("(unsigned)({e}) % 250u")),
        expression().prop_map(|e| format!("a[(unsigned)({e}) % 256u] + 2")),
    ]
}

fn access() -> impl Strategy<Value = String> {
    prop_oneof![
        index().prop_map(|at| format!("load(b[{at}]);")),
        index().prop_map(|at| format!("store(b[{at}]);")),
        index().prop_map(|at| format!("load(a[{at}]);")),
        index().prop_map(|at| format!("atomicAdd(&b[{at}], 1.0f);")),
    ]
}

fn assignment() -> impl Strategy<Value = String> {
    prop_oneof![
        expression().prop_map(|e| format!("i = (int)({e}) & 1023;")),
        expression().prop_map(|e| format!("u = {e};")),
        expression().prop_map(|e| format!("w = {e};")),
        index().prop_map(|at| format!("w = a[{at}];")),
    ]
}

/// Statements; `depth` names the loop variables.
fn statements(depth: u32) -> BoxedStrategy<String> {
    let simple = prop_oneof![3 => access(), 2 => assignment()].boxed();
    let one = if depth == 0 {
        simple
    } else {
        let body = || statements(depth - 1);
        let jump = prop::sample::select(vec!["break;", "continue;", "return;", ""]);
        let j = format!("j{depth}");
        let (j1, j2) = (j.clone(), j.clone());
        prop_oneof![
            4 => simple,
            2 => (expression(), body(), body())
                .prop_map(|(c, a, b)| format!("if ({c}) {{ {a} }} else {{ {b} }}")),
            1 => (expression(), body()).prop_map(|(c, a)| format!("if ({c}) {{ {a} return; }}")),
            2 => (1..70_u32, 1..4_u32, body(), expression(), jump.clone(), body()).prop_map(
                move |(n, by, a, c, jump, b)| {
                    let early = if jump.is_empty() {
                        String::new()
                    } else {
                        format!("if ({c}) {{ {jump} }}")
                    };
                    format!(
                        "for (int {j} = 0; {j} < {n}; {j} += {by}) {{ load(b[{j}]); {a} {early} {b} }}"
                    )
                }
            ),
            1 => (expression(), body()).prop_map(move |(e, a)| format!(
                "for (unsigned {j1} = ({e}) & 7; {j1} > 0; --{j1}) {{ load(a[{j1}]); {a} }}"
            )),
            1 => (index(), body()).prop_map(move |(at, a)| format!(
                "{{ int {j2} = 0; do {{ {j2} += 9; {a} }} while ({j2} < a[{at}]); }}"
            )),
        ]
        .boxed()
    };
    prop::collection::vec(one, 1..4).prop_map(|all| all.join("\n")).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_global_rejects: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn a_random_kernel_accesses_what_the_model_says(code in statements(2)) {
        let text = scenario(&code);
        let scenario = Scenario::from_text("random.toml", &text, &Disk)
            .map_err(|errors| TestCaseError::fail(format!("{errors}\n{text}")))?;
        let plans = scenario.runs(&[], Options::default()).unwrap();
        let run = plans[0].build();
        let run = run.map_err(|errors| TestCaseError::fail(format!("{errors}\n{text}")))?;
        match comparison::compare(&run) {
            Ok(()) => {}
            Err(comparison::Difference::Refused(message)) => {
                return Err(TestCaseError::reject(message));
            }
            Err(comparison::Difference::Found(words)) => {
                return Err(TestCaseError::fail(format!("{words}\n{text}")));
            }
        }
    }
}
