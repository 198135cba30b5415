//! A published experiment: a scenario and its results with their checks.

use super::Expression;
use crate::input;
use crate::scenario::{Choice, Plan};
use crate::sweep::{Axes, SweepTable};
use config::{closest, ConfigError, Document, Invalid};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use toml::{Table, Value};

/// Keys of a scenario file that only the harness reads.
pub const KEYS: [&str; 3] = ["result", "sweep", "mode"];

/// The schema of these keys.
pub(crate) fn schema() -> serde_json::Value {
    config::schema::of::<Harness>("Experiment")
}

/// How much is simulated, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    Quick,
    Full,
    Paper,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Quick => "quick",
            Mode::Full => "full",
            Mode::Paper => "paper",
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Harness {
    #[serde(default)]
    result: Vec<ResultTable>,
    sweep: Option<Axes>,
    #[serde(default)]
    mode: Modes,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ResultTable {
    id: String,
    source: String,
    what: String,
    #[serde(default)]
    notes: String,
    /// Labels of the sweep's points that count; all if empty.
    #[serde(default)]
    at: Vec<String>,
    checks: Vec<CheckTable>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CheckTable {
    text: String,
    expr: String,
    value: Option<String>,
    #[serde(default)]
    unit: String,
    #[schemars(with = "Option<serde_json::Value>")]
    paper: Option<Value>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Modes {
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    quick: Table,
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    full: Table,
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    paper: Table,
}

/// An experiment, read and checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// `presto/fig15.toml`
    pub file: String,
    pub results: Vec<Published>,
    document: Document,
    sweep: Option<SweepTable>,
    modes: [Table; 3],
}

/// One published result.
#[derive(Clone, Debug)]
pub struct Published {
    pub id: String,
    pub source: String,
    pub what: String,
    pub notes: String,
    pub checks: Vec<Check>,
    at: Vec<String>,
}

/// One thing that must hold, at every point of the sweep that counts.
#[derive(Clone, Debug)]
pub struct Check {
    pub text: String,
    pub holds: Expression,
    /// The number that speaks for the check, in `unit`.
    pub value: Option<Expression>,
    pub unit: String,
    /// What the paper prints.
    pub paper: Option<Value>,
}

/// One point of a sweep, ready to run.
#[derive(Clone, Debug)]
pub struct Point {
    /// Empty without a sweep.
    pub label: String,
    /// The sweep's name and value, if that is a number.
    pub parameter: Option<(String, f64)>,
    pub plan: Plan,
}

impl Published {
    /// Must the checks hold at this point?
    pub fn counts(&self, label: &str) -> bool {
        self.at.is_empty() || self.at.iter().any(|at| at == label)
    }

    /// Is the point needed to judge this result?
    pub fn needs(&self, label: &str) -> bool {
        self.counts(label) || self.checks.iter().any(|check| check.points().any(|(_, named)| named == label))
    }
}

impl Check {
    /// Points that it names, each with the key where it does.
    fn points(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let value = self.value.iter().flat_map(Expression::points).map(|p| ("value", p));
        self.holds.points().map(|p| ("expr", p)).chain(value)
    }
}

impl Experiment {
    /// Of a text that may include files of the binary.
    ///
    /// # Errors
    /// As [`Experiment::read`], or text that is not TOML.
    pub fn parse(file: &str, text: &str) -> Result<Experiment, ConfigError> {
        let included = |path: &Path| super::embedded_at(path).map(str::to_owned).ok_or("there is none".to_owned());
        Experiment::read(Document::parse_including(file, text, input::SCENARIOS, &included)?)
    }

    /// # Errors
    /// The first thing that is wrong with the file, in any mode or point.
    pub fn read(mut document: Document) -> Result<Experiment, ConfigError> {
        let file = document.name().to_owned();
        let mut own = Table::new();
        for key in KEYS {
            if let Some(value) = document.take(key) {
                own.insert(key.to_owned(), value);
            }
        }
        let Harness { result, sweep, mode } = document.read_table(&own, "")?;
        let fail =
            |key: String, problem: String, remedy: &str| Err(document.error(&Invalid::new(key, problem, remedy)));
        let mut results = Vec::new();
        for (n, table) in result.iter().enumerate() {
            if result[..n].iter().any(|other| other.id == table.id) {
                return fail(format!("result.{n}.id"), format!("{} is there twice", table.id), "rename one");
            }
            results.push(published(&document, n, table)?);
        }
        let sweep = sweep.map(|axes| axes.check(&document).and_then(|()| axes.single(&document))).transpose()?;
        let modes = [mode.quick, mode.full, mode.paper];
        let experiment = Experiment { file, results, document, sweep, modes };
        let labels = experiment.labels();
        for (n, result) in experiment.results.iter().enumerate() {
            let at = result.at.iter().map(|p| (format!("result.{n}.at"), p.as_str()));
            let named =
                result.checks.iter().enumerate().flat_map(|(c, check)| {
                    check.points().map(move |(key, p)| (format!("result.{n}.checks.{c}.{key}"), p))
                });
            if let Some((key, unknown)) = at.chain(named).find(|(_, p)| !labels.iter().any(|l| l == p)) {
                let near = closest(unknown, labels.iter().map(String::as_str)).unwrap_or("one of the sweep's points");
                let invalid = Invalid::new(key, format!("there is no point {unknown:?}"), format!("name {near:?}"));
                return Err(experiment.document.error(&invalid));
            }
        }
        Ok(experiment)
    }

    /// Labels of the points; one empty label without a sweep.
    pub fn labels(&self) -> Vec<String> {
        self.sweep.as_ref().map_or_else(|| vec![String::new()], SweepTable::labels)
    }

    /// What the files say at each point for which `wanted` says yes.
    ///
    /// # Errors
    /// A key of a sweep or a mode that leads nowhere.
    pub(super) fn documents(&self, mode: Mode, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Written>, ConfigError> {
        let mut documents = Vec::new();
        for (n, label) in self.labels().into_iter().enumerate() {
            if !wanted(&label) {
                continue;
            }
            let mut document = self.document.clone();
            let mut parameter = None;
            if let Some(sweep) = &self.sweep {
                sweep.apply(n, &mut document)?;
                parameter = sweep.number(n).map(|number| (sweep.name.clone(), number));
            }
            document.overlay(&self.modes[mode as usize], &format!("mode.{}", mode.name()))?;
            documents.push((label, parameter, document));
        }
        Ok(documents)
    }

    /// The scenario at each point for which `wanted` says yes.
    ///
    /// # Errors
    /// A scenario that makes no sense there.
    pub fn points(&self, mode: Mode, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Point>, ConfigError> {
        let mut points = Vec::new();
        for (label, parameter, document) in self.documents(mode, wanted)? {
            let plan = Plan::new(&document, &Choice::default())?;
            plan.modelled()?;
            points.push(Point { label, parameter, plan });
        }
        Ok(points)
    }
}

/// A point's label, the sweep's name and value if that is a number, and the document with both and the mode applied.
type Written = (String, Option<(String, f64)>, Document);

fn published(document: &Document, n: usize, table: &ResultTable) -> Result<Published, ConfigError> {
    let mut checks = Vec::new();
    if table.checks.is_empty() {
        let invalid = Invalid::new(format!("result.{n}.checks"), "is empty", "add a check with text and expr");
        return Err(document.error(&invalid));
    }
    for (c, check) in table.checks.iter().enumerate() {
        let parse = |key: &str, text: &str| {
            let parsed = Expression::parse(text).map_err(|e| e.to_string()).and_then(|e| {
                let trial = e.trial();
                match key {
                    _ if e.metrics().is_empty() => return Err("it names no metric, so it could never fail".to_owned()),
                    "expr" => e.holds(&trial).map(drop),
                    _ => e.value(&trial).map(drop),
                }
                .map_err(|e| e.to_string())?;
                Ok(e)
            });
            parsed.map_err(|problem| {
                let key = format!("result.{n}.checks.{c}.{key}");
                let remedy = "write a comparison of metrics, such as a.x.y >= 0.9 * b.x.y";
                document.error(&Invalid::new(key, problem, remedy))
            })
        };
        checks.push(Check {
            text: check.text.clone(),
            holds: parse("expr", &check.expr)?,
            value: check.value.as_deref().map(|text| parse("value", text)).transpose()?,
            unit: check.unit.clone(),
            paper: check.paper.clone(),
        });
    }
    let ResultTable { id, source, what, notes, at, .. } = table.clone();
    Ok(Published { id, source, what, notes, checks, at })
}
