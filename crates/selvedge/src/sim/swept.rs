//! A scenario with a `[sweep]`: all of its points, one after another.

use super::{capture, command, estimate, extras, no_series, print, Run};
use crate::axes::SweepTable;
use crate::figures::{self, Part};
use crate::output::{self, Staging, SweepCsv};
use crate::results::Results;
use crate::run::{default_threads, run_all, Bar};
use crate::scenario::{Choice, Plan, Room};
use crate::Failure;
use config::{both, closest, ConfigError, Document};
use serde_json::json;

struct Point {
    label: String,
    value: Option<String>,
    number: Option<f64>,
    plan: Plan,
}

/// # Errors
/// A scenario that makes no sense at a point, a directory that cannot be written, a run that fails.
pub(super) fn run(arguments: &Run, document: &Document, sweep: &SweepTable) -> Result<(), Failure> {
    let threads = arguments.threads.unwrap_or_else(default_threads);
    let points = points(arguments, document, sweep, threads)?;
    if arguments.estimate {
        let plans: Vec<_> = points.iter().map(|point| estimate::all(&point.plan)).collect();
        return estimate::print(&plans, threads, arguments.json);
    }
    let mut staging = arguments.output.as_deref().map(|dir| Staging::new(dir, arguments.force)).transpose()?;
    let mut kept = Ok(());
    let mut csv = SweepCsv::new(&sweep.name)?;
    let (mut parts, mut objects) = (Vec::new(), Vec::new());
    let bar = Bar::new(points.iter().map(|point| &point.plan));
    for Point { label, value, number, plan } in points {
        let finished = run_all(&plan, threads, &bar)?;
        let results = Results::new(plan, finished);
        csv.add(&label, value.as_deref(), &results)?;
        // A disk that is full costs the files, not the tables that follow.
        if let Some(writing) = staging.take() {
            match output::write(&results, &writing, &format!("{}.", file_name(&label)), &extras(arguments)) {
                Ok(()) => staging = Some(writing),
                Err(failure) => kept = Err(Failure::from(failure)),
            }
        }
        match arguments.json {
            true => objects.push(json!({"point": label, "value": value, "results": output::metrics(&results)})),
            false => bar.suspend(|| {
                print(&results, &label);
                if arguments.output.is_some() {
                    no_series(&results);
                }
                say!();
            }),
        }
        if staging.is_some() {
            parts.push(Part { label, number, data: figures::report(&results, &command(arguments)) });
        }
    }
    bar.finish();
    if arguments.json {
        crate::say::json(&json!({"sweep": sweep.name, "points": objects}));
    }
    if let Some(staging) = staging {
        staging.write("sweep.csv", csv.finish()?)?;
        output::write_report(&staging, &figures::swept(&sweep.name, parts))?;
        staging.commit()?;
        if let Some(dir) = arguments.output.as_ref().filter(|_| !arguments.json) {
            say!("Results: {}  Report: {}", dir.join("sweep.csv").display(), dir.join("report.html").display());
        }
    }
    kept
}

/// All points, or those that `--at` names, each checked before the first runs.
fn points(arguments: &Run, document: &Document, sweep: &SweepTable, threads: usize) -> Result<Vec<Point>, ConfigError> {
    let labels = sweep.labels();
    for at in &arguments.at {
        if !labels.contains(at) {
            let near = closest(at, labels.iter().map(String::as_str)).map(|near| format!("did you mean {near:?}? "));
            let remedy = format!("{}there are {}", near.unwrap_or_default(), labels.join(", "));
            return Err(ConfigError::new("--at", format!("the sweep has no point {at:?}"), remedy));
        }
    }
    let chosen = |label: &String| arguments.at.is_empty() || arguments.at.contains(label);
    sweep.check_set(&arguments.set, (0..labels.len()).filter(|&n| chosen(&labels[n])), document)?;
    let choice = Choice { schemes: arguments.scheme.clone(), seeds: arguments.seeds.clone() };
    let mut points = Ok(Vec::new());
    for (n, label) in labels.into_iter().enumerate() {
        if !chosen(&label) {
            continue;
        }
        let planned = plan_at(arguments, document, (sweep, n), &choice, threads);
        points = both(points, planned).map(|(mut points, plan)| {
            points.push(Point { label, value: sweep.value(n), number: sweep.number(n), plan });
            points
        });
        if points.as_ref().is_err_and(ConfigError::is_full) {
            break;
        }
    }
    points
}

fn plan_at(
    arguments: &Run,
    document: &Document,
    (sweep, n): (&SweepTable, usize),
    choice: &Choice,
    threads: usize,
) -> Result<Plan, ConfigError> {
    let mut document = document.clone();
    sweep.apply(n, &mut document)?;
    let mut plan = Plan::within(&document, choice, Room { most: arguments.memory, threads })?;
    plan.modelled()?;
    if let Some(link) = &arguments.capture {
        capture(&mut plan, link)?;
    }
    Ok(plan)
}

/// A label as part of a file's name. What has no place there becomes its number in Unicode, so that two labels never share one.
fn file_name(label: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=-.+,".contains(c);
    let mut name = String::new();
    for c in label.chars() {
        match plain(c) {
            true => name.push(c),
            false => name += &format!("_{:x}_", u32::from(c)),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_names_of_files() {
        assert_eq!(file_name("load=0.6"), "load=0.6");
        assert_eq!(file_name("../a b"), ".._2f_a_20_b");
        assert_ne!(file_name("a b"), file_name("a_20_b"));
    }
}
