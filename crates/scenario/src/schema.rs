//! The JSON Schema of scenario files, for editors.

use crate::document::Document;
use serde_json::Value;

/// The JSON Schema of scenario files, made from the structs that read them.
///
/// Editors complete and check scenario files by it, for instance through
/// `#:schema scenario.schema.json` in the first line of the TOML file.
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(Document);
    schema.insert("title".into(), "Coalescope scenario".into());
    schema.insert(
        "$id".into(),
        "https://github.com/coalescope/coalescope/blob/main/scenarios/scenario.schema.json".into(),
    );
    let mut schema = schema.to_value();
    suit_toml(&mut schema);
    schema
}

/// TOML has no null: an optional key is left out. And descriptions are shown in
/// a small window, which breaks lines itself.
fn suit_toml(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(suit_toml),
        Value::Object(object) => {
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".into(), only);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
                if let [Value::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    object.extend(only);
                }
            }
            // A default is what a left-out key means: empty everywhere.
            object.remove("default");
            object.values_mut().for_each(suit_toml);
        }
        _ => {}
    }
}
