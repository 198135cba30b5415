//! Results of a scenario's runs, scheme by scheme.

use crate::run::Finished;
use crate::scenario::{Plan, Scenario};
use crate::unfinished::{counted, unfinished};
use config::closest;
use host::measure::{across_seeds, summarise, summarise_pooled, Across, Buckets, Summary};
use host::outcome::Outcome;
use std::sync::OnceLock;

/// All runs of a plan, condensed.
pub struct Results {
    pub plan: Plan,
    pub schemes: Vec<SchemeResults>,
}

/// All runs of one scheme, in the order of seeds.
pub struct SchemeResults {
    pub name: String,
    pub note: String,
    pub runs: Vec<Finished>,
    /// The metrics of each run.
    pub each: Vec<Summary>,
    /// The metrics of all runs, samples thrown together.
    pub pooled: Summary,
    /// What varies between the runs.
    pub across: Vec<Across>,
    /// The metrics of all runs but one, for each, once somebody has asked.
    without: Vec<OnceLock<Summary>>,
}

/// A metric of a scheme.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Over the samples of all seeds; infinite for a percentile among unfinished flows.
    pub value: f64,
    /// Half the 95% confidence interval of the mean over seeds, if several runs have the metric.
    pub half_width: Option<f64>,
    pub unit: &'static str,
}

impl Results {
    pub fn new(plan: Plan, finished: Vec<Finished>) -> Results {
        let names: Vec<String> = plan.scenario.workload.iter().map(|w| w.name.clone()).collect();
        let warmup = plan.scenario.warmup;
        let buckets = Buckets::default();
        let mut rest = finished.into_iter().peekable();
        let mut schemes = Vec::new();
        for scheme in &plan.schemes {
            let mut runs = Vec::new();
            while let Some(run) = rest.next_if(|run| run.scheme == scheme.name) {
                runs.push(run);
            }
            let outcomes: Vec<&Outcome> = runs.iter().map(|run| &run.outcome).collect();
            let each: Vec<Summary> = outcomes.iter().map(|o| summarise(o, &names, warmup, &buckets)).collect();
            let pooled = pooled(&outcomes, &plan.scenario);
            let across = across_seeds(&each);
            schemes.push(SchemeResults {
                name: scheme.name.clone(),
                note: scheme.note.clone(),
                runs,
                without: each.iter().map(|_| OnceLock::new()).collect(),
                each,
                pooled,
                across,
            });
        }
        Results { plan, schemes }
    }

    /// By name, `-` and `_` being one, as expressions have only the latter.
    pub fn scheme(&self, name: &str) -> Option<&SchemeResults> {
        self.schemes.iter().find(|s| same(&s.name, name))
    }
}

/// A metric of a summary, `-` and `_` being one.
pub fn metric(summary: &Summary, name: &str) -> Option<f64> {
    summary.metrics.iter().find(|m| same(&m.name, name)).map(|m| m.value)
}

fn pooled(outcomes: &[&Outcome], scenario: &Scenario) -> Summary {
    let names: Vec<String> = scenario.workload.iter().map(|w| w.name.clone()).collect();
    summarise_pooled(outcomes, &names, scenario.warmup, &Buckets::default())
}

/// One name, `-` and `_` being one.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).all(|(a, b)| a == b || (b"-_".contains(&a) && b"-_".contains(&b)))
}

impl SchemeResults {
    /// # Errors
    /// Why there is no such value: too few samples for the percentile, or nothing of that name.
    pub fn measured(&self, metric: &str) -> Result<Measured, String> {
        if let Some(found) = self.pooled.metrics.iter().find(|m| same(&m.name, metric)) {
            let across = self.across.iter().find(|a| a.name == found.name).map(|a| a.estimate);
            let half_width = across.filter(|e| e.runs == self.runs.len()).and_then(|e| e.half_width);
            return Ok(Measured { value: found.value, half_width, unit: found.unit });
        }
        if let Some(refused) = self.pooled.refused.iter().find(|r| same(&r.name, metric)) {
            let (have, need) = (refused.samples, refused.needed);
            return Err(format!("{metric} of {} needs {need} samples, there are {have}", self.name));
        }
        let known = self.pooled.metrics.iter().map(|m| m.name.as_str());
        let near = closest(metric, known).map(|near| format!("; the nearest is {near}")).unwrap_or_default();
        Err(format!("{} measured no {metric}{near}", self.name))
    }

    /// May more runs have the metric, or have it already? Not if no run knows such a one.
    pub fn can_have(&self, metric: &str) -> bool {
        let mut refused = self.pooled.refused.iter();
        self::metric(&self.pooled, metric).is_some() || refused.any(|r| same(&r.name, metric))
    }

    /// The metrics of all runs but the one with this place, samples thrown together. `None`: there is no such run.
    pub fn without(&self, place: usize, scenario: &Scenario) -> Option<&Summary> {
        let rest = self.runs.iter().enumerate().filter(|(n, _)| *n != place).map(|(_, run)| &run.outcome);
        Some(self.without.get(place)?.get_or_init(|| pooled(&rest.collect::<Vec<_>>(), scenario)))
    }

    /// Flows of bounded size that had not finished when their run ended.
    pub fn unfinished(&self) -> usize {
        self.runs.iter().map(|run| unfinished(&run.outcome).count()).sum()
    }

    /// Why these had not finished, in words.
    pub fn causes(&self) -> String {
        counted(self.runs.iter().flat_map(|run| unfinished(&run.outcome)).map(|(_, cause)| cause))
    }
}
