//! Workloads: the flows between hosts.
//!
//! A [`Workload`] is configuration. A [`Source`] turns it into [`FlowSpec`]s, lazily and in order of start. The flows are a
//! function of (workload, its index, hosts, seed) and, for a closed loop such as [`Pattern::Shuffle`], of the reported
//! completions.
//!
//! Random pairings ([`Pattern::RandomBijection`], [`Pattern::Random`], [`Pairs::Bijection`], [`Pairs::Random`]) depend
//! on the seed and on [`Workload::pairing`], but not on the workload's index. So mice can follow the elephants of another
//! workload, and two schemes compared on one seed see the same pairs.

mod arrivals;
mod cdf;
mod demand;
mod fan_out;
mod flow;
mod hosts;
mod import;
mod list;
mod matrix;
mod number;
mod pairs;
mod pattern;
mod peak;
mod problem;
mod sequence;
mod shape;
mod shuffle;
mod source;
mod staircase;
#[cfg(test)]
mod tests;

pub use cdf::{Cdf, CdfError};
pub use demand::Demand;
pub use flow::{Connection, Datagrams, FlowSpec, REPLY_BYTES};
pub use hosts::HostMap;
pub use import::ImportError;
pub use list::FlowList;
pub use pairs::Pairs;
pub use pattern::{Pattern, Workload};
pub use problem::{Problem, WorkloadError};
use problem::{MAX_DRAWN, MAX_FLOWS};
pub use source::Source;
