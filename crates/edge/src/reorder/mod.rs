//! Presto's receive offload (Algorithm 2): merges packets into segments, holds segments that arrived ahead of an
//! earlier flowcell, and releases everything of a flow in order.

mod config;

pub use config::{Config, Timeout};
