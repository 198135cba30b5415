//! `selvedge repro`: selects experiments, runs the points that their results need, and prints the verdicts.

use super::archives::Archives;
use super::arguments::Repro;
use super::file::{Experiment, Mode};
use super::looks::run_looks;
use super::once::{run_experiment, Ran};
use super::select::{list, select};
use crate::output::{self, Extras, Staging};
use crate::report::{Cell, CheckReport, CheckStatus, ReportData};
use crate::run::default_threads;
use crate::{figures, Failure};
use config::ConfigError;
use std::path::Path;
use std::time::Instant;

/// True if every selected check holds.
///
/// # Errors
/// An id that does not exist, a file that does not read, a run that fails, a directory that cannot be written.
pub fn run(arguments: &Repro) -> Result<bool, Failure> {
    if let Some(paper) = &arguments.catalogue {
        return super::claims::print(paper.as_deref(), arguments.json).map(|()| true);
    }
    if let Some(dir) = &arguments.site {
        return site(dir, arguments).map(|()| true);
    }
    if let Some(root) = &arguments.tables {
        let written = super::tables::write(root)?;
        say!("{}", if written.is_empty() { "nothing has changed".to_owned() } else { written.join(", ") });
        return Ok(true);
    }
    let threads = arguments.threads.unwrap_or_else(default_threads);
    if arguments.check_records {
        return super::again::check(arguments.records.as_deref(), arguments.hours.unwrap_or(0.25), threads);
    }
    if arguments.records.is_some() {
        let remedy = "add --site or --check-records; --archive DIR keeps records";
        return Err(ConfigError::new("--records", "says where to read records, and nothing reads them", remedy).into());
    }
    if arguments.real_hosts {
        return super::real_hosts::run(arguments);
    }
    let selected = select(&arguments.ids)?;
    if arguments.list {
        list(&selected, arguments.json)?;
        return Ok(true);
    }
    let mode = match (arguments.full, arguments.paper) {
        (true, _) => Mode::Full,
        (_, true) => Mode::Paper,
        _ => Mode::Quick,
    };
    let mut staging = arguments.output.as_deref().map(|dir| Staging::new(dir, arguments.force)).transpose()?;
    let mut kept = Ok(());
    let mut lines = String::new();
    let mut all = Vec::new();
    let mut archives = Archives::new(arguments, mode);
    let mut plan = archives.plan(selected, arguments)?;
    for n in 0..plan.len() {
        let (done, later) = plan.split_at_mut(n + 1);
        let Some(wanted) = done.last_mut() else { break };
        if !archives.admit(wanted, later) {
            continue;
        }
        let experiment = &wanted.experiment;
        let is_wanted = |id: &str| wanted.ids.iter().any(|wanted| wanted == id);
        let ran = match mode {
            Mode::Full => run_looks(experiment, threads, wanted.limit, &is_wanted)?,
            Mode::Quick | Mode::Paper => run_experiment(experiment, mode, threads, &is_wanted)?,
        };
        archives.keep(wanted, &ran.judged, later)?;
        for judged in &ran.judged {
            let line = judged.json();
            match arguments.json {
                true => crate::say::json(&line),
                false => say!("{}", judged.text()),
            }
            lines += &line.to_string();
            lines.push('\n');
        }
        // A disk that is full costs the files, not the verdicts that follow.
        if let Some(writing) = staging.take() {
            match write(&ran, experiment, mode, &writing) {
                Ok(()) => staging = Some(writing),
                Err(failure) => kept = Err(failure),
            }
        }
        all.extend(ran.judged);
    }
    if let Some(staging) = staging {
        kept = staging.write("results.jsonl", lines).and_then(|()| staging.commit()).map_err(Failure::from);
    }
    let having = |status| all.iter().filter(|j| j.undecided.is_none() && j.status == status).count();
    let holding = having(CheckStatus::Holds);
    if !arguments.json {
        let (fail, not_run) = (having(CheckStatus::Fails), having(CheckStatus::NotRun));
        let undecided = all.len() - holding - fail - not_run;
        let undecided =
            if mode == Mode::Full || undecided > 0 { format!(", {undecided} undecided") } else { String::new() };
        say!("{} results ({}): {holding} hold, {fail} fail, {not_run} not run{undecided}", all.len(), mode.name());
        if archives.there > 0 {
            say!("{} more have a record of this configuration: --again runs them, too", archives.there);
        }
        if archives.beyond > 0 {
            say!("{} more would take longer than --hours: they have no record", archives.beyond);
        }
        if let Some(dir) = arguments.output.as_ref().filter(|_| kept.is_ok()) {
            say!("Results: {}", dir.display());
        }
    }
    kept?;
    Ok(holding == all.len() && archives.beyond == 0)
}

#[allow(clippy::disallowed_methods, reason = "how long it took is part of the report")]
fn site(dir: &Path, arguments: &Repro) -> Result<(), Failure> {
    let begun = Instant::now();
    let pages = super::site::write(dir, arguments.records.as_deref(), arguments.force)?;
    say!("{pages} pages in {:.1} s: {}", begun.elapsed().as_secs_f64(), dir.join("index.html").display());
    Ok(())
}

/// Results, metrics and configuration of each point, and one report for the experiment.
fn write(ran: &Ran, experiment: &Experiment, mode: Mode, staging: &Staging) -> Result<(), Failure> {
    let stem = experiment.file.trim_end_matches(".toml").rsplit('/').next().unwrap_or("experiment");
    for at in &ran.points {
        let label = at.label.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
        let prefix = if label.is_empty() { format!("{stem}.") } else { format!("{stem}.{label}.") };
        output::write(&at.results, staging, &prefix, &Extras::default())?;
    }
    let ids: Vec<&str> = ran.judged.iter().map(|j| j.published.id.as_str()).collect();
    let command = format!("selvedge repro --{} {}", mode.name(), ids.join(" "));
    staging.write(&format!("{stem}.html"), crate::report::render(&report(ran, &command)))?;
    Ok(())
}

/// One report of all points, with the checks.
pub fn report(ran: &Ran, command: &str) -> ReportData {
    let parts = ran.points.iter().map(|at| (at.label.as_str(), figures::report(&at.results, command))).collect();
    let mut data = figures::merge(parts);
    for judged in &ran.judged {
        for (check, verdict) in judged.published.checks.iter().zip(&judged.verdicts) {
            let paper = check.paper.as_ref().map(|p| p.as_str().map_or_else(|| p.to_string(), str::to_owned));
            data.checks.push(CheckReport {
                id: judged.published.id.clone(),
                source: judged.published.source.clone(),
                text: check.text.clone(),
                paper: paper.unwrap_or_default(),
                measured: verdict.measured(&check.unit),
                paper_value: check.paper.as_ref().and_then(|p| p.as_float().or_else(|| Some(p.as_integer()? as f64))),
                values: verdict.values().map(|(value, ci)| Cell { value: Some(value), ci, note: None }).collect(),
                status: verdict.status,
                reason: verdict.reason.clone(),
                absolute: check.absolute,
            });
        }
    }
    data
}
