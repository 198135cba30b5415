//! Named numbers, and what is left out for want of samples.

use super::{Quantile, Samples};

/// A named number; docs/metrics.md lists the names.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Dotted, such as `mice.fct_ms.p99`.
    pub name: String,
    /// Infinite for a percentile that falls among unfinished flows.
    pub value: f64,
    pub unit: &'static str,
}

/// A percentile that the samples could not carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub name: String,
    pub samples: u64,
    pub needed: u64,
}

/// The metrics of a run, in a fixed order. A metric without samples is absent.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Summary {
    pub metrics: Vec<Metric>,
    /// Percentiles left out because there were too few samples.
    pub refused: Vec<Refusal>,
}

const TAIL: [(&str, Quantile); 6] = [
    ("p50", Quantile::P50),
    ("p90", Quantile::P90),
    ("p95", Quantile::P95),
    ("p99", Quantile::P99),
    ("p999", Quantile::P999),
    ("p9995", Quantile::P9995),
];

impl Summary {
    pub fn get(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|m| m.name == name).map(|m| m.value)
    }

    pub(super) fn put(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.metrics.push(Metric { name: name.into(), value, unit });
    }

    pub(super) fn put_all(&mut self, prefix: &str, values: &[f64], unit: &'static str, which: &[&str]) {
        let n = values.len() as f64;
        for &which in which.iter().filter(|_| !values.is_empty()) {
            let value = match which {
                "min" => values.iter().copied().fold(f64::INFINITY, f64::min),
                "max" => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                _ => values.iter().sum::<f64>() / n,
            };
            self.put(format!("{prefix}.{which}"), value, unit);
        }
    }

    pub(super) fn put_tail(&mut self, prefix: &str, samples: &Samples, unit: &'static str) {
        if samples.count() == 0 {
            return;
        }
        if let Some(mean) = samples.mean_finished() {
            self.put(format!("{prefix}.mean_finished"), mean, unit);
        }
        for (suffix, q) in TAIL {
            let name = format!("{prefix}.{suffix}");
            match samples.percentile(q) {
                Ok(value) => self.put(name, value, unit),
                Err(few) => self.refused.push(Refusal { name, samples: few.have, needed: few.need }),
            }
        }
    }
}
