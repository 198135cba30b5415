//! The axes of a scenario: `[sweep]` is one, `[[sweep]]` are several, of which every combination is a point.

mod given;
mod table;

pub(crate) use table::SweepTable;

use config::{closest, ConfigError, Document, Faults, Invalid, Wrong};
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use toml::{Table, Value};

/// One axis or more.
#[derive(Clone, Debug)]
pub(crate) struct Axes(Vec<SweepTable>);

/// More would be a mistake.
const MOST_POINTS: usize = 100_000;

/// Where an axis stands at a point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AxisValue {
    Whole(i64),
    Number(f64),
    Text(String),
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AxisValue::Whole(whole) => whole.fmt(f),
            AxisValue::Number(number) => number.fmt(f),
            AxisValue::Text(text) => f.write_str(text),
        }
    }
}

impl AxisValue {
    pub(crate) fn json(&self) -> serde_json::Value {
        match self {
            AxisValue::Whole(whole) => (*whole).into(),
            AxisValue::Number(number) => (*number).into(),
            AxisValue::Text(text) => text.as_str().into(),
        }
    }
}

/// One combination of the axes' values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Point {
    /// `load=0.2`, or with several axes `load=0.2,spines=4`.
    pub(crate) label: String,
    /// In the order of the axes.
    pub(crate) values: Vec<AxisValue>,
    /// Which value of each axis.
    at: Vec<usize>,
}

impl Axes {
    /// What stands under `sweep` in a scenario of which only this is left to read.
    ///
    /// # Errors
    /// What is wrong with it, as [`Axes::check`].
    pub(crate) fn read(document: &Document, value: Value) -> Result<Axes, ConfigError> {
        #[derive(serde::Deserialize)]
        struct Holder {
            sweep: Axes,
        }
        let Holder { sweep } = document.read_table(&Table::from_iter([("sweep".to_owned(), value)]), "")?;
        let mut faults = Faults::of(document);
        faults.note(sweep.check());
        faults.unless(Some(sweep))
    }

    /// # Errors
    /// Axes that make no sense by themselves, two of one name or with one key, and more points than anybody can mean.
    pub(crate) fn check(&self) -> Result<(), Wrong> {
        let mut wrong = Wrong::new();
        for (n, axis) in self.0.iter().enumerate() {
            wrong.note(axis.check());
            let mut fail = |problem: String, remedy: &str| {
                wrong.add(Invalid::new(format!("{}.name", axis.at), problem, remedy));
            };
            if self.0[..n].iter().any(|other| other.name == axis.name) {
                fail(format!("two axes are called {:?}", axis.name), "give each a name of its own");
            }
            for key in axis.keys.iter().filter(|key| self.0[..n].iter().any(|other| other.changes(key))) {
                fail(format!("{key} is a key of another axis, too"), "name each key in one axis");
            }
        }
        let points = self.count();
        if points > MOST_POINTS {
            let problem = format!("makes {points} points, and {MOST_POINTS} are allowed");
            wrong.add(Invalid::new("sweep", problem, "give the axes fewer values"));
        }
        wrong.or(())
    }

    fn count(&self) -> usize {
        self.0.iter().map(|axis| axis.labels().len()).fold(1, usize::saturating_mul)
    }

    /// The axis, for what knows one only.
    ///
    /// # Errors
    /// There are several.
    pub(crate) fn single(self) -> Result<SweepTable, Invalid> {
        let several = self.0.len();
        let mut axes = self.0.into_iter();
        match (axes.next(), several) {
            (Some(axis), 1) => Ok(axis),
            _ => {
                let problem = format!("has {several} axes, and this command draws metrics over one");
                let remedy = "run it with `selvedge sweep`, or leave one axis";
                Err(Invalid::new("sweep", problem, remedy))
            }
        }
    }

    /// Is it one that [`Axes::single`] takes?
    pub(crate) fn is_single(&self) -> bool {
        self.0.len() == 1
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|axis| axis.name.as_str())
    }

    /// As [`SweepTable::check_set`], for the points with these labels, or for all.
    ///
    /// # Errors
    /// The same; a label that no point has.
    pub(crate) fn check_set(&self, sets: &[String], at: &[String], document: &Document) -> Result<(), ConfigError> {
        if sets.is_empty() {
            return Ok(());
        }
        let mut chosen = vec![BTreeSet::new(); self.0.len()];
        for point in self.points(at)? {
            chosen.iter_mut().zip(&point.at).for_each(|(of_axis, &n)| of_axis.extend([n]));
        }
        self.0.iter().zip(chosen).try_for_each(|(axis, points)| axis.check_set(sets, points, document))
    }

    /// All points, the last axis changing fastest; or those with these labels.
    ///
    /// # Errors
    /// A label that no point has.
    pub(crate) fn points(&self, wanted: &[String]) -> Result<Vec<Point>, ConfigError> {
        let labels: Vec<Vec<String>> = self.0.iter().map(SweepTable::labels).collect();
        let mut points = Vec::new();
        for n in 0..self.count() {
            let mut rest = n;
            let mut at = vec![0; labels.len()];
            for (place, of) in at.iter_mut().zip(&labels).rev() {
                (*place, rest) = (rest % of.len(), rest / of.len());
            }
            let label = labels.iter().zip(&at).map(|(of, &n)| of[n].as_str()).collect::<Vec<_>>().join(",");
            let values = self.0.iter().zip(&at).map(|(axis, &n)| axis.stands(n)).collect();
            points.push(Point { label, values, at });
        }
        if let Some(unknown) = wanted.iter().find(|wanted| !points.iter().any(|point| point.label == **wanted)) {
            let all = || points.iter().map(|point| point.label.as_str());
            let near = closest(unknown, all()).map(|near| format!("did you mean {near:?}? ")).unwrap_or_default();
            let shown = all().take(20).collect::<Vec<_>>().join(", ");
            let more = if points.len() > 20 { ", ..." } else { "" };
            let problem = format!("the sweep has no point {unknown:?}");
            return Err(ConfigError::new("--at", problem, format!("{near}there are {shown}{more}")));
        }
        points.retain(|point| wanted.is_empty() || wanted.contains(&point.label));
        Ok(points)
    }

    /// Makes the scenario that of the point.
    ///
    /// # Errors
    /// A key that cannot be set.
    pub(crate) fn apply(&self, point: &Point, document: &mut Document) -> Result<(), ConfigError> {
        self.0.iter().zip(&point.at).try_for_each(|(axis, &n)| axis.apply(n, document))
    }
}

impl SweepTable {
    fn stands(&self, n: usize) -> AxisValue {
        match self.values.get(n) {
            Some(Value::Integer(whole)) => AxisValue::Whole(*whole),
            Some(Value::Float(number)) => AxisValue::Number(*number),
            Some(other) => AxisValue::Text(table::plain(other)),
            None => AxisValue::Text(self.point.get(n).map(|point| point.label.clone()).unwrap_or_default()),
        }
    }
}

impl<'de> Deserialize<'de> for Axes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Axes, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Axes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table [sweep], or several [[sweep]]")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Axes, A::Error> {
                let mut axis = SweepTable::deserialize(MapAccessDeserializer::new(map))?;
                "sweep".clone_into(&mut axis.at);
                Ok(Axes(vec![axis]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Axes, A::Error> {
                let mut axes = Vec::<SweepTable>::deserialize(SeqAccessDeserializer::new(list))?;
                axes.iter_mut().enumerate().for_each(|(n, axis)| axis.at = format!("sweep.{n}"));
                Ok(Axes(axes))
            }
        }
        from.deserialize_any(OneOrMore)
    }
}

impl JsonSchema for Axes {
    fn schema_name() -> Cow<'static, str> {
        "Axes".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let axis = generator.subschema_for::<SweepTable>();
        json_schema!({ "anyOf": [axis.clone(), { "type": "array", "items": axis, "minItems": 1 }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(text: &str) -> Result<Axes, String> {
        let mut document = Document::parse("s.toml", text, "docs/scenarios.md").unwrap();
        let value = document.take("sweep").unwrap();
        Axes::read(&document, value).map_err(|e| e.to_string())
    }

    #[test]
    fn points_are_all_combinations_in_order() {
        let text = "[[sweep]]\nname = \"load\"\nvalues = [0.2, 0.4]\nkeys = [\"workload.a.load\"]\n\
                    [[sweep]]\nname = \"spines\"\nvalues = [2, 4]\nkeys = [\"topology.spines\"]\n";
        let axes = axes(text).unwrap();
        let points = axes.points(&[]).unwrap();
        let labels: Vec<&str> = points.iter().map(|point| point.label.as_str()).collect();
        assert_eq!(labels, ["load=0.2,spines=2", "load=0.2,spines=4", "load=0.4,spines=2", "load=0.4,spines=4"]);
        assert_eq!(points[1].values, [AxisValue::Number(0.2), AxisValue::Whole(4)]);
        assert_eq!(axes.points(&[labels[2].to_owned()]).unwrap(), [points[2].clone()]);
        let error = axes.points(&["load=0.2,spines=3".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("--at: the sweep has no point") && error.contains("did you mean"), "{error}");
        let mut document = Document::parse("s.toml", "[topology]\nspines = 9\n[[workload]]\nname = \"a\"", "").unwrap();
        axes.apply(&points[3], &mut document).unwrap();
        assert_eq!(document.table()["topology"]["spines"].as_integer(), Some(4));
        assert_eq!(document.table()["workload"][0]["load"].as_float(), Some(0.4));
    }

    #[test]
    fn mistakes_are_named_with_their_axis() {
        let axis = |name: &str, key: &str| format!("[[sweep]]\nname = \"{name}\"\nvalues = [1]\nkeys = [\"{key}\"]\n");
        let good = axis("a", "x");
        for (text, place, words) in [
            (format!("{good}{}", axis("a", "y")), "s.toml:6: sweep.1.name", "two axes are called \"a\""),
            (format!("{good}{}", axis("b", "x")), "s.toml:6: sweep.1.name", "x is a key of another axis"),
            (format!("{good}[[sweep]]\nname = \"b\"\n"), "s.toml:5: sweep.1", "needs either values and keys"),
            (format!("{good}[[sweep]]\nname = \"b\"\nvalus = [1]\n"), "s.toml:7: sweep.1.valus", "unknown key"),
            ("sweep = 4".to_owned(), "s.toml:1: sweep", "a table [sweep], or several [[sweep]]"),
        ] {
            let said = axes(&text).unwrap_err();
            assert!(said.starts_with(place) && said.contains(words), "{said}");
        }
        let wide = |name: &str| {
            format!(
                "[[sweep]]\nname = \"{name}\"\nvalues = [{}]\nkeys = [\"{name}\"]\n",
                (0..400).map(|n| n.to_string()).collect::<Vec<_>>().join(",")
            )
        };
        assert!(axes(&format!("{}{}", wide("a"), wide("b"))).unwrap_err().contains("160000 points"));
    }
}
