//! What records of runs say (`results/PAPER.jsonl`): one JSON object a result, with at least `id` and `status`. The binary has
//! the records that were there when it was built.

use super::archive::configuration;
use config::ConfigError;
use serde::Deserialize;
use std::collections::BTreeMap;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/records.rs"));
}

/// What a record says of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recorded {
    Holds,
    Fails,
    NotRun,
    Undecided,
}

/// One record of `results/PAPER.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Record {
    pub status: Recorded,
    /// Hash of the scenario and the checks that were run, if the record has it.
    pub configuration: Option<String>,
}

/// Result id to what its record says.
pub type Records = BTreeMap<String, Recorded>;

/// What the records in the binary say, of all papers; see [`current`].
///
/// # Errors
/// A line that does not read, with the file and the line's number; an experiment that does not.
pub fn records() -> Result<Records, ConfigError> {
    let mut all = BTreeMap::new();
    for (file, text) in embedded_records() {
        all.extend(read_records(file, text)?);
    }
    current(all)
}

/// The files of records in the binary, as (name, text).
pub(super) fn embedded_records() -> impl Iterator<Item = (&'static str, &'static str)> {
    embedded::RECORDS.iter().copied()
}

/// Leaves out records of results whose scenario or checks have changed since: these were not run as they are now.
///
/// # Errors
/// An experiment in the binary that does not read.
pub fn current(records: BTreeMap<String, Record>) -> Result<Records, ConfigError> {
    let mut now = Records::new();
    let experiments = if records.is_empty() { Vec::new() } else { super::catalogue()? };
    for (id, record) in records {
        let found = experiments.iter().find_map(|e| Some((e, e.results.iter().find(|result| result.id == id)?)));
        let stale = match (&record.configuration, found) {
            (Some(then), Some((experiment, result))) => configuration(experiment, result)? != *then,
            _ => false,
        };
        if !stale {
            now.insert(id, record.status);
        }
    }
    Ok(now)
}

/// Records of one file: one JSON object a line, of which [`Record`]'s fields and `id` are read.
///
/// # Errors
/// The first line that is no such object, or whose id stands in an earlier line.
pub fn read_records(file: &str, text: &str) -> Result<BTreeMap<String, Record>, ConfigError> {
    #[derive(Deserialize)]
    struct Line {
        id: String,
        #[serde(flatten)]
        record: Record,
    }
    let mut records = BTreeMap::new();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fail = |problem: String| {
            let remedy = "write {\"id\": \"presto/fig15-stride\", \"status\": \"holds\"}, fails, not-run or undecided";
            ConfigError::new(format!("{file}, line {}", n + 1), problem, remedy)
        };
        let Line { id, record } = serde_json::from_str(line).map_err(|e| fail(format!("is no record: {e}")))?;
        if records.insert(id.clone(), record).is_some() {
            return Err(fail(format!("{id} is there twice")));
        }
    }
    Ok(records)
}
