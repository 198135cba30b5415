//! What records of runs say (`results/PAPER.jsonl`): one JSON object a result and mode, with at least `id` and `status`. The binary
//! has the records that were there when it was built.

use super::file::Mode;
use super::fingerprint::configuration;
use config::ConfigError;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

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
    pub id: String,
    pub status: Recorded,
    /// None for a run on real hosts.
    pub mode: Option<Mode>,
    /// Hash of the scenario and the checks that were run, if the record has it.
    pub configuration: Option<String>,
    /// Hash of the simulator's sources then, if the record has it.
    pub sources: Option<String>,
}

/// Result id to what its record says.
pub type Records = BTreeMap<String, Recorded>;

/// What the records in the binary say, of all papers; see [`current`].
///
/// # Errors
/// A line that does not read, with the file and the line's number; an experiment that does not.
pub fn records() -> Result<Records, ConfigError> {
    let mut all = Vec::new();
    for (file, text) in embedded_records() {
        all.extend(read_records(file, text)?);
    }
    Ok(statuses(&current(all)?))
}

/// The files of records in the binary, as (name, text).
pub(super) fn embedded_records() -> impl Iterator<Item = (&'static str, &'static str)> {
    embedded::RECORDS.iter().copied()
}

/// The record that counts for each result: of a full run rather than of a quick one. Records of results whose scenario or checks have
/// changed since are left out: these were not run as they are now.
///
/// # Errors
/// An experiment in the binary that does not read.
pub fn current(records: Vec<Record>) -> Result<BTreeMap<String, Record>, ConfigError> {
    let mut now: BTreeMap<String, Record> = BTreeMap::new();
    let experiments = if records.is_empty() { Vec::new() } else { super::catalogue()? };
    for record in records {
        let found = experiments.iter().find_map(|e| Some((e, e.results.iter().find(|result| result.id == record.id)?)));
        let stale = match (&record.configuration, found) {
            (Some(then), Some((experiment, result))) => {
                configuration(experiment, result, record.mode.unwrap_or(Mode::Full))? != *then
            }
            _ => false,
        };
        if !stale && now.get(&record.id).is_none_or(|known| known.mode < record.mode) {
            now.insert(record.id.clone(), record);
        }
    }
    Ok(now)
}

/// What the records say.
pub fn statuses(records: &BTreeMap<String, Record>) -> Records {
    records.iter().map(|(id, record)| (id.clone(), record.status)).collect()
}

/// Records of one file: one JSON object a line, of which [`Record`]'s fields are read.
///
/// # Errors
/// The first line that is no such object, or whose id and mode stand in an earlier line.
pub fn read_records(file: &str, text: &str) -> Result<Vec<Record>, ConfigError> {
    let mut known = BTreeSet::new();
    let mut records = Vec::new();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fail = |problem: String| {
            let remedy = "write {\"id\": \"presto/fig15-stride\", \"status\": \"holds\"}, fails, not-run or undecided";
            ConfigError::new(format!("{file}, line {}", n + 1), problem, remedy)
        };
        let record: Record = serde_json::from_str(line).map_err(|e| fail(format!("is no record: {e}")))?;
        if !known.insert((record.id.clone(), record.mode)) {
            let mode = record.mode.map(|mode| format!(" ({})", mode.name())).unwrap_or_default();
            return Err(fail(format!("{}{mode} is there twice", record.id)));
        }
        records.push(record);
    }
    Ok(records)
}
