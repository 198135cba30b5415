//! What agent and controller share because both run for long.

pub mod log;
pub mod metrics;
