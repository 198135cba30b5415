//! A word of a file that stands for one choice of a table in [`edge::names`].

use edge::names::{Named, Names};
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Written as the choice's name, read from its name or an alias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word<T>(pub T);

impl<T: Names> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.name())
    }
}

impl<'de, T: Names> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Word<T>, D::Error> {
        struct Text<T>(PhantomData<T>);
        impl<T: Names> Visitor<'_> for Text<T> {
            type Value = Word<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a word such as {:?}", T::table()[0].name)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Word<T>, E> {
                let known = T::table().iter().flat_map(Named::words);
                let choice = T::find(text).ok_or_else(|| E::custom(unknown("variant", text, known)))?;
                Ok(Word(choice.value))
            }
        }
        from.deserialize_str(Text(PhantomData))
    }
}

impl<T: Names> JsonSchema for Word<T> {
    fn schema_name() -> Cow<'static, str> {
        "Word".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = T::table().iter().flat_map(Named::words).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}

/// An unknown key or value, in serde's words.
pub(crate) fn unknown<'a>(what: &str, word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<String> = known.map(|known| format!("`{known}`")).collect();
    format!("unknown {what} `{word}`, expected one of {}", known.join(", "))
}
