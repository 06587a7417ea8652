//! Every log in `logs/` is valid SARIF 2.1.0: see `README.md`.

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use std::fs;
    use std::path::Path;

    fn parse(path: &Path) -> Value {
        let text = fs::read_to_string(path).expect("readable");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn here(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
    }

    fn errors(log: &Value) -> Vec<String> {
        let mut schema = parse(&here("sarif-schema-2.1.0.json"));
        // The pattern of both `language`s has a closing bracket too many, which a
        // strict reader of regular expressions refuses; our logs have neither.
        for holder in ["run", "toolComponent"] {
            let language = format!("/definitions/{holder}/properties/language");
            let language = schema.pointer_mut(&language).and_then(Value::as_object_mut);
            let pattern = language.expect("it is there").remove("pattern");
            assert_eq!(pattern, Some(Value::from("^[a-zA-Z]{2}|^[a-zA-Z]{2}-[a-zA-Z]{2}]?$")));
        }
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&schema)
            .expect("the schema is a schema");
        validator
            .iter_errors(log)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect()
    }

    #[test]
    fn every_kept_log_is_valid() {
        let mut logs = 0;
        for entry in fs::read_dir(here("logs")).expect("a folder") {
            let path = entry.expect("an entry").path();
            let errors = errors(&parse(&path));
            assert!(errors.is_empty(), "{}:\n{}", path.display(), errors.join("\n"));
            logs += 1;
        }
        assert!(logs >= 4, "there are {logs} logs");
    }

    /// The validator and the schema do find what is wrong.
    #[test]
    fn a_spoilt_log_is_not() {
        let log = parse(&here("logs/findings.sarif"));
        for (pointer, value) in [
            ("/version", Value::from("2.0.0")),
            ("/runs/0/results/0/level", Value::from("fatal")),
            ("/runs/0/results/0/message", serde_json::json!({})),
            ("/runs/0/results/0/locations/0/physicalLocation/region/startLine", Value::from(0)),
            ("/runs/0/tool/driver", serde_json::json!({ "name": "x", "unknown": 1 })),
        ] {
            let mut spoilt = log.clone();
            *spoilt.pointer_mut(pointer).expect("it is there") = value;
            assert!(!errors(&spoilt).is_empty(), "{pointer}");
        }
    }
}
