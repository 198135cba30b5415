//! `seeds`: the seeds of a scenario's runs.

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Seeds of the runs: `"1..5"` (both ends included), `"1,4,9"` or one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

/// More would be a mistake: every seed is a run per scheme.
const MAX_SEEDS: u64 = 10_000;

impl FromStr for Seeds {
    type Err = String;
    fn from_str(text: &str) -> Result<Seeds, String> {
        let fail = || format!("{text:?} is not a list of seeds: write \"1..5\", \"1,4,9\" or \"7\"");
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| fail());
        let mut seeds = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                None => seeds.push(number(part)?),
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
                    if first > last || last - first >= MAX_SEEDS {
                        return Err(format!("{part:?} is empty or has more than {MAX_SEEDS} seeds: write \"1..5\""));
                    }
                    seeds.extend(first..=last);
                }
            }
        }
        let mut once = seeds.clone();
        once.sort_unstable();
        once.dedup();
        if once.len() != seeds.len() {
            return Err(format!("{text:?} has a seed twice: name each once"));
        }
        Ok(Seeds(seeds))
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let consecutive = self.0.windows(2).all(|w| w[1] == w[0].wrapping_add(1));
        match self.0.as_slice() {
            [first, .., last] if consecutive => write!(f, "{first}..{last}"),
            all => f.write_str(&all.iter().map(u64::to_string).collect::<Vec<_>>().join(",")),
        }
    }
}

impl Serialize for Seeds {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Seeds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Seeds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("seeds such as \"1..5\", \"1,4,9\" or 7")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Seeds, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: Error>(self, seed: i64) -> Result<Seeds, E> {
                let seed = u64::try_from(seed).map_err(|_| E::custom("a seed is not negative: write 1"))?;
                Ok(Seeds(vec![seed]))
            }
            fn visit_u64<E: Error>(self, seed: u64) -> Result<Seeds, E> {
                Ok(Seeds(vec![seed]))
            }
        }
        from.deserialize_any(Text)
    }
}

impl JsonSchema for Seeds {
    fn schema_name() -> Cow<'static, str> {
        "Seeds".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let part = r"\s*[0-9]+\s*(\.\.=?\s*[0-9]+\s*)?";
        let text = format!("^{part}(,{part})*$");
        json_schema!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": text }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_parse_and_print() {
        for (text, seeds) in
            [("1..5", vec![1, 2, 3, 4, 5]), ("7", vec![7]), ("3, 1", vec![3, 1]), ("1..=2", vec![1, 2])]
        {
            let parsed: Seeds = text.parse().unwrap();
            assert_eq!(parsed.0, seeds, "{text}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
        for bad in ["", "a", "5..1", "1..99999999", "1,1", "-1", "1..", "1.5"] {
            assert!(bad.parse::<Seeds>().is_err(), "{bad}");
        }
    }
}
