//! The committed WebAssembly is that of the sources: it exports the same functions
//! with the same types, needs nothing from a host, and has the same rule sets.
//! That it counts the same is for a browser to show (`tests/browser/explorer.rs`).

use simulator::RuleSet;
use std::collections::BTreeMap;
use std::path::Path;
use wasmparser::{ExternalKind, Parser, Payload, ValType};

const SOURCE: &str = include_str!("../src/lib.rs");
const REMEDY: &str = "scripts/explorer.sh builds crates/explorer/explorer.wasm anew";

/// Exported functions by name, with the types of what they take and give.
fn of_the_sources() -> BTreeMap<String, (Vec<ValType>, Vec<ValType>)> {
    let value = |name: &str| match name {
        "i32" | "u32" => ValType::I32,
        "u64" => ValType::I64,
        "f64" => ValType::F64,
        other => panic!("{other} is not expected in an exported function"),
    };
    let mut functions = BTreeMap::new();
    for declared in SOURCE.split("pub extern \"C\" fn ").skip(1) {
        let (signature, _) = declared.split_once(" {").expect("a body");
        let (name, rest) = signature.split_once('(').expect("parameters");
        let (parameters, result) = rest.split_once(')').expect("their end");
        let takes = parameters
            .split(',')
            .filter_map(|parameter| Some(value(parameter.split_once(':')?.1.trim())))
            .collect();
        let gives = result.trim().strip_prefix("-> ").map(value).into_iter().collect();
        functions.insert(name.to_owned(), (takes, gives));
    }
    functions
}

/// The files are in the module as they are, so that it needs not be run to be
/// found old.
#[test]
fn the_committed_module_has_the_rule_sets_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../simulator/arch");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("the rule sets") {
        let path = entry.expect("a file").path();
        let text = std::fs::read(&path).expect("readable");
        assert!(
            contains(coalescope_explorer::WASM, &text),
            "explorer.wasm has not the present {}: {REMEDY}",
            path.display()
        );
        files += 1;
    }
    assert_eq!(files, RuleSet::shipped().count());
}

fn contains(all: &[u8], part: &[u8]) -> bool {
    all.windows(part.len()).any(|window| window == part)
}

#[test]
fn the_committed_module_exports_what_the_sources_do() {
    let mut types = Vec::new();
    let mut functions = Vec::new();
    let mut exported = BTreeMap::new();
    for payload in Parser::new(0).parse_all(coalescope_explorer::WASM) {
        match payload.expect("a sound module") {
            Payload::TypeSection(section) => {
                types.extend(section.into_iter_err_on_gc_types().map(|t| t.expect("a type")));
            }
            Payload::ImportSection(imports) => {
                assert_eq!(imports.count(), 0, "it needs nothing from a page");
            }
            Payload::FunctionSection(section) => {
                functions.extend(section.into_iter().map(|index| index.expect("a function")));
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export.expect("an export");
                    if export.kind == ExternalKind::Func {
                        let of_type = functions[export.index as usize] as usize;
                        let found = &types[of_type];
                        let signature = (found.params().to_vec(), found.results().to_vec());
                        exported.insert(export.name.to_owned(), signature);
                    }
                }
            }
            _ => {}
        }
    }
    let sources = of_the_sources();
    assert!(sources.len() > 20, "{sources:?}");
    assert_eq!(exported, sources, "{REMEDY}");
}
