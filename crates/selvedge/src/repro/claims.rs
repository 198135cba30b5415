//! `selvedge repro --catalogue`: every published claim with its status, and their counts.

use super::catalogue::{catalogues, Catalogue, Status};
use super::file::Mode;
use super::kept::Kept;
use super::measured::on_real_hosts;
use super::records::Records;
use crate::Failure;
use config::{closest, ConfigError};
use serde_json::{json, Map, Value};

/// # Errors
/// A paper that has no catalogue, or records that do not read.
pub(super) fn print(paper: Option<&str>, as_json: bool) -> Result<(), Failure> {
    let catalogues = select(catalogues()?, paper)?;
    let kept = Kept::read(None)?;
    let records = &kept.statuses;
    for catalogue in &catalogues {
        for entry in &catalogue.entries {
            match as_json {
                true => crate::say::json(&entry.json(records, kept.on_real_hosts(entry))),
                false => {
                    say!("{:<34}  {:<15}  {}", entry.id, entry.status(records).word(), entry.what);
                    if !entry.cause.is_empty() {
                        say!("{:<34}  cause shown by: {}", "", entry.cause.join(", "));
                    }
                    for (key, text) in entry.remarks() {
                        say!("{:<34}  {key}: {text}", "");
                    }
                    if let Some(record) = kept.on_real_hosts(entry) {
                        say!("{:<34}  on real hosts: {}", "", on_real_hosts(record));
                    }
                }
            }
        }
    }
    if as_json {
        catalogues.iter().for_each(|catalogue| crate::say::json(&counts(catalogue, records)));
        return Ok(());
    }
    say!();
    let words: String = Status::ALL.iter().map(|status| format!("  {}", status.word())).collect();
    say!("{:<10}  entries{words}", "paper");
    for catalogue in &catalogues {
        let numbers: String = (Status::ALL.iter())
            .map(|&status| format!("  {:>wide$}", count(catalogue, records, status), wide = status.word().len()))
            .collect();
        say!("{:<10}  {:>7}{numbers}", catalogue.paper, catalogue.entries.len());
    }
    let (full, other) =
        (kept.counting().filter(|(record, _)| record.mode == Some(Mode::Full)).count(), kept.of_other_sources());
    say!();
    say!("{} results have a record that counts, {full} of a full run; {other} were measured by other sources of the simulator", kept.counting().count());
    Ok(())
}

fn select(all: Vec<Catalogue>, paper: Option<&str>) -> Result<Vec<Catalogue>, ConfigError> {
    let Some(wanted) = paper else { return Ok(all) };
    let names: Vec<String> = all.iter().map(|catalogue| catalogue.paper.clone()).collect();
    let found: Vec<Catalogue> = all.into_iter().filter(|catalogue| catalogue.paper == wanted).collect();
    if found.is_empty() {
        let near = closest(wanted, names.iter().map(String::as_str)).map(|near| format!("did you mean {near}? "));
        let remedy = format!("{}there are {}", near.unwrap_or_default(), names.join(", "));
        return Err(ConfigError::new("--catalogue", format!("there is no catalogue of {wanted:?}"), remedy));
    }
    Ok(found)
}

pub(super) fn count(catalogue: &Catalogue, records: &Records, status: Status) -> usize {
    catalogue.entries.iter().filter(|entry| entry.status(records) == status).count()
}

/// `paper`, `entries`, and under `counts` one number a status.
fn counts(catalogue: &Catalogue, records: &Records) -> Value {
    let counts: Map<String, Value> = (Status::ALL.iter())
        .map(|&status| (status.word().to_owned(), count(catalogue, records, status).into()))
        .collect();
    json!({ "paper": catalogue.paper, "entries": catalogue.entries.len(), "counts": counts })
}
