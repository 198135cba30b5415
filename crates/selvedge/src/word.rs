//! A word of a file that stands for one choice of a table in [`edge::names`].

use config::{Invalid, Wrong};
use edge::names::{Amount, Named, Names, Preset, Setting};
use edge::vcc::{self, Class};
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

/// A setting's value must lie in its range.
///
/// # Errors
/// It does not.
pub(crate) fn in_range(key: String, setting: &Setting, value: impl Into<Amount>) -> Result<(), Invalid> {
    let value = value.into();
    if setting.allows(value) {
        return Ok(());
    }
    Err(Invalid::value(key, format!("{value} is out of range"), format!("give {}", setting.range())))
}

/// The class of a table of virtual congestion control at `at`: `limits` has what stands beside law and `beta`. Without a law the flows are left
/// alone.
///
/// # Errors
/// Values out of their ranges, and a floor above the clamp.
pub(crate) fn class(at: &str, law: Option<vcc::Law>, beta: f64, limits: Class) -> Result<Class, Wrong> {
    let mut wrong = Wrong::new();
    wrong.note(in_range(format!("{at}.beta"), &vcc::BETA, beta));
    for (setting, value) in [(&vcc::CLAMP, limits.clamp), (&vcc::FLOOR, limits.floor)] {
        if let Some(size) = value {
            wrong.note(in_range(format!("{at}.{}", setting.name), setting, size));
        }
    }
    if let Some((floor, clamp)) = limits.floor.zip(limits.clamp).filter(|(floor, clamp)| floor > clamp) {
        let problem = format!("the floor of {floor} exceeds the clamp of {clamp}");
        wrong.add(Invalid::new(at, problem, "lower `floor` or raise `clamp`"));
    }
    wrong.or(law.map_or(Class::OFF, |law| Class { law, beta: vcc::units_of(beta), ..limits }))
}

/// Gives the keys of a table that are settings of `T` their ranges and defaults. `key`: the name of a setting there.
pub(crate) fn with_settings<T: Names>(table: &mut Schema, key: fn(&Setting) -> Option<&'static str>) {
    let Some(serde_json::Value::Object(properties)) = table.get_mut("properties") else { return };
    let all = T::all_settings();
    for name in all.iter().filter_map(|setting| key(setting)) {
        let Some(serde_json::Value::Object(property)) = properties.get_mut(name) else { continue };
        let same: Vec<&Setting> = all.iter().copied().filter(|setting| key(setting) == Some(name)).collect();
        // Several laws may have settings of one key: it may be what one of them allows.
        let least = same.iter().map(|setting| setting.least).reduce(|a, b| if b < a { b } else { a });
        let most = same.iter().map(|setting| setting.most).reduce(|a, b| if b > a { b } else { a });
        match (least, most) {
            (Some(Amount::Bytes(least)), Some(Amount::Bytes(most))) => {
                let (range, bounds) = config::schema::range(least, most);
                property.insert(range, bounds);
            }
            (Some(Amount::Share(least)), Some(Amount::Share(most))) => {
                property.insert("minimum".to_owned(), least.into());
                property.insert("maximum".to_owned(), most.into());
            }
            _ => {}
        }
        if let [Setting { preset: Preset::Is(Amount::Share(share)), .. }] = same[..] {
            property.insert("default".to_owned(), (*share).into());
        }
    }
}

/// An unknown key or value, in serde's words.
pub(crate) fn unknown<'a>(what: &str, word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<String> = known.map(|known| format!("`{known}`")).collect();
    format!("unknown {what} `{word}`, expected one of {}", known.join(", "))
}
