//! `selvedge repro`: runs published experiments and checks them against their papers.
//!
//! An experiment is a file below `scenarios/`: a scenario, a sweep, durations per mode, and results.
//! docs/repro.md describes the file and the output.

mod again;
mod archive;
mod archives;
mod arguments;
pub mod catalogue;
mod claims;
mod clause;
mod command;
mod cost;
mod decide;
mod expression;
mod file;
mod fingerprint;
mod judge;
mod kept;
mod looks;
mod measured;
mod once;
pub mod printed;
pub mod prose;
mod real_hosts;
mod recorded;
pub mod records;
mod select;
mod site;
pub mod tables;

pub use arguments::Repro;
pub use command::{report, run};
pub use expression::{Expression, ExpressionError};
pub(crate) use file::schema;
pub use file::{Check, Experiment, Mode, Point, Published, KEYS};
pub use fingerprint::{configuration, SOURCES};
pub use judge::{judge, word, At, Judged, Seen, Verdict};
pub use looks::run_looks;
pub use once::{run_experiment, Ran};

use config::ConfigError;
use std::path::{Component, Path, PathBuf};

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));
}

/// Experiments in the binary, as (path below `scenarios/`, text).
pub fn embedded() -> impl Iterator<Item = (&'static str, &'static str)> {
    embedded::FILES.iter().copied().filter(|(file, _)| Path::new(file).file_name() != Some(TESTBED.as_ref()))
}

/// The name of files that experiments include; such a file is none itself.
const TESTBED: &str = "testbed.toml";

/// The text of a file in the binary, whose path may go up and down again.
fn embedded_at(path: &Path) -> Option<&'static str> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir if plain.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    embedded::FILES.iter().find(|(file, _)| Path::new(file) == plain).map(|(_, text)| *text)
}

/// Every experiment in the binary that yields published results.
///
/// # Errors
/// A file that does not read, which a test rules out.
pub fn experiments() -> Result<Vec<Experiment>, ConfigError> {
    let all = embedded().filter(|(file, _)| file.contains('/'));
    all.map(|(file, text)| Experiment::parse(file, text)).collect()
}
