//! Values that several configuration files have.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use units::ParseError;

/// A quantity that may be switched off: `"off"` or a value with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrOff<T>(pub Option<T>);

impl<T: fmt::Display> Serialize for OrOff<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(value) => to.collect_str(value),
            None => to.serialize_str("off"),
        }
    }
}

impl<'de, T: FromStr<Err = ParseError>> Deserialize<'de> for OrOff<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text<T>(PhantomData<T>);
        impl<T: FromStr<Err = ParseError>> Visitor<'_> for Text<T> {
            type Value = OrOff<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string with its unit, such as \"128KiB\", or \"off\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                if text == "off" {
                    return Ok(OrOff(None));
                }
                text.parse().map(|v| OrOff(Some(v))).map_err(|e| E::custom(format!("{e}, or \"off\"")))
            }
        }
        from.deserialize_str(Text(PhantomData))
    }
}
