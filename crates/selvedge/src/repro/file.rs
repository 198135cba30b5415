//! A published experiment: a scenario and its results with their checks.

use super::Expression;
use crate::axes::{Axes, SweepTable};
use crate::input;
use crate::scenario::{Choice, Plan, Room};
use config::{both, closest, ConfigError, Document, Invalid, Wrong};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use toml::{Table, Value};
use units::Bytes;

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
    pub(crate) const ALL: [Mode; 3] = [Mode::Quick, Mode::Full, Mode::Paper];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Quick => "quick",
            Mode::Full => "full",
            Mode::Paper => "paper",
        }
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
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
pub(super) struct CheckTable {
    text: String,
    expr: String,
    value: Option<String>,
    #[serde(default)]
    unit: String,
    #[schemars(with = "Option<serde_json::Value>")]
    paper: Option<Value>,
    /// Reported with its verdict, and decides nothing: an absolute figure of the paper.
    #[serde(default)]
    absolute: bool,
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
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "CheckTable")]
pub struct Check {
    pub text: String,
    pub holds: Expression,
    /// The number that speaks for the check, in `unit`.
    pub value: Option<Expression>,
    pub unit: String,
    /// What the paper prints.
    pub paper: Option<Value>,
    /// Reported with its verdict, and decides nothing.
    pub absolute: bool,
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
    /// A claim, as a result that no scenario has.
    pub(super) fn claim(id: &str, what: &str, checks: &[Check]) -> Published {
        let (id, what) = (id.to_owned(), what.to_owned());
        Published { id, source: String::new(), what, notes: String::new(), checks: checks.to_vec(), at: Vec::new() }
    }

    /// Must the checks hold at this point?
    pub fn counts(&self, label: &str) -> bool {
        self.at.is_empty() || self.at.iter().any(|at| at == label)
    }

    /// Is the point needed to judge this result?
    pub fn needs(&self, label: &str) -> bool {
        self.counts(label) || self.checks.iter().any(|check| check.points().any(|(_, named)| named == label))
    }

    /// The checks that decide the result.
    pub(super) fn deciding(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.absolute)
    }
}

impl TryFrom<CheckTable> for Check {
    type Error = String;

    fn try_from(table: CheckTable) -> Result<Check, String> {
        let holds = parsed("expr", &table.expr)?;
        let value = table.value.as_deref().map(|text| parsed("value", text)).transpose()?;
        let CheckTable { text, unit, paper, absolute, .. } = table;
        Ok(Check { text, holds, value, unit, paper, absolute })
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
    /// Of a text that may include files of the binary. Of its modes and points only those are looked at that are asked for: a test
    /// does it for all.
    ///
    /// # Errors
    /// Text that is not TOML; all that is wrong with what only the harness reads.
    pub fn parse(file: &str, text: &str) -> Result<Experiment, ConfigError> {
        let included = |path: &Path| super::embedded_at(path).map(str::to_owned).ok_or("there is none".to_owned());
        let document = Document::parse_including(file, text, input::SCENARIOS, &included)?;
        let (experiment, error) = Experiment::of(document, true);
        error.map_or(Ok(experiment), Err)
    }

    /// # Errors
    /// All that is wrong with the file, in every mode and at every point.
    pub fn read(document: Document) -> Result<Experiment, ConfigError> {
        let (experiment, error) = Experiment::of(document, true);
        let modes = experiment.every_mode(|plan| plan.modelled());
        both(error.map_or(Ok(()), Err), modes).map(|_| experiment)
    }

    /// All that is wrong with results, modes and sweep of a scenario that is run by itself, without these.
    ///
    /// # Errors
    /// As [`Experiment::read`].
    pub(crate) fn check(document: Document) -> Result<(), ConfigError> {
        let (experiment, error) = Experiment::of(document, false);
        both(error.map_or(Ok(()), Err), experiment.every_mode(|_| Ok(()))).map(drop)
    }

    /// Plans each point in each mode.
    fn every_mode(&self, also: fn(&Plan) -> Result<(), ConfigError>) -> Result<(), ConfigError> {
        let mut all = Ok(());
        for (mode, n) in Mode::ALL.into_iter().flat_map(|mode| (0..self.labels().len()).map(move |n| (mode, n))) {
            // A run in this mode will say whether there is room for it.
            let room = Room { most: Some(Bytes(u64::MAX)), threads: 1 };
            let planned = self.document_at(mode, n).and_then(|(_, document)| {
                let plan = Plan::within(&document, &Choice::default(), room)?;
                also(&plan)
            });
            all = both(all, planned).map(drop);
            if all.as_ref().is_err_and(ConfigError::is_full) {
                break;
            }
        }
        all
    }

    /// What can be made of the document, and all that is wrong with what only the harness reads. `single`: several axes are wrong, too;
    /// otherwise they are left out.
    fn of(mut document: Document, single: bool) -> (Experiment, Option<ConfigError>) {
        let file = document.name().to_owned();
        let mut own = Table::new();
        for key in KEYS {
            if let Some(value) = document.take(key) {
                own.insert(key.to_owned(), value);
            }
        }
        let mut harness = document.clone();
        harness.replace(own);
        let (read, mut faults) = harness.read_what_can_be::<Harness>();
        let Harness { result, sweep, mode } = read.unwrap_or_default();
        let mut results = Vec::new();
        for (n, table) in result.iter().enumerate() {
            if result[..n].iter().any(|other| other.id == table.id) {
                let problem = format!("{} is there twice", table.id);
                faults.tell(Invalid::value(format!("result.{n}.id"), problem, "rename one"));
            }
            results.extend(faults.note(published(n, table)).map(|result| (n, result)));
        }
        let checked = |axes: Axes| -> Result<Option<SweepTable>, Wrong> {
            axes.check()?;
            match single || axes.is_single() {
                true => Ok(Some(axes.single()?)),
                false => Ok(None),
            }
        };
        let several = !single && sweep.as_ref().is_some_and(|axes| !axes.is_single());
        let sweep = faults.note(sweep.map_or(Ok(None), checked));
        let modes = [mode.quick, mode.full, mode.paper];
        let known = sweep.is_some() && !several;
        let mut experiment = Experiment { file, results: Vec::new(), document, sweep: sweep.flatten(), modes };
        if known {
            faults.note_given(&["sweep"], named_points(&results, &experiment.labels()));
        }
        experiment.results = results.into_iter().map(|(_, result)| result).collect();
        let error = faults.unless(Some(())).err();
        (experiment, error)
    }

    /// Labels of the points; one empty label without a sweep.
    pub fn labels(&self) -> Vec<String> {
        self.sweep.as_ref().map_or_else(|| vec![String::new()], SweepTable::labels)
    }

    /// What the files say at each point for which `wanted` says yes.
    ///
    /// # Errors
    /// Keys of a sweep or a mode that lead nowhere.
    pub(super) fn documents(&self, mode: Mode, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Written>, ConfigError> {
        let mut documents = Ok(Vec::new());
        for (n, label) in self.labels().into_iter().enumerate() {
            if wanted(&label) {
                let at = self.document_at(mode, n).map(|(parameter, document)| (label, parameter, document));
                documents = both(documents, at).map(|(mut documents, at)| {
                    documents.push(at);
                    documents
                });
            }
        }
        documents
    }

    /// The sweep's name and value at its `n`-th point, if that is a number, and what the files say there.
    fn document_at(&self, mode: Mode, n: usize) -> Result<(Option<(String, f64)>, Document), ConfigError> {
        let mut document = self.document.clone();
        let mut parameter = None;
        if let Some(sweep) = &self.sweep {
            sweep.apply(n, &mut document)?;
            parameter = sweep.number(n).map(|number| (sweep.name.clone(), number));
        }
        document.overlay(&self.modes[mode as usize], &format!("mode.{}", mode.name()))?;
        Ok((parameter, document))
    }

    /// The scenario at each point for which `wanted` says yes.
    ///
    /// # Errors
    /// All that makes no sense there.
    pub fn points(&self, mode: Mode, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Point>, ConfigError> {
        let mut points = Ok(Vec::new());
        for (label, parameter, document) in self.documents(mode, wanted)? {
            let plan = Plan::new(&document, &Choice::default()).and_then(|plan| plan.modelled().map(|()| plan));
            points = both(points, plan).map(|(mut points, plan)| {
                points.push(Point { label, parameter, plan });
                points
            });
            if points.as_ref().is_err_and(ConfigError::is_full) {
                break;
            }
        }
        points
    }
}

/// A point's label, the sweep's name and value if that is a number, and the document with both and the mode applied.
type Written = (String, Option<(String, f64)>, Document);

/// Points that results name and the sweep does not have. `results`: each with its place in the file.
fn named_points(results: &[(usize, Published)], labels: &[String]) -> Result<(), Wrong> {
    let mut wrong = Wrong::new();
    for (n, result) in results {
        let at = result.at.iter().map(|p| (format!("result.{n}.at"), p.as_str()));
        let named = result
            .checks
            .iter()
            .enumerate()
            .flat_map(|(c, check)| check.points().map(move |(key, p)| (format!("result.{n}.checks.{c}.{key}"), p)));
        for (key, unknown) in at.chain(named).filter(|(_, p)| !labels.iter().any(|l| l == p)) {
            let near = closest(unknown, labels.iter().map(String::as_str)).unwrap_or("one of the sweep's points");
            wrong.add(Invalid::new(key, format!("there is no point {unknown:?}"), format!("name {near:?}")));
        }
    }
    wrong.or(())
}

fn published(n: usize, table: &ResultTable) -> Result<Published, Wrong> {
    let mut wrong = Wrong::new();
    let mut checks = Vec::new();
    if table.checks.is_empty() {
        wrong.add(Invalid::value(format!("result.{n}.checks"), "is empty", "add a check with text and expr"));
    } else if table.checks.iter().all(|check| check.absolute) {
        let remedy = "add a check of a ratio or an order, or remove `absolute` from one";
        wrong.add(Invalid::value(format!("result.{n}.checks"), "are all absolute, so that none decides", remedy));
    }
    for (c, check) in table.checks.iter().enumerate() {
        let mut parse = |key: &str, text: &str| {
            let parsed = parsed(key, text).map_err(|problem| {
                let remedy = "write a comparison of metrics, such as a.x.y >= 0.9 * b.x.y";
                Invalid::value(format!("result.{n}.checks.{c}.{key}"), problem, remedy)
            });
            wrong.note(parsed)
        };
        let holds = parse("expr", &check.expr);
        let value = check.value.as_deref().map(|text| parse("value", text));
        let (text, unit, paper) = (check.text.clone(), check.unit.clone(), check.paper.clone());
        let absolute = check.absolute;
        checks.extend(holds.map(|holds| Check { text, holds, value: value.flatten(), unit, paper, absolute }));
    }
    let ResultTable { id, source, what, notes, at, .. } = table.clone();
    wrong.or(Published { id, source, what, notes, checks, at })
}

/// The expression of a check, tried.
fn parsed(key: &str, text: &str) -> Result<Expression, String> {
    let expression = Expression::parse(text).map_err(|e| e.to_string())?;
    if expression.metrics().is_empty() {
        return Err("it names no metric, so it could never fail".to_owned());
    }
    let trial = expression.trial();
    let tried = match key {
        "expr" => expression.holds(&trial).map(drop),
        _ => expression.value(&trial).map(drop),
    };
    tried.map_err(|e| e.to_string())?;
    Ok(expression)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
duration = "10ms"
[topology]
kind = "clos"
[[workload]]
name = "w"
pattern = "stride"
k = 4
[scheme.a]
balance = "flowcell"
[sweep]
name = "load"
values = [1, 2]
keys = ["workload.w.k"]
[[result]]
id = "x/a"
source = "s"
what = "w"
checks = [{ text = "t", expr = "a.all.flows > 0" }]
[mode.full]
duration = "20ms"
"#;

    /// Place and key of all faults.
    fn told(text: &str) -> Vec<String> {
        let document = Document::parse("x.toml", text, "p").unwrap();
        let Err(error) = Experiment::read(document) else { return Vec::new() };
        error.faults().iter().map(|f| format!("{} {}", f.place.trim_start_matches("x.toml:"), f.key)).collect()
    }

    #[test]
    fn all_results_checks_modes_and_points_tell_their_faults() {
        assert_eq!(told(FILE), [""; 0]);
        let text = FILE
            .replace("a.all.flows > 0\" }", "1 > 0\" }, { text = \"u\", expr = \"a.all >\" }")
            .replace("values = [1, 2]", "values = [1, 16]")
            .replace("duration = \"20ms\"", "duration = \"0s\"")
            + "scheme.a.threshold = \"0B\"\n[mode.paper]\ntopology.leaves = 0\nrecord.sample_evry = \"1ms\"\n\
               [[result]]\nid = \"x/a\"\nsource = \"s\"\nwhat = \"w\"\nchecks = []\n";
        let found = told(&text);
        assert_eq!(told(&FILE.replace("\" }]", "\", absolute = true }]")), ["19 result.x/a.checks"], "none decides");
        for fault in [
            "19 result.x/a.checks.0.expr",
            "19 result.x/a.checks.1.expr",
            "21 mode.full.duration",
            "22 mode.full.scheme.a.threshold",
            "24 mode.paper.topology.leaves",
            "25 mode.paper.record.sample_evry",
            "27 result.x/a.id",
            "30 result.x/a.checks",
        ] {
            assert!(found.iter().any(|told| told == fault), "{fault}: {found:?}");
        }
        // The second point, in the quick mode.
        assert!(found.iter().any(|told| told == "13 workload.w.k"), "{found:?}");
    }

    #[test]
    fn a_scenario_that_is_run_by_itself_is_told_of_its_modes() {
        let check = |text: &str| Experiment::check(Document::parse("x.toml", text, "p").unwrap());
        assert_eq!(check(FILE), Ok(()));
        let error = check(&FILE.replace("duration = \"20ms\"", "duraton = \"20ms\"\nwarmup = \"1s\"")).unwrap_err();
        let keys: Vec<&str> = error.faults().iter().map(|fault| fault.key.as_str()).collect();
        assert_eq!(keys, ["mode.full.duraton"], "{error}");
        let axis = "[[sweep]]\nname = \"b\"\nvalues = [3]\nkeys = [\"seeds\"]\n";
        let several = FILE.replace("[sweep]", "[[sweep]]").replace("[[result]]", &format!("{axis}[[result]]"));
        assert_eq!(check(&several), Ok(()), "several axes are for `selvedge sweep`");
        assert!(Experiment::read(Document::parse("x.toml", &several, "p").unwrap()).is_err());
    }
}
