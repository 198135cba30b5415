//! Numbers that the papers print, point by point: `results/printed/*.csv`. Figures without numbers have none here: nothing was read off
//! a picture.

use super::file::{Check, Experiment, Published};
use config::ConfigError;
use serde::Deserialize;
use serde_json::Value;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/printed.rs"));
}

/// One number of a paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// The result that it belongs to.
    pub result: String,
    /// The metric of its checks that it is compared with, as an expression names it, a point of the sweep included.
    pub metric: String,
    /// The point of the sweep, where the metric does not name it.
    pub at: String,
    /// In the metric's unit.
    pub value: f64,
    pub unit: String,
    /// Where it stands in the paper, and as what.
    pub how: String,
}

impl Printed {
    /// The metric's value in a record of its result, with half of its 95% interval: as recorded, or as it follows from a check's number that
    /// is in proportion to it.
    pub(super) fn measured(&self, record: &Value, result: &Published) -> Option<(f64, Option<f64>)> {
        let here = |point: &&Value| self.at.is_empty() || point["at"] == self.at.as_str();
        let seen = record["checks"].as_array()?.iter().flat_map(|check| {
            let points = match &check["measured"] {
                Value::Array(points) => points.iter().collect(),
                object => vec![object],
            };
            points.into_iter().filter(here).map(move |point| (check, point))
        });
        let of = |(check, point): (&Value, &Value)| {
            let value = point["metrics"][&self.metric].as_f64()?;
            let half = || {
                let check = result.checks.iter().find(|known| check["text"] == known.text.as_str())?;
                Some(point["ci95_half_width"].as_f64()? / self.factor(check)?.abs())
            };
            Some((value, point["metrics_ci95_half_width"][&self.metric].as_f64().or_else(half)))
        };
        let found: Vec<(f64, Option<f64>)> = seen.filter_map(of).collect();
        found.iter().find(|(_, half)| half.is_some()).or(found.first()).copied()
    }

    /// The check's number over the metric, if that is the same whatever the metric is.
    fn factor(&self, check: &Check) -> Option<f64> {
        let expression = check.value.as_ref().filter(|value| value.metrics() == [self.metric.clone()])?;
        let at = |x: f64| expression.value(&[(self.metric.clone(), x)].into()).ok().map(|value| value / x);
        let (factor, others) = (at(1.0)?, [at(0.5)?, at(7.0)?]);
        let same = |other: &f64| (other - factor).abs() <= 1e-9 * factor.abs();
        (factor != 0.0 && others.iter().all(same)).then_some(factor)
    }

    /// For the reader: the metric with its point.
    pub(super) fn label(&self) -> String {
        if self.at.is_empty() {
            self.metric.clone()
        } else {
            format!("{}: {}", self.at, self.metric)
        }
    }

    /// What is wrong with it beside these experiments, if anything.
    pub fn problem(&self, experiments: &[Experiment]) -> Option<String> {
        let of = |e: &Experiment| e.results.iter().any(|result| result.id == self.result);
        let Some(experiment) = experiments.iter().find(|e| of(e)) else {
            return Some(format!("there is no result {}", self.result));
        };
        let result = experiment.results.iter().find(|result| result.id == self.result)?;
        let known = |check: &Check| {
            let expressions = [Some(&check.holds), check.value.as_ref()];
            expressions.into_iter().flatten().any(|e| e.metrics().contains(&self.metric))
        };
        if !result.checks.iter().any(known) {
            return Some(format!("no check of {} has the metric {}", self.result, self.metric));
        }
        if !self.at.is_empty() && !experiment.labels().contains(&self.at) {
            return Some(format!("{} has no point {}", experiment.file, self.at));
        }
        (self.how.trim().is_empty() || !self.value.is_finite()).then(|| "it does not say where it stands".to_owned())
    }
}

/// The numbers in the binary.
///
/// # Errors
/// A file that does not read, which a test rules out.
pub fn printed() -> Result<Vec<Printed>, ConfigError> {
    let mut all = Vec::new();
    for (file, text) in embedded::PRINTED {
        for row in csv::Reader::from_reader(text.as_bytes()).into_deserialize() {
            let remedy = "write the columns result, metric, at, value, unit, how";
            all.push(row.map_err(|e| ConfigError::new(format!("results/printed/{file}"), e.to_string(), remedy))?);
        }
    }
    Ok(all)
}
