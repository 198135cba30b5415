//! JSON Schema of configuration files, for completion and checks in editors.
//!
//! Types derive [`JsonSchema`] from the attributes by which [`serde`] reads them, so schema and reader know the same keys.
//! Descriptions are doc comments. A schema has no checks across keys; the reader has all.

use schemars::generate::SchemaSettings;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt::Display;

use crate::OrOff;

/// The least and the largest quantity of a key: `#[schemars(extend("x-range" = ["1ms", "60s"]))]`. JSON Schema knows no
/// ranges of strings, so [`of`] writes it into the description, too.
pub const RANGE: &str = "x-range";

/// The schema (draft 7, without references) of files that are read as `T`. `title` says what they are.
pub fn of<T: JsonSchema>(title: &str) -> Value {
    let mut settings = SchemaSettings::draft07();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    schema["title"] = title.into();
    schema
}

/// The range of a quantity, as an entry of its schema.
pub fn range(least: impl Display, most: impl Display) -> (String, Value) {
    (RANGE.to_owned(), Value::from(vec![least.to_string(), most.to_string()]))
}

/// The schema of files that [`crate::Document::parse_including`] reads: with the key `include` everything may be missing,
/// because the included file can have it. Items of lists are whole in either case.
pub fn including(mut schema: Value) -> Value {
    schema["properties"]["include"] = serde_json::json!({
        "type": "string",
        "description": "A file with keys that this one completes, relative to this one; what it gives wins.",
    });
    let needed = take_required(&mut schema);
    schema["anyOf"] = serde_json::json!([{ "required": ["include"] }, needed]);
    schema
}

/// Removes what tables must have, and returns it as a schema of its own.
fn take_required(schema: &mut Value) -> Value {
    let mut needed = Map::new();
    let Value::Object(object) = schema else { return Value::Object(needed) };
    needed.extend(object.remove("required").map(|keys| ("required".to_owned(), keys)));
    let mut inner = Map::new();
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        let tables = properties.iter_mut().map(|(key, table)| (key.clone(), take_required(table)));
        inner.extend(tables.filter(|(_, needed)| *needed != Value::Object(Map::new())));
    }
    if !inner.is_empty() {
        needed.insert("properties".to_owned(), Value::Object(inner));
    }
    if let Some(any @ Value::Object(_)) = object.get_mut("additionalProperties") {
        let any = take_required(any);
        if any != Value::Object(Map::new()) {
            needed.insert("additionalProperties".to_owned(), any);
        }
    }
    Value::Object(needed)
}

/// TOML has no null: an optional key is absent.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            without_null(object);
            with_range(object);
            object.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn without_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = object.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            object.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(words)) = object.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
}

fn with_range(object: &mut Map<String, Value>) {
    let Some([least, most]) = object.get(RANGE).and_then(Value::as_array).map(Vec::as_slice) else { return };
    let range = format!("Range: {} to {}.", least.as_str().unwrap_or_default(), most.as_str().unwrap_or_default());
    let description = object.get("description").and_then(Value::as_str).unwrap_or_default();
    let text = format!("{description}\n\n{range}");
    object.insert("description".to_owned(), text.trim().into());
}

impl<T: JsonSchema> JsonSchema for OrOff<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}OrOff", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        either(generator.subschema_for::<T>(), "off")
    }
}

/// A value, or a word in its place.
pub fn either(value: Schema, word: &str) -> Schema {
    json_schema!({ "anyOf": [{ "const": word }, value] })
}

/// Adds an alias to a schema of words.
pub fn add_word(schema: &mut Schema, word: &str) {
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(word.into());
    } else if let Some(Value::Array(words)) = schema.get_mut("oneOf") {
        words.push(json_schema!({ "type": "string", "const": word }).to_value());
    }
}
