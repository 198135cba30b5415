//! Quantities in configuration files: strings with units, never numbers.

use crate::{BitRate, Bytes, Time};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

struct Text<T>(PhantomData<T>, &'static str);

impl<T: FromStr<Err = crate::ParseError>> Visitor<'_> for Text<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a string with its unit, such as {}", self.1)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! as_text {
    ($($type:ty, $example:literal;)*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_str(Text(PhantomData, $example))
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    )*};
}

as_text! {
    Time, "\"3us\"";
    Bytes, "\"64KiB\"";
    BitRate, "\"10Gbps\"";
}
