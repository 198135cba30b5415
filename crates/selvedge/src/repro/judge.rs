//! From metrics to verdicts.

use super::clause::unspoken;
use super::expression::at_point;
use super::expression::ExpressionError;
use super::file::{Check, Published};
use super::Expression;
use crate::report::CheckStatus;
use crate::results::{metric, same, Results, SchemeResults};
use host::measure::{estimate, jackknife};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// The runs at one point of a sweep.
pub struct At {
    pub label: String,
    pub parameter: Option<(String, f64)>,
    pub results: Results,
}

/// What became of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub status: CheckStatus,
    /// Why it was not run, or where it fails.
    pub reason: Option<String>,
    pub points: Vec<Seen>,
    /// The seeds of a full run do not decide the check by themselves; the status is that of all samples together. Or both sides of it have
    /// no end within the runs: then it was not run.
    pub undecided: bool,
}

/// What a check saw at one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub label: String,
    pub holds: Option<bool>,
    /// It compares two values without an end, so nobody knows.
    pub endless: bool,
    /// The check's number, with half of its 95% interval over seeds.
    pub value: Option<(f64, Option<f64>)>,
    pub metrics: Vec<(String, f64)>,
    /// Half of the 95% intervals over seeds, of those metrics that each seed alone has samples for.
    pub halves: Vec<(String, f64)>,
    /// Flows a seed of the open-loop workloads that its metrics name: the mean over seeds, of the scheme and workload that has the
    /// fewest. None: no metric is of such a workload.
    pub jobs: Option<u64>,
}

/// What became of a result.
#[derive(Clone, Debug)]
pub struct Judged {
    pub published: Published,
    pub status: CheckStatus,
    pub reason: Option<String>,
    pub verdicts: Vec<Verdict>,
    /// Empty on real hosts.
    pub mode: &'static str,
    /// On real hosts: numbers of the rounds.
    pub seeds: Vec<u64>,
    pub wall_s: f64,
    /// Why the runs decide nothing, if so.
    pub undecided: Option<&'static str>,
    /// Processor time of the experiment with all its results, seconds; 0 if it was not counted.
    pub core_s: f64,
}

/// Judges a result by the points that count for it; its checks may also name others. Absolute checks decide nothing.
pub fn judge(published: &Published, all: &[At], mode: &'static str, wall_s: f64) -> Judged {
    let points: Vec<&At> = all.iter().filter(|at| published.counts(&at.label)).collect();
    let verdicts: Vec<Verdict> = published.checks.iter().map(|check| verdict(check, &points, all)).collect();
    let deciding = || published.checks.iter().zip(&verdicts).filter(|(check, _)| !check.absolute).map(|(_, v)| v);
    let having = |status: CheckStatus| deciding().filter(move |v| v.status == status);
    let status = if having(CheckStatus::Fails).next().is_some() {
        CheckStatus::Fails
    } else if having(CheckStatus::NotRun).next().is_some() {
        CheckStatus::NotRun
    } else {
        CheckStatus::Holds
    };
    let mut reasons: Vec<&str> = Vec::new();
    for verdict in having(status) {
        if let Some(reason) = verdict.reason.as_deref().filter(|r| !reasons.contains(r)) {
            reasons.push(reason);
        }
    }
    let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
    let seeds = points.first().map(|at| at.results.plan.scenario.seeds.0.clone()).unwrap_or_default();
    let endless = status == CheckStatus::NotRun && having(status).all(|verdict| verdict.undecided);
    let undecided = endless.then_some(ENDLESS);
    Judged { published: published.clone(), status, reason, verdicts, mode, seeds, wall_s, undecided, core_s: 0.0 }
}

/// Why a result is undecided whose checks compare two percentiles among flows without an end.
const ENDLESS: &str = "what is compared has no end within the runs on either side";

fn verdict(check: &Check, points: &[&At], all: &[At]) -> Verdict {
    let mut verdict = Verdict { status: CheckStatus::Holds, reason: None, points: Vec::new(), undecided: false };
    // Why, and at which points.
    let (mut fails, mut not_run): (Reasons<'_>, Reasons<'_>) = (Vec::new(), Vec::new());
    let mut endless = true;
    for at in points {
        let (seen, problem) = look(check, at, all);
        endless &= seen.holds.is_some() || seen.endless;
        match seen.holds {
            Some(true) => {}
            Some(false) => {
                fails.push((format!("does not hold{}: {}", told(check, &seen, at), check.text), vec![&at.label]))
            }
            None => {
                let why = problem.unwrap_or_default();
                match not_run.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, labels)) => labels.push(&at.label),
                    None => not_run.push((why, vec![&at.label])),
                }
            }
        }
        verdict.points.push(seen);
    }
    if points.is_empty() {
        not_run.push(("no point of the sweep was run".to_owned(), Vec::new()));
    }
    for (status, reasons) in [(CheckStatus::NotRun, &not_run), (CheckStatus::Fails, &fails)] {
        if !reasons.is_empty() {
            verdict.status = status;
            verdict.reason = Some(tell(reasons, points.len()));
        }
    }
    verdict.undecided = verdict.status == CheckStatus::NotRun && endless && !points.is_empty();
    verdict
}

type Reasons<'a> = Vec<(String, Vec<&'a String>)>;

/// The points are named unless there is but one or all are meant.
fn tell(reasons: &Reasons<'_>, points: usize) -> String {
    let one = |(why, labels): &(String, Vec<&String>)| match labels.len() {
        n if n == points => why.clone(),
        _ => format!("at {}: {why}", labels.iter().map(|l| l.as_str()).collect::<Vec<_>>().join(", ")),
    };
    reasons.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The check's number, or the clause that fails, if the number is of another.
fn told(check: &Check, seen: &Seen, at: &At) -> String {
    let values = seen.metrics.iter().cloned().chain(at.parameter.clone()).collect();
    if let Some(clause) = unspoken(check, &values) {
        return format!(" ({clause})");
    }
    seen.value
        .map(|(value, _)| format!(" ({} {})", crate::table::number(value), check.unit).replace(" )", ")"))
        .unwrap_or_default()
}

/// Why a check cannot be decided is the second part.
fn look(check: &Check, at: &At, all: &[At]) -> (Seen, Option<String>) {
    let mut seen = Seen { label: at.label.clone(), ..Seen::default() };
    let mut problem = None;
    let mut values: BTreeMap<String, f64> = at.parameter.clone().into_iter().collect();
    let expressions = [Some(&check.holds), check.value.as_ref()];
    for name in expressions.into_iter().flatten().flat_map(Expression::metrics) {
        if values.contains_key(name) {
            continue;
        }
        match lookup(name, at, all) {
            Ok(value) => {
                values.insert(name.clone(), value);
                seen.metrics.push((name.clone(), value));
            }
            Err(why) => problem = problem.or(Some(why)),
        }
    }
    if problem.is_some() {
        seen.metrics.clear();
        return (seen, problem);
    }
    seen.jobs = seen.metrics.iter().filter_map(|(name, _)| jobs(name, at, all)).min();
    let half = |(name, _): &(String, f64)| {
        let half = estimate(&of_each_seed(&Expression::parse(name).ok()?, at, all)?)?.half_width?;
        Some((name.clone(), three_digits(half)))
    };
    seen.halves = seen.metrics.iter().filter_map(half).collect();
    match check.holds.holds(&values) {
        Ok(holds) => seen.holds = Some(holds),
        Err(e) => {
            seen.endless = matches!(e, ExpressionError::Endless(_));
            return (seen, Some(e.to_string()));
        }
    }
    if let Some(expression) = &check.value {
        match expression.value(&values) {
            Ok(value) => seen.value = Some((value, interval(expression, value, at, all))),
            Err(e) => problem = Some(e.to_string()),
        }
    }
    (seen, problem)
}

/// As many as an interval means: records are long.
pub(super) fn three_digits(number: f64) -> f64 {
    format!("{number:.2e}").parse().unwrap_or(number)
}

/// The point that a metric names, else the one looked at.
fn point<'a>(label: Option<&str>, at: &'a At, all: &'a [At]) -> Option<&'a At> {
    label.map_or(Some(at), |label| all.iter().find(|other| other.label == label))
}

fn lookup(name: &str, at: &At, all: &[At]) -> Result<f64, String> {
    let (name, label) = at_point(name);
    let Some(At { results, .. }) = point(label, at, all) else {
        return Err(format!("the point {} was not run", label.unwrap_or_default()));
    };
    let (scheme, metric) = name.split_once('.').unwrap_or((name, ""));
    let Some(scheme) = results.scheme(scheme) else {
        let known: Vec<&str> = results.schemes.iter().map(|s| s.name.as_str()).collect();
        return Err(format!("there is no scheme {scheme} yet, only {}", known.join(", ")));
    };
    scheme.measured(metric).map(|m| m.value)
}

/// Flows a seed of the workload that a metric names, if its flows start by the clock.
fn jobs(name: &str, at: &At, all: &[At]) -> Option<u64> {
    let (name, label) = at_point(name);
    let results = &point(label, at, all)?.results;
    let (scheme, metric) = name.split_once('.')?;
    let (workload, _) = metric.split_once('.')?;
    let mut workloads = results.plan.scenario.workload.iter();
    workloads.find(|known| same(&known.name, workload)).filter(|known| known.pattern.is_open_loop())?;
    let flows = self::metric(&results.scheme(scheme)?.pooled, &format!("{workload}.flows"))?;
    Some(flows.round() as u64)
}

/// The values of an expression's names, its metrics as `of` gives them at the point and for the scheme that each names; `None`
/// if one is missing.
pub(super) fn values<'a>(
    expression: &Expression,
    at: &'a At,
    all: &'a [At],
    of: &dyn Fn(&'a At, &'a SchemeResults, &str) -> Option<f64>,
) -> Option<BTreeMap<String, f64>> {
    let mut values: BTreeMap<String, f64> = at.parameter.clone().into_iter().collect();
    for name in expression.metrics() {
        let (metric, label) = at_point(name);
        let (scheme, metric) = metric.split_once('.')?;
        let point = point(label, at, all)?;
        values.insert(name.clone(), of(point, point.results.scheme(scheme)?, metric)?);
    }
    Some(values)
}

/// The expression as each seed alone gives it; `None` where one has too few samples for a metric, such as a far percentile.
fn of_each_seed(expression: &Expression, at: &At, all: &[At]) -> Option<Vec<f64>> {
    let alone = |seed: usize| values(expression, at, all, &|_, scheme, name| metric(scheme.each.get(seed)?, name));
    seeds(at).map(|seed| expression.value(&alone(seed)?).ok()).collect()
}

fn seeds(at: &At) -> std::ops::Range<usize> {
    0..at.results.schemes.first().map_or(0, |s| s.each.len())
}

/// Half the 95% interval of the expression over seeds. Where a single seed has too few samples, the expression is computed from all seeds
/// but one, in turn (jackknife): `whole` is that of all.
fn interval(expression: &Expression, whole: f64, at: &At, all: &[At]) -> Option<f64> {
    if let Some(alone) = of_each_seed(expression, at, all) {
        return estimate(&alone)?.half_width;
    }
    let without = |seed: usize| {
        values(expression, at, all, &|at, scheme, name| metric(scheme.without(seed, &at.results.plan.scenario)?, name))
    };
    jackknife(whole, &seeds(at).map(|seed| expression.value(&without(seed)?).ok()).collect::<Option<Vec<f64>>>()?)
}

impl Seen {
    fn json(&self, unit: &str) -> Value {
        let mut object = Map::new();
        if !self.label.is_empty() {
            object.insert("at".to_owned(), json!(self.label));
        }
        if let Some((value, half_width)) = self.value {
            object.insert("value".to_owned(), json!(value));
            object.insert("ci95_half_width".to_owned(), json!(half_width));
            object.insert("unit".to_owned(), json!(unit));
        }
        if let Some(jobs) = self.jobs {
            object.insert("jobs".to_owned(), json!(jobs));
        }
        let metrics: Map<String, Value> = self.metrics.iter().map(|(n, v)| (n.clone(), json!(v))).collect();
        object.insert("metrics".to_owned(), Value::Object(metrics));
        if !self.halves.is_empty() {
            let halves: Map<String, Value> = self.halves.iter().map(|(n, v)| (n.clone(), json!(v))).collect();
            object.insert("metrics_ci95_half_width".to_owned(), Value::Object(halves));
        }
        Value::Object(object)
    }

    fn text(&self, unit: &str) -> String {
        let label = if self.label.is_empty() { String::new() } else { format!("{}: ", self.label) };
        let number = crate::table::number;
        let value = match self.value {
            Some((value, Some(half))) => format!("{} \u{b1}{}", number(value), number(half)),
            Some((value, None)) => number(value),
            None => {
                let all: Vec<String> = self.metrics.iter().map(|(n, v)| format!("{n} {}", number(*v))).collect();
                return format!("{label}{}", all.join(", "));
            }
        };
        format!("{label}{value} {unit}").trim_end().to_owned()
    }
}

impl Verdict {
    /// What was measured, for people.
    pub fn measured(&self, unit: &str) -> String {
        let run = self.points.iter().filter(|p| p.holds.is_some());
        run.map(|p| p.text(unit)).filter(|t| !t.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The check's number at each point that has one, with half of its 95% interval.
    pub fn values(&self) -> impl Iterator<Item = (f64, Option<f64>)> + '_ {
        self.points.iter().filter(|seen| seen.holds.is_some()).filter_map(|seen| seen.value)
    }

    /// What was measured: one object, or with a sweep a list with one object per point; null if nothing was.
    fn json(&self, unit: &str) -> Value {
        let run: Vec<&Seen> = self.points.iter().filter(|p| p.holds.is_some()).collect();
        match run.as_slice() {
            [] => Value::Null,
            [only] if only.label.is_empty() => only.json(unit),
            many => Value::Array(many.iter().map(|seen| seen.json(unit)).collect()),
        }
    }
}

/// `holds`, `fails`, `not-run`.
pub fn word(status: CheckStatus) -> &'static str {
    match status {
        CheckStatus::Holds => "holds",
        CheckStatus::Fails => "fails",
        CheckStatus::NotRun => "not-run",
    }
}

impl Judged {
    /// The line of `--json`.
    pub fn json(&self) -> Value {
        let checks = self.published.checks.iter().zip(&self.verdicts).map(|(check, verdict)| {
            let holds = match verdict.status {
                CheckStatus::Holds => json!(true),
                CheckStatus::Fails => json!(false),
                CheckStatus::NotRun => Value::Null,
            };
            let mut line = json!({
                "text": check.text,
                "holds": holds,
                "measured": verdict.json(&check.unit),
                "paper": check.paper.as_ref().map_or(Value::Null, |p| json!(p)),
            });
            if check.absolute {
                line["absolute"] = json!(true);
            }
            if verdict.undecided {
                line["decided"] = json!(false);
            }
            line
        });
        json!({
            "id": self.published.id,
            "source": self.published.source,
            "status": self.word(),
            "reason": self.undecided.or(self.reason.as_deref()),
            "holds": self.status == CheckStatus::Holds && self.undecided.is_none(),
            "checks": checks.collect::<Vec<_>>(),
            "mode": (!self.mode.is_empty()).then_some(self.mode),
            "seeds": self.seeds,
            "wall_s": self.wall_s,
        })
    }

    /// `holds`, `fails`, `not-run`, `undecided`.
    pub fn word(&self) -> &'static str {
        self.undecided.map_or(word(self.status), |_| "undecided")
    }

    /// For people: a line for the result and two for each check.
    pub fn text(&self) -> String {
        let mut text = format!("{:<8} {}  {}\n", self.word(), self.published.id, self.published.what);
        for (check, verdict) in self.published.checks.iter().zip(&self.verdicts) {
            let reported = if check.absolute { " (absolute: reported only)" } else { "" };
            text += &format!("  {:<8} {}{reported}\n", word(verdict.status), check.text);
            let measured = verdict.measured(&check.unit);
            let paper = check.paper.as_ref().map(|p| p.as_str().map_or_else(|| p.to_string(), str::to_owned));
            if !measured.is_empty() {
                text += &format!("{:11}measured {measured}\n", "");
            }
            text += &format!("{:11}paper {}\n", "", paper.as_deref().unwrap_or("prints no number"));
            if let (CheckStatus::NotRun, Some(reason)) = (verdict.status, &verdict.reason) {
                text += &format!("{:11}not run: {reason}\n", "");
            }
        }
        text
    }
}
