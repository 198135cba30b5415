//! Scenario files as commands read them: with the sweep, and without what only the harness of published results reads.

use crate::axes::Axes;
use crate::input;
use crate::repro::{Experiment, KEYS};
use crate::scenario::{Choice, Plan};
use config::{ConfigError, Document};
use std::path::Path;

/// Reads a scenario file and applies `--set`. A file of the reproduction harness is read too; its results, modes and
/// sweep are checked and left out.
///
/// # Errors
/// A file that cannot be read or is not TOML; all that is wrong with its results and modes; a `--set` that does not fit.
pub(crate) fn read(path: &Path, set: &[String]) -> Result<Document, ConfigError> {
    parts(path, set).map(|(document, _)| document)
}

/// The same, with the axes of its sweep.
///
/// # Errors
/// As [`read`]; axes that make no sense.
pub(crate) fn parts(path: &Path, set: &[String]) -> Result<(Document, Option<Axes>), ConfigError> {
    let mut document = input::scenario(path)?;
    let harness = ["result", "mode"].iter().any(|key| document.table().contains_key(*key));
    let checked = if harness { Experiment::check(document.clone()) } else { Ok(()) };
    let sweep = document.take("sweep");
    for key in KEYS {
        document.take(key);
    }
    for assignment in set {
        input::set(&mut document, assignment)?;
    }
    if let Err(mut all) = checked {
        // What is wrong without mode and sweep is told in the same answer.
        if sweep.is_none() {
            all.extend(Plan::new(&document, &Choice::default()).err().unwrap_or(all.clone()));
        }
        return Err(all);
    }
    let sweep = sweep.map(|sweep| Axes::read(&document, sweep)).transpose()?;
    Ok((document, sweep))
}
