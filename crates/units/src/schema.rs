//! JSON Schema of quantities: strings with a number and one of the units.

use crate::parse::Unit;
use crate::{rate, size, time, BitRate, Bytes, Time};
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use std::borrow::Cow;

macro_rules! as_pattern {
    ($($type:ident, $units:expr, $example:literal;)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                quantity($units, $example)
            }
        }
    )*};
}

as_pattern! {
    Time, time::UNITS, "3us";
    Bytes, size::UNITS, "64KiB";
    BitRate, rate::UNITS, "10Gbps";
}

/// As [`crate::parse::quantity`] reads it. The pattern cannot know values that are too large or finer than the smallest
/// unit.
fn quantity(units: &[Unit], example: &str) -> Schema {
    let names: Vec<&str> = units.iter().map(|unit| unit.0).collect();
    let pattern = format!(r"^\s*[0-9]+(\.[0-9]{{1,18}})?\s*({})\s*$", names.join("|"));
    json_schema!({ "type": "string", "pattern": pattern, "examples": [example] })
}
