//! `selvedge repro`: selects experiments, runs the points that their results need, and prints the verdicts.

use super::archive::{configuration, Archive};
use super::file::{Experiment, Mode};
use super::judge::{judge, At, Judged};
use super::looks::run_looks;
use crate::cli::Repro;
use crate::output::{self, Extras, Staging};
use crate::report::{Cell, CheckReport, CheckStatus, ReportData};
use crate::results::Results;
use crate::run::{default_threads, run_all, Bar};
use crate::{figures, input, Failure};
use config::{closest, ConfigError};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// An experiment, run and judged.
pub struct Ran {
    pub points: Vec<At>,
    pub judged: Vec<Judged>,
}

/// True if every selected check holds.
///
/// # Errors
/// An id that does not exist, a file that does not read, a run that fails, a directory that cannot be written.
pub fn run(arguments: &Repro) -> Result<bool, Failure> {
    if let Some(paper) = &arguments.catalogue {
        return super::claims::print(paper.as_deref(), arguments.json).map(|()| true);
    }
    if let Some(dir) = &arguments.site {
        let pages = super::site::write(dir, arguments.records.as_deref(), arguments.force)?;
        say!("{pages} pages: {}", dir.join("index.html").display());
        return Ok(true);
    }
    let selected = select(&arguments.ids)?;
    if arguments.list {
        list(&selected, arguments.json);
        return Ok(true);
    }
    let mode = match (arguments.full, arguments.paper) {
        (true, _) => Mode::Full,
        (_, true) => Mode::Paper,
        _ => Mode::Quick,
    };
    let mut staging = arguments.output.as_deref().map(|dir| Staging::new(dir, arguments.force)).transpose()?;
    let mut kept = Ok(());
    let threads = arguments.threads.unwrap_or_else(default_threads);
    let mut lines = String::new();
    let mut all = Vec::new();
    let mut archives = Archives::new(arguments, selected.len());
    for (experiment, ids) in &selected {
        let (ids, limit) = archives.left(experiment, ids)?;
        if ids.is_empty() {
            continue;
        }
        let wanted = |id: &str| ids.iter().any(|wanted| wanted == id);
        let ran = match mode {
            Mode::Full => run_looks(experiment, threads, limit, &wanted)?,
            Mode::Quick | Mode::Paper => run_experiment(experiment, mode, threads, &wanted)?,
        };
        archives.keep(experiment, &ran.judged)?;
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
        let undecided = if mode == Mode::Full { format!(", {undecided} undecided") } else { String::new() };
        say!("{} results ({}): {holding} hold, {fail} fail, {not_run} not run{undecided}", all.len(), mode.name());
        if archives.there > 0 {
            say!("{} more have a record of this configuration: --again runs them, too", archives.there);
        }
        if let Some(dir) = arguments.output.as_ref().filter(|_| kept.is_ok()) {
            say!("Results: {}", dir.display());
        }
    }
    kept?;
    Ok(holding == all.len())
}

/// Runs the points that the wanted results need, then judges these.
///
/// # Errors
/// A scenario that makes no sense at a point, or a run that fails.
#[allow(clippy::disallowed_methods)] // how long it took is part of the report
pub fn run_experiment(
    experiment: &Experiment,
    mode: Mode,
    threads: usize,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Ran, Failure> {
    let begun = Instant::now();
    let results: Vec<_> = experiment.results.iter().filter(|r| wanted(&r.id)).collect();
    let points = experiment.points(mode, &|label| results.iter().any(|r| r.needs(label)))?;
    let bar = Bar::new(points.iter().map(|p| &p.plan));
    let mut done = Vec::new();
    for point in points {
        let finished = run_all(&point.plan, threads, &bar)?;
        let results = Results::new(point.plan, finished);
        done.push(At { label: point.label, parameter: point.parameter, results });
    }
    bar.finish();
    let wall_s = begun.elapsed().as_secs_f64();
    let judged = results.into_iter().map(|r| judge(r, &done, mode.name(), wall_s)).collect();
    Ok(Ran { points: done, judged })
}

/// Records of the papers that are run, where `--archive` asks for them.
struct Archives<'a> {
    arguments: &'a Repro,
    papers: BTreeMap<String, Archive>,
    /// Results that had a record.
    there: usize,
    /// Experiments that were not looked at yet.
    left: usize,
}

impl<'a> Archives<'a> {
    fn new(arguments: &'a Repro, experiments: usize) -> Archives<'a> {
        Archives { arguments, papers: BTreeMap::new(), there: 0, left: experiments }
    }

    /// What of these results is to be run, and the processor time that the experiment may take: twice its share of what is
    /// left of the paper's.
    fn left(&mut self, experiment: &Experiment, ids: &[String]) -> Result<(Vec<String>, Duration), Failure> {
        let left = self.left.max(1);
        self.left = left - 1;
        let whole = Duration::from_secs_f64(self.arguments.hours * 3600.0);
        let Some(dir) = &self.arguments.archive else { return Ok((ids.to_vec(), whole)) };
        let paper = paper(experiment);
        if !self.papers.contains_key(paper) {
            self.papers.insert(paper.to_owned(), Archive::open(dir, paper)?);
        }
        let archive = &self.papers[paper];
        let spent = Duration::from_secs_f64(archive.core_s());
        let share = whole.saturating_sub(spent) * 2 / u32::try_from(left).unwrap_or(u32::MAX);
        let mut run = Vec::new();
        for result in experiment.results.iter().filter(|result| ids.contains(&result.id)) {
            let there = !self.arguments.again && archive.has(&result.id, &configuration(experiment, result)?);
            if there {
                self.there += 1;
            } else {
                run.push(result.id.clone());
            }
        }
        Ok((run, share))
    }

    fn keep(&mut self, experiment: &Experiment, judged: &[Judged]) -> Result<(), Failure> {
        let Some(archive) = self.papers.get_mut(paper(experiment)) else { return Ok(()) };
        for one in judged {
            let configuration = configuration(experiment, &one.published)?;
            archive.keep(&experiment.file, &configuration, std::slice::from_ref(one))?;
        }
        Ok(())
    }
}

/// By which an archive's file is named: the paper of an experiment in the binary, else the experiment's own name.
fn paper(experiment: &Experiment) -> &str {
    let file = experiment.file.as_str();
    match super::embedded().any(|(known, _)| known == file) {
        true => file.split('/').next().unwrap_or_default(),
        false => Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or("experiment"),
    }
}

type Selected = Vec<(Experiment, Vec<String>)>;

/// Experiments with the ids wanted of each. An argument is an id, a group such as `presto` or `presto/fig15`, or a file.
fn select(arguments: &[String]) -> Result<Selected, ConfigError> {
    let catalogue = super::catalogue()?;
    let mut selected: Selected = Vec::new();
    let mut add = |experiment: &Experiment, wanted: &dyn Fn(&str) -> bool| {
        let ids: Vec<String> = experiment.results.iter().map(|r| r.id.clone()).filter(|id| wanted(id)).collect();
        if ids.is_empty() {
            return false;
        }
        match selected.iter_mut().find(|(e, _)| e.file == experiment.file) {
            Some((_, known)) => {
                for id in ids {
                    if !known.contains(&id) {
                        known.push(id);
                    }
                }
            }
            None => selected.push((experiment.clone(), ids)),
        }
        true
    };
    if arguments.is_empty() {
        catalogue.iter().for_each(|e| {
            add(e, &|_| true);
        });
    }
    for argument in arguments {
        if argument.ends_with(".toml") && Path::new(argument).is_file() {
            let fail = |problem: String, remedy: &str| ConfigError::new(argument.clone(), problem, remedy);
            let experiment = Experiment::read(input::scenario(Path::new(argument))?)?;
            if !add(&experiment, &|_| true) {
                return Err(fail("has no [[result]]".to_owned(), "run it with: selvedge sim run"));
            }
            continue;
        }
        let group = argument.strip_suffix('*').unwrap_or(argument);
        let below = |id: &str| {
            let rest = id.strip_prefix(group);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '-']) || group.ends_with('/'))
        };
        let mut found = false;
        for experiment in &catalogue {
            found |= add(experiment, &below);
        }
        if !found {
            let ids = catalogue.iter().flat_map(|e| &e.results).map(|r| r.id.as_str());
            let near = closest(argument, ids).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
            return Err(ConfigError::new(
                "repro",
                format!("there is no result {argument:?}"),
                format!("{near}see selvedge repro --list"),
            ));
        }
    }
    Ok(selected)
}

fn list(selected: &Selected, as_json: bool) {
    let wide = selected.iter().flat_map(|(_, ids)| ids).map(String::len).max().unwrap_or(0);
    for (experiment, ids) in selected {
        for result in experiment.results.iter().filter(|r| ids.contains(&r.id)) {
            if as_json {
                let checks: Vec<&str> = result.checks.iter().map(|c| c.text.as_str()).collect();
                crate::say::json(&json!({
                    "id": result.id, "source": result.source, "what": result.what, "file": experiment.file,
                    "checks": checks, "notes": result.notes,
                }));
            } else {
                say!("{:<wide$}  {}  [{}]", result.id, result.what, result.source);
            }
        }
    }
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
            });
        }
    }
    data
}
