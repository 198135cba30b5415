//! Strings with a form of their own, such as addresses.

use agent_api::config::{Mac, Prefix};
use config::Invalid;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A string that is something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parsed<T>(pub(crate) T);

/// A type that a string in a file may stand for.
pub(crate) trait Shape: FromStr {
    /// What to write where one was expected.
    const WANTED: &'static str;
}

impl Shape for IpAddr {
    const WANTED: &'static str = "an address such as \"10.0.0.1\"";
}
impl Shape for SocketAddr {
    const WANTED: &'static str = "an address and a port such as \"127.0.0.1:9464\"";
}
impl Shape for Prefix {
    const WANTED: &'static str = "a range of addresses such as \"10.1.2.0/24\"";
}
impl Shape for Mac {
    const WANTED: &'static str = "an Ethernet address such as \"02:00:00:00:00:02\"";
}

impl<'de, T: Shape<Err: fmt::Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Parsed<T>, D::Error> {
        struct Text<T>(PhantomData<T>);
        impl<T: Shape<Err: fmt::Display>> Visitor<'_> for Text<T> {
            type Value = Parsed<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::WANTED)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Parsed<T>, E> {
                text.parse().map(Parsed).map_err(|e: T::Err| {
                    let why = e.to_string();
                    // Our own types say what to write; the standard library's do not.
                    E::custom(if why.contains("write") {
                        why
                    } else {
                        let shown: String = text.chars().take(60).collect();
                        format!("{shown:?} is not {}", T::WANTED)
                    })
                })
            }
        }
        from.deserialize_str(Text(PhantomData))
    }
}

impl<T: Shape> JsonSchema for Parsed<T> {
    fn schema_name() -> Cow<'static, str> {
        "Parsed".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let example = T::WANTED.split('"').nth(1);
        json_schema!({ "type": "string", "examples": [example] })
    }
}

/// The address of a page of metrics, by its key.
///
/// # Errors
/// One that can be reached from outside, or without a port.
pub(crate) fn on_loopback(key: &str, at: Option<Parsed<SocketAddr>>) -> Result<Option<SocketAddr>, Invalid> {
    let Some(Parsed(at)) = at else { return Ok(None) };
    if !at.ip().is_loopback() {
        let problem = format!("{at} can be reached from outside");
        return Err(Invalid::value(key, problem, "give a loopback address such as \"127.0.0.1:9464\""));
    }
    if at.port() == 0 {
        return Err(Invalid::value(key, "port 0 is no port", "give one such as \"127.0.0.1:9464\""));
    }
    Ok(Some(at))
}
