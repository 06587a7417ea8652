//! No input makes the front end panic or take long, and whatever it refuses it
//! refuses with a message and a remedy.

use coalescope_scenario::count::{self, LaunchCounts};
use coalescope_scenario::{Diagnostics, Embedded, Options, Scenario, Style};
use proptest::prelude::*;
use simulator::RuleSet;

/// A scenario with every kind of table and string.
const SCENARIO: &str = r##"title = "Everything \u00e9"
summary = """a \
  b"""
claims = [1, 2]
[params]
n = 4096
rows = "n / 32"
u = { type = "unsigned", value = "rows * 2" }
f = 0.5
t = true
[launch]
grid = ["rows / 4", 2]
block = [32, 4]
registers = 32
dynamic_shared_bytes = "blockDim.x * 4"
[struct.P]
fields = ["float x", "float y[4]"]
align = 16
[buffers]
p = { type = "P", shape = ["rows", 64], pitch = "cuda" }
c = { type = "int", shape = ["n"], init = "hash(i) % n" }
d = { type = "int", shape = [4], file = "d.txt" }
o = { type = "float", shape = ["n"], offset_bytes = 16, memory = "pinned" }
[kernel]
code = '''
#define W 32
__shared__ float tile[W][W + 1];
int i = blockIdx.x * blockDim.x + threadIdx.x; // 宽
for (int j = 0; j < 4; j += 1) tile[threadIdx.y][j] = o[i];
__syncthreads();
if (i < n && t) load(p[c[i] % rows][threadIdx.x].y[d[0]]); else o[i] = f * tile[0][0]; // @label w
'''
[variant.base]
[variant.other]
params = { n = 2048 }
buffers = { d = { type = "int", shape = [4], init = 1 }, o.offset_bytes = 0 }
[sweep]
f = [1.5, 2.0]
[counting]
params = { n = 1024 }
[[allow]]
label = "w"
min_efficiency = "10%"
reason = "a test"
"##;

const FILES: Embedded<'static> = Embedded(&[("d.txt", b"0 1 2 3")]);

/// Runs a text as far as it goes; whatever stops it must say so.
fn exercise(text: &str) -> Result<(), TestCaseError> {
    let complain = |errors: Diagnostics| -> Result<(), TestCaseError> {
        prop_assert!(!errors.errors.is_empty());
        for error in &errors.errors {
            prop_assert!(!error.message.is_empty() && !error.help.is_empty(), "{error:?}");
        }
        prop_assert!(errors.to_string().starts_with("error: "));
        errors.render(Style::Coloured);
        Ok(())
    };
    let scenario = match Scenario::from_text("case.toml", text, &FILES) {
        Ok(scenario) => scenario,
        Err(errors) => return complain(errors),
    };
    let plans = match scenario.runs(&[("n".into(), "64 + 64".into())], Options::for_counting()) {
        Ok(plans) => plans,
        Err(errors) => return complain(errors),
    };
    for plan in plans.iter().take(2).chain(plans.last()) {
        if let Err(errors) = plan.build() {
            complain(errors)?;
        }
    }
    Ok(())
}

/// Something that a slip of the hand, or of a merge, does to a text.
#[derive(Clone, Debug)]
enum Mutation {
    Delete(usize, usize),
    Repeat(usize, usize, usize),
    Insert(usize, &'static str),
    Cut(usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let words = prop::sample::select(vec![
        "\"",
        "'",
        "'''",
        "[",
        "]",
        "{",
        "}",
        "=",
        ",",
        "\n",
        "\r",
        "\\",
        "\0",
        "宽",
        "-",
        "0x",
        "(",
        ")",
        ";",
        "9223372036854775807",
        "99999999999999999999999999999999",
        "1e400",
        "nan",
        "2020-01-01",
        "false",
        "/",
        "%",
        "<<",
        "i",
        "n",
        "*",
        "&",
        "sizeof",
        "#define n n\n",
        "#if 0\n",
        "/*",
        "//",
        "for(;;)",
        "float4",
        "__shared__ ",
        "blockDim.x",
        "[[",
        "P",
    ]);
    let at = any::<prop::sample::Index>().prop_map(|index| index.index(SCENARIO.len() * 2));
    prop_oneof![
        (at.clone(), 1..40_usize).prop_map(|(at, len)| Mutation::Delete(at, len)),
        (at.clone(), at.clone(), 1..60_usize).prop_map(|(f, t, len)| Mutation::Repeat(f, t, len)),
        (at.clone(), words).prop_map(|(at, word)| Mutation::Insert(at, word)),
        at.prop_map(Mutation::Cut),
    ]
}

fn mutate(text: &mut String, mutation: &Mutation) {
    let border = |text: &str, at: usize| text.floor_char_boundary(at % (text.len() + 1));
    match *mutation {
        Mutation::Delete(at, len) => {
            let start = border(text, at);
            let end = text.ceil_char_boundary((start + len).min(text.len()));
            text.replace_range(start..end, "");
        }
        Mutation::Repeat(from, to, len) => {
            let start = border(text, from);
            let end = text.ceil_char_boundary((start + len).min(text.len()));
            let piece = text[start..end].to_owned();
            let to = border(text, to);
            text.insert_str(to, &piece);
        }
        Mutation::Insert(at, word) => {
            let at = border(text, at);
            text.insert_str(at, word);
        }
        Mutation::Cut(at) => {
            let at = border(text, at);
            text.truncate(at);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn mutated_scenarios_never_panic(mutations in prop::collection::vec(mutation(), 1..4)) {
        let mut text = SCENARIO.to_owned();
        for mutation in &mutations {
            mutate(&mut text, mutation);
        }
        exercise(&text)?;
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        exercise(&text)?;
    }

    #[test]
    fn arbitrary_values_never_panic(
        key in prop::sample::select(vec!["n = 4096", "[32, 4]", "\"cuda\"", "16, memory", "[\"n\"]"]),
        value in prop_oneof![
            any::<i64>().prop_map(|n| n.to_string()),
            any::<f64>().prop_map(|n| format!("{n:?}")),
            "\"[-+*/%()n0-9 ]{0,12}\"".prop_map(|s| s),
            Just("{ type = \"size_t\", value = 18446744073709551615 }".to_owned()),
            Just("[9223372036854775807, 9223372036854775807]".to_owned()),
        ],
    ) {
        let replaced = match key.split_once(" = ") {
            Some((name, _)) => format!("{name} = {value}"),
            None => key.replace("16", &value).replace("[32, 4]", &value)
                .replace("\"cuda\"", &value).replace("[\"n\"]", &value),
        };
        exercise(&SCENARIO.replacen(key, &replaced, 1))?;
    }
}

/// The scenario that the properties start from is a good one.
#[test]
fn the_unchanged_scenario_works() {
    let runs = Scenario::from_text("case.toml", SCENARIO, &FILES)
        .and_then(|scenario| scenario.runs(&[], Options::default()))
        .unwrap_or_else(|errors| panic!("{errors}"));
    let labels: Vec<_> = runs.iter().map(coalescope_scenario::RunPlan::label).collect();
    assert_eq!(labels, ["base, f = 1.5", "base, f = 2.0", "other, f = 1.5", "other, f = 2.0"]);
    for run in &runs {
        run.build().unwrap_or_else(|errors| panic!("{errors}"));
    }
}

/// Sizes that no machine has are refused before anything is allocated.
#[test]
fn absurd_sizes_are_refused_at_once() {
    let long_chain: String =
        (0..999).map(|i| format!("p{i} = \"p{} + 1\"\n", i + 1)).collect::<String>() + "p999 = 1\n";
    let many: String = (0..2000).map(|i| format!("p{i} = {i}\n")).collect();
    let deep = format!("n = \"{}1{}\"", "(".repeat(100_000), ")".repeat(100_000));
    let nested = format!("n = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for params in [long_chain.as_str(), &many, &deep, &nested] {
        let text = format!(
            "[params]\n{params}\n[launch]\ngrid = [1]\nblock = [32]\n\
             [buffers]\na = {{ type = \"char\", shape = [140737488355329] }}\n\
             [kernel]\ncode = \"load(a[0]);\"\n"
        );
        let refused = Scenario::from_text("case.toml", &text, &FILES)
            .and_then(|scenario| scenario.runs(&[], Options::default()))
            .and_then(|plans| plans.iter().try_for_each(|plan| plan.build().map(drop)));
        assert!(refused.is_err());
    }
}

/// Nobody writes such files; whoever opens one by mistake gets an answer.
#[test]
fn huge_texts_are_refused_and_shown_in_part() {
    for text in [
        format!("titel = \"{}\"", "x".repeat(1 << 17)),
        format!("title = \"{}\" titel", "宽".repeat(1 << 15)),
        "\u{0}".repeat(1 << 17),
        "[".repeat(1 << 17),
        "a\n".repeat(1 << 17),
        "# comment\n".repeat(1 << 15) + "titel = 1",
        format!("title = '''{}", "\n".repeat(1 << 17)),
        "x".repeat(1 << 20),
    ] {
        let refused = Scenario::from_text("case.toml", &text, &FILES).map(drop);
        let message = refused.map_err(|errors| errors.to_string());
        assert!(message.is_err_and(|text| text.len() < 4000 && text.contains("= help: ")));
    }
}

/// Builds and counts the runs of a scenario.
fn count_all(text: &str) -> Result<Vec<LaunchCounts>, Diagnostics> {
    let rules = RuleSet::for_arch("9.0").expect("shipped");
    let scenario = Scenario::from_text("case.toml", text, &FILES)?;
    let mut counts = Vec::new();
    for plan in scenario.runs(&[], Options::default())? {
        let run = plan.build()?;
        let options = count::Options::default();
        let counted = count::count(&run, &rules, &run.assumed_bases(), &options);
        counts.push(counted.map_err(|error| run.fail(error))?);
    }
    Ok(counts)
}

/// What no machine can do is refused with a reason, before it is tried: each of
/// these would take years, or more memory than there is.
#[test]
fn the_impossible_is_refused() {
    let launch = "[launch]\ngrid = [1]\nblock = [32]\n";
    let buffer = "[buffers]\na = { type = \"float\", shape = [1024] }\n";
    let all = "[launch]\ngrid = [2147483647, 65535, 16384]\nblock = [1024]\n";
    let kernel = |code: &str| format!("[kernel]\ncode = '''\n{code}\n'''\n");
    let load = kernel("load(a[threadIdx.x]);");
    let hashed = "unsigned h = hash(threadIdx.x);\n";
    let variants: String = (0..100_000).map(|n| format!("[variant.v{n}]\n")).collect();
    let values: String = (0..1000).map(|n| format!("{n},")).collect();
    let (mut swept, mut sweep) = ("[params]\n".to_owned(), "[sweep]\n".to_owned());
    for n in 0..50 {
        swept += &format!("p{n} = 0\n");
        sweep += &format!("p{n} = [{values}]\n");
    }
    let mut wrong = Vec::new();
    for (what, text, reason) in [
        (
            "2^63 threads that do not fit into a grid",
            format!("[launch]\ngrid = [9223372036854775807]\nblock = [1]\n{buffer}{load}"),
            "over the limit",
        ),
        (
            "a block of 2^40 threads",
            format!("[launch]\ngrid = [1]\nblock = [1099511627776]\n{buffer}{load}"),
            "over the limit",
        ),
        (
            "a grid of 2^63 blocks",
            format!("[launch]\ngrid = [2147483647, 65535, 65535]\nblock = [1024]\n{buffer}{load}"),
            "a grid of 9223090559730712575 blocks is too large",
        ),
        (
            "2^71 threads with addresses of their own",
            format!(
                "{all}{buffer}{}",
                kernel("load(a[hash(blockIdx.x * 1024 + threadIdx.x) % 1024]);")
            ),
            "the launch is too large",
        ),
        (
            "a buffer of exabytes",
            format!(
                "{launch}[buffers]\na = {{ type = \"double\", shape = [1152921504606846976] }}\n{load}"
            ),
            "128 TiB",
        ),
        (
            "a buffer whose size overflows",
            format!(
                "{launch}[buffers]\na = {{ type = \"float\", shape = [4294967296, 4294967296, 4] \
                 }}\n{load}"
            ),
            "128 TiB",
        ),
        (
            "a pitch of exabytes",
            format!(
                "{launch}[buffers]\na = {{ type = \"float\", shape = [64, 64], pitch = \
                 4611686018427387904 }}\n{}",
                kernel("load(a[0][0]);")
            ),
            "a pitch of 4611686018427387904 bytes",
        ),
        (
            "an offset of exabytes",
            format!(
                "{launch}[buffers]\na = {{ type = \"float\", shape = [64], offset_bytes = \
                 4611686018427387904 }}\n{load}"
            ),
            "an offset of 4611686018427387904 bytes",
        ),
        ("very many variants", format!("{launch}{buffer}{load}{variants}"), "variants"),
        ("10^150 runs", format!("{swept}{launch}{buffer}{load}{sweep}"), "far more points than"),
        (
            "a shared array of terabytes",
            format!(
                "{launch}{buffer}{}",
                kernel("__shared__ int s[1 << 20][1 << 20]; s[0][0] = 1;")
            ),
            "shared",
        ),
        (
            "terabytes of dynamic shared memory",
            format!(
                "[launch]\ngrid = [1]\nblock = [32]\ndynamic_shared_bytes = \
                 1099511627776\n{buffer}{load}"
            ),
            "shared",
        ),
        (
            "a thread's array of gigabytes",
            format!("{launch}{buffer}{}", kernel("int t[1 << 30]; t[0] = 1; load(a[t[0]]);")),
            "local memory",
        ),
        (
            "a struct of exabytes",
            format!(
                "{launch}[struct.S]\nfields = [\"double x[1152921504606846976]\"]\n\
                 [buffers]\na = {{ type = \"S\", shape = [1] }}\n{}",
                kernel("load(a[0].x[0]);")
            ),
            "2^57 bytes",
        ),
        (
            "a loop without end",
            format!("{launch}{buffer}{}", kernel("for (;;) load(a[threadIdx.x]);")),
            "the loop does not end",
        ),
        (
            "a loop of 2^62 irregular trips",
            format!(
                "{launch}{buffer}{}",
                kernel(&format!(
                    "{hashed}for (long long i = 0; i < 4611686018427387904ll; ++i) h = hash(h);\n\
                     load(a[h % 1024]);"
                ))
            ),
            "iterations",
        ),
    ] {
        match count_all(&text) {
            Ok(_) => wrong.push(format!("{what}: counted")),
            Err(errors) => {
                let message = errors.to_string();
                let told = message.contains(reason) && message.contains("= help: ");
                if !told || message.len() >= 4000 {
                    wrong.push(format!("{what}: {message}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is vast and regular is counted in closed form.
#[test]
fn the_vast_is_bounded() {
    let launch = "[launch]\ngrid = [2147483647, 65535, 16384]\nblock = [1024]\n";
    let buffer = "[buffers]\na = { type = \"float\", shape = [1024] }\n";
    for (code, times) in [
        ("load(a[threadIdx.x]);", 1),
        ("for (int i = 0; i < 1 << 30; ++i) load(a[threadIdx.x]);", 1_u128 << 30),
        (
            "for (int i = 0; i < 1 << 4; ++i) for (int j = 0; j < 1 << 20; ++j) \
             load(a[threadIdx.x]);",
            1 << 24,
        ),
    ] {
        let text = format!("{launch}{buffer}[kernel]\ncode = '''\n{code}\n'''\n");
        let counts = count_all(&text).unwrap_or_else(|errors| panic!("{errors}"));
        let warps = 2_147_483_647 * 65_535 * 16_384 * 32 * times;
        assert_eq!(counts[0].sites[0].totals.instructions, warps, "{code}");
        assert_eq!(counts[0].single_blocks, 0);
    }
}
