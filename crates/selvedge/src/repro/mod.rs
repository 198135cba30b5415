//! `selvedge repro`: runs published experiments and checks them against their papers.
//!
//! An experiment is a file below `scenarios/`: a scenario, a sweep, durations per mode, and results.
//! docs/repro.md describes the file and the output.

mod archive;
pub mod catalogue;
mod claims;
mod command;
mod decide;
mod expression;
mod file;
mod judge;
mod looks;
pub mod records;

pub use command::{report, run, run_experiment, Ran};
pub use expression::{Expression, ExpressionError};
pub(crate) use file::schema;
pub use file::{Check, Experiment, Mode, Point, Published, KEYS};
pub use judge::{judge, word, At, Judged, Seen, Verdict};
pub use looks::run_looks;

use config::ConfigError;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));
}

/// Scenario files in the binary, as (path below `scenarios/`, text).
pub fn embedded() -> &'static [(&'static str, &'static str)] {
    embedded::FILES
}

/// Every experiment in the binary that yields published results.
///
/// # Errors
/// A file that does not read, which a test rules out.
pub fn catalogue() -> Result<Vec<Experiment>, ConfigError> {
    let all = embedded().iter().filter(|(file, _)| file.contains('/'));
    all.map(|(file, text)| Experiment::parse(file, text)).collect()
}
