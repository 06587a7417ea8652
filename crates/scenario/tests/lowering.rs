//! What kernels are lowered to: each `lowering/NAME.toml` is a scenario, then a
//! line `# -- program --`, then the typed program of its first run, in comments.
//!
//! The kernels are those of tutorials and samples, as their authors print them,
//! or small ones for one rule of C.
//!
//! `COALESCOPE_BLESS=1 cargo test -p coalescope-scenario --test lowering`
//! writes the programs; read the diff before you commit it.

use coalescope_scenario::dump::dump;
use coalescope_scenario::{Options, Scenario};
use std::fs;
use std::path::{Path, PathBuf};

const BLESS: &str = "COALESCOPE_BLESS";
const COMMAND: &str = "COALESCOPE_BLESS=1 cargo test -p coalescope-scenario --test lowering";
const MARKER: &str = "# -- program --\n";

/// The first run's program and the labels of its accesses, as comments.
fn lowered(path: &Path) -> String {
    let scenario = Scenario::load(path).unwrap_or_else(|errors| panic!("{errors}"));
    let plans = scenario.runs(&[], Options::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let run = plans[0].build().unwrap_or_else(|errors| panic!("{errors}"));
    let mut text = dump(&run.program, &run.buffers);
    for (number, site) in run.program.sites.iter().enumerate() {
        let mark = if site.labelled { " (label)" } else { "" };
        text.push_str(&format!("#{number}: {}{mark}\n", site.label));
    }
    text.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect()
}

/// The scenarios of this folder.
fn paths() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir("tests/lowering")
        .unwrap_or_else(|error| panic!("{error}"))
        .map(|entry| entry.unwrap_or_else(|error| panic!("{error}")).path())
        .filter(|path| path.extension().is_some_and(|found| found == "toml"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

#[test]
fn programs_are_as_recorded() {
    let bless = std::env::var_os(BLESS).is_some_and(|value| value == "1");
    let mut wrong = Vec::new();
    for path in paths() {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}"));
        let (scenario, expected) = text.split_once(MARKER).unwrap_or((&text, ""));
        let found = lowered(&path);
        if bless {
            let scenario = scenario.trim_end();
            fs::write(&path, format!("{scenario}\n\n{MARKER}{found}"))
                .unwrap_or_else(|error| panic!("{error}"));
        } else if expected != found {
            let diff = similar_asserts::SimpleDiff::from_str(expected, &found, "recorded", "found");
            wrong.push(format!("{}\n{diff}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nIf this is right: {COMMAND}", wrong.join("\n"));
}

/// The kernel's text in a scenario of this folder.
fn kernel_of(path: &Path) -> (String, String, String) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{error}"));
    let (before, rest) = text.split_once("code = '''\n").unwrap_or_else(|| panic!("{path:?}"));
    let (code, after) = rest.split_once("\n'''").unwrap_or_else(|| panic!("{path:?}"));
    (format!("{before}code = '''\n"), code.to_owned(), format!("\n'''{after}"))
}

/// Loads and builds a scenario's text; what comes of it does not matter.
fn try_to_lower(text: &str) {
    let files = coalescope_scenario::Embedded(&[]);
    let Ok(scenario) = Scenario::from_text("text.toml", text, &files) else { return };
    let Ok(plans) = scenario.runs(&[], Options::default()) else { return };
    if let Err(errors) = plans[0].build() {
        assert!(!errors.to_string().is_empty());
    }
}

/// No text makes lowering panic: the kernels here with words removed, doubled,
/// exchanged and replaced.
#[test]
fn broken_kernels_are_refused() {
    let mut state = 0x243f_6a88_85a3_08d3_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below.max(1)
    };
    let strange = [
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "<",
        ">",
        ">>",
        ";",
        ",",
        "*",
        "&",
        "=",
        "+=",
        "++",
        "?",
        ":",
        "::",
        "->",
        ".",
        "\"",
        "'",
        "#",
        "\\",
        "struct",
        "template",
        "operator",
        "sizeof",
        "auto",
        "float4",
        "int",
        "threadIdx",
        "0",
        "1e9",
        "0x",
        "99999999999",
        "// ",
        "/*",
        "*/",
        "@label",
        "__shared__",
        "extern",
        "return",
        "if",
        "else",
        "for",
        "while",
        "switch",
        "case",
        "é",
    ];
    for path in paths() {
        let (before, code, after) = kernel_of(&path);
        let words: Vec<&str> = code.split_inclusive([' ', '(', ')', ';', ',', '[', ']']).collect();
        for _ in 0..40 {
            let mut words = words.clone();
            for _ in 0..=random(3) {
                let (at, other) = (random(words.len()), random(words.len()));
                match random(4) {
                    0 => drop(words.remove(at)),
                    1 => words.insert(at, words[other]),
                    2 => words.swap(at, other),
                    _ => words[at] = strange[random(strange.len())],
                }
            }
            try_to_lower(&format!("{before}{}{after}", words.concat()));
        }
    }
}

/// Deep nesting is refused or lowered, in the stack of a test's thread.
#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let head = "[launch]\ngrid = [1]\nblock = [32]\n[buffers]\n\
                x = { type = \"int\", shape = [64], init = \"0\" }\n[kernel]\ncode = '''\n";
    for depth in [150, 199, 3000] {
        let nested = |open: &str, inner: &str, close: &str| {
            format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
        };
        let expressions = [
            nested("(", "1", ")"),
            nested("-(", "1", ")"),
            nested("!", "x[0]", ""),
            nested("min(1, ", "x[0]", ")"),
            nested("x[", "0", "]"),
            nested("(int)", "x[0]", ""),
            nested("x[0] ? 1 : ", "2", ""),
            nested("x[0] + (", "1", ")"),
            nested("x[0] + ", "1", ""),
            nested("x[0] && (", "1", ")"),
            nested("*&", "x[0]", ""),
            nested("static_cast<int>(", "x[0]", ")"),
            nested("(x[0] = ", "1", ")"),
            nested("sizeof(", "1", ")"),
        ];
        for expression in &expressions {
            try_to_lower(&format!("{head}int i = {expression};\nload(x[i]);\n'''\n"));
        }
        let statements = [
            nested("{", "load(x[0]);", "}"),
            nested("if (x[0]) ", "load(x[0]);", ""),
            nested("if (x[0]) ; else ", "load(x[0]);", ""),
            nested("for (;;) ", "break;", ""),
            nested("while (x[0]) {", "", "}"),
            nested("switch (x[0]) { case 0: ", "", "}"),
        ];
        for statement in &statements {
            try_to_lower(&format!("{head}{statement}\n'''\n"));
        }
        for body in ["f(a) + 1", "f(a) + f(a)", "f(f(a))"] {
            let functions: String = (0..depth)
                .map(|n| (n + 1, body.replace('f', &format!("f{n}"))))
                .map(|(n, body)| format!("__device__ int f{n}(int a) {{ return {body}; }}\n"))
                .collect();
            let kernel = format!(
                "__device__ int f0(int a) {{ return a; }}\n{functions}__global__ void k(int* x) {{ \
                 x[f{depth}(0)] = 1; }}"
            );
            try_to_lower(&format!("{head}{kernel}\n'''\n"));
        }
    }
}

/// The operands of operators and overloaded functions are looked at for their
/// types before they are evaluated: with nesting that would double each time.
#[test]
fn types_are_worked_out_once() {
    let head = "[launch]\ngrid = [1]\nblock = [32]\n[buffers]\n\
                x = { type = \"float2\", shape = [64] }\n[kernel]\ncode = '''\n\
                __device__ float2 operator+(float2 a, float2 b) { \
                return make_float2(a.x + b.x, a.y + b.y); }\n\
                __device__ float2 f(float2 a) { return a; }\n\
                __device__ float f(float a) { return a; }\n\
                __global__ void k(float2* x) {\n";
    let sum = "x[threadIdx.x] = x[0]".to_owned() + &" + x[1]".repeat(60) + ";";
    let calls = format!("x[0] = {}x[1]{};", "f(".repeat(40), ")".repeat(40));
    let assignments = format!("float2 a; {}x[1]{};", "(a = ".repeat(60), ")".repeat(60));
    for (statement, sites) in [(sum, 62), (calls, 2), (assignments, 1)] {
        let text = format!("{head}{statement}\n}}\n'''\n");
        let files = coalescope_scenario::Embedded(&[]);
        let run = Scenario::from_text("text.toml", &text, &files)
            .and_then(|scenario| scenario.runs(&[], Options::default()))
            .and_then(|plans| plans[0].build())
            .unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(run.program.sites.len(), sites, "{statement}");
    }
}
