//! No input makes the front end panic or take long, and whatever it refuses it
//! refuses with a message and a remedy.

use coalescope_scenario::{Embedded, Options, Scenario, Style};
use proptest::prelude::*;

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
    let complain = |errors: coalescope_scenario::Diagnostics| -> Result<(), TestCaseError> {
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
    let start = std::time::Instant::now();
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
    assert!(start.elapsed().as_secs() < 10, "took {:?}", start.elapsed());
}
