//! A load balancer's keys in files: the scheme's name and the parameters of all schemes, from the table of
//! [`edge::balance`]. Which key names the scheme is the file's own choice.

use crate::word::unknown;
use config::{Invalid, Wrong};
use edge::balance::{Balance, Parameter, Quantity, Scheme, Shown, SCHEMES};
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::value::{Error as ProbeError, MapAccessDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use std::fmt;
use std::marker::PhantomData;
use units::{Bytes, Time};

/// What a file says of the balancer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalanceKeys {
    /// With the word by which the file names it.
    scheme: Option<(String, &'static Scheme)>,
    /// With the key as the file has it.
    values: Vec<(String, &'static Parameter, Quantity)>,
}

impl BalanceKeys {
    /// Of a scheme, without parameters.
    pub fn of(scheme: &'static Scheme) -> BalanceKeys {
        BalanceKeys { scheme: Some((scheme.name.to_owned(), scheme)), values: Vec::new() }
    }

    /// The scheme that the file names, or else `usual`, with the word for it.
    pub fn scheme(&self, usual: &'static Scheme) -> (&str, &'static Scheme) {
        self.scheme.as_ref().map_or((usual.name, usual), |(word, scheme)| (word, scheme))
    }

    /// Keys of parameters that the scheme does not have.
    pub fn foreign(&self, scheme: &'static Scheme) -> impl Iterator<Item = &str> {
        let own = move |parameter: &Parameter| scheme.parameters.contains(parameter);
        self.values.iter().filter(move |(_, parameter, _)| !own(parameter)).map(|(key, ..)| key.as_str())
    }

    /// The balancer, once all values are found to be in range, also those of other schemes. `at`: the table's own key.
    ///
    /// # Errors
    /// All values that are not, parameters that are given under two names, and values that contradict one another.
    pub fn check(&self, at: &str, usual: &'static Scheme) -> Result<Balance, Wrong> {
        let mut wrong = Wrong::new();
        for (n, (key, parameter, value)) in self.values.iter().enumerate() {
            let path = format!("{at}.{key}");
            if let Some((other, ..)) = self.values[..n].iter().find(|(_, earlier, _)| earlier == parameter) {
                wrong.add(Invalid::value(path, format!("means the same as `{other}`"), "remove one of them"));
            } else if !parameter.allows(*value) {
                let remedy = format!("give \"{}\" to \"{}\"", parameter.least.shown(), parameter.most.shown());
                wrong.add(Invalid::value(path, format!("{} is out of range", value.shown()), remedy));
            }
        }
        let (_, scheme) = self.scheme(usual);
        let balance = Balance::new(scheme, |parameter| self.value(parameter));
        // Beside a value that is out of range it means nothing.
        let contradiction = balance.contradiction().filter(|_| wrong.is_empty());
        if let Some((parameter, problem, remedy)) = contradiction {
            wrong.add(Invalid::new(format!("{at}.{}", parameter.name), problem, remedy));
        }
        wrong.or(balance)
    }

    fn value(&self, parameter: &'static Parameter) -> Option<Quantity> {
        self.values.iter().find(|(_, given, _)| *given == parameter).map(|(.., value)| *value)
    }

    /// Every key that is [`Shown`] with its value or default, `word` being the one that names the scheme: as a file would have them.
    pub fn entries(&self, word: &str, usual: &'static Scheme) -> Vec<(String, String)> {
        let (_, scheme) = self.scheme(usual);
        let value = |p: &'static Parameter| self.value(p).unwrap_or(p.default).to_string();
        let shown = move |p: &&'static Parameter| match p.shown {
            Shown::Always => true,
            Shown::WithScheme => scheme.parameters.contains(p) || self.value(p).is_some(),
            Shown::WhenSet => self.value(p).is_some_and(|value| value != p.default),
        };
        let parameters = Parameter::all().filter(shown).map(|p| (p.name.to_owned(), value(p)));
        std::iter::once((word.to_owned(), scheme.name.to_owned())).chain(parameters).collect()
    }
}

/// The schema of a table that [`read_beside`] reads. `usual`: the scheme of a file that names none.
pub fn schema_beside<T: JsonSchema>(generator: &mut SchemaGenerator, word: &str, usual: &'static Scheme) -> Schema {
    let names: Vec<&str> = SCHEMES.into_iter().flat_map(Scheme::names).collect();
    let about: Vec<String> = SCHEMES.iter().map(|scheme| format!("`{}`: {}.", scheme.name, scheme.about)).collect();
    let mut own = serde_json::Map::new();
    let scheme =
        json_schema!({ "type": "string", "enum": names, "default": usual.name, "description": about.join("\n\n") });
    own.insert(word.to_owned(), scheme.to_value());
    for parameter in Parameter::all() {
        let mut quantity = match parameter.default {
            Quantity::Bytes(_) => generator.subschema_for::<Bytes>(),
            Quantity::Time(_) => generator.subschema_for::<Time>(),
            Quantity::Word(word) => json_schema!({ "type": "string", "enum": word.of }),
        };
        if !matches!(parameter.default, Quantity::Word(_)) {
            let (range, bounds) = config::schema::range(parameter.least, parameter.most);
            quantity.insert(range, bounds);
        }
        quantity.insert("default".to_owned(), parameter.default.to_string().into());
        quantity.insert("description".to_owned(), parameter.about.into());
        own.extend(parameter.names().map(|name| (name.to_owned(), quantity.clone().to_value())));
    }
    let mut table = T::json_schema(generator);
    if let Some(serde_json::Value::Object(properties)) = table.get_mut("properties") {
        properties.extend(own);
    }
    table
}

/// Reads a table strictly that has a balancer's keys beside those of `T`; `word` is the one that names the scheme.
///
/// # Errors
/// The first key or value that is wrong.
pub fn read_beside<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
    word: &'static str,
) -> Result<(BalanceKeys, T), D::Error> {
    from.deserialize_map(Beside { word, rest: PhantomData })
}

struct Beside<T> {
    word: &'static str,
    rest: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Beside<T> {
    type Value = (BalanceKeys, T);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let mut keys = BalanceKeys::default();
        let others = Others { map, word: self.word, known: known::<T>(), keys: &mut keys };
        let rest = T::deserialize(MapAccessDeserializer::new(others))?;
        Ok((keys, rest))
    }
}

/// The rest of a table, from which the balancer's keys are taken on the way.
struct Others<'k, A> {
    map: A,
    word: &'static str,
    known: &'static [&'static str],
    keys: &'k mut BalanceKeys,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Others<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            if key == self.word {
                let Word(word, scheme) = self.map.next_value()?;
                self.keys.scheme = Some((word, scheme));
            } else if let Some(parameter) = Parameter::find(&key) {
                let value = match parameter.default {
                    Quantity::Bytes(_) => Quantity::Bytes(self.map.next_value()?),
                    Quantity::Time(_) => Quantity::Time(self.map.next_value()?),
                    Quantity::Word(word) => {
                        let text: String = self.map.next_value()?;
                        let found = word.called(&text).map(Quantity::Word);
                        found.ok_or_else(|| A::Error::custom(unknown("variant", &text, word.of.iter().copied())))?
                    }
                };
                self.keys.values.push((key, parameter, value));
            } else if self.known.contains(&key.as_str()) {
                return seed.deserialize(key.into_deserializer()).map(Some);
            } else {
                let own = std::iter::once(self.word).chain(Parameter::all().map(|parameter| parameter.name));
                let known = own.chain(self.known.iter().copied());
                return Err(A::Error::custom(unknown("field", &key, known)));
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// A scheme's name or alias.
struct Word(String, &'static Scheme);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Word;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a scheme such as \"flowcell\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
                let known = SCHEMES.into_iter().flat_map(Scheme::names);
                let scheme = Scheme::find(text).ok_or_else(|| E::custom(unknown("variant", text, known)))?;
                Ok(Word(text.to_owned(), scheme))
            }
        }
        from.deserialize_str(Text)
    }
}

/// The keys that a derived table knows.
fn known<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    struct Probe<'a>(&'a mut &'static [&'static str]);
    impl<'de> Deserializer<'de> for Probe<'_> {
        type Error = ProbeError;
        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ProbeError> {
            Err(ProbeError::custom("not a table"))
        }
        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, ProbeError> {
            *self.0 = fields;
            Err(ProbeError::custom("asked for its keys only"))
        }
        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }
    let mut keys: &'static [&'static str] = &[];
    // Always the error above: nothing is read.
    let _ = T::deserialize(Probe(&mut keys));
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge::balance::{ECMP, FLOWCELL};

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rest {
        other: u8,
    }

    struct Table(BalanceKeys, Rest);

    impl<'de> Deserialize<'de> for Table {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Table, D::Error> {
            read_beside(from, "policy").map(|(keys, rest)| Table(keys, rest))
        }
    }

    fn read(text: &str) -> Result<Table, String> {
        toml::from_str(text).map_err(|e| e.message().to_owned())
    }

    #[test]
    fn a_table_is_read_in_any_order_and_shown_whole() {
        let Table(keys, rest) = read("flowlet_gap = \"1ms\"\nother = 7\npolicy = \"hash\"").unwrap();
        assert_eq!((rest, keys.scheme(&FLOWCELL)), (Rest { other: 7 }, ("hash", &ECMP)));
        assert_eq!(keys.foreign(&ECMP).collect::<Vec<_>>(), ["flowlet_gap"]);
        let entries = [("policy", "ecmp"), ("threshold", "64KiB"), ("flowlet_gap", "1ms")];
        assert_eq!(keys.entries("policy", &FLOWCELL), entries.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let Table(keys, _) = read("policy = \"flowlet\"\nflowlet_gap = \"1ms\"\nother = 7").unwrap();
        assert_eq!(keys.check("at", &ECMP), Ok(Balance::flowlet(Time::from_ms(1))));
        let Table(keys, _) = read("policy = \"flowlet\"\nflowlet_choice = \"hash\"\nother = 7").unwrap();
        let shown = keys.entries("policy", &FLOWCELL).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(shown, ["policy", "threshold", "flowlet_gap", "flowlet_choice"]);
        assert_eq!(keys.check("at", &ECMP), Ok("flowlet,flowlet_choice=hash".parse().unwrap()));
        let Table(keys, _) = read("policy = \"waze\"\nother = 7").unwrap();
        let shown = keys.entries("policy", &FLOWCELL);
        assert_eq!(shown[0], ("policy".to_owned(), "clove".to_owned()));
        assert!(shown.contains(&("clove_masks".to_owned(), "guests".to_owned())), "{shown:?}");
        let Table(keys, _) = read("flowcell = \"4KiB\"\nother = 7").unwrap();
        assert_eq!(keys.check("at", &FLOWCELL), Ok(Balance::flowcell(Bytes::kib(4))));
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_known() {
        for (text, says) in [
            (
                "pollicy = \"hash\"",
                "unknown field `pollicy`, expected one of `policy`, `threshold`, `flowlet_gap`, `flowlet_choice`, `flowlet_gap_most`",
            ),
            ("policy = \"flow\"", "unknown variant `flow`, expected one of `ecmp`, `hash`, "),
            ("flowlet_choice = \"rr\"", "unknown variant `rr`, expected one of `round-robin`, `hash`, `random`"),
            ("policy = 1", "invalid type: integer `1`, expected a scheme such as"),
            ("threshold = 64", "such as \"64KiB\""),
            ("policy = \"hash\"", "missing field `other`"),
        ] {
            let error = read(text).map(|_| ()).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        for (text, key, says) in [
            ("threshold = \"0B\"\nother = 1", "at.threshold", "give \"1B\" to \"1GiB\""),
            ("flowlet_gap = \"5s\"\nother = 1", "at.flowlet_gap", "give \"2us\" to \"4s\""),
            ("threshold = \"1B\"\nflowcell = \"1B\"\nother = 1", "at.flowcell", "remove one of them"),
        ] {
            let wrong = read(text).unwrap().0.check("at", &ECMP).unwrap_err();
            let [error] = wrong.faults() else { panic!("{wrong:?}") };
            assert_eq!((error.key.as_str(), error.remedy.as_str()), (key, says));
        }
        let all = "threshold = \"0B\"\nflowlet_gap = \"5s\"\nclove_age = \"1ns\"\nother = 1";
        let wrong = read(all).unwrap().0.check("at", &ECMP).unwrap_err();
        let keys: Vec<&str> = wrong.faults().iter().map(|invalid| invalid.key.as_str()).collect();
        assert_eq!(keys, ["at.threshold", "at.flowlet_gap", "at.clove_age"]);
    }
}
