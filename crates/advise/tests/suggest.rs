//! The layout search: what it proposes runs, touches the same elements and
//! costs what was promised.

use coalescope_advise::suggest::{Suggestions, rank, suggest, verify};
use proptest::prelude::*;
use scenario::{Embedded, RunPlan, Scenario};
use simulator::RuleSet;
use std::cmp::Ordering;
use std::path::Path;

fn rules() -> RuleSet {
    RuleSet::for_arch("9.0").expect("9.0 is shipped")
}

/// A shipped scenario with fewer elements: what is promised does not depend on
/// how many there are.
fn shipped(name: &str, variant: &str) -> RunPlan {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/{name}.toml"));
    let scenario = Scenario::load(path).expect("it is shipped");
    let size = if scenario.params().contains(&"height") { "height" } else { "n" };
    let smaller = [(size.to_owned(), "4096".to_owned())];
    let plans = scenario.runs(&smaller, scenario::Options::default()).expect("it has runs");
    plans.into_iter().find(|plan| plan.variant() == Some(variant)).expect("the variant exists")
}

fn of_text(text: &str) -> RunPlan {
    let scenario = Scenario::from_text("test.toml", text, &Embedded(&[])).expect("it reads");
    let plans = scenario.runs(&[], scenario::Options::default()).expect("it has runs");
    plans.into_iter().next().expect("it has a run")
}

/// Every candidate's file is read again and counted: each keeps its promise.
fn check(found: &Suggestions) {
    for candidate in &found.ranked {
        let kept = verify(candidate, Path::new("candidate.toml"), &rules());
        assert!(
            kept.as_ref().is_ok_and(|kept| *kept),
            "{}: {kept:?}\n{}",
            candidate.layout,
            candidate.toml
        );
    }
    for pair in found.ranked.windows(2) {
        assert_ne!(rank(&pair[0], &pair[1], found.present.seconds()), Ordering::Greater);
    }
    assert!(found.ranked.iter().any(|candidate| candidate.layout.is_present()));
}

fn best(found: &Suggestions) -> String {
    found.best().map_or_else(|| "present".to_owned(), |best| best.layout.to_string())
}

#[test]
fn one_field_of_a_struct_becomes_an_array() {
    let found = suggest(&shipped("struct-layout", "aos"), &rules(), None).expect("it runs");
    check(&found);
    assert_eq!(best(&found), "`Point` as SoA", "{:?}", found.refused);
    let best = found.best().expect("there is one");
    assert_eq!(best.totals.sectors.map(|n| n * 3), found.present.totals.sectors);
    let blocked = found
        .ranked
        .iter()
        .find(|candidate| candidate.layout.to_string() == "`Point` as AoSoA of 32")
        .unwrap_or_else(|| panic!("{:?}", found.refused));
    assert_eq!(blocked.totals.sectors, best.totals.sectors);
}

#[test]
fn structs_of_a_kernel_file_are_rewritten_there() {
    // Of the particle's fields two are read and not written: one request less.
    let split = "`Particle` split: float2 (u v) | w | x | y | z | the rest";
    for (name, soa, expected) in [
        ("vector-add-layout", "`Point` as SoA", "`Point` as SoA"),
        ("particle-update", "`Particle` as SoA", split),
    ] {
        let found = suggest(&shipped(name, "aos"), &rules(), None).expect("it runs");
        check(&found);
        assert_eq!(best(&found), expected, "{name}: {:?}", found.refused);
        assert_eq!(ranked(&found, soa).totals.sectors, ranked(&found, expected).totals.sectors);
    }
}

#[test]
fn what_is_packed_already_stays() {
    let found = suggest(&shipped("struct-layout", "soa"), &rules(), None).expect("it runs");
    check(&found);
    assert_eq!(best(&found), "present");
}

#[test]
fn a_struct_that_is_read_whole_may_be_read_as_vectors() {
    let found = suggest(&shipped("aligned-struct", "packed"), &rules(), None).expect("it runs");
    check(&found);
    let vector = found
        .ranked
        .iter()
        .find(|candidate| candidate.layout.to_string().contains("read 16 B at once"))
        .unwrap_or_else(|| panic!("{:?}", found.refused));
    assert!(vector.toml.contains("reinterpret_cast<const float4 *>(points)[i]"), "{}", vector.toml);
    // Three requests of twelve sectors become one of sixteen.
    let made = shipped("aligned-struct", "align16").build().expect("it builds");
    let counts =
        scenario::count::count(&made, &rules(), &made.assumed_bases(), &Default::default())
            .expect("it counts");
    let sectors: u128 = counts.sites.iter().filter_map(|site| site.totals.sectors).sum();
    assert_eq!(vector.totals.sectors, Some(sectors));
}

#[test]
fn rows_get_a_pitch_where_the_kernel_follows_it() {
    let found = suggest(
        &of_text(
            r#"
[params]
width = 1001
height = 64
[launch]
grid = ["(width + 31) / 32", "height / 8"]
block = [32, 8]
[buffers]
img = { type = "float", shape = ["height", "width"] }
[kernel]
code = '''
int x = blockIdx.x * blockDim.x + threadIdx.x;
int y = blockIdx.y * blockDim.y + threadIdx.y;
if (x < width) load(img[y][x]);
'''
"#,
        ),
        &rules(),
        None,
    )
    .expect("it runs");
    check(&found);
    assert_eq!(best(&found), "`img` with a pitch", "{:?}", found.refused);
    // A kernel that is told the pitch in a parameter is told the new one.
    let told = suggest(&shipped("pitched-image", "linear"), &rules(), None).expect("it runs");
    check(&told);
}

#[test]
fn what_cannot_be_rewritten_says_where() {
    let found = suggest(
        &of_text(
            r#"
[params]
n = 1024
[launch]
grid = ["n / 128"]
block = [128]
[struct.P]
fields = ["float x", "float y", "float z"]
[buffers]
p = { type = "P", shape = ["n"] }
[kernel]
code = '''
int i = blockIdx.x * blockDim.x + threadIdx.x;
P *q = i % 2 ? p + i : p;
load(q->x);
'''
"#,
        ),
        &rules(),
        None,
    )
    .expect("it runs");
    let reasons = found.refused.iter().map(|(_, reason)| reason.as_str()).collect::<Vec<_>>();
    assert!(
        reasons
            .iter()
            .any(|reason| reason.contains("in line 2 of the kernel: `P *q = i % 2 ? p + i : p;`")),
        "{reasons:?}"
    );
}

/// A kernel over 24-byte cells, of which `lines` are the statements of each thread.
fn cells(lines: &str) -> RunPlan {
    of_text(&format!(
        "[params]\nn = 4096\n[launch]\ngrid = [\"(n + 127) / 128\"]\nblock = [128]\n\
         [struct.Cell]\nfields = [\"float x\", \"float y\", \"float z\", \"float w\", \"int a\", \"int b\"]\n\
         [buffers]\ncells = {{ type = \"Cell\", shape = [\"n\"] }}\n\
         out = {{ type = \"float\", shape = [\"n\"] }}\n\
         order = {{ type = \"int\", shape = [\"n\"], init = \"hash(i) % n\" }}\n\
         [kernel]\ncode = '''\nint i = blockIdx.x * blockDim.x + threadIdx.x;\n{lines}\n'''\n"
    ))
}

/// However an element is named, the layouts are those of `cells[i].field`.
#[test]
fn references_pointers_and_copies_are_followed() {
    let direct = suggest(&cells("if (i < n) out[i] = cells[i].x * cells[i].y;"), &rules(), None);
    let direct = direct.expect("it runs");
    check(&direct);
    let listed = |found: &Suggestions| -> Vec<(String, Option<u128>)> {
        found.ranked.iter().map(|c| (c.layout.to_string(), c.totals.sectors)).collect()
    };
    assert!(listed(&direct).iter().any(|(layout, _)| layout == "`Cell` as AoSoA of 32"));
    for lines in [
        "if (i < n) { const Cell &c = cells[i]; out[i] = c.x * c.y; }",
        "if (i < n) { auto &c = cells[i]; out[i] = c.x * c.y; }",
        "if (i >= n) return;\nconst Cell *c = &cells[i];\nout[i] = c->x * (*c).y;",
        "if (i >= n) return;\nconst Cell *c = cells + i;\nout[i] = c[0].x * c->y;",
        "if (i >= n) return;\nauto c = &cells[i];\nout[i] = c->x * c->y;",
        "if (i < n) { Cell c = cells[i]; out[i] = c.x * c.y; }",
        "if (i < n) out[i] = (*(cells + i)).x * (&cells[i])->y;",
        "if (i >= n) return;\nCell *row = cells + 1;\nCell &c = row[i - 1];\nout[i] = c.x * c.y;",
        // The index changes after the name was given.
        "if (i >= n) return;\nint j = i;\nCell &c = cells[j];\nj = 0;\nout[i] = c.x * c.y;",
    ] {
        let found = suggest(&cells(lines), &rules(), None).expect("it runs");
        check(&found);
        assert_eq!(listed(&found), listed(&direct), "{lines}\n{:?}", found.refused);
    }
}

#[test]
fn what_names_an_element_is_worked_out_as_often_as_before() {
    // The index is read from memory once; the pointer moves; a copy is kept while
    // the element changes; elements are copied whole.
    for lines in [
        "if (i < n) { const Cell &c = cells[order[i]]; out[i] = c.x * c.y; }",
        "Cell c = cells[order[i]];\nout[i] = c.x * c.y;",
        "Cell *p = cells + i;\nfor (int k = 0; k < 4; ++k) { out[i] = p->x * p->y; p += 128; if (p >= cells + n) p = cells + i; }",
        "for (const Cell *p = cells + i; p < cells + n; p += 1024) { out[i] = p->x * p->w; }",
        "Cell *p = cells + i;\nload(p->x);\np = cells + (n - 1 - i);\nload(p->x);",
        "Cell c = cells[i];\nc.x += c.y;\ncells[i] = c;",
        "cells[i] = cells[n - 1 - i];",
        "Cell c;\nc.x = 1; c.y = 2; c.z = 3; c.w = 4; c.a = 5; c.b = 6;\ncells[i] = c;",
        "{ Cell &c = cells[i]; load(c.x); }\n{ Cell &c = cells[n - 1 - i]; load(c.y); }",
    ] {
        let found = suggest(&cells(lines), &rules(), None).expect("it runs");
        check(&found);
        let soa = found.ranked.iter().find(|c| c.layout.to_string() == "`Cell` as SoA");
        assert!(soa.is_some(), "{lines}\n{:?}", found.refused);
        let changed = found.refused.iter().find(|(_, reason)| reason.contains("would change"));
        assert_eq!(changed, None, "{lines}");
    }
}

#[test]
fn names_that_may_stand_for_another_element_are_left_alone() {
    for (lines, place) in [
        // Another variable of the name.
        (
            "Cell &c = cells[i];\n{ Cell c; c.x = 1; out[i] = c.x; }\nload(c.x);",
            "line 2 of the kernel: `Cell &c = cells[i];`",
        ),
        // A pointer to which of two is not known here.
        (
            "Cell *p = cells;\nif (i % 2) p = &cells[i];\nCell *q = i % 3 ? p : cells;\nload(q->x);",
            "line 4",
        ),
    ] {
        let found = suggest(&cells(lines), &rules(), None).expect("it runs");
        check(&found);
        assert_eq!(best(&found), "present");
        assert!(
            found.refused.iter().any(|(_, reason)| reason.contains(place)),
            "{lines}\n{:?}",
            found.refused
        );
    }
}

fn ranked<'f>(found: &'f Suggestions, layout: &str) -> &'f coalescope_advise::suggest::Candidate {
    let candidate = found.ranked.iter().find(|c| c.layout.to_string() == layout);
    candidate.unwrap_or_else(|| {
        let known: Vec<String> = found.ranked.iter().map(|c| c.layout.to_string()).collect();
        panic!("no {layout} among {known:#?}\n{:#?}", found.refused)
    })
}

#[test]
fn what_a_kernel_touches_is_split_from_the_rest() {
    let plan = cells("if (i < n) { const Cell &c = cells[i]; out[i] = c.x * c.y; }");
    let found = suggest(&plan, &rules(), None).expect("it runs");
    check(&found);
    // Eight bytes of each element are read at once.
    let split = ranked(&found, "`Cell` split: float2 (x y) | the rest");
    assert!(split.toml.contains("float2 x_y = cells_x_y[i];"), "{}", split.toml);
    let soa = ranked(&found, "`Cell` as SoA");
    assert_eq!(split.totals.sectors, soa.totals.sectors);
    assert!(split.totals.requests < soa.totals.requests);
    assert_eq!(best(&found), split.layout.to_string());
    // A struct of what is read: 8 bytes apart, one field at a time.
    let hot = ranked(&found, "`Cell` split: x y | the rest");
    assert_eq!(hot.totals.sectors, Some(128 * (8 + 8 + 4)));
}

#[test]
fn a_struct_of_24_bytes_becomes_vectors_of_16_and_8() {
    let plan = cells(
        "if (i >= n) return;\nconst Cell &c = cells[i];\nout[i] = c.x * c.y + c.z * c.w + c.a + c.b;",
    );
    let found = suggest(&plan, &rules(), None).expect("it runs");
    check(&found);
    let vectors = ranked(&found, "`Cell` split: float4 (x y z w) | int2 (a b)");
    assert_eq!(vectors.totals.requests, Some(128 * 3));
    assert_eq!(vectors.totals.sectors, Some(128 * (16 + 8 + 4)));
    assert_eq!(best(&found), vectors.layout.to_string());
    // Elements at random places: what is read together lies together.
    let random = cells("const Cell &c = cells[order[i]];\nout[i] = c.x * c.y;");
    let found = suggest(&random, &rules(), None).expect("it runs");
    check(&found);
    let split = ranked(&found, "`Cell` split: float2 (x y) | the rest");
    assert!(split.totals.sectors < ranked(&found, "`Cell` as SoA").totals.sectors);
}

#[test]
fn what_is_written_too_is_not_read_in_a_vector() {
    let plan = cells("Cell &c = cells[i];\nc.x += c.y * c.z;");
    let found = suggest(&plan, &rules(), None).expect("it runs");
    check(&found);
    let split = ranked(&found, "`Cell` split: float2 (y z) | x | the rest");
    assert_eq!(split.totals.requests, Some(128 * 3));
    ranked(&found, "`Cell` split: x y z | the rest");
}

/// The definition in the scenario file and the one in the kernel's have to agree.
#[test]
fn a_struct_that_is_defined_twice_changes_in_both_places() {
    let plan = of_text(
        r#"
[params]
n = 4096
[launch]
grid = ["n / 128"]
block = [128]
[struct.Cell]
fields = ["float x", "float y", "float z", "float w", "int a", "int b"]
[buffers]
cells = { type = "Cell", shape = ["n"] }
out = { type = "float", shape = ["n"] }
[kernel]
entry = "step"
code = '''
struct Cell { float x; float y; float z; float w; int a; int b; };
__global__ void step(const Cell *cells, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const Cell &c = cells[i];
    out[i] = c.x + c.y;
}
'''
"#,
    );
    let found = suggest(&plan, &rules(), None).expect("it runs");
    check(&found);
    for layout in ["`Cell` as AoSoA of 32", "`Cell` as AoS, __align__(16)"] {
        let ranked = found.ranked.iter().any(|c| c.layout.to_string() == layout);
        assert!(ranked, "{layout}: {:?}", found.refused);
    }
}

#[test]
fn an_index_that_reads_memory_is_not_written_twice() {
    let found = suggest(
        &of_text(
            r#"
[params]
n = 1024
[launch]
grid = ["n / 128"]
block = [128]
[struct.P]
fields = ["float x", "float y", "float z"]
[buffers]
p = { type = "P", shape = ["n"] }
order = { type = "int", shape = ["n"], init = "hash(i) % n" }
[kernel]
code = '''
int i = blockIdx.x * blockDim.x + threadIdx.x;
load(p[order[i]].x);
'''
"#,
        ),
        &rules(),
        None,
    )
    .expect("it runs");
    check(&found);
    assert!(
        found.refused.iter().any(|(_, reason)| reason.contains("`order[i]`")),
        "{:?}",
        found.refused
    );
    // A structure of arrays needs the index once only.
    assert!(found.ranked.iter().any(|candidate| candidate.layout.to_string() == "`P` as SoA"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Whatever the fields and however many of them a kernel uses: every layout
    /// that is ranked runs, touches the same, and costs what it promises.
    #[test]
    fn every_ranked_layout_keeps_its_promise(
        types in prop::collection::vec(
            prop_oneof![Just("char"), Just("short"), Just("float"), Just("double"), Just("float2")],
            2..5,
        ),
        used in 1..16_u32,
        stride in 1..3_u32,
        writes in any::<bool>(),
    ) {
        let fields: Vec<String> =
            types.iter().enumerate().map(|(at, ty)| format!("\"{ty} f{at}\"")).collect();
        let mut code = String::new();
        for at in 0..types.len() {
            if used >> at & 1 == 1 || at == 0 {
                let call = if writes && at == 0 { "store" } else { "load" };
                code.push_str(&format!("    {call}(p[i * {stride}].f{at});\n"));
            }
        }
        let text = format!(
            "[params]\nn = 1000\n[launch]\ngrid = [\"(n + 127) / 128\"]\nblock = [128]\n\
             [struct.S]\nfields = [{}]\n[buffers]\np = {{ type = \"S\", shape = [\"n * {stride}\"] }}\n\
             [kernel]\ncode = '''\nint i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n) {{\n{code}}}\n'''\n",
            fields.join(", ")
        );
        let found = suggest(&of_text(&text), &rules(), None).expect("it runs");
        check(&found);
        for (layout, reason) in &found.refused {
            prop_assert!(!reason.contains("would change"), "{layout}: {reason}\n{text}");
        }
    }
}
