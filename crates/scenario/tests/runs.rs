//! Which runs a scenario has, and what is settled in each.

use coalescope_scenario::document::parse;
use coalescope_scenario::run::{Contents, Memory};
use coalescope_scenario::{Embedded, Kind, Options, Run, Scenario, SourceId};

const FILES: Embedded<'static> = Embedded(&[("data/a.csv", b"3, 1, 2, 0, 9")]);

fn scenario(text: &str) -> Scenario {
    Scenario::from_text("case.toml", text, &FILES).unwrap_or_else(|errors| panic!("{errors}"))
}

fn set(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn labels(text: &str, overrides: &[(String, String)]) -> Vec<String> {
    let plans = scenario(text)
        .runs(overrides, Options::default())
        .unwrap_or_else(|errors| panic!("{errors}"));
    plans.iter().map(coalescope_scenario::RunPlan::label).collect()
}

fn build(text: &str, overrides: &[(String, String)], options: Options) -> Vec<Run> {
    let plans = scenario(text).runs(overrides, options).unwrap_or_else(|errors| panic!("{errors}"));
    plans.iter().map(|plan| plan.build().unwrap_or_else(|errors| panic!("{errors}"))).collect()
}

/// The one run of a scenario.
fn run(text: &str) -> Run {
    let mut runs = build(text, &[], Options::default());
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

fn value(run: &Run, name: &str) -> String {
    run.params.iter().find(|(param, _)| param == name).map_or_else(
        || panic!("no parameter {name}"),
        |(_, value)| format!("{value} {:?}", value.ty),
    )
}

const LAUNCH: &str = "[launch]\ngrid = [1]\nblock = [32]\n";
const BODY: &str = "[buffers]\na = { type = \"int\", shape = [64] }\n\
                    [kernel]\ncode = \"load(a[threadIdx.x]);\"\n";

#[test]
fn a_sweep_of_two_keys_is_their_product_in_the_order_of_the_file() {
    let text = format!(
        "[params]\nz = 0\na = 0\n{LAUNCH}[buffers]\nb = {{ type = \"int\", shape = [64] }}\n\
         [kernel]\ncode = \"load(b[threadIdx.x]);\"\n[sweep]\nz = [1, \"2 * 2\"]\na = [3, 4]\n"
    );
    assert_eq!(
        labels(&text, &[]),
        ["z = 1, a = 3", "z = 1, a = 4", "z = 2 * 2, a = 3", "z = 2 * 2, a = 4"]
    );
    let runs = build(&text, &[], Options::default());
    assert_eq!(value(&runs[2], "z"), "4 I32");
    assert_eq!(runs[2].swept, ["z", "a"]);
}

#[test]
fn an_override_replaces_the_sweep_over_its_parameter() {
    let text = format!("[params]\nn = 0\nm = 0\n{LAUNCH}{BODY}[sweep]\nn = [1, 2]\nm = [3, 4]\n");
    assert_eq!(labels(&text, &[set("n", "8")]), ["m = 3", "m = 4"]);
    let runs =
        build(&text, &[set("n", "8"), set("n", "2 * m"), set("m", "0x10")], Options::default());
    assert_eq!(runs.len(), 1);
    assert_eq!(value(&runs[0], "n"), "32 I32");
    assert!(runs[0].swept.is_empty());
}

#[test]
fn the_file_without_a_variant_is_a_run_unless_one_is_equal_to_it() {
    let file = format!("[params]\npad = 0\n{LAUNCH}{BODY}");
    assert_eq!(labels(&file, &[]), [""]);
    let changed = format!("{file}[variant.padded]\nparams = {{ pad = 1 }}\n");
    assert_eq!(labels(&changed, &[]), ["", "padded"]);
    let named = format!("{changed}[variant.unpadded]\nparams = {{ pad = 0 }}\n");
    assert_eq!(labels(&named, &[]), ["padded", "unpadded"]);
    let incomplete = format!(
        "{LAUNCH}[buffers]\na = {{ type = \"int\", shape = [64] }}\n\
         [variant.one]\nkernel.code = \"load(a[0]);\"\n\
         [variant.two]\nkernel.code = \"load(a[1]);\"\n"
    );
    assert_eq!(labels(&incomplete, &[]), ["one", "two"]);
    let entries = format!(
        "{LAUNCH}[buffers]\na = {{ type = \"int\", shape = [64] }}\n[kernel]\ncode = \"two\"\n\
         [variant.one]\nkernel.entry = \"f\"\n[variant.two]\nkernel.entry = \"g\"\n"
    );
    assert_eq!(labels(&entries, &[]), ["one", "two"]);
}

#[test]
fn variants_merge_key_by_key() {
    let text = "[params]\nn = 64\nm = 2\n[launch]\ngrid = [2]\nblock = [32]\nregisters = 40\n\
        [struct.P]\nfields = [\"float x\", \"float y\", \"float z\"]\n\
        [buffers]\na = { type = \"P\", shape = [\"n\"], offset_bytes = 16 }\n\
        b = { type = \"int\", shape = [\"n\"], init = \"i\" }\n\
        [kernel]\ncode = \"load(a[threadIdx.x].x);\"\n\
        [variant.v]\nparams = { m = 3, k = 4 }\nlaunch.block = [64]\nstruct.P.align = 16\n\
        buffers = { a = { shape = [\"n * m\"] }, b = false, c = { type = \"char\", shape = [\"k\"] } }\n";
    let runs = build(text, &[], Options::default());
    assert_eq!(runs.len(), 2);
    let [base, variant] = &runs[..] else { panic!("two runs") };
    assert_eq!((base.variant.as_deref(), variant.variant.as_deref()), (None, Some("v")));
    let names = |run: &Run| run.params.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>();
    assert_eq!(names(base), ["n", "m"]);
    assert_eq!(names(variant), ["n", "m", "k"]);
    assert_eq!((variant.launch.grid, variant.launch.block), ([2, 1, 1], [64, 1, 1]));
    assert_eq!(variant.launch.registers, Some(40));
    let buffers: Vec<_> = variant
        .buffers
        .iter()
        .map(|b| (b.name.as_str(), b.element_bytes, b.shape.as_slice(), b.offset_bytes))
        .collect();
    assert_eq!(buffers, [("a", 16, &[192][..], 16), ("c", 1, &[4][..], 0)]);
    assert_eq!(base.buffers[0].element_bytes, 12);
}

#[test]
fn parameters_are_typed_by_their_value() {
    let run = run(&format!(
        "[params]\nsmall = 7\nlarge = 5_000_000_000\nhuge = 18446744073709551615\nyes = true\n\
         half_of = \"large / 2\"\nsum = \"small + half_of\"\nfactor = 0.1\n\
         u = {{ type = \"unsigned\", value = \"small * 2\" }}\n\
         s = {{ type = \"size_t\", value = 1 }}\nd = {{ type = \"double\", value = 0.1 }}\n\
         f = {{ type = \"float\", value = 3 }}\nquotient = \"-7 / 2\"\n{LAUNCH}{BODY}"
    ));
    for (name, expected) in [
        ("small", "7 I32"),
        ("large", "5000000000 I64"),
        ("huge", "18446744073709551615 U64"),
        ("yes", "true Bool"),
        ("half_of", "2500000000 I64"),
        ("sum", "2500000007 I64"),
        ("factor", "0.1 F32"),
        ("u", "14 U32"),
        ("s", "1 U64"),
        ("d", "0.1 F64"),
        ("f", "3.0 F32"),
        ("quotient", "-3 I32"),
    ] {
        assert_eq!(value(&run, name), expected, "{name}");
    }
}

#[test]
fn sizes_are_computed_in_64_bits() {
    let run = run(&format!(
        "[params]\nn = 1048576\nm = 4096\n{LAUNCH}\
         [buffers]\na = {{ type = \"float\", shape = [\"n * m\"] }}\n\
         [kernel]\ncode = \"load(a[threadIdx.x]);\"\n"
    ));
    assert_eq!(run.buffers[0].shape, [1 << 32]);
    assert_eq!(run.buffers[0].bytes, 1 << 34);
}

#[test]
fn pitches_pad_rows() {
    let run = run(&format!(
        "[params]\nh = 3\nw = 1001\n{LAUNCH}[buffers]\n\
         plain = {{ type = \"float\", shape = [\"h\", \"w\"] }}\n\
         cuda = {{ type = \"float\", shape = [2, \"h\", \"w\"], pitch = \"cuda\" }}\n\
         own = {{ type = \"float\", shape = [\"h\", \"w\"], pitch = \"(w + 1) * 4\" }}\n\
         after = {{ type = \"char\", shape = [\"own.pitch\"], memory = \"pinned\" }}\n\
         [kernel]\ncode = \"load(cuda[1][2][threadIdx.x]);\"\n"
    ));
    let sizes: Vec<_> = run.buffers.iter().map(|b| (b.pitch, b.bytes)).collect();
    assert_eq!(
        sizes,
        [(None, 3 * 4004), (Some(4096), 6 * 4096), (Some(4008), 3 * 4008), (None, 4008)]
    );
    assert_eq!(run.buffers[3].memory, Memory::Pinned);
    assert_eq!(run.buffers[0].memory, Memory::Device);
}

/// Buffers may have types that only the `.cu` file defines, also by `typedef`
/// and with sizes that parameters override; those are not printed twice.
#[test]
fn the_kernel_file_may_define_the_structs() {
    let files = Embedded(&[(
        "k.cu",
        b"#define LANES 8
        struct Inner { float x, y; };
        typedef struct { Inner in[LANES]; double d; } Outer;
        typedef struct tag_ { char c; int i; } Tag;
        __global__ void k(Outer *outer, Tag *tag, Inner *inner) {
            outer[threadIdx.x].d = tag[threadIdx.x].i + inner[threadIdx.x].y;
        }",
    )]);
    let text = r#"
        [params]
        LANES = 4
        [launch]
        grid = [1]
        block = [32]
        [buffers]
        outer = { type = "Outer", shape = [32] }
        tag = { type = "Tag", shape = [32] }
        inner = { type = "Inner", shape = [32] }
        [kernel]
        file = "k.cu"
    "#;
    let scenario = Scenario::from_text("s.toml", text, &files).unwrap();
    let run = scenario.runs(&[], Options::default()).unwrap()[0].build().unwrap();
    let bytes: Vec<_> = run.buffers.iter().map(|buffer| buffer.element_bytes).collect();
    assert_eq!(bytes, [4 * 8 + 8, 8, 8]);
    assert_eq!(run.kernel.structs, "");
    let widths: Vec<_> = run.program.sites.iter().map(|site| site.width).collect();
    assert_eq!(widths, [4, 4, 8]);
}

#[test]
fn contents_come_from_expressions_and_files() {
    let run = run(&format!(
        "[params]\nn = 4\n{LAUNCH}[buffers]\n\
         listed = {{ type = \"int\", shape = [\"n\"], file = \"data/a.csv\" }}\n\
         computed = {{ type = \"int\", shape = [\"n\"], init = \"hash(i) % n\" }}\n\
         constant = {{ type = \"int\", shape = [\"n\"], init = 7 }}\n\
         unknown = {{ type = \"int\", shape = [32] }}\n\
         [kernel]\ncode = \"load(unknown[threadIdx.x]);\"\n"
    ));
    assert!(matches!(&run.buffers[0].contents, Contents::Listed(v) if v[..4] == [3, 1, 2, 0]));
    assert!(matches!(run.buffers[1].contents, Contents::Computed(_)));
    assert!(matches!(run.buffers[2].contents, Contents::Computed(_)));
    assert!(matches!(run.buffers[3].contents, Contents::Unknown));
}

#[test]
fn counting_takes_smaller_parameters_unless_they_are_set() {
    let text = format!(
        "[params]\nn = 4096\nm = \"n / 2\"\n{LAUNCH}{BODY}[counting]\nparams = {{ n = 64 }}\n"
    );
    assert!(scenario(&text).has_counting());
    let m = |overrides: &[_], options| value(&build(&text, overrides, options)[0], "m");
    assert_eq!(m(&[], Options::default()), "2048 I32");
    assert_eq!(m(&[], Options::for_counting()), "32 I32");
    assert_eq!(m(&[set("n", "10")], Options::for_counting()), "5 I32");
}

#[test]
fn an_override_keeps_the_stated_type() {
    let text = format!("[params]\nn = {{ type = \"unsigned\", value = 1 }}\n{LAUNCH}{BODY}");
    let n = |text_value| value(&build(&text, &[set("n", text_value)], Options::default())[0], "n");
    assert_eq!(n("5"), "5 U32");
    assert_eq!(n(" 2 + 3 "), "5 U32");
    let plans = scenario(&text).runs(&[set("n", "-1")], Options::default());
    let error = plans.map(|plans| plans[0].build().map(drop));
    assert!(matches!(error, Ok(Err(errors)) if errors.errors[0].kind == Kind::Type));
}

#[test]
fn numbers_on_the_command_line_may_be_written_as_people_do() {
    let text = format!("[params]\nn = 1\nf = 0.5\n{LAUNCH}{BODY}[sweep]\nf = [2, 2.5]\n");
    let set_to = |name, value_text| {
        value(&build(&text, &[set(name, value_text)], Options::default())[0], name)
    };
    assert_eq!(set_to("n", "1_000"), "1000 I32");
    assert_eq!(set_to("n", "1e6"), "1000000 I32");
    assert_eq!(set_to("n", "-3"), "-3 I32");
    assert_eq!(set_to("n", "1 << 20"), "1048576 I32");
    assert_eq!(set_to("n", "true"), "true Bool");
    assert_eq!(set_to("f", "3"), "3.0 F32");
    assert_eq!(set_to("f", "1e-3"), "0.001 F32");
    let swept = build(&text, &[], Options::default());
    assert_eq!([value(&swept[0], "f"), value(&swept[1], "f")], ["2.0 F32", "2.5 F32"]);
}

#[test]
fn one_bad_point_leaves_the_others() {
    let text = format!(
        "[params]\nn = 1\n[launch]\ngrid = [\"n\"]\nblock = [32]\n{BODY}[sweep]\nn = [1, 0, 2]\n"
    );
    let plans = scenario(&text).runs(&[], Options::default()).unwrap_or_default();
    let built: Vec<bool> = plans.iter().map(|plan| plan.build().is_ok()).collect();
    assert_eq!(built, [true, false, true]);
    let error = plans[1].build().map(drop).map_err(|errors| errors.to_string());
    assert!(error.is_err_and(|text| text.contains("in the run: n = 0")));
}

#[test]
fn titles_and_claims_are_told() {
    let text = format!(
        "title = \"T\"\nsummary = \"S\"\nclaims = [3, 11]\n{LAUNCH}{BODY}[variant.v]\nsummary = \"V\"\n"
    );
    let told = scenario(&text);
    assert_eq!((told.name(), told.title(), told.summary()), ("case", "T", "S"));
    assert_eq!(told.claims().collect::<Vec<_>>(), [3, 11]);
    assert_eq!(told.variant_summary("v"), "V");
    assert_eq!(scenario(&format!("{LAUNCH}{BODY}")).title(), "case");
}

#[test]
fn documents_keep_the_order_of_their_keys() {
    let document = parse("[params]\nz = 1\na = 2\nm.type = \"int\"\nm.value = 3\n", SourceId(0));
    let keys = document.map(|d| d.params.keys().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(keys.ok(), Some(vec!["z".to_owned(), "a".to_owned(), "m".to_owned()]));
}
