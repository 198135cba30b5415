//! `selvedge sweep`.

use super::arguments::Sweep;
use super::jobs::{Job, Jobs};
use super::store::{described, Store, METRICS};
use super::{tables, work};
use crate::run::default_threads;
use crate::scenario::{Choice, Room};
use crate::sim::estimate;
use crate::{interrupt, reading, Failure};
use serde_json::{json, Value};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// True if all went well; false if a job failed.
///
/// # Errors
/// A scenario that makes no sense at some point, a directory that cannot be used.
pub(crate) fn run(arguments: &Sweep) -> Result<bool, Failure> {
    let (document, axes) = reading::parts(&arguments.scenario, &arguments.set)?;
    if let Some(axes) = &axes {
        axes.check_set(&arguments.set, &arguments.at, &document)?;
    }
    let taken = axes.as_ref().and_then(|axes| axes.names().find(|name| tables::COLUMNS.contains(name)));
    if let Some(name) = taken {
        let invalid = config::Invalid::new(
            "sweep",
            format!("an axis is called {name:?}, as a column of the results"),
            "give it another name",
        );
        return Err(document.error(&invalid).into());
    }
    let at_once = arguments.jobs.unwrap_or_else(default_threads);
    let choice = Choice { schemes: arguments.scheme.clone(), seeds: arguments.seeds.clone() };
    let room = Room { most: arguments.memory, threads: at_once };
    let jobs = Jobs::new(&document, axes.as_ref(), &arguments.at, &choice, room)?;
    if arguments.estimate {
        jobs.fit(&jobs.all)?;
        let plans = jobs.plans(&choice)?;
        let runs = plans.iter().map(|(plan, seeds)| (plan, *seeds)).collect();
        return estimate::print(&[runs], at_once, arguments.json).map(|()| true);
    }
    let dir = arguments.output.clone().unwrap_or_else(|| beside(&arguments.scenario));
    let store = Store::at(&dir, arguments.flows)?;
    let answer = Answer { arguments, dir: &dir, store: &store, jobs: &jobs };
    if let Some(start) = &arguments.job {
        let job = jobs.named(start)?;
        let wanted: Vec<&Job> = Some(job).filter(|job| !store.done(&job.hash)).into_iter().collect();
        let done = work::run(&jobs, &wanted, &store, 1, arguments.flows)?;
        return Ok(answer.ended(std::slice::from_ref(job), &done));
    }
    if arguments.list {
        answer.list(&jobs.all, &work::Done::default());
        return Ok(true);
    }
    let mut seen = HashSet::new();
    let wanted = jobs.all.iter().filter(|job| !store.done(&job.hash) && seen.insert(job.hash.as_str()));
    let wanted: Vec<&Job> = wanted.collect();
    // Whoever lists jobs, runs one, or gathers what others ran need not have room for all.
    jobs.fit(wanted.iter().copied())?;
    store.index(&jobs)?;
    interrupt::say("interrupted; the jobs that were done are kept, and the same command runs the rest");
    let done = work::run(&jobs, &wanted, &store, at_once, arguments.flows)?;
    store.tidy(&jobs);
    tables::gather(&store, &jobs)?;
    Ok(answer.ended(&jobs.all, &done))
}

/// `out/` and the name of the file.
fn beside(scenario: &Path) -> PathBuf {
    Path::new("out").join(scenario.file_stem().unwrap_or("sweep".as_ref()))
}

/// What the command prints of jobs.
struct Answer<'a> {
    arguments: &'a Sweep,
    dir: &'a Path,
    store: &'a Store,
    jobs: &'a Jobs,
}

impl Answer<'_> {
    /// True if no job failed.
    fn ended(&self, shown: &[Job], done: &work::Done) -> bool {
        let Answer { arguments, store, .. } = self;
        for (hash, why) in &done.failed {
            crate::say::note(&format!("job {hash}: {why}"));
        }
        match arguments.json {
            true => self.list(shown, done),
            false => {
                let there = shown.iter().filter(|job| store.done(&job.hash)).count();
                let (all, ran, failed) = (shown.len(), done.ran, done.failed.len());
                let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
                let table = if arguments.job.is_some() {
                    store.path(&Store::file(&shown[0].hash))
                } else {
                    store.path(METRICS)
                };
                say!("{there} of {all} jobs are done, {ran} of them now{failed}. Results: {}", table.display());
            }
        }
        done.failed.is_empty()
    }

    fn list(&self, shown: &[Job], done: &work::Done) {
        let Answer { arguments, dir, store, jobs } = self;
        if arguments.json {
            let all: Vec<Value> = shown
                .iter()
                .map(|job| {
                    let mut object = described(jobs, job);
                    object["done"] = store.done(&job.hash).into();
                    object["file"] = Store::file(&job.hash).into();
                    object
                })
                .collect();
            let failed: Vec<Value> = done.failed.iter().map(|(hash, why)| json!({"job": hash, "why": why})).collect();
            let there = all.iter().filter(|job| job["done"] == true).count();
            crate::say::json(&json!({
                "version": env!("CARGO_PKG_VERSION"), "directory": dir.display().to_string(), "axes": jobs.axes,
                "jobs": all, "done": there, "ran": done.ran, "failed": failed,
            }));
            return;
        }
        let label = |job: &Job| jobs.points[job.point].label.clone();
        let width = |of: &dyn Fn(&Job) -> usize| shown.iter().map(of).max().unwrap_or(0);
        let (points, schemes) = (width(&|job| label(job).chars().count()), width(&|job| job.scheme.len()));
        for job in shown {
            let state = if store.done(&job.hash) { "done" } else { "-" };
            say!("{}  {:<points$}  {:<schemes$}  seed {:<6} {state}", job.hash, label(job), job.scheme, job.seed);
        }
        let there = shown.iter().filter(|job| store.done(&job.hash)).count();
        say!("{there} of {} jobs are done in {}", shown.len(), dir.display());
    }
}
