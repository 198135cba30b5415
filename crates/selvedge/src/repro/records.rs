//! What records of runs say (`results/PAPER.jsonl`): one JSON object a result and mode, with at least `id` and `status`. The binary
//! has the records that were there when it was built.

use super::catalogue::{catalogues, Entry};
use super::file::{Check, Mode, Published};
use super::fingerprint::configuration;
pub use super::recorded::{Recorded, Records};
use config::ConfigError;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/records.rs"));
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
    /// What became of each check, if the record has them.
    #[serde(default)]
    pub checks: Vec<Said>,
}

/// What a record says of a check.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Said {
    pub text: String,
    /// None: it was not run.
    pub holds: Option<bool>,
    /// It was absolute then, and decided nothing.
    #[serde(default)]
    pub absolute: bool,
    /// False: its seeds do not decide it.
    pub decided: Option<bool>,
}

impl Record {
    /// As [`Record::verdict`], with the failures that are of direction told apart: by full runs and on real hosts, where an interval
    /// decides.
    pub(super) fn says(&self, checks: &[Check]) -> Recorded {
        let verdict = self.verdict(checks);
        let reversed = |(said, check): (&Said, &Check)| {
            let fails = said.holds == Some(false) && said.decided != Some(false);
            fails && said.text == check.text && !check.absolute && check.holds.is_order()
        };
        match verdict {
            Recorded::Fails
                if matches!(self.mode, None | Some(Mode::Full)) && self.checks.iter().zip(checks).any(reversed) =>
            {
                Recorded::Reversed
            }
            other => other,
        }
    }

    /// What the record says of the result whose checks these are. A check that has become absolute since then decides nothing any more: if
    /// it alone failed or was not run, the others say what became of the result.
    fn verdict(&self, checks: &[Check]) -> Recorded {
        let known = self.checks.iter().map(|said| &said.text).eq(checks.iter().map(|check| &check.text));
        let each = || self.checks.iter().zip(checks);
        // The other way: a check that was absolute then, and decides now.
        let newly =
            |holds| known && each().any(|(said, check)| said.absolute && !check.absolute && said.holds == holds);
        if newly(Some(false)) {
            return Recorded::Fails;
        }
        if newly(None) && self.status == Recorded::Holds {
            return Recorded::NotRun;
        }
        if !known || !matches!(self.status, Recorded::Fails | Recorded::NotRun) {
            return self.status;
        }
        let spoilt = each().any(|(said, check)| check.absolute && !said.absolute && said.holds != Some(true));
        let having = |holds| each().any(|(said, check)| !check.absolute && said.holds == holds);
        match () {
            () if !spoilt => self.status,
            () if having(Some(false)) => Recorded::Fails,
            () if having(None) => Recorded::NotRun,
            () => Recorded::Holds,
        }
    }
}

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

/// The record that counts for each result: of a full run rather than of a quick one. A run on real hosts does not count for what the
/// simulator decides; [`super::kept::Kept::on_real_hosts`] tells of it. Records of results whose scenario or checks have changed
/// since are left out, as are those of claims whose command or checks have: these were not run as they are now. Statuses are those by
/// the checks that decide now.
///
/// # Errors
/// An experiment in the binary that does not read.
pub fn current(records: Vec<Record>) -> Result<BTreeMap<String, Record>, ConfigError> {
    let mut now: BTreeMap<String, Record> = BTreeMap::new();
    let experiments = if records.is_empty() { Vec::new() } else { super::experiments()? };
    let catalogues = if records.iter().any(|record| record.mode.is_none()) { catalogues()? } else { Vec::new() };
    let claim = |id: &str| catalogues.iter().flat_map(|catalogue| &catalogue.entries).find(|entry| entry.id == id);
    for mut record in records {
        let found = experiments.iter().find_map(|e| Some((e, e.results.iter().find(|result| result.id == record.id)?)));
        let claim = claim(&record.id).filter(|_| record.mode.is_none());
        let now_is = match (found, claim) {
            (Some(_), _) if record.mode.is_none() => continue,
            (Some((experiment, result)), _) => {
                Some(configuration(experiment, result, record.mode.unwrap_or(Mode::Full))?)
            }
            (None, claim) => claim.and_then(Entry::configuration),
        };
        let stale = record.configuration.is_some() && now_is.is_some() && record.configuration != now_is;
        if let Some(checks) = found.map(|(_, result)| &result.checks).or(claim.map(|entry| &entry.checks)) {
            record.status = record.says(checks);
        }
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

/// What a line of a file of records says of the result whose checks these are.
pub(super) fn status(line: &serde_json::Value, result: &Published) -> Option<Recorded> {
    Record::deserialize(line).ok().map(|record| record.says(&result.checks))
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
            let problem = format!("{}{mode} is there twice", record.id);
            return Err(ConfigError::new(format!("{file}, line {}", n + 1), problem, "remove one of the lines"));
        }
        records.push(record);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repro::Experiment;
    use serde_json::{json, Value};

    #[test]
    fn a_reversed_order_is_told_by_full_runs_that_decide_it() {
        let (file, text) = crate::repro::embedded().find(|(file, _)| *file == "presto/fig13.toml").unwrap();
        let experiment = Experiment::parse(file, text).unwrap();
        let result = experiment.results.iter().find(|result| result.id == "presto/fig13-flowlet500-tail").unwrap();
        let [order] = &result.checks[..] else { panic!("{:?}", result.checks) };
        let says = |mode: &str, decided: Value| {
            let check = json!({"text": order.text, "holds": false, "decided": decided});
            status(&json!({"id": result.id, "status": "fails", "mode": mode, "checks": [check]}), result).unwrap()
        };
        assert_eq!(says("full", Value::Null), Recorded::Reversed);
        assert_eq!(says("full", json!(false)), Recorded::Fails);
        assert_eq!(says("quick", Value::Null), Recorded::Fails);
    }

    /// acdc/fig3.15-drops has an order, which decides, and an absolute figure.
    #[test]
    fn absolute_checks_decide_nothing_in_older_records_too() {
        let (file, text) = crate::repro::embedded().find(|(file, _)| *file == "acdc/fig3.15.toml").unwrap();
        let experiment = Experiment::parse(file, text).unwrap();
        let result = experiment.results.iter().find(|result| result.id == "acdc/fig3.15-drops").unwrap();
        let [order, absolute] = &result.checks[..] else { panic!("{:?}", result.checks) };
        assert!(absolute.absolute && !order.absolute);
        let says = |before: &str, order_holds: Value, absolute_holds: Value, marked: bool| {
            let line = json!({"id": result.id, "status": before, "mode": "full", "checks": [
                {"text": order.text, "holds": order_holds},
                {"text": absolute.text, "holds": absolute_holds, "absolute": marked},
            ]});
            status(&line, result).unwrap()
        };
        let [yes, no, null] = [json!(true), json!(false), Value::Null];
        assert_eq!(says("fails", yes.clone(), no.clone(), false), Recorded::Holds);
        assert_eq!(says("fails", no.clone(), no.clone(), false), Recorded::Fails);
        assert_eq!(says("fails", null.clone(), no.clone(), false), Recorded::NotRun);
        assert_eq!(says("not-run", yes.clone(), null, false), Recorded::Holds);
        assert_eq!(says("fails", yes.clone(), yes.clone(), false), Recorded::Fails, "its seeds said so");
        assert_eq!(says("fails", yes.clone(), no.clone(), true), Recorded::Fails, "it did not decide that");
        assert_eq!(says("undecided", yes.clone(), no, false), Recorded::Undecided);
        assert_eq!(says("holds", yes.clone(), yes, false), Recorded::Holds);
    }
}
