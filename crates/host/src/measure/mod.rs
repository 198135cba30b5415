//! From records to numbers: pure functions over [`crate::outcome`].
//!
//! [`summarise`] gives the named metrics of `docs/metrics.md`; the other functions are its parts, and data for reports.
//! Percentiles include unfinished flows: they count as longer than every finished one, and a percentile that falls among
//! them is infinite. A percentile with too few samples is refused.

mod curve;
mod estimate;
mod fairness;
mod hidden;
mod ideal;
mod metric;
mod pairs;
mod quantile;
mod requests;
mod share;
mod slowdown;
mod steady;
mod steps;
mod summary;
#[cfg(test)]
mod tests;
mod weighted;
mod windows;

pub use crate::delays::Delays;
pub use curve::cdf_points;
pub use estimate::{across_seeds, difference, estimate, jackknife, Across, Estimate};
pub use fairness::jain;
pub use ideal::ideal_fct;
pub use metric::{Metric, Refusal, Summary};
pub use quantile::{Quantile, Samples, TooFew};
pub use slowdown::{Bucket, Buckets};
pub use summary::{fct_ms, slowdowns, summarise, summarise_pooled, throughput_gbps, throughputs_gbps, RESERVED};
pub use weighted::TimeWeighted;
