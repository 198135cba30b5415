//! `selvedge schema`: the schemas accept every file of the tree, refuse bad ones, and know the same keys, words and ranges
//! as the reader and the docs.

mod agreement;
mod files;
mod pages;

use jsonschema::Validator;
use selvedge::schema::File;
use toml::Table;

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

pub(crate) fn text_of(path: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(ROOT).join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

pub(crate) fn validator(file: File) -> Validator {
    jsonschema::validator_for(&file.schema()).unwrap()
}

/// What the schema finds wrong.
pub(crate) fn faults(validator: &Validator, table: &Table) -> Vec<String> {
    let instance = serde_json::to_value(table).unwrap();
    validator.iter_errors(&instance).map(|error| format!("{}: {error}", error.instance_path())).collect()
}
