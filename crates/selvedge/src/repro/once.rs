//! A run with the scenario's own seeds.

use super::cost::processor_time;
use super::file::{Experiment, Mode};
use super::judge::{judge, At, Judged};
use crate::results::Results;
use crate::run::{run_all, Bar};
use crate::Failure;
use std::time::Instant;

/// An experiment, run and judged.
pub struct Ran {
    pub points: Vec<At>,
    pub judged: Vec<Judged>,
}

/// Runs the points that the wanted results need, then judges these.
///
/// # Errors
/// A scenario that makes no sense at a point, or a run that fails.
#[allow(clippy::disallowed_methods, reason = "how long it took is part of the report")]
pub fn run_experiment(
    experiment: &Experiment,
    mode: Mode,
    threads: usize,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Ran, Failure> {
    let (begun, used) = (Instant::now(), processor_time());
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
    let core_s = processor_time().saturating_sub(used).as_secs_f64();
    let judge = |result| Judged { core_s, ..judge(result, &done, mode.name(), wall_s) };
    let judged = results.into_iter().map(judge).collect();
    Ok(Ran { points: done, judged })
}
