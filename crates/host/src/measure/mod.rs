//! From records to numbers: pure functions over [`crate::outcome`].
//!
//! [`summarise`] gives the named metrics of `docs/metrics.md`; the rest are its parts, and what a report draws. Unfinished
//! flows are never left out of a percentile: they count as longer than every finished one, and a percentile that falls
//! among them is infinite. A percentile without the samples to carry it is refused rather than guessed.

mod curve;
mod estimate;
mod fairness;
mod ideal;
mod quantile;
mod slowdown;
mod steady;
mod steps;
mod summary;
#[cfg(test)]
mod tests;
mod weighted;
mod windows;

pub use curve::cdf_points;
pub use estimate::{across_seeds, estimate, Across, Estimate};
pub use fairness::jain;
pub use ideal::ideal_fct;
pub use quantile::{Quantile, Samples, TooFew};
pub use slowdown::{Bucket, Buckets};
pub use summary::{
    fct_ms, slowdowns, summarise, summarise_pooled, throughputs_gbps, Metric, Refusal, Summary, RESERVED,
};
pub use weighted::TimeWeighted;
