//! One axis as it stands in a file.

use config::{ConfigError, Document, Invalid, Wrong};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// The table as it stands in a file: `values` for `keys`, or points that each `set` their own.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SweepTable {
    pub(crate) name: String,
    #[serde(default)]
    pub(super) keys: Vec<String>,
    #[schemars(with = "Vec<serde_json::Value>")]
    #[serde(default)]
    pub(super) values: Vec<Value>,
    #[serde(default)]
    pub(super) point: Vec<PointTable>,
    /// Its own place in the file.
    #[serde(skip)]
    pub(super) at: String,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PointTable {
    pub(super) label: String,
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub(super) set: Table,
}

impl SweepTable {
    /// # Errors
    /// Neither values with keys nor points, and points of one name.
    pub(crate) fn check(&self) -> Result<(), Wrong> {
        let mut wrong = Wrong::new();
        if self.point.is_empty() == self.values.is_empty() || self.values.is_empty() != self.keys.is_empty() {
            let problem = "needs either values and keys, or points";
            let remedy = "write values = [2, 4] with keys = [\"topology.spines\"]";
            wrong.add(Invalid::new(self.at.clone(), problem, remedy));
        }
        if self.name.trim().is_empty() {
            wrong.add(Invalid::new(format!("{}.name", self.at), "is empty", "write a word: tables and charts say it"));
        }
        let mut known = BTreeSet::new();
        let mut twice = BTreeSet::new();
        for label in self.labels() {
            if !known.insert(label.clone()) && twice.insert(label.clone()) {
                let problem = format!("two points are called {label:?}");
                wrong.add(Invalid::new(self.at.clone(), problem, "make every point another"));
            }
        }
        wrong.or(())
    }

    /// A name a point: `name=value`, or its own.
    pub(crate) fn labels(&self) -> Vec<String> {
        if self.point.is_empty() {
            return self.values.iter().map(|value| format!("{}={}", self.name, plain(value))).collect();
        }
        self.point.iter().map(|point| point.label.clone()).collect()
    }

    /// The `n`-th value as the file has it, if points are values.
    pub(crate) fn value(&self, n: usize) -> Option<String> {
        self.values.get(n).map(plain)
    }

    /// The `n`-th value, if it is a number.
    pub(crate) fn number(&self, n: usize) -> Option<f64> {
        let value = self.values.get(n)?;
        value.as_integer().map(|i| i as f64).or(value.as_float())
    }

    /// Is it a key that the values replace?
    pub(super) fn changes(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }

    /// Makes the scenario that of the `n`-th point.
    ///
    /// # Errors
    /// A key that cannot be set.
    pub(crate) fn apply(&self, n: usize, document: &mut Document) -> Result<(), ConfigError> {
        if let Some(point) = self.point.get(n) {
            document.overlay(&point.set, &format!("{}.point.{n}.set", self.at))?;
        }
        if let Some(value) = self.values.get(n) {
            let source = format!("{}.values.{n}", self.at);
            for (k, key) in self.keys.iter().enumerate() {
                document.set_value(key, value.clone(), &source, &format!("{}.keys.{k}", self.at))?;
            }
        }
        Ok(())
    }
}

pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
